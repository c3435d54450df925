/* The election that somebody forces when nobody may lead cleanly (`stele partition elect --unclean`).
 *
 * The owner asks every replica that is there for the end of its log, and then the one that was picked for the ends of
 * the others' last epochs, so that what is lost can be said. Nothing here runs by itself. */
#ifndef STELE_REPLICATION_FORCED_ELECTION_H
#define STELE_REPLICATION_FORCED_ELECTION_H

#include "replication/election.h"

/** What one replica says of its log. */
struct stele_log_answer {
    int32_t node_id;
    int32_t last_epoch; /* of its last batch; of an empty log the newest that its index knows; -1: none */
    int64_t end_offset;
    int64_t high_watermark; /* the highest that it remembers; may lie above its end */
    /* For stele_forced_loss: what the epoch index of the one that was picked says of last_epoch (facts 3.2). (-1, -1):
     * not known, then all of this log may go. */
    struct stele_epoch_end at_leader;
};

/** What the replica that was picked lacks. Offsets from `from_offset` up are lost, or hold other records from now on;
 * at least up to `to_offset`, for a replica that is not there may have had more. Equal: nothing is known to be lost. */
struct stele_lost_range {
    int64_t from_offset, to_offset;
    int64_t committed_to_offset;     /* the highest high watermark that anybody remembers: below it, records were
                                        acknowledged */
    struct stele_node_set not_asked; /* replicas that did not answer */
};

/** The longest log of the highest epoch among the answers of replicas that may lead; of equal ones the one that comes
 * first in the order of preference. Answers of others are passed over.
 * Errors: ELIGIBLE_LEADERS_NOT_AVAILABLE (no such answer). */
STELE_MUST_CHECK enum stele_err stele_forced_pick(const struct stele_partition_state *state,
                                                  const struct stele_partition_view *view,
                                                  const struct stele_log_answer *answers, int32_t count,
                                                  int32_t *out_leader_id);

/** What is lost when `leader_id`, one of the answers, leads. */
void stele_forced_loss(const struct stele_partition_state *state, const struct stele_log_answer *answers, int32_t count,
                       int32_t leader_id, struct stele_lost_range *out_range);

#endif
