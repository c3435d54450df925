/* Records gather in one batch a partition; a full or old one is sealed and sent.
 *
 * Invariants
 *  1. One request of a partition is under way at a time, so that a retry never overtakes: order in a partition is the
 *     order of send, and deliveries come in it.
 *  2. While a request is under way or a sealed batch waits, the batch being built goes on filling past its linger time.
 *  3. A batch is out of its queue before its records are told of: the callback may send. */
#include "client/client_internal.h"

#include "base/check.h"
#include "proto/record_batch.h"

#include <string.h>

enum { HEADERS_MAX = 256, RECORD_BYTES_MAX = 1 << 29, UNPACKED_BYTES_MAX = 1 << 30, TAGS_FIRST = 64 };

/* A sealed batch with what send was told of its records. */
struct sealed {
    struct stele_list link;
    struct stele_buf *batch;
    uint64_t *tags;
    int32_t count;
    int64_t deadline_ms;
};

struct part_queue {
    struct stele_producer *producer;
    int32_t partition;
    struct stele_batch_builder *builder;
    uint64_t *tags; /* of the batch being built */
    int32_t tag_capacity;
    int64_t linger_ms;   /* when the batch being built is sealed */
    int64_t deadline_ms; /* when its first record must be delivered */
    struct stele_list sealed;
    struct stele_call call; /* for the first sealed one */
    bool is_calling;
    struct stele_backoff backoff;
};

struct stele_producer {
    struct stele_client *client;
    struct stele_client_part part;
    char *topic;
    struct stele_uuid topic_id;
    struct part_queue *queues;
    int32_t partitions, sticky;
    void (*delivered)(void *arg, const struct stele_delivery *delivery);
    void *arg;
    struct stele_batch_options options;
    int64_t linger_ms, delivery_timeout_ms, buffer_bytes_max, buffered_bytes;
    int32_t request_timeout_ms;
    size_t batch_bytes;
    int32_t acks;
    size_t pending;
    struct stele_settings *settings;
};

static void free_sealed(struct stele_producer *producer, struct sealed *sealed)
{
    stele_list_remove(&sealed->link);
    producer->buffered_bytes -= (int64_t)sealed->batch->count;
    stele_buf_unref(sealed->batch);
    stele_mem_free(producer->client->env->mem, sealed->tags);
    stele_mem_free(producer->client->env->mem, sealed);
}

static struct sealed *first_sealed(const struct part_queue *queue)
{
    return stele_list_is_empty(&queue->sealed) ? NULL : STELE_CONTAINER_OF(queue->sealed.next, struct sealed, link);
}

/* Tells of every record of the first batch, then forgets it (invariant 3). */
static void settle(struct part_queue *queue, enum stele_err err, const struct stele_produce_result *answer,
                   const char *text)
{
    struct stele_producer *producer = queue->producer;
    struct sealed *sealed = first_sealed(queue);
    struct stele_delivery delivery = {.partition = queue->partition, .offset = -1};
    bool has_offset = err == STELE_OK && answer != NULL && answer->base_offset >= 0;
    delivery.result = err == STELE_OK
                          ? stele_client__result(err, "")
                          : stele_client__failure(err, "%.200s-%d: %.250s", producer->topic, queue->partition, text);
    if (err == STELE_OK && answer != NULL)
        delivery.durability = (int)answer->durability;
    stele_list_remove(&sealed->link);
    queue->backoff = (struct stele_backoff){0};
    for (int32_t i = 0; i < sealed->count; i++) {
        delivery.tag = sealed->tags[i];
        if (has_offset)
            delivery.offset = answer->base_offset + i;
        producer->pending--;
        producer->client->callbacks++;
        producer->delivered(producer->arg, &delivery);
    }
    free_sealed(producer, sealed);
}

/* Records of a sealed batch into a new one, from where the walker stands. */
static enum stele_err copy_records(struct stele_batch_builder *builder, struct stele_record_walker *walker,
                                   int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        struct stele_record record;
        struct stele_record_header header;
        struct stele_header_in headers[HEADERS_MAX];
        enum stele_err err = stele_record_next(walker, &record);
        if (err != STELE_OK)
            return err;
        struct stele_record_in in = {.timestamp = record.timestamp,
                                     .key = record.key,
                                     .value = record.value,
                                     .key_bytes = record.key_bytes,
                                     .value_bytes = record.value_bytes,
                                     .headers = headers,
                                     .header_count = record.header_count};
        size_t pos = 0;
        for (int32_t n = 0; n < record.header_count && stele_record_header_next(&record, &pos, &header); n++)
            headers[n] = (struct stele_header_in){.key = (const char *)header.key,
                                                  .value = header.value,
                                                  .key_bytes = header.key_bytes,
                                                  .value_bytes = header.value_bytes};
        err = stele_batch_builder_add(builder, &in);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

/* One half of a batch as a batch of its own, in no queue yet. */
static enum stele_err make_half(struct stele_producer *producer, struct stele_record_walker *walker,
                                const struct sealed *whole, int32_t from, struct sealed **out_half)
{
    struct stele_mem *mem = producer->client->env->mem;
    int32_t count = from == 0 ? whole->count / 2 : whole->count - from;
    struct sealed *half = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(*half));
    uint64_t *tags = stele_mem_array(mem, STELE_MEM_CLIENT, (size_t)count, sizeof(*tags));
    struct stele_batch_builder *builder = stele_batch_builder_new(mem, &producer->options);
    enum stele_err err = half == NULL || tags == NULL || builder == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK)
        err = copy_records(builder, walker, count);
    if (err == STELE_OK)
        err = stele_batch_builder_finish(builder, &half->batch);
    stele_batch_builder_free(builder);
    if (err != STELE_OK) {
        stele_mem_free(mem, tags);
        stele_mem_free(mem, half);
        return err;
    }
    memcpy(tags, whole->tags + from, (size_t)count * sizeof(*tags));
    half->tags = tags;
    half->count = count;
    half->deadline_ms = whole->deadline_ms;
    stele_list_init(&half->link);
    producer->buffered_bytes += (int64_t)half->batch->count;
    *out_half = half;
    return STELE_OK;
}

/* A batch that the topic refuses as too large goes again as two halves: its settings may ask for less than ours. */
static enum stele_err split(struct part_queue *queue)
{
    struct stele_producer *producer = queue->producer;
    struct sealed *whole = first_sealed(queue), *first = NULL, *second = NULL;
    struct stele_record_walker walker;
    enum stele_err err = stele_record_walker_init(&walker, producer->client->env->mem, whole->batch->bytes,
                                                  whole->batch->count, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err;
    err = make_half(producer, &walker, whole, 0, &first);
    if (err == STELE_OK)
        err = make_half(producer, &walker, whole, first->count, &second);
    stele_record_walker_deinit(&walker);
    if (err != STELE_OK) {
        if (first != NULL)
            free_sealed(producer, first);
        return err;
    }
    free_sealed(producer, whole);
    struct stele_list *front = queue->sealed.next; /* pushing before the front puts them there */
    stele_list_push(front, &first->link);
    stele_list_push(front, &second->link);
    return STELE_OK;
}

static bool is_too_large(enum stele_err err)
{
    return err == STELE_MESSAGE_TOO_LARGE || err == STELE_RECORD_LIST_TOO_LARGE;
}

static void produce_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct part_queue *queue = STELE_CONTAINER_OF(call, struct part_queue, call);
    struct stele_producer *producer = queue->producer;
    const struct stele_produce_result *result = NULL;
    struct sealed *sealed = first_sealed(queue);
    queue->is_calling = false;
    if (err == STELE_OK && answer->response != NULL) {
        const struct stele_produce_response *produced = &answer->response->body.produce;
        if (produced->result_count == 1 && produced->results[0].partition == queue->partition)
            result = &produced->results[0];
        err = result == NULL ? STELE_UNKNOWN_SERVER_ERROR : result->err;
    }
    if (is_too_large(err) && sealed->count > 1) {
        enum stele_err split_err = split(queue);
        if (split_err == STELE_OK)
            return;
        err = split_err == STELE_NO_MEMORY ? split_err : err;
    }
    if (stele_client__now_ms(producer->client) < sealed->deadline_ms &&
        stele_client__retry(producer->client, &queue->backoff, err))
        return;
    const char *text = stele_err_text(err);
    if (result != NULL && result->message[0] != 0)
        text = result->message;
    else if (result == NULL && producer->client->trouble[0] != 0)
        text = producer->client->trouble;
    settle(queue, err, result, text);
}

static void start_call(struct part_queue *queue)
{
    struct stele_producer *producer = queue->producer;
    struct sealed *sealed = first_sealed(queue);
    struct stele_produce_partition partition = {
        .topic_id = producer->topic_id, .partition = queue->partition, .records_bytes = (uint32_t)sealed->batch->count};
    struct stele_request request = {.header.api = STELE_API_PRODUCE,
                                    .body.produce = {.acks = producer->acks,
                                                     .timeout_ms = producer->request_timeout_ms,
                                                     .partitions = &partition,
                                                     .partition_count = 1}};
    queue->call = (struct stele_call){.done = produce_done, .is_oneway = producer->acks == 0};
    stele_list_init(&queue->call.link);
    queue->is_calling = true;
    enum stele_err err = stele_client__call(producer->client, STELE_FOR_PRODUCE, &queue->call, &request, sealed->batch);
    if (err != STELE_OK) {
        queue->is_calling = false;
        (void)stele_client__retry(producer->client, &queue->backoff, STELE_NO_MEMORY);
    }
}

/* Takes the batch being built out of the builder. */
static enum stele_err seal(struct part_queue *queue)
{
    struct stele_producer *producer = queue->producer;
    struct stele_mem *mem = producer->client->env->mem;
    int32_t count = stele_batch_builder_count(queue->builder);
    size_t plain_bytes = stele_batch_builder_bytes(queue->builder);
    struct sealed *sealed = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(*sealed));
    if (sealed == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = stele_batch_builder_finish(queue->builder, &sealed->batch);
    if (err != STELE_OK) {
        stele_mem_free(mem, sealed);
        return err;
    }
    producer->buffered_bytes += (int64_t)sealed->batch->count - (int64_t)plain_bytes;
    sealed->tags = queue->tags;
    sealed->count = count;
    sealed->deadline_ms = queue->deadline_ms;
    queue->tags = NULL;
    queue->tag_capacity = 0;
    stele_list_push(&queue->sealed, &sealed->link);
    if (producer->sticky == queue->partition)
        producer->sticky = (queue->partition + 1) % producer->partitions;
    return STELE_OK;
}

/* Whether the batch being built is sealed once its time has come (invariant 2). */
static bool may_seal(const struct part_queue *queue)
{
    return stele_batch_builder_count(queue->builder) > 0 && !queue->is_calling && stele_list_is_empty(&queue->sealed);
}

static void drive(struct part_queue *queue, int64_t now_ms)
{
    if (may_seal(queue) && now_ms >= queue->linger_ms) {
        enum stele_err err = seal(queue);
        if (err != STELE_OK) { /* out of memory */
            (void)stele_client__retry(queue->producer->client, &queue->backoff, STELE_NO_MEMORY);
            queue->linger_ms = queue->backoff.at_ms;
        }
    }
    struct sealed *sealed = first_sealed(queue);
    if (sealed != NULL && !queue->is_calling && now_ms >= queue->backoff.at_ms)
        start_call(queue);
}

/* What waited too long between two tries. Those behind the first one are looked at when they are first. */
static void expire(struct part_queue *queue, int64_t now_ms)
{
    struct sealed *sealed = first_sealed(queue);
    for (; sealed != NULL && !queue->is_calling && now_ms >= sealed->deadline_ms; sealed = first_sealed(queue))
        settle(queue, STELE_REQUEST_TIMED_OUT, NULL, "delivery.timeout.ms passed before the node took the record");
}

static void producer_tick(struct stele_client_part *part, int64_t now_ms)
{
    struct stele_producer *producer = STELE_CONTAINER_OF(part, struct stele_producer, part);
    for (int32_t i = 0; i < producer->partitions; i++) {
        expire(&producer->queues[i], now_ms);
        drive(&producer->queues[i], now_ms);
    }
}

static int64_t producer_deadline(const struct stele_client_part *part)
{
    const struct stele_producer *producer =
        (const struct stele_producer *)(const void *)((const char *)part - offsetof(struct stele_producer, part));
    int64_t deadline = INT64_MAX;
    for (int32_t i = 0; i < producer->partitions; i++) {
        const struct part_queue *queue = &producer->queues[i];
        if (may_seal(queue))
            deadline = stele_min_i64(deadline, queue->linger_ms);
        if (!stele_list_is_empty(&queue->sealed) && !queue->is_calling)
            deadline = stele_min_i64(deadline, stele_min_i64(queue->backoff.at_ms, first_sealed(queue)->deadline_ms));
    }
    return deadline;
}

static enum stele_err set_up(struct stele_producer *producer)
{
    struct stele_mem *mem = producer->client->env->mem;
    const struct stele_settings *settings = producer->settings;
    const char *acks = stele_settings_text(settings, "acks");
    producer->acks = strcmp(acks, "0") == 0 ? 0 : strcmp(acks, "1") == 0 ? 1 : -1;
    producer->linger_ms = stele_settings_int(settings, "linger.ms");
    producer->request_timeout_ms = (int32_t)stele_settings_int(settings, "request.timeout.ms");
    producer->batch_bytes = (size_t)stele_settings_int(settings, "batch.size");
    producer->delivery_timeout_ms = stele_settings_int(settings, "delivery.timeout.ms");
    producer->buffer_bytes_max = stele_settings_int(settings, "buffer.memory");
    producer->options = (struct stele_batch_options){
        .codec = stele_codec_from_name(stele_settings_text(settings, "compression.type")),
        .codec_level = STELE_CODEC_LEVEL_DEFAULT,
        .partition_leader_epoch = -1,
        .producer_id = STELE_NO_PRODUCER_ID,
        .producer_epoch = -1,
        .base_sequence = STELE_NO_SEQUENCE,
    };
    producer->queues = stele_mem_array(mem, STELE_MEM_CLIENT, (size_t)producer->partitions, sizeof(*producer->queues));
    if (producer->queues == NULL)
        return STELE_NO_MEMORY;
    /* Many short-lived producers must not all begin with partition 0. */
    struct stele_env *env = producer->client->env;
    producer->sticky = (int32_t)(env->ops->random(env) % (uint64_t)producer->partitions);
    for (int32_t i = 0; i < producer->partitions; i++) {
        struct part_queue *queue = &producer->queues[i];
        queue->producer = producer;
        queue->partition = i;
        stele_list_init(&queue->sealed);
        stele_list_init(&queue->call.link);
        queue->builder = stele_batch_builder_new(mem, &producer->options);
        if (queue->builder == NULL)
            return STELE_NO_MEMORY;
    }
    return STELE_OK;
}

struct stele_producer *stele_producer_new(struct stele_client *client, const char *topic,
                                          const struct stele_setting *settings,
                                          void (*delivered)(void *arg, const struct stele_delivery *delivery),
                                          void *arg, struct stele_result *result)
{
    struct stele_error error = {.text = ""};
    struct stele_producer *producer = stele_mem_alloc(client->env->mem, STELE_MEM_CLIENT, sizeof(*producer));
    enum stele_err err = producer == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK) {
        producer->client = client;
        producer->delivered = delivered;
        producer->arg = arg;
        producer->part = (struct stele_client_part){.tick = producer_tick, .deadline = producer_deadline};
        stele_list_init(&producer->part.link);
        producer->topic = stele_mem_string(client->env->mem, STELE_MEM_CLIENT, topic);
        err = producer->topic == NULL ? STELE_NO_MEMORY
                                      : stele_client__settings(client, settings, &producer->settings, &error);
    }
    if (err == STELE_OK)
        err = stele_client__topic(client, topic, &producer->topic_id, &producer->partitions, &error);
    if (err == STELE_OK)
        err = set_up(producer);
    if (result != NULL)
        *result = stele_client__result(err, error.text);
    if (err != STELE_OK) {
        stele_producer_free(producer);
        return NULL;
    }
    stele_list_push(&client->producers, &producer->part.link);
    return producer;
}

static enum stele_err reserve_tag(struct part_queue *queue)
{
    int32_t count = stele_batch_builder_count(queue->builder);
    if (count < queue->tag_capacity)
        return STELE_OK;
    int32_t capacity = queue->tag_capacity == 0 ? TAGS_FIRST : queue->tag_capacity * 2;
    uint64_t *tags = stele_mem_resize(queue->producer->client->env->mem, STELE_MEM_CLIENT, queue->tags,
                                      (size_t)capacity * sizeof(*tags));
    if (tags == NULL)
        return STELE_NO_MEMORY;
    queue->tags = tags;
    queue->tag_capacity = capacity;
    return STELE_OK;
}

/* By key; without one to the partition whose batch is being built, the next one after it was sealed. */
static int32_t choose_partition(struct stele_producer *producer, const struct stele_message *message)
{
    if (message->partition >= 0)
        return message->partition;
    if (message->key != NULL)
        return stele_partition_of_key(message->key, message->key_bytes, producer->partitions);
    return producer->sticky;
}

static enum stele_err add_record(struct part_queue *queue, const struct stele_message *message)
{
    struct stele_header_in headers[HEADERS_MAX];
    struct stele_record_in record = {.timestamp = message->timestamp,
                                     .key = message->key,
                                     .value = message->value,
                                     .key_bytes = (int32_t)message->key_bytes,
                                     .value_bytes = (int32_t)message->value_bytes,
                                     .headers = headers,
                                     .header_count = (int32_t)message->header_count};
    for (size_t i = 0; i < message->header_count; i++)
        headers[i] = (struct stele_header_in){.key = message->headers[i].key,
                                              .key_bytes = (int32_t)strlen(message->headers[i].key),
                                              .value = message->headers[i].value,
                                              .value_bytes = (int32_t)message->headers[i].value_bytes};
    if (message->timestamp == -1)
        record.timestamp = stele_env_wall_ms(queue->producer->client->env);
    return stele_batch_builder_add(queue->builder, &record);
}

/* A batch that this record would overfill is sealed first. */
static enum stele_err make_room(struct part_queue *queue, size_t bytes)
{
    size_t used = stele_batch_builder_bytes(queue->builder);
    if (stele_batch_builder_count(queue->builder) == 0 || used + bytes <= queue->producer->batch_bytes)
        return STELE_OK;
    enum stele_err err = seal(queue);
    if (err == STELE_OK)
        drive(queue, stele_client__now_ms(queue->producer->client));
    return err;
}

struct stele_result stele_producer_send(struct stele_producer *producer, const struct stele_message *message,
                                        uint64_t tag)
{
    int32_t partition = choose_partition(producer, message);
    if (partition >= producer->partitions)
        return stele_client__failure(STELE_INVALID_ARGUMENT, "topic '%.200s' has partitions 0 to %d, not %d",
                                     producer->topic, producer->partitions - 1, partition);
    if (message->key_bytes > RECORD_BYTES_MAX || message->value_bytes > RECORD_BYTES_MAX ||
        message->header_count > HEADERS_MAX)
        return stele_client__failure(STELE_TOO_LARGE,
                                     "a record of topic '%.200s' has more than %d headers, or a key or value of more "
                                     "than %d bytes",
                                     producer->topic, (int)HEADERS_MAX, (int)RECORD_BYTES_MAX);
    struct part_queue *queue = &producer->queues[partition];
    size_t bytes = 32 + message->key_bytes + message->value_bytes;
    for (size_t i = 0; i < message->header_count; i++)
        bytes += 10 + strlen(message->headers[i].key) + message->headers[i].value_bytes;
    if (producer->buffered_bytes + (int64_t)bytes > producer->buffer_bytes_max && producer->pending > 0)
        return stele_client__result(STELE_NO_MEMORY, "buffer.memory is reached; poll, then try again");
    enum stele_err err = make_room(queue, bytes);
    if (err == STELE_OK)
        err = reserve_tag(queue);
    size_t before = stele_batch_builder_bytes(queue->builder);
    int32_t at = stele_batch_builder_count(queue->builder);
    if (err == STELE_OK)
        err = add_record(queue, message);
    if (err != STELE_OK)
        return stele_client__result(err, "");
    producer->buffered_bytes += (int64_t)stele_batch_builder_bytes(queue->builder) - (int64_t)(at == 0 ? 0 : before);
    queue->tags[at] = tag;
    producer->pending++;
    if (at == 0) {
        int64_t now_ms = stele_client__now_ms(producer->client);
        queue->linger_ms = now_ms + producer->linger_ms;
        queue->deadline_ms = now_ms + producer->delivery_timeout_ms;
    }
    if (stele_batch_builder_bytes(queue->builder) >= producer->batch_bytes)
        queue->linger_ms = 0;
    return stele_client__result(STELE_OK, "");
}

struct stele_result stele_producer_flush(struct stele_producer *producer, int wait_ms)
{
    int64_t until = wait_ms < 0 ? INT64_MAX : stele_client__now_ms(producer->client) + wait_ms;
    for (int32_t i = 0; i < producer->partitions; i++)
        producer->queues[i].linger_ms = 0;
    while (producer->pending > 0) {
        int64_t left = until - stele_client__now_ms(producer->client);
        if (left <= 0)
            return stele_client__result(STELE_REQUEST_TIMED_OUT, "records are still on their way");
        (void)stele_client_poll(producer->client, (int)stele_min_i64(left, 1000));
    }
    return stele_client__result(STELE_OK, "");
}

size_t stele_producer_pending(const struct stele_producer *producer)
{
    return producer->pending;
}

void stele_producer_free(struct stele_producer *producer)
{
    if (producer == NULL)
        return;
    struct stele_mem *mem = producer->client->env->mem;
    stele_list_remove(&producer->part.link);
    for (int32_t i = 0; i < producer->partitions && producer->queues != NULL; i++) {
        struct part_queue *queue = &producer->queues[i];
        if (queue->producer == NULL)
            break;
        if (queue->is_calling)
            stele_client__cancel(producer->client, STELE_FOR_PRODUCE, &queue->call);
        while (first_sealed(queue) != NULL)
            free_sealed(producer, first_sealed(queue));
        stele_batch_builder_free(queue->builder);
        stele_mem_free(mem, queue->tags);
    }
    stele_mem_free(mem, producer->queues);
    stele_mem_free(mem, producer->topic);
    stele_settings_free(producer->settings);
    stele_mem_free(mem, producer);
}
