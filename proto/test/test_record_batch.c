#include "base/test/support.h"
#include "proto/record_batch.h"

#include <stdio.h>
#include <string.h>

/* Golden vectors, made by independent encoders (A and K by two of them). */
static const char vector_a[] =
    "00000000000000000000003affffffff02716a618900000000000000000000000003e800000000000003e8ffffffffffffffffffff"
    "ffffffff0000000110000000026b027600";
static const char vector_b[] =
    "000000000000006400000055000000050206e416ea0000000000020000018bcfe568000000018bcfe5692c0000000000001092000300000007"
    "0000000322000000086b657931010402680278026e010c0009020100001400d80404000661626300";
static const char vector_c[] =
    "0000000000000067000000420000000502b61125c50030000000000000018bcfe569900000018bcfe569900000000000001092000"
    "3ffffffff000000012000000008000000010c00000000000900";
static const char vector_c_abort[] =
    "0000000000000067000000420000000502422ff38d0030000000000000018bcfe569900000018bcfe56990000000000000"
    "10920003ffffffff000000012000000008000000000c00000000000900";
static const char vector_d[] =
    "0000000000000064000000310000000502897577d0000000000002ffffffffffffffff0000018bcfe5692c00000000000010920003"
    "0000000700000000";
static const char vector_e[] =
    "00000000000000640000003f0000000502a8e9be020040000000020000018bd50bc4000000018bcfe5680000000000000010920003"
    "00000007000000011a00ffefb25200086b6579310100";
static const char vector_k[] =
    "00000000000000640000004000000005025781a6bb0010000000000000018bcfe568000000018bcfe5692c00000000000010920003"
    "00000007000000011c000000086b657931010202680278";

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

static struct stele_batch_options options_of(int64_t base, int32_t epoch, int64_t pid, int16_t pid_epoch, int32_t seq)
{
    return (struct stele_batch_options){.codec = STELE_CODEC_NONE,
                                        .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                        .base_offset = base,
                                        .partition_leader_epoch = epoch,
                                        .producer_id = pid,
                                        .producer_epoch = pid_epoch,
                                        .base_sequence = seq};
}

static void check_built(const struct stele_batch_options *options, const struct stele_record_in *records, int count,
                        const char *hex)
{
    uint8_t want[256];
    size_t want_count = stele_test_hex(hex, want, sizeof(want));
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, options);
    struct stele_buf *batch = NULL;
    for (int i = 0; i < count; i++)
        assert_ok(stele_batch_builder_add(builder, &records[i]));
    assert_int_equal(stele_batch_builder_bytes(builder), want_count);
    assert_ok(stele_batch_builder_finish(builder, &batch));
    assert_int_equal(batch->count, want_count);
    assert_memory_equal(batch->bytes, want, want_count);
    stele_buf_unref(batch);
    stele_batch_builder_free(builder);
}

/* The builder writes the golden batches byte for byte. */
static void test_golden_encode(void **state)
{
    (void)state;
    struct stele_batch_options options = options_of(0, -1, -1, -1, -1);
    struct stele_record_in a = {.timestamp = 1000, .key = "k", .key_bytes = 1, .value = "v", .value_bytes = 1};
    check_built(&options, &a, 1, vector_a);
    struct stele_header_in headers[] = {{.key = "h", .key_bytes = 1, .value = "x", .value_bytes = 1},
                                        {.key = "n", .key_bytes = 1}};
    struct stele_record_in b[] = {
        {.timestamp = 1700000000000, .key = "key1", .key_bytes = 4, .headers = headers, .header_count = 2},
        {.timestamp = 1699999999995, .value = ""},
        {.timestamp = 1700000000300, .key = "", .value = "abc", .value_bytes = 3},
    };
    options = options_of(100, 5, 4242, 3, 7);
    check_built(&options, b, 3, vector_b);
    options = options_of(103, 5, 4242, 3, -1);
    options.attributes = STELE_BATCH_TRANSACTIONAL | STELE_BATCH_CONTROL;
    struct stele_record_in c = {
        .timestamp = 1700000000400, .key = "\0\0\0\1", .key_bytes = 4, .value = "\0\0\0\0\0\11", .value_bytes = 6};
    check_built(&options, &c, 1, vector_c);
    c.key = "\0\0\0\0";
    check_built(&options, &c, 1, vector_c_abort);
}

/* Every golden batch passes the check, and its header encodes to the same bytes. */
static void test_golden_headers(void **state)
{
    (void)state;
    const char *all[] = {vector_a, vector_b, vector_c, vector_c_abort, vector_d, vector_e, vector_k};
    for (size_t i = 0; i < STELE_ARRAY_LEN(all); i++) {
        uint8_t bytes[256], again[STELE_BATCH_HEADER_BYTES];
        struct stele_batch_header header;
        size_t count = stele_test_hex(all[i], bytes, sizeof(bytes));
        assert_ok(stele_batch_check(bytes, count, &header));
        stele_batch_header_write(&header, again);
        assert_memory_equal(bytes, again, sizeof(again));
        assert_int_equal(stele_batch_size(bytes), count);
        /* Any flip below the checksum is found; any cut too. */
        for (size_t at = STELE_BATCH_POS_ATTRIBUTES; at < count; at++) {
            bytes[at] ^= 0x10;
            assert_int_not_equal(stele_batch_check(bytes, count, &header), STELE_OK);
            bytes[at] ^= 0x10;
        }
        for (size_t cut = 0; cut < count; cut++)
            assert_int_not_equal(stele_batch_check(bytes, cut, &header), STELE_OK);
    }
}

/* The records of the golden batches decode to what they were made of. */
static void test_golden_decode(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_record_header header;
    size_t pos = 0;
    size_t count = stele_test_hex(vector_b, bytes, sizeof(bytes));
    assert_ok(stele_record_walker_init(&walker, &memory.mem, bytes, count, 1000));
    assert_ok(stele_record_next(&walker, &record));
    assert_int_equal(record.offset, 100);
    assert_int_equal(record.sequence, 7);
    assert_true(record.timestamp == 1700000000000);
    assert_memory_equal(record.key, "key1", 4);
    assert_null(record.value);
    assert_int_equal(record.header_count, 2);
    assert_true(stele_record_header_next(&record, &pos, &header));
    assert_memory_equal(header.key, "h", 1);
    assert_memory_equal(header.value, "x", 1);
    assert_true(stele_record_header_next(&record, &pos, &header));
    assert_null(header.value);
    assert_false(stele_record_header_next(&record, &pos, &header));
    assert_ok(stele_record_next(&walker, &record));
    assert_null(record.key);
    assert_non_null(record.value);
    assert_int_equal(record.value_bytes, 0);
    assert_true(record.timestamp == 1699999999995);
    assert_ok(stele_record_next(&walker, &record));
    assert_int_equal(record.offset, 102);
    assert_int_equal(stele_record_next(&walker, &record), STELE_END);
    stele_record_walker_deinit(&walker);

    struct stele_control control;
    count = stele_test_hex(vector_c, bytes, sizeof(bytes));
    assert_ok(stele_record_walker_init(&walker, &memory.mem, bytes, count, 1000));
    assert_ok(stele_record_next(&walker, &record));
    assert_ok(stele_control_read(&record, &control));
    assert_int_equal(control.type, STELE_CONTROL_COMMIT);
    assert_int_equal(control.coordinator_epoch, 9);
    assert_int_equal(record.sequence, STELE_NO_SEQUENCE);
    stele_record_walker_deinit(&walker);

    /* A tombstone of a cleaned batch: base timestamp is the horizon, the delta is negative. */
    count = stele_test_hex(vector_e, bytes, sizeof(bytes));
    assert_ok(stele_record_walker_init(&walker, &memory.mem, bytes, count, 1000));
    assert_ok(stele_record_next(&walker, &record));
    assert_true(record.timestamp == 1700000000000);
    assert_null(record.value);
    stele_record_walker_deinit(&walker);

    /* An empty retained batch has no records, whatever its size. */
    count = stele_test_hex(vector_d, bytes, sizeof(bytes));
    assert_ok(stele_record_walker_init(&walker, &memory.mem, bytes, count, 1000));
    assert_int_equal(stele_record_next(&walker, &record), STELE_END);
    stele_record_walker_deinit(&walker);
}

enum { RANDOM_RECORDS_MAX = 40, RANDOM_BYTES_MAX = 3000 };

struct random_record {
    struct stele_record_in in;
    struct stele_header_in headers[3];
    char pool[RANDOM_BYTES_MAX + 200];
};

static struct random_record randoms[RANDOM_RECORDS_MAX];

static void randomize(struct stele_prng *prng, struct random_record *random)
{
    int32_t key_bytes = (int32_t)stele_prng_below(prng, 20);
    int32_t value_bytes = (int32_t)stele_prng_below(prng, stele_prng_chance(prng, 1, 8) ? RANDOM_BYTES_MAX : 60);
    for (size_t i = 0; i < sizeof(random->pool); i++)
        random->pool[i] = (char)('a' + stele_prng_below(prng, 4));
    random->in = (struct stele_record_in){
        .timestamp = stele_prng_range(prng, 0, 1800000000000),
        .key = stele_prng_chance(prng, 1, 5) ? NULL : random->pool,
        .value = stele_prng_chance(prng, 1, 5) ? NULL : random->pool + 20,
        .headers = random->headers,
        .header_count = (int32_t)stele_prng_below(prng, 4),
    };
    random->in.key_bytes = random->in.key == NULL ? 0 : key_bytes;
    random->in.value_bytes = random->in.value == NULL ? 0 : value_bytes;
    for (int32_t i = 0; i < random->in.header_count; i++)
        random->headers[i] = (struct stele_header_in){.key = random->pool + i,
                                                      .key_bytes = (int32_t)stele_prng_below(prng, 9),
                                                      .value = i == 1 ? NULL : random->pool + 5,
                                                      .value_bytes = i == 1 ? 0 : i};
}

static void check_equal(const struct stele_record *got, const struct stele_record_in *want, int64_t offset)
{
    size_t pos = 0;
    struct stele_record_header header;
    assert_true(got->offset == offset);
    assert_true(got->timestamp == want->timestamp);
    assert_true((got->key == NULL) == (want->key == NULL));
    assert_true((got->value == NULL) == (want->value == NULL));
    assert_int_equal(got->key_bytes, want->key_bytes);
    assert_int_equal(got->value_bytes, want->value_bytes);
    if (got->key != NULL)
        assert_memory_equal(got->key, want->key, (size_t)got->key_bytes);
    if (got->value != NULL)
        assert_memory_equal(got->value, want->value, (size_t)got->value_bytes);
    for (int32_t i = 0; i < want->header_count; i++) {
        assert_true(stele_record_header_next(got, &pos, &header));
        assert_int_equal(header.key_bytes, want->headers[i].key_bytes);
        assert_memory_equal(header.key, want->headers[i].key, (size_t)header.key_bytes);
        assert_true((header.value == NULL) == (want->headers[i].value == NULL));
    }
    assert_false(stele_record_header_next(got, &pos, &header));
}

static struct stele_buf *build_random(struct stele_prng *prng, enum stele_codec codec, int count)
{
    struct stele_batch_options options = options_of(77, 1, -1, -1, -1);
    struct stele_buf *batch = NULL;
    options.codec = codec;
    struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
    for (int i = 0; i < count; i++) {
        randomize(prng, &randoms[i]);
        assert_ok(stele_batch_builder_add(builder, &randoms[i].in));
    }
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    return batch;
}

/* Random records survive every codec; a limit one byte too low is found; no more memory than the limit is taken. */
static void test_round_trip(void **state)
{
    (void)state;
    struct stele_prng prng;
    stele_prng_init(&prng, 3, 0);
    for (int round = 0; round < 200; round++) {
        enum stele_codec codec = (enum stele_codec)(round % STELE_CODEC_COUNT);
        int count = 1 + (int)stele_prng_below(&prng, RANDOM_RECORDS_MAX);
        struct stele_buf *batch = build_random(&prng, codec, count);
        struct stele_record_walker walker;
        struct stele_record record;
        struct stele_batch_header header;
        assert_ok(stele_batch_check(batch->bytes, batch->count, &header));
        assert_ok(stele_record_walker_init(&walker, &memory.mem, batch->bytes, batch->count, 1 << 20));
        size_t unpacked = stele_reader_left(&walker.reader);
        for (int i = 0; i < count; i++) {
            assert_ok(stele_record_next(&walker, &record));
            check_equal(&record, &randoms[i].in, 77 + i);
        }
        assert_int_equal(stele_record_next(&walker, &record), STELE_END);
        stele_record_walker_deinit(&walker);
        if (codec != STELE_CODEC_NONE) {
            assert_ok(stele_record_walker_init(&walker, &memory.mem, batch->bytes, batch->count, unpacked));
            stele_record_walker_deinit(&walker);
            assert_int_equal(stele_record_walker_init(&walker, &memory.mem, batch->bytes, batch->count, unpacked - 1),
                             STELE_INVALID_RECORD);
            /* A cut stream never decodes. */
            for (int cut = 0; cut < 10; cut++) {
                size_t left =
                    STELE_BATCH_HEADER_BYTES + stele_prng_below(&prng, batch->count - STELE_BATCH_HEADER_BYTES);
                enum stele_err err = stele_record_walker_init(&walker, &memory.mem, batch->bytes, left, 1 << 20);
                if (err == STELE_OK) {
                    while (err == STELE_OK)
                        err = stele_record_next(&walker, &record);
                    stele_record_walker_deinit(&walker);
                    assert_int_equal(err, STELE_INVALID_RECORD);
                }
            }
        }
        stele_buf_unref(batch);
    }
}

/* Every allocation of packing, unpacking and walking may fail; nothing leaks. */
static void test_without_memory(void **state)
{
    (void)state;
    for (int codec = STELE_CODEC_NONE; codec < STELE_CODEC_COUNT; codec++) {
        bool is_done = false;
        for (int at = 1; !is_done; at++) {
            struct stele_batch_options options = options_of(0, 0, -1, -1, -1);
            struct stele_record_in in = {.key = "k", .key_bytes = 1, .value = "value", .value_bytes = 5};
            struct stele_buf *batch = NULL;
            struct stele_record_walker walker;
            options.codec = (enum stele_codec)codec;
            stele_test_mem_fail(&memory, at, false);
            struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
            enum stele_err err = builder == NULL ? STELE_NO_MEMORY : stele_batch_builder_add(builder, &in);
            if (err == STELE_OK)
                err = stele_batch_builder_finish(builder, &batch);
            if (err == STELE_OK)
                err = stele_record_walker_init(&walker, &memory.mem, batch->bytes, batch->count, 100);
            if (err == STELE_OK)
                stele_record_walker_deinit(&walker);
            is_done = !memory.has_failed;
            assert_int_equal(err, is_done ? STELE_OK : STELE_NO_MEMORY);
            stele_buf_unref(batch);
            stele_batch_builder_free(builder);
            assert_true(at < 100);
        }
    }
    stele_test_mem_fail(&memory, 0, false);
}

/* Building and walking allocate per batch, not per record. */
static void test_no_allocation_per_record(void **state)
{
    (void)state;
    int64_t calls[2];
    const int counts[2] = {10, 10000};
    for (int i = 0; i < 2; i++) {
        struct stele_batch_options options = options_of(0, 0, -1, -1, -1);
        struct stele_record_in in = {.value = "0123456789", .value_bytes = 10};
        struct stele_buf *batch = NULL;
        struct stele_record_walker walker;
        struct stele_record record;
        struct stele_batch_builder *builder = stele_batch_builder_new(&memory.mem, &options);
        int64_t before = memory.mem.calls;
        for (int k = 0; k < counts[i]; k++)
            assert_ok(stele_batch_builder_add(builder, &in));
        assert_ok(stele_batch_builder_finish(builder, &batch));
        assert_ok(stele_record_walker_init(&walker, &memory.mem, batch->bytes, batch->count, 100));
        for (int k = 0; k < counts[i]; k++)
            assert_ok(stele_record_next(&walker, &record));
        calls[i] = memory.mem.calls - before;
        stele_record_walker_deinit(&walker);
        stele_buf_unref(batch);
        stele_batch_builder_free(builder);
    }
    assert_in_range(calls[0], 1, 1);
    assert_in_range(calls[1], 1, 10); /* doublings */
}

/* One batch around bytes that are taken for its records. */
static size_t batch_of(const char *records_hex, int32_t record_count, uint8_t *out_bytes, size_t capacity)
{
    size_t count = STELE_BATCH_HEADER_BYTES + stele_test_hex(records_hex, out_bytes + STELE_BATCH_HEADER_BYTES,
                                                             capacity - STELE_BATCH_HEADER_BYTES);
    struct stele_batch_header header = {.length = (int32_t)(count - STELE_BATCH_PREFIX_BYTES),
                                        .partition_leader_epoch = -1,
                                        .magic = STELE_BATCH_MAGIC,
                                        .last_offset_delta = record_count - 1,
                                        .producer_id = -1,
                                        .producer_epoch = -1,
                                        .base_sequence = -1,
                                        .record_count = record_count};
    stele_batch_header_write(&header, out_bytes);
    stele_batch_restamp_time(out_bytes, count, 0, 0);
    return count;
}

/* Walks to the end: END with `want` records, or the error of the first bad one. */
static enum stele_err walk(const uint8_t *bytes, size_t count, int *out_records)
{
    struct stele_record_walker walker;
    struct stele_record record;
    enum stele_err err = stele_record_walker_init(&walker, &memory.mem, bytes, count, 1000);
    int records = 0;
    if (err != STELE_OK)
        return err;
    while ((err = stele_record_next(&walker, &record)) == STELE_OK)
        records++;
    stele_record_walker_deinit(&walker);
    *out_records = records;
    return err;
}

/* Every way in which a record can be wrong is INVALID_RECORD, and what Kafka's reader lets pass is let pass: at the end
 * of a batch, and with a record behind it. A sound record "k" = "v" without headers is 10 00 00 00 02 6b 02 76 00. */
static void test_record_faults(void **state)
{
    (void)state;
    static const struct {
        const char *name, *hex;
        int32_t record_count;
        enum stele_err want;
    } cases[] = {
        {"sound", "10000000026b027600", 1, STELE_END},
        {"two", "10000000026b02760010000002026b027600", 2, STELE_END},
        {"attributes are ignored", "10ff0000026b027600", 1, STELE_END},
        {"null key and value", "0c000000010100", 1, STELE_END},
        {"any negative length is null", "0c000000030500", 1, STELE_END},
        {"long form of an offset", "1200008000026b027600", 1, STELE_END},
        {"long form of a length", "9080808000000000026b027600", 1, STELE_END},
        {"length of six bytes", "908080808000000000026b027600", 1, STELE_INVALID_RECORD},
        {"timestamp of ten bytes", "2200ffffffffffffffffff0100026b027600", 1, STELE_END},
        {"timestamp of eleven bytes", "2400ffffffffffffffffff810000026b027600", 1, STELE_INVALID_RECORD},
        {"length too small", "0e000000026b027600", 1, STELE_INVALID_RECORD},
        {"length too large", "12000000026b027600", 1, STELE_INVALID_RECORD},
        {"length too large, with bytes", "12000000026b02760000", 1, STELE_INVALID_RECORD},
        {"length negative", "0f000000026b027600", 1, STELE_INVALID_RECORD},
        {"length vast", "feffffff0f000000026b027600", 1, STELE_INVALID_RECORD},
        {"length 0", "00", 1, STELE_INVALID_RECORD},
        {"key beyond the end", "10000000306b027600", 1, STELE_INVALID_RECORD},
        {"key of 2 GiB", "18000000feffffff0f6b027600", 1, STELE_INVALID_RECORD},
        {"value beyond the end", "10000000026b307600", 1, STELE_INVALID_RECORD},
        {"header with value", "18000000026b02760202680278", 1, STELE_END},
        {"header with null value", "16000000026b027602026801", 1, STELE_END},
        {"header with null key", "14000000026b0276020101", 1, STELE_INVALID_RECORD},
        {"header with empty key", "14000000026b0276020001", 1, STELE_END},
        {"header count negative", "10000000026b027601", 1, STELE_INVALID_RECORD},
        {"header count above what is left", "10000000026b027602", 1, STELE_INVALID_RECORD},
        {"header count vast", "18000000026b0276feffffff0f", 1, STELE_INVALID_RECORD},
        {"more than the count", "10000000026b02760010000002026b027600", 1, STELE_INVALID_RECORD},
        {"fewer than the count", "10000000026b027600", 2, STELE_INVALID_RECORD},
        {"nothing", "", 1, STELE_INVALID_RECORD},
        {"count 0 looks at nothing", "10000000026b027600", 0, STELE_END},
        {"count negative", "10000000026b027600", -1, STELE_INVALID_RECORD},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        static const char one_more[] = "36000000026b28303132333435363738393031323334353637383900";
        uint8_t bytes[256];
        char hex[256];
        int records = -1;
        size_t count = batch_of(cases[i].hex, cases[i].record_count, bytes, sizeof(bytes));
        print_message("%s\n", cases[i].name);
        assert_int_equal(walk(bytes, count, &records), cases[i].want);
        if (cases[i].want == STELE_END)
            assert_int_equal(records, cases[i].record_count);
        if (cases[i].record_count <= 0)
            continue;
        (void)snprintf(hex, sizeof(hex), "%s%s", cases[i].hex, one_more);
        count = batch_of(hex, cases[i].record_count + 1, bytes, sizeof(bytes));
        assert_int_equal(walk(bytes, count, &records), cases[i].want);
        if (cases[i].want == STELE_END)
            assert_int_equal(records, cases[i].record_count + 1);
    }
}

/* Records cut at any byte are refused, also where a record ends, and nothing beyond the cut is read. */
static void test_truncated_records(void **state)
{
    (void)state;
    uint8_t bytes[256];
    size_t count = stele_test_hex(vector_b, bytes, sizeof(bytes));
    for (size_t cut = 0; cut < count; cut++) {
        uint8_t *exact = stele_mem_raw(&memory.mem, STELE_MEM_TOOL, cut);
        int records = -1;
        memcpy(exact, bytes, cut);
        enum stele_err err = walk(exact, cut, &records);
        assert_int_equal(err, cut < STELE_BATCH_HEADER_BYTES ? STELE_CORRUPT_MESSAGE : STELE_INVALID_RECORD);
        stele_mem_free(&memory.mem, exact);
    }
}

/* What a control record may be: versions from 0 on, known types, a coordinator epoch for markers only. */
static void test_control(void **state)
{
    (void)state;
    static const struct {
        const char *key_hex, *value_hex;
        enum stele_err want;
        enum stele_control_type type;
        int32_t epoch;
    } cases[] = {
        {"00000000", "000000000009", STELE_OK, STELE_CONTROL_ABORT, 9},
        {"00000001", "000000000009", STELE_OK, STELE_CONTROL_COMMIT, 9},
        {"00070001", "000300000009ff", STELE_OK, STELE_CONTROL_COMMIT, 9}, /* higher versions are read as 0 */
        {"0000000100", "000000000009", STELE_OK, STELE_CONTROL_COMMIT, 9},
        {"00000001", "0000000000", STELE_INVALID_RECORD, STELE_CONTROL_UNKNOWN, 0},
        {"00000001", "ffff00000009", STELE_INVALID_RECORD, STELE_CONTROL_UNKNOWN, 0},
        {"ffff0001", "000000000009", STELE_INVALID_RECORD, STELE_CONTROL_UNKNOWN, 0},
        {"000000", "000000000009", STELE_INVALID_RECORD, STELE_CONTROL_UNKNOWN, 0},
        {"", "", STELE_INVALID_RECORD, STELE_CONTROL_UNKNOWN, 0},
        {"00000002", "", STELE_OK, STELE_CONTROL_LEADER_CHANGE, -1},
        {"00000006", "", STELE_OK, STELE_CONTROL_KRAFT_VOTERS, -1},
        {"00000007", "", STELE_OK, STELE_CONTROL_UNKNOWN, -1},
        {"0000ffff", "", STELE_OK, STELE_CONTROL_UNKNOWN, -1},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        uint8_t key[16], value[16];
        struct stele_control control = {.type = STELE_CONTROL_ABORT, .coordinator_epoch = 0};
        struct stele_record record = {.key = key, .value = value};
        record.key_bytes = (int32_t)stele_test_hex(cases[i].key_hex, key, sizeof(key));
        record.value_bytes = (int32_t)stele_test_hex(cases[i].value_hex, value, sizeof(value));
        assert_int_equal(stele_control_read(&record, &control), cases[i].want);
        if (cases[i].want == STELE_OK) {
            assert_int_equal(control.type, cases[i].type);
            assert_int_equal(control.coordinator_epoch, cases[i].epoch);
        }
    }
}

/* The whole of the check, in its order. */
static void test_check_faults(void **state)
{
    (void)state;
    uint8_t bytes[256];
    struct stele_batch_header header;
    size_t count = stele_test_hex(vector_a, bytes, sizeof(bytes));
    for (int magic = 0; magic < 256; magic++) {
        bytes[STELE_BATCH_POS_MAGIC] = (uint8_t)magic;
        assert_int_equal(stele_batch_check(bytes, count, &header),
                         magic == 2 ? STELE_OK : STELE_UNSUPPORTED_FOR_MESSAGE_FORMAT);
    }
    bytes[STELE_BATCH_POS_MAGIC] = STELE_BATCH_MAGIC;
    for (int16_t attributes = 0; attributes < 256; attributes++) {
        stele_batch_restamp_time(bytes, count, attributes, 1000);
        assert_int_equal(stele_batch_check(bytes, count, &header),
                         (attributes & 7) < STELE_CODEC_COUNT ? STELE_OK : STELE_UNKNOWN_SERVER_ERROR);
    }
    stele_batch_restamp_time(bytes, count, 0, 1000);
    static const int32_t lengths[] = {INT32_MIN, -12, -1, 0, 13, 14, 48, 57, 59, INT32_MAX};
    for (size_t i = 0; i < STELE_ARRAY_LEN(lengths); i++) {
        stele_put_i32(bytes + STELE_BATCH_POS_LENGTH, lengths[i]);
        assert_int_equal(stele_batch_check(bytes, count, &header), STELE_CORRUPT_MESSAGE);
        assert_true(stele_batch_size(bytes) == (lengths[i] < 14 ? 0 : (int64_t)lengths[i] + 12));
    }
    /* Stamping offset and epoch leaves the checksum right. */
    stele_put_i32(bytes + STELE_BATCH_POS_LENGTH, (int32_t)count - STELE_BATCH_PREFIX_BYTES);
    stele_batch_stamp(bytes, INT64_MAX, 12);
    assert_ok(stele_batch_check(bytes, count, &header));
    assert_true(header.base_offset == INT64_MAX);
    assert_int_equal(header.partition_leader_epoch, 12);
}

static void test_sequences_wrap(void **state)
{
    (void)state;
    assert_int_equal(stele_sequence_add(INT32_MAX, 1), 0);
    assert_int_equal(stele_sequence_add(INT32_MAX - 1, 3), 1);
    assert_int_equal(stele_sequence_sub(0, 1), INT32_MAX);
    assert_int_equal(stele_sequence_sub(5, 3), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_golden_encode, setup, teardown),
        cmocka_unit_test_setup_teardown(test_golden_headers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_golden_decode, setup, teardown),
        cmocka_unit_test_setup_teardown(test_check_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_record_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_control, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_allocation_per_record, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sequences_wrap, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
