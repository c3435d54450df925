/* What the files of the quorum's machine share. Every function works on one step: `quorum->now_ms` and `random` are the
 * event's, `update` collects what the owner has to do. */
#ifndef STELE_REPLICATION_QUORUM_INTERNAL_H
#define STELE_REPLICATION_QUORUM_INTERNAL_H

#include "base/check.h"
#include "base/types.h"
#include "replication/guard.h"
#include "replication/quorum.h"

/* Places that the simulator's runs must reach, all of them. */
enum stele_quorum_point {
    STELE_QUORUM_REACHED_LEAD,
    STELE_QUORUM_REACHED_LEAD_ALONE,
    STELE_QUORUM_REACHED_CHECK_QUORUM,
    STELE_QUORUM_REACHED_RESIGNED_AT_START,
    STELE_QUORUM_REACHED_CANDIDATE_AT_START,
    STELE_QUORUM_REACHED_FOLLOWER_AT_START,
    STELE_QUORUM_REACHED_RESIGNED_RETURNS,
    STELE_QUORUM_REACHED_PRE_VOTE_REFUSED,
    STELE_QUORUM_REACHED_PRE_VOTE_LOST_TO_LEADER,
    STELE_QUORUM_REACHED_VOTE_GRANTED,
    STELE_QUORUM_REACHED_VOTE_REPEATED,
    STELE_QUORUM_REACHED_VOTE_REFUSED_FOR_LOG,
    STELE_QUORUM_REACHED_VOTE_OF_OTHER_DISK,
    STELE_QUORUM_REACHED_ELECTION_LOST,
    STELE_QUORUM_REACHED_STALE_ANSWER,
    STELE_QUORUM_REACHED_BEGIN_FOLLOWED,
    STELE_QUORUM_REACHED_END_FOLLOWED,
    STELE_QUORUM_REACHED_SUSPICION,
    STELE_QUORUM_REACHED_SUSPICION_CLEARED,
    STELE_QUORUM_REACHED_DIVERGING,
    STELE_QUORUM_REACHED_TRUNCATE,
    STELE_QUORUM_REACHED_TRUNCATE_VOTERS,
    STELE_QUORUM_REACHED_SNAPSHOT_OFFERED,
    STELE_QUORUM_REACHED_SNAPSHOT_INSTALLED,
    STELE_QUORUM_REACHED_SNAPSHOT_GONE,
    STELE_QUORUM_REACHED_OFFSET_BACKWARD, /* of an observer */
    STELE_QUORUM_REACHED_TOLD_TO_END,
    STELE_QUORUM_REACHED_DISK_WENT_BACK, /* a voter's, or its request came late */
    STELE_QUORUM_REACHED_LEADER_NOT_VOTER,
    STELE_QUORUM_REACHED_LEADER_REMOVED,
    STELE_QUORUM_REACHED_CHANGE_DONE,
    STELE_QUORUM_REACHED_CHANGE_TIMED_OUT,
    STELE_QUORUM_REACHED_CHANGE_LOST,
    STELE_QUORUM_REACHED_CHANGE_TOO_EARLY,
    STELE_QUORUM_REACHED_CHANGE_OUT_OF_TOUCH,
    STELE_QUORUM_REACHED_CAMPAIGN_OF_REMOVED,
    STELE_QUORUM_REACHED_READMITTED,
    STELE_QUORUM_REACHED_NEWER_EPOCH_FETCHED,
    STELE_QUORUM_POINTS
};

/* quorum_role.c */
uint64_t stele_quorum__draw(struct stele_quorum *quorum, uint64_t bound);
int64_t stele_quorum__election_deadline(struct stele_quorum *quorum);
int32_t stele_quorum__majority(const struct stele_quorum *quorum);
void stele_quorum__unattached(struct stele_quorum *quorum, struct stele_quorum_update *update, int32_t epoch);
/** Epoch not below the own one; a leader that is not the own node, and in the own epoch no other than the known one. */
void stele_quorum__follow(struct stele_quorum *quorum, struct stele_quorum_update *update, int32_t leader_id,
                          int32_t epoch);
void stele_quorum__prospective(struct stele_quorum *quorum);
void stele_quorum__candidate(struct stele_quorum *quorum, int32_t epoch);
void stele_quorum__lead(struct stele_quorum *quorum, struct stele_quorum_update *update);
void stele_quorum__resign(struct stele_quorum *quorum, struct stele_quorum_update *update);
/** Looks whether the round of votes is won or lost by now; at the end of every step. */
void stele_quorum__round_count(struct stele_quorum *quorum, struct stele_quorum_update *update);
/** Its time is over. */
void stele_quorum__round_over(struct stele_quorum *quorum, struct stele_quorum_update *update);
/** Believes what a peer says of epoch and leader. True when that changed the own role or epoch. */
bool stele_quorum__adopt(struct stele_quorum *quorum, struct stele_quorum_update *update, int32_t epoch,
                         int32_t leader_id);
void stele_quorum__fetch_reset(struct stele_quorum *quorum);

/* quorum_vote.c; the answers' heads are filled */
void stele_quorum__vote_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                const struct stele_quorum_request *request);
void stele_quorum__vote_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                               const struct stele_quorum_answer *answer);
void stele_quorum__begin_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                 const struct stele_quorum_request *request);
void stele_quorum__end_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                               const struct stele_quorum_request *request);
void stele_quorum__closed(struct stele_quorum *quorum, int32_t node_id);

/* quorum_leader.c */
void stele_quorum__fetch_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                 const struct stele_quorum_event *event);
void stele_quorum__progress_reset(struct stele_quorum *quorum);
/** The voters changed from `before`: what is known of each goes to its new place. */
void stele_quorum__progress_move(struct stele_quorum *quorum, const struct stele_voters *before);
/** Of a voter or an observer; NULL: neither. */
struct stele_quorum_progress *stele_quorum__progress(struct stele_quorum *quorum, const struct stele_replica_key *key);
struct stele_quorum_progress *stele_quorum__observer(struct stele_quorum *quorum, const struct stele_replica_key *key);
void stele_quorum__commit(struct stele_quorum *quorum, struct stele_quorum_update *update);
/** When the leader has to resign for want of contact; INT64_MAX: never. */
int64_t stele_quorum__check_quorum_ms(const struct stele_quorum *quorum);
void stele_quorum__successors(const struct stele_quorum *quorum, struct stele_voters *out_successors);

/* quorum_follower.c */
void stele_quorum__fetch_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                const struct stele_quorum_event *event);
void stele_quorum__snapshot_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                   const struct stele_quorum_answer *answer);
void stele_quorum__fetch_failed(struct stele_quorum *quorum);
/** Sends the next fetch when it is time for one. */
void stele_quorum__fetch_send(struct stele_quorum *quorum, struct stele_quorum_update *update);
bool stele_quorum__may_fetch(const struct stele_quorum *quorum);
void stele_quorum__appended(struct stele_quorum *quorum, struct stele_quorum_update *update,
                            const struct stele_quorum_event *event);
void stele_quorum__truncated(struct stele_quorum *quorum, const struct stele_quorum_event *event);
void stele_quorum__replaced(struct stele_quorum *quorum, struct stele_quorum_update *update,
                            const struct stele_quorum_event *event);

/* quorum_voters.c */
/** A voter; or one that the last record removes, as long as that is not known to be committed: without its log and vote
 * the others may be no majority of the old set (Ongaro's thesis, 4.2.2). */
bool stele_quorum__may_campaign(const struct stele_quorum *quorum);
void stele_quorum__history_push(struct stele_quorum *quorum, const struct stele_voters_at *entry);
void stele_quorum__history_truncate(struct stele_quorum *quorum, int64_t end_offset);
void stele_quorum__change(struct stele_quorum *quorum, struct stele_quorum_update *update,
                          const struct stele_quorum_event *event);
void stele_quorum__change_appended(struct stele_quorum *quorum, int64_t offset);
/** After the high watermark moved. */
void stele_quorum__change_committed(struct stele_quorum *quorum, struct stele_quorum_update *update);
void stele_quorum__change_expire(struct stele_quorum *quorum, struct stele_quorum_update *update);
/** Leadership ends: whoever waits for a change is told. */
void stele_quorum__change_drop(struct stele_quorum *quorum, struct stele_quorum_update *update);

/* quorum.c */
struct stele_quorum_request *stele_quorum__send(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                                enum stele_quorum_message kind, const struct stele_replica_key *to);

#endif
