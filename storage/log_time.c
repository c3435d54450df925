/* Offsets by time (facts 5.3), in steps: the loop looks at indexes and at what is in the page cache; a job loads what
 * is not, and unpacks batches. */
#include "base/check.h"
#include "proto/api.h"
#include "storage/log_struct.h"

enum { SHORT_BYTES = 16 << 10 }; /* a batch that is looked into on the loop */

/* The first segment that is not done with and has a record that was not deleted; -1 when there is none. */
static int segment_at(const struct stele_log *log, int64_t base)
{
    for (int at = stele_log__floor(log, log->log_start_offset); at < log->segment_count; at++) {
        if (log->segments[at]->base_offset >= base)
            return at;
    }
    return -1;
}

/* True when a job has to load the range first. */
static enum stele_err must_load(struct stele_log *log, struct stele_segment *seg, struct stele_time_query *query,
                                const struct stele_segment_range *range, bool *out_must)
{
    *out_must = false;
    if (query->is_loaded) {
        query->is_loaded = false;
        return STELE_OK;
    }
    enum stele_err err = stele_log__pin_range(seg, range, &query->slice);
    if (err != STELE_OK || query->slice.bytes == 0)
        return err;
    query->file = stele_cached_file_send(query->slice.file)->file;
    *out_must = log->env->vfs->ops->resident(query->file, range->pos, range->bytes) != STELE_RESIDENT_YES;
    if (!*out_must)
        stele_slice_release(&query->slice);
    return STELE_OK;
}

/* Whether the segment may hold the largest timestamp: it was not tried, and what was found elsewhere is no better. */
static bool may_hold_largest(const struct stele_time_query *query, const struct stele_segment *seg)
{
    int64_t timestamp = seg->max_timestamp;
    bool is_tried = timestamp > query->tried_timestamp ||
                    (timestamp == query->tried_timestamp && seg->base_offset <= query->tried_base);
    return !is_tried && (timestamp > query->found.timestamp ||
                         (timestamp == query->found.timestamp && seg->base_offset < query->found.offset));
}

/* Finds the segment to search: the first with a timestamp as large, or the one with the largest of all, the first of
 * equal ones. END: none. */
static enum stele_err choose(struct stele_log *log, struct stele_time_query *query, bool *out_waits)
{
    bool wants_largest = query->timestamp == STELE_TIME_MAX_TIMESTAMP;
    int at = segment_at(log, query->segment_base);
    for (; at >= 0 && at < log->segment_count; at++) {
        struct stele_segment *seg = log->segments[at];
        struct stele_segment_range range;
        int64_t largest = -1;
        query->segment_base = seg->base_offset;
        enum stele_err err = STELE_OK;
        if (!seg->is_max_known) {
            err = stele_segment_range_of(seg, INT64_MAX, 0, &range);
            if (err == STELE_OK)
                err = must_load(log, seg, query, &range, out_waits);
        }
        if (err == STELE_OK && !*out_waits)
            err = stele_segment_largest_timestamp(seg, &largest);
        if (err != STELE_OK || *out_waits)
            return err;
        if (wants_largest && seg->max_timestamp > query->search.timestamp && may_hold_largest(query, seg)) {
            query->search.timestamp = seg->max_timestamp;
            query->largest_base = seg->base_offset;
        } else if (!wants_largest && seg->max_timestamp >= query->timestamp) {
            return STELE_OK;
        }
    }
    query->segment_base = query->tried_base = query->largest_base;
    query->tried_timestamp = query->search.timestamp;
    return query->largest_base < 0 ? STELE_END : STELE_OK;
}

/* Looks for the record in the segment that was chosen. END: it is in none of its batches. */
static enum stele_err search(struct stele_log *log, struct stele_time_query *query, bool *out_waits)
{
    int at = segment_at(log, query->segment_base);
    if (at < 0 || log->segments[at]->base_offset != query->segment_base)
        return STELE_END; /* deleted from the front meanwhile */
    struct stele_segment *seg = log->segments[at];
    struct stele_segment_range range;
    query->search.offset_min = log->log_start_offset;
    enum stele_err err = STELE_OK;
    if (query->batch.pos < 0) {
        err = stele_segment_range_of_time(seg, &query->search, &range);
        if (err == STELE_OK)
            err = must_load(log, seg, query, &range, out_waits);
        if (err != STELE_OK || *out_waits)
            return err;
    }
    err = stele_segment_time_next(seg, &query->search, &query->batch);
    if (err == STELE_CORRUPT)
        return stele_log__report_damage(log, seg, seg->base_offset, query->batch.pos);
    if (err == STELE_OK)
        err = stele_log__pin_range(seg, &query->batch, &query->slice);
    if (err != STELE_OK)
        return err;
    query->file = stele_cached_file_send(query->slice.file)->file;
    *out_waits = true;
    return STELE_OK;
}

void stele_log_time_work(struct stele_time_query *query)
{
    if (query->phase == STELE_TIME_SEARCHES && query->batch.pos >= 0)
        query->work_err =
            stele_segment_time_in_batch(query->mem, query->file, &query->batch, &query->search, &query->hit);
    else
        query->work_err = stele_slice_load(query->mem, query->file, query->slice.pos, (int64_t)query->slice.bytes);
}

void stele_log_time_drop(struct stele_time_query *query)
{
    stele_slice_release(&query->slice);
}

/* What a job has brought. END: nothing that ends the search. */
static enum stele_err take_work(struct stele_log *log, struct stele_time_query *query)
{
    bool is_batch = query->phase == STELE_TIME_SEARCHES && query->batch.pos >= 0;
    enum stele_err err = query->work_err;
    stele_slice_release(&query->slice);
    if (query->cut_count != log->cut_count)
        return STELE_END;
    if (!is_batch) {
        query->is_loaded = true; /* what could not be loaded is met again by the lookup, which knows what to say */
        return STELE_END;
    }
    int at = segment_at(log, query->segment_base);
    if (err == STELE_CORRUPT && at >= 0)
        return stele_log__report_damage(log, log->segments[at], query->segment_base, query->batch.pos);
    if (err != STELE_OK)
        return err;
    query->found = (struct stele_time_offset){
        .offset = query->hit.offset, .timestamp = query->hit.timestamp, .leader_epoch = query->hit.leader_epoch};
    query->search.timestamp = query->hit.timestamp + 1; /* for one that climbs on */
    return query->is_climbing ? STELE_END : STELE_OK;
}

static void begin(struct stele_log *log, struct stele_time_query *query)
{
    query->phase = STELE_TIME_CHOOSES;
    query->mem = log->env->mem;
    query->search = (struct stele_time_search){.timestamp = stele_max_i64(query->timestamp, -1),
                                               .unpacked_bytes_max = (size_t)log->config.max_unpacked_bytes};
    query->segment_base = query->largest_base = query->tried_base = -1;
    query->tried_timestamp = INT64_MAX;
    query->is_climbing = false;
    query->cut_count = log->cut_count;
    query->batch = (struct stele_segment_range){.pos = -1};
    query->found = (struct stele_time_offset){.offset = -1, .timestamp = -1, .leader_epoch = -1};
}

/* The largest timestamp of the segment is that of no record that is left: it was deleted, or compacted away. So the
 * largest of those that are left is looked for, batch by batch, then in the other segments when they may have a larger
 * one (a record that was deleted is no answer). */
static void climb_or_choose_again(struct stele_time_query *query)
{
    query->is_climbing = !query->is_climbing;
    query->search.wants_largest = query->is_climbing;
    if (query->is_climbing) {
        query->search.timestamp = query->found.timestamp + 1;
        return;
    }
    query->search.timestamp = -1;
    query->segment_base = query->largest_base = -1;
    query->phase = STELE_TIME_CHOOSES;
}

/* Goes on in the segment after the one that did not hold it. */
static void go_on(struct stele_time_query *query)
{
    query->batch = (struct stele_segment_range){.pos = -1};
    if (query->timestamp == STELE_TIME_MAX_TIMESTAMP) {
        climb_or_choose_again(query);
        return;
    }
    query->phase = STELE_TIME_CHOOSES;
    query->segment_base++;
}

static enum stele_err advance(struct stele_log *log, struct stele_time_query *query, bool *out_waits)
{
    enum stele_err err = STELE_OK;
    while (err == STELE_OK && !*out_waits) {
        if (query->phase == STELE_TIME_CHOOSES) {
            err = choose(log, query, out_waits);
            if (err == STELE_OK && !*out_waits)
                query->phase = STELE_TIME_SEARCHES;
            continue;
        }
        err = search(log, query, out_waits);
        if (err == STELE_END) {
            go_on(query);
            err = STELE_OK;
        }
        if (err != STELE_OK || !*out_waits || query->batch.pos < 0 || query->batch.bytes > SHORT_BYTES ||
            log->env->vfs->ops->resident(query->file, query->batch.pos, query->batch.bytes) != STELE_RESIDENT_YES)
            continue;
        *out_waits = false;
        stele_log_time_work(query);
        err = take_work(log, query);
        if (err == STELE_OK)
            return STELE_OK;
        err = err == STELE_END ? STELE_OK : err;
    }
    return err;
}

enum stele_err stele_log_time_step(struct stele_log *log, struct stele_time_query *query, bool *out_waits)
{
    enum stele_err err = stele_log__usable(log);
    *out_waits = false;
    if (err != STELE_OK) {
        stele_log_time_drop(query);
        return err;
    }
    if (query->timestamp == STELE_TIME_EARLIEST || query->timestamp == STELE_TIME_LATEST) {
        int64_t offset = query->timestamp == STELE_TIME_EARLIEST ? log->log_start_offset : log->log_end_offset;
        query->found = (struct stele_time_offset){.offset = offset,
                                                  .timestamp = -1,
                                                  .leader_epoch = query->timestamp == STELE_TIME_EARLIEST
                                                                      ? stele_epoch_cache_epoch_at(&log->epochs, offset)
                                                                      : stele_epoch_cache_latest(&log->epochs)};
        return STELE_OK;
    }
    if (query->phase == STELE_TIME_BEGINS) {
        begin(log, query);
    } else {
        err = take_work(log, query);
        if (err != STELE_END)
            return stele_log__settle_read(log, err);
        if (query->cut_count != log->cut_count)
            begin(log, query);
    }
    err = advance(log, query, out_waits);
    return err == STELE_END ? STELE_OK : stele_log__settle_read(log, err);
}

enum stele_err stele_log_offset_at(struct stele_log *log, int64_t timestamp, struct stele_time_offset *out)
{
    struct stele_time_query query = {.timestamp = timestamp};
    bool waits = false;
    enum stele_err err = stele_log_time_step(log, &query, &waits);
    while (err == STELE_OK && waits) {
        stele_log_time_work(&query);
        err = stele_log_time_step(log, &query, &waits);
    }
    if (err == STELE_OK)
        *out = query.found;
    return err;
}
