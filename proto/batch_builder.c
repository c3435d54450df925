/* Builds a batch: records are encoded behind room for a header, which is filled in at the end. */
#include "proto/record_batch.h"

#include "base/check.h"
#include "base/crc32c.h"

#include <string.h>

struct stele_batch_builder {
    struct stele_mem *mem;
    struct stele_batch_options options;
    struct stele_buf *buf; /* NULL until the first record */
    int32_t count;
    int64_t first_timestamp, max_timestamp;
};

enum {
    FIRST_CAPACITY = 1024,
    VARINT_BYTES_MAX = 5,
    VARLONG_BYTES_MAX = 10,
    /* Attributes, timestamp, and the varints: length, offset, key's and value's length, header count. */
    RECORD_OVERHEAD_MAX = 1 + VARLONG_BYTES_MAX + 5 * VARINT_BYTES_MAX,
    HEADER_OVERHEAD_MAX = 2 * VARINT_BYTES_MAX,
};

/* A record's headers: either to be encoded or encoded already. */
struct headers_in {
    const struct stele_header_in *each; /* NULL: encoded */
    const uint8_t *encoded;
    size_t encoded_bytes; /* known for both */
    int32_t count;
};

struct stele_batch_builder *stele_batch_builder_new(struct stele_mem *mem, const struct stele_batch_options *options)
{
    struct stele_batch_builder *builder = stele_mem_alloc(mem, STELE_MEM_CODEC, sizeof(*builder));
    if (builder == NULL)
        return NULL;
    builder->mem = mem;
    builder->options = *options;
    return builder;
}

void stele_batch_builder_set_options(struct stele_batch_builder *builder, const struct stele_batch_options *options)
{
    builder->options = *options;
}

void stele_batch_builder_free(struct stele_batch_builder *builder)
{
    if (builder == NULL)
        return;
    stele_buf_unref(builder->buf);
    stele_mem_free(builder->mem, builder);
}

size_t stele_batch_builder_bytes(const struct stele_batch_builder *builder)
{
    return builder->buf == NULL ? (size_t)STELE_BATCH_HEADER_BYTES : builder->buf->count;
}

int32_t stele_batch_builder_count(const struct stele_batch_builder *builder)
{
    return builder->count;
}

size_t stele_record_bytes_max(const struct stele_record_in *record)
{
    size_t bytes = RECORD_OVERHEAD_MAX + (size_t)record->key_bytes + (size_t)record->value_bytes;
    for (int32_t i = 0; i < record->header_count; i++)
        bytes += HEADER_OVERHEAD_MAX + (size_t)record->headers[i].key_bytes + (size_t)record->headers[i].value_bytes;
    return bytes;
}

/* The buffer grows by doubling. */
enum stele_err stele_batch_builder_reserve(struct stele_batch_builder *builder, size_t bytes)
{
    size_t used = stele_batch_builder_bytes(builder);
    size_t capacity = builder->buf == NULL ? 0 : builder->buf->capacity;
    if (bytes > INT32_MAX - used)
        return STELE_TOO_LARGE;
    if (used + bytes <= capacity)
        return STELE_OK;
    size_t want = capacity < FIRST_CAPACITY ? FIRST_CAPACITY : capacity;
    while (want < used + bytes)
        want *= 2;
    struct stele_buf *buf = stele_buf_new(builder->mem, STELE_MEM_CODEC, want);
    if (buf == NULL)
        return STELE_NO_MEMORY;
    if (builder->buf != NULL)
        memcpy(buf->bytes, builder->buf->bytes, used);
    buf->count = used;
    stele_buf_unref(builder->buf);
    builder->buf = buf;
    return STELE_OK;
}

static size_t field_bytes(const void *bytes, int32_t count)
{
    return bytes == NULL ? 1 : stele_varint_bytes(count) + (size_t)count;
}

static void write_field(struct stele_writer *writer, const void *bytes, int32_t count)
{
    stele_write_varint(writer, bytes == NULL ? -1 : count);
    if (bytes != NULL)
        stele_write_bytes(writer, bytes, (size_t)count);
}

static size_t headers_bytes(const struct stele_header_in *headers, int32_t count)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < count; i++)
        bytes += stele_varint_bytes(headers[i].key_bytes) + (size_t)headers[i].key_bytes +
                 field_bytes(headers[i].value, headers[i].value_bytes);
    return bytes;
}

static void write_headers(struct stele_writer *writer, const struct headers_in *headers)
{
    stele_write_varint(writer, headers->count);
    if (headers->each == NULL) {
        stele_write_bytes(writer, headers->encoded, headers->encoded_bytes);
        return;
    }
    for (int32_t i = 0; i < headers->count; i++) {
        stele_write_varint(writer, headers->each[i].key_bytes);
        stele_write_bytes(writer, headers->each[i].key, (size_t)headers->each[i].key_bytes);
        write_field(writer, headers->each[i].value, headers->each[i].value_bytes);
    }
}

/* With DELETE_HORIZON the deltas count from the horizon, otherwise from the first record. */
static int64_t base_timestamp(const struct stele_batch_builder *builder)
{
    bool has_horizon = (builder->options.attributes & STELE_BATCH_DELETE_HORIZON) != 0;
    return has_horizon ? builder->options.delete_horizon : builder->first_timestamp;
}

/* Key, value and timestamp are taken from `record`, headers from `headers`. */
static enum stele_err append(struct stele_batch_builder *builder, const struct stele_record_in *record,
                             const struct headers_in *headers)
{
    if (builder->count == INT32_MAX)
        return STELE_TOO_LARGE;
    size_t bytes_max = RECORD_OVERHEAD_MAX + (size_t)record->key_bytes + (size_t)record->value_bytes;
    enum stele_err err = stele_batch_builder_reserve(builder, bytes_max + headers->encoded_bytes);
    if (err != STELE_OK)
        return err;
    if (builder->count == 0) {
        builder->first_timestamp = record->timestamp;
        builder->max_timestamp = record->timestamp;
    }
    builder->max_timestamp = stele_max_i64(builder->max_timestamp, record->timestamp);
    int64_t delta = (int64_t)((uint64_t)record->timestamp - (uint64_t)base_timestamp(builder));
    size_t body_bytes = 1 + stele_varlong_bytes(delta) + stele_varint_bytes(builder->count) +
                        field_bytes(record->key, record->key_bytes) + field_bytes(record->value, record->value_bytes) +
                        stele_varint_bytes(headers->count) + headers->encoded_bytes;
    struct stele_buf *buf = builder->buf;
    struct stele_writer writer = stele_writer_of(buf->bytes + buf->count, buf->capacity - buf->count);
    stele_write_varint(&writer, (int32_t)body_bytes);
    stele_write_i8(&writer, 0);
    stele_write_varlong(&writer, delta);
    stele_write_varint(&writer, builder->count);
    write_field(&writer, record->key, record->key_bytes);
    write_field(&writer, record->value, record->value_bytes);
    write_headers(&writer, headers);
    STELE_ASSERT(!writer.failed);
    STELE_ASSERT(stele_writer_pos(&writer) == stele_varint_bytes((int32_t)body_bytes) + body_bytes);
    buf->count += stele_writer_pos(&writer);
    builder->count++;
    return STELE_OK;
}

enum stele_err stele_batch_builder_add(struct stele_batch_builder *builder, const struct stele_record_in *record)
{
    STELE_ASSERT(record->key_bytes >= 0);
    STELE_ASSERT(record->value_bytes >= 0);
    STELE_ASSERT(record->header_count >= 0);
    struct headers_in headers = {.each = record->headers,
                                 .count = record->header_count,
                                 .encoded_bytes = headers_bytes(record->headers, record->header_count)};
    return append(builder, record, &headers);
}

enum stele_err stele_batch_builder_add_walked(struct stele_batch_builder *builder, const struct stele_record *record)
{
    struct stele_record_in in = {.timestamp = record->timestamp,
                                 .key = record->key,
                                 .key_bytes = record->key_bytes,
                                 .value = record->value,
                                 .value_bytes = record->value_bytes};
    struct headers_in headers = {
        .encoded = record->headers, .encoded_bytes = record->headers_bytes, .count = record->header_count};
    return append(builder, &in, &headers);
}

static void fill_header(const struct stele_batch_builder *builder, struct stele_buf *buf)
{
    const struct stele_batch_options *options = &builder->options;
    bool is_append_time = (options->attributes & STELE_BATCH_LOG_APPEND_TIME) != 0;
    struct stele_batch_header header = {
        .base_offset = options->base_offset,
        .length = (int32_t)(buf->count - STELE_BATCH_PREFIX_BYTES),
        .partition_leader_epoch = options->partition_leader_epoch,
        .magic = STELE_BATCH_MAGIC,
        .attributes = (int16_t)(options->attributes | (int)options->codec),
        .last_offset_delta = builder->count - 1,
        .base_timestamp = base_timestamp(builder),
        .max_timestamp = is_append_time ? options->log_append_time : builder->max_timestamp,
        .producer_id = options->producer_id,
        .producer_epoch = options->producer_epoch,
        .base_sequence = options->base_sequence,
        .record_count = builder->count,
    };
    stele_batch_header_write(&header, buf->bytes);
    stele_put_u32(buf->bytes + STELE_BATCH_POS_CRC, stele_crc32c(0, buf->bytes + STELE_BATCH_POS_ATTRIBUTES,
                                                                 buf->count - (size_t)STELE_BATCH_POS_ATTRIBUTES));
}

enum stele_err stele_batch_builder_finish(struct stele_batch_builder *builder, struct stele_buf **out_batch)
{
    struct stele_buf *plain = builder->buf, *packed = NULL;
    const struct stele_batch_options *options = &builder->options;
    if (builder->count == 0)
        return STELE_INVALID_ARGUMENT;
    if (options->codec != STELE_CODEC_NONE) {
        enum stele_err err =
            stele_compress(builder->mem, options->codec, options->codec_level, plain->bytes + STELE_BATCH_HEADER_BYTES,
                           plain->count - STELE_BATCH_HEADER_BYTES, STELE_BATCH_HEADER_BYTES, &packed);
        if (err != STELE_OK)
            return err;
        stele_buf_unref(plain);
        plain = packed;
    }
    fill_header(builder, plain);
    builder->buf = NULL;
    builder->count = 0;
    *out_batch = plain;
    return STELE_OK;
}
