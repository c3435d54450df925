/* Reads partitions by long polls, one request for all of them at a time. The next one is sent as soon as an answer
 * came, so that it is on its way while the records are read. Batches are walked where they lie in the answer's frame.
 *
 * Invariants
 *  1. `position` of a partition only grows until it is assigned anew; every record at or above it is still to come.
 *  2. Answers and ready ranges carry the generation of the assignment that they were asked for; those of an older one
 *     are dropped.
 *  3. A batch that fails its checksum is never skipped: the range is fetched again, and after a few tries the partition
 *     fails. */
#include "client/consumer_internal.h"

#include "base/check.h"

#include <string.h>

enum {
    READY_MAX = 2, /* ranges held unread before the next request waits */
    DAMAGE_TRIES = 3,
};

struct ready *stele_consumer__first_ready(const struct stele_consumer *consumer)
{
    return stele_list_is_empty(&consumer->ready) ? NULL : STELE_CONTAINER_OF(consumer->ready.next, struct ready, link);
}

void stele_consumer__free_ready(struct stele_consumer *consumer, struct ready *ready)
{
    stele_list_remove(&ready->link);
    stele_buf_unref(ready->frame);
    stele_mem_free(consumer->client->env->mem, ready);
}

/* Invariant 2. */
void stele_consumer__restart(struct assigned *assigned, int64_t offset)
{
    assigned->generation++;
    assigned->fetched = offset;
}

void stele_consumer__fail(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err,
                          const char *text)
{
    assigned->err = err;
    consumer->failed = assigned;
    consumer->failure = stele_client__failure(err, "%.200s-%d at offset %lld: %.200s", consumer->topic,
                                              assigned->partition, (long long)assigned->position, text);
}

void stele_consumer__refetch(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err)
{
    stele_consumer__restart(assigned, assigned->position);
    if (assigned->backoff.attempts >= DAMAGE_TRIES || !stele_client__retry(consumer->client, &assigned->backoff, err))
        stele_consumer__fail(consumer, assigned, err, stele_err_text(err));
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
        assigned->fetched = stele_max_i64(assigned->fetched, stele_batch_last_offset(&header) + 1);
        at += size;
        bytes -= (size_t)size;
    }
    return at;
}

/* Not one whole batch that is new: a larger one than was asked for, or bytes that are none. */
static void take_nothing(struct stele_consumer *consumer, struct assigned *assigned, const uint8_t *at, size_t bytes)
{
    bool is_cut = bytes < STELE_BATCH_PREFIX_BYTES || stele_batch_size(at) > (int64_t)bytes;
    if (is_cut && assigned->max_bytes < INT32_MAX)
        assigned->max_bytes = assigned->max_bytes > INT32_MAX / 2 ? INT32_MAX : assigned->max_bytes * 2;
    else
        stele_consumer__refetch(consumer, assigned, STELE_CORRUPT_MESSAGE);
}

static void take_records(struct stele_consumer *consumer, struct assigned *assigned,
                         const struct stele_fetch_result *result, const struct stele_answer *answer, const uint8_t *at)
{
    size_t aborted_bytes = result->aborted_count * sizeof(struct aborted);
    struct ready *ready = stele_mem_alloc(consumer->client->env->mem, STELE_MEM_CLIENT, sizeof(*ready) + aborted_bytes);
    if (ready == NULL) {
        (void)stele_client__retry(consumer->client, &assigned->backoff, STELE_NO_MEMORY);
        return;
    }
    int64_t before = assigned->fetched;
    const uint8_t *end = whole_batches(assigned, at, result->records_bytes);
    if (assigned->fetched == before) {
        stele_mem_free(consumer->client->env->mem, ready);
        take_nothing(consumer, assigned, at, result->records_bytes);
        return;
    }
    *ready = (struct ready){.frame = stele_buf_ref(answer->frame),
                            .assigned = assigned,
                            .generation = assigned->generation,
                            .at = at,
                            .end = end,
                            .aborted_count = result->aborted_count};
    for (size_t i = 0; i < result->aborted_count; i++)
        ready->aborted[i] = (struct aborted){.transaction = result->aborted[i]};
    stele_list_init(&ready->link);
    stele_list_push(&consumer->ready, &ready->link);
    assigned->backoff.at_ms = 0;
}

/* Damage that the node knows of does not heal by asking again; what came before it is to be read first. */
static void take_refusal(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err)
{
    bool is_final = err == STELE_CORRUPT_MESSAGE && assigned->backoff.attempts >= DAMAGE_TRIES &&
                    assigned->position >= assigned->fetched;
    stele_refresh__note(&consumer->refresh, err);
    if (is_final || !stele_client__retry(consumer->client, &assigned->backoff, err))
        stele_consumer__fail(consumer, assigned, err, stele_err_text(err));
}

static void take_result(struct stele_consumer *consumer, const struct stele_fetch_result *result,
                        const struct stele_answer *answer, const uint8_t *at)
{
    if (result->partition < 0 || result->partition >= consumer->partitions ||
        !stele_uuid_equal(&result->topic_id, &consumer->topic_id))
        return;
    struct assigned *assigned = consumer->assigned[result->partition];
    if (!assigned->is_assigned || assigned->generation != assigned->asked_generation)
        return;
    if (result->err == STELE_OK) {
        if (result->records_bytes > 0)
            take_records(consumer, assigned, result, answer, at);
    } else if (result->err == STELE_OFFSET_OUT_OF_RANGE) {
        stele_consumer__out_of_range(consumer, assigned, result->log_start_offset,
                                     consumer->isolation == STELE_READ_COMMITTED ? result->last_stable_offset
                                                                                 : result->high_watermark);
    } else {
        take_refusal(consumer, assigned, result->err);
    }
}

static void fetch_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(call, struct stele_consumer, call);
    consumer->is_calling = false;
    if (err == STELE_OK)
        err = answer->response->body.fetch.err;
    if (err != STELE_OK) {
        if (!stele_client__retry(consumer->client, &consumer->backoff, err))
            consumer->failure = stele_client__failure(err, "topic '%.200s': %s", consumer->topic, stele_err_text(err));
        return;
    }
    consumer->backoff = (struct stele_backoff){0};
    const struct stele_fetch_response *fetch = &answer->response->body.fetch;
    const uint8_t *at = answer->records;
    size_t left = answer->records_bytes;
    for (size_t i = 0; i < fetch->result_count; i++) {
        size_t bytes = fetch->results[i].records_bytes;
        if (bytes > left) {
            (void)stele_client__retry(consumer->client, &consumer->backoff, STELE_CLOSED);
            return; /* fewer records than it says: what came so far is good, the rest is asked for again */
        }
        take_result(consumer, &fetch->results[i], answer, at);
        at += bytes;
        left -= bytes;
    }
}

static bool is_wanted(const struct assigned *assigned, int64_t now_ms)
{
    return assigned->is_assigned && !assigned->is_paused && !assigned->needs_reset && assigned->err == STELE_OK &&
           assigned->backoff.at_ms <= now_ms;
}

/* Into the consumer's array; how many. */
static size_t list_wanted(struct stele_consumer *consumer, int64_t now_ms)
{
    size_t count = 0;
    for (int32_t i = 0; i < consumer->partitions; i++) {
        struct assigned *assigned = consumer->assigned[i];
        if (!is_wanted(assigned, now_ms))
            continue;
        assigned->asked_generation = assigned->generation;
        consumer->asked[count++] = (struct stele_fetch_partition){.topic_id = consumer->topic_id,
                                                                  .partition = i,
                                                                  .fetch_offset = assigned->fetched,
                                                                  .max_bytes = assigned->max_bytes,
                                                                  STELE_FETCH_PARTITION_OF_CONSUMER};
    }
    return count;
}

static void start_fetch(struct stele_consumer *consumer, int64_t now_ms)
{
    size_t count = list_wanted(consumer, now_ms);
    if (count == 0)
        return;
    struct stele_request request = {
        .header.api = STELE_API_FETCH,
        .body.fetch = {STELE_FETCH_OF_CONSUMER,
                       .max_wait_ms = (int32_t)stele_settings_int(consumer->settings, "fetch.max.wait.ms"),
                       .min_bytes = (int32_t)stele_settings_int(consumer->settings, "fetch.min.bytes"),
                       .max_bytes = (int32_t)stele_settings_int(consumer->settings, "fetch.max.bytes"),
                       .isolation = consumer->isolation, .partitions = consumer->asked, .partition_count = count}};
    consumer->call = (struct stele_call){.done = fetch_done};
    stele_list_init(&consumer->call.link);
    consumer->is_calling = true;
    if (stele_link_call(&consumer->link, &consumer->call, &request, NULL) == STELE_OK) {
        consumer->call.deadline_ms += request.body.fetch.max_wait_ms;
        return;
    }
    consumer->is_calling = false;
    (void)stele_client__retry(consumer->client, &consumer->backoff, STELE_NO_MEMORY);
}

/* Nothing is asked for while enough lies ready. */
static bool is_full(const struct stele_consumer *consumer)
{
    int count = 0;
    for (const struct stele_list *at = consumer->ready.next; at != &consumer->ready && count < READY_MAX; at = at->next)
        count++;
    return count == READY_MAX;
}

static void consumer_tick(struct stele_client_part *part, int64_t now_ms)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(part, struct stele_consumer, part);
    stele_refresh__tick(&consumer->refresh, now_ms);
    stele_consumer__drive_resets(consumer, now_ms);
    if (!consumer->is_calling && now_ms >= consumer->backoff.at_ms && !is_full(consumer))
        start_fetch(consumer, now_ms);
}

static int64_t fetch_deadline(const struct stele_consumer *consumer)
{
    int64_t deadline = INT64_MAX;
    if (consumer->is_calling || is_full(consumer))
        return deadline;
    for (int32_t i = 0; i < consumer->partitions; i++) {
        const struct assigned *assigned = consumer->assigned[i];
        if (is_wanted(assigned, INT64_MAX))
            deadline = stele_min_i64(deadline, assigned->backoff.at_ms);
    }
    return deadline == INT64_MAX ? deadline : stele_max_i64(deadline, consumer->backoff.at_ms);
}

static int64_t consumer_deadline(const struct stele_client_part *part)
{
    const struct stele_consumer *consumer =
        (const struct stele_consumer *)(const void *)((const char *)part - offsetof(struct stele_consumer, part));
    int64_t deadline = stele_min_i64(fetch_deadline(consumer), stele_consumer__reset_deadline(consumer));
    return stele_min_i64(deadline, stele_refresh__deadline(&consumer->refresh));
}

/* Room for `partitions`, of which none is assigned that was not. Errors: NO_MEMORY; then there are as many as could be
 * made. */
static enum stele_err grow(struct stele_consumer *consumer, int32_t partitions)
{
    struct stele_mem *mem = consumer->client->env->mem;
    struct assigned **assigned =
        stele_mem_resize(mem, STELE_MEM_CLIENT, consumer->assigned, (size_t)partitions * sizeof(*assigned));
    if (assigned == NULL)
        return STELE_NO_MEMORY;
    consumer->assigned = assigned;
    struct stele_fetch_partition *asked =
        stele_mem_resize(mem, STELE_MEM_CLIENT, consumer->asked, (size_t)partitions * sizeof(*asked));
    if (asked == NULL)
        return STELE_NO_MEMORY;
    consumer->asked = asked;
    for (; consumer->partitions < partitions; consumer->partitions++) {
        assigned[consumer->partitions] = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(**assigned));
        if (assigned[consumer->partitions] == NULL)
            return STELE_NO_MEMORY;
    }
    return STELE_OK;
}

static enum stele_err topic_changed(struct stele_refresh *refresh, const struct stele_uuid *topic_id,
                                    int32_t partitions)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(refresh, struct stele_consumer, refresh);
    if (!stele_uuid_equal(topic_id, &consumer->topic_id)) {
        consumer->failed = NULL;
        consumer->failure = stele_client__failure(STELE_INCONSISTENT_TOPIC_ID,
                                                  "topic '%.200s' was deleted and made anew: its offsets mean other "
                                                  "records now; make a new consumer",
                                                  consumer->topic);
        return STELE_OK;
    }
    return partitions > consumer->partitions ? grow(consumer, partitions) : STELE_OK;
}

static enum stele_err set_up(struct stele_consumer *consumer, int32_t partitions)
{
    const char *isolation = stele_settings_text(consumer->settings, "isolation.level");
    consumer->isolation = strcmp(isolation, "read_committed") == 0 ? STELE_READ_COMMITTED : STELE_READ_UNCOMMITTED;
    consumer->check_crcs = stele_settings_bool(consumer->settings, "check.crcs");
    stele_refresh__init(&consumer->refresh, consumer->client, consumer->settings, consumer->topic);
    consumer->refresh.changed = topic_changed;
    return grow(consumer, partitions);
}

struct stele_consumer *stele_consumer_new(struct stele_client *client, const char *topic,
                                          const struct stele_setting *settings, struct stele_result *result)
{
    struct stele_error error = {.text = ""};
    struct stele_consumer *consumer = stele_mem_alloc(client->env->mem, STELE_MEM_CLIENT, sizeof(*consumer));
    enum stele_err err = consumer == NULL ? STELE_NO_MEMORY : STELE_OK;
    int32_t partitions = 0;
    if (err == STELE_OK) {
        consumer->client = client;
        consumer->part = (struct stele_client_part){
            .connection = &consumer->link, .tick = consumer_tick, .deadline = consumer_deadline};
        stele_client__link_init(client, &consumer->link);
        stele_list_init(&consumer->part.link);
        stele_list_init(&consumer->ready);
        consumer->topic = stele_mem_string(client->env->mem, STELE_MEM_CLIENT, topic);
        err = consumer->topic == NULL ? STELE_NO_MEMORY
                                      : stele_client__settings(client, settings, &consumer->settings, &error);
    }
    if (err == STELE_OK)
        err = stele_consumer__read_reset(consumer, &error);
    if (err == STELE_OK)
        err = stele_client__topic_to_use(client, topic, &consumer->topic_id, &partitions, &error);
    if (err == STELE_OK)
        err = set_up(consumer, partitions);
    if (result != NULL)
        *result = stele_client__result(err, error.text);
    if (err != STELE_OK) {
        stele_consumer_free(consumer);
        return NULL;
    }
    stele_list_push(&client->consumers, &consumer->part.link);
    return consumer;
}

int32_t stele_consumer_partitions(const struct stele_consumer *consumer)
{
    return consumer->partitions;
}

static void forget_failure(struct stele_consumer *consumer, const struct assigned *assigned)
{
    if (consumer->failed != assigned)
        return;
    consumer->failed = NULL;
    consumer->failure = stele_client__result(STELE_OK, "");
    for (int32_t i = 0; i < consumer->partitions; i++) {
        struct assigned *other = consumer->assigned[i];
        if (other != assigned && other->is_assigned && other->err != STELE_OK)
            stele_consumer__fail(consumer, other, other->err, stele_err_text(other->err));
    }
}

/* The batch being read is given up when it is of this partition. */
static void stop_walking(struct stele_consumer *consumer, const struct assigned *assigned)
{
    if (!consumer->is_walking || consumer->walked != assigned)
        return;
    consumer->is_walking = false;
    stele_record_walker_deinit(&consumer->walker);
}

struct stele_result stele_consumer_assign(struct stele_consumer *consumer, int32_t partition, int64_t offset)
{
    if (partition < 0 || partition >= consumer->partitions)
        return stele_client__failure(STELE_NOT_FOUND, "topic '%.200s' has partitions 0 to %d, not %d", consumer->topic,
                                     consumer->partitions - 1, partition);
    if (offset < 0)
        return stele_client__failure(STELE_INVALID_ARGUMENT, "%lld is no offset; stele_offset_at gives one",
                                     (long long)offset);
    struct assigned *assigned = consumer->assigned[partition];
    stop_walking(consumer, assigned);
    forget_failure(consumer, assigned);
    *assigned =
        (struct assigned){.partition = partition,
                          .position = offset,
                          .is_assigned = true,
                          .log_start = -1,
                          .log_end = -1,
                          .generation = assigned->generation,
                          .max_bytes = (int32_t)stele_settings_int(consumer->settings, "max.partition.fetch.bytes")};
    stele_consumer__restart(assigned, offset);
    return stele_client__result(STELE_OK, "");
}

void stele_consumer_unassign(struct stele_consumer *consumer, int32_t partition)
{
    STELE_ASSERT(partition >= 0);
    STELE_ASSERT(partition < consumer->partitions);
    struct assigned *assigned = consumer->assigned[partition];
    stop_walking(consumer, assigned);
    forget_failure(consumer, assigned);
    assigned->is_assigned = false;
    stele_consumer__restart(assigned, 0);
}

struct stele_result stele_consumer_assign_at(struct stele_consumer *consumer, int32_t partition, int64_t time_ms)
{
    int64_t offset = -1;
    struct stele_result result = stele_offset_at(consumer->client, consumer->topic, partition, time_ms, &offset);
    if (result.code == STELE_OK && offset < 0) /* no record is as young */
        result = stele_offset_at(consumer->client, consumer->topic, partition, STELE_OFFSET_LATEST, &offset);
    return result.code == STELE_OK ? stele_consumer_assign(consumer, partition, offset) : result;
}

/* What was fetched and not read is fetched again: ranges of others lie between. */
void stele_consumer_pause(struct stele_consumer *consumer, int32_t partition)
{
    STELE_ASSERT(partition >= 0);
    STELE_ASSERT(partition < consumer->partitions);
    struct assigned *assigned = consumer->assigned[partition];
    if (!assigned->is_assigned || assigned->is_paused)
        return;
    stop_walking(consumer, assigned);
    assigned->is_paused = true;
    stele_consumer__restart(assigned, assigned->position);
}

void stele_consumer_resume(struct stele_consumer *consumer, int32_t partition)
{
    STELE_ASSERT(partition >= 0);
    STELE_ASSERT(partition < consumer->partitions);
    consumer->assigned[partition]->is_paused = false;
}

void stele_consumer_on_reset(struct stele_consumer *consumer,
                             void (*on_reset)(void *arg, const struct stele_reset *reset), void *arg)
{
    consumer->on_reset = on_reset;
    consumer->reset_arg = arg;
}

int64_t stele_consumer_position(const struct stele_consumer *consumer, int32_t partition)
{
    if (partition < 0 || partition >= consumer->partitions || !consumer->assigned[partition]->is_assigned)
        return -1;
    return consumer->assigned[partition]->position;
}

void stele_consumer_free(struct stele_consumer *consumer)
{
    if (consumer == NULL)
        return;
    struct stele_mem *mem = consumer->client->env->mem;
    stele_list_remove(&consumer->part.link);
    if (consumer->is_calling)
        stele_link_cancel(&consumer->link, &consumer->call);
    stele_link_close(&consumer->link);
    if (consumer->resetting != NULL)
        stele_client__cancel(consumer->client, STELE_FOR_CONTROL, &consumer->reset_call);
    stele_refresh__stop(&consumer->refresh);
    if (consumer->is_walking)
        stele_record_walker_deinit(&consumer->walker);
    while (stele_consumer__first_ready(consumer) != NULL)
        stele_consumer__free_ready(consumer, stele_consumer__first_ready(consumer));
    for (int32_t i = 0; i < consumer->partitions; i++)
        stele_mem_free(mem, consumer->assigned[i]);
    stele_mem_free(mem, consumer->asked);
    stele_mem_free(mem, consumer->assigned);
    stele_mem_free(mem, consumer->topic);
    stele_settings_free(consumer->settings);
    stele_mem_free(mem, consumer);
}
