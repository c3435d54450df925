/* What must hold of what the metadata log says of partitions, whenever a node has applied more of it: D13, D28, D29,
 * and that all nodes say the same (K11). */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "node/partition.h"

#include <stdio.h>
#include <string.h>

static void fail(struct cluster_node *node, const struct cluster_topic *topic, int number, const char *what)
{
    sim_world_fail(&node->run->world, "%s: as n%d has it of %s-%d", what, node->number + 1, topic->name, number);
}

/* D13. */
static void check_sets(struct cluster_node *node, const struct cluster_topic *topic, int number,
                       const struct stele_partition_state *state)
{
    const struct stele_node_set *replicas = &state->replicas;
    if (!stele_node_set_is_subset(&state->isr, replicas) || !stele_node_set_is_subset(&state->elr, replicas) ||
        !stele_node_set_is_subset(&state->adding, replicas) || !stele_node_set_is_subset(&state->removing, replicas))
        fail(node, topic, number, "D13: a set has others than replicas");
    for (int32_t i = 0; i < state->isr.count; i++) {
        if (stele_node_set_has(&state->elr, state->isr.ids[i]))
            fail(node, topic, number, "D13: a node is in sync and eligible");
    }
    if (state->leader_id != STELE_NO_NODE && !stele_node_set_has(&state->isr, state->leader_id))
        fail(node, topic, number, "D13: the leader is not in sync");
}

static bool is_same(const struct stele_partition_state *a, const struct stele_partition_state *b)
{
    return a->leader_id == b->leader_id && a->leader_epoch == b->leader_epoch &&
           stele_node_set_equal(&a->isr, &b->isr) && stele_node_set_equal(&a->elr, &b->elr) &&
           stele_node_set_equal(&a->replicas, &b->replicas);
}

/* D28, D29: from one partition epoch to the next that anybody saw. */
static void check_step(struct cluster_node *node, const struct cluster_topic *topic, int number,
                       const struct stele_partition_state *before, const struct stele_partition_state *state)
{
    if (state->leader_epoch < before->leader_epoch)
        fail(node, topic, number, "D28: the leader epoch goes back");
    if (state->leader_id != before->leader_id && state->leader_epoch == before->leader_epoch)
        fail(node, topic, number, "D29: another leader in the same epoch");
    if (!stele_node_set_equal(&state->isr, &before->isr))
        cluster_reach(node->run, CLUSTER_POINT_ISR_CHANGE);
    if (state->elr.count > 0 && before->elr.count == 0)
        cluster_reach(node->run, CLUSTER_POINT_ELR);
}

/* Who is not there, or is fenced, cannot say what it has: the controller does not ask it. */
static bool are_all_there(const struct cluster_node *by, const struct cluster_topic *topic, int number,
                          const struct stele_node_set *replicas)
{
    const struct stele_image *image = &by->server.node->control.mlog.image;
    for (int32_t i = 0; i < replicas->count; i++) {
        const struct cluster_node *node = &by->run->nodes[replicas->ids[i] - 1];
        const struct cluster_replica *replica = &node->replicas[topic - by->run->book.topics][number];
        const struct stele_image_member *member = stele_image_member_of(image, replicas->ids[i]);
        if (!cluster_node_lives(node) || replica->of == NULL || replica->of->state != STELE_PARTITION_OPEN ||
            node->is_wiped || member == NULL || member->is_fenced)
            return false;
    }
    return true;
}

/* An election that somebody forced, seen first where it was decided. Until somebody led by it others may follow. */
static void note_forced(const struct cluster_node *node, struct cluster_topic *topic, int number,
                        const struct stele_partition_state *state)
{
    struct cluster_partition *partition = &topic->partitions[number];
    bool goes_on = partition->has_state && partition->state.is_recovering;
    bool is_excused = goes_on ? cluster_epoch_at(partition, partition->state.leader_epoch)->is_excused
                              : !are_all_there(node, topic, number, &state->replicas);
    struct cluster_epoch *epoch = cluster_epoch_at(partition, state->leader_epoch);
    epoch->is_excused = epoch->is_forced ? epoch->is_excused : is_excused;
    epoch->is_forced = true;
}

static void check_partition(struct cluster_node *node, struct cluster_topic *topic, int number,
                            const struct stele_partition_state *state)
{
    struct cluster_partition *partition = &topic->partitions[number];
    int32_t *seen = &node->partition_epochs[topic - node->run->book.topics][number];
    if (state->partition_epoch == *seen - 1)
        return;
    if (state->partition_epoch < *seen - 1)
        fail(node, topic, number, "D28: the partition epoch goes back");
    *seen = state->partition_epoch + 1;
    for (int i = 0; i < node->run->node_count; i++) {
        if (!stele_node_set_has(&state->replicas, i + 1) && state->partition_epoch > partition->out_epochs[i] - 1)
            partition->out_epochs[i] = state->partition_epoch + 1;
    }
    check_sets(node, topic, number, state);
    if (partition->has_state && state->partition_epoch == partition->state.partition_epoch &&
        !is_same(state, &partition->state))
        fail(node, topic, number, "K11: another state in the same partition epoch");
    if (partition->has_state && state->partition_epoch <= partition->state.partition_epoch)
        return;
    if (partition->has_state)
        check_step(node, topic, number, &partition->state, state);
    if (state->is_recovering)
        note_forced(node, topic, number, state);
    partition->state = *state;
    partition->has_state = true;
}

void cluster_states_check(struct cluster_node *node)
{
    struct stele_metadata_log *mlog = cluster_metadata_of(node);
    if (mlog == NULL || mlog->applied_offset == node->applied_offset)
        return;
    node->applied_offset = mlog->applied_offset;
    for (int i = 0; i < node->run->book.topic_count; i++) {
        const struct stele_image_topic *it = stele_image_topic_named(&mlog->image, node->run->book.topics[i].name);
        struct cluster_topic *topic =
            cluster_book_seen(node->run, i, it == NULL ? NULL : &it->topic_id, mlog->applied_offset);
        for (int32_t k = 0; it != NULL && k < it->partition_count && k < CLUSTER_PARTITIONS_MAX; k++) {
            if (it->partitions[k].is_known)
                check_partition(node, topic, k, &it->partitions[k].state);
        }
    }
}

void cluster_states_forget(struct cluster_node *node)
{
    node->applied_offset = -1;
    memset(node->partition_epochs, 0, sizeof(node->partition_epochs));
}

bool cluster_states_are_led(const struct cluster *run)
{
    for (int i = 0; i < run->book.life_count; i++) {
        const struct cluster_topic *topic = &run->book.topics[i];
        for (int k = 0; k < topic->partition_count && !topic->is_gone; k++) {
            if (topic->partitions[k].has_state && topic->partitions[k].state.leader_id < 1)
                return false;
        }
    }
    return true;
}

/* At the end. */

static void set_text(const struct stele_node_set *set, char out_text[64])
{
    size_t used = 0;
    out_text[0] = 0;
    for (int32_t i = 0; i < set->count && used < 50; i++)
        used += (size_t)snprintf(out_text + used, 64 - used, "%s%d", i == 0 ? "" : ",", (int)set->ids[i]);
}

void cluster_states_print(struct cluster *run)
{
    for (int i = 0; i < run->book.life_count; i++) {
        const struct cluster_topic *topic = &run->book.topics[i];
        for (int k = 0; k < topic->partition_count && !topic->is_gone; k++) {
            const struct cluster_partition *it = &topic->partitions[k];
            char isr[64], elr[64], replicas[64];
            set_text(&it->state.isr, isr);
            set_text(&it->state.elr, elr);
            set_text(&it->state.replicas, replicas);
            (void)fprintf(
                stderr,
                "  %s-%d: leader %d in epoch %d, partition epoch %d, replicas %s, isr %s, elr %s, committed %lld\n",
                topic->name, k, (int)it->state.leader_id, (int)it->state.leader_epoch, (int)it->state.partition_epoch,
                replicas, isr, elr, (long long)it->end_offset);
            for (int n = 0; n < run->node_count; n++) {
                const struct cluster_replica *replica = &run->nodes[n].replicas[i][k];
                if (replica->of != NULL && cluster_node_lives(&run->nodes[n]))
                    (void)fprintf(
                        stderr, "    n%d: role %d, leader epoch %d, start %lld, high watermark %lld, end %lld\n", n + 1,
                        (int)replica->role, (int)replica->of->replica.leader_epoch, (long long)replica->start_offset,
                        (long long)replica->high_watermark, (long long)replica->end_offset);
            }
        }
    }
}

/* What the leader deleted is not kept for long. */
static bool begins_elsewhere(const struct cluster *run, const struct cluster_topic *topic, int number,
                             const struct cluster_replica *replica)
{
    const struct cluster_node *leader = &run->nodes[topic->partitions[number].state.leader_id - 1];
    return replica->start_offset < leader->replicas[topic - run->book.topics][number].start_offset;
}

static bool is_whole(struct cluster *run, struct cluster_topic *topic, int number, const char **out_why)
{
    const struct cluster_partition *partition = &topic->partitions[number];
    const struct stele_partition_state *state = &partition->state;
    int32_t living = 0;
    *out_why = "a partition is not known";
    if (!partition->has_state)
        return false;
    *out_why = "a partition has no leader";
    if (state->leader_id < 1)
        return false;
    *out_why = "a reassignment does not end";
    if (state->adding.count > 0 || state->removing.count > 0)
        return false;
    for (int32_t i = 0; i < state->replicas.count; i++) {
        struct cluster_node *node = &run->nodes[state->replicas.ids[i] - 1];
        const struct cluster_replica *replica = &node->replicas[topic - run->book.topics][number];
        if (node->is_gone)
            continue;
        living++;
        *out_why = "a living replica is not in sync";
        if (!stele_node_set_has(&state->isr, node->number + 1))
            return false;
        *out_why = "a replica begins below its leader";
        if (replica->of != NULL && state->leader_id != node->number + 1 &&
            begins_elsewhere(run, topic, number, replica))
            return false;
        *out_why = "a replica has not all that is committed, or more";
        if (replica->of == NULL || replica->high_watermark != partition->end_offset ||
            replica->end_offset != partition->end_offset)
            return false;
    }
    *out_why = "a node that is gone is in sync";
    return state->isr.count == living;
}

/* No node has anything open of a topic that was deleted. */
static bool is_left(const struct cluster *run, const struct cluster_topic *topic)
{
    for (int i = 0; i < run->node_count * CLUSTER_PARTITIONS_MAX; i++) {
        const struct cluster_node *node = &run->nodes[i / CLUSTER_PARTITIONS_MAX];
        if (cluster_node_lives(node) && node->replicas[topic - run->book.topics][i % CLUSTER_PARTITIONS_MAX].of != NULL)
            return true;
    }
    return false;
}

bool cluster_states_are_whole(struct cluster *run, const char **out_why)
{
    for (int i = 0; i < run->book.life_count; i++) {
        struct cluster_topic *topic = &run->book.topics[i];
        *out_why = "a replica is left of a topic that was deleted";
        if (topic->is_gone && is_left(run, topic))
            return false;
        bool is_there = topic->is_seen ? !topic->is_gone : topic->is_made && topic->deletes == 0;
        for (int k = 0; k < topic->partition_count && is_there; k++) {
            if (!is_whole(run, topic, k, out_why))
                return false;
        }
    }
    return true;
}
