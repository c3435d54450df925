#include "proto/compress.h"

#include "base/check.h"
#include "base/cursor.h"
#include "proto/codec_mem.h"

#define LZ4F_STATIC_LINKING_ONLY
#include <lz4frame.h>
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

enum {
    SNAPPY_BLOCK_BYTES = 32768,
    GZIP_LEVEL_MAX = 9,
    LZ4_LEVEL_FAST = 9, /* Kafka's default; every other level of Kafka's is the high compressor */
    LZ4_LEVEL_HIGH_MIN = 3,
    ZSTD_LEVEL = 3,
};

static const char *const names[STELE_CODEC_COUNT] = {"none", "gzip", "snappy", "lz4", "zstd"};

const char *stele_codec_name(enum stele_codec codec)
{
    return codec >= STELE_CODEC_NONE && codec < STELE_CODEC_COUNT ? names[codec] : "unknown";
}

enum stele_codec stele_codec_from_name(const char *name)
{
    if (strcmp(name, "uncompressed") == 0)
        return STELE_CODEC_NONE;
    for (int codec = 0; codec < STELE_CODEC_COUNT; codec++) {
        if (strcmp(name, names[codec]) == 0)
            return (enum stele_codec)codec;
    }
    return STELE_CODEC_COUNT;
}

static void *lz4_zeroed(void *mem, size_t bytes)
{
    return stele_mem_alloc(mem, STELE_MEM_CODEC, bytes);
}

/* Packing: each packer writes at most `capacity` bytes, which is its bound, and sets *out_count. */
struct pack {
    struct stele_mem *mem;
    int level;
    const uint8_t *bytes;
    size_t count;
    uint8_t *out;
    size_t capacity;
};

static enum stele_err pack_gzip(const struct pack *pack, size_t *out_count)
{
    z_stream stream = {.zalloc = stele_codec_zlib_alloc, .zfree = stele_codec_free, .opaque = pack->mem};
    enum { MEMORY_LEVEL = 8 };
    int level = pack->level < 0 ? Z_DEFAULT_COMPRESSION : pack->level;
    level = level > GZIP_LEVEL_MAX ? GZIP_LEVEL_MAX : level;
    if (deflateInit2(&stream, level, Z_DEFLATED, STELE_GZIP_WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return STELE_NO_MEMORY;
    stream.next_in = (Bytef *)(uintptr_t)pack->bytes;
    stream.avail_in = (uInt)pack->count;
    stream.next_out = pack->out;
    stream.avail_out = (uInt)pack->capacity;
    int status = deflate(&stream, Z_FINISH);
    *out_count = stream.total_out;
    (void)deflateEnd(&stream);
    STELE_ASSERT(status == Z_STREAM_END);
    return STELE_OK;
}

static size_t snappy_bound(size_t count)
{
    size_t blocks = count / SNAPPY_BLOCK_BYTES + 1;
    return sizeof(stele_snappy_header) + blocks * (4 + snappy_max_compressed_length(SNAPPY_BLOCK_BYTES));
}

static enum stele_err pack_snappy(const struct pack *pack, size_t *out_count)
{
    uint8_t *at = pack->out;
    memcpy(at, stele_snappy_header, sizeof(stele_snappy_header));
    at += sizeof(stele_snappy_header);
    for (size_t done = 0; done < pack->count;) {
        size_t block = stele_min_size(pack->count - done, SNAPPY_BLOCK_BYTES);
        size_t packed = (size_t)(pack->out + pack->capacity - at) - 4;
        if (snappy_compress((const char *)pack->bytes + done, block, (char *)at + 4, &packed) != SNAPPY_OK)
            return STELE_NO_MEMORY;
        stele_put_i32(at, (int32_t)packed);
        at += 4 + packed;
        done += block;
    }
    *out_count = (size_t)(at - pack->out);
    return STELE_OK;
}

static LZ4F_preferences_t lz4_preferences(int level)
{
    LZ4F_preferences_t preferences = {0};
    preferences.frameInfo.blockSizeID = LZ4F_max64KB;
    preferences.frameInfo.blockMode = LZ4F_blockIndependent;
    if (level != STELE_CODEC_LEVEL_DEFAULT && level != LZ4_LEVEL_FAST)
        preferences.compressionLevel = level < LZ4_LEVEL_HIGH_MIN ? LZ4_LEVEL_HIGH_MIN : level;
    return preferences;
}

static enum stele_err pack_lz4(const struct pack *pack, size_t *out_count)
{
    LZ4F_preferences_t preferences = lz4_preferences(pack->level);
    LZ4F_CustomMem custom = {.customAlloc = stele_codec_alloc,
                             .customCalloc = lz4_zeroed,
                             .customFree = stele_codec_free,
                             .opaqueState = pack->mem};
    LZ4F_cctx *context = LZ4F_createCompressionContext_advanced(custom, LZ4F_VERSION);
    if (context == NULL)
        return STELE_NO_MEMORY;
    size_t used = LZ4F_compressBegin(context, pack->out, pack->capacity, &preferences);
    size_t last = used;
    if (!LZ4F_isError(last)) {
        last = LZ4F_compressUpdate(context, pack->out + used, pack->capacity - used, pack->bytes, pack->count, NULL);
        used += LZ4F_isError(last) ? 0 : last;
    }
    if (!LZ4F_isError(last)) {
        last = LZ4F_compressEnd(context, pack->out + used, pack->capacity - used, NULL);
        used += LZ4F_isError(last) ? 0 : last;
    }
    (void)LZ4F_freeCompressionContext(context);
    *out_count = used;
    return LZ4F_isError(last) ? STELE_NO_MEMORY : STELE_OK;
}

static enum stele_err pack_zstd(const struct pack *pack, size_t *out_count)
{
    ZSTD_CCtx *context = ZSTD_createCCtx_advanced(
        (ZSTD_customMem){.customAlloc = stele_codec_alloc, .customFree = stele_codec_free, .opaque = pack->mem});
    if (context == NULL)
        return STELE_NO_MEMORY;
    int level = pack->level == STELE_CODEC_LEVEL_DEFAULT ? ZSTD_LEVEL : pack->level;
    size_t packed = ZSTD_compressCCtx(context, pack->out, pack->capacity, pack->bytes, pack->count, level);
    (void)ZSTD_freeCCtx(context);
    *out_count = packed;
    return ZSTD_isError(packed) ? STELE_NO_MEMORY : STELE_OK;
}

static size_t pack_bound(enum stele_codec codec, int level, size_t count)
{
    LZ4F_preferences_t preferences;
    switch (codec) {
    case STELE_CODEC_GZIP:
        return compressBound(count) + 32; /* header and trailer of a gzip member instead of zlib's */
    case STELE_CODEC_SNAPPY:
        return snappy_bound(count);
    case STELE_CODEC_LZ4:
        preferences = lz4_preferences(level);
        return LZ4F_compressFrameBound(count, &preferences) + 64;
    case STELE_CODEC_ZSTD:
        return ZSTD_compressBound(count);
    case STELE_CODEC_NONE:
    case STELE_CODEC_COUNT:
        break;
    }
    return count;
}

static enum stele_err pack_bytes(enum stele_codec codec, const struct pack *pack, size_t *out_count)
{
    switch (codec) {
    case STELE_CODEC_GZIP:
        return pack_gzip(pack, out_count);
    case STELE_CODEC_SNAPPY:
        return pack_snappy(pack, out_count);
    case STELE_CODEC_LZ4:
        return pack_lz4(pack, out_count);
    case STELE_CODEC_ZSTD:
        return pack_zstd(pack, out_count);
    case STELE_CODEC_NONE:
    case STELE_CODEC_COUNT:
        break;
    }
    memcpy(pack->out, pack->bytes, pack->count);
    *out_count = pack->count;
    return STELE_OK;
}

enum stele_err stele_compress(struct stele_mem *mem, enum stele_codec codec, int level, const void *bytes, size_t count,
                              size_t prefix_bytes, struct stele_buf **out_buf)
{
    if (count > INT32_MAX)
        return STELE_TOO_LARGE;
    size_t bound = pack_bound(codec, level, count);
    struct stele_buf *buf = stele_buf_new(mem, STELE_MEM_CODEC, prefix_bytes + bound);
    if (buf == NULL)
        return STELE_NO_MEMORY;
    struct pack pack = {.mem = mem,
                        .level = level,
                        .bytes = bytes,
                        .count = count,
                        .out = buf->bytes + prefix_bytes,
                        .capacity = bound};
    size_t packed = 0;
    enum stele_err err = pack_bytes(codec, &pack, &packed);
    if (err != STELE_OK) {
        stele_buf_unref(buf);
        return err;
    }
    if (prefix_bytes + packed > INT32_MAX) {
        stele_buf_unref(buf);
        return STELE_TOO_LARGE;
    }
    buf->count = prefix_bytes + packed;
    *out_buf = buf;
    return STELE_OK;
}
