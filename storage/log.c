/* Life, offsets and the helpers that the parts of a log share. Invariants: log.h. */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/log_struct.h"

#include <string.h>

enum { FIRST_CAPACITY = 4 };

enum stele_err stele_log__new(const struct stele_log_open *open, struct stele_log **out_log)
{
    struct stele_mem *mem = open->env->mem;
    struct stele_log *log = stele_mem_alloc(mem, STELE_MEM_LOG, sizeof(*log));
    if (log == NULL)
        return STELE_NO_MEMORY;
    log->env = open->env;
    log->config = open->config;
    log->last_snapshot = -1;
    log->suspect_offset = -1;
    log->opened_point = open->recovery_point;
    log->last_flush_ms = stele_env_mono_ms(open->env);
    log->opened_ms = log->last_flush_ms;
    stele_epoch_cache_init(&log->epochs, mem);
    log->dir = stele_mem_string(mem, STELE_MEM_LOG, open->dir);
    log->name = stele_mem_string(mem, STELE_MEM_LOG, open->name);
    log->producers = stele_producers_new(mem, open->config.producer_id_expiration_ms);
    if (log->dir == NULL || log->name == NULL || log->producers == NULL) {
        stele_log_free(log);
        return STELE_NO_MEMORY;
    }
    *out_log = log;
    return STELE_OK;
}

void stele_log_free(struct stele_log *log)
{
    if (log == NULL)
        return;
    struct stele_mem *mem = log->env->mem;
    STELE_ASSERT(!log->is_flushing);
    for (int i = 0; i < log->segment_count; i++)
        stele_segment_free(log->segments[i]);
    stele_mem_free(mem, log->segments);
    stele_epoch_cache_deinit(&log->epochs);
    stele_producers_free(log->producers);
    stele_mem_free(mem, log->unlinks);
    stele_mem_free(mem, log->damaged);
    stele_mem_free(mem, log->headers);
    stele_mem_free(mem, log->controls);
    stele_mem_free(mem, log->dir);
    stele_mem_free(mem, log->name);
    stele_mem_free(mem, log);
}

/* Room for one more element of `bytes`; the array grows by doubling. */
static enum stele_err grow(struct stele_log *log, void **inout_array, int *inout_capacity, int count, size_t bytes)
{
    if (count < *inout_capacity)
        return STELE_OK;
    int capacity = *inout_capacity == 0 ? FIRST_CAPACITY : *inout_capacity * 2;
    void *array = stele_mem_resize(log->env->mem, STELE_MEM_LOG, *inout_array, (size_t)capacity * bytes);
    if (array == NULL)
        return STELE_NO_MEMORY;
    *inout_array = array;
    *inout_capacity = capacity;
    return STELE_OK;
}

static enum stele_err reserve_segment(struct stele_log *log)
{
    void *array = log->segments;
    enum stele_err err = grow(log, &array, &log->segment_capacity, log->segment_count, sizeof(*log->segments));
    log->segments = array;
    return err;
}

enum stele_err stele_log__add_segment(struct stele_log *log, struct stele_segment *seg)
{
    STELE_ASSERT(log->segment_count == 0 || stele_log__active(log)->base_offset < seg->base_offset);
    enum stele_err err = reserve_segment(log);
    if (err == STELE_OK)
        log->segments[log->segment_count++] = seg;
    return err;
}

enum stele_err stele_log__add_damaged(struct stele_log *log, const struct stele_damaged_range *range)
{
    void *array = log->damaged;
    enum stele_err err = grow(log, &array, &log->damaged_capacity, log->damaged_count, sizeof(*log->damaged));
    log->damaged = array;
    if (err == STELE_OK)
        log->damaged[log->damaged_count++] = *range;
    return err;
}

void stele_log_attach(struct stele_log *log, struct stele_file_cache *cache)
{
    log->cache = cache;
    for (int i = 0; i < log->segment_count; i++)
        stele_segment_attach(log->segments[i], cache);
}

struct stele_segment *stele_log__active(const struct stele_log *log)
{
    STELE_ASSERT(log->segment_count > 0);
    return log->segments[log->segment_count - 1];
}

int stele_log__floor(const struct stele_log *log, int64_t offset)
{
    int low = 0, high = log->segment_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (log->segments[middle]->base_offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? 0 : low - 1;
}

enum stele_err stele_log__fail(struct stele_log *log, enum stele_err err, const char *what)
{
    log->is_failed = true;
    stele_trace(log->env, STELE_TRACE_LOG_FAILED, log->dir, what, log->log_end_offset, 0, 0);
    return err;
}

enum stele_err stele_log__usable(const struct stele_log *log)
{
    return log->is_failed ? STELE_OFFLINE : log->is_closed ? STELE_CLOSED : STELE_OK;
}

static enum stele_err note(struct stele_log *log, enum stele_history_kind kind, int64_t offset, int64_t bytes,
                           enum stele_reason reason)
{
    struct stele_history_event event = {
        .wall_ms = stele_env_wall_ms(log->env), .kind = kind, .offset = offset, .bytes = bytes, .reason = reason};
    enum stele_err err = stele_history_append(log->env, log->dir, &event);
    if (err != STELE_OK)
        stele_trace(log->env, STELE_TRACE_CHECKPOINT_BAD, log->dir, "its history could not be written", 0, 0, 0);
    return err;
}

void stele_log__note(struct stele_log *log, enum stele_history_kind kind, int64_t offset, int64_t bytes,
                     enum stele_reason reason)
{
    enum stele_err ignored = note(log, kind, offset, bytes, reason);
    (void)ignored; /* history explains; no operation fails with it */
}

static enum stele_err snapshot_path(const struct stele_log *log, int64_t offset, const char *suffix,
                                    char out_path[STELE_PATH_BYTES])
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(offset, suffix, name);
    return stele_path_join(out_path, log->dir, name);
}

static enum stele_err write_file(struct stele_vfs *vfs, const char *path, const void *bytes, size_t count)
{
    struct stele_file *file = NULL;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, bytes, count, 0);
    vfs->ops->close(file);
    return err;
}

enum stele_err stele_log__write_snapshot(struct stele_log *log, int64_t offset)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = snapshot_path(log, offset, ".snapshot", path);
    if (err == STELE_OK)
        err = stele_producers_snapshot(log->producers, &bytes, &count);
    if (err != STELE_OK)
        return err;
    stele_log__touch(log);
    err = write_file(log->env->vfs, path, bytes, count);
    stele_mem_free(log->env->mem, bytes);
    if (err == STELE_OK)
        log->last_snapshot = stele_max_i64(log->last_snapshot, offset);
    return err;
}

/* The segment's own snapshot dies with it. */
static enum stele_err condemn_snapshot(struct stele_log *log, int64_t base_offset)
{
    char path[STELE_PATH_BYTES], deleted[STELE_PATH_BYTES];
    enum stele_err err = snapshot_path(log, base_offset, ".snapshot", path);
    if (err == STELE_OK)
        err = snapshot_path(log, base_offset, ".snapshot.deleted", deleted);
    if (err == STELE_OK)
        err = log->env->vfs->ops->rename(log->env->vfs, path, deleted);
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}

/* Renames may become durable in any order. Of segments deleted from the front a later one must not go for good while an
 * earlier one comes back: recovery would take the hole for a lost tail. So the lines of history go first, durably, and
 * recovery finishes what they say. Without them (a full disk must be freed all the same) `*out_one_by_one`.
 *
 * Before the lines the names as they are become durable: what a truncation took from the end must not be all that is
 * left when the front goes and a new end is lost. */
static enum stele_err note_drops(struct stele_log *log, int from, int to, const enum stele_reason *reasons,
                                 bool *out_one_by_one)
{
    bool is_at_front = from == 0 && reasons[0] != STELE_REASON_TRUNCATED;
    enum stele_err err = STELE_OK;
    if (is_at_front && log->has_new_names)
        err = log->env->vfs->ops->sync_dir(log->env->vfs, log->dir);
    log->has_new_names = log->has_new_names && (!is_at_front || err != STELE_OK);
    for (int i = from; i < to && err == STELE_OK; i++)
        err =
            note(log, STELE_HISTORY_DELETE, log->segments[i]->base_offset, log->segments[i]->bytes, reasons[i - from]);
    if (err == STELE_OK && is_at_front)
        err = stele_history_sync(log->env, log->dir);
    *out_one_by_one = err != STELE_OK && is_at_front;
    return err == STELE_IO && is_at_front ? err : STELE_OK;
}

enum stele_err stele_log__drop_segments(struct stele_log *log, int from, int to, const enum stele_reason *reasons)
{
    int64_t due = stele_env_mono_ms(log->env) + stele_min_i64(log->config.file_delete_delay_ms, INT64_MAX / 4);
    bool one_by_one = false;
    stele_log__touch(log);
    enum stele_err err = note_drops(log, from, to, reasons, &one_by_one);
    int dropped = 0;
    for (int i = from; i < to && err == STELE_OK; i++, dropped++) {
        struct stele_segment *seg = log->segments[i];
        void *array = log->unlinks;
        err = grow(log, &array, &log->unlink_capacity, log->unlink_count, sizeof(*log->unlinks));
        log->unlinks = array;
        if (err == STELE_OK)
            err = stele_segment_mark_deleted(seg);
        if (err == STELE_OK)
            err = condemn_snapshot(log, seg->base_offset);
        if (err == STELE_OK && one_by_one)
            err = log->env->vfs->ops->sync_dir(log->env->vfs, log->dir);
        if (err != STELE_OK)
            break;
        int64_t next = i + 1 < log->segment_count ? log->segments[i + 1]->base_offset : log->log_end_offset;
        log->unlinks[log->unlink_count++] = (struct stele_unlink_due){
            .base_offset = seg->base_offset, .next_offset = next, .bytes = seg->bytes, .due_ms = due};
        STELE_METRIC_ADD(log->env->metrics, log_segments_deleted, 1);
        stele_trace(log->env, STELE_TRACE_LOG_SEGMENT_DELETED, log->name, stele_reason_text(reasons[i - from]),
                    seg->base_offset, seg->bytes, 0);
        stele_segment_free(seg);
    }
    memmove(log->segments + from, log->segments + from + dropped,
            (size_t)(log->segment_count - from - dropped) * sizeof(*log->segments));
    log->segment_count -= dropped;
    return err;
}

/* The marker of a clean stop comes behind it: until then nothing rests on the order of these. Who closes thousands has
 * nothing to do for those that nobody wrote to: an epoch that begins at the end is dropped by the next start anyway. */
static enum stele_err settle_files(struct stele_log *log)
{
    if (log->is_as_closed && !stele_log__active(log)->is_index_rebuilt)
        return STELE_OK;
    enum stele_err err = stele_log__write_snapshot(log, log->log_end_offset);
    if (err == STELE_OK)
        err = stele_segment_seal(stele_log__active(log));
    if (err == STELE_OK)
        err = stele_log_flush(log);
    if (err == STELE_OK)
        err = stele_log__sync_snapshot(log->env, log->dir, log->log_end_offset);
    return err == STELE_OK ? log->env->vfs->ops->sync_dir(log->env->vfs, log->dir) : err;
}

enum stele_err stele_log_close(struct stele_log *log)
{
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (log->is_flushing)
        return STELE_EXISTS;
    err = settle_files(log);
    if (err != STELE_OK)
        return stele_log__fail(log, err, "a close that could not write or sync");
    log->recovery_point = log->checkpoint_point = log->log_end_offset; /* all files are synced, and nothing rolls now */
    log->is_closed = true;
    return STELE_OK;
}

void stele_log_directory_synced(struct stele_log *log)
{
    log->is_first_unnamed = false;
}

const char *stele_log_name(const struct stele_log *log)
{
    return log->name;
}

const char *stele_log_dir(const struct stele_log *log)
{
    return log->dir;
}

int64_t stele_log_start_offset(const struct stele_log *log)
{
    return log->log_start_offset;
}

int64_t stele_log_end_offset(const struct stele_log *log)
{
    return log->log_end_offset;
}

int64_t stele_log_high_watermark(const struct stele_log *log)
{
    return log->high_watermark;
}

int64_t stele_log_last_stable_offset(const struct stele_log *log)
{
    int64_t unstable = stele_producers_first_unstable(log->producers);
    if (unstable < 0 || unstable > log->high_watermark)
        return log->high_watermark;
    return stele_max_i64(unstable, log->log_start_offset);
}

int64_t stele_log_recovery_point(const struct stele_log *log)
{
    return log->recovery_point;
}

int64_t stele_log_checkpoint_point(const struct stele_log *log)
{
    return log->checkpoint_point;
}

int64_t stele_log_bytes(const struct stele_log *log)
{
    int64_t bytes = 0;
    for (int i = 0; i < log->segment_count; i++)
        bytes += log->segments[i]->bytes;
    return bytes;
}

int stele_log_segment_count(const struct stele_log *log)
{
    return log->segment_count;
}

struct stele_segment *stele_log_segment(const struct stele_log *log, int index)
{
    STELE_ASSERT(index >= 0 && index < log->segment_count);
    return log->segments[index];
}

int64_t stele_log_first_base(const struct stele_log *log)
{
    return log->is_failed ? -1 : log->segments[0]->base_offset;
}

const struct stele_epoch_cache *stele_log_epochs(const struct stele_log *log)
{
    return &log->epochs;
}

const struct stele_producers *stele_log_producers(const struct stele_log *log)
{
    return log->producers;
}

const struct stele_log_config *stele_log_config(const struct stele_log *log)
{
    return &log->config;
}

void stele_log_set_config(struct stele_log *log, const struct stele_log_config *config)
{
    log->config = *config;
}

bool stele_log_is_failed(const struct stele_log *log)
{
    return log->is_failed;
}

void stele_log_set_high_watermark(struct stele_log *log, int64_t offset)
{
    int64_t bounded = stele_min_i64(offset, log->log_end_offset);
    if (bounded <= log->high_watermark)
        return;
    log->high_watermark = bounded;
    stele_producers_on_high_watermark(log->producers, bounded);
}

enum stele_err stele_log_begin_epoch(struct stele_log *log, int32_t epoch, int64_t offset)
{
    return stele_epoch_cache_assign(&log->epochs, epoch, offset);
}

int stele_log_damaged_count(const struct stele_log *log)
{
    return log->damaged_count;
}

const struct stele_damaged_range *stele_log_damaged(const struct stele_log *log, int index)
{
    STELE_ASSERT(index >= 0 && index < log->damaged_count);
    return &log->damaged[index];
}

int64_t stele_log_suspect_offset(const struct stele_log *log)
{
    return log->suspect_offset >= log->log_start_offset ? log->suspect_offset : -1;
}

int64_t stele_log_damage_offset(const struct stele_log *log)
{
    int64_t offset = stele_log_suspect_offset(log);
    for (int i = 0; i < log->damaged_count; i++) {
        int64_t first_offset = stele_max_i64(log->damaged[i].first_offset, log->log_start_offset);
        offset = offset < 0 ? first_offset : stele_min_i64(offset, first_offset);
    }
    return offset;
}

int stele_log_expire_producers(struct stele_log *log)
{
    return stele_producers_expire(log->producers, stele_env_wall_ms(log->env));
}

void stele_log_check(const struct stele_log *log)
{
    if (log->is_failed)
        return; /* an operation that stopped half way; opening it again puts it right */
    STELE_ASSERT(log->segment_count > 0);
    STELE_ASSERT(log->log_start_offset >= 0);
    STELE_ASSERT(log->log_start_offset <= log->high_watermark);
    STELE_ASSERT(log->high_watermark <= log->log_end_offset);
    STELE_ASSERT(log->checkpoint_point <= log->recovery_point);
    STELE_ASSERT(log->recovery_point <= log->log_end_offset);
    STELE_ASSERT(stele_log__active(log)->base_offset <= log->log_end_offset);
    for (int i = 0; i < log->segment_count; i++) {
        stele_segment_check(log->segments[i]);
        STELE_ASSERT(i == 0 || log->segments[i - 1]->base_offset < log->segments[i]->base_offset);
    }
}
