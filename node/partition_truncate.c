/* Truncation of a partition's log (struct stele_truncate_op of partition.h has the order of its steps). While it is
 * under way it counts as a job of the partition: a stop and a removal wait for it. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

static struct stele_truncate_op *truncate_of(struct stele_op *op)
{
    return STELE_CONTAINER_OF(op, struct stele_truncate_op, op);
}

int64_t stele_partition__cut_offset(const struct stele_partition *partition)
{
    return partition->truncating != NULL ? partition->truncating->offset : INT64_MAX;
}

static void end(struct stele_truncate_op *truncate, enum stele_err err)
{
    struct stele_partition *partition = truncate->op.partition;
    partition->truncating = NULL;
    if (partition->state == STELE_PARTITION_OPEN)
        stele_replica__lead_anew(partition);
    if (partition->log != NULL)
        truncate->end_offset = stele_log_end_offset(partition->log);
    if (partition->state == STELE_PARTITION_OPEN) {
        partition->shard->is_changed = true;
        stele_partition__advance(partition);
        stele_partition__arm_unlink(partition);
    }
    stele_partition__wake_all_reads(partition);
    stele_op__finish(&truncate->op, err);
    stele_partition__job_done(partition);
}

/* Step 4. */
static void cut(struct stele_partition *partition)
{
    struct stele_truncate_op *truncate = partition->truncating;
    enum stele_err err = stele_partition__state_error(partition);
    if (err == STELE_OK && partition->flush != NULL) {
        truncate->waits_for_flush = true;
        return;
    }
    partition->replica.leader.is_leading = false; /* no leader's log is cut; one that was leads anew after it */
    if (err == STELE_OK)
        err = truncate->is_restart ? stele_log_restart_at(partition->log, truncate->offset)
                                   : stele_log_truncate(partition->log, truncate->offset);
    if (partition->mover != NULL)
        stele_mover_cut(partition->mover, truncate->offset, truncate->is_restart);
    if (stele_log_is_failed(partition->log))
        stele_partition_fail(partition);
    end(truncate, err);
}

void stele_partition__truncate_go_on(struct stele_partition *partition)
{
    if (partition->truncating == NULL || !partition->truncating->waits_for_flush)
        return;
    partition->truncating->waits_for_flush = false;
    cut(partition);
}

/* Step 3. */

static void written_home(struct stele_task *task)
{
    struct stele_truncate_op *truncate = STELE_CONTAINER_OF(task, struct stele_truncate_op, task);
    struct stele_partition *partition = truncate->op.partition;
    if (truncate->wait_err != STELE_OK) {
        end(truncate, truncate->wait_err);
        return;
    }
    if (partition->state == STELE_PARTITION_OPEN)
        stele_replica__lowered(partition);
    cut(partition);
}

static void written(struct stele_checkpoint_wait *wait, enum stele_err err)
{
    struct stele_truncate_op *truncate = STELE_CONTAINER_OF(wait, struct stele_truncate_op, wait);
    struct stele_shard *shard = truncate->op.shard;
    truncate->wait_err = err;
    truncate->task.run = written_home;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &truncate->task);
}

static void write_arrived(struct stele_task *task)
{
    struct stele_truncate_op *truncate = STELE_CONTAINER_OF(task, struct stele_truncate_op, task);
    truncate->wait.done = written;
    stele_controller_await_checkpoint(&truncate->op.shard->node->control, &truncate->wait);
}

/* Step 2. */

static void revoked_home(struct stele_task *task)
{
    struct stele_truncate_op *truncate = STELE_CONTAINER_OF(task, struct stele_revoke, task)->truncate;
    struct stele_shard *shard = truncate->op.shard;
    struct stele_partition *partition = truncate->op.partition;
    if (--truncate->pending > 0)
        return;
    if (partition->state == STELE_PARTITION_OPEN && stele_replica__is_lowered(partition)) {
        cut(partition);
        return;
    }
    truncate->task.run = write_arrived;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &truncate->task);
}

static void revoke_arrived(struct stele_task *task)
{
    struct stele_revoke *revoke = STELE_CONTAINER_OF(task, struct stele_revoke, task);
    struct stele_shard *owner = revoke->truncate->op.shard;
    stele_fetch_revoke(revoke->shard, revoke->truncate);
    task->run = revoked_home;
    owner->env->ops->post(owner->env, task);
}

/* Always as messages: they come behind every read that has ended, and into no call of a session. */
static void revoke_all(struct stele_partition *partition)
{
    struct stele_node *node = partition->shard->node;
    struct stele_truncate_op *truncate = partition->truncating;
    truncate->pending = node->shard_count - STELE_SHARD_DATA;
    for (int i = STELE_SHARD_DATA; i < node->shard_count; i++) {
        struct stele_revoke *revoke = &partition->revokes[i - STELE_SHARD_DATA];
        struct stele_shard *shard = &node->shards[i];
        *revoke = (struct stele_revoke){.task.run = revoke_arrived, .truncate = truncate, .shard = shard};
        shard->env->ops->post(shard->env, &revoke->task);
    }
}

/* Step 1. */

static enum stele_err begin(struct stele_partition *partition, struct stele_truncate_op *truncate)
{
    const struct stele_node *node = partition->shard->node;
    if (partition->truncating != NULL || partition->is_held)
        return STELE_EXISTS;
    if (partition->revokes == NULL)
        partition->revokes =
            stele_mem_array(partition->shard->env->mem, STELE_MEM_NODE, (size_t)(node->shard_count - STELE_SHARD_DATA),
                            sizeof(*partition->revokes));
    if (partition->revokes == NULL)
        return STELE_NO_MEMORY;
    truncate->cut = (struct stele_log_cut){.offset = INT64_MIN}; /* everything */
    enum stele_err err =
        truncate->is_restart ? STELE_OK : stele_log_find_cut(partition->log, truncate->offset, &truncate->cut);
    if (err != STELE_OK) {
        if (stele_log_is_failed(partition->log))
            stele_partition_fail(partition);
        return err;
    }
    truncate->generation = ++partition->generation;
    truncate->waits_for_flush = false;
    stele_list_init(&truncate->wait.link);
    partition->truncating = truncate;
    partition->job_count++;
    return STELE_OK;
}

void stele_partition_truncate(struct stele_op *op)
{
    struct stele_truncate_op *truncate = truncate_of(op);
    struct stele_partition *partition = op->partition;
    stele_op__begin(op);
    enum stele_err err = begin(partition, truncate);
    if (err != STELE_OK) {
        stele_op__finish(op, err);
        return;
    }
    stele_partition__refuse_beyond(partition, truncate->is_restart ? INT64_MIN : truncate->offset);
    revoke_all(partition);
}
