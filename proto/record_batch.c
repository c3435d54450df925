#include "proto/record_batch.h"

#include "base/check.h"
#include "base/crc32c.h"

#include <string.h>

_Static_assert(STELE_BATCH_HEADER_BYTES == 61, "the header of a v2 batch");

enum stele_err stele_batch_header_read(const void *bytes, size_t count, struct stele_batch_header *out_header)
{
    const uint8_t *at = bytes;
    if (count < STELE_BATCH_HEADER_BYTES)
        return STELE_CORRUPT_MESSAGE;
#define F(stem, type, name)                                                                                            \
    out_header->name = stele_get_##stem(at);                                                                           \
    at += sizeof(type);
    STELE_BATCH_FIELDS(F)
#undef F
    return STELE_OK;
}

void stele_batch_header_write(const struct stele_batch_header *header, uint8_t out_bytes[STELE_BATCH_HEADER_BYTES])
{
    uint8_t *at = out_bytes;
#define F(stem, type, name)                                                                                            \
    stele_put_##stem(at, header->name);                                                                                \
    at += sizeof(type);
    STELE_BATCH_FIELDS(F)
#undef F
    STELE_ASSERT(at == out_bytes + STELE_BATCH_HEADER_BYTES);
}

int64_t stele_batch_size(const uint8_t bytes[STELE_BATCH_PREFIX_BYTES])
{
    enum { LEGACY_LENGTH_MIN = 14 };
    int32_t length = stele_get_i32(bytes + STELE_BATCH_POS_LENGTH);
    return length < LEGACY_LENGTH_MIN ? 0 : (int64_t)length + STELE_BATCH_PREFIX_BYTES;
}

static uint32_t checksum(const uint8_t *bytes, size_t count)
{
    return stele_crc32c(0, bytes + STELE_BATCH_POS_ATTRIBUTES, count - STELE_BATCH_POS_ATTRIBUTES);
}

enum stele_err stele_batch_check(const uint8_t *bytes, size_t count, struct stele_batch_header *out_header)
{
    struct stele_batch_header header;
    if (count > STELE_BATCH_POS_MAGIC && (int8_t)bytes[STELE_BATCH_POS_MAGIC] != STELE_BATCH_MAGIC)
        return STELE_UNSUPPORTED_FOR_MESSAGE_FORMAT;
    enum stele_err err = stele_batch_header_read(bytes, count, &header);
    if (err != STELE_OK)
        return err;
    if (header.length < STELE_BATCH_LENGTH_MIN || (size_t)header.length + STELE_BATCH_PREFIX_BYTES != count)
        return STELE_CORRUPT_MESSAGE;
    if (checksum(bytes, count) != header.crc)
        return STELE_CORRUPT_MESSAGE;
    if ((header.attributes & STELE_BATCH_CODEC_MASK) >= STELE_CODEC_COUNT)
        return STELE_UNKNOWN_SERVER_ERROR;
    *out_header = header;
    return STELE_OK;
}

void stele_batch_stamp(uint8_t *bytes, int64_t base_offset, int32_t partition_leader_epoch)
{
    stele_put_i64(bytes, base_offset);
    stele_put_i32(bytes + STELE_BATCH_POS_EPOCH, partition_leader_epoch);
}

void stele_batch_restamp_time(uint8_t *bytes, size_t count, int16_t attributes, int64_t max_timestamp)
{
    STELE_ASSERT(count >= STELE_BATCH_HEADER_BYTES);
    stele_put_i16(bytes + STELE_BATCH_POS_ATTRIBUTES, attributes);
    stele_put_i64(bytes + STELE_BATCH_POS_MAX_TIMESTAMP, max_timestamp);
    stele_put_u32(bytes + STELE_BATCH_POS_CRC, checksum(bytes, count));
}

void stele_batch_restamp_producer(uint8_t *bytes, size_t count, int64_t producer_id, int16_t producer_epoch,
                                  int32_t base_sequence)
{
    STELE_ASSERT(count >= STELE_BATCH_HEADER_BYTES);
    stele_put_i64(bytes + STELE_BATCH_POS_PRODUCER_ID, producer_id);
    stele_put_i16(bytes + STELE_BATCH_POS_PRODUCER_EPOCH, producer_epoch);
    stele_put_i32(bytes + STELE_BATCH_POS_BASE_SEQUENCE, base_sequence);
    stele_put_u32(bytes + STELE_BATCH_POS_CRC, checksum(bytes, count));
}

int32_t stele_sequence_add(int32_t sequence, int32_t count)
{
    STELE_ASSERT(sequence >= 0);
    STELE_ASSERT(count >= 0);
    if (sequence > INT32_MAX - count)
        return count - (INT32_MAX - sequence) - 1;
    return sequence + count;
}

int32_t stele_sequence_sub(int32_t sequence, int32_t count)
{
    STELE_ASSERT(sequence >= 0);
    STELE_ASSERT(count >= 0);
    if (sequence < count)
        return INT32_MAX - (count - sequence) + 1;
    return sequence - count;
}

/* Walking */

enum stele_err stele_record_walker_init(struct stele_record_walker *walker, struct stele_mem *mem, const uint8_t *batch,
                                        size_t count, size_t unpacked_bytes_max)
{
    *walker = (struct stele_record_walker){.mem = mem};
    enum stele_err err = stele_batch_header_read(batch, count, &walker->header);
    if (err != STELE_OK)
        return err;
    const uint8_t *records = batch + STELE_BATCH_HEADER_BYTES;
    size_t bytes = count - STELE_BATCH_HEADER_BYTES;
    enum stele_codec codec = (enum stele_codec)(walker->header.attributes & STELE_BATCH_CODEC_MASK);
    if (codec >= STELE_CODEC_COUNT)
        return STELE_UNKNOWN_SERVER_ERROR;
    if (codec != STELE_CODEC_NONE && walker->header.record_count != 0) {
        err = stele_unpack(mem, codec, records, bytes, unpacked_bytes_max, &walker->unpacked, &bytes);
        if (err != STELE_OK)
            return err == STELE_TOO_LARGE ? STELE_INVALID_RECORD
                   : err == STELE_CORRUPT ? STELE_UNKNOWN_SERVER_ERROR
                                          : err;
        records = walker->unpacked;
    }
    walker->reader = stele_reader_of(records, bytes);
    return STELE_OK;
}

void stele_record_walker_rewind(struct stele_record_walker *walker)
{
    walker->reader.at = walker->reader.start;
    walker->reader.failed = false;
    walker->done = 0;
}

void stele_record_walker_deinit(struct stele_record_walker *walker)
{
    stele_mem_free(walker->mem, walker->unpacked);
    walker->unpacked = NULL;
}

/* A field with a length in front; a negative one means null. */
static const uint8_t *read_field(struct stele_reader *reader, int32_t *out_bytes)
{
    int32_t bytes = stele_read_varint(reader);
    *out_bytes = bytes < 0 ? 0 : bytes;
    return bytes < 0 ? NULL : stele_read_bytes(reader, (size_t)bytes);
}

static bool skip_headers(struct stele_reader *reader, int32_t header_count)
{
    if (header_count < 0 || (size_t)header_count > stele_reader_left(reader))
        return false;
    for (int32_t i = 0; i < header_count && !reader->failed; i++) {
        int32_t bytes;
        if (read_field(reader, &bytes) == NULL)
            return false;
        (void)read_field(reader, &bytes);
    }
    return !reader->failed;
}

static int64_t effective_timestamp(const struct stele_batch_header *header, int64_t delta)
{
    if ((header->attributes & STELE_BATCH_LOG_APPEND_TIME) != 0)
        return header->max_timestamp;
    return (int64_t)((uint64_t)header->base_timestamp + (uint64_t)delta);
}

static int32_t sequence_of(const struct stele_batch_header *header, int32_t offset_delta)
{
    if (header->base_sequence < 0 || offset_delta < 0)
        return STELE_NO_SEQUENCE;
    return stele_sequence_add(header->base_sequence, offset_delta);
}

/* A varint of one or two bytes that both may be read. False: it is longer. */
static inline bool take_short(const uint8_t **inout_at, uint32_t *out_raw)
{
    const uint8_t *at = *inout_at;
    bool is_two = at[0] >= 0x80;
    *out_raw = is_two ? (uint32_t)(at[0] & 0x7f) | (uint32_t)at[1] << 7 : at[0];
    *inout_at = at + (is_two ? 2 : 1);
    return !is_two || at[1] < 0x80;
}

static inline int32_t unzigzag(uint32_t raw)
{
    return (int32_t)((raw >> 1) ^ (0 - (raw & 1)));
}

/* A walk is nothing but varints, and in most records each takes one or two bytes and none counts headers: such a record
 * is read here in half the time. False: it is no such record, or none that is well formed. */
static inline bool read_usual(struct stele_record_walker *walker, struct stele_record *out)
{
    enum { NUMBERS_MAX = 2 + 1 + 2 + 2 + 2, REST_MIN = 2 }; /* up to the key; after it value length and header count */
    const struct stele_batch_header *header = &walker->header;
    const uint8_t *at = walker->reader.at, *const end = walker->reader.end;
    uint32_t length, timestamp_delta, offset_delta, key_bytes, value_bytes;
    if (walker->reader.failed || end - at < NUMBERS_MAX + REST_MIN || !take_short(&at, &length))
        return false;
    if ((length & 1) != 0 || end - at < (ptrdiff_t)(length >> 1)) /* an odd number is a negative one */
        return false;
    const uint8_t *start = at++, *next = start + (length >> 1); /* the attributes */
    if (!take_short(&at, &timestamp_delta) || !take_short(&at, &offset_delta) || !take_short(&at, &key_bytes))
        return false;
    const uint8_t *key = (key_bytes & 1) != 0 ? NULL : at;
    key_bytes = key == NULL ? 0 : key_bytes >> 1;
    if (end - at < (ptrdiff_t)key_bytes + REST_MIN)
        return false;
    at += key_bytes;
    if (!take_short(&at, &value_bytes))
        return false;
    const uint8_t *value = (value_bytes & 1) != 0 ? NULL : at;
    value_bytes = value == NULL ? 0 : value_bytes >> 1;
    if (next - at != (ptrdiff_t)value_bytes + 1 || at[value_bytes] != 0)
        return false;
    walker->reader.at = next; /* and not `at`: the next record can be begun before this one's fields are known */
    *out = (struct stele_record){
        .offset = (int64_t)((uint64_t)header->base_offset + (uint64_t)(int64_t)unzigzag(offset_delta)),
        .timestamp = effective_timestamp(header, unzigzag(timestamp_delta)),
        .sequence = sequence_of(header, unzigzag(offset_delta)),
        .attributes = (int8_t)*start,
        .key = key,
        .value = value,
        .key_bytes = (int32_t)key_bytes,
        .value_bytes = (int32_t)value_bytes,
        .headers = next,
    };
    return true;
}

static enum stele_err read_any(struct stele_record_walker *walker, struct stele_record *out)
{
    struct stele_reader *reader = &walker->reader;
    struct stele_record record;
    int32_t length = stele_read_varint(reader);
    if (reader->failed || length < 0 || (size_t)length > stele_reader_left(reader))
        return STELE_INVALID_RECORD;
    size_t start = stele_reader_pos(reader);
    record.attributes = stele_read_i8(reader);
    int64_t timestamp_delta = stele_read_varlong(reader);
    int32_t offset_delta = stele_read_varint(reader);
    record.key = read_field(reader, &record.key_bytes);
    record.value = read_field(reader, &record.value_bytes);
    record.header_count = stele_read_varint(reader);
    record.headers = reader->at;
    if (reader->failed || !skip_headers(reader, record.header_count))
        return STELE_INVALID_RECORD;
    if (stele_reader_pos(reader) - start != (size_t)length)
        return STELE_INVALID_RECORD;
    record.headers_bytes = (size_t)(reader->at - record.headers);
    record.offset = (int64_t)((uint64_t)walker->header.base_offset + (uint64_t)(int64_t)offset_delta);
    record.timestamp = effective_timestamp(&walker->header, timestamp_delta);
    record.sequence = sequence_of(&walker->header, offset_delta);
    *out = record;
    return STELE_OK;
}

enum stele_err stele_record_next(struct stele_record_walker *walker, struct stele_record *out_record)
{
    int32_t count = walker->header.record_count;
    if (count < 0)
        return STELE_INVALID_RECORD;
    if (walker->done == count)
        return count == 0 || stele_reader_left(&walker->reader) == 0 ? STELE_END : STELE_INVALID_RECORD;
    enum stele_err err = read_usual(walker, out_record) ? STELE_OK : read_any(walker, out_record);
    if (err == STELE_OK)
        walker->done++;
    return err;
}

bool stele_record_header_next(const struct stele_record *record, size_t *inout_pos,
                              struct stele_record_header *out_header)
{
    struct stele_reader reader = stele_reader_of(record->headers + *inout_pos, record->headers_bytes - *inout_pos);
    if (stele_reader_left(&reader) == 0)
        return false;
    out_header->key = read_field(&reader, &out_header->key_bytes);
    out_header->value = read_field(&reader, &out_header->value_bytes);
    if (reader.failed)
        return false;
    *inout_pos += stele_reader_pos(&reader);
    return true;
}

enum stele_err stele_control_read(const struct stele_record *record, struct stele_control *out_control)
{
    struct stele_reader key = stele_reader_of(record->key, (size_t)record->key_bytes);
    struct stele_reader value = stele_reader_of(record->value, (size_t)record->value_bytes);
    int16_t version = stele_read_i16(&key);
    int16_t type = stele_read_i16(&key);
    struct stele_control control = {.type = STELE_CONTROL_UNKNOWN, .coordinator_epoch = -1};

    if (key.failed || version < 0)
        return STELE_INVALID_RECORD;
    if (type >= STELE_CONTROL_ABORT && type <= STELE_CONTROL_KRAFT_VOTERS)
        control.type = (enum stele_control_type)type;
    if (control.type == STELE_CONTROL_ABORT || control.type == STELE_CONTROL_COMMIT) {
        int16_t value_version = stele_read_i16(&value);
        control.coordinator_epoch = stele_read_i32(&value);
        if (value.failed || value_version < 0)
            return STELE_INVALID_RECORD;
    }
    *out_control = control;
    return STELE_OK;
}
