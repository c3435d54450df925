/* Three whole nodes that are a cluster, on virtual time, and a program that asks any of them anything: for tests of
 * what nodes do for each other. No faults but those that the test makes. */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_NODES_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_NODES_H

#include "cluster-tests/sim/sim_server.h"
#include "node/node_struct.h"
#include "proto/link.h"

enum { CLUSTER_NODES = 3, CLUSTER_ASKS_MAX = 32 };

/** A request to one node, and what came back. */
struct cluster_ask {
    struct cluster_nodes *nodes;
    struct stele_request request; /* what it points to lives until it is done */
    struct stele_buf *records;    /* sent with it; set after cluster_nodes_send, given back at its end. NULL: none */
    struct sim_event send;
    struct stele_link link; /* a connection of its own */
    struct stele_call call;
    char address[STELE_ADDRESS_BYTES];
    bool is_begun, is_done;
    enum stele_err err; /* of the connection */
    struct stele_arena arena;
    struct stele_response response;
    void (*done)(struct cluster_ask *ask); /* NULL: nothing more */
};

struct cluster_nodes {
    struct sim_world world;
    struct sim_server nodes[CLUSTER_NODES];
    struct sim_process process; /* of who asks */
    struct sim_env env;
    struct sim_net net;
    struct sim_event timer, pause;
    struct stele_link_group group;
    struct cluster_ask asks[CLUSTER_ASKS_MAX];
};

/** The nodes are not started. */
void cluster_nodes_init(struct cluster_nodes *nodes, uint64_t seed);
void cluster_nodes_set(struct cluster_nodes *nodes, const char *name, const char *value);
/** Starts those that are down, and runs until all serve and follow one leader. */
void cluster_nodes_start(struct cluster_nodes *nodes);
void cluster_nodes_run(struct cluster_nodes *nodes, int64_t us);
/** Runs until it holds; fails after a minute. */
void cluster_nodes_until(struct cluster_nodes *nodes, bool (*holds)(struct cluster_nodes *nodes), const char *what);
/** Who leads the quorum, and is active; 0: nobody. */
int32_t cluster_nodes_leader(struct cluster_nodes *nodes);
/** NULL while it does not serve. */
struct stele_controller *cluster_nodes_control(struct cluster_nodes *nodes, int32_t node_id);
/** Sends a copy of the request to a node, a moment from now. */
struct cluster_ask *cluster_nodes_send(struct cluster_nodes *nodes, int32_t node_id,
                                       const struct stele_request *request);
/** The same, and runs until it is answered. */
const struct stele_response *cluster_nodes_ask(struct cluster_nodes *nodes, int32_t node_id,
                                               const struct stele_request *request);
void cluster_ask_end(struct cluster_ask *ask);
/** Stops all that run, cleanly; nothing may be left. */
void cluster_nodes_deinit(struct cluster_nodes *nodes);

#endif
