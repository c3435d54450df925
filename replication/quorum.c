#include "replication/quorum_internal.h"

struct stele_quorum_settings stele_quorum_settings_default(void)
{
    return (struct stele_quorum_settings){.election_timeout_ms = 1000,
                                          .fetch_timeout_ms = 2000,
                                          .election_backoff_max_ms = 1000,
                                          .request_timeout_ms = 2000,
                                          .retry_backoff_ms = 20,
                                          .retry_backoff_max_ms = 250,
                                          .suspicion_delay_max_ms = 50,
                                          .observer_expiry_ms = 300000,
                                          .catch_up_ms = 10000};
}

struct stele_quorum_request *stele_quorum__send(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                                enum stele_quorum_message kind, const struct stele_replica_key *to)
{
    STELE_ASSERT(update->send_count < STELE_QUORUM_SENDS_MAX);
    struct stele_quorum_request *request = &update->sends[update->send_count++];
    *request = (struct stele_quorum_request){.kind = kind,
                                             .cluster_id = quorum->cluster_id,
                                             .from = quorum->self,
                                             .to = *to,
                                             .epoch = quorum->election.epoch};
    return request;
}

/* One request to each other voter: the round's, the leader's begin, or its end. */
static void send_votes(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    quorum->is_round_unsent = false;
    for (int32_t i = 0; i < voters->count; i++) {
        if (voters->keys[i].node_id == quorum->self.node_id) {
            continue;
        }
        struct stele_quorum_request *request = stele_quorum__send(quorum, update, STELE_QUORUM_VOTE, &voters->keys[i]);
        request->generation = quorum->round_generation;
        request->u.vote.last_epoch = quorum->last_epoch;
        request->u.vote.end_offset = quorum->appended_offset;
        request->u.vote.is_pre_vote = quorum->role == STELE_QUORUM_PROSPECTIVE;
    }
}

/* Voters do not know of a leader that they did not vote for; told until they fetch. */
static void send_begin(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int64_t interval_ms = quorum->settings.fetch_timeout_ms / 2;
    quorum->begin_ms = quorum->now_ms + interval_ms;
    for (int32_t i = 0; i < voters->count; i++) {
        const struct stele_quorum_progress *progress = &quorum->voters[i];
        bool is_fetching = progress->synced_offset >= 0 && quorum->now_ms - progress->contact_ms < interval_ms;
        if (voters->keys[i].node_id != quorum->self.node_id && !is_fetching) {
            (void)stele_quorum__send(quorum, update, STELE_QUORUM_BEGIN, &voters->keys[i]);
        }
    }
}

static void send_end(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    bool has_sent = false;
    for (int32_t i = 0; i < quorum->successors.count; i++) {
        if ((quorum->end_acked_mask & UINT32_C(1) << i) == 0) {
            struct stele_quorum_request *request =
                stele_quorum__send(quorum, update, STELE_QUORUM_END, &quorum->successors.keys[i]);
            request->u.successors = quorum->successors;
            has_sent = true;
        }
    }
    quorum->end_retry_ms = has_sent ? quorum->now_ms + quorum->settings.request_timeout_ms / 4 : INT64_MAX;
}

static void end_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                       const struct stele_quorum_answer *answer)
{
    (void)stele_quorum__adopt(quorum, update, answer->epoch, answer->leader_id);
    if (quorum->role == STELE_QUORUM_RESIGNED && answer->err == STELE_OK && answer->epoch == quorum->election.epoch) {
        int32_t at = stele_voters_find_node(&quorum->successors, answer->from);
        if (at >= 0) {
            quorum->end_acked_mask |= UINT32_C(1) << at;
        }
    }
}

static void answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                   const struct stele_quorum_event *event)
{
    const struct stele_quorum_answer *message = &event->u.answer.answer;
    if (message->epoch < 0 || message->epoch == INT32_MAX) {
        return;
    }
    switch (message->kind) {
    case STELE_QUORUM_VOTE:
        stele_quorum__vote_answer(quorum, update, message);
        return;
    case STELE_QUORUM_BEGIN:
        (void)stele_quorum__adopt(quorum, update, message->epoch, message->leader_id);
        return;
    case STELE_QUORUM_END:
        end_answer(quorum, update, message);
        return;
    case STELE_QUORUM_FETCH:
        stele_quorum__fetch_answer(quorum, update, event);
        return;
    case STELE_QUORUM_FETCH_SNAPSHOT:
        stele_quorum__snapshot_answer(quorum, update, message);
        return;
    }
}

static void answer_head(const struct stele_quorum *quorum, struct stele_quorum_answer *answer)
{
    answer->from = quorum->self.node_id;
    answer->epoch = quorum->election.epoch;
    answer->leader_id = quorum->role == STELE_QUORUM_RESIGNED ? STELE_NO_NODE : quorum->election.leader_id;
}

static void request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                    const struct stele_quorum_event *event)
{
    const struct stele_quorum_request *message = &event->u.request.request;
    struct stele_quorum_answer *out = &update->answer;
    bool is_fetch = message->kind == STELE_QUORUM_FETCH || message->kind == STELE_QUORUM_FETCH_SNAPSHOT;
    update->has_answer = true;
    *out = (struct stele_quorum_answer){.kind = message->kind, .generation = message->generation};
    answer_head(quorum, out);
    if (!stele_uuid_equal(&message->cluster_id, &quorum->cluster_id)) {
        out->err = STELE_INCONSISTENT_CLUSTER_ID;
        return;
    }
    if (quorum->is_stopping) {
        out->err = STELE_BROKER_NOT_AVAILABLE;
        return;
    }
    if (message->epoch < 0 || message->epoch == INT32_MAX || (!is_fetch && message->from.node_id < 0)) {
        out->err = STELE_INVALID_REQUEST;
        return;
    }
    switch (message->kind) {
    case STELE_QUORUM_VOTE:
        stele_quorum__vote_request(quorum, update, message);
        break;
    case STELE_QUORUM_BEGIN:
        stele_quorum__begin_request(quorum, update, message);
        break;
    case STELE_QUORUM_END:
        stele_quorum__end_request(quorum, update, message);
        break;
    case STELE_QUORUM_FETCH:
    case STELE_QUORUM_FETCH_SNAPSHOT:
        stele_quorum__fetch_request(quorum, update, event);
        break;
    }
    answer_head(quorum, out);
}

static void event_dispatch(struct stele_quorum *quorum, struct stele_quorum_update *update,
                           const struct stele_quorum_event *event)
{
    switch (event->kind) {
    case STELE_QUORUM_TIMER:
        return;
    case STELE_QUORUM_REQUEST:
        request(quorum, update, event);
        return;
    case STELE_QUORUM_ANSWER:
        answer(quorum, update, event);
        return;
    case STELE_QUORUM_FETCH_UNUSABLE:
        quorum->fetch.awaited_end = -1;
        quorum->fetch.is_installing = false;
        stele_quorum__fetch_failed(quorum);
        return;
    case STELE_QUORUM_CLOSED:
        stele_quorum__closed(quorum, event->u.node_id);
        return;
    case STELE_QUORUM_APPENDED:
        stele_quorum__appended(quorum, update, event);
        return;
    case STELE_QUORUM_TRUNCATED:
        stele_quorum__truncated(quorum, event);
        return;
    case STELE_QUORUM_REPLACED:
        stele_quorum__replaced(quorum, update, event);
        return;
    case STELE_QUORUM_SYNCED:
        STELE_ASSERT(event->u.synced_offset <= quorum->appended_offset);
        quorum->synced_offset = stele_max_i64(quorum->synced_offset, event->u.synced_offset);
        if (quorum->role == STELE_QUORUM_LEADER) {
            stele_quorum__commit(quorum, update);
        }
        return;
    case STELE_QUORUM_CHANGE:
        stele_quorum__change(quorum, update, event);
        return;
    case STELE_QUORUM_STOP:
        quorum->is_stopping = true;
        stele_quorum__fetch_reset(quorum);
        if (quorum->role == STELE_QUORUM_LEADER) {
            stele_quorum__resign(quorum, update);
        }
        return;
    case STELE_QUORUM_RESIGN:
        if (quorum->role == STELE_QUORUM_LEADER) {
            stele_quorum__resign(quorum, update);
        }
        return;
    }
}

static void role_timer(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    switch (quorum->role) {
    case STELE_QUORUM_UNATTACHED:
    case STELE_QUORUM_FOLLOWER:
        stele_quorum__prospective(quorum);
        return;
    case STELE_QUORUM_PROSPECTIVE:
    case STELE_QUORUM_CANDIDATE:
        stele_quorum__round_over(quorum, update);
        return;
    case STELE_QUORUM_RESIGNED:
        if (stele_quorum__may_campaign(quorum)) {
            stele_quorum__prospective(quorum);
        } else {
            stele_quorum__unattached(quorum, update, quorum->election.epoch + 1);
        }
        return;
    case STELE_QUORUM_LEADER:
        return;
    }
}

/* The role's timer is of no concern to an observer, unless it led; nor to a node that stops or whose log is about to be
 * changed. */
static bool has_role_timer(const struct stele_quorum *quorum)
{
    bool is_last_epoch = quorum->election.epoch == INT32_MAX;
    bool is_log_changing = quorum->fetch.is_installing || quorum->fetch.awaited_end >= 0;
    if (quorum->role == STELE_QUORUM_LEADER || quorum->is_stopping || is_log_changing || is_last_epoch) {
        return false;
    }
    return stele_quorum__may_campaign(quorum) || quorum->role == STELE_QUORUM_RESIGNED;
}

static void timers(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->role == STELE_QUORUM_LEADER) {
        stele_quorum__change_expire(quorum, update);
        if (quorum->now_ms >= stele_quorum__check_quorum_ms(quorum)) {
            STELE_REACHED(quorum, STELE_QUORUM_REACHED_CHECK_QUORUM);
            stele_quorum__resign(quorum, update);
        }
        return;
    }
    if (quorum->fetch.is_in_flight && quorum->now_ms >= quorum->fetch.expires_ms) {
        stele_quorum__fetch_failed(quorum);
    }
    if (has_role_timer(quorum) && quorum->now_ms >= quorum->role_deadline_ms) {
        role_timer(quorum, update);
    }
}

static int64_t deadline(const struct stele_quorum *quorum)
{
    if (quorum->role == STELE_QUORUM_LEADER) {
        int64_t at = stele_min_i64(quorum->begin_ms, stele_quorum__check_quorum_ms(quorum));
        bool is_change_awaited = quorum->change.is_pending && !quorum->change.is_answered;
        return is_change_awaited ? stele_min_i64(at, quorum->change.deadline_ms) : at;
    }
    int64_t at = has_role_timer(quorum) ? quorum->role_deadline_ms : INT64_MAX;
    if (quorum->role == STELE_QUORUM_RESIGNED) {
        at = stele_min_i64(at, quorum->end_retry_ms);
    }
    if (quorum->fetch.is_in_flight) {
        at = stele_min_i64(at, quorum->fetch.expires_ms);
    } else if (stele_quorum__may_fetch(quorum)) {
        at = stele_min_i64(at, quorum->fetch.retry_ms);
    }
    return at;
}

/* After the event: what time has brought, what is to be sent, what has to be on the disk before. */
static void settle(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    stele_quorum__round_count(quorum, update);
    timers(quorum, update);
    stele_quorum__round_count(quorum, update);
    bool is_round = quorum->role == STELE_QUORUM_PROSPECTIVE || quorum->role == STELE_QUORUM_CANDIDATE;
    if (is_round && quorum->is_round_unsent) {
        send_votes(quorum, update);
    }
    if (quorum->role == STELE_QUORUM_LEADER && quorum->now_ms >= quorum->begin_ms) {
        send_begin(quorum, update);
    }
    if (quorum->role == STELE_QUORUM_RESIGNED && quorum->now_ms >= quorum->end_retry_ms) {
        send_end(quorum, update);
    }
    stele_quorum__fetch_send(quorum, update);

    const struct stele_election_state *now = &quorum->election, *disk = &quorum->persisted;
    bool has_voted = now->voted.node_id != disk->voted.node_id ||
                     !stele_uuid_equal(&now->voted.directory_id, &disk->voted.directory_id);
    update->has_persist =
        now->epoch != disk->epoch || now->leader_id != disk->leader_id || (has_voted && STELE_GUARD(16));
    if (update->has_persist) {
        update->persist = quorum->election;
        quorum->persisted = quorum->election;
    }
    update->deadline_ms = deadline(quorum);
    stele_quorum_check(quorum);
}

static void update_clear(struct stele_quorum_update *update)
{
    /* The requests are written whole when they are sent; nothing else is as large. */
    update->has_persist = false;
    update->log = STELE_QUORUM_LOG_NONE;
    update->truncate_to = -1;
    update->has_voters = false;
    update->is_leadership_lost = false;
    update->send_count = 0;
    update->has_answer = false;
    update->has_change_done = false;
    update->has_change_refused = false;
    update->change_err = STELE_OK;
    update->has_role_changed = false;
    update->has_high_watermark_moved = false;
    update->fatal = STELE_OK;
    update->deadline_ms = INT64_MAX;
}

void stele_quorum_step(struct stele_quorum *quorum, const struct stele_quorum_event *event,
                       struct stele_quorum_update *out_update)
{
    enum stele_quorum_role role = quorum->role;
    int32_t epoch = quorum->election.epoch, leader_id = quorum->election.leader_id;
    update_clear(out_update);
    quorum->now_ms = stele_max_i64(quorum->now_ms, event->now_ms);
    quorum->random = event->random;
    event_dispatch(quorum, out_update, event);
    settle(quorum, out_update);
    out_update->has_role_changed =
        role != quorum->role || epoch != quorum->election.epoch || leader_id != quorum->election.leader_id;
}

static void start_role(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    const struct stele_election_state *election = &quorum->election;
    bool is_voter = stele_quorum_is_voter(quorum);
    if (election->leader_id == quorum->self.node_id && !STELE_GUARD(17)) {
        stele_quorum__lead(quorum, update);
    } else if (is_voter && stele_quorum_voters(quorum)->count == 1 && election->epoch < INT32_MAX) {
        /* Nobody to ask, nobody to disturb. */
        stele_quorum__candidate(quorum, election->epoch + 1);
    } else if (election->leader_id == quorum->self.node_id) {
        /* What it appended last may be gone; with new records at the same offsets in the same epoch others could not
         * see that (KAFKA-10527). */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_RESIGNED_AT_START);
        stele_quorum__resign(quorum, update);
    } else if (stele_quorum__may_campaign(quorum) && stele_replica_key_equal(&election->voted, &quorum->self)) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CANDIDATE_AT_START);
        stele_quorum__candidate(quorum, election->epoch);
    } else if (election->leader_id != STELE_NO_NODE) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_FOLLOWER_AT_START);
        stele_quorum__follow(quorum, update, election->leader_id, election->epoch);
    } else {
        stele_quorum__unattached(quorum, update, election->epoch);
        quorum->role_deadline_ms = stele_quorum__election_deadline(quorum);
    }
}

void stele_quorum_start(struct stele_quorum *quorum, const struct stele_quorum_start *start,
                        struct stele_quorum_update *out_update)
{
    static const struct stele_election_state none = {.leader_id = STELE_NO_NODE, .voted = {.node_id = STELE_NO_NODE}};
    *quorum = (struct stele_quorum){.settings = start->settings,
                                    .cluster_id = start->cluster_id,
                                    .self = start->self,
                                    .peers = start->peers,
                                    .role = STELE_QUORUM_UNATTACHED,
                                    .appended_offset = start->end_offset,
                                    .synced_offset = start->end_offset,
                                    .high_watermark = start->high_watermark,
                                    .last_epoch = start->last_epoch,
                                    .begin_ms = INT64_MAX,
                                    .end_retry_ms = INT64_MAX,
                                    .fetch = {.awaited_end = -1, .leader_high_watermark = -1},
                                    .now_ms = start->now_ms,
                                    .random = start->random};
    update_clear(out_update);
    /* Answers to an earlier life must not be taken for answers to this one. */
    quorum->generation = stele_quorum__draw(quorum, UINT64_MAX) >> 1;
    quorum->persisted = start->has_election ? start->election : none;
    quorum->election = quorum->persisted;
    if (start->last_epoch > quorum->election.epoch) {
        /* The file is lost or older than the log. */
        quorum->election = none;
        quorum->election.epoch = start->last_epoch;
    }
    struct stele_voters_at nobody = {.offset = -2};
    /* Below a set that came with the log there may be none; the log may yet be cut off before it. */
    if (start->history_count == 0 || start->history[0].offset >= 0) {
        stele_quorum__history_push(quorum, &nobody);
    }
    for (int32_t i = 0; i < start->history_count; i++) {
        stele_quorum__history_push(quorum, &start->history[i]);
    }
    start_role(quorum, out_update);
    settle(quorum, out_update);
    out_update->has_role_changed = true;
}

void stele_quorum_check(const struct stele_quorum *quorum)
{
    bool has_votes = quorum->role == STELE_QUORUM_PROSPECTIVE || quorum->role == STELE_QUORUM_CANDIDATE;
    bool is_own = quorum->election.leader_id == quorum->self.node_id;
    STELE_ASSERT(quorum->history_count > 0);
    STELE_ASSERT(quorum->synced_offset <= quorum->appended_offset);
    STELE_ASSERT(quorum->high_watermark <= quorum->appended_offset);
    STELE_ASSERT(quorum->last_epoch <= quorum->election.epoch);
    STELE_ASSERT(!has_votes || stele_quorum__may_campaign(quorum));
    STELE_ASSERT(quorum->role != STELE_QUORUM_UNATTACHED || quorum->election.leader_id == STELE_NO_NODE);
    STELE_ASSERT((quorum->role == STELE_QUORUM_LEADER || quorum->role == STELE_QUORUM_RESIGNED) == is_own);
    STELE_ASSERT(quorum->role != STELE_QUORUM_FOLLOWER || quorum->election.leader_id != STELE_NO_NODE);
    STELE_ASSERT(quorum->role == STELE_QUORUM_LEADER || !quorum->change.is_pending);
}
