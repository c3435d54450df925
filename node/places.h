/* Where partitions lie in the log directories: what a job does before their logs are opened. It works on a plain list
 * and never sees the image, which may be another by then. */
#ifndef STELE_NODE_PLACES_H
#define STELE_NODE_PLACES_H

#include "storage/log_dirs.h"

/** A topic of which partitions are placed. */
struct stele_place_topic {
    char name[STELE_TOPIC_NAME_MAX + 1];
    struct stele_uuid topic_id;
    int first, count; /* its places */
};

/** A partition that is to have a place; the rest is filled in by the job. */
struct stele_place {
    int32_t number;
    bool is_placed;     /* the job came so far */
    bool has_directory; /* false: none could be made, or it may have one on a log directory that is offline */
    bool is_made;       /* its directory was made just now */
    bool is_unmade;     /* there was no room for its directory yet */
    bool is_new;        /* its names are not synced */
    bool was_clean;     /* with the offsets: of the checkpoints */
    int dir;
    int64_t recovery_point, log_start_offset, high_watermark;
};

/** A directory that is nobody's any more. */
struct stele_place_left {
    const struct stele_found_log *found;
    struct stele_uuid topic_id;
    const char *mark; /* of a copy; NULL: it is a partition's directory */
};

struct stele_places {
    struct stele_env *env;
    struct stele_log_dirs *dirs;
    struct stele_place_topic *topics;
    int topic_count;
    struct stele_place *items;
    int count;
    bool is_start;                 /* what is missing may lie on a directory that is offline: then it is not made */
    struct stele_place_left *left; /* renamed and deleted first */
    int left_count;

    bool has_left; /* not all of those are gone */
    enum stele_err err;
};

/** Job. What could not be placed yet has is_placed false, and `err` says why. */
void stele_places_make(struct stele_places *places);
/** The place of a directory that was found. */
void stele_place_of_found(const struct stele_found_log *found, struct stele_place *out_place);

#endif
