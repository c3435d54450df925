#include "node/partition.h"
#include "node/partition_repair.h"

#include "base/check.h"
#include "node/isr_wish.h"
#include "node/node_struct.h"

#include <stdio.h>
#include <string.h>

static struct stele_produce_op *produce_of(struct stele_op *op)
{
    return STELE_CONTAINER_OF(op, struct stele_produce_op, op);
}

static struct stele_op *op_at(struct stele_list *link)
{
    return STELE_CONTAINER_OF(link, struct stele_op, link);
}

static struct stele_dir_state *dir_state(struct stele_partition *partition)
{
    return &partition->shard->node->dirs[partition->dir];
}

static void op_home(struct stele_task *task)
{
    struct stele_op *op = STELE_CONTAINER_OF(task, struct stele_op, task);
    op->done(op);
}

void stele_op__finish(struct stele_op *op, enum stele_err err)
{
    op->err = err;
    op->task.run = op_home;
    stele_shard_send(op->shard, op->home, &op->task);
}

void stele_op__post(struct stele_op *op)
{
    op->err = STELE_OK;
    op->task.run = op_home;
    op->home->env->ops->post(op->home->env, &op->task);
}

void stele_op__begin(struct stele_op *op)
{
    struct stele_env *env = op->shard->env;
    op->stages.queue_us = stele_env_mono_us(env) - op->sent_us;
    STELE_METRIC_OBSERVE(env->metrics, request_queue, op->stages.queue_us);
}

void stele_stages_raise(struct stele_stages *stages, const struct stele_stages *of_operation)
{
    stages->queue_us = stele_max_i64(stages->queue_us, of_operation->queue_us);
    stages->append_us = stele_max_i64(stages->append_us, of_operation->append_us);
    stages->fsync_us = stele_max_i64(stages->fsync_us, of_operation->fsync_us);
    stages->read_us = stele_max_i64(stages->read_us, of_operation->read_us);
    stages->segments_searched += of_operation->segments_searched;
    stages->bytes_scanned += of_operation->bytes_scanned;
    stages->was_cold = stages->was_cold || of_operation->was_cold;
}

enum stele_err stele_partition__state_error(const struct stele_partition *partition)
{
    switch (partition->state) {
    case STELE_PARTITION_OPENING:
        return STELE_LEADER_NOT_AVAILABLE;
    case STELE_PARTITION_OPEN:
        return STELE_OK;
    case STELE_PARTITION_OFFLINE:
        return STELE_KAFKA_STORAGE_ERROR;
    case STELE_PARTITION_CLOSED:
        return STELE_NOT_LEADER_OR_FOLLOWER;
    case STELE_PARTITION_REMOVED:
        return STELE_UNKNOWN_TOPIC_ID;
    }
    return STELE_UNKNOWN_SERVER_ERROR;
}

static void op_arrived(struct stele_task *task)
{
    struct stele_op *op = STELE_CONTAINER_OF(task, struct stele_op, task);
    struct stele_partition_key key = {.topic_id = op->topic_id, .number = op->number};
    struct stele_partition *partition = stele_partition_find(op->shard, &key);
    if (partition == NULL) {
        stele_op__finish(op, STELE_UNKNOWN_TOPIC_ID);
        return;
    }
    op->partition = partition;
    enum stele_err err = op->is_for_any_state ? STELE_OK : stele_partition__state_error(partition);
    if (err == STELE_OK && !op->is_for_any_state)
        err = stele_replica__check_leads(op);
    if (err != STELE_OK)
        stele_op__finish(op, err);
    else
        op->run(op);
}

void stele_op_submit(struct stele_op *op)
{
    op->shard = stele_shard_of(op->home->node, &op->topic_id, op->number);
    op->partition = NULL;
    op->current_leader_id = -1;
    op->current_leader_epoch = -1;
    op->sent_us = stele_env_mono_us(op->home->env);
    op->stages = (struct stele_stages){.queue_us = 0};
    stele_list_init(&op->link);
    op->task.run = op_arrived;
    stele_shard_send(op->home, op->shard, &op->task);
}

/* Acknowledgements. */

/* It no longer waits for its answer. */
static void leave_acks(struct stele_produce_op *produce)
{
    stele_timer_cancel(produce->op.shard->wheel, &produce->timer);
    stele_list_remove(&produce->op.link);
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_produce_op *produce = STELE_CONTAINER_OF(timer, struct stele_produce_op, timer);
    leave_acks(produce);
    stele_op__finish(&produce->op, STELE_REQUEST_TIMED_OUT);
}

/* Answered at once, or when the machine says so, or when its time is over. */
static void wait_for_ack(struct stele_partition *partition, struct stele_produce_op *produce)
{
    struct stele_shard *shard = partition->shard;
    produce->wait = (struct stele_produce_wait){.leader_epoch = partition->replica.leader.leader_epoch,
                                                .acks = produce->acks,
                                                .required_offset = produce->appended.last_offset + 1};
    stele_timer_init(&produce->timer, timer_fired);
    stele_list_push(produce->acks == -1 ? &partition->acks : &partition->written_acks, &produce->op.link);
    stele_partition__name(partition);
    if (produce->acks != 0)
        stele_shard_arm(shard, &produce->timer, stele_env_mono_ms(shard->env) + stele_max_i64(produce->timeout_ms, 0));
}

/* A set of one replica adds nothing to what is written here. */
static enum stele_durability durability_of(const struct stele_partition *partition, enum stele_ack_level level)
{
    bool is_alone = partition->replica.leader.isr.count == 1;
    return is_alone && level == STELE_ACK_REPLICATED ? STELE_DURABILITY_WRITTEN : (enum stele_durability)level;
}

static void answer_acks(struct stele_partition *partition, struct stele_list *acks)
{
    struct stele_log *log = partition->log;
    while (!stele_list_is_empty(acks) && partition->is_named) {
        struct stele_op *op = op_at(acks->next);
        struct stele_produce_op *produce = produce_of(op);
        struct stele_produce_outcome outcome = stele_leader_produce_outcome(&partition->replica.leader, &produce->wait);
        if (outcome.is_pending)
            return;
        leave_acks(produce);
        if (stele_log_config(log)->flush_before_ack) {
            produce->op.stages.fsync_us = stele_env_mono_us(partition->shard->env) - produce->appended_us;
            STELE_METRIC_OBSERVE(partition->shard->env->metrics, request_fsync, produce->op.stages.fsync_us);
        }
        produce->log_start_offset = stele_log_start_offset(log);
        produce->durability = durability_of(partition, outcome.level);
        stele_op__finish(op, outcome.err);
    }
}

void stele_partition__look(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    answer_acks(partition, &partition->acks);
    answer_acks(partition, &partition->written_acks);
    stele_partition__look_at_trims(partition);
    stele_partition__wake_reads(partition);
}

void stele_partition__advance(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    struct stele_log *log = partition->log;
    stele_replica__synced(partition);
    stele_partition__look(partition);
    if (stele_log_config(log)->flush_before_ack && stele_log_recovery_point(log) < stele_log_end_offset(log))
        stele_partition__flush_soon(partition);
}

static void refuse(struct stele_list *acks, enum stele_err err)
{
    while (!stele_list_is_empty(acks)) {
        struct stele_op *op = op_at(acks->next);
        leave_acks(produce_of(op));
        stele_op__finish(op, err);
    }
}

void stele_partition__refuse_acks(struct stele_partition *partition, enum stele_err err)
{
    refuse(&partition->acks, err);
    refuse(&partition->written_acks, err);
    while (!stele_list_is_empty(&partition->trims)) {
        struct stele_op *op = op_at(partition->trims.next);
        stele_timer_cancel(op->shard->wheel, &STELE_CONTAINER_OF(op, struct stele_trim_op, op)->timer);
        stele_list_remove(&op->link);
        stele_op__finish(op, err);
    }
}

static void refuse_beyond(struct stele_list *acks, int64_t offset)
{
    struct stele_list *at = acks->next;
    while (at != acks) {
        struct stele_op *op = op_at(at);
        at = at->next;
        if (produce_of(op)->appended.last_offset < offset)
            continue;
        leave_acks(produce_of(op));
        stele_op__finish(op, STELE_NOT_LEADER_OR_FOLLOWER);
    }
}

void stele_partition__refuse_beyond(struct stele_partition *partition, int64_t offset)
{
    refuse_beyond(&partition->acks, offset);
    refuse_beyond(&partition->written_acks, offset);
}

void stele_partition_fail(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPENING && partition->state != STELE_PARTITION_OPEN)
        return;
    partition->state = STELE_PARTITION_OFFLINE;
    dir_state(partition)->has_failed_log = true;
    stele_timer_cancel(partition->shard->wheel, &partition->flush_timer);
    stele_timer_cancel(partition->shard->wheel, &partition->unlink_timer);
    stele_repair_forget(partition);
    stele_replica__end(partition);
    stele_partition__refuse_acks(partition, STELE_KAFKA_STORAGE_ERROR);
    stele_partition__wake_reads(partition);
    if (partition->mover != NULL)
        stele_mover_hurry(partition->mover);
    stele_partition_failed_send(partition);
}

/* Produce. */

static void set_message(struct stele_produce_op *produce, const char *text)
{
    /* Without memory the error goes out without its sentence. */
    if (produce->message == NULL && text[0] != 0)
        produce->message = stele_mem_string(produce->op.shard->env->mem, STELE_MEM_REQUEST, text);
}

static void refuse_full(struct stele_produce_op *produce)
{
    struct stele_error error;
    struct stele_node *node = produce->op.shard->node;
    (void)stele_error_set(&error, STELE_NO_SPACE,
                          "the disk under %s is full or has less than log.dir.reserve.bytes (%lld) free: make room, "
                          "the node goes on by itself",
                          produce->op.partition->name, (long long)node->limits.reserve_bytes);
    set_message(produce, error.text);
    stele_op__finish(&produce->op, STELE_NO_SPACE);
}

static void validate_work(struct stele_job *job)
{
    struct stele_produce_op *produce = STELE_CONTAINER_OF(job, struct stele_produce_op, job);
    produce->validate_err = stele_validate(job->env->mem, &produce->config, produce->bytes, produce->count,
                                           stele_env_wall_ms(job->env), &produce->validated, &produce->error);
}

static void append(struct stele_partition *partition, struct stele_produce_op *produce)
{
    struct stele_buf *rebuilt = produce->validated.rebuilt;
    struct stele_append in = {.bytes = rebuilt != NULL ? rebuilt->bytes : produce->bytes,
                              .count = produce->validated.bytes,
                              .origin = STELE_ORIGIN_CLIENT,
                              .leader_epoch = partition->replica.leader.leader_epoch};
    struct stele_env *env = partition->shard->env;
    enum stele_err err = stele_log_append(partition->log, &in, &produce->appended);
    produce->appended_us = stele_env_mono_us(env);
    produce->op.stages.append_us = produce->appended_us - produce->op.sent_us - produce->op.stages.queue_us;
    STELE_METRIC_OBSERVE(env->metrics, request_append, produce->op.stages.append_us);
    stele_buf_unref(rebuilt);
    produce->validated.rebuilt = NULL;
    if (err == STELE_NO_SPACE) {
        stele_log_dirs_take(partition->shard->node->control.dirs, partition->dir, INT64_MAX);
        refuse_full(produce);
        return;
    }
    if (err != STELE_OK) {
        if (err == STELE_RECORD_LIST_TOO_LARGE) {
            struct stele_error error;
            (void)stele_error_set(&error, err, "the batch of %zu bytes is larger than segment.bytes (%lld)", in.count,
                                  (long long)stele_log_config(partition->log)->segment_bytes);
            set_message(produce, error.text);
        }
        stele_op__finish(&produce->op, err);
        if (stele_log_is_failed(partition->log))
            stele_partition_fail(partition);
        return;
    }
    stele_log_dirs_take(partition->shard->node->control.dirs, partition->dir, (int64_t)in.count);
    partition->shard->is_changed = true;
    wait_for_ack(partition, produce);
    if (!produce->appended.is_duplicate)
        stele_replica__appended(partition, (int64_t)in.count);
    if (produce->appended.wants_flush)
        stele_partition__flush(partition);
    stele_partition__write_back(partition);
    stele_partition__advance(partition);
    stele_partition__arm_flush(partition);
    if (partition->shard->is_stopping)
        stele_partition_hurry(partition);
}

/* Again when its turn comes: it may have been validated while the lead passed on. */
static enum stele_err admit(struct stele_produce_op *produce)
{
    struct stele_partition *partition = produce->op.partition;
    enum stele_err err = stele_partition__state_error(partition);
    if (err == STELE_OK)
        err = stele_replica__check_leads(&produce->op);
    if (err == STELE_OK && partition->truncating != NULL)
        err = STELE_NOT_LEADER_OR_FOLLOWER;
    return err == STELE_OK ? stele_leader_admits(&partition->replica.leader, produce->acks) : err;
}

static void produce_now(struct stele_partition *partition, struct stele_produce_op *produce)
{
    enum stele_err err = admit(produce);
    if (err != STELE_OK) {
        stele_buf_unref(produce->validated.rebuilt);
        produce->validated.rebuilt = NULL;
        stele_op__finish(&produce->op, err);
        return;
    }
    stele_op__begin(&produce->op);
    if (!produce->is_validated) {
        struct stele_env *env = partition->shard->env;
        produce->is_validated = true;
        produce->error.text[0] = 0;
        produce->validate_err =
            stele_validate(env->mem, stele_log_config(partition->log), produce->bytes, produce->count,
                           stele_env_wall_ms(env), &produce->validated, &produce->error);
    }
    if (produce->validate_err != STELE_OK) {
        set_message(produce, produce->error.text);
        stele_op__finish(&produce->op, produce->validate_err);
        return;
    }
    append(partition, produce);
}

/* Runs what is at the head of the queue until a produce is met that is still validated. */
static void drain(struct stele_partition *partition)
{
    while (!stele_list_is_empty(&partition->queue) && !partition->is_held) {
        struct stele_op *op = op_at(partition->queue.next);
        if (op->run == stele_partition_produce && produce_of(op)->is_validating)
            return;
        stele_list_remove(&op->link);
        if (op->run == stele_partition_produce)
            produce_now(partition, produce_of(op));
        else
            op->now(op);
    }
}

bool stele_partition__wait_turn(struct stele_op *op, void (*now)(struct stele_op *op))
{
    struct stele_partition *partition = op->partition;
    op->now = now;
    for (struct stele_list *at = partition->queue.next; at != &partition->queue; at = at->next) {
        if (op_at(at)->origin == op->origin) {
            stele_list_push(&partition->queue, &op->link);
            return true;
        }
    }
    return false;
}

bool stele_partition__wait_release(struct stele_op *op, void (*now)(struct stele_op *op))
{
    if (!op->partition->is_held)
        return stele_partition__wait_turn(op, now);
    op->now = now;
    stele_list_push(&op->partition->queue, &op->link);
    return true;
}

void stele_partition__released(struct stele_partition *partition)
{
    bool wants_flush = partition->wants_flush && partition->flush == NULL;
    partition->is_held = false;
    if (partition->state == STELE_PARTITION_OPEN) {
        partition->wants_flush = partition->wants_flush && !wants_flush;
        if (wants_flush)
            stele_partition__flush(partition);
        stele_replica__released(partition);
    }
    drain(partition);
    stele_partition__advance(partition);
    stele_partition__arm_flush(partition);
    stele_partition__arm_unlink(partition);
    if (partition->shard->is_stopping)
        stele_partition_hurry(partition);
}

static void validate_done(struct stele_job *job)
{
    struct stele_produce_op *produce = STELE_CONTAINER_OF(job, struct stele_produce_op, job);
    struct stele_partition *partition = produce->op.partition;
    produce->is_validating = false;
    produce->is_validated = true;
    if (produce->validate_err != STELE_OK)
        produce->validated.rebuilt = NULL;
    drain(partition);
    stele_partition__job_done(partition);
}

void stele_partition_produce(struct stele_op *op)
{
    struct stele_produce_op *produce = produce_of(op);
    struct stele_partition *partition = op->partition;
    if (stele_log_dirs_is_full(partition->shard->node->control.dirs, partition->dir)) {
        refuse_full(produce);
        return;
    }
    enum stele_err err = admit(produce);
    if (err != STELE_OK) {
        stele_op__finish(op, err);
        return;
    }
    stele_list_push(&partition->queue, &op->link);
    if (stele_validate_is_long(produce->bytes, produce->count)) {
        produce->config = *stele_log_config(partition->log);
        produce->error.text[0] = 0;
        produce->is_validating = true;
        produce->job = (struct stele_job){.work = validate_work, .done = validate_done};
        partition->job_count++;
        partition->shard->env->ops->job(partition->shard->env, &produce->job);
    }
    drain(partition);
}
