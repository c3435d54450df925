/* The inside of a node, shared by the files of this folder. */
#ifndef STELE_NODE_NODE_STRUCT_H
#define STELE_NODE_NODE_STRUCT_H

#include "node/controller.h"
#include "node/node.h"
#include "node/shard.h"

/** Read from the settings once; constant afterwards, but for what is atomic. */
struct stele_node_limits {
    uint32_t frame_bytes_max;
    int64_t fetch_bytes_max;
    int64_t idle_ms;
    int64_t reserve_bytes;
    int64_t retain_ms, expire_ms, checkpoint_ms;
    _Atomic int64_t slow_us; /* slow.request.ms */
    int metrics_topics_max;
    int opening_max; /* partitions that one shard opens at the same time */
    int32_t replica_lag_ms;
    int32_t replica_fetch_bytes_max, replica_fetch_response_bytes_max, replica_fetch_wait_ms, replica_fetch_backoff_ms;
    int64_t replica_timeout_ms;
    _Atomic int64_t move_bytes_per_s; /* replica.alter.log.dirs.io.max.bytes.per.second */
};

/** What shards tell each other of a log directory. */
struct stele_dir_state {
    _Atomic bool has_failed_log; /* gets no clean marker */
    bool is_failed;              /* the control shard's: its partitions were taken offline */
};

/** Tells a shard that a directory failed. */
struct stele_dir_note {
    struct stele_task task;
    struct stele_shard *shard;
    int dir;
};

struct stele_isr_wish;

/** The control plane as the data shards see it; called on the control shard. NULL: it is not there, wishes are answered
 * NOT_CONTROLLER. */
struct stele_cluster_hooks {
    /** In the order in which one shard sent them. At the end of the node nobody is to be answered any more. */
    void (*isr_wish)(void *arg, struct stele_isr_wish *wish);
    /** Its disk or log failed: it stays offline in this life of the node. Told once of each; it may be freed later. */
    void (*partition_failed)(void *arg, struct stele_partition *partition);
    /** Committed records of it are damaged; or they were, and it is whole again. */
    void (*partition_damaged)(void *arg, struct stele_partition *partition, bool is_damaged);
    /** A connection to that node closed, or could not be made: a hint that it is gone. */
    void (*connection_closed)(void *arg, int32_t node_id);
    void *arg;
};

struct stele_node {
    struct stele_node_options options;
    struct stele_mem *mem;
    struct stele_settings *settings; /* that hold now; the control shard's, once the node has started */
    struct stele_node_limits limits;
    struct stele_throttle throttle;
    int32_t node_id;
    _Atomic int64_t node_epoch; /* of this life, as the control shard knows it; -1: not registered */
    struct stele_shard *shards;
    int shard_count;
    struct stele_controller control;
    struct stele_cluster_hooks hooks; /* the control shard's */
    int64_t began_us;                 /* monotonic, when it was made */
    struct stele_list asks;           /* observations for the host (samples.c) */

    /* Constant from `ready` on. */
    struct stele_dir_state *dirs;
    struct stele_dir_note *notes; /* of every directory, for every shard; each is sent once */
    char **dir_paths;
    int dir_count;
    char cluster_id[64];
    _Atomic bool has_cluster_id; /* cluster_id may be read, from before `ready` on */
    _Atomic bool is_ready;       /* clients are served */
    struct stele_listeners listeners;

    _Atomic int64_t move_due_us; /* monotonic, when moves may copy the next bytes */

    bool is_freeing;              /* nothing is sent any more */
    struct stele_list partitions; /* all of them; the control shard's, only grows */
};

/** On the control shard: takes over those limits that may change at run time. */
void stele_node_take_limits(struct stele_node *node);

#endif
