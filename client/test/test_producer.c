/* Producers without idempotence, and what both kinds share. */
#include "client/test/producer_world.h"

#include <stdio.h>
#include <string.h>

struct produce_case {
    const char *codec, *batch_bytes;
    size_t chunk_max;
    int drops_before, drops_after, refusals;
    enum stele_err err;
};

static const struct produce_case produce_cases[] = {
    {"none", "16384", 1 << 20, 0, 0, 0, STELE_OK},
    {"none", "200", 1, 0, 0, 0, STELE_OK},
    {"none", "0", 7, 0, 0, 0, STELE_OK}, /* a batch a record */
    {"gzip", "1000", 100, 0, 0, 0, STELE_OK},
    {"snappy", "1000", 100, 0, 0, 0, STELE_OK},
    {"lz4", "1000", 100, 0, 0, 0, STELE_OK},
    {"zstd", "1000", 100, 0, 0, 0, STELE_OK},
    {"none", "1000", 100, 2, 0, 0, STELE_OK}, /* requests lost with their connection */
    {"none", "1000", 100, 0, 2, 0, STELE_OK}, /* answers lost with it */
    {"none", "1000", 100, 1, 1, 3, STELE_OK},
    {"none", "1000", 100, 0, 0, 0, STELE_NOT_LEADER_OR_FOLLOWER},
    {"none", "1000", 100, 0, 0, 0, STELE_FENCED_LEADER_EPOCH},
    {"none", "1000", 100, 0, 0, 0, STELE_KAFKA_STORAGE_ERROR},
};

/* Whatever the way does, every record is delivered once, in order within its partition, and stored where it says. */
static void test_deliveries(void **state)
{
    struct producer_world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(produce_cases); i++) {
        const struct produce_case *produce = &produce_cases[i];
        enum { COUNT = 500 };
        const struct stele_setting settings[] = {{"enable.idempotence", "false"},
                                                 {"compression.type", produce->codec},
                                                 {"batch.size", produce->batch_bytes},
                                                 {NULL, NULL}};
        peer_init(&world->peer);
        memset(&world->told, 0, sizeof(world->told));
        world->peer.partition_count = 3;
        world->peer.chunk_max = produce->chunk_max;
        world->peer.drops_before = produce->drops_before;
        world->peer.drops_after = produce->drops_after;
        for (int n = 0; n < 3; n++)
            world->peer.produce_errs[n] = produce->err;
        world->peer.produce_err_count = produce->err == STELE_OK ? 0 : 3;
        struct stele_client *client = peer_client(&world->peer, NULL);
        struct stele_producer *producer = world_producer(world, client, settings);
        world->peer.refusals = produce->refusals;
        world_send(client, producer, -1, 0, COUNT);
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        assert_int_equal(world->told.count, COUNT);
        assert_int_equal(world->told.failed, 0);
        assert_int_equal(world->told.durability, STELE_DURABILITY_WRITTEN);
        assert_int_equal(stele_producer_pending(producer), 0);
        world_check_stored(world, COUNT);
        stele_producer_free(producer);
        stele_client_free(client);
        if (i + 1 < STELE_ARRAY_LEN(produce_cases))
            peer_deinit(&world->peer);
    }
}

/* Without key records stay with one partition until its batch is sealed, and then go round: many are used. */
static void test_sticky(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"batch.size", "300"}, {NULL, NULL}};
    world->peer.partition_count = 4;
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, -1, 0, 400);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    int changes = 0;
    for (int i = 1; i < 400; i++)
        changes += world->told.partitions[i] != world->told.partitions[i - 1];
    assert_true(changes > 10);
    assert_true(changes < 80);
    for (int p = 0; p < 4; p++)
        assert_true(world->peer.logs[p].end_offset > 50);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A record waits for linger.ms and no longer. */
static void test_linger(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"linger.ms", "50"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 2);
    int64_t began = world->peer.env.mono_us;
    while (world->peer.produces == 0)
        (void)stele_client_poll(client, 1000);
    assert_in_range(world->peer.env.mono_us - began, 50000, 60000);
    while (world->told.count < 2)
        (void)stele_client_poll(client, 1000);
    assert_int_equal(world->peer.produces, 1);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A batch with no room for another record like those in it is sent at once, not when that record comes. */
static void test_full_at_once(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"linger.ms", "50000"}, {"batch.size", "300"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 1);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0); /* now there is a connection */
    int64_t began = world->peer.env.mono_us;
    int sent = 1;
    while (world->peer.produces == 1) {
        world_send(client, producer, 0, sent, sent + 1);
        sent++;
        for (int i = 0; i < 10; i++)
            (void)stele_client_poll(client, 1);
    }
    assert_true(sent > 5);
    assert_int_equal(world->told.count, sent);
    assert_true(world->peer.env.mono_us - began < 50000000);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* With acks=0 no answer is awaited, and a thousand batches go through all the same. */
static void test_acks_0(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"acks", "0"}, {"batch.size", "0"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world_send(client, producer, 0, 0, 1000);
    assert_int_equal(stele_producer_flush(producer, 1000).code, 0);
    assert_int_equal(world->told.count, 1000);
    assert_int_equal(world->told.failed, 0);
    assert_int_equal(world->told.offsets[999], -1);
    for (int i = 0; i < 10; i++)
        (void)stele_client_poll(client, 1);
    assert_int_equal(world->peer.logs[0].end_offset, 1000);
    assert_int_equal(world->peer.last_acks, 0);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* What needs no answer, behind a request that waits for one, does not make the client spin until that comes. */
static void test_acks_0_behind(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting without[] = {{"acks", "0"}, {"linger.ms", "0"}, {NULL, NULL}};
    const struct stele_setting with[] = {{"linger.ms", "0"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct told others = {.count = 0};
    struct stele_producer *asking = world_producer(world, client, with);
    struct stele_producer *telling = stele_producer_new(client, "t", without, world_delivered, &others, NULL);
    assert_non_null(telling);
    world_send(client, asking, 0, 0, 1);
    assert_int_equal(stele_producer_flush(asking, 1000).code, 0); /* the connection is up */
    world->peer.is_mute = true;
    world_send(client, asking, 0, 1, 2);
    (void)stele_client_poll(client, 0);
    world_send(client, telling, 0, 0, 1);
    int polls = 0;
    for (int64_t until = stele_client__now_ms(client) + 1000; stele_client__now_ms(client) < until; polls++) {
        assert_true(polls < 100);
        (void)stele_client_poll(client, 100);
    }
    assert_int_equal(world->told.count, 1);
    stele_producer_free(telling);
    stele_producer_free(asking);
    stele_client_free(client);
}

/* A batch that the topic finds too large is halved until it fits; order and tags stay. */
static void test_split(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"batch.size", "16384"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world->peer.batch_bytes_max = 300;
    world_send(client, producer, 0, 0, 700);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.count, 700);
    assert_int_equal(world->told.failed, 0);
    for (int i = 0; i < 700; i++)
        assert_int_equal(world->told.offsets[i], i);
    world_check_stored(world, 700);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A record that is too large by itself fails with the node's words; those around it are delivered. */
static void test_too_large(void **state)
{
    struct producer_world *world = *state;
    char large[1000];
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, NULL);
    memset(large, 'x', sizeof(large));
    world->peer.batch_bytes_max = 500;
    world_send(client, producer, 0, 0, 3);
    struct stele_message message = {.timestamp = 1, .value = large, .value_bytes = sizeof(large)};
    assert_int_equal(stele_producer_send(producer, &message, 3).code, 0);
    world_send(client, producer, 0, 4, 6);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.count, 6);
    assert_int_equal(world->told.failed, 1);
    assert_int_equal(world->told.offsets[3], -1);
    assert_int_equal(world->told.last_failure.code, STELE_MESSAGE_TOO_LARGE);
    assert_string_equal(world->told.last_failure.text, "t-0: larger than max.message.bytes");
    assert_int_equal(world->peer.logs[0].end_offset, 5);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* An error of the fatal class fails the batch at once and no other. */
static void test_fatal(void **state)
{
    struct producer_world *world = *state;
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, NULL);
    world->peer.produce_errs[0] = STELE_INVALID_RECORD;
    world->peer.produce_err_count = 1;
    world_send(client, producer, 0, 0, 2);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    world_send(client, producer, 0, 2, 4);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 2);
    assert_int_equal(world->told.last_failure.code, STELE_INVALID_RECORD);
    assert_false(world->told.last_failure.is_retriable);
    assert_int_equal(world->peer.produces, 2);
    assert_int_equal(world->told.offsets[3], 1);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* When no node comes back, records fail after delivery.timeout.ms, in order, and say why. */
static void test_delivery_timeout(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"delivery.timeout.ms", "3000"}, {"batch.size", "100"}, {NULL, NULL}};
    const struct stele_setting client_settings[] = {{"request.timeout.ms", "1000"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, client_settings);
    struct stele_producer *producer = world_producer(world, client, settings);
    world->peer.refusals = 1 << 20;
    int64_t began = world->peer.env.mono_us;
    world_send(client, producer, 0, 0, 20);
    assert_int_equal(stele_producer_flush(producer, 1000).code, STELE_REQUEST_TIMED_OUT);
    assert_int_equal(world->told.count, 0);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.failed, 20);
    assert_in_range(world->peer.env.mono_us - began, 3000000, 5000000);
    assert_non_null(strstr(world->told.last_failure.text, "t-0: "));
    stele_producer_free(producer);
    stele_client_free(client);
}

/* buffer.memory bounds what is held; the refusal is retriable and polling makes room. */
static void test_buffer_memory(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"buffer.memory", "2000"}, {"batch.size", "500"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    struct stele_message message = {.timestamp = 1, .value = "0123456789", .value_bytes = 10};
    int sent = 0;
    struct stele_result result = stele_producer_send(producer, &message, 0);
    for (; result.code == 0; result = stele_producer_send(producer, &message, (uint64_t)sent))
        sent++;
    assert_int_equal(result.code, STELE_NO_MEMORY);
    assert_true(result.is_retriable);
    assert_in_range(sent, 50, 120);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(stele_producer_send(producer, &message, (uint64_t)sent).code, 0);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.count, sent + 1);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* A callback may send: the batch being told of is not sent again. */
static void test_send_from_callback(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"batch.size", "0"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, settings);
    world->told.sends = producer;
    world->told.extra = 50;
    world_send(client, producer, 0, 0, 1);
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    assert_int_equal(world->told.count, 51);
    assert_int_equal(world->peer.logs[0].end_offset, 51);
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Keys go where Kafka's partitioner sends them; partitions that are not there are refused by name. */
static void test_partitions(void **state)
{
    struct producer_world *world = *state;
    world->peer.partition_count = 4;
    struct stele_client *client = peer_client(&world->peer, NULL);
    struct stele_producer *producer = world_producer(world, client, NULL);
    const struct stele_header headers[] = {{"a", "1", 1}, {"b", NULL, 0}};
    struct stele_message message = {
        .partition = -1, .key = "foobar", .key_bytes = 6, .headers = headers, .header_count = 2};
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(stele_producer_send(producer, &message, i).code, 0);
    message.partition = 4;
    struct stele_result result = stele_producer_send(producer, &message, 5);
    assert_int_equal(result.code, STELE_NOT_FOUND);
    assert_non_null(strstr(result.text, "partitions 0 to 3"));
    assert_int_equal(stele_producer_flush(producer, -1).code, 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(world->told.partitions[i], stele_partition_of_key("foobar", 6, 4));
    stele_producer_free(producer);
    stele_client_free(client);
}

/* Freed with everything still on its way: nothing is held, nothing is called. */
static void test_free_early(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"batch.size", "100"}, {NULL, NULL}};
    struct stele_client *client = peer_client(&world->peer, NULL);
    for (int polls = 0; polls < 12; polls++) {
        struct stele_producer *producer = world_producer(world, client, settings);
        world->peer.chunk_max = 10;
        memset(&world->told, 0, sizeof(world->told));
        world_send(client, producer, 0, 0, 50);
        for (int i = 0; i < polls; i++)
            (void)stele_client_poll(client, 1);
        stele_producer_free(producer);
        int told = world->told.count;
        for (int i = 0; i < 5; i++)
            (void)stele_client_poll(client, 1);
        assert_int_equal(world->told.count, told);
    }
    stele_client_free(client);
}

/* Every allocation may fail once on the way: sends say NO_MEMORY or the record is delivered; nothing is lost or held.
 */
static void test_memory_failures(void **state)
{
    struct producer_world *world = *state;
    const struct stele_setting settings[] = {{"batch.size", "300"}, {"compression.type", "gzip"}, {NULL, NULL}};
    for (int64_t at = 1;; at++) {
        struct stele_result result;
        memset(&world->told, 0, sizeof(world->told));
        peer_forget_producers(&world->peer, 0, true);
        struct stele_client *client = peer_client(&world->peer, NULL);
        stele_test_mem_fail(&world->peer.env.mem, at, false);
        struct stele_producer *producer =
            stele_producer_new(client, "t", settings, world_delivered, &world->told, &result);
        if (producer != NULL) {
            world->peer.batch_bytes_max = 150; /* halving takes memory too */
            world_send(client, producer, 0, 0, 40);
            assert_int_equal(stele_producer_flush(producer, -1).code, 0);
            assert_int_equal(world->told.count, 40);
            assert_int_equal(world->told.failed, 0);
        } else {
            assert_int_equal(result.code, STELE_NO_MEMORY);
        }
        bool has_failed = world->peer.env.mem.has_failed;
        stele_test_mem_fail(&world->peer.env.mem, 0, false);
        stele_producer_free(producer);
        stele_client_free(client);
        stele_test_mem_check_empty(&world->peer.env.mem);
        if (!has_failed) {
            assert_non_null(producer);
            assert_true(at > 50);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deliveries, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_sticky, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_full_at_once, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_linger, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_acks_0, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_acks_0_behind, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_split, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_too_large, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_fatal, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_delivery_timeout, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_buffer_memory, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_send_from_callback, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_partitions, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_free_early, producer_world_set_up, producer_world_tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, producer_world_set_up, producer_world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
