/* A node: the owner of the two machines, who carries out what they decide on a model log and model messages. */
#include <string.h>

#include "partition_world.h"

int64_t pw_node_now(const struct pw_world *world, const struct pw_node *node)
{
    return world->now * node->clock_rate / 1000 + node->clock_offset;
}

/* How long until the node's clock shows `time_ms`. */
static int64_t until(const struct pw_world *world, const struct pw_node *node, int64_t time_ms)
{
    int64_t left = time_ms - pw_node_now(world, node);
    return left <= 0 ? 0 : left * 1000 / node->clock_rate + 1;
}

static struct pw_event *post_own(struct pw_world *world, struct pw_node *node, enum pw_event_kind kind, int64_t delay)
{
    struct pw_event *event = pw_post(world, kind, node->id, delay);
    event->incarnation = node->incarnation;
    return event;
}

static void learn_producers(struct pw_node *node)
{
    for (int p = 0; p < PW_PRODUCERS; p++) {
        node->last_seq[p] = -1;
        node->last_end[p] = 0;
    }
    for (int64_t offset = node->log.start; offset < node->log.end; offset++) {
        const struct pw_record *record = &node->log.records[offset];
        node->last_seq[record->producer] = record->seq;
        node->last_end[record->producer] = offset + 1;
    }
}

static void start_sync(struct pw_world *world, struct pw_node *node)
{
    if (node->is_syncing || node->log.synced >= node->log.end) {
        return;
    }
    node->is_syncing = true;
    node->sync_target = node->log.end;
    (void)post_own(world, node, PW_SYNC_DONE, pw_draw(world, 1, world->config.sync_max_ms));
}

static void cut(struct pw_world *world, struct pw_node *node, int64_t offset)
{
    pw_check_cut(world, node, offset);
    pw_log_cut(&node->log, offset);
    node->sync_target = stele_min_i64(node->sync_target, node->log.end);
    node->verified_end = stele_min_i64(node->verified_end, offset);
    learn_producers(node);
    world->stats.cuts++;
}

static void restart_log(struct pw_world *world, struct pw_node *node, int64_t offset)
{
    pw_log_restart(&node->log, offset);
    node->sync_target = offset;
    node->verified_end = 0;
    learn_producers(node);
    world->restarts_of_log++;
}

/* ---- leading ---- */

static void send_wish(struct pw_world *world, struct pw_node *node, const struct stele_isr_change *change)
{
    pw_check_proposal(world, node, change);
    int64_t delay = 0;
    if (!pw_reaches(world, node->id, PW_CONTROLLER, &delay)) {
        struct pw_event *lost = post_own(world, node, PW_ALTER_ANSWER, pw_draw(world, 10, 100));
        lost->isr_answer = (struct stele_isr_answer){.change_id = change->change_id, .err = STELE_REQUEST_TIMED_OUT};
        return;
    }
    if (world->config.has_alter_trouble && !world->is_healed && pw_chance(world, 150)) {
        delay += pw_draw(world, 0, 400); /* a controller that is busy */
    }
    /* One connection: wishes arrive in the order in which they were sent. */
    int64_t arrival = stele_max_i64(world->now + delay, node->last_alter_arrival);
    node->last_alter_arrival = arrival;
    struct pw_event *event = pw_post(world, PW_ALTER, PW_CONTROLLER, arrival - world->now);
    event->from = node->id;
    event->from_incarnation = node->incarnation;
    event->fetcher_epoch = node->node_epoch;
    event->change = *change;
}

static struct stele_leader_event fetch_event(struct pw_world *world, struct pw_node *node, int from, int64_t epoch,
                                             const struct stele_fetch_line *line)
{
    return (struct stele_leader_event){
        .kind = STELE_LEADER_FETCH,
        .now_ms = pw_node_now(world, node),
        .log = pw_log_view(&node->log),
        .fetcher_id = from,
        .fetcher_epoch = epoch,
        .line = *line,
        .epoch_end = pw_log_epoch_end(&node->log, line->last_fetched_epoch),
    };
}

static void fill_records(struct pw_world *world, struct pw_node *node, struct pw_event *event)
{
    const struct stele_fetch_line *line = &event->question.line;
    event->record_count = 0;
    if (event->answer.err != STELE_OK || stele_epoch_end_is_known(&event->answer.diverging) ||
        line->fetch_offset >= node->log.end) {
        return;
    }
    const struct pw_log *log = &node->log;
    int64_t base = log->records[line->fetch_offset].batch_base;
    int64_t end = base;
    while (end < log->end && log->records[end].batch_end - base <= PW_FETCH_MAX) {
        end = log->records[end].batch_end;
    }
    event->base_offset = base;
    event->record_count = (int)(end - base);
    event->is_lazy = (int)pw_draw(world, 0, 99) < world->config.lazy;
    memcpy(event->records, &log->records[base], sizeof event->records[0] * (size_t)event->record_count);
}

static void answer_fetch(struct pw_world *world, struct pw_node *node, int to, const struct pw_parked *fetch,
                         const struct stele_fetch_answer *answer)
{
    int copies = pw_chance(world, world->config.duplicates) ? 2 : 1;
    for (int i = 0; i < copies; i++) {
        int64_t delay = 0;
        if (!pw_reaches(world, node->id, to, &delay)) {
            continue;
        }
        struct pw_event *event = pw_post(world, PW_FETCH_ANSWER, to, delay);
        event->incarnation = fetch->from_incarnation;
        event->from = node->id;
        event->from_incarnation = node->incarnation;
        event->number = fetch->fetch_id;
        event->question = fetch->question;
        event->answer = *answer;
        fill_records(world, node, event);
    }
}

/* Parked fetches are looked at again; `only` a follower, or -1. */
static void look_at_parked(struct pw_world *world, struct pw_node *node, int only, bool is_over)
{
    for (int i = 0; i < world->config.node_count; i++) {
        struct pw_parked *parked = &node->parked[i];
        if (!parked->is_parked || (only >= 0 && only != i)) {
            continue;
        }
        struct stele_leader_event event = fetch_event(world, node, i, parked->fetcher_epoch, &parked->question.line);
        bool has_data = parked->question.line.fetch_offset < node->log.end;
        if (is_over || has_data || stele_leader_wakes_fetch(&node->leader, &event)) {
            parked->is_parked = false;
            struct stele_fetch_answer answer = stele_leader_look(&node->leader, &event);
            answer_fetch(world, node, i, parked, &answer);
        }
    }
}

static void evaluate_later(struct pw_world *world, struct pw_node *node)
{
    if (!node->is_evaluating && node->wait_count > 0) {
        node->is_evaluating = true;
        (void)post_own(world, node, PW_EVALUATE, pw_draw(world, 0, world->config.evaluate_max_ms));
    }
}

static void leader_step(struct pw_world *world, struct pw_node *node, struct stele_leader_event *event,
                        struct stele_leader_update *update)
{
    event->now_ms = pw_node_now(world, node);
    event->log = pw_log_view(&node->log);
    bool led = node->leader.is_leading;
    int32_t led_epoch = node->leader.leader_epoch;
    int64_t old_hw = node->leader.high_watermark;
    stele_leader_step(&node->leader, event, update);
    world->stats.leader_reached |= node->leader.reached;
    if (update->has_epoch_start) {
        pw_log_assign(&node->log, update->leader_epoch, update->epoch_start_offset);
    }
    if (update->has_high_watermark) {
        node->log.hw = update->high_watermark;
    }
    if (node->leader.is_leading) {
        bool is_same = led && led_epoch == node->leader.leader_epoch;
        if (!is_same) {
            memset(node->fetched_in_epoch, 0, sizeof node->fetched_in_epoch);
        }
        pw_check_watermark(world, node, is_same ? old_hw : -1);
    }
    if (update->has_isr_change) {
        send_wish(world, node, &update->isr_change);
    }
    if (update->deadline_ms != INT64_MAX && update->deadline_ms != node->leader_tick) {
        node->leader_tick = update->deadline_ms;
        struct pw_event *tick = post_own(world, node, PW_LEADER_TICK, until(world, node, update->deadline_ms));
        tick->number = update->deadline_ms;
    }
    if (update->wakes_waiters) {
        evaluate_later(world, node);
    }
    if (update->wakes_fetches) {
        look_at_parked(world, node, -1, false);
    }
}

static void leader_simple(struct pw_world *world, struct pw_node *node, enum stele_leader_event_kind kind)
{
    struct stele_leader_event event = {.kind = kind};
    struct stele_leader_update update;
    leader_step(world, node, &event, &update);
}

static void take_fetch(struct pw_world *world, struct pw_node *node, const struct pw_event *event)
{
    struct pw_parked fetch = {
        .is_parked = true,
        .question = event->question,
        .fetcher_epoch = event->fetcher_epoch,
        .fetch_id = event->number,
        .from_incarnation = event->from_incarnation,
    };
    look_at_parked(world, node, event->from, true); /* one connection: what is parked is answered first */
    struct stele_leader_event step = fetch_event(world, node, event->from, event->fetcher_epoch, &event->question.line);
    struct stele_leader_update update;
    struct stele_fetch_answer look = stele_leader_look(&node->leader, &step);
    if (look.err == STELE_OK && !stele_epoch_end_is_known(&look.diverging)) {
        node->fetched_in_epoch[event->from] = true;
    }
    leader_step(world, node, &step, &update);
    if (update.answer.err != STELE_OK || stele_epoch_end_is_known(&update.answer.diverging)) {
        answer_fetch(world, node, event->from, &fetch, &update.answer);
        return;
    }
    node->parked[event->from] = fetch;
    look_at_parked(world, node, event->from, false);
    if (node->parked[event->from].is_parked) {
        struct pw_event *end = post_own(world, node, PW_PARK_END, pw_draw(world, 20, 60));
        end->from = event->from;
        end->number = fetch.fetch_id;
    }
}

static void evaluate(struct pw_world *world, struct pw_node *node)
{
    node->is_evaluating = false;
    int kept = 0;
    for (int i = 0; i < node->wait_count; i++) {
        struct pw_wait *wait = &node->waits[i];
        struct stele_produce_outcome outcome = stele_leader_produce_outcome(&node->leader, &wait->wait);
        if (outcome.is_pending) {
            node->waits[kept++] = *wait;
            continue;
        }
        struct pw_event answer = {
            .node = wait->producer,
            .from = node->id,
            .seq = wait->seq,
            .count = wait->count,
            .attempt = wait->attempt,
            .acks = wait->wait.acks,
            .err = outcome.err,
            .level = outcome.level,
            .offset = wait->wait.required_offset - wait->count,
        };
        pw_check_ack(world, &answer);
        if (pw_chance(world, world->config.loss)) {
            continue;
        }
        struct pw_event *event = pw_post(world, PW_PRODUCE_ANSWER, wait->producer, pw_draw(world, 0, 5));
        int64_t time = event->time;
        uint64_t order = event->order;
        *event = answer;
        event->kind = PW_PRODUCE_ANSWER;
        event->time = time;
        event->order = order;
    }
    node->wait_count = kept;
}

static void append_batch(struct pw_world *world, struct pw_node *node, const struct pw_event *event)
{
    struct pw_record records[PW_FETCH_MAX];
    int64_t base = node->log.end;
    for (int32_t i = 0; i < event->count; i++) {
        records[i] = (struct pw_record){
            .epoch = node->leader.leader_epoch,
            .producer = event->from,
            .seq = event->seq + i,
            .batch_base = (int32_t)base,
            .batch_end = (int32_t)(base + event->count),
        };
    }
    pw_log_append(world, &node->log, records, base, event->count);
    node->last_seq[event->from] = event->seq + event->count - 1;
    node->last_end[event->from] = node->log.end;
    pw_check_append(world, node, base, node->log.end);
    leader_simple(world, node, STELE_LEADER_LOG);
    look_at_parked(world, node, -1, false);
    if (world->config.is_flush) {
        start_sync(world, node);
    }
}

enum stele_err pw_node_produce(struct pw_world *world, struct pw_node *node, const struct pw_event *event)
{
    if (!node->is_acting || node->wait_count == PW_WAITS_MAX) {
        return STELE_CLOSED;
    }
    enum stele_err err = stele_leader_admits(&node->leader, event->acks);
    if (err != STELE_OK) {
        return err;
    }
    int32_t last = node->last_seq[event->from];
    if (event->acks == -1 && last + 1 < event->seq && last >= 0 && !world->is_tainted) {
        return STELE_OUT_OF_ORDER_SEQUENCE_NUMBER;
    }
    if (event->seq > last) {
        append_batch(world, node, event);
    } else if (event->seq + event->count - 1 != last) {
        return STELE_OUT_OF_ORDER_SEQUENCE_NUMBER; /* of an attempt long answered */
    }
    if (event->acks == 0) {
        return STELE_OK;
    }
    node->waits[node->wait_count++] = (struct pw_wait){
        .wait = {.leader_epoch = node->leader.leader_epoch,
                 .acks = event->acks,
                 .required_offset = node->last_end[event->from]},
        .producer = event->from,
        .attempt = event->attempt,
        .seq = event->seq,
        .count = event->count,
    };
    evaluate(world, node);
    return STELE_OK;
}

void pw_node_retention(struct pw_world *world, struct pw_node *node, int64_t offset)
{
    int64_t start = 0;
    if (stele_leader_delete_to(&node->leader, offset, &start) != STELE_OK) {
        return;
    }
    pw_log_raise_start(&node->log, start);
    world->deleted_end = stele_max_i64(world->deleted_end, start);
    leader_simple(world, node, STELE_LEADER_LOG);
    int64_t low = stele_leader_low_watermark(&node->leader);
    if (low > node->log.start) {
        pw_fail(world, "a low watermark above the leader's own start");
    }
}

/* ---- following ---- */

static void try_fetch(struct pw_world *world, struct pw_node *node, bool is_report)
{
    if (!node->is_acting || node->leads || !node->has_replica || (node->pending_fetch != 0 && !is_report)) {
        return;
    }
    struct stele_follower_question question;
    struct stele_log_view view = pw_log_view(&node->log);
    if (!stele_follower_fetch(&node->follower, pw_node_now(world, node), &view, &question)) {
        return;
    }
    node->pending_fetch = ++node->fetch_id;
    struct pw_event *lost = post_own(world, node, PW_FETCH_LOST, pw_draw(world, 80, 200));
    lost->number = node->fetch_id;
    lost->question = question;
    int copies = pw_chance(world, world->config.duplicates) ? 2 : 1;
    for (int i = 0; i < copies; i++) {
        int64_t delay = 0;
        struct pw_node *leader = &world->nodes[question.ticket.leader_id];
        if (!pw_reaches(world, node->id, leader->id, &delay)) {
            continue;
        }
        struct pw_event *event = pw_post(world, PW_FETCH, leader->id, delay);
        event->incarnation = leader->incarnation;
        event->from = node->id;
        event->from_incarnation = node->incarnation;
        event->fetcher_epoch = node->node_epoch;
        event->number = node->fetch_id;
        event->question = question;
    }
}

/* The batches of an answer. Bytes that are sent lazily are what the sender has when they leave (KAFKA-18723). */
static bool walk_records(struct pw_world *world, struct pw_node *node, struct pw_event *event,
                         struct stele_fetched_records *records)
{
    const struct pw_node *from = &world->nodes[event->from];
    if (event->is_lazy && event->record_count > 0) {
        if (!from->is_up || from->incarnation != event->from_incarnation) {
            return false; /* the connection went with it */
        }
        int64_t end = stele_min_i64(event->base_offset + event->record_count, from->log.end);
        event->record_count = (int)stele_max_i64(end - event->base_offset, 0);
        memcpy(event->records, &from->log.records[event->base_offset],
               sizeof event->records[0] * (size_t)event->record_count);
    }
    struct stele_log_view view = pw_log_view(&node->log);
    *records = stele_fetched_records_begin(&event->question.ticket);
    for (int i = 0; i < event->record_count;) {
        const struct pw_record *first = &event->records[i];
        int size = first->batch_end - first->batch_base;
        bool is_whole = first->batch_base == event->base_offset + i && i + size <= event->record_count;
        for (int k = 0; is_whole && k < size; k++) {
            is_whole =
                event->records[i + k].batch_base == first->batch_base && event->records[i + k].epoch == first->epoch;
        }
        struct stele_fetched_batch batch = {first->batch_base, first->batch_end, first->epoch};
        if (!is_whole) {
            records->is_cut = true;
            break;
        }
        if (!stele_follower_takes(&event->question.ticket, &view, &batch, records)) {
            break;
        }
        i += size;
    }
    return true;
}

static void carry_follower(struct pw_world *world, struct pw_node *node, const struct stele_follower_update *update,
                           const struct pw_event *event)
{
    world->stats.follower_reached |= node->follower.reached;
    if (update->has_cut) {
        cut(world, node, update->cut_offset);
    }
    if (update->has_restart) {
        restart_log(world, node, update->restart_offset);
    }
    if (update->append_end_offset >= 0) {
        int64_t base = node->log.end;
        int64_t skipped = base - event->base_offset;
        if (skipped < 0 || skipped > event->record_count) {
            pw_fail(world, "D26: node %d appends with a gap", node->id);
        }
        pw_log_append(world, &node->log, &event->records[skipped], base, (int)(update->append_end_offset - base));
        for (int64_t offset = base; offset < node->log.end; offset++) {
            const struct pw_record *record = &node->log.records[offset];
            if (record->epoch > node->follower.leader_epoch) {
                pw_fail(world, "D27: node %d appends a batch of a future epoch", node->id);
            }
            node->last_seq[record->producer] = record->seq;
            node->last_end[record->producer] = offset + 1;
        }
    }
    if (update->has_high_watermark) {
        node->log.hw = update->high_watermark;
    }
    if (update->has_start) {
        pw_log_raise_start(&node->log, update->start_offset);
    }
    if (update->wants_sync) {
        start_sync(world, node);
    }
    pw_check_node(world, node);
    if (update->deadline_ms != INT64_MAX && update->deadline_ms > pw_node_now(world, node)) {
        (void)post_own(world, node, PW_FOLLOWER_DUE, until(world, node, update->deadline_ms));
    }
    try_fetch(world, node, update->wants_report);
}

static void follower_step(struct pw_world *world, struct pw_node *node, struct stele_follower_event *step,
                          const struct pw_event *event)
{
    struct stele_follower_update update;
    step->now_ms = pw_node_now(world, node);
    step->log = pw_log_view(&node->log);
    stele_follower_step(&node->follower, step, &update);
    carry_follower(world, node, &update, event);
}

static void take_answer(struct pw_world *world, struct pw_node *node, struct pw_event *event)
{
    if (event->kind == PW_FETCH_LOST && node->pending_fetch != event->number) {
        return; /* it was answered */
    }
    if (node->pending_fetch == event->number) {
        node->pending_fetch = 0;
    }
    if (node->leads || !node->has_replica) {
        return;
    }
    struct stele_follower_event step = {
        .kind = event->kind == PW_FETCH_LOST ? STELE_FOLLOWER_LOST : STELE_FOLLOWER_ANSWER,
        .ticket = event->question.ticket,
        .answer = event->answer,
    };
    if (event->kind == PW_FETCH_ANSWER) {
        if (!walk_records(world, node, event, &step.records)) {
            step.kind = STELE_FOLLOWER_LOST;
        }
        step.own_end = pw_log_epoch_end(&node->log, event->answer.diverging.epoch);
    }
    follower_step(world, node, &step, event);
}

static void sync_done(struct pw_world *world, struct pw_node *node)
{
    node->is_syncing = false;
    node->log.synced = stele_max_i64(node->log.synced, stele_min_i64(node->sync_target, node->log.end));
    if (node->leads) {
        leader_simple(world, node, STELE_LEADER_LOG);
        if (world->config.is_flush) {
            start_sync(world, node);
        }
    } else if (node->has_replica && node->is_acting) {
        struct stele_follower_event step = {.kind = STELE_FOLLOWER_SYNCED};
        follower_step(world, node, &step, NULL);
    }
}

/* ---- metadata ---- */

static void take_role(struct pw_world *world, struct pw_node *node)
{
    const struct stele_partition_state *state = &node->state;
    bool is_replica = stele_node_set_has(&state->replicas, node->id);
    if (node->leads && state->leader_id != node->id) {
        struct stele_leader_event resign = {.kind = STELE_LEADER_RESIGN, .state = state};
        struct stele_leader_update update;
        leader_step(world, node, &resign, &update);
        node->leads = false;
    }
    if (!is_replica) {
        if (node->has_replica || node->log.end > 0) {
            restart_log(world, node, 0);
            const struct stele_leader_settings leader = node->leader.settings;
            const struct stele_follower_settings follower = node->follower.settings;
            stele_leader_init(&node->leader, node->id, node->node_epoch, &leader);
            stele_follower_init(&node->follower, node->id, &follower);
            evaluate_later(world, node);
        }
        node->has_replica = false;
        return;
    }
    node->has_replica = true;
    if (state->leader_id == node->id) {
        struct stele_leader_event lead = {
            .kind = STELE_LEADER_LEAD, .state = state, .nodes = node->statuses, .node_count = world->config.node_count};
        struct stele_leader_update update;
        bool is_new = state->leader_epoch > node->leader.leader_epoch;
        node->leads = true;
        node->pending_fetch = 0;
        leader_step(world, node, &lead, &update);
        if (is_new) {
            pw_say(world, "node %d leads epoch %d from %lld, hw %lld", node->id, state->leader_epoch,
                   (long long)node->log.end, (long long)node->log.hw);
        }
        if (world->config.is_flush) {
            start_sync(world, node);
        }
        pw_check_node(world, node);
        return;
    }
    struct stele_follower_event follow = {.kind = STELE_FOLLOWER_FOLLOW, .state = state};
    int32_t epoch = node->follower.leader_epoch;
    if (state->leader_epoch > epoch) {
        node->pending_fetch = 0;
    }
    follower_step(world, node, &follow, NULL);
}

void pw_node_apply(struct pw_world *world, struct pw_node *node, int until_index)
{
    bool has_state = false;
    bool is_changed[PW_NODES_MAX] = {false};
    for (; node->meta_applied < until_index; node->meta_applied++) {
        const struct pw_meta *meta = &world->meta[node->meta_applied];
        if (meta->is_state) {
            if (meta->state.partition_epoch < node->state.partition_epoch && has_state) {
                pw_fail(world, "D28: partition epochs fall");
            }
            node->state = meta->state;
            has_state = true;
        } else {
            node->statuses[meta->status.node_id] = meta->status;
            is_changed[meta->status.node_id] = true;
        }
    }
    if (has_state) {
        take_role(world, node);
    }
    for (int i = 0; i < world->config.node_count; i++) {
        if (is_changed[i] && node->leads) {
            struct stele_leader_event event = {
                .kind = STELE_LEADER_NODES, .nodes = &node->statuses[i], .node_count = 1};
            struct stele_leader_update update;
            leader_step(world, node, &event, &update);
        }
    }
}

/* ---- life ---- */

void pw_node_start(struct pw_world *world, int id)
{
    struct pw_node *node = &world->nodes[id];
    node->is_up = true;
    node->incarnation++;
    world->stats.restarts++;
    if (!node->has_lost_tail) {
        pw_log_recover(world, &node->log, false);
    }
    node->verified_end = stele_min_i64(node->verified_end, node->log.end);
    learn_producers(node);
    pw_say(world, "node %d starts with [%lld, %lld) synced %lld hw %lld", id, (long long)node->log.start,
           (long long)node->log.end, (long long)node->log.synced, (long long)node->log.hw);
    (void)post_own(world, node, PW_HEARTBEAT_SEND, 0);
    (void)post_own(world, node, PW_HOUSEKEEPING, 50);
}

void pw_node_stop(struct pw_world *world, int id, bool is_power, bool is_clean)
{
    struct pw_node *node = &world->nodes[id];
    pw_say(world, "node %d stops%s%s, log ends at %lld, synced %lld", id, is_power ? ", power" : "",
           is_clean ? ", clean" : "", (long long)node->log.end, (long long)node->log.synced);
    if (is_clean) {
        node->log.synced = node->log.end;
        node->log.checkpoint_hw = node->log.hw;
    }
    node->is_up = node->is_acting = node->leads = node->is_syncing = node->is_evaluating = false;
    node->wait_count = 0;
    node->pending_fetch = 0;
    node->leader_tick = 0;
    node->last_alter_arrival = 0;
    memset(node->parked, 0, sizeof node->parked);
    if (is_power) {
        node->has_lost_tail = true;
        pw_log_recover(world, &node->log, true);
        node->verified_end = stele_min_i64(node->verified_end, node->log.end);
    }
}

void pw_node_wipe(struct pw_world *world, int id)
{
    struct pw_node *node = &world->nodes[id];
    pw_say(world, "node %d loses its disk", id);
    node->has_lost_disk = true;
    node->verified_end = 0;
    pw_log_restart(&node->log, 0);
}

static void become_registered(struct pw_world *world, struct pw_node *node, const struct pw_event *event)
{
    if (node->is_acting) {
        return;
    }
    const struct stele_leader_settings leader = {.min_insync_replicas = world->config.min_isr,
                                                 .replica_lag_ms = world->config.lag_ms,
                                                 .is_flush_before_ack = world->config.is_flush};
    const struct stele_follower_settings follower = {.fetch_backoff_ms = world->config.backoff_ms,
                                                     .is_flush_before_ack = world->config.is_flush};
    node->node_epoch = event->fetcher_epoch;
    node->is_acting = true;
    node->meta_applied = 0;
    node->state = (struct stele_partition_state){.leader_id = STELE_NO_NODE, .partition_epoch = -1};
    stele_leader_init(&node->leader, node->id, node->node_epoch, &leader);
    stele_follower_init(&node->follower, node->id, &follower);
    pw_node_apply(world, node, (int)event->number);
    (void)post_own(world, node, PW_META, 0);
}

static void send_heartbeat(struct pw_world *world, struct pw_node *node)
{
    int64_t delay = 0;
    if (pw_reaches(world, node->id, PW_CONTROLLER, &delay)) {
        struct pw_event *event = pw_post(world, node->is_acting ? PW_HEARTBEAT : PW_REGISTER, PW_CONTROLLER, delay);
        event->from = node->id;
        event->from_incarnation = node->incarnation;
        event->fetcher_epoch = node->node_epoch;
    }
    (void)post_own(world, node, PW_HEARTBEAT_SEND, node->is_acting ? world->config.session_ms / 4 : 25);
}

/* Damage below the watermark is found, and after a while a peer has given the range. */
static void damage_or_repair(struct pw_world *world, struct pw_node *node)
{
    struct stele_follower_event step = {.kind = STELE_FOLLOWER_DAMAGE, .damaged_offset = -1};
    if (node->follower.damaged_offset < 0) {
        if (world->is_healed || !pw_chance(world, 30) || node->log.hw <= node->log.start ||
            !pw_may_lose(world, node->id)) {
            return;
        }
        step.damaged_offset = pw_draw(world, node->log.start, node->log.hw - 1);
    } else if (!world->is_healed && pw_chance(world, 600)) {
        node->damaged_until = world->now + 1500;
        return;
    }
    node->damaged_until = world->now + 1500;
    follower_step(world, node, &step, NULL);
}

static void housekeep(struct pw_world *world, struct pw_node *node)
{
    (void)post_own(world, node, PW_HOUSEKEEPING, pw_draw(world, 40, 120));
    if (!node->is_acting) {
        return;
    }
    if (pw_chance(world, 300)) {
        node->log.checkpoint_hw = node->log.hw;
    }
    if (pw_chance(world, 300)) {
        start_sync(world, node);
    }
    if (node->has_replica && !node->leads && pw_chance(world, 100)) {
        struct stele_follower_event step = {.kind = STELE_FOLLOWER_READERS, .is_read_from = pw_chance(world, 500)};
        follower_step(world, node, &step, NULL);
    }
    if (node->has_replica && !node->leads && (node->follower.damaged_offset >= 0 || world->config.has_damage)) {
        damage_or_repair(world, node);
    }
    if (node->leads && world->config.has_retention && pw_chance(world, 60)) {
        pw_node_retention(world, node, pw_draw(world, node->log.start, node->log.hw));
    }
}

void pw_node_event(struct pw_world *world, struct pw_event *event)
{
    struct pw_node *node = &world->nodes[event->node];
    if (event->kind == PW_START) {
        if (!node->is_up) {
            pw_node_start(world, node->id);
        }
        return;
    }
    if (!node->is_up || (event->incarnation != 0 && event->incarnation != node->incarnation)) {
        return;
    }
    if (event->kind == PW_HEARTBEAT_SEND) {
        send_heartbeat(world, node);
    } else if (event->kind == PW_REGISTER_ANSWER) {
        become_registered(world, node, event);
    } else if (event->kind == PW_HOUSEKEEPING) {
        housekeep(world, node);
    } else if (!node->is_acting) {
        return;
    } else if (event->kind == PW_FETCH) {
        take_fetch(world, node, event);
    } else if (event->kind == PW_FETCH_ANSWER || event->kind == PW_FETCH_LOST) {
        take_answer(world, node, event);
    } else if (event->kind == PW_FOLLOWER_DUE) {
        try_fetch(world, node, false);
    } else if (event->kind == PW_PARK_END) {
        if (node->parked[event->from].fetch_id == event->number) {
            look_at_parked(world, node, event->from, true);
        }
    } else if (event->kind == PW_ALTER_ANSWER) {
        struct stele_leader_event step = {.kind = STELE_LEADER_ISR_ANSWER, .isr_answer = event->isr_answer};
        struct stele_leader_update update;
        leader_step(world, node, &step, &update);
    } else if (event->kind == PW_LEADER_TICK) {
        if (node->leader_tick == event->number) {
            node->leader_tick = 0;
            leader_simple(world, node, STELE_LEADER_TICK);
        }
    } else if (event->kind == PW_SYNC_DONE) {
        sync_done(world, node);
    } else if (event->kind == PW_EVALUATE) {
        evaluate(world, node);
    } else if (event->kind == PW_META) {
        int most = world->meta_count;
        pw_node_apply(world, node, (int)pw_draw(world, stele_min_i64(node->meta_applied + 1, most), most));
        if (node->meta_applied < most) {
            (void)post_own(world, node, PW_META, pw_draw(world, 1, world->config.meta_delay_max_ms));
        }
    }
}
