/* The append and the read path need no memory of their own, whatever a batch holds. */
#include "base/test/support.h"
#include "storage/log.h"
#include "storage/test/disk_files.h"
#include "storage/validate.h"

#include <string.h>

enum { APPENDS = 600, RECORDS = 50 };

static struct {
    struct sim_disk *disk;
    struct stele_test_env test;
    struct stele_file_cache *cache;
    struct stele_log *log;
    struct stele_buf *batch;
} world;

static void open_log(void)
{
    struct stele_log_open open = {.env = &world.test.env, .dir = "/t-0", .name = "t-0", .high_watermark = -1};
    struct stele_recovery_report report;
    struct stele_error error;
    stele_log_config_default(&open.config);
    assert_ok(stele_log_open(&open, &world.log, &report, &error));
    stele_log_attach(world.log, world.cache);
}

static int setup(void **state)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    struct stele_record_in record = {.key = "key", .key_bytes = 3, .value = "a value", .value_bytes = 7};
    (void)state;
    world.disk = sim_disk_new(1);
    disk_make_dir(world.disk, "/t-0");
    stele_test_env_init(&world.test, sim_disk_vfs(world.disk));
    world.cache = stele_file_cache_new(&world.test.env, 8, 1 << 20);
    struct stele_batch_builder *builder = stele_batch_builder_new(&world.test.mem.mem, &options);
    for (int i = 0; i < RECORDS; i++)
        assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &world.batch));
    stele_batch_builder_free(builder);
    open_log();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stele_log_free(world.log);
    stele_buf_unref(world.batch);
    stele_file_cache_free(world.cache);
    stele_test_mem_check_empty(&world.test.mem);
    sim_disk_free(world.disk);
    return 0;
}

/* As a node takes a produce request. */
static void append(void)
{
    struct stele_validated validated;
    struct stele_appended appended;
    memset(world.batch->bytes, 0, 8); /* the offset that the last append stamped */
    assert_ok(stele_validate(&world.test.mem.mem, stele_log_config(world.log), world.batch->bytes, world.batch->count,
                             world.test.wall_ms, &validated, NULL));
    struct stele_append in = {.bytes = world.batch->bytes, .count = validated.bytes, .origin = STELE_ORIGIN_CLIENT};
    assert_ok(stele_log_append(world.log, &in, &appended));
}

static void read_at(int64_t offset)
{
    struct stele_read read = {
        .offset = offset, .bound = stele_log_end_offset(world.log), .max_bytes = 1 << 20, .min_one = true};
    struct stele_slice slice;
    assert_ok(stele_log_read(world.log, &read, &slice));
    assert_true(slice.bytes > 0);
    stele_slice_release(&slice);
}

/* Of 30,000 records appended, only the doublings of the two indexes ask for memory. */
static void test_append(void **state)
{
    (void)state;
    append(); /* opens the file, makes the scratch of headers */
    int64_t before = world.test.mem.mem.calls, entries = stele_log_segment(world.log, 0)->offsets.count;
    for (int i = 0; i < APPENDS; i++)
        append();
    int64_t doublings = 0;
    for (int64_t grown = 1; grown <= stele_log_segment(world.log, 0)->offsets.count - entries; grown *= 2)
        doublings++;
    assert_true(doublings > 3);
    assert_in_range(world.test.mem.mem.calls - before, 0, 2 * doublings);
}

/* A read of any place asks for none at all. */
static void test_read(void **state)
{
    (void)state;
    for (int i = 0; i < APPENDS; i++)
        append();
    read_at(0);
    int64_t before = world.test.mem.mem.calls;
    for (int64_t offset = 0; offset < stele_log_end_offset(world.log); offset += 7)
        read_at(offset);
    assert_int_equal(world.test.mem.mem.calls, before);
}

/* Nor does a recovery for each record or batch: twice the log takes two more doublings of indexes. */
static void test_recovery(void **state)
{
    int64_t calls[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < APPENDS; k++)
            append();
        stele_log_free(world.log);
        int64_t before = world.test.mem.mem.calls;
        open_log();
        calls[i] = world.test.mem.mem.calls - before;
    }
    assert_in_range(calls[1], calls[0] - 2, calls[0] + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_append, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recovery, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
