/* Events and messages of the model world, and the life of its nodes. An update is carried out in the order that
 * quorum.h states; a crash may fall between any two of its parts. */
#include "replication/test/quorum_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int stele_mutation;

void world_break(struct world *world, const char *invariant, const char *format, ...)
{
    if (world->broken != NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->detail, sizeof(world->detail), format, args);
    va_end(args);
    world->broken = invariant;
}

static uint64_t draw(struct world *world, uint64_t bound)
{
    return stele_prng_below(&world->prng, bound);
}

static bool chance(struct world *world, int32_t in, int32_t of)
{
    return in > 0 && draw(world, (uint64_t)of) < (uint64_t)in;
}

/* ---- the heap of events, by time and then by number ---- */

static bool is_before(const struct world_event *a, const struct world_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void heap_push(struct world *world, const struct world_event *event)
{
    if (world->heap_count == WORLD_EVENTS) {
        world_break(world, "world", "too many events");
        return;
    }
    int32_t at = world->heap_count++;
    while (at > 0 && is_before(event, &world->heap[(at - 1) / 2])) {
        world->heap[at] = world->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    world->heap[at] = *event;
}

static struct world_event heap_pop(struct world *world)
{
    struct world_event first = world->heap[0], last = world->heap[--world->heap_count];
    int32_t at = 0;
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= world->heap_count) {
            break;
        }
        if (child + 1 < world->heap_count && is_before(&world->heap[child + 1], &world->heap[child])) {
            child++;
        }
        if (is_before(&last, &world->heap[child])) {
            break;
        }
        world->heap[at] = world->heap[child];
        at = child;
    }
    world->heap[at] = last;
    return first;
}

void world_schedule(struct world *world, const struct world_event *event, int64_t delay_us)
{
    struct world_event copy = *event;
    copy.at_us = world->now_us + delay_us;
    copy.sequence = ++world->sequence;
    heap_push(world, &copy);
}

static int32_t message_take(struct world *world)
{
    for (int32_t i = 0; i < WORLD_MESSAGES; i++) {
        int32_t at = (world->message_hint + i) % WORLD_MESSAGES;
        if (!world->messages[at].is_used) {
            world->message_hint = at + 1;
            world->messages[at].is_used = true;
            world->messages[at].count = 0;
            return at;
        }
    }
    world_break(world, "world", "too many messages");
    world->messages[0].is_used = true;
    return 0;
}

static void message_free(struct world *world, int32_t message)
{
    if (message >= 0) {
        world->messages[message].is_used = false;
    }
}

/* ---- the network ---- */

static int64_t delay_us(struct world *world)
{
    return 50 + (int64_t)draw(world, (uint64_t)world->faults.delay_max_us + 1);
}

static void send_closed(struct world *world, int32_t node, int32_t peer)
{
    struct world_event event = {
        .kind = WORLD_CLOSED, .node = node, .from = peer, .life = world->nodes[node].life, .message = -1};
    world_schedule(world, &event, delay_us(world));
}

/* Lost: sometimes the sender is told, as when a connection breaks, sometimes it has to wait. */
static void send_event(struct world *world, struct world_event *event, int32_t from)
{
    bool is_cut = world->is_blocked[from][event->node];
    bool is_refused = event->kind == WORLD_REQUEST && !world->nodes[event->node].is_alive;
    if (is_cut || is_refused || chance(world, world->faults.loss, 1000)) {
        message_free(world, event->message);
        if (is_refused || chance(world, 1, 3)) {
            send_closed(world, event->kind == WORLD_REQUEST ? from : event->node,
                        event->kind == WORLD_REQUEST ? event->node : from);
        }
        return;
    }
    if (chance(world, world->faults.duplicate, 1000)) {
        struct world_event again = *event;
        again.message = message_take(world);
        world->messages[again.message] = world->messages[event->message];
        world_schedule(world, &again, delay_us(world));
    }
    world_schedule(world, event, delay_us(world));
}

static void send_request(struct world *world, struct world_node *node, const struct stele_quorum_request *request)
{
    int32_t to = request->to.node_id;
    if (to < 0 || to >= world->node_count) {
        return;
    }
    struct world_event event = {.kind = WORLD_REQUEST, .node = to, .from = node->id, .message = message_take(world)};
    event.value = node->life;
    world->messages[event.message].request = *request;
    send_event(world, &event, node->id);
}

/* ---- what a leader reads for a fetch ---- */

static void fill_answer(struct world *world, struct world_node *node, const struct stele_quorum_request *request,
                        struct world_message *message)
{
    struct stele_quorum_answer *answer = &message->answer;
    message->count = 0;
    if (answer->err != STELE_OK) {
        return;
    }
    if (request->kind == STELE_QUORUM_FETCH && answer->u.fetch.result == STELE_QUORUM_FETCH_VALID) {
        int64_t offset = request->u.fetch.offset;
        int32_t most = (int32_t)stele_prng_range(&world->prng, 1, WORLD_RECORDS);
        message->base_offset = offset;
        while (message->count < most && offset < node->end) {
            message->entries[message->count++] = *world_entry(node, offset++);
        }
    }
    if (request->kind == STELE_QUORUM_FETCH_SNAPSHOT) {
        answer->err = STELE_SNAPSHOT_NOT_FOUND;
        for (int32_t i = 0; i < node->snapshot_count; i++) {
            if (node->snapshots[i].id.end_offset == request->u.snapshot.id.end_offset &&
                node->snapshots[i].id.epoch == request->u.snapshot.id.epoch) {
                answer->err = STELE_OK;
                message->snapshot = node->snapshots[i];
            }
        }
        answer->u.snapshot.id = request->u.snapshot.id;
        answer->u.snapshot.position = request->u.snapshot.position;
        answer->u.snapshot.size_bytes = WORLD_PIECES;
        answer->u.snapshot.chunk_bytes = 1;
    }
}

static bool park(struct world *world, struct world_node *node, const struct world_event *event,
                 const struct stele_quorum_request *request)
{
    for (int32_t i = 0; i < WORLD_PARKED; i++) {
        struct world_parked *parked = &node->parked[i];
        if (!parked->is_used) {
            *parked = (struct world_parked){.request = *request,
                                            .from = event->from,
                                            .life = (uint32_t)event->value,
                                            .until_us = world->now_us + 500000,
                                            .is_used = true};
            struct world_event wake = {
                .kind = WORLD_UNPARK, .node = node->id, .life = node->life, .message = -1, .value = i};
            world_schedule(world, &wake, 500000);
            return true;
        }
    }
    return false;
}

static void send_answer(struct world *world, struct world_node *node, const struct world_event *event)
{
    const struct stele_quorum_request *request = &world->messages[event->message].request;
    const struct stele_quorum_answer *answer = &node->pending.answer;
    world_check_answer(world, node, request, answer);
    bool is_idle = request->kind == STELE_QUORUM_FETCH && answer->err == STELE_OK &&
                   answer->u.fetch.result == STELE_QUORUM_FETCH_VALID && request->u.fetch.offset == node->end &&
                   event->kind == WORLD_REQUEST;
    if (is_idle && park(world, node, event, request)) {
        return;
    }
    struct world_event out = {.kind = WORLD_ANSWER, .node = event->from, .from = node->id, .message = -1};
    out.life = (uint32_t)event->value;
    out.message = message_take(world);
    world->messages[out.message].answer = *answer;
    fill_answer(world, node, request, &world->messages[out.message]);
    send_event(world, &out, node->id);
}

/* ---- the owner: carries out updates ---- */

static void report(struct world *world, struct world_node *node, enum world_kind kind, int64_t value)
{
    if (node->report_count == (int32_t)STELE_ARRAY_LEN(node->reports)) {
        world_break(world, "world", "too many reports");
        return;
    }
    node->reports[node->report_count++] =
        (struct world_event){.kind = kind, .node = node->id, .life = node->life, .message = -1, .value = value};
}

static void sync_begin(struct world *world, struct world_node *node)
{
    if (node->sync_end >= 0 || node->synced == node->end) {
        return;
    }
    node->sync_end = node->end;
    struct world_event event = {.kind = WORLD_SYNCED, .node = node->id, .life = node->life, .message = -1};
    world_schedule(world, &event, (int64_t)draw(world, (uint64_t)world->faults.sync_max_us + 1));
}

static void append(struct world *world, struct world_node *node, struct world_entry entry)
{
    world_log_append(world, node, &entry);
    node->eager_hash = world_mix(node->eager_hash, &entry);
    node->eager_end = node->end;
    sync_begin(world, node);
}

static void append_voters(struct world *world, struct world_node *node, const struct stele_voters *voters)
{
    if (world->set_count == WORLD_SETS) {
        world_break(world, "world", "too many sets of voters");
        return;
    }
    world_check_voters(world, node, voters);
    world->sets[world->set_count] = *voters;
    append(world, node,
           (struct world_entry){
               .epoch = node->quorum.election.epoch, .payload = ++world->payload, .voters = world->set_count++});
    report(world, node, WORLD_APPENDED, node->end);
}

static void append_fetched(struct world *world, struct world_node *node, const struct world_message *message)
{
    int32_t last = world_last_epoch(node);
    bool is_usable = message->base_offset == node->end && !chance(world, world->faults.unusable, 1000);
    for (int32_t i = 0; i < message->count; i++) {
        is_usable =
            is_usable && message->entries[i].epoch >= last && message->entries[i].epoch <= node->quorum.election.epoch;
        last = message->entries[i].epoch;
    }
    if (!is_usable) {
        report(world, node, WORLD_UNUSABLE, 0);
        return;
    }
    for (int32_t i = 0; i < message->count; i++) {
        world_log_append(world, node, &message->entries[i]);
        if (message->entries[i].voters >= 0 || i + 1 == message->count) {
            report(world, node, WORLD_APPENDED, node->end);
        }
    }
    sync_begin(world, node);
}

static void install_begin(struct world *world, struct world_node *node)
{
    if (node->snapshot_count == WORLD_SNAPSHOTS) {
        for (int32_t i = 1; i < WORLD_SNAPSHOTS; i++) {
            node->snapshots[i - 1] = node->snapshots[i];
        }
        node->snapshot_count--;
    }
    node->snapshots[node->snapshot_count++] = node->download;
    struct world_event event = {.kind = WORLD_INSTALLED, .node = node->id, .life = node->life, .message = -1};
    world_schedule(world, &event, (int64_t)draw(world, (uint64_t)world->faults.sync_max_us * 4 + 1));
}

static void change_log(struct world *world, struct world_node *node, const struct world_message *message)
{
    const struct stele_quorum_update *update = &node->pending;
    switch (update->log) {
    case STELE_QUORUM_LOG_NONE:
        break;
    case STELE_QUORUM_LOG_APPEND:
        append_fetched(world, node, message);
        break;
    case STELE_QUORUM_LOG_TRUNCATE:
        world_log_truncate(world, node, update->truncate_to);
        report(world, node, WORLD_TRUNCATED, node->end);
        break;
    case STELE_QUORUM_LOG_SNAPSHOT_WRITE:
        node->download = message->snapshot;
        break;
    case STELE_QUORUM_LOG_SNAPSHOT_INSTALL:
        node->download = message->snapshot;
        install_begin(world, node);
        break;
    case STELE_QUORUM_LOG_LEAD:
        world_check_leader(world, node);
        world->elections++;
        /* The controller takes over with all that is in its log. */
        node->eager_end = node->applied;
        node->eager_hash = node->hash;
        for (int64_t i = node->applied; i < node->end; i++) {
            node->eager_hash = world_mix(node->eager_hash, &node->entries[i]);
        }
        append(world, node,
               (struct world_entry){.epoch = node->quorum.election.epoch, .payload = ++world->payload, .voters = -1});
        report(world, node, WORLD_APPENDED, node->end);
        break;
    }
    if (update->has_voters) {
        append_voters(world, node, &update->voters);
    }
    if (update->is_leadership_lost) {
        node->eager_end = node->applied;
        node->eager_hash = node->hash;
    }
}

static void wake_parked(struct world *world, struct world_node *node)
{
    for (int32_t i = 0; i < WORLD_PARKED; i++) {
        if (node->parked[i].is_used) {
            struct world_event wake = {
                .kind = WORLD_UNPARK, .node = node->id, .life = node->life, .message = -1, .value = i};
            node->parked[i].until_us = world->now_us;
            world_schedule(world, &wake, 1);
        }
    }
}

/* The state machine goes up to the high watermark; a leader's controller is there already. */
static void apply(struct world *world, struct world_node *node)
{
    while (node->applied < node->quorum.high_watermark && node->applied < node->end) {
        if (node->applied < node->log_start) {
            world_break(world, "K12", "node %d cannot apply %lld, its log starts at %lld", node->id,
                        (long long)node->applied, (long long)node->log_start);
            return;
        }
        node->hash = world_mix(node->hash, &node->entries[node->applied]);
        node->applied++;
    }
    if (node->quorum.role != STELE_QUORUM_LEADER && node->eager_end <= node->applied) {
        node->eager_end = node->applied;
        node->eager_hash = node->hash;
    }
}

/* A timer that is set for an earlier time stays: one too many does no harm. */
static void set_timer(struct world *world, struct world_node *node)
{
    int64_t deadline_ms = node->pending.deadline_ms;
    if (deadline_ms == INT64_MAX) {
        return;
    }
    int64_t at_us = (deadline_ms * 1000 * 1000 + node->rate_permille - 1) / node->rate_permille;
    at_us = stele_max_i64(at_us, world->now_us + 1);
    if (at_us >= node->timer_us) {
        return;
    }
    struct world_event event = {.kind = WORLD_TIMER, .node = node->id, .life = node->life, .message = -1};
    event.value = (int64_t)++node->timer_sequence;
    node->timer_us = at_us;
    world_schedule(world, &event,
                   at_us - world->now_us + (int64_t)draw(world, (uint64_t)world->faults.late_max_us + 1));
}

static bool crashes_here(struct world *world, struct world_node *node)
{
    if (chance(world, world->faults.crash_inside, 10000)) {
        world_crash(world, node->id);
        struct world_event event = {.kind = WORLD_RESTART, .node = node->id, .message = -1};
        world_schedule(world, &event, (int64_t)draw(world, 3000000));
        return true;
    }
    return false;
}

/* All of the update behind its persisting. `event`: that of the step. */
static void finish(struct world *world, struct world_node *node, const struct world_event *event)
{
    const struct stele_quorum_update *update = &node->pending;
    if (update->fatal != STELE_OK) {
        world_break(world, "K10", "node %d ends: it would truncate what is committed", node->id);
        return;
    }
    if (crashes_here(world, node)) {
        return;
    }
    change_log(world, node, event->message >= 0 ? &world->messages[event->message] : NULL);
    if (world->broken != NULL || crashes_here(world, node)) {
        return;
    }
    for (int32_t i = 0; i < update->send_count; i++) {
        world_check_send(world, node);
        send_request(world, node, &update->sends[i]);
    }
    if (crashes_here(world, node)) {
        return;
    }
    if (update->has_answer) {
        world_check_send(world, node);
        send_answer(world, node, event);
    }
    apply(world, node);
    if (update->has_role_changed || update->has_high_watermark_moved || update->has_voters) {
        wake_parked(world, node);
    }
    set_timer(world, node);
    if (node->report_count == 0) {
        world_check_node(world, node);
    }
}

static void carry_out(struct world *world, struct world_node *node, const struct world_event *event)
{
    node->is_busy = false;
    if (node->pending.has_persist) {
        bool is_now = chance(world, 1, 4);
        struct world_event done = *event;
        done.kind = WORLD_PERSISTED;
        done.node = node->id;
        done.life = node->life;
        node->is_busy = true;
        /* What the event carries lives until the update is done. */
        node->queue[(node->queue_head + WORLD_QUEUE - 1) % WORLD_QUEUE] = *event;
        world_schedule(world, &done, is_now ? 0 : (int64_t)draw(world, (uint64_t)world->faults.persist_max_us + 1));
        return;
    }
    finish(world, node, event);
    message_free(world, event->message);
}

/* ---- from the world's events to the machine's ---- */

static void fill_view(struct world_node *node, struct stele_quorum_event *event, bool is_parked)
{
    struct stele_quorum_fetch_view *view = &event->u.request.view;
    *view = (struct stele_quorum_fetch_view){.log_start = node->log_start, .is_parked = is_parked};
    view->epoch_end = world_epoch_end(node, event->u.request.request.u.fetch.last_epoch);
    if (node->snapshot_count > 0) {
        view->oldest = node->snapshots[0].id;
        view->latest = node->snapshots[node->snapshot_count - 1].id;
    }
}

static void fill_appended(struct world *world, struct world_node *node, int64_t end, struct stele_quorum_event *out)
{
    const struct world_entry *entry = &node->entries[end - 1];
    out->kind = STELE_QUORUM_APPENDED;
    out->u.appended.end_offset = end;
    out->u.appended.last_epoch = entry->epoch;
    out->u.appended.has_voters = entry->voters >= 0;
    if (entry->voters >= 0) {
        out->u.appended.voters = (struct stele_voters_at){.offset = end - 1, .voters = world->sets[entry->voters]};
    }
}

static void replace_log(struct world *world, struct world_node *node, struct stele_quorum_event *out)
{
    const struct world_snapshot *snapshot = &node->download;
    if (node->quorum.role == STELE_QUORUM_LEADER) {
        world_break(world, "K14", "leader %d loads a snapshot", node->id);
    }
    if (snapshot->id.end_offset > world->committed_end ||
        snapshot->hash != world->committed_hash[snapshot->id.end_offset]) {
        world_break(world, "K13", "node %d installs a snapshot at %lld that is not what was committed", node->id,
                    (long long)snapshot->id.end_offset);
    }
    world->installs++;
    node->has_new_voters = true;
    node->snapshots[0] = *snapshot;
    node->snapshot_count = 1;
    node->log_start = node->end = node->synced = snapshot->id.end_offset;
    node->base_epoch = snapshot->id.epoch;
    node->base_hash = snapshot->hash;
    node->tail_end = 0;
    node->sync_end = stele_min_i64(node->sync_end, node->end);
    node->applied = node->eager_end = node->end;
    node->hash = node->eager_hash = snapshot->hash;
    out->kind = STELE_QUORUM_REPLACED;
    out->u.replaced.id = snapshot->id;
    out->u.replaced.voters = snapshot->voters;
}

static void fill_answer_event(struct world_node *node, const struct world_message *message,
                              struct stele_quorum_event *out)
{
    out->kind = STELE_QUORUM_ANSWER;
    out->u.answer.answer = message->answer;
    out->u.answer.records_end = message->base_offset + message->count;
    if (message->answer.kind == STELE_QUORUM_FETCH && message->answer.err == STELE_OK &&
        message->answer.u.fetch.result == STELE_QUORUM_FETCH_DIVERGING) {
        out->u.answer.epoch_end = world_epoch_end(node, message->answer.u.fetch.diverging.epoch);
    }
}

/* A parked fetch is asked again as if it came anew, with its own message. */
static bool unpark(struct world *world, struct world_node *node, struct world_event *event)
{
    struct world_parked *parked = &node->parked[event->value];
    if (!parked->is_used || parked->until_us > world->now_us) {
        return false;
    }
    parked->is_used = false;
    event->from = parked->from;
    event->value = parked->life;
    event->message = message_take(world);
    world->messages[event->message].request = parked->request;
    return true;
}

/* False: nothing to step. */
static bool translate(struct world *world, struct world_node *node, struct world_event *event,
                      struct stele_quorum_event *out)
{
    switch (event->kind) {
    case WORLD_REQUEST:
    case WORLD_UNPARK:
        if (event->kind == WORLD_UNPARK && !unpark(world, node, event)) {
            return false;
        }
        out->kind = STELE_QUORUM_REQUEST;
        out->u.request.request = world->messages[event->message].request;
        fill_view(node, out, event->kind == WORLD_UNPARK);
        return true;
    case WORLD_ANSWER:
        fill_answer_event(node, &world->messages[event->message], out);
        return true;
    case WORLD_CLOSED:
        out->kind = STELE_QUORUM_CLOSED;
        out->u.node_id = event->from;
        return true;
    case WORLD_TIMER:
        out->kind = STELE_QUORUM_TIMER;
        if ((uint64_t)event->value != node->timer_sequence) {
            return false;
        }
        node->timer_us = INT64_MAX;
        return true;
    case WORLD_SYNCED:
        if (node->sync_end < 0) {
            return false;
        }
        out->kind = STELE_QUORUM_SYNCED;
        node->synced = stele_max_i64(node->synced, node->sync_end);
        node->tail_end = 0;
        out->u.synced_offset = node->sync_end;
        node->sync_end = -1;
        sync_begin(world, node);
        return true;
    case WORLD_INSTALLED:
        replace_log(world, node, out);
        return true;
    case WORLD_APPENDED:
        fill_appended(world, node, event->value, out);
        return true;
    case WORLD_TRUNCATED:
        out->kind = STELE_QUORUM_TRUNCATED;
        out->u.log_end.end_offset = event->value;
        out->u.log_end.last_epoch = world_last_epoch(node);
        return true;
    case WORLD_UNUSABLE:
        out->kind = STELE_QUORUM_FETCH_UNUSABLE;
        return true;
    case WORLD_CHANGE:
        out->kind = STELE_QUORUM_CHANGE;
        out->u.change.kind = event->change;
        out->u.change.key = event->key;
        return true;
    case WORLD_RESIGN:
        out->kind = STELE_QUORUM_RESIGN;
        return true;
    case WORLD_STOP:
        out->kind = STELE_QUORUM_STOP;
        return true;
    case WORLD_FREE:
    case WORLD_PERSISTED:
    case WORLD_RESTART:
    case WORLD_WORK:
    case WORLD_FAULT:
        return false;
    }
    return false;
}

static int64_t node_now_ms(const struct world *world, const struct world_node *node)
{
    return world->now_us * node->rate_permille / (1000 * 1000);
}

static void feed(struct world *world, struct world_node *node, struct world_event *event)
{
    struct stele_quorum_event out = {.now_ms = node_now_ms(world, node), .random = stele_prng_u64(&world->prng)};
    if (!translate(world, node, event, &out)) {
        message_free(world, event->message);
        return;
    }
    bool was_leader = node->quorum.role == STELE_QUORUM_LEADER;
    int64_t high_watermark = node->quorum.high_watermark;
    stele_quorum_step(&node->quorum, &out, &node->pending);
    if (was_leader && node->quorum.high_watermark > high_watermark) {
        world_check_commit(world, node);
    }
    if (node->pending.has_change_done && node->pending.change_err == STELE_OK) {
        world->changes++;
    }
    world->reached |= node->quorum.reached;
    carry_out(world, node, event);
}

/* Reports first, then what waited, as long as the node is free. */
static void drain(struct world *world, struct world_node *node)
{
    while (node->is_alive && !node->is_busy && world->broken == NULL) {
        struct world_event event;
        if (node->report_count > 0) {
            event = node->reports[0];
            node->report_count--;
            memmove(node->reports, node->reports + 1, sizeof(event) * (size_t)node->report_count);
        } else if (node->queue_count > 0) {
            event = node->queue[node->queue_head];
            node->queue_head = (node->queue_head + 1) % WORLD_QUEUE;
            node->queue_count--;
        } else {
            return;
        }
        feed(world, node, &event);
    }
}

static void persisted(struct world *world, struct world_node *node, const struct world_event *event)
{
    struct world_event original = node->queue[(node->queue_head + WORLD_QUEUE - 1) % WORLD_QUEUE];
    (void)event;
    /* Renamed, or not yet, when it crashes here. */
    if (chance(world, world->faults.crash_inside, 1000) && chance(world, 1, 2)) {
        message_free(world, original.message);
        world_crash(world, node->id);
        struct world_event again = {.kind = WORLD_RESTART, .node = node->id, .message = -1};
        world_schedule(world, &again, 100000);
        return;
    }
    if (node->has_election && node->pending.persist.epoch < node->election.epoch) {
        world_break(world, "K2", "node %d persists epoch %d after %d", node->id, node->pending.persist.epoch,
                    node->election.epoch);
    }
    node->has_election = true;
    node->election = node->pending.persist;
    node->is_busy = false;
    finish(world, node, &original);
    message_free(world, original.message);
    drain(world, node);
}

static void arrive(struct world *world, struct world_event *event)
{
    struct world_node *node = &world->nodes[event->node];
    bool is_gone = !node->is_alive || (event->life != 0 && event->life != node->life);
    if (event->kind == WORLD_PERSISTED) {
        if (!is_gone) {
            persisted(world, node, event);
        } else {
            message_free(world, event->message);
        }
        return;
    }
    if (is_gone || node->queue_count >= WORLD_QUEUE - 1) {
        message_free(world, event->message);
        return;
    }
    node->queue[(node->queue_head + node->queue_count) % WORLD_QUEUE] = *event;
    node->queue_count++;
    drain(world, node);
}

/* ---- lives ---- */

void world_crash(struct world *world, int32_t at)
{
    struct world_node *node = &world->nodes[at];
    if (!node->is_alive) {
        return;
    }
    world->crashes++;
    node->is_alive = false;
    for (int32_t i = 0; i < node->queue_count; i++) {
        message_free(world, node->queue[(node->queue_head + i) % WORLD_QUEUE].message);
    }
    node->queue_count = 0;
    node->report_count = 0;
    node->is_busy = false;
    world_log_crash(world, node);
    for (int32_t i = 0; i < world->node_count; i++) {
        if (i != at && world->nodes[i].is_alive && !world->is_blocked[at][i] && chance(world, 4, 5)) {
            send_closed(world, i, at);
        }
    }
}

void world_start(struct world *world, int32_t at)
{
    struct world_node *node = &world->nodes[at];
    if (node->is_alive || node->is_lost) {
        return;
    }
    struct stele_quorum_start start = {.settings = world->settings,
                                       .cluster_id = {{7}},
                                       .self = world_key(world, at),
                                       .has_election = node->has_election,
                                       .election = node->election,
                                       .end_offset = node->end,
                                       .last_epoch = world_last_epoch(node),
                                       .now_ms = node_now_ms(world, node),
                                       .random = stele_prng_u64(&world->prng)};
    start.history_count = world_history(world, node, start.history);
    for (int32_t i = 0; i < world->node_count; i++) {
        (void)!stele_node_set_add(&start.peers, i);
    }
    node->applied = 0;
    node->hash = 0;
    if (node->snapshot_count > 0) {
        const struct world_snapshot *newest = &node->snapshots[node->snapshot_count - 1];
        node->applied = newest->id.end_offset;
        node->hash = newest->hash;
    }
    start.high_watermark = node->applied;
    node->eager_end = node->applied;
    node->eager_hash = node->hash;
    node->seen_high_watermark = node->applied;
    node->is_alive = true;
    node->has_new_voters = true;
    node->is_busy = false;
    node->timer_us = INT64_MAX;
    node->life++;
    node->queue_head = node->queue_count = node->report_count = 0;
    for (int32_t i = 0; i < WORLD_PARKED; i++) {
        node->parked[i].is_used = false;
    }
    stele_quorum_start(&node->quorum, &start, &node->pending);
    struct world_event event = {.kind = WORLD_FREE, .node = at, .message = -1};
    carry_out(world, node, &event);
    drain(world, node);
}

void world_wipe(struct world *world, int32_t at)
{
    struct world_node *node = &world->nodes[at];
    STELE_ASSERT(!node->is_alive);
    if (world->retired_count < (int32_t)STELE_ARRAY_LEN(world->retired)) {
        world->retired[world->retired_count].directory = node->directory;
        world->retired[world->retired_count++].synced = node->synced;
    }
    world->wipes++;
    node->directory = (struct stele_uuid){{0}};
    node->directory.bytes[0] = (uint8_t)(++world->directory & 0xff);
    node->directory.bytes[1] = (uint8_t)(world->directory >> 8);
    node->directory.bytes[15] = 1;
    node->has_election = false;
    node->is_founder = false;
    node->log_start = node->end = node->synced = 0;
    node->base_epoch = 0;
    node->base_hash = 0;
    node->tail_end = 0;
    node->snapshot_count = 0;
    for (int32_t i = 0; i < WORLD_EPOCHS; i++) {
        node->votes[i].node_id = STELE_NO_NODE;
    }
}

struct stele_replica_key world_key(const struct world *world, int32_t node)
{
    return (struct stele_replica_key){.node_id = node, .directory_id = world->nodes[node].directory};
}

int32_t world_leader(const struct world *world)
{
    int32_t best = -1;
    for (int32_t i = 0; i < world->node_count; i++) {
        const struct world_node *node = &world->nodes[i];
        if (node->is_alive && node->quorum.role == STELE_QUORUM_LEADER &&
            (best < 0 || node->quorum.election.epoch > world->nodes[best].quorum.election.epoch)) {
            best = i;
        }
    }
    return best;
}

void world_change(struct world *world, int32_t leader, enum stele_quorum_change_kind kind,
                  const struct stele_replica_key *key)
{
    struct world_event event = {.kind = WORLD_CHANGE,
                                .node = leader,
                                .life = world->nodes[leader].life,
                                .message = -1,
                                .key = *key,
                                .change = kind};
    world_schedule(world, &event, 0);
}

bool world_append(struct world *world, int32_t at)
{
    struct world_node *node = &world->nodes[at];
    if (!node->is_alive || node->is_busy || node->quorum.role != STELE_QUORUM_LEADER || node->report_count > 0) {
        return false;
    }
    append(world, node,
           (struct world_entry){.epoch = node->quorum.election.epoch, .payload = ++world->payload, .voters = -1});
    report(world, node, WORLD_APPENDED, node->end);
    drain(world, node);
    wake_parked(world, node);
    return true;
}

void world_isolate(struct world *world, int32_t node, bool from, bool to)
{
    for (int32_t i = 0; i < world->node_count; i++) {
        world->is_blocked[node][i] = world->is_blocked[node][i] || (from && i != node);
        world->is_blocked[i][node] = world->is_blocked[i][node] || (to && i != node);
    }
}

void world_heal(struct world *world)
{
    memset(world->is_blocked, 0, sizeof(world->is_blocked));
}

void world_snapshot(struct world *world, int32_t at, int64_t end_offset)
{
    struct world_node *node = &world->nodes[at];
    int64_t newest = node->snapshot_count > 0 ? node->snapshots[node->snapshot_count - 1].id.end_offset : 0;
    if (!node->is_alive || node->is_busy || node->quorum.fetch.is_installing || end_offset <= newest ||
        end_offset <= node->log_start || end_offset > node->applied) {
        return;
    }
    const struct stele_voters *voters = stele_quorum_voters_at(&node->quorum, end_offset);
    if (voters == NULL) {
        return;
    }
    if (node->snapshot_count == WORLD_SNAPSHOTS) {
        return;
    }
    node->snapshots[node->snapshot_count++] =
        (struct world_snapshot){.id = {.end_offset = end_offset, .epoch = node->entries[end_offset - 1].epoch},
                                .voters = *voters,
                                .hash = world->committed_hash[end_offset]};
}

void world_log_start(struct world *world, int32_t at)
{
    struct world_node *node = &world->nodes[at];
    if (node->snapshot_count < 2 || !node->is_alive || node->is_busy || node->quorum.fetch.is_installing) {
        return;
    }
    for (int32_t i = 1; i < node->snapshot_count; i++) {
        node->snapshots[i - 1] = node->snapshots[i];
    }
    node->snapshot_count--;
    node->log_start = node->snapshots[0].id.end_offset;
    node->base_epoch = node->snapshots[0].id.epoch;
    node->base_hash = node->snapshots[0].hash;
}

void world_init(struct world *world, uint64_t seed, int32_t voters, int32_t observers)
{
    /* The large tables are not cleared: they are read only where they were written. */
    memset(&world->seed, 0, offsetof(struct world, nodes));
    world->seed = seed;
    stele_prng_init(&world->prng, seed, 0);
    world->settings = stele_quorum_settings_default();
    world->faults = (struct world_faults){.delay_max_us = 2000, .sync_max_us = 4000, .persist_max_us = 4000};
    world->node_count = voters + observers;
    world->founder_count = voters;
    memset(world->is_blocked, 0, sizeof(world->is_blocked));
    world->heap_count = world->message_hint = world->set_count = 0;
    for (int32_t i = 0; i < WORLD_MESSAGES; i++) {
        world->messages[i].is_used = false;
    }
    world->payload = 0;
    world->directory = 0;
    world->committed_hash[0] = 0;
    world->committed_end = world->committed_records = 0;
    memset(world->unique, 0, sizeof(world->unique));
    world->retired_count = 0;
    world->reached = 0;
    world->elections = world->truncations = world->installs = world->crashes = world->wipes = world->changes = 0;
    world->broken = NULL;
    world->founders.count = 0;
    for (int32_t i = 0; i < WORLD_EPOCHS; i++) {
        world->leaders[i] = -1;
    }
    for (int32_t i = 0; i < world->node_count; i++) {
        struct world_node *node = &world->nodes[i];
        memset(node, 0, sizeof(*node));
        node->id = i;
        node->rate_permille = 1000;
        node->sync_end = -1;
        world_wipe(world, i);
        node->is_founder = i < voters;
        if (node->is_founder) {
            world->founders.keys[world->founders.count++] = world_key(world, i);
        }
    }
    world->wipes = 0;
    world->retired_count = 0;
}

bool world_step(struct world *world)
{
    if (world->heap_count == 0 || world->broken != NULL) {
        return false;
    }
    struct world_event event = heap_pop(world);
    world->now_us = event.at_us;
    world->events++;
    world->hash ^= (uint64_t)event.at_us * 31 + (uint64_t)event.kind * 7 + (uint64_t)event.node + world->payload;
    world->hash *= UINT64_C(0xff51afd7ed558ccd);
    if (event.kind == WORLD_RESTART) {
        world_start(world, event.node);
    } else {
        arrive(world, &event);
    }
    return world->broken == NULL;
}

bool world_run(struct world *world, int64_t until_us)
{
    while (world->heap_count > 0 && world->heap[0].at_us <= until_us) {
        if (!world_step(world)) {
            return false;
        }
    }
    world->now_us = stele_max_i64(world->now_us, until_us);
    return world->broken == NULL;
}

bool world_run_ms(struct world *world, int64_t ms)
{
    return world_run(world, world->now_us + ms * 1000);
}
