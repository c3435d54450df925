/* The calls of the public header. Records gather in one batch a partition; a full or old one is sealed and sent
 * (producer_send.c). */
#include "client/admin_internal.h"
#include "client/producer_internal.h"

#include <string.h>

enum {
    HEADERS_MAX = 256,
    RECORD_BYTES_MAX = 1 << 29,
    RECORD_BYTES_AROUND = 32, /* at most, of lengths and times around key and value */
    TAGS_FIRST = 64,
    WINDOW_MAX = 5 /* batches that a log knows */
};

static int codec_level(const struct stele_settings *settings, enum stele_codec codec)
{
    if (codec == STELE_CODEC_GZIP)
        return (int)stele_settings_int(settings, "compression.gzip.level");
    if (codec == STELE_CODEC_LZ4)
        return (int)stele_settings_int(settings, "compression.lz4.level");
    if (codec == STELE_CODEC_ZSTD)
        return (int)stele_settings_int(settings, "compression.zstd.level");
    return STELE_CODEC_LEVEL_DEFAULT;
}

/* Idempotence that was not asked for by name gives way to settings that exclude it, as Kafka's does. */
static enum stele_err settle_idempotence(struct stele_producer *producer, struct stele_error *error)
{
    const struct stele_settings *settings = producer->settings;
    bool is_asked = stele_settings_is_set(settings, "enable.idempotence");
    const char *conflict = NULL;
    if (producer->acks != -1)
        conflict = "acks=all";
    else if (producer->retries_max == 0)
        conflict = "retries above 0";
    producer->is_idempotent = stele_settings_bool(settings, "enable.idempotence") && conflict == NULL;
    if (is_asked && stele_settings_bool(settings, "enable.idempotence") && conflict != NULL)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "enable.idempotence=true needs %s: set that, or enable.idempotence=false", conflict);
    return STELE_OK;
}

static enum stele_err read_settings(struct stele_producer *producer, struct stele_error *error)
{
    const struct stele_settings *settings = producer->settings;
    const char *acks = stele_settings_text(settings, "acks");
    producer->acks = strcmp(acks, "0") == 0 ? 0 : strcmp(acks, "1") == 0 ? 1 : -1;
    producer->retries_max = (int32_t)stele_settings_int(settings, "retries");
    producer->linger_ms = stele_settings_int(settings, "linger.ms");
    producer->request_timeout_ms = (int32_t)stele_settings_int(settings, "request.timeout.ms");
    producer->record_bytes_max = (size_t)stele_settings_int(settings, "max.request.size");
    producer->batch_bytes =
        stele_min_size((size_t)stele_settings_int(settings, "batch.size"), producer->record_bytes_max);
    producer->delivery_timeout_ms = stele_settings_int(settings, "delivery.timeout.ms");
    producer->buffer_bytes_max = stele_settings_int(settings, "buffer.memory");
    enum stele_codec codec = stele_codec_from_name(stele_settings_text(settings, "compression.type"));
    producer->options = (struct stele_batch_options){
        .codec = codec,
        .codec_level = codec_level(settings, codec),
        .partition_leader_epoch = -1,
        .producer_id = STELE_NO_PRODUCER_ID,
        .producer_epoch = -1,
        .base_sequence = STELE_NO_SEQUENCE,
    };
    if (stele_settings_int(settings, "compression.gzip.level") == 0)
        return stele_error_set(error, STELE_INVALID_CONFIG, "compression.gzip.level=0: the value must be -1 or 1 to 9");
    enum stele_err err = settle_idempotence(producer, error);
    int64_t window = stele_settings_int(settings, "max.in.flight.requests.per.connection");
    producer->window = producer->is_idempotent ? (int32_t)stele_min_i64(window, WINDOW_MAX) : 1;
    return err;
}

static void take_identity(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_init_producer_id_response *from = &response->body.init_producer_id;
    stele_waited_end(waited, from->err, from->message);
    *(struct identity *)waited->arg =
        (struct identity){.producer_id = from->producer_id, .epoch = (int16_t)from->producer_epoch};
}

static enum stele_err first_identity(struct stele_producer *producer, struct stele_error *error)
{
    struct stele_waited waited = {.take = take_identity, .error = error, .arg = &producer->identity};
    struct stele_request request = {.header.api = STELE_API_INIT_PRODUCER_ID,
                                    .body.init_producer_id = {.producer_id = -1, .producer_epoch = -1}};
    return stele_client__wait_for(producer->client, &waited, &request);
}

static void free_queue(struct part_queue *queue)
{
    struct stele_producer *producer = queue->producer;
    struct stele_mem *mem = producer->client->env->mem;
    for (struct sealed *first = stele_producer__first(queue); first != NULL; first = stele_producer__first(queue)) {
        if (first->is_calling)
            stele_client__cancel(queue->node, STELE_FOR_PRODUCE, &first->call);
        first->is_calling = false;
        stele_producer__free_sealed(first);
    }
    stele_batch_builder_free(queue->builder);
    stele_mem_free(mem, queue->tags);
    stele_mem_free(mem, queue);
}

static struct part_queue *new_queue(struct stele_producer *producer, int32_t partition)
{
    struct stele_mem *mem = producer->client->env->mem;
    struct part_queue *queue = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(*queue));
    if (queue == NULL)
        return NULL;
    queue->producer = producer;
    queue->partition = partition;
    queue->identity = producer->identity;
    stele_list_init(&queue->sealed);
    queue->builder = stele_batch_builder_new(mem, &producer->options);
    if (queue->builder != NULL)
        return queue;
    stele_mem_free(mem, queue);
    return NULL;
}

/* Errors: NO_MEMORY; then there are as many as could be made. */
static enum stele_err make_queues(struct stele_producer *producer, int32_t count)
{
    struct part_queue **queues = stele_mem_resize(producer->client->env->mem, STELE_MEM_CLIENT, producer->queues,
                                                  (size_t)count * sizeof(struct part_queue *));
    if (queues == NULL)
        return STELE_NO_MEMORY;
    producer->queues = queues;
    for (; producer->queue_count < count; producer->queue_count++) {
        queues[producer->queue_count] = new_queue(producer, producer->queue_count);
        if (queues[producer->queue_count] == NULL)
            return STELE_NO_MEMORY;
    }
    return STELE_OK;
}

/* A topic that was deleted and made anew gets what waits. */
static enum stele_err topic_changed(struct stele_refresh *refresh, const struct stele_uuid *topic_id,
                                    int32_t partitions)
{
    struct stele_producer *producer = STELE_CONTAINER_OF(refresh, struct stele_producer, refresh);
    enum stele_err err = partitions > producer->queue_count ? make_queues(producer, partitions) : STELE_OK;
    if (err != STELE_OK)
        return err;
    if (!stele_uuid_equal(topic_id, &producer->topic_id)) {
        for (int32_t i = 0; i < producer->queue_count; i++)
            producer->queues[i]->has_footing = false; /* its logs know nothing of this producer */
    }
    producer->topic_id = *topic_id;
    producer->partitions = partitions;
    producer->sticky = producer->sticky % partitions;
    return STELE_OK;
}

/* A node that starts forgets the producers whose last records were deleted (producer_send.c, invariant 6). */
static void cut_off(struct stele_client_part *part, const struct stele_client_node *node)
{
    struct stele_producer *producer = STELE_CONTAINER_OF(part, struct stele_producer, part);
    for (int32_t i = 0; i < producer->queue_count; i++) {
        struct part_queue *queue = producer->queues[i];
        if (queue->node != node)
            continue;
        queue->has_footing = false;
        stele_refresh__note(&producer->refresh, STELE_CLOSED); /* with acks=0 nothing else tells of a new leader */
    }
}

static enum stele_err set_up(struct stele_producer *producer)
{
    struct stele_env *env = producer->client->env;
    producer->topic_id = producer->leaders.topic_id;
    producer->partitions = producer->leaders.count;
    /* Many short-lived producers must not all begin with partition 0. */
    producer->sticky = (int32_t)(env->ops->random(env) % (uint64_t)producer->partitions);
    stele_refresh__init(&producer->refresh, &producer->leaders, producer->settings, producer->topic);
    producer->refresh.changed = topic_changed;
    return make_queues(producer, producer->partitions);
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
        producer->client = producer->leaders.client = client;
        producer->delivered = delivered;
        producer->arg = arg;
        producer->part = (struct stele_client_part){
            .tick = stele_producer__tick, .deadline = stele_producer__deadline, .cut_off = cut_off};
        stele_list_init(&producer->part.link);
        producer->topic = stele_mem_string(client->env->mem, STELE_MEM_CLIENT, topic);
        err = producer->topic == NULL ? STELE_NO_MEMORY
                                      : stele_client__settings(client, settings, &producer->settings, &error);
    }
    if (err == STELE_OK)
        err = read_settings(producer, &error);
    if (err == STELE_OK)
        err = stele_client__topic_to_use(client, topic, &producer->leaders, &error);
    if (err == STELE_OK && producer->is_idempotent)
        err = first_identity(producer, &error);
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
    enum stele_err err = stele_producer__seal(queue);
    if (err == STELE_OK)
        stele_producer__drive(queue, stele_client__now_ms(queue->producer->client));
    return err;
}

/* Another record like the last one, or like most, would not go in: to send only when it comes is to wait in vain. */
static bool is_full(const struct part_queue *queue, size_t last_bytes)
{
    size_t used = stele_batch_builder_bytes(queue->builder), count = (size_t)stele_batch_builder_count(queue->builder);
    size_t next = count == 1 ? 0 : stele_min_size(last_bytes, RECORD_BYTES_AROUND + used / count);
    return used >= queue->producer->batch_bytes || used + next > queue->producer->batch_bytes;
}

struct stele_result stele_producer_send(struct stele_producer *producer, const struct stele_message *message,
                                        uint64_t tag)
{
    int32_t partition = choose_partition(producer, message);
    if (partition >= producer->partitions)
        return stele_client__failure(STELE_NOT_FOUND, "topic '%.200s' has partitions 0 to %d, not %d", producer->topic,
                                     producer->partitions - 1, partition);
    if (message->key_bytes > RECORD_BYTES_MAX || message->value_bytes > RECORD_BYTES_MAX ||
        message->header_count > HEADERS_MAX)
        return stele_client__failure(STELE_TOO_LARGE,
                                     "a record of topic '%.200s' has more than %d headers, or a key or value of more "
                                     "than %d bytes",
                                     producer->topic, (int)HEADERS_MAX, (int)RECORD_BYTES_MAX);
    struct part_queue *queue = producer->queues[partition];
    size_t bytes = RECORD_BYTES_AROUND + message->key_bytes + message->value_bytes;
    for (size_t i = 0; i < message->header_count; i++)
        bytes += 10 + strlen(message->headers[i].key) + message->headers[i].value_bytes;
    if (bytes + STELE_BATCH_HEADER_BYTES > producer->record_bytes_max)
        return stele_client__failure(STELE_MESSAGE_TOO_LARGE,
                                     "a record of %zu bytes for topic '%.200s' is larger than max.request.size=%zu",
                                     bytes + STELE_BATCH_HEADER_BYTES, producer->topic, producer->record_bytes_max);
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
    if (is_full(queue, bytes))
        queue->linger_ms = 0;
    return stele_client__result(STELE_OK, "");
}

struct stele_result stele_producer_flush(struct stele_producer *producer, int wait_ms)
{
    int64_t until = wait_ms < 0 ? INT64_MAX : stele_client__now_ms(producer->client) + wait_ms;
    for (int32_t i = 0; i < producer->queue_count; i++)
        producer->queues[i]->linger_ms = 0;
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
    producer->is_ending = true;
    if (producer->is_asking)
        stele_client__cancel(&producer->client->any, STELE_FOR_CONTROL, &producer->identity_call);
    stele_refresh__stop(&producer->refresh);
    for (int32_t i = 0; i < producer->queue_count; i++)
        free_queue(producer->queues[i]);
    stele_leaders__free(&producer->leaders);
    stele_mem_free(mem, producer->queues);
    stele_mem_free(mem, producer->topic);
    stele_settings_free(producer->settings);
    stele_mem_free(mem, producer);
}
