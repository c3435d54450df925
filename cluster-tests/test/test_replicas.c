/* Replication of three nodes in one world, case by case; sim_replicas draws the rest. */
#include "base/test/support.h"
#include "cluster-tests/sim/replica_world.h"

enum { SEEDS = 4, SECOND_US = 1000000 };

static struct replica_world world;
static int64_t truncations;

static void on_traced(struct sim_server *server, const struct stele_trace_event *event)
{
    (void)server;
    truncations += event->kind == STELE_TRACE_LOG_TRUNCATED;
}

static void begin_as_set(void)
{
    for (int i = 0; i < REPLICA_NODES; i++)
        world.nodes[i].server.traced = on_traced;
    replica_world_begin(&world);
    replica_world_until(&world, replica_world_is_led, "a leader of each partition");
    replica_world_run(&world, SECOND_US);
    assert_true(world.acked_count > 0);
}

static void begin(uint64_t seed, bool is_synced)
{
    replica_world_init(&world, seed, getenv("REPLICA_VERBOSE") != NULL);
    replica_world_set(&world, "log.flush.before.ack", is_synced ? "true" : "false");
    begin_as_set();
}

static void end(void)
{
    for (int i = 0; i < REPLICA_NODES; i++)
        replica_node_start(&world.nodes[i]);
    world.sends_to = 0;
    replica_world_run(&world, 3 * SECOND_US);
    replica_client_stop(&world);
    replica_world_until(&world, replica_world_is_whole, "all in sync, and equal");
    replica_world_check(&world);
    replica_world_deinit(&world);
}

static int64_t high_watermark(int partition)
{
    return stele_log_high_watermark(replica_node_partition(replica_world_leader(&world, partition), partition)->log);
}

static int64_t end_offset(int32_t node_id, int partition)
{
    return stele_log_end_offset(replica_node_partition(&world.nodes[node_id - 1], partition)->log);
}

static void kill_followers(void)
{
    for (int i = 0; i < REPLICA_NODES; i++) {
        if (&world.nodes[i] != replica_world_leader(&world, 0))
            replica_node_die(&world.nodes[i], SIM_DEATH_KILL);
    }
}

static void lead_both(int32_t node_id)
{
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        if (world.states[i].leader_id != node_id)
            replica_world_elect(&world, i, node_id);
    }
    replica_world_until(&world, replica_world_is_led, "the new leader");
}

/* With acks=all nothing is acknowledged, and nobody sees it, that only the leader has: while the controller still
 * counts the dead followers in, it waits; below min.insync.replicas it is refused; with one follower back it goes on.
 */
static void test_followers_commit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed, false);
        lead_both(1);
        replica_world_run(&world, SECOND_US);
        kill_followers();
        replica_world_run(&world, 1);
        for (int i = 1; i < REPLICA_NODES; i++) /* nobody notices */
            sim_event_cancel(&world.world, &world.nodes[i].fence);
        int64_t acked = world.acked_count, before = high_watermark(0);
        replica_world_run(&world, SECOND_US / 2);
        /* What both had got may be answered still. */
        assert_true(world.acked_count <= acked + 2 * REPLICA_PUTS_MAX);
        assert_true(high_watermark(0) <= before + REPLICA_PUTS_MAX);
        acked = world.acked_count;
        before = high_watermark(0);
        replica_world_run(&world, SECOND_US);
        assert_int_equal(world.acked_count, acked);
        assert_int_equal(high_watermark(0), before);
        replica_node_start(&world.nodes[1]);
        replica_world_run(&world, 4 * SECOND_US);
        assert_true(world.acked_count > acked);
        end();
    }
}

/* Below min.insync.replicas: refused before it is appended. */
static void test_min_insync(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed, false);
        lead_both(1);
        kill_followers();
        replica_world_run(&world, 3 * SECOND_US); /* fenced, and every wait is over */
        assert_int_equal(world.states[0].isr.count, 1);
        int64_t ended = end_offset(1, 0), acked = world.acked_count;
        replica_world_run(&world, SECOND_US);
        assert_int_equal(world.last_error, STELE_NOT_ENOUGH_REPLICAS);
        assert_int_equal(end_offset(1, 0), ended);
        assert_int_equal(world.acked_count, acked);
        world.client.acks = 1; /* who does not ask for it gets no guarantee */
        replica_world_run(&world, SECOND_US);
        assert_true(world.acked_count > acked);
        world.client.acks = -1;
        end();
    }
}

/* KIP-101 and KIP-279: two nodes lead in turn, each alone and each writing what the other never gets. Whoever follows
 * at last cuts back over as many epochs as it takes, and all logs are equal. */
static void test_divergence(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed, false);
        world.client.acks = 1;
        for (int turn = 0; turn < 5; turn++) {
            int32_t id = 1 + turn % 2;
            for (int i = 0; i < REPLICA_NODES; i++) {
                if (i != id - 1)
                    replica_node_die(&world.nodes[i], SIM_DEATH_KILL);
            }
            replica_world_run(&world, SECOND_US); /* fenced */
            replica_node_start(&world.nodes[id - 1]);
            replica_world_run(&world, SECOND_US);
            for (int i = 0; i < REPLICA_PARTITIONS; i++)
                replica_world_elect(&world, i, id);
            replica_world_run(&world, SECOND_US);
        }
        assert_int_not_equal(world.states[0].leader_id, STELE_NO_NODE);
        truncations = 0;
        end();
        assert_true(truncations >= 2 * REPLICA_PARTITIONS); /* the second node asks, cuts, asks and cuts again */
    }
}

/* With flush.before.ack an answer says SYNCED, and no loss of all power takes what was acknowledged. */
static void test_blackout(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        begin(seed, true);
        replica_world_run(&world, (int64_t)seed * 10000);
        for (int64_t i = 0; i < world.sent_count; i++) {
            if (world.sent[i].is_acked)
                assert_int_equal(world.sent[i].durability, STELE_DURABILITY_SYNCED);
        }
        for (int i = 0; i < REPLICA_NODES; i++)
            replica_node_die(&world.nodes[i], i % 2 ? SIM_DEATH_POWER_ORDERED : SIM_DEATH_POWER_ADVERSARIAL);
        replica_world_run(&world, SECOND_US);
        end();
    }
}

static bool is_all_in_sync(const struct replica_world *in)
{
    bool is_all = true;
    for (int i = 0; i < REPLICA_PARTITIONS; i++)
        is_all = is_all && in->states[i].isr.count == REPLICA_NODES;
    return is_all;
}

/* On a node's every partition, as a change of the setting does. */
static void switch_on(struct replica_node *node)
{
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        struct stele_partition *partition = replica_node_partition(node, i);
        struct stele_log_config config = *stele_log_config(partition->log);
        config.flush_before_ack = true;
        stele_partition_send_config(partition, &config);
    }
}

/* Switched on under load, on one node after another: nobody leaves the set in sync for it; from then on every answer
 * says SYNCED; and of all that any answer said so of, no loss of all power takes a record, however early it comes. */
static void test_switched_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        replica_world_init(&world, seed, getenv("REPLICA_VERBOSE") != NULL);
        replica_world_set(&world, "replica.lag.time.max.ms", "1000");
        begin_as_set();
        replica_world_run(&world, 3 * SECOND_US);
        replica_world_until(&world, is_all_in_sync, "all in sync");
        int64_t watermark = high_watermark(0), changes = world.isr_changes;
        for (int i = 0; i < REPLICA_NODES; i++) {
            switch_on(&world.nodes[(i + (int)seed) % REPLICA_NODES]);
            replica_world_run(&world, (int64_t)(seed % 4) * 20000);
        }
        replica_world_run(&world, SECOND_US / 1000);
        assert_true(high_watermark(0) >= watermark);
        int64_t sent = world.sent_count;
        if (seed % 2 == 0) {
            replica_world_run(&world, 3 * SECOND_US);
            assert_int_equal(world.isr_changes, changes);
            assert_true(world.sent_count > sent);
        }
        for (int i = 0; i < REPLICA_NODES; i++)
            replica_node_die(&world.nodes[i], i % 2 ? SIM_DEATH_POWER_ORDERED : SIM_DEATH_POWER_ADVERSARIAL);
        for (int64_t i = 0; i < world.sent_count; i++) {
            struct replica_sent *one = &world.sent[i];
            if (i >= sent && one->is_acked)
                assert_int_equal(one->durability, STELE_DURABILITY_SYNCED);
            one->is_acked = one->is_acked && one->durability == STELE_DURABILITY_SYNCED;
        }
        replica_world_set(&world, "log.flush.before.ack", "true");
        replica_world_run(&world, SECOND_US);
        end();
    }
}

/* Without it the answer says how far it had got: in the page caches of those in sync. */
static void test_durability(void **state)
{
    (void)state;
    begin(1, false);
    for (int64_t i = 0; i < world.sent_count; i++) {
        if (world.sent[i].is_acked)
            assert_int_equal(world.sent[i].durability, STELE_DURABILITY_REPLICATED);
    }
    end();
}

/* Who asks a follower is told who leads, in which epoch, and where that is. */
static void test_hints(void **state)
{
    (void)state;
    begin(1, false);
    lead_both(2);
    replica_world_run(&world, SECOND_US);
    world.sends_to = 3;
    replica_world_run(&world, SECOND_US);
    assert_int_equal(world.last_error, STELE_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(world.hint.node_id, 2);
    assert_int_equal(world.hint.port, 2);
    assert_int_equal(world.hint_epoch, world.states[1].leader_epoch);
    end();
}

/* A clean stop and start of every node in turn, under load. */
static void test_rolling(void **state)
{
    (void)state;
    begin(3, false);
    for (int i = 0; i < REPLICA_NODES; i++) {
        sim_server_stop(&world.nodes[i].server);
        replica_world_run(&world, 3 * SECOND_US);
        assert_int_equal(world.nodes[i].server.state, SIM_SERVER_DOWN);
        assert_true(world.nodes[i].server.is_stop_clean);
        replica_node_start(&world.nodes[i]);
        replica_world_run(&world, 3 * SECOND_US);
    }
    end();
}

/* The array of those that the leader is to forget, when it is made. */
enum { LEAST = 16 * sizeof(struct stele_forgotten_partition) };
static int refusals;
static struct stele_mem_source own_memory;

static void *resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (ptr != NULL || bytes <= LEAST || bytes > LEAST + 16)
        return own_memory.resize(own_memory.ctx, ptr, bytes);
    refusals++;
    return NULL;
}

/* A follower whose leader was elected again leaves the leader's session and enters it anew. Out of memory it cannot say
 * the one for a while: said later than the other it would take the partition out of the session for good. */
static void test_forgets_before_it_asks(void **state)
{
    (void)state;
    struct replica_node *node = &world.nodes[1];
    begin(1, false);
    lead_both(1);
    replica_node_die(node, SIM_DEATH_KILL); /* so that it never had anything to forget */
    replica_world_run(&world, 2 * SECOND_US);
    replica_node_start(node);
    own_memory = node->server.process.mem.source;
    node->server.process.mem.source = (struct stele_mem_source){.resize = resize};
    replica_world_until(&world, is_all_in_sync, "all in sync");
    world.client.pause_us = 6 * SECOND_US;
    replica_world_run(&world, SECOND_US);
    for (int i = 0; i < REPLICA_PARTITIONS; i++)
        replica_world_elect(&world, i, 1);
    replica_world_run(&world, SECOND_US);
    assert_true(refusals > 0);
    node->server.process.mem.source = own_memory;
    replica_world_run(&world, SECOND_US);
    world.client.pause_us = 20000;
    replica_world_run(&world, 10 * SECOND_US);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_followers_commit),
        cmocka_unit_test(test_min_insync),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_blackout),
        cmocka_unit_test(test_switched_on),
        cmocka_unit_test(test_durability),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_forgets_before_it_asks),
        cmocka_unit_test(test_rolling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
