/* Damaged ranges filled again from a copy: by pieces of every size, whatever is damaged, and with a crash or a failure
 * at every step. What is sound is never lost, and in the end the log is what it was, to the byte and in all that is
 * derived from it. */
#include "storage/repair.h"

#include "storage/test/log_world.h"

#include <stdlib.h>
#include <string.h>

enum { BATCHES = 22, BYTES_MAX = 1 << 16 };

/* The log as another replica has it. */
struct peer {
    uint8_t bytes[BYTES_MAX];
    size_t count;
    int64_t end;
    struct world_standing standing;
};

static struct peer peer;

static size_t read_files(struct log_world *w, uint8_t *out_bytes)
{
    size_t count = 0;
    for (int i = 0; i < stele_log_segment_count(w->log); i++) {
        struct path path = world_file(world_base(w, i), ".log");
        count += sim_disk_peek(w->disk, path.text, out_bytes + count, BYTES_MAX - count, 0);
    }
    return count;
}

/* Records, a transaction that is aborted and one that is open, in several segments and epochs. */
static void fill(struct log_world *w)
{
    world_fill(w, 7);
    world_append_txn(w, 5, 0);
    world_append(w, 3, 1);
    world_append_txn(w, 5, 1);
    world_append_abort(w, 5);
    world_append(w, 5, 2);
    world_append_txn(w, 6, 0);
    world_append(w, 3, 2);
    assert_ok(stele_log_flush(w->log));
    stele_log_set_high_watermark(w->log, stele_log_end_offset(w->log));
    peer.end = stele_log_end_offset(w->log);
    assert_int_equal(peer.end, BATCHES);
    peer.count = read_files(w, peer.bytes);
    world_stand(w, &peer.standing);
}

/* Where the batch of an offset lies among the peer's bytes. */
static size_t place_of(int64_t offset)
{
    size_t at = 0;
    for (;;) {
        struct stele_batch_header header;
        assert_ok(stele_batch_header_read(peer.bytes + at, peer.count - at, &header));
        if (stele_batch_last_offset(&header) >= offset)
            return at;
        at += (size_t)stele_batch_size(peer.bytes + at);
    }
}

/* A start that looks at everything. */
static void open_suspect(struct log_world *w)
{
    w->open.is_suspect = true;
    w->open.suspect_offset = 0;
    world_reopen(w, peer.end, peer.end);
}

/* Fetches what is missing, `piece` bytes at a time, as the owner of the log does. False: a call failed. */
static bool repair(struct log_world *w, size_t piece)
{
    struct stele_repair repairs[8];
    int count = stele_log_damaged_count(w->log);
    bool is_good = true;
    assert_in_range(count, 0, STELE_ARRAY_LEN(repairs));
    for (int i = 0; i < count; i++)
        stele_repair_begin(&repairs[i], &w->test.env, WORLD_DIR, w->log, stele_log_damaged(w->log, i));
    world_drop(w);
    for (int i = 0; i < count && is_good; i++) {
        while (!stele_repair_is_done(&repairs[i]) && is_good) {
            size_t at = place_of(repairs[i].next_offset), taken = 0;
            size_t some = stele_min_size(piece, peer.count - at);
            assert_ok(stele_repair_check(&repairs[i], peer.bytes + at, some, &taken));
            assert_in_range(taken, 1, some);
            is_good = stele_repair_write(&repairs[i], peer.bytes + at, taken) == STELE_OK;
        }
    }
    return is_good;
}

static void check_whole(struct log_world *w)
{
    static uint8_t bytes[BYTES_MAX];
    struct world_standing now;
    assert_int_equal(stele_log_damaged_count(w->log), 0);
    assert_int_equal(read_files(w, bytes), peer.count);
    assert_memory_equal(bytes, peer.bytes, peer.count);
    world_stand(w, &now);
    assert_true(world_is_same(&now, &peer.standing));
    world_leave(w, &now);
    world_check_readable(w, 0, peer.end);
}

/* Ways to be damaged. */

static struct path file_of(struct log_world *w, int64_t offset, int64_t *out_pos)
{
    int at = stele_log_segment_count(w->log) - 1;
    while (world_base(w, at) > offset)
        at--;
    *out_pos = world_pos(w, offset, world_base(w, at));
    return world_file(world_base(w, at), ".log");
}

static void flip(struct log_world *w, int64_t offset, int64_t at)
{
    int64_t pos;
    struct path path = file_of(w, offset, &pos);
    world_flip(w, path, pos + at);
}

static void one_value(struct log_world *w)
{
    flip(w, 2, 75);
}

static void one_size(struct log_world *w)
{
    flip(w, 2, 11);
}

static void one_offset(struct log_world *w)
{
    flip(w, 8, 6);
}

static void two_neighbours(struct log_world *w)
{
    flip(w, 1, 75);
    flip(w, 2, 75);
}

static void several(struct log_world *w)
{
    flip(w, 1, 75);
    flip(w, 8, 30);
    flip(w, 14, 75);
}

static void a_marker(struct log_world *w)
{
    flip(w, 12, 66);
}

static void last_of_a_segment(struct log_world *w)
{
    flip(w, world_base(w, 1) - 1, 75);
}

static void first_of_a_segment(struct log_world *w)
{
    flip(w, world_base(w, 1), 75);
}

static void the_last(struct log_world *w)
{
    flip(w, peer.end - 1, 75);
}

static void the_first(struct log_world *w)
{
    flip(w, 0, 75);
}

static void end_of_a_segment(struct log_world *w)
{
    int64_t pos, offset = world_base(w, 2) - 2;
    struct path path = file_of(w, offset, &pos);
    world_resize(w, path, pos + 20);
}

static void garbage_at_the_end(struct log_world *w)
{
    int64_t pos, offset = world_base(w, 2) - 2;
    struct path path = file_of(w, offset, &pos);
    static uint8_t garbage[900];
    memset(garbage, 0x5a, sizeof(garbage));
    world_write(w, path, garbage, sizeof(garbage), pos);
}

static void end_of_the_log(struct log_world *w)
{
    int64_t pos;
    struct path path = file_of(w, peer.end - 2, &pos);
    world_resize(w, path, pos + 20);
}

static void empty_segment(struct log_world *w)
{
    world_resize(w, world_file(world_base(w, 1), ".log"), 0);
}

static void missing_segments(struct log_world *w)
{
    for (int at = 1; at < 3; at++) {
        world_delete(w, world_file(world_base(w, at), ".log"));
        world_delete(w, world_file(world_base(w, at), ".index"));
    }
}

static const struct {
    const char *name;
    void (*damage)(struct log_world *w);
} damages[] = {{"a value", one_value},
               {"a size", one_size},
               {"an offset", one_offset},
               {"two neighbours", two_neighbours},
               {"several", several},
               {"a marker", a_marker},
               {"the last of a segment", last_of_a_segment},
               {"the first of a segment", first_of_a_segment},
               {"the last", the_last},
               {"the first", the_first},
               {"the end of a segment", end_of_a_segment},
               {"garbage at the end", garbage_at_the_end},
               {"the end of the log", end_of_the_log},
               {"an empty segment", empty_segment},
               {"missing segments", missing_segments}};

/* The offsets that are damaged, as bits. */
static uint64_t damaged_bits(const struct stele_log *log)
{
    uint64_t bits = 0;
    for (int i = 0; i < stele_log_damaged_count(log); i++) {
        const struct stele_damaged_range *range = stele_log_damaged(log, i);
        for (int64_t offset = range->first_offset; offset <= range->last_offset; offset++)
            bits |= (uint64_t)1 << offset;
    }
    return bits;
}

static void check_rest_readable(struct log_world *w, uint64_t damaged)
{
    int64_t base;
    for (int64_t offset = 0; offset < peer.end; offset++) {
        enum stele_err err = world_read(w, offset, &base);
        if ((damaged >> offset & 1) == 0)
            assert_ok(err);
        else
            assert_int_equal(err, STELE_DAMAGED_RANGE);
    }
}

static struct log_world *begin(void)
{
    void *state = NULL;
    assert_int_equal(world_set_up(&state), 0);
    fill(state);
    world_sync(state);
    return state;
}

static void finish(struct log_world *w)
{
    void *state = w;
    world_leave(w, &peer.standing);
    assert_int_equal(world_tear_down(&state), 0);
}

/* Whatever is damaged comes back, in pieces of one batch or all at once; a later start knows of no damage. */
static void test_repaired(void **state)
{
    static const size_t pieces[] = {200, 500, BYTES_MAX};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(damages); i++) {
        for (size_t k = 0; k < STELE_ARRAY_LEN(pieces); k++) {
            struct log_world *w = begin();
            damages[i].damage(w);
            open_suspect(w);
            if (stele_log_damaged_count(w->log) == 0)
                fail_msg("%s: no damage is found", damages[i].name);
            check_rest_readable(w, damaged_bits(w->log));
            assert_true(repair(w, pieces[k]));
            open_suspect(w);
            check_whole(w);
            int64_t scanned = w->report.segments_scanned;
            assert_true(scanned >= stele_log_segment_count(w->log) - 1);
            w->open.is_suspect = false;
            world_reopen(w, peer.end, peer.end);
            check_whole(w);
            if (stele_log_segment_count(w->log) > 3) /* history names no damage any more: nothing is read for it */
                assert_in_range(w->report.segments_scanned, 0, 2);
            finish(w);
        }
    }
}

/* What the log's start passed is wanted by nobody, and had by nobody: a range that begins before it is repaired from
 * the start on, whatever else is damaged, and the rest of it is no damage any more, for later starts neither. */
static void test_start_in_the_range(void **state)
{
    int holes = 0;
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(damages); i++) {
        for (int64_t start = 1; start < peer.end; start++) {
            struct log_world *w = begin();
            damages[i].damage(w);
            w->open.log_start_offset = start;
            open_suspect(w);
            for (int k = 0; k < stele_log_damaged_count(w->log); k++)
                holes += stele_log_damaged(w->log, k)->pos_offset < start;
            assert_true(repair(w, BYTES_MAX));
            open_suspect(w);
            for (int life = 0; life < 2; life++) {
                assert_int_equal(stele_log_damaged_count(w->log), 0);
                assert_int_equal(stele_log_start_offset(w->log), start);
                assert_int_equal(stele_log_end_offset(w->log), peer.end);
                world_check_readable(w, start, peer.end);
                w->open.is_suspect = false;
                world_reopen(w, peer.end, peer.end);
            }
            finish(w);
        }
    }
    assert_true(holes > 10);
}

/* A crash at every call, of every kind: what was sound is, what is repaired counts or does not, and the rest is done
 * by the next one. */
static void test_crash_at_every_step(void **state)
{
    static const enum sim_disk_crash_mode modes[] = {SIM_DISK_KILL, SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(damages); i++) {
        for (size_t mode = 0; mode < STELE_ARRAY_LEN(modes); mode++) {
            bool has_struck = true;
            for (int64_t at = 1; has_struck; at++) {
                struct log_world *w = begin();
                damages[i].damage(w);
                open_suspect(w);
                assert_ok(stele_log_flush(w->log)); /* what this start made is on the disk */
                uint64_t damaged = damaged_bits(w->log);
                sim_disk_seed(w->disk, (uint64_t)at * 7 + mode);
                sim_disk_arm(w->disk, at, &(struct sim_disk_fault){.is_crash = true});
                (void)repair(w, 300);
                has_struck = sim_disk_has_struck(w->disk);
                if (has_struck)
                    sim_disk_crash(w->disk, modes[mode]);
                sim_disk_heal(w->disk);
                w->open.is_suspect = at % 2 == 0;
                /* With checkpoints of long ago what is known of damage is in the history alone. */
                world_reopen(w, at % 3 == 0 ? 0 : peer.end, at % 3 == 0 ? 0 : peer.end);
                if (stele_log_end_offset(w->log) != peer.end)
                    fail_msg("%s, crash %d at call %lld: it ends at %lld", damages[i].name, (int)mode, (long long)at,
                             (long long)stele_log_end_offset(w->log));
                if ((damaged_bits(w->log) & ~damaged) != 0)
                    fail_msg("%s, crash %d at call %lld: more is damaged than was", damages[i].name, (int)mode,
                             (long long)at);
                open_suspect(w);
                check_rest_readable(w, damaged_bits(w->log));
                assert_int_equal(damaged_bits(w->log) & ~damaged, 0);
                assert_true(repair(w, 300));
                open_suspect(w);
                check_whole(w);
                finish(w);
            }
        }
    }
}

/* The same where the log's start is in the range: nothing from the start on is lost by a crash, and the hole before it
 * does not hide what was written behind it. */
static void test_crash_with_start_in_the_range(void **state)
{
    static const enum sim_disk_crash_mode modes[] = {SIM_DISK_KILL, SIM_DISK_ORDERED, SIM_DISK_ADVERSARIAL};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(damages); i++) {
        for (int64_t start = 2; start < peer.end; start += 3) {
            bool has_struck = true;
            for (int64_t at = 1; has_struck; at++) {
                struct log_world *w = begin();
                damages[i].damage(w);
                w->open.log_start_offset = start;
                open_suspect(w);
                assert_ok(stele_log_flush(w->log));
                uint64_t damaged = damaged_bits(w->log);
                sim_disk_seed(w->disk, (uint64_t)at);
                sim_disk_arm(w->disk, at, &(struct sim_disk_fault){.is_crash = true});
                (void)repair(w, BYTES_MAX);
                has_struck = sim_disk_has_struck(w->disk);
                if (has_struck)
                    sim_disk_crash(w->disk, modes[(size_t)at % STELE_ARRAY_LEN(modes)]);
                sim_disk_heal(w->disk);
                w->open.is_suspect = at % 2 == 0;
                world_reopen(w, peer.end, peer.end);
                assert_int_equal(stele_log_end_offset(w->log), peer.end);
                assert_int_equal(damaged_bits(w->log) & ~damaged, 0);
                open_suspect(w);
                assert_int_equal(damaged_bits(w->log) & ~damaged, 0);
                assert_true(repair(w, BYTES_MAX));
                open_suspect(w);
                assert_int_equal(stele_log_damaged_count(w->log), 0);
                assert_int_equal(stele_log_end_offset(w->log), peer.end);
                world_check_readable(w, start, peer.end);
                finish(w);
            }
        }
    }
}

/* The n-th call fails, or finds no room, or the n-th allocation: nothing is lost by it, and it is done again. */
static void test_failures(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(damages); i++) {
        for (size_t kind = 0; kind < WORLD_FAULTS; kind++) {
            const struct world_fault *fault = &world_faults[kind];
            bool has_struck = true;
            for (int64_t at = 1; has_struck; at++) {
                struct log_world *w = begin();
                damages[i].damage(w);
                open_suspect(w);
                assert_ok(stele_log_flush(w->log));
                uint64_t damaged = damaged_bits(w->log);
                world_arm(w, fault, at);
                bool is_good = repair(w, 300);
                has_struck = world_has_struck(w, fault);
                assert_true(is_good || has_struck);
                world_disarm(w);
                if (!is_good)
                    sim_disk_crash(w->disk, fault->crash);
                open_suspect(w);
                assert_int_equal(damaged_bits(w->log) & ~damaged, 0);
                check_rest_readable(w, damaged_bits(w->log));
                assert_true(repair(w, 300));
                open_suspect(w);
                check_whole(w);
                finish(w);
            }
        }
    }
}

/* What is not the very range is refused, and nothing is written: damaged itself, of other offsets, of an epoch that
 * cannot lie there, larger than the place. */
static void test_refused(void **state)
{
    (void)state;
    struct log_world *w = begin();
    struct stele_repair repair;
    size_t taken = 0, at = place_of(2), size = (size_t)stele_batch_size(peer.bytes + at);
    uint8_t bytes[600];
    flip(w, 2, 75);
    open_suspect(w);
    assert_int_equal(stele_log_damaged_count(w->log), 1);
    stele_repair_begin(&repair, &w->test.env, WORLD_DIR, w->log, stele_log_damaged(w->log, 0));
    assert_int_equal(stele_repair_check(&repair, peer.bytes + at, size - 1, &taken), STELE_OFFSET_OUT_OF_RANGE);
    assert_int_equal(stele_repair_check(&repair, peer.bytes + at, 0, &taken), STELE_OFFSET_OUT_OF_RANGE);
    assert_int_equal(stele_repair_check(&repair, peer.bytes + place_of(1), 2 * size, &taken),
                     STELE_OFFSET_OUT_OF_RANGE);
    assert_int_equal(stele_repair_check(&repair, peer.bytes + place_of(3), size, &taken), STELE_OFFSET_OUT_OF_RANGE);
    memcpy(bytes, peer.bytes + at, size);
    bytes[75] ^= 1;
    assert_int_equal(stele_repair_check(&repair, bytes, size, &taken), STELE_CORRUPT_MESSAGE);
    memcpy(bytes, peer.bytes + at, size);
    stele_batch_stamp(bytes, 2, 9);
    assert_int_equal(stele_repair_check(&repair, bytes, size, &taken), STELE_OFFSET_OUT_OF_RANGE);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(stele_repair_check(&repair, bytes, sizeof(bytes), &taken), STELE_CORRUPT_MESSAGE);
    repair.end_pos--;
    assert_int_equal(stele_repair_check(&repair, peer.bytes + at, size, &taken), STELE_OFFSET_OUT_OF_RANGE);
    repair.end_pos += 2;
    assert_int_equal(stele_repair_check(&repair, peer.bytes + at, size, &taken), STELE_OFFSET_OUT_OF_RANGE);
    repair.end_pos--;
    assert_ok(stele_repair_check(&repair, peer.bytes + at, size * 3, &taken));
    assert_int_equal(taken, size);
    finish(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repaired),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_start_in_the_range), cmocka_unit_test(test_crash_with_start_in_the_range),
        cmocka_unit_test(test_failures),           cmocka_unit_test(test_crash_at_every_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
