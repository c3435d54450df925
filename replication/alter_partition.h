/* A leader's wish to change its ISR, as the controller checks it (AlterPartition, facts 4.8, KIP-497, KIP-903).
 *
 * The sender's own node epoch is checked once a request by stele_registry_admit (4.8.1), topic and partition by
 * who looks them up (4.8.2). Answers leave only after the record is committed (4.8.9), those without a record after
 * everything before them is (4.1.3). */
#ifndef STELE_REPLICATION_ALTER_PARTITION_H
#define STELE_REPLICATION_ALTER_PARTITION_H

#include "replication/election.h"

struct stele_isr_candidate {
    int32_t node_id;
    int64_t node_epoch; /* by which its last fetch came; -1: not known, which is enough for who is in sync already */
};

/** As it came: nothing in it is trusted. */
struct stele_alter_partition {
    int32_t sender_id;
    int32_t leader_epoch, partition_epoch;
    const struct stele_isr_candidate *isr; /* borrowed for the call */
    int32_t isr_count;
    const int32_t *damaged; /* borrowed; nodes that lost records that they had: not to be eligible either */
    int32_t damaged_count;
    bool is_recovering, is_synced;
};

/** The answer for one partition. The leader takes it up only under the same leader epoch and a partition epoch that is
 * not lower (2.5.12). */
struct stele_partition_answer {
    int32_t leader_id, leader_epoch, partition_epoch;
    struct stele_node_set isr;
    bool is_recovering;
    int32_t min_isr; /* by which the controller made the ELR: until it has applied as much metadata, the leader commits
                        nothing with fewer. A change of min.insync.replicas is no change of the partition */
};

/** Checks in the order of 4.8.3 to 4.8.6, then works out the change.
 *
 * `out_outcome` is set with OK and with NEW_LEADER_ELECTED, whose record is written all the same (4.8.8).
 * Errors, in order:
 *   NOT_CONTROLLER          an epoch above ours: we are the stale ones
 *   FENCED_LEADER_EPOCH     a leader epoch below ours
 *   INVALID_REQUEST         the sender does not lead
 *   INVALID_UPDATE_VERSION  a partition epoch below ours
 *   INVALID_REQUEST         no subset of the replicas, a node twice, without the leader, with a damaged one, or against
 *                           the recovery rules of 3.7.2
 *   INELIGIBLE_REPLICA      a member is fenced, shutting down, offline, not registered, or of another epoch */
STELE_MUST_CHECK enum stele_err stele_alter_partition(const struct stele_partition_state *state,
                                                      const struct stele_alter_partition *request,
                                                      const struct stele_partition_view *view,
                                                      struct stele_partition_outcome *out_outcome);

/** What the leader is told of an outcome. */
void stele_alter_partition_answer(const struct stele_partition_state *state, int32_t min_isr,
                                  struct stele_partition_answer *out_answer);

#endif
