/* Connections: what is refused, what is bounded, and that every answer comes in its turn. */
#include "node/test/node_world.h"

#include <string.h>

enum { SEEDS = 12 };

static struct node_world *world_with_topic(uint64_t seed, int shards, struct stele_uuid *out_topic_id)
{
    struct node_world *world = node_world_new(seed, shards);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_int_equal(node_conn_create_topic(conn, "t", 4, out_topic_id), STELE_OK);
    return world;
}

static void send_metadata(struct node_conn *conn)
{
    struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

static void send_hello_as(struct node_conn *conn, enum stele_role role, const char *cluster_id, size_t name_bytes)
{
    static char name[2 << 20];
    memset(name, 'x', sizeof(name));
    name[name_bytes] = 0;
    struct stele_request hello = {
        .header.api = STELE_API_HELLO,
        .body.hello = {
            .software_name = name, .software_version = "1", .cluster_id = cluster_id, .role = role, .node_id = 3}};
    (void)node_conn_send(conn, &hello, NULL, 0);
    name[name_bytes] = 'x';
}

static void send_hello(struct node_conn *conn, const char *cluster_id, size_t name_bytes)
{
    send_hello_as(conn, STELE_ROLE_CLIENT, cluster_id, name_bytes);
}

/* Garbage closes its connection and nothing else. */
static void test_garbage(void **state)
{
    static const struct {
        const char *hex;
        bool is_greeted;
    } rows[] = {
        {"474554202f20485454502f312e310d0a0d0a", false}, /* HTTP */
        {"474554202f20485454502f312e310d0a0d0a", true},
        {"16030100a5010000a1", false},                 /* TLS */
        {"0000002300120003000000010003636c69", false}, /* Kafka's first request */
        {"5353482d322e302d4f70656e5353480d0a", false}, /* SSH */
        {"0000000800000004ffffffff", false},           /* a message that does not decode */
        {"0000000800000004ffffffff", true},
        {"0000000400000000", true},         /* an empty frame */
        {"0000000800000009ffffffff", true}, /* a message larger than its frame */
        {"ffffffff00000001", true},         /* beyond every limit */
        {"0000000300000000", true},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        uint8_t bytes[64];
        struct node_world *world = world_with_topic(i, 1, &topic_id);
        struct node_conn *bad = rows[i].is_greeted ? node_world_greet(world, 1) : node_world_connect(world, 1);
        struct node_conn *good = node_world_greet(world, 1);
        if (rows[i].is_greeted) /* what came before is answered */
            send_metadata(bad);
        node_conn_bytes(bad, bytes, stele_test_hex(rows[i].hex, bytes, sizeof(bytes)));
        send_metadata(bad);
        node_world_run(world);
        assert_int_equal(node_conn_poll(bad, &answer), rows[i].is_greeted);
        assert_true(bad->is_closed);
        assert_false(node_conn_poll(bad, &answer));
        assert_int_equal(node_conn_produce(good, &topic_id, 0)->err, STELE_OK);
        node_world_free(world);
    }
}

/* Requests that a connection must not send: before hello, to another cluster, of a version that there is none of, with
 * records that belong to nothing. Large first frames are refused before they are taken. */
static void test_manners(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 2, &topic_id);
        struct node_conn *conn = node_world_connect(world, 1);
        send_metadata(conn);
        node_world_run(world);
        assert_true(conn->is_closed);
        assert_false(node_conn_poll(conn, &answer));

        conn = node_world_connect(world, 2);
        send_hello(conn, "another", 4);
        send_metadata(conn);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.hello.err, STELE_INVALID_REQUEST);
        assert_int_not_equal(answer.response.body.hello.message[0], 0);
        assert_true(conn->is_closed);
        assert_false(node_conn_poll(conn, &answer));

        conn = node_world_connect(world, 2);
        send_hello(conn, "", 1 << 20);
        node_world_run(world);
        assert_true(conn->is_closed);
        assert_true(conn->in_count > 1000000);

        conn = node_world_greet(world, 1);
        send_hello(conn, "", 1 << 20); /* again, and larger: it is known by now */
        send_metadata(conn);
        node_conn_take(conn, &answer);
        node_conn_take(conn, &answer);
        struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
        (void)node_conn_send(conn, &request, (const uint8_t *)"records", 7);
        node_world_run(world);
        assert_true(conn->is_closed);

        conn = node_world_greet(world, 1);
        struct stele_buf *frame = NULL;
        request.header.version = 99;
        assert_ok(stele_request_encode(&world->arena, &request, 0, &frame));
        node_conn_bytes(conn, frame->bytes, frame->count);
        stele_buf_unref(frame);
        node_world_run(world);
        assert_true(conn->is_closed);

        conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        node_world_free(world);
    }
}

/* A node of another cluster is refused each time, and told of once a minute however often it tries. */
static void test_strangers(void **state)
{
    (void)state;
    struct stele_uuid topic_id;
    struct node_answer answer;
    struct node_world *world = world_with_topic(1, 1, &topic_id);
    for (int minute = 0; minute < 3; minute++) {
        for (int i = 0; i < 5; i++) {
            struct node_conn *conn = node_world_connect(world, 1);
            send_hello_as(conn, STELE_ROLE_NODE, "another", 4);
            node_conn_take(conn, &answer);
            assert_int_equal(answer.response.body.hello.err, STELE_INVALID_REQUEST);
            assert_true(conn->is_closed);
            assert_int_equal(world->traces[STELE_TRACE_PEER_REFUSED], minute + 1);
        }
        node_world_pass(world, 60000);
    }
    node_world_free(world);
}

/* A mix of requests that take their time in different ways, pipelined: answered one after another. */
static void test_pipeline(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 3, &topic_id);
        struct node_conn *conn = node_world_greet(world, 2);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, 0);
        struct stele_fetch_request fetch = {.max_wait_ms = 100000,
                                            .min_bytes = 1 << 19,
                                            .max_bytes = 1 << 20,
                                            .partitions = &part,
                                            .partition_count = 1};
        char name[16] = "u0";
        uint64_t first = conn->sent_id + 1;
        for (int i = 0; i < 40; i++) {
            switch (stele_prng_below(&world->prng, 5)) {
            case 0:
                send_metadata(conn);
                break;
            case 1:
                node_conn_send_fetch(conn, &fetch);
                break;
            case 2:
                (void)node_conn_put(conn, &topic_id, i % 4, &(struct node_shape){.acks = -1});
                break;
            case 3:
                name[1] = (char)('a' + i % 26);
                node_conn_send_create(conn, name, 2, NULL, 0);
                break;
            default:
                node_conn_send_list(conn, &topic_id, i % 4, world->wall_ms);
                break;
            }
        }
        node_conn_send_list(conn, &topic_id, 0, STELE_TIME_LATEST);
        node_world_run(world);
        for (uint64_t id = first; id <= conn->sent_id; id++) {
            assert_true(node_conn_poll(conn, &answer));
            assert_int_equal(answer.response.header.correlation_id, id);
        }
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* Requests without an answer are counted, by number and by bytes: beyond the bound the node reads no more, and goes on
 * when they are answered. */
static void test_calls_bound(void **state)
{
    static const struct {
        struct node_shape shape;
        int count, open_max;
    } rows[] = {
        {{.acks = 1}, 200, 64},
        {{.acks = 1, .value_bytes = 1000000}, 40, 34},
    };
    (void)state;
    for (uint64_t seed = 0; seed < 2 * STELE_ARRAY_LEN(rows); seed++) {
        size_t row = seed / 2;
        struct node_world *world = node_world_new(seed, 2);
        struct stele_uuid topic_id;
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *other = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 4, &topic_id), STELE_OK);
        world->holds_jobs = true;
        size_t before = 0;
        for (int i = 0; i < rows[row].count; i++) {
            before = conn->in_count;
            (void)node_conn_put(conn, &topic_id, i % 4, &rows[row].shape);
        }
        size_t one = conn->in_count - before;
        node_world_run(world);
        assert_true(conn->is_paused);
        assert_true(conn->in_count >= one * (size_t)(rows[row].count - rows[row].open_max) - one);
        send_metadata(other); /* others are served */
        struct node_answer answer;
        node_conn_take(other, &answer);
        world->holds_jobs = false;
        node_world_run(world);
        node_world_drain(world);
        for (int i = 0; i < world->entry_count; i++)
            assert_int_equal(world->entries[i].err, world->entries[i].is_answered ? STELE_OK : -1);
        for (int32_t i = 0; i < 4; i++)
            assert_int_equal(node_world_check_partition(conn, &topic_id, i, true), rows[row].count / 4);
        node_world_free(world);
    }
}

/* A peer that does not take its answers: the node stops reading from it, and holds a bounded amount of memory. */
static void test_slow_reader(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 2, &topic_id);
        struct node_conn *conn = node_world_greet(world, 1), *slow = node_world_greet(world, 2);
        for (int i = 0; i < 4; i++)
            (void)node_conn_put(conn, &topic_id, 0, &(struct node_shape){.count = 1, .value_bytes = 90000, .acks = 1});
        for (int i = 0; i < 10; i++) {
            char name[] = "many0";
            name[4] = (char)('0' + i);
            node_conn_send_create(conn, name, 200, NULL, 0);
        }
        node_world_run(world);
        node_world_drain(world);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, 0);
        struct stele_fetch_request fetch = {.max_bytes = 1 << 20, .partitions = &part, .partition_count = 1};
        slow->is_deaf = true;
        enum { REQUESTS = 500 };
        for (int i = 0; i < REQUESTS; i++) {
            if (seed < 2)
                node_conn_send_fetch(slow, &fetch);
            else
                send_metadata(slow);
        }
        int64_t memory = world->mem.mem.total_bytes;
        node_world_run(world);
        assert_true(slow->is_paused);
        /* 8 MiB and the answers to what was read before */
        assert_true(slow->queued_bytes < (size_t)(seed < 2 ? 32 : 11) << 20);
        assert_true(world->mem.mem.total_bytes - memory < 12 << 20);
        assert_int_equal(node_conn_produce(conn, &topic_id, 1)->err, STELE_OK);
        slow->is_deaf = false;
        for (int i = 0; i < REQUESTS; i++)
            node_conn_take(slow, &answer);
        assert_false(slow->is_closed);
        node_world_free(world);
    }
}

/* Above four fifths of memory.limit no new frame is read; what has begun ends; below it goes on by itself. Another node
 * is read all the same: what it sends is small, and the produces that hold the memory may wait for it. */
static void test_memory_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 2, &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        struct node_conn *other = node_world_connect(world, 1);
        send_hello_as(other, STELE_ROLE_NODE, "", 3);
        node_conn_take(other, &answer);
        world->mem.mem.limit_bytes = 64 << 20;
        void *taken = stele_mem_raw(&world->mem.mem, STELE_MEM_NODE, 60 << 20);
        (void)node_conn_put(conn, &topic_id, 0, &(struct node_shape){.acks = 1});
        node_world_pass(world, 1000);
        assert_false(node_conn_poll(conn, &answer));
        assert_true(conn->in_count > 0);
        send_metadata(other);
        node_conn_take(other, &answer);
        assert_true(conn->in_count > 0);
        stele_mem_free(&world->mem.mem, taken);
        node_world_pass(world, 20);
        node_conn_take(conn, &answer);
        assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        assert_false(conn->is_closed);
        node_world_free(world);
    }
}

/* A silent connection is closed after its time, and so is one that takes nothing of what it was answered; one that
 * speaks or waits for an answer is not. */
static void test_idle(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 2);
        struct stele_uuid topic_id;
        struct node_answer answer;
        node_world_set(world, "connections.max.idle.ms", "10000");
        node_world_start(world);
        struct node_conn *silent = node_world_connect(world, 1), *speaks = node_world_greet(world, 1);
        struct node_conn *waits = node_world_greet(world, 2), *deaf = node_world_greet(world, 2);
        deaf->is_deaf = true;
        for (int i = 0; i < 9; i++)
            send_metadata(deaf);
        assert_int_equal(node_conn_create_topic(speaks, "t", 1, &topic_id), STELE_OK);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, 0);
        struct stele_fetch_request fetch = {
            .max_wait_ms = 60000, .min_bytes = 1, .max_bytes = 1 << 20, .partitions = &part, .partition_count = 1};
        node_conn_send_fetch(waits, &fetch);
        for (int i = 0; i < 5; i++) {
            node_world_pass(world, 9000);
            send_metadata(speaks);
            node_conn_take(speaks, &answer);
        }
        assert_true(silent->is_closed);
        assert_false(deaf->is_up);
        assert_int_equal(deaf->queued_bytes, 0);
        assert_false(speaks->is_closed);
        assert_false(waits->is_closed);
        node_world_pass(world, 16000);
        node_conn_take(waits, &answer);
        node_world_pass(world, 20100);
        assert_true(waits->is_closed);
        assert_true(speaks->is_closed);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage),      cmocka_unit_test(test_manners),     cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_pipeline),     cmocka_unit_test(test_calls_bound), cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
