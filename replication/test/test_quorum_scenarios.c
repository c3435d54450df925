/* Named scenarios of the metadata quorum in the model world: those that Kafka's own event simulation runs (R2), its
 * past bugs (B53 to B66), what liveness asks (KL5 to KL7), and how fast a closed connection brings a new leader. The
 * world looks at its invariants after every event, so each scenario states only what is its own. */
#include "base/test/support.h"
#include "replication/test/quorum_world.h"

#include <stdlib.h>

static struct world world;

static struct world_node *node(int32_t at)
{
    return &world.nodes[at];
}

static void run_ms(int64_t ms)
{
    if (!world_run_ms(&world, ms)) {
        fail_msg("%s: %s", world.broken, world.detail);
    }
}

static void set_up(uint64_t seed, int32_t voters, int32_t observers)
{
    world_init(&world, seed, voters, observers);
    for (int32_t i = 0; i < world.node_count; i++) {
        world_start(&world, i);
    }
}

static bool is_committed_everywhere(int64_t end)
{
    for (int32_t i = 0; i < world.node_count; i++) {
        if (node(i)->is_alive && node(i)->applied < end) {
            return false;
        }
    }
    return true;
}

/* Waits for an active leader other than `not_this`, at most so long; how long it took. */
static int64_t await_leader(int32_t not_this, int64_t limit_ms)
{
    int64_t begin_us = world.now_us;
    for (;;) {
        int32_t leader = world_leader(&world);
        if (leader >= 0 && leader != not_this && node(leader)->quorum.is_epoch_committed) {
            return (world.now_us - begin_us) / 1000;
        }
        if (world.now_us - begin_us > limit_ms * 1000) {
            fail_msg("no leader within %lld ms", (long long)limit_ms);
        }
        run_ms(1);
    }
}

/* Ten records from the leader of the highest epoch to all that are up. */
static void commit_ten(int64_t limit_ms)
{
    int64_t goal = -1, begin_us = world.now_us;
    for (int32_t appended = 0; goal < 0 || !is_committed_everywhere(goal);) {
        int32_t leader = world_leader(&world);
        if (leader >= 0 && appended < 10 && world_append(&world, leader)) {
            appended++;
        }
        if (appended == 10 && goal < 0) {
            goal = world.committed_end + 1;
            appended = 0;
        }
        if (world.now_us - begin_us > limit_ms * 1000) {
            fail_msg("committed %lld of %lld after %lld ms", (long long)world.committed_end, (long long)goal,
                     (long long)limit_ms);
        }
        run_ms(5);
    }
}

static int32_t epoch_of(int32_t at)
{
    return node(at)->quorum.election.epoch;
}

static void tell(int32_t at, enum world_kind kind)
{
    struct world_event event = {.kind = kind, .node = at, .life = node(at)->life, .message = -1};
    world_schedule(&world, &event, 0);
}

static int32_t other_than(int32_t at)
{
    return at == 0 ? 1 : 0;
}

static void change(int32_t leader, enum stele_quorum_change_kind kind, int32_t at)
{
    struct stele_replica_key key = world_key(&world, at);
    world_change(&world, leader, kind, &key);
}

/* R2: every size of cluster elects and commits everywhere; a sole voter at once. */
static void test_sizes(void **state)
{
    (void)state;
    for (int32_t voters = 1; voters <= 5; voters++) {
        for (int32_t observers = 0; observers <= 3; observers++) {
            set_up((uint64_t)voters * 10 + (uint64_t)observers, voters, observers);
            int64_t took_ms = await_leader(-1, 6000);
            assert_true(voters > 1 || took_ms < 50);
            commit_ten(5000);
        }
    }
}

/* R2: a leader that goes and comes back, by its own will or killed. */
static void test_leader_returns(void **state)
{
    (void)state;
    for (int32_t is_clean = 0; is_clean < 2; is_clean++) {
        set_up(21, 3, 1);
        await_leader(-1, 6000);
        int32_t leader = world_leader(&world);
        if (is_clean != 0) {
            tell(leader, WORLD_STOP);
            run_ms(100);
        }
        world_crash(&world, leader);
        await_leader(leader, 4000);
        commit_ten(3000);
        world_start(&world, leader);
        commit_ten(5000);
    }
}

/* R2: all are killed and only a majority comes back; then leaders are killed one after another. */
static void test_many_kills(void **state)
{
    (void)state;
    set_up(22, 5, 1);
    await_leader(-1, 6000);
    commit_ten(3000);
    int64_t committed = world.committed_end;
    for (int32_t i = 0; i < 5; i++) {
        world_crash(&world, i);
    }
    run_ms(3000);
    for (int32_t i = 0; i < 3; i++) {
        world_start(&world, i);
    }
    await_leader(-1, 10000);
    assert_true(node(world_leader(&world))->end >= committed);
    world_start(&world, 3);
    world_start(&world, 4);
    for (int32_t i = 0; i < 8; i++) {
        int32_t leader = world_leader(&world);
        world_crash(&world, leader);
        await_leader(leader, 6000);
        world_start(&world, leader);
        commit_ten(5000);
    }
}

/* R2, KL5: a leader that is cut off gives up within the check-quorum time; what it appended is cut off when it is back.
 */
static void test_isolated_leader(void **state)
{
    (void)state;
    set_up(23, 3, 0);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t old = world_leader(&world);
    world_isolate(&world, old, true, true);
    for (int32_t i = 0; i < 20; i++) {
        assert_true(world_append(&world, old));
        run_ms(5);
    }
    int64_t appended = node(old)->end;
    run_ms(3000);
    assert_int_not_equal(node(old)->quorum.role, STELE_QUORUM_LEADER);
    int64_t committed = world.committed_end;
    assert_true(appended > committed);
    await_leader(old, 3000);
    world_heal(&world);
    commit_ten(6000);
    assert_true(world.truncations > 0);
}

/* R2: five nodes in two and three; the three work on, the two join without a new epoch. */
static void test_split(void **state)
{
    (void)state;
    set_up(24, 5, 0);
    await_leader(-1, 6000);
    int32_t leader = world_leader(&world);
    int32_t with = (leader + 1) % 5;
    for (int32_t a = 0; a < 5; a++) {
        for (int32_t b = 0; b < 5; b++) {
            world.is_blocked[a][b] = (a == leader || a == with) != (b == leader || b == with);
        }
    }
    run_ms(3500);
    assert_int_not_equal(node(leader)->quorum.role, STELE_QUORUM_LEADER);
    await_leader(leader, 4000);
    int32_t epoch = epoch_of(world_leader(&world));
    run_ms(5000);
    world_heal(&world);
    commit_ten(6000);
    assert_int_equal(epoch_of(world_leader(&world)), epoch);
}

/* R2: a voter loses its disk; it comes back as an observer, is readmitted, and counts again. */
static void test_lost_disk(void **state)
{
    (void)state;
    set_up(25, 3, 0);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t leader = world_leader(&world), lost = other_than(leader);
    world_crash(&world, lost);
    world_wipe(&world, lost);
    world_start(&world, lost);
    commit_ten(5000);
    assert_false(stele_quorum_is_voter(&node(lost)->quorum));
    change(leader, STELE_QUORUM_READMIT_VOTER, lost);
    run_ms(1000);
    assert_int_equal(world.changes, 1);
    assert_true(stele_quorum_is_voter(&node(lost)->quorum));
    assert_int_equal(stele_quorum_voters(&node(leader)->quorum)->count, 3);
    world_crash(&world, 3 - leader - lost);
    commit_ten(3000);
}

/* B53 (KAFKA-10527): a leader whose last records are lost with its process does not lead its epoch again. */
static void test_b53_leader_restarts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        set_up(seed, 3, 0);
        world.faults.sync_max_us = 300000;
        await_leader(-1, 9000);
        int32_t leader = world_leader(&world), epoch = epoch_of(leader);
        assert_true(world_append(&world, leader));
        world_crash(&world, leader);
        world_start(&world, leader);
        assert_int_equal(node(leader)->quorum.role, STELE_QUORUM_RESIGNED);
        await_leader(-1, 9000);
        assert_true(epoch_of(world_leader(&world)) > epoch);
        commit_ten(9000);
    }
}

/* B55 (KAFKA-15489): the leader is cut off from the voters, not from the observers. It resigns, and they find the new
 * one. */
static void test_b55_leader_without_voters(void **state)
{
    (void)state;
    set_up(26, 3, 2);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t old = world_leader(&world);
    for (int32_t i = 0; i < 3; i++) {
        world.is_blocked[old][i] = world.is_blocked[i][old] = i != old;
    }
    run_ms(3100);
    assert_int_not_equal(node(old)->quorum.role, STELE_QUORUM_LEADER);
    await_leader(old, 3000);
    world_crash(&world, old);
    commit_ten(5000);
    for (int32_t i = 3; i < 5; i++) {
        assert_int_equal(epoch_of(i), epoch_of(world_leader(&world)));
    }
}

/* B56 (KAFKA-17332): a voter that was an observer a moment ago is counted by what it synced. With a disk that takes its
 * time the record of its own coming waits for it. */
static void test_b56_added_voter_syncs(void **state)
{
    (void)state;
    set_up(27, 1, 1);
    await_leader(-1, 1000);
    commit_ten(3000);
    world.faults.sync_max_us = 200000;
    change(0, STELE_QUORUM_ADD_VOTER, 1);
    run_ms(3000);
    assert_int_equal(world.changes, 1);
    commit_ten(9000);
    world_crash(&world, 1);
    int64_t committed = world.committed_end;
    assert_true(world_append(&world, 0));
    run_ms(1000);
    assert_int_equal(world.committed_end, committed);
}

/* B57 (KAFKA-16530): a leader that is removed does not count itself, and goes once its removal is committed; the others
 * have a new leader at once. */
static void test_b57_leader_removed(void **state)
{
    (void)state;
    set_up(28, 3, 0);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t leader = world_leader(&world), slow = other_than(leader), epoch = epoch_of(leader);
    world_isolate(&world, slow, true, true);
    int64_t committed = world.committed_end;
    change(leader, STELE_QUORUM_REMOVE_VOTER, leader);
    run_ms(200);
    /* Two voters are left, so both have to have it. */
    assert_int_equal(world.committed_end, committed);
    assert_int_equal(node(leader)->quorum.role, STELE_QUORUM_LEADER);
    world_heal(&world);
    await_leader(leader, 6000);
    assert_true(epoch_of(world_leader(&world)) > epoch);
    commit_ten(6000);
    assert_int_equal(stele_quorum_voters(&node(leader)->quorum)->count, 2);
    assert_int_not_equal(node(leader)->quorum.role, STELE_QUORUM_LEADER);
}

/* Beyond B57: it appends its removal and loses touch before anybody has it. Its log is the longest then, so the others
 * need it, and one of them is dead. */
static void test_removed_leader_is_needed(void **state)
{
    (void)state;
    set_up(29, 4, 0);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t leader = world_leader(&world);
    world_isolate(&world, leader, true, true);
    change(leader, STELE_QUORUM_REMOVE_VOTER, leader);
    run_ms(10);
    assert_int_equal(stele_quorum_voters(&node(leader)->quorum)->count, 3);
    world_crash(&world, (leader + 1) % 4);
    run_ms(6000);
    world_heal(&world);
    await_leader(-1, 9000);
    commit_ten(9000);
}

/* B59: a voters record that is cut off is undone, and another at its place counts. */
static void test_b59_voters_replaced(void **state)
{
    (void)state;
    set_up(30, 5, 0);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t old = world_leader(&world), first = (old + 1) % 5, second = (old + 2) % 5;
    world_isolate(&world, old, true, true);
    change(old, STELE_QUORUM_REMOVE_VOTER, first);
    run_ms(50);
    assert_int_equal(stele_quorum_voters(&node(old)->quorum)->count, 4);
    await_leader(old, 9000);
    int32_t leader = world_leader(&world);
    int32_t gone = second == leader ? first : second;
    change(leader, STELE_QUORUM_REMOVE_VOTER, gone);
    run_ms(1000);
    world_heal(&world);
    commit_ten(9000);
    const struct stele_voters *voters = stele_quorum_voters(&node(old)->quorum);
    assert_int_equal(voters->count, 4);
    assert_int_equal(stele_voters_find_node(voters, gone), -1);
    assert_true((node(old)->quorum.reached >> STELE_QUORUM_REACHED_TRUNCATE_VOTERS & 1) != 0);
}

/* B60: the leader of five stops cleanly. Its first successor wins at once and in the next epoch, though all heard the
 * old leader just now. */
static void test_b60_clean_handover(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        set_up(seed, 5, 0);
        await_leader(-1, 9000);
        commit_ten(3000);
        int32_t leader = world_leader(&world), epoch = epoch_of(leader);
        tell(leader, WORLD_STOP);
        int64_t took_ms = await_leader(leader, 3000);
        assert_in_range(took_ms, 0, 200);
        assert_int_equal(epoch_of(world_leader(&world)), epoch + 1);
    }
}

/* B64: a snapshot goes away in the middle of its download, or the node dies before its log is replaced. */
static void test_b64_snapshot_interrupted(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        set_up(seed, 3, 0);
        await_leader(-1, 9000);
        commit_ten(3000);
        int32_t leader = world_leader(&world), late = other_than(leader);
        world_crash(&world, late);
        commit_ten(3000);
        world_snapshot(&world, leader, node(leader)->applied - 3);
        world_snapshot(&world, leader, node(leader)->applied);
        world_log_start(&world, leader);
        world.faults.sync_max_us = 50000;
        world_start(&world, late);
        run_ms((int64_t)(seed % 12));
        if (seed % 2 == 0) {
            commit_ten(9000);
            world_snapshot(&world, leader, node(leader)->applied);
            world_log_start(&world, leader);
        } else {
            run_ms((int64_t)seed * 7);
            world_crash(&world, late);
            world_start(&world, late);
        }
        commit_ten(9000);
        assert_true(node(late)->log_start > 0);
    }
}

/* B65: the download of a snapshot and its installation take longer than the fetch timeout; nobody calls an election. */
static void test_b65_slow_snapshot(void **state)
{
    (void)state;
    set_up(31, 3, 0);
    await_leader(-1, 6000);
    commit_ten(3000);
    int32_t leader = world_leader(&world), late = other_than(leader);
    world_crash(&world, late);
    commit_ten(3000);
    world_snapshot(&world, leader, node(leader)->applied - 5);
    world_snapshot(&world, leader, node(leader)->applied);
    world_log_start(&world, leader);
    int32_t epoch = epoch_of(leader);
    world.settings.fetch_timeout_ms = 300;
    world.settings.request_timeout_ms = 300;
    world.faults.sync_max_us = 1000000;
    world_start(&world, late);
    node(late)->quorum.settings.election_timeout_ms = 200;
    for (int32_t i = 0; i < 600 && node(late)->log_start == 0; i++) {
        run_ms(10);
    }
    assert_true(node(late)->log_start > 0);
    assert_int_equal(epoch_of(leader), epoch);
    assert_int_equal(node(leader)->quorum.role, STELE_QUORUM_LEADER);
}

/* KL6: a voter that was cut off for long comes back without a new epoch. */
static void test_rejoin_keeps_epoch(void **state)
{
    (void)state;
    set_up(32, 3, 0);
    await_leader(-1, 6000);
    int32_t leader = world_leader(&world), apart = other_than(leader), epoch = epoch_of(leader);
    world_isolate(&world, apart, true, true);
    run_ms(30000);
    world_heal(&world);
    commit_ten(5000);
    run_ms(5000);
    assert_int_equal(world_leader(&world), leader);
    assert_int_equal(epoch_of(leader), epoch);
}

/* KL7: an observer's leader is gone for good, and so is another voter that it knows; it finds the new one. */
static void test_observer_finds_leader(void **state)
{
    (void)state;
    set_up(33, 5, 1);
    await_leader(-1, 6000);
    commit_ten(3000);
    world_isolate(&world, 5, true, true);
    int32_t first = world_leader(&world);
    world_crash(&world, first);
    await_leader(first, 6000);
    world_crash(&world, world_leader(&world));
    run_ms(5000);
    world_heal(&world);
    commit_ten(6000);
}

/* An observer heard of an epoch whose candidate is dead for ever, and the others stayed in theirs. */
static void test_observer_ahead(void **state)
{
    (void)state;
    set_up(34, 3, 1);
    await_leader(-1, 6000);
    commit_ten(3000);
    world_crash(&world, 3);
    node(3)->election = (struct stele_election_state){
        .epoch = epoch_of(world_leader(&world)) + 1, .leader_id = STELE_NO_NODE, .voted = {.node_id = STELE_NO_NODE}};
    world_start(&world, 3);
    commit_ten(9000);
}

/* A connection that closes without need changes nothing: whoever hears the leader refuses the pre-vote. */
static void test_false_suspicion(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        set_up(seed, 3, 0);
        await_leader(-1, 9000);
        commit_ten(3000);
        int32_t leader = world_leader(&world), apart = other_than(leader), epoch = epoch_of(leader);
        /* And it cannot reach the leader again for a while, so that it does ask. */
        world.is_blocked[apart][leader] = true;
        struct world_event event = {
            .kind = WORLD_CLOSED, .node = apart, .from = leader, .life = node(apart)->life, .message = -1};
        world_schedule(&world, &event, 0);
        run_ms(5000);
        assert_true((node(apart)->quorum.reached >> STELE_QUORUM_REACHED_SUSPICION & 1) != 0);
        world_heal(&world);
        commit_ten(3000);
        assert_int_equal(world_leader(&world), leader);
        assert_int_equal(epoch_of(leader), epoch);
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* The leader's process dies and its connections close: with Kafka's time-outs the next one is active in a fraction of a
 * second, of three voters and of five. */
static void test_fast_failover(void **state)
{
    (void)state;
    enum { RUNS = 100 };
    static int64_t took_ms[RUNS];
    for (int32_t voters = 3; voters <= 5; voters += 2) {
        for (int32_t i = 0; i < RUNS; i++) {
            set_up((uint64_t)i + 1, voters, 0);
            await_leader(-1, 9000);
            commit_ten(3000);
            int32_t leader = world_leader(&world);
            world_crash(&world, leader);
            for (int32_t k = 0; k < voters; k++) {
                struct world_event event = {
                    .kind = WORLD_CLOSED, .node = k, .from = leader, .life = node(k)->life, .message = -1};
                if (k != leader) {
                    world_schedule(&world, &event, 500);
                }
            }
            took_ms[i] = await_leader(leader, 5000);
        }
        qsort(took_ms, RUNS, sizeof(took_ms[0]), compare);
        print_message("%d voters: new leader active after %lld ms (median), %lld ms (worst of %d)\n", voters,
                      (long long)took_ms[RUNS / 2], (long long)took_ms[RUNS - 1], RUNS);
        assert_in_range(took_ms[RUNS / 2], 0, 150);
        assert_in_range(took_ms[RUNS - 2], 0, 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_leader_returns),
        cmocka_unit_test(test_many_kills),
        cmocka_unit_test(test_isolated_leader),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_lost_disk),
        cmocka_unit_test(test_b53_leader_restarts),
        cmocka_unit_test(test_b55_leader_without_voters),
        cmocka_unit_test(test_b56_added_voter_syncs),
        cmocka_unit_test(test_b57_leader_removed),
        cmocka_unit_test(test_removed_leader_is_needed),
        cmocka_unit_test(test_b59_voters_replaced),
        cmocka_unit_test(test_b60_clean_handover),
        cmocka_unit_test(test_b64_snapshot_interrupted),
        cmocka_unit_test(test_b65_slow_snapshot),
        cmocka_unit_test(test_rejoin_keeps_epoch),
        cmocka_unit_test(test_observer_finds_leader),
        cmocka_unit_test(test_observer_ahead),
        cmocka_unit_test(test_false_suspicion),
        cmocka_unit_test(test_fast_failover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
