#include "node/partition.h"
#include "node/server_call.h"

struct list_offsets {
    struct stele_server_call *call;
    struct list_part *parts;
    size_t count, pending;
};

struct list_part {
    struct stele_list_op list;
    struct list_offsets *all;
};

/* Only when the node ends in the middle is anything still held. */
static void release(struct stele_server_call *call)
{
    struct list_offsets *all = call->state;
    for (size_t i = 0; i < all->count; i++)
        stele_log_time_drop(&all->parts[i].list.query);
}

static void answer(struct list_offsets *all)
{
    struct stele_server_call *call = all->call;
    struct stele_list_offsets_result *results = stele_arena_array(&call->arena, all->count, sizeof(*results));
    if (results == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        const struct stele_list_op *list = &all->parts[i].list;
        bool is_good = list->op.err == STELE_OK;
        results[i] = (struct stele_list_offsets_result){.err = list->op.err,
                                                        .topic_id = list->op.topic_id,
                                                        .partition = list->op.number,
                                                        .offset = is_good ? list->found.offset : -1,
                                                        .timestamp = is_good ? list->found.timestamp : -1,
                                                        .leader_epoch = is_good ? list->found.leader_epoch : -1};
    }
    call->response.body.list_offsets =
        (struct stele_list_offsets_response){.results = results, .result_count = all->count};
    stele_server_call_done(call);
}

static void part_done(struct stele_op *op)
{
    struct list_offsets *all = STELE_CONTAINER_OF(op, struct list_part, list.op)->all;
    stele_stages_raise(&all->call->stages, &op->stages);
    if (--all->pending == 0)
        answer(all);
}

void stele_handle_list_offsets(struct stele_server_call *call)
{
    const struct stele_list_offsets_request *request = &call->request.body.list_offsets;
    struct list_offsets *all = stele_arena_alloc(&call->arena, sizeof(*all));
    struct list_part *parts = stele_arena_array(&call->arena, request->partition_count, sizeof(*parts));
    if (all == NULL || parts == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    *all = (struct list_offsets){
        .call = call, .parts = parts, .count = request->partition_count, .pending = request->partition_count + 1};
    call->state = all;
    call->release = release;
    for (size_t i = 0; i < all->count; i++) {
        const struct stele_list_offsets_partition *in = &request->partitions[i];
        struct stele_list_op *list = &parts[i].list;
        parts[i].all = all;
        list->op = (struct stele_op){.home = call->shard,
                                     .origin = call->session,
                                     .topic_id = in->topic_id,
                                     .number = in->partition,
                                     .leader_epoch = in->current_leader_epoch,
                                     .run = stele_partition_list,
                                     .done = part_done};
        list->timestamp = in->timestamp;
        list->isolation = request->isolation;
        stele_op_submit(&list->op);
    }
    if (--all->pending == 0)
        answer(all);
}
