/* A failed sync is not forgotten by the next start in the same boot: what the page cache alone has is written anew
 * before it is believed. */
#include "base/test/support.h"
#include "proto/record_batch.h"
#include "storage/log.h"
#include "storage/resync.h"
#include "storage/test/disk_files.h"

#include <stdio.h>
#include <string.h>

enum { RECORDS = 40, BYTES = 700000 };

static struct sim_disk *disk;
static struct stele_test_env test;
static const char dir[] = "/t-0", mark[] = "/t-0/" STELE_SYNC_FAILED_FILE;

static int setup(void **state)
{
    (void)state;
    disk = sim_disk_new(1);
    stele_test_env_init(&test, sim_disk_vfs(disk));
    sim_disk_allow_unsynced_rename(disk, "*.deleted");
    disk_make_dir(disk, dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(sim_disk_in_use(disk), 0);
    sim_disk_free(disk);
    stele_test_mem_check_empty(&test.mem);
    return 0;
}

static void arm(int64_t at, unsigned ops, enum stele_err err)
{
    sim_disk_arm(disk, at, &(struct sim_disk_fault){.ops = ops, .err = err});
}

/* Each error of a sync leaves the mark and is returned; a good sync leaves none. */
static void test_failed_sync_leaves_the_mark(void **state)
{
    (void)state;
    static const enum stele_err errs[] = {STELE_OK, STELE_IO, STELE_NO_SPACE};
    struct stele_file *file = NULL;
    for (size_t i = 0; i < STELE_ARRAY_LEN(errs); i++) {
        assert_ok(test.env.vfs->ops->open(test.env.vfs, "/t-0/f", STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
        assert_ok(stele_file_write(file, "x", 1, 0));
        arm(errs[i] == STELE_OK ? 0 : 1, SIM_DISK_BIT(SIM_DISK_SYNC), STELE_IO);
        if (errs[i] == STELE_NO_SPACE) {
            arm(0, 0, STELE_IO);
            sim_disk_set_quota(disk, 0); /* the mark needs no room */
            sim_disk_set_quota_at_sync(disk, true);
        }
        assert_int_equal(stele_sync_marked(file, dir), errs[i]);
        assert_int_equal(disk_has(disk, mark), errs[i] != STELE_OK);
        test.env.vfs->ops->close(file);
        assert_ok(stele_resync_done(&test.env, dir));
        assert_false(disk_has(disk, mark));
        sim_disk_heal(disk);
        sim_disk_set_quota_at_sync(disk, false);
    }
    assert_ok(stele_resync_done(&test.env, dir)); /* none is fine */
}

/* A file of many pieces whose sync failed, as far as the cache still has it, is durable after it was written anew. */
static void fail_to_sync_file(uint64_t seed, uint8_t *bytes)
{
    struct stele_file *file = NULL;
    sim_disk_seed(disk, seed);
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + seed);
    assert_ok(test.env.vfs->ops->open(test.env.vfs, "/t-0/f", STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    assert_ok(stele_file_write(file, bytes, BYTES, 0));
    assert_ok(test.env.vfs->ops->sync_dir(test.env.vfs, dir));
    arm(1, SIM_DISK_BIT(SIM_DISK_SYNC), STELE_IO);
    assert_int_equal(stele_sync_marked(file, dir), STELE_IO);
    assert_ok(test.env.vfs->ops->sync(file));
    test.env.vfs->ops->close(file);
    assert_false(sim_disk_is_durable(disk, "/t-0/f", 0, BYTES));
}

static void test_resync_makes_durable(void **state)
{
    (void)state;
    static uint8_t bytes[BYTES], got[BYTES];
    for (uint64_t seed = 1; seed <= 10; seed++) {
        fail_to_sync_file(seed, bytes);
        for (int64_t at = 1;; at++) {
            arm(at, 0, STELE_IO);
            enum stele_err err = stele_resync_file(&test.env, dir, "f");
            assert_int_equal(err, sim_disk_has_struck(disk) ? STELE_IO : STELE_OK);
            if (err == STELE_OK)
                break;
        }
        arm(0, 0, STELE_IO);
        assert_true(sim_disk_is_durable(disk, "/t-0/f", 0, BYTES));
        sim_disk_evict(disk);
        assert_int_equal(disk_read(disk, "/t-0/f", got, sizeof(got)), BYTES);
        assert_memory_equal(bytes, got, BYTES);
    }
    assert_ok(stele_resync_file(&test.env, dir, "none"));
    stele_test_mem_fail(&test.mem, 1, false);
    assert_int_equal(stele_resync_file(&test.env, dir, "f"), STELE_NO_MEMORY);
}

/* --- a log --- */

static struct stele_log *open_log(int64_t recovery_point, enum stele_err want)
{
    struct stele_log_open open = {
        .env = &test.env, .dir = dir, .name = "t-0", .recovery_point = recovery_point, .high_watermark = -1};
    struct stele_recovery_report report;
    struct stele_error error = {.err = STELE_OK};
    struct stele_log *log = NULL;
    stele_log_config_default(&open.config);
    open.config.segment_bytes = 1000;
    open.config.index_interval_bytes = 0;
    enum stele_err err = stele_log_open(&open, &log, &report, &error);
    if (err != STELE_OK && want != STELE_OK)
        return NULL;
    if (err != STELE_OK)
        fail_msg("%s", error.text);
    return log;
}

static void append(struct stele_log *log, int count)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = 7,
                                          .producer_epoch = 0,
                                          .base_sequence = (int32_t)stele_log_end_offset(log)};
    for (int i = 0; i < count; i++, options.base_sequence++) {
        struct stele_batch_builder *builder = stele_batch_builder_new(test.env.mem, &options);
        struct stele_record_in record = {
            .timestamp = test.wall_ms, .value = (const uint8_t *)"value", .value_bytes = 5};
        struct stele_buf *buf = NULL;
        struct stele_appended appended;
        assert_non_null(builder);
        assert_ok(stele_batch_builder_add(builder, &record));
        assert_ok(stele_batch_builder_finish(builder, &buf));
        stele_batch_builder_free(builder);
        struct stele_append in = {.bytes = buf->bytes, .count = buf->count, .origin = STELE_ORIGIN_CLIENT};
        assert_ok(stele_log_append(log, &in, &appended));
        stele_buf_unref(buf);
    }
}

/* Every record is read and whole. */
static void check_records(struct stele_log *log, int64_t want)
{
    int64_t offset = 0;
    assert_int_equal(stele_log_end_offset(log), want);
    assert_int_equal(stele_log_damaged_count(log), 0);
    for (; offset < want; offset++) {
        struct stele_read read = {.offset = offset, .bound = want, .max_bytes = 1, .min_one = true};
        struct stele_slice slice;
        struct stele_batch_header header;
        struct stele_file *file = NULL;
        uint8_t bytes[256];
        assert_ok(stele_log_read(log, &read, &slice));
        assert_in_range(slice.bytes, 1, sizeof(bytes));
        assert_ok(stele_cached_file_pin(slice.file, &file));
        assert_ok(stele_file_read(file, bytes, slice.bytes, slice.pos));
        stele_cached_file_unpin(slice.file);
        assert_ok(stele_batch_check(bytes, slice.bytes, &header));
        assert_int_equal(header.base_offset, offset);
        stele_slice_release(&slice);
    }
}

/* A log of several segments, half of it flushed; the `at`-th sync of the next flush fails. False when there was none.
 */
static bool fail_flush(uint64_t seed, int64_t at, bool is_full, int64_t *out_point)
{
    sim_disk_seed(disk, seed);
    struct stele_log *log = open_log(0, STELE_OK);
    append(log, RECORDS / 2);
    assert_ok(stele_log_flush(log));
    *out_point = stele_log_checkpoint_point(log);
    append(log, RECORDS / 2);
    assert_true(stele_log_segment_count(log) > 3);
    arm(at, SIM_DISK_BIT(SIM_DISK_SYNC), is_full ? STELE_NO_SPACE : STELE_IO);
    enum stele_err err = stele_log_flush(log);
    bool has_struck = sim_disk_has_struck(disk);
    assert_int_equal(err, !has_struck ? STELE_OK : is_full ? STELE_NO_SPACE : STELE_IO);
    assert_int_equal(stele_log_is_failed(log), has_struck);
    if (has_struck) {
        struct stele_append in = {.count = 0};
        struct stele_appended appended;
        assert_int_equal(stele_log_checkpoint_point(log), *out_point);
        assert_int_equal(stele_log_append(log, &in, &appended), STELE_OFFLINE);
        assert_int_equal(stele_log_flush(log), STELE_OFFLINE);
        assert_int_equal(stele_log_close(log), STELE_OFFLINE);
    }
    stele_log_free(log);
    arm(0, 0, STELE_IO);
    return has_struck;
}

/* Whichever sync of a flush fails: the next start in this boot finds all records in the cache, and its flush makes them
 * durable. */
static void test_start_in_the_same_boot(void **state)
{
    int64_t struck = 0;
    teardown(state);
    for (int64_t at = 1;; at++) {
        int64_t point = 0;
        setup(state);
        bool has_struck = fail_flush((uint64_t)at, at, at % 2 == 0, &point);
        assert_int_equal(disk_has(disk, mark), has_struck);
        if (!has_struck)
            break;
        struck++;
        sim_disk_crash(disk, SIM_DISK_KILL);
        struct stele_log *log = open_log(point, STELE_OK);
        assert_false(disk_has(disk, mark));
        assert_int_equal(test.traces[STELE_TRACE_LOG_RESYNCED], 1);
        check_records(log, RECORDS);
        assert_ok(stele_log_flush(log));
        assert_int_equal(stele_log_recovery_point(log), RECORDS);
        point = stele_log_checkpoint_point(log);
        sim_disk_evict(disk);
        check_records(log, RECORDS);
        stele_log_free(log);
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        log = open_log(point, STELE_OK);
        check_records(log, RECORDS);
        assert_int_equal(test.traces[STELE_TRACE_LOG_RESYNCED], 1);
        stele_log_free(log);
        teardown(state);
    }
    assert_true(struck > 8);
}

/* A start that fails while it writes anew, at any of its calls, leaves the doubt to the next one. */
static void test_start_that_fails(void **state)
{
    int64_t failed = 0;
    teardown(state);
    for (int64_t at = 1;; at++) {
        int64_t point = 0;
        setup(state);
        assert_true(fail_flush((uint64_t)at, 1 + at % 8, false, &point));
        arm(at, 0, STELE_IO);
        struct stele_log *log = open_log(point, STELE_IO);
        bool has_struck = sim_disk_has_struck(disk);
        failed += log == NULL;
        arm(0, 0, STELE_IO);
        if (log == NULL)
            log = open_log(point, STELE_OK);
        check_records(log, RECORDS);
        assert_ok(stele_log_flush(log));
        stele_log_free(log);
        sim_disk_crash(disk, SIM_DISK_ADVERSARIAL);
        log = open_log(RECORDS, STELE_OK);
        check_records(log, RECORDS);
        stele_log_free(log);
        if (!has_struck)
            break;
        teardown(state);
    }
    assert_true(failed > 30);
}

/* After a loss of power the cache is gone and the mark, should it have come out, costs a rewrite and no record. */
static void test_start_after_a_loss_of_power(void **state)
{
    int marked = 0;
    teardown(state);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        int64_t point = 0;
        setup(state);
        assert_true(fail_flush(seed, 1, false, &point));
        sim_disk_crash(disk, SIM_DISK_ORDERED);
        bool is_marked = disk_has(disk, mark);
        struct stele_log *log = open_log(point, STELE_OK);
        assert_in_range(stele_log_end_offset(log), point, RECORDS);
        assert_false(disk_has(disk, mark));
        check_records(log, stele_log_end_offset(log));
        marked += is_marked;
        stele_log_free(log);
        if (seed < 60)
            teardown(state);
    }
    assert_in_range(marked, 5, 55);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_failed_sync_leaves_the_mark), CASE(test_resync_makes_durable),
        CASE(test_start_in_the_same_boot),      CASE(test_start_that_fails),
        CASE(test_start_after_a_loss_of_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
