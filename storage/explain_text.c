/* The sentences, and when a segment will go by the limits and rates of now. */
#include "storage/explain.h"

#include <stdio.h>
#include <string.h>

enum { SENTENCE_BYTES = 384, DAY_MS = 86400000 };

/* Days since 1970-01-01 to a date, by eras of 400 years that begin on the first of March. */
static void date_of(int64_t days, int64_t *out_year, int *out_month, int *out_day)
{
    const int64_t era_days = 146097;
    int64_t shifted = days + 719468; /* since 0000-03-01 */
    int64_t era = (shifted >= 0 ? shifted : shifted - era_days + 1) / era_days;
    int64_t of_era = shifted - era * era_days;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0: March */
    *out_day = (int)(of_year - (153 * month + 2) / 5 + 1);
    *out_month = (int)(month < 10 ? month + 3 : month - 9);
    *out_year = year + era * 400 + (*out_month <= 2);
}

void stele_explain__time_text(int64_t wall_ms, char out_text[STELE_TIME_TEXT_BYTES])
{
    int64_t days = (wall_ms >= 0 ? wall_ms : wall_ms - DAY_MS + 1) / DAY_MS, year = 0;
    int64_t ms = wall_ms - days * DAY_MS;
    int month = 0, day = 0;
    const int64_t far_days = 2932896; /* 9999-12-31: no log lives as long */
    date_of(stele_max_i64(stele_min_i64(days, far_days), -far_days), &year, &month, &day);
    (void)snprintf(out_text, STELE_TIME_TEXT_BYTES, "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ", (long long)year, month,
                   day, (int)(ms / 3600000), (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), (int)(ms % 1000));
}

static int64_t saturated_add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* When the log will have grown by so many bytes; INT64_MAX when it does not grow. */
static int64_t grown_at(const struct stele_log_explain *explain, int64_t bytes)
{
    const struct stele_described_log *out = explain->out;
    if (bytes == INT64_MAX || out->bytes_appended <= 0 || out->appended_ms <= 0)
        return bytes == 0 ? explain->wall_ms : INT64_MAX;
    double ms = (double)bytes * (double)out->appended_ms / (double)out->bytes_appended;
    return ms > 3e15 ? INT64_MAX : saturated_add(explain->wall_ms, (int64_t)ms);
}

/* The active segment first rolls; while it does not its largest timestamp moves on. */
static int64_t active_goes_at(const struct stele_log_explain *explain, const struct stele_retention_verdict *verdict)
{
    const struct stele_log_config *config = &explain->config;
    const struct stele_described_segment *active = &explain->segments[explain->segment_count - 1];
    int64_t size_ms = INT64_MAX, time_ms = verdict->due_ms;
    int64_t full_bytes = stele_max_i64(config->segment_bytes - active->bytes, 0);
    if (config->retention_bytes >= 0)
        size_ms = grown_at(explain, saturated_add(full_bytes, config->retention_bytes));
    if (explain->out->bytes_appended > 0 && config->retention_ms >= 0) {
        int64_t first_ms = active->first_timestamp >= 0 ? active->first_timestamp : explain->wall_ms;
        int64_t roll_ms = stele_min_i64(grown_at(explain, full_bytes), saturated_add(first_ms, config->segment_ms));
        time_ms = stele_max_i64(time_ms, saturated_add(roll_ms, config->retention_ms));
    }
    return stele_min_i64(size_ms, time_ms);
}

static int64_t goes_at(const struct stele_log_explain *explain, int at, const struct stele_retention_verdict *verdict)
{
    if (verdict->keeper == STELE_KEPT_BY_EMPTINESS || verdict->keeper == STELE_KEPT_BY_POLICY)
        return INT64_MAX;
    if (verdict->reason != STELE_REASON_COUNT)
        return explain->wall_ms;
    if (at == explain->in.count - 1)
        return active_goes_at(explain, verdict);
    return stele_min_i64(verdict->due_ms, grown_at(explain, verdict->due_bytes));
}

static int limits_text(const struct stele_log_explain *explain, int at, const struct stele_retention_verdict *verdict,
                       char out_text[SENTENCE_BYTES])
{
    const struct stele_log_config *config = &explain->config;
    char until[STELE_TIME_TEXT_BYTES], bytes[64] = "";
    bool is_future = explain->in.segments[at].largest_timestamp > explain->wall_ms;
    if (config->retention_bytes >= 0)
        (void)snprintf(bytes, sizeof(bytes), "retention.bytes with %lld bytes to go", (long long)verdict->due_bytes);
    if (config->retention_ms < 0)
        return snprintf(out_text, SENTENCE_BYTES, "%s",
                        bytes[0] != 0 ? bytes : "retention.ms and retention.bytes, which have no limit");
    stele_explain__time_text(verdict->due_ms, until);
    return snprintf(out_text, SENTENCE_BYTES, "retention.ms until %s%s%s%s",
                    verdict->due_ms == INT64_MAX ? "the end of time" : until,
                    is_future ? " (its largest timestamp lies in the future)" : "", bytes[0] != 0 ? ", " : "", bytes);
}

static int kept_text(const struct stele_log_explain *explain, int at, const struct stele_retention_verdict *verdict,
                     int64_t stayer, char out_text[SENTENCE_BYTES])
{
    switch (verdict->keeper) {
    case STELE_KEPT_BY_NOTHING:
        return snprintf(out_text, SENTENCE_BYTES, "nothing: it goes at the next look (%s)",
                        stele_reason_text(verdict->reason));
    case STELE_KEPT_BY_WATERMARK:
        return snprintf(out_text, SENTENCE_BYTES, "the high watermark %lld, which has not passed its end",
                        (long long)explain->in.high_watermark);
    case STELE_KEPT_BY_EMPTINESS:
        return snprintf(out_text, SENTENCE_BYTES, "it is empty");
    case STELE_KEPT_BY_POLICY:
        return snprintf(out_text, SENTENCE_BYTES, "cleanup.policy, which does not say delete");
    case STELE_KEPT_BY_LIMITS:
        return limits_text(explain, at, verdict, out_text);
    case STELE_KEPT_BY_OLDER:
        return snprintf(out_text, SENTENCE_BYTES, "the older segment %lld, which stays (here: %s)", (long long)stayer,
                        stele_reason_text(verdict->reason));
    }
    return 0;
}

static bool set_text(struct stele_log_explain *explain, const char **out, const char *text)
{
    *out = stele_arena_string(explain->arena, text, strlen(text));
    return *out != NULL;
}

static enum stele_err tell_kept(struct stele_log_explain *explain)
{
    struct stele_retention_verdict *verdicts =
        stele_arena_array(explain->arena, (size_t)explain->in.count, sizeof(*verdicts));
    int64_t before_ms = explain->wall_ms, stayer = -1;
    if (verdicts == NULL)
        return STELE_NO_MEMORY;
    stele_retention_judge(&explain->in, verdicts);
    for (int i = 0; i < explain->in.count; i++) {
        struct stele_described_segment *seg = &explain->segments[explain->deleted_count + i];
        char text[SENTENCE_BYTES];
        bool is_last = i == explain->in.count - 1;
        int used = is_last ? snprintf(text, sizeof(text), "active; ") : 0;
        char rest[SENTENCE_BYTES];
        if (stayer < 0 && verdicts[i].keeper != STELE_KEPT_BY_NOTHING)
            stayer = seg->base_offset;
        (void)kept_text(explain, i, &verdicts[i], stayer, rest);
        (void)snprintf(text + used, sizeof(text) - (size_t)used, "%.*s", SENTENCE_BYTES - 1 - used, rest);
        if (!set_text(explain, &seg->kept_because, text))
            return STELE_NO_MEMORY;
        /* The oldest goes first. */
        before_ms = stele_max_i64(before_ms, goes_at(explain, i, &verdicts[i]));
        seg->delete_at_ms = before_ms == INT64_MAX ? -1 : before_ms;
    }
    for (int i = 0; i < explain->deleted_count; i++) {
        char until[STELE_TIME_TEXT_BYTES], text[SENTENCE_BYTES];
        stele_explain__time_text(explain->segments[i].delete_at_ms, until);
        (void)snprintf(text, sizeof(text), "deleted; file.delete.delay.ms until %s", until);
        if (!set_text(explain, &explain->segments[i].kept_because, text))
            return STELE_NO_MEMORY;
    }
    return STELE_OK;
}

/* A segment was rolled when the one after it began. The last such event tells: there may have been a truncation and
 * another roll at the same offset. */
static void tell_rolled(struct stele_log_explain *explain)
{
    for (int i = 0; i < explain->in.count - 1; i++)
        explain->segments[explain->deleted_count + i].rolled_because = "not told by the history";
    for (int k = 0; k < explain->history_count; k++) {
        const struct stele_history_event *event = &explain->history[k];
        if (event->kind != STELE_HISTORY_ROLL)
            continue;
        int low = 0, high = explain->in.count;
        while (low < high) { /* the first whose base is >= the new one's */
            int middle = low + (high - low) / 2;
            if (explain->judged[middle].base_offset < event->offset)
                low = middle + 1;
            else
                high = middle;
        }
        if (low > 0 && low < explain->in.count && explain->judged[low].base_offset == event->offset)
            explain->segments[explain->deleted_count + low - 1].rolled_because = stele_reason_text(event->reason);
    }
}

static enum stele_err tell_events(struct stele_log_explain *explain)
{
    struct stele_log_event *events = stele_arena_array(explain->arena, (size_t)explain->history_count, sizeof(*events));
    int64_t last_roll_ms = -1;
    if (events == NULL)
        return STELE_NO_MEMORY;
    for (int i = 0; i < explain->history_count; i++) {
        const struct stele_history_event *event = &explain->history[i];
        events[i] = (struct stele_log_event){.time_ms = event->wall_ms,
                                             .kind = stele_history_kind_name(event->kind),
                                             .offset = event->offset,
                                             .bytes = event->bytes,
                                             .reason = stele_reason_text(event->reason)};
        if (event->kind != STELE_HISTORY_ROLL)
            continue;
        if (last_roll_ms >= 0 && event->wall_ms >= last_roll_ms)
            stele_histogram_add(&explain->rolls[event->reason], event->wall_ms - last_roll_ms, 1);
        last_roll_ms = event->wall_ms;
    }
    explain->out->events = events;
    explain->out->event_count = (size_t)explain->history_count;
    return STELE_OK;
}

/* The size of an index that no memory knows; 0 when there is none. */
static int64_t file_bytes(const struct stele_log_explain *explain, int64_t base_offset, const char *suffix)
{
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    struct stele_stat stat;
    stele_segment_name(base_offset, suffix, name);
    if (stele_path_join(path, explain->dir, name) != STELE_OK ||
        explain->env->vfs->ops->stat(explain->env->vfs, path, &stat) != STELE_OK)
        return 0;
    return stat.bytes;
}

static void measure_indexes(struct stele_log_explain *explain)
{
    for (int i = explain->deleted_count; i < explain->segment_count; i++) {
        struct stele_described_segment *seg = &explain->segments[i];
        if (seg->offset_index_bytes < 0)
            seg->offset_index_bytes = file_bytes(explain, seg->base_offset, ".index");
        if (seg->time_index_bytes < 0)
            seg->time_index_bytes = file_bytes(explain, seg->base_offset, ".timeindex");
        if (seg->txn_index_bytes < 0)
            seg->txn_index_bytes = file_bytes(explain, seg->base_offset, ".txnindex");
        stele_histogram_add(&explain->segment_bytes, seg->bytes, 1);
        stele_histogram_add(&explain->index_bytes,
                            seg->offset_index_bytes + seg->time_index_bytes + seg->txn_index_bytes, 1);
    }
}

enum stele_err stele_explain__tell(struct stele_log_explain *explain)
{
    enum stele_err err = tell_kept(explain);
    if (err != STELE_OK)
        return err;
    tell_rolled(explain);
    measure_indexes(explain);
    return tell_events(explain);
}
