/* Invariants
 *  1. No marker is taken and nothing is written in a directory before every directory was found to be ours or empty.
 *  2. An offline directory gets no checkpoint and no marker.
 *  3. A clean marker is written only after the checkpoints. */
#include "storage/log_dirs.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

#define METADATA_DIR "__cluster_metadata-0"

struct log_dir {
    char *path;
    struct stele_file *lock;
    bool is_offline, was_clean, has_properties, is_full;
    struct stele_meta_properties properties;
    int partitions;
};

struct stele_log_dirs {
    struct stele_env *env;
    struct log_dir *dirs;
    int count;
    int64_t reserve_bytes;
    struct stele_found_log *found;
    int found_count, found_capacity;
};

static struct stele_vfs *vfs_of(const struct stele_log_dirs *dirs)
{
    return dirs->env->vfs;
}

/* What a directory holds, seen without touching it. */
struct looking {
    struct stele_log_dirs *dirs;
    int dir;
    bool has_partition, has_metadata, has_properties;
};

static enum stele_err look_at(void *arg, const char *name)
{
    struct looking *looking = arg;
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    enum stele_dir_kind kind;
    if (strcmp(name, METADATA_DIR) == 0)
        looking->has_metadata = true;
    else if (strcmp(name, STELE_META_PROPERTIES_FILE) == 0)
        looking->has_properties = true;
    else if (stele_partition_dir_parse(name, topic, &partition, &kind) == STELE_OK)
        looking->has_partition = true;
    return STELE_OK;
}

/* Our metadata log begins with a FORMAT record: a plain batch whose first value is a message of stele.proto with field
 * 1, a FormatRecord that begins with the text "stele". Kafka's log begins with a control batch. */
static bool is_format_value(const struct stele_record *record)
{
    static const uint8_t name[] = {0x0a, 5, 's', 't', 'e', 'l', 'e'};
    return record->value_bytes >= (int32_t)sizeof(name) + 2 && record->value[0] == 0x0a &&
           memcmp(record->value + 2, name, sizeof(name)) == 0;
}

static bool is_format_batch(struct stele_mem *mem, const uint8_t *bytes, size_t count)
{
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_batch_header header;
    if (count < STELE_BATCH_HEADER_BYTES)
        return false;
    int64_t size = stele_batch_size(bytes);
    if (size < STELE_BATCH_HEADER_BYTES || (size_t)size > count ||
        stele_batch_check(bytes, (size_t)size, &header) != STELE_OK || (header.attributes & STELE_BATCH_CONTROL) != 0 ||
        stele_record_walker_init(&walker, mem, bytes, (size_t)size, 1 << 20) != STELE_OK)
        return false;
    bool is_ours = stele_record_next(&walker, &record) == STELE_OK && is_format_value(&record);
    stele_record_walker_deinit(&walker);
    return is_ours;
}

enum { FIRST_BATCH_BYTES = 65536 };

static enum stele_err read_start(struct stele_log_dirs *dirs, const char *dir, bool *out_is_ours)
{
    char path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    size_t count = 0;
    *out_is_ours = false;
    enum stele_err err = stele_path_join(path, dir, METADATA_DIR "/00000000000000000000.log");
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->open(vfs_of(dirs), path, STELE_OPEN_READ, &file);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    if (err != STELE_OK)
        return err;
    uint8_t *bytes = stele_mem_raw(dirs->env->mem, STELE_MEM_LOG, FIRST_BATCH_BYTES);
    err = bytes == NULL ? STELE_NO_MEMORY : vfs_of(dirs)->ops->pread(file, bytes, FIRST_BATCH_BYTES, 0, &count);
    if (err == STELE_OK)
        /* Nothing was ever acknowledged from an empty log: a crash in the middle of the first start. */
        *out_is_ours = count == 0 || is_format_batch(dirs->env->mem, bytes, count);
    stele_mem_free(dirs->env->mem, bytes);
    vfs_of(dirs)->ops->close(file);
    return err;
}

static enum stele_err refuse(struct stele_error *error, const char *path)
{
    return stele_error_set(error, STELE_FOREIGN,
                           "%.300s holds data of another program (Kafka?) and was left untouched; give steled an empty "
                           "directory with --data or log.dirs",
                           path);
}

/* Is the directory ours or empty? Nothing is written. */
static enum stele_err check_dir(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    struct log_dir *dir = &dirs->dirs[at];
    struct looking looking = {.dirs = dirs, .dir = at};
    bool is_ours = false;
    enum stele_err err = vfs_of(dirs)->ops->list(vfs_of(dirs), dir->path, look_at, &looking);
    if (err == STELE_OK && looking.has_properties) {
        err = stele_meta_properties_read(vfs_of(dirs), dirs->env->mem, dir->path, &dir->properties, error);
        if (err != STELE_OK)
            return err;
        dir->has_properties = true;
    }
    if (err != STELE_OK || (!looking.has_partition && !looking.has_properties && !looking.has_metadata))
        return err;
    if (at > 0) {
        const struct stele_meta_properties *first = &dirs->dirs[0].properties;
        bool is_same = dirs->dirs[0].has_properties && dir->has_properties &&
                       strcmp(first->cluster_id, dir->properties.cluster_id) == 0 &&
                       first->node_id == dir->properties.node_id;
        return is_same ? STELE_OK : refuse(error, dir->path);
    }
    err = read_start(dirs, dir->path, &is_ours);
    return err == STELE_OK && !is_ours ? refuse(error, dir->path) : err;
}

static enum stele_err make_dirs(struct stele_vfs *vfs, const char *path)
{
    char part[STELE_PATH_BYTES];
    size_t bytes = strlen(path);
    if (bytes >= sizeof(part))
        return STELE_TOO_LARGE;
    for (size_t i = 1; i <= bytes; i++) {
        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        enum stele_err err = vfs->ops->mkdir(vfs, part);
        if (err != STELE_OK && err != STELE_EXISTS)
            return err;
    }
    return STELE_OK;
}

static enum stele_err lock_dir(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    struct log_dir *dir = &dirs->dirs[at];
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    enum stele_err err = vfs_of(dirs)->ops->stat(vfs_of(dirs), dir->path, &stat);
    if (err == STELE_NOT_FOUND)
        err = make_dirs(vfs_of(dirs), dir->path);
    if (err == STELE_OK)
        err = stele_path_join(path, dir->path, STELE_LOCK_FILE);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->lock(vfs_of(dirs), path, &dir->lock);
    if (err == STELE_LOCKED)
        return stele_error_set(error, err, "%.300s is in use by another process; stop it, or choose another directory",
                               dir->path);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s cannot be used: %s", dir->path, stele_err_text(err));
    return STELE_OK;
}

/* Checkpoints of one directory; a damaged one counts as absent. */
struct checkpoints {
    struct stele_checkpoint recovery, start, high;
};

static void read_checkpoint(struct stele_log_dirs *dirs, struct stele_checkpoint *checkpoint, const char *dir,
                            const char *name)
{
    struct stele_error error = {.text = ""};
    stele_checkpoint_init(checkpoint, dirs->env->mem);
    if (stele_checkpoint_read(checkpoint, vfs_of(dirs), dir, name, &error) != STELE_OK)
        stele_trace(dirs->env, STELE_TRACE_CHECKPOINT_BAD, name, error.text, 0, 0, 0);
}

struct listing {
    struct stele_log_dirs *dirs;
    int dir;
    struct checkpoints *checkpoints;
    struct stele_error *error;
};

static enum stele_err add_found(struct listing *listing, const char *name, const struct stele_found_log *found)
{
    struct stele_log_dirs *dirs = listing->dirs;
    for (int i = 0; i < dirs->found_count; i++) {
        if (strcmp(dirs->found[i].topic, found->topic) == 0 && dirs->found[i].partition == found->partition)
            return stele_error_set(listing->error, STELE_CORRUPT,
                                   "%.200s is in %.100s and in %.100s; move one of them away", name,
                                   dirs->dirs[dirs->found[i].dir].path, dirs->dirs[listing->dir].path);
    }
    if (dirs->found_count == dirs->found_capacity) {
        int capacity = dirs->found_capacity == 0 ? 8 : dirs->found_capacity * 2;
        struct stele_found_log *array =
            stele_mem_resize(dirs->env->mem, STELE_MEM_LOG, dirs->found, (size_t)capacity * sizeof(*array));
        if (array == NULL)
            return STELE_NO_MEMORY;
        dirs->found = array;
        dirs->found_capacity = capacity;
    }
    dirs->found[dirs->found_count++] = *found;
    dirs->dirs[listing->dir].partitions++;
    return STELE_OK;
}

static enum stele_err see_partition(void *arg, const char *name)
{
    struct listing *listing = arg;
    struct stele_log_dirs *dirs = listing->dirs;
    struct log_dir *dir = &dirs->dirs[listing->dir];
    struct stele_found_log found = {.dir = listing->dir, .high_watermark = -1, .was_clean = dir->was_clean};
    enum stele_dir_kind kind;
    char path[STELE_PATH_BYTES];
    if (stele_partition_dir_parse(name, found.topic, &found.partition, &kind) != STELE_OK || kind != STELE_DIR_LIVE)
        return STELE_OK;
    enum stele_err err = stele_path_join(path, dir->path, name);
    if (err != STELE_OK)
        return err;
    err = stele_partition_metadata_read(vfs_of(dirs), dirs->env->mem, path, &found.topic_id);
    if (err == STELE_CORRUPT)
        return stele_error_set(listing->error, err,
                               "%.300s/" STELE_PARTITION_METADATA_FILE
                               " is damaged; restore it from a copy, or move the directory away",
                               path);
    if (err != STELE_OK && err != STELE_NOT_FOUND)
        return err;
    (void)stele_checkpoint_get(&listing->checkpoints->recovery, found.topic, found.partition, &found.recovery_point);
    (void)stele_checkpoint_get(&listing->checkpoints->start, found.topic, found.partition, &found.log_start_offset);
    (void)stele_checkpoint_get(&listing->checkpoints->high, found.topic, found.partition, &found.high_watermark);
    return add_found(listing, name, &found);
}

static enum stele_err load_dir(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    struct log_dir *dir = &dirs->dirs[at];
    struct checkpoints checkpoints;
    enum stele_err err = stele_clean_shutdown_take(vfs_of(dirs), dir->path, &dir->was_clean);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s/" STELE_CLEAN_SHUTDOWN_FILE ": %s", dir->path, stele_err_text(err));
    read_checkpoint(dirs, &checkpoints.recovery, dir->path, STELE_RECOVERY_POINT_FILE);
    read_checkpoint(dirs, &checkpoints.start, dir->path, STELE_LOG_START_FILE);
    read_checkpoint(dirs, &checkpoints.high, dir->path, STELE_HIGH_WATERMARK_FILE);
    struct listing listing = {.dirs = dirs, .dir = at, .checkpoints = &checkpoints, .error = error};
    err = vfs_of(dirs)->ops->list(vfs_of(dirs), dir->path, see_partition, &listing);
    stele_checkpoint_deinit(&checkpoints.recovery);
    stele_checkpoint_deinit(&checkpoints.start);
    stele_checkpoint_deinit(&checkpoints.high);
    return err;
}

/* Runs one step over every directory that still serves; an I/O error takes a directory out, anything else ends the
 * start. */
static enum stele_err each_dir(struct stele_log_dirs *dirs,
                               enum stele_err (*step)(struct stele_log_dirs *, int, struct stele_error *),
                               struct stele_error *error)
{
    enum stele_err last = STELE_OK;
    int live = 0;
    for (int i = 0; i < dirs->count; i++) {
        if (dirs->dirs[i].is_offline)
            continue;
        enum stele_err err = step(dirs, i, error);
        if (err == STELE_IO || err == STELE_NO_SPACE) {
            stele_log_dirs_fail(dirs, i, "it cannot be read");
            last = err;
        } else if (err != STELE_OK) {
            return err;
        } else {
            live++;
        }
    }
    return live > 0 ? STELE_OK : last;
}

static enum stele_err new_dirs(const struct stele_log_dirs_options *options, struct stele_log_dirs **out_dirs)
{
    struct stele_mem *mem = options->env->mem;
    struct stele_log_dirs *dirs = stele_mem_alloc(mem, STELE_MEM_LOG, sizeof(*dirs));
    if (dirs == NULL)
        return STELE_NO_MEMORY;
    dirs->env = options->env;
    dirs->reserve_bytes = options->reserve_bytes;
    dirs->dirs = stele_mem_array(mem, STELE_MEM_LOG, (size_t)options->count, sizeof(*dirs->dirs));
    for (int i = 0; i < options->count && dirs->dirs != NULL; i++) {
        dirs->dirs[i].path = stele_mem_string(mem, STELE_MEM_LOG, options->paths[i]);
        if (dirs->dirs[i].path == NULL)
            break;
        dirs->count++;
    }
    if (dirs->count != options->count) {
        stele_log_dirs_close(dirs);
        return STELE_NO_MEMORY;
    }
    *out_dirs = dirs;
    return STELE_OK;
}

enum stele_err stele_log_dirs_open(const struct stele_log_dirs_options *options, struct stele_log_dirs **out_dirs,
                                   struct stele_error *error)
{
    struct stele_log_dirs *dirs = NULL;
    STELE_ASSERT(options->count > 0);
    enum stele_err err = new_dirs(options, &dirs);
    if (err != STELE_OK)
        return stele_error_set(error, err, "out of memory");
    err = each_dir(dirs, lock_dir, error);
    if (err == STELE_OK)
        err = each_dir(dirs, check_dir, error);
    if (err == STELE_OK && dirs->dirs[0].is_offline)
        err = stele_error_set(error, STELE_IO, "%.300s holds the metadata log and cannot be used", dirs->dirs[0].path);
    if (err == STELE_OK)
        err = each_dir(dirs, load_dir, error);
    if (err != STELE_OK) {
        stele_log_dirs_close(dirs);
        return err;
    }
    for (int i = 0; i < dirs->count; i++)
        stele_log_dirs_measure(dirs, i);
    *out_dirs = dirs;
    return STELE_OK;
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

bool stele_log_dirs_identity(const struct stele_log_dirs *dirs, struct stele_meta_properties *out_properties)
{
    if (!dirs->dirs[0].has_properties)
        return false;
    *out_properties = dirs->dirs[0].properties;
    return true;
}

enum stele_err stele_log_dirs_format(struct stele_log_dirs *dirs, const char *cluster_id, int32_t node_id)
{
    for (int i = 0; i < dirs->count; i++) {
        struct log_dir *dir = &dirs->dirs[i];
        struct stele_meta_properties properties = {.node_id = node_id};
        bool is_usable = false;
        if (dir->is_offline || dir->has_properties)
            continue;
        while (!is_usable) {
            struct stele_uuid uuid =
                stele_uuid_make(dirs->env->ops->random(dirs->env), dirs->env->ops->random(dirs->env), &is_usable);
            stele_uuid_text(&uuid, properties.directory_id);
        }
        (void)snprintf(properties.cluster_id, sizeof(properties.cluster_id), "%s", cluster_id);
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

enum stele_err stele_log_dirs_create(struct stele_log_dirs *dirs, int dir, const char *topic, int32_t partition,
                                     const struct stele_uuid *topic_id, char out_path[STELE_PATH_BYTES])
{
    char name[STELE_TOPIC_NAME_MAX + 16], path[STELE_PATH_BYTES];
    if (dirs->dirs[dir].is_offline)
        return STELE_OFFLINE;
    (void)snprintf(name, sizeof(name), "%s-%d", topic, partition);
    enum stele_err err = stele_path_join(path, dirs->dirs[dir].path, name);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->mkdir(vfs_of(dirs), path);
    if (err == STELE_OK)
        err = stele_partition_metadata_write(vfs_of(dirs), path, topic_id, false);
    if (err != STELE_OK)
        return err;
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
    if (dirs->dirs[dir].is_offline)
        return;
    dirs->dirs[dir].is_offline = true;
    stele_trace(dirs->env, STELE_TRACE_DIR_FAILED, dirs->dirs[dir].path, reason, 0, 0, 0);
}

bool stele_log_dirs_is_full(const struct stele_log_dirs *dirs, int dir)
{
    return dirs->dirs[dir].is_full;
}

void stele_log_dirs_measure(struct stele_log_dirs *dirs, int at)
{
    struct log_dir *dir = &dirs->dirs[at];
    int64_t bytes = 0;
    if (dir->is_offline || vfs_of(dirs)->ops->free_bytes(vfs_of(dirs), dir->path, &bytes) != STELE_OK)
        return;
    bool is_full = bytes < dirs->reserve_bytes;
    if (is_full != dir->is_full)
        stele_trace(dirs->env, is_full ? STELE_TRACE_DIR_FULL : STELE_TRACE_DIR_FREED, dir->path, NULL, bytes,
                    dirs->reserve_bytes, 0);
    dir->is_full = is_full;
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
        err = stele_checkpoint_set(&checkpoint, point->topic, point->partition, offset);
    }
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
        for (size_t i = 0; i < STELE_ARRAY_LEN(names) && !dirs->dirs[dir].is_offline; i++) {
            enum stele_err err = write_one(dirs, dir, names[i], points, count);
            if (err == STELE_OK)
                continue;
            result = err;
            if (err != STELE_NO_MEMORY && err != STELE_NO_SPACE)
                stele_log_dirs_fail(dirs, dir, "a checkpoint could not be written");
            break;
        }
    }
    return result;
}

enum stele_err stele_log_dirs_mark_clean(struct stele_log_dirs *dirs, int dir)
{
    if (dirs->dirs[dir].is_offline)
        return STELE_OFFLINE;
    return stele_clean_shutdown_write(vfs_of(dirs), dirs->dirs[dir].path, -1);
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
    stele_mem_free(dirs->env->mem, dirs);
}
