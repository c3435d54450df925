/* Truncation of a partition beside requests: who holds what is cut loses his connection, nobody else does, and no
 * answer ever mixes what was there before with what came after. */
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/test/node_world.h"

#include <string.h>

enum { SEEDS = 40, PARTITIONS = 3, RECORDS = 24, FETCH_BYTES = 1 << 20 };

struct cutting {
    struct stele_truncate_op truncate;
    bool is_done;
};

static void cut_done(struct stele_op *op)
{
    STELE_CONTAINER_OF(op, struct cutting, truncate.op)->is_done = true;
}

static void begin(struct node_world *world, struct cutting *cutting, int home, const struct stele_uuid *topic_id,
                  int64_t offset, bool is_restart)
{
    *cutting = (struct cutting){.truncate = {.op = {.home = &world->node->shards[home],
                                                    .topic_id = *topic_id,
                                                    .leader_epoch = -1,
                                                    .run = stele_partition_truncate,
                                                    .done = cut_done},
                                             .offset = offset,
                                             .is_restart = is_restart}};
    int before = world->poster;
    world->poster = home;
    stele_op_submit(&cutting->truncate.op);
    world->poster = before;
}

static void begin_cut(struct node_world *world, struct cutting *cutting, int home, const struct stele_uuid *topic_id,
                      int64_t offset)
{
    begin(world, cutting, home, topic_id, offset, false);
}

static enum stele_err cut(struct node_world *world, const struct stele_uuid *topic_id, int64_t offset)
{
    struct cutting cutting;
    begin_cut(world, &cutting, 1, topic_id, offset);
    node_world_run(world);
    assert_true(cutting.is_done);
    return cutting.truncate.op.err;
}

static struct node_world *world_with_records(uint64_t seed, int shards, struct stele_uuid *out_topic_id)
{
    struct node_world *world = node_world_new(seed, shards);
    node_world_set(world, "log.segment.bytes", "3000");
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_ok(node_conn_create_topic(conn, "t", PARTITIONS, out_topic_id));
    for (int i = 0; i < RECORDS; i++)
        (void)node_conn_put(conn, out_topic_id, 0, &(struct node_shape){.count = 1, .value_bytes = 300, .acks = 1});
    node_world_run(world);
    node_world_drain(world);
    assert_int_equal(world->entries[RECORDS - 1].offset, RECORDS - 1);
    return world;
}

static void ask(struct node_conn *conn, const struct stele_uuid *topic_id, int64_t offset, int32_t max_bytes,
                int32_t min_bytes)
{
    struct stele_fetch_partition part = node_fetch_at(topic_id, 0, offset);
    part.max_bytes = max_bytes;
    node_conn_send_fetch(conn, &(struct stele_fetch_request){.max_wait_ms = 10000,
                                                             .min_bytes = min_bytes,
                                                             .max_bytes = FETCH_BYTES,
                                                             .partitions = &part,
                                                             .partition_count = 1});
}

/* The values by offset that an answer has; returns the offset behind its last whole batch. */
static int64_t read_values(struct node_world *world, const struct node_answer *answer, int64_t from,
                           int64_t values[2 * RECORDS])
{
    int64_t next = from;
    for (size_t at = 0; answer->records_bytes - at >= STELE_BATCH_HEADER_BYTES;) {
        struct stele_batch_header header;
        struct stele_record_walker walker;
        struct stele_record record;
        size_t size = (size_t)stele_batch_size(answer->records + at);
        if (size > answer->records_bytes - at)
            break;
        assert_ok(stele_batch_check(answer->records + at, size, &header));
        assert_int_equal(header.base_offset, next);
        assert_ok(stele_record_walker_init(&walker, &world->own.mem, answer->records + at, size, 1 << 20));
        while (stele_record_next(&walker, &record) == STELE_OK) {
            assert_int_equal(record.offset, next);
            assert_true(next < 2 * RECORDS);
            values[next++] = node_record_value(&record);
        }
        stele_record_walker_deinit(&walker);
        at += size;
    }
    return next;
}

/* One that takes nothing and holds what is cut is closed, one that holds only what stays is not; a waiting read is
 * woken; the log goes on at the cut, also after a crash. */
static void test_holders(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        int64_t values[2 * RECORDS];
        struct node_world *world = world_with_records(seed, 1 + (int)(seed % 3), &topic_id);
        int64_t at = stele_prng_range(&world->prng, 3, RECORDS - 1);
        struct node_conn *holds = node_world_greet(world, 1), *below = node_world_greet(world, 1);
        struct node_conn *waits = node_world_greet(world, 1), *writer = node_world_greet(world, 1);
        holds->is_deaf = below->is_deaf = true;
        for (int64_t from = 0; from < RECORDS; from += 4)
            ask(holds, &topic_id, from, FETCH_BYTES, 1);
        ask(below, &topic_id, 0, 1000, 1);
        ask(waits, &topic_id, RECORDS, FETCH_BYTES, 1);
        node_world_run(world);
        assert_true(holds->queued_bytes > 300 * RECORDS / 2 && below->queued_bytes > 400);
        assert_false(node_conn_poll(waits, &answer));
        assert_ok(cut(world, &topic_id, at));
        assert_false(holds->is_up);
        assert_int_equal(holds->piece_count, 0);
        assert_true(below->is_up);
        node_conn_take(waits, &answer);
        assert_int_equal(answer.response.body.fetch.results[0].err, STELE_OFFSET_OUT_OF_RANGE);
        struct node_entry *entry = node_conn_produce(writer, &topic_id, 0);
        assert_ok(entry->err);
        assert_int_equal(entry->offset, at);
        below->is_deaf = false;
        node_conn_take(below, &answer);
        assert_int_equal(read_values(world, &answer, 0, values), 2);
        for (int round = 0; round < 2; round++) {
            struct node_conn *reader = node_world_greet(world, 1);
            int64_t next = 0;
            while (next <= at) {
                ask(reader, &topic_id, next, FETCH_BYTES, 1);
                node_conn_take(reader, &answer);
                int64_t after = read_values(world, &answer, next, values);
                assert_true(after > next);
                next = after;
            }
            assert_int_equal(next, at + 1);
            for (int64_t i = 0; i < at; i++)
                assert_int_equal(values[i], i);
            assert_int_equal(values[at], entry->value);
            node_world_crash(world, SIM_DISK_KILL);
            node_world_start(world);
        }
        node_world_free(world);
    }
}

/* A fetch of the partition that is cut and of two empty ones, which may lie on other shards. */
static void ask_of_all(struct node_conn *conn, const struct stele_uuid *topic_id, int64_t offset, int32_t max_bytes)
{
    struct stele_fetch_partition parts[PARTITIONS];
    for (int32_t i = 0; i < PARTITIONS; i++)
        parts[i] = node_fetch_at(topic_id, i, i == 0 ? offset : 0);
    parts[0].max_bytes = max_bytes;
    node_conn_send_fetch(conn, &(struct stele_fetch_request){.max_wait_ms = 10000,
                                                             .min_bytes = 1,
                                                             .max_bytes = FETCH_BYTES,
                                                             .partitions = parts,
                                                             .partition_count = PARTITIONS});
}

struct tally {
    int closed, refused, old, fresh;
};

/* What an answer holds was in the log at one time: all of it before the cut, or all after it. */
static void judge(struct node_world *world, const struct node_answer *answer, int64_t from, int64_t at,
                  struct tally *tally)
{
    int64_t values[2 * RECORDS], of_old = 0, of_new = 0, first = stele_max_i64(from, at);
    const struct stele_fetch_result *result = &answer->response.body.fetch.results[0];
    if (result->err != STELE_OK) {
        assert_true(result->err == STELE_NOT_LEADER_OR_FOLLOWER || result->err == STELE_OFFSET_OUT_OF_RANGE);
        assert_int_equal(answer->records_bytes, 0);
        tally->refused += result->err == STELE_NOT_LEADER_OR_FOLLOWER;
        return;
    }
    int64_t end = read_values(world, answer, from, values);
    for (int64_t k = from; k < stele_min_i64(at, end); k++)
        assert_int_equal(values[k], k);
    for (int64_t k = first; k < end; k++) {
        of_old += values[k] == k;
        of_new += values[k] >= RECORDS;
    }
    assert_true(of_old == 0 || of_new == 0);
    assert_int_equal(of_old + of_new, stele_max_i64(end - first, 0));
    tally->old += of_old > 0;
    tally->fresh += of_new > 0;
}

/* Readers at every stage of their fetches when the cut comes, and other records behind it. */
static void race(uint64_t seed, struct tally *tally)
{
    enum { READERS = 5, ASKS = 3 };
    struct stele_uuid topic_id;
    struct node_answer answer;
    struct node_world *world = world_with_records(seed, 1 + (int)(seed % 3), &topic_id);
    struct stele_prng *prng = &world->prng;
    int64_t at = stele_prng_range(prng, 0, RECORDS - 1), froms[READERS][ASKS];
    struct node_conn *readers[READERS], *writer = node_world_greet(world, 1);
    struct cutting cutting;
    for (int i = 0; i < READERS; i++)
        readers[i] = node_world_greet(world, 1 + i % (world->shard_count - 1));
    for (int k = 0; k < ASKS; k++) {
        for (int i = 0; i < READERS; i++) {
            froms[i][k] = stele_prng_range(prng, 0, RECORDS - 1);
            if (readers[i]->is_up)
                ask_of_all(readers[i], &topic_id, froms[i][k], (int32_t)stele_prng_range(prng, 100, 4000));
            readers[i]->is_deaf = stele_prng_below(prng, 2) == 0;
        }
        if (k == ASKS - 2)
            begin_cut(world, &cutting, 1 + (int)stele_prng_below(prng, (uint64_t)world->shard_count - 1), &topic_id,
                      at);
        for (uint64_t steps = stele_prng_below(prng, 40); steps > 0 && node_world_step(world); steps--) {
        }
    }
    while (!cutting.is_done)
        assert_true(node_world_step(world));
    assert_ok(cutting.truncate.op.err);
    assert_int_equal(cutting.truncate.end_offset, at);
    for (int64_t i = at; i < RECORDS + 2; i++)
        (void)node_conn_put(writer, &topic_id, 0, &(struct node_shape){.value_bytes = 300, .acks = 1});
    node_world_run(world);
    for (int i = 0; i < READERS; i++)
        readers[i]->is_deaf = false;
    node_world_pass(world, 10000);
    for (int i = 0; i < READERS; i++) {
        int k = 0;
        for (; k < ASKS && node_conn_poll(readers[i], &answer); k++)
            judge(world, &answer, froms[i][k], at, tally);
        assert_int_equal(k == ASKS, readers[i]->is_up);
        tally->closed += !readers[i]->is_up;
    }
    node_world_drain(world);
    assert_ok(node_world_stop(world));
    node_world_free(world);
}

static void test_race(void **state)
{
    struct tally tally = {.closed = 0};
    (void)state;
    for (uint64_t seed = 0; seed < 10 * SEEDS; seed++)
        race(seed, &tally);
    /* Every way out was met. */
    if (tally.closed < 20 || tally.refused < 20 || tally.old < 20 || tally.fresh < 20)
        fail_msg("closed %d, refused %d, old %d, new %d", tally.closed, tally.refused, tally.old, tally.fresh);
}

/* What is under way when a partition is cut: a flush is waited for, a produce that waits for its sync beyond the cut is
 * refused and one below it is not, a second cut is refused, a stop waits. */
static void test_others(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_setting_pair synced = {"flush.before.ack", "true"};
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        struct node_answer answer;
        struct cutting first, second;
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        node_conn_send_create(conn, "t", 1, &synced, 1);
        node_conn_take(conn, &answer);
        struct stele_uuid topic_id = answer.response.body.create_topic.topic_id;
        assert_ok(node_conn_produce(conn, &topic_id, 0)->err);
        world->holds_jobs = true;
        struct node_entry *below = node_conn_put(conn, &topic_id, 0, &(struct node_shape){.acks = 1});
        struct node_entry *beyond = node_conn_put(conn, &topic_id, 0, &(struct node_shape){.acks = 1});
        node_world_run(world);
        begin_cut(world, &first, 1, &topic_id, 2);
        begin_cut(world, &second, 1, &topic_id, 1);
        struct node_entry *late = node_conn_put(conn, &topic_id, 0, &(struct node_shape){.acks = 1});
        node_world_run(world);
        assert_false(first.is_done);
        assert_true(second.is_done);
        assert_int_equal(second.truncate.op.err, STELE_EXISTS);
        if (seed % 4 == 3) {
            world->holds_jobs = false;
            assert_ok(node_world_stop(world));
            assert_true(first.is_done);
            node_world_start(world);
            node_world_free(world);
            continue;
        }
        world->holds_jobs = false;
        node_world_run(world);
        node_world_drain(world);
        assert_true(first.is_done);
        assert_ok(first.truncate.op.err);
        assert_int_equal(first.truncate.end_offset, 2);
        assert_ok(below->err);
        assert_int_equal(beyond->err, STELE_NOT_LEADER_OR_FOLLOWER);
        assert_int_equal(late->err, STELE_NOT_LEADER_OR_FOLLOWER);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->offset, 2);
        assert_int_equal(node_world_check_partition(conn, &topic_id, 0, true), 3);
        assert_ok(cut(world, &topic_id, 9)); /* beyond the end: nothing goes */
        assert_int_equal(node_world_check_partition(conn, &topic_id, 0, true), 3);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* What the checkpoints said of the log does not make a damage of what was cut: they were lowered before. */
static void test_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        int64_t at = (int64_t)(seed % 10);
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_set(world, "log.segment.bytes", "1024");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_ok(node_conn_create_topic(conn, "t", 1, &topic_id));
        for (int i = 0; i < 10; i++)
            (void)node_conn_put(conn, &topic_id, 0, &(struct node_shape){.value_bytes = 200, .acks = 1});
        node_world_pass(world, 120000);
        int64_t damaged = world->traces[STELE_TRACE_LOG_DAMAGED];
        assert_ok(cut(world, &topic_id, at));
        node_world_crash(world, SIM_DISK_KILL);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        struct node_entry *entry = node_conn_produce(conn, &topic_id, 0);
        assert_ok(entry->err);
        assert_int_equal(entry->offset, at);
        assert_int_equal(world->traces[STELE_TRACE_LOG_DAMAGED], damaged);
        struct node_answer answer;
        ask(conn, &topic_id, at, FETCH_BYTES, 1);
        node_conn_take(conn, &answer);
        assert_ok(answer.response.body.fetch.results[0].err);
        assert_true(answer.records_bytes > 0);
        node_world_free(world);
    }
}

/* Every allocation and every call to the disk that fails: the cut is whole or was refused, and what is there after a
 * crash in which nothing is lost is the log as it was or as it was to be. */
static void test_failures(void **state)
{
    (void)state;
    for (int with_disk = 0; with_disk < 2; with_disk++) {
        bool has_failed = true;
        for (int64_t nth = 1; has_failed; nth++) {
            struct stele_uuid topic_id;
            struct cutting cutting;
            struct node_world *world = world_with_records(3, 2, &topic_id);
            if (with_disk)
                sim_disk_arm(world->disk, nth, &(struct sim_disk_fault){.err = STELE_IO});
            else
                stele_test_mem_fail(&world->mem, nth, false);
            begin_cut(world, &cutting, 1, &topic_id, 7);
            node_world_run(world);
            has_failed = with_disk ? sim_disk_has_struck(world->disk) : world->mem.has_failed;
            stele_test_mem_fail(&world->mem, 0, false);
            sim_disk_arm(world->disk, 0, &(struct sim_disk_fault){.err = STELE_IO});
            assert_true(cutting.is_done || world->is_fatal);
            assert_true(has_failed || cutting.truncate.op.err == STELE_OK);
            bool is_cut = cutting.is_done && cutting.truncate.op.err == STELE_OK;
            node_world_crash(world, SIM_DISK_KILL);
            node_world_start(world);
            struct node_conn *conn = node_world_greet(world, 1);
            struct node_entry *entry = node_conn_produce(conn, &topic_id, 0);
            assert_ok(entry->err);
            assert_true(entry->offset == 7 || (!is_cut && entry->offset >= 7 && entry->offset <= RECORDS));
            node_world_free(world);
        }
    }
}

/* A log that begins anew has no segment for a moment. Whatever fails then, and after a kill, it starts where it started
 * or where it was to: nothing that it never had is missed as damage. */
static void test_restart_fails(void **state)
{
    (void)state;
    int struck = 0;
    bool has_failed = true;
    for (int64_t nth = 1; has_failed; nth++) {
        struct stele_uuid topic_id;
        struct cutting cutting;
        struct node_world *world = world_with_records(3, 2, &topic_id);
        begin(world, &cutting, 1, &topic_id, 50, true);
        node_world_run(world);
        assert_true(cutting.is_done);
        assert_ok(cutting.truncate.op.err);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->offset, 50);
        node_world_pass(world, 120000);
        sim_disk_arm(world->disk, nth, &(struct sim_disk_fault){.err = STELE_IO});
        begin(world, &cutting, 1, &topic_id, 60, true);
        node_world_run(world);
        has_failed = sim_disk_has_struck(world->disk);
        struck += has_failed;
        sim_disk_arm(world->disk, 0, &(struct sim_disk_fault){.err = STELE_IO});
        node_world_crash(world, SIM_DISK_KILL);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        struct node_entry *entry = node_conn_produce(conn, &topic_id, 0);
        assert_ok(entry->err);
        assert_true(entry->offset == 50 || entry->offset == 51 || entry->offset == 60);
        assert_int_equal(world->traces[STELE_TRACE_LOG_DAMAGED], 0);
        node_world_free(world);
    }
    assert_true(struck > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holders), cmocka_unit_test(test_race),     cmocka_unit_test(test_others),
        cmocka_unit_test(test_crash),   cmocka_unit_test(test_failures), cmocka_unit_test(test_restart_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
