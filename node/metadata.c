/* __cluster_metadata-0 under one voter: what is synced is committed. The image is what its records say. */
#include "base/check.h"
#include "node/node_struct.h"
#include "storage/scan.h"

#include <string.h>

enum { METADATA_EPOCH = 1, FEATURE_LEVEL = 1 };

struct stele_topic *stele_image_find(struct stele_node *node, const char *name)
{
    for (int i = 0; i < node->image.count; i++) {
        if (strcmp(node->image.topics[i].name, name) == 0)
            return &node->image.topics[i];
    }
    return NULL;
}

void stele_image_free(struct stele_node *node)
{
    for (int i = 0; i < node->image.count; i++) {
        struct stele_topic *topic = &node->image.topics[i];
        for (int k = 0; k < topic->setting_count; k++) {
            stele_mem_free(node->mem, topic->names[k]);
            stele_mem_free(node->mem, topic->values[k]);
        }
        stele_mem_free(node->mem, topic->names);
        stele_mem_free(node->mem, topic->values);
        stele_mem_free(node->mem, topic->name);
    }
    stele_mem_free(node->mem, node->image.topics);
    node->image = (struct stele_image){.topics = NULL};
}

static enum stele_err add_topic(struct stele_node *node, const struct stele_metadata_record *record)
{
    struct stele_image *image = &node->image;
    if (stele_image_find(node, record->u.topic.name) != NULL)
        return STELE_CORRUPT;
    if (image->count == image->capacity) {
        int capacity = image->capacity == 0 ? 8 : image->capacity * 2;
        struct stele_topic *topics =
            stele_mem_resize(node->mem, STELE_MEM_METADATA, image->topics, (size_t)capacity * sizeof(*topics));
        if (topics == NULL)
            return STELE_NO_MEMORY;
        image->topics = topics;
        image->capacity = capacity;
    }
    struct stele_topic *topic = &image->topics[image->count];
    *topic = (struct stele_topic){.topic_id = record->u.topic.topic_id};
    topic->name = stele_mem_string(node->mem, STELE_MEM_METADATA, record->u.topic.name);
    if (topic->name == NULL)
        return STELE_NO_MEMORY;
    image->count++;
    return STELE_OK;
}

static enum stele_err add_partition(struct stele_node *node, const struct stele_metadata_record *record)
{
    for (int i = 0; i < node->image.count; i++) {
        struct stele_topic *topic = &node->image.topics[i];
        if (!stele_uuid_equal(&topic->topic_id, &record->u.partition.topic_id))
            continue;
        if (record->u.partition.partition != topic->partition_count)
            return STELE_CORRUPT;
        topic->partition_count++;
        return STELE_OK;
    }
    return STELE_CORRUPT;
}

static enum stele_err add_setting(struct stele_node *node, const struct stele_metadata_record *record)
{
    struct stele_topic *topic = stele_image_find(node, record->u.setting.subject);
    if (topic == NULL || record->u.setting.value == NULL)
        return STELE_CORRUPT;
    size_t bytes = (size_t)(topic->setting_count + 1) * sizeof(char *);
    char **names = stele_mem_resize(node->mem, STELE_MEM_METADATA, topic->names, bytes);
    if (names == NULL)
        return STELE_NO_MEMORY;
    topic->names = names;
    char **values = stele_mem_resize(node->mem, STELE_MEM_METADATA, topic->values, bytes);
    if (values == NULL)
        return STELE_NO_MEMORY;
    topic->values = values;
    char *name = stele_mem_string(node->mem, STELE_MEM_METADATA, record->u.setting.name);
    char *value = stele_mem_string(node->mem, STELE_MEM_METADATA, record->u.setting.value);
    if (name == NULL || value == NULL) {
        stele_mem_free(node->mem, name);
        stele_mem_free(node->mem, value);
        return STELE_NO_MEMORY;
    }
    topic->names[topic->setting_count] = name;
    topic->values[topic->setting_count++] = value;
    return STELE_OK;
}

enum stele_err stele_image_apply(struct stele_node *node, const struct stele_metadata_record *record)
{
    switch (record->kind) {
    case STELE_METADATA_FORMAT:
        if (record->u.format.level > FEATURE_LEVEL ||
            strlen(record->u.format.cluster_id) >= sizeof(node->image.cluster_id))
            return STELE_UNSUPPORTED_VERSION;
        memcpy(node->image.cluster_id, record->u.format.cluster_id, strlen(record->u.format.cluster_id) + 1);
        return STELE_OK;
    case STELE_METADATA_TOPIC:
        return add_topic(node, record);
    case STELE_METADATA_PARTITION:
        return add_partition(node, record);
    case STELE_METADATA_SETTING:
        return add_setting(node, record);
    }
    return STELE_CORRUPT;
}

static enum stele_err apply_batch(struct stele_node *node, const struct stele_scanned *batch)
{
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_arena arena;
    struct stele_metadata_record decoded;
    enum stele_err err =
        stele_record_walker_init(&walker, node->mem, batch->batch, (size_t)batch->bytes, (size_t)batch->bytes);
    if (err != STELE_OK)
        return err;
    stele_arena_init(&arena, node->mem, STELE_MEM_METADATA, 0);
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        err = stele_metadata_record_decode(&arena, record.value, (size_t)record.value_bytes, &decoded);
        if (err == STELE_OK)
            err = stele_image_apply(node, &decoded);
        if (err != STELE_OK)
            break;
    }
    stele_arena_deinit(&arena);
    stele_record_walker_deinit(&walker);
    return err == STELE_END ? STELE_OK : err;
}

static enum stele_err replay(struct stele_node *node)
{
    struct stele_scan scan;
    enum stele_err err = STELE_OK;
    stele_scan_init(&scan, node->mem);
    for (int i = 0; i < stele_log_segment_count(node->metadata) && err == STELE_OK; i++) {
        struct stele_segment *seg = stele_log_segment(node->metadata, i);
        struct stele_file *file = NULL;
        struct stele_scanned batch;
        err = stele_cached_file_pin(seg->file, &file);
        if (err != STELE_OK)
            break;
        err = stele_scan_start(&scan, file, 0, seg->bytes);
        while (err == STELE_OK && (err = stele_scan_next(&scan, &batch)) == STELE_OK)
            err = apply_batch(node, &batch);
        stele_cached_file_unpin(seg->file);
        err = err == STELE_END ? STELE_OK : err;
    }
    stele_scan_deinit(&scan);
    return err;
}

enum stele_err stele_metadata_write(struct stele_node *node, const struct stele_metadata_record *records, int count)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .base_offset = stele_log_end_offset(node->metadata),
                                          .partition_leader_epoch = METADATA_EPOCH,
                                          .producer_id = STELE_NO_PRODUCER_ID,
                                          .producer_epoch = -1,
                                          .base_sequence = STELE_NO_SEQUENCE};
    struct stele_batch_builder *builder = stele_batch_builder_new(node->mem, &options);
    struct stele_buf *batch = NULL;
    struct stele_arena arena;
    struct stele_appended appended;
    enum stele_err err = builder == NULL ? STELE_NO_MEMORY : STELE_OK;
    stele_arena_init(&arena, node->mem, STELE_MEM_METADATA, 0);
    for (int i = 0; i < count && err == STELE_OK; i++) {
        uint8_t *bytes = NULL;
        size_t bytes_count = 0;
        err = stele_metadata_record_encode(&arena, &records[i], &bytes, &bytes_count);
        struct stele_record_in in = {
            .timestamp = stele_env_wall_ms(node->control), .value = bytes, .value_bytes = (int32_t)bytes_count};
        if (err == STELE_OK)
            err = stele_batch_builder_add(builder, &in);
    }
    if (err == STELE_OK)
        err = stele_batch_builder_finish(builder, &batch);
    if (err == STELE_OK) {
        struct stele_append append = {.bytes = batch->bytes,
                                      .count = batch->count,
                                      .origin = STELE_ORIGIN_METADATA,
                                      .leader_epoch = METADATA_EPOCH};
        err = stele_log_append(node->metadata, &append, &appended);
    }
    if (err == STELE_OK)
        err = stele_log_flush(node->metadata);
    if (err == STELE_OK)
        stele_log_set_high_watermark(node->metadata, stele_log_end_offset(node->metadata));
    for (int i = 0; i < count && err == STELE_OK; i++)
        err = stele_image_apply(node, &records[i]);
    stele_buf_unref(batch);
    stele_arena_deinit(&arena);
    stele_batch_builder_free(builder);
    return err;
}

static enum stele_err write_format(struct stele_node *node)
{
    struct stele_meta_properties properties;
    struct stele_uuid uuid;
    char text[64];
    bool is_usable = stele_log_dirs_identity(node->dirs, &properties);
    if (is_usable)
        memcpy(text, properties.cluster_id, sizeof(properties.cluster_id));
    while (!is_usable) {
        uuid = stele_uuid_make(node->control->ops->random(node->control), node->control->ops->random(node->control),
                               &is_usable);
        stele_uuid_text(&uuid, text);
    }
    struct stele_metadata_record record = {.kind = STELE_METADATA_FORMAT,
                                           .u.format = {.format = "stele", .level = FEATURE_LEVEL, .cluster_id = text}};
    return stele_metadata_write(node, &record, 1);
}

enum stele_err stele_metadata_open(struct stele_node *node, struct stele_error *error)
{
    char path[STELE_PATH_BYTES];
    struct stele_log_open open = {
        .env = node->control, .dir = path, .name = STELE_METADATA_TOPIC_NAME "-0", .high_watermark = -1};
    struct stele_recovery_report report;
    struct stele_vfs *vfs = node->control->vfs;
    stele_log_config_default(&open.config);
    open.config.retention_ms = -1;
    for (int i = 0; i < stele_log_dirs_found_count(node->dirs); i++) {
        const struct stele_found_log *found = stele_log_dirs_found(node->dirs, i);
        if (strcmp(found->topic, STELE_METADATA_TOPIC_NAME) == 0) {
            open.was_clean = found->was_clean;
            open.recovery_point = found->recovery_point;
            open.high_watermark = found->high_watermark;
        }
    }
    enum stele_err err = stele_path_join(path, stele_log_dirs_path(node->dirs, 0), STELE_METADATA_TOPIC_NAME "-0");
    if (err == STELE_OK)
        err = vfs->ops->mkdir(vfs, path);
    if (err == STELE_OK)
        err = vfs->ops->sync_dir(vfs, stele_log_dirs_path(node->dirs, 0));
    if (err == STELE_OK || err == STELE_EXISTS)
        err = stele_log_open(&open, &node->metadata, &report, error);
    else
        return stele_error_set(error, err, "%.300s cannot be made: %s", path, stele_err_text(err));
    if (err != STELE_OK)
        return err;
    err = replay(node);
    if (err == STELE_OK && stele_log_end_offset(node->metadata) == 0)
        err = write_format(node);
    if (err == STELE_OK && node->image.cluster_id[0] == 0)
        err = STELE_FOREIGN;
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s cannot be read: %s; restore it from a copy", path,
                               stele_err_text(err));
    return stele_log_dirs_format(node->dirs, node->image.cluster_id, node->node_id);
}
