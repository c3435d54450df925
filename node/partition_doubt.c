/* A batch that a consumer or a follower could not use is looked at where it lies: by a job, one at a time, and after
 * one that was sound not at once again. Who reads a log finds so what rotted since a start read it. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"

enum { PAUSE_MS = 1000 };

static void take(struct stele_partition *partition, enum stele_err err)
{
    if (partition->state != STELE_PARTITION_OPEN)
        return;
    if (stele_log_is_failed(partition->log))
        stele_partition_fail(partition);
    else if (err == STELE_DAMAGED_RANGE)
        stele_repair_look(partition);
}

static void work(struct stele_job *job)
{
    stele_log_doubt_work(&STELE_CONTAINER_OF(job, struct stele_partition, doubt_job)->doubt);
}

static void done(struct stele_job *job)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(job, struct stele_partition, doubt_job);
    partition->is_doubting = false;
    partition->doubt_ms = stele_env_mono_ms(partition->shard->env) + PAUSE_MS;
    take(partition, stele_log_doubt_end(partition->log, &partition->doubt));
    stele_partition__job_done(partition);
}

void stele_partition_doubt(struct stele_partition *partition, int64_t offset)
{
    struct stele_shard *shard = partition->shard;
    struct stele_env *env = shard->env;
    if (partition->state != STELE_PARTITION_OPEN || partition->is_doubting || shard->is_stopping ||
        stele_env_mono_ms(env) < partition->doubt_ms)
        return;
    STELE_METRIC_ADD(env->metrics, log_doubts, 1);
    enum stele_err err = stele_log_doubt_begin(partition->log, offset, &partition->doubt);
    if (err != STELE_OK) {
        take(partition, err);
        return;
    }
    partition->is_doubting = true;
    partition->job_count++;
    partition->doubt_job = (struct stele_job){.work = work, .done = done};
    env->ops->job(env, &partition->doubt_job);
}
