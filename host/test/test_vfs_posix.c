/* What only the kernel's files can show: a page that cannot be read, a lock held by another process, a full device,
 * memory running out. What both implementations share is in cluster-tests/test/test_vfs.c. */
#include "base/test/support.h"
#include "host/map_guard.h"
#include "host/vfs_posix.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct stele_test_mem memory;
static struct stele_vfs *vfs;
static char root[] = "/tmp/stele-posix-XXXXXX";

static int setup(void **state)
{
    (void)state;
    stele_test_mem_init(&memory);
    vfs = stele_vfs_posix_new(&memory.mem);
    memcpy(root + sizeof(root) - 7, "XXXXXX", 6);
    return vfs == NULL || mkdtemp(root) == NULL;
}

static int teardown(void **state)
{
    char command[64];
    (void)state;
    stele_vfs_posix_free(vfs);
    stele_test_mem_check_empty(&memory);
    (void)snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

struct path {
    char text[STELE_PATH_BYTES];
};

static struct path at(const char *name)
{
    struct path path;
    assert_ok(stele_path_join(path.text, root, name));
    return path;
}

#define AT(name) (at(name).text)

static struct stele_file *make_file(const char *name, size_t bytes)
{
    struct stele_file *file = NULL;
    static const char text[4 * 4096] = "abc";
    assert_ok(vfs->ops->open(vfs, AT(name), STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    assert_ok(stele_file_write(file, text, bytes, 0));
    return file;
}

/* A mapped page that a truncation took away reads as zeros and is counted; the neighbours stay. */
static void test_map_fault_reads_zeros(void **state)
{
    (void)state;
    struct stele_file *file = make_file("f", 4 * 4096);
    const uint8_t *map = NULL;
    int64_t before = stele_map_guard_faults();
    assert_ok(vfs->ops->map(file, 4 * 4096, &map));
    assert_ok(stele_file_write(file, "x", 1, 3 * 4096));
    assert_int_equal(map[3 * 4096], 'x');
    assert_ok(vfs->ops->truncate(file, 4096));
    for (size_t i = 4096; i < 4 * 4096; i++)
        assert_int_equal(map[i], 0);
    assert_int_equal(stele_map_guard_faults() - before, 3);
    assert_memory_equal(map, "abc", 3);
    vfs->ops->unmap(vfs, map, 4 * 4096);
    vfs->ops->close(file);
}

/* More maps than one chunk of the guard's table holds, each of them guarded, and the slots are used again. */
static void test_many_maps(void **state)
{
    (void)state;
    enum { MAPS = 2500 };
    static const uint8_t *maps[MAPS];
    struct stele_file *file = make_file("f", 4096);
    for (int round = 0; round < 2; round++) {
        assert_ok(vfs->ops->truncate(file, 4096));
        for (int i = 0; i < MAPS; i++)
            assert_ok(vfs->ops->map(file, 4096, &maps[i]));
        assert_ok(vfs->ops->truncate(file, 0));
        for (int i = 0; i < MAPS; i++) {
            assert_int_equal(maps[i][0], 0);
            vfs->ops->unmap(vfs, maps[i], 4096);
        }
    }
    vfs->ops->close(file);
}

/* A bus error outside every map still ends the process. */
static void test_other_bus_error_kills(void **state)
{
    (void)state;
    struct stele_file *file = make_file("f", 4096);
    const uint8_t *guarded = NULL;
    assert_ok(vfs->ops->map(file, 4096, &guarded));
    const volatile uint8_t *bare = mmap(NULL, 4096, PROT_READ, MAP_SHARED, vfs->ops->descriptor(file), 0);
    assert_true(bare != MAP_FAILED);
    assert_ok(vfs->ops->truncate(file, 0));
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* cmocka's own action would carry on with the tests. */
        (void)signal(SIGBUS, SIG_DFL);
        assert_ok(vfs->ops->map(file, 4096, &guarded));
        _exit(guarded[0] + bare[0]);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGBUS);
    (void)munmap((void *)(uintptr_t)bare, 4096);
    vfs->ops->unmap(vfs, guarded, 4096);
    vfs->ops->close(file);
}

/* Tries the lock in another process: 0 when it was free, 7 when it was taken. */
static int lock_elsewhere(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct stele_file *lock = NULL;
        enum stele_err err = vfs->ops->lock(vfs, AT(".lock"), &lock);
        _exit(err == STELE_OK ? 0 : err == STELE_LOCKED ? 7 : 9);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Another process cannot take the lock, by this library or by a plain record lock as Kafka takes. */
static void test_lock_excludes_processes(void **state)
{
    (void)state;
    struct stele_file *lock = NULL;
    struct stele_vfs *other = stele_vfs_posix_new(&memory.mem);
    struct flock record = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(lock_elsewhere(), 0);
    assert_ok(vfs->ops->lock(vfs, AT(".lock"), &lock));
    assert_int_equal(other->ops->lock(other, AT(".lock"), &lock), STELE_LOCKED);
    assert_int_equal(lock_elsewhere(), 7);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(AT(".lock"), O_RDWR);
        _exit(fcntl(fd, F_SETLK, &record) == 0 ? 0 : 7);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    vfs->ops->close(lock);
    assert_int_equal(lock_elsewhere(), 0);
    stele_vfs_posix_free(other);
}

/* A device without room says so. */
static void test_full_device(void **state)
{
    (void)state;
    struct stele_file *file = NULL;
    assert_ok(vfs->ops->open(vfs, "/dev/full", STELE_OPEN_WRITE, &file));
    assert_int_equal(stele_file_write(file, "x", 1, 0), STELE_NO_SPACE);
    vfs->ops->close(file);
}

static enum stele_err count_name(void *arg, const char *name)
{
    (void)name;
    (*(int *)arg)++;
    return STELE_OK;
}

/* Every allocation may fail: NO_MEMORY, nothing is left open or locked, and the next try works. */
static void test_without_memory(void **state)
{
    (void)state;
    int names = 0;
    bool is_done = false;
    vfs->ops->close(make_file("f", 10));
    for (int i = 0; i < 200; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "a-rather-long-name-%d", i);
        vfs->ops->close(make_file(name, 0));
    }
    for (int64_t n = 1; !is_done; n++) {
        struct stele_file *file = NULL, *lock = NULL;
        names = 0;
        stele_test_mem_fail(&memory, n, false);
        enum stele_err err = vfs->ops->open(vfs, AT("f"), STELE_OPEN_READ, &file);
        if (err == STELE_OK)
            err = vfs->ops->lock(vfs, AT(".lock"), &lock);
        if (err == STELE_OK)
            err = vfs->ops->list(vfs, root, count_name, &names);
        is_done = !memory.has_failed;
        assert_int_equal(err, is_done ? STELE_OK : STELE_NO_MEMORY);
        if (file != NULL)
            vfs->ops->close(file);
        if (lock != NULL)
            vfs->ops->close(lock);
    }
    assert_int_equal(names, 202);
    stele_test_mem_fail(&memory, 1, false);
    assert_null(stele_vfs_posix_new(&memory.mem));
    stele_test_mem_fail(&memory, 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_map_fault_reads_zeros, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_maps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_bus_error_kills, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock_excludes_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
