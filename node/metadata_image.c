#include "node/metadata_image.h"

#include "base/check.h"

#include <string.h>

enum { PARTITIONS_MAX = 1000000 };

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"

struct stele_image_topic *stele_image_topic_named(const struct stele_image *image, const char *name)
{
    struct stele_image_topic *topic = NULL;
    HASH_FIND(by_name, image->by_name, name, strlen(name), topic);
    return topic;
}

struct stele_image_topic *stele_image_topic_of(const struct stele_image *image, const struct stele_uuid *topic_id)
{
    struct stele_image_topic *topic = NULL;
    HASH_FIND(by_id, image->by_id, topic_id, sizeof(*topic_id), topic);
    return topic;
}

static bool tables_add(struct stele_image *image, struct stele_image_topic *topic)
{
    struct stele_mem *uthash_mem = image->mem;
    HASH_ADD_KEYPTR(by_name, image->by_name, topic->name, strlen(topic->name), topic);
    if (topic->by_name.tbl == NULL)
        return false;
    HASH_ADD(by_id, image->by_id, topic_id, sizeof(topic->topic_id), topic);
    if (topic->by_id.tbl != NULL)
        return true;
    HASH_DELETE(by_name, image->by_name, topic);
    return false;
}

static void tables_clear(struct stele_image *image)
{
    struct stele_mem *uthash_mem = image->mem;
    HASH_CLEAR(by_id, image->by_id);
    HASH_CLEAR(by_name, image->by_name);
}

#pragma GCC diagnostic pop

int stele_image_topic_count(const struct stele_image *image)
{
    return (int)HASH_CNT(by_name, image->by_name);
}

void stele_image_init(struct stele_image *image, struct stele_mem *mem)
{
    *image = (struct stele_image){.mem = mem};
}

static void topic_free(struct stele_mem *mem, struct stele_image_topic *topic)
{
    for (int32_t i = 0; i < topic->partition_count; i++) {
        stele_mem_free(mem, topic->partitions[i].replicas);
        stele_mem_free(mem, topic->partitions[i].isr);
    }
    for (int i = 0; i < topic->setting_count; i++) {
        stele_mem_free(mem, topic->setting_names[i]);
        stele_mem_free(mem, topic->setting_values[i]);
    }
    stele_mem_free(mem, topic->setting_names);
    stele_mem_free(mem, topic->setting_values);
    stele_mem_free(mem, topic->partitions);
    stele_mem_free(mem, topic->name);
    stele_mem_free(mem, topic);
}

void stele_image_deinit(struct stele_image *image)
{
    struct stele_image_topic *topic = image->by_name, *next;
    tables_clear(image);
    for (; topic != NULL; topic = next) {
        next = topic->by_name.next; /* the elements keep their links when a table is cleared */
        topic_free(image->mem, topic);
    }
    stele_mem_free(image->mem, image->cluster_id);
    *image = (struct stele_image){.mem = image->mem};
}

static enum stele_err apply_format(struct stele_image *image, const struct stele_metadata_record *record)
{
    if (image->cluster_id != NULL || strcmp(record->u.format.format, "stele") != 0)
        return STELE_CORRUPT;
    image->cluster_id = stele_mem_string(image->mem, STELE_MEM_METADATA, record->u.format.cluster_id);
    image->level = record->u.format.level;
    return image->cluster_id != NULL ? STELE_OK : STELE_NO_MEMORY;
}

static enum stele_err apply_topic(struct stele_image *image, const struct stele_metadata_record *record)
{
    const char *name = record->u.topic.name;
    if (name[0] == 0 || stele_image_topic_named(image, name) != NULL ||
        stele_image_topic_of(image, &record->u.topic.topic_id) != NULL)
        return STELE_CORRUPT;
    struct stele_image_topic *topic = stele_mem_alloc(image->mem, STELE_MEM_METADATA, sizeof(*topic));
    if (topic == NULL)
        return STELE_NO_MEMORY;
    topic->topic_id = record->u.topic.topic_id;
    topic->name = stele_mem_string(image->mem, STELE_MEM_METADATA, name);
    if (topic->name == NULL || !tables_add(image, topic)) {
        topic_free(image->mem, topic);
        return STELE_NO_MEMORY;
    }
    return STELE_OK;
}

static enum stele_err copy_ids(struct stele_mem *mem, const int32_t *ids, size_t count, int32_t **out_ids)
{
    int32_t *copy = stele_mem_array(mem, STELE_MEM_METADATA, count, sizeof(*copy));
    if (copy == NULL)
        return STELE_NO_MEMORY;
    if (count > 0)
        memcpy(copy, ids, count * sizeof(*copy));
    *out_ids = copy;
    return STELE_OK;
}

static enum stele_err reserve_partition(struct stele_image *image, struct stele_image_topic *topic, int32_t number)
{
    if (number < topic->partition_count)
        return STELE_OK;
    struct stele_image_partition *grown =
        stele_mem_resize(image->mem, STELE_MEM_METADATA, topic->partitions, ((size_t)number + 1) * sizeof(*grown));
    if (grown == NULL)
        return STELE_NO_MEMORY;
    memset(grown + topic->partition_count, 0, (size_t)(number + 1 - topic->partition_count) * sizeof(*grown));
    topic->partitions = grown;
    topic->partition_count = number + 1;
    return STELE_OK;
}

static enum stele_err apply_partition(struct stele_image *image, const struct stele_metadata_record *record)
{
    struct stele_image_topic *topic = stele_image_topic_of(image, &record->u.partition.topic_id);
    int32_t number = record->u.partition.partition, *replicas = NULL, *isr = NULL;
    if (topic == NULL || number < 0 || number >= PARTITIONS_MAX)
        return STELE_CORRUPT;
    enum stele_err err = reserve_partition(image, topic, number);
    if (err == STELE_OK)
        err = copy_ids(image->mem, record->u.partition.replicas, record->u.partition.replica_count, &replicas);
    if (err == STELE_OK)
        err = copy_ids(image->mem, record->u.partition.isr, record->u.partition.isr_count, &isr);
    if (err != STELE_OK) {
        stele_mem_free(image->mem, replicas);
        return err;
    }
    struct stele_image_partition *partition = &topic->partitions[number];
    stele_mem_free(image->mem, partition->replicas);
    stele_mem_free(image->mem, partition->isr);
    *partition = (struct stele_image_partition){.is_known = true,
                                                .is_placed = partition->is_placed,
                                                .leader_id = record->u.partition.leader_id,
                                                .leader_epoch = record->u.partition.leader_epoch,
                                                .partition_epoch = record->u.partition.partition_epoch,
                                                .replicas = replicas,
                                                .replica_count = record->u.partition.replica_count,
                                                .isr = isr,
                                                .isr_count = record->u.partition.isr_count};
    return STELE_OK;
}

/* A value of NULL takes the setting away. */
static void remove_setting(struct stele_image *image, struct stele_image_topic *topic, int at)
{
    stele_mem_free(image->mem, topic->setting_names[at]);
    stele_mem_free(image->mem, topic->setting_values[at]);
    topic->setting_count--;
    topic->setting_names[at] = topic->setting_names[topic->setting_count];
    topic->setting_values[at] = topic->setting_values[topic->setting_count];
}

static enum stele_err add_setting(struct stele_image *image, struct stele_image_topic *topic, const char *name,
                                  const char *value)
{
    size_t count = (size_t)topic->setting_count + 1;
    char **names = stele_mem_resize(image->mem, STELE_MEM_METADATA, topic->setting_names, count * sizeof(*names));
    if (names == NULL)
        return STELE_NO_MEMORY;
    topic->setting_names = names;
    char **values = stele_mem_resize(image->mem, STELE_MEM_METADATA, topic->setting_values, count * sizeof(*values));
    if (values == NULL)
        return STELE_NO_MEMORY;
    topic->setting_values = values;
    names[count - 1] = stele_mem_string(image->mem, STELE_MEM_METADATA, name);
    values[count - 1] = stele_mem_string(image->mem, STELE_MEM_METADATA, value);
    topic->setting_count++; /* half a setting is freed with the topic */
    return names[count - 1] != NULL && values[count - 1] != NULL ? STELE_OK : STELE_NO_MEMORY;
}

static enum stele_err apply_setting(struct stele_image *image, const struct stele_metadata_record *record)
{
    enum { SCOPE_TOPIC = 2 };
    if (record->u.setting.scope != SCOPE_TOPIC)
        return STELE_OK; /* nobody writes others yet */
    struct stele_image_topic *topic = stele_image_topic_named(image, record->u.setting.subject);
    if (topic == NULL)
        return STELE_CORRUPT;
    for (int i = 0; i < topic->setting_count; i++) {
        if (strcmp(topic->setting_names[i], record->u.setting.name) == 0) {
            remove_setting(image, topic, i);
            break;
        }
    }
    if (record->u.setting.value == NULL)
        return STELE_OK;
    return add_setting(image, topic, record->u.setting.name, record->u.setting.value);
}

enum stele_err stele_image_apply(struct stele_image *image, const struct stele_metadata_record *record)
{
    if (image->cluster_id == NULL && record->kind != STELE_METADATA_FORMAT)
        return STELE_CORRUPT;
    switch (record->kind) {
    case STELE_METADATA_FORMAT:
        return apply_format(image, record);
    case STELE_METADATA_TOPIC:
        return apply_topic(image, record);
    case STELE_METADATA_PARTITION:
        return apply_partition(image, record);
    case STELE_METADATA_SETTING:
        return apply_setting(image, record);
    }
    return STELE_UNSUPPORTED_VERSION;
}
