/* Who is of a cluster of three nodes, who votes in it, and what of that can be changed from any node. */
#include "base/test/support.h"
#include "cluster-tests/sim/cluster_nodes.h"

#include <string.h>

enum { SECOND_US = 1000000, SEEDS = 12 };

static struct cluster_nodes nodes;

static void begin(uint64_t seed)
{
    cluster_nodes_init(&nodes, seed);
    cluster_nodes_start(&nodes);
}

static int32_t other_than(int32_t node_id)
{
    return node_id % CLUSTER_NODES + 1;
}

static const struct stele_quorum *quorum_of(int32_t node_id)
{
    return &cluster_nodes_control(&nodes, node_id)->mlog.quorum;
}

/* Asks through a node; the answer says `err`. */
static const char *alter_voters(int32_t asked, enum stele_voter_change change, int32_t node_id, enum stele_err err)
{
    struct stele_request request = {.header = {.api = STELE_API_ALTER_VOTERS},
                                    .body.alter_voters = {.change = change, .node_id = node_id, .timeout_ms = 8000}};
    const struct stele_alter_voters_response *response = &cluster_nodes_ask(&nodes, asked, &request)->body.alter_voters;
    assert_int_equal(response->err, err);
    assert_true((err == STELE_OK) == (response->message[0] == 0));
    return response->message;
}

static void change_something(int32_t asked, const char *value)
{
    const struct stele_altered_setting setting = {.name = "message.max.bytes", .value = value};
    struct stele_request request = {
        .header = {.api = STELE_API_ALTER_SETTINGS},
        .body.alter_settings = {
            .kind = STELE_SUBJECT_CLUSTER, .subject = "", .settings = &setting, .setting_count = 1}};
    assert_int_equal(cluster_nodes_ask(&nodes, asked, &request)->body.alter_settings.err, STELE_OK);
}

/* A node whose disk was lost comes back as one that only listens. Readmitted through another node it votes with its new
 * disk: with the third node down the cluster goes on. */
static void test_readmit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes), wiped = other_than(leader), third = other_than(wiped);
        change_something(third, "100001");
        alter_voters(third, STELE_VOTER_READMIT, wiped, STELE_DUPLICATE_VOTER);
        sim_server_die(&nodes.nodes[wiped - 1], SIM_DEATH_POWER_ORDERED);
        cluster_nodes_run(&nodes, SECOND_US);
        sim_server_wipe(&nodes.nodes[wiped - 1]);
        cluster_nodes_start(&nodes);
        leader = cluster_nodes_leader(&nodes);
        assert_false(stele_quorum_is_voter(quorum_of(wiped)));
        alter_voters(seed % 2 ? wiped : third, STELE_VOTER_READMIT, wiped, STELE_OK);
        cluster_nodes_run(&nodes, SECOND_US);
        for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
            assert_true(stele_quorum_is_voter(quorum_of(id)));
            assert_int_equal(stele_quorum_voters(quorum_of(id))->count, CLUSTER_NODES);
        }
        const struct stele_quorum *quorum = quorum_of(leader);
        for (int32_t i = 0; i < quorum->observer_count; i++) /* the disk that is gone listens no more */
            assert_int_not_equal(quorum->observers[i].key.node_id, wiped);
        const struct stele_image *image = &cluster_nodes_control(&nodes, wiped)->mlog.image;
        assert_int_equal(image->voter_count, CLUSTER_NODES);
        for (size_t i = 0; i < image->voter_count; i++) {
            assert_int_equal(image->voters[i].port, 7835);
            assert_int_equal(image->voters[i].host[1], '0' + image->voters[i].key.node_id);
        }
        sim_server_die(&nodes.nodes[third - 1], SIM_DEATH_KILL);
        cluster_nodes_run(&nodes, 5 * SECOND_US);
        change_something(wiped, "100002");
        cluster_nodes_deinit(&nodes);
    }
}

static bool leads(int32_t node_id)
{
    const struct stele_node *node = nodes.nodes[node_id - 1].node;
    return node != NULL && node->control.mlog.is_running && node->control.mlog.quorum.role == STELE_QUORUM_LEADER;
}

/* S30: two of three come back with empty disks, before the third, and once behind it. They form no cluster and elect
 * nobody: what the third has stays as it is, whoever starts first. */
static void test_wiped_majority(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t kept = 1 + (int32_t)(seed % 3);
        change_something(kept, "100001");
        cluster_nodes_run(&nodes, SECOND_US);
        int64_t end_offset = quorum_of(kept)->synced_offset;
        for (int32_t id = 1; id <= CLUSTER_NODES; id++)
            sim_server_die(&nodes.nodes[id - 1], SIM_DEATH_POWER_ORDERED);
        cluster_nodes_run(&nodes, SECOND_US);
        for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
            if (id != kept)
                sim_server_wipe(&nodes.nodes[id - 1]);
        }
        for (int32_t round = 0; round < 2; round++) {
            for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
                if ((id == kept) == ((seed % 2 == 0) == (round == 0)))
                    sim_server_start(&nodes.nodes[id - 1]);
            }
            for (int i = 0; i < 200; i++) {
                cluster_nodes_run(&nodes, SECOND_US / 10);
                for (int32_t id = 1; id <= CLUSTER_NODES; id++)
                    assert_false(leads(id));
            }
        }
        const struct stele_quorum *quorum = &nodes.nodes[kept - 1].node->control.mlog.quorum;
        assert_int_equal(quorum->synced_offset, end_offset);
        assert_true(stele_quorum_is_voter(quorum));
        cluster_nodes_deinit(&nodes);
    }
}

/* A voter is removed and listens on, its vote is not needed; added again it counts. The last one cannot go. */
static void test_remove_add(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes), removed = other_than(leader), asked = 1 + (int32_t)(seed % 3);
        alter_voters(asked, STELE_VOTER_ADD, removed, STELE_DUPLICATE_VOTER);
        alter_voters(asked, STELE_VOTER_REMOVE, 9, STELE_VOTER_NOT_FOUND);
        alter_voters(asked, STELE_VOTER_REMOVE, removed, STELE_OK);
        assert_false(stele_voters_find_node(stele_quorum_voters(quorum_of(leader)), removed) >= 0);
        change_something(removed, "100003");
        alter_voters(asked, STELE_VOTER_ADD, removed, STELE_OK);
        cluster_nodes_run(&nodes, SECOND_US);
        assert_true(stele_quorum_is_voter(quorum_of(removed)));
        cluster_nodes_deinit(&nodes);
    }
}

/* The leader removes itself: it answers, and another leads. */
static void test_remove_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes), asked = seed % 2 ? leader : other_than(leader);
        alter_voters(asked, STELE_VOTER_REMOVE, leader, STELE_OK);
        cluster_nodes_run(&nodes, 5 * SECOND_US);
        assert_int_not_equal(cluster_nodes_leader(&nodes), 0);
        assert_int_not_equal(cluster_nodes_leader(&nodes), leader);
        assert_false(stele_quorum_is_voter(quorum_of(leader)));
        change_something(leader, "100004");
        cluster_nodes_deinit(&nodes);
    }
}

/* Too early for the machine is not too early for the asker: while no majority would be in touch it is tried again, then
 * refused, and nothing is changed. */
static void test_too_early(void **state)
{
    (void)state;
    begin(3);
    int32_t leader = cluster_nodes_leader(&nodes), down = other_than(leader);
    sim_server_die(&nodes.nodes[down - 1], SIM_DEATH_KILL);
    cluster_nodes_run(&nodes, 3 * SECOND_US);
    int64_t from_us = nodes.world.now_us;
    const char *message = alter_voters(leader, STELE_VOTER_REMOVE, other_than(down) == leader ? down : other_than(down),
                                       STELE_REQUEST_TIMED_OUT);
    assert_non_null(strstr(message, "nothing was changed"));
    assert_true(nodes.world.now_us - from_us > 7 * SECOND_US);
    assert_int_equal(stele_quorum_voters(quorum_of(leader))->count, CLUSTER_NODES);
    cluster_nodes_deinit(&nodes);
}

/* Every node tells the same of the cluster, from the controller; each also what it knows itself. */
static void test_describe(void **state)
{
    (void)state;
    begin(4);
    int32_t leader = cluster_nodes_leader(&nodes);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        for (int is_local = 0; is_local < 2; is_local++) {
            struct stele_request request = {.header = {.api = STELE_API_DESCRIBE_CLUSTER},
                                            .body.describe_cluster = {.is_local = is_local}};
            const struct stele_describe_cluster_response *response =
                &cluster_nodes_ask(&nodes, id, &request)->body.describe_cluster;
            assert_int_equal(response->err, STELE_OK);
            assert_string_equal(response->cluster_id, nodes.nodes[0].node->cluster_id);
            assert_int_equal(response->controller_id, leader);
            assert_int_equal(response->level, STELE_METADATA_LEVEL);
            assert_true(response->metadata_offset > 0);
        }
        struct stele_request request = {.header = {.api = STELE_API_DESCRIBE_QUORUM}};
        const struct stele_describe_quorum_response *quorum =
            &cluster_nodes_ask(&nodes, id, &request)->body.describe_quorum;
        assert_int_equal(quorum->err, STELE_OK);
        assert_int_equal(quorum->node_id, leader);
        assert_int_equal(quorum->voter_count, CLUSTER_NODES);
    }
    cluster_nodes_deinit(&nodes);
}

/* The level that holds may be asked for again; none below it, none that this version does not know. */
static void test_level(void **state)
{
    (void)state;
    static const struct {
        int32_t level;
        enum stele_err err;
    } rows[] = {{STELE_METADATA_LEVEL, STELE_OK},
                {STELE_METADATA_LEVEL - 1, STELE_FEATURE_UPDATE_FAILED},
                {STELE_METADATA_LEVEL + 1, STELE_FEATURE_UPDATE_FAILED}};
    begin(6);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
            struct stele_request request = {.header = {.api = STELE_API_UPDATE_LEVEL},
                                            .body.update_level = {.level = rows[i].level}};
            const struct stele_update_level_response *response =
                &cluster_nodes_ask(&nodes, id, &request)->body.update_level;
            assert_int_equal(response->err, rows[i].err);
            assert_int_equal(response->message[0] == 0, rows[i].err == STELE_OK);
        }
    }
    cluster_nodes_deinit(&nodes);
}

static int64_t told_levels;

static void note_refusal(struct sim_server *server, const struct stele_trace_event *event)
{
    (void)server;
    if (event->kind == STELE_TRACE_NODE_REFUSED && strstr(event->text, "runs levels 1 to 2") != NULL &&
        strstr(event->text, "this cluster is at level 3") != NULL)
        told_levels++;
}

static const char *ask_level(int32_t asked, int32_t level, enum stele_err err)
{
    struct stele_request request = {.header = {.api = STELE_API_UPDATE_LEVEL}, .body.update_level = {.level = level}};
    const struct stele_update_level_response *response = &cluster_nodes_ask(&nodes, asked, &request)->body.update_level;
    assert_int_equal(response->err, err);
    return response->message;
}

/* A leader of a newer version leaves the level as it is: raised by hand, when every voter and every registered node is
 * known to run it. A node that does not run the level that holds is refused, and the reason names both. */
static void test_level_of_others(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        begin(seed);
        int32_t first = cluster_nodes_leader(&nodes);
        for (int32_t id = 1; id <= CLUSTER_NODES; id++)
            cluster_nodes_control(&nodes, id)->mlog.image.level = STELE_METADATA_LEVEL - 1;
        sim_server_die(&nodes.nodes[first - 1], SIM_DEATH_KILL);
        while (cluster_nodes_leader(&nodes) == 0)
            cluster_nodes_run(&nodes, 10000);
        int32_t leader = cluster_nodes_leader(&nodes),
                third = other_than(leader) == first ? other_than(first) : other_than(leader);
        struct stele_image *image = &cluster_nodes_control(&nodes, leader)->mlog.image;
        assert_int_equal(image->level, STELE_METADATA_LEVEL - 1);
        assert_int_equal(cluster_nodes_control(&nodes, third)->mlog.image.level, STELE_METADATA_LEVEL - 1);
        struct stele_image_member *member = image->members;
        while (member->node_id != first)
            member = member->next;
        member->level_max = STELE_METADATA_LEVEL - 1;
        assert_non_null(
            strstr(ask_level(leader, STELE_METADATA_LEVEL, STELE_FEATURE_UPDATE_FAILED), "runs levels 1 to 1"));
        member->level_max = STELE_METADATA_LEVEL;
        member->node_id = 99;
        assert_non_null(
            strstr(ask_level(leader, STELE_METADATA_LEVEL, STELE_FEATURE_UPDATE_FAILED), "has not registered"));
        member->node_id = first;
        image->member_records++; /* whoever looked in between looks again */
        (void)ask_level(leader, STELE_METADATA_LEVEL, STELE_OK);
        assert_int_equal(image->level, STELE_METADATA_LEVEL);
        image->level = STELE_METADATA_LEVEL + 1;
        told_levels = 0;
        nodes.nodes[leader - 1].traced = note_refusal;
        sim_server_start(&nodes.nodes[first - 1]);
        cluster_nodes_run(&nodes, 5 * SECOND_US);
        assert_true(told_levels > 0);
        assert_int_not_equal(nodes.nodes[first - 1].state, SIM_SERVER_SERVING);
        cluster_nodes_deinit(&nodes);
    }
}

static struct stele_call second;
static bool is_second_done;

static void second_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    (void)call;
    (void)answer;
    assert_int_equal(err, STELE_OK);
    is_second_done = true;
}

/* A fetch of the metadata log that waits for more does not hold up what comes behind it on its connection. */
static void test_hurry(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes);
        cluster_nodes_run(&nodes, SECOND_US);
        const struct stele_quorum *quorum = quorum_of(leader);
        const struct stele_fetch_partition partition = {.topic_id = stele_metadata_topic_id(),
                                                        .fetch_offset = quorum->appended_offset,
                                                        .max_bytes = 1000,
                                                        .current_leader_epoch = quorum->election.epoch,
                                                        .last_fetched_epoch = quorum->last_epoch,
                                                        .log_start_offset = -1,
                                                        .synced_offset = quorum->appended_offset,
                                                        .known_high_watermark = quorum->high_watermark,
                                                        .damaged_offset = -1,
                                                        .doubted_offset = -1};
        struct stele_request request = {.header = {.api = STELE_API_FETCH},
                                        .body.fetch = {.replica_id = 9,
                                                       .max_wait_ms = 5000,
                                                       .min_bytes = 1,
                                                       .max_bytes = 1000,
                                                       .partitions = &partition,
                                                       .partition_count = 1,
                                                       .cluster_id = nodes.nodes[0].node->cluster_id,
                                                       .replica_epoch = -1,
                                                       .session_epoch = -1,
                                                       .rack = ""}};
        struct cluster_ask *ask = cluster_nodes_send(&nodes, leader, &request);
        cluster_nodes_run(&nodes, SECOND_US);
        assert_false(ask->is_done);
        struct stele_request behind = {.header = {.api = STELE_API_DESCRIBE_QUORUM},
                                       .body.describe_quorum = {.is_local = true}};
        second = (struct stele_call){.done = second_done};
        is_second_done = false;
        nodes.world.running = &nodes.env;
        assert_int_equal(stele_link_call(&ask->link, &second, &behind, NULL), STELE_OK);
        nodes.world.running = NULL;
        cluster_nodes_run(&nodes, SECOND_US / 10);
        assert_true(ask->is_done);
        assert_int_equal(ask->err, STELE_OK);
        assert_true(is_second_done);
        cluster_ask_end(ask);
        cluster_nodes_deinit(&nodes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readmit),         cmocka_unit_test(test_remove_add),
        cmocka_unit_test(test_remove_leader),   cmocka_unit_test(test_too_early),
        cmocka_unit_test(test_describe),        cmocka_unit_test(test_level),
        cmocka_unit_test(test_level_of_others), cmocka_unit_test(test_hurry),
        cmocka_unit_test(test_wiped_majority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
