/* Turns, and how topics and partitions are made. */
#include "base/check.h"
#include "node/node.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/settings.h"
#include "node/topic_ops.h"

#include <string.h>

enum { RETRY_MS = 200 };

/* Turns. */

static struct stele_topic_turn *turn_at(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_topic_turn, link);
}

static void turn_came(struct stele_task *task)
{
    struct stele_topic_turn *turn = STELE_CONTAINER_OF(task, struct stele_topic_turn, task);
    turn->begin(turn);
}

static struct stele_topic_turn *first_turn(struct stele_controller *control, const char *name)
{
    for (struct stele_list *at = control->turns.next; at != &control->turns; at = at->next) {
        if (strcmp(turn_at(at)->name, name) == 0)
            return turn_at(at);
    }
    return NULL;
}

void stele_topic_turn_take(struct stele_controller *control, struct stele_topic_turn *turn)
{
    bool is_first = first_turn(control, turn->name) == NULL;
    turn->control = control;
    stele_list_push(&control->turns, &turn->link);
    if (is_first)
        turn->begin(turn);
}

/* The next one comes as a message: however many fail at once, none is inside another. */
void stele_topic_turn_end(struct stele_topic_turn *turn)
{
    struct stele_env *env = turn->control->shard->env;
    stele_list_remove(&turn->link);
    struct stele_topic_turn *next = first_turn(turn->control, turn->name);
    if (next == NULL)
        return;
    next->task.run = turn_came;
    env->ops->post(env, &next->task);
}

/* The end. */

static void drop_places(struct stele_topic_make *make)
{
    if (make->places != NULL)
        stele_controller_places_free(make->control, make->places, make->place_count);
    make->places = NULL;
    make->place_count = 0;
    make->place_next = 0;
}

void stele_topic_make_drop(struct stele_topic_make *make)
{
    if (make->control == NULL)
        return;
    stele_timer_cancel(make->control->shard->wheel, &make->timer);
    stele_list_remove(&make->turn.link);
    drop_places(make);
}

static void finish(struct stele_topic_make *make)
{
    drop_places(make);
    stele_topic_turn_end(&make->turn);
    make->done(make);
}

static void finish_with(struct stele_topic_make *make, enum stele_err err, const char *text)
{
    make->error.text[0] = 0;
    make->error.err = err;
    if (err != STELE_OK)
        (void)stele_error_set(&make->error, err, "%s", text);
    finish(make);
}

/* Checks. */

static enum stele_err check_settings(struct stele_topic_make *make)
{
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    for (size_t i = 0; i < make->setting_count; i++) {
        const struct stele_setting_pair *setting = &make->settings[i];
        if (setting->value == NULL)
            return stele_error_set(&make->error, STELE_INVALID_CONFIG, "%s has no value", setting->name);
        enum stele_err err = stele_settings_check_topic(rows, count, setting->name, setting->value, &make->error);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
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
    if (make->replication_factor != -1 && make->replication_factor != 1)
        return stele_error_set(error, STELE_INVALID_REPLICATION_FACTOR, "there is 1 node: the factor cannot be %d",
                               (int)make->replication_factor);
    return check_settings(make);
}

static enum stele_err check_growth(struct stele_topic_make *make)
{
    struct stele_error *error = &make->error;
    make->topic = stele_image_topic_named(&make->control->mlog.image, make->name);
    if (make->topic == NULL)
        return stele_error_set(error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "there is no topic '%.249s'", make->name);
    make->topic_id = make->topic->topic_id;
    make->first = make->topic->partition_count;
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

static enum stele_err check(struct stele_topic_make *make)
{
    if (make->control->state != STELE_CONTROLLER_SERVING)
        return stele_error_set(&make->error, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back");
    if (stele_quorum_voters(&make->control->mlog.quorum)->count > 1)
        return stele_error_set(&make->error, STELE_UNSUPPORTED_VERSION,
                               "this version forms a cluster and replicates its metadata, but not yet its topics: keep "
                               "them on nodes that are started without --peers");
    return make->is_growth ? check_growth(make) : check_new(make);
}

/* Step 3: the logs are opened. */

static void all_opened(struct stele_topic_make *make)
{
    if (make->open_err != STELE_OK) {
        finish_with(make, make->open_err, "it was made, but not all of its partitions could be opened");
        return;
    }
    stele_trace(make->control->shard->env, make->is_growth ? STELE_TRACE_TOPIC_GREW : STELE_TRACE_TOPIC_CREATED,
                make->name, NULL, make->partition_count, 0, 0);
    if (make->has_offline)
        finish_with(make, STELE_KAFKA_STORAGE_ERROR,
                    "it was made, but a partition is offline: the node's log says why");
    else
        finish_with(make, make->waits_for,
                    "it was made, but a partition waits for room on its disk or for memory: it comes up by itself");
}

static void partition_opened(struct stele_partition *partition, void *arg)
{
    struct stele_topic_make *make = arg;
    if (partition != NULL && (partition->told_err == STELE_NO_SPACE || partition->told_err == STELE_NO_MEMORY))
        make->waits_for = partition->told_err;
    else if (partition != NULL && partition->told_err != STELE_OK)
        make->has_offline = true;
    if (--make->opening_count == 0)
        all_opened(make);
}

static void make_places(struct stele_topic_make *make);

/* It is durable: for want of memory it is not left without its partitions. */
static void try_later(struct stele_topic_make *make)
{
    struct stele_controller *control = make->control;
    struct stele_shard *shard = control->shard;
    if (control->state == STELE_CONTROLLER_SERVING)
        stele_shard_arm(shard, &make->timer, stele_env_mono_ms(shard->env) + RETRY_MS);
    else
        partition_opened(NULL, make); /* the next start makes them */
}

static void open_places(struct stele_topic_make *make)
{
    while (make->place_next < make->place_count) {
        make->opening_count++;
        make->open_err = stele_controller_open(make->control, &make->places[make->place_next], partition_opened, make);
        if (make->open_err != STELE_OK) {
            make->opening_count--;
            try_later(make);
            return;
        }
        make->place_next++;
    }
    make->open_err = make->places_err;
    if (make->open_err != STELE_OK)
        try_later(make);
    else
        partition_opened(NULL, make); /* what change_done counted */
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(timer, struct stele_topic_make, timer);
    if (make->control->state != STELE_CONTROLLER_SERVING)
        partition_opened(NULL, make);
    else if (make->place_next < make->place_count)
        open_places(make);
    else
        make_places(make);
}

static void places_done(struct stele_job *job)
{
    open_places(STELE_CONTAINER_OF(job, struct stele_topic_make, job));
}

static void places_work(struct stele_job *job)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(job, struct stele_topic_make, job);
    make->places_err = stele_controller_place(make->control, make->topic, &make->places, &make->place_count);
}

static void make_places(struct stele_topic_make *make)
{
    drop_places(make);
    make->job = (struct stele_job){.work = places_work, .done = places_done};
    stele_controller_job(make->control, &make->job);
}

/* Step 2: the records are durable and in the image. */
static void change_done(struct stele_metadata_change *change, enum stele_err err)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(change, struct stele_topic_make, change);
    if (err != STELE_OK) {
        finish_with(make, err, stele_metadata_log_why(err));
        return;
    }
    make->topic = stele_image_topic_named(&make->control->mlog.image, make->name);
    make->opening_count = 1; /* until all are under way */
    make_places(make);
}

/* Step 1 */

static void fill_partition(struct stele_topic_make *make, struct stele_metadata_record *record, int32_t number)
{
    const int32_t *self = &make->control->node->node_id;
    record->kind = STELE_METADATA_PARTITION;
    record->u.partition.topic_id = make->topic_id;
    record->u.partition.partition = number;
    record->u.partition.leader_id = *self;
    record->u.partition.leader_epoch = 0;
    record->u.partition.partition_epoch = 0;
    record->u.partition.replicas = self;
    record->u.partition.replica_count = 1;
    record->u.partition.isr = self;
    record->u.partition.isr_count = 1;
}

static bool make_records(struct stele_topic_make *make)
{
    size_t count = 1 + make->setting_count + (size_t)(make->partition_count - make->first), at = 0;
    struct stele_metadata_record *records = stele_arena_array(make->arena, count, sizeof(*records));
    if (records == NULL)
        return false;
    if (!make->is_growth) {
        records[at].kind = STELE_METADATA_TOPIC;
        records[at].u.topic.name = make->name;
        records[at++].u.topic.topic_id = make->topic_id;
    }
    for (size_t i = 0; i < make->setting_count; i++, at++) {
        records[at].kind = STELE_METADATA_SETTING;
        records[at].u.setting.scope = STELE_SUBJECT_TOPIC;
        records[at].u.setting.subject = make->name;
        records[at].u.setting.name = make->settings[i].name;
        records[at].u.setting.value = make->settings[i].value;
    }
    for (int32_t i = make->first; i < make->partition_count; i++)
        fill_partition(make, &records[at++], i);
    make->change = (struct stele_metadata_change){.records = records, .count = (int)at, .done = change_done};
    return true;
}

static void turn_begins(struct stele_topic_turn *turn)
{
    struct stele_topic_make *make = STELE_CONTAINER_OF(turn, struct stele_topic_make, turn);
    struct stele_controller *control = make->control;
    struct stele_env *env = control->shard->env;
    bool is_usable = make->is_growth;
    if (!make->is_growth && make->partition_count == -1)
        make->partition_count = (int32_t)stele_settings_int(control->node->settings, "num.partitions");
    enum stele_err err = check(make);
    if (err != STELE_OK || make->validate_only) {
        make->error.err = err;
        finish(make);
        return;
    }
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        make->topic_id = stele_uuid_make(high, low, &is_usable);
    }
    if (make_records(make))
        stele_metadata_log_change(&control->mlog, &make->change);
    else
        finish_with(make, STELE_NO_MEMORY, "memory ran out");
}

void stele_topic_make(struct stele_topic_make *make)
{
    make->error.text[0] = 0;
    make->error.err = STELE_OK;
    stele_timer_init(&make->timer, timer_fired);
    make->turn.name = make->name;
    make->turn.begin = turn_begins;
    stele_topic_turn_take(make->control, &make->turn);
}
