/* Makes the partitions of this node what the image says, on every node: those that name it as a replica get a place and
 * are opened, they are handed each new state, and the others are removed with their directories. Belongs to the control
 * shard; the same code runs in a cluster and on a node that is alone.
 *
 * Invariants
 *  1. Each partition that lies here, comes or goes has one entry in `locals`. Only what is OPENING, OPEN or LEAVING has
 *     a struct stele_partition.
 *  2. What the image says is looked at at every step of an entry, and when it changes: what comes in between is not
 *     missed. Jobs never see the image.
 *  3. Partitions of a topic get no place while directories of another topic of that name are not renamed yet.
 *  4. What could not be seen to for want of memory is still in the image's lists, or in `wanted`; the timer goes on.
 * States: WANTED (waits for a job) -> MAKING (a job places it) -> OPENING -> OPEN -> LEAVING (node/removal.h) -> gone,
 * or WANTED when the image names it again; WANTED -> gone. */
#ifndef STELE_NODE_RECONCILE_H
#define STELE_NODE_RECONCILE_H

#include "base/timing_wheel.h"
#include "node/metadata_image.h"
#include "node/places.h"
#include "node/shard.h"

struct stele_controller;
struct stele_move;
struct stele_removal;

enum stele_local_state {
    STELE_LOCAL_WANTED,
    STELE_LOCAL_MAKING,
    STELE_LOCAL_OPENING,
    STELE_LOCAL_OPEN,
    STELE_LOCAL_LEAVING
};

/** A partition of this node. */
struct stele_local {
    UT_hash_handle hh;
    struct stele_list link; /* in `wanted` or `making` */
    struct stele_partition_key key;
    enum stele_local_state state;
    int32_t leader_epoch, partition_epoch; /* of the state that it was handed last */
    struct stele_partition *partition;     /* NULL: there is none yet, or no more */
    struct stele_move *move;               /* between log directories (node/moves.h); NULL: none */
};

/** Waits until partitions of a topic are here what the image says of them: open, or gone with their names; not longer
 * than the deadline. */
struct stele_reconcile_wait {
    struct stele_list link;
    struct stele_uuid topic_id;
    int32_t next, end;   /* the partitions from `next` up to `end` */
    int64_t deadline_ms; /* monotonic; INT64_MAX: none */
    void (*done)(struct stele_reconcile_wait *wait);

    struct stele_reconcile *reconcile; /* the rest is node/reconcile.c's */
    struct stele_timer timer;
};

struct stele_reconcile {
    struct stele_controller *control;
    struct stele_local *locals;       /* a table by topic id and number */
    struct stele_list wanted, making; /* in order */
    struct stele_list removals;       /* node/removal.h */
    int deleting_count;
    bool has_left; /* directories of removed topics that are not gone */
    struct stele_list waits;
    struct stele_task task;
    bool is_posted;
    bool has_unwanted; /* something is made or open that is not wanted any more: nothing is placed until it leaves */
    struct stele_timer timer; /* goes on when there was no memory, or no room */
    int64_t told_members;     /* of the image, when the shards were told of nodes last */

    /* the batch of places */
    struct stele_places places;
    struct stele_job job;
    bool is_placing, has_job;
    int place_next, place_topic; /* those before are being opened */
    int opening_count;

    void (*begun)(struct stele_controller *control, enum stele_err err); /* while starting */
};

void stele_reconcile_init(struct stele_reconcile *reconcile, struct stele_controller *control);
/** At the end of the node: drops everything without touching a file. */
void stele_reconcile_deinit(struct stele_reconcile *reconcile);
/** The start: opens what was found and makes what is missing, by the image as it is now; `begun` when all of it is open
 * or cannot be, perhaps inside the call. What the image says later is looked at by the next stir. */
void stele_reconcile_begin(struct stele_reconcile *reconcile,
                           void (*begun)(struct stele_controller *control, enum stele_err err));
/** The image has more: it is looked at soon. */
void stele_reconcile_stir(struct stele_reconcile *reconcile);
/** The same, now: what it sends to the shards is sent. */
void stele_reconcile_look(struct stele_reconcile *reconcile);
/** This life of the node is known to the image from now on, or no more: looks at every partition again. */
void stele_reconcile_see_all(struct stele_reconcile *reconcile);
/** Calls `done` when everything is as the image says, always as a message. When the node stops it ends early: the next
 * start does the rest. */
void stele_reconcile_await(struct stele_reconcile *reconcile, struct stele_reconcile_wait *wait);
/** At the end of the node: nobody waits any more. Also of one that has ended, or was never begun (zeros). */
void stele_reconcile_wait_drop(struct stele_reconcile_wait *wait);
/** The node stops: nothing new is begun. */
void stele_reconcile_stop(struct stele_reconcile *reconcile);
/** Nothing is under way that a stopping node waits for. */
bool stele_reconcile_is_idle(const struct stele_reconcile *reconcile);
/** NULL: no such partition lies here, comes or goes. */
struct stele_local *stele_reconcile_find(const struct stele_reconcile *reconcile,
                                         const struct stele_partition_key *key);

/* Between the files of it. */

/** The topic of a partition that the image places on this node; NULL: it does not. */
struct stele_image_topic *stele_reconcile__wants(const struct stele_reconcile *reconcile,
                                                 const struct stele_partition_key *key);
/** A partition's state as it holds for this node. */
struct stele_partition_state stele_reconcile__state_of(const struct stele_reconcile *reconcile,
                                                       const struct stele_partition_state *state);
/** NULL without memory. */
struct stele_local *stele_reconcile__add(struct stele_reconcile *reconcile, const struct stele_partition_key *key);
void stele_reconcile__drop(struct stele_reconcile *reconcile, struct stele_local *local);
/** Its directory has another name, or never had one. */
void stele_reconcile__gone(struct stele_reconcile *reconcile, struct stele_local *local);
/** Looks at those who wait on a topic. */
void stele_reconcile__settle(struct stele_reconcile *reconcile, const struct stele_uuid *topic_id);
/** Goes on a little later. */
void stele_reconcile__retry(struct stele_reconcile *reconcile);
/** Starts a job for those that are wanted, unless one is under way; also while starting. */
void stele_reconcile__place(struct stele_reconcile *reconcile);
/** Goes on with what was placed and could not be opened for want of memory. */
void stele_reconcile__open(struct stele_reconcile *reconcile);
/** What is placed and not opened is left to the next start. */
void stele_reconcile__abandon(struct stele_reconcile *reconcile);
/** Everything that is open is told of the topic's settings. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_reconcile__send_settings(struct stele_reconcile *reconcile,
                                                               const struct stele_image_topic *topic);
/** Opens a partition that has a place. Errors: NO_MEMORY. */
struct stele_opener {
    struct stele_reconcile *reconcile;
    struct stele_uuid topic_id; /* of which `config` is; zero: of none */
    struct stele_log_config config;
    const char *why_offline;
};
STELE_MUST_CHECK enum stele_err stele_opener_open(struct stele_opener *opener, struct stele_local *local,
                                                  const char *topic, const struct stele_place *place);
/** While starting: at its end, or at its failure. */
void stele_reconcile__begun(struct stele_reconcile *reconcile, enum stele_err err);

#endif
