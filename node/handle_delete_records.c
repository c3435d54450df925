/* Delete records: an operation on every partition moves its start, then the checkpoints are written, which makes that
 * last, then it is answered. Retention deletes the segments. */
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/server_call.h"

struct delete_records {
    struct stele_task task;
    struct stele_server_call *call;
    struct trim_part *parts;
    size_t count, pending;
    struct stele_checkpoint_wait wait;
};

struct trim_part {
    struct stele_trim_op trim;
    struct delete_records *all;
    enum stele_err wait_err;
};

static void fill(struct stele_delete_records_result *result, const struct trim_part *part)
{
    const struct stele_trim_op *trim = &part->trim;
    enum stele_err err = trim->op.err;
    const char *message = trim->message != NULL ? trim->message : "";
    if (err == STELE_OK && part->wait_err != STELE_OK) {
        bool is_short = part->wait_err == STELE_NO_SPACE || part->wait_err == STELE_NO_MEMORY;
        err = is_short ? part->wait_err : STELE_KAFKA_STORAGE_ERROR;
        message = "the new start could not be made durable: a crash may take it back; try again";
    }
    *result = (struct stele_delete_records_result){.err = err,
                                                   .message = message,
                                                   .topic_id = trim->op.topic_id,
                                                   .partition = trim->op.number,
                                                   .low_watermark = err == STELE_OK ? trim->low_watermark : -1,
                                                   .current_leader_id = trim->op.current_leader_id,
                                                   .current_leader_epoch = trim->op.current_leader_epoch};
}

static void answer(struct delete_records *all)
{
    struct stele_server_call *call = all->call;
    struct stele_delete_records_result *results = stele_arena_array(&call->arena, all->count, sizeof(*results));
    if (results == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    for (size_t i = 0; i < all->count; i++)
        fill(&results[i], &all->parts[i]);
    call->response.body.delete_records =
        (struct stele_delete_records_response){.results = results, .result_count = all->count};
    stele_server_call_done(call);
}

static void home(struct stele_task *task)
{
    answer(STELE_CONTAINER_OF(task, struct delete_records, task));
}

static void written(struct stele_checkpoint_wait *wait, enum stele_err err)
{
    struct delete_records *all = STELE_CONTAINER_OF(wait, struct delete_records, wait);
    struct stele_shard *shard = all->call->shard;
    /* The round is of all directories: one that could not be written is no matter of the others. */
    for (size_t i = 0; i < all->count; i++) {
        struct trim_part *part = &all->parts[i];
        bool is_own = err != STELE_OK && wait->has_written && part->trim.op.err == STELE_OK;
        part->wait_err = is_own ? stele_log_dirs_checkpoint_err(shard->node->control.dirs, part->trim.dir) : err;
    }
    all->task.run = home;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &all->task);
}

static void write_arrived(struct stele_task *task)
{
    struct delete_records *all = STELE_CONTAINER_OF(task, struct delete_records, task);
    all->wait.done = written;
    stele_controller_await_checkpoint(&all->call->shard->node->control, &all->wait);
}

static void all_trimmed(struct delete_records *all)
{
    struct stele_shard *shard = all->call->shard;
    bool is_moved = false;
    for (size_t i = 0; i < all->count; i++)
        is_moved = is_moved || all->parts[i].trim.op.err == STELE_OK;
    if (!is_moved) {
        answer(all);
        return;
    }
    all->task.run = write_arrived;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &all->task);
}

static void part_done(struct stele_op *op)
{
    struct delete_records *all = STELE_CONTAINER_OF(op, struct trim_part, trim.op)->all;
    if (--all->pending == 0)
        all_trimmed(all);
}

/* Only when the node ends in the middle does it still wait. */
static void release(struct stele_server_call *call)
{
    struct delete_records *all = call->state;
    stele_list_remove(&all->wait.link);
    for (size_t i = 0; i < all->count; i++) {
        if (all->parts[i].trim.timer.fire != NULL)
            stele_timer_cancel(all->parts[i].trim.op.shard->wheel, &all->parts[i].trim.timer);
    }
}

void stele_handle_delete_records(struct stele_server_call *call)
{
    const struct stele_delete_records_request *request = &call->request.body.delete_records;
    struct delete_records *all = stele_arena_alloc(&call->arena, sizeof(*all));
    struct trim_part *parts = stele_arena_array(&call->arena, request->partition_count, sizeof(*parts));
    if (all == NULL || parts == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    *all = (struct delete_records){
        .call = call, .parts = parts, .count = request->partition_count, .pending = request->partition_count + 1};
    stele_list_init(&all->wait.link);
    call->state = all;
    call->release = release;
    for (size_t i = 0; i < all->count; i++) {
        const struct stele_delete_records_partition *in = &request->partitions[i];
        parts[i].all = all;
        parts[i].trim = (struct stele_trim_op){.op = {.home = call->shard,
                                                      .origin = call->session,
                                                      .topic_id = in->topic_id,
                                                      .number = in->partition,
                                                      .leader_epoch = in->current_leader_epoch,
                                                      .run = stele_partition_trim,
                                                      .done = part_done},
                                               .offset = in->offset,
                                               .timeout_ms = request->timeout_ms};
        stele_op_submit(&parts[i].trim.op);
    }
    if (--all->pending == 0)
        all_trimmed(all);
}
