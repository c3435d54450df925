#include "node/active.h"

#include "base/check.h"
#include "node/active_partitions.h"
#include "node/controller.h"
#include "node/node_struct.h"
#include "replication/guard.h"

#include <stdio.h>
#include <string.h>

enum { ARENA_BYTES_MAX = 64 << 20, SUSPICION_MS = 100, RETRY_MS = 50 };

static struct stele_metadata_log *log_of(const struct stele_active *active)
{
    return &active->control->mlog;
}

/* The registry: what the image says of nodes. */

static void copy_text(char *to, size_t bytes, const char *from)
{
    (void)snprintf(to, bytes, "%s", from);
}

void stele_registration_of_member(const struct stele_image_member *member, struct stele_node_registration *out_node)
{
    struct stele_node_registration *node = out_node;
    *node = (struct stele_node_registration){.node_id = member->node_id,
                                             .incarnation_id = member->incarnation_id,
                                             .node_epoch = member->node_epoch,
                                             .boot_id = member->boot_id,
                                             .feature_min = member->level_min,
                                             .feature_max = member->level_max,
                                             .is_fenced = member->is_fenced,
                                             .is_shutting_down = member->is_shutting_down,
                                             .served_epoch = member->served_epoch};
    copy_text(node->rack, sizeof(node->rack), member->rack);
    copy_text(node->version, sizeof(node->version), member->software_version);
    for (size_t i = 0; i < member->listener_count && i < STELE_NODE_LISTENERS_MAX; i++) {
        struct stele_node_listener *listener = &node->listeners[node->listener_count++];
        copy_text(listener->name, sizeof(listener->name), member->listeners[i].name);
        copy_text(listener->host, sizeof(listener->host), member->listeners[i].host);
        listener->port = member->listeners[i].port;
    }
    for (size_t i = 0; i < member->directory_count && i < STELE_NODE_DIRECTORIES_MAX; i++)
        node->directories[node->directory_count++] = member->directories[i];
    node->offline_directories =
        stele_node_directory_bits(node, member->offline_directories, (int32_t)member->offline_directory_count);
}

static enum stele_err see_member(struct stele_active *active, const struct stele_image_member *member)
{
    const struct stele_node_registration *known = stele_registry_find(&active->registry, member->node_id);
    struct stele_node_registration node;
    stele_registration_of_member(member, &node);
    if (known == NULL || known->node_epoch != node.node_epoch)
        return stele_registry_apply(&active->registry, &node);
    struct stele_heartbeat_verdict flags = {.is_fenced = node.is_fenced,
                                            .is_shutting_down = node.is_shutting_down,
                                            .offline_directories = node.offline_directories};
    if (known->is_fenced == node.is_fenced && known->is_shutting_down == node.is_shutting_down &&
        known->offline_directories == node.offline_directories)
        return stele_registry_apply(&active->registry, &node); /* it may have told others of its listeners */
    enum stele_err err = stele_registry_apply_flags(&active->registry, node.node_id, node.node_epoch, &flags,
                                                    stele_env_mono_ms(active->control->shard->env));
    return err == STELE_OK ? stele_registry_apply(&active->registry, &node) : err;
}

/* Errors: NO_MEMORY; the rest is seen the next time. */
static enum stele_err see_image(struct stele_active *active)
{
    const struct stele_image *image = &log_of(active)->image;
    const struct stele_node_registration *known;
    int32_t at = 0;
    bool is_seen = active->seen_members == image->member_records;
    while (!is_seen && (known = stele_registry_at(&active->registry, at)) != NULL) {
        if (stele_image_member_of(image, known->node_id) == NULL)
            stele_registry_apply_removal(&active->registry, known->node_id);
        else
            at++;
    }
    for (const struct stele_image_member *member = image->members; member != NULL && !is_seen; member = member->next) {
        enum stele_err err = see_member(active, member);
        if (err != STELE_OK)
            return err;
    }
    active->seen_members = image->member_records;
    active->seen_offset = log_of(active)->applied_offset;
    return STELE_OK;
}

/* Turns. */

static void post(struct stele_active *active)
{
    struct stele_env *env = active->control->shard->env;
    if (active->is_posted)
        return;
    active->is_posted = true;
    env->ops->post(env, &active->task);
}

static void clear(struct stele_active_turn *turn)
{
    struct stele_mem *mem = turn->active->control->shard->env->mem;
    stele_mem_free(mem, turn->records);
    turn->records = NULL;
    turn->count = turn->capacity = 0;
    stele_arena_deinit(&turn->arena);
}

/* `done` may take it again. */
static void tell(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_active *active = turn->active;
    if (active->turn == turn)
        active->turn = NULL;
    struct stele_arena arena = turn->arena;
    stele_mem_free(active->control->shard->env->mem, turn->records);
    turn->records = NULL;
    turn->count = turn->capacity = 0;
    turn->active = NULL;
    post(active);
    turn->done(turn, err);
    stele_arena_deinit(&arena);
}

/* It leads, but not everything that was ever committed is in its image yet: it becomes active, or another leads. */
static bool becomes_active(const struct stele_active *active)
{
    const struct stele_metadata_log *mlog = log_of(active);
    return mlog->is_running && mlog->quorum.role == STELE_QUORUM_LEADER;
}

/* Everything before is committed and seen. */
static bool may_begin(const struct stele_active *active)
{
    const struct stele_metadata_log *mlog = log_of(active);
    return stele_metadata_log_is_active(mlog) && !mlog->is_busy && active->seen_offset == mlog->applied_offset;
}

static void go_on(struct stele_task *task)
{
    struct stele_active *active = STELE_CONTAINER_OF(task, struct stele_active, task);
    active->is_posted = false;
    if (active->turn != NULL || stele_list_is_empty(&active->turns))
        return;
    struct stele_active_turn *turn = STELE_CONTAINER_OF(active->turns.next, struct stele_active_turn, link);
    if (!active->is_active && becomes_active(active))
        return;
    if (!active->is_active) {
        stele_list_remove(&turn->link);
        tell(turn, STELE_NOT_CONTROLLER);
    } else if (may_begin(active)) {
        stele_list_remove(&turn->link);
        active->turn = turn;
        turn->begin(turn);
    }
}

void stele_active_take(struct stele_active *active, struct stele_active_turn *turn)
{
    STELE_ASSERT(turn->active == NULL);
    turn->active = active;
    turn->elections = turn->unclean_elections = 0;
    stele_list_init(&turn->change.link);
    stele_arena_init(&turn->arena, active->control->shard->env->mem, STELE_MEM_METADATA, ARENA_BYTES_MAX);
    stele_list_push(&active->turns, &turn->link);
    post(active);
}

static void nothing_written(struct stele_task *task)
{
    struct stele_active_turn *turn = STELE_CONTAINER_OF(task, struct stele_active_turn, task);
    if (turn->active != NULL) /* it was not dropped meanwhile */
        tell(turn, STELE_OK);
}

static void written(struct stele_metadata_change *change, enum stele_err err)
{
    struct stele_active_turn *turn = STELE_CONTAINER_OF(change, struct stele_active_turn, change);
    struct stele_metrics *metrics = turn->active->control->shard->env->metrics;
    if (err == STELE_OK) {
        STELE_METRIC_ADD(metrics, elections, turn->elections);
        STELE_METRIC_ADD(metrics, elections_unclean, turn->unclean_elections);
    }
    stele_active_look(turn->active); /* the registry has it before anybody is told */
    tell(turn, err);
}

/* Mutation M24, for tests that must notice it: the turn is done before its batch is committed, which goes on alone. */

struct early {
    struct stele_list link;
    struct stele_metadata_change change;
    struct stele_metadata_record *records;
    struct stele_arena arena;
    struct stele_active *active;
};

static void early_free(struct early *early)
{
    struct stele_mem *mem = early->active->control->shard->env->mem;
    stele_list_remove(&early->link);
    stele_list_remove(&early->change.link);
    stele_arena_deinit(&early->arena);
    stele_mem_free(mem, early->records);
    stele_mem_free(mem, early);
}

static void early_written(struct stele_metadata_change *change, enum stele_err err)
{
    struct early *early = STELE_CONTAINER_OF(change, struct early, change);
    (void)err;
    stele_active_look(early->active);
    early_free(early);
}

static void write_early(struct stele_active_turn *turn)
{
    struct stele_env *env = turn->active->control->shard->env;
    struct early *early = stele_mem_alloc(env->mem, STELE_MEM_METADATA, sizeof(*early));
    turn->task.run = nothing_written;
    env->ops->post(env, &turn->task);
    if (early == NULL)
        return;
    *early = (struct early){.records = turn->records, .arena = turn->arena, .active = turn->active};
    early->change =
        (struct stele_metadata_change){.records = turn->records, .count = turn->count, .done = early_written};
    turn->records = NULL;
    turn->count = turn->capacity = 0;
    stele_arena_init(&turn->arena, env->mem, STELE_MEM_METADATA, ARENA_BYTES_MAX);
    stele_list_push(&turn->active->early, &early->link);
    stele_metadata_log_change(log_of(turn->active), &early->change);
}

void stele_active_write(struct stele_active_turn *turn)
{
    struct stele_env *env = turn->active->control->shard->env;
    STELE_ASSERT(turn->active->turn == turn);
    if (turn->count == 0) {
        turn->task.run = nothing_written;
        env->ops->post(env, &turn->task);
        return;
    }
    if (!STELE_GUARD(24)) {
        write_early(turn);
        return;
    }
    turn->change = (struct stele_metadata_change){.records = turn->records, .count = turn->count, .done = written};
    stele_metadata_log_change(log_of(turn->active), &turn->change);
}

void stele_active_end(struct stele_active_turn *turn)
{
    struct stele_active *active = turn->active;
    STELE_ASSERT(active->turn == turn);
    clear(turn);
    turn->active = NULL;
    active->turn = NULL;
    post(active);
}

void stele_active_drop(struct stele_active_turn *turn)
{
    if (turn->active == NULL)
        return;
    stele_list_remove(&turn->link);
    stele_list_remove(&turn->change.link);
    if (turn->active->turn == turn)
        turn->active->turn = NULL;
    clear(turn);
    turn->active = NULL;
}

void stele_active_explain(const struct stele_active *active, enum stele_err err, struct stele_error *out_error)
{
    const struct stele_quorum *quorum = &log_of(active)->quorum;
    if (err == STELE_NOT_CONTROLLER && quorum->role != STELE_QUORUM_LEADER &&
        quorum->election.leader_id != STELE_NO_NODE)
        (void)stele_error_set(out_error, err, "node %d is the controller, not this one: ask that one",
                              (int)quorum->election.leader_id);
    else
        (void)stele_error_set(out_error, err, "%s", stele_metadata_log_why(err));
}

/* Records. */

enum stele_err stele_active_add(struct stele_active_turn *turn, const struct stele_metadata_record *record)
{
    if (turn->count == turn->capacity) {
        int capacity = turn->capacity == 0 ? 8 : turn->capacity * 2;
        struct stele_metadata_record *grown =
            stele_mem_resize(turn->active->control->shard->env->mem, STELE_MEM_METADATA, turn->records,
                             (size_t)capacity * sizeof(*grown));
        if (grown == NULL)
            return STELE_NO_MEMORY;
        turn->records = grown;
        turn->capacity = capacity;
    }
    turn->records[turn->count++] = *record;
    return STELE_OK;
}

static void count_election(struct stele_active_turn *turn, const struct stele_uuid *topic_id, int32_t number,
                           const struct stele_partition_state *state)
{
    const struct stele_image_topic *topic = stele_image_topic_of(&log_of(turn->active)->image, topic_id);
    const struct stele_image_partition *known = stele_image_partition_of(topic, number);
    if (known == NULL || state->leader_id == STELE_NO_NODE || state->leader_id == known->state.leader_id)
        return;
    turn->elections++;
    turn->unclean_elections += state->is_recovering && !known->state.is_recovering;
}

enum stele_err stele_active_add_partition(struct stele_active_turn *turn, const struct stele_uuid *topic_id,
                                          int32_t number, const struct stele_partition_state *state)
{
    struct stele_partition_state *copy = stele_arena_alloc(&turn->arena, sizeof(*copy));
    if (copy == NULL)
        return STELE_NO_MEMORY;
    *copy = *state;
    count_election(turn, topic_id, number, state);
    return stele_active_add(turn, &(struct stele_metadata_record){
                                      .kind = STELE_METADATA_PARTITION,
                                      .u.partition = {.topic_id = *topic_id,
                                                      .partition = number,
                                                      .leader_id = copy->leader_id,
                                                      .leader_epoch = copy->leader_epoch,
                                                      .partition_epoch = copy->partition_epoch,
                                                      .replicas = copy->replicas.ids,
                                                      .replica_count = (size_t)copy->replicas.count,
                                                      .isr = copy->isr.ids,
                                                      .isr_count = (size_t)copy->isr.count,
                                                      .elr = copy->elr.ids,
                                                      .elr_count = (size_t)copy->elr.count,
                                                      .last_known_elr = copy->last_known_elr.ids,
                                                      .last_known_elr_count = (size_t)copy->last_known_elr.count,
                                                      .adding = copy->adding.ids,
                                                      .adding_count = (size_t)copy->adding.count,
                                                      .removing = copy->removing.ids,
                                                      .removing_count = (size_t)copy->removing.count,
                                                      .is_recovering = copy->is_recovering,
                                                      .is_unsynced = copy->is_unsynced,
                                                      .offline = copy->offline.ids,
                                                      .offline_count = (size_t)copy->offline.count}});
}

/* A registration and the arrays that its record points to. */
struct node_copy {
    struct stele_node_registration node;
    struct stele_listener_address listeners[STELE_NODE_LISTENERS_MAX];
    struct stele_node_directory_id directories[STELE_NODE_DIRECTORIES_MAX], offline[STELE_NODE_DIRECTORIES_MAX];
};

enum stele_err stele_active_add_node(struct stele_active_turn *turn, const struct stele_node_registration *from)
{
    struct node_copy *copy = stele_arena_alloc(&turn->arena, sizeof(*copy));
    size_t offline_count = 0;
    if (copy == NULL)
        return STELE_NO_MEMORY;
    struct stele_node_registration *node = &copy->node;
    *node = *from;
    for (int32_t i = 0; i < node->listener_count; i++)
        copy->listeners[i] = (struct stele_listener_address){
            .name = node->listeners[i].name, .host = node->listeners[i].host, .port = node->listeners[i].port};
    for (int32_t i = 0; i < node->directory_count; i++) {
        copy->directories[i].directory_id = node->directories[i];
        if ((node->offline_directories & UINT32_C(1) << i) != 0)
            copy->offline[offline_count++].directory_id = node->directories[i];
    }
    return stele_active_add(turn,
                            &(struct stele_metadata_record){.kind = STELE_METADATA_NODE,
                                                            .u.node = {.node_id = node->node_id,
                                                                       .incarnation_id = node->incarnation_id,
                                                                       .node_epoch = node->node_epoch,
                                                                       .boot_id = node->boot_id,
                                                                       .rack = node->rack,
                                                                       .listeners = copy->listeners,
                                                                       .listener_count = (size_t)node->listener_count,
                                                                       .directories = copy->directories,
                                                                       .directory_count = (size_t)node->directory_count,
                                                                       .offline_directories = copy->offline,
                                                                       .offline_directory_count = offline_count,
                                                                       .level_min = node->feature_min,
                                                                       .level_max = node->feature_max,
                                                                       .is_fenced = node->is_fenced,
                                                                       .is_shutting_down = node->is_shutting_down,
                                                                       .software_version = node->version,
                                                                       .served_epoch = node->served_epoch}});
}

/* Partitions. */

int32_t stele_active_min_isr(const struct stele_active *active, const struct stele_image_topic *topic)
{
    const struct stele_image_change *set = stele_image_setting(&topic->settings, "min.insync.replicas");
    int64_t value = 0;
    if (set == NULL || set->value == NULL)
        return (int32_t)stele_settings_int(active->control->node->settings, "min.insync.replicas");
    for (const char *at = set->value; *at >= '0' && *at <= '9' && value < STELE_REPLICAS_MAX; at++) /* it was checked */
        value = value * 10 + (*at - '0');
    return (int32_t)stele_max_i64(1, value);
}

bool stele_active_flushes(const struct stele_active *active, const struct stele_image_topic *topic)
{
    const struct stele_image_change *set = stele_image_setting(&topic->settings, "flush.before.ack");
    if (set == NULL || set->value == NULL)
        return stele_settings_bool(active->control->node->settings, "log.flush.before.ack");
    return strcmp(set->value, "true") == 0;
}

void stele_active_view(const struct stele_active *active, const struct stele_image_topic *topic,
                       const struct stele_partition_state *state, const struct stele_node_set *more,
                       const struct stele_active_assumption *assumption, struct stele_partition_view *out_view)
{
    out_view->count = 0;
    out_view->min_isr = stele_active_min_isr(active, topic);
    stele_registry_view(&active->registry, &state->replicas, out_view);
    if (more != NULL)
        stele_registry_view(&active->registry, more, out_view);
    for (int32_t i = 0; i < out_view->count; i++) {
        struct stele_replica_view *node = &out_view->nodes[i];
        if (assumption != NULL && node->node_id == assumption->node_id) {
            node->is_active = assumption->is_active;
            node->node_epoch = assumption->node_epoch;
        }
        node->is_offline = stele_node_set_has(&state->offline, node->node_id);
    }
}

/* In another life of the node nothing of it is known to have failed (as the image has it when the node's record is
 * applied). */
static void begin_life(const struct stele_active *active, const struct stele_active_assumption *assumption,
                       struct stele_partition_state *state)
{
    const struct stele_node_registration *known =
        assumption != NULL ? stele_registry_find(&active->registry, assumption->node_id) : NULL;
    if (known != NULL && known->node_epoch != assumption->node_epoch)
        stele_node_set_remove(&state->offline, assumption->node_id);
}

enum stele_err stele_active_change(struct stele_active_turn *turn, const struct stele_image_topic *topic,
                                   int32_t number, const struct stele_partition_change *change,
                                   const struct stele_active_assumption *assumption,
                                   struct stele_partition_outcome *out_outcome)
{
    struct stele_partition_state state = topic->partitions[number].state;
    struct stele_partition_outcome outcome;
    struct stele_partition_view view;
    begin_life(turn->active, assumption, &state);
    stele_active_view(turn->active, topic, &state, change->reassign == STELE_REASSIGN_START ? &change->target : NULL,
                      assumption, &view);
    enum stele_err err = stele_partition_change(&state, change, &view, &outcome);
    if (err == STELE_OK && outcome.changed != 0)
        err = stele_active_add_partition(turn, &topic->topic_id, number, &outcome.next);
    if (err == STELE_OK)
        *out_outcome = outcome;
    return err;
}

/* Who is active. */

static void begin(struct stele_active *active)
{
    active->is_active = true;
    active->epoch = log_of(active)->quorum.election.epoch;
    active->seen_offset = active->seen_members = -1;
}

static void end(struct stele_active *active)
{
    active->is_active = false;
    stele_timer_cancel(active->control->shard->wheel, &active->timer);
    stele_registry_deactivate(&active->registry);
    stele_registry_deinit(&active->registry);
}

void stele_active_look(struct stele_active *active)
{
    const struct stele_metadata_log *mlog = log_of(active);
    struct stele_shard *shard = active->control->shard;
    bool leads = mlog->is_running && mlog->quorum.role == STELE_QUORUM_LEADER;
    if (active->is_active && (!leads || mlog->quorum.election.epoch != active->epoch))
        end(active);
    if (!active->is_active && stele_metadata_log_is_active(mlog))
        begin(active);
    if (active->is_active && active->seen_offset != mlog->applied_offset && see_image(active) != STELE_OK) {
        stele_shard_arm(shard, &active->timer, stele_env_mono_ms(shard->env) + RETRY_MS);
        return;
    }
    if (active->is_active && !active->registry.is_active) /* those who were registered before get their sessions */
        stele_registry_activate(&active->registry, stele_env_mono_ms(shard->env));
    if (!stele_list_is_empty(&active->turns))
        post(active);
}

static void look_again(struct stele_timer *timer)
{
    stele_active_look(STELE_CONTAINER_OF(timer, struct stele_active, timer));
}

void stele_active_init(struct stele_active *active, struct stele_controller *control)
{
    const struct stele_settings *settings = control->node->settings;
    *active = (struct stele_active){.control = control, .task = {.run = go_on}};
    stele_list_init(&active->turns);
    stele_list_init(&active->early);
    stele_timer_init(&active->timer, look_again);
    stele_registry_init(
        &active->registry, control->shard->env->mem,
        (struct stele_registry_settings){.session_ms = stele_settings_int(settings, "broker.session.timeout.ms"),
                                         .suspicion_ms = SUSPICION_MS});
}

void stele_active_deinit(struct stele_active *active)
{
    stele_timer_cancel(active->control->shard->wheel, &active->timer);
    stele_registry_deinit(&active->registry);
    while (!stele_list_is_empty(&active->early))
        early_free(STELE_CONTAINER_OF(active->early.next, struct early, link));
}
