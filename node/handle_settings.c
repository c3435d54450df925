/* Settings, on the control shard: what holds and where it comes from, and changes at run time: all of a request are
 * checked, then written to the metadata log in one batch, then taken over, then answered. */
#include "node/active_partitions.h"
#include "node/node.h"
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/settings.h"

#include <stdio.h>
#include <string.h>

#define MIN_ISR "min.insync.replicas"
#define FLUSH "flush.before.ack"

enum { SUBJECT_BYTES = 16 };

struct settings_call {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_controller *control;
    enum stele_subject_kind kind;
    const char *subject; /* as the records name it */
    char node_text[SUBJECT_BYTES];
    struct stele_image_topic *topic;
    struct stele_active_turn turn; /* of a change */
    bool is_alter;
    int32_t min_isr; /* that would hold where a topic has none of its own, or of the topic */
    bool flushes;    /* likewise flush.before.ack */
    bool has_no_memory;
};

static void call_home(struct stele_task *task)
{
    struct settings_call *settings = STELE_CONTAINER_OF(task, struct settings_call, task);
    if (settings->has_no_memory)
        stele_server_call_fail(settings->call, "memory ran out");
    else
        stele_server_call_done(settings->call);
}

static void go_home(struct settings_call *settings)
{
    settings->task.run = call_home;
    stele_shard_send(settings->control->shard, settings->call->shard, &settings->task);
}

static void go_there(struct stele_server_call *call, void (*arrived)(struct stele_task *task))
{
    struct settings_call *settings = stele_arena_alloc(&call->arena, sizeof(*settings));
    if (settings == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    settings->call = call;
    settings->control = &call->shard->node->control;
    call->state = settings;
    settings->task.run = arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &settings->task);
}

/* One that is registered, or of the peers. The controller changes the settings of every node. */
static bool is_of_cluster(struct stele_controller *control, const char *subject)
{
    char text[SUBJECT_BYTES];
    for (const struct stele_image_member *at = control->mlog.image.members; at != NULL; at = at->next) {
        (void)snprintf(text, sizeof(text), "%d", (int)at->node_id);
        if (strcmp(text, subject) == 0)
            return true;
    }
    for (int i = 0; i < control->peers.count; i++) {
        (void)snprintf(text, sizeof(text), "%d", (int)control->peers.items[i].node_id);
        if (strcmp(text, subject) == 0)
            return true;
    }
    return false;
}

/* Whose settings are asked for. */
static enum stele_err find_subject(struct settings_call *settings, const char *subject, struct stele_error *error)
{
    struct stele_controller *control = settings->control;
    settings->subject = subject;
    switch (settings->kind) {
    case STELE_SUBJECT_CLUSTER:
        return subject[0] == 0 ? STELE_OK
                               : stele_error_set(error, STELE_INVALID_REQUEST,
                                                 "the cluster's settings have no subject, '%.100s' was given", subject);
    case STELE_SUBJECT_NODE:
        if (settings->is_alter && is_of_cluster(control, subject))
            return STELE_OK;
        (void)snprintf(settings->node_text, sizeof(settings->node_text), "%d", (int)control->node->node_id);
        settings->subject = settings->node_text;
        return subject[0] == 0 || strcmp(subject, settings->node_text) == 0
                   ? STELE_OK
                   : stele_error_set(error, STELE_INVALID_REQUEST, "this is node %s, not node '%.100s': ask that one",
                                     settings->node_text, subject);
    case STELE_SUBJECT_TOPIC:
        settings->topic = stele_image_topic_named(&control->mlog.image, subject);
        return settings->topic != NULL
                   ? STELE_OK
                   : stele_error_set(error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic '%.250s'", subject);
    }
    return STELE_INVALID_REQUEST;
}

/* Describe. */

struct view {
    struct settings_call *settings;
    const struct stele_describe_settings_request *request;
    struct stele_described_setting *out;
    size_t count;
    bool has_no_memory;
};

static const char *copy(struct view *view, const char *text)
{
    if (text == NULL)
        return NULL;
    const char *kept = stele_arena_string(&view->settings->call->arena, text, strlen(text));
    view->has_no_memory = view->has_no_memory || kept == NULL;
    return kept;
}

static const char *warning_of(struct view *view, const struct stele_setting_row *row,
                              const struct stele_log_config *config)
{
    struct stele_error text = {.text = ""};
    if (row->topic_name == NULL || strcmp(row->topic_name, "segment.index.bytes") != 0)
        return "";
    /* Twelve bytes an entry of the time index, the larger of the two. */
    int64_t reach = config->segment_index_bytes / 12 * stele_max_i64(config->index_interval_bytes, 1);
    if (reach < config->segment_bytes)
        (void)stele_error_set(&text, STELE_INVALID_CONFIG,
                              "an index of this size may be full after %lld bytes of log, before segment.bytes (%lld): "
                              "segments would roll early; raise it or index.interval.bytes",
                              (long long)reach, (long long)config->segment_bytes);
    const char *kept = copy(view, text.text);
    return kept == NULL ? "" : kept;
}

static void view_row(struct view *view, const struct stele_setting_row *row, const struct stele_log_config *config)
{
    struct settings_call *settings = view->settings;
    struct stele_node *node = settings->control->node;
    struct stele_described_setting *out = &view->out[view->count++];
    char number[STELE_SETTING_NUMBER_BYTES];
    const char *origin = NULL, *value = stele_settings_in_force(node->settings, row, number, &origin);
    bool of_topic = settings->kind == STELE_SUBJECT_TOPIC;
    *out = (struct stele_described_setting){.name = of_topic ? row->topic_name : row->name,
                                            .value = copy(view, value),
                                            .origin = STELE_SETTING_OF_DEFAULT,
                                            .origin_detail = "",
                                            .default_value = row->default_text,
                                            .is_dynamic = row->is_dynamic,
                                            .doc = view->request->with_doc ? row->doc : "",
                                            .warning = warning_of(view, row, config)};
    if (origin != NULL && strcmp(origin, STELE_ORIGIN_OF_CLUSTER) == 0) {
        out->origin = STELE_SETTING_OF_CLUSTER;
    } else if (origin != NULL && strcmp(origin, STELE_ORIGIN_OF_NODE) == 0) {
        out->origin = STELE_SETTING_OF_NODE;
    } else if (origin != NULL) {
        out->origin = STELE_SETTING_OF_START;
        const char *detail = copy(view, origin);
        out->origin_detail = detail == NULL ? "" : detail;
    }
    const struct stele_image_change *own =
        of_topic ? stele_image_setting(&settings->topic->settings, row->topic_name) : NULL;
    if (own != NULL) {
        out->value = copy(view, own->value);
        out->origin = STELE_SETTING_OF_TOPIC;
        out->origin_detail = "";
    }
}

static bool is_wanted(const struct view *view, const struct stele_setting_row *row)
{
    const struct stele_describe_settings_request *request = view->request;
    const struct settings_call *settings = view->settings;
    bool of_topic = settings->kind == STELE_SUBJECT_TOPIC;
    if (of_topic && row->topic_name == NULL)
        return false;
    for (size_t i = 0; i < request->name_count; i++) {
        int count = 0;
        const struct stele_setting_row *rows = stele_node_setting_rows(&count);
        if (stele_settings_find(rows, count, request->names[i], of_topic, NULL) == row)
            return true;
    }
    if (request->name_count > 0)
        return false;
    /* Of the cluster: what was changed for all nodes. */
    return settings->kind != STELE_SUBJECT_CLUSTER ||
           stele_image_setting(&settings->control->mlog.image.cluster, row->name) != NULL;
}

static bool view_changes(struct view *view, struct stele_describe_settings_response *response)
{
    const struct settings_call *settings = view->settings;
    const struct stele_image_settings *of =
        stele_image_settings_of(&settings->control->mlog.image, settings->kind, settings->subject);
    size_t count = 0;
    for (struct stele_list *at = of == NULL ? NULL : of->history.next; at != NULL && at != &of->history; at = at->next)
        count++;
    struct stele_setting_change *changes = stele_arena_array(&settings->call->arena, count, sizeof(*changes));
    if (changes == NULL)
        return false;
    count = 0;
    for (struct stele_list *at = of == NULL ? NULL : of->history.next; at != NULL && at != &of->history;
         at = at->next) {
        const struct stele_image_change *change = STELE_CONTAINER_OF(at, struct stele_image_change, of_subject);
        changes[count++] = (struct stele_setting_change){.time_ms = change->time_ms,
                                                         .kind = change->kind,
                                                         .subject = copy(view, change->subject),
                                                         .name = copy(view, change->name),
                                                         .value = copy(view, change->value)};
    }
    response->changes = changes;
    response->change_count = count;
    return true;
}

static enum stele_err check_names(const struct view *view, struct stele_error *error)
{
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    for (size_t i = 0; i < view->request->name_count; i++) {
        if (stele_settings_find(rows, count, view->request->names[i], view->settings->kind == STELE_SUBJECT_TOPIC,
                                error) == NULL)
            return STELE_INVALID_CONFIG;
    }
    return STELE_OK;
}

static bool view_all(struct view *view, struct stele_describe_settings_response *response)
{
    struct settings_call *settings = view->settings;
    struct stele_log_config config;
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    view->out = stele_arena_array(&settings->call->arena, (size_t)count, sizeof(*view->out));
    if (view->out == NULL)
        return false;
    enum stele_err err = STELE_OK;
    if (settings->topic != NULL)
        err = stele_controller_topic_config(settings->control, settings->topic, &config);
    if (err != STELE_OK || settings->topic == NULL)
        stele_node_log_config(settings->control->node->settings, &config);
    for (int i = 0; i < count; i++) {
        if (is_wanted(view, &rows[i]))
            view_row(view, &rows[i], &config);
    }
    response->settings = view->out;
    response->setting_count = view->count;
    return !view->request->with_history || view_changes(view, response);
}

static void describe_arrived(struct stele_task *task)
{
    struct settings_call *settings = STELE_CONTAINER_OF(task, struct settings_call, task);
    struct stele_server_call *call = settings->call;
    struct view view = {.settings = settings, .request = &call->request.body.describe_settings};
    struct stele_describe_settings_response *response = &call->response.body.describe_settings;
    struct stele_error error = {.text = ""};
    settings->kind = view.request->kind;
    *response = (struct stele_describe_settings_response){.message = ""};
    response->err = find_subject(settings, view.request->subject, &error);
    if (response->err == STELE_OK)
        response->err = check_names(&view, &error);
    if (response->err != STELE_OK)
        response->message = copy(&view, error.text);
    else if (!view_all(&view, response))
        view.has_no_memory = true;
    settings->has_no_memory = view.has_no_memory;
    go_home(settings);
}

void stele_handle_describe_settings(struct stele_server_call *call)
{
    go_there(call, describe_arrived);
}

/* Alter. */

static void answer_alter(struct settings_call *settings, enum stele_err err, const char *message)
{
    const char *kept = stele_arena_string(&settings->call->arena, message, strlen(message));
    settings->call->response.body.alter_settings =
        (struct stele_alter_settings_response){.err = err, .message = kept != NULL ? kept : ""};
    go_home(settings);
}

static enum stele_err check_one(const struct settings_call *settings, size_t at, struct stele_error *error)
{
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    const struct stele_altered_setting *wanted = &request->settings[at];
    bool of_topic = settings->kind == STELE_SUBJECT_TOPIC;
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    const struct stele_setting_row *row = stele_settings_find(rows, count, wanted->name, of_topic, error);
    if (row == NULL)
        return STELE_INVALID_CONFIG;
    if (!row->is_dynamic)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "%s cannot change at run time: set it in the node's configuration and start it again",
                               wanted->name);
    for (size_t i = 0; i < at; i++) {
        if (stele_settings_find(rows, count, request->settings[i].name, of_topic, NULL) == row)
            return stele_error_set(error, STELE_INVALID_REQUEST, "%s is given twice", wanted->name);
    }
    return STELE_OK;
}

/* A topic's settings as they would be: its own that stay, then the new ones. */
static enum stele_err try_topic(const struct settings_call *settings, struct stele_settings **out,
                                struct stele_error *error)
{
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    const struct stele_image_settings *own = &settings->topic->settings;
    size_t most = (size_t)own->count + request->setting_count;
    const char **names = stele_arena_array(&settings->call->arena, most, sizeof(*names));
    const char **values = stele_arena_array(&settings->call->arena, most, sizeof(*values));
    int count = 0;
    if (names == NULL || values == NULL)
        return STELE_NO_MEMORY;
    for (int i = 0; i < own->count; i++) {
        bool stays = true;
        for (size_t k = 0; k < request->setting_count; k++)
            stays = stays && strcmp(request->settings[k].name, own->names[i]) != 0;
        if (!stays)
            continue;
        names[count] = own->names[i];
        values[count++] = own->values[i];
    }
    for (size_t k = 0; k < request->setting_count; k++) {
        if (request->settings[k].value == NULL)
            continue;
        names[count] = request->settings[k].name;
        values[count++] = request->settings[k].value;
    }
    return stele_settings_overlay(settings->control->node->settings, names, values, count, out, error);
}

/* It is the cluster's or a topic's, never a node's (node/settings.h). */
static bool is_shared(const struct settings_call *settings, const char *name)
{
    int at = 0;
    while (stele_node_shared_setting(at) != NULL && strcmp(stele_node_shared_setting(at), name) != 0)
        at++;
    return settings->control->peers.shard != NULL && stele_node_shared_setting(at) != NULL;
}

static enum stele_err try_node(const struct settings_call *settings, struct stele_settings **out,
                               struct stele_error *error)
{
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    enum stele_err err = stele_settings_copy(settings->control->node->settings, settings->control->node->mem, out);
    for (size_t i = 0; i < request->setting_count && err == STELE_OK; i++) {
        if (request->settings[i].value == NULL && is_shared(settings, request->settings[i].name))
            stele_settings_unset(*out, request->settings[i].name);
        else if (request->settings[i].value != NULL)
            err = stele_settings_set(*out, request->settings[i].name, request->settings[i].value, "", error);
    }
    return err;
}

static void take_shared(struct settings_call *settings, const struct stele_log_config *config)
{
    settings->min_isr = config->min_insync_replicas;
    settings->flushes = config->flush_before_ack;
}

static enum stele_err check_shared(const struct settings_call *settings, struct stele_error *error)
{
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    for (size_t i = 0; i < request->setting_count; i++) {
        if (settings->kind == STELE_SUBJECT_NODE && is_shared(settings, request->settings[i].name) &&
            request->settings[i].value != NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "%s is the same on all nodes: set it for the cluster, or for a topic",
                                   request->settings[i].name);
    }
    return STELE_OK;
}

static enum stele_err check_alter(struct settings_call *settings, struct stele_error *error)
{
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    struct stele_settings *trial = NULL;
    struct stele_log_config config;
    enum stele_err err = STELE_OK;
    for (size_t i = 0; i < request->setting_count && err == STELE_OK; i++)
        err = check_one(settings, i, error);
    if (err == STELE_OK)
        err = settings->topic != NULL ? try_topic(settings, &trial, error) : try_node(settings, &trial, error);
    if (err == STELE_OK) {
        stele_node_log_config(trial, &config);
        err = stele_node_check_log_config(&config, error);
    }
    if (err == STELE_OK)
        err = stele_throttle_check(trial, error);
    if (err == STELE_OK)
        take_shared(settings, &config);
    if (err == STELE_OK)
        err = check_shared(settings, error);
    const struct stele_node_options *options = &settings->control->node->options;
    if (err == STELE_OK && options->check_settings != NULL)
        err = options->check_settings(options->arg, trial, error);
    stele_settings_free(trial);
    return err;
}

static void turn_done(struct stele_active_turn *turn, enum stele_err err)
{
    struct settings_call *settings = STELE_CONTAINER_OF(turn, struct settings_call, turn);
    struct stele_controller *control = settings->control;
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    struct stele_error error = {.text = ""};
    if (err != STELE_OK) {
        stele_active_explain(&control->active, err, &error);
        answer_alter(settings, err, error.text);
        return;
    }
    for (size_t i = 0; i < request->setting_count; i++)
        stele_trace(control->shard->env, STELE_TRACE_SETTING_CHANGED, settings->subject, request->settings[i].name, 0,
                    0, 0);
    stele_controller_take_new_settings(control);
    stele_reconcile_look(&control->reconcile);
    answer_alter(settings, STELE_OK, "");
}

static bool has_own(const struct stele_image_topic *topic, const char *name)
{
    const struct stele_image_change *own = stele_image_setting(&topic->settings, name);
    return own != NULL && own->value != NULL;
}

static enum stele_err settle_topic(struct settings_call *settings, const struct stele_image_topic *topic)
{
    const struct stele_active *active = &settings->control->active;
    bool is_of_topic = settings->kind == STELE_SUBJECT_TOPIC;
    struct stele_topic_settled settled = {.min_isr = settings->min_isr};
    bool flushed = stele_active_flushes(active, topic);
    bool flushes = is_of_topic || !has_own(topic, FLUSH) ? settings->flushes : flushed;
    if (!is_of_topic && has_own(topic, MIN_ISR))
        settled.min_isr = stele_active_min_isr(active, topic);
    settled.is_unsynced = flushes && !flushed && settings->control->peers.shard != NULL;
    return stele_active_settle(&settings->turn, topic, &settled);
}

/* In the same batch, for the leader may go on by the new values as soon as it has applied them. */
static enum stele_err settle_topics(struct settings_call *settings)
{
    enum stele_err err = STELE_OK;
    if (settings->kind == STELE_SUBJECT_TOPIC)
        return settle_topic(settings, settings->topic);
    for (const struct stele_image_topic *topic = settings->control->mlog.image.by_name;
         topic != NULL && settings->kind == STELE_SUBJECT_CLUSTER && err == STELE_OK; topic = topic->by_name.next)
        err = settle_topic(settings, topic);
    return err;
}

static enum stele_err add_records(struct settings_call *settings, struct stele_error *error)
{
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    enum stele_err err = STELE_OK;
    for (size_t i = 0; i < request->setting_count && err == STELE_OK; i++)
        err = stele_active_add(&settings->turn,
                               &(struct stele_metadata_record){.kind = STELE_METADATA_SETTING,
                                                               .u.setting = {.scope = (int32_t)settings->kind,
                                                                             .subject = settings->subject,
                                                                             .name = request->settings[i].name,
                                                                             .value = request->settings[i].value}});
    if (err == STELE_OK)
        err = settle_topics(settings);
    return err == STELE_OK ? STELE_OK : stele_error_set(error, err, "memory ran out");
}

static void turn_begins(struct stele_active_turn *turn)
{
    struct settings_call *settings = STELE_CONTAINER_OF(turn, struct settings_call, turn);
    const struct stele_alter_settings_request *request = &settings->call->request.body.alter_settings;
    struct stele_error error = {.text = ""};
    enum stele_err err =
        settings->control->state == STELE_CONTROLLER_SERVING
            ? find_subject(settings, request->subject, &error)
            : stele_error_set(&error, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    if (err == STELE_OK)
        err = check_alter(settings, &error);
    bool is_written = err == STELE_OK && !request->validate_only && request->setting_count > 0;
    if (is_written)
        err = add_records(settings, &error);
    if (is_written && err == STELE_OK) {
        stele_active_write(turn);
        return;
    }
    stele_active_end(turn);
    answer_alter(settings, err, error.text);
}

static void alter_arrived(struct stele_task *task)
{
    struct settings_call *settings = STELE_CONTAINER_OF(task, struct settings_call, task);
    settings->kind = settings->call->request.body.alter_settings.kind;
    settings->is_alter = true;
    settings->turn = (struct stele_active_turn){.begin = turn_begins, .done = turn_done};
    stele_active_take(&settings->control->active, &settings->turn);
}

static void release(struct stele_server_call *call)
{
    struct settings_call *settings = call->state;
    if (settings != NULL)
        stele_active_drop(&settings->turn); /* only when the node ends in the middle */
}

void stele_handle_alter_settings(struct stele_server_call *call)
{
    call->release = release;
    go_there(call, alter_arrived);
}
