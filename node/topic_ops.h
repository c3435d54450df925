/* What is done to topics at the active controller: they are made, grown and removed, each in a turn (node/active.h).
 *
 * Invariants
 *  1. A request is checked against the image in its turn, so against everything that was done before it.
 *  2. Topics or partitions are made in this order: the records are committed and applied to the image, the partitions
 *     that lie on this node are opened (node/reconcile.h), then it is answered.
 *     A disk that is slow keeps nobody waiting beyond the time-out of the request: it is made by then.
 *  3. A topic is removed in this order: the record is committed and applied, its directories on this node are renamed,
 *     then it is answered. Every other node does the same when it applies the record. */
#ifndef STELE_NODE_TOPIC_OPS_H
#define STELE_NODE_TOPIC_OPS_H

#include "base/arena.h"
#include "node/controller.h"

enum { STELE_PARTITIONS_MAX = 10000 }; /* of a topic */

struct stele_assigned_partition;

/** Makes a topic, or more partitions of one that is there. */
struct stele_topic_make {
    struct stele_controller *control;
    const char *name; /* with the settings and assignments: until `done` */
    bool is_growth;
    bool validate_only;
    int32_t partition_count;    /* all of them afterwards; -1 of a new topic: num.partitions */
    int32_t replication_factor; /* -1: the default; afterwards what it is */
    const struct stele_setting_pair *settings;
    size_t setting_count;
    const struct stele_assigned_partition *assignments; /* of every new partition, or none: they are placed */
    size_t assignment_count;
    int32_t timeout_ms;                          /* for which it may wait for its logs, once it is made; 0: for ever */
    void (*done)(struct stele_topic_make *make); /* on the control shard, never from inside the call */

    struct stele_error error; /* OK: with an empty text */
    struct stele_uuid topic_id;

    /* the maker's */
    struct stele_active_turn turn;
    struct stele_reconcile_wait wait;
    int64_t deadline_ms;
    int32_t first; /* new partition */
};
void stele_topic_make(struct stele_topic_make *make);
/** At the end of the node: drops what is under way; also of one that has ended, or was never begun (zeros). */
void stele_topic_make_drop(struct stele_topic_make *make);

/** Removes a topic. */
struct stele_topic_remove {
    struct stele_controller *control;
    struct stele_arena *arena;                       /* lives until `done` */
    const char *name;                                /* "": the one of that id; afterwards its name */
    struct stele_uuid topic_id;                      /* zero: the one of that name; afterwards its id */
    int32_t timeout_ms;                              /* for which it may wait for its directories; 0: for ever */
    void (*done)(struct stele_topic_remove *remove); /* on the control shard, never from inside the call */

    struct stele_error error; /* OK: with an empty text */

    /* the remover's */
    struct stele_active_turn turn;
    struct stele_reconcile_wait wait;
    int64_t deadline_ms;
    int32_t partition_count;
};
void stele_topic_remove(struct stele_topic_remove *remove);
/** As stele_topic_make_drop. */
void stele_topic_remove_drop(struct stele_topic_remove *remove);

/* Between the files of it. */

/** When a request that came now is late; INT64_MAX: never. */
int64_t stele_topic__deadline_ms(const struct stele_controller *control, int32_t timeout_ms);

/** In its turn: the replication factor of a request, and its replicas, in records of the turn. `error` is set.
 * Errors: INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_PARTITIONS, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_topic_place(struct stele_topic_make *make, const struct stele_image_topic *topic);

#endif
