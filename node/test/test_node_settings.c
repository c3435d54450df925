/* Settings at run time: what is shown, what is refused whole, what takes effect at once and is kept. */
#include "node/test/node_world.h"

#include <string.h>

enum { SEEDS = 10 };

static enum stele_err alter(struct node_conn *conn, enum stele_subject_kind kind, const char *subject,
                            const struct stele_altered_setting *settings, size_t count, struct node_answer *out)
{
    struct stele_request request = {
        .header.api = STELE_API_ALTER_SETTINGS,
        .body.alter_settings = {.kind = kind, .subject = subject, .settings = settings, .setting_count = count}};
    (void)node_conn_send(conn, &request, NULL, 0);
    node_conn_take(conn, out);
    assert_int_equal(out->response.header.api, STELE_API_ALTER_SETTINGS);
    return out->response.body.alter_settings.err;
}

static enum stele_err alter_one(struct node_conn *conn, enum stele_subject_kind kind, const char *subject,
                                const char *name, const char *value)
{
    struct stele_altered_setting setting = {.name = name, .value = value};
    struct node_answer answer;
    return alter(conn, kind, subject, &setting, 1, &answer);
}

static const struct stele_describe_settings_response *describe(struct node_conn *conn, enum stele_subject_kind kind,
                                                               const char *subject, const char *name)
{
    static struct node_answer answer;
    struct stele_request request = {.header.api = STELE_API_DESCRIBE_SETTINGS,
                                    .body.describe_settings = {.kind = kind,
                                                               .subject = subject,
                                                               .names = &name,
                                                               .name_count = name != NULL ? 1 : 0,
                                                               .with_doc = true,
                                                               .with_history = true}};
    (void)node_conn_send(conn, &request, NULL, 0);
    node_conn_take(conn, &answer);
    return &answer.response.body.describe_settings;
}

static void assert_holds(struct node_conn *conn, enum stele_subject_kind kind, const char *subject, const char *name,
                         const char *value, enum stele_setting_origin origin)
{
    const struct stele_describe_settings_response *response = describe(conn, kind, subject, name);
    assert_int_equal(response->err, STELE_OK);
    assert_int_equal(response->setting_count, 1);
    assert_string_equal(response->settings[0].name, name);
    assert_string_equal(response->settings[0].value, value);
    assert_int_equal(response->settings[0].origin, origin);
    assert_true(strlen(response->settings[0].doc) > 10);
}

/* The strongest value holds: topic, node, cluster, start, default; taking one away shows the next. All of it outlives a
 * restart. */
static void test_precedence(void **state)
{
    const char *node_name = "log.retention.ms", *topic_name = "retention.ms";
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        struct stele_uuid id;
        node_world_set(world, "log.retention.hours", "2");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_ok(node_conn_create_topic(conn, "t", 3, &id));
        assert_holds(conn, STELE_SUBJECT_TOPIC, "t", "segment.ms", "604800000", STELE_SETTING_OF_DEFAULT);
        assert_holds(conn, STELE_SUBJECT_TOPIC, "t", topic_name, "7200000", STELE_SETTING_OF_START);
        assert_ok(alter_one(conn, STELE_SUBJECT_CLUSTER, "", node_name, "3000"));
        assert_holds(conn, STELE_SUBJECT_NODE, "", node_name, "3000", STELE_SETTING_OF_CLUSTER);
        assert_ok(alter_one(conn, STELE_SUBJECT_NODE, "1", node_name, "4000"));
        assert_holds(conn, STELE_SUBJECT_NODE, "1", node_name, "4000", STELE_SETTING_OF_NODE);
        assert_ok(alter_one(conn, STELE_SUBJECT_TOPIC, "t", topic_name, "5000"));
        for (int round = 0; round < 2; round++) {
            assert_holds(conn, STELE_SUBJECT_TOPIC, "t", topic_name, "5000", STELE_SETTING_OF_TOPIC);
            assert_holds(conn, STELE_SUBJECT_NODE, "", node_name, "4000", STELE_SETTING_OF_NODE);
            assert_ok(node_world_stop(world));
            node_world_start(world);
            conn = node_world_greet(world, 1);
        }
        assert_ok(alter_one(conn, STELE_SUBJECT_TOPIC, "t", topic_name, NULL));
        assert_holds(conn, STELE_SUBJECT_TOPIC, "t", topic_name, "4000", STELE_SETTING_OF_NODE);
        assert_ok(alter_one(conn, STELE_SUBJECT_NODE, "", node_name, NULL));
        assert_holds(conn, STELE_SUBJECT_TOPIC, "t", topic_name, "3000", STELE_SETTING_OF_CLUSTER);
        assert_ok(alter_one(conn, STELE_SUBJECT_CLUSTER, "", node_name, NULL));
        assert_holds(conn, STELE_SUBJECT_TOPIC, "t", topic_name, "7200000", STELE_SETTING_OF_START);

        const struct stele_describe_settings_response *past = describe(conn, STELE_SUBJECT_TOPIC, "t", NULL);
        assert_int_equal(past->change_count, 2);
        assert_string_equal(past->changes[0].value, "5000");
        assert_null(past->changes[1].value);
        assert_true(past->changes[0].time_ms > 0);
        node_world_free(world);
    }
}

/* One wrong setting of several changes none, in the answer, in the image and after a restart. */
static void test_all_or_none(void **state)
{
    static const struct {
        enum stele_subject_kind kind;
        const char *subject;
        struct stele_altered_setting wrong;
        enum stele_err err;
        const char *says;
    } cases[] = {
        {STELE_SUBJECT_TOPIC, "t", {"retention.mss", "1"}, STELE_INVALID_CONFIG, "retention.ms"},
        {STELE_SUBJECT_TOPIC, "t", {"segment.bytes", "1"}, STELE_INVALID_CONFIG, "1024"},
        {STELE_SUBJECT_TOPIC, "t", {"flush.messages", "1"}, STELE_INVALID_REQUEST, "twice"},
        {STELE_SUBJECT_TOPIC, "t", {"max.compaction.lag.ms", "1"}, STELE_INVALID_CONFIG, "min.compaction.lag.ms"},
        {STELE_SUBJECT_TOPIC, "u", {"retention.ms", "1"}, STELE_UNKNOWN_TOPIC_OR_PARTITION, "'u'"},
        {STELE_SUBJECT_NODE, "2", {"log.retention.ms", "1"}, STELE_INVALID_REQUEST, "node 1"},
        {STELE_SUBJECT_NODE, "", {"log.dirs", "c"}, STELE_INVALID_CONFIG, "start it again"},
        {STELE_SUBJECT_CLUSTER, "x", {"log.retention.ms", "1"}, STELE_INVALID_REQUEST, "no subject"},
    };
    struct node_world *world = node_world_new(1, 2);
    struct node_answer answer;
    struct stele_uuid id;
    (void)state;
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_ok(node_conn_create_topic(conn, "t", 2, &id));
    assert_ok(alter_one(conn, STELE_SUBJECT_TOPIC, "t", "min.compaction.lag.ms", "1000"));
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        bool of_topic = cases[i].kind == STELE_SUBJECT_TOPIC;
        struct stele_altered_setting settings[] = {{of_topic ? "flush.messages" : "log.flush.interval.messages", "7"},
                                                   cases[i].wrong};
        assert_int_equal(alter(conn, cases[i].kind, cases[i].subject, settings, 2, &answer), cases[i].err);
        if (strstr(answer.response.body.alter_settings.message, cases[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", answer.response.body.alter_settings.message, cases[i].says);
    }
    for (int round = 0; round < 2; round++) {
        assert_holds(conn, STELE_SUBJECT_TOPIC, "t", "flush.messages", "9223372036854775807", STELE_SETTING_OF_DEFAULT);
        assert_holds(conn, STELE_SUBJECT_NODE, "", "log.flush.interval.messages", "9223372036854775807",
                     STELE_SETTING_OF_DEFAULT);
        assert_int_equal(describe(conn, STELE_SUBJECT_TOPIC, "t", NULL)->change_count, 1);
        assert_int_equal(describe(conn, STELE_SUBJECT_CLUSTER, "", NULL)->setting_count, 0);
        assert_ok(node_world_stop(world));
        node_world_start(world);
        conn = node_world_greet(world, 1);
    }
    assert_int_equal(describe(conn, STELE_SUBJECT_TOPIC, "t", "nonsense")->err, STELE_INVALID_CONFIG);
    assert_int_equal(describe(conn, STELE_SUBJECT_TOPIC, "u", NULL)->err, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    node_world_free(world);
}

static enum stele_err produce_bytes(struct node_world *world, struct node_conn *conn, const struct stele_uuid *id,
                                    int32_t partition, size_t bytes)
{
    struct node_shape shape = {.count = 1, .value_bytes = bytes, .acks = -1};
    struct node_entry *entry = node_conn_put(conn, id, partition, &shape);
    node_world_run(world);
    node_world_drain(world);
    assert_true(entry->is_answered);
    return entry->err;
}

/* A changed setting is in use on every partition once its answer has come, whatever order the shards moved in; changes
 * that overtake each other leave the last one. */
static void test_takes_effect(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum { PARTITIONS = 5 };
        struct node_world *world = node_world_new(seed, 3);
        struct stele_uuid id, other;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *second = node_world_greet(world, 2);
        assert_ok(node_conn_create_topic(conn, "t", PARTITIONS, &id));
        assert_ok(node_conn_create_topic(conn, "o", 1, &other));
        for (int32_t i = 0; i < PARTITIONS; i++)
            assert_int_equal(produce_bytes(world, conn, &id, i, 500), STELE_OK);
        assert_ok(alter_one(second, STELE_SUBJECT_TOPIC, "t", "max.message.bytes", "300"));
        node_world_run(world);
        for (int32_t i = 0; i < PARTITIONS; i++)
            assert_int_equal(produce_bytes(world, conn, &id, i, 500), STELE_MESSAGE_TOO_LARGE);
        assert_int_equal(produce_bytes(world, conn, &other, 0, 500), STELE_OK);
        assert_ok(alter_one(second, STELE_SUBJECT_CLUSTER, "", "message.max.bytes", "200"));
        node_world_run(world);
        assert_int_equal(produce_bytes(world, conn, &other, 0, 500), STELE_MESSAGE_TOO_LARGE);

        struct stele_altered_setting last = {"max.message.bytes", "10000"};
        struct stele_request request = {
            .header.api = STELE_API_ALTER_SETTINGS,
            .body.alter_settings = {
                .kind = STELE_SUBJECT_TOPIC, .subject = "t", .settings = &last, .setting_count = 1}};
        for (int i = 0; i < 4; i++) {
            last.value = i % 2 == 0 ? "100" : "10000";
            (void)node_conn_send(i % 2 == 0 ? conn : conn, &request, NULL, 0);
        }
        node_world_run(world);
        node_world_drain(world);
        for (int32_t i = 0; i < PARTITIONS; i++)
            assert_int_equal(produce_bytes(world, conn, &id, i, 500), STELE_OK);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* flush.ms set at run time acts on what was written before it; num.partitions on the next topic. */
static void test_timers_and_counts(void **state)
{
    struct node_world *world = node_world_new(3, 2);
    struct stele_uuid id;
    (void)state;
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_ok(node_conn_create_topic(conn, "t", 1, &id));
    struct node_entry *entry = node_conn_produce(conn, &id, 0);
    assert_int_equal(entry->durability, STELE_DURABILITY_WRITTEN);
    assert_ok(alter_one(conn, STELE_SUBJECT_TOPIC, "t", "flush.ms", "50"));
    node_world_pass(world, 200);
    assert_ok(alter_one(conn, STELE_SUBJECT_CLUSTER, "", "num.partitions", "4"));
    struct node_answer answer;
    node_conn_send_create(conn, "many", -1, NULL, 0);
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.body.create_topic.partition_count, 4);
    node_world_crash(world, SIM_DISK_ADVERSARIAL);
    node_world_start(world);
    conn = node_world_greet(world, 1);
    assert_int_equal(node_world_check_partition(conn, &id, 0, false), 1);
    node_world_free(world);
}

/* Every allocation that fails leaves either the old or the new value, and no trace of a half one; what was answered OK
 * holds. */
static void test_memory(void **state)
{
    (void)state;
    bool has_failed = true;
    for (int64_t at = 1; has_failed; at++) {
        struct node_world *world = node_world_new(5, 2);
        struct stele_uuid id;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_ok(node_conn_create_topic(conn, "t", 2, &id));
        struct stele_altered_setting settings[] = {{"max.message.bytes", "300"}, {"flush.messages", "9"}};
        struct stele_request request = {
            .header.api = STELE_API_ALTER_SETTINGS,
            .body.alter_settings = {
                .kind = STELE_SUBJECT_TOPIC, .subject = "t", .settings = settings, .setting_count = 2}};
        stele_test_mem_fail(&world->mem, at, false);
        (void)node_conn_send(conn, &request, NULL, 0);
        node_world_run(world);
        has_failed = world->mem.has_failed;
        stele_test_mem_fail(&world->mem, 0, false);
        struct node_answer answer;
        bool is_answered = conn->is_up && node_conn_poll(conn, &answer);
        bool is_ok = is_answered && answer.response.body.alter_settings.err == STELE_OK;
        assert_true(is_ok || has_failed);
        if (!world->is_fatal) {
            node_world_pass(world, 300);
            conn = node_world_greet(world, 2);
            const char *value = describe(conn, STELE_SUBJECT_TOPIC, "t", "max.message.bytes")->settings[0].value;
            bool is_new = strcmp(value, "300") == 0;
            assert_true(is_new || strcmp(value, "1048588") == 0);
            assert_true(is_new || !is_ok);
            assert_int_equal(produce_bytes(world, conn, &id, 0, 500), is_new ? STELE_MESSAGE_TOO_LARGE : STELE_OK);
            value = describe(conn, STELE_SUBJECT_TOPIC, "t", "flush.messages")->settings[0].value;
            assert_int_equal(strcmp(value, "9") == 0, is_new);
        }
        node_world_free(world);
    }
}

static int64_t heard_max;
static int heard_count;

static enum stele_err check_host(void *arg, const struct stele_settings *settings, struct stele_error *error)
{
    (void)arg;
    if (strcmp(stele_settings_text(settings, "max.connections.per.ip.overrides"), "bad") != 0)
        return STELE_OK;
    return stele_error_set(error, STELE_INVALID_CONFIG, "the host says no");
}

static void hear(void *arg, const struct stele_settings *settings)
{
    (void)arg;
    heard_count++;
    heard_max = stele_settings_int(settings, "max.connections");
}

/* The host hears of what holds at the start and after every change, and may refuse a change. */
static void test_host(void **state)
{
    struct node_world *world = node_world_new(4, 1);
    struct node_answer answer;
    (void)state;
    world->check_settings = check_host;
    world->settings_changed = hear;
    heard_max = heard_count = 0;
    node_world_set(world, "max.connections", "77");
    node_world_start(world);
    assert_int_equal(heard_max, 77);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_ok(alter_one(conn, STELE_SUBJECT_CLUSTER, "", "max.connections", "78"));
    assert_int_equal(heard_max, 78);
    struct stele_altered_setting settings[] = {{"max.connections", "79"}, {"max.connections.per.ip.overrides", "bad"}};
    int before = heard_count;
    assert_int_equal(alter(conn, STELE_SUBJECT_NODE, "", settings, 2, &answer), STELE_INVALID_CONFIG);
    assert_string_equal(answer.response.body.alter_settings.message, "the host says no");
    assert_int_equal(heard_count, before);
    assert_holds(conn, STELE_SUBJECT_NODE, "", "max.connections", "78", STELE_SETTING_OF_CLUSTER);
    assert_ok(node_world_stop(world));
    node_world_start(world);
    assert_int_equal(heard_max, 78);
    node_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precedence),   cmocka_unit_test(test_all_or_none),
        cmocka_unit_test(test_takes_effect), cmocka_unit_test(test_timers_and_counts),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
