/* What takes away: truncation, retention, delete-records, unlinking (facts 6 and 8.6). */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/log_struct.h"
#include "storage/resync.h"
#include "storage/retention.h"
#include "storage/scan.h"

#include <string.h>

/* The newest snapshot at or below `offset`, and the ones above it, which a truncation makes wrong. */
struct snapshot_search {
    struct stele_log *log;
    int64_t target, best;
};

static enum stele_err see_name(void *arg, const char *name)
{
    struct snapshot_search *search = arg;
    char path[STELE_PATH_BYTES];
    const char *suffix;
    int64_t offset;
    if (!stele_segment_name_parse(name, &offset, &suffix) || strcmp(suffix, ".snapshot") != 0)
        return STELE_OK;
    if (offset <= search->target) {
        search->best = stele_max_i64(search->best, offset);
        return STELE_OK;
    }
    enum stele_err err = stele_path_join(path, search->log->dir, name);
    if (err == STELE_OK)
        err = search->log->env->vfs->ops->unlink(search->log->env->vfs, path);
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}

static enum stele_err load_snapshot(struct stele_log *log, int64_t offset)
{
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    stele_segment_name(offset, ".snapshot", name);
    enum stele_err err = stele_path_join(path, log->dir, name);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(log->env->vfs, log->env->mem, STELE_MEM_LOG, path, INT32_MAX, &bytes, &count);
    if (err != STELE_OK)
        return err;
    err = stele_producers_load(log->producers, bytes, count, offset, stele_env_wall_ms(log->env));
    stele_mem_free(log->env->mem, bytes);
    return err;
}

static enum stele_err apply_scanned(struct stele_log *log, const struct stele_scanned *batch)
{
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_control control;
    struct stele_completed_txn txn;
    bool has_control =
        (batch->header.attributes & STELE_BATCH_CONTROL) != 0 && batch->header.record_count > 0 && batch->batch != NULL;
    enum stele_err err = stele_producers_reserve(log->producers, batch->header.producer_id, 1);
    if (err == STELE_OK && has_control) {
        err =
            stele_record_walker_init(&walker, log->env->mem, batch->batch, (size_t)batch->bytes, (size_t)batch->bytes);
        if (err != STELE_OK)
            return err;
        err = stele_record_next(&walker, &record);
        if (err == STELE_OK)
            err = stele_control_read(&record, &control);
        stele_record_walker_deinit(&walker);
    }
    if (err == STELE_OK)
        (void)stele_producers_apply(log->producers, &batch->header, has_control ? &control : NULL, &txn);
    return err;
}

static enum stele_err replay(struct stele_log *log, struct stele_scan *scan, const struct stele_segment *seg,
                             int64_t from, int64_t to)
{
    struct stele_file *file = NULL;
    struct stele_scanned batch;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    err = stele_scan_start(scan, file, 0, seg->bytes);
    while (err == STELE_OK) {
        err = stele_segment_scan_next(seg, scan, &batch);
        if (err != STELE_OK || batch.header.base_offset >= to)
            break;
        if (stele_batch_last_offset(&batch.header) >= from) /* the log may start inside a batch */
            err = apply_scanned(log, &batch);
    }
    stele_cached_file_unpin(seg->file);
    return err == STELE_END || err == STELE_CORRUPT ? STELE_OK : err;
}

enum stele_err stele_log__rebuild_producers(struct stele_log *log, int64_t offset)
{
    struct snapshot_search search = {.log = log, .target = offset, .best = -1};
    struct stele_scan scan;
    enum stele_err err = log->env->vfs->ops->list(log->env->vfs, log->dir, see_name, &search);
    int64_t from = log->log_start_offset;
    if (err != STELE_OK)
        return err;
    stele_producers_clear(log->producers, from);
    if (search.best >= from) {
        err = load_snapshot(log, search.best);
        if (err == STELE_OK)
            from = search.best;
        else if (err != STELE_CORRUPT && err != STELE_NOT_FOUND)
            return err;
    }
    log->last_snapshot = search.best;
    stele_scan_init(&scan, log->env->mem);
    err = STELE_OK;
    for (int at = stele_log__floor(log, from); at < log->segment_count && err == STELE_OK; at++)
        err = replay(log, &scan, log->segments[at], from, offset);
    stele_scan_deinit(&scan);
    stele_producers_set_map_end(log->producers, offset);
    stele_producers_on_high_watermark(log->producers, log->high_watermark);
    return err;
}

static enum stele_err replace_all(struct stele_log *log, int64_t offset)
{
    struct stele_segment *seg = NULL;
    enum stele_reason reasons[1] = {STELE_REASON_TRUNCATED};
    enum stele_err err = STELE_OK;
    /* From the end, so that what is left at any time is a log; the new one may have the name of one of them. */
    while (log->segment_count > 0 && err == STELE_OK)
        err = stele_log__drop_segments(log, log->segment_count - 1, log->segment_count, reasons);
    if (err == STELE_OK)
        err = stele_segment_create(log->env, log->cache, log->dir, offset, &log->config, &seg);
    if (err == STELE_OK)
        err = stele_log__add_segment(log, seg);
    if (err != STELE_OK)
        stele_segment_free(log->segment_count == 0 ? seg : NULL);
    return err;
}

int64_t stele_log_point_after_cut(const struct stele_log *log, int64_t offset)
{
    if (log->segment_count == 0) /* it failed while it began anew */
        return stele_min_i64(log->checkpoint_point, offset);
    int at = stele_log__floor(log, offset);
    if (at > 0 && log->segments[at]->base_offset >= offset)
        at--; /* that one goes; this is appended to */
    int64_t base_offset = log->segments[at]->base_offset;
    return stele_min_i64(log->checkpoint_point, stele_min_i64(offset, base_offset));
}

static void lower_to(struct stele_log *log, int64_t offset)
{
    log->log_end_offset = offset;
    log->cut_count++;
    log->recovery_point = log->checkpoint_point = stele_log_point_after_cut(log, offset);
    log->log_start_offset = stele_min_i64(log->log_start_offset, offset);
    log->has_new_names = true;
    stele_epoch_cache_truncate_from_end(&log->epochs, offset);
}

enum stele_err stele_log_restart_at(struct stele_log *log, int64_t offset)
{
    struct snapshot_search search = {.log = log, .target = -1, .best = -1};
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (log->is_flushing)
        return STELE_EXISTS;
    stele_log__touch(log);
    /* Tells recovery, before a segment of the new life is there, that deletions told of before are no longer true. */
    stele_log__note(log, STELE_HISTORY_CUT, offset, stele_log_bytes(log), STELE_REASON_TRUNCATED);
    bool must_know = offset < log->log_start_offset || log->damaged_count > 0;
    err = must_know ? stele_history_sync(log->env, log->dir) : STELE_OK;
    if (err == STELE_OK)
        err = replace_all(log, offset);
    if (err == STELE_OK)
        err = log->env->vfs->ops->list(log->env->vfs, log->dir, see_name, &search);
    /* The recovery point is to be the new start: nothing from below it may come back. */
    if (err == STELE_OK)
        err = log->env->vfs->ops->sync_dir(log->env->vfs, log->dir);
    if (err != STELE_OK) {
        log->log_start_offset = stele_min_i64(log->log_start_offset, offset);
        log->recovery_point = log->checkpoint_point = log->log_start_offset;
        return stele_log__fail(log, err, "a restart of the log that failed");
    }
    stele_epoch_cache_clear(&log->epochs);
    stele_producers_clear(log->producers, offset);
    log->log_start_offset = log->log_end_offset = log->high_watermark = offset;
    log->cut_count++;
    log->recovery_point = log->checkpoint_point = offset;
    log->last_snapshot = -1;
    log->damaged_count = 0;
    log->suspect_offset = -1;
    log->has_new_names = true;
    STELE_METRIC_ADD(log->env->metrics, log_truncations, 1);
    stele_trace(log->env, STELE_TRACE_LOG_TRUNCATED, log->name, "it starts anew", offset, 0, 0);
    return STELE_OK;
}

/* Reads the last batch of a segment that ends before `offset`, checksum and all. END or CORRUPT: it is not there. */
static enum stele_err check_last(struct stele_log *log, struct stele_segment *seg, int64_t offset)
{
    struct stele_batch_header header;
    struct stele_scan scan;
    struct stele_scanned batch;
    struct stele_file *file = NULL;
    int64_t pos = 0;
    enum stele_err err = stele_segment_find(seg, offset - 1, &pos, &header);
    if (err == STELE_OK)
        err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    stele_scan_init(&scan, log->env->mem);
    err = stele_scan_start(&scan, file, pos, seg->bytes);
    if (err == STELE_OK)
        err = stele_scan_next(&scan, &batch);
    stele_scan_deinit(&scan);
    stele_cached_file_unpin(seg->file);
    return err;
}

/* Where the batch before `offset` is damaged or missing, the log goes on in a segment of its own: no segment has a hole
 * within, behind which a start would not know what it finds (may_go_on_at of recovery). */
static enum stele_err roll_behind_hole(struct stele_log *log, int64_t offset, bool is_damaged)
{
    struct stele_segment *seg = stele_log__active(log);
    if (offset == seg->base_offset)
        return STELE_OK;
    enum stele_err err = is_damaged ? STELE_END : check_last(log, seg, offset);
    return err == STELE_END || err == STELE_CORRUPT ? stele_log_roll(log, STELE_REASON_DAMAGE) : err;
}

/* Durable before the cut: recovery must know where bytes of before may lie. */
static enum stele_err note_cut(struct stele_log *log, int64_t offset)
{
    struct stele_batch_header header;
    int at = stele_log__floor(log, offset);
    int64_t pos = 0, bytes = 0;
    enum stele_err err = stele_segment_find(log->segments[at], offset, &pos, &header);
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return err;
    for (int i = at; i < log->segment_count; i++)
        bytes += log->segments[i]->bytes;
    stele_log__note(log, STELE_HISTORY_CUT, offset, bytes - pos, STELE_REASON_TRUNCATED);
    err = stele_history_sync(log->env, log->dir);
    return err == STELE_NO_SPACE || err == STELE_NO_MEMORY ? STELE_OK : err;
}

/* What is appended next may be of the size of what was cut, byte for byte behind it. A loss of power that took the
 * first new batches and kept others would leave old ones under them, which check and follow, and of which no leader
 * would ever hear: so the cut is durable before anything is appended, names and all. */
static enum stele_err sync_cut(struct stele_log *log, bool has_dropped, bool has_cut)
{
    struct stele_file *file = NULL;
    struct stele_cached_file *cached = stele_log__active(log)->file;
    enum stele_err err = has_dropped ? log->env->vfs->ops->sync_dir(log->env->vfs, log->dir) : STELE_OK;
    if (err != STELE_OK || !has_cut)
        return err;
    err = stele_cached_file_pin(cached, &file);
    if (err != STELE_OK)
        return err;
    err = stele_sync_marked(file, log->dir);
    stele_cached_file_unpin(cached);
    return err;
}

static enum stele_err cut_files(struct stele_log *log, int64_t offset)
{
    enum stele_reason reason = STELE_REASON_TRUNCATED;
    int count = log->segment_count;
    enum stele_err err = STELE_OK;
    while (log->segment_count > 1 && stele_log__active(log)->base_offset >= offset && err == STELE_OK)
        err = stele_log__drop_segments(log, log->segment_count - 1, log->segment_count, &reason);
    struct stele_segment *seg = stele_log__active(log);
    int64_t before = seg->bytes;
    if (err == STELE_OK)
        err = stele_segment_truncate(seg, offset);
    return err == STELE_OK ? sync_cut(log, log->segment_count < count, seg->bytes < before) : err;
}

static enum stele_err cut(struct stele_log *log, int64_t offset)
{
    enum stele_err err = note_cut(log, offset);
    if (err == STELE_OK)
        err = cut_files(log, offset);
    if (err != STELE_OK)
        return err;
    lower_to(log, offset);
    log->high_watermark = stele_min_i64(log->high_watermark, offset);
    const struct stele_segment *seg = stele_log__active(log);
    bool is_damaged = false; /* what is left of the active segment */
    int kept = 0;
    for (int i = 0; i < log->damaged_count; i++) {
        is_damaged = is_damaged || (log->damaged[i].segment_base == seg->base_offset &&
                                    log->damaged[i].pos < seg->bytes && log->damaged[i].end_pos >= seg->bytes);
        if (log->damaged[i].first_offset >= offset)
            continue;
        log->damaged[kept] = log->damaged[i];
        log->damaged[kept].last_offset = stele_min_i64(log->damaged[i].last_offset, offset - 1);
        kept++;
    }
    log->damaged_count = kept;
    if (log->suspect_offset >= offset)
        log->suspect_offset = -1;
    err = stele_log__rebuild_producers(log, offset);
    if (err == STELE_OK)
        err = roll_behind_hole(log, offset, is_damaged);
    STELE_METRIC_ADD(log->env->metrics, log_truncations, 1);
    stele_trace(log->env, STELE_TRACE_LOG_TRUNCATED, log->name, stele_reason_text(STELE_REASON_TRUNCATED), offset, 0,
                0);
    return err;
}

enum stele_err stele_log_truncate(struct stele_log *log, int64_t offset)
{
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (offset >= log->log_end_offset) {
        stele_epoch_cache_truncate_from_end(&log->epochs, log->log_end_offset);
        return STELE_OK;
    }
    if (offset < log->segments[0]->base_offset)
        return stele_log_restart_at(log, offset);
    stele_log__touch(log);
    if (log->is_flushing)
        return STELE_EXISTS;
    int64_t point = stele_log_point_after_cut(log, offset);
    err = cut(log, offset);
    if (err == STELE_OK)
        return STELE_OK;
    log->log_start_offset = stele_min_i64(log->log_start_offset, offset);
    log->recovery_point = log->checkpoint_point = point;
    return stele_log__fail(log, err, "a truncation that failed");
}

enum stele_err stele_log_find_cut(struct stele_log *log, int64_t offset, struct stele_log_cut *out)
{
    struct stele_log_cut cut = {.offset = offset};
    struct stele_batch_header header;
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    struct stele_segment *seg = log->segments[stele_log__floor(log, offset)];
    if (seg->base_offset < offset) {
        cut.file = seg->file;
        err = stele_segment_find(seg, offset, &cut.pos, &header);
        if (err == STELE_CORRUPT)
            cut.pos = 0; /* who knows: everything of that segment counts as cut */
        else if (err != STELE_OK && err != STELE_END)
            return stele_log__settle_read(log, err);
    }
    *out = cut;
    return STELE_OK;
}

bool stele_slice_is_cut(const struct stele_slice *slice, const struct stele_log_cut *cut)
{
    if (slice->file == NULL || slice->bytes == 0)
        return false;
    return slice->base_offset >= cut->offset ||
           (slice->file == cut->file && slice->pos + (int64_t)slice->bytes > cut->pos);
}

enum stele_err stele_log_set_start_offset(struct stele_log *log, int64_t offset)
{
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (offset > log->high_watermark || offset < 0)
        return STELE_OFFSET_OUT_OF_RANGE;
    if (offset <= log->log_start_offset)
        return STELE_OK;
    stele_log__touch(log);
    log->log_start_offset = offset; /* the recovery point stays: what is deleted is not synced by that */
    stele_epoch_cache_truncate_from_start(&log->epochs, offset);
    stele_producers_on_log_start(log->producers, offset);
    int kept = 0;
    for (int i = 0; i < log->damaged_count; i++) {
        if (log->damaged[i].last_offset >= offset)
            log->damaged[kept++] = log->damaged[i];
    }
    log->damaged_count = kept;
    return STELE_OK;
}

static enum stele_err summarize(struct stele_log *log, struct stele_retention_segment *out)
{
    for (int i = 0; i < log->segment_count; i++) {
        struct stele_segment *seg = log->segments[i];
        out[i] = (struct stele_retention_segment){.base_offset = seg->base_offset, .bytes = seg->bytes};
        enum stele_err err = stele_segment_keep_timestamp(seg, &out[i].largest_timestamp);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

static enum stele_err delete_oldest(struct stele_log *log, int count, const enum stele_reason *reasons,
                                    int *out_deleted)
{
    enum stele_err err = STELE_OK;
    if (count == log->segment_count) {
        err = stele_log_roll(log, STELE_REASON_RETENTION_ALL);
        if (err != STELE_OK || count == log->segment_count)
            return err;
    }
    int64_t start = log->segments[count]->base_offset;
    if (start > log->log_start_offset)
        err = stele_log_set_start_offset(log, start);
    if (err == STELE_OK)
        err = stele_log__drop_segments(log, 0, count, reasons);
    if (err == STELE_OK)
        *out_deleted = count;
    return err;
}

enum stele_err stele_log_retain(struct stele_log *log, int *out_deleted)
{
    enum stele_err err = stele_log__usable(log);
    *out_deleted = 0;
    if (err != STELE_OK || log->is_flushing)
        return err;
    size_t count = (size_t)log->segment_count;
    struct stele_mem *mem = log->env->mem;
    struct stele_retention_segment *segments = stele_mem_array(mem, STELE_MEM_LOG, count, sizeof(*segments));
    enum stele_reason *reasons = stele_mem_array(mem, STELE_MEM_LOG, count, sizeof(*reasons));
    err = segments == NULL || reasons == NULL ? STELE_NO_MEMORY : summarize(log, segments);
    if (err == STELE_OK) {
        struct stele_retention_in in = {.config = &log->config,
                                        .segments = segments,
                                        .count = log->segment_count,
                                        .log_start_offset = log->log_start_offset,
                                        .log_end_offset = log->log_end_offset,
                                        .high_watermark = log->high_watermark,
                                        .wall_ms = stele_env_wall_ms(log->env)};
        int gone = stele_retention_decide(&in, reasons);
        if (gone > 0)
            err = delete_oldest(log, gone, reasons, out_deleted);
    }
    stele_mem_free(mem, segments);
    stele_mem_free(mem, reasons);
    if (err == STELE_OK || err == STELE_NO_MEMORY || err == STELE_NO_SPACE || log->is_failed)
        return err;
    return stele_log__fail(log, err, "a deletion that failed");
}

int64_t stele_log_unlink_due(const struct stele_log *log)
{
    return log->unlink_count == 0 ? INT64_MAX : log->unlinks[0].due_ms;
}

enum stele_err stele_log_take_due(struct stele_log *log, int64_t mono_ms, int64_t **out_bases, int *out_count)
{
    int due = 0;
    while (due < log->unlink_count && log->unlinks[due].due_ms <= mono_ms)
        due++;
    int64_t *bases = stele_mem_array(log->env->mem, STELE_MEM_LOG, (size_t)due, sizeof(*bases));
    if (bases == NULL)
        return STELE_NO_MEMORY;
    for (int i = 0; i < due; i++)
        bases[i] = log->unlinks[i].base_offset;
    if (due > 0)
        memmove(log->unlinks, log->unlinks + due, (size_t)(log->unlink_count - due) * sizeof(*log->unlinks));
    log->unlink_count -= due;
    *out_bases = bases;
    *out_count = due;
    return STELE_OK;
}
