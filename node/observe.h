/* What a node tells of itself: a task goes from shard to shard, the control shard first, and takes what each has; then
 * it comes home. Nothing is asked of another thread's state but its counters.
 *
 * node/samples.c makes values of metrics.def from it, node/metrics_text.c their text for Prometheus,
 * node/handle_status.c the answer to node_status. */
#ifndef STELE_NODE_OBSERVE_H
#define STELE_NODE_OBSERVE_H

#include "node/controller.h"
#include "node/node.h"
#include "node/slowlog.h"
#include "node/table.h"

/* The views of metrics.def without a label. */
struct stele_views {
#define STELE_METRIC_VIEW(field, kind, name, label, unit, help) int64_t field;
#include "base/metrics.def"
};

struct stele_directory_view {
    const char *path; /* the node's */
    int64_t is_offline, is_full;
    int64_t free_bytes; /* -1 not known */
    int64_t reserve_bytes, partitions;
};

enum { STELE_PEER_VIEWS_MAX = 64 };

/* Of another node; -1: not known, and then not shown. */
struct stele_peer_view {
    int32_t node_id;
    char name[12];
    int64_t fetcher_lag, fetcher_partitions, quorum_lag;
};

struct stele_topic_view {
    UT_hash_handle hh;
    int64_t partitions, bytes, segments, offsets;
    char name[];
};

struct stele_observation {
    /* the asker's */
    struct stele_shard *home;
    void (*done)(struct stele_observation *observation); /* on home, never from inside observe */
    bool with_slow;
    int topics_max;

    enum stele_err err; /* NO_MEMORY: topics, directories or slow requests are missing */
    struct stele_task task;
    int at; /* the shard that is visited */
    enum stele_controller_state state;
    struct stele_views views;
    struct stele_metrics metrics; /* of all shards */
    struct stele_directory_view *directories;
    int directory_count;
    struct stele_peer_view peers[STELE_PEER_VIEWS_MAX];
    int peer_count;
    struct stele_topic_view *topics; /* a table by name */
    struct stele_slow_entry *slow;   /* of all shards, the slowest first */
    int slow_count;
};

/** On the asker's loop; its fields set, the rest zero. */
void stele_observe(struct stele_observation *observation);
/** Gives back what it holds, also of one that never came home. */
void stele_observation_deinit(struct stele_observation *observation);

enum stele_sample_kind { STELE_SAMPLE_COUNTER, STELE_SAMPLE_GAUGE, STELE_SAMPLE_HISTOGRAM };

/** One value. Those of one name follow each other. */
struct stele_sample {
    const char *name, *unit, *help;
    enum stele_sample_kind kind;
    bool is_first;      /* of its name */
    const char *suffix; /* "", or of a histogram "_bucket", "_sum", "_count" */
    const char *label;  /* "" none */
    const char *label_value;
    int64_t value; /* of unit seconds in microseconds, but for _bucket and _count */
    bool is_time;  /* the value is of unit seconds */
    int64_t bound; /* of a _bucket; in microseconds where is_bound_time */
    bool is_bound_time;
};

/** Every value in the order of metrics.def. */
void stele_samples(const struct stele_observation *observation,
                   void (*each)(void *arg, const struct stele_sample *sample), void *arg);

/** Text of Prometheus' format 0.0.4, with one reference. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_metrics_text(const struct stele_observation *observation, struct stele_mem *mem,
                                                   struct stele_buf **out_text);

/** A request was understood; it is answered. On its shard. */
void stele_observe_request(struct stele_server_call *call);
void stele_observe_answer(struct stele_server_call *call);

/* Between the files of observing. */

/** Of a partition as a replica; on its shard. */
void stele_observe__replica(struct stele_observation *observation, const struct stele_partition *partition);
/** Of the cluster and the metadata quorum; on the control shard. */
void stele_observe__cluster(struct stele_observation *observation, const struct stele_controller *control);

/** At the end of the node: observations that the host asked for and that never came home. */
void stele_node_asks_free(struct stele_node *node);

#endif
