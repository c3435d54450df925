#include "base/buf.h"
#include "base/cursor.h"
#include "proto/record_batch.h"
#include "storage/checkpoint.h"
#include "storage/test/disk_files.h"
#include "storage/verify.h"

#include <string.h>

#define DIR "/log/t-0"
#define LOG DIR "/00000000000000000000.log"
#define EPOCHS DIR "/" STELE_LEADER_EPOCH_FILE

enum { BATCHES = 4, BATCH_RECORDS = 2, ZEROS = 600, LOG_BYTES_MAX = 4096 };

struct fixture {
    struct sim_disk *disk;
    struct stele_test_env env;
    uint8_t bytes[LOG_BYTES_MAX];
    size_t ends[BATCHES];
};

/* Offsets 0 to 7 in four batches; the last two are of epoch 1. */
static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    f->disk = sim_disk_new(1);
    disk_make_dir(f->disk, "/log");
    disk_make_dir(f->disk, DIR);
    stele_test_env_init(&f->env, sim_disk_vfs(f->disk));
    size_t count = 0;
    for (int i = 0; i < BATCHES; i++) {
        struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                              .base_offset = i * BATCH_RECORDS,
                                              .partition_leader_epoch = i / 2,
                                              .producer_id = -1,
                                              .producer_epoch = -1,
                                              .base_sequence = -1};
        struct stele_batch_builder *builder = stele_batch_builder_new(&f->env.mem.mem, &options);
        struct stele_buf *batch = NULL;
        for (int k = 0; k < BATCH_RECORDS; k++) {
            struct stele_record_in record = {.timestamp = 1000 + i, .value = "value", .value_bytes = 5};
            assert_ok(stele_batch_builder_add(builder, &record));
        }
        assert_ok(stele_batch_builder_finish(builder, &batch));
        memcpy(f->bytes + count, batch->bytes, batch->count);
        count += batch->count;
        f->ends[i] = count;
        stele_buf_unref(batch);
        stele_batch_builder_free(builder);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->env.mem);
    test_free(f);
    return 0;
}

static void ignore(void *arg, const struct stele_finding *finding)
{
    (void)arg;
    (void)finding;
}

static struct stele_verify_report verify(struct fixture *f, const char *path)
{
    struct stele_verify_options options = {.found = ignore};
    struct stele_verify_report report;
    assert_ok(stele_verify(&f->env.env, path, &options, &report));
    return report;
}

struct tail {
    const char *name;
    size_t kept;                /* of the last batch */
    size_t zeros;               /* after it */
    bool is_flipped;            /* a byte of the last batch */
    bool is_followed;           /* by a sound batch */
    const char *points, *marks; /* checkpoints; NULL none */
    bool is_clean;
    int damages, leftovers;
};

#define AT(offset) "0\n1\nt 0 " #offset "\n"

/* What is wrong after the recovery point and the high watermark, at the end of the log and before nothing but zeros, is
 * what a crash left. The same below them, after a clean stop, before sound batches or without a checkpoint is damage.
 */
static void test_tails(void **state)
{
    struct fixture *f = *state;
    size_t last = f->ends[BATCHES - 1] - f->ends[BATCHES - 2];
    const struct tail tails[] = {
        {.name = "whole", .kept = last, .points = AT(4)},
        {.name = "whole, capped at a clean stop", .kept = last, .points = AT(0), .is_clean = true},
        {.name = "whole, a point that no clean stop leaves",
         .kept = last,
         .points = AT(4),
         .is_clean = true,
         .damages = 1},
        {.name = "cut", .kept = last - 1, .points = AT(6), .leftovers = 1},
        {.name = "cut below the point", .kept = last - 1, .points = AT(7), .damages = 1},
        {.name = "cut below the mark", .kept = last - 1, .points = AT(0), .marks = AT(8), .damages = 1},
        {.name = "cut at the mark", .kept = last - 1, .points = AT(0), .marks = AT(6), .leftovers = 1},
        {.name = "cut after a clean stop", .kept = last - 1, .points = AT(6), .is_clean = true, .damages = 1},
        {.name = "cut, no checkpoint", .kept = last - 1, .damages = 1},
        {.name = "cut, another's checkpoint",
         .kept = last - 1,
         .points = "0\n1\nt 1 6\n",
         .damages = 1,
         .leftovers = 1},
        {.name = "cut in its header", .kept = 30, .leftovers = 1},
        {.name = "torn", .kept = last, .is_flipped = true, .points = AT(6), .leftovers = 1},
        {.name = "torn, preallocated",
         .kept = last,
         .zeros = ZEROS,
         .is_flipped = true,
         .points = AT(6),
         .leftovers = 2},
        {.name = "torn below the point", .kept = last, .is_flipped = true, .points = AT(8), .damages = 1},
        {.name = "torn, then a batch",
         .kept = last,
         .is_flipped = true,
         .is_followed = true,
         .points = AT(6),
         .damages = 1},
        {.name = "preallocated", .kept = last, .zeros = ZEROS, .leftovers = 1},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(tails); i++) {
        const struct tail *tail = &tails[i];
        uint8_t bytes[LOG_BYTES_MAX];
        size_t count = f->ends[BATCHES - 2] + tail->kept;
        memcpy(bytes, f->bytes, count);
        bytes[count - 1] ^= tail->is_flipped ? 0x55 : 0;
        memset(bytes + count, 0, tail->zeros);
        count += tail->zeros;
        if (tail->is_followed) {
            memcpy(bytes + count, f->bytes + f->ends[BATCHES - 2], last);
            stele_batch_stamp(bytes + count, BATCHES * BATCH_RECORDS, 1);
            count += last;
        }
        disk_put(f->disk, LOG, bytes, count);
        disk_put_text(f->disk, EPOCHS, "0\n2\n0 0\n1 4\n");
        disk_put_text(f->disk, "/log/" STELE_RECOVERY_POINT_FILE, tail->points == NULL ? "0\n0\n" : tail->points);
        disk_put_text(f->disk, "/log/" STELE_HIGH_WATERMARK_FILE, tail->marks == NULL ? "0\n0\n" : tail->marks);
        if (tail->is_clean)
            disk_put_text(f->disk, "/log/" STELE_CLEAN_SHUTDOWN_FILE, "");
        struct stele_verify_report report = verify(f, "/log");
        if (report.damages != tail->damages || report.crash_leftovers != tail->leftovers)
            fail_msg("%s: %lld damages, %lld leftovers", tail->name, (long long)report.damages,
                     (long long)report.crash_leftovers);
        if (tail->is_clean)
            assert_ok(f->env.env.vfs->ops->unlink(f->env.env.vfs, "/log/" STELE_CLEAN_SHUTDOWN_FILE));
        assert_int_equal(report.files, 3); /* the log and two checkpoints */
    }
}

/* A control batch whose checksum is right but whose record says nothing is damage, also where a crash may have been at
 * work: no crash writes it, and recovery does not take it. */
static void test_markers_that_say_nothing(void **state)
{
    struct fixture *f = *state;
    static const uint8_t commit[] = {0, 0, 0, 1}, cut[] = {0, 0, 0}, value[] = {0, 0, 0, 0, 0, 1}, below[] = {0xff, 0};
    static const struct {
        const uint8_t *key, *value;
        size_t key_bytes, value_bytes;
        int damages;
    } cases[] = {{commit, value, sizeof(commit), sizeof(value), 0},
                 {commit, value, sizeof(commit), sizeof(value) - 1, 1},
                 {commit, below, sizeof(commit), sizeof(below), 1},
                 {cut, value, sizeof(cut), sizeof(value), 1}};
    disk_put_text(f->disk, EPOCHS, "0\n1\n0 0\n");
    disk_put_text(f->disk, "/log/" STELE_RECOVERY_POINT_FILE, AT(0));
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                              .producer_id = 7,
                                              .base_sequence = -1,
                                              .attributes = STELE_BATCH_CONTROL | STELE_BATCH_TRANSACTIONAL};
        struct stele_record_in record = {.timestamp = 1000,
                                         .key = cases[i].key,
                                         .key_bytes = (int32_t)cases[i].key_bytes,
                                         .value = cases[i].value,
                                         .value_bytes = (int32_t)cases[i].value_bytes};
        struct stele_batch_builder *builder = stele_batch_builder_new(&f->env.mem.mem, &options);
        struct stele_buf *batch = NULL;
        assert_ok(stele_batch_builder_add(builder, &record));
        assert_ok(stele_batch_builder_finish(builder, &batch));
        disk_put(f->disk, LOG, batch->bytes, batch->count);
        stele_buf_unref(batch);
        stele_batch_builder_free(builder);
        struct stele_verify_report report = verify(f, "/log");
        assert_int_equal(report.damages, cases[i].damages);
        assert_int_equal(report.crash_leftovers, 0);
    }
}

/* The recovery point of the metadata log is what is committed, which is anywhere up to the end. */
static void test_metadata_point(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *points;
        int damages;
    } cases[] = {{"0\n1\n__cluster_metadata 0 5\n", 0},
                 {"0\n1\n__cluster_metadata 0 8\n", 0},
                 {"0\n1\n__cluster_metadata 0 9\n", 1}};
    disk_make_dir(f->disk, "/metadata");
    disk_make_dir(f->disk, "/metadata/__cluster_metadata-0");
    disk_put(f->disk, "/metadata/__cluster_metadata-0/00000000000000000000.log", f->bytes, f->ends[BATCHES - 1]);
    disk_put_text(f->disk, "/metadata/__cluster_metadata-0/" STELE_LEADER_EPOCH_FILE, "0\n2\n0 0\n1 4\n");
    disk_put_text(f->disk, "/metadata/" STELE_CLEAN_SHUTDOWN_FILE, "");
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_put_text(f->disk, "/metadata/" STELE_RECOVERY_POINT_FILE, cases[i].points);
        assert_int_equal(verify(f, "/metadata").damages, cases[i].damages);
    }
}

/* An epoch above the recovery point need not be in the file yet; below it must. */
static void test_epochs(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *points;
        int damages, leftovers;
    } cases[] = {{AT(4), 0, 1}, {AT(5), 1, 0}, {"0\n0\n", 1, 0}};
    disk_put(f->disk, LOG, f->bytes, f->ends[BATCHES - 1]);
    disk_put_text(f->disk, EPOCHS, "0\n1\n0 0\n");
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_put_text(f->disk, "/log/" STELE_RECOVERY_POINT_FILE, cases[i].points);
        struct stele_verify_report report = verify(f, "/log");
        assert_int_equal(report.damages, cases[i].damages);
        assert_int_equal(report.crash_leftovers, cases[i].leftovers);
    }
}

/* The file of epochs is written with a flush: after a crash it may be older than the log's start. After a clean stop it
 * is not, and it is never newer. */
static void test_epochs_below_the_start(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *epochs, *starts;
        bool is_clean;
        int damages;
    } cases[] = {
        {"0\n2\n0 0\n1 4\n", AT(6), false, 0}, {"0\n1\n1 6\n", AT(6), false, 0},     {"0\n1\n1 9\n", AT(6), false, 1},
        {"0\n2\n0 0\n1 4\n", AT(2), false, 0}, {"0\n2\n0 0\n1 4\n", AT(6), true, 2}, {"0\n1\n1 6\n", AT(6), true, 0},
    };
    disk_put(f->disk, LOG, f->bytes, f->ends[BATCHES - 1]);
    disk_put_text(f->disk, "/log/" STELE_RECOVERY_POINT_FILE, AT(8));
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_put_text(f->disk, EPOCHS, cases[i].epochs);
        disk_put_text(f->disk, "/log/" STELE_LOG_START_FILE, cases[i].starts);
        if (cases[i].is_clean)
            disk_put_text(f->disk, "/log/" STELE_CLEAN_SHUTDOWN_FILE, "");
        struct stele_verify_report report = verify(f, "/log");
        assert_int_equal(report.damages, cases[i].damages);
        if (cases[i].is_clean)
            assert_ok(f->env.env.vfs->ops->unlink(f->env.env.vfs, "/log/" STELE_CLEAN_SHUTDOWN_FILE));
    }
}

/* A log whose records are all gone: the newest epoch has nowhere to start but below. */
static void test_epochs_of_an_emptied_log(void **state)
{
    struct fixture *f = *state;
    disk_put(f->disk, DIR "/00000000000000000008.log", "", 0);
    disk_put_text(f->disk, EPOCHS, "0\n2\n0 0\n1 4\n");
    disk_put_text(f->disk, "/log/" STELE_RECOVERY_POINT_FILE, AT(8));
    assert_int_equal(verify(f, "/log").damages, 0);
    disk_put_text(f->disk, "/log/" STELE_CLEAN_SHUTDOWN_FILE, "");
    assert_int_equal(verify(f, "/log").damages, 2);
    disk_put_text(f->disk, EPOCHS, "0\n1\n1 8\n");
    assert_int_equal(verify(f, "/log").damages, 0);
}

/* A log directory with a file of every kind that is read. */
static void put_all(struct fixture *f)
{
    static const uint8_t index[] = {0, 0, 0, 7, 0, 0, 0, 0}, none[] = {0, 1, 0x48, 0x67, 0x4b, 0xc7, 0, 0, 0, 0};
    uint8_t entry[sizeof(index)];
    memcpy(entry, index, sizeof(index));
    stele_put_i32(entry + 4, (int32_t)f->ends[BATCHES - 2]);
    disk_put(f->disk, LOG, f->bytes, f->ends[BATCHES - 1]);
    disk_put(f->disk, DIR "/00000000000000000000.index", entry, sizeof(entry));
    disk_put(f->disk, DIR "/00000000000000000000.timeindex", "", 0);
    disk_put(f->disk, DIR "/00000000000000000000.txnindex", "", 0);
    disk_put(f->disk, DIR "/00000000000000000008.snapshot", none, sizeof(none));
    disk_put(f->disk, DIR "/00000000000000000000-0000000000.checkpoint", f->bytes, f->ends[0]);
    disk_put_text(f->disk, DIR "/" STELE_PARTITION_METADATA_FILE, "version: 0\ntopic_id: sGbJksYMDlo9WHL8nQXixQ");
    disk_put_text(f->disk, EPOCHS, "0\n2\n0 0\n1 4\n");
    disk_put_text(f->disk, "/log/" STELE_RECOVERY_POINT_FILE, AT(8));
    disk_put_text(f->disk, "/log/" STELE_HIGH_WATERMARK_FILE, AT(8));
    disk_put_text(f->disk, "/log/" STELE_LOG_START_FILE, "0\n0\n");
    disk_put_text(f->disk, "/log/" STELE_CLEANER_OFFSET_FILE, "0\n0\n");
    disk_put_text(f->disk, "/log/" STELE_META_PROPERTIES_FILE, "node.id=1\nversion=1\ncluster.id=c\n");
    disk_put_text(f->disk, "/log/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
}

static const char *const verified[] = {"/log", DIR, LOG, DIR "/00000000000000000008.snapshot"};

/* Without memory verification says so, at every allocation, and holds nothing afterwards. */
static void test_memory_fails(void **state)
{
    struct fixture *f = *state;
    struct stele_verify_options options = {.found = ignore};
    struct stele_verify_report report;
    put_all(f);
    for (size_t i = 0; i < STELE_ARRAY_LEN(verified); i++) {
        enum stele_err err = STELE_NO_MEMORY;
        for (int at = 1; err != STELE_OK; at++) {
            stele_test_mem_fail(&f->env.mem, at, false);
            err = stele_verify(&f->env.env, verified[i], &options, &report);
            assert_true(err == STELE_NO_MEMORY || (err == STELE_OK && !f->env.mem.has_failed));
            stele_test_mem_check_empty(&f->env.mem);
        }
        stele_test_mem_fail(&f->env.mem, 0, false);
        assert_int_equal(report.damages + report.crash_leftovers, 0);
    }
}

struct round {
    struct fixture *f;
    const char *path;
};

static void verify_round(void *arg, struct sim_disk *disk)
{
    struct round *round = arg;
    struct stele_test_env *test = &round->f->env;
    struct stele_verify_options options = {.found = ignore};
    struct stele_verify_report report = {.damages = -1};
    test->env.vfs = sim_disk_vfs(disk);
    enum stele_err err = stele_verify(&test->env, round->path, &options, &report);
    if (sim_disk_has_struck(disk))
        assert_true(err == STELE_IO || (err == STELE_OK && round->path != verified[0]));
    else
        assert_ok(err);
    assert_int_equal(report.damages, err == STELE_OK ? 0 : -1);
    assert_int_equal(sim_disk_in_use(disk), 0);
    stele_test_mem_check_empty(&test->mem);
}

/* A disk that fails is an error of the call, at every call, and no damage; only a directory above the one that is to be
 * verified may be out of reach. */
static void test_disk_fails(void **state)
{
    struct fixture *f = *state;
    struct sim_disk_fault fault = {.err = STELE_IO};
    put_all(f);
    for (size_t i = 0; i < STELE_ARRAY_LEN(verified); i++) {
        struct round round = {.f = f, .path = verified[i]};
        assert_true(sim_disk_each_call(f->disk, &fault, verify_round, &round) > 0);
        f->env.env.vfs = sim_disk_vfs(f->disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_markers_that_say_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_metadata_point, setup, teardown),
        cmocka_unit_test_setup_teardown(test_epochs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_epochs_below_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_epochs_of_an_emptied_log, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_disk_fails, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
