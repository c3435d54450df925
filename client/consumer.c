/* Reads partitions by long polls, one request at a time for all that a node leads. The next one is sent as soon as an
 * answer came, so that it is on its way while the records are read. Batches are walked where they lie in the answer's
 * frame.
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
    assigned->fetched_epoch = assigned->position_epoch;
    assigned->doubted = -1;
}

void stele_consumer__fail(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err,
                          const char *text)
{
    assigned->err = err;
    consumer->failed = assigned;
    consumer->failure = stele_client__failure(err, "%.200s-%d at offset %lld: %.200s", consumer->topic,
                                              assigned->partition, (long long)assigned->position, text);
}

bool stele_consumer__is_tired(const struct stele_consumer *consumer, const struct assigned *assigned)
{
    return assigned->backoff.attempts >=
           (consumer->client->is_cluster ? STELE_DAMAGE_TRIES_CLUSTER : STELE_DAMAGE_TRIES);
}

void stele_consumer__refetch(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err)
{
    stele_consumer__restart(assigned, assigned->position);
    assigned->doubted = assigned->position;
    if (stele_consumer__is_tired(consumer, assigned) || !stele_client__retry(consumer->client, &assigned->backoff, err))
        stele_consumer__fail(consumer, assigned, err, stele_err_text(err));
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

static enum stele_err set_up(struct stele_consumer *consumer)
{
    const char *isolation = stele_settings_text(consumer->settings, "isolation.level");
    consumer->isolation = strcmp(isolation, "read_committed") == 0 ? STELE_READ_COMMITTED : STELE_READ_UNCOMMITTED;
    consumer->check_crcs = stele_settings_bool(consumer->settings, "check.crcs");
    stele_refresh__init(&consumer->refresh, &consumer->leaders, consumer->settings, consumer->topic);
    consumer->refresh.changed = topic_changed;
    consumer->topic_id = consumer->leaders.topic_id;
    return grow(consumer, consumer->leaders.count);
}

struct stele_consumer *stele_consumer_new(struct stele_client *client, const char *topic,
                                          const struct stele_setting *settings, struct stele_result *result)
{
    struct stele_error error = {.text = ""};
    struct stele_consumer *consumer = stele_mem_alloc(client->env->mem, STELE_MEM_CLIENT, sizeof(*consumer));
    enum stele_err err = consumer == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK) {
        consumer->client = consumer->leaders.client = client;
        consumer->part = (struct stele_client_part){.tick = stele_consumer__tick, .deadline = stele_consumer__deadline};
        stele_list_init(&consumer->fetchers);
        stele_fetcher__init(&consumer->any, consumer, &client->any);
        stele_list_init(&consumer->part.link);
        stele_list_init(&consumer->ready);
        consumer->topic = stele_mem_string(client->env->mem, STELE_MEM_CLIENT, topic);
        err = consumer->topic == NULL ? STELE_NO_MEMORY
                                      : stele_client__settings(client, settings, &consumer->settings, &error);
    }
    if (err == STELE_OK)
        err = stele_consumer__read_reset(consumer, &error);
    if (err == STELE_OK)
        err = stele_client__topic_to_use(client, topic, &consumer->leaders, &error);
    if (err == STELE_OK)
        err = set_up(consumer);
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
                          .position_epoch = -1,
                          .replica_id = -1,
                          .diverging_end = -1,
                          .fetcher = assigned->fetcher,
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

static void free_fetchers(struct stele_consumer *consumer)
{
    while (!stele_list_is_empty(&consumer->fetchers)) {
        struct fetcher *fetcher = STELE_CONTAINER_OF(consumer->fetchers.next, struct fetcher, link);
        stele_fetcher__close(fetcher);
        if (fetcher != &consumer->any)
            stele_mem_free(consumer->client->env->mem, fetcher);
    }
}

void stele_consumer_free(struct stele_consumer *consumer)
{
    if (consumer == NULL)
        return;
    struct stele_mem *mem = consumer->client->env->mem;
    stele_list_remove(&consumer->part.link);
    free_fetchers(consumer);
    if (consumer->resetting != NULL)
        stele_client__cancel(consumer->reset_node, STELE_FOR_CONTROL, &consumer->reset_call);
    stele_refresh__stop(&consumer->refresh);
    if (consumer->is_walking)
        stele_record_walker_deinit(&consumer->walker);
    while (stele_consumer__first_ready(consumer) != NULL)
        stele_consumer__free_ready(consumer, stele_consumer__first_ready(consumer));
    for (int32_t i = 0; i < consumer->partitions; i++)
        stele_mem_free(mem, consumer->assigned[i]);
    stele_leaders__free(&consumer->leaders);
    stele_mem_free(mem, consumer->asked);
    stele_mem_free(mem, consumer->assigned);
    stele_mem_free(mem, consumer->topic);
    stele_settings_free(consumer->settings);
    stele_mem_free(mem, consumer);
}
