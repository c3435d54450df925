/* A machine of a simulated world: a disk, settings, and one life of steled after the other. It does what host/steled.c
 * does: builds the envs and nets, starts the node, listens when it is ready, ends as the node or the world says. */
#ifndef STELE_CLUSTER_TESTS_SIM_SIM_SERVER_H
#define STELE_CLUSTER_TESTS_SIM_SIM_SERVER_H

#include "base/settings.h"
#include "cluster-tests/sim/sim_disk.h"
#include "cluster-tests/sim/sim_net.h"
#include "node/node.h"

enum { SIM_SHARDS_MAX = 4 };

enum sim_server_state { SIM_SERVER_DOWN, SIM_SERVER_STARTING, SIM_SERVER_SERVING, SIM_SERVER_STOPPING };

enum sim_death {
    SIM_DEATH_KILL,
    SIM_DEATH_POWER_ORDERED,
    SIM_DEATH_POWER_ADVERSARIAL,
    SIM_DEATH_FAILED, /* the start failed */
    SIM_DEATH_STOPPED /* cleanly */
};

struct sim_server {
    struct sim_world *world;
    char address[64];
    struct sim_disk *disk;
    struct stele_settings *settings; /* of the machine's own memory, as `mem` */
    struct stele_mem mem;
    int64_t wall_skew_ms, drift_ppm;
    int64_t slow_until_us; /* from then on calls are quick again, also within one event; 0: not said */
    int shard_count;
    /* One life */
    struct sim_process process;
    struct stele_settings *life_settings; /* a copy, of the process's memory */
    struct sim_env envs[SIM_SHARDS_MAX];
    struct sim_net nets[SIM_SHARDS_MAX];
    struct stele_env *env_list[SIM_SHARDS_MAX];
    struct stele_net *net_list[SIM_SHARDS_MAX];
    struct sim_event timers[SIM_SHARDS_MAX];
    struct sim_event begin, stop, end;
    struct sim_listener listener;
    struct stele_node *node;
    enum sim_server_state state;
    enum sim_death death; /* of the end that is under way */
    bool is_stop_clean;
    bool is_open;          /* connections are taken */
    int64_t starts, boots; /* of the program; losses of the machine's power */
    /* Its owner. before_death sees the disk as the dying program leaves it; dead is called when all is gone. */
    void (*ready)(struct sim_server *server);
    void (*before_death)(struct sim_server *server);
    void (*dead)(struct sim_server *server);
    void (*stepped)(struct sim_server *server); /* after each event of a node that lives */
    void (*traced)(struct sim_server *server, const struct stele_trace_event *event);
    void (*sync_failed)(struct sim_server *server, const char *path);
    void *arg;
};

/** A machine named `name` with an empty disk; settings may be set, hooks and rates of the disk too. */
void sim_server_init(struct sim_server *server, struct sim_world *world, const char *name);
/** Down, once. */
void sim_server_deinit(struct sim_server *server);
/** While DOWN: the machine gets an empty disk; what its owner set of the old one goes with it. */
void sim_server_wipe(struct sim_server *server);
/** While DOWN: the machine gets this disk, an older copy of its own perhaps, as wipe does. */
void sim_server_restore(struct sim_server *server, struct sim_disk *disk);
/** From DOWN. */
void sim_server_start(struct sim_server *server);
/** Clean; a while from now. Only while STARTING or SERVING; `ready` is not called any more. */
void sim_server_stop(struct sim_server *server);
/** The clock of the machine, from now on. */
void sim_server_drift(struct sim_server *server, int64_t ppm);
/** Dies at once, as soon as the running event has ended. */
void sim_server_die(struct sim_server *server, enum sim_death death);

#endif
