/* The active controller asks nodes what their replicas of some partitions hold: for an election that somebody forces
 * (replication/forced_election.h). Each node is asked once, by DESCRIBE_LOG, for all of its replicas. */
#ifndef STELE_NODE_LOG_INQUIRY_H
#define STELE_NODE_LOG_INQUIRY_H

#include "base/arena.h"
#include "node/controller.h"
#include "replication/types.h"
#include "storage/epoch_cache.h"

/** What one replica said. */
struct stele_asked_log {
    bool is_there;      /* it answered, and its log is open */
    int64_t node_epoch; /* the life of the node that was asked */
    int64_t start_offset, end_offset, high_watermark;
    struct stele_epoch_cache epochs; /* in the inquiry's arena: only to be read */
};

struct stele_asked_partition {
    struct stele_uuid topic_id;
    int32_t number;
    struct stele_node_set nodes;                     /* who is asked; those that are not registered do not answer */
    struct stele_asked_log logs[STELE_REPLICAS_MAX]; /* of each of them */
};

/** Lives in its asker's memory until `done`. */
struct stele_log_inquiry {
    struct stele_controller *control;
    struct stele_arena *arena; /* the asker's; gets what the answers hold */
    struct stele_asked_partition *partitions;
    size_t count;
    void (*done)(struct stele_log_inquiry *inquiry); /* perhaps from inside begin */

    struct stele_list asks; /* the rest is node/log_inquiry.c's */
    int pending;
    bool has_no_memory; /* some of the answers are missing for it */
};

/** On the control shard of the active controller. */
void stele_log_inquiry_begin(struct stele_log_inquiry *inquiry);
/** At the end of the node: `done` is not called; also of one that has ended, or never began (zeros). */
void stele_log_inquiry_drop(struct stele_log_inquiry *inquiry);

#endif
