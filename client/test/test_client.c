/* Connections, matching and the admin calls. */
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

struct names {
    char text[256];
};

static struct stele_result list_names(struct stele_client *client, struct names *names)
{
    struct stele_topics *topics = NULL;
    struct stele_result result = stele_topic_list(client, &topics);
    assert_true((result.code == STELE_OK) == (topics != NULL));
    for (size_t i = 0; topics != NULL && i < topics->topic_count; i++) {
        size_t used = strlen(names->text);
        (void)snprintf(names->text + used, sizeof(names->text) - used, "%s:%d ", topics->topics[i]->name,
                       topics->topics[i]->partition_count);
    }
    stele_topics_free(topics);
    return result;
}

/* The topics come in the order of their names, whatever the chunks that the answer came in. */
static void test_topic_list(void **state)
{
    struct peer *peer = *state;
    peer->chunk_max = 3;
    struct stele_client *client = peer_client(peer, NULL);
    struct names names = {""};
    assert_int_equal(list_names(client, &names).code, 0);
    assert_string_equal(names.text, "apple:2 t:1 zebra:1 ");
    stele_client_free(client);
}

/* Creating passes the settings on; a refusal comes back with the node's words. */
static void test_topic_create(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, NULL);
    const struct stele_setting settings[] = {{"retention.ms", "1"}, {"segment.bytes", "2"}, {NULL, NULL}};
    assert_int_equal(stele_topic_create(client, "t", 3, settings).code, 0);
    assert_int_equal(peer->last_setting_count, 2);
    assert_int_equal(peer->last_replicas, -1);
    assert_int_equal(stele_topic_create_replicated(client, "t", -1, 3, NULL).code, 0);
    assert_int_equal(peer->last_replicas, 3);
    peer->create_err = STELE_TOPIC_ALREADY_EXISTS;
    struct stele_result result = stele_topic_create(client, "t", 3, NULL);
    assert_int_equal(result.code, STELE_TOPIC_ALREADY_EXISTS);
    assert_false(result.is_retriable);
    assert_string_equal(result.text, "topic 't' exists");
    assert_int_equal(peer->creates, 3);
    stele_client_free(client);
}

/* A retriable refusal is tried again with growing pauses until the request's time is up, not in a hot loop. */
static void test_admin_retries(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, quick);
    peer->create_err = STELE_NOT_CONTROLLER;
    int64_t before = peer->env.mono_us;
    struct stele_result result = stele_topic_create(client, "t", 1, NULL);
    assert_int_equal(result.code, STELE_NOT_CONTROLLER);
    assert_true(peer->creates >= 3 && peer->creates <= 8);
    assert_true(peer->env.mono_us - before > 500000);
    assert_true(peer->env.mono_us - before <= 2000000);
    stele_client_free(client);
}

/* An unknown topic is told at once, with the way out. */
static void test_unknown_topic(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_result result;
    assert_null(stele_consumer_new(client, "nope", NULL, &result));
    assert_int_equal(result.code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_non_null(strstr(result.text, "'nope'"));
    assert_non_null(strstr(result.text, "stele topic create"));
    assert_int_equal(peer->metadatas, 1);
    stele_client_free(client);
}

/* A missing topic is made for producers and consumers only where allow.auto.create.topics says so. */
static void test_may_make(void **state)
{
    struct peer *peer = *state;
    for (int allows = 0; allows < 2; allows++) {
        const struct stele_setting settings[] = {{"allow.auto.create.topics", allows == 1 ? "true" : "false"},
                                                 {NULL, NULL}};
        struct stele_client *client = peer_client(peer, settings);
        struct stele_result result;
        struct stele_consumer *consumer = stele_consumer_new(client, "t", NULL, &result);
        assert_non_null(consumer);
        assert_int_equal(peer->may_make, allows == 1);
        stele_consumer_free(consumer);
        struct stele_producer *producer = stele_producer_new(client, "t", NULL, NULL, NULL, &result);
        assert_non_null(producer);
        assert_int_equal(peer->may_make, allows == 1);
        stele_producer_free(producer);
        struct stele_topics *topics = NULL;
        assert_int_equal(stele_topic_list(client, &topics).code, 0);
        assert_false(peer->may_make);
        stele_topics_free(topics);
        stele_client_free(client);
    }
}

/* Offsets by time; a partition that is not there is named with those that are. */
static void test_offset_at(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, NULL);
    int64_t offset = -5;
    peer->logs[0].start_offset = 4;
    peer->logs[0].end_offset = 9;
    assert_int_equal(stele_offset_at(client, "t", 0, STELE_OFFSET_EARLIEST, &offset).code, 0);
    assert_int_equal(offset, 4);
    assert_int_equal(stele_offset_at(client, "t", 0, STELE_OFFSET_LATEST, &offset).code, 0);
    assert_int_equal(offset, 9);
    struct stele_result result = stele_offset_at(client, "t", 1, STELE_OFFSET_LATEST, &offset);
    assert_int_equal(result.code, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_non_null(strstr(result.text, "partitions 0 to 0"));
    assert_int_equal(offset, 9);
    stele_client_free(client);
}

/* No node: the error names the address and what happened there, after the time that was given. */
static void test_unreachable(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, quick);
    peer->refusals = 1000;
    struct stele_result result = stele_topic_create(client, "t", 1, NULL);
    assert_int_equal(result.code, STELE_REQUEST_TIMED_OUT);
    assert_non_null(strstr(result.text, "peer:1"));
    assert_non_null(strstr(result.text, "no connection could be made"));
    assert_true(peer->connects >= 3 && peer->connects <= 8); /* with growing pauses */
    peer->refusals = 0;
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, 0);
    stele_client_free(client);
}

/* With several addresses the next one is tried when there is nobody at one, by turns. */
static void test_addresses(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = NULL;
    struct stele_error error;
    assert_ok(stele_client__new(&peer->driver, "a:1,b:2,[::1]:3", quick, &client, &error));
    peer->address = "b:2";
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, 0);
    assert_string_equal(peer->addresses, "a:1 b:2 ");
    peer->address = "a:1"; /* it moved */
    peer_drop(peer);
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, 0);
    assert_string_equal(peer->addresses, "a:1 b:2 [::1]:3 a:1 ");
    stele_client_free(client);
}

/* Between connections that fail the pauses grow from reconnect.backoff.ms to reconnect.backoff.max.ms. */
static void test_reconnect_backoff(void **state)
{
    struct peer *peer = *state;
    const struct stele_setting settings[] = {{"reconnect.backoff.ms", "10"},
                                             {"reconnect.backoff.max.ms", "200"},
                                             {"request.timeout.ms", "2000"},
                                             {NULL, NULL}};
    struct stele_client *client = peer_client(peer, settings);
    peer->refusals = 1 << 20;
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, STELE_REQUEST_TIMED_OUT);
    assert_in_range(peer->connects, 11, 18); /* 10 20 40 80 160 200 200 ..., 20 % more or less */
    stele_client_free(client);
}

/* A node that takes the connection and says nothing is given up too. */
static void test_mute(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, quick);
    peer->is_mute = true;
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, STELE_REQUEST_TIMED_OUT);
    peer->is_mute = false;
    peer->env.mono_us += 20000000; /* beyond the time that a new connection gets */
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, 0);
    stele_client_free(client);
}

/* A node that refuses the hello is quoted. */
static void test_hello_refused(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, quick);
    peer->hello_err = STELE_UNSUPPORTED_VERSION;
    struct stele_result result = stele_topic_create(client, "t", 1, NULL);
    assert_int_equal(result.code, STELE_REQUEST_TIMED_OUT);
    assert_non_null(strstr(result.text, "too old: upgrade the client"));
    stele_client_free(client);
}

/* Noise instead of an answer closes the connection; the request goes again on a new one. */
static void test_garbage(void **state)
{
    struct peer *peer = *state;
    struct stele_client *client = peer_client(peer, NULL);
    peer->garbage = 3;
    peer->chunk_max = 5;
    assert_int_equal(stele_topic_create(client, "t", 1, NULL).code, 0);
    assert_true(peer->connects >= 2);
    stele_client_free(client);
}

struct construct_case {
    const char *bootstrap, *name, *value;
    enum stele_err err;
    const char *text;
};

static const struct construct_case bad_clients[] = {
    {"localhost", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {":7835", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"a:1,", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"a:1,b:x", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"a:1,b:0", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"a:65536", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"::1:7835", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"a:1, b:1", NULL, NULL, STELE_INVALID_ARGUMENT, "HOST:PORT"},
    {"a:1", "linger", "1", STELE_INVALID_CONFIG, "linger.ms"},
    {"a:1", "acks", "2", STELE_INVALID_CONFIG, "all,-1,0,1"},
};

/* What makes no sense is refused before anything is sent, with the way out; nothing is held. */
static void test_bad_clients(void **state)
{
    struct peer *peer = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad_clients); i++) {
        const struct construct_case *bad = &bad_clients[i];
        const struct stele_setting settings[] = {{bad->name, bad->value}, {NULL, NULL}};
        struct stele_client *client = NULL;
        struct stele_error error = {.text = ""};
        assert_int_equal(stele_client__new(&peer->driver, bad->bootstrap, settings, &client, &error), bad->err);
        assert_non_null(strstr(error.text, bad->text));
        assert_null(client);
    }
    assert_int_equal(peer->connects, 0);
}

/* Every allocation of an admin call may fail once: it succeeds all the same or says NO_MEMORY, and holds nothing. */
static void test_memory_failures(void **state)
{
    struct peer *peer = *state;
    for (int64_t at = 1;; at++) {
        struct stele_client *client = NULL;
        struct stele_error error;
        struct names names = {""};
        stele_test_mem_fail(&peer->env.mem, at, false);
        enum stele_err err = stele_client__new(&peer->driver, "peer:1", quick, &client, &error);
        struct stele_result result = {.code = STELE_OK};
        if (err == STELE_OK)
            result = list_names(client, &names);
        bool has_failed = peer->env.mem.has_failed;
        stele_test_mem_fail(&peer->env.mem, 0, false);
        assert_true(err == STELE_OK || err == STELE_NO_MEMORY);
        assert_true(result.code == STELE_OK || result.code == STELE_NO_MEMORY);
        stele_client_free(client);
        stele_test_mem_check_empty(&peer->env.mem);
        if (!has_failed) {
            assert_ok(err);
            assert_int_equal(result.code, STELE_OK);
            assert_true(at > 10);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_topic_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_topic_create, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_admin_retries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_topic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_may_make, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_offset_at, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unreachable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reconnect_backoff, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mute, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hello_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_garbage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_clients, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
