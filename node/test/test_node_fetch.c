/* Fetches: waiting for more and what ends it, how much one answer holds, what a reader may see. */
#include "node/test/node_world.h"

#include <string.h>

enum { SEEDS = 24, PARTITIONS = 4 };

static void send_fetch(struct node_conn *conn, const struct stele_fetch_partition *parts, size_t count,
                       int32_t min_bytes, int32_t max_wait_ms)
{
    node_conn_send_fetch(conn, &(struct stele_fetch_request){.max_wait_ms = max_wait_ms,
                                                             .min_bytes = min_bytes,
                                                             .max_bytes = 1 << 20,
                                                             .partitions = parts,
                                                             .partition_count = count});
}

static struct node_world *world_with_topic(uint64_t seed, int shards, struct stele_uuid *out_topic_id)
{
    struct node_world *world = node_world_new(seed, shards);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_int_equal(node_conn_create_topic(conn, "t", PARTITIONS, out_topic_id), STELE_OK);
    return world;
}

/* A fetch of several partitions on several shards waits: for an append to any one of them, for its deadline, for the
 * next request of its connection. An append elsewhere wakes it not. */
static void parked(uint64_t seed)
{
    struct stele_uuid topic_id, other_id;
    struct node_answer answer;
    struct node_world *world = world_with_topic(seed, 3, &topic_id);
    struct node_conn *reader = node_world_greet(world, 2), *writer = node_world_greet(world, 1);
    struct stele_fetch_partition parts[PARTITIONS];
    assert_int_equal(node_conn_create_topic(writer, "other", PARTITIONS, &other_id), STELE_OK);
    for (int32_t i = 0; i < PARTITIONS; i++)
        parts[i] = node_fetch_at(&topic_id, i, 0);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        send_fetch(reader, parts, PARTITIONS, 1, 500);
        node_world_pass(world, 400);
        for (int32_t k = 0; k < PARTITIONS; k++)
            assert_int_equal(node_conn_produce(writer, &other_id, k)->err, STELE_OK);
        assert_false(node_conn_poll(reader, &answer));
        assert_int_equal(node_conn_produce(writer, &topic_id, i)->err, STELE_OK);
        node_conn_take(reader, &answer);
        for (int32_t k = 0; k < PARTITIONS; k++) {
            const struct stele_fetch_result *result = &answer.response.body.fetch.results[k];
            assert_int_equal(result->err, STELE_OK);
            assert_int_equal(result->partition, k);
            assert_int_equal(result->records_bytes > 0, k == i);
            assert_int_equal(result->high_watermark, k <= i);
        }
        parts[i].fetch_offset = 1;
    }
    send_fetch(reader, parts, PARTITIONS, 1, 500);
    node_world_pass(world, 499);
    assert_false(node_conn_poll(reader, &answer));
    node_world_pass(world, 1);
    node_conn_take(reader, &answer);
    assert_int_equal(answer.records_bytes, 0);
    send_fetch(reader, parts, PARTITIONS, 1, 500);
    send_fetch(reader, parts, PARTITIONS, 1, 0);
    node_conn_take(reader, &answer);
    assert_int_equal(answer.records_bytes, 0);
    node_conn_take(reader, &answer);
    send_fetch(reader, parts, PARTITIONS, 1, 500);
    node_world_run(world);
    node_conn_drop(reader); /* nobody waits any more */
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

static void test_parked(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        parked(seed);
}

/* Readers and writers at drawn moments, with waits that end in every way at once: wakes, deadlines, requests behind,
 * lost connections. Every fetch is answered, at the latest at its deadline, and the readers see every record in order.
 */
struct follower {
    struct node_conn *conn;
    struct stele_fetch_partition parts[PARTITIONS];
    int waiting;
    int64_t due_us;
};

static void follow(struct follower *follower, const struct node_answer *answer)
{
    size_t at = 0;
    assert_int_equal(answer->response.header.api, STELE_API_FETCH);
    for (size_t i = 0; i < PARTITIONS; i++) {
        const struct stele_fetch_result *result = &answer->response.body.fetch.results[i];
        size_t end = at + result->records_bytes;
        assert_int_equal(result->err, STELE_OK);
        while (end - at >= STELE_BATCH_HEADER_BYTES) {
            struct stele_batch_header header;
            int64_t size = stele_batch_size(answer->records + at);
            if (size > (int64_t)(end - at))
                break;
            assert_ok(stele_batch_check(answer->records + at, (size_t)size, &header));
            assert_int_equal(header.base_offset, follower->parts[i].fetch_offset);
            follower->parts[i].fetch_offset += header.last_offset_delta + 1;
            at += (size_t)size;
        }
        at = end;
    }
    follower->waiting--;
}

static void ask(struct follower *follower)
{
    struct node_world *world = follower->conn->world;
    int32_t wait_ms = (int32_t)stele_prng_below(&world->prng, 30);
    int32_t min_bytes = (int32_t)stele_prng_below(&world->prng, 400);
    send_fetch(follower->conn, follower->parts, PARTITIONS, min_bytes, wait_ms);
    follower->waiting++;
    follower->due_us = world->mono_us + wait_ms * 1000;
}

static void race(uint64_t seed)
{
    enum { FOLLOWERS = 3, ROUNDS = 60 };
    struct stele_uuid topic_id;
    struct node_answer answer;
    struct node_world *world = world_with_topic(seed, 3, &topic_id);
    struct node_conn *writers[2] = {node_world_greet(world, 1), node_world_greet(world, 3)};
    struct follower followers[FOLLOWERS];
    for (int i = 0; i < FOLLOWERS; i++) {
        followers[i] = (struct follower){.conn = node_world_greet(world, 1 + i)};
        for (int32_t k = 0; k < PARTITIONS; k++)
            followers[i].parts[k] = node_fetch_at(&topic_id, k, 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < FOLLOWERS; i++) {
            struct follower *follower = &followers[i];
            while (node_conn_poll(follower->conn, &answer))
                follow(follower, &answer);
            if (follower->waiting == 0)
                ask(follower);
            else if (follower->waiting == 1 && stele_prng_chance(&world->prng, 1, 30)) {
                node_conn_drop(follower->conn);
                follower->conn = node_world_greet(world, 1 + (int)stele_prng_below(&world->prng, 3));
                follower->waiting = 0;
            }
        }
        if (stele_prng_chance(&world->prng, 1, 2))
            (void)node_conn_put(writers[round % 2], &topic_id, (int32_t)stele_prng_below(&world->prng, PARTITIONS),
                                &(struct node_shape){.acks = 1, .count = 1 + round % 3});
        for (uint64_t steps = stele_prng_below(&world->prng, 40); steps > 0; steps--)
            (void)node_world_step(world);
        if (stele_prng_chance(&world->prng, 1, 3))
            node_world_pass(world, (int64_t)stele_prng_below(&world->prng, 8));
        for (int i = 0; i < FOLLOWERS; i++) {
            while (node_conn_poll(followers[i].conn, &answer))
                follow(&followers[i], &answer);
        }
    }
    node_world_run(world);
    for (int i = 0; i < 2; i++) {
        while (node_conn_poll(writers[i], &answer))
            (void)node_world_enter(world, writers[i], &answer);
    }
    node_world_pass(world, 40);
    for (int i = 0; i < FOLLOWERS; i++) {
        while (node_conn_poll(followers[i].conn, &answer))
            follow(&followers[i], &answer);
        assert_int_equal(followers[i].waiting, 0);
        send_fetch(followers[i].conn, followers[i].parts, PARTITIONS, 0, 0);
        followers[i].waiting++;
        node_conn_take(followers[i].conn, &answer);
        follow(&followers[i], &answer);
        for (int32_t k = 0; k < PARTITIONS; k++)
            assert_int_equal(followers[i].parts[k].fetch_offset, answer.response.body.fetch.results[k].high_watermark);
    }
    for (int32_t k = 0; k < PARTITIONS; k++)
        (void)node_world_check_partition(writers[0], &topic_id, k, false);
    node_world_free(world);
}

static void test_race(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++)
        race(seed);
}

/* An append that meets a fetch between its read and its wait ends the wait: no time need pass. */
static void test_no_lost_wake(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 3, &topic_id);
        struct node_conn *reader = node_world_greet(world, 2), *writer = node_world_greet(world, 1);
        struct stele_fetch_partition parts[PARTITIONS];
        for (int32_t i = 0; i < PARTITIONS; i++)
            parts[i] = node_fetch_at(&topic_id, i, 0);
        for (int round = 0; round < 40; round++) {
            int32_t to = (int32_t)stele_prng_below(&world->prng, PARTITIONS);
            (void)node_conn_put(writer, &topic_id, to, &(struct node_shape){.acks = 1});
            for (uint64_t steps = stele_prng_below(&world->prng, 8); steps > 0; steps--)
                (void)node_world_step(world);
            send_fetch(reader, parts, PARTITIONS, 1, 600000);
            node_conn_take(writer, &answer);
            assert_int_equal(node_world_enter(world, writer, &answer)->err, STELE_OK);
            node_conn_take(reader, &answer);
            assert_true(answer.records_bytes > 0);
            parts[to].fetch_offset++;
        }
        node_world_free(world);
    }
}

/* min_bytes counts the sum over the partitions; no more is waited for than an answer may hold. */
static void test_min_bytes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 3);
        node_world_set(world, "fetch.max.bytes", "2000");
        node_world_start(world);
        struct node_conn *reader = node_world_greet(world, 2), *writer = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(writer, "t", PARTITIONS, &topic_id), STELE_OK);
        struct stele_buf *batch = node_world_batch(world, &(struct node_shape){.count = 1}, 0);
        int32_t bytes = (int32_t)batch->count;
        stele_buf_unref(batch);
        struct stele_fetch_partition parts[3];
        for (int32_t i = 0; i < 3; i++)
            parts[i] = node_fetch_at(&topic_id, i, 0);
        send_fetch(reader, parts, 3, 3 * bytes, 1000);
        for (int32_t i = 0; i < 3; i++) {
            node_world_run(world);
            assert_false(node_conn_poll(reader, &answer));
            assert_int_equal(node_conn_produce(writer, &topic_id, i)->offset, 0);
        }
        node_conn_take(reader, &answer);
        assert_int_equal(answer.records_bytes, 3 * bytes);
        /* More than the request or the node lets through. */
        static const int32_t max_bytes[] = {700, 1 << 20};
        for (size_t i = 0; i < STELE_ARRAY_LEN(max_bytes); i++) {
            parts[0] = node_fetch_at(&topic_id, 3, (int64_t)i * 40);
            node_conn_send_fetch(reader, &(struct stele_fetch_request){.max_wait_ms = 1000,
                                                                       .min_bytes = INT32_MAX,
                                                                       .max_bytes = max_bytes[i],
                                                                       .partitions = parts,
                                                                       .partition_count = 1});
            for (int k = 0; k < 40; k++)
                (void)node_conn_produce(writer, &topic_id, 3);
            node_conn_take(reader, &answer);
            assert_true(answer.records_bytes >= 600);
        }
        node_world_free(world);
    }
}

/* What one answer holds: the first batch whole, the rest within max_bytes of the request, of the partition and of the
 * node. */
static void test_budget(void **state)
{
    static const struct {
        int32_t max_bytes, first_bytes, second_bytes;
        int batches[2];
    } rows[] = {
        {1 << 20, 1 << 20, 1 << 20, {4, 4}}, {1, 1 << 20, 1 << 20, {1, 0}},    {0, 1 << 20, 1 << 20, {0, 0}},
        {1 << 20, 1, 1 << 20, {1, 4}},       {1 << 20, 0, 1 << 20, {0, 4}},    {1 << 20, 1 << 20, 0, {4, 0}},
        {2500, 1 << 20, 1 << 20, {2, 0}},    {5500, 1 << 20, 1 << 20, {4, 1}}, {1 << 20, -1, INT32_MIN, {0, 0}},
    };
    (void)state;
    for (size_t row = 0; row < STELE_ARRAY_LEN(rows); row++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(row, 2, &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        for (int i = 0; i < 8; i++) {
            (void)node_conn_put(conn, &topic_id, i % 2,
                                &(struct node_shape){.count = 1, .value_bytes = 1000, .acks = 1});
        }
        node_world_run(world);
        node_world_drain(world);
        struct stele_fetch_partition parts[2] = {node_fetch_at(&topic_id, 0, 0), node_fetch_at(&topic_id, 1, 0)};
        parts[0].max_bytes = rows[row].first_bytes;
        parts[1].max_bytes = rows[row].second_bytes;
        node_conn_send_fetch(conn, &(struct stele_fetch_request){
                                       .max_bytes = rows[row].max_bytes, .partitions = parts, .partition_count = 2});
        node_conn_take(conn, &answer);
        size_t at = 0;
        for (int i = 0; i < 2; i++) {
            const struct stele_fetch_result *result = &answer.response.body.fetch.results[i];
            int batches = (int)(result->records_bytes / 1000);
            assert_int_equal(result->err, STELE_OK);
            if (batches != rows[row].batches[i])
                print_error("row %zu, partition %d\n", row, i);
            assert_int_equal(batches, rows[row].batches[i]);
            at += result->records_bytes;
        }
        assert_int_equal(at, answer.records_bytes);
        node_world_free(world);
    }
}

/* Errors end the wait at once; each partition has its own. */
static void test_errors(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id, unknown;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 3, &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        (void)node_conn_produce(conn, &topic_id, 1);
        unknown = topic_id;
        unknown.bytes[0] ^= 1;
        struct stele_fetch_partition parts[] = {
            node_fetch_at(&topic_id, 0, 0), node_fetch_at(&topic_id, 1, 2),  node_fetch_at(&topic_id, 2, -1),
            node_fetch_at(&unknown, 0, 0),  node_fetch_at(&topic_id, 77, 0), node_fetch_at(&topic_id, 3, 0),
            node_fetch_at(&topic_id, 1, 0),
        };
        static const enum stele_err errs[] = {STELE_OK,
                                              STELE_OFFSET_OUT_OF_RANGE,
                                              STELE_OFFSET_OUT_OF_RANGE,
                                              STELE_UNKNOWN_TOPIC_ID,
                                              STELE_UNKNOWN_TOPIC_ID,
                                              STELE_UNKNOWN_LEADER_EPOCH,
                                              STELE_OK};
        parts[5].current_leader_epoch = 3;
        parts[6].current_leader_epoch = 0;
        send_fetch(conn, parts, STELE_ARRAY_LEN(parts), 1000, 60000);
        node_conn_take(conn, &answer);
        for (size_t i = 0; i < STELE_ARRAY_LEN(parts); i++)
            assert_int_equal(answer.response.body.fetch.results[i].err, errs[i]);
        assert_int_equal(answer.response.body.fetch.results[1].high_watermark, 1);
        assert_int_equal(answer.response.body.fetch.results[1].log_start_offset, 0);
        assert_int_equal(answer.response.body.fetch.results[3].high_watermark, -1);
        node_world_free(world);
    }
}

/* With flush.before.ack nobody sees what a loss of power may take back, and the waiting are woken by the sync. */
static void test_high_watermark(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 2);
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *reader = node_world_greet(world, 1), *writer = node_world_greet(world, 2);
        assert_int_equal(node_conn_create_topic(reader, "t", 1, &topic_id), STELE_OK);
        assert_int_equal(node_conn_produce(writer, &topic_id, 0)->durability, STELE_DURABILITY_SYNCED);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, 1);
        send_fetch(reader, &part, 1, 1, 1000);
        world->holds_jobs = true;
        (void)node_conn_put(writer, &topic_id, 0, &(struct node_shape){.acks = 1});
        node_world_run(world);
        assert_false(node_conn_poll(reader, &answer));
        assert_false(node_conn_poll(writer, &answer));
        send_fetch(reader, &part, 1, 1, 0);
        for (int i = 0; i < 2; i++) {
            node_conn_take(reader, &answer);
            assert_int_equal(answer.records_bytes, 0);
            assert_int_equal(answer.response.body.fetch.results[0].high_watermark, 1);
        }
        node_conn_send_list(reader, &topic_id, 0, STELE_TIME_LATEST);
        node_conn_take(reader, &answer);
        assert_int_equal(answer.response.body.list_offsets.results[0].offset, 1);
        send_fetch(reader, &part, 1, 1, 1000);
        node_world_run(world);
        world->holds_jobs = false;
        node_conn_take(reader, &answer);
        assert_true(answer.records_bytes > 0);
        assert_int_equal(answer.response.body.fetch.results[0].high_watermark, 2);
        node_conn_take(writer, &answer);
        assert_int_equal(node_world_enter(world, writer, &answer)->durability, STELE_DURABILITY_SYNCED);
        node_world_free(world);
    }
}

/* Ranges that are not in the page cache are loaded by jobs; answers are the same, and keep their order. */
static void test_cold(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, 3, &topic_id);
        struct node_conn *conn = node_world_greet(world, 1), *other = node_world_greet(world, 2);
        for (int i = 0; i < 40; i++)
            (void)node_conn_put(conn, &topic_id, i % PARTITIONS,
                                &(struct node_shape){.count = 5, .value_bytes = 2000, .acks = 1});
        node_world_run(world);
        node_world_drain(world);
        sim_disk_set_rates(world->disk, &(struct sim_disk_rates){.cold = 800000});
        struct stele_fetch_partition parts[PARTITIONS];
        for (int32_t i = 0; i < PARTITIONS; i++)
            parts[i] = node_fetch_at(&topic_id, i, (int64_t)(seed % 40));
        for (int i = 0; i < 5; i++) {
            send_fetch(conn, parts, PARTITIONS, 1, 100);
            node_conn_send_list(conn, &topic_id, i % PARTITIONS, world->wall_ms - 10);
            send_fetch(other, parts, PARTITIONS, 1, 100);
        }
        for (int i = 0; i < 5; i++) {
            node_conn_take(conn, &answer);
            assert_int_equal(answer.response.header.api, STELE_API_FETCH);
            assert_true(answer.records_bytes > 0);
            node_conn_take(conn, &answer);
            assert_int_equal(answer.response.header.api, STELE_API_LIST_OFFSETS);
            assert_int_equal(answer.response.body.list_offsets.results[0].err, STELE_OK);
            assert_int_equal(answer.response.body.list_offsets.results[0].offset, 0);
            node_conn_take(other, &answer);
        }
        for (int32_t i = 0; i < PARTITIONS; i++)
            assert_int_equal(node_world_check_partition(conn, &topic_id, i, false), 50);
        /* Dropped in the middle of loading. */
        send_fetch(conn, parts, PARTITIONS, 1, 100);
        node_conn_send_list(conn, &topic_id, 1, world->wall_ms - 10);
        for (uint64_t i = 0; i < seed; i++)
            (void)node_world_step(world);
        node_world_free(world);
    }
}

/* KIP-320: who names the epoch of the record before is told where the logs part when this one has no such record, at
 * once and without records; who names none, or one that is there, reads on. A rack changes nothing on a node alone. */
static void test_diverging(void **state)
{
    (void)state;
    static const struct {
        int64_t offset;
        int32_t last_fetched_epoch, diverging_epoch;
        int64_t diverging_end;
        bool has_records;
    } cases[] = {
        {1, -1, -1, -1, true}, {1, 0, -1, -1, true},
        {2, 0, -1, -1, false}, {3, 0, 0, 2, false}, /* a record at 2 was read in an epoch that ends there */
        {1, 5, -1, -1, true},                       /* an epoch of which nothing is known here says nothing */
    };
    struct stele_uuid topic_id;
    struct node_answer answer;
    struct node_world *world = world_with_topic(1, 2, &topic_id);
    struct node_conn *conn = node_world_greet(world, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 0, cases[i].offset);
        part.last_fetched_epoch = cases[i].last_fetched_epoch;
        node_conn_send_fetch(conn, &(struct stele_fetch_request){.min_bytes = cases[i].diverging_epoch >= 0,
                                                                 .max_wait_ms = 500,
                                                                 .max_bytes = 1 << 20,
                                                                 .partitions = &part,
                                                                 .partition_count = 1,
                                                                 .rack = "r"});
        node_conn_take(conn, &answer);
        const struct stele_fetch_result *result = &answer.response.body.fetch.results[0];
        assert_int_equal(result->err, STELE_OK);
        assert_int_equal(result->diverging_epoch, cases[i].diverging_epoch);
        assert_int_equal(result->diverging_end_offset, cases[i].diverging_end);
        assert_int_equal(result->preferred_read_replica, -1);
        assert_int_equal(result->records_bytes > 0, cases[i].has_records);
        assert_int_equal(result->high_watermark, 2);
    }
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parked),         cmocka_unit_test(test_race),   cmocka_unit_test(test_no_lost_wake),
        cmocka_unit_test(test_min_bytes),      cmocka_unit_test(test_budget), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_high_watermark), cmocka_unit_test(test_cold),   cmocka_unit_test(test_diverging),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
