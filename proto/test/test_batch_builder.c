#include "base/test/support.h"
#include "proto/record_batch.h"

#include <string.h>

static struct stele_test_mem memory;

static int setup(void **state)
{
    (void)state;
    stele_test_mem_init(&memory);
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

static void check_bytes(const struct stele_buf *batch, const char *hex)
{
    uint8_t want[256];
    size_t want_count = stele_test_hex(hex, want, sizeof(want));
    assert_int_equal(batch->count, want_count);
    assert_memory_equal(batch->bytes, want, want_count);
}

/* The golden vectors that need more than plain records: transactional (K), and what compaction leaves: a tombstone
 * under a delete horizon (E) and an empty retained batch (D), both with the header fields of the batch they come from.
 */
static void test_golden(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_header_in header = {.key = "h", .key_bytes = 1, .value = "x", .value_bytes = 1};
    struct stele_record_in record = {
        .timestamp = 1700000000000, .key = "key1", .key_bytes = 4, .headers = &header, .header_count = 1};
    struct stele_batch_header fields;
    struct stele_buf *batch = NULL;
    options.base_offset = 100;
    options.partition_leader_epoch = 5;
    options.producer_id = 4242;
    options.producer_epoch = 3;
    options.base_sequence = 7;
    options.attributes = STELE_BATCH_TRANSACTIONAL;
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    /* K has the largest timestamp of the batch that it was cut from. */
    stele_batch_restamp_time(batch->bytes, batch->count, options.attributes, 1700000000300);
    check_bytes(batch,
                "00000000000000640000004000000005025781a6bb0010000000000000018bcfe568000000018bcfe5692c00000000000"
                "010920003000000070000"
                "00011c000000086b657931010202680278");
    stele_buf_unref(batch);

    options.attributes = STELE_BATCH_DELETE_HORIZON;
    options.delete_horizon = 1700086400000;
    record.header_count = 0;
    stele_batch_builder_set_options(builder, &options);
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_put_i32(batch->bytes + 23, 2); /* last offset delta, of the batch before compaction */
    stele_batch_restamp_time(batch->bytes, batch->count, options.attributes, 1700000000000);
    check_bytes(batch,
                "00000000000000640000003f0000000502a8e9be020040000000020000018bd50bc4000000018bcfe5680000000000000"
                "01092000300000007000000011a00ffefb25200086b6579310100");
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);

    uint8_t empty[STELE_BATCH_HEADER_BYTES], want[STELE_BATCH_HEADER_BYTES];
    fields = (struct stele_batch_header){.base_offset = 100,
                                         .length = 49,
                                         .partition_leader_epoch = 5,
                                         .magic = 2,
                                         .last_offset_delta = 2,
                                         .base_timestamp = -1,
                                         .producer_id = 4242,
                                         .producer_epoch = 3,
                                         .base_sequence = 7};
    stele_batch_header_write(&fields, empty);
    stele_batch_restamp_time(empty, sizeof(empty), 0, 1700000000300);
    assert_int_equal(
        stele_test_hex("0000000000000064000000310000000502897577d0000000000002ffffffffffffffff0000018bcfe569"
                       "2c000000000000109200030000000700000000",
                       want, sizeof(want)),
        sizeof(want));
    assert_memory_equal(empty, want, sizeof(want));
}

/* Room is taken for the longest varints that a record may have: buffers that are full to the last byte of the bound. */
static void test_bound(void **state)
{
    (void)state;
    enum { SMALL_COUNT = 9000, KEY_BYTES = 3 << 19, CAPACITY = 4 << 20 };
    struct stele_batch_options options = plain_options();
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
    struct stele_record_in record = {.timestamp = INT64_MIN};
    struct stele_buf *batch = NULL;
    uint8_t *zeros = stele_mem_alloc(&memory.mem, STELE_MEM_TOOL, CAPACITY);
    for (int i = 0; i < SMALL_COUNT; i++)
        assert_ok(stele_batch_builder_add(builder, &record));
    record.timestamp = -1; /* as far from the first as it gets */
    record.key = zeros;
    record.value = zeros;
    record.key_bytes = KEY_BYTES;
    size_t used = stele_batch_builder_bytes(builder) + stele_record_bytes_max(&record);
    record.value_bytes = (int32_t)(CAPACITY - used);
    assert_int_equal(stele_batch_builder_bytes(builder) + stele_record_bytes_max(&record), CAPACITY);
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_true(stele_batch_builder_bytes(builder) <= CAPACITY);
    assert_true(stele_batch_builder_bytes(builder) > CAPACITY - 15);
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);
    stele_mem_free(&memory.mem, zeros);
}

/* No record: refused. After finish the builder is empty and takes the next batch. */
static void test_reuse(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
    struct stele_record_in record = {.timestamp = 5, .value = "one", .value_bytes = 3};
    struct stele_buf *first = NULL, *second = NULL;
    assert_int_equal(stele_batch_builder_finish(builder, &first), STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_batch_builder_bytes(builder), STELE_BATCH_HEADER_BYTES);
    for (int i = 0; i < 2; i++) {
        assert_ok(stele_batch_builder_add(builder, &record));
        assert_int_equal(stele_batch_builder_count(builder), 1);
        assert_ok(stele_batch_builder_finish(builder, i == 0 ? &first : &second));
        assert_int_equal(stele_batch_builder_count(builder), 0);
        assert_int_equal(stele_batch_builder_bytes(builder), STELE_BATCH_HEADER_BYTES);
    }
    assert_int_equal(first->count, second->count);
    assert_memory_equal(first->bytes, second->bytes, first->count);
    stele_buf_unref(first);
    stele_buf_unref(second);
    stele_batch_builder_free(builder);
}

/* A batch ends below 2 GiB: what would pass is refused before memory is taken, and the builder stays as it was. */
static void test_too_large(void **state)
{
    (void)state;
    struct stele_batch_options options = plain_options();
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
    struct stele_record_in record = {.value = "v", .value_bytes = INT32_MAX - STELE_BATCH_HEADER_BYTES};
    int64_t calls = memory.mem.calls;
    assert_int_equal(stele_batch_builder_add(builder, &record), STELE_TOO_LARGE);
    assert_int_equal(stele_batch_builder_reserve(builder, INT32_MAX), STELE_TOO_LARGE);
    assert_int_equal(stele_batch_builder_reserve(builder, SIZE_MAX), STELE_TOO_LARGE);
    assert_int_equal(memory.mem.calls, calls);
    record.value_bytes = 1;
    assert_ok(stele_batch_builder_add(builder, &record));
    assert_int_equal(stele_batch_builder_count(builder), 1);
    stele_batch_builder_free(builder);
}

/* A batch of append time dates all its records alike, whatever they were added with; base and deltas stay. */
static void test_append_time(void **state)
{
    (void)state;
    static const int64_t added[] = {1000, INT64_MIN, INT64_MAX, -1, 999};
    for (int codec = 0; codec < STELE_CODEC_COUNT; codec++) {
        for (int is_append_time = 0; is_append_time < 2; is_append_time++) {
            struct stele_batch_options options = plain_options();
            struct stele_record_walker walker;
            struct stele_record record;
            struct stele_buf *batch = NULL;
            options.codec = (enum stele_codec)codec;
            options.attributes = is_append_time ? STELE_BATCH_LOG_APPEND_TIME : 0;
            options.log_append_time = 77;
            struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
            for (size_t i = 0; i < STELE_ARRAY_LEN(added); i++) {
                struct stele_record_in in = {.timestamp = added[i]};
                assert_ok(stele_batch_builder_add(builder, &in));
            }
            assert_ok(stele_batch_builder_finish(builder, &batch));
            stele_batch_builder_free(builder);
            assert_ok(stele_record_walker_init(&walker, &memory.mem, batch->bytes, batch->count, 1000));
            assert_true(walker.header.base_timestamp == 1000);
            assert_true(walker.header.max_timestamp == (is_append_time ? 77 : INT64_MAX));
            for (size_t i = 0; i < STELE_ARRAY_LEN(added); i++) {
                assert_ok(stele_record_next(&walker, &record));
                assert_true(record.timestamp == (is_append_time ? 77 : added[i]));
            }
            stele_record_walker_deinit(&walker);
            stele_buf_unref(batch);
        }
    }
}

/* Records with and without key, value and headers. */
static void add_some(struct stele_batch_builder *builder, int count)
{
    static const struct stele_header_in headers[] = {
        {.key = "", .value = ""},
        {.key = "name", .key_bytes = 4},
        {.key = "h", .key_bytes = 1, .value = "value", .value_bytes = 5},
    };
    for (int i = 0; i < count; i++) {
        struct stele_record_in in = {.timestamp = 1700000000000 - 700 * i,
                                     .key = i % 3 == 0 ? NULL : "key",
                                     .key_bytes = i % 3 == 0 ? 0 : 3 * (i % 2),
                                     .value = i % 5 == 0 ? NULL : "some value",
                                     .value_bytes = i % 5 == 0 ? 0 : i % 10,
                                     .headers = headers,
                                     .header_count = i % 4};
        assert_ok(stele_batch_builder_add(builder, &in));
    }
}

static struct stele_buf *build(const struct stele_batch_options *options, int count)
{
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, options);
    struct stele_buf *batch = NULL;
    add_some(builder, count);
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    return batch;
}

/* What was walked out of any codec builds the same bytes again, in one allocation with the room known ahead. */
static void test_add_walked(void **state)
{
    (void)state;
    enum { COUNT = 500 };
    struct stele_batch_options options = plain_options();
    struct stele_buf *plain = build(&options, COUNT);
    for (int codec = 0; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_record_walker walker;
        struct stele_record record;
        struct stele_buf *again = NULL;
        options.codec = (enum stele_codec)codec;
        struct stele_buf *packed = build(&options, COUNT);
        options.codec = STELE_CODEC_NONE;
        struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
        assert_ok(stele_record_walker_init(&walker, &memory.mem, packed->bytes, packed->count, 1 << 20));
        int64_t calls = memory.mem.calls;
        assert_ok(stele_batch_builder_reserve(builder, stele_reader_left(&walker.reader) + 64));
        for (int i = 0; i < COUNT; i++) {
            assert_ok(stele_record_next(&walker, &record));
            assert_ok(stele_batch_builder_add_walked(builder, &record));
        }
        assert_int_equal(memory.mem.calls - calls, 1);
        /* Rewound, the walker yields the same again. */
        stele_record_walker_rewind(&walker);
        for (int i = 0; i < COUNT; i++)
            assert_ok(stele_record_next(&walker, &record));
        assert_int_equal(stele_record_next(&walker, &record), STELE_END);
        stele_record_walker_deinit(&walker);
        assert_ok(stele_batch_builder_finish(builder, &again));
        assert_int_equal(again->count, plain->count);
        assert_memory_equal(again->bytes, plain->bytes, plain->count);
        stele_buf_unref(again);
        stele_buf_unref(packed);
        stele_batch_builder_free(builder);
    }
    stele_buf_unref(plain);
}

/* An add or a finish without memory leaves the builder as it was: tried again, the batch is the one of a run without a
 * failure. */
static void test_without_memory(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static const char value[40];
    for (int codec = 0; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_batch_options options = plain_options();
        struct stele_buf *want = NULL;
        options.codec = (enum stele_codec)codec;
        int failures = 0;
        for (int64_t at = 0, is_done = 0; !is_done; at++) {
            struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
            struct stele_buf *batch = NULL;
            stele_test_mem_fail(&memory, at, false); /* 0: the run without */
            for (int i = 0; i < COUNT; i++) {
                struct stele_record_in in = {.timestamp = i, .value = value, .value_bytes = (int32_t)sizeof(value)};
                size_t bytes = stele_batch_builder_bytes(builder);
                enum stele_err err = stele_batch_builder_add(builder, &in);
                if (err != STELE_OK) {
                    assert_int_equal(err, STELE_NO_MEMORY);
                    assert_int_equal(stele_batch_builder_bytes(builder), bytes);
                    assert_int_equal(stele_batch_builder_count(builder), i);
                    failures++;
                    assert_ok(stele_batch_builder_add(builder, &in));
                }
            }
            enum stele_err err = stele_batch_builder_finish(builder, &batch);
            if (err != STELE_OK) {
                assert_int_equal(err, STELE_NO_MEMORY);
                assert_null(batch);
                failures++;
                assert_ok(stele_batch_builder_finish(builder, &batch));
            }
            is_done = at > 0 && !memory.has_failed;
            if (at == 0) {
                want = batch;
            } else {
                assert_int_equal(batch->count, want->count);
                assert_memory_equal(batch->bytes, want->bytes, want->count);
                stele_buf_unref(batch);
            }
            stele_batch_builder_free(builder);
        }
        stele_test_mem_fail(&memory, 0, false);
        assert_true(failures >= (codec == STELE_CODEC_NONE ? 1 : 2));
        stele_buf_unref(want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_golden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_large, setup, teardown),
        cmocka_unit_test_setup_teardown(test_append_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_add_walked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
