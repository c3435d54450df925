/* What the active controller makes of partitions when leaders and people ask: ALTER_PARTITION, ELECT_LEADERS, REASSIGN,
 * and the look for preferred leaders. The nodes 2 to 5 are only registered; they never come. */
#include "node/active.h"
#include "node/node_struct.h"
#include "node/test/node_world.h"

#include <string.h>

enum { FIRST_NODE = 2, NODES = 4, PARTITIONS = 4 };

static const struct stele_uuid TOPIC_ID = {.bytes = {7, [15] = 7}};

struct test {
    struct node_world *world;
    struct node_conn *conn;
    int64_t number; /* of the last ALTER_PARTITION */
    struct stele_metadata_change change;
    bool is_changed;
};

static int64_t epoch_of(int32_t node_id)
{
    return 100 + node_id;
}

static void change_done(struct stele_metadata_change *change, enum stele_err err)
{
    struct test *test = STELE_CONTAINER_OF(change, struct test, change);
    assert_ok(err);
    test->is_changed = true;
}

static void write_records(struct test *test, const struct stele_metadata_record *records, int count)
{
    test->is_changed = false;
    test->change = (struct stele_metadata_change){.records = records, .count = count, .done = change_done};
    test->world->poster = STELE_SHARD_CONTROL;
    stele_metadata_log_change(&test->world->node->control.mlog, &test->change);
    node_world_run(test->world);
    assert_true(test->is_changed);
}

static struct stele_metadata_record node_record(int32_t node_id, bool is_fenced)
{
    static const struct stele_listener_address listeners[] = {{"PEER", "h", 7}};
    return (struct stele_metadata_record){.kind = STELE_METADATA_NODE,
                                          .u.node = {.node_id = node_id,
                                                     .node_epoch = epoch_of(node_id),
                                                     .incarnation_id = {.bytes = {1, (uint8_t)node_id}},
                                                     .rack = "",
                                                     .listeners = listeners,
                                                     .listener_count = 1,
                                                     .level_min = 1,
                                                     .level_max = 2,
                                                     .is_fenced = is_fenced,
                                                     .software_version = ""}};
}

static void fence(struct test *test, int32_t node_id, bool is_fenced)
{
    struct stele_metadata_record record = node_record(node_id, is_fenced);
    write_records(test, &record, 1);
}

static void put_partition(struct test *test, int32_t number, const struct stele_partition_state *state)
{
    struct stele_metadata_record record = {
        .kind = STELE_METADATA_PARTITION,
        .u.partition = {.topic_id = TOPIC_ID,
                        .partition = number,
                        .leader_id = state->leader_id,
                        .leader_epoch = state->leader_epoch,
                        .partition_epoch = state->partition_epoch,
                        .replicas = state->replicas.ids,
                        .replica_count = (size_t)state->replicas.count,
                        .isr = state->isr.ids,
                        .isr_count = (size_t)state->isr.count,
                        .last_known_elr = state->last_known_elr.ids,
                        .last_known_elr_count = (size_t)state->last_known_elr.count}};
    write_records(test, &record, 1);
}

static const struct stele_partition_state WHOLE = {.leader_id = 2,
                                                   .leader_epoch = 3,
                                                   .partition_epoch = 5,
                                                   .replicas = {.ids = {2, 3, 4}, .count = 3},
                                                   .isr = {.ids = {2, 3, 4}, .count = 3}};

static void begin(struct test *test, uint64_t seed)
{
    struct stele_metadata_record records[NODES + 1];
    *test = (struct test){.world = node_world_new(seed, 2)};
    node_world_set(test->world, "min.insync.replicas", "2");
    node_world_set(test->world, "leader.imbalance.check.interval.seconds", "2");
    node_world_start(test->world);
    for (int i = 0; i < NODES; i++)
        records[i] = node_record(FIRST_NODE + i, false);
    records[NODES] =
        (struct stele_metadata_record){.kind = STELE_METADATA_TOPIC, .u.topic = {.name = "t", .topic_id = TOPIC_ID}};
    write_records(test, records, NODES + 1);
    for (int32_t i = 0; i < PARTITIONS; i++)
        put_partition(test, i, &WHOLE);
    test->conn = node_world_greet(test->world, 1);
}

static void end(struct test *test)
{
    node_world_free(test->world);
}

static const struct stele_partition_state *state_of(const struct test *test, int32_t number)
{
    return &stele_image_topic_named(&test->world->node->control.mlog.image, "t")->partitions[number].state;
}

static void assert_set(const struct stele_node_set *set, const char *digits)
{
    assert_int_equal(set->count, strlen(digits));
    for (; *digits != 0; digits++)
        assert_true(stele_node_set_has(set, *digits - '0'));
}

/* ALTER_PARTITION. */

struct wish {
    int32_t number, leader_epoch, partition_epoch;
    const char *isr;
    int64_t epoch_offset; /* of the members' epochs */
};

static struct stele_altered_partition altered(const struct wish *wish, struct stele_isr_member *isr)
{
    struct stele_altered_partition partition = {.topic_id = TOPIC_ID,
                                                .partition = wish->number,
                                                .leader_epoch = wish->leader_epoch,
                                                .partition_epoch = wish->partition_epoch,
                                                .isr = isr};
    for (const char *at = wish->isr; *at != 0; at++)
        isr[partition.isr_count++] =
            (struct stele_isr_member){.node_id = *at - '0', .node_epoch = epoch_of(*at - '0') + wish->epoch_offset};
    return partition;
}

static const struct stele_alter_partition_response *alter(struct test *test, struct stele_alter_partition_request *body,
                                                          struct node_answer *answer)
{
    struct stele_request request = {.header.api = STELE_API_ALTER_PARTITION, .body.alter_partition = *body};
    if (body->request_number == 0)
        request.body.alter_partition.request_number = ++test->number;
    (void)node_conn_send(test->conn, &request, NULL, 0);
    node_conn_take(test->conn, answer);
    return &answer->response.body.alter_partition;
}

/* Each of several wishes of one request is judged on its own; what is accepted is in the image when the answer is
 * there, and the answer says how the partition is now. */
static void test_alter(void **state)
{
    static const struct {
        struct wish wish;
        enum stele_err err;
    } cases[] = {
        {{0, 3, 5, "23", 0}, STELE_OK},
        {{1, 3, 5, "234", 0}, STELE_OK}, /* nothing changes */
        {{2, 2, 5, "23", 0}, STELE_FENCED_LEADER_EPOCH},
        {{2, 4, 5, "23", 0}, STELE_NOT_CONTROLLER},
        {{2, 3, 4, "23", 0}, STELE_INVALID_UPDATE_VERSION},
        {{2, 3, 5, "34", 0}, STELE_INVALID_REQUEST},
        {{2, 3, 5, "25", 0}, STELE_INVALID_REQUEST},
        {{2, 3, 5, "23", 1}, STELE_INELIGIBLE_REPLICA},
        {{PARTITIONS, 3, 5, "23", 0}, STELE_UNKNOWN_TOPIC_OR_PARTITION},
        {{0, 3, 5, "2", 0}, STELE_INVALID_REQUEST}, /* named twice */
    };
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct stele_altered_partition partitions[STELE_ARRAY_LEN(cases) + 1];
        struct stele_isr_member members[STELE_ARRAY_LEN(cases)][STELE_REPLICAS_MAX];
        size_t count = STELE_ARRAY_LEN(cases);
        struct node_answer answer;
        struct test test;
        begin(&test, seed);
        for (size_t i = 0; i < count; i++)
            partitions[i] = altered(&cases[i].wish, members[i]);
        partitions[count] = partitions[0];
        partitions[count].topic_id.bytes[3] = 9;
        const struct stele_alter_partition_response *response =
            alter(&test,
                  &(struct stele_alter_partition_request){
                      .node_id = 2, .node_epoch = epoch_of(2), .partitions = partitions, .partition_count = count + 1},
                  &answer);
        assert_ok(response->err);
        assert_int_equal(response->result_count, count + 1);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(response->results[i].err, cases[i].err);
            assert_int_equal(response->results[i].partition, cases[i].wish.number);
        }
        assert_int_equal(response->results[count].err, STELE_UNKNOWN_TOPIC_ID);
        assert_int_equal(response->results[0].partition_epoch, 6);
        assert_int_equal(response->results[0].leader_epoch, 3);
        assert_int_equal(response->results[0].isr_count, 2);
        assert_int_equal(response->results[0].min_isr, 2);
        assert_int_equal(response->results[1].partition_epoch, 5);
        assert_set(&state_of(&test, 0)->isr, "23");
        assert_set(&state_of(&test, 0)->elr, "");
        assert_int_equal(state_of(&test, 0)->partition_epoch, 6);
        assert_int_equal(state_of(&test, 2)->partition_epoch, 5);
        end(&test);
    }
}

/* As many partitions as a topic may have are one request, one batch and one answer. */
static void test_alter_many(void **state)
{
    enum { MANY = 10000 };
    static struct stele_metadata_record records[MANY];
    static struct stele_altered_partition partitions[MANY];
    static const int32_t replicas[] = {2, 3, 4};
    struct stele_isr_member members[STELE_REPLICAS_MAX];
    const struct wish shrink = {0, 3, 5, "23", 0};
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 8);
    for (int32_t i = 0; i < MANY; i++) {
        records[i] = (struct stele_metadata_record){.kind = STELE_METADATA_PARTITION,
                                                    .u.partition = {.topic_id = TOPIC_ID,
                                                                    .partition = i,
                                                                    .leader_id = 2,
                                                                    .leader_epoch = 3,
                                                                    .partition_epoch = 5,
                                                                    .replicas = replicas,
                                                                    .replica_count = 3,
                                                                    .isr = replicas,
                                                                    .isr_count = 3}};
        partitions[i] = altered(&shrink, members);
        partitions[i].isr_count = 2;
        partitions[i].partition = i;
    }
    write_records(&test, records, MANY);
    struct stele_alter_partition_request request = {
        .node_id = 2, .node_epoch = epoch_of(2), .partitions = partitions, .partition_count = MANY};
    const struct stele_alter_partition_response *response = alter(&test, &request, &answer);
    assert_ok(response->err);
    assert_int_equal(response->result_count, MANY);
    for (int32_t i = 0; i < MANY; i++) {
        assert_ok(response->results[i].err);
        assert_int_equal(state_of(&test, i)->partition_epoch, 6);
        assert_int_equal(state_of(&test, i)->isr.count, 2);
    }
    end(&test);
}

/* A request as a whole is refused of another life, of a number that was there, and of another epoch of the quorum; then
 * nothing changes. */
static void test_alter_refused(void **state)
{
    static const struct wish shrink = {0, 3, 5, "23", 0};
    struct stele_isr_member members[STELE_REPLICAS_MAX];
    struct stele_altered_partition partition = altered(&shrink, members);
    struct stele_alter_partition_request request = {
        .node_id = 2, .node_epoch = epoch_of(2), .partitions = &partition, .partition_count = 1};
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 1);
    int32_t quorum_epoch = test.world->node->control.mlog.quorum.election.epoch;
    request.node_epoch++;
    assert_int_equal(alter(&test, &request, &answer)->err, STELE_STALE_BROKER_EPOCH);
    request.node_epoch--;
    request.node_id = 9;
    assert_int_equal(alter(&test, &request, &answer)->err, STELE_STALE_BROKER_EPOCH);
    request.node_id = 2;
    request.quorum_epoch = quorum_epoch + 1;
    assert_int_equal(alter(&test, &request, &answer)->err, STELE_NOT_CONTROLLER);
    request.quorum_epoch = quorum_epoch;
    /* As long as there is no memory for all nodes the count of requests is not begun. */
    test.world->node->control.active.registry.is_active = false;
    assert_int_equal(alter(&test, &request, &answer)->err, STELE_NOT_CONTROLLER);
    test.world->node->control.active.registry.is_active = true;
    assert_int_equal(state_of(&test, 0)->partition_epoch, 5);
    request.request_number = test.number = 100;
    assert_ok(alter(&test, &request, &answer)->err);
    assert_int_equal(state_of(&test, 0)->partition_epoch, 6);
    assert_int_equal(alter(&test, &request, &answer)->err, STELE_REQUEST_TIMED_OUT);
    request.request_number = 99;
    assert_int_equal(alter(&test, &request, &answer)->err, STELE_REQUEST_TIMED_OUT);
    end(&test);
}

/* Below min.insync.replicas who left may lead still; a fenced node joins nothing; without anybody in sync there is no
 * leader, and who returns leads. */
static void test_alter_elr(void **state)
{
    static const struct wish alone = {0, 3, 5, "2", 0}, with_fenced = {0, 3, 7, "23", 0};
    struct stele_isr_member members[STELE_REPLICAS_MAX];
    struct stele_altered_partition partition = altered(&alone, members);
    struct stele_alter_partition_request request = {
        .node_id = 2, .node_epoch = epoch_of(2), .partitions = &partition, .partition_count = 1};
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 2);
    assert_ok(alter(&test, &request, &answer)->results[0].err);
    assert_set(&state_of(&test, 0)->isr, "2");
    assert_set(&state_of(&test, 0)->elr, "34");
    fence(&test, 3, true);
    partition = altered(&with_fenced, members);
    partition.partition_epoch = state_of(&test, 0)->partition_epoch;
    assert_int_equal(alter(&test, &request, &answer)->results[0].err, STELE_INELIGIBLE_REPLICA);
    fence(&test, 3, false);
    assert_ok(alter(&test, &request, &answer)->results[0].err);
    assert_set(&state_of(&test, 0)->isr, "23");
    assert_set(&state_of(&test, 0)->elr, "");
    end(&test);
}

/* A node says which of its replicas failed: they lose lead and place, until another life of the node. */
static void test_offline(void **state)
{
    struct stele_offline_replica offline[] = {{TOPIC_ID, 0}, {TOPIC_ID, 1}, {TOPIC_ID, PARTITIONS}, {TOPIC_ID, 0}};
    struct stele_alter_partition_request request = {
        .node_id = 2, .node_epoch = epoch_of(2), .offline = offline, .offline_count = STELE_ARRAY_LEN(offline)};
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 3);
    assert_ok(alter(&test, &request, &answer)->err);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(state_of(&test, i)->leader_id, 3);
        assert_int_equal(state_of(&test, i)->leader_epoch, 4);
        assert_int_equal(state_of(&test, i)->partition_epoch, 6);
        assert_set(&state_of(&test, i)->isr, "34");
        assert_set(&state_of(&test, i)->offline, "2");
    }
    assert_set(&state_of(&test, 2)->offline, "");
    assert_ok(alter(&test, &request, &answer)->err); /* again: nothing changes */
    assert_int_equal(state_of(&test, 0)->partition_epoch, 6);
    static const struct wish join = {0, 4, 6, "234", 0};
    struct stele_isr_member members[STELE_REPLICAS_MAX];
    struct stele_altered_partition partition = altered(&join, members);
    request = (struct stele_alter_partition_request){
        .node_id = 3, .node_epoch = epoch_of(3), .partitions = &partition, .partition_count = 1};
    assert_int_equal(alter(&test, &request, &answer)->results[0].err, STELE_INELIGIBLE_REPLICA);
    struct stele_metadata_record record = node_record(2, false);
    record.u.node.node_epoch += 100;
    write_records(&test, &record, 1);
    assert_set(&state_of(&test, 0)->offline, "");
    members[0].node_epoch += 100;
    assert_ok(alter(&test, &request, &answer)->results[0].err);
    end(&test);
}

/* ELECT_LEADERS. */

static const struct stele_elect_leaders_response *elect(struct test *test, enum stele_election_kind mode,
                                                        const struct stele_partition_name *names, size_t count,
                                                        struct node_answer *answer)
{
    struct stele_request request = {
        .header.api = STELE_API_ELECT_LEADERS,
        .body.elect_leaders = {.mode = mode, .partitions = names, .partition_count = count}};
    (void)node_conn_send(test->conn, &request, NULL, 0);
    node_conn_take(test->conn, answer);
    return &answer->response.body.elect_leaders;
}

static void led_by_3(struct test *test, int32_t number)
{
    struct stele_partition_state state = WHOLE;
    state.leader_id = 3;
    state.leader_epoch++;
    state.partition_epoch++;
    put_partition(test, number, &state);
}

/* Those that are named get their preferred leader, or an error of their own; without names all that want it. */
static void test_elect_preferred(void **state)
{
    static const struct stele_partition_name names[] = {{"t", 0}, {"t", 1}, {"t", 2}, {"t", 9}, {"x", 0}, {"t", 0}};
    static const enum stele_err errs[] = {STELE_OK,
                                          STELE_ELECTION_NOT_NEEDED,
                                          STELE_PREFERRED_LEADER_NOT_AVAILABLE,
                                          STELE_UNKNOWN_TOPIC_OR_PARTITION,
                                          STELE_UNKNOWN_TOPIC_OR_PARTITION,
                                          STELE_INVALID_REQUEST};
    (void)state;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct stele_partition_state behind = WHOLE;
        struct node_answer answer;
        struct test test;
        begin(&test, seed);
        led_by_3(&test, 0);
        led_by_3(&test, 3);
        behind.leader_id = 3;
        behind.isr = (struct stele_node_set){.ids = {3, 4}, .count = 2};
        put_partition(&test, 2, &behind);
        const struct stele_elect_leaders_response *response =
            elect(&test, STELE_ELECTION_PREFERRED, names, STELE_ARRAY_LEN(names), &answer);
        assert_ok(response->err);
        assert_int_equal(response->result_count, STELE_ARRAY_LEN(names));
        for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
            assert_int_equal(response->results[i].err, errs[i]);
            assert_int_equal(response->results[i].message[0] == 0, errs[i] == STELE_OK);
            assert_string_equal(response->results[i].topic, names[i].topic);
        }
        assert_int_equal(response->results[0].leader_id, 2);
        assert_int_equal(response->results[0].leader_epoch, 5);
        assert_int_equal(response->results[0].lost_first_offset, -1);
        assert_int_equal(state_of(&test, 0)->leader_id, 2);
        assert_int_equal(state_of(&test, 3)->leader_id, 3);
        response = elect(&test, STELE_ELECTION_PREFERRED, NULL, 0, &answer);
        assert_int_equal(response->result_count, 1);
        assert_int_equal(response->results[0].partition, 3);
        assert_ok(response->results[0].err);
        assert_int_equal(state_of(&test, 3)->leader_id, 2);
        response = elect(&test, STELE_ELECTION_PREFERRED, NULL, 0, &answer);
        assert_int_equal(response->result_count, 0);
        end(&test);
    }
}

/* An election is forced only where nobody leads, and never without an answer of the replica: these nodes never come. */
static void test_elect_forced_refused(void **state)
{
    static const struct stele_partition_name names[] = {{"t", 0}, {"t", 1}, {"x", 0}};
    struct stele_partition_state lost = WHOLE;
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 4);
    lost.leader_id = STELE_NO_NODE;
    lost.isr.count = 0;
    lost.last_known_elr = (struct stele_node_set){.ids = {2, 3, 4}, .count = 3};
    put_partition(&test, 1, &lost);
    const struct stele_elect_leaders_response *response =
        elect(&test, STELE_ELECTION_UNCLEAN, names, STELE_ARRAY_LEN(names), &answer);
    assert_int_equal(response->results[0].err, STELE_ELECTION_NOT_NEEDED);
    assert_int_equal(response->results[1].err, STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_int_equal(response->results[2].err, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    response = elect(&test, STELE_ELECTION_UNCLEAN, NULL, 0, &answer);
    assert_int_equal(response->result_count, 1);
    assert_int_equal(response->results[0].partition, 1);
    assert_int_equal(state_of(&test, 1)->leader_id, STELE_NO_NODE);
    end(&test);
}

/* After a while partitions are back with their preferred leaders, unless the setting says no. */
static void test_scan(void **state)
{
    (void)state;
    for (int is_on = 0; is_on < 2; is_on++) {
        struct test test;
        begin(&test, 5);
        struct stele_metadata_record record = {.kind = STELE_METADATA_SETTING,
                                               .u.setting = {.scope = STELE_SUBJECT_CLUSTER,
                                                             .subject = "",
                                                             .name = "auto.leader.rebalance.enable",
                                                             .value = is_on ? "true" : "false"}};
        write_records(&test, &record, 1);
        led_by_3(&test, 1);
        led_by_3(&test, 3);
        node_world_pass(test.world, 1000);
        assert_int_equal(state_of(&test, 1)->leader_id, 3);
        node_world_pass(test.world, 2000);
        assert_int_equal(state_of(&test, 1)->leader_id, is_on ? 2 : 3);
        assert_int_equal(state_of(&test, 3)->leader_id, is_on ? 2 : 3);
        end(&test);
    }
}

/* REASSIGN. */

static const struct stele_reassign_response *reassign(struct test *test,
                                                      const struct stele_reassigned_partition *partitions, size_t count,
                                                      struct node_answer *answer)
{
    struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                    .body.reassign = {.partitions = partitions, .partition_count = count}};
    (void)node_conn_send(test->conn, &request, NULL, 0);
    node_conn_take(test->conn, answer);
    return &answer->response.body.reassign;
}

/* It begins, shows what comes and what goes, ends when the new replica is in sync, or is taken back. */
static void test_reassign(void **state)
{
    static const int32_t target[] = {5, 2, 3}, twice[] = {2, 2}, unknown[] = {2, 9}, many[17] = {0};
    static const struct stele_reassigned_partition asked[] = {
        {"t", 0, target, 3, false},  {"t", 1, target, 3, false}, {"t", 2, twice, 2, false},
        {"t", 2, unknown, 2, false}, {"t", 2, NULL, 0, false},   {"t", 2, many, 17, false},
        {"t", 2, NULL, 0, true},     {"x", 0, target, 3, false}, {"t", 0, target, 3, false},
    };
    static const enum stele_err errs[] = {STELE_OK,
                                          STELE_OK,
                                          STELE_INVALID_REPLICA_ASSIGNMENT,
                                          STELE_INVALID_REPLICA_ASSIGNMENT,
                                          STELE_INVALID_REPLICA_ASSIGNMENT,
                                          STELE_INVALID_REPLICA_ASSIGNMENT,
                                          STELE_NO_REASSIGNMENT_IN_PROGRESS,
                                          STELE_UNKNOWN_TOPIC_OR_PARTITION,
                                          STELE_INVALID_REQUEST};
    static const struct wish join = {0, 3, 6, "2345", 0};
    static const struct stele_reassigned_partition cancel = {"t", 1, NULL, 0, true};
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 6);
    const struct stele_reassign_response *response = reassign(&test, asked, STELE_ARRAY_LEN(asked), &answer);
    assert_ok(response->err);
    for (size_t i = 0; i < STELE_ARRAY_LEN(asked); i++) {
        assert_int_equal(response->results[i].err, errs[i]);
        assert_int_equal(response->results[i].message[0] == 0, errs[i] == STELE_OK);
    }
    assert_set(&state_of(&test, 0)->replicas, "5234");
    assert_set(&state_of(&test, 0)->adding, "5");
    assert_set(&state_of(&test, 0)->removing, "4");
    assert_int_equal(state_of(&test, 2)->partition_epoch, 5);
    struct stele_isr_member members[STELE_REPLICAS_MAX];
    struct stele_altered_partition partition = altered(&join, members);
    struct stele_alter_partition_request alteration = {
        .node_id = 2, .node_epoch = epoch_of(2), .partitions = &partition, .partition_count = 1};
    assert_ok(alter(&test, &alteration, &answer)->results[0].err);
    assert_set(&state_of(&test, 0)->replicas, "523");
    assert_int_equal(state_of(&test, 0)->replicas.ids[0], 5);
    assert_set(&state_of(&test, 0)->isr, "523");
    assert_set(&state_of(&test, 0)->adding, "");
    assert_set(&state_of(&test, 0)->removing, "");
    assert_int_equal(state_of(&test, 0)->leader_id, 2);
    assert_int_equal(state_of(&test, 0)->leader_epoch, 4); /* so that the one that left is fenced */
    assert_ok(reassign(&test, &cancel, 1, &answer)->results[0].err);
    assert_set(&state_of(&test, 1)->replicas, "234");
    assert_set(&state_of(&test, 1)->adding, "");
    end(&test);
}

/* Everything that is asked may find no memory: it is refused or the connection ends, and the node goes on. */
static void test_no_memory(void **state)
{
    static const struct wish shrink = {0, 3, 5, "23", 0};
    static const int32_t target[] = {5, 2, 3};
    static const struct stele_reassigned_partition move = {"t", 1, target, 3, false};
    static const struct stele_partition_name name = {"t", 2};
    struct stele_isr_member members[STELE_REPLICAS_MAX];
    struct stele_altered_partition partition = altered(&shrink, members);
    struct stele_request requests[] = {
        {.header.api = STELE_API_ALTER_PARTITION,
         .body.alter_partition = {.node_id = 2,
                                  .node_epoch = epoch_of(2),
                                  .partitions = &partition,
                                  .partition_count = 1,
                                  .request_number = 1}},
        {.header.api = STELE_API_REASSIGN, .body.reassign = {.partitions = &move, .partition_count = 1}},
        {.header.api = STELE_API_ELECT_LEADERS,
         .body.elect_leaders = {.mode = STELE_ELECTION_PREFERRED, .partitions = &name, .partition_count = 1}},
        {.header.api = STELE_API_ELECT_LEADERS,
         .body.elect_leaders = {.mode = STELE_ELECTION_UNCLEAN, .partitions = &name, .partition_count = 1}},
    };
    (void)state;
    for (size_t kind = 0; kind < STELE_ARRAY_LEN(requests); kind++) {
        bool is_over = false;
        for (int64_t nth = 1; !is_over; nth++) {
            struct test test;
            begin(&test, 7);
            led_by_3(&test, 2);
            (void)node_conn_send(test.conn, &requests[kind], NULL, 0);
            stele_test_mem_fail(&test.world->mem, nth, false);
            node_world_run(test.world);
            is_over = !test.world->mem.has_failed;
            stele_test_mem_fail(&test.world->mem, 0, false);
            node_world_pass(test.world, 300);
            static const int32_t epochs[] = {6, 6, 7, 6}; /* of the partition that each is about, when all went well */
            if (is_over)
                assert_int_equal(state_of(&test, (int32_t)stele_min_i64((int64_t)kind, 2))->partition_epoch,
                                 epochs[kind]);
            struct node_answer answer;
            test.conn = node_world_greet(test.world, 1);
            assert_int_equal(elect(&test, STELE_ELECTION_PREFERRED, NULL, 0, &answer)->err, STELE_OK);
            end(&test);
        }
    }
}

/* Of a forced election the replicas are asked first: without memory for that it is refused, once, and nobody waits. */
static void test_no_memory_to_ask(void **state)
{
    static const struct stele_partition_name names[] = {{"t", 0}, {"t", 1}, {"t", 2}};
    struct stele_request request = {.header.api = STELE_API_ELECT_LEADERS,
                                    .body.elect_leaders = {.mode = STELE_ELECTION_UNCLEAN,
                                                           .partitions = names,
                                                           .partition_count = STELE_ARRAY_LEN(names)}};
    struct stele_partition_state lost = WHOLE;
    bool is_over = false;
    (void)state;
    lost.leader_id = STELE_NO_NODE;
    lost.isr.count = 0;
    lost.last_known_elr = (struct stele_node_set){.ids = {2, 3, 4}, .count = 3};
    for (int64_t nth = 1; !is_over; nth++) {
        struct test test;
        struct node_answer answer;
        begin(&test, 8);
        for (int32_t i = 0; i < (int32_t)STELE_ARRAY_LEN(names); i++)
            put_partition(&test, i, &lost);
        (void)node_conn_send(test.conn, &request, NULL, 0);
        stele_test_mem_fail(&test.world->mem, nth, false);
        node_world_run(test.world);
        is_over = !test.world->mem.has_failed;
        stele_test_mem_fail(&test.world->mem, 0, false);
        node_world_pass(test.world, 300);
        test.conn = node_world_greet(test.world, 1);
        assert_int_equal(elect(&test, STELE_ELECTION_PREFERRED, NULL, 0, &answer)->err, STELE_OK);
        end(&test);
    }
}

struct idle_turn {
    struct stele_active_turn turn;
    int begun, done;
};

static void idle_begins(struct stele_active_turn *turn)
{
    STELE_CONTAINER_OF(turn, struct idle_turn, turn)->begun++;
    stele_active_write(turn);
}

static void idle_done(struct stele_active_turn *turn, enum stele_err err)
{
    (void)err;
    STELE_CONTAINER_OF(turn, struct idle_turn, turn)->done++;
}

/* A turn that is dropped when it has nothing to write and is not told so yet is never told, and holds up nobody. */
static void test_drop(void **state)
{
    struct idle_turn idle = {.turn = {.begin = idle_begins, .done = idle_done}};
    struct node_answer answer;
    struct test test;
    (void)state;
    begin(&test, 9);
    test.world->poster = STELE_SHARD_CONTROL;
    stele_active_take(&test.world->node->control.active, &idle.turn);
    while (idle.begun == 0)
        assert_true(node_world_step(test.world));
    assert_int_equal(idle.done, 0);
    stele_active_drop(&idle.turn);
    node_world_run(test.world);
    assert_int_equal(idle.done, 0);
    assert_int_equal(elect(&test, STELE_ELECTION_PREFERRED, NULL, 0, &answer)->err, STELE_OK);
    end(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alter),
        cmocka_unit_test(test_alter_refused),
        cmocka_unit_test(test_alter_many),
        cmocka_unit_test(test_alter_elr),
        cmocka_unit_test(test_offline),
        cmocka_unit_test(test_elect_preferred),
        cmocka_unit_test(test_elect_forced_refused),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_reassign),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_to_ask),
        cmocka_unit_test(test_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
