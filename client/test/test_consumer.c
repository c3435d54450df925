#include "client/test/peer.h"

#include <stdio.h>
#include <string.h>

static const struct stele_batch_options plain = {
    .partition_leader_epoch = -1, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};

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

static struct stele_consumer *new_consumer(struct stele_client *client, const struct stele_setting *settings)
{
    struct stele_result result;
    struct stele_consumer *consumer = stele_consumer_new(client, "t", settings, &result);
    assert_int_equal(result.code, 0);
    assert_non_null(consumer);
    return consumer;
}

/* The next record must be "r<offset>" of that offset and partition. */
static void expect_record(struct stele_consumer *consumer, int32_t partition, int64_t offset)
{
    struct stele_record_view view;
    char value[32];
    struct stele_result result = stele_consumer_next(consumer, 60000, &view);
    if (result.code != 0)
        fail_msg("offset %lld: %d %s", (long long)offset, result.code, result.text);
    (void)snprintf(value, sizeof(value), "r%lld", (long long)offset);
    assert_int_equal(view.partition, partition);
    assert_int_equal(view.offset, offset);
    assert_int_equal(view.value_bytes, strlen(value));
    assert_memory_equal(view.value, value, view.value_bytes);
    assert_null(view.key);
    assert_int_equal(stele_consumer_position(consumer, partition), offset + 1);
}

static void expect_nothing(struct stele_consumer *consumer)
{
    struct stele_record_view view;
    assert_int_equal(stele_consumer_next(consumer, 2000, &view).code, STELE_REQUEST_TIMED_OUT);
}

struct read_case {
    const char *max_bytes;
    size_t chunk_max;
    enum stele_codec codec;
    bool cuts_first_batch;
    int damaged, err_count;
    enum stele_err err;
};

static const struct read_case read_cases[] = {
    {"1048576", 1 << 20, STELE_CODEC_NONE, false, 0, 0, STELE_OK},
    {"1048576", 1, STELE_CODEC_NONE, false, 0, 0, STELE_OK},
    {"1048576", 1 << 20, STELE_CODEC_ZSTD, false, 0, 0, STELE_OK},
    {"300", 50, STELE_CODEC_NONE, false, 0, 0, STELE_OK}, /* answers end in the middle of a batch */
    {"1", 50, STELE_CODEC_LZ4, false, 0, 0, STELE_OK},    /* one batch an answer */
    {"10", 50, STELE_CODEC_NONE, true, 0, 0, STELE_OK},   /* not even one: asked for with more room */
    {"1048576", 50, STELE_CODEC_NONE, false, 2, 0, STELE_OK},
    {"300", 50, STELE_CODEC_SNAPPY, false, 3, 0, STELE_OK},
    {"300", 50, STELE_CODEC_NONE, false, 0, 5, STELE_NOT_LEADER_OR_FOLLOWER},
    {"300", 50, STELE_CODEC_NONE, false, 0, 3, STELE_CORRUPT_MESSAGE},
    {"300", 50, STELE_CODEC_NONE, false, 1, 1, STELE_KAFKA_STORAGE_ERROR},
};

/* Every record once and in order, whatever the sizes, chunks, codecs, and faults that a retry mends. */
static void test_reading(void **state)
{
    struct peer *peer = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(read_cases); i++) {
        const struct read_case *read = &read_cases[i];
        const struct stele_setting settings[] = {{"max.partition.fetch.bytes", read->max_bytes}, {NULL, NULL}};
        struct stele_batch_options options = plain;
        options.codec = read->codec;
        options.codec_level = STELE_CODEC_LEVEL_DEFAULT;
        peer_init(peer);
        for (int n = 1; n <= 20; n++)
            peer_append(peer, 0, n, &options);
        peer->chunk_max = read->chunk_max;
        peer->cuts_first_batch = read->cuts_first_batch;
        peer->damaged_fetches = read->damaged;
        peer->fetch_err_count = read->err_count;
        for (int n = 0; n < read->err_count; n++)
            peer->fetch_errs[n] = read->err;
        struct stele_client *client = peer_client(peer, NULL);
        struct stele_consumer *consumer = new_consumer(client, settings);
        assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
        for (int64_t offset = 0; offset < 210; offset++)
            expect_record(consumer, 0, offset);
        expect_nothing(consumer);
        stele_consumer_free(consumer);
        stele_client_free(client);
        if (i + 1 < STELE_ARRAY_LEN(read_cases))
            peer_deinit(peer);
    }
}

/* A start in the middle of a batch begins with that very record. */
static void test_start_inside_a_batch(void **state)
{
    struct peer *peer = *state;
    peer_append(peer, 0, 10, &plain);
    peer_append(peer, 0, 10, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, NULL);
    assert_int_equal(stele_consumer_assign(consumer, 0, 7).code, 0);
    assert_int_equal(stele_consumer_position(consumer, 0), 7);
    for (int64_t offset = 7; offset < 20; offset++)
        expect_record(consumer, 0, offset);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* At the end a long poll waits, without asking again and again, and brings what is appended meanwhile. */
static void test_long_poll(void **state)
{
    struct peer *peer = *state;
    peer_append(peer, 0, 1, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, NULL);
    assert_int_equal(stele_consumer_assign(consumer, 0, 1).code, 0);
    int64_t began = peer->env.mono_us;
    expect_nothing(consumer);
    assert_true(peer->env.mono_us - began >= 2000000);
    assert_true(peer->fetches <= 6); /* 2 s of polls of 500 ms */
    peer_append(peer, 0, 1, &plain);
    int fetches = peer->fetches;
    expect_record(consumer, 0, 1);
    assert_true(peer->fetches <= fetches + 1);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Consumers of one client leave each other's long polls alone, whatever max.in.flight.requests.per.connection says; one
 * that is freed ends only its own. */
static void test_consumers_of_one_client(void **state)
{
    struct peer *peer = *state;
    const struct stele_setting settings[] = {{"max.in.flight.requests.per.connection", "1"}, {NULL, NULL}};
    peer->partition_count = 3;
    struct stele_client *client = peer_client(peer, settings);
    struct stele_consumer *consumers[] = {new_consumer(client, NULL), new_consumer(client, NULL),
                                          new_consumer(client, NULL)};
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(stele_consumer_assign(consumers[i], i, 0).code, 0);
    for (int i = 0; i < 10; i++)
        expect_nothing(consumers[i % 3]); /* 20 s in all, 500 ms a fetch */
    assert_in_range(peer->fetches, 110, 123);
    assert_int_equal(peer->connects, 4);
    stele_consumer_free(consumers[0]);
    for (int32_t i = 1; i < 3; i++) {
        peer_append(peer, i, 1, &plain);
        expect_record(consumers[i], i, 0);
        stele_consumer_free(consumers[i]);
    }
    assert_int_equal(peer->connects, 4);
    stele_client_free(client);
}

/* A batch that fails its checksum for good ends the partition; what lies before it was given, nothing is passed over.
 */
static void test_damage(void **state)
{
    struct peer *peer = *state;
    struct stele_record_view view;
    peer_append(peer, 0, 3, &plain);
    peer_append(peer, 0, 3, &plain);
    peer_append(peer, 0, 3, &plain);
    peer->logs[0].batches[1].bytes[70] ^= 0x10;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, NULL);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (int64_t offset = 0; offset < 3; offset++)
        expect_record(consumer, 0, offset);
    for (int i = 0; i < 3; i++) {
        struct stele_result result = stele_consumer_next(consumer, 60000, &view);
        assert_int_equal(result.code, STELE_CORRUPT_MESSAGE);
        assert_non_null(strstr(result.text, "t-0 at offset 3"));
    }
    assert_int_equal(stele_consumer_position(consumer, 0), 3);
    assert_true(peer->doubts > 0);
    assert_int_equal(peer->doubted_offset, 3);
    /* Behind it reading goes on when asked. */
    assert_int_equal(stele_consumer_assign(consumer, 0, 6).code, 0);
    expect_record(consumer, 0, 6);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* What rotted on the node: it is told of it with the fetch that asks again, also for the rest of a batch of which
 * records were read, and only then. What it gives after it put that right is read, and no record is passed over or
 * given twice. */
static void test_doubt(void **state)
{
    struct peer *peer = *state;
    peer_append(peer, 0, 3, &plain);
    peer_append(peer, 0, 3, &plain);
    peer_append(peer, 0, 3, &plain);
    const struct {
        int64_t from;
        size_t at;
    } rots[] = {{0, 70}, {4, 70}, {0, STELE_BATCH_POS_MAGIC}, {0, STELE_BATCH_POS_ATTRIBUTES + 2}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(rots); i++) {
        const int64_t from = rots[i].from;
        struct stele_client *client = peer_client(peer, NULL);
        struct stele_consumer *consumer = new_consumer(client, NULL);
        peer->doubts = 0;
        peer->rotten = &peer->logs[0].batches[1].bytes[rots[i].at];
        *peer->rotten ^= 0x10;
        assert_int_equal(stele_consumer_assign(consumer, 0, from).code, 0);
        expect_record(consumer, 0, from);
        for (int k = 0; k < 20; k++) /* what would be fetched behind the damage comes before it is read */
            (void)stele_client_poll(client, 10);
        for (int64_t offset = from + 1; offset < 9; offset++)
            expect_record(consumer, 0, offset);
        assert_int_equal(peer->doubts, 1);
        assert_int_equal(peer->doubted_offset, from == 0 ? 3 : 4);
        stele_consumer_free(consumer);
        stele_client_free(client);
    }
}

/* The same where the node knows of the damage and refuses the read: what lies before it is given first, though it was
 * not yet read when the refusal came. */
static void test_refused_damage(void **state)
{
    struct peer *peer = *state;
    struct stele_record_view view;
    for (int i = 0; i < 3; i++)
        peer_append(peer, 0, 3, &plain);
    peer->damaged_from = 3;
    peer->damaged_to = 6;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, NULL);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    expect_record(consumer, 0, 0);
    (void)stele_client_poll(client, 10000);
    for (int i = 0; i < 20; i++)
        (void)stele_client_poll(client, 1000);
    for (int64_t offset = 1; offset < 3; offset++)
        expect_record(consumer, 0, offset);
    struct stele_result result = stele_consumer_next(consumer, 60000, &view);
    assert_int_equal(result.code, STELE_CORRUPT_MESSAGE);
    assert_non_null(strstr(result.text, "t-0 at offset 3"));
    assert_int_equal(stele_consumer_assign(consumer, 0, 6).code, 0);
    expect_record(consumer, 0, 6);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* With check.crcs=false the checksum is not looked at. */
static void test_unchecked(void **state)
{
    struct peer *peer = *state;
    const struct stele_setting settings[] = {{"check.crcs", "false"}, {NULL, NULL}};
    peer_append(peer, 0, 3, &plain);
    peer->logs[0].batches[0].bytes[STELE_BATCH_POS_CRC] ^= 1;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, settings);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    expect_record(consumer, 0, 0);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* An offset outside of the log is told with its partition, and a new assignment mends it. */
static void test_out_of_range(void **state)
{
    struct peer *peer = *state;
    struct stele_record_view view;
    peer_append(peer, 0, 3, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    const struct stele_setting settings[] = {{"auto.offset.reset", "none"}, {NULL, NULL}};
    struct stele_consumer *consumer = new_consumer(client, settings);
    assert_int_equal(stele_consumer_assign(consumer, 0, 4).code, 0);
    struct stele_result result = stele_consumer_next(consumer, 1000, &view);
    assert_int_equal(result.code, STELE_OFFSET_OUT_OF_RANGE);
    assert_non_null(strstr(result.text, "t-0 at offset 4"));
    assert_int_equal(stele_consumer_assign(consumer, 0, 2).code, 0);
    expect_record(consumer, 0, 2);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Going back and forth while answers are under way never shows a record of the old place. */
static void test_reassign(void **state)
{
    struct peer *peer = *state;
    static const int64_t places[] = {50, 10, 90, 0, 30};
    for (int i = 0; i < 10; i++)
        peer_append(peer, 0, 10, &plain);
    const struct stele_setting settings[] = {{"max.partition.fetch.bytes", "200"}, {NULL, NULL}};
    peer->chunk_max = 20;
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, settings);
    for (int polls = 0; polls < 8; polls++) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(places); i++) {
            assert_int_equal(stele_consumer_assign(consumer, 0, places[i]).code, 0);
            for (int n = 0; n < polls; n++)
                (void)stele_client_poll(client, 1);
            for (int64_t offset = places[i]; offset < places[i] + 3; offset++)
                expect_record(consumer, 0, offset);
        }
    }
    stele_consumer_unassign(consumer, 0);
    assert_int_equal(stele_consumer_position(consumer, 0), -1);
    expect_nothing(consumer);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Several partitions: each in order, all to the end; arguments that make no sense are refused. */
static void test_partitions(void **state)
{
    struct peer *peer = *state;
    int64_t next[3] = {0};
    peer->partition_count = 3;
    for (int i = 0; i < 30; i++)
        peer_append(peer, i % 3, 5, &plain);
    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, NULL);
    assert_int_equal(stele_consumer_partitions(consumer), 3);
    assert_int_equal(stele_consumer_assign(consumer, 3, 0).code, STELE_NOT_FOUND);
    assert_int_equal(stele_consumer_assign(consumer, -1, 0).code, STELE_NOT_FOUND);
    assert_int_equal(stele_consumer_assign(consumer, 0, -1).code, STELE_INVALID_ARGUMENT);
    for (int32_t p = 0; p < 3; p++)
        assert_int_equal(stele_consumer_assign(consumer, p, 0).code, 0);
    for (int i = 0; i < 150; i++) {
        struct stele_record_view view;
        assert_int_equal(stele_consumer_next(consumer, 10000, &view).code, 0);
        assert_int_equal(view.offset, next[view.partition]);
        next[view.partition]++;
    }
    for (int32_t p = 0; p < 3; p++)
        assert_int_equal(next[p], 50);
    expect_nothing(consumer);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* A batch of one control record, as a coordinator writes it. */
static void append_marker(struct peer *peer, int64_t producer_id, int16_t type)
{
    struct stele_batch_options options = plain;
    options.producer_id = producer_id;
    options.producer_epoch = 0;
    options.attributes = STELE_BATCH_CONTROL | STELE_BATCH_TRANSACTIONAL;
    struct stele_batch_builder *builder = stele_batch_builder_new(&peer->own.mem, &options);
    struct stele_buf *batch;
    uint8_t key[4] = {0, 0, 0, (uint8_t)type}, value[6] = {0};
    struct stele_record_in record = {.key = key, .key_bytes = 4, .value = value, .value_bytes = 6};
    struct peer_log *log = &peer->logs[0];
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    struct peer_batch *stored = &log->batches[log->batch_count++];
    stored->bytes = stele_mem_alloc(&peer->own.mem, STELE_MEM_TOOL, batch->count);
    assert_non_null(stored->bytes);
    memcpy(stored->bytes, batch->bytes, batch->count);
    stored->count = batch->count;
    stored->base_offset = stored->last_offset = log->end_offset++;
    stele_batch_stamp(stored->bytes, stored->base_offset, 0);
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);
}

static void append_transactional(struct peer *peer, int64_t producer_id)
{
    struct stele_batch_options options = plain;
    options.producer_id = producer_id;
    options.producer_epoch = 0;
    options.base_sequence = 0;
    options.attributes = STELE_BATCH_TRANSACTIONAL;
    peer_append(peer, 0, 2, &options);
}

/* Control batches are never seen. A reader of committed records does not see what was aborted, of that producer, from
 * the first offset to the marker; the position passes over all of it. */
static void test_transactions(void **state)
{
    struct peer *peer = *state;
    append_transactional(peer, 7); /* 0, 1: aborted */
    append_transactional(peer, 8); /* 2, 3: committed */
    append_transactional(peer, 7); /* 4, 5: aborted */
    append_marker(peer, 7, STELE_CONTROL_ABORT);
    append_marker(peer, 8, STELE_CONTROL_COMMIT);
    append_transactional(peer, 7); /* 8, 9: committed */
    peer_append(peer, 0, 1, &plain);
    append_marker(peer, 7, STELE_CONTROL_COMMIT); /* 11 */
    static const int64_t all[] = {0, 1, 2, 3, 4, 5, 8, 9, 10}, committed[] = {2, 3, 8, 9, 10};
    struct stele_client *client = peer_client(peer, NULL);

    struct stele_consumer *consumer = new_consumer(client, NULL);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (size_t i = 0; i < STELE_ARRAY_LEN(all); i++)
        expect_record(consumer, 0, all[i]);
    expect_nothing(consumer);
    assert_int_equal(stele_consumer_position(consumer, 0), 12);
    stele_consumer_free(consumer);

    const struct stele_setting settings[] = {{"isolation.level", "read_committed"}, {NULL, NULL}};
    peer->aborted[0] = (struct stele_aborted_transaction){.producer_id = 7, .first_offset = 0};
    peer->aborted_count = 1;
    consumer = new_consumer(client, settings);
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    for (size_t i = 0; i < STELE_ARRAY_LEN(committed); i++)
        expect_record(consumer, 0, committed[i]);
    expect_nothing(consumer);
    assert_int_equal(stele_consumer_position(consumer, 0), 12);
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Headers come back in order, null values too. */
static void test_headers(void **state)
{
    struct peer *peer = *state;
    struct stele_batch_builder *builder = stele_batch_builder_new(&peer->own.mem, &plain);
    struct stele_buf *batch;
    const struct stele_header_in headers[] = {{"one", "1", 3, 1}, {"none", NULL, 4, 0}, {"", "", 0, 0}};
    struct stele_record_in record = {
        .key = "k", .key_bytes = 1, .timestamp = 77, .headers = headers, .header_count = 3};
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    struct peer_log *log = &peer->logs[0];
    log->batches[0] = (struct peer_batch){.count = batch->count};
    log->batches[0].bytes = stele_mem_alloc(&peer->own.mem, STELE_MEM_TOOL, batch->count);
    memcpy(log->batches[0].bytes, batch->bytes, batch->count);
    log->batch_count = 1;
    log->end_offset = 1;
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);

    struct stele_client *client = peer_client(peer, NULL);
    struct stele_consumer *consumer = new_consumer(client, NULL);
    struct stele_record_view view;
    const char *key;
    const void *value;
    size_t key_bytes, value_bytes;
    assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
    assert_int_equal(stele_consumer_next(consumer, 1000, &view).code, 0);
    assert_int_equal(view.header_count, 3);
    assert_int_equal(view.timestamp, 77);
    assert_null(view.value);
    assert_int_equal(view.key_bytes, 1);
    assert_true(stele_record_view_header(&view, 1, &key, &key_bytes, &value, &value_bytes));
    assert_int_equal(key_bytes, 4);
    assert_null(value);
    assert_true(stele_record_view_header(&view, 0, &key, &key_bytes, &value, &value_bytes));
    assert_memory_equal(value, "1", 1);
    assert_true(stele_record_view_header(&view, 2, &key, &key_bytes, &value, &value_bytes));
    assert_non_null(value);
    assert_int_equal(value_bytes, 0);
    assert_false(stele_record_view_header(&view, 3, &key, &key_bytes, &value, &value_bytes));
    stele_consumer_free(consumer);
    stele_client_free(client);
}

/* Every allocation may fail once: the next call goes on where it was, no record is lost or given twice. */
static void test_memory_failures(void **state)
{
    struct peer *peer = *state;
    struct stele_batch_options options = plain;
    options.codec = STELE_CODEC_ZSTD;
    options.codec_level = STELE_CODEC_LEVEL_DEFAULT;
    for (int i = 0; i < 4; i++)
        peer_append(peer, 0, 5, &options);
    const struct stele_setting settings[] = {{"max.partition.fetch.bytes", "150"}, {NULL, NULL}};
    for (int64_t at = 1;; at++) {
        struct stele_result result;
        struct stele_record_view view;
        struct stele_client *client = peer_client(peer, NULL);
        stele_test_mem_fail(&peer->env.mem, at, false);
        struct stele_consumer *consumer = stele_consumer_new(client, "t", settings, &result);
        assert_true(consumer != NULL || result.code == STELE_NO_MEMORY);
        if (consumer != NULL) {
            assert_int_equal(stele_consumer_assign(consumer, 0, 0).code, 0);
            for (int64_t offset = 0; offset < 20;) {
                result = stele_consumer_next(consumer, 60000, &view);
                assert_true(result.code == STELE_OK || result.code == STELE_NO_MEMORY);
                if (result.code == STELE_OK)
                    assert_int_equal(view.offset, offset++);
            }
        }
        bool has_failed = peer->env.mem.has_failed;
        stele_test_mem_fail(&peer->env.mem, 0, false);
        stele_consumer_free(consumer);
        stele_client_free(client);
        stele_test_mem_check_empty(&peer->env.mem);
        if (!has_failed) {
            assert_non_null(consumer);
            assert_true(at > 30);
            break;
        }
    }
}

struct soak {
    int64_t offsets[1000];
    int count;
    uint64_t next[PEER_PARTITIONS];
    int32_t partitions[1000];
};

static void soak_delivered(void *arg, const struct stele_delivery *delivery)
{
    struct soak *soak = arg;
    assert_int_equal(delivery->result.code, 0);
    assert_true(delivery->tag >= soak->next[delivery->partition]);
    soak->next[delivery->partition] = delivery->tag + 1;
    soak->offsets[delivery->tag] = delivery->offset;
    soak->partitions[delivery->tag] = delivery->partition;
    soak->count++;
}

/* A producer and a consumer through random losses, refusals, errors and noise: every record is acknowledged and
 * stored once, lies where the acknowledgement says, and the consumer sees each partition from its first offset to its
 * last. */
static void test_soak(void **state)
{
    struct peer *peer = *state;
    enum { SEEDS = 60, COUNT = 300 };
    static struct soak soak;
    int duplicates = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        peer_init(peer);
        memset(&soak, 0, sizeof(soak));
        stele_prng_init(&peer->prng, seed, 1);
        peer->partition_count = 3;
        peer->chunk_max = 1 + seed * 7 % 200;
        const struct stele_setting settings[] = {{"batch.size", seed % 2 == 0 ? "150" : "900"}, {NULL, NULL}};
        struct stele_client *client = peer_client(peer, NULL);
        struct stele_producer *producer = stele_producer_new(client, "t", settings, soak_delivered, &soak, NULL);
        struct stele_consumer *consumer = new_consumer(client, settings + 1);
        assert_non_null(producer);
        peer->fault_percent = 10;
        int64_t next[3] = {0}, seen = 0;
        for (int32_t p = 0; p < 3; p++)
            assert_int_equal(stele_consumer_assign(consumer, p, 0).code, 0);
        for (int i = 0; i < COUNT; i++) {
            struct stele_record_view view;
            char value[32];
            (void)snprintf(value, sizeof(value), "v%d", i);
            struct stele_message message = {
                .partition = -1, .timestamp = -1, .value = value, .value_bytes = strlen(value)};
            assert_int_equal(stele_producer_send(producer, &message, (uint64_t)i).code, 0);
            if (i % 5 != 0)
                continue;
            struct stele_result result = stele_consumer_next(consumer, 2, &view);
            if (result.code == 0)
                assert_int_equal(view.offset, next[view.partition]++), seen++;
            else
                assert_int_equal(result.code, STELE_REQUEST_TIMED_OUT);
        }
        peer->fault_percent = 5;
        assert_int_equal(stele_producer_flush(producer, -1).code, 0);
        assert_int_equal(soak.count, COUNT);
        peer->fault_percent = 0;
        for (int i = 0; i < COUNT; i++) {
            char value[32];
            (void)snprintf(value, sizeof(value), "v%d", i);
            assert_true(peer_has(peer, soak.partitions[i], soak.offsets[i], value));
        }
        int64_t stored = peer->logs[0].end_offset + peer->logs[1].end_offset + peer->logs[2].end_offset;
        assert_int_equal(stored, COUNT);
        duplicates += peer->duplicates;
        for (; seen < stored; seen++) {
            struct stele_record_view view;
            assert_int_equal(stele_consumer_next(consumer, 60000, &view).code, 0);
            assert_int_equal(view.offset, next[view.partition]++);
        }
        stele_producer_free(producer);
        stele_consumer_free(consumer);
        stele_client_free(client);
        if (seed + 1 < SEEDS)
            peer_deinit(peer);
    }
    assert_true(duplicates > 30); /* the faults did happen */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start_inside_a_batch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_poll, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_consumers_of_one_client, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_doubt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unchecked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_out_of_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reassign, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_partitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_transactions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_headers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_soak, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
