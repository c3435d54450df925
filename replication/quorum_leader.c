/* What a leader does with the fetches of the others: it says whether their logs go on from its own, notes how far each
 * has synced, and commits.
 *
 * 1. Progress is believed only of a fetch whose offset and epoch were found in the own log in the same step.
 * 2. A voter counts by node and disk; all others are observers, whatever they say.
 * 3. What a voter's disk acknowledged it has for good: one that comes with less in the same epoch is not that disk as
 * it was, but an older copy of it, or it lost what it had synced. Its votes are as old, so it is told and gets nothing.
 *    A request that comes late looks the same; its answer reaches nobody. */
#include "replication/quorum_internal.h"

void stele_quorum__progress_reset(struct stele_quorum *quorum)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    quorum->observer_count = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        quorum->voters[i] = (struct stele_quorum_progress){.key = voters->keys[i],
                                                           .synced_offset = -1,
                                                           .contact_ms = quorum->now_ms,
                                                           .end_at_contact = INT64_MAX,
                                                           .caught_up_ms = -1};
    }
}

struct stele_quorum_progress *stele_quorum__progress(struct stele_quorum *quorum, const struct stele_replica_key *key)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int32_t at = stele_voters_find_node(voters, key->node_id);
    if (at >= 0 && stele_replica_key_equal(&voters->keys[at], key)) {
        return &quorum->voters[at];
    }
    return stele_quorum__observer(quorum, key);
}

struct stele_quorum_progress *stele_quorum__observer(struct stele_quorum *quorum, const struct stele_replica_key *key)
{
    for (int32_t i = 0; i < quorum->observer_count; i++) {
        if (stele_replica_key_equal(&quorum->observers[i].key, key)) {
            return &quorum->observers[i];
        }
    }
    return NULL;
}

static void expire_observers(struct stele_quorum *quorum)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < quorum->observer_count; i++) {
        if (quorum->now_ms - quorum->observers[i].contact_ms < quorum->settings.observer_expiry_ms) {
            quorum->observers[kept++] = quorum->observers[i];
        }
    }
    quorum->observer_count = kept;
}

/* A new observer; when the table is full the one that is silent for the longest goes. */
static struct stele_quorum_progress *add_observer(struct stele_quorum *quorum, const struct stele_replica_key *key)
{
    expire_observers(quorum);
    int32_t at = quorum->observer_count;
    if (at < STELE_QUORUM_OBSERVERS_MAX) {
        quorum->observer_count++;
    } else {
        at = 0;
        for (int32_t i = 1; i < STELE_QUORUM_OBSERVERS_MAX; i++) {
            if (quorum->observers[i].contact_ms < quorum->observers[at].contact_ms) {
                at = i;
            }
        }
    }
    quorum->observers[at] = (struct stele_quorum_progress){.key = *key,
                                                           .synced_offset = -1,
                                                           .contact_ms = quorum->now_ms,
                                                           .end_at_contact = INT64_MAX,
                                                           .caught_up_ms = -1};
    return &quorum->observers[at];
}

/* Of a node that votes, whichever disk it listened with: one that is not there any more listens no more, and another
 * that is makes itself known. */
static void remove_observers(struct stele_quorum *quorum, int32_t node_id)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < quorum->observer_count; i++) {
        if (quorum->observers[i].key.node_id != node_id) {
            quorum->observers[kept++] = quorum->observers[i];
        }
    }
    quorum->observer_count = kept;
}

void stele_quorum__progress_move(struct stele_quorum *quorum, const struct stele_voters *before)
{
    const struct stele_voters *after = stele_quorum_voters(quorum);
    struct stele_quorum_progress moved[STELE_VOTERS_MAX];
    for (int32_t i = 0; i < after->count; i++) {
        int32_t at = stele_voters_find_node(before, after->keys[i].node_id);
        const struct stele_quorum_progress *known =
            at >= 0 && stele_replica_key_equal(&before->keys[at], &after->keys[i])
                ? &quorum->voters[at]
                : stele_quorum__observer(quorum, &after->keys[i]);
        moved[i] = known != NULL ? *known
                                 : (struct stele_quorum_progress){.synced_offset = -1,
                                                                  .contact_ms = quorum->now_ms,
                                                                  .end_at_contact = INT64_MAX,
                                                                  .caught_up_ms = -1};
        moved[i].key = after->keys[i];
    }
    for (int32_t i = 0; i < before->count; i++) {
        if (!stele_voters_has(after, &before->keys[i]) && before->keys[i].node_id != quorum->self.node_id) {
            *add_observer(quorum, &before->keys[i]) = quorum->voters[i];
        }
    }
    for (int32_t i = 0; i < after->count; i++) {
        remove_observers(quorum, after->keys[i].node_id);
        quorum->voters[i] = moved[i];
    }
}

/* Descending; at most STELE_VOTERS_MAX + 1 values. */
static void sort_descending(int64_t *values, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        int64_t value = values[i];
        int32_t at = i;
        for (; at > 0 && values[at - 1] < value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
}

/* What a majority of the voters has synced, the leader only if it is one of them (KAFKA-16530). */
static int64_t majority_offset(const struct stele_quorum *quorum)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int64_t offsets[STELE_VOTERS_MAX + 1];
    int32_t count = 0;
    bool has_self = false;
    for (int32_t i = 0; i < voters->count; i++) {
        bool is_self = stele_replica_key_equal(&voters->keys[i], &quorum->self);
        offsets[count++] = is_self ? quorum->synced_offset : quorum->voters[i].synced_offset;
        has_self = has_self || is_self;
    }
    if (!has_self && !STELE_GUARD(19)) {
        offsets[count++] = quorum->synced_offset;
    }
    sort_descending(offsets, count);
    return offsets[count / 2];
}

void stele_quorum__commit(struct stele_quorum *quorum, struct stele_quorum_update *update)
{
    int64_t offset = majority_offset(quorum);
    /* Strictly above: the leader change itself, not only what former leaders appended, is with a majority
     * (KAFKA-12619). */
    bool is_own_epoch = STELE_GUARD(18) ? offset > quorum->epoch_start : offset >= quorum->epoch_start;
    if (!is_own_epoch) {
        return;
    }
    /* Another set of voters may have a lower majority; what is committed stays so (KAFKA-16531). */
    bool is_first = !quorum->is_epoch_committed;
    quorum->is_epoch_committed = true;
    if (offset > quorum->high_watermark) {
        quorum->high_watermark = offset;
    } else if (!is_first) {
        return;
    }
    update->has_high_watermark_moved = true;
    if (!stele_quorum_is_voter(quorum)) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_LEADER_NOT_VOTER);
    }
    stele_quorum__change_committed(quorum, update);
}

/* Where a follower's log stands to the own one; the order of the rules is KRaft's. */
static void validate(struct stele_quorum *quorum, const struct stele_quorum_event *event,
                     struct stele_quorum_answer *answer)
{
    (void)quorum;
    const struct stele_quorum_request *request = &event->u.request.request;
    const struct stele_quorum_fetch_view *view = &event->u.request.view;
    int64_t offset = request->u.fetch.offset;
    int32_t last_epoch = request->u.fetch.last_epoch;
    bool has_snapshot = view->latest.end_offset > 0;
    answer->u.fetch.result = STELE_QUORUM_FETCH_VALID;
    if (offset == 0 && has_snapshot) {
        answer->u.fetch.result = STELE_QUORUM_FETCH_OF_SNAPSHOT;
    } else if (offset == 0 && view->log_start == 0) {
        return;
    } else if (has_snapshot &&
               (offset < view->log_start || (offset == view->log_start && last_epoch != view->oldest.epoch) ||
                last_epoch < view->oldest.epoch)) {
        answer->u.fetch.result = STELE_QUORUM_FETCH_OF_SNAPSHOT;
    } else if (view->epoch_end.epoch < 0) {
        answer->err = STELE_INVALID_REQUEST;
    } else if (view->epoch_end.epoch != last_epoch || view->epoch_end.end_offset < offset) {
        answer->u.fetch.result = STELE_QUORUM_FETCH_DIVERGING;
        answer->u.fetch.diverging = view->epoch_end;
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_DIVERGING);
    }
    if (answer->u.fetch.result == STELE_QUORUM_FETCH_OF_SNAPSHOT) {
        answer->u.fetch.snapshot = view->latest;
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_SNAPSHOT_OFFERED);
    }
}

static bool has_gone_back(struct stele_quorum *quorum, const struct stele_quorum_request *request)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int32_t at = stele_voters_find_node(voters, request->from.node_id);
    return at >= 0 && stele_replica_key_equal(&voters->keys[at], &request->from) &&
           request->u.fetch.offset < quorum->voters[at].synced_offset;
}

/* A fetch at the end now, or one that had all there was at the time of the one before, is caught up. */
static void note_progress(struct stele_quorum *quorum, struct stele_quorum_progress *progress, int64_t offset)
{
    if (offset < progress->synced_offset) {
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_OFFSET_BACKWARD);
    }
    if (offset >= quorum->appended_offset) {
        progress->caught_up_ms = quorum->now_ms;
    } else if (offset >= progress->end_at_contact) {
        progress->caught_up_ms = stele_max_i64(progress->caught_up_ms, progress->contact_ms);
    }
    progress->synced_offset = offset;
    progress->end_at_contact = quorum->appended_offset;
}

static enum stele_err check_fetch(const struct stele_quorum *quorum, const struct stele_quorum_request *request)
{
    bool is_negative = request->kind == STELE_QUORUM_FETCH
                           ? request->u.fetch.offset < 0 || request->u.fetch.last_epoch < 0
                           : request->u.snapshot.position < 0 || request->u.snapshot.id.end_offset < 0;
    if (is_negative || (request->kind == STELE_QUORUM_FETCH && request->u.fetch.last_epoch > request->epoch)) {
        return STELE_INVALID_REQUEST;
    }
    if (request->epoch < quorum->election.epoch) {
        return STELE_FENCED_LEADER_EPOCH;
    }
    if (request->epoch > quorum->election.epoch) {
        return STELE_UNKNOWN_LEADER_EPOCH;
    }
    return quorum->role == STELE_QUORUM_LEADER ? STELE_OK : STELE_NOT_LEADER_OR_FOLLOWER;
}

void stele_quorum__fetch_request(struct stele_quorum *quorum, struct stele_quorum_update *update,
                                 const struct stele_quorum_event *event)
{
    const struct stele_quorum_request *request = &event->u.request.request;
    struct stele_quorum_answer *answer = &update->answer;
    answer->err = check_fetch(quorum, request);
    /* Who names no disk reads only. */
    bool is_replica = !stele_uuid_is_zero(&request->from.directory_id) && request->from.node_id != quorum->self.node_id;
    if (answer->err == STELE_OK && request->kind == STELE_QUORUM_FETCH) {
        answer->u.fetch.high_watermark = -1;
        validate(quorum, event, answer);
        if (is_replica && !event->u.request.view.is_parked && has_gone_back(quorum, request)) {
            STELE_REACHED(quorum, STELE_QUORUM_REACHED_DISK_WENT_BACK);
            answer->err = STELE_INVALID_VOTER_KEY;
        }
    }
    if (answer->err == STELE_UNKNOWN_LEADER_EPOCH && is_replica && quorum->role == STELE_QUORUM_LEADER) {
        /* An observer that learned of a newer epoch whose candidate is gone for good could never follow again: it
         * calls no election, and its epoch cannot go back. So this epoch ends. */
        STELE_REACHED(quorum, STELE_QUORUM_REACHED_NEWER_EPOCH_FETCHED);
        stele_quorum__unattached(quorum, update, request->epoch);
    }
    if (answer->err != STELE_OK) {
        return;
    }
    if (is_replica && !event->u.request.view.is_parked) {
        struct stele_quorum_progress *progress = stele_quorum__progress(quorum, &request->from);
        if (progress == NULL) {
            progress = add_observer(quorum, &request->from);
        }
        if (request->kind == STELE_QUORUM_FETCH && answer->u.fetch.result == STELE_QUORUM_FETCH_VALID) {
            note_progress(quorum, progress, request->u.fetch.offset);
        }
        progress->contact_ms = quorum->now_ms;
        stele_quorum__commit(quorum, update);
    }
    if (request->kind == STELE_QUORUM_FETCH) {
        /* The commit may have made the leader resign, when it was its own removal. */
        answer->u.fetch.high_watermark = quorum->is_epoch_committed ? quorum->high_watermark : -1;
    }
}

int64_t stele_quorum__check_quorum_ms(const struct stele_quorum *quorum)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int64_t contacts[STELE_VOTERS_MAX];
    int32_t count = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        if (!stele_replica_key_equal(&voters->keys[i], &quorum->self)) {
            contacts[count++] = quorum->voters[i].contact_ms;
        }
    }
    int32_t needed = stele_quorum__majority(quorum) - (stele_quorum_is_voter(quorum) ? 1 : 0);
    if (needed == 0) {
        return INT64_MAX;
    }
    sort_descending(contacts, count);
    return contacts[needed - 1] + quorum->settings.fetch_timeout_ms + quorum->settings.fetch_timeout_ms / 2;
}

/* The other voters, those with the most first. */
void stele_quorum__successors(const struct stele_quorum *quorum, struct stele_voters *out_successors)
{
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int64_t offsets[STELE_VOTERS_MAX];
    out_successors->count = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        if (stele_replica_key_equal(&voters->keys[i], &quorum->self)) {
            continue;
        }
        int64_t offset = quorum->role == STELE_QUORUM_LEADER ? quorum->voters[i].synced_offset : -1;
        int32_t at = out_successors->count++;
        for (; at > 0 && offsets[at - 1] < offset; at--) {
            offsets[at] = offsets[at - 1];
            out_successors->keys[at] = out_successors->keys[at - 1];
        }
        offsets[at] = offset;
        out_successors->keys[at] = voters->keys[i];
    }
}
