/* The idempotent producer: whatever the way does, no record is in the log twice or out of order. */
#include "client/test/producer_world.h"

#include <stdio.h>
#include <string.h>

#define ONCE                                                                                                           \
    {                                                                                                                  \
        "enable.idempotence", "true"                                                                                   \
    }

struct once_case {
    const char *codec, *batch_bytes, *in_flight;
    int drops_before, drops_after, refusals, garbage;
    enum stele_err err, late_err;
};

static const struct once_case once_cases[] = {
    {"none", "16384", "5", 0, 0, 0, 0, STELE_OK, STELE_OK},
    {"none", "0", "5", 0, 0, 0, 0, STELE_OK, STELE_OK}, /* a batch a record */
    {"zstd", "500", "5", 0, 0, 0, 0, STELE_OK, STELE_OK},
    {"none", "300", "5", 2, 0, 0, 0, STELE_OK, STELE_OK}, /* requests lost with their connection */
    {"none", "300", "5", 0, 2, 0, 0, STELE_OK, STELE_OK}, /* answers lost with it */
    {"gzip", "300", "5", 1, 2, 3, 0, STELE_OK, STELE_OK},
    {"none", "300", "1", 2, 2, 0, 0, STELE_OK, STELE_OK},
    {"none", "300", "1000", 2, 2, 0, 0, STELE_OK, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 3, STELE_OK, STELE_OK}, /* answers replaced by noise */
    {"none", "300", "5", 0, 0, 0, 0, STELE_CORRUPT_MESSAGE, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_UNKNOWN_TOPIC_OR_PARTITION, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_LEADER_NOT_AVAILABLE, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_NOT_LEADER_OR_FOLLOWER, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_REQUEST_TIMED_OUT, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_NOT_ENOUGH_REPLICAS, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_NOT_CONTROLLER, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_KAFKA_STORAGE_ERROR, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_UNKNOWN_LEADER_EPOCH, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_FENCED_LEADER_EPOCH, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_THROTTLING_QUOTA_EXCEEDED, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_UNKNOWN_TOPIC_ID, STELE_OK},
    {"none", "300", "5", 0, 0, 0, 0, STELE_OK, STELE_REQUEST_TIMED_OUT}, /* written although it says so */
    {"none", "300", "5", 0, 0, 0, 0, STELE_OK, STELE_KAFKA_STORAGE_ERROR},
    {"none", "300", "5", 0, 1, 0, 0, STELE_NOT_ENOUGH_REPLICAS, STELE_NOT_LEADER_OR_FOLLOWER},
};

static void run_once(struct producer_world *world, const struct once_case *once, size_t chunk_max)
{
    enum { FIRST = 20, COUNT = 400 };
    const struct stele_setting settings[] = {ONCE,
                                             {"compression.type", once->codec},
                                             {"batch.size", once->batch_bytes},
                                             {"max.in.flight.requests.per.connection", once->in_flight},
                                             {NULL, NULL}};
    struct peer *peer = &world->peer;
    peer_deinit(peer);
    peer_init(peer);
    memset(&world->told, 0, sizeof(world->told));
    peer->partition_count = 2;
    peer->chunk_max = chunk_max;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, FIRST); /* some go before, so that several are under way when it happens */
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    peer->drops_before = once->drops_before;
    peer->drops_after = once->drops_after;
    peer->refusals = once->refusals;
    peer->garbage = once->garbage;
    peer->produce_err_count = once->err == STELE_OK ? 0 : 3;
    peer->late_err_count = once->late_err == STELE_OK ? 0 : 3;
    for (int n = 0; n < 3; n++) {
        peer->produce_errs[n] = n == 1 ? STELE_OK : once->err;
        peer->late_errs[n] = once->late_err;
    }
    for (int at = FIRST; at < COUNT; at += 20)
        world_send(client, producer, at / 20 % 2, at, at + 20);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.count, COUNT);
    assert_int_equal(world->told.failed, 0);
    world_check_stored(world, COUNT);
    peer_check_once(peer, COUNT);
    assert_int_equal(peer->inits, 1);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Lost requests, lost answers, noise, and every error that may be tried again: each record is in the log once. */
static void test_once(void **state)
{
    for (size_t i = 0; i < STELE_ARRAY_LEN(once_cases); i++) {
        run_once(*state, &once_cases[i], 100);
        run_once(*state, &once_cases[i], 1 << 20);
    }
}

/* Random faults at random places, with many seeds. */
static void test_random_faults(void **state)
{
    enum { SEEDS = 150, COUNT = 300 };
    struct producer_world *world = *state;
    int duplicates = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static const char *const batches[] = {"0", "100", "400", "16384"};
        const struct stele_setting settings[] = {ONCE, {"batch.size", batches[seed % 4]}, {NULL, NULL}};
        peer_deinit(&world->peer);
        peer_init(&world->peer);
        memset(&world->told, 0, sizeof(world->told));
        stele_prng_init(&world->peer.prng, seed, 3);
        world->peer.partition_count = 1 + (int32_t)(seed % 3);
        world->peer.chunk_max = 1 + (size_t)stele_prng_below(&world->peer.prng, 3000);
        struct stele_client *client = peer_client(&world->peer, NULL);
        struct stele_producer *producer = world_producer(world, client, settings);
        world->peer.fault_percent = 10;
        for (int at = 0; at < COUNT; at += 10) {
            world_send(client, producer, at / 10 % world->peer.partition_count, at, at + 10);
            (void)stele_client_poll(client, (int)stele_prng_below(&world->peer.prng, 10));
        }
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        assert_int_equal(world->told.failed, 0);
        world_check_stored(world, COUNT);
        peer_check_once(&world->peer, COUNT);
        duplicates += world->peer.duplicates;
        stele_producer_free(producer);
        stele_client_free(client);
    }
    assert_true(duplicates > SEEDS); /* it was put to the test */
}

/* A topic that is made anew while a batch is under way: its log knows no producer and takes any sequence, and still the
 * first batch that it gets is the oldest. */
static void test_topic_made_anew(void **state)
{
    enum { FIRST = 10, COUNT = 40 };
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    const struct stele_setting settings[] = {
        ONCE, {"batch.size", "0"}, {"linger.ms", "0"}, {"metadata.max.age.ms", "1000"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, FIRST);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    memset(peer->topic_id.bytes, 0x77, sizeof(peer->topic_id.bytes));
    peer->checks_topic_id = peer->holds_produces = true;
    peer_forget_producers(peer, 0, true);
    world_send(client, producer, 0, FIRST, FIRST + 1); /* for the old topic */
    int metadatas = peer->metadatas;
    for (int n = 0; n < 100 || peer->metadatas == metadatas; n++) {
        peer->env.mono_us += 20000;
        (void)stele_client_poll(client, 0);
    }
    world_send(client, producer, 0, FIRST + 1, COUNT); /* for the new one */
    for (int n = 0; n < 20; n++)
        (void)stele_client_poll(client, 0);
    peer->holds_produces = false;
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 0);
    peer_check_once(peer, COUNT);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A node that was started anew while nothing was under way, and does not know the producer any more: the first batch is
 * refused for a moment, and none behind it may overtake it. */
static void test_forgotten_while_idle(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    const struct stele_setting settings[] = {ONCE, {"batch.size", "0"}, {"linger.ms", "0"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 3);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    peer_forget_producers(peer, 0, true);
    peer_drop(peer);
    for (int n = 0; n < 100; n++)
        (void)stele_client_poll(client, 10);
    peer->produce_errs[0] = STELE_NOT_ENOUGH_REPLICAS;
    peer->produce_err_count = 1;
    world_send(client, producer, 0, 3, 20);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 0);
    assert_int_equal(peer->produce_err_count, 0);
    peer_check_once(peer, 20);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Five batches of a partition may be under way, or as many as the connection; but one before the first answer, since a
 * log that knows nothing of a producer takes any sequence; and one without idempotence. */
static void test_window(void **state)
{
    static const struct {
        const char *once, *in_flight;
        int first, later;
    } windows[] = {{"true", "5", 1, 5}, {"true", "3", 1, 3}, {"true", "100", 1, 5}, {"false", "5", 1, 1}};
    struct producer_world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(windows); i++) {
        const struct stele_setting client_settings[] = {{"max.in.flight.requests.per.connection", windows[i].in_flight},
                                                        {"request.timeout.ms", "600"},
                                                        {NULL, NULL}};
        const struct stele_setting settings[] = {
            {"enable.idempotence", windows[i].once}, {"batch.size", "0"}, {NULL, NULL}};
        struct peer *peer = &world->peer;
        peer_deinit(peer);
        peer_init(peer);
        memset(&world->told, 0, sizeof(world->told));
        struct stele_client *client = peer_client(peer, client_settings);
        struct stele_producer *producer = world_producer(world, client, settings);
        peer->is_mute = true;
        world_send(client, producer, 0, 0, 10);
        peer->is_mute = false;
        while (world->told.count == 0) { /* its first connection heard nothing, the second one does */
            (void)stele_client_poll(client, 1);
            if (peer->produces == 0)
                assert_true(peer->produce_requests <= windows[i].first);
        }
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        peer->is_mute = true;
        peer->produce_requests = 0;
        world_send(client, producer, 0, 10, 20);
        for (int n = 0; n < 50; n++)
            (void)stele_client_poll(client, 1);
        assert_int_equal(peer->produce_requests, windows[i].later);
        peer->is_mute = false;
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        assert_int_equal(world->told.failed, 0);
        peer_check_once(peer, 20);
        stele_producer_free(producer);
        stele_client_free(client);
    }
}

static struct stele_producer *small_batches(struct producer_world *world, struct stele_client *client)
{
    const struct stele_setting settings[] = {ONCE, {"batch.size", "0"}, {"linger.ms", "0"}, {NULL, NULL}};
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 3);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    return producer;
}

/* Batches whose answers were lost, and of which the log knows only the last: the others are told as failed, and never
 * sent again under a sequence that the log would take. */
static void test_unknown_fate(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = small_batches(world, client);
    int before = peer->produces;
    peer->chunk_max = 1; /* the answers are on their way for long */
    world_send(client, producer, 0, 3, 8);
    while (peer->produces < before + 5)
        (void)stele_client_poll(client, 1);
    assert_int_equal(peer->logs[0].end_offset, 8);
    int told = world->told.count;
    peer_forget_producers(peer, 0, false);
    peer->chunk_max = 1 << 20;
    peer_drop(peer);
    world_send(client, producer, 0, 8, 12);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.count, 12);
    assert_int_equal(world->told.failed, 8 - told - 1); /* the last one is known */
    assert_int_equal(world->told.last_failure.code, STELE_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_non_null(strstr(world->told.last_failure.text, "cannot say"));
    world_check_stored(world, 12);
    peer_check_once(peer, 12);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A log that lost the end that it had acknowledged waits for an older sequence: the records to come go under a new
 * epoch, and none fails. */
static void test_lost_end(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = small_batches(world, client);
    peer->logs[0].producers[0].batch_count = 2;
    world_send(client, producer, 0, 3, 20);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 0);
    assert_int_equal(peer->logs[0].producers[0].epoch, 1);
    world_check_stored(world, 20);
    peer_check_once(peer, 20);
    assert_int_equal(peer->inits, 1);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A log that knows the producer under a newer epoch, or a last epoch: a new producer id is asked for, also when that
 * fails at first. */
static void test_new_id(void **state)
{
    struct producer_world *world = *state;
    for (int is_last = 0; is_last < 2; is_last++) {
        struct peer *peer = &world->peer;
        peer_deinit(peer);
        peer_init(peer);
        memset(&world->told, 0, sizeof(world->told));
        struct stele_client *client = peer_client(peer, NULL);
        peer->init_epoch = is_last ? INT16_MAX : 0;
        struct stele_producer *producer = small_batches(world, client);
        peer->init_epoch = 0;
        if (is_last)
            peer->logs[0].producers[0].batch_count = 2;
        else
            peer->logs[0].producers[0].epoch = 7;
        peer->init_err = STELE_NOT_CONTROLLER;
        world_send(client, producer, 0, 3, 20);
        assert_int_equal(stele_producer_flush(producer, 5000).code, STELE_REQUEST_TIMED_OUT);
        assert_true(peer->inits >= 3 && peer->inits <= 12); /* with growing pauses */
        peer->init_err = STELE_OK;
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        assert_int_equal(world->told.failed, 0);
        assert_int_equal(peer->logs[0].producer_count, 2);
        world_check_stored(world, 20);
        peer_check_once(peer, 20);
        stele_producer_free(producer);
        stele_client_free(client);
    }
}

/* A batch that is refused for good leaves a gap in the sequences: those behind it are delivered all the same. */
static void test_gap(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = small_batches(world, client);
    peer->produce_errs[0] = STELE_INVALID_RECORD;
    peer->produce_err_count = 1;
    world_send(client, producer, 0, 3, 20);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 1);
    assert_int_equal(world->told.offsets[3], -1);
    assert_int_equal(peer->logs[0].end_offset, 19);
    assert_int_equal(peer->logs[0].producers[0].epoch, 1);
    world_check_stored(world, 20);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Records whose time ran out fail, in order; those sent later are delivered once. */
static void test_timeout_between(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    const struct stele_setting settings[] = {ONCE, {"delivery.timeout.ms", "2000"}, {"batch.size", "0"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 3);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    peer->is_mute = true;
    world_send(client, producer, 0, 3, 20);
    int64_t began = peer->env.mono_us;
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_in_range(peer->env.mono_us - began, 2000000, 2100000);
    assert_int_equal(world->told.failed, 17);
    peer->is_mute = false;
    world_send(client, producer, 0, 20, 40);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 17);
    assert_int_equal(peer->logs[0].end_offset, 23);
    world_check_stored(world, 40);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* retries bounds the repetitions of a batch. */
static void test_retries(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    const struct stele_setting settings[] = {ONCE, {"retries", "2"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    for (int i = 0; i < 4; i++)
        peer->produce_errs[i] = STELE_NOT_ENOUGH_REPLICAS;
    peer->produce_err_count = 4;
    world_send(client, producer, 0, 0, 1);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.last_failure.code, STELE_NOT_ENOUGH_REPLICAS);
    assert_int_equal(peer->produces, 3);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Halving a batch keeps its sequences, also when answers get lost. */
static void test_split_once(void **state)
{
    struct producer_world *world = *state;
    struct peer *peer = &world->peer;
    const struct stele_setting settings[] = {ONCE, {"compression.type", "lz4"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 5);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    peer->batch_bytes_max = 300;
    peer->drops_after = 3;
    world_send(client, producer, 0, 5, 700);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 0);
    assert_true(peer->duplicates > 0);
    world_check_stored(world, 700);
    peer_check_once(peer, 700);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Every allocation may fail once: every record is there once all the same, or send or the constructor says so. */
static void test_memory_failures(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {ONCE, {"batch.size", "100"}, {NULL, NULL}};
    for (int64_t at = 1;; at++) {
        struct stele_result result;
        memset(&world->told, 0, sizeof(world->told));
        peer_deinit(&world->peer);
        peer_init(&world->peer);
        struct stele_client *client = peer_client(&world->peer, NULL);
        stele_test_mem_fail(&world->peer.env.mem, at, false);
        struct stele_producer *producer =
            stele_producer_new(client, "t", settings, world_delivered, &world->told, &result);
        if (producer != NULL) {
            world_send(client, producer, 0, 0, 5);
            assert_int_equal(stele_producer_flush(producer, -1).code, 0);
            world->peer.drops_after = 1;
            world->peer.logs[0].producers[0].epoch += 3; /* a new id too */
            world_send(client, producer, 0, 5, 30);
            assert_int_equal(stele_producer_flush(producer, -1).code, 0);
            assert_true(world->told.failed <= 5); /* what was under way when its connection went with the memory */
            assert_true(world->told.failed == 0 || strstr(world->told.last_failure.text, "cannot say") != NULL);
            world_check_stored(world, 30);
            peer_check_once(&world->peer, (int)world->peer.logs[0].end_offset);
        } else {
            assert_int_equal(result.code, STELE_NO_MEMORY);
        }
        bool has_failed = world->peer.env.mem.has_failed;
        stele_test_mem_fail(&world->peer.env.mem, 0, false);
        stele_producer_free(producer);
        stele_client_free(client);
        if (!has_failed) {
            assert_non_null(producer);
            assert_true(at > 50);
            break;
        }
    }
}

static const struct {
    struct stele_setting settings[3];
    const char *text; /* NULL: fine */
    bool is_once;
} settings_cases[] = {
    {{ONCE, {"acks", "1"}}, "enable.idempotence=true needs acks=all", false},
    {{ONCE, {"acks", "0"}}, "enable.idempotence=true needs acks=all", false},
    {{ONCE, {"retries", "0"}}, "enable.idempotence=true needs retries above 0", false},
    {{{"enable.idempotence", "yes"}}, "true or false", false},
    {{{"enable.idempotense", "true"}}, "enable.idempotence", false},
    {{{"compression.zstd.level", "23"}}, "-131072 and 22", false},
    {{{"compression.gzip.level", "0"}}, "-1 or 1 to 9", false},
    {{{"acks", NULL}}, "no value", false},
    {{ONCE, {"acks", "-1"}}, NULL, true},
    {{{"acks", "1"}}, NULL, false},
    {{{"retries", "0"}}, NULL, false},
    {{{"enable.idempotence", "false"}}, NULL, false},
    {{{"linger.ms", "0"}}, NULL, true},
};

/* Settings that exclude each other are refused with the way out; idempotence that nobody named gives way. */
static void test_settings(void **state)
{
    struct producer_world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(settings_cases); i++) {
        struct stele_result result;
        struct stele_client *client = peer_client(&world->peer, NULL);
        int inits = world->peer.inits;
        struct stele_producer *producer =
            stele_producer_new(client, "t", settings_cases[i].settings, world_delivered, &world->told, &result);
        assert_int_equal(result.code, settings_cases[i].text == NULL ? STELE_OK : STELE_INVALID_CONFIG);
        if (settings_cases[i].text != NULL)
            assert_non_null(strstr(result.text, settings_cases[i].text));
        assert_int_equal(world->peer.inits - inits, settings_cases[i].is_once);
        stele_producer_free(producer);
        stele_client_free(client);
    }
}

/* A record above max.request.size is refused by send, with both sizes; a smaller one goes. */
static void test_request_size(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {ONCE, {"max.request.size", "1000"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    char large[1200] = "";
    struct stele_message message = {.value = large, .value_bytes = sizeof(large)};
    struct stele_result result = stele_producer_send(producer, &message, 0);
    assert_int_equal(result.code, STELE_MESSAGE_TOO_LARGE);
    assert_non_null(strstr(result.text, "max.request.size=1000"));
    message.value_bytes = 800;
    assert_int_equal(stele_producer_send(producer, &message, 0).code, 0);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 0);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Sending takes memory for a batch, never for a record: ten times the records in as many batches take as much. */
static void test_no_allocation_per_record(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {ONCE, {"batch.size", "60000"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    int64_t calls[2];
    int tag = 0;
    for (int i = 0; i < 2; i++) {
        int64_t before = world->peer.env.mem.mem.calls;
        int count = i == 0 ? 200 : 2000;
        world_send(client, producer, 0, tag, tag + count);
        tag += count;
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        calls[i] = world->peer.env.mem.mem.calls - before;
    }
    assert_true(calls[1] - calls[0] < 15); /* buffers that double */
    stele_producer_free(producer);
    stele_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_once, producer_world_set_up, producer_world_tear_down),
#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, producer_world_set_up, producer_world_tear_down)
        WORLD_TEST(test_random_faults),
        WORLD_TEST(test_topic_made_anew),
        WORLD_TEST(test_forgotten_while_idle),
        WORLD_TEST(test_window),
        WORLD_TEST(test_unknown_fate),
        WORLD_TEST(test_lost_end),
        WORLD_TEST(test_new_id),
        WORLD_TEST(test_gap),
        WORLD_TEST(test_timeout_between),
        WORLD_TEST(test_retries),
        WORLD_TEST(test_split_once),
        WORLD_TEST(test_memory_failures),
        WORLD_TEST(test_settings),
        WORLD_TEST(test_request_size),
        WORLD_TEST(test_no_allocation_per_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
