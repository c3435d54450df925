/* The ghost that sees all nodes at once, and what must hold of them. Numbers K1 to K22 are those of the facts that the
 * project keeps of Kafka's quorum. */
#include "replication/test/quorum_world.h"

#include <string.h>

static bool is_same_entry(const struct world_entry *a, const struct world_entry *b)
{
    return a->epoch == b->epoch && a->payload == b->payload;
}

void world_check_unique(struct world *world, int64_t offset, const struct world_entry *entry)
{
    uint64_t hash = ((uint64_t)offset * UINT64_C(0x9e3779b97f4a7c15)) ^ ((uint64_t)(uint32_t)entry->epoch << 17);
    hash ^= hash >> 31;
    for (uint64_t i = 0; i < WORLD_UNIQUE; i++) {
        uint64_t at = (hash + i) % WORLD_UNIQUE;
        if (world->unique[at].payload == 0) {
            world->unique[at].offset = offset;
            world->unique[at].epoch = entry->epoch;
            world->unique[at].payload = entry->payload;
            return;
        }
        if (world->unique[at].offset == offset && world->unique[at].epoch == entry->epoch) {
            if (world->unique[at].payload != entry->payload) {
                world_break(world, "K9", "offset %lld of epoch %d has two contents", (long long)offset, entry->epoch);
            }
            return;
        }
    }
}

void world_check_truncate(struct world *world, struct world_node *node, int64_t end_offset)
{
    if (end_offset < node->quorum.high_watermark) {
        world_break(world, "K10", "node %d truncates to %lld below its high watermark", node->id,
                    (long long)end_offset);
    }
    if (end_offset < world->committed_end && end_offset < node->end && end_offset >= node->log_start &&
        is_same_entry(&node->entries[end_offset], &world->committed[end_offset])) {
        world_break(world, "K10", "node %d cuts off the committed record %lld", node->id, (long long)end_offset);
    }
}

/* K1, K5: when a node takes the lead. */
void world_check_leader(struct world *world, struct world_node *node)
{
    int32_t epoch = node->quorum.election.epoch;
    if (epoch >= WORLD_EPOCHS) {
        world_break(world, "world", "too many epochs");
        return;
    }
    if (world->leaders[epoch] >= 0) {
        world_break(world, "K1", "nodes %d and %d lead epoch %d", world->leaders[epoch], node->id, epoch);
    }
    world->leaders[epoch] = node->id;
    if (!stele_quorum__may_campaign(&node->quorum)) {
        world_break(world, "K18", "node %d leads and is no voter", node->id);
    }
    /* Its election may be long ago, when its disk was slow: what a later epoch committed is not its own to have. */
    for (int64_t i = node->log_start; i < world->committed_end && world->committed_in[i] < epoch; i++) {
        if (i >= node->end || !is_same_entry(&node->entries[i], &world->committed[i])) {
            world_break(world, "K5", "leader %d of epoch %d lacks the committed record %lld", node->id, epoch,
                        (long long)i);
            return;
        }
    }
}

static bool is_same_election(const struct stele_election_state *a, const struct stele_election_state *b)
{
    return a->epoch == b->epoch && a->leader_id == b->leader_id && a->voted.node_id == b->voted.node_id &&
           stele_uuid_equal(&a->voted.directory_id, &b->voted.directory_id);
}

/* K3: one vote an epoch, whatever crashed between. */
static void note_vote(struct world *world, struct world_node *node, int32_t epoch,
                      const struct stele_replica_key *candidate)
{
    struct stele_replica_key *vote = &node->votes[epoch];
    if (vote->node_id != STELE_NO_NODE && !stele_replica_key_equal(vote, candidate)) {
        world_break(world, "K3", "node %d votes for %d and for %d in epoch %d", node->id, vote->node_id,
                    candidate->node_id, epoch);
    }
    *vote = *candidate;
}

/* K2: nothing leaves a node that its disk does not know. */
void world_check_send(struct world *world, struct world_node *node)
{
    struct stele_election_state disk = {.leader_id = STELE_NO_NODE, .voted = {.node_id = STELE_NO_NODE}};
    if (node->has_election) {
        disk = node->election;
    }
    if (!is_same_election(&disk, &node->quorum.election)) {
        world_break(world, "K2", "node %d speaks in epoch %d with epoch %d on its disk, or another vote", node->id,
                    node->quorum.election.epoch, disk.epoch);
    }
    if (node->quorum.role == STELE_QUORUM_CANDIDATE && node->quorum.election.epoch < WORLD_EPOCHS) {
        struct stele_replica_key self = world_key(world, node->id);
        note_vote(world, node, node->quorum.election.epoch, &self);
    }
}

void world_check_answer(struct world *world, struct world_node *node, const struct stele_quorum_request *request,
                        const struct stele_quorum_answer *answer)
{
    if (request->kind != STELE_QUORUM_VOTE || answer->err != STELE_OK || !answer->u.is_granted ||
        request->u.vote.is_pre_vote || request->epoch >= WORLD_EPOCHS) {
        return;
    }
    note_vote(world, node, request->epoch, &request->from);
}

static int32_t members_without(const struct stele_voters *a, const struct stele_voters *b)
{
    int32_t count = 0;
    for (int32_t i = 0; i < a->count; i++) {
        count += stele_voters_has(b, &a->keys[i]) ? 0 : 1;
    }
    return count;
}

/* K15, K16: before a leader appends a set of voters. */
void world_check_voters(struct world *world, struct world_node *node, const struct stele_voters *voters)
{
    int64_t last = -1;
    const struct stele_voters *before = &world->founders;
    if (node->log_start > 0) {
        before = &node->snapshots[0].voters;
        last = node->snapshots[0].id.end_offset - 1;
    }
    for (int64_t i = node->end - 1; i >= node->log_start; i--) {
        if (node->entries[i].voters >= 0) {
            before = &world->sets[node->entries[i].voters];
            last = i;
            break;
        }
    }
    if (stele_voters_equal(before, voters)) {
        return;
    }
    if (members_without(before, voters) + members_without(voters, before) != 1) {
        world_break(world, "K15", "leader %d changes more than one voter", node->id);
    }
    if (node->quorum.high_watermark <= node->quorum.epoch_start) {
        world_break(world, "K16", "leader %d changes voters before it committed in epoch %d", node->id,
                    node->quorum.election.epoch);
    }
    if (last >= node->quorum.high_watermark) {
        world_break(world, "K16", "leader %d changes voters while the change at %lld is open", node->id,
                    (long long)last);
    }
}

/* How much of the log with this key is durable and equal to the leader's up to `end`. */
static bool holds(struct world *world, struct world_node *leader, const struct stele_replica_key *key, int64_t end)
{
    struct world_node *node = &world->nodes[key->node_id];
    if (stele_uuid_equal(&node->directory, &key->directory_id)) {
        return node->synced >= end && (node->log_start >= end || leader->log_start >= end ||
                                       is_same_entry(&node->entries[end - 1], &leader->entries[end - 1]));
    }
    for (int32_t i = 0; i < world->retired_count; i++) {
        if (stele_uuid_equal(&world->retired[i].directory, &key->directory_id)) {
            return world->retired[i].synced >= end;
        }
    }
    return false;
}

/* K7, K8: in the step in which a leader's high watermark moved; behind it the voters may be others. */
void world_check_commit(struct world *world, struct world_node *node)
{
    int64_t end = node->quorum.high_watermark;
    const struct stele_voters *voters = stele_quorum_voters(&node->quorum);
    int32_t count = 0;
    for (int32_t i = 0; i < voters->count; i++) {
        count += holds(world, node, &voters->keys[i], end) ? 1 : 0;
    }
    if (count < voters->count / 2 + 1) {
        world_break(world, "K7", "leader %d commits %lld that %d of %d voters hold", node->id, (long long)end, count,
                    voters->count);
    }
    if (end > node->log_start && node->entries[end - 1].epoch != node->quorum.election.epoch) {
        world_break(world, "K8", "leader %d of epoch %d commits %lld of epoch %d by count", node->id,
                    node->quorum.election.epoch, (long long)end, node->entries[end - 1].epoch);
    }
}

/* K4, K6, K11: where any node's high watermark moved. */
static void check_commit(struct world *world, struct world_node *node)
{
    int64_t end = node->quorum.high_watermark;
    if (end < node->seen_high_watermark) {
        world_break(world, "K6", "node %d takes its high watermark back to %lld", node->id, (long long)end);
    }
    if (end == node->seen_high_watermark) {
        return;
    }
    for (int64_t i = stele_max_i64(node->seen_high_watermark, node->log_start); i < end; i++) {
        if (i < world->committed_end) {
            if (!is_same_entry(&world->committed[i], &node->entries[i])) {
                world_break(world, "K4", "node %d commits another record at %lld", node->id, (long long)i);
                return;
            }
            continue;
        }
        world->committed[i] = node->entries[i];
        world->committed_in[i] = node->quorum.election.epoch;
        world->committed_hash[i + 1] = world_mix(world->committed_hash[i], &node->entries[i]);
        world->committed_end = i + 1;
        world->committed_records++;
    }
    node->seen_high_watermark = end;
}

/* K17: the machine's voters are those of the last record in its log. */
static void check_voters(struct world *world, struct world_node *node)
{
    struct stele_voters_at history[STELE_VOTERS_HISTORY_MAX];
    int32_t count = world_history(world, node, history);
    const struct stele_voters *voters = stele_quorum_voters(&node->quorum);
    bool is_equal = count == 0 ? voters->count == 0 : stele_voters_equal(voters, &history[count - 1].voters);
    if (!is_equal) {
        world_break(world, "K17", "node %d counts other voters than its log names", node->id);
    }
}

void world_check_node(struct world *world, struct world_node *node)
{
    stele_quorum_check(&node->quorum);
    check_commit(world, node);
    if (world->broken != NULL || node->quorum.fetch.is_installing) {
        return;
    }
    if (node->quorum.appended_offset != node->end || node->quorum.last_epoch != world_last_epoch(node)) {
        world_break(world, "world", "node %d and its machine disagree about the log's end", node->id);
    }
    if (node->applied > node->quorum.high_watermark || node->applied > world->committed_end ||
        node->hash != world->committed_hash[node->applied]) {
        world_break(world, "K11", "node %d applied %lld records, and not those that are committed", node->id,
                    (long long)node->applied);
    }
    if (node->quorum.role != STELE_QUORUM_LEADER && node->eager_end != node->applied) {
        world_break(world, "K22", "node %d keeps in memory what it appended as a leader", node->id);
    }
    if (node->log_start > 0 &&
        (node->snapshot_count == 0 || node->snapshots[node->snapshot_count - 1].id.end_offset < node->log_start)) {
        world_break(world, "K12", "node %d has no snapshot for its log's start", node->id);
    }
    if (node->has_new_voters) {
        node->has_new_voters = false;
        check_voters(world, node);
    }
}
