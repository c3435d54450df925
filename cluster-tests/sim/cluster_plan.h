/* The faults of a run, worked out before it begins: one line for each, with its time, its kind, whom it befalls and for
 * how long. A seed makes a plan; a script is a plan as text, and runs as the plan did (cluster_script.h).
 *
 * A line stands for itself: what it begins, it ends ("for"; -1 s: it never ends), so that any lines can be left out.
 * Every class of faults has a stream of the seed for each machine, and half of the classes are off. */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_PLAN_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_PLAN_H

#include "base/prng.h"
#include "cluster-tests/sim/cluster_script.h"

#include <stdio.h>

/* name, text, class, what arg is */
#define CLUSTER_FAULTS(F)                                                                                              \
    F(KILL, "kill", KILL)                                                                                              \
    F(KILL_ALL, "kill-all", KILL)                                                                                      \
    F(POWER, "power", POWER)         /* arg 1: adversarial */                                                          \
    F(POWER_ALL, "power-all", POWER) /* arg 1: adversarial */                                                          \
    F(CRASH, "crash", CRASH) /* inside a call to its disk, so many calls from now; arg / 3: which; arg % 3: how */     \
    F(STOP, "stop", STOP)    /* in order */                                                                            \
    F(WIPE, "wipe", WIPE)    /* killed, and comes back with an empty disk */                                           \
    F(PAUSE, "pause", PAUSE)                                                                                           \
    F(SLOW_DISK, "slow-disk", SLOW_DISK) /* each call takes up to arg us */                                            \
    F(SLOW_SYNC, "slow-sync", SLOW_DISK) /* each sync takes arg us more */                                             \
    F(SYNC_FAIL, "sync-fail", DISK)      /* the arg-th sync from now fails */                                          \
    F(WRITE_FAIL, "write-fail", DISK)    /* the arg-th write */                                                        \
    F(FULL_DISK, "full-disk", FULL_DISK) /* arg bytes are free */                                                      \
    F(DRIFT, "drift", CLOCK)             /* its clock goes faster by arg / 1000000 */                                  \
    F(STEP, "step", CLOCK)               /* its wall clock is set off by arg ms */                                     \
    F(NO_MEMORY, "no-memory", MEMORY)    /* arg allocations of a million fail */                                       \
    F(DELAY, "delay", DELAY)             /* what a sends to b takes up to arg us longer */                             \
    F(STALL, "stall", STALL)             /* the arg-th connection of the two */                                        \
    F(RESET, "reset", RESET)             /* the same */                                                                \
    F(HALF_OPEN, "half-open", HALF_OPEN) /* the same; odd: a learns of it */                                           \
    F(ONE_WAY, "oneway", ONE_WAY)        /* nothing comes from a to b */                                               \
    F(CUT, "cut", PARTITION)             /* nothing goes between a and b */                                            \
    F(ISOLATE, "isolate", PARTITION)     /* a from all nodes; arg 1: from clients too */                               \
    F(SPLIT, "split", PARTITION)         /* nodes whose bit is in arg from the others */                               \
    F(BRIDGE, "bridge", PARTITION)       /* the same, but for a, which reaches all */                                  \
    F(RING, "ring", PARTITION)           /* each node reaches its neighbours only */                                   \
    /* Of scripts alone. */                                                                                            \
    F(DEAF, "deaf", ONE_WAY)        /* nothing comes from any node to a */                                             \
    F(HOLD, "hold", STALL)          /* the connection of the message that the line waited for */                       \
    F(READ_FAIL, "read-fail", DISK) /* every read of a's files whose path has the word */                              \
    F(ROT, "rot", DISK)             /* one place of a file of a whose path has the word is damaged; arg: seed */       \
    F(ELECT, "elect", STOP)         /* a program forces elections where nobody leads */                                \
    /* Of whoever runs the cluster (cluster_operator.c); a and b are a topic and a partition. */                       \
    F(DELETE_TOPIC, "delete-topic", TOPICS) /* and makes it anew after the time; 0 s: leaves that to programs */       \
    F(REASSIGN, "reassign", MOVES) /* to the nodes whose numbers are the digits of arg; ends by then; 0 s: not */      \
    F(PREFER, "prefer", MOVES)     /* the preferred leaders lead, of all partitions */                                 \
    F(REMOVE_VOTER, "remove-voter", VOTERS)      /* and is one again after the time */                                 \
    F(READMIT, "readmit", VOTERS)                /* a may vote with the disk that it has now */                        \
    F(DELETE_RECORDS, "delete-records", RECORDS) /* arg / 1000 of what is committed; 1001: all there is */             \
    F(RELOCATE, "relocate", DISK_MOVES)          /* on node arg / 10 to its log directory arg % 10, from 0 on */       \
    /* Of one log directory of a, by its number, while the others go on. */                                            \
    F(DIR_FAIL, "dir-fail", DIRECTORY) /* every call of arg fails; then the node is started anew */                    \
    F(DIR_FULL, "dir-full", DIRECTORY) /* arg has no room */                                                           \
    F(BIT_ROT, "bit-rot", ROT)         /* of a batch that a has synced, and another in sync too; arg: seed */

enum cluster_fault_kind {
#define F(name, text, class) CLUSTER_##name,
    CLUSTER_FAULTS(F)
#undef F
        CLUSTER_FAULT_COUNT
};

enum cluster_class {
    CLUSTER_CLASS_KILL,
    CLUSTER_CLASS_POWER,
    CLUSTER_CLASS_CRASH,
    CLUSTER_CLASS_STOP,
    CLUSTER_CLASS_WIPE,
    CLUSTER_CLASS_PAUSE,
    CLUSTER_CLASS_SLOW_DISK,
    CLUSTER_CLASS_DISK,
    CLUSTER_CLASS_FULL_DISK,
    CLUSTER_CLASS_CLOCK,
    CLUSTER_CLASS_MEMORY,
    CLUSTER_CLASS_DELAY,
    CLUSTER_CLASS_STALL,
    CLUSTER_CLASS_RESET,
    CLUSTER_CLASS_HALF_OPEN,
    CLUSTER_CLASS_ONE_WAY,
    CLUSTER_CLASS_PARTITION,
    CLUSTER_CLASS_TOPICS,
    CLUSTER_CLASS_RECORDS,
    CLUSTER_CLASS_MOVES,
    CLUSTER_CLASS_VOTERS,
    CLUSTER_CLASS_DISK_MOVES,
    CLUSTER_CLASS_DIRECTORY,
    CLUSTER_CLASS_ROT,
    CLUSTER_CLASS_COUNT
};

enum { CLUSTER_FOR_EVER = -1, CLUSTER_NOBODY = -1 };

struct cluster_fault {
    enum cluster_fault_kind kind;
    int a, b; /* hosts: nodes from 0 on, behind them the clients; NOBODY; roles (cluster_script.h); or topic and
               * partition */
    int64_t at_us, for_us, arg;
    struct cluster_words words; /* what only scripts say */
};

/** A line, and what belongs to it while it lasts. */
struct cluster_line {
    struct cluster_fault fault;
    struct sim_event begin, end;
    enum cluster_line_state state;
    bool is_on;
    int it, connection;          /* whom the event was about that it waited for, and where it was sent; -1 */
    int64_t from_tag, from_lost; /* records from there on are new to it, and losses */
    void *arg;
};

struct cluster_plan {
    uint64_t seed;
    int node_count, client_count;
    uint64_t no_classes; /* bits of those that never come */
    struct cluster_frame frame;
    struct cluster_line *lines; /* in the order of their times */
    int64_t count, capacity;
};

struct cluster_plan_frame {
    int64_t from_us, to_us; /* faults begin in between */
};

/** What happens in the run of its seed. */
void cluster_plan_make(struct cluster_plan *plan, const struct cluster_plan_frame *frame);
void cluster_plan_add(struct cluster_plan *plan, const struct cluster_fault *fault);
void cluster_plan_free(struct cluster_plan *plan);
const char *cluster_fault_name(enum cluster_fault_kind kind);
enum cluster_class cluster_fault_class(enum cluster_fault_kind kind);
/** Whoever runs the cluster does it, by a call. */
bool cluster_class_is_call(enum cluster_class class);
/** Its a and b are a topic and a partition. */
bool cluster_fault_is_of_topic(enum cluster_fault_kind kind);
const char *cluster_class_name(enum cluster_class class);
/** In the order of their times; what a line follows stays before it. */
void cluster_plan_sort(struct cluster_plan *plan);

/* cluster_script.c */

enum { CLUSTER_TEXT_BYTES = 300 };
void cluster_fault_text(const struct cluster_fault *fault, int node_count, char out_text[CLUSTER_TEXT_BYTES]);
void cluster_plan_write(const struct cluster_plan *plan, FILE *file);
/** `plan_of` makes the empty plan of a seed with so many nodes. False, with the number of the line that makes no sense,
 * or 0 when the file cannot be read. */
bool cluster_plan_read(struct cluster_plan *plan, const char *path,
                       void (*plan_of)(struct cluster_plan *plan, uint64_t seed, int node_count), int *out_line);

#endif
