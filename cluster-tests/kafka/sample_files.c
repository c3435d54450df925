#include "cluster-tests/kafka/sample_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint8_t *sample_read(const char *path, size_t *out_count)
{
    struct stat stat;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    assert_int_equal(fstat(fileno(file), &stat), 0);
    uint8_t *bytes = malloc((size_t)stat.st_size + 1);
    assert_non_null(bytes);
    *out_count = fread(bytes, 1, (size_t)stat.st_size, file);
    assert_int_equal(*out_count, stat.st_size);
    bytes[*out_count] = 0;
    (void)fclose(file);
    return bytes;
}

void sample_put(struct sim_disk *disk, const char *path, const void *bytes, size_t count)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_file *file = NULL;
    char dir[STELE_PATH_BYTES];
    assert_ok(vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file));
    assert_ok(stele_file_write(file, bytes, count, 0));
    assert_ok(vfs->ops->sync(file));
    vfs->ops->close(file);
    (void)snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_ok(vfs->ops->sync_dir(vfs, dir[0] == 0 ? "/" : dir));
}

uint8_t *sample_get(struct sim_disk *disk, const char *path, size_t *out_count)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_file *file = NULL;
    int64_t bytes = 0;
    if (vfs->ops->open(vfs, path, STELE_OPEN_READ, &file) != STELE_OK)
        return NULL;
    assert_ok(vfs->ops->size(file, &bytes));
    uint8_t *content = malloc((size_t)bytes + 1);
    assert_non_null(content);
    assert_ok(stele_file_read(file, content, (size_t)bytes, 0));
    content[bytes] = 0;
    vfs->ops->close(file);
    *out_count = (size_t)bytes;
    return content;
}

void sample_remove(struct sim_disk *disk, const char *path)
{
    assert_ok(sim_disk_vfs(disk)->ops->unlink(sim_disk_vfs(disk), path));
}

static void load_file(struct sim_disk *disk, const char *from, const char *to)
{
    size_t count = 0;
    uint8_t *bytes = sample_read(from, &count);
    assert_non_null(bytes);
    sample_put(disk, to, bytes, count);
    free(bytes);
}

/* Calls `each` for every name in a real directory with its path there and on the disk. */
static void each_name(struct sim_disk *disk, const char *from, const char *to,
                      void (*each)(struct sim_disk *disk, const char *path, const char *target))
{
    char path[STELE_PATH_BYTES], target[STELE_PATH_BYTES];
    DIR *names = opendir(from);
    if (names == NULL)
        fail_msg("%s cannot be read: the samples are not unpacked", from);
    for (struct dirent *name; (name = readdir(names)) != NULL;) {
        if (strcmp(name->d_name, ".") == 0 || strcmp(name->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%.2000s/%.255s", from, name->d_name);
        (void)snprintf(target, sizeof(target), "%.2000s/%.255s", to, name->d_name);
        each(disk, path, target);
    }
    (void)closedir(names);
}

static void load_entry(struct sim_disk *disk, const char *path, const char *target)
{
    struct stat stat_of;
    assert_int_equal(stat(path, &stat_of), 0);
    if (!S_ISDIR(stat_of.st_mode)) {
        load_file(disk, path, target);
        return;
    }
    assert_ok(sim_disk_vfs(disk)->ops->mkdir(sim_disk_vfs(disk), target));
    each_name(disk, path, target, load_file);
}

void sample_load(struct sim_disk *disk, const char *from, const char *to)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    assert_ok(vfs->ops->mkdir(vfs, to));
    each_name(disk, from, to, load_entry);
    assert_ok(vfs->ops->sync_dir(vfs, to));
    assert_ok(vfs->ops->sync_dir(vfs, "/"));
}
