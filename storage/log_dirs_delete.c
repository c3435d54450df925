/* The end of partitions: their directories are renamed, and later deleted; what the checkpoints say of them is taken
 * back before the name is used again.
 *
 * A checkpoint names partitions without their ids. What one says of a partition that is gone would be believed of the
 * next one of that name, whose log it would find damaged. */
#include "base/arena.h"
#include "storage/log_dirs_struct.h"

#include <stdio.h>
#include <string.h>

static struct stele_vfs *vfs_of(const struct stele_log_dirs *dirs)
{
    return dirs->env->vfs;
}

/* Names of a directory, kept while it is changed. */
struct names {
    struct stele_arena arena;
    struct name {
        struct name *next;
        const char *text;
    } * first;
};

static enum stele_err keep_name(void *arg, const char *text)
{
    struct names *names = arg;
    struct name *name = stele_arena_alloc(&names->arena, sizeof(*name));
    const char *copy = name == NULL ? NULL : stele_arena_string(&names->arena, text, strlen(text));
    if (copy == NULL)
        return STELE_NO_MEMORY;
    *name = (struct name){.next = names->first, .text = copy};
    names->first = name;
    return STELE_OK;
}

static enum stele_err keep_condemned(void *arg, const char *text)
{
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    enum stele_dir_kind kind;
    bool is_condemned =
        stele_partition_dir_parse(text, topic, &partition, &kind) == STELE_OK && kind == STELE_DIR_DELETE;
    return is_condemned ? keep_name(arg, text) : STELE_OK;
}

/* Unlinks the files of a partition's directory, then the directory. */
static enum stele_err remove_partition(struct stele_env *env, const char *dir)
{
    struct stele_vfs *vfs = env->vfs;
    struct names files = {.first = NULL};
    char path[STELE_PATH_BYTES];
    stele_arena_init(&files.arena, env->mem, STELE_MEM_LOG, 0);
    enum stele_err err = vfs->ops->list(vfs, dir, keep_name, &files);
    for (const struct name *file = files.first; file != NULL && err == STELE_OK; file = file->next) {
        err = stele_path_join(path, dir, file->text);
        if (err == STELE_OK)
            err = vfs->ops->unlink(vfs, path);
    }
    if (err == STELE_OK)
        err = vfs->ops->rmdir(vfs, dir);
    stele_arena_deinit(&files.arena);
    return err;
}

/* What cannot be deleted now is harmless and tried again at the next start. */
void stele_log_dirs__finish_deletions(struct stele_log_dirs *dirs, const char *dir)
{
    struct names condemned = {.first = NULL};
    char path[STELE_PATH_BYTES];
    stele_arena_init(&condemned.arena, dirs->env->mem, STELE_MEM_LOG, 0);
    (void)vfs_of(dirs)->ops->list(vfs_of(dirs), dir, keep_condemned, &condemned);
    for (const struct name *name = condemned.first; name != NULL; name = name->next) {
        if (stele_path_join(path, dir, name->text) == STELE_OK)
            (void)remove_partition(dirs->env, path);
    }
    stele_arena_deinit(&condemned.arena);
}

void stele_log_dirs__name(const char *topic, int32_t partition, const char *ending, char out_name[STELE_DIR_NAME_BYTES])
{
    char tail[64];
    int bytes = snprintf(tail, sizeof(tail), "-%d%s", partition, ending);
    (void)snprintf(out_name, STELE_DIR_NAME_BYTES, "%.*s%s", STELE_DIR_NAME_BYTES - 1 - bytes, topic, tail);
}

enum { HEX_BYTES = 2 * sizeof(struct stele_uuid) + 1 };

static void hex_of(const struct stele_uuid *uuid, char out_hex[HEX_BYTES])
{
    for (size_t i = 0; i < sizeof(uuid->bytes); i++)
        (void)snprintf(out_hex + 2 * i, 3, "%02x", uuid->bytes[i]);
}

/* Where a partition goes before it is deleted. */
static enum stele_err condemned_path(const char *dir, const char *topic, int32_t partition, const char *hex,
                                     char out_path[STELE_PATH_BYTES])
{
    char ending[HEX_BYTES + 16], name[STELE_DIR_NAME_BYTES];
    (void)snprintf(ending, sizeof(ending), ".%s-delete", hex);
    stele_log_dirs__name(topic, partition, ending, name);
    return stele_path_join(out_path, dir, name);
}

enum stele_err stele_log_dirs__condemn_as(struct stele_log_dirs *dirs, int at, const char *path, const char *topic,
                                          int32_t partition, const char *hex)
{
    struct stele_log_dir *dir = &dirs->dirs[at];
    char to[STELE_PATH_BYTES];
    if (dir->is_offline)
        return STELE_OFFLINE;
    enum stele_err err = condemned_path(dir->path, topic, partition, hex, to);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->rename(vfs_of(dirs), path, to);
    if (err == STELE_OK) {
        dir->partitions--;
        dir->is_stale = true;
    }
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}

enum stele_err stele_log_dirs_condemn(struct stele_log_dirs *dirs, int at, const char *topic, int32_t partition,
                                      const struct stele_uuid *topic_id)
{
    char name[STELE_DIR_NAME_BYTES], from[STELE_PATH_BYTES], hex[HEX_BYTES];
    stele_log_dirs__name(topic, partition, "", name);
    hex_of(topic_id, hex);
    enum stele_err err = stele_path_join(from, dirs->dirs[at].path, name);
    return err == STELE_OK ? stele_log_dirs__condemn_as(dirs, at, from, topic, partition, hex) : err;
}

enum stele_err stele_log_dirs_sync(struct stele_log_dirs *dirs, int dir)
{
    if (dirs->dirs[dir].is_offline)
        return STELE_OFFLINE;
    return vfs_of(dirs)->ops->sync_dir(vfs_of(dirs), dirs->dirs[dir].path);
}

static enum stele_err delete_condemned(struct stele_env *env, const char *dir, const char *topic, int32_t partition,
                                       const char *hex)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = condemned_path(dir, topic, partition, hex, path);
    if (err == STELE_OK)
        err = remove_partition(env, path);
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}

enum stele_err stele_log_dirs_delete(struct stele_env *env, const char *dir, const char *topic, int32_t partition,
                                     const struct stele_uuid *topic_id)
{
    char hex[HEX_BYTES];
    hex_of(topic_id, hex);
    return delete_condemned(env, dir, topic, partition, hex);
}

enum stele_err stele_log_dirs_delete_moved(struct stele_env *env, const char *dir,
                                           const struct stele_log_dirs_move *move)
{
    return delete_condemned(env, dir, move->topic, move->partition, move->mark);
}

/* Everything but the file that says whose directory it is. */
static enum stele_err keep_content(void *arg, const char *text)
{
    return strcmp(text, STELE_PARTITION_METADATA_FILE) == 0 ? STELE_OK : keep_name(arg, text);
}

enum stele_err stele_log_dirs_empty_copy(struct stele_env *env, const char *dir)
{
    struct names files = {.first = NULL};
    char path[STELE_PATH_BYTES];
    stele_arena_init(&files.arena, env->mem, STELE_MEM_LOG, 0);
    enum stele_err err = env->vfs->ops->list(env->vfs, dir, keep_content, &files);
    for (const struct name *file = files.first; file != NULL && err == STELE_OK; file = file->next) {
        err = stele_path_join(path, dir, file->text);
        if (err == STELE_OK)
            err = env->vfs->ops->unlink(env->vfs, path);
    }
    stele_arena_deinit(&files.arena);
    return err;
}

static enum stele_err forget_file(struct stele_log_dirs *dirs, const char *dir, const char *name, const char *topic,
                                  const struct stele_log_dirs_gone *gone)
{
    struct stele_checkpoint checkpoint;
    int kept = 0;
    stele_checkpoint_init(&checkpoint, dirs->env->mem);
    enum stele_err err = stele_checkpoint_read(&checkpoint, vfs_of(dirs), dir, name, NULL);
    if (err == STELE_CORRUPT || err == STELE_TOO_LARGE) { /* a start believes nothing of it */
        stele_checkpoint_deinit(&checkpoint);
        return STELE_OK;
    }
    for (int i = 0; i < checkpoint.count && err == STELE_OK; i++) {
        const struct stele_checkpoint_entry *entry = &checkpoint.entries[i];
        if (strcmp(entry->topic, topic) != 0 || !gone->is_gone(gone->arg, entry->partition))
            checkpoint.entries[kept++] = *entry;
    }
    if (err == STELE_OK && kept < checkpoint.count) {
        checkpoint.count = kept;
        err = stele_checkpoint_write(&checkpoint, vfs_of(dirs), dir, name);
    }
    stele_checkpoint_deinit(&checkpoint);
    return err;
}

enum stele_err stele_log_dirs__forget_in(struct stele_log_dirs *dirs, int at, const char *topic,
                                         const struct stele_log_dirs_gone *gone)
{
    static const char *const names[] = {STELE_RECOVERY_POINT_FILE, STELE_LOG_START_FILE, STELE_HIGH_WATERMARK_FILE};
    enum stele_err result = STELE_OK;
    for (size_t i = 0; i < STELE_ARRAY_LEN(names) && dirs->dirs[at].is_stale; i++) {
        enum stele_err err =
            dirs->dirs[at].is_offline ? STELE_OK : forget_file(dirs, dirs->dirs[at].path, names[i], topic, gone);
        if (err != STELE_OK)
            result = err;
    }
    return result;
}

enum stele_err stele_log_dirs_forget(struct stele_log_dirs *dirs, const char *topic,
                                     const struct stele_log_dirs_gone *gone)
{
    enum stele_err result = STELE_OK;
    for (int at = 0; at < dirs->count; at++) {
        enum stele_err err = stele_log_dirs__forget_in(dirs, at, topic, gone);
        if (err != STELE_OK)
            result = err;
    }
    return result;
}
