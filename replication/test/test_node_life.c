/* A node registers, serves, is fenced, comes back and leaves as the controller says; answers that are not its own
 * change nothing; all against a model of the owner that carries events in and requests out. */
#include "replication/node_life.h"

#include "base/test/support.h"
#include "replication/guard.h"

#include <string.h>

int stele_mutation;

enum { HEARTBEAT_MS = 2000, LEAVE_MS = 30000, CONTROLLER = 3 };

struct fixture {
    struct stele_node_life life;
    struct stele_life_update update;
    int64_t now_ms;
};

static struct stele_uuid incarnation(uint8_t number)
{
    return (struct stele_uuid){.bytes = {number}};
}

static int setup(void **state)
{
    static struct fixture fixture;
    const struct stele_life_settings settings = {
        .node_id = 1, .incarnation_id = incarnation(7), .heartbeat_ms = HEARTBEAT_MS, .leave_ms_max = LEAVE_MS};
    fixture = (struct fixture){.now_ms = 1000};
    stele_node_life_init(&fixture.life, &settings, fixture.now_ms);
    *state = &fixture;
    return 0;
}

static const struct stele_life_update *happen(struct fixture *f, struct stele_life_event event)
{
    event.now_ms = f->now_ms;
    stele_node_life_step(&f->life, &event, &f->update);
    if (f->life.state != STELE_LIFE_STOPPED) {
        assert_int_equal(f->life.node_epoch < 0, f->life.state == STELE_LIFE_STARTING);
    }
    assert_true(!(f->update.sends_registration && f->update.sends_heartbeat));
    return &f->update;
}

static const struct stele_life_update *wait(struct fixture *f)
{
    const int64_t deadline_ms = stele_node_life_deadline(&f->life);
    assert_int_not_equal(deadline_ms, INT64_MAX);
    f->now_ms = stele_max_i64(f->now_ms, deadline_ms);
    return happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_TIME});
}

static const struct stele_life_update *know_controller(struct fixture *f, int32_t id)
{
    return happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_CONTROLLER, .controller_id = id});
}

static const struct stele_life_update *registered(struct fixture *f, enum stele_err err, int64_t epoch)
{
    return happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_REGISTERED,
                                               .request_id = f->life.request_id,
                                               .incarnation_id = incarnation(7),
                                               .err = err,
                                               .node_epoch = epoch});
}

static const struct stele_life_update *beaten(struct fixture *f, enum stele_err err, bool is_fenced, bool should_stop)
{
    return happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_BEATEN,
                                               .request_id = f->life.request_id,
                                               .err = err,
                                               .is_fenced = is_fenced,
                                               .should_shut_down = should_stop});
}

static const struct stele_life_update *applied(struct fixture *f, int64_t offset)
{
    return happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_METADATA, .metadata_offset = offset});
}

/* Registered at epoch 50, recovered, unfenced. */
static void run(struct fixture *f)
{
    assert_true(know_controller(f, CONTROLLER)->sends_registration);
    assert_true(registered(f, STELE_OK, 50)->has_state);
    (void)happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_RECOVERED});
    (void)applied(f, 60);
    assert_true(wait(f)->sends_heartbeat);
    assert_true(beaten(f, STELE_OK, false, false)->has_state);
    assert_int_equal(f->life.state, STELE_LIFE_RUNNING);
}

/* It asks not to be fenced only when its logs are open, tells what it applied, and does so soon after either. */
static void test_start(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(stele_node_life_deadline(&f->life), INT64_MAX); /* nobody to ask */
    assert_true(know_controller(f, CONTROLLER)->sends_registration);
    assert_false(know_controller(f, CONTROLLER)->sends_registration);
    (void)registered(f, STELE_OK, 50);
    assert_int_equal(f->life.state, STELE_LIFE_FENCED);
    assert_true(wait(f)->sends_heartbeat);
    assert_int_equal(f->now_ms, 1010);
    assert_int_equal(f->update.heartbeat.node_epoch, 50);
    assert_true(f->update.heartbeat.wants_fence);
    (void)beaten(f, STELE_OK, true, false);
    assert_int_equal(stele_node_life_deadline(&f->life), 1010 + HEARTBEAT_MS);
    (void)happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_RECOVERED});
    assert_true(wait(f)->sends_heartbeat);
    assert_false(f->update.heartbeat.wants_fence);
    /* It applies its own registration while that heartbeat is under way: the next one does not wait. */
    (void)applied(f, 49);
    (void)applied(f, 50);
    (void)beaten(f, STELE_OK, true, false);
    assert_int_equal(stele_node_life_deadline(&f->life), 1030);
    assert_true(wait(f)->sends_heartbeat);
    assert_int_equal(f->update.heartbeat.metadata_offset, 50);
    (void)beaten(f, STELE_OK, false, false);
    assert_int_equal(f->life.state, STELE_LIFE_RUNNING);
    assert_int_equal(stele_node_life_deadline(&f->life), 1030 + HEARTBEAT_MS);
}

/* An answer to another request or to an earlier incarnation changes nothing (M1, B41). */
static void test_foreign_answers(void **state)
{
    struct fixture *f = *state;
    (void)know_controller(f, CONTROLLER);
    struct stele_life_event answer = {.kind = STELE_LIFE_EVENT_REGISTERED,
                                      .request_id = f->life.request_id,
                                      .incarnation_id = incarnation(6),
                                      .node_epoch = 40};
    (void)happen(f, answer);
    assert_int_equal(f->life.state, STELE_LIFE_STARTING);
    answer.incarnation_id = incarnation(7);
    answer.request_id--;
    (void)happen(f, answer);
    assert_int_equal(f->life.state, STELE_LIFE_STARTING);
    (void)registered(f, STELE_OK, 50);
    (void)wait(f);
    const struct stele_life_event beat = {
        .kind = STELE_LIFE_EVENT_BEATEN, .request_id = f->life.request_id - 1, .should_shut_down = true};
    (void)happen(f, beat);
    assert_int_equal(f->life.state, STELE_LIFE_FENCED);
    assert_true(f->life.request_id != 0);
}

/* With the guard off, the epoch of an earlier life is taken. */
static void test_mutation_1(void **state)
{
    struct fixture *f = *state;
    (void)know_controller(f, CONTROLLER);
    stele_mutation = 1;
    (void)happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_REGISTERED,
                                              .request_id = f->life.request_id,
                                              .incarnation_id = incarnation(6),
                                              .node_epoch = 40});
    stele_mutation = 0;
    assert_int_equal(f->life.node_epoch, 40);
}

/* Refusals that waiting does not mend end it; others are tried again, ever later, with some spread (4.3.10). */
static void test_refusals(void **state)
{
    struct fixture *f = *state;
    static const enum stele_err fatal[] = {STELE_INCONSISTENT_CLUSTER_ID, STELE_INVALID_REGISTRATION,
                                           STELE_UNSUPPORTED_VERSION};
    for (size_t i = 0; i < STELE_ARRAY_LEN(fatal); i++) {
        setup(state);
        (void)know_controller(f, CONTROLLER);
        assert_int_equal(registered(f, fatal[i], -1)->failure, fatal[i]);
        assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
        assert_int_equal(stele_node_life_deadline(&f->life), INT64_MAX);
    }
    setup(state);
    (void)know_controller(f, CONTROLLER);
    int64_t expected_ms = STELE_LIFE_BACKOFF_MS;
    for (uint64_t i = 0; i < 10; i++) {
        (void)happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_REGISTERED,
                                                  .request_id = f->life.request_id,
                                                  .incarnation_id = incarnation(7),
                                                  .random = i * 977,
                                                  .err = STELE_DUPLICATE_BROKER_REGISTRATION});
        assert_int_equal(f->life.last_err, STELE_DUPLICATE_BROKER_REGISTRATION);
        const int64_t wait_ms = stele_node_life_deadline(&f->life) - f->now_ms;
        assert_in_range(wait_ms, expected_ms - expected_ms / 50, expected_ms + expected_ms / 50);
        expected_ms = stele_min_i64(2 * expected_ms, HEARTBEAT_MS);
        assert_true(wait(f)->sends_registration);
    }
    (void)registered(f, STELE_OK, 90);
    assert_int_equal(f->life.state, STELE_LIFE_FENCED);
}

/* Fenced by mistake it comes back by its next heartbeat; forgotten, it registers anew as the same incarnation. */
static void test_fenced_and_forgotten(void **state)
{
    struct fixture *f = *state;
    run(f);
    (void)wait(f);
    assert_true(beaten(f, STELE_OK, true, false)->has_state);
    assert_int_equal(f->life.state, STELE_LIFE_FENCED);
    (void)wait(f);
    assert_true(beaten(f, STELE_OK, false, false)->has_state);
    static const enum stele_err forgotten[] = {STELE_STALE_BROKER_EPOCH, STELE_BROKER_ID_NOT_REGISTERED};
    for (size_t i = 0; i < STELE_ARRAY_LEN(forgotten); i++) {
        (void)wait(f);
        assert_true(beaten(f, forgotten[i], false, false)->has_state);
        assert_int_equal(f->life.state, STELE_LIFE_STARTING);
        assert_true(wait(f)->sends_registration);
        (void)registered(f, STELE_OK, 55 + (int64_t)i);
        assert_true(wait(f)->sends_heartbeat);
        assert_int_equal(f->update.heartbeat.node_epoch, 55 + (int64_t)i);
        assert_false(f->update.heartbeat.wants_fence);
        (void)beaten(f, STELE_OK, false, false);
    }
}

/* A new controller hears of the node at once, and the answer of the old one does not count any more. */
static void test_new_controller(void **state)
{
    struct fixture *f = *state;
    run(f);
    (void)wait(f);
    const uint64_t old_request = f->life.request_id;
    assert_false(know_controller(f, STELE_NO_NODE)->sends_heartbeat);
    assert_int_equal(stele_node_life_deadline(&f->life), INT64_MAX);
    assert_true(know_controller(f, 2)->sends_heartbeat);
    (void)happen(f, (struct stele_life_event){
                        .kind = STELE_LIFE_EVENT_BEATEN, .request_id = old_request, .err = STELE_NOT_CONTROLLER});
    assert_int_equal(f->life.last_err, STELE_OK);
    (void)beaten(f, STELE_UNREACHABLE, false, false);
    assert_int_equal(f->life.state, STELE_LIFE_RUNNING);
    assert_true(stele_node_life_deadline(&f->life) < f->now_ms + 2 * STELE_LIFE_BACKOFF_MS);
}

/* A failed directory is told at once, and again with every heartbeat. */
static void test_offline(void **state)
{
    struct fixture *f = *state;
    run(f);
    const struct stele_life_event event = {.kind = STELE_LIFE_EVENT_OFFLINE, .offline_directories = 2};
    assert_true(happen(f, event)->sends_heartbeat);
    assert_int_equal(f->update.heartbeat.offline_directories, 2);
    (void)beaten(f, STELE_OK, false, false);
    assert_false(happen(f, event)->sends_heartbeat);
    (void)wait(f);
    assert_int_equal(f->update.heartbeat.offline_directories, 2);
}

/* It leaves when the controller lets it, asking often; at the latest after the time it was given. */
static void test_leave(void **state)
{
    struct fixture *f = *state;
    const struct stele_life_event leave = {.kind = STELE_LIFE_EVENT_LEAVE};
    run(f);
    assert_true(happen(f, leave)->sends_heartbeat);
    assert_true(f->update.heartbeat.wants_shutdown);
    assert_int_equal(f->life.state, STELE_LIFE_LEAVING);
    (void)beaten(f, STELE_OK, false, false);
    assert_int_equal(stele_node_life_deadline(&f->life), f->now_ms + STELE_LIFE_LEAVING_MS);
    assert_false(happen(f, leave)->has_state);
    (void)wait(f);
    assert_true(beaten(f, STELE_OK, true, true)->has_state);
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
    assert_int_equal(f->life.node_epoch, 50); /* goes to disk with a clean stop */
    assert_int_equal(stele_node_life_deadline(&f->life), INT64_MAX);
    setup(state);
    run(f);
    (void)happen(f, leave);
    const int64_t start_ms = f->now_ms;
    (void)know_controller(f, STELE_NO_NODE);
    (void)wait(f);
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
    assert_int_equal(f->now_ms, start_ms + LEAVE_MS);
}

/* Leaving before it was registered, or when it is forgotten meanwhile, needs nobody's leave. */
static void test_leave_unknown(void **state)
{
    struct fixture *f = *state;
    const struct stele_life_event leave = {.kind = STELE_LIFE_EVENT_LEAVE};
    (void)know_controller(f, CONTROLLER);
    (void)happen(f, leave);
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
    assert_false(registered(f, STELE_OK, 50)->has_state);
    setup(state);
    run(f);
    (void)happen(f, leave);
    (void)beaten(f, STELE_BROKER_ID_NOT_REGISTERED, false, false);
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
    assert_int_equal(f->life.node_epoch, -1);
}

/* While nobody answers it does not wait for all of its time, but each answer lets it go on. */
static void test_leave_silence(void **state)
{
    struct fixture *f = *state;
    enum { SILENCE_MS = 2000 };
    f->life.settings.leave_silence_ms_max = SILENCE_MS;
    run(f);
    const int64_t start_ms = f->now_ms;
    (void)happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_LEAVE});
    while (f->now_ms < start_ms + 3 * SILENCE_MS) {
        f->now_ms += SILENCE_MS / 4;
        assert_false(beaten(f, STELE_OK, false, false)->has_state);
        assert_true(wait(f)->sends_heartbeat);
    }
    const int64_t heard_ms = f->now_ms - STELE_LIFE_LEAVING_MS;
    (void)know_controller(f, STELE_NO_NODE);
    (void)wait(f);
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
    assert_int_equal(f->now_ms, heard_ms + SILENCE_MS);
    setup(state);
    f->life.settings.leave_silence_ms_max = SILENCE_MS;
    f->life.settings.leave_ms_max = SILENCE_MS / 2;
    run(f);
    const int64_t again_ms = f->now_ms;
    (void)happen(f, (struct stele_life_event){.kind = STELE_LIFE_EVENT_LEAVE});
    (void)wait(f);
    assert_int_equal(f->now_ms, again_ms + SILENCE_MS / 2);
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
}

/* Another life with a session may be an earlier one of this node: it waits for its end, and not for ever. What is
 * answered otherwise in between begins the wait anew only when it was taken. */
static void test_duplicate(void **state)
{
    struct fixture *f = *state;
    enum { PATIENCE_MS = 20000 };
    f->life.settings.duplicate_ms_max = PATIENCE_MS;
    (void)know_controller(f, CONTROLLER);
    f->now_ms += PATIENCE_MS; /* without an answer no time has passed */
    const int64_t start_ms = f->now_ms;
    int refusals = 0;
    for (enum stele_err failure = STELE_OK; failure == STELE_OK; refusals++) {
        const enum stele_err err = refusals == 3 ? STELE_CLOSED : STELE_DUPLICATE_BROKER_REGISTRATION;
        failure = registered(f, err, -1)->failure;
        if (failure == STELE_OK)
            (void)wait(f);
    }
    assert_int_equal(f->life.state, STELE_LIFE_STOPPED);
    assert_int_equal(f->life.last_err, STELE_DUPLICATE_BROKER_REGISTRATION);
    assert_in_range(f->now_ms - start_ms, PATIENCE_MS, PATIENCE_MS + HEARTBEAT_MS * 11 / 10);
    setup(state);
    f->life.settings.duplicate_ms_max = PATIENCE_MS;
    (void)know_controller(f, CONTROLLER);
    (void)registered(f, STELE_DUPLICATE_BROKER_REGISTRATION, -1);
    (void)wait(f);
    (void)registered(f, STELE_OK, 50);
    (void)wait(f);
    (void)beaten(f, STELE_BROKER_ID_NOT_REGISTERED, false, false);
    f->now_ms += 2 * PATIENCE_MS;
    (void)wait(f);
    assert_int_equal(registered(f, STELE_DUPLICATE_BROKER_REGISTRATION, -1)->failure, STELE_OK);
}

/* The controller may take it for gone when a connection closes: it is heard of at once, whether a request was under way
 * or not, and only once by itself. */
static void test_shaken(void **state)
{
    struct fixture *f = *state;
    const struct stele_life_event shaken = {.kind = STELE_LIFE_EVENT_SHAKEN};
    assert_int_equal(happen(f, shaken)->request_id, 0);
    run(f);
    (void)happen(f, shaken);
    assert_int_equal(stele_node_life_deadline(&f->life), f->now_ms + STELE_LIFE_SOON_MS);
    assert_true(wait(f)->sends_heartbeat);
    (void)happen(f, shaken);
    (void)beaten(f, STELE_CLOSED, false, false);
    assert_int_equal(stele_node_life_deadline(&f->life), f->now_ms + STELE_LIFE_SOON_MS);
    assert_true(wait(f)->sends_heartbeat);
    (void)beaten(f, STELE_CLOSED, false, false);
    assert_true(stele_node_life_deadline(&f->life) > f->now_ms + STELE_LIFE_BACKOFF_MS);
}

/* While a node leaves, the others do not keep what they have applied for their next heartbeat. */
static void test_awaited(void **state)
{
    struct fixture *f = *state;
    struct stele_life_event event = {.kind = STELE_LIFE_EVENT_METADATA, .metadata_offset = 61};
    run(f);
    (void)happen(f, event);
    assert_int_equal(stele_node_life_deadline(&f->life), f->now_ms + HEARTBEAT_MS);
    event.is_awaited = true;
    (void)happen(f, event); /* nothing new */
    assert_int_equal(stele_node_life_deadline(&f->life), f->now_ms + HEARTBEAT_MS);
    event.metadata_offset++;
    (void)happen(f, event);
    assert_int_equal(stele_node_life_deadline(&f->life), f->now_ms + STELE_LIFE_SOON_MS);
    assert_true(wait(f)->sends_heartbeat);
    assert_int_equal(f->update.heartbeat.metadata_offset, 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_start, setup),
        cmocka_unit_test_setup(test_foreign_answers, setup),
        cmocka_unit_test_setup(test_mutation_1, setup),
        cmocka_unit_test_setup(test_refusals, setup),
        cmocka_unit_test_setup(test_fenced_and_forgotten, setup),
        cmocka_unit_test_setup(test_new_controller, setup),
        cmocka_unit_test_setup(test_offline, setup),
        cmocka_unit_test_setup(test_leave, setup),
        cmocka_unit_test_setup(test_leave_unknown, setup),
        cmocka_unit_test_setup(test_leave_silence, setup),
        cmocka_unit_test_setup(test_duplicate, setup),
        cmocka_unit_test_setup(test_shaken, setup),
        cmocka_unit_test_setup(test_awaited, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
