/* Describe log: an operation a partition, a few at a time: each may hold much memory and read much. */
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/server_call.h"
#include "node/session.h"

enum { SLOTS = 4, ARENA_BYTES_MAX = 64 << 20 };

struct describe;

struct slot {
    struct stele_describe_op describe;
    struct describe *all;
    size_t index; /* of the partition that it is at */
    bool is_busy;
};

struct describe {
    struct stele_server_call *call;
    size_t count, next, done;
    bool is_pumping; /* an operation may end at once: it is not started from inside the end of another */
    struct stele_described_log *logs;
    struct stele_arena *arenas; /* of each: it is filled on the partition's shard */
    struct slot slots[SLOTS];
};

/* Only when the node ends in the middle is a slot busy. */
static void release(struct stele_server_call *call)
{
    struct describe *all = call->state;
    for (int i = 0; i < SLOTS; i++)
        stele_log_explain_drop(&all->slots[i].describe.explain);
    for (size_t i = 0; i < all->count; i++)
        stele_arena_deinit(&all->arenas[i]);
}

static void answer(struct describe *all)
{
    struct stele_server_call *call = all->call;
    call->response.body.describe_log = (struct stele_describe_log_response){.logs = all->logs, .log_count = all->count};
    stele_server_call_done(call);
}

static void pump(struct describe *all);

static void slot_done(struct stele_op *op)
{
    struct slot *slot = STELE_CONTAINER_OF(op, struct slot, describe.op);
    struct describe *all = slot->all;
    struct stele_described_log *log = &all->logs[slot->index];
    if (log->directory == NULL) /* it was not found, or fenced */
        *log = (struct stele_described_log){
            .message = stele_err_text(op->err), .directory = "", .leader_epoch = -1, .leader_id = -1};
    if (op->err != STELE_OK) {
        const char *message = log->message[0] != 0 ? log->message : stele_err_text(op->err);
        *log = (struct stele_described_log){.message = message,
                                            .directory = log->directory,
                                            .leader_epoch = log->leader_epoch,
                                            .leader_id = log->leader_id,
                                            .epoch_start_offset = -1};
    }
    log->err = op->err;
    log->topic_id = op->topic_id;
    log->partition = op->number;
    slot->is_busy = false;
    all->done++;
    pump(all);
}

static void start(struct describe *all, struct slot *slot)
{
    const struct stele_describe_log_request *request = &all->call->request.body.describe_log;
    size_t at = all->next++;
    const struct stele_describe_log_partition *in = &request->partitions[at];
    stele_arena_init(&all->arenas[at], all->call->shard->env->mem, STELE_MEM_REQUEST, ARENA_BYTES_MAX);
    slot->is_busy = true;
    slot->all = all;
    slot->index = at;
    slot->describe = (struct stele_describe_op){.op = {.home = all->call->shard,
                                                       .origin = all->call->session,
                                                       .topic_id = in->topic_id,
                                                       .number = in->partition,
                                                       .leader_epoch = -1,
                                                       .is_for_any_state = true,
                                                       .run = stele_partition_describe,
                                                       .done = slot_done},
                                                .arena = &all->arenas[at],
                                                .with_segments = request->with_segments,
                                                .with_stats = request->with_stats,
                                                .with_epochs = request->with_epochs,
                                                .out = &all->logs[at]};
    stele_op_submit(&slot->describe.op);
}

static struct slot *idle_slot(struct describe *all)
{
    for (int i = 0; i < SLOTS; i++) {
        if (!all->slots[i].is_busy)
            return &all->slots[i];
    }
    return NULL;
}

static void pump(struct describe *all)
{
    struct slot *slot;
    if (all->is_pumping)
        return;
    all->is_pumping = true;
    if (all->call->session->conn == NULL) /* nobody waits for the rest */
        all->count = all->next;
    while (all->next < all->count && (slot = idle_slot(all)) != NULL)
        start(all, slot);
    all->is_pumping = false;
    if (all->done == all->count)
        answer(all);
}

void stele_handle_describe_log(struct stele_server_call *call)
{
    const struct stele_describe_log_request *request = &call->request.body.describe_log;
    struct describe *all = stele_arena_alloc(&call->arena, sizeof(*all));
    if (all == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    all->call = call;
    all->logs = stele_arena_array(&call->arena, request->partition_count, sizeof(*all->logs));
    all->arenas = stele_arena_array(&call->arena, request->partition_count, sizeof(*all->arenas));
    if (all->logs == NULL || all->arenas == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    all->count = request->partition_count;
    call->state = all;
    call->release = release;
    pump(all);
}
