#include "node/node.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/observe.h"
#include "node/partition.h"
#include "node/replica_session.h"
#include "node/session.h"

#include <string.h>

enum { FAR_MS = INT32_MAX };

/* Far enough to be never, near enough to be added to a time. */
static int64_t bounded_ms(const struct stele_settings *settings, const char *name)
{
    return stele_min_i64(stele_settings_int(settings, name), FAR_MS);
}

void stele_node_take_limits(struct stele_node *node)
{
    node->limits.move_bytes_per_s =
        stele_settings_int(node->settings, "replica.alter.log.dirs.io.max.bytes.per.second");
    node->limits.slow_us = bounded_ms(node->settings, "slow.request.ms") * 1000;
    stele_throttle_take_rates(node);
}

static void read_limits(struct stele_node *node)
{
    const struct stele_settings *settings = node->settings;
    struct stele_node_limits *limits = &node->limits;
    limits->frame_bytes_max = (uint32_t)stele_settings_int(settings, "socket.request.max.bytes");
    limits->fetch_bytes_max = stele_settings_int(settings, "fetch.max.bytes");
    limits->idle_ms = bounded_ms(settings, "connections.max.idle.ms");
    limits->reserve_bytes = stele_settings_int(settings, "log.dir.reserve.bytes");
    limits->retain_ms = bounded_ms(settings, "log.retention.check.interval.ms");
    limits->expire_ms = bounded_ms(settings, "producer.id.expiration.check.interval.ms");
    /* One round writes all three. */
    limits->checkpoint_ms = stele_min_i64(bounded_ms(settings, "log.flush.offset.checkpoint.interval.ms"),
                                          bounded_ms(settings, "replica.high.watermark.checkpoint.interval.ms"));
    limits->checkpoint_ms =
        stele_min_i64(limits->checkpoint_ms, bounded_ms(settings, "log.flush.start.offset.checkpoint.interval.ms"));
    limits->replica_lag_ms = (int32_t)bounded_ms(settings, "replica.lag.time.max.ms");
    limits->replica_fetch_wait_ms = (int32_t)bounded_ms(settings, "replica.fetch.wait.max.ms");
    limits->replica_fetch_backoff_ms = (int32_t)bounded_ms(settings, "replica.fetch.backoff.ms");
    limits->replica_fetch_bytes_max = (int32_t)stele_settings_int(settings, "replica.fetch.max.bytes");
    limits->replica_fetch_response_bytes_max =
        (int32_t)stele_settings_int(settings, "replica.fetch.response.max.bytes");
    limits->replica_timeout_ms = bounded_ms(settings, "replica.socket.timeout.ms");
    stele_node_take_limits(node);
    stele_throttle_begin(node);
    limits->metrics_topics_max = (int)stele_settings_int(settings, "metrics.topics.max");
    limits->opening_max = (int)stele_settings_int(settings, "num.recovery.threads.per.data.dir") *
                          (node->dir_count > 0 ? node->dir_count : 1);
}

/* "a, b" into its parts. */
static enum stele_err split_dirs(struct stele_node *node)
{
    const char *at = stele_settings_text(node->settings, "log.dirs");
    int count = 1;
    for (const char *c = at; *c != 0; c++)
        count += *c == ',';
    node->dir_paths = stele_mem_array(node->mem, STELE_MEM_NODE, (size_t)count, sizeof(*node->dir_paths));
    node->dirs = stele_mem_array(node->mem, STELE_MEM_NODE, (size_t)count, sizeof(*node->dirs));
    if (node->dir_paths == NULL || node->dirs == NULL)
        return STELE_NO_MEMORY;
    while (*at != 0) {
        at += strspn(at, " ,");
        size_t bytes = strcspn(at, ",");
        const char *next = at + bytes;
        while (bytes > 0 && (at[bytes - 1] == ' ' || (at[bytes - 1] == '/' && bytes > 1)))
            bytes--;
        if (bytes > 0) {
            char *path = stele_mem_alloc(node->mem, STELE_MEM_NODE, bytes + 1);
            if (path == NULL)
                return STELE_NO_MEMORY;
            memcpy(path, at, bytes);
            node->dir_paths[node->dir_count++] = path;
        }
        at = next;
    }
    return node->dir_count > 0 ? STELE_OK : STELE_INVALID_CONFIG;
}

enum stele_err stele_node_new(const struct stele_node_options *options, struct stele_node **out_node)
{
    STELE_ASSERT(options->shard_count >= 2);
    struct stele_mem *mem = options->envs[STELE_SHARD_CONTROL]->mem;
    struct stele_node *node = stele_mem_alloc(mem, STELE_MEM_NODE, sizeof(*node));
    if (node == NULL)
        return STELE_NO_MEMORY;
    node->options = *options;
    node->mem = mem;
    node->settings = options->settings;
    node->node_id = (int32_t)stele_settings_int(options->settings, "node.id");
    node->node_epoch = -1;
    node->began_us = stele_env_mono_us(options->envs[STELE_SHARD_CONTROL]);
    stele_list_init(&node->partitions);
    stele_list_init(&node->asks);
    enum stele_err err = split_dirs(node);
    read_limits(node);
    node->shards = stele_mem_array(mem, STELE_MEM_NODE, (size_t)options->shard_count, sizeof(*node->shards));
    node->notes = stele_mem_array(mem, STELE_MEM_NODE, (size_t)node->dir_count * (size_t)options->shard_count,
                                  sizeof(*node->notes));
    if (err == STELE_OK && (node->shards == NULL || node->notes == NULL))
        err = STELE_NO_MEMORY;
    for (int i = 0; i < options->shard_count && err == STELE_OK; i++) {
        node->shard_count++;
        err = stele_shard_init(&node->shards[i], node, i);
    }
    if (err != STELE_OK) {
        stele_node_free(node);
        return err;
    }
    stele_controller_init(&node->control, node);
    *out_node = node;
    return STELE_OK;
}

void stele_node_start(struct stele_node *node)
{
    stele_controller_start(&node->control);
}

void stele_node_set_advertised(struct stele_node *node, const char *host, int32_t port)
{
    stele_listeners_of_one(&node->listeners, host, port);
}

void stele_node_set_listeners(struct stele_node *node, const struct stele_listeners *listeners)
{
    STELE_ASSERT(listeners->count > 0);
    node->listeners = *listeners;
}

enum stele_err stele_node_accept(struct stele_node *node, int shard, int listener, struct stele_conn *conn,
                                 const struct stele_conn_handler **out_handler, void **out_arg)
{
    STELE_ASSERT(shard >= STELE_SHARD_DATA && shard < node->shard_count);
    STELE_ASSERT(listener >= 0 && listener < node->listeners.count);
    struct stele_shard *at = &node->shards[shard];
    enum stele_err err = stele_session_new(at, &node->listeners.items[listener], conn, out_handler, out_arg);
    if (err != STELE_OK)
        return err;
    const struct stele_session *session = *out_arg;
    STELE_METRIC_ADD(at->env->metrics, connections_accepted, 1);
    stele_trace(at->env, STELE_TRACE_CONN_ACCEPTED, at->net->ops->peer(conn), NULL, session->id, 0, 0);
    return STELE_OK;
}

int64_t stele_node_deadline(struct stele_node *node, int shard)
{
    return stele_timing_wheel_next(node->shards[shard].wheel);
}

void stele_node_tick(struct stele_node *node, int shard)
{
    struct stele_shard *at = &node->shards[shard];
    stele_timing_wheel_advance(at->wheel, stele_env_mono_ms(at->env));
}

void stele_node_stop(struct stele_node *node)
{
    stele_controller_stop(&node->control);
}

void stele_node_free(struct stele_node *node)
{
    if (node == NULL)
        return;
    node->is_freeing = true;
    for (int i = 0; i < node->shard_count; i++)
        stele_departures_free(&node->shards[i]);
    for (int i = 0; i < node->shard_count; i++) {
        struct stele_shard *shard = &node->shards[i];
        while (!stele_list_is_empty(&shard->sessions))
            stele_session_free(STELE_CONTAINER_OF(shard->sessions.next, struct stele_session, link));
    }
    for (int i = 0; i < node->shard_count; i++) {
        stele_replica_sessions_free(&node->shards[i]);
        stele_partition_forget_all(&node->shards[i]);
        stele_fetch_holds_free(&node->shards[i]);
    }
    while (!stele_list_is_empty(&node->partitions))
        stele_partition_free(STELE_CONTAINER_OF(node->partitions.next, struct stele_partition, all));
    stele_node_asks_free(node);
    stele_controller_deinit(&node->control);
    for (int i = 0; i < node->shard_count; i++)
        stele_shard_deinit(&node->shards[i]);
    for (int i = 0; i < node->dir_count; i++)
        stele_mem_free(node->mem, node->dir_paths[i]);
    if (node->settings != node->options.settings)
        stele_settings_free(node->settings);
    stele_mem_free(node->mem, node->dir_paths);
    stele_mem_free(node->mem, node->dirs);
    stele_mem_free(node->mem, node->notes);
    stele_mem_free(node->mem, node->shards);
    stele_mem_free(node->mem, node);
}
