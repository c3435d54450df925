/* Connections of a simulated world: base/net.h as a pair of byte pipes, which cut, delay and hold bytes back as they
 * like but never change or reorder them.
 *
 * What the owner queued leaves piece by piece into a pipe of few bytes; a full one holds the sender back. The peer gets
 * some of what is in the pipe, later. A closed end's pipe still brings what is in it, then the news; a silent
 * connection brings nothing any more, and nobody is told. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_NET_H
#define STELE_CLUSTER_TESTS_SIM_SIM_NET_H

#include "base/net.h"
#include "cluster-tests/sim/sim_world.h"

/* What a run does to connections; 0: never. */
struct sim_net_rates {
    int64_t reset_us, stall_us, silence_us; /* mean time between two of them, over all connections */
    int64_t stall_us_max;
    int64_t latency_us_min, latency_us_max;
    uint32_t refused, blackholed; /* connects, per thousand */
    size_t pipe_bytes_min, pipe_bytes_max;
    size_t chunk_bytes_max; /* handed over at a time, three times of four; 0: all that is there */
};

enum { SIM_HOSTS_MAX = 32 };

/** The net of one env. */
struct sim_net {
    int host;
    struct stele_net net;
    struct sim_env *env;
    struct stele_list conns; /* its ends that are not dead */
};
void sim_net_init(struct sim_net *net, struct sim_env *env);

/** Where connections come in. */
struct sim_listener {
    struct stele_list link;
    char address[64];
    struct sim_net *nets; /* of its loops: each connection comes to one of them */
    int net_count;
    enum stele_err (*accept)(void *arg, int index, struct stele_conn *conn,
                             const struct stele_conn_handler **out_handler, void **out_arg);
    void *arg;
};
void sim_net_listen(struct sim_listener *listener);
/** Of one that does not listen it is fine; its link must be initialised. */
void sim_net_unlisten(struct sim_listener *listener);

enum sim_parting {
    SIM_PARTING_CLOSE,  /* a process that frees its connections: references are given back */
    SIM_PARTING_KILL,   /* the kernel closes for a process that is gone */
    SIM_PARTING_SILENT, /* the machine is gone: peers are not told, not before it is back and they send */
};
/** Every end of `net` ends. */
void sim_net_part(struct sim_net *net, enum sim_parting parting);
/** The machine of `address` is there again: who still sends to connections of before is told that they are gone. */
void sim_net_machine_back(struct sim_world *world, const char *address);

/** Sees every message as its beginning is handed over to be sent. */
struct sim_net_sent {
    const struct sim_env *env;
    int from, to, connection; /* the machines; its number */
    bool is_answer;           /* from the end that accepted */
    int64_t idle_us;          /* since this end last took in bytes of the connection */
    uint32_t bytes;           /* of the message; the frame has `rest_bytes` more */
    uint32_t rest_bytes;
    const uint8_t *message;
    const struct stele_piece *rest; /* what was handed over with it; NULL: comes by itself */
};
struct sim_net_tap {
    void (*sent)(void *arg, const struct sim_net_sent *sent);
    void *arg;
};
void sim_net_set_tap(struct sim_world *world, const struct sim_net_tap *tap);

/* Between two machines, which are known by the part of an address before ':', or by the name of a process. */

int sim_net_host(struct sim_world *world, const char *name);
/** Nothing arrives at `to` from `from`: what was sent waits, connections are not made. Counted: each `block` needs a
 * `free`. After that the senders' retries bring what waited. */
void sim_net_block(struct sim_world *world, int from, int to);
void sim_net_free(struct sim_world *world, int from, int to);
bool sim_net_is_blocked(const struct sim_world *world, int from, int to);
/** What `from` sends to `to` takes so much longer. */
void sim_net_delay(struct sim_world *world, int from, int to, int64_t us);
/* One of the connections that are up between the two, by turns of `which`; false when there is none. */
bool sim_net_reset(struct sim_world *world, int a, int b, int64_t which);
bool sim_net_stall(struct sim_world *world, int from, int to, int64_t which, int64_t us);
/** The connection of that number brings nothing from `from` for so long. */
bool sim_net_hold(struct sim_world *world, int connection, int from, int64_t us);
/** It falls silent; with is_told end `a` learns of it. */
bool sim_net_silence(struct sim_world *world, int a, int b, int64_t which, bool is_told);

void sim_net_world_init(struct sim_world *world);
void sim_net_world_deinit(struct sim_world *world);
/** From now on. */
void sim_net_set_rates(struct sim_world *world, const struct sim_net_rates *rates);
/** No more faults begin; those of before stay with their connections: who waits must know how long. */
void sim_net_heal(struct sim_world *world);

#endif
