/* What must hold of the metadata quorum, after every event of a node (K1, K2, K4, K6, K10 of Raft as KRaft has it) and
 * when the run is over (K3: what was acknowledged holds). */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "proto/record_batch.h"

#include <stdlib.h>
#include <string.h>

struct stele_metadata_log *cluster_metadata_of(const struct cluster_node *node)
{
    struct stele_node *of = node->server.node;
    if (!cluster_node_lives(node) || of->control.mlog.log == NULL || !of->control.mlog.is_running)
        return NULL;
    return &of->control.mlog;
}

static const char *name_of(const struct cluster_node *node)
{
    return node->server.process.name;
}

static void check_leader(struct cluster_node *node, const struct stele_quorum *quorum)
{
    struct cluster_quorum *known = &node->run->quorum;
    int32_t epoch = quorum->election.epoch;
    if (epoch >= CLUSTER_EPOCHS_MAX)
        sim_world_fail(&node->run->world, "KL6: %s is in epoch %d: elections do not end", name_of(node), (int)epoch);
    known->epoch_max = epoch > known->epoch_max ? epoch : known->epoch_max;
    if (quorum->role != STELE_QUORUM_LEADER)
        return;
    int *leader = &known->leaders[epoch];
    if (*leader == 0)
        cluster_reach(node->run, CLUSTER_POINT_ELECTION);
    if (*leader != 0 && *leader != node->number + 1)
        sim_world_fail(&node->run->world, "K1: nodes %d and %d lead epoch %d", *leader, node->number + 1, (int)epoch);
    *leader = node->number + 1;
}

/* What it can be asked now is synced there; who is dead or has another disk is believed. */
static bool may_hold(const struct cluster *run, const struct stele_replica_key *key, int64_t end_offset)
{
    const struct cluster_node *node = &run->nodes[key->node_id - 1];
    const struct stele_metadata_log *mlog = cluster_metadata_of(node);
    if (mlog == NULL || !stele_uuid_equal(&mlog->quorum.self.directory_id, &key->directory_id))
        return true;
    return mlog->quorum.synced_offset >= end_offset;
}

/* Most of them have synced what is below. */
static bool is_held_by_most(const struct cluster *run, const struct stele_voters *voters, int64_t end_offset,
                            int32_t *out_count)
{
    *out_count = 0;
    for (int32_t i = 0; i < voters->count; i++)
        *out_count += may_hold(run, &voters->keys[i], end_offset);
    return *out_count >= voters->count / 2 + 1;
}

/* When its high watermark moves, most voters have synced what is below, and the last of that is of its epoch. A change
 * of voters that it waited for, and another behind it, may come in the same step: then the set before that one counts.
 * One that was there before the step counts itself: a leader that is removed must not count on itself.
 */
static void check_commit(struct cluster_node *node, const struct stele_quorum *quorum)
{
    const struct stele_voters_at *last = &quorum->history[quorum->history_count - 1];
    int64_t before = node->led_to, voters_before = node->voters_from;
    bool has_begun = node->led_epoch != quorum->election.epoch;
    if (quorum->role != STELE_QUORUM_LEADER)
        return;
    node->led_epoch = quorum->election.epoch;
    node->led_to = quorum->high_watermark;
    node->voters_from = last->offset;
    if (has_begun || quorum->high_watermark <= before)
        return;
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    int32_t count = 0, before_count = 0;
    bool is_new = quorum->history_count > 1 && last->offset >= quorum->high_watermark && last->offset > voters_before;
    if (!is_held_by_most(node->run, voters, quorum->high_watermark, &count) &&
        !(is_new && is_held_by_most(node->run, &last[-1].voters, quorum->high_watermark, &before_count)))
        sim_world_fail(&node->run->world, "K7: %s commits up to %lld, which %d of %d voters have synced", name_of(node),
                       (long long)quorum->high_watermark, (int)count, (int)voters->count);
    if (quorum->high_watermark <= quorum->epoch_start)
        sim_world_fail(&node->run->world, "K8: %s commits up to %lld by count, and its epoch begins at %lld",
                       name_of(node), (long long)quorum->high_watermark, (long long)quorum->epoch_start);
}

/* K16: voters change one at a time, and in an epoch that has committed something. */
static void check_voters(struct cluster_node *node, const struct stele_quorum *quorum)
{
    const struct stele_voters_at *last = &quorum->history[quorum->history_count - 1];
    bool is_change = quorum->history_count > 1 && !stele_voters_equal(&last->voters, &last[-1].voters);
    if (quorum->role != STELE_QUORUM_LEADER || !is_change || last->offset <= quorum->epoch_start)
        return;
    if (quorum->high_watermark <= quorum->epoch_start)
        sim_world_fail(&node->run->world, "K16: %s changes the voters at %lld, and its epoch has committed nothing",
                       name_of(node), (long long)last->offset);
    if (last[-1].offset >= quorum->high_watermark)
        sim_world_fail(&node->run->world, "K16: %s changes the voters at %lld, and the change at %lld is not committed",
                       name_of(node), (long long)last->offset, (long long)last[-1].offset);
}

static struct cluster_committed *batch_at(struct cluster_quorum *known, int64_t base_offset)
{
    int64_t before = known->capacity;
    known->batches = sim_grow(known->batches, &known->capacity, base_offset + 1, sizeof(*known->batches));
    if (known->capacity > before)
        memset(known->batches + before, 0, (size_t)(known->capacity - before) * sizeof(*known->batches));
    return &known->batches[base_offset];
}

/* The batches that are committed are the same everywhere and for good. */
static void compare(struct cluster_node *node, const struct stele_batch_header *header)
{
    struct cluster_committed *known = batch_at(&node->run->quorum, header->base_offset);
    struct cluster_committed now = {
        .end_offset = stele_batch_last_offset(header) + 1, .crc = header->crc, .epoch = header->partition_leader_epoch};
    if (known->end_offset == 0)
        *known = now;
    if (known->end_offset != now.end_offset || known->crc != now.crc || known->epoch != now.epoch)
        sim_world_fail(&node->run->world, "K2: %s has committed another batch at %lld", name_of(node),
                       (long long)header->base_offset);
    node->checked_to = now.end_offset;
    node->run->quorum.committed_to = stele_max_i64(node->run->quorum.committed_to, now.end_offset);
}

static void check_committed(struct cluster_node *node, struct stele_metadata_log *mlog)
{
    int64_t to = stele_min_i64(mlog->quorum.high_watermark, stele_log_end_offset(mlog->log));
    if (node->checked_to >= to || stele_log_is_failed(mlog->log) || mlog->is_carrying)
        return;
    node->checked_to = stele_max_i64(node->checked_to, stele_log_start_offset(mlog->log));
    while (node->checked_to < to) {
        struct stele_batch_header header;
        if (!cluster_log_find(node->server.disk, stele_log_dir(mlog->log), &node->metadata_place, node->checked_to,
                              &header) ||
            header.base_offset != node->checked_to)
            sim_world_fail(&node->run->world, "%s: what is committed at %lld of the metadata log cannot be read",
                           name_of(node), (long long)node->checked_to);
        compare(node, &header);
    }
}

void cluster_quorum_check(struct cluster_node *node)
{
    struct cluster *run = node->run;
    struct stele_metadata_log *mlog = cluster_metadata_of(node);
    if (mlog == NULL)
        return;
    const char *cluster_id = node->server.node->cluster_id;
    if (run->quorum.cluster_id[0] == 0)
        (void)snprintf(run->quorum.cluster_id, sizeof(run->quorum.cluster_id), "%s", cluster_id);
    if (strcmp(run->quorum.cluster_id, cluster_id) != 0)
        sim_world_fail(&run->world, "two clusters were formed");
    if (!mlog->is_carrying) /* before its election is on the disk it leads nobody, and may forget it */
        check_leader(node, &mlog->quorum);
    check_commit(node, &mlog->quorum);
    check_voters(node, &mlog->quorum);
    check_committed(node, mlog);
}

/* At the end. */

bool cluster_quorum_agrees(struct cluster *run, const char **out_why)
{
    int leaders = 0;
    int64_t end = -1;
    for (int i = 0; i < run->node_count; i++) {
        const struct cluster_node *node = &run->nodes[i];
        const struct stele_metadata_log *mlog = cluster_metadata_of(node);
        if (node->is_gone)
            continue;
        *out_why = "a node is not up";
        if (mlog == NULL || node->server.state != SIM_SERVER_SERVING)
            return false;
        leaders += stele_metadata_log_is_active(mlog);
        *out_why = "the metadata logs differ";
        if ((end >= 0 && end != mlog->applied_offset) || stele_log_end_offset(mlog->log) != mlog->applied_offset)
            return false;
        end = mlog->applied_offset;
    }
    *out_why = "no node or more than one leads the quorum";
    return leaders == 1;
}

static void check_setting(struct cluster_node *node, const struct cluster_tuned *tuned)
{
    const struct stele_image *image = &cluster_metadata_of(node)->image;
    const struct stele_image_settings *settings = stele_image_settings_of(image, STELE_SUBJECT_CLUSTER, "");
    const struct stele_image_change *change = settings == NULL ? NULL : stele_image_setting(settings, tuned->name);
    int64_t number = change == NULL ? 0 : strtoll(change->value, NULL, 10) - tuned->base;
    bool is_fine = number >= tuned->acknowledged && number <= tuned->last;
    if (number > 0 && number < (int64_t)sizeof(tuned->unknown))
        is_fine = is_fine || tuned->unknown[number] != 0;
    if (!is_fine)
        sim_world_fail(&node->run->world, "K3: %s holds change %lld of %s; %lld was acknowledged, %lld the last",
                       name_of(node), (long long)number, tuned->name, (long long)tuned->acknowledged,
                       (long long)tuned->last);
    int64_t holds = stele_settings_int(node->server.node->settings, tuned->name);
    if (number > 0 && holds != tuned->base + number)
        sim_world_fail(&node->run->world, "%s does not live by the settings of its image", name_of(node));
}

void cluster_quorum_check_settings(struct cluster *run)
{
    for (int i = 0; i < run->node_count; i++) {
        struct cluster_node *node = &run->nodes[i];
        if (node->is_gone)
            continue;
        for (int k = 0; k < run->client_count; k++)
            check_setting(node, &run->clients[k].tuned);
        const struct stele_quorum *quorum = &cluster_metadata_of(node)->quorum;
        bool must_vote = !node->is_wiped || node->is_readmitted;
        bool may_vote = must_vote || node->may_be_readmitted || node->was_wiped_early;
        bool votes = stele_quorum_is_voter(quorum);
        if ((must_vote && !votes && !node->was_wiped_early) || (votes && !may_vote))
            sim_world_fail(&run->world, "%s votes: %d", name_of(node), !node->is_wiped);
        if (cluster_metadata_of(node)->image.voter_count != (size_t)run->node_count)
            sim_world_fail(&run->world, "%s knows %zu voters", name_of(node),
                           cluster_metadata_of(node)->image.voter_count);
    }
}
