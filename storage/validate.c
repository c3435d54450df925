#include "storage/validate.h"

#include "base/check.h"

enum { LONG_BYTES = 16384 };

struct checking {
    struct stele_mem *mem;
    const struct stele_log_config *config;
    uint8_t *batch;
    size_t count;
    int64_t now_ms;
    struct stele_validated *out;
    struct stele_error *error;
    enum stele_codec target;
    bool needs_rebuild; /* codec differs, or inner offsets are not 0..n-1 in a compressed batch */
    int64_t max_timestamp;
    struct stele_batch_builder *builder; /* while rebuilding */
};

bool stele_validate_is_long(const uint8_t *batch, size_t count)
{
    if (count <= LONG_BYTES)
        return false;
    return (stele_get_i16(batch + STELE_BATCH_POS_ATTRIBUTES) & STELE_BATCH_CODEC_MASK) != STELE_CODEC_NONE;
}

static enum stele_err refuse_size(struct checking *c, size_t bytes, const char *what)
{
    return stele_error_set(c->error, STELE_MESSAGE_TOO_LARGE,
                           "%s of %zu bytes is larger than max.message.bytes (message.max.bytes), which is %lld", what,
                           bytes, (long long)c->config->max_message_bytes);
}

/* Steps 2 to 9 of the facts: what the header tells. */
static enum stele_err check_header(struct checking *c)
{
    struct stele_batch_header *header = &c->out->header;
    if (c->count > STELE_BATCH_POS_MAGIC && (int8_t)c->batch[STELE_BATCH_POS_MAGIC] != STELE_BATCH_MAGIC)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "a batch of format %d; only format 2 is taken",
                               (int)(int8_t)c->batch[STELE_BATCH_POS_MAGIC]);
    if (c->count >= 8 && stele_get_i64(c->batch) != 0)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "the base offset of a batch sent must be 0, it is %lld",
                               (long long)stele_get_i64(c->batch));
    if (c->count > (size_t)c->config->max_message_bytes)
        return refuse_size(c, c->count, "a batch");
    enum stele_err err = stele_batch_check(c->batch, c->count, header);
    if (err == STELE_CORRUPT_MESSAGE)
        return stele_error_set(c->error, err, "a batch of %zu bytes fails its checksum or its length", c->count);
    if (err != STELE_OK)
        return stele_error_set(c->error, err, "a batch names an unknown compression codec or format");
    if (header->last_offset_delta < 0 || header->record_count <= 0 || header->last_offset_delta == INT32_MAX ||
        header->record_count != header->last_offset_delta + 1)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "a batch of %d records whose last offset delta is %d",
                               header->record_count, header->last_offset_delta);
    if ((header->attributes & STELE_BATCH_CONTROL) != 0)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "clients may not send control batches");
    if (header->producer_id != STELE_NO_PRODUCER_ID && header->base_sequence < 0)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "a batch with a producer id but without a sequence");
    return STELE_OK;
}

static enum stele_err check_time(struct checking *c, int64_t timestamp)
{
    const struct stele_log_config *config = c->config;
    bool is_flagged = (c->out->header.attributes & STELE_BATCH_LOG_APPEND_TIME) != 0;
    if (!config->log_append_time && timestamp != STELE_NO_TIMESTAMP) {
        /* Differences are taken in 128 bits: a client may send any timestamp. */
        __int128 age = (__int128)c->now_ms - timestamp;
        if (age <= config->timestamp_before_max_ms && -age <= config->timestamp_after_max_ms)
            return STELE_OK;
        return stele_error_set(
            c->error, STELE_INVALID_TIMESTAMP,
            "a record's timestamp %lld is too far from the node's %lld (message.timestamp.before.max.ms=%lld, "
            "message.timestamp.after.max.ms=%lld)",
            (long long)timestamp, (long long)c->now_ms, (long long)config->timestamp_before_max_ms,
            (long long)config->timestamp_after_max_ms);
    }
    if (is_flagged)
        return stele_error_set(c->error, STELE_INVALID_TIMESTAMP, "clients may not send batches of log append time");
    return STELE_OK;
}

/* One record; the worst error of the batch is kept: a wrong timestamp outweighs a wrong record. */
static enum stele_err check_record(struct checking *c, const struct stele_record *record, int32_t index)
{
    bool is_compressed = (c->out->header.attributes & STELE_BATCH_CODEC_MASK) != 0;
    if (is_compressed && record->offset != index)
        c->needs_rebuild = true;
    c->max_timestamp = index == 0 ? record->timestamp : stele_max_i64(c->max_timestamp, record->timestamp);
    if (c->config->cleanup_compact && record->key == NULL)
        return stele_error_set(c->error, STELE_INVALID_RECORD,
                               "record %d has no key; a topic with cleanup.policy=compact takes none without", index);
    return check_time(c, record->timestamp);
}

static enum stele_err check_records(struct checking *c)
{
    struct stele_record_walker walker;
    struct stele_record record;
    enum stele_err worst = STELE_OK;
    enum stele_err err =
        stele_record_walker_init(&walker, c->mem, c->batch, c->count, (size_t)c->config->max_unpacked_bytes);
    if (err == STELE_INVALID_RECORD)
        return stele_error_set(c->error, err, "a batch unpacks to more than message.max.unpacked.bytes, which is %lld",
                               (long long)c->config->max_unpacked_bytes);
    if (err != STELE_OK)
        return stele_error_set(c->error, err, "a batch cannot be unpacked: %s", stele_err_text(err));
    for (int32_t i = 0; (err = stele_record_next(&walker, &record)) == STELE_OK; i++) {
        enum stele_err bad = check_record(c, &record, i);
        if (bad == STELE_OK)
            continue;
        if (worst == STELE_OK || (bad == STELE_INVALID_TIMESTAMP && worst != bad)) {
            worst = bad;
            c->out->bad_record = i;
        }
    }
    stele_record_walker_deinit(&walker);
    if (err != STELE_END)
        return stele_error_set(c->error, err,
                               "a record is not well formed, or its batch holds more or fewer than it says");
    return worst;
}

static enum stele_codec target_codec(const struct stele_log_config *config, const struct stele_batch_header *header)
{
    enum stele_codec source = (enum stele_codec)(header->attributes & STELE_BATCH_CODEC_MASK);
    return config->compression_producer ? source : config->compression;
}

static int level_of(const struct stele_log_config *config, enum stele_codec codec)
{
    switch (codec) {
    case STELE_CODEC_GZIP:
        return config->gzip_level;
    case STELE_CODEC_LZ4:
        return config->lz4_level;
    case STELE_CODEC_ZSTD:
        return config->zstd_level;
    case STELE_CODEC_NONE:
    case STELE_CODEC_SNAPPY:
    case STELE_CODEC_COUNT:
        break;
    }
    return STELE_CODEC_LEVEL_DEFAULT;
}

/* A record's headers, decoded into memory of their own for the builder. */
static enum stele_err add_with_headers(struct checking *c, const struct stele_record *record,
                                       struct stele_record_in *in)
{
    struct stele_header_in *headers = NULL;
    struct stele_record_header header;
    size_t pos = 0;
    if (record->header_count > 0) {
        headers = stele_mem_array(c->mem, STELE_MEM_CODEC, (size_t)record->header_count, sizeof(*headers));
        if (headers == NULL)
            return STELE_NO_MEMORY;
        for (int32_t i = 0; i < record->header_count && stele_record_header_next(record, &pos, &header); i++)
            headers[i] = (struct stele_header_in){.key = (const char *)header.key,
                                                  .key_bytes = header.key_bytes,
                                                  .value = header.value,
                                                  .value_bytes = header.value_bytes};
        in->headers = headers;
        in->header_count = record->header_count;
    }
    enum stele_err err = stele_batch_builder_add(c->builder, in);
    stele_mem_free(c->mem, headers);
    return err;
}

static enum stele_err copy_records(struct checking *c)
{
    struct stele_record_walker walker;
    struct stele_record record;
    enum stele_err err =
        stele_record_walker_init(&walker, c->mem, c->batch, c->count, (size_t)c->config->max_unpacked_bytes);
    if (err != STELE_OK)
        return err;
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        struct stele_record_in in = {.timestamp = record.timestamp,
                                     .key = record.key,
                                     .key_bytes = record.key_bytes,
                                     .value = record.value,
                                     .value_bytes = record.value_bytes};
        err = record.timestamp < STELE_NO_TIMESTAMP ? STELE_UNKNOWN_SERVER_ERROR : add_with_headers(c, &record, &in);
        if (err != STELE_OK)
            break;
    }
    stele_record_walker_deinit(&walker);
    return err == STELE_END ? STELE_OK : err;
}

/* Codec or inner offsets differ from what is stored: the batch is made anew. */
static enum stele_err rebuild(struct checking *c)
{
    const struct stele_batch_header *header = &c->out->header;
    struct stele_batch_options options = {
        .codec = c->target,
        .codec_level = level_of(c->config, c->target),
        .partition_leader_epoch = header->partition_leader_epoch,
        .producer_id = header->producer_id,
        .producer_epoch = header->producer_epoch,
        .base_sequence = header->base_sequence,
        .attributes = (int16_t)(header->attributes & STELE_BATCH_TRANSACTIONAL),
        .log_append_time = c->now_ms,
    };
    if (c->config->log_append_time)
        options.attributes |= STELE_BATCH_LOG_APPEND_TIME;
    c->builder = stele_batch_builder_new(c->mem, &options);
    struct stele_buf *rebuilt = NULL;
    enum stele_err err = c->builder == NULL ? STELE_NO_MEMORY : copy_records(c);
    if (err == STELE_OK)
        err = stele_batch_builder_finish(c->builder, &rebuilt);
    stele_batch_builder_free(c->builder);
    if (err == STELE_OK && rebuilt->count > (size_t)c->config->max_message_bytes) {
        err = refuse_size(c, rebuilt->count, "a batch compressed anew");
        stele_buf_unref(rebuilt);
        return err;
    }
    if (err != STELE_OK)
        return stele_error_set(c->error, err, "a batch could not be compressed anew: %s", stele_err_text(err));
    c->out->rebuilt = rebuilt;
    c->out->bytes = rebuilt->count;
    return stele_batch_header_read(rebuilt->bytes, rebuilt->count, &c->out->header);
}

/* Only when timestamp type or largest timestamp differ are bytes under the checksum rewritten. */
static enum stele_err restamp(struct checking *c)
{
    struct stele_batch_header *header = &c->out->header;
    int64_t max_timestamp = c->config->log_append_time ? c->now_ms : c->max_timestamp;
    int16_t type = c->config->log_append_time ? STELE_BATCH_LOG_APPEND_TIME : 0;
    if ((header->attributes & STELE_BATCH_LOG_APPEND_TIME) != type || header->max_timestamp != max_timestamp) {
        enum {
            KNOWN =
                STELE_BATCH_CODEC_MASK | STELE_BATCH_TRANSACTIONAL | STELE_BATCH_CONTROL | STELE_BATCH_DELETE_HORIZON
        };
        header->attributes = (int16_t)((header->attributes & KNOWN) | type);
        header->max_timestamp = max_timestamp;
        stele_batch_restamp_time(c->batch, c->count, header->attributes, max_timestamp);
    }
    c->out->bytes = c->count;
    return STELE_OK;
}

enum stele_err stele_validate(struct stele_mem *mem, const struct stele_log_config *config, uint8_t *batch,
                              size_t count, int64_t now_ms, struct stele_validated *out, struct stele_error *error)
{
    struct stele_validated validated = {.bad_record = -1};
    struct checking c = {.mem = mem,
                         .config = config,
                         .batch = batch,
                         .count = count,
                         .now_ms = now_ms,
                         .out = &validated,
                         .error = error};
    enum stele_err err = check_header(&c);
    if (err == STELE_OK) {
        c.target = target_codec(config, &validated.header);
        err = check_records(&c);
    }
    if (err != STELE_OK) {
        out->bad_record = validated.bad_record;
        return err;
    }
    if ((int)c.target != (validated.header.attributes & STELE_BATCH_CODEC_MASK))
        c.needs_rebuild = true;
    err = c.needs_rebuild ? rebuild(&c) : restamp(&c);
    if (err == STELE_OK)
        *out = validated;
    return err;
}
