/* Opening a log whose files end, or are damaged, in every way: what is cut, what is kept, what is read. */
#include "storage/test/log_world.h"

#include <stdio.h>
#include <string.h>

/* --- tails --- */

struct tail {
    const char *what;
    int64_t cut_to;  /* bytes kept of the batch of offset 4; -1 all */
    int64_t flip_at; /* byte of that batch; -1 none */
    int more;        /* bytes appended */
    uint8_t byte;    /* of which all are this one */
};

static const struct tail tails[] = {
    {"half a prefix", 5, -1, 0, 0},
    {"half a header", 30, -1, 0, 0},
    {"half a body", 70, -1, 0, 0},
    {"a flipped crc", -1, 17, 0, 0},
    {"a flipped value", -1, 75, 0, 0},
    {"a flipped length", -1, 11, 0, 0},
    {"a flipped magic", -1, 16, 0, 0},
    {"a flipped base offset", -1, 7, 0, 0},
    {"a flipped high byte of the base", -1, 0, 0, 0},
    {"preallocated zeros", -1, -1, 300, 0},
    {"one zero", -1, -1, 1, 0},
    {"garbage", -1, -1, 300, 0xa5},
    {"garbage shorter than a header", -1, -1, 60, 0x7f},
};

/* Above the point every kind of torn tail is cut at the last sound batch; a second start finds nothing to do. */
static void test_torn_tail_is_cut(void **state)
{
    struct log_world *w = *state;
    uint8_t more[300];
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
        memset(more, tail->byte, sizeof(more));
        if (tail->more > 0)
            world_write(w, world_file(0, ".log"), more, (size_t)tail->more, bytes);
        int64_t end = tail->more > 0 ? 5 : 4;
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

/* Below the point a bad batch is kept; all others, also behind it in its segment, stay readable, and later starts,
 * clean ones too, still know. */
static void test_damage_below_the_point_is_kept(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1), bytes = world_size(w, world_file(second, ".log"));
    int64_t pos = world_pos(w, second + 1, second);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), pos + 70);
    world_reopen(w, second + 2, 30);
    world_check_damaged(w, second + 1, second + 1);
    assert_int_equal(stele_log_damaged(w->log, 0)->pos, pos);
    assert_int_equal(world_size(w, world_file(second, ".log")), bytes);
    world_check_readable(w, 0, second + 1);
    world_check_readable(w, second + 2, 30);
    world_append(w, 3, 0);
    world_stop(w);
    world_open(w);
    world_check_damaged(w, second + 1, second + 1);
    world_check_readable(w, second + 2, 33);
    assert_int_equal(w->test.metrics.log_damaged_ranges, 1);
}

/* Between the recovery point and the high watermark it is the same, but where a truncation cut the file before: whether
 * what lies behind the damage was written before or after it nobody knows, and the rest of the segment is lost too. */
static void test_damage_below_the_mark_is_kept(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1), third = world_base(w, 2);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), world_size(w, world_file(second, ".log")) / (third - second) + 70);
    for (int64_t point = second + 1; point >= second; point--) {
        world_reopen(w, point, 30);
        world_check_damaged(w, second + 1, second + 1);
        world_check_readable(w, 0, second + 1);
        world_check_readable(w, second + 2, 30);
    }
}

static void test_damage_where_a_truncation_was(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1);
    assert_true(second + 3 < world_base(w, 2));
    assert_ok(stele_log_truncate(w->log, second + 3));
    world_append(w, 30 - (int)second - 3, 1);
    int64_t third = world_base(w, 2), pos = world_pos(w, second + 2, second);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), pos + 70);
    world_reopen(w, second, 30);
    world_check_damaged(w, second + 2, third - 1);
    world_check_readable(w, 0, second + 2);
    world_check_readable(w, third, 30);
}

/* Below the truncation nothing was written twice. */
static void test_damage_below_a_truncation(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1);
    assert_true(second + 3 < world_base(w, 2));
    assert_ok(stele_log_truncate(w->log, second + 3));
    world_append(w, 30 - (int)second - 3, 1);
    int64_t pos = world_pos(w, second + 1, second);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), pos + 70);
    world_reopen(w, second, 30);
    world_check_damaged(w, second + 1, second + 1);
    world_check_readable(w, second + 2, 30);
}

/* In the last segment the log goes on behind the damage, where its last batch rotted in a new one, and no offset is
 * given out twice. */
static void test_damage_in_the_last_segment_rolls(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    int64_t pos = world_pos(w, 1, 0), last = world_pos(w, 4, 0);
    world_drop(w);
    world_flip(w, world_file(0, ".log"), pos + 70);
    world_reopen(w, 3, 3);
    world_check_damaged(w, 1, 1);
    world_check_readable(w, 2, 5);
    assert_int_equal(world_last_base(w), 0);
    world_drop(w);
    world_flip(w, world_file(0, ".log"), last + 70);
    world_reopen(w, 5, 5);
    assert_int_equal(stele_log_damaged_count(w->log), 2);
    assert_int_equal(stele_log_end_offset(w->log), 5);
    assert_int_equal(world_last_base(w), 5);
    world_append(w, 2, 1);
    world_check_readable(w, 5, 7);
    world_reopen(w, 5, 5);
    assert_int_equal(stele_log_damaged_count(w->log), 2);
    assert_int_equal(stele_log_end_offset(w->log), 7);
    world_check_readable(w, 2, 4);
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

/* A deletion syncs nothing: neither does the recovery point follow it, nor is there nothing to flush then. */
static void test_deletion_is_no_sync(void **state)
{
    struct log_world *w = *state;
    assert_ok(world_vfs(w)->ops->sync_dir(world_vfs(w), "/"));
    world_open(w);
    world_append(w, 10, 0);
    stele_log_set_high_watermark(w->log, 10);
    assert_ok(stele_log_set_start_offset(w->log, 6));
    assert_int_equal(stele_log_recovery_point(w->log), 0);
    assert_int_equal(stele_log_checkpoint_point(w->log), 0);
    assert_ok(stele_log_set_start_offset(w->log, 10));
    assert_int_equal(stele_log_recovery_point(w->log), 0);
    w->open.log_start_offset = 6;
    world_reopen(w, 2, 2);
    assert_int_equal(stele_log_start_offset(w->log), 6);
    assert_int_equal(stele_log_recovery_point(w->log), 2);
    assert_ok(stele_log_flush(w->log));
    assert_int_equal(stele_log_recovery_point(w->log), 10);
    assert_true(sim_disk_is_durable(w->disk, world_file(0, ".log").text, 0, world_size(w, world_file(0, ".log"))));
}

/* What of the deleted records a loss of power takes is nobody's damage, and what was synced above them is there. */
static void delete_and_lose_power(uint64_t seed, int64_t deleted, bool is_flushed)
{
    struct log_world w;
    world_init(&w, sim_disk_new(seed));
    assert_ok(world_vfs(&w)->ops->mkdir(world_vfs(&w), WORLD_DIR));
    assert_ok(world_vfs(&w)->ops->sync_dir(world_vfs(&w), "/"));
    world_open(&w);
    world_append(&w, 30, 0);
    stele_log_set_high_watermark(w.log, 30);
    assert_ok(stele_log_set_start_offset(w.log, deleted));
    if (is_flushed)
        assert_ok(stele_log_flush(w.log));
    world_append(&w, 5, 0);
    stele_log_set_high_watermark(w.log, 35);
    w.open.log_start_offset = stele_log_start_offset(w.log);
    int64_t point = stele_log_checkpoint_point(w.log), synced = stele_log_recovery_point(w.log);
    world_drop(&w);
    sim_disk_crash(w.disk, SIM_DISK_ADVERSARIAL);
    world_reopen(&w, point, stele_min_i64(35, synced));
    assert_int_equal(stele_log_start_offset(w.log), deleted);
    assert_int_equal(stele_log_damaged_count(w.log), 0);
    assert_int_equal(world_history(&w, STELE_HISTORY_DAMAGE, STELE_REASON_DAMAGE), 0);
    assert_true(stele_log_end_offset(w.log) >= (is_flushed ? 30 : deleted));
    world_check_readable(&w, deleted, stele_log_end_offset(w.log));
    world_deinit(&w);
}

static void test_deletion_then_a_loss_of_power(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        for (int64_t deleted = 0; deleted <= 30; deleted += 3) {
            delete_and_lose_power(seed, deleted, false);
            delete_and_lose_power(seed, deleted, true);
        }
    }
}

/* Batches are all of one size, so that a new one lies where an old one was: what a loss of power takes of the new ones
 * must not leave old ones under others that it kept. */
static void truncate_and_lose_power(uint64_t seed, int64_t cut, bool is_flushed)
{
    struct log_world w;
    world_init(&w, sim_disk_new(seed));
    assert_ok(world_vfs(&w)->ops->mkdir(world_vfs(&w), WORLD_DIR));
    assert_ok(world_vfs(&w)->ops->sync_dir(world_vfs(&w), "/"));
    world_open(&w);
    world_append(&w, 20, 0);
    if (is_flushed)
        assert_ok(stele_log_flush(w.log));
    int64_t point = stele_log_point_after_cut(w.log, cut);
    assert_ok(stele_log_truncate(w.log, cut));
    world_append(&w, (int)(30 - cut), 1);
    world_drop(&w);
    sim_disk_crash(w.disk, SIM_DISK_ADVERSARIAL);
    world_reopen(&w, point, point);
    const struct stele_epoch_cache *epochs = stele_log_epochs(w.log);
    if (stele_epoch_cache_latest(epochs) == 1)
        assert_int_equal(epochs->entries[epochs->count - 1].start_offset, cut);
    assert_int_equal(stele_log_damaged_count(w.log), 0);
    world_check_readable(&w, 0, stele_log_end_offset(w.log));
    world_deinit(&w);
}

static void test_truncation_then_a_loss_of_power(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        for (int64_t cut = 0; cut < 20; cut++) {
            truncate_and_lose_power(seed, cut, false);
            truncate_and_lose_power(seed, cut, true);
        }
    }
}

/* Rot in records that were deleted: it takes nothing of what is alive, synced or not, and nobody is told of it. */
static void test_rot_below_the_start_takes_nothing(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 3);
    world_append(w, 2, 0);
    stele_log_set_high_watermark(w->log, 3);
    assert_ok(stele_log_set_start_offset(w->log, 3));
    int64_t pos = world_pos(w, 1, 0), end = stele_log_end_offset(w->log);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    w->open.log_start_offset = 3;
    world_drop(w);
    world_flip(w, world_file(0, ".log"), pos + 70);
    for (int64_t point = 3; point >= 0; point--) {
        struct log_world copy;
        world_init(&copy, sim_disk_copy(w->disk));
        copy.open.log_start_offset = 3;
        world_reopen(&copy, point, point);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(stele_log_start_offset(copy.log), 3);
            assert_int_equal(stele_log_end_offset(copy.log), end);
            assert_int_equal(stele_log_damaged_count(copy.log), 0);
            assert_int_equal(copy.test.metrics.log_damaged_ranges, 0);
            assert_int_equal(copy.test.traces[STELE_TRACE_LOG_DAMAGED], 0);
            world_check_readable(&copy, 3, end);
            world_stop(&copy);
            world_open(&copy);
        }
        world_deinit(&copy);
    }
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

/* What retention took before the file of epochs was written leaves nothing that tells of its epochs: the last one that
 * the file has is not that of the log's end, and to compare by it would cut what is committed. */
static void test_epochs_of_an_emptied_log_are_not_guessed(void **state)
{
    struct log_world *w = *state;
    int deleted = 0;
    world_fill(w, 3); /* of epoch 0, which the file has */
    world_append(w, 2, 4);
    struct stele_log_config config = w->open.config;
    config.retention_bytes = 0;
    stele_log_set_config(w->log, &config);
    stele_log_set_high_watermark(w->log, 5);
    assert_ok(stele_log_retain(w->log, &deleted));
    assert_true(deleted > 0);
    assert_int_equal(stele_epoch_cache_latest(stele_log_epochs(w->log)), 4);
    world_reopen(w, 3, 5);
    assert_int_equal(stele_log_start_offset(w->log), 5);
    assert_int_equal(stele_log_end_offset(w->log), 5);
    assert_int_equal(stele_epoch_cache_latest(stele_log_epochs(w->log)), -1);
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

/* --- batches that do not follow --- */

struct stray {
    const char *what;
    int64_t offset; /* of a sound batch that lies behind [0, 5) */
    int32_t epoch;
    bool is_compacted;
    int64_t end; /* of the log when there was no point, and when all was acknowledged */
};

static const struct stray strays[] = {
    {"the next one", 5, 1, false, 6},
    {"one behind a hole", 7, 1, false, 5},
    {"one behind what compaction left out", 7, 1, true, 8},
    {"one again", 4, 1, false, 5},
    {"one again in a compacted log", 4, 1, true, 5},
    {"one of an older epoch", 5, 0, false, 5},
    {"one beyond what an index can hold", (int64_t)INT32_MAX + 1, 1, true, 5},
};

/* Bytes of an earlier life of the file, or of a broken writer, are no batches of this log though their checksums hold.
 * Above the point they are cut; a log that ends in them below it goes on behind them. */
static void test_batches_that_do_not_follow(void **state)
{
    for (size_t i = 0; i < 2 * STELE_ARRAY_LEN(strays); i++) {
        const struct stray *stray = &strays[i / 2];
        bool is_acknowledged = i % 2 == 1, is_sound = stray->end > 5;
        struct log_world *w = *state;
        struct stele_batch_options options = world_options(-1, -1, 0);
        world_open(w);
        world_append(w, 5, 1);
        struct stele_buf *buf = world_build(w, &options, stray->offset);
        stele_batch_stamp(buf->bytes, stray->offset, stray->epoch);
        world_write(w, world_file(0, ".log"), buf->bytes, buf->count, world_pos(w, 5, 0));
        stele_buf_unref(buf);
        w->open.is_compacted = stray->is_compacted;
        world_reopen(w, 0, is_acknowledged ? 6 : 0);
        int64_t end = stele_log_end_offset(w->log);
        if (end != (is_acknowledged && !is_sound ? stele_max_i64(6, end) : stray->end))
            fail_msg("%s: the log ends at %lld", stray->what, (long long)end);
        assert_int_equal(w->report.found_damage, is_acknowledged && !is_sound);
        assert_int_equal(w->report.bytes_cut > 0, !is_acknowledged && !is_sound);
        world_check_readable(w, 0, 5);
        world_append(w, 2, 1);
        world_check_readable(w, end, end + 2);
        world_reopen(w, 0, is_acknowledged ? 6 : 0);
        assert_int_equal(w->report.bytes_cut, 0);
        assert_int_equal(stele_log_end_offset(w->log), end + 2);
        assert_int_equal(world_tear_down(state), 0);
        assert_int_equal(world_set_up(state), 0);
    }
}

/* An empty segment between two others, as a roll of an empty log and a restart leave one, is no hole when the next one
 * begins where it does not. */
static void test_empty_segment_in_the_middle(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 16);
    int64_t second = world_base(w, 1), third = world_base(w, 2);
    world_drop(w);
    world_resize(w, world_file(second, ".log"), 0);
    world_reopen(w, 0, 16); /* acknowledged: damage */
    world_check_damaged(w, second, third - 1);
    world_check_readable(w, 0, second);
    world_check_readable(w, third, 16);
    w->open.is_compacted = true;
    world_reopen(w, 0, 16); /* all of it compacted away */
    assert_int_equal(stele_log_end_offset(w->log), 16);
    int64_t base_offset = -1;
    assert_ok(world_read(w, third, &base_offset));
    assert_int_equal(base_offset, third);
}

/* The first batch of a segment may lie above its base only where offsets may be missing. */
static void test_segment_that_begins_above_its_base(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 16);
    int64_t second = world_base(w, 1);
    world_drop(w);
    assert_ok(world_vfs(w)->ops->rename(world_vfs(w), world_file(0, ".log").text, world_path("kept").text));
    assert_ok(world_vfs(w)->ops->rename(world_vfs(w), world_file(second, ".log").text, world_file(3, ".log").text));
    w->open.is_compacted = true;
    world_reopen(w, 0, 16);
    world_check_untouched(w);
    assert_int_equal(stele_log_start_offset(w->log), 3);
    int64_t base_offset = -1;
    assert_ok(world_read(w, 3, &base_offset));
    assert_int_equal(base_offset, second);
    w->open.is_compacted = false;
    world_reopen(w, 0, 16);
    assert_true(w->report.found_damage);
    assert_int_equal(world_read(w, 3, &base_offset), STELE_DAMAGED_RANGE);
}

/* --- files that cannot be read --- */

struct unreadable {
    const char *name; /* of the file, in the message */
    bool was_clean;
};

/* Whatever cannot be read ends the start with its name and the way out, and nothing is emptied for it: once the disk
 * answers again all is there. */
static void test_unreadable_files_are_named(void **state)
{
    static const struct unreadable files[] = {
        {"00000000000000000000.log", false},
        {"00000000000000000007.log", false},
        {"00000000000000000021.log", true},
        {STELE_HISTORY_FILE, false},
        {STELE_HISTORY_FILE, true},
        {"leader-epoch-checkpoint", true},
        {"leader-epoch-checkpoint", false},
        {"00000000000000000021.index", true},
        {"00000000000000000021.timeindex", true},
        {"00000000000000000000.txnindex", true},
    };
    struct log_world *w = *state;
    world_open(w);
    world_append_txn(w, 7, 0);
    world_append_abort(w, 7);
    world_append(w, 22, 0);
    assert_int_equal(world_last_base(w), 21);
    for (size_t i = 0; i < STELE_ARRAY_LEN(files); i++) {
        struct stele_log *log = NULL;
        char name[32];
        world_stop(w);
        struct path path = world_path(files[i].name);
        int64_t bytes = world_size(w, path);
        w->open.was_clean = files[i].was_clean;
        if (!files[i].was_clean)
            w->open.recovery_point = 0;
        sim_disk_break(w->disk, path.text, SIM_DISK_BIT(SIM_DISK_OPEN) | SIM_DISK_BIT(SIM_DISK_READ), STELE_IO, 0);
        assert_int_equal(stele_log_open(&w->open, &log, &w->report, &w->error), STELE_IO);
        /* Of an index the segment is named. */
        (void)snprintf(name, sizeof(name), "%.20s", files[i].name);
        if (strstr(w->error.text, name) == NULL || strstr(w->error.text, "check the disk") == NULL)
            fail_msg("%s is not named with a way out: %s", files[i].name, w->error.text);
        sim_disk_heal(w->disk);
        assert_int_equal(world_size(w, path), bytes);
        world_open(w);
        assert_int_equal(stele_log_end_offset(w->log), 24);
        world_check_readable(w, 0, 24);
    }
}

/* A file that is larger than a segment can be is not ours to cut. */
static void test_oversized_segment_is_refused(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 3);
    world_drop(w);
    world_resize(w, world_file(0, ".log"), (int64_t)INT32_MAX + 1);
    assert_int_equal(stele_log_open(&w->open, &w->log, &w->report, &w->error), STELE_CORRUPT);
    assert_non_null(strstr(w->error.text, "00000000000000000000.log"));
    assert_non_null(strstr(w->error.text, "larger than a segment"));
    assert_int_equal(world_size(w, world_file(0, ".log")), (int64_t)INT32_MAX + 1);
}

/* Without checkpoints the ranges that history tells of stay what they are: nothing is cut there. */
static void test_damage_is_kept_without_checkpoints(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 16);
    int64_t second = world_base(w, 1);
    world_drop(w);
    world_flip(w, world_file(second, ".log"), 70);
    world_reopen(w, 0, 16);
    world_check_damaged(w, second, second);
    world_reopen(w, 0, -1);
    world_check_damaged(w, second, second);
    world_reopen(w, 1, 1); /* points that an unclean start took back */
    world_check_damaged(w, second, second);
    assert_int_equal(w->report.bytes_cut, 0);
    assert_int_equal(stele_log_end_offset(w->log), 16);
    assert_int_equal(stele_log_high_watermark(w->log), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_torn_tail_is_cut, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_segments_after_a_cut_go, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_hole_between_segments_is_cut, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_hole_in_a_compacted_log_is_kept, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_below_the_point_is_kept, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_below_the_mark_is_kept, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_where_a_truncation_was, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_below_a_truncation, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_in_the_last_segment_rolls, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_log_shorter_than_the_point_is_damage, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_clean_marker_on_a_cut_file_is_not_believed, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_truncation_to_the_damage_mends, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_empty_directory_starts_at_the_log_start, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_log_below_its_start_restarts_there, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_offsets_after_an_unclean_start, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_deletion_is_no_sync, world_set_up, world_tear_down),
        cmocka_unit_test(test_deletion_then_a_loss_of_power),
        cmocka_unit_test(test_truncation_then_a_loss_of_power),
        cmocka_unit_test_setup_teardown(test_rot_below_the_start_takes_nothing, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_clean_start_scans_nothing, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_unclean_start_scans_from_the_recovery_point, world_set_up,
                                        world_tear_down),
        cmocka_unit_test_setup_teardown(test_overlapping_segments, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_epochs_of_an_emptied_log_are_not_guessed, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_overlapping_segment_of_a_newer_epoch_stays, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_batches_that_do_not_follow, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_empty_segment_in_the_middle, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_segment_that_begins_above_its_base, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_unreadable_files_are_named, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_oversized_segment_is_refused, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_damage_is_kept_without_checkpoints, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
