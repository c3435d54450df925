/* The admin call on a node's own state. */
#include "client/admin_internal.h"

static const char *api_name(int32_t api)
{
    switch (api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case key:                                                                                                          \
        return #stem;
#include "proto/api.def"
#undef STELE_API
    default:
        return "";
    }
}

static void make_directory(struct stele_answer_memory *memory, const struct stele_node_directory *from,
                           struct stele_directory_description *to)
{
    *to = (struct stele_directory_description){.path = stele_answer_text(memory, from->path),
                                               .is_offline = from->is_offline,
                                               .is_full = from->is_full,
                                               .free_bytes = from->free_bytes,
                                               .reserve_bytes = from->reserve_bytes,
                                               .partition_count = from->partition_count};
}

static void make_metric(struct stele_answer_memory *memory, const struct stele_node_metric *from,
                        struct stele_metric_description *to)
{
    *to = (struct stele_metric_description){.name = stele_answer_text(memory, from->name), .value = from->value};
}

static void make_slow(struct stele_answer_memory *memory, const struct stele_slow_request *from,
                      struct stele_slow_description *to)
{
    *to = (struct stele_slow_description){.time_ms = from->time_ms,
                                          .api = from->api,
                                          .api_name = api_name(from->api),
                                          .client_id = stele_answer_text(memory, from->client_id),
                                          .peer = stele_answer_text(memory, from->peer),
                                          .total_us = from->total_us,
                                          .queue_us = from->queue_us,
                                          .append_us = from->append_us,
                                          .fsync_us = from->fsync_us,
                                          .read_us = from->read_us,
                                          .reply_us = from->reply_us,
                                          .bytes = from->bytes,
                                          .segments_searched = from->segments_searched,
                                          .bytes_scanned = from->bytes_scanned,
                                          .was_cold = from->was_cold};
}

static void take_node(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_node_status_response *from = &response->body.node_status;
    struct stele_node_description *node = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(node);
    stele_waited_end(waited, from->err, NULL);
    if (from->err != STELE_OK)
        return;
    *node = (struct stele_node_description){.node_id = from->node_id,
                                            .cluster_id = stele_answer_text(memory, from->cluster_id),
                                            .software_version = stele_answer_text(memory, from->software_version),
                                            .uptime_ms = from->uptime_ms,
                                            .shard_count = from->shard_count,
                                            .connection_count = from->connection_count,
                                            .topic_count = from->topic_count,
                                            .partition_count = from->partition_count,
                                            .offline_count = from->offline_count,
                                            .memory_bytes = from->memory_bytes,
                                            .memory_limit_bytes = from->memory_limit_bytes,
                                            .longest_stall_us = from->longest_stall_us,
                                            .directory_count = from->directory_count,
                                            .metric_count = from->metric_count,
                                            .slow_count = from->slow_request_count};
    STELE_ANSWER_LIST(memory, node->directories, from->directory_count, from->directories,
                      struct stele_directory_description, make_directory);
    STELE_ANSWER_LIST(memory, node->metrics, from->metric_count, from->metrics, struct stele_metric_description,
                      make_metric);
    STELE_ANSWER_LIST(memory, node->slow, from->slow_request_count, from->slow_requests, struct stele_slow_description,
                      make_slow);
}

struct stele_result stele_node_describe(struct stele_client *client, bool with_metrics, int32_t slow_max,
                                        struct stele_node_description **out_node)
{
    struct stele_error error = {.text = ""};
    struct stele_node_description *node = stele_answer_new(client, sizeof(*node));
    enum stele_err err = node == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_node, .error = &error, .arg = node};
        struct stele_request request = {
            .header.api = STELE_API_NODE_STATUS,
            .body.node_status = {.slow_requests_max = slow_max, .with_metrics = with_metrics}};
        err = stele_client__wait_for(client, &waited, &request);
    }
    struct stele_result result = stele_answer_finish(err, &error, node, &made);
    if (result.code == STELE_OK)
        *out_node = made;
    return result;
}

void stele_node_description_free(struct stele_node_description *node)
{
    stele_answer_free(node);
}
