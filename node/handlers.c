/* One function a request family. They fill the pending's response and end in stele_pending_done. */
#include "base/check.h"
#include "node/node_struct.h"

#include <string.h>

enum { SLICES_MAX = 1024, LEADER_EPOCH = 0 };

static struct stele_node *node_of(const struct stele_pending *pending)
{
    return pending->session->node;
}

/* To the control shard and back: `there` runs on its loop, `then` on the data shard's. */
static void back(struct stele_task *task)
{
    struct stele_pending *pending = STELE_CONTAINER_OF(task, struct stele_pending, task);
    pending->then(pending);
}

static void send_to_control(struct stele_pending *pending, void (*there)(struct stele_task *task))
{
    struct stele_node *node = node_of(pending);
    pending->task.run = there;
    node->control->ops->post(node->control, &pending->task);
}

static void send_back(struct stele_pending *pending)
{
    struct stele_node *node = node_of(pending);
    pending->task.run = back;
    node->data->ops->post(node->data, &pending->task);
}

static void handle_hello(struct stele_pending *pending)
{
    static const struct stele_api_range apis[] = {
#define STELE_API(key, name, stem, version_min, version_max) {(key), (version_min), (version_max)},
#include "proto/api.def"
#undef STELE_API
    };
    struct stele_node *node = node_of(pending);
    pending->response.body.hello = (struct stele_hello_response){.message = "",
                                                                 .cluster_id = node->image.cluster_id,
                                                                 .node_id = node->node_id,
                                                                 .software_name = "steled",
                                                                 .software_version = STELE_VERSION,
                                                                 .apis = apis,
                                                                 .api_count = STELE_ARRAY_LEN(apis)};
    stele_pending_done(pending);
}

/* On the control shard: the image is read into the pending's arena. */
static void metadata_there(struct stele_task *task)
{
    struct stele_pending *pending = STELE_CONTAINER_OF(task, struct stele_pending, task);
    stele_control_metadata(pending);
    send_back(pending);
}

static void create_there(struct stele_task *task)
{
    struct stele_pending *pending = STELE_CONTAINER_OF(task, struct stele_pending, task);
    stele_control_create_topic(pending);
    send_back(pending);
}

static void handle_produce(struct stele_pending *pending)
{
    const struct stele_produce_request *request = &pending->request.body.produce;
    struct stele_node *node = node_of(pending);
    uint8_t *at = pending->records;
    size_t left = pending->records_bytes;
    struct stele_produce_result *results =
        stele_arena_array(&pending->arena, request->partition_count, sizeof(*results));
    bool is_legal = request->acks >= -1 && request->acks <= 1;
    pending->response.body.produce.results = results;
    pending->response.body.produce.result_count = results == NULL ? 0 : request->partition_count;
    pending->has_no_answer = request->acks == 0;
    pending->waits = 1; /* this function's own */
    for (size_t i = 0; i < request->partition_count && results != NULL; i++) {
        const struct stele_produce_partition *wanted = &request->partitions[i];
        struct stele_partition *partition = stele_partition_find(node, &wanted->topic_id, wanted->partition);
        results[i] = (struct stele_produce_result){.message = "",
                                                   .topic_id = wanted->topic_id,
                                                   .partition = wanted->partition,
                                                   .base_offset = -1,
                                                   .log_append_time_ms = -1,
                                                   .log_start_offset = -1,
                                                   .current_leader_id = -1,
                                                   .current_leader_epoch = -1};
        if (!is_legal)
            results[i].err = STELE_INVALID_REQUIRED_ACKS;
        else if (wanted->records_bytes > left)
            results[i].err = STELE_INVALID_REQUEST;
        else if (wanted->records_bytes == 0)
            results[i].err = STELE_INVALID_RECORD;
        else if (partition == NULL)
            results[i].err = STELE_UNKNOWN_TOPIC_ID;
        else
            stele_partition_produce(partition, pending, at, wanted->records_bytes, &results[i]);
        size_t taken = stele_min_size(wanted->records_bytes, left);
        at += taken;
        left -= taken;
    }
    if (--pending->waits == 0)
        stele_pending_done(pending);
}

/* Reads every partition once; returns the bytes that it got, or -1 when one of them has an error to tell. */
static int64_t read_all(struct stele_pending *pending, bool keep)
{
    const struct stele_fetch_request *request = &pending->request.body.fetch;
    struct stele_node *node = node_of(pending);
    struct stele_fetch_result *results = (struct stele_fetch_result *)(uintptr_t)pending->response.body.fetch.results;
    int64_t total = 0, left = stele_min_i64(stele_max_i64(request->max_bytes, 0), node->fetch_bytes_max);
    bool has_error = false;
    for (size_t i = 0; i < request->partition_count; i++) {
        const struct stele_fetch_partition *wanted = &request->partitions[i];
        struct stele_partition *partition = stele_partition_find(node, &wanted->topic_id, wanted->partition);
        struct stele_fetch_result *result = &results[i];
        *result = (struct stele_fetch_result){.topic_id = wanted->topic_id,
                                              .partition = wanted->partition,
                                              .high_watermark = -1,
                                              .last_stable_offset = -1,
                                              .log_start_offset = -1,
                                              .current_leader_id = -1,
                                              .current_leader_epoch = -1};
        result->err = partition == NULL                             ? STELE_UNKNOWN_TOPIC_ID
                      : partition->log == NULL                      ? STELE_KAFKA_STORAGE_ERROR
                      : wanted->current_leader_epoch > LEADER_EPOCH ? STELE_UNKNOWN_LEADER_EPOCH
                                                                    : STELE_OK;
        if (result->err == STELE_OK) {
            int64_t stable = stele_log_last_stable_offset(partition->log);
            struct stele_read read = {
                .offset = wanted->fetch_offset,
                .bound = request->isolation == STELE_READ_COMMITTED ? stable : stele_log_high_watermark(partition->log),
                .max_bytes = (size_t)stele_min_i64(stele_max_i64(wanted->max_bytes, 0), left),
                .min_one = total == 0};
            result->high_watermark = stele_log_high_watermark(partition->log);
            result->last_stable_offset = stable;
            result->log_start_offset = stele_log_start_offset(partition->log);
            result->err = stele_log_read(partition->log, &read, &pending->slices[i]);
        }
        has_error = has_error || result->err != STELE_OK;
        if (result->err != STELE_OK)
            continue;
        result->records_bytes = (uint32_t)pending->slices[i].bytes;
        total += (int64_t)pending->slices[i].bytes;
        left = stele_max_i64(left - (int64_t)pending->slices[i].bytes, 0);
        if (!keep)
            stele_slice_release(&pending->slices[i]);
    }
    return has_error ? -1 : total;
}

/* Aborted transactions that a read_committed reader must know, for the slices that are kept. */
static void add_aborted(struct stele_pending *pending)
{
    const struct stele_fetch_request *request = &pending->request.body.fetch;
    struct stele_fetch_result *results = (struct stele_fetch_result *)(uintptr_t)pending->response.body.fetch.results;
    struct stele_node *node = node_of(pending);
    for (size_t i = 0; i < request->partition_count && request->isolation == STELE_READ_COMMITTED; i++) {
        struct stele_partition *partition =
            stele_partition_find(node, &request->partitions[i].topic_id, request->partitions[i].partition);
        struct stele_aborted_txn *txns = NULL;
        size_t count = 0;
        if (partition == NULL || pending->slices[i].bytes == 0)
            continue;
        results[i].err =
            stele_log_aborted(partition->log, request->partitions[i].fetch_offset, &pending->slices[i], &txns, &count);
        struct stele_aborted_transaction *aborted = stele_arena_array(&pending->arena, count, sizeof(*aborted));
        for (size_t k = 0; k < count && aborted != NULL; k++)
            aborted[k] = (struct stele_aborted_transaction){.producer_id = txns[k].producer_id,
                                                            .first_offset = txns[k].first_offset};
        results[i].aborted = aborted;
        results[i].aborted_count = aborted == NULL ? 0 : count;
        stele_mem_free(node->mem, txns);
    }
}

void stele_fetch_finish(struct stele_pending *pending)
{
    stele_list_remove(&pending->parked);
    stele_timer_cancel(node_of(pending)->wheel, &pending->timer);
    (void)read_all(pending, true);
    add_aborted(pending);
    stele_pending_done(pending);
}

static void handle_fetch(struct stele_pending *pending)
{
    const struct stele_fetch_request *request = &pending->request.body.fetch;
    struct stele_node *node = node_of(pending);
    size_t count = request->partition_count;
    struct stele_fetch_result *results = stele_arena_array(&pending->arena, count, sizeof(*results));
    pending->slices = stele_arena_array(&pending->arena, count, sizeof(*pending->slices));
    if (results == NULL || pending->slices == NULL || count > SLICES_MAX) {
        pending->response.body.fetch.err = count > SLICES_MAX ? STELE_INVALID_REQUEST : STELE_NO_MEMORY;
        pending->slice_count = 0;
        stele_pending_done(pending);
        return;
    }
    pending->slice_count = (int)count;
    pending->response.body.fetch.results = results;
    pending->response.body.fetch.result_count = count;
    int64_t bytes = read_all(pending, false);
    bool is_enough = bytes < 0 || bytes >= request->min_bytes || request->max_wait_ms <= 0 || node->refuses;
    int64_t deadline = stele_env_mono_ms(node->data) + request->max_wait_ms;
    if (is_enough || stele_timer_arm(node->wheel, &pending->timer, deadline) != STELE_OK) {
        stele_fetch_finish(pending);
        return;
    }
    stele_list_push(&node->parked, &pending->parked);
}

static bool asks_for(const struct stele_pending *pending, const struct stele_partition *partition)
{
    const struct stele_fetch_request *request = &pending->request.body.fetch;
    for (size_t i = 0; i < request->partition_count; i++) {
        if (request->partitions[i].partition == partition->number &&
            stele_uuid_equal(&request->partitions[i].topic_id, &partition->topic_id))
            return true;
    }
    return false;
}

void stele_fetch_wake(struct stele_partition *partition)
{
    struct stele_node *node = partition->node;
    for (struct stele_list *at = node->parked.next; at != &node->parked;) {
        struct stele_pending *pending = STELE_CONTAINER_OF(at, struct stele_pending, parked);
        at = at->next;
        if (!asks_for(pending, partition))
            continue;
        int64_t bytes = read_all(pending, false);
        if (bytes < 0 || bytes >= pending->request.body.fetch.min_bytes)
            stele_fetch_finish(pending);
    }
}

static void handle_list_offsets(struct stele_pending *pending)
{
    const struct stele_list_offsets_request *request = &pending->request.body.list_offsets;
    struct stele_list_offsets_result *results =
        stele_arena_array(&pending->arena, request->partition_count, sizeof(*results));
    pending->response.body.list_offsets.results = results;
    pending->response.body.list_offsets.result_count = results == NULL ? 0 : request->partition_count;
    for (size_t i = 0; i < request->partition_count && results != NULL; i++) {
        const struct stele_list_offsets_partition *wanted = &request->partitions[i];
        struct stele_partition *partition =
            stele_partition_find(node_of(pending), &wanted->topic_id, wanted->partition);
        struct stele_time_offset found = {.offset = -1, .timestamp = -1, .leader_epoch = -1};
        enum stele_err err = partition == NULL        ? STELE_UNKNOWN_TOPIC_ID
                             : partition->log == NULL ? STELE_KAFKA_STORAGE_ERROR
                                                      : stele_log_offset_at(partition->log, wanted->timestamp, &found);
        if (err == STELE_OK) {
            int64_t bound = request->isolation == STELE_READ_COMMITTED ? stele_log_last_stable_offset(partition->log)
                                                                       : stele_log_high_watermark(partition->log);
            if (wanted->timestamp == STELE_TIME_LATEST)
                found.offset = bound;
            else if (found.offset >= bound && wanted->timestamp >= 0)
                found = (struct stele_time_offset){.offset = -1, .timestamp = -1, .leader_epoch = -1};
        }
        results[i] = (struct stele_list_offsets_result){.err = err,
                                                        .topic_id = wanted->topic_id,
                                                        .partition = wanted->partition,
                                                        .offset = found.offset,
                                                        .timestamp = found.timestamp,
                                                        .leader_epoch = found.leader_epoch};
    }
    stele_pending_done(pending);
}

void stele_dispatch(struct stele_pending *pending)
{
    switch (pending->request.header.api) {
    case STELE_API_HELLO:
        handle_hello(pending);
        break;
    case STELE_API_METADATA:
        pending->then = stele_pending_done;
        send_to_control(pending, metadata_there);
        break;
    case STELE_API_CREATE_TOPIC:
        pending->then = stele_pending_done;
        send_to_control(pending, create_there);
        break;
    case STELE_API_PRODUCE:
        handle_produce(pending);
        break;
    case STELE_API_FETCH:
        handle_fetch(pending);
        break;
    case STELE_API_LIST_OFFSETS:
        handle_list_offsets(pending);
        break;
    }
}
