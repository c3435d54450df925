/* The role of a partition, and leading. Following is in partition_follow.c. Invariants: partition_replica.h. */
#include "node/partition_replica.h"

#include "base/check.h"
#include "node/isr_wish.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"
#include "node/replica_session.h"
#include "storage/log_dirs.h"

#include <string.h>

static struct stele_partition *partition_of(struct stele_replica *replica)
{
    return STELE_CONTAINER_OF(replica, struct stele_partition, replica);
}

struct stele_log_view stele_replica__view(const struct stele_partition *partition)
{
    const struct stele_log *log = partition->log;
    int64_t start_offset = stele_log_start_offset(log);
    return (struct stele_log_view){.start_offset = start_offset,
                                   .end_offset = stele_log_end_offset(log),
                                   /* Bytes under a name that is not synced are as good as not synced. */
                                   .synced_offset = partition->is_named ? stele_log_recovery_point(log) : start_offset,
                                   .high_watermark = stele_log_high_watermark(log),
                                   .last_epoch = stele_epoch_cache_latest(stele_log_epochs(log))};
}

struct stele_epoch_end stele_replica__epoch_end(const struct stele_partition *partition, int32_t epoch)
{
    struct stele_epoch_end end = {STELE_EPOCH_NONE, STELE_OFFSET_NONE};
    if (epoch >= 0)
        stele_epoch_cache_end_offset(stele_log_epochs(partition->log), epoch, stele_log_end_offset(partition->log),
                                     &end.epoch, &end.end_offset);
    return end;
}

static struct stele_leader_settings leader_settings(const struct stele_partition *partition,
                                                    const struct stele_log_config *config)
{
    return (struct stele_leader_settings){.min_insync_replicas = config->min_insync_replicas,
                                          .replica_lag_ms = partition->shard->node->limits.replica_lag_ms,
                                          .is_flush_before_ack = config->flush_before_ack};
}

static struct stele_follower_settings follower_settings(const struct stele_partition *partition,
                                                        const struct stele_log_config *config)
{
    return (struct stele_follower_settings){.fetch_backoff_ms = partition->shard->node->limits.replica_fetch_backoff_ms,
                                            .is_flush_before_ack = config->flush_before_ack};
}

/* Visible bytes: what was appended when the log ended at or below the high watermark. */

static void note_appended(struct stele_replica *replica, int64_t end_offset, int64_t bytes)
{
    replica->appended_bytes += bytes;
    if (replica->mark_count < STELE_VISIBLE_MARKS)
        replica->mark_count++;
    replica->marks[replica->mark_count - 1] =
        (struct stele_visible_mark){.end_offset = end_offset, .bytes = replica->appended_bytes};
}

static void count_visible(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    int64_t high_watermark = stele_log_high_watermark(partition->log);
    int passed = 0;
    while (passed < replica->mark_count && replica->marks[passed].end_offset <= high_watermark)
        partition->visible_bytes = replica->marks[passed++].bytes;
    replica->mark_count -= passed;
    if (passed > 0 && replica->mark_count > 0)
        memmove(replica->marks, replica->marks + passed, (size_t)replica->mark_count * sizeof(*replica->marks));
}

/* Leading. */

/* The index gets the beginning of the epoch also when nothing is appended in it; without memory it is tried again. */
static void begin_epoch(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    if (!replica->has_no_epoch_start)
        return;
    replica->has_no_epoch_start = stele_log_begin_epoch(partition->log, replica->leader.leader_epoch,
                                                        replica->leader.epoch_start_offset) != STELE_OK;
}

static void carry_out(struct stele_partition *partition, const struct stele_leader_update *update)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_shard *shard = partition->shard;
    if (update->has_epoch_start)
        replica->has_no_epoch_start = true;
    begin_epoch(partition);
    if (update->has_high_watermark) {
        stele_log_set_high_watermark(partition->log, update->high_watermark);
        shard->is_changed = true;
        count_visible(partition);
    }
    if (update->deadline_ms == INT64_MAX)
        stele_timer_cancel(shard->wheel, &replica->timer);
    else
        stele_shard_arm(shard, &replica->timer, update->deadline_ms);
    if (update->wakes_waiters)
        stele_partition__look(partition);
    if (update->wakes_fetches && (update->has_epoch_start || !replica->leader.is_leading))
        stele_replica_watchers_wake(partition);
    else if (update->wakes_fetches)
        stele_replica_watchers_raise(partition);
}

/* Of changes that are committed, whatever told of it first: the answer to the wish or the metadata. */
static void count_isr(struct stele_partition *partition, const struct stele_leader_event *event, int32_t before)
{
    struct stele_metrics *metrics = partition->shard->env->metrics;
    int32_t now = partition->replica.leader.isr.count;
    if (now < before)
        STELE_METRIC_ADD(metrics, isr_shrinks, 1);
    else if (now > before)
        STELE_METRIC_ADD(metrics, isr_expands, 1);
    if (event->kind == STELE_LEADER_ISR_ANSWER && event->isr_answer.err != STELE_OK)
        STELE_METRIC_ADD(metrics, isr_failures, 1);
}

static void lead_step(struct stele_partition *partition, struct stele_leader_event *event,
                      struct stele_leader_update *out_update)
{
    struct stele_replica *replica = &partition->replica;
    int32_t epoch = replica->leader.is_leading ? replica->leader.leader_epoch : -1, isr = replica->leader.isr.count;
    event->now_ms = stele_env_mono_ms(partition->shard->env);
    event->log = stele_replica__view(partition);
    stele_leader_step(&replica->leader, event, out_update);
    if (replica->leader.is_leading && replica->leader.leader_epoch == epoch)
        count_isr(partition, event, isr);
    enum stele_err err =
        out_update->has_isr_change ? stele_isr_wish_send(partition, &out_update->isr_change) : STELE_OK;
    carry_out(partition, out_update);
    if (err != STELE_OK) { /* as if it had been lost on the way */
        struct stele_leader_update update;
        struct stele_leader_event lost = {.kind = STELE_LEADER_ISR_ANSWER,
                                          .now_ms = event->now_ms,
                                          .log = stele_replica__view(partition),
                                          .isr_answer = {.change_id = out_update->isr_change.change_id, .err = err}};
        stele_leader_step(&replica->leader, &lost, &update);
        carry_out(partition, &update);
    }
}

static void lead_event(struct stele_partition *partition, enum stele_leader_event_kind kind)
{
    struct stele_leader_update update;
    struct stele_leader_event event = {.kind = kind};
    lead_step(partition, &event, &update);
}

static void timer_fired(struct stele_timer *timer)
{
    struct stele_partition *partition = partition_of(STELE_CONTAINER_OF(timer, struct stele_replica, timer));
    if (partition->replica.role == STELE_REPLICA_LEADER)
        lead_event(partition, STELE_LEADER_TICK);
}

static struct stele_node_status status_of(const struct stele_shard *shard, int32_t node_id)
{
    const struct stele_known_node *known = stele_nodes_find(shard->nodes, node_id);
    return known != NULL ? known->status : (struct stele_node_status){.node_id = node_id, .node_epoch = -1};
}

static void lead(struct stele_partition *partition, const struct stele_partition_state *state)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_node_status statuses[STELE_REPLICAS_MAX];
    struct stele_leader_update update;
    if (replica->role == STELE_REPLICA_FOLLOWER)
        stele_replica__unfollow(partition);
    /* What it has and readers did not see yet will become visible at once, whatever it is. */
    if (replica->role != STELE_REPLICA_LEADER &&
        stele_log_high_watermark(partition->log) < stele_log_end_offset(partition->log))
        note_appended(replica, stele_log_end_offset(partition->log), stele_log_bytes(partition->log));
    replica->role = STELE_REPLICA_LEADER;
    replica->leader.node_epoch = partition->shard->node->node_epoch;
    for (int32_t i = 0; i < state->replicas.count; i++)
        statuses[i] = status_of(partition->shard, state->replicas.ids[i]);
    struct stele_leader_event event = {
        .kind = STELE_LEADER_LEAD, .state = state, .nodes = statuses, .node_count = state->replicas.count};
    lead_step(partition, &event, &update);
}

void stele_replica__lead_anew(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    if (replica->role != STELE_REPLICA_LEADER || replica->cut != STELE_CUT_NONE)
        return;
    struct stele_leader_settings settings = replica->leader.settings;
    stele_leader_init(&replica->leader, partition->shard->node->node_id, -1, &settings);
    replica->mark_count = 0;
    lead(partition, &replica->state);
}

static void resign(struct stele_partition *partition, enum stele_replica_role role)
{
    lead_event(partition, STELE_LEADER_RESIGN);
    partition->replica.role = role;
    stele_timer_cancel(partition->shard->wheel, &partition->replica.timer);
    stele_partition__look(partition);
}

/* States. */

static bool is_old(const struct stele_replica *replica, const struct stele_partition_state *state)
{
    return state->leader_epoch < replica->leader_epoch ||
           (state->leader_epoch == replica->leader_epoch && state->partition_epoch < replica->partition_epoch);
}

void stele_replica__take_state(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    const struct stele_partition_state *state = &replica->state;
    if (!replica->has_state || partition->state != STELE_PARTITION_OPEN || replica->cut != STELE_CUT_NONE ||
        partition->is_held)
        return;
    replica->has_state = false;
    if (is_old(replica, state))
        return;
    replica->leader_id = state->leader_id;
    replica->leader_epoch = state->leader_epoch;
    replica->partition_epoch = state->partition_epoch;
    replica->replica_count = state->replicas.count;
    if (state->leader_id == partition->shard->node->node_id) {
        lead(partition, state);
        stele_partition__wake_reads(partition); /* that were parked while it followed */
        return;
    }
    if (replica->role == STELE_REPLICA_LEADER)
        resign(partition, STELE_REPLICA_FOLLOWER);
    replica->role = STELE_REPLICA_FOLLOWER;
    stele_replica__follow(partition, state);
    stele_partition__wake_reads(partition); /* of an earlier epoch */
}

static void state_home(struct stele_task *task)
{
    struct stele_replica *replica = STELE_CONTAINER_OF(task, struct stele_replica, state_task);
    struct stele_partition *partition = partition_of(replica);
    replica->is_state_sent = false;
    if (replica->has_next_state) {
        replica->has_next_state = false;
        stele_partition_send_state(partition, &replica->next_state);
    }
}

static void state_arrived(struct stele_task *task)
{
    struct stele_replica *replica = STELE_CONTAINER_OF(task, struct stele_replica, state_task);
    struct stele_partition *partition = partition_of(replica);
    struct stele_shard *shard = partition->shard;
    replica->state = replica->sent_state;
    replica->has_state = true;
    stele_replica__take_state(partition);
    task->run = state_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], task);
}

void stele_partition_send_state(struct stele_partition *partition, const struct stele_partition_state *state)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_shard *shard = partition->shard;
    if (partition->is_leaving)
        return;
    if (replica->is_state_sent) {
        replica->next_state = *state;
        replica->has_next_state = true;
        return;
    }
    replica->is_state_sent = true;
    replica->sent_state = *state;
    replica->state_task.run = state_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &replica->state_task);
}

/* Life. */

void stele_replica__init(struct stele_partition *partition, const struct stele_partition_state *first)
{
    struct stele_replica *replica = &partition->replica;
    int32_t node_id = partition->shard->node->node_id;
    struct stele_leader_settings lead_by = leader_settings(partition, &partition->open.config);
    struct stele_follower_settings follow_by = follower_settings(partition, &partition->open.config);
    replica->leader_id = STELE_NO_NODE;
    replica->leader_epoch = replica->partition_epoch = -1;
    replica->replica_count = first->replicas.count;
    replica->leader_end_offset = replica->doubted_offset = -1;
    replica->told_recovery_point = partition->open.recovery_point;
    replica->told_log_start = partition->open.log_start_offset;
    replica->told_high_watermark = partition->open.high_watermark;
    replica->state = *first;
    replica->has_state = true;
    stele_leader_init(&replica->leader, node_id, -1, &lead_by);
    stele_follower_init(&replica->follower, node_id, &follow_by);
    stele_list_init(&replica->watchers);
    stele_list_init(&replica->truncate.wait.link);
    stele_timer_init(&replica->timer, timer_fired);
    stele_replica__init_following(partition);
}

void stele_replica__opened(struct stele_partition *partition)
{
    stele_replica__configured(partition);
    stele_replica__take_state(partition);
    stele_repair_look(partition);
}

void stele_replica__suspend(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_follower_settings settings = follower_settings(partition, stele_log_config(partition->log));
    stele_replica__end(partition);
    stele_follower_init(&replica->follower, partition->shard->node->node_id, &settings);
    replica->mark_count = 0;
    replica->is_agreed = false;
    replica->leader_end_offset = replica->doubted_offset = -1;
    replica->has_state = true; /* the one that it had, unless another comes */
}

void stele_replica__end(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    if (replica->role == STELE_REPLICA_LEADER)
        resign(partition, STELE_REPLICA_NONE);
    else if (replica->role == STELE_REPLICA_FOLLOWER)
        stele_replica__unfollow(partition);
    replica->role = STELE_REPLICA_NONE;
    if (partition->state == STELE_PARTITION_REMOVED)
        stele_replica_watchers_part(partition);
    else
        stele_replica_watchers_wake(partition);
}

void stele_replica__appended(struct stele_partition *partition, int64_t bytes)
{
    note_appended(&partition->replica, stele_log_end_offset(partition->log), bytes);
    stele_replica_watchers_wake(partition);
}

void stele_replica__synced(struct stele_partition *partition)
{
    if (partition->replica.role == STELE_REPLICA_LEADER)
        lead_event(partition, STELE_LEADER_LOG);
    else if (partition->replica.role == STELE_REPLICA_FOLLOWER)
        stele_replica__follow_synced(partition);
}

void stele_replica__configured(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_leader_update update;
    struct stele_leader_event event = {.kind = STELE_LEADER_SETTINGS,
                                       .settings = leader_settings(partition, stele_log_config(partition->log))};
    if (replica->role == STELE_REPLICA_LEADER)
        lead_step(partition, &event, &update);
    else
        replica->leader.settings = event.settings;
    stele_replica__follow_configured(partition, follower_settings(partition, stele_log_config(partition->log)));
}

static bool is_same_status(const struct stele_node_status *a, const struct stele_node_status *b)
{
    return a->rack == b->rack && a->node_epoch == b->node_epoch && a->is_active == b->is_active &&
           a->is_leaving == b->is_leaving;
}

void stele_replica__nodes_changed(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_shard *shard = partition->shard;
    if (replica->role == STELE_REPLICA_FOLLOWER)
        stele_replica__follow_again(partition);
    if (replica->role != STELE_REPLICA_LEADER)
        return;
    replica->leader.node_epoch = shard->node->node_epoch;
    struct stele_node_status changed[STELE_REPLICAS_MAX];
    struct stele_leader_event event = {.kind = STELE_LEADER_NODES, .nodes = changed};
    for (int32_t i = 0; i < replica->leader.replicas.count; i++) {
        struct stele_node_status known = replica->leader.followers[i].status;
        struct stele_node_status now = status_of(shard, replica->leader.replicas.ids[i]);
        if (now.node_epoch < 0) { /* it is not registered any more */
            now = known;
            now.is_active = false;
        }
        if (!is_same_status(&known, &now))
            changed[event.node_count++] = now;
    }
    struct stele_leader_update update;
    if (event.node_count > 0)
        lead_step(partition, &event, &update);
}

void stele_replica__wish_answered(struct stele_partition *partition, const struct stele_isr_answer *answer)
{
    struct stele_leader_update update;
    struct stele_leader_event event = {.kind = STELE_LEADER_ISR_ANSWER, .isr_answer = *answer};
    if (partition->replica.role == STELE_REPLICA_LEADER)
        lead_step(partition, &event, &update);
}

enum stele_err stele_replica__check_leads(struct stele_op *op)
{
    const struct stele_replica *replica = &op->partition->replica;
    if (op->leader_epoch > replica->leader_epoch)
        return STELE_UNKNOWN_LEADER_EPOCH;
    bool is_fenced = op->leader_epoch >= 0 && op->leader_epoch < replica->leader_epoch;
    /* Who leads by the metadata, and does not since it was started anew, follows nobody: it may have lost what readers
     * hold, and they would take its word for the leader's. */
    bool follows = replica->role == STELE_REPLICA_FOLLOWER && replica->leader_id != STELE_NO_NODE;
    if (!is_fenced && (replica->role == STELE_REPLICA_LEADER || (follows && op->may_follow)))
        return STELE_OK;
    op->current_leader_id = replica->leader_id;
    op->current_leader_epoch = replica->leader_epoch;
    return is_fenced ? STELE_FENCED_LEADER_EPOCH : STELE_NOT_LEADER_OR_FOLLOWER;
}

static bool is_at_first_batch(const struct stele_partition *partition, int64_t offset)
{
    struct stele_log *log = partition->log;
    struct stele_read in = {.offset = stele_log_start_offset(log),
                            .bound = stele_log_end_offset(log),
                            .max_bytes = STELE_BATCH_HEADER_BYTES,
                            .min_one = true};
    struct stele_slice slice = {.file = NULL};
    uint8_t bytes[STELE_BATCH_HEADER_BYTES];
    struct stele_batch_header header;
    bool is_it = false;
    if (offset >= in.offset || stele_log_read(log, &in, &slice) != STELE_OK || slice.bytes < sizeof(bytes))
        return false;
    if (stele_file_read(stele_cached_file_send(slice.file)->file, bytes, sizeof(bytes), slice.pos) == STELE_OK &&
        stele_batch_header_read(bytes, sizeof(bytes), &header) == STELE_OK)
        is_it = header.base_offset == offset;
    stele_slice_release(&slice);
    return is_it;
}

struct stele_fetch_answer stele_replica__look(struct stele_partition *partition, int32_t node_id, int64_t node_epoch,
                                              const struct stele_fetch_line *line)
{
    struct stele_leader_event event = {.kind = STELE_LEADER_FETCH,
                                       .now_ms = stele_env_mono_ms(partition->shard->env),
                                       .log = stele_replica__view(partition),
                                       .fetcher_id = node_id,
                                       .fetcher_epoch = node_epoch,
                                       .line = *line,
                                       .epoch_end = stele_replica__epoch_end(partition, line->last_fetched_epoch),
                                       .is_at_first_batch = is_at_first_batch(partition, line->fetch_offset)};
    return stele_leader_look(&partition->replica.leader, &event);
}

struct stele_fetch_answer stele_replica__fetched(struct stele_partition *partition, int32_t node_id, int64_t node_epoch,
                                                 const struct stele_fetch_line *line)
{
    struct stele_leader_update update;
    struct stele_leader_event event = {.kind = STELE_LEADER_FETCH,
                                       .fetcher_id = node_id,
                                       .fetcher_epoch = node_epoch,
                                       .line = *line,
                                       .epoch_end = stele_replica__epoch_end(partition, line->last_fetched_epoch),
                                       .is_at_first_batch = is_at_first_batch(partition, line->fetch_offset)};
    lead_step(partition, &event, &update);
    return update.answer;
}

/* The truncation that is under way is to drop every segment. In the middle of that there is none: then a start finds
 * only in the checkpoint where the log starts, which otherwise says nothing of a start that is the first segment's. */
static bool begins_anew(const struct stele_partition *partition)
{
    const struct stele_truncate_op *truncate = partition->truncating;
    return truncate->is_restart || truncate->offset < stele_log_first_base(partition->log);
}

/* What no checkpoint may be above when the truncation that is under way takes bytes. A start that is kept stays there:
 * whoever starts then has the batch around it and begins behind its first records, or has nothing and begins there. */
static void cut_floor(const struct stele_partition *partition, int64_t *out_floor, int64_t *out_point)
{
    const struct stele_truncate_op *truncate = partition->truncating;
    const struct stele_log *log = partition->log;
    bool is_restart = begins_anew(partition);
    *out_floor = is_restart ? stele_min_i64(truncate->offset, stele_log_start_offset(log)) : truncate->offset;
    *out_point = is_restart ? *out_floor : stele_log_point_after_cut(log, truncate->offset);
}

bool stele_replica__is_lowered(const struct stele_partition *partition)
{
    const struct stele_replica *replica = &partition->replica;
    int64_t floor, point;
    cut_floor(partition, &floor, &point);
    return !begins_anew(partition) && replica->told_recovery_point <= point && replica->told_log_start <= floor &&
           replica->told_high_watermark <= floor;
}

void stele_replica__lowered(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    int64_t floor, point;
    cut_floor(partition, &floor, &point);
    replica->told_recovery_point = stele_min_i64(replica->told_recovery_point, point);
    replica->told_log_start =
        stele_min_i64(replica->told_log_start, stele_max_i64(floor, partition->truncating->kept_start));
    replica->told_high_watermark = stele_min_i64(replica->told_high_watermark, floor);
}

/* A log of several replicas may be cut down to its high watermark at any time, not lower but after an unclean election.
 * So its checkpoint stays where a cut at the high watermark would leave it: then nothing has to be written before a
 * cut. It costs nothing at a clean start, and after a crash the segments from that of the high watermark on are
 * scanned, mostly the one that would be scanned anyway. */
void stele_replica__cap_points(struct stele_partition *partition, struct stele_log_points *points)
{
    struct stele_replica *replica = &partition->replica;
    const struct stele_log *log = partition->log;
    if (replica->replica_count > 1)
        points->recovery_point =
            stele_min_i64(points->recovery_point, stele_log_point_after_cut(log, stele_log_high_watermark(log)));
    if (partition->truncating != NULL) {
        int64_t floor, point;
        cut_floor(partition, &floor, &point);
        points->recovery_point = stele_min_i64(points->recovery_point, point);
        points->log_start_offset =
            stele_min_i64(points->log_start_offset, stele_max_i64(floor, partition->truncating->kept_start));
        if (begins_anew(partition))
            points->first_segment_base = -1;
        points->high_watermark = stele_min_i64(points->high_watermark, floor);
    }
    replica->told_recovery_point = stele_max_i64(replica->told_recovery_point, points->recovery_point);
    replica->told_log_start = stele_max_i64(replica->told_log_start, points->log_start_offset);
    replica->told_high_watermark = stele_max_i64(replica->told_high_watermark, points->high_watermark);
}
