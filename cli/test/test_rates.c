#include "base/test/support.h"
#include "cli/rates.h"
#include "storage/history.h"

#include <stdio.h>
#include <string.h>

#define NOW_MS INT64_C(1800000000000)

enum { EVENTS_MAX = 40 };

/* A log that rolled `count` times for a reason, `every_ms`, the last time `ago_ms` ago. */
struct made {
    struct stele_event_description events[EVENTS_MAX];
    const struct stele_event_description *list[EVENTS_MAX];
    struct stele_segment_description segment;
    const struct stele_segment_description *segments[1];
    struct stele_log_description log;
};

static void make(struct made *made, int32_t partition)
{
    *made = (struct made){.log = {.topic = "orders", .partition = partition, .text = ""}};
    made->log.events = made->list;
    made->segments[0] = &made->segment;
    made->log.segments = made->segments;
}

static void add_rolls(struct made *made, const char *kind, enum stele_reason reason, int count, int64_t every_ms,
                      int64_t ago_ms)
{
    for (int i = 0; i < count; i++) {
        size_t at = made->log.event_count++;
        made->events[at] = (struct stele_event_description){
            .time_ms = NOW_MS - ago_ms - (count - 1 - i) * every_ms, .kind = kind, .reason = stele_reason_text(reason)};
        made->list[at] = &made->events[at];
    }
}

static struct stele_rates topic_rates(void)
{
    return (struct stele_rates){.segment_bytes = 100 << 20, .index_bytes = 1 << 20, .now_ms = NOW_MS};
}

/* Rolls tell from three on, when they are recent, and only of the setting that they are due to. */
static void test_rolls(void **state)
{
    static const struct {
        const char *kind;
        enum stele_reason reason;
        int count;
        int64_t every_ms, ago_ms;
        const char *setting, *text; /* "": nothing to say */
    } cases[] = {
        {"roll", STELE_REASON_SIZE, 3, 12000, 1000, "segment.bytes",
         "orders/4 rolls segments every 12.0 s because they were full, more often than every 10 min: raise it"},
        {"roll", STELE_REASON_SIZE, 30, 599000, 600000, "segment.bytes",
         "orders/4 rolls segments every 9 min 59 s because they were full, more often than every 10 min: raise it"},
        {"roll", STELE_REASON_SIZE, 10, 600000, 1000, "segment.bytes", ""},
        {"roll", STELE_REASON_SIZE, 2, 12000, 1000, "segment.bytes", ""},
        {"roll", STELE_REASON_SIZE, 10, 12000, 600001, "segment.bytes", ""},
        {"roll", STELE_REASON_SIZE, 10, 12000, 0, "segment.ms", ""},
        {"roll", STELE_REASON_SIZE, 10, 12000, 0, "segment.index.bytes", ""},
        {"roll", STELE_REASON_SIZE, 10, 0, 0, "segment.bytes",
         "orders/4 rolls segments every 1.00 ms because they were full, more often than every 10 min: raise it"},
        {"roll", STELE_REASON_TIME, 5, 60000, 0, "segment.ms",
         "orders/4 rolls segments every 1 min because of their age, more often than every 10 min: raise it"},
        {"roll", STELE_REASON_OFFSET_INDEX_FULL, 5, 60000, 0, "segment.index.bytes",
         "orders/4 rolls segments every 1 min because an index was full, more often than every 10 min: raise it or "
         "index.interval.bytes"},
        {"roll", STELE_REASON_TIME_INDEX_FULL, 5, 60000, 0, "segment.index.bytes",
         "orders/4 rolls segments every 1 min because an index was full, more often than every 10 min: raise it or "
         "index.interval.bytes"},
        {"roll", STELE_REASON_RETENTION_ALL, 10, 1000, 0, "segment.bytes", ""},
        {"delete", STELE_REASON_SIZE, 10, 1000, 0, "segment.bytes", ""},
        {"roll", STELE_REASON_SIZE, 10, 1000, 0, "retention.ms", ""},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_rates rates = topic_rates();
        struct made made;
        char text[STELE_RATES_TEXT_BYTES];
        make(&made, 4);
        add_rolls(&made, cases[i].kind, cases[i].reason, cases[i].count, cases[i].every_ms, cases[i].ago_ms);
        stele_rates_take_log(&rates, &made.log);
        assert_int_equal(stele_rates_warning(&rates, cases[i].setting, text), cases[i].text[0] != 0);
        assert_string_equal(text, cases[i].text);
    }
}

/* Of several partitions the worst is named, and what has a code is passed over. */
static void test_worst(void **state)
{
    static const int64_t every_ms[] = {300000, 20000, 90000};
    struct stele_rates rates = topic_rates();
    char text[STELE_RATES_TEXT_BYTES];
    struct made made;
    (void)state;
    for (int i = 0; i < 3; i++) {
        make(&made, i);
        add_rolls(&made, "roll", STELE_REASON_SIZE, 5, every_ms[i], 0);
        stele_rates_take_log(&rates, &made.log);
    }
    make(&made, 7);
    add_rolls(&made, "roll", STELE_REASON_SIZE, 5, 1, 0);
    made.log.code = 3;
    stele_rates_take_log(&rates, &made.log);
    assert_true(stele_rates_warning(&rates, "segment.bytes", text));
    assert_non_null(strstr(text, "orders/1 rolls segments every 20.0 s "));
}

/* Appending tells from a minute on how soon a segment is full, before one was rolled. */
static void test_appends(void **state)
{
    static const struct {
        int64_t bytes, ms;
        const char *text;
    } cases[] = {
        {60 << 20, 60000,
         "orders/2 grows by 1.00 MiB a second, which fills a segment every 1 min 40 s, more often than every 10 min: "
         "raise it"},
        {10 << 20, 60000, ""}, /* exactly ten minutes */
        {60 << 20, 59999, ""},
        {0, 3600000, ""},
        {INT64_C(1) << 62, 60000,
         "orders/2 grows by 68.3 PiB a second, which fills a segment every 1.00 ms, more often than every 10 min: "
         "raise it"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_rates rates = topic_rates();
        struct made made;
        char text[STELE_RATES_TEXT_BYTES];
        make(&made, 2);
        made.log.bytes_appended = cases[i].bytes;
        made.log.appended_ms = cases[i].ms;
        stele_rates_take_log(&rates, &made.log);
        assert_int_equal(stele_rates_warning(&rates, "segment.bytes", text), cases[i].text[0] != 0);
        assert_string_equal(text, cases[i].text);
    }
}

/* The larger of the two indexes tells how much log an index has room for; with too little log nothing is said, and
 * with enough of it also that all is well. */
static void test_indexes(void **state)
{
    static const struct {
        int64_t log_bytes, offset_bytes, time_bytes;
        bool is_measured;
        const char *text;
    } cases[] = {
        {50 << 20, 1 << 20, 4096, true,
         "as measured in orders/3 an index is full after 50.0 MiB of log, before the segment (segment.bytes: 100 MiB), "
         "which rolls early: raise it or index.interval.bytes"},
        {50 << 20, 4096, 2 << 20, true,
         "as measured in orders/3 an index is full after 25.0 MiB of log, before the segment (segment.bytes: 100 MiB), "
         "which rolls early: raise it or index.interval.bytes"},
        {100 << 20, 1 << 20, 1 << 20, true, ""},
        {100 << 20, 0, 0, true, ""},
        {(1 << 20) - 1, 1 << 20, 0, false, ""},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_rates rates = topic_rates();
        struct made made;
        char text[STELE_RATES_TEXT_BYTES];
        make(&made, 3);
        made.log.segment_count = 1;
        made.segment = (struct stele_segment_description){.bytes = cases[i].log_bytes,
                                                          .offset_index_bytes = cases[i].offset_bytes,
                                                          .time_index_bytes = cases[i].time_bytes};
        stele_rates_take_log(&rates, &made.log);
        assert_int_equal(stele_rates_warning(&rates, "segment.index.bytes", text), cases[i].is_measured);
        assert_string_equal(text, cases[i].text);
    }
}

/* A node tells of its own settings, by averages over its partitions. */
static void test_node(void **state)
{
    static const struct {
        int64_t by_size, by_time, by_index;
        const char *setting, *text;
    } cases[] = {
        {30, 0, 0, "log.segment.bytes",
         "on the average a partition has rolled segments every 6 min because they were full, more often than every 10 "
         "min: raise it"},
        {29, 0, 0, "log.segment.bytes", ""}, /* fewer than three a partition */
        {0, 40, 0, "log.roll.ms",
         "on the average a partition has rolled segments every 4 min 30 s because of their age, more often than every "
         "10 min: raise it"},
        {7, 0, 3, "log.index.size.max.bytes",
         "3 of the 10 rolls since the start were because an index was full before its segment: raise it or "
         "log.index.interval.bytes"},
        {7, 0, 2, "log.index.size.max.bytes", ""},
        {7, 0, 3, "log.segment.bytes", ""},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        const struct stele_metric_description metrics[] = {{"stele_log_rolls_size_total", cases[i].by_size},
                                                           {"stele_log_rolls_time_total", cases[i].by_time},
                                                           {"stele_log_rolls_index_total", cases[i].by_index}};
        const struct stele_metric_description *list[] = {&metrics[0], &metrics[1], &metrics[2]};
        const struct stele_node_description node = {
            .uptime_ms = 18 * 60000, .partition_count = 10, .metric_count = 3, .metrics = list};
        struct stele_rates rates = {.now_ms = NOW_MS};
        char text[STELE_RATES_TEXT_BYTES];
        stele_rates_take_node(&rates, &node);
        assert_int_equal(stele_rates_warning(&rates, cases[i].setting, text), cases[i].text[0] != 0);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rolls),   cmocka_unit_test(test_worst), cmocka_unit_test(test_appends),
        cmocka_unit_test(test_indexes), cmocka_unit_test(test_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
