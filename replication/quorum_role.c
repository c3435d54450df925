/* Roles of the quorum's machine and the ways between them:
 *   UNATTACHED  -> PROSPECTIVE  election time over, voter            stele_quorum__prospective
 *   FOLLOWER    -> PROSPECTIVE  nothing heard, or suspicion, voter   stele_quorum__prospective
 *   CANDIDATE   -> PROSPECTIVE  lost, or its time over               stele_quorum__prospective
 *   RESIGNED    -> PROSPECTIVE  its time over, in the next epoch     stele_quorum__prospective
 *   PROSPECTIVE -> CANDIDATE    majority of pre-votes                stele_quorum__candidate
 *   PROSPECTIVE -> FOLLOWER     refused, leader known                round_lost
 *   PROSPECTIVE -> UNATTACHED   refused, no leader known             round_lost
 *   CANDIDATE   -> LEADER       majority of votes                    stele_quorum__lead
 *   LEADER      -> RESIGNED     asked, or out of touch, or removed   stele_quorum__resign
 *   any         -> UNATTACHED   newer epoch without leader           stele_quorum__unattached
 *   any         -> FOLLOWER     leader of this or a newer epoch      stele_quorum__follow
 *
 * 1. The vote and the leader of an epoch stay what they are until the epoch changes.
 * 2. RESIGNED is left in the same epoch by no way: its leader was this node. */
#include "replication/quorum_internal.h"

uint64_t stele_quorum__draw(struct stele_quorum *quorum, uint64_t bound)
{
    quorum->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = quorum->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % bound;
}

int32_t stele_quorum__majority(const struct stele_quorum *quorum)
{
    return stele_quorum_voters(quorum)->count / 2 + 1;
}

int64_t stele_quorum__election_deadline(struct stele_quorum *quorum)
{
    uint64_t timeout_ms = (uint64_t)quorum->settings.election_timeout_ms;
    return quorum->now_ms + (int64_t)(timeout_ms + stele_quorum__draw(quorum, timeout_ms));
}

void stele_quorum__fetch_reset(struct stele_quorum *quorum)
{
    quorum->fetch.is_in_flight = false;
    quorum->fetch.is_of_snapshot = false;
    quorum->fetch.retry_ms = quorum->now_ms;
    quorum->fetch.failures = 0;
    quorum->fetch.leader_high_watermark = -1;
}

static void leave_role(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->role == STELE_QUORUM_LEADER) {
        update->is_leadership_lost = STELE_GUARD(27);
        /* A change of the same step comes too late to be appended. */
        update->has_voters = false;
        stele_quorum__change_drop(quorum, update);
    }
}

static void enter_epoch(struct stele_quorum *quorum, int32_t epoch, int32_t leader_id)
{
    STELE_ASSERT(epoch > quorum->election.epoch);
    quorum->election =
        (struct stele_election_state){.epoch = epoch, .leader_id = leader_id, .voted = {.node_id = STELE_NO_NODE}};
    quorum->has_heard_leader = false;
    quorum->has_leader_resigned = false;
    quorum->is_suspecting = false;
}

void stele_quorum__unattached(struct stele_quorum *quorum, struct stele_quorum_update *update, int32_t epoch)
{
    /* Who waits for an election already waits no longer for it, or one that keeps asking could hold up all others. */
    bool is_waiting = quorum->role != STELE_QUORUM_LEADER && quorum->role != STELE_QUORUM_FOLLOWER;
    leave_role(quorum, update);
    if (epoch > quorum->election.epoch) {
        enter_epoch(quorum, epoch, STELE_NO_NODE);
    }
    quorum->role = STELE_QUORUM_UNATTACHED;
    if (!is_waiting) {
        quorum->role_deadline_ms = stele_quorum__election_deadline(quorum);
    }
    stele_quorum__fetch_reset(quorum);
}

void stele_quorum__follow(struct stele_quorum *quorum, struct stele_quorum_update *update, int32_t leader_id,
                          int32_t epoch)
{
    STELE_ASSERT(leader_id >= 0);
    STELE_ASSERT(leader_id != quorum->self.node_id);
    leave_role(quorum, update);
    if (epoch > quorum->election.epoch) {
        enter_epoch(quorum, epoch, leader_id);
    }
    STELE_ASSERT(quorum->election.leader_id == STELE_NO_NODE || quorum->election.leader_id == leader_id);
    quorum->election.leader_id = leader_id;
    quorum->role = STELE_QUORUM_FOLLOWER;
    quorum->has_heard_leader = false;
    quorum->has_leader_resigned = false;
    quorum->is_suspecting = false;
    quorum->lost_rounds = 0;
    quorum->role_deadline_ms = quorum->now_ms + quorum->settings.fetch_timeout_ms;
    stele_quorum__fetch_reset(quorum);
}

static void round_begin(struct stele_quorum *quorum)
{
    int32_t self = stele_voters_find_node(stele_quorum_voters(quorum), quorum->self.node_id);
    bool is_voter = stele_quorum_is_voter(quorum);
    if (!is_voter) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CAMPAIGN_OF_REMOVED);
    }
    quorum->granted_mask = is_voter ? UINT32_C(1) << self : 0;
    quorum->refused_mask = 0;
    quorum->round_generation = ++quorum->generation;
    quorum->is_round_unsent = true;
    quorum->is_round_lost = false;
    quorum->role_deadline_ms = stele_quorum__election_deadline(quorum);
}

void stele_quorum__prospective(struct stele_quorum *quorum)
{
    STELE_ASSERT(stele_quorum__may_campaign(quorum));
    STELE_ASSERT(quorum->role != STELE_QUORUM_LEADER);
    if (quorum->role == STELE_QUORUM_RESIGNED) {
        enter_epoch(quorum, quorum->election.epoch + 1, STELE_NO_NODE);
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_RESIGNED_RETURNS);
    }
    /* A fetch that is on its way stays so: its answer may yet show that the leader lives. */
    if (quorum->role != STELE_QUORUM_FOLLOWER && quorum->role != STELE_QUORUM_UNATTACHED) {
        stele_quorum__fetch_reset(quorum);
    }
    quorum->role = STELE_QUORUM_PROSPECTIVE;
    quorum->has_heard_leader = false;
    round_begin(quorum);
}

void stele_quorum__candidate(struct stele_quorum *quorum, int32_t epoch)
{
    STELE_ASSERT(stele_quorum__may_campaign(quorum));
    if (epoch > quorum->election.epoch) {
        enter_epoch(quorum, epoch, STELE_NO_NODE);
        quorum->election.voted = quorum->self;
    }
    STELE_ASSERT(stele_replica_key_equal(&quorum->election.voted, &quorum->self));
    quorum->role = STELE_QUORUM_CANDIDATE;
    stele_quorum__fetch_reset(quorum);
    round_begin(quorum);
}

void stele_quorum__lead(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    STELE_ASSERT(update->log == STELE_QUORUM_LOG_NONE);
    STELE_ASSERT(!quorum->fetch.is_installing);
    STELE_REACHED(quorum, STELE_QUORUM_REACHED_LEAD);
    quorum->role = STELE_QUORUM_LEADER;
    quorum->election.leader_id = quorum->self.node_id;
    quorum->is_round_unsent = false;
    quorum->lost_rounds = 0;
    quorum->epoch_start = quorum->appended_offset;
    quorum->is_epoch_committed = false;
    quorum->begin_ms = quorum->now_ms;
    quorum->change.is_pending = false;
    stele_quorum__progress_reset(quorum);
    stele_quorum__fetch_reset(quorum);
    update->log = STELE_QUORUM_LOG_LEAD;
    /* The set that the cluster was formed with gets into the log with its first leader. */
    if (quorum->history[quorum->history_count - 1].offset < 0) {
        update->has_voters = true;
        update->voters = *stele_quorum_voters(quorum);
    }
    if (stele_quorum_voters(quorum)->count == 1) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_LEAD_ALONE);
    }
}

void stele_quorum__resign(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    stele_quorum__successors(quorum, &quorum->successors);
    leave_role(quorum, update);
    quorum->role = STELE_QUORUM_RESIGNED;
    quorum->end_acked_mask = 0;
    quorum->end_retry_ms = quorum->now_ms;
    quorum->role_deadline_ms = stele_quorum__election_deadline(quorum);
}

/* Kafka's backoff after the n-th lost election: 100 ms times a number drawn below 2 << (n - 1), bounded. */
static int64_t backoff_ms(struct stele_quorum *quorum)
{
    int32_t shift = quorum->lost_rounds < 5 ? quorum->lost_rounds : 5;
    int64_t drawn_ms = (int64_t)stele_quorum__draw(quorum, UINT64_C(100) * (UINT64_C(2) << shift)) + 1;
    quorum->lost_rounds++;
    return stele_min_i64(drawn_ms, quorum->settings.election_backoff_max_ms);
}

/* Refused by so many that no majority is left, or out of time. */
static void round_lost(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->role == STELE_QUORUM_CANDIDATE) {
        /* A late vote may still win until the backoff is over. */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_ELECTION_LOST);
        quorum->is_round_lost = true;
        quorum->role_deadline_ms = stele_min_i64(quorum->role_deadline_ms, quorum->now_ms + backoff_ms(quorum));
        return;
    }
    STELE_ASSERT(quorum->role == STELE_QUORUM_PROSPECTIVE);
    if (quorum->election.leader_id != STELE_NO_NODE) {
        /* It does not hear its leader yet, so it grants the pre-votes of others and asks again soon. */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_PRE_VOTE_LOST_TO_LEADER);
        quorum->role = STELE_QUORUM_FOLLOWER;
        quorum->role_deadline_ms = quorum->now_ms + backoff_ms(quorum);
        return;
    }
    stele_quorum__unattached(quorum, update, quorum->election.epoch);
    quorum->role_deadline_ms = stele_quorum__election_deadline(quorum);
}

void stele_quorum__round_over(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->role == STELE_QUORUM_CANDIDATE) {
        stele_quorum__prospective(quorum);
    } else {
        round_lost(quorum, update);
    }
}

static int32_t bit_count(uint32_t mask)
{
    int32_t count = 0;
    for (; mask != 0; mask &= mask - 1) {
        count++;
    }
    return count;
}

static bool is_round_won(const struct stele_quorum *quorum)
{
    return bit_count(quorum->granted_mask) >= stele_quorum__majority(quorum);
}

void stele_quorum__round_count(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->role == STELE_QUORUM_PROSPECTIVE && is_round_won(quorum) && quorum->election.epoch < INT32_MAX) {
        stele_quorum__candidate(quorum, quorum->election.epoch + 1);
    }
    if (quorum->role == STELE_QUORUM_CANDIDATE && is_round_won(quorum)) {
        stele_quorum__lead(quorum, update);
    }
    bool is_open =
        quorum->role == STELE_QUORUM_PROSPECTIVE || (quorum->role == STELE_QUORUM_CANDIDATE && !quorum->is_round_lost);
    if (is_open &&
        stele_quorum_voters(quorum)->count - bit_count(quorum->refused_mask) < stele_quorum__majority(quorum)) {
        round_lost(quorum, update);
    }
}

bool stele_quorum__adopt(struct stele_quorum *quorum, struct stele_quorum_update *update, int32_t epoch,
                         int32_t leader_id)
{
    bool is_leader_known = leader_id >= 0 && leader_id != quorum->self.node_id;
    if (epoch > quorum->election.epoch) {
        if (is_leader_known) {
            stele_quorum__follow(quorum, update, leader_id, epoch);
        } else {
            stele_quorum__unattached(quorum, update, epoch);
        }
        return true;
    }
    if (epoch == quorum->election.epoch && is_leader_known && quorum->election.leader_id == STELE_NO_NODE) {
        stele_quorum__follow(quorum, update, leader_id, epoch);
        return true;
    }
    return false;
}
