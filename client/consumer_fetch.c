/* Fetches: one request at a time to each node that leads partitions that are read.
 *
 * Invariants
 *  1. A partition is asked for at the node that leads it as far as is known, or at the replica that this one sent to;
 *     what comes of it from another one, which was asked before, is dropped.
 *  2. A fetch says how far and by which leader epoch the log was read: a leader whose log is another one notices
 *     (KIP-320). */
#include "client/consumer_internal.h"

#include "base/check.h"

enum { READY_MAX = 2 /* ranges held unread before the next request waits */ };

/* Fetchers */

static struct fetcher *fetcher_of(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct fetcher, link);
}

static void fetch_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    stele_client__node_address(STELE_CONTAINER_OF(link, struct fetcher, connection)->node, link, out_address);
}

/* Who was sent to a replica comes back from one that is gone. */
static void connection_changed(struct stele_link *link, enum stele_err err)
{
    struct fetcher *fetcher = STELE_CONTAINER_OF(link, struct fetcher, connection);
    struct stele_consumer *consumer = fetcher->consumer;
    if (err == STELE_OK)
        return;
    stele_refresh__note(&consumer->refresh, STELE_CLOSED);
    for (int32_t i = 0; i < consumer->partitions; i++) {
        if (consumer->assigned[i]->fetcher == fetcher)
            consumer->assigned[i]->replica_id = -1;
    }
}

void stele_fetcher__init(struct fetcher *fetcher, struct stele_consumer *consumer, struct stele_client_node *node)
{
    fetcher->consumer = consumer;
    fetcher->node = node;
    stele_link_init(&fetcher->connection, &consumer->client->group);
    fetcher->connection.next_address = fetch_address;
    fetcher->connection.changed = connection_changed;
    stele_list_push(&consumer->fetchers, &fetcher->link);
}

void stele_fetcher__close(struct fetcher *fetcher)
{
    if (fetcher->is_calling)
        stele_link_cancel(&fetcher->connection, &fetcher->call);
    fetcher->is_calling = false;
    fetcher->connection.changed = NULL;
    stele_link_close(&fetcher->connection);
    stele_list_remove(&fetcher->link);
}

/* NULL: no memory. */
static struct fetcher *find_fetcher(struct stele_consumer *consumer, struct stele_client_node *node)
{
    for (struct stele_list *at = consumer->fetchers.next; at != &consumer->fetchers; at = at->next) {
        if (fetcher_of(at)->node == node)
            return fetcher_of(at);
    }
    struct fetcher *fetcher = stele_mem_alloc(consumer->client->env->mem, STELE_MEM_CLIENT, sizeof(*fetcher));
    if (fetcher != NULL)
        stele_fetcher__init(fetcher, consumer, node);
    return fetcher;
}

/* NULL: not known. */
static struct stele_client_node *node_to_ask(const struct stele_consumer *consumer, const struct assigned *assigned)
{
    struct stele_client_node *replica =
        assigned->replica_id < 0 ? NULL : stele_client__node(consumer->client, assigned->replica_id);
    return replica != NULL ? replica : stele_leaders__route(&consumer->leaders, assigned->partition);
}

/* Invariant 1. */
static void follow_leader(struct stele_consumer *consumer, struct assigned *assigned, int64_t now_ms)
{
    bool is_new = stele_leaders__look(&consumer->leaders, assigned->partition);
    if (is_new)
        assigned->backoff.at_ms = 0;
    if (is_new || now_ms >= assigned->replica_until_ms)
        assigned->replica_id = -1;
    struct stele_client_node *node = node_to_ask(consumer, assigned);
    if (assigned->fetcher != NULL && assigned->fetcher->node == node)
        return;
    if (assigned->fetcher != NULL)
        assigned->backoff.at_ms = 0;
    assigned->fetcher = NULL;
    if (node == NULL || now_ms < assigned->backoff.at_ms)
        return;
    assigned->fetcher = find_fetcher(consumer, node);
    if (assigned->fetcher == NULL)
        stele_client__wait_before_retry(consumer->client, &assigned->backoff);
}

/* Answers */

/* Whole batches of the answer move the fetch position; a cut one at the end is asked for again. One that says that it
 * goes beyond what is committed is damaged: its checksum is looked at only when it is read. */
static const uint8_t *whole_batches(struct assigned *assigned, const uint8_t *at, size_t bytes, int64_t high_watermark)
{
    while (bytes >= STELE_BATCH_HEADER_BYTES) {
        struct stele_batch_header header;
        int64_t size = stele_batch_size(at);
        if (size < STELE_BATCH_HEADER_BYTES || (size_t)size > bytes ||
            stele_batch_header_read(at, bytes, &header) != STELE_OK || header.base_offset >= high_watermark ||
            stele_batch_last_offset(&header) >= high_watermark)
            break;
        assigned->fetched = stele_max_i64(assigned->fetched, stele_batch_last_offset(&header) + 1);
        assigned->fetched_epoch = header.partition_leader_epoch;
        at += size;
        bytes -= (size_t)size;
    }
    return at;
}

/* Damage that the node knows of does not heal by asking again; what came before it is to be read first. */
static void take_refusal(struct stele_consumer *consumer, struct assigned *assigned, enum stele_err err)
{
    bool is_final = err == STELE_CORRUPT_MESSAGE && stele_consumer__is_tired(consumer, assigned) &&
                    assigned->position >= assigned->fetched;
    if (is_final || !stele_client__retry(consumer->client, &assigned->backoff, err))
        stele_consumer__fail(consumer, assigned, err, stele_err_text(err));
}

/* Not one whole batch that is new: a larger one than was asked for, or bytes that are none. */
static void take_nothing(struct stele_consumer *consumer, struct assigned *assigned, const uint8_t *at, size_t bytes)
{
    bool is_cut = bytes < STELE_BATCH_PREFIX_BYTES || stele_batch_size(at) > (int64_t)bytes;
    if (is_cut && assigned->max_bytes < INT32_MAX) {
        assigned->max_bytes = assigned->max_bytes > INT32_MAX / 2 ? INT32_MAX : assigned->max_bytes * 2;
        return;
    }
    assigned->doubted = assigned->fetched;
    take_refusal(consumer, assigned, STELE_CORRUPT_MESSAGE);
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
    const uint8_t *end = whole_batches(assigned, at, result->records_bytes, result->high_watermark);
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

/* True when the answer says who leads instead. */
static bool take_hint(struct stele_consumer *consumer, const struct stele_fetch_result *result,
                      const struct stele_answer *answer)
{
    const struct stele_fetch_response *fetch = &answer->response->body.fetch;
    struct stele_leader_hint hint = {.partition = result->partition,
                                     .node_id = result->current_leader_id,
                                     .epoch = result->current_leader_epoch,
                                     .nodes = fetch->nodes,
                                     .node_count = fetch->node_count};
    return stele_leaders__hint(&consumer->leaders, &hint);
}

static void read_at_leader(struct stele_consumer *consumer)
{
    consumer->rack_from_ms =
        stele_client__now_ms(consumer->client) + stele_settings_int(consumer->client->settings, "retry.backoff.max.ms");
}

/* A replica may lag behind, or not be one any more: the leader is asked what it does not answer. The pause keeps one
 * that sends there again and again from being asked in a circle. */
static bool leave_replica(struct stele_consumer *consumer, struct assigned *assigned,
                          const struct stele_fetch_result *result)
{
    if (assigned->replica_id < 0 || (result->err == STELE_OK && result->diverging_epoch < 0))
        return false;
    assigned->replica_id = -1;
    assigned->fetcher = NULL;
    stele_client__wait_before_retry(consumer->client, &assigned->backoff);
    if (result->err == STELE_OFFSET_OUT_OF_RANGE)
        read_at_leader(consumer); /* which does not know yet what that replica deleted, or lacks */
    return true;
}

/* True when the answer is to read elsewhere. */
static bool take_replica(struct stele_consumer *consumer, struct assigned *assigned,
                         const struct stele_fetch_result *result)
{
    int32_t node_id = result->preferred_read_replica;
    if (node_id < 0)
        return false;
    if (!consumer->client->is_cluster || node_id == assigned->asked_by->node->node_id ||
        stele_client__node(consumer->client, node_id) == NULL) {
        /* It is not known here: it came lately, or has no listener of this kind. */
        read_at_leader(consumer);
        stele_refresh__note(&consumer->refresh, STELE_LEADER_NOT_AVAILABLE);
        return false;
    }
    assigned->replica_id = node_id;
    assigned->replica_until_ms = stele_client__now_ms(consumer->client) + consumer->refresh.age_ms;
    return true;
}

/* What a node said of where the log ends, as a replica or in an earlier epoch, before it came to lead: the offset may
 * be right there. */
static bool is_outdated(const struct stele_consumer *consumer, const struct assigned *assigned,
                        const struct stele_fetch_result *result)
{
    bool moves = result->err == STELE_OFFSET_OUT_OF_RANGE || (result->err == STELE_OK && result->diverging_epoch >= 0);
    return moves && assigned->asked_epoch != stele_leaders__epoch(&consumer->leaders, assigned->partition);
}

static void take_result(struct fetcher *fetcher, const struct stele_fetch_result *result,
                        const struct stele_answer *answer, const uint8_t *at)
{
    struct stele_consumer *consumer = fetcher->consumer;
    if (result->partition < 0 || result->partition >= consumer->partitions ||
        !stele_uuid_equal(&result->topic_id, &consumer->topic_id))
        return;
    struct assigned *assigned = consumer->assigned[result->partition];
    if (!assigned->is_assigned || assigned->asked_by != fetcher || assigned->fetcher != fetcher ||
        assigned->generation != assigned->asked_generation)
        return;
    if (leave_replica(consumer, assigned, result) || is_outdated(consumer, assigned, result))
        return;
    if (result->err == STELE_OK && result->diverging_epoch >= 0) {
        stele_consumer__diverged(consumer, assigned, result);
    } else if (result->err == STELE_OK) {
        if (!take_replica(consumer, assigned, result) && result->records_bytes > 0)
            take_records(consumer, assigned, result, answer, at);
    } else if (result->err == STELE_OFFSET_OUT_OF_RANGE) {
        stele_consumer__out_of_range(consumer, assigned, result->log_start_offset,
                                     consumer->isolation == STELE_READ_COMMITTED ? result->last_stable_offset
                                                                                 : result->high_watermark);
    } else {
        if (!take_hint(consumer, result, answer))
            stele_refresh__note(&consumer->refresh, result->err);
        take_refusal(consumer, assigned, result->err);
    }
}

static void fetch_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct fetcher *fetcher = STELE_CONTAINER_OF(call, struct fetcher, call);
    struct stele_consumer *consumer = fetcher->consumer;
    fetcher->is_calling = false;
    if (err == STELE_OK)
        err = answer->response->body.fetch.err;
    if (err != STELE_OK) {
        stele_refresh__note(&consumer->refresh, err);
        if (!stele_client__retry(consumer->client, &fetcher->backoff, err))
            consumer->failure = stele_client__failure(err, "topic '%.200s': %s", consumer->topic, stele_err_text(err));
        return;
    }
    fetcher->backoff = (struct stele_backoff){0};
    const struct stele_fetch_response *fetch = &answer->response->body.fetch;
    const uint8_t *at = answer->records;
    size_t left = answer->records_bytes;
    for (size_t i = 0; i < fetch->result_count; i++) {
        size_t bytes = fetch->results[i].records_bytes;
        if (bytes > left) {
            (void)stele_client__retry(consumer->client, &fetcher->backoff, STELE_CLOSED);
            return; /* fewer records than it says: what came so far is good, the rest is asked for again */
        }
        take_result(fetcher, &fetch->results[i], answer, at);
        at += bytes;
        left -= bytes;
    }
}

/* Requests */

static bool is_wanted(const struct assigned *assigned, int64_t now_ms)
{
    return assigned->is_assigned && !assigned->is_paused && !assigned->needs_reset && assigned->err == STELE_OK &&
           assigned->backoff.at_ms <= now_ms;
}

/* Into the consumer's array; how many. */
static size_t list_wanted(struct fetcher *fetcher, int64_t now_ms)
{
    struct stele_consumer *consumer = fetcher->consumer;
    size_t count = 0;
    for (int32_t i = 0; i < consumer->partitions; i++) {
        struct assigned *assigned = consumer->assigned[i];
        if (assigned->fetcher != fetcher || !is_wanted(assigned, now_ms))
            continue;
        struct stele_fetch_partition *asked = &consumer->asked[count++];
        assigned->asked_generation = assigned->generation;
        assigned->asked_by = fetcher;
        assigned->asked_epoch = stele_leaders__epoch(&consumer->leaders, i);
        *asked = (struct stele_fetch_partition){STELE_FETCH_PARTITION_OF_CONSUMER};
        asked->topic_id = consumer->topic_id;
        asked->partition = i;
        asked->fetch_offset = assigned->fetched;
        asked->max_bytes = assigned->max_bytes;
        asked->current_leader_epoch = assigned->asked_epoch;
        asked->last_fetched_epoch = assigned->fetched_epoch;
        asked->doubted_offset = assigned->doubted == assigned->fetched ? assigned->doubted : -1;
    }
    return count;
}

static void start_fetch(struct fetcher *fetcher, int64_t now_ms)
{
    struct stele_consumer *consumer = fetcher->consumer;
    size_t count = list_wanted(fetcher, now_ms);
    if (count == 0)
        return;
    const char *rack = now_ms >= consumer->rack_from_ms ? stele_settings_text(consumer->settings, "client.rack") : "";
    struct stele_request request = {
        .header.api = STELE_API_FETCH,
        .body.fetch = {STELE_FETCH_OF_CONSUMER,
                       .max_wait_ms = (int32_t)stele_settings_int(consumer->settings, "fetch.max.wait.ms"),
                       .min_bytes = (int32_t)stele_settings_int(consumer->settings, "fetch.min.bytes"),
                       .max_bytes = (int32_t)stele_settings_int(consumer->settings, "fetch.max.bytes"),
                       .isolation = consumer->isolation, .partitions = consumer->asked, .partition_count = count,
                       .rack = rack}};
    fetcher->call = (struct stele_call){.done = fetch_done};
    stele_list_init(&fetcher->call.link);
    fetcher->is_calling = true;
    if (stele_link_call(&fetcher->connection, &fetcher->call, &request, NULL) == STELE_OK) {
        fetcher->call.deadline_ms += request.body.fetch.max_wait_ms;
        return;
    }
    fetcher->is_calling = false;
    (void)stele_client__retry(consumer->client, &fetcher->backoff, STELE_NO_MEMORY);
}

/* Nothing is asked for while enough lies ready. */
static bool is_full(const struct stele_consumer *consumer)
{
    int count = 0;
    for (const struct stele_list *at = consumer->ready.next; at != &consumer->ready && count < READY_MAX; at = at->next)
        count++;
    return count == READY_MAX;
}

/* Fetchers that handlers or the loop make known come at the end. */
/* It was made anew: what is known of leaders and their epochs is the new one's, and a node that does not know yet may
 * take them for those of the one that this consumer reads. */
static bool is_of_another_topic(const struct stele_consumer *consumer)
{
    return !stele_uuid_equal(&consumer->leaders.topic_id, &consumer->topic_id);
}

void stele_consumer__tick(struct stele_client_part *part, int64_t now_ms)
{
    struct stele_consumer *consumer = STELE_CONTAINER_OF(part, struct stele_consumer, part);
    for (struct stele_list *at = consumer->fetchers.next; at != &consumer->fetchers; at = at->next)
        stele_client__tick_link(fetcher_of(at)->node, &fetcher_of(at)->connection, now_ms);
    stele_refresh__tick(&consumer->refresh, now_ms);
    if (is_of_another_topic(consumer))
        return;
    for (int32_t i = 0; i < consumer->partitions; i++) {
        if (consumer->assigned[i]->is_assigned)
            follow_leader(consumer, consumer->assigned[i], now_ms);
    }
    stele_consumer__drive_resets(consumer, now_ms);
    for (struct stele_list *at = consumer->fetchers.next; at != &consumer->fetchers; at = at->next) {
        struct fetcher *fetcher = fetcher_of(at);
        if (!fetcher->is_calling && now_ms >= fetcher->backoff.at_ms && !is_full(consumer))
            start_fetch(fetcher, now_ms);
    }
}

/* When the partition is to be asked for, or its leader found. */
static int64_t assigned_deadline(const struct stele_consumer *consumer, const struct assigned *assigned)
{
    const struct fetcher *fetcher = assigned->fetcher;
    const struct stele_client_node *node = node_to_ask(consumer, assigned);
    if (!is_wanted(assigned, INT64_MAX) || node == NULL)
        return INT64_MAX;
    if (fetcher == NULL || fetcher->node != node)
        return assigned->backoff.at_ms;
    return fetcher->is_calling ? INT64_MAX : stele_max_i64(assigned->backoff.at_ms, fetcher->backoff.at_ms);
}

int64_t stele_consumer__deadline(const struct stele_client_part *part)
{
    const struct stele_consumer *consumer =
        (const struct stele_consumer *)(const void *)((const char *)part - offsetof(struct stele_consumer, part));
    bool is_over = is_of_another_topic(consumer);
    int64_t deadline = stele_refresh__deadline(&consumer->refresh);
    if (!is_over)
        deadline = stele_min_i64(deadline, stele_consumer__reset_deadline(consumer));
    for (const struct stele_list *at = consumer->fetchers.next; at != &consumer->fetchers; at = at->next) {
        const struct fetcher *fetcher =
            (const struct fetcher *)(const void *)((const char *)at - offsetof(struct fetcher, link));
        deadline = stele_min_i64(deadline, stele_link_deadline(&fetcher->connection));
    }
    for (int32_t i = 0; i < consumer->partitions && !is_over && !is_full(consumer); i++)
        deadline = stele_min_i64(deadline, assigned_deadline(consumer, consumer->assigned[i]));
    return deadline;
}
