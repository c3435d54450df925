/* What lies in a partition's directory at a start: leftovers of deletions, cleans and swaps are brought to an end
 * (facts 2.1, 7.9, 8.2), the rest is listed. Private to recovery. */
#ifndef STELE_STORAGE_RECOVER_FILES_H
#define STELE_STORAGE_RECOVER_FILES_H

#include "base/env.h"

/* The files of one base offset. */
struct stele_found_segment {
    int64_t base_offset;
    bool has_log, has_index, has_time_index, has_txn_index;
    bool was_deleted_from_front; /* says the history */
    int64_t cut_offset;          /* the lowest truncation inside it that history tells of, INT64_MAX: none */
    bool was_being_deleted;      /* a *.deleted file of it was there: a transaction index may have gone first */
};

struct stele_found_files {
    struct stele_env *env;
    const char *dir;
    struct stele_found_segment *segments; /* ascending; after load all have a log */
    int count, capacity;
    int64_t *snapshots; /* ascending offsets */
    int snapshot_count, snapshot_capacity;
    bool has_history, has_epochs;
    bool has_failed_sync;  /* the mark of resync.h */
    char (*leftovers)[64]; /* names to be unlinked or renamed */
    int leftover_count, leftover_capacity;
};

void stele_found_files_init(struct stele_found_files *files, struct stele_env *env, const char *dir);
void stele_found_files_deinit(struct stele_found_files *files);
/** Deletes *.deleted, *.cleaned, temporary files and indexes without a log, gives up or completes swaps, then lists.
 * It may be stopped by a crash anywhere and does the rest the next time. Errors: IO, NO_MEMORY; `error` (may be NULL)
 * names the file. */
STELE_MUST_CHECK enum stele_err stele_found_files_load(struct stele_found_files *files, struct stele_error *error);

/** Unlinks the *.deleted files beside living segments, once what may be missing of these was rebuilt. */
STELE_MUST_CHECK enum stele_err stele_found_files_finish_deletions(struct stele_found_files *files);
/** Unlinks the snapshot of this offset and takes it from the list; a file that is missing is fine. */
STELE_MUST_CHECK enum stele_err stele_found_files_drop_snapshot(struct stele_found_files *files, int index);
/** Unlinks DIR/base + suffix; missing is fine. */
STELE_MUST_CHECK enum stele_err stele_segment_unlink(struct stele_env *env, const char *dir, int64_t base_offset,
                                                     const char *suffix);

#endif
