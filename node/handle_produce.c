/* Produce: one operation a batch, each to the shard of its partition; answered when the last one is back. */
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/server_call.h"
#include "node/session.h"

struct produce {
    struct stele_server_call *call;
    struct produce_part *parts;
    size_t count, pending;
};

struct produce_part {
    struct stele_produce_op produce;
    struct produce *all;
};

static void release(struct stele_server_call *call)
{
    struct produce *all = call->state;
    for (size_t i = 0; i < all->count; i++) {
        stele_mem_free(call->shard->env->mem, all->parts[i].produce.message);
        /* Only when the node ends in the middle. */
        stele_buf_unref(all->parts[i].produce.validated.rebuilt);
        if (all->parts[i].produce.timer.fire != NULL)
            stele_timer_cancel(all->parts[i].produce.op.shard->wheel, &all->parts[i].produce.timer);
    }
}

static void fill(struct stele_produce_result *result, const struct stele_produce_op *produce)
{
    *result = (struct stele_produce_result){.err = produce->op.err,
                                            .message = produce->message != NULL ? produce->message : "",
                                            .topic_id = produce->op.topic_id,
                                            .partition = produce->op.number,
                                            .base_offset = -1,
                                            .log_append_time_ms = -1,
                                            .log_start_offset = -1,
                                            .current_leader_id = produce->op.current_leader_id,
                                            .current_leader_epoch = produce->op.current_leader_epoch};
    if (produce->op.err != STELE_OK)
        return;
    result->base_offset = produce->appended.first_offset;
    result->log_append_time_ms = produce->appended.log_append_time_ms;
    result->log_start_offset = produce->log_start_offset;
    result->durability = produce->durability;
}

static void answer(struct produce *all)
{
    struct stele_server_call *call = all->call;
    struct stele_produce_result *results = stele_arena_array(&call->arena, all->count, sizeof(*results));
    struct stele_hints hints = {.count = 0};
    bool has_error = false;
    if (results == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        fill(&results[i], &all->parts[i].produce);
        has_error = has_error || results[i].err != STELE_OK;
        stele_nodes_add_hint(call->shard->nodes, &call->arena, call->session->listener->name,
                             results[i].current_leader_id, &hints);
    }
    call->response.body.produce = (struct stele_produce_response){
        .results = results, .result_count = all->count, .nodes = hints.items, .node_count = hints.count};
    if (call->request.body.produce.acks == 0) {
        /* There is no answer that could carry an error: closing tells the client to look again. */
        call->has_no_answer = true;
        call->close_why = has_error ? "a produce without an answer failed" : NULL;
    }
    stele_server_call_done(call);
}

static void part_done(struct stele_op *op)
{
    struct produce_part *part = STELE_CONTAINER_OF(op, struct produce_part, produce.op);
    stele_stages_raise(&part->all->call->stages, &op->stages);
    if (--part->all->pending == 0)
        answer(part->all);
}

static bool adds_up(const struct stele_server_call *call)
{
    const struct stele_produce_request *request = &call->request.body.produce;
    uint64_t bytes = 0;
    for (size_t i = 0; i < request->partition_count; i++)
        bytes += request->partitions[i].records_bytes;
    return bytes == call->records_bytes;
}

void stele_handle_produce(struct stele_server_call *call)
{
    const struct stele_produce_request *request = &call->request.body.produce;
    struct produce *all = stele_arena_alloc(&call->arena, sizeof(*all));
    if (!adds_up(call)) {
        stele_server_call_fail(call, "the records of a produce do not add up to its frame");
        return;
    }
    if (all == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    all->call = call;
    all->parts = stele_arena_array(&call->arena, request->partition_count, sizeof(*all->parts));
    if (all->parts == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    all->count = request->partition_count;
    call->state = all;
    call->release = release;
    all->pending = all->count + 1; /* one for this function: an operation may end at once */
    uint8_t *bytes = call->records;
    for (size_t i = 0; i < all->count; i++) {
        struct stele_produce_op *produce = &all->parts[i].produce;
        all->parts[i].all = all;
        produce->op = (struct stele_op){.home = call->shard,
                                        .origin = call->session,
                                        .topic_id = request->partitions[i].topic_id,
                                        .number = request->partitions[i].partition,
                                        .leader_epoch = -1,
                                        .run = stele_partition_produce,
                                        .done = part_done};
        produce->acks = request->acks;
        produce->timeout_ms = request->timeout_ms;
        produce->bytes = bytes;
        produce->count = request->partitions[i].records_bytes;
        bytes += produce->count;
        stele_op_submit(&produce->op);
    }
    if (--all->pending == 0)
        answer(all);
}
