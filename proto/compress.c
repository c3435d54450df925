#include "proto/compress.h"

#include "base/check.h"
#include "base/cursor.h"

#define LZ4F_STATIC_LINKING_ONLY
#include <lz4frame.h>
#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

enum {
    SNAPPY_BLOCK_BYTES = 32768,
    SNAPPY_HEADER_BYTES = 16,
    GROWTH_FIRST_BYTES = 4096,
    LZ4_LEVEL_FAST = 9,
    ZSTD_LEVEL = 3,
};

static const uint8_t snappy_magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

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

/* Memory for the libraries. */
static void *zlib_alloc(void *mem, unsigned count, unsigned bytes)
{
    return stele_mem_array(mem, STELE_MEM_CODEC, count, bytes);
}

static void zlib_free(void *mem, void *ptr)
{
    stele_mem_free(mem, ptr);
}

static void *zstd_alloc(void *mem, size_t bytes)
{
    return stele_mem_raw(mem, STELE_MEM_CODEC, bytes);
}

static void *lz4_zeroed(void *mem, size_t bytes)
{
    return stele_mem_alloc(mem, STELE_MEM_CODEC, bytes);
}

static ZSTD_customMem zstd_mem(struct stele_mem *mem)
{
    return (ZSTD_customMem){.customAlloc = zstd_alloc, .customFree = zlib_free, .opaque = mem};
}

static LZ4F_CustomMem lz4_mem(struct stele_mem *mem)
{
    return (LZ4F_CustomMem){
        .customAlloc = zstd_alloc, .customCalloc = lz4_zeroed, .customFree = zlib_free, .opaqueState = mem};
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
    z_stream stream = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = pack->mem};
    enum { WINDOW_BITS_GZIP = 15 + 16, MEMORY_LEVEL = 8 };
    int level = pack->level == STELE_CODEC_LEVEL_DEFAULT ? Z_DEFAULT_COMPRESSION : pack->level;
    if (deflateInit2(&stream, level, Z_DEFLATED, WINDOW_BITS_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
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
    return SNAPPY_HEADER_BYTES + blocks * (4 + snappy_max_compressed_length(SNAPPY_BLOCK_BYTES));
}

static enum stele_err pack_snappy(const struct pack *pack, size_t *out_count)
{
    uint8_t *at = pack->out;
    memcpy(at, snappy_magic, sizeof(snappy_magic));
    stele_put_i32(at + 8, 1);
    stele_put_i32(at + 12, 1);
    at += SNAPPY_HEADER_BYTES;
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
    /* Kafka's level 9 is its default and means the fast compressor; the library's levels from 3 on are HC. */
    preferences.compressionLevel = level == STELE_CODEC_LEVEL_DEFAULT || level == LZ4_LEVEL_FAST ? 0 : level;
    return preferences;
}

static enum stele_err pack_lz4(const struct pack *pack, size_t *out_count)
{
    LZ4F_preferences_t preferences = lz4_preferences(pack->level);
    LZ4F_cctx *context = LZ4F_createCompressionContext_advanced(lz4_mem(pack->mem), LZ4F_VERSION);
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
    ZSTD_CCtx *context = ZSTD_createCCtx_advanced(zstd_mem(pack->mem));
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
    buf->count = prefix_bytes + packed;
    *out_buf = buf;
    return STELE_OK;
}

/* Unpacking into memory that grows by doubling up to a limit. */
struct grown {
    struct stele_mem *mem;
    uint8_t *bytes;
    size_t count, capacity, bytes_max;
};

/* Makes room for at least one more byte. TOO_LARGE at the limit. */
static enum stele_err grow(struct grown *out, size_t at_least)
{
    if (out->capacity - out->count >= at_least)
        return STELE_OK;
    if (at_least > out->bytes_max - out->count)
        return STELE_TOO_LARGE;
    size_t capacity = out->capacity == 0 ? GROWTH_FIRST_BYTES : out->capacity * 2;
    while (capacity - out->count < at_least)
        capacity *= 2;
    capacity = stele_min_size(capacity, out->bytes_max);
    uint8_t *bytes = stele_mem_resize(out->mem, STELE_MEM_CODEC, out->bytes, capacity);
    if (bytes == NULL)
        return STELE_NO_MEMORY;
    out->bytes = bytes;
    out->capacity = capacity;
    return STELE_OK;
}

static enum stele_err unpack_gzip(struct grown *out, const uint8_t *bytes, size_t count)
{
    z_stream stream = {.zalloc = zlib_alloc,
                       .zfree = zlib_free,
                       .opaque = out->mem,
                       .next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)count};
    enum { WINDOW_BITS_GZIP = 15 + 16 };
    if (inflateInit2(&stream, WINDOW_BITS_GZIP) != Z_OK)
        return STELE_NO_MEMORY;
    enum stele_err err = STELE_OK;
    int status = Z_OK;
    while (err == STELE_OK && status != Z_STREAM_END) {
        uint8_t probe;
        bool is_at_limit = out->count == out->bytes_max;
        if (!is_at_limit && (err = grow(out, 1)) != STELE_OK)
            break;
        /* At the limit one byte of room tells a stream that ends here from one that goes on. */
        size_t room = is_at_limit ? 1 : out->capacity - out->count;
        stream.next_out = is_at_limit ? &probe : out->bytes + out->count;
        stream.avail_out = (uInt)room;
        status = inflate(&stream, Z_NO_FLUSH);
        size_t made = room - stream.avail_out;
        if (is_at_limit && made > 0)
            err = STELE_TOO_LARGE;
        else
            out->count += made;
        if (status == Z_MEM_ERROR)
            err = STELE_NO_MEMORY;
        else if (status != Z_OK && status != Z_STREAM_END)
            err = err == STELE_OK ? STELE_CORRUPT : err;
    }
    if (err == STELE_OK && stream.avail_in > 0)
        err = STELE_CORRUPT;
    (void)inflateEnd(&stream);
    return err;
}

static enum stele_err unpack_snappy_block(struct grown *out, const uint8_t *bytes, size_t count)
{
    size_t unpacked = 0;
    if (snappy_uncompressed_length((const char *)bytes, count, &unpacked) != SNAPPY_OK)
        return STELE_CORRUPT;
    /* A block cannot unpack to more than some 64 times its size; a larger claim is refused before memory is taken. */
    if (unpacked / 64 > count + 1)
        return STELE_CORRUPT;
    if (unpacked == 0)
        return STELE_OK;
    enum stele_err err = grow(out, unpacked);
    if (err != STELE_OK)
        return err;
    size_t room = out->capacity - out->count;
    if (snappy_uncompress((const char *)bytes, count, (char *)out->bytes + out->count, &room) != SNAPPY_OK)
        return STELE_CORRUPT;
    out->count += unpacked;
    return STELE_OK;
}

static enum stele_err unpack_snappy(struct grown *out, const uint8_t *bytes, size_t count)
{
    if (count < SNAPPY_HEADER_BYTES || memcmp(bytes, snappy_magic, sizeof(snappy_magic)) != 0)
        return unpack_snappy_block(out, bytes, count);
    struct stele_reader reader = stele_reader_of(bytes, count);
    while (stele_reader_left(&reader) > 0) {
        /* A stream may be several one after another, each with its header. */
        if (stele_reader_left(&reader) >= SNAPPY_HEADER_BYTES &&
            memcmp(reader.at, snappy_magic, sizeof(snappy_magic)) == 0) {
            (void)stele_read_bytes(&reader, SNAPPY_HEADER_BYTES);
            continue;
        }
        int32_t block = stele_read_i32(&reader);
        const uint8_t *at = block < 0 ? NULL : stele_read_bytes(&reader, (size_t)block);
        if (at == NULL)
            return STELE_CORRUPT;
        enum stele_err err = unpack_snappy_block(out, at, (size_t)block);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

/* Kafka's reader refuses blocks that depend on each other. */
static bool lz4_is_refused(LZ4F_dctx *context, const uint8_t *bytes, size_t count)
{
    LZ4F_frameInfo_t info;
    size_t used = count;
    if (LZ4F_isError(LZ4F_getFrameInfo(context, &info, bytes, &used)))
        return true;
    LZ4F_resetDecompressionContext(context);
    return info.blockMode != LZ4F_blockIndependent || info.frameType != LZ4F_frame;
}

static enum stele_err unpack_lz4_frame(struct grown *out, LZ4F_dctx *context, const uint8_t *bytes, size_t count)
{
    size_t at = 0, hint = 1;
    if (lz4_is_refused(context, bytes, count))
        return STELE_CORRUPT;
    while (hint != 0) {
        uint8_t probe;
        bool is_at_limit = out->count == out->bytes_max;
        enum stele_err err = is_at_limit ? STELE_OK : grow(out, 1);
        if (err != STELE_OK)
            return err;
        size_t room = is_at_limit ? 1 : out->capacity - out->count, used = count - at;
        LZ4F_decompressOptions_t options = {.skipChecksums = 1};
        hint = LZ4F_decompress(context, is_at_limit ? &probe : out->bytes + out->count, &room, bytes + at, &used,
                               &options);
        if (LZ4F_isError(hint))
            return LZ4F_getErrorCode(hint) == LZ4F_ERROR_allocation_failed ? STELE_NO_MEMORY : STELE_CORRUPT;
        if (is_at_limit && room > 0)
            return STELE_TOO_LARGE;
        if (used == 0 && room == 0 && hint != 0)
            return STELE_CORRUPT;
        at += used;
        out->count += room;
    }
    return at == count ? STELE_OK : STELE_CORRUPT;
}

static enum stele_err unpack_lz4(struct grown *out, const uint8_t *bytes, size_t count)
{
    LZ4F_dctx *context = LZ4F_createDecompressionContext_advanced(lz4_mem(out->mem), LZ4F_VERSION);
    if (context == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = unpack_lz4_frame(out, context, bytes, count);
    (void)LZ4F_freeDecompressionContext(context);
    return err;
}

static enum stele_err unpack_zstd_frames(struct grown *out, ZSTD_DCtx *context, const uint8_t *bytes, size_t count)
{
    ZSTD_inBuffer in = {.src = bytes, .size = count};
    size_t hint = 1;
    while (in.pos < in.size || hint != 0) {
        uint8_t probe;
        bool is_at_limit = out->count == out->bytes_max;
        enum stele_err err = is_at_limit ? STELE_OK : grow(out, 1);
        if (err != STELE_OK)
            return err;
        ZSTD_outBuffer to = {.dst = is_at_limit ? &probe : out->bytes + out->count,
                             .size = is_at_limit ? 1 : out->capacity - out->count};
        size_t before = in.pos;
        hint = ZSTD_decompressStream(context, &to, &in);
        if (ZSTD_isError(hint))
            return ZSTD_getErrorCode(hint) == ZSTD_error_memory_allocation ? STELE_NO_MEMORY : STELE_CORRUPT;
        if (is_at_limit && to.pos > 0)
            return STELE_TOO_LARGE;
        if (in.pos == before && to.pos == 0 && hint != 0)
            return STELE_CORRUPT; /* ends inside a frame */
        out->count += to.pos;
    }
    return STELE_OK;
}

static enum stele_err unpack_zstd(struct grown *out, const uint8_t *bytes, size_t count)
{
    /* A frame that states its size is refused before its window is allocated. */
    unsigned long long stated = ZSTD_getFrameContentSize(bytes, count);
    if (stated != ZSTD_CONTENTSIZE_UNKNOWN && stated != ZSTD_CONTENTSIZE_ERROR && stated > out->bytes_max)
        return STELE_TOO_LARGE;
    ZSTD_DCtx *context = ZSTD_createDCtx_advanced(zstd_mem(out->mem));
    if (context == NULL)
        return STELE_NO_MEMORY;
    enum { WINDOW_LOG_MAX = 27 };
    (void)ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    enum stele_err err = unpack_zstd_frames(out, context, bytes, count);
    (void)ZSTD_freeDCtx(context);
    return err;
}

static enum stele_err unpack_plain(struct grown *out, const uint8_t *bytes, size_t count)
{
    if (count == 0)
        return STELE_OK;
    enum stele_err err = grow(out, count);
    if (err != STELE_OK)
        return err;
    memcpy(out->bytes, bytes, count);
    out->count = count;
    return STELE_OK;
}

static enum stele_err unpack(struct grown *out, enum stele_codec codec, const uint8_t *bytes, size_t count)
{
    switch (codec) {
    case STELE_CODEC_NONE:
        return unpack_plain(out, bytes, count);
    case STELE_CODEC_GZIP:
        return unpack_gzip(out, bytes, count);
    case STELE_CODEC_SNAPPY:
        return unpack_snappy(out, bytes, count);
    case STELE_CODEC_LZ4:
        return unpack_lz4(out, bytes, count);
    case STELE_CODEC_ZSTD:
        return unpack_zstd(out, bytes, count);
    case STELE_CODEC_COUNT:
        break;
    }
    return STELE_CORRUPT;
}

enum stele_err stele_unpack(struct stele_mem *mem, enum stele_codec codec, const void *bytes, size_t count,
                            size_t bytes_max, uint8_t **out_bytes, size_t *out_count)
{
    struct grown out = {.mem = mem, .bytes_max = bytes_max};
    if (count > INT32_MAX)
        return STELE_TOO_LARGE;
    enum stele_err err = unpack(&out, codec, bytes, count);
    if (err == STELE_OK && out.bytes == NULL) {
        out.bytes = stele_mem_raw(mem, STELE_MEM_CODEC, 1);
        err = out.bytes == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    if (err != STELE_OK) {
        stele_mem_free(mem, out.bytes);
        return err;
    }
    *out_bytes = out.bytes;
    *out_count = out.count;
    return STELE_OK;
}
