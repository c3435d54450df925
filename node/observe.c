#include "node/observe.h"

#include "base/check.h"
#include "base/sort.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/session.h"

#include <string.h>

/* Requests. */

static int slot_of(enum stele_api api)
{
    static const enum stele_api apis[] = {
#define STELE_API(key, name, stem, version_min, version_max) STELE_API_##name,
#include "proto/api.def"
#undef STELE_API
    };
    _Static_assert(STELE_ARRAY_LEN(apis) <= STELE_METRIC_SLOTS, "a slot for every api");
    int slot = 0;
    while (apis[slot] != api)
        slot++;
    return slot;
}

#define ANY(items, count)                                                                                              \
    for (size_t i = 0; i < (count); i++) {                                                                             \
        if ((items)[i].err != STELE_OK)                                                                                \
            return true;                                                                                               \
    }                                                                                                                  \
    return false

static bool has_error(const struct stele_response *response)
{
    switch (response->header.api) {
    case STELE_API_PRODUCE:
        ANY(response->body.produce.results, response->body.produce.result_count);
    case STELE_API_FETCH:
        ANY(response->body.fetch.results, response->body.fetch.result_count);
    case STELE_API_LIST_OFFSETS:
        ANY(response->body.list_offsets.results, response->body.list_offsets.result_count);
    case STELE_API_METADATA:
        ANY(response->body.metadata.topics, response->body.metadata.topic_count);
    case STELE_API_CREATE_TOPIC:
        return response->body.create_topic.err != STELE_OK;
    case STELE_API_DELETE_TOPIC:
        return response->body.delete_topic.err != STELE_OK;
    case STELE_API_DELETE_RECORDS:
        ANY(response->body.delete_records.results, response->body.delete_records.result_count);
    case STELE_API_INIT_PRODUCER_ID:
        return response->body.init_producer_id.err != STELE_OK;
    case STELE_API_DESCRIBE_SETTINGS:
        return response->body.describe_settings.err != STELE_OK;
    case STELE_API_CREATE_PARTITIONS:
        return response->body.create_partitions.err != STELE_OK;
    case STELE_API_ALTER_SETTINGS:
        return response->body.alter_settings.err != STELE_OK;
    case STELE_API_DESCRIBE_TOPIC:
        ANY(response->body.describe_topic.topics, response->body.describe_topic.topic_count);
    case STELE_API_HELLO:
        return response->body.hello.err != STELE_OK;
    case STELE_API_DESCRIBE_LOG:
        ANY(response->body.describe_log.logs, response->body.describe_log.log_count);
    case STELE_API_ALTER_LOG_DIRS:
        ANY(response->body.alter_log_dirs.results, response->body.alter_log_dirs.result_count);
    case STELE_API_DESCRIBE_LOG_DIRS:
        return response->body.describe_log_dirs.err != STELE_OK;
    case STELE_API_NODE_STATUS:
        return response->body.node_status.err != STELE_OK;
    case STELE_API_DESCRIBE_QUORUM:
        return response->body.describe_quorum.err != STELE_OK;
    case STELE_API_UPDATE_LEVEL:
        return response->body.update_level.err != STELE_OK;
    case STELE_API_FETCH_SNAPSHOT:
        return response->body.fetch_snapshot.err != STELE_OK;
    case STELE_API_DESCRIBE_CLUSTER:
        return response->body.describe_cluster.err != STELE_OK;
    case STELE_API_REGISTER_NODE:
        return response->body.register_node.err != STELE_OK;
    case STELE_API_NODE_HEARTBEAT:
        return response->body.node_heartbeat.err != STELE_OK;
    case STELE_API_UNREGISTER_NODE:
        return response->body.unregister_node.err != STELE_OK;
    case STELE_API_ALTER_VOTERS:
        return response->body.alter_voters.err != STELE_OK;
    case STELE_API_FORM:
        return response->body.form.err != STELE_OK;
    case STELE_API_VOTE:
        return response->body.vote.err != STELE_OK;
    case STELE_API_BEGIN_QUORUM_EPOCH:
        return response->body.begin_quorum_epoch.err != STELE_OK;
    case STELE_API_END_QUORUM_EPOCH:
        return response->body.end_quorum_epoch.err != STELE_OK;
    case STELE_API_ELECT_LEADERS:
        ANY(response->body.elect_leaders.results, response->body.elect_leaders.result_count);
    case STELE_API_REASSIGN:
        ANY(response->body.reassign.results, response->body.reassign.result_count);
    case STELE_API_ALTER_PARTITION:
        ANY(response->body.alter_partition.results, response->body.alter_partition.result_count);
    }
    return false;
}

void stele_observe_request(struct stele_server_call *call)
{
    call->is_understood = true;
    STELE_METRIC_ADD(call->shard->env->metrics, requests[slot_of(call->request.header.api)], 1);
}

static void set_name(char out[STELE_SLOW_NAME_BYTES], const char *name)
{
    size_t bytes = name == NULL ? 0 : stele_min_size(strlen(name), STELE_SLOW_NAME_BYTES - 1);
    if (bytes > 0)
        memcpy(out, name, bytes);
    out[bytes] = 0;
}

static void note_slow(struct stele_server_call *call, int64_t total_us, int64_t now_us)
{
    struct stele_shard *shard = call->shard;
    struct stele_slow_entry entry = {.time_ms = stele_env_wall_ms(shard->env) - (now_us - call->came_us) / 1000,
                                     .api = call->request.header.api,
                                     .stages = call->stages,
                                     .total_us = total_us,
                                     .reply_us = now_us - call->done_us,
                                     .bytes = (int64_t)(call->frame->count + call->piece_bytes)};
    set_name(entry.client_id, call->request.header.client_id);
    set_name(entry.peer, call->session->conn != NULL ? shard->net->ops->peer(call->session->conn) : "");
    stele_slowlog_note(shard->slowlog, &entry);
}

void stele_observe_answer(struct stele_server_call *call)
{
    struct stele_shard *shard = call->shard;
    struct stele_metrics *metrics = shard->env->metrics;
    if (!call->is_understood)
        return; /* it is of no api; the connection is counted as refused */
    int64_t now_us = stele_env_mono_us(shard->env);
    int64_t total_us = now_us - call->came_us - call->stages.wait_us;
    STELE_METRIC_OBSERVE(metrics, request_total, total_us);
    STELE_METRIC_OBSERVE(metrics, request_reply, now_us - call->done_us);
    if (call->close_why != NULL || (!call->has_no_answer && has_error(&call->response)))
        STELE_METRIC_ADD(metrics, request_errors[slot_of(call->request.header.api)], 1);
    shard->slowlog->threshold_us = shard->node->limits.slow_us; /* it may have changed */
    if (total_us > shard->slowlog->threshold_us)
        STELE_METRIC_ADD(metrics, slow_requests, 1);
    if (stele_slowlog_wants(shard->slowlog, total_us))
        note_slow(call, total_us, now_us);
}

/* The tour. */

static struct stele_shard *shard_at(const struct stele_observation *observation)
{
    return &observation->home->node->shards[observation->at];
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"

static struct stele_topic_view *topic_find(const struct stele_observation *observation, const char *name)
{
    struct stele_topic_view *topic = NULL;
    HASH_FIND_STR(observation->topics, name, topic);
    return topic;
}

static bool topic_add(struct stele_observation *observation, struct stele_topic_view *topic)
{
    struct stele_mem *uthash_mem = observation->home->node->mem;
    HASH_ADD_KEYPTR(hh, observation->topics, topic->name, strlen(topic->name), topic);
    return topic->hh.tbl != NULL;
}

static void topics_free(struct stele_observation *observation)
{
    struct stele_mem *uthash_mem = observation->home->node->mem;
    struct stele_topic_view *topic, *next;
    HASH_ITER(hh, observation->topics, topic, next)
    {
        HASH_DEL(observation->topics, topic);
        stele_mem_free(uthash_mem, topic);
    }
}

static int topic_count(const struct stele_observation *observation)
{
    return (int)HASH_COUNT(observation->topics);
}

#pragma GCC diagnostic pop

/* NULL: there are as many as may be, or memory ran out. */
static struct stele_topic_view *topic_of(struct stele_observation *observation, const char *name)
{
    struct stele_mem *mem = observation->home->node->mem;
    struct stele_topic_view *topic = topic_find(observation, name);
    if (topic != NULL || topic_count(observation) >= observation->topics_max)
        return topic;
    size_t bytes = strlen(name) + 1;
    topic = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*topic) + bytes);
    if (topic != NULL)
        memcpy(topic->name, name, bytes);
    if (topic == NULL || !topic_add(observation, topic)) {
        observation->err = STELE_NO_MEMORY;
        stele_mem_free(mem, topic);
        return NULL;
    }
    return topic;
}

static int64_t list_length(const struct stele_list *list)
{
    int64_t count = 0;
    for (const struct stele_list *at = list->next; at != list; at = at->next)
        count++;
    return count;
}

static void take_partition(struct stele_observation *observation, const struct stele_partition *partition)
{
    struct stele_views *views = &observation->views;
    struct stele_topic_view *topic = observation->topics_max > 0 ? topic_of(observation, partition->topic) : NULL;
    views->partitions++;
    views->partitions_offline += partition->state == STELE_PARTITION_OFFLINE;
    views->partitions_opening += partition->state == STELE_PARTITION_OPENING;
    views->produce_waiters += list_length(&partition->acks);
    views->fetch_waiters += list_length(&partition->reads);
    stele_observe__replica(observation, partition);
    if (partition->dir < observation->directory_count)
        observation->directories[partition->dir].partitions++;
    if (topic != NULL)
        topic->partitions++;
    if (partition->log == NULL)
        return;
    int64_t bytes = stele_log_bytes(partition->log), segments = stele_log_segment_count(partition->log);
    views->log_bytes += bytes;
    views->log_segments += segments;
    if (topic != NULL) {
        topic->bytes += bytes;
        topic->segments += segments;
        topic->offsets += stele_log_end_offset(partition->log);
    }
}

static void take_slow(struct stele_observation *observation, const struct stele_shard *shard)
{
    enum { MOST = STELE_SLOW_SLOWEST + STELE_SLOW_RECENT };
    size_t count = (size_t)observation->slow_count + MOST;
    struct stele_slow_entry *grown = stele_mem_resize(observation->home->node->mem, STELE_MEM_NODE, observation->slow,
                                                      count * sizeof(*observation->slow));
    if (grown == NULL) {
        observation->err = STELE_NO_MEMORY;
        return;
    }
    observation->slow = grown;
    observation->slow_count += stele_slowlog_read(shard->slowlog, grown + observation->slow_count);
}

static void take_data(struct stele_observation *observation, struct stele_shard *shard)
{
    struct stele_views *views = &observation->views;
    struct stele_partition *partition, *next;
    views->connections += shard->session_count;
    views->cold_reading += shard->cold_bytes;
    for (struct stele_list *at = shard->sessions.next; at != &shard->sessions; at = at->next)
        views->requests_open += STELE_CONTAINER_OF(at, struct stele_session, link)->call_count;
    HASH_ITER(hh, shard->partitions, partition, next)
    take_partition(observation, partition);
    if (observation->with_slow)
        take_slow(observation, shard);
}

static void take_host(struct stele_observation *observation, const struct stele_node *node)
{
    struct stele_views *views = &observation->views;
    struct stele_host_stats stats = {.resident_bytes = -1,
                                     .anonymous_bytes = -1,
                                     .peak_bytes = -1,
                                     .page_cache_bytes = -1,
                                     .descriptors = -1,
                                     .cpu_us = -1};
    if (node->options.host_stats != NULL)
        node->options.host_stats(node->options.arg, &stats);
    views->process_resident = stats.resident_bytes;
    views->process_anonymous = stats.anonymous_bytes;
    views->process_peak = stats.peak_bytes;
    views->page_cache = stats.page_cache_bytes;
    views->process_descriptors = stats.descriptors;
    views->process_cpu = stats.cpu_us;
}

static void take_directories(struct stele_observation *observation, const struct stele_node *node)
{
    /* At start and at the end a job may have the directories. */
    const struct stele_log_dirs *dirs = node->control.state == STELE_CONTROLLER_SERVING ? node->control.dirs : NULL;
    observation->directories =
        stele_mem_array(node->mem, STELE_MEM_NODE, (size_t)node->dir_count, sizeof(*observation->directories));
    if (observation->directories == NULL) {
        observation->err = STELE_NO_MEMORY;
        return;
    }
    observation->directory_count = node->dir_count;
    for (int i = 0; i < node->dir_count; i++) {
        struct stele_directory_view *view = &observation->directories[i];
        view->path = node->dir_paths[i];
        view->reserve_bytes = node->limits.reserve_bytes;
        view->free_bytes = -1;
        if (dirs == NULL)
            continue;
        view->is_offline = stele_log_dirs_is_offline(dirs, i);
        view->is_full = stele_log_dirs_is_full(dirs, i);
        view->free_bytes = stele_max_i64(stele_log_dirs_free_bytes(dirs, i), 0);
    }
}

static void take_control(struct stele_observation *observation, struct stele_shard *shard)
{
    const struct stele_node *node = shard->node;
    struct stele_views *views = &observation->views;
    observation->state = node->control.state;
    views->build_info = 1;
    views->uptime = stele_env_mono_us(shard->env) - node->began_us;
    views->is_serving = node->control.state == STELE_CONTROLLER_SERVING;
    views->shards = node->shard_count - STELE_SHARD_DATA;
    views->memory = node->mem->total_bytes;
    views->memory_limit = node->mem->limit_bytes;
    stele_observe__cluster(observation, &node->control);
    take_host(observation, node);
    take_directories(observation, node);
}

static int slower_first(const void *a, const void *b)
{
    const struct stele_slow_entry *left = a, *right = b;
    if (left->total_us != right->total_us)
        return left->total_us > right->total_us ? -1 : 1;
    return left->time_ms < right->time_ms ? -1 : left->time_ms > right->time_ms;
}

static void observed_home(struct stele_task *task)
{
    struct stele_observation *observation = STELE_CONTAINER_OF(task, struct stele_observation, task);
    observation->done(observation);
}

static void visit(struct stele_task *task)
{
    struct stele_observation *observation = STELE_CONTAINER_OF(task, struct stele_observation, task);
    struct stele_shard *shard = shard_at(observation);
    stele_metrics_sum(shard->env->metrics, &observation->metrics);
    observation->views.open_files += stele_file_cache_open_count(shard->cache);
    if (observation->at == STELE_SHARD_CONTROL)
        take_control(observation, shard);
    else
        take_data(observation, shard);
    observation->at++;
    if (observation->at == shard->node->shard_count) {
        if (observation->slow_count > 0)
            stele_sort(observation->slow, (size_t)observation->slow_count, sizeof(*observation->slow), slower_first);
        task->run = observed_home;
        observation->home->env->ops->post(observation->home->env, task);
        return;
    }
    shard = shard_at(observation);
    shard->env->ops->post(shard->env, task);
}

void stele_observe(struct stele_observation *observation)
{
    observation->at = STELE_SHARD_CONTROL;
    observation->task.run = visit;
    struct stele_shard *shard = shard_at(observation);
    shard->env->ops->post(shard->env, &observation->task);
}

void stele_observation_deinit(struct stele_observation *observation)
{
    if (observation->home == NULL)
        return;
    struct stele_mem *mem = observation->home->node->mem;
    topics_free(observation);
    stele_mem_free(mem, observation->directories);
    stele_mem_free(mem, observation->slow);
    observation->directories = NULL;
    observation->slow = NULL;
}
