/* Replicas that move between the log directories of this node (KIP-113): the directories' part. The partition's part is
 * node/partition_move.h. Belongs to the control shard.
 *
 * Invariants
 *  1. A partition has one move at most (struct stele_local has it) until its shard has given it back; what comes then
 *     is files to be deleted.
 *  2. While it has one its directory changes on its shard: only that one asks for it.
 *  3. What a crash or a stop leaves of a copy the next start goes on with, or deletes when the partition is not here.
 * States: MAKING (a job makes the copy's directory) -> MOVING (its shard has it) -> SWAPPING (checkpoints, then a job)
 * -> MOVING -> LEAVING (a job condemns the old directory, which nobody uses any more) -> LEFT (it waits for its end) |
 * DROPPING (a job condemns the copy) -> DELETING -> gone. */
#ifndef STELE_NODE_MOVES_H
#define STELE_NODE_MOVES_H

#include "base/list.h"
#include "node/shard.h"

struct stele_controller;
struct stele_local;

struct stele_moves {
    struct stele_list all;
};

/** A wish that the replica of a partition on this node lie in a log directory. */
struct stele_move_ask {
    struct stele_list link;
    struct stele_partition_key key;
    int dir;
    void (*done)(struct stele_move_ask *ask); /* the move has begun, or there is none to be made */
    enum stele_err err;
    const char *message; /* a constant; "": none */
};

void stele_moves_init(struct stele_moves *moves);
/** At the end of the node: drops everything without touching a file. */
void stele_moves_free(struct stele_controller *control);
/** Moves it there. A move to another directory ends first; one to where it lies ends and no other begins. `done`
 * perhaps inside the call; who asked and goes with the node in the middle takes `link` out of its list. Errors:
 * REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR (either directory is offline, or the replica), INVALID_TOPIC_EXCEPTION (a
 * name too long for a copy), NO_MEMORY, NO_SPACE, BROKER_NOT_AVAILABLE (the node stops). */
void stele_moves_ask(struct stele_controller *control, struct stele_move_ask *ask);
/** After the start: goes on with what was found. */
void stele_moves_resume(struct stele_controller *control);
/** The partition is to leave this node: true while a move of it is in the way. It ends, and then the reconciliation is
 * stirred. */
bool stele_moves_hold(struct stele_local *local);
/** Gives up what waits for its time: the next start does it. */
void stele_moves_stop(struct stele_controller *control);
/** None is under way, but for those that wait for their time. */
bool stele_moves_are_idle(const struct stele_controller *control);

#endif
