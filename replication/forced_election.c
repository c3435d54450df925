#include "replication/forced_election.h"

#include "base/check.h"

static const struct stele_log_answer *answer_of(const struct stele_log_answer *answers, int32_t count, int32_t node_id)
{
    for (int32_t i = 0; i < count; i++) {
        if (answers[i].node_id == node_id) {
            return &answers[i];
        }
    }
    return NULL;
}

static bool is_longer(const struct stele_log_answer *a, const struct stele_log_answer *b)
{
    return a->last_epoch != b->last_epoch ? a->last_epoch > b->last_epoch : a->end_offset > b->end_offset;
}

enum stele_err stele_forced_pick(const struct stele_partition_state *state, const struct stele_partition_view *view,
                                 const struct stele_log_answer *answers, int32_t count, int32_t *out_leader_id)
{
    const struct stele_log_answer *best = NULL;
    for (int32_t i = 0; i < state->replicas.count; i++) {
        const struct stele_log_answer *answer = answer_of(answers, count, state->replicas.ids[i]);
        if (answer != NULL && stele_partition_view_accepts(view, answer->node_id) &&
            (best == NULL || is_longer(answer, best))) {
            best = answer;
        }
    }
    if (best == NULL) {
        return STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE;
    }
    *out_leader_id = best->node_id;
    return STELE_OK;
}

void stele_forced_loss(const struct stele_partition_state *state, const struct stele_log_answer *answers, int32_t count,
                       int32_t leader_id, struct stele_lost_range *out_range)
{
    const struct stele_log_answer *leader = answer_of(answers, count, leader_id);
    STELE_ASSERT(leader != NULL); /* the owner picked it from them */
    struct stele_lost_range range = {.from_offset = leader->end_offset, .to_offset = leader->end_offset};
    for (int32_t i = 0; i < count; i++) {
        const struct stele_log_answer *answer = &answers[i];
        /* Up to here the two logs hold the same: to the end of the last epoch that both know. */
        const int64_t known_end = answer->at_leader.epoch < 0 ? 0 : stele_max_i64(0, answer->at_leader.end_offset);
        const int64_t common_end = stele_min_i64(answer->end_offset, known_end);
        if (answer != leader && common_end < answer->end_offset) {
            range.from_offset = stele_min_i64(range.from_offset, common_end);
            range.to_offset = stele_max_i64(range.to_offset, answer->end_offset);
        }
        range.to_offset = stele_max_i64(range.to_offset, answer->high_watermark);
        range.committed_to_offset = stele_max_i64(range.committed_to_offset, answer->high_watermark);
    }
    for (int32_t i = 0; i < state->replicas.count; i++) {
        const int32_t node_id = state->replicas.ids[i];
        if (answer_of(answers, count, node_id) == NULL) {
            const bool is_added = stele_node_set_add(&range.not_asked, node_id);
            STELE_ASSERT(is_added);
        }
    }
    *out_range = range;
}
