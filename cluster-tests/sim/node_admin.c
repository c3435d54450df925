/* What a program does with topics: makes, grows and deletes them, deletes records, changes settings while data flows
 * and looks whether they are kept. A call that was given up may still be carried out a while later, and one that was
 * repeated twice. */
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"

#include <stdio.h>
#include <string.h>

static struct run_topic *topic_of(struct run_client *self, int number)
{
    return &self->run->topics[number];
}

static int64_t now_us(const struct run_client *self)
{
    return sim_world_now_us(&self->run->world);
}

/* Creations and deletions: what they overlap with is not sure. */

struct change {
    int64_t sent; /* requests of its kind before it */
    enum stele_api api;
};

static struct change change_begin(struct run_client *self, struct run_topic *topic, enum stele_api api)
{
    topic->changes++;
    topic->changing++;
    for (int i = 0; i < RUN_TUNED; i++)
        topic->tuned[i].is_sure = false;
    return (struct change){.sent = self->sent[api], .api = api};
}

/* When the last of its requests is carried out or lost. */
static int64_t change_end(struct run_client *self, struct run_topic *topic, const struct change *change, int code)
{
    bool may_come = code == (int)STELE_REQUEST_TIMED_OUT || code == (int)STELE_CLOSED ||
                    code == (int)STELE_UNREACHABLE || self->sent[change->api] > change->sent + 1;
    int64_t until_us = now_us(self) + (may_come ? RUN_LATE_US : 0);
    topic->changing--;
    topic->late_us = stele_max_i64(topic->late_us, until_us);
    return until_us;
}

bool admin_make(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    if (topic->is_created)
        return true;
    if (topic->life_count + topic->changing + 2 >= RUN_LIVES_MAX)
        return false;
    struct change change = change_begin(self, topic, STELE_API_CREATE_TOPIC);
    struct stele_result result =
        stele_topic_create(self->sim.client, topic->name, topic->partition_count, topic->settings);
    (void)change_end(self, topic, &change, result.code);
    if (result.code == (int)STELE_TOPIC_ALREADY_EXISTS) {
        topic->is_created = true;
        return true;
    }
    /* It may be there or not: recorded and offline, or not answered in time. */
    bool is_made = script_is_done(self, &result, "topic create");
    topic->is_created = topic->is_created || is_made;
    return is_made;
}

static void delete_topic(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    int lives = topic->life_count;
    if (topic->life_count + topic->changing + 4 >= RUN_LIVES_MAX)
        return;
    struct change change = change_begin(self, topic, STELE_API_DELETE_TOPIC);
    topic->deleting++;
    struct stele_result result = stele_topic_delete(self->sim.client, topic->name);
    topic->deleting--;
    topic->deleted_us = stele_max_i64(topic->deleted_us, change_end(self, topic, &change, result.code));
    topic->is_created = false;
    if (result.code != (int)STELE_UNKNOWN_TOPIC_OR_PARTITION && !script_is_done(self, &result, "topic delete")) {
        run_reach(self->run, RUN_POINT_TOPIC_DELETED_LATE);
        return;
    }
    if (result.code != 0)
        return;
    run_reach(self->run, RUN_POINT_TOPIC_DELETED);
    for (int i = 0; i < lives; i++) {
        if (!topic->lives[i]->must_be_gone)
            topic->lives[i]->gone_us = now_us(self);
        topic->lives[i]->must_be_gone = true;
    }
}

static void grow_topic(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    int32_t count = (int32_t)run_range(self, 1, RUN_PARTITIONS_MAX);
    struct stele_result result = stele_topic_grow(self->sim.client, topic->name, count);
    if (result.code == (int)STELE_INVALID_PARTITIONS)
        return;
    if (script_is_done(self, &result, "topic grow"))
        run_reach(self->run, RUN_POINT_TOPIC_GROWN);
}

/* Records */

/* From life `first` of the topic on. */
static void ask_deletion(struct run_topic *topic, int first, int32_t partition, int64_t offset)
{
    for (int i = first; i < topic->life_count; i++) {
        struct run_partition *it = &topic->lives[i]->partitions[partition];
        it->all_asked += offset == STELE_OFFSET_LATEST;
        it->start_asked = stele_max_i64(it->start_asked, offset);
    }
}

static void delete_records(struct run_client *self, int number)
{
    struct run *run = self->run;
    struct run_topic *topic = topic_of(self, number);
    int32_t partition = (int32_t)run_range(self, 0, topic->partition_count - 1);
    if (topic->life_count == 0)
        return;
    struct run_partition *last = &topic->lives[topic->life_count - 1]->partitions[partition];
    bool is_all = run_chance(self, 1, 8);
    int64_t wanted = is_all ? STELE_OFFSET_LATEST : run_range(self, 0, last->written_end), start = -1;
    /* Whichever topic the name means when it comes. */
    ask_deletion(topic, 0, partition, wanted);
    int lives = topic->life_count;
    int64_t sent = self->sent[STELE_API_DELETE_RECORDS];
    struct stele_result result = stele_records_delete(self->sim.client, topic->name, partition, wanted, &start);
    ask_deletion(topic, lives, partition, wanted);
    bool is_over = result.code == 0 && self->sent[STELE_API_DELETE_RECORDS] == sent + 1;
    for (int i = 0; i < topic->life_count && is_all && is_over; i++)
        topic->lives[i]->partitions[partition].all_asked--;
    if (result.code == (int)STELE_OFFSET_OUT_OF_RANGE || !script_is_done(self, &result, "records delete"))
        return;
    run_reach(run, RUN_POINT_RECORDS_DELETED);
    struct run_life *life = self->asked[number];
    if (start < wanted)
        sim_world_fail(&run->world, "%s-%d begins at %lld after its records below %lld were deleted", topic->name,
                       partition, (long long)start, (long long)wanted);
    life->partitions[partition].start_asked = stele_max_i64(life->partitions[partition].start_asked, start);
    life->partitions[partition].start = stele_max_i64(life->partitions[partition].start, start);
}

/* Settings */

static const struct {
    const char *name;
    int64_t low, high;
} tunings[RUN_TUNED] = {{"segment.bytes", 2000, 60000}, {"flush.messages", 1, 100}, {"flush.ms", 10, 10000},
                        {"retention.ms", 2000, 60000},  {"segment.ms", 500, 20000}, {"retention.bytes", 3000, 60000}};

/* What may hold from now on. */
static void loosen(struct run_topic *topic, int tuning, int64_t value)
{
    if (strcmp(tunings[tuning].name, "segment.bytes") == 0)
        topic->segment_bytes = stele_min_i64(topic->segment_bytes, value);
    else if (strcmp(tunings[tuning].name, "retention.ms") == 0)
        topic->retention_ms = stele_min_i64(topic->retention_ms, value);
    else if (strcmp(tunings[tuning].name, "retention.bytes") == 0)
        topic->has_retention_bytes = true;
}

static void alter(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    int tuning = (int)run_range(self, 0, RUN_TUNED - 1);
    struct run_tuned *tuned = &topic->tuned[tuning];
    int64_t value = run_range(self, tunings[tuning].low, tunings[tuning].high);
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    struct stele_setting settings[] = {{tunings[tuning].name, text}, {NULL, NULL}};
    loosen(topic, tuning, value);
    int64_t changes = topic->changes, serial = ++tuned->changes, sent = self->sent[STELE_API_ALTER_SETTINGS];
    bool is_alone =
        topic->changing == 0 && tuned->in_flight == 0 && now_us(self) > topic->late_us && now_us(self) > tuned->late_us;
    tuned->in_flight++;
    tuned->is_sure = false;
    struct stele_result result = stele_config_alter(self->sim.client, STELE_CONFIG_TOPIC, topic->name, settings, false);
    tuned->in_flight--;
    bool is_once = self->sent[STELE_API_ALTER_SETTINGS] == sent + 1;
    if (!script_is_done(self, &result, "settings alter") || !is_once)
        tuned->late_us = stele_max_i64(tuned->late_us, now_us(self) + RUN_LATE_US);
    if (result.code != 0)
        return;
    run_reach(self->run, RUN_POINT_ALTERED);
    if (!is_alone || tuned->changes != serial || topic->changes != changes)
        return;
    tuned->is_sure = true; /* also when it was repeated: to the same value */
    (void)snprintf(tuned->value, sizeof(tuned->value), "%s", text);
}

static void check_setting(struct run_client *self, int number, int tuning)
{
    struct run *run = self->run;
    struct run_topic *topic = topic_of(self, number);
    const struct run_tuned *tuned = &topic->tuned[tuning];
    const char *names[] = {tunings[tuning].name, NULL};
    struct stele_config *config = NULL;
    bool was_sure = tuned->is_sure;
    int64_t serial = tuned->changes, changes = topic->changes;
    struct stele_result result =
        stele_config_describe(self->sim.client, STELE_CONFIG_TOPIC, topic->name, names, 0, &config);
    if (!script_is_done(self, &result, "settings describe"))
        return;
    const char *value = config->setting_count == 1 ? config->settings[0]->value : NULL;
    if (was_sure && tuned->changes == serial && topic->changes == changes) {
        if (value == NULL || strcmp(value, tuned->value) != 0)
            sim_world_fail(&run->world, "%s of %s is %s, and was set to %s", tunings[tuning].name, topic->name,
                           value == NULL ? "nothing" : value, tuned->value);
        run_reach(run, RUN_POINT_SETTING_KEPT);
    }
    stele_config_free(config);
}

/* Disks */

/* Whatever the node says, but nonsense. */
static bool may_be_said(int code)
{
    static const enum stele_err known[] = {STELE_OK,
                                           STELE_UNKNOWN_TOPIC_OR_PARTITION,
                                           STELE_REPLICA_NOT_AVAILABLE,
                                           STELE_KAFKA_STORAGE_ERROR,
                                           STELE_BROKER_NOT_AVAILABLE,
                                           STELE_NO_SPACE,
                                           STELE_THROTTLING_QUOTA_EXCEEDED, /* memory */
                                           STELE_NO_MEMORY};
    for (size_t i = 0; i < STELE_ARRAY_LEN(known); i++) {
        if (code == (int)known[i])
            return true;
    }
    return false;
}

static void move_replica(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    struct stele_replica_move move = {.topic = topic->name,
                                      .partition = (int32_t)run_range(self, 0, topic->partition_count - 1),
                                      .directory = run_chance(self, 1, 2) ? "a" : "b"};
    struct stele_partition_results *results = NULL;
    for (int i = 0; i < topic->life_count; i++) /* its first segment need not be of offset 0 where it goes */
        topic->lives[i]->partitions[move.partition].has_names = true;
    struct stele_result result = stele_replicas_move(self->sim.client, -1, &move, 1, &results);
    if (!script_is_done(self, &result, "replica move"))
        return;
    if (results->outcome_count != 1 || !may_be_said(results->outcomes[0]->code))
        sim_world_fail(&self->run->world, "a move of %s-%d to %s got %zu answers: %d %s", topic->name, move.partition,
                       move.directory, results->outcome_count, results->outcomes[0]->code, results->outcomes[0]->text);
    stele_partition_results_free(results);
}

/* Looks */

static void look_at_logs(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    struct stele_log_descriptions *logs = NULL;
    unsigned with = run_chance(self, 1, 2) ? STELE_LOG_WITH_SEGMENTS : STELE_LOG_WITH_SEGMENTS | STELE_LOG_WITH_STATS;
    struct stele_result result = stele_topic_logs(self->sim.client, topic->name, -1, with, &logs);
    if (result.code == (int)STELE_UNKNOWN_TOPIC_OR_PARTITION || !script_is_done(self, &result, "log describe"))
        return;
    for (size_t i = 0; i < logs->log_count; i++) {
        const struct stele_log_description *log = logs->logs[i];
        bool is_sane = log->code != 0 || (log->log_start_offset <= log->high_watermark &&
                                          log->high_watermark <= log->log_end_offset && log->segment_count > 0);
        if (!is_sane)
            sim_world_fail(&self->run->world, "%s-%d is described with %lld to %lld, %lld, %zu segments", topic->name,
                           log->partition, (long long)log->log_start_offset, (long long)log->high_watermark,
                           (long long)log->log_end_offset, log->segment_count);
        for (size_t k = 0; k < log->damage_count; k++) {
            if (!rot_covers(self->run, number, log->partition, log->damages[k]->first_offset,
                            log->damages[k]->last_offset))
                sim_world_fail(&self->run->world, "%s-%d is described with damage from %lld to %lld, and it is sound",
                               topic->name, log->partition, (long long)log->damages[k]->first_offset,
                               (long long)log->damages[k]->last_offset);
            run_reach(self->run, RUN_POINT_ROT_DESCRIBED);
        }
    }
    stele_log_descriptions_free(logs);
}

static void describe_topic(struct run_client *self, int number)
{
    struct run_topic *topic = topic_of(self, number);
    const char *names[] = {topic->name, NULL};
    struct stele_topic_descriptions *described = NULL;
    struct stele_result result = stele_topic_describe(self->sim.client, names, &described);
    if (!script_is_done(self, &result, "topic describe"))
        return;
    stele_topic_descriptions_free(described);
}

void admin_act(struct run_client *self)
{
    const struct run_faults *faults = &self->run->faults;
    int number = (int)run_range(self, 0, self->run->topic_count - 1);
    int64_t draw = run_range(self, 0, 99);
    if (!admin_make(self, number))
        return;
    if (self->run->dir_count > 1 && run_chance(self, 1, 6)) {
        move_replica(self, number);
        return;
    }
    if (draw < 20 && faults->has_topic_deaths)
        delete_topic(self, number);
    else if (draw < 30 && faults->has_topic_deaths)
        grow_topic(self, number);
    else if (draw < 45 && faults->has_tuning)
        delete_records(self, number);
    else if (draw < 70 && faults->has_tuning)
        alter(self, number);
    else if (draw < 85 && faults->has_tuning)
        check_setting(self, number, (int)run_range(self, 0, RUN_TUNED - 1));
    else if (draw < 92)
        look_at_logs(self, number);
    else
        describe_topic(self, number);
}
