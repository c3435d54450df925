/* Reads and aborted transactions (facts 5.3). */
#include "base/check.h"
#include "storage/log_struct.h"
#include "storage/scan.h"

enum {
    LOAD_BYTES = 256 << 10,
    WARM_MS = 1000,             /* so long what was written is not written back yet, and stays in the page cache */
    BEHIND_BYTES_MAX = 4 << 20, /* so far a sound batch behind damage is looked for on the loop */
};

bool stele_log__is_damaged(const struct stele_log *log, int64_t offset)
{
    for (int i = 0; i < log->damaged_count; i++) {
        if (offset >= log->damaged[i].first_offset && offset <= log->damaged[i].last_offset)
            return true;
    }
    return false;
}

/* Damage met while reading is an answer that names the place, not a reason to take the log offline. */
enum stele_err stele_log__report_damage(struct stele_log *log, const struct stele_segment *seg, int64_t offset,
                                        int64_t pos)
{
    stele_trace(log->env, STELE_TRACE_LOG_DAMAGED, log->name, stele_cached_file_path(seg->file), offset, pos, 0);
    if (!stele_log__is_damaged(log, offset))
        log->suspect_offset = log->suspect_offset < 0 ? offset : stele_min_i64(log->suspect_offset, offset);
    return STELE_DAMAGED_RANGE;
}

/* What a lookup ran into: memory and space come back, files that cannot be read do not. */
enum stele_err stele_log__settle_read(struct stele_log *log, enum stele_err err)
{
    if (err == STELE_OK || err == STELE_DAMAGED_RANGE || err == STELE_NO_MEMORY || err == STELE_NO_SPACE)
        return err;
    return stele_log__fail(log, err, "a read that failed");
}

void stele_log_unreadable(struct stele_log *log)
{
    if (stele_log__usable(log) == STELE_OK)
        (void)stele_log__fail(log, STELE_IO, "a read that failed");
}

/* Where from `pos` on the next damage that is known of this segment begins, or its end. */
static int64_t sound_bytes(const struct stele_log *log, const struct stele_segment *seg, int64_t pos)
{
    int64_t bytes = seg->bytes;
    for (int i = 0; i < log->damaged_count; i++) {
        if (log->damaged[i].segment_base == seg->base_offset && log->damaged[i].end_pos > pos)
            bytes = stele_min_i64(bytes, log->damaged[i].pos);
    }
    return bytes;
}

/* Where in this segment a reader at position `from` and bounded by `bound` must stop. */
static enum stele_err end_of_reading(struct stele_log *log, int at, int64_t from, int64_t bound, int64_t *out_pos)
{
    struct stele_segment *seg = log->segments[at];
    struct stele_batch_header header;
    int64_t sound = sound_bytes(log, seg, from), pos = sound;
    if (at + 1 < log->segment_count ? bound >= log->segments[at + 1]->base_offset : bound >= log->log_end_offset) {
        *out_pos = pos;
        return STELE_OK;
    }
    /* A bound inside a batch hides the whole batch. */
    enum stele_err err =
        stele_segment_find_recent(seg, bound, &pos, &header) ? STELE_OK : stele_segment_find(seg, bound, &pos, &header);
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return err;
    /* Damage on the way to the bound: `pos` is where it begins. */
    *out_pos = stele_min_i64(pos, sound);
    return STELE_OK;
}

static enum stele_err make_slice(struct stele_log *log, int at, const struct stele_read *read, int64_t pos,
                                 const struct stele_batch_header *header, struct stele_slice *out)
{
    struct stele_segment *seg = log->segments[at];
    struct stele_slice slice = {.pos = pos, .base_offset = header->base_offset};
    struct stele_file *file = NULL;
    int64_t end = 0, first = (int64_t)header->length + STELE_BATCH_PREFIX_BYTES;
    enum stele_err err = end_of_reading(log, at, pos, read->bound, &end);
    if (err != STELE_OK)
        return err;
    if (pos >= sound_bytes(log, seg, pos)) /* the batch after a gap that holds the offset */
        return stele_log__report_damage(log, seg, read->offset, pos);
    int64_t wanted = (int64_t)stele_min_size(read->max_bytes, INT32_MAX);
    if (wanted < first && read->min_one)
        wanted = first;
    int64_t bytes = stele_min_i64(end - pos, wanted);
    if (bytes < first) {
        slice.is_first_too_large = end - pos >= first;
        bytes = 0;
    }
    if (bytes > 0) {
        err = stele_cached_file_pin(seg->file, &file);
        if (err != STELE_OK)
            return err;
        slice.file = seg->file;
        slice.bytes = (size_t)bytes;
        STELE_METRIC_ADD(log->env->metrics, log_read_bytes, bytes);
    }
    *out = slice;
    return STELE_OK;
}

enum stele_err stele_log__pin_range(struct stele_segment *seg, const struct stele_segment_range *range,
                                    struct stele_slice *out)
{
    struct stele_file *file = NULL;
    *out = (struct stele_slice){.file = NULL};
    if (range->bytes <= 0)
        return STELE_OK;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err == STELE_OK)
        *out = (struct stele_slice){.file = seg->file, .pos = range->pos, .bytes = (size_t)range->bytes};
    return err;
}

bool stele_log_is_warm(const struct stele_log *log, int64_t offset)
{
    const struct stele_segment_recent *recent = stele_segment_recent(stele_log__active(log), offset);
    int64_t age_ms = recent == NULL ? -1 : stele_env_wall_ms(log->env) - recent->wall_ms;
    return age_ms >= 0 && age_ms < WARM_MS;
}

enum stele_err stele_log_locate(struct stele_log *log, int64_t offset, size_t max_bytes, struct stele_slice *out_slice)
{
    struct stele_segment_range range = {.bytes = 0};
    enum stele_err err = stele_log__usable(log);
    *out_slice = (struct stele_slice){.file = NULL};
    if (err != STELE_OK || offset < log->log_start_offset || offset >= log->log_end_offset)
        return err;
    struct stele_segment *seg = log->segments[stele_log__floor(log, offset)];
    err = stele_segment_range_of(seg, offset, (int64_t)stele_min_size(max_bytes, INT32_MAX), &range);
    if (err == STELE_OK)
        err = stele_log__pin_range(seg, &range, out_slice);
    return stele_log__settle_read(log, err);
}

enum stele_err stele_slice_load(struct stele_mem *mem, struct stele_file *file, int64_t pos, int64_t bytes)
{
    uint8_t *scratch = stele_mem_raw(mem, STELE_MEM_LOG, LOAD_BYTES);
    enum stele_err err = STELE_OK;
    if (scratch == NULL)
        return STELE_NO_MEMORY;
    for (int64_t end = pos + bytes; pos < end && err == STELE_OK; pos += LOAD_BYTES)
        err = stele_file_read(file, scratch, (size_t)stele_min_i64(end - pos, LOAD_BYTES), pos);
    stele_mem_free(mem, scratch);
    return err;
}

/* From where a find of `offset` begins on, checksums and all, up to the batch that reaches it: the first ones behind
 * damage are joints then, where a find goes on. END: none is near. */
static enum stele_err join_behind(struct stele_log *log, int at, int64_t offset, struct stele_scan *scan)
{
    struct stele_segment *seg = log->segments[at];
    int64_t bound = at + 1 < log->segment_count ? log->segments[at + 1]->base_offset : log->log_end_offset;
    int64_t next = seg->base_offset;
    struct stele_scanned batch;
    bool is_behind = false;
    enum stele_err err = STELE_OK;
    while (err == STELE_OK && next <= offset) {
        err = stele_scan_next(scan, &batch);
        if (err == STELE_CORRUPT) {
            err = stele_scan_resync(scan, next);
            is_behind = true;
            continue;
        }
        if (err != STELE_OK)
            break;
        if (batch.header.base_offset >= bound || batch.header.base_offset < next)
            return STELE_END;
        if (is_behind)
            err = stele_segment_add_joint(seg, batch.header.base_offset, batch.pos);
        is_behind = false;
        next = stele_batch_last_offset(&batch.header) + 1;
    }
    return err;
}

/* A find ran into damage at `*inout_pos` that no start has seen: it does not take what lies behind it along. */
static enum stele_err find_behind(struct stele_log *log, int at, int64_t offset, int64_t *inout_pos,
                                  struct stele_batch_header *out_header)
{
    struct stele_segment *seg = log->segments[at];
    struct stele_segment_range range;
    struct stele_file *file = NULL;
    struct stele_scan scan;
    enum stele_err err = stele_segment_range_of(seg, offset, 0, &range);
    if (err == STELE_OK)
        err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    stele_scan_init(&scan, log->env->mem);
    err = stele_scan_start(&scan, file, stele_min_i64(range.pos, *inout_pos),
                           stele_min_i64(seg->bytes, *inout_pos + BEHIND_BYTES_MAX));
    if (err == STELE_OK)
        err = join_behind(log, at, offset, &scan);
    stele_scan_deinit(&scan);
    stele_cached_file_unpin(seg->file);
    if (err == STELE_OK)
        err = stele_segment_find(seg, offset, inout_pos, out_header);
    return err == STELE_END ? STELE_CORRUPT : err;
}

/* Whether a batch that is read from its middle on claims offsets of the batch behind it: a last offset that rotted
 * hides others. */
static enum stele_err claims_others(struct stele_log *log, int at, int64_t pos, const struct stele_batch_header *header,
                                    bool *out_claims)
{
    struct stele_batch_header next;
    int64_t bytes = 0, behind = pos + STELE_BATCH_PREFIX_BYTES + header->length;
    enum stele_err err = stele_segment_header_at(log->segments[at], behind, &next, &bytes);
    *out_claims = err == STELE_OK && stele_batch_last_offset(header) >= next.base_offset;
    return err == STELE_END || err == STELE_CORRUPT ? STELE_OK : err;
}

enum stele_err stele_log__find(struct stele_log *log, int at, int64_t offset, int64_t *out_pos,
                               struct stele_batch_header *out_header)
{
    bool claims = false;
    if (stele_segment_find_recent(log->segments[at], offset, out_pos, out_header))
        return STELE_OK;
    enum stele_err err = stele_segment_find(log->segments[at], offset, out_pos, out_header);
    if (err == STELE_OK && out_header->base_offset < offset)
        err = claims_others(log, at, *out_pos, out_header, &claims);
    /* A gap is of a compacted log, or a size that rotted led over what is there. */
    bool is_gap = err == STELE_OK && out_header->base_offset > offset;
    if (err == STELE_CORRUPT || claims || is_gap)
        err = find_behind(log, at, offset, out_pos, out_header);
    return err;
}

enum stele_err stele_log_read(struct stele_log *log, const struct stele_read *read, struct stele_slice *out_slice)
{
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    if (read->offset < log->log_start_offset || read->offset > log->log_end_offset)
        return STELE_OFFSET_OUT_OF_RANGE;
    if (stele_log__is_damaged(log, read->offset))
        return STELE_DAMAGED_RANGE;
    *out_slice = (struct stele_slice){.base_offset = read->offset};
    if (read->offset >= read->bound || read->max_bytes == 0)
        return STELE_OK;
    for (int at = stele_log__floor(log, read->offset); at < log->segment_count; at++) {
        struct stele_batch_header header;
        int64_t pos = 0;
        if (log->segments[at]->base_offset >= read->bound)
            return STELE_OK;
        err = stele_log__find(log, at, read->offset, &pos, &header);
        if (err == STELE_OK)
            return stele_log__settle_read(log, make_slice(log, at, read, pos, &header, out_slice));
        if (err == STELE_CORRUPT)
            return stele_log__report_damage(log, log->segments[at], read->offset, pos);
        if (err != STELE_END)
            return stele_log__settle_read(log, err);
    }
    return STELE_OK;
}

void stele_slice_release(struct stele_slice *slice)
{
    if (slice->file != NULL)
        stele_cached_file_unpin(slice->file);
    slice->file = NULL;
    slice->bytes = 0;
}

/* The first offset that the slice surely does not reach. */
static enum stele_err upper_bound(struct stele_log *log, int at, const struct stele_slice *slice, int64_t *out_offset)
{
    int64_t offset = 0;
    enum stele_err err = stele_segment_offset_after(log->segments[at], slice->pos + (int64_t)slice->bytes, &offset);
    if (err != STELE_OK && err != STELE_END)
        return err;
    *out_offset = err == STELE_OK               ? offset
                  : at + 1 < log->segment_count ? log->segments[at + 1]->base_offset
                                                : log->log_end_offset;
    return STELE_OK;
}

enum stele_err stele_log_aborted(struct stele_log *log, int64_t offset, const struct stele_slice *slice,
                                 struct stele_aborted_txn **out_txns, size_t *out_count)
{
    struct stele_aborted_txn *txns = NULL;
    size_t count = 0;
    int64_t upper = 0;
    bool is_done = false;
    int at = stele_log__floor(log, slice->base_offset);
    enum stele_err err = stele_log__usable(log);
    if (err == STELE_OK)
        err = upper_bound(log, at, slice, &upper);
    for (; at < log->segment_count && err == STELE_OK && !is_done; at++) {
        struct stele_txn_index *index = &log->segments[at]->txns;
        err = stele_txn_index_load(index);
        if (err != STELE_OK || index->count == 0)
            continue;
        struct stele_aborted_txn *grown =
            stele_mem_resize(log->env->mem, STELE_MEM_LOG, txns, (count + (size_t)index->count) * sizeof(*txns));
        if (grown == NULL) {
            err = STELE_NO_MEMORY;
            break;
        }
        txns = grown;
        for (int i = 0; i < index->count && !is_done; i++) {
            const struct stele_aborted_txn *txn = &index->entries[i];
            if (txn->last_offset >= offset && txn->first_offset < upper)
                txns[count++] = *txn;
            is_done = txn->last_stable_offset >= upper;
        }
    }
    if (err != STELE_OK) {
        stele_mem_free(log->env->mem, txns);
        return err == STELE_OFFLINE || err == STELE_CLOSED ? err : stele_log__settle_read(log, err);
    }
    *out_txns = txns;
    *out_count = count;
    return STELE_OK;
}
