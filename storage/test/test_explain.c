/* What a log tells of itself, against what retention then does, what was appended, and what goes wrong meanwhile. */
#include "storage/test/log_world.h"

#include "storage/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct told {
    struct stele_arena arena;
    struct stele_described_log log;
    struct stele_log_explain explain;
};

static void tell_begin(struct log_world *w, struct told *told, bool with_stats)
{
    memset(told, 0, sizeof(*told));
    stele_arena_init(&told->arena, w->test.env.mem, STELE_MEM_REQUEST, 0);
    told->explain = (struct stele_log_explain){
        .arena = &told->arena, .with_segments = true, .with_stats = with_stats, .out = &told->log};
}

static enum stele_err tell_to_end(struct log_world *w, struct told *told)
{
    bool waits = true;
    enum stele_err err = STELE_OK;
    while (err == STELE_OK) {
        err = stele_log_explain_step(w->log, &told->explain, &waits);
        if (err != STELE_OK || !waits)
            break;
        stele_log_explain_work(&told->explain);
    }
    return err;
}

static void tell(struct log_world *w, struct told *told)
{
    tell_begin(w, told, true);
    assert_ok(tell_to_end(w, told));
}

static void tell_end(struct told *told)
{
    stele_log_explain_drop(&told->explain);
    stele_arena_deinit(&told->arena);
}

static void configure(struct log_world *w, int64_t bytes, int64_t ms, bool deletes)
{
    struct stele_log_config config = w->open.config;
    config.retention_bytes = bytes;
    config.retention_ms = ms;
    config.cleanup_delete = deletes;
    stele_log_set_config(w->log, &config);
}

static const struct stele_described_segment *segment(const struct told *told, size_t at)
{
    assert_true(at < told->log.segment_count);
    return &told->log.segments[at];
}

static void expect(const struct told *told, size_t at, const char *kept, int64_t delete_at_ms)
{
    const struct stele_described_segment *seg = segment(told, at);
    if (strcmp(seg->kept_because, kept) != 0 || seg->delete_at_ms != delete_at_ms)
        fail_msg("segment %d is kept by \"%s\" until %lld, not by \"%s\" until %lld", (int)at, seg->kept_because,
                 (long long)seg->delete_at_ms, kept, (long long)delete_at_ms);
}

/* The segments 0, 7, 14 and 21 of a log: ranges, times, sizes, why they rolled. */
static void test_segments(void **state)
{
    struct log_world *w = *state;
    struct told told;
    world_fill(w, 22);
    tell(w, &told);
    assert_int_equal(told.log.segment_count, 4);
    assert_int_equal(told.log.segment_total, 4);
    assert_int_equal(told.log.log_end_offset, 22);
    assert_int_equal(told.log.recovery_point, 22);
    assert_int_equal(told.log.bytes_appended, told.log.bytes);
    int64_t bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        const struct stele_described_segment *seg = segment(&told, i);
        assert_int_equal(seg->base_offset, 7 * i);
        assert_int_equal(seg->next_offset, i == 3 ? 22 : 7 * i + 7);
        assert_int_equal(seg->first_timestamp, WORLD_TIME + seg->base_offset);
        assert_int_equal(seg->largest_timestamp, WORLD_TIME + seg->next_offset - 1);
        assert_int_equal(seg->bytes, world_size(w, world_file(seg->base_offset, ".log")));
        assert_string_equal(seg->rolled_because, i == 3 ? "" : "segment.bytes reached");
        if (i < 3) {
            assert_int_equal(seg->offset_index_bytes, world_size(w, world_file(seg->base_offset, ".index")));
            assert_int_equal(seg->time_index_bytes, world_size(w, world_file(seg->base_offset, ".timeindex")));
        }
        bytes += seg->bytes;
    }
    assert_int_equal(told.log.bytes, bytes);
    assert_int_equal(told.log.event_count, 3);
    assert_string_equal(told.log.events[2].kind, "roll");
    assert_int_equal(told.log.events[2].offset, 21);
    tell_end(&told);
    /* After a start nothing of it is lost, though no segment knows its times yet. */
    world_stop(w);
    world_delete(w, world_path(STELE_HISTORY_FILE));
    world_open(w);
    tell(w, &told);
    for (size_t i = 0; i < 4; i++) {
        const struct stele_described_segment *seg = segment(&told, i);
        assert_int_equal(seg->first_timestamp, WORLD_TIME + seg->base_offset);
        assert_int_equal(seg->largest_timestamp, WORLD_TIME + seg->next_offset - 1);
        assert_string_equal(seg->rolled_because, i == 3 ? "" : "not told by the history");
    }
    tell_end(&told);
}

/* Every sentence that says what keeps a segment. */
static void test_sentences(void **state)
{
    struct log_world *w = *state;
    struct told told;
    int gone = 0;
    world_fill(w, 22);
    w->test.wall_ms = WORLD_TIME + 100;
    int64_t sealed = stele_log_segment(w->log, 0)->bytes, active = stele_log_segment(w->log, 3)->bytes;
    configure(w, -1, -1, true);
    tell(w, &told);
    expect(&told, 0, "the high watermark 0, which has not passed its end", -1);
    tell_end(&told);
    stele_log_set_high_watermark(w->log, 22);
    tell(w, &told);
    expect(&told, 0, "retention.ms and retention.bytes, which have no limit", -1);
    expect(&told, 3, "active; retention.ms and retention.bytes, which have no limit", -1);
    tell_end(&told);
    configure(w, 0, 0, false);
    tell(w, &told);
    expect(&told, 0, "cleanup.policy, which does not say delete", -1);
    tell_end(&told);
    configure(w, -1, 3600000, true);
    tell(w, &told);
    expect(&told, 0, "retention.ms until 1970-01-01T01:16:40.006Z", WORLD_TIME + 6 + 3600000);
    expect(&told, 1, "retention.ms until 1970-01-01T01:16:40.013Z", WORLD_TIME + 13 + 3600000);
    tell_end(&told);
    configure(w, 2 * sealed + active, -1, true);
    tell(w, &told);
    expect(&told, 0, "nothing: it goes at the next look (retention.bytes breached)", WORLD_TIME + 100);
    assert_non_null(strstr(segment(&told, 1)->kept_because, "retention.bytes with "));
    tell_end(&told);
    w->test.wall_ms = WORLD_TIME + 3;
    configure(w, -1, 1, true);
    tell(w, &told);
    expect(&told, 0, "retention.ms until 1970-01-01T00:16:40.007Z (its largest timestamp lies in the future)",
           WORLD_TIME + 7);
    tell_end(&told);
    w->test.wall_ms = WORLD_TIME + 100;
    assert_ok(stele_log_set_start_offset(w->log, 7));
    configure(w, -1, -1, true);
    tell(w, &told);
    expect(&told, 0, "nothing: it goes at the next look (below the log start offset)", WORLD_TIME + 100);
    tell_end(&told);
    struct stele_log_config config = *stele_log_config(w->log);
    config.file_delete_delay_ms = 1000;
    stele_log_set_config(w->log, &config);
    assert_ok(stele_log_retain(w->log, &gone));
    assert_int_equal(gone, 1);
    tell(w, &told);
    assert_int_equal(told.log.segment_total, 3);
    assert_int_equal(told.log.segment_count, 4);
    expect(&told, 0, "deleted; file.delete.delay.ms until 1970-01-01T00:16:41.100Z", WORLD_TIME + 1100);
    assert_int_equal(segment(&told, 0)->bytes, sealed);
    assert_int_equal(segment(&told, 0)->next_offset, 7);
    tell_end(&told);
    assert_ok(stele_log_roll(w->log, STELE_REASON_TIME));
    tell(w, &told);
    expect(&told, 4, "active; it is empty", -1);
    assert_string_equal(segment(&told, 3)->rolled_because, "segment.ms reached");
    tell_end(&told);
}

/* A record from the future in the oldest segment holds back the others, and that is said. */
static void test_older_stays(void **state)
{
    struct log_world *w = *state;
    struct told told;
    struct stele_batch_options options = world_options(-1, -1, 0);
    world_open(w);
    assert_ok(world_put(w, world_build(w, &options, 5000000), STELE_ORIGIN_CLIENT, 0));
    world_append(w, 8, 0);
    stele_log_set_high_watermark(w->log, stele_log_end_offset(w->log));
    assert_ok(stele_log_roll(w->log, STELE_REASON_TIME));
    w->test.wall_ms = WORLD_TIME + 1000;
    configure(w, -1, 500, true);
    tell(w, &told);
    assert_non_null(strstr(segment(&told, 0)->kept_because, "lies in the future"));
    expect(&told, 1, "the older segment 0, which stays (here: retention.ms breached)", WORLD_TIME + 5000500);
    tell_end(&told);
}

/* Drawn logs and limits: what the explanation says will go is what retention deletes; at the time that it names nothing
 * is deleted yet, and a millisecond later it is. */
static void test_agrees_with_retention(void **state)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct stele_prng prng;
        stele_prng_init(&prng, seed, 5);
        struct log_world *w = *state;
        struct told told;
        int gone = -1, said = 0;
        world_fill(w, (int)stele_prng_range(&prng, 1, 40));
        int64_t end = stele_log_end_offset(w->log);
        w->test.wall_ms = WORLD_TIME + stele_prng_range(&prng, -10, 60);
        stele_log_set_high_watermark(w->log, stele_prng_range(&prng, end / 2, end));
        assert_ok(stele_log_set_start_offset(w->log, stele_prng_range(&prng, 0, stele_log_high_watermark(w->log) / 3)));
        configure(w, stele_prng_below(&prng, 2) == 0 ? -1 : stele_prng_range(&prng, 0, stele_log_bytes(w->log)),
                  stele_prng_below(&prng, 2) == 0 ? -1 : stele_prng_range(&prng, 0, 60), true);
        tell(w, &told);
        for (size_t i = 0; i < told.log.segment_count; i++)
            said += strstr(told.log.segments[i].kept_because, "nothing:") != NULL;
        int64_t due_ms = (size_t)said < told.log.segment_count ? segment(&told, (size_t)said)->delete_at_ms : -1;
        bool is_timed = (size_t)said + 1 < told.log.segment_count &&
                        strstr(segment(&told, (size_t)said)->kept_because, "retention.ms until") != NULL;
        tell_end(&told);
        assert_ok(stele_log_retain(w->log, &gone));
        assert_int_equal(gone, said);
        if (is_timed && stele_log_segment_count(w->log) > 1) {
            w->test.wall_ms = due_ms;
            assert_ok(stele_log_retain(w->log, &gone));
            assert_int_equal(gone, 0);
            w->test.wall_ms = due_ms + 1;
            assert_ok(stele_log_retain(w->log, &gone));
            assert_true(gone > 0);
        }
        assert_int_equal(world_tear_down(state), 0);
        assert_int_equal(world_set_up(state), 0);
    }
}

/* The forecast by size: appended at an even rate, a segment goes when the bytes to go have come. */
static void test_forecast(void **state)
{
    struct log_world *w = *state;
    struct told told;
    world_open(w);
    for (int i = 0; i < 15; i++) {
        world_append(w, 1, 0);
        w->test.mono_us += 10000000; /* one batch in 10 s */
    }
    stele_log_set_high_watermark(w->log, 15);
    w->test.wall_ms = 1000;
    int64_t batch = stele_log_bytes(w->log) / 15;
    configure(w, 15 * batch, -1, true);
    tell(w, &told);
    /* Seven more batches, and the eight behind the first segment are fifteen. */
    char text[64];
    (void)snprintf(text, sizeof(text), "retention.bytes with %d bytes to go", (int)(7 * batch));
    expect(&told, 0, text, 1000 + 70000);
    assert_int_equal(segment(&told, 1)->delete_at_ms, 1000 + 140000);
    tell_end(&told);
}

static const struct stele_log_histogram *histogram(const struct told *told, const char *name)
{
    for (size_t i = 0; i < told->log.histogram_count; i++) {
        if (strcmp(told->log.histograms[i].name, name) == 0)
            return &told->log.histograms[i];
    }
    fail_msg("no histogram %s", name);
    return NULL;
}

/* The histograms count every batch once, also those of a log of one segment or of none. */
static void test_histograms(void **state)
{
    struct log_world *w = *state;
    struct told told;
    world_open(w);
    tell(w, &told);
    assert_int_equal(histogram(&told, "batch bytes")->count, 0);
    assert_int_equal(histogram(&told, "segment bytes")->count, 1);
    tell_end(&told);
    w->test.wall_ms = 1000;
    world_append(w, 8, 0); /* rolls */
    w->test.wall_ms = 1700;
    world_append(w, 14, 0);
    tell(w, &told);
    assert_int_equal(histogram(&told, "batch bytes")->count, 22);
    assert_int_equal(histogram(&told, "batch bytes")->sum, stele_log_bytes(w->log));
    assert_int_equal(histogram(&told, "record bytes")->sum, stele_log_bytes(w->log));
    assert_int_equal(histogram(&told, "batch records")->sum, 22);
    assert_int_equal(histogram(&told, "batch records")->bucket_count, 1);
    assert_int_equal(histogram(&told, "batch records")->buckets[0].up_to, 1);
    assert_int_equal(histogram(&told, "batch records")->buckets[0].count, 22);
    assert_int_equal(histogram(&told, "segment bytes")->sum, stele_log_bytes(w->log));
    const struct stele_log_histogram *rolls = histogram(&told, "roll interval ms: segment.bytes reached");
    assert_int_equal(rolls->count, 2); /* 700 and 0 */
    assert_int_equal(rolls->max, 700);
    tell_end(&told);
}

/* Values at the edges of their buckets. */
static void test_buckets(void **state)
{
    (void)state;
    struct stele_histogram histogram = {.count = 0};
    static const int64_t values[] = {0, 1, 2, 3, 4, 5, 1024, 1025, INT64_MAX / 8};
    static const int buckets[] = {0, 0, 1, 2, 2, 3, 10, 11, STELE_HISTOGRAM_BUCKETS - 1};
    for (size_t i = 0; i < STELE_ARRAY_LEN(values); i++) {
        int64_t before = histogram.buckets[buckets[i]];
        stele_histogram_add(&histogram, values[i], 2);
        assert_int_equal(histogram.buckets[buckets[i]], before + 2);
    }
    assert_int_equal(histogram.count, 18);
    assert_int_equal(histogram.max, INT64_MAX / 8);
}

/* Damage: the ranges are told, and the scan counts what comes before it. */
static void test_damage(void **state)
{
    struct log_world *w = *state;
    struct told told;
    world_fill(w, 3);
    int64_t batch = stele_log_bytes(w->log) / 3;
    world_drop(w);
    world_flip(w, world_file(0, ".log"), batch + 16); /* the magic byte of the second */
    world_reopen(w, 3, 3);
    tell(w, &told);
    assert_int_equal(told.log.damaged_count, 1);
    assert_int_equal(told.log.damaged[0].first_offset, 1);
    assert_int_equal(told.log.damaged[0].pos, batch);
    assert_int_equal(histogram(&told, "batch bytes")->count, 1);
    bool is_told = false;
    for (size_t i = 0; i < told.log.event_count; i++)
        is_told = is_told || strcmp(told.log.events[i].kind, "damage") == 0;
    assert_true(is_told);
    tell_end(&told);
}

/* Between any two steps the log may lose its front or its end, roll, and be appended to: the explanation ends, and
 * holds nothing. */
static void test_changes_between_steps(void **state)
{
    for (int moment = 0; moment < 8; moment++) {
        for (int change = 0; change < 4; change++) {
            struct log_world *w = *state;
            struct told told;
            bool waits = true;
            int gone = 0;
            world_fill(w, 36);
            stele_log_set_high_watermark(w->log, 36);
            world_stop(w);
            world_open(w);
            tell_begin(w, &told, true);
            for (int step = 0; waits; step++) {
                if (step == moment && change == 0) {
                    configure(w, 700, -1, true);
                    assert_ok(stele_log_retain(w->log, &gone));
                    assert_true(gone > 0);
                } else if (step == moment && change == 1) {
                    assert_ok(stele_log_truncate(w->log, 9));
                    world_append(w, 3, 0);
                } else if (step == moment && change == 2) {
                    assert_ok(stele_log_restart_at(w->log, 100));
                } else if (step == moment) {
                    world_append(w, 30, 0);
                }
                assert_ok(stele_log_explain_step(w->log, &told.explain, &waits));
                if (waits)
                    stele_log_explain_work(&told.explain);
            }
            if (moment == 0)
                assert_int_equal(histogram(&told, "batch bytes")->sum, stele_log_bytes(w->log));
            tell_end(&told);
            assert_int_equal(world_tear_down(state), 0);
            assert_int_equal(world_set_up(state), 0);
        }
    }
}

/* The n-th allocation fails: NO_MEMORY, and the log goes on. The n-th call to the disk fails: what can be told is told,
 * and the log is not taken offline by a question. */
static void test_failures(void **state)
{
    for (size_t kind = 0; kind < WORLD_FAULTS; kind++) {
        for (int64_t at = 1;; at++) {
            struct log_world *w = *state;
            struct told told;
            world_fill(w, 22);
            world_stop(w);
            world_open(w);
            tell_begin(w, &told, true);
            world_arm(w, &world_faults[kind], at);
            enum stele_err err = tell_to_end(w, &told);
            bool has_struck = world_has_struck(w, &world_faults[kind]);
            world_disarm(w);
            if (world_faults[kind].is_memory && has_struck)
                assert_true(err == STELE_NO_MEMORY || err == STELE_OK);
            else
                assert_ok(err);
            assert_false(stele_log_is_failed(w->log));
            tell_end(&told);
            if (!has_struck) {
                assert_int_equal(told.log.segment_count, 4);
            }
            tell(w, &told);
            assert_int_equal(told.log.segment_count, 4);
            tell_end(&told);
            assert_int_equal(world_tear_down(state), 0);
            assert_int_equal(world_set_up(state), 0);
            if (!has_struck)
                break;
        }
    }
}

/* Days that calendars get wrong. */
static void test_time_text(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1798675200000, "2026-12-31T00:00:00.000Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
        {INT64_MAX, "9999-12-31T"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        char text[STELE_TIME_TEXT_BYTES];
        stele_explain__time_text(rows[i].ms, text);
        assert_memory_equal(text, rows[i].text, strlen(rows[i].text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_segments, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_sentences, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_older_stays, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_agrees_with_retention, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_forecast, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_histograms, world_set_up, world_tear_down),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test_setup_teardown(test_damage, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_changes_between_steps, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_failures, world_set_up, world_tear_down),
        cmocka_unit_test(test_time_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
