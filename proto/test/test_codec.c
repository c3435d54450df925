/* `test_codec write` writes the golden files anew: only before the first release that reads them. */
#include "base/test/support.h"
#include "proto/frame.h"
#include "proto/test/samples.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES_MAX = 4096, ARENA_BYTES_MAX = 1 << 20 };

struct world {
    struct stele_test_mem mem;
    struct stele_arena arena;
};

static int set_up(void **state)
{
    static struct world world;
    stele_test_mem_init(&world.mem);
    stele_arena_init(&world.arena, &world.mem.mem, STELE_MEM_REQUEST, ARENA_BYTES_MAX);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    stele_arena_deinit(&world->arena);
    stele_test_mem_check_empty(&world->mem);
    return 0;
}

static void golden_path(const char *name, char out_path[256])
{
    (void)snprintf(out_path, 256, "proto/test/golden/%s.hex", name);
}

static size_t golden_read(const char *name, uint8_t out_bytes[MESSAGE_BYTES_MAX])
{
    char path[256], hex[2 * MESSAGE_BYTES_MAX + 2] = "";
    golden_path(name, path);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s is missing", path);
    if (fgets(hex, sizeof(hex), file) == NULL)
        hex[0] = '\0';
    (void)fclose(file);
    hex[strcspn(hex, "\n")] = '\0';
    return stele_test_hex(hex, out_bytes, MESSAGE_BYTES_MAX);
}

static int golden_write(const char *name, const uint8_t *bytes, size_t count)
{
    char path[256];
    golden_path(name, path);
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return 1;
    for (size_t i = 0; i < count; i++)
        (void)fprintf(file, "%02x", bytes[i]);
    (void)fputc('\n', file);
    return fclose(file);
}

/* The frame must hold exactly the message: its header says so. */
static void assert_frame(const struct stele_buf *frame, const uint8_t *message, size_t count, size_t records_bytes)
{
    struct stele_frame_header header;
    assert_int_equal(frame->count, STELE_FRAME_HEADER_BYTES + count);
    assert_memory_equal(frame->bytes + STELE_FRAME_HEADER_BYTES, message, count);
    assert_ok(stele_frame_header_read(frame->bytes, UINT32_MAX, &header));
    assert_int_equal(header.message_bytes, count);
    assert_int_equal(header.frame_bytes, 4 + count + records_bytes);
}

/* Every stored request decodes, is what today's encoder makes of the sample, and encodes again to the same bytes. */
static void test_golden_requests(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_requests); i++) {
        uint8_t bytes[MESSAGE_BYTES_MAX];
        struct stele_request decoded;
        struct stele_buf *frame;
        size_t count = golden_read(sample_requests[i].file, bytes);
        assert_ok(stele_request_encode(&world->arena, &sample_requests[i].request, 100, &frame));
        assert_frame(frame, bytes, count, 100);
        stele_buf_unref(frame);
        assert_ok(stele_request_decode(&world->arena, bytes, count, &decoded));
        assert_int_equal(decoded.header.api, sample_requests[i].request.header.api);
        assert_true(decoded.header.correlation_id == sample_requests[i].request.header.correlation_id);
        assert_ok(stele_request_encode(&world->arena, &decoded, 0, &frame));
        assert_frame(frame, bytes, count, 0);
        stele_buf_unref(frame);
        stele_arena_reset(&world->arena);
    }
}

static void test_golden_responses(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_responses); i++) {
        uint8_t bytes[MESSAGE_BYTES_MAX];
        struct stele_response decoded;
        struct stele_buf *frame;
        size_t count = golden_read(sample_responses[i].file, bytes);
        assert_ok(stele_response_encode(&world->arena, &sample_responses[i].response, 0, &frame));
        assert_frame(frame, bytes, count, 0);
        stele_buf_unref(frame);
        assert_ok(stele_response_decode(&world->arena, bytes, count, &decoded));
        assert_int_equal(decoded.header.api, sample_responses[i].response.header.api);
        assert_int_equal(decoded.header.throttle_time_ms, sample_responses[i].response.header.throttle_time_ms);
        assert_ok(stele_response_encode(&world->arena, &decoded, 1 << 30, &frame));
        assert_frame(frame, bytes, count, 1 << 30);
        stele_buf_unref(frame);
        stele_arena_reset(&world->arena);
    }
}

/* What the controller tells a node in front of an answer; who says nothing leaves it out. */
static void test_response_header(void **state)
{
    struct world *world = *state;
    struct stele_response response = {
        .header = {.api = STELE_API_UPDATE_LEVEL, .version = 1, .metadata_offset = 12345678901, .is_refused = true},
        .body.update_level = {.message = ""}};
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        struct stele_response decoded;
        struct stele_buf *frame;
        assert_ok(stele_response_encode(&world->arena, &response, 0, &frame));
        sizes[i] = frame->count;
        assert_ok(stele_response_decode(&world->arena, frame->bytes + STELE_FRAME_HEADER_BYTES,
                                        frame->count - STELE_FRAME_HEADER_BYTES, &decoded));
        assert_int_equal(decoded.header.metadata_offset, response.header.metadata_offset);
        assert_int_equal(decoded.header.is_refused, response.header.is_refused);
        stele_buf_unref(frame);
        response.header.metadata_offset = 0;
        response.header.is_refused = false;
    }
    assert_true(sizes[1] < sizes[0]);
}

static void test_golden_records(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_records); i++) {
        uint8_t bytes[MESSAGE_BYTES_MAX], *encoded;
        size_t count = golden_read(sample_records[i].file, bytes), encoded_count;
        struct stele_metadata_record decoded;
        assert_ok(stele_metadata_record_encode(&world->arena, &sample_records[i].record, &encoded, &encoded_count));
        assert_int_equal(encoded_count, count);
        assert_memory_equal(encoded, bytes, count);
        assert_ok(stele_metadata_record_decode(&world->arena, bytes, count, &decoded));
        assert_int_equal(decoded.kind, sample_records[i].record.kind);
        assert_ok(stele_metadata_record_encode(&world->arena, &decoded, &encoded, &encoded_count));
        assert_int_equal(encoded_count, count);
        assert_memory_equal(encoded, bytes, count);
        stele_arena_reset(&world->arena);
    }
}

/* What version 0.2 wrote decodes for ever, and what it did not know yet is absent. */
static void test_golden_of_v0_2(void **state)
{
    struct world *world = *state;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    struct stele_request request;
    assert_ok(stele_request_decode(&world->arena, bytes, golden_read("v0.2/fetch_request", bytes), &request));
    assert_int_equal(request.body.fetch.partitions[0].fetch_offset, 1000);
    assert_int_equal(request.body.fetch.partitions[0].doubted_offset, -1);
}

/* The same of version 0.1. */
static void test_golden_of_v0_1(void **state)
{
    struct world *world = *state;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    struct stele_request request;
    struct stele_response response;
    struct stele_metadata_record record;

    assert_ok(stele_request_decode(&world->arena, bytes, golden_read("v0.1/fetch_request", bytes), &request));
    const struct stele_fetch_request *fetch = &request.body.fetch;
    assert_int_equal(fetch->max_bytes, 52428800);
    assert_int_equal(fetch->partitions[0].fetch_offset, 1000);
    assert_int_equal(fetch->partitions[0].synced_offset, -1);
    assert_int_equal(fetch->partitions[0].known_high_watermark, -1);
    assert_int_equal(fetch->partitions[0].doubted_offset, -1);
    assert_int_equal(fetch->replica_epoch, -1);
    assert_int_equal(fetch->session_id, 0);
    assert_int_equal(fetch->session_epoch, -1);

    assert_ok(stele_response_decode(&world->arena, bytes, golden_read("v0.1/fetch_response", bytes), &response));
    const struct stele_fetch_result *result = &response.body.fetch.results[0];
    assert_int_equal(result->high_watermark, 1200);
    assert_int_equal(result->diverging_epoch, -1);
    assert_int_equal(result->diverging_end_offset, -1);
    assert_int_equal(result->snapshot_end_offset, -1);
    assert_int_equal(result->preferred_read_replica, -1);

    assert_ok(stele_response_decode(&world->arena, bytes, golden_read("v0.1/metadata_response", bytes), &response));
    assert_string_equal(response.body.metadata.nodes[0].host, "node-1.example");
    assert_string_equal(response.body.metadata.nodes[0].rack, "");

    assert_ok(
        stele_response_decode(&world->arena, bytes, golden_read("v0.1/describe_topic_response", bytes), &response));
    assert_true(response.body.describe_topic.topic_count > 0);
    assert_ok(stele_response_decode(&world->arena, bytes, golden_read("v0.1/describe_log_response", bytes), &response));
    assert_int_equal(response.body.describe_log.logs[0].leader_id, -1);
    assert_int_equal(response.body.describe_log.logs[0].epoch_start_offset, -1);

    assert_ok(stele_metadata_record_decode(&world->arena, bytes, golden_read("v0.1/record_partition", bytes), &record));
    assert_int_equal(record.u.partition.partition_epoch, 7);
    assert_int_equal(record.u.partition.elr_count, 0);
    assert_false(record.u.partition.is_recovering);
    stele_arena_reset(&world->arena);
}

/* The fields of one message of each shape come back as they went in, also those that are absent on the wire. */
static void test_fields(void **state)
{
    struct world *world = *state;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    struct stele_request request;
    struct stele_response response;
    const struct stele_uuid id = SAMPLE_ID;

    assert_ok(stele_request_decode(&world->arena, bytes, golden_read("create_topic_request", bytes), &request));
    assert_string_equal(request.header.client_id, "shop");
    assert_string_equal(request.body.create_topic.name, "orders");
    assert_int_equal(request.body.create_topic.replication_factor, -1);
    assert_int_equal(request.body.create_topic.setting_count, 2);
    assert_string_equal(request.body.create_topic.settings[0].value, "1000");
    assert_null(request.body.create_topic.settings[1].value);
    assert_true(request.body.create_topic.validate_only);

    assert_ok(stele_response_decode(&world->arena, bytes, golden_read("metadata_response", bytes), &response));
    const struct stele_metadata_topic *topics = response.body.metadata.topics;
    assert_int_equal(response.body.metadata.topic_count, 2);
    assert_true(stele_uuid_equal(&topics[0].topic_id, &id));
    assert_int_equal(topics[0].partitions[0].replica_count, 3);
    assert_int_equal(topics[0].partitions[0].replicas[2], 3);
    assert_int_equal(topics[0].partitions[1].err, STELE_LEADER_NOT_AVAILABLE);
    assert_int_equal(topics[0].partitions[1].leader_id, -1);
    assert_true(stele_uuid_is_zero(&topics[1].topic_id));
    assert_true(topics[1].is_internal);

    assert_ok(stele_response_decode(&world->arena, bytes, golden_read("produce_response", bytes), &response));
    assert_true(response.body.produce.results[0].base_offset == INT64_MAX);
    assert_int_equal(response.body.produce.results[1].err, STELE_NOT_LEADER_OR_FOLLOWER);
    assert_string_equal(response.body.produce.results[1].message, "node 2 leads");
}

/* A local error leaves as the nearest number of Kafka's. */
static void test_local_errors_become_wire_errors(void **state)
{
    struct world *world = *state;
    struct stele_response response = {
        .header = {.api = STELE_API_CREATE_TOPIC, .version = 1},
        .body.create_topic = {.err = STELE_NO_SPACE, .message = ""},
    };
    struct stele_buf *frame;
    assert_ok(stele_response_encode(&world->arena, &response, 0, &frame));
    assert_ok(stele_response_decode(&world->arena, frame->bytes + STELE_FRAME_HEADER_BYTES,
                                    frame->count - STELE_FRAME_HEADER_BYTES, &response));
    assert_int_equal(response.body.create_topic.err, STELE_KAFKA_STORAGE_ERROR);
    stele_buf_unref(frame);
}

struct bad_case {
    const char *hex;
    enum stele_err err;
    int32_t api;
};

/* Field 1 is the api, 2 the version, 3 the correlation id; bodies are 100 and up (tag a206 for produce). */
static const struct bad_case bad_requests[] = {
    {"", STELE_UNSUPPORTED_VERSION, -1},                /* nothing at all */
    {"ff", STELE_MALFORMED, 0},                         /* a cut tag */
    {"0880", STELE_MALFORMED, 0},                       /* a cut varint */
    {"08001001", STELE_MALFORMED, 0},                   /* no body */
    {"08001002", STELE_UNSUPPORTED_VERSION, 0},         /* a newer version */
    {"080a1001", STELE_UNSUPPORTED_VERSION, 5},         /* an api that is not in the table */
    {"08001001a2060508011a0500", STELE_MALFORMED, 0},   /* a cut body */
    {"08001001a2060608011a020a00", STELE_MALFORMED, 0}, /* an id of 0 bytes */
    {"08001001a206170801"
     "1a130a11"
     "0102030405060708090a0b0c0d0e0f1011",
     STELE_MALFORMED, 0},                            /* of 17 bytes */
    {"08d00f1001ca06021806", STELE_MALFORMED, 1000}, /* a role of no name */
};

/* Bytes that make no sense are refused; the header is still there when it could be read, so that it can be answered. */
static void test_bad_requests(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad_requests); i++) {
        uint8_t bytes[256];
        struct stele_request request;
        size_t count = stele_test_hex(bad_requests[i].hex, bytes, sizeof(bytes));
        enum stele_err err = stele_request_decode(&world->arena, bytes, count, &request);
        if (err != bad_requests[i].err || (int32_t)request.header.api != bad_requests[i].api)
            fail_msg("case %zu: %s, api %d", i, stele_err_name(err), (int)request.header.api);
    }
}

struct bad_record_case {
    const char *hex;
    enum stele_err err;
};

static const struct bad_record_case bad_records[] = {
    {"", STELE_MALFORMED},
    {"0a001200", STELE_MALFORMED},         /* two kinds at once */
    {"fa0100", STELE_UNSUPPORTED_VERSION}, /* a kind of a newer level */
    {"12041202ffff", STELE_MALFORMED},     /* an id of two bytes */
    {"1a", STELE_MALFORMED},
};

static void test_bad_records(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad_records); i++) {
        uint8_t bytes[64];
        struct stele_metadata_record record = {.kind = STELE_METADATA_FORMAT};
        size_t count = stele_test_hex(bad_records[i].hex, bytes, sizeof(bytes));
        assert_int_equal(stele_metadata_record_decode(&world->arena, bytes, count, &record), bad_records[i].err);
    }
}

/* A field that a newer version added is skipped. */
static void test_unknown_fields_are_skipped(void **state)
{
    struct world *world = *state;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    size_t count = golden_read("produce_request", bytes);
    struct stele_request request;
    count += stele_test_hex("f8ac0105", bytes + count, 8);
    assert_ok(stele_request_decode(&world->arena, bytes, count, &request));
    assert_int_equal(request.body.produce.partition_count, 2);
}

/* A small message can claim many elements: what it unpacks to stays below the arena's limit. */
static void test_absurd_counts_are_bounded(void **state)
{
    struct world *world = *state;
    enum { ELEMENTS = 200000, HEAD = 6 };
    struct stele_request request;
    /* fetch: api 1, version 1, body with ELEMENTS empty partitions of two bytes each */
    uint8_t *bytes = stele_mem_alloc(&world->mem.mem, STELE_MEM_TOOL, 16 + 2 * ELEMENTS);
    assert_non_null(bytes);
    size_t at = stele_test_hex("08021001aa06", bytes, 16);
    for (uint32_t left = 2 * ELEMENTS; left > 0; left >>= 7)
        bytes[at++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    for (int i = 0; i < ELEMENTS; i++) {
        bytes[at++] = 0x32;
        bytes[at++] = 0;
    }
    assert_int_equal(stele_request_decode(&world->arena, bytes, at, &request), STELE_NO_MEMORY);
    assert_true(world->arena.total_bytes <= ARENA_BYTES_MAX);
    stele_mem_free(&world->mem.mem, bytes);
}

/* Every allocation of a decode and an encode may fail: NO_MEMORY, nothing held, and the next try works. */
static void test_memory_failures(void **state)
{
    struct world *world = *state;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_responses); i++) {
        size_t count = golden_read(sample_responses[i].file, bytes);
        for (int64_t at = 1;; at++) {
            struct stele_response response;
            struct stele_buf *frame = NULL;
            stele_arena_deinit(&world->arena);
            stele_arena_init(&world->arena, &world->mem.mem, STELE_MEM_REQUEST, 0);
            stele_test_mem_fail(&world->mem, at, false);
            enum stele_err err = stele_response_decode(&world->arena, bytes, count, &response);
            if (err == STELE_OK)
                err = stele_response_encode(&world->arena, &response, 0, &frame);
            bool has_failed = world->mem.has_failed;
            stele_test_mem_fail(&world->mem, 0, false);
            stele_buf_unref(frame);
            if (!has_failed) {
                assert_ok(err);
                assert_true(at > 2); /* the arena's block and the frame were both refused once */
                break;
            }
            assert_int_equal(err, STELE_NO_MEMORY);
        }
    }
}

/* The same with an arena that is full after any number of bytes: every allocation inside it fails once. */
static void test_arena_failures(void **state)
{
    struct world *world = *state;
    uint8_t bytes[MESSAGE_BYTES_MAX];
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_requests); i++) {
        size_t count = golden_read(sample_requests[i].file, bytes);
        enum stele_err err = STELE_NO_MEMORY;
        for (size_t limit = 16; err != STELE_OK; limit += 16) {
            struct stele_request request;
            struct stele_buf *frame = NULL;
            world->arena.bytes_max = limit;
            err = stele_request_decode(&world->arena, bytes, count, &request);
            if (err == STELE_OK)
                err = stele_request_encode(&world->arena, &request, 0, &frame);
            stele_buf_unref(frame);
            stele_arena_reset(&world->arena);
            assert_true(err == STELE_OK || err == STELE_NO_MEMORY);
            assert_true(limit < ARENA_BYTES_MAX);
        }
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_records); i++) {
        size_t count = golden_read(sample_records[i].file, bytes);
        enum stele_err err = STELE_NO_MEMORY;
        for (size_t limit = 16; err != STELE_OK; limit += 16) {
            struct stele_metadata_record record;
            uint8_t *encoded;
            world->arena.bytes_max = limit;
            err = stele_metadata_record_decode(&world->arena, bytes, count, &record);
            if (err == STELE_OK)
                err = stele_metadata_record_encode(&world->arena, &record, &encoded, &count);
            stele_arena_reset(&world->arena);
            assert_true(err == STELE_OK || err == STELE_NO_MEMORY);
            assert_true(limit < ARENA_BYTES_MAX);
        }
    }
}

/* A frame whose length would not fit its 32 bits is refused. */
static void test_too_large(void **state)
{
    struct world *world = *state;
    struct stele_buf *frame;
    assert_int_equal(stele_request_encode(&world->arena, &sample_requests[0].request, UINT32_MAX - 10, &frame),
                     STELE_TOO_LARGE);
    assert_int_equal(stele_request_encode(&world->arena, &sample_requests[0].request, SIZE_MAX, &frame),
                     STELE_TOO_LARGE);
}

static int write_all(struct world *world)
{
    int failures = 0;
    struct stele_buf *frame;
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_requests); i++) {
        if (stele_request_encode(&world->arena, &sample_requests[i].request, 0, &frame) != STELE_OK)
            return 1;
        failures += golden_write(sample_requests[i].file, frame->bytes + 8, frame->count - 8);
        stele_buf_unref(frame);
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_responses); i++) {
        if (stele_response_encode(&world->arena, &sample_responses[i].response, 0, &frame) != STELE_OK)
            return 1;
        failures += golden_write(sample_responses[i].file, frame->bytes + 8, frame->count - 8);
        stele_buf_unref(frame);
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(sample_records); i++) {
        uint8_t *bytes;
        size_t count;
        if (stele_metadata_record_encode(&world->arena, &sample_records[i].record, &bytes, &count) != STELE_OK)
            return 1;
        failures += golden_write(sample_records[i].file, bytes, count);
    }
    return failures;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "write") == 0) {
        void *state;
        (void)set_up(&state);
        return write_all(state);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_golden_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_golden_responses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_response_header, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_golden_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_golden_of_v0_1, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_golden_of_v0_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_local_errors_become_wire_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_fields_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_absurd_counts_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_arena_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_large, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
