#include "storage/test/memory_vfs.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

struct memory_file {
    struct stele_file file;
    struct memory_inode *inode;
    bool is_writable;
};

static struct memory_vfs *memory_of(struct stele_vfs *vfs)
{
    return STELE_CONTAINER_OF(vfs, struct memory_vfs, vfs);
}

static struct memory_inode *inode_of(struct stele_file *file)
{
    return STELE_CONTAINER_OF(file, struct memory_file, file)->inode;
}

static enum stele_err fault(struct memory_vfs *memory)
{
    memory->calls++;
    if (memory->fail_at == 0 || --memory->fail_at > 0)
        return STELE_OK;
    memory->has_failed = true;
    memory->fail_at = memory->is_lasting ? 1 : 0;
    return memory->fail_with;
}

static struct memory_inode **bucket_of(struct memory_vfs *memory, const char *path)
{
    uint64_t hash = 14695981039346656037u;
    for (const char *at = path; *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * 1099511628211u;
    return &memory->buckets[(hash ^ (hash >> 32)) % MEMORY_BUCKETS];
}

static struct memory_inode *find(struct memory_vfs *memory, const char *path)
{
    struct memory_inode *inode = *bucket_of(memory, path);
    while (inode != NULL && strcmp(inode->path, path) != 0)
        inode = inode->next;
    return inode;
}

static void link_as(struct memory_vfs *memory, struct memory_inode *inode, const char *path)
{
    struct memory_inode **bucket = bucket_of(memory, path);
    inode->path = strdup(path);
    inode->next = *bucket;
    *bucket = inode;
}

static void drop(struct memory_inode *inode)
{
    if (inode->path != NULL || inode->opens > 0 || inode->maps > 0)
        return;
    free(inode->bytes);
    free(inode);
}

static void unlink_inode(struct memory_vfs *memory, struct memory_inode *inode)
{
    struct memory_inode **at = bucket_of(memory, inode->path);
    while (*at != inode)
        at = &(*at)->next;
    *at = inode->next;
    free(inode->path);
    inode->path = NULL;
}

static void resize(struct memory_vfs *memory, struct memory_inode *inode, size_t count)
{
    assert_int_equal(inode->maps, 0); /* a sealed file does not change under its map */
    if (count > inode->capacity) {
        inode->capacity = count < 2 * inode->capacity ? 2 * inode->capacity : count;
        inode->bytes = realloc(inode->bytes, inode->capacity);
        assert_non_null(inode->bytes);
    }
    if (count > inode->count)
        memset(inode->bytes + inode->count, 0, count - inode->count);
    inode->count = count;
    inode->mtime_ms = memory->now_ms;
}

static struct memory_inode *create(struct memory_vfs *memory, const char *path)
{
    struct memory_inode *inode = calloc(1, sizeof(*inode));
    assert_non_null(inode);
    inode->id = ++memory->next_id;
    inode->mtime_ms = memory->now_ms;
    link_as(memory, inode, path);
    return inode;
}

static enum stele_err memory_open(struct stele_vfs *vfs, const char *path, unsigned flags, struct stele_file **out_file)
{
    struct memory_vfs *memory = memory_of(vfs);
    struct memory_inode *inode = find(memory, path);
    enum stele_err err = fault(memory);
    if (err != STELE_OK)
        return err;
    if (inode == NULL && (flags & STELE_OPEN_CREATE) == 0)
        return STELE_NOT_FOUND;
    if (inode != NULL && (flags & STELE_OPEN_EXCLUSIVE) != 0)
        return STELE_EXISTS;
    if (inode == NULL)
        inode = create(memory, path);
    if ((flags & STELE_OPEN_TRUNCATE) != 0)
        resize(memory, inode, 0);
    struct memory_file *file = calloc(1, sizeof(*file));
    assert_non_null(file);
    *file = (struct memory_file){.file.vfs = vfs, .inode = inode, .is_writable = (flags & STELE_OPEN_WRITE) != 0};
    inode->opens++;
    memory->open_count++;
    if (memory->open_count > memory->open_most)
        memory->open_most = memory->open_count;
    assert_true(memory->open_limit == 0 || memory->open_count <= memory->open_limit);
    *out_file = &file->file;
    return STELE_OK;
}

static void memory_close(struct stele_file *file)
{
    struct memory_inode *inode = inode_of(file);
    inode->opens--;
    memory_of(file->vfs)->open_count--;
    drop(inode);
    free(STELE_CONTAINER_OF(file, struct memory_file, file));
}

static enum stele_err memory_pread(struct stele_file *file, void *out_bytes, size_t bytes, int64_t pos,
                                   size_t *out_count)
{
    struct memory_vfs *memory = memory_of(file->vfs);
    struct memory_inode *inode = inode_of(file);
    enum stele_err err = fault(memory);
    memory->reads++;
    if (err != STELE_OK)
        return err;
    assert_true(pos >= 0);
    size_t left = (uint64_t)pos >= inode->count ? 0 : inode->count - (size_t)pos;
    size_t count = bytes < left ? bytes : left;
    if (memory->piece_bytes > 0 && count > memory->piece_bytes)
        count = memory->piece_bytes;
    if (count > 0)
        memcpy(out_bytes, inode->bytes + pos, count);
    *out_count = count;
    return STELE_OK;
}

static enum stele_err memory_pwritev(struct stele_file *file, const struct iovec *iov, int iov_count, int64_t pos,
                                     size_t *out_count)
{
    struct memory_vfs *memory = memory_of(file->vfs);
    struct memory_inode *inode = inode_of(file);
    enum stele_err err = memory->is_full ? STELE_NO_SPACE : fault(memory);
    if (err != STELE_OK)
        return err;
    assert_true(STELE_CONTAINER_OF(file, struct memory_file, file)->is_writable);
    assert_true(pos >= 0);
    size_t done = 0;
    for (int i = 0; i < iov_count; i++) {
        size_t count = iov[i].iov_len;
        if (memory->piece_bytes > 0 && count > memory->piece_bytes - done)
            count = memory->piece_bytes - done;
        if (count == 0)
            continue;
        size_t end = (size_t)pos + done + count;
        resize(memory, inode, end > inode->count ? end : inode->count);
        memcpy(inode->bytes + (size_t)pos + done, iov[i].iov_base, count);
        done += count;
    }
    *out_count = done;
    return STELE_OK;
}

static enum stele_err memory_sync(struct stele_file *file)
{
    struct memory_vfs *memory = memory_of(file->vfs);
    enum stele_err err = fault(memory);
    const char *path = inode_of(file)->path;
    const char *suffix = path == NULL ? NULL : strrchr(path, '.');
    if (err == STELE_OK && suffix != NULL && strlen(memory->synced) + strlen(suffix) < sizeof(memory->synced))
        memcpy(memory->synced + strlen(memory->synced), suffix, strlen(suffix) + 1);
    return err;
}

static void memory_sync_range(struct stele_file *file, int64_t pos, int64_t bytes)
{
    assert_true(pos >= 0);
    assert_true((uint64_t)(pos + bytes) <= inode_of(file)->count);
}

static enum stele_err memory_truncate(struct stele_file *file, int64_t bytes)
{
    enum stele_err err = fault(memory_of(file->vfs));
    if (err == STELE_OK)
        resize(memory_of(file->vfs), inode_of(file), (size_t)bytes);
    return err;
}

static enum stele_err memory_allocate(struct stele_file *file, int64_t bytes)
{
    enum stele_err err = memory_of(file->vfs)->is_full ? STELE_NO_SPACE : fault(memory_of(file->vfs));
    if (err == STELE_OK && (size_t)bytes > inode_of(file)->count)
        resize(memory_of(file->vfs), inode_of(file), (size_t)bytes);
    return err;
}

static enum stele_err memory_size(struct stele_file *file, int64_t *out_bytes)
{
    enum stele_err err = fault(memory_of(file->vfs));
    if (err == STELE_OK)
        *out_bytes = (int64_t)inode_of(file)->count;
    return err;
}

static enum stele_err memory_map(struct stele_file *file, size_t bytes, const uint8_t **out_bytes)
{
    struct memory_vfs *memory = memory_of(file->vfs);
    struct memory_inode *inode = inode_of(file);
    enum stele_err err = fault(memory);
    if (err != STELE_OK)
        return err;
    assert_true(bytes > 0);
    assert_true(bytes <= inode->count);
    assert_true(memory->map_count < MEMORY_MAPS_MAX);
    memory->maps[memory->map_count++] = (struct memory_map){.inode = inode, .bytes = inode->bytes, .count = bytes};
    inode->maps++;
    memory->map_bytes += (int64_t)bytes;
    if (memory->map_bytes > memory->map_bytes_most)
        memory->map_bytes_most = memory->map_bytes;
    *out_bytes = inode->bytes;
    return STELE_OK;
}

static void memory_unmap(struct stele_vfs *vfs, const uint8_t *bytes, size_t count)
{
    struct memory_vfs *memory = memory_of(vfs);
    int at = 0;
    while (at < memory->map_count && memory->maps[at].bytes != bytes)
        at++;
    assert_true(at < memory->map_count);
    assert_int_equal(memory->maps[at].count, count);
    struct memory_inode *inode = memory->maps[at].inode;
    memory->maps[at] = memory->maps[--memory->map_count];
    memory->map_bytes -= (int64_t)count;
    inode->maps--;
    drop(inode);
}

static enum stele_err memory_stat(struct stele_vfs *vfs, const char *path, struct stele_stat *out_stat)
{
    struct memory_inode *inode = find(memory_of(vfs), path);
    enum stele_err err = fault(memory_of(vfs));
    if (err != STELE_OK)
        return err;
    if (inode == NULL)
        return STELE_NOT_FOUND;
    *out_stat = (struct stele_stat){.bytes = (int64_t)inode->count, .mtime_ms = inode->mtime_ms};
    return STELE_OK;
}

static enum stele_err memory_rename(struct stele_vfs *vfs, const char *from, const char *to)
{
    struct memory_vfs *memory = memory_of(vfs);
    struct memory_inode *inode = find(memory, from), *old = find(memory, to);
    enum stele_err err = fault(memory);
    if (err != STELE_OK)
        return err;
    if (inode == NULL)
        return STELE_NOT_FOUND;
    if (old != NULL) {
        unlink_inode(memory, old);
        drop(old);
    }
    unlink_inode(memory, inode);
    link_as(memory, inode, to);
    return STELE_OK;
}

static enum stele_err memory_unlink(struct stele_vfs *vfs, const char *path)
{
    struct memory_vfs *memory = memory_of(vfs);
    struct memory_inode *inode = find(memory, path);
    enum stele_err err = fault(memory);
    if (err != STELE_OK)
        return err;
    if (inode == NULL)
        return STELE_NOT_FOUND;
    unlink_inode(memory, inode);
    drop(inode);
    return STELE_OK;
}

static const struct stele_vfs_ops memory_ops = {
    .open = memory_open,
    .close = memory_close,
    .pread = memory_pread,
    .pwritev = memory_pwritev,
    .sync = memory_sync,
    .sync_range = memory_sync_range,
    .truncate = memory_truncate,
    .allocate = memory_allocate,
    .size = memory_size,
    .map = memory_map,
    .unmap = memory_unmap,
    .stat = memory_stat,
    .rename = memory_rename,
    .unlink = memory_unlink,
};

void memory_vfs_init(struct memory_vfs *memory)
{
    memset(memory, 0, sizeof(*memory));
    memory->vfs.ops = &memory_ops;
    memory->now_ms = 1600000000000;
}

void memory_vfs_deinit(struct memory_vfs *memory)
{
    assert_int_equal(memory->open_count, 0);
    assert_int_equal(memory->map_count, 0);
    for (size_t i = 0; i < MEMORY_BUCKETS; i++) {
        while (memory->buckets[i] != NULL) {
            struct memory_inode *inode = memory->buckets[i];
            unlink_inode(memory, inode);
            drop(inode);
        }
    }
}

void memory_vfs_fail(struct memory_vfs *memory, int64_t at, enum stele_err err, bool is_lasting)
{
    memory->fail_at = at;
    memory->fail_with = err;
    memory->is_lasting = is_lasting;
    memory->has_failed = false;
}

const uint8_t *memory_vfs_bytes(struct memory_vfs *memory, const char *path, size_t *out_count)
{
    static const uint8_t none[1];
    const struct memory_inode *inode = find(memory, path);
    if (inode == NULL)
        return NULL;
    *out_count = inode->count;
    return inode->bytes == NULL ? none : inode->bytes;
}

bool memory_vfs_exists(struct memory_vfs *memory, const char *path)
{
    return find(memory, path) != NULL;
}

void memory_vfs_put(struct memory_vfs *memory, const char *path, const void *bytes, size_t count)
{
    struct memory_inode *inode = find(memory, path);
    if (inode == NULL)
        inode = create(memory, path);
    resize(memory, inode, 0);
    resize(memory, inode, count);
    if (count > 0)
        memcpy(inode->bytes, bytes, count);
}

void memory_vfs_remove(struct memory_vfs *memory, const char *path)
{
    struct memory_inode *inode = find(memory, path);
    if (inode == NULL)
        return;
    unlink_inode(memory, inode);
    drop(inode);
}
