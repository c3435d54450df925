/* What is done to topics, on the control shard: they are made, grown and removed.
 *
 * Invariants
 *  1. What is done to one name is done one after another, in the order in which it was asked for.
 *  2. A topic or more partitions of it are made in this order: the records are synced, applied to the image, the
 * directories made, the logs opened, then it is answered.
 *  3. A topic is removed in this order: the record is synced, applied, its partitions taken from their shards, its
 * directories renamed and the names synced, then it is answered; the files are deleted after
 * log.segment.delete.delay.ms. What a crash leaves of it the next start finds by its id, which the image keeps. */
#ifndef STELE_NODE_TOPIC_OPS_H
#define STELE_NODE_TOPIC_OPS_H

#include "base/arena.h"
#include "node/controller.h"

enum { STELE_PARTITIONS_MAX = 10000 }; /* of a topic */

/** A turn with a name; lives in its asker's memory until it has ended. */
struct stele_topic_turn {
    struct stele_list link; /* in control's turns */
    struct stele_task task;
    struct stele_controller *control;
    const char *name;
    void (*begin)(struct stele_topic_turn *turn);
};
/** `begin` is called when those before it on the same name have ended, at once when there is none. */
void stele_topic_turn_take(struct stele_controller *control, struct stele_topic_turn *turn);
void stele_topic_turn_end(struct stele_topic_turn *turn);

/** Makes a topic, or more partitions of one that is there. */
struct stele_topic_make {
    struct stele_controller *control;
    struct stele_arena *arena; /* holds name, settings and what else is needed until `done` */
    const char *name;
    bool is_growth;
    bool validate_only;
    int32_t partition_count; /* all of them afterwards; -1 of a new topic: num.partitions */
    int32_t replication_factor;
    const struct stele_setting_pair *settings;
    size_t setting_count;
    void (*done)(struct stele_topic_make *make); /* on the control shard, perhaps inside the call */

    struct stele_error error; /* OK: with an empty text */
    struct stele_uuid topic_id;

    /* the maker's */
    struct stele_topic_turn turn;
    struct stele_image_topic *topic;
    int32_t first; /* new partition */
    struct stele_metadata_change change;
    struct stele_job job;
    struct stele_timer timer; /* for another try */
    struct stele_place *places;
    enum stele_err places_err, open_err;
    int place_count, place_next, opening_count;
    bool has_offline;
    enum stele_err waits_for; /* OK: for nothing */
};
void stele_topic_make(struct stele_topic_make *make);
/** At the end of the node: drops what is under way; also of one that has ended, or was never begun (zeros). */
void stele_topic_make_drop(struct stele_topic_make *make);

struct stele_removal;

/** Removes a topic. */
struct stele_topic_remove {
    struct stele_controller *control;
    const char *name;                                /* until `done` */
    struct stele_uuid topic_id;                      /* zero: the one of that name; afterwards its id */
    void (*done)(struct stele_topic_remove *remove); /* on the control shard, perhaps inside the call */

    struct stele_error error; /* OK: with an empty text */

    /* the remover's */
    struct stele_topic_turn turn;
    struct stele_metadata_record record;
    struct stele_metadata_change change;
    struct stele_removal *removal;
};
void stele_topic_remove(struct stele_topic_remove *remove);

/** No round of checkpoints is under way any more. */
void stele_removals_go_on(struct stele_controller *control);
/** Gives up what waits for its time: the next start does it. */
void stele_removals_stop(struct stele_controller *control);
/** At the end of the node. */
void stele_removals_free(struct stele_controller *control);

#endif
