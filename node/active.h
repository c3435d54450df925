/* The cluster's active controller: this node, while it leads the metadata quorum. Everything that changes the cluster's
 * tables is a turn: begun when everything before it is committed and in the image, it looks at the image and the
 * registry, adds records, has them written as one atomic batch, and is told when they are committed and applied, or
 * that their fate is not known. So a change is always worked out from what is committed, and an answer that is given in
 * `done` never tells of something that may still be lost (facts 4.1.3, 4.8.9).
 *
 * Invariants
 *  1. One turn is under way at a time; the others wait in the order in which they came.
 *  2. While active the registry holds exactly the members of the image, and their sessions. When another leads it holds
 *     nothing.
 *  3. It stays active as long as the node leads in the same epoch of the quorum. */
#ifndef STELE_NODE_ACTIVE_H
#define STELE_NODE_ACTIVE_H

#include "base/arena.h"
#include "node/metadata_log.h"
#include "replication/registry.h"

struct stele_active;
struct stele_controller;

/** Lives in its asker's memory until `done`, or until it was dropped. */
struct stele_active_turn {
    /* Called once, as a message. It ends in stele_active_write or stele_active_end, at once or later. */
    void (*begin)(struct stele_active_turn *turn);
    /* As a message. OK: what was written is committed and in the image and the registry (or nothing was to be written).
     * NOT_CONTROLLER: this node is not the active controller; when the turn had begun its records may be committed by
     * another or not. NO_MEMORY, NO_SPACE: nothing was written. */
    void (*done)(struct stele_active_turn *turn, enum stele_err err);

    /* the rest is node/active.c's; all zero before it is taken */
    struct stele_list link;
    struct stele_active *active;
    struct stele_arena arena; /* lives until `done` has returned; its owner may use it too */
    struct stele_metadata_record *records;
    int count, capacity;
    int elections, unclean_elections; /* in them */
    struct stele_metadata_change change;
    struct stele_task task;
};

struct stele_active {
    struct stele_controller *control;
    struct stele_registry registry;
    bool is_active;
    int32_t epoch;                  /* of the quorum, in which it is */
    int64_t seen_offset;            /* up to which the registry has seen the image */
    int64_t seen_members;           /* of the image's records of members, likewise */
    struct stele_timer timer;       /* looks again when there was no memory */
    struct stele_list turns;        /* that wait */
    struct stele_active_turn *turn; /* under way */
    struct stele_task task;
    bool is_posted;
    struct stele_list early; /* changes that go on after their turn's end: only where mutation M24 is tested */
};

/** A node as it will be when the turn is committed: what the partitions' changes of the same batch are worked out with.
 */
struct stele_active_assumption {
    int32_t node_id; /* NO_NODE: nothing is assumed */
    int64_t node_epoch;
    bool is_active;
};

void stele_active_init(struct stele_active *active, struct stele_controller *control);
void stele_active_deinit(struct stele_active *active);
/** The image has more, or who leads the quorum has changed. */
void stele_active_look(struct stele_active *active);

/** Waits for its turn; nothing is called from inside this. */
void stele_active_take(struct stele_active *active, struct stele_active_turn *turn);
/** From `begin` on: writes what was added as one batch; then `done`. */
void stele_active_write(struct stele_active_turn *turn);
/** From `begin` on: writes nothing, `done` is not called. */
void stele_active_end(struct stele_active_turn *turn);
/** At the end of the node: takes it out wherever it is; also one that was never taken, or has ended. */
void stele_active_drop(struct stele_active_turn *turn);

/** What to tell who asked for a turn that ended with an error. */
void stele_active_explain(const struct stele_active *active, enum stele_err err, struct stele_error *out_error);
/** Adds a record; what it points to must live as long as the turn (the turn's arena does). Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_active_add(struct stele_active_turn *turn,
                                                 const struct stele_metadata_record *record);
/** Adds a partition's record; copies the state. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_active_add_partition(struct stele_active_turn *turn,
                                                           const struct stele_uuid *topic_id, int32_t number,
                                                           const struct stele_partition_state *state);
/** Adds the record of a node; copies it. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_active_add_node(struct stele_active_turn *turn,
                                                      const struct stele_node_registration *node);

/** min.insync.replicas of a topic, as it was set. */
int32_t stele_active_min_isr(const struct stele_active *active, const struct stele_image_topic *topic);
/** flush.before.ack of a topic: records count only when they are synced. */
bool stele_active_flushes(const struct stele_active *active, const struct stele_image_topic *topic);
/** What the controller knows of the nodes of a partition's state, and of those of `more` (NULL: none). `assumption` may
 * be NULL. */
void stele_active_view(const struct stele_active *active, const struct stele_image_topic *topic,
                       const struct stele_partition_state *state, const struct stele_node_set *more,
                       const struct stele_active_assumption *assumption, struct stele_partition_view *out_view);
/** Works out a change of a partition that is in the image, and adds its record when something changes.
 * Errors: as stele_partition_change; NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_active_change(struct stele_active_turn *turn,
                                                    const struct stele_image_topic *topic, int32_t number,
                                                    const struct stele_partition_change *change,
                                                    const struct stele_active_assumption *assumption,
                                                    struct stele_partition_outcome *out_outcome);

/** A node of the image as the registry has it. */
void stele_registration_of_member(const struct stele_image_member *member, struct stele_node_registration *out_node);

#endif
