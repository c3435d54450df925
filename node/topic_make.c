/* How topics and partitions are made. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/settings.h"
#include "node/topic_ops.h"
#include "replication/placement.h"

#include <stdio.h>
#include <string.h>

#define MIN_ISR "min.insync.replicas"

int64_t stele_topic__deadline_ms(const struct stele_controller *control, int32_t timeout_ms)
{
    return timeout_ms > 0 ? stele_env_mono_ms(control->shard->env) + timeout_ms : INT64_MAX;
}

/* The end. */

void stele_topic_make_drop(struct stele_topic_make *make)
{
    if (make->control == NULL)
        return;
    stele_active_drop(&make->turn);
    stele_reconcile_wait_drop(&make->wait);
}

static void finish_with(struct stele_topic_make *make, enum stele_err err, const char *text)
{
    make->error.text[0] = 0;
    make->error.err = err;
    if (err != STELE_OK)
        (void)stele_error_set(&make->error, err, "%s", text);
    make->done(make);
}

/* Step 3: what lies on this node is open, or why not. */
static void opened(struct stele_reconcile_wait *wait)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(wait, struct stele_topic_make, wait);
    struct stele_controller *control = make->control;
    struct stele_partition_key key = {.topic_id = make->topic_id};
    enum stele_err waits_for = STELE_OK;
    bool has_offline = false;
    for (key.number = make->first; key.number < make->partition_count; key.number++) {
        const struct stele_local *local = stele_reconcile_find(&control->reconcile, &key);
        enum stele_err err = local != NULL && local->state == STELE_LOCAL_OPEN ? local->partition->told_err : STELE_OK;
        if (err == STELE_NO_SPACE || err == STELE_NO_MEMORY)
            waits_for = err;
        else if (err != STELE_OK)
            has_offline = true;
    }
    stele_trace(control->shard->env, make->is_growth ? STELE_TRACE_TOPIC_GREW : STELE_TRACE_TOPIC_CREATED, make->name,
                NULL, make->partition_count, 0, 0);
    if (has_offline)
        finish_with(make, STELE_KAFKA_STORAGE_ERROR,
                    "it was made, but a partition is offline: the node's log says why");
    else
        finish_with(make, waits_for,
                    "it was made, but a partition waits for room on its disk or for memory: it comes up by itself");
}

/* Step 2: the records are committed and in the image. */
static void turn_done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(turn, struct stele_topic_make, turn);
    if (err != STELE_OK) {
        stele_active_explain(&make->control->active, err, &make->error);
        make->done(make);
        return;
    }
    make->wait.topic_id = make->topic_id;
    make->wait.next = make->first;
    make->wait.end = make->partition_count;
    make->wait.deadline_ms = make->deadline_ms;
    make->wait.done = opened;
    stele_reconcile_await(&make->control->reconcile, &make->wait);
}

/* Checks. */

static enum stele_err check_one(struct stele_topic_make *make, size_t at)
{
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    const struct stele_setting_pair *setting = &make->settings[at];
    if (setting->value == NULL)
        return stele_error_set(&make->error, STELE_INVALID_CONFIG, "%s has no value", setting->name);
    enum stele_err err = stele_settings_check_topic(rows, count, setting->name, setting->value, &make->error);
    for (size_t i = 0; i < at && err == STELE_OK; i++) {
        if (strcmp(make->settings[i].name, setting->name) == 0)
            err = stele_error_set(&make->error, STELE_INVALID_REQUEST, "%s is given twice", setting->name);
    }
    return err;
}

/* Each, and what of one another, or the node's, does not allow: as when they are changed (handle_settings.c). */
static enum stele_err check_settings(struct stele_topic_make *make)
{
    struct stele_controller *control = make->control;
    const char **names = stele_arena_array(&make->turn.arena, make->setting_count, sizeof(*names));
    const char **values = stele_arena_array(&make->turn.arena, make->setting_count, sizeof(*values));
    struct stele_settings *trial = NULL;
    struct stele_log_config config;
    if (make->setting_count > 0 && (names == NULL || values == NULL))
        return stele_error_set(&make->error, STELE_NO_MEMORY, "memory ran out");
    for (size_t i = 0; i < make->setting_count; i++) {
        enum stele_err err = check_one(make, i);
        if (err != STELE_OK)
            return err;
        names[i] = make->settings[i].name;
        values[i] = make->settings[i].value;
    }
    enum stele_err err =
        stele_settings_overlay(control->node->settings, names, values, (int)make->setting_count, &trial, &make->error);
    if (err != STELE_OK)
        return err;
    stele_node_log_config(trial, &config);
    err = stele_node_check_log_config(&config, &make->error);
    if (err == STELE_OK)
        err = stele_throttle_check(trial, &make->error);
    stele_settings_free(trial);
    return err;
}

/* Of a list of replicas the list says how many partitions there are. */
static void count_partitions(struct stele_topic_make *make)
{
    if (make->is_growth || make->partition_count != -1)
        return;
    make->partition_count = make->assignment_count > 0
                                ? (int32_t)stele_min_i64((int64_t)make->assignment_count, INT32_MAX)
                                : (int32_t)stele_settings_int(make->control->node->settings, "num.partitions");
}

static enum stele_err check_new(struct stele_topic_make *make)
{
    struct stele_controller *control = make->control;
    struct stele_error *error = &make->error;
    if (!stele_topic_name_is_legal(make->name))
        return stele_error_set(error, STELE_INVALID_TOPIC_EXCEPTION,
                               "'%.100s' is no legal topic name: 1 to %d of a-z A-Z 0-9 . _ -, not . or ..", make->name,
                               STELE_TOPIC_NAME_MAX);
    if (strcmp(make->name, STELE_METADATA_TOPIC_NAME) == 0)
        return stele_error_set(error, STELE_INVALID_TOPIC_EXCEPTION, "%s is the node's own", make->name);
    if (stele_image_topic_named(&control->mlog.image, make->name) != NULL)
        return stele_error_set(error, STELE_TOPIC_ALREADY_EXISTS, "topic '%s' exists already", make->name);
    if (make->partition_count < 1 || make->partition_count > STELE_PARTITIONS_MAX)
        return stele_error_set(error, STELE_INVALID_PARTITIONS, "a topic has 1 to %d partitions, not %d",
                               STELE_PARTITIONS_MAX, (int)make->partition_count);
    return check_settings(make);
}

static enum stele_err check_growth(struct stele_topic_make *make, const struct stele_image_topic *topic)
{
    struct stele_error *error = &make->error;
    if (topic == NULL)
        return stele_error_set(error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic '%.249s'", make->name);
    make->topic_id = topic->topic_id;
    make->first = topic->partition_count;
    if (make->partition_count == make->first)
        return stele_error_set(error, STELE_INVALID_PARTITIONS, "topic '%s' has %d partitions already", make->name,
                               (int)make->first);
    if (make->partition_count < make->first)
        return stele_error_set(error, STELE_INVALID_PARTITIONS,
                               "topic '%s' has %d partitions: the number can only grow, not become %d", make->name,
                               (int)make->first, (int)make->partition_count);
    if (make->partition_count > STELE_PARTITIONS_MAX)
        return stele_error_set(error, STELE_INVALID_PARTITIONS, "a topic has at most %d partitions, not %d",
                               STELE_PARTITIONS_MAX, (int)make->partition_count);
    return STELE_OK;
}

/* Step 1: the turn. */

static enum stele_err add_setting(struct stele_topic_make *make, const char *name, const char *value)
{
    return stele_active_add(
        &make->turn,
        &(struct stele_metadata_record){
            .kind = STELE_METADATA_SETTING,
            .u.setting = {.scope = STELE_SUBJECT_TOPIC, .subject = make->name, .name = name, .value = value}});
}

/* Three replicas of which one may miss everything that was acknowledged are not what somebody wants who did not say. */
static enum stele_err add_min_isr(struct stele_topic_make *make)
{
    int32_t min_isr = stele_default_min_isr(make->replication_factor);
    char *value = NULL;
    bool is_said = stele_settings_is_set(make->control->node->settings, MIN_ISR);
    for (size_t i = 0; i < make->setting_count; i++)
        is_said = is_said || strcmp(make->settings[i].name, MIN_ISR) == 0;
    if (is_said || min_isr < 2)
        return STELE_OK;
    value = stele_arena_alloc(&make->turn.arena, 12);
    if (value == NULL)
        return STELE_NO_MEMORY;
    (void)snprintf(value, 12, "%d", (int)min_isr);
    return add_setting(make, MIN_ISR, value);
}

static enum stele_err add_new(struct stele_topic_make *make)
{
    struct stele_env *env = make->control->shard->env;
    bool is_usable = false;
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        make->topic_id = stele_uuid_make(high, low, &is_usable);
    }
    enum stele_err err = stele_active_add(
        &make->turn, &(struct stele_metadata_record){.kind = STELE_METADATA_TOPIC,
                                                     .u.topic = {.name = make->name, .topic_id = make->topic_id}});
    for (size_t i = 0; i < make->setting_count && err == STELE_OK; i++)
        err = add_setting(make, make->settings[i].name, make->settings[i].value);
    return err == STELE_OK ? STELE_OK : stele_error_set(&make->error, err, "memory ran out");
}

static enum stele_err work_out(struct stele_topic_make *make)
{
    struct stele_controller *control = make->control;
    const struct stele_image_topic *topic =
        make->is_growth ? stele_image_topic_named(&control->mlog.image, make->name) : NULL;
    if (control->state != STELE_CONTROLLER_SERVING)
        return stele_error_set(&make->error, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    count_partitions(make);
    enum stele_err err = make->is_growth ? check_growth(make, topic) : check_new(make);
    if (err == STELE_OK && !make->is_growth)
        err = add_new(make);
    if (err == STELE_OK)
        err = stele_topic_place(make, topic);
    if (err == STELE_OK && !make->is_growth && add_min_isr(make) != STELE_OK)
        err = stele_error_set(&make->error, STELE_NO_MEMORY, "memory ran out");
    return err;
}

static void turn_begins(struct stele_active_turn *turn)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(turn, struct stele_topic_make, turn);
    enum stele_err err = work_out(make);
    if (err == STELE_OK && !make->validate_only) {
        stele_active_write(turn);
        return;
    }
    make->error.err = err;
    stele_active_end(turn);
    make->done(make);
}

void stele_topic_make(struct stele_topic_make *make)
{
    make->error.text[0] = 0;
    make->error.err = STELE_OK;
    make->deadline_ms = stele_topic__deadline_ms(make->control, make->timeout_ms);
    make->wait.reconcile = NULL;
    make->turn = (struct stele_active_turn){.begin = turn_begins, .done = turn_done};
    stele_active_take(&make->control->active, &make->turn);
}
