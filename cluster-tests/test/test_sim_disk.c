/* The simulated disk does what it says: what a crash may take, what it may not, every fault and every audit. */
#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"

#include <string.h>

static struct sim_disk *disk;
static struct stele_vfs *vfs;

static int setup(void **state)
{
    (void)state;
    disk = sim_disk_new(1);
    vfs = sim_disk_vfs(disk);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_disk_free(disk);
    return 0;
}

static struct stele_file *open_file(const char *path)
{
    struct stele_file *file = NULL;
    assert_ok(vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    return file;
}

/* A killed process loses its files and locks and no byte. */
static void test_kill_keeps_all(void **state)
{
    (void)state;
    struct stele_file *file = open_file("/a"), *lock = NULL, *again = NULL;
    char got[3];
    assert_ok(stele_file_write(file, "abc", 3, 0));
    assert_ok(vfs->ops->lock(vfs, "/lock", &lock));
    assert_int_equal(vfs->ops->lock(vfs, "/lock", &again), STELE_LOCKED);
    sim_disk_crash(disk, SIM_DISK_KILL);
    assert_int_equal(stele_file_read(file, got, 3, 0), STELE_IO);
    vfs->ops->close(file);
    vfs->ops->close(lock);
    file = open_file("a");
    assert_ok(stele_file_read(file, got, 3, 0));
    assert_memory_equal(got, "abc", 3);
    assert_false(sim_disk_is_durable(disk, "/a", 0, 3));
    vfs->ops->close(file);
    assert_ok(vfs->ops->lock(vfs, "/lock", &lock));
    vfs->ops->close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill_keeps_all, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
