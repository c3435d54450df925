#include "replication/alter_partition.h"

#include "replication/guard.h"

/* 4.8.3 and 4.8.4. */
static enum stele_err check_epochs(const struct stele_partition_state *state,
                                   const struct stele_alter_partition *request)
{
    if (request->leader_epoch > state->leader_epoch ||
        (STELE_GUARD(9) && request->partition_epoch > state->partition_epoch)) {
        return STELE_NOT_CONTROLLER;
    }
    if (request->leader_epoch < state->leader_epoch) {
        return STELE_FENCED_LEADER_EPOCH;
    }
    if (request->sender_id != state->leader_id || request->sender_id < 0) {
        return STELE_INVALID_REQUEST;
    }
    return STELE_GUARD(9) && request->partition_epoch < state->partition_epoch ? STELE_INVALID_UPDATE_VERSION
                                                                               : STELE_OK;
}

/* 4.8.5. */
static enum stele_err check_isr(const struct stele_partition_state *state, const struct stele_alter_partition *request,
                                struct stele_node_set *out_isr)
{
    struct stele_node_set isr = {.count = 0};
    if (request->isr_count < 1 || request->isr_count > state->replicas.count) {
        return STELE_INVALID_REQUEST;
    }
    for (int32_t i = 0; i < request->isr_count; i++) {
        const int32_t node_id = request->isr[i].node_id;
        if (!stele_node_set_has(&state->replicas, node_id) || stele_node_set_has(&isr, node_id) ||
            !stele_node_set_add(&isr, node_id)) {
            return STELE_INVALID_REQUEST;
        }
    }
    const bool breaks_recovery = request->is_recovering && (!state->is_recovering || isr.count > 1);
    if (!stele_node_set_has(&isr, state->leader_id) || breaks_recovery) {
        return STELE_INVALID_REQUEST;
    }
    *out_isr = isr;
    return STELE_OK;
}

/* 4.8.6. A leader that has not yet been fetched from by a member of the ISR does not know its epoch; that member is in
 * sync by what the controller itself knows. Nobody joins unknown: a node that came back with an empty disk would
 * (KIP-903). */
static bool is_eligible(const struct stele_partition_state *state, const struct stele_isr_candidate *member,
                        const struct stele_partition_view *view)
{
    const struct stele_replica_view *node = stele_partition_view_find(view, member->node_id);
    if (node == NULL || !node->is_active || node->is_offline) {
        return false;
    }
    return !STELE_GUARD(10) || member->node_epoch == node->node_epoch ||
           (member->node_epoch == -1 && stele_node_set_has(&state->isr, member->node_id));
}

/* Who is damaged leaves the ELR too. Nodes that are no replicas (any more) do not matter. */
static enum stele_err check_damaged(const struct stele_partition_state *state,
                                    const struct stele_alter_partition *request, struct stele_partition_change *change)
{
    for (int32_t i = 0; i < request->damaged_count; i++) {
        const int32_t node_id = request->damaged[i];
        if (stele_node_set_has(&change->isr, node_id) ||
            (stele_node_set_has(&state->replicas, node_id) && !stele_node_set_add(&change->lost_tail, node_id))) {
            return STELE_INVALID_REQUEST;
        }
    }
    return STELE_OK;
}

enum stele_err stele_alter_partition(const struct stele_partition_state *state,
                                     const struct stele_alter_partition *request,
                                     const struct stele_partition_view *view,
                                     struct stele_partition_outcome *out_outcome)
{
    struct stele_partition_change change = {
        .has_isr = true, .has_recovered = !request->is_recovering, .has_synced = request->is_synced};
    enum stele_err err = check_epochs(state, request);
    if (err == STELE_OK) {
        err = check_isr(state, request, &change.isr);
    }
    if (err == STELE_OK) {
        err = check_damaged(state, request, &change);
    }
    for (int32_t i = 0; err == STELE_OK && i < request->isr_count; i++) {
        if (!is_eligible(state, &request->isr[i], view)) {
            err = STELE_INELIGIBLE_REPLICA;
        }
    }
    if (err != STELE_OK) {
        return err;
    }
    struct stele_partition_outcome outcome;
    err = stele_partition_change(state, &change, view, &outcome);
    if (err != STELE_OK) {
        return err;
    }
    *out_outcome = outcome;
    return outcome.next.leader_id == state->leader_id ? STELE_OK : STELE_NEW_LEADER_ELECTED;
}

void stele_alter_partition_answer(const struct stele_partition_state *state, int32_t min_isr,
                                  struct stele_partition_answer *out_answer)
{
    *out_answer = (struct stele_partition_answer){
        .leader_id = state->leader_id,
        .leader_epoch = state->leader_epoch,
        .partition_epoch = state->partition_epoch,
        .isr = state->isr,
        .is_recovering = state->is_recovering,
        .min_isr = stele_partition_min_isr(min_isr, state->replicas.count),
    };
}
