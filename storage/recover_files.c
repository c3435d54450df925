/* Invariants
 *  1. A swap that had a *.cleaned file beside or below it was never complete: it goes, and its sources stay.
 *  2. A complete swap replaces its sources in steps, each durable before the next: sources gone, then logs renamed from
 * the highest base down, then the other files. So a log that is still *.swap has none of its sources' files left that
 * matter, and no step deletes what an earlier one put in place. */
#include "storage/recover_files.h"

#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/history.h"
#include "storage/resync.h"
#include "storage/scan.h"
#include "storage/segment.h"

#include <string.h>

enum file_kind { KIND_LOG, KIND_INDEX, KIND_TIME_INDEX, KIND_TXN_INDEX, KIND_SNAPSHOT, KIND_COUNT };
enum file_state { STATE_LIVE, STATE_DELETED, STATE_CLEANED, STATE_SWAP, STATE_TEMPORARY, STATE_COUNT };

static const char *const kind_suffix[KIND_COUNT] = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"};
static const char *const state_suffix[STATE_COUNT] = {"", ".deleted", ".cleaned", ".swap", ".tmp"};

struct file_name {
    int64_t base_offset;
    enum file_kind kind;
    enum file_state state;
};

/* False for a name that is none of ours, or not spelled as we spell it. */
static bool name_parse(const char *name, struct file_name *out)
{
    const char *suffix = NULL;
    int64_t base_offset = 0;
    char canonical[STELE_SEGMENT_NAME_BYTES];
    if (!stele_segment_name_parse(name, &base_offset, &suffix))
        return false;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        size_t bytes = strlen(kind_suffix[kind]);
        if (strncmp(suffix, kind_suffix[kind], bytes) != 0)
            continue;
        for (int state = 0; state < STATE_COUNT; state++) {
            if (strcmp(suffix + bytes, state_suffix[state]) != 0)
                continue;
            stele_segment_name(base_offset, suffix, canonical);
            *out = (struct file_name){base_offset, (enum file_kind)kind, (enum file_state)state};
            return strcmp(canonical, name) == 0;
        }
    }
    return false;
}

void stele_found_files_init(struct stele_found_files *files, struct stele_env *env, const char *dir)
{
    *files = (struct stele_found_files){.env = env, .dir = dir};
}

void stele_found_files_deinit(struct stele_found_files *files)
{
    struct stele_mem *mem = files->env->mem;
    stele_mem_free(mem, files->segments);
    stele_mem_free(mem, files->snapshots);
    stele_mem_free(mem, files->leftovers);
    stele_found_files_init(files, files->env, files->dir);
}

/* Room for one more of `bytes` each; the block may move. */
static enum stele_err grow(struct stele_mem *mem, void **inout_block, int count, int *inout_capacity, size_t bytes)
{
    if (count < *inout_capacity)
        return STELE_OK;
    int capacity = *inout_capacity == 0 ? 16 : *inout_capacity * 2;
    void *block = stele_mem_resize(mem, STELE_MEM_LOG, *inout_block, (size_t)capacity * bytes);
    if (block == NULL)
        return STELE_NO_MEMORY;
    *inout_block = block;
    *inout_capacity = capacity;
    return STELE_OK;
}

static enum stele_err note_leftover(struct stele_found_files *files, const char *name)
{
    void *block = files->leftovers;
    enum stele_err err =
        grow(files->env->mem, &block, files->leftover_count, &files->leftover_capacity, sizeof(files->leftovers[0]));
    files->leftovers = block;
    if (err != STELE_OK)
        return err;
    size_t bytes = strlen(name) + 1;
    STELE_ASSERT(bytes <= sizeof(files->leftovers[0]));
    memcpy(files->leftovers[files->leftover_count++], name, bytes);
    return STELE_OK;
}

static enum stele_err note_snapshot(struct stele_found_files *files, int64_t offset)
{
    void *block = files->snapshots;
    enum stele_err err =
        grow(files->env->mem, &block, files->snapshot_count, &files->snapshot_capacity, sizeof(files->snapshots[0]));
    files->snapshots = block;
    if (err == STELE_OK)
        files->snapshots[files->snapshot_count++] = offset;
    return err;
}

/* Names come in ascending order, so the files of one base lie together. */
static enum stele_err note_segment(struct stele_found_files *files, const struct file_name *name)
{
    if (files->count == 0 || files->segments[files->count - 1].base_offset != name->base_offset) {
        void *block = files->segments;
        enum stele_err err = grow(files->env->mem, &block, files->count, &files->capacity, sizeof(files->segments[0]));
        files->segments = block;
        if (err != STELE_OK)
            return err;
        files->segments[files->count++] =
            (struct stele_found_segment){.base_offset = name->base_offset, .cut_offset = INT64_MAX};
    }
    struct stele_found_segment *found = &files->segments[files->count - 1];
    if (name->state != STATE_LIVE)
        found->was_being_deleted = true;
    else if (name->kind == KIND_LOG)
        found->has_log = true;
    else if (name->kind == KIND_INDEX)
        found->has_index = true;
    else if (name->kind == KIND_TIME_INDEX)
        found->has_time_index = true;
    else
        found->has_txn_index = true;
    return STELE_OK;
}

static bool is_temporary(const char *name)
{
    static const char *const names[] = {"leader-epoch-checkpoint.tmp", "partition.metadata.tmp",
                                        STELE_HISTORY_FILE ".tmp"};
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static enum stele_err note_name(void *arg, const char *text)
{
    struct stele_found_files *files = arg;
    struct file_name name;
    if (strcmp(text, STELE_HISTORY_FILE) == 0)
        files->has_history = true;
    if (strcmp(text, STELE_LEADER_EPOCH_FILE) == 0)
        files->has_epochs = true;
    if (strcmp(text, STELE_SYNC_FAILED_FILE) == 0)
        files->has_failed_sync = true;
    if (!name_parse(text, &name))
        return is_temporary(text) ? note_leftover(files, text) : STELE_OK;
    if (name.state != STATE_LIVE) {
        enum stele_err err = note_leftover(files, text);
        if (err != STELE_OK || name.state != STATE_DELETED || name.kind == KIND_SNAPSHOT)
            return err;
    }
    return name.kind == KIND_SNAPSHOT ? note_snapshot(files, name.base_offset) : note_segment(files, &name);
}

static enum stele_err list(struct stele_found_files *files)
{
    files->count = 0;
    files->snapshot_count = 0;
    files->leftover_count = 0;
    files->has_history = false;
    files->has_epochs = false;
    files->has_failed_sync = false;
    return files->env->vfs->ops->list(files->env->vfs, files->dir, note_name, files);
}

static enum stele_err unlink_name(struct stele_env *env, const char *dir, const char *name)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = env->vfs->ops->unlink(env->vfs, path);
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}

enum stele_err stele_segment_unlink(struct stele_env *env, const char *dir, int64_t base_offset, const char *suffix)
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(base_offset, suffix, name);
    return unlink_name(env, dir, name);
}

enum stele_err stele_found_files_drop_snapshot(struct stele_found_files *files, int index)
{
    STELE_ASSERT(index >= 0 && index < files->snapshot_count);
    enum stele_err err = stele_segment_unlink(files->env, files->dir, files->snapshots[index], ".snapshot");
    if (err != STELE_OK)
        return err;
    files->snapshot_count--;
    memmove(files->snapshots + index, files->snapshots + index + 1,
            (size_t)(files->snapshot_count - index) * sizeof(files->snapshots[0]));
    return STELE_OK;
}

static enum stele_err sync_names(struct stele_found_files *files)
{
    return files->env->vfs->ops->sync_dir(files->env->vfs, files->dir);
}

/* The smallest base of a *.cleaned file, INT64_MAX when there is none. */
static int64_t cleaned_base(const struct stele_found_files *files)
{
    int64_t base_offset = INT64_MAX;
    struct file_name name;
    for (int i = 0; i < files->leftover_count; i++) {
        if (name_parse(files->leftovers[i], &name) && name.state == STATE_CLEANED)
            base_offset = stele_min_i64(base_offset, name.base_offset);
    }
    return base_offset;
}

static bool has_live_log(const struct stele_found_files *files, int64_t base_offset)
{
    int low = 0, high = files->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (files->segments[middle].base_offset < base_offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < files->count && files->segments[low].base_offset == base_offset && files->segments[low].has_log;
}

/* What stays for now: a swap that may complete, and *.deleted files of a living log, which tell that its transaction
 * index may have gone first (finish_deletions, once that was rebuilt). */
static bool is_kept(const struct stele_found_files *files, const char *text, int64_t base_min)
{
    struct file_name name;
    if (!name_parse(text, &name))
        return false;
    return (name.state == STATE_SWAP && name.base_offset < base_min) ||
           (name.state == STATE_DELETED && name.kind != KIND_SNAPSHOT && has_live_log(files, name.base_offset));
}

/* Swaps first and durably, *.cleaned after them: they are what tells that the swap is not complete. */
static enum stele_err give_up_cleans(struct stele_found_files *files, int64_t base_min, struct stele_error *error)
{
    struct file_name name;
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < files->leftover_count; i++) {
            const char *text = files->leftovers[i];
            bool is_swap = name_parse(text, &name) && name.state == STATE_SWAP;
            if (is_swap != (step == 0) || is_kept(files, text, base_min))
                continue;
            enum stele_err err = unlink_name(files->env, files->dir, text);
            if (err != STELE_OK)
                return stele_error_set(error, err, "%s/%s cannot be deleted: %s", files->dir, text,
                                       stele_err_text(err));
        }
        if (step == 0 && base_min != INT64_MAX) {
            enum stele_err err = sync_names(files);
            if (err != STELE_OK)
                return stele_error_set(error, err, "%s cannot be synced: %s", files->dir, stele_err_text(err));
        }
    }
    return STELE_OK;
}

/* The offset after the last whole batch of a log that is to be swapped in. */
static enum stele_err swap_end(struct stele_found_files *files, const char *name, int64_t base_offset, int64_t *out_end)
{
    struct stele_vfs *vfs = files->env->vfs;
    struct stele_file *file = NULL;
    struct stele_scan scan;
    struct stele_scanned scanned;
    char path[STELE_PATH_BYTES];
    int64_t bytes = 0, end = base_offset;
    enum stele_err err = stele_path_join(path, files->dir, name);
    if (err != STELE_OK)
        return err;
    err = vfs->ops->open(vfs, path, STELE_OPEN_READ, &file);
    if (err != STELE_OK)
        return err;
    stele_scan_init(&scan, files->env->mem);
    err = vfs->ops->size(file, &bytes);
    if (err == STELE_OK)
        err = stele_scan_start(&scan, file, 0, bytes);
    while (err == STELE_OK) {
        err = stele_scan_next(&scan, &scanned);
        if (err == STELE_OK)
            end = stele_batch_last_offset(&scanned.header) + 1;
    }
    stele_scan_deinit(&scan);
    vfs->ops->close(file);
    if (err != STELE_END && err != STELE_CORRUPT)
        return err;
    *out_end = end;
    return STELE_OK;
}

/* Renames NAME.swap to NAME. */
static enum stele_err swap_in(struct stele_found_files *files, const char *name)
{
    char from[STELE_PATH_BYTES], to[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(from, files->dir, name);
    if (err != STELE_OK)
        return err;
    size_t bytes = strlen(from) - strlen(state_suffix[STATE_SWAP]);
    memcpy(to, from, bytes);
    to[bytes] = 0;
    return files->env->vfs->ops->rename(files->env->vfs, from, to);
}

/* Deletes what the swaps replace: every file whose offset lies in [first, end). */
static enum stele_err delete_replaced(struct stele_found_files *files, int64_t first, int64_t end)
{
    for (int i = 0; i < files->count; i++) {
        int64_t base_offset = files->segments[i].base_offset;
        for (int kind = 0; kind < KIND_SNAPSHOT && base_offset >= first && base_offset < end; kind++) {
            enum stele_err err = stele_segment_unlink(files->env, files->dir, base_offset, kind_suffix[kind]);
            if (err != STELE_OK)
                return err;
        }
    }
    for (int i = files->snapshot_count - 1; i >= 0; i--) {
        if (files->snapshots[i] < first || files->snapshots[i] >= end)
            continue;
        enum stele_err err = stele_found_files_drop_snapshot(files, i);
        if (err != STELE_OK)
            return err;
    }
    return sync_names(files);
}

/* `first` INT64_MAX: no log is left to be swapped in, only other files. */
static enum stele_err complete_swaps(struct stele_found_files *files, int64_t first, int64_t end,
                                     struct stele_error *error)
{
    struct file_name name;
    enum stele_err err = first == INT64_MAX ? STELE_OK : delete_replaced(files, first, end);
    for (int step = 0; step < 2 && err == STELE_OK; step++) {
        for (int i = files->leftover_count - 1; i >= 0 && err == STELE_OK; i--) {
            bool is_swap = name_parse(files->leftovers[i], &name) && name.state == STATE_SWAP;
            if (!is_swap || (name.kind == KIND_LOG) != (step == 0))
                continue;
            err = swap_in(files, files->leftovers[i]);
            if (err == STELE_OK && step == 0)
                err = sync_names(files);
        }
    }
    if (err == STELE_OK)
        err = sync_names(files);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%s: a clean that a crash interrupted cannot be completed: %s", files->dir,
                               stele_err_text(err));
    return STELE_OK;
}

static enum stele_err settle_swaps(struct stele_found_files *files, int64_t base_min, bool *out_any,
                                   struct stele_error *error)
{
    struct file_name name;
    int64_t first = INT64_MAX, end = INT64_MIN;
    bool any = false;
    for (int i = 0; i < files->leftover_count; i++) {
        if (!name_parse(files->leftovers[i], &name) || name.state != STATE_SWAP || name.base_offset >= base_min)
            continue;
        any = true;
        if (name.kind != KIND_LOG)
            continue;
        int64_t swap = 0;
        enum stele_err err = swap_end(files, files->leftovers[i], name.base_offset, &swap);
        if (err != STELE_OK)
            return stele_error_set(error, err, "%s/%s cannot be read: %s", files->dir, files->leftovers[i],
                                   stele_err_text(err));
        first = stele_min_i64(first, name.base_offset);
        end = stele_max_i64(end, stele_max_i64(swap, name.base_offset + 1));
    }
    *out_any = any;
    return any ? complete_swaps(files, first, end, error) : STELE_OK;
}

/* Indexes without a log. */
static enum stele_err drop_orphans(struct stele_found_files *files, struct stele_error *error)
{
    int kept = 0;
    for (int i = 0; i < files->count; i++) {
        struct stele_found_segment *found = &files->segments[i];
        if (found->has_log) {
            files->segments[kept++] = *found;
            continue;
        }
        for (int kind = KIND_INDEX; kind <= KIND_TXN_INDEX; kind++) {
            enum stele_err err = stele_segment_unlink(files->env, files->dir, found->base_offset, kind_suffix[kind]);
            if (err != STELE_OK)
                return stele_error_set(error, err, "%s: an index of offset %lld without a log cannot be deleted: %s",
                                       files->dir, (long long)found->base_offset, stele_err_text(err));
        }
    }
    files->count = kept;
    return STELE_OK;
}

enum stele_err stele_found_files_load(struct stele_found_files *files, struct stele_error *error)
{
    enum stele_err err = list(files);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%s cannot be listed: %s", files->dir, stele_err_text(err));
    bool any_swap = false;
    int64_t base_min = cleaned_base(files);
    err = give_up_cleans(files, base_min, error);
    if (err != STELE_OK)
        return err;
    err = settle_swaps(files, base_min, &any_swap, error);
    if (err != STELE_OK)
        return err;
    if (any_swap && (err = list(files)) != STELE_OK)
        return stele_error_set(error, err, "%s cannot be listed: %s", files->dir, stele_err_text(err));
    return drop_orphans(files, error);
}

enum stele_err stele_found_files_finish_deletions(struct stele_found_files *files)
{
    bool is_synced = false;
    for (int i = 0; i < files->count; i++) {
        if (!files->segments[i].was_being_deleted)
            continue;
        /* They are what tells a later start to look: what was rebuilt must be there for good before they go. */
        enum stele_err err = is_synced ? STELE_OK : sync_names(files);
        is_synced = true;
        if (err == STELE_OK)
            err = stele_segment_unlink_deleted(files->env->vfs, files->dir, files->segments[i].base_offset);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}
