/* Scripts: a plan of faults as text. What a seed drew is written as lines of a time, a fault, whom it befalls and for
 * how long:
 *
 *     # stele-sim
 *     seed 42 nodes 3
 *     12.345678 kill n2 - for 3.000000 arg 0
 *     20.000000 oneway n1 n3 for 4.500000 arg 0
 *
 * Times are seconds. A script of a scenario says more; "-", "for" and "arg" may be left out (0, but "for -1": for
 * ever). Behind "seed", the shape of the run:
 *
 *     lasts 200                            the calm begins when all of it is over, or then at the latest
 *     topics 1 partitions 3                (as the seed has it)
 *     programs 40 elect 0                  so many of 100 things that programs do are sends; 0: no forced elections
 *     dirs 3                               each node has so many log directories
 *     racks                                each node is in one of its own, and programs read in one of them
 *     topic min.insync.replicas 1          a setting of all topics; of all nodes: node NAME VALUE
 *
 * Nodes have roles, by one partition: the first that is not led by the active controller when a role is named first.
 *
 *     leader, follower, other, controller  follower: in sync, and no controller if there is such a one; other: another
 *     A to F                               who was called so by a line `TIME name A leader`
 *     another                              the first node without such a name
 *     it, any                              whom the condition of the line was about; whoever (in conditions)
 *
 * What whoever runs the cluster does names a topic and a partition, "t0 p1", in place of hosts; of the topics that the
 * run has it is the one of that number, or begins to count anew behind the last.
 *
 * A line may begin behind the one before it, after "+SECONDS", in place of a time; and may wait for a condition:
 *
 *     +0.5 when A sends ALTER_PARTITION controller later 0.1 kill B for 3
 *
 * A line of "expect" must see its condition hold within the time, and the next line goes on then; one of "never" must
 * not, for as long. What lines wait for in vain fails the run, as does all that is checked in any run (docs/tests.md).
 *
 *     +0 expect B in-sync for 10
 *     +0 never B leads for 20
 *
 * Conditions, "not" before them:
 *
 *     A sends API [B], A answers API [B]   a request (proto/api.def) leaves A, or an answer to one; to B
 *     A tells TRACE [of B] [saying WORD]   an event (base/trace.def) of A; about node B; with a word in its sentence
 *     A leads, A in-sync, A eligible       of the partition, as the newest state says that any node has applied
 *     A whole                              ... and its replica there ends where the leader's does
 *     leaderless, in-sync N                nobody leads; so many are in sync
 *     A controls, A serves, A down         leads the metadata; takes requests; does not run
 *     acknowledged                         a record with acks=all that was sent since, to that partition
 *     reset                                a reader is told that what it had read is lost
 *     lost                                 a forced election lost something that was committed */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_SCRIPT_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_SCRIPT_H

#include "cluster-tests/sim/sim_world.h"

/* Hosts that are found when a line comes; nodes and clients are below. */
enum cluster_role {
    CLUSTER_LEADER = 64,
    CLUSTER_FOLLOWER,
    CLUSTER_OTHER,
    CLUSTER_CONTROLLER,
    CLUSTER_ANOTHER,
    CLUSTER_IT,
    CLUSTER_ANY,
    CLUSTER_LETTER_A,
    CLUSTER_LETTER_END = CLUSTER_LETTER_A + 6
};

/* name, text, whether a host stands before it */
#define CLUSTER_CONDITIONS(C)                                                                                          \
    C(SENDS, "sends", true)                                                                                            \
    C(ANSWERS, "answers", true)                                                                                        \
    C(TELLS, "tells", true)                                                                                            \
    C(LEADS, "leads", true)                                                                                            \
    C(IN_SYNC, "in-sync", true)                                                                                        \
    C(ELIGIBLE, "eligible", true)                                                                                      \
    C(WHOLE, "whole", true)                                                                                            \
    C(CONTROLS, "controls", true)                                                                                      \
    C(SERVES, "serves", true)                                                                                          \
    C(DOWN, "down", true)                                                                                              \
    C(SO_MANY, "in-sync", false)                                                                                       \
    C(LEADERLESS, "leaderless", false)                                                                                 \
    C(ACKNOWLEDGED, "acknowledged", false)                                                                             \
    C(RESET, "reset", false)                                                                                           \
    C(LOST, "lost", false)

enum cluster_condition_kind {
    CLUSTER_IF_NOTHING,
#define C(name, text, has_host) CLUSTER_IF_##name,
    CLUSTER_CONDITIONS(C)
#undef C
        CLUSTER_CONDITION_COUNT
};

struct cluster_condition {
    enum cluster_condition_kind kind;
    bool is_not;
    int host, other; /* other: the receiver, or of whom it tells; NOBODY: whoever */
    int number;      /* an API, an event, how many */
    char saying[32]; /* "": anything */
};

enum cluster_verb { CLUSTER_STRIKES, CLUSTER_NAMES, CLUSTER_EXPECTS, CLUSTER_NEVER };

struct cluster_words {
    enum cluster_verb verb;
    bool is_behind; /* the line before it, by after_us */
    int64_t after_us, later_us;
    struct cluster_condition when, what;
    char word[32]; /* of a path */
};

enum cluster_line_state { CLUSTER_IDLE, CLUSTER_WAITS, CLUSTER_DUE, CLUSTER_WATCHES, CLUSTER_DONE };

enum { CLUSTER_SETTINGS_MAX = 8 };
struct cluster_setting {
    char name[48], value[32];
};

/** What a script says of the run around its lines. */
struct cluster_frame {
    int64_t lasts_us; /* 0: as long as any run */
    int topic_count, partition_count, dir_count;
    int sends_percent;
    bool forces_nothing, has_racks;
    bool names_racks; /* a file said so, not the seed */
    struct cluster_setting topics[CLUSTER_SETTINGS_MAX], nodes[CLUSTER_SETTINGS_MAX];
    int topic_setting_count, node_setting_count;
};

#endif
