/* Moves of a partition from one log directory to another (Kafka's -future directories, KIP-113).
 *
 * The two renames that make a copy the partition's directory lie on two disks, so either may be lost. What decides is a
 * line in the first directory, without which no node starts: from the moment when it is durable the partition is where
 * the line says, and what any other directory has of it is left behind. (Kafka asks its controller to note the
 * directory, KIP-858, since there a whole directory is told as failed; here a node tells of each replica that failed.)
 *
 *  1. The line is written.              Before it nothing has happened.
 *  2. The copy gets the name, synced.   Where that fails the line is turned: the partition is where it was.
 *     (Here the log is still open in the old directory, and finds its files by their names; then it is the copy's.)
 *  3. The old directory is condemned.   Where that fails the line stays until a start sees all directories.
 *  4. The line is taken away. */
#include "base/check.h"
#include "storage/log_dirs_struct.h"

#include <stdio.h>
#include <string.h>

static struct stele_vfs *vfs_of(const struct stele_log_dirs *dirs)
{
    return dirs->env->vfs;
}

/* Names. */

static enum stele_err log_path(const struct stele_log_dirs *dirs, int dir, const char *topic, int32_t partition,
                               char out_path[STELE_PATH_BYTES])
{
    char name[STELE_DIR_NAME_BYTES];
    stele_log_dirs__name(topic, partition, "", name);
    return stele_path_join(out_path, dirs->dirs[dir].path, name);
}

enum stele_err stele_log_dirs_copy_path(const struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move,
                                        char out_path[STELE_PATH_BYTES])
{
    char name[STELE_TOPIC_NAME_MAX + 64];
    int bytes = snprintf(name, sizeof(name), "%s-%d.%s-future", move->topic, (int)move->partition, move->mark);
    return bytes >= STELE_DIR_NAME_BYTES ? STELE_TOO_LARGE : stele_path_join(out_path, dirs->dirs[move->to].path, name);
}

enum stele_err stele_log_dirs_condemn_copy(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_log_dirs_copy_path(dirs, move, path);
    if (err == STELE_OK)
        err = stele_log_dirs__condemn_as(dirs, move->to, path, move->topic, move->partition, move->mark);
    return err == STELE_OK ? stele_log_dirs_sync(dirs, move->to) : err;
}

static void make_mark(struct stele_env *env, char out_mark[STELE_FUTURE_MARK_BYTES])
{
    uint64_t high = env->ops->random(env), low = env->ops->random(env);
    (void)snprintf(out_mark, STELE_FUTURE_MARK_BYTES, "%016llx%016llx", (unsigned long long)high,
                   (unsigned long long)low);
}

/* A failed directory is out; short space and memory come back. */
static enum stele_err settle(struct stele_log_dirs *dirs, int dir, enum stele_err err, const char *what)
{
    if (err != STELE_OK && err != STELE_NO_SPACE && err != STELE_NO_MEMORY && err != STELE_TOO_LARGE)
        stele_log_dirs_fail(dirs, dir, what);
    return err;
}

/* Beginning. */

static bool is_same(void *arg, int32_t partition)
{
    return *(const int32_t *)arg == partition;
}

/* An empty directory left behind is no copy of anything, and a start condemns it. */
static void undo_begin(struct stele_log_dirs *dirs, const char *path)
{
    static const char *const names[] = {STELE_PARTITION_METADATA_FILE ".tmp", STELE_PARTITION_METADATA_FILE};
    char file[STELE_PATH_BYTES];
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (stele_path_join(file, path, names[i]) == STELE_OK)
            (void)vfs_of(dirs)->ops->unlink(vfs_of(dirs), file);
    }
    (void)vfs_of(dirs)->ops->rmdir(vfs_of(dirs), path);
}

enum stele_err stele_log_dirs_begin_move(struct stele_log_dirs *dirs, struct stele_log_dirs_move *move,
                                         char out_path[STELE_PATH_BYTES])
{
    struct stele_log_dirs_gone gone = {.is_gone = is_same, .arg = &move->partition};
    struct stele_uuid id;
    char path[STELE_PATH_BYTES];
    if (dirs->dirs[move->to].is_offline)
        return STELE_OFFLINE;
    if (!stele_log_dirs_id(dirs, move->to, &id) || !stele_log_dirs_id(dirs, move->from, &id))
        return STELE_NOT_FOUND;
    make_mark(dirs->env, move->mark);
    enum stele_err err = stele_log_dirs_copy_path(dirs, move, path);
    if (err == STELE_OK) /* what is said of an earlier stay here is not of this one */
        err = stele_log_dirs__forget_in(dirs, move->to, move->topic, &gone);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->mkdir(vfs_of(dirs), path);
    if (err != STELE_OK)
        return settle(dirs, move->to, err, "the directory of a copy could not be made");
    err = stele_partition_metadata_write(vfs_of(dirs), path, &move->topic_id, true);
    if (err == STELE_OK)
        err = stele_log_dirs_sync(dirs, move->to);
    if (err != STELE_OK) {
        undo_begin(dirs, path);
        return settle(dirs, move->to, err, "the directory of a copy could not be made");
    }
    dirs->dirs[move->to].partitions++;
    memcpy(out_path, path, sizeof(path));
    return STELE_OK;
}

/* Swapping. */

/* Says where the partition is, or (NULL) that there is no more to say. What was said before holds after a failure. */
static enum stele_err say(struct stele_log_dirs *dirs, const struct stele_uuid *topic_id, int32_t partition,
                          const struct stele_uuid *directory_id)
{
    const struct stele_moved *known = stele_moved_find(&dirs->moved, topic_id, partition);
    struct stele_moved before = {.topic_id = *topic_id, .partition = partition},
                       after = {.topic_id = *topic_id, .partition = partition};
    bool was_said = known != NULL, is_in_doubt = false;
    enum stele_err err = STELE_OK;
    if (was_said)
        before = *known;
    if (directory_id == NULL) {
        stele_moved_forget(&dirs->moved, topic_id, partition);
    } else {
        after.directory_id = *directory_id;
        err = stele_moved_set(&dirs->moved, &after);
    }
    if (err == STELE_OK)
        err = stele_moved_list_write(&dirs->moved, vfs_of(dirs), dirs->dirs[0].path, &is_in_doubt);
    if (is_in_doubt || (err != STELE_OK && err != STELE_NO_SPACE && err != STELE_NO_MEMORY))
        stele_log_dirs_fail(dirs, 0, STELE_MOVED_FILE " could not be written");
    if (err == STELE_OK)
        return STELE_OK;
    stele_moved_forget(&dirs->moved, topic_id, partition);
    if (was_said) {
        enum stele_err again = stele_moved_set(&dirs->moved, &before);
        STELE_ASSERT(again == STELE_OK); /* there was room for it */
    }
    return err;
}

/* The copy gets the partition's name, durably; without that it has its own again, as far as the disk lets it. */
static enum stele_err name_copy(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move)
{
    char from[STELE_PATH_BYTES], to[STELE_PATH_BYTES];
    enum stele_err err = stele_log_dirs_copy_path(dirs, move, from);
    if (err == STELE_OK)
        err = log_path(dirs, move->to, move->topic, move->partition, to);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->rename(vfs_of(dirs), from, to);
    if (err != STELE_OK)
        return err;
    err = stele_log_dirs_sync(dirs, move->to);
    if (err != STELE_OK)
        (void)vfs_of(dirs)->ops->rename(vfs_of(dirs), to, from);
    return err;
}

static bool is_any_offline(const struct stele_log_dirs *dirs)
{
    for (int i = 0; i < dirs->count; i++) {
        if (dirs->dirs[i].is_offline)
            return true;
    }
    return false;
}

/* Takes the old directory away, durably. */
static enum stele_err leave(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = log_path(dirs, move->from, move->topic, move->partition, path);
    if (err == STELE_OK)
        err = stele_log_dirs__condemn_as(dirs, move->from, path, move->topic, move->partition, move->mark);
    return err == STELE_OK ? stele_log_dirs_sync(dirs, move->from) : err;
}

enum stele_err stele_log_dirs_swap(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move,
                                   bool *out_is_moved)
{
    struct stele_uuid from_id, to_id;
    *out_is_moved = false;
    if (dirs->dirs[move->from].is_offline || dirs->dirs[move->to].is_offline)
        return STELE_OFFLINE;
    if (!stele_log_dirs_id(dirs, move->to, &to_id) || !stele_log_dirs_id(dirs, move->from, &from_id))
        return STELE_NOT_FOUND;
    enum stele_err err = say(dirs, &move->topic_id, move->partition, &to_id);
    if (err != STELE_OK)
        return err;
    err = name_copy(dirs, move);
    if (err != STELE_OK) {
        (void)settle(dirs, move->to, err, "a copy could not be given the name of its partition");
        *out_is_moved = say(dirs, &move->topic_id, move->partition, &from_id) != STELE_OK;
        return err;
    }
    *out_is_moved = true;
    return STELE_OK;
}

enum stele_err stele_log_dirs_leave(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move)
{
    if (dirs->dirs[move->from].is_offline)
        return STELE_OFFLINE;
    enum stele_err err = leave(dirs, move);
    if (err != STELE_OK)
        return settle(dirs, move->from, err, "a directory that was left could not be renamed");
    if (is_any_offline(dirs)) /* one of an earlier stay may be there: the next start sees, and takes the line away */
        return STELE_OK;
    err = say(dirs, &move->topic_id, move->partition, NULL);
    return dirs->dirs[0].is_offline ? err : STELE_OK; /* a line that stays is true */
}

enum stele_err stele_log_dirs__made_in(struct stele_log_dirs *dirs, int dir, const struct stele_uuid *topic_id,
                                       int32_t partition)
{
    struct stele_uuid id;
    if (stele_moved_find(&dirs->moved, topic_id, partition) == NULL && !is_any_offline(dirs))
        return STELE_OK;
    return stele_log_dirs_id(dirs, dir, &id) ? say(dirs, topic_id, partition, &id) : STELE_NOT_FOUND;
}

/* Starts. */

enum stele_err stele_log_dirs__read_moved(struct stele_log_dirs *dirs, struct stele_error *error)
{
    enum stele_err err = stele_moved_list_read(&dirs->moved, vfs_of(dirs), dirs->dirs[0].path);
    if (err == STELE_CORRUPT)
        return stele_error_set(error, err,
                               "%.300s/" STELE_MOVED_FILE
                               " is damaged, so nobody knows in which of two directories a partition is: where one "
                               "is in two, move the older one away; then remove the file",
                               dirs->dirs[0].path);
    return err == STELE_OK ? err
                           : stele_error_set(error, err, "%.300s/" STELE_MOVED_FILE ": %s", dirs->dirs[0].path,
                                             stele_err_text(err));
}

/* Whether the file says that a partition of this directory is in another one. */
static bool is_left_behind(const struct stele_log_dirs *dirs, const struct stele_found_log *found)
{
    const struct stele_moved *moved = stele_moved_find(&dirs->moved, &found->topic_id, found->partition);
    struct stele_uuid id;
    return moved != NULL && (!stele_log_dirs_id(dirs, found->dir, &id) || !stele_uuid_equal(&id, &moved->directory_id));
}

static bool is_found(const struct stele_log_dirs *dirs, const struct stele_found_log *like)
{
    for (int i = 0; i < dirs->found_count; i++) {
        const struct stele_found_log *found = &dirs->found[i];
        if (found->dir == like->dir && found->partition == like->partition && strcmp(found->topic, like->topic) == 0)
            return true;
    }
    return false;
}

/* A copy that the file says is the partition's, and has not its name yet. */
static bool is_to_be_named(const struct stele_log_dirs *dirs, const struct stele_found_future *future)
{
    return stele_moved_find(&dirs->moved, &future->log.topic_id, future->log.partition) != NULL &&
           !is_left_behind(dirs, &future->log) && !is_found(dirs, &future->log);
}

static enum stele_err keep(struct stele_log_dirs *dirs, struct stele_found_log **array, int *count, int *capacity,
                           const struct stele_found_log *found)
{
    void *grown = *array;
    enum stele_err err = stele_log_dirs__grow(dirs, &grown, capacity, *count, sizeof(*found));
    *array = grown;
    if (err == STELE_OK)
        (*array)[(*count)++] = *found;
    return err;
}

enum stele_err stele_log_dirs__judge_moved(struct stele_log_dirs *dirs)
{
    enum stele_err err = STELE_OK;
    int kept = 0, at = 0;
    for (; at < dirs->found_count && err == STELE_OK; at++) {
        if (is_left_behind(dirs, &dirs->found[at]))
            err = keep(dirs, &dirs->left, &dirs->left_count, &dirs->left_capacity, &dirs->found[at]);
        else
            dirs->found[kept++] = dirs->found[at];
    }
    dirs->found_count = kept;
    for (at = 0; at < dirs->future_count && err == STELE_OK; at++) {
        struct stele_found_future *future = &dirs->futures[at];
        if (!is_to_be_named(dirs, future))
            continue;
        struct stele_found_log found = future->log;
        found.is_moved = future->is_log = true;
        err = keep(dirs, &dirs->found, &dirs->found_count, &dirs->found_capacity, &found);
    }
    return err;
}

enum stele_err stele_log_dirs__end_moves_to(struct stele_log_dirs *dirs, int dir, struct stele_error *error)
{
    int kept = 0;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < dirs->future_count; i++) {
        const struct stele_found_future *future = &dirs->futures[i];
        struct stele_log_dirs_move move = {.topic = future->log.topic, .partition = future->log.partition, .to = dir};
        if (err == STELE_OK && future->log.dir == dir && future->is_log) {
            memcpy(move.mark, future->mark, sizeof(move.mark));
            err = name_copy(dirs, &move);
            if (err == STELE_OK)
                continue;
            (void)stele_error_set(error, err, "%.300s: a copy could not be given the name of its partition: %s",
                                  dirs->dirs[dir].path, stele_err_text(err));
        }
        dirs->futures[kept++] = dirs->futures[i];
    }
    dirs->future_count = kept;
    return err;
}

/* Whether the partition is where the file says. What is left of it elsewhere is not touched before that is seen. */
static bool is_where_said(const struct stele_log_dirs *dirs, const struct stele_found_log *left)
{
    for (int i = 0; i < dirs->found_count; i++) {
        const struct stele_found_log *found = &dirs->found[i];
        if (found->partition == left->partition && stele_uuid_equal(&found->topic_id, &left->topic_id) &&
            !dirs->dirs[found->dir].is_offline)
            return true;
    }
    return false;
}

enum stele_err stele_log_dirs__leave_behind(struct stele_log_dirs *dirs, int dir, struct stele_error *error)
{
    int kept = 0;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < dirs->left_count; i++) {
        const struct stele_found_log *left = &dirs->left[i];
        struct stele_log_dirs_move move = {
            .topic = left->topic, .partition = left->partition, .topic_id = left->topic_id, .from = dir};
        if (err == STELE_OK && left->dir == dir && is_where_said(dirs, left)) {
            make_mark(dirs->env, move.mark);
            err = leave(dirs, &move);
            if (err == STELE_OK)
                continue;
            (void)stele_error_set(error, err, "%.300s: a directory that was left could not be renamed: %s",
                                  dirs->dirs[dir].path, stele_err_text(err));
        }
        dirs->left[kept++] = dirs->left[i];
    }
    dirs->left_count = kept;
    return err;
}

void stele_log_dirs__forget_moved(struct stele_log_dirs *dirs)
{
    bool is_in_doubt = false, is_whole = dirs->moved.count > 0;
    for (int i = 0; i < dirs->count; i++)
        is_whole = is_whole && !dirs->dirs[i].is_offline;
    int before = dirs->moved.count;
    for (int i = before - 1; i >= 0 && is_whole; i--) {
        struct stele_moved moved = dirs->moved.items[i];
        bool is_needed = false;
        for (int k = 0; k < dirs->left_count; k++)
            is_needed = is_needed || (dirs->left[k].partition == moved.partition &&
                                      stele_uuid_equal(&dirs->left[k].topic_id, &moved.topic_id));
        if (!is_needed)
            stele_moved_forget(&dirs->moved, &moved.topic_id, moved.partition);
    }
    if (dirs->moved.count < before) { /* lines that stay are true */
        enum stele_err err = stele_moved_list_write(&dirs->moved, vfs_of(dirs), dirs->dirs[0].path, &is_in_doubt);
        (void)err;
    }
}
