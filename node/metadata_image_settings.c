/* The settings of an image: those that hold, by subject, and the changes that led there. Every change that holds is
 * kept; of the others the last STELE_IMAGE_PAST_MAX. */
#include "node/metadata_image.h"

#include <string.h>

void stele_image__settings_init(struct stele_image_settings *settings)
{
    *settings = (struct stele_image_settings){.count = 0};
    stele_list_init(&settings->history);
}

static void change_free(struct stele_image *image, struct stele_image_change *change)
{
    if (!stele_list_is_empty(&change->past))
        image->past_count--;
    stele_list_remove(&change->past);
    stele_list_remove(&change->of_subject);
    stele_list_remove(&change->all);
    stele_mem_free(image->mem, change->subject);
    stele_mem_free(image->mem, change->name);
    stele_mem_free(image->mem, change->value);
    stele_mem_free(image->mem, change);
}

void stele_image__settings_drop(struct stele_image *image, struct stele_image_settings *settings)
{
    while (!stele_list_is_empty(&settings->history))
        change_free(image, STELE_CONTAINER_OF(settings->history.next, struct stele_image_change, of_subject));
    stele_mem_free(image->mem, settings->names);
    stele_mem_free(image->mem, settings->values);
    stele_mem_free(image->mem, settings->changes);
    stele_image__settings_init(settings);
}

static int find(const struct stele_image_settings *settings, const char *name)
{
    int at = 0;
    while (at < settings->count && strcmp(settings->names[at], name) != 0)
        at++;
    return at;
}

const struct stele_image_change *stele_image_setting(const struct stele_image_settings *settings, const char *name)
{
    int at = settings == NULL ? 0 : find(settings, name);
    return settings != NULL && at < settings->count ? settings->changes[at] : NULL;
}

static struct stele_image_node *node_of(const struct stele_image *image, const char *subject)
{
    struct stele_image_node *node = image->nodes;
    while (node != NULL && strcmp(node->subject, subject) != 0)
        node = node->next;
    return node;
}

/* Of a node or a topic. */
static struct stele_image_settings *kept_of(const struct stele_image *image, enum stele_subject_kind kind,
                                            const char *subject)
{
    if (kind == STELE_SUBJECT_NODE) {
        struct stele_image_node *node = node_of(image, subject);
        return node != NULL ? &node->settings : NULL;
    }
    struct stele_image_topic *topic = stele_image_topic_named(image, subject);
    return topic != NULL ? &topic->settings : NULL;
}

const struct stele_image_settings *stele_image_settings_of(const struct stele_image *image,
                                                           enum stele_subject_kind kind, const char *subject)
{
    return kind == STELE_SUBJECT_CLUSTER ? &image->cluster : kept_of(image, kind, subject);
}

static enum stele_err add_node(struct stele_image *image, const char *subject)
{
    struct stele_image_node *node = stele_mem_alloc(image->mem, STELE_MEM_METADATA, sizeof(*node));
    if (node == NULL)
        return STELE_NO_MEMORY;
    node->subject = stele_mem_string(image->mem, STELE_MEM_METADATA, subject);
    if (node->subject == NULL) {
        stele_mem_free(image->mem, node);
        return STELE_NO_MEMORY;
    }
    stele_image__settings_init(&node->settings);
    node->next = image->nodes;
    image->nodes = node;
    return STELE_OK;
}

static enum stele_err reserve(struct stele_mem *mem, struct stele_image_settings *settings)
{
    if (settings->count < settings->capacity)
        return STELE_OK;
    int capacity = settings->capacity == 0 ? 4 : settings->capacity * 2;
    size_t bytes = (size_t)capacity * sizeof(void *);
    const char **names = stele_mem_resize(mem, STELE_MEM_METADATA, settings->names, bytes);
    if (names == NULL)
        return STELE_NO_MEMORY;
    settings->names = names;
    const char **values = stele_mem_resize(mem, STELE_MEM_METADATA, settings->values, bytes);
    if (values == NULL)
        return STELE_NO_MEMORY;
    settings->values = values;
    struct stele_image_change **changes = stele_mem_resize(mem, STELE_MEM_METADATA, settings->changes, bytes);
    if (changes == NULL)
        return STELE_NO_MEMORY;
    settings->changes = changes;
    settings->capacity = capacity;
    return STELE_OK;
}

static struct stele_image_change *make_change(struct stele_image *image, const struct stele_metadata_record *record,
                                              int64_t time_ms)
{
    const char *value = record->u.setting.value;
    struct stele_image_change *change = stele_mem_alloc(image->mem, STELE_MEM_METADATA, sizeof(*change));
    if (change == NULL)
        return NULL;
    stele_list_init(&change->all);
    stele_list_init(&change->of_subject);
    stele_list_init(&change->past);
    change->time_ms = time_ms;
    change->kind = (enum stele_subject_kind)record->u.setting.scope;
    change->subject = stele_mem_string(image->mem, STELE_MEM_METADATA, record->u.setting.subject);
    change->name = stele_mem_string(image->mem, STELE_MEM_METADATA, record->u.setting.name);
    change->value = value != NULL ? stele_mem_string(image->mem, STELE_MEM_METADATA, value) : NULL;
    if (change->subject != NULL && change->name != NULL && (change->value != NULL || value == NULL))
        return change;
    change_free(image, change);
    return NULL;
}

static void make_past(struct stele_image *image, struct stele_image_change *change)
{
    stele_list_push(&image->past, &change->past);
    image->past_count++;
    if (image->past_count > STELE_IMAGE_PAST_MAX)
        change_free(image, STELE_CONTAINER_OF(image->past.next, struct stele_image_change, past));
}

static void take_away(struct stele_image *image, struct stele_image_settings *settings, int at)
{
    struct stele_image_change *old = settings->changes[at];
    settings->count--;
    settings->names[at] = settings->names[settings->count];
    settings->values[at] = settings->values[settings->count];
    settings->changes[at] = settings->changes[settings->count];
    make_past(image, old);
}

static void touch_topic(struct stele_image *image, const char *name)
{
    struct stele_image_topic *topic = stele_image_topic_named(image, name);
    if (topic == NULL)
        return;
    topic->has_new_settings = true;
    stele_image__touch_topic(image, topic);
}

enum stele_err stele_image__apply_setting(struct stele_image *image, const struct stele_metadata_record *record,
                                          int64_t time_ms)
{
    int32_t scope = record->u.setting.scope;
    const char *subject = record->u.setting.subject;
    if (scope < 0 || scope > STELE_SUBJECT_TOPIC || record->u.setting.name[0] == 0)
        return STELE_CORRUPT;
    enum stele_subject_kind kind = (enum stele_subject_kind)scope;
    if (kind == STELE_SUBJECT_TOPIC)
        touch_topic(image, subject);
    else
        image->setting_records++;
    enum stele_err err = STELE_OK;
    if (kind == STELE_SUBJECT_NODE && node_of(image, subject) == NULL)
        err = add_node(image, subject);
    struct stele_image_settings *settings =
        kind == STELE_SUBJECT_CLUSTER ? &image->cluster : kept_of(image, kind, subject);
    if (err == STELE_OK && settings == NULL)
        err = STELE_CORRUPT;
    if (err == STELE_OK)
        err = reserve(image->mem, settings);
    if (err != STELE_OK)
        return err;
    struct stele_image_change *change = make_change(image, record, time_ms);
    if (change == NULL)
        return STELE_NO_MEMORY;
    stele_list_push(&image->changes, &change->all);
    stele_list_push(&settings->history, &change->of_subject);
    int at = find(settings, change->name);
    if (at < settings->count)
        take_away(image, settings, at);
    if (change->value == NULL) {
        make_past(image, change);
        return STELE_OK;
    }
    settings->names[settings->count] = change->name;
    settings->values[settings->count] = change->value;
    settings->changes[settings->count++] = change;
    return STELE_OK;
}
