#include "base/check.h"
#include "base/cursor.h"
#include "proto/codec_mem.h"
#include "proto/compress.h"
#include "proto/unpacked.h"

#include <snappy-c.h>
#include <string.h>
#include <zlib.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

enum {
    FIRST_BYTES_MIN = 1024,
    FIRST_EXPANSION = 2,           /* records pack to half and less */
    SNAPPY_EXPANSION_MAX = 64 / 2, /* a copy of 3 bytes stands for 64 at most */
};

enum stele_err stele_unpacked_reserve(struct stele_unpacked *out, size_t bytes)
{
    if (stele_unpacked_room(out) >= bytes)
        return STELE_OK;
    if (bytes > stele_unpacked_left(out))
        return STELE_TOO_LARGE;
    size_t capacity = out->capacity == 0 ? out->first_bytes : out->capacity * 2;
    if (capacity - out->count < bytes)
        capacity = out->count + bytes;
    capacity = stele_min_size(capacity, out->bytes_max);
    uint8_t *grown = stele_mem_resize(out->mem, STELE_MEM_CODEC, out->bytes, capacity);
    if (grown == NULL)
        return STELE_NO_MEMORY;
    out->bytes = grown;
    out->capacity = capacity;
    return STELE_OK;
}

/* One call of inflate into what room there is. At the limit one byte of room tells a stream that ends here from one
 * that goes on. */
static enum stele_err inflate_some(struct stele_unpacked *out, z_stream *stream, int *out_status)
{
    uint8_t probe;
    bool is_at_limit = stele_unpacked_left(out) == 0;
    enum stele_err err = is_at_limit ? STELE_OK : stele_unpacked_reserve(out, 1);
    if (err != STELE_OK)
        return err;
    size_t room = is_at_limit ? 1 : stele_min_size(stele_unpacked_room(out), INT32_MAX);
    stream->next_out = is_at_limit ? &probe : out->bytes + out->count;
    stream->avail_out = (uInt)room;
    int status = inflate(stream, Z_NO_FLUSH);
    size_t made = room - stream->avail_out;
    if (status == Z_MEM_ERROR)
        return STELE_NO_MEMORY;
    if (status != Z_OK && status != Z_STREAM_END)
        return STELE_CORRUPT;
    if (is_at_limit && made > 0)
        return STELE_TOO_LARGE;
    out->count += made;
    *out_status = status;
    return STELE_OK;
}

static enum stele_err unpack_gzip(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    z_stream stream = {.zalloc = stele_codec_zlib_alloc,
                       .zfree = stele_codec_free,
                       .opaque = out->mem,
                       .next_in = (Bytef *)(uintptr_t)bytes,
                       .avail_in = (uInt)count};
    if (inflateInit2(&stream, STELE_GZIP_WINDOW_BITS) != Z_OK)
        return STELE_NO_MEMORY;
    enum stele_err err = STELE_OK;
    int status = Z_OK;
    while (err == STELE_OK && (status != Z_STREAM_END || stream.avail_in > 0)) {
        if (status == Z_STREAM_END)
            (void)inflateReset(&stream); /* another member follows */
        err = inflate_some(out, &stream, &status);
    }
    (void)inflateEnd(&stream);
    return err;
}

static enum stele_err unpack_snappy_block(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    size_t unpacked = 0;
    if (snappy_uncompressed_length((const char *)bytes, count, &unpacked) != SNAPPY_OK)
        return STELE_CORRUPT;
    /* A claim that no block of this size can keep is refused before memory is taken for it. */
    if (unpacked / SNAPPY_EXPANSION_MAX > count)
        return STELE_CORRUPT;
    enum stele_err err = stele_unpacked_reserve(out, unpacked);
    if (err != STELE_OK)
        return err;
    uint8_t none;
    char *to = unpacked == 0 ? (char *)&none : (char *)out->bytes + out->count;
    if (snappy_uncompress((const char *)bytes, count, to, &unpacked) != SNAPPY_OK)
        return STELE_CORRUPT;
    out->count += unpacked;
    return STELE_OK;
}

static bool is_snappy_header(const uint8_t *bytes, size_t count)
{
    return count >= sizeof(stele_snappy_header) && memcmp(bytes, stele_snappy_header, STELE_SNAPPY_MAGIC_BYTES) == 0;
}

static enum stele_err unpack_snappy(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    if (!is_snappy_header(bytes, count))
        return unpack_snappy_block(out, bytes, count);
    struct stele_reader reader = stele_reader_of(bytes, count);
    while (stele_reader_left(&reader) > 0) {
        /* A stream may be several one after another, each with its header. */
        if (is_snappy_header(reader.at, stele_reader_left(&reader))) {
            (void)stele_read_bytes(&reader, sizeof(stele_snappy_header));
            continue;
        }
        int32_t block_bytes = stele_read_i32(&reader);
        const uint8_t *block = block_bytes < 0 ? NULL : stele_read_bytes(&reader, (size_t)block_bytes);
        if (reader.failed || block == NULL)
            return STELE_CORRUPT;
        enum stele_err err = unpack_snappy_block(out, block, (size_t)block_bytes);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

/* Unpacks one frame in one call, which needs no window beside the output: a frame may claim one of 128 MiB and more. */
static enum stele_err unpack_zstd_frame(struct stele_unpacked *out, ZSTD_DCtx *context, const uint8_t *bytes,
                                        size_t count)
{
    enum { BLOCK_HEADER_BYTES = 3 };
    unsigned long long bound = ZSTD_decompressBound(bytes, count);
    if (bound == ZSTD_CONTENTSIZE_ERROR)
        return STELE_CORRUPT;
    if (ZSTD_getFrameContentSize(bytes, count) == bound && bound > stele_unpacked_left(out))
        return STELE_TOO_LARGE;
    /* What a frame states is not believed beyond what blocks in so many bytes can hold. */
    size_t blocks = count / BLOCK_HEADER_BYTES + 1;
    size_t whole = blocks * ZSTD_BLOCKSIZE_MAX;
    whole = bound < whole ? (size_t)bound : whole;
    size_t room = stele_min_size(whole, stele_unpacked_left(out));
    enum stele_err err = stele_unpacked_reserve(out, room);
    if (err != STELE_OK)
        return err;
    uint8_t none;
    size_t made = ZSTD_decompressDCtx(context, room == 0 ? &none : out->bytes + out->count, room, bytes, count);
    if (ZSTD_isError(made)) {
        if (ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation)
            return STELE_NO_MEMORY;
        bool is_cut = room < whole && ZSTD_getErrorCode(made) == ZSTD_error_dstSize_tooSmall;
        return is_cut ? STELE_TOO_LARGE : STELE_CORRUPT;
    }
    out->count += made;
    return STELE_OK;
}

/* The library may also know formats from before zstd's was settled; Kafka never wrote those. */
static bool is_zstd_frame(const uint8_t *bytes, size_t count)
{
    enum { MAGIC_BYTES = 4 };
    if (count < MAGIC_BYTES)
        return false;
    uint32_t magic = __builtin_bswap32(stele_get_u32(bytes));
    return magic == ZSTD_MAGICNUMBER || (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

static enum stele_err unpack_zstd(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    ZSTD_DCtx *context = ZSTD_createDCtx_advanced(
        (ZSTD_customMem){.customAlloc = stele_codec_alloc, .customFree = stele_codec_free, .opaque = out->mem});
    if (context == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = count == 0 ? STELE_CORRUPT : STELE_OK;
    for (size_t at = 0; err == STELE_OK && at < count;) {
        size_t frame_bytes =
            is_zstd_frame(bytes + at, count - at) ? ZSTD_findFrameCompressedSize(bytes + at, count - at) : 0;
        if (frame_bytes == 0 || ZSTD_isError(frame_bytes))
            err = STELE_CORRUPT;
        else
            err = unpack_zstd_frame(out, context, bytes + at, frame_bytes);
        at += frame_bytes;
    }
    (void)ZSTD_freeDCtx(context);
    return err;
}

static enum stele_err unpack_plain(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    enum stele_err err = stele_unpacked_reserve(out, count);
    if (err != STELE_OK)
        return err;
    if (count > 0)
        memcpy(out->bytes, bytes, count);
    out->count = count;
    return STELE_OK;
}

static enum stele_err unpack(struct stele_unpacked *out, enum stele_codec codec, const uint8_t *bytes, size_t count)
{
    switch (codec) {
    case STELE_CODEC_NONE:
        return unpack_plain(out, bytes, count);
    case STELE_CODEC_GZIP:
        return unpack_gzip(out, bytes, count);
    case STELE_CODEC_SNAPPY:
        return unpack_snappy(out, bytes, count);
    case STELE_CODEC_LZ4:
        return stele_unpack_lz4(out, bytes, count);
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
    if (count > INT32_MAX)
        return STELE_TOO_LARGE;
    size_t first_bytes = count * FIRST_EXPANSION < FIRST_BYTES_MIN ? FIRST_BYTES_MIN : count * FIRST_EXPANSION;
    struct stele_unpacked out = {.mem = mem, .bytes_max = bytes_max, .first_bytes = first_bytes};
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
