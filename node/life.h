/* This node's own life in its cluster: registers with the active controller, heartbeats, leaves in order
 * (replication/node_life.h decides). Belongs to the control shard. A node that is alone has none.
 *
 * Invariants
 *  1. A request lives until it is answered or dropped; its answer goes to the machine as a message of its own.
 *  2. Nothing is begun before the directories have their ids.
 *  3. It asks not to be fenced only when every directory that works holds the node epoch of this life: an older copy of
 *     one is known by it. */
#ifndef STELE_NODE_LIFE_H
#define STELE_NODE_LIFE_H

#include "base/env.h"
#include "base/timing_wheel.h"
#include "replication/node_life.h"

struct stele_controller;

struct stele_life {
    struct stele_controller *control;
    bool is_begun;
    bool is_known; /* the image has this life's registration, as was told to those who rest on it */
    struct stele_node_life machine;
    struct stele_node_request request; /* as it registers */
    struct stele_list calls;           /* not answered */
    struct stele_timer timer;
    enum stele_err told_err; /* that was traced */
    struct stele_job mark_job;
    struct stele_timer mark_timer; /* marks again when there was no room */
    int64_t marked_epoch;          /* that the directories hold; -1: not one of this life */
    int64_t marking_epoch;
    bool is_marking, is_open; /* the logs */
    enum stele_err mark_err;
};

void stele_life_init(struct stele_life *life, struct stele_controller *control);
/** The cluster and the directories have their ids: registers. Nothing for a node that is alone. */
void stele_life_begin(struct stele_life *life);
/** The logs are open. */
void stele_life_serve(struct stele_life *life);
/** The image has more, or who leads the quorum has changed. */
void stele_life_look(struct stele_life *life);
/** A directory failed. */
void stele_life_look_at_directories(struct stele_life *life);
/** A connection with that node closed: when it is the controller, it may doubt this one. */
void stele_life_shaken(struct stele_life *life, int32_t node_id);
/** Asks the controller to let this node go, while it serves on; then stele_controller_left is called, perhaps inside.
 */
void stele_life_leave(struct stele_life *life);
/** Sends nothing any more; before the peers' end. */
void stele_life_end(struct stele_life *life);
/** What the image says of this node is about this life of it: it is registered. Always, when the node is alone. */
bool stele_life_is_known(const struct stele_life *life);

#endif
