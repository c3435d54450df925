/* The inside of the log directories, shared by log_dirs*.c. */
#ifndef STELE_STORAGE_LOG_DIRS_STRUCT_H
#define STELE_STORAGE_LOG_DIRS_STRUCT_H

#include "storage/log_dirs.h"
#include "storage/moved_file.h"

#include <stdatomic.h>

struct stele_log_dir {
    char *path;
    struct stele_file *lock;
    _Atomic bool is_offline;       /* with the next two: jobs and shards ask and tell too */
    _Atomic int64_t room;          /* free bytes above the reserve as last measured, less what was taken since */
    _Atomic bool is_taken;         /* something was */
    _Atomic bool has_refused;      /* the disk, a write */
    bool is_told_full;             /* the trace said so */
    enum stele_err checkpoint_err; /* of the last round */
    bool is_stale;                 /* its checkpoints may name partitions that are gone */
    bool has_properties;
    struct stele_meta_properties properties;
    int64_t clean_epoch; /* of the marker that was taken; -1: none */
    int64_t served_epoch;
    bool has_failed_sync; /* in a life that the controller knows of last */
    int partitions;
};

struct stele_log_dirs {
    struct stele_env *env;
    struct stele_log_dir *dirs;
    int count;
    _Atomic int64_t reserve_bytes;
    int32_t node_id;               /* -1: any */
    struct stele_found_log *found; /* by topic, partition, directory */
    int found_count, found_capacity;
    struct stele_found_future *futures;
    int future_count, future_capacity;
    struct stele_moved_list moved; /* what the file says */
    struct stele_found_log *left;  /* while opening: of partitions that are elsewhere by it */
    int left_count, left_capacity;
};

/** Deletes what a rename has condemned. */
void stele_log_dirs__finish_deletions(struct stele_log_dirs *dirs, const char *dir);
/** The name of a partition's directory while it is in a state: ".<32 hex>-delete" and so on behind a topic's name,
 * which is cut where it would not fit. */
enum { STELE_DIR_NAME_BYTES = 256 };
void stele_log_dirs__name(const char *topic, int32_t partition, const char *ending,
                          char out_name[STELE_DIR_NAME_BYTES]);
/** Renames the directory at `path` to topic-partition.<hex>-delete. Nothing to rename is fine. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__condemn_as(struct stele_log_dirs *dirs, int dir, const char *path,
                                                           const char *topic, int32_t partition, const char *hex);
/** Takes what the checkpoints of one directory say of such partitions back. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__forget_in(struct stele_log_dirs *dirs, int dir, const char *topic,
                                                          const struct stele_log_dirs_gone *gone);

/** Room for one more element of an array. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__grow(struct stele_log_dirs *dirs, void **inout_array,
                                                     int *inout_capacity, int count, size_t bytes);

/* Moves at a start (log_dirs_move.c). */

/** Reads what the first directory says of moves. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__read_moved(struct stele_log_dirs *dirs, struct stele_error *error);
/** Leaves out what was found of partitions that are elsewhere; a copy that is the partition's is found from now on. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__judge_moved(struct stele_log_dirs *dirs);
/** Ends the moves to a directory that were decided. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__end_moves_to(struct stele_log_dirs *dirs, int dir,
                                                             struct stele_error *error);
/** Condemns what is left in a directory of partitions that are in another one. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__leave_behind(struct stele_log_dirs *dirs, int dir,
                                                             struct stele_error *error);
/** When all directories were seen: takes the lines away that have done their work. */
void stele_log_dirs__forget_moved(struct stele_log_dirs *dirs);
/** A partition is made in a directory: what was said of another holds no more; and one that is offline may have it. */
STELE_MUST_CHECK enum stele_err stele_log_dirs__made_in(struct stele_log_dirs *dirs, int dir,
                                                        const struct stele_uuid *topic_id, int32_t partition);

#endif
