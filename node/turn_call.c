#include "node/turn_call.h"

#include "node/node_struct.h"

struct stele_turn_call *stele_turn_call_of(struct stele_active_turn *turn)
{
    return STELE_CONTAINER_OF(turn, struct stele_turn_call, turn);
}

static void came_home(struct stele_task *task)
{
    struct stele_turn_call *turn_call = STELE_CONTAINER_OF(task, struct stele_turn_call, task);
    if (turn_call->has_no_memory)
        stele_server_call_fail(turn_call->call, "memory ran out");
    else
        stele_server_call_done(turn_call->call);
}

void stele_turn_call_home(struct stele_turn_call *turn_call)
{
    turn_call->task.run = came_home;
    stele_shard_send(turn_call->control->shard, turn_call->call->shard, &turn_call->task);
}

void stele_turn_call_take(struct stele_turn_call *turn_call)
{
    stele_active_take(&turn_call->control->active, &turn_call->turn);
}

static void came(struct stele_task *task)
{
    struct stele_turn_call *turn_call = STELE_CONTAINER_OF(task, struct stele_turn_call, task);
    if (turn_call->arrived != NULL)
        turn_call->arrived(turn_call);
    else
        stele_turn_call_take(turn_call);
}

/* Only when the node ends in the middle is the turn still under way. */
static void release(struct stele_server_call *call)
{
    struct stele_turn_call *turn_call = call->state;
    stele_active_drop(&turn_call->turn);
}

void stele_turn_call_begin(struct stele_turn_call *turn_call, struct stele_server_call *call)
{
    turn_call->call = call;
    turn_call->control = &call->shard->node->control;
    call->state = turn_call;
    call->release = release;
    turn_call->task.run = came;
    stele_shard_send(call->shard, turn_call->control->shard, &turn_call->task);
}
