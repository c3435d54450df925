/* Node status: an observation, copied into the answer. */
#include "node/node_struct.h"
#include "node/observe.h"
#include "node/server_call.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 512 };

struct status {
    struct stele_server_call *call;
    struct stele_observation observation;
};

struct metrics {
    struct stele_arena *arena;
    struct stele_node_metric *out; /* NULL: they are counted */
    size_t count;
    bool has_no_memory;
};

static bool is_shown(const struct stele_sample *sample)
{
    return strcmp(sample->suffix, "_bucket") != 0;
}

static void count_metric(void *arg, const struct stele_sample *sample)
{
    ((struct metrics *)arg)->count += is_shown(sample);
}

/* Times in microseconds: the protocol has no fractions. */
static void add_metric(void *arg, const struct stele_sample *sample)
{
    struct metrics *metrics = arg;
    char name[NAME_BYTES];
    if (!is_shown(sample))
        return;
    const char *base = sample->name;
    const char *seconds = strcmp(sample->unit, "seconds") == 0 ? strstr(base, "_seconds") : NULL;
    int before = (int)(seconds != NULL ? (size_t)(seconds - base) : strlen(base));
    const char *micros = seconds != NULL ? "_us" : "";
    const char *after = seconds != NULL ? seconds + strlen("_seconds") : "";
    int bytes = snprintf(name, sizeof(name), sample->label[0] != 0 ? "%.*s%s%s%s{%s=\"%s\"}" : "%.*s%s%s%s", before,
                         base, micros, after, sample->suffix, sample->label, sample->label_value);
    struct stele_node_metric *out = &metrics->out[metrics->count++];
    out->name = stele_arena_string(metrics->arena, name, stele_min_size((size_t)bytes, sizeof(name) - 1));
    out->value = sample->value;
    metrics->has_no_memory = metrics->has_no_memory || out->name == NULL;
}

static bool fill_metrics(struct status *status, struct stele_node_status_response *response)
{
    struct metrics metrics = {.arena = &status->call->arena};
    stele_samples(&status->observation, count_metric, &metrics);
    metrics.out = stele_arena_array(metrics.arena, metrics.count, sizeof(*metrics.out));
    if (metrics.out == NULL)
        return false;
    metrics.count = 0;
    stele_samples(&status->observation, add_metric, &metrics);
    response->metrics = metrics.out;
    response->metric_count = metrics.count;
    return !metrics.has_no_memory;
}

static bool fill_directories(struct status *status, struct stele_node_status_response *response)
{
    const struct stele_observation *observation = &status->observation;
    size_t count = (size_t)observation->directory_count;
    struct stele_node_directory *directories = stele_arena_array(&status->call->arena, count, sizeof(*directories));
    if (directories == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct stele_directory_view *view = &observation->directories[i];
        directories[i] = (struct stele_node_directory){.path = view->path,
                                                       .is_offline = view->is_offline != 0,
                                                       .is_full = view->is_full != 0,
                                                       .free_bytes = view->free_bytes,
                                                       .reserve_bytes = view->reserve_bytes,
                                                       .partition_count = (int32_t)view->partitions};
    }
    response->directories = directories;
    response->directory_count = count;
    return true;
}

static bool fill_slow(struct status *status, struct stele_node_status_response *response)
{
    const struct stele_observation *observation = &status->observation;
    int64_t most = stele_max_i64(status->call->request.body.node_status.slow_requests_max, 0);
    size_t count = (size_t)stele_min_i64(observation->slow_count, most);
    struct stele_slow_request *requests = stele_arena_array(&status->call->arena, count, sizeof(*requests));
    if (requests == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct stele_slow_entry *entry = &observation->slow[i];
        requests[i] = (struct stele_slow_request){.time_ms = entry->time_ms,
                                                  .api = (int32_t)entry->api,
                                                  .client_id = entry->client_id,
                                                  .peer = entry->peer,
                                                  .total_us = entry->total_us,
                                                  .queue_us = entry->stages.queue_us,
                                                  .append_us = entry->stages.append_us,
                                                  .fsync_us = entry->stages.fsync_us,
                                                  .read_us = entry->stages.read_us,
                                                  .reply_us = entry->reply_us,
                                                  .bytes = entry->bytes,
                                                  .segments_searched = entry->stages.segments_searched,
                                                  .bytes_scanned = entry->stages.bytes_scanned,
                                                  .was_cold = entry->stages.was_cold};
    }
    response->slow_requests = requests;
    response->slow_request_count = count;
    return true;
}

static void observed(struct stele_observation *observation)
{
    struct status *status = STELE_CONTAINER_OF(observation, struct status, observation);
    struct stele_server_call *call = status->call;
    const struct stele_node *node = call->shard->node;
    const struct stele_views *views = &observation->views;
    struct stele_node_status_response *response = &call->response.body.node_status;
    *response = (struct stele_node_status_response){.err = observation->err,
                                                    .node_id = node->node_id,
                                                    .cluster_id = node->cluster_id,
                                                    .software_version = STELE_VERSION,
                                                    .uptime_ms = views->uptime / 1000,
                                                    .shard_count = (int32_t)views->shards,
                                                    .connection_count = (int32_t)views->connections,
                                                    .topic_count = (int32_t)views->topics,
                                                    .partition_count = (int32_t)views->partitions,
                                                    .offline_count = (int32_t)views->partitions_offline,
                                                    .memory_bytes = views->memory,
                                                    .memory_limit_bytes = views->memory_limit,
                                                    .longest_stall_us = observation->metrics.loop_stall};
    bool is_good = fill_directories(status, response) && fill_slow(status, response);
    if (is_good && call->request.body.node_status.with_metrics)
        is_good = fill_metrics(status, response);
    if (is_good)
        stele_server_call_done(call);
    else
        stele_server_call_fail(call, "memory ran out");
}

static void release(struct stele_server_call *call)
{
    struct status *status = call->state;
    stele_observation_deinit(&status->observation);
}

void stele_handle_node_status(struct stele_server_call *call)
{
    const struct stele_node_status_request *request = &call->request.body.node_status;
    struct status *status = stele_arena_alloc(&call->arena, sizeof(*status));
    if (status == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    status->call = call;
    status->observation.home = call->shard;
    status->observation.done = observed;
    status->observation.with_slow = request->slow_requests_max > 0;
    status->observation.topics_max = request->with_metrics ? call->shard->node->limits.metrics_topics_max : 0;
    call->state = status;
    call->release = release;
    stele_observe(&status->observation);
}
