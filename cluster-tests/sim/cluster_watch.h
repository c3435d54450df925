/* Lines of a script as they come: roles, conditions that are waited for, expectations (cluster_script.h). */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_WATCH_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_WATCH_H

#include "base/trace.h"
#include "cluster-tests/sim/cluster_plan.h"

struct cluster;
struct cluster_topic;

struct cluster_watch {
    int letters[CLUSTER_LETTER_END - CLUSTER_LETTER_A]; /* node + 1; 0: nobody is called so */
    struct cluster_topic *topic;                        /* of the partition that roles are about; NULL: none yet */
    int partition;
    int watching; /* lines that wait or watch */
};

/** Before the first event. */
void cluster_watch_begin(struct cluster *run);
/** The line's time has come. */
void cluster_watch_line(struct cluster *run, struct cluster_line *line);
/** All that the script has to say has come and is over. */
bool cluster_watch_is_over(const struct cluster *run);
/** No faults from now on: nothing may be waited for any more. */
void cluster_watch_end(struct cluster *run);

/** Something of a node may have changed. */
void cluster_watch_look(struct cluster *run);
void cluster_watch_traced(struct cluster *run, int node, const struct stele_trace_event *event);
/** A record with acks=all was acknowledged. */
void cluster_watch_acknowledged(struct cluster *run, int64_t tag);
/** A reader that had read was told that it is sent back. */
void cluster_watch_reset(struct cluster *run);

#endif
