/* Requests for the controller that come to any of three nodes. */
#include "base/test/support.h"
#include "cluster-tests/sim/cluster_nodes.h"

#include <stdio.h>
#include <string.h>

enum { SECOND_US = 1000000, MS_US = 1000, SEEDS = 24 };

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

static struct stele_altered_setting bytes_setting = {.name = "message.max.bytes"};

static struct stele_request alter(const char *value)
{
    bytes_setting.value = value;
    return (struct stele_request){
        .header = {.api = STELE_API_ALTER_SETTINGS},
        .body.alter_settings = {
            .kind = STELE_SUBJECT_CLUSTER, .subject = "", .settings = &bytes_setting, .setting_count = 1}};
}

static int64_t bytes_of(int32_t node_id)
{
    return stele_settings_int(nodes.nodes[node_id - 1].node->settings, "message.max.bytes");
}

static int64_t seen_then;
static int32_t asked_node;

static void look_when_done(struct cluster_ask *ask)
{
    (void)ask;
    seen_then = bytes_of(asked_node);
}

/* What was changed through a node holds there when the answer comes, whoever leads: also when that node is slow to
 * apply what is committed. */
static void test_own_writes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes);
        for (asked_node = 1; asked_node <= CLUSTER_NODES; asked_node++) {
            static const char *const values[] = {"200001", "200002", "200003"};
            struct stele_request request = alter(values[asked_node - 1]);
            struct cluster_ask *ask = cluster_nodes_send(&nodes, asked_node, &request);
            ask->done = look_when_done;
            if (asked_node != leader) {
                struct stele_metadata_log *mlog = &cluster_nodes_control(&nodes, asked_node)->mlog;
                stele_metadata_log_hold(mlog, true);
                cluster_nodes_run(&nodes, SECOND_US);
                assert_int_equal(bytes_of(leader), 200000 + asked_node);
                assert_false(ask->is_done);
                nodes.world.running = &nodes.nodes[asked_node - 1].envs[0];
                stele_metadata_log_hold(mlog, false);
                nodes.world.running = NULL;
            }
            cluster_nodes_run(&nodes, SECOND_US);
            assert_true(ask->is_done);
            assert_int_equal(ask->err, STELE_OK);
            assert_int_equal(ask->response.body.alter_settings.err, STELE_OK);
            assert_int_equal(seen_then, 200000 + asked_node);
            cluster_ask_end(ask);
        }
        cluster_nodes_deinit(&nodes);
    }
}

/* "" names the node that was asked, not the one that does it. */
static void test_node_setting(void **state)
{
    (void)state;
    begin(1);
    int32_t leader = cluster_nodes_leader(&nodes), asked = other_than(leader);
    int64_t before = bytes_of(leader);
    struct stele_request request = alter("300000");
    request.body.alter_settings.kind = STELE_SUBJECT_NODE;
    const struct stele_response *response = cluster_nodes_ask(&nodes, asked, &request);
    assert_string_equal(response->body.alter_settings.message, "");
    assert_int_equal(bytes_of(asked), 300000);
    assert_int_equal(bytes_of(leader), before);
    request.body.alter_settings.subject = "77";
    response = cluster_nodes_ask(&nodes, asked, &request);
    assert_int_equal(response->body.alter_settings.err, STELE_INVALID_REQUEST);
    cluster_nodes_deinit(&nodes);
}

/* Without a majority nothing is done, and the answer says that; when the others are back it works again. A node that
 * stops with such a request says so. */
static void test_no_leader(void **state)
{
    (void)state;
    begin(2);
    int32_t leader = cluster_nodes_leader(&nodes), asked = other_than(leader);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        if (id != asked)
            sim_server_die(&nodes.nodes[id - 1], SIM_DEATH_KILL);
    }
    cluster_nodes_run(&nodes, 3 * SECOND_US);
    struct stele_request request = alter("400000");
    int64_t from_us = nodes.world.now_us;
    const struct stele_response *response = cluster_nodes_ask(&nodes, asked, &request);
    assert_int_equal(response->body.alter_settings.err, STELE_NOT_CONTROLLER);
    assert_non_null(strstr(response->body.alter_settings.message, "nothing was done"));
    assert_in_range(nodes.world.now_us - from_us, 9 * SECOND_US, 12 * SECOND_US);
    cluster_nodes_start(&nodes);
    response = cluster_nodes_ask(&nodes, asked, &request);
    assert_int_equal(response->body.alter_settings.err, STELE_OK);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        if (id != asked)
            sim_server_die(&nodes.nodes[id - 1], SIM_DEATH_KILL);
    }
    cluster_nodes_run(&nodes, 3 * SECOND_US);
    struct cluster_ask *ask = cluster_nodes_send(&nodes, asked, &request);
    cluster_nodes_run(&nodes, SECOND_US / 10);
    sim_server_stop(&nodes.nodes[asked - 1]);
    cluster_nodes_run(&nodes, 3 * SECOND_US); /* it looks a while for a controller that lets it go */
    assert_true(ask->is_done);
    assert_int_equal(ask->err, STELE_OK);
    assert_int_equal(ask->response.body.alter_settings.err, STELE_NOT_CONTROLLER);
    assert_non_null(strstr(ask->response.body.alter_settings.message, "stops"));
    cluster_ask_end(ask);
    cluster_nodes_deinit(&nodes);
}

struct outcomes {
    int done, unknown, none;
};

/* The leader dies at any point of a change that came through another node: what is answered is true. */
static void test_leader_dies(void **state)
{
    (void)state;
    struct outcomes outcomes = {0};
    for (uint64_t seed = 1; seed <= 4 * SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes), asked = other_than(leader);
        struct stele_request request = alter("500000");
        struct cluster_ask *ask = cluster_nodes_send(&nodes, asked, &request);
        cluster_nodes_run(&nodes, (int64_t)(seed * seed) * 2);
        sim_server_die(&nodes.nodes[leader - 1], seed % 2 ? SIM_DEATH_KILL : SIM_DEATH_POWER_ORDERED);
        cluster_nodes_run(&nodes, 20 * SECOND_US);
        assert_true(ask->is_done);
        assert_int_equal(ask->err, STELE_OK);
        enum stele_err err = ask->response.body.alter_settings.err;
        cluster_nodes_start(&nodes);
        cluster_nodes_run(&nodes, SECOND_US);
        for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
            if (err == STELE_OK)
                assert_int_equal(bytes_of(id), 500000);
            else if (err == STELE_NOT_CONTROLLER)
                assert_int_not_equal(bytes_of(id), 500000);
            else
                assert_int_equal(err, STELE_REQUEST_TIMED_OUT);
        }
        if (err == STELE_REQUEST_TIMED_OUT)
            assert_non_null(strstr(ask->response.body.alter_settings.message, "is not known"));
        outcomes.done += err == STELE_OK;
        outcomes.unknown += err == STELE_REQUEST_TIMED_OUT;
        cluster_ask_end(ask);
        cluster_nodes_deinit(&nodes);
    }
    assert_true(outcomes.done > 0);
    assert_true(outcomes.unknown > 0);
}

/* A node may lead before it serves: it says that it did nothing, so that the other tries until it does. */
static void test_leader_starts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t asked = other_than(cluster_nodes_leader(&nodes));
        for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
            if (id != asked)
                sim_server_die(&nodes.nodes[id - 1], SIM_DEATH_KILL);
        }
        cluster_nodes_run(&nodes, (int64_t)seed * 100 * MS_US);
        for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
            if (id != asked)
                sim_server_start(&nodes.nodes[id - 1]);
        }
        struct cluster_ask *asks[16];
        for (size_t i = 0; i < STELE_ARRAY_LEN(asks); i++) {
            struct stele_request request = alter("700000");
            asks[i] = cluster_nodes_send(&nodes, asked, &request);
            cluster_nodes_run(&nodes, 100 * MS_US);
        }
        cluster_nodes_run(&nodes, 10 * SECOND_US);
        for (size_t i = 0; i < STELE_ARRAY_LEN(asks); i++) {
            assert_true(asks[i]->is_done);
            assert_int_equal(asks[i]->err, STELE_OK);
            assert_int_equal(asks[i]->response.body.alter_settings.err, STELE_OK);
            cluster_ask_end(asks[i]);
        }
        cluster_nodes_deinit(&nodes);
    }
}

/* The node that was asked dies in the middle; half of the deaths free everything, and nothing is left. */
static void test_asked_dies(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t asked = other_than(cluster_nodes_leader(&nodes));
        struct stele_request request = alter("600000");
        struct cluster_ask *asks[8];
        for (size_t i = 0; i < STELE_ARRAY_LEN(asks); i++)
            asks[i] = cluster_nodes_send(&nodes, asked, &request);
        cluster_nodes_run(&nodes, (int64_t)(seed * seed) * 8);
        sim_server_die(&nodes.nodes[asked - 1], SIM_DEATH_KILL);
        cluster_nodes_run(&nodes, SECOND_US);
        for (size_t i = 0; i < STELE_ARRAY_LEN(asks); i++)
            cluster_ask_end(asks[i]);
        cluster_nodes_start(&nodes);
        cluster_nodes_deinit(&nodes);
    }
}

/* Memory fails at both ends, at any place: everything is answered or cut off, what is said to be done is done, and
 * afterwards all is as before. */
static void test_no_memory(void **state)
{
    (void)state;
    int done = 0, failed = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        int32_t leader = cluster_nodes_leader(&nodes), asked = other_than(leader);
        for (int round = 0; round < 20; round++) {
            char value[16];
            (void)snprintf(value, sizeof(value), "%d", 800000 + round);
            struct stele_request request = alter(value);
            nodes.nodes[(round % 2 ? leader : asked) - 1].process.no_memory = 20000;
            struct cluster_ask *ask = cluster_nodes_send(&nodes, asked, &request);
            cluster_nodes_run(&nodes, SECOND_US / 4);
            nodes.nodes[leader - 1].process.no_memory = nodes.nodes[asked - 1].process.no_memory = 0;
            cluster_nodes_run(&nodes, 20 * SECOND_US);
            assert_true(ask->is_done);
            bool is_ok = ask->err == STELE_OK && ask->response.body.alter_settings.err == STELE_OK;
            if (is_ok)
                assert_int_equal(bytes_of(asked), 800000 + round);
            done += is_ok;
            failed += !is_ok;
            cluster_ask_end(ask);
            cluster_nodes_start(&nodes);
        }
        cluster_nodes_deinit(&nodes);
    }
    assert_true(done > 0);
    assert_true(failed > 0);
}

/* No producer id is given twice, whichever node is asked and whoever leads. */
static void test_producer_ids(void **state)
{
    (void)state;
    static int64_t given[600];
    int count = 0;
    begin(5);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 30; i++) {
            struct stele_request request = {.header = {.api = STELE_API_INIT_PRODUCER_ID},
                                            .body.init_producer_id = {.producer_id = -1, .producer_epoch = -1}};
            struct cluster_ask *ask = cluster_nodes_send(&nodes, 1 + i % CLUSTER_NODES, &request);
            cluster_nodes_run(&nodes, 20 * MS_US);
            assert_true(ask->is_done);
            assert_int_equal(ask->response.body.init_producer_id.err, STELE_OK);
            given[count++] = ask->response.body.init_producer_id.producer_id;
            cluster_ask_end(ask);
        }
        int32_t leader = cluster_nodes_leader(&nodes);
        if (round % 2)
            sim_server_stop(&nodes.nodes[leader - 1]);
        else
            sim_server_die(&nodes.nodes[leader - 1], SIM_DEATH_KILL);
        cluster_nodes_run(&nodes, 5 * SECOND_US);
        cluster_nodes_start(&nodes);
    }
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < i; k++)
            assert_int_not_equal(given[i], given[k]);
    }
    cluster_nodes_deinit(&nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_writes),  cmocka_unit_test(test_node_setting),  cmocka_unit_test(test_no_leader),
        cmocka_unit_test(test_leader_dies), cmocka_unit_test(test_leader_starts), cmocka_unit_test(test_asked_dies),
        cmocka_unit_test(test_no_memory),   cmocka_unit_test(test_producer_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
