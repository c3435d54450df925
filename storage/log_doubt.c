/* Batches that a reader or another replica could not use, looked at where they lie. */
#include "base/check.h"
#include "storage/log_struct.h"
#include "storage/scan.h"

/* Also the batches before it since an entry of the index: an offset or an epoch that rotted is told by its neighbours
 * alone, for no checksum covers them. */
static enum stele_err pin(struct stele_segment *seg, int64_t pos, const struct stele_batch_header *header,
                          struct stele_log_doubt *doubt)
{
    struct stele_segment_range range = {.pos = pos};
    enum stele_err err = STELE_OK;
    if (seg->joint_count == 0)
        err = stele_segment_range_of(seg, doubt->offset, 0, &range);
    if (err != STELE_OK)
        return err;
    range.pos = stele_min_i64(range.pos, pos);
    range.bytes = pos + STELE_BATCH_PREFIX_BYTES + header->length - range.pos;
    err = stele_log__pin_range(seg, &range, &doubt->slice);
    if (err == STELE_OK)
        doubt->file = stele_cached_file_send(doubt->slice.file)->file;
    return err;
}

enum stele_err stele_log_doubt_begin(struct stele_log *log, int64_t offset, struct stele_log_doubt *out_doubt)
{
    struct stele_batch_header header;
    struct stele_log_doubt doubt = {
        .offset = offset, .bad_pos = -1, .first_offset = -1, .cut_count = log->cut_count, .mem = log->env->mem};
    int64_t pos = 0;
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (offset < log->log_start_offset || offset >= log->log_end_offset || stele_log__is_damaged(log, offset))
        return STELE_END;
    int at = stele_log__floor(log, offset);
    err = stele_log__find(log, at, offset, &pos, &header);
    if (err == STELE_CORRUPT)
        return stele_log__report_damage(log, log->segments[at], offset, pos);
    if (err == STELE_OK) {
        doubt.segment_base = log->segments[at]->base_offset;
        err = pin(log->segments[at], pos, &header, &doubt);
    }
    if (err == STELE_END) /* a gap */
        return err;
    if (err != STELE_OK)
        return stele_log__settle_read(log, err);
    *out_doubt = doubt;
    return STELE_OK;
}

/* As recovery takes batches (recover_scan.c): one that it would take too is in no doubt. */
void stele_log_doubt_work(struct stele_log_doubt *doubt)
{
    struct stele_scan scan;
    struct stele_scanned batch;
    int64_t next = doubt->segment_base;
    int32_t epoch = -1;
    stele_scan_init(&scan, doubt->mem);
    enum stele_err err =
        stele_scan_start(&scan, doubt->file, doubt->slice.pos, doubt->slice.pos + (int64_t)doubt->slice.bytes);
    while (err == STELE_OK) {
        doubt->bad_pos = scan.pos;
        err = stele_scan_next(&scan, &batch);
        if (err == STELE_CORRUPT && doubt->bad_pos > doubt->slice.pos)
            doubt->first_offset = next;
        if (err != STELE_OK)
            break;
        if (batch.header.base_offset < next ||
            (batch.header.partition_leader_epoch >= 0 && batch.header.partition_leader_epoch < epoch))
            err = STELE_CORRUPT;
        next = stele_batch_last_offset(&batch.header) + 1;
        epoch = batch.header.partition_leader_epoch;
    }
    stele_scan_deinit(&scan);
    doubt->err = err == STELE_END ? STELE_OK : err;
}

/* How far the bad batch at doubt->bad_pos goes, by what follows it. END: nobody knows. */
static enum stele_err measure(struct stele_log *log, int at, const struct stele_log_doubt *doubt,
                              struct stele_damaged_range *out_range)
{
    struct stele_segment *seg = log->segments[at];
    struct stele_batch_header header, next;
    int64_t bytes = 0, ignored = 0;
    enum stele_err err = stele_segment_header_at(seg, doubt->bad_pos, &header, &bytes);
    if (err != STELE_OK)
        return err == STELE_CORRUPT ? STELE_END : err;
    int64_t first_offset = doubt->first_offset >= 0 ? doubt->first_offset : header.base_offset;
    struct stele_damaged_range range = {.first_offset = stele_max_i64(first_offset, log->log_start_offset),
                                        .segment_base = seg->base_offset,
                                        .pos = doubt->bad_pos,
                                        .end_pos = doubt->bad_pos + bytes,
                                        .pos_offset = first_offset};
    err = stele_segment_header_at(seg, range.end_pos, &next, &ignored);
    if (err == STELE_OK) {
        range.last_offset = next.base_offset - 1;
    } else if (err == STELE_END) {
        range.last_offset =
            (at + 1 < log->segment_count ? log->segments[at + 1]->base_offset : log->log_end_offset) - 1;
        range.end_pos = INT64_MAX;
    } else {
        return err == STELE_CORRUPT ? STELE_END : err;
    }
    if (range.last_offset < range.first_offset || range.first_offset > doubt->offset)
        return STELE_END;
    *out_range = range;
    return STELE_OK;
}

/* What recovery will find in any case when the log is opened anew; until then, or where that is not to be, readers of
 * the range are told, and later starts. */
static enum stele_err note_damage(struct stele_log *log, int at, const struct stele_log_doubt *doubt)
{
    struct stele_segment *seg = log->segments[at];
    struct stele_damaged_range range = {.first_offset = doubt->offset, .last_offset = doubt->offset};
    enum stele_err err = measure(log, at, doubt, &range);
    if (err == STELE_OK)
        err = stele_log__add_damaged(log, &range);
    if (err == STELE_OK) {
        STELE_METRIC_ADD(log->env->metrics, log_damaged_ranges, 1);
        stele_log__note(log, STELE_HISTORY_DAMAGE, range.pos_offset,
                        stele_min_i64(range.end_pos, seg->bytes) - range.pos, STELE_REASON_DAMAGE);
    } else if (err != STELE_END) {
        return stele_log__settle_read(log, err);
    }
    stele_trace(log->env, STELE_TRACE_LOG_ROTTED, log->name, stele_cached_file_path(seg->file), range.first_offset,
                range.last_offset, doubt->bad_pos);
    int64_t suspect = stele_min_i64(range.first_offset, doubt->offset);
    log->suspect_offset = log->suspect_offset < 0 ? suspect : stele_min_i64(log->suspect_offset, suspect);
    return STELE_DAMAGED_RANGE;
}

enum stele_err stele_log_doubt_end(struct stele_log *log, struct stele_log_doubt *doubt)
{
    stele_slice_release(&doubt->slice);
    if (doubt->err == STELE_OK || stele_log__usable(log) != STELE_OK || doubt->cut_count != log->cut_count)
        return STELE_OK;
    if (doubt->err != STELE_CORRUPT)
        return stele_log__settle_read(log, doubt->err);
    int at = stele_log__floor(log, doubt->segment_base);
    if (log->segments[at]->base_offset != doubt->segment_base || doubt->offset < log->log_start_offset ||
        stele_log__is_damaged(log, doubt->offset))
        return STELE_OK; /* deleted meanwhile, or known */
    return note_damage(log, at, doubt);
}
