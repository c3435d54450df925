/* Consumers whose position is gone, that pause, go to a time, or whose topic changes. */
#include "client/test/peer.h"

#include <stdio.h>
#include <string.h>

static const struct stele_batch_options plain = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                                 .partition_leader_epoch = -1,
                                                 .producer_id = STELE_NO_PRODUCER_ID,
                                                 .producer_epoch = -1,
                                                 .base_sequence = STELE_NO_SEQUENCE};

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

struct events {
    int count;
    struct stele_reset last;
    char text[256];
    int records_before; /* read when it was told */
    int records;
};

static void on_reset(void *arg, const struct stele_reset *reset)
{
    struct events *events = arg;
    events->count++;
    events->last = *reset;
    events->records_before = events->records;
    (void)snprintf(events->text, sizeof(events->text), "%s", reset->text);
}

static struct stele_consumer *new_consumer(struct stele_client *client, const char *reset, struct events *events)
{
    const struct stele_setting settings[] = {{"auto.offset.reset", reset}, {NULL, NULL}};
    struct stele_result result;
    struct stele_consumer *consumer = stele_consumer_new(client, "t", settings, &result);
    assert_int_equal(result.code, 0);
    *events = (struct events){0};
    stele_consumer_on_reset(consumer, on_reset, events);
    return consumer;
}

/* The offset of the next record; -1 when none comes. */
static int64_t next_offset(struct stele_consumer *consumer, struct events *events)
{
    struct stele_record_view view;
    struct stele_result result = stele_consumer_next(consumer, 3000, &view);
    if (result.code == STELE_REQUEST_TIMED_OUT)
        return -1;
    if (result.code != 0)
        fail_msg("%d %s", result.code, result.text);
    events->records++;
    return view.offset;
}

struct reset_case {
    const char *reset;
    int64_t position, start;
    int64_t found; /* by time */
    int64_t next;  /* offset read then; -1 none */
    int64_t new_offset, skipped, repeated;
    int reason;
};

/* Logs of 10 records. */
static const struct reset_case reset_cases[] = {
    {"earliest", 2, 5, 0, 5, 5, 3, 0, STELE_RESET_BELOW_START},
    {"latest", 2, 5, 0, -1, 10, 8, 0, STELE_RESET_BELOW_START},
    {"by_duration:PT1H", 2, 5, 7, 7, 7, 5, 0, STELE_RESET_BELOW_START},
    {"by_duration:P1DT2H3M4.5S", 2, 5, -1, -1, 10, 8, 0, STELE_RESET_BELOW_START}, /* nothing is as young */
    {"earliest", 15, 3, 0, 3, 3, 0, 7, STELE_RESET_ABOVE_END},
    {"latest", 15, 3, 0, -1, 10, 0, 0, STELE_RESET_ABOVE_END},
    {"by_duration:p0d", 15, 3, 8, 8, 8, 0, 2, STELE_RESET_ABOVE_END},
};

/* The consumer goes on where the setting says, and tells from where to where, why, and what was left out or repeated;
 * errors on the way are tried again. */
static void test_reset(void **state)
{
    struct peer *peer = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(reset_cases) * 2; i++) {
        const struct reset_case *reset = &reset_cases[i / 2];
        struct events events;
        peer_deinit(peer);
        peer_init(peer);
        for (int n = 0; n < 10; n++)
            peer_append(peer, 0, 1, &plain);
        peer->logs[0].start_offset = reset->start;
        peer->by_time = reset->found;
        struct stele_client *client = peer_client(peer, NULL);
        struct stele_consumer *consumer = new_consumer(client, reset->reset, &events);
        peer->list_errs[0] = STELE_NOT_LEADER_OR_FOLLOWER;
        peer->list_errs[1] = STELE_LEADER_NOT_AVAILABLE;
        peer->list_err_count = i % 2 == 0 ? 0 : 2;
        assert_int_equal(stele_consumer_assign(consumer, 0, reset->position).code, 0);
        assert_int_equal(next_offset(consumer, &events), reset->next);
        assert_int_equal(events.count, 1);
        assert_int_equal(events.last.partition, 0);
        assert_int_equal(events.last.old_offset, reset->position);
        assert_int_equal(events.last.new_offset, reset->new_offset);
        assert_int_equal(events.last.skipped, reset->skipped);
        assert_int_equal(events.last.repeated, reset->repeated);
        assert_int_equal(events.last.reason, reset->reason);
        assert_int_equal(events.last.log_start, reset->start);
        assert_int_equal(events.last.log_end, 10);
        assert_non_null(strstr(events.text, "t-0: offset "));
        assert_non_null(strstr(events.text, reset->reset));
        stele_consumer_free(consumer);
        stele_client_free(client);
    }
}

/* A client that is polled between two records: the reset waits until the batch that is read has met its end, which
 * would move the position away from where the reset put it. */
static void test_reset_behind_a_batch(void **state)
{
    struct peer *peer = *state;
    struct peer_log *log = &peer->logs[0];
    struct events events;
    peer_append(peer, 0, 10, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, "earliest", &events);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t offset = 0; offset < 10; offset++)
        assert_int_equal(next_offset(consumer, &events), offset);
    stele_mem_free(&peer->own.mem, log->batches[0].bytes);
    log->batch_count = 0;
    log->end_offset = 0;
    peer_append(peer, 0, 5, &plain);
    for (int i = 0; i < 50; i++)
        (void)stele_client_poll(client, 100);
    for (int64_t offset = 0; offset < 5; offset++)
        assert_int_equal(next_offset(consumer, &events), offset);
    assert_int_equal(next_offset(consumer, &events), -1);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.records_before, 10);
    assert_int_equal(events.last.old_offset, 10);
    assert_int_equal(events.last.new_offset, 0);
    assert_int_equal(events.last.repeated, 5);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* by_duration asks for the wall clock's time less the duration. */
static void test_duration(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } durations[] = {
        {"PT1S", 1000},
        {"PT0.25S", 250},
        {"P1D", 86400000},
        {"PT1H1M1S", 3661000},
        {"pt1.5s", 1500},
        {"P1DT1H", 90000000},
        {"P", -1},
        {"PT", -1},
        {"1H", -1},
        {"PT1", -1},
        {"P1H", -1},
        {"PT1D", -1},
        {"PT1M1H", -1},
        {"-PT1H", -1},
        {"PT-1H", -1},
        {"PT1.5H", -1},
        {"PT1H1H", -1},
        {"", -1},
        {"PT99999999999999999H", -1},
        {"P106751991167D", -1},
    };
    struct peer *peer = *state;
    peer_append(peer, 0, 3, &plain);
    peer->logs[0].start_offset = 2;
    peer->by_time = 2;
    for (size_t i = 0; i < STELE_ARRAY_LEN(durations); i++) {
        char text[64];
        struct events events;
        struct stele_result result;
        (void)snprintf(text, sizeof(text), "by_duration:%s", durations[i].text);
        const struct stele_setting settings[] = {{"auto.offset.reset", text}, {NULL, NULL}};
        struct stele_client *client = peer_client(peer, NULL);
        if (durations[i].ms < 0) {
            assert_null(stele_consumer_new(client, "t", settings, &result));
            assert_int_equal(result.code, STELE_INVALID_CONFIG);
            assert_non_null(strstr(result.text, "PnDTnHnMn.nS"));
        } else {
            struct stele_consumer *consumer = new_consumer(client, text, &events);
            peer->env.wall_ms = 1700000000000;
            assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
            assert_int_equal(next_offset(consumer, &events), 2);
            assert_int_equal(peer->last_time, 1700000000000 - durations[i].ms);
            stele_consumer_free(consumer);
        }
        stele_client_free(client);
    }
}

/* Records that came before the refusal are given before the reset is told. */
static void test_order(void **state)
{
    struct peer *peer = *state;
    struct events events;
    for (int n = 0; n < 4; n++)
        peer_append(peer, 0, 5, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, "earliest", &events);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    assert_int_equal(next_offset(consumer, &events), 0);
    peer->logs[0].start_offset = 30;
    peer->logs[0].end_offset = 30;
    for (int n = 0; n < 20; n++)
        (void)stele_client_poll(client, 1); /* the refusal comes while 19 records lie there */
    for (int64_t offset = 1; offset < 20; offset++)
        assert_int_equal(next_offset(consumer, &events), offset);
    assert_int_equal(events.count, 0);
    peer_append(peer, 0, 1, &plain);
    assert_int_equal(next_offset(consumer, &events), 30);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.records_before, 20);
    assert_int_equal(events.last.skipped, 10);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A paused partition gives nothing, and goes on where it was; the others are not held up. */
static void test_pause(void **state)
{
    struct peer *peer = *state;
    struct events events;
    peer->partition_count = 2;
    peer_append(peer, 0, 5, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, "none", &events);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    assert_int_equal(stele_consumer_assign(consumer, 1, 0).code, 0);
    assert_int_equal(next_offset(consumer, &events), 0);
    assert_int_equal(next_offset(consumer, &events), 1);
    stele_consumer_pause(consumer, 0);
    stele_consumer_pause(consumer, 0);
    assert_int_equal(next_offset(consumer, &events), -1);
    assert_int_equal(stele_consumer_position(consumer, 0), 2);
    peer_append(peer, 1, 1, &plain);
    assert_int_equal(next_offset(consumer, &events), 0);
    stele_consumer_resume(consumer, 0);
    for (int64_t offset = 2; offset < 5; offset++)
        assert_int_equal(next_offset(consumer, &events), offset);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Assigning by time begins at the record found, or at the end when none is as young. */
static void test_assign_at(void **state)
{
    struct peer *peer = *state;
    struct events events;
    peer_append(peer, 0, 5, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, "none", &events);
    peer->by_time = 3;
    assert_int_equal(stele_consumer_assign_at(consumer, 0, 1234).code, 0);
    assert_int_equal(peer->last_time, 1234);
    assert_int_equal(next_offset(consumer, &events), 3);
    peer->by_time = -1;
    assert_int_equal(stele_consumer_assign_at(consumer, 0, 99999).code, 0);
    assert_int_equal(stele_consumer_position(consumer, 0), 5);
    assert_int_equal(stele_consumer_assign_at(consumer, 0, STELE_OFFSET_EARLIEST).code, 0);
    assert_int_equal(next_offset(consumer, &events), 0);
    assert_int_equal(stele_consumer_assign_at(consumer, 1, 0).code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    assert_int_equal(delivery->result.code, 0);
    ++*(int *)arg;
}

/* A topic that grew is known so after metadata.max.age.ms: its new partition is written to and read. */
static void test_growth(void **state)
{
    struct peer *peer = *state;
    struct events events;
    int told = 0;
    const struct stele_setting settings[] = {{"metadata.max.age.ms", "60000"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, settings);
    struct stele_consumer *consumer = new_consumer(client, "none", &events);
    struct stele_producer *producer = stele_producer_new(client, "t", NULL, delivered, &told, NULL);
    struct stele_message message = {.partition = 2, .timestamp = 1, .value = "r0", .value_bytes = 2};
    assert_non_null(producer);
    assert_int_equal(stele_producer_send(producer, &message, 0).code, STELE_NOT_FOUND);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    peer->partition_count = 3;
    for (int64_t until = peer->env.mono_us + 61000000; peer->env.mono_us < until;)
        assert_int_equal(next_offset(consumer, &events), -1);
    assert_int_equal(stele_consumer_partitions(consumer), 3);
    assert_int_equal(stele_consumer_assign(consumer, 2, 0).code, 0);
    assert_int_equal(stele_producer_send(producer, &message, 0).code, 0);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(told, 1);
    assert_int_equal(next_offset(consumer, &events), 0);
    stele_producer_free(producer);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A topic that was deleted and made anew: what waits is written to the new one, and a consumer says that its offsets
 * mean other records. Asked for soon, not after metadata.max.age.ms. */
static void test_made_anew(void **state)
{
    struct peer *peer = *state;
    struct events events;
    struct stele_record_view view;
    int told = 0;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, "none", &events);
    struct stele_producer *producer = stele_producer_new(client, "t", NULL, delivered, &told, NULL);
    struct stele_message message = {.partition = 0, .timestamp = 1, .value = "r0", .value_bytes = 2};
    int64_t began = peer->env.mono_us;
    assert_non_null(producer);
    memset(peer->topic_id.bytes, 0x77, sizeof(peer->topic_id.bytes));
    peer->checks_topic_id = true;
    assert_int_equal(stele_producer_send(producer, &message, 0).code, 0);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(told, 1);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    struct stele_result result = stele_consumer_next(consumer, 10000, &view);
    assert_int_equal(result.code, STELE_INCONSISTENT_TOPIC_ID);
    assert_non_null(strstr(result.text, "made anew"));
    assert_true(peer->env.mono_us - began < 5000000);
    stele_producer_free(producer);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A node that does not know of it yet has the old one: it is not asked by what is known of the new one's leaders. */
static void test_made_anew_is_not_asked(void **state)
{
    struct peer *peer = *state;
    struct events events;
    struct stele_record_view view;
    const struct stele_setting settings[] = {{"metadata.max.age.ms", "1000"}, {NULL, NULL}};
    struct stele_client *client = peer_client(peer, settings);
    struct stele_consumer *consumer = new_consumer(client, "earliest", &events);
    bool is_told = false;
    peer_append(peer, 0, 5, &plain);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t offset = 0; offset < 5; offset++)
        assert_int_equal(next_offset(consumer, &events), offset);
    memset(peer->topic_id.bytes, 0x77, sizeof(peer->topic_id.bytes));
    for (int i = 0; i < 20; i++) {
        int code = stele_consumer_next(consumer, 1000, &view).code;
        assert_true(code == (int)STELE_INCONSISTENT_TOPIC_ID || (code == (int)STELE_REQUEST_TIMED_OUT && !is_told));
        is_told = is_told || code == (int)STELE_INCONSISTENT_TOPIC_ID;
        if (is_told)
            peer->logs[0].start_offset = 5 + i; /* the place that it was at is gone, if anybody asks */
        (void)stele_client_poll(client, 1000);
    }
    assert_true(is_told);
    assert_int_equal(events.count, 0);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Reading takes memory for an answer, never for a record. */
static void test_no_allocation_per_record(void **state)
{
    struct peer *peer = *state;
    struct events events;
    int64_t calls[2];
    peer_append(peer, 0, 100, &plain);
    peer_append(peer, 0, 2000, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, "none", &events);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stele_consumer_assign(consumer, 0, i == 0 ? 2000 : 100).code, 0);
        int64_t before = peer->env.mem.mem.calls;
        for (int n = 0; n < (i == 0 ? 100 : 2000); n++)
            assert_true(next_offset(consumer, &events) >= 0);
        calls[i] = peer->env.mem.mem.calls - before;
    }
    assert_true(calls[1] <= calls[0] + 5);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Every allocation of a reset may fail once: it comes all the same. */
static void test_memory_failures(void **state)
{
    struct peer *peer = *state;
    for (int64_t at = 1;; at++) {
        struct events events;
        peer_deinit(peer);
        peer_init(peer);
        peer_append(peer, 0, 5, &plain);
        peer->logs[0].start_offset = 4;
        struct stele_client *client = peer_client(peer, NULL);
        struct stele_consumer *consumer = new_consumer(client, "earliest", &events);
        assert_int_equal(stele_consumer_assign(consumer, 0, 1).code, 0);
        stele_test_mem_fail(&peer->env.mem, at, false);
        int64_t offset = -1;
        for (int tries = 0; tries < 20 && offset < 0; tries++) {
            struct stele_record_view view;
            struct stele_result result = stele_consumer_next(consumer, 1000, &view);
            assert_true(result.code == 0 || result.code == STELE_NO_MEMORY || result.code == STELE_REQUEST_TIMED_OUT);
            offset = result.code == 0 ? view.offset : -1;
        }
        assert_int_equal(offset, 4);
        assert_int_equal(events.count, 1);
        bool has_failed = peer->env.mem.has_failed;
        stele_test_mem_fail(&peer->env.mem, 0, false);
        stele_consumer_free(consumer);
        stele_client_free(client);
        if (!has_failed) {
            assert_true(at > 5);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reset, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reset_behind_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_duration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pause, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_assign_at, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_growth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_made_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_made_anew_is_not_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_allocation_per_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
