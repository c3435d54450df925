#include "node/shard.h"

#include "base/check.h"
#include "node/isr_wish.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"
#include "node/replica_fetcher.h"
#include "node/session.h"
#include "node/slowlog.h"

enum { WHEEL_TICK_MS = 1, WHEEL_SLOTS = 20 };

static const int64_t forever_ms = 3155760000000; /* a hundred years: no monotonic clock gets there */

static void retain_fired(struct stele_timer *timer)
{
    struct stele_shard *shard = STELE_CONTAINER_OF(timer, struct stele_shard, retain_timer);
    struct stele_partition *partition, *next;
    HASH_ITER(hh, shard->partitions, partition, next)
    stele_partition_retain(partition);
    stele_shard_arm(shard, timer, stele_env_mono_ms(shard->env) + shard->node->limits.retain_ms);
}

static void expire_fired(struct stele_timer *timer)
{
    struct stele_shard *shard = STELE_CONTAINER_OF(timer, struct stele_shard, expire_timer);
    struct stele_partition *partition, *next;
    HASH_ITER(hh, shard->partitions, partition, next)
    stele_partition_expire(partition);
    stele_shard_arm(shard, timer, stele_env_mono_ms(shard->env) + shard->node->limits.expire_ms);
}

enum stele_err stele_shard_init(struct stele_shard *shard, struct stele_node *node, int index)
{
    struct stele_env *env = node->options.envs[index];
    shard->node = node;
    shard->index = index;
    shard->env = env;
    shard->net = node->options.nets != NULL ? node->options.nets[index] : NULL;
    stele_list_init(&shard->opening);
    stele_list_init(&shard->unnamed);
    stele_list_init(&shard->unnamed_first);
    stele_list_init(&shard->sessions);
    stele_list_init(&shard->departures);
    stele_list_init(&shard->cold);
    stele_list_init(&shard->holds);
    stele_list_init(&shard->wishes);
    stele_replica_fetchers_init(shard);
    stele_throttle_init(shard);
    stele_list_init(&shard->replica_sessions);
    stele_timer_init(&shard->retain_timer, retain_fired);
    stele_timer_init(&shard->expire_timer, expire_fired);
    shard->wheel = stele_timing_wheel_new(env->mem, WHEEL_TICK_MS, WHEEL_SLOTS, stele_env_mono_ms(env));
    shard->cache = stele_file_cache_new(env, (int)stele_settings_int(node->settings, "open.files.max"),
                                        stele_settings_int(node->settings, "index.map.bytes.max"));
    if (shard->wheel == NULL || shard->cache == NULL)
        return STELE_NO_MEMORY;
    if (index != STELE_SHARD_CONTROL) {
        shard->slowlog = stele_mem_alloc(env->mem, STELE_MEM_NODE, sizeof(*shard->slowlog));
        if (shard->slowlog == NULL)
            return STELE_NO_MEMORY;
    }
    return stele_timing_wheel_reserve(shard->wheel, forever_ms);
}

void stele_shard_deinit(struct stele_shard *shard)
{
    if (shard->env == NULL)
        return;
    stele_repairs_free(shard);
    stele_replica_fetchers_free(shard);
    stele_isr_wishes_free(shard);
    stele_nodes_unref(shard->nodes);
    stele_nodes_unref(shard->nodes_note.sent);
    stele_nodes_unref(shard->nodes_note.next);
    stele_mem_free(shard->env->mem, shard->slowlog);
    stele_file_cache_free(shard->cache);
    stele_timing_wheel_free(shard->wheel);
}

void stele_shard_send(struct stele_shard *from, struct stele_shard *to, struct stele_task *task)
{
    if (from == to)
        task->run(task);
    else
        to->env->ops->post(to->env, task);
}

void stele_shard_send_idly(struct stele_shard *from, struct stele_shard *to, struct stele_task *task)
{
    if (from == to)
        task->run(task);
    else
        stele_env_post_idly(to->env, task);
}

struct stele_shard *stele_shard_of(struct stele_node *node, const struct stele_uuid *topic_id, int32_t partition)
{
    uint32_t sum = (uint32_t)partition;
    for (size_t i = 0; i < sizeof(topic_id->bytes); i++)
        sum = sum * 31 + topic_id->bytes[i];
    return &node->shards[STELE_SHARD_DATA + (int)(sum % (uint32_t)(node->shard_count - 1))];
}

void stele_shard_arm(struct stele_shard *shard, struct stele_timer *timer, int64_t deadline_ms)
{
    enum stele_err err = stele_timer_arm(shard->wheel, timer, stele_min_i64(deadline_ms, forever_ms));
    STELE_ASSERT(err == STELE_OK); /* its levels were made with the shard */
}

static void rounds_arrived(struct stele_task *task)
{
    struct stele_shard *shard = STELE_CONTAINER_OF(task, struct stele_shard, rounds_task);
    int64_t now_ms = stele_env_mono_ms(shard->env);
    stele_shard_arm(shard, &shard->retain_timer, now_ms + shard->node->limits.retain_ms);
    stele_shard_arm(shard, &shard->expire_timer, now_ms + shard->node->limits.expire_ms);
}

void stele_shard_begin_rounds(struct stele_shard *shard)
{
    shard->rounds_task.run = rounds_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &shard->rounds_task);
}

static void stopped_home(struct stele_task *task)
{
    struct stele_shard *shard = STELE_CONTAINER_OF(task, struct stele_shard, stop_task);
    shard->stopped(shard);
}

static bool has_work(const struct stele_shard *shard)
{
    struct stele_partition *partition, *next;
    if (shard->session_count > 0 || !stele_list_is_empty(&shard->departures) || shard->opening_count > 0 ||
        !stele_list_is_empty(&shard->opening))
        return true;
    HASH_ITER(hh, shard->partitions, partition, next)
    {
        if (!stele_partition_is_idle(partition))
            return true;
    }
    return false;
}

void stele_shard_check_stopped(struct stele_shard *shard)
{
    struct stele_partition *partition, *next;
    if (!shard->is_stopping || has_work(shard))
        return;
    shard->is_stopping = false; /* once only */
    shard->is_closed = true;
    HASH_ITER(hh, shard->partitions, partition, next)
    stele_partition_close(partition);
    shard->stop_task.run = stopped_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &shard->stop_task);
}

static void stop_arrived(struct stele_task *task)
{
    struct stele_shard *shard = STELE_CONTAINER_OF(task, struct stele_shard, stop_task);
    shard->is_stopping = true;
    stele_repairs_stop(shard);
    stele_replica_fetchers_stop(shard);
    stele_timer_cancel(shard->wheel, &shard->retain_timer);
    stele_timer_cancel(shard->wheel, &shard->expire_timer);
    stele_timer_cancel(shard->wheel, &shard->throttled.timer);
    struct stele_partition *partition, *next;
    HASH_ITER(hh, shard->partitions, partition, next)
    stele_partition_hurry(partition);
    struct stele_list *at = shard->sessions.next;
    while (at != &shard->sessions) {
        struct stele_session *session = STELE_CONTAINER_OF(at, struct stele_session, link);
        at = at->next; /* only this session can go away in the call */
        stele_session_stop(session);
    }
    stele_shard_check_stopped(shard);
}

void stele_shard_stop(struct stele_shard *shard, void (*stopped)(struct stele_shard *shard))
{
    shard->stopped = stopped;
    shard->stop_task.run = stop_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &shard->stop_task);
}
