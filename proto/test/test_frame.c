#include "base/test/support.h"
#include "proto/frame.h"

#include <string.h>

struct header_case {
    const char *hex;
    uint32_t frame_bytes_max;
    enum stele_err err;
    struct stele_frame_header header;
};

static const struct header_case headers[] = {
    {"0000000400000000", 100, STELE_OK, {4, 0}},
    {"0000006400000060", 100, STELE_OK, {100, 96}},
    {"0000006400000061", 100, STELE_MALFORMED, {0}}, /* the message ends behind the frame */
    {"0000000300000000", 100, STELE_MALFORMED, {0}}, /* no room for the second field */
    {"0000000000000000", 100, STELE_MALFORMED, {0}},
    {"0000006500000000", 100, STELE_TOO_LARGE, {0}},
    {"ffffffffffffffff", UINT32_MAX, STELE_MALFORMED, {0}},
    {"fffffffffffffffb", UINT32_MAX, STELE_TOO_LARGE, {0}}, /* fits, and is beyond the limit of messages */
    {"ffffffff01000000", UINT32_MAX, STELE_OK, {UINT32_MAX, 1 << 24}},
    {"ffffffff01000001", UINT32_MAX, STELE_TOO_LARGE, {0}},
};

/* Every pair of lengths that makes no sense is refused before a byte of memory is taken; the rest round-trips. */
static void test_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(headers); i++) {
        uint8_t bytes[STELE_FRAME_HEADER_BYTES], again[STELE_FRAME_HEADER_BYTES];
        struct stele_frame_header header = {7, 7};
        assert_int_equal(stele_test_hex(headers[i].hex, bytes, sizeof(bytes)), sizeof(bytes));
        assert_int_equal(stele_frame_header_read(bytes, headers[i].frame_bytes_max, &header), headers[i].err);
        if (headers[i].err != STELE_OK) {
            assert_int_equal(header.frame_bytes, 7);
            continue;
        }
        assert_int_equal(header.frame_bytes, headers[i].header.frame_bytes);
        assert_int_equal(header.message_bytes, headers[i].header.message_bytes);
        stele_frame_header_write(&header, again);
        assert_memory_equal(again, bytes, sizeof(bytes));
    }
}

struct guess_case {
    const char *hex;
    const char *guess;
};

static const struct guess_case guesses[] = {
    {"474554202f20485454502f312e31", "an HTTP request"}, /* GET / HTTP/1.1 */
    {"504f5354202f", "an HTTP request"},
    {"505249202a20485454502f322e30", "an HTTP request"}, /* HTTP/2's preface */
    {"16030102000100", "a TLS hello"},
    {"0000002300120003"
     "00000001",
     "a Kafka request"}, /* ApiVersions v3 */
    {"0000002c00030009"
     "00000001",
     "a Kafka request"}, /* Metadata v9 */
    {"5353482d322e302d", "an SSH hello"},
    {"0000006400000060", NULL}, /* a frame of ours */
    {"0000000400000000", NULL},
    {"47", NULL},
    {"", NULL},
    {"ffffffffffffffff", NULL},
};

/* The usual strangers are recognised, our own frames never are. */
static void test_guesses(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(guesses); i++) {
        uint8_t bytes[64];
        size_t count = stele_test_hex(guesses[i].hex, bytes, sizeof(bytes));
        const char *guess = stele_frame_guess(bytes, count);
        if (guesses[i].guess == NULL)
            assert_null(guess);
        else
            assert_string_equal(guess, guesses[i].guess);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_guesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
