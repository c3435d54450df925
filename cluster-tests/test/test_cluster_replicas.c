/* What becomes of partitions in a cluster of three whole nodes: who is in sync, who leads, which nodes hold them. */
#include "base/test/support.h"
#include "cluster-tests/test/one_partition.h"
#include "node/replica_session.h"
#include "storage/checkpoint.h"
#include "storage/resync.h"

#include <stdio.h>
#include <string.h>

enum { SEEDS = 3 };

/* A follower that cannot reach its leader, and is alive for the controller, leaves the in-sync set by the leader's
 * wish, whether the leader's node is the controller or not; below min.insync.replicas acks=all is refused; then it
 * returns. */
static void test_shrink_and_grow(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (int leader = 0; leader < 2; leader++) {
            const int replicas[] = {leader, 1 - leader, 2};
            begin(seed, replicas, 3, "3");
            int32_t leader_id = partition()->leader_id, leader_epoch = partition()->leader_epoch;
            assert_int_equal(leader_id, leader == 0 ? controller : others[0]);
            assert_ok(put(-1, 3));
            if (leader == 0) { /* it hears nothing of its leader, but is not fenced: it asks another for nothing */
                struct stele_partition *follower = replica(others[1]);
                assert_non_null(follower);
            }
            cut(leader_id, others[1], true);
            if (leader == 0) { /* the controller would fence it: what it fences is no leader's wish */
                cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
            } else {
                assert_int_not_equal(put(-1, 1), STELE_OK);
                cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
                assert_true(stele_registry_is_active_node(&cluster_nodes_control(&cluster, controller)->active.registry,
                                                          others[1]));
            }
            assert_int_equal(partition()->leader_id, leader_id);
            assert_int_equal(partition()->leader_epoch, leader_epoch);
            assert_int_equal(put(-1, 1), STELE_NOT_ENOUGH_REPLICAS);
            assert_ok(put(1, 1));
            cut(leader_id, others[1], false);
            cluster_nodes_until(&cluster, is_whole, "the follower is back");
            assert_ok(put(-1, 1));
            end();
        }
    }
}

/* A consumer's fetch that may be answered by a follower; it waits for up to half a minute. */
static struct cluster_ask *read_at(int32_t node_id, const struct stele_uuid *topic, int32_t leader_epoch,
                                   int32_t last_epoch, int64_t offset)
{
    static struct stele_fetch_partition part;
    part = (struct stele_fetch_partition){.topic_id = *topic,
                                          .current_leader_epoch = leader_epoch,
                                          .last_fetched_epoch = last_epoch,
                                          .fetch_offset = offset,
                                          .max_bytes = 1 << 20};
    struct stele_request request = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {.replica_id = -1,
                                                   .max_wait_ms = 30000,
                                                   .min_bytes = 1,
                                                   .max_bytes = 1 << 20,
                                                   .partitions = &part,
                                                   .partition_count = 1,
                                                   .cluster_id = "",
                                                   .replica_epoch = -1,
                                                   .session_epoch = -1,
                                                   .rack = "r"}};
    return cluster_nodes_send(&cluster, node_id, &request);
}

/* B25 (KAFKA-14334): a reader's fetch that waits at a follower is answered when the follower knows that there is more,
 * long before its time is over; what it gets is what the leader has. Of an offset beyond its end it does not know. */
static void test_reader_at_a_follower(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "2");
        assert_ok(put(-1, 3));
        cluster_nodes_run(&cluster, 2 * SECOND_US); /* all know that it is committed */
        struct cluster_ask *reader =
            read_at(others[1], &replica(others[1])->key.topic_id, partition()->leader_epoch, -1, 3);
        cluster_nodes_run(&cluster, 3 * SECOND_US);
        assert_false(reader->is_done);
        assert_ok(put(-1, 1));
        for (int i = 0; i < 100 && !reader->is_done; i++)
            cluster_nodes_run(&cluster, SECOND_US / 100);
        assert_true(reader->is_done);
        assert_ok(reader->err);
        const struct stele_fetch_result *result = &reader->response.body.fetch.results[0];
        assert_ok(result->err);
        assert_int_equal(result->high_watermark, 4);
        assert_true(result->records_bytes > 0);
        cluster_ask_end(reader);
        const int32_t epoch = partition()->leader_epoch;
        const struct {
            int node;
            int32_t epoch, last_epoch;
            bool is_known;
        } beyond[] = {{1, -1, -1, false},
                      {1, epoch, -1, false},
                      {1, epoch, epoch, false},
                      {1, epoch, epoch + 1, false},
                      {0, epoch, epoch, true}};
        for (size_t i = 0; i < STELE_ARRAY_LEN(beyond); i++) { /* the leader may have it; of itself it knows */
            reader = read_at(others[beyond[i].node], &replica(others[1])->key.topic_id, beyond[i].epoch,
                             beyond[i].last_epoch, 99);
            cluster_nodes_run(&cluster, SECOND_US);
            assert_true(reader->is_done);
            result = &reader->response.body.fetch.results[0];
            assert_int_equal(result->err, beyond[i].is_known ? STELE_OK : STELE_OFFSET_NOT_AVAILABLE);
            assert_int_equal(result->diverging_end_offset, beyond[i].is_known ? 4 : -1);
            cluster_ask_end(reader);
        }
        end();
    }
}

/* What a node says to the controller takes that much longer. */
static void late_to_controller(int32_t node_id, int64_t us)
{
    char from[8], to[8];
    (void)snprintf(from, sizeof(from), "n%d", (int)node_id);
    (void)snprintf(to, sizeof(to), "n%d", (int)controller);
    sim_net_delay(&cluster.world, sim_net_host(&cluster.world, from), sim_net_host(&cluster.world, to), us);
}

/* A leader that lost its power, and is back before anybody noticed, is the leader still for all that is known, and has
 * less than it gave to readers: it tells none that its offset is beyond the end. */
static void test_reader_at_a_former_leader(void **state)
{
    (void)state;
    int refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "2");
        assert_ok(put(-1, 10));
        int32_t id = others[0];
        const struct stele_uuid topic = replica(id)->key.topic_id;
        kill_node(id, SIM_DEATH_POWER_ORDERED);
        late_to_controller(id, 300000);
        sim_server_start(&cluster.nodes[id - 1]);
        for (int i = 0; i < 60; i++) {
            struct cluster_ask *reader = read_at(id, &topic, -1, -1, 10);
            cluster_nodes_run(&cluster, SECOND_US / 20);
            if (reader->is_done && reader->err == STELE_OK && reader->response.body.fetch.result_count > 0) {
                assert_int_not_equal(reader->response.body.fetch.results[0].err, STELE_OFFSET_OUT_OF_RANGE);
                refused += reader->response.body.fetch.results[0].err == STELE_NOT_LEADER_OR_FOLLOWER;
            }
            cluster_ask_end(reader);
        }
        late_to_controller(id, 0);
        cluster_nodes_until(&cluster, is_whole, "all are in sync");
        end();
    }
    assert_true(refused > 0);
}

/* A replica moves to a node that had none: it gets all records, then the old one goes, and its node forgets it. */
static void test_reassign(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 0};
        begin(seed, replicas, 2, "1");
        for (int i = 0; i < 20; i++)
            assert_ok(put(-1, 10));
        const int32_t target[] = {others[1], controller};
        struct stele_reassigned_partition moved = {
            .topic = "t", .partition = 0, .replicas = target, .replica_count = 2};
        struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                        .body.reassign = {.partitions = &moved, .partition_count = 1}};
        const struct stele_reassign_response *response = &ask(&request)->body.reassign;
        assert_ok(response->err);
        assert_ok(response->results[0].err);
        cluster_nodes_until(&cluster, is_whole, "the replica has moved");
        assert_true(are(&partition()->replicas, target, 2));
        assert_int_equal(partition()->replicas.ids[0], others[1]);
        assert_int_equal(stele_log_end_offset(replica(others[1])->log), 200);
        for (int i = 0; i < 1000 && replica(others[0]) != NULL; i++)
            cluster_nodes_run(&cluster, 10000);
        assert_null(replica(others[0]));
        assert_ok(put(-1, 1));
        end();
    }
}

/* The leader's replica goes while a produce waits for one that is in sync and gets nothing. What it wrote the others
 * may commit: it is not told that it was not written, so an idempotent producer sends it with the same sequence. */
static void test_reassign_under_a_produce(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "1");
        assert_ok(put(-1, 10));
        cut(others[0], others[1], true);
        struct stele_buf *batch = batch_of(5, 5);
        struct stele_produce_partition part = {.topic_id = topic_id, .records_bytes = (uint32_t)batch->count};
        struct stele_request produce = {
            .header.api = STELE_API_PRODUCE,
            .body.produce = {.acks = -1, .timeout_ms = 30000, .partitions = &part, .partition_count = 1}};
        struct cluster_ask *asked = cluster_nodes_send(&cluster, others[0], &produce);
        asked->records = batch;
        for (int i = 0; i < 100 && stele_log_end_offset(replica(controller)->log) < 15; i++)
            cluster_nodes_run(&cluster, 10000);
        assert_int_equal(stele_log_end_offset(replica(controller)->log), 15);
        assert_false(asked->is_done);
        const int32_t target[] = {controller, others[1]};
        struct stele_reassigned_partition moved = {
            .topic = "t", .partition = 0, .replicas = target, .replica_count = 2};
        struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                        .body.reassign = {.partitions = &moved, .partition_count = 1}};
        struct cluster_ask *reassign = cluster_nodes_send(&cluster, controller, &request);
        cluster_nodes_until(&cluster, all_answered, "the produce is answered");
        assert_ok(reassign->response.body.reassign.results[0].err);
        assert_int_equal(asked->response.body.produce.results[0].err, STELE_NOT_LEADER_OR_FOLLOWER);
        cluster_ask_end(asked);
        cluster_ask_end(reassign);
        cut(others[0], others[1], false);
        cluster_nodes_until(&cluster, is_whole, "the replicas have moved");
        assert_int_equal(stele_log_end_offset(replica(controller)->log), 15);
        end();
    }
}

/* After a restart of its leader a partition is led by another; it is given back when somebody asks for it. */
static void test_preferred(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        const struct stele_partition_name name = {"t", 0};
        const struct stele_request request = {
            .header.api = STELE_API_ELECT_LEADERS,
            .body.elect_leaders = {.mode = STELE_ELECTION_PREFERRED, .partitions = &name, .partition_count = 1}};
        begin(seed, replicas, 3, "2");
        assert_int_equal(partition()->leader_id, others[0]);
        kill_node(others[0], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, is_led, "another leads");
        assert_int_not_equal(partition()->leader_id, others[0]);
        assert_ok(put(-1, 5));
        assert_int_equal(ask(&request)->body.elect_leaders.results[0].err, STELE_PREFERRED_LEADER_NOT_AVAILABLE);
        cluster_nodes_start(&cluster);
        cluster_nodes_until(&cluster, is_whole, "all are in sync");
        assert_int_not_equal(partition()->leader_id, others[0]);
        const struct stele_elect_leaders_result *result = &ask(&request)->body.elect_leaders.results[0];
        assert_ok(result->err);
        assert_int_equal(result->leader_id, others[0]);
        cluster_nodes_until(&cluster, is_led, "the preferred one leads");
        assert_int_equal(partition()->leader_id, others[0]);
        assert_ok(put(-1, 5));
        end();
    }
}

static int64_t end_of(int32_t node_id)
{
    return stele_log_end_offset(replica(node_id)->log);
}

/* S33 (osiris 42): while a follower is gone the leader's start goes past its end. It can neither append nor cut to fit:
 * it begins anew where the leader's log does, and can lead. */
static void test_left_behind(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "2");
        assert_ok(put(-1, 3));
        kill_node(others[1], seed % 2 ? SIM_DEATH_KILL : SIM_DEATH_POWER_ORDERED);
        cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
        assert_ok(put(-1, 10));
        assert_ok(put(-1, 5));
        struct stele_delete_records_partition part = {
            .topic_id = replica(others[0])->key.topic_id, .current_leader_epoch = -1, .offset = 15};
        const struct stele_request request = {
            .header.api = STELE_API_DELETE_RECORDS,
            .body.delete_records = {.partitions = &part, .partition_count = 1, .timeout_ms = 8000}};
        const struct stele_response *response = cluster_nodes_ask(&cluster, others[0], &request);
        assert_ok(response->body.delete_records.results[0].err);
        cluster_nodes_start(&cluster);
        cluster_nodes_until(&cluster, is_whole, "the follower is back");
        assert_int_equal(stele_log_start_offset(replica(others[1])->log), 15);
        assert_int_equal(end_of(others[1]), 18);
        kill_node(others[0], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, is_led, "another leads");
        assert_ok(put(-1, 1));
        end();
    }
}

static bool has_batch_around(struct cluster_nodes *nodes)
{
    (void)nodes;
    const struct stele_partition *follower = replica(others[1]);
    return follower != NULL && follower->log != NULL && end_of(others[1]) == 18;
}

/* Where it starts is on its disk before the batch around that is: it starts there again after a loss of power, whether
 * it lost the batch or not, and while it does not reach its leader. */
static void test_start_within_a_batch_is_kept(void **state)
{
    (void)state;
    static const enum sim_death deaths[] = {SIM_DEATH_KILL, SIM_DEATH_POWER_ORDERED, SIM_DEATH_POWER_ADVERSARIAL};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "2");
        assert_ok(put(-1, 3));
        kill_node(others[1], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
        assert_ok(put(-1, 10));
        assert_ok(put(-1, 5));
        struct stele_delete_records_partition part = {
            .topic_id = replica(others[0])->key.topic_id, .current_leader_epoch = -1, .offset = 15};
        const struct stele_request request = {
            .header.api = STELE_API_DELETE_RECORDS,
            .body.delete_records = {.partitions = &part, .partition_count = 1, .timeout_ms = 8000}};
        assert_ok(cluster_nodes_ask(&cluster, others[0], &request)->body.delete_records.results[0].err);
        sim_server_start(&cluster.nodes[others[1] - 1]);
        cluster_nodes_until(&cluster, has_batch_around, "the follower has the batch around its start");
        assert_int_equal(stele_log_start_offset(replica(others[1])->log), 15);
        kill_node(others[1], deaths[seed % 3]);
        cut(others[0], others[1], true);
        sim_server_start(&cluster.nodes[others[1] - 1]);
        for (int i = 0; i < 1000 && replica(others[1]) == NULL; i++)
            cluster_nodes_run(&cluster, 10000);
        assert_non_null(replica(others[1]));
        assert_int_equal(stele_log_start_offset(replica(others[1])->log), 15);
        cut(others[0], others[1], false);
        cluster_nodes_until(&cluster, is_whole, "the follower is back");
        assert_int_equal(stele_log_start_offset(replica(others[1])->log), 15);
        end();
    }
}

/* Two replicas that lost their power one after the other, each after it led alone: nobody may lead. Forced, the one of
 * the last leader does, and what only the other has is said to be lost, and is written down. */
static void test_forced(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2};
        const struct stele_partition_name name = {"t", 0};
        const struct stele_request request = {
            .header.api = STELE_API_ELECT_LEADERS,
            .body.elect_leaders = {.mode = STELE_ELECTION_UNCLEAN, .partitions = &name, .partition_count = 1}};
        begin(seed, replicas, 2, "1");
        assert_ok(put(-1, 10)); /* both have them */
        assert_int_equal(ask(&request)->body.elect_leaders.results[0].err, STELE_ELECTION_NOT_NEEDED);
        kill_node(others[1], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
        assert_ok(put(-1, 7)); /* the leader alone */
        kill_node(others[0], SIM_DEATH_POWER_ORDERED);
        sim_server_start(&cluster.nodes[others[1] - 1]);
        cluster_nodes_until(&cluster, is_leaderless, "nobody leads");
        cluster_nodes_run(&cluster, 12 * SECOND_US);
        assert_true(is_leaderless(&cluster));
        const struct stele_elect_leaders_result *result = &ask(&request)->body.elect_leaders.results[0];
        assert_ok(result->err); /* the other is away: what it had more is not known */
        assert_int_equal(result->leader_id, others[1]);
        assert_int_equal(result->lost_first_offset, -1);
        assert_int_not_equal(result->message[0], 0);
        cluster_nodes_until(&cluster, is_led, "the follower leads");
        assert_ok(put(-1, 1));
        assert_int_equal(end_of(others[1]), 11);
        kill_node(others[1], SIM_DEATH_POWER_ORDERED);
        cluster_nodes_run(&cluster, 12 * SECOND_US);
        cluster_nodes_start(&cluster);
        cluster_nodes_until(&cluster, is_leaderless, "nobody leads again"); /* it was noticed that they were away */
        cluster_nodes_until(&cluster, all_registered, "all are back");
        cluster_nodes_run(&cluster, 2 * SECOND_US);
        assert_true(is_leaderless(&cluster));
        assert_int_equal(end_of(others[0]), 17);
        assert_int_equal(end_of(others[1]), 11);
        result = &ask(&request)->body.elect_leaders.results[0];
        assert_ok(result->err);
        assert_int_equal(result->leader_id, others[1]);
        assert_int_equal(result->lost_first_offset, 10);
        assert_int_equal(result->lost_end_offset, 17);
        const struct stele_image *image = &cluster_nodes_control(&cluster, cluster_nodes_leader(&cluster))->mlog.image;
        assert_int_equal(image->lost_count, 1);
        assert_int_equal(image->lost[0].first_offset, 10);
        assert_int_equal(image->lost[0].end_offset, 17);
        cluster_nodes_until(&cluster, is_whole, "the other follows");
        assert_int_equal(end_of(others[0]), end_of(others[1]));
        assert_ok(put(-1, 1));
        end();
    }
}

static const struct stele_partition_name the_partition = {"t", 0};
static const struct stele_request force = {
    .header.api = STELE_API_ELECT_LEADERS,
    .body.elect_leaders = {.mode = STELE_ELECTION_UNCLEAN, .partitions = &the_partition, .partition_count = 1}};

/* Nobody leads: the last in sync lost its power and is down, the other lacks what that had. */
static void begin_leaderless(void)
{
    const int replicas[] = {1, 2};
    begin(1, replicas, 2, "1");
    assert_ok(put(-1, 10));
    kill_node(others[1], SIM_DEATH_KILL);
    cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
    kill_node(others[0], SIM_DEATH_POWER_ORDERED);
    sim_server_start(&cluster.nodes[others[1] - 1]);
    cluster_nodes_until(&cluster, is_leaderless, "nobody leads");
}

/* What replicas said before somebody led again tells nothing of what they have now: no leader is forced by it. */
static void test_forced_by_old_answers(void **state)
{
    (void)state;
    begin_leaderless();
    cluster_nodes_run(&cluster, 12 * SECOND_US);
    struct cluster_ask *ask = cluster_nodes_send(&cluster, controller, &force);
    struct stele_controller *control = cluster_nodes_control(&cluster, controller);
    struct stele_image_topic *topic = stele_image_topic_named(&control->mlog.image, "t");
    for (int i = 0; i < 1000000 && !ask->is_done; i++) { /* as if one had led and gone at every moment between */
        topic->partitions[0].state.leader_epoch += 2;
        cluster_nodes_run(&cluster, 10);
    }
    assert_true(ask->is_done);
    assert_ok(ask->err);
    assert_int_equal(ask->response.body.elect_leaders.results[0].err, STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_true(is_leaderless(&cluster));
    cluster_ask_end(ask);
    end();
}

static bool is_unfenced(struct cluster_nodes *nodes)
{
    const struct stele_image *image = &cluster_nodes_control(nodes, controller)->mlog.image;
    const struct stele_image_member *member = stele_image_member_of(image, others[0]);
    return member != NULL && !member->is_fenced;
}

/* A replica that is there and has not said what it holds may be all that is left of what was acknowledged: nobody is
 * forced to lead past it. */
static void test_forced_past_a_silent_one(void **state)
{
    (void)state;
    char hosts[2][8];
    begin_leaderless();
    sim_server_start(&cluster.nodes[others[0] - 1]);
    cluster_nodes_until(&cluster, is_unfenced, "it is back");
    cluster_nodes_run(&cluster, SECOND_US);
    (void)snprintf(hosts[0], sizeof(hosts[0]), "n%d", (int)controller);
    (void)snprintf(hosts[1], sizeof(hosts[1]), "n%d", (int)others[0]);
    int from = sim_net_host(&cluster.world, hosts[0]), to = sim_net_host(&cluster.world, hosts[1]);
    sim_net_delay(&cluster.world, from, to, 4 * SECOND_US);
    struct cluster_ask *ask = cluster_nodes_send(&cluster, controller, &force);
    for (int i = 0; i < 100000 && !ask->is_done; i++)
        cluster_nodes_run(&cluster, 100);
    assert_true(ask->is_done);
    assert_ok(ask->err);
    assert_int_equal(ask->response.body.elect_leaders.results[0].err, STELE_REQUEST_TIMED_OUT);
    assert_true(is_leaderless(&cluster));
    cluster_ask_end(ask);
    end();
}

static int64_t former_epoch;

static bool is_registered_anew(struct cluster_nodes *of)
{
    int32_t leader = cluster_nodes_leader(of);
    const struct stele_registry *registry = leader > 0 ? &cluster_nodes_control(of, leader)->active.registry : NULL;
    const struct stele_node_registration *node = registry != NULL ? stele_registry_find(registry, others[0]) : NULL;
    return node != NULL && node->node_epoch != former_epoch &&
           stele_registry_is_heard(registry, others[0], stele_env_mono_ms(&cluster.nodes[leader - 1].envs[0].env));
}

/* Nor past one that only starts: it is fenced for as long, and nobody asked it. When it has died again it is not waited
 * for. */
static void test_forced_past_one_that_starts(void **state)
{
    (void)state;
    char hosts[2][8];
    for (int dies = 0; dies < 2; dies++) {
        begin_leaderless();
        former_epoch =
            stele_registry_find(&cluster_nodes_control(&cluster, controller)->active.registry, others[0])->node_epoch;
        sim_server_start(&cluster.nodes[others[0] - 1]);
        for (int i = 0; i < 100000 && !is_registered_anew(&cluster); i++)
            cluster_nodes_run(&cluster, 100);
        assert_true(is_registered_anew(&cluster));
        assert_false(is_unfenced(&cluster));
        (void)snprintf(hosts[0], sizeof(hosts[0]), "n%d", (int)controller);
        (void)snprintf(hosts[1], sizeof(hosts[1]), "n%d", (int)others[0]);
        int from = sim_net_host(&cluster.world, hosts[1]), to = sim_net_host(&cluster.world, hosts[0]);
        sim_net_delay(&cluster.world, from, to, SECOND_US / 2);
        const struct stele_response *response = cluster_nodes_ask(&cluster, controller, &force);
        assert_false(is_unfenced(&cluster));
        assert_int_equal(response->body.elect_leaders.results[0].err, STELE_REQUEST_TIMED_OUT);
        assert_true(is_leaderless(&cluster));
        sim_net_delay(&cluster.world, from, to, 0);
        if (dies) {
            kill_node(others[0], SIM_DEATH_POWER_ORDERED);
            cluster_nodes_run(&cluster, 30 * SECOND_US);
        } else {
            cluster_nodes_until(&cluster, is_unfenced, "it is back");
        }
        assert_ok(ask(&force)->body.elect_leaders.results[0].err);
        assert_int_equal(partition()->leader_id, others[dies]);
        end();
    }
}

/* A leader that lost its power and is back before anybody noticed leads nothing by what it was in its life before:
 * followers would cut their logs to what it still has (KIP-903). */
static void test_former_life(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "2");
        int32_t id = others[0];
        assert_ok(put(-1, 10));
        kill_node(id, SIM_DEATH_POWER_ORDERED);
        late_to_controller(id, (int64_t)(seed % 4) * 100000);
        sim_server_start(&cluster.nodes[id - 1]);
        for (int i = 0; i < 40000; i++) {
            struct stele_controller *control = cluster_nodes_control(&cluster, id);
            struct stele_partition *own = replica(id);
            cluster_nodes_run(&cluster, 100);
            if (control == NULL || own == NULL || own->replica.role != STELE_REPLICA_LEADER)
                continue;
            const struct stele_image_member *self = stele_image_member_of(&control->mlog.image, id);
            assert_non_null(self);
            assert_int_equal(self->node_epoch, control->node->node_epoch);
        }
        late_to_controller(id, 0);
        cluster_nodes_until(&cluster, is_whole, "all are in sync");
        assert_int_equal(end_of(id), 10);
        end();
    }
}

/* Whoever was in sync last may lead again while nothing was acknowledged without it: no more once min.insync.replicas
 * is lowered, for then the one that is left goes on alone (KAFKA-16540). */
static void test_lower_min_insync(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (int of_cluster = 0; of_cluster < 2; of_cluster++) {
            const int replicas[] = {1, 2};
            struct stele_altered_setting settings[] = {{"min.insync.replicas", of_cluster ? NULL : "1"}};
            struct stele_request request = {
                .header.api = STELE_API_ALTER_SETTINGS,
                .body.alter_settings = {
                    .kind = STELE_SUBJECT_TOPIC, .subject = "t", .settings = settings, .setting_count = 1}};
            begin(seed, replicas, 2, "2");
            assert_ok(put(-1, 10));
            kill_node(others[1], SIM_DEATH_KILL);
            cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
            assert_true(are(&partition()->elr, &others[1], 1));
            assert_int_equal(put(-1, 1), STELE_NOT_ENOUGH_REPLICAS);
            if (of_cluster) { /* the topic goes by what the cluster says, and that is lowered */
                settings[0].value = "2";
                request.body.alter_settings.kind = STELE_SUBJECT_CLUSTER;
                request.body.alter_settings.subject = "";
                assert_ok(ask(&request)->body.alter_settings.err);
                settings[0].value = NULL;
                request.body.alter_settings.kind = STELE_SUBJECT_TOPIC;
                request.body.alter_settings.subject = "t";
                assert_ok(ask(&request)->body.alter_settings.err);
                assert_true(are(&partition()->elr, &others[1], 1));
                settings[0].value = "1";
                request.body.alter_settings.kind = STELE_SUBJECT_CLUSTER;
                request.body.alter_settings.subject = "";
            }
            assert_ok(ask(&request)->body.alter_settings.err);
            assert_int_equal(partition()->elr.count, 0);
            for (int i = 0; i < 100 && put(-1, 1) != STELE_OK; i++)
                cluster_nodes_run(&cluster, 10000);
            assert_ok(put(-1, 7));
            kill_node(others[0], SIM_DEATH_KILL);
            sim_server_start(&cluster.nodes[others[1] - 1]);
            cluster_nodes_until(&cluster, is_leaderless, "nobody leads");
            cluster_nodes_run(&cluster, 12 * SECOND_US);
            assert_true(is_leaderless(&cluster));
            cluster_nodes_start(&cluster);
            cluster_nodes_until(&cluster, is_whole, "the one that has everything leads");
            assert_int_equal(end_of(others[1]), 18);
            end();
        }
    }
}

enum { STRANGE_LINES = 3000 };

static char closed_why[256];

static void note_closed(struct sim_server *server, const struct stele_trace_event *event)
{
    (void)server;
    if (event->kind == STELE_TRACE_CONN_CLOSED && event->text != NULL &&
        strncmp(event->text, "a replica's fetch", strlen("a replica's fetch")) == 0)
        (void)snprintf(closed_why, sizeof(closed_why), "%s", event->text);
}

/* What a node keeps for those that fetch from it as replicas. */
static int kept_entries(int32_t node_id)
{
    struct stele_node *node = cluster.nodes[node_id - 1].node;
    int count = 0;
    for (int i = STELE_SHARD_DATA; i < node->shard_count; i++) {
        struct stele_list *all = &node->shards[i].replica_sessions;
        for (struct stele_list *at = all->next; at != all; at = at->next) {
            const struct stele_replica_session *session = STELE_CONTAINER_OF(at, struct stele_replica_session, link);
            for (int k = 0; k < session->part_count; k++)
                count += session->parts[k].entries.count;
        }
    }
    return count;
}

/* Thousands of lines of partitions that are not there and one that is, as a first fetch; answered at once. */
static void strange_fetch(int32_t replica_id, int64_t epoch, enum stele_err err_of_known, int kept)
{
    static struct stele_fetch_partition lines[STRANGE_LINES + 1];
    int before = kept_entries(others[0]);
    for (int i = 0; i <= STRANGE_LINES; i++)
        lines[i] = (struct stele_fetch_partition){.topic_id = {.bytes = {77, (uint8_t)(i >> 8), (uint8_t)i}},
                                                  .partition = i,
                                                  .max_bytes = 1000,
                                                  .current_leader_epoch = partition()->leader_epoch,
                                                  .last_fetched_epoch = -1,
                                                  .known_high_watermark = -1,
                                                  .damaged_offset = -1,
                                                  .doubted_offset = -1};
    lines[STRANGE_LINES].topic_id = topic_id;
    lines[STRANGE_LINES].partition = 0;
    struct stele_request request = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {.replica_id = replica_id,
                                                   .max_wait_ms = 5000,
                                                   .max_bytes = 100000,
                                                   .partitions = lines,
                                                   .partition_count = STRANGE_LINES + 1,
                                                   .cluster_id = "",
                                                   .replica_epoch = epoch,
                                                   .rack = ""}};
    struct cluster_ask *ask = cluster_nodes_send(&cluster, others[0], &request);
    for (int i = 0; i < 100 && !ask->is_done; i++)
        cluster_nodes_run(&cluster, 10000);
    assert_true(ask->is_done);
    assert_ok(ask->err);
    const struct stele_fetch_response *response = &ask->response.body.fetch;
    assert_int_equal(response->result_count, STRANGE_LINES + 1);
    for (size_t i = 0; i < response->result_count; i++) {
        bool is_known = stele_uuid_equal(&response->results[i].topic_id, &topic_id);
        assert_int_equal(response->results[i].err, is_known ? err_of_known : STELE_UNKNOWN_TOPIC_ID);
    }
    assert_int_equal(kept_entries(others[0]), before + kept);
    cluster_ask_end(ask);
}

/* Who fetches as a replica is a node; nothing is kept of partitions that are not there, nor for a node that nobody has
 * registered. A program that says it is a replica is told why it is sent away. */
static void test_strange_fetches(void **state)
{
    const int replicas[] = {1, 2};
    (void)state;
    begin(1, replicas, 2, "1");
    struct stele_request request = {
        .header.api = STELE_API_FETCH,
        .body.fetch = {.replica_id = others[1], .max_wait_ms = 100, .cluster_id = "", .rack = ""}};
    cluster.nodes[others[0] - 1].traced = note_closed;
    closed_why[0] = 0;
    struct cluster_ask *ask = cluster_nodes_send(&cluster, others[0], &request);
    cluster_nodes_run(&cluster, SECOND_US);
    assert_true(ask->is_done);
    assert_int_equal(ask->err, STELE_CLOSED);
    assert_non_null(strstr(closed_why, "no node"));
    cluster_ask_end(ask);
    cluster.group.role = STELE_ROLE_NODE;
    const struct stele_registry *registry = &cluster_nodes_control(&cluster, controller)->active.registry;
    strange_fetch(9, 5, STELE_UNKNOWN_LEADER_EPOCH, 0);
    strange_fetch(controller, stele_registry_find(registry, controller)->node_epoch, STELE_UNKNOWN_LEADER_EPOCH, 1);
    end();
}

/* A node alone cannot have another value than the others of what a leader and the controller judge by. */
static void test_shared_setting_of_a_node(void **state)
{
    const int replicas[] = {0};
    struct stele_altered_setting settings[] = {{"min.insync.replicas", "2"}};
    const struct stele_request request = {
        .header.api = STELE_API_ALTER_SETTINGS,
        .body.alter_settings = {.kind = STELE_SUBJECT_NODE, .subject = "1", .settings = settings, .setting_count = 1}};
    (void)state;
    begin(1, replicas, 1, "1");
    assert_int_equal(ask(&request)->body.alter_settings.err, STELE_INVALID_CONFIG);
    settings[0] = (struct stele_altered_setting){"log.flush.before.ack", "true"};
    assert_int_equal(ask(&request)->body.alter_settings.err, STELE_INVALID_CONFIG);
    end();
}

/* Nodes that were started with different values go by those of the node that made the cluster, all of them, also when
 * they are started with others later; a change at run time reaches all. */
static void test_shared_settings(void **state)
{
    static const char *const min_isrs[] = {"2", NULL, "3"};
    static const char *const flushes[] = {"true", NULL, "false"};
    struct stele_altered_setting settings[] = {{"min.insync.replicas", "2"}, {"log.flush.before.ack", NULL}};
    const struct stele_request request = {
        .header.api = STELE_API_ALTER_SETTINGS,
        .body.alter_settings = {
            .kind = STELE_SUBJECT_CLUSTER, .subject = "", .settings = settings, .setting_count = 2}};
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * (uint64_t)SEEDS; seed++) {
        struct stele_error error;
        cluster_nodes_init(&cluster, seed);
        for (int i = 0; i < CLUSTER_NODES; i++) {
            if (min_isrs[i] == NULL)
                continue;
            struct stele_settings *own = cluster.nodes[i].settings;
            assert_ok(stele_settings_set(own, "min.insync.replicas", min_isrs[i], "test", &error));
            assert_ok(stele_settings_set(own, "log.flush.before.ack", flushes[i], "test", &error));
        }
        cluster_nodes_start(&cluster);
        int32_t maker = cluster_nodes_leader(&cluster);
        int64_t min_isr = stele_settings_int(cluster.nodes[maker - 1].settings, "min.insync.replicas");
        bool flushes_first = stele_settings_bool(cluster.nodes[maker - 1].settings, "log.flush.before.ack");
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < CLUSTER_NODES; i++) {
                const struct stele_settings *in_force = cluster.nodes[i].node->settings;
                assert_int_equal(stele_settings_int(in_force, "min.insync.replicas"), min_isr);
                assert_int_equal(stele_settings_bool(in_force, "log.flush.before.ack"), flushes_first);
            }
            if (round == 0) {
                kill_node(maker, SIM_DEATH_KILL);
                cluster_nodes_start(&cluster);
            } else if (round == 1) {
                assert_ok(ask(&request)->body.alter_settings.err);
                cluster_nodes_run(&cluster, SECOND_US);
                min_isr = 2;
                flushes_first = false;
            }
        }
        end();
    }
}

static void change_topic(const char *name, const char *value)
{
    struct stele_altered_setting setting = {name, value};
    const struct stele_request request = {
        .header.api = STELE_API_ALTER_SETTINGS,
        .body.alter_settings = {.kind = STELE_SUBJECT_TOPIC, .subject = "t", .settings = &setting, .setting_count = 1}};
    assert_ok(ask(&request)->body.alter_settings.err);
}

static bool is_settled(struct cluster_nodes *nodes)
{
    return is_led(nodes) && !partition()->is_unsynced;
}

static bool flushes(void)
{
    const struct stele_active *active = &cluster_nodes_control(&cluster, controller)->active;
    return stele_active_flushes(active, stele_image_topic_named(&active->control->mlog.image, "t"));
}

/* flush.before.ack that is switched on says nothing of what was acknowledged before it: until all in sync have that on
 * their disks, who lost its power may lack some of it, and does not lead by what it has. */
static void test_switched_on(void **state)
{
    int lost = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * (uint64_t)SEEDS; seed++) {
        const int replicas[] = {1, 2};
        struct stele_altered_setting setting = {"flush.before.ack", "true"};
        const struct stele_request request = {
            .header.api = STELE_API_ALTER_SETTINGS,
            .body.alter_settings = {
                .kind = STELE_SUBJECT_TOPIC, .subject = "t", .settings = &setting, .setting_count = 1}};
        begin(seed, replicas, 2, "1");
        change_topic("flush.before.ack", "true");
        cluster_nodes_until(&cluster, is_settled, "all is synced");
        change_topic("flush.before.ack", "false");
        change_topic("flush.messages", "1000000");
        cluster_nodes_run(&cluster, SECOND_US);
        kill_node(others[1], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
        assert_ok(put(-1, 10));
        struct cluster_ask *asked = cluster_nodes_send(&cluster, controller, &request);
        for (int i = 0; i < 100000 && !flushes(); i++)
            cluster_nodes_run(&cluster, 10);
        assert_true(flushes());
        assert_true(partition()->is_unsynced);
        kill_node(others[0], SIM_DEATH_POWER_ADVERSARIAL);
        cluster_nodes_run(&cluster, SECOND_US);
        cluster_ask_end(asked);
        sim_server_start(&cluster.nodes[others[0] - 1]);
        cluster_nodes_run(&cluster, 20 * SECOND_US);
        const struct stele_partition *own = replica(others[0]);
        assert_non_null(own);
        bool has_all = stele_log_end_offset(own->log) == 10;
        lost += !has_all;
        assert_true(has_all || is_leaderless(&cluster));
        end();
    }
    assert_true(lost > 0);
}

/* What the leader answers a consumer of that rack from offset 0: where to read. */
static enum stele_err sent_to(const char *rack, int32_t *out_id)
{
    struct stele_fetch_partition wanted = {.topic_id = topic_id,
                                           .max_bytes = 1000,
                                           .current_leader_epoch = -1,
                                           .last_fetched_epoch = -1,
                                           .log_start_offset = -1,
                                           .known_high_watermark = -1,
                                           .damaged_offset = -1,
                                           .doubted_offset = -1};
    const struct stele_request request = {.header.api = STELE_API_FETCH,
                                          .body.fetch = {.replica_id = -1,
                                                         .max_bytes = 1000,
                                                         .partitions = &wanted,
                                                         .partition_count = 1,
                                                         .cluster_id = "",
                                                         .replica_epoch = -1,
                                                         .session_epoch = -1,
                                                         .rack = rack}};
    const struct stele_fetch_response *response =
        &cluster_nodes_ask(&cluster, partition()->leader_id, &request)->body.fetch;
    assert_int_equal(response->result_count, 1);
    *out_id = response->results[0].preferred_read_replica;
    return response->results[0].err;
}

/* A consumer is sent to the replica in its rack, but to none that has no address for the listener that it came by; and
 * nowhere for what was deleted here, however old the start is that the replica told last. */
static void test_sent_elsewhere(void **state)
{
    const int replicas[] = {1, 2, 0};
    struct stele_error error;
    (void)state;
    begin_nodes(1, NULL, NULL);
    for (int i = 0; i < CLUSTER_NODES; i++) {
        char rack[8];
        (void)snprintf(rack, sizeof(rack), "r%d", i + 1);
        assert_ok(stele_settings_set(cluster.nodes[i].settings, "broker.rack", rack, "test", &error));
    }
    begin_topic(replicas, 3, "2");
    assert_ok(put(-1, 10));
    cluster_nodes_run(&cluster, SECOND_US);
    char rack[8];
    (void)snprintf(rack, sizeof(rack), "r%d", (int)others[1]);
    int32_t id = STELE_NO_NODE;
    assert_ok(sent_to(rack, &id));
    assert_int_equal(id, others[1]);
    struct stele_image *image = &cluster_nodes_control(&cluster, others[0])->mlog.image;
    struct stele_image_member *member = image->members;
    while (member->node_id != others[1])
        member = member->next;
    char name = member->listeners[0].name[0];
    member->listeners[0].name[0] = 'X';
    image->member_records++;
    change_topic("retention.ms", "100000000");
    cluster_nodes_run(&cluster, SECOND_US);
    assert_ok(sent_to(rack, &id));
    assert_int_equal(id, STELE_NO_NODE);
    member->listeners[0].name[0] = name;
    image->member_records++;
    change_topic("retention.ms", "200000000");
    cluster_nodes_run(&cluster, SECOND_US);
    assert_ok(sent_to(rack, &id));
    assert_int_equal(id, others[1]);
    assert_ok(stele_log_set_start_offset(replica(partition()->leader_id)->log, 5));
    assert_int_equal(sent_to(rack, &id), STELE_OFFSET_OUT_OF_RANGE);
    end();
}

static int older_told, refused_told;

static void note_older(struct sim_server *server, const struct stele_trace_event *event)
{
    (void)server;
    older_told += event->kind == STELE_TRACE_NODE_REGISTERED && strstr(event->text, "older copy") != NULL;
    refused_told += event->kind == STELE_TRACE_NODE_REFUSED && strstr(event->text, "older copy") != NULL;
}

/* An older copy of a log directory that was put back: what the others count on is not in it. Its node, that was the
 * last in sync, does not lead by it. Of the first directory, which holds the metadata log, it is refused. */
static void test_older_copy(void **state)
{
    (void)state;
    for (int dir = 0; dir < 2; dir++) {
        const int replicas[] = {1, 2};
        char path[8] = {(char)('a' + dir), 0};
        begin(1, replicas, 2, "1");
        assert_ok(put(-1, 10));
        struct sim_server *server = &cluster.nodes[others[0] - 1];
        for (int i = 0; i < CLUSTER_NODES; i++)
            cluster.nodes[i].traced = note_older;
        int64_t served = 0, epoch = cluster_nodes_control(&cluster, others[0])->node->node_epoch;
        kill_node(others[1], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
        assert_ok(put(-1, 5));
        kill_node(others[0], SIM_DEATH_KILL);
        sim_server_start(&cluster.nodes[others[1] - 1]);
        cluster_nodes_until(&cluster, is_leaderless, "nobody leads");
        assert_true(stele_node_set_has(&partition()->elr, others[0]));
        older_told = refused_told = 0;
        struct stele_vfs *vfs = sim_disk_vfs(server->disk);
        assert_ok(stele_served_epoch_read(vfs, &cluster.process.mem, path, &served));
        assert_int_equal(served, epoch);
        assert_ok(stele_served_epoch_write(vfs, path, epoch - 1));
        sim_server_start(server);
        cluster_nodes_run(&cluster, 20 * SECOND_US);
        assert_int_equal(older_told > 0, dir == 1);
        assert_int_equal(refused_told > 0, dir == 0);
        assert_int_equal(server->state == SIM_SERVER_SERVING, dir == 1);
        assert_true(is_leaderless(&cluster));
        assert_int_equal(stele_node_set_has(&partition()->elr, others[0]), dir == 0);
        end();
    }
}

static bool begins_behind(struct cluster_nodes *nodes)
{
    (void)nodes;
    return stele_log_start_offset(replica(others[1])->log) == 10;
}

/* A follower hears where its leader begins also when nothing is appended any more. */
static void test_start_of_an_idle_partition(void **state)
{
    (void)state;
    const int replicas[] = {1, 2};
    begin(1, replicas, 2, "1");
    assert_ok(put(-1, 10));
    cluster_nodes_until(&cluster, is_whole, "the follower has all");
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    struct stele_partition *leader = (struct stele_partition *)(uintptr_t)replica(others[0]);
    struct stele_log_config config = *stele_log_config(leader->log);
    config.retention_bytes = 0;
    config.retention_ms = 1;
    stele_log_set_config(leader->log, &config);
    stele_partition_retain(leader);
    assert_int_equal(stele_log_start_offset(leader->log), 10);
    cluster_nodes_until(&cluster, begins_behind, "the follower begins there too");
    end();
}

/* A sync of the last one in sync failed while it stopped, so that nobody was told; its machine runs on. What the cache
 * showed may be gone from the disk: it does not lead by it. */
static void test_failed_sync_of_before(void **state)
{
    (void)state;
    for (int is_marked = 0; is_marked < 2; is_marked++) {
        const int replicas[] = {1, 2};
        char path[STELE_PATH_BYTES];
        begin(1, replicas, 2, "1");
        assert_ok(put(-1, 10));
        (void)snprintf(path, sizeof(path), "%s", replica(others[0])->path);
        kill_node(others[1], SIM_DEATH_KILL);
        cluster_nodes_until(&cluster, lacks_second_other, "the follower is out");
        assert_ok(put(-1, 5));
        kill_node(others[0], SIM_DEATH_KILL);
        if (is_marked)
            assert_ok(stele_resync_mark(sim_disk_vfs(cluster.nodes[others[0] - 1].disk), path));
        sim_server_start(&cluster.nodes[others[1] - 1]);
        cluster_nodes_until(&cluster, is_leaderless, "nobody leads");
        sim_server_start(&cluster.nodes[others[0] - 1]);
        cluster_nodes_until(&cluster, all_registered, "all are back");
        cluster_nodes_run(&cluster, 5 * SECOND_US);
        assert_int_equal(is_leaderless(&cluster), is_marked);
        assert_int_equal(stele_node_set_has(&partition()->elr, others[0]), 0);
        end();
    }
}

/* A directory that fails takes its replicas offline: the lead moves, and only a restart with a disk that works brings
 * the replica back. */
static void test_failed_directory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const int replicas[] = {1, 2, 0};
        begin(seed, replicas, 3, "2");
        assert_ok(put(-1, 5));
        struct sim_server *server = &cluster.nodes[others[0] - 1];
        char pattern[STELE_PATH_BYTES];
        (void)snprintf(pattern, sizeof(pattern), "%s*", replica(others[0])->path);
        sim_disk_break(server->disk, pattern, 0, STELE_IO, 0);
        (void)put(-1, 1); /* which finds it */
        for (int i = 0; i < 1000 && partition()->offline.count == 0; i++)
            cluster_nodes_run(&cluster, 10000);
        assert_true(are(&partition()->offline, others, 1));
        cluster_nodes_until(&cluster, is_led, "another leads");
        assert_int_not_equal(partition()->leader_id, others[0]);
        assert_int_equal(partition()->isr.count, 2);
        assert_ok(put(-1, 5));
        sim_disk_mend(server->disk, pattern);
        kill_node(others[0], SIM_DEATH_KILL);
        cluster_nodes_start(&cluster);
        cluster_nodes_until(&cluster, is_whole, "it is in sync again");
        assert_int_equal(partition()->offline.count, 0);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shrink_and_grow),
        cmocka_unit_test(test_reader_at_a_follower),
        cmocka_unit_test(test_reader_at_a_former_leader),
        cmocka_unit_test(test_left_behind),
        cmocka_unit_test(test_start_within_a_batch_is_kept),
        cmocka_unit_test(test_reassign),
        cmocka_unit_test(test_reassign_under_a_produce),
        cmocka_unit_test(test_preferred),
        cmocka_unit_test(test_forced),
        cmocka_unit_test(test_forced_by_old_answers),
        cmocka_unit_test(test_forced_past_a_silent_one),
        cmocka_unit_test(test_forced_past_one_that_starts),
        cmocka_unit_test(test_former_life),
        cmocka_unit_test(test_lower_min_insync),
        cmocka_unit_test(test_strange_fetches),
        cmocka_unit_test(test_shared_setting_of_a_node),
        cmocka_unit_test(test_shared_settings),
        cmocka_unit_test(test_switched_on),
        cmocka_unit_test(test_sent_elsewhere),
        cmocka_unit_test(test_older_copy),
        cmocka_unit_test(test_start_of_an_idle_partition),
        cmocka_unit_test(test_failed_sync_of_before),
        cmocka_unit_test(test_failed_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
