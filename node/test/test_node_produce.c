/* Produces: the order in which they are appended and answered, what is refused and how. */
#include "node/test/node_world.h"

#include <string.h>

enum { SEEDS = 30 };

/* Batches small and large, compressed and not, from several connections to partitions on several shards: validated in
 * jobs that end in any order. Every record is appended once, those of a connection in the order in which it sent them,
 * and its answers come in that order. */
static void mixed_order(uint64_t seed)
{
    static const struct node_shape shapes[] = {
        {.count = 1, .acks = 1},
        {.count = 3, .value_bytes = 200, .codec = STELE_CODEC_LZ4, .acks = -1},
        {.count = 30, .value_bytes = 1000, .acks = 1},
        {.count = 40, .value_bytes = 1000, .codec = STELE_CODEC_LZ4, .acks = 1},
        {.count = 20, .value_bytes = 2000, .codec = STELE_CODEC_ZSTD, .acks = -1},
        {.count = 250, .value_bytes = 100, .codec = STELE_CODEC_GZIP, .acks = 1},
    };
    enum { CONNS = 4, PARTITIONS = 3, ROUNDS = 12 };
    struct node_world *world = node_world_new(seed, 3);
    struct node_conn *conns[CONNS];
    struct stele_uuid topic_id;
    node_world_set(world, "log.segment.bytes", "300000");
    if (seed % 3 == 0)
        node_world_set(world, "log.flush.before.ack", "true");
    if (seed % 3 == 1)
        node_world_set(world, "log.message.timestamp.type", "LogAppendTime");
    node_world_start(world);
    for (int i = 0; i < CONNS; i++)
        conns[i] = node_world_greet(world, 1 + i % 3);
    assert_int_equal(node_conn_create_topic(conns[0], "t", PARTITIONS, &topic_id), STELE_OK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CONNS; i++) {
            int drawn = (int)stele_prng_below(&world->prng, STELE_ARRAY_LEN(shapes));
            (void)node_conn_put(conns[i], &topic_id, (int32_t)stele_prng_below(&world->prng, PARTITIONS),
                                &shapes[drawn]);
        }
        for (uint64_t steps = stele_prng_below(&world->prng, 60); steps > 0; steps--)
            (void)node_world_step(world);
        node_world_drain(world);
    }
    node_world_run(world);
    node_world_drain(world);
    int64_t last[CONNS][PARTITIONS];
    memset(last, -1, sizeof(last));
    for (int i = 0; i < world->entry_count; i++) {
        const struct node_entry *entry = &world->entries[i];
        assert_true(entry->is_answered);
        assert_int_equal(entry->err, STELE_OK);
        assert_true(entry->offset > last[entry->conn][entry->partition]);
        last[entry->conn][entry->partition] = entry->offset;
        if (seed % 3 == 0)
            assert_int_equal(entry->durability, STELE_DURABILITY_SYNCED);
    }
    for (int32_t i = 0; i < PARTITIONS; i++)
        (void)node_world_check_partition(conns[1], &topic_id, i, false);
    assert_ok(node_world_stop(world));
    node_world_start(world);
    conns[0] = node_world_greet(world, 1);
    for (int32_t i = 0; i < PARTITIONS; i++)
        (void)node_world_check_partition(conns[0], &topic_id, i, false);
    node_world_free(world);
}

static void test_mixed_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        mixed_order(seed);
}

/* A fetch behind a produce of its own connection sees it, also while the produce is still validated. */
static void test_read_your_writes(void **state)
{
    static const struct node_shape large = {.count = 40, .value_bytes = 1000, .codec = STELE_CODEC_LZ4, .acks = 1};
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 2);
        struct stele_uuid topic_id;
        struct node_answer answer;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *other = node_world_greet(world, 2);
        assert_int_equal(node_conn_create_topic(conn, "t", 1, &topic_id), STELE_OK);
        for (int round = 0; round < 4; round++) {
            int64_t end = round * 80;
            struct stele_fetch_partition wanted = node_fetch_at(&topic_id, 0, end);
            struct stele_fetch_request fetch = {.max_bytes = 1 << 20, .partitions = &wanted, .partition_count = 1};
            (void)node_conn_put(other, &topic_id, 0, &large);
            (void)node_conn_put(conn, &topic_id, 0, &large);
            node_conn_send_fetch(conn, &fetch);
            node_conn_send_list(conn, &topic_id, 0, STELE_TIME_LATEST);
            world->holds_jobs = true;
            node_world_run(world);
            assert_false(node_conn_poll(conn, &answer)); /* it is long enough for a job */
            world->holds_jobs = false;
            node_conn_take(conn, &answer);
            const struct node_entry *entry = node_world_enter(world, conn, &answer);
            assert_int_equal(entry->err, STELE_OK);
            node_conn_take(conn, &answer);
            assert_int_equal(answer.response.header.api, STELE_API_FETCH);
            assert_true(answer.response.body.fetch.results[0].high_watermark >= entry->offset + entry->count);
            assert_true(answer.records_bytes > 0);
            node_conn_take(conn, &answer);
            assert_int_equal(answer.response.header.api, STELE_API_LIST_OFFSETS);
            assert_true(answer.response.body.list_offsets.results[0].offset >= entry->offset + entry->count);
            node_world_drain(world);
        }
        node_world_free(world);
    }
}

/* What is refused: each with its error, and nothing of it is appended. */
static void test_refusals(void **state)
{
    static const struct {
        int acks, partition;
        bool is_other_topic, is_broken;
        const char *setting;
        enum stele_err err;
    } rows[] = {
        {.acks = 1, .err = STELE_OK},
        {.acks = -1, .err = STELE_OK},
        {.acks = 2, .err = STELE_INVALID_REQUIRED_ACKS},
        {.acks = -2, .err = STELE_INVALID_REQUIRED_ACKS},
        {.acks = INT32_MIN, .err = STELE_INVALID_REQUIRED_ACKS},
        {.acks = 1, .partition = 9, .err = STELE_UNKNOWN_TOPIC_ID},
        {.acks = 1, .partition = -1, .err = STELE_UNKNOWN_TOPIC_ID},
        {.acks = 1, .is_other_topic = true, .err = STELE_UNKNOWN_TOPIC_ID},
        {.acks = 1, .is_broken = true, .err = STELE_CORRUPT_MESSAGE},
        {.acks = -1, .setting = "min.insync.replicas", .err = STELE_OK}, /* no more than there are replicas (KIP-966) */
        {.acks = 1, .setting = "min.insync.replicas", .err = STELE_OK},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct node_world *world = node_world_new(i, 2);
        struct stele_uuid topic_id;
        struct node_answer answer;
        if (rows[i].setting != NULL)
            node_world_set(world, rows[i].setting, "2");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 1, &topic_id), STELE_OK);
        struct stele_uuid asked = topic_id;
        asked.bytes[3] ^= rows[i].is_other_topic;
        (void)node_conn_put(conn, &asked, rows[i].partition, &(struct node_shape){.acks = rows[i].acks});
        if (rows[i].is_broken)
            conn->in[conn->in_at + conn->in_count - 1] ^= 1;
        node_conn_take(conn, &answer);
        const struct node_entry *entry = node_world_enter(world, conn, &answer);
        assert_int_equal(entry->err, rows[i].err);
        assert_int_equal(entry->offset, rows[i].err == STELE_OK ? 0 : -1);
        assert_int_equal(node_world_check_partition(conn, &topic_id, 0, false), rows[i].err == STELE_OK);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* With acks 0 there is no answer; a failure closes the connection, after what was asked before it is answered. */
static void test_acks_0(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 2);
        struct stele_uuid topic_id;
        struct node_answer answer;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *other = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        for (int i = 0; i < 10; i++)
            (void)node_conn_put(conn, &topic_id, i % 2, &(struct node_shape){.acks = 0});
        const struct node_entry *last = node_conn_put(conn, &topic_id, 0, &(struct node_shape){.acks = 1});
        node_conn_take(conn, &answer);
        assert_ptr_equal(node_world_enter(world, conn, &answer), last);
        assert_int_equal(last->offset, 5);
        assert_false(conn->is_closed);
        (void)node_conn_put(conn, &topic_id, 1, &(struct node_shape){.count = 30, .value_bytes = 3000, .acks = 1});
        (void)node_conn_put(conn, &topic_id, 7, &(struct node_shape){.acks = 0});
        (void)node_conn_put(conn, &topic_id, 1, &(struct node_shape){.acks = 1});
        node_conn_take(conn, &answer);
        assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        assert_false(node_conn_poll(conn, &answer));
        assert_true(conn->is_closed);
        (void)node_world_check_partition(other, &topic_id, 1, false);
        node_world_free(world);
    }
}

/* An idempotent producer that sends a batch again, over another connection and after a restart, gets the offset of the
 * first time; a gap is refused. */
static void test_duplicate(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 2);
        struct stele_uuid topic_id;
        struct node_shape shape = {
            .count = 20, .value_bytes = 2000, .codec = STELE_CODEC_LZ4, .producer_id = 7, .acks = -1};
        struct node_answer answer;
        if (seed % 2 == 0)
            node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *other = node_world_greet(world, 2);
        assert_int_equal(node_conn_create_topic(conn, "t", 1, &topic_id), STELE_OK);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->offset, 0);
        struct stele_buf *batch = node_world_batch(world, &shape, world->next_value);
        struct stele_produce_partition wanted = {.topic_id = topic_id, .records_bytes = (uint32_t)batch->count};
        struct stele_request request = {
            .header.api = STELE_API_PRODUCE,
            .body.produce = {.acks = -1, .timeout_ms = 30000, .partitions = &wanted, .partition_count = 1}};
        for (int i = 0; i < 3; i++) {
            (void)node_conn_send(conn, &request, batch->bytes, batch->count);
            (void)node_conn_send(other, &request, batch->bytes, batch->count);
        }
        for (int i = 0; i < 6; i++) {
            node_conn_take(i % 2 == 0 ? conn : other, &answer);
            assert_int_equal(answer.response.body.produce.results[0].err, STELE_OK);
            assert_int_equal(answer.response.body.produce.results[0].base_offset, 1);
        }
        if (seed % 3 == 0)
            node_world_crash(world, SIM_DISK_KILL);
        else
            assert_ok(node_world_stop(world));
        node_world_start(world);
        conn = node_world_greet(world, 1);
        (void)node_conn_send(conn, &request, batch->bytes, batch->count);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.produce.results[0].err, STELE_OK);
        assert_int_equal(answer.response.body.produce.results[0].base_offset, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->offset, 21);
        shape.sequence = 40;
        (void)node_conn_put(conn, &topic_id, 0, &shape);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.produce.results[0].err, STELE_OUT_OF_ORDER_SEQUENCE_NUMBER);
        stele_buf_unref(batch);
        node_world_free(world);
    }
}

/* Several partitions in one request are answered one by one, each with its own result. */
static void test_many_partitions(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct node_world *world = node_world_new(seed, 3);
        struct stele_uuid topic_id;
        struct node_answer answer;
        enum { PARTS = 6 };
        struct stele_produce_partition wanted[PARTS];
        uint8_t records[4096];
        size_t bytes = 0;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", PARTS - 1, &topic_id), STELE_OK);
        for (int32_t i = 0; i < PARTS; i++) {
            struct stele_buf *batch = node_world_batch(world, &(struct node_shape){.count = 2}, i);
            wanted[i] = (struct stele_produce_partition){
                .topic_id = topic_id, .partition = i, .records_bytes = (uint32_t)batch->count};
            memcpy(records + bytes, batch->bytes, batch->count);
            bytes += batch->count;
            stele_buf_unref(batch);
        }
        struct stele_request request = {
            .header.api = STELE_API_PRODUCE,
            .body.produce = {.acks = 1, .timeout_ms = 30000, .partitions = wanted, .partition_count = PARTS}};
        (void)node_conn_send(conn, &request, records, bytes);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.produce.result_count, PARTS);
        for (int32_t i = 0; i < PARTS; i++) {
            const struct stele_produce_result *result = &answer.response.body.produce.results[i];
            assert_int_equal(result->partition, i);
            assert_int_equal(result->err, i == PARTS - 1 ? STELE_UNKNOWN_TOPIC_ID : STELE_OK);
            assert_int_equal(result->base_offset, i == PARTS - 1 ? -1 : 0);
        }
        /* Sizes that do not add up to the frame: closed, and nothing appended. */
        wanted[1].records_bytes++;
        (void)node_conn_send(conn, &request, records, bytes);
        node_world_run(world);
        assert_true(conn->is_closed);
        assert_false(node_conn_poll(conn, &answer));
        /* None at all is an answer without results. */
        conn = node_world_greet(world, 1);
        request.body.produce.partition_count = 0;
        (void)node_conn_send(conn, &request, NULL, 0);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.produce.result_count, 0);
        node_world_free(world);
    }
}

/* A produce that waits for its sync longer than its time-out is told so, once, and no sooner; its record stays, is
 * readable after the sync, and wakes who waits for it. */
static void test_timeout(void **state)
{
    (void)state;
    struct node_world *world = node_world_new(7, 2);
    struct stele_uuid id;
    struct node_shape shape = {.count = 1, .acks = -1};
    node_world_set(world, "log.flush.before.ack", "true");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1), *reader = node_world_greet(world, 2);
    assert_ok(node_conn_create_topic(conn, "t", 1, &id));
    assert_int_equal(node_conn_produce(conn, &id, 0)->err, STELE_OK);
    struct stele_fetch_partition at = node_fetch_at(&id, 0, 1);
    node_conn_send_fetch(reader, &(struct stele_fetch_request){.replica_id = -1,
                                                               .max_wait_ms = 200000,
                                                               .min_bytes = 1,
                                                               .max_bytes = 1 << 20,
                                                               .partitions = &at,
                                                               .partition_count = 1});
    node_world_run(world);
    world->holds_jobs = true;
    struct node_entry *entry = node_conn_put(conn, &id, 0, &shape);
    node_world_pass(world, 29000);
    node_world_drain(world);
    assert_false(entry->is_answered);
    node_world_pass(world, 2000);
    node_world_drain(world);
    assert_true(entry->is_answered);
    assert_int_equal(entry->err, STELE_REQUEST_TIMED_OUT);
    assert_int_equal(reader->out_count, 0);
    world->holds_jobs = false;
    struct node_answer answer;
    node_conn_take(reader, &answer);
    assert_int_equal(answer.response.body.fetch.results[0].err, STELE_OK);
    assert_true(answer.records_bytes > 0);
    entry = node_conn_produce(conn, &id, 0);
    assert_int_equal(entry->offset, 2);
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

/* Write-back is started by a job, for which no produce waits; what comes while one runs is of the next one. */
static void test_write_back(void **state)
{
    static const struct node_shape shape = {.count = 1, .value_bytes = 1000, .acks = -1};
    struct node_world *world = node_world_new(5, 1);
    struct stele_uuid id;
    (void)state;
    node_world_set(world, "log.write.back.bytes", "3000");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_ok(node_conn_create_topic(conn, "t", 1, &id));
    node_world_pass(world, 1000);
    /* Every one that is started fails, and so is counted. */
    sim_disk_set_rates(world->disk, &(struct sim_disk_rates){.write_back_error = 1000000});
    world->holds_jobs = true;
    for (int i = 0; i < 9; i++) {
        struct node_entry *entry = node_conn_put(conn, &id, 0, &shape);
        node_world_run(world);
        node_world_drain(world);
        assert_true(entry->is_answered);
        assert_int_equal(entry->err, STELE_OK);
        assert_int_equal(node_world_job_count(world), i < 3 ? 0 : 1);
    }
    world->holds_jobs = false;
    node_world_run(world);
    assert_int_equal(sim_disk_stats(world->disk)->write_back_errors, 1);
    (void)node_conn_put(conn, &id, 0, &shape);
    node_world_run(world);
    assert_int_equal(sim_disk_stats(world->disk)->write_back_errors, 2);
    /* A node that ends meanwhile leaves no file open. */
    world->holds_jobs = true;
    for (int i = 0; i < 3; i++)
        (void)node_conn_put(conn, &id, 0, &shape);
    node_world_run(world);
    assert_int_equal(node_world_job_count(world), 1);
    node_world_crash(world, SIM_DISK_KILL);
    node_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_order), cmocka_unit_test(test_read_your_writes),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_acks_0),
        cmocka_unit_test(test_duplicate),   cmocka_unit_test(test_many_partitions),
        cmocka_unit_test(test_timeout),     cmocka_unit_test(test_write_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
