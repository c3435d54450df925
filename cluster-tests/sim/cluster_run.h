/* One run of stele-sim: the whole cluster in one process on virtual time, from one seed. Some nodes of the real core on
 * simulated disks, that form a cluster as steled does with --peers; some programs that use libstele; a net between all
 * of them; and a plan of faults. First come the faults, while the programs work; then a calm time, in which all that is
 * left of the cluster must mend, finish what was begun, and agree.
 *
 * Where to look: cluster_plan.h (which faults), cluster_faults.c (what they do), cluster_script.h (scripts),
 * cluster_quorum.c (what must hold of the metadata log), cluster_client.c (what programs do), cluster_operator.c (what
 * those do who run the cluster), cluster_world.c (how a run goes), sim_cluster.c (many seeds, scripts, shrinking).
 *
 * Everything random is drawn from a stream of the seed, so that a seed is a run. What is checked draws nothing, takes
 * no time and touches no file, so that checking more leaves a run as it was. */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_RUN_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_RUN_H

#include "cluster-tests/sim/cluster_book.h"
#include "cluster-tests/sim/cluster_plan.h"
#include "cluster-tests/sim/cluster_watch.h"
#include "cluster-tests/sim/sim_client.h"
#include "cluster-tests/sim/sim_server.h"
#include "node/node_struct.h"
#include "node/partition_replica.h"

enum {
    CLUSTER_CLIENTS_MAX = 4,
    CLUSTER_EPOCHS_MAX = 4096,
    CLUSTER_KNOWN_MAX = 64,
    CLUSTER_OPERATORS = 2,
    CLUSTER_ORDERS_MAX = 32,
    CLUSTER_PRODUCERS_MAX = 3,       /* of a client at a time; the last is for the end */
    CLUSTER_FAULTS_US = 220000000,   /* faults begin before, */
    CLUSTER_LOAD_US = 270000000,     /* and programs work until then; */
    CLUSTER_SHORT_LOAD_US = 5000000, /* so long after the faults, where a script says when they end */
    CLUSTER_MEND_US = 60000000       /* what is left must have mended so long after the last fault */
};

/* What a run may reach; many seeds must reach all. */
#define CLUSTER_POINTS(P)                                                                                              \
    P(SEED, "seeds")                                                                                                   \
    P(ELECTION, "controllers elected")                                                                                 \
    P(METADATA_CHANGE, "metadata changes acknowledged")                                                                \
    P(METADATA_FAILED, "metadata changes failed or unknown")                                                           \
    P(METADATA_CUT, "cuts of a metadata log")                                                                          \
    P(SNAPSHOT, "metadata snapshots fetched")                                                                          \
    P(RECOVERY, "logs recovered")                                                                                      \
    P(RECORD, "records acknowledged")                                                                                  \
    P(RECORD_FAILED, "records failed or of unknown fate")                                                              \
    P(CALL_FAILED, "calls failed")                                                                                     \
    P(COMMITTED, "records committed")                                                                                  \
    P(READ, "records read")                                                                                            \
    P(LEADER, "leaders of partitions")                                                                                 \
    P(ISR_CHANGE, "in-sync sets changed")                                                                              \
    P(ELR, "replicas left eligible")                                                                                   \
    P(CUT, "cuts of a replica")                                                                                        \
    P(TAIL_LOST, "records of acks=1 that went")                                                                        \
    P(ONLY_LOST, "tails lost by the only replica")                                                                     \
    P(FORCED, "forced elections that lost something")                                                                  \
    P(RESET_AT_FIRST, "readers sent elsewhere before they read")                                                       \
    P(FORMING_DEATH, "deaths before the cluster had formed")                                                           \
    P(ALONE, "clusters of one node")                                                                                   \
    P(TOPIC_DELETED, "topics deleted")                                                                                 \
    P(TOPIC_ANEW, "topics made anew")                                                                                  \
    P(OLD_READER, "readers of a topic that was made anew")                                                             \
    P(TWO_LIVES, "records written again to a topic made anew")                                                         \
    P(DELETED, "starts moved by who asked")                                                                            \
    P(RETAINED, "starts moved by retention")                                                                           \
    P(DELETE_ACKED, "deletions acknowledged")                                                                          \
    P(BELOW_START, "readers sent to the start")                                                                        \
    P(MOVED, "reassignments begun")                                                                                    \
    P(MOVE_ENDED, "reassignments cancelled")                                                                           \
    P(REPLICA_LEFT, "replicas taken from a node")                                                                      \
    P(PREFERRED, "preferred leaders elected")                                                                          \
    P(VOTER_REMOVED, "voters removed")                                                                                 \
    P(VOTER_ADDED, "voters added")                                                                                     \
    P(READMITTED, "nodes readmitted")                                                                                  \
    P(FOLLOWER_READ, "followers read from")                                                                            \
    P(DIRS, "nodes with several log directories")                                                                      \
    P(DIR_FAILED, "log directories offline while their node goes on")                                                  \
    P(DIR_FULL, "log directories full while others are not")                                                           \
    P(RELOCATED, "replicas in another log directory")                                                                  \
    P(RELOCATE_FAILED, "replicas not moved to another log directory")                                                  \
    P(ROTTEN, "batches that rotted")                                                                                   \
    P(ROT_TOLD, "rot found by who read it")                                                                            \
    P(REPAIRED, "damaged ranges fetched again")

enum cluster_point {
#define P(name, text) CLUSTER_POINT_##name,
    CLUSTER_POINTS(P)
#undef P
        CLUSTER_POINT_COUNT
};

struct cluster;

/** A replica as it was when it was looked at last, in this life of its node. */
struct cluster_replica {
    const struct stele_partition *of; /* NULL: never */
    enum stele_replica_role role;
    int32_t leader_epoch;
    int64_t start_offset, end_offset, high_watermark;
    int64_t start_floor; /* it led, and acknowledged that it begins there */
    int64_t stale_from;  /* from there on it may hold what a forced election lost; -1: not */
    int64_t checked_to;  /* up to there its files hold what is committed */
    int64_t synced_to;   /* in this life or one before */
    struct cluster_log_place place;
    const struct stele_log *log; /* that it is of */
};

struct cluster_known {
    const struct stele_partition *of;
    struct cluster_topic *topic;
    int number; /* of the partition */
    struct cluster_replica *replica;
    int32_t since_epoch; /* + 1: the partition epoch of the node's image then */
    bool is_there;
};

struct cluster_node {
    struct cluster *run;
    struct sim_server server;
    int number, host; /* from 0 on */
    struct sim_event up;
    int64_t down_us; /* how long it stays down after the death under way; -1: for good */
    bool wants_wipe, is_wiped, is_gone;
    bool is_removal_open; /* as a voter: it may still come */
    bool was_wiped_early; /* perhaps before it was one of the voters */
    bool is_removed;      /* as a voter, or may be */
    int64_t wipes;
    bool may_be_readmitted, is_readmitted; /* with the disk that it has now */
    bool has_served;                       /* in this life */
    bool is_amnesiac;                      /* what its disk had not synced was lost when this life began */
    bool has_disk_trouble, had_full_disk;  /* in this life */
    bool is_disk_full, is_disk_unreadable;
    int dir_count;
    int dirs_broken[CLUSTER_DIRS_MAX], dirs_full[CLUSTER_DIRS_MAX]; /* by so many lines */
    int64_t rots;                                                   /* of batches, on this disk or one before */
    bool wants_mount;        /* a directory works again, when it is mounted anew */
    bool is_short_of_memory; /* or was, in this life */
    uint32_t no_memory;      /* allocations that fail, per million */
    int crash_how;           /* what a crash inside a call is: enum sim_death */
    struct cluster_log_place metadata_place;
    struct cluster_replica replicas[CLUSTER_LIVES_MAX][CLUSTER_PARTITIONS_MAX];
    struct cluster_known known[CLUSTER_KNOWN_MAX];
    int known_count;
    int64_t applied_offset;
    int32_t partition_epochs[CLUSTER_LIVES_MAX][CLUSTER_PARTITIONS_MAX]; /* + 1, applied last; 0: none */
    int64_t checked_to; /* how far its metadata log was compared, in this life */
    int32_t led_epoch;  /* the last in which it led the quorum, and what was committed when it was looked at last */
    int64_t led_to;
    int64_t voters_from; /* where the newest set of voters was, while it led, at the last look */
};

/* What one setting is known to be: changes are numbered, the last acknowledged holds or a later one, or one of those
 * that nobody knows the end of. */
struct cluster_tuned {
    const char *name;
    int64_t base, last, acknowledged;
    uint8_t unknown[8192]; /* by number */
};

struct cluster_producer {
    struct stele_producer *producer;
    int number, topic, acks;
    bool is_once;
};

struct cluster_client {
    struct cluster *run;
    int number;
    struct sim_client sim;
    struct stele_prng prng;
    struct cluster_tuned tuned;
    struct cluster_producer producers[CLUSTER_PRODUCERS_MAX];
    struct stele_consumer *consumer;
    int reads;                                /* the first topic of the name that the consumer reads, */
    const struct cluster_topic *life;         /* and the one that it reads */
    int64_t expected[CLUSTER_PARTITIONS_MAX]; /* its next offsets */
    bool has_read[CLUSTER_PARTITIONS_MAX];    /* since it was assigned */
    int64_t floor[CLUSTER_PARTITIONS_MAX];    /* where all replicas began then; -1: not known, */
    int64_t floor_starts;                     /* while so many programs had been started */
    const char *step;                         /* of its end, for who waits for it; NULL: done */
};

/* Somebody who runs the cluster: does the lines of a plan that take a call, one after the other. */
struct cluster_operator {
    struct cluster *run;
    int number;
    struct sim_client sim;
    struct stele_prng prng;
    struct cluster_fault orders[CLUSTER_ORDERS_MAX];
    int64_t ordered, taken;                         /* so many, and so many of them were begun */
    struct cluster_fault later[CLUSTER_ORDERS_MAX]; /* what ends at at_us */
    int later_count;
    bool is_idle;
    const char *step; /* as a program's */
};

/* A batch of the metadata log as it was when it was committed first. */
struct cluster_committed {
    int64_t end_offset; /* 0: not known */
    uint32_t crc;
    int32_t epoch;
};

struct cluster_quorum {
    int leaders[CLUSTER_EPOCHS_MAX];   /* node + 1 */
    struct cluster_committed *batches; /* by base offset */
    int64_t capacity, committed_to;
    int32_t epoch_max;
    char cluster_id[64];
};

struct cluster {
    struct sim_world world;
    struct stele_mem mem; /* the checker's */
    int node_count, client_count;
    char peers[128], bootstrap[128];
    struct cluster_node nodes[CLUSTER_NODES_MAX];
    struct cluster_client clients[CLUSTER_CLIENTS_MAX];
    struct cluster_operator operators[CLUSTER_OPERATORS];
    struct cluster_plan plan;
    int64_t next_line;
    struct sim_event fault;
    struct cluster_watch watch;
    bool wants_election; /* some program is to force them */
    struct cluster_quorum quorum;
    struct cluster_book book;
    bool is_calm, is_over, is_ending; /* no faults any more; programs stop; nodes stop */
    bool has_changed_voters;          /* somebody tried to */
    bool has_no_topics;               /* a cluster that keeps none yet */
    bool has_retention;               /* some topics delete what is old or too much */
    int done_count;
    int64_t reached[CLUSTER_POINT_COUNT], faults[CLUSTER_CLASS_COUNT];
};

/** How a run ended. */
struct cluster_result {
    uint64_t hash;
    int64_t events, simulated_us, acknowledged;
    int64_t reached[CLUSTER_POINT_COUNT], faults[CLUSTER_CLASS_COUNT], world[SIM_POINT_COUNT];
};

/* cluster_world.c */

/** Runs `plan`, and frees it; what does not hold ends the process (sim_world_fail). `failed` tells how to see it. */
void cluster_run(struct cluster_plan *plan, bool is_verbose, void (*failed)(void *arg, const char *text), void *arg,
                 struct cluster_result *out_result);
/** An empty plan in the shape of a seed, or with so many nodes (0: as the seed has it); and its faults. */
void cluster_plan_of(struct cluster_plan *plan, uint64_t seed, int node_count);
void cluster_plan_fill(struct cluster_plan *plan);
void cluster_node_start(struct cluster_node *node);
static inline void cluster_reach(struct cluster *run, enum cluster_point point)
{
    run->reached[point]++;
}
const char *cluster_point_text(enum cluster_point point);
/** It runs; its death may be under way, and yet it may send until then. */
static inline bool cluster_node_lives(const struct cluster_node *node)
{
    return node->server.node != NULL && node->server.state != SIM_SERVER_DOWN;
}

/* cluster_faults.c */

void cluster_faults_begin(struct cluster *run);
/** A new disk behaves. */
void cluster_disk_quiet(struct cluster_node *node);
/** One of its log directories does not work, or has no room. */
bool cluster_node_has_broken_dir(const struct cluster_node *node);
bool cluster_node_has_full_dir(const struct cluster_node *node);
/** What a sync that failed took is gone from the page cache too. */
void cluster_node_mount(struct cluster_node *node);
/** A line of a fault, its hosts known, begins; and what lasts ends. */
void cluster_fault_strike(struct cluster *run, struct cluster_line *line);
void cluster_fault_mend(struct cluster *run, struct cluster_line *line);
/** No more; what lasted ends, but for what never does. */
void cluster_faults_end(struct cluster *run);

/* cluster_rot.c */

/** Damages a batch of the node, by a seed, or none. */
void cluster_rot(struct cluster_node *node, uint64_t seed);

/* cluster_quorum.c */

/** The log of a node that takes part in the quorum, or NULL. */
struct stele_metadata_log *cluster_metadata_of(const struct cluster_node *node);
/** After an event of the node. */
void cluster_quorum_check(struct cluster_node *node);
/** All nodes that are left have the same log, one leads, and the settings are what they may be; says why not. */
bool cluster_quorum_agrees(struct cluster *run, const char **out_why);
void cluster_quorum_check_settings(struct cluster *run);

/* cluster_replicas.c */

/** After an event of the node. */
void cluster_replicas_check(struct cluster_node *node);
/** All that is committed, in every replica. */
void cluster_replicas_check_all(struct cluster *run);
/** Where all begin at least that hold it; -1: not known. */
int64_t cluster_replicas_floor(struct cluster *run, const struct cluster_topic *topic, int partition);
/** NULL: nobody leads, or more than one believes so. */
struct cluster_replica *cluster_replicas_leader(struct cluster *run, const struct cluster_topic *topic, int partition);
/** It begins another life. */
void cluster_replicas_forget(struct cluster_node *node);

/* cluster_states.c */

void cluster_states_check(struct cluster_node *node);
void cluster_states_forget(struct cluster_node *node);
/** Every partition that is known has a leader. */
bool cluster_states_are_led(const struct cluster *run);
/** For who looks for what went wrong. */
void cluster_states_print(struct cluster *run);
/** Every partition has a leader, all living replicas in sync and the same; says why not. */
bool cluster_states_are_whole(struct cluster *run, const char **out_why);

/* cluster_client.c */

void cluster_clients_start(struct cluster *run);
/** Of a program that knows all nodes and asks a drawn one first. */
struct stele_client *cluster_client_new(struct cluster *run, struct sim_client *sim, struct stele_prng *prng,
                                        const char *timeout_ms);
/** Makes the topic of a name unless it is there; false when it is not yet. */
bool cluster_topic_make(struct cluster *run, struct sim_client *sim, int number);
/** True when a call went well; it may only fail with what may go well later. */
bool cluster_call_is_done(struct cluster *run, const struct sim_client *sim, const struct stele_result *result,
                          const char *call);

/* cluster_operator.c */

void cluster_operators_start(struct cluster *run);
/** A line whose time has come. */
bool cluster_operators_hold(const struct cluster *run); /* a voter is removed, or may be */
void cluster_operators_order(struct cluster *run, const struct cluster_fault *fault);

#endif
