/* The admin calls on log directories: which node they go to, what they ask, and what becomes of the answers. */
#include "client/test/peer.h"

#include <stdio.h>
#include <string.h>

static int set_up(void **state)
{
    static struct peer peer;
    peer_init(&peer);
    *state = &peer;
    return 0;
}

static int tear_down(void **state)
{
    peer_deinit(*state);
    return 0;
}

static const struct stele_setting quick[] = {{"request.timeout.ms", "2000"}, {NULL, NULL}};

struct asked {
    int count;
    char text[256]; /* of the last request */
    enum stele_err err;
};

static const struct stele_alter_log_dirs_result moved[] = {
    {.err = STELE_LOG_DIR_NOT_FOUND, .message = "no", .topic = "t", .partition = 2},
    {.err = STELE_OK, .message = "", .topic = "t", .partition = 1}};
static const struct stele_described_replica on_a[] = {
    {.topic = "u", .partition = 0, .bytes = 7, .log_end_offset = -1, .is_offline = true},
    {.topic = "t", .partition = 1, .bytes = 10, .log_end_offset = 5}};
static const struct stele_described_replica on_b[] = {
    {.topic = "t", .partition = 1, .bytes = 4, .log_end_offset = 2, .offset_lag = 3, .is_future = true},
    {.topic = "t", .partition = 0, .bytes = 1, .log_end_offset = 1}};
static const struct stele_described_log_dir dirs[] = {{.path = "/a", .replicas = on_a, .replica_count = 2},
                                                      {.path = "/b", .replicas = on_b, .replica_count = 2}};

static void admin(struct peer *peer, const struct stele_request *request, struct stele_response *response)
{
    struct asked *asked = peer->admin_arg;
    int used = 0;
    asked->count++;
    if (request->header.api == STELE_API_ALTER_LOG_DIRS) {
        const struct stele_alter_log_dirs_request *alter = &request->body.alter_log_dirs;
        used = snprintf(asked->text, sizeof(asked->text), "%d", alter->node_id);
        for (size_t i = 0; i < alter->replica_count; i++)
            used += snprintf(asked->text + used, sizeof(asked->text) - (size_t)used, " %s/%d=%s",
                             alter->replicas[i].topic, alter->replicas[i].partition, alter->replicas[i].directory);
        response->body.alter_log_dirs = (struct stele_alter_log_dirs_response){.results = moved, .result_count = 2};
        return;
    }
    assert_int_equal(request->header.api, STELE_API_DESCRIBE_LOG_DIRS);
    const struct stele_describe_log_dirs_request *describe = &request->body.describe_log_dirs;
    used = snprintf(asked->text, sizeof(asked->text), "%d", describe->node_id);
    for (size_t i = 0; i < describe->topic_count; i++)
        used += snprintf(asked->text + used, sizeof(asked->text) - (size_t)used, " %s", describe->topics[i]);
    response->body.describe_log_dirs =
        (struct stele_describe_log_dirs_response){.err = asked->err,
                                                  .message = asked->err == STELE_OK ? "" : "this is another node",
                                                  .node_id = 3,
                                                  .directories = dirs,
                                                  .directory_count = 2};
}

static void script(struct peer *peer, struct asked *asked)
{
    *asked = (struct asked){.count = 0};
    peer->admin = admin;
    peer->admin_arg = asked;
}

static struct stele_result call_move(struct stele_client *client, int32_t node_id)
{
    static const struct stele_replica_move moves[] = {{"t", 2, "/x"}, {"t", 1, "/b"}};
    struct stele_partition_results *made = NULL;
    struct stele_result result = stele_replicas_move(client, node_id, moves, 2, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->outcome_count, 2);
    assert_int_equal(made->outcomes[0]->partition, 1);
    assert_int_equal(made->outcomes[0]->code, 0);
    assert_string_equal(made->outcomes[0]->text, "");
    assert_int_equal(made->outcomes[1]->code, 57);
    assert_string_equal(made->outcomes[1]->text, "no");
    stele_partition_results_free(made);
    return result;
}

static struct stele_result call_describe(struct stele_client *client, int32_t node_id)
{
    static const char *const topics[] = {"t", "u", NULL};
    static const struct stele_placed_replica want[] = {
        {.topic = "t", .partition = 0, .directory = "/b", .bytes = 1, .log_end_offset = 1},
        {.topic = "t", .partition = 1, .directory = "/a", .bytes = 10, .log_end_offset = 5},
        {.topic = "t", .partition = 1, .directory = "/b", .bytes = 4, .log_end_offset = 2, .lag = 3, .is_future = true},
        {.topic = "u", .partition = 0, .directory = "/a", .bytes = 7, .log_end_offset = -1, .is_offline = true}};
    struct stele_placed_replicas *made = NULL;
    struct stele_result result = stele_replicas_describe(client, node_id, topics, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->node_id, 3);
    assert_int_equal(made->replica_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct stele_placed_replica *replica = made->replicas[i];
        assert_string_equal(replica->topic, want[i].topic);
        assert_string_equal(replica->directory, want[i].directory);
        assert_true(replica->partition == want[i].partition && replica->bytes == want[i].bytes &&
                    replica->log_end_offset == want[i].log_end_offset && replica->lag == want[i].lag &&
                    replica->is_future == want[i].is_future && replica->is_offline == want[i].is_offline);
    }
    stele_placed_replicas_free(made);
    return result;
}

/* Whoever answers is asked, or the node that was named, wherever the client was connected. */
static void test_calls(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_placed_replicas *placed = NULL;
    script(peer, &asked);
    peer_cluster(peer, 3);
    struct stele_client *client = peer_client(peer, quick);
    assert_int_equal(call_move(client, -1).code, 0);
    assert_string_equal(asked.text, "-1 t/2=/x t/1=/b");
    for (int32_t node_id = 3; node_id >= 1; node_id--) {
        assert_int_equal(call_move(client, node_id).code, 0);
        assert_int_equal(peer->last_admin_node, node_id);
        assert_int_equal(call_describe(client, node_id).code, 0);
        assert_int_equal(peer->last_admin_node, node_id);
    }
    assert_string_equal(asked.text, "1 t u");
    assert_int_equal(stele_replicas_describe(client, -1, NULL, &placed).code, 0);
    assert_string_equal(asked.text, "-1");
    stele_placed_replicas_free(placed);
    stele_client_free(client);
}

/* A node that nobody knows is not asked, one that is gone is told as such, and one that is another says so. */
static void test_errors(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    script(peer, &asked);
    peer_cluster(peer, 3);
    struct stele_client *client = peer_client(peer, quick);
    struct stele_result result = call_move(client, 9);
    assert_int_equal(result.code, STELE_BROKER_ID_NOT_REGISTERED);
    assert_non_null(strstr(result.text, "there is no node 9"));
    assert_int_equal(asked.count, 0);
    asked.err = STELE_REPLICA_NOT_AVAILABLE;
    result = call_describe(client, 2);
    assert_int_equal(result.code, STELE_REPLICA_NOT_AVAILABLE);
    assert_string_equal(result.text, "this is another node");
    peer_down(peer, 2);
    assert_true(call_move(client, 2).is_retriable);
    stele_client_free(client);
}

/* Every allocation of every call may fail once: it succeeds all the same or says NO_MEMORY, and holds nothing. */
static void test_memory(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    script(peer, &asked);
    peer_cluster(peer, 3);
    for (int what = 0; what < 2; what++) {
        bool has_failed = true;
        for (int64_t at = 1; has_failed; at++) {
            struct stele_client *client = peer_client(peer, quick);
            stele_test_mem_fail(&peer->env.mem, at, false);
            struct stele_result result = what == 0 ? call_move(client, 2) : call_describe(client, 2);
            has_failed = peer->env.mem.has_failed;
            stele_test_mem_fail(&peer->env.mem, 0, false);
            assert_true(result.code == STELE_OK || result.code == STELE_NO_MEMORY);
            stele_client_free(client);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
