/* Describe log: what a partition tells, also while other things happen to it. */
#include "node/test/node_world.h"

#include <string.h>

enum { SEEDS = 20, PARTITIONS = 9 };

static struct node_conn *world_with_topic(struct node_world *world, const char *settings, struct stele_uuid *out_id)
{
    struct node_answer answer;
    struct stele_setting_pair pairs[] = {{"segment.bytes", "1024"}, {"retention.bytes", settings}};
    struct node_conn *conn = node_world_greet(world, 1);
    node_conn_send_create(conn, "t", PARTITIONS, pairs, 2);
    node_conn_take(conn, &answer);
    assert_ok(answer.response.body.create_topic.err);
    *out_id = answer.response.body.create_topic.topic_id;
    return conn;
}

static void send_describe(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partitions, bool is_full)
{
    struct stele_describe_log_partition parts[PARTITIONS + 2];
    struct stele_request request = {.header.api = STELE_API_DESCRIBE_LOG,
                                    .body.describe_log = {.partitions = parts,
                                                          .partition_count = (size_t)partitions,
                                                          .with_segments = is_full,
                                                          .with_stats = is_full,
                                                          .with_epochs = is_full}};
    for (int32_t i = 0; i < partitions; i++)
        parts[i] = (struct stele_describe_log_partition){.topic_id = *topic_id, .partition = i};
    (void)node_conn_send(conn, &request, NULL, 0);
}

static const struct stele_described_log *take_describe(struct node_conn *conn, struct node_answer *out, size_t count)
{
    node_conn_take(conn, out);
    assert_int_equal(out->response.header.api, STELE_API_DESCRIBE_LOG);
    assert_int_equal(out->response.body.describe_log.log_count, count);
    return out->response.body.describe_log.logs;
}

static void fill(struct node_conn *conn, const struct stele_uuid *topic_id, int rounds)
{
    struct node_shape shape = {.count = 2, .value_bytes = 100, .acks = -1};
    for (int i = 0; i < rounds; i++) {
        for (int32_t partition = 0; partition < PARTITIONS; partition++)
            (void)node_conn_put(conn, topic_id, partition, &shape);
        node_world_run(conn->world);
        node_world_drain(conn->world);
    }
}

/* More partitions than are described at a time, on several shards, with one that is not there: the answers are in the
 * order of the request, and say what was appended. */
static void test_partitions(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        enum { ROUNDS = 8 };
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 3);
        node_world_start(world);
        struct node_conn *conn = world_with_topic(world, "-1", &topic_id);
        fill(conn, &topic_id, ROUNDS);
        for (int is_full = 0; is_full < 2; is_full++) {
            send_describe(conn, &topic_id, PARTITIONS + 1, is_full != 0);
            const struct stele_described_log *logs = take_describe(conn, &answer, PARTITIONS + 1);
            assert_int_equal(logs[PARTITIONS].err, STELE_UNKNOWN_TOPIC_ID);
            assert_true(logs[PARTITIONS].message[0] != 0);
            for (int32_t i = 0; i < PARTITIONS; i++) {
                const struct stele_described_log *log = &logs[i];
                assert_ok(log->err);
                assert_int_equal(log->partition, i);
                assert_int_equal(log->log_end_offset, 2 * ROUNDS);
                assert_int_equal(log->high_watermark, 2 * ROUNDS);
                assert_int_equal(log->leader_id, 1);
                assert_int_equal(log->epoch_start_offset, 0);
                assert_int_equal(log->epoch_count, is_full ? 1 : 0);
                if (is_full)
                    assert_int_equal(log->epochs[0].start_offset, 0);
                assert_int_equal(log->replica_count, 1);
                assert_int_equal(log->replicas[0].node_id, 1);
                assert_int_equal(log->replicas[0].log_end_offset, 2 * ROUNDS);
                assert_int_equal(log->replicas[0].last_caught_up_ms, 0);
                assert_true(log->replicas[0].is_in_sync);
                assert_int_equal(log->bytes, log->bytes_appended);
                assert_true(log->segment_total > 1);
                assert_non_null(strstr(log->directory, "/t-"));
                assert_int_equal(log->segment_count, is_full != 0 ? log->segment_total : 0);
                assert_int_equal(log->histogram_count > 0, is_full);
                if (is_full == 0)
                    continue;
                assert_string_equal(log->segments[0].rolled_because, "segment.bytes reached");
                assert_string_equal(log->histograms[1].name, "batch bytes");
                assert_int_equal(log->histograms[1].count, ROUNDS);
                assert_int_equal(log->histograms[1].sum, log->bytes);
                assert_int_equal(log->event_count, log->segment_total - 1);
            }
        }
        send_describe(conn, &topic_id, 0, true);
        (void)take_describe(conn, &answer, 0);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* Descriptions under way while records come, segments go, the asker leaves and the node stops: all end, the stop is
 * clean and nothing is left behind. */
static void test_in_the_middle(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.retention.check.interval.ms", "10");
        node_world_start(world);
        struct node_conn *conn = world_with_topic(world, "2000", &topic_id), *leaver = node_world_greet(world, 1);
        fill(conn, &topic_id, 5);
        for (int round = 0; round < 20; round++) {
            send_describe(conn, &topic_id, PARTITIONS, true);
            if (leaver != NULL)
                send_describe(leaver, &topic_id, PARTITIONS, true);
            for (uint64_t i = stele_prng_below(&world->prng, 60); i > 0; i--)
                (void)node_world_step(world);
            if (round == 9) {
                node_conn_drop(leaver);
                leaver = NULL;
            }
            fill(conn, &topic_id, 1);
            node_world_pass(world, 10);
        }
        send_describe(conn, &topic_id, PARTITIONS, true);
        for (uint64_t i = stele_prng_below(&world->prng, 200); i > 0; i--)
            (void)node_world_step(world);
        if (seed % 4 == 0)
            node_world_crash(world, SIM_DISK_KILL);
        else
            assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* The n-th allocation fails: an error for a partition or for the connection, and the node goes on. */
static void test_memory(void **state)
{
    (void)state;
    for (int64_t at = 1;; at++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(7, 2);
        world->is_calm = true;
        node_world_start(world);
        struct node_conn *conn = world_with_topic(world, "-1", &topic_id);
        fill(conn, &topic_id, 3);
        struct node_conn *other = node_world_greet(world, 2);
        send_describe(other, &topic_id, 5, true);
        stele_test_mem_fail(&world->mem, at, false);
        node_world_run(world);
        bool has_failed = world->mem.has_failed;
        stele_test_mem_fail(&world->mem, 0, false);
        if (node_conn_poll(other, &answer)) {
            for (size_t i = 0; i < answer.response.body.describe_log.log_count; i++) {
                enum stele_err err = answer.response.body.describe_log.logs[i].err;
                assert_true(err == STELE_OK || (has_failed && stele_err_class(err) == STELE_CLASS_RETRIABLE));
            }
        } else {
            assert_true(has_failed);
        }
        send_describe(conn, &topic_id, 5, true);
        assert_ok(take_describe(conn, &answer, 5)[4].err);
        assert_ok(node_world_stop(world));
        node_world_free(world);
        if (!has_failed)
            break;
    }
}

/* A partition whose disk failed tells where it lies and that it is offline. */
static void test_offline(void **state)
{
    struct stele_uuid topic_id;
    struct node_answer answer;
    (void)state;
    struct node_world *world = node_world_new(3, 2);
    node_world_start(world);
    struct node_conn *conn = world_with_topic(world, "-1", &topic_id);
    fill(conn, &topic_id, 1);
    sim_disk_break(world->disk, "*/t-3/*", 1u << SIM_DISK_WRITE, STELE_IO, 0);
    fill(conn, &topic_id, 1);
    sim_disk_heal(world->disk);
    send_describe(conn, &topic_id, PARTITIONS, true);
    const struct stele_described_log *logs = take_describe(conn, &answer, PARTITIONS);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        assert_int_equal(logs[i].err, i == 3 ? STELE_KAFKA_STORAGE_ERROR : STELE_OK);
        assert_non_null(strstr(logs[i].directory, "/t-"));
    }
    assert_non_null(strstr(logs[3].message, "offline"));
    (void)node_world_stop(world);
    node_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_partitions), cmocka_unit_test(test_in_the_middle),
                                       cmocka_unit_test(test_memory), cmocka_unit_test(test_offline)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
