#include "base/test/support.h"
#include "storage/validate.h"

#include <string.h>

enum { NOW_MS = 1700000000, RECORD_BYTES = 13 /* of build */ };

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
    expect(batch, STELE_INVALID_RECORD, "more than the 2 records");
    batch = build(&options, 1, "k", NOW_MS);
    put_attributes(batch, STELE_BATCH_CONTROL);
    expect(batch, STELE_INVALID_RECORD, "control");
    batch = build(&options, 3, "k", NOW_MS);
    put_i32(batch, 23, INT32_MAX);
    put_i32(batch, 57, INT32_MIN); /* their sum would wrap */
    expect(batch, STELE_INVALID_RECORD, "last offset delta");
    batch = build(&options, 3, "k", NOW_MS);
    put_i32(batch, 57, 0);
    put_i32(batch, 23, -1);
    expect(batch, STELE_INVALID_RECORD, "0 records");
    batch = build(&options, 3, "k", NOW_MS);
    batch->bytes[61]++; /* the first record's length */
    put_attributes(batch, 0);
    expect(batch, STELE_INVALID_RECORD, "record 0 of 3");
    batch = build(&options, 3, "k", NOW_MS);
    batch->count = 40;
    expect(batch, STELE_CORRUPT_MESSAGE, "40 bytes");
    batch = build(&options, 3, "k", NOW_MS);
    batch->count = 0;
    expect(batch, STELE_CORRUPT_MESSAGE, "0 bytes");
    options.producer_id = 7;
    options.producer_epoch = 0;
    expect(build(&options, 1, "k", NOW_MS), STELE_INVALID_RECORD, "sequence");
    options.base_sequence = 0;
    expect(build(&options, 1, "k", NOW_MS), STELE_OK, NULL);
}

/* A stream that does not decode is no fault of a record. */
static void test_damaged_streams(void **state)
{
    (void)state;
    for (int codec = STELE_CODEC_GZIP; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_batch_options options = plain_options();
        options.codec = (enum stele_codec)codec;
        struct stele_buf *batch = build(&options, 3, "k", NOW_MS);
        memset(batch->bytes + STELE_BATCH_HEADER_BYTES, 0xff, batch->count - STELE_BATCH_HEADER_BYTES);
        put_attributes(batch, (int16_t)codec);
        expect(batch, STELE_UNKNOWN_SERVER_ERROR, stele_codec_name((enum stele_codec)codec));
    }
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
    /* The limit itself is allowed, and batches that are not compressed have none. */
    config.max_unpacked_bytes = 9 * RECORD_BYTES;
    expect(build(&options, 9, "k", NOW_MS), STELE_OK, NULL);
    config.max_unpacked_bytes = 9 * RECORD_BYTES - 1;
    expect(build(&options, 9, "k", NOW_MS), STELE_INVALID_RECORD, "116");
    options.codec = STELE_CODEC_NONE;
    expect(build(&options, 9, "k", NOW_MS), STELE_OK, NULL);
    config.max_message_bytes = STELE_BATCH_HEADER_BYTES + 9 * RECORD_BYTES;
    expect(build(&options, 9, "k", NOW_MS), STELE_OK, NULL);
    config.max_message_bytes--;
    expect(build(&options, 9, "k", NOW_MS), STELE_MESSAGE_TOO_LARGE, "178 bytes");
    /* What is made anew is held against the limit too. */
    options.codec = STELE_CODEC_GZIP;
    config.max_unpacked_bytes = 1 << 20;
    config.compression_producer = false;
    config.compression = STELE_CODEC_NONE;
    expect(build(&options, 9, "k", NOW_MS), STELE_MESSAGE_TOO_LARGE, "compressed anew");
}

/* Both bounds are held, to the millisecond and at the ends of 64 bits. */
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

/* Of several bad records the first is named, and a wrong time outweighs a missing key, wherever they stand. */
static void test_worst_record(void **state)
{
    (void)state;
    static const struct {
        const char *keys; /* a letter a record; '-' none */
        int late;         /* which record is dated too far in the future; -1 none */
        enum stele_err want;
        int32_t bad_record;
        const char *text;
    } cases[] = {
        {"kkk", -1, STELE_OK, -1, ""},
        {"k--", -1, STELE_INVALID_RECORD, 1, "record 1 has no key"},
        {"kkk", 2, STELE_INVALID_TIMESTAMP, 2, "record 2 has timestamp"},
        {"--k", 2, STELE_INVALID_TIMESTAMP, 2, "record 2 has timestamp"},
        {"kk-", 0, STELE_INVALID_TIMESTAMP, 0, "record 0 has timestamp"},
        {"-kk", 0, STELE_INVALID_RECORD, 0, "record 0 has no key"}, /* one error a record, the key's first */
    };
    config.cleanup_compact = true;
    config.timestamp_after_max_ms = 1000;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_batch_options options = plain_options();
        struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
        struct stele_validated out = {.bad_record = -1};
        struct stele_error error = {.text = ""};
        struct stele_buf *batch = NULL;
        for (int k = 0; cases[i].keys[k] != 0; k++) {
            struct stele_record_in in = {.timestamp = k == cases[i].late ? NOW_MS + 1001 : NOW_MS};
            in.key = cases[i].keys[k] == '-' ? NULL : &cases[i].keys[k];
            in.key_bytes = in.key == NULL ? 0 : 1;
            assert_ok(stele_batch_builder_add(builder, &in));
        }
        assert_ok(stele_batch_builder_finish(builder, &batch));
        stele_batch_builder_free(builder);
        enum stele_err err = stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, &error);
        assert_int_equal(err, cases[i].want);
        assert_int_equal(out.bad_record, cases[i].bad_record);
        assert_non_null(strstr(error.text, cases[i].text));
        assert_true(err == STELE_OK || error.err == err);
        stele_buf_unref(batch);
    }
}

/* Changes the offset delta of the second of three records (a byte, 0x02) to that of the third. */
static void reorder(struct stele_buf *batch)
{
    uint8_t *second = batch->bytes + STELE_BATCH_HEADER_BYTES + RECORD_BYTES;
    assert_int_equal(second[3], 2);
    second[3] = 4;
    put_attributes(batch, stele_get_i16(batch->bytes + STELE_BATCH_POS_ATTRIBUTES));
}

/* A packed copy of a batch that is not compressed, byte for byte inside. */
static struct stele_buf *packed_copy(const struct stele_buf *plain, enum stele_codec codec)
{
    struct stele_buf *packed = NULL;
    assert_ok(stele_compress(&memory.mem, codec, STELE_CODEC_LEVEL_DEFAULT, plain->bytes + STELE_BATCH_HEADER_BYTES,
                             plain->count - STELE_BATCH_HEADER_BYTES, STELE_BATCH_HEADER_BYTES, &packed));
    memcpy(packed->bytes, plain->bytes, STELE_BATCH_HEADER_BYTES);
    stele_put_i32(packed->bytes + STELE_BATCH_POS_LENGTH, (int32_t)packed->count - STELE_BATCH_PREFIX_BYTES);
    put_attributes(packed, (int16_t)(stele_get_i16(plain->bytes + STELE_BATCH_POS_ATTRIBUTES) | (int)codec));
    return packed;
}

/* Inner offsets other than 0, 1, 2 make a compressed batch anew, with everything else that its header tells; a batch
 * that is not compressed passes as it is, as it does Kafka's leader. */
static void test_inner_offsets(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    options.producer_id = 4242;
    options.producer_epoch = 3;
    options.base_sequence = 7;
    options.attributes = STELE_BATCH_TRANSACTIONAL;
    struct stele_buf *plain = build(&options, 3, "k", NOW_MS);
    reorder(plain);
    for (int codec = STELE_CODEC_NONE; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_buf *batch = packed_copy(plain, (enum stele_codec)codec);
        struct stele_validated out;
        struct stele_record_walker walker;
        struct stele_record record;
        assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
        if (codec == STELE_CODEC_NONE) {
            assert_null(out.rebuilt);
            stele_buf_unref(batch);
            continue;
        }
        assert_non_null(out.rebuilt);
        assert_true(out.header.producer_id == 4242);
        assert_int_equal(out.header.producer_epoch, 3);
        assert_int_equal(out.header.base_sequence, 7);
        assert_int_equal(out.header.attributes, STELE_BATCH_TRANSACTIONAL | codec);
        assert_ok(stele_record_walker_init(&walker, &memory.mem, out.rebuilt->bytes, out.rebuilt->count, 1 << 20));
        for (int i = 0; i < 3; i++) {
            assert_ok(stele_record_next(&walker, &record));
            assert_int_equal(record.offset, i);
        }
        stele_record_walker_deinit(&walker);
        stele_buf_unref(out.rebuilt);
        stele_buf_unref(batch);
    }
    stele_buf_unref(plain);
}

/* Bits that mean nothing are left alone until the attributes are written anyway; then they are dropped. */
static void test_foreign_bits(void **state)
{
    (void)state;
    enum { FOREIGN = 0x4180 };
    struct stele_batch_options options = plain_options();
    struct stele_validated out;
    struct stele_buf *batch = build(&options, 1, "k", NOW_MS);
    put_attributes(batch, FOREIGN);
    assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
    assert_int_equal(stele_get_i16(batch->bytes + STELE_BATCH_POS_ATTRIBUTES), FOREIGN);
    config.log_append_time = true;
    assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
    assert_int_equal(stele_get_i16(batch->bytes + STELE_BATCH_POS_ATTRIBUTES), STELE_BATCH_LOG_APPEND_TIME);
    assert_int_equal(out.header.attributes, STELE_BATCH_LOG_APPEND_TIME);
    stele_buf_unref(batch);
}

/* A batch flagged as of append time becomes one of create time on a topic of create time. Its records are held to the
 * bounds, and it is dated, by the timestamps that they then have, whatever its header says. */
static void test_append_time_flag(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_validated out;
    config.timestamp_after_max_ms = 1000;
    options.attributes = STELE_BATCH_LOG_APPEND_TIME;
    options.log_append_time = NOW_MS - 5;
    for (int codec = 0; codec < STELE_CODEC_COUNT; codec++) {
        for (int is_rebuilt = 0; is_rebuilt < 2; is_rebuilt++) {
            options.codec = (enum stele_codec)codec;
            config.compression_producer = !is_rebuilt;
            config.compression = (enum stele_codec)((codec + 1) % STELE_CODEC_COUNT);
            struct stele_buf *batch = build(&options, 3, "k", NOW_MS);
            assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
            assert_int_equal(out.rebuilt != NULL, is_rebuilt);
            assert_int_equal(out.header.attributes & STELE_BATCH_LOG_APPEND_TIME, 0);
            assert_int_equal(out.header.base_timestamp, NOW_MS);
            assert_int_equal(out.header.max_timestamp, NOW_MS + 2);
            stele_buf_unref(out.rebuilt);
            stele_buf_unref(batch);
        }
    }
    expect(build(&options, 3, "k", NOW_MS + 999), STELE_INVALID_TIMESTAMP, "record 2");
    expect(build(&options, 3, "k", STELE_NO_TIMESTAMP), STELE_INVALID_TIMESTAMP, "log append time");
}

/* Timestamps below -1 pass in place, dated -1; nothing can be built of them. */
static void test_negative_timestamps(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_validated out = {.bad_record = -1};
    struct stele_error error;
    struct stele_buf *batch = build(&options, 2, "k", -7);
    assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
    assert_int_equal(out.header.max_timestamp, STELE_NO_TIMESTAMP);
    config.compression_producer = false;
    config.compression = STELE_CODEC_GZIP;
    assert_int_equal(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, &error),
                     STELE_UNKNOWN_SERVER_ERROR);
    assert_int_equal(out.bad_record, 0);
    stele_buf_unref(batch);
}

/* Neither checking nor making anew allocates a record at a time, with headers either. */
static void test_no_allocation_per_record(void **state)
{
    (void)state;
    static const struct stele_header_in header = {.key = "h", .key_bytes = 1, .value = "x", .value_bytes = 1};
    static const int counts[2] = {1, 10000};
    for (int target = 0; target < STELE_CODEC_COUNT; target++) {
        int64_t calls[2];
        config.compression_producer = false;
        config.compression = (enum stele_codec)target;
        for (int i = 0; i < 2; i++) {
            struct stele_batch_options options = plain_options();
            struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
            struct stele_validated out = {.rebuilt = NULL};
            struct stele_buf *batch = NULL;
            for (int k = 0; k < counts[i]; k++) {
                struct stele_record_in in = {.timestamp = NOW_MS, .headers = &header, .header_count = 1};
                assert_ok(stele_batch_builder_add(builder, &in));
            }
            assert_ok(stele_batch_builder_finish(builder, &batch));
            stele_batch_builder_free(builder);
            calls[i] = memory.mem.calls;
            assert_ok(stele_validate(&memory.mem, &config, batch->bytes, batch->count, NOW_MS, &out, NULL));
            calls[i] = memory.mem.calls - calls[i];
            stele_buf_unref(out.rebuilt);
            stele_buf_unref(batch);
        }
        assert_true(target != STELE_CODEC_NONE || calls[1] == 0);
        assert_true(calls[1] <= calls[0] + 1); /* the builder may double once */
    }
}

/* Only a large batch that must be unpacked belongs in a job. */
static void test_is_long(void **state)
{
    (void)state;
    uint8_t bytes[16385] = {0};
    assert_false(stele_validate_is_long(bytes, sizeof(bytes)));
    stele_put_i16(bytes + STELE_BATCH_POS_ATTRIBUTES, STELE_CODEC_LZ4);
    assert_true(stele_validate_is_long(bytes, sizeof(bytes)));
    assert_false(stele_validate_is_long(bytes, sizeof(bytes) - 1));
    assert_false(stele_validate_is_long(bytes, 0));
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
        cmocka_unit_test_setup_teardown(test_damaged_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_worst_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inner_offsets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_append_time_flag, setup, teardown),
        cmocka_unit_test_setup_teardown(test_negative_timestamps, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_allocation_per_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_is_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
