#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/test/support.h"

#include <string.h>

struct varint_case {
    int64_t value;
    const char *hex;
};

static const struct varint_case varints[] = {
    {0, "00"},
    {-1, "01"},
    {1, "02"},
    {63, "7e"},
    {-64, "7f"},
    {64, "8001"},
    {-65, "8101"},
    {300, "d804"},
    {-300, "d704"},
    {INT32_MAX, "feffffff0f"},
    {INT32_MIN, "ffffffff0f"},
};

static const struct varint_case varlongs[] = {
    {INT64_MAX, "feffffffffffffffff01"}, {INT64_MIN, "ffffffffffffffffff01"}, {1700000000000, "80a0abfef962"}};

/* The golden varints encode and decode byte for byte. */
static void test_varints(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(varints); i++) {
        uint8_t want[16], got[16];
        size_t count = stele_test_hex(varints[i].hex, want, sizeof(want));
        struct stele_writer writer = stele_writer_of(got, sizeof(got));
        stele_write_varint(&writer, (int32_t)varints[i].value);
        assert_int_equal(stele_writer_pos(&writer), count);
        assert_memory_equal(got, want, count);
        assert_int_equal(stele_varint_bytes((int32_t)varints[i].value), count);
        struct stele_reader reader = stele_reader_of(want, count);
        assert_int_equal(stele_read_varint(&reader), varints[i].value);
        assert_false(reader.failed);
        assert_int_equal(stele_reader_left(&reader), 0);
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(varlongs); i++) {
        uint8_t want[16], got[16];
        size_t count = stele_test_hex(varlongs[i].hex, want, sizeof(want));
        struct stele_writer writer = stele_writer_of(got, sizeof(got));
        stele_write_varlong(&writer, varlongs[i].value);
        assert_int_equal(stele_writer_pos(&writer), count);
        assert_memory_equal(got, want, count);
        struct stele_reader reader = stele_reader_of(want, count);
        assert_true(stele_read_varlong(&reader) == varlongs[i].value);
    }
}

/* An unterminated varint fails, an over-long one that ends does not, and failure sticks. */
static void test_varint_limits(void **state)
{
    (void)state;
    static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    struct stele_reader reader = stele_reader_of(endless, sizeof(endless));
    (void)stele_read_varint(&reader);
    assert_true(reader.failed);
    assert_int_equal(stele_read_u8(&reader), 0);
    static const uint8_t overlong[] = {0x80, 0x80, 0x00};
    reader = stele_reader_of(overlong, sizeof(overlong));
    assert_int_equal(stele_read_varint(&reader), 0);
    assert_false(reader.failed);
    static const uint8_t surplus[] = {0xfe, 0xff, 0xff, 0xff, 0x7f};
    reader = stele_reader_of(surplus, sizeof(surplus));
    assert_int_equal(stele_read_varint(&reader), INT32_MAX);
    assert_false(reader.failed);
}

/* Neither end passes its memory. */
static void test_bounds(void **state)
{
    (void)state;
    uint8_t bytes[7];
    struct stele_writer writer = stele_writer_of(bytes, sizeof(bytes));
    stele_write_i32(&writer, -2);
    stele_write_i32(&writer, 1);
    assert_true(writer.failed);
    assert_int_equal(stele_writer_pos(&writer), 4);
    struct stele_reader reader = stele_reader_of(bytes, 4);
    assert_int_equal(stele_read_i32(&reader), -2);
    assert_int_equal(stele_read_i64(&reader), 0);
    assert_true(reader.failed);
    assert_null(stele_read_bytes(&reader, 0));
}

static void test_crc32c(void **state)
{
    (void)state;
    assert_true(stele_crc32c(0, "123456789", 9) == 0xe3069283u);
    assert_true(stele_crc32c(stele_crc32c(0, "1234", 4), "56789", 5) == 0xe3069283u);
    assert_true(stele_crc32c(0, "", 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),
        cmocka_unit_test(test_varint_limits),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_crc32c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
