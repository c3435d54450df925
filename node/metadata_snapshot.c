#include "node/metadata_snapshot.h"

#include "base/check.h"
#include "base/cursor.h"
#include "node/metadata_log.h"
#include "proto/record_batch.h"
#include "storage/segment.h"

#include <stdio.h>
#include <string.h>

enum {
    BATCH_BYTES = 1 << 20, /* begun anew above it */
    SNAPSHOT_BYTES_MAX = INT32_MAX,
    FOUND_MAX = 16,
    NAME_BYTES = STELE_METADATA_SNAPSHOT_NAME_BYTES
};

void stele_metadata_snapshot_name(const struct stele_metadata_point *point, const char *suffix,
                                  char out_name[STELE_METADATA_SNAPSHOT_NAME_BYTES])
{
    (void)snprintf(out_name, NAME_BYTES, "%020lld-%010d.checkpoint%s", (long long)point->end_offset, (int)point->epoch,
                   suffix);
}

/* Making one. */

struct making {
    struct stele_metadata_snapshot *snapshot;
    struct stele_batch_builder *builder;
    struct stele_arena arena;
    int64_t next_offset;
    int64_t now_ms;
};

static struct stele_batch_options options_of(const struct making *making, int16_t attributes)
{
    return (struct stele_batch_options){.codec = STELE_CODEC_NONE,
                                        .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                        .base_offset = making->next_offset,
                                        .partition_leader_epoch = making->snapshot->at.epoch,
                                        .producer_id = STELE_NO_PRODUCER_ID,
                                        .producer_epoch = -1,
                                        .base_sequence = STELE_NO_SEQUENCE,
                                        .attributes = attributes};
}

/* Ends a batch; the next one has these attributes. */
static enum stele_err end_batch(struct making *making, int16_t attributes)
{
    struct stele_metadata_snapshot *snapshot = making->snapshot;
    if (stele_batch_builder_count(making->builder) > 0) {
        if (snapshot->count == snapshot->capacity) {
            int capacity = snapshot->capacity == 0 ? 4 : snapshot->capacity * 2;
            struct stele_buf **grown = stele_mem_resize(snapshot->mem, STELE_MEM_METADATA, snapshot->batches,
                                                        (size_t)capacity * sizeof(*grown));
            if (grown == NULL)
                return STELE_NO_MEMORY;
            snapshot->batches = grown;
            snapshot->capacity = capacity;
        }
        making->next_offset += stele_batch_builder_count(making->builder);
        enum stele_err err = stele_batch_builder_finish(making->builder, &snapshot->batches[snapshot->count]);
        if (err != STELE_OK)
            return err;
        snapshot->count++;
    }
    struct stele_batch_options options = options_of(making, attributes);
    stele_batch_builder_set_options(making->builder, &options);
    return STELE_OK;
}

static enum stele_err add(struct making *making, const struct stele_metadata_record *record, int64_t time_ms)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = STELE_OK;
    if (stele_batch_builder_bytes(making->builder) > BATCH_BYTES)
        err = end_batch(making, 0);
    if (err == STELE_OK)
        err = stele_metadata_record_encode(&making->arena, record, &bytes, &count);
    if (err == STELE_OK) {
        struct stele_record_in in = {.timestamp = time_ms, .value = bytes, .value_bytes = (int32_t)count};
        err = stele_batch_builder_add(making->builder, &in);
    }
    stele_arena_reset(&making->arena);
    return err;
}

static enum stele_err add_partition(struct making *making, const struct stele_uuid *topic_id, int32_t number,
                                    const struct stele_partition_state *state)
{
    struct stele_metadata_record record = {.kind = STELE_METADATA_PARTITION,
                                           .u.partition = {.topic_id = *topic_id,
                                                           .partition = number,
                                                           .leader_id = state->leader_id,
                                                           .leader_epoch = state->leader_epoch,
                                                           .partition_epoch = state->partition_epoch,
                                                           .replicas = state->replicas.ids,
                                                           .replica_count = (size_t)state->replicas.count,
                                                           .isr = state->isr.ids,
                                                           .isr_count = (size_t)state->isr.count,
                                                           .elr = state->elr.ids,
                                                           .elr_count = (size_t)state->elr.count,
                                                           .last_known_elr = state->last_known_elr.ids,
                                                           .last_known_elr_count = (size_t)state->last_known_elr.count,
                                                           .adding = state->adding.ids,
                                                           .adding_count = (size_t)state->adding.count,
                                                           .removing = state->removing.ids,
                                                           .removing_count = (size_t)state->removing.count,
                                                           .is_recovering = state->is_recovering,
                                                           .is_unsynced = state->is_unsynced,
                                                           .offline = state->offline.ids,
                                                           .offline_count = (size_t)state->offline.count}};
    return add(making, &record, making->now_ms);
}

static enum stele_err add_topic(struct making *making, const struct stele_image_topic *topic)
{
    struct stele_metadata_record record = {.kind = STELE_METADATA_TOPIC,
                                           .u.topic = {.name = topic->name, .topic_id = topic->topic_id}};
    enum stele_err err = add(making, &record, making->now_ms);
    for (int32_t i = 0; i < topic->partition_count && err == STELE_OK; i++) {
        if (topic->partitions[i].is_known)
            err = add_partition(making, &topic->topic_id, i, &topic->partitions[i].state);
    }
    return err;
}

static void directories_of(const struct stele_uuid *ids, size_t count, struct stele_node_directory_id *out_ids)
{
    for (size_t i = 0; i < count; i++)
        out_ids[i] = (struct stele_node_directory_id){.directory_id = ids[i]};
}

static enum stele_err add_member(struct making *making, const struct stele_image_member *member)
{
    struct stele_listener_address listeners[STELE_IMAGE_LISTENERS_MAX];
    struct stele_node_directory_id directories[STELE_IMAGE_DIRECTORIES_MAX], offline[STELE_IMAGE_DIRECTORIES_MAX];
    for (size_t i = 0; i < member->listener_count; i++)
        listeners[i] = (struct stele_listener_address){
            .name = member->listeners[i].name, .host = member->listeners[i].host, .port = member->listeners[i].port};
    directories_of(member->directories, member->directory_count, directories);
    directories_of(member->offline_directories, member->offline_directory_count, offline);
    struct stele_metadata_record record = {.kind = STELE_METADATA_NODE,
                                           .u.node = {.node_id = member->node_id,
                                                      .incarnation_id = member->incarnation_id,
                                                      .node_epoch = member->node_epoch,
                                                      .boot_id = member->boot_id,
                                                      .rack = member->rack,
                                                      .listeners = listeners,
                                                      .listener_count = member->listener_count,
                                                      .directories = directories,
                                                      .directory_count = member->directory_count,
                                                      .offline_directories = offline,
                                                      .offline_directory_count = member->offline_directory_count,
                                                      .level_min = member->level_min,
                                                      .level_max = member->level_max,
                                                      .is_fenced = member->is_fenced,
                                                      .is_shutting_down = member->is_shutting_down,
                                                      .software_version = member->software_version,
                                                      .served_epoch = member->served_epoch}};
    return add(making, &record, making->now_ms);
}

static enum stele_err add_voters(struct making *making, const struct stele_image *image)
{
    struct stele_voter voters[STELE_REPLICAS_MAX];
    for (size_t i = 0; i < image->voter_count; i++)
        voters[i] = (struct stele_voter){.node_id = image->voters[i].key.node_id,
                                         .directory_id = image->voters[i].key.directory_id,
                                         .host = image->voters[i].host,
                                         .port = image->voters[i].port};
    struct stele_metadata_record record = {.kind = STELE_METADATA_VOTERS,
                                           .u.voters = {.voters = voters, .voter_count = image->voter_count}};
    return add(making, &record, making->now_ms);
}

static enum stele_err add_cluster(struct making *making, const struct stele_image *image)
{
    enum stele_err err = image->voter_count > 0 ? add_voters(making, image) : STELE_OK;
    for (const struct stele_image_member *member = image->members; member != NULL && err == STELE_OK;
         member = member->next)
        err = add_member(making, member);
    for (size_t i = 0; i < image->lost_count && err == STELE_OK; i++) {
        struct stele_metadata_record record = {.kind = STELE_METADATA_LOST_RANGE,
                                               .u.lost_range = {.topic_id = image->lost[i].topic_id,
                                                                .partition = image->lost[i].partition,
                                                                .leader_epoch = image->lost[i].leader_epoch,
                                                                .first_offset = image->lost[i].first_offset,
                                                                .end_offset = image->lost[i].end_offset}};
        err = add(making, &record, image->lost[i].time_ms);
    }
    return err;
}

/* Settings that hold and those of the past, in the order in which they were changed. */
static enum stele_err add_changes(struct making *making, const struct stele_image *image)
{
    enum stele_err err = STELE_OK;
    for (struct stele_list *at = image->changes.next; at != &image->changes && err == STELE_OK; at = at->next) {
        const struct stele_image_change *change = STELE_CONTAINER_OF(at, struct stele_image_change, all);
        struct stele_metadata_record record = {.kind = STELE_METADATA_SETTING,
                                               .u.setting = {.scope = (int32_t)change->kind,
                                                             .subject = change->subject,
                                                             .name = change->name,
                                                             .value = change->value}};
        err = add(making, &record, change->time_ms);
    }
    return err;
}

static enum stele_err add_all(struct making *making, const struct stele_image *image)
{
    struct stele_metadata_record record = {
        .kind = STELE_METADATA_FORMAT,
        .u.format = {.format = "stele", .level = image->level, .cluster_id = image->cluster_id}};
    enum stele_err err = add(making, &record, making->now_ms);
    if (err == STELE_OK) {
        record = (struct stele_metadata_record){.kind = STELE_METADATA_PRODUCER_IDS,
                                                .u.producer_ids = {.next_producer_id = image->next_producer_id}};
        err = add(making, &record, making->now_ms);
    }
    for (struct stele_list *at = image->removed.next; at != &image->removed && err == STELE_OK; at = at->next) {
        const struct stele_image_removed *removed = STELE_CONTAINER_OF(at, struct stele_image_removed, link);
        record =
            (struct stele_metadata_record){.kind = STELE_METADATA_TOPIC_REMOVED,
                                           .u.topic_removed = {.topic_id = removed->topic_id, .name = removed->name}};
        err = add(making, &record, making->now_ms);
    }
    for (const struct stele_image_topic *topic = image->by_name; topic != NULL && err == STELE_OK;
         topic = topic->by_name.next)
        err = add_topic(making, topic);
    if (err == STELE_OK)
        err = add_cluster(making, image);
    return err == STELE_OK ? add_changes(making, image) : err;
}

static enum stele_err add_footer(struct making *making)
{
    static const uint8_t key[] = {0, 0, 0, STELE_CONTROL_SNAPSHOT_FOOTER}, value[] = {0, 0, 0};
    struct stele_record_in in = {.timestamp = making->now_ms,
                                 .key = key,
                                 .key_bytes = sizeof(key),
                                 .value = value,
                                 .value_bytes = sizeof(value)};
    enum stele_err err = end_batch(making, STELE_BATCH_CONTROL);
    if (err == STELE_OK)
        err = stele_batch_builder_add(making->builder, &in);
    return err == STELE_OK ? end_batch(making, 0) : err;
}

enum stele_err stele_metadata_snapshot_make(struct stele_env *env, const struct stele_image *image,
                                            const struct stele_metadata_point *at,
                                            struct stele_metadata_snapshot *out_snapshot)
{
    struct stele_metadata_snapshot snapshot = {.mem = env->mem, .at = *at};
    struct making making = {.snapshot = &snapshot, .now_ms = stele_env_wall_ms(env)};
    struct stele_batch_options options = options_of(&making, 0);
    making.builder = stele_batch_builder_new(env->mem, &options);
    if (making.builder == NULL)
        return STELE_NO_MEMORY;
    stele_arena_init(&making.arena, env->mem, STELE_MEM_METADATA, 0);
    enum stele_err err = add_all(&making, image);
    if (err == STELE_OK)
        err = add_footer(&making);
    stele_arena_deinit(&making.arena);
    stele_batch_builder_free(making.builder);
    if (err == STELE_OK)
        *out_snapshot = snapshot;
    else
        stele_metadata_snapshot_free(&snapshot);
    return err;
}

void stele_metadata_snapshot_free(struct stele_metadata_snapshot *snapshot)
{
    for (int i = 0; i < snapshot->count; i++)
        stele_buf_unref(snapshot->batches[i]);
    if (snapshot->batches != NULL)
        stele_mem_free(snapshot->mem, snapshot->batches);
    *snapshot = (struct stele_metadata_snapshot){.mem = NULL};
}

/* Files. */

/* Those of a directory, the newest last; of more than fit the newest ones. */
struct found {
    struct stele_metadata_point points[FOUND_MAX];
    int count;
};

/* Digits up to `stop`; false when there are none or too many. */
static bool read_digits(const char **at, char stop, int64_t *out_value)
{
    int64_t value = 0;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (value > (INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (**at - '0');
    }
    if (*at == start || **at != stop)
        return false;
    (*at)++;
    *out_value = value;
    return true;
}

static enum stele_err see(void *arg, const char *name)
{
    struct found *found = arg;
    const char *at = name;
    char expected[NAME_BYTES];
    struct stele_metadata_point point;
    int64_t epoch;
    if (!read_digits(&at, '-', &point.end_offset) || !read_digits(&at, '.', &epoch) || epoch > INT32_MAX)
        return STELE_OK;
    point.epoch = (int32_t)epoch;
    stele_metadata_snapshot_name(&point, "", expected);
    if (strcmp(name, expected) != 0)
        return STELE_OK;
    if (found->count == FOUND_MAX)
        memmove(found->points, found->points + 1, (size_t)--found->count * sizeof(*found->points));
    found->points[found->count++] = point;
    return STELE_OK;
}

static enum stele_err write_file(const struct stele_metadata_snapshot *snapshot, struct stele_vfs *vfs,
                                 const char *path)
{
    struct stele_file *file = NULL;
    int64_t pos = 0;
    enum stele_err err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE | STELE_OPEN_TRUNCATE, &file);
    if (err != STELE_OK)
        return err;
    for (int i = 0; i < snapshot->count && err == STELE_OK; i++) {
        err = stele_file_write(file, snapshot->batches[i]->bytes, snapshot->batches[i]->count, pos);
        pos += (int64_t)snapshot->batches[i]->count;
    }
    if (err == STELE_OK)
        err = vfs->ops->sync(file);
    vfs->ops->close(file);
    return err;
}

/* What cannot be deleted harms nothing. */
static void delete_others(struct stele_vfs *vfs, const char *dir, int64_t offset, int64_t keep_offset)
{
    struct found found = {.count = 0};
    char name[NAME_BYTES], path[STELE_PATH_BYTES];
    if (vfs->ops->list(vfs, dir, see, &found) != STELE_OK)
        return;
    for (int i = 0; i < found.count; i++) {
        if (found.points[i].end_offset == offset || found.points[i].end_offset == keep_offset)
            continue;
        stele_metadata_snapshot_name(&found.points[i], "", name);
        if (stele_path_join(path, dir, name) == STELE_OK)
            (void)vfs->ops->unlink(vfs, path);
    }
}

enum stele_err stele_metadata_snapshot_write(const struct stele_metadata_snapshot *snapshot, struct stele_vfs *vfs,
                                             const char *dir, int64_t keep_offset)
{
    char name[NAME_BYTES], part[STELE_PATH_BYTES], path[STELE_PATH_BYTES];
    stele_metadata_snapshot_name(&snapshot->at, ".part", name);
    enum stele_err err = stele_path_join(part, dir, name);
    stele_metadata_snapshot_name(&snapshot->at, "", name);
    if (err == STELE_OK)
        err = stele_path_join(path, dir, name);
    if (err == STELE_OK)
        err = write_file(snapshot, vfs, part);
    if (err == STELE_OK)
        err = vfs->ops->rename(vfs, part, path);
    if (err == STELE_OK)
        err = vfs->ops->sync_dir(vfs, dir);
    if (err == STELE_OK)
        delete_others(vfs, dir, snapshot->at.end_offset, keep_offset);
    else
        (void)vfs->ops->unlink(vfs, part);
    return err;
}

enum stele_err stele_metadata_snapshot_read(struct stele_env *env, const char *path, struct stele_image *image,
                                            struct stele_error *error)
{
    struct stele_metadata_replay replay;
    uint8_t *bytes = NULL;
    size_t count = 0, used = 0;
    enum stele_err err =
        stele_vfs_read_whole(env->vfs, env->mem, STELE_MEM_METADATA, path, SNAPSHOT_BYTES_MAX, &bytes, &count);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.250s: %s", path, stele_err_text(err));
    stele_metadata_replay_init(&replay, env, image, path, error);
    err = stele_metadata_replay_bytes(&replay, bytes, count, &used);
    if (err == STELE_OK && (used < count || !replay.is_whole))
        err = stele_metadata_replay_fail(&replay, STELE_CORRUPT, "the snapshot is not whole");
    stele_metadata_replay_deinit(&replay);
    stele_mem_free(env->mem, bytes);
    return err;
}

/* Leftovers of a write that a crash broke off. */
struct parts {
    struct stele_vfs *vfs;
    const char *dir;
};

static enum stele_err delete_part(void *arg, const char *name)
{
    const struct parts *parts = arg;
    char path[STELE_PATH_BYTES];
    size_t bytes = strlen(name), length = strlen(".checkpoint.part");
    if (bytes > length && strcmp(name + bytes - length, ".checkpoint.part") == 0 &&
        stele_path_join(path, parts->dir, name) == STELE_OK)
        (void)parts->vfs->ops->unlink(parts->vfs, path);
    return STELE_OK;
}

enum stele_err stele_metadata_snapshot_load(struct stele_env *env, struct stele_log *log, struct stele_image *image,
                                            struct stele_metadata_point *out_at, struct stele_error *error)
{
    struct found found = {.count = 0};
    char name[NAME_BYTES], path[STELE_PATH_BYTES];
    int64_t start = stele_log_start_offset(log);
    const char *dir = stele_log_dir(log);
    struct parts parts = {.vfs = env->vfs, .dir = dir};
    enum stele_err err = env->vfs->ops->list(env->vfs, dir, see, &found);
    if (err == STELE_OK)
        err = env->vfs->ops->list(env->vfs, dir, delete_part, &parts);
    for (int i = found.count - 1; i >= 0 && err == STELE_OK && found.points[i].end_offset >= start; i--) {
        stele_metadata_snapshot_name(&found.points[i], "", name);
        err = stele_path_join(path, dir, name);
        if (err == STELE_OK)
            err = stele_metadata_snapshot_read(env, path, image, error);
        if (err == STELE_OK) {
            *out_at = found.points[i];
            return STELE_OK;
        }
        stele_image_deinit(image);
        if (err != STELE_CORRUPT && err != STELE_IO && err != STELE_FOREIGN && err != STELE_END)
            return err;
        stele_trace(env, STELE_TRACE_CHECKPOINT_BAD, path, error->text, 0, 0, 0);
        err = STELE_OK;
    }
    if (err != STELE_OK)
        return err;
    if (start == 0) {
        error->text[0] = 0;
        *out_at = (struct stele_metadata_point){.end_offset = 0};
        return STELE_OK;
    }
    struct stele_metadata_point wanted = {.end_offset = start, .epoch = 1};
    stele_metadata_snapshot_name(found.count > 0 ? &found.points[found.count - 1] : &wanted, "", name);
    return stele_error_set(error, STELE_CORRUPT,
                           "%.250s: the log begins at offset %lld and no snapshot that is sound reaches it: restore %s "
                           "from a copy of this directory",
                           dir, (long long)start, name);
}
