/* A cluster of three whole nodes with one topic of one partition, for tests of what becomes of its replicas. */
#ifndef STELE_CLUSTER_TESTS_TEST_ONE_PARTITION_H
#define STELE_CLUSTER_TESTS_TEST_ONE_PARTITION_H

#include "cluster-tests/sim/cluster_nodes.h"
#include "node/partition.h"

enum { SECOND_US = 1000000 };

extern struct cluster_nodes cluster;
extern struct stele_uuid topic_id;
extern int32_t controller, others[2]; /* who leads the quorum when a test begins, and who does not */

/** Three nodes and one topic of one partition; `replicas` are places: 0 the controller, 1 and 2 the others. */
void begin(uint64_t seed, const int *replicas, size_t count, const char *min_isr);
/** In two halves; with a setting of the nodes, `name` NULL: none. */
void begin_nodes(uint64_t seed, const char *name, const char *value);
void begin_topic(const int *replicas, size_t count, const char *min_isr);
void end(void);

/** What the controller knows of the only partition; NULL: there is no controller, or no topic. */
const struct stele_partition_state *partition(void);
/** Its replica on that node, open; NULL: it has none. */
struct stele_partition *replica(int32_t node_id);
bool are(const struct stele_node_set *set, const int32_t *ids, int count);
bool is_led(struct cluster_nodes *nodes);
bool is_leaderless(struct cluster_nodes *nodes);
/** It is led, all replicas are in sync and none comes or goes. */
bool is_whole(struct cluster_nodes *nodes);
bool lacks_second_other(struct cluster_nodes *nodes);
bool all_registered(struct cluster_nodes *nodes);
bool all_answered(struct cluster_nodes *nodes);

/** Asks the active controller. */
const struct stele_response *ask(const struct stele_request *request);
struct stele_buf *batch_of(int count, int value_bytes);
/** One batch to the leader, until it is answered. */
enum stele_err put(int acks, int count);
enum stele_err put_sized(int acks, int count, int value_bytes);
/** The same to partition 0 of any topic. */
enum stele_err put_to(const struct stele_uuid *id, int32_t node_id, int acks, int count, int value_bytes);
/** Changes one setting at run time; `value` NULL: back. */
enum stele_err alter(enum stele_subject_kind kind, const char *subject, const char *name, const char *value);
/** A metric of node_status; -1: it has none of that name. */
int64_t metric(int32_t node_id, const char *name);
void kill_node(int32_t node_id, enum sim_death death);
void cut(int32_t a, int32_t b, bool is_cut);

#endif
