/* Votes, and what leaders tell of their beginning and end (KIP-595, pre-votes KIP-996, directories KIP-853). */
#include "replication/quorum_internal.h"

static bool is_log_up_to_date(const struct stele_quorum *quorum, const struct stele_quorum_request *request)
{
    if (request->u.vote.last_epoch != quorum->last_epoch) {
        return request->u.vote.last_epoch > quorum->last_epoch;
    }
    return request->u.vote.end_offset >= quorum->appended_offset;
}

/* The log counts for a repeated vote too: the candidate may have started again without the tail that won it the vote.
 */
static bool grants_vote(const struct stele_quorum *quorum, const struct stele_quorum_request *request)
{
    if (quorum->role != STELE_QUORUM_UNATTACHED && quorum->role != STELE_QUORUM_PROSPECTIVE) {
        return false;
    }
    if (quorum->election.leader_id != STELE_NO_NODE) {
        return false;
    }
    const struct stele_replica_key *voted = &quorum->election.voted;
    return voted->node_id == STELE_NO_NODE || stele_replica_key_equal(voted, &request->from);
}

/* Nobody who hears the leader lets it be replaced, so a wrong suspicion does no harm. */
static bool grants_pre_vote(const struct stele_quorum *quorum)
{
    if (quorum->role == STELE_QUORUM_LEADER) {
        return false;
    }
    return quorum->role != STELE_QUORUM_FOLLOWER || !quorum->has_heard_leader;
}

static void vote(struct stele_quorum *quorum, struct stele_quorum_update *update,
                 const struct stele_quorum_request *request)
{
    if (quorum->election.voted.node_id == STELE_NO_NODE) {
        quorum->election.voted = request->from;
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_VOTE_GRANTED);
    } else {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_VOTE_REPEATED);
    }
    /* The candidate gets a whole election time. */
    stele_quorum__unattached(quorum, update, quorum->election.epoch);
    quorum->role_deadline_ms = stele_quorum__election_deadline(quorum);
}

static bool is_vote_malformed(const struct stele_quorum *quorum, const struct stele_quorum_request *request)
{
    bool is_pre_vote = request->u.vote.is_pre_vote;
    int32_t last_epoch = request->u.vote.last_epoch;
    return last_epoch < 0 || request->u.vote.end_offset < 0 || last_epoch > request->epoch ||
           (last_epoch == request->epoch && !is_pre_vote) || stele_replica_key_equal(&request->from, &quorum->self);
}

void stele_quorum__vote_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                const struct stele_quorum_request *request)
{
    struct stele_quorum_answer *answer = &update->answer;
    if (is_vote_malformed(quorum, request)) {
        answer->err = STELE_INVALID_REQUEST;
        return;
    }
    if (request->epoch < quorum->election.epoch) {
        answer->err = STELE_FENCED_LEADER_EPOCH;
        return;
    }
    if (request->epoch > quorum->election.epoch) {
        stele_quorum__unattached(quorum, update, request->epoch);
    }
    if (!stele_replica_key_equal(&request->to, &quorum->self)) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_VOTE_OF_OTHER_DISK);
        answer->err = STELE_INVALID_VOTER_KEY;
        return;
    }
    /* Neither has to be a voter as this node sees it: it may see an old set. */
    bool grants = request->u.vote.is_pre_vote ? grants_pre_vote(quorum) : grants_vote(quorum, request);
    if (grants && !is_log_up_to_date(quorum, request)) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_VOTE_REFUSED_FOR_LOG);
        grants = false;
    }
    if (!grants && request->u.vote.is_pre_vote) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_PRE_VOTE_REFUSED);
    }
    if (grants && !request->u.vote.is_pre_vote) {
        vote(quorum, update, request);
    }
    answer->u.is_granted = grants;
}

void stele_quorum__vote_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                               const struct stele_quorum_answer *answer)
{
    bool is_round = quorum->role == STELE_QUORUM_PROSPECTIVE || quorum->role == STELE_QUORUM_CANDIDATE;
    if (!is_round || answer->generation != quorum->round_generation) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_STALE_ANSWER);
        return;
    }
    if (stele_quorum__adopt(quorum, update, answer->epoch, answer->leader_id)) {
        return;
    }
    if (answer->epoch == quorum->election.epoch && quorum->election.leader_id != STELE_NO_NODE &&
        answer->from == quorum->election.leader_id && answer->leader_id == answer->from) {
        /* The leader itself refuses. */
        stele_quorum__follow(quorum, update, answer->from, answer->epoch);
        return;
    }
    int32_t at = stele_voters_find_node(stele_quorum_voters(quorum), answer->from);
    if (at < 0) {
        return;
    }
    if (answer->err == STELE_OK && answer->u.is_granted) {
        quorum->granted_mask |= UINT32_C(1) << at;
        quorum->refused_mask &= ~(UINT32_C(1) << at);
    } else if ((quorum->granted_mask & UINT32_C(1) << at) == 0) {
        quorum->refused_mask |= UINT32_C(1) << at;
    }
}

/* What a leader says of itself may be believed when its epoch is newer, or when it is the one that this node knows or
 * could know. */
static bool is_leader_possible(const struct stele_quorum *quorum, const struct stele_quorum_request *request)
{
    return request->from.node_id != quorum->self.node_id &&
           (request->epoch > quorum->election.epoch || quorum->election.leader_id == STELE_NO_NODE ||
            quorum->election.leader_id == request->from.node_id);
}

void stele_quorum__begin_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                 const struct stele_quorum_request *request)
{
    struct stele_quorum_answer *answer = &update->answer;
    if (request->epoch < quorum->election.epoch) {
        answer->err = STELE_FENCED_LEADER_EPOCH;
        return;
    }
    if (!is_leader_possible(quorum, request)) {
        answer->err = STELE_INVALID_REQUEST;
        return;
    }
    /* Followed already: no news, and no contact either. And who resigned does not begin again. */
    bool is_news = quorum->role != STELE_QUORUM_FOLLOWER && !quorum->has_leader_resigned;
    if (is_news || request->epoch > quorum->election.epoch) {
        stele_quorum__follow(quorum, update, request->from.node_id, request->epoch);
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_BEGIN_FOLLOWED);
    }
    if (!stele_replica_key_equal(&request->to, &quorum->self)) {
        answer->err = STELE_INVALID_VOTER_KEY;
    }
}

/* The first successor begins at once, those behind it the later the less they have (KIP-595). */
static int64_t succession_ms(const struct stele_quorum *quorum, const struct stele_voters *successors)
{
    int32_t at = -1;
    for (int32_t i = 0; i < successors->count; i++) {
        if (stele_replica_key_equal(&successors->keys[i], &quorum->self)) {
            at = i;
            break;
        }
    }
    int64_t max_ms = quorum->settings.election_backoff_max_ms;
    if (at <= 0) {
        return at == 0 ? 0 : max_ms;
    }
    return stele_min_i64(max_ms, (max_ms >> (successors->count - 1)) << (at - 1));
}

void stele_quorum__end_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                               const struct stele_quorum_request *request)
{
    struct stele_quorum_answer *answer = &update->answer;
    if (request->epoch < quorum->election.epoch) {
        answer->err = STELE_FENCED_LEADER_EPOCH;
        return;
    }
    if (!is_leader_possible(quorum, request)) {
        answer->err = STELE_INVALID_REQUEST;
        return;
    }
    if (request->epoch > quorum->election.epoch || quorum->election.leader_id == STELE_NO_NODE) {
        stele_quorum__follow(quorum, update, request->from.node_id, request->epoch);
    }
    if (quorum->has_leader_resigned) {
        return;
    }
    /* Pre-votes are granted from now on, or the successor's would be refused by all who heard the leader just now. */
    STELE_REACHED(quorum, STELE_QUORUM_REACHED_END_FOLLOWED);
    quorum->has_leader_resigned = true;
    quorum->has_heard_leader = false;
    if (quorum->role == STELE_QUORUM_FOLLOWER && stele_quorum__may_campaign(quorum)) {
        quorum->role_deadline_ms =
            stele_min_i64(quorum->role_deadline_ms, quorum->now_ms + succession_ms(quorum, &request->u.successors));
    }
}

void stele_quorum__closed(struct stele_quorum *quorum, int32_t node_id)
{
    if (quorum->fetch.is_in_flight && quorum->fetch.to == node_id) {
        stele_quorum__fetch_failed(quorum);
    }
    if (quorum->role == STELE_QUORUM_PROSPECTIVE || quorum->role == STELE_QUORUM_CANDIDATE) {
        int32_t at = stele_voters_find_node(stele_quorum_voters(quorum), node_id);
        if (at >= 0 && (quorum->granted_mask & UINT32_C(1) << at) == 0) {
            quorum->refused_mask |= UINT32_C(1) << at;
        }
    }
    if (quorum->role == STELE_QUORUM_FOLLOWER && node_id == quorum->election.leader_id && !quorum->is_suspecting) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_SUSPICION);
        quorum->is_suspecting = true;
        quorum->has_heard_leader = false;
        int64_t delay_ms = (int64_t)stele_quorum__draw(quorum, (uint64_t)quorum->settings.suspicion_delay_max_ms + 1);
        quorum->role_deadline_ms = stele_min_i64(quorum->role_deadline_ms, quorum->now_ms + delay_ms);
    }
}
