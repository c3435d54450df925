/* Parts of the leader machine that leader.c and leader_isr.c share. */
#ifndef STELE_REPLICATION_LEADER_ISR_H
#define STELE_REPLICATION_LEADER_ISR_H

#include "replication/leader.h"

/** NULL: no replica. */
struct stele_leader_replica *stele_leader__replica(struct stele_leader *leader, int32_t node_id);
/** How much of the log the replica counts with; -1: not known. */
int64_t stele_leader__counted(const struct stele_leader *leader, const struct stele_leader_replica *replica);
/** Whether it may join: alive, and what is known of it is of its present life. */
bool stele_leader__is_eligible(const struct stele_leader_replica *replica);
bool stele_leader__is_caught_up(const struct stele_leader *leader, const struct stele_leader_replica *replica);
/** In every set that the controller may hold: the committed one, and the proposed one while its outcome is open. */
bool stele_leader__is_in_maximal_isr(const struct stele_leader *leader, int32_t node_id);
int32_t stele_leader__maximal_isr_count(const struct stele_leader *leader);
/** Takes over an in-sync set of the controller, as far as it names replicas, and ends a change under way. */
void stele_leader__commit_isr(struct stele_leader *leader, const struct stele_node_set *isr, int32_t partition_epoch);
void stele_leader__isr_answer(struct stele_leader *leader, const struct stele_isr_answer *answer,
                              struct stele_leader_update *update);
void stele_leader__advance(struct stele_leader *leader, struct stele_leader_update *update);
/** Proposes what is to be proposed. `fetcher_id`: whose fetch this is, NO_NODE otherwise. */
void stele_leader__propose(struct stele_leader *leader, int32_t fetcher_id, struct stele_leader_update *update);
int64_t stele_leader__deadline(const struct stele_leader *leader);

#endif
