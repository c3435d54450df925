#include "node/partition_repair.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/replica_fetcher.h"
#include "storage/repair.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 100, BACKOFF_MS = 500, BACKOFF_MS_MAX = 30000, PIECE_BYTES = 1 << 20, PIECE_BYTES_MAX = 32 << 20 };

enum state { IDLE, ASKING, CLOSING, WRITING };

/* What a replica says of the range. */
enum has { HAS, HAS_NOT, UNKNOWN };

struct stele_repairs {
    struct stele_shard *shard;
    struct stele_list waiting; /* partitions that are damaged, or were and must be told of (repair_link) */
    struct stele_timer timer;

    struct stele_partition *partition;
    enum state state;
    int32_t leader_epoch;
    const struct stele_log *log; /* whose ranges they are, and its partition's generation then */
    int64_t generation;
    int64_t first_offset; /* of what is damaged */
    struct stele_repair *ranges;
    int range_count, at;
    int32_t nodes[STELE_REPLICAS_MAX]; /* in the order in which they are asked */
    int node_count, node_at;
    bool is_any_unknown; /* of those asked for this range */

    struct stele_link link;
    int32_t node_id; /* whose it is */
    struct stele_call call;
    bool is_calling;
    uint8_t *bytes; /* that are to be written */
    size_t count;
    struct stele_job job;
    enum stele_err job_err;
};

static struct stele_mem *mem_of(const struct stele_repairs *repairs)
{
    return repairs->shard->env->mem;
}

static int64_t now_ms(const struct stele_repairs *repairs)
{
    return stele_env_mono_ms(repairs->shard->env);
}

/* The link's deadlines, and a look at what waits. */
static void arm(struct stele_repairs *repairs)
{
    struct stele_shard *shard = repairs->shard;
    int64_t due_ms = stele_link_deadline(&repairs->link);
    if (repairs->state == IDLE && !stele_list_is_empty(&repairs->waiting))
        due_ms = stele_min_i64(due_ms, now_ms(repairs) + LOOK_MS);
    if (due_ms == INT64_MAX || shard->is_stopping || shard->is_closed)
        stele_timer_cancel(shard->wheel, &repairs->timer);
    else
        stele_shard_arm(shard, &repairs->timer, stele_max_i64(due_ms, now_ms(repairs)));
}

/* The controller is told. */

static void told_home(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, damage_task);
    partition->is_damage_sent = false;
    partition->is_damage_told = partition->sent_damage && partition->is_damage_heard;
    stele_partition__job_done(partition);
}

static void told_arrived(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, damage_task);
    struct stele_node *node = partition->shard->node;
    partition->is_damage_heard = node->hooks.partition_damaged != NULL;
    if (partition->is_damage_heard)
        node->hooks.partition_damaged(node->hooks.arg, partition, partition->sent_damage);
    task->run = told_home;
    stele_shard_send(&node->shards[STELE_SHARD_CONTROL], partition->shard, task);
}

/* While it is under way it counts as a job of the partition, which therefore is there when it comes home. The control
 * plane may not be there yet: then it is said again at the next look. */
static void tell_controller(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    if (partition->is_damage_sent || partition->is_damaged == partition->is_damage_told || shard->is_stopping)
        return;
    partition->is_damage_sent = true;
    partition->sent_damage = partition->is_damaged;
    partition->job_count++;
    partition->damage_task.run = told_arrived;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &partition->damage_task);
}

/* The end of one. */

/* What is left of the run is given back; the partition may be gone. */
static void leave(struct stele_repairs *repairs)
{
    stele_mem_free(mem_of(repairs), repairs->ranges);
    stele_mem_free(mem_of(repairs), repairs->bytes);
    repairs->ranges = NULL;
    repairs->bytes = NULL;
    repairs->range_count = repairs->at = 0;
    repairs->partition = NULL;
    repairs->state = IDLE;
    arm(repairs);
}

static void finish(struct stele_repairs *repairs)
{
    struct stele_partition *partition = repairs->partition;
    int shift = (int)stele_min_i64(partition->repair_tries++, 6);
    partition->repair_ms = now_ms(repairs) + stele_min_i64((int64_t)BACKOFF_MS << shift, BACKOFF_MS_MAX);
    int64_t first_offset = repairs->first_offset;
    leave(repairs);
    if (!partition->is_suspended) {
        stele_repair_look(partition);
        return;
    }
    partition->is_suspended = false;
    partition->open.is_suspect = true;
    partition->open.suspect_offset = first_offset;
    if (partition->state == STELE_PARTITION_OPENING)
        stele_partition__open_again(partition);
}

/* Closing. */

static void write(struct stele_repairs *repairs);

static void closed(struct stele_repairs *repairs)
{
    struct stele_partition *partition = repairs->partition;
    stele_log_free(partition->log);
    partition->log = NULL;
    if (repairs->range_count == 0)
        finish(repairs);
    else
        write(repairs);
}

void stele_repair_job_ended(struct stele_partition *partition)
{
    struct stele_repairs *repairs = partition->shard->repairs;
    if (repairs != NULL && repairs->partition == partition && repairs->state == CLOSING &&
        partition->state == STELE_PARTITION_OPENING && stele_partition_is_idle(partition))
        closed(repairs);
}

/* What the checkpoints may say until it is open again, and what a start goes by. */
static void take_points(struct stele_partition *partition)
{
    const struct stele_log *log = partition->log;
    struct stele_log_points points = {.recovery_point = stele_log_checkpoint_point(log),
                                      .log_start_offset = stele_log_start_offset(log),
                                      .high_watermark =
                                          stele_min_i64(stele_log_high_watermark(log), stele_log_recovery_point(log))};
    stele_replica__cap_points(partition, &points);
    partition->open.config = *stele_log_config(log);
    partition->open.is_new = partition->open.was_clean = false;
    partition->open.recovery_point = points.recovery_point;
    partition->open.log_start_offset = points.log_start_offset;
    partition->open.high_watermark = points.high_watermark;
    partition->has_next_config = false;
}

static void close_log(struct stele_repairs *repairs)
{
    struct stele_partition *partition = repairs->partition;
    struct stele_shard *shard = repairs->shard;
    repairs->state = CLOSING;
    take_points(partition);
    partition->is_suspended = true;
    partition->state = STELE_PARTITION_OPENING;
    stele_timer_cancel(shard->wheel, &partition->flush_timer);
    stele_timer_cancel(shard->wheel, &partition->unlink_timer);
    stele_replica__suspend(partition);
    stele_partition__refuse_acks(partition, STELE_NOT_LEADER_OR_FOLLOWER);
    stele_partition__wake_all_reads(partition);
    if (repairs->partition == partition && repairs->state == CLOSING && stele_partition_is_idle(partition))
        closed(repairs);
}

/* Asking. */

static void ask(struct stele_repairs *repairs);

static bool is_same_leader(const struct stele_repairs *repairs)
{
    const struct stele_replica *replica = &repairs->partition->replica;
    return replica->leader_epoch == repairs->leader_epoch &&
           (!replica->has_state || replica->state.leader_epoch == repairs->leader_epoch);
}

/* Before the log is closed for it: whether the ranges are of the log that is there. One that moves to another directory
 * gives way to its copy when it is held, which has other files. */
static bool is_same_log(const struct stele_repairs *repairs)
{
    const struct stele_partition *partition = repairs->partition;
    return partition->is_suspended ||
           (partition->log == repairs->log && !partition->is_held && partition->generation == repairs->generation);
}

/* Nobody has it, or nobody can say. */
static void give_up_range(struct stele_repairs *repairs)
{
    struct stele_partition *partition = repairs->partition;
    const struct stele_repair *range = &repairs->ranges[repairs->at++];
    repairs->node_at = 0;
    if (repairs->is_any_unknown || partition->is_unrepaired_told)
        return;
    partition->is_unrepaired_told = true;
    stele_trace(repairs->shard->env, STELE_TRACE_REPLICA_UNREPAIRED, partition->name,
                "no other replica has them; it is tried again, in case one comes back that does", range->next_offset,
                range->last_offset, 0);
}

static enum has take_result(struct stele_repairs *repairs, const struct stele_fetch_result *result,
                            const uint8_t *records)
{
    size_t count = 0;
    /* What is damaged there comes as CORRUPT_MESSAGE: other errors have no number on the wire. */
    if (result->err == STELE_CORRUPT_MESSAGE || result->err == STELE_OFFSET_OUT_OF_RANGE)
        return HAS_NOT;
    if (result->err != STELE_OK || result->records_bytes == 0)
        return UNKNOWN;
    if (stele_repair_check(&repairs->ranges[repairs->at], records, result->records_bytes, &count) != STELE_OK)
        return HAS_NOT;
    stele_mem_free(mem_of(repairs), repairs->bytes);
    repairs->bytes = stele_mem_alloc(mem_of(repairs), STELE_MEM_NODE, count);
    if (repairs->bytes == NULL)
        return UNKNOWN;
    memcpy(repairs->bytes, records, count);
    repairs->count = count;
    return HAS;
}

static void answered(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_repairs *repairs = STELE_CONTAINER_OF(call, struct stele_repairs, call);
    struct stele_partition *partition = repairs->partition;
    enum has has = UNKNOWN;
    repairs->is_calling = false;
    if (repairs->shard->is_stopping || !is_same_leader(repairs) || !is_same_log(repairs)) {
        finish(repairs);
        return;
    }
    const struct stele_fetch_response *response = err == STELE_OK ? &answer->response->body.fetch : NULL;
    if (response != NULL && response->err == STELE_OK && response->result_count == 1 &&
        response->results[0].partition == partition->key.number &&
        response->results[0].records_bytes == answer->records_bytes)
        has = take_result(repairs, &response->results[0], answer->records);
    if (has == HAS && partition->is_suspended) {
        write(repairs);
    } else if (has == HAS) {
        close_log(repairs);
    } else {
        repairs->is_any_unknown = repairs->is_any_unknown || has == UNKNOWN;
        repairs->node_at++;
        ask(repairs);
    }
}

static bool call_node(struct stele_repairs *repairs, int32_t node_id)
{
    struct stele_partition *partition = repairs->partition;
    const struct stele_known_node *known = stele_nodes_find(repairs->shard->nodes, node_id);
    const struct stele_repair *range = &repairs->ranges[repairs->at];
    struct stele_fetch_partition line = {STELE_FETCH_PARTITION_OF_CONSUMER, .topic_id = partition->key.topic_id,
                                         .partition = partition->key.number, .fetch_offset = range->next_offset};
    line.max_bytes = (int32_t)stele_min_i64(stele_repair_wants(range, PIECE_BYTES), PIECE_BYTES_MAX);
    struct stele_request request = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {STELE_FETCH_OF_CONSUMER, .max_bytes = line.max_bytes,
                                                   .cluster_id = "", .partitions = &line, .partition_count = 1,
                                                   .rack = node_id == repairs->nodes[0] ? "" : "repair"}};
    line.current_leader_epoch = repairs->leader_epoch;
    if (known == NULL || known->peer_address[0] == 0)
        return false;
    if (repairs->node_id != node_id)
        stele_link_drop(&repairs->link);
    repairs->node_id = node_id;
    repairs->call = (struct stele_call){.done = answered};
    repairs->is_calling = stele_link_call(&repairs->link, &repairs->call, &request, NULL) == STELE_OK;
    return repairs->is_calling;
}

static void ask(struct stele_repairs *repairs)
{
    repairs->state = ASKING;
    while (repairs->at < repairs->range_count) {
        if (repairs->node_at == repairs->node_count) {
            give_up_range(repairs);
            repairs->is_any_unknown = false;
        } else if (call_node(repairs, repairs->nodes[repairs->node_at])) {
            arm(repairs);
            return;
        } else {
            repairs->is_any_unknown = true;
            repairs->node_at++;
        }
    }
    finish(repairs);
}

/* Writing. */

static void write_work(struct stele_job *job)
{
    struct stele_repairs *repairs = STELE_CONTAINER_OF(job, struct stele_repairs, job);
    repairs->job_err = stele_repair_write(&repairs->ranges[repairs->at], repairs->bytes, repairs->count);
}

static void range_done(struct stele_repairs *repairs)
{
    struct stele_partition *partition = repairs->partition;
    const struct stele_repair *range = &repairs->ranges[repairs->at++];
    repairs->node_at = 0;
    repairs->is_any_unknown = false;
    STELE_METRIC_ADD(repairs->shard->env->metrics, repaired_ranges, 1);
    stele_trace(repairs->shard->env, STELE_TRACE_REPLICA_REPAIRED, partition->name, NULL, range->first_offset,
                range->last_offset, repairs->node_id);
}

static void write_done(struct stele_job *job)
{
    struct stele_repairs *repairs = STELE_CONTAINER_OF(job, struct stele_repairs, job);
    struct stele_partition *partition = repairs->partition;
    if (partition->state != STELE_PARTITION_OPENING) { /* it goes, or its directory failed */
        partition->is_suspended = false;
        leave(repairs);
    } else if (repairs->job_err != STELE_OK || repairs->shard->is_stopping || !is_same_leader(repairs)) {
        finish(repairs);
    } else {
        STELE_METRIC_ADD(repairs->shard->env->metrics, repaired_bytes, repairs->count);
        if (stele_repair_is_done(&repairs->ranges[repairs->at]))
            range_done(repairs);
        ask(repairs);
    }
    stele_partition__job_done(partition);
}

static void write(struct stele_repairs *repairs)
{
    struct stele_env *env = repairs->shard->env;
    repairs->state = WRITING;
    repairs->partition->job_count++;
    repairs->job = (struct stele_job){.work = write_work, .done = write_done};
    env->ops->job(env, &repairs->job);
}

/* Choosing. */

static void add_nodes(struct stele_repairs *repairs, const struct stele_node_set *set)
{
    for (int32_t i = 0; i < set->count; i++) {
        int at = 0;
        while (at < repairs->node_count && repairs->nodes[at] != set->ids[i])
            at++;
        if (at == repairs->node_count && at < STELE_REPLICAS_MAX && set->ids[i] != repairs->shard->node->node_id)
            repairs->nodes[repairs->node_count++] = set->ids[i];
    }
}

static bool is_ready(const struct stele_repairs *repairs, const struct stele_partition *partition)
{
    const struct stele_replica *replica = &partition->replica;
    return now_ms(repairs) >= partition->repair_ms && partition->state == STELE_PARTITION_OPEN &&
           replica->role == STELE_REPLICA_FOLLOWER && replica->cut == STELE_CUT_NONE && !replica->has_state &&
           partition->truncating == NULL && partition->is_named && !partition->is_held && replica->is_agreed;
}

static void begin(struct stele_repairs *repairs, struct stele_partition *partition)
{
    const struct stele_log *log = partition->log;
    const struct stele_partition_state *state = &partition->replica.state;
    int count = stele_log_suspect_offset(log) >= 0 ? 0 : stele_log_damaged_count(log);
    repairs->ranges = stele_mem_array(mem_of(repairs), STELE_MEM_NODE, (size_t)count, sizeof(*repairs->ranges));
    if (repairs->ranges == NULL && count > 0)
        return; /* at the next look */
    stele_list_remove(&partition->repair_link);
    repairs->partition = partition;
    repairs->leader_epoch = partition->replica.leader_epoch;
    repairs->log = log;
    repairs->generation = partition->generation;
    repairs->first_offset = stele_log_damage_offset(log);
    repairs->range_count = count;
    repairs->at = repairs->node_at = repairs->node_count = 0;
    repairs->is_any_unknown = false;
    for (int i = 0; i < count; i++) {
        const struct stele_damaged_range *range = stele_log_damaged(log, i);
        stele_repair_begin(&repairs->ranges[i], repairs->shard->env, partition->path, log, range);
        repairs->first_offset = stele_min_i64(repairs->first_offset, range->segment_base);
    }
    repairs->nodes[repairs->node_count++] = partition->replica.leader_id;
    add_nodes(repairs, &state->isr);
    add_nodes(repairs, &state->replicas);
    if (count == 0)
        close_log(repairs);
    else
        ask(repairs);
}

static void choose(struct stele_repairs *repairs)
{
    struct stele_list *at = repairs->waiting.next;
    while (at != &repairs->waiting && repairs->partition == NULL) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, repair_link);
        at = at->next;
        tell_controller(partition);
        if (!partition->is_damaged && !partition->is_damage_told && !partition->is_damage_sent)
            stele_list_remove(&partition->repair_link); /* all who must know do */
        else if (partition->is_damaged && is_ready(repairs, partition))
            begin(repairs, partition);
    }
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_repairs *repairs = STELE_CONTAINER_OF(timer, struct stele_repairs, timer);
    stele_link_tick(&repairs->link, now_ms(repairs));
    if (repairs->state == IDLE && !repairs->shard->is_stopping)
        choose(repairs);
    arm(repairs);
}

/* Life. */

static void next_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    const struct stele_repairs *repairs = STELE_CONTAINER_OF(link, struct stele_repairs, link);
    const struct stele_known_node *known = stele_nodes_find(repairs->shard->nodes, repairs->node_id);
    (void)snprintf(out_address, STELE_ADDRESS_BYTES, "%s", known != NULL ? known->peer_address : "");
}

/* NULL without memory. */
static struct stele_repairs *repairs_of(struct stele_shard *shard)
{
    struct stele_repairs *repairs = shard->repairs;
    if (repairs != NULL)
        return repairs;
    repairs = stele_mem_alloc(shard->env->mem, STELE_MEM_NODE, sizeof(*repairs));
    if (repairs == NULL)
        return NULL;
    repairs->shard = shard;
    repairs->node_id = STELE_NO_NODE;
    stele_list_init(&repairs->waiting);
    stele_timer_init(&repairs->timer, timer_fired);
    stele_link_init(&repairs->link, stele_replica_fetchers_group(shard));
    repairs->link.next_address = next_address;
    shard->repairs = repairs;
    return repairs;
}

void stele_repair_look(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    if (partition->state != STELE_PARTITION_OPEN || shard->is_stopping)
        return;
    bool was_damaged = partition->is_damaged || partition->replica.follower.damaged_offset >= 0;
    partition->is_damaged = stele_log_damage_offset(partition->log) >= 0;
    if (!partition->is_damaged && !was_damaged)
        return;
    stele_replica__damage_changed(partition);
    if (!partition->is_damaged) {
        partition->repair_tries = 0;
        partition->is_unrepaired_told = false;
    } else if (partition->replica.replica_count <= 1) {
        return; /* there is no other copy, and nobody to lead */
    }
    struct stele_repairs *repairs = repairs_of(shard);
    tell_controller(partition);
    /* Without memory the next read that meets it comes here again. */
    if (repairs == NULL || repairs->partition == partition || !stele_list_is_empty(&partition->repair_link))
        return;
    stele_list_push(&repairs->waiting, &partition->repair_link);
    if (repairs->state == IDLE)
        arm(repairs);
}

void stele_repair_forget(struct stele_partition *partition)
{
    struct stele_repairs *repairs = partition->shard->repairs;
    stele_list_remove(&partition->repair_link);
    if (repairs == NULL || repairs->partition != partition || repairs->state == WRITING)
        return; /* its job comes back */
    if (repairs->is_calling)
        stele_link_cancel(&repairs->link, &repairs->call);
    repairs->is_calling = false;
    partition->is_suspended = false;
    leave(repairs);
}

void stele_repairs_stop(struct stele_shard *shard)
{
    struct stele_repairs *repairs = shard->repairs;
    if (repairs == NULL)
        return;
    if (repairs->is_calling) {
        stele_link_cancel(&repairs->link, &repairs->call);
        repairs->is_calling = false;
        finish(repairs);
    }
    stele_link_drop(&repairs->link);
    stele_timer_cancel(shard->wheel, &repairs->timer);
}

void stele_repairs_free(struct stele_shard *shard)
{
    struct stele_repairs *repairs = shard->repairs;
    if (repairs == NULL)
        return;
    stele_timer_cancel(shard->wheel, &repairs->timer);
    stele_link_abandon(&repairs->link);
    while (!stele_list_is_empty(&repairs->waiting))
        stele_list_remove(repairs->waiting.next);
    stele_mem_free(mem_of(repairs), repairs->ranges);
    stele_mem_free(mem_of(repairs), repairs->bytes);
    stele_mem_free(mem_of(repairs), repairs);
    shard->repairs = NULL;
}
