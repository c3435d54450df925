/* The admin calls on a cluster: what they ask and whom, what becomes of the answers, and that one call frees them. */
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

/* The nodes' side: one leads, and the others do not answer for it. */

struct asked {
    int count;
    char text[256]; /* of the last request */
    int32_t leader_id;
    bool leader_is_hidden; /* nobody says who leads */
    enum stele_err err;
    int failures;    /* after which it is OK */
    bool mutes_next; /* it answers no more after this one */
    int lost;        /* the one of which the answer is noise; 0: none */
    int refusals;    /* of connections, after that one */
};

static const struct stele_described_voter voters[] = {
    {.node_id = 3, .host = "n3", .port = 3, .log_end_offset = 40, .last_fetch_ms = 7, .last_caught_up_ms = 9},
    {.node_id = 1, .host = "n1", .port = 1, .log_end_offset = 50},
    {.node_id = 2, .host = "", .log_end_offset = -1, .last_fetch_ms = -1, .last_caught_up_ms = -1}};
static const struct stele_described_voter observers[] = {
    {.node_id = 4, .directory_id = {{1}}, .host = "n4", .port = 4, .log_end_offset = 60, .last_fetch_ms = 1}};

static void describe_quorum(const struct peer *peer, struct asked *asked, const struct stele_request *request,
                            struct stele_response *response)
{
    bool is_local = request->body.describe_quorum.is_local;
    bool is_leader = peer->last_admin_node < 0 || peer->last_admin_node == asked->leader_id;
    (void)snprintf(asked->text, sizeof(asked->text), is_local ? "local" : "");
    response->body.describe_quorum = (struct stele_describe_quorum_response){
        .err = asked->err != STELE_OK || is_leader || is_local ? asked->err : STELE_NOT_CONTROLLER,
        .message = "",
        .node_id = peer->last_admin_node,
        .role = is_leader ? "leader" : "follower",
        .leader_id = asked->leader_is_hidden ? -1 : asked->leader_id,
        .leader_epoch = 5,
        .high_watermark = 49,
        .voters = voters,
        .voter_count = 3,
        .observers = observers,
        .observer_count = is_leader};
}

static void alter_voters(struct asked *asked, const struct stele_request *request, struct stele_response *response)
{
    const struct stele_alter_voters_request *alter = &request->body.alter_voters;
    char directory[STELE_UUID_TEXT_BYTES];
    stele_uuid_text(&alter->directory_id, directory);
    (void)snprintf(asked->text, sizeof(asked->text), "%d %d %s", (int)alter->change, alter->node_id,
                   stele_uuid_is_zero(&alter->directory_id) ? "" : directory);
    response->body.alter_voters = (struct stele_alter_voters_response){
        .err = asked->err, .message = asked->err == STELE_OK ? "" : "node 4 is not there"};
}

static const struct stele_listener_address listeners[] = {{.name = "PLAIN", .host = "h", .port = 7},
                                                          {.name = "PEERS", .host = "i", .port = 8}};
static const struct stele_node_directory_id directories[] = {{{{1}}, 0}, {{{2}}, 0}};
static const struct stele_described_node nodes[] = {
    {.node_id = 2, .node_epoch = 9, .rack = "", .is_fenced = true, .last_contact_ms = -1, .software_version = ""},
    {.node_id = 1,
     .node_epoch = 8,
     .rack = "r",
     .listeners = listeners,
     .listener_count = 2,
     .directories = directories,
     .directory_count = 2,
     .is_shutting_down = true,
     .last_contact_ms = 5,
     .software_version = "0.3.0"}};

static void describe_cluster(struct asked *asked, const struct stele_request *request, struct stele_response *response)
{
    (void)snprintf(asked->text, sizeof(asked->text), request->body.describe_cluster.is_local ? "local" : "");
    response->body.describe_cluster =
        (struct stele_describe_cluster_response){.err = asked->err,
                                                 .message = asked->err == STELE_OK ? "" : "not now",
                                                 .cluster_id = "c",
                                                 .controller_id = 1,
                                                 .level = 3,
                                                 .metadata_offset = 99,
                                                 .nodes = nodes,
                                                 .node_count = 2};
}

static const struct stele_elect_leaders_result elected[] = {
    {.topic = "u",
     .message = "gone",
     .partition = 0,
     .leader_id = 2,
     .leader_epoch = 4,
     .lost_first_offset = 10,
     .lost_end_offset = 15},
    {.topic = "t",
     .partition = 7,
     .err = STELE_ELECTION_NOT_NEEDED,
     .message = "",
     .leader_id = 1,
     .leader_epoch = 2,
     .lost_first_offset = -1,
     .lost_end_offset = -1},
    {.topic = "t", .partition = 3, .err = STELE_INVALID_REQUEST, .message = "no", .leader_id = -1, .leader_epoch = -1}};

static void elect(struct asked *asked, const struct stele_request *request, struct stele_response *response)
{
    const struct stele_elect_leaders_request *wanted = &request->body.elect_leaders;
    int used = snprintf(asked->text, sizeof(asked->text), "%d", (int)wanted->mode);
    for (size_t i = 0; i < wanted->partition_count; i++)
        used += snprintf(asked->text + used, sizeof(asked->text) - (size_t)used, " %s/%d", wanted->partitions[i].topic,
                         wanted->partitions[i].partition);
    response->body.elect_leaders = (struct stele_elect_leaders_response){
        .err = asked->err, .message = asked->err == STELE_OK ? "" : "not now", .results = elected, .result_count = 3};
}

static const struct stele_reassign_result reassigned[] = {
    {.topic = "t", .partition = 1, .err = STELE_NO_REASSIGNMENT_IN_PROGRESS, .message = ""},
    {.topic = "t", .partition = 0, .message = ""}};

static void reassign(struct asked *asked, const struct stele_request *request, struct stele_response *response)
{
    const struct stele_reassign_request *wanted = &request->body.reassign;
    int used = 0;
    for (size_t i = 0; i < wanted->partition_count; i++) {
        const struct stele_reassigned_partition *one = &wanted->partitions[i];
        used += snprintf(asked->text + used, sizeof(asked->text) - (size_t)used, "%s/%d%s", one->topic, one->partition,
                         one->is_cancelled ? " back " : "");
        for (size_t at = 0; at < one->replica_count; at++)
            used += snprintf(asked->text + used, sizeof(asked->text) - (size_t)used, " %d", one->replicas[at]);
    }
    response->body.reassign = (struct stele_reassign_response){.err = asked->err,
                                                               .message = asked->err == STELE_OK ? "" : "not now",
                                                               .results = reassigned,
                                                               .result_count = 2};
}

static void admin(struct peer *peer, const struct stele_request *request, struct stele_response *response)
{
    struct asked *asked = peer->admin_arg;
    asked->count++;
    peer->is_mute = peer->is_mute || asked->mutes_next;
    if (asked->count == asked->lost) {
        peer->garbage = 1;
        peer->refusals = asked->refusals;
    }
    if (asked->failures > 0 && --asked->failures == 0)
        asked->err = STELE_OK;
    switch ((int)request->header.api) {
    case STELE_API_DESCRIBE_QUORUM:
        describe_quorum(peer, asked, request, response);
        break;
    case STELE_API_ALTER_VOTERS:
        alter_voters(asked, request, response);
        break;
    case STELE_API_DESCRIBE_CLUSTER:
        describe_cluster(asked, request, response);
        break;
    case STELE_API_UNREGISTER_NODE:
        (void)snprintf(asked->text, sizeof(asked->text), "%d", request->body.unregister_node.node_id);
        response->body.unregister_node = (struct stele_unregister_node_response){.err = asked->err, .message = ""};
        break;
    case STELE_API_UPDATE_LEVEL:
        (void)snprintf(asked->text, sizeof(asked->text), "%d", request->body.update_level.level);
        response->body.update_level = (struct stele_update_level_response){.err = asked->err, .message = ""};
        break;
    case STELE_API_ELECT_LEADERS:
        elect(asked, request, response);
        break;
    case STELE_API_REASSIGN:
        reassign(asked, request, response);
        break;
    default:
        fail_msg("api %d", (int)request->header.api);
    }
}

static void script(struct peer *peer, struct asked *asked)
{
    *asked = (struct asked){.leader_id = 1};
    peer->admin = admin;
    peer->admin_arg = asked;
}

/* The calls, each with what comes of it looked at. */

static struct stele_result call_quorum(struct stele_client *client)
{
    struct stele_quorum_description *made = NULL;
    struct stele_result result = stele_quorum_describe(client, false, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_string_equal(made->role, "leader");
    assert_int_equal(made->leader_epoch, 5);
    assert_int_equal(made->high_watermark, 49);
    assert_int_equal(made->member_count, 4);
    static const struct stele_quorum_member want[] = {
        {.node_id = 1, .is_leader = true, .is_voter = true, .log_end_offset = 50, .lag = 0},
        {.node_id = 2, .is_voter = true, .log_end_offset = -1, .lag = -1, .fetched_ms = -1, .caught_up_ms = -1},
        {.node_id = 3, .is_voter = true, .log_end_offset = 40, .lag = 10, .fetched_ms = 7, .caught_up_ms = 9},
        {.node_id = 4, .log_end_offset = 60, .lag = 0, .fetched_ms = 1}};
    for (size_t i = 0; i < 4; i++) {
        const struct stele_quorum_member *member = made->members[i];
        assert_int_equal(member->node_id, want[i].node_id);
        assert_int_equal(member->is_leader, want[i].is_leader);
        assert_int_equal(member->is_voter, want[i].is_voter);
        assert_int_equal(member->log_end_offset, want[i].log_end_offset);
        assert_int_equal(member->lag, want[i].lag);
        assert_int_equal(member->fetched_ms, want[i].fetched_ms);
        assert_int_equal(member->caught_up_ms, want[i].caught_up_ms);
    }
    assert_string_equal(made->members[1]->host, "");
    assert_string_equal(made->members[3]->host, "n4");
    assert_int_equal(made->members[3]->port, 4);
    assert_string_equal(made->members[3]->directory_id, "AQAAAAAAAAAAAAAAAAAAAA");
    stele_quorum_description_free(made);
    return result;
}

static struct stele_result call_add(struct stele_client *client)
{
    return stele_quorum_add(client, 4, "AQAAAAAAAAAAAAAAAAAAAA");
}

static struct stele_result call_remove(struct stele_client *client)
{
    return stele_quorum_remove(client, 4, NULL);
}

static struct stele_result call_readmit(struct stele_client *client)
{
    return stele_quorum_readmit(client, 4, NULL);
}

static struct stele_result call_cluster(struct stele_client *client)
{
    struct stele_cluster_description *made = NULL;
    struct stele_result result = stele_cluster_describe(client, false, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_string_equal(made->cluster_id, "c");
    assert_int_equal(made->controller_id, 1);
    assert_int_equal(made->level, 3);
    assert_int_equal(made->metadata_offset, 99);
    assert_int_equal(made->member_count, 2);
    const struct stele_member_description *member = made->members[0];
    assert_int_equal(member->node_id, 1);
    assert_int_equal(member->node_epoch, 8);
    assert_string_equal(member->rack, "r");
    assert_string_equal(member->software_version, "0.3.0");
    assert_true(member->is_shutting_down);
    assert_false(member->is_fenced);
    assert_int_equal(member->contact_ms, 5);
    assert_int_equal(member->listener_count, 2);
    assert_string_equal(member->listeners[1]->name, "PEERS");
    assert_string_equal(member->listeners[1]->host, "i");
    assert_int_equal(member->listeners[1]->port, 8);
    assert_int_equal(member->directory_count, 2);
    assert_string_equal(member->directory_ids[0], "AQAAAAAAAAAAAAAAAAAAAA");
    assert_true(made->members[1]->is_fenced);
    assert_int_equal(made->members[1]->contact_ms, -1);
    assert_int_equal(made->members[1]->listener_count, 0);
    stele_cluster_description_free(made);
    return result;
}

static struct stele_result call_unregister(struct stele_client *client)
{
    return stele_cluster_unregister(client, 4);
}

static struct stele_result call_level(struct stele_client *client)
{
    return stele_cluster_set_level(client, 5);
}

static struct stele_result call_elect(struct stele_client *client)
{
    static const struct stele_partition_choice choices[] = {{"t", 7}, {"u", 0}};
    struct stele_partition_results *made = NULL;
    struct stele_result result = stele_partitions_elect(client, true, choices, 2, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->outcome_count, 3);
    assert_int_equal(made->outcomes[0]->partition, 3);
    assert_int_equal(made->outcomes[0]->code, STELE_INVALID_REQUEST);
    assert_string_equal(made->outcomes[0]->text, "no");
    assert_int_equal(made->outcomes[1]->partition, 7);
    assert_int_equal(made->outcomes[1]->code, STELE_ELECTION_NOT_NEEDED);
    assert_true(made->outcomes[1]->text[0] != 0);
    assert_int_equal(made->outcomes[1]->lost_first_offset, -1);
    assert_string_equal(made->outcomes[2]->topic, "u");
    assert_string_equal(made->outcomes[2]->text, "gone");
    assert_int_equal(made->outcomes[2]->leader_id, 2);
    assert_int_equal(made->outcomes[2]->leader_epoch, 4);
    assert_int_equal(made->outcomes[2]->lost_first_offset, 10);
    assert_int_equal(made->outcomes[2]->lost_end_offset, 15);
    stele_partition_results_free(made);
    return result;
}

static struct stele_result call_reassign(struct stele_client *client)
{
    static const int32_t there[] = {3, 1};
    static const struct stele_partition_wish wishes[] = {
        {.topic = "t", .partition = 0, .replicas = there, .replica_count = 2}, {.topic = "t", .partition = 1}};
    struct stele_partition_results *made = NULL;
    struct stele_result result = stele_partitions_reassign(client, wishes, 2, &made);
    assert_true((result.code == 0) == (made != NULL));
    if (made == NULL)
        return result;
    assert_int_equal(made->outcome_count, 2);
    assert_int_equal(made->outcomes[0]->code, 0);
    assert_int_equal(made->outcomes[0]->leader_id, -1);
    assert_int_equal(made->outcomes[1]->partition, 1);
    assert_int_equal(made->outcomes[1]->code, STELE_NO_REASSIGNMENT_IN_PROGRESS);
    assert_true(made->outcomes[1]->text[0] != 0);
    stele_partition_results_free(made);
    return result;
}

struct admin_case {
    struct stele_result (*call)(struct stele_client *client);
    const char *asked;
};

static const struct admin_case cases[] = {
    {call_quorum, ""},
    {call_add, "0 4 AQAAAAAAAAAAAAAAAAAAAA"},
    {call_remove, "1 4 "},
    {call_readmit, "2 4 "},
    {call_cluster, ""},
    {call_unregister, "4"},
    {call_level, "5"},
    {call_elect, "1 t/7 u/0"},
    {call_reassign, "t/0 3 1t/1 back "},
};

/* Each call asks for what was wanted and brings what was answered, whatever the chunks. */
static void test_calls(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    peer->chunk_max = 5;
    struct stele_client *client = peer_client(peer, NULL);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        script(peer, &asked);
        assert_int_equal(cases[i].call(client).code, 0);
        assert_int_equal(asked.count, 1);
        assert_string_equal(asked.text, cases[i].asked);
    }
    stele_client_free(client);
}

/* An error that may pass is tried again; one that will not comes back at once with its code, and a lost connection in
 * the middle is nobody's concern. */
static void test_errors(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_client *client = peer_client(peer, quick);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        script(peer, &asked);
        asked.err = STELE_NOT_CONTROLLER;
        asked.failures = 3;
        assert_int_equal(cases[i].call(client).code, 0);
        assert_int_equal(asked.count, 3);
        script(peer, &asked);
        asked.err = STELE_VOTER_NOT_FOUND;
        struct stele_result result = cases[i].call(client);
        assert_int_equal(result.code, STELE_VOTER_NOT_FOUND);
        assert_false(result.is_retriable);
        assert_true(result.text[0] != 0);
        assert_int_equal(asked.count, 1);
        script(peer, &asked);
        peer->garbage = 1;
        assert_int_equal(cases[i].call(client).code, 0);
    }
    stele_client_free(client);
}

/* A change of voters that was refused for now is asked for again. Where any try got no answer it may be made after all,
 * and that is said beside the refusal, whichever try came last. */
static void test_unanswered_try(void **state)
{
    static const struct {
        struct asked asked;
        const char *doubt; /* NULL: none */
    } tries[] = {
        {{.err = STELE_REQUEST_TIMED_OUT, .mutes_next = true}, "a later"},
        {{.err = STELE_NOT_CONTROLLER, .lost = 2, .refusals = 1000}, "a later"}, /* the last try is not sent at all */
        {{.err = STELE_NOT_CONTROLLER, .lost = 1}, "an earlier"},
        {{.err = STELE_NOT_CONTROLLER, .lost = 2}, "an earlier"},
        {{.err = STELE_VOTER_NOT_FOUND, .lost = 1}, "an earlier"}, /* as the lost try would leave it */
        {{.err = STELE_NOT_CONTROLLER}, NULL},
        {{.err = STELE_VOTER_NOT_FOUND}, NULL},
    };
    struct peer *peer = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(tries); i++) {
        struct asked asked;
        struct stele_client *client = peer_client(peer, quick);
        script(peer, &asked);
        asked = tries[i].asked;
        struct stele_result result = stele_quorum_remove(client, 3, NULL);
        char doubt[96] = "got no answer";
        if (tries[i].doubt != NULL)
            (void)snprintf(doubt, sizeof(doubt), "; %s try got no answer and may have done it", tries[i].doubt);
        assert_int_equal(result.code, asked.err);
        assert_true((strstr(result.text, doubt) != NULL) == (tries[i].doubt != NULL));
        assert_true(asked.count > 0 && (asked.refusals == 0 || asked.count == asked.lost));
        stele_client_free(client);
        peer->is_mute = false;
        peer->refusals = 0;
    }
}

/* An id that is none is refused before anything is sent. */
static void test_bad_arguments(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, quick);
    struct stele_result result = stele_quorum_readmit(client, 1, "not an id");
    assert_int_equal(result.code, STELE_INVALID_ARGUMENT);
    assert_non_null(strstr(result.text, "'not an id'"));
    assert_int_equal(peer->connects, 0);
    stele_client_free(client);
}

/* Nobody waits for a node to come that is to go. */
static void test_unknown_node(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_client *client = peer_client(peer, quick);
    script(peer, &asked);
    asked.err = STELE_BROKER_ID_NOT_REGISTERED;
    assert_int_equal(stele_cluster_unregister(client, 4).code, STELE_BROKER_ID_NOT_REGISTERED);
    assert_int_equal(asked.count, 1);
    stele_client_free(client);
}

/* A node of an older version is not asked for what it does not serve; on the same connection the rest goes on. */
static void test_older_version(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    peer->apis[0] = (struct stele_api_range){STELE_API_METADATA, 1, 1};
    peer->apis[1] = (struct stele_api_range){STELE_API_UPDATE_LEVEL, 2, 3};
    peer->api_count = 2;
    struct stele_client *client = peer_client(peer, quick);
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_topics *topics = NULL;
        script(peer, &asked);
        struct stele_result result = cases[i].call(client);
        assert_int_equal(result.code, STELE_UNSUPPORTED_VERSION);
        assert_non_null(strstr(result.text, "older version"));
        assert_int_equal(asked.count, 0);
        assert_int_equal(stele_topic_list(client, &topics).code, 0);
        stele_topics_free(topics);
    }
    assert_int_equal(peer->connects, 2); /* one for looking */
    stele_client_free(client);
}

/* A node that waits for the others of its cluster tells of its quorum all the same. */
static void test_unready_node(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_quorum_description *quorum = NULL;
    struct stele_topics *topics = NULL;
    struct stele_client *client = peer_client(peer, quick);
    script(peer, &asked);
    peer->is_unready = true;
    assert_int_equal(stele_quorum_describe(client, true, &quorum).code, 0);
    assert_int_equal(quorum->leader_epoch, 5);
    stele_quorum_description_free(quorum);
    assert_true(stele_topic_list(client, &topics).is_retriable);
    assert_null(topics);
    stele_client_free(client);
}

/* Elections of all that need one, and what a node has learned itself. */
static void test_all(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_partition_results *outcomes = NULL;
    struct stele_cluster_description *cluster = NULL;
    struct stele_client *client = peer_client(peer, quick);
    script(peer, &asked);
    assert_int_equal(stele_partitions_elect(client, false, NULL, 0, &outcomes).code, 0);
    assert_string_equal(asked.text, "0");
    stele_partition_results_free(outcomes);
    assert_int_equal(stele_cluster_describe(client, true, &cluster).code, 0);
    assert_string_equal(asked.text, "local");
    stele_cluster_description_free(cluster);
    stele_client_free(client);
}

/* Whoever is asked first, the leader answers, also when it is another one by the next time, or the node that knew of it
 * is gone. */
static void test_quorum_at_its_leader(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    script(peer, &asked);
    peer_cluster(peer, 3);
    struct stele_client *client = peer_client(peer, quick);
    for (int32_t leader = 3; leader >= 1; leader--) {
        struct stele_quorum_description *quorum = NULL;
        asked.leader_id = leader;
        assert_int_equal(stele_quorum_describe(client, false, &quorum).code, 0);
        assert_int_equal(quorum->node_id, leader);
        stele_quorum_description_free(quorum);
        peer_down(peer, leader);
        quorum = NULL;
        struct stele_result result = stele_quorum_describe(client, false, &quorum);
        assert_int_equal(result.is_retriable, true);
        assert_null(quorum);
        peer_node(peer, leader)->is_down = false;
    }
    stele_client_free(client);
}

/* When nobody says who leads, everybody is asked by turns; a local question is answered by whoever it comes to. */
static void test_quorum_by_turns(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    struct stele_quorum_description *quorum = NULL;
    script(peer, &asked);
    peer_cluster(peer, 3);
    asked.leader_is_hidden = true;
    asked.leader_id = 3;
    struct stele_client *client = NULL;
    struct stele_error error;
    assert_ok(stele_client__new(&peer->driver, "n1:1,n2:2,n3:3", quick, &client, &error));
    assert_int_equal(stele_quorum_describe(client, false, &quorum).code, 0);
    assert_int_equal(quorum->node_id, 3);
    assert_int_equal(asked.count, 3);
    stele_quorum_description_free(quorum);
    asked.leader_id = 9;
    quorum = NULL;
    assert_int_equal(stele_quorum_describe(client, false, &quorum).code, STELE_NOT_CONTROLLER);
    assert_null(quorum);
    assert_int_equal(stele_quorum_describe(client, true, &quorum).code, 0);
    assert_string_equal(quorum->role, "follower");
    assert_int_equal(quorum->leader_id, -1);
    assert_string_equal(asked.text, "local");
    for (size_t i = 0; i < quorum->member_count; i++) {
        assert_false(quorum->members[i]->is_leader);
        assert_int_equal(quorum->members[i]->lag, -1);
    }
    stele_quorum_description_free(quorum);
    stele_client_free(client);
}

/* Every allocation of every call may fail once: it succeeds all the same or says NO_MEMORY, and holds nothing. */
static void test_memory_failures(void **state)
{
    struct peer *peer = *state;
    struct asked asked;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        for (int64_t at = 1;; at++) {
            struct stele_client *client = peer_client(peer, quick);
            script(peer, &asked);
            stele_test_mem_fail(&peer->env.mem, at, false);
            struct stele_result result = cases[i].call(client);
            bool has_failed = peer->env.mem.has_failed;
            stele_test_mem_fail(&peer->env.mem, 0, false);
            assert_true(result.code == STELE_OK || result.code == STELE_NO_MEMORY);
            stele_client_free(client);
            stele_test_mem_check_empty(&peer->env.mem);
            if (!has_failed) {
                assert_int_equal(result.code, STELE_OK);
                assert_true(at > 5);
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_older_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unready_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unanswered_try, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quorum_at_its_leader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_quorum_by_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
