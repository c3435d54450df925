/* Bounded reader and writer of big-endian bytes with sticky failure. A cursor never passes its end: the call that
 * would do so sets `failed`, yields zero or NULL, and every later call does the same. Check once, at the end. */
#ifndef STELE_BASE_CURSOR_H
#define STELE_BASE_CURSOR_H

#include "base/types.h"

#include <stdbool.h>

struct stele_reader {
    const uint8_t *start, *at, *end;
    bool failed;
};

struct stele_writer {
    uint8_t *start, *at, *end;
    bool failed;
};

struct stele_reader stele_reader_of(const void *bytes, size_t count);
size_t stele_reader_left(const struct stele_reader *reader);
size_t stele_reader_pos(const struct stele_reader *reader); /* bytes consumed */
uint8_t stele_read_u8(struct stele_reader *reader);
int8_t stele_read_i8(struct stele_reader *reader);
int16_t stele_read_i16(struct stele_reader *reader);
int32_t stele_read_i32(struct stele_reader *reader);
uint32_t stele_read_u32(struct stele_reader *reader);
int64_t stele_read_i64(struct stele_reader *reader);
/** Borrowed pointer to the next `count` bytes, valid as long as the memory read from; NULL on failure. */
const uint8_t *stele_read_bytes(struct stele_reader *reader, size_t count);
/** Zigzag varint of at most 5 bytes, as Kafka's ByteUtils.readVarint: surplus bits of the 5th byte shift out, a
 * 5th byte with its high bit set fails. */
int32_t stele_read_varint(struct stele_reader *reader);
/** Zigzag varint of at most 10 bytes (readVarlong). */
int64_t stele_read_varlong(struct stele_reader *reader);
/** Plain (not zigzag) varint of at most 5 bytes, as in KRaft's flexible messages. */
uint32_t stele_read_uvarint(struct stele_reader *reader);

struct stele_writer stele_writer_of(void *bytes, size_t capacity);
size_t stele_writer_pos(const struct stele_writer *writer); /* bytes written */
size_t stele_writer_left(const struct stele_writer *writer);
void stele_write_i8(struct stele_writer *writer, int8_t value);
void stele_write_i16(struct stele_writer *writer, int16_t value);
void stele_write_i32(struct stele_writer *writer, int32_t value);
void stele_write_u32(struct stele_writer *writer, uint32_t value);
void stele_write_i64(struct stele_writer *writer, int64_t value);
void stele_write_bytes(struct stele_writer *writer, const void *bytes, size_t count);
void stele_write_varint(struct stele_writer *writer, int32_t value);
void stele_write_varlong(struct stele_writer *writer, int64_t value);

size_t stele_varint_bytes(int32_t value);
size_t stele_varlong_bytes(int64_t value);

/* Direct access where the bounds are known. In this header because a batch's header is nothing else, thirteen times;
 * the shifts become one load or store. */
static inline int8_t stele_get_i8(const uint8_t *at)
{
    return (int8_t)*at;
}

static inline uint32_t stele_get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline int16_t stele_get_i16(const uint8_t *at)
{
    return (int16_t)(at[0] << 8 | at[1]);
}

static inline int32_t stele_get_i32(const uint8_t *at)
{
    return (int32_t)stele_get_u32(at);
}

static inline int64_t stele_get_i64(const uint8_t *at)
{
    return (int64_t)((uint64_t)stele_get_u32(at) << 32 | stele_get_u32(at + 4));
}

static inline void stele_put_i8(uint8_t *at, int8_t value)
{
    *at = (uint8_t)value;
}

static inline void stele_put_i16(uint8_t *at, int16_t value)
{
    at[0] = (uint8_t)((uint16_t)value >> 8);
    at[1] = (uint8_t)value;
}

static inline void stele_put_u32(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 24);
    at[1] = (uint8_t)(value >> 16);
    at[2] = (uint8_t)(value >> 8);
    at[3] = (uint8_t)value;
}

static inline void stele_put_i32(uint8_t *at, int32_t value)
{
    stele_put_u32(at, (uint32_t)value);
}

static inline void stele_put_i64(uint8_t *at, int64_t value)
{
    stele_put_u32(at, (uint32_t)((uint64_t)value >> 32));
    stele_put_u32(at + 4, (uint32_t)value);
}

#endif
