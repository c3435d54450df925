/* What a partition tells of its log, in steps: files are read by jobs. One lane serves the whole node, so that however
 * much is asked for, one job thread at most is busy with it. */
#include "node/node_struct.h"
#include "node/partition.h"

#include <stdio.h>
#include <string.h>

static struct stele_describe_op *describe_of(struct stele_op *op)
{
    return STELE_CONTAINER_OF(op, struct stele_describe_op, op);
}

static void describe_work(struct stele_job *job)
{
    stele_log_explain_work(&STELE_CONTAINER_OF(job, struct stele_describe_op, job)->explain);
}

/* A follower that lacks nothing is caught up now, however long ago it asked: an idle partition is not in its fetches.
 */
static int64_t caught_up_ms_ago(const struct stele_partition *partition, const struct stele_leader_replica *replica)
{
    if (!replica->has_fetched)
        return -1;
    if (replica->end_offset >= stele_replica__view(partition).end_offset)
        return 0;
    return replica->caught_up_ms == INT64_MIN ? -1 : stele_env_mono_ms(partition->shard->env) - replica->caught_up_ms;
}

/* What a leader knows of the replicas. */
static enum stele_err describe_replicas(const struct stele_partition *partition, struct stele_describe_op *describe)
{
    const struct stele_leader *leader = &partition->replica.leader;
    struct stele_described_log *out = describe->out;
    out->leader_id = partition->replica.leader_id;
    out->epoch_start_offset = -1;
    if (partition->replica.role != STELE_REPLICA_LEADER)
        return STELE_OK;
    struct stele_replica_progress *replicas =
        stele_arena_array(describe->arena, (size_t)leader->replicas.count, sizeof(*replicas));
    if (replicas == NULL)
        return STELE_NO_MEMORY;
    struct stele_log_view view = stele_replica__view(partition);
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        const struct stele_leader_replica *follower = &leader->followers[i];
        bool is_self = leader->replicas.ids[i] == leader->node_id;
        replicas[i] =
            (struct stele_replica_progress){.node_id = leader->replicas.ids[i],
                                            .log_end_offset = -1,
                                            .synced_offset = -1,
                                            .last_caught_up_ms = is_self ? 0 : caught_up_ms_ago(partition, follower),
                                            .is_in_sync = stele_node_set_has(&leader->isr, leader->replicas.ids[i])};
        if (is_self || follower->has_fetched) {
            replicas[i].log_end_offset = is_self ? view.end_offset : follower->end_offset;
            replicas[i].synced_offset = is_self ? view.synced_offset : follower->synced_offset;
        }
    }
    out->epoch_start_offset = leader->epoch_start_offset;
    out->replicas = replicas;
    out->replica_count = (size_t)leader->replicas.count;
    return STELE_OK;
}

static enum stele_err describe_epochs(const struct stele_partition *partition, struct stele_describe_op *describe)
{
    const struct stele_epoch_cache *cache = stele_log_epochs(partition->log);
    struct stele_described_epoch *epochs = stele_arena_array(describe->arena, (size_t)cache->count, sizeof(*epochs));
    if (epochs == NULL && cache->count > 0)
        return STELE_NO_MEMORY;
    for (int i = 0; i < cache->count; i++)
        epochs[i] = (struct stele_described_epoch){.epoch = cache->entries[i].epoch,
                                                   .start_offset = cache->entries[i].start_offset};
    describe->out->epochs = epochs;
    describe->out->epoch_count = (size_t)cache->count;
    return STELE_OK;
}

static void describe_step(struct stele_partition *partition, struct stele_describe_op *describe);

static void describe_done(struct stele_job *job)
{
    struct stele_describe_op *describe = STELE_CONTAINER_OF(job, struct stele_describe_op, job);
    struct stele_partition *partition = describe->op.partition;
    partition->describe_count--;
    if (partition->state == STELE_PARTITION_OPEN && !partition->shard->is_stopping) {
        describe_step(partition, describe);
    } else {
        stele_log_explain_drop(&describe->explain);
        stele_op__finish(&describe->op, partition->state == STELE_PARTITION_OPEN
                                            ? STELE_NOT_LEADER_OR_FOLLOWER
                                            : stele_partition__state_error(partition));
    }
    stele_partition__job_done(partition);
}

static void describe_step(struct stele_partition *partition, struct stele_describe_op *describe)
{
    struct stele_shard *shard = partition->shard;
    bool waits = false;
    enum stele_err err = stele_log_explain_step(partition->log, &describe->explain, &waits);
    if (!waits) {
        if (err == STELE_OK)
            err = describe_replicas(partition, describe);
        if (err == STELE_OK && describe->with_epochs)
            err = describe_epochs(partition, describe);
        stele_op__finish(&describe->op, err);
        return;
    }
    partition->describe_count++;
    describe->job = (struct stele_job){.work = describe_work, .done = describe_done, .lane = shard->node};
    partition->job_count++;
    shard->env->ops->job(shard->env, &describe->job);
}

/* A partition that is not open tells where it lies and why it is not. */
static void describe_closed(struct stele_partition *partition, struct stele_describe_op *describe)
{
    char text[STELE_ERROR_TEXT_BYTES + 64];
    const char *why = partition->open_error.text;
    bool is_told = partition->state == STELE_PARTITION_OFFLINE && partition->log == NULL && why[0] != 0;
    (void)snprintf(text, sizeof(text), "%s%s",
                   partition->state == STELE_PARTITION_OPENING   ? "it is being opened, or waits for room or memory"
                   : partition->state == STELE_PARTITION_OFFLINE ? "it is offline: "
                                                                 : "the node stops",
                   is_told ? why
                   : partition->state == STELE_PARTITION_OFFLINE
                       ? "a call to its disk failed; the node's log says which"
                       : "");
    describe->out->message = stele_arena_string(describe->arena, text, strlen(text));
    if (describe->out->message == NULL)
        describe->out->message = "";
    stele_op__finish(&describe->op, stele_partition__state_error(partition));
}

static void describe_now(struct stele_op *op)
{
    struct stele_partition *partition = op->partition;
    struct stele_describe_op *describe = describe_of(op);
    *describe->out = (struct stele_described_log){.message = "",
                                                  .leader_epoch = partition->replica.leader_epoch,
                                                  .leader_id = partition->replica.leader_id,
                                                  .epoch_start_offset = -1};
    describe->out->directory = stele_arena_string(describe->arena, partition->path, strlen(partition->path));
    if (describe->out->directory == NULL) {
        describe->out->directory = "";
        stele_op__finish(op, STELE_NO_MEMORY);
        return;
    }
    if (partition->state != STELE_PARTITION_OPEN) {
        describe_closed(partition, describe);
        return;
    }
    describe->explain = (struct stele_log_explain){.arena = describe->arena,
                                                   .with_segments = describe->with_segments,
                                                   .with_stats = describe->with_stats,
                                                   .out = describe->out};
    describe_step(partition, describe);
}

void stele_partition_describe(struct stele_op *op)
{
    if (!stele_partition__wait_release(op, describe_now))
        describe_now(op);
}
