/* The whole log on real files against a trivial model: an array of what was appended. */
#include "base/test/support.h"
#include "host/vfs_posix.h"
#include "proto/api.h"
#include "storage/log.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCHES_MAX = 4000, RECORDS_MAX = 4 };

struct model_batch {
    int64_t base, last, max_timestamp;
    int64_t timestamps[RECORDS_MAX];
    uint8_t bytes[400];
    size_t count;
};

static struct {
    struct stele_test_env test;
    struct stele_vfs *vfs;
    struct stele_file_cache *cache;
    struct stele_log *log;
    struct stele_log_config config;
    struct stele_prng prng;
    char dir[64];
    struct model_batch batches[BATCHES_MAX];
    int count, retained;
    int64_t largest;   /* timestamp ever appended */
    int lower_largest; /* lookups whose answer was lower, since that record is gone */
    int64_t end, start;
    bool is_clean;
    int64_t recovery_point;
} world;

static void remove_dir(const char *dir)
{
    char path[512];
    DIR *names = opendir(dir);
    for (struct dirent *name; names != NULL && (name = readdir(names)) != NULL;) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, name->d_name);
        (void)unlink(path);
    }
    if (names != NULL)
        closedir(names);
    (void)rmdir(dir);
}

static void open_log(void)
{
    struct stele_log_open open = {.env = &world.test.env,
                                  .dir = world.dir,
                                  .name = "model-0",
                                  .config = world.config,
                                  .was_clean = world.is_clean,
                                  .recovery_point = world.recovery_point,
                                  .log_start_offset = world.start,
                                  .high_watermark = world.end};
    struct stele_recovery_report report;
    struct stele_error error = {.text = ""};
    enum stele_err err = stele_log_open(&open, &world.log, &report, &error);
    if (err != STELE_OK)
        fail_msg("open: %s: %s", stele_err_name(err), error.text);
    stele_log_attach(world.log, world.cache);
    assert_int_equal(stele_log_end_offset(world.log), world.end);
    stele_log_set_high_watermark(world.log, world.end);
    stele_log_check(world.log);
}

static void begin(uint64_t seed)
{
    memset(&world, 0, sizeof(world));
    stele_prng_init(&world.prng, seed, 5);
    (void)snprintf(world.dir, sizeof(world.dir), "/tmp/stele-test-log-XXXXXX");
    assert_non_null(mkdtemp(world.dir));
    stele_test_env_init(&world.test, NULL);
    world.vfs = stele_vfs_posix_new(&world.test.mem.mem);
    world.test.env.vfs = world.vfs;
    stele_log_config_default(&world.config);
    world.config.segment_bytes = 2000;
    world.config.segment_index_bytes = 120;
    world.config.index_interval_bytes = 200;
    world.config.retention_ms = -1;
    world.config.file_delete_delay_ms = 0;
    world.cache = stele_file_cache_new(&world.test.env, 4, 1000);
    open_log();
}

static void end(void)
{
    stele_log_free(world.log);
    stele_file_cache_free(world.cache);
    stele_vfs_posix_free(world.vfs);
    stele_test_mem_check_empty(&world.test.mem);
    remove_dir(world.dir);
}

static void append(void)
{
    struct model_batch *model = &world.batches[world.count];
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .codec = (enum stele_codec)stele_prng_below(&world.prng, STELE_CODEC_COUNT),
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    struct stele_batch_builder *builder = stele_batch_builder_new(&world.test.mem.mem, &options);
    struct stele_buf *batch = NULL;
    int count = 1 + (int)stele_prng_below(&world.prng, RECORDS_MAX);
    for (int i = 0; i < count; i++) {
        char value[64];
        int bytes = snprintf(value, sizeof(value), "record %llu", (unsigned long long)stele_prng_u64(&world.prng));
        model->timestamps[i] = 1700000000000 + world.end * 10 + stele_prng_range(&world.prng, -50, 50);
        struct stele_record_in in = {.timestamp = model->timestamps[i], .value = value, .value_bytes = bytes};
        assert_ok(stele_batch_builder_add(builder, &in));
    }
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    struct stele_append in = {.bytes = batch->bytes, .count = batch->count, .origin = STELE_ORIGIN_CLIENT};
    struct stele_appended out;
    assert_ok(stele_log_append(world.log, &in, &out));
    assert_int_equal(out.first_offset, world.end);
    assert_int_equal(out.last_offset, world.end + count - 1);
    model->base = world.end;
    model->last = world.end + count - 1;
    model->max_timestamp = out.max_timestamp;
    world.largest = stele_max_i64(world.largest, out.max_timestamp);
    model->count = batch->count;
    assert_true(batch->count <= sizeof(model->bytes));
    memcpy(model->bytes, batch->bytes, batch->count);
    world.end += count;
    world.count++;
    stele_buf_unref(batch);
    stele_log_set_high_watermark(world.log, world.end);
}

static int batch_of(int64_t offset)
{
    int at = 0;
    while (at < world.count && world.batches[at].last < offset)
        at++;
    return at;
}

/* A read gives whole batches of the model from the one that holds the offset on, cut only at the end. */
static void read_somewhere(void)
{
    struct stele_read read = {.offset = stele_prng_range(&world.prng, world.start, world.end),
                              .max_bytes = stele_prng_below(&world.prng, 3000),
                              .min_one = stele_prng_chance(&world.prng, 1, 2)};
    read.bound = stele_prng_range(&world.prng, read.offset, world.end);
    struct stele_slice slice;
    assert_ok(stele_log_read(world.log, &read, &slice));
    int at = batch_of(read.offset);
    if (slice.bytes == 0) {
        bool may_be_empty = read.offset >= read.bound || read.max_bytes == 0 || at == world.count ||
                            world.batches[at].last >= read.bound || !read.min_one;
        assert_true(may_be_empty);
        stele_slice_release(&slice);
        return;
    }
    uint8_t bytes[4096];
    struct stele_file *file = NULL;
    assert_true(slice.bytes <= sizeof(bytes));
    assert_ok(stele_cached_file_pin(slice.file, &file));
    assert_ok(stele_file_read(file, bytes, slice.bytes, slice.pos));
    stele_cached_file_unpin(slice.file);
    assert_int_equal(slice.base_offset, world.batches[at].base);
    size_t done = 0;
    for (; done < slice.bytes; at++) {
        assert_true(at < world.count);
        size_t left = slice.bytes - done, whole = world.batches[at].count;
        size_t compared = left < whole ? left : whole;
        assert_memory_equal(bytes + done, world.batches[at].bytes, compared);
        assert_true(world.batches[at].last < read.bound); /* nothing of a batch that the bound cuts */
        done += compared;
    }
    stele_slice_release(&slice);
}

static void look_up_time(void)
{
    int64_t want = 1700000000000 + stele_prng_range(&world.prng, world.start * 10 - 100, world.end * 10 + 100);
    struct stele_time_offset found;
    assert_ok(stele_log_offset_at(world.log, want, &found));
    for (int i = 0; i < world.count; i++) {
        for (int64_t k = 0; k <= world.batches[i].last - world.batches[i].base; k++) {
            if (world.batches[i].base + k < world.start || world.batches[i].timestamps[k] < want)
                continue;
            assert_int_equal(found.offset, world.batches[i].base + k);
            assert_true(found.timestamp == world.batches[i].timestamps[k]);
            return;
        }
    }
    assert_int_equal(found.offset, -1);
}

/* The first record with the largest timestamp of those that are left. */
static void look_up_largest_time(void)
{
    struct stele_time_offset found;
    int64_t offset = -1, largest = -1;
    assert_ok(stele_log_offset_at(world.log, STELE_TIME_MAX_TIMESTAMP, &found));
    for (int i = 0; i < world.count; i++) {
        for (int64_t k = 0; k <= world.batches[i].last - world.batches[i].base; k++) {
            if (world.batches[i].base + k < world.start || world.batches[i].timestamps[k] <= largest)
                continue;
            largest = world.batches[i].timestamps[k];
            offset = world.batches[i].base + k;
        }
    }
    world.lower_largest += offset >= 0 && largest < world.largest;
    assert_int_equal(found.offset, offset);
    assert_true(found.timestamp == largest);
}

static void truncate_somewhere(void)
{
    int keep = (int)stele_prng_range(&world.prng, world.count * 3 / 4, world.count);
    int64_t offset = keep == world.count ? world.end : world.batches[keep].base;
    if (offset < world.start)
        return;
    assert_ok(stele_log_truncate(world.log, offset));
    world.count = keep;
    world.end = offset;
    assert_int_equal(stele_log_end_offset(world.log), offset);
}

static void delete_some(void)
{
    int deleted = 0;
    int64_t *bases = NULL;
    int due = 0;
    if (stele_prng_chance(&world.prng, 1, 2)) {
        int64_t offset = stele_prng_range(&world.prng, world.start, world.end);
        assert_ok(stele_log_set_start_offset(world.log, offset));
        assert_int_equal(stele_log_start_offset(world.log), offset);
    } else {
        struct stele_log_config config = world.config;
        config.retention_bytes = 12000;
        stele_log_set_config(world.log, &config);
    }
    assert_ok(stele_log_retain(world.log, &deleted));
    stele_log_set_config(world.log, &world.config);
    world.start = stele_log_start_offset(world.log);
    world.retained += deleted;
    assert_ok(stele_log_take_due(world.log, world.test.mono_us / 1000, &bases, &due));
    for (int i = 0; i < due; i++)
        assert_ok(stele_segment_unlink_deleted(world.vfs, world.dir, bases[i]));
    stele_mem_free(&world.test.mem.mem, bases);
}

static void reopen(void)
{
    world.is_clean = stele_prng_chance(&world.prng, 1, 2);
    if (world.is_clean)
        assert_ok(stele_log_close(world.log));
    else if (stele_prng_chance(&world.prng, 1, 2))
        assert_ok(stele_log_flush(world.log));
    world.recovery_point = stele_log_checkpoint_point(world.log);
    stele_log_free(world.log);
    open_log();
}

static void test_log_equals_model(void **state)
{
    (void)state;
    int rolls = 0, deleted = 0, lower_largest = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        begin(seed);
        for (int step = 0; step < 1500; step++) {
            uint64_t what = stele_prng_below(&world.prng, 100);
            world.test.mono_us += 1000;
            if (what < 45)
                append();
            else if (what < 80)
                read_somewhere();
            else if (what < 88)
                look_up_time();
            else if (what < 92)
                look_up_largest_time();
            else if (what < 94)
                truncate_somewhere();
            else if (what < 97)
                delete_some();
            else
                reopen();
            stele_log_check(world.log);
        }
        rolls += stele_log_segment_count(world.log);
        deleted += world.retained;
        lower_largest += world.lower_largest;
        end();
    }
    assert_true(rolls > 20);
    assert_true(deleted > 20);
    assert_true(lower_largest > 20);
}

/* Appends allocate nothing once the log is warm, but for the doubling of an index. */
static void test_append_allocates_nothing(void **state)
{
    (void)state;
    begin(99);
    world.config.segment_bytes = 1 << 30;
    world.config.segment_index_bytes = 1 << 20;
    stele_log_set_config(world.log, &world.config);
    for (int i = 0; i < 100; i++)
        append();
    struct model_batch *model = &world.batches[50];
    int64_t before = world.test.mem.mem.calls;
    for (int i = 0; i < 10000; i++) {
        struct stele_append in = {.bytes = model->bytes, .count = model->count, .origin = STELE_ORIGIN_CLIENT};
        struct stele_appended out;
        assert_ok(stele_log_append(world.log, &in, &out));
    }
    assert_in_range(world.test.mem.mem.calls - before, 0, 30);
    end();
}

/* Reads allocate nothing, however many batches they span. */
static void test_read_allocates_nothing(void **state)
{
    (void)state;
    begin(98);
    world.config.segment_bytes = 1 << 30;
    world.config.segment_index_bytes = 1 << 20;
    stele_log_set_config(world.log, &world.config);
    for (int i = 0; i < 2000; i++)
        append();
    int64_t before = world.test.mem.mem.calls, bytes = 0;
    for (int i = 0; i < 3000; i++) {
        struct stele_slice slice;
        struct stele_read read = {.offset = stele_prng_range(&world.prng, 0, world.end - 1),
                                  .bound = world.end - 1,
                                  .max_bytes = stele_prng_below(&world.prng, 1 << 20),
                                  .min_one = true};
        assert_ok(stele_log_read(world.log, &read, &slice));
        bytes += (int64_t)slice.bytes;
        stele_slice_release(&slice);
    }
    assert_true(bytes > 3000 * 10000);
    assert_int_equal(world.test.mem.mem.calls - before, 0);
    end();
}

/* While a flush is under way its files stay: what would cut or delete them waits, all else goes on. */
static void test_work_during_a_flush(void **state)
{
    (void)state;
    struct stele_log_flush *flush = NULL, *second = NULL;
    int deleted = -1;
    begin(97);
    for (int i = 0; i < 60; i++)
        append();
    int segments = stele_log_segment_count(world.log);
    assert_true(segments > 3);
    assert_ok(stele_log_flush_begin(world.log, &flush));
    assert_int_equal(stele_log_flush_begin(world.log, &second), STELE_EXISTS);
    assert_int_equal(stele_log_flush(world.log), STELE_EXISTS);
    assert_int_equal(stele_log_truncate(world.log, world.end - 1), STELE_EXISTS);
    assert_int_equal(stele_log_restart_at(world.log, world.end + 10), STELE_EXISTS);
    assert_int_equal(stele_log_close(world.log), STELE_EXISTS);
    assert_false(stele_log_is_failed(world.log));
    assert_int_equal(stele_log_end_offset(world.log), world.end);
    assert_ok(stele_log_truncate(world.log, world.end)); /* epochs alone */
    assert_ok(stele_log_set_start_offset(world.log, stele_log_segment(world.log, 2)->base_offset));
    world.start = stele_log_start_offset(world.log);
    assert_ok(stele_log_retain(world.log, &deleted));
    assert_int_equal(deleted, 0);
    assert_int_equal(stele_log_segment_count(world.log), segments);
    int64_t target = world.end;
    append();
    assert_ok(stele_log_roll(world.log, STELE_REASON_SIZE));
    append();
    for (int i = 0; i < 50; i++)
        read_somewhere();
    enum stele_err result = stele_log_flush_run(flush);
    assert_ok(result);
    stele_log_flush_end(world.log, flush, result);
    assert_int_equal(stele_log_recovery_point(world.log), target);
    assert_ok(stele_log_retain(world.log, &deleted));
    assert_int_equal(deleted, 2);
    assert_ok(stele_log_truncate(world.log, target));
    assert_int_equal(stele_log_end_offset(world.log), target);
    assert_ok(stele_log_close(world.log));
    end();
}

/* True when the slice has a byte of a batch that holds `offset` or a later one. */
static bool reaches(const struct stele_slice *slice, int64_t offset)
{
    int at = 0;
    while (world.batches[at].base != slice->base_offset)
        at++;
    for (size_t bytes = 0; bytes < slice->bytes; bytes += world.batches[at++].count) {
        if (world.batches[at].last >= offset)
            return true;
    }
    return false;
}

/* Of every range and every cut it is known whether the one takes bytes of the other: wherever in a batch or at whatever
 * edge of a segment the cut is, and where the range ends in the middle of a batch. What is not cut reads as before. */
static void test_cut(void **state)
{
    enum { SLICES = 60 };
    struct stele_slice slices[SLICES];
    int counts[2] = {0, 0};
    (void)state;
    begin(96);
    for (int i = 0; i < 60; i++)
        append();
    assert_true(stele_log_segment_count(world.log) > 3);
    for (int i = 0; i < SLICES; i++) {
        struct stele_read read = {.offset = stele_prng_range(&world.prng, 0, world.end - 1),
                                  .bound = stele_prng_range(&world.prng, 0, world.end),
                                  .max_bytes = stele_prng_below(&world.prng, 1200),
                                  .min_one = i % 2 == 0};
        assert_ok(stele_log_read(world.log, &read, &slices[i]));
    }
    for (int64_t offset = world.end; offset >= 0; offset--) {
        struct stele_log_cut cut;
        assert_ok(stele_log_find_cut(world.log, offset, &cut));
        for (int i = 0; i < SLICES; i++) {
            bool is_cut = slices[i].bytes > 0 && reaches(&slices[i], offset);
            assert_int_equal(stele_slice_is_cut(&slices[i], &cut), is_cut);
            counts[is_cut]++;
        }
    }
    assert_true(counts[0] > 1000 && counts[1] > 1000);
    for (int i = 0; i < SLICES; i++)
        stele_slice_release(&slices[i]);
    end();
}

/* A lookup compares O(log n) entries and scans less than one index interval and a batch. */
static void test_lookup_is_bounded(void **state)
{
    (void)state;
    begin(7);
    world.config.segment_bytes = 1 << 30;
    world.config.segment_index_bytes = 1 << 20;
    stele_log_set_config(world.log, &world.config);
    for (int i = 0; i < BATCHES_MAX; i++)
        append();
    int64_t count = 0;
    struct stele_segment *seg = stele_log_segment(world.log, stele_log_segment_count(world.log) - 1);
    assert_ok(stele_index_count(&seg->offsets, &count));
    assert_true(count > 1000);
    for (int i = 0; i < 3000; i++) {
        int64_t entries = world.test.metrics.log_lookup_entries, bytes = world.test.metrics.log_lookup_bytes, pos = 0;
        struct stele_batch_header header;
        assert_ok(
            stele_segment_find(seg, stele_prng_range(&world.prng, seg->base_offset, world.end - 1), &pos, &header));
        assert_in_range(world.test.metrics.log_lookup_entries - entries, 1, 15);
        assert_in_range(world.test.metrics.log_lookup_bytes - bytes, 0, 200 + 400);
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_equals_model),       cmocka_unit_test(test_append_allocates_nothing),
        cmocka_unit_test(test_read_allocates_nothing), cmocka_unit_test(test_lookup_is_bounded),
        cmocka_unit_test(test_work_during_a_flush),    cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
