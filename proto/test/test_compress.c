#include "base/test/support.h"
#include "proto/compress.h"
#include "proto/xxh32.h"

#include <string.h>

enum { PLAIN_BYTES_MAX = 300000, KIB = 1024, MIB = 1024 * 1024 };

static struct stele_test_mem memory;
static uint8_t *plain; /* of PLAIN_BYTES_MAX */

static int setup(void **state)
{
    (void)state;
    stele_test_mem_init(&memory);
    plain = stele_mem_alloc(&memory.mem, STELE_MEM_TOOL, PLAIN_BYTES_MAX);
    return plain == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    stele_mem_free(&memory.mem, plain);
    stele_test_mem_check_empty(&memory);
    return 0;
}

static struct stele_buf *pack(enum stele_codec codec, int level, size_t count)
{
    struct stele_buf *packed = NULL;
    assert_ok(stele_compress(&memory.mem, codec, level, plain, count, 0, &packed));
    return packed;
}

static enum stele_err unpack(enum stele_codec codec, const uint8_t *bytes, size_t count, size_t bytes_max,
                             uint8_t **out_bytes, size_t *out_count)
{
    return stele_unpack(&memory.mem, codec, bytes, count, bytes_max, out_bytes, out_count);
}

/* Unpacks to exactly `want`, or fails. */
static void check_unpacks(enum stele_codec codec, const uint8_t *bytes, size_t count, const void *want,
                          size_t want_count)
{
    uint8_t *out = NULL;
    size_t out_count = 0;
    assert_ok(unpack(codec, bytes, count, want_count, &out, &out_count));
    assert_int_equal(out_count, want_count);
    if (want_count > 0)
        assert_memory_equal(out, want, want_count);
    stele_mem_free(&memory.mem, out);
}

static void check_fails(enum stele_codec codec, const uint8_t *bytes, size_t count, size_t bytes_max,
                        enum stele_err want)
{
    uint8_t *out = NULL;
    size_t out_count = 12345;
    assert_int_equal(unpack(codec, bytes, count, bytes_max, &out, &out_count), want);
    assert_null(out);
    assert_int_equal(out_count, 12345);
}

#define ABC12 "abcabcabcabcabcabcabcabcabcabcabcabc"
#define SNAPPY_START "82534e415050590000000001"
#define SNAPPY_HEADER SNAPPY_START "00000001"

/* Streams that the tools of zlib, LZ4 and zstd wrote, or that were put together by hand; `want` NULL: refused. */
struct stream_case {
    const char *name;
    enum stele_codec codec;
    const char *hex, *want;
};

static const struct stream_case stream_cases[] = {
    {"gzip member", STELE_CODEC_GZIP, "1f8b08000000000000034b4c4a4e248400ea1601f124000000", ABC12},
    {"gzip two members", STELE_CODEC_GZIP,
     "1f8b08000000000000034b4c4a4e248400ea1601f1240000001f8b08000000000000034b4c4a4e248400ea1601f124000000",
     ABC12 ABC12},
    {"gzip wrong checksum", STELE_CODEC_GZIP, "1f8b08000000000000034b4c4a4e248400ea1601f224000000", NULL},
    {"gzip wrong length", STELE_CODEC_GZIP, "1f8b08000000000000034b4c4a4e248400ea1601f125000000", NULL},
    {"gzip left over", STELE_CODEC_GZIP, "1f8b08000000000000034b4c4a4e248400ea1601f12400000000", NULL},
    {"gzip nothing", STELE_CODEC_GZIP, "", NULL},
    {"zlib is not gzip", STELE_CODEC_GZIP, "789c4b4c4a0600024d0127", NULL},
    {"snappy block", STELE_CODEC_SNAPPY, SNAPPY_HEADER "000000050308616263", "abc"},
    {"snappy two blocks", STELE_CODEC_SNAPPY, SNAPPY_HEADER "000000050308616263000000050308616263", "abcabc"},
    {"snappy header again", STELE_CODEC_SNAPPY, SNAPPY_HEADER "000000050308616263" SNAPPY_HEADER "000000050308616263",
     "abcabc"},
    {"snappy no block", STELE_CODEC_SNAPPY, SNAPPY_HEADER, ""},
    {"snappy raw", STELE_CODEC_SNAPPY, "0308616263", "abc"},
    {"snappy raw of nothing", STELE_CODEC_SNAPPY, "00", ""},
    {"snappy nothing", STELE_CODEC_SNAPPY, "", NULL},
    {"snappy block cut", STELE_CODEC_SNAPPY, SNAPPY_HEADER "0000000503086162", NULL},
    {"snappy length cut", STELE_CODEC_SNAPPY, SNAPPY_HEADER "000000", NULL},
    {"snappy negative length", STELE_CODEC_SNAPPY, SNAPPY_HEADER "ffffffff0308616263", NULL},
    {"snappy vast claim", STELE_CODEC_SNAPPY, "ffffffff0f08616263", NULL},
    {"snappy wrong claim", STELE_CODEC_SNAPPY, SNAPPY_HEADER "000000050408616263", NULL},
    {"lz4", STELE_CODEC_LZ4, "04224d186040820d0000003f61626303000950626361626300000000", ABC12},
    {"lz4 stored block", STELE_CODEC_LZ4, "04224d186040820300008061626300000000", "abc"},
    {"lz4 no block", STELE_CODEC_LZ4, "04224d1860408200000000", ""},
    {"lz4 4 MiB blocks, every checksum, content size", STELE_CODEC_LZ4,
     "04224d187c402400000000000000210d0000003f61626303000950626361626305aeafa8000000004f89fde8", ABC12},
    {"lz4 wrong content checksum is skipped", STELE_CODEC_LZ4,
     "04224d187c402400000000000000210d0000003f61626303000950626361626305aeafa80000000000000000", ABC12},
    {"lz4 wrong block checksum", STELE_CODEC_LZ4,
     "04224d187c402400000000000000210d0000003f61626303000950626361626306aeafa8000000004f89fde8", NULL},
    {"lz4 content checksum cut", STELE_CODEC_LZ4,
     "04224d187c402400000000000000210d0000003f61626303000950626361626305aeafa8000000004f89fd", NULL},
    {"lz4 wrong header checksum", STELE_CODEC_LZ4, "04224d186040830300008061626300000000", NULL},
    {"lz4 dependent blocks", STELE_CODEC_LZ4, "04224d184040c00300008061626300000000", NULL},
    {"lz4 legacy frame", STELE_CODEC_LZ4, "02214c180d0000003f616263030009506263616263", NULL},
    {"lz4 skippable frame", STELE_CODEC_LZ4, "502a4d1800000000", NULL},
    {"lz4 block above its bound", STELE_CODEC_LZ4, "04224d1860408201000180", NULL},
    {"lz4 no end mark", STELE_CODEC_LZ4, "04224d1860408203000080616263", NULL},
    {"lz4 left over", STELE_CODEC_LZ4, "04224d18604082030000806162630000000000", NULL},
    {"lz4 match", STELE_CODEC_LZ4, "04224d186040820d0000001061010080616161616161616100000000", "aaaaaaaaaaaaa"},
    {"lz4 match before the start", STELE_CODEC_LZ4, "04224d186040820d0000001061020080616161616161616100000000", NULL},
    {"lz4 reserved flag", STELE_CODEC_LZ4, "04224d186240f00300008061626300000000", NULL},
    {"lz4 dictionary flag", STELE_CODEC_LZ4, "04224d186140a10300008061626300000000", NULL},
    {"lz4 reserved descriptor bit", STELE_CODEC_LZ4, "04224d186041bd0300008061626300000000", NULL},
    {"lz4 unknown block size", STELE_CODEC_LZ4, "04224d186030d40300008061626300000000", NULL},
    {"lz4 version 0", STELE_CODEC_LZ4, "04224d182040030300008061626300000000", NULL},
    {"lz4 nothing", STELE_CODEC_LZ4, "", NULL},
    {"zstd", STELE_CODEC_ZSTD, "28b52ffd24244d00001861626301008e6e08101c69be", ABC12},
    {"zstd without content size", STELE_CODEC_ZSTD, "28b52ffd00584d00001861626301008e6e08", ABC12},
    {"zstd two frames", STELE_CODEC_ZSTD,
     "28b52ffd00584d00001861626301008e6e0828b52ffd24244d00001861626301008e6e08101c69be", ABC12 ABC12},
    {"zstd skippable frame between", STELE_CODEC_ZSTD,
     "28b52ffd00584d00001861626301008e6e08502a4d1802000000ffff28b52ffd00584d00001861626301008e6e08", ABC12 ABC12},
    {"zstd window of 128 MiB", STELE_CODEC_ZSTD, "28b52ffd0088190000616263", "abc"},
    {"zstd window of 2 TiB", STELE_CODEC_ZSTD, "28b52ffd00f8190000616263", NULL},
    {"zstd wrong checksum", STELE_CODEC_ZSTD, "28b52ffd24244d00001861626301008e6e08101c69bf", NULL},
    {"zstd states more than it holds", STELE_CODEC_ZSTD, "28b52ffd2004190000616263", NULL},
    {"zstd states less than it holds", STELE_CODEC_ZSTD, "28b52ffd2002190000616263", NULL},
    {"zstd reserved block", STELE_CODEC_ZSTD, "28b52ffd20031f0000616263", NULL},
    {"zstd of before version 0.8", STELE_CODEC_ZSTD, "27b52ffd00584d00001861626301008e6e08", NULL},
    {"zstd left over", STELE_CODEC_ZSTD, "28b52ffd00584d00001861626301008e6e0800", NULL},
    {"zstd nothing", STELE_CODEC_ZSTD, "", NULL},
    {"plain", STELE_CODEC_NONE, "616263", "abc"},
    {"plain nothing", STELE_CODEC_NONE, "", ""},
};

/* What other encoders write decodes; what Kafka's readers refuse is refused. */
static void test_streams(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(stream_cases); i++) {
        const struct stream_case *c = &stream_cases[i];
        uint8_t bytes[256];
        size_t count = stele_test_hex(c->hex, bytes, sizeof(bytes));
        print_message("%s\n", c->name);
        if (c->want == NULL)
            check_fails(c->codec, bytes, count, MIB, STELE_CORRUPT);
        else
            check_unpacks(c->codec, bytes, count, c->want, strlen(c->want));
    }
}

/* The checksum of LZ4 frames: below a stripe, of a whole stripe and more. */
static void test_xxh32(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t hash;
    } cases[] = {
        {"", 0x02CC5D05U},
        {"a", 0x550D7456U},
        {"abc", 0x32D153FFU},
        {ABC12, 0xE8FD894FU},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++)
        assert_true(stele_xxh32((const uint8_t *)cases[i].text, strlen(cases[i].text)) == cases[i].hash);
}

/* What we write begins and is cut into blocks as Kafka's writers do it. */
static void test_formats(void **state)
{
    (void)state;
    static const struct {
        enum stele_codec codec;
        const char *hex;
    } starts[] = {
        {STELE_CODEC_GZIP, "1f8b08"},
        {STELE_CODEC_SNAPPY, SNAPPY_HEADER},
        {STELE_CODEC_LZ4, "04224d18604082"},
        {STELE_CODEC_ZSTD, "28b52ffd"},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(starts); i++) {
        uint8_t want[32];
        size_t want_count = stele_test_hex(starts[i].hex, want, sizeof(want));
        struct stele_buf *packed = pack(starts[i].codec, STELE_CODEC_LEVEL_DEFAULT, 200 * KIB);
        assert_memory_equal(packed->bytes, want, want_count);
        if (starts[i].codec == STELE_CODEC_LZ4)
            assert_memory_equal(packed->bytes + packed->count - 4, "\0\0\0\0", 4);
        stele_buf_unref(packed);
    }
    /* 70 KiB of snappy: blocks of 32, 32 and 6 KiB, whose first byte group is their unpacked length. */
    struct stele_buf *packed = pack(STELE_CODEC_SNAPPY, STELE_CODEC_LEVEL_DEFAULT, 70 * KIB);
    const uint8_t *at = packed->bytes + 16, *end = packed->bytes + packed->count;
    static const char *const lengths[] = {"\x80\x80\x02", "\x80\x80\x02", "\x80\x30"};
    for (size_t i = 0; i < STELE_ARRAY_LEN(lengths); i++) {
        assert_true(end - at > 4);
        uint32_t block = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
        assert_memory_equal(at + 4, lengths[i], strlen(lengths[i]));
        at += 4 + block;
    }
    assert_ptr_equal(at, end);
    stele_buf_unref(packed);
}

enum fill { ZEROS, NOISE, TEXT, FILL_COUNT };

static void fill_plain(enum fill fill, size_t count)
{
    struct stele_prng prng;
    stele_prng_init(&prng, 11, (uint64_t)fill);
    for (size_t i = 0; i < count; i++) {
        switch (fill) {
        case ZEROS:
            plain[i] = 0;
            break;
        case NOISE:
            plain[i] = (uint8_t)stele_prng_below(&prng, 256);
            break;
        case TEXT:
            plain[i] = (uint8_t)('a' + stele_prng_below(&prng, 3));
            break;
        case FILL_COUNT:
            break;
        }
    }
}

static const size_t sizes[] = {0, 1, 2, 100, 32767, 32768, 32769, 65535, 65536, 65537, 131072, 131073, PLAIN_BYTES_MAX};

/* Every size around the edges of blocks survives, of the best and of the worst content; a limit one byte too low is
 * told apart from damage. */
static void test_round_trip(void **state)
{
    (void)state;
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        fill_plain((enum fill)fill, PLAIN_BYTES_MAX);
        for (int codec = STELE_CODEC_NONE; codec < STELE_CODEC_COUNT; codec++) {
            for (size_t i = 0; i < STELE_ARRAY_LEN(sizes); i++) {
                struct stele_buf *packed = pack((enum stele_codec)codec, STELE_CODEC_LEVEL_DEFAULT, sizes[i]);
                check_unpacks((enum stele_codec)codec, packed->bytes, packed->count, plain, sizes[i]);
                if (sizes[i] > 0) {
                    check_fails((enum stele_codec)codec, packed->bytes, packed->count, sizes[i] - 1, STELE_TOO_LARGE);
                    check_fails((enum stele_codec)codec, packed->bytes, packed->count, sizes[i] / 2, STELE_TOO_LARGE);
                    check_fails((enum stele_codec)codec, packed->bytes, packed->count, 0, STELE_TOO_LARGE);
                }
                stele_buf_unref(packed);
            }
        }
    }
}

/* Every level that a setting allows, and those beyond, writes what decodes. */
static void test_levels(void **state)
{
    (void)state;
    static const int levels[] = {-200000, -131072, -1, 0, 1, 2, 3, 9, 12, 17, 22, 100};
    fill_plain(TEXT, 5000);
    for (int codec = STELE_CODEC_NONE; codec < STELE_CODEC_COUNT; codec++) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(levels); i++) {
            struct stele_buf *packed = pack((enum stele_codec)codec, levels[i], 5000);
            check_unpacks((enum stele_codec)codec, packed->bytes, packed->count, plain, 5000);
            stele_buf_unref(packed);
        }
    }
}

/* A stream cut anywhere is refused; only between blocks of snappy, which has no end mark, it is a shorter one. */
static void test_truncation(void **state)
{
    (void)state;
    enum { COUNT = 40000 };
    fill_plain(TEXT, COUNT);
    for (int codec = STELE_CODEC_GZIP; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_buf *packed = pack((enum stele_codec)codec, STELE_CODEC_LEVEL_DEFAULT, COUNT);
        int passed = 0;
        for (size_t cut = 0; cut < packed->count; cut++) {
            /* In memory of exactly that size, so that a read beyond it is found. */
            uint8_t *bytes = stele_mem_raw(&memory.mem, STELE_MEM_TOOL, cut), *out = NULL;
            size_t count = 0;
            memcpy(bytes, packed->bytes, cut);
            enum stele_err err = unpack((enum stele_codec)codec, bytes, cut, COUNT, &out, &count);
            if (err == STELE_OK) {
                assert_int_equal(codec, STELE_CODEC_SNAPPY);
                assert_true(count == 0 || count == 32768);
                stele_mem_free(&memory.mem, out);
                passed++;
            } else {
                assert_int_equal(err, STELE_CORRUPT);
            }
            stele_mem_free(&memory.mem, bytes);
        }
        assert_int_equal(passed, codec == STELE_CODEC_SNAPPY ? 2 : 0);
        stele_buf_unref(packed);
    }
}

/* Millions of zeros that pack to little take no more memory than the limit and the codec's own state. */
static void test_bombs(void **state)
{
    (void)state;
    enum { COUNT = 16 * MIB, LIMIT = MIB, STATE = 256 * KIB };
    uint8_t *zeros = stele_mem_alloc(&memory.mem, STELE_MEM_TOOL, COUNT);
    for (int codec = STELE_CODEC_GZIP; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_buf *packed = NULL;
        assert_ok(
            stele_compress(&memory.mem, (enum stele_codec)codec, STELE_CODEC_LEVEL_DEFAULT, zeros, COUNT, 0, &packed));
        memory.mem.limit_bytes = memory.mem.total_bytes + LIMIT + STATE;
        check_fails((enum stele_codec)codec, packed->bytes, packed->count, LIMIT, STELE_TOO_LARGE);
        memory.mem.limit_bytes = 0;
        stele_buf_unref(packed);
    }
    stele_mem_free(&memory.mem, zeros);
}

/* Claims of windows and sizes take no memory before there are bytes to fill it. */
static void test_claims(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum stele_codec codec;
        const char *hex;
        size_t bytes_max;
        enum stele_err want;
    } cases[] = {
        {"zstd window", STELE_CODEC_ZSTD, "28b52ffd0088190000616263", 64 * MIB, STELE_OK},
        {"zstd size within the limit", STELE_CODEC_ZSTD, "28b52ffda000000003190000616263", 64 * MIB, STELE_CORRUPT},
        {"zstd size beyond the limit", STELE_CODEC_ZSTD, "28b52ffda0000000f0190000616263", 64 * MIB, STELE_TOO_LARGE},
        {"lz4 blocks of 4 MiB", STELE_CODEC_LZ4,
         "04224d187c402400000000000000210d0000003f61626303000950626361626305aeafa8000000004f89fde8", 64 * MIB,
         STELE_OK},
        {"snappy claim", STELE_CODEC_SNAPPY, "8080801008616263", 64 * MIB, STELE_CORRUPT},
    };
    memory.mem.limit_bytes = memory.mem.total_bytes + MIB;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        uint8_t bytes[64], *out = NULL;
        size_t out_count = 0, count = stele_test_hex(cases[i].hex, bytes, sizeof(bytes));
        print_message("%s\n", cases[i].name);
        assert_int_equal(unpack(cases[i].codec, bytes, count, cases[i].bytes_max, &out, &out_count), cases[i].want);
        stele_mem_free(&memory.mem, out);
    }
    memory.mem.limit_bytes = 0;
}

/* Every allocation of every codec may fail, also the library's own; nothing leaks and nothing is taken for damage. */
static void test_without_memory(void **state)
{
    (void)state;
    enum { COUNT = 70000 };
    fill_plain(TEXT, COUNT);
    for (int codec = STELE_CODEC_NONE; codec < STELE_CODEC_COUNT; codec++) {
        struct stele_buf *good = pack((enum stele_codec)codec, STELE_CODEC_LEVEL_DEFAULT, COUNT);
        int failures = 0;
        for (int64_t at = 1, is_done = 0; !is_done; at++) {
            struct stele_buf *packed = NULL;
            uint8_t *out = NULL;
            size_t count = 0;
            stele_test_mem_fail(&memory, at, false);
            enum stele_err err = stele_compress(&memory.mem, (enum stele_codec)codec, STELE_CODEC_LEVEL_DEFAULT, plain,
                                                COUNT, 61, &packed);
            bool has_packed = err == STELE_OK;
            if (has_packed)
                err = unpack((enum stele_codec)codec, good->bytes, good->count, COUNT, &out, &count);
            is_done = !memory.has_failed;
            failures += is_done ? 0 : 1;
            assert_int_equal(err, is_done ? STELE_OK : STELE_NO_MEMORY);
            assert_int_equal(packed != NULL, has_packed);
            assert_int_equal(out != NULL, is_done);
            stele_buf_unref(packed);
            stele_mem_free(&memory.mem, out);
        }
        stele_test_mem_fail(&memory, 0, false);
        assert_true(failures >= 2); /* at least the two outputs */
        stele_buf_unref(good);
    }
}

/* Names are those of compression.type. */
static void test_names(void **state)
{
    (void)state;
    for (int codec = 0; codec < STELE_CODEC_COUNT; codec++)
        assert_int_equal(stele_codec_from_name(stele_codec_name((enum stele_codec)codec)), codec);
    assert_int_equal(stele_codec_from_name("uncompressed"), STELE_CODEC_NONE);
    assert_int_equal(stele_codec_from_name("brotli"), STELE_CODEC_COUNT);
    assert_string_equal(stele_codec_name(STELE_CODEC_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_xxh32, setup, teardown),
        cmocka_unit_test_setup_teardown(test_formats, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bombs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_claims, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
