/* What the node tells of itself: status, the slow requests, the metrics and their text. */
#include "node/observe.h"
#include "node/test/node_world.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 12, NAMES_MAX = 256, SAMPLES_MAX = 4096 };

static const struct stele_node_status_response *status(struct node_conn *conn, struct node_answer *out, int32_t slow)
{
    struct stele_request request = {.header.api = STELE_API_NODE_STATUS,
                                    .body.node_status = {.slow_requests_max = slow, .with_metrics = true}};
    (void)node_conn_send(conn, &request, NULL, 0);
    node_conn_take(conn, out);
    assert_int_equal(out->response.header.api, STELE_API_NODE_STATUS);
    assert_ok(out->response.body.node_status.err);
    return &out->response.body.node_status;
}

static int64_t metric(const struct stele_node_status_response *status, const char *name)
{
    for (size_t i = 0; i < status->metric_count; i++) {
        if (strcmp(status->metrics[i].name, name) == 0)
            return status->metrics[i].value;
    }
    fail_msg("no metric %s", name);
    return -1;
}

/* The numbers are those of all shards, whichever of them is asked. */
static void test_status(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum { PARTITIONS = 7 };
        struct node_conn *conns[3];
        struct node_answer answer;
        struct stele_uuid topic_id, unknown = {.bytes = {1}};
        struct node_world *world = node_world_new(seed, 3);
        node_world_start(world);
        for (int i = 0; i < 3; i++)
            conns[i] = node_world_greet(world, 1 + i);
        assert_ok(node_conn_create_topic(conns[0], "t", PARTITIONS, &topic_id));
        for (int32_t i = 0; i < PARTITIONS; i++)
            assert_ok(node_conn_produce(conns[i % 3], &topic_id, i)->err);
        assert_int_equal(node_conn_produce(conns[0], &unknown, 0)->err, STELE_UNKNOWN_TOPIC_ID);
        node_conn_send_list(conns[1], &topic_id, 0, STELE_TIME_LATEST);
        node_conn_take(conns[1], &answer);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 1, 1);
        node_conn_send_fetch(
            conns[2],
            &(struct stele_fetch_request){
                .max_wait_ms = 1000, .min_bytes = 1, .max_bytes = 1000, .partitions = &part, .partition_count = 1});
        node_world_run(world);
        for (int i = 0; i < 2; i++) {
            const struct stele_node_status_response *told = status(conns[i], &answer, 10);
            assert_int_equal(told->shard_count, 3);
            assert_int_equal(told->connection_count, 3);
            assert_int_equal(told->topic_count, 1);
            assert_int_equal(told->partition_count, PARTITIONS);
            assert_int_equal(told->offline_count, 0);
            assert_true(told->memory_bytes > 0);
            assert_true(told->cluster_id[0] != 0);
            assert_int_equal(told->directory_count, 2);
            assert_int_equal(told->directories[0].partition_count + told->directories[1].partition_count, PARTITIONS);
            assert_true(told->directories[0].free_bytes >= 0);
            assert_int_equal(metric(told, "stele_requests_total{api=\"produce\"}"), PARTITIONS + 1);
            assert_int_equal(metric(told, "stele_request_errors_total{api=\"produce\"}"), 1);
            assert_int_equal(metric(told, "stele_requests_total{api=\"hello\"}"), 3);
            assert_int_equal(metric(told, "stele_requests_total{api=\"list_offsets\"}"), 1);
            assert_int_equal(metric(told, "stele_request_errors_total{api=\"list_offsets\"}"), 0);
            assert_int_equal(metric(told, "stele_requests_total{api=\"node_status\"}"), i + 1);
            assert_int_equal(metric(told, "stele_connections_accepted_total"), 3);
            assert_int_equal(metric(told, "stele_request_append_us_count"), PARTITIONS);
            assert_int_equal(metric(told, "stele_fetch_waiters"), 1);
            assert_int_equal(metric(told, "stele_requests_open"), 2); /* the fetch and this one */
            assert_int_equal(metric(told, "stele_log_segments"), PARTITIONS);
            assert_int_equal(metric(told, "stele_serving"), 1);
            assert_true(metric(told, "stele_received_bytes_total") > 500);
            assert_true(metric(told, "stele_sent_bytes_total") > 500);
            assert_true(metric(told, "stele_memory_tag_bytes{tag=\"node\"}") > 0);
        }
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* What does not decode, or is of an api that nobody knows, is no request; its connection counts as refused. */
static void test_garbage(void **state)
{
    static const uint8_t frames[][16] = {"\0\0\0\6\0\0\0\2\xff\xff", "\0\0\0\7\0\0\0\3\x08\x7b\x00", "GET / HTTP/1.1"};
    static const size_t bytes[] = {10, 11, 14};
    (void)state;
    struct node_answer answer;
    struct node_world *world = node_world_new(1, 2);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    for (size_t i = 0; i < STELE_ARRAY_LEN(frames); i++) {
        struct node_conn *stranger = node_world_greet(world, 2);
        node_conn_bytes(stranger, frames[i], bytes[i]);
        node_world_run(world);
        assert_false(stranger->is_up);
        const struct stele_node_status_response *told = status(conn, &answer, 0);
        assert_int_equal(metric(told, "stele_connections_refused_total"), i + 1);
        assert_int_equal(metric(told, "stele_requests_total{api=\"produce\"}"), 0);
        assert_int_equal(metric(told, "stele_request_errors_total{api=\"produce\"}"), 0);
    }
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

/* A produce that waits for a sync is slow, with its stage; a fetch that waits for more is not. What is slow may be said
 * anew at run time. */
static void test_slow_stages(void **state)
{
    struct node_answer answer;
    struct stele_uuid topic_id;
    struct stele_setting_pair synced = {"flush.before.ack", "true"};
    (void)state;
    struct node_world *world = node_world_new(2, 2);
    node_world_set(world, "slow.request.ms", "50");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1), *reader = node_world_greet(world, 2);
    node_conn_send_create(conn, "t", 1, &synced, 1);
    node_conn_take(conn, &answer);
    topic_id = answer.response.body.create_topic.topic_id;
    assert_ok(node_conn_produce(conn, &topic_id, 0)->err);
    int64_t before = metric(status(conn, &answer, 10), "stele_slow_requests_total");
    struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, 1);
    node_conn_send_fetch(
        reader, &(struct stele_fetch_request){
                    .max_wait_ms = 400, .min_bytes = 1, .max_bytes = 1000, .partitions = &part, .partition_count = 1});
    node_world_run(world);
    node_world_pass(world, 400);
    node_conn_take(reader, &answer);
    assert_int_equal(metric(status(conn, &answer, 10), "stele_slow_requests_total"), before);
    struct node_shape shape = {.count = 1, .value_bytes = 100, .acks = -1};
    (void)node_conn_put(conn, &topic_id, 0, &shape);
    world->holds_jobs = true;
    node_world_run(world);
    node_world_jump(world, 300);
    world->holds_jobs = false;
    node_world_run(world);
    node_world_drain(world);
    struct stele_altered_setting later = {"slow.request.ms", "1000"};
    struct stele_request alter = {
        .header.api = STELE_API_ALTER_SETTINGS,
        .body.alter_settings = {.kind = STELE_SUBJECT_NODE, .subject = "", .settings = &later, .setting_count = 1}};
    (void)node_conn_send(conn, &alter, NULL, 0);
    node_conn_take(conn, &answer);
    assert_ok(answer.response.body.alter_settings.err);
    (void)node_conn_put(conn, &topic_id, 0, &shape); /* as slow, but not by the setting that holds now */
    world->holds_jobs = true;
    node_world_run(world);
    node_world_jump(world, 200);
    world->holds_jobs = false;
    node_world_run(world);
    node_world_drain(world);
    const struct stele_node_status_response *told = status(conn, &answer, 3);
    assert_int_equal(metric(told, "stele_slow_requests_total"), before + 1);
    assert_int_equal(told->slow_request_count, 3);
    for (size_t i = 1; i < told->slow_request_count; i++)
        assert_true(told->slow_requests[i - 1].total_us >= told->slow_requests[i].total_us);
    const struct stele_slow_request *slow = &told->slow_requests[0];
    assert_int_equal(slow->api, STELE_API_PRODUCE);
    assert_true(slow->total_us >= 300000 && slow->fsync_us >= 300000 && slow->queue_us < 50000);
    assert_string_equal(slow->peer, "test");
    assert_false(slow->was_cold);
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

/* The two lists against a plain sort of all that was noted. */
static void test_slowlog(void **state)
{
    enum { ALL = 400 };
    struct stele_prng prng;
    (void)state;
    stele_prng_init(&prng, 3, 0);
    for (int round = 0; round < 50; round++) {
        struct stele_slowlog *log = calloc(1, sizeof(*log));
        struct stele_slow_entry entry = {.time_ms = 1},
                                *out = calloc(STELE_SLOW_SLOWEST + STELE_SLOW_RECENT, sizeof(*out));
        int64_t totals[ALL], slower = 0;
        int count = 1 + (int)stele_prng_below(&prng, ALL);
        log->threshold_us = 500;
        for (int i = 0; i < count; i++) {
            totals[i] = stele_prng_range(&prng, 0, 1000);
            entry.total_us = totals[i];
            slower += totals[i] > 500;
            if (stele_slowlog_wants(log, totals[i]))
                stele_slowlog_note(log, &entry);
        }
        int got = stele_slowlog_read(log, out);
        int64_t recent = stele_min_i64(slower, STELE_SLOW_RECENT);
        assert_true(got >= stele_min_i64(count, STELE_SLOW_SLOWEST));
        assert_true(got >= recent);
        /* The n slowest of all are there: no other is slower than the fastest of the list. */
        for (int i = 0; i < count; i++) {
            int there = 0, all = 0;
            for (int k = 0; k < got; k++)
                there += out[k].total_us == totals[i];
            for (int k = 0; k < count; k++)
                all += totals[k] > totals[i];
            if (all < STELE_SLOW_SLOWEST)
                assert_true(there > 0);
        }
        for (int64_t i = count - 1, left = recent; i >= 0 && left > 0; i--) {
            bool is_there = totals[i] <= 500;
            for (int k = 0; k < got; k++)
                is_there = is_there || out[k].total_us == totals[i];
            assert_true(is_there);
            left -= totals[i] > 500;
        }
        for (int i = 0; i < got; i++) {
            for (int k = 0; k < i; k++)
                assert_true(out[i].id != out[k].id);
        }
        free(out);
        free(log);
    }
}

/* The text, by a small parser of Prometheus' format 0.0.4. */

struct parsed {
    char names[NAMES_MAX][96];
    char types[NAMES_MAX][16];
    int name_count;
    char samples[SAMPLES_MAX][256]; /* name and labels */
    double values[SAMPLES_MAX];
    int sample_count;
};

static size_t name_length(const char *at)
{
    size_t bytes = 0;
    while (isalnum((unsigned char)at[bytes]) || at[bytes] == '_' || at[bytes] == ':')
        bytes++;
    return isdigit((unsigned char)at[0]) ? 0 : bytes;
}

static int name_index(const struct parsed *parsed, const char *name, size_t bytes)
{
    for (int i = 0; i < parsed->name_count; i++) {
        if (strlen(parsed->names[i]) == bytes && memcmp(parsed->names[i], name, bytes) == 0)
            return i;
    }
    return -1;
}

static void parse_comment(struct parsed *parsed, const char *line)
{
    bool is_help = strncmp(line, "# HELP ", 7) == 0;
    const char *name = line + 7;
    size_t bytes = name_length(name);
    assert_true(is_help || strncmp(line, "# TYPE ", 7) == 0);
    assert_true(bytes > 0 && bytes < 96 && name[bytes] == ' ');
    int at = name_index(parsed, name, bytes);
    if (is_help) {
        assert_int_equal(at, -1); /* all lines of a name are together */
        assert_true(parsed->name_count < NAMES_MAX && strlen(name + bytes) > 3);
        memcpy(parsed->names[parsed->name_count], name, bytes);
        parsed->names[parsed->name_count][bytes] = 0;
        parsed->name_count++;
        return;
    }
    assert_int_equal(at, parsed->name_count - 1);
    (void)snprintf(parsed->types[at], sizeof(parsed->types[at]), "%s", name + bytes + 1);
    assert_true(strcmp(parsed->types[at], "counter") == 0 || strcmp(parsed->types[at], "gauge") == 0 ||
                strcmp(parsed->types[at], "histogram") == 0);
}

static const char *parse_labels(const char *at)
{
    if (*at != '{')
        return at;
    do {
        at++;
        size_t bytes = name_length(at);
        assert_true(bytes > 0);
        at += bytes;
        assert_memory_equal(at, "=\"", 2);
        for (at += 2; *at != '"'; at++) {
            assert_true(*at != 0);
            if (*at == '\\') {
                at++;
                assert_true(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    return at + 1;
}

static void parse_sample(struct parsed *parsed, const char *line)
{
    const char *at = line + name_length(line), *suffixes[] = {"_bucket", "_sum", "_count"};
    size_t bytes = (size_t)(at - line);
    int last = parsed->name_count - 1;
    assert_true(bytes > 0 && last >= 0);
    bool is_histogram = strcmp(parsed->types[last], "histogram") == 0,
         is_named = name_index(parsed, line, bytes) == last;
    for (size_t i = 0; i < 3 && is_histogram; i++) {
        size_t tail = strlen(suffixes[i]);
        is_named = is_named || (bytes > tail && memcmp(at - tail, suffixes[i], tail) == 0 &&
                                name_index(parsed, line, bytes - tail) == last);
    }
    if (!is_named)
        fail_msg("a sample of another name: %s", line);
    at = parse_labels(at);
    assert_int_equal(*at, ' ');
    assert_true(parsed->sample_count < SAMPLES_MAX && at - line < 256);
    char *sample = parsed->samples[parsed->sample_count], *end = NULL;
    memcpy(sample, line, (size_t)(at - line));
    sample[at - line] = 0;
    parsed->values[parsed->sample_count] = strtod(at + 1, &end);
    assert_true(end > at + 1 && *end == 0);
    for (int i = 0; i < parsed->sample_count; i++) {
        if (strcmp(parsed->samples[i], sample) == 0)
            fail_msg("twice: %s", sample);
    }
    parsed->sample_count++;
}

static double value_of(const struct parsed *parsed, const char *sample)
{
    for (int i = 0; i < parsed->sample_count; i++) {
        if (strcmp(parsed->samples[i], sample) == 0)
            return parsed->values[i];
    }
    fail_msg("no sample %s", sample);
    return 0;
}

/* Buckets rise, the last is the count. */
static void check_histograms(const struct parsed *parsed)
{
    for (int i = 0; i < parsed->name_count; i++) {
        char name[160];
        double before = 0;
        if (strcmp(parsed->types[i], "histogram") != 0)
            continue;
        (void)snprintf(name, sizeof(name), "%s_bucket{", parsed->names[i]);
        for (int k = 0; k < parsed->sample_count; k++) {
            if (strncmp(parsed->samples[k], name, strlen(name)) != 0)
                continue;
            assert_true(parsed->values[k] >= before);
            before = parsed->values[k];
        }
        (void)snprintf(name, sizeof(name), "%s_bucket{le=\"+Inf\"}", parsed->names[i]);
        assert_true(value_of(parsed, name) == before);
        (void)snprintf(name, sizeof(name), "%s_count", parsed->names[i]);
        assert_true(value_of(parsed, name) == before);
    }
}

static struct parsed *parse(const struct stele_buf *text)
{
    struct parsed *parsed = calloc(1, sizeof(*parsed));
    const char *at = (const char *)text->bytes, *end = at + text->count;
    assert_non_null(parsed);
    assert_true(text->count > 0 && end[-1] == '\n');
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char line[2048];
        assert_true(stop > at && stop - at < (ptrdiff_t)sizeof(line));
        memcpy(line, at, (size_t)(stop - at));
        line[stop - at] = 0;
        if (line[0] == '#')
            parse_comment(parsed, line);
        else
            parse_sample(parsed, line);
        at = stop + 1;
    }
    check_histograms(parsed);
    return parsed;
}

static void keep(void *arg, struct stele_buf *text)
{
    struct stele_buf **kept = arg;
    assert_null(*kept);
    *kept = text;
}

static struct parsed *read_text(struct node_world *world)
{
    struct stele_buf *text = NULL;
    assert_ok(stele_node_metrics(world->node, keep, (void *)&text));
    assert_null(text); /* never from inside */
    node_world_run(world);
    assert_non_null(text);
    struct parsed *parsed = parse(text);
    stele_buf_unref(text);
    return parsed;
}

static void host_stats(void *arg, struct stele_host_stats *out_stats)
{
    (void)arg;
    *out_stats = (struct stele_host_stats){.resident_bytes = 77, .page_cache_bytes = -1, .cpu_us = 1500000};
}

/* The text parses, its numbers are right, before the node serves, while it does, and with topics one by one up to their
 * bound. */
static void test_text(void **state)
{
    struct stele_uuid topic_id;
    char why[STELE_ERROR_TEXT_BYTES] = "";
    (void)state;
    struct node_world *world = node_world_new(5, 2);
    node_world_set(world, "metrics.topics.max", "2");
    world->host_stats = host_stats;
    assert_ok(node_world_begin(world));
    assert_false(stele_node_is_serving(world->node, why));
    assert_true(why[0] != 0);
    struct parsed *parsed = read_text(world);
    free(parsed);
    node_world_run(world);
    assert_true(stele_node_is_serving(world->node, why));
    struct node_conn *conn = node_world_greet(world, 1);
    for (int i = 0; i < 4; i++) {
        char name[] = "topic-0";
        name[6] = (char)('0' + i);
        assert_ok(node_conn_create_topic(conn, name, 3, &topic_id));
    }
    assert_ok(node_conn_produce(conn, &topic_id, 0)->err);
    parsed = read_text(world);
    int topics = 0;
    for (int i = 0; i < parsed->sample_count; i++)
        topics += strncmp(parsed->samples[i], "stele_topic_bytes{", 18) == 0;
    assert_int_equal(topics, 2);
    assert_true(value_of(parsed, "stele_partitions") == 12);
    assert_true(value_of(parsed, "stele_topics") == 4);
    assert_true(value_of(parsed, "stele_serving") == 1);
    assert_true(value_of(parsed, "stele_process_resident_bytes") == 77);
    assert_true(value_of(parsed, "stele_process_cpu_seconds_total") == 1.5);
    for (int i = 0; i < parsed->sample_count; i++)
        assert_string_not_equal(parsed->samples[i], "stele_page_cache_bytes");
    assert_true(value_of(parsed, "stele_requests_total{api=\"create_topic\"}") == 4);
    assert_true(value_of(parsed, "stele_request_append_seconds_count") == 1);
    assert_true(value_of(parsed, "stele_log_appended_batches_total") >= 1);
    free(parsed);
    stele_node_stop(world->node);
    assert_false(stele_node_is_serving(world->node, why));
    assert_string_equal(why, "it stops");
    free(read_text(world));
    node_world_drop(world);
    node_world_free(world);
}

/* The n-th allocation of a status or of the text fails: an error or a closed connection, nothing is lost, and a node
 * that is dropped in the middle drops it too. */
static void test_memory(void **state)
{
    (void)state;
    for (int64_t at = 1;; at++) {
        struct node_answer answer;
        struct stele_uuid topic_id;
        struct stele_buf *text = NULL;
        struct node_world *world = node_world_new(9, 2);
        node_world_set(world, "metrics.topics.max", "10");
        world->is_calm = true;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *other = node_world_greet(world, 2);
        assert_ok(node_conn_create_topic(conn, "t", 2, &topic_id));
        struct stele_request request = {.header.api = STELE_API_NODE_STATUS,
                                        .body.node_status = {.slow_requests_max = 5, .with_metrics = true}};
        (void)node_conn_send(other, &request, NULL, 0);
        stele_test_mem_fail(&world->mem, at, false);
        node_world_run(world);
        enum stele_err err = stele_node_metrics(world->node, keep, (void *)&text);
        node_world_run(world);
        bool has_failed = world->mem.has_failed;
        stele_test_mem_fail(&world->mem, 0, false);
        assert_true(has_failed || (err == STELE_OK && text != NULL));
        stele_buf_unref(text);
        text = NULL;
        assert_ok(status(conn, &answer, 5)->err);
        (void)node_conn_send(conn, &request, NULL, 0);
        assert_ok(stele_node_metrics(world->node, keep, (void *)&text));
        for (int64_t i = at % 20; i > 0; i--)
            (void)node_world_step(world);
        stele_buf_unref(text);
        text = NULL;
        node_world_crash(world, SIM_DISK_KILL);
        node_world_free(world);
        if (!has_failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_status),      cmocka_unit_test(test_garbage),
                                       cmocka_unit_test(test_slow_stages), cmocka_unit_test(test_slowlog),
                                       cmocka_unit_test(test_text),        cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
