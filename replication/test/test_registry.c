/* Registration (4.2), heartbeats and their states (4.3), sessions (4.3.8 to 4.3.20). */
#include "replication/registry.h"

#include "base/test/support.h"

#include <string.h>

enum { SESSION_MS = 9000, SUSPICION_MS = 300 };

struct fixture {
    struct stele_test_mem mem;
    struct stele_registry registry;
    int64_t now_ms, next_offset;
};

static const struct stele_registry_settings SETTINGS = {.session_ms = SESSION_MS, .suspicion_ms = SUSPICION_MS};

static int setup(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.now_ms = 1000, .next_offset = 50};
    stele_test_mem_init(&fixture.mem);
    stele_registry_init(&fixture.registry, &fixture.mem.mem, SETTINGS);
    stele_registry_activate(&fixture.registry, fixture.now_ms);
    *state = &fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    stele_registry_deinit(&f->registry);
    stele_test_mem_check_empty(&f->mem);
    return 0;
}

static struct stele_uuid uuid(uint8_t high, uint8_t low)
{
    struct stele_uuid id = {{0}};
    id.bytes[0] = high;
    id.bytes[15] = low;
    return id;
}

/* A node as it registers: life 1 under boot 1, with one directory of its own. */
static struct stele_node_request request_of(int32_t node_id, uint8_t life)
{
    struct stele_node_request request = {
        .cluster_id = uuid(9, 9),
        .previous_epoch = -1,
        .node = {.node_id = node_id,
                 .incarnation_id = uuid((uint8_t)node_id, life),
                 .boot_id = uuid(1, 1),
                 .directories = {uuid(0xd0, (uint8_t)node_id)},
                 .directory_count = 1,
                 .listeners = {{.name = "PLAINTEXT", .host = "localhost", .port = 7835}},
                 .listener_count = 1,
                 .rack = "r1",
                 .feature_min = 1,
                 .feature_max = 3}};
    return request;
}

static struct stele_registry_terms terms_of(const struct fixture *f)
{
    return (struct stele_registry_terms){
        .cluster_id = uuid(9, 9), .feature_level = 2, .record_offset = f->next_offset, .now_ms = f->now_ms};
}

static struct stele_registration_verdict registered(struct fixture *f, const struct stele_node_request *request)
{
    struct stele_registration_verdict verdict;
    const struct stele_registry_terms terms = terms_of(f);
    assert_ok(stele_registry_register(&f->registry, request, &terms, &verdict));
    assert_ok(stele_registry_apply(&f->registry, &verdict.record));
    f->next_offset++;
    return verdict;
}

static int64_t epoch_of(const struct fixture *f, int32_t node_id)
{
    return stele_registry_find(&f->registry, node_id)->node_epoch;
}

static struct stele_heartbeat heartbeat_of(const struct fixture *f, int32_t node_id)
{
    return (struct stele_heartbeat){
        .node_id = node_id, .node_epoch = epoch_of(f, node_id), .metadata_offset = f->next_offset};
}

static void apply(struct fixture *f, int32_t node_id, const struct stele_heartbeat_verdict *verdict)
{
    assert_ok(stele_registry_apply_flags(&f->registry, node_id, epoch_of(f, node_id), verdict, f->now_ms));
}

/* Touches, asks, replays. */
static struct stele_heartbeat_verdict beat(struct fixture *f, const struct stele_heartbeat *heartbeat, bool leads)
{
    struct stele_heartbeat_verdict verdict;
    stele_registry_touch(&f->registry, heartbeat->node_id, heartbeat->node_epoch, f->now_ms);
    assert_ok(stele_registry_heartbeat(&f->registry, heartbeat, leads, &verdict));
    if (verdict.has_change) {
        apply(f, heartbeat->node_id, &verdict);
    }
    return verdict;
}

/* Registered and unfenced. */
static void join(struct fixture *f, int32_t node_id)
{
    const struct stele_node_request request = request_of(node_id, 1);
    (void)registered(f, &request);
    const struct stele_heartbeat heartbeat = heartbeat_of(f, node_id);
    assert_int_equal(beat(f, &heartbeat, false).to, STELE_NODE_UNFENCED);
}

static enum stele_err refusal(struct fixture *f, const struct stele_node_request *request)
{
    struct stele_registration_verdict verdict;
    const struct stele_registry_terms terms = terms_of(f);
    return stele_registry_register(&f->registry, request, &terms, &verdict);
}

/* A first registration starts fenced, and its epoch is its record's offset (4.2.6, 4.2.7). */
static void test_register(void **state)
{
    struct fixture *f = *state;
    const struct stele_node_request request = request_of(1, 1);
    const struct stele_registration_verdict verdict = registered(f, &request);
    assert_int_equal(verdict.record.node_epoch, 50);
    assert_true(verdict.record.is_fenced);
    assert_false(verdict.is_same_incarnation);
    assert_false(verdict.has_lost_memory);
    assert_int_equal(verdict.lost_directories, 0);
    assert_false(stele_registry_is_active_node(&f->registry, 1));
    assert_int_equal(stele_registry_deadline(&f->registry), INT64_MAX); /* KAFKA-19130 */
}

/* Each fault of a registration has its error, and they come in their order (4.2.2 to 4.2.5). */
static void test_register_refusals(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    struct stele_node_request request = request_of(2, 1);
    request.cluster_id = uuid(9, 8);
    request.node.node_id = -1;
    assert_int_equal(refusal(f, &request), STELE_INCONSISTENT_CLUSTER_ID);
    request = request_of(2, 1);
    request.node.node_id = -1;
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request = request_of(2, 1);
    request.node.incarnation_id = uuid(0, 0);
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request = request_of(1, 2);
    request.node.directory_count = 0;
    assert_int_equal(refusal(f, &request), STELE_DUPLICATE_BROKER_REGISTRATION);
    request = request_of(2, 1);
    request.node.directory_count = 0;
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.directory_count = STELE_NODE_DIRECTORIES_MAX + 1;
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.directory_count = 2;
    request.node.directories[1] = request.node.directories[0];
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.directories[1] = uuid(0xd0, 1); /* node 1's */
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.directories[1] = uuid(0, 99);
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.directories[1] = uuid(0, 100);
    assert_int_equal(refusal(f, &request), STELE_OK);
    request = request_of(2, 1);
    request.node.listener_count = 0;
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.listener_count = 2;
    request.node.listeners[1] = request.node.listeners[0];
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.listeners[1].name[0] = 'Q';
    request.node.listeners[1].port = 65536;
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request.node.listeners[1].port = 65535;
    assert_int_equal(refusal(f, &request), STELE_OK);
    memset(request.node.listeners[1].host, 'h', sizeof request.node.listeners[1].host);
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    request = request_of(2, 1);
    request.node.feature_min = 3;
    assert_int_equal(refusal(f, &request), STELE_UNSUPPORTED_VERSION);
    request.node.feature_min = 1;
    request.node.feature_max = 1;
    assert_int_equal(refusal(f, &request), STELE_UNSUPPORTED_VERSION);
    request.node.feature_max = 2;
    assert_int_equal(refusal(f, &request), STELE_OK);
}

/* Another life is refused while the old one has a session, and admitted when it is fenced, shutting down or expired
 * (4.2.3, 4.3.17). */
static void test_other_life(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    struct stele_node_request request = request_of(1, 2);
    f->now_ms += SESSION_MS - 1;
    assert_int_equal(refusal(f, &request), STELE_DUPLICATE_BROKER_REGISTRATION);
    f->now_ms += 1;
    assert_int_equal(refusal(f, &request), STELE_OK);
    stele_registry_touch(&f->registry, 1, epoch_of(f, 1), f->now_ms);
    assert_int_equal(refusal(f, &request), STELE_DUPLICATE_BROKER_REGISTRATION);
    struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    heartbeat.wants_shutdown = true;
    assert_int_equal(beat(f, &heartbeat, true).to, STELE_NODE_SHUTTING_DOWN);
    assert_int_equal(refusal(f, &request), STELE_OK);
    const int64_t old_epoch = epoch_of(f, 1);
    (void)registered(f, &request);
    assert_true(epoch_of(f, 1) > old_epoch);
    request = request_of(1, 3);
    assert_int_equal(refusal(f, &request), STELE_OK); /* the second life is still fenced */
}

/* After a loss of power no life is left that a new controller could hear: who comes with a directory of the life before
 * need not wait for its session to end. Who has none of them, or comes while that life is heard, does. */
static void test_outlived(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    struct stele_node_request request = request_of(1, 2), other = request_of(1, 2);
    other.node.directories[0] = uuid(0xd1, 1);
    stele_registry_deactivate(&f->registry);
    f->now_ms += 1;
    stele_registry_activate(&f->registry, f->now_ms);
    assert_int_equal(refusal(f, &other), STELE_DUPLICATE_BROKER_REGISTRATION);
    assert_int_equal(refusal(f, &request), STELE_OK);
    request.node.directories[1] = request.node.directories[0]; /* a directory more, the old one second */
    request.node.directories[0] = other.node.directories[0];
    request.node.directory_count = 2;
    assert_int_equal(refusal(f, &request), STELE_OK);
    stele_registry_touch(&f->registry, 1, epoch_of(f, 1), f->now_ms);
    assert_int_equal(refusal(f, &request), STELE_DUPLICATE_BROKER_REGISTRATION);
}

/* Requests are of this life, and none is worked on after a later one (4.8.1). */
static void test_admit(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    assert_int_equal(stele_registry_admit(&f->registry, 1, 49, 9), STELE_STALE_BROKER_EPOCH);
    assert_int_equal(stele_registry_admit(&f->registry, 2, 50, 9), STELE_STALE_BROKER_EPOCH);
    assert_ok(stele_registry_admit(&f->registry, 1, 50, 1));
    assert_ok(stele_registry_admit(&f->registry, 1, 50, 4));
    assert_int_equal(stele_registry_admit(&f->registry, 1, 50, 4), STELE_REQUEST_TIMED_OUT);
    assert_int_equal(stele_registry_admit(&f->registry, 1, 50, 3), STELE_REQUEST_TIMED_OUT);
    struct stele_heartbeat_verdict verdict;
    f->now_ms += SESSION_MS;
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), 1);
    apply(f, 1, &verdict);
    assert_int_equal(stele_registry_admit(&f->registry, 1, 50, 4), STELE_REQUEST_TIMED_OUT);
    const struct stele_node_request request = request_of(1, 2);
    (void)registered(f, &request);
    assert_ok(stele_registry_admit(&f->registry, 1, epoch_of(f, 1), 1));
}

/* The same life again: epoch and flags stay, addresses are amended, the session goes on (4.2.8). */
static void test_same_life(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    struct stele_node_request request = request_of(1, 1);
    request.node.listeners[0].port = 9000;
    const struct stele_registration_verdict verdict = registered(f, &request);
    assert_true(verdict.is_same_incarnation);
    assert_false(verdict.has_lost_memory);
    assert_int_equal(verdict.record.node_epoch, 50);
    assert_true(stele_registry_is_active_node(&f->registry, 1));
    assert_int_equal(stele_registry_find(&f->registry, 1)->listeners[0].port, 9000);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SESSION_MS);
}

struct restart_case {
    const char *name;
    int64_t previous_epoch; /* the first life's is 50 */
    struct stele_uuid boot_id;
    uint8_t directories[2]; /* the first life had 1 and 2 */
    uint32_t offline;
    bool has_lost_memory;
    uint32_t lost_directories;
};

static const struct restart_case RESTARTS[] = {
    {"killed, the kernel lives", -1, {{1, [15] = 1}}, {1, 2}, 0, false, 0},
    {"clean stop, then another boot", 50, {{7}}, {1, 2}, 0, false, 0},
    {"power failure", -1, {{7}}, {1, 2}, 0, true, 0},
    {"clean stop of an older life", 49, {{7}}, {1, 2}, 0, true, 0},
    {"boot not known", -1, {{0}}, {1, 2}, 0, true, 0},
    {"killed, directories in another order", -1, {{1, [15] = 1}}, {2, 1}, 0, false, 0},
    {"one disk replaced", 50, {{1, [15] = 1}}, {1, 3}, 0, false, 2},
    {"all disks wiped, same boot (B29)", -1, {{1, [15] = 1}}, {3, 4}, 0, false, 3},
    {"one disk had failed", -1, {{1, [15] = 1}}, {1, 2}, 1, false, 1},
};

/* What a restart costs: nothing where memory was kept, all where it was not (4.2.9; boot id and directories: design).
 */
static void test_restart(void **state)
{
    struct fixture *f;
    setup((void **)&f);
    const struct restart_case *c = *state;
    struct stele_node_request request = request_of(1, 1);
    request.node.directories[0] = uuid(0xd0, 1);
    request.node.directories[1] = uuid(0xd0, 2);
    request.node.directory_count = 2;
    (void)registered(f, &request);
    struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    heartbeat.offline_directories = c->offline;
    assert_int_equal(beat(f, &heartbeat, false).offline_directories, c->offline);
    struct stele_heartbeat_verdict fence;
    f->now_ms += SESSION_MS;
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &fence), 1);
    apply(f, 1, &fence);
    request.node.incarnation_id = uuid(1, 2);
    request.node.boot_id = c->boot_id;
    request.node.directories[0] = uuid(0xd0, c->directories[0]);
    request.node.directories[1] = uuid(0xd0, c->directories[1]);
    request.previous_epoch = c->previous_epoch;
    const struct stele_registration_verdict verdict = registered(f, &request);
    assert_int_equal(verdict.has_lost_memory, c->has_lost_memory);
    assert_int_equal(verdict.lost_directories, c->lost_directories);
    assert_true(verdict.record.is_fenced);
    assert_int_equal(verdict.record.offline_directories, 0);
    *state = f;
    teardown(state);
}

/* A directory that did not serve in the last life that did is an older copy; one of which nothing is known, or that
 * another life registered for and never served with, is not. */
static void test_older_copy(void **state)
{
    static const struct {
        int64_t served[2];
        uint32_t older;
    } cases[] = {{{50, 50}, 0}, {{50, 49}, 2}, {{0, 0}, 0}, {{49, 50}, 1}, {{51, 60}, 0}, {{1, 1}, 3}};
    struct fixture *f = *state;
    struct stele_node_request request = request_of(1, 1);
    request.node.directories[0] = uuid(0xd0, 1);
    request.node.directories[1] = uuid(0xd0, 2);
    request.node.directory_count = 2;
    (void)registered(f, &request);
    struct stele_node_registration record = *stele_registry_find(&f->registry, 1);
    record.served_epoch = 50;
    record.is_fenced = true;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        assert_ok(stele_registry_apply(&f->registry, &record));
        request.node.incarnation_id = uuid(1, (uint8_t)(10 + i));
        for (int k = 0; k < 2; k++)
            request.served_epochs[k] = cases[i].served[k];
        const struct stele_registration_verdict verdict = registered(f, &request);
        assert_int_equal(verdict.older_directories, cases[i].older);
        assert_int_equal(verdict.lost_directories, 0);
        assert_int_equal(verdict.record.served_epoch, 50);
        record.node_epoch = verdict.record.node_epoch;
    }
}

struct beat_case {
    const char *name;
    enum stele_node_state from;
    bool wants_fence, wants_shutdown, leads, is_behind;
    enum stele_node_state to;
    bool has_change, elects;
};

static const struct beat_case BEATS[] = {
    {"4.3.4 fenced, caught up", STELE_NODE_FENCED, false, false, false, false, STELE_NODE_UNFENCED, true, true},
    {"4.3.4 fenced, behind (B45)", STELE_NODE_FENCED, false, false, false, true, STELE_NODE_FENCED, false, false},
    {"4.3.4 fenced, wants it", STELE_NODE_FENCED, true, false, false, false, STELE_NODE_FENCED, false, false},
    {"4.3.4 fenced, shuts down", STELE_NODE_FENCED, false, true, false, true, STELE_NODE_SHUTDOWN_NOW, false, false},
    {"4.3.5 stays", STELE_NODE_UNFENCED, false, false, true, true, STELE_NODE_UNFENCED, false, false},
    {"4.3.5 wants to be fenced", STELE_NODE_UNFENCED, true, false, true, false, STELE_NODE_FENCED, true, false},
    {"4.3.5 both", STELE_NODE_UNFENCED, true, true, true, false, STELE_NODE_SHUTDOWN_NOW, true, false},
    {"4.3.5 shuts down, leads", STELE_NODE_UNFENCED, false, true, true, false, STELE_NODE_SHUTTING_DOWN, true, false},
    {"4.3.5 shuts down, leads nothing", STELE_NODE_UNFENCED, false, true, false, false, STELE_NODE_SHUTDOWN_NOW, true,
     false},
    {"4.3.6 still leads", STELE_NODE_SHUTTING_DOWN, false, true, true, false, STELE_NODE_SHUTTING_DOWN, false, false},
    {"4.3.6 may go", STELE_NODE_SHUTTING_DOWN, false, true, false, false, STELE_NODE_SHUTDOWN_NOW, true, false},
};

/* Every arc of the states of a life, and what the answer says. */
static void test_beat(void **state)
{
    struct fixture *f;
    setup((void **)&f);
    const struct beat_case *c = *state;
    struct stele_node_request request = request_of(1, 1);
    (void)registered(f, &request);
    struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    if (c->from != STELE_NODE_FENCED) {
        (void)beat(f, &heartbeat, true);
    }
    if (c->from == STELE_NODE_SHUTTING_DOWN) {
        heartbeat.wants_shutdown = true;
        (void)beat(f, &heartbeat, true);
        stele_registry_shutdown_written(&f->registry, 1, 60);
    }
    heartbeat.wants_fence = c->wants_fence;
    heartbeat.wants_shutdown = c->wants_shutdown;
    heartbeat.metadata_offset = c->is_behind ? 49 : 50;
    const struct stele_heartbeat_verdict verdict = beat(f, &heartbeat, c->leads);
    assert_int_equal(verdict.from, c->from);
    assert_int_equal(verdict.to, c->to);
    assert_int_equal(verdict.has_change, c->has_change);
    assert_int_equal(verdict.elects, c->elects);
    assert_int_equal(verdict.answer_is_caught_up, !c->is_behind);
    assert_int_equal(verdict.answer_should_shut_down, c->to == STELE_NODE_SHUTDOWN_NOW);
    const bool is_fenced = c->to == STELE_NODE_FENCED || c->to == STELE_NODE_SHUTDOWN_NOW;
    assert_int_equal(verdict.answer_is_fenced, is_fenced);
    assert_int_equal(stele_registry_find(&f->registry, 1)->is_fenced, is_fenced); /* 4.3.7 */
    assert_int_equal(stele_registry_is_active_node(&f->registry, 1), c->to == STELE_NODE_UNFENCED);
    *state = f;
    teardown(state);
}

/* Heartbeats of who is not registered, or of another life, have their errors (4.3.2). */
static void test_beat_refusals(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    struct stele_heartbeat_verdict verdict;
    struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    heartbeat.node_epoch--;
    assert_int_equal(stele_registry_heartbeat(&f->registry, &heartbeat, false, &verdict), STELE_STALE_BROKER_EPOCH);
    assert_int_equal(stele_registry_apply_flags(&f->registry, 1, 49, &verdict, 0), STELE_STALE_BROKER_EPOCH);
    heartbeat.node_id = 2;
    assert_int_equal(stele_registry_heartbeat(&f->registry, &heartbeat, false, &verdict),
                     STELE_BROKER_ID_NOT_REGISTERED);
    assert_int_equal(stele_registry_apply_flags(&f->registry, 2, 49, &verdict, 0), STELE_BROKER_ID_NOT_REGISTERED);
}

/* A node goes only when every active node knows the new leaders, by an offset that is taken once (4.3.6, 4.3.19). */
static void test_shutdown_waits(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    join(f, 2);
    join(f, 3);
    struct stele_heartbeat going = heartbeat_of(f, 1), other = heartbeat_of(f, 2), third = heartbeat_of(f, 3);
    going.wants_shutdown = true;
    assert_int_equal(beat(f, &going, true).to, STELE_NODE_SHUTTING_DOWN);
    assert_int_equal(beat(f, &going, false).to, STELE_NODE_SHUTTING_DOWN); /* its offset is not known yet */
    stele_registry_shutdown_written(&f->registry, 1, 100);
    stele_registry_shutdown_written(&f->registry, 1, 200);
    other.metadata_offset = 100;
    (void)beat(f, &other, true);
    third.metadata_offset = 99;
    (void)beat(f, &third, true);
    assert_int_equal(beat(f, &going, false).to, STELE_NODE_SHUTTING_DOWN);
    third.metadata_offset = 100;
    (void)beat(f, &third, true);
    const struct stele_heartbeat_verdict verdict = beat(f, &going, false);
    assert_int_equal(verdict.to, STELE_NODE_SHUTDOWN_NOW);
    /* It is not active again in this life, whatever it asks for. */
    going.wants_shutdown = false;
    assert_int_equal(beat(f, &going, false).to, STELE_NODE_FENCED);
}

/* A controller that takes over in a controlled shutdown waits anew, for what is in the log now. */
static void test_shutdown_takeover(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    join(f, 2);
    struct stele_heartbeat going = heartbeat_of(f, 1), other = heartbeat_of(f, 2);
    going.wants_shutdown = true;
    (void)beat(f, &going, true);
    stele_registry_shutdown_written(&f->registry, 1, 10);
    stele_registry_deactivate(&f->registry);
    stele_registry_activate(&f->registry, f->now_ms);
    const struct stele_heartbeat_verdict verdict = beat(f, &going, false);
    assert_int_equal(verdict.to, STELE_NODE_SHUTTING_DOWN);
    assert_false(verdict.has_change);
    stele_registry_shutdown_written(&f->registry, 1, 70);
    other.metadata_offset = 69;
    (void)beat(f, &other, false);
    assert_int_equal(beat(f, &going, false).to, STELE_NODE_SHUTTING_DOWN);
    other.metadata_offset = 70;
    (void)beat(f, &other, false);
    assert_int_equal(beat(f, &going, false).to, STELE_NODE_SHUTDOWN_NOW);
}

/* Offline directories add up within a life, those that it does not have are passed over (4.3.15). */
static void test_offline(void **state)
{
    struct fixture *f = *state;
    struct stele_node_request request = request_of(1, 1);
    request.node.directories[1] = uuid(0xd1, 1);
    request.node.directory_count = 2;
    (void)registered(f, &request);
    struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    heartbeat.offline_directories = 1;
    assert_true(beat(f, &heartbeat, false).has_change);
    assert_false(beat(f, &heartbeat, false).has_change);
    heartbeat.offline_directories = 0xfe;
    assert_int_equal(beat(f, &heartbeat, false).offline_directories, 3);
    heartbeat.offline_directories = 0;
    assert_int_equal(beat(f, &heartbeat, false).offline_directories, 3);
    const struct stele_uuid ids[] = {uuid(0xd1, 1), uuid(0xd9, 9)};
    assert_int_equal(stele_node_directory_bits(stele_registry_find(&f->registry, 1), ids, 2), 2);
    /* The same life, with one directory less. */
    request.node.directory_count = 1;
    assert_int_equal(registered(f, &request).record.offline_directories, 1);
}

/* One node is fenced a time, the most overdue first, and one that was heard of meanwhile is not (4.3.9, B44). */
static void test_expiry(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    f->now_ms += 10;
    join(f, 3);
    f->now_ms += 10;
    join(f, 2);
    struct stele_heartbeat_verdict verdict;
    assert_int_equal(stele_registry_deadline(&f->registry), 1000 + SESSION_MS);
    assert_int_equal(stele_registry_expired(&f->registry, 999 + SESSION_MS, &verdict), STELE_NO_NODE);
    f->now_ms += 2L * SESSION_MS;
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), 1);
    assert_true(verdict.has_change);
    assert_true(verdict.is_fenced);
    assert_int_equal(verdict.to, STELE_NODE_FENCED);
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), 1); /* until it is replayed */
    apply(f, 1, &verdict);
    stele_registry_touch(&f->registry, 3, epoch_of(f, 3), f->now_ms);
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), 2);
    apply(f, 2, &verdict);
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), STELE_NO_NODE);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SESSION_MS);
    /* Contact of a fenced node makes no session: a restart of it would look like a duplicate (KAFKA-19130). */
    stele_registry_touch(&f->registry, 1, epoch_of(f, 1), f->now_ms);
    assert_false(stele_registry_has_session(&f->registry, 1, f->now_ms));
}

/* Contact counts when it arrives, though the heartbeat is worked on after the session would have ended (4.3.20). */
static void test_touch(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    const struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    struct stele_heartbeat_verdict verdict;
    stele_registry_touch(&f->registry, 1, heartbeat.node_epoch - 1, f->now_ms + 5000); /* another life */
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SESSION_MS);
    stele_registry_touch(&f->registry, 1, heartbeat.node_epoch, f->now_ms + 5000);
    f->now_ms += SESSION_MS + 4999;
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), STELE_NO_NODE);
    assert_ok(stele_registry_heartbeat(&f->registry, &heartbeat, false, &verdict));
    assert_int_equal(verdict.to, STELE_NODE_UNFENCED);
}

/* A new controller gives every node that is not fenced a full session; one that is down is fenced after it, and a node
 * that is not the controller fences nobody (4.3.8, 4.3.16, L11). */
static void test_takeover(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    const struct stele_node_request request = request_of(2, 1);
    (void)registered(f, &request);
    struct stele_heartbeat_verdict verdict;
    stele_registry_deactivate(&f->registry);
    f->now_ms += 10L * SESSION_MS;
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), STELE_NO_NODE);
    stele_registry_touch(&f->registry, 1, epoch_of(f, 1), f->now_ms);
    assert_int_equal(stele_registry_deadline(&f->registry), INT64_MAX);
    stele_registry_activate(&f->registry, f->now_ms);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SESSION_MS);
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms + SESSION_MS, &verdict), 1);
    assert_false(stele_registry_has_session(&f->registry, 2, f->now_ms));
}

/* A closed connection leaves a short session, which any contact makes full again; not of another life, not longer. */
static void test_suspicion(void **state)
{
    struct fixture *f = *state;
    join(f, 1);
    struct stele_heartbeat_verdict verdict;
    stele_registry_suspect(&f->registry, 1, epoch_of(f, 1) - 1, f->now_ms);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SESSION_MS);
    stele_registry_suspect(&f->registry, 1, epoch_of(f, 1), f->now_ms);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SUSPICION_MS);
    stele_registry_suspect(&f->registry, 1, epoch_of(f, 1), f->now_ms + 100);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SUSPICION_MS);
    stele_registry_touch(&f->registry, 1, epoch_of(f, 1), f->now_ms + 200);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + 200 + SESSION_MS);
    stele_registry_suspect(&f->registry, 1, epoch_of(f, 1), f->now_ms + 200);
    f->now_ms += 200 + SUSPICION_MS;
    assert_int_equal(stele_registry_expired(&f->registry, f->now_ms, &verdict), 1);
    apply(f, 1, &verdict);
    stele_registry_suspect(&f->registry, 1, epoch_of(f, 1), f->now_ms);
    assert_int_equal(stele_registry_deadline(&f->registry), INT64_MAX);
    /* Falsely suspected: it heartbeats, is unfenced, and has a full session. */
    const struct stele_heartbeat heartbeat = heartbeat_of(f, 1);
    assert_true(beat(f, &heartbeat, false).elects);
    assert_int_equal(stele_registry_deadline(&f->registry), f->now_ms + SESSION_MS);
}

/* Nodes are kept by id, removed, viewed once each, and copied without their sessions. */
static void test_table(void **state)
{
    struct fixture *f = *state;
    for (int32_t i = 0; i < 20; i++) {
        join(f, i * 7 % 20);
    }
    stele_registry_apply_removal(&f->registry, 5);
    stele_registry_apply_removal(&f->registry, 5);
    assert_null(stele_registry_find(&f->registry, 5));
    assert_int_equal(f->registry.count, 19);
    for (int32_t i = 1; i < 19; i++) {
        assert_true(stele_registry_at(&f->registry, i - 1)->node_id < stele_registry_at(&f->registry, i)->node_id);
    }
    assert_null(stele_registry_at(&f->registry, 19));
    const struct stele_node_set set = {.ids = {4, 5, 6}, .count = 3}, more = {.ids = {6, 7}, .count = 2};
    struct stele_partition_view view = {.count = 0};
    stele_registry_view(&f->registry, &set, &view);
    stele_registry_view(&f->registry, &more, &view);
    assert_int_equal(view.count, 3);
    assert_int_equal(view.nodes[1].node_id, 6);
    assert_int_equal(view.nodes[1].node_epoch, epoch_of(f, 6));
    assert_true(view.nodes[1].is_active);
    struct stele_registry copy;
    stele_registry_init(&copy, &f->mem.mem, SETTINGS);
    assert_ok(stele_registry_copy(&copy, &f->registry));
    assert_int_equal(copy.count, 19);
    assert_int_equal(stele_registry_find(&copy, 19)->node_epoch, epoch_of(f, 19));
    assert_int_equal(stele_registry_deadline(&copy), INT64_MAX);
    stele_registry_deinit(&copy);
}

/* The table has its bound, for registering and for replaying. */
static void test_bound(void **state)
{
    struct fixture *f = *state;
    struct stele_node_request request;
    for (int32_t i = 0; i < STELE_NODES_MAX; i++) {
        request = request_of(i, 1);
        request.node.directories[0] = uuid((uint8_t)(1 + i % 200), (uint8_t)(100 + i / 200));
        (void)registered(f, &request);
    }
    request = request_of(STELE_NODES_MAX, 1);
    assert_int_equal(refusal(f, &request), STELE_INVALID_REGISTRATION);
    assert_int_equal(stele_registry_apply(&f->registry, &request.node), STELE_TOO_LARGE);
}

/* Whatever allocation fails, the registry is as before and goes on. */
static void test_no_memory(void **state)
{
    struct fixture *f = *state;
    struct stele_registry copy;
    stele_registry_init(&copy, &f->mem.mem, SETTINGS);
    for (int32_t i = 0; i < 20; i++) {
        const struct stele_node_request request = request_of(i, 1);
        stele_test_mem_fail(&f->mem, 1, false);
        const enum stele_err err = stele_registry_apply(&f->registry, &request.node);
        if (err != STELE_OK) {
            assert_int_equal(err, STELE_NO_MEMORY);
            assert_int_equal(f->registry.count, i);
            assert_null(stele_registry_find(&f->registry, i));
            assert_ok(stele_registry_apply(&f->registry, &request.node));
        }
        assert_int_equal(f->registry.count, i + 1);
    }
    stele_test_mem_fail(&f->mem, 1, false);
    assert_int_equal(stele_registry_copy(&copy, &f->registry), STELE_NO_MEMORY);
    assert_int_equal(copy.count, 0);
    assert_ok(stele_registry_copy(&copy, &f->registry));
    stele_registry_deinit(&copy);
}

int main(void)
{
    struct CMUnitTest tests[STELE_ARRAY_LEN(RESTARTS) + STELE_ARRAY_LEN(BEATS) + 18];
    size_t count = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(RESTARTS); i++) {
        tests[count++] = (struct CMUnitTest){
            .name = RESTARTS[i].name, .test_func = test_restart, .initial_state = (void *)(uintptr_t)&RESTARTS[i]};
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(BEATS); i++) {
        tests[count++] = (struct CMUnitTest){
            .name = BEATS[i].name, .test_func = test_beat, .initial_state = (void *)(uintptr_t)&BEATS[i]};
    }
    static const struct CMUnitTest others[] = {
        cmocka_unit_test_setup_teardown(test_register, setup, teardown),
        cmocka_unit_test_setup_teardown(test_register_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_outlived, setup, teardown),
        cmocka_unit_test_setup_teardown(test_admit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_beat_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shutdown_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shutdown_takeover, setup, teardown),
        cmocka_unit_test_setup_teardown(test_offline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expiry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_touch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_takeover, setup, teardown),
        cmocka_unit_test_setup_teardown(test_suspicion, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(others); i++) {
        tests[count++] = others[i];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
