/* Batches on their way: sealed, sent, sent again, told of.
 *
 * A request of unknown fate (its connection ended, or the node could not say) may have been written or not. An
 * idempotent producer sends the batch again with the same sequence, by which the log knows it. When the log does not
 * accept that sequence any more, nobody can say whether the records are there: they fail. Only a batch that certainly
 * was not written gets a new sequence under a new epoch; so no record is in the log twice.
 *
 * Invariants
 *  1. The batches of a queue are in the order of their records, and those that are under way were sent in that order:
 *     a batch is sent only while all in front of it are under way or acknowledged and none behind it is.
 *  2. Deliveries come in that order: a batch is told of when it is the first.
 *     The batch that goes and those in front of it are no more than a log remembers, so that it knows each again.
 *  3. Without idempotence one batch of a queue is under way at a time, so that a retry never overtakes.
 *  4. A batch is out of its queue before its records are told of: the callback may send.
 *  5. A doubtful batch keeps its producer id, epoch and sequence.
 *  6. Several batches of a queue are under way only while the log is known to have the producer's state: without it a
 *     log takes any sequence, so that a batch could overtake one that was refused. It is known by an answer of the
 *     connection of now: a node that is started anew forgets whom it holds no record of.
 *  7. The batches of a queue that are under way went to one node: where another one leads, nothing goes to it before
 *     they have ended. */
#include "client/producer_internal.h"

#include "base/check.h"

#include <string.h>

enum { FOOTING_MS = 600000 /* well below producer.id.expiration.ms, after which a log forgets */ };

struct sealed *stele_producer__first(const struct part_queue *queue)
{
    return stele_list_is_empty(&queue->sealed) ? NULL : STELE_CONTAINER_OF(queue->sealed.next, struct sealed, link);
}

static struct sealed *sealed_of(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct sealed, link);
}

static void take_out(struct sealed *sealed)
{
    struct part_queue *queue = sealed->queue;
    STELE_ASSERT(!sealed->is_calling);
    stele_list_remove(&sealed->link);
    stele_list_init(&sealed->link);
    queue->sealed_count--;
    queue->acked_count -= sealed->is_acked;
    queue->unstamped_count -= !sealed->is_stamped;
}

void stele_producer__free_sealed(struct sealed *sealed)
{
    struct stele_producer *producer = sealed->queue->producer;
    if (!stele_list_is_empty(&sealed->link))
        take_out(sealed);
    producer->buffered_bytes -= (int64_t)sealed->batch->count;
    stele_buf_unref(sealed->batch);
    stele_mem_free(producer->client->env->mem, sealed->tags);
    stele_mem_free(producer->client->env->mem, sealed);
}

/* Tells of every record of the first batch, then forgets it (invariants 2 and 4). */
static void settle(struct part_queue *queue, enum stele_err err, const char *text)
{
    struct stele_producer *producer = queue->producer;
    struct sealed *sealed = stele_producer__first(queue);
    struct stele_delivery delivery = {.partition = queue->partition, .offset = -1};
    bool has_offset = err == STELE_OK && sealed->acked_offset >= 0;
    delivery.result = err == STELE_OK
                          ? stele_client__result(err, "")
                          : stele_client__failure(err, "%.200s-%d: %.250s", producer->topic, queue->partition, text);
    if (err == STELE_OK)
        delivery.durability = (int)sealed->acked_durability;
    else if (producer->is_idempotent && sealed->is_stamped)
        queue->is_broken = true; /* its sequences stay unused */
    take_out(sealed);
    queue->backoff = (struct stele_backoff){0};
    for (int32_t i = 0; i < sealed->count; i++) {
        delivery.tag = sealed->tags[i];
        if (has_offset)
            delivery.offset = sealed->acked_offset + i;
        producer->pending--;
        producer->client->callbacks++;
        producer->delivered(producer->arg, &delivery);
    }
    stele_producer__free_sealed(sealed);
}

static void settle_acked(struct part_queue *queue)
{
    for (struct sealed *first = stele_producer__first(queue); first != NULL && first->is_acked;
         first = stele_producer__first(queue))
        settle(queue, STELE_OK, "");
}

/* What a node says only when it did not write the batch. Of an earlier request with it that tells nothing. */
static bool is_refusal(enum stele_err err)
{
    static const enum stele_err refusals[] = {STELE_CORRUPT_MESSAGE,
                                              STELE_UNKNOWN_TOPIC_OR_PARTITION,
                                              STELE_UNKNOWN_TOPIC_ID,
                                              STELE_MESSAGE_TOO_LARGE,
                                              STELE_RECORD_LIST_TOO_LARGE,
                                              STELE_NOT_ENOUGH_REPLICAS,
                                              STELE_INVALID_REQUIRED_ACKS,
                                              STELE_INVALID_TIMESTAMP,
                                              STELE_INVALID_REQUEST,
                                              STELE_INVALID_RECORD,
                                              STELE_UNSUPPORTED_FOR_MESSAGE_FORMAT,
                                              STELE_UNSUPPORTED_COMPRESSION_TYPE,
                                              STELE_UNSUPPORTED_VERSION,
                                              STELE_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                              STELE_UNKNOWN_PRODUCER_ID,
                                              STELE_INVALID_PRODUCER_EPOCH,
                                              STELE_THROTTLING_QUOTA_EXCEEDED};
    for (size_t i = 0; i < STELE_ARRAY_LEN(refusals); i++) {
        if (refusals[i] == err)
            return true;
    }
    return false;
}

static bool is_too_large(enum stele_err err)
{
    return err == STELE_MESSAGE_TOO_LARGE || err == STELE_RECORD_LIST_TOO_LARGE;
}

/* The log waits for another sequence, or knows the producer under another epoch. */
static bool is_identity_error(enum stele_err err)
{
    return err == STELE_OUT_OF_ORDER_SEQUENCE_NUMBER || err == STELE_UNKNOWN_PRODUCER_ID ||
           err == STELE_INVALID_PRODUCER_EPOCH;
}

/* Those that certainly were not written get new sequences when they are sent (invariant 5). */
static void unstamp(struct part_queue *queue)
{
    for (struct stele_list *at = queue->sealed.next; at != &queue->sealed; at = at->next) {
        struct sealed *sealed = sealed_of(at);
        if (sealed->is_doubtful || sealed->is_acked || !sealed->is_stamped)
            continue;
        STELE_ASSERT(!sealed->is_calling);
        sealed->is_stamped = false;
        queue->unstamped_count++;
    }
}

/* Whether the batch goes again under another epoch or producer id. */
static bool mend_identity(struct sealed *sealed, enum stele_err err)
{
    struct part_queue *queue = sealed->queue;
    if (!queue->producer->is_idempotent || !is_identity_error(err) || sealed->is_doubtful)
        return false;
    queue->is_broken = true;
    queue->needs_identity = queue->needs_identity || err == STELE_INVALID_PRODUCER_EPOCH;
    return true;
}

/* The first batch failed: it goes again, perhaps as two, or its records are told of. */
static void fail_first(struct sealed *sealed, enum stele_err err, const char *text)
{
    struct part_queue *queue = sealed->queue;
    struct stele_client *client = queue->producer->client;
    if (is_too_large(err) && sealed->count > 1) {
        enum stele_err split_err = stele_producer__split(queue);
        if (split_err == STELE_OK)
            return;
        err = split_err == STELE_NO_MEMORY ? split_err : err;
    }
    bool is_mended = mend_identity(sealed, err);
    bool may_retry = is_mended || (stele_client__may_retry(err) && !is_identity_error(err));
    if (may_retry && stele_client__now_ms(client) < sealed->deadline_ms &&
        queue->backoff.attempts < queue->producer->retries_max) {
        stele_client__wait_before_retry(client, &queue->backoff);
        return;
    }
    if (is_identity_error(err) && sealed->is_doubtful)
        text = "an earlier request ended without an answer, and the log cannot say any more whether it wrote the "
               "record: read the partition's end before sending it again";
    settle(queue, err, text);
    settle_acked(queue);
}

/* Takes back what was not sent of the batches behind `from`. */
static void call_back_unsent(struct part_queue *queue, struct stele_list *from)
{
    for (struct stele_list *at = from->next; at != &queue->sealed; at = at->next) {
        struct sealed *sealed = sealed_of(at);
        if (!sealed->is_calling || sealed->call.is_sent)
            continue;
        stele_client__cancel(queue->node, STELE_FOR_PRODUCE, &sealed->call);
        sealed->is_calling = false;
        queue->calling_count--;
    }
}

/* Another node leads: what was not sent yet goes there, and for the rest the old one has a little time. It may never
 * answer, and an idempotent producer can do without. */
static void leave_node(struct part_queue *queue, int64_t now_ms)
{
    struct stele_producer *producer = queue->producer;
    int64_t until_ms = now_ms + stele_settings_int(producer->client->settings, "retry.backoff.max.ms");
    for (struct stele_list *at = queue->sealed.next; at != &queue->sealed; at = at->next) {
        struct sealed *sealed = sealed_of(at);
        if (!sealed->is_calling)
            continue;
        if (sealed->call.is_sent && producer->is_idempotent)
            sealed->call.deadline_ms = stele_min_i64(sealed->call.deadline_ms, until_ms);
    }
    call_back_unsent(queue, &queue->sealed);
}

/* Whether batches may go to the node that leads now (invariant 7). */
static bool follow_leader(struct part_queue *queue, int64_t now_ms)
{
    struct stele_client_node *node = stele_leaders__route(&queue->producer->leaders, queue->partition);
    if (node != queue->node && queue->calling_count > 0)
        leave_node(queue, now_ms);
    if (stele_leaders__look(&queue->producer->leaders, queue->partition)) {
        queue->backoff.at_ms = 0;
        queue->has_footing = false;
    }
    if (node == queue->node || node == NULL || queue->calling_count > 0)
        return node == queue->node && node != NULL;
    queue->node = node;
    queue->backoff.at_ms = 0;
    queue->has_footing = false;
    return true;
}

static const struct stele_produce_result *result_of(const struct sealed *sealed, const struct stele_answer *answer)
{
    if (answer->response == NULL)
        return NULL;
    const struct stele_produce_response *produced = &answer->response->body.produce;
    bool is_ours = produced->result_count == 1 && produced->results[0].partition == sealed->queue->partition;
    return is_ours ? &produced->results[0] : NULL;
}

/* True when the answer says who leads instead. */
static bool take_hint(struct stele_producer *producer, const struct stele_produce_result *result,
                      const struct stele_answer *answer)
{
    if (result == NULL || !stele_uuid_equal(&result->topic_id, &producer->leaders.topic_id))
        return false;
    const struct stele_produce_response *produced = &answer->response->body.produce;
    struct stele_leader_hint hint = {.partition = result->partition,
                                     .node_id = result->current_leader_id,
                                     .epoch = result->current_leader_epoch,
                                     .nodes = produced->nodes,
                                     .node_count = produced->node_count};
    return stele_leaders__hint(&producer->leaders, &hint);
}

static void produce_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct sealed *sealed = STELE_CONTAINER_OF(call, struct sealed, call);
    struct part_queue *queue = sealed->queue;
    struct stele_producer *producer = queue->producer;
    const struct stele_produce_result *result = result_of(sealed, answer);
    sealed->is_calling = false;
    queue->calling_count--;
    if (producer->is_ending)
        return;
    if (err == STELE_OK && !call->is_oneway)
        err = result == NULL ? STELE_UNKNOWN_SERVER_ERROR : result->err;
    if (err == STELE_OK) {
        sealed->is_acked = true;
        sealed->acked_offset = result == NULL ? -1 : result->base_offset;
        sealed->acked_durability = result == NULL ? STELE_DURABILITY_NONE : result->durability;
        queue->acked_count++;
        /* An answer may be of a topic that was made anew since. */
        queue->has_footing = result != NULL && stele_uuid_equal(&result->topic_id, &producer->topic_id);
        queue->acked_ms = stele_client__now_ms(producer->client);
        settle_acked(queue);
        return;
    }
    if (call->is_sent && (result == NULL || !is_refusal(err)))
        sealed->is_doubtful = true;
    queue->has_footing = false;
    if (!take_hint(producer, result, answer))
        stele_refresh__note(&producer->refresh, err);
    call_back_unsent(queue, &sealed->link); /* they would only be refused */
    if (sealed != stele_producer__first(queue))
        return; /* it goes again, after those in front of it */
    const char *text = stele_err_text(err);
    if (result != NULL && result->message[0] != 0)
        text = result->message;
    else if (result == NULL && producer->client->group.trouble[0] != 0)
        text = producer->client->group.trouble;
    fail_first(sealed, err, text);
}

/* Identities */

static void identity_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_producer *producer = STELE_CONTAINER_OF(call, struct stele_producer, identity_call);
    producer->is_asking = false;
    if (err == STELE_OK)
        err = answer->response->body.init_producer_id.err;
    if (err != STELE_OK) {
        stele_client__wait_before_retry(producer->client, &producer->identity_backoff);
        return;
    }
    producer->identity = (struct identity){.producer_id = answer->response->body.init_producer_id.producer_id,
                                           .epoch = (int16_t)answer->response->body.init_producer_id.producer_epoch};
    producer->wants_identity = false;
    producer->identity_backoff = (struct stele_backoff){0};
}

static void ask_identity(struct stele_producer *producer)
{
    struct stele_request request = {.header.api = STELE_API_INIT_PRODUCER_ID,
                                    .body.init_producer_id = {.producer_id = -1, .producer_epoch = -1}};
    producer->identity_call = (struct stele_call){.done = identity_done};
    stele_list_init(&producer->identity_call.link);
    producer->is_asking = true;
    if (stele_client__call(&producer->client->any, STELE_FOR_CONTROL, &producer->identity_call, &request, NULL) ==
        STELE_OK)
        return;
    producer->is_asking = false;
    stele_client__wait_before_retry(producer->client, &producer->identity_backoff);
}

/* Makes the queue's epoch and sequences good before its first batch goes; false when it must wait for a new id. Only
 * while nothing is under way. */
static bool renew_identity(struct part_queue *queue)
{
    struct stele_producer *producer = queue->producer;
    if (!queue->needs_identity && queue->identity.epoch < INT16_MAX) {
        queue->identity.epoch++;
    } else if (producer->identity.producer_id == queue->identity.producer_id) {
        producer->wants_identity = true;
        return false;
    } else {
        queue->identity = producer->identity;
    }
    queue->needs_identity = queue->is_broken = queue->has_footing = false;
    queue->next_sequence = 0;
    unstamp(queue);
    return true;
}

/* Its bytes are the batch's alone: a connection may still hold those of the last try. */
static enum stele_err own_batch(struct sealed *sealed)
{
    struct stele_buf *shared = sealed->batch;
    if (shared->refs == 1)
        return STELE_OK;
    struct stele_buf *own = stele_buf_new(sealed->queue->producer->client->env->mem, STELE_MEM_CODEC, shared->count);
    if (own == NULL)
        return STELE_NO_MEMORY;
    memcpy(own->bytes, shared->bytes, shared->count);
    own->count = shared->count;
    stele_buf_unref(shared);
    sealed->batch = own;
    return STELE_OK;
}

static enum stele_err stamp(struct sealed *sealed)
{
    struct part_queue *queue = sealed->queue;
    enum stele_err err = own_batch(sealed);
    if (err != STELE_OK)
        return err;
    stele_batch_restamp_producer(sealed->batch->bytes, sealed->batch->count, queue->identity.producer_id,
                                 queue->identity.epoch, queue->next_sequence);
    sealed->is_stamped = true;
    queue->unstamped_count--;
    queue->next_sequence = stele_sequence_add(queue->next_sequence, sealed->count);
    return STELE_OK;
}

/* Sending */

/* How many batches may be under way (invariants 3 and 6). */
static int32_t window_of(const struct part_queue *queue)
{
    return queue->is_broken || !queue->has_footing ? 1 : queue->producer->window;
}

/* The next batch that may go (invariants 1 and 3); NULL: none before an answer comes. */
static struct sealed *next_to_send(const struct part_queue *queue)
{
    int32_t passed = 0, position = 0, window = window_of(queue);
    for (struct stele_list *at = queue->sealed.next; at != &queue->sealed && position < window; at = at->next) {
        struct sealed *sealed = sealed_of(at);
        position++;
        passed += sealed->is_calling;
        if (sealed->is_calling || sealed->is_acked)
            continue;
        return passed == queue->calling_count ? sealed : NULL;
    }
    return NULL;
}

static enum stele_err start_call(struct sealed *sealed)
{
    struct part_queue *queue = sealed->queue;
    struct stele_producer *producer = queue->producer;
    if (producer->is_idempotent && !sealed->is_stamped) {
        enum stele_err err = stamp(sealed);
        if (err != STELE_OK)
            return err;
    }
    struct stele_produce_partition partition = {
        .topic_id = producer->topic_id, .partition = queue->partition, .records_bytes = (uint32_t)sealed->batch->count};
    struct stele_request request = {.header.api = STELE_API_PRODUCE,
                                    .body.produce = {.acks = producer->acks,
                                                     .timeout_ms = producer->request_timeout_ms,
                                                     .partitions = &partition,
                                                     .partition_count = 1}};
    sealed->call = (struct stele_call){.done = produce_done, .is_oneway = producer->acks == 0};
    stele_list_init(&sealed->call.link);
    sealed->is_calling = true;
    queue->calling_count++;
    enum stele_err err = stele_client__call(queue->node, STELE_FOR_PRODUCE, &sealed->call, &request, sealed->batch);
    if (err == STELE_OK) {
        sealed->call.deadline_ms = stele_min_i64(sealed->call.deadline_ms, sealed->deadline_ms);
        return STELE_OK;
    }
    sealed->is_calling = false;
    queue->calling_count--;
    return err;
}

/* Takes the batch being built out of the builder. */
enum stele_err stele_producer__seal(struct part_queue *queue)
{
    struct stele_producer *producer = queue->producer;
    struct stele_mem *mem = producer->client->env->mem;
    struct stele_batch_options options = producer->options;
    int32_t count = stele_batch_builder_count(queue->builder);
    size_t plain_bytes = stele_batch_builder_bytes(queue->builder);
    bool is_stamped =
        !producer->is_idempotent || (queue->unstamped_count == 0 && !queue->is_broken && !queue->needs_identity);
    struct sealed *sealed = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(*sealed));
    if (sealed == NULL)
        return STELE_NO_MEMORY;
    if (producer->is_idempotent && is_stamped) {
        options.producer_id = queue->identity.producer_id;
        options.producer_epoch = queue->identity.epoch;
        options.base_sequence = queue->next_sequence;
    }
    stele_batch_builder_set_options(queue->builder, &options);
    enum stele_err err = stele_batch_builder_finish(queue->builder, &sealed->batch);
    if (err != STELE_OK) {
        stele_mem_free(mem, sealed);
        return err;
    }
    producer->buffered_bytes += (int64_t)sealed->batch->count - (int64_t)plain_bytes;
    sealed->queue = queue;
    sealed->tags = queue->tags;
    sealed->count = count;
    sealed->deadline_ms = queue->deadline_ms;
    sealed->is_stamped = is_stamped;
    queue->tags = NULL;
    queue->tag_capacity = 0;
    stele_list_push(&queue->sealed, &sealed->link);
    queue->sealed_count++;
    queue->unstamped_count += !is_stamped;
    if (producer->is_idempotent && is_stamped)
        queue->next_sequence = stele_sequence_add(queue->next_sequence, count);
    if (producer->sticky == queue->partition)
        producer->sticky = (queue->partition + 1) % producer->partitions;
    return STELE_OK;
}

/* Whether the batch being built is sealed once its time has come: not while others wait, it fills on meanwhile. */
static bool may_seal(const struct part_queue *queue)
{
    return stele_batch_builder_count(queue->builder) > 0 &&
           queue->sealed_count == queue->calling_count + queue->acked_count && queue->calling_count < window_of(queue);
}

static void send_next(struct part_queue *queue, int64_t now_ms)
{
    for (struct sealed *next = next_to_send(queue); next != NULL && now_ms >= queue->backoff.at_ms;
         next = next_to_send(queue)) {
        if ((queue->is_broken || queue->needs_identity) && !next->is_doubtful && !renew_identity(queue))
            return;
        if (start_call(next) != STELE_OK) { /* out of memory */
            stele_client__wait_before_retry(queue->producer->client, &queue->backoff);
            return;
        }
    }
}

void stele_producer__drive(struct part_queue *queue, int64_t now_ms)
{
    if (now_ms - queue->acked_ms >= FOOTING_MS)
        queue->has_footing = false;
    if (may_seal(queue) && now_ms >= queue->linger_ms && stele_producer__seal(queue) != STELE_OK) {
        stele_client__wait_before_retry(queue->producer->client, &queue->backoff); /* out of memory */
        queue->linger_ms = queue->backoff.at_ms;
    }
    if (follow_leader(queue, now_ms))
        send_next(queue, now_ms);
}

/* What waited too long between two tries. Those behind the first one are looked at when they are first. */
static void expire(struct part_queue *queue, int64_t now_ms)
{
    struct sealed *first = stele_producer__first(queue);
    for (; first != NULL && !first->is_calling && now_ms >= first->deadline_ms; first = stele_producer__first(queue)) {
        settle(queue, STELE_REQUEST_TIMED_OUT, "delivery.timeout.ms passed before the node took the record");
        settle_acked(queue);
    }
}

void stele_producer__tick(struct stele_client_part *part, int64_t now_ms)
{
    struct stele_producer *producer = STELE_CONTAINER_OF(part, struct stele_producer, part);
    for (int32_t i = 0; i < producer->queue_count; i++) {
        expire(producer->queues[i], now_ms);
        stele_producer__drive(producer->queues[i], now_ms);
    }
    stele_refresh__tick(&producer->refresh, now_ms);
    if (producer->wants_identity && !producer->is_asking && now_ms >= producer->identity_backoff.at_ms)
        ask_identity(producer);
}

static int64_t queue_deadline(const struct part_queue *queue)
{
    int64_t deadline = INT64_MAX;
    const struct sealed *first = stele_producer__first(queue), *next = next_to_send(queue);
    bool waits_for_identity = queue->needs_identity || (queue->is_broken && queue->identity.epoch == INT16_MAX);
    const struct stele_client_node *node = stele_leaders__route(&queue->producer->leaders, queue->partition);
    bool waits_for_node = node == NULL || node != queue->node;
    if (may_seal(queue))
        deadline = queue->linger_ms;
    if (first != NULL && !first->is_calling)
        deadline = stele_min_i64(deadline, first->deadline_ms);
    if (next != NULL && !waits_for_node &&
        (!waits_for_identity || next->is_doubtful || !queue->producer->wants_identity))
        deadline = stele_min_i64(deadline, queue->backoff.at_ms);
    return deadline;
}

int64_t stele_producer__deadline(const struct stele_client_part *part)
{
    const struct stele_producer *producer =
        (const struct stele_producer *)(const void *)((const char *)part - offsetof(struct stele_producer, part));
    int64_t deadline = stele_refresh__deadline(&producer->refresh);
    for (int32_t i = 0; i < producer->queue_count; i++)
        deadline = stele_min_i64(deadline, queue_deadline(producer->queues[i]));
    if (producer->wants_identity && !producer->is_asking)
        deadline = stele_min_i64(deadline, producer->identity_backoff.at_ms);
    return deadline;
}
