#include "base/test/support.h"
#include "storage/validate.h"

#include <string.h>

enum { NOW_MS = 1700000000 };

static struct stele_test_mem memory;
static struct stele_log_config config;

static int setup(void **state)
{
    (void)state;
    stele_test_mem_init(&memory);
    stele_log_config_default(&config);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stele_test_mem_check_empty(&memory);
    return 0;
}

static struct stele_batch_options plain_options(void)
{
    return (struct stele_batch_options){.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                        .partition_leader_epoch = -1,
                                        .producer_id = -1,
                                        .producer_epoch = -1,
                                        .base_sequence = -1};
}

/* `count` records with key "k" and times from NOW on. */
static struct stele_buf *build(const struct stele_batch_options *options, int count, const char *key, int64_t timestamp)
{
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, options);
    struct stele_buf *batch = NULL;
    for (int i = 0; i < count; i++) {
        struct stele_record_in in = {.timestamp = timestamp + i, .key = key, .value = "value", .value_bytes = 5};
        in.key_bytes = key == NULL ? 0 : (int32_t)strlen(key);
        assert_ok(stele_batch_builder_add(builder, &in));
    }
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    return batch;
}

/* Changes a field under the checksum and mends the checksum. */
static void put_i32(struct stele_buf *batch, size_t at, int32_t value)
{
    stele_put_i32(batch->bytes + at, value);
    stele_batch_restamp_time(batch->bytes, batch->count, stele_get_i16(batch->bytes + STELE_BATCH_POS_ATTRIBUTES),
                             stele_get_i64(batch->bytes + STELE_BATCH_POS_MAX_TIMESTAMP));
}

static void put_attributes(struct stele_buf *batch, int16_t attributes)
{
    stele_batch_restamp_time(batch->bytes, batch->count, attributes,
                             stele_get_i64(batch->bytes + STELE_BATCH_POS_MAX_TIMESTAMP));
}

static void expect(struct stele_buf *batch, enum stele_err want, const char *text)
{
    struct stele_validated out;
    struct stele_error error = {.text = ""};
    uint8_t before[4096];
    assert_true(batch->count <= sizeof(before));
    memcpy(before, batch->bytes, batch->count);
    enum stele_err err = stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, &error);
    assert_int_equal(err, want);
    if (text != NULL && strstr(error.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", error.text, text);
    if (err != STELE_OK)
        assert_memory_equal(before, batch->bytes, batch->count); /* bytes change only on success */
    stele_buf_unref(batch);
}

/* Each fault gets its error, and the bytes stay. */
static void test_faults(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_buf *batch = build(&options, 3, "k", NOW_MS);
    batch->bytes[STELE_BATCH_POS_MAGIC] = 1;
    expect(batch, STELE_INVALID_RECORD, "format 1");
    batch = build(&options, 3, "k", NOW_MS);
    stele_put_i64(batch->bytes, 5);
    expect(batch, STELE_INVALID_RECORD, "base offset");
    batch = build(&options, 3, "k", NOW_MS);
    batch->bytes[70] ^= 1;
    expect(batch, STELE_CORRUPT_MESSAGE, "checksum");
    batch = build(&options, 3, "k", NOW_MS);
    batch->count--;
    expect(batch, STELE_CORRUPT_MESSAGE, NULL);
    batch = build(&options, 3, "k", NOW_MS);
    put_attributes(batch, 5);
    expect(batch, STELE_UNKNOWN_SERVER_ERROR, "codec");
    batch = build(&options, 3, "k", NOW_MS);
    put_i32(batch, 23, 3); /* last offset delta */
    expect(batch, STELE_INVALID_RECORD, "last offset delta");
    batch = build(&options, 3, "k", NOW_MS);
    put_i32(batch, 23, -1);
    expect(batch, STELE_INVALID_RECORD, NULL);
    batch = build(&options, 3, "k", NOW_MS);
    put_i32(batch, 57, 2); /* record count */
    put_i32(batch, 23, 1);
    expect(batch, STELE_INVALID_RECORD, "more or fewer");
    batch = build(&options, 1, "k", NOW_MS);
    put_attributes(batch, STELE_BATCH_CONTROL);
    expect(batch, STELE_INVALID_RECORD, "control");
    options.producer_id = 7;
    options.producer_epoch = 0;
    expect(build(&options, 1, "k", NOW_MS), STELE_INVALID_RECORD, "sequence");
}

/* Sizes are held against the settings that name them. */
static void test_sizes(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    config.max_message_bytes = 100;
    expect(build(&options, 9, "k", NOW_MS), STELE_MESSAGE_TOO_LARGE, "message.max.bytes");
    config.max_message_bytes = 1048588;
    options.codec = STELE_CODEC_GZIP;
    config.max_unpacked_bytes = 50;
    expect(build(&options, 9, "k", NOW_MS), STELE_INVALID_RECORD, "message.max.unpacked.bytes");
}

static void test_timestamps(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    config.timestamp_after_max_ms = 1000;
    config.timestamp_before_max_ms = 1000;
    expect(build(&options, 1, "k", NOW_MS + 1000), STELE_OK, NULL);
    expect(build(&options, 1, "k", NOW_MS + 1001), STELE_INVALID_TIMESTAMP, "message.timestamp.after.max.ms");
    expect(build(&options, 1, "k", NOW_MS - 1000), STELE_OK, NULL);
    expect(build(&options, 1, "k", NOW_MS - 1001), STELE_INVALID_TIMESTAMP, NULL);
    expect(build(&options, 1, "k", INT64_MIN), STELE_INVALID_TIMESTAMP, NULL);
    expect(build(&options, 1, "k", -1), STELE_OK, NULL); /* without a time */
    /* A topic of append time takes any time, but no batch that claims to be of append time. */
    config.log_append_time = true;
    expect(build(&options, 1, "k", INT64_MAX - 5), STELE_OK, NULL);
    struct stele_buf *batch = build(&options, 1, "k", NOW_MS);
    put_attributes(batch, STELE_BATCH_LOG_APPEND_TIME);
    expect(batch, STELE_INVALID_TIMESTAMP, "log append time");
}

/* A compacted topic refuses records without a key, not those with an empty one; a wrong time outweighs a missing key.
 */
static void test_compacted(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    config.cleanup_compact = true;
    expect(build(&options, 2, NULL, NOW_MS), STELE_INVALID_RECORD, "no key");
    expect(build(&options, 2, "", NOW_MS), STELE_OK, NULL);
}

/* The largest timestamp is set right, and append time is stamped, in place, with the checksum. */
static void test_restamps(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_validated out;
    struct stele_batch_header header;
    struct stele_buf *batch = build(&options, 3, "k", NOW_MS);
    stele_batch_restamp_time(batch->bytes, batch->count, 0, 12345); /* a client that lies */
    assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
    assert_ok(stele_batch_check(batch->bytes, batch->count, &header));
    assert_int_equal(header.max_timestamp, NOW_MS + 2);
    assert_null(out.rebuilt);
    config.log_append_time = true;
    assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS + 77, &out, NULL));
    assert_ok(stele_batch_check(batch->bytes, batch->count, &header));
    assert_int_equal(header.max_timestamp, NOW_MS + 77);
    assert_int_equal(header.attributes & STELE_BATCH_LOG_APPEND_TIME, STELE_BATCH_LOG_APPEND_TIME);
    assert_int_equal(header.base_timestamp, NOW_MS);
    stele_buf_unref(batch);
}

/* With a codec of the topic's own the batch is made anew with the same records; compression.type=producer keeps the
 * bytes. */
static void test_recompresses(void **state)
{
    (void)state;
    for (int source = 0; source < STELE_CODEC_COUNT; source++) {
        for (int target = -1; target < STELE_CODEC_COUNT; target++) {
            struct stele_batch_options options = plain_options();
            struct stele_validated out;
            struct stele_record_walker walker;
            struct stele_record record;
            options.codec = (enum stele_codec)source;
            config.compression_producer = target < 0;
            config.compression = target < 0 ? STELE_CODEC_NONE : (enum stele_codec)target;
            struct stele_buf *batch = build(&options, 5, "k", NOW_MS);
            assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
            bool is_rebuilt = target >= 0 && target != source;
            assert_true((out.rebuilt != NULL) == is_rebuilt);
            const struct stele_buf *stored = is_rebuilt ? out.rebuilt : batch;
            assert_int_equal(out.bytes, stored->count);
            assert_int_equal(out.header.attributes & STELE_BATCH_CODEC_MASK, target < 0 ? source : target);
            assert_ok(stele_record_walker_init(&walker, &memory.mem, stored->bytes, stored->count, 1 << 20));
            for (int i = 0; i < 5; i++) {
                assert_ok(stele_record_next(&walker, &record));
                assert_int_equal(record.timestamp, NOW_MS + i);
                assert_memory_equal(record.value, "value", 5);
            }
            assert_int_equal(stele_record_next(&walker, &record), STELE_END);
            stele_record_walker_deinit(&walker);
            stele_buf_unref(out.rebuilt);
            stele_buf_unref(batch);
        }
    }
}

/* Every allocation may fail; nothing leaks. */
static void test_without_memory(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    bool is_done = false;
    options.codec = STELE_CODEC_LZ4;
    config.compression_producer = false;
    config.compression = STELE_CODEC_ZSTD;
    for (int at = 1; !is_done; at++) {
        struct stele_validated out = {.rebuilt = NULL};
        struct stele_buf *batch = build(&options, 5, "k", NOW_MS);
        stele_test_mem_fail(&memory, at, false);
        enum stele_err err = stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL);
        is_done = !memory.has_failed;
        stele_test_mem_fail(&memory, 0, false);
        assert_int_equal(err, is_done ? STELE_OK : STELE_NO_MEMORY);
        stele_buf_unref(out.rebuilt);
        stele_buf_unref(batch);
        assert_true(at < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timestamps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_compacted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restamps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recompresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
