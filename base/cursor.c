#include "base/cursor.h"

#include <string.h>

struct stele_reader stele_reader_of(const void *bytes, size_t count)
{
    const uint8_t *start = bytes;
    return (struct stele_reader){.start = start, .at = start, .end = count == 0 ? start : start + count};
}

size_t stele_reader_left(const struct stele_reader *reader)
{
    return reader->failed ? 0 : (size_t)(reader->end - reader->at);
}

size_t stele_reader_pos(const struct stele_reader *reader)
{
    return (size_t)(reader->at - reader->start);
}

const uint8_t *stele_read_bytes(struct stele_reader *reader, size_t count)
{
    if (reader->failed || count > (size_t)(reader->end - reader->at)) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->at;
    if (count > 0)
        reader->at += count;
    return at;
}

uint8_t stele_read_u8(struct stele_reader *reader)
{
    const uint8_t *at = stele_read_bytes(reader, 1);
    return at == NULL ? 0 : *at;
}

int8_t stele_read_i8(struct stele_reader *reader)
{
    const uint8_t *at = stele_read_bytes(reader, 1);
    return at == NULL ? 0 : (int8_t)*at;
}

int16_t stele_read_i16(struct stele_reader *reader)
{
    const uint8_t *at = stele_read_bytes(reader, 2);
    return at == NULL ? 0 : stele_get_i16(at);
}

int32_t stele_read_i32(struct stele_reader *reader)
{
    const uint8_t *at = stele_read_bytes(reader, 4);
    return at == NULL ? 0 : stele_get_i32(at);
}

uint32_t stele_read_u32(struct stele_reader *reader)
{
    const uint8_t *at = stele_read_bytes(reader, 4);
    return at == NULL ? 0 : stele_get_u32(at);
}

int64_t stele_read_i64(struct stele_reader *reader)
{
    const uint8_t *at = stele_read_bytes(reader, 8);
    return at == NULL ? 0 : stele_get_i64(at);
}

/* Little-endian groups of 7 bits; the last of `bytes_max` bytes must end it. */
static uint64_t read_groups(struct stele_reader *reader, size_t bytes_max)
{
    const uint8_t *at = reader->at;
    size_t left = stele_reader_left(reader);
    size_t limit = left < bytes_max ? left : bytes_max;
    uint64_t value = 0;
    for (size_t i = 0; i < limit; i++) {
        value |= (uint64_t)(at[i] & 0x7f) << (7 * i);
        if ((at[i] & 0x80) == 0) {
            reader->at = at + i + 1;
            return value;
        }
    }
    reader->failed = true;
    return 0;
}

uint32_t stele_read_uvarint(struct stele_reader *reader)
{
    return (uint32_t)read_groups(reader, 5);
}

int32_t stele_read_varint(struct stele_reader *reader)
{
    uint32_t raw = stele_read_uvarint(reader);
    return (int32_t)((raw >> 1) ^ (0 - (raw & 1)));
}

int64_t stele_read_varlong(struct stele_reader *reader)
{
    uint64_t raw = read_groups(reader, 10);
    return (int64_t)((raw >> 1) ^ (0 - (raw & 1)));
}

struct stele_writer stele_writer_of(void *bytes, size_t capacity)
{
    uint8_t *start = bytes;
    return (struct stele_writer){.start = start, .at = start, .end = capacity == 0 ? start : start + capacity};
}

size_t stele_writer_pos(const struct stele_writer *writer)
{
    return (size_t)(writer->at - writer->start);
}

size_t stele_writer_left(const struct stele_writer *writer)
{
    return writer->failed ? 0 : (size_t)(writer->end - writer->at);
}

static uint8_t *take(struct stele_writer *writer, size_t count)
{
    if (writer->failed || count > (size_t)(writer->end - writer->at)) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *at = writer->at;
    writer->at += count;
    return at;
}

void stele_write_i8(struct stele_writer *writer, int8_t value)
{
    uint8_t *at = take(writer, 1);
    if (at != NULL)
        *at = (uint8_t)value;
}

void stele_write_i16(struct stele_writer *writer, int16_t value)
{
    uint8_t *at = take(writer, 2);
    if (at != NULL)
        stele_put_i16(at, value);
}

void stele_write_i32(struct stele_writer *writer, int32_t value)
{
    uint8_t *at = take(writer, 4);
    if (at != NULL)
        stele_put_i32(at, value);
}

void stele_write_u32(struct stele_writer *writer, uint32_t value)
{
    uint8_t *at = take(writer, 4);
    if (at != NULL)
        stele_put_u32(at, value);
}

void stele_write_i64(struct stele_writer *writer, int64_t value)
{
    uint8_t *at = take(writer, 8);
    if (at != NULL)
        stele_put_i64(at, value);
}

void stele_write_bytes(struct stele_writer *writer, const void *bytes, size_t count)
{
    if (count == 0)
        return;
    uint8_t *at = take(writer, count);
    if (at != NULL)
        memcpy(at, bytes, count);
}

static uint32_t zigzag32(int32_t value)
{
    return ((uint32_t)value << 1) ^ (uint32_t)(value >> 31);
}

static uint64_t zigzag64(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static size_t group_count(uint64_t raw)
{
    size_t count = 1;
    for (; raw > 0x7f; raw >>= 7)
        count++;
    return count;
}

static void write_groups(struct stele_writer *writer, uint64_t raw)
{
    uint8_t *at = take(writer, group_count(raw));
    if (at == NULL)
        return;
    for (; raw > 0x7f; raw >>= 7)
        *at++ = (uint8_t)(raw | 0x80);
    *at = (uint8_t)raw;
}

void stele_write_varint(struct stele_writer *writer, int32_t value)
{
    write_groups(writer, zigzag32(value));
}

void stele_write_varlong(struct stele_writer *writer, int64_t value)
{
    write_groups(writer, zigzag64(value));
}

size_t stele_varint_bytes(int32_t value)
{
    return group_count(zigzag32(value));
}

size_t stele_varlong_bytes(int64_t value)
{
    return group_count(zigzag64(value));
}
