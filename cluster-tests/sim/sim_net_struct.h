/* The inside of the simulated net, shared by sim_net.c (connections) and sim_net_faults.c. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_NET_STRUCT_H
#define STELE_CLUSTER_TESTS_SIM_SIM_NET_STRUCT_H

#include "cluster-tests/sim/sim_net.h"

enum sim_end_state { SIM_END_CONNECTING, SIM_END_OPEN, SIM_END_MOVING, SIM_END_CLOSING, SIM_END_DEAD };

/* One end, with the pipe that its bytes leave through. */
struct stele_conn {
    struct sim_link *link;
    struct sim_net *net; /* NULL: nobody accepted yet */
    struct stele_list in_net;
    const struct stele_conn_handler *handler;
    void *arg;
    enum sim_end_state state;
    bool is_reading_paused;
    struct stele_piece *pieces; /* queued, from `head` on */
    int64_t head, count, capacity;
    size_t queued_bytes;
    uint8_t *pipe; /* a ring of pipe_bytes */
    size_t pipe_bytes, pipe_head, pipe_count;
    bool is_ended;      /* nothing comes behind what is in the pipe */
    bool arrives_still; /* though the link is silent */
    int64_t stalled_us; /* nothing arrives before */
    int64_t taken_us;   /* when it last took bytes in */
    struct sim_event pump, arrive, end, moved;
    struct stele_conn_taker taker; /* of moved */
    bool is_lost;                  /* it ended on its way to another loop */
    enum stele_err why;            /* of end */
    uint64_t frame_left;           /* bytes of the message under way that are still to be handed over */
    char peer[80];
};

struct sim_link {
    struct sim_world *world;
    struct stele_list link;
    struct stele_conn ends[2]; /* who connected, who accepted */
    struct sim_event open;
    char address[64];
    int hosts[2];        /* of the ends */
    int number, loop;    /* which of the listener's */
    bool is_silent;      /* bytes vanish */
    bool is_machine_off; /* silent because the peer's machine lost its power */
    bool is_buried;
};

struct sim_net_world {
    struct sim_world *world;
    struct sim_net_rates rates;
    struct sim_net_tap tap;
    char hosts[SIM_HOSTS_MAX][32];
    int host_count;
    int blocked[SIM_HOSTS_MAX][SIM_HOSTS_MAX]; /* from, to */
    int64_t delay_us[SIM_HOSTS_MAX][SIM_HOSTS_MAX];
    struct stele_list links, graves, listeners;
    int link_count;
    struct sim_event reset, stall, silence, bury;
};

/** Ends both ends, each at a time of its own. */
void sim_link_reset(struct sim_link *link);
/** Tells `conn` that it is gone, `after_us` from now. */
void sim_conn_lose(struct stele_conn *conn, int64_t after_us);
int64_t sim_net_latency(struct sim_world *world);
/** The same from an end to its peer, with what is between the machines. */
int64_t sim_conn_latency(const struct stele_conn *conn);
bool sim_conn_is_blocked(const struct stele_conn *conn);
void sim_net_faults_init(struct sim_world *world);
void sim_net_faults_stop(struct sim_world *world);

#endif
