/* Reading segments in recovery.
 *
 * Invariants
 *  1. Nothing below the point is cut: what does not check there is recorded as damage, bytes and all.
 *  2. Above the point the first batch that does not check ends the log: later segments go first, durably and the last
 * one first, then the tail. So a crash in between leaves a log that is cut at the same place again, and no later write
 * can be mixed with old bytes behind it.
 *  3. A segment's indexes, epochs and transactions are rebuilt only from batches that checked. */
#include "storage/recover.h"

#include "base/check.h"
#include "storage/resync.h"

#include <string.h>

/* How a segment joins the one before it. */
enum join {
    JOIN_ON,    /* it goes on, behind a damaged range perhaps */
    JOIN_GONE,  /* it was stale and deleted; the next one may join */
    JOIN_CUT,   /* it and all later ones were deleted */
    JOIN_AGAIN, /* the end of the one before it was stale and cut: what was read is void */
};

struct segment_scan {
    struct stele_recovery *rec;
    struct stele_segment *seg;
    struct stele_producers *producers; /* NULL: not wanted */
    int at;                            /* index of the segment */
    int64_t expected;                  /* offset after the last sound batch */
    int64_t bad_pos;                   /* of what did not check; -1 none */
    bool is_rebuilding;                /* indexes */
    int txn_count;                     /* entries of the transaction index that the batches so far agree with */
    bool is_txn_changed;               /* the index was not what the batches say */
    bool is_main;                      /* part of the scan that decides about the log's end: epochs, gaps and cuts */
};

static const struct stele_recovery_hint *hint_at(const struct stele_recovery *rec, int64_t offset)
{
    for (int i = 0; i < rec->hint_count; i++) {
        if (rec->hints[i].offset == offset)
            return &rec->hints[i];
    }
    return NULL;
}

static bool is_hinted(const struct stele_recovery *rec, int64_t offset)
{
    return hint_at(rec, offset) != NULL;
}

/* Are offsets that are missing from `offset` on lost? In a compacted log only those that were said to be. */
static bool is_loss(const struct stele_recovery *rec, int64_t offset)
{
    return !rec->has_gaps || is_hinted(rec, offset);
}

static enum stele_err read_control(struct stele_recovery *rec, const struct stele_scanned *batch,
                                   struct stele_control *out_control)
{
    struct stele_record_walker walker;
    struct stele_record record;
    if (batch->batch == NULL)
        return STELE_CORRUPT;
    enum stele_err err =
        stele_record_walker_init(&walker, rec->env->mem, batch->batch, (size_t)batch->bytes, STELE_SCAN_BUFFER_BYTES);
    if (err != STELE_OK)
        return err == STELE_NO_MEMORY ? err : STELE_CORRUPT;
    err = stele_record_next(&walker, &record);
    if (err == STELE_OK)
        err = stele_control_read(&record, out_control);
    stele_record_walker_deinit(&walker);
    return err == STELE_OK || err == STELE_NO_MEMORY ? err : STELE_CORRUPT;
}

/* Entries that are right stay as they are: below the recovery point they are synced, and written anew they were not. */
static enum stele_err note_aborted(struct segment_scan *scan, const struct stele_aborted_txn *aborted)
{
    struct stele_txn_index *txns = &scan->seg->txns;
    enum stele_err err = STELE_OK;
    if (scan->txn_count < txns->count) {
        const struct stele_aborted_txn *have = &txns->entries[scan->txn_count];
        if (have->producer_id == aborted->producer_id && have->first_offset == aborted->first_offset &&
            have->last_offset == aborted->last_offset && have->last_stable_offset == aborted->last_stable_offset) {
            scan->txn_count++;
            return STELE_OK;
        }
        err = stele_txn_index_truncate(txns, have->last_offset);
    }
    if (err == STELE_OK)
        err = stele_txn_index_append(txns, aborted);
    scan->is_txn_changed = true;
    scan->txn_count = txns->count;
    return err;
}

/* The transaction that an abort marker ended left no batch: in a compacted log they are gone, and only the index still
 * tells of it. */
static void keep_aborted(struct segment_scan *scan, const struct stele_batch_header *marker)
{
    const struct stele_txn_index *txns = &scan->seg->txns;
    if (!scan->rec->has_gaps || scan->txn_count == txns->count)
        return;
    const struct stele_aborted_txn *have = &txns->entries[scan->txn_count];
    if (have->last_offset == marker->base_offset && have->producer_id == marker->producer_id)
        scan->txn_count++;
}

/* `scan` NULL: no index is rebuilt. CORRUPT: a control batch whose record makes no sense; nothing was applied then. */
static enum stele_err apply_producer(struct stele_recovery *rec, struct stele_producers *producers,
                                     const struct stele_scanned *batch, struct segment_scan *scan)
{
    const struct stele_batch_header *header = &batch->header;
    int64_t next = stele_batch_last_offset(header) + 1;
    bool is_control = (header->attributes & STELE_BATCH_CONTROL) != 0;
    struct stele_control control;
    if (next <= stele_producers_map_end(producers))
        return STELE_OK;
    /* A control batch without a record is what compaction leaves of a marker. */
    if (header->producer_id != STELE_NO_PRODUCER_ID && !(is_control && header->record_count == 0)) {
        struct stele_completed_txn txn;
        enum stele_err err = is_control ? read_control(rec, batch, &control) : STELE_OK;
        if (err == STELE_OK)
            err = stele_producers_reserve(producers, header->producer_id, 1);
        if (err != STELE_OK)
            return err;
        bool is_completed = stele_producers_apply(producers, header, is_control ? &control : NULL, &txn);
        if (!is_completed && is_control && control.type == STELE_CONTROL_ABORT && scan != NULL)
            keep_aborted(scan, header);
        if (is_completed && txn.is_aborted && scan != NULL) {
            struct stele_aborted_txn aborted = {.producer_id = txn.producer_id,
                                                .first_offset = txn.first_offset,
                                                .last_offset = txn.last_offset,
                                                .last_stable_offset = stele_producers_lso_after(producers, &txn)};
            err = note_aborted(scan, &aborted);
            if (err != STELE_OK)
                return err;
        }
    }
    stele_producers_set_map_end(producers, next);
    return STELE_OK;
}

/* What a batch must be to follow the last one. In the scan of the tail it must also leave no gap and be of no older
 * epoch: bytes of an earlier life of the file, before a truncation, may lie behind a lost write. */
static bool follows(const struct segment_scan *scan, const struct stele_batch_header *header)
{
    const struct stele_recovery *rec = scan->rec;
    if (header->base_offset < scan->expected || stele_batch_last_offset(header) - scan->seg->base_offset > INT32_MAX)
        return false;
    if (!scan->is_main)
        return true;
    if (header->base_offset > scan->expected && !rec->has_gaps)
        return false;
    return header->partition_leader_epoch < 0 || header->partition_leader_epoch >= rec->last_epoch;
}

static enum stele_err take_batch(struct segment_scan *scan, const struct stele_scanned *batch)
{
    struct stele_recovery *rec = scan->rec;
    const struct stele_batch_header *header = &batch->header;
    enum stele_err err = STELE_OK;
    if (!follows(scan, header))
        return STELE_CORRUPT;
    if (scan->producers != NULL)
        err = apply_producer(rec, scan->producers, batch, scan->is_rebuilding ? scan : NULL);
    if (err == STELE_OK && scan->is_rebuilding)
        err = stele_segment_index_batch(scan->seg, &rec->log->config, batch->pos, batch->bytes, header);
    if (err == STELE_INVALID_ARGUMENT)
        err = STELE_OK; /* an entry that does not fit is left out: the index is a hint */
    if (err != STELE_OK)
        return err;
    if (scan->is_main && header->partition_leader_epoch >= 0) {
        err = stele_epoch_cache_assign(&rec->log->epochs, header->partition_leader_epoch, header->base_offset);
        if (err != STELE_OK)
            return err;
    }
    if (scan->is_main)
        rec->last_epoch = header->partition_leader_epoch;
    scan->expected = stele_batch_last_offset(header) + 1;
    return STELE_OK;
}

/* Sound batches behind damage say how far the offsets went. */
static enum stele_err learn_known_end(struct segment_scan *scan, int64_t *out_end)
{
    struct stele_scan *reader = &scan->rec->scan;
    struct stele_scanned batch;
    int64_t end = scan->expected;
    for (;;) {
        enum stele_err err = stele_scan_next(reader, &batch);
        if (err == STELE_CORRUPT && stele_scan_skip(reader))
            continue;
        if (err == STELE_END || err == STELE_CORRUPT)
            break;
        if (err != STELE_OK)
            return err;
        int64_t next = stele_batch_last_offset(&batch.header) + 1;
        if (batch.header.base_offset >= end && next - scan->seg->base_offset <= INT32_MAX)
            end = next;
    }
    *out_end = end;
    return STELE_OK;
}

/* Or in a range of history: a log must not be cut at damage that an earlier start kept. After an unclean start the
 * points may be lower than they were. */
static bool is_below_point(const struct stele_recovery *rec, int64_t offset)
{
    int64_t wanted = stele_max_i64(offset, rec->start); /* what the log's start passed is nobody's loss */
    bool is_below = wanted < rec->point;
    for (int i = 0; i < rec->hint_count && !is_below; i++)
        is_below = offset >= rec->hints[i].offset && offset < rec->hints[i].to && wanted < rec->hints[i].end;
    return is_below;
}

/* Below the recovery point all was synced as it was appended. Above it bytes of an earlier life of the file may lie
 * behind what a loss of power took, but only where a truncation once cut the file below them, which history tells of
 * before it is done. And what lies behind is wanted only where what is missing is damage, and not a torn tail. */
static bool may_go_on_at(const struct segment_scan *scan, int64_t offset)
{
    const struct stele_recovery *rec = scan->rec;
    bool is_damage = is_below_point(rec, scan->expected) || offset <= rec->start;
    if (!is_damage || scan->expected < rec->open->recovery_point)
        return is_damage;
    for (int i = 0; i < rec->files.count; i++) {
        if (rec->files.segments[i].base_offset == scan->seg->base_offset)
            return offset < rec->files.segments[i].cut_offset;
    }
    return false;
}

/* The first sound batch behind scan->bad_pos that may follow what was read. END: none. */
static enum stele_err find_behind(struct segment_scan *scan, struct stele_scanned *out_batch)
{
    struct stele_recovery *rec = scan->rec;
    const struct stele_log *log = rec->log;
    int64_t bound = scan->at + 1 < log->segment_count ? log->segments[scan->at + 1]->base_offset : INT64_MAX;
    if (bound <= scan->expected || !may_go_on_at(scan, scan->expected + 1))
        return STELE_END;
    /* A range that was recorded is no shorter now: what lies in it may be of an earlier life of the file. */
    const struct stele_recovery_hint *hint = hint_at(rec, scan->expected);
    rec->scan.pos = scan->bad_pos; /* a batch that checked, but for its place, was passed */
    if (hint != NULL && hint->bytes > 0) {
        rec->scan.pos = stele_min_i64(scan->bad_pos + hint->bytes, scan->seg->bytes);
        rec->scan.bad_bytes = 0;
    }
    enum stele_err err = stele_scan_resync(&rec->scan, scan->expected + 1);
    if (err == STELE_OK)
        err = stele_scan_next(&rec->scan, out_batch);
    if (err != STELE_OK)
        return err;
    const struct stele_batch_header *header = &out_batch->header;
    bool is_older = header->partition_leader_epoch >= 0 && header->partition_leader_epoch < rec->last_epoch;
    bool is_away = header->base_offset >= bound || !may_go_on_at(scan, header->base_offset);
    return is_away || (scan->is_main && is_older) ? STELE_END : STELE_OK;
}

/* Goes on behind what did not check, where that is damage and what lies behind is known to belong there. CORRUPT: there
 * is nothing to go on with. */
static enum stele_err resume(struct segment_scan *scan, struct stele_file *file)
{
    struct stele_recovery *rec = scan->rec;
    struct stele_scanned batch;
    enum stele_err err = find_behind(scan, &batch);
    if (err == STELE_END) {
        err = stele_scan_start(&rec->scan, file, scan->bad_pos, scan->seg->bytes);
        return err == STELE_OK ? STELE_CORRUPT : err;
    }
    if (err != STELE_OK)
        return err;
    struct stele_damaged_range range = {.first_offset = scan->expected,
                                        .last_offset = batch.header.base_offset - 1,
                                        .pos = scan->bad_pos,
                                        .end_pos = batch.pos};
    err = stele_recovery_damage(rec, scan->at, &range);
    if (err == STELE_OK)
        err = stele_segment_add_joint(scan->seg, batch.header.base_offset, batch.pos);
    if (err != STELE_OK)
        return err;
    scan->bad_pos = -1;
    scan->expected = batch.header.base_offset;
    return take_batch(scan, &batch);
}

static enum stele_err read_batches(struct segment_scan *scan, struct stele_file *file)
{
    struct stele_recovery *rec = scan->rec;
    struct stele_scanned batch;
    enum stele_err err = stele_scan_start(&rec->scan, file, 0, scan->seg->bytes);
    while (err == STELE_OK) {
        err = stele_scan_next(&rec->scan, &batch);
        if (err == STELE_CORRUPT)
            scan->bad_pos = rec->scan.pos;
        if (err == STELE_OK)
            err = take_batch(scan, &batch);
        if (err == STELE_CORRUPT && scan->bad_pos < 0)
            scan->bad_pos = batch.pos;
        if (err == STELE_CORRUPT)
            err = resume(scan, file);
    }
    if (err == STELE_CORRUPT && scan->is_main && scan->at == rec->log->segment_count - 1)
        err = learn_known_end(scan, &rec->known_end);
    return err == STELE_END || err == STELE_CORRUPT ? STELE_OK : err;
}

static enum stele_err sync_cached(const struct stele_recovery *rec, struct stele_cached_file *cached)
{
    struct stele_file *file = NULL;
    enum stele_err err = stele_cached_file_pin(cached, &file);
    if (err != STELE_OK)
        return err;
    err = stele_sync_marked(file, rec->open->dir);
    stele_cached_file_unpin(cached);
    return err;
}

/* A transaction index that changed, with its name: the other indexes, which this segment may have been read for, must
 * not be there for good without it. */
static enum stele_err sync_txns(struct stele_recovery *rec, struct stele_segment *seg)
{
    enum stele_err err = stele_txn_index_write(&seg->txns);
    if (err == STELE_OK && seg->txns.exists)
        err = sync_cached(rec, seg->txns.file);
    return err == STELE_OK ? rec->env->vfs->ops->sync_dir(rec->env->vfs, rec->open->dir) : err;
}

/* OK also when something did not check: scan->bad_pos says where. */
static enum stele_err scan_segment(struct segment_scan *scan)
{
    struct stele_recovery *rec = scan->rec;
    struct stele_segment *seg = scan->seg;
    struct stele_file *file = NULL;
    enum stele_err err = STELE_OK;
    scan->bad_pos = -1;
    seg->joint_count = 0;
    if (scan->is_rebuilding)
        err = stele_segment_restart_indexes(seg);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, seg, "its indexes cannot be rebuilt");
    if (seg->bytes > 0) { /* of thousands of partitions most may be empty */
        err = stele_cached_file_pin(seg->file, &file);
        if (err == STELE_OK) {
            err = read_batches(scan, file);
            stele_cached_file_unpin(seg->file);
        }
    }
    if (err == STELE_OK && scan->is_rebuilding && scan->txn_count < seg->txns.count) {
        scan->is_txn_changed = true;
        err = stele_txn_index_truncate(&seg->txns, seg->txns.entries[scan->txn_count].last_offset);
    }
    scan->is_txn_changed = scan->is_txn_changed || seg->txns.is_replace_due;
    /* What lies below the recovery point must be as durable as it was. */
    if (err == STELE_OK && scan->is_txn_changed && seg->base_offset < rec->open->recovery_point)
        err = sync_txns(rec, seg);
    rec->is_changed = rec->is_changed || scan->is_txn_changed;
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, seg, "it cannot be read or its indexes cannot be written");
    rec->report.segments_scanned++;
    rec->report.bytes_scanned += seg->bytes;
    return STELE_OK;
}

enum stele_err stele_recovery_damage(struct stele_recovery *rec, int at, const struct stele_damaged_range *range)
{
    struct stele_log *log = rec->log;
    struct stele_segment *seg = log->segments[at];
    struct stele_damaged_range damaged = *range;
    int64_t bytes = stele_min_i64(range->end_pos, seg->bytes) - range->pos;
    damaged.first_offset = stele_max_i64(range->first_offset, rec->start);
    damaged.segment_base = seg->base_offset;
    damaged.pos_offset = range->first_offset;
    /* Below the start nobody can ask for it, but later starts must know where the segment goes on. */
    bool is_passed = range->last_offset < rec->start;
    if (is_passed && range->end_pos == INT64_MAX)
        return STELE_OK;
    enum stele_err err = is_passed ? STELE_OK : stele_log__add_damaged(log, &damaged);
    if (err != STELE_OK)
        return err;
    rec->report.found_damage = rec->report.found_damage || !is_passed;
    if (!is_passed)
        stele_segment_hides(seg);
    if (is_hinted(rec, range->first_offset))
        return STELE_OK;
    if (!is_passed) {
        STELE_METRIC_ADD(rec->env->metrics, log_damaged_ranges, 1);
        stele_trace(rec->env, STELE_TRACE_LOG_DAMAGED, rec->open->name, stele_reason_text(STELE_REASON_DAMAGE),
                    range->first_offset, range->pos, 0);
    }
    stele_log__note(rec->log, STELE_HISTORY_DAMAGE, range->first_offset, bytes,
                    is_passed ? STELE_REASON_LOG_START : STELE_REASON_DAMAGE);
    /* A later start looks there; when the line is lost, the damage is found again when it is read. */
    enum stele_err ignored = stele_history_sync(rec->env, rec->open->dir);
    (void)ignored;
    return STELE_OK;
}

/* No sync: the caller does it once. */
static enum stele_err delete_segment(struct stele_recovery *rec, int at, enum stele_reason reason)
{
    struct stele_log *log = rec->log;
    struct stele_segment *seg = log->segments[at];
    int64_t base_offset = seg->base_offset, bytes = seg->bytes;
    enum stele_err err = stele_segment_mark_deleted(seg);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, seg, "it cannot be deleted");
    log->segment_count--;
    memmove(log->segments + at, log->segments + at + 1, (size_t)(log->segment_count - at) * sizeof(log->segments[0]));
    stele_segment_free(seg);
    rec->is_changed = true;
    err = stele_segment_unlink_deleted(rec->env->vfs, rec->open->dir, base_offset);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, NULL, "a segment cannot be deleted");
    rec->report.segments_deleted++;
    rec->report.bytes_cut += bytes;
    STELE_METRIC_ADD(rec->env->metrics, log_segments_deleted, 1);
    stele_trace(rec->env, STELE_TRACE_LOG_SEGMENT_DELETED, rec->open->name, stele_reason_text(reason), base_offset,
                bytes, 0);
    stele_log__note(rec->log, STELE_HISTORY_DELETE, base_offset, bytes, reason);
    return STELE_OK;
}

enum stele_err stele_recovery_delete_from(struct stele_recovery *rec, int from, enum stele_reason reason)
{
    struct stele_log *log = rec->log;
    if (from >= log->segment_count)
        return STELE_OK;
    while (log->segment_count > from) {
        enum stele_err err = delete_segment(rec, log->segment_count - 1, reason);
        if (err != STELE_OK)
            return err;
    }
    enum stele_err err = rec->env->vfs->ops->sync_dir(rec->env->vfs, rec->open->dir);
    return err == STELE_OK ? err : stele_recovery_fail(rec, err, NULL, "the directory cannot be synced");
}

static void note_cut(struct stele_recovery *rec, int64_t offset, int64_t bytes, enum stele_reason reason)
{
    STELE_METRIC_ADD(rec->env->metrics, log_cuts, 1);
    stele_trace(rec->env, STELE_TRACE_LOG_TRUNCATED, rec->open->name, stele_reason_text(reason), offset, 0, 0);
    stele_log__note(rec->log, STELE_HISTORY_CUT, offset, bytes, reason);
    bool is_told_of = false;
    for (int i = 0; i < rec->hint_count; i++)
        is_told_of = is_told_of || rec->hints[i].offset >= offset;
    if (!is_told_of)
        return;
    enum stele_err ignored = stele_history_sync(rec->env, rec->open->dir);
    (void)ignored; /* at worst a later start calls more of it damaged */
}

/* Cuts the file of `seg`, the last segment now, to `pos`. Synced: no byte behind may come back under a later write. */
static enum stele_err cut_tail(struct stele_recovery *rec, struct stele_segment *seg, int64_t pos)
{
    struct stele_file *file = NULL;
    int64_t bytes = seg->bytes - pos;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err == STELE_OK) {
        err = file->vfs->ops->truncate(file, pos);
        stele_cached_file_unpin(seg->file);
    }
    if (err == STELE_OK)
        err = sync_cached(rec, seg->file);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, seg, "its torn tail cannot be cut off");
    seg->bytes = pos;
    rec->report.bytes_cut += bytes;
    note_cut(rec, rec->end, bytes, STELE_REASON_TORN_TAIL);
    return STELE_OK;
}

/* The same of a sealed segment whose batches are all there. */
static enum stele_err cut_rest(struct stele_recovery *rec, struct stele_segment *seg, int64_t end, int64_t pos)
{
    int64_t end_before = rec->end;
    rec->end = end;
    enum stele_err err = cut_tail(rec, seg, pos);
    rec->end = end_before;
    return err;
}

/* Segment `at` begins before the one before it ends: a truncation that did not become durable left one of the two. A
 * batch is known by its offset and epoch, so the newer epoch tells which. */
static enum stele_err settle_overlap(struct stele_recovery *rec, int at, enum join *out_join)
{
    struct stele_log *log = rec->log;
    struct stele_segment *seg = log->segments[at], *before = log->segments[at - 1];
    struct stele_batch_header header;
    int64_t bytes = 0;
    enum stele_err err = stele_segment_header_at(seg, 0, &header, &bytes);
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return stele_recovery_fail(rec, err, seg, "it cannot be read");
    bool is_stale = err != STELE_OK || header.partition_leader_epoch < rec->last_epoch;
    if (!is_stale && header.partition_leader_epoch > rec->last_epoch) {
        int64_t cut = before->bytes;
        err = stele_segment_truncate(before, seg->base_offset);
        cut -= before->bytes;
        if (err == STELE_OK)
            err = sync_cached(rec, before->file);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, before, "its end, which the next segment replaces, cannot be cut off");
        rec->report.bytes_cut += cut;
        note_cut(rec, seg->base_offset, cut, STELE_REASON_TRUNCATED);
        *out_join = JOIN_AGAIN;
        return STELE_OK;
    }
    if (!is_stale && is_below_point(rec, rec->end))
        return stele_recovery_fail(rec, STELE_CORRUPT, seg, "it begins before the segment before it ends");
    *out_join = JOIN_GONE;
    return delete_segment(rec, at, STELE_REASON_AFTER_CUT);
}

/* Segment `at` does not begin where the one before it ended. */
static enum stele_err join_segment(struct stele_recovery *rec, int at, enum join *out_join)
{
    struct stele_segment *seg = rec->log->segments[at], *before = rec->log->segments[at - 1];
    struct stele_damaged_range range = {
        .first_offset = rec->end, .last_offset = seg->base_offset - 1, .pos = before->bytes, .end_pos = INT64_MAX};
    *out_join = JOIN_ON;
    if (seg->base_offset < rec->end)
        return settle_overlap(rec, at, out_join);
    bool is_below = is_below_point(rec, rec->end);
    if (seg->base_offset <= rec->start || !is_loss(rec, rec->end) || (rec->has_gaps && !is_below))
        return STELE_OK;
    if (is_below)
        return stele_recovery_damage(rec, at - 1, &range);
    rec->report.cut_offset = rec->end;
    *out_join = JOIN_CUT;
    return stele_recovery_delete_from(rec, at, STELE_REASON_AFTER_CUT);
}

/* A batch of `scan` did not check. */
static enum stele_err settle_bad(struct segment_scan *scan, enum join *out_join)
{
    struct stele_recovery *rec = scan->rec;
    int next = scan->at + 1;
    enum stele_err err;
    /* What joins here decides, and that is none which begins before this one ends. */
    while (next < rec->log->segment_count && rec->log->segments[next]->base_offset < scan->expected) {
        err = settle_overlap(rec, next, out_join);
        if (err != STELE_OK || *out_join == JOIN_AGAIN)
            return err;
    }
    *out_join = JOIN_ON;
    /* Preallocated zeros or an old tail that a roll cut off, not durably: no offset is missing. */
    if (next < rec->log->segment_count && rec->log->segments[next]->base_offset == scan->expected)
        return cut_tail(rec, scan->seg, scan->bad_pos);
    if (next < rec->log->segment_count && rec->log->segments[next]->base_offset <= rec->start) {
        rec->end = rec->log->segments[next]->base_offset; /* all that is missing is below the log's start */
        return STELE_OK;
    }
    if (is_below_point(rec, scan->expected)) {
        if (next == rec->log->segment_count) {
            rec->ends_in_damage = true;
            rec->damage_pos = scan->bad_pos;
            return STELE_OK;
        }
        struct stele_damaged_range range = {.first_offset = scan->expected,
                                            .last_offset = rec->log->segments[next]->base_offset - 1,
                                            .pos = scan->bad_pos,
                                            .end_pos = INT64_MAX};
        rec->end = range.last_offset + 1;
        return stele_recovery_damage(rec, scan->at, &range);
    }
    rec->report.cut_offset = scan->expected;
    err = stele_recovery_delete_from(rec, next, STELE_REASON_AFTER_CUT);
    if (err == STELE_OK)
        err = cut_tail(rec, scan->seg, scan->bad_pos);
    *out_join = JOIN_CUT;
    return err;
}

static enum stele_err scan_main(struct stele_recovery *rec, int at, enum join *out_join)
{
    struct stele_log *log = rec->log;
    struct segment_scan scan = {.rec = rec,
                                .seg = log->segments[at],
                                .producers = log->producers,
                                .at = at,
                                .is_rebuilding = true,
                                .is_main = true};
    scan.expected = scan.seg->base_offset;
    enum stele_err err = scan_segment(&scan);
    if (err != STELE_OK)
        return err;
    STELE_METRIC_ADD(rec->env->metrics, log_recoveries, 1);
    rec->end = scan.expected;
    rec->known_end = stele_max_i64(rec->known_end, rec->end);
    return scan.bad_pos < 0 ? STELE_OK : settle_bad(&scan, out_join);
}

static enum stele_err drop_snapshots_after(struct stele_recovery *rec, int64_t offset)
{
    while (rec->files.snapshot_count > 0 && rec->files.snapshots[rec->files.snapshot_count - 1] > offset) {
        enum stele_err err = stele_found_files_drop_snapshot(&rec->files, rec->files.snapshot_count - 1);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, NULL, "a producer snapshot cannot be deleted");
        rec->is_changed = true;
    }
    return STELE_OK;
}

/* One pass over the segments from `first` on. */
static enum stele_err scan_segments(struct stele_recovery *rec, int first, bool *out_again)
{
    struct stele_log *log = rec->log;
    int64_t base_offset = log->segments[first]->base_offset;
    int damaged_count = log->damaged_count;
    enum join join = JOIN_ON;
    enum stele_err err = stele_recovery_state_at(rec, log->producers, base_offset);
    if (err != STELE_OK)
        return err;
    stele_epoch_cache_truncate_from_end(&log->epochs, base_offset);
    /* Without a batch before it nothing tells whether the file of epochs is right about what came before. */
    rec->last_epoch = first == 0 ? -1 : stele_epoch_cache_latest(&log->epochs);
    rec->end = base_offset;
    for (int at = first; at < log->segment_count; at += join != JOIN_GONE) {
        join = JOIN_ON;
        if (log->segments[at]->base_offset != rec->end)
            err = join_segment(rec, at, &join);
        if (err != STELE_OK || join == JOIN_CUT || join == JOIN_AGAIN)
            break;
        if (join == JOIN_GONE)
            continue;
        if (at > first)
            err = stele_log__write_snapshot(log, log->segments[at]->base_offset);
        if (err == STELE_OK)
            err = scan_main(rec, at, &join);
        if (err != STELE_OK || join == JOIN_CUT || join == JOIN_AGAIN)
            break;
    }
    *out_again = join == JOIN_AGAIN;
    if (*out_again)
        log->damaged_count = damaged_count;
    return err;
}

enum stele_err stele_recovery_scan_from(struct stele_recovery *rec, int first)
{
    struct stele_log *log = rec->log;
    bool again = true;
    /* Later snapshots and epochs may tell of batches that did not survive. */
    enum stele_err err = drop_snapshots_after(rec, log->segments[first]->base_offset);
    while (err == STELE_OK && again)
        err = scan_segments(rec, first, &again);
    if (err != STELE_OK)
        return err;
    for (int at = first; at < log->segment_count - 1; at++) {
        err = stele_segment_seal(log->segments[at]);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, log->segments[at], "its indexes cannot be written");
    }
    return STELE_OK;
}

/* Applies the batches of one segment that lie in [map end, target). It stops at what does not check, as a scan does,
 * and leaves the judgement to a scan. */
static enum stele_err replay_segment(struct stele_recovery *rec, struct stele_producers *producers,
                                     const struct stele_segment *seg, int64_t target)
{
    struct stele_file *file = NULL;
    struct stele_scanned batch;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    err = stele_scan_start(&rec->scan, file, 0, seg->bytes);
    while (err == STELE_OK) {
        err = stele_segment_scan_next(seg, &rec->scan, &batch);
        if (err != STELE_OK || batch.header.base_offset >= target)
            break;
        err = apply_producer(rec, producers, &batch, NULL);
    }
    stele_cached_file_unpin(seg->file);
    return err == STELE_END || err == STELE_CORRUPT ? STELE_OK : err;
}

/* Loads the newest good snapshot in [start, target]; a bad one is deleted. */
static enum stele_err load_snapshot(struct stele_recovery *rec, struct stele_producers *producers, int64_t target)
{
    struct stele_mem *mem = rec->env->mem;
    for (int i = rec->files.snapshot_count - 1; i >= 0; i--) {
        int64_t offset = rec->files.snapshots[i];
        uint8_t *bytes = NULL;
        size_t count = 0;
        char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
        if (offset > target || offset < rec->start)
            continue;
        stele_segment_name(offset, ".snapshot", name);
        enum stele_err err = stele_path_join(path, rec->open->dir, name);
        if (err == STELE_OK)
            err = stele_vfs_read_whole(rec->env->vfs, mem, STELE_MEM_LOG, path, INT32_MAX, &bytes, &count);
        if (err == STELE_OK) {
            err = stele_producers_load(producers, bytes, count, offset, stele_env_wall_ms(rec->env));
            stele_mem_free(mem, bytes);
        }
        if (err != STELE_CORRUPT && err != STELE_TOO_LARGE && err != STELE_NOT_FOUND)
            return err;
        stele_trace(rec->env, STELE_TRACE_LOG_SNAPSHOT_BAD, rec->open->name, stele_err_text(err), offset, 0, 0);
        err = stele_found_files_drop_snapshot(&rec->files, i);
        if (err != STELE_OK)
            return err;
        rec->is_changed = true;
    }
    int64_t first = rec->log->segment_count == 0 ? rec->start : rec->log->segments[0]->base_offset;
    stele_producers_clear(producers, stele_max_i64(rec->start, first));
    return STELE_OK;
}

enum stele_err stele_recovery_state_at(struct stele_recovery *rec, struct stele_producers *producers, int64_t target)
{
    enum stele_err err = load_snapshot(rec, producers, target);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, NULL, "a producer snapshot cannot be read");
    int64_t map_end = stele_producers_map_end(producers);
    rec->is_snapshot_behind = map_end < target;
    for (int at = stele_log__floor(rec->log, map_end); at < rec->log->segment_count && map_end < target; at++) {
        struct stele_segment *seg = rec->log->segments[at];
        if (seg->base_offset >= target)
            break;
        err = replay_segment(rec, producers, seg, target);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, seg, "it cannot be read");
    }
    stele_producers_set_map_end(producers, stele_max_i64(map_end, target));
    return STELE_OK;
}

enum stele_err stele_recovery_scan_one(struct stele_recovery *rec, int at, bool rebuild)
{
    struct stele_log *log = rec->log;
    struct segment_scan scan = {.rec = rec, .seg = log->segments[at], .at = at, .is_rebuilding = rebuild};
    enum stele_err err = STELE_OK;
    scan.expected = scan.seg->base_offset;
    if (rebuild) {
        scan.producers = stele_producers_new(rec->env->mem, log->config.producer_id_expiration_ms);
        err = scan.producers == NULL ? STELE_NO_MEMORY
                                     : stele_recovery_state_at(rec, scan.producers, scan.seg->base_offset);
    }
    if (err == STELE_OK)
        err = scan_segment(&scan);
    stele_producers_free(scan.producers);
    if (err != STELE_OK)
        return err;
    int64_t next = at + 1 < log->segment_count ? log->segments[at + 1]->base_offset : scan.expected;
    bool is_gap = scan.bad_pos < 0 && is_loss(rec, scan.expected);
    struct stele_damaged_range range = {.first_offset = scan.expected,
                                        .last_offset = next - 1,
                                        .pos = is_gap ? scan.seg->bytes : scan.bad_pos,
                                        .end_pos = INT64_MAX};
    if (range.first_offset <= range.last_offset && (is_gap || scan.bad_pos >= 0))
        err = stele_recovery_damage(rec, at, &range);
    else if (scan.bad_pos >= 0 && at + 1 < log->segment_count) /* no offset is missing: of before a repair */
        err = cut_rest(rec, scan.seg, scan.expected, scan.bad_pos);
    if (err == STELE_OK && rebuild)
        err = stele_segment_seal(scan.seg);
    return err;
}

/* What rotted is passed over, as far as batches of the segment lie behind it: their epochs are as true. */
static enum stele_err assign_epochs(struct stele_recovery *rec, int at)
{
    const struct stele_log *log = rec->log;
    const struct stele_segment *seg = log->segments[at];
    int64_t bound = at + 1 < log->segment_count ? log->segments[at + 1]->base_offset : INT64_MAX;
    int64_t end = seg->base_offset;
    struct stele_file *file = NULL;
    struct stele_scanned batch;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    err = stele_scan_start(&rec->scan, file, 0, seg->bytes);
    while (err == STELE_OK) {
        err = stele_segment_scan_next(seg, &rec->scan, &batch);
        if (err == STELE_CORRUPT) {
            err = stele_scan_resync(&rec->scan, end);
            continue;
        }
        if (err != STELE_OK || batch.header.base_offset < end || batch.header.base_offset >= bound)
            break;
        end = stele_batch_last_offset(&batch.header) + 1;
        if (batch.header.partition_leader_epoch > stele_epoch_cache_latest(&rec->log->epochs))
            err = stele_epoch_cache_assign(&rec->log->epochs, batch.header.partition_leader_epoch,
                                           batch.header.base_offset);
    }
    stele_cached_file_unpin(seg->file);
    return err == STELE_END || err == STELE_CORRUPT ? STELE_OK : err;
}

enum stele_err stele_recovery_rebuild_epochs(struct stele_recovery *rec, int count)
{
    stele_epoch_cache_clear(&rec->log->epochs);
    for (int at = 0; at < count; at++) {
        enum stele_err err = assign_epochs(rec, at);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, rec->log->segments[at], "it cannot be read");
    }
    return STELE_OK;
}

/* Reads from the batch of the last index entry on. CORRUPT: an entry or a batch is not what it should be, or entries
 * are missing (restarts of Kafka leave gaps of more than one interval, but not of many). */
static enum stele_err read_tail(struct stele_recovery *rec, struct stele_segment *seg,
                                const struct stele_offset_entry *entry, const struct stele_time_entry *time)
{
    struct stele_scanned batch;
    struct stele_file *file = NULL;
    bool is_first = true, has_no_time = time->timestamp == -1 && time->offset == seg->base_offset;
    bool is_time_sound =
        has_no_time || (time->timestamp >= 0 && time->offset >= seg->base_offset && time->offset < entry->offset);
    int64_t end = seg->base_offset;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    err = entry->pos > seg->bytes ? STELE_CORRUPT : stele_scan_start(&rec->scan, file, entry->pos, seg->bytes);
    while (err == STELE_OK) {
        err = stele_scan_next(&rec->scan, &batch);
        if (err != STELE_OK)
            break;
        int64_t last = stele_batch_last_offset(&batch.header);
        if (batch.header.base_offset < end || (is_first && entry->pos > 0 && last != entry->offset) ||
            (batch.pos - entry->pos > 4 * rec->log->config.index_interval_bytes &&
             !stele_offset_index_is_full(&seg->offsets)))
            err = STELE_CORRUPT;
        is_time_sound = is_time_sound || (last == time->offset && batch.header.max_timestamp == time->timestamp);
        is_first = false;
        end = last + 1;
        rec->last_epoch = batch.header.partition_leader_epoch;
    }
    stele_cached_file_unpin(seg->file);
    /* An entry at the end of the file names a batch that is not there. */
    if (err == STELE_END && ((is_first && entry->pos > 0) || !is_time_sound))
        err = STELE_CORRUPT;
    if (err != STELE_END)
        return err;
    rec->end = end;
    return STELE_OK;
}

/* CORRUPT: it does not rise above the one before, as when a cut of an older, longer index was lost. */
static enum stele_err last_time_entry(struct stele_segment *seg, struct stele_time_entry *out_entry)
{
    struct stele_time_entry before;
    int64_t count = 0;
    enum stele_err err = stele_time_index_last(&seg->times, out_entry);
    if (err == STELE_OK)
        err = stele_index_count(&seg->times, &count);
    if (err != STELE_OK || count < 2)
        return err;
    err = stele_time_index_entry(&seg->times, count - 2, &before);
    if (err == STELE_OK && (before.timestamp >= out_entry->timestamp || before.offset > out_entry->offset))
        err = STELE_CORRUPT;
    return err;
}

enum stele_err stele_recovery_read_tail(struct stele_recovery *rec, int at, bool *out_is_sound)
{
    struct stele_segment *seg = rec->log->segments[at];
    struct stele_offset_entry entry;
    struct stele_time_entry time;
    int64_t compared = 0;
    rec->last_epoch = -1;
    enum stele_err err = stele_offset_index_lookup(&seg->offsets, INT64_MAX, &entry, &compared);
    if (err == STELE_OK)
        err = last_time_entry(seg, &time);
    if (err == STELE_OK)
        err = read_tail(rec, seg, &entry, &time);
    if (err != STELE_OK && err != STELE_CORRUPT)
        return stele_recovery_fail(rec, err, seg, "it cannot be read");
    if (err == STELE_OK)
        seg->bytes_since_entry = seg->bytes - entry.pos;
    *out_is_sound = err == STELE_OK;
    return STELE_OK;
}
