/* The simulated disk as a table of file calls. */
#include "cluster-tests/sim/sim_disk.h"

#include "base/check.h"
#include "cluster-tests/sim/sim_disk_struct.h"

#include <stdlib.h>
#include <string.h>

struct sim_disk *sim_disk_of(struct stele_vfs *vfs)
{
    return STELE_CONTAINER_OF(vfs, struct sim_disk, vfs);
}

static struct sim_file *file_of(struct stele_file *file)
{
    return STELE_CONTAINER_OF(file, struct sim_file, file);
}

static int64_t wall_ms(const struct sim_disk *disk)
{
    return disk->hooks.wall_ms == NULL ? 1700000000000 : disk->hooks.wall_ms(disk->hooks.arg);
}

/* Counts a call on an open file. */
static enum stele_err enter_file(const struct sim_file *file, enum sim_disk_op op)
{
    struct sim_disk *disk = sim_disk_of(file->file.vfs);
    return file->run == disk->run ? sim_disk_enter(disk, op, file->path) : STELE_IO;
}

/* Counts a call on a path and finds where it leads. */
static enum stele_err enter_path(struct sim_disk *disk, enum sim_disk_op op, const char *path,
                                 struct sim_place *out_place)
{
    enum stele_err err = sim_disk_enter(disk, op, path);
    return err == STELE_OK ? sim_names_find(&disk->names, SIM_LIVE, path, out_place) : err;
}

/* Notes a change of content. */
static void touch(struct sim_disk *disk, struct sim_node *node)
{
    node->mtime_ms = wall_ms(disk);
    node->is_unsynced = true;
    sim_node_note(&disk->names, node);
}

static void cut_node(struct sim_disk *disk, struct sim_node *node, int64_t bytes)
{
    if (bytes < node->image.bytes) {
        node->truncate_sequence = disk->names.sequence++;
        sim_node_charge(&disk->names, node, stele_min_i64(node->charged_bytes, bytes));
    }
    sim_image_truncate(&node->image, bytes);
    touch(disk, node);
}

static struct stele_file *file_new(struct sim_disk *disk, struct sim_node *node, const char *path, bool is_writable)
{
    size_t bytes = strlen(path) + 1;
    struct sim_file *file = sim_alloc(sizeof(*file) + bytes);
    file->file.vfs = &disk->vfs;
    file->node = sim_node_ref(node);
    file->run = disk->run;
    file->is_writable = is_writable;
    memcpy(file->path, path, bytes);
    stele_list_push(&disk->files, &file->link);
    disk->open_files++;
    return &file->file;
}

static enum stele_err sim_open(struct stele_vfs *vfs, const char *path, unsigned flags, struct stele_file **out_file)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place place;
    bool is_writable = (flags & STELE_OPEN_WRITE) != 0;
    enum stele_err err = enter_path(disk, SIM_DISK_OPEN, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL) {
        if ((flags & STELE_OPEN_CREATE) == 0)
            return STELE_NOT_FOUND;
        place.node = sim_names_make(&disk->names, &place, false, wall_ms(disk));
    } else if ((flags & STELE_OPEN_CREATE) != 0 && (flags & STELE_OPEN_EXCLUSIVE) != 0) {
        return STELE_EXISTS;
    } else if (place.node->is_dir) {
        return STELE_IO;
    } else if ((flags & STELE_OPEN_TRUNCATE) != 0 && place.node->image.bytes > 0) {
        cut_node(disk, place.node, 0);
    }
    *out_file = file_new(disk, place.node, path, is_writable);
    return STELE_OK;
}

static void sim_close(struct stele_file *handle)
{
    struct sim_file *file = file_of(handle);
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    if (file->is_lock && file->run == disk->run)
        file->node->is_locked = false;
    sim_node_unref(&disk->names, file->node);
    stele_list_remove(&file->link);
    disk->open_files--;
    free(file);
}

static bool is_bad(struct sim_disk *disk, const struct sim_file *file, int64_t pos, int64_t end)
{
    bool has_bad = sim_image_is_bad(&file->node->image, pos, end);
    disk->stats.bad_reads += has_bad;
    return has_bad;
}

static enum stele_err sim_pread(struct stele_file *handle, void *out_bytes, size_t bytes, int64_t pos,
                                size_t *out_count)
{
    struct sim_file *file = file_of(handle);
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    enum stele_err err = enter_file(file, SIM_DISK_READ);
    if (err != STELE_OK)
        return err;
    if (pos < 0)
        return STELE_IO;
    if (sim_disk_chance(disk, disk->rates.evict))
        disk->stats.pages_evicted += sim_image_evict(&file->node->image);
    if (bytes > 1 && sim_disk_chance(disk, disk->rates.short_read)) {
        bytes = (size_t)stele_prng_range(&disk->calls_prng, 1, (int64_t)bytes - 1);
        disk->stats.short_reads++;
    }
    if (is_bad(disk, file, pos, pos + (int64_t)bytes))
        return STELE_IO;
    size_t count = sim_image_read(&file->node->image, out_bytes, bytes, pos);
    if (file->node->image.unwritten_count > 0)
        sim_audit_read(disk, file, pos, pos + (int64_t)count);
    *out_count = count;
    return STELE_OK;
}

/* How much of a write of `bytes` at `pos` the quota lets in. */
static size_t bytes_allowed(const struct sim_disk *disk, const struct sim_node *node, int64_t pos, size_t bytes)
{
    if (disk->quota_bytes < 0 || disk->is_quota_at_sync)
        return bytes;
    int64_t room = stele_max_i64(disk->quota_bytes - disk->names.used_bytes, 0);
    int64_t limit = node->charged_bytes + room;
    return limit <= pos ? 0 : stele_min_size(bytes, (size_t)(limit - pos));
}

static void write_bytes(struct sim_disk *disk, struct sim_node *node, const struct iovec *iov, int64_t pos,
                        size_t bytes)
{
    int64_t at = pos;
    for (size_t left = bytes; left > 0; iov++) {
        size_t chunk = stele_min_size(iov->iov_len, left);
        sim_image_write(&node->image, iov->iov_base, chunk, at);
        at += (int64_t)chunk;
        left -= chunk;
    }
    sim_node_charge(&disk->names, node, stele_max_i64(node->charged_bytes, at));
    touch(disk, node);
}

static enum stele_err sim_pwritev(struct stele_file *handle, const struct iovec *iov, int iov_count, int64_t pos,
                                  size_t *out_count)
{
    struct sim_file *file = file_of(handle);
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    bool was_stopped = disk->is_stopped;
    size_t bytes = 0;
    for (int i = 0; i < iov_count; i++)
        bytes += iov[i].iov_len;
    enum stele_err err = enter_file(file, SIM_DISK_WRITE);
    if (!file->is_writable || pos < 0 || bytes == 0)
        return STELE_IO;
    size_t count = bytes_allowed(disk, file->node, pos, bytes);
    if (err != STELE_OK) {
        /* A part may have gone out before it failed. */
        if (!was_stopped && file->run == disk->run && count > 0 && stele_prng_chance(&disk->calls_prng, 1, 2))
            write_bytes(disk, file->node, iov, pos, (size_t)stele_prng_below(&disk->calls_prng, count));
        return err;
    }
    if (count == 0) {
        disk->stats.no_space++;
        return STELE_NO_SPACE;
    }
    if (count > 1 && sim_disk_chance(disk, disk->rates.short_write))
        count = (size_t)stele_prng_range(&disk->calls_prng, 1, (int64_t)count - 1);
    disk->stats.short_writes += count < bytes;
    write_bytes(disk, file->node, iov, pos, count);
    *out_count = count;
    return STELE_OK;
}

/* A second sync will not find the pages. */
void sim_disk_lose_writes(struct sim_disk *disk, struct sim_node *node, int64_t pos, int64_t end)
{
    disk->stats.pages_lost_by_sync += sim_image_write_failed(&node->image, pos, end, &disk->calls_prng);
    sim_node_note(&disk->names, node);
}

/* What the file system itself finds: no room after all, or a write-back that failed before. */
static enum stele_err late_error(struct sim_disk *disk, struct sim_node *node)
{
    if (node->has_pending_error) {
        node->has_pending_error = false;
        return STELE_IO;
    }
    if (!disk->is_quota_at_sync || disk->quota_bytes < 0 || disk->names.used_bytes <= disk->quota_bytes ||
        sim_image_is_clean(&node->image))
        return STELE_OK;
    disk->stats.no_space++;
    return STELE_NO_SPACE;
}

static enum stele_err sim_sync(struct stele_file *handle)
{
    struct sim_file *file = file_of(handle);
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    struct sim_node *node = file->node;
    bool was_stopped = disk->is_stopped;
    enum stele_err err = enter_file(file, SIM_DISK_SYNC);
    if (err == STELE_OK)
        err = late_error(disk, node);
    if (err != STELE_OK) {
        if (!was_stopped && !disk->is_stopped && file->run == disk->run) {
            disk->stats.sync_failures++;
            sim_disk_lose_writes(disk, node, 0, INT64_MAX);
            if (disk->hooks.sync_failed != NULL)
                disk->hooks.sync_failed(disk->hooks.arg, file->path);
        }
        return err;
    }
    if (sim_disk_chance(disk, disk->rates.sync_lie)) {
        disk->stats.sync_lies++;
        sim_disk_lose_writes(disk, node, 0, INT64_MAX);
    }
    sim_image_sync(&node->image);
    node->durable_mtime_ms = node->mtime_ms;
    node->is_unsynced = !sim_image_is_clean(&node->image); /* pages that an earlier sync lost */
    sim_node_note(&disk->names, node);
    disk->names.sequence_synced = disk->names.sequence;
    return STELE_OK;
}

static void sim_sync_range(struct stele_file *handle, int64_t pos, int64_t bytes)
{
    struct sim_file *file = file_of(handle);
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    if (file->run != disk->run || disk->is_stopped)
        return;
    if (sim_disk_chance(disk, disk->rates.write_back_error)) {
        file->node->has_pending_error = true;
        disk->stats.write_back_errors++;
        sim_disk_lose_writes(disk, file->node, pos, pos + bytes);
        return;
    }
    sim_image_write_back(&file->node->image, pos, bytes, &disk->calls_prng);
}

static enum stele_err sim_truncate(struct stele_file *handle, int64_t bytes)
{
    struct sim_file *file = file_of(handle);
    enum stele_err err = enter_file(file, SIM_DISK_TRUNCATE);
    if (err != STELE_OK)
        return err;
    if (!file->is_writable || bytes < 0)
        return STELE_IO;
    cut_node(sim_disk_of(handle->vfs), file->node, bytes);
    return STELE_OK;
}

static enum stele_err sim_allocate(struct stele_file *handle, int64_t bytes)
{
    struct sim_file *file = file_of(handle);
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    struct sim_node *node = file->node;
    enum stele_err err = enter_file(file, SIM_DISK_ALLOCATE);
    if (err != STELE_OK)
        return err;
    if (!file->is_writable || bytes <= 0)
        return STELE_IO;
    int64_t more = stele_max_i64(bytes - node->charged_bytes, 0);
    if (disk->quota_bytes >= 0 && disk->names.used_bytes + more > disk->quota_bytes) {
        disk->stats.no_space++;
        return STELE_NO_SPACE;
    }
    sim_node_charge(&disk->names, node, node->charged_bytes + more);
    if (bytes > node->image.bytes)
        cut_node(disk, node, bytes);
    return STELE_OK;
}

static enum stele_err sim_size(struct stele_file *handle, int64_t *out_bytes)
{
    struct sim_file *file = file_of(handle);
    enum stele_err err = enter_file(file, SIM_DISK_SIZE);
    if (err == STELE_OK)
        *out_bytes = file->node->image.bytes;
    return err;
}

static enum stele_residency sim_resident(struct stele_file *handle, int64_t pos, int64_t bytes)
{
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    (void)pos;
    (void)bytes;
    return sim_disk_chance(disk, disk->rates.cold) ? STELE_RESIDENT_NO : STELE_RESIDENT_YES;
}

/* A copy: what a map shows of later writes is not promised. */
static enum stele_err sim_map(struct stele_file *handle, size_t bytes, const uint8_t **out_bytes)
{
    struct sim_file *file = file_of(handle);
    enum stele_err err = enter_file(file, SIM_DISK_MAP);
    if (err != STELE_OK)
        return err;
    if (bytes == 0 || is_bad(sim_disk_of(handle->vfs), file, 0, (int64_t)bytes))
        return STELE_IO;
    struct sim_disk *disk = sim_disk_of(handle->vfs);
    struct sim_map *map = sim_alloc(sizeof(*map) + bytes);
    (void)sim_image_read(&file->node->image, map->bytes, bytes, 0);
    stele_list_push(&disk->maps, &map->link);
    disk->open_maps++;
    *out_bytes = map->bytes;
    return STELE_OK;
}

static void sim_unmap(struct stele_vfs *vfs, const uint8_t *bytes, size_t count)
{
    struct sim_map *map = (struct sim_map *)(uintptr_t)(bytes - offsetof(struct sim_map, bytes));
    (void)count;
    stele_list_remove(&map->link);
    sim_disk_of(vfs)->open_maps--;
    free(map);
}

static int sim_descriptor(struct stele_file *file)
{
    (void)file;
    return -1;
}

static enum stele_err sim_stat(struct stele_vfs *vfs, const char *path, struct stele_stat *out_stat)
{
    struct sim_place place;
    enum stele_err err = enter_path(sim_disk_of(vfs), SIM_DISK_STAT, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL)
        return STELE_NOT_FOUND;
    *out_stat = (struct stele_stat){
        .bytes = place.node->image.bytes, .mtime_ms = place.node->mtime_ms, .is_dir = place.node->is_dir};
    return STELE_OK;
}

static enum stele_err sim_rename(struct stele_vfs *vfs, const char *from, const char *to)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place from_place, to_place;
    enum stele_err err = enter_path(disk, SIM_DISK_RENAME, from, &from_place);
    if (err == STELE_OK)
        err = sim_names_find(&disk->names, SIM_LIVE, to, &to_place);
    if (err == STELE_OK)
        err = sim_names_move(&disk->names, &from_place, &to_place);
    if (err == STELE_OK)
        sim_audit_rename(disk, from_place.node, from, to);
    return err;
}

static enum stele_err sim_unlink(struct stele_vfs *vfs, const char *path)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place place;
    enum stele_err err = enter_path(disk, SIM_DISK_UNLINK, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL)
        return STELE_NOT_FOUND;
    if (place.node->is_dir)
        return STELE_IO;
    sim_names_remove(&disk->names, &place);
    return STELE_OK;
}

static enum stele_err sim_mkdir(struct stele_vfs *vfs, const char *path)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place place;
    enum stele_err err = enter_path(disk, SIM_DISK_MKDIR, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node != NULL)
        return STELE_EXISTS;
    (void)sim_names_make(&disk->names, &place, true, wall_ms(disk));
    return STELE_OK;
}

static enum stele_err sim_rmdir(struct stele_vfs *vfs, const char *path)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place place;
    enum stele_err err = enter_path(disk, SIM_DISK_RMDIR, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL || !place.node->is_dir)
        return STELE_NOT_FOUND;
    if (place.dir == NULL)
        return STELE_IO;
    if (place.node->entries[SIM_LIVE].count > 0)
        return STELE_EXISTS;
    sim_names_remove(&disk->names, &place);
    return STELE_OK;
}

/* The directory at `path`. */
static enum stele_err enter_dir(struct sim_disk *disk, enum sim_disk_op op, const char *path, struct sim_node **out_dir)
{
    struct sim_place place;
    enum stele_err err = enter_path(disk, op, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL || !place.node->is_dir)
        return STELE_NOT_FOUND;
    *out_dir = place.node;
    return STELE_OK;
}

static enum stele_err sim_sync_dir(struct stele_vfs *vfs, const char *path)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_node *dir = NULL;
    enum stele_err err = enter_dir(disk, SIM_DISK_SYNC_DIR, path, &dir);
    if (err != STELE_OK)
        return err;
    sim_names_sync_dir(&disk->names, dir);
    disk->names.sequence_synced = disk->names.sequence;
    return STELE_OK;
}

static enum stele_err sim_list(struct stele_vfs *vfs, const char *path,
                               enum stele_err (*each)(void *arg, const char *name), void *arg)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_node *dir = NULL;
    enum stele_err err = enter_dir(disk, SIM_DISK_LIST, path, &dir);
    if (err != STELE_OK)
        return err;
    /* `each` may change the directory: it sees what was there at the call. */
    int64_t count = dir->entries[SIM_LIVE].count;
    struct sim_name **names = sim_alloc((size_t)count * sizeof(struct sim_name *) + 1);
    for (int64_t i = 0; i < count; i++)
        names[i] = sim_name_ref(dir->entries[SIM_LIVE].items[i].name);
    for (int64_t i = 0; i < count && err == STELE_OK; i++)
        err = each(arg, names[i]->text);
    for (int64_t i = 0; i < count; i++)
        sim_name_unref(names[i]);
    free(names);
    return err;
}

static enum stele_err sim_set_mtime(struct stele_vfs *vfs, const char *path, int64_t mtime_ms)
{
    struct sim_place place;
    enum stele_err err = enter_path(sim_disk_of(vfs), SIM_DISK_SET_MTIME, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL)
        return STELE_NOT_FOUND;
    place.node->mtime_ms = mtime_ms;
    return STELE_OK;
}

static enum stele_err sim_free_bytes(struct stele_vfs *vfs, const char *path, int64_t *out_bytes)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place place;
    enum stele_err err = enter_path(disk, SIM_DISK_FREE_BYTES, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL)
        return STELE_NOT_FOUND;
    int64_t quota = disk->quota_bytes < 0 ? (int64_t)1 << 40 : disk->quota_bytes;
    *out_bytes = stele_max_i64(quota - disk->names.used_bytes, 0);
    if (sim_disk_is_broken_full(disk, path))
        *out_bytes = 0;
    return STELE_OK;
}

static enum stele_err sim_lock(struct stele_vfs *vfs, const char *path, struct stele_file **out_file)
{
    struct sim_disk *disk = sim_disk_of(vfs);
    struct sim_place place;
    enum stele_err err = enter_path(disk, SIM_DISK_LOCK, path, &place);
    if (err != STELE_OK)
        return err;
    if (place.node == NULL)
        place.node = sim_names_make(&disk->names, &place, false, wall_ms(disk));
    else if (place.node->is_dir)
        return STELE_IO;
    if (place.node->is_locked)
        return STELE_LOCKED;
    place.node->is_locked = true;
    *out_file = file_new(disk, place.node, path, true);
    file_of(*out_file)->is_lock = true;
    return STELE_OK;
}

const struct stele_vfs_ops sim_disk_ops = {
    .open = sim_open,
    .close = sim_close,
    .pread = sim_pread,
    .pwritev = sim_pwritev,
    .sync = sim_sync,
    .sync_range = sim_sync_range,
    .truncate = sim_truncate,
    .allocate = sim_allocate,
    .size = sim_size,
    .resident = sim_resident,
    .map = sim_map,
    .unmap = sim_unmap,
    .descriptor = sim_descriptor,
    .stat = sim_stat,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .rmdir = sim_rmdir,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .set_mtime = sim_set_mtime,
    .free_bytes = sim_free_bytes,
    .lock = sim_lock,
};

/* Looks */

static struct sim_node *look_at(struct sim_disk *disk, const char *path, bool is_dir)
{
    struct sim_place place;
    if (sim_names_find(&disk->names, SIM_LIVE, path, &place) != STELE_OK || place.node == NULL)
        return NULL;
    return place.node->is_dir == is_dir ? place.node : NULL;
}

size_t sim_disk_peek(struct sim_disk *disk, const char *path, void *out_bytes, size_t bytes, int64_t pos)
{
    const struct sim_node *node = look_at(disk, path, false);
    return node == NULL ? 0 : sim_image_read(&node->image, out_bytes, bytes, pos);
}

void sim_disk_peek_names(struct sim_disk *disk, const char *path, void (*each)(void *arg, const char *name), void *arg)
{
    const struct sim_node *node = look_at(disk, path, true);
    for (int64_t i = 0; node != NULL && i < node->entries[SIM_LIVE].count; i++)
        each(arg, node->entries[SIM_LIVE].items[i].name->text);
}
