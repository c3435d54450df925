/* Scripts: past bugs of Kafka's (B numbers) and the table of durability, each in a model world without other faults.
 * What must hold is checked all along as in the drawn runs; a script adds what it is about. */
#include "base/check.h"
#include "base/test/support.h"
#include "partition_world.h"
#include "replication/guard.h"

int stele_mutation = 0;
static struct pw_world world;

enum { A = 0, B = 1, C = 2 };

static void begin_with(bool is_flush, bool is_tainted)
{
    const struct pw_config config = {
        .node_count = 3,
        .replica_count = 3,
        .min_isr = 2,
        .is_flush = is_flush,
        .is_tainted = is_tainted,
        .lag_ms = 300,
        .backoff_ms = 50,
        .session_ms = 400,
        .delay_max_ms = 1,
        .meta_delay_max_ms = 2,
        .sync_max_ms = 3,
        .record_limit = PW_LOG_MAX - 512,
    };
    world.is_scripted = true;
    world.highest_end = PW_LOG_MAX;
    pw_init(&world, 1, &config);
    pw_begin(&world);
    pw_run_until(&world, world.now + 200);
}

static void run(int64_t ms)
{
    pw_run_until(&world, world.now + ms);
}

/* Appends through `node` as if a client had asked; producer 0 has acks=1, the others all. */
static enum stele_err produce(int node, int producer, int count)
{
    struct pw_producer *client = &world.producers[producer];
    client->seq += client->count;
    client->count = count;
    client->is_busy = true;
    client->has_answer = false;
    client->attempt++;
    const struct pw_event event = {
        .from = producer, .acks = client->acks, .seq = client->seq, .count = count, .attempt = client->attempt};
    return pw_node_produce(&world, &world.nodes[node], &event);
}

static void produce_acked(int node, int producer, int count)
{
    assert_ok(produce(node, producer, count));
    run(40);
    assert_true(world.producers[producer].has_answer);
    assert_ok(world.producers[producer].answer_err);
}

static void isolate(int node, bool is_on)
{
    for (int i = 0; i <= PW_NODES_MAX; i++) {
        world.is_blocked[node][i] = world.is_blocked[i][node] = is_on;
    }
}

/* Between replicas alone: who may hear whom. */
static void part(int a, int b, bool is_on)
{
    world.is_blocked[a][b] = world.is_blocked[b][a] = is_on;
}

/* The node leads next: it heads the replicas, and the preferred one is elected. */
static void lead(int node)
{
    struct stele_partition_change change = {.reassign = STELE_REASSIGN_START};
    for (int i = 0; i < 3; i++) {
        change.target.ids[change.target.count++] = (node + i) % 3;
    }
    (void)pw_controller_change(&world, &change);
    const struct stele_partition_change preferred = {.mode = STELE_ELECT_PREFERRED};
    (void)pw_controller_change(&world, &preferred);
    assert_int_equal(world.state.leader_id, node);
}

static void settle(void)
{
    pw_heal(&world);
    pw_settle(&world);
}

static bool has_failed(void)
{
    return world.failure[0] != '\0';
}

/* Everything that fails in the world leaves by this. */
#define SCRIPT()                                                                                                       \
    do {                                                                                                               \
        world.failure[0] = '\0';                                                                                       \
        if (setjmp(world.failed) != 0) {                                                                               \
            fail_msg("%s", world.failure);                                                                             \
        }                                                                                                              \
        (void)state;                                                                                                   \
    } while (0)

void stele_assert_fail(const char *condition, const char *file, int line)
{
    pw_fail(&world, "assertion %s in %s:%d", condition, file, line);
}

/* B1: a follower whose watermark is behind its records is killed and elected: nothing is cut by the watermark. */
static void test_b1_watermark_cuts_nothing(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 2);
    world.nodes[B].log.checkpoint_hw = 0;
    pw_node_stop(&world, B, false, false);
    pw_node_start(&world, B);
    run(30);
    pw_node_stop(&world, A, false, false);
    run(600);
    assert_true(world.state.leader_id == B || world.state.leader_id == C);
    settle();
    assert_int_equal(world.nodes[B].log.end, 2);
}

/* B2: two logs that part in the same place after a loss of power end as one. */
static void test_b2_divergence_after_power_loss(void **state)
{
    SCRIPT();
    begin_with(false, true);
    produce_acked(A, 1, 1);
    isolate(A, true);
    assert_ok(produce(A, 0, 1)); /* [e0:1], on A alone */
    for (int i = 0; i < 3; i++) {
        pw_node_stop(&world, i, true, false);
    }
    isolate(A, false);
    pw_node_start(&world, B);
    pw_node_start(&world, C);
    run(700);
    const struct stele_partition_change forced = {.mode = STELE_ELECT_UNCLEAN, .unclean_leader_id = B};
    (void)pw_controller_change(&world, &forced);
    run(200);
    assert_int_equal(world.state.leader_id, B);
    assert_ok(produce(B, 0, 1));
    pw_node_start(&world, A);
    settle();
    assert_true(world.nodes[A].log.end >= 1);
}

/* B3: fast elections: B leads for a moment and writes to nobody, A leads again; B's epoch is unknown to A. */
static void test_b3_epoch_that_nobody_else_has(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 8);
    lead(B);
    pw_node_apply(&world, &world.nodes[B], world.meta_count);
    assert_true(world.nodes[B].leads);
    assert_ok(produce(B, 0, 1));
    lead(A);
    pw_node_apply(&world, &world.nodes[A], world.meta_count);
    produce_acked(A, 0, 2);
    settle();
    assert_int_equal(world.nodes[B].log.end, 10);
    assert_int_equal(world.nodes[B].log.records[8].epoch, world.state.leader_epoch);
}

/* B4: a follower goes on from a leader that was deposed; the new leader counts it only after it fetched from it. */
static void test_b4_follower_of_a_deposed_leader(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 4);
    part(B, C, true);
    lead(C);
    pw_node_apply(&world, &world.nodes[C], world.meta_count);
    assert_ok(produce(C, 2, 3));
    assert_int_equal(world.nodes[C].leader.followers[2].end_offset, -1); /* B, in the order C, A, B */
    run(50);
    assert_int_equal(world.nodes[C].leader.high_watermark, 4);
    part(B, C, false);
    settle();
    assert_int_equal(world.nodes[B].log.end, 7);
}

/* B9: elections one after another, without a record: entries of the index that hold nothing do not stop the fetch. */
static void test_b9_epochs_without_records(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 5);
    for (int i = 1; i < 12; i++) {
        lead(i % 3);
        pw_node_apply(&world, &world.nodes[i % 3], world.meta_count);
        if (i % 4 == 0) {
            run(10);
        }
    }
    settle();
    assert_int_equal(world.nodes[A].log.end, 5);
}

/* B12: a follower that is ahead of a leader by force cuts, and lives. */
static void test_b12_follower_ahead_of_an_unclean_leader(void **state)
{
    SCRIPT();
    begin_with(false, true);
    produce_acked(A, 1, 4);
    isolate(C, true);
    run(900);
    produce_acked(A, 1, 6); /* on A and B */
    pw_node_stop(&world, A, true, false);
    pw_node_stop(&world, B, true, false);
    pw_node_wipe(&world, A);
    isolate(C, false);
    run(700);
    pw_node_start(&world, A);
    pw_node_start(&world, B);
    run(300);
    assert_int_equal(world.state.leader_id, STELE_NO_NODE);
    const struct stele_partition_change forced = {.mode = STELE_ELECT_UNCLEAN, .unclean_leader_id = C};
    assert_true(pw_controller_change(&world, &forced));
    settle();
    assert_int_equal(world.nodes[B].log.end, 4);
}

/* B21, D11: the leader that cannot reach the controller acknowledges nothing without the follower that lags. */
static void test_b21_no_commit_without_the_controller(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 2);
    part(A, PW_CONTROLLER, true);
    part(A, B, true);
    assert_ok(produce(A, 1, 2));
    run(350);
    assert_false(world.producers[1].has_answer && world.producers[1].answer_err == STELE_OK);
    assert_int_equal(world.nodes[A].leader.high_watermark, 2);
    run(800);
    assert_int_not_equal(world.state.leader_id, A);
    part(A, PW_CONTROLLER, false);
    part(A, B, false);
    world.producers[1].is_busy = false;
    settle();
}

/* B26: alone under a minimum of two, acks=1 is written and not read; with the next in sync it is. */
static void test_b26_strict_minimum(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 2);
    isolate(B, true);
    isolate(C, true);
    run(900);
    assert_int_equal(world.state.isr.count, 1);
    produce_acked(A, 0, 3);
    assert_int_equal(world.producers[0].answer_level, STELE_ACK_WRITTEN);
    assert_int_equal(produce(A, 1, 1), STELE_NOT_ENOUGH_REPLICAS);
    world.producers[1].is_busy = false;
    world.producers[1].count = 0;
    run(100);
    assert_int_equal(world.nodes[A].leader.high_watermark, 2);
    isolate(B, false);
    run(300);
    assert_int_equal(world.nodes[A].leader.high_watermark, 5);
    settle();
}

/* B32, B33: the last in sync loses what it did not sync; who was eligible leads, and all that was committed is there.
 */
static void test_b32_last_replica_standing(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 4);
    isolate(B, true);
    isolate(C, true);
    run(900);
    assert_int_equal(world.state.isr.count, 1);
    assert_true(world.state.elr.count >= 1);
    world.nodes[A].log.synced = 0;
    pw_node_stop(&world, A, true, false);
    pw_node_start(&world, A);
    run(100);
    assert_false(stele_node_set_has(&world.state.elr, A));
    isolate(B, false);
    isolate(C, false);
    settle();
    assert_int_not_equal(world.state.leader_id, A);
    assert_int_equal(world.nodes[A].log.end, 4);
}

/* B36: a replica that was taken out neither counts nor stays. */
static void test_b36_removed_replica(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 4);
    const struct stele_partition_change change = {.reassign = STELE_REASSIGN_START, .target = {{A, B}, 2}};
    assert_true(pw_controller_change(&world, &change));
    run(100);
    assert_int_equal(world.state.replicas.count, 2);
    assert_false(world.nodes[C].has_replica);
    assert_int_equal(world.nodes[C].log.end, 0);
    produce_acked(A, 2, 2);
    settle();
}

/* A leader that leads again and did not hear of the epoch between: what a follower had it may have cut since, so it
 * does not count before it fetches (Kafka keeps it, 2.4.5). */
static void test_epoch_that_the_leader_missed(void **state)
{
    SCRIPT();
    begin_with(false, false);
    produce_acked(A, 1, 8);
    part(A, C, true);
    assert_ok(produce(A, 0, 2));
    run(30);
    assert_int_equal(world.nodes[B].log.end, 10);
    assert_int_equal(world.nodes[A].leader.high_watermark, 8);
    world.config.meta_delay_max_ms = 10000000; /* by hand from here on */
    lead(C);
    pw_node_apply(&world, &world.nodes[C], world.meta_count);
    pw_node_apply(&world, &world.nodes[B], world.meta_count);
    run(30);
    assert_int_equal(world.nodes[B].log.end, 8);
    pw_controller_fence(&world, C);
    assert_int_equal(world.state.leader_id, A);
    assert_int_equal(world.state.isr.count, 2);
    pw_node_apply(&world, &world.nodes[A], world.meta_count);
    assert_true(world.nodes[A].leads);
    assert_int_equal(world.nodes[A].leader.high_watermark, 8);
    world.config.meta_delay_max_ms = 2;
    for (int i = 0; i < 3; i++) {
        pw_node_apply(&world, &world.nodes[i], world.meta_count);
    }
    settle();
    assert_int_equal(world.nodes[B].log.end, 10);
}

enum failure { ONE_KILLED, ALL_KILLED, ONE_POWER, ALL_POWER };

/* The table of durability. Producer 0 has acks=1, 1 has all. `is_kept`: acknowledged records must be there; otherwise
 * the tail may go, and if committed records are lost that is by a forced election, which says so. */
static void test_table_of_durability(void **state)
{
    SCRIPT();
    static const struct {
        enum failure failure;
        int producer;
        bool is_flush, is_kept;
    } cases[] = {
        {ONE_KILLED, 0, false, false}, {ONE_KILLED, 1, false, true}, {ONE_KILLED, 1, true, true},
        {ALL_KILLED, 0, false, false}, {ALL_KILLED, 1, false, true}, {ALL_KILLED, 1, true, true},
        {ONE_POWER, 0, false, false},  {ONE_POWER, 1, false, true},  {ONE_POWER, 1, true, true},
        {ALL_POWER, 0, false, false},  {ALL_POWER, 1, false, false}, {ALL_POWER, 1, true, true},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        bool is_power = cases[i].failure == ONE_POWER || cases[i].failure == ALL_POWER;
        bool is_all = cases[i].failure == ALL_KILLED || cases[i].failure == ALL_POWER;
        begin_with(cases[i].is_flush, !cases[i].is_kept);
        for (int k = 0; k < 10; k++) {
            produce_acked(A, cases[i].producer, 3);
        }
        for (int k = 0; k < 3; k++) {
            if (k == A || is_all) {
                pw_node_stop(&world, k, is_power, false);
            }
        }
        run(500);
        for (int k = 0; k < 3; k++) {
            if (!world.nodes[k].is_up) {
                pw_node_start(&world, k);
            }
        }
        run(600);
        if (!cases[i].is_kept) {
            pw_controller_forced(&world);
        }
        assert_true(world.stats.unclean == 0 || !cases[i].is_kept);
        settle();
        if (cases[i].is_kept) {
            assert_int_equal(world.nodes[A].log.end, 30);
        }
    }
    assert_false(has_failed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_b1_watermark_cuts_nothing),
        cmocka_unit_test(test_b2_divergence_after_power_loss),
        cmocka_unit_test(test_b3_epoch_that_nobody_else_has),
        cmocka_unit_test(test_b4_follower_of_a_deposed_leader),
        cmocka_unit_test(test_b9_epochs_without_records),
        cmocka_unit_test(test_b12_follower_ahead_of_an_unclean_leader),
        cmocka_unit_test(test_b21_no_commit_without_the_controller),
        cmocka_unit_test(test_b26_strict_minimum),
        cmocka_unit_test(test_b32_last_replica_standing),
        cmocka_unit_test(test_b36_removed_replica),
        cmocka_unit_test(test_epoch_that_the_leader_missed),
        cmocka_unit_test(test_table_of_durability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
