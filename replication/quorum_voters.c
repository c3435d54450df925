/* Sets of voters: what is known of them by offset, and changes of one voter at a time (KIP-853).
 *
 * 1. The history is never empty; its offsets rise strictly; its last entry is in force.
 * 2. A leader changes the set only after it committed a record of its own epoch, and when the last change is committed:
 *    else two majorities without a common member could be in force at once.
 * 3. A set is only taken when a majority of it is in touch: else its record could never be committed, nor undone. */
#include "replication/quorum_internal.h"

bool stele_voters_has(const struct stele_voters *voters, const struct stele_replica_key *key)
{
    int32_t at = stele_voters_find_node(voters, key->node_id);
    return at >= 0 && stele_replica_key_equal(&voters->keys[at], key);
}

int32_t stele_voters_find_node(const struct stele_voters *voters, int32_t node_id)
{
    for (int32_t i = 0; i < voters->count; i++) {
        if (voters->keys[i].node_id == node_id) {
            return i;
        }
    }
    return -1;
}

bool stele_voters_equal(const struct stele_voters *a, const struct stele_voters *b)
{
    for (int32_t i = 0; i < a->count; i++) {
        if (!stele_voters_has(b, &a->keys[i])) {
            return false;
        }
    }
    return a->count == b->count;
}

const struct stele_voters *stele_quorum_voters(const struct stele_quorum *quorum)
{
    return &quorum->history[quorum->history_count - 1].voters;
}

const struct stele_voters *stele_quorum_voters_at(const struct stele_quorum *quorum, int64_t offset)
{
    for (int32_t i = quorum->history_count - 1; i >= 0; i--) {
        if (quorum->history[i].offset < offset) {
            return &quorum->history[i].voters;
        }
    }
    return NULL;
}

bool stele_quorum_is_voter(const struct stele_quorum *quorum)
{
    return stele_voters_has(stele_quorum_voters(quorum), &quorum->self);
}

bool stele_quorum__may_campaign(const struct stele_quorum *quorum)
{
    if (stele_quorum_is_voter(quorum)) {
        return true;
    }
    const struct stele_voters_at *last = &quorum->history[quorum->history_count - 1];
    return quorum->history_count > 1 && last->offset >= quorum->high_watermark &&
           stele_voters_has(&quorum->history[quorum->history_count - 2].voters, &quorum->self);
}

/* Who becomes a voter starts to wait now; the old timer may be long over. */
static void rearm(struct stele_quorum *quorum, bool was_voter)
{
    if (!was_voter && stele_quorum__may_campaign(quorum) && quorum->role != STELE_QUORUM_LEADER) {
        quorum->role_deadline_ms = quorum->role == STELE_QUORUM_FOLLOWER
                                       ? quorum->now_ms + quorum->settings.fetch_timeout_ms
                                       : stele_quorum__election_deadline(quorum);
    }
}

void stele_quorum__history_push(struct stele_quorum *quorum, const struct stele_voters_at *entry)
{
    bool was_voter = quorum->history_count > 0 && stele_quorum__may_campaign(quorum);
    STELE_ASSERT(quorum->history_count == 0 || entry->offset > quorum->history[quorum->history_count - 1].offset);
    if (quorum->history_count == STELE_VOTERS_HISTORY_MAX) {
        for (int32_t i = 1; i < STELE_VOTERS_HISTORY_MAX; i++) {
            quorum->history[i - 1] = quorum->history[i];
        }
        quorum->history_count--;
    }
    quorum->history[quorum->history_count++] = *entry;
    rearm(quorum, was_voter);
}

void stele_quorum__history_truncate(struct stele_quorum *quorum, int64_t end_offset)
{
    bool was_voter = stele_quorum__may_campaign(quorum);
    int32_t count = quorum->history_count;
    while (count > 1 && quorum->history[count - 1].offset >= end_offset) {
        count--;
    }
    if (count < quorum->history_count) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_TRUNCATE_VOTERS);
    }
    quorum->history_count = count;
    rearm(quorum, was_voter);
}

static enum stele_err check_ready(struct stele_quorum *quorum)
{
    if (quorum->role != STELE_QUORUM_LEADER) {
        return STELE_NOT_LEADER_OR_FOLLOWER;
    }
    bool is_too_early = !quorum->is_epoch_committed && STELE_GUARD(20);
    if (is_too_early) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CHANGE_TOO_EARLY);
    }
    /* The set that the cluster was formed with counts as committed only when it is in the log. */
    int64_t last = quorum->history[quorum->history_count - 1].offset;
    bool is_last_open = last >= quorum->high_watermark || last < 0;
    return quorum->change.is_pending || is_too_early || is_last_open ? STELE_REQUEST_TIMED_OUT : STELE_OK;
}

static bool is_caught_up(struct stele_quorum *quorum, const struct stele_replica_key *key)
{
    const struct stele_quorum_progress *observer = stele_quorum__observer(quorum, key);
    return observer != NULL && observer->caught_up_ms >= 0 &&
           quorum->now_ms - observer->caught_up_ms <= quorum->settings.catch_up_ms;
}

static enum stele_err check_change(struct stele_quorum *quorum, enum stele_quorum_change_kind kind,
                                   const struct stele_replica_key *key)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int32_t at = stele_voters_find_node(voters, key->node_id);
    switch (kind) {
    case STELE_QUORUM_ADD_VOTER:
        if (at >= 0) {
            return STELE_DUPLICATE_VOTER;
        }
        if (voters->count == STELE_VOTERS_MAX) {
            return STELE_INVALID_REQUEST;
        }
        return is_caught_up(quorum, key) ? STELE_OK : STELE_REQUEST_TIMED_OUT;
    case STELE_QUORUM_REMOVE_VOTER:
        if (at < 0 || !stele_replica_key_equal(&voters->keys[at], key)) {
            return STELE_VOTER_NOT_FOUND;
        }
        return voters->count > 1 ? STELE_OK : STELE_INVALID_REQUEST;
    case STELE_QUORUM_READMIT_VOTER:
        if (at < 0) {
            return STELE_VOTER_NOT_FOUND;
        }
        if (stele_replica_key_equal(&voters->keys[at], key)) {
            return STELE_DUPLICATE_VOTER;
        }
        if (key->node_id == quorum->self.node_id || voters->count == 1) {
            return STELE_INVALID_REQUEST;
        }
        return is_caught_up(quorum, key) ? STELE_OK : STELE_REQUEST_TIMED_OUT;
    }
    return STELE_INVALID_REQUEST;
}

static void voters_remove(struct stele_voters *voters, int32_t node_id)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        if (voters->keys[i].node_id != node_id) {
            voters->keys[kept++] = voters->keys[i];
        }
    }
    voters->count = kept;
}

static bool is_in_touch(struct stele_quorum *quorum, const struct stele_replica_key *key)
{
    if (stele_replica_key_equal(key, &quorum->self)) {
        return true;
    }
    const struct stele_quorum_progress *progress = stele_quorum__progress(quorum, key);
    return progress != NULL && progress->synced_offset >= 0 &&
           quorum->now_ms - progress->contact_ms <= quorum->settings.fetch_timeout_ms;
}

static bool has_majority_in_touch(struct stele_quorum *quorum, const struct stele_voters *voters)
{
    int32_t count = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        count += is_in_touch(quorum, &voters->keys[i]) ? 1 : 0;
    }
    return count >= voters->count / 2 + 1;
}

void stele_quorum__change(struct stele_quorum *quorum, struct stele_quorum_update *update,
                          const struct stele_quorum_event *event)
{
    enum stele_quorum_change_kind kind = event->u.change.kind;
    const struct stele_replica_key *key = &event->u.change.key;
    enum stele_err err = check_ready(quorum);
    if (err == STELE_OK) {
        err = check_change(quorum, kind, key);
    }
    struct stele_voters voters = *stele_quorum_voters(quorum);
    if (err == STELE_OK && kind == STELE_QUORUM_ADD_VOTER) {
        voters.keys[voters.count++] = *key;
    } else if (err == STELE_OK) {
        voters_remove(&voters, key->node_id);
    }
    if (err == STELE_OK && !has_majority_in_touch(quorum, &voters)) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CHANGE_OUT_OF_TOUCH);
        err = STELE_REQUEST_TIMED_OUT;
    }
    update->change_err = err;
    update->has_change_refused = err != STELE_OK;
    if (err != STELE_OK) {
        return;
    }
    update->has_voters = true;
    update->voters = voters;
    quorum->change.is_pending = true;
    quorum->change.is_answered = false;
    quorum->change.offset = -1;
    quorum->change.deadline_ms = quorum->now_ms + quorum->settings.request_timeout_ms;
    quorum->change.has_next = kind == STELE_QUORUM_READMIT_VOTER;
    quorum->change.next = *key;
}

void stele_quorum__change_appended(struct stele_quorum *quorum, int64_t offset)
{
    if (quorum->change.is_pending) {
        quorum->change.offset = offset;
    }
}

static void change_answer(struct stele_quorum *quorum, struct stele_quorum_update *update, enum stele_err err)
{
    if (!quorum->change.is_answered) {
        quorum->change.is_answered = true;
        update->has_change_done = true;
        update->change_err = err;
    }
}

void stele_quorum__change_committed(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    bool is_committed =
        quorum->change.is_pending && quorum->change.offset >= 0 && quorum->change.offset < quorum->high_watermark;
    if (is_committed && quorum->change.has_next) {
        /* The old disk is out: now the new one, in a change of its own. */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_READMITTED);
        quorum->change.has_next = false;
        quorum->change.offset = -1;
        update->has_voters = true;
        update->voters = *stele_quorum_voters(quorum);
        update->voters.keys[update->voters.count++] = quorum->change.next;
        return;
    }
    if (is_committed) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CHANGE_DONE);
        quorum->change.is_pending = false;
        change_answer(quorum, update, STELE_OK);
    }
    bool is_settled = quorum->history[quorum->history_count - 1].offset < quorum->high_watermark;
    if (is_settled && !stele_quorum_is_voter(quorum)) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_LEADER_REMOVED);
        stele_quorum__resign(quorum, update);
    }
}

void stele_quorum__change_expire(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->change.is_pending && !quorum->change.is_answered && quorum->now_ms >= quorum->change.deadline_ms) {
        /* It may still be committed; until then there is no other. */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CHANGE_TIMED_OUT);
        change_answer(quorum, update, STELE_REQUEST_TIMED_OUT);
    }
}

void stele_quorum__change_drop(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    if (quorum->change.is_pending) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_CHANGE_LOST);
        change_answer(quorum, update, STELE_NOT_LEADER_OR_FOLLOWER);
    }
    quorum->change.is_pending = false;
    quorum->change.has_next = false;
}
