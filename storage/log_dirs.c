/* Invariants
 *  1. An offline directory gets no checkpoint and no marker.
 *  2. A clean marker is written only after the checkpoints. */
#include "base/check.h"
#include "storage/log_dirs_struct.h"
#include "storage/resync.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 255 };

static struct stele_vfs *vfs_of(const struct stele_log_dirs *dirs)
{
    return dirs->env->vfs;
}

int stele_log_dirs_found_count(const struct stele_log_dirs *dirs)
{
    return dirs->found_count;
}

const struct stele_found_log *stele_log_dirs_found(const struct stele_log_dirs *dirs, int index)
{
    STELE_ASSERT(index >= 0 && index < dirs->found_count);
    return &dirs->found[index];
}

int stele_log_dirs_future_count(const struct stele_log_dirs *dirs)
{
    return dirs->future_count;
}

const struct stele_found_future *stele_log_dirs_future(const struct stele_log_dirs *dirs, int index)
{
    STELE_ASSERT(index >= 0 && index < dirs->future_count);
    return &dirs->futures[index];
}

bool stele_log_dirs_identity(const struct stele_log_dirs *dirs, struct stele_meta_properties *out_properties)
{
    if (!dirs->dirs[0].has_properties)
        return false;
    *out_properties = dirs->dirs[0].properties;
    return true;
}

void stele_log_dirs_set_id(struct stele_log_dirs *dirs, int dir, const struct stele_uuid *directory_id)
{
    if (!dirs->dirs[dir].has_properties)
        stele_uuid_text(directory_id, dirs->dirs[dir].properties.directory_id);
}

enum stele_err stele_log_dirs_format(struct stele_log_dirs *dirs, const char *cluster_id, int32_t node_id)
{
    if (strlen(cluster_id) >= sizeof(dirs->dirs->properties.cluster_id) || node_id < 0)
        return STELE_INVALID_ARGUMENT;
    for (int i = 0; i < dirs->count; i++) {
        struct stele_log_dir *dir = &dirs->dirs[i];
        struct stele_meta_properties properties = {.node_id = node_id};
        bool is_usable = dir->properties.directory_id[0] != 0;
        memcpy(properties.directory_id, dir->properties.directory_id, sizeof(properties.directory_id));
        if (dir->is_offline || dir->has_properties)
            continue;
        while (!is_usable) {
            struct stele_env *env = dirs->env;
            uint64_t high = env->ops->random(env), low = env->ops->random(env);
            struct stele_uuid uuid = stele_uuid_make(high, low, &is_usable);
            stele_uuid_text(&uuid, properties.directory_id);
        }
        memcpy(properties.cluster_id, cluster_id, strlen(cluster_id));
        enum stele_err err =
            stele_meta_properties_write(vfs_of(dirs), dir->path, &properties, stele_env_wall_ms(dirs->env));
        if (err != STELE_OK)
            return err;
        dir->properties = properties;
        dir->has_properties = true;
    }
    return STELE_OK;
}

int stele_log_dirs_pick(const struct stele_log_dirs *dirs)
{
    int best = -1;
    for (int i = 0; i < dirs->count; i++) {
        if (!dirs->dirs[i].is_offline && (best < 0 || dirs->dirs[i].partitions < dirs->dirs[best].partitions))
            best = i;
    }
    return best;
}

/* A directory left behind would be in the way of the next try. */
static void undo_create(struct stele_log_dirs *dirs, const char *dir)
{
    static const char *const names[] = {STELE_PARTITION_METADATA_FILE ".tmp", STELE_PARTITION_METADATA_FILE};
    char path[STELE_PATH_BYTES];
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (stele_path_join(path, dir, names[i]) == STELE_OK)
            (void)vfs_of(dirs)->ops->unlink(vfs_of(dirs), path);
    }
    (void)vfs_of(dirs)->ops->rmdir(vfs_of(dirs), dir);
}

enum stele_err stele_log_dirs_create(struct stele_log_dirs *dirs, int dir, const char *topic, int32_t partition,
                                     const struct stele_uuid *topic_id, char out_path[STELE_PATH_BYTES])
{
    char name[STELE_TOPIC_NAME_MAX + 16], path[STELE_PATH_BYTES];
    if (dirs->dirs[dir].is_offline)
        return STELE_OFFLINE;
    if (!stele_topic_name_is_legal(topic) || partition < 0)
        return STELE_INVALID_ARGUMENT;
    if (snprintf(name, sizeof(name), "%s-%d", topic, partition) > NAME_BYTES_MAX)
        return STELE_TOO_LARGE;
    enum stele_err err = stele_path_join(path, dirs->dirs[dir].path, name);
    if (err == STELE_OK)
        err = stele_log_dirs__made_in(dirs, dir, topic_id, partition);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->mkdir(vfs_of(dirs), path);
    if (err != STELE_OK)
        return err;
    err = stele_partition_metadata_write(vfs_of(dirs), path, topic_id, false);
    if (err != STELE_OK) {
        undo_create(dirs, path);
        return err;
    }
    dirs->dirs[dir].partitions++;
    memcpy(out_path, path, sizeof(path));
    return STELE_OK;
}

const char *stele_log_dirs_path(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].path;
}

int stele_log_dirs_count(const struct stele_log_dirs *dirs)
{
    return dirs->count;
}

bool stele_log_dirs_is_offline(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].is_offline;
}

void stele_log_dirs_fail(struct stele_log_dirs *dirs, int dir, const char *reason)
{
    if (!atomic_exchange(&dirs->dirs[dir].is_offline, true))
        stele_trace(dirs->env, STELE_TRACE_DIR_FAILED, dirs->dirs[dir].path, reason, 0, 0, 0);
}

bool stele_log_dirs_is_full(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].room < 0;
}

int64_t stele_log_dirs_free_bytes(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].room + dirs->reserve_bytes;
}

void stele_log_dirs_take(struct stele_log_dirs *dirs, int at, int64_t bytes)
{
    struct stele_log_dir *dir = &dirs->dirs[at];
    dir->is_taken = true;
    if (bytes == INT64_MAX) {
        dir->has_refused = true;
        dir->room = -1;
    } else {
        dir->room -= bytes;
    }
}

bool stele_log_dirs_is_measure_due(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].is_taken || stele_log_dirs_is_full(dirs, dir);
}

void stele_log_dirs_measure(struct stele_log_dirs *dirs, int at)
{
    struct stele_log_dir *dir = &dirs->dirs[at];
    int64_t bytes = 0;
    bool has_refused = atomic_exchange(&dir->has_refused, false);
    dir->is_taken = false;
    if (dir->is_offline || vfs_of(dirs)->ops->free_bytes(vfs_of(dirs), dir->path, &bytes) != STELE_OK)
        return;
    dir->room = bytes - dirs->reserve_bytes;
    /* A disk that refused a write is full, whatever it says is free. */
    bool is_full = dir->room < 0 || has_refused;
    if (is_full != dir->is_told_full)
        stele_trace(dirs->env, is_full ? STELE_TRACE_DIR_FULL : STELE_TRACE_DIR_FREED, dir->path, NULL, bytes,
                    dirs->reserve_bytes, 0);
    dir->is_told_full = is_full;
}

void stele_log_dirs_set_reserve(struct stele_log_dirs *dirs, int64_t bytes)
{
    dirs->reserve_bytes = bytes;
    for (int i = 0; i < dirs->count; i++)
        dirs->dirs[i].is_taken = true; /* a measurement is due */
}

static enum stele_err write_one(struct stele_log_dirs *dirs, int dir, const char *name,
                                const struct stele_log_points *points, int count)
{
    struct stele_checkpoint checkpoint;
    enum stele_err err = STELE_OK;
    bool is_recovery = strcmp(name, STELE_RECOVERY_POINT_FILE) == 0, is_start = strcmp(name, STELE_LOG_START_FILE) == 0;
    stele_checkpoint_init(&checkpoint, dirs->env->mem);
    for (int i = 0; i < count && err == STELE_OK; i++) {
        const struct stele_log_points *point = &points[i];
        if (point->dir != dir || (is_start && point->log_start_offset <= point->first_segment_base))
            continue;
        int64_t offset = is_recovery ? point->recovery_point
                         : is_start  ? point->log_start_offset
                                     : point->high_watermark;
        if (offset >= 0)
            err = stele_checkpoint_add(&checkpoint, point->topic, point->partition, offset);
    }
    bool is_sound = stele_checkpoint_sort(&checkpoint);
    STELE_ASSERT(is_sound);
    if (err == STELE_OK)
        err = stele_checkpoint_write(&checkpoint, vfs_of(dirs), dirs->dirs[dir].path, name);
    stele_checkpoint_deinit(&checkpoint);
    return err;
}

enum stele_err stele_log_dirs_checkpoint(struct stele_log_dirs *dirs, const struct stele_log_points *points, int count)
{
    static const char *const names[] = {STELE_RECOVERY_POINT_FILE, STELE_LOG_START_FILE, STELE_HIGH_WATERMARK_FILE};
    enum stele_err result = STELE_OK;
    for (int dir = 0; dir < dirs->count; dir++) {
        bool is_written = !dirs->dirs[dir].is_offline;
        dirs->dirs[dir].checkpoint_err = is_written ? STELE_OK : STELE_OFFLINE;
        for (size_t i = 0; i < STELE_ARRAY_LEN(names) && !dirs->dirs[dir].is_offline; i++) {
            enum stele_err err = write_one(dirs, dir, names[i], points, count);
            if (err == STELE_OK)
                continue;
            result = err;
            is_written = false;
            dirs->dirs[dir].checkpoint_err = err;
            if (err != STELE_NO_MEMORY && err != STELE_NO_SPACE)
                stele_log_dirs_fail(dirs, dir, "a checkpoint could not be written");
            break;
        }
        if (is_written)
            dirs->dirs[dir].is_stale = false;
    }
    return result;
}

enum stele_err stele_log_dirs_checkpoint_err(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].checkpoint_err;
}

enum stele_err stele_log_dirs_mark_clean(struct stele_log_dirs *dirs, int dir, int64_t node_epoch)
{
    if (dirs->dirs[dir].is_offline)
        return STELE_OFFLINE;
    return stele_clean_shutdown_write(vfs_of(dirs), dirs->dirs[dir].path, node_epoch);
}

int64_t stele_log_dirs_clean_epoch(const struct stele_log_dirs *dirs)
{
    for (int i = 0; i < dirs->count; i++) {
        if (dirs->dirs[i].is_offline || dirs->dirs[i].clean_epoch != dirs->dirs[0].clean_epoch)
            return -1;
    }
    return dirs->dirs[0].clean_epoch;
}

int64_t stele_log_dirs_served_epoch(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].served_epoch;
}

bool stele_log_dirs_has_failed_sync(const struct stele_log_dirs *dirs)
{
    for (int i = 0; i < dirs->count; i++) {
        if (dirs->dirs[i].has_failed_sync)
            return true;
    }
    return false;
}

/* What is left behind is found again, and makes the node say for nothing that it lost something. */
static void forget_failed_sync(struct stele_log_dirs *dirs, int dir)
{
    if (dirs->dirs[dir].has_failed_sync && stele_resync_done(dirs->env, dirs->dirs[dir].path) == STELE_OK)
        dirs->dirs[dir].has_failed_sync = false;
}

enum stele_err stele_log_dirs_mark_served(struct stele_log_dirs *dirs, int64_t node_epoch)
{
    enum stele_err result = STELE_OK;
    for (int dir = 0; dir < dirs->count; dir++) {
        if (dirs->dirs[dir].is_offline || dirs->dirs[dir].served_epoch == node_epoch)
            continue;
        enum stele_err err = stele_served_epoch_write(vfs_of(dirs), dirs->dirs[dir].path, node_epoch);
        if (err == STELE_OK) {
            dirs->dirs[dir].served_epoch = node_epoch;
            forget_failed_sync(dirs, dir);
        } else {
            result = err;
        }
        if (err != STELE_OK && err != STELE_NO_MEMORY && err != STELE_NO_SPACE)
            stele_log_dirs_fail(dirs, dir, STELE_SERVED_EPOCH_FILE " could not be written");
    }
    return result;
}

bool stele_log_dirs_id(const struct stele_log_dirs *dirs, int dir, struct stele_uuid *out_directory_id)
{
    const char *text = dirs->dirs[dir].properties.directory_id;
    return stele_uuid_parse(text, strlen(text), out_directory_id) == STELE_OK;
}

void stele_log_dirs_close(struct stele_log_dirs *dirs)
{
    if (dirs == NULL)
        return;
    for (int i = 0; i < dirs->count; i++) {
        if (dirs->dirs[i].lock != NULL)
            vfs_of(dirs)->ops->close(dirs->dirs[i].lock);
        stele_mem_free(dirs->env->mem, dirs->dirs[i].path);
    }
    stele_mem_free(dirs->env->mem, dirs->dirs);
    stele_mem_free(dirs->env->mem, dirs->found);
    stele_mem_free(dirs->env->mem, dirs->futures);
    stele_mem_free(dirs->env->mem, dirs->left);
    stele_moved_list_deinit(&dirs->moved);
    stele_mem_free(dirs->env->mem, dirs);
}
