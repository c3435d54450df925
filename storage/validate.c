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
    struct stele_record_walker walker; /* over the records, once the header is sound */
    int64_t timestamp_min, timestamp_max;
    int64_t max_timestamp, bad_timestamp;
    bool is_reordered; /* the inner offsets are not 0..n-1 */
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

static enum stele_codec source_codec(const struct checking *c)
{
    return (enum stele_codec)(c->out->header.attributes & STELE_BATCH_CODEC_MASK);
}

/* Says why stele_batch_check refused the batch. */
static enum stele_err refuse_batch(struct checking *c, enum stele_err err)
{
    struct stele_batch_header header;
    if (err == STELE_UNKNOWN_SERVER_ERROR)
        return stele_error_set(c->error, err, "a batch names an unknown compression codec");
    if (stele_batch_header_read(c->batch, c->count, &header) != STELE_OK)
        return stele_error_set(c->error, err, "a batch of %zu bytes is smaller than its header of %d", c->count,
                               (int)STELE_BATCH_HEADER_BYTES);
    if (header.length < 0 || (size_t)header.length + STELE_BATCH_PREFIX_BYTES != c->count)
        return stele_error_set(c->error, err, "a batch of %zu bytes has a length field of %d", c->count, header.length);
    return stele_error_set(c->error, err, "a batch of %zu bytes fails its checksum %08x", c->count, header.crc);
}

/* Steps 2 to 9 of the facts: what the header tells. */
static enum stele_err check_header(struct checking *c)
{
    struct stele_batch_header *header = &c->out->header;
    if (c->count > STELE_BATCH_POS_MAGIC && (int8_t)c->batch[STELE_BATCH_POS_MAGIC] != STELE_BATCH_MAGIC)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "a batch of format %d; only format 2 is taken",
                               (int)(int8_t)c->batch[STELE_BATCH_POS_MAGIC]);
    if (c->count >= STELE_BATCH_POS_LENGTH && stele_get_i64(c->batch) != 0)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "the base offset of a batch sent must be 0, it is %lld",
                               (long long)stele_get_i64(c->batch));
    if (c->count > (size_t)c->config->max_message_bytes)
        return refuse_size(c, c->count, "a batch");
    enum stele_err err = stele_batch_check(c->batch, c->count, header);
    if (err != STELE_OK)
        return refuse_batch(c, err);
    if (header->last_offset_delta < 0 || header->record_count <= 0 || header->last_offset_delta == INT32_MAX ||
        header->record_count != header->last_offset_delta + 1)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "a batch of %d records whose last offset delta is %d",
                               header->record_count, header->last_offset_delta);
    if ((header->attributes & STELE_BATCH_CONTROL) != 0)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "clients may not send control batches");
    if (header->producer_id > STELE_NO_PRODUCER_ID && header->base_sequence < 0)
        return stele_error_set(c->error, STELE_INVALID_RECORD,
                               "a batch of producer id %lld without a sequence: its base sequence is %d",
                               (long long)header->producer_id, header->base_sequence);
    return STELE_OK;
}

/* What a record may be dated. A client may send any 64 bits, so the bounds saturate. */
static void set_time_bounds(struct checking *c)
{
    const struct stele_log_config *config = c->config;
    if (__builtin_sub_overflow(c->now_ms, config->timestamp_before_max_ms, &c->timestamp_min))
        c->timestamp_min = INT64_MIN;
    if (__builtin_add_overflow(c->now_ms, config->timestamp_after_max_ms, &c->timestamp_max))
        c->timestamp_max = INT64_MAX;
}

static bool is_time_allowed(const struct checking *c, int64_t timestamp)
{
    if (!c->config->log_append_time && timestamp != STELE_NO_TIMESTAMP)
        return timestamp >= c->timestamp_min && timestamp <= c->timestamp_max;
    return (c->out->header.attributes & STELE_BATCH_LOG_APPEND_TIME) == 0;
}

static enum stele_err check_record(const struct checking *c, const struct stele_record *record)
{
    if (c->config->cleanup_compact && record->key == NULL)
        return STELE_INVALID_RECORD;
    return is_time_allowed(c, record->timestamp) ? STELE_OK : STELE_INVALID_TIMESTAMP;
}

static enum stele_err refuse_record(struct checking *c, enum stele_err err)
{
    const struct stele_log_config *config = c->config;
    int32_t index = c->out->bad_record;
    if (err == STELE_INVALID_RECORD)
        return stele_error_set(c->error, err,
                               "record %d has no key; a topic with cleanup.policy=compact takes none without", index);
    if (config->log_append_time || c->bad_timestamp == STELE_NO_TIMESTAMP)
        return stele_error_set(c->error, err, "clients may not send batches of log append time");
    return stele_error_set(c->error, err,
                           "record %d has timestamp %lld, too far from the node's %lld "
                           "(message.timestamp.before.max.ms=%lld, message.timestamp.after.max.ms=%lld)",
                           index, (long long)c->bad_timestamp, (long long)c->now_ms,
                           (long long)config->timestamp_before_max_ms, (long long)config->timestamp_after_max_ms);
}

static enum stele_err refuse_structure(struct checking *c)
{
    int32_t index = c->walker.done;
    bool is_whole = index == c->out->header.record_count;
    c->out->bad_record = is_whole ? -1 : index;
    if (is_whole)
        return stele_error_set(c->error, STELE_INVALID_RECORD, "a batch holds more than the %d records that it names",
                               index);
    return stele_error_set(c->error, STELE_INVALID_RECORD,
                           "record %d of %d is not well formed, or the batch ends before it", index,
                           c->out->header.record_count);
}

/* All records are looked at: a wrong timestamp outweighs a missing key, a wrong structure both. */
static enum stele_err check_records(struct checking *c)
{
    struct stele_record record;
    enum stele_err worst = STELE_OK, err;
    c->max_timestamp = STELE_NO_TIMESTAMP;
    for (int32_t i = 0; (err = stele_record_next(&c->walker, &record)) == STELE_OK; i++) {
        if (record.offset != i)
            c->is_reordered = true;
        c->max_timestamp = stele_max_i64(c->max_timestamp, record.timestamp);
        enum stele_err bad = check_record(c, &record);
        if (bad == STELE_OK || bad == worst || worst == STELE_INVALID_TIMESTAMP)
            continue;
        worst = bad;
        c->out->bad_record = i;
        c->bad_timestamp = record.timestamp;
    }
    if (err != STELE_END)
        return refuse_structure(c);
    return worst == STELE_OK ? STELE_OK : refuse_record(c, worst);
}

static enum stele_err open_records(struct checking *c)
{
    int64_t unpacked_bytes_max = c->config->max_unpacked_bytes;
    enum stele_err err = stele_record_walker_init(&c->walker, c->mem, c->batch, c->count, (size_t)unpacked_bytes_max);
    if (err == STELE_INVALID_RECORD)
        return stele_error_set(c->error, err,
                               "a batch of %zu bytes unpacks to more than max.unpacked.bytes "
                               "(message.max.unpacked.bytes), which is %lld",
                               c->count, (long long)unpacked_bytes_max);
    if (err != STELE_OK)
        return stele_error_set(c->error, err, "a batch of %zu bytes cannot be unpacked with %s: %s", c->count,
                               stele_codec_name(source_codec(c)), stele_err_text(err));
    /* A batch flagged as of append time is stored as one of create time where the topic is. Its records are then dated
     * by their deltas, so those are what is checked and what the largest timestamp is taken from; Kafka's leader looks
     * at the header's instead, and lets pass what contradicts it. */
    if (!c->config->log_append_time)
        c->walker.header.attributes &= (int16_t)~STELE_BATCH_LOG_APPEND_TIME;
    return STELE_OK;
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

static enum stele_err copy_records(struct checking *c, struct stele_batch_builder *builder)
{
    struct stele_record record;
    stele_record_walker_rewind(&c->walker);
    enum stele_err err = stele_batch_builder_reserve(builder, stele_reader_left(&c->walker.reader));
    while (err == STELE_OK && (err = stele_record_next(&c->walker, &record)) == STELE_OK) {
        if (record.timestamp < STELE_NO_TIMESTAMP) {
            c->out->bad_record = c->walker.done - 1;
            return stele_error_set(c->error, STELE_UNKNOWN_SERVER_ERROR,
                                   "record %d has timestamp %lld, which no batch can be built of", c->out->bad_record,
                                   (long long)record.timestamp);
        }
        err = stele_batch_builder_add_walked(builder, &record);
    }
    if (err == STELE_END)
        return STELE_OK;
    return stele_error_set(c->error, err, "a batch could not be built anew: %s", stele_err_text(err));
}

static enum stele_err finish_rebuilt(struct checking *c, struct stele_batch_builder *builder)
{
    struct stele_buf *rebuilt = NULL;
    enum stele_err err = stele_batch_builder_finish(builder, &rebuilt);
    if (err != STELE_OK)
        return stele_error_set(c->error, err, "a batch could not be compressed anew: %s", stele_err_text(err));
    if (rebuilt->count > (size_t)c->config->max_message_bytes) {
        err = refuse_size(c, rebuilt->count, "a batch compressed anew");
        stele_buf_unref(rebuilt);
        return err;
    }
    err = stele_batch_header_read(rebuilt->bytes, rebuilt->count, &c->out->header);
    STELE_ASSERT(err == STELE_OK);
    c->out->rebuilt = rebuilt;
    c->out->bytes = rebuilt->count;
    return STELE_OK;
}

/* Codec or inner offsets differ from what is stored: the batch is made anew. */
static enum stele_err rebuild(struct checking *c, enum stele_codec target)
{
    const struct stele_batch_header *header = &c->out->header;
    struct stele_batch_options options = {
        .codec = target,
        .codec_level = level_of(c->config, target),
        .partition_leader_epoch = header->partition_leader_epoch,
        .producer_id = header->producer_id,
        .producer_epoch = header->producer_epoch,
        .base_sequence = header->base_sequence,
        .attributes = (int16_t)(header->attributes & STELE_BATCH_TRANSACTIONAL),
        .log_append_time = c->now_ms,
    };
    if (c->config->log_append_time)
        options.attributes |= STELE_BATCH_LOG_APPEND_TIME;
    struct stele_batch_builder *builder = stele_batch_builder_new(c->mem, &options);
    if (builder == NULL)
        return stele_error_set(c->error, STELE_NO_MEMORY, "no memory to build a batch of %zu bytes anew", c->count);
    enum stele_err err = copy_records(c, builder);
    if (err == STELE_OK)
        err = finish_rebuilt(c, builder);
    stele_batch_builder_free(builder);
    return err;
}

/* Only when timestamp type or largest timestamp differ are bytes under the checksum rewritten. */
static void restamp(struct checking *c)
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
}

/* The records, and then the batch as it is to be stored. */
static enum stele_err check_and_rewrite(struct checking *c)
{
    enum stele_codec source = source_codec(c);
    enum stele_codec target = c->config->compression_producer ? source : c->config->compression;
    enum stele_err err = check_records(c);
    if (err != STELE_OK)
        return err;
    /* Kafka's leader looks at the inner offsets of compressed batches only. */
    if (source != target || (source != STELE_CODEC_NONE && c->is_reordered))
        return rebuild(c, target);
    restamp(c);
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
    set_time_bounds(&c);
    enum stele_err err = check_header(&c);
    if (err == STELE_OK)
        err = open_records(&c);
    if (err == STELE_OK) {
        err = check_and_rewrite(&c);
        stele_record_walker_deinit(&c.walker);
    }
    if (err == STELE_OK)
        *out = validated;
    else
        out->bad_record = validated.bad_record;
    return err;
}
