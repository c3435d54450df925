/* Producer ids: given on the control shard from a block that was written to the metadata log and synced before, so that
 * none is given twice, also after a crash; what a crash leaves of a block is never given. */
#include "node/node.h"
#include "node/node_struct.h"
#include "node/server_call.h"

enum { BLOCK_IDS = 1000 };

struct asking {
    struct stele_task task;
    struct stele_list link; /* in asking of the controller */
    struct stele_server_call *call;
};

static void home(struct stele_task *task)
{
    stele_server_call_done(STELE_CONTAINER_OF(task, struct asking, task)->call);
}

static void answer(struct asking *asking, enum stele_err err, const char *message, int64_t producer_id)
{
    struct stele_server_call *call = asking->call;
    call->response.body.init_producer_id = (struct stele_init_producer_id_response){
        .err = err, .message = message, .producer_id = producer_id, .producer_epoch = err == STELE_OK ? 0 : -1};
    asking->task.run = home;
    stele_shard_send(&call->shard->node->shards[STELE_SHARD_CONTROL], call->shard, &asking->task);
}

static void give(struct stele_producer_ids *ids);

static struct stele_controller *control_of(struct stele_producer_ids *ids)
{
    return STELE_CONTAINER_OF(ids, struct stele_controller, producer_ids);
}

static void refuse_all(struct stele_producer_ids *ids, enum stele_err err)
{
    while (!stele_list_is_empty(&ids->asking)) {
        struct asking *asking = STELE_CONTAINER_OF(ids->asking.next, struct asking, link);
        stele_list_remove(&asking->link);
        answer(asking, err, stele_metadata_log_why(err), -1);
    }
}

static void block_taken(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_producer_ids *ids = STELE_CONTAINER_OF(turn, struct stele_producer_ids, turn);
    ids->is_taking = false;
    if (err != STELE_OK) {
        refuse_all(ids, err);
        return;
    }
    ids->epoch = control_of(ids)->active.epoch;
    ids->end = ids->taken_end;
    ids->next = ids->end - BLOCK_IDS;
    give(ids);
}

/* From the image with everything that was committed before: what another controller took lies below. */
static void take_block(struct stele_active_turn *turn)
{
    struct stele_producer_ids *ids = STELE_CONTAINER_OF(turn, struct stele_producer_ids, turn);
    ids->taken_end = control_of(ids)->mlog.image.next_producer_id + BLOCK_IDS;
    enum stele_err err =
        stele_active_add(turn, &(struct stele_metadata_record){.kind = STELE_METADATA_PRODUCER_IDS,
                                                               .u.producer_ids = {.next_producer_id = ids->taken_end}});
    if (err == STELE_OK) {
        stele_active_write(turn);
        return;
    }
    stele_active_end(turn);
    ids->is_taking = false;
    refuse_all(ids, err);
}

static void give(struct stele_producer_ids *ids)
{
    struct stele_controller *control = control_of(ids);
    if (!control->active.is_active || control->active.epoch != ids->epoch)
        ids->next = ids->end; /* another leads, or did: what was left of the block is left for good */
    while (ids->next < ids->end && !stele_list_is_empty(&ids->asking)) {
        struct asking *asking = STELE_CONTAINER_OF(ids->asking.next, struct asking, link);
        stele_list_remove(&asking->link);
        answer(asking, STELE_OK, "", ids->next++);
    }
    if (stele_list_is_empty(&ids->asking) || ids->is_taking)
        return;
    ids->is_taking = true;
    ids->turn = (struct stele_active_turn){.begin = take_block, .done = block_taken};
    stele_active_take(&control->active, &ids->turn);
}

static void arrived(struct stele_task *task)
{
    struct asking *asking = STELE_CONTAINER_OF(task, struct asking, task);
    struct stele_controller *control = &asking->call->shard->node->control;
    if (control->state != STELE_CONTROLLER_SERVING) {
        answer(asking, STELE_NOT_CONTROLLER, "the node stops: ask again when it is back", -1);
        return;
    }
    stele_list_push(&control->producer_ids.asking, &asking->link);
    give(&control->producer_ids);
}

/* Only when the node ends in the middle does it still ask. */
static void release(struct stele_server_call *call)
{
    struct asking *asking = call->state;
    stele_list_remove(&asking->link);
}

void stele_handle_init_producer_id(struct stele_server_call *call)
{
    struct asking *asking = stele_arena_alloc(&call->arena, sizeof(*asking));
    if (asking == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    asking->call = call;
    stele_list_init(&asking->link);
    call->state = asking;
    call->release = release;
    if (call->request.body.init_producer_id.transactional_id != NULL) {
        call->response.body.init_producer_id = (struct stele_init_producer_id_response){
            .err = STELE_UNSUPPORTED_VERSION,
            .message =
                "this version has no transactions: leave transactional.id out, an idempotent producer needs none",
            .producer_id = -1,
            .producer_epoch = -1};
        stele_server_call_done(call);
        return;
    }
    asking->task.run = arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &asking->task);
}
