#include "base/vfs.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum stele_err stele_file_read(struct stele_file *file, void *out_bytes, size_t bytes, int64_t pos)
{
    uint8_t *at = out_bytes;
    while (bytes > 0) {
        size_t count = 0;
        enum stele_err err = file->vfs->ops->pread(file, at, bytes, pos, &count);
        if (err != STELE_OK)
            return err;
        if (count == 0)
            return STELE_END;
        STELE_ASSERT(count <= bytes);
        at += count;
        pos += (int64_t)count;
        bytes -= count;
    }
    return STELE_OK;
}

enum stele_err stele_file_write(struct stele_file *file, const void *bytes, size_t count, int64_t pos)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = count};
    return stele_file_writev(file, &iov, 1, pos);
}

/* Drops `count` written bytes from the front. */
static void advance(struct iovec **iov, int *iov_count, size_t count)
{
    while (*iov_count > 0 && count >= (*iov)->iov_len) {
        count -= (*iov)->iov_len;
        (*iov)++;
        (*iov_count)--;
    }
    if (count > 0) {
        STELE_ASSERT(*iov_count > 0);
        (*iov)->iov_base = (uint8_t *)(*iov)->iov_base + count;
        (*iov)->iov_len -= count;
    }
}

enum stele_err stele_file_writev(struct stele_file *file, struct iovec *iov, int iov_count, int64_t pos)
{
    advance(&iov, &iov_count, 0);
    while (iov_count > 0) {
        size_t count = 0;
        enum stele_err err = file->vfs->ops->pwritev(file, iov, iov_count, pos, &count);
        if (err != STELE_OK)
            return err;
        STELE_ASSERT(count > 0);
        pos += (int64_t)count;
        advance(&iov, &iov_count, count);
    }
    return STELE_OK;
}

static enum stele_err write_synced(struct stele_vfs *vfs, const char *path, const void *bytes, size_t count)
{
    struct stele_file *file = NULL;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, bytes, count, 0);
    if (err == STELE_OK)
        err = vfs->ops->sync(file);
    vfs->ops->close(file);
    return err;
}

enum stele_err stele_vfs_replace(struct stele_vfs *vfs, const char *dir, const char *name, const void *bytes,
                                 size_t count)
{
    char path[STELE_PATH_BYTES], temporary[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, dir, name);
    if (err != STELE_OK)
        return err;
    int length = snprintf(temporary, sizeof(temporary), "%s.tmp", path);
    if (length < 0 || (size_t)length >= sizeof(temporary))
        return STELE_TOO_LARGE;
    err = write_synced(vfs, temporary, bytes, count);
    if (err == STELE_OK)
        err = vfs->ops->rename(vfs, temporary, path);
    if (err == STELE_OK)
        err = vfs->ops->sync_dir(vfs, dir);
    return err;
}

static enum stele_err read_all(struct stele_file *file, struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes_max,
                               uint8_t **out_bytes, size_t *out_count)
{
    int64_t bytes = 0;
    enum stele_err err = file->vfs->ops->size(file, &bytes);
    if (err != STELE_OK)
        return err;
    if (bytes < 0 || (uint64_t)bytes > bytes_max)
        return STELE_TOO_LARGE;
    uint8_t *memory = stele_mem_raw(mem, tag, (size_t)bytes + 1);
    if (memory == NULL)
        return STELE_NO_MEMORY;
    err = stele_file_read(file, memory, (size_t)bytes, 0);
    if (err != STELE_OK) {
        stele_mem_free(mem, memory);
        return err == STELE_END ? STELE_IO : err;
    }
    memory[bytes] = 0;
    *out_bytes = memory;
    *out_count = (size_t)bytes;
    return STELE_OK;
}

enum stele_err stele_vfs_read_whole(struct stele_vfs *vfs, struct stele_mem *mem, int tag, const char *path,
                                    size_t bytes_max, uint8_t **out_bytes, size_t *out_count)
{
    struct stele_file *file = NULL;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_READ, &file);
    if (err != STELE_OK)
        return err;
    err = read_all(file, mem, (enum stele_mem_tag)tag, bytes_max, out_bytes, out_count);
    vfs->ops->close(file);
    return err;
}

enum stele_err stele_path_join(char out_path[STELE_PATH_BYTES], const char *dir, const char *name)
{
    int length = snprintf(out_path, STELE_PATH_BYTES, "%s/%s", dir, name);
    return length < 0 || length >= STELE_PATH_BYTES ? STELE_TOO_LARGE : STELE_OK;
}
