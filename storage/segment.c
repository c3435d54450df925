#include "storage/segment.h"

#include "base/check.h"
#include "storage/resync.h"
#include "storage/scan.h"

#include <stdio.h>
#include <string.h>

enum { WRITE_BACK_KEPT_PART = 4 }; /* of log.write.back.bytes: as much of the end is left alone */

static const char *const suffixes[4] = {".log", ".index", ".timeindex", ".txnindex"};
static const char *const deleted_suffixes[5] = {".log.deleted", ".index.deleted", ".timeindex.deleted",
                                                ".txnindex.deleted", ".snapshot.deleted"};

void stele_segment_name(int64_t base_offset, const char *suffix, char out_name[STELE_SEGMENT_NAME_BYTES])
{
    (void)snprintf(out_name, STELE_SEGMENT_NAME_BYTES, "%020lld%s", (long long)base_offset, suffix);
}

bool stele_segment_name_parse(const char *name, int64_t *out_base_offset, const char **out_suffix)
{
    int64_t value = 0;
    const char *at = name;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*at - '0'), &value))
            return false;
    }
    if (*at != '.' || at - name < 20 || value > INT64_MAX - UINT32_MAX)
        return false; /* the last: base + relative offset must be a number, whatever an index says */
    *out_base_offset = value;
    *out_suffix = at;
    return true;
}

static enum stele_err path_of(const char *dir, int64_t base_offset, const char *suffix, char out[STELE_PATH_BYTES])
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(base_offset, suffix, name);
    return stele_path_join(out, dir, name);
}

static struct stele_segment *new_segment(struct stele_env *env, char *dir, int64_t base_offset,
                                         const struct stele_log_config *config)
{
    struct stele_segment *seg = stele_mem_alloc(env->mem, STELE_MEM_LOG, sizeof(*seg));
    if (seg == NULL)
        return NULL;
    seg->env = env;
    seg->dir = dir;
    seg->base_offset = base_offset;
    seg->max_timestamp = -1;
    seg->offset_of_max_timestamp = base_offset;
    seg->first_timestamp = seg->hidden_timestamp = -1;
    seg->created_ms = stele_env_wall_ms(env);
    seg->index_interval_bytes = config->index_interval_bytes;
    int64_t jitter = stele_min_i64(config->segment_jitter_ms, config->segment_ms);
    seg->jitter_ms = jitter <= 0 ? 0 : (int64_t)((env->ops->random(env) >> 1) % (uint64_t)jitter);
    return seg;
}

/* The three indexes of a new or an existing segment. */
static enum stele_err set_up_indexes(struct stele_segment *seg, struct stele_file_cache *cache,
                                     const struct stele_log_config *config, bool is_new)
{
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    enum stele_err (*init)(struct stele_index *, struct stele_env *, struct stele_file_cache *, const char *, int64_t,
                           int, int64_t) = is_new ? stele_index_create : stele_index_open;
    enum stele_err err = path_of(seg->dir, seg->base_offset, ".index", path);
    if (err == STELE_OK)
        err = init(&seg->offsets, seg->env, cache, path, seg->base_offset, STELE_OFFSET_ENTRY_BYTES,
                   config->segment_index_bytes);
    if (err == STELE_OK)
        err = path_of(seg->dir, seg->base_offset, ".timeindex", path);
    if (err == STELE_OK)
        err = init(&seg->times, seg->env, cache, path, seg->base_offset, STELE_TIME_ENTRY_BYTES,
                   config->segment_index_bytes);
    if (err == STELE_OK)
        err = path_of(seg->dir, seg->base_offset, ".txnindex", path);
    if (err != STELE_OK)
        return err;
    enum stele_err found = is_new ? STELE_NOT_FOUND : seg->env->vfs->ops->stat(seg->env->vfs, path, &stat);
    if (found != STELE_OK && found != STELE_NOT_FOUND)
        return found;
    return stele_txn_index_init(&seg->txns, seg->env, cache, path, seg->base_offset, found == STELE_OK);
}

enum stele_err stele_segment_unlink_files(struct stele_env *env, const char *dir, int64_t base_offset)
{
    char path[STELE_PATH_BYTES];
    for (size_t i = 0; i < STELE_ARRAY_LEN(suffixes); i++) {
        enum stele_err err = path_of(dir, base_offset, suffixes[i], path);
        if (err == STELE_OK)
            err = env->vfs->ops->unlink(env->vfs, path);
        if (err != STELE_OK && err != STELE_NOT_FOUND)
            return err;
    }
    return STELE_OK;
}

static enum stele_err create_log_file(struct stele_segment *seg, const char *path,
                                      const struct stele_log_config *config)
{
    struct stele_vfs *vfs = seg->env->vfs;
    struct stele_file *file = NULL;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    if (config->preallocate)
        err = vfs->ops->allocate(file, config->segment_bytes);
    vfs->ops->close(file);
    return err;
}

enum stele_err stele_segment_create(struct stele_env *env, struct stele_file_cache *cache, char *dir,
                                    int64_t base_offset, const struct stele_log_config *config,
                                    struct stele_segment **out_seg)
{
    enum stele_err err = stele_segment_unlink_files(env, dir, base_offset);
    return err == STELE_OK ? stele_segment_create_only(env, cache, dir, base_offset, config, out_seg) : err;
}

enum stele_err stele_segment_create_only(struct stele_env *env, struct stele_file_cache *cache, char *dir,
                                         int64_t base_offset, const struct stele_log_config *config,
                                         struct stele_segment **out_seg)
{
    char path[STELE_PATH_BYTES];
    struct stele_segment *seg = new_segment(env, dir, base_offset, config);
    if (seg == NULL)
        return STELE_NO_MEMORY;
    seg->is_max_known = true;
    seg->is_first_known = true;
    seg->is_unsynced = true;
    seg->mtime_ms = seg->created_ms;
    enum stele_err err = path_of(dir, base_offset, ".log", path);
    if (err == STELE_OK)
        err = stele_cached_file_new(env, cache, path, &seg->file);
    if (err == STELE_OK)
        err = set_up_indexes(seg, cache, config, true);
    if (err == STELE_OK) {
        err = create_log_file(seg, path, config);
        /* Empty, and yet there: after a crash Kafka scans a segment without them before the older ones, and takes its
         * first batch for the start of its leader epoch. */
        if (err == STELE_OK)
            err = stele_index_write(&seg->offsets);
        if (err == STELE_OK)
            err = stele_index_write(&seg->times);
        /* A file without room for its preallocation must not be met as a segment later. */
        if (err != STELE_OK && stele_segment_unlink_files(env, dir, base_offset) != STELE_OK)
            err = STELE_IO;
    }
    if (err != STELE_OK) {
        stele_segment_free(seg);
        return err;
    }
    *out_seg = seg;
    return STELE_OK;
}

enum stele_err stele_segment_open(struct stele_env *env, struct stele_file_cache *cache, char *dir, int64_t base_offset,
                                  const struct stele_log_config *config, struct stele_segment **out_seg)
{
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    enum stele_err err = path_of(dir, base_offset, ".log", path);
    if (err == STELE_OK)
        err = env->vfs->ops->stat(env->vfs, path, &stat);
    if (err != STELE_OK)
        return err;
    if (stat.bytes > INT32_MAX)
        return STELE_TOO_LARGE;
    struct stele_segment *seg = new_segment(env, dir, base_offset, config);
    if (seg == NULL)
        return STELE_NO_MEMORY;
    seg->bytes = stat.bytes;
    seg->mtime_ms = stat.mtime_ms;
    err = stele_cached_file_new(env, cache, path, &seg->file);
    if (err == STELE_OK)
        err = set_up_indexes(seg, cache, config, false);
    if (err != STELE_OK) {
        stele_segment_free(seg);
        return err;
    }
    *out_seg = seg;
    return STELE_OK;
}

void stele_segment_attach(struct stele_segment *seg, struct stele_file_cache *cache)
{
    stele_cached_file_attach(seg->file, cache);
    stele_index_attach(&seg->offsets, cache);
    stele_index_attach(&seg->times, cache);
    stele_cached_file_attach(seg->txns.file, cache);
}

void stele_segment_free(struct stele_segment *seg)
{
    if (seg == NULL)
        return;
    stele_index_close(&seg->offsets);
    stele_index_close(&seg->times);
    stele_txn_index_close(&seg->txns);
    stele_cached_file_unref(seg->file);
    stele_mem_free(seg->env->mem, seg->joints);
    stele_mem_free(seg->env->mem, seg);
}

enum stele_err stele_segment_add_joint(struct stele_segment *seg, int64_t offset, int64_t pos)
{
    int at = seg->joint_count;
    while (at > 0 && seg->joints[at - 1].pos >= pos)
        at--;
    if (at < seg->joint_count && seg->joints[at].pos == pos)
        return STELE_OK;
    struct stele_offset_entry *joints =
        stele_mem_resize(seg->env->mem, STELE_MEM_LOG, seg->joints, ((size_t)seg->joint_count + 1) * sizeof(*joints));
    if (joints == NULL)
        return STELE_NO_MEMORY;
    memmove(joints + at + 1, joints + at, (size_t)(seg->joint_count - at) * sizeof(*joints));
    joints[at] = (struct stele_offset_entry){.offset = offset, .pos = pos};
    seg->joints = joints;
    seg->joint_count++;
    return STELE_OK;
}

enum stele_err stele_segment_activate(struct stele_segment *seg)
{
    enum stele_err err = stele_index_activate(&seg->offsets);
    if (err == STELE_OK)
        err = stele_index_activate(&seg->times);
    if (err == STELE_OK && !seg->is_max_known)
        err = stele_segment__learn_max(seg);
    return err;
}

enum stele_err stele_segment_index_batch(struct stele_segment *seg, const struct stele_log_config *config, int64_t pos,
                                         int64_t bytes, const struct stele_batch_header *header)
{
    int64_t last_offset = stele_batch_last_offset(header);
    enum stele_err err = STELE_OK;
    seg->index_interval_bytes = config->index_interval_bytes;
    if (pos == 0) {
        seg->first_timestamp = header->max_timestamp;
        seg->is_first_known = true;
    }
    if (header->max_timestamp > seg->max_timestamp) {
        seg->max_timestamp = header->max_timestamp;
        seg->offset_of_max_timestamp = last_offset;
    }
    if (seg->bytes_since_entry > config->index_interval_bytes) {
        if (!stele_offset_index_is_full(&seg->offsets))
            err = stele_offset_index_append(&seg->offsets, last_offset, pos);
        if (err == STELE_OK && !stele_time_index_is_full(&seg->times))
            err = stele_time_index_append(&seg->times, seg->max_timestamp, seg->offset_of_max_timestamp, false);
        seg->bytes_since_entry = 0;
    }
    seg->bytes_since_entry += bytes;
    return err;
}

bool stele_segment_take_write_back(struct stele_segment *seg, const struct stele_log_config *config, int64_t *out_pos,
                                   int64_t *out_bytes)
{
    /* Not the newest bytes: the page at the end, which the next append fills, would be locked until all is on its way.
     */
    int64_t kept = config->write_back_bytes / WRITE_BACK_KEPT_PART, bytes = seg->bytes_since_write_back - kept;
    if (config->write_back_bytes <= 0 || bytes < config->write_back_bytes)
        return false;
    *out_pos = seg->bytes - seg->bytes_since_write_back;
    *out_bytes = bytes;
    seg->bytes_since_write_back = kept;
    return true;
}

enum stele_err stele_segment_append(struct stele_segment *seg, const struct stele_log_config *config,
                                    const uint8_t *bytes, size_t count, const struct stele_batch_header *headers,
                                    int header_count)
{
    struct stele_file *file = NULL;
    STELE_ASSERT(seg->offsets.is_active && seg->times.is_active);
    STELE_ASSERT(seg->bytes + (int64_t)count <= INT32_MAX);
    seg->is_unsynced = true;
    enum stele_err err = stele_index_reserve(&seg->offsets, header_count);
    if (err == STELE_OK)
        err = stele_index_reserve(&seg->times, header_count + 1);
    if (err == STELE_OK)
        err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, bytes, count, seg->bytes);
    stele_cached_file_unpin(seg->file);
    if (err != STELE_OK)
        return err;
    int64_t end = seg->bytes + (int64_t)count;
    seg->bytes_since_write_back += (int64_t)count;
    seg->mtime_ms = stele_env_wall_ms(seg->env);
    for (int i = 0; i < header_count; i++) {
        int64_t batch_bytes = (int64_t)headers[i].length + STELE_BATCH_PREFIX_BYTES;
        /* Room was reserved; an entry that does not fit otherwise is left out: the index is a hint. */
        enum stele_err indexed = stele_segment_index_batch(seg, config, seg->bytes, batch_bytes, &headers[i]);
        STELE_ASSERT(indexed == STELE_OK || indexed == STELE_INVALID_ARGUMENT);
        seg->recent[seg->recent_count++ % STELE_RECENT_MAX] =
            (struct stele_segment_recent){.base_offset = headers[i].base_offset,
                                          .wall_ms = seg->mtime_ms,
                                          .pos = (int32_t)seg->bytes,
                                          .length = (int32_t)headers[i].length,
                                          .last_offset_delta = headers[i].last_offset_delta};
        seg->bytes += batch_bytes;
    }
    STELE_ASSERT(seg->bytes == end);
    return STELE_OK;
}

/* Drops what preallocation or a failed write left behind the end. */
static enum stele_err cut_file(struct stele_segment *seg)
{
    struct stele_file *file = NULL;
    int64_t bytes = 0;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    err = file->vfs->ops->size(file, &bytes);
    if (err == STELE_OK && bytes > seg->bytes)
        err = file->vfs->ops->truncate(file, seg->bytes);
    stele_cached_file_unpin(seg->file);
    return err;
}

enum stele_err stele_segment__seal_indexes(struct stele_segment *seg)
{
    enum stele_err err = stele_time_index_append(&seg->times, seg->max_timestamp, seg->offset_of_max_timestamp, true);
    if (err == STELE_INVALID_ARGUMENT)
        err = STELE_OK; /* the last entry is later already */
    if (err == STELE_OK)
        err = stele_index_seal(&seg->offsets);
    if (err == STELE_OK)
        err = stele_index_seal(&seg->times);
    return err;
}

enum stele_err stele_segment_seal(struct stele_segment *seg)
{
    enum stele_err err = stele_segment_activate(seg);
    seg->is_unsynced = true;
    if (err == STELE_OK)
        err = stele_segment__seal_indexes(seg);
    if (err == STELE_OK)
        err = cut_file(seg);
    return err;
}

enum stele_err stele_segment_scan_next(const struct stele_segment *seg, struct stele_scan *scan,
                                       struct stele_scanned *out)
{
    enum stele_err err = stele_scan_next(scan, out);
    for (int i = 0; i < seg->joint_count && err == STELE_CORRUPT; i++) {
        if (seg->joints[i].pos <= scan->pos)
            continue;
        err = stele_scan_start(scan, scan->file, seg->joints[i].pos, scan->end);
        if (err == STELE_OK)
            err = stele_scan_next(scan, out);
    }
    return err;
}

/* The offset after the last batch before position `pos`, of its header alone where its checksum is wrong; what is
 * damaged before is passed over. */
static enum stele_err end_before(struct stele_segment *seg, struct stele_scan *scan, struct stele_file *file,
                                 int64_t pos, int64_t *out_offset)
{
    struct stele_batch_header header;
    struct stele_scanned batch;
    int64_t bytes = 0, end = seg->base_offset;
    enum stele_err err = stele_scan_start(scan, file, 0, pos);
    while (err == STELE_OK) {
        err = stele_scan_next(scan, &batch);
        if (err == STELE_OK)
            end = stele_batch_last_offset(&batch.header) + 1;
        if (err != STELE_CORRUPT)
            continue;
        err = stele_segment_header_at(seg, scan->pos, &header, &bytes);
        if (err == STELE_OK && scan->pos + bytes <= pos)
            end = stele_batch_last_offset(&header) + 1;
        if (err == STELE_OK || err == STELE_CORRUPT)
            err = stele_scan_resync(scan, seg->base_offset);
    }
    *out_offset = end;
    return err == STELE_END ? STELE_OK : err;
}

/* Damage at `*inout_pos` keeps headers from telling where the first batch is that reaches `offset`: the sound ones
 * behind it that do not are not to go with it, and what is damaged right behind those is. END: none reaches it. */
static enum stele_err find_behind_damage(struct stele_segment *seg, int64_t offset, int64_t *inout_pos)
{
    struct stele_file *file = NULL;
    struct stele_scan scan;
    struct stele_scanned batch = {.pos = *inout_pos};
    int64_t end = 0, pos = *inout_pos;
    enum stele_err err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err;
    stele_scan_init(&scan, seg->env->mem);
    err = end_before(seg, &scan, file, pos, &end);
    if (err == STELE_OK)
        err = stele_scan_start(&scan, file, pos, seg->bytes);
    while (err == STELE_OK && end < offset) {
        err = stele_scan_next(&scan, &batch);
        if (err == STELE_CORRUPT)
            err = stele_scan_resync(&scan, seg->base_offset);
        else if (err == STELE_OK && stele_batch_last_offset(&batch.header) >= offset)
            break;
        else if (err == STELE_OK)
            end = stele_batch_last_offset(&batch.header) + 1;
    }
    *inout_pos = err != STELE_OK ? seg->bytes : end < offset ? batch.pos : scan.pos;
    stele_scan_deinit(&scan);
    stele_cached_file_unpin(seg->file);
    return err;
}

enum stele_err stele_segment_truncate(struct stele_segment *seg, int64_t offset)
{
    struct stele_batch_header header;
    struct stele_offset_entry last;
    int64_t pos = 0, compared = 0;
    enum stele_err err = stele_segment_activate(seg);
    if (err == STELE_OK)
        err = stele_segment_find(seg, offset, &pos, &header);
    if (err == STELE_CORRUPT)
        err = find_behind_damage(seg, offset, &pos);
    if (err == STELE_END)
        err = STELE_OK; /* all whole batches are below `offset` */
    if (err == STELE_OK)
        err = stele_segment_activate(seg); /* find may have healed */
    if (err == STELE_OK)
        err = stele_offset_index_truncate(&seg->offsets, offset);
    if (err == STELE_OK)
        err = stele_offset_index_lookup(&seg->offsets, INT64_MAX, &last, &compared);
    if (err == STELE_OK)
        err = stele_time_index_truncate(&seg->times, offset);
    if (err == STELE_OK)
        err = stele_txn_index_truncate(&seg->txns, offset);
    if (err != STELE_OK)
        return err;
    seg->is_unsynced = true;
    seg->bytes = pos;
    memset(seg->recent, 0, sizeof(seg->recent));
    while (seg->joint_count > 0 && seg->joints[seg->joint_count - 1].pos >= pos)
        seg->joint_count--;
    seg->bytes_since_entry = pos - last.pos;
    seg->bytes_since_write_back = 0;
    if (pos == 0) {
        seg->first_timestamp = -1;
        seg->is_first_known = true;
    }
    err = cut_file(seg);
    return err == STELE_OK ? stele_segment__learn_max(seg) : err;
}

enum stele_err stele_segment_restart_indexes(struct stele_segment *seg)
{
    enum stele_err err = stele_txn_index_load(&seg->txns);
    if (err == STELE_CORRUPT) {
        stele_txn_index_restart(&seg->txns);
        err = STELE_OK;
    }
    stele_index_clear(&seg->offsets);
    stele_index_clear(&seg->times);
    seg->is_unsynced = true;
    seg->max_timestamp = -1;
    seg->offset_of_max_timestamp = seg->base_offset;
    seg->is_max_known = true;
    seg->first_timestamp = seg->hidden_timestamp = -1;
    seg->is_first_known = true;
    seg->bytes_since_entry = 0;
    return err;
}

enum stele_err stele_segment_sync_begin(struct stele_segment *seg, struct stele_segment_sync *out_sync)
{
    struct stele_segment_sync sync = {.dir = seg->dir,
                                      .cached = {seg->file, seg->offsets.file, seg->times.file, seg->txns.file}};
    enum stele_err err = stele_txn_index_write(&seg->txns);
    if (err != STELE_OK)
        return err;
    /* The indexes of an active segment are in memory and written when it is sealed: a start after a crash reads it
     * whole and makes them anew, and a sync of each would cost as much as that of the log. */
    if (seg->offsets.is_active)
        sync.cached[1] = sync.cached[2] = NULL;
    if (!seg->txns.exists)
        sync.cached[3] = NULL;
    for (int i = 0; i < 4; i++) {
        if (sync.cached[i] == NULL)
            continue;
        err = stele_cached_file_pin(sync.cached[i], &sync.files[i]);
        if (err == STELE_OK)
            continue;
        sync.cached[i] = NULL;
        if (i == 0 || err != STELE_NOT_FOUND) {
            for (int k = i; k < 4; k++)
                sync.cached[k] = NULL;
            stele_segment_sync_release(&sync);
            return err;
        }
    }
    *out_sync = sync;
    return STELE_OK;
}

enum stele_err stele_segment_sync_run(struct stele_segment_sync *sync)
{
    for (int i = 0; i < 4; i++) {
        if (sync->files[i] == NULL)
            continue;
        enum stele_err err = stele_sync_marked(sync->files[i], sync->dir);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

void stele_segment_sync_release(struct stele_segment_sync *sync)
{
    for (int i = 0; i < 4; i++) {
        if (sync->cached[i] != NULL && sync->files[i] != NULL)
            stele_cached_file_unpin(sync->cached[i]);
        sync->cached[i] = NULL;
        sync->files[i] = NULL;
    }
}

enum stele_err stele_segment_mark_deleted(struct stele_segment *seg)
{
    struct stele_cached_file *files[4] = {seg->file, seg->offsets.file, seg->times.file, seg->txns.file};
    for (int i = 0; i < 4; i++) {
        char path[STELE_PATH_BYTES];
        enum stele_err err = path_of(seg->dir, seg->base_offset, deleted_suffixes[i], path);
        /* An attempt before this one may have got as far as here. */
        if (err == STELE_OK && strcmp(stele_cached_file_path(files[i]), path) != 0)
            err = stele_cached_file_rename(files[i], path);
        if (err != STELE_OK && err != STELE_NOT_FOUND)
            return err;
    }
    return STELE_OK;
}

enum stele_err stele_segment_unlink_deleted(struct stele_vfs *vfs, const char *dir, int64_t base_offset)
{
    enum stele_err result = STELE_OK;
    for (size_t i = 0; i < STELE_ARRAY_LEN(deleted_suffixes); i++) {
        char path[STELE_PATH_BYTES];
        enum stele_err err = path_of(dir, base_offset, deleted_suffixes[i], path);
        if (err == STELE_OK)
            err = vfs->ops->unlink(vfs, path);
        if (err != STELE_OK && err != STELE_NOT_FOUND)
            result = err;
    }
    return result;
}

void stele_segment_check(const struct stele_segment *seg)
{
    STELE_ASSERT(seg->base_offset >= 0);
    STELE_ASSERT(seg->bytes >= 0);
    STELE_ASSERT(seg->bytes <= INT32_MAX);
}
