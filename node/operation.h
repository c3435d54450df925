/* What is asked of a partition, from any shard; the operations themselves are in node/partition.h. */
#ifndef STELE_NODE_OPERATION_H
#define STELE_NODE_OPERATION_H

#include "node/controller.h"
#include "node/server_call.h"
#include "node/shard.h"
#include "storage/log.h"

/** What every operation has. It lives in its asker's memory and is handed over until `done` is called. */
struct stele_op {
    struct stele_task task;
    struct stele_list link;    /* in one of the partition's lists */
    struct stele_shard *home;  /* of the asker */
    struct stele_shard *shard; /* of the partition */
    const void *origin;        /* operations of one origin keep their order */
    struct stele_uuid topic_id;
    int32_t number;
    int32_t leader_epoch;              /* as the asker knows it; -1: not checked */
    bool is_for_any_state;             /* `run` is called also when the partition is not open */
    bool may_follow;                   /* and also where this node follows: a read of a consumer with a rack */
    struct stele_partition *partition; /* set on its shard */
    void (*run)(struct stele_op *op);  /* on the partition's shard */
    void (*now)(struct stele_op *op);  /* when it had to wait for its turn */
    void (*done)(struct stele_op *op); /* on `home` */
    enum stele_err err;
    int32_t current_leader_id, current_leader_epoch; /* -1, or hints */
    int64_t sent_us;                                 /* monotonic, when it was submitted */
    struct stele_stages stages;
};

/** Cuts the log: everything from `offset` on goes. While it is under way nothing is appended and nobody reads beyond
 * the cut; when it ends no connection holds a byte of what was cut:
 *  1. Produces that wait for their durability beyond the cut are refused, a new generation of the partition begins.
 *  2. Every data shard closes the connections that hold a range of an older generation that the cut takes bytes of,
 * drops those that are not yet in an answer (NOT_LEADER_OR_FOLLOWER), and says so.
 *  3. The checkpoints are lowered and written, unless what they were told is low enough. They keep a start that is
 * kept.
 *  4. When no flush is under way the log is cut, and every waiting read is woken.
 * Errors: EXISTS (another one is under way, or the partition is held), those of checkpoints and of stele_log_truncate,
 * and what operations get of a partition that is not open; the log is as it was then, unless it is offline. Who asked
 * and goes with the node in the middle takes wait.link out of its list. */
struct stele_truncate_op {
    struct stele_op op;
    int64_t offset;
    bool is_restart;    /* the log is to begin anew, empty, at `offset` */
    int64_t kept_start; /* above it: where the log starts again as soon as it has the batch around that; 0: nowhere */

    int64_t end_offset; /* of the log after it */

    /* the partition's */
    struct stele_log_cut cut;
    int64_t generation; /* ranges of older ones are looked at */
    int pending;        /* shards that have not answered */
    struct stele_task task;
    struct stele_checkpoint_wait wait;
    enum stele_err wait_err;
    bool waits_for_flush;
};

#endif
