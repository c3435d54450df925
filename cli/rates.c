#include "cli/rates.h"

#include "base/types.h"
#include "cli/format.h"
#include "storage/history.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *topic_name, *node_name;
    const char *because; /* a segment was rolled */
} settings[STELE_RATES_KINDS] = {
    [STELE_RATES_BY_SIZE] = {"segment.bytes", "log.segment.bytes", "they were full"},
    [STELE_RATES_BY_TIME] = {"segment.ms", "log.roll.ms", "of their age"},
    [STELE_RATES_BY_INDEX] = {"segment.index.bytes", "log.index.size.max.bytes", "an index was full"},
};

/* STELE_RATES_KINDS: for another reason. */
static enum stele_rates_kind kind_of_reason(const char *reason)
{
    static const struct {
        enum stele_reason reason;
        enum stele_rates_kind kind;
    } kinds[] = {
        {STELE_REASON_SIZE, STELE_RATES_BY_SIZE},
        {STELE_REASON_TIME, STELE_RATES_BY_TIME},
        {STELE_REASON_OFFSET_INDEX_FULL, STELE_RATES_BY_INDEX},
        {STELE_REASON_TIME_INDEX_FULL, STELE_RATES_BY_INDEX},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(kinds); i++) {
        if (strcmp(reason, stele_reason_text(kinds[i].reason)) == 0)
            return kinds[i].kind;
    }
    return STELE_RATES_KINDS;
}

static void see_interval(struct stele_rates *rates, enum stele_rates_kind kind, int32_t partition, int64_t every_ms)
{
    every_ms = stele_max_i64(every_ms, 1);
    if (rates->rolls[kind].every_ms != 0 && rates->rolls[kind].every_ms <= every_ms)
        return;
    rates->rolls[kind].partition = partition;
    rates->rolls[kind].every_ms = every_ms;
}

/* The latest rolls for each reason; between two of them may lie others. */
static void take_rolls(struct stele_rates *rates, const struct stele_log_description *log)
{
    int64_t first_ms[STELE_RATES_KINDS] = {0}, last_ms[STELE_RATES_KINDS] = {0};
    int count[STELE_RATES_KINDS] = {0}, seen = 0;
    for (size_t i = log->event_count; i-- > 0 && seen < STELE_RATES_ROLLS_MAX;) {
        const struct stele_event_description *event = log->events[i];
        if (strcmp(event->kind, stele_history_kind_name(STELE_HISTORY_ROLL)) != 0)
            continue;
        enum stele_rates_kind kind = kind_of_reason(event->reason);
        seen++;
        if (kind == STELE_RATES_KINDS)
            continue;
        if (count[kind]++ == 0)
            last_ms[kind] = event->time_ms;
        first_ms[kind] = event->time_ms;
    }
    for (enum stele_rates_kind kind = 0; kind < STELE_RATES_KINDS; kind++) {
        if (count[kind] >= STELE_RATES_ROLLS_MIN && rates->now_ms - last_ms[kind] <= STELE_RATES_ROLL_MS)
            see_interval(rates, kind, log->partition, (last_ms[kind] - first_ms[kind]) / (count[kind] - 1));
    }
}

static void take_appends(struct stele_rates *rates, const struct stele_log_description *log)
{
    if (log->appended_ms < STELE_RATES_APPENDED_MS || log->bytes_appended <= 0)
        return;
    double bytes_a_ms = (double)log->bytes_appended / (double)log->appended_ms;
    double fill_ms = (double)rates->segment_bytes / bytes_a_ms;
    if (fill_ms > 1e15 || (rates->fill_ms != 0 && fill_ms >= (double)rates->fill_ms))
        return;
    rates->fill_ms = stele_max_i64((int64_t)fill_ms, 1);
    rates->fill_partition = log->partition;
    rates->bytes_a_second = bytes_a_ms * 1000;
}

static void take_indexes(struct stele_rates *rates, const struct stele_log_description *log)
{
    int64_t log_bytes = 0, offset_bytes = 0, time_bytes = 0;
    for (size_t i = 0; i < log->segment_count; i++) {
        log_bytes += log->segments[i]->bytes;
        offset_bytes += log->segments[i]->offset_index_bytes;
        time_bytes += log->segments[i]->time_index_bytes;
    }
    double index_bytes = (double)stele_max_i64(offset_bytes, time_bytes);
    if (log_bytes < STELE_RATES_LOG_BYTES_MIN)
        return;
    double full_bytes = index_bytes == 0 ? 1e18 : (double)log_bytes * (double)rates->index_bytes / index_bytes;
    if (rates->is_index_measured && full_bytes >= (double)rates->index_full_bytes)
        return;
    rates->is_index_measured = true;
    rates->index_partition = log->partition;
    rates->index_full_bytes = full_bytes < 1e18 ? (int64_t)full_bytes : INT64_MAX;
}

void stele_rates_take_log(struct stele_rates *rates, const struct stele_log_description *log)
{
    if (log->code != 0)
        return;
    (void)snprintf(rates->topic, sizeof(rates->topic), "%s", log->topic);
    take_rolls(rates, log);
    take_appends(rates, log);
    take_indexes(rates, log);
}

static int64_t metric(const struct stele_node_description *node, const char *name)
{
    for (size_t i = 0; i < node->metric_count; i++) {
        if (strcmp(node->metrics[i]->name, name) == 0)
            return node->metrics[i]->value;
    }
    return 0;
}

void stele_rates_take_node(struct stele_rates *rates, const struct stele_node_description *node)
{
    const int64_t rolls[STELE_RATES_KINDS] = {
        [STELE_RATES_BY_SIZE] = metric(node, "stele_log_rolls_size_total"),
        [STELE_RATES_BY_TIME] = metric(node, "stele_log_rolls_time_total"),
        [STELE_RATES_BY_INDEX] = metric(node, "stele_log_rolls_index_total"),
    };
    int64_t partitions = stele_max_i64(node->partition_count, 1);
    for (enum stele_rates_kind kind = 0; kind < STELE_RATES_KINDS; kind++) {
        if (rolls[kind] >= STELE_RATES_ROLLS_MIN * partitions)
            see_interval(rates, kind, -1, node->uptime_ms / (rolls[kind] / partitions));
        rates->rolls_total += rolls[kind];
    }
    rates->rolls_index = rolls[STELE_RATES_BY_INDEX];
}

static bool say_index(const struct stele_rates *rates, char out_text[STELE_RATES_TEXT_BYTES])
{
    char full[STELE_FORMAT_BYTES], whole[STELE_FORMAT_BYTES];
    if (rates->topic[0] == 0 && rates->rolls_index >= STELE_RATES_ROLLS_MIN) {
        (void)snprintf(out_text, STELE_RATES_TEXT_BYTES,
                       "%lld of the %lld rolls since the start were because an index was full before its segment: "
                       "raise it or log.index.interval.bytes",
                       (long long)rates->rolls_index, (long long)rates->rolls_total);
        return true;
    }
    if (!rates->is_index_measured)
        return false;
    if (rates->index_full_bytes >= rates->segment_bytes)
        return true;
    stele_format_size(rates->index_full_bytes, full);
    stele_format_size(rates->segment_bytes, whole);
    (void)snprintf(out_text, STELE_RATES_TEXT_BYTES,
                   "as measured in %s/%d an index is full after %s of log, before the segment (segment.bytes: %s), "
                   "which rolls early: raise it or index.interval.bytes",
                   rates->topic, rates->index_partition, full, whole);
    return true;
}

static void say_rolls(const struct stele_rates *rates, enum stele_rates_kind kind,
                      char out_text[STELE_RATES_TEXT_BYTES])
{
    char every[STELE_FORMAT_BYTES], limit[STELE_FORMAT_BYTES], where[sizeof(rates->topic) + 32];
    stele_format_span(rates->rolls[kind].every_ms * 1000, every);
    stele_format_span(STELE_RATES_ROLL_MS * INT64_C(1000), limit);
    (void)snprintf(where, sizeof(where), "%s/%d rolls", rates->topic, rates->rolls[kind].partition);
    (void)snprintf(
        out_text, STELE_RATES_TEXT_BYTES, "%s segments every %s because %s, more often than every %s: raise it%s",
        rates->topic[0] == 0 ? "on the average a partition has rolled" : where, every, settings[kind].because, limit,
        kind != STELE_RATES_BY_INDEX ? ""
        : rates->topic[0] == 0       ? " or log.index.interval.bytes"
                                     : " or index.interval.bytes");
}

static void say_fill(const struct stele_rates *rates, char out_text[STELE_RATES_TEXT_BYTES])
{
    char every[STELE_FORMAT_BYTES], limit[STELE_FORMAT_BYTES], rate[STELE_FORMAT_BYTES];
    stele_format_span(rates->fill_ms * 1000, every);
    stele_format_span(STELE_RATES_ROLL_MS * INT64_C(1000), limit);
    stele_format_size((int64_t)rates->bytes_a_second, rate);
    (void)snprintf(out_text, STELE_RATES_TEXT_BYTES,
                   "%s/%d grows by %s a second, which fills a segment every %s, more often than every %s: raise it",
                   rates->topic, rates->fill_partition, rate, every, limit);
}

static enum stele_rates_kind kind_of_setting(const char *setting)
{
    enum stele_rates_kind kind = 0;
    while (kind < STELE_RATES_KINDS && strcmp(setting, settings[kind].topic_name) != 0 &&
           strcmp(setting, settings[kind].node_name) != 0)
        kind++;
    return kind;
}

bool stele_rates_tell_of(const char *setting)
{
    return kind_of_setting(setting) != STELE_RATES_KINDS;
}

bool stele_rates_warning(const struct stele_rates *rates, const char *setting, char out_text[STELE_RATES_TEXT_BYTES])
{
    enum stele_rates_kind kind = kind_of_setting(setting);
    out_text[0] = 0;
    if (kind == STELE_RATES_KINDS)
        return false;
    if (kind == STELE_RATES_BY_INDEX && say_index(rates, out_text) && out_text[0] != 0)
        return true;
    int64_t every_ms = rates->rolls[kind].every_ms;
    if (every_ms != 0 && every_ms < STELE_RATES_ROLL_MS)
        say_rolls(rates, kind, out_text);
    else if (kind == STELE_RATES_BY_SIZE && rates->fill_ms != 0 && rates->fill_ms < STELE_RATES_ROLL_MS)
        say_fill(rates, out_text);
    return out_text[0] != 0 || (kind == STELE_RATES_BY_INDEX && rates->is_index_measured);
}
