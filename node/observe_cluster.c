/* What a node tells of replication and of the cluster, as it knows it. */
#include "node/node_struct.h"
#include "node/observe.h"
#include "node/partition.h"
#include "node/replica_fetcher.h"

#include <stdio.h>

/* NULL: there are as many as may be. */
static struct stele_peer_view *peer_of(struct stele_observation *observation, int32_t node_id)
{
    for (int i = 0; i < observation->peer_count; i++) {
        if (observation->peers[i].node_id == node_id)
            return &observation->peers[i];
    }
    if (observation->peer_count == STELE_PEER_VIEWS_MAX)
        return NULL;
    struct stele_peer_view *peer = &observation->peers[observation->peer_count++];
    *peer = (struct stele_peer_view){.node_id = node_id, .fetcher_lag = -1, .fetcher_partitions = -1, .quorum_lag = -1};
    (void)snprintf(peer->name, sizeof(peer->name), "%d", (int)node_id);
    return peer;
}

static void take_leader(struct stele_views *views, const struct stele_replica *replica)
{
    const struct stele_leader *leader = &replica->leader;
    int32_t min_isr = stele_leader_min_isr(leader);
    views->leaders++;
    views->under_replicated += leader->isr.count < leader->replicas.count - replica->state.adding.count;
    views->under_min_isr += leader->isr.count < min_isr;
    views->at_min_isr += leader->isr.count == min_isr;
    views->reassigning += replica->state.adding.count + replica->state.removing.count > 0;
}

void stele_observe__replica(struct stele_observation *observation, const struct stele_partition *partition)
{
    const struct stele_replica *replica = &partition->replica;
    int32_t leader_id = stele_replica_fetcher_leader(partition);
    struct stele_peer_view *peer = leader_id != STELE_NO_NODE ? peer_of(observation, leader_id) : NULL;
    observation->views.damaged += partition->is_damaged;
    if (replica->role == STELE_REPLICA_LEADER)
        take_leader(&observation->views, replica);
    if (peer == NULL)
        return;
    int64_t lag = replica->leader_end_offset >= 0 && partition->log != NULL
                      ? stele_max_i64(replica->leader_end_offset - stele_log_end_offset(partition->log), 0)
                      : -1;
    peer->fetcher_partitions = stele_max_i64(peer->fetcher_partitions, 0) + 1;
    peer->fetcher_lag = stele_max_i64(peer->fetcher_lag, lag);
    observation->views.lag_max = stele_max_i64(observation->views.lag_max, lag);
}

static void take_cluster(struct stele_views *views, const struct stele_image *image)
{
    views->topics = stele_image_topic_count(image);
    views->cluster_partitions = image->tally.known;
    views->cluster_offline = image->tally.leaderless;
    views->cluster_reassigning = image->tally.reassigning;
    views->cluster_imbalance = image->tally.imbalanced;
    for (const struct stele_image_member *member = image->members; member != NULL; member = member->next) {
        views->cluster_active_nodes += !member->is_fenced;
        views->cluster_fenced_nodes += member->is_fenced;
    }
}

static void take_lag(struct stele_observation *observation, const struct stele_quorum *quorum, int32_t node_id,
                     const struct stele_quorum_progress *progress)
{
    struct stele_peer_view *peer = node_id != quorum->self.node_id ? peer_of(observation, node_id) : NULL;
    if (peer != NULL && progress->synced_offset >= 0)
        peer->quorum_lag = stele_max_i64(quorum->appended_offset - progress->synced_offset, 0);
}

static void take_quorum(struct stele_observation *observation, const struct stele_metadata_log *mlog)
{
    const struct stele_quorum *quorum = &mlog->quorum;
    const struct stele_voters *voters = stele_quorum_voters(quorum);
    struct stele_views *views = &observation->views;
    bool is_leader = quorum->role == STELE_QUORUM_LEADER;
    views->quorum_leader = quorum->election.leader_id;
    views->quorum_epoch = quorum->election.epoch;
    views->quorum_is_leader = is_leader;
    views->quorum_high_watermark = quorum->high_watermark;
    views->quorum_end_offset = quorum->appended_offset;
    views->quorum_applied = mlog->applied_offset;
    views->quorum_voters = voters->count;
    views->quorum_observers = is_leader ? quorum->observer_count : -1;
    for (int32_t i = 0; i < voters->count && is_leader; i++)
        take_lag(observation, quorum, voters->keys[i].node_id, &quorum->voters[i]);
    for (int32_t i = 0; i < quorum->observer_count && is_leader; i++)
        take_lag(observation, quorum, quorum->observers[i].key.node_id, &quorum->observers[i]);
}

void stele_observe__cluster(struct stele_observation *observation, const struct stele_controller *control)
{
    struct stele_views *views = &observation->views;
    if (control->state == STELE_CONTROLLER_SERVING)
        take_cluster(views, &control->mlog.image);
    views->active_controller = control->active.is_active;
    views->quorum_leader = STELE_NO_NODE;
    if (control->mlog.is_running)
        take_quorum(observation, &control->mlog);
}
