/* The creation of topics, and what metadata says of them. */
#include "node/test/node_world.h"

#include <stdio.h>
#include <string.h>

enum { SEEDS = 20 };

static enum stele_err take_create(struct node_conn *conn, struct node_answer *out)
{
    node_conn_take(conn, out);
    assert_int_equal(out->response.header.api, STELE_API_CREATE_TOPIC);
    return out->response.body.create_topic.err;
}

static size_t all_topics(struct node_conn *conn, struct node_answer *out)
{
    struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
    (void)node_conn_send(conn, &request, NULL, 0);
    node_conn_take(conn, out);
    return out->response.body.metadata.topic_count;
}

/* One name asked for by several at the same time, from several shards, is created once; others at the same time do not
 * disturb it, and all have ids of their own. */
static void test_races(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum { CONNS = 6, NAMES = 4 };
        struct node_conn *conns[CONNS];
        struct node_answer answer;
        struct stele_uuid ids[NAMES];
        int wins[NAMES] = {0};
        struct node_world *world = node_world_new(seed, 3);
        node_world_start(world);
        for (int i = 0; i < CONNS; i++)
            conns[i] = node_world_greet(world, 1 + i % 3);
        for (int i = 0; i < CONNS; i++) {
            for (int k = 0; k < NAMES; k++) {
                char name[] = "t0";
                name[1] = (char)('0' + (i + k) % NAMES);
                node_conn_send_create(conns[i], name, 1 + (i + k) % NAMES, NULL, 0);
            }
        }
        for (int i = 0; i < CONNS; i++) {
            for (int k = 0; k < NAMES; k++) {
                enum stele_err err = take_create(conns[i], &answer);
                int at = (i + k) % NAMES;
                if (err == STELE_OK) {
                    wins[at]++;
                    ids[at] = answer.response.body.create_topic.topic_id;
                    assert_int_equal(answer.response.body.create_topic.partition_count, 1 + at);
                } else {
                    assert_int_equal(err, STELE_TOPIC_ALREADY_EXISTS);
                }
            }
        }
        assert_int_equal(all_topics(conns[0], &answer), NAMES);
        for (int k = 0; k < NAMES; k++) {
            assert_int_equal(wins[k], 1);
            for (int other = 0; other < k; other++)
                assert_false(stele_uuid_equal(&ids[k], &ids[other]));
            for (int32_t partition = 0; partition <= k; partition++)
                assert_int_equal(node_conn_produce(conns[k], &ids[k], partition)->offset, 0);
        }
        assert_ok(node_world_stop(world));
        node_world_start(world);
        assert_int_equal(all_topics(node_world_greet(world, 1), &answer), NAMES);
        node_world_free(world);
    }
}

/* What is refused, with the error and a sentence; nothing is created then. */
static void test_refusals(void **state)
{
    static const struct {
        const char *name;
        int32_t partitions, replicas;
        struct stele_setting_pair setting;
        bool validates;
        enum stele_err err;
        struct stele_setting_pair second;
    } rows[] = {
        {"ok", -1, -1, {NULL, NULL}, false, STELE_OK, {NULL, NULL}},
        {"ok", 3, 1, {"flush.before.ack", "true"}, false, STELE_OK, {NULL, NULL}},
        {"ok", 3, 1, {NULL, NULL}, true, STELE_OK, {NULL, NULL}},
        {"", 1, -1, {NULL, NULL}, false, STELE_INVALID_TOPIC_EXCEPTION, {NULL, NULL}},
        {".", 1, -1, {NULL, NULL}, false, STELE_INVALID_TOPIC_EXCEPTION, {NULL, NULL}},
        {"a/b", 1, -1, {NULL, NULL}, false, STELE_INVALID_TOPIC_EXCEPTION, {NULL, NULL}},
        {"__cluster_metadata", 1, -1, {NULL, NULL}, false, STELE_INVALID_TOPIC_EXCEPTION, {NULL, NULL}},
        {"taken", 1, -1, {NULL, NULL}, false, STELE_TOPIC_ALREADY_EXISTS, {NULL, NULL}},
        {"taken", 1, -1, {NULL, NULL}, true, STELE_TOPIC_ALREADY_EXISTS, {NULL, NULL}},
        {"x", 0, -1, {NULL, NULL}, false, STELE_INVALID_PARTITIONS, {NULL, NULL}},
        {"x", -2, -1, {NULL, NULL}, false, STELE_INVALID_PARTITIONS, {NULL, NULL}},
        {"x", 10001, -1, {NULL, NULL}, false, STELE_INVALID_PARTITIONS, {NULL, NULL}},
        {"x", 1, 2, {NULL, NULL}, false, STELE_INVALID_REPLICATION_FACTOR, {NULL, NULL}},
        {"x", 1, 0, {NULL, NULL}, false, STELE_INVALID_REPLICATION_FACTOR, {NULL, NULL}},
        {"x", 1, 1, {"segment.bytes", "12"}, false, STELE_INVALID_CONFIG, {NULL, NULL}},
        {"x", 1, 1, {"no.such", "1"}, false, STELE_INVALID_CONFIG, {NULL, NULL}},
        {"x", 1, 1, {"log.dirs", "c"}, false, STELE_INVALID_CONFIG, {NULL, NULL}},
        {"x", 1, 1, {"segment.bytes", "twelve"}, true, STELE_INVALID_CONFIG, {NULL, NULL}},
        {"x", 1, 1, {"retention.ms", "5"}, true, STELE_INVALID_REQUEST, {"retention.ms", "5"}},
        {"x", 1, 1, {"min.compaction.lag.ms", "9"}, true, STELE_INVALID_CONFIG, {"max.compaction.lag.ms", "8"}},
        {"ok", 1, 1, {"min.compaction.lag.ms", "8"}, true, STELE_OK, {"max.compaction.lag.ms", "8"}},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct node_answer answer;
        struct stele_uuid topic_id;
        struct node_world *world = node_world_new(i, 2);
        const struct stele_setting_pair settings[] = {rows[i].setting, rows[i].second};
        node_world_set(world, "num.partitions", "2");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 2);
        assert_int_equal(node_conn_create_topic(conn, "taken", 1, &topic_id), STELE_OK);
        struct stele_request request = {
            .header.api = STELE_API_CREATE_TOPIC,
            .body.create_topic = {.name = rows[i].name,
                                  .partition_count = rows[i].partitions,
                                  .replication_factor = rows[i].replicas,
                                  .settings = settings,
                                  .setting_count = rows[i].second.name != NULL ? 2 : rows[i].setting.name != NULL,
                                  .validate_only = rows[i].validates}};
        (void)node_conn_send(conn, &request, NULL, 0);
        assert_int_equal(take_create(conn, &answer), rows[i].err);
        const struct stele_create_topic_response *response = &answer.response.body.create_topic;
        assert_int_equal(response->message[0] != 0, rows[i].err != STELE_OK);
        if (rows[i].err == STELE_OK) {
            assert_int_equal(response->partition_count, rows[i].partitions == -1 ? 2 : rows[i].partitions);
            assert_int_equal(response->replication_factor, 1);
        }
        bool is_made = rows[i].err == STELE_OK && !rows[i].validates;
        assert_int_equal(all_topics(conn, &answer), 1 + is_made);
        if (is_made && rows[i].setting.name != NULL) { /* the setting counts from the first record, and after a start */
            topic_id = answer.response.body.metadata.topics[1].topic_id;
            assert_int_equal(node_conn_produce(conn, &topic_id, 0)->durability, STELE_DURABILITY_SYNCED);
            assert_ok(node_world_stop(world));
            node_world_start(world);
            conn = node_world_greet(world, 1);
            assert_int_equal(node_conn_produce(conn, &topic_id, 0)->durability, STELE_DURABILITY_SYNCED);
        }
        node_world_free(world);
    }
}

/* Metadata names the node, the leaders and the ids, of all topics or of those asked for. */
static void test_metadata(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static const char *const names[] = {"two", "nothing", "one"};
        struct node_answer answer;
        struct stele_uuid one, two;
        struct node_world *world = node_world_new(seed, 2);
        node_world_set(world, "node.id", "7");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(all_topics(conn, &answer), 0);
        assert_int_equal(node_conn_create_topic(conn, "one", 1, &one), STELE_OK);
        assert_int_equal(node_conn_create_topic(conn, "two", 5, &two), STELE_OK);
        struct stele_request request = {.header.api = STELE_API_METADATA,
                                        .body.metadata = {.topics = names, .topic_count = STELE_ARRAY_LEN(names)}};
        (void)node_conn_send(conn, &request, NULL, 0);
        node_conn_take(conn, &answer);
        const struct stele_metadata_response *response = &answer.response.body.metadata;
        assert_int_equal(response->controller_id, 7);
        assert_int_equal(response->node_count, 1);
        assert_string_equal(response->nodes[0].host, "test");
        assert_int_equal(response->nodes[0].node_id, 7);
        assert_int_equal(response->topic_count, 3);
        assert_int_equal(response->topics[1].err, STELE_UNKNOWN_TOPIC_OR_PARTITION);
        assert_string_equal(response->topics[1].name, "nothing");
        assert_int_equal(response->topics[0].partition_count, 5);
        assert_true(stele_uuid_equal(&response->topics[0].topic_id, &two));
        assert_true(stele_uuid_equal(&response->topics[2].topic_id, &one));
        for (int32_t i = 0; i < 5; i++) {
            const struct stele_metadata_partition *partition = &response->topics[0].partitions[i];
            assert_int_equal(partition->partition, i);
            assert_int_equal(partition->leader_id, 7);
            assert_int_equal(partition->leader_epoch, 0);
            assert_int_equal(partition->isr_count, 1);
            assert_int_equal(partition->isr[0], 7);
        }
        node_world_free(world);
    }
}

/* A directory of another node or cluster, or with its metadata log gone, is refused with a sentence, and left alone. */
static void test_foreign(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct node_world *world = node_world_new(seed, 1);
        struct stele_uuid topic_id;
        struct stele_stat stat;
        struct stele_vfs *vfs = sim_disk_vfs(world->disk);
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 1, &topic_id), STELE_OK);
        assert_ok(node_world_stop(world));
        if (seed == 0)
            node_world_set(world, "node.id", "99");
        else if (seed == 1)
            node_world_set(world, "log.dirs", "b,a");
        else
            assert_ok(vfs->ops->rename(vfs, "a/__cluster_metadata-0", "gone"));
        assert_ok(node_world_begin(world));
        node_world_run(world);
        assert_true(world->is_ready);
        assert_int_not_equal(world->ready, STELE_OK);
        node_world_drop(world);
        assert_ok(vfs->ops->stat(vfs, "a/.kafka_cleanshutdown", &stat));
        node_world_set(world, "node.id", "1");
        node_world_set(world, "log.dirs", "a,b");
        if (seed == 2)
            assert_ok(vfs->ops->rename(vfs, "gone", "a/__cluster_metadata-0"));
        node_world_start(world);
        conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        node_world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_races),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
