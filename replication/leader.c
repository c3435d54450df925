/* The leader machine: dispatch, metadata, fetches, and the questions that the owner asks of it. The in-sync set and the
 * high watermark are in leader_isr.c. Invariants: leader.h.
 *
 * Roles: not leading -> leading (lead), leading -> leading in a newer epoch (lead), leading -> not leading (resign). */
#include "replication/leader.h"

#include "base/check.h"
#include "replication/guard.h"
#include "replication/leader_isr.h"

static const struct stele_leader_replica REPLICA_UNKNOWN = {
    .status = {.node_id = STELE_NO_NODE, .node_epoch = -1},
    .node_epoch = -1,
    .end_offset = STELE_OFFSET_NONE,
    .synced_offset = STELE_OFFSET_NONE,
    .start_offset = STELE_OFFSET_NONE,
    .damaged_offset = STELE_OFFSET_NONE,
    .fetch_mark_offset = STELE_OFFSET_NONE,
    .fetch_mark_ms = INT64_MIN,
    .sync_mark_offset = STELE_OFFSET_NONE,
    .sync_mark_ms = INT64_MIN,
    .caught_up_ms = INT64_MIN,
    .offline_epoch = -1,
    .sync_caught_up_ms = INT64_MIN,
};

void stele_leader_init(struct stele_leader *leader, int32_t node_id, int64_t node_epoch,
                       const struct stele_leader_settings *settings)
{
    *leader = (struct stele_leader){
        .node_id = node_id,
        .node_epoch = node_epoch,
        .settings = *settings,
        .leader_epoch = STELE_EPOCH_NONE,
        .partition_epoch = -1,
        .resend_ms = INT64_MAX,
    };
}

void stele_leader_check(const struct stele_leader *leader)
{
    if (!leader->is_leading) {
        return;
    }
    STELE_ASSERT(leader->log.start_offset <= leader->high_watermark);
    STELE_ASSERT(leader->high_watermark <= leader->log.end_offset);
    STELE_ASSERT(leader->epoch_start_offset <= leader->log.end_offset);
    STELE_ASSERT(stele_node_set_has(&leader->replicas, leader->node_id));
    STELE_ASSERT(stele_node_set_is_subset(&leader->isr, &leader->replicas));
    STELE_ASSERT(leader->isr_state == STELE_ISR_COMMITTED || leader->change.leader_epoch == leader->leader_epoch);
    STELE_ASSERT(leader->isr_state == STELE_ISR_COMMITTED || leader->change.partition_epoch == leader->partition_epoch);
    STELE_ASSERT(leader->isr_state != STELE_ISR_EXPAND || stele_node_set_is_subset(&leader->isr, &leader->change.isr));
    STELE_ASSERT(leader->isr_state != STELE_ISR_SHRINK || stele_node_set_is_subset(&leader->change.isr, &leader->isr));
}

int32_t stele_leader_min_isr(const struct stele_leader *leader)
{
    int64_t wanted = stele_max_i64(leader->settings.min_insync_replicas, leader->min_isr_floor);
    return (int32_t)stele_max_i64(stele_min_i64(wanted, leader->replicas.count), 1);
}

/* Takes in the log's ends. A follower that had everything until now was caught up until now: it does not fetch an idle
 * partition, so nothing else says so. */
static void note_log(struct stele_leader *leader, const struct stele_log_view *log)
{
    int64_t old_end_offset = leader->log.end_offset;
    if (leader->is_leading) {
        STELE_ASSERT(log->end_offset >= old_end_offset); /* a leader never cuts (3.3.7) */
        STELE_ASSERT(log->start_offset <= leader->high_watermark);
    }
    if (leader->is_leading && log->end_offset > old_end_offset) {
        for (int32_t i = 0; i < leader->replicas.count; i++) {
            struct stele_leader_replica *replica = &leader->followers[i];
            if (replica->end_offset >= old_end_offset) {
                replica->caught_up_ms = stele_max_i64(replica->caught_up_ms, leader->now_ms);
            }
            if (replica->synced_offset >= old_end_offset) {
                replica->sync_caught_up_ms = stele_max_i64(replica->sync_caught_up_ms, leader->now_ms);
            }
        }
    }
    leader->log = *log;
}

static void set_replicas(struct stele_leader *leader, const struct stele_leader_event *event)
{
    const struct stele_node_set *replicas = &event->state->replicas;
    struct stele_leader_replica followers[STELE_REPLICAS_MAX];
    for (int32_t i = 0; i < replicas->count; i++) {
        const struct stele_leader_replica *known = stele_leader__replica(leader, replicas->ids[i]);
        followers[i] = known ? *known : REPLICA_UNKNOWN;
        followers[i].status = (struct stele_node_status){.node_id = replicas->ids[i], .node_epoch = -1};
        for (int32_t k = 0; k < event->node_count; k++) {
            if (event->nodes[k].node_id == replicas->ids[i]) {
                followers[i].status = event->nodes[k];
            }
        }
        bool is_offline = stele_node_set_has(&event->state->offline, replicas->ids[i]);
        followers[i].offline_epoch = is_offline ? followers[i].status.node_epoch : -1;
    }
    for (int32_t i = 0; i < replicas->count; i++) {
        leader->followers[i] = followers[i];
    }
    leader->replicas = *replicas;
}

/* Rule 2.4.5. Nobody led between two epochs that follow each other, so what followers had of the log they still have;
 * over a gap they may have followed another leader, and cut. */
static void begin_followers(struct stele_leader *leader, bool is_kept)
{
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        struct stele_leader_replica *replica = &leader->followers[i];
        struct stele_leader_replica fresh = REPLICA_UNKNOWN;
        bool is_in_sync = stele_node_set_has(&leader->isr, leader->replicas.ids[i]);
        int64_t since_ms = is_in_sync ? leader->now_ms : INT64_MIN;
        fresh.status = replica->status;
        fresh.offline_epoch = replica->offline_epoch;
        if (is_kept) {
            fresh.node_epoch = replica->node_epoch;
            fresh.end_offset = replica->end_offset;
            fresh.synced_offset = replica->synced_offset;
            fresh.start_offset = replica->start_offset;
            fresh.damaged_offset = replica->damaged_offset;
            fresh.fetch_mark_offset = leader->log.end_offset;
            fresh.fetch_mark_ms = since_ms;
            fresh.sync_mark_offset = leader->log.end_offset;
            fresh.sync_mark_ms = since_ms;
        }
        fresh.caught_up_ms = since_ms;
        fresh.sync_caught_up_ms = since_ms;
        *replica = fresh;
    }
}

static void begin_epoch(struct stele_leader *leader, const struct stele_leader_event *event,
                        struct stele_leader_update *update)
{
    const struct stele_partition_state *state = event->state;
    bool led = leader->is_leading;
    bool is_kept = led && state->leader_epoch == leader->leader_epoch + 1;
    STELE_REACHED(leader, is_kept ? STELE_LEADER_REACHED_KEPT : STELE_LEADER_REACHED_GAP);
    int64_t watermark = event->log.high_watermark;
    if (led) {
        watermark = stele_max_i64(watermark, leader->high_watermark);
    }
    leader->is_leading = true;
    leader->leader_epoch = state->leader_epoch;
    leader->epoch_start_offset = event->log.end_offset;
    leader->high_watermark = stele_max_i64(stele_min_i64(watermark, event->log.end_offset), event->log.start_offset);
    leader->log = event->log;
    set_replicas(leader, event);
    stele_leader__commit_isr(leader, &state->isr, state->partition_epoch);
    if (STELE_GUARD(3)) {
        begin_followers(leader, is_kept);
    }
    leader->is_recovering = state->is_recovering;
    leader->is_unsynced = state->is_unsynced;
    leader->has_elr = state->elr.count > 0;
    leader->min_isr_floor = 0;
    leader->retry_after_ms = INT64_MIN;
    leader->scan_ms = leader->now_ms + stele_max_i64(leader->settings.replica_lag_ms / 2, 1);
    update->has_epoch_start = true;
    update->has_high_watermark = leader->high_watermark != event->log.high_watermark;
    update->wakes_waiters = true; /* produces of an earlier leadership fail */
    update->wakes_fetches = true;
}

static void lead(struct stele_leader *leader, const struct stele_leader_event *event,
                 struct stele_leader_update *update)
{
    const struct stele_partition_state *state = event->state;
    STELE_ASSERT(state->leader_id == leader->node_id);
    STELE_ASSERT(state->replicas.count <= STELE_REPLICAS_MAX);
    if (state->leader_epoch > leader->leader_epoch) {
        begin_epoch(leader, event, update);
        return;
    }
    if (!leader->is_leading || state->leader_epoch < leader->leader_epoch ||
        state->partition_epoch < leader->partition_epoch) {
        return;
    }
    /* The same leadership (2.5.16). Metadata as old as what is known comes twice, or after the answer that told it: a
     * change under way rests on it and stays (KAFKA-12686). */
    bool is_newer = state->partition_epoch > leader->partition_epoch;
    set_replicas(leader, event);
    leader->min_isr_floor = 0;
    if (is_newer) {
        if (leader->isr_state != STELE_ISR_COMMITTED) {
            STELE_REACHED(leader, STELE_LEADER_REACHED_CHANGE_REPLACED);
        }
        leader->is_recovering = state->is_recovering;
        leader->is_unsynced = state->is_unsynced;
        leader->has_elr = state->elr.count > 0;
        stele_leader__commit_isr(leader, &state->isr, state->partition_epoch);
        update->wakes_waiters = true;
    }
}

static void resign(struct stele_leader *leader, const struct stele_leader_event *event,
                   struct stele_leader_update *update)
{
    if (event->state && event->state->leader_epoch > leader->leader_epoch) {
        leader->leader_epoch = event->state->leader_epoch; /* by which late fetches are fenced */
    }
    leader->is_leading = false;
    leader->isr_state = STELE_ISR_COMMITTED;
    leader->is_change_open = false;
    leader->resend_ms = INT64_MAX;
    update->wakes_waiters = true;
    update->wakes_fetches = true;
}

static enum stele_err check_fetcher(struct stele_leader *leader, const struct stele_leader_event *fetch)
{
    const struct stele_fetch_line *line = &fetch->line;
    bool is_replica = fetch->fetcher_id >= 0;
    if (line->leader_epoch >= 0 && line->leader_epoch < leader->leader_epoch) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_FENCED);
        return STELE_FENCED_LEADER_EPOCH;
    }
    if (line->leader_epoch > leader->leader_epoch) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_UNKNOWN_EPOCH);
        return STELE_UNKNOWN_LEADER_EPOCH;
    }
    if (!leader->is_leading) {
        return STELE_NOT_LEADER_OR_FOLLOWER;
    }
    if (!is_replica) {
        return STELE_OK;
    }
    /* Without its epochs nothing that a replica says can be validated; ours never leaves them out. */
    if (line->leader_epoch < 0 || (line->last_fetched_epoch < 0 && line->fetch_offset != line->log_start_offset)) {
        return STELE_INVALID_REQUEST;
    }
    const struct stele_leader_replica *replica = stele_leader__replica(leader, fetch->fetcher_id);
    if (!replica || fetch->fetcher_id == leader->node_id) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_STRANGER);
        return STELE_UNKNOWN_LEADER_EPOCH; /* the metadata that makes it one is on the way */
    }
    if (fetch->fetcher_epoch < replica->status.node_epoch) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_STALE_NODE);
        return STELE_NOT_LEADER_OR_FOLLOWER;
    }
    return STELE_OK;
}

struct stele_fetch_answer stele_leader_look(struct stele_leader *leader, const struct stele_leader_event *fetch)
{
    const struct stele_fetch_line *line = &fetch->line;
    struct stele_fetch_answer answer = {
        .err = check_fetcher(leader, fetch),
        .diverging = {STELE_EPOCH_NONE, STELE_OFFSET_NONE},
        .high_watermark = STELE_OFFSET_NONE,
        .log_start_offset = STELE_OFFSET_NONE,
        .log_end_offset = STELE_OFFSET_NONE,
        .leader_id = leader->is_leading ? leader->node_id : STELE_NO_NODE,
        .current_leader_epoch = leader->is_leading ? leader->leader_epoch : STELE_EPOCH_NONE,
    };
    if (answer.err != STELE_OK) {
        return answer;
    }
    answer.high_watermark = leader->high_watermark;
    answer.log_start_offset = fetch->log.start_offset;
    answer.log_end_offset = fetch->log.end_offset;
    answer.read_end_offset = fetch->fetcher_id >= 0 ? fetch->log.end_offset : leader->high_watermark;
    /* A replica takes batches as they are: one that is to have the start begins with the batch around it. */
    if (line->fetch_offset < fetch->log.start_offset && !(fetch->fetcher_id >= 0 && fetch->is_at_first_batch)) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_BELOW_START);
        answer.err = STELE_OFFSET_OUT_OF_RANGE;
        return answer;
    }
    if (line->last_fetched_epoch >= 0) {
        if (!stele_epoch_end_is_known(&fetch->epoch_end)) {
            answer.err = STELE_OFFSET_OUT_OF_RANGE;
            return answer;
        }
        if (fetch->epoch_end.epoch < line->last_fetched_epoch || fetch->epoch_end.end_offset < line->fetch_offset) {
            STELE_REACHED(leader, STELE_LEADER_REACHED_DIVERGING);
            answer.diverging = fetch->epoch_end;
            return answer;
        }
    }
    if (line->fetch_offset > fetch->log.end_offset) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_ABOVE_END);
        answer.err = STELE_OFFSET_OUT_OF_RANGE;
    }
    return answer;
}

/* Rule 2.4.2, by the leader's end before the read. For what is synced the mark stays until it is reached: a sync runs
 * beside the next fetch, so under load it never reaches the end of the fetch before. */
static void believe(struct stele_leader *leader, const struct stele_leader_event *fetch,
                    struct stele_leader_update *update)
{
    struct stele_leader_replica *replica = stele_leader__replica(leader, fetch->fetcher_id);
    const struct stele_fetch_line *line = &fetch->line;
    int64_t leader_end_offset = fetch->log.end_offset;
    int64_t synced_offset = stele_min_i64(line->synced_offset, line->fetch_offset);
    if (line->fetch_offset < replica->end_offset) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_BACKWARDS);
    }
    if (line->fetch_offset >= leader_end_offset) {
        replica->caught_up_ms = stele_max_i64(replica->caught_up_ms, leader->now_ms);
    } else if (line->fetch_offset >= replica->fetch_mark_offset) {
        replica->caught_up_ms = stele_max_i64(replica->caught_up_ms, replica->fetch_mark_ms);
    }
    replica->fetch_mark_offset = stele_max_i64(replica->fetch_mark_offset, leader_end_offset);
    replica->fetch_mark_ms = leader->now_ms;
    if (synced_offset >= replica->sync_mark_offset) {
        replica->sync_caught_up_ms = stele_max_i64(replica->sync_caught_up_ms, replica->sync_mark_ms);
        replica->sync_mark_offset = leader_end_offset;
        replica->sync_mark_ms = leader->now_ms;
    }
    if (synced_offset >= leader_end_offset) {
        replica->sync_caught_up_ms = leader->now_ms;
    }
    update->wakes_waiters |= replica->start_offset != line->log_start_offset; /* the low watermark */
    /* What is below the high watermark may yet wait for a sync. */
    update->wakes_waiters |= leader->settings.is_flush_before_ack && replica->synced_offset < synced_offset &&
                             replica->synced_offset < leader->high_watermark;
    replica->end_offset = line->fetch_offset;
    replica->synced_offset = synced_offset;
    replica->start_offset = line->log_start_offset;
    replica->damaged_offset = line->damaged_offset >= 0 ? line->damaged_offset : STELE_OFFSET_NONE;
    replica->node_epoch = fetch->fetcher_epoch;
    replica->has_fetched = true;
    if (replica->damaged_offset >= 0) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_DAMAGED);
    }
}

static void take_fetch(struct stele_leader *leader, const struct stele_leader_event *event,
                       struct stele_leader_update *update)
{
    STELE_ASSERT(event->fetcher_id >= 0);
    update->answer = stele_leader_look(leader, event);
    if (update->answer.err != STELE_OK) {
        return;
    }
    if (STELE_GUARD(13) && stele_epoch_end_is_known(&update->answer.diverging)) {
        return; /* what it has beyond is not ours (KAFKA-13141) */
    }
    believe(leader, event, update);
}

/* With flush.before.ack switched on, nobody was asked to sync until now: who is in sync has a lag time for it. */
static void take_settings(struct stele_leader *leader, const struct stele_leader_settings *settings,
                          struct stele_leader_update *update)
{
    bool is_switched_on = settings->is_flush_before_ack && !leader->settings.is_flush_before_ack;
    for (int32_t i = 0; i < leader->replicas.count && is_switched_on; i++) {
        struct stele_leader_replica *replica = &leader->followers[i];
        if (stele_leader__is_in_maximal_isr(leader, leader->replicas.ids[i]) &&
            stele_leader__is_caught_up(leader, replica)) {
            replica->caught_up_ms = replica->sync_caught_up_ms = leader->now_ms;
        }
    }
    leader->settings = *settings;
    update->wakes_waiters = true;
}

/* All at once: by one that is new and one that is old the watermark might pass what no metadata ever let it pass. */
static void take_nodes(struct stele_leader *leader, const struct stele_leader_event *event,
                       struct stele_leader_update *update)
{
    for (int32_t i = 0; i < event->node_count; i++) {
        const struct stele_node_status *status = &event->nodes[i];
        struct stele_leader_replica *replica = stele_leader__replica(leader, status->node_id);
        if (replica && status->node_epoch >= replica->status.node_epoch) {
            replica->status = *status;
            update->wakes_waiters = true; /* the low watermark waits for those that live */
        }
    }
}

void stele_leader_step(struct stele_leader *leader, const struct stele_leader_event *event,
                       struct stele_leader_update *out_update)
{
    struct stele_leader_update *update = out_update;
    *update = (struct stele_leader_update){.answer = {.diverging = {STELE_EPOCH_NONE, STELE_OFFSET_NONE}}};
    leader->now_ms = stele_max_i64(leader->now_ms, event->now_ms);
    if (leader->is_leading && leader->settings.is_flush_before_ack &&
        event->log.synced_offset != leader->log.synced_offset) {
        update->wakes_waiters = true;
    }
    note_log(leader, &event->log);
    switch (event->kind) {
    case STELE_LEADER_LEAD:
        lead(leader, event, update);
        break;
    case STELE_LEADER_RESIGN:
        resign(leader, event, update);
        break;
    case STELE_LEADER_FETCH:
        take_fetch(leader, event, update);
        break;
    case STELE_LEADER_NODES:
        take_nodes(leader, event, update);
        break;
    case STELE_LEADER_SETTINGS:
        take_settings(leader, &event->settings, update);
        break;
    case STELE_LEADER_ISR_ANSWER:
        stele_leader__isr_answer(leader, &event->isr_answer, update);
        break;
    case STELE_LEADER_LOG:
    case STELE_LEADER_TICK:
        break;
    }
    if (leader->is_leading) {
        stele_leader__advance(leader, update);
        stele_leader__propose(leader, event->kind == STELE_LEADER_FETCH ? event->fetcher_id : STELE_NO_NODE, update);
    }
    if (update->answer.high_watermark >= 0 && event->kind == STELE_LEADER_FETCH) {
        update->answer.high_watermark = leader->high_watermark; /* with what this very fetch told */
    }
    update->leader_epoch = leader->leader_epoch;
    update->epoch_start_offset = leader->epoch_start_offset;
    update->high_watermark = leader->high_watermark;
    update->deadline_ms = stele_leader__deadline(leader);
    stele_leader_check(leader);
}

enum stele_err stele_leader_admits(const struct stele_leader *leader, int32_t acks)
{
    if (!leader->is_leading) {
        return STELE_NOT_LEADER_OR_FOLLOWER;
    }
    if (acks < -1 || acks > 1) {
        return STELE_INVALID_REQUIRED_ACKS;
    }
    /* The committed set: an expansion that nobody confirmed makes nothing admissible (1.2.3). */
    if (acks == -1 && leader->isr.count < stele_leader_min_isr(leader)) {
        return STELE_NOT_ENOUGH_REPLICAS;
    }
    return STELE_OK;
}

/* Which is true of everything before `offset`: what is written here, on all that may be elected, or on their disks. */
static enum stele_ack_level level_of(struct stele_leader *leader, int64_t offset)
{
    if (leader->high_watermark < offset || stele_leader__maximal_isr_count(leader) < stele_leader_min_isr(leader)) {
        return STELE_ACK_WRITTEN;
    }
    if (leader->log.synced_offset < offset) {
        return STELE_ACK_REPLICATED;
    }
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        if (leader->replicas.ids[i] != leader->node_id &&
            stele_leader__is_in_maximal_isr(leader, leader->replicas.ids[i]) &&
            leader->followers[i].synced_offset < offset) {
            return STELE_ACK_REPLICATED;
        }
    }
    return STELE_ACK_SYNCED;
}

struct stele_produce_outcome stele_leader_produce_outcome(struct stele_leader *leader,
                                                          const struct stele_produce_wait *wait)
{
    struct stele_produce_outcome outcome = {.is_pending = false, .err = STELE_OK, .level = STELE_ACK_NONE};
    if (!leader->is_leading || (STELE_GUARD(23) && wait->leader_epoch != leader->leader_epoch)) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_OTHER_EPOCH);
        outcome.err = STELE_NOT_LEADER_OR_FOLLOWER;
        return outcome;
    }
    if (wait->acks != -1) {
        outcome.is_pending = wait->acks == 1 && leader->settings.is_flush_before_ack &&
                             leader->log.synced_offset < wait->required_offset;
        outcome.level = outcome.is_pending ? STELE_ACK_NONE : level_of(leader, wait->required_offset);
        return outcome;
    }
    if (leader->high_watermark < wait->required_offset) {
        outcome.is_pending = true;
        return outcome;
    }
    if (stele_leader__maximal_isr_count(leader) < stele_leader_min_isr(leader)) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_AFTER_APPEND);
        outcome.err = STELE_NOT_ENOUGH_REPLICAS_AFTER_APPEND;
        return outcome;
    }
    outcome.level = level_of(leader, wait->required_offset);
    /* The high watermark stays where it was before flush.before.ack was switched on, or before this node led. */
    if (leader->settings.is_flush_before_ack && outcome.level < STELE_ACK_SYNCED) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_SWITCHED_ON);
        outcome.is_pending = true;
        outcome.level = STELE_ACK_NONE;
    }
    return outcome;
}

bool stele_leader_wakes_fetch(struct stele_leader *leader, const struct stele_leader_event *fetch)
{
    struct stele_fetch_answer answer = stele_leader_look(leader, fetch);
    return answer.err != STELE_OK || stele_epoch_end_is_known(&answer.diverging) ||
           (fetch->fetcher_id >= 0 && leader->high_watermark > fetch->line.known_high_watermark);
}

enum stele_err stele_leader_latest_offset(struct stele_leader *leader, int64_t *out_offset)
{
    if (!leader->is_leading) {
        return STELE_NOT_LEADER_OR_FOLLOWER;
    }
    if (leader->high_watermark < leader->epoch_start_offset) {
        STELE_REACHED(leader, STELE_LEADER_REACHED_OFFSET_UNKNOWN);
        return STELE_OFFSET_NOT_AVAILABLE;
    }
    *out_offset = leader->high_watermark;
    return STELE_OK;
}

enum stele_err stele_leader_delete_to(const struct stele_leader *leader, int64_t offset, int64_t *out_start_offset)
{
    if (!leader->is_leading) {
        return STELE_NOT_LEADER_OR_FOLLOWER;
    }
    if (offset < -1 || offset > leader->high_watermark) {
        return STELE_OFFSET_OUT_OF_RANGE;
    }
    *out_start_offset = stele_max_i64(offset == -1 ? leader->high_watermark : offset, leader->log.start_offset);
    return STELE_OK;
}

int64_t stele_leader_low_watermark(const struct stele_leader *leader)
{
    int64_t low = leader->log.start_offset;
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        if (leader->replicas.ids[i] != leader->node_id && leader->followers[i].status.is_active) {
            low = stele_min_i64(low, leader->followers[i].start_offset);
        }
    }
    return low;
}

int32_t stele_leader_read_replica(const struct stele_leader *leader, uint32_t rack, int64_t offset)
{
    int32_t best_id = leader->node_id;
    int64_t best_offset = -1;
    for (int32_t i = 0; i < leader->replicas.count; i++) {
        const struct stele_leader_replica *replica = &leader->followers[i];
        int32_t node_id = leader->replicas.ids[i];
        if (rack == 0 || replica->status.rack != rack) {
            continue;
        }
        if (node_id == leader->node_id) {
            return node_id;
        }
        if (stele_node_set_has(&leader->isr, node_id) && replica->status.is_active && replica->start_offset >= 0 &&
            replica->start_offset <= offset && replica->damaged_offset < 0 && replica->end_offset >= offset &&
            replica->end_offset > best_offset) {
            best_id = node_id;
            best_offset = replica->end_offset;
        }
    }
    return best_id;
}
