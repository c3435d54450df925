/* The replicas of a partition while they are exchanged (facts 4.9). Stored are the targets, in order, followed by those
 * that leave; `adding` and `removing` say who is who. Pure arithmetic of sets; replication/election.h applies it. */
#ifndef STELE_REPLICATION_REASSIGNMENT_H
#define STELE_REPLICATION_REASSIGNMENT_H

#include "base/err.h"
#include "replication/types.h"

struct stele_reassignment {
    struct stele_node_set replicas, adding, removing;
};

/** Towards `target`, from what the partition had before any reassignment that is under way (4.9.5): whom that one would
 * have added and this one does not is dropped. Errors: INVALID_REPLICA_ASSIGNMENT (empty, or too many in all). */
STELE_MUST_CHECK enum stele_err stele_reassignment_start(const struct stele_partition_state *state,
                                                         const struct stele_node_set *target,
                                                         struct stele_reassignment *out_reassignment);

/** Back to what it was (4.9.4). Errors: NO_REASSIGNMENT_IN_PROGRESS. */
STELE_MUST_CHECK enum stele_err stele_reassignment_cancel(const struct stele_partition_state *state,
                                                          struct stele_reassignment *out_reassignment);

/** True when one is under way and every target is in `isr` (4.9.2); then `out_replicas` are the targets. */
bool stele_reassignment_is_done(const struct stele_reassignment *reassignment, const struct stele_node_set *isr,
                                struct stele_node_set *out_replicas);

/** For who reports progress: how many of those to be added are in sync. */
int32_t stele_reassignment_joined(const struct stele_partition_state *state);

#endif
