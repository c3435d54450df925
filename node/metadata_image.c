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

static void tables_remove(struct stele_image *image, struct stele_image_topic *topic)
{
    struct stele_mem *uthash_mem = image->mem;
    HASH_DELETE(by_name, image->by_name, topic);
    HASH_DELETE(by_id, image->by_id, topic);
}

static void tables_clear(struct stele_image *image)
{
    struct stele_mem *uthash_mem = image->mem;
    HASH_CLEAR(by_id, image->by_id);
    HASH_CLEAR(by_name, image->by_name);
}

static bool removed_add(struct stele_image *image, struct stele_image_removed *removed)
{
    struct stele_mem *uthash_mem = image->mem;
    HASH_ADD(hh, image->removed_by_id, topic_id, sizeof(removed->topic_id), removed);
    return removed->hh.tbl != NULL;
}

static void removed_drop(struct stele_image *image, struct stele_image_removed *removed)
{
    struct stele_mem *uthash_mem = image->mem;
    HASH_DELETE(hh, image->removed_by_id, removed);
}

static struct stele_image_removed *removed_find(const struct stele_image *image, const struct stele_uuid *topic_id)
{
    struct stele_image_removed *removed = NULL;
    HASH_FIND(hh, image->removed_by_id, topic_id, sizeof(*topic_id), removed);
    return removed;
}

#pragma GCC diagnostic pop

int stele_image_topic_count(const struct stele_image *image)
{
    return (int)HASH_CNT(by_name, image->by_name);
}

void stele_image_init(struct stele_image *image, struct stele_mem *mem)
{
    *image = (struct stele_image){.mem = mem, .is_new = true};
    stele_list_init(&image->removed);
    stele_list_init(&image->touched);
    stele_list_init(&image->gone);
    stele_list_init(&image->changes);
    stele_list_init(&image->past);
    stele_image__settings_init(&image->cluster);
}

/* The head of a list lies in the image itself. */
static void adopt(struct stele_list *head, struct stele_list *from)
{
    if (stele_list_is_empty(from)) {
        stele_list_init(head);
        return;
    }
    head->next->prev = head->prev->next = head;
}

void stele_image_replace(struct stele_image *image, struct stele_image *from)
{
    stele_image_deinit(image);
    *image = *from;
    adopt(&image->removed, &from->removed);
    adopt(&image->touched, &from->touched);
    adopt(&image->gone, &from->gone);
    adopt(&image->changes, &from->changes);
    adopt(&image->past, &from->past);
    adopt(&image->cluster.history, &from->cluster.history);
    stele_image_init(from, image->mem);
}

struct stele_image_removed *stele_image_removed_of(const struct stele_image *image, const struct stele_uuid *topic_id,
                                                   const char *name)
{
    if (topic_id != NULL)
        return removed_find(image, topic_id);
    for (struct stele_list *at = image->removed.prev; at != &image->removed; at = at->prev) {
        struct stele_image_removed *removed = STELE_CONTAINER_OF(at, struct stele_image_removed, link);
        if (strcmp(removed->name, name) == 0)
            return removed;
    }
    return NULL;
}

void stele_image_forget_removed(struct stele_image *image, struct stele_image_removed *removed)
{
    removed_drop(image, removed);
    image->removed_count--;
    stele_list_remove(&removed->link);
    stele_list_remove(&removed->gone);
    stele_mem_free(image->mem, removed->name);
    stele_mem_free(image->mem, removed);
}

/* What was touched. */

void stele_image__touch_topic(struct stele_image *image, struct stele_image_topic *topic)
{
    if (!image->is_new && stele_list_is_empty(&topic->touched))
        stele_list_push(&image->touched, &topic->touched);
}

void stele_image_touch(struct stele_image *image, struct stele_image_topic *topic, int32_t number)
{
    struct stele_image_partition *partition = &topic->partitions[number];
    if (image->is_new)
        return;
    stele_image__touch_topic(image, topic);
    if (partition->is_touched)
        return;
    partition->is_touched = true;
    partition->next_touched = -1;
    if (topic->first_touched < 0)
        topic->first_touched = number;
    else
        topic->partitions[topic->last_touched].next_touched = number;
    topic->last_touched = number;
}

int32_t stele_image_take_touched(struct stele_image_topic *topic)
{
    int32_t number = topic->first_touched;
    if (number < 0)
        return -1;
    topic->partitions[number].is_touched = false;
    topic->first_touched = topic->partitions[number].next_touched;
    return number;
}

void stele_image_touch_all(struct stele_image *image)
{
    image->is_new = false;
    while (!stele_list_is_empty(&image->gone))
        stele_list_remove(image->gone.next);
    for (struct stele_image_topic *topic = image->by_name; topic != NULL; topic = topic->by_name.next) {
        stele_image__touch_topic(image, topic);
        for (int32_t i = 0; i < topic->partition_count; i++) {
            if (topic->partitions[i].is_known)
                stele_image_touch(image, topic, i);
        }
    }
}

static void topic_free(struct stele_image *image, struct stele_image_topic *topic)
{
    struct stele_mem *mem = image->mem;
    stele_list_remove(&topic->touched);
    stele_image__settings_drop(image, &topic->settings);
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
        topic_free(image, topic);
    }
    while (!stele_list_is_empty(&image->removed))
        stele_image_forget_removed(image, STELE_CONTAINER_OF(image->removed.next, struct stele_image_removed, link));
    while (image->nodes != NULL) {
        struct stele_image_node *node = image->nodes;
        image->nodes = node->next;
        stele_image__settings_drop(image, &node->settings);
        stele_mem_free(image->mem, node->subject);
        stele_mem_free(image->mem, node);
    }
    stele_image__settings_drop(image, &image->cluster);
    stele_image__cluster_drop(image);
    stele_mem_free(image->mem, image->cluster_id);
    stele_image_init(image, image->mem);
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
        stele_image_topic_of(image, &record->u.topic.topic_id) != NULL ||
        stele_image_removed_of(image, &record->u.topic.topic_id, NULL) != NULL)
        return STELE_CORRUPT;
    struct stele_image_topic *topic = stele_mem_alloc(image->mem, STELE_MEM_METADATA, sizeof(*topic));
    if (topic == NULL)
        return STELE_NO_MEMORY;
    stele_image__settings_init(&topic->settings);
    stele_list_init(&topic->touched);
    topic->first_touched = -1;
    topic->topic_id = record->u.topic.topic_id;
    topic->name = stele_mem_string(image->mem, STELE_MEM_METADATA, name);
    if (topic->name == NULL || !tables_add(image, topic)) {
        topic_free(image, topic);
        return STELE_NO_MEMORY;
    }
    return STELE_OK;
}

/* False when there are more than a partition may have, or one twice. */
static bool set_from(struct stele_node_set *set, const int32_t *ids, size_t count)
{
    *set = (struct stele_node_set){.count = 0};
    for (size_t i = 0; i < count; i++) {
        if (stele_node_set_has(set, ids[i]) || !stele_node_set_add(set, ids[i]))
            return false;
    }
    return true;
}

static enum stele_err reserve_partition(struct stele_image *image, struct stele_image_topic *topic, int32_t number)
{
    if (number < topic->partition_count)
        return STELE_OK;
    if (number >= topic->partition_capacity) {
        int32_t capacity = number < 4 ? number + 1 : number + number / 4;
        struct stele_image_partition *grown =
            stele_mem_resize(image->mem, STELE_MEM_METADATA, topic->partitions, (size_t)capacity * sizeof(*grown));
        if (grown == NULL)
            return STELE_NO_MEMORY;
        topic->partitions = grown;
        topic->partition_capacity = capacity;
    }
    memset(topic->partitions + topic->partition_count, 0,
           (size_t)(number + 1 - topic->partition_count) * sizeof(*topic->partitions));
    topic->partition_count = number + 1;
    return STELE_OK;
}

static bool state_from(struct stele_partition_state *state, const struct stele_metadata_record *record)
{
    *state = (struct stele_partition_state){.leader_id = record->u.partition.leader_id,
                                            .leader_epoch = record->u.partition.leader_epoch,
                                            .partition_epoch = record->u.partition.partition_epoch,
                                            .is_recovering = record->u.partition.is_recovering,
                                            .is_unsynced = record->u.partition.is_unsynced};
    return set_from(&state->replicas, record->u.partition.replicas, record->u.partition.replica_count) &&
           set_from(&state->isr, record->u.partition.isr, record->u.partition.isr_count) &&
           set_from(&state->elr, record->u.partition.elr, record->u.partition.elr_count) &&
           set_from(&state->last_known_elr, record->u.partition.last_known_elr,
                    record->u.partition.last_known_elr_count) &&
           set_from(&state->adding, record->u.partition.adding, record->u.partition.adding_count) &&
           set_from(&state->removing, record->u.partition.removing, record->u.partition.removing_count) &&
           set_from(&state->offline, record->u.partition.offline, record->u.partition.offline_count);
}

static void count(struct stele_image *image, const struct stele_image_partition *partition, int64_t sign)
{
    const struct stele_partition_state *state = &partition->state;
    if (!partition->is_known)
        return;
    image->tally.known += sign;
    image->tally.leaderless += state->leader_id == STELE_NO_NODE ? sign : 0;
    image->tally.reassigning += state->adding.count + state->removing.count > 0 ? sign : 0;
    image->tally.imbalanced += state->replicas.count > 0 && state->leader_id != state->replicas.ids[0] ? sign : 0;
}

static enum stele_err apply_partition(struct stele_image *image, const struct stele_metadata_record *record)
{
    struct stele_image_topic *topic = stele_image_topic_of(image, &record->u.partition.topic_id);
    int32_t number = record->u.partition.partition;
    struct stele_partition_state state;
    if (topic == NULL || number < 0 || number >= PARTITIONS_MAX || !state_from(&state, record))
        return STELE_CORRUPT;
    enum stele_err err = reserve_partition(image, topic, number);
    if (err != STELE_OK)
        return err;
    count(image, &topic->partitions[number], -1);
    topic->partitions[number].is_known = true;
    topic->partitions[number].state = state;
    count(image, &topic->partitions[number], 1);
    stele_image_touch(image, topic, number);
    return STELE_OK;
}

/* When more were removed than are kept, an owner that did not look for so long looks at everything. */
static void forget_oldest(struct stele_image *image)
{
    struct stele_image_removed *oldest = STELE_CONTAINER_OF(image->removed.next, struct stele_image_removed, link);
    image->is_new = image->is_new || !stele_list_is_empty(&oldest->gone);
    stele_image_forget_removed(image, oldest);
}

/* The topic goes, its id stays. In a snapshot the id is all there is. */
static enum stele_err apply_removed(struct stele_image *image, const struct stele_metadata_record *record)
{
    const struct stele_uuid *topic_id = &record->u.topic_removed.topic_id;
    struct stele_image_topic *topic = stele_image_topic_of(image, topic_id);
    if (stele_uuid_is_zero(topic_id) || stele_image_removed_of(image, topic_id, NULL) != NULL)
        return STELE_CORRUPT;
    struct stele_image_removed *removed = stele_mem_alloc(image->mem, STELE_MEM_METADATA, sizeof(*removed));
    if (removed == NULL)
        return STELE_NO_MEMORY;
    removed->topic_id = *topic_id;
    removed->name = stele_mem_string(image->mem, STELE_MEM_METADATA, record->u.topic_removed.name);
    if (removed->name == NULL || !removed_add(image, removed)) {
        stele_mem_free(image->mem, removed->name);
        stele_mem_free(image->mem, removed);
        return STELE_NO_MEMORY;
    }
    stele_list_init(&removed->gone);
    stele_list_push(&image->removed, &removed->link);
    if (topic != NULL) {
        removed->partition_count = topic->partition_count;
        for (int32_t i = 0; i < topic->partition_count; i++)
            count(image, &topic->partitions[i], -1);
        if (!image->is_new)
            stele_list_push(&image->gone, &removed->gone);
        tables_remove(image, topic);
        topic_free(image, topic);
    }
    if (++image->removed_count > STELE_IMAGE_REMOVED_MAX)
        forget_oldest(image);
    return STELE_OK;
}

static enum stele_err apply_producer_ids(struct stele_image *image, const struct stele_metadata_record *record)
{
    if (record->u.producer_ids.next_producer_id < image->next_producer_id)
        return STELE_CORRUPT;
    image->next_producer_id = record->u.producer_ids.next_producer_id;
    return STELE_OK;
}

enum stele_err stele_image_apply(struct stele_image *image, const struct stele_metadata_record *record, int64_t time_ms)
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
        return stele_image__apply_setting(image, record, time_ms);
    case STELE_METADATA_TOPIC_REMOVED:
        return apply_removed(image, record);
    case STELE_METADATA_PRODUCER_IDS:
        return apply_producer_ids(image, record);
    case STELE_METADATA_NODE:
    case STELE_METADATA_NODE_REMOVED:
    case STELE_METADATA_LEADER_CHANGE:
    case STELE_METADATA_VOTERS:
    case STELE_METADATA_LEVEL_CHANGE:
    case STELE_METADATA_LOST_RANGE:
        return stele_image__apply_cluster(image, record, time_ms);
    }
    return STELE_UNSUPPORTED_VERSION;
}
