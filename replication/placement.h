/* Which nodes get the replicas of new partitions (facts 4.10.4): striped over the racks.
 *
 * Nodes are sorted by rack and id. Replica i of a partition goes to the next rack, a rack is passed over only when it
 * has nobody left; the next partition starts one rack further, and, when every rack had its turn, one node further in
 * each of them; after as many partitions as there are unfenced nodes the starts are drawn anew. Fenced nodes get
 * replicas only when too few are not; the first replica, who will lead, never is one. */
#ifndef STELE_REPLICATION_PLACEMENT_H
#define STELE_REPLICATION_PLACEMENT_H

#include "base/err.h"
#include "base/prng.h"
#include "replication/types.h"

/** A node that may hold replicas: those in controlled shutdown are left out by the caller. */
struct stele_placement_node {
    int32_t node_id;
    bool is_fenced;
    const char *rack; /* "": none, which is a rack of its own; borrowed as long as the placement lives */
};

/** The caller's memory for one rack; as many as there are nodes are enough. */
struct stele_placement_rack {
    int32_t first; /* its nodes: the unfenced ones, then the fenced ones */
    int32_t unfenced_count, fenced_count;
    int32_t unfenced_start, fenced_start; /* whom a partition takes first */
    int32_t unfenced_taken, fenced_taken; /* of the partition being placed */
};

struct stele_placement {
    const struct stele_placement_node *nodes; /* sorted */
    struct stele_placement_rack *racks;
    int32_t node_count, rack_count, unfenced_count;
    int32_t rack_start;
    int32_t placed; /* since the starts were drawn */
    struct stele_prng prng;
};

/** Sorts `nodes`. `racks` has room for `count`; both are borrowed as long as the placement lives. `seed` is random; the
 * same seed, nodes and number of skipped partitions continue a stripe (stele_placement_skip): take one that belongs to
 * the topic. */
void stele_placement_init(struct stele_placement *placement, struct stele_placement_node *nodes,
                          struct stele_placement_rack *racks, int32_t count, uint64_t seed);

/** The replicas of the next partition, in order of preference.
 * Errors: INVALID_REPLICATION_FACTOR (below 1, more than there are nodes, above STELE_REPLICAS_MAX, or all are fenced).
 */
STELE_MUST_CHECK enum stele_err stele_placement_next(struct stele_placement *placement, int32_t replication_factor,
                                                     struct stele_node_set *out_replicas);

/** As placing `count` partitions and dropping them: those that the topic has already (4.10.5). */
void stele_placement_skip(struct stele_placement *placement, int32_t count);

/** A list of replicas that somebody wrote (4.10.2): not empty, not too many, known nodes, none twice.
 * Errors: INVALID_REPLICA_ASSIGNMENT. */
STELE_MUST_CHECK enum stele_err stele_placement_check(const struct stele_placement_node *nodes, int32_t node_count,
                                                      const int32_t *ids, int32_t id_count,
                                                      struct stele_node_set *out_replicas);

/** What a topic gets that does not say: three replicas, or as many as there are voters. */
int32_t stele_default_replication_factor(int32_t voter_count);
/** min.insync.replicas that goes with it: 2 from three replicas on, else 1. */
int32_t stele_default_min_isr(int32_t replication_factor);

#endif
