/* The node's settings table (settings.def) and what is made from it. */
#ifndef STELE_NODE_SETTINGS_H
#define STELE_NODE_SETTINGS_H

#include "base/settings.h"
#include "storage/log_config.h"

/** The rows of settings.def. */
const struct stele_setting_row *stele_node_setting_rows(int *out_count);

/** Origins of what was changed at run time. */
#define STELE_ORIGIN_OF_CLUSTER "cluster"
#define STELE_ORIGIN_OF_NODE "node"

enum { STELE_SHARED_SETTINGS = 2 };

/** Settings that mean the same on all nodes of a cluster, by their names as a node's; NULL: no more. A leader and the
 * controller judge a partition by them, each for itself: so what a node was started with counts only for a node that is
 * alone, and for the cluster that it makes (KIP-966 does so with min.insync.replicas). */
const char *stele_node_shared_setting(int at);

/** A log's configuration from settings in which a topic's values were laid over the node's. */
void stele_node_log_config(const struct stele_settings *settings, struct stele_log_config *out_config);

/** Lays a topic's own values over a configuration from the node's. Errors: INVALID_CONFIG; what came before the bad one
 * is laid over then. */
STELE_MUST_CHECK enum stele_err stele_node_overlay_log_config(const char *const *names, const char *const *values,
                                                              int count, struct stele_log_config *inout_config,
                                                              struct stele_error *error);

/** What bounds of single settings cannot say. Errors: INVALID_CONFIG; `error` names the two and the way out. */
STELE_MUST_CHECK enum stele_err stele_node_check_log_config(const struct stele_log_config *config,
                                                            struct stele_error *error);

/** What of memory.limit, a bound on the process, may be memory that is counted (base/mem.h): the rest is for what is
 * not, code, stacks and the allocator's own. 0: no bound. */
int64_t stele_node_memory_budget(const struct stele_settings *settings);

#endif
