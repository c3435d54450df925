/* Bit rot at rest in one file of a log: damage is named as narrowly as can be, all other records stay, and what carries
 * no checksum is held against what does. */
#include "storage/checkpoint.h"
#include "storage/test/log_world.h"

#include <stdlib.h>
#include <string.h>

enum { RECORDS = 30, MANY = 60 };

static int set_up(void **state)
{
    return world_set_up(state);
}

/* On a copy of the world's disk. */
static void begin_copy(struct log_world *copy, struct log_world *w)
{
    world_init(copy, sim_disk_copy(w->disk));
}

static void flip_bit(struct log_world *w, struct path path, int64_t bit)
{
    assert_ok(sim_disk_flip(w->disk, path.text, bit / 8, (uint8_t)(1u << bit % 8)));
}

static void check_all_but(struct log_world *w, int64_t damaged, int64_t end)
{
    world_check_readable(w, 0, damaged);
    world_check_damaged(w, damaged, damaged);
    world_check_readable(w, damaged + 1, end);
}

/* Every bit of a batch below the recovery point that its checksum covers: this batch is damaged and no other, for later
 * starts too, clean ones and ones with a later recovery point. The log goes on, and a truncation behind keeps all. */
static void test_every_bit_of_a_batch(void **state)
{
    struct log_world *w = *state;
    world_fill(w, RECORDS);
    int64_t base_offset = world_base(w, 1), bad = base_offset + 2;
    int64_t from = world_pos(w, bad, base_offset), end = world_pos(w, bad + 1, base_offset);
    world_drop(w);
    for (int64_t bit = from * 8; bit < end * 8; bit++) {
        int64_t at = bit / 8 - from;
        struct log_world copy;
        if (at < STELE_BATCH_POS_LENGTH || (at >= STELE_BATCH_POS_EPOCH && at < STELE_BATCH_POS_MAGIC))
            continue; /* base offset and epoch: not covered */
        begin_copy(&copy, w);
        flip_bit(&copy, world_file(base_offset, ".log"), bit);
        world_reopen(&copy, bad + 1, RECORDS);
        assert_int_equal(stele_log_end_offset(copy.log), RECORDS);
        check_all_but(&copy, bad, RECORDS);
        world_append(&copy, 2, 0);
        world_stop(&copy);
        world_open(&copy);
        check_all_but(&copy, bad, RECORDS + 2);
        world_reopen(&copy, RECORDS + 2, RECORDS + 2);
        check_all_but(&copy, bad, RECORDS + 2);
        assert_ok(stele_log_truncate(copy.log, bad + 2));
        check_all_but(&copy, bad, bad + 2);
        assert_int_equal(copy.test.metrics.log_damaged_ranges, 1);
        world_deinit(&copy);
    }
}

static void fill_one_segment(struct log_world *w)
{
    w->open.config.segment_bytes = 4000;
    world_open(w);
    world_append(w, RECORDS, 0);
    assert_ok(stele_log_flush(w->log));
    assert_int_equal(stele_log_segment_count(w->log), 1);
}

/* A sector that takes the ends of several batches: the log goes on with the next whole one. */
static void test_a_sector_of_batches(void **state)
{
    struct log_world *w = *state;
    fill_one_segment(w);
    int64_t from = world_pos(w, 3, 0) + 50, end = world_pos(w, 9, 0) + 10;
    world_drop(w);
    for (int64_t pos = from; pos < end; pos++)
        assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, pos, 0x55));
    world_reopen(w, RECORDS, RECORDS);
    world_check_readable(w, 0, 3);
    world_check_damaged(w, 3, 9);
    world_check_readable(w, 10, RECORDS);
    int64_t base_offset = -1;
    assert_int_equal(stele_log_damaged(w->log, 0)->end_pos, world_pos(w, 10, 0));
    assert_ok(stele_log_truncate(w->log, 12));
    world_append(w, 5, 1);
    world_check_readable(w, 10, 17);
    assert_ok(stele_log_truncate(w->log, 3));
    assert_int_equal(stele_log_damaged_count(w->log), 0);
    world_append(w, 3, 2);
    world_check_readable(w, 0, 6);
    world_reopen(w, 3, 3);
    assert_int_equal(stele_log_damaged_count(w->log), 0);
    assert_ok(world_read(w, 5, &base_offset));
}

/* Rot that no start has seen, of headers in two places: a reader behind it, far from any entry of the index or where
 * every batch has one, is not refused. */
static void read_behind_unseen_damage(struct log_world *w, int index_interval_bytes)
{
    w->open.config.index_interval_bytes = index_interval_bytes;
    fill_one_segment(w);
    static const int64_t bad[] = {11, 4};
    int64_t ignored = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad); i++) {
        int64_t pos = world_pos(w, bad[i], 0);
        for (int k = 0; k < 40; k++)
            assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, pos + k, 0xff));
    }
    world_check_readable(w, 15, 17);
    assert_int_equal(world_read(w, 11, &ignored), STELE_DAMAGED_RANGE);
    world_check_readable(w, 5, 11);
    assert_int_equal(world_read(w, 4, &ignored), STELE_DAMAGED_RANGE);
    world_check_readable(w, 0, 4);
    world_check_readable(w, 12, RECORDS);
    world_reopen(w, RECORDS, RECORDS);
    assert_int_equal(stele_log_damaged_count(w->log), 2);
    world_check_readable(w, 5, 11);
    world_check_readable(w, 12, RECORDS);
}

/* A last offset that rotted and claims what later batches hold: a reader gets them, and a truncation among them keeps
 * those before it. */
static void test_last_offset_that_claims_more(void **state)
{
    struct log_world *w = *state;
    int64_t base_offset = -1;
    w->open.config.index_interval_bytes = 3000; /* no entry behind it */
    fill_one_segment(w);
    int64_t pos = world_pos(w, 4, 0), bytes = world_pos(w, 20, 0);
    assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, pos + STELE_BATCH_POS_ATTRIBUTES + 4, 1));
    assert_ok(world_read(w, 5, &base_offset));
    assert_int_equal(base_offset, 5);
    world_check_readable(w, 0, 4);
    world_check_readable(w, 5, RECORDS);
    assert_ok(stele_log_truncate(w->log, 20));
    assert_int_equal(world_size(w, world_file(0, ".log")), bytes);
    world_append(w, 2, 1);
    world_check_readable(w, 5, 22);
}

/* A size that rotted and leads to the beginning of a later batch: none is passed over. */
static void test_size_that_leads_over_batches(void **state)
{
    struct log_world *w = *state;
    w->open.config.index_interval_bytes = 3000;
    fill_one_segment(w);
    int64_t pos = world_pos(w, 4, 0), length = world_pos(w, 8, 0) - pos - STELE_BATCH_PREFIX_BYTES, base_offset = -1;
    uint8_t bytes[4] = {0, 0, (uint8_t)(length >> 8), (uint8_t)length};
    world_write(w, world_file(0, ".log"), bytes, sizeof(bytes), pos + STELE_BATCH_POS_LENGTH);
    assert_ok(world_read(w, 6, &base_offset));
    assert_int_equal(base_offset, 6);
    world_check_readable(w, 5, RECORDS);
}

static void test_reads_behind_unseen_damage(void **state)
{
    read_behind_unseen_damage(*state, 3000);
}

static void test_reads_behind_unseen_damage_with_entries(void **state)
{
    read_behind_unseen_damage(*state, 0);
}

/* A last offset that rotted: the batch that claims others does not stand for them. */
static void test_last_offset_that_claims_others(void **state)
{
    struct log_world *w = *state;
    w->open.config.index_interval_bytes = 3000;
    fill_one_segment(w);
    for (int64_t bad = 4; bad < 20; bad += 11)
        assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, world_pos(w, bad, 0) + 26, 0x62));
    world_check_readable(w, 5, 15);
    world_check_readable(w, 16, RECORDS);
    world_check_readable(w, 0, 4);
}

/* Rot that no start has seen: a truncation in its segment does not take the sound batches behind it along. */
static void test_truncation_behind_unseen_damage(void **state)
{
    struct log_world *w = *state;
    w->open.config.index_interval_bytes = 3000; /* no entry behind it */
    fill_one_segment(w);
    int64_t pos = world_pos(w, 4, 0), bytes = world_pos(w, 20, 0), ignored = 0;
    for (int i = 0; i < 40; i++)
        assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, pos + i, 0xff));
    assert_int_equal(world_read(w, 4, &ignored), STELE_DAMAGED_RANGE);
    assert_ok(stele_log_truncate(w->log, 20));
    assert_int_equal(world_size(w, world_file(0, ".log")), bytes);
    assert_int_equal(stele_log_end_offset(w->log), 20);
    world_append(w, 2, 1);
    world_check_readable(w, 20, 22);
    world_reopen(w, 20, 20);
    check_all_but(w, 4, 22);
    assert_ok(stele_log_truncate(w->log, 4)); /* at the damage: nothing behind it is wanted */
    assert_int_equal(world_size(w, world_file(0, ".log")), pos);
}

/* Rot that no start has seen, in two places: a truncation to the second takes what rotted there along, so that no
 * reader of the batches between gets it. */
static void truncate_to_second_damage(struct log_world *w, int index_interval_bytes)
{
    w->open.config.index_interval_bytes = index_interval_bytes;
    fill_one_segment(w);
    int64_t first = world_pos(w, 4, 0), second = world_pos(w, 20, 0), end = world_size(w, world_file(0, ".log"));
    for (int64_t pos = first; pos < end; pos = pos + 1 == first + 40 ? second : pos + 1)
        assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, pos, 0xff));
    assert_ok(stele_log_truncate(w->log, 20));
    assert_int_equal(world_size(w, world_file(0, ".log")), second);
    world_check_readable(w, 5, 20);
    world_append(w, 2, 1);
    world_check_readable(w, 20, 22);
    assert_ok(stele_log_flush(w->log));
    world_reopen(w, 22, 22);
    check_all_but(w, 4, 22);
}

static void test_truncation_to_second_damage(void **state)
{
    truncate_to_second_damage(*state, 3000);
}

static void test_truncation_to_second_damage_with_entries(void **state)
{
    truncate_to_second_damage(*state, 0);
}

/* Rot below the log's start, in a segment that a restart of the log or a truncation to its first offset began: it takes
 * nothing of what is alive along, though no flush has reached that. */
static void rot_below_start(struct log_world *w, bool is_restart)
{
    enum { BASE = 50, START = 55, END = 60 };
    w->open.config.segment_bytes = 4000;
    world_open(w);
    world_append(w, RECORDS, 0);
    assert_ok(stele_log_restart_at(w->log, BASE));
    world_append(w, END - BASE, 1);
    if (!is_restart) {
        assert_ok(stele_log_restart_at(w->log, BASE));
        world_append(w, END - BASE + 1, 2);
        assert_ok(stele_log_truncate(w->log, BASE));
        world_append(w, END - BASE, 3);
    }
    assert_ok(sim_disk_flip(w->disk, world_file(BASE, ".log").text, world_pos(w, START, BASE) - 1, 1));
    w->open.log_start_offset = START;
    world_reopen(w, BASE, START);
    assert_int_equal(stele_log_end_offset(w->log), END);
    assert_int_equal(stele_log_damaged_count(w->log), 0);
    world_check_readable(w, START, END);
}

static void test_rot_below_the_start_after_a_restart(void **state)
{
    rot_below_start(*state, true);
}

static void test_rot_below_the_start_after_a_truncation_to_nothing(void **state)
{
    rot_below_start(*state, false);
}

/* Rot of the batch before a truncation, which no start has seen: what is appended from there on is not lost with it
 * when the process dies before the next flush. */
static void test_truncation_right_behind_unseen_damage(void **state)
{
    struct log_world *w = *state;
    fill_one_segment(w);
    assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, world_pos(w, 20, 0) - 1, 1));
    assert_ok(stele_log_truncate(w->log, 20));
    world_append(w, 2, 1);
    world_reopen(w, stele_log_checkpoint_point(w->log), 22);
    assert_int_equal(stele_log_end_offset(w->log), 22);
    check_all_but(w, 19, 22);
}

/* A copy of what a clean stop left, open. */
static void begin_open_copy(struct log_world *copy, struct log_world *w)
{
    begin_copy(copy, w);
    copy->open.config = w->open.config;
    copy->open.was_clean = true;
    copy->open.recovery_point = copy->open.high_watermark = RECORDS;
    world_open(copy);
}

/* Looks at the batch of an offset because somebody could not use it. */
static enum stele_err doubt(struct log_world *w, int64_t offset)
{
    struct stele_log_doubt doubt;
    enum stele_err err = stele_log_doubt_begin(w->log, offset, &doubt);
    if (err != STELE_OK)
        return err;
    stele_log_doubt_work(&doubt);
    return stele_log_doubt_end(w->log, &doubt);
}

static void check_known(struct log_world *w, int64_t bad)
{
    w->report.found_damage = true; /* after the start */
    check_all_but(w, bad, RECORDS);
}

/* Every bit of a batch that rots while the log is open. Whether a read of it still gets bytes or not, in doubt they are
 * looked at, and it is damaged from then on, it and no other, here and at later starts. A doubt of what is sound
 * changes nothing. */
static void test_doubt_of_every_bit(void **state)
{
    struct log_world *w = *state;
    world_fill(w, RECORDS);
    int64_t base_offset = world_base(w, 1), bad = base_offset + 2;
    int64_t from = world_pos(w, bad, base_offset), end = world_pos(w, bad + 1, base_offset);
    world_stop(w);
    for (int64_t bit = from * 8; bit < end * 8; bit++) {
        int64_t at = bit / 8 - from;
        struct log_world copy;
        bool is_uncovered = at < STELE_BATCH_POS_LENGTH || (at >= STELE_BATCH_POS_EPOCH && at < STELE_BATCH_POS_MAGIC);
        begin_open_copy(&copy, w);
        flip_bit(&copy, world_file(base_offset, ".log"), bit);
        for (int64_t offset = bad + 2; offset < RECORDS; offset++)
            assert_int_equal(doubt(&copy, offset), STELE_OK);
        assert_int_equal(stele_log_damage_offset(copy.log), -1);
        if (!is_uncovered) {
            assert_int_equal(doubt(&copy, bad), STELE_DAMAGED_RANGE);
            assert_int_equal(stele_log_damage_offset(copy.log), bad);
            assert_int_equal(stele_log_suspect_offset(copy.log), bad);
            world_check_readable(&copy, 0, bad);
            world_check_readable(&copy, bad + 1, RECORDS);
            if (stele_log_damaged_count(copy.log) > 0) {
                check_known(&copy, bad);
                assert_int_equal(doubt(&copy, bad), STELE_END);
                assert_int_equal(copy.test.metrics.log_damaged_ranges, 1);
            }
            world_append(&copy, 2, 0);
            copy.open.is_suspect = true;
            copy.open.suspect_offset = bad;
            world_reopen(&copy, RECORDS, RECORDS);
            check_all_but(&copy, bad, RECORDS + 2);
            assert_int_equal(copy.test.metrics.log_damaged_ranges, 1);
        }
        world_deinit(&copy);
    }
}

/* What no checksum covers is told by the batches before: an offset or an epoch that falls. */
static void test_doubt_of_what_no_checksum_covers(void **state)
{
    static const struct {
        int64_t at; /* in the batch of offset 9 */
        uint8_t mask;
    } rots[] = {{7, 0x08}, {7, 0x01}, {STELE_BATCH_POS_EPOCH + 3, 2}};
    struct log_world *w = *state;
    w->open.config.segment_bytes = 4000;
    world_open(w);
    world_append(w, RECORDS, 3);
    assert_ok(stele_log_flush(w->log));
    world_stop(w);
    for (size_t i = 0; i < STELE_ARRAY_LEN(rots); i++) {
        struct log_world copy;
        begin_open_copy(&copy, w);
        assert_ok(
            sim_disk_flip(copy.disk, world_file(0, ".log").text, world_pos(&copy, 9, 0) + rots[i].at, rots[i].mask));
        assert_int_equal(doubt(&copy, 9), STELE_DAMAGED_RANGE);
        assert_in_range(stele_log_damage_offset(copy.log), 8, 9);
        copy.open.is_suspect = true;
        copy.open.suspect_offset = stele_log_suspect_offset(copy.log);
        world_reopen(&copy, RECORDS, RECORDS);
        check_all_but(&copy, 9, RECORDS);
        world_deinit(&copy);
    }
}

/* A cut, a deletion or a restart between question and answer: what was looked at is not there any more. */
static void test_doubt_of_what_is_gone(void **state)
{
    struct log_world *w = *state;
    struct stele_log_doubt doubt;
    fill_one_segment(w);
    int64_t pos = world_pos(w, 20, 0) - 1;
    assert_int_equal(stele_log_doubt_begin(w->log, RECORDS, &doubt), STELE_END);
    world_stop(w);
    for (int way = 0; way < 3; way++) {
        struct log_world copy;
        begin_open_copy(&copy, w);
        assert_ok(sim_disk_flip(copy.disk, world_file(0, ".log").text, pos, 1));
        assert_ok(stele_log_doubt_begin(copy.log, 19, &doubt));
        if (way == 0)
            assert_ok(stele_log_truncate(copy.log, 10));
        else if (way == 1)
            assert_ok(stele_log_set_start_offset(copy.log, 20));
        else
            assert_ok(stele_log_restart_at(copy.log, 50));
        stele_log_doubt_work(&doubt);
        assert_ok(stele_log_doubt_end(copy.log, &doubt));
        assert_int_equal(stele_log_damage_offset(copy.log), -1);
        if (way == 1)
            assert_int_equal(stele_log_doubt_begin(copy.log, 19, &doubt), STELE_END);
        world_deinit(&copy);
    }
}

/* Every call and allocation of a doubt fails once: it is not taken for sound, nor for damage that it is not, and asked
 * again it says what is so. */
static void test_doubt_that_fails(void **state)
{
    struct log_world *w = *state;
    fill_one_segment(w);
    int64_t pos = world_pos(w, 20, 0) - 1;
    world_stop(w);
    for (size_t i = 0; i < WORLD_FAULTS; i++) {
        bool has_struck = true;
        for (int64_t at = 1; has_struck; at++) {
            struct log_world copy;
            begin_open_copy(&copy, w);
            assert_ok(sim_disk_flip(copy.disk, world_file(0, ".log").text, pos, 1));
            world_arm(&copy, &world_faults[i], at);
            enum stele_err err = doubt(&copy, 19);
            has_struck = world_has_struck(&copy, &world_faults[i]);
            world_disarm(&copy);
            assert_true(err == STELE_DAMAGED_RANGE || has_struck);
            assert_true(err != STELE_OK && err != STELE_END);
            if (err != STELE_DAMAGED_RANGE && !stele_log_is_failed(copy.log)) {
                assert_int_equal(stele_log_damage_offset(copy.log), -1);
                assert_int_equal(doubt(&copy, 19), STELE_DAMAGED_RANGE);
            }
            if (!stele_log_is_failed(copy.log))
                check_known(&copy, 19);
            world_deinit(&copy);
        }
    }
}

static void fill_epochs(struct log_world *w)
{
    static const int32_t epochs[] = {0, 1, 1, 3, 12, 13, 13, 40, 40, 41};
    world_open(w);
    for (size_t i = 0; i < STELE_ARRAY_LEN(epochs); i++)
        world_append(w, 3, epochs[i]);
    assert_ok(stele_log_flush(w->log));
}

static void check_epochs(struct log_world *w, const int32_t *want)
{
    assert_int_equal(w->report.cut_offset, -1);
    assert_false(w->report.found_damage);
    world_check_readable(w, 0, RECORDS);
    for (int64_t offset = 0; offset < RECORDS; offset++)
        assert_int_equal(stele_epoch_cache_epoch_at(stele_log_epochs(w->log), offset), want[offset]);
}

/* Every bit of the file of epochs, which has no checksum: after any stop it is right, or rebuilt. Where it says less
 * than it could, that is of the first epoch's beginning. */
static void test_every_bit_of_the_epochs(void **state)
{
    struct log_world *w = *state;
    int32_t want[RECORDS];
    fill_epochs(w);
    for (int64_t offset = 0; offset < RECORDS; offset++)
        want[offset] = stele_epoch_cache_epoch_at(stele_log_epochs(w->log), offset);
    world_drop(w);
    int64_t bytes = world_size(w, world_path(STELE_LEADER_EPOCH_FILE));
    for (int64_t bit = 0; bit < bytes * 8; bit++) {
        for (int64_t point = 5; point <= RECORDS; point += RECORDS - 5) {
            struct log_world copy;
            begin_copy(&copy, w);
            flip_bit(&copy, world_path(STELE_LEADER_EPOCH_FILE), bit);
            world_reopen(&copy, point, RECORDS);
            check_epochs(&copy, want);
            world_deinit(&copy);
        }
    }
    world_open(w);
    world_stop(w);
    for (int64_t bit = 0; bit < bytes * 8; bit++) {
        struct log_world copy;
        begin_copy(&copy, w);
        flip_bit(&copy, world_path(STELE_LEADER_EPOCH_FILE), bit);
        copy.open.was_clean = true;
        copy.open.recovery_point = copy.open.high_watermark = RECORDS;
        world_open(&copy);
        check_epochs(&copy, want);
        world_deinit(&copy);
    }
}

/* The file of epochs is gone, and a batch rotted where an epoch begins, in a segment that no scan reads: the epochs of
 * the batches behind it are found all the same. */
static void test_epochs_behind_rot(void **state)
{
    struct log_world *w = *state;
    int32_t want[RECORDS];
    fill_epochs(w);
    for (int64_t offset = 0; offset < RECORDS; offset++)
        want[offset] = stele_epoch_cache_epoch_at(stele_log_epochs(w->log), offset);
    int64_t pos = world_pos(w, 3, 0);
    assert_true(world_base(w, 1) > 5);
    world_drop(w);
    assert_ok(sim_disk_flip(w->disk, world_file(0, ".log").text, pos + STELE_BATCH_HEADER_BYTES, 1));
    world_delete(w, world_path(STELE_LEADER_EPOCH_FILE));
    world_reopen(w, RECORDS, RECORDS);
    for (int64_t offset = 4; offset < RECORDS; offset++)
        assert_int_equal(stele_epoch_cache_epoch_at(stele_log_epochs(w->log), offset), want[offset]);
}

/* Every bit of a history that tells of a deletion from the front: no start deletes what is alive. */
static void test_every_bit_of_the_history(void **state)
{
    struct log_world *w = *state;
    int deleted = 0;
    world_fill(w, MANY);
    int64_t start = world_base(w, 3), left = stele_log_bytes(w->log);
    for (int i = 0; i < 3; i++)
        left -= stele_log_segment(w->log, i)->bytes;
    stele_log_set_high_watermark(w->log, MANY);
    w->open.config.retention_bytes = left;
    stele_log_set_config(w->log, &w->open.config);
    assert_ok(stele_log_retain(w->log, &deleted));
    assert_int_equal(deleted, 3);
    assert_ok(stele_log_flush(w->log));
    world_drop(w);
    int64_t bytes = world_size(w, world_path(STELE_HISTORY_FILE));
    for (int64_t bit = 0; bit < bytes * 8; bit++) {
        struct log_world copy;
        begin_copy(&copy, w);
        flip_bit(&copy, world_path(STELE_HISTORY_FILE), bit);
        world_reopen(&copy, MANY, MANY);
        assert_int_equal(stele_log_start_offset(copy.log), start);
        world_check_readable(&copy, start, MANY);
        world_deinit(&copy);
    }
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, world_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_every_bit_of_a_batch),
        CASE(test_doubt_of_every_bit),
        CASE(test_doubt_of_what_no_checksum_covers),
        CASE(test_doubt_of_what_is_gone),
        CASE(test_doubt_that_fails),
        CASE(test_a_sector_of_batches),
        CASE(test_last_offset_that_claims_more),
        CASE(test_size_that_leads_over_batches),
        CASE(test_reads_behind_unseen_damage),
        CASE(test_last_offset_that_claims_others),
        CASE(test_reads_behind_unseen_damage_with_entries),
        CASE(test_truncation_behind_unseen_damage),
        CASE(test_rot_below_the_start_after_a_restart),
        CASE(test_rot_below_the_start_after_a_truncation_to_nothing),
        CASE(test_truncation_to_second_damage),
        CASE(test_truncation_to_second_damage_with_entries),
        CASE(test_truncation_right_behind_unseen_damage),
        CASE(test_every_bit_of_the_epochs),
        CASE(test_epochs_behind_rot),
        CASE(test_every_bit_of_the_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
