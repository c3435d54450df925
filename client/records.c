/* Walks the batches that a consumer holds ready. */
#include "client/consumer_internal.h"

#include "base/check.h"

enum { UNPACKED_BYTES_MAX = 1 << 30 };

/* Moves the aborted transactions of a range past a batch; true when the batch belongs to one. */
static bool pass_aborted(struct ready *ready, const struct stele_batch_header *header)
{
    bool is_in = false;
    for (size_t i = 0; i < ready->aborted_count; i++) {
        struct aborted *aborted = &ready->aborted[i];
        if (aborted->state == ABORTED_AHEAD && aborted->transaction.first_offset <= stele_batch_last_offset(header))
            aborted->state = ABORTED_INSIDE;
        if (aborted->state == ABORTED_INSIDE && aborted->transaction.producer_id == header->producer_id)
            is_in = true;
    }
    return is_in && (header->attributes & STELE_BATCH_TRANSACTIONAL) != 0;
}

/* A marker that aborts ends its producer's transaction. */
static enum stele_err pass_control(struct stele_consumer *consumer, struct ready *ready, size_t bytes)
{
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_control control;
    if (ready->aborted_count == 0)
        return STELE_OK;
    enum stele_err err =
        stele_record_walker_init(&walker, consumer->client->env->mem, ready->at, bytes, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err;
    err = stele_record_next(&walker, &record);
    if (err == STELE_OK)
        err = stele_control_read(&record, &control);
    for (size_t i = 0; err == STELE_OK && control.type == STELE_CONTROL_ABORT && i < ready->aborted_count; i++) {
        struct aborted *aborted = &ready->aborted[i];
        if (aborted->state == ABORTED_INSIDE && aborted->transaction.producer_id == walker.header.producer_id)
            aborted->state = ABORTED_BEHIND;
    }
    stele_record_walker_deinit(&walker);
    return err == STELE_END ? STELE_OK : err;
}

static void advance(struct assigned *assigned, int64_t offset)
{
    assigned->position = stele_max_i64(assigned->position, offset);
}

static void note_epoch(struct assigned *assigned, const struct stele_batch_header *header)
{
    if (assigned->position_epoch == header->partition_leader_epoch)
        return;
    assigned->position_epoch = header->partition_leader_epoch;
    assigned->epoch_start = stele_max_i64(assigned->position, header->base_offset);
}

/* Looks at the batch at the front of a range: a control batch, an aborted one and one below the position are passed,
 * any other is begun. */
static enum stele_err look_at_batch(struct stele_consumer *consumer, struct ready *ready)
{
    struct stele_batch_header header;
    struct assigned *assigned = ready->assigned;
    size_t bytes = (size_t)stele_batch_size(ready->at);
    enum stele_err err = consumer->check_crcs ? stele_batch_check(ready->at, bytes, &header)
                                              : stele_batch_header_read(ready->at, bytes, &header);
    if (err == STELE_UNSUPPORTED_FOR_MESSAGE_FORMAT) /* which no log has */
        err = STELE_CORRUPT_MESSAGE;
    if (err != STELE_OK)
        return err;
    bool is_aborted = pass_aborted(ready, &header), is_control = (header.attributes & STELE_BATCH_CONTROL) != 0;
    if (is_control)
        err = pass_control(consumer, ready, bytes);
    if (err != STELE_OK)
        return err;
    if (is_control || is_aborted || stele_batch_last_offset(&header) < assigned->position) {
        note_epoch(assigned, &header);
        advance(assigned, stele_batch_last_offset(&header) + 1);
        ready->at += bytes;
        return STELE_OK;
    }
    err = stele_record_walker_init(&consumer->walker, consumer->client->env->mem, ready->at, bytes, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err;
    consumer->is_walking = true;
    consumer->walked = assigned;
    note_epoch(assigned, &header);
    return STELE_OK;
}

/* The record after the last one of the batch being read; false at its end. */
static bool next_in_batch(struct stele_consumer *consumer, enum stele_err *out_err)
{
    struct ready *ready = stele_consumer__first_ready(consumer);
    struct assigned *assigned = consumer->walked;
    enum stele_err err = stele_record_next(&consumer->walker, &consumer->record);
    while (err == STELE_OK && consumer->record.offset < assigned->position)
        err = stele_record_next(&consumer->walker, &consumer->record);
    *out_err = err == STELE_END ? STELE_OK : err;
    if (err == STELE_OK) {
        assigned->position = consumer->record.offset + 1;
        return true;
    }
    if (err == STELE_END) { /* a compacted batch ends behind its last record */
        advance(assigned, stele_batch_last_offset(&consumer->walker.header) + 1);
        ready->at += stele_batch_size(ready->at);
        assigned->backoff = (struct stele_backoff){0};
    }
    consumer->is_walking = false;
    stele_record_walker_deinit(&consumer->walker);
    return false;
}

/* A batch that cannot be read: memory comes back, a bad checksum may be the way's fault, the rest stays as it is. */
static enum stele_err bad_batch(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err)
{
    if (err == STELE_NO_MEMORY)
        return err;
    if (err == STELE_CORRUPT_MESSAGE)
        stele_consumer__refetch(consumer, assigned, err);
    else
        stele_consumer__fail(consumer, assigned, err, stele_err_text(err));
    assigned->generation++; /* the range goes, with everything behind it */
    return STELE_OK;
}

/* True with the next record of what has come. Errors: NO_MEMORY (nothing was passed over). */
static bool next_record(struct stele_consumer *consumer, enum stele_err *out_err)
{
    enum stele_err err = STELE_OK;
    for (;;) {
        struct ready *ready = stele_consumer__first_ready(consumer);
        if (ready == NULL)
            break;
        struct assigned *assigned = ready->assigned;
        if (!consumer->is_walking && (ready->generation != assigned->generation || ready->at == ready->end)) {
            stele_consumer__free_ready(consumer, ready);
            continue;
        }
        if (!consumer->is_walking)
            err = look_at_batch(consumer, ready);
        if (err == STELE_OK && consumer->is_walking && next_in_batch(consumer, &err))
            return true;
        if (err != STELE_OK)
            err = bad_batch(consumer, assigned, err);
        if (err != STELE_OK)
            break;
    }
    *out_err = err;
    return false;
}

static void fill_view(const struct stele_consumer *consumer, struct stele_record_view *out)
{
    const struct stele_record *record = &consumer->record;
    int16_t attributes = consumer->walker.header.attributes;
    *out = (struct stele_record_view){.partition = consumer->walked->partition,
                                      .offset = record->offset,
                                      .timestamp = record->timestamp,
                                      .is_log_append_time = (attributes & STELE_BATCH_LOG_APPEND_TIME) != 0,
                                      .key = record->key,
                                      .value = record->value,
                                      .key_bytes = (size_t)record->key_bytes,
                                      .value_bytes = (size_t)record->value_bytes,
                                      .header_count = (size_t)record->header_count,
                                      .internal = record};
}

struct stele_result stele_consumer_next(struct stele_consumer *consumer, int wait_ms,
                                        struct stele_record_view *out_record)
{
    int64_t until = 0;
    for (bool has_polled = false;; has_polled = true) {
        enum stele_err err = STELE_OK;
        if (next_record(consumer, &err)) {
            fill_view(consumer, out_record);
            return stele_client__result(STELE_OK, "");
        }
        if (err != STELE_OK)
            return stele_client__result(err, "");
        if (consumer->failure.code != 0)
            return consumer->failure;
        int64_t now_ms = stele_client__now_ms(consumer->client);
        until = has_polled ? until : now_ms + wait_ms;
        if (has_polled && now_ms >= until)
            return stele_client__result(STELE_REQUEST_TIMED_OUT, "no record came in time");
        (void)stele_client_poll(consumer->client, (int)stele_max_i64(until - now_ms, 0));
    }
}

bool stele_record_view_header(const struct stele_record_view *view, size_t index, const char **out_key,
                              size_t *out_key_bytes, const void **out_value, size_t *out_value_bytes)
{
    struct stele_record_header header;
    size_t pos = 0;
    for (size_t i = 0; i <= index; i++) {
        if (!stele_record_header_next(view->internal, &pos, &header))
            return false;
    }
    *out_key = (const char *)header.key;
    *out_key_bytes = (size_t)header.key_bytes;
    *out_value = header.value;
    *out_value_bytes = (size_t)header.value_bytes;
    return true;
}
