/* The node's life: what a failed directory or log, a loss of power or a stop leaves behind. */
#include "node/test/node_world.h"
#include "replication/guard.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 8 };

static int32_t produce_err(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition)
{
    return node_conn_produce(conn, topic_id, partition)->err;
}

static bool exists(struct node_world *world, const char *path)
{
    struct stele_stat stat;
    struct stele_vfs *vfs = sim_disk_vfs(world->disk);
    return vfs->ops->stat(vfs, path, &stat) == STELE_OK;
}

/* With a log directory down, what may lie there is offline and not made anew elsewhere; the rest serves, keeps its
 * marker, and all is there again when the directory is. */
static void directory_down(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 2);
    struct stele_uuid topic_id;
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(produce_err(conn, &topic_id, 0), STELE_OK);
        assert_int_equal(produce_err(conn, &topic_id, 1), STELE_OK);
    }
    assert_ok(node_world_stop(world));
    /* The first is in a beside the metadata log or in b: each directory has one. */
    int down = exists(world, "b/t-0") ? 0 : 1, up = 1 - down;
    assert_true(exists(world, down == 0 ? "b/t-0" : "b/t-1"));
    sim_disk_break(world->disk, "*b/*", 0, STELE_IO, 0);
    sim_disk_break(world->disk, "*b", 0, STELE_IO, 0);
    node_world_start(world);
    conn = node_world_greet(world, 2);
    assert_int_equal(produce_err(conn, &topic_id, up), STELE_OK);
    assert_int_equal(produce_err(conn, &topic_id, down), STELE_KAFKA_STORAGE_ERROR);
    assert_false(exists(world, down == 0 ? "a/t-0" : "a/t-1"));
    assert_ok(node_world_stop(world));
    assert_true(exists(world, "a/.kafka_cleanshutdown"));
    sim_disk_heal(world->disk);
    node_world_start(world);
    conn = node_world_greet(world, 1);
    assert_int_equal(produce_err(conn, &topic_id, down), STELE_OK);
    assert_int_equal(node_world_check_partition(conn, &topic_id, down, false), 4);
    assert_int_equal(node_world_check_partition(conn, &topic_id, up, false), 4);
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

/* A log that cannot be opened takes its partition offline, not the node; what its checkpoints said of it is kept for
 * the next start. */
static void log_down(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 1);
    struct stele_uuid topic_id;
    node_world_set(world, "log.dirs", "a");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(produce_err(conn, &topic_id, 0), STELE_OK);
        assert_int_equal(produce_err(conn, &topic_id, 1), STELE_OK);
    }
    assert_ok(node_world_stop(world));
    sim_disk_break(world->disk, "*a/t-1/*.log", 0, STELE_IO, 0);
    node_world_start(world);
    conn = node_world_greet(world, 1);
    assert_int_equal(produce_err(conn, &topic_id, 1), STELE_KAFKA_STORAGE_ERROR);
    assert_int_equal(produce_err(conn, &topic_id, 0), STELE_OK);
    assert_ok(node_world_stop(world));
    sim_disk_heal(world->disk);
    uint8_t *text = NULL;
    size_t count = 0;
    assert_ok(stele_vfs_read_whole(sim_disk_vfs(world->disk), &world->own.mem, STELE_MEM_TOOL,
                                   "a/recovery-point-offset-checkpoint", 1000, &text, &count));
    assert_non_null(strstr((const char *)text, "t 1 3\n"));
    stele_mem_free(&world->own.mem, text);
    assert_false(exists(world, "a/.kafka_cleanshutdown"));
    node_world_start(world);
    conn = node_world_greet(world, 1);
    assert_int_equal(produce_err(conn, &topic_id, 1), STELE_OK);
    assert_int_equal(node_world_check_partition(conn, &topic_id, 1, false), 4);
    assert_int_equal(node_world_check_partition(conn, &topic_id, 0, false), 4);
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

/* Where only what is synced is visible, a node that was killed shows what it showed before from its first answer on. */
static void visible_at_once(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 1);
    struct node_answer answer;
    struct stele_uuid topic_id;
    node_world_set(world, "log.flush.before.ack", "true");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_ok(node_conn_create_topic(conn, "t", 1, &topic_id));
    for (int i = 0; i < 3; i++)
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->durability, STELE_DURABILITY_SYNCED);
    node_world_crash(world, SIM_DISK_KILL);
    assert_ok(node_world_begin(world));
    while (!world->is_ready)
        assert_true(node_world_step(world));
    world->holds_jobs = true; /* no sync comes to its help */
    conn = node_world_greet(world, 1);
    node_conn_send_list(conn, &topic_id, 0, STELE_TIME_LATEST);
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.body.list_offsets.results[0].offset, 3);
    world->holds_jobs = false;
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

static void test_visible_at_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        visible_at_once(seed);
}

/* Where only what is synced is visible, no reader sees a record before the names that it lies under are synced too. */
static void visible_under_names(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 2);
    struct node_answer answer;
    struct stele_uuid topic_id;
    struct node_shape shape = {.count = 1, .value_bytes = 20, .acks = -1};
    node_world_set(world, "log.flush.before.ack", "true");
    node_world_set(world, "log.dirs", "a");
    node_world_start(world);
    struct node_conn *writer = node_world_greet(world, 1), *reader = node_world_greet(world, 2);
    world->holds_jobs = true;
    node_conn_send_create(writer, "t", 1, NULL, 0);
    while (!node_conn_poll(writer, &answer)) {
        if (!node_world_step(world)) /* the making itself is a job */
            world->holds_jobs = false;
    }
    topic_id = answer.response.body.create_topic.topic_id;
    (void)node_conn_put(writer, &topic_id, 0, &shape);
    struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, 0);
    struct stele_fetch_request fetch = {.replica_id = -1,
                                        .max_wait_ms = 500,
                                        .min_bytes = 1,
                                        .max_bytes = 1000,
                                        .partitions = &part,
                                        .partition_count = 1};
    node_conn_send_fetch(reader, &fetch);
    world->holds_jobs = false;
    while (!node_conn_poll(reader, &answer))
        assert_true(node_world_step(world));
    assert_true(answer.records_bytes > 0);
    assert_true(sim_disk_is_durable(world->disk, "a/t-0/00000000000000000000.log", 0, (int64_t)answer.records_bytes));
    node_world_free(world);
}

static void test_visible_under_names(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        visible_under_names(seed);
}

/* Acknowledged with flush.before.ack means on the disk: a loss of power keeps it, also when the node was killed in
 * between, so that the names of a young partition were seen at a start but never synced. */
static void flush_before_ack(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 2);
    struct stele_uuid topic_id;
    node_world_set(world, "log.flush.before.ack", "true");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    node_conn_send_create(conn, "t", 3, NULL, 0);
    for (uint64_t i = 0; i < 1 + seed / 2; i++)
        (void)node_world_step(world);
    node_world_crash(world, SIM_DISK_KILL);
    node_world_start(world);
    conn = node_world_greet(world, 2);
    enum stele_err err = node_conn_create_topic(conn, "t", 3, &topic_id);
    if (err == STELE_TOPIC_ALREADY_EXISTS) {
        struct node_answer answer;
        struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
        (void)node_conn_send(conn, &request, NULL, 0);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.metadata.topic_count, 1);
        topic_id = answer.response.body.metadata.topics[0].topic_id;
    } else {
        assert_int_equal(err, STELE_OK);
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(node_conn_produce(conn, &topic_id, i % 3)->durability, STELE_DURABILITY_SYNCED);
    node_world_crash(world, SIM_DISK_ADVERSARIAL);
    node_world_start(world);
    conn = node_world_greet(world, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(node_world_check_partition(conn, &topic_id, i, true), 2);
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

static void each_seed(void (*test)(uint64_t seed), uint64_t count)
{
    for (uint64_t seed = 0; seed < count; seed++)
        test(seed);
}

static void test_directory_down(void **state)
{
    (void)state;
    each_seed(directory_down, SEEDS);
}

static void test_log_down(void **state)
{
    (void)state;
    each_seed(log_down, SEEDS);
}

static void test_flush_before_ack(void **state)
{
    (void)state;
    each_seed(flush_before_ack, 80);
}

/* Who asks is told the address of the listener by which he came, whichever shard serves him. */
static void test_listeners(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 2);
        struct stele_listeners listeners;
        struct stele_error error = {.text = ""};
        node_world_set(world, "listeners", "IN://10.0.0.1:1,OUT://:2,THIRD://[::1]:0");
        node_world_set(world, "advertised.listeners", "OUT://out.example:443");
        node_world_start(world);
        assert_ok(stele_listeners_read(world->settings, &listeners, &error));
        listeners.items[2].port = 3;
        stele_listeners_settle(&listeners, "machine");
        stele_node_set_listeners(world->node, &listeners);
        for (int shard = 1; shard <= 2; shard++) {
            static const struct {
                const char *host;
                int32_t port;
            } told[] = {{"10.0.0.1", 1}, {"out.example", 443}, {"::1", 3}};
            for (int i = 0; i < 3; i++) {
                struct stele_request request = {.header.api = STELE_API_METADATA,
                                                .body.metadata = {.all_topics = true}};
                struct node_answer answer;
                world->listener = i;
                struct node_conn *conn = node_world_greet(world, shard);
                (void)node_conn_send(conn, &request, NULL, 0);
                node_conn_take(conn, &answer);
                const struct stele_metadata_response *response = &answer.response.body.metadata;
                assert_int_equal(response->node_count, 1);
                assert_string_equal(response->nodes[0].host, told[i].host);
                assert_int_equal(response->nodes[0].port, told[i].port);
            }
        }
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

int main(int argc, char **argv)
{
#ifdef STELE_MUTATIONS
    stele_mutation = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
#else
    (void)argc;
    (void)argv;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directory_down),   cmocka_unit_test(test_log_down),
        cmocka_unit_test(test_visible_at_once),  cmocka_unit_test(test_visible_under_names),
        cmocka_unit_test(test_flush_before_ack), cmocka_unit_test(test_listeners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
