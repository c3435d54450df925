#include "replication/reassignment.h"

static bool is_under_way(const struct stele_node_set *adding, const struct stele_node_set *removing)
{
    return adding->count > 0 || removing->count > 0;
}

/* What the partition had before it was being reassigned (4.9.5). */
static struct stele_node_set original_of(const struct stele_partition_state *state)
{
    struct stele_node_set original = state->replicas;
    for (int32_t i = 0; i < state->adding.count; i++) {
        stele_node_set_remove(&original, state->adding.ids[i]);
    }
    return original;
}

enum stele_err stele_reassignment_start(const struct stele_partition_state *state, const struct stele_node_set *target,
                                        struct stele_reassignment *out_reassignment)
{
    const struct stele_node_set original = original_of(state);
    struct stele_reassignment result = {.replicas = *target};
    if (target->count < 1) {
        return STELE_INVALID_REPLICA_ASSIGNMENT;
    }
    for (int32_t i = 0; i < target->count; i++) {
        /* Never full: the target itself is such a set. */
        if (!stele_node_set_has(&original, target->ids[i]) && !stele_node_set_add(&result.adding, target->ids[i])) {
            return STELE_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    for (int32_t i = 0; i < original.count; i++) {
        if (!stele_node_set_has(target, original.ids[i]) && (!stele_node_set_add(&result.removing, original.ids[i]) ||
                                                             !stele_node_set_add(&result.replicas, original.ids[i]))) {
            return STELE_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    *out_reassignment = result;
    return STELE_OK;
}

enum stele_err stele_reassignment_cancel(const struct stele_partition_state *state,
                                         struct stele_reassignment *out_reassignment)
{
    if (!is_under_way(&state->adding, &state->removing)) {
        return STELE_NO_REASSIGNMENT_IN_PROGRESS;
    }
    *out_reassignment = (struct stele_reassignment){.replicas = original_of(state)};
    return STELE_OK;
}

bool stele_reassignment_is_done(const struct stele_reassignment *reassignment, const struct stele_node_set *isr,
                                struct stele_node_set *out_replicas)
{
    if (!is_under_way(&reassignment->adding, &reassignment->removing)) {
        return false;
    }
    struct stele_node_set target = reassignment->replicas;
    for (int32_t i = 0; i < reassignment->removing.count; i++) {
        stele_node_set_remove(&target, reassignment->removing.ids[i]);
    }
    if (target.count == 0 || !stele_node_set_is_subset(&target, isr)) {
        return false;
    }
    *out_replicas = target;
    return true;
}

int32_t stele_reassignment_joined(const struct stele_partition_state *state)
{
    int32_t joined = 0;
    for (int32_t i = 0; i < state->adding.count; i++) {
        joined += stele_node_set_has(&state->isr, state->adding.ids[i]);
    }
    return joined;
}
