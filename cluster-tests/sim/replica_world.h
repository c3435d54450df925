/* Three nodes in one simulated world that replicate the partitions of a topic. The world plays the controller: it
 * elects, it answers wishes for another in-sync set, it tells states and nodes to every control shard, late and in any
 * interleaving. A client produces with acks=all and keeps the book of what was acknowledged. */
#ifndef STELE_CLUSTER_TESTS_SIM_REPLICA_WORLD_H
#define STELE_CLUSTER_TESTS_SIM_REPLICA_WORLD_H

#include "cluster-tests/sim/sim_server.h"
#include "node/isr_wish.h"
#include "node/node_struct.h"
#include "node/topic_ops.h"

enum { REPLICA_NODES = 3, REPLICA_PARTITIONS = 2, REPLICA_BOOK_MAX = 1 << 14, REPLICA_PUTS_MAX = 8 };

struct replica_world;

/** A node; ids are 1 .. 3, its place + 1. */
struct replica_node {
    struct replica_world *world;
    struct sim_server server;
    int32_t node_id;
    int64_t node_epoch; /* -1: fenced */
    struct stele_partition *partitions[REPLICA_PARTITIONS];
    struct sim_event tell, fence;
    struct stele_list wishes; /* answers on their way */

    /* making the topic */
    struct stele_metadata_record records[1 + REPLICA_PARTITIONS];
    struct stele_metadata_change change;
    struct stele_reconcile_wait wait;
};

/** A record that was sent. */
struct replica_sent {
    int partition, acks;
    bool is_acked;
    int64_t offset;
    enum stele_durability durability;
};

struct replica_client {
    struct sim_process process;
    struct sim_env env;
    struct sim_net net;
    struct stele_link_group group;
    struct stele_link links[REPLICA_NODES];
    struct sim_event tick;
    struct stele_list puts;
    int pending[REPLICA_PARTITIONS];
    int64_t pause_us; /* between two records of a partition, at most */
    int acks;
    bool is_stopped;
};

struct replica_world {
    struct sim_world world;
    struct replica_node nodes[REPLICA_NODES];
    struct replica_client client;
    struct stele_uuid topic_id;
    struct stele_partition_state states[REPLICA_PARTITIONS];
    int64_t last_node_epoch;
    int min_isr;
    bool is_unclean_allowed;
    bool is_controller_deaf; /* wishes get no answer but an error */
    int64_t tell_us_max;     /* how late it may tell */

    struct replica_sent *sent;
    int64_t sent_count, acked_count, elections, isr_changes, wishes_refused;
    enum stele_err last_error;       /* of the last produce that was refused */
    struct stele_metadata_node hint; /* that came with it; node_id 0: none */
    int32_t hint_epoch;
    int32_t sends_to; /* the client asks this node; 0: the leader */
};

/** Machines that are down, settings may be made; then begin starts all of them and the client. */
void replica_world_init(struct replica_world *world, uint64_t seed, bool is_verbose);
void replica_world_set(struct replica_world *world, const char *name, const char *value);
void replica_world_begin(struct replica_world *world);
/** Down, freed; what it holds is freed without a word. */
void replica_world_deinit(struct replica_world *world);

void replica_world_run(struct replica_world *world, int64_t us);
/** Until it holds, or the test fails after a minute. */
void replica_world_until(struct replica_world *world, bool (*holds)(const struct replica_world *world),
                         const char *what);
/** Of every partition: in sync are all, the logs are equal and as long as their high watermark. */
bool replica_world_is_whole(const struct replica_world *world);
bool replica_world_is_led(const struct replica_world *world);

void replica_node_die(struct replica_node *node, enum sim_death death);
void replica_node_start(struct replica_node *node);
/** The controller moves the lead; -1: to nobody. The in-sync set stays, unless the new leader is not in it: then it is
 * the leader alone (an unclean election). */
void replica_world_elect(struct replica_world *world, int partition, int32_t leader_id);
void replica_world_tell(struct replica_world *world);
struct stele_partition *replica_node_partition(const struct replica_node *node, int partition);
struct replica_node *replica_world_leader(struct replica_world *world, int partition);

void replica_client_stop(struct replica_world *world);
/** Every acknowledged record is at its offset in the leader's log, none twice; every replica's log is the same up to
 * the leader's high watermark. */
void replica_world_check(struct replica_world *world);

#endif
