/* Creation of topics, on the control shard: checked, written to the metadata log and synced, placed in directories,
 * opened on the data shards, answered. Several may be under way; a name is taken from the moment it is asked for. */
#include "node/node.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/server_call.h"
#include "node/settings.h"

#include <stdio.h>
#include <string.h>

enum { PARTITIONS_MAX = 10000, RETRY_MS = 200 };

struct create {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_controller *control;
    struct stele_list link; /* in control's creates */
    const char *name;
    struct stele_uuid topic_id;
    struct stele_image_topic *topic;
    int32_t partition_count;
    struct stele_metadata_change change;
    struct stele_job job;
    struct stele_timer timer; /* for another try */
    enum stele_err err, places_err;
    struct stele_place *places;
    int place_count, place_next, opening_count;
    bool has_offline;
    enum stele_err waits_for; /* OK: for nothing */
};

static void create_home(struct stele_task *task)
{
    struct create *create = STELE_CONTAINER_OF(task, struct create, task);
    stele_server_call_done(create->call);
}

static void finish(struct create *create, enum stele_err err, const char *message)
{
    struct stele_create_topic_response *response = &create->call->response.body.create_topic;
    const char *copy = stele_arena_string(&create->call->arena, message, strlen(message));
    *response = (struct stele_create_topic_response){.err = err,
                                                     .message = copy != NULL ? copy : "",
                                                     .topic_id = create->topic_id,
                                                     .partition_count = create->partition_count,
                                                     .replication_factor = 1};
    stele_list_remove(&create->link);
    stele_controller_places_free(create->control, create->places, create->place_count);
    create->places = NULL;
    create->place_count = 0;
    create->task.run = create_home;
    stele_shard_send(create->control->shard, create->call->shard, &create->task);
}

/* Checks. */

static bool is_taken(const struct create *create)
{
    const struct stele_controller *control = create->control;
    if (stele_image_topic_named(&control->mlog.image, create->name) != NULL)
        return true;
    for (struct stele_list *at = control->creates.next; at != &control->creates; at = at->next) {
        if (strcmp(STELE_CONTAINER_OF(at, struct create, link)->name, create->name) == 0)
            return true;
    }
    return false;
}

static enum stele_err check_settings(const struct create *create, struct stele_error *error)
{
    const struct stele_create_topic_request *request = &create->call->request.body.create_topic;
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    for (size_t i = 0; i < request->setting_count; i++) {
        if (request->settings[i].value == NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG, "%s has no value", request->settings[i].name);
        enum stele_err err =
            stele_settings_check_topic(rows, count, request->settings[i].name, request->settings[i].value, error);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

static enum stele_err check(struct create *create, struct stele_error *error)
{
    const struct stele_create_topic_request *request = &create->call->request.body.create_topic;
    if (create->control->state != STELE_CONTROLLER_SERVING)
        return stele_error_set(error, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    if (!stele_topic_name_is_legal(create->name))
        return stele_error_set(error, STELE_INVALID_TOPIC_EXCEPTION,
                               "'%.100s' is no legal topic name: 1 to %d of a-z A-Z 0-9 . _ -, not . or ..",
                               create->name, STELE_TOPIC_NAME_MAX);
    if (strcmp(create->name, STELE_METADATA_TOPIC_NAME) == 0)
        return stele_error_set(error, STELE_INVALID_TOPIC_EXCEPTION, "%s is the node's own", create->name);
    if (is_taken(create))
        return stele_error_set(error, STELE_TOPIC_ALREADY_EXISTS, "topic '%s' exists already", create->name);
    if (create->partition_count < 1 || create->partition_count > PARTITIONS_MAX)
        return stele_error_set(error, STELE_INVALID_PARTITIONS, "a topic has 1 to %d partitions, not %d",
                               PARTITIONS_MAX, (int)create->partition_count);
    if (request->replication_factor != -1 && request->replication_factor != 1)
        return stele_error_set(error, STELE_INVALID_REPLICATION_FACTOR, "there is 1 node: the factor cannot be %d",
                               (int)request->replication_factor);
    return check_settings(create, error);
}

/* Step 3: the logs are opened. */

static void partition_opened(struct stele_partition *partition, void *arg)
{
    struct create *create = arg;
    if (partition != NULL && (partition->told_err == STELE_NO_SPACE || partition->told_err == STELE_NO_MEMORY))
        create->waits_for = partition->told_err;
    else if (partition != NULL && partition->told_err != STELE_OK)
        create->has_offline = true;
    if (--create->opening_count > 0)
        return;
    if (create->err != STELE_OK) {
        finish(create, create->err, "the topic was created, but not all of its partitions could be opened");
        return;
    }
    stele_trace(create->control->shard->env, STELE_TRACE_TOPIC_CREATED, create->name, NULL, create->partition_count, 0,
                0);
    if (create->has_offline)
        finish(create, STELE_KAFKA_STORAGE_ERROR,
               "the topic was created, but a partition is offline: the node's log says why");
    else if (create->waits_for != STELE_OK)
        finish(
            create, create->waits_for,
            "the topic was created, but a partition waits for room on its disk or for memory: it comes up by itself");
    else
        finish(create, STELE_OK, "");
}

static void make_places(struct create *create);

/* The topic is durable: for want of memory it is not left without its partitions. */
static void try_later(struct create *create)
{
    struct stele_controller *control = create->control;
    struct stele_shard *shard = control->shard;
    if (control->state == STELE_CONTROLLER_SERVING)
        stele_shard_arm(shard, &create->timer, stele_env_mono_ms(shard->env) + RETRY_MS);
    else
        partition_opened(NULL, create); /* the next start makes them */
}

static void open_places(struct create *create)
{
    while (create->place_next < create->place_count) {
        create->opening_count++;
        create->err =
            stele_controller_open(create->control, &create->places[create->place_next], partition_opened, create);
        if (create->err != STELE_OK) {
            create->opening_count--;
            try_later(create);
            return;
        }
        create->place_next++;
    }
    create->err = create->places_err;
    if (create->err != STELE_OK)
        try_later(create);
    else
        partition_opened(NULL, create); /* what change_done counted */
}

static void timer_fired(struct stele_timer *timer)
{
    struct create *create = STELE_CONTAINER_OF(timer, struct create, timer);
    if (create->control->state != STELE_CONTROLLER_SERVING)
        partition_opened(NULL, create);
    else if (create->place_next < create->place_count)
        open_places(create);
    else
        make_places(create);
}

static void places_done(struct stele_job *job)
{
    open_places(STELE_CONTAINER_OF(job, struct create, job));
}

static void places_work(struct stele_job *job)
{
    struct create *create = STELE_CONTAINER_OF(job, struct create, job);
    create->places_err = stele_controller_place(create->control, create->topic, &create->places, &create->place_count);
}

static void make_places(struct create *create)
{
    stele_controller_places_free(create->control, create->places, create->place_count);
    create->places = NULL;
    create->place_count = 0;
    create->place_next = 0;
    create->job = (struct stele_job){.work = places_work, .done = places_done};
    stele_controller_job(create->control, &create->job);
}

/* Step 2: the records are durable and in the image. */
static void change_done(struct stele_metadata_change *change, enum stele_err err)
{
    struct create *create = STELE_CONTAINER_OF(change, struct create, change);
    struct stele_controller *control = create->control;
    if (err != STELE_OK) {
        finish(create, err,
               err == STELE_NO_SPACE ? "the disk of the metadata log is full: make room, then try again"
                                     : "the metadata log could not be written");
        return;
    }
    create->topic = stele_image_topic_named(&control->mlog.image, create->name);
    create->opening_count = 1; /* until all are under way */
    make_places(create);
}

/* Step 1 */

static void fill_partition(struct create *create, struct stele_metadata_record *record, int32_t number)
{
    const int32_t *self = &create->control->node->node_id;
    record->kind = STELE_METADATA_PARTITION;
    record->u.partition.topic_id = create->topic_id;
    record->u.partition.partition = number;
    record->u.partition.leader_id = *self;
    record->u.partition.leader_epoch = 0;
    record->u.partition.partition_epoch = 0;
    record->u.partition.replicas = self;
    record->u.partition.replica_count = 1;
    record->u.partition.isr = self;
    record->u.partition.isr_count = 1;
}

static bool make_records(struct create *create)
{
    const struct stele_create_topic_request *request = &create->call->request.body.create_topic;
    size_t count = 1 + request->setting_count + (size_t)create->partition_count, at = 0;
    struct stele_metadata_record *records = stele_arena_array(&create->call->arena, count, sizeof(*records));
    if (records == NULL)
        return false;
    records[at].kind = STELE_METADATA_TOPIC;
    records[at].u.topic.name = create->name;
    records[at++].u.topic.topic_id = create->topic_id;
    for (size_t i = 0; i < request->setting_count; i++, at++) {
        records[at].kind = STELE_METADATA_SETTING;
        records[at].u.setting.scope = STELE_SUBJECT_TOPIC;
        records[at].u.setting.subject = create->name;
        records[at].u.setting.name = request->settings[i].name;
        records[at].u.setting.value = request->settings[i].value;
    }
    for (int32_t i = 0; i < create->partition_count; i++)
        fill_partition(create, &records[at++], i);
    create->change = (struct stele_metadata_change){.records = records, .count = (int)count, .done = change_done};
    return true;
}

static void create_arrived(struct stele_task *task)
{
    struct create *create = STELE_CONTAINER_OF(task, struct create, task);
    const struct stele_create_topic_request *request = &create->call->request.body.create_topic;
    struct stele_controller *control = create->control;
    struct stele_env *env = control->shard->env;
    struct stele_error error = {.text = ""};
    bool is_usable = false;
    if (create->partition_count == -1)
        create->partition_count = (int32_t)stele_settings_int(control->node->settings, "num.partitions");
    enum stele_err err = check(create, &error);
    if (err != STELE_OK || request->validate_only) {
        finish(create, err, error.text);
        return;
    }
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        create->topic_id = stele_uuid_make(high, low, &is_usable);
    }
    stele_list_push(&control->creates, &create->link);
    if (!make_records(create)) {
        finish(create, STELE_NO_MEMORY, "memory ran out");
        return;
    }
    stele_metadata_log_change(&control->mlog, &create->change);
}

static void release(struct stele_server_call *call)
{
    struct create *create = call->state;
    /* All only when the node ends in the middle. */
    stele_timer_cancel(create->control->shard->wheel, &create->timer);
    stele_list_remove(&create->link);
    stele_controller_places_free(create->control, create->places, create->place_count);
}

void stele_handle_create_topic(struct stele_server_call *call)
{
    struct create *create = stele_arena_alloc(&call->arena, sizeof(*create));
    if (create == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    create->call = call;
    create->control = &call->shard->node->control;
    create->name = call->request.body.create_topic.name;
    create->partition_count = call->request.body.create_topic.partition_count;
    stele_list_init(&create->link);
    stele_timer_init(&create->timer, timer_fired);
    call->state = create;
    call->release = release;
    create->task.run = create_arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &create->task);
}
