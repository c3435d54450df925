/* A program that uses libstele, in a simulated world: straight code on a stack of its own, which gives the world its
 * turn whenever the library waits. As with the real host, what comes over connections is handled inside of a wait. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_CLIENT_H
#define STELE_CLUSTER_TESTS_SIM_SIM_CLIENT_H

#include "client/client_internal.h"
#include "cluster-tests/sim/sim_net.h"

#include <ucontext.h>

struct sim_client {
    struct stele_client_driver driver;
    struct sim_world *world;
    struct sim_process process;
    struct sim_env env;
    struct sim_net net;
    struct sim_event wake;
    ucontext_t here, there; /* the script's, the world's */
    void *stack;
    size_t stack_bytes;
    void (*script)(struct sim_client *client);
    void *arg; /* the script's */
    struct stele_client *client;
    bool is_waiting, is_done;
};

/** Runs `script` as a program with a client to `bootstrap`, from `after_us` from now on. */
void sim_client_start(struct sim_client *client, struct sim_world *world, const char *name, int64_t after_us);
/** From the script: does something else for a while; the library does not run. */
void sim_client_pause(struct sim_client *client, int64_t us);
/** The topic that it reads: one of that name. */
struct stele_uuid sim_client_reads(const struct stele_consumer *consumer);
/** After is_done: nothing may be left. */
void sim_client_deinit(struct sim_client *client);

#endif
