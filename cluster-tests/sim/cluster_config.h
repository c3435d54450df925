/* What the file of --config says of a run: lines NAME=VALUE, as in a settings file of Kafka; '#' begins a comment.
 *
 *     sim.nodes=5                          1 to 5; (as the seed has it)
 *     sim.seconds=60                       faults end then, and programs soon after (220)
 *     sim.topics=2, sim.partitions=3       up to 4, up to 3 of each (as the seed has it)
 *     sim.racks=true                       nodes are in racks, one each, and programs read in theirs (half of seeds)
 *     sim.sends.percent=40                 of 100 things that programs do, so many more are sends
 *     sim.faults=kills,partitions          only these classes may be on; "none"
 *     sim.faults.not=wiped-disks           these never are
 *     topic.min.insync.replicas=1          a setting of all topics
 *     replica.lag.time.max.ms=10000        any other name is a setting of all nodes
 *
 * Which of the classes are on, and when something happens, the seed says. */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_CONFIG_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_CONFIG_H

#include "cluster-tests/sim/cluster_plan.h"

struct cluster_config {
    int node_count;      /* 0: as the seed has it */
    uint64_t no_classes; /* bits */
    struct cluster_frame frame;
};

/** False, with the number of the line that makes no sense, or 0 when the file cannot be read. */
bool cluster_config_read(struct cluster_config *config, const char *path, int *out_line);
/** The plan of the seed, in the shape that the file asks for. */
void cluster_config_plan(const struct cluster_config *config, struct cluster_plan *plan, uint64_t seed, int node_count);

#endif
