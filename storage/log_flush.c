/* Flushing in three steps (facts 5.2): begin on the loop pins what is to be synced, run syncs in a job, end moves the
 * recovery point. */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/log_struct.h"
#include "storage/resync.h"

struct stele_log_flush {
    struct stele_env *env;
    char *dir; /* the log's: a log outlives its flush */
    int64_t target, begun_us;
    int segment_count;
    struct stele_segment_sync *segments;
    int64_t *snapshots; /* of segments made since the last flush */
    int snapshot_count;
    char *epochs; /* text of the epoch file, when it changed */
    size_t epochs_bytes;
    bool sync_dir;
    bool lacks_room; /* run: for the epoch file alone; all before it is synced */
};

static void free_flush(struct stele_log_flush *flush)
{
    for (int i = 0; i < flush->segment_count; i++)
        stele_segment_sync_release(&flush->segments[i]);
    stele_mem_free(flush->env->mem, flush->segments);
    stele_mem_free(flush->env->mem, flush->snapshots);
    stele_mem_free(flush->env->mem, flush->epochs);
    stele_mem_free(flush->env->mem, flush);
}

static enum stele_err pin_segments(struct stele_log *log, struct stele_log_flush *flush)
{
    int first = stele_log__floor(log, log->recovery_point);
    /* A segment that was rolled while the last flush ran lies below the recovery point, its end not yet synced. */
    while (first > 0 && log->segments[first - 1]->is_unsynced)
        first--;
    size_t count = (size_t)(log->segment_count - first);
    flush->segments = stele_mem_array(log->env->mem, STELE_MEM_LOG, count, sizeof(*flush->segments));
    flush->snapshots = stele_mem_array(log->env->mem, STELE_MEM_LOG, count, sizeof(*flush->snapshots));
    if (flush->segments == NULL || flush->snapshots == NULL)
        return STELE_NO_MEMORY;
    flush->sync_dir = log->has_new_names || count > 1;
    for (int at = first; at < log->segment_count; at++) {
        /* Its first aborted transaction made the file. */
        flush->sync_dir = flush->sync_dir || log->segments[at]->txns.exists;
        enum stele_err err = stele_segment_sync_begin(log->segments[at], &flush->segments[flush->segment_count]);
        if (err != STELE_OK)
            return err;
        flush->segment_count++;
        if (at > first)
            flush->snapshots[flush->snapshot_count++] = log->segments[at]->base_offset;
    }
    return STELE_OK;
}

enum stele_err stele_log_flush_begin(struct stele_log *log, struct stele_log_flush **out_flush)
{
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (log->is_flushing)
        return STELE_EXISTS;
    struct stele_log_flush *flush = stele_mem_alloc(log->env->mem, STELE_MEM_LOG, sizeof(*flush));
    if (flush == NULL)
        return STELE_NO_MEMORY;
    *flush = (struct stele_log_flush){
        .env = log->env, .dir = log->dir, .target = log->log_end_offset, .begun_us = stele_env_mono_us(log->env)};
    err = pin_segments(log, flush);
    if (err == STELE_OK && log->epochs.is_dirty)
        err = stele_epoch_cache_text(&log->epochs, &flush->epochs, &flush->epochs_bytes);
    if (err != STELE_OK) {
        free_flush(flush);
        if (err == STELE_NO_MEMORY || err == STELE_NO_SPACE)
            return err;
        return stele_log__fail(log, err, "a flush that could not write an index");
    }
    if (flush->epochs != NULL)
        log->epochs.is_dirty = false;
    for (int i = 0; i < flush->segment_count; i++)
        log->segments[log->segment_count - 1 - i]->is_unsynced = false;
    log->has_new_names = false;
    log->is_flushing = true;
    *out_flush = flush;
    return STELE_OK;
}

enum stele_err stele_log__sync_snapshot(struct stele_env *env, const char *dir, int64_t offset)
{
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    struct stele_vfs *vfs = env->vfs;
    struct stele_file *file = NULL;
    stele_segment_name(offset, ".snapshot", name);
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE, &file);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err; /* its segment was deleted meanwhile */
    err = stele_sync_marked(file, dir);
    vfs->ops->close(file);
    return err;
}

enum stele_err stele_log_flush_run(struct stele_log_flush *flush)
{
    struct stele_vfs *vfs = flush->env->vfs;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < flush->segment_count && err == STELE_OK; i++)
        err = stele_segment_sync_run(&flush->segments[i]);
    for (int i = 0; i < flush->snapshot_count && err == STELE_OK; i++)
        err = stele_log__sync_snapshot(flush->env, flush->dir, flush->snapshots[i]);
    if (err == STELE_OK && flush->epochs != NULL) {
        err = stele_vfs_replace(vfs, flush->dir, STELE_LEADER_EPOCH_FILE, flush->epochs, flush->epochs_bytes);
        flush->lacks_room = err == STELE_NO_SPACE || err == STELE_NO_MEMORY;
    }
    if (err == STELE_OK && flush->sync_dir)
        err = vfs->ops->sync_dir(vfs, flush->dir);
    return err;
}

/* A start after a crash reads the segment of the point and all later ones. A segment's indexes are written when it is
 * sealed and synced by the flush after that, so until then the point must stay inside it: the recovery point itself may
 * become the base of a new segment, at once or after a cut; the offset before it cannot. */
void stele_log__raise_checkpoint_point(struct stele_log *log)
{
    int64_t point = log->recovery_point;
    int at = stele_log__floor(log, point);
    STELE_ASSERT(!log->is_flushing); /* the segments of a flush that runs are not marked, nor synced */
    if (point > log->segments[at]->base_offset)
        point--;
    for (; at > 0 && log->segments[at - 1]->is_unsynced; at--)
        point = log->segments[at]->base_offset - 1;
    log->checkpoint_point = stele_max_i64(log->checkpoint_point, point);
}

void stele_log_flush_end(struct stele_log *log, struct stele_log_flush *flush, enum stele_err result)
{
    STELE_ASSERT(log->is_flushing);
    log->is_flushing = false;
    if (result == STELE_OK && flush->sync_dir)
        log->is_first_unnamed = false;
    int64_t now_us = stele_env_mono_us(log->env);
    log->last_flush_ms = now_us / 1000;
    STELE_METRIC_ADD(log->env->metrics, log_flushes, 1);
    STELE_METRIC_OBSERVE(log->env->metrics, flush_time, now_us - flush->begun_us);
    if (result == STELE_OK) {
        /* A truncation meanwhile took the end back. */
        log->recovery_point = stele_max_i64(log->recovery_point, stele_min_i64(flush->target, log->log_end_offset));
        stele_log__raise_checkpoint_point(log);
    } else if (flush->lacks_room) { /* the old file is there still, and no sync failed but that of its successor */
        log->epochs.is_dirty = true;
        log->has_new_names = log->has_new_names || flush->sync_dir;
    } else {
        (void)stele_log__fail(log, result, "a sync that failed");
    }
    free_flush(flush);
}

enum stele_err stele_log_flush(struct stele_log *log)
{
    struct stele_log_flush *flush = NULL;
    enum stele_err err = stele_log_flush_begin(log, &flush);
    if (err != STELE_OK)
        return err;
    err = stele_log_flush_run(flush);
    stele_log_flush_end(log, flush, err);
    return err;
}

int64_t stele_log_flush_due(const struct stele_log *log)
{
    int64_t due;
    if (log->is_failed || log->is_flushing || log->recovery_point >= log->log_end_offset)
        return INT64_MAX;
    return __builtin_add_overflow(log->last_flush_ms, log->config.flush_ms, &due) ? INT64_MAX : due;
}
