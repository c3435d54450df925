/* Reads partitions by long polls, one request for all of them at a time. The next one is sent as soon as an answer
 * came, so that it is on its way while the records are read. Batches are walked where they lie in the answer's frame.
 */
#include "client/client_internal.h"

#include "base/check.h"
#include "proto/record_batch.h"

#include <string.h>

enum { PARTITIONS_MAX = 1024, UNPACKED_BYTES_MAX = 1 << 30 };

struct assigned {
    int32_t partition;
    int64_t position; /* of the next record to give */
    int64_t fetched;  /* of the next batch to ask for */
};

/* An answer's bytes of one partition that are not read yet. */
struct ready {
    struct stele_list link;
    struct stele_buf *frame;
    struct assigned *assigned;
    const uint8_t *at, *end;
};

struct stele_consumer {
    struct stele_client *client;
    struct stele_client_part part;
    struct stele_settings *settings;
    struct stele_uuid topic_id;
    int32_t partitions;
    struct assigned *assigned;
    int assigned_count;
    struct stele_call call;
    bool is_calling;
    int64_t retry_ms;
    struct stele_list ready;
    struct stele_record_walker walker; /* of the batch being read */
    bool is_walking;
    struct assigned *walked;
    struct stele_record record;
    struct stele_result failure; /* code 0: none */
    bool check_crcs;
};

static struct ready *first_ready(struct stele_consumer *consumer)
{
    return stele_list_is_empty(&consumer->ready) ? NULL : STELE_CONTAINER_OF(consumer->ready.next, struct ready, link);
}

static void free_ready(struct stele_consumer *consumer, struct ready *ready)
{
    stele_list_remove(&ready->link);
    stele_buf_unref(ready->frame);
    stele_mem_free(consumer->client->env->mem, ready);
}

static struct assigned *find_assigned(struct stele_consumer *consumer, int32_t partition)
{
    for (int i = 0; i < consumer->assigned_count; i++) {
        if (consumer->assigned[i].partition == partition)
            return &consumer->assigned[i];
    }
    return NULL;
}

/* Whole batches of the answer move the fetch position; a cut one at the end is asked for again. */
static const uint8_t *whole_batches(struct assigned *assigned, const uint8_t *at, size_t bytes)
{
    while (bytes >= STELE_BATCH_HEADER_BYTES) {
        struct stele_batch_header header;
        int64_t size = stele_batch_size(at);
        if (size < STELE_BATCH_HEADER_BYTES || (size_t)size > bytes ||
            stele_batch_header_read(at, bytes, &header) != STELE_OK)
            break;
        assigned->fetched = stele_batch_last_offset(&header) + 1;
        at += size;
        bytes -= (size_t)size;
    }
    return at;
}

static void take_result(struct stele_consumer *consumer, const struct stele_fetch_result *result,
                        struct stele_buf *frame, const uint8_t *at)
{
    struct assigned *assigned = find_assigned(consumer, result->partition);
    if (assigned == NULL)
        return;
    if (result->err != STELE_OK) {
        if (stele_client__may_retry(result->err))
            consumer->retry_ms = stele_client__now_ms(consumer->client) + STELE_RETRY_BACKOFF_MS;
        else
            consumer->failure = stele_client__result(result->err, "");
        return;
    }
    const uint8_t *end = whole_batches(assigned, at, result->records_bytes);
    if (end == at)
        return;
    struct ready *ready = stele_mem_alloc(consumer->client->env->mem, STELE_MEM_CLIENT, sizeof(*ready));
    if (ready == NULL) {
        consumer->failure = stele_client__result(STELE_NO_MEMORY, "");
        return;
    }
    *ready = (struct ready){.frame = stele_buf_ref(frame), .assigned = assigned, .at = at, .end = end};
    stele_list_init(&ready->link);
    stele_list_push(&consumer->ready, &ready->link);
}

static void fetch_done(struct stele_call *call, enum stele_err err, const struct stele_response *response,
                       struct stele_buf *frame, const uint8_t *records, size_t records_bytes)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(call, struct stele_consumer, call);
    consumer->is_calling = false;
    if (err == STELE_OK)
        err = response->body.fetch.err;
    if (err != STELE_OK) {
        consumer->retry_ms = stele_client__now_ms(consumer->client) + STELE_RETRY_BACKOFF_MS;
        if (!stele_client__may_retry(err))
            consumer->failure = stele_client__result(err, "");
        return;
    }
    for (size_t i = 0; i < response->body.fetch.result_count; i++) {
        const struct stele_fetch_result *result = &response->body.fetch.results[i];
        if (result->records_bytes > records_bytes) {
            consumer->failure = stele_client__result(STELE_MALFORMED, "an answer holds fewer records than it says");
            return;
        }
        take_result(consumer, result, frame, records);
        records += result->records_bytes;
        records_bytes -= result->records_bytes;
    }
}

static void start_fetch(struct stele_consumer *consumer)
{
    struct stele_client *client = consumer->client;
    struct stele_fetch_partition partitions[PARTITIONS_MAX];
    bool is_committed = strcmp(stele_settings_text(consumer->settings, "isolation.level"), "read_committed") == 0;
    for (int i = 0; i < consumer->assigned_count; i++)
        partitions[i] = (struct stele_fetch_partition){
            .topic_id = consumer->topic_id,
            .partition = consumer->assigned[i].partition,
            .fetch_offset = consumer->assigned[i].fetched,
            .max_bytes = (int32_t)stele_settings_int(consumer->settings, "max.partition.fetch.bytes"),
            .current_leader_epoch = -1,
            .last_fetched_epoch = -1,
            .log_start_offset = -1};
    struct stele_request request = {
        .header.api = STELE_API_FETCH,
        .body.fetch = {.replica_id = -1,
                       .max_wait_ms = (int32_t)stele_settings_int(consumer->settings, "fetch.max.wait.ms"),
                       .min_bytes = (int32_t)stele_settings_int(consumer->settings, "fetch.min.bytes"),
                       .max_bytes = (int32_t)stele_settings_int(consumer->settings, "fetch.max.bytes"),
                       .isolation = is_committed ? STELE_READ_COMMITTED : STELE_READ_UNCOMMITTED,
                       .partitions = partitions,
                       .partition_count = (size_t)consumer->assigned_count}};
    consumer->call = (struct stele_call){.done = fetch_done};
    stele_list_init(&consumer->call.link);
    consumer->is_calling = true;
    enum stele_err err = stele_client__call(client, STELE_FOR_FETCH, &consumer->call, &request, NULL);
    if (err != STELE_OK) {
        consumer->is_calling = false;
        consumer->retry_ms = stele_client__now_ms(client) + STELE_RETRY_BACKOFF_MS;
    }
}

static void consumer_tick(struct stele_client_part *part, int64_t now_ms)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(part, struct stele_consumer, part);
    bool has_two = !stele_list_is_empty(&consumer->ready) && consumer->ready.next != consumer->ready.prev;
    if (!consumer->is_calling && now_ms >= consumer->retry_ms && consumer->assigned_count > 0 && !has_two &&
        consumer->failure.code == 0)
        start_fetch(consumer);
}

static int64_t consumer_deadline(const struct stele_client_part *part)
{
    const struct stele_consumer *consumer =
        (const struct stele_consumer *)(const void *)((const char *)part - offsetof(struct stele_consumer, part));
    return consumer->is_calling || consumer->assigned_count == 0 || consumer->failure.code != 0 ? INT64_MAX
                                                                                                : consumer->retry_ms;
}

struct stele_consumer *stele_consumer_new(struct stele_client *client, const char *topic,
                                          const struct stele_setting *settings, struct stele_result *result)
{
    struct stele_error error = {.text = ""};
    struct stele_consumer *consumer = stele_mem_alloc(client->env->mem, STELE_MEM_CLIENT, sizeof(*consumer));
    enum stele_err err = consumer == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK) {
        consumer->client = client;
        consumer->part = (struct stele_client_part){.tick = consumer_tick, .deadline = consumer_deadline};
        stele_list_init(&consumer->part.link);
        stele_list_init(&consumer->ready);
        err = stele_client__settings(client, settings, &consumer->settings, &error);
    }
    if (err == STELE_OK)
        err = stele_client__topic(client, topic, &consumer->topic_id, &consumer->partitions, &error);
    if (err == STELE_OK) {
        size_t count = (size_t)stele_min_i64(consumer->partitions, PARTITIONS_MAX);
        consumer->check_crcs = stele_settings_bool(consumer->settings, "check.crcs");
        consumer->assigned = stele_mem_array(client->env->mem, STELE_MEM_CLIENT, count, sizeof(*consumer->assigned));
        err = consumer->assigned == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    if (result != NULL)
        *result = stele_client__result(err, error.text);
    if (err != STELE_OK) {
        stele_consumer_free(consumer);
        return NULL;
    }
    stele_list_push(&client->consumers, &consumer->part.link);
    return consumer;
}

struct stele_result stele_consumer_assign(struct stele_consumer *consumer, int32_t partition, int64_t offset)
{
    if (partition < 0 || partition >= consumer->partitions || offset < 0)
        return stele_client__result(STELE_UNKNOWN_TOPIC_OR_PARTITION, "the topic has no such partition or offset");
    struct assigned *assigned = find_assigned(consumer, partition);
    if (assigned == NULL && consumer->assigned_count == PARTITIONS_MAX)
        return stele_client__result(STELE_TOO_LARGE, "a consumer reads at most 1024 partitions");
    if (assigned == NULL)
        assigned = &consumer->assigned[consumer->assigned_count++];
    *assigned = (struct assigned){.partition = partition, .position = offset, .fetched = offset};
    return stele_client__result(STELE_OK, "");
}

/* Begins the next batch of what has come; false when nothing is left. */
static bool next_batch(struct stele_consumer *consumer, enum stele_err *out_err)
{
    struct stele_batch_header header;
    *out_err = STELE_OK;
    for (;;) {
        struct ready *ready = first_ready(consumer);
        if (ready == NULL)
            return false;
        if (ready->at == ready->end) {
            free_ready(consumer, ready);
            continue;
        }
        const uint8_t *batch = ready->at;
        size_t bytes = (size_t)stele_batch_size(batch);
        ready->at += bytes;
        consumer->walked = ready->assigned;
        *out_err = consumer->check_crcs ? stele_batch_check(batch, bytes, &header)
                                        : stele_batch_header_read(batch, bytes, &header);
        if (*out_err != STELE_OK)
            return false;
        if ((header.attributes & STELE_BATCH_CONTROL) != 0 ||
            stele_batch_last_offset(&header) < consumer->walked->position) {
            consumer->walked->position =
                stele_max_i64(consumer->walked->position, stele_batch_last_offset(&header) + 1);
            continue;
        }
        *out_err =
            stele_record_walker_init(&consumer->walker, consumer->client->env->mem, batch, bytes, UNPACKED_BYTES_MAX);
        consumer->is_walking = *out_err == STELE_OK;
        return consumer->is_walking;
    }
}

/* True with the next record of what has come. */
static bool next_record(struct stele_consumer *consumer, enum stele_err *out_err)
{
    *out_err = STELE_OK;
    for (;;) {
        if (!consumer->is_walking && !next_batch(consumer, out_err))
            return false;
        enum stele_err err = stele_record_next(&consumer->walker, &consumer->record);
        if (err == STELE_OK && consumer->record.offset < consumer->walked->position)
            continue;
        if (err == STELE_OK) {
            consumer->walked->position = consumer->record.offset + 1;
            return true;
        }
        consumer->is_walking = false;
        stele_record_walker_deinit(&consumer->walker);
        if (err != STELE_END) {
            *out_err = err;
            return false;
        }
    }
}

static void fill_view(const struct stele_consumer *consumer, struct stele_record_view *out)
{
    const struct stele_record *record = &consumer->record;
    *out = (struct stele_record_view){.partition = consumer->walked->partition,
                                      .offset = record->offset,
                                      .timestamp = record->timestamp,
                                      .is_log_append_time =
                                          (consumer->walker.header.attributes & STELE_BATCH_LOG_APPEND_TIME) != 0,
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
    int64_t until = -1;
    for (;;) {
        enum stele_err err;
        if (next_record(consumer, &err)) {
            fill_view(consumer, out_record);
            return (struct stele_result){.code = 0};
        }
        if (err != STELE_OK)
            return stele_client__result(err, "");
        if (consumer->failure.code != 0)
            return consumer->failure;
        if (until < 0)
            until = stele_client__now_ms(consumer->client) + wait_ms;
        int64_t left = until - stele_client__now_ms(consumer->client);
        if (left < 0 || (left == 0 && wait_ms > 0))
            return stele_client__result(STELE_REQUEST_TIMED_OUT, "no record came in time");
        (void)stele_client_poll(consumer->client, (int)stele_min_i64(left, 1000));
        if (wait_ms == 0)
            until = -2 + stele_client__now_ms(consumer->client);
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

void stele_consumer_free(struct stele_consumer *consumer)
{
    if (consumer == NULL)
        return;
    stele_list_remove(&consumer->part.link);
    if (consumer->is_calling)
        stele_client__cancel(consumer->client, STELE_FOR_FETCH, &consumer->call);
    if (consumer->is_walking)
        stele_record_walker_deinit(&consumer->walker);
    while (first_ready(consumer) != NULL)
        free_ready(consumer, first_ready(consumer));
    stele_mem_free(consumer->client->env->mem, consumer->assigned);
    stele_settings_free(consumer->settings);
    stele_mem_free(consumer->client->env->mem, consumer);
}
