/* The broker core: builds the object graph over the envs that a host (or the simulator) hands it. One control shard and
 * num.network.threads data shards; each has an env of its own and is only entered on that env's loop.
 *
 * Life: new -> start (opens directories, recovers as jobs) -> `ready` is called -> connections -> stop -> `stopped` is
 * called -> free. */
#ifndef STELE_NODE_NODE_H
#define STELE_NODE_NODE_H

#include "base/env.h"
#include "base/net.h"
#include "base/settings.h"
#include "base/uuid.h"
#include "node/listeners.h"

struct stele_node;

enum { STELE_SHARD_CONTROL = 0, STELE_SHARD_DATA = 1 }; /* data shards are 1..n */

/** What only the host can know of the process and the machine; -1 where it does not. */
struct stele_host_stats {
    int64_t resident_bytes, anonymous_bytes, peak_bytes; /* RSS; of it no file's; the largest ever */
    int64_t page_cache_bytes;                            /* of the control group, or of the machine */
    int64_t descriptors;
    int64_t cpu_us;
};

struct stele_node_options {
    struct stele_env **envs;         /* [0] control, then data shards */
    struct stele_net **nets;         /* the same order */
    int shard_count;                 /* at least 2 */
    struct stele_settings *settings; /* of node/settings.h; borrowed */
    struct stele_uuid boot_id;       /* of the machine's kernel: another when its memory was lost; zero: not known */
    /* All are called on the control shard's loop. */
    /* Other nodes are needed and come: connections are taken from now on; clients are served after `ready`. Not called
     * for a node that is alone. NULL: nobody listens before `ready`. */
    void (*open)(void *arg);
    void (*ready)(void *arg, enum stele_err err, const struct stele_error *error); /* OK: serving; else start failed */
    void (*stopped)(void *arg, enum stele_err err);
    /* The metadata log or a checkpoint failed: the process must end with `exit_code`. */
    void (*fatal)(void *arg, int exit_code, const struct stele_error *error);
    void (*host_stats)(void *arg, struct stele_host_stats *out_stats); /* NULL: nothing is known */
    /* Of settings that would hold: what only the host can say of them. NULL: nothing. Errors: INVALID_CONFIG. */
    enum stele_err (*check_settings)(void *arg, const struct stele_settings *settings, struct stele_error *error);
    /* They hold from now on; the first time before `ready`. NULL: nobody wants to know. */
    void (*settings_changed)(void *arg, const struct stele_settings *settings);
    void *arg;
};

/* Exit codes of steled (steled --help names them). */
enum { STELE_EXIT_OK = 0, STELE_EXIT_FAILED = 1, STELE_EXIT_USAGE = 2, STELE_EXIT_DIR = 3, STELE_EXIT_STORAGE = 4 };

STELE_MUST_CHECK enum stele_err stele_node_new(const struct stele_node_options *options, struct stele_node **out_node);
void stele_node_start(struct stele_node *node);
/** What is served and told: settled, and set before the first accept (a free port is known late). */
void stele_node_set_listeners(struct stele_node *node, const struct stele_listeners *listeners);
/** The same with one listener that is for everybody, nodes too. */
void stele_node_set_advertised(struct stele_node *node, const char *host, int32_t port);

/** On a data shard's loop: a connection came in by a listener (its place in the listeners that were set).
 * *out_handler and *out_arg are for its life. CLOSED when the node stops. */
STELE_MUST_CHECK enum stele_err stele_node_accept(struct stele_node *node, int shard, int listener,
                                                  struct stele_conn *conn,
                                                  const struct stele_conn_handler **out_handler, void **out_arg);
/** On a shard's loop: monotonic ms of its next deadline (INT64_MAX none), and the call when it has come. */
int64_t stele_node_deadline(struct stele_node *node, int shard);
void stele_node_tick(struct stele_node *node, int shard);
/** From the control shard's loop: the node's metrics as text of Prometheus' format 0.0.4. `done` is called on that
 * loop, never from inside this call, unless the node is freed before; the buffer is the callee's to give back, NULL
 * when memory ran out. Errors: NO_MEMORY (done is not called). */
STELE_MUST_CHECK enum stele_err stele_node_metrics(struct stele_node *node,
                                                   void (*done)(void *arg, struct stele_buf *text), void *arg);
/** From the control shard's loop: true while requests are served; otherwise *out_why is a sentence. */
bool stele_node_is_serving(const struct stele_node *node, char out_why[STELE_ERROR_TEXT_BYTES]);
/** Graceful: refuses new work, answers what waits, closes logs, marks clean. From the control shard's loop. */
void stele_node_stop(struct stele_node *node);
/** After stopped, or as a crash: drops everything without touching a file. Before it the connections are gone with all
 * that they had to send, no job runs any more, and tasks that were posted are never run. */
void stele_node_free(struct stele_node *node);

#endif
