/* Reads and lookups by time: what is in the page cache is answered at once, the rest is loaded by a job first. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"

#include <string.h>

enum {
    COLD_BYTES_MAX = 16 << 20,     /* being loaded at the same time by one shard */
    COLD_READ_BYTES_MAX = 4 << 20, /* of one read: the next one finds more */
};

static struct stele_op *op_at(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_op, link);
}

static struct stele_read_op *read_of(struct stele_op *op)
{
    return STELE_CONTAINER_OF(op, struct stele_read_op, op);
}

static struct stele_list_op *list_of(struct stele_op *op)
{
    return STELE_CONTAINER_OF(op, struct stele_list_op, op);
}

/* Cold jobs, under the shard's budget. */

static void start_cold(struct stele_shard *shard)
{
    while (!stele_list_is_empty(&shard->cold)) {
        struct stele_cold *cold = STELE_CONTAINER_OF(shard->cold.next, struct stele_cold, link);
        if (shard->cold_bytes > 0 && shard->cold_bytes + cold->bytes > COLD_BYTES_MAX)
            return;
        stele_list_remove(&cold->link);
        shard->cold_bytes += cold->bytes;
        shard->env->ops->job(shard->env, &cold->job);
    }
}

void stele_partition__run_cold(struct stele_partition *partition, struct stele_cold *cold)
{
    struct stele_env *env = partition->shard->env;
    cold->partition = partition;
    partition->job_count++;
    cold->asked_us = stele_env_mono_us(env);
    STELE_METRIC_ADD(env->metrics, cold_reads, 1);
    STELE_METRIC_ADD(env->metrics, cold_read_bytes, cold->bytes);
    stele_list_init(&cold->link);
    stele_list_push(&partition->shard->cold, &cold->link);
    start_cold(partition->shard);
}

void stele_partition__cold_ended(struct stele_cold *cold)
{
    struct stele_shard *shard = cold->partition->shard;
    STELE_METRIC_OBSERVE(shard->env->metrics, request_read, stele_env_mono_us(shard->env) - cold->asked_us);
    shard->cold_bytes -= cold->bytes;
    start_cold(shard);
}

static void cold_ended(struct stele_op *op, struct stele_cold *cold)
{
    op->stages.read_us += stele_env_mono_us(op->shard->env) - cold->asked_us;
    op->stages.was_cold = true;
    stele_partition__cold_ended(cold);
}

/* What lookups cost, from the shard's own counters. Jobs of the shard count there too while partitions are opened: then
 * a little of theirs is taken for the operation's. */
struct lookups {
    int64_t segments, bytes;
};

static struct lookups lookups_now(const struct stele_partition *partition)
{
    const struct stele_metrics *metrics = partition->shard->env->metrics;
    return (struct lookups){.segments = metrics->log_segments_searched, .bytes = metrics->log_lookup_bytes};
}

static void add_lookups(struct stele_op *op, const struct lookups *before)
{
    struct lookups now = lookups_now(op->partition);
    op->stages.segments_searched += now.segments - before->segments;
    op->stages.bytes_scanned += now.bytes - before->bytes;
}

/* Read. */

static void note_log(struct stele_partition *partition, struct stele_read_op *read)
{
    const struct stele_log *log = partition->log;
    int64_t cut = stele_partition__cut_offset(partition);
    read->high_watermark = stele_min_i64(stele_log_high_watermark(log), cut);
    read->last_stable_offset = stele_min_i64(stele_log_last_stable_offset(log), cut);
    read->generation = partition->generation;
    read->log_start_offset = stele_log_start_offset(log);
    read->seen_bytes = partition->visible_bytes;
    read->was_following = partition->replica.role == STELE_REPLICA_FOLLOWER;
}

static uint32_t rack_number(const struct stele_partition *partition, const char *rack)
{
    const struct stele_nodes *nodes = partition->shard->nodes;
    for (int i = 0; rack[0] != 0 && nodes != NULL && i < nodes->count; i++) {
        if (strcmp(nodes->items[i].rack, rack) == 0)
            return nodes->items[i].status.rack;
    }
    return 0;
}

/* A consumer that came by one listener cannot be told of a node that has no address for it. */
static bool is_reached(const struct stele_partition *partition, int32_t node_id, const char *listener)
{
    const struct stele_known_node *known = stele_nodes_find(partition->shard->nodes, node_id);
    return known != NULL && stele_known_listener_of(known, listener) != NULL;
}

/* KIP-320: the records before are not there any more, or are others: `diverging` says from where on. An epoch that a
 * follower's log ends in may go on at the leader, and so may the log in later ones: of these it does not know. */
static enum stele_err find_divergence(struct stele_partition *partition, struct stele_read_op *read)
{
    struct stele_epoch_end end = stele_replica__epoch_end(partition, read->last_fetched_epoch);
    read->diverging = (struct stele_epoch_end){STELE_EPOCH_NONE, STELE_OFFSET_NONE};
    if (!stele_epoch_end_is_known(&end) || (end.epoch == read->last_fetched_epoch && end.end_offset >= read->offset))
        return STELE_OK;
    if (partition->replica.role == STELE_REPLICA_FOLLOWER && end.end_offset >= stele_log_end_offset(partition->log))
        return STELE_OFFSET_NOT_AVAILABLE;
    read->diverging = end;
    return STELE_OK;
}

/* KIP-392: a replica in the consumer's rack is asked instead of the leader. True: that, or a divergence, is the answer.
 */
static bool is_elsewhere(struct stele_partition *partition, struct stele_read_op *read)
{
    const struct stele_replica *replica = &partition->replica;
    read->read_replica = STELE_NO_NODE;
    if (stele_epoch_end_is_known(&read->diverging))
        return true;
    /* What was deleted here is so everywhere, though a replica has not said so since. */
    bool is_deleted = read->offset < stele_log_start_offset(partition->log);
    uint32_t rack = replica->role == STELE_REPLICA_LEADER && !is_deleted ? rack_number(partition, read->rack) : 0;
    int32_t node_id = rack != 0 ? stele_leader_read_replica(&replica->leader, rack, read->offset) : STELE_NO_NODE;
    if (rack != 0 && node_id != replica->leader.node_id && is_reached(partition, node_id, read->listener))
        read->read_replica = node_id;
    return read->read_replica != STELE_NO_NODE;
}

static enum stele_err read_log(struct stele_partition *partition, struct stele_read_op *read)
{
    struct stele_log *log = partition->log;
    note_log(partition, read);
    struct stele_read in = {.offset = read->offset,
                            .bound = read->isolation == STELE_READ_COMMITTED ? read->last_stable_offset
                                                                             : read->high_watermark,
                            .max_bytes = read->max_bytes,
                            .min_one = true};
    enum stele_err err = stele_log_read(log, &in, &read->slice);
    /* What a follower does not have yet is not beyond the partition's end, and who asks may take it for the leader. */
    if (err == STELE_OFFSET_OUT_OF_RANGE && read->was_following && read->offset > stele_log_end_offset(log))
        return STELE_OFFSET_NOT_AVAILABLE;
    if (err == STELE_OK && read->isolation == STELE_READ_COMMITTED && read->slice.bytes > 0)
        err = stele_log_aborted(log, read->offset, &read->slice, &read->aborted, &read->aborted_count);
    if (err == STELE_OK && read->slice.file != NULL)
        read->file = stele_cached_file_send(read->slice.file)->file; /* pinned: open until released */
    return err;
}

void stele_partition_unreadable(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    stele_log_unreadable(partition->log);
    if (stele_log_is_failed(partition->log))
        stele_partition_fail(partition);
}

static void read_hot(struct stele_partition *partition, struct stele_read_op *read)
{
    struct lookups before = lookups_now(partition);
    enum stele_err err = read_log(partition, read);
    add_lookups(&read->op, &before);
    if (err != STELE_OK)
        stele_slice_release(&read->slice);
    if (stele_log_is_failed(partition->log))
        stele_partition_fail(partition);
    if (err == STELE_DAMAGED_RANGE)
        stele_repair_look(partition);
    stele_op__finish(&read->op, err);
}

/* What was so when the operation came may have changed while it waited. */
static enum stele_err still_serves(struct stele_op *op)
{
    enum stele_err err = stele_partition__state_error(op->partition);
    return err == STELE_OK ? stele_replica__check_leads(op) : err;
}

static void load_work(struct stele_job *job)
{
    struct stele_read_op *read = STELE_CONTAINER_OF(job, struct stele_read_op, cold.job);
    read->load_err = stele_slice_load(job->env->mem, read->file, read->slice.pos, (int64_t)read->slice.bytes);
}

static void load_done(struct stele_job *job)
{
    struct stele_read_op *read = STELE_CONTAINER_OF(job, struct stele_read_op, cold.job);
    struct stele_partition *partition = read->op.partition;
    stele_slice_release(&read->slice);
    read->file = NULL;
    cold_ended(&read->op, &read->cold);
    enum stele_err err = still_serves(&read->op);
    if (err != STELE_OK) {
        stele_op__finish(&read->op, err);
    } else if (read->load_err == STELE_IO) {
        /* The range would end the connection in the middle of an answer, again and again. */
        stele_trace(partition->shard->env, STELE_TRACE_LOG_DAMAGED, partition->name, stele_err_text(read->load_err),
                    read->offset, -1, 0);
        stele_op__finish(&read->op, STELE_KAFKA_STORAGE_ERROR);
    } else {
        read_hot(partition, read); /* whatever is still cold is read at the loop's cost */
    }
    stele_partition__job_done(partition);
}

/* False when a job loads the range first. */
static bool is_hot(struct stele_partition *partition, struct stele_read_op *read)
{
    struct stele_vfs *vfs = partition->shard->env->vfs;
    if (stele_log_is_warm(partition->log, read->offset))
        return true;
    if (stele_log_locate(partition->log, read->offset, read->max_bytes, &read->slice) != STELE_OK ||
        read->slice.bytes == 0)
        return true; /* the read knows what to say */
    read->file = stele_cached_file_send(read->slice.file)->file;
    if (vfs->ops->resident(read->file, read->slice.pos, (int64_t)read->slice.bytes) == STELE_RESIDENT_YES) {
        stele_slice_release(&read->slice);
        return true;
    }
    read->max_bytes = stele_min_size(read->max_bytes, COLD_READ_BYTES_MAX);
    read->slice.bytes = stele_min_size(read->slice.bytes, COLD_READ_BYTES_MAX);
    return false;
}

static void read_now(struct stele_op *op)
{
    struct stele_read_op *read = read_of(op);
    struct stele_partition *partition = op->partition;
    stele_op__begin(op);
    read->slice = (struct stele_slice){.file = NULL};
    read->file = NULL;
    enum stele_err err = still_serves(op);
    if (err == STELE_OK && partition->replica.role == STELE_REPLICA_FOLLOWER)
        stele_replica__read_from(partition);
    if (err == STELE_OK && read->doubted_offset >= 0) {
        stele_partition_doubt(partition, read->doubted_offset);
        read->doubted_offset = -1;
        err = stele_partition__state_error(partition);
    }
    if (err == STELE_OK)
        err = find_divergence(partition, read);
    if (err != STELE_OK) {
        stele_op__finish(op, err);
    } else if (is_elsewhere(partition, read)) {
        note_log(partition, read);
        stele_op__finish(op, STELE_OK);
    } else if (is_hot(partition, read)) {
        read_hot(partition, read);
    } else {
        read->cold =
            (struct stele_cold){.job = {.work = load_work, .done = load_done}, .bytes = (int64_t)read->slice.bytes};
        stele_partition__run_cold(partition, &read->cold);
    }
}

void stele_partition_read(struct stele_op *op)
{
    if (!stele_partition__wait_turn(op, read_now))
        read_now(op);
}

/* Waiting for more. */

static void wake_read(struct stele_read_op *read)
{
    stele_list_remove(&read->op.link);
    read->is_parked = false;
    stele_op__post(&read->op);
}

/* A follower does not count what becomes visible: whoever waits looks again whenever there is something. */
static bool is_to_wake(const struct stele_partition *partition, const struct stele_read_op *read)
{
    enum stele_replica_role role =
        read->was_following && read->op.may_follow ? STELE_REPLICA_FOLLOWER : STELE_REPLICA_LEADER;
    if (partition->state != STELE_PARTITION_OPEN || partition->replica.role != role)
        return true;
    if (role == STELE_REPLICA_LEADER)
        return partition->visible_bytes >= read->wake_at_bytes;
    bool is_fenced = read->op.leader_epoch >= 0 && read->op.leader_epoch != partition->replica.leader_epoch;
    int64_t cut = stele_partition__cut_offset(partition);
    return is_fenced || stele_min_i64(stele_log_high_watermark(partition->log), cut) > read->high_watermark;
}

void stele_partition__wake_reads(struct stele_partition *partition)
{
    struct stele_list *at = partition->reads.next;
    while (at != &partition->reads) {
        struct stele_read_op *read = read_of(op_at(at));
        at = at->next;
        if (is_to_wake(partition, read))
            wake_read(read);
    }
}

void stele_partition__wake_all_reads(struct stele_partition *partition)
{
    while (!stele_list_is_empty(&partition->reads))
        wake_read(read_of(op_at(partition->reads.next)));
}

static void park_arrived(struct stele_task *task)
{
    struct stele_read_op *read = STELE_CONTAINER_OF(task, struct stele_read_op, op.task);
    struct stele_partition_key key = {.topic_id = read->op.topic_id, .number = read->op.number};
    struct stele_partition *partition = stele_partition_find(read->op.shard, &key);
    stele_slice_release(&read->slice);
    if (partition == NULL) { /* removed since it was read */
        stele_op__post(&read->op);
        return;
    }
    stele_list_push(&partition->reads, &read->op.link);
    read->is_parked = true;
    if (is_to_wake(partition, read))
        wake_read(read);
}

void stele_partition_park(struct stele_read_op *read)
{
    read->op.task.run = park_arrived;
    stele_shard_send(read->op.home, read->op.shard, &read->op.task);
}

static void unpark_home(struct stele_task *task)
{
    struct stele_read_op *read = STELE_CONTAINER_OF(task, struct stele_read_op, cancel_task);
    read->cancelled(read);
}

static void unpark_arrived(struct stele_task *task)
{
    struct stele_read_op *read = STELE_CONTAINER_OF(task, struct stele_read_op, cancel_task);
    if (read->is_parked) {
        stele_list_remove(&read->op.link);
        read->is_parked = false;
    }
    task->run = unpark_home;
    read->op.home->env->ops->post(read->op.home->env, task);
}

void stele_partition_unpark(struct stele_read_op *read)
{
    read->cancel_task.run = unpark_arrived;
    stele_shard_send(read->op.home, read->op.shard, &read->cancel_task);
}

/* List offsets. */

static void list_step(struct stele_partition *partition, struct stele_list_op *list);

static void list_work(struct stele_job *job)
{
    stele_log_time_work(&STELE_CONTAINER_OF(job, struct stele_list_op, cold.job)->query);
}

static void list_done(struct stele_job *job)
{
    struct stele_list_op *list = STELE_CONTAINER_OF(job, struct stele_list_op, cold.job);
    struct stele_partition *partition = list->op.partition;
    cold_ended(&list->op, &list->cold);
    enum stele_err err = still_serves(&list->op);
    if (err == STELE_OK) {
        list_step(partition, list);
    } else {
        stele_log_time_drop(&list->query);
        stele_op__finish(&list->op, err);
    }
    stele_partition__job_done(partition);
}

static void list_step(struct stele_partition *partition, struct stele_list_op *list)
{
    struct stele_log *log = partition->log;
    struct lookups before = lookups_now(partition);
    bool waits = false;
    enum stele_err err = stele_log_time_step(log, &list->query, &waits);
    add_lookups(&list->op, &before);
    if (err == STELE_OK && waits) {
        list->cold = (struct stele_cold){.job = {.work = list_work, .done = list_done},
                                         .bytes = (int64_t)list->query.slice.bytes};
        stele_partition__run_cold(partition, &list->cold);
        return;
    }
    int64_t bound = stele_log_high_watermark(log);
    list->found = list->query.found;
    if (err == STELE_OK && list->timestamp == STELE_TIME_LATEST) {
        err = stele_leader_latest_offset(&partition->replica.leader, &bound);
        bound = stele_min_i64(bound, stele_log_high_watermark(log));
    }
    if (list->isolation == STELE_READ_COMMITTED)
        bound = stele_min_i64(bound, stele_log_last_stable_offset(log));
    if (err == STELE_OK && list->timestamp == STELE_TIME_LATEST)
        list->found.offset = bound;
    else if (err == STELE_OK && list->timestamp != STELE_TIME_EARLIEST && list->found.offset >= bound)
        list->found = (struct stele_time_offset){.offset = -1, .timestamp = -1, .leader_epoch = -1};
    if (stele_log_is_failed(log))
        stele_partition_fail(partition);
    stele_op__finish(&list->op, err);
}

static void list_now(struct stele_op *op)
{
    struct stele_partition *partition = op->partition;
    struct stele_list_op *list = list_of(op);
    stele_op__begin(op);
    list->query = (struct stele_time_query){.timestamp = list->timestamp};
    enum stele_err err = still_serves(op);
    if (err == STELE_OK)
        list_step(partition, list);
    else
        stele_op__finish(op, err);
}

void stele_partition_list(struct stele_op *op)
{
    if (!stele_partition__wait_turn(op, list_now))
        list_now(op);
}
