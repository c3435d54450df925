/* A shard of the node: one event loop's share of the connections and partitions. Code of one shard never touches what
 * another owns; it sends a task there, and the task comes back.
 *
 * Invariants
 *  1. A shard's fields are used on its loop only; `node` and what it says to be constant may be read from any.
 *  2. Tasks sent from one shard to another arrive in the order in which they were sent. */
#ifndef STELE_NODE_SHARD_H
#define STELE_NODE_SHARD_H

#include "base/env.h"
#include "base/net.h"
#include "base/timing_wheel.h"
#include "base/uuid.h"
#include "node/nodes.h"
#include "node/throttle.h"
#include "proto/link.h"
#include "storage/file_cache.h"

struct stele_node;
struct stele_partition;
struct stele_repairs;
struct stele_slowlog;

/** Names a partition for ever. */
struct stele_partition_key {
    struct stele_uuid topic_id;
    int32_t number;
};

enum { STELE_NAMING_MAX = 16, STELE_STRANGERS_MAX = 16 };

/** Partitions whose names are synced by one job. */
struct stele_naming {
    struct stele_job job;
    struct stele_partition *partitions[STELE_NAMING_MAX];
    int count; /* 0: no job runs */
};

/** Brings a view of the nodes to a shard; `next` and `is_sent` are the control shard's. */
struct stele_nodes_note {
    struct stele_task task;
    struct stele_shard *shard;
    struct stele_nodes *sent, *next;
    bool is_sent;
};

/** What the fetchers of a shard have in common. */
struct stele_replica_fetchers {
    struct stele_list all;
    struct stele_link_group group;
    bool has_group, is_stopped;
};

struct stele_shard {
    struct stele_node *node;
    int index; /* STELE_SHARD_CONTROL, or a data shard */
    struct stele_env *env;
    struct stele_net *net;
    struct stele_timing_wheel *wheel;
    struct stele_file_cache *cache;

    struct stele_partition *partitions; /* a table by topic id and number */
    struct stele_list opening;          /* partitions that wait for their turn to be opened */
    int opening_count;                  /* those whose job runs */

    struct stele_list unnamed, unnamed_first; /* partitions whose names are to be synced (partition_name.c) */
    struct stele_naming naming;

    struct stele_list sessions;
    int session_count;
    struct stele_list departures; /* connections that it gave to other shards and that are on their way (departure.c) */
    int64_t last_session_id;
    int64_t strangers_told_ms[STELE_STRANGERS_MAX]; /* by node id: when nodes of another cluster may be told of again */

    struct stele_list cold; /* reads that wait for room under the budget of cold bytes */
    int64_t cold_bytes;     /* being read in */

    struct stele_slowlog *slowlog; /* of a data shard */

    struct stele_list holds; /* ranges that its connections send (handle_fetch.c) */

    /* the data plane of a cluster */
    struct stele_nodes *nodes; /* NULL: none are known */
    struct stele_nodes_note nodes_note;
    struct stele_list wishes; /* under way (node/isr_wish.h) */
    struct stele_replica_fetchers fetchers;
    struct stele_throttled throttled;
    struct stele_repairs *repairs;      /* NULL: nothing was ever damaged */
    struct stele_list replica_sessions; /* of its connections (node/replica_session.h) */

    _Atomic bool is_changed; /* an offset that the checkpoints hold moved since the last round; other shards ask */
    struct stele_timer retain_timer, expire_timer;

    /* stopping */
    bool is_stopping;
    bool is_closed; /* its logs were closed: nothing is opened any more */
    struct stele_task rounds_task, stop_task;
    void (*stopped)(struct stele_shard *shard); /* on the control shard */
};

/** Errors: NO_MEMORY. deinit after a failure too. */
STELE_MUST_CHECK enum stele_err stele_shard_init(struct stele_shard *shard, struct stele_node *node, int index);
/** Drops everything without touching a file. */
void stele_shard_deinit(struct stele_shard *shard);

/** Runs `task` on `to`: at once when it is the caller's own shard, otherwise as a message. */
void stele_shard_send(struct stele_shard *from, struct stele_shard *to, struct stele_task *task);

/** The same for what is in no hurry: a shard that waits is not woken for it. */
void stele_shard_send_idly(struct stele_shard *from, struct stele_shard *to, struct stele_task *task);

/** The data shard that owns a partition: the same for every shard and in every run of equal shape. */
struct stele_shard *stele_shard_of(struct stele_node *node, const struct stele_uuid *topic_id, int32_t partition);

/** Arms `timer`; takes no memory. */
void stele_shard_arm(struct stele_shard *shard, struct stele_timer *timer, int64_t deadline_ms);

/** On the control shard: node/nodes.h. */
void stele_shard__send_nodes(struct stele_shard *shard, struct stele_nodes *nodes);

/** From the control shard: arms the timers of the rounds, after start. */
void stele_shard_begin_rounds(struct stele_shard *shard);

/** Refuses new work, lets what is under way end, closes connections and logs; then `stopped`, on the control shard. */
void stele_shard_stop(struct stele_shard *shard, void (*stopped)(struct stele_shard *shard));
/** Called when a session or a partition has nothing under way any more. */
void stele_shard_check_stopped(struct stele_shard *shard);

#endif
