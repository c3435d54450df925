#include "base/test/support.h"
#include "storage/retention.h"

enum { SEGMENTS_MAX = 8 };

struct decide_case {
    const char *name;
    int64_t retention_bytes, retention_ms;
    bool cleanup_delete;
    int64_t log_start, high_watermark;
    int gone;
    enum stele_reason reason;
};

/* Four segments of 100 bytes at 0, 10, 20, 30; the end is 40; their times are 1000, 2000, 3000, 4000; now is 5000. */
static const struct decide_case cases[] = {
    {"nothing is due", -1, -1, true, 0, 40, 0, STELE_REASON_COUNT},
    {"start offset inside the first", -1, -1, true, 9, 40, 0, STELE_REASON_COUNT},
    {"start offset at the second", -1, -1, true, 10, 40, 1, STELE_REASON_LOG_START},
    {"start offset in the third", -1, -1, true, 25, 40, 2, STELE_REASON_LOG_START},
    {"start offset at the end spares the active one", -1, -1, true, 40, 40, 3, STELE_REASON_LOG_START},
    {"start offset without delete policy", 0, 0, false, 10, 40, 1, STELE_REASON_LOG_START},
    {"size is never below the limit", 301, -1, true, 0, 40, 0, STELE_REASON_COUNT},
    {"size at the limit", 300, -1, true, 0, 40, 1, STELE_REASON_RETENTION_SIZE},
    {"size well above", 199, -1, true, 0, 40, 2, STELE_REASON_RETENTION_SIZE},
    {"size 0 takes all", 0, -1, true, 0, 40, 4, STELE_REASON_RETENTION_SIZE},
    {"size behind the high watermark", 0, -1, true, 0, 29, 2, STELE_REASON_RETENTION_SIZE},
    {"time is strict", -1, 4000, true, 0, 40, 0, STELE_REASON_COUNT},
    {"time just over", -1, 3999, true, 0, 40, 1, STELE_REASON_RETENTION_TIME},
    {"time takes all", -1, 999, true, 0, 40, 4, STELE_REASON_RETENTION_TIME},
    {"time behind the high watermark", -1, 0, true, 0, 10, 1, STELE_REASON_RETENTION_TIME},
    {"high watermark inside the first", 0, 0, true, 0, 9, 0, STELE_REASON_COUNT},
};

/* Each rule and its edge (facts 6). */
static void test_rules(void **state)
{
    (void)state;
    static const struct stele_retention_segment segments[] = {
        {0, 100, 1000}, {10, 100, 2000}, {20, 100, 3000}, {30, 100, 4000}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        const struct decide_case *c = &cases[i];
        struct stele_log_config config;
        enum stele_reason reasons[4];
        stele_log_config_default(&config);
        config.retention_bytes = c->retention_bytes;
        config.retention_ms = c->retention_ms;
        config.cleanup_delete = c->cleanup_delete;
        struct stele_retention_in in = {&config, segments, 4, c->log_start, 40, c->high_watermark, 5000};
        int gone = stele_retention_decide(&in, reasons);
        if (gone != c->gone)
            print_error("%s\n", c->name);
        assert_int_equal(gone, c->gone);
        for (int at = 0; at < gone; at++)
            assert_int_equal(reasons[at], c->reason);
    }
}

/* The rules work one after another on what the one before left, and a future record holds back all that follow. */
static void test_order(void **state)
{
    (void)state;
    struct stele_retention_segment segments[] = {{0, 100, 9000}, {10, 100, 1000}, {20, 100, 1000}, {30, 0, 1000}};
    struct stele_log_config config;
    enum stele_reason reasons[4];
    stele_log_config_default(&config);
    config.retention_bytes = -1;
    config.retention_ms = 100;
    struct stele_retention_in in = {&config, segments, 4, 0, 30, 30, 5000};
    assert_int_equal(stele_retention_decide(&in, reasons), 0);
    in.log_start_offset = 10;
    assert_int_equal(stele_retention_decide(&in, reasons), 3); /* the empty last one stays */
    assert_int_equal(reasons[0], STELE_REASON_LOG_START);
    assert_int_equal(reasons[1], STELE_REASON_RETENTION_TIME);
    assert_int_equal(reasons[2], STELE_REASON_RETENTION_TIME);
    config.retention_bytes = 100;
    assert_int_equal(stele_retention_decide(&in, reasons), 3);
    assert_int_equal(reasons[1], STELE_REASON_RETENTION_SIZE);
    assert_int_equal(reasons[2], STELE_REASON_RETENTION_TIME);
    /* Extremes of time neither overflow nor delete. */
    segments[0].largest_timestamp = INT64_MAX;
    in.log_start_offset = 0;
    config.retention_bytes = -1;
    config.retention_ms = INT64_MAX;
    assert_int_equal(stele_retention_decide(&in, reasons), 0);
    in.wall_ms = -5;
    assert_int_equal(stele_retention_decide(&in, reasons), 0);
}

/* The rules as sentences: each segment is asked on its own, and the answer stops at the first that stays. */
static int model(const struct stele_retention_in *in)
{
    struct stele_retention_segment left[SEGMENTS_MAX];
    int count = in->count, gone = 0;
    for (int i = 0; i < count; i++)
        left[i] = in->segments[i];
    for (int rule = 0; rule < 3; rule++) {
        while (gone < count) {
            bool is_last = gone == count - 1;
            int64_t upper = is_last ? in->log_end_offset : left[gone + 1].base_offset, size = 0;
            for (int i = gone; i < count; i++)
                size += left[i].bytes;
            bool is_free = in->high_watermark >= upper && !(is_last && left[gone].bytes == 0);
            bool is_due =
                rule == 0                     ? !is_last && upper <= in->log_start_offset
                : !in->config->cleanup_delete ? false
                : rule == 1 ? in->config->retention_bytes >= 0 && size - left[gone].bytes >= in->config->retention_bytes
                            : in->config->retention_ms >= 0 &&
                                  in->wall_ms - left[gone].largest_timestamp > in->config->retention_ms;
            if (!is_free || !is_due)
                break;
            gone++;
        }
    }
    return gone;
}

/* The verdicts say the same as the decision, and of those that stay what the rules say. */
static void check_verdicts(const struct stele_retention_in *in, int gone, const enum stele_reason *reasons)
{
    struct stele_retention_verdict verdicts[SEGMENTS_MAX];
    stele_retention_judge(in, verdicts);
    for (int i = 0; i < in->count; i++) {
        bool is_last = i == in->count - 1;
        int64_t upper = is_last ? in->log_end_offset : in->segments[i + 1].base_offset;
        const struct stele_retention_verdict *verdict = &verdicts[i];
        assert_int_equal(verdict->keeper == STELE_KEPT_BY_NOTHING, i < gone);
        if (i < gone)
            assert_int_equal(verdict->reason, reasons[i]);
        else if (verdict->keeper == STELE_KEPT_BY_WATERMARK)
            assert_true(in->high_watermark < upper);
        else if (verdict->keeper == STELE_KEPT_BY_EMPTINESS)
            assert_true(is_last && in->segments[i].bytes == 0);
        else if (verdict->keeper == STELE_KEPT_BY_POLICY)
            assert_false(in->config->cleanup_delete);
        else if (verdict->keeper == STELE_KEPT_BY_LIMITS)
            assert_true(verdict->due_ms >= in->wall_ms && verdict->due_bytes > 0);
        else
            assert_true(i > gone && verdict->reason != STELE_REASON_COUNT);
    }
}

/* Random logs and limits: the answer is the model's. */
static void test_against_model(void **state)
{
    struct stele_prng prng;
    int most = 0, all = 0;
    (void)state;
    stele_prng_init(&prng, 11, 0);
    for (int round = 0; round < 50000; round++) {
        struct stele_retention_segment segments[SEGMENTS_MAX];
        enum stele_reason reasons[SEGMENTS_MAX];
        struct stele_log_config config;
        int count = 1 + (int)stele_prng_below(&prng, SEGMENTS_MAX);
        int64_t end = 0;
        for (int i = 0; i < count; i++) {
            bool is_empty = i == count - 1 && stele_prng_chance(&prng, 1, 3);
            segments[i] = (struct stele_retention_segment){end, is_empty ? 0 : stele_prng_range(&prng, 1, 50),
                                                           stele_prng_range(&prng, 0, 120)};
            end += is_empty ? 0 : stele_prng_range(&prng, 1, 10);
        }
        stele_log_config_default(&config);
        config.cleanup_delete = stele_prng_chance(&prng, 3, 4);
        config.retention_bytes = stele_prng_range(&prng, -1, 200);
        config.retention_ms = stele_prng_range(&prng, -1, 100);
        int64_t high_watermark = stele_prng_chance(&prng, 1, 2) ? end : stele_prng_range(&prng, 0, end);
        struct stele_retention_in in = {&config, segments,       count, stele_prng_range(&prng, 0, high_watermark),
                                        end,     high_watermark, 100};
        int gone = stele_retention_decide(&in, reasons);
        assert_int_equal(gone, model(&in));
        check_verdicts(&in, gone, reasons);
        most += gone > 1;
        all += gone == count;
    }
    assert_true(most > 1000 && all > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_against_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
