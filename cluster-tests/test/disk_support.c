#include "cluster-tests/test/disk_support.h"

#include <string.h>

struct sim_disk *disk;
struct stele_vfs *vfs;

void disk_renew(uint64_t seed)
{
    sim_disk_free(disk);
    disk = sim_disk_new(seed);
    vfs = sim_disk_vfs(disk);
}

int disk_setup(void **state)
{
    (void)state;
    disk = NULL;
    disk_renew(1);
    return 0;
}

int disk_teardown(void **state)
{
    (void)state;
    assert_int_equal(sim_disk_in_use(disk), 0);
    sim_disk_free(disk);
    return 0;
}

struct stele_file *disk_open(const char *path)
{
    struct stele_file *file = NULL;
    assert_ok(vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    return file;
}

void disk_close(struct stele_file *file)
{
    vfs->ops->close(file);
}

void disk_fill(struct stele_file *file, char byte, int64_t pos, int64_t end)
{
    char bytes[PAGE];
    memset(bytes, byte, sizeof(bytes));
    for (; pos < end; pos += PAGE)
        assert_ok(stele_file_write(file, bytes, (size_t)stele_min_i64(PAGE, end - pos), pos));
}

void disk_sync_dir(const char *path)
{
    assert_ok(vfs->ops->sync_dir(vfs, path));
}

void disk_make_durable(const char *path, char byte, int64_t bytes)
{
    struct stele_file *file = disk_open(path);
    disk_fill(file, byte, 0, bytes);
    assert_ok(vfs->ops->sync(file));
    disk_close(file);
    disk_sync_dir("/");
}

int64_t disk_content(const char *path, int64_t pos, char out_bytes[PAGE])
{
    struct stele_file *file = NULL;
    size_t count = 0;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_READ, &file);
    if (err == STELE_NOT_FOUND)
        return -1;
    assert_ok(err);
    assert_ok(vfs->ops->pread(file, out_bytes, PAGE, pos, &count));
    disk_close(file);
    return (int64_t)count;
}

bool is_all(const char *bytes, int64_t count, char byte)
{
    for (int64_t i = 0; i < count; i++) {
        if (bytes[i] != byte)
            return false;
    }
    return true;
}

bool disk_has(const char *path)
{
    struct stele_stat stat;
    enum stele_err err = vfs->ops->stat(vfs, path, &stat);
    assert_true(err == STELE_OK || err == STELE_NOT_FOUND);
    return err == STELE_OK;
}

int64_t disk_size_of(const char *path)
{
    struct stele_stat stat;
    assert_ok(vfs->ops->stat(vfs, path, &stat));
    return stat.bytes;
}

struct stele_file *disk_fail_sync(const char *path, bool is_full)
{
    struct stele_file *file = disk_open(path);
    disk_fill(file, 'n', 0, 4 * PAGE);
    if (is_full) {
        sim_disk_set_quota_at_sync(disk, true);
        sim_disk_set_quota(disk, 100);
        assert_int_equal(vfs->ops->sync(file), STELE_NO_SPACE);
        sim_disk_set_quota(disk, -1);
        sim_disk_set_quota_at_sync(disk, false);
    } else {
        sim_disk_arm(disk, 1, &(struct sim_disk_fault){.ops = SIM_DISK_BIT(SIM_DISK_SYNC), .err = STELE_IO});
        assert_int_equal(vfs->ops->sync(file), STELE_IO);
        assert_int_equal(sim_disk_struck_op(disk), SIM_DISK_SYNC);
    }
    return file;
}
