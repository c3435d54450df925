#include "storage/checkpoint.h"
#include "storage/test/disk_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME STELE_RECOVERY_POINT_FILE

struct fixture {
    struct sim_disk *disk;
    struct stele_vfs *vfs;
    struct stele_test_mem memory;
    struct stele_checkpoint checkpoint;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    f->disk = sim_disk_new(1);
    f->vfs = sim_disk_vfs(f->disk);
    disk_make_dir(f->disk, "/d");
    sim_disk_allow_unsynced_rename(f->disk, "*/" STELE_PARTITION_METADATA_FILE);
    stele_test_mem_init(&f->memory);
    stele_checkpoint_init(&f->checkpoint, &f->memory.mem);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    stele_checkpoint_deinit(&f->checkpoint);
    assert_string_equal(sim_disk_violation_text(f->disk), "");
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->memory);
    test_free(f);
    return 0;
}

/* The file is Kafka's byte for byte, in order of topic and partition, and reads back. */
static void test_bytes(void **state)
{
    struct fixture *f = *state;
    struct stele_checkpoint *c = &f->checkpoint;
    int64_t offset = 0;
    assert_ok(stele_checkpoint_set(c, "b", 10, 5));
    assert_ok(stele_checkpoint_set(c, "b", 2, INT64_MAX));
    assert_ok(stele_checkpoint_set(c, "a.topic", 0, 0));
    assert_ok(stele_checkpoint_set(c, "b", 10, 6));
    assert_ok(stele_checkpoint_write(c, f->vfs, "/d", NAME));
    disk_assert_text(f->disk, "/d/" NAME, "0\n3\na.topic 0 0\nb 2 9223372036854775807\nb 10 6\n");
    assert_false(disk_has(f->disk, "/d/" NAME ".tmp"));
    stele_checkpoint_deinit(c);
    assert_ok(stele_checkpoint_read(c, f->vfs, "/d", NAME, NULL));
    assert_int_equal(c->count, 3);
    assert_true(stele_checkpoint_get(c, "b", 10, &offset));
    assert_int_equal(offset, 6);
    assert_false(stele_checkpoint_get(c, "b", 3, &offset));
    assert_int_equal(offset, 6);
}

/* What may be written: no empty or too long name, nothing negative; an empty list is two lines. */
static void test_arguments(void **state)
{
    struct fixture *f = *state;
    struct stele_checkpoint *c = &f->checkpoint;
    char longest[STELE_TOPIC_NAME_MAX + 2];
    int64_t offset = 0;
    memset(longest, 'x', sizeof(longest));
    longest[STELE_TOPIC_NAME_MAX + 1] = 0;
    assert_int_equal(stele_checkpoint_set(c, longest, 0, 0), STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_checkpoint_set(c, "", 0, 0), STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_checkpoint_set(c, "t", -1, 0), STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_checkpoint_add(c, "t", 0, -1), STELE_INVALID_ARGUMENT);
    assert_ok(stele_checkpoint_write(c, f->vfs, "/d", NAME));
    disk_assert_text(f->disk, "/d/" NAME, "0\n0\n");
    longest[STELE_TOPIC_NAME_MAX] = 0;
    assert_ok(stele_checkpoint_set(c, longest, INT32_MAX, INT64_MAX));
    assert_ok(stele_checkpoint_write(c, f->vfs, "/d", NAME));
    assert_ok(stele_checkpoint_read(c, f->vfs, "/d", NAME, NULL));
    assert_true(stele_checkpoint_get(c, longest, INT32_MAX, &offset) && offset == INT64_MAX);
}

/* set at random places and add in any order with a sort give the same list. */
static void test_orders(void **state)
{
    struct fixture *f = *state;
    struct stele_checkpoint other;
    struct stele_prng prng;
    stele_prng_init(&prng, 3, 0);
    stele_checkpoint_init(&other, &f->memory.mem);
    for (int i = 0; i < 300; i++) {
        char topic[16];
        int64_t unused;
        (void)snprintf(topic, sizeof(topic), "t%d", (int)stele_prng_below(&prng, 20));
        int32_t partition = (int32_t)stele_prng_below(&prng, 40);
        if (stele_checkpoint_get(&f->checkpoint, topic, partition, &unused))
            continue;
        assert_ok(stele_checkpoint_set(&f->checkpoint, topic, partition, i));
        assert_ok(stele_checkpoint_add(&other, topic, partition, i));
    }
    assert_true(stele_checkpoint_sort(&other));
    assert_int_equal(other.count, f->checkpoint.count);
    assert_memory_equal(other.entries, f->checkpoint.entries, (size_t)other.count * sizeof(*other.entries));
    assert_ok(stele_checkpoint_add(&other, other.entries[7].topic, other.entries[7].partition, 1));
    assert_false(stele_checkpoint_sort(&other));
    stele_checkpoint_deinit(&other);
}

/* Which texts are legal, and which line is blamed for the others (facts 2.2, T11). */
static void test_refusals(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        int count;         /* -1: CORRUPT */
        const char *blame; /* in the error's text */
    } cases[] = {
        {"", 0, NULL},
        {"0", 0, NULL},
        {"0\n", 0, NULL},
        {"0\n0\n", 0, NULL},
        {"0\n1\na 0 1\n", 1, NULL},
        {"0\n1\na 0 1", 1, NULL},
        {"0\r\n1\r\na\t0  1\r\n", 1, NULL},
        {"0\n2\nb 0 1\na 0 1\n", 2, NULL},
        {"1\n0\n", -1, "line 1"},
        {"\n0\n", -1, "line 1"},
        {"0\nx\n", -1, "line 2"},
        {"0\n-1\n", -1, "line 2"},
        {"0\n1\n", -1, "line 2"},
        {"0\n1\na 0 1\nb 0 1\n", -1, "line 2"},
        {"0\n1\na 0\n", -1, "line 3"},
        {"0\n1\na 0 1 2\n", -1, "line 3"},
        {"0\n2\na 0 1\na x 1\n", -1, "line 4"},
        {"0\n1\na -1 1\n", -1, "line 3"},
        {"0\n1\na 0 -1\n", -1, "line 3"},
        {"0\n1\na 2147483648 1\n", -1, "line 3"},
        {"0\n1\na 0 9223372036854775808\n", -1, "line 3"},
        {"0\n1\n\n", -1, "line 3"},
        {"0\n2\na 0 1\na 0 2\n", -1, "twice"},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_error error = {.text = ""};
        disk_put_text(f->disk, "/d/" NAME, cases[i].text);
        enum stele_err err = stele_checkpoint_read(&f->checkpoint, f->vfs, "/d", NAME, &error);
        assert_int_equal(err, cases[i].count < 0 ? STELE_CORRUPT : STELE_OK);
        assert_int_equal(f->checkpoint.count, cases[i].count < 0 ? 0 : cases[i].count);
        if (cases[i].count < 0) {
            assert_non_null(strstr(error.text, "/d/" NAME));
            assert_non_null(strstr(error.text, cases[i].blame));
        }
    }
    char text[400] = "0\n1\n";
    memset(text + 4, 'x', STELE_TOPIC_NAME_MAX + 1);
    memcpy(text + 4 + STELE_TOPIC_NAME_MAX + 1, " 0 1\n", 6);
    assert_int_equal(stele_checkpoint_parse(&f->checkpoint, text, strlen(text), NULL), STELE_CORRUPT);
    assert_int_equal(stele_checkpoint_parse(&f->checkpoint, "0\n1\na\0b 0 1\n", 12, NULL), STELE_CORRUPT);
}

/* A crash at any step of replacing the file leaves the old or the new content whole, and once the write said OK the
 * new; a failing step says so. */
static void test_replace_crashes(void **state)
{
    struct fixture *f = *state;
    int64_t steps = 0;
    for (int round = 0; round < 600; round++) {
        enum sim_disk_crash_mode kind = (enum sim_disk_crash_mode)(round % 3);
        int64_t offset = -1, old = round, want = round + 1000;
        assert_ok(stele_checkpoint_set(&f->checkpoint, "some-topic", 3, old));
        assert_ok(stele_checkpoint_write(&f->checkpoint, f->vfs, "/d", NAME));
        assert_ok(stele_checkpoint_set(&f->checkpoint, "some-topic", 3, want));
        int64_t before = sim_disk_calls(f->disk);
        disk_fail(f->disk, round / 3 % 12 + 1, STELE_IO, true);
        enum stele_err err = stele_checkpoint_write(&f->checkpoint, f->vfs, "/d", NAME);
        assert_int_equal(err, sim_disk_has_struck(f->disk) ? STELE_IO : STELE_OK);
        steps = stele_max_i64(steps, sim_disk_calls(f->disk) - before);
        sim_disk_crash(f->disk, kind);
        assert_ok(stele_checkpoint_read(&f->checkpoint, f->vfs, "/d", NAME, NULL));
        assert_true(stele_checkpoint_get(&f->checkpoint, "some-topic", 3, &offset));
        assert_true(offset == want || (offset == old && err != STELE_OK));
    }
    assert_true(steps > 4);
}

/* Every failing call and allocation of reading and writing is reported. */
static void test_failures(void **state)
{
    struct fixture *f = *state;
    disk_put_text(f->disk, "/d/" NAME, "0\n3\nb 0 1\na 0 1\nc 9 9\n");
    int64_t io = 1, memory = 1;
    for (bool is_done = false; !is_done; io++) {
        disk_fail(f->disk, io, STELE_IO, false);
        enum stele_err err = stele_checkpoint_read(&f->checkpoint, f->vfs, "/d", NAME, NULL);
        is_done = !sim_disk_has_struck(f->disk);
        assert_int_equal(err, is_done ? STELE_OK : STELE_IO);
        assert_int_equal(f->checkpoint.count, is_done ? 3 : 0);
    }
    disk_fail(f->disk, 0, STELE_OK, false);
    for (bool is_done = false; !is_done; memory++) {
        stele_checkpoint_deinit(&f->checkpoint);
        stele_test_mem_fail(&f->memory, memory, false);
        enum stele_err err = stele_checkpoint_read(&f->checkpoint, f->vfs, "/d", NAME, NULL);
        if (err == STELE_OK)
            err = stele_checkpoint_write(&f->checkpoint, f->vfs, "/d", NAME);
        is_done = !f->memory.has_failed;
        assert_int_equal(err, is_done ? STELE_OK : STELE_NO_MEMORY);
    }
    assert_true(io > 4 && memory > 3);
    stele_test_mem_fail(&f->memory, 0, false);
    disk_set_space(f->disk, 5);
    assert_int_equal(stele_checkpoint_write(&f->checkpoint, f->vfs, "/d", NAME), STELE_NO_SPACE);
    assert_ok(stele_checkpoint_read(&f->checkpoint, f->vfs, "/d", NAME, NULL));
    assert_int_equal(f->checkpoint.count, 3);
}

/* partition.metadata: two lines without an end, byte for byte; an id with '-' is accepted (T10). */
static void test_partition_metadata(void **state)
{
    struct fixture *f = *state;
    static const char text[] = "version: 0\ntopic_id: -_8AAQIDBAUGBwgJCgsMDQ";
    struct stele_uuid id, back = {.bytes = {0}};
    assert_ok(stele_uuid_parse("-_8AAQIDBAUGBwgJCgsMDQ", 22, &id));
    for (int sync = 0; sync < 2; sync++) {
        assert_ok(stele_partition_metadata_write(f->vfs, "/d", &id, sync == 1));
        disk_assert_text(f->disk, "/d/" STELE_PARTITION_METADATA_FILE, text);
        assert_ok(stele_partition_metadata_read(f->vfs, &f->memory.mem, "/d", &back));
        assert_true(stele_uuid_equal(&back, &id));
    }
    static const struct {
        const char *text;
        enum stele_err err;
    } cases[] = {
        {"version: 3\ntopic_id: -_8AAQIDBAUGBwgJCgsMDQ\n", STELE_OK},
        {"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", STELE_CORRUPT},
        {"version: -1\ntopic_id: -_8AAQIDBAUGBwgJCgsMDQ", STELE_CORRUPT},
        {"version: x\ntopic_id: -_8AAQIDBAUGBwgJCgsMDQ", STELE_CORRUPT},
        {"versiom: 0\ntopic_id: -_8AAQIDBAUGBwgJCgsMDQ", STELE_CORRUPT},
        {"version: 0\ntopic-id: -_8AAQIDBAUGBwgJCgsMDQ", STELE_CORRUPT},
        {"version: 0\ntopic_id: -_8AAQIDBAUGBwgJCgsMD!", STELE_CORRUPT},
        {"version: 0\ntopic_id: -_8AAQIDBAUGBwgJCgsMDQQ", STELE_CORRUPT},
        {"broken", STELE_CORRUPT},
        {"version: 0\ntopic_id: -_8AAQIDBAUGBwgJCgsMD", STELE_NOT_FOUND},
        {"version: 0\n", STELE_NOT_FOUND},
        {"", STELE_NOT_FOUND},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_put_text(f->disk, "/d/" STELE_PARTITION_METADATA_FILE, cases[i].text);
        assert_int_equal(stele_partition_metadata_read(f->vfs, &f->memory.mem, "/d", &back), cases[i].err);
    }
    disk_put(f->disk, "/d/" STELE_PARTITION_METADATA_FILE, "\0\0\0\0", 4);
    assert_int_equal(stele_partition_metadata_read(f->vfs, &f->memory.mem, "/d", &back), STELE_NOT_FOUND);
}

/* Written with sync, partition.metadata survives any crash; otherwise it is there, missing or, on the worst of disks,
 * garbage, but never another id. */
static void test_partition_metadata_crashes(void **state)
{
    struct fixture *f = *state;
    struct stele_uuid id, back;
    int ids = 0, missing = 0;
    assert_ok(stele_uuid_parse("xv8AAQIDBAUGBwgJCgsMDQ", 22, &id));
    for (int round = 0; round < 600; round++) {
        bool sync = round % 2 == 0;
        (void)f->vfs->ops->unlink(f->vfs, "/d/" STELE_PARTITION_METADATA_FILE);
        (void)f->vfs->ops->unlink(f->vfs, "/d/" STELE_PARTITION_METADATA_FILE ".tmp");
        assert_ok(f->vfs->ops->sync_dir(f->vfs, "/d"));
        disk_fail(f->disk, round % 17, STELE_IO, true);
        enum stele_err wrote = stele_partition_metadata_write(f->vfs, "/d", &id, sync);
        sim_disk_crash(f->disk, (enum sim_disk_crash_mode)(round % 3));
        enum stele_err err = stele_partition_metadata_read(f->vfs, &f->memory.mem, "/d", &back);
        assert_true(err == STELE_OK || err == STELE_NOT_FOUND ||
                    (err == STELE_CORRUPT && round % 3 == SIM_DISK_ADVERSARIAL));
        assert_true(err == STELE_OK ? stele_uuid_equal(&id, &back) : !sync || wrote != STELE_OK);
        ids += err == STELE_OK;
        missing += err != STELE_OK;
    }
    assert_true(ids > 100 && missing > 100);
}

/* meta.properties as Kafka writes it, and what is refused; the way out is in the error. */
static void test_meta_properties(void **state)
{
    struct fixture *f = *state;
    struct stele_meta_properties in = {"MkU3OEVBNTcwNTJENDM2Qg", 7, "xv8AAQIDBAUGBwgJCgsMDQ"}, out = {.node_id = -5};
    struct stele_error error = {.text = ""};
    assert_int_equal(stele_meta_properties_read(f->vfs, &f->memory.mem, "/d", &out, &error), STELE_NOT_FOUND);
    assert_ok(stele_meta_properties_write(f->vfs, "/d", &in, 1700000000000));
    disk_assert_text(f->disk, "/d/" STELE_META_PROPERTIES_FILE,
                     "#\n#1700000000000\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
                     "directory.id=xv8AAQIDBAUGBwgJCgsMDQ\nnode.id=7\nversion=1\n");
    assert_ok(stele_meta_properties_read(f->vfs, &f->memory.mem, "/d", &out, &error));
    assert_string_equal(out.cluster_id, in.cluster_id);
    assert_string_equal(out.directory_id, in.directory_id);
    assert_int_equal(out.node_id, 7);
    static const struct {
        const char *text;
        bool is_good;
    } cases[] = {
        {"version=1\nnode.id=0\ncluster.id=c\n", true},
        {"#\n#Mon Nov 30 2026\nunknown=x\nversion=1\nnode.id=0\ncluster.id=c", true},
        {"", false},
        {"version=1\nnode.id=0\n", false},
        {"version=1\ncluster.id=c\n", false},
        {"node.id=0\ncluster.id=c\n", false},
        {"version=0\nbroker.id=0\ncluster.id=c\n", false},
        {"version=2\nnode.id=0\ncluster.id=c\n", false},
        {"version=1\nnode.id=-1\ncluster.id=c\n", false},
        {"version=1\nnode.id=x\ncluster.id=c\n", false},
        {"version=1\nnode.id=2147483648\ncluster.id=c\n", false},
        {"version=1\nnode.id=0\ncluster.id=\n", false},
        {"version=1\nnode.id=0\ncluster.id=0123456789012345678901234567890123456789012345678901234567890123\n", false},
        {"version=1\nnode.id=0\ncluster.id=c\ndirectory.id=01234567890123456789012\n", false},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_put_text(f->disk, "/d/" STELE_META_PROPERTIES_FILE, cases[i].text);
        error.text[0] = 0;
        enum stele_err err = stele_meta_properties_read(f->vfs, &f->memory.mem, "/d", &out, &error);
        assert_int_equal(err, cases[i].is_good ? STELE_OK : STELE_CORRUPT);
        if (!cases[i].is_good) {
            assert_non_null(strstr(error.text, "/d/" STELE_META_PROPERTIES_FILE));
            assert_non_null(strstr(error.text, "restore"));
        }
    }
}

/* The clean marker: taken once, and gone durably; written durably or reported. */
static void test_clean_shutdown(void **state)
{
    struct fixture *f = *state;
    struct stele_clean_shutdown found = {.was_clean = true};
    assert_ok(stele_clean_shutdown_take(f->vfs, &f->memory.mem, "/d", &found));
    assert_true(!found.was_clean && found.node_epoch == -1);
    for (int64_t at = 0; at < 12; at++) {
        disk_fail(f->disk, at, STELE_IO, true);
        enum stele_err err = stele_clean_shutdown_write(f->vfs, "/d", -1);
        assert_int_equal(err != STELE_OK, sim_disk_has_struck(f->disk));
        sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
        assert_true(err != STELE_OK || disk_has(f->disk, "/d/" STELE_CLEAN_SHUTDOWN_FILE));
        disk_put_text(f->disk, "/d/" STELE_CLEAN_SHUTDOWN_FILE, "{}");
        disk_fail(f->disk, at, STELE_IO, true);
        err = stele_clean_shutdown_take(f->vfs, &f->memory.mem, "/d", &found);
        assert_int_equal(err != STELE_OK, sim_disk_has_struck(f->disk));
        sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
        if (err == STELE_OK)
            assert_true(found.was_clean && found.node_epoch == -1 &&
                        !disk_has(f->disk, "/d/" STELE_CLEAN_SHUTDOWN_FILE));
    }
    assert_ok(stele_clean_shutdown_write(f->vfs, "/d", 123));
    disk_assert_text(f->disk, "/d/" STELE_CLEAN_SHUTDOWN_FILE, "{\"version\":0,\"brokerEpoch\":123}");
    assert_ok(stele_clean_shutdown_take(f->vfs, &f->memory.mem, "/d", &found));
    assert_true(found.was_clean && found.node_epoch == 123);
}

/* The marker may be Kafka's or a damaged one: what makes no sense is a clean stop of no known life. */
static void test_clean_epoch(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        int64_t epoch;
    } cases[] = {
        {"", -1},
        {"{\"version\":0,\"brokerEpoch\":-1}", -1},
        {"{\"version\":0,\"brokerEpoch\":0}", 0},
        {"{\"brokerEpoch\":9223372036854775807,\"version\":0}", INT64_MAX},
        {"{\"version\":0,\"brokerEpoch\":9223372036854775808}", -1},
        {"{\"version\":0,\"brokerEpoch\":-7}", -1},
        {"{\"version\":0,\"brokerEpoch\":}", -1},
        {"{\"version\":0,\"brokerEpoch\":12", 12},
        {"{\"version\":0,\"brokerEpoch\"", -1},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_clean_shutdown found = {.was_clean = false};
        disk_put_text(f->disk, "/d/" STELE_CLEAN_SHUTDOWN_FILE, cases[i].text);
        assert_ok(stele_clean_shutdown_take(f->vfs, &f->memory.mem, "/d", &found));
        assert_true(found.was_clean && !disk_has(f->disk, "/d/" STELE_CLEAN_SHUTDOWN_FILE));
        assert_int_equal(found.node_epoch, cases[i].epoch);
    }
}

/* The epoch that a directory served in: the old one or the new one whatever fails, durable once it is written; nothing
 * that makes no sense counts. */
static void test_served_epoch(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text;
        int64_t epoch;
    } cases[] = {{"version: 0\nnode_epoch: 12\n", 12},
                 {"version: 0\nnode_epoch: 12", 12},
                 {"", 0},
                 {"version: 0\n", 0},
                 {"version: 0\nnode_epoch: -1\n", 0},
                 {"node_epoch: 3\n", 0}};
    int64_t epoch = -1, before = 0;
    assert_ok(stele_served_epoch_read(f->vfs, &f->memory.mem, "/d", &epoch));
    assert_int_equal(epoch, 0);
    for (int64_t at = 0; at < 12; at++) {
        disk_fail(f->disk, at, STELE_IO, true);
        enum stele_err err = stele_served_epoch_write(f->vfs, "/d", 100 + at);
        assert_int_equal(err != STELE_OK, sim_disk_has_struck(f->disk));
        sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
        assert_ok(stele_served_epoch_read(f->vfs, &f->memory.mem, "/d", &epoch));
        assert_true(epoch == 100 + at || (err != STELE_OK && epoch == before));
        before = epoch;
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        disk_put_text(f->disk, "/d/" STELE_SERVED_EPOCH_FILE, cases[i].text);
        assert_ok(stele_served_epoch_read(f->vfs, &f->memory.mem, "/d", &epoch));
        assert_int_equal(epoch, cases[i].epoch);
    }
}

#define HEX "0123456789abcdef0123456789ABCDEF"

/* Directory names (facts 2.1): the partition is after the last '-', states end in the whole suffix. */
static void test_dir_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *topic; /* NULL: MALFORMED */
        int32_t partition;
        enum stele_dir_kind kind;
    } cases[] = {
        {"t-0", "t", 0, STELE_DIR_LIVE},
        {"a.b_c-d-2147483647", "a.b_c-d", INT32_MAX, STELE_DIR_LIVE},
        {"--1", "-", 1, STELE_DIR_LIVE},
        {"__cluster_metadata-0", "__cluster_metadata", 0, STELE_DIR_LIVE},
        {"t-3." HEX "-delete", "t", 3, STELE_DIR_DELETE},
        {"t.x-3." HEX "-stray", "t.x", 3, STELE_DIR_STRAY},
        {"t-3." HEX "-future", "t", 3, STELE_DIR_FUTURE},
        {"t-3.0123-delete", NULL, 0, STELE_DIR_LIVE},
        {"t-3." HEX "-deleted", NULL, 0, STELE_DIR_LIVE},
        {"t-3-delete", NULL, 0, STELE_DIR_LIVE},
        {"." HEX "-delete", NULL, 0, STELE_DIR_LIVE},
        {"lost+found", NULL, 0, STELE_DIR_LIVE},
        {"t", NULL, 0, STELE_DIR_LIVE},
        {"t-", NULL, 0, STELE_DIR_LIVE},
        {"-1", NULL, 0, STELE_DIR_LIVE},
        {"..-1", NULL, 0, STELE_DIR_LIVE},
        {"t-2147483648", NULL, 0, STELE_DIR_LIVE},
        {"t-1x", NULL, 0, STELE_DIR_LIVE},
        {"t u-1", NULL, 0, STELE_DIR_LIVE},
        {"", NULL, 0, STELE_DIR_LIVE},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char topic[STELE_TOPIC_NAME_MAX + 1];
        int32_t partition = -1;
        enum stele_dir_kind kind;
        enum stele_err err = stele_partition_dir_parse(cases[i].name, topic, &partition, &kind);
        assert_int_equal(err, cases[i].topic == NULL ? STELE_MALFORMED : STELE_OK);
        if (err != STELE_OK)
            continue;
        assert_string_equal(topic, cases[i].topic);
        assert_int_equal(partition, cases[i].partition);
        assert_int_equal(kind, cases[i].kind);
    }
    char longest[STELE_TOPIC_NAME_MAX + 4];
    memset(longest, 'x', sizeof(longest));
    longest[STELE_TOPIC_NAME_MAX] = 0;
    assert_true(stele_topic_name_is_legal(longest));
    memcpy(longest + STELE_TOPIC_NAME_MAX, "x", 2);
    assert_false(stele_topic_name_is_legal(longest));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arguments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replace_crashes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partition_metadata, setup, teardown),
        cmocka_unit_test_setup_teardown(test_partition_metadata_crashes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_meta_properties, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clean_shutdown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_served_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clean_epoch, setup, teardown),
        cmocka_unit_test(test_dir_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
