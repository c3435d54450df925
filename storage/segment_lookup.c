/* What a segment knows about its batches: where an offset or a time is, the largest timestamp, and the rebuild of the
 * indexes from the log.
 *
 * Invariants
 *  1. Nothing is answered from an index entry before the batch at its position agreed with it. One that does not agree
 * leads to a rebuild on the spot, unless the batches before lead to that very place: then the log is damaged.
 *  2. A wrong or missing index costs time, never an answer. */
#include "base/check.h"
#include "storage/history.h"
#include "storage/scan.h"
#include "storage/segment.h"

enum {
    WINDOW_BYTES = 8192,        /* one read for a scan over the default index interval */
    MISSED_ENTRIES_MAX = 4,     /* restarts leave gaps of up to two intervals */
    HIDDEN_BYTES_MAX = 16 << 20 /* so much behind damage is looked through on the loop */
};

/* Headers one after another through a small window, so that a scan is not a call for each. */
struct header_scan {
    struct stele_segment *seg;
    struct stele_file *file; /* pinned */
    int64_t window_pos;
    size_t window_bytes;
    bool has_healed; /* what was read from an index before is stale */
    int64_t missed;  /* entries that an index would have had between its entry and the batch found */
    uint8_t window[WINDOW_BYTES];
};

static enum stele_err scan_begin(struct header_scan *scan, struct stele_segment *seg)
{
    scan->seg = seg;
    scan->window_pos = 0;
    scan->window_bytes = 0;
    scan->missed = 0;
    scan->has_healed = false;
    return stele_cached_file_pin(seg->file, &scan->file);
}

static void scan_end(struct header_scan *scan)
{
    stele_cached_file_unpin(scan->seg->file);
}

static bool makes_sense(const struct stele_segment *seg, const struct stele_batch_header *header)
{
    return header->length >= STELE_BATCH_LENGTH_MIN && header->magic == STELE_BATCH_MAGIC &&
           header->last_offset_delta >= 0 && header->base_offset >= seg->base_offset &&
           header->base_offset <= INT64_MAX - header->last_offset_delta - 1;
}

static enum stele_err scan_header(struct header_scan *scan, int64_t pos, struct stele_batch_header *out_header,
                                  int64_t *out_bytes)
{
    struct stele_batch_header header;
    int64_t left = scan->seg->bytes - pos;
    STELE_ASSERT(pos >= 0);
    if (left <= 0)
        return STELE_END;
    if (left < STELE_BATCH_HEADER_BYTES)
        return STELE_CORRUPT; /* an append moves the end by whole batches, and recovery cuts what is torn */
    if (pos < scan->window_pos || pos + STELE_BATCH_HEADER_BYTES > scan->window_pos + (int64_t)scan->window_bytes) {
        size_t count = (size_t)stele_min_i64(left, WINDOW_BYTES);
        scan->window_bytes = 0;
        enum stele_err err = stele_file_read(scan->file, scan->window, count, pos);
        if (err != STELE_OK)
            return err == STELE_END ? STELE_CORRUPT : err; /* the file is shorter than it was */
        scan->window_pos = pos;
        scan->window_bytes = count;
    }
    const uint8_t *at = scan->window + (pos - scan->window_pos);
    if (stele_batch_header_read(at, STELE_BATCH_HEADER_BYTES, &header) != STELE_OK || !makes_sense(scan->seg, &header))
        return STELE_CORRUPT;
    int64_t bytes = (int64_t)header.length + STELE_BATCH_PREFIX_BYTES;
    if (bytes > left)
        return STELE_CORRUPT;
    *out_header = header;
    *out_bytes = bytes;
    return STELE_OK;
}

enum stele_err stele_segment_header_at(struct stele_segment *seg, int64_t pos, struct stele_batch_header *out_header,
                                       int64_t *out_bytes)
{
    struct header_scan scan;
    enum stele_err err = scan_begin(&scan, seg);
    if (err != STELE_OK)
        return err;
    err = scan_header(&scan, pos, out_header, out_bytes);
    scan_end(&scan);
    return err;
}

void stele_segment_hides(struct stele_segment *seg)
{
    seg->hidden_timestamp = stele_max_i64(seg->hidden_timestamp, seg->mtime_ms);
}

/* What damage at `pos` that no start has seen hides: its own batches, and the sound ones behind it, which are not
 * indexed, for a start alone can tell them from batches inside a record. Not all looked through, it is as young as can
 * be until the log is opened anew. */
static enum stele_err look_behind(struct header_scan *scan, int64_t pos)
{
    struct stele_segment *seg = scan->seg;
    struct stele_scan behind;
    struct stele_scanned batch;
    int64_t end = stele_min_i64(seg->bytes, pos + HIDDEN_BYTES_MAX);
    stele_segment_hides(seg);
    if (end < seg->bytes)
        seg->hidden_timestamp = INT64_MAX;
    stele_scan_init(&behind, seg->env->mem);
    enum stele_err err = stele_scan_start(&behind, scan->file, pos, end);
    while (err == STELE_OK) {
        err = stele_scan_next(&behind, &batch);
        if (err == STELE_OK)
            seg->hidden_timestamp = stele_max_i64(seg->hidden_timestamp, batch.header.max_timestamp);
        if (err == STELE_CORRUPT)
            err = stele_scan_resync(&behind, seg->base_offset);
    }
    stele_scan_deinit(&behind);
    return err == STELE_END ? STELE_OK : err;
}

enum stele_err stele_segment_rebuild_indexes(struct stele_segment *seg, const struct stele_log_config *config)
{
    struct header_scan scan;
    struct stele_batch_header header;
    int64_t pos = 0, bytes = 0;
    enum stele_err err = scan_begin(&scan, seg);
    if (err != STELE_OK)
        return err;
    stele_index_clear(&seg->offsets);
    stele_index_clear(&seg->times);
    seg->max_timestamp = -1;
    seg->offset_of_max_timestamp = seg->base_offset;
    seg->is_max_known = false;
    seg->hidden_timestamp = -1;
    seg->bytes_since_entry = 0;
    for (int joint = 0;;) {
        while (joint < seg->joint_count && seg->joints[joint].pos <= pos)
            joint++;
        err = scan_header(&scan, pos, &header, &bytes);
        if (err == STELE_CORRUPT && joint < seg->joint_count) {
            stele_segment_hides(seg);
            pos = seg->joints[joint].pos;
            continue;
        }
        if (err == STELE_OK)
            err = stele_segment_index_batch(seg, config, pos, bytes, &header);
        if (err != STELE_OK && err != STELE_INVALID_ARGUMENT)
            break;
        pos += bytes;
    }
    if (err == STELE_CORRUPT)
        err = look_behind(&scan, pos);
    scan_end(&scan);
    if (err != STELE_OK && err != STELE_END)
        return err;
    seg->is_max_known = true;
    return STELE_OK;
}

/* An index that pointed elsewhere is made anew on the spot (indexes are hints). */
static enum stele_err heal(struct header_scan *scan)
{
    struct stele_segment *seg = scan->seg;
    struct stele_log_config config;
    bool was_active = seg->offsets.is_active;
    stele_log_config_default(&config);
    config.index_interval_bytes = seg->index_interval_bytes;
    enum stele_err err = stele_segment_rebuild_indexes(seg, &config);
    if (err == STELE_OK && !was_active) {
        /* On a full disk the new index stays in memory, so that readers go on. */
        err = stele_segment__seal_indexes(seg);
        if (err == STELE_NO_SPACE)
            err = stele_index_activate(&seg->offsets);
        if (err == STELE_OK && seg->offsets.is_active)
            err = stele_index_activate(&seg->times);
    }
    if (err != STELE_OK)
        return err;
    scan->has_healed = true;
    seg->is_index_rebuilt = true;
    STELE_METRIC_ADD(seg->env->metrics, log_index_rebuilds, 1);
    stele_trace(seg->env, STELE_TRACE_LOG_INDEX_REBUILT, seg->dir, stele_reason_text(STELE_REASON_INDEX_WRONG),
                seg->base_offset, 0, 0);
    struct stele_history_event event = {.wall_ms = stele_env_wall_ms(seg->env),
                                        .kind = STELE_HISTORY_REBUILD,
                                        .offset = seg->base_offset,
                                        .bytes = seg->bytes,
                                        .reason = STELE_REASON_INDEX_WRONG};
    /* A lost line of history is no failure of the lookup. */
    if (stele_history_append(seg->env, seg->dir, &event) != STELE_OK)
        stele_trace(seg->env, STELE_TRACE_CHECKPOINT_BAD, seg->dir, "its history could not be written", 0, 0, 0);
    return STELE_OK;
}

enum verdict { SOUND, WRONG, UNREADABLE };

/* Whether the batch at the entry's position is the one that it names. */
static enum stele_err check_entry(struct header_scan *scan, const struct stele_offset_entry *entry,
                                  enum verdict *out_verdict)
{
    struct stele_batch_header header;
    int64_t bytes = 0;
    if (entry->pos == 0 || entry->pos >= scan->seg->bytes) {
        *out_verdict = entry->pos == 0 && entry->offset == scan->seg->base_offset ? SOUND : WRONG;
        return STELE_OK;
    }
    enum stele_err err = scan_header(scan, entry->pos, &header, &bytes);
    if (err != STELE_OK && err != STELE_CORRUPT)
        return err;
    *out_verdict = err != STELE_OK ? UNREADABLE : stele_batch_last_offset(&header) == entry->offset ? SOUND : WRONG;
    return STELE_OK;
}

/* Whether the batches from the entry before lead to the position of `entry`, where no batch can be read: then the index
 * is right and the log is damaged. */
static enum stele_err leads_there(struct header_scan *scan, const struct stele_offset_entry *entry, bool *out_leads)
{
    struct stele_offset_entry before;
    struct stele_batch_header header;
    enum verdict verdict = WRONG;
    int64_t compared = 0, bytes = 0;
    enum stele_err err = stele_offset_index_lookup(&scan->seg->offsets, entry->offset - 1, &before, &compared);
    if (err == STELE_OK)
        err = check_entry(scan, &before, &verdict);
    if (err != STELE_OK)
        return err;
    int64_t pos = before.pos;
    while (verdict == SOUND && pos < entry->pos && err == STELE_OK) {
        err = scan_header(scan, pos, &header, &bytes);
        pos += err == STELE_OK ? bytes : 0;
    }
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return err;
    *out_leads = verdict == SOUND && pos == entry->pos;
    return STELE_OK;
}

/* No batch before the last joint at or below `offset` is wanted. */
static int64_t start_behind_damage(const struct stele_segment *seg, int64_t offset, int64_t pos)
{
    for (int i = 0; i < seg->joint_count; i++) {
        if (seg->joints[i].offset <= offset)
            pos = stele_max_i64(pos, seg->joints[i].pos);
    }
    return pos;
}

/* Where a scan for `offset` may start, healing a wrong index on the way. CORRUPT: the log is damaged at *out_pos. */
static enum stele_err scan_start(struct header_scan *scan, int64_t offset, int64_t *out_pos, int64_t *inout_compared)
{
    struct stele_offset_entry entry;
    enum verdict verdict = SOUND;
    bool leads = false;
    enum stele_err err = stele_offset_index_lookup(&scan->seg->offsets, offset, &entry, inout_compared);
    if (err == STELE_OK) {
        /* An entry before it may name what is damaged. */
        *out_pos = start_behind_damage(scan->seg, offset, entry.pos);
        if (*out_pos > entry.pos)
            return STELE_OK;
        err = check_entry(scan, &entry, &verdict);
    }
    if (err == STELE_OK && verdict == UNREADABLE)
        err = leads_there(scan, &entry, &leads);
    if (err != STELE_OK)
        return err;
    if (leads) {
        *out_pos = entry.pos;
        return STELE_CORRUPT;
    }
    if (verdict != SOUND) {
        err = heal(scan);
        if (err == STELE_OK)
            err = stele_offset_index_lookup(&scan->seg->offsets, offset, &entry, inout_compared);
        if (err != STELE_OK)
            return err;
    }
    *out_pos = start_behind_damage(scan->seg, offset, entry.pos);
    return STELE_OK;
}

/* A last offset that rotted may claim what the next batch holds; CORRUPT then. */
static enum stele_err check_reach(struct header_scan *scan, int64_t last, int64_t next_pos)
{
    struct stele_batch_header next;
    int64_t bytes = 0;
    enum stele_err err = scan_header(scan, next_pos, &next, &bytes);
    if (err == STELE_END || err == STELE_CORRUPT)
        return STELE_OK; /* nothing is there to hold it against */
    return err == STELE_OK && next.base_offset <= last ? STELE_CORRUPT : err;
}

/* From the batch at *inout_pos on the first one that reaches `offset`. */
static enum stele_err scan_for(struct header_scan *scan, int64_t offset, int64_t *inout_pos,
                               struct stele_batch_header *out_header)
{
    struct stele_batch_header header;
    int64_t bytes = 0, last = scan->seg->base_offset - 1, since_entry = 0;
    for (;;) {
        enum stele_err err = scan_header(scan, *inout_pos, &header, &bytes);
        if (err != STELE_OK)
            return err;
        if (header.base_offset <= last)
            return STELE_CORRUPT;
        last = stele_batch_last_offset(&header);
        if (last >= offset) {
            *out_header = header;
            return header.base_offset < offset ? check_reach(scan, last, *inout_pos + bytes) : STELE_OK;
        }
        if (since_entry > scan->seg->index_interval_bytes) {
            scan->missed++;
            since_entry = 0;
        }
        since_entry += bytes;
        *inout_pos += bytes;
    }
}

enum stele_err stele_segment_find(struct stele_segment *seg, int64_t offset, int64_t *out_pos,
                                  struct stele_batch_header *out_header)
{
    struct header_scan scan;
    int64_t pos = 0, from = 0, compared = 0;
    enum stele_err err = scan_begin(&scan, seg);
    if (err != STELE_OK)
        return err;
    err = scan_start(&scan, offset, &pos, &compared);
    from = pos;
    if (err == STELE_OK)
        err = scan_for(&scan, offset, &pos, out_header);
    STELE_METRIC_ADD(seg->env->metrics, log_segments_searched, 1);
    STELE_METRIC_ADD(seg->env->metrics, log_lookups, 1);
    STELE_METRIC_OBSERVE(seg->env->metrics, lookup_entries, compared);
    STELE_METRIC_OBSERVE(seg->env->metrics, lookup_bytes, pos - from);
    STELE_METRIC_ADD(seg->env->metrics, log_lookup_entries, compared);
    STELE_METRIC_ADD(seg->env->metrics, log_lookup_bytes, pos - from);
    if (err == STELE_OK && scan.missed > MISSED_ENTRIES_MAX && !seg->is_index_rebuilt &&
        !stele_offset_index_is_full(&seg->offsets))
        err = heal(&scan); /* entries are missing: the next lookup shall be short */
    scan_end(&scan);
    if (err == STELE_OK || err == STELE_CORRUPT || err == STELE_END)
        *out_pos = pos;
    return err;
}

const struct stele_segment_recent *stele_segment_recent(const struct stele_segment *seg, int64_t offset)
{
    for (uint32_t i = 1; i <= STELE_RECENT_MAX; i++) {
        const struct stele_segment_recent *recent = &seg->recent[(seg->recent_count - i) % STELE_RECENT_MAX];
        if (recent->length == 0 || recent->base_offset == offset)
            return recent->length == 0 ? NULL : recent;
    }
    return NULL;
}

bool stele_segment_find_recent(struct stele_segment *seg, int64_t offset, int64_t *out_pos,
                               struct stele_batch_header *out_header)
{
    const struct stele_segment_recent *recent = stele_segment_recent(seg, offset);
    if (recent == NULL)
        return false;
    *out_pos = recent->pos;
    *out_header = (struct stele_batch_header){
        .base_offset = offset, .length = recent->length, .last_offset_delta = recent->last_offset_delta};
    STELE_METRIC_ADD(seg->env->metrics, log_segments_searched, 1);
    STELE_METRIC_ADD(seg->env->metrics, log_lookups, 1);
    STELE_METRIC_OBSERVE(seg->env->metrics, lookup_entries, 0);
    STELE_METRIC_OBSERVE(seg->env->metrics, lookup_bytes, 0);
    return true;
}

enum stele_err stele_segment_offset_after(struct stele_segment *seg, int64_t pos, int64_t *out_offset)
{
    struct header_scan scan;
    struct stele_offset_entry entry;
    enum verdict verdict = SOUND;
    enum stele_err err = scan_begin(&scan, seg);
    if (err != STELE_OK)
        return err;
    err = stele_offset_index_at_pos(&seg->offsets, pos, &entry);
    if (err == STELE_OK)
        err = check_entry(&scan, &entry, &verdict);
    if (err == STELE_OK && verdict != SOUND) {
        err = heal(&scan);
        if (err == STELE_OK)
            err = stele_offset_index_at_pos(&seg->offsets, pos, &entry);
    }
    scan_end(&scan);
    if (err == STELE_OK)
        *out_offset = entry.offset;
    return err;
}

/* Whether the batch that holds the entry's offset contradicts it. Damage in the log is nothing against the index. Other
 * writers may name a record inside the batch: the offset becomes the batch's last. */
static enum stele_err check_time_entry(struct header_scan *scan, struct stele_time_entry *inout_entry,
                                       bool *out_is_wrong)
{
    struct stele_batch_header header;
    int64_t pos = 0, compared = 0;
    *out_is_wrong = false;
    if (inout_entry->timestamp == -1 && inout_entry->offset == scan->seg->base_offset) /* none */
        return STELE_OK;
    enum stele_err err = scan_start(scan, inout_entry->offset, &pos, &compared);
    if (scan->has_healed)
        return err;
    if (err == STELE_OK)
        err = scan_for(scan, inout_entry->offset, &pos, &header);
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return err;
    *out_is_wrong = err == STELE_END || (err == STELE_OK && (header.max_timestamp != inout_entry->timestamp ||
                                                             header.base_offset > inout_entry->offset));
    if (err == STELE_OK && !*out_is_wrong)
        inout_entry->offset = stele_batch_last_offset(&header);
    return STELE_OK;
}

/* Raises the pair by the batches from the last offset entry on: up to there the last time entry says it all. That it
 * does not is told by *out_is_wrong. */
static enum stele_err max_of_tail(struct header_scan *scan, struct stele_time_entry *inout_max, bool *out_is_wrong)
{
    struct stele_batch_header header;
    int64_t pos = 0, bytes = 0, compared = 0;
    enum stele_err err = scan_start(scan, INT64_MAX, &pos, &compared);
    bool is_indexed = pos > 0 && !stele_time_index_is_full(&scan->seg->times);
    while (err == STELE_OK && (err = scan_header(scan, pos, &header, &bytes)) == STELE_OK) {
        if (header.max_timestamp > inout_max->timestamp) {
            if (is_indexed)
                *out_is_wrong = true;
            inout_max->timestamp = header.max_timestamp;
            inout_max->offset = stele_batch_last_offset(&header);
        }
        is_indexed = false;
        pos += bytes;
    }
    if (err == STELE_CORRUPT)
        return look_behind(scan, pos);
    return err == STELE_END ? STELE_OK : err;
}

enum stele_err stele_segment__learn_max(struct stele_segment *seg)
{
    struct header_scan scan;
    struct stele_time_entry max;
    bool is_wrong = false;
    enum stele_err err = scan_begin(&scan, seg);
    if (err != STELE_OK)
        return err;
    err = stele_time_index_last(&seg->times, &max);
    if (err == STELE_OK)
        err = check_time_entry(&scan, &max, &is_wrong);
    if (err == STELE_OK && !is_wrong && !scan.has_healed)
        err = max_of_tail(&scan, &max, &is_wrong);
    if (err == STELE_OK && is_wrong && !scan.has_healed)
        err = heal(&scan);
    if (err == STELE_OK && !scan.has_healed) { /* a healing has set the pair */
        seg->max_timestamp = max.timestamp;
        seg->offset_of_max_timestamp = max.offset;
        seg->is_max_known = true;
    }
    scan_end(&scan);
    return err;
}

enum stele_err stele_segment_largest_timestamp(struct stele_segment *seg, int64_t *out_timestamp)
{
    if (!seg->is_max_known) {
        enum stele_err err = stele_segment__learn_max(seg);
        if (err != STELE_OK)
            return err;
    }
    *out_timestamp = seg->max_timestamp >= 0 ? seg->max_timestamp : seg->mtime_ms;
    return STELE_OK;
}

enum stele_err stele_segment_keep_timestamp(struct stele_segment *seg, int64_t *out_timestamp)
{
    int64_t largest = -1;
    enum stele_err err = stele_segment_largest_timestamp(seg, &largest);
    if (err == STELE_OK)
        *out_timestamp = stele_max_i64(largest, seg->hidden_timestamp);
    return err;
}

enum stele_err stele_segment_first_timestamp(struct stele_segment *seg, int64_t *out_timestamp)
{
    struct stele_batch_header header;
    int64_t bytes = 0;
    if (!seg->is_first_known) {
        enum stele_err err = stele_segment_header_at(seg, 0, &header, &bytes);
        if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
            return err;
        seg->first_timestamp = err == STELE_OK ? header.max_timestamp : -1;
        seg->is_first_known = true;
    }
    *out_timestamp = seg->first_timestamp;
    return STELE_OK;
}

/* What is wrong with stored records is damage, whatever a leader would have called it. */
static enum stele_err as_stored(enum stele_err err)
{
    return err == STELE_OK || err == STELE_END || err == STELE_IO || err == STELE_NO_MEMORY ? err : STELE_CORRUPT;
}

enum stele_err stele_segment_time_in_batch(struct stele_mem *mem, struct stele_file *file,
                                           const struct stele_segment_range *range,
                                           const struct stele_time_search *search, struct stele_time_found *out_found)
{
    struct stele_record_walker walker;
    struct stele_batch_header header;
    struct stele_record record;
    struct stele_time_found found = {.offset = -1, .timestamp = search->timestamp - 1};
    size_t bytes = (size_t)range->bytes;
    uint8_t *batch = stele_mem_raw(mem, STELE_MEM_LOG, bytes);
    if (batch == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = stele_file_read(file, batch, bytes, range->pos);
    if (err == STELE_END)
        err = STELE_CORRUPT; /* the file is shorter than it was */
    if (err == STELE_OK)
        err = as_stored(stele_batch_check(batch, bytes, &header));
    if (err == STELE_OK)
        err = as_stored(stele_record_walker_init(&walker, mem, batch, bytes, search->unpacked_bytes_max));
    if (err == STELE_OK) {
        while ((search->wants_largest || found.offset < 0) &&
               (err = as_stored(stele_record_next(&walker, &record))) == STELE_OK) {
            if (record.timestamp > found.timestamp && record.offset >= search->offset_min)
                found = (struct stele_time_found){.offset = record.offset, .timestamp = record.timestamp};
        }
        stele_record_walker_deinit(&walker);
    }
    stele_mem_free(mem, batch);
    if (err == STELE_END && found.offset >= 0)
        err = STELE_OK;
    found.leader_epoch = err == STELE_OK ? header.partition_leader_epoch : -1;
    if (err == STELE_OK)
        *out_found = found;
    return err;
}

/* Where to start: every batch before has lower timestamps or lower offsets than wanted. */
static enum stele_err time_start(struct header_scan *scan, const struct stele_time_search *search, int64_t *out_pos)
{
    struct stele_time_entry entry;
    bool is_wrong = false;
    int64_t compared = 0;
    enum stele_err err = stele_time_index_lookup(&scan->seg->times, search->timestamp, &entry);
    if (err == STELE_OK && entry.offset > search->offset_min)
        err = check_time_entry(scan, &entry, &is_wrong);
    if (err == STELE_OK && is_wrong)
        err = heal(scan);
    if (err == STELE_OK && scan->has_healed)
        err = stele_time_index_lookup(&scan->seg->times, search->timestamp, &entry);
    if (err != STELE_OK)
        return err;
    return scan_start(scan, stele_max_i64(entry.offset, search->offset_min), out_pos, &compared);
}

/* What a scan from an index entry on reads at most, when indexes are as they should be. */
static void range_from(const struct stele_segment *seg, int64_t pos, int64_t more, struct stele_segment_range *out)
{
    int64_t bytes = stele_min_i64(seg->bytes - pos, seg->index_interval_bytes + WINDOW_BYTES + more);
    *out = (struct stele_segment_range){.pos = pos, .bytes = bytes > 0 ? bytes : 0};
}

enum stele_err stele_segment_range_of(struct stele_segment *seg, int64_t offset, int64_t more,
                                      struct stele_segment_range *out)
{
    struct stele_offset_entry entry;
    int64_t compared = 0;
    enum stele_err err = stele_offset_index_lookup(&seg->offsets, offset, &entry, &compared);
    if (err == STELE_OK)
        range_from(seg, entry.pos, more, out);
    return err;
}

enum stele_err stele_segment_range_of_time(struct stele_segment *seg, const struct stele_time_search *search,
                                           struct stele_segment_range *out)
{
    struct stele_time_entry entry;
    enum stele_err err = stele_time_index_lookup(&seg->times, search->timestamp, &entry);
    if (err != STELE_OK)
        return err;
    return stele_segment_range_of(seg, stele_max_i64(entry.offset, search->offset_min), 0, out);
}

enum stele_err stele_segment_time_next(struct stele_segment *seg, const struct stele_time_search *search,
                                       struct stele_segment_range *inout_batch)
{
    struct header_scan scan;
    struct stele_batch_header header;
    int64_t bytes = 0, pos = inout_batch->pos + inout_batch->bytes;
    enum stele_err err = scan_begin(&scan, seg);
    if (err != STELE_OK)
        return err;
    if (inout_batch->pos < 0) {
        STELE_METRIC_ADD(seg->env->metrics, log_segments_searched, 1);
        err = time_start(&scan, search, &pos);
    }
    while (err == STELE_OK && (err = scan_header(&scan, pos, &header, &bytes)) == STELE_OK) {
        if (header.max_timestamp >= search->timestamp && stele_batch_last_offset(&header) >= search->offset_min)
            break;
        pos += bytes;
    }
    scan_end(&scan);
    if (err == STELE_OK || err == STELE_CORRUPT)
        *inout_batch = (struct stele_segment_range){.pos = pos, .bytes = err == STELE_OK ? bytes : 0};
    return err;
}
