/* Whom to fetch from, what to make of the answers, and what the owner's log tells.
 *
 * 1. At most one fetch is on its way, and none while the log is being changed or holds what is not synced.
 * 2. Only the leader's answers without an error are contact; records, divergence and snapshots alike, so that a
 *    follower whose log does not fit starts no election while its leader lives.
 * 3. While a snapshot is being installed nothing is fetched and no election begins: a leader's log is never replaced.
 */
#include "replication/quorum_internal.h"

bool stele_quorum__may_fetch(const struct stele_quorum *quorum)
{
    bool is_role = quorum->role == STELE_QUORUM_FOLLOWER || quorum->role == STELE_QUORUM_UNATTACHED ||
                   quorum->role == STELE_QUORUM_PROSPECTIVE;
    bool is_log_steady = quorum->fetch.awaited_end < 0 && !quorum->fetch.is_installing;
    bool is_log_synced = quorum->synced_offset == quorum->appended_offset || !STELE_GUARD(21);
    return is_role && is_log_steady && is_log_synced && !quorum->is_stopping && !quorum->fetch.is_in_flight;
}

/* Some voter or listed peer, other than this node and the leader that fails; one that resigned may lead again by now.
 * NO_NODE: there is none. */
static int32_t draw_peer(struct stele_quorum *quorum)
{
    struct stele_node_set set = quorum->peers;
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    for (int32_t i = 0; i < voters->count; i++) {
        /* A full set has nodes enough to ask. */
        (void)!stele_node_set_add(&set, voters->keys[i].node_id);
    }
    stele_node_set_remove(&set, quorum->self.node_id);
    if (set.count > 1 && !quorum->has_leader_resigned) {
        stele_node_set_remove(&set, quorum->election.leader_id);
    }
    if (set.count == 0) {
        return STELE_NO_NODE;
    }
    return set.ids[stele_quorum__draw(quorum, (uint64_t)set.count)];
}

/* The leader, and every other time that fails somebody who may know of a newer one. */
static int32_t fetch_target(struct stele_quorum *quorum)
{
    bool is_leader_asked = quorum->role != STELE_QUORUM_UNATTACHED && quorum->election.leader_id != STELE_NO_NODE &&
                           !quorum->has_leader_resigned && quorum->fetch.failures % 2 == 0;
    if (is_leader_asked || quorum->fetch.is_of_snapshot) {
        return quorum->election.leader_id;
    }
    return draw_peer(quorum);
}

void stele_quorum__fetch_send(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (!stele_quorum__may_fetch(quorum) || quorum->now_ms < quorum->fetch.retry_ms) {
        return;
    }
    struct stele_replica_key to = {.node_id = fetch_target(quorum)};
    if (to.node_id == STELE_NO_NODE) {
        quorum->fetch.retry_ms = quorum->now_ms + quorum->settings.retry_backoff_max_ms;
        return;
    }
    struct stele_quorum_request *request;
    if (quorum->fetch.is_of_snapshot) {
        request = stele_quorum__send(quorum, update, STELE_QUORUM_FETCH_SNAPSHOT, &to);
        request->u.snapshot.id = quorum->fetch.snapshot;
        request->u.snapshot.position = quorum->fetch.position;
    } else {
        request = stele_quorum__send(quorum, update, STELE_QUORUM_FETCH, &to);
        request->u.fetch.offset = quorum->appended_offset;
        request->u.fetch.last_epoch = quorum->last_epoch;
    }
    request->generation = ++quorum->generation;
    quorum->fetch.is_in_flight = true;
    quorum->fetch.generation = request->generation;
    quorum->fetch.to = to.node_id;
    quorum->fetch.expires_ms = quorum->now_ms + quorum->settings.request_timeout_ms;
}

void stele_quorum__fetch_failed(struct stele_quorum *quorum)
{
    int32_t shift = quorum->fetch.failures < 8 ? quorum->fetch.failures : 8;
    int64_t backoff_ms =
        stele_min_i64((int64_t)quorum->settings.retry_backoff_ms << shift, quorum->settings.retry_backoff_max_ms);
    quorum->fetch.is_in_flight = false;
    quorum->fetch.retry_ms = quorum->now_ms + backoff_ms;
    quorum->fetch.failures = quorum->fetch.failures < 1000 ? quorum->fetch.failures + 1 : 0;
    if (quorum->fetch.failures >= 3) {
        quorum->fetch.is_of_snapshot = false;
    }
}

/* The leader said that it leads no more, by its end or because it started again. */
static void leader_resigned(struct stele_quorum *quorum)
{
    uint64_t delay_max_ms = (uint64_t)quorum->settings.suspicion_delay_max_ms;
    quorum->has_leader_resigned = true;
    quorum->has_heard_leader = false;
    quorum->role_deadline_ms =
        stele_min_i64(quorum->role_deadline_ms, quorum->now_ms + (int64_t)stele_quorum__draw(quorum, delay_max_ms + 1));
}

/* Is it the answer to the fetch that is on its way, from the leader, without an error? Everything else is dealt with
 * here. */
static bool is_served(struct stele_quorum *quorum, struct stele_quorum_update *update,
                      const struct stele_quorum_answer *answer)
{
    if (!quorum->fetch.is_in_flight || answer->generation != quorum->fetch.generation) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_STALE_ANSWER);
        return false;
    }
    quorum->fetch.is_in_flight = false;
    bool is_adopted = stele_quorum__adopt(quorum, update, answer->epoch, answer->leader_id);
    bool is_leader = quorum->election.leader_id != STELE_NO_NODE && answer->from == quorum->election.leader_id &&
                     answer->epoch == quorum->election.epoch;
    if (is_leader && answer->err == STELE_OK) {
        return true;
    }
    if (is_leader && answer->err == STELE_INVALID_VOTER_KEY) {
        /* In this life nothing that was acknowledged was cut: this disk is not what it was. */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_TOLD_TO_END);
        update->fatal = STELE_INVALID_VOTER_KEY;
        return false;
    }
    if (is_leader && answer->err == STELE_NOT_LEADER_OR_FOLLOWER && quorum->role == STELE_QUORUM_FOLLOWER &&
        !quorum->has_leader_resigned) {
        leader_resigned(quorum);
    }
    if (!is_adopted) {
        stele_quorum__fetch_failed(quorum);
    }
    return false;
}

/* The leader lives and serves. */
static void contact(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->role != STELE_QUORUM_FOLLOWER) {
        stele_quorum__follow(quorum, update, quorum->election.leader_id, quorum->election.epoch);
    }
    if (quorum->is_suspecting) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_SUSPICION_CLEARED);
    }
    quorum->fetch.retry_ms = quorum->now_ms;
    quorum->fetch.failures = 0;
    if (quorum->has_leader_resigned) {
        return;
    }
    quorum->has_heard_leader = true;
    quorum->is_suspecting = false;
    quorum->lost_rounds = 0;
    quorum->role_deadline_ms = quorum->now_ms + quorum->settings.fetch_timeout_ms;
}

static void follow_high_watermark(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    int64_t offset = stele_min_i64(quorum->fetch.leader_high_watermark, quorum->appended_offset);
    if (offset > quorum->high_watermark) {
        quorum->high_watermark = offset;
        update->has_high_watermark_moved = true;
    }
}

/* To the point up to which the own log and the leader's may be the same (KIP-101, KIP-279). */
static void truncate_by(struct stele_quorum *quorum, struct stele_quorum_update *update,
                        const struct stele_quorum_event *event)
{
    const struct stele_epoch_end *theirs = &event->u.answer.answer.u.fetch.diverging;
    const struct stele_epoch_end *own = &event->u.answer.epoch_end;
    int64_t to = quorum->appended_offset;
    if (theirs->epoch < 0 || theirs->end_offset < 0) {
        stele_quorum__fetch_failed(quorum);
        return;
    }
    if (own->epoch < 0 || own->epoch == theirs->epoch) {
        to = stele_min_i64(to, theirs->end_offset);
    }
    if (own->epoch >= 0) {
        to = stele_min_i64(to, own->end_offset);
    }
    if (to >= quorum->appended_offset) {
        stele_quorum__fetch_failed(quorum);
        return;
    }
    if (to < quorum->high_watermark) {
        update->fatal = STELE_CORRUPT;
        return;
    }
    STELE_REACHED(quorum, STELE_QUORUM_REACHED_TRUNCATE);
    update->log = STELE_QUORUM_LOG_TRUNCATE;
    update->truncate_to = to;
    quorum->fetch.awaited_end = to;
}

void stele_quorum__fetch_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                const struct stele_quorum_event *event)
{
    const struct stele_quorum_answer *answer = &event->u.answer.answer;
    if (!is_served(quorum, update, answer)) {
        return;
    }
    contact(quorum, update);
    switch (answer->u.fetch.result) {
    case STELE_QUORUM_FETCH_VALID:
        quorum->fetch.leader_high_watermark = answer->u.fetch.high_watermark;
        if (event->u.answer.records_end > quorum->appended_offset) {
            update->log = STELE_QUORUM_LOG_APPEND;
            quorum->fetch.awaited_end = event->u.answer.records_end;
        } else {
            follow_high_watermark(quorum, update);
        }
        return;
    case STELE_QUORUM_FETCH_DIVERGING:
        truncate_by(quorum, update, event);
        return;
    case STELE_QUORUM_FETCH_OF_SNAPSHOT:
        if (answer->u.fetch.snapshot.end_offset <= 0 || answer->u.fetch.snapshot.epoch > quorum->election.epoch ||
            answer->u.fetch.snapshot.end_offset < quorum->high_watermark) {
            stele_quorum__fetch_failed(quorum);
            return;
        }
        quorum->fetch.is_of_snapshot = true;
        quorum->fetch.snapshot = answer->u.fetch.snapshot;
        quorum->fetch.position = 0;
        return;
    }
    /* A result that no version knows. */
    stele_quorum__fetch_failed(quorum);
}

void stele_quorum__snapshot_answer(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                   const struct stele_quorum_answer *answer)
{
    if (!is_served(quorum, update, answer)) {
        if (answer->err == STELE_SNAPSHOT_NOT_FOUND || answer->err == STELE_POSITION_OUT_OF_RANGE) {
            /* Deleted meanwhile: the next fetch is told of a newer one. */
            STELE_REACHED(quorum, STELE_QUORUM_REACHED_SNAPSHOT_GONE);
            quorum->fetch.is_of_snapshot = false;
        }
        return;
    }
    contact(quorum, update);
    int64_t left = answer->u.snapshot.size_bytes - quorum->fetch.position;
    bool is_chunk = answer->u.snapshot.position == quorum->fetch.position && answer->u.snapshot.chunk_bytes > 0 &&
                    answer->u.snapshot.chunk_bytes <= left &&
                    answer->u.snapshot.id.end_offset == quorum->fetch.snapshot.end_offset &&
                    answer->u.snapshot.id.epoch == quorum->fetch.snapshot.epoch;
    if (!quorum->fetch.is_of_snapshot || !is_chunk) {
        stele_quorum__fetch_failed(quorum);
        quorum->fetch.is_of_snapshot = false;
        return;
    }
    quorum->fetch.position += answer->u.snapshot.chunk_bytes;
    update->log = STELE_QUORUM_LOG_SNAPSHOT_WRITE;
    if (answer->u.snapshot.chunk_bytes == left) {
        update->log = STELE_QUORUM_LOG_SNAPSHOT_INSTALL;
        quorum->fetch.is_of_snapshot = false;
        quorum->fetch.is_installing = true;
    }
}

void stele_quorum__appended(struct stele_quorum *quorum, struct stele_quorum_update *update,
                            const struct stele_quorum_event *event)
{
    STELE_ASSERT(event->u.appended.end_offset >= quorum->appended_offset);
    STELE_ASSERT(event->u.appended.last_epoch >= quorum->last_epoch);
    STELE_ASSERT(event->u.appended.last_epoch <= quorum->election.epoch);
    STELE_ASSERT(quorum->role == STELE_QUORUM_LEADER || quorum->fetch.awaited_end >= event->u.appended.end_offset);
    quorum->appended_offset = event->u.appended.end_offset;
    quorum->last_epoch = event->u.appended.last_epoch;
    if (event->u.appended.has_voters) {
        struct stele_voters before = *stele_quorum_voters(quorum);
        stele_quorum__history_push(quorum, &event->u.appended.voters);
        if (quorum->role == STELE_QUORUM_LEADER) {
            stele_quorum__progress_move(quorum, &before);
            stele_quorum__change_appended(quorum, event->u.appended.voters.offset);
        }
    }
    if (quorum->role == STELE_QUORUM_LEADER) {
        return;
    }
    if (quorum->appended_offset >= quorum->fetch.awaited_end) {
        quorum->fetch.awaited_end = -1;
    }
    follow_high_watermark(quorum, update);
}

void stele_quorum__truncated(struct stele_quorum *quorum, const struct stele_quorum_event *event)
{
    STELE_ASSERT(event->u.log_end.end_offset == quorum->fetch.awaited_end);
    STELE_ASSERT(event->u.log_end.last_epoch <= quorum->last_epoch);
    quorum->appended_offset = event->u.log_end.end_offset;
    quorum->synced_offset = stele_min_i64(quorum->synced_offset, quorum->appended_offset);
    quorum->last_epoch = event->u.log_end.last_epoch;
    quorum->fetch.awaited_end = -1;
    stele_quorum__history_truncate(quorum, quorum->appended_offset);
}

void stele_quorum__replaced(struct stele_quorum *quorum, struct stele_quorum_update *update,
                            const struct stele_quorum_event *event)
{
    const struct stele_snapshot_id *id = &event->u.replaced.id;
    STELE_ASSERT(quorum->fetch.is_installing);
    STELE_ASSERT(id->end_offset == quorum->fetch.snapshot.end_offset);
    STELE_ASSERT(id->end_offset >= quorum->high_watermark);
    STELE_REACHED(quorum, STELE_QUORUM_REACHED_SNAPSHOT_INSTALLED);
    quorum->fetch.is_installing = false;
    quorum->appended_offset = id->end_offset;
    quorum->synced_offset = id->end_offset;
    quorum->last_epoch = id->epoch;
    update->has_high_watermark_moved = id->end_offset > quorum->high_watermark;
    quorum->high_watermark = id->end_offset;
    struct stele_voters_at entry = {.offset = id->end_offset - 1, .voters = event->u.replaced.voters};
    stele_quorum__history_truncate(quorum, INT64_MIN);
    stele_quorum__history_push(quorum, &entry);
}
