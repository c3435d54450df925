/* Reads an LZ4 frame block by block into the output. The library's own frame reader would verify and refuse what
 * Kafka's skips (content size and checksum), accept what Kafka's refuses (dictionaries, blocks that depend on each
 * other), and hold up to 8 MiB for a frame that claims large blocks.
 *
 * off size field
 *   0   4  magic 0x184D2204, little-endian as all numbers here
 *   4   1  flags: bits 7-6 version 01, 5 blocks independent, 4 block checksum, 3 content size, 2 content checksum,
 *          1 reserved, 0 dictionary
 *   5   1  bits 6-4 largest block: 4 64 KiB, 5 256 KiB, 6 1 MiB, 7 4 MiB; the other bits reserved
 *   6   8  content size, only with its flag
 *   .   1  second byte of the xxh32 of the bytes from the flags on
 *   ..     blocks: size uint32 (high bit: stored as it is), bytes, xxh32 of the bytes with its flag
 *   .   4  0: end
 *   .   4  xxh32 of the content, only with its flag */
#include "base/cursor.h"
#include "proto/unpacked.h"
#include "proto/xxh32.h"

#include <lz4.h>
#include <string.h>

#define LZ4_MAGIC 0x184D2204U
#define BLOCK_IS_STORED 0x80000000U

enum {
    FLAG_DICTIONARY = 0x01,
    FLAG_RESERVED = 0x02,
    FLAG_CONTENT_CHECKSUM = 0x04,
    FLAG_CONTENT_SIZE = 0x08,
    FLAG_BLOCK_CHECKSUM = 0x10,
    FLAG_INDEPENDENT = 0x20,
    FLAG_VERSION_MASK = 0xc0,
    FLAG_VERSION = 0x40,
    BLOCK_CODE_MIN = 4,
    BLOCK_CODE_MAX = 7,
    CHECKSUM_BYTES = 4,
    CONTENT_SIZE_BYTES = 8,
    /* A byte of a block that extends a match stands for 255 bytes; none stands for more. */
    EXPANSION_MAX = 255,
};

struct frame {
    struct stele_reader reader;
    uint8_t flags;
    size_t block_bytes_max;
};

static uint32_t read_le32(struct stele_reader *reader)
{
    return __builtin_bswap32(stele_read_u32(reader));
}

static bool read_header(struct frame *frame)
{
    struct stele_reader *reader = &frame->reader;
    if (read_le32(reader) != LZ4_MAGIC)
        return false;
    const uint8_t *descriptor = reader->at;
    frame->flags = stele_read_u8(reader);
    uint8_t block = stele_read_u8(reader);
    if ((frame->flags & FLAG_CONTENT_SIZE) != 0)
        (void)stele_read_bytes(reader, CONTENT_SIZE_BYTES);
    size_t descriptor_bytes = (size_t)(reader->at - descriptor);
    uint8_t check = stele_read_u8(reader);
    if (reader->failed || check != (uint8_t)(stele_xxh32(descriptor, descriptor_bytes) >> 8))
        return false;
    if ((frame->flags & FLAG_VERSION_MASK) != FLAG_VERSION || (frame->flags & FLAG_INDEPENDENT) == 0)
        return false;
    if ((frame->flags & (FLAG_DICTIONARY | FLAG_RESERVED)) != 0 || (block & 0x8f) != 0)
        return false;
    int code = block >> 4;
    frame->block_bytes_max = (size_t)1 << (8 + 2 * code);
    return code >= BLOCK_CODE_MIN && code <= BLOCK_CODE_MAX;
}

static enum stele_err append_stored(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    enum stele_err err = stele_unpacked_reserve(out, count);
    if (err != STELE_OK || count == 0)
        return err;
    memcpy(out->bytes + out->count, bytes, count);
    out->count += count;
    return STELE_OK;
}

static enum stele_err append_packed(struct stele_unpacked *out, const struct frame *frame, const uint8_t *bytes,
                                    size_t count)
{
    size_t whole = stele_min_size(frame->block_bytes_max, count * EXPANSION_MAX);
    size_t room = stele_min_size(whole, stele_unpacked_left(out));
    enum stele_err err = stele_unpacked_reserve(out, room);
    if (err != STELE_OK)
        return err;
    uint8_t none;
    char *to = room == 0 ? (char *)&none : (char *)out->bytes + out->count;
    int made = LZ4_decompress_safe((const char *)bytes, to, (int)count, (int)room);
    if (made < 0) {
        /* Either damaged, or sound as far as the limit lets it be read. */
        bool is_cut = room < whole;
        if (is_cut && LZ4_decompress_safe_partial((const char *)bytes, to, (int)count, (int)room, (int)room) >= 0)
            return STELE_TOO_LARGE;
        return STELE_CORRUPT;
    }
    out->count += (size_t)made;
    return STELE_OK;
}

static enum stele_err append_block(struct stele_unpacked *out, struct frame *frame, uint32_t size)
{
    struct stele_reader *reader = &frame->reader;
    size_t count = size & ~BLOCK_IS_STORED;
    if (count > frame->block_bytes_max)
        return STELE_CORRUPT;
    const uint8_t *bytes = stele_read_bytes(reader, count);
    bool has_checksum = (frame->flags & FLAG_BLOCK_CHECKSUM) != 0;
    uint32_t checksum = has_checksum ? read_le32(reader) : 0;
    if (reader->failed || (has_checksum && checksum != stele_xxh32(bytes, count)))
        return STELE_CORRUPT;
    return (size & BLOCK_IS_STORED) != 0 ? append_stored(out, bytes, count) : append_packed(out, frame, bytes, count);
}

enum stele_err stele_unpack_lz4(struct stele_unpacked *out, const uint8_t *bytes, size_t count)
{
    struct frame frame = {.reader = stele_reader_of(bytes, count)};
    struct stele_reader *reader = &frame.reader;
    if (!read_header(&frame))
        return STELE_CORRUPT;
    for (uint32_t size; (size = read_le32(reader)) != 0;) {
        enum stele_err err = append_block(out, &frame, size);
        if (err != STELE_OK)
            return err;
    }
    if ((frame.flags & FLAG_CONTENT_CHECKSUM) != 0)
        (void)stele_read_bytes(reader, CHECKSUM_BYTES);
    return reader->failed || stele_reader_left(reader) > 0 ? STELE_CORRUPT : STELE_OK;
}
