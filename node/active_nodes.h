/* The nodes of the cluster at its active controller: they register, heartbeat, are fenced when they are silent, leave,
 * and are unregistered. What it makes of them is one batch: the node's record and the changes of the partitions that it
 * touches (replication/registry.h decides; facts 4.2, 4.3).
 *
 * A heartbeat that changes nothing is answered at once, from what is committed.
 *
 * A batch changes partitions_max partitions at most. When a node has more its record is in the first batch and the rest
 * is settled in turns after it: nobody can take back what is settled, for the node is not active any more, and a
 * controller that takes over settles what one before it left. What only the registration knows, that a node lost
 * something, is written before the new life is: until then the old one is fenced.
 *
 * The active controller keeps a connection to every node. One that closes is made again at once, and when that cannot
 * be done what is left of the node's session is short. So it is when the connection closes by which the node
 * heartbeats: a program that is started again at once can be reached, and is another life. */
#ifndef STELE_NODE_ACTIVE_NODES_H
#define STELE_NODE_ACTIVE_NODES_H

#include "node/active.h"
#include "node/peers.h"

/** A request that is made for the connection alone. */
struct stele_node_poke {
    struct stele_call call;
    struct stele_peer *peer;
    bool is_under_way;
};

struct stele_active_nodes {
    struct stele_active *active;
    struct stele_node_poke pokes[STELE_VOTERS_MAX]; /* as peers are */
    int32_t watched_epoch;            /* of the quorum, in which this controller began to watch; -1: none */
    struct stele_timer timer;         /* the next session ends */
    struct stele_active_turn fencing; /* one node at a time (4.3.9) */
    bool is_fencing;
    int64_t rest_until_ms; /* nobody is fenced before */
    int32_t fenced_id;     /* by that turn */
    int64_t fenced_epoch;
    int partitions_max;                /* changed by one batch */
    struct stele_active_turn settling; /* what is not in line with who is active */
    bool wants_settling, is_settling;
    /* The last that was refused and told. */
    struct stele_uuid refused_incarnation;
    enum stele_err refused_err;
};

enum stele_node_ask_kind { STELE_ASK_REGISTER, STELE_ASK_HEARTBEAT, STELE_ASK_UNREGISTER };

/** What a node, or a person about a node, asks of the controller. Lives in its asker's memory until `done`. */
struct stele_node_ask {
    enum stele_node_ask_kind kind;
    const struct stele_node_request *registration; /* REGISTER; borrowed until `done` */
    struct stele_heartbeat heartbeat;              /* HEARTBEAT; its directories are these, by id: */
    struct stele_uuid offline[STELE_NODE_DIRECTORIES_MAX];
    int32_t offline_count;
    int32_t node_id; /* UNREGISTER */
    /* Perhaps from inside stele_active_nodes_ask. */
    void (*done)(struct stele_node_ask *ask);

    /* The answer. Errors: those of stele_registry_register and stele_registry_heartbeat; NOT_CONTROLLER, NO_MEMORY,
     * NO_SPACE as a turn has them; UNREGISTER: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST (it votes, or serves). */
    enum stele_err err;
    const char *message;                    /* a constant, or `text`; "" without an error */
    int64_t node_epoch;                     /* REGISTER */
    struct stele_heartbeat_verdict verdict; /* HEARTBEAT */

    struct stele_active_nodes *nodes; /* the rest is node/active_nodes.c's; all zero before */
    struct stele_active_turn turn;
    struct stele_registration_verdict registered;
    char text[256];
    bool is_partial; /* this turn is not the last: the new life, or that it is gone, is not in it */
    bool was_known;
    int64_t last_offset; /* of the batch */
};

void stele_active_nodes_init(struct stele_active_nodes *nodes, struct stele_active *active);
/** At the end of the node. */
void stele_active_nodes_end(struct stele_active_nodes *nodes);
/** The image has more, or who is active has changed. */
void stele_active_nodes_look(struct stele_active_nodes *nodes);

void stele_active_nodes_ask(struct stele_active_nodes *nodes, struct stele_node_ask *ask);
/** At the end of the node: `done` is not called. */
void stele_active_nodes_drop(struct stele_node_ask *ask);
/** A connection closed by which that life of a node heartbeat, the last time at `heard_ms`: what is left of its session
 * is short, unless it was heard by another one since. */
void stele_active_nodes_suspect(struct stele_active_nodes *nodes, int32_t node_id, int64_t node_epoch,
                                int64_t heard_ms);
/** The control connection of a peer was made, closed, or could not be made. */
void stele_active_nodes_peer_changed(struct stele_active_nodes *nodes, struct stele_peer *peer, bool was_up);
/** Something hints that the node is gone: looks whether it can be reached. */
void stele_active_nodes_doubt(struct stele_active_nodes *nodes, int32_t node_id);

#endif
