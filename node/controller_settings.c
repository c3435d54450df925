/* The settings that hold: those of the start, over them what was changed at run time for the cluster, then for this
 * node; and how a change reaches the node and its partitions. */
#include "node/controller.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/settings.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 100 };

/* A value that an older version took may not be legal any more: it is left out and named. */
static enum stele_err lay_over(struct stele_controller *control, struct stele_settings *settings,
                               const struct stele_image_settings *changed, const char *origin)
{
    for (int i = 0; changed != NULL && i < changed->count; i++) {
        struct stele_error error;
        enum stele_err err = stele_settings_set(settings, changed->names[i], changed->values[i], origin, &error);
        if (err == STELE_NO_MEMORY)
            return err;
        if (err != STELE_OK)
            stele_trace(control->shard->env, STELE_TRACE_SETTING_BAD, changed->names[i], error.text, 0, 0, 0);
    }
    return STELE_OK;
}

/* Another value holds than the one that this node was started with. */
static void tell_shared(const struct stele_controller *control, const struct stele_settings *settings)
{
    const struct stele_settings *own = control->node->options.settings;
    for (int i = 0; stele_node_shared_setting(i) != NULL; i++) {
        const char *name = stele_node_shared_setting(i);
        const char *holds = stele_settings_text(settings, name);
        if (stele_settings_is_set(own, name) && strcmp(stele_settings_text(own, name), holds) != 0)
            stele_trace(control->shard->env, STELE_TRACE_SETTING_SHARED, name, holds, 0, 0, 0);
    }
}

static enum stele_err make_settings(struct stele_controller *control, struct stele_settings **out_settings)
{
    struct stele_image *image = &control->mlog.image;
    struct stele_settings *settings = NULL;
    char subject[16];
    (void)snprintf(subject, sizeof(subject), "%d", (int)control->node->node_id);
    enum stele_err err = stele_settings_copy(control->node->options.settings, control->node->mem, &settings);
    for (int i = 0; err == STELE_OK && control->peers.shard != NULL && stele_node_shared_setting(i) != NULL; i++)
        stele_settings_unset(settings, stele_node_shared_setting(i));
    if (err == STELE_OK)
        err = lay_over(control, settings, stele_image_settings_of(image, STELE_SUBJECT_CLUSTER, ""),
                       STELE_ORIGIN_OF_CLUSTER);
    if (err == STELE_OK)
        err = lay_over(control, settings, stele_image_settings_of(image, STELE_SUBJECT_NODE, subject),
                       STELE_ORIGIN_OF_NODE);
    if (err != STELE_OK) {
        stele_settings_free(settings);
        return err;
    }
    *out_settings = settings;
    return STELE_OK;
}

enum stele_err stele_controller_topic_config(struct stele_controller *control, const struct stele_image_topic *topic,
                                             struct stele_log_config *out_config)
{
    struct stele_error error = {.text = ""};
    if (control->log_config_of != control->node->settings) {
        stele_node_log_config(control->node->settings, &control->log_config);
        control->log_config_of = control->node->settings;
    }
    struct stele_log_config config = control->log_config;
    enum stele_err err = stele_node_overlay_log_config(topic->settings.names, topic->settings.values,
                                                       topic->settings.count, &config, &error);
    if (err != STELE_OK) {
        stele_trace(control->shard->env, STELE_TRACE_SETTING_BAD, topic->name, error.text, 0, 0, 0);
        return err;
    }
    *out_config = config;
    return STELE_OK;
}

static void tell_partitions(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    struct stele_log_config config;
    const struct stele_image_topic *of = NULL; /* of which the configuration is; partitions of a topic lie together */
    for (struct stele_list *at = node->partitions.next; at != &node->partitions; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, all);
        const struct stele_image_topic *topic = stele_image_topic_of(&control->mlog.image, &partition->key.topic_id);
        if (topic == NULL)
            continue; /* it is being removed */
        if (topic != of) {
            enum stele_err err = stele_controller_topic_config(control, topic, &config);
            of = err == STELE_OK ? topic : NULL;
        }
        if (topic == of)
            stele_partition_send_config(partition, &config);
    }
}

void stele_controller_send_config(struct stele_controller *control, struct stele_partition *partition)
{
    const struct stele_image_topic *topic = stele_image_topic_of(&control->mlog.image, &partition->key.topic_id);
    struct stele_log_config config;
    enum stele_err err = topic != NULL ? stele_controller_topic_config(control, topic, &config) : STELE_CANCELLED;
    if (err == STELE_OK)
        stele_partition_send_config(partition, &config);
}

void stele_controller_take_settings(struct stele_controller *control)
{
    struct stele_node *node = control->node;
    struct stele_settings *settings = NULL;
    enum stele_err err = make_settings(control, &settings);
    control->setting_records = control->mlog.image.setting_records;
    if (err == STELE_OK) {
        if (node->settings != node->options.settings)
            stele_settings_free(node->settings);
        node->settings = settings;
        control->log_config_of = NULL;
        if (control->state == STELE_CONTROLLER_STARTING && control->peers.shard != NULL)
            tell_shared(control, settings);
        node->mem->limit_bytes = stele_node_memory_budget(settings);
        stele_node_take_limits(node);
        if (node->options.settings_changed != NULL)
            node->options.settings_changed(node->options.arg, settings);
        stele_log_dirs_set_reserve(control->dirs, stele_settings_int(settings, "log.dir.reserve.bytes"));
        tell_partitions(control);
    } else {
        stele_shard_arm(control->shard, &control->settings_timer, stele_env_mono_ms(control->shard->env) + RETRY_MS);
    }
}

void stele_controller_take_new_settings(struct stele_controller *control)
{
    if (control->setting_records != control->mlog.image.setting_records)
        stele_controller_take_settings(control);
}

static void again(struct stele_timer *timer)
{
    stele_controller_take_settings(STELE_CONTAINER_OF(timer, struct stele_controller, settings_timer));
}

void stele_controller_init_settings(struct stele_controller *control)
{
    stele_timer_init(&control->settings_timer, again);
}
