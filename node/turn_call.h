/* A request that takes a turn at the active controller: it goes to the control shard, takes its turn there, and comes
 * back answered when what the turn wrote is committed. */
#ifndef STELE_NODE_TURN_CALL_H
#define STELE_NODE_TURN_CALL_H

#include "node/active.h"
#include "node/server_call.h"

/** In the arena of its call, which is the control shard's from `arrived` on until it goes home. */
struct stele_turn_call {
    struct stele_server_call *call;
    struct stele_controller *control;
    struct stele_active_turn turn;
    /* On the control shard; NULL: the turn is taken at once. */
    void (*arrived)(struct stele_turn_call *turn_call);
    struct stele_task task;
    bool has_no_memory; /* the connection is closed instead of an answer */
};

/** Begins: turn.begin and turn.done are set, all else is zero. */
void stele_turn_call_begin(struct stele_turn_call *turn_call, struct stele_server_call *call);
/** On the control shard: takes the turn. */
void stele_turn_call_take(struct stele_turn_call *turn_call);
/** On the control shard: the call is answered. */
void stele_turn_call_home(struct stele_turn_call *turn_call);
struct stele_turn_call *stele_turn_call_of(struct stele_active_turn *turn);

#endif
