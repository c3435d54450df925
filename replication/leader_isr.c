/* The in-sync set and the high watermark.
 *
 * A change of the set: COMMITTED -> EXPAND | SHRINK | RECOVER (propose) -> COMMITTED (its answer, its refusal, or
 * metadata with a newer partition epoch). */
#include "replication/leader_isr.h"

#include "base/check.h"
#include "replication/guard.h"

struct stele_leader_replica *stele_leader__replica(struct stele_leader *leader, int32_t node_id)
{
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        if (leader->replicas.ids[i] == node_id) {
            return &leader->followers[i];
        }
    }
    return NULL;
}

int64_t stele_leader__counted(const struct stele_leader *leader, const struct stele_leader_replica *replica)
{
    int64_t counted = replica->end_offset;
    if (replica->node_epoch < replica->status.node_epoch) {
        return STELE_OFFSET_NONE; /* what it had in an earlier life it may have lost */
    }
    if (replica->damaged_offset >= 0) {
        counted = stele_min_i64(counted, replica->damaged_offset);
    }
    if (leader->settings.is_flush_before_ack) {
        counted = stele_min_i64(counted, replica->synced_offset);
    }
    return counted;
}

static int64_t own_counted(const struct stele_leader *leader)
{
    return leader->settings.is_flush_before_ack ? stele_min_i64(leader->log.synced_offset, leader->log.end_offset)
                                                : leader->log.end_offset;
}

bool stele_leader__is_eligible(const struct stele_leader_replica *replica)
{
    return replica->status.is_active && !replica->status.is_leaving && replica->node_epoch >= 0 &&
           replica->node_epoch == replica->status.node_epoch && replica->node_epoch != replica->offline_epoch;
}

bool stele_leader__is_caught_up(const struct stele_leader *leader, const struct stele_leader_replica *replica)
{
    if (stele_leader__counted(leader, replica) >= leader->log.end_offset) {
        return true;
    }
    if (replica->damaged_offset >= 0) {
        return false;
    }
    int64_t caught_up_ms = replica->caught_up_ms;
    if (leader->settings.is_flush_before_ack) {
        caught_up_ms = stele_min_i64(caught_up_ms, replica->sync_caught_up_ms);
    }
    return caught_up_ms >= leader->now_ms - leader->settings.replica_lag_ms;
}

/* A shrink's proposed set is part of the committed one, an expansion's holds it: the union is one of the two. */
static const struct stele_node_set *maximal_isr(const struct stele_leader *leader)
{
    return leader->isr_state == STELE_ISR_EXPAND ? &leader->change.isr : &leader->isr;
}

bool stele_leader__is_in_maximal_isr(const struct stele_leader *leader, int32_t node_id)
{
    return stele_node_set_has(maximal_isr(leader), node_id);
}

bool stele_leader_is_in_sync(const struct stele_leader *leader, int32_t node_id)
{
    return stele_leader__is_in_maximal_isr(leader, node_id);
}

int32_t stele_leader__maximal_isr_count(const struct stele_leader *leader)
{
    return maximal_isr(leader)->count;
}

void stele_leader__commit_isr(struct stele_leader *leader, const struct stele_node_set *isr, int32_t partition_epoch)
{
    leader->isr.count = 0;
    for (int32_t i = 0; i < isr->count; i++) {
        /* Who is no replica cannot be in sync, whatever a reassignment left in the set for a moment (KAFKA-9672). */
        if (stele_node_set_has(&leader->replicas, isr->ids[i])) {
            leader->isr.ids[leader->isr.count++] = isr->ids[i];
        }
    }
    leader->partition_epoch = partition_epoch;
    leader->isr_state = STELE_ISR_COMMITTED;
    leader->is_change_open = false;
    leader->resend_ms = INT64_MAX;
}

/* An answer that names another leader epoch, an older state, or a set without its leader tells nothing. */
static bool is_answer_sound(const struct stele_leader *leader, const struct stele_isr_answer *answer)
{
    return answer->leader_epoch == leader->leader_epoch && answer->partition_epoch >= leader->partition_epoch &&
           answer->isr.count >= 0 && answer->isr.count <= STELE_REPLICAS_MAX &&
           stele_node_set_has(&answer->isr, leader->node_id);
}

static void resend_later(struct stele_leader *leader)
{
    leader->resend_ms = leader->now_ms + STELE_ISR_RESEND_MS;
}

/* The outcome is decided, but not told here: fresh metadata will (2.5.14). */
static void leave_open(struct stele_leader *leader)
{
    STELE_REACHED(leader, STELE_LEADER_REACHED_CHANGE_OPEN);
    leader->is_change_open = true;
    leader->resend_ms = INT64_MAX;
}

void stele_leader__isr_answer(struct stele_leader *leader, const struct stele_isr_answer *answer,
                              struct stele_leader_update *update)
{
    if (!leader->is_leading || leader->isr_state == STELE_ISR_COMMITTED || leader->is_change_open ||
        answer->change_id != leader->change.change_id) {
        return;
    }
    if (answer->err == STELE_OK) {
        if (!is_answer_sound(leader, answer)) {
            leave_open(leader);
            return;
        }
        STELE_REACHED(leader, STELE_LEADER_REACHED_CHANGE_DONE);
        leader->is_recovering = false;
        leader->is_unsynced = leader->is_unsynced && !leader->change.is_synced;
        stele_leader__commit_isr(leader, &answer->isr, answer->partition_epoch);
        leader->min_isr_floor = answer->min_isr;
        update->wakes_waiters = true;
        return;
    }
    if (answer->err == STELE_INELIGIBLE_REPLICA || answer->err == STELE_OPERATION_NOT_ATTEMPTED) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_CHANGE_REFUSED);
        leader->isr_state = STELE_ISR_COMMITTED;
        leader->resend_ms = INT64_MAX;
        leader->retry_after_ms = leader->now_ms + STELE_ISR_BACKOFF_MS;
        return;
    }
    if (answer->err == STELE_UNKNOWN_TOPIC_OR_PARTITION || answer->err == STELE_UNKNOWN_TOPIC_ID ||
        answer->err == STELE_FENCED_LEADER_EPOCH || answer->err == STELE_INVALID_UPDATE_VERSION ||
        answer->err == STELE_INVALID_REQUEST || answer->err == STELE_NEW_LEADER_ELECTED) {
        leave_open(leader);
        return;
    }
    resend_later(leader);
}

/* Whether the high watermark waits for the replica: it is in a set that may be elected from, or about to join (2.6.1).
 */
static bool holds_watermark(struct stele_leader *leader, int32_t index)
{
    const struct stele_leader_replica *replica = &leader->followers[index];
    int32_t node_id = leader->replicas.ids[index];
    if (STELE_GUARD(11) ? stele_leader__is_in_maximal_isr(leader, node_id)
                        : stele_node_set_has(&leader->isr, node_id)) {
        return true;
    }
    if (stele_leader__is_eligible(replica) && stele_leader__is_caught_up(leader, replica)) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_JOINER_WAITED);
        return true;
    }
    return false;
}

void stele_leader__advance(struct stele_leader *leader, struct stele_leader_update *update)
{
    int64_t candidate = own_counted(leader);
    if (candidate < leader->log.end_offset) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_SYNC_WAITED);
    }
    for (int32_t i = 0; i < leader->replicas.count && candidate > leader->high_watermark; i++) {
        if (leader->replicas.ids[i] != leader->node_id && holds_watermark(leader, i)) {
            candidate = stele_min_i64(candidate, stele_leader__counted(leader, &leader->followers[i]));
        }
    }
    if (candidate <= leader->high_watermark) {
        return;
    }
    if (STELE_GUARD(12) && leader->isr.count < stele_leader_min_isr(leader)) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_UNDER_MIN);
        return;
    }
    leader->high_watermark = candidate;
    update->has_high_watermark = true;
    update->wakes_waiters = true;
    update->wakes_fetches = true;
}

static void send_change(struct stele_leader *leader, struct stele_leader_update *update)
{
    leader->resend_ms = INT64_MAX;
    update->has_isr_change = true;
    update->isr_change = leader->change;
}

/* Whether all that was ever committed is on the disks of these: the controller then takes none of them for one that a
 * loss of power took something from. */
static bool is_synced(const struct stele_leader *leader, const struct stele_node_set *isr)
{
    /* Of earlier epochs more may be committed than is known here. */
    const int64_t offset = stele_max_i64(leader->high_watermark, leader->epoch_start_offset);
    if (!leader->settings.is_flush_before_ack || leader->log.synced_offset < offset) {
        return false;
    }
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        if (leader->replicas.ids[i] != leader->node_id && stele_node_set_has(isr, leader->replicas.ids[i]) &&
            leader->followers[i].synced_offset < offset) {
            return false;
        }
    }
    return true;
}

static void begin_change(struct stele_leader *leader, enum stele_isr_state state, const struct stele_node_set *isr,
                         struct stele_leader_update *update)
{
    leader->isr_state = state;
    leader->is_change_open = false;
    struct stele_isr_change *change = &leader->change;
    change->change_id = ++leader->last_change_id;
    change->leader_epoch = leader->leader_epoch;
    change->partition_epoch = leader->partition_epoch;
    change->isr = *isr;
    change->is_synced = is_synced(leader, isr);
    for (int32_t i = 0; i < isr->count; i++) {
        const struct stele_leader_replica *replica = stele_leader__replica(leader, isr->ids[i]);
        change->node_epochs[i] = isr->ids[i] == leader->node_id ? leader->node_epoch : replica->node_epoch;
    }
    send_change(leader, update);
}

/* Conditions of 2.5.6 to 2.5.9. Its fetch alone is reason enough to take in a follower that has what it needs; without
 * one, only a follower that keeps up. Otherwise one that died would be taken in again after each removal. */
static bool may_expand(const struct stele_leader *leader, int32_t index, int32_t fetcher_id)
{
    const struct stele_leader_replica *replica = &leader->followers[index];
    int32_t node_id = leader->replicas.ids[index];
    if (node_id == leader->node_id || stele_node_set_has(&leader->isr, node_id) ||
        !stele_leader__is_eligible(replica) || replica->damaged_offset >= 0) {
        return false;
    }
    if (STELE_GUARD(4) && !replica->has_fetched) {
        return false;
    }
    int64_t counted = stele_leader__counted(leader, replica);
    if ((STELE_GUARD(5) && counted < leader->high_watermark) ||
        (STELE_GUARD(6) && counted < leader->epoch_start_offset)) {
        return false;
    }
    return node_id == fetcher_id || stele_leader__is_caught_up(leader, replica);
}

static bool propose_expand(struct stele_leader *leader, int32_t fetcher_id, struct stele_leader_update *update)
{
    for (int32_t step = 0; step < leader->replicas.count; step++) {
        int32_t i = (leader->expand_from + step) % leader->replicas.count;
        if (!may_expand(leader, i, fetcher_id)) {
            continue;
        }
        struct stele_node_set isr = leader->isr;
        bool is_added = stele_node_set_add(&isr, leader->replicas.ids[i]);
        STELE_ASSERT(is_added); /* a subset of the replicas, which fit */
        leader->expand_from = (i + 1) % leader->replicas.count;
        leader->change.damaged.count = 0;
        STELE_REACHED(leader, STELE_LEADER_REACHED_EXPAND);
        if (leader->replicas.ids[i] != fetcher_id) {
            STELE_REACHED(leader, STELE_LEADER_REACHED_EXPAND_LATER);
        }
        begin_change(leader, STELE_ISR_EXPAND, &isr, update);
        return true;
    }
    return false;
}

static bool propose_shrink(struct stele_leader *leader, bool is_scan, struct stele_leader_update *update)
{
    struct stele_node_set isr = {.count = 0};
    struct stele_node_set damaged = {.count = 0};
    for (int32_t i = 0; i < leader->isr.count; i++) {
        int32_t node_id = leader->isr.ids[i];
        const struct stele_leader_replica *replica = stele_leader__replica(leader, node_id);
        if (node_id != leader->node_id && replica->damaged_offset >= 0) {
            damaged.ids[damaged.count++] = node_id;
        } else if (node_id == leader->node_id || !is_scan || stele_leader__is_caught_up(leader, replica)) {
            isr.ids[isr.count++] = node_id;
        }
    }
    if (isr.count == leader->isr.count) {
        return false;
    }
    leader->change.damaged = damaged;
    STELE_REACHED(leader, STELE_LEADER_REACHED_SHRINK);
    begin_change(leader, STELE_ISR_SHRINK, &isr, update);
    return true;
}

void stele_leader__propose(struct stele_leader *leader, int32_t fetcher_id, struct stele_leader_update *update)
{
    bool is_scan = leader->now_ms >= leader->scan_ms;
    if (is_scan) {
        leader->scan_ms = leader->now_ms + stele_max_i64(leader->settings.replica_lag_ms / 2, 1);
    }
    if (leader->isr_state != STELE_ISR_COMMITTED) {
        if (leader->now_ms >= leader->resend_ms) {
            STELE_REACHED(leader, STELE_LEADER_REACHED_CHANGE_RESENT);
            send_change(leader, update);
        }
        return;
    }
    if (leader->now_ms < leader->retry_after_ms) {
        return;
    }
    if (leader->is_recovering) {
        leader->change.damaged.count = 0;
        STELE_REACHED(leader, STELE_LEADER_REACHED_RECOVER);
        begin_change(leader, STELE_ISR_RECOVER, &leader->isr, update);
        return;
    }
    if (propose_shrink(leader, is_scan, update) || propose_expand(leader, fetcher_id, update)) {
        return;
    }
    if (leader->is_unsynced && !leader->has_elr && is_synced(leader, &leader->isr)) {
        leader->change.damaged.count = 0;
        STELE_REACHED(leader, STELE_LEADER_REACHED_SYNCED);
        begin_change(leader, STELE_ISR_RECOVER, &leader->isr, update);
    }
}

/* Whether time alone may change something: who is behind falls out of the set, or holds the watermark no longer. An
 * idle partition whose followers have everything needs no timer. */
static bool needs_scan(const struct stele_leader *leader)
{
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        int32_t node_id = leader->replicas.ids[i];
        if (node_id != leader->node_id && stele_node_set_has(&leader->isr, node_id) &&
            stele_leader__counted(leader, &leader->followers[i]) < leader->log.end_offset) {
            return true;
        }
    }
    return leader->high_watermark < leader->log.end_offset;
}

int64_t stele_leader__deadline(const struct stele_leader *leader)
{
    if (!leader->is_leading) {
        return INT64_MAX;
    }
    int64_t deadline_ms = leader->resend_ms;
    if (needs_scan(leader)) {
        deadline_ms = stele_min_i64(deadline_ms, leader->scan_ms);
    }
    if (leader->isr_state == STELE_ISR_COMMITTED && leader->retry_after_ms > leader->now_ms) {
        deadline_ms = stele_min_i64(deadline_ms, leader->retry_after_ms);
    }
    return deadline_ms;
}
