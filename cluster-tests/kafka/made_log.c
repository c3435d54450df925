#include "cluster-tests/kafka/made_log.h"
#include "storage/validate.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_PRODUCER_ID = 4000, COORDINATOR_EPOCH = 3, VALUE_BYTES_MAX = 100000, HEADERS_MAX = 3 };

static void must(enum stele_err err, const struct made_log *made, const char *what)
{
    if (err == STELE_OK)
        return;
    (void)fprintf(stderr, "write_logs: %s: %s: %s\n", made->topic, what, stele_err_name(err));
    abort();
}

static void must_equal(const struct made_log *made, const char *what, int64_t got, int64_t want)
{
    if (got == want)
        return;
    (void)fprintf(stderr, "write_logs: %s: %s is %lld, not %lld\n", made->topic, what, (long long)got, (long long)want);
    abort();
}

static struct stele_mem *mem_of(const struct made_log *made)
{
    return made->world->test.env.mem;
}

static bool chance(struct made_log *made, uint64_t n, uint64_t of)
{
    return stele_prng_chance(&made->world->prng, n, of);
}

/* --- the model --- */

static void put_hex(FILE *out, const void *bytes, int32_t count)
{
    const uint8_t *at = bytes;
    (void)fputc(' ', out);
    if (bytes == NULL)
        (void)fputc('-', out);
    else if (count == 0)
        (void)fputc('.', out);
    for (int32_t i = 0; bytes != NULL && i < count; i++)
        (void)fprintf(out, "%02x", at[i]);
}

/* As the consumer prints it: leader epoch, kind of time, time, key, value, headers. */
static char *record_text(const struct made_log *made, int64_t timestamp, const struct stele_record_in *record)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        abort();
    (void)fprintf(out, "%d %s %lld", made->leader_epoch, made->config.log_append_time ? "LogAppendTime" : "CreateTime",
                  (long long)timestamp);
    put_hex(out, record->key, record->key_bytes);
    put_hex(out, record->value, record->value_bytes);
    for (int32_t i = 0; i < record->header_count; i++) {
        put_hex(out, record->headers[i].key, record->headers[i].key_bytes);
        put_hex(out, record->headers[i].value, record->headers[i].value_bytes);
    }
    (void)fclose(out);
    return text;
}

static void push(struct made_log *made, const struct made_record *record)
{
    if (made->count == made->capacity) {
        made->capacity = made->capacity == 0 ? 256 : made->capacity * 2;
        made->records = realloc(made->records, (size_t)made->capacity * sizeof(*made->records));
        if (made->records == NULL)
            abort();
    }
    made->records[made->count++] = *record;
}

static struct made_producer *producer_of(struct made_log *made, int index)
{
    struct made_producer *producer = &made->producers[index];
    if (producer->id == 0)
        *producer = (struct made_producer){
            .id = FIRST_PRODUCER_ID + index, .last_sequence = -1, .coordinator_epoch = -1, .txn_first_offset = -1};
    return producer;
}

/* --- batches --- */

/* Memory of one record's parts. */
struct parts {
    char key[16], value[VALUE_BYTES_MAX];
    struct stele_header_in headers[HEADERS_MAX];
};

static void draw_record(struct made_log *made, const struct made_batch *batch, struct parts *parts,
                        struct stele_record_in *out)
{
    static const char letters[] = "etaoin shrdlu";
    struct stele_prng *prng = &made->world->prng;
    int32_t bytes = (int32_t)stele_prng_range(prng, 1, batch->value_bytes_max);
    bool is_text = !chance(made, 1, 8);
    for (int32_t i = 0; i < bytes; i++)
        parts->value[i] = is_text ? letters[stele_prng_below(prng, sizeof(letters) - 1)] : (char)stele_prng_u64(prng);
    /* Rising on the whole, each a little out of order. */
    int64_t timestamp = made->world->first_ms + made->end * 1000 - stele_prng_range(prng, 0, 5) * 700;
    *out = (struct stele_record_in){
        .timestamp = timestamp, .key = parts->key, .value = parts->value, .value_bytes = bytes};
    out->key_bytes = snprintf(parts->key, sizeof(parts->key), "key-%d", (int)stele_prng_below(prng, 17));
    if (chance(made, 1, 5))
        out->key = NULL;
    if (chance(made, 1, 30))
        out->key_bytes = 0;
    if (chance(made, 1, 30))
        out->value = NULL;
    if (chance(made, 1, 30))
        out->value_bytes = 0;
    out->key_bytes = out->key == NULL ? 0 : out->key_bytes;
    out->value_bytes = out->value == NULL ? 0 : out->value_bytes;
    if (chance(made, 1, 4)) {
        parts->headers[0] = (struct stele_header_in){.key = "trace", .key_bytes = 5, .value = "t-1", .value_bytes = 3};
        parts->headers[1] = (struct stele_header_in){.key = "empty", .key_bytes = 5, .value = ""};
        parts->headers[2] = (struct stele_header_in){.key = "null", .key_bytes = 4};
        out->headers = parts->headers;
        out->header_count = HEADERS_MAX;
    }
}

static struct stele_batch_builder *builder_new(const struct made_log *made, const struct made_batch *batch,
                                               const struct made_producer *producer, int16_t attributes)
{
    struct stele_batch_options options = {.codec = batch->codec,
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .base_offset = made->end,
                                          .partition_leader_epoch = made->leader_epoch,
                                          .producer_id = producer == NULL ? -1 : producer->id,
                                          .producer_epoch = producer == NULL ? (int16_t)-1 : producer->epoch,
                                          .base_sequence = producer == NULL ? -1 : producer->next_sequence,
                                          .attributes = attributes};
    if ((attributes & STELE_BATCH_CONTROL) != 0)
        options.base_sequence = -1;
    struct stele_batch_builder *builder = stele_batch_builder_new(mem_of(made), &options);
    if (builder == NULL)
        abort();
    return builder;
}

/* Builds a batch of the next records and takes them into the model. */
static struct stele_buf *build(struct made_log *made, const struct made_batch *batch)
{
    struct made_producer *producer = batch->producer < 0 ? NULL : producer_of(made, batch->producer);
    struct stele_batch_builder *builder =
        builder_new(made, batch, producer, batch->is_txn ? STELE_BATCH_TRANSACTIONAL : 0);
    struct parts *parts = malloc(sizeof(*parts));
    struct stele_buf *buf = NULL;
    int64_t max_timestamp = -1, now_ms = made->world->test.wall_ms;
    if (parts == NULL)
        abort();
    if (batch->is_txn && producer->txn_first_offset < 0)
        producer->txn_first_offset = made->end;
    for (int i = 0; i < batch->records; i++) {
        struct stele_record_in in;
        draw_record(made, batch, parts, &in);
        must(stele_batch_builder_add(builder, &in), made, "add");
        int64_t timestamp = made->config.log_append_time ? now_ms : in.timestamp;
        struct made_record record = {.offset = made->end++,
                                     .timestamp = timestamp,
                                     .txn_producer = batch->is_txn ? producer->id : -1,
                                     .text = record_text(made, timestamp, &in)};
        push(made, &record);
        max_timestamp = stele_max_i64(max_timestamp, timestamp);
    }
    if (producer != NULL) {
        producer->next_sequence += batch->records;
        producer->last_sequence = producer->next_sequence - 1;
        producer->last_timestamp = max_timestamp;
    }
    must(stele_batch_builder_finish(builder, &buf), made, "finish");
    stele_batch_builder_free(builder);
    free(parts);
    return buf;
}

static void append(struct made_log *made, uint8_t *bytes, size_t count, enum stele_origin origin, int64_t first_offset)
{
    struct stele_append in = {.bytes = bytes, .count = count, .origin = origin, .leader_epoch = made->leader_epoch};
    struct stele_appended out;
    must(stele_log_append(made->log, &in, &out), made, "append");
    must_equal(made, "first offset", out.first_offset, first_offset);
    must_equal(made, "last offset", out.last_offset, made->end - 1);
    stele_log_set_high_watermark(made->log, made->end);
    made->world->test.wall_ms += 7;
    made->world->test.mono_us += 7000;
}

void made_append(struct made_log *made, const struct made_batch *batch)
{
    int64_t first_offset = made->end;
    struct stele_error error = {.text = ""};
    struct stele_validated validated;
    struct stele_buf *buf = build(made, batch);
    /* A client counts its offsets from 0. */
    stele_batch_stamp(buf->bytes, 0, -1);
    enum stele_err err = stele_validate(mem_of(made), &made->config, buf->bytes, buf->count, made->world->test.wall_ms,
                                        &validated, &error);
    must(err, made, error.text);
    append(made, validated.rebuilt == NULL ? buf->bytes : validated.rebuilt->bytes, validated.bytes,
           STELE_ORIGIN_CLIENT, first_offset);
    stele_buf_unref(validated.rebuilt);
    stele_buf_unref(buf);
}

void made_replicate(struct made_log *made, const struct made_batch *batch, int batches)
{
    int64_t first_offset = made->end;
    size_t count = 0;
    uint8_t *bytes = NULL;
    for (int i = 0; i < batches; i++) {
        struct stele_buf *buf = build(made, batch);
        bytes = realloc(bytes, count + buf->count);
        if (bytes == NULL)
            abort();
        memcpy(bytes + count, buf->bytes, buf->count);
        count += buf->count;
        stele_buf_unref(buf);
    }
    append(made, bytes, count, STELE_ORIGIN_REPLICATION, first_offset);
    free(bytes);
}

void made_end_txn(struct made_log *made, int index, bool is_commit)
{
    struct made_producer *producer = producer_of(made, index);
    struct made_batch batch = {.producer = index, .is_txn = true};
    int64_t first_offset = made->end, now_ms = made->world->test.wall_ms;
    struct stele_batch_builder *builder =
        builder_new(made, &batch, producer, STELE_BATCH_TRANSACTIONAL | STELE_BATCH_CONTROL);
    uint8_t key[4] = {0, 0, 0, is_commit ? STELE_CONTROL_COMMIT : STELE_CONTROL_ABORT};
    uint8_t value[6] = {0, 0, 0, 0, 0, COORDINATOR_EPOCH};
    struct stele_record_in in = {
        .timestamp = now_ms, .key = key, .value = value, .key_bytes = sizeof(key), .value_bytes = sizeof(value)};
    struct stele_buf *buf = NULL;
    must(stele_batch_builder_add(builder, &in), made, "add");
    must(stele_batch_builder_finish(builder, &buf), made, "finish");
    stele_batch_builder_free(builder);
    for (int i = 0; i < made->count && !is_commit; i++) {
        struct made_record *record = &made->records[i];
        if (record->txn_producer == producer->id && record->offset >= producer->txn_first_offset)
            record->is_aborted = true;
    }
    push(made, &(struct made_record){
                   .offset = made->end++, .timestamp = now_ms, .is_control = true, .txn_producer = producer->id});
    producer->txn_first_offset = -1;
    producer->last_timestamp = now_ms;
    producer->coordinator_epoch = COORDINATOR_EPOCH;
    append(made, buf->bytes, buf->count, STELE_ORIGIN_COORDINATOR, first_offset);
    stele_buf_unref(buf);
}

/* --- what must be found --- */

static int64_t stable_end(const struct made_log *made)
{
    int64_t offset = made->end;
    for (int i = 0; i < MADE_PRODUCERS; i++) {
        if (made->producers[i].id != 0 && made->producers[i].txn_first_offset >= 0)
            offset = stele_min_i64(offset, made->producers[i].txn_first_offset);
    }
    return offset;
}

/* The first record at or above the start that is not older. */
static void print_time(const struct made_log *made, int64_t timestamp, FILE *out)
{
    for (int i = 0; i < made->count; i++) {
        const struct made_record *record = &made->records[i];
        if (record->offset >= made->start && record->timestamp >= timestamp) {
            (void)fprintf(out, "time %s %lld %lld %lld\n", made->topic, (long long)timestamp, (long long)record->offset,
                          (long long)record->timestamp);
            return;
        }
    }
    (void)fprintf(out, "time %s %lld - -\n", made->topic, (long long)timestamp);
}

static void print_times(const struct made_log *made, FILE *out)
{
    int64_t latest = -1, latest_offset = -1;
    for (int i = 0; i < made->count; i++) {
        const struct made_record *record = &made->records[i];
        if (record->offset >= made->start && record->timestamp > latest) {
            latest = record->timestamp;
            latest_offset = record->offset;
        }
    }
    (void)fprintf(out, "latest %s %lld %lld\n", made->topic, (long long)latest_offset, (long long)latest);
    print_time(made, 0, out);
    print_time(made, latest + 1, out);
    for (int i = 0; i < made->count; i += 1 + made->count / 40) {
        print_time(made, made->records[i].timestamp, out);
        print_time(made, made->records[i].timestamp + 1, out);
    }
}

void made_print(const struct made_log *made, FILE *out)
{
    int64_t stable = stable_end(made);
    (void)fprintf(out, "offsets %s %lld %lld %lld\n", made->topic, (long long)made->start, (long long)stable,
                  (long long)made->end);
    for (int i = 0; i < made->count; i++) {
        const struct made_record *record = &made->records[i];
        if (record->is_control || record->offset < made->start)
            continue;
        (void)fprintf(out, "record %s %lld %s\n", made->topic, (long long)record->offset, record->text);
        if (record->offset < stable && !record->is_aborted)
            (void)fprintf(out, "committed %s %lld\n", made->topic, (long long)record->offset);
    }
    /* Kafka forgets the producers of a log whose records are all gone. */
    for (int i = 0; i < MADE_PRODUCERS && made->start < made->end; i++) {
        const struct made_producer *producer = &made->producers[i];
        if (producer->id != 0)
            (void)fprintf(out, "producer %s %lld %d %d %lld %d %lld\n", made->topic, (long long)producer->id,
                          producer->epoch, producer->last_sequence, (long long)producer->last_timestamp,
                          producer->coordinator_epoch, (long long)producer->txn_first_offset);
    }
    if (!made->is_time_unsure)
        print_times(made, out);
}

void made_free(struct made_log *made)
{
    for (int i = 0; i < made->count; i++)
        free(made->records[i].text);
    free(made->records);
    *made = (struct made_log){.world = made->world};
}
