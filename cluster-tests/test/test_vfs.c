/* What base/vfs.h promises, asked of both implementations: the kernel's files and the simulated disk. */
#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"
#include "host/vfs_posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct stele_test_mem mem;
    struct sim_disk *disk; /* NULL: the kernel's */
    struct stele_vfs *vfs;
    char root[64];
};

static struct world *world_new(bool is_sim)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    stele_test_mem_init(&world->mem);
    if (is_sim) {
        world->disk = sim_disk_new(7);
        world->vfs = sim_disk_vfs(world->disk);
        strncpy(world->root, "/w", sizeof(world->root) - 1);
        assert_ok(world->vfs->ops->mkdir(world->vfs, world->root));
        return world;
    }
    world->vfs = stele_vfs_posix_new(&world->mem.mem);
    assert_non_null(world->vfs);
    strncpy(world->root, "/tmp/stele-vfs-XXXXXX", sizeof(world->root) - 1);
    assert_non_null(mkdtemp(world->root));
    return world;
}

static void world_free(struct world *world)
{
    char command[128];
    if (world->disk != NULL) {
        assert_int_equal(sim_disk_in_use(world->disk), 0);
        sim_disk_free(world->disk);
    } else {
        stele_vfs_posix_free(world->vfs);
        (void)snprintf(command, sizeof(command), "rm -r %s", world->root);
        assert_int_equal(system(command), 0);
    }
    stele_test_mem_check_empty(&world->mem);
    free(world);
}

static int setup_posix(void **state)
{
    *state = world_new(false);
    return 0;
}

static int setup_sim(void **state)
{
    *state = world_new(true);
    return 0;
}

static int teardown(void **state)
{
    world_free(*state);
    return 0;
}

struct path {
    char text[STELE_PATH_BYTES];
};

static struct path at(const struct world *world, const char *name)
{
    struct path path;
    assert_ok(stele_path_join(path.text, world->root, name));
    return path;
}

#define AT(name) (at(world, name).text)

enum { RW = STELE_OPEN_WRITE, NEW = STELE_OPEN_WRITE | STELE_OPEN_CREATE };

static enum stele_err try_open(struct world *world, const char *name, unsigned flags, struct stele_file **out_file)
{
    return world->vfs->ops->open(world->vfs, AT(name), flags, out_file);
}

static struct stele_file *open_file(struct world *world, const char *name, unsigned flags)
{
    struct stele_file *file = NULL;
    assert_ok(try_open(world, name, flags, &file));
    assert_ptr_equal(file->vfs, world->vfs);
    return file;
}

static void put(struct world *world, const char *name, const char *text)
{
    struct stele_file *file = open_file(world, name, NEW | STELE_OPEN_TRUNCATE);
    assert_ok(stele_file_write(file, text, strlen(text), 0));
    world->vfs->ops->close(file);
}

static void assert_holds(struct stele_file *file, const char *text)
{
    char got[64];
    size_t count = 0;
    int64_t bytes = -1;
    assert_ok(file->vfs->ops->size(file, &bytes));
    assert_int_equal(bytes, strlen(text));
    assert_ok(file->vfs->ops->pread(file, got, sizeof(got), 0, &count));
    assert_int_equal(count, strlen(text));
    assert_memory_equal(got, text, count);
}

static void assert_content(struct world *world, const char *name, const char *text)
{
    struct stele_file *file = open_file(world, name, STELE_OPEN_READ);
    assert_holds(file, text);
    world->vfs->ops->close(file);
}

static enum stele_err stat_err(struct world *world, const char *name)
{
    struct stele_stat stat;
    return world->vfs->ops->stat(world->vfs, AT(name), &stat);
}

struct open_case {
    unsigned flags;
    bool is_there;
    enum stele_err want;
    const char *content; /* after */
};

static const struct open_case open_cases[] = {
    {STELE_OPEN_READ, false, STELE_NOT_FOUND, NULL},
    {STELE_OPEN_READ, true, STELE_OK, "old"},
    {STELE_OPEN_READ | RW, true, STELE_OK, "old"},
    {RW, false, STELE_NOT_FOUND, NULL},
    {NEW, false, STELE_OK, ""},
    {NEW, true, STELE_OK, "old"},
    {STELE_OPEN_READ | STELE_OPEN_CREATE, false, STELE_OK, ""},
    {RW | STELE_OPEN_TRUNCATE, true, STELE_OK, ""},
    {RW | STELE_OPEN_TRUNCATE, false, STELE_NOT_FOUND, NULL},
    {NEW | STELE_OPEN_TRUNCATE, true, STELE_OK, ""},
    {NEW | STELE_OPEN_EXCLUSIVE, true, STELE_EXISTS, "old"},
    {NEW | STELE_OPEN_EXCLUSIVE, false, STELE_OK, ""},
    {NEW | STELE_OPEN_EXCLUSIVE | STELE_OPEN_TRUNCATE, true, STELE_EXISTS, "old"},
};

/* Every meaningful set of flags, with the file there and not. */
static void test_open_flags(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(open_cases); i++) {
        const struct open_case *row = &open_cases[i];
        struct stele_file *file = NULL;
        (void)world->vfs->ops->unlink(world->vfs, AT("f"));
        if (row->is_there)
            put(world, "f", "old");
        assert_int_equal(try_open(world, "f", row->flags, &file), row->want);
        assert_true((file != NULL) == (row->want == STELE_OK));
        if (file != NULL)
            world->vfs->ops->close(file);
        if (row->content != NULL)
            assert_content(world, "f", row->content);
        else
            assert_int_equal(stat_err(world, "f"), STELE_NOT_FOUND);
    }
}

/* Paths that lead nowhere: a missing directory, a file taken for a directory, a directory taken for a file. */
static void test_wrong_paths(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    struct stele_file *file = NULL;
    int64_t bytes;
    put(world, "f", "x");
    assert_ok(ops->mkdir(world->vfs, AT("d")));
    assert_int_equal(try_open(world, "no/f", NEW, &file), STELE_NOT_FOUND);
    assert_int_equal(try_open(world, "f/f", NEW, &file), STELE_NOT_FOUND);
    assert_int_equal(try_open(world, "d", RW, &file), STELE_IO);
    assert_int_equal(stat_err(world, "no"), STELE_NOT_FOUND);
    assert_int_equal(stat_err(world, "no/f"), STELE_NOT_FOUND);
    assert_int_equal(stat_err(world, "f/f"), STELE_NOT_FOUND);
    assert_int_equal(ops->sync_dir(world->vfs, AT("no")), STELE_NOT_FOUND);
    assert_int_equal(ops->sync_dir(world->vfs, AT("f")), STELE_NOT_FOUND);
    assert_int_equal(ops->set_mtime(world->vfs, AT("no"), 1), STELE_NOT_FOUND);
    assert_int_equal(ops->free_bytes(world->vfs, AT("no"), &bytes), STELE_NOT_FOUND);
    assert_int_equal(ops->lock(world->vfs, AT("no/lock"), &file), STELE_NOT_FOUND);
    assert_int_equal(ops->lock(world->vfs, AT("d"), &file), STELE_IO);
    assert_null(file);
}

/* Bytes come back from where they were put, over page ends, with zeros where nothing was. */
static void test_read_and_write(void **state)
{
    struct world *world = *state;
    struct stele_file *file = open_file(world, "f", NEW);
    static uint8_t out[20000], want[20000];
    struct stele_prng prng;
    size_t count = 77;
    int64_t bytes = 0;
    stele_prng_init(&prng, 1, 1);
    memset(want, 0, sizeof(want));
    if (world->disk != NULL)
        sim_disk_allow_unwritten_read(world->disk, "*");
    assert_ok(file->vfs->ops->pread(file, out, 10, 0, &count));
    assert_int_equal(count, 0);
    for (int i = 0; i < 300; i++) {
        uint8_t in[3000];
        size_t first = stele_prng_below(&prng, 1000), second = stele_prng_below(&prng, 2000);
        int64_t pos = stele_prng_range(&prng, 0, (int64_t)(sizeof(want) - first - second));
        struct iovec iov[4] = {{in, first}, {NULL, 0}, {in + first, second}, {in, 0}};
        stele_prng_bytes(&prng, in, sizeof(in));
        assert_ok(stele_file_writev(file, iov, 4, pos));
        memcpy(want + pos, in, first + second);
        if (first + second > 0)
            bytes = stele_max_i64(bytes, pos + (int64_t)(first + second));
        int64_t from = stele_prng_range(&prng, 0, bytes);
        assert_ok(stele_file_read(file, out, (size_t)(bytes - from), from));
        assert_memory_equal(out, want + from, (size_t)(bytes - from));
    }
    assert_ok(file->vfs->ops->pread(file, out, sizeof(out), bytes - 5, &count));
    assert_int_equal(count, 5);
    assert_ok(file->vfs->ops->pread(file, out, 1, bytes, &count));
    assert_int_equal(count, 0);
    assert_ok(file->vfs->ops->pread(file, out, 1, bytes + 100000, &count));
    assert_int_equal(count, 0);
    assert_int_equal(stele_file_read(file, out, 6, bytes - 5), STELE_END);
    assert_int_equal(file->vfs->ops->pread(file, out, 1, -1, &count), STELE_IO);
    file->vfs->ops->close(file);
}

/* More pieces than the kernel takes in one call. */
static void test_many_pieces(void **state)
{
    struct world *world = *state;
    enum { PIECES = 3000 };
    static struct iovec iov[PIECES];
    static char text[PIECES], got[PIECES];
    struct stele_file *file = open_file(world, "f", NEW);
    for (int i = 0; i < PIECES; i++) {
        text[i] = (char)('a' + i % 26);
        iov[i] = (struct iovec){&text[i], 1};
    }
    assert_ok(stele_file_writev(file, iov, PIECES, 3));
    assert_ok(stele_file_read(file, got, PIECES, 3));
    assert_memory_equal(got, text, PIECES);
    file->vfs->ops->close(file);
}

/* A file opened for reading is not written by any call. */
static void test_read_only(void **state)
{
    struct world *world = *state;
    put(world, "f", "old");
    struct stele_file *file = open_file(world, "f", STELE_OPEN_READ);
    assert_int_equal(stele_file_write(file, "new", 3, 0), STELE_IO);
    assert_int_equal(file->vfs->ops->truncate(file, 0), STELE_IO);
    assert_int_equal(file->vfs->ops->allocate(file, 10), STELE_IO);
    assert_holds(file, "old");
    file->vfs->ops->close(file);
}

/* Cut bytes do not come back when the file grows again, by truncate, allocate or a write past its end. */
static void test_truncate_and_allocate(void **state)
{
    struct world *world = *state;
    char got[8];
    int64_t bytes = 0;
    if (world->disk != NULL)
        sim_disk_allow_unwritten_read(world->disk, "*");
    for (int way = 0; way < 3; way++) {
        put(world, "f", "abcdefgh");
        struct stele_file *file = open_file(world, "f", RW);
        assert_ok(file->vfs->ops->truncate(file, 3));
        assert_holds(file, "abc");
        if (way == 0)
            assert_ok(file->vfs->ops->truncate(file, 8));
        else if (way == 1)
            assert_ok(file->vfs->ops->allocate(file, 8));
        else
            assert_ok(stele_file_write(file, "", 1, 7));
        assert_ok(stele_file_read(file, got, 8, 0));
        assert_memory_equal(got, "abc\0\0\0\0\0", 8);
        assert_ok(file->vfs->ops->allocate(file, 2));
        assert_ok(file->vfs->ops->size(file, &bytes));
        assert_int_equal(bytes, 8);
        assert_int_equal(file->vfs->ops->truncate(file, -1), STELE_IO);
        assert_ok(file->vfs->ops->truncate(file, 100000));
        assert_ok(file->vfs->ops->size(file, &bytes));
        assert_int_equal(bytes, 100000);
        assert_ok(file->vfs->ops->truncate(file, 0));
        assert_holds(file, "");
        file->vfs->ops->close(file);
    }
}

/* Size, kind and the time that was set. */
static void test_stat_and_mtime(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    static const int64_t times_ms[] = {0, 1, 999, 1700000000123, -1, -1500};
    struct stele_stat stat;
    put(world, "f", "abc");
    assert_ok(ops->mkdir(world->vfs, AT("d")));
    assert_ok(ops->stat(world->vfs, AT("d"), &stat));
    assert_true(stat.is_dir);
    assert_ok(ops->stat(world->vfs, AT("f"), &stat));
    assert_false(stat.is_dir);
    assert_int_equal(stat.bytes, 3);
    assert_true(stat.mtime_ms > 1500000000000);
    for (size_t i = 0; i < STELE_ARRAY_LEN(times_ms); i++) {
        assert_ok(ops->set_mtime(world->vfs, AT("f"), times_ms[i]));
        assert_ok(ops->stat(world->vfs, AT("f"), &stat));
        assert_int_equal(stat.mtime_ms, times_ms[i]);
    }
    put(world, "f", "later");
    assert_ok(ops->stat(world->vfs, AT("f"), &stat));
    assert_true(stat.mtime_ms > 1500000000000);
}

struct rename_case {
    const char *from, *to;
    enum stele_err want;
};

/* In order, on: a "A", b "B", d/, d/x "X", e/. */
static const struct rename_case renames[] = {
    {"no", "c", STELE_NOT_FOUND},
    {"a", "no/c", STELE_NOT_FOUND},
    {"a", "a", STELE_OK},
    {"a", "d", STELE_IO},
    {"d", "a", STELE_NOT_FOUND},
    {"e", "d", STELE_EXISTS},
    {"d", "d/y", STELE_IO},
    {"a", "b", STELE_OK},
    {"b", "d/b", STELE_OK},
    {"d", "e", STELE_OK},
    {"e/b", "e/x", STELE_OK},
    {"e", "longer-name", STELE_OK},
    {"longer-name/x", "a", STELE_OK},
};

/* Rename replaces, moves, and refuses what rename(2) refuses; in the end "A" is at a and all else is gone. */
static void test_rename(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    put(world, "a", "A");
    put(world, "b", "B");
    assert_ok(ops->mkdir(world->vfs, AT("d")));
    assert_ok(ops->mkdir(world->vfs, AT("e")));
    put(world, "d/x", "X");
    struct stele_file *old_b = open_file(world, "b", RW), *a = open_file(world, "a", RW);
    if (world->disk != NULL)
        sim_disk_allow_unsynced_rename(world->disk, "*");
    for (size_t i = 0; i < STELE_ARRAY_LEN(renames); i++) {
        enum stele_err err = ops->rename(world->vfs, AT(renames[i].from), AT(renames[i].to));
        if (err != renames[i].want)
            fail_msg("%s to %s: %s", renames[i].from, renames[i].to, stele_err_name(err));
    }
    assert_content(world, "a", "A");
    assert_int_equal(stat_err(world, "b"), STELE_NOT_FOUND);
    assert_int_equal(stat_err(world, "d"), STELE_NOT_FOUND);
    assert_ok(ops->rmdir(world->vfs, AT("longer-name")));
    /* Open files are the files, whatever their names. */
    assert_holds(old_b, "B");
    assert_ok(stele_file_write(a, "+", 1, 1));
    assert_content(world, "a", "A+");
    ops->close(old_b);
    ops->close(a);
}

/* An unlinked file lives on for those who have it open, and its name is free at once. */
static void test_unlink(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    put(world, "f", "old");
    struct stele_file *file = open_file(world, "f", RW);
    assert_ok(ops->unlink(world->vfs, AT("f")));
    assert_int_equal(ops->unlink(world->vfs, AT("f")), STELE_NOT_FOUND);
    assert_ok(stele_file_write(file, "er", 2, 3));
    assert_ok(ops->sync(file));
    assert_holds(file, "older");
    put(world, "f", "new");
    assert_holds(file, "older");
    assert_content(world, "f", "new");
    ops->close(file);
    assert_ok(ops->mkdir(world->vfs, AT("d")));
    assert_int_equal(ops->unlink(world->vfs, AT("d")), STELE_IO);
}

/* Directories are made once, and removed only when empty. */
static void test_directories(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    assert_ok(ops->mkdir(world->vfs, AT("d")));
    assert_int_equal(ops->mkdir(world->vfs, AT("d")), STELE_EXISTS);
    assert_int_equal(ops->mkdir(world->vfs, AT("no/d")), STELE_NOT_FOUND);
    put(world, "f", "x");
    assert_int_equal(ops->mkdir(world->vfs, AT("f")), STELE_EXISTS);
    put(world, "d/f", "x");
    assert_int_equal(ops->rmdir(world->vfs, AT("d")), STELE_EXISTS);
    assert_ok(ops->unlink(world->vfs, AT("d/f")));
    assert_int_equal(ops->rmdir(world->vfs, AT("f")), STELE_NOT_FOUND);
    assert_ok(ops->sync_dir(world->vfs, AT("d")));
    assert_ok(ops->rmdir(world->vfs, AT("d")));
    assert_int_equal(ops->rmdir(world->vfs, AT("d")), STELE_NOT_FOUND);
}

struct listing {
    struct world *world;
    char text[256];
    int stop_at, count;
    bool is_unlinking;
};

static enum stele_err add_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    struct world *world = listing->world;
    char path[300];
    strncat(listing->text, name, sizeof(listing->text) - strlen(listing->text) - 1);
    strncat(listing->text, " ", sizeof(listing->text) - strlen(listing->text) - 1);
    if (listing->is_unlinking) {
        (void)snprintf(path, sizeof(path), "d/%s", name);
        assert_ok(world->vfs->ops->unlink(world->vfs, AT(path)));
    }
    return ++listing->count == listing->stop_at ? STELE_CANCELLED : STELE_OK;
}

/* Names come in byte order without the dots; the caller stops it, and may unlink what it is told. */
static void test_list(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    static const char *const names[] = {"b",        "a",  "B",  "ab", "a.b", "00000000000000000010.log",
                                        "\xc3\xa4", "-x", "..."};
    struct listing all = {.world = world}, two = {.world = world, .stop_at = 2}, none = {.world = world};
    assert_ok(ops->mkdir(world->vfs, AT("d")));
    assert_ok(ops->list(world->vfs, AT("d"), add_name, &none));
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "d/%s", names[i]);
        put(world, path, "");
    }
    assert_ok(ops->list(world->vfs, AT("d"), add_name, &all));
    assert_string_equal(all.text, "-x ... 00000000000000000010.log B a a.b ab b \xc3\xa4 ");
    assert_int_equal(ops->list(world->vfs, AT("d"), add_name, &two), STELE_CANCELLED);
    assert_string_equal(two.text, "-x ... ");
    struct listing gone = {.world = world, .is_unlinking = true};
    assert_ok(ops->list(world->vfs, AT("d"), add_name, &gone));
    assert_string_equal(gone.text, all.text);
    assert_ok(ops->list(world->vfs, AT("d"), add_name, &none));
    assert_string_equal(none.text, "");
    assert_int_equal(ops->list(world->vfs, AT("no"), add_name, &none), STELE_NOT_FOUND);
    put(world, "f", "");
    assert_int_equal(ops->list(world->vfs, AT("f"), add_name, &none), STELE_NOT_FOUND);
}

/* Many names, made in no order. */
static void test_list_many(void **state)
{
    struct world *world = *state;
    struct listing all = {.world = world};
    for (int i = 0; i < 500; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%03d", i * 171 % 500);
        put(world, name, "");
    }
    assert_ok(world->vfs->ops->list(world->vfs, world->root, add_name, &all));
    assert_int_equal(all.count, 500);
    assert_int_equal(strncmp(all.text, "000 001 002 003 ", 16), 0);
}

/* One holder at a time, and the file's content is not touched by it. */
static void test_lock(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    struct stele_file *first = NULL, *second = NULL, *other = NULL;
    assert_ok(ops->lock(world->vfs, AT(".lock"), &first));
    assert_ok(stat_err(world, ".lock"));
    for (int i = 0; i < 3; i++)
        assert_int_equal(ops->lock(world->vfs, AT(".lock"), &second), STELE_LOCKED);
    assert_null(second);
    assert_ok(ops->lock(world->vfs, AT("other"), &other));
    ops->close(first);
    put(world, ".lock", "text");
    assert_ok(ops->lock(world->vfs, AT(".lock"), &second));
    assert_content(world, ".lock", "text");
    ops->close(second);
    ops->close(other);
}

/* A map shows the file, zeros past its end, and outlives the file's closing and its being cut. */
static void test_map(void **state)
{
    struct world *world = *state;
    const uint8_t *map = NULL;
    put(world, "f", "abc");
    struct stele_file *file = open_file(world, "f", RW);
    assert_ok(file->vfs->ops->map(file, 20000, &map));
    assert_memory_equal(map, "abc\0", 4);
    assert_int_equal(map[19999], 0);
    assert_ok(file->vfs->ops->truncate(file, 0));
    file->vfs->ops->close(file);
    assert_true(map[1] == 'b' || map[1] == 0);
    world->vfs->ops->unmap(world->vfs, map, 20000);
}

/* The calls that only promise or tell. */
static void test_sync_and_hints(void **state)
{
    struct world *world = *state;
    const struct stele_vfs_ops *ops = world->vfs->ops;
    struct stele_file *file = open_file(world, "f", NEW);
    int64_t bytes = -1;
    assert_ok(stele_file_write(file, "abc", 3, 0));
    ops->sync_range(file, 0, 3);
    ops->sync_range(file, 100, 100);
    assert_ok(ops->sync(file));
    assert_ok(ops->sync(file));
    assert_ok(ops->sync_dir(world->vfs, world->root));
    assert_int_not_equal(ops->resident(file, 0, 3), STELE_RESIDENT_NO); /* just written */
    assert_ok(ops->free_bytes(world->vfs, world->root, &bytes));
    assert_true(bytes > 0);
    assert_true((ops->descriptor(file) >= 0) == (world->disk == NULL));
    assert_holds(file, "abc");
    ops->close(file);
}

/* One random step on a world; what it saw goes into a text, so that two worlds can be compared. */
static void random_step(struct world *world, struct stele_prng *prng, struct stele_file **files, char *out, size_t room)
{
    static const char *const names[] = {"a", "b", "d", "d/a", "d/b", "e", "e/a", "d/e", "no/a", "a/b"};
    const struct stele_vfs_ops *ops = world->vfs->ops;
    const char *name = names[stele_prng_below(prng, STELE_ARRAY_LEN(names))];
    const char *other = names[stele_prng_below(prng, STELE_ARRAY_LEN(names))];
    unsigned flags = (unsigned)stele_prng_below(prng, 16) << 1 | STELE_OPEN_READ;
    struct stele_file **file = &files[stele_prng_below(prng, 4)];
    int64_t pos = stele_prng_range(prng, 0, 9000), bytes = -1;
    uint8_t data[3000];
    size_t count = 1 + stele_prng_below(prng, sizeof(data) - 1);
    struct stele_stat stat = {.bytes = -1};
    struct listing listing = {.world = world};
    enum stele_err err = STELE_OK;
    uint64_t kind = stele_prng_below(prng, 14);
    stele_prng_bytes(prng, data, sizeof(data));
    if (kind >= 8 && *file == NULL)
        kind = 0;
    switch (kind) {
    case 0:
        if (*file != NULL)
            ops->close(*file);
        *file = NULL;
        err = ops->stat(world->vfs, AT(name), &stat); /* opening a directory is not promised to fail */
        if (err == STELE_NOT_FOUND || !stat.is_dir)
            err = ops->open(world->vfs, AT(name), flags | STELE_OPEN_WRITE, file);
        break;
    case 1:
        err = ops->mkdir(world->vfs, AT(name));
        break;
    case 2:
        err = ops->rmdir(world->vfs, AT(name));
        break;
    case 3:
        err = ops->unlink(world->vfs, AT(name));
        break;
    case 4:
    case 5:
        err = ops->rename(world->vfs, AT(name), AT(other));
        break;
    case 6:
        err = ops->stat(world->vfs, AT(name), &stat);
        break;
    case 7:
        err = ops->list(world->vfs, AT(name), add_name, &listing);
        break;
    case 8:
        err = ops->truncate(*file, pos);
        break;
    case 9:
        err = ops->allocate(*file, pos + 1);
        break;
    case 10:
    case 11:
        err = stele_file_write(*file, data, count, pos);
        break;
    default:
        err = ops->pread(*file, data, count, pos, &count);
        break;
    }
    if (stat.is_dir)
        stat.bytes = 0;
    if (*file != NULL)
        assert_ok(ops->size(*file, &bytes));
    uint32_t sum = 0;
    for (size_t i = 0; err == STELE_OK && kind >= 12 && i < count; i++)
        sum = sum * 31 + data[i];
    (void)snprintf(out, room, "kind %d %s %s: %s size %lld stat %lld read %zu %x list %s", (int)kind, name, other,
                   stele_err_name(err), (long long)bytes, (long long)stat.bytes, err == STELE_OK ? count : 0, sum,
                   listing.text);
}

/* The simulated disk answers as the kernel does, error for error, over many random runs. */
static void test_like_the_kernel(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct world *worlds[2] = {world_new(false), world_new(true)};
        struct stele_file *files[2][4] = {{NULL}};
        struct stele_prng prngs[2];
        stele_prng_init(&prngs[0], seed, 3);
        prngs[1] = prngs[0];
        sim_disk_allow_unsynced_rename(worlds[1]->disk, "*");
        sim_disk_allow_unwritten_read(worlds[1]->disk, "*");
        for (int step = 0; step < 400; step++) {
            char text[2][1024];
            for (int i = 0; i < 2; i++)
                random_step(worlds[i], &prngs[i], files[i], text[i], sizeof(text[i]));
            if (strcmp(text[0], text[1]) != 0)
                fail_msg("seed %d step %d\nkernel: %s\nsim:    %s", (int)seed, step, text[0], text[1]);
        }
        assert_int_equal(sim_disk_violations(worlds[1]->disk), 0);
        for (int i = 0; i < 8; i++) {
            struct stele_file *file = files[i / 4][i % 4];
            if (file != NULL)
                file->vfs->ops->close(file);
        }
        world_free(worlds[0]);
        world_free(worlds[1]);
    }
}

#define BOTH(test)                                                                                                     \
    {#test " posix", test, setup_posix, teardown, NULL},                                                               \
    {                                                                                                                  \
#test " sim", test, setup_sim, teardown, NULL                                                                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_open_flags),     BOTH(test_wrong_paths),
        BOTH(test_read_and_write), BOTH(test_many_pieces),
        BOTH(test_read_only),      BOTH(test_truncate_and_allocate),
        BOTH(test_stat_and_mtime), BOTH(test_rename),
        BOTH(test_unlink),         BOTH(test_directories),
        BOTH(test_list),           BOTH(test_list_many),
        BOTH(test_lock),           BOTH(test_map),
        BOTH(test_sync_and_hints), cmocka_unit_test(test_like_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
