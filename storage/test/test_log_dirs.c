#include "base/buf.h"
#include "proto/metadata_record.h"
#include "storage/log_dirs.h"
#include "storage/resync.h"
#include "storage/test/disk_files.h"

#include <stdio.h>
#include <string.h>

#define METADATA "/a/__cluster_metadata-0"
#define METADATA_LOG METADATA "/00000000000000000000.log"
#define TOPIC_ID "xv8AAQIDBAUGBwgJCgsMDQ"
#define HEX "0123456789abcdef0123456789abcdef"

struct fixture {
    struct sim_disk *disk;
    struct stele_test_env env;
    const char *paths[3];
    int count;
    int32_t node_id; /* that the opener says it is */
    struct stele_error error;
    uint8_t format[512];
    size_t format_count;
};

/* A batch whose one record is `value`. */
static size_t make_batch(struct fixture *f, const void *value, size_t count, uint8_t *out_bytes)
{
    struct stele_batch_options options = {
        .codec_level = STELE_CODEC_LEVEL_DEFAULT, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    struct stele_record_in record = {.timestamp = 1, .value = value, .value_bytes = (int32_t)count};
    struct stele_buf *batch = NULL;
    struct stele_batch_builder *builder = stele_batch_builder_new(&f->env.mem.mem, &options);
    assert_non_null(builder);
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    size_t bytes = batch->count;
    memcpy(out_bytes, batch->bytes, bytes);
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);
    return bytes;
}

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    struct stele_arena arena;
    uint8_t *value = NULL;
    size_t count = 0;
    f->disk = sim_disk_new(1);
    stele_test_env_init(&f->env, sim_disk_vfs(f->disk));
    sim_disk_allow_unsynced_rename(f->disk, "*/" STELE_PARTITION_METADATA_FILE);
    f->paths[0] = "/a";
    f->paths[1] = "/b/c";
    f->paths[2] = "/d";
    f->count = 2;
    f->node_id = -1;
    stele_arena_init(&arena, &f->env.mem.mem, STELE_MEM_LOG, 0);
    struct stele_metadata_record record = {.kind = STELE_METADATA_FORMAT,
                                           .u.format = {.format = "stele", .level = 1, .cluster_id = "c"}};
    assert_ok(stele_metadata_record_encode(&arena, &record, &value, &count));
    f->format_count = make_batch(f, value, count, f->format);
    stele_arena_deinit(&arena);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(sim_disk_violation_text(f->disk), "");
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->env.mem);
    test_free(f);
    return 0;
}

static enum stele_err open_dirs(struct fixture *f, struct stele_log_dirs **out_dirs)
{
    struct stele_log_dirs_options options = {
        .env = &f->env.env, .paths = f->paths, .count = f->count, .reserve_bytes = 1000, .node_id = f->node_id};
    f->error.text[0] = 0;
    return stele_log_dirs_open(&options, out_dirs, &f->error);
}

/* What a first start does: FORMAT in the metadata log, synced, then meta.properties. */
static void put_format(struct fixture *f)
{
    disk_make_dir(f->disk, METADATA);
    disk_put(f->disk, METADATA_LOG, f->format, f->format_count);
}

static void format_dirs(struct fixture *f)
{
    struct stele_log_dirs *dirs = NULL;
    assert_ok(open_dirs(f, &dirs));
    put_format(f);
    assert_ok(stele_log_dirs_format(dirs, "MkU3OEVBNTcwNTJENDM2Qg", 7));
    stele_log_dirs_close(dirs);
}

static void put_partition(struct fixture *f, const char *dir)
{
    char path[200];
    disk_make_dir(f->disk, dir);
    (void)snprintf(path, sizeof(path), "%s/" STELE_PARTITION_METADATA_FILE, dir);
    disk_put_text(f->disk, path, "version: 0\ntopic_id: " TOPIC_ID);
}

/* An empty place becomes ours: directories made durably, identity written once, and the same at the next start. */
static void test_first_start(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_meta_properties properties, second;
    assert_ok(open_dirs(f, &dirs));
    assert_int_equal(stele_log_dirs_count(dirs), 2);
    assert_string_equal(stele_log_dirs_path(dirs, 1), "/b/c");
    assert_int_equal(stele_log_dirs_found_count(dirs), 0);
    assert_false(stele_log_dirs_identity(dirs, &properties));
    put_format(f);
    assert_int_equal(stele_log_dirs_format(dirs, "0123456789012345678901234567890123456789012345678901234567890123", 7),
                     STELE_INVALID_ARGUMENT);
    assert_ok(stele_log_dirs_format(dirs, "MkU3OEVBNTcwNTJENDM2Qg", 7));
    assert_true(stele_log_dirs_identity(dirs, &properties));
    stele_log_dirs_close(dirs);
    sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
    assert_ok(open_dirs(f, &dirs));
    assert_true(stele_log_dirs_identity(dirs, &second));
    assert_string_equal(second.cluster_id, "MkU3OEVBNTcwNTJENDM2Qg");
    assert_int_equal(second.node_id, 7);
    assert_string_equal(second.directory_id, properties.directory_id);
    assert_int_equal(strlen(second.directory_id), 22);
    assert_true(disk_has(f->disk, "/b/c/" STELE_META_PROPERTIES_FILE));
    stele_log_dirs_close(dirs);
}

/* A directory whose name a killed start left unsynced is made durable by the next one. */
static void test_unsynced_directory(void **state)
{
    struct fixture *f = *state;
    for (int64_t at = 1;; at++) {
        struct stele_log_dirs *dirs = NULL;
        struct sim_disk *before = f->disk;
        f->disk = sim_disk_copy(before);
        f->env.env.vfs = sim_disk_vfs(f->disk);
        sim_disk_arm(f->disk, at, &(struct sim_disk_fault){.is_crash = true});
        if (open_dirs(f, &dirs) == STELE_OK)
            stele_log_dirs_close(dirs);
        bool has_struck = sim_disk_has_struck(f->disk);
        sim_disk_crash(f->disk, SIM_DISK_KILL);
        assert_ok(open_dirs(f, &dirs));
        stele_log_dirs_close(dirs);
        for (int i = 0; i < f->count; i++)
            assert_true(sim_disk_is_durable(f->disk, f->paths[i], 0, 0));
        sim_disk_free(f->disk);
        f->disk = before;
        f->env.env.vfs = sim_disk_vfs(before);
        if (!has_struck)
            break;
    }
}

/* A first start that a crash breaks off at any point can be repeated. */
static void test_first_start_crashes(void **state)
{
    static const char *const torn[] = {"", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", NULL};
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    disk_make_dir(f->disk, "/a");
    assert_ok(open_dirs(f, &dirs));
    stele_log_dirs_close(dirs);
    disk_make_dir(f->disk, METADATA);
    assert_ok(open_dirs(f, &dirs));
    stele_log_dirs_close(dirs);
    for (size_t i = 0; i < STELE_ARRAY_LEN(torn); i++) {
        if (torn[i] != NULL)
            disk_put(f->disk, METADATA_LOG, torn[i], i == 0 ? 0 : 16);
        else
            disk_put(f->disk, METADATA_LOG, f->format, f->format_count - 9);
        assert_ok(open_dirs(f, &dirs));
        assert_false(stele_log_dirs_identity(dirs, &(struct stele_meta_properties){0}));
        stele_log_dirs_close(dirs);
    }
    memset(f->format + 70, 0, f->format_count - 70);
    disk_put(f->disk, METADATA_LOG, f->format, f->format_count);
    assert_ok(open_dirs(f, &dirs));
    stele_log_dirs_close(dirs);
}

#define KAFKA_PROPERTIES "version=1\nnode.id=1\ncluster.id=k\ndirectory.id=" TOPIC_ID "\n"

static void make_formatted(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    disk_put_text(f->disk, "/a/" STELE_META_PROPERTIES_FILE, KAFKA_PROPERTIES);
    disk_put_text(f->disk, "/a/bootstrap.checkpoint", "x");
}

static void make_partitions(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    put_partition(f, "/a/t-0");
}

static void make_other_metadata(struct fixture *f)
{
    uint8_t bytes[256];
    disk_make_dir(f->disk, "/a");
    disk_make_dir(f->disk, METADATA);
    disk_put(f->disk, METADATA_LOG, bytes, make_batch(f, "\x01\x0c\x00something", 12, bytes));
}

static void make_control_metadata(struct fixture *f)
{
    /* A commit marker (facts 13 C) stands for the leader change that a real one begins with. */
    uint8_t bytes[256];
    size_t count = stele_test_hex("0000000000000067000000420000000502b61125c50030000000000000018bcfe569900000018bcfe569"
                                  "9000000000000010920003ffffffff000000012000000008000000010c00000000000900",
                                  bytes, sizeof(bytes));
    make_formatted(f);
    disk_make_dir(f->disk, METADATA);
    disk_put(f->disk, METADATA_LOG, bytes, count);
}

static void make_empty_metadata(struct fixture *f)
{
    make_formatted(f);
    disk_make_dir(f->disk, METADATA);
    disk_put(f->disk, METADATA_LOG, "", 0);
}

static void make_old_properties(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    disk_put_text(f->disk, "/a/" STELE_META_PROPERTIES_FILE, "version=0\nbroker.id=1\n");
}

static void make_foreign_second(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    put_format(f);
    disk_put_text(f->disk, "/a/" STELE_META_PROPERTIES_FILE, "version=1\nnode.id=1\ncluster.id=k\n");
    disk_make_dir(f->disk, "/b");
    disk_make_dir(f->disk, "/b/c");
    disk_put_text(f->disk, "/b/c/" STELE_META_PROPERTIES_FILE, "version=1\nnode.id=2\ncluster.id=k\n");
}

static void make_unnamed_second(struct fixture *f)
{
    disk_make_dir(f->disk, "/b");
    disk_make_dir(f->disk, "/b/c");
    put_partition(f, "/b/c/t-0");
}

static void make_damaged(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    put_format(f);
    f->format[80] ^= 1;
    disk_put(f->disk, METADATA_LOG, f->format, f->format_count);
    put_partition(f, "/a/t-0");
}

static void make_copy(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    put_format(f);
    disk_put_text(f->disk, "/a/" STELE_META_PROPERTIES_FILE, KAFKA_PROPERTIES);
    disk_make_dir(f->disk, "/b");
    disk_make_dir(f->disk, "/b/c");
    disk_put_text(f->disk, "/b/c/" STELE_META_PROPERTIES_FILE, KAFKA_PROPERTIES);
}

static void make_bad_properties(struct fixture *f)
{
    disk_make_dir(f->disk, "/a");
    put_format(f);
    disk_put_text(f->disk, "/a/" STELE_META_PROPERTIES_FILE, "version=1\nnode.id=1\n");
}

/* A directory that is not ours, or damaged, is refused before a single call that changes something. */
static void test_refused_untouched(void **state)
{
    static const struct {
        void (*make)(struct fixture *f);
        enum stele_err err;
        const char *name;
    } cases[] = {
        {make_formatted, STELE_FOREIGN, "/a"},
        {make_partitions, STELE_FOREIGN, "/a"},
        {make_other_metadata, STELE_FOREIGN, "/a"},
        {make_control_metadata, STELE_FOREIGN, "/a"},
        {make_empty_metadata, STELE_FOREIGN, "/a"},
        {make_old_properties, STELE_FOREIGN, "/a"},
        {make_foreign_second, STELE_FOREIGN, "/b/c"},
        {make_unnamed_second, STELE_FOREIGN, "/b/c"},
        {make_damaged, STELE_CORRUPT, METADATA_LOG},
        {make_copy, STELE_CORRUPT, "/b/c"},
        {make_bad_properties, STELE_CORRUPT, "/a/" STELE_META_PROPERTIES_FILE},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture *f;
        struct stele_log_dirs *dirs = NULL;
        (void)state;
        (void)setup((void **)&f);
        cases[i].make(f);
        if (disk_has(f->disk, "/a"))
            disk_put_text(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
        int64_t before = disk_changes(f->disk);
        assert_int_equal(open_dirs(f, &dirs), cases[i].err);
        assert_int_equal(disk_changes(f->disk), before);
        assert_non_null(strstr(f->error.text, cases[i].name));
        assert_null(dirs);
        (void)teardown((void **)&f);
    }
}

/* A second start on a directory in use, or one named twice, is refused with its name. */
static void test_locks(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL, *second = NULL;
    format_dirs(f);
    disk_put_text(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
    assert_ok(open_dirs(f, &dirs));
    disk_put_text(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
    assert_int_equal(open_dirs(f, &second), STELE_LOCKED);
    assert_non_null(strstr(f->error.text, "/a"));
    assert_true(disk_has(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE));
    stele_log_dirs_close(dirs);
    f->paths[1] = "/a";
    assert_int_equal(open_dirs(f, &second), STELE_INVALID_ARGUMENT);
    f->paths[1] = "/b/c";
    assert_ok(open_dirs(f, &dirs));
    stele_log_dirs_close(dirs);
    stele_log_dirs_close(NULL);
}

/* Partitions of all directories are found in order, with their points and the marker of their own directory; what is
 * no partition is left alone. */
static void test_found(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    put_partition(f, "/a/t-10");
    put_partition(f, "/b/c/t-9");
    put_partition(f, "/b/c/a.b-c-0");
    disk_make_dir(f->disk, "/a/new-0"); /* a crash came before its partition.metadata */
    put_partition(f, "/a/u-0." HEX "-stray");
    put_partition(f, "/a/v-0." HEX "-future");
    disk_make_dir(f->disk, "/a/lost+found");
    disk_put_text(f->disk, "/a/file-0", "no directory");
    disk_put_text(f->disk, "/b/c/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
    disk_put_text(f->disk, "/b/c/" STELE_RECOVERY_POINT_FILE, "0\n2\nt 9 90\nt 10 1\n");
    disk_put_text(f->disk, "/b/c/" STELE_LOG_START_FILE, "0\n1\nt 9 5\n");
    disk_put_text(f->disk, "/b/c/" STELE_HIGH_WATERMARK_FILE, "0\n1\nt 9 80\n");
    disk_put_text(f->disk, "/a/" STELE_RECOVERY_POINT_FILE, "0\n1\nt 10 7\n");
    assert_ok(open_dirs(f, &dirs));
    static const struct {
        const char *topic;
        int32_t partition;
        int dir;
        int64_t recovery, start, high;
        bool was_clean, has_id;
    } want[] = {
        {"__cluster_metadata", 0, 0, 0, 0, -1, false, false},
        {"a.b-c", 0, 1, 0, 0, -1, true, true},
        {"new", 0, 0, 0, 0, -1, false, false},
        {"t", 9, 1, 90, 5, 80, true, true},
        {"t", 10, 0, 7, 0, -1, false, true},
    };
    assert_int_equal(stele_log_dirs_found_count(dirs), STELE_ARRAY_LEN(want));
    for (int i = 0; i < (int)STELE_ARRAY_LEN(want); i++) {
        const struct stele_found_log *found = stele_log_dirs_found(dirs, i);
        assert_string_equal(found->topic, want[i].topic);
        assert_true(found->partition == want[i].partition && found->dir == want[i].dir &&
                    found->recovery_point == want[i].recovery && found->log_start_offset == want[i].start &&
                    found->high_watermark == want[i].high && found->was_clean == want[i].was_clean);
        assert_int_equal(!stele_uuid_is_zero(&found->topic_id), want[i].has_id);
    }
    assert_false(disk_has(f->disk, "/b/c/" STELE_CLEAN_SHUTDOWN_FILE));
    assert_true(disk_has(f->disk, "/a/u-0." HEX "-stray"));
    assert_int_equal(stele_log_dirs_pick(dirs), 1); /* two against three */
    stele_log_dirs_close(dirs);
}

/* A damaged checkpoint is traced and counts as absent, and the other files still count. */
static void test_bad_checkpoints(void **state)
{
    static const char *const names[] = {STELE_RECOVERY_POINT_FILE, STELE_LOG_START_FILE, STELE_HIGH_WATERMARK_FILE};
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    put_partition(f, "/a/t-0");
    for (size_t bad = 0; bad < STELE_ARRAY_LEN(names); bad++) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
            char path[100];
            (void)snprintf(path, sizeof(path), "/a/%s", names[i]);
            disk_put_text(f->disk, path, i == bad ? "0\n1\nt 0\n" : "0\n1\nt 0 44\n");
        }
        f->env.traces[STELE_TRACE_CHECKPOINT_BAD] = 0;
        assert_ok(open_dirs(f, &dirs));
        assert_int_equal(f->env.traces[STELE_TRACE_CHECKPOINT_BAD], 1);
        const struct stele_found_log *found = stele_log_dirs_found(dirs, 1);
        assert_int_equal(found->recovery_point, bad == 0 ? 0 : 44);
        assert_int_equal(found->log_start_offset, bad == 1 ? 0 : 44);
        assert_int_equal(found->high_watermark, bad == 2 ? -1 : 44);
        stele_log_dirs_close(dirs);
    }
}

/* Whatever a crash leaves of a new partition, the next start works and finds it as it was or without an id. */
static void test_create_crashes(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_uuid id;
    char path[STELE_PATH_BYTES], topic[16];
    int with_id = 0, without_id = 0;
    format_dirs(f);
    assert_ok(stele_uuid_parse(TOPIC_ID, 22, &id));
    for (int round = 0; round < 200; round++) {
        (void)snprintf(topic, sizeof(topic), "t%d", round);
        assert_ok(open_dirs(f, &dirs));
        assert_ok(stele_log_dirs_create(dirs, 0, topic, 0, &id, path));
        stele_log_dirs_close(dirs);
        sim_disk_crash(f->disk, (enum sim_disk_crash_mode)(round % 3));
    }
    assert_ok(open_dirs(f, &dirs));
    for (int i = 1; i < stele_log_dirs_found_count(dirs); i++) {
        const struct stele_uuid *found = &stele_log_dirs_found(dirs, i)->topic_id;
        bool is_missing = stele_uuid_is_zero(found);
        assert_true(is_missing || stele_uuid_equal(found, &id));
        with_id += !is_missing;
        without_id += is_missing;
    }
    stele_log_dirs_close(dirs);
    assert_true(with_id > 10 && without_id > 10 && with_id + without_id < 200);
}

/* A damaged partition.metadata and a partition in two places are refused by name, and the markers stay. */
static void test_refused_partitions(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    put_partition(f, "/a/t-0");
    disk_put_text(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
    disk_put_text(f->disk, "/a/" STELE_RECOVERY_POINT_FILE, "0\n1\nt 0 1\n");
    disk_put_text(f->disk, "/a/t-0/" STELE_PARTITION_METADATA_FILE, "version: 0\ntopic_id: ??8AAQIDBAUGBwgJCgsMDQ");
    assert_int_equal(open_dirs(f, &dirs), STELE_CORRUPT);
    assert_non_null(strstr(f->error.text, "/a/t-0/" STELE_PARTITION_METADATA_FILE));
    disk_put_text(f->disk, "/a/t-0/" STELE_PARTITION_METADATA_FILE, "version: 0\ntopic_id: " TOPIC_ID);
    put_partition(f, "/b/c/t-0");
    assert_int_equal(open_dirs(f, &dirs), STELE_CORRUPT);
    assert_non_null(strstr(f->error.text, "t-0 is in /a and in /b/c"));
    assert_true(disk_has(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE));
}

/* Deletions that a stop broke off are finished, and only they. */
static void test_deletions(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    put_partition(f, "/a/t-0." HEX "-delete");
    disk_put_text(f->disk, "/a/t-0." HEX "-delete/00000000000000000000.log", "x");
    put_partition(f, "/a/t-1." HEX "-delete");
    put_partition(f, "/a/t-2");
    assert_ok(open_dirs(f, &dirs));
    assert_false(disk_has(f->disk, "/a/t-0." HEX "-delete"));
    assert_false(disk_has(f->disk, "/a/t-1." HEX "-delete"));
    assert_true(disk_has(f->disk, "/a/t-2"));
    assert_int_equal(stele_log_dirs_found_count(dirs), 2);
    stele_log_dirs_close(dirs);
}

/* A partition goes to the directory with fewest, its files are Kafka's, and once synced a crash does not take them. */
static void test_create(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_uuid id;
    char path[STELE_PATH_BYTES] = "", name[STELE_TOPIC_NAME_MAX + 1];
    format_dirs(f);
    assert_ok(stele_uuid_parse(TOPIC_ID, 22, &id));
    assert_ok(open_dirs(f, &dirs));
    assert_int_equal(stele_log_dirs_pick(dirs), 1); /* the metadata log is in the first */
    assert_ok(stele_log_dirs_create(dirs, 1, "t", 0, &id, path));
    assert_string_equal(path, "/b/c/t-0");
    disk_assert_text(f->disk, "/b/c/t-0/" STELE_PARTITION_METADATA_FILE, "version: 0\ntopic_id: " TOPIC_ID);
    assert_int_equal(stele_log_dirs_create(dirs, 1, "t", 0, &id, path), STELE_EXISTS);
    assert_int_equal(stele_log_dirs_create(dirs, 1, "../t", 0, &id, path), STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_log_dirs_create(dirs, 1, "t", -1, &id, path), STELE_INVALID_ARGUMENT);
    memset(name, 'x', sizeof(name));
    name[STELE_TOPIC_NAME_MAX] = 0;
    assert_int_equal(stele_log_dirs_create(dirs, 1, name, 100000, &id, path), STELE_TOO_LARGE);
    assert_int_equal(stele_log_dirs_pick(dirs), 0);
    disk_set_space(f->disk, 10);
    assert_int_equal(stele_log_dirs_create(dirs, 0, "t", 1, &id, path), STELE_NO_SPACE);
    assert_false(disk_has(f->disk, "/a/t-1"));
    disk_set_space(f->disk, -1);
    assert_ok(stele_log_dirs_create(dirs, 0, "t", 1, &id, path));
    stele_log_dirs_close(dirs);
    assert_ok(open_dirs(f, &dirs));
    assert_int_equal(stele_log_dirs_found_count(dirs), 3);
    assert_true(stele_uuid_equal(&stele_log_dirs_found(dirs, 2)->topic_id, &id));
    stele_log_dirs_fail(dirs, 1, "test");
    stele_log_dirs_fail(dirs, 1, "test");
    assert_int_equal(f->env.traces[STELE_TRACE_DIR_FAILED], 1);
    assert_int_equal(stele_log_dirs_create(dirs, 1, "t", 5, &id, path), STELE_OFFLINE);
    assert_int_equal(stele_log_dirs_mark_clean(dirs, 1, 41), STELE_OFFLINE);
    stele_log_dirs_close(dirs);
}

/* The life that stopped cleanly is known when every directory says the same, and only at the start after it. */
static void test_clean_epoch(void **state)
{
    static const struct {
        int64_t epochs[2]; /* -2: no marker */
        int64_t known;
    } cases[] = {{{41, 41}, 41}, {{41, 40}, -1}, {{41, -2}, -1}, {{-2, 41}, -1}, {{-1, -1}, -1}, {{0, 0}, 0}};
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_uuid ids[2], again;
    format_dirs(f);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        assert_ok(open_dirs(f, &dirs));
        assert_int_equal(stele_log_dirs_clean_epoch(dirs), -1);
        for (int dir = 0; dir < 2; dir++) {
            if (cases[i].epochs[dir] != -2)
                assert_ok(stele_log_dirs_mark_clean(dirs, dir, cases[i].epochs[dir]));
            assert_true(stele_log_dirs_id(dirs, dir, &ids[dir]));
        }
        stele_log_dirs_close(dirs);
        assert_ok(open_dirs(f, &dirs));
        assert_int_equal(stele_log_dirs_clean_epoch(dirs), cases[i].known);
        assert_true(stele_log_dirs_id(dirs, 1, &again) && stele_uuid_equal(&again, &ids[1]));
        assert_false(stele_uuid_equal(&ids[0], &ids[1]));
        stele_log_dirs_fail(dirs, 1, "test");
        assert_int_equal(stele_log_dirs_clean_epoch(dirs), -1);
        stele_log_dirs_close(dirs);
    }
}

/* A partition that was taken from the node while its directory was offline, and given to it again, is in two when that
 * is back: it is where it was made last. */
static void test_made_anew_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct stele_uuid id;
    char path[STELE_PATH_BYTES];
    assert_ok(stele_uuid_parse(TOPIC_ID, strlen(TOPIC_ID), &id));
    format_dirs(f);
    assert_ok(open_dirs(f, &dirs));
    assert_ok(stele_log_dirs_create(dirs, 1, "t", 0, &id, path));
    stele_log_dirs_fail(dirs, 1, "test");
    assert_ok(stele_log_dirs_create(dirs, 0, "t", 0, &id, path));
    assert_ok(stele_log_dirs_create(dirs, 0, "u", 0, &id, path));
    stele_log_dirs_close(dirs);
    for (int life = 0; life < 2; life++) {
        assert_ok(open_dirs(f, &dirs));
        for (int i = 0; i < stele_log_dirs_found_count(dirs); i++)
            assert_int_equal(stele_log_dirs_found(dirs, i)->dir, 0);
        assert_false(disk_has(f->disk, "/b/c/t-0"));
        stele_log_dirs_close(dirs);
    }
}

/* A failed sync is known until a later life has served, also after the partition's own mark is gone. */
static void test_failed_sync_is_remembered(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    put_partition(f, "/b/c/t-0");
    assert_ok(open_dirs(f, &dirs));
    assert_false(stele_log_dirs_has_failed_sync(dirs));
    stele_log_dirs_close(dirs);
    assert_ok(stele_resync_mark(f->env.env.vfs, "/b/c/t-0"));
    for (int life = 0; life < 2; life++) {
        assert_ok(open_dirs(f, &dirs));
        assert_true(stele_log_dirs_has_failed_sync(dirs));
        assert_ok(stele_resync_done(&f->env.env, "/b/c/t-0"));
        if (life == 1)
            assert_ok(stele_log_dirs_mark_served(dirs, 12));
        assert_int_equal(stele_log_dirs_has_failed_sync(dirs), life == 0);
        stele_log_dirs_close(dirs);
    }
    assert_ok(open_dirs(f, &dirs));
    assert_false(stele_log_dirs_has_failed_sync(dirs));
    stele_log_dirs_close(dirs);
}

/* A checkpoint round writes the three files of each live directory, and a clean stop is seen at the next start. */
static void test_checkpoint(void **state)
{
    static const struct stele_log_points points[] = {
        {0, "z", 3, 100, 10, 90, 0}, {1, "a", 0, 50, 50, 50, 50}, {0, "b", 0, 7, 0, -1, 0}};
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    assert_ok(open_dirs(f, &dirs));
    assert_ok(stele_log_dirs_checkpoint(dirs, points, 3));
    disk_assert_text(f->disk, "/a/" STELE_RECOVERY_POINT_FILE, "0\n2\nb 0 7\nz 3 100\n");
    disk_assert_text(f->disk, "/a/" STELE_LOG_START_FILE, "0\n1\nz 3 10\n");
    disk_assert_text(f->disk, "/a/" STELE_HIGH_WATERMARK_FILE, "0\n1\nz 3 90\n");
    disk_assert_text(f->disk, "/b/c/" STELE_RECOVERY_POINT_FILE, "0\n1\na 0 50\n");
    disk_assert_text(f->disk, "/b/c/" STELE_LOG_START_FILE, "0\n0\n");
    assert_ok(stele_log_dirs_mark_clean(dirs, 0, 41));
    stele_log_dirs_close(dirs);
    sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
    assert_ok(open_dirs(f, &dirs));
    assert_true(stele_log_dirs_found(dirs, 0)->was_clean);
    assert_false(disk_has(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE));
    disk_set_space(f->disk, 3);
    assert_int_equal(stele_log_dirs_checkpoint(dirs, points, 3), STELE_NO_SPACE);
    assert_false(stele_log_dirs_is_offline(dirs, 0));
    disk_set_space(f->disk, -1);
    stele_test_mem_fail(&f->env.mem, 1, false);
    assert_int_equal(stele_log_dirs_checkpoint(dirs, points, 3), STELE_NO_MEMORY);
    assert_false(stele_log_dirs_is_offline(dirs, 0));
    disk_fail(f->disk, 1, STELE_IO, false);
    assert_int_equal(stele_log_dirs_checkpoint(dirs, points, 3), STELE_IO);
    assert_true(stele_log_dirs_is_offline(dirs, 0));
    assert_false(stele_log_dirs_is_offline(dirs, 1));
    assert_int_equal(stele_log_dirs_pick(dirs), 1);
    stele_log_dirs_close(dirs);
}

/* Space below the reserve is told once, and its return too. */
static void test_reserve(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    assert_ok(open_dirs(f, &dirs));
    static const struct {
        int64_t space;
        bool is_full;
        int full, freed;
    } cases[] = {{1000, false, 0, 0}, {999, true, 1, 0}, {5, true, 1, 0}, {1000, false, 1, 1}, {0, true, 2, 1}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_set_space(f->disk, cases[i].space);
        stele_log_dirs_measure(dirs, 1);
        assert_int_equal(stele_log_dirs_is_full(dirs, 1), cases[i].is_full);
        assert_int_equal(f->env.traces[STELE_TRACE_DIR_FULL], cases[i].full);
        assert_int_equal(f->env.traces[STELE_TRACE_DIR_FREED], cases[i].freed);
    }
    stele_log_dirs_close(dirs);
}

/* Another node's directories are refused before anything is taken from them. */
static void test_other_node(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f); /* of node 7 */
    disk_put_text(f->disk, "/a/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
    f->node_id = 8;
    assert_int_equal(open_dirs(f, &dirs), STELE_FOREIGN);
    assert_non_null(strstr(f->error.text, "belongs to node 7, this is node 8"));
    f->node_id = 7;
    put_partition(f, "/a/t-0");
    assert_ok(open_dirs(f, &dirs));
    assert_true(stele_log_dirs_found(dirs, 0)->was_clean || stele_log_dirs_found(dirs, 1)->was_clean);
    stele_log_dirs_close(dirs);
}

/* Between two measurements the room is what was measured less what was taken; a disk that refused a write is full until
 * it is asked again, and told so even when it says that there is room. */
static void test_room(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    format_dirs(f);
    disk_set_space(f->disk, 1500);
    assert_ok(open_dirs(f, &dirs));
    assert_false(stele_log_dirs_is_measure_due(dirs, 1));
    stele_log_dirs_take(dirs, 1, 500);
    assert_false(stele_log_dirs_is_full(dirs, 1));
    stele_log_dirs_take(dirs, 1, 1);
    assert_true(stele_log_dirs_is_full(dirs, 1));
    assert_true(stele_log_dirs_is_measure_due(dirs, 1));
    stele_log_dirs_measure(dirs, 1);
    assert_false(stele_log_dirs_is_full(dirs, 1));
    assert_false(stele_log_dirs_is_measure_due(dirs, 1));

    stele_log_dirs_take(dirs, 1, INT64_MAX);
    assert_true(stele_log_dirs_is_full(dirs, 1));
    int64_t told = f->env.traces[STELE_TRACE_DIR_FULL];
    stele_log_dirs_measure(dirs, 1);
    assert_false(stele_log_dirs_is_full(dirs, 1));
    assert_int_equal(f->env.traces[STELE_TRACE_DIR_FULL], told + 1);
    stele_log_dirs_close(dirs);
}

/* Any failing call of a start ends it with an error that says where, or takes the second directory offline and leaves
 * its partitions out; then a start without failures finds everything. */
static void test_open_failures(void **state)
{
    struct fixture *f = *state;
    int ended = 0, offline = 0;
    f->count = 3;
    format_dirs(f);
    put_partition(f, "/a/t-0");
    put_partition(f, "/b/c/t-1");
    put_partition(f, "/d/t-2");
    for (int64_t at = 1;; at++) {
        struct stele_log_dirs *dirs = NULL;
        disk_put_text(f->disk, "/b/c/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
        disk_fail(f->disk, at, STELE_IO, false);
        enum stele_err err = open_dirs(f, &dirs);
        bool has_failed = sim_disk_has_struck(f->disk);
        disk_fail(f->disk, 0, STELE_OK, false);
        if (err == STELE_OK) {
            int lost = stele_log_dirs_is_offline(dirs, 1) + stele_log_dirs_is_offline(dirs, 2);
            assert_true(lost == 0 || has_failed);
            for (int i = 0; i < stele_log_dirs_found_count(dirs); i++)
                assert_false(stele_log_dirs_is_offline(dirs, stele_log_dirs_found(dirs, i)->dir));
            assert_int_equal(stele_log_dirs_found_count(dirs), 4 - lost);
            offline += lost;
            stele_log_dirs_close(dirs);
        } else {
            assert_int_equal(err, STELE_IO);
            assert_non_null(strstr(f->error.text, "/a"));
            ended++;
        }
        assert_ok(open_dirs(f, &dirs));
        assert_int_equal(stele_log_dirs_found_count(dirs), 4);
        stele_log_dirs_close(dirs);
        if (!has_failed)
            break;
    }
    assert_true(ended > 5 && offline > 10);
}

/* Any failing allocation ends the start, and all memory and locks are given back. */
static void test_open_memory(void **state)
{
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    int64_t at = 1;
    format_dirs(f);
    put_partition(f, "/a/t-0");
    put_partition(f, "/a/t-1." HEX "-delete");
    disk_put_text(f->disk, "/a/" STELE_RECOVERY_POINT_FILE, "0\n1\nt 0 7\n");
    for (; at < 500; at++) {
        stele_test_mem_fail(&f->env.mem, at, false);
        enum stele_err err = open_dirs(f, &dirs);
        bool has_failed = f->env.mem.has_failed;
        stele_test_mem_fail(&f->env.mem, 0, false);
        if (err == STELE_OK)
            stele_log_dirs_close(dirs);
        assert_true(err == STELE_NO_MEMORY || err == STELE_OK);
        if (!has_failed)
            break;
    }
    assert_true(at > 10 && at < 500);
}

/* --- each call failing in turn --- */

/* Of t-0 in /a and t-1 in /b/c, before and after the round. */
static const struct stele_log_points old_points[] = {{0, "t", 0, 10, 5, 9, 0}, {1, "t", 1, 20, 5, 19, 0}},
                                     new_points[] = {{0, "t", 0, 30, 6, 29, 0}, {1, "t", 1, 40, 6, 39, 0}};

static enum stele_err run_create(struct stele_log_dirs *dirs)
{
    struct stele_uuid id;
    char path[STELE_PATH_BYTES] = "untouched";
    assert_ok(stele_uuid_parse(TOPIC_ID, 22, &id));
    enum stele_err err = stele_log_dirs_create(dirs, 1, "t", 7, &id, path);
    assert_string_equal(path, err == STELE_OK ? "/b/c/t-7" : "untouched");
    return err;
}

static enum stele_err run_checkpoint(struct stele_log_dirs *dirs)
{
    return stele_log_dirs_checkpoint(dirs, new_points, 2);
}

static enum stele_err run_mark_clean(struct stele_log_dirs *dirs)
{
    return stele_log_dirs_mark_clean(dirs, 0, 41);
}

static enum stele_err run_format(struct stele_log_dirs *dirs)
{
    return stele_log_dirs_format(dirs, "MkU3OEVBNTcwNTJENDM2Qg", 7);
}

static void assert_point(int64_t is, const struct stele_log_points *was, const struct stele_log_points *to_be,
                         size_t field, bool is_done)
{
    int64_t before = *(const int64_t *)(const void *)((const char *)was + field);
    int64_t after = *(const int64_t *)(const void *)((const char *)to_be + field);
    assert_true(is == after || (!is_done && is == before));
}

static bool is_found(const struct stele_log_dirs *dirs, int32_t partition)
{
    bool found = false;
    for (int i = 0; i < stele_log_dirs_found_count(dirs); i++)
        found = found || stele_log_dirs_found(dirs, i)->partition == partition;
    return found;
}

/* A start after the death of the process. `is_done`: the operation was, and nothing may be missing; else each file is
 * the old or the new one, whole. */
static void check_start(struct fixture *f, enum stele_err (*run)(struct stele_log_dirs *dirs), bool is_done)
{
    struct stele_log_dirs *dirs = NULL;
    struct stele_meta_properties properties;
    assert_ok(open_dirs(f, &dirs));
    bool is_formatted = stele_log_dirs_identity(dirs, &properties);
    assert_true(is_formatted ? properties.node_id == 7 : !is_done && run == run_format);
    assert_true(run != run_create || !is_done || is_found(dirs, 7));
    for (int i = 0; i < stele_log_dirs_found_count(dirs); i++) {
        const struct stele_found_log *found = stele_log_dirs_found(dirs, i);
        int dir = found->dir;
        bool is_new = run == run_checkpoint && is_done;
        if (strcmp(found->topic, "t") != 0 || found->partition == 7 || run == run_format)
            continue;
        const struct stele_log_points *to_be = run == run_checkpoint ? &new_points[dir] : &old_points[dir];
        assert_point(found->recovery_point, &old_points[dir], to_be, offsetof(struct stele_log_points, recovery_point),
                     is_new);
        assert_point(found->log_start_offset, &old_points[dir], to_be,
                     offsetof(struct stele_log_points, log_start_offset), is_new);
        assert_point(found->high_watermark, &old_points[dir], to_be, offsetof(struct stele_log_points, high_watermark),
                     is_new);
        assert_true(found->was_clean ? run == run_mark_clean && dir == 0
                                     : run != run_mark_clean || !is_done || dir != 0);
    }
    stele_log_dirs_close(dirs);
}

struct failing_call {
    enum stele_err err; /* NO_MEMORY: an allocation */
    unsigned ops;
    bool is_lasting;
};

/* On a copy of `image`, the `at`-th call of the operation failing; false when it has none. */
static bool fail_call(struct fixture *f, struct sim_disk *image, enum stele_err (*run)(struct stele_log_dirs *dirs),
                      const struct failing_call *call, int64_t at)
{
    struct stele_log_dirs *dirs = NULL;
    struct sim_disk_fault fault = {.ops = call->ops, .err = call->err, .is_lasting = call->is_lasting};
    bool is_memory = call->err == STELE_NO_MEMORY;
    f->disk = sim_disk_copy(image);
    f->env.env.vfs = sim_disk_vfs(f->disk);
    assert_ok(open_dirs(f, &dirs));
    if (is_memory)
        stele_test_mem_fail(&f->env.mem, at, call->is_lasting);
    else
        sim_disk_arm(f->disk, at, &fault);
    enum stele_err err = run(dirs);
    bool struck = is_memory ? f->env.mem.has_failed : sim_disk_has_struck(f->disk);
    stele_test_mem_fail(&f->env.mem, 0, false);
    sim_disk_heal(f->disk);
    assert_true(struck ? err == STELE_OK || err == call->err : err == STELE_OK);
    bool is_offline = stele_log_dirs_is_offline(dirs, 0) || stele_log_dirs_is_offline(dirs, 1);
    assert_true(!is_offline || (err == STELE_IO && run == run_checkpoint));
    if (err != STELE_OK && run == run_create && !call->is_lasting)
        assert_false(disk_has(f->disk, "/b/c/t-7"));
    /* What only wanted room or memory is done once there is. */
    if (err != STELE_OK && err != STELE_IO && (run != run_create || !call->is_lasting)) {
        err = run(dirs);
        assert_ok(err);
    }
    stele_log_dirs_close(dirs);
    sim_disk_crash(f->disk, SIM_DISK_KILL);
    check_start(f, run, err == STELE_OK);
    assert_string_equal(sim_disk_violation_text(f->disk), "");
    sim_disk_free(f->disk);
    return struck;
}

/* Any failing call or allocation of an operation ends it with its error, what it left is whole, and the next start is
 * sound. */
static void test_every_call_fails(void **state)
{
    enum { ROOM = SIM_DISK_BIT(SIM_DISK_OPEN) | SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_MKDIR) };
    static const struct failing_call calls[] = {{STELE_IO, 0, false},          {STELE_IO, 0, true},
                                                {STELE_NO_SPACE, ROOM, false}, {STELE_NO_SPACE, ROOM, true},
                                                {STELE_NO_MEMORY, 0, false},   {STELE_NO_MEMORY, 0, true}};
    static enum stele_err (*const runs[])(struct stele_log_dirs *) = {run_format, run_create, run_checkpoint,
                                                                      run_mark_clean};
    struct fixture *f = *state;
    struct stele_log_dirs *dirs = NULL;
    struct sim_disk *disk = f->disk;
    for (size_t r = 0; r < STELE_ARRAY_LEN(runs); r++) {
        int64_t struck = 0;
        if (r == 0) {
            assert_ok(open_dirs(f, &dirs));
            put_format(f);
        } else if (r == 1) {
            assert_ok(open_dirs(f, &dirs));
            assert_ok(run_format(dirs));
            put_partition(f, "/a/t-0");
            put_partition(f, "/b/c/t-1");
            assert_ok(stele_log_dirs_checkpoint(dirs, old_points, 2));
        }
        if (r < 2)
            stele_log_dirs_close(dirs);
        for (size_t c = 0; c < STELE_ARRAY_LEN(calls); c++) {
            int64_t at = 1;
            while (fail_call(f, disk, runs[r], &calls[c], at))
                at++;
            struck += at - 1;
            f->disk = disk;
            f->env.env.vfs = sim_disk_vfs(disk);
        }
        assert_true(struck > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_first_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unsynced_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_start_crashes, setup, teardown),
        cmocka_unit_test(test_refused_untouched),
        cmocka_unit_test_setup_teardown(test_locks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_checkpoints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused_partitions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deletions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_create, setup, teardown),
        cmocka_unit_test_setup_teardown(test_create_crashes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_anew_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_sync_is_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clean_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_call_fails, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
