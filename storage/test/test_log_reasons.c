/* Every reason of a roll, a deletion, a cut, a damaged range and a rebuilt index, made to happen and seen in history,
 * in the trace and in the metrics. */
#include "storage/test/log_world.h"

#include <stdlib.h>

enum { CONSTANT_TIME = 77 };

struct reason_case {
    const char *name;
    void (*run)(struct log_world *w);
    enum stele_history_kind kind;
    enum stele_reason reason;
    int count; /* how often */
};

static void configure(struct log_world *w, const struct stele_log_config *config)
{
    w->open.config = *config;
    if (w->log != NULL)
        stele_log_set_config(w->log, config);
}

/* --- rolls --- */

static void roll_for_snapshot(struct log_world *w)
{
    world_fill(w, 1);
    assert_ok(stele_log_roll(w->log, STELE_REASON_SNAPSHOT));
}

static void roll_by_size(struct log_world *w)
{
    world_fill(w, 8);
}

/* By the records' time: batches of a millisecond each. */
static void roll_by_record_time(struct log_world *w)
{
    struct stele_log_config config = w->open.config;
    config.segment_bytes = 10000;
    config.segment_ms = 4;
    configure(w, &config);
    world_open(w);
    world_append(w, 5, 0);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    world_append(w, 1, 0);
    assert_int_equal(world_last_base(w), 5);
}

/* A segment of records without a time rolls by its own age. */
static void roll_by_own_age(struct log_world *w)
{
    struct stele_log_config config = w->open.config;
    struct stele_batch_options options = world_options(-1, -1, 0);
    struct stele_record_in record = {.timestamp = -1, .value = "x", .value_bytes = 1};
    config.segment_ms = 1000;
    configure(w, &config);
    world_open(w);
    for (int i = 0; i < 2; i++) {
        struct stele_buf *buf = NULL;
        struct stele_batch_builder *builder = stele_batch_builder_new(w->test.env.mem, &options);
        assert_ok(stele_batch_builder_add(builder, &record));
        assert_ok(stele_batch_builder_finish(builder, &buf));
        stele_batch_builder_free(builder);
        assert_ok(world_put(w, buf, STELE_ORIGIN_CLIENT, 0));
        w->test.wall_ms += 1001;
    }
    assert_int_equal(world_last_base(w), 1);
}

static void roll_when_idle(struct log_world *w)
{
    struct stele_log_config config = w->open.config;
    bool rolled = true;
    config.segment_ms = 1000;
    world_fill(w, 3);
    configure(w, &config);
    w->test.wall_ms += 1000;
    assert_ok(stele_log_roll_if_old(w->log, &rolled));
    assert_false(rolled);
    w->test.wall_ms += 1;
    assert_ok(stele_log_roll_if_old(w->log, &rolled));
    assert_true(rolled);
    w->test.wall_ms += 100000; /* an empty segment stays */
    assert_ok(stele_log_roll_if_old(w->log, &rolled));
    assert_false(rolled);
}

/* Six entries of the one, four of the other, of which one is kept for the closing entry. */
static void index_bytes(struct log_world *w)
{
    struct stele_log_config config = w->open.config;
    config.segment_bytes = 10000;
    config.segment_index_bytes = 48;
    config.index_interval_bytes = 1;
    configure(w, &config);
    world_open(w);
}

static void append_at_one_time(struct log_world *w)
{
    struct stele_batch_options options = world_options(-1, -1, 0);
    assert_ok(world_put(w, world_build(w, &options, CONSTANT_TIME), STELE_ORIGIN_CLIENT, 0));
}

static void roll_by_offset_index(struct log_world *w)
{
    index_bytes(w);
    for (int i = 0; i < 7; i++)
        append_at_one_time(w);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    append_at_one_time(w);
    assert_int_equal(world_last_base(w), 7);
}

static void roll_by_time_index(struct log_world *w)
{
    index_bytes(w);
    world_append(w, 4, 0);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    world_append(w, 1, 0);
    assert_int_equal(world_last_base(w), 4);
}

static void append_far(struct log_world *w, int64_t offset)
{
    struct stele_batch_options options = world_options(-1, -1, 0);
    struct stele_buf *buf = world_build(w, &options, offset);
    stele_batch_stamp(buf->bytes, offset, 0);
    assert_ok(world_put(w, buf, STELE_ORIGIN_REPLICATION, 0));
}

static void roll_by_offset_range(struct log_world *w)
{
    world_fill(w, 2);
    append_far(w, INT32_MAX);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    append_far(w, (int64_t)INT32_MAX + 1);
    assert_int_equal(world_last_base(w), (int64_t)INT32_MAX + 1);
}

/* --- deletions --- */

static void retain(struct log_world *w, int64_t bytes, int64_t ms, int deleted)
{
    struct stele_log_config config = w->open.config;
    int count = -1;
    config.retention_bytes = bytes;
    config.retention_ms = ms;
    configure(w, &config);
    stele_log_set_high_watermark(w->log, stele_log_end_offset(w->log));
    assert_ok(stele_log_retain(w->log, &count));
    assert_int_equal(count, deleted);
}

static void retain_size(struct log_world *w)
{
    world_fill(w, 22);
    int64_t second = world_base(w, 2);
    retain(w, stele_log_bytes(w->log) - 2 * stele_log_segment(w->log, 0)->bytes, -1, 2);
    assert_int_equal(stele_log_start_offset(w->log), second);
    assert_false(world_has(w, world_file(7, ".log")));
    assert_false(world_has(w, world_file(7, ".snapshot"))); /* dies with its segment */
    assert_true(world_has(w, world_file(14, ".snapshot")));
}

static void retain_time(struct log_world *w)
{
    world_fill(w, 22);
    /* The first two segments, of records up to WORLD_TIME + 13. */
    w->test.wall_ms = WORLD_TIME + 15;
    retain(w, -1, 1, 2);
}

static void retain_nothing(struct log_world *w)
{
    world_fill(w, 22);
    retain(w, 0, -1, 4);
    assert_int_equal(stele_log_start_offset(w->log), 22);
    assert_int_equal(stele_log_segment_count(w->log), 1);
}

static void retain_from_start(struct log_world *w)
{
    world_fill(w, 22);
    stele_log_set_high_watermark(w->log, 22);
    assert_ok(stele_log_set_start_offset(w->log, 15));
    retain(w, -1, -1, 2);
    assert_int_equal(stele_log_start_offset(w->log), 15);
}

static void open_below_start(struct log_world *w)
{
    world_fill(w, 8);
    w->open.log_start_offset = 30;
    world_reopen(w, 0, 30);
}

static void truncate_middle(struct log_world *w)
{
    world_fill(w, 22);
    assert_ok(stele_log_truncate(w->log, 9));
}

static void restart(struct log_world *w)
{
    world_fill(w, 22);
    assert_ok(stele_log_restart_at(w->log, 100));
}

/* --- starts --- */

static void open_torn(struct log_world *w)
{
    world_fill(w, 3);
    world_drop(w);
    world_resize(w, world_file(0, ".log"), world_size(w, world_file(0, ".log")) - 1);
    world_reopen(w, 0, 0);
}

static void open_cut_in_the_middle(struct log_world *w)
{
    world_fill(w, 22);
    world_drop(w);
    world_flip(w, world_file(0, ".log"), 100);
    world_reopen(w, 0, 0);
}

static void open_damaged(struct log_world *w)
{
    world_fill(w, 3);
    int64_t last = world_pos(w, 2, 0);
    world_drop(w);
    world_flip(w, world_file(0, ".log"), last + 70);
    world_reopen(w, 3, 3);
}

static void open_without_index(struct log_world *w)
{
    world_fill(w, 22);
    world_stop(w);
    world_delete(w, world_file(7, ".index"));
    world_open(w);
}

static void open_with_wrong_index(struct log_world *w)
{
    world_fill(w, 26);
    world_stop(w);
    world_flip(w, world_file(21, ".index"), world_size(w, world_file(21, ".index")) - 1);
    world_open(w);
}

/* A wrong index of a sealed segment is met by the read that uses it. */
static void read_with_wrong_index(struct log_world *w)
{
    world_fill(w, 22);
    world_stop(w);
    world_flip(w, world_file(0, ".index"), 7);
    world_open(w);
    assert_int_equal(world_history(w, STELE_HISTORY_REBUILD, STELE_REASON_INDEX_WRONG), 0);
    world_check_readable(w, 0, 22);
}

static void append_to_full_disk(struct log_world *w)
{
    struct stele_batch_options options = world_options(-1, -1, 0);
    world_fill(w, 3);
    int64_t bytes = world_size(w, world_file(0, ".log"));
    sim_disk_set_quota(w->disk, sim_disk_used_bytes(w->disk) + 50);
    assert_int_equal(world_put(w, world_build(w, &options, 3), STELE_ORIGIN_CLIENT, 0), STELE_NO_SPACE);
    sim_disk_set_quota(w->disk, -1);
    assert_int_equal(world_size(w, world_file(0, ".log")), bytes);
    world_append(w, 1, 0);
    world_check_readable(w, 0, 4);
}

static const struct reason_case cases[] = {
    {"size", roll_by_size, STELE_HISTORY_ROLL, STELE_REASON_SIZE, 1},
    {"time of records", roll_by_record_time, STELE_HISTORY_ROLL, STELE_REASON_TIME, 1},
    {"age without time", roll_by_own_age, STELE_HISTORY_ROLL, STELE_REASON_TIME, 1},
    {"idle", roll_when_idle, STELE_HISTORY_ROLL, STELE_REASON_TIME, 1},
    {"offset index", roll_by_offset_index, STELE_HISTORY_ROLL, STELE_REASON_OFFSET_INDEX_FULL, 1},
    {"time index", roll_by_time_index, STELE_HISTORY_ROLL, STELE_REASON_TIME_INDEX_FULL, 1},
    {"offset range", roll_by_offset_range, STELE_HISTORY_ROLL, STELE_REASON_OFFSET_RANGE, 1},
    {"snapshot", roll_for_snapshot, STELE_HISTORY_ROLL, STELE_REASON_SNAPSHOT, 1},
    {"nothing left", retain_nothing, STELE_HISTORY_ROLL, STELE_REASON_RETENTION_ALL, 1},
    {"damage at the end", open_damaged, STELE_HISTORY_ROLL, STELE_REASON_DAMAGE, 1},
    {"retention by size", retain_size, STELE_HISTORY_DELETE, STELE_REASON_RETENTION_SIZE, 2},
    {"retention of nothing", retain_nothing, STELE_HISTORY_DELETE, STELE_REASON_RETENTION_SIZE, 4},
    {"retention by time", retain_time, STELE_HISTORY_DELETE, STELE_REASON_RETENTION_TIME, 2},
    {"deleted records", retain_from_start, STELE_HISTORY_DELETE, STELE_REASON_LOG_START, 2},
    {"end below the start", open_below_start, STELE_HISTORY_DELETE, STELE_REASON_LOG_START, 2},
    {"truncated segments", truncate_middle, STELE_HISTORY_DELETE, STELE_REASON_TRUNCATED, 2},
    {"restarted", restart, STELE_HISTORY_DELETE, STELE_REASON_TRUNCATED, 4},
    {"after a cut", open_cut_in_the_middle, STELE_HISTORY_DELETE, STELE_REASON_AFTER_CUT, 3},
    {"truncation", truncate_middle, STELE_HISTORY_CUT, STELE_REASON_TRUNCATED, 1},
    {"torn tail", open_torn, STELE_HISTORY_CUT, STELE_REASON_TORN_TAIL, 1},
    {"full disk", append_to_full_disk, STELE_HISTORY_CUT, STELE_REASON_APPEND_FAILED, 1},
    {"damage", open_damaged, STELE_HISTORY_DAMAGE, STELE_REASON_DAMAGE, 1},
    {"lost index", open_without_index, STELE_HISTORY_REBUILD, STELE_REASON_INDEX_MISSING, 1},
    {"wrong index", open_with_wrong_index, STELE_HISTORY_REBUILD, STELE_REASON_INDEX_WRONG, 1},
    {"wrong index at a read", read_with_wrong_index, STELE_HISTORY_REBUILD, STELE_REASON_INDEX_WRONG, 1},
};

static const enum stele_trace_kind traces[] = {
    [STELE_HISTORY_ROLL] = STELE_TRACE_LOG_ROLLED,           [STELE_HISTORY_DELETE] = STELE_TRACE_LOG_SEGMENT_DELETED,
    [STELE_HISTORY_CUT] = STELE_TRACE_LOG_TRUNCATED,         [STELE_HISTORY_DAMAGE] = STELE_TRACE_LOG_DAMAGED,
    [STELE_HISTORY_REBUILD] = STELE_TRACE_LOG_INDEX_REBUILT,
};

/* What the metrics know of the reason; -1 when they have no number of their own. */
static int64_t metric_of(const struct log_world *w, const struct reason_case *c)
{
    const struct stele_metrics *m = &w->test.metrics;
    if (c->kind == STELE_HISTORY_DELETE)
        return m->log_segments_deleted;
    if (c->kind == STELE_HISTORY_REBUILD)
        return m->log_index_rebuilds;
    if (c->kind == STELE_HISTORY_DAMAGE)
        return m->log_damaged_ranges;
    if (c->kind == STELE_HISTORY_CUT)
        return c->reason == STELE_REASON_TORN_TAIL   ? m->log_cuts
               : c->reason == STELE_REASON_TRUNCATED ? m->log_truncations
                                                     : -1;
    const int64_t rolls[STELE_REASON_COUNT] = {[STELE_REASON_SIZE] = m->log_rolls_size,
                                               [STELE_REASON_TIME] = m->log_rolls_time,
                                               [STELE_REASON_OFFSET_INDEX_FULL] = m->log_rolls_index,
                                               [STELE_REASON_TIME_INDEX_FULL] = m->log_rolls_index,
                                               [STELE_REASON_OFFSET_RANGE] = m->log_rolls_offset,
                                               [STELE_REASON_RETENTION_ALL] = m->log_rolls_retention,
                                               [STELE_REASON_SNAPSHOT] = m->log_rolls_snapshot,
                                               [STELE_REASON_DAMAGE] = m->log_rolls_damage};
    return rolls[c->reason];
}

static void test_every_reason_is_told(void **state)
{
    bool is_seen[STELE_REASON_COUNT] = {false};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        const struct reason_case *c = &cases[i];
        assert_int_equal(world_set_up(state), 0);
        struct log_world *w = *state;
        c->run(w);
        int told = world_history(w, c->kind, c->reason);
        int64_t traced = w->traced[traces[c->kind]][c->reason], counted = metric_of(w, c);
        if (told != c->count || traced != c->count || (counted >= 0 && counted != c->count))
            fail_msg("%s: %d in history, %d in the trace, %d in the metrics", c->name, told, (int)traced, (int)counted);
        is_seen[c->reason] = true;
        assert_int_equal(world_tear_down(state), 0);
    }
    for (int reason = 0; reason < STELE_REASON_COUNT; reason++) {
        if (!is_seen[reason] && reason != STELE_REASON_REPAIRED) /* by who fetched it: test_repair.c */
            fail_msg("never seen: %s", stele_reason_text((enum stele_reason)reason));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_reason_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
