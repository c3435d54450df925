/* What changes partitions at the active controller: leaders that ask for another in-sync set (ALTER_PARTITION), those
 * of this node and of others alike. */
#ifndef STELE_NODE_ACTIVE_PARTITIONS_H
#define STELE_NODE_ACTIVE_PARTITIONS_H

#include "node/active.h"

/** A request of a leader's node; lives in its asker's memory until `done`, as all that the request points to. */
struct stele_partition_alter {
    const struct stele_alter_partition_request *request;
    struct stele_arena *arena; /* the asker's: gets the results */
    /* On the control shard, never from inside take. The response lives as long as the arena. NOT_CONTROLLER and errors
     * of resources in it: whether anything was changed is not known. */
    void (*done)(struct stele_partition_alter *alter);
    struct stele_alter_partition_response response;

    /* the rest is node/active_partitions.c's; all zero before it is taken */
    struct stele_active_turn turn;
    bool is_admitted;
    int32_t quorum_epoch; /* in which it was */
};

/** On the control shard: requests of one node are worked on in the order in which they are taken. */
void stele_partition_alter_take(struct stele_active *active, struct stele_partition_alter *alter);
/** At the end of the node, or when nobody wants the answer any more; also of one that was never taken, or is done. */
void stele_partition_alter_drop(struct stele_partition_alter *alter);

/** What a topic's settings will be. */
struct stele_topic_settled {
    int32_t min_isr;
    bool is_unsynced; /* flush.before.ack is switched on: what is committed need not be on any disk */
};
/** Settings of the topic become others: who counts as able to lead by the old min.insync.replicas may not by the new
 * one (KAFKA-16540), and nobody's machine may lose its power yet. Adds records of the partitions of which that is so.
 * Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_active_settle(struct stele_active_turn *turn,
                                                    const struct stele_image_topic *topic,
                                                    const struct stele_topic_settled *settled);
/** Partitions that a turn has a record of are marked (is_in_turn), so that none is changed twice from the same state;
 * this takes the marks away, before `begin` is left. */
void stele_active_unmark(struct stele_active_turn *turn);
/** NULL when the image has no such partition. */
struct stele_image_partition *stele_image_partition_of(const struct stele_image_topic *topic, int32_t number);

#endif
