/* Throttled replication in a cluster of three nodes: catching up takes the time that the rate says, by the leader's
 * rate or the follower's, and nobody else waits for it. */
#include "base/test/support.h"
#include "cluster-tests/test/one_partition.h"

#include <stdio.h>
#include <string.h>

enum { BATCHES = 40, BATCH_BYTES = 50000, RATE = 100000, MS = 1000 };

static const char *const sides[] = {"leader", "follower"};

static void set_rate(int side, const char *value)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s.replication.throttled.rate", sides[side]);
    assert_ok(alter(STELE_SUBJECT_CLUSTER, "", name, value));
}

static void set_list(int side, const char *value)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s.replication.throttled.replicas", sides[side]);
    assert_ok(alter(STELE_SUBJECT_TOPIC, "t", name, value));
}

static struct stele_uuid make_other_topic(const int32_t *ids, size_t count)
{
    struct stele_assigned_partition assigned = {.partition = 0, .replicas = ids, .replica_count = count};
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC,
                                    .body.create_topic = {.name = "u",
                                                          .partition_count = 1,
                                                          .replication_factor = -1,
                                                          .timeout_ms = 10000,
                                                          .assignments = &assigned,
                                                          .assignment_count = 1}};
    const struct stele_create_topic_response *response = &ask(&request)->body.create_topic;
    assert_ok(response->err);
    return response->topic_id;
}

static void move_to(const int32_t *target, size_t count)
{
    struct stele_reassigned_partition moved = {
        .topic = "t", .partition = 0, .replicas = target, .replica_count = count};
    struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                    .body.reassign = {.partitions = &moved, .partition_count = 1}};
    const struct stele_reassign_response *response = &ask(&request)->body.reassign;
    assert_ok(response->err);
    assert_ok(response->results[0].err);
}

/* How long a record of the other topic takes to all of its replicas. */
static int64_t time_of_put(const struct stele_uuid *id, int32_t node_id)
{
    int64_t began_us = sim_world_now_us(&cluster.world);
    assert_ok(put_to(id, node_id, -1, 1, 10));
    return sim_world_now_us(&cluster.world) - began_us;
}

/* A replica moves under a rate: it takes about the bytes over the rate, while records of another topic between the same
 * two nodes, and of the throttled topic between replicas in sync, take no longer than without. */
static void move_under(int side, uint64_t seed)
{
    const int replicas[] = {1, 0};
    char list[64];
    begin_nodes(seed, "replica.fetch.max.bytes", "50500");
    begin_topic(replicas, 2, "1");
    for (int i = 0; i < BATCHES; i++)
        assert_ok(put_sized(-1, 1, BATCH_BYTES));
    const int32_t pair[] = {others[0], others[1]};
    struct stele_uuid other = make_other_topic(pair, 2);
    cluster_nodes_run(&cluster, SECOND_US);
    int64_t usual_us = time_of_put(&other, others[0]);
    (void)snprintf(list, sizeof(list), side == 0 ? "0:%d,0:%d" : "0:%d", (int)(side == 0 ? others[0] : others[1]),
                   (int)controller);
    set_rate(side, "100000");
    set_list(side, list);
    cluster_nodes_run(&cluster, SECOND_US);
    int64_t began_us = sim_world_now_us(&cluster.world), longest_us = 0;
    const int32_t target[] = {others[0], others[1], controller};
    move_to(target, 3);
    while (!is_whole(&cluster)) {
        longest_us = stele_max_i64(longest_us, time_of_put(&other, others[0]));
        longest_us = stele_max_i64(longest_us, time_of_put(&topic_id, others[0]));
        cluster_nodes_run(&cluster, 200 * MS);
        assert_true(sim_world_now_us(&cluster.world) - began_us < 120 * SECOND_US);
    }
    int64_t took_us = sim_world_now_us(&cluster.world) - began_us;
    int64_t ideal_us = (int64_t)BATCHES * BATCH_BYTES * SECOND_US / RATE;
    assert_in_range(took_us, ideal_us * 8 / 10, ideal_us * 13 / 10);
    assert_true(longest_us < usual_us + 100 * MS);
    int64_t moved = side == 0 ? metric(others[0], "stele_throttled_sent_bytes_total")
                              : metric(others[1], "stele_throttled_received_bytes_total");
    assert_true(moved >= (int64_t)BATCHES * BATCH_BYTES);
    assert_true(metric(side == 0 ? others[0] : others[1],
                       side == 0 ? "stele_throttle_held_sends_total" : "stele_throttle_held_fetches_total") > 0);
    assert_int_equal(stele_log_end_offset(replica(others[1])->log), stele_log_end_offset(replica(others[0])->log));
    end();
}

static void test_leader_rate(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        move_under(0, seed);
}

static void test_follower_rate(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        move_under(1, seed);
}

static bool misses_one(struct cluster_nodes *nodes)
{
    return is_led(nodes) && partition()->isr.count == 2;
}

/* With every replica throttled to nothing those in sync stay so, at full speed. One that has to catch up waits, until
 * the rate is raised: nobody is left waiting for a request that does not come. */
static void test_in_sync_is_never_held(void **state)
{
    (void)state;
    for (int side = 0; side < 2; side++) {
        const int replicas[] = {1, 2, 0};
        begin(7, replicas, 3, "2");
        set_rate(side, "0");
        set_list(side, "*");
        cluster_nodes_run(&cluster, SECOND_US);
        for (int i = 0; i < 20; i++)
            assert_ok(put_sized(-1, 1, BATCH_BYTES));
        cluster_nodes_run(&cluster, 3 * SECOND_US);
        assert_true(is_whole(&cluster));
        int32_t leader_id = partition()->leader_id;
        assert_int_equal(metric(leader_id, "stele_isr_shrinks_total"), 0);
        kill_node(others[1], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, misses_one, "the follower is out");
        assert_ok(put_sized(-1, 1, BATCH_BYTES));
        cluster_nodes_start(&cluster);
        cluster_nodes_until(&cluster, all_registered, "all are back");
        cluster_nodes_run(&cluster, 20 * SECOND_US);
        assert_true(misses_one(&cluster));
        assert_ok(put_sized(-1, 1, BATCH_BYTES));
        set_rate(side, NULL);
        cluster_nodes_until(&cluster, is_whole, "the follower is in sync");
        assert_int_equal(metric(leader_id, "stele_isr_expands_total"), 1);
        end();
    }
}

static enum stele_err make_with(const char *list)
{
    struct stele_setting_pair setting = {"leader.replication.throttled.replicas", list};
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC,
                                    .body.create_topic = {.name = "v",
                                                          .partition_count = 1,
                                                          .replication_factor = -1,
                                                          .settings = &setting,
                                                          .setting_count = 1,
                                                          .timeout_ms = 10000}};
    struct cluster_ask *asked = cluster_nodes_send(&cluster, controller, &request);
    cluster_nodes_until(&cluster, all_answered, "the topic is refused");
    assert_ok(asked->err);
    enum stele_err err = asked->response.body.create_topic.err;
    cluster_ask_end(asked);
    return err;
}

/* What is no list of replicas is refused, when a topic is made and when its settings change. */
static void test_bad_lists(void **state)
{
    static const char *const bad[] = {"1", "1:", ":1", "1:2:3", "a:1", "1:2;3:4", "1:99999999999", "**", "-1:2"};
    static const char *const good[] = {"", "*", " * ", "1:2", "1:2, 3:4 ,5:6", "0:1,"};
    const char *name = "follower.replication.throttled.replicas";
    const int replicas[] = {1, 0};
    (void)state;
    begin(1, replicas, 2, "1");
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad); i++) {
        assert_int_equal(make_with(bad[i]), STELE_INVALID_CONFIG);
        assert_int_equal(alter(STELE_SUBJECT_TOPIC, "t", name, bad[i]), STELE_INVALID_CONFIG);
        assert_int_equal(alter(STELE_SUBJECT_CLUSTER, "", name, bad[i]), STELE_INVALID_CONFIG);
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(good); i++)
        assert_ok(alter(STELE_SUBJECT_TOPIC, "t", name, good[i]));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leader_rate),
        cmocka_unit_test(test_follower_rate),
        cmocka_unit_test(test_in_sync_is_never_held),
        cmocka_unit_test(test_bad_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
