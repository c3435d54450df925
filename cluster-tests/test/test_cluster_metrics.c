/* What nodes tell of replication and of the cluster, as an operator watches it: three nodes, one partition. */
#include "base/test/support.h"
#include "cluster-tests/test/one_partition.h"

#include <stdio.h>
#include <string.h>

static int64_t sum(const char *name)
{
    int64_t sum = 0;
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        if (cluster_nodes_control(&cluster, id) != NULL)
            sum += metric(id, name);
    }
    return sum;
}

static void check_quorum(void)
{
    int32_t leader_id = cluster_nodes_leader(&cluster);
    assert_int_equal(sum("stele_active_controller"), 1);
    assert_int_equal(metric(leader_id, "stele_active_controller"), 1);
    assert_int_equal(sum("stele_quorum_leads"), 1);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        if (cluster_nodes_control(&cluster, id) == NULL)
            continue;
        assert_int_equal(metric(id, "stele_quorum_leader_id"), leader_id);
        assert_int_equal(metric(id, "stele_quorum_voters"), 3);
        assert_true(metric(id, "stele_quorum_epoch") >= 1);
        assert_true(metric(id, "stele_quorum_high_watermark") <= metric(id, "stele_quorum_log_end_offset"));
        assert_int_equal(metric(id, "stele_quorum_observers"), id == leader_id ? 0 : -1);
        assert_int_equal(metric(id, "stele_quorum_applied_offset"), metric(id, "stele_quorum_high_watermark"));
    }
    assert_int_equal(metric(leader_id, "stele_quorum_high_watermark"),
                     metric(leader_id, "stele_quorum_log_end_offset"));
}

static bool misses_one(struct cluster_nodes *nodes)
{
    return is_led(nodes) && partition()->isr.count == 2;
}

/* A follower dies, is missed, comes back; its leader dies, another is elected: each is counted where it happens. */
static void test_replicas_come_and_go(void **state)
{
    (void)state;
    const int replicas[] = {1, 2, 0};
    begin(1, replicas, 3, "2");
    for (int i = 0; i < 5; i++)
        assert_ok(put(-1, 10));
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    check_quorum();
    int32_t leader_id = partition()->leader_id;
    assert_int_equal(sum("stele_leaders"), 1);
    assert_int_equal(metric(leader_id, "stele_leaders"), 1);
    assert_int_equal(sum("stele_partitions"), 3);
    assert_int_equal(sum("stele_under_replicated_partitions"), 0);
    assert_int_equal(sum("stele_at_min_isr_partitions"), 0);
    assert_int_equal(sum("stele_replica_lag_offsets_max"), 0);
    int64_t received = metric(controller, "stele_replication_received_bytes_total");
    assert_true(received > 500);
    assert_int_equal(metric(leader_id, "stele_replication_received_bytes_total"), 0);
    assert_int_equal(metric(leader_id, "stele_replication_sent_bytes_total"), 2 * received);
    assert_true(metric(controller, "stele_replica_fetches_total") > 5);
    char name[64];
    (void)snprintf(name, sizeof(name), "stele_replica_fetcher_lag_offsets{node=\"%d\"}", (int)leader_id);
    assert_int_equal(metric(controller, name), 0);
    (void)snprintf(name, sizeof(name), "stele_replica_fetcher_partitions{node=\"%d\"}", (int)leader_id);
    assert_int_equal(metric(controller, name), 1);
    assert_int_equal(metric(leader_id, name), -1);
    (void)snprintf(name, sizeof(name), "stele_quorum_replica_lag_offsets{node=\"%d\"}", (int)others[1]);
    assert_int_equal(metric(controller, name), 0);

    int64_t failed = metric(others[1], "stele_replica_fetches_failed_total");
    assert_true(failed >= 0);
    kill_node(others[1], SIM_DEATH_KILL);
    cluster_nodes_until(&cluster, misses_one, "the follower is out");
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    assert_ok(put(-1, 10));
    assert_int_equal(metric(leader_id, "stele_under_replicated_partitions"), 1);
    assert_int_equal(metric(leader_id, "stele_at_min_isr_partitions"), 1);
    assert_int_equal(metric(leader_id, "stele_under_min_isr_partitions"), 0);
    assert_int_equal(metric(leader_id, "stele_isr_shrinks_total"), 1);
    assert_int_equal(metric(leader_id, "stele_isr_expands_total"), 0);
    assert_int_equal(metric(leader_id, "stele_cluster_fenced_nodes"), 1);
    assert_int_equal(metric(controller, "stele_cluster_active_nodes"), 2);
    assert_int_equal(metric(controller, "stele_leader_elections_total"), 0);
    cluster_nodes_start(&cluster);
    cluster_nodes_until(&cluster, is_whole, "the follower is back");
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    assert_int_equal(metric(leader_id, "stele_isr_expands_total"), 1);
    assert_int_equal(metric(leader_id, "stele_under_replicated_partitions"), 0);
    assert_int_equal(metric(controller, "stele_cluster_fenced_nodes"), 0);

    kill_node(leader_id, SIM_DEATH_KILL);
    cluster_nodes_until(&cluster, misses_one, "another leads");
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    assert_int_not_equal(partition()->leader_id, leader_id);
    assert_int_equal(metric(controller, "stele_leader_elections_total"), 1);
    assert_int_equal(metric(controller, "stele_unclean_leader_elections_total"), 0);
    assert_int_equal(metric(controller, "stele_cluster_preferred_replica_imbalance"), 1);
    assert_int_equal(metric(controller, "stele_cluster_offline_partitions"), 0);
    assert_true(sum("stele_replica_fetches_failed_total") > 0);
    end();
}

/* A partition with fewer in sync than it needs is told by its leader. */
static void test_under_min(void **state)
{
    (void)state;
    const int replicas[] = {1, 2};
    begin(2, replicas, 2, "2");
    assert_ok(put(-1, 10));
    kill_node(others[1], SIM_DEATH_KILL);
    cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
    cluster_nodes_run(&cluster, SECOND_US);
    assert_int_equal(metric(others[0], "stele_under_min_isr_partitions"), 1);
    assert_int_equal(metric(others[0], "stele_at_min_isr_partitions"), 0);
    cluster_nodes_start(&cluster);
    cluster_nodes_until(&cluster, is_whole, "all are in sync");
    cluster_nodes_run(&cluster, SECOND_US);
    assert_int_equal(sum("stele_under_min_isr_partitions"), 0);
    assert_int_equal(sum("stele_at_min_isr_partitions"), 1);
    end();
}

/* Without a leader a partition is offline for the cluster; forced, one is elected, and that is counted as unclean. */
static void test_offline_and_unclean(void **state)
{
    (void)state;
    const int replicas[] = {1, 2};
    const struct stele_partition_name name = {"t", 0};
    const struct stele_request request = {
        .header.api = STELE_API_ELECT_LEADERS,
        .body.elect_leaders = {.mode = STELE_ELECTION_UNCLEAN, .partitions = &name, .partition_count = 1}};
    begin(1, replicas, 2, "1");
    assert_ok(put(-1, 10));
    kill_node(others[1], SIM_DEATH_KILL);
    cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
    assert_ok(put(-1, 7));
    kill_node(others[0], SIM_DEATH_POWER_ORDERED);
    sim_server_start(&cluster.nodes[others[1] - 1]);
    cluster_nodes_until(&cluster, is_leaderless, "nobody leads");
    cluster_nodes_run(&cluster, 12 * SECOND_US);
    assert_int_equal(metric(controller, "stele_cluster_offline_partitions"), 1);
    assert_int_equal(metric(controller, "stele_cluster_partitions"), 1);
    assert_int_equal(metric(controller, "stele_leader_elections_total"), 0);
    assert_ok(ask(&request)->body.elect_leaders.results[0].err);
    cluster_nodes_until(&cluster, is_led, "one leads");
    assert_int_equal(metric(controller, "stele_cluster_offline_partitions"), 0);
    assert_int_equal(metric(controller, "stele_leader_elections_total"), 1);
    assert_int_equal(metric(controller, "stele_unclean_leader_elections_total"), 1);
    end();
}

/* A replica that moves is no missing one; while it does, both who leads and who controls say so. */
static void test_reassigning(void **state)
{
    (void)state;
    const int replicas[] = {1, 0};
    begin(3, replicas, 2, "1");
    assert_ok(put(-1, 10));
    cut(others[0], others[1], true); /* the new one gets nothing yet */
    const int32_t target[] = {others[0], others[1]};
    struct stele_reassigned_partition moved = {.topic = "t", .partition = 0, .replicas = target, .replica_count = 2};
    struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                    .body.reassign = {.partitions = &moved, .partition_count = 1}};
    assert_ok(ask(&request)->body.reassign.results[0].err);
    cluster_nodes_run(&cluster, SECOND_US);
    assert_int_equal(metric(others[0], "stele_reassigning_partitions"), 1);
    assert_int_equal(metric(others[0], "stele_under_replicated_partitions"), 0);
    assert_int_equal(metric(controller, "stele_cluster_reassigning_partitions"), 1);
    cut(others[0], others[1], false);
    cluster_nodes_until(&cluster, is_whole, "the replica has moved");
    cluster_nodes_run(&cluster, SECOND_US);
    assert_int_equal(sum("stele_reassigning_partitions"), 0);
    assert_int_equal(sum("stele_cluster_reassigning_partitions"), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replicas_come_and_go),
        cmocka_unit_test(test_under_min),
        cmocka_unit_test(test_offline_and_unclean),
        cmocka_unit_test(test_reassigning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
