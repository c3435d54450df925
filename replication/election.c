/* Invariants of a change, in the order in which it is worked out (struct work):
 *   1. After replicas_settle, `next.replicas` are the replicas of this record.
 *   2. After isr_settle, every node of `next.isr` is a replica, may lead and has lost nothing; so any of them may lead.
 *   3. `eligible` are those of the old ISR and ELR that are still replicas and have lost nothing. Each of them holds
 *      every committed record (4.7.5): the high watermark stands still while the ISR is below the minimum, and whoever
 *      was in an ISR that was not below it is among those of the ISR from which it fell.
 *   4. A leader is of `next.isr` after elect, or there is none and `next.isr` is empty. */
#include "replication/election.h"

#include "base/check.h"
#include "replication/guard.h"
#include "replication/reassignment.h"

struct work {
    const struct stele_partition_state *state;
    const struct stele_partition_change *change;
    const struct stele_partition_view *view;
    struct stele_partition_state next;
    struct stele_node_set eligible;
    uint32_t changed;
};

const struct stele_replica_view *stele_partition_view_find(const struct stele_partition_view *view, int32_t node_id)
{
    for (int32_t i = 0; i < view->count; i++) {
        if (view->nodes[i].node_id == node_id) {
            return &view->nodes[i];
        }
    }
    return NULL;
}

bool stele_partition_view_accepts(const struct stele_partition_view *view, int32_t node_id)
{
    const struct stele_replica_view *node = stele_partition_view_find(view, node_id);
    return node != NULL && node->is_active && !node->is_offline;
}

int32_t stele_partition_min_isr(int32_t min_isr, int32_t replica_count)
{
    return (int32_t)stele_max_i64(1, stele_min_i64(min_isr, replica_count));
}

/* Adds those of `from` that are in `within` and not in `without`; the result never outgrows `within`. */
static void set_take(struct stele_node_set *set, const struct stele_node_set *from, const struct stele_node_set *within,
                     const struct stele_node_set *without)
{
    for (int32_t i = 0; i < from->count; i++) {
        if (stele_node_set_has(within, from->ids[i]) && !stele_node_set_has(without, from->ids[i])) {
            const bool is_added = stele_node_set_add(set, from->ids[i]);
            STELE_ASSERT(is_added);
        }
    }
}

static bool is_same_order(const struct stele_node_set *a, const struct stele_node_set *b)
{
    for (int32_t i = 0; i < a->count && i < b->count; i++) {
        if (a->ids[i] != b->ids[i]) {
            return false;
        }
    }
    return a->count == b->count;
}

static struct stele_node_set set_of_one(int32_t node_id)
{
    return (struct stele_node_set){.ids = {node_id}, .count = 1};
}

static enum stele_err replicas_settle(struct work *work)
{
    struct stele_reassignment reassignment = {.replicas = work->next.replicas};
    enum stele_err err = STELE_OK;
    switch (work->change->reassign) {
    case STELE_REASSIGN_NONE:
        return STELE_OK;
    case STELE_REASSIGN_START:
        err = stele_reassignment_start(work->state, &work->change->target, &reassignment);
        work->changed |= STELE_CHANGED_REASSIGN_STARTED;
        if (reassignment.adding.count + reassignment.removing.count == 0) {
            work->changed |= STELE_CHANGED_REASSIGN_DONE; /* another order of the same replicas */
        }
        break;
    case STELE_REASSIGN_CANCEL:
        err = stele_reassignment_cancel(work->state, &reassignment);
        work->changed |= STELE_CHANGED_REASSIGN_CANCELLED;
        break;
    }
    work->next.replicas = reassignment.replicas;
    work->next.adding = reassignment.adding;
    work->next.removing = reassignment.removing;
    return err;
}

/* Whether a replica may lead in the state that is worked out. */
static bool accepts(const struct work *work, int32_t node_id)
{
    return stele_partition_view_accepts(work->view, node_id) && !stele_node_set_has(&work->next.offline, node_id);
}

static void offline_settle(struct work *work)
{
    const struct stele_node_set none = {.count = 0};
    work->next.offline.count = 0;
    set_take(&work->next.offline, &work->state->offline, &work->next.replicas, &none);
    set_take(&work->next.offline, &work->change->offline, &work->next.replicas, &none);
}

static void isr_settle(struct work *work)
{
    const struct stele_node_set *wanted = work->change->has_isr ? &work->change->isr : &work->state->isr;
    const struct stele_node_set none = {.count = 0};
    struct stele_node_set unfit = {.count = 0};
    struct stele_node_set isr = {.count = 0};
    set_take(&unfit, &work->change->lost_tail, &work->next.replicas, &none);
    set_take(&unfit, &work->change->offline, &work->next.replicas, &none);
    set_take(&isr, wanted, &work->next.replicas, &unfit);
    work->next.isr.count = 0;
    for (int32_t i = 0; i < isr.count; i++) {
        if (accepts(work, isr.ids[i])) {
            work->next.isr.ids[work->next.isr.count++] = isr.ids[i];
        }
    }
    if (!STELE_GUARD(26)) {
        unfit.count = 0;
    }
    set_take(&work->eligible, &work->state->isr, &work->next.replicas, &unfit);
    set_take(&work->eligible, &work->state->elr, &work->next.replicas, &unfit);
}

/* Ends a reassignment whose targets are all in sync (4.9.2). True when it did. */
static bool reassignment_settle(struct work *work)
{
    const struct stele_reassignment reassignment = {
        .replicas = work->next.replicas, .adding = work->next.adding, .removing = work->next.removing};
    if (!stele_reassignment_is_done(&reassignment, &work->next.isr, &work->next.replicas)) {
        return false;
    }
    const struct stele_node_set isr = work->next.isr, eligible = work->eligible, none = {.count = 0};
    work->next.adding.count = work->next.removing.count = 0;
    work->next.isr.count = work->eligible.count = 0;
    set_take(&work->next.isr, &isr, &work->next.replicas, &none);
    set_take(&work->eligible, &eligible, &work->next.replicas, &none);
    work->changed |= STELE_CHANGED_REASSIGN_DONE;
    return true;
}

/* 4.5.1. */
static bool is_valid_leader(const struct work *work, int32_t node_id)
{
    if (work->next.isr.count > 0) {
        return stele_node_set_has(&work->next.isr, node_id);
    }
    return stele_node_set_has(&work->eligible, node_id) && accepts(work, node_id);
}

/* 4.5.2 and 4.5.3: NO_NODE when nobody may lead cleanly. */
static int32_t clean_leader(const struct work *work)
{
    const struct stele_node_set *replicas = &work->next.replicas;
    if (work->change->mode == STELE_ELECT_PREFERRED && is_valid_leader(work, replicas->ids[0])) {
        return replicas->ids[0];
    }
    if (is_valid_leader(work, work->state->leader_id)) {
        return work->state->leader_id;
    }
    for (int32_t i = 0; i < replicas->count; i++) {
        if (is_valid_leader(work, replicas->ids[i])) {
            return replicas->ids[i];
        }
    }
    return STELE_NO_NODE;
}

/* 4.5.5: whom the caller named, or the first that is there. */
static int32_t unclean_leader(const struct work *work)
{
    const struct stele_node_set *replicas = &work->next.replicas;
    const int32_t named = work->change->unclean_leader_id;
    for (int32_t i = 0; i < replicas->count; i++) {
        if ((named == STELE_NO_NODE || named == replicas->ids[i]) && accepts(work, replicas->ids[i])) {
            return replicas->ids[i];
        }
    }
    return STELE_NO_NODE;
}

/* 4.5.4 as far as there is nothing to choose: the one replica that was not only about to join. */
static int32_t sole_replica(const struct work *work)
{
    const struct stele_node_set none = {.count = 0};
    struct stele_node_set settled = {.count = 0};
    set_take(&settled, &work->next.replicas, &work->next.replicas, &work->next.adding);
    struct stele_node_set known = {.count = 0};
    set_take(&known, &work->state->isr, &work->next.replicas, &none);
    set_take(&known, &work->state->elr, &work->next.replicas, &none);
    set_take(&known, &work->state->last_known_elr, &work->next.replicas, &none);
    const bool is_sole = settled.count == 1 && stele_node_set_is_subset(&known, &settled) && work->eligible.count == 0;
    return is_sole && accepts(work, settled.ids[0]) ? settled.ids[0] : STELE_NO_NODE;
}

static void elect(struct work *work)
{
    int32_t leader_id = clean_leader(work);
    if (leader_id != STELE_NO_NODE) {
        if (work->next.isr.count == 0) {
            work->next.isr = set_of_one(leader_id); /* 4.5.6 */
            work->changed |= STELE_CHANGED_FROM_ELR;
        }
        work->next.leader_id = leader_id;
        return;
    }
    STELE_ASSERT(work->next.isr.count == 0);
    uint32_t kind = STELE_CHANGED_SOLE_REPLICA;
    leader_id = sole_replica(work);
    if (leader_id == STELE_NO_NODE && work->change->mode == STELE_ELECT_UNCLEAN) {
        kind = STELE_CHANGED_UNCLEAN;
        leader_id = unclean_leader(work);
    }
    work->next.leader_id = leader_id;
    if (leader_id != STELE_NO_NODE) {
        work->next.isr = set_of_one(leader_id);
        work->next.is_recovering = true;
        work->changed |= kind;
    }
}

/* 4.7.3. */
static void elr_settle(struct work *work)
{
    struct stele_partition_state *next = &work->next;
    const bool is_unclean = (work->changed & (STELE_CHANGED_UNCLEAN | STELE_CHANGED_SOLE_REPLICA)) != 0;
    const bool is_large = next->isr.count >= stele_partition_min_isr(work->view->min_isr, next->replicas.count);
    next->elr.count = next->last_known_elr.count = 0;
    if (is_unclean || (is_large && STELE_GUARD(25))) {
        return;
    }
    set_take(&next->elr, &work->eligible, &next->replicas, &next->isr);
    struct stele_node_set fit = next->isr;
    set_take(&fit, &next->elr, &next->replicas, &next->isr);
    set_take(&next->last_known_elr, &work->state->isr, &next->replicas, &fit);
    set_take(&next->last_known_elr, &work->state->elr, &next->replicas, &fit);
    set_take(&next->last_known_elr, &work->state->last_known_elr, &next->replicas, &fit);
}

/* 4.6: which counters move, and what the change was. */
static void epochs_settle(struct work *work)
{
    const struct stele_partition_state *state = work->state;
    struct stele_partition_state *next = &work->next;
    uint32_t changed = work->changed;
    changed |= next->leader_id != state->leader_id ? STELE_CHANGED_LEADER : 0;
    changed |= !stele_node_set_equal(&next->isr, &state->isr) ? STELE_CHANGED_ISR : 0;
    changed |= !stele_node_set_equal(&next->elr, &state->elr) ||
                       !stele_node_set_equal(&next->last_known_elr, &state->last_known_elr)
                   ? STELE_CHANGED_ELR
                   : 0;
    changed |= !is_same_order(&next->replicas, &state->replicas) ||
                       !stele_node_set_equal(&next->adding, &state->adding) ||
                       !stele_node_set_equal(&next->removing, &state->removing)
                   ? STELE_CHANGED_REPLICAS
                   : 0;
    changed |= next->is_recovering != state->is_recovering ? STELE_CHANGED_RECOVERY : 0;
    changed |= !stele_node_set_equal(&next->offline, &state->offline) ? STELE_CHANGED_OFFLINE : 0;
    changed |= next->is_unsynced != state->is_unsynced ? STELE_CHANGED_SYNCED : 0;
    const bool has_left = !stele_node_set_is_subset(&state->replicas, &next->replicas);
    const bool is_unclean = (changed & (STELE_CHANGED_UNCLEAN | STELE_CHANGED_SOLE_REPLICA)) != 0;
    if ((changed & STELE_CHANGED_LEADER) == 0 && (has_left || is_unclean)) {
        changed |= STELE_CHANGED_EPOCH_ONLY;
    }
    next->leader_epoch = state->leader_epoch + ((changed & (STELE_CHANGED_LEADER | STELE_CHANGED_EPOCH_ONLY)) != 0);
    const uint32_t written = STELE_CHANGED_LEADER | STELE_CHANGED_ISR | STELE_CHANGED_ELR | STELE_CHANGED_REPLICAS |
                             STELE_CHANGED_RECOVERY | STELE_CHANGED_EPOCH_ONLY | STELE_CHANGED_OFFLINE |
                             STELE_CHANGED_SYNCED;
    if ((changed & written) == 0) {
        work->changed = 0;
        *next = *state;
        return;
    }
    next->partition_epoch = state->partition_epoch + 1;
    work->changed = changed;
}

/* Every record that was committed is in at least min.insync.replicas copies among ISR and ELR (4.7.5); replicas that
 * were about to join count among them once they are in sync. True when some of them go with what was to be added, and
 * fewer are left than that. A minimum above the replicas that are left is what the operator asked for. */
static bool loses_copies(const struct work *work)
{
    const struct stele_partition_state *state = work->state;
    const bool loses_some = !stele_node_set_is_subset(&state->isr, &work->next.replicas) ||
                            !stele_node_set_is_subset(&state->elr, &work->next.replicas);
    return loses_some && work->eligible.count < stele_partition_min_isr(work->view->min_isr, work->next.replicas.count);
}

/* 4.9.4: what an operator asked for must not take the leader, the last who may lead, or copies below the minimum from a
 * partition. Kafka looks at the ISR being empty alone: there a cancel may leave what was acknowledged in one copy. */
static bool is_harmful(const struct work *work)
{
    const struct stele_partition_state *state = work->state;
    const bool had_someone = state->isr.count > 0 || state->elr.count > 0;
    const bool has_someone = work->next.isr.count > 0 || work->eligible.count > 0;
    const bool loses_leader = state->leader_id != STELE_NO_NODE && work->next.leader_id == STELE_NO_NODE;
    const bool is_unclean = (work->changed & (STELE_CHANGED_UNCLEAN | STELE_CHANGED_SOLE_REPLICA)) != 0;
    return loses_leader || (had_someone && (!has_someone || is_unclean)) || loses_copies(work);
}

enum stele_err stele_partition_change(const struct stele_partition_state *state,
                                      const struct stele_partition_change *change,
                                      const struct stele_partition_view *view,
                                      struct stele_partition_outcome *out_outcome)
{
    STELE_DCHECK(stele_partition_state_is_sound(state));
    struct work work = {.state = state, .change = change, .view = view, .next = *state};
    const enum stele_err err = replicas_settle(&work);
    if (err != STELE_OK) {
        return err;
    }
    offline_settle(&work);
    isr_settle(&work);
    work.next.is_recovering = state->is_recovering && !change->has_recovered;
    (void)reassignment_settle(&work);
    elect(&work);
    if (reassignment_settle(&work)) {
        /* The one that was just elected is the only target. */
        STELE_ASSERT(work.next.isr.count == 1);
        STELE_ASSERT(work.next.isr.ids[0] == work.next.leader_id);
    }
    if (change->reassign != STELE_REASSIGN_NONE && !change->may_lose_isr && is_harmful(&work)) {
        return STELE_INVALID_REPLICA_ASSIGNMENT;
    }
    offline_settle(&work); /* some may be replicas no more */
    elr_settle(&work);
    work.next.is_unsynced =
        change->is_unsynced || (state->is_unsynced && !(change->has_synced && work.next.elr.count == 0));
    epochs_settle(&work);
    STELE_DCHECK(stele_partition_state_is_sound(&work.next));
    out_outcome->next = work.next;
    out_outcome->changed = work.changed;
    return STELE_OK;
}

enum stele_err stele_partition_elect(const struct stele_partition_state *state, enum stele_elect_mode mode,
                                     int32_t leader_id, const struct stele_partition_view *view,
                                     struct stele_partition_outcome *out_outcome)
{
    const bool is_preferred = mode == STELE_ELECT_PREFERRED;
    if (is_preferred ? state->leader_id == state->replicas.ids[0] : state->leader_id != STELE_NO_NODE) {
        return STELE_ELECTION_NOT_NEEDED;
    }
    const struct stele_partition_change change = {.mode = mode, .unclean_leader_id = leader_id};
    struct stele_partition_outcome outcome;
    const enum stele_err err = stele_partition_change(state, &change, view, &outcome);
    if (err != STELE_OK) {
        return err;
    }
    if (is_preferred && outcome.next.leader_id != state->replicas.ids[0]) {
        return STELE_PREFERRED_LEADER_NOT_AVAILABLE;
    }
    if (outcome.next.leader_id == STELE_NO_NODE) {
        return STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE;
    }
    *out_outcome = outcome;
    return STELE_OK;
}

enum stele_err stele_partition_create(const struct stele_node_set *replicas, const struct stele_partition_view *view,
                                      struct stele_partition_state *out_state)
{
    struct stele_partition_state state = {.leader_id = STELE_NO_NODE, .replicas = *replicas};
    for (int32_t i = 0; i < replicas->count; i++) {
        if (stele_partition_view_accepts(view, replicas->ids[i])) {
            state.isr.ids[state.isr.count++] = replicas->ids[i];
        }
    }
    if (state.isr.count == 0) {
        return STELE_INVALID_REPLICA_ASSIGNMENT;
    }
    state.leader_id = state.isr.ids[0];
    *out_state = state;
    return STELE_OK;
}

bool stele_partition_wants_preferred(const struct stele_partition_state *state, const struct stele_partition_view *view)
{
    const int32_t preferred = state->replicas.ids[0];
    return state->leader_id != preferred && stele_node_set_has(&state->isr, preferred) &&
           stele_partition_view_accepts(view, preferred);
}

bool stele_partition_wants_unclean(const struct stele_partition_state *state, const struct stele_partition_view *view)
{
    bool is_anyone_there = false;
    for (int32_t i = 0; i < state->replicas.count; i++) {
        is_anyone_there |= stele_partition_view_accepts(view, state->replicas.ids[i]);
    }
    return state->leader_id == STELE_NO_NODE && is_anyone_there;
}

static bool is_set(const struct stele_node_set *set)
{
    if (set->count < 0 || set->count > STELE_REPLICAS_MAX) {
        return false;
    }
    for (int32_t i = 0; i < set->count; i++) {
        for (int32_t k = 0; k < i; k++) {
            if (set->ids[i] == set->ids[k]) {
                return false;
            }
        }
        if (set->ids[i] < 0) {
            return false;
        }
    }
    return true;
}

static bool is_disjoint(const struct stele_node_set *a, const struct stele_node_set *b)
{
    for (int32_t i = 0; i < a->count; i++) {
        if (stele_node_set_has(b, a->ids[i])) {
            return false;
        }
    }
    return true;
}

bool stele_partition_state_is_sound(const struct stele_partition_state *state)
{
    const struct stele_node_set *parts[] = {&state->isr,    &state->elr,      &state->last_known_elr,
                                            &state->adding, &state->removing, &state->offline};
    if (!is_set(&state->replicas) || state->replicas.count < 1) {
        return false;
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(parts); i++) {
        if (!is_set(parts[i]) || !stele_node_set_is_subset(parts[i], &state->replicas)) {
            return false;
        }
    }
    return is_disjoint(&state->isr, &state->elr) && is_disjoint(&state->isr, &state->last_known_elr) &&
           is_disjoint(&state->elr, &state->last_known_elr) && is_disjoint(&state->adding, &state->removing) &&
           state->leader_epoch >= 0 && state->partition_epoch >= 0 &&
           (state->leader_id == STELE_NO_NODE || stele_node_set_has(&state->isr, state->leader_id)) &&
           (!state->is_recovering || state->isr.count <= 1);
}
