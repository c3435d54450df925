/* Nodes' lives against a registry, at random: processes die and come back, leave in order, controllers change, requests
 * and answers are late or lost, connections close for nothing. Checked all the time:
 *
 *   an epoch belongs to one incarnation; a life that thinks it is registered is the registered one or a fenced past
 *   L11 a dead node is not active longer than a session after its death or the controller's start
 *   L10 when the faults stop, every live node comes to run and is active; who was asked to leave has left
 *
 * An argument is the number of a guard that is off (replication/guard.h): that must be noticed. */
#include "base/test/support.h"
#include "replication/guard.h"
#include "replication/node_life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int stele_mutation;

enum {
    NODES = 4,
    STEP_MS = 5,
    FAULTS_MS = 40000,
    END_MS = 70000,
    SESSION_MS = 3000,
    SUSPICION_MS = 200,
    DELAY_MS_MAX = 60,
    LATE_MS_MAX = 5000,
    LOST_MS = 400, /* after which a sender takes its request for lost */
    MESSAGES_MAX = 64,
    SEEDS = 60
};

enum message_kind { NO_MESSAGE, REGISTRATION, HEARTBEAT, REGISTRATION_ANSWER, HEARTBEAT_ANSWER };

struct message {
    enum message_kind kind;
    int32_t node_id;
    int64_t at_ms;
    uint64_t life;
    struct stele_uuid incarnation_id;
    uint64_t request_id;
    int64_t previous_epoch;
    struct stele_heartbeat heartbeat;
    struct stele_life_event answer;
};

struct node {
    struct stele_node_life life;
    uint64_t number; /* of its life; 0: dead */
    int64_t dead_ms, previous_epoch;
    bool is_leaving;
};

struct world {
    struct stele_test_mem mem;
    struct stele_prng prng;
    struct stele_registry registry;
    struct node nodes[NODES + 1];
    struct message messages[MESSAGES_MAX];
    int64_t now_ms, last_offset, active_since_ms, back_ms; /* back_ms: when there is a controller again; 0: there is */
    uint64_t lives;
    int64_t registrations, expirations, departures, failovers, refusals;
};

static int64_t below(struct world *w, int64_t bound)
{
    return (int64_t)stele_prng_below(&w->prng, (uint64_t)bound);
}

static struct stele_uuid incarnation_of(uint64_t life)
{
    struct stele_uuid id = {.bytes = {1}};
    memcpy(id.bytes + 8, &life, sizeof life);
    return id;
}

static void post(struct world *w, const struct message *message, int64_t delay_ms)
{
    for (int32_t i = 0; i < MESSAGES_MAX; i++) {
        if (w->messages[i].kind == NO_MESSAGE) {
            w->messages[i] = *message;
            w->messages[i].at_ms = w->now_ms + delay_ms;
            return;
        }
    }
    fail_msg("too many messages under way");
}

static int64_t delay(struct world *w)
{
    return 1 + below(w, DELAY_MS_MAX);
}

static bool is_lossy(const struct world *w)
{
    return w->now_ms < FAULTS_MS;
}

static void happen(struct world *w, int32_t id, struct stele_life_event event)
{
    struct node *node = &w->nodes[id];
    struct stele_life_update update;
    event.now_ms = w->now_ms;
    event.random = stele_prng_u64(&w->prng);
    stele_node_life_step(&node->life, &event, &update);
    assert_int_equal(update.failure, STELE_OK);
    if (node->life.state == STELE_LIFE_STOPPED) {
        node->previous_epoch = node->life.node_epoch;
        node->number = 0;
        node->dead_ms = w->now_ms;
        w->departures++;
        return;
    }
    if (!update.sends_registration && !update.sends_heartbeat) {
        return;
    }
    struct message message = {.kind = update.sends_registration ? REGISTRATION : HEARTBEAT,
                              .node_id = id,
                              .life = node->number,
                              .incarnation_id = node->life.settings.incarnation_id,
                              .request_id = update.request_id,
                              .previous_epoch = node->previous_epoch,
                              .heartbeat = update.heartbeat};
    if (!is_lossy(w) || below(w, 8) > 0) {
        post(w, &message, delay(w));
    }
    message.kind = update.sends_registration ? REGISTRATION_ANSWER : HEARTBEAT_ANSWER;
    message.answer = (struct stele_life_event){.kind = update.sends_registration ? STELE_LIFE_EVENT_REGISTERED
                                                                                 : STELE_LIFE_EVENT_BEATEN,
                                               .request_id = update.request_id,
                                               .incarnation_id = message.incarnation_id,
                                               .err = STELE_REQUEST_TIMED_OUT};
    post(w, &message, LOST_MS); /* not taken, when the true answer came before */
}

static void start(struct world *w, int32_t id)
{
    struct node *node = &w->nodes[id];
    node->number = ++w->lives;
    node->is_leaving = false;
    const struct stele_life_settings settings = {
        .node_id = id, .incarnation_id = incarnation_of(node->number), .heartbeat_ms = 500, .leave_ms_max = 20000};
    stele_node_life_init(&node->life, &settings, w->now_ms);
    happen(w, id, (struct stele_life_event){.kind = STELE_LIFE_EVENT_RECOVERED});
    if (w->back_ms == 0) {
        happen(w, id, (struct stele_life_event){.kind = STELE_LIFE_EVENT_CONTROLLER, .controller_id = 1});
    }
}

static void registration_handle(struct world *w, const struct message *message, struct stele_life_event *answer)
{
    struct stele_node_request request = {.previous_epoch = message->previous_epoch,
                                         .node = {.node_id = message->node_id,
                                                  .incarnation_id = message->incarnation_id,
                                                  .directories = {{.bytes = {9, (uint8_t)message->node_id}}},
                                                  .directory_count = 1,
                                                  .listeners = {{.name = "PEER", .host = "h", .port = 1}},
                                                  .listener_count = 1}};
    const struct stele_registry_terms terms = {.record_offset = w->last_offset + 1, .now_ms = w->now_ms};
    struct stele_registration_verdict verdict;
    answer->err = stele_registry_register(&w->registry, &request, &terms, &verdict);
    if (answer->err != STELE_OK) {
        w->refusals++;
        return;
    }
    assert_ok(stele_registry_apply(&w->registry, &verdict.record));
    w->last_offset++;
    w->registrations++;
    answer->node_epoch = verdict.record.node_epoch;
}

static void flags_apply(struct world *w, int32_t id, const struct stele_heartbeat_verdict *verdict)
{
    const int64_t epoch = stele_registry_find(&w->registry, id)->node_epoch;
    assert_ok(stele_registry_apply_flags(&w->registry, id, epoch, verdict, w->now_ms));
    w->last_offset++;
}

static void heartbeat_handle(struct world *w, const struct message *message, struct stele_life_event *answer)
{
    const struct stele_heartbeat *heartbeat = &message->heartbeat;
    struct stele_heartbeat_verdict verdict;
    stele_registry_touch(&w->registry, heartbeat->node_id, heartbeat->node_epoch, w->now_ms);
    answer->err = stele_registry_heartbeat(&w->registry, heartbeat, below(w, 3) == 0, &verdict);
    if (answer->err != STELE_OK) {
        return;
    }
    if (verdict.has_change) {
        flags_apply(w, heartbeat->node_id, &verdict);
    }
    if (verdict.to == STELE_NODE_SHUTTING_DOWN) {
        stele_registry_shutdown_written(&w->registry, heartbeat->node_id, w->last_offset);
    }
    answer->is_fenced = verdict.answer_is_fenced;
    answer->should_shut_down = verdict.answer_should_shut_down;
}

static void deliver(struct world *w, const struct message *message)
{
    struct node *node = &w->nodes[message->node_id];
    if (message->kind == REGISTRATION_ANSWER || message->kind == HEARTBEAT_ANSWER) {
        /* An answer to an earlier life's registration may reach a later one. */
        if (node->number == message->life || (node->number != 0 && message->kind == REGISTRATION_ANSWER)) {
            happen(w, message->node_id, message->answer);
        }
        return;
    }
    if (w->back_ms != 0) {
        return;
    }
    struct message answer = *message;
    answer.answer =
        (struct stele_life_event){.request_id = message->request_id, .incarnation_id = message->incarnation_id};
    if (message->kind == REGISTRATION) {
        answer.kind = REGISTRATION_ANSWER;
        answer.answer.kind = STELE_LIFE_EVENT_REGISTERED;
        registration_handle(w, message, &answer.answer);
    } else {
        answer.kind = HEARTBEAT_ANSWER;
        answer.answer.kind = STELE_LIFE_EVENT_BEATEN;
        heartbeat_handle(w, message, &answer.answer);
    }
    if (!is_lossy(w) || below(w, 8) > 0) { /* late ones come after the sender asked again, or in its next life */
        post(w, &answer, is_lossy(w) && below(w, 8) == 0 ? below(w, LATE_MS_MAX) : delay(w));
    }
}

static void controllers_known(struct world *w, int32_t controller_id)
{
    for (int32_t id = 1; id <= NODES; id++) {
        if (w->nodes[id].number != 0) {
            happen(w, id,
                   (struct stele_life_event){.kind = STELE_LIFE_EVENT_CONTROLLER, .controller_id = controller_id});
        }
    }
}

static void fault(struct world *w)
{
    const int32_t id = 1 + (int32_t)below(w, NODES);
    struct node *node = &w->nodes[id];
    const struct stele_node_registration *known = stele_registry_find(&w->registry, id);
    switch (below(w, 5)) {
    case 0: /* dies; sometimes its connection tells; sometimes it is back at once */
        if (node->number != 0) {
            node->number = 0;
            node->dead_ms = w->now_ms;
            node->previous_epoch = -1;
            if (known != NULL && below(w, 2) == 0) {
                stele_registry_suspect(&w->registry, id, known->node_epoch, w->now_ms);
            }
            if (below(w, 2) == 0) {
                start(w, id);
            }
        }
        break;
    case 1:
        if (node->number != 0) {
            happen(w, id, (struct stele_life_event){.kind = STELE_LIFE_EVENT_LEAVE});
            node->is_leaving = node->number != 0;
        }
        break;
    case 2: /* a connection closes for nothing */
        if (known != NULL) {
            stele_registry_suspect(&w->registry, id, known->node_epoch, w->now_ms);
        }
        break;
    case 3:
        if (w->back_ms == 0) {
            stele_registry_deactivate(&w->registry);
            w->back_ms = w->now_ms + below(w, 2000);
            controllers_known(w, STELE_NO_NODE);
        }
        break;
    default:
        if (node->number == 0) {
            start(w, id);
        }
    }
}

static void controller_step(struct world *w)
{
    if (w->back_ms != 0 && w->now_ms >= w->back_ms) {
        w->back_ms = 0;
        w->failovers++;
        w->active_since_ms = w->now_ms;
        stele_registry_activate(&w->registry, w->now_ms);
        controllers_known(w, 1 + (int32_t)w->failovers);
    }
    struct stele_heartbeat_verdict verdict;
    const int32_t id = stele_registry_expired(&w->registry, w->now_ms, &verdict);
    if (id != STELE_NO_NODE) {
        flags_apply(w, id, &verdict);
        w->expirations++;
    }
}

static void check(struct world *w)
{
    for (int32_t id = 1; id <= NODES; id++) {
        const struct node *node = &w->nodes[id];
        const struct stele_node_registration *known = stele_registry_find(&w->registry, id);
        if (known == NULL) {
            continue;
        }
        if (node->number != 0 && node->life.node_epoch >= 0) {
            assert_true(node->life.node_epoch <= known->node_epoch);
            assert_int_equal(node->life.node_epoch == known->node_epoch,
                             stele_uuid_equal(&known->incarnation_id, &node->life.settings.incarnation_id));
        }
        const int64_t since_ms = stele_max_i64(node->dead_ms + DELAY_MS_MAX, w->active_since_ms);
        if (node->number == 0 && w->back_ms == 0 && w->now_ms > since_ms + SESSION_MS + (NODES + 1) * STEP_MS) {
            assert_true(known->is_fenced);
        }
    }
}

static void step(struct world *w)
{
    w->now_ms += STEP_MS;
    for (int32_t i = 0; i < MESSAGES_MAX; i++) {
        if (w->messages[i].kind != NO_MESSAGE && w->messages[i].at_ms <= w->now_ms) {
            const struct message message = w->messages[i];
            w->messages[i].kind = NO_MESSAGE;
            deliver(w, &message);
        }
    }
    controller_step(w);
    for (int32_t id = 1; id <= NODES; id++) {
        struct node *node = &w->nodes[id];
        if (node->number != 0 && node->life.metadata_offset < w->last_offset && below(w, 20) == 0) {
            happen(w, id,
                   (struct stele_life_event){.kind = STELE_LIFE_EVENT_METADATA, .metadata_offset = w->last_offset});
        }
        if (node->number != 0 && w->now_ms >= stele_node_life_deadline(&node->life)) {
            happen(w, id, (struct stele_life_event){.kind = STELE_LIFE_EVENT_TIME});
        }
        if (node->number == 0 && !is_lossy(w) && !node->is_leaving) {
            start(w, id);
        }
    }
    if (is_lossy(w) && below(w, 60) == 0) {
        fault(w);
    }
    check(w);
}

static void run(struct world *w, uint64_t seed)
{
    memset(w->nodes, 0, sizeof w->nodes);
    memset(w->messages, 0, sizeof w->messages);
    w->now_ms = w->last_offset = w->active_since_ms = w->back_ms = 0;
    stele_prng_init(&w->prng, seed, 0);
    stele_registry_init(&w->registry, &w->mem.mem,
                        (struct stele_registry_settings){.session_ms = SESSION_MS, .suspicion_ms = SUSPICION_MS});
    stele_registry_activate(&w->registry, 0);
    for (int32_t id = 1; id <= NODES; id++) {
        w->nodes[id].previous_epoch = -1;
        start(w, id);
    }
    while (w->now_ms < END_MS) {
        step(w);
    }
    for (int32_t id = 1; id <= NODES; id++) {
        const struct node *node = &w->nodes[id];
        assert_int_equal(node->number == 0, node->is_leaving);
        assert_true(node->is_leaving || node->life.state == STELE_LIFE_RUNNING);
        assert_int_equal(stele_registry_is_active_node(&w->registry, id), !node->is_leaving);
    }
    stele_registry_deinit(&w->registry);
}

/* All of it, for some seeds; and everything that can happen did. */
static void test_membership(void **state)
{
    (void)state;
    struct world *w = test_malloc(sizeof *w);
    memset(w, 0, sizeof *w);
    stele_test_mem_init(&w->mem);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        if (stele_mutation != 0) {
            print_message("seed %llu\n", (unsigned long long)seed + 1);
        }
        run(w, seed);
    }
    print_message("registrations %lld, refused %lld, expired %lld, left %lld, failovers %lld\n",
                  (long long)w->registrations, (long long)w->refusals, (long long)w->expirations,
                  (long long)w->departures, (long long)w->failovers);
    assert_true(w->registrations > SEEDS * NODES);
    assert_true(w->refusals > 0);
    assert_true(w->expirations > SEEDS);
    assert_true(w->departures > SEEDS);
    assert_true(w->failovers > SEEDS);
    stele_test_mem_check_empty(&w->mem);
    test_free(w);
}

int main(int argc, char **argv)
{
    stele_mutation = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_membership)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
