/* Every operation of a log with each of its calls to the disk and to memory failing in turn. After a failure the log is
 * FAILED or as it was, and then does what it was asked; nothing leaks; and a start, after the death of the process or a
 * loss of power, brings back all that was acknowledged. */
#include "proto/api.h"
#include "storage/explain.h"
#include "storage/test/log_world.h"

#include <stdlib.h>
#include <string.h>

enum { EPOCH = 1, FLUSHED = 15, END = 24, IDEMPOTENT = 5, IN_TXN = 7 };

/* What an operation may do to what was acknowledged. */
enum {
    CUTS = 1,           /* offsets from `cut` on may go */
    DROPS = 2,          /* offsets from the start on may go, but not the end */
    RESTARTS = 4,       /* all may go */
    NO_MEMORY_FAILS = 8 /* for want of memory it may leave the log FAILED: it cannot go back */
};

struct failing {
    struct log_world w;
    const char *op, *kind;
    int64_t at;
    struct stele_buf *buf; /* made before memory fails */
    int64_t cut, point_after_cut;
};

struct operation {
    const char *name;
    void (*prepare)(struct failing *f);
    enum stele_err (*run)(struct failing *f);
    int flags;
    bool calls_disk, takes_memory; /* it must meet a fault of this kind */
};

/* --- the log --- */

/* Offsets [0, 24) in four segments: epochs 0 and 1, an aborted transaction, one still open, and a producer with
 * sequence numbers. The last nine are not flushed. */
static struct sim_disk *make_image(void)
{
    struct log_world w;
    world_init(&w, sim_disk_new(1));
    assert_ok(world_vfs(&w)->ops->mkdir(world_vfs(&w), WORLD_DIR));
    assert_ok(world_vfs(&w)->ops->sync_dir(world_vfs(&w), "/"));
    world_open(&w);
    world_append(&w, 6, 0);
    world_append_txn(&w, IN_TXN, 0);
    world_append_txn(&w, IN_TXN, 1);
    world_append_abort(&w, IN_TXN);
    for (int i = 0; i < 4; i++) {
        struct stele_batch_options options = world_options(IDEMPOTENT, i, 0);
        assert_ok(world_put(&w, world_build(&w, &options, stele_log_end_offset(w.log)), STELE_ORIGIN_CLIENT, 0));
    }
    world_append(&w, FLUSHED - 13, EPOCH);
    assert_ok(stele_log_flush(w.log));
    world_append_txn(&w, IN_TXN, 2);
    world_append(&w, END - FLUSHED - 1, EPOCH);
    assert_int_equal(stele_log_end_offset(w.log), END);
    assert_int_equal(stele_log_segment_count(w.log), 4);
    world_drop(&w);
    struct sim_disk *image = sim_disk_copy(w.disk);
    world_deinit(&w);
    return image;
}

static void begin(struct failing *f, struct sim_disk *image, const struct operation *op, bool is_clean)
{
    memset(f, 0, sizeof(*f));
    world_init(&f->w, sim_disk_copy(image));
    world_reopen(&f->w, FLUSHED, END);
    if (is_clean) {
        world_stop(&f->w);
        world_open(&f->w);
        assert_int_equal(f->w.report.segments_scanned, 0);
    }
    assert_false(f->w.report.found_damage);
    assert_int_equal(f->w.report.bytes_cut, 0);
    f->cut = INT64_MAX;
    if (op->prepare != NULL)
        op->prepare(f);
}

static void end(struct failing *f)
{
    stele_buf_unref(f->buf);
    world_deinit(&f->w);
}

/* --- the operations --- */

static enum stele_err put(struct failing *f, enum stele_origin origin, int32_t epoch)
{
    struct stele_appended appended = {.first_offset = -77};
    struct stele_append in = {.bytes = f->buf->bytes, .count = f->buf->count, .origin = origin, .leader_epoch = epoch};
    enum stele_err err = stele_log_append(f->w.log, &in, &appended);
    assert_true(err == STELE_OK ? appended.first_offset >= 0 : appended.first_offset == -77);
    return err;
}

static enum stele_err put_client(struct failing *f)
{
    return put(f, STELE_ORIGIN_CLIENT, EPOCH + 1);
}

static enum stele_err put_marker(struct failing *f)
{
    return put(f, STELE_ORIGIN_COORDINATOR, EPOCH);
}

static enum stele_err put_replicated(struct failing *f)
{
    return put(f, STELE_ORIGIN_REPLICATION, EPOCH + 2);
}

static void build_of(struct failing *f, int64_t producer_id, int32_t sequence, int16_t attributes)
{
    struct stele_batch_options options = world_options(producer_id, sequence, attributes);
    f->buf = world_build(&f->w, &options, stele_log_end_offset(f->w.log));
}

static void build_plain(struct failing *f)
{
    build_of(f, -1, -1, 0);
}

static void build_next_sequence(struct failing *f)
{
    build_of(f, IDEMPOTENT, 4, 0);
}

static void build_duplicate(struct failing *f)
{
    build_of(f, IDEMPOTENT, 3, 0);
}

static void build_new_producer(struct failing *f)
{
    build_of(f, 99, 0, STELE_BATCH_TRANSACTIONAL);
}

static void build_marker(struct failing *f)
{
    f->buf = world_build_abort(&f->w, IN_TXN);
}

/* Three batches of the leader, of two epochs. */
static void build_replicated(struct failing *f)
{
    struct stele_batch_options options = world_options(-1, -1, 0);
    struct stele_buf *batches[3];
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        batches[i] = world_build(&f->w, &options, END + i);
        stele_batch_stamp(batches[i]->bytes, END + i, EPOCH + (i + 1) / 2);
        bytes += batches[i]->count;
    }
    f->buf = stele_buf_new(f->w.test.env.mem, STELE_MEM_LOG, bytes);
    assert_non_null(f->buf);
    for (int i = 0; i < 3; i++) {
        memcpy(f->buf->bytes + f->buf->count, batches[i]->bytes, batches[i]->count);
        f->buf->count += batches[i]->count;
        stele_buf_unref(batches[i]);
    }
}

/* Fills the active segment, so that the next append rolls. */
static void fill_segment(struct failing *f)
{
    struct stele_log_config config = *stele_log_config(f->w.log);
    config.segment_bytes = stele_log_segment(f->w.log, stele_log_segment_count(f->w.log) - 1)->bytes + 10;
    stele_log_set_config(f->w.log, &config);
}

static void build_rolling(struct failing *f)
{
    build_plain(f);
    fill_segment(f);
}

static void build_rolling_marker(struct failing *f)
{
    build_marker(f);
    fill_segment(f);
}

static void build_preallocating(struct failing *f)
{
    build_rolling(f);
    struct stele_log_config config = *stele_log_config(f->w.log);
    config.preallocate = true;
    stele_log_set_config(f->w.log, &config);
}

static enum stele_err roll(struct failing *f)
{
    return stele_log_roll(f->w.log, STELE_REASON_SIZE);
}

static void grow_old(struct failing *f)
{
    struct stele_log_config config = *stele_log_config(f->w.log);
    config.segment_ms = 1000;
    stele_log_set_config(f->w.log, &config);
    f->w.test.wall_ms += 5000;
}

static enum stele_err roll_if_old(struct failing *f)
{
    bool rolled = false;
    enum stele_err err = stele_log_roll_if_old(f->w.log, &rolled);
    assert_true(rolled == (err == STELE_OK));
    return err;
}

static enum stele_err read_all(struct failing *f)
{
    for (int64_t offset = 0; offset < END; offset += 5) {
        struct stele_slice slice = {.pos = -77};
        struct stele_read read = {.offset = offset, .bound = END - 1, .max_bytes = 300, .min_one = true};
        enum stele_err err = stele_log_read(f->w.log, &read, &slice);
        if (err != STELE_OK)
            return err;
        assert_true(slice.bytes > 0 && slice.base_offset == offset);
        stele_slice_release(&slice);
    }
    return STELE_OK;
}

static enum stele_err locate_all(struct failing *f)
{
    for (int64_t offset = 0; offset < END; offset += 5) {
        struct stele_slice slice;
        struct stele_file *file = NULL;
        enum stele_err err = stele_log_locate(f->w.log, offset, 300, &slice);
        if (err != STELE_OK)
            return err;
        assert_true(slice.bytes > 0);
        err = stele_cached_file_pin(slice.file, &file);
        if (err == STELE_OK) {
            err = stele_slice_load(f->w.test.env.mem, file, slice.pos, (int64_t)slice.bytes);
            stele_cached_file_unpin(slice.file);
        }
        stele_slice_release(&slice);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

static enum stele_err list_aborted(struct failing *f)
{
    struct stele_slice slice;
    struct stele_aborted_txn *txns = NULL;
    size_t count = 77;
    struct stele_read read = {.offset = 2, .bound = END, .max_bytes = 200, .min_one = true};
    enum stele_err err = stele_log_read(f->w.log, &read, &slice);
    if (err != STELE_OK)
        return err;
    err = stele_log_aborted(f->w.log, 2, &slice, &txns, &count);
    stele_slice_release(&slice);
    assert_true(err == STELE_OK ? count <= 1 : txns == NULL && count == 77);
    stele_mem_free(f->w.test.env.mem, txns);
    return err;
}

static enum stele_err find_time(struct failing *f)
{
    static const int64_t times[][2] = {{WORLD_TIME + 3, 3},
                                       {WORLD_TIME + END - 2, END - 2},
                                       {WORLD_TIME + END, -1},
                                       {STELE_TIME_MAX_TIMESTAMP, END - 1}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(times); i++) {
        struct stele_time_offset found = {.offset = -77};
        enum stele_err err = stele_log_offset_at(f->w.log, times[i][0], &found);
        assert_int_equal(found.offset, err == STELE_OK ? times[i][1] : -77);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

static void cut_in_the_middle(struct failing *f)
{
    f->cut = 17; /* in the third of four segments */
}

static void cut_in_the_active(struct failing *f)
{
    f->cut = END - 1;
}

static enum stele_err truncate_log(struct failing *f)
{
    return stele_log_truncate(f->w.log, f->cut);
}

static enum stele_err truncate_at_end(struct failing *f)
{
    return stele_log_truncate(f->w.log, END);
}

static void raise_start(struct failing *f)
{
    assert_ok(stele_log_set_start_offset(f->w.log, 9));
}

static void go_above(struct failing *f)
{
    f->cut = 100;
}

static void go_below(struct failing *f)
{
    raise_start(f);
    f->cut = 2;
}

static enum stele_err restart(struct failing *f)
{
    return stele_log_restart_at(f->w.log, f->cut);
}

static enum stele_err set_start(struct failing *f)
{
    return stele_log_set_start_offset(f->w.log, 9);
}

static void retain_bytes(struct failing *f, int64_t bytes)
{
    struct stele_log_config config = *stele_log_config(f->w.log);
    config.retention_bytes = bytes;
    stele_log_set_config(f->w.log, &config);
}

static void retain_some(struct failing *f)
{
    retain_bytes(f, 1000);
}

static void retain_none(struct failing *f)
{
    retain_bytes(f, 0);
}

static enum stele_err retain(struct failing *f)
{
    int deleted = 0;
    return stele_log_retain(f->w.log, &deleted);
}

static void delete_some(struct failing *f)
{
    int deleted = 0;
    retain_some(f);
    assert_ok(stele_log_retain(f->w.log, &deleted));
    assert_true(deleted > 0);
}

static enum stele_err unlink_due(struct failing *f)
{
    int64_t *bases = NULL;
    int count = -77;
    enum stele_err err = stele_log_take_due(f->w.log, INT64_MAX, &bases, &count);
    if (err != STELE_OK) {
        assert_true(bases == NULL && count == -77);
        return err;
    }
    for (int i = 0; i < count && err == STELE_OK; i++)
        err = stele_segment_unlink_deleted(world_vfs(&f->w), WORLD_DIR, bases[i]);
    stele_mem_free(f->w.test.env.mem, bases);
    return err;
}

/* So that there is a new segment, its snapshot and an epoch to sync. */
static void roll_to_new_epoch(struct failing *f)
{
    build_rolling(f);
    assert_ok(put_client(f));
}

static enum stele_err flush(struct failing *f)
{
    return stele_log_flush(f->w.log);
}

static enum stele_err close_log(struct failing *f)
{
    return stele_log_close(f->w.log);
}

static const struct operation operations[] = {
    {"append", build_plain, put_client, 0, true, true},
    {"append of a known producer", build_next_sequence, put_client, 0, true, true},
    {"append of a duplicate", build_duplicate, put_client, 0, false, true},
    {"append of a new producer", build_new_producer, put_client, 0, true, true},
    {"append of a marker", build_marker, put_marker, 0, true, true},
    {"append of a leader's batches", build_replicated, put_replicated, 0, true, true},
    {"append that rolls", build_rolling, put_client, 0, true, true},
    {"append of a marker that rolls", build_rolling_marker, put_marker, 0, true, true},
    {"append that rolls and preallocates", build_preallocating, put_client, 0, true, true},
    {"roll", NULL, roll, 0, true, true},
    {"roll by age", grow_old, roll_if_old, 0, true, true},
    {"read", NULL, read_all, 0, true, false},
    {"locate and load", NULL, locate_all, 0, true, true},
    {"aborted transactions", NULL, list_aborted, 0, true, true},
    {"offset by time", NULL, find_time, 0, true, true},
    {"truncation in the middle", cut_in_the_middle, truncate_log, CUTS | NO_MEMORY_FAILS, true, true},
    {"truncation in the active segment", cut_in_the_active, truncate_log, CUTS | NO_MEMORY_FAILS, true, true},
    {"truncation at the end", NULL, truncate_at_end, 0, false, false},
    {"restart above the end", go_above, restart, RESTARTS | NO_MEMORY_FAILS, true, true},
    {"restart below the start", go_below, restart, RESTARTS | NO_MEMORY_FAILS, true, true},
    {"deletion of records", NULL, set_start, DROPS, false, false},
    {"retention of some", retain_some, retain, DROPS, true, true},
    {"retention of none", retain_none, retain, DROPS, true, true},
    {"retention by start offset", raise_start, retain, DROPS, true, true},
    {"unlinking", delete_some, unlink_due, DROPS, true, true},
    {"flush", NULL, flush, 0, true, true},
    {"flush after a roll", roll_to_new_epoch, flush, 0, true, true},
    {"close", NULL, close_log, NO_MEMORY_FAILS, true, true},
};

/* --- the checks --- */

#define CHECK(f, condition)                                                                                            \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fail_msg("%s, %s at %lld (%s): %s", (f)->op, (f)->kind, (long long)(f)->at,                                \
                     sim_disk_op_name(sim_disk_struck_op((f)->w.disk)), #condition);                                   \
    } while (0)

/* A FAILED log refuses whatever it is asked. */
static void check_refuses(struct failing *f)
{
    int64_t ignored;
    int deleted;
    struct stele_time_offset found;
    CHECK(f, world_read(&f->w, END - 1, &ignored) == STELE_OFFLINE);
    CHECK(f, stele_log_flush(f->w.log) == STELE_OFFLINE);
    CHECK(f, stele_log_truncate(f->w.log, 1) == STELE_OFFLINE);
    CHECK(f, stele_log_retain(f->w.log, &deleted) == STELE_OFFLINE);
    CHECK(f, stele_log_roll(f->w.log, STELE_REASON_SIZE) == STELE_OFFLINE);
    CHECK(f, stele_log_offset_at(f->w.log, STELE_TIME_LATEST, &found) == STELE_OFFLINE);
    CHECK(f, stele_log_close(f->w.log) == STELE_OFFLINE);
}

static int emptied_count; /* logs that were left without a segment */

/* What a checkpoint says of a FAILED log is no more than what its caller had written before a cut (the contract of
 * stele_log_truncate), and asking is safe whatever is left of the log; so is a description. */
static void check_points(struct failing *f, const struct operation *op)
{
    const struct stele_log *log = f->w.log;
    bool is_none = stele_log_segment_count(log) == 0, is_cut = (op->flags & (CUTS | RESTARTS)) != 0;
    CHECK(f, stele_log_first_base(log) == -1);
    CHECK(f, stele_log_point_after_cut(log, f->cut) <= f->cut);
    if (is_cut) {
        int64_t point = (op->flags & RESTARTS) != 0 ? f->cut : f->point_after_cut;
        CHECK(f, stele_log_checkpoint_point(log) <= point);
        CHECK(f, stele_log_recovery_point(log) <= point);
        CHECK(f, stele_log_start_offset(log) <= f->cut);
    }
    struct stele_arena arena;
    struct stele_described_log described;
    stele_arena_init(&arena, f->w.test.env.mem, STELE_MEM_REQUEST, 0);
    struct stele_log_explain explain = {.arena = &arena, .out = &described};
    bool waits = false;
    CHECK(f, !is_none || stele_log_explain_step(f->w.log, &explain, &waits) == STELE_OFFLINE);
    stele_log_explain_drop(&explain);
    stele_arena_deinit(&arena);
    emptied_count += is_none;
}

static void check_done(struct failing *f, const struct world_standing *done)
{
    struct world_standing now;
    stele_log_check(f->w.log);
    world_stand(&f->w, &now);
    CHECK(f, world_is_same(done, &now));
    world_leave(&f->w, &now);
}

/* After a failure that the log survived: it stands where it stood, and the operation now does its work. */
static void check_survivor(struct failing *f, const struct operation *op, const struct world_standing *before,
                           const struct world_standing *done)
{
    struct world_standing now;
    stele_log_check(f->w.log);
    world_stand(&f->w, &now);
    CHECK(f, now.latest_epoch == before->latest_epoch);
    if ((op->flags & DROPS) == 0 || now.start == before->start)
        CHECK(f, world_is_same(before, &now) && now.epochs == before->epochs);
    world_leave(&f->w, &now);
    CHECK(f, op->run(f) == STELE_OK);
    check_done(f, done);
}

/* Starts again and looks for what was acknowledged. */
static void check_reopened(struct failing *f, const struct operation *op, const struct world_standing *at,
                           const struct world_standing *done, enum sim_disk_crash_mode crash)
{
    struct log_world *w = &f->w;
    struct world_standing now;
    int64_t point = at->recovery_point, mark = at->high_watermark, ignored = 0;
    world_drop(w);
    sim_disk_crash(w->disk, crash);
    if (crash != SIM_DISK_KILL)
        mark = stele_min_i64(mark, point);
    if ((op->flags & CUTS) != 0) {
        mark = stele_min_i64(mark, f->cut);
        point =
            stele_min_i64(point, 12); /* no more than the base of the segment that is cut: stele_log_point_after_cut */
    }
    w->open.log_start_offset = stele_min_i64(at->start, f->cut);
    if ((op->flags & RESTARTS) != 0)
        point = mark = w->open.log_start_offset;
    world_reopen(w, point, mark);
    world_stand(w, &now);
    CHECK(f, !w->report.found_damage);
    CHECK(f, now.end >= mark);
    CHECK(f, (op->flags & (DROPS | RESTARTS)) != 0 || now.start == at->start);
    CHECK(f, (op->flags & DROPS) == 0 || now.start <= done->start);
    CHECK(f, world_has_only_known_names(w));
    for (int64_t offset = now.start; offset < now.end; offset++)
        CHECK(f, world_read(w, offset, &ignored) == STELE_OK);
    if (now.end == at->end && now.start == at->start && mark == at->high_watermark && op->flags == 0)
        CHECK(f, world_is_same(at, &now));
    world_leave(w, &now);
}

static bool run_round(struct sim_disk *image, const struct operation *op, const struct world_fault *kind, int64_t at,
                      const struct world_standing *done)
{
    struct failing f;
    struct world_standing before;
    begin(&f, image, op, false);
    f.op = op->name;
    f.kind = kind->name;
    f.at = at;
    world_stand(&f.w, &before);
    f.point_after_cut = stele_log_point_after_cut(f.w.log, f.cut);
    world_arm(&f.w, kind, at);
    enum stele_err err = op->run(&f);
    world_disarm(&f.w);
    bool struck = world_has_struck(&f.w, kind), is_failed = stele_log_is_failed(f.w.log);
    CHECK(&f, struck || err == STELE_OK);
    CHECK(&f, err == STELE_OK || err == kind->err);
    CHECK(&f, err != STELE_IO || is_failed || op->run == unlink_due || op->run == locate_all);
    CHECK(&f, err != STELE_NO_MEMORY || !is_failed || (op->flags & NO_MEMORY_FAILS) != 0);
    CHECK(&f, err != STELE_OK || !is_failed);
    if (is_failed) {
        check_refuses(&f);
        check_points(&f, op);
    } else if (err != STELE_OK) {
        check_survivor(&f, op, &before, done);
    } else {
        check_done(&f, done);
    }
    if (err == STELE_OK && op->flags == 0 && stele_log_end_offset(f.w.log) > before.end)
        before.high_watermark = stele_log_end_offset(f.w.log); /* acknowledged */
    check_reopened(&f, op, &before, done, kind->crash);
    world_leave(&f.w, &before);
    end(&f);
    return struck;
}

/* Where the log stands after the operation without a fault. */
static void run_sound(struct sim_disk *image, const struct operation *op, struct world_standing *out)
{
    struct failing f;
    begin(&f, image, op, false);
    assert_ok(op->run(&f));
    world_stand(&f.w, out);
    uint8_t *copy = malloc(out->producers_bytes);
    assert_non_null(copy);
    memcpy(copy, out->producers, out->producers_bytes);
    world_leave(&f.w, out);
    out->producers = copy;
    end(&f);
}

static void test_every_call_fails(void **state)
{
    (void)state;
    struct sim_disk *image = make_image();
    int64_t sums[2] = {0, 0};
    for (size_t i = 0; i < STELE_ARRAY_LEN(operations); i++) {
        const struct operation *op = &operations[i];
        struct world_standing done;
        int64_t faults[2] = {0, 0};
        run_sound(image, op, &done);
        for (size_t k = 0; k < WORLD_FAULTS; k++) {
            int64_t at = 1;
            while (run_round(image, op, &world_faults[k], at, &done))
                at++;
            faults[world_faults[k].is_memory] += at - 1;
        }
        if ((faults[0] > 0) != op->calls_disk || (faults[1] > 0) != op->takes_memory)
            fail_msg("%s met %d failing calls and %d failing allocations", op->name, (int)faults[0], (int)faults[1]);
        sums[0] += faults[0];
        sums[1] += faults[1];
        free(done.producers);
    }
    assert_true(emptied_count > 0);
    sim_disk_free(image);
    print_message("%d failing calls, %d failing allocations\n", (int)sums[0], (int)sums[1]);
}

static int64_t calls_of(struct failing *f, unsigned ops)
{
    int64_t sum = 0;
    for (int i = 0; i < SIM_DISK_OP_COUNT; i++)
        sum += (ops & SIM_DISK_BIT((unsigned)i)) != 0 ? sim_disk_stats(f->w.disk)->calls[i] : 0;
    return sum;
}

/* A log that is as a clean close left it is closed without a call to the disk; and whatever an operation changed in it
 * is synced by its close. */
static void test_a_close_does_what_is_needed(void **state)
{
    (void)state;
    const unsigned changes = SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_TRUNCATE) |
                             SIM_DISK_BIT(SIM_DISK_RENAME) | SIM_DISK_BIT(SIM_DISK_UNLINK) |
                             SIM_DISK_BIT(SIM_DISK_ALLOCATE);
    const unsigned syncs = SIM_DISK_BIT(SIM_DISK_SYNC) | SIM_DISK_BIT(SIM_DISK_SYNC_DIR);
    struct sim_disk *image = make_image();
    int changed = 0, unchanged = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(operations); i++) {
        struct failing f;
        if (operations[i].run == close_log)
            continue;
        begin(&f, image, &(struct operation){.prepare = NULL}, true);
        f.op = operations[i].name;
        int64_t before = calls_of(&f, changes), start = stele_log_start_offset(f.w.log);
        if (operations[i].prepare != NULL)
            operations[i].prepare(&f);
        CHECK(&f, operations[i].run(&f) == STELE_OK);
        bool is_changed = calls_of(&f, changes) > before || stele_log_start_offset(f.w.log) > start;
        int64_t synced = calls_of(&f, syncs), written = calls_of(&f, changes);
        CHECK(&f, stele_log_close(f.w.log) == STELE_OK);
        CHECK(&f, is_changed == (calls_of(&f, syncs) > synced));
        CHECK(&f, is_changed || calls_of(&f, changes) == written);
        changed += is_changed;
        unchanged += !is_changed;
        end(&f);
    }
    assert_true(changed > 10 && unchanged > 3);
    sim_disk_free(image);
}

/* Led anew and not written to, it is as it was: an epoch without a batch is nobody's after the next start. */
static void test_a_close_of_what_was_only_led(void **state)
{
    (void)state;
    struct sim_disk *image = make_image();
    struct failing f;
    begin(&f, image, &(struct operation){.prepare = NULL}, true);
    assert_ok(stele_log_begin_epoch(f.w.log, EPOCH + 3, END));
    int64_t calls = sim_disk_calls(f.w.disk);
    assert_ok(stele_log_close(f.w.log));
    assert_int_equal(sim_disk_calls(f.w.disk), calls);
    world_drop(&f.w);
    world_open(&f.w);
    assert_int_equal(stele_epoch_cache_latest(stele_log_epochs(f.w.log)), EPOCH);
    assert_int_equal(stele_log_end_offset(f.w.log), END);
    end(&f);
    sim_disk_free(image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_fails),
        cmocka_unit_test(test_a_close_does_what_is_needed),
        cmocka_unit_test(test_a_close_of_what_was_only_led),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
