/* Any bytes as a stream of any codec (the first byte says which): refused, or unpacked into no more memory than the
 * limit and the codec's own state; a lower limit says so; and the bytes as content survive packing. */
#include "base/check.h"
#include "base/test/support.h"
#include "proto/compress.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { LIMIT_BYTES = 1 << 20, STATE_BYTES = 256 << 10 };

static void check_stream(struct stele_mem *mem, enum stele_codec codec, const uint8_t *bytes, size_t count)
{
    uint8_t *out = NULL, *cut = NULL;
    size_t out_count = 0, cut_count = 0;
    mem->limit_bytes = LIMIT_BYTES + STATE_BYTES;
    enum stele_err err = stele_unpack(mem, codec, bytes, count, LIMIT_BYTES, &out, &out_count);
    STELE_ASSERT(err == STELE_OK || err == STELE_CORRUPT || err == STELE_TOO_LARGE);
    mem->limit_bytes = 0;
    if (err == STELE_OK) {
        STELE_ASSERT(out_count <= LIMIT_BYTES);
        if (out_count > 0)
            STELE_ASSERT(stele_unpack(mem, codec, bytes, count, out_count - 1, &cut, &cut_count) != STELE_OK);
        stele_mem_free(mem, out);
    }
}

static void check_content(struct stele_mem *mem, enum stele_codec codec, const uint8_t *bytes, size_t count)
{
    struct stele_buf *packed = NULL;
    uint8_t *out = NULL;
    size_t out_count = 0;
    STELE_ASSERT(stele_compress(mem, codec, STELE_CODEC_LEVEL_DEFAULT, bytes, count, 0, &packed) == STELE_OK);
    STELE_ASSERT(stele_unpack(mem, codec, packed->bytes, packed->count, count, &out, &out_count) == STELE_OK);
    STELE_ASSERT(out_count == count);
    STELE_ASSERT(count == 0 || memcmp(out, bytes, count) == 0);
    stele_mem_free(mem, out);
    stele_buf_unref(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem mem;
    if (count == 0)
        return 0;
    stele_test_mem_init(&mem);
    enum stele_codec codec = (enum stele_codec)(bytes[0] % STELE_CODEC_COUNT);
    check_stream(&mem.mem, codec, bytes + 1, count - 1);
    check_content(&mem.mem, codec, bytes + 1, count - 1);
    STELE_ASSERT(stele_mem_is_empty(&mem.mem));
    return 0;
}
