#include "storage/test/disk_files.h"

#include <stdio.h>
#include <string.h>

void disk_fail(struct sim_disk *disk, int64_t at, enum stele_err err, bool is_lasting)
{
    struct sim_disk_fault fault = {.err = err, .is_lasting = is_lasting};
    sim_disk_arm(disk, at, &fault);
}

void disk_set_space(struct sim_disk *disk, int64_t bytes)
{
    sim_disk_set_quota(disk, bytes < 0 ? -1 : sim_disk_used_bytes(disk) + bytes);
}

int64_t disk_changes(const struct sim_disk *disk)
{
    static const enum sim_disk_op ops[] = {SIM_DISK_WRITE,    SIM_DISK_SYNC,      SIM_DISK_TRUNCATE, SIM_DISK_ALLOCATE,
                                           SIM_DISK_RENAME,   SIM_DISK_UNLINK,    SIM_DISK_MKDIR,    SIM_DISK_RMDIR,
                                           SIM_DISK_SYNC_DIR, SIM_DISK_SET_MTIME, SIM_DISK_LOCK};
    int64_t changes = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(ops); i++)
        changes += sim_disk_stats(disk)->calls[ops[i]];
    return changes;
}

static void sync_parent(struct stele_vfs *vfs, const char *path)
{
    char parent[STELE_PATH_BYTES];
    (void)snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_ok(vfs->ops->sync_dir(vfs, parent[0] == 0 ? "/" : parent));
}

void disk_put(struct sim_disk *disk, const char *path, const void *bytes, size_t count)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_file *file = NULL;
    assert_ok(vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file));
    assert_ok(stele_file_write(file, bytes, count, 0));
    assert_ok(vfs->ops->sync(file));
    vfs->ops->close(file);
    sync_parent(vfs, path);
}

void disk_put_text(struct sim_disk *disk, const char *path, const char *text)
{
    disk_put(disk, path, text, strlen(text));
}

void disk_make_dir(struct sim_disk *disk, const char *path)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    assert_ok(vfs->ops->mkdir(vfs, path));
    sync_parent(vfs, path);
}

bool disk_has(struct sim_disk *disk, const char *path)
{
    struct stele_stat stat;
    return sim_disk_vfs(disk)->ops->stat(sim_disk_vfs(disk), path, &stat) == STELE_OK;
}

size_t disk_read(struct sim_disk *disk, const char *path, void *out_bytes, size_t capacity)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_file *file = NULL;
    int64_t bytes = 0;
    assert_ok(vfs->ops->open(vfs, path, STELE_OPEN_READ, &file));
    assert_ok(vfs->ops->size(file, &bytes));
    assert_true((size_t)bytes <= capacity);
    assert_ok(stele_file_read(file, out_bytes, (size_t)bytes, 0));
    vfs->ops->close(file);
    return (size_t)bytes;
}

void disk_assert_text(struct sim_disk *disk, const char *path, const char *text)
{
    char got[4096];
    size_t count = disk_read(disk, path, got, sizeof(got) - 1);
    got[count] = 0;
    assert_string_equal(got, text);
    assert_int_equal(count, strlen(text));
}
