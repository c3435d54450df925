/* What a partition does beside its requests: flushes, write-back, retention, unlinking. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"
#include "node/replica_session.h"

enum { RETRY_MS = 100 };

static void flush_work(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, flush_job);
    partition->flush_err = stele_log_flush_run(partition->flush);
}

static void flush_done(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, flush_job);
    struct stele_log_flush *flush = partition->flush;
    partition->flush = NULL;
    stele_log_flush_end(partition->log, flush, partition->flush_err);
    partition->shard->is_changed = true;
    bool again = partition->wants_flush;
    partition->wants_flush = false;
    if (stele_log_is_failed(partition->log)) {
        stele_partition_fail(partition);
        stele_partition__truncate_go_on(partition);
    } else if (partition->flush_err != STELE_OK) { /* for want of room or memory */
        stele_partition__truncate_go_on(partition);
        stele_partition__try_later(partition, &partition->flush_timer, partition->flush_err);
    } else {
        stele_partition__truncate_go_on(partition);
        if (again)
            stele_partition__flush(partition);
        stele_partition__advance(partition);
        stele_partition__arm_flush(partition);
    }
    stele_partition__job_done(partition);
}

void stele_partition__try_later(struct stele_partition *partition, struct stele_timer *timer, enum stele_err err)
{
    struct stele_shard *shard = partition->shard;
    if (shard->is_stopping)
        stele_partition__refuse_acks(partition, err);
    else
        stele_shard_arm(shard, timer, stele_env_mono_ms(shard->env) + RETRY_MS);
}

void stele_partition_hurry(struct stele_partition *partition)
{
    if (partition->mover != NULL)
        stele_mover_hurry(partition->mover);
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    /* Whether the others will have it in time, nobody can say; who asked tries again where the lead goes. */
    if (partition->replica.replica_count > 1)
        stele_partition__refuse_acks(partition, STELE_NOT_LEADER_OR_FOLLOWER);
    if (stele_list_is_empty(&partition->acks) && stele_list_is_empty(&partition->written_acks))
        return;
    stele_partition__name(partition);
    stele_partition__flush(partition);
}

void stele_partition__flush(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    if (partition->flush != NULL || partition->is_held) {
        partition->wants_flush = true;
        return;
    }
    if (stele_log_recovery_point(partition->log) >= stele_log_end_offset(partition->log))
        return;
    enum stele_err err = stele_log_flush_begin(partition->log, &partition->flush);
    if (err == STELE_OK) {
        partition->flush_job = (struct stele_job){.work = flush_work, .done = flush_done, .lane = partition};
        partition->job_count++;
        partition->shard->env->ops->job(partition->shard->env, &partition->flush_job);
    } else if (stele_log_is_failed(partition->log)) {
        stele_partition_fail(partition);
    } else { /* no memory, or a full disk under the indexes */
        stele_partition__try_later(partition, &partition->flush_timer, err);
    }
}

static void flush_soon_arrived(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, flush_task);
    partition->is_flush_soon = false;
    stele_partition__flush(partition);
    stele_partition__job_done(partition);
}

void stele_partition__flush_soon(struct stele_partition *partition)
{
    struct stele_env *env = partition->shard->env;
    if (partition->is_flush_soon)
        return;
    if (partition->flush != NULL) {
        stele_partition__flush(partition);
        return;
    }
    partition->is_flush_soon = true;
    partition->job_count++; /* it must be there when the message comes */
    partition->flush_task.run = flush_soon_arrived;
    env->ops->post(env, &partition->flush_task);
}

static void flush_fired(struct stele_timer *timer)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(timer, struct stele_partition, flush_timer);
    stele_partition__flush(partition);
    stele_partition__arm_flush(partition);
}

void stele_partition__arm_flush(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPEN || stele_timer_is_armed(&partition->flush_timer))
        return;
    int64_t due_ms = stele_log_flush_due(partition->log);
    if (due_ms != INT64_MAX)
        stele_shard_arm(partition->shard, &partition->flush_timer, due_ms);
}

void stele_partition__job_done(struct stele_partition *partition)
{
    STELE_ASSERT(partition->job_count > 0);
    struct stele_shard *shard = partition->shard;
    partition->job_count--;
    stele_repair_job_ended(partition);
    stele_partition__check_removed(partition);
    if (shard->is_stopping)
        stele_shard_check_stopped(shard);
}

/* Write-back. */

static void write_back_work(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, write_back_job);
    struct stele_file *file = partition->write_back_file;
    file->vfs->ops->sync_range(file, partition->write_back.pos, (int64_t)partition->write_back.bytes);
}

static void write_back_done(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, write_back_job);
    stele_slice_release(&partition->write_back);
    stele_partition__job_done(partition);
}

void stele_partition__write_back(struct stele_partition *partition)
{
    if (partition->write_back.file != NULL || partition->is_held ||
        !stele_log_take_write_back(partition->log, &partition->write_back, &partition->write_back_file))
        return; /* what comes while one runs is of the next */
    partition->write_back_job = (struct stele_job){.work = write_back_work, .done = write_back_done};
    partition->job_count++;
    partition->shard->env->ops->job(partition->shard->env, &partition->write_back_job);
}

/* Unlinking of files that retention renamed. */

static void unlink_work(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, unlink_job);
    partition->unlink_err = STELE_OK;
    for (int i = 0; i < partition->unlink_count; i++) {
        enum stele_err err = stele_segment_unlink_deleted(job->env->vfs, partition->path, partition->unlink_bases[i]);
        if (err != STELE_OK)
            partition->unlink_err = err;
    }
}

static void unlink_done(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, unlink_job);
    struct stele_env *env = partition->shard->env;
    /* What could not be unlinked is found again at the next start; it harms nothing until then. */
    if (partition->unlink_err != STELE_OK)
        stele_trace(env, STELE_TRACE_LOG_UNLINK_FAILED, partition->name, stele_err_text(partition->unlink_err), 0, 0,
                    0);
    stele_mem_free(env->mem, partition->unlink_bases);
    partition->unlink_bases = NULL;
    stele_partition__arm_unlink(partition);
    stele_partition__job_done(partition);
}

static void unlink_fired(struct stele_timer *timer)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(timer, struct stele_partition, unlink_timer);
    struct stele_env *env = partition->shard->env;
    if (partition->state == STELE_PARTITION_OPENING) {
        stele_partition__open_again(partition);
        return;
    }
    stele_partition__name(partition); /* it borrows this timer to try again */
    if (partition->unlink_bases != NULL || partition->state != STELE_PARTITION_OPEN || partition->is_held)
        return;
    enum stele_err err =
        stele_log_take_due(partition->log, stele_env_mono_ms(env), &partition->unlink_bases, &partition->unlink_count);
    if (err != STELE_OK) {
        stele_shard_arm(partition->shard, &partition->unlink_timer, stele_env_mono_ms(env) + RETRY_MS);
        return;
    }
    if (partition->unlink_count == 0) {
        stele_mem_free(env->mem, partition->unlink_bases);
        partition->unlink_bases = NULL;
        stele_partition__arm_unlink(partition);
        return;
    }
    partition->unlink_job = (struct stele_job){.work = unlink_work, .done = unlink_done};
    partition->job_count++;
    env->ops->job(env, &partition->unlink_job);
}

void stele_partition__arm_unlink(struct stele_partition *partition)
{
    if (partition->state != STELE_PARTITION_OPEN || partition->unlink_bases != NULL ||
        stele_timer_is_armed(&partition->unlink_timer))
        return;
    int64_t due_ms = stele_log_unlink_due(partition->log);
    if (due_ms != INT64_MAX)
        stele_shard_arm(partition->shard, &partition->unlink_timer, due_ms);
}

void stele_partition__init_timers(struct stele_partition *partition)
{
    stele_timer_init(&partition->flush_timer, flush_fired);
    stele_timer_init(&partition->unlink_timer, unlink_fired);
}

/* The rounds. */

void stele_partition_retain(struct stele_partition *partition)
{
    int deleted = 0;
    bool has_rolled = false;
    if (partition->state != STELE_PARTITION_OPEN || partition->is_held)
        return;
    enum stele_err err = stele_log_roll_if_old(partition->log, &has_rolled);
    if (err == STELE_OK)
        err = stele_log_retain(partition->log, &deleted);
    if (stele_log_is_failed(partition->log)) {
        stele_partition_fail(partition);
        return;
    }
    /* A full disk or no memory: the next round tries again. */
    (void)err;
    if (deleted > 0 || has_rolled)
        partition->shard->is_changed = true;
    if (deleted > 0) {
        stele_repair_look(partition); /* what was damaged may be among it */
        stele_replica__synced(partition);
        stele_replica_watchers_wake(partition); /* they hear where it starts also when nothing is appended any more */
    }
    stele_partition__arm_unlink(partition);
}

/* Delete records. */

static struct stele_trim_op *trim_of(struct stele_op *op)
{
    return STELE_CONTAINER_OF(op, struct stele_trim_op, op);
}

static enum stele_err trim(struct stele_partition *partition, struct stele_trim_op *trim)
{
    struct stele_log *log = partition->log;
    const struct stele_log_config *config = stele_log_config(log);
    if (config->cleanup_compact && !config->cleanup_delete) {
        trim->message = "cleanup.policy of the topic is compact: only delete lets records be deleted";
        return STELE_POLICY_VIOLATION;
    }
    enum stele_err err = stele_leader_delete_to(&partition->replica.leader, trim->offset, &trim->start_offset);
    if (err != STELE_OK) {
        trim->message = "the offset is above the high watermark, or negative and not -1";
        return err;
    }
    trim->dir = partition->dir;
    err = stele_log_set_start_offset(log, trim->start_offset);
    if (stele_log_is_failed(log))
        stele_partition_fail(partition);
    partition->shard->is_changed = true;
    return err;
}

void stele_partition__look_at_trims(struct stele_partition *partition)
{
    struct stele_list *at = partition->trims.next;
    int64_t low_watermark = stele_leader_low_watermark(&partition->replica.leader);
    while (at != &partition->trims) {
        struct stele_op *op = STELE_CONTAINER_OF(at, struct stele_op, link);
        struct stele_trim_op *waiting = trim_of(op);
        at = at->next;
        enum stele_err err = stele_replica__check_leads(op);
        if (err == STELE_OK && low_watermark < waiting->start_offset)
            continue;
        stele_timer_cancel(partition->shard->wheel, &waiting->timer);
        stele_list_remove(&op->link);
        waiting->low_watermark = low_watermark;
        stele_op__finish(op, err);
    }
}

static void trim_fired(struct stele_timer *timer)
{
    struct stele_trim_op *trim = STELE_CONTAINER_OF(timer, struct stele_trim_op, timer);
    trim->message = "not every replica has deleted the records yet: they will";
    stele_list_remove(&trim->op.link);
    stele_op__finish(&trim->op, STELE_REQUEST_TIMED_OUT);
}

static void trim_now(struct stele_op *op)
{
    struct stele_partition *partition = op->partition;
    struct stele_shard *shard = partition->shard;
    struct stele_trim_op *now = trim_of(op);
    enum stele_err err = stele_partition__state_error(partition);
    if (err == STELE_OK)
        err = stele_replica__check_leads(op);
    if (err == STELE_OK)
        err = trim(partition, now);
    if (err != STELE_OK) {
        stele_op__finish(op, err);
        return;
    }
    stele_timer_init(&now->timer, trim_fired);
    stele_list_push(&partition->trims, &op->link);
    stele_shard_arm(shard, &now->timer, stele_env_mono_ms(shard->env) + stele_max_i64(now->timeout_ms, 0));
    stele_replica__synced(partition); /* the machine learns of the new start */
    stele_replica_watchers_wake(partition);
    stele_partition__look_at_trims(partition);
    if (shard->is_stopping)
        stele_partition_hurry(partition);
}

void stele_partition_trim(struct stele_op *op)
{
    if (!stele_partition__wait_release(op, trim_now))
        trim_now(op);
}

void stele_partition_expire(struct stele_partition *partition)
{
    if (partition->state == STELE_PARTITION_OPEN)
        (void)stele_log_expire_producers(partition->log);
}
