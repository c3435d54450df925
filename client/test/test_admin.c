/* The admin calls: what they ask, what becomes of the answers, and that one call frees them. */
#include "client/test/peer.h"

#include <stdio.h>
#include <string.h>

static int set_up(void **state)
{
    static struct peer peer;
    peer_init(&peer);
    *state = &peer;
    return 0;
}

static int tear_down(void **state)
{
    peer_deinit(*state);
    return 0;
}

static const struct stele_setting quick[] = {{"request.timeout.ms", "2000"}, {NULL, NULL}};

/* The node's side */

static const int32_t replicas[] = {3, 1, 2}, isr[] = {3, 1}, moving[] = {4, 5};
static const struct stele_described_partition partitions[] = {{.partition = 0,
                                                               .leader_id = 3,
                                                               .leader_epoch = 7,
                                                               .partition_epoch = 9,
                                                               .replicas = replicas,
                                                               .replica_count = 3,
                                                               .isr = isr,
                                                               .isr_count = 2},
                                                              {.partition = 1,
                                                               .err = STELE_LEADER_NOT_AVAILABLE,
                                                               .leader_id = -1,
                                                               .elr = isr,
                                                               .elr_count = 1,
                                                               .last_known_elr = isr + 1,
                                                               .last_known_elr_count = 1,
                                                               .adding = moving,
                                                               .adding_count = 2,
                                                               .removing = replicas + 2,
                                                               .removing_count = 1,
                                                               .is_recovering = true}};
static const struct stele_setting_pair pairs[] = {{"retention.ms", "5"}};
static const struct stele_described_topic topics[] = {
    {.name = "t", .partitions = partitions, .partition_count = 2, .settings = pairs, .setting_count = 1},
    {.name = "gone", .err = STELE_UNKNOWN_TOPIC_OR_PARTITION}};
static const struct stele_described_setting settings[] = {{.name = "retention.ms",
                                                           .value = "5",
                                                           .origin = STELE_SETTING_OF_TOPIC,
                                                           .origin_detail = "",
                                                           .default_value = "604800000",
                                                           .is_dynamic = true,
                                                           .doc = "How long.",
                                                           .warning = "soon"},
                                                          {.name = "cleanup.policy", .origin_detail = "--set"}};
static const struct stele_setting_change changes[] = {
    {.time_ms = 11, .kind = STELE_SUBJECT_TOPIC, .subject = "t", .name = "retention.ms", .value = "5"},
    {.time_ms = 12, .kind = STELE_SUBJECT_CLUSTER, .subject = "", .name = "log.retention.ms"}};
static const struct stele_described_segment segments[] = {{.base_offset = 0,
                                                           .next_offset = 10,
                                                           .bytes = 100,
                                                           .offset_index_bytes = 8,
                                                           .time_index_bytes = 12,
                                                           .first_timestamp = 1,
                                                           .largest_timestamp = 2,
                                                           .rolled_because = "segment.bytes",
                                                           .kept_because = "retention.ms",
                                                           .delete_at_ms = 77}};
static const struct stele_log_event log_events[] = {
    {.time_ms = 5, .kind = "roll", .offset = 10, .bytes = 100, .reason = "segment.bytes"}};
static const struct stele_described_damage damaged[] = {{.first_offset = 3, .last_offset = 4, .pos = 66}};
static const struct stele_histogram_bucket buckets[] = {{.up_to = 127, .count = 3}, {.up_to = 255, .count = 1}};
static const struct stele_log_histogram histograms[] = {
    {.name = "record bytes", .count = 4, .sum = 400, .max = 200, .buckets = buckets, .bucket_count = 2}};
static const struct stele_replica_progress progress[] = {
    {.node_id = 3, .log_end_offset = 10, .synced_offset = 8, .is_in_sync = true},
    {.node_id = 1, .log_end_offset = 7, .synced_offset = -1, .last_caught_up_ms = 12},
    {.node_id = 2, .log_end_offset = -1, .synced_offset = -1, .last_caught_up_ms = -1}};
static const struct stele_node_directory directories[] = {{.path = "/d", .free_bytes = 8, .partition_count = 2}};
static const struct stele_node_metric metrics[] = {{.name = "produces", .value = 17}};
static const struct stele_slow_request slow[] = {
    {.time_ms = 9, .api = STELE_API_FETCH, .client_id = "c", .peer = "p:1", .total_us = 50, .was_cold = true},
    {.api = 999, .client_id = "", .peer = ""}};

struct asked {
    int count;
    enum stele_api api;
    char text[256];
    enum stele_err err;
    int failures; /* after which it is OK */
    bool answers_short;
};

static void describe_logs(const struct stele_request *request, struct stele_response *response, struct asked *asked)
{
    static struct stele_described_log logs[64];
    const struct stele_describe_log_request *wanted = &request->body.describe_log;
    assert_in_range(wanted->partition_count, 1, 64);
    for (size_t i = 0; i < wanted->partition_count; i++)
        logs[i] = (struct stele_described_log){.message = "",
                                               .topic_id = wanted->partitions[i].topic_id,
                                               .partition = wanted->partitions[i].partition,
                                               .directory = "/d",
                                               .log_end_offset = 10,
                                               .segments = segments,
                                               .segment_count = wanted->with_segments,
                                               .events = log_events,
                                               .event_count = wanted->with_segments,
                                               .damaged = damaged,
                                               .damaged_count = wanted->with_segments,
                                               .histograms = histograms,
                                               .histogram_count = wanted->with_stats,
                                               .leader_id = 3,
                                               .epoch_start_offset = 6,
                                               .replicas = progress,
                                               .replica_count = 3};
    logs[0].err = asked->err;
    response->body.describe_log = (struct stele_describe_log_response){
        .logs = logs, .log_count = wanted->partition_count - (asked->answers_short ? 1 : 0)};
}

static void note(struct asked *asked, const char *text, long long number)
{
    (void)snprintf(asked->text, sizeof(asked->text), "%s %lld", text, number);
}

static void answer_alter(const struct stele_request *request, struct stele_response *response, struct asked *asked)
{
    const struct stele_alter_settings_request *alter = &request->body.alter_settings;
    assert_int_equal(alter->setting_count, 2);
    assert_null(alter->settings[1].value);
    note(asked, alter->subject, (int)alter->kind * 10 + alter->validate_only);
    response->body.alter_settings = (struct stele_alter_settings_response){
        .err = asked->err, .message = asked->err == STELE_OK ? "" : "segment.bytes: too small"};
}

static void answer_describe_settings(const struct stele_request *request, struct stele_response *response,
                                     struct asked *asked)
{
    const struct stele_describe_settings_request *wanted = &request->body.describe_settings;
    (void)snprintf(asked->text, sizeof(asked->text), "%s %d %zu%s%s", wanted->subject, (int)wanted->kind,
                   wanted->name_count, wanted->with_doc ? " doc" : "", wanted->with_history ? " history" : "");
    response->body.describe_settings = (struct stele_describe_settings_response){.err = asked->err,
                                                                                 .message = "",
                                                                                 .settings = settings,
                                                                                 .setting_count = 2,
                                                                                 .changes = changes,
                                                                                 .change_count = 2};
}

static void answer_status(const struct stele_request *request, struct stele_response *response, struct asked *asked)
{
    note(asked, request->body.node_status.with_metrics ? "metrics" : "", request->body.node_status.slow_requests_max);
    response->body.node_status = (struct stele_node_status_response){.err = asked->err,
                                                                     .node_id = 1,
                                                                     .cluster_id = "c",
                                                                     .software_version = "0.1.0",
                                                                     .uptime_ms = 5,
                                                                     .directories = directories,
                                                                     .directory_count = 1,
                                                                     .metrics = metrics,
                                                                     .metric_count = 1,
                                                                     .slow_requests = slow,
                                                                     .slow_request_count = 2};
}

static void admin(struct peer *peer, const struct stele_request *request, struct stele_response *response)
{
    struct asked *asked = peer->admin_arg;
    struct stele_delete_records_result *deleted = peer->scratch;
    asked->count++;
    asked->api = request->header.api;
    if (asked->failures > 0 && --asked->failures == 0)
        asked->err = STELE_OK;
    switch ((int)request->header.api) {
    case STELE_API_DELETE_TOPIC:
        note(asked, request->body.delete_topic.name, 0);
        response->body.delete_topic =
            (struct stele_delete_topic_response){.err = asked->err, .message = "", .name = "t"};
        break;
    case STELE_API_CREATE_PARTITIONS:
        note(asked, request->body.create_partitions.name, request->body.create_partitions.partition_count);
        response->body.create_partitions = (struct stele_create_partitions_response){
            .err = asked->err, .message = asked->err == STELE_OK ? "" : "fewer than there are"};
        break;
    case STELE_API_DESCRIBE_TOPIC:
        note(asked, request->body.describe_topic.all_topics ? "all" : "",
             (long long)request->body.describe_topic.topic_count);
        response->body.describe_topic =
            (struct stele_describe_topic_response){.err = asked->err, .topics = topics, .topic_count = 2};
        break;
    case STELE_API_DELETE_RECORDS:
        note(asked, "", request->body.delete_records.partitions[0].offset);
        *deleted = (struct stele_delete_records_result){
            .err = asked->err, .message = "", .topic_id = peer->topic_id, .low_watermark = 4};
        response->body.delete_records = (struct stele_delete_records_response){.results = deleted, .result_count = 1};
        break;
    case STELE_API_DESCRIBE_SETTINGS:
        answer_describe_settings(request, response, asked);
        break;
    case STELE_API_ALTER_SETTINGS:
        answer_alter(request, response, asked);
        break;
    case STELE_API_DESCRIBE_LOG:
        describe_logs(request, response, asked);
        break;
    case STELE_API_NODE_STATUS:
        answer_status(request, response, asked);
        break;
    default:
        fail_msg("api %d", (int)request->header.api);
    }
}

/* The calls, each with what comes of it looked at. */

static struct stele_result call_delete(struct stele_client *client)
{
    return stele_topic_delete(client, "t");
}

static struct stele_result call_grow(struct stele_client *client)
{
    return stele_topic_grow(client, "t", 12);
}

static struct stele_result call_describe(struct stele_client *client)
{
    const char *names[] = {"t", "gone", NULL};
    struct stele_topic_descriptions *made = NULL;
    struct stele_result result = stele_topic_describe(client, names, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->topic_count, 2);
    assert_string_equal(made->topics[0]->name, "gone");
    assert_int_equal(made->topics[0]->code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_true(made->topics[0]->text[0] != 0);
    const struct stele_topic_description *topic = made->topics[1];
    assert_int_equal(topic->partition_count, 2);
    assert_int_equal(topic->partitions[0]->leader_id, 3);
    assert_int_equal(topic->partitions[0]->leader_epoch, 7);
    assert_int_equal(topic->partitions[0]->partition_epoch, 9);
    assert_int_equal(topic->partitions[0]->replicas[2], 2);
    assert_int_equal(topic->partitions[0]->isr[1], 1);
    assert_string_equal(topic->partitions[0]->text, "");
    assert_int_equal(topic->partitions[1]->code, STELE_LEADER_NOT_AVAILABLE);
    assert_int_equal(topic->partitions[1]->elr[0], 3);
    assert_int_equal(topic->partitions[1]->last_known_elr[0], 1);
    assert_int_equal(topic->partitions[1]->adding_count, 2);
    assert_int_equal(topic->partitions[1]->adding[1], 5);
    assert_int_equal(topic->partitions[1]->removing[0], 2);
    assert_true(topic->partitions[1]->is_recovering);
    assert_false(topic->partitions[0]->is_recovering);
    assert_string_equal(topic->settings[0].value, "5");
    assert_null(topic->settings[1].name);
    stele_topic_descriptions_free(made);
    return result;
}

static struct stele_result call_delete_records(struct stele_client *client)
{
    int64_t start = -7;
    struct stele_result result = stele_records_delete(client, "t", 0, 4, &start);
    assert_int_equal(start, result.code == 0 ? 4 : -7);
    return result;
}

static struct stele_result call_config(struct stele_client *client)
{
    struct stele_config *made = NULL;
    struct stele_result result = stele_config_describe(client, STELE_CONFIG_TOPIC, "t", NULL,
                                                       STELE_CONFIG_WITH_DOC | STELE_CONFIG_WITH_HISTORY, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->setting_count, 2);
    assert_int_equal(made->settings[0]->origin, STELE_CONFIG_OF_TOPIC);
    assert_string_equal(made->settings[0]->default_value, "604800000");
    assert_string_equal(made->settings[0]->doc, "How long.");
    assert_string_equal(made->settings[0]->warning, "soon");
    assert_true(made->settings[0]->is_dynamic);
    assert_null(made->settings[1]->value);
    assert_string_equal(made->settings[1]->origin_detail, "--set");
    assert_int_equal(made->change_count, 2);
    assert_string_equal(made->changes[0]->subject, "t");
    assert_int_equal(made->changes[1]->time_ms, 12);
    assert_null(made->changes[1]->value);
    stele_config_free(made);
    return result;
}

static struct stele_result call_alter(struct stele_client *client)
{
    const struct stele_setting altered[] = {{"segment.bytes", "1"}, {"retention.ms", NULL}, {NULL, NULL}};
    return stele_config_alter(client, STELE_CONFIG_TOPIC, "t", altered, true);
}

static struct stele_result call_logs(struct stele_client *client)
{
    struct stele_log_descriptions *made = NULL;
    struct stele_result result =
        stele_topic_logs(client, NULL, -1, STELE_LOG_WITH_SEGMENTS | STELE_LOG_WITH_STATS, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->log_count, 4); /* apple 2, t 1, zebra 1 */
    assert_string_equal(made->logs[0]->topic, "apple");
    assert_int_equal(made->logs[1]->partition, 1);
    assert_string_equal(made->logs[3]->topic, "zebra");
    const struct stele_log_description *log = made->logs[3];
    assert_int_equal(log->log_end_offset, 10);
    assert_string_equal(log->segments[0]->rolled_because, "segment.bytes");
    assert_int_equal(log->segments[0]->delete_at_ms, 77);
    assert_string_equal(log->events[0]->kind, "roll");
    assert_int_equal(log->damages[0]->pos, 66);
    assert_int_equal(log->histograms[0]->bucket_count, 2);
    assert_int_equal(log->histograms[0]->buckets[1]->up_to, 255);
    assert_int_equal(log->leader_id, 3);
    assert_int_equal(log->epoch_start_offset, 6);
    assert_int_equal(log->replica_count, 3);
    assert_int_equal(log->replicas[0]->lag, 0);
    assert_int_equal(log->replicas[0]->synced_offset, 8);
    assert_true(log->replicas[0]->is_in_sync);
    assert_int_equal(log->replicas[1]->node_id, 1);
    assert_int_equal(log->replicas[1]->lag, 3);
    assert_int_equal(log->replicas[1]->caught_up_ms, 12);
    assert_int_equal(log->replicas[2]->lag, -1);
    stele_log_descriptions_free(made);
    return result;
}

static struct stele_result call_node(struct stele_client *client)
{
    struct stele_node_description *made = NULL;
    struct stele_result result = stele_node_describe(client, true, 20, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_string_equal(made->cluster_id, "c");
    assert_string_equal(made->directories[0]->path, "/d");
    assert_int_equal(made->metrics[0]->value, 17);
    assert_int_equal(made->slow_count, 2);
    assert_string_equal(made->slow[0]->api_name, "fetch");
    assert_true(made->slow[0]->was_cold);
    assert_string_equal(made->slow[1]->api_name, "");
    stele_node_description_free(made);
    return result;
}

struct admin_case {
    struct stele_result (*call)(struct stele_client *client);
    enum stele_api api;
    const char *asked;  /* NULL: anything */
    bool errs_in_parts; /* an error is told of a part of the answer, and is none of the call */
};

static const struct admin_case cases[] = {
    {call_delete, STELE_API_DELETE_TOPIC, "t 0", false},
    {call_grow, STELE_API_CREATE_PARTITIONS, "t 12", false},
    {call_describe, STELE_API_DESCRIBE_TOPIC, " 2", false},
    {call_delete_records, STELE_API_DELETE_RECORDS, " 4", false},
    {call_config, STELE_API_DESCRIBE_SETTINGS, "t 2 0 doc history", false},
    {call_alter, STELE_API_ALTER_SETTINGS, "t 21", false},
    {call_logs, STELE_API_DESCRIBE_LOG, NULL, true},
    {call_node, STELE_API_NODE_STATUS, "metrics 20", false},
};

static void script(struct peer *peer, struct asked *asked)
{
    static struct stele_delete_records_result scratch;
    *asked = (struct asked){0};
    peer->admin = admin;
    peer->admin_arg = asked;
    peer->scratch = &scratch;
}

/* Each call asks for what was wanted and brings what was answered, whatever the chunks. */
static void test_calls(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    peer->chunk_max = 5;
    struct stele_client *client = peer_client(peer, NULL);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        script(peer, &asked);
        struct stele_result result = cases[i].call(client);
        assert_int_equal(result.code, 0);
        assert_int_equal(asked.api, cases[i].api);
        assert_int_equal(asked.count, 1);
        if (cases[i].asked != NULL)
            assert_string_equal(asked.text, cases[i].asked);
    }
    stele_client_free(client);
}

/* An error that may pass is tried again; one that will not comes back at once with its code, and a lost connection in
 * the middle is nobody's concern. */
static void test_errors(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_client *client = peer_client(peer, quick);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        if (cases[i].errs_in_parts)
            continue;
        script(peer, &asked);
        asked.err = STELE_NOT_CONTROLLER;
        asked.failures = 3;
        assert_int_equal(cases[i].call(client).code, 0);
        assert_int_equal(asked.count, 3);
        script(peer, &asked);
        asked.err = STELE_POLICY_VIOLATION;
        struct stele_result result = cases[i].call(client);
        assert_int_equal(result.code, STELE_POLICY_VIOLATION);
        assert_false(result.is_retriable);
        assert_true(result.text[0] != 0);
        assert_int_equal(asked.count, 1);
        script(peer, &asked);
        peer->garbage = 1;
        assert_int_equal(cases[i].call(client).code, 0);
    }
    stele_client_free(client);
}

/* A change whose answer was lost is asked for again; when it is refused then, because it was done, that is said. */
static void test_lost_answers(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_client *client = peer_client(peer, quick);
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        for (int i = 0; i < 3; i++) {
            static const enum stele_err errs[] = {STELE_TOPIC_ALREADY_EXISTS, STELE_UNKNOWN_TOPIC_OR_PARTITION,
                                                  STELE_INVALID_PARTITIONS};
            script(peer, &asked);
            asked.err = peer->create_err = errs[i];
            peer->garbage = is_lost;
            struct stele_result result = i == 0   ? stele_topic_create(client, "t", 3, NULL)
                                         : i == 1 ? stele_topic_delete(client, "t")
                                                  : stele_topic_grow(client, "t", 3);
            assert_int_equal(result.code, errs[i]);
            assert_int_equal(strstr(result.text, "may have done it") != NULL, is_lost);
            assert_int_equal(peer->garbage, 0);
        }
    }
    stele_client_free(client);
}

/* Of a topic that is not there: told at once, with the way out. */
static void test_unknown_topic(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_log_descriptions *logs = NULL;
    struct stele_offsets *offsets = NULL;
    script(peer, &asked);
    asked.err = STELE_UNKNOWN_TOPIC_OR_PARTITION;
    struct stele_result results[] = {
        stele_topic_delete(client, "nope"), stele_records_delete(client, "nope", 0, 4, NULL),
        stele_topic_logs(client, "nope", -1, 0, &logs), stele_topic_offsets(client, "nope", 0, &offsets)};
    for (size_t i = 0; i < STELE_ARRAY_LEN(results); i++) {
        assert_int_equal(results[i].code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
        assert_non_null(strstr(results[i].text, "'nope'"));
    }
    assert_int_equal(stele_records_delete(client, "t", 1, 4, NULL).code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(stele_records_delete(client, "t", 0, -2, NULL).code, STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_topic_logs(client, "t", 5, 0, &logs).code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    struct stele_config *config = NULL;
    assert_int_equal(stele_config_describe(client, 3, "", NULL, 0, &config).code, STELE_INVALID_ARGUMENT);
    assert_null(logs);
    assert_null(offsets);
    assert_null(config);
    stele_client_free(client);
}

/* An error of one log is told with the log; an answer for other logs than asked is none. */
static void test_logs(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_log_descriptions *logs = NULL;
    struct stele_client *client = peer_client(peer, NULL);
    script(peer, &asked);
    asked.err = STELE_OFFLINE;
    assert_int_equal(stele_topic_logs(client, "t", 0, 0, &logs).code, 0);
    assert_int_equal(logs->log_count, 1);
    assert_int_equal(logs->logs[0]->code, STELE_KAFKA_STORAGE_ERROR);
    assert_true(logs->logs[0]->text[0] != 0);
    assert_int_equal(logs->logs[0]->segment_count, 0);
    stele_log_descriptions_free(logs);
    logs = NULL;
    asked.answers_short = true;
    assert_int_equal(stele_topic_logs(client, "t", 0, 0, &logs).code, STELE_UNKNOWN_SERVER_ERROR);
    assert_null(logs);
    stele_client_free(client);
}

/* Offsets of every partition in one request, with the errors of each. */
static void test_offsets(void **state)
{
    struct peer *peer = *state;
    struct stele_offsets *offsets = NULL;
    struct stele_client *client = peer_client(peer, NULL);
    peer->partition_count = 3;
    peer->by_time = 6;
    peer->list_errs[0] = STELE_LEADER_NOT_AVAILABLE;
    peer->list_err_count = 1;
    assert_int_equal(stele_topic_offsets(client, "t", 1234, &offsets).code, 0);
    assert_int_equal(peer->last_time, 1234);
    assert_int_equal(offsets->partition_count, 3);
    assert_int_equal(offsets->partitions[0]->code, STELE_LEADER_NOT_AVAILABLE);
    assert_int_equal(offsets->partitions[0]->offset, -1);
    assert_int_equal(offsets->partitions[2]->partition, 2);
    assert_int_equal(offsets->partitions[2]->offset, 6);
    stele_offsets_free(offsets);
    stele_client_free(client);
}

static struct stele_result call_offsets(struct stele_client *client)
{
    struct stele_offsets *offsets = NULL;
    struct stele_result result = stele_topic_offsets(client, "t", 5, &offsets);
    assert_true((result.code == 0) == (offsets != NULL));
    stele_offsets_free(offsets);
    return result;
}

/* Every allocation of every call may fail once: it succeeds all the same or says NO_MEMORY, and holds nothing. */
static void test_memory_failures(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    for (size_t i = 0; i <= STELE_ARRAY_LEN(cases); i++) {
        for (int64_t at = 1;; at++) {
            struct stele_client *client = peer_client(peer, quick);
            script(peer, &asked);
            stele_test_mem_fail(&peer->env.mem, at, false);
            struct stele_result result = i == STELE_ARRAY_LEN(cases) ? call_offsets(client) : cases[i].call(client);
            bool has_failed = peer->env.mem.has_failed;
            stele_test_mem_fail(&peer->env.mem, 0, false);
            assert_true(result.code == STELE_OK || result.code == STELE_NO_MEMORY);
            stele_client_free(client);
            stele_test_mem_check_empty(&peer->env.mem);
            if (!has_failed) {
                assert_int_equal(result.code, STELE_OK);
                assert_true(at > 5);
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_topic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_logs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_offsets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
