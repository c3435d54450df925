/* The inside of the log directories, shared by log_dirs.c and log_dirs_open.c. */
#ifndef STELE_STORAGE_LOG_DIRS_STRUCT_H
#define STELE_STORAGE_LOG_DIRS_STRUCT_H

#include "storage/log_dirs.h"

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
};

/** Deletes what a rename has condemned. */
void stele_log_dirs__finish_deletions(struct stele_log_dirs *dirs, const char *dir);

#endif
