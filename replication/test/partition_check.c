/* What must hold (facts 8.1: D1-D3, D5, D6, D8-D9, D11-D19, D21, D23-D29, D34; D4 and D10 follow from D11, D14 and D15;
 * at the end L1, L2, L4-L6, L8, L12, D7). The ghosts know what was committed, where, and by whom. */
#include <string.h>

#include "partition_world.h"

/* Has the node what a member of an in-sync or eligible set must have? Not while it lost it and nobody was told. */
static bool is_excused(const struct pw_world *world, const struct pw_node *node)
{
    return node->has_lost_disk || (node->has_lost_tail && !world->config.is_flush);
}

static void check_member(struct pw_world *world, int id, const char *rule)
{
    struct pw_node *node = &world->nodes[id];
    if (is_excused(world, node)) {
        return;
    }
    int64_t offset = stele_max_i64(stele_max_i64(node->verified_end, node->log.start), world->deleted_end);
    for (; offset < world->committed_end; offset++) {
        if (offset >= node->log.end || !pw_record_equal(&node->log.records[offset], &world->committed[offset])) {
            pw_fail(world, "%s: node %d lacks the committed record at %lld (log [%lld, %lld))", rule, id,
                    (long long)offset, (long long)node->log.start, (long long)node->log.end);
        }
    }
    node->verified_end = offset;
    if (world->config.is_flush && node->log.synced < world->committed_end && node->log.start < world->committed_end) {
        pw_fail(world, "%s, synced: node %d synced up to %lld, committed is %lld", rule, id,
                (long long)node->log.synced, (long long)world->committed_end);
    }
}

void pw_check_members(struct pw_world *world, int64_t from)
{
    (void)from;
    if (world->is_tainted) {
        return;
    }
    for (int i = 0; i < world->state.isr.count; i++) {
        check_member(world, world->state.isr.ids[i], "D11/D14");
    }
    for (int i = 0; i < world->state.elr.count; i++) {
        check_member(world, world->state.elr.ids[i], "D15");
    }
}

void pw_check_append(struct pw_world *world, struct pw_node *node, int64_t base, int64_t end)
{
    int32_t epoch = node->leader.leader_epoch;
    if (world->epoch_leader[epoch] >= 0 && world->epoch_leader[epoch] != node->id) {
        pw_fail(world, "D1: nodes %d and %d both append in epoch %d", world->epoch_leader[epoch], node->id, epoch);
    }
    world->epoch_leader[epoch] = node->id;
    for (int64_t offset = base; offset < end; offset++) {
        const struct pw_record *record = &node->log.records[offset];
        for (int i = 0; i < PW_ORIGINS; i++) {
            struct pw_record *origin = &world->origins[offset][i];
            if (origin->batch_end != 0 && origin->epoch == record->epoch && !pw_record_equal(origin, record)) {
                pw_fail(world, "D3: offset %lld of epoch %d has two contents", (long long)offset, epoch);
            }
            if (origin->batch_end == 0) {
                *origin = *record;
                break;
            }
        }
    }
}

void pw_check_node(struct pw_world *world, struct pw_node *node)
{
    const struct pw_log *log = &node->log;
    if (log->start > log->hw || log->hw > log->end || log->synced > log->end) {
        pw_fail(world, "D8: node %d has start %lld, watermark %lld, end %lld, synced %lld", node->id,
                (long long)log->start, (long long)log->hw, (long long)log->end, (long long)log->synced);
    }
    for (int i = 1; i < log->epoch_count; i++) {
        if (log->epochs[i].epoch <= log->epochs[i - 1].epoch ||
            log->epochs[i].start_offset <= log->epochs[i - 1].start_offset) {
            pw_fail(world, "D24: the epoch index of node %d does not rise", node->id);
        }
    }
    if (log->epoch_count > 0 && log->epochs[log->epoch_count - 1].start_offset > log->end) {
        pw_fail(world, "D24: the epoch index of node %d goes beyond its log", node->id);
    }
}

static void check_leader_epoch(struct pw_world *world, struct pw_node *node)
{
    node->leadership++;
    if (world->is_tainted || node->leader.leader_epoch != world->state.leader_epoch) {
        return;
    }
    check_member(world, node->id, "D5");
}

void pw_check_watermark(struct pw_world *world, struct pw_node *node, int64_t old_hw)
{
    const struct stele_leader *leader = &node->leader;
    pw_check_node(world, node);
    if (old_hw < 0) {
        check_leader_epoch(world, node);
    } else if (leader->high_watermark < old_hw) {
        pw_fail(world, "D9: the high watermark of leader %d fell", node->id);
    } else if (leader->high_watermark > old_hw && leader->isr.count < stele_leader_min_isr(leader)) {
        pw_fail(world, "D12: the high watermark of leader %d moved with %d in sync", node->id, leader->isr.count);
    }
    if (leader->high_watermark == old_hw) {
        return;
    }
    if (leader->leader_epoch == world->state.leader_epoch && leader->partition_epoch == world->state.partition_epoch) {
        for (int i = 0; i < world->state.isr.count; i++) {
            bool has = stele_node_set_has(&leader->isr, world->state.isr.ids[i]) ||
                       (leader->isr_state == STELE_ISR_EXPAND &&
                        stele_node_set_has(&leader->change.isr, world->state.isr.ids[i]));
            if (!has) {
                pw_fail(world, "D17: the maximal set of leader %d lacks node %d", node->id, world->state.isr.ids[i]);
            }
        }
    }
    int64_t from = stele_max_i64(old_hw < 0 ? node->log.start : old_hw, world->deleted_end);
    from = stele_max_i64(from, node->log.start);
    bool is_stale = world->is_tainted && leader->leader_epoch != world->state.leader_epoch;
    for (int64_t offset = from; offset < leader->high_watermark && !is_stale; offset++) {
        if (offset < world->committed_end) {
            if (!world->is_tainted && !pw_record_equal(&world->committed[offset], &node->log.records[offset])) {
                pw_fail(world, "D2/D10: leader %d commits another record at %lld", node->id, (long long)offset);
            }
        } else {
            world->committed[offset] = node->log.records[offset];
        }
    }
    int64_t old_end = world->committed_end;
    if (!is_stale && leader->high_watermark > world->committed_end) {
        world->committed_end = leader->high_watermark;
        pw_check_members(world, old_end);
    }
}

void pw_check_state(struct pw_world *world, const struct stele_partition_state *old)
{
    const struct stele_partition_state *state = &world->state;
    if (!stele_partition_state_is_sound(state)) {
        pw_fail(world, "D13: the state is not sound");
    }
    if (state->elr.count > 0 &&
        state->isr.count >= stele_partition_min_isr(world->config.min_isr, state->replicas.count)) {
        pw_fail(world, "D13: eligible ones beside a full set in sync");
    }
    if (state->partition_epoch < old->partition_epoch || state->leader_epoch < old->leader_epoch) {
        pw_fail(world, "D28: epochs of the committed state fall");
    }
    if (state->leader_id != old->leader_id && state->leader_epoch <= old->leader_epoch && state->partition_epoch > 0) {
        pw_fail(world, "D29: another leader in the same epoch");
    }
    for (int i = 0; i < state->isr.count; i++) {
        if (!world->registered[state->isr.ids[i]].status.is_active) {
            pw_fail(world, "D16: fenced node %d is in sync", state->isr.ids[i]);
        }
    }
    pw_check_members(world, 0);
}

void pw_check_proposal(struct pw_world *world, struct pw_node *node, const struct stele_isr_change *change)
{
    const struct stele_leader *leader = &node->leader;
    for (int i = 0; i < change->isr.count; i++) {
        int id = change->isr.ids[i];
        if (id == node->id || stele_node_set_has(&leader->isr, id)) {
            continue;
        }
        if (!node->fetched_in_epoch[id]) {
            pw_fail(world, "D18: node %d is to join without a fetch in epoch %d", id, leader->leader_epoch);
        }
        if (leader->leader_epoch != change->leader_epoch || leader->partition_epoch != change->partition_epoch) {
            pw_fail(world, "D34: a wish of another state");
        }
    }
}

void pw_check_ack(struct pw_world *world, const struct pw_event *event)
{
    if (event->err != STELE_OK || event->acks != -1 || world->is_tainted) {
        return;
    }
    for (int32_t i = 0; i < event->count; i++) {
        int64_t offset = event->offset + i;
        if (offset < world->deleted_end) {
            continue;
        }
        const struct pw_record *record = &world->committed[offset];
        if (offset >= world->committed_end || record->producer != event->node || record->seq != event->seq + i) {
            pw_fail(world, "D6: acknowledged at %lld without being committed there", (long long)offset);
        }
    }
    if (world->config.is_flush && event->level != STELE_ACK_SYNCED) {
        pw_fail(world, "acknowledged at %lld without being synced", (long long)event->offset);
    }
    if (event->level == STELE_ACK_SYNCED) {
        for (int i = 0; i < world->state.isr.count; i++) {
            const struct pw_node *member = &world->nodes[world->state.isr.ids[i]];
            if (!member->has_lost_disk && member->log.synced < event->offset + event->count) {
                pw_fail(world, "a level of SYNCED, and node %d has not", member->id);
            }
        }
    }
}

/* Who may lead cuts no committed record (D23). Another one may, after a leader that was deposed and has not heard of
 * it: what the next leader took over and committed it gets again from there. */
void pw_check_cut(struct pw_world *world, struct pw_node *node, int64_t offset)
{
    bool may_lead = stele_node_set_has(&world->state.isr, node->id) || stele_node_set_has(&world->state.elr, node->id);
    if (world->is_tainted || !may_lead) {
        return;
    }
    int64_t end = stele_min_i64(node->log.end, world->committed_end);
    int64_t from = stele_max_i64(stele_max_i64(offset, node->log.start), world->deleted_end);
    if (from < end && pw_record_equal(&node->log.records[from], &world->committed[from])) {
        pw_fail(world, "D23: node %d cuts away the committed record at %lld", node->id, (long long)from);
    }
}

void pw_check_read(struct pw_world *world, int64_t offset, const struct pw_record *record)
{
    if (world->is_tainted || offset < world->deleted_end) {
        return;
    }
    if (offset >= world->committed_end || !pw_record_equal(record, &world->committed[offset])) {
        pw_fail(world, "D20/D21: what is read at %lld was not committed", (long long)offset);
    }
}

/* A forced election: what was committed is from now on what the new leader has. */
void pw_taint(struct pw_world *world)
{
    const struct pw_log *log = &world->nodes[world->state.leader_id].log;
    int64_t end = stele_max_i64(log->start, world->deleted_end);
    while (end < world->committed_end && end < log->end &&
           pw_record_equal(&log->records[end], &world->committed[end])) {
        end++;
    }
    pw_say(world, "forced election of %d, %lld records lost", world->state.leader_id,
           (long long)(world->committed_end - end));
    world->committed_end = stele_min_i64(world->committed_end, end);
    world->is_tainted = true;
    for (int i = 0; i < PW_NODES_MAX; i++) {
        world->nodes[i].verified_end = 0;
    }
}

static void check_converged(struct pw_world *world)
{
    const struct stele_partition_state *state = &world->state;
    if (state->leader_id == STELE_NO_NODE) {
        pw_fail(world, "L3: no leader though all nodes are back");
    }
    struct pw_node *leader = &world->nodes[state->leader_id];
    if (state->isr.count != state->replicas.count) {
        pw_fail(world, "L2: %d of %d replicas in sync", state->isr.count, state->replicas.count);
    }
    if (leader->leader.isr_state != STELE_ISR_COMMITTED) {
        pw_fail(world, "L4: a change of the set is still under way");
    }
    for (int i = 0; i < state->replicas.count; i++) {
        struct pw_node *node = &world->nodes[state->replicas.ids[i]];
        if (node->meta_applied != world->meta_count) {
            pw_fail(world, "L12: node %d has not all metadata", node->id);
        }
        if (node->log.end != leader->log.end || leader->log.hw != leader->log.end) {
            pw_fail(world, "L2: node %d ends at %lld, the leader at %lld, committed is %lld", node->id,
                    (long long)node->log.end, (long long)leader->log.end, (long long)leader->log.hw);
        }
        if (node->follower.is_read_from && node->id != leader->id && node->log.hw != leader->log.hw) {
            pw_fail(world, "L5: the watermark of follower %d is %lld, the leader's %lld", node->id,
                    (long long)node->log.hw, (long long)leader->log.hw);
        }
        for (int64_t offset = stele_max_i64(node->log.start, leader->log.start); offset < leader->log.end; offset++) {
            if (!pw_record_equal(&node->log.records[offset], &leader->log.records[offset])) {
                pw_fail(world, "D2: nodes %d and %d differ at %lld", node->id, leader->id, (long long)offset);
            }
        }
        for (int64_t offset = node->log.start; offset < node->log.end; offset++) {
            int k = node->log.epoch_count - 1;
            while (k > 0 && node->log.epochs[k].start_offset > offset) {
                k--;
            }
            if (k < 0 || node->log.epochs[k].epoch != node->log.records[offset].epoch) {
                pw_fail(world, "D25: the epoch index of node %d is wrong at %lld", node->id, (long long)offset);
            }
        }
    }
}

bool pw_is_well(const struct pw_world *world)
{
    const struct stele_partition_state *state = &world->state;
    if (state->leader_id == STELE_NO_NODE || state->isr.count != state->replicas.count) {
        return false;
    }
    const struct pw_node *leader = &world->nodes[state->leader_id];
    for (int i = 0; i < state->replicas.count; i++) {
        const struct pw_node *node = &world->nodes[state->replicas.ids[i]];
        if (node->log.end != leader->log.end || leader->log.hw != leader->log.end ||
            node->meta_applied != world->meta_count) {
            return false;
        }
    }
    for (int i = 0; i < PW_PRODUCERS; i++) {
        if (world->producers[i].is_busy && world->producers[i].acks != 0) {
            return false;
        }
    }
    return true;
}

void pw_check_end(struct pw_world *world)
{
    check_converged(world);
    const struct pw_log *log = &world->nodes[world->state.leader_id].log;
    for (int i = 0; i < PW_PRODUCERS; i++) {
        if (world->producers[i].is_busy && world->producers[i].acks != 0 && !world->is_scripted) {
            pw_fail(world, "L1: producer %d still waits", i);
        }
    }
    if (world->is_tainted) {
        return;
    }
    for (int i = 0; i < world->acked_count; i++) {
        const struct pw_acked *acked = &world->acked[i];
        if (acked->acks != -1 || acked->offset < log->start) {
            continue;
        }
        const struct pw_record *record = &log->records[acked->offset];
        if (acked->offset >= log->end || record->producer != acked->producer || record->seq != acked->seq) {
            pw_fail(world, "durability: the record acknowledged at %lld is gone", (long long)acked->offset);
        }
    }
    int32_t last[PW_PRODUCERS];
    for (int i = 0; i < PW_PRODUCERS; i++) {
        last[i] = -1;
    }
    for (int64_t offset = log->start; offset < log->end && world->restarts_of_log == 0; offset++) {
        const struct pw_record *record = &log->records[offset];
        if (world->producers[record->producer].acks == -1 && record->seq <= last[record->producer]) {
            pw_fail(world, "D7: producer %d has a record twice or out of order at %lld", record->producer,
                    (long long)offset);
        }
        last[record->producer] = record->seq;
    }
}
