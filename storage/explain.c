/* Invariants
 *  1. A step holds nothing of the log when it ends, but for one pinned range that the next step or drop gives back.
 *  2. `work` touches files by their names or through the pinned range, never the log. */
#include "storage/explain.h"

#include "base/check.h"
#include "storage/log_struct.h"

#include <stdio.h>
#include <string.h>

enum {
    WARM_BYTES = 16384,       /* of either end of a file */
    WINDOW_BYTES = 8192,      /* one read of the scan */
    READS_A_STEP = 512,       /* of the scan: 4 MiB at most */
    SCAN_BYTES_MAX = 1 << 30, /* of the log that one step covers */
};

void stele_histogram_add(struct stele_histogram *histogram, int64_t value, int64_t times)
{
    int at = 0;
    while (at < STELE_HISTOGRAM_BUCKETS - 1 && value > (int64_t)1 << at)
        at++;
    histogram->buckets[at] += times;
    histogram->count += times;
    histogram->sum += value * times;
    histogram->max = stele_max_i64(histogram->max, value);
}

/* History. */

static void count_event(void *arg, const struct stele_history_event *event)
{
    struct stele_log_explain *explain = arg;
    (void)event;
    explain->history_count++;
}

struct taking {
    struct stele_log_explain *explain;
    int taken;
};

static void take_event(void *arg, const struct stele_history_event *event)
{
    struct taking *taking = arg;
    if (taking->taken < taking->explain->history_count) /* it may have grown in between */
        taking->explain->history[taking->taken++] = *event;
}

static void read_history(struct stele_log_explain *explain)
{
    struct taking taking = {.explain = explain};
    enum stele_err err = stele_history_read(explain->env, explain->dir, count_event, explain);
    explain->history = stele_arena_array(explain->arena, (size_t)explain->history_count, sizeof(*explain->history));
    if (explain->history == NULL)
        err = STELE_NO_MEMORY;
    if (err == STELE_OK)
        err = stele_history_read(explain->env, explain->dir, take_event, &taking);
    explain->history_count = taking.taken;
    explain->work_err = err == STELE_NO_MEMORY ? err : STELE_OK;
}

/* What the segments do not yet know of themselves. The loop asks them, as retention does, after a job has brought what
 * they will look at into the page cache. */

static void warm_file(struct stele_log_explain *explain, int64_t base_offset, const char *suffix, uint8_t *scratch)
{
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    struct stele_vfs *vfs = explain->env->vfs;
    struct stele_file *file = NULL;
    int64_t bytes = 0;
    size_t count = 0;
    stele_segment_name(base_offset, suffix, name);
    if (stele_path_join(path, explain->dir, name) != STELE_OK ||
        vfs->ops->open(vfs, path, STELE_OPEN_READ, &file) != STELE_OK)
        return;
    /* What cannot be read here cannot be read there, and is told there. */
    if (vfs->ops->size(file, &bytes) == STELE_OK && vfs->ops->pread(file, scratch, WARM_BYTES, 0, &count) == STELE_OK &&
        bytes > WARM_BYTES)
        (void)vfs->ops->pread(file, scratch, WARM_BYTES, bytes - WARM_BYTES, &count);
    vfs->ops->close(file);
}

static void warm(struct stele_log_explain *explain)
{
    static const char *const suffixes[] = {".log", ".index", ".timeindex"};
    uint8_t *scratch = stele_mem_raw(explain->env->mem, STELE_MEM_LOG, WARM_BYTES);
    explain->work_err = STELE_OK;
    if (scratch == NULL) {
        explain->work_err = STELE_NO_MEMORY;
        return;
    }
    for (int i = 0; i < explain->base_count; i++) {
        for (size_t k = 0; k < STELE_ARRAY_LEN(suffixes); k++)
            warm_file(explain, explain->bases[i], suffixes[k], scratch);
    }
    stele_mem_free(explain->env->mem, scratch);
}

static struct stele_segment *segment_at(const struct stele_log *log, int64_t base_offset)
{
    struct stele_segment *seg = log->segments[stele_log__floor(log, base_offset)];
    return seg->base_offset == base_offset ? seg : NULL;
}

static void learn(struct stele_log *log, struct stele_log_explain *explain)
{
    int64_t ignored;
    for (int i = 0; i < explain->base_count; i++) {
        struct stele_segment *seg = segment_at(log, explain->bases[i]);
        /* One that cannot be read stays unknown here; to take the log offline is for those who need it. */
        if (seg != NULL && stele_segment_first_timestamp(seg, &ignored) == STELE_OK &&
            stele_segment_largest_timestamp(seg, &ignored) == STELE_OK)
            continue;
    }
    explain->base_count = 0;
}

/* False when there is nothing to be learned any more. */
static bool choose(const struct stele_log *log, struct stele_log_explain *explain)
{
    for (int at = stele_log__floor(log, explain->learned_base); at < log->segment_count; at++) {
        const struct stele_segment *seg = log->segments[at];
        if (seg->base_offset <= explain->learned_base || (seg->is_first_known && seg->is_max_known))
            continue;
        explain->bases[explain->base_count++] = seg->base_offset;
        explain->learned_base = seg->base_offset;
        if (explain->base_count == STELE_EXPLAIN_LEARN_MAX)
            break;
    }
    return explain->base_count > 0;
}

/* The summary. */

static void fill_segment(const struct stele_log *log, int at, struct stele_log_explain *explain)
{
    const struct stele_segment *seg = log->segments[at];
    struct stele_described_segment *out = &explain->segments[explain->deleted_count + at];
    bool is_last = at == log->segment_count - 1;
    *out = (struct stele_described_segment){
        .base_offset = seg->base_offset,
        .next_offset = is_last ? log->log_end_offset : log->segments[at + 1]->base_offset,
        .bytes = seg->bytes,
        .offset_index_bytes = seg->offsets.count < 0 ? -1 : seg->offsets.count * STELE_OFFSET_ENTRY_BYTES,
        .time_index_bytes = seg->times.count < 0 ? -1 : seg->times.count * STELE_TIME_ENTRY_BYTES,
        .txn_index_bytes = seg->txns.is_loaded ? (int64_t)seg->txns.count * STELE_TXN_ENTRY_BYTES : -1,
        .first_timestamp = seg->is_first_known ? seg->first_timestamp : -1,
        .largest_timestamp = seg->is_max_known ? seg->max_timestamp : -1,
        .modified_ms = seg->mtime_ms,
        .rolled_because = "",
        .kept_because = "",
        .delete_at_ms = -1};
    explain->judged[at] = (struct stele_retention_segment){
        .base_offset = seg->base_offset,
        .bytes = seg->bytes,
        .largest_timestamp =
            stele_max_i64(out->largest_timestamp >= 0 ? out->largest_timestamp : seg->mtime_ms, seg->hidden_timestamp)};
}

static void fill_deleted(const struct stele_log *log, struct stele_log_explain *explain)
{
    int64_t mono_ms = stele_env_mono_ms(log->env);
    for (int i = 0; i < log->unlink_count; i++) {
        const struct stele_unlink_due *unlink = &log->unlinks[i];
        explain->segments[i] =
            (struct stele_described_segment){.base_offset = unlink->base_offset,
                                             .next_offset = unlink->next_offset,
                                             .bytes = unlink->bytes,
                                             .first_timestamp = -1,
                                             .largest_timestamp = -1,
                                             .modified_ms = -1,
                                             .rolled_because = "",
                                             .kept_because = "",
                                             .delete_at_ms = explain->wall_ms + unlink->due_ms - mono_ms};
    }
}

static bool fill_damaged(const struct stele_log *log, struct stele_log_explain *explain)
{
    struct stele_described_damage *damaged =
        stele_arena_array(explain->arena, (size_t)log->damaged_count, sizeof(*damaged));
    if (damaged == NULL)
        return false;
    for (int i = 0; i < log->damaged_count; i++) {
        const struct stele_damaged_range *range = &log->damaged[i];
        damaged[i] = (struct stele_described_damage){.first_offset = range->first_offset,
                                                     .last_offset = range->last_offset,
                                                     .segment_base = range->segment_base,
                                                     .pos = range->pos};
    }
    explain->out->damaged = damaged;
    explain->out->damaged_count = (size_t)log->damaged_count;
    return true;
}

static void fill_offsets(const struct stele_log *log, struct stele_described_log *out)
{
    out->log_start_offset = log->log_start_offset;
    out->high_watermark = log->high_watermark;
    out->last_stable_offset = stele_log_last_stable_offset(log);
    out->log_end_offset = log->log_end_offset;
    out->recovery_point = log->recovery_point;
    out->bytes = stele_log_bytes(log);
    out->segment_total = log->segment_count;
    out->producer_total = stele_producers_count(log->producers);
    out->bytes_appended = log->appended_bytes;
    out->appended_ms = stele_env_mono_ms(log->env) - log->opened_ms;
}

static enum stele_err summarize(struct stele_log *log, struct stele_log_explain *explain)
{
    fill_offsets(log, explain->out);
    explain->wall_ms = stele_env_wall_ms(log->env);
    explain->deleted_count = log->unlink_count;
    explain->segment_count = log->unlink_count + log->segment_count;
    explain->segments = stele_arena_array(explain->arena, (size_t)explain->segment_count, sizeof(*explain->segments));
    explain->judged = stele_arena_array(explain->arena, (size_t)log->segment_count, sizeof(*explain->judged));
    if (explain->segments == NULL || explain->judged == NULL || !fill_damaged(log, explain))
        return STELE_NO_MEMORY;
    fill_deleted(log, explain);
    for (int i = 0; i < log->segment_count; i++)
        fill_segment(log, i, explain);
    explain->config = log->config;
    explain->in = (struct stele_retention_in){.config = &explain->config,
                                              .segments = explain->judged,
                                              .count = log->segment_count,
                                              .log_start_offset = log->log_start_offset,
                                              .log_end_offset = log->log_end_offset,
                                              .high_watermark = log->high_watermark,
                                              .wall_ms = explain->wall_ms};
    return STELE_OK;
}

static void tell(struct stele_log_explain *explain)
{
    explain->work_err = stele_explain__tell(explain);
}

/* The scan of batch headers. */

static void count_batch(struct stele_log_explain *explain, const struct stele_batch_header *header, int64_t bytes)
{
    stele_histogram_add(&explain->batch_bytes, bytes, 1);
    stele_histogram_add(&explain->batch_records, header->record_count, 1);
    if (header->record_count > 0)
        stele_histogram_add(&explain->record_bytes, bytes / header->record_count, header->record_count);
}

/* Those headers that lie in the window wholly. False: what follows is no batch, or is not wanted. */
static bool count_window(struct stele_log_explain *explain, const uint8_t *window, int64_t window_pos, int64_t end)
{
    int64_t pos = explain->scan_pos, last = stele_min_i64(window_pos + WINDOW_BYTES, end);
    while (pos + STELE_BATCH_HEADER_BYTES <= last) {
        const uint8_t *at = window + (pos - window_pos);
        struct stele_batch_header header;
        int64_t bytes = stele_batch_size(at);
        bool is_good = stele_batch_header_read(at, STELE_BATCH_HEADER_BYTES, &header) == STELE_OK &&
                       header.magic == STELE_BATCH_MAGIC && bytes >= STELE_BATCH_HEADER_BYTES && bytes <= end - pos &&
                       header.record_count >= 0;
        if (!is_good || header.base_offset >= explain->in.log_end_offset)
            return false;
        count_batch(explain, &header, bytes);
        pos += bytes;
        explain->scan_pos = pos;
    }
    return end - pos >= STELE_BATCH_HEADER_BYTES;
}

static void scan(struct stele_log_explain *explain)
{
    uint8_t window[WINDOW_BYTES];
    int64_t end = explain->slice.pos + (int64_t)explain->slice.bytes, from = explain->scan_pos;
    explain->work_err = STELE_OK;
    for (int i = 0; i < READS_A_STEP && explain->scan_pos - from < SCAN_BYTES_MAX; i++) {
        int64_t pos = explain->scan_pos;
        size_t count = (size_t)stele_min_i64(end - pos, WINDOW_BYTES);
        if (count < STELE_BATCH_HEADER_BYTES || stele_file_read(explain->file, window, count, pos) != STELE_OK ||
            !count_window(explain, window, pos, end)) {
            explain->is_segment_read = true; /* to its end, or to where it cannot be read */
            return;
        }
    }
}

/* Pins what is to be read next; an empty slice: all was. */
static enum stele_err pin_next(struct stele_log *log, struct stele_log_explain *explain)
{
    for (;;) {
        struct stele_segment *seg = log->segments[stele_log__floor(log, explain->scan_base)];
        if (explain->is_segment_read || seg->base_offset < explain->scan_base) { /* the next one */
            int at = stele_log__floor(log, explain->scan_base);
            at += log->segments[at]->base_offset <= explain->scan_base;
            if (at == log->segment_count)
                return STELE_OK;
            seg = log->segments[at];
        }
        if (seg->base_offset >= explain->in.log_end_offset)
            return STELE_OK;
        if (seg->base_offset != explain->scan_base)
            explain->scan_pos = 0;
        explain->scan_base = seg->base_offset;
        explain->is_segment_read = explain->scan_pos >= seg->bytes;
        if (explain->is_segment_read)
            continue;
        struct stele_segment_range range = {.pos = explain->scan_pos, .bytes = seg->bytes - explain->scan_pos};
        enum stele_err err = stele_log__pin_range(seg, &range, &explain->slice);
        if (err == STELE_OK)
            explain->file = stele_cached_file_send(explain->slice.file)->file;
        if (err == STELE_OK || err == STELE_NO_MEMORY)
            return err;
        explain->is_segment_read = true; /* its file cannot be opened */
    }
}

/* Histograms. */

struct named {
    const char *name;
    const struct stele_histogram *histogram;
};

static bool add_histogram(struct stele_log_explain *explain, struct stele_log_histogram *out, const struct named *named)
{
    size_t used = 0;
    for (int i = 0; i < STELE_HISTOGRAM_BUCKETS; i++)
        used += named->histogram->buckets[i] > 0;
    struct stele_histogram_bucket *buckets = stele_arena_array(explain->arena, used, sizeof(*buckets));
    if (buckets == NULL)
        return false;
    *out = (struct stele_log_histogram){.name = named->name,
                                        .count = named->histogram->count,
                                        .sum = named->histogram->sum,
                                        .max = named->histogram->max,
                                        .buckets = buckets,
                                        .bucket_count = used};
    for (int i = 0; i < STELE_HISTOGRAM_BUCKETS; i++) {
        if (named->histogram->buckets[i] > 0)
            *buckets++ =
                (struct stele_histogram_bucket){.up_to = i == STELE_HISTOGRAM_BUCKETS - 1 ? INT64_MAX : (int64_t)1 << i,
                                                .count = named->histogram->buckets[i]};
    }
    return true;
}

static enum stele_err add_histograms(struct stele_log_explain *explain)
{
    struct named named[5 + STELE_REASON_COUNT] = {{"record bytes", &explain->record_bytes},
                                                  {"batch bytes", &explain->batch_bytes},
                                                  {"batch records", &explain->batch_records},
                                                  {"segment bytes", &explain->segment_bytes},
                                                  {"index bytes", &explain->index_bytes}};
    size_t count = 5;
    for (int i = 0; i < STELE_REASON_COUNT; i++) {
        if (explain->rolls[i].count == 0)
            continue;
        char name[64];
        int bytes = snprintf(name, sizeof(name), "roll interval ms: %s", stele_reason_text((enum stele_reason)i));
        named[count].name = stele_arena_string(explain->arena, name, (size_t)bytes);
        if (named[count].name == NULL)
            return STELE_NO_MEMORY;
        named[count++].histogram = &explain->rolls[i];
    }
    struct stele_log_histogram *histograms = stele_arena_array(explain->arena, count, sizeof(*histograms));
    if (histograms == NULL)
        return STELE_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (!add_histogram(explain, &histograms[i], &named[i]))
            return STELE_NO_MEMORY;
    }
    explain->out->histograms = histograms;
    explain->out->histogram_count = count;
    return STELE_OK;
}

/* The steps. */

static enum stele_err begin(struct stele_log *log, struct stele_log_explain *explain)
{
    explain->env = log->env;
    explain->learned_base = -1;
    explain->scan_base = -1;
    explain->dir = stele_arena_string(explain->arena, log->dir, strlen(log->dir));
    if (explain->dir == NULL)
        return STELE_NO_MEMORY;
    explain->work = read_history;
    explain->phase = STELE_EXPLAIN_LEARNS;
    return STELE_OK;
}

static enum stele_err end(struct stele_log_explain *explain)
{
    if (explain->with_segments) {
        explain->out->segments = explain->segments;
        explain->out->segment_count = (size_t)explain->segment_count;
    } else {
        explain->out->damaged_count = 0;
        explain->out->event_count = 0;
    }
    return explain->with_stats ? add_histograms(explain) : STELE_OK;
}

/* What comes after the phase's work was done; `work` NULL: nothing more. */
static enum stele_err next(struct stele_log *log, struct stele_log_explain *explain)
{
    enum stele_err err = STELE_OK;
    explain->work = NULL;
    switch (explain->phase) {
    case STELE_EXPLAIN_BEGINS:
        fill_offsets(log, explain->out);
        return explain->with_segments || explain->with_stats ? begin(log, explain) : STELE_OK;
    case STELE_EXPLAIN_LEARNS:
        learn(log, explain);
        if (choose(log, explain)) {
            explain->work = warm;
            return STELE_OK;
        }
        explain->phase = STELE_EXPLAIN_TELLS;
        explain->work = tell;
        return summarize(log, explain);
    case STELE_EXPLAIN_TELLS:
        explain->phase = STELE_EXPLAIN_SCANS;
        __attribute__((fallthrough));
    case STELE_EXPLAIN_SCANS:
        if (explain->with_stats)
            err = pin_next(log, explain);
        explain->work = explain->slice.file != NULL ? scan : NULL;
        return err;
    case STELE_EXPLAIN_ENDS:
        return STELE_OK;
    }
    return STELE_OK;
}

enum stele_err stele_log_explain_step(struct stele_log *log, struct stele_log_explain *explain, bool *out_waits)
{
    enum stele_err err = explain->work_err;
    stele_slice_release(&explain->slice);
    if (err == STELE_OK && log->segment_count == 0) /* it failed while it began anew */
        err = STELE_OFFLINE;
    if (err == STELE_OK)
        err = next(log, explain);
    if (err == STELE_OK && explain->work == NULL) {
        explain->phase = STELE_EXPLAIN_ENDS;
        err = end(explain);
    }
    *out_waits = err == STELE_OK && explain->work != NULL;
    return err;
}

void stele_log_explain_work(struct stele_log_explain *explain)
{
    STELE_ASSERT(explain->work != NULL);
    explain->work(explain);
}

void stele_log_explain_drop(struct stele_log_explain *explain)
{
    stele_slice_release(&explain->slice);
}
