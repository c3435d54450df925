/* Invariants
 *  1. Nothing is created, locked or written before every directory was seen to be ours or empty.
 *  2. No clean marker is taken before everything that may refuse the start was looked at.
 *  3. The first directory works, or there is no start. */
#include "base/check.h"
#include "base/sort.h"
#include "proto/metadata_record.h"
#include "storage/log_dirs_struct.h"
#include "storage/resync.h"

#include <stdio.h>
#include <string.h>

#define METADATA_DIR "__cluster_metadata-0"
#define METADATA_LOG METADATA_DIR "/00000000000000000000.log"

enum { FIRST_BATCH_BYTES_MAX = 1 << 20 };

static struct stele_vfs *vfs_of(const struct stele_log_dirs *dirs)
{
    return dirs->env->vfs;
}

/* What a name in a log directory is. */
enum entry { ENTRY_OTHER, ENTRY_LIVE, ENTRY_FUTURE, ENTRY_MARKED };

static enum entry parse_name(const char *name, struct stele_found_log *out_found)
{
    enum stele_dir_kind kind;
    if (stele_partition_dir_parse(name, out_found->topic, &out_found->partition, &kind) != STELE_OK)
        return ENTRY_OTHER;
    return kind == STELE_DIR_LIVE ? ENTRY_LIVE : kind == STELE_DIR_FUTURE ? ENTRY_FUTURE : ENTRY_MARKED;
}

/* Whether it is a directory at all; *inout_entry is ENTRY_OTHER otherwise. */
static enum stele_err check_is_dir(const struct stele_log_dirs *dirs, const char *dir, const char *name,
                                   enum entry *inout_entry)
{
    char path[STELE_PATH_BYTES];
    struct stele_stat stat = {.is_dir = false};
    if (*inout_entry == ENTRY_OTHER)
        return STELE_OK;
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->stat(vfs_of(dirs), path, &stat);
    if (err != STELE_OK || !stat.is_dir)
        *inout_entry = ENTRY_OTHER;
    return err == STELE_NOT_FOUND ? STELE_OK : err;
}

/* What a directory holds, seen without touching it. */
struct looking {
    const struct stele_log_dirs *dirs;
    const char *path;
    bool has_partition, has_metadata, has_properties;
};

static enum stele_err look_at(void *arg, const char *name)
{
    struct looking *looking = arg;
    struct stele_found_log found;
    if (strcmp(name, METADATA_DIR) == 0)
        looking->has_metadata = true;
    else if (strcmp(name, STELE_META_PROPERTIES_FILE) == 0)
        looking->has_properties = true;
    else if (!looking->has_partition) {
        enum entry entry = parse_name(name, &found);
        enum stele_err err = check_is_dir(looking->dirs, looking->path, name, &entry);
        looking->has_partition = entry != ENTRY_OTHER;
        return err;
    }
    return STELE_OK;
}

/* How a metadata log begins. */
enum beginning { BEGINS_NOT, BEGINS_OURS, BEGINS_OTHER, BEGINS_DAMAGED };

static enum stele_err decode_beginning(struct stele_mem *mem, const uint8_t *batch, size_t count,
                                       enum beginning *out_beginning)
{
    struct stele_record_walker walker;
    struct stele_batch_header header;
    struct stele_record record;
    struct stele_metadata_record metadata;
    struct stele_arena arena;
    if (stele_batch_check(batch, count, &header) != STELE_OK) {
        *out_beginning = BEGINS_DAMAGED;
        return STELE_OK;
    }
    *out_beginning = BEGINS_OTHER;
    if ((header.attributes & STELE_BATCH_CONTROL) != 0)
        return STELE_OK;
    enum stele_err err = stele_record_walker_init(&walker, mem, batch, count, FIRST_BATCH_BYTES_MAX);
    if (err != STELE_OK)
        return err == STELE_NO_MEMORY ? err : STELE_OK;
    stele_arena_init(&arena, mem, STELE_MEM_LOG, 0);
    err = stele_record_next(&walker, &record);
    if (err == STELE_OK && record.value != NULL)
        err = stele_metadata_record_decode(&arena, record.value, (size_t)record.value_bytes, &metadata);
    if (err == STELE_OK && record.value != NULL && metadata.kind == STELE_METADATA_FORMAT &&
        strcmp(metadata.u.format.format, "stele") == 0)
        *out_beginning = BEGINS_OURS;
    stele_arena_deinit(&arena);
    stele_record_walker_deinit(&walker);
    return err == STELE_NO_MEMORY ? err : STELE_OK;
}

/* Reads the first batch. */
static enum stele_err read_beginning(struct stele_file *file, struct stele_mem *mem, enum beginning *out_beginning)
{
    uint8_t prefix[STELE_BATCH_PREFIX_BYTES];
    int64_t file_bytes = 0;
    enum stele_err err = file->vfs->ops->size(file, &file_bytes);
    if (err != STELE_OK)
        return err;
    *out_beginning = file_bytes == 0 ? BEGINS_NOT : BEGINS_DAMAGED;
    if (file_bytes < STELE_BATCH_HEADER_BYTES)
        return STELE_OK;
    err = stele_file_read(file, prefix, sizeof(prefix), 0);
    if (err != STELE_OK)
        return err;
    int64_t bytes = stele_batch_size(prefix);
    if (bytes == 0 || bytes > file_bytes || bytes > FIRST_BATCH_BYTES_MAX)
        return STELE_OK;
    uint8_t *batch = stele_mem_raw(mem, STELE_MEM_LOG, (size_t)bytes);
    if (batch == NULL)
        return STELE_NO_MEMORY;
    err = stele_file_read(file, batch, (size_t)bytes, 0);
    if (err == STELE_OK)
        err = decode_beginning(mem, batch, (size_t)bytes, out_beginning);
    stele_mem_free(mem, batch);
    return err;
}

static enum stele_err look_at_file(const struct stele_log_dirs *dirs, const char *path, enum beginning *out_beginning)
{
    struct stele_file *file = NULL;
    enum stele_err err = vfs_of(dirs)->ops->open(vfs_of(dirs), path, STELE_OPEN_READ, &file);
    if (err == STELE_NOT_FOUND) {
        *out_beginning = BEGINS_NOT;
        return STELE_OK;
    }
    if (err != STELE_OK)
        return err;
    err = read_beginning(file, dirs->env->mem, out_beginning);
    vfs_of(dirs)->ops->close(file);
    return err;
}

/* Of the snapshots, the best beginning. */
struct snapshots {
    const struct stele_log_dirs *dirs;
    const char *dir;
    enum beginning best;
};

static enum stele_err look_at_snapshot(void *arg, const char *name)
{
    struct snapshots *snapshots = arg;
    char path[STELE_PATH_BYTES];
    enum beginning beginning = BEGINS_NOT;
    if (!stele_metadata_snapshot_name_is(name) || snapshots->best == BEGINS_OURS)
        return STELE_OK;
    enum stele_err err = stele_path_join(path, snapshots->dir, name);
    if (err == STELE_OK)
        err = look_at_file(snapshots->dirs, path, &beginning);
    if (beginning == BEGINS_OURS || beginning == BEGINS_OTHER || snapshots->best == BEGINS_NOT)
        snapshots->best = beginning;
    return err;
}

/* The log's first segment, or a snapshot, when one has taken its place. */
static enum stele_err look_at_metadata(const struct stele_log_dirs *dirs, const char *dir,
                                       enum beginning *out_beginning)
{
    char path[STELE_PATH_BYTES], metadata[STELE_PATH_BYTES];
    struct snapshots snapshots = {.dirs = dirs, .dir = metadata, .best = BEGINS_NOT};
    enum stele_err err = stele_path_join(path, dir, METADATA_LOG);
    if (err == STELE_OK)
        err = stele_path_join(metadata, dir, METADATA_DIR);
    if (err == STELE_OK)
        err = look_at_file(dirs, path, out_beginning);
    if (err != STELE_OK || *out_beginning != BEGINS_NOT)
        return err;
    err = vfs_of(dirs)->ops->list(vfs_of(dirs), metadata, look_at_snapshot, &snapshots);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    *out_beginning = snapshots.best;
    return err;
}

/* The first directory: its metadata log decides. What a crash leaves of one that was never synced has no other data
 * beside it. */
static enum stele_err check_first(const struct looking *looking, struct stele_error *error)
{
    enum beginning beginning = BEGINS_NOT;
    bool is_used = looking->has_partition || looking->has_properties;
    enum stele_err err =
        looking->has_metadata || is_used ? look_at_metadata(looking->dirs, looking->path, &beginning) : STELE_OK;
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s/" METADATA_LOG ": %s", looking->path, stele_err_text(err));
    if (beginning == BEGINS_OURS || (!is_used && beginning != BEGINS_OTHER))
        return STELE_OK;
    if (beginning == BEGINS_DAMAGED)
        return stele_error_set(error, STELE_CORRUPT,
                               "%.300s/" METADATA_LOG
                               ": the first batch is damaged; restore the file from a copy of this directory",
                               looking->path);
    return stele_error_set(error, STELE_FOREIGN,
                           "%.250s holds data of another program (Kafka?), or its metadata log is not in this first "
                           "of log.dirs; it was left untouched: give an empty directory with --data or log.dirs",
                           looking->path);
}

/* Another directory: its meta.properties must be of the same node as the first one's. */
static enum stele_err check_other(const struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    const struct stele_log_dir *dir = &dirs->dirs[at], *first = &dirs->dirs[0];
    if (!dir->has_properties || !first->has_properties ||
        strcmp(first->properties.cluster_id, dir->properties.cluster_id) != 0 ||
        first->properties.node_id != dir->properties.node_id)
        return stele_error_set(error, STELE_FOREIGN,
                               "%.200s is not of the cluster and node of %.200s (" STELE_META_PROPERTIES_FILE
                               "); it was left untouched",
                               dir->path, first->path);
    for (int i = 0; i < at; i++) {
        if (dir->properties.directory_id[0] != 0 &&
            strcmp(dirs->dirs[i].properties.directory_id, dir->properties.directory_id) == 0)
            return stele_error_set(error, STELE_CORRUPT,
                                   "%.200s and %.200s have the same directory.id: one is a copy of the other; take it "
                                   "out of log.dirs",
                                   dirs->dirs[i].path, dir->path);
    }
    return STELE_OK;
}

/* Is the directory ours, or empty, or missing? Nothing is written. */
static enum stele_err look(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    struct stele_log_dir *dir = &dirs->dirs[at];
    struct looking looking = {.dirs = dirs, .path = dir->path};
    enum stele_err err = vfs_of(dirs)->ops->list(vfs_of(dirs), dir->path, look_at, &looking);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s cannot be listed: %s", dir->path, stele_err_text(err));
    if (at == 0)
        err = check_first(&looking, error);
    if (err == STELE_OK && looking.has_properties)
        err = stele_meta_properties_read(vfs_of(dirs), dirs->env->mem, dir->path, &dir->properties, error);
    if (err != STELE_OK)
        return err;
    dir->has_properties = looking.has_properties;
    if (at == 0 && looking.has_properties && dirs->node_id >= 0 && dir->properties.node_id != dirs->node_id)
        return stele_error_set(error, STELE_FOREIGN,
                               "%.300s belongs to node %d, this is node %d: choose another directory or set node.id",
                               dir->path, (int)dir->properties.node_id, (int)dirs->node_id);
    bool is_used = looking.has_partition || looking.has_properties || looking.has_metadata;
    return at > 0 && is_used ? check_other(dirs, at, error) : STELE_OK;
}

/* Syncs the directory that holds path[0..bytes). */
static enum stele_err sync_parent(struct stele_vfs *vfs, const char *path, size_t bytes)
{
    char parent[STELE_PATH_BYTES];
    while (bytes > 0 && path[bytes - 1] != '/')
        bytes--;
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    memcpy(parent, bytes == 0 ? "." : path, bytes == 0 ? 1 : bytes);
    parent[bytes == 0 ? 1 : bytes] = 0;
    return vfs->ops->sync_dir(vfs, parent);
}

/* The directories of `path`, with their names synced: also of one that is there, for a start that was killed may have
 * made it. One further up is rather another's, who may not let us read it. */
static enum stele_err make_dirs(struct stele_vfs *vfs, const char *path)
{
    char part[STELE_PATH_BYTES];
    size_t bytes = strlen(path);
    if (bytes >= sizeof(part))
        return STELE_TOO_LARGE;
    for (size_t i = 1; i <= bytes; i++) {
        if ((path[i] != '/' && path[i] != 0) || path[i - 1] == '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        enum stele_err err = vfs->ops->mkdir(vfs, part);
        if (err != STELE_OK && err != STELE_EXISTS)
            return err;
        bool is_known = err == STELE_EXISTS && i < bytes;
        err = sync_parent(vfs, path, i);
        if (err != STELE_OK && !is_known)
            return err;
    }
    return STELE_OK;
}

static enum stele_err lock_dir(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    struct stele_log_dir *dir = &dirs->dirs[at];
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    enum stele_err err = vfs_of(dirs)->ops->stat(vfs_of(dirs), dir->path, &stat);
    if (err == STELE_OK && !stat.is_dir)
        return stele_error_set(error, STELE_FOREIGN, "%.300s is no directory", dir->path);
    if (err == STELE_NOT_FOUND || (err == STELE_OK && !dir->has_properties))
        err = make_dirs(vfs_of(dirs), dir->path);
    if (err == STELE_OK)
        err = stele_path_join(path, dir->path, STELE_LOCK_FILE);
    if (err == STELE_OK)
        err = vfs_of(dirs)->ops->lock(vfs_of(dirs), path, &dir->lock);
    if (err == STELE_LOCKED)
        return stele_error_set(error, err,
                               "%.300s is in use by another process%s; stop it, or choose another directory", dir->path,
                               at > 0 ? ", or log.dirs names it twice" : "");
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s cannot be used: %s", dir->path, stele_err_text(err));
    return STELE_OK;
}

struct listing {
    struct stele_log_dirs *dirs;
    int dir;
    struct stele_error *error;
};

enum stele_err stele_log_dirs__grow(struct stele_log_dirs *dirs, void **inout_array, int *inout_capacity, int count,
                                    size_t bytes)
{
    if (count < *inout_capacity)
        return STELE_OK;
    int capacity = *inout_capacity == 0 ? 8 : *inout_capacity * 2;
    void *array = stele_mem_resize(dirs->env->mem, STELE_MEM_LOG, *inout_array, (size_t)capacity * bytes);
    if (array == NULL)
        return STELE_NO_MEMORY;
    *inout_array = array;
    *inout_capacity = capacity;
    return STELE_OK;
}

static enum stele_err add_found(struct stele_log_dirs *dirs, const struct stele_found_log *found)
{
    void *array = dirs->found;
    enum stele_err err =
        stele_log_dirs__grow(dirs, &array, &dirs->found_capacity, dirs->found_count, sizeof(*dirs->found));
    dirs->found = array;
    if (err != STELE_OK)
        return err;
    dirs->found[dirs->found_count++] = *found;
    dirs->dirs[found->dir].partitions++;
    return STELE_OK;
}

/* `name` ends in .<mark>-future. */
static enum stele_err add_future(struct stele_log_dirs *dirs, const struct stele_found_log *found, const char *name)
{
    enum { MARK_CHARS = STELE_FUTURE_MARK_BYTES - 1 };
    void *array = dirs->futures;
    enum stele_err err =
        stele_log_dirs__grow(dirs, &array, &dirs->future_capacity, dirs->future_count, sizeof(*dirs->futures));
    dirs->futures = array;
    if (err != STELE_OK)
        return err;
    struct stele_found_future *future = &dirs->futures[dirs->future_count++];
    *future = (struct stele_found_future){.log = *found};
    memcpy(future->mark, name + strlen(name) - strlen("-future") - MARK_CHARS, MARK_CHARS);
    dirs->dirs[found->dir].partitions++;
    return STELE_OK;
}

static enum stele_err see_partition(void *arg, const char *name)
{
    struct listing *listing = arg;
    struct stele_log_dirs *dirs = listing->dirs;
    const char *dir = dirs->dirs[listing->dir].path;
    struct stele_found_log found = {.dir = listing->dir, .high_watermark = -1};
    enum entry entry = parse_name(name, &found);
    char path[STELE_PATH_BYTES];
    if (entry != ENTRY_LIVE && entry != ENTRY_FUTURE)
        return STELE_OK;
    enum stele_err err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = stele_partition_metadata_read(vfs_of(dirs), dirs->env->mem, path, &found.topic_id);
    if (err != STELE_OK && err != STELE_NOT_FOUND && err != STELE_CORRUPT)
        return stele_error_set(listing->error, err, "%.300s/" STELE_PARTITION_METADATA_FILE ": %s", path,
                               stele_err_text(err));
    err = err == STELE_NOT_FOUND ? check_is_dir(dirs, dir, name, &entry) : STELE_OK;
    if (err != STELE_OK || entry == ENTRY_OTHER)
        return err;
    return entry == ENTRY_LIVE ? add_found(dirs, &found) : add_future(dirs, &found, name);
}

static enum stele_err list_dir(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    struct listing listing = {.dirs = dirs, .dir = at, .error = error};
    enum stele_err err = vfs_of(dirs)->ops->list(vfs_of(dirs), dirs->dirs[at].path, see_partition, &listing);
    if (err != STELE_OK && error->text[0] == 0)
        (void)stele_error_set(error, err, "%.300s cannot be listed: %s", dirs->dirs[at].path, stele_err_text(err));
    return err;
}

static int compare_found(const void *a, const void *b)
{
    const struct stele_found_log *left = a, *right = b;
    int order = strcmp(left->topic, right->topic);
    if (order != 0)
        return order;
    return left->partition != right->partition ? (left->partition < right->partition ? -1 : 1) : left->dir - right->dir;
}

static void settle_futures(struct stele_log_dirs *dirs)
{
    int kept = 0;
    for (int i = 0; i < dirs->future_count; i++) {
        if (!dirs->dirs[dirs->futures[i].log.dir].is_offline)
            dirs->futures[kept++] = dirs->futures[i];
    }
    dirs->future_count = kept;
}

/* Puts what was found in order; a partition may be in one place only. Those of offline directories are left out. Of two
 * topics one may be left from before the name was taken again, while its directory was offline; one without an id was
 * never synced, so nothing in it was acknowledged. */
static enum stele_err settle_found(struct stele_log_dirs *dirs, struct stele_error *error)
{
    int kept = 0;
    for (int i = 0; i < dirs->found_count; i++) {
        if (!dirs->dirs[dirs->found[i].dir].is_offline)
            dirs->found[kept++] = dirs->found[i];
    }
    dirs->found_count = kept;
    settle_futures(dirs);
    if (kept == 0)
        return STELE_OK;
    stele_sort(dirs->found, (size_t)kept, sizeof(*dirs->found), compare_found);
    for (int i = 1; i < kept; i++) {
        const struct stele_found_log *one = &dirs->found[i - 1], *two = &dirs->found[i];
        bool are_two_topics = !stele_uuid_equal(&one->topic_id, &two->topic_id);
        if (strcmp(one->topic, two->topic) == 0 && one->partition == two->partition && !are_two_topics)
            return stele_error_set(error, STELE_CORRUPT, "%s-%d is in %.100s and in %.100s; move one of them away",
                                   one->topic, one->partition, dirs->dirs[one->dir].path, dirs->dirs[two->dir].path);
    }
    return STELE_OK;
}

/* A damaged checkpoint counts as absent: recovery starts at 0, the log at its first segment. */
static enum stele_err read_checkpoint(struct stele_log_dirs *dirs, struct stele_checkpoint *checkpoint, const char *dir,
                                      const char *name)
{
    struct stele_error error = {.text = ""};
    enum stele_err err = stele_checkpoint_read(checkpoint, vfs_of(dirs), dir, name, &error);
    if (err == STELE_CORRUPT || err == STELE_TOO_LARGE) {
        stele_trace(dirs->env, STELE_TRACE_CHECKPOINT_BAD, name, error.text, 0, 0, 0);
        return STELE_OK;
    }
    return err;
}

static void fill_found(struct stele_log_dirs *dirs, int at, const struct stele_checkpoint *checkpoint, size_t field)
{
    int used = 0;
    for (int i = 0; i < dirs->found_count; i++) {
        struct stele_found_log *found = &dirs->found[i];
        if (found->dir == at)
            used += stele_checkpoint_get(checkpoint, found->topic, found->partition,
                                         (int64_t *)(void *)((char *)found + field));
    }
    dirs->dirs[at].is_stale = dirs->dirs[at].is_stale || used < checkpoint->count;
}

/* partition.metadata is synced before the first flush of the log ends: with a recovery point a bad one is damage,
 * without it is what a crash left, and counts as missing. */
static enum stele_err check_topic_ids(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    char name[STELE_TOPIC_NAME_MAX + 16], path[STELE_PATH_BYTES];
    struct stele_uuid topic_id;
    for (int i = 0; i < dirs->found_count; i++) {
        const struct stele_found_log *found = &dirs->found[i];
        if (found->dir != at || found->recovery_point == 0 || !stele_uuid_is_zero(&found->topic_id))
            continue;
        (void)snprintf(name, sizeof(name), "%s-%d", found->topic, found->partition);
        enum stele_err err = stele_path_join(path, dirs->dirs[at].path, name);
        if (err == STELE_OK)
            err = stele_partition_metadata_read(vfs_of(dirs), dirs->env->mem, path, &topic_id);
        if (err == STELE_CORRUPT)
            return stele_error_set(error, err,
                                   "%.300s/" STELE_PARTITION_METADATA_FILE
                                   " is damaged; restore it from a copy, or move the directory away",
                                   path);
        if (err != STELE_OK && err != STELE_NOT_FOUND)
            return err;
    }
    return STELE_OK;
}

static enum stele_err read_points(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    static const struct {
        const char *name;
        size_t field;
    } files[] = {
        {STELE_RECOVERY_POINT_FILE, offsetof(struct stele_found_log, recovery_point)},
        {STELE_LOG_START_FILE, offsetof(struct stele_found_log, log_start_offset)},
        {STELE_HIGH_WATERMARK_FILE, offsetof(struct stele_found_log, high_watermark)},
    };
    const char *dir = dirs->dirs[at].path;
    struct stele_checkpoint checkpoint;
    enum stele_err err = STELE_OK;
    stele_checkpoint_init(&checkpoint, dirs->env->mem);
    for (size_t i = 0; i < STELE_ARRAY_LEN(files) && err == STELE_OK; i++) {
        err = read_checkpoint(dirs, &checkpoint, dir, files[i].name);
        if (err == STELE_OK)
            fill_found(dirs, at, &checkpoint, files[i].field);
        else
            (void)stele_error_set(error, err, "%.300s/%s: %s", dir, files[i].name, stele_err_text(err));
    }
    stele_checkpoint_deinit(&checkpoint);
    return err == STELE_OK ? check_topic_ids(dirs, at, error) : err;
}

/* Before any log is opened, which takes its own mark away. */
static enum stele_err look_for_failed_sync(struct stele_log_dirs *dirs, int at)
{
    const char *dir = dirs->dirs[at].path;
    bool was_marked = false, is_due = false;
    enum stele_err err = stele_resync_is_due(vfs_of(dirs), dir, &was_marked);
    for (int i = 0; i < dirs->found_count && err == STELE_OK && !was_marked && !is_due; i++) {
        const struct stele_found_log *found = &dirs->found[i];
        char name[STELE_TOPIC_NAME_MAX + 16], path[STELE_PATH_BYTES];
        if (found->dir != at)
            continue;
        (void)snprintf(name, sizeof(name), "%s-%d", found->topic, found->partition);
        err = stele_path_join(path, dir, name);
        if (err == STELE_OK)
            err = stele_resync_is_due(vfs_of(dirs), path, &is_due);
    }
    if (err == STELE_OK && is_due)
        err = stele_resync_mark(vfs_of(dirs), dir);
    if (err == STELE_OK)
        dirs->dirs[at].has_failed_sync = was_marked || is_due;
    return err;
}

/* The first step that changes what a stop left. */
static enum stele_err take_marker(struct stele_log_dirs *dirs, int at, struct stele_error *error)
{
    const char *dir = dirs->dirs[at].path;
    struct stele_clean_shutdown marker;
    enum stele_err err = stele_clean_shutdown_take(vfs_of(dirs), dirs->env->mem, dir, &marker);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s/" STELE_CLEAN_SHUTDOWN_FILE ": %s", dir, stele_err_text(err));
    dirs->dirs[at].clean_epoch = marker.node_epoch;
    err = stele_served_epoch_read(vfs_of(dirs), dirs->env->mem, dir, &dirs->dirs[at].served_epoch);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s/" STELE_SERVED_EPOCH_FILE ": %s", dir, stele_err_text(err));
    err = look_for_failed_sync(dirs, at);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s/" STELE_SYNC_FAILED_FILE ": %s", dir, stele_err_text(err));
    for (int i = 0; i < dirs->found_count; i++) {
        if (dirs->found[i].dir == at)
            dirs->found[i].was_clean = marker.was_clean && !dirs->found[i].is_moved;
    }
    stele_log_dirs__finish_deletions(dirs, dir);
    return STELE_OK;
}

typedef enum stele_err dir_step(struct stele_log_dirs *dirs, int at, struct stele_error *error);

/* Runs one step over every directory that works. An I/O error takes a directory out, unless it is the first; anything
 * else ends the start. */
static enum stele_err each_dir(struct stele_log_dirs *dirs, dir_step *step, struct stele_error *error)
{
    for (int i = 0; i < dirs->count; i++) {
        struct stele_error own = {.text = ""};
        enum stele_err err = dirs->dirs[i].is_offline ? STELE_OK : step(dirs, i, &own);
        if (err == STELE_OK)
            continue;
        const char *text = own.text[0] == 0 ? stele_err_text(err) : own.text;
        if (i == 0 || (err != STELE_IO && err != STELE_NO_SPACE))
            return stele_error_set(error, err, "%s", text);
        stele_log_dirs_fail(dirs, i, text);
    }
    return STELE_OK;
}

static enum stele_err new_dirs(const struct stele_log_dirs_options *options, struct stele_log_dirs **out_dirs)
{
    struct stele_mem *mem = options->env->mem;
    struct stele_log_dirs *dirs = stele_mem_alloc(mem, STELE_MEM_LOG, sizeof(*dirs));
    if (dirs == NULL)
        return STELE_NO_MEMORY;
    dirs->env = options->env;
    stele_moved_list_init(&dirs->moved, mem);
    dirs->reserve_bytes = options->reserve_bytes;
    dirs->node_id = options->node_id;
    dirs->dirs = stele_mem_array(mem, STELE_MEM_LOG, (size_t)options->count, sizeof(*dirs->dirs));
    for (int i = 0; i < options->count && dirs->dirs != NULL; i++) {
        dirs->dirs[i].clean_epoch = -1;
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

static enum stele_err check_options(const struct stele_log_dirs_options *options, struct stele_error *error)
{
    STELE_ASSERT(options->count > 0);
    for (int i = 0; i < options->count; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(options->paths[i], options->paths[j]) == 0)
                return stele_error_set(error, STELE_INVALID_ARGUMENT, "log.dirs names %.300s twice", options->paths[i]);
        }
    }
    return STELE_OK;
}

enum stele_err stele_log_dirs_open(const struct stele_log_dirs_options *options, struct stele_log_dirs **out_dirs,
                                   struct stele_error *error)
{
    struct stele_log_dirs *dirs = NULL;
    enum stele_err err = check_options(options, error);
    if (err != STELE_OK)
        return err;
    err = new_dirs(options, &dirs);
    if (err != STELE_OK)
        return stele_error_set(error, err, "out of memory");
    err = each_dir(dirs, look, error);
    if (err == STELE_OK)
        err = each_dir(dirs, lock_dir, error);
    /* Now that nobody else writes. */
    if (err == STELE_OK)
        err = each_dir(dirs, look, error);
    if (err == STELE_OK)
        err = each_dir(dirs, list_dir, error);
    if (err == STELE_OK)
        err = stele_log_dirs__read_moved(dirs, error);
    if (err == STELE_OK)
        err = stele_log_dirs__judge_moved(dirs);
    if (err == STELE_OK)
        err = settle_found(dirs, error);
    if (err == STELE_OK)
        err = each_dir(dirs, read_points, error);
    if (err == STELE_OK)
        err = each_dir(dirs, take_marker, error);
    if (err == STELE_OK)
        err = each_dir(dirs, stele_log_dirs__end_moves_to, error);
    if (err == STELE_OK)
        err = each_dir(dirs, stele_log_dirs__leave_behind, error);
    if (err == STELE_OK)
        err = settle_found(dirs, error);
    if (err == STELE_OK)
        stele_log_dirs__forget_moved(dirs);
    if (err != STELE_OK) {
        stele_log_dirs_close(dirs);
        return err;
    }
    for (int i = 0; i < dirs->count; i++)
        stele_log_dirs_measure(dirs, i);
    *out_dirs = dirs;
    return STELE_OK;
}
