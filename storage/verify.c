/* Walks what is to be verified: every file of a partition is held against its log, every checkpoint of a log directory
 * against the logs. The batches of a segment are read once into a table; the rest must agree with it. */
#include "storage/segment.h"
#include "storage/verify_struct.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = INT32_MAX };

void stele_verify__found(struct stele_verifying *v, enum stele_finding_kind kind, const char *path, int64_t pos,
                         const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct stele_finding finding = {.kind = kind, .path = path, .pos = pos, .text = text};
    if (kind == STELE_FINDING_DAMAGE)
        v->report->damages++;
    else
        v->report->crash_leftovers++;
    v->options->found(v->options->arg, &finding);
}

enum stele_err stele_verify__grow(struct stele_verifying *v, void **inout_array, int64_t count, int64_t *inout_capacity,
                                  size_t bytes)
{
    if (count < *inout_capacity)
        return STELE_OK;
    int64_t capacity = *inout_capacity == 0 ? 16 : *inout_capacity * 2;
    void *array = stele_mem_resize(v->env->mem, STELE_MEM_TOOL, *inout_array, (size_t)capacity * bytes);
    if (array == NULL)
        return STELE_NO_MEMORY;
    *inout_array = array;
    *inout_capacity = capacity;
    return STELE_OK;
}

enum stele_err stele_verify__read(struct stele_verifying *v, const char *path, uint8_t **out_bytes, size_t *out_count)
{
    enum stele_err err =
        stele_vfs_read_whole(v->env->vfs, v->env->mem, STELE_MEM_TOOL, path, FILE_BYTES_MAX, out_bytes, out_count);
    if (err == STELE_OK) {
        v->report->files++;
        v->report->bytes += (int64_t)*out_count;
    }
    return err;
}

enum stele_finding_kind stele_verify__kind_beyond(const struct stele_verifying *v, int64_t offset)
{
    bool is_beyond = offset >= v->end && offset >= v->cut_from && !v->has_next;
    return is_beyond ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE;
}

enum stele_err stele_verify__path(const struct stele_verifying *v, int64_t base, const char *suffix,
                                  char out_path[STELE_PATH_BYTES])
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(base, suffix, name);
    return stele_path_join(out_path, v->dir, name);
}

static bool ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), length = strlen(end);
    return bytes >= length && strcmp(text + bytes - length, end) == 0;
}

struct listing {
    struct stele_verifying *v;
    const char *dir;
    enum stele_err (*each)(struct stele_verifying *v, const char *name, const char *path);
};

static enum stele_err list_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, listing->dir, name);
    return err == STELE_OK ? listing->each(listing->v, name, path) : err;
}

static enum stele_err list(struct stele_verifying *v, const char *dir,
                           enum stele_err (*each)(struct stele_verifying *v, const char *name, const char *path))
{
    struct listing listing = {.v = v, .dir = dir, .each = each};
    return v->env->vfs->ops->list(v->env->vfs, dir, list_name, &listing);
}

/* Names come in ascending order. */
static enum stele_err note_offset(struct stele_verifying *v, int64_t offset, bool is_log)
{
    void *offsets = is_log ? v->bases : v->snapshots;
    enum stele_err err =
        is_log ? stele_verify__grow(v, &offsets, v->base_count, &v->base_capacity, sizeof(offset))
               : stele_verify__grow(v, &offsets, v->snapshot_count, &v->snapshot_capacity, sizeof(offset));
    if (is_log)
        v->bases = offsets;
    else
        v->snapshots = offsets;
    if (err == STELE_OK && is_log)
        v->bases[v->base_count++] = offset;
    else if (err == STELE_OK)
        v->snapshots[v->snapshot_count++] = offset;
    return err;
}

/* "OFFSET-EPOCH.checkpoint": a snapshot of the metadata. */
static bool is_metadata_snapshot(const char *name, int64_t *out_epoch)
{
    enum { OFFSET_DIGITS = 20, EPOCH_DIGITS = 10 };
    int64_t epoch = 0;
    if (!stele_metadata_snapshot_name_is(name))
        return false;
    for (int i = 0; i < EPOCH_DIGITS; i++)
        epoch = epoch * 10 + (name[OFFSET_DIGITS + 1 + i] - '0');
    *out_epoch = epoch;
    return true;
}

/* First pass over a partition: what there is. */
static enum stele_err see_file(struct stele_verifying *v, const char *name, const char *path)
{
    const char *suffix;
    int64_t offset, epoch;
    if (ends_with(name, ".deleted") || ends_with(name, ".cleaned") || ends_with(name, ".swap") ||
        ends_with(name, ".tmp") || ends_with(name, ".part")) {
        stele_verify__found(v, STELE_FINDING_CRASH, path, -1, "a leftover of a deletion, a clean or a crash");
        return STELE_OK;
    }
    if (is_metadata_snapshot(name, &epoch))
        return stele_verify__batches(v, path, epoch);
    if (strcmp(name, STELE_LEADER_EPOCH_FILE) == 0)
        v->has_epoch_file = true;
    if (!stele_segment_name_parse(name, &offset, &suffix))
        return STELE_OK;
    if (strcmp(suffix, ".log") == 0 || strcmp(suffix, ".snapshot") == 0)
        return note_offset(v, offset, strcmp(suffix, ".log") == 0);
    return STELE_OK;
}

static enum stele_err load_epochs(struct stele_verifying *v)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, v->dir, STELE_LEADER_EPOCH_FILE);
    if (err == STELE_OK)
        err = stele_epoch_cache_load(&v->file_epochs, v->env->vfs, v->dir);
    if (err != STELE_CORRUPT)
        return err;
    v->is_epoch_file_bad = true;
    v->file_epochs.count = 0;
    stele_verify__found(v, STELE_FINDING_DAMAGE, path, 0, "the file does not parse");
    return STELE_OK;
}

/* The partitions of a topic have one id. */
static enum stele_err check_metadata(struct stele_verifying *v, const char *topic)
{
    char path[STELE_PATH_BYTES];
    struct stele_uuid topic_id;
    struct stele_stat stat;
    enum stele_err err = stele_path_join(path, v->dir, STELE_PARTITION_METADATA_FILE);
    if (err == STELE_OK)
        err = v->env->vfs->ops->stat(v->env->vfs, path, &stat);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    err = stele_partition_metadata_read(v->env->vfs, v->env->mem, v->dir, &topic_id);
    if (err == STELE_NOT_FOUND) /* the beginning of one: it was never synced */
        stele_verify__found(v, v->is_clean ? STELE_FINDING_DAMAGE : STELE_FINDING_CRASH, path, -1,
                            "the file is not finished");
    else if (err == STELE_CORRUPT)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, -1, "the file does not parse");
    else if (err != STELE_OK)
        return err;
    else if (topic[0] != 0 && strcmp(topic, v->topic_before) == 0 &&
             memcmp(&topic_id, &v->topic_id_before, sizeof(topic_id)) != 0)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, -1, "another partition of the topic has another topic id");
    if (err == STELE_OK) {
        (void)snprintf(v->topic_before, sizeof(v->topic_before), "%s", topic);
        v->topic_id_before = topic_id;
    }
    return STELE_OK;
}

/* A partition's directory about to be read. `topic` NULL: its name says nothing. */
static void begin(struct stele_verifying *v, const char *dir, const char *topic, int32_t partition)
{
    const char *name = strrchr(dir, '/');
    v->dir = dir;
    v->name = name == NULL ? dir : name + 1;
    v->base_count = v->snapshot_count = 0;
    v->expected = -1;
    v->end = 0;
    v->last_epoch = -1;
    v->epochs.count = v->file_epochs.count = 0;
    v->has_next = false;
    v->has_epoch_file = v->is_epoch_file_bad = v->is_epoch_told = v->was_lost = false;
    stele_verify__points_of(v, topic, partition);
    v->is_compacted = v->options->is_compacted || v->point[STELE_POINT_CLEANER] >= 0;
}

static enum stele_err read_segments(struct stele_verifying *v)
{
    enum stele_err err = stele_verify__state_begin(v);
    for (int i = 0; i < v->base_count && err == STELE_OK; i++)
        err = stele_verify__segment(v, i);
    return err == STELE_OK ? stele_verify__snapshots_end(v) : err;
}

static enum stele_err verify_partition(struct stele_verifying *v, const char *dir)
{
    const char *name = strrchr(dir, '/');
    char topic[STELE_TOPIC_NAME_MAX + 1] = "";
    int32_t partition = 0;
    enum stele_dir_kind kind = STELE_DIR_LIVE;
    bool is_named = stele_partition_dir_parse(name == NULL ? dir : name + 1, topic, &partition, &kind) == STELE_OK &&
                    kind == STELE_DIR_LIVE;
    begin(v, dir, is_named ? topic : NULL, partition);
    enum stele_err err = list(v, dir, see_file);
    if (err == STELE_OK)
        err = load_epochs(v);
    if (err == STELE_OK)
        err = read_segments(v);
    if (err == STELE_OK)
        err = stele_verify__epochs(v);
    if (err == STELE_OK)
        err = check_metadata(v, topic);
    if (err == STELE_OK && v->base_count > 0 && v->log_dir != NULL && !v->was_lost)
        stele_verify__points_compare(v);
    if (err == STELE_OK && is_named && v->log_dir != NULL)
        stele_verify__points_missing(v, topic);
    return err;
}

static enum stele_err see_partition(struct stele_verifying *v, const char *name, const char *path)
{
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    enum stele_dir_kind kind;
    if (stele_partition_dir_parse(name, topic, &partition, &kind) != STELE_OK)
        return STELE_OK;
    if (kind == STELE_DIR_DELETE) {
        stele_verify__found(v, STELE_FINDING_CRASH, path, -1, "a partition that is being deleted");
        return STELE_OK;
    }
    enum stele_err err = stele_checkpoint_set(&v->partitions, topic, partition, 0);
    return err == STELE_OK ? verify_partition(v, path) : err;
}

static enum stele_err check_properties(struct stele_verifying *v, const char *path)
{
    struct stele_meta_properties properties;
    struct stele_error error = {.text = ""};
    struct stele_uuid id;
    v->report->files++;
    enum stele_err err = stele_meta_properties_read(v->env->vfs, v->env->mem, v->log_dir, &properties, &error);
    if (err == STELE_CORRUPT)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, 0, "%.200s", error.text);
    else if (err == STELE_OK && properties.directory_id[0] != 0 &&
             stele_uuid_parse(properties.directory_id, strlen(properties.directory_id), &id) != STELE_OK)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, 0, "directory.id is no id");
    return err == STELE_CORRUPT ? STELE_OK : err;
}

static enum stele_err check_checkpoint(struct stele_verifying *v, const char *name, const char *path)
{
    struct stele_checkpoint checkpoint;
    struct stele_error error = {.text = ""};
    v->report->files++;
    stele_checkpoint_init(&checkpoint, v->env->mem);
    enum stele_err err = stele_checkpoint_read(&checkpoint, v->env->vfs, v->log_dir, name, &error);
    stele_checkpoint_deinit(&checkpoint);
    if (err == STELE_CORRUPT)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, 0, "%.200s", error.text);
    return err == STELE_CORRUPT ? STELE_OK : err;
}

static enum stele_err see_entry(struct stele_verifying *v, const char *name, const char *path)
{
    struct stele_stat stat;
    enum stele_err err = v->env->vfs->ops->stat(v->env->vfs, path, &stat);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    if (stat.is_dir)
        return see_partition(v, name, path);
    if (ends_with(name, "-offset-checkpoint"))
        return check_checkpoint(v, name, path);
    return strcmp(name, STELE_META_PROPERTIES_FILE) == 0 ? check_properties(v, path) : STELE_OK;
}

/* Does it hold segments? */
static enum stele_err see_log(struct stele_verifying *v, const char *name, const char *path)
{
    const char *suffix;
    int64_t offset;
    (void)path;
    v->is_partition =
        v->is_partition || (stele_segment_name_parse(name, &offset, &suffix) && strcmp(suffix, ".log") == 0);
    return STELE_OK;
}

/* A directory with segments is a partition, and the one above it tells of it; otherwise it holds partitions. */
static enum stele_err verify_dir(struct stele_verifying *v, const char *path)
{
    char parent[STELE_PATH_BYTES];
    enum stele_err err = list(v, path, see_log);
    if (err == STELE_OK && v->is_partition) {
        err = stele_path_join(parent, path, "..");
        if (err == STELE_OK)
            err = stele_verify__points_load(v, parent);
        return err == STELE_OK ? verify_partition(v, path) : err;
    }
    v->log_dir = path;
    if (err == STELE_OK)
        err = stele_verify__points_load(v, path);
    if (err == STELE_OK)
        err = list(v, path, see_entry);
    if (err == STELE_OK)
        stele_verify__points_strays(v);
    return err;
}

/* One file: the segment that it belongs to, or a snapshot. */
static enum stele_err verify_file(struct stele_verifying *v, const char *path)
{
    char dir[STELE_PATH_BYTES], snapshot[STELE_PATH_BYTES];
    const char *slash = strrchr(path, '/'), *suffix;
    struct stele_stat stat;
    int64_t offset;
    (void)snprintf(dir, sizeof(dir), "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
    if (!stele_segment_name_parse(slash == NULL ? path : slash + 1, &offset, &suffix))
        return STELE_INVALID_ARGUMENT;
    begin(v, dir, NULL, 0);
    enum stele_err err = STELE_OK;
    if (strcmp(suffix, ".snapshot") != 0)
        err = note_offset(v, offset, true);
    if (err == STELE_OK)
        err = stele_verify__path(v, offset, ".snapshot", snapshot);
    if (err != STELE_OK)
        return err;
    err = v->env->vfs->ops->stat(v->env->vfs, snapshot, &stat);
    if (err == STELE_OK)
        err = note_offset(v, offset, false);
    else if (err == STELE_NOT_FOUND)
        err = STELE_OK;
    return err == STELE_OK ? read_segments(v) : err;
}

static void deinit(struct stele_verifying *v)
{
    struct stele_mem *mem = v->env->mem;
    for (int i = 0; i < STELE_POINT_COUNT; i++)
        stele_checkpoint_deinit(&v->points[i]);
    stele_checkpoint_deinit(&v->partitions);
    stele_epoch_cache_deinit(&v->epochs);
    stele_epoch_cache_deinit(&v->file_epochs);
    stele_producers_free(v->producers);
    stele_mem_free(mem, v->batches);
    stele_mem_free(mem, v->aborts);
    stele_mem_free(mem, v->bases);
    stele_mem_free(mem, v->snapshots);
}

enum stele_err stele_verify(struct stele_env *env, const char *path, const struct stele_verify_options *options,
                            struct stele_verify_report *out_report)
{
    struct stele_verify_report report = {0};
    struct stele_verifying v = {.env = env, .options = options, .report = &report};
    struct stele_stat stat;
    for (int i = 0; i < STELE_POINT_COUNT; i++)
        stele_checkpoint_init(&v.points[i], env->mem);
    stele_checkpoint_init(&v.partitions, env->mem);
    stele_epoch_cache_init(&v.epochs, env->mem);
    stele_epoch_cache_init(&v.file_epochs, env->mem);
    enum stele_err err = env->vfs->ops->stat(env->vfs, path, &stat);
    if (err == STELE_OK)
        err = stat.is_dir ? verify_dir(&v, path) : verify_file(&v, path);
    deinit(&v);
    if (err == STELE_OK)
        *out_report = report;
    return err;
}
