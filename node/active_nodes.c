/* Invariants
 *  1. What a turn writes is worked out in its `begin`, from the committed image and from who is silent then: what was
 *     seen before, when it was asked for, counts for nothing.
 *  2. A partition has one record at most in a batch, for each is worked out from the image. */
#include "node/active_nodes.h"

#include "base/check.h"
#include "node/node_struct.h"

#include <stdio.h>
#include <string.h>

enum {
    RETRY_MS = 50,
    PARTITIONS_MAX = 10000,
    HEARD_MS = 10 /* between the arrival of a heartbeat and its touch, at most */
};

static struct stele_controller *control_of(const struct stele_active_nodes *nodes)
{
    return nodes->active->control;
}

static int64_t now_ms_of(const struct stele_active_nodes *nodes)
{
    return stele_env_mono_ms(control_of(nodes)->shard->env);
}

static struct stele_metadata_log *log_of(const struct stele_active *active)
{
    return &active->control->mlog;
}

static void trace(const struct stele_active *active, enum stele_trace_kind kind, const char *text, int32_t node_id,
                  int64_t node_epoch)
{
    stele_trace(active->control->shard->env, kind, NULL, text, node_id, node_epoch, 0);
}

/* The partitions that a node's record goes with. */

/* What of a node changes. */
struct node_change {
    struct stele_active_turn *turn;
    struct stele_active_assumption assumption;
    bool leaves;             /* it does not serve any more, or is another life: its place in sync is lost */
    bool elects;             /* it serves: partitions that nobody leads may have a leader */
    bool has_lost_memory;    /* what was not synced is gone */
    bool has_lost_directory; /* all that lay in one of them is gone; nobody knows here what that was */
    bool is_gone;            /* for good */
    bool is_cut;             /* there is more than one batch takes */
};

static bool is_in_sync(const struct stele_partition_state *state, int32_t node_id)
{
    return state->leader_id == node_id || stele_node_set_has(&state->isr, node_id);
}

static bool is_touched(const struct node_change *how, const struct stele_partition_state *state)
{
    int32_t node_id = how->assumption.node_id;
    bool is_other_life = how->has_lost_memory || how->has_lost_directory || how->is_gone;
    if (!stele_node_set_has(&state->replicas, node_id))
        return false;
    return (how->leaves && is_in_sync(state, node_id)) || (is_other_life && stele_node_set_has(&state->elr, node_id)) ||
           (how->elects && state->leader_id == STELE_NO_NODE);
}

static enum stele_err change_partition(const struct node_change *how, const struct stele_image_topic *topic,
                                       int32_t number)
{
    const struct stele_active *active = how->turn->active;
    const struct stele_partition_state *state = &topic->partitions[number].state;
    struct stele_partition_change change = {.mode = STELE_ELECT_ONLINE, .unclean_leader_id = STELE_NO_NODE};
    struct stele_partition_outcome outcome;
    int32_t node_id = how->assumption.node_id;
    if (!topic->partitions[number].is_known || !is_touched(how, state))
        return STELE_OK;
    bool has_lost = how->has_lost_directory || how->is_gone ||
                    (how->has_lost_memory && (state->is_unsynced || !stele_active_flushes(active, topic)));
    if (has_lost)
        change.lost_tail = (struct stele_node_set){.ids = {node_id}, .count = 1};
    return stele_active_change(how->turn, topic, number, &change, &how->assumption, &outcome);
}

static enum stele_err change_partitions(struct node_change *how)
{
    const struct stele_image *image = &log_of(how->turn->active)->image;
    int count_max = how->turn->count + how->turn->active->control->active_nodes.partitions_max;
    enum stele_err err = STELE_OK;
    for (const struct stele_image_topic *topic = image->by_name; topic != NULL; topic = topic->by_name.next) {
        for (int32_t number = 0; number < topic->partition_count && err == STELE_OK; number++) {
            how->is_cut = how->turn->count == count_max;
            if (how->is_cut)
                return STELE_OK;
            err = change_partition(how, topic, number);
        }
    }
    return err;
}

/* The node's record is the first of the turn. For as long as it waits the life of before counts as fenced. */
static void wait_with_record(struct stele_active_turn *turn, int32_t node_id)
{
    const struct stele_node_registration *known = stele_registry_find(&turn->active->registry, node_id);
    struct stele_metadata_record *records = turn->records;
    if (known != NULL && !known->is_fenced) {
        struct stele_node_registration fenced = *known;
        fenced.is_fenced = true;
        int last = turn->count;
        if (stele_active_add_node(turn, &fenced) == STELE_OK) {
            turn->records[0] = turn->records[last];
            turn->count = last;
            return;
        }
    }
    memmove(records, records + 1, (size_t)--turn->count * sizeof(*records));
}

/* The partitions that go with the node's record, which is in the turn. */
static enum stele_err add_partitions(struct node_change *how)
{
    enum stele_err err = change_partitions(how);
    if (err == STELE_OK && how->is_cut)
        how->turn->active->control->active_nodes.wants_settling = true;
    return err;
}

/* The same when the record says what cannot be seen later: that something is lost, or the node gone. */
static enum stele_err add_lost_partitions(struct node_change *how, bool *out_is_partial)
{
    enum stele_err err = change_partitions(how);
    *out_is_partial = err == STELE_OK && how->is_cut;
    if (*out_is_partial)
        wait_with_record(how->turn, how->assumption.node_id);
    return err;
}

static bool leads_some(const struct stele_active *active, int32_t node_id)
{
    for (const struct stele_image_topic *topic = log_of(active)->image.by_name; topic != NULL;
         topic = topic->by_name.next) {
        for (int32_t number = 0; number < topic->partition_count; number++) {
            if (topic->partitions[number].is_known && topic->partitions[number].state.leader_id == node_id)
                return true;
        }
    }
    return false;
}

/* The record of a node whose flags change, and what goes with it. Which replicas lay in a directory that failed is told
 * by their node beside this, one by one (node/active_partitions.h). */
static enum stele_err add_flags(struct stele_active_turn *turn, int32_t node_id,
                                const struct stele_heartbeat_verdict *verdict)
{
    struct stele_node_registration node = *stele_registry_find(&turn->active->registry, node_id);
    struct node_change how = {.turn = turn,
                              .assumption = {.node_id = node_id,
                                             .node_epoch = node.node_epoch,
                                             .is_active = !verdict->is_fenced && !verdict->is_shutting_down},
                              .elects = verdict->elects};
    how.leaves = !how.assumption.is_active;
    node.is_fenced = verdict->is_fenced;
    node.is_shutting_down = verdict->is_shutting_down;
    node.offline_directories = verdict->offline_directories;
    if (!verdict->is_fenced)
        node.served_epoch = node.node_epoch;
    enum stele_err err = stele_active_add_node(turn, &node);
    return err == STELE_OK ? add_partitions(&how) : err;
}

/* Where the batch of a turn will lie. */
static int64_t next_offset(const struct stele_active *active)
{
    return stele_log_end_offset(log_of(active)->log);
}

/* Registration. */

static const char *why_refused(enum stele_err err)
{
    switch ((int)err) {
    case STELE_INCONSISTENT_CLUSTER_ID:
        return "it belongs to another cluster: check its peers and its data directory";
    case STELE_INVALID_REGISTRATION:
        return "its listeners or log directories are not legal, or are another node's (was a directory copied?)";
    case STELE_DUPLICATE_BROKER_REGISTRATION:
        return "a node with that number is alive: check node.id (--node) of both, or wait until the other has gone";
    }
    return stele_err_text(err);
}

static const char *how_came(const struct stele_registration_verdict *verdict, bool was_known)
{
    if (!was_known)
        return "it is new here";
    if (verdict->is_same_incarnation)
        return "again";
    if (verdict->older_directories != 0)
        return "an older copy of a log directory was put back: all that lay there counts as lost";
    if (verdict->lost_directories != 0)
        return "a log directory of its is gone or was broken: all that lay there counts as lost";
    return verdict->has_lost_memory
               ? "its machine stopped under it, or a sync failed: what was not synced counts as lost"
               : "it kept all that it had";
}

static void refuse(struct stele_active_nodes *nodes, struct stele_node_ask *ask, enum stele_err err, const char *why)
{
    const struct stele_node_registration *node = &ask->registration->node;
    ask->err = err;
    ask->message = why;
    if (err == STELE_UNSUPPORTED_VERSION) {
        (void)snprintf(ask->text, sizeof(ask->text),
                       "its program (version %.40s) runs levels %d to %d, and this cluster is at level %d: install the "
                       "version that the others run",
                       node->version, (int)node->feature_min, (int)node->feature_max,
                       (int)log_of(nodes->active)->image.level);
        ask->message = ask->text;
    }
    if (stele_uuid_equal(&nodes->refused_incarnation, &node->incarnation_id) && nodes->refused_err == err)
        return;
    nodes->refused_incarnation = node->incarnation_id;
    nodes->refused_err = err;
    stele_trace(control_of(nodes)->shard->env, STELE_TRACE_NODE_REFUSED,
                node->listener_count > 0 ? node->listeners[0].host : "-", ask->message, node->node_id, 0, 0);
}

static enum stele_err add_registration(struct stele_node_ask *ask)
{
    const struct stele_registration_verdict *verdict = &ask->registered;
    struct node_change how = {.turn = &ask->turn,
                              .assumption = {.node_id = verdict->record.node_id,
                                             .node_epoch = verdict->record.node_epoch,
                                             .is_active = false},
                              .leaves = true,
                              .has_lost_memory = verdict->has_lost_memory,
                              .has_lost_directory = verdict->lost_directories != 0 || verdict->older_directories != 0};
    enum stele_err err = stele_active_add_node(how.turn, &verdict->record);
    return err == STELE_OK && !verdict->is_same_incarnation ? add_lost_partitions(&how, &ask->is_partial) : err;
}

static enum stele_err begin_registration(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    struct stele_active *active = nodes->active;
    const struct stele_image *image = &log_of(active)->image;
    struct stele_registry_terms terms = {
        .feature_level = image->level, .record_offset = next_offset(active), .now_ms = now_ms_of(nodes)};
    if (stele_uuid_parse(image->cluster_id, strlen(image->cluster_id), &terms.cluster_id) != STELE_OK)
        terms.cluster_id = (struct stele_uuid){.bytes = {0}};
    enum stele_err err = stele_registry_register(&active->registry, ask->registration, &terms, &ask->registered);
    /* The first one holds the metadata log: by what it does not know any more its node may have voted. */
    if (err == STELE_OK && (ask->registered.older_directories & 1) != 0) {
        refuse(nodes, ask, STELE_INVALID_REGISTRATION,
               "an older copy of its first log directory was put back, which holds the metadata log: empty its log "
               "directories, start it again and readmit it (stele quorum readmit)");
        return STELE_OK;
    }
    if (err != STELE_OK) {
        refuse(nodes, ask, err, why_refused(err));
        return STELE_OK;
    }
    ask->was_known = stele_registry_find(&active->registry, ask->registration->node.node_id) != NULL;
    ask->node_epoch = ask->registered.record.node_epoch;
    return add_registration(ask);
}

/* Heartbeats. */

/* The verdict holds until the next replay. */
static enum stele_err judge(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    struct stele_active *active = nodes->active;
    struct stele_heartbeat *heartbeat = &ask->heartbeat;
    const struct stele_node_registration *node = stele_registry_find(&active->registry, heartbeat->node_id);
    bool leads = heartbeat->wants_shutdown && leads_some(active, heartbeat->node_id);
    heartbeat->offline_directories =
        node == NULL ? 0 : stele_node_directory_bits(node, ask->offline, ask->offline_count);
    return stele_registry_heartbeat(&active->registry, heartbeat, leads, &ask->verdict);
}

static enum stele_err begin_heartbeat(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    ask->err = judge(nodes, ask);
    if (ask->err != STELE_OK || !ask->verdict.has_change)
        return STELE_OK;
    enum stele_err err = add_flags(&ask->turn, ask->heartbeat.node_id, &ask->verdict);
    ask->last_offset = next_offset(nodes->active) + ask->turn.count - 1;
    return err;
}

/* 4.3.19: also when another controller wrote the flag. */
static void note_shutdown(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    bool is_whole = !nodes->wants_settling && !nodes->is_settling; /* else one of its next heartbeats says it */
    if (ask->verdict.to == STELE_NODE_SHUTTING_DOWN && is_whole)
        stele_registry_shutdown_written(&nodes->active->registry, ask->heartbeat.node_id, ask->last_offset);
}

/* Most heartbeats change nothing and need no turn. */
static bool answer_at_once(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    struct stele_active *active = nodes->active;
    if (!active->is_active || !active->registry.is_active || active->seen_offset != log_of(active)->applied_offset)
        return false;
    ask->err = judge(nodes, ask);
    if (ask->err == STELE_OK && ask->verdict.has_change)
        return false;
    ask->last_offset = next_offset(active) - 1;
    if (ask->err == STELE_OK)
        note_shutdown(nodes, ask);
    ask->done(ask);
    return true;
}

/* Unregistration (4.3.14). */

static enum stele_err begin_removal(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    struct stele_active *active = nodes->active;
    const struct stele_node_registration *node = stele_registry_find(&active->registry, ask->node_id);
    struct node_change how = {.turn = &ask->turn,
                              .assumption = {.node_id = ask->node_id, .node_epoch = -1, .is_active = false},
                              .leaves = true,
                              .is_gone = true};
    if (node == NULL) {
        ask->err = STELE_BROKER_ID_NOT_REGISTERED;
        ask->message = "no node with that number is registered";
        return STELE_OK;
    }
    if (stele_voters_find_node(stele_quorum_voters(&log_of(active)->quorum), ask->node_id) >= 0) {
        ask->err = STELE_INVALID_REQUEST;
        ask->message = "it votes in the metadata quorum: take it out of the voters first";
        return STELE_OK;
    }
    if (!node->is_fenced) {
        ask->err = STELE_INVALID_REQUEST;
        ask->message = "it is alive: stop it first";
        return STELE_OK;
    }
    ask->node_epoch = node->node_epoch;
    enum stele_err err =
        stele_active_add(&ask->turn, &(struct stele_metadata_record){.kind = STELE_METADATA_NODE_REMOVED,
                                                                     .u.node_removed = {.node_id = ask->node_id}});
    return err == STELE_OK ? add_lost_partitions(&how, &ask->is_partial) : err;
}

/* What was too much for the batch of a node's record. A controller that takes over does not know what was left: it
 * looks at all of them. */

static bool is_settled(const struct stele_active *active, const struct stele_image_partition *partition)
{
    const struct stele_partition_state *state = &partition->state;
    if (!partition->is_known)
        return true;
    for (int32_t i = 0; i < state->isr.count; i++) {
        if (!stele_registry_is_active_node(&active->registry, state->isr.ids[i]))
            return false;
    }
    return state->leader_id != STELE_NO_NODE;
}

static enum stele_err settle(struct stele_active_turn *turn, struct stele_active_nodes *nodes)
{
    const struct stele_partition_change change = {.mode = STELE_ELECT_ONLINE, .unclean_leader_id = STELE_NO_NODE};
    enum stele_err err = STELE_OK;
    for (const struct stele_image_topic *topic = log_of(turn->active)->image.by_name; topic != NULL;
         topic = topic->by_name.next) {
        for (int32_t number = 0; number < topic->partition_count && err == STELE_OK; number++) {
            struct stele_partition_outcome outcome;
            nodes->wants_settling = turn->count == nodes->partitions_max;
            if (nodes->wants_settling)
                return STELE_OK;
            if (!is_settled(turn->active, &topic->partitions[number]))
                err = stele_active_change(turn, topic, number, &change, NULL, &outcome);
        }
    }
    return err;
}

static void settle_begin(struct stele_active_turn *turn)
{
    struct stele_active_nodes *nodes = STELE_CONTAINER_OF(turn, struct stele_active_nodes, settling);
    nodes->wants_settling = false;
    if (settle(turn, nodes) != STELE_OK)
        nodes->wants_settling = true;
    stele_active_write(turn); /* each is a change of its own */
}

static void settle_more(struct stele_active_nodes *nodes);

static void settle_done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_active_nodes *nodes = STELE_CONTAINER_OF(turn, struct stele_active_nodes, settling);
    nodes->is_settling = false;
    nodes->wants_settling = nodes->wants_settling || err != STELE_OK;
    if (err == STELE_OK)
        settle_more(nodes);
}

/* A node that is alone is not registered, and nothing of its partitions is anybody's decision. */
static void settle_more(struct stele_active_nodes *nodes)
{
    if (control_of(nodes)->peers.shard == NULL || !nodes->wants_settling || nodes->is_settling ||
        !nodes->active->is_active)
        return;
    nodes->is_settling = true;
    nodes->settling = (struct stele_active_turn){.begin = settle_begin, .done = settle_done};
    stele_active_take(nodes->active, &nodes->settling);
}

/* Turns of those who ask. */

static struct stele_active_nodes *nodes_of(const struct stele_active_turn *turn)
{
    return &turn->active->control->active_nodes;
}

static void begin_ask(struct stele_active_turn *turn)
{
    struct stele_node_ask *ask = STELE_CONTAINER_OF(turn, struct stele_node_ask, turn);
    struct stele_active_nodes *nodes = nodes_of(turn);
    enum stele_err err = STELE_OK;
    ask->is_partial = false;
    switch (ask->kind) {
    case STELE_ASK_REGISTER:
        err = begin_registration(nodes, ask);
        break;
    case STELE_ASK_HEARTBEAT:
        err = begin_heartbeat(nodes, ask);
        break;
    case STELE_ASK_UNREGISTER:
        err = begin_removal(nodes, ask);
        break;
    }
    if (err == STELE_OK) {
        stele_active_write(turn);
        return;
    }
    stele_active_end(turn);
    ask->err = err;
    ask->message = stele_err_text(err);
    ask->done(ask);
}

static void tell_heartbeat(const struct stele_active *active, const struct stele_node_ask *ask)
{
    const struct stele_heartbeat_verdict *verdict = &ask->verdict;
    int32_t node_id = ask->heartbeat.node_id;
    int64_t node_epoch = ask->heartbeat.node_epoch;
    if (!verdict->has_change || verdict->from == verdict->to)
        return;
    if (verdict->to == STELE_NODE_UNFENCED)
        trace(active, STELE_TRACE_NODE_UNFENCED, NULL, node_id, node_epoch);
    else if (verdict->to == STELE_NODE_SHUTTING_DOWN)
        trace(active, STELE_TRACE_NODE_LEAVING, NULL, node_id, node_epoch);
    else
        trace(active, STELE_TRACE_NODE_FENCED,
              verdict->to == STELE_NODE_SHUTDOWN_NOW ? "it leaves in order" : "it asked for it", node_id, node_epoch);
}

static void ask_done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_node_ask *ask = STELE_CONTAINER_OF(turn, struct stele_node_ask, turn);
    struct stele_active_nodes *nodes = ask->nodes;
    struct stele_active *active = nodes->active;
    if (err == STELE_OK && ask->is_partial) { /* the next ones, and at last the node's record */
        stele_active_take(active, turn);
        return;
    }
    if (err != STELE_OK) {
        ask->err = err;
        ask->message = stele_err_text(err);
    } else if (ask->err == STELE_OK) {
        switch (ask->kind) {
        case STELE_ASK_REGISTER:
            stele_registry_touch(&active->registry, ask->registered.record.node_id, ask->node_epoch, now_ms_of(nodes));
            trace(active, STELE_TRACE_NODE_REGISTERED, how_came(&ask->registered, ask->was_known),
                  ask->registered.record.node_id, ask->node_epoch);
            break;
        case STELE_ASK_HEARTBEAT:
            note_shutdown(nodes, ask);
            tell_heartbeat(active, ask);
            if (ask->verdict.elects)
                stele_active_nodes_doubt(nodes, ask->heartbeat.node_id);
            settle_more(nodes);
            break;
        case STELE_ASK_UNREGISTER:
            trace(active, STELE_TRACE_NODE_UNREGISTERED, NULL, ask->node_id, ask->node_epoch);
            break;
        }
    }
    ask->done(ask);
}

void stele_active_nodes_ask(struct stele_active_nodes *nodes, struct stele_node_ask *ask)
{
    ask->nodes = nodes;
    ask->err = STELE_OK;
    ask->message = "";
    ask->node_epoch = -1;
    if (control_of(nodes)->peers.shard == NULL) { /* a node that is alone has no others */
        ask->err = STELE_NOT_CONTROLLER;
        ask->message = "this node is alone: it was started without --peers";
        ask->done(ask);
        return;
    }
    if (ask->kind == STELE_ASK_HEARTBEAT) /* heard now, whenever it is worked on */
        stele_registry_touch(&nodes->active->registry, ask->heartbeat.node_id, ask->heartbeat.node_epoch,
                             now_ms_of(nodes));
    if (ask->kind == STELE_ASK_HEARTBEAT && answer_at_once(nodes, ask))
        return;
    ask->turn.begin = begin_ask;
    ask->turn.done = ask_done;
    stele_active_take(nodes->active, &ask->turn);
}

void stele_active_nodes_drop(struct stele_node_ask *ask)
{
    stele_active_drop(&ask->turn);
}

/* Sessions. */

static void arm(struct stele_active_nodes *nodes)
{
    struct stele_shard *shard = control_of(nodes)->shard;
    const struct stele_active *active = nodes->active;
    int64_t deadline_ms = active->is_active ? stele_registry_deadline(&active->registry) : INT64_MAX;
    if (deadline_ms == INT64_MAX || nodes->is_fencing)
        stele_timer_cancel(shard->wheel, &nodes->timer);
    else
        stele_shard_arm(shard, &nodes->timer, stele_max_i64(deadline_ms, nodes->rest_until_ms));
}

/* Whoever arms the timer meanwhile: a full disk is not asked again at once, by every node that is heard of. */
static void rest(struct stele_active_nodes *nodes)
{
    nodes->rest_until_ms = now_ms_of(nodes) + RETRY_MS;
    arm(nodes);
}

static void fence_begin(struct stele_active_turn *turn)
{
    struct stele_active_nodes *nodes = STELE_CONTAINER_OF(turn, struct stele_active_nodes, fencing);
    struct stele_heartbeat_verdict verdict;
    int32_t node_id = stele_registry_expired(&nodes->active->registry, now_ms_of(nodes), &verdict);
    enum stele_err err = STELE_OK;
    if (node_id != STELE_NO_NODE) {
        nodes->fenced_id = node_id;
        nodes->fenced_epoch = stele_registry_find(&nodes->active->registry, node_id)->node_epoch;
        err = add_flags(turn, node_id, &verdict);
        if (err == STELE_OK) {
            stele_active_write(turn);
            return;
        }
    }
    stele_active_end(turn);
    nodes->is_fencing = false;
    if (err == STELE_OK)
        arm(nodes); /* it was heard of in time */
    else
        rest(nodes);
}

static void fence_done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_active_nodes *nodes = STELE_CONTAINER_OF(turn, struct stele_active_nodes, fencing);
    nodes->is_fencing = false;
    settle_more(nodes);
    if (err == STELE_OK)
        trace(nodes->active, STELE_TRACE_NODE_FENCED, "it is silent, or its connections closed", nodes->fenced_id,
              nodes->fenced_epoch);
    if (err == STELE_NO_MEMORY || err == STELE_NO_SPACE)
        rest(nodes);
    else
        arm(nodes);
}

static void fired(struct stele_timer *timer)
{
    struct stele_active_nodes *nodes = STELE_CONTAINER_OF(timer, struct stele_active_nodes, timer);
    const struct stele_active *active = nodes->active;
    if (!active->is_active || nodes->is_fencing)
        return;
    if (stele_max_i64(stele_registry_deadline(&active->registry), nodes->rest_until_ms) > now_ms_of(nodes)) {
        arm(nodes);
        return;
    }
    nodes->is_fencing = true;
    nodes->fencing.begin = fence_begin;
    nodes->fencing.done = fence_done;
    stele_active_take(nodes->active, &nodes->fencing);
}

/* Connections. */

static struct stele_node_poke *poke_of(struct stele_active_nodes *nodes, const struct stele_peer *peer)
{
    return &nodes->pokes[peer - peer->peers->items];
}

/* What it answers says nothing: of a connection that closes, or cannot be made, the peers tell. */
static void poked(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    (void)err;
    (void)answer;
    STELE_CONTAINER_OF(call, struct stele_node_poke, call)->is_under_way = false;
}

static void poke(struct stele_active_nodes *nodes, struct stele_peer *peer)
{
    struct stele_node_poke *poke = poke_of(nodes, peer);
    struct stele_request request = {.header.api = STELE_API_DESCRIBE_QUORUM, .body.describe_quorum.is_local = true};
    if (poke->is_under_way || peer->peers->is_ended)
        return;
    poke->peer = peer;
    poke->call.done = poked;
    poke->is_under_way = true;
    if (stele_peers_call(peer, &poke->call, &request) != STELE_OK)
        poke->is_under_way = false; /* its heartbeats go on, or its session ends */
}

/* NULL: it serves no clients anyway, or this is not the controller. */
static const struct stele_node_registration *watched(const struct stele_active_nodes *nodes, int32_t node_id)
{
    const struct stele_active *active = nodes->active;
    const struct stele_node_registration *node =
        active->is_active && active->registry.is_active ? stele_registry_find(&active->registry, node_id) : NULL;
    return node == NULL || node->is_fenced ? NULL : node;
}

void stele_active_nodes_suspect(struct stele_active_nodes *nodes, int32_t node_id, int64_t node_epoch, int64_t heard_ms)
{
    const struct stele_registry *registry = &nodes->active->registry;
    if (watched(nodes, node_id) == NULL || stele_registry_contact_ms(registry, node_id) - HEARD_MS > heard_ms)
        return;
    stele_registry_suspect(&nodes->active->registry, node_id, node_epoch, now_ms_of(nodes));
    arm(nodes);
}

static void suspect(struct stele_active_nodes *nodes, int32_t node_id)
{
    const struct stele_node_registration *node = watched(nodes, node_id);
    if (node != NULL)
        stele_active_nodes_suspect(nodes, node_id, node->node_epoch, INT64_MAX);
}

void stele_active_nodes_peer_changed(struct stele_active_nodes *nodes, struct stele_peer *peer, bool was_up)
{
    if (peer->is_up || watched(nodes, peer->node_id) == NULL)
        return;
    if (was_up)
        poke(nodes, peer);
    else
        suspect(nodes, peer->node_id);
}

void stele_active_nodes_doubt(struct stele_active_nodes *nodes, int32_t node_id)
{
    struct stele_peers *peers = &control_of(nodes)->peers;
    struct stele_peer *peer = peers->shard == NULL ? NULL : stele_peers_find(peers, node_id);
    if (peer != NULL && watched(nodes, node_id) != NULL)
        poke(nodes, peer);
}

/* Whoever is in the registry has a session from now on, also one that died with the controller before this. */
static void watch_all(struct stele_active_nodes *nodes)
{
    struct stele_peers *peers = &control_of(nodes)->peers;
    for (int i = 0; i < peers->count; i++) {
        if (watched(nodes, peers->items[i].node_id) == NULL)
            continue;
        if (peers->items[i].is_gone)
            suspect(nodes, peers->items[i].node_id);
        poke(nodes, &peers->items[i]);
    }
}

void stele_active_nodes_look(struct stele_active_nodes *nodes)
{
    const struct stele_active *active = nodes->active;
    bool begins = active->is_active && active->registry.is_active && nodes->watched_epoch != active->epoch;
    if (begins) {
        nodes->watched_epoch = active->epoch;
        nodes->wants_settling = true;
        watch_all(nodes);
    }
    settle_more(nodes);
    arm(nodes);
}

void stele_active_nodes_init(struct stele_active_nodes *nodes, struct stele_active *active)
{
    *nodes = (struct stele_active_nodes){
        .active = active, .watched_epoch = -1, .refused_err = STELE_OK, .partitions_max = PARTITIONS_MAX};
    stele_timer_init(&nodes->timer, fired);
}

void stele_active_nodes_end(struct stele_active_nodes *nodes)
{
    for (size_t i = 0; i < STELE_ARRAY_LEN(nodes->pokes); i++) {
        if (nodes->pokes[i].is_under_way)
            stele_link_cancel(&nodes->pokes[i].peer->control, &nodes->pokes[i].call);
        nodes->pokes[i].is_under_way = false;
    }
    stele_active_drop(&nodes->fencing);
    stele_active_drop(&nodes->settling);
    stele_timer_cancel(control_of(nodes)->shard->wheel, &nodes->timer);
}
