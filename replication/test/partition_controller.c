/* The controller: the product's rules of change (replication/election.h) over a registry of a few lines, and a metadata
 * log whose records are committed as they are written. */
#include "partition_world.h"

static struct stele_partition_view view_of(const struct pw_world *world)
{
    struct stele_partition_view view = {.count = 0, .min_isr = world->config.min_isr};
    for (int i = 0; i < world->config.node_count; i++) {
        const struct stele_node_status *status = &world->registered[i].status;
        if (status->node_epoch >= 0) {
            view.nodes[view.count++] = (struct stele_replica_view){
                .node_id = i,
                .node_epoch = status->node_epoch,
                .is_active = status->is_active && !status->is_leaving,
            };
        }
    }
    return view;
}

static struct pw_meta *write_meta(struct pw_world *world)
{
    if (world->meta_count == PW_META_MAX) {
        pw_fail(world, "the metadata log is full");
    }
    for (int i = 0; i < world->config.node_count; i++) {
        if (world->nodes[i].is_up) {
            struct pw_event *event = pw_post(world, PW_META, i, pw_draw(world, 0, world->config.meta_delay_max_ms));
            event->incarnation = world->nodes[i].incarnation;
        }
    }
    return &world->meta[world->meta_count++];
}

static void write_status(struct pw_world *world, int id)
{
    struct pw_meta *meta = write_meta(world);
    meta->is_state = false;
    meta->status = world->registered[id].status;
}

static void write_state(struct pw_world *world, const struct stele_partition_state *next)
{
    struct stele_partition_state old = world->state;
    world->state = *next;
    struct pw_meta *meta = write_meta(world);
    meta->is_state = true;
    meta->state = *next;
    if (next->leader_epoch != old.leader_epoch) {
        world->stats.elections++;
    }
    if (!stele_node_set_equal(&next->isr, &old.isr)) {
        world->stats.isr_changes++;
    }
    pw_say(world, "controller: leader %d epoch %d/%d isr %d elr %d of %d (%d come, %d go)", next->leader_id,
           next->leader_epoch, next->partition_epoch, next->isr.count, next->elr.count, next->replicas.count,
           next->adding.count, next->removing.count);
    pw_check_state(world, &old);
}

bool pw_controller_change(struct pw_world *world, const struct stele_partition_change *change)
{
    struct stele_partition_view view = view_of(world);
    struct stele_partition_outcome outcome;
    if (stele_partition_change(&world->state, change, &view, &outcome) != STELE_OK || outcome.changed == 0) {
        return false;
    }
    if (outcome.changed & STELE_CHANGED_UNCLEAN) {
        world->stats.unclean++;
        world->state = outcome.next; /* so that the ghosts are cut to the new leader's log */
        pw_taint(world);
    }
    write_state(world, &outcome.next);
    return true;
}

void pw_controller_init(struct pw_world *world)
{
    struct stele_node_set replicas = {.count = 0};
    for (int i = 0; i < world->config.replica_count; i++) {
        replicas.ids[replicas.count++] = i;
    }
    for (int i = 0; i < world->config.node_count; i++) {
        world->registered[i] = (struct pw_registered){
            .status = {.node_id = i, .rack = (uint32_t)(i % 2) + 1, .node_epoch = i, .is_active = true},
            .session_end = world->config.session_ms,
            .incarnation = world->nodes[i].incarnation,
        };
        write_status(world, i);
    }
    struct stele_partition_view view = view_of(world);
    struct stele_partition_state state;
    if (stele_partition_create(&replicas, &view, &state) != STELE_OK) {
        pw_fail(world, "no first state");
    }
    state.is_unsynced = world->config.is_flush; /* as if it had been switched on a moment ago */
    world->state = state;
    write_state(world, &state);
}

void pw_controller_fence(struct pw_world *world, int id)
{
    const struct stele_partition_change nothing = {.mode = STELE_ELECT_ONLINE};
    pw_say(world, "controller: fences %d", id);
    world->registered[id].status.is_active = false;
    (void)pw_controller_change(world, &nothing);
    write_status(world, id);
}

static void take_register(struct pw_world *world, const struct pw_event *event)
{
    int id = event->from;
    struct pw_node *node = &world->nodes[id];
    if (node->incarnation != event->from_incarnation) {
        return; /* that life is over */
    }
    struct pw_registered *entry = &world->registered[id];
    if (entry->incarnation != event->from_incarnation) {
        struct stele_partition_change change = {.mode = STELE_ELECT_ONLINE};
        if (node->has_lost_disk || (node->has_lost_tail && !world->config.is_flush)) {
            change.lost_tail.ids[change.lost_tail.count++] = id;
        }
        entry->incarnation = event->from_incarnation;
        entry->status.is_active = false;
        entry->status.is_leaving = false;
        entry->status.node_epoch = world->meta_count + PW_NODES_MAX;
        pw_say(world, "controller: node %d registers, epoch %lld, lost %d", id, (long long)entry->status.node_epoch,
               change.lost_tail.count);
        write_status(world, id);
        (void)pw_controller_change(world, &change);
        node->has_lost_tail = node->has_lost_disk = false;
    }
    entry->session_end = world->now + world->config.session_ms;
    int64_t delay = 0;
    if (pw_reaches(world, PW_CONTROLLER, id, &delay)) {
        struct pw_event *answer = pw_post(world, PW_REGISTER_ANSWER, id, delay);
        answer->incarnation = event->from_incarnation;
        answer->fetcher_epoch = entry->status.node_epoch;
        answer->number = world->meta_count;
    }
}

static void take_heartbeat(struct pw_world *world, const struct pw_event *event)
{
    struct pw_registered *entry = &world->registered[event->from];
    if (event->fetcher_epoch != entry->status.node_epoch) {
        return;
    }
    entry->session_end = world->now + world->config.session_ms;
    if (!entry->status.is_active) {
        const struct stele_partition_change nothing = {.mode = STELE_ELECT_ONLINE};
        pw_say(world, "controller: unfences %d", event->from);
        entry->status.is_active = true;
        write_status(world, event->from);
        (void)pw_controller_change(world, &nothing);
    }
}

static void scan_sessions(struct pw_world *world)
{
    for (int i = 0; i < world->config.node_count; i++) {
        if (world->registered[i].status.is_active && world->registered[i].session_end < world->now) {
            pw_controller_fence(world, i);
        }
    }
    (void)pw_post(world, PW_SESSIONS, 0, 20);
    if (world->config.has_rebalance && !world->is_healed) {
        const struct stele_partition_change preferred = {.mode = STELE_ELECT_PREFERRED};
        (void)pw_controller_change(world, &preferred);
    }
    if (world->config.is_tainted && !world->is_scripted) {
        pw_controller_forced(world);
    }
}

void pw_controller_forced(struct pw_world *world)
{
    if (world->state.leader_id != STELE_NO_NODE || world->state.elr.count > 0 || world->state.isr.count > 0) {
        return;
    }
    /* The longest log of the highest epoch among all that are back (design: --unclean). */
    int best = -1;
    for (int i = 0; i < world->state.replicas.count; i++) {
        int id = world->state.replicas.ids[i];
        struct pw_node *node = &world->nodes[id];
        if (!world->registered[id].status.is_active || !node->is_up) {
            return;
        }
        struct stele_log_view view = pw_log_view(&node->log);
        struct stele_log_view other = pw_log_view(&world->nodes[best < 0 ? id : best].log);
        if (best < 0 || view.last_epoch > other.last_epoch ||
            (view.last_epoch == other.last_epoch && view.end_offset > other.end_offset)) {
            best = id;
        }
    }
    if (best >= 0) {
        const struct stele_partition_change change = {.mode = STELE_ELECT_UNCLEAN, .unclean_leader_id = best};
        (void)pw_controller_change(world, &change);
    }
}

/* The controller fails over now and then: it refuses, or is gone after it did what was asked. */
static void take_alter(struct pw_world *world, const struct pw_event *event)
{
    const struct stele_isr_change *wish = &event->change;
    struct stele_isr_answer answer = {.change_id = wish->change_id, .err = STELE_NOT_CONTROLLER};
    bool is_refused = world->config.has_alter_trouble && !world->is_healed && pw_chance(world, 150);
    bool is_answer_lost = world->config.has_alter_trouble && !world->is_healed && pw_chance(world, 250);
    if (!is_refused && event->fetcher_epoch != world->registered[event->from].status.node_epoch) {
        answer.err = STELE_STALE_BROKER_EPOCH;
    } else if (!is_refused) {
        struct stele_isr_candidate members[STELE_REPLICAS_MAX];
        for (int i = 0; i < wish->isr.count; i++) {
            members[i] = (struct stele_isr_candidate){wish->isr.ids[i], wish->node_epochs[i]};
        }
        const struct stele_alter_partition request = {
            .sender_id = event->from,
            .leader_epoch = wish->leader_epoch,
            .partition_epoch = wish->partition_epoch,
            .isr = members,
            .isr_count = wish->isr.count,
            .damaged = wish->damaged.ids,
            .damaged_count = wish->damaged.count,
            .is_synced = wish->is_synced,
        };
        struct stele_partition_view view = view_of(world);
        struct stele_partition_outcome outcome;
        answer.err = stele_alter_partition(&world->state, &request, &view, &outcome);
        if ((answer.err == STELE_OK || answer.err == STELE_NEW_LEADER_ELECTED) && outcome.changed != 0) {
            write_state(world, &outcome.next);
        }
        answer.leader_epoch = world->state.leader_epoch;
        answer.partition_epoch = world->state.partition_epoch;
        answer.isr = world->state.isr;
        answer.min_isr = world->config.min_isr;
    }
    int64_t delay = 0;
    if (is_answer_lost || !pw_reaches(world, PW_CONTROLLER, event->from, &delay)) {
        answer.err = STELE_REQUEST_TIMED_OUT;
        delay = pw_draw(world, 10, 120);
    }
    struct pw_event *reply = pw_post(world, PW_ALTER_ANSWER, event->from, delay);
    reply->incarnation = event->from_incarnation;
    reply->isr_answer = answer;
}

void pw_controller_event(struct pw_world *world, struct pw_event *event)
{
    if (event->kind == PW_REGISTER) {
        take_register(world, event);
    } else if (event->kind == PW_HEARTBEAT) {
        take_heartbeat(world, event);
    } else if (event->kind == PW_ALTER) {
        take_alter(world, event);
    } else {
        scan_sessions(world);
    }
}
