/* Opening a log whose files end, or are damaged, in every way: what is cut, what is kept, what is read. */
#include "storage/test/log_world.h"

#include <string.h>

/* --- tails --- */

struct tail {
    const char *what;
    int64_t cut_to;  /* bytes kept of the batch of offset 4; -1 all */
    int64_t flip_at; /* byte of that batch; -1 none */
    int zeros;       /* appended */
};

static const struct tail tails[] = {
    {"half a prefix", 5, -1, 0},
    {"half a header", 30, -1, 0},
    {"half a body", 70, -1, 0},
    {"a flipped crc", -1, 17, 0},
    {"a flipped value", -1, 75, 0},
    {"a flipped length", -1, 11, 0},
    {"a flipped magic", -1, 16, 0},
    {"a flipped base offset", -1, 7, 0},
    {"a flipped high byte of the base", -1, 0, 0},
    {"preallocated zeros", -1, -1, 300},
};

/* Above the point every kind of torn tail is cut at the last sound batch; a second start finds nothing to do. */
static void test_torn_tail_is_cut(void **state)
{
    struct log_world *w = *state;
    static const uint8_t zeros[300];
    for (size_t i = 0; i < STELE_ARRAY_LEN(tails); i++) {
        const struct tail *tail = &tails[i];
        int64_t cuts = w->test.metrics.log_cuts;
        if (w->log == NULL)
            world_open(w);
        world_append(w, 5 - (int)stele_log_end_offset(w->log), 0);
        int64_t pos = world_pos(w, 4, 0), bytes = world_pos(w, 5, 0);
        world_drop(w);
        if (tail->cut_to >= 0)
            world_resize(w, world_file(0, ".log"), pos + tail->cut_to);
        if (tail->flip_at >= 0)
            world_flip(w, world_file(0, ".log"), pos + tail->flip_at);
        if (tail->zeros > 0)
            world_write(w, world_file(0, ".log"), zeros, (size_t)tail->zeros, bytes);
        int64_t end = tail->zeros > 0 ? 5 : 4;
        world_reopen(w, 0, 3);
        if (stele_log_end_offset(w->log) != end)
            fail_msg("%s: the log ends at %d", tail->what, (int)stele_log_end_offset(w->log));
        assert_int_equal(w->report.cut_offset, end);
        assert_true(w->report.bytes_cut > 0);
        assert_int_equal(w->test.metrics.log_cuts, cuts + 1);
        assert_int_equal(world_size(w, world_file(0, ".log")), world_pos(w, end, 0));
        world_check_readable(w, 0, end);
        world_reopen(w, 0, 3);
        world_check_untouched(w);
        assert_int_equal(stele_log_end_offset(w->log), end);
    }
}

/* What follows a cut segment is deleted: a log has no holes. */
static void test_segments_after_a_cut_go(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1), third = world_base(w, 2);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), 70);
    world_reopen(w, 0, 0);
    assert_int_equal(stele_log_end_offset(w->log), second);
    assert_int_equal(w->report.cut_offset, second);
    assert_true(w->report.segments_deleted >= 1);
    assert_false(world_has(w, world_file(third, ".log")));
    assert_false(world_has(w, world_file(third, ".index")));
    assert_false(world_has(w, world_file(third, ".snapshot")));
    world_append(w, 2, 0);
    world_check_readable(w, 0, second + 2);
}

/* A tail lost at a batch's end leaves no bad byte: the hole before the next segment tells. */
static void test_hole_between_segments_is_cut(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1);
    int64_t pos = world_pos(w, second - 2, 0);
    world_drop(w);
    world_resize(w, world_file(0, ".log"), pos);
    world_reopen(w, 0, 0);
    assert_int_equal(stele_log_end_offset(w->log), second - 2);
    assert_int_equal(stele_log_segment_count(w->log), 1);
}

/* In a compacted log holes are what compaction leaves. */
static void test_hole_in_a_compacted_log_is_kept(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1);
    int64_t pos = world_pos(w, second - 2, 0);
    world_drop(w);
    world_resize(w, world_file(0, ".log"), pos);
    w->open.is_compacted = true;
    world_reopen(w, 0, 0);
    world_check_untouched(w);
    assert_int_equal(stele_log_end_offset(w->log), 30);
    world_check_readable(w, second, 30);
}

/* --- damage --- */

/* Below the point a bad batch is kept with all that follows it in its segment; later segments stay readable, and later
 * starts, clean ones too, still know. */
static void test_damage_below_the_point_is_kept(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1), third = world_base(w, 2), bytes = world_size(w, world_file(second, ".log"));
    int64_t pos = world_pos(w, second + 1, second);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), pos + 70);
    world_reopen(w, second, 30);
    world_check_damaged(w, second + 1, third - 1);
    assert_int_equal(stele_log_damaged(w->log, 0)->pos, pos);
    assert_int_equal(world_size(w, world_file(second, ".log")), bytes);
    world_check_readable(w, 0, second + 1);
    world_check_readable(w, third, 30);
    world_append(w, 3, 0);
    world_stop(w);
    world_open(w);
    world_check_damaged(w, second + 1, third - 1);
    world_check_readable(w, third, 33);
    assert_int_equal(w->test.metrics.log_damaged_ranges, 1);
}

/* In the last segment the log goes on in a new one, behind every offset that was given out. */
static void test_damage_in_the_last_segment_rolls(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    int64_t pos = world_pos(w, 1, 0);
    world_drop(w);
    world_flip(w, world_file(0, ".log"), pos + 70);
    world_reopen(w, 3, 3);
    world_check_damaged(w, 1, 4);
    assert_int_equal(stele_log_end_offset(w->log), 5);
    assert_int_equal(world_last_base(w), 5);
    world_append(w, 2, 1);
    world_check_readable(w, 5, 7);
    world_reopen(w, 3, 3);
    world_check_damaged(w, 1, 4);
    assert_int_equal(stele_log_end_offset(w->log), 7);
    world_check_readable(w, 5, 7);
}

/* Acknowledged offsets that are not there at all are a damaged range too. */
static void lose_acknowledged(struct log_world *w, bool was_clean)
{
    world_fill(w, 5);
    int64_t pos = world_pos(w, 3, 0);
    world_stop(w);
    world_resize(w, world_file(0, ".log"), pos);
    w->open.was_clean = was_clean;
    world_open(w);
    world_check_damaged(w, 3, 4);
    assert_int_equal(stele_log_end_offset(w->log), 5);
    world_check_readable(w, 0, 3);
    world_append(w, 1, 1);
    world_check_readable(w, 5, 6);
    world_stop(w);
    world_open(w);
    world_check_damaged(w, 3, 4);
}

static void test_log_shorter_than_the_point_is_damage(void **state)
{
    lose_acknowledged(*state, false);
}

/* A clean marker does not make a cut file whole. */
static void test_clean_marker_on_a_cut_file_is_not_believed(void **state)
{
    lose_acknowledged(*state, true);
}

/* A recovered range is told from a bad one: cut back to its start, the log has no damage left and takes new batches. */
static void test_truncation_to_the_damage_mends(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    int64_t pos = world_pos(w, 1, 0);
    world_drop(w);
    world_flip(w, world_file(0, ".log"), pos + 70);
    world_reopen(w, 3, 3);
    assert_ok(stele_log_truncate(w->log, 1));
    assert_int_equal(stele_log_damaged_count(w->log), 0);
    world_append(w, 6, 0);
    world_check_readable(w, 0, 7);
    world_reopen(w, 1, 1);
    world_check_untouched(w);
    world_check_readable(w, 0, 7);
}

/* --- ends and starts --- */

/* A directory without a log becomes one that starts where the checkpoint says. */
static void test_empty_directory_starts_at_the_log_start(void **state)
{
    struct log_world *w = *state;
    w->open.log_start_offset = 42;
    world_open(w);
    assert_int_equal(stele_log_start_offset(w->log), 42);
    assert_int_equal(stele_log_end_offset(w->log), 42);
    assert_int_equal(stele_log_high_watermark(w->log), 42);
    world_check_untouched(w);
    world_append(w, 1, 0);
    world_check_readable(w, 42, 43);
}

/* A log that ends below its start offset has nothing left to keep. */
static void test_log_below_its_start_restarts_there(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    w->open.log_start_offset = 9;
    world_reopen(w, 0, 9);
    assert_int_equal(stele_log_start_offset(w->log), 9);
    assert_int_equal(stele_log_end_offset(w->log), 9);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    assert_false(world_has(w, world_file(0, ".log")));
    assert_int_equal(stele_log_epochs(w->log)->count, 0);
}

/* The recovery point stays where the checkpoint has it, the high watermark inside the log. */
static void test_offsets_after_an_unclean_start(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    world_reopen(w, 2, 4);
    assert_int_equal(stele_log_recovery_point(w->log), 2);
    assert_int_equal(stele_log_high_watermark(w->log), 4);
    world_reopen(w, 2, -1);
    assert_int_equal(stele_log_high_watermark(w->log), 0);
}

/* After a clean stop nothing is scanned, and all is where it was. */
static void test_clean_start_scans_nothing(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int segments = stele_log_segment_count(w->log);
    world_stop(w);
    world_open(w);
    world_check_untouched(w);
    assert_int_equal(w->report.segments_scanned, 0);
    assert_int_equal(w->report.bytes_scanned, 0);
    assert_int_equal(stele_log_segment_count(w->log), segments);
    assert_int_equal(stele_log_recovery_point(w->log), 30);
    world_check_readable(w, 0, 30);
    world_append(w, 3, 0);
    world_check_readable(w, 0, 33);
}

/* An unclean start scans from the recovery point only. */
static void test_unclean_start_scans_from_the_recovery_point(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int segments = stele_log_segment_count(w->log);
    world_reopen(w, world_last_base(w), 30);
    assert_int_equal(w->report.segments_scanned, 1);
    world_reopen(w, world_base(w, 1), 30);
    assert_int_equal(w->report.segments_scanned, segments - 1);
    world_check_untouched(w);
}

/* Cuts at 3, goes on in a segment of its own, and brings back what the first segment was. */
static void undo_truncation(struct log_world *w, int32_t epoch)
{
    world_copy(w, world_file(0, ".log"), world_path("old"), 0);
    assert_ok(stele_log_truncate(w->log, 3));
    assert_ok(stele_log_roll(w->log, STELE_REASON_SIZE));
    world_append(w, 1, epoch);
    assert_int_equal(world_last_base(w), 3);
    world_drop(w);
    world_copy(w, world_path("old"), world_file(0, ".log"), 0);
}

/* A segment that begins before the one before it ends came of a truncation that a crash undid in part. By the epoch of
 * its first batch the older one goes. Where acknowledged offsets are missing besides, nothing is guessed: the message
 * names the file and the way out. */
static void test_overlapping_segments(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    undo_truncation(w, 0);
    w->open.high_watermark = 6;
    assert_int_equal(stele_log_open(&w->open, &w->log, &w->report, &w->error), STELE_CORRUPT);
    assert_non_null(strstr(w->error.text, WORLD_DIR "/00000000000000000003.log"));
    assert_non_null(strstr(w->error.text, "move the directory away"));
    assert_true(world_has(w, world_file(3, ".log")));
    world_reopen(w, 0, 5);
    assert_int_equal(w->report.segments_deleted, 1);
    assert_false(world_has(w, world_file(3, ".log")));
    assert_int_equal(world_history(w, STELE_HISTORY_DELETE, STELE_REASON_AFTER_CUT), 1);
    world_check_readable(w, 0, 5);
}

static void test_overlapping_segment_of_a_newer_epoch_stays(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    undo_truncation(w, 2);
    world_reopen(w, 0, 3);
    assert_int_equal(stele_log_end_offset(w->log), 4);
    assert_int_equal(w->report.bytes_cut, world_pos(w, 2, 0));
    assert_int_equal(world_history(w, STELE_HISTORY_CUT, STELE_REASON_TRUNCATED), 2); /* the first by hand */
    world_check_readable(w, 0, 4);
    assert_int_equal(stele_epoch_cache_epoch_at(stele_log_epochs(w->log), 2), 0);
    assert_int_equal(stele_epoch_cache_epoch_at(stele_log_epochs(w->log), 3), 2);
    world_reopen(w, 0, 3);
    world_check_untouched(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_torn_tail_is_cut, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_segments_after_a_cut_go, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_hole_between_segments_is_cut, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_hole_in_a_compacted_log_is_kept, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_below_the_point_is_kept, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_in_the_last_segment_rolls, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_log_shorter_than_the_point_is_damage, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_clean_marker_on_a_cut_file_is_not_believed, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_truncation_to_the_damage_mends, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_empty_directory_starts_at_the_log_start, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_log_below_its_start_restarts_there, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_offsets_after_an_unclean_start, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_clean_start_scans_nothing, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_unclean_start_scans_from_the_recovery_point, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(test_overlapping_segments, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_overlapping_segment_of_a_newer_epoch_stays, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
