/* Following: answers of the leader are appended, the log is cut where it says. Invariants: partition_replica.h. */
#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/partition_repair.h"
#include "node/replica_fetcher.h"

#include <string.h>

enum { RETRY_MS = 50, READERS_MS = 30000 /* consumers that do not come again in this time are gone */ };

static struct stele_partition *partition_of(struct stele_replica *replica)
{
    return STELE_CONTAINER_OF(replica, struct stele_partition, replica);
}

static void retry_later(struct stele_partition *partition, int64_t after_ms)
{
    struct stele_shard *shard = partition->shard;
    stele_shard_arm(shard, &partition->replica.fetch_timer, stele_env_mono_ms(shard->env) + after_ms);
}

/* Asks when the machine wants to. */
static void ask(struct stele_partition *partition, int64_t deadline_ms)
{
    struct stele_replica *replica = &partition->replica;
    if (replica->role != STELE_REPLICA_FOLLOWER || replica->cut != STELE_CUT_NONE ||
        replica->follower.state != STELE_FOLLOWER_FETCHING)
        return;
    if (!stele_replica_fetcher_join(partition, replica->follower.leader_id))
        retry_later(partition, RETRY_MS);
    else if (deadline_ms == INT64_MIN)
        stele_replica_fetcher_touch(partition);
    else if (deadline_ms != INT64_MAX)
        stele_shard_arm(partition->shard, &replica->fetch_timer, deadline_ms);
}

static void go_on(struct stele_partition *partition);
static enum stele_err append(struct stele_partition *partition, uint8_t *bytes, size_t count);
static void raise(struct stele_partition *partition, const struct stele_follower_update *update);

static void fetch_fired(struct stele_timer *timer)
{
    struct stele_partition *partition = partition_of(STELE_CONTAINER_OF(timer, struct stele_replica, fetch_timer));
    if (partition->replica.cut != STELE_CUT_NONE)
        go_on(partition);
    else
        ask(partition, INT64_MIN);
}

void stele_replica__init_following(struct stele_partition *partition)
{
    stele_timer_init(&partition->replica.fetch_timer, fetch_fired);
}

static void step(struct stele_partition *partition, struct stele_follower_event *event,
                 struct stele_follower_update *out_update)
{
    event->now_ms = stele_env_mono_ms(partition->shard->env);
    event->log = stele_replica__view(partition);
    stele_follower_step(&partition->replica.follower, event, out_update);
}

/* Where what is damaged here begins: the leader must not count on it. */
static void tell_damage(struct stele_partition *partition)
{
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_DAMAGE,
                                         .damaged_offset = stele_log_damage_offset(partition->log)};
    step(partition, &event, &update);
}

void stele_replica__damage_changed(struct stele_partition *partition)
{
    if (partition->replica.role != STELE_REPLICA_FOLLOWER || partition->replica.cut != STELE_CUT_NONE)
        return;
    tell_damage(partition);
    ask(partition, INT64_MIN);
}

/* Cuts. */

static void drop_behind_cut(struct stele_partition *partition)
{
    stele_mem_free(partition->shard->env->mem, partition->replica.behind_cut);
    partition->replica.behind_cut = NULL;
}

/* Keeps the batches of an answer, below the first of which the log is to begin. Asked for again they would not come:
 * the leader's log starts inside that batch, and it gives nobody what is below its start. */
static bool keep_behind_cut(struct stele_partition *partition, const struct stele_follower_update *update,
                            const uint8_t *bytes, size_t count)
{
    struct stele_replica *replica = &partition->replica;
    drop_behind_cut(partition);
    replica->behind_cut = stele_mem_alloc(partition->shard->env->mem, STELE_MEM_REQUEST, count);
    if (replica->behind_cut == NULL)
        return false;
    memcpy(replica->behind_cut, bytes, count);
    replica->behind_cut_bytes = count;
    replica->behind_update = *update;
    return true;
}

/* No state was taken since the answer came: it is of the leader that is followed. */
static enum stele_err take_behind_cut(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    enum stele_err err = STELE_OK;
    if (replica->behind_cut != NULL && replica->role == STELE_REPLICA_FOLLOWER) {
        err = append(partition, replica->behind_cut, replica->behind_cut_bytes);
        partition->shard->is_changed = true;
        if (err == STELE_OK)
            raise(partition, &replica->behind_update);
        if (stele_log_is_failed(partition->log))
            stele_partition_fail(partition);
    }
    drop_behind_cut(partition);
    return err;
}

static void cut_done(struct stele_op *op)
{
    struct stele_partition *partition = op->partition;
    struct stele_replica *replica = &partition->replica;
    replica->is_cutting = false;
    if (partition->state != STELE_PARTITION_OPEN) {
        replica->cut = STELE_CUT_NONE;
        drop_behind_cut(partition);
    } else if (op->err != STELE_OK) {
        retry_later(partition, RETRY_MS);
    } else {
        replica->cut = STELE_CUT_NONE;
        replica->mark_count = 0;
        tell_damage(partition);
        enum stele_err err = take_behind_cut(partition);
        stele_repair_look(partition);
        stele_replica__take_state(partition);
        if (err == STELE_OK)
            ask(partition, INT64_MIN);
        else if (partition->state == STELE_PARTITION_OPEN)
            retry_later(partition, RETRY_MS);
    }
}

static void go_on(struct stele_partition *partition)
{
    struct stele_replica *replica = &partition->replica;
    if (replica->cut == STELE_CUT_NONE || replica->is_cutting || partition->shard->is_stopping)
        return;
    replica->is_cutting = true;
    replica->truncate = (struct stele_truncate_op){
        .op = {.home = partition->shard,
               .shard = partition->shard,
               .partition = partition,
               .topic_id = partition->key.topic_id,
               .number = partition->key.number,
               .run = stele_partition_truncate,
               .done = cut_done},
        .offset = replica->cut_offset,
        .is_restart = replica->cut == STELE_CUT_RESTART,
        .kept_start = replica->behind_cut == NULL ? 0 : stele_log_start_offset(partition->log)};
    stele_list_init(&replica->truncate.wait.link);
    stele_partition_truncate(&replica->truncate.op);
}

static void begin_cut(struct stele_partition *partition, enum stele_replica_cut cut, int64_t offset)
{
    struct stele_replica *replica = &partition->replica;
    if (cut == STELE_CUT_TRUNCATE && offset >= stele_log_end_offset(partition->log)) {
        enum stele_err err = stele_log_truncate(partition->log, offset); /* the index alone */
        STELE_ASSERT(err == STELE_OK);
        ask(partition, INT64_MIN);
        return;
    }
    replica->is_agreed = false;
    replica->cut = cut;
    replica->cut_offset = offset;
    go_on(partition);
}

/* Records. */

/* The batches that may be taken, and their bytes. One that fails its checksum, or does not follow, ends it: the leader
 * is to look at what it has there. */
static size_t take_batches(struct stele_partition *partition, const struct stele_follower_ticket *ticket,
                           const struct stele_replica_answer *answer, struct stele_fetched_records *records)
{
    struct stele_log_view view = stele_replica__view(partition);
    size_t at = 0;
    bool is_bad = false;
    while (answer->count - at >= STELE_BATCH_HEADER_BYTES) {
        struct stele_batch_header header;
        int64_t bytes = stele_batch_size(answer->bytes + at);
        if (bytes >= STELE_BATCH_HEADER_BYTES && (uint64_t)bytes > answer->count - at)
            break; /* the last one may be cut off */
        is_bad = bytes < STELE_BATCH_HEADER_BYTES ||
                 stele_batch_check(answer->bytes + at, (size_t)bytes, &header) != STELE_OK;
        if (is_bad) {
            records->is_cut = true;
            break;
        }
        struct stele_fetched_batch batch = {.base_offset = header.base_offset,
                                            .end_offset = stele_batch_last_offset(&header) + 1,
                                            .epoch = header.partition_leader_epoch};
        is_bad = !stele_follower_takes(ticket, &view, &batch, records);
        if (is_bad)
            break;
        at += (size_t)bytes;
    }
    partition->replica.doubted_offset = is_bad ? records->end_offset : -1;
    return at;
}

int64_t stele_replica__doubted_offset(const struct stele_partition *partition)
{
    const struct stele_replica *replica = &partition->replica;
    return replica->doubted_offset == stele_log_end_offset(partition->log) ? replica->doubted_offset : -1;
}

static size_t bytes_of_batches(const uint8_t *bytes, int batches)
{
    size_t at = 0;
    for (int i = 0; i < batches; i++)
        at += (size_t)stele_batch_size(bytes + at);
    return at;
}

static enum stele_err append(struct stele_partition *partition, uint8_t *bytes, size_t count)
{
    struct stele_log_dirs *dirs = partition->shard->node->control.dirs;
    enum stele_err err = stele_log_dirs_is_full(dirs, partition->dir) ? STELE_NO_SPACE : STELE_OK;
    for (size_t at = 0; at < count && err == STELE_OK;) {
        struct stele_appended appended;
        struct stele_append in = {.bytes = bytes + at,
                                  .count = count - at,
                                  .origin = STELE_ORIGIN_REPLICATION,
                                  .leader_epoch = partition->replica.follower.leader_epoch,
                                  .is_checked = true};
        err = stele_log_append(partition->log, &in, &appended);
        if (err == STELE_NO_SPACE)
            stele_log_dirs_take(dirs, partition->dir, INT64_MAX);
        if (err != STELE_OK || appended.batches == 0)
            break;
        size_t taken = bytes_of_batches(bytes + at, appended.batches);
        at += taken;
        stele_log_dirs_take(dirs, partition->dir, (int64_t)taken);
        STELE_METRIC_ADD(partition->shard->env->metrics, replication_received, taken);
        stele_replica__appended(partition, (int64_t)taken);
        if (appended.wants_flush)
            stele_partition__flush(partition);
    }
    return err;
}

/* Nothing of an answer can be taken now: the machine is told as if it had not come. */
static void give_up(struct stele_partition *partition, const struct stele_follower_ticket *ticket, enum stele_err err)
{
    if (stele_log_is_failed(partition->log)) {
        stele_partition_fail(partition);
        return;
    }
    if (err != STELE_NO_SPACE && err != STELE_NO_MEMORY)
        stele_trace(partition->shard->env, STELE_TRACE_REPLICA_REFUSED, partition->name, stele_err_text(err),
                    stele_log_end_offset(partition->log), 0, 0);
    stele_replica__lost(partition, ticket);
}

/* True: the question that follows is due as the update says. */
static bool carry_out(struct stele_partition *partition, const struct stele_follower_update *update)
{
    struct stele_log *log = partition->log;
    if (update->lost_committed)
        stele_trace(partition->shard->env, STELE_TRACE_REPLICA_LOST, partition->name, NULL, update->cut_offset,
                    stele_log_high_watermark(log), 0);
    if (update->stops)
        stele_replica_fetcher_leave(partition);
    if (update->has_cut)
        begin_cut(partition, STELE_CUT_TRUNCATE, update->cut_offset);
    else if (update->has_restart)
        begin_cut(partition, STELE_CUT_RESTART, update->restart_offset);
    return !update->has_cut && !update->has_restart;
}

static void raise(struct stele_partition *partition, const struct stele_follower_update *update)
{
    /* A high watermark once known stays true: a leader that knows less takes nothing back (the log keeps the larger).
     */
    if (update->has_high_watermark && update->high_watermark > stele_log_high_watermark(partition->log)) {
        stele_log_set_high_watermark(partition->log, update->high_watermark);
        partition->shard->is_changed = true;
        stele_partition__wake_reads(partition);
    }
    if (update->has_start) {
        enum stele_err err = stele_log_set_start_offset(partition->log, update->start_offset);
        (void)err; /* the next answer says it again */
        partition->shard->is_changed = true;
        stele_repair_look(partition); /* what was damaged may be deleted */
    }
}

bool stele_replica__is_held_back(struct stele_partition *partition)
{
    const struct stele_replica *replica = &partition->replica;
    struct stele_shard *shard = partition->shard;
    bool has_all =
        replica->leader_end_offset >= 0 && replica->leader_end_offset <= stele_log_end_offset(partition->log);
    if (!replica->is_throttled[STELE_THROTTLE_FOLLOWER] || has_all ||
        stele_node_set_has(&replica->state.isr, shard->node->node_id))
        return false;
    int64_t delay_ms = stele_throttle_delay(shard, STELE_THROTTLE_FOLLOWER);
    if (delay_ms == 0)
        return false;
    STELE_METRIC_ADD(shard->env->metrics, throttle_held_fetches, 1);
    retry_later(partition, delay_ms);
    return true;
}

static void count_throttled(const struct stele_partition *partition, int64_t bytes)
{
    if (!partition->replica.is_throttled[STELE_THROTTLE_FOLLOWER] || bytes == 0)
        return;
    stele_throttle_count(partition->shard, STELE_THROTTLE_FOLLOWER, bytes);
    STELE_METRIC_ADD(partition->shard->env->metrics, throttled_received, bytes);
}

static void set_read_from(struct stele_partition *partition, bool is_read_from)
{
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_READERS, .is_read_from = is_read_from};
    if (partition->replica.follower.is_read_from == is_read_from || partition->replica.cut != STELE_CUT_NONE)
        return;
    step(partition, &event, &update);
    ask(partition, INT64_MIN);
}

void stele_replica__read_from(struct stele_partition *partition)
{
    partition->replica.read_ms = stele_env_mono_ms(partition->shard->env);
    set_read_from(partition, true);
}

static void look_for_readers(struct stele_partition *partition)
{
    if (partition->replica.follower.is_read_from &&
        stele_env_mono_ms(partition->shard->env) - partition->replica.read_ms > READERS_MS)
        set_read_from(partition, false);
}

static bool agrees(const struct stele_partition *partition, const struct stele_follower_ticket *ticket,
                   const struct stele_fetch_answer *answer)
{
    const struct stele_follower *follower = &partition->replica.follower;
    return answer->err == STELE_OK && !stele_epoch_end_is_known(&answer->diverging) &&
           ticket->leader_epoch == follower->leader_epoch && ticket->generation == follower->generation &&
           ticket->fetch_offset == stele_log_end_offset(partition->log);
}

void stele_replica__answered(struct stele_partition *partition, const struct stele_follower_ticket *ticket,
                             const struct stele_replica_answer *answer)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_ANSWER, .ticket = *ticket, .answer = answer->answer};
    size_t bytes = 0;
    count_throttled(partition, (int64_t)answer->count);
    if (replica->role != STELE_REPLICA_FOLLOWER || replica->cut != STELE_CUT_NONE)
        return;
    if (partition->is_held) {
        stele_replica__lost(partition, ticket);
        return;
    }
    if (answer->answer.err == STELE_OK)
        replica->leader_end_offset = answer->answer.log_end_offset;
    else
        STELE_METRIC_ADD(partition->shard->env->metrics, replica_fetch_errors, 1);
    event.own_end = stele_replica__epoch_end(partition, answer->answer.diverging.epoch);
    event.records = stele_fetched_records_begin(ticket);
    replica->is_agreed = replica->is_agreed || agrees(partition, ticket, &answer->answer);
    if (answer->answer.err == STELE_OK && ticket->generation == replica->follower.generation &&
        ticket->fetch_offset == stele_log_end_offset(partition->log))
        bytes = take_batches(partition, ticket, answer, &event.records);
    step(partition, &event, &update);
    if (update.has_restart && update.append_end_offset >= 0 &&
        !keep_behind_cut(partition, &update, answer->bytes, bytes)) {
        retry_later(partition, RETRY_MS);
        return;
    }
    if (!carry_out(partition, &update))
        return;
    if (update.append_end_offset >= 0) {
        enum stele_err err = append(partition, answer->bytes, bytes);
        if (err != STELE_OK) {
            give_up(partition, ticket, err);
            return;
        }
        partition->shard->is_changed = true;
    }
    raise(partition, &update);
    if (update.wants_sync)
        stele_partition__flush(partition);
    stele_partition__arm_flush(partition);
    look_for_readers(partition);
    ask(partition, update.deadline_ms);
}

void stele_replica__lost(struct stele_partition *partition, const struct stele_follower_ticket *ticket)
{
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_LOST, .ticket = *ticket};
    if (partition->replica.role != STELE_REPLICA_FOLLOWER || partition->replica.cut != STELE_CUT_NONE)
        return;
    step(partition, &event, &update);
    if (carry_out(partition, &update))
        ask(partition, update.deadline_ms);
}

void stele_replica__follow(struct stele_partition *partition, const struct stele_partition_state *state)
{
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_FOLLOW, .state = state};
    int32_t epoch = partition->replica.follower.leader_epoch;
    tell_damage(partition);
    step(partition, &event, &update);
    bool is_newer = partition->replica.follower.leader_epoch != epoch;
    if (is_newer) {
        stele_replica_fetcher_leave(partition);
        partition->replica.leader_end_offset = -1;
        partition->replica.is_agreed = false;
    }
    if (carry_out(partition, &update) && is_newer)
        ask(partition, update.deadline_ms);
}

void stele_replica__unfollow(struct stele_partition *partition)
{
    stele_replica_fetcher_leave(partition);
    if (!partition->replica.is_cutting) {
        partition->replica.cut = STELE_CUT_NONE;
        drop_behind_cut(partition);
    }
    stele_timer_cancel(partition->shard->wheel, &partition->replica.fetch_timer);
}

void stele_replica__released(struct stele_partition *partition)
{
    stele_replica__take_state(partition);
    if (partition->replica.cut != STELE_CUT_NONE)
        go_on(partition);
    else
        ask(partition, INT64_MIN);
}

void stele_replica__follow_again(struct stele_partition *partition)
{
    if (partition->replica.line == NULL)
        ask(partition, INT64_MIN);
}

void stele_replica__follow_synced(struct stele_partition *partition)
{
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_SYNCED};
    if (partition->replica.cut != STELE_CUT_NONE)
        return;
    step(partition, &event, &update);
    if (update.wants_sync)
        stele_partition__flush(partition);
    if (update.wants_report)
        ask(partition, INT64_MIN);
}

void stele_replica__follow_configured(struct stele_partition *partition, struct stele_follower_settings settings)
{
    struct stele_replica *replica = &partition->replica;
    struct stele_follower_update update;
    struct stele_follower_event event = {.kind = STELE_FOLLOWER_SETTINGS, .settings = settings};
    step(partition, &event, &update);
    if (replica->role != STELE_REPLICA_FOLLOWER || replica->cut != STELE_CUT_NONE)
        return;
    if (update.wants_sync)
        stele_partition__flush(partition);
    if (update.wants_report)
        ask(partition, INT64_MIN);
}
