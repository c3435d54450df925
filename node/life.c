#include "node/life.h"

#include "base/check.h"
#include "node/node_struct.h"

#include <stdio.h>
#include <string.h>

enum { LEAVE_SILENCE_MS = 2000, LEVEL_MIN = 1, MARK_RETRY_MS = 500 };

/* A request to the controller. */
struct life_call {
    struct stele_list link;
    struct stele_life *life;
    struct stele_peer *peer; /* NULL: this node is it */
    struct stele_call call;
    struct stele_node_ask ask;
    struct stele_task task;
    bool is_answered; /* the task is under way */
    struct stele_life_event answer;
};

static void step(struct stele_life *life, struct stele_life_event event);

static struct stele_env *env_of(const struct stele_life *life)
{
    return life->control->shard->env;
}

/* Answers. */

static void drop_call(struct life_call *call)
{
    stele_list_remove(&call->link);
    stele_mem_free(env_of(call->life)->mem, call);
}

/* The controller says no, again and again: said once. */
static void tell_refusal(struct stele_life *life, enum stele_err err, const char *message)
{
    bool is_odd = err != STELE_OK && err != STELE_NOT_CONTROLLER && err != STELE_CLOSED && err != STELE_NO_MEMORY &&
                  err != STELE_REQUEST_TIMED_OUT;
    if (is_odd && life->told_err != err)
        stele_trace(env_of(life), STELE_TRACE_LIFE_REFUSED, NULL, message[0] != 0 ? message : stele_err_text(err),
                    life->control->node->node_id, life->machine.controller_id, 0);
    if (err == STELE_OK || is_odd)
        life->told_err = err;
}

static void call_done(struct stele_call *of, enum stele_err err, const struct stele_answer *got)
{
    struct life_call *call = STELE_CONTAINER_OF(of, struct life_call, call);
    struct stele_life *life = call->life;
    struct stele_life_event event = call->answer;
    event.err = err;
    if (err == STELE_OK && event.kind == STELE_LIFE_EVENT_REGISTERED) {
        const struct stele_register_node_response *response = &got->response->body.register_node;
        event.err = response->err;
        event.node_epoch = response->node_epoch;
        tell_refusal(life, response->err, response->message);
    } else if (err == STELE_OK) {
        const struct stele_node_heartbeat_response *response = &got->response->body.node_heartbeat;
        event.err = response->err;
        event.is_fenced = response->is_fenced;
        event.should_shut_down = response->should_shutdown;
    }
    drop_call(call);
    step(life, event);
}

static void own_answer(struct stele_task *task)
{
    struct life_call *call = STELE_CONTAINER_OF(task, struct life_call, task);
    struct stele_life *life = call->life;
    struct stele_life_event event = call->answer;
    if (event.kind == STELE_LIFE_EVENT_REGISTERED)
        tell_refusal(life, event.err, call->ask.message);
    drop_call(call);
    step(life, event);
}

/* It may be called from inside the step that asked. */
static void own_done(struct stele_node_ask *ask)
{
    struct life_call *call = STELE_CONTAINER_OF(ask, struct life_call, ask);
    struct stele_env *env = env_of(call->life);
    call->answer.err = ask->err;
    call->answer.node_epoch = ask->node_epoch;
    call->answer.is_fenced = ask->verdict.answer_is_fenced;
    call->answer.should_shut_down = ask->verdict.answer_should_shut_down;
    call->is_answered = true;
    call->task.run = own_answer;
    env->ops->post(env, &call->task);
}

/* Requests. */

static void own_ask(struct life_call *call, const struct stele_life_update *update)
{
    struct stele_life *life = call->life;
    struct stele_node_ask *ask = &call->ask;
    const struct stele_node_registration *node = &life->request.node;
    ask->kind = update->sends_registration ? STELE_ASK_REGISTER : STELE_ASK_HEARTBEAT;
    ask->registration = &life->request;
    ask->heartbeat = update->heartbeat;
    ask->done = own_done;
    for (int32_t i = 0; i < node->directory_count; i++) {
        if ((update->heartbeat.offline_directories & UINT32_C(1) << i) != 0)
            ask->offline[ask->offline_count++] = node->directories[i];
    }
    stele_active_nodes_ask(&life->control->active_nodes, ask);
}

static enum stele_err send_registration(struct life_call *call)
{
    const struct stele_life *life = call->life;
    const struct stele_node_registration *node = &life->request.node;
    struct stele_listener_address listeners[STELE_NODE_LISTENERS_MAX];
    struct stele_node_directory_id directories[STELE_NODE_DIRECTORIES_MAX];
    for (int32_t i = 0; i < node->listener_count; i++)
        listeners[i] = (struct stele_listener_address){
            .name = node->listeners[i].name, .host = node->listeners[i].host, .port = node->listeners[i].port};
    for (int32_t i = 0; i < node->directory_count; i++)
        directories[i] = (struct stele_node_directory_id){.directory_id = node->directories[i],
                                                          .served_epoch = life->request.served_epochs[i]};
    struct stele_request request = {.header.api = STELE_API_REGISTER_NODE,
                                    .body.register_node = {.cluster_id = life->control->node->cluster_id,
                                                           .node_id = node->node_id,
                                                           .incarnation_id = node->incarnation_id,
                                                           .previous_node_epoch = life->request.previous_epoch,
                                                           .boot_id = node->boot_id,
                                                           .rack = node->rack,
                                                           .listeners = listeners,
                                                           .listener_count = (size_t)node->listener_count,
                                                           .directories = directories,
                                                           .directory_count = (size_t)node->directory_count,
                                                           .level_min = node->feature_min,
                                                           .level_max = node->feature_max,
                                                           .software_version = node->version}};
    return stele_peers_call(call->peer, &call->call, &request);
}

static enum stele_err send_heartbeat(struct life_call *call, const struct stele_heartbeat *heartbeat)
{
    const struct stele_node_registration *node = &call->life->request.node;
    struct stele_node_directory_id offline[STELE_NODE_DIRECTORIES_MAX];
    size_t offline_count = 0;
    for (int32_t i = 0; i < node->directory_count; i++) {
        if ((heartbeat->offline_directories & UINT32_C(1) << i) != 0)
            offline[offline_count++] = (struct stele_node_directory_id){.directory_id = node->directories[i]};
    }
    struct stele_request request = {.header.api = STELE_API_NODE_HEARTBEAT,
                                    .body.node_heartbeat = {.node_id = heartbeat->node_id,
                                                            .node_epoch = heartbeat->node_epoch,
                                                            .metadata_offset = heartbeat->metadata_offset,
                                                            .wants_fence = heartbeat->wants_fence,
                                                            .wants_shutdown = heartbeat->wants_shutdown,
                                                            .offline_directories = offline,
                                                            .offline_directory_count = offline_count}};
    return stele_peers_call(call->peer, &call->call, &request);
}

/* Errors: NO_MEMORY; nothing was asked. */
static enum stele_err send(struct stele_life *life, struct stele_life_update *update)
{
    struct stele_controller *control = life->control;
    struct life_call *call = stele_mem_alloc(env_of(life)->mem, STELE_MEM_METADATA, sizeof(*call));
    if (call == NULL)
        return STELE_NO_MEMORY;
    if (life->marked_epoch != life->machine.node_epoch && !update->heartbeat.wants_shutdown)
        update->heartbeat.wants_fence = true;
    call->life = life;
    call->call.done = call_done;
    call->answer = (struct stele_life_event){.kind = update->sends_registration ? STELE_LIFE_EVENT_REGISTERED
                                                                                : STELE_LIFE_EVENT_BEATEN,
                                             .request_id = update->request_id,
                                             .incarnation_id = life->request.node.incarnation_id};
    stele_list_push(&life->calls, &call->link);
    if (life->machine.controller_id == control->node->node_id) {
        own_ask(call, update);
        return STELE_OK;
    }
    call->peer = stele_peers_find(&control->peers, life->machine.controller_id);
    enum stele_err err = call->peer == NULL           ? STELE_NOT_CONTROLLER
                         : update->sends_registration ? send_registration(call)
                                                      : send_heartbeat(call, &update->heartbeat);
    if (err != STELE_OK)
        drop_call(call);
    return err;
}

/* The machine. */

static void tell_state(const struct stele_life *life)
{
    static const char *const texts[] = {
        [STELE_LIFE_STARTING] = "is not registered",
        [STELE_LIFE_FENCED] = "is registered, and fenced",
        [STELE_LIFE_RUNNING] = "serves",
        [STELE_LIFE_LEAVING] = "leaves",
        [STELE_LIFE_STOPPED] = "has left",
    };
    stele_trace(env_of(life), STELE_TRACE_LIFE_CHANGED, NULL, texts[life->machine.state], life->control->node->node_id,
                life->machine.node_epoch, 0);
}

static void fail(struct stele_life *life, enum stele_err err)
{
    struct stele_node *node = life->control->node;
    struct stele_error error;
    (void)stele_error_set(&error, err, "the controller, node %d, does not take this node, %d, into the cluster: %s%s",
                          (int)life->machine.controller_id, (int)node->node_id, stele_err_text(err),
                          err == STELE_DUPLICATE_BROKER_REGISTRATION ? " (check node.id, --node, of both)" : "");
    node->options.fatal(node->options.arg, STELE_EXIT_FAILED, &error);
}

static void arm(struct stele_life *life)
{
    int64_t deadline_ms = stele_node_life_deadline(&life->machine);
    if (deadline_ms == INT64_MAX)
        stele_timer_cancel(life->control->shard->wheel, &life->timer);
    else
        stele_shard_arm(life->control->shard, &life->timer, deadline_ms);
}

/* What it changed: atomically, for other shards look at it (node/replica_fetcher.c). */
static void take_state(struct stele_life *life, const struct stele_life_update *update)
{
    life->control->node->node_epoch = life->machine.node_epoch;
    if (!update->has_state)
        return;
    if (update->failure != STELE_OK) {
        fail(life, update->failure);
        return;
    }
    tell_state(life);
    if (life->machine.state == STELE_LIFE_STOPPED)
        stele_controller_left(life->control);
}

bool stele_life_is_known(const struct stele_life *life)
{
    const struct stele_controller *control = life->control;
    const struct stele_image_member *self = stele_image_member_of(&control->mlog.image, control->node->node_id);
    return control->peers.shard == NULL ||
           (life->machine.node_epoch >= 0 && self != NULL && self->node_epoch == life->machine.node_epoch);
}

static void tell_known(struct stele_life *life)
{
    bool is_known = stele_life_is_known(life);
    if (is_known == life->is_known)
        return;
    life->is_known = is_known;
    stele_reconcile_see_all(&life->control->reconcile);
}

/* The epoch of this life in the directories. */

static void mark(struct stele_life *life);

static void mark_work(struct stele_job *job)
{
    struct stele_life *life = STELE_CONTAINER_OF(job, struct stele_life, mark_job);
    life->mark_err = stele_log_dirs_mark_served(life->control->dirs, life->marking_epoch);
}

static void mark_done(struct stele_job *job)
{
    struct stele_life *life = STELE_CONTAINER_OF(job, struct stele_life, mark_job);
    struct stele_controller *control = life->control;
    life->is_marking = false;
    if (life->mark_err != STELE_OK)
        stele_controller_look_for_failed(control, life->mark_err, "the epoch of this life cannot be written");
    if (!life->is_begun)
        return;
    if (life->mark_err == STELE_NO_SPACE || life->mark_err == STELE_NO_MEMORY) {
        stele_shard_arm(control->shard, &life->mark_timer, stele_env_mono_ms(env_of(life)) + MARK_RETRY_MS);
        return;
    }
    life->marked_epoch = life->marking_epoch; /* in all that work */
    if (life->is_open)
        step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_RECOVERED});
    else
        mark(life);
}

static void mark(struct stele_life *life)
{
    int64_t epoch = life->machine.node_epoch;
    if (!life->is_begun || life->is_marking || epoch < 0 || epoch == life->marked_epoch ||
        life->machine.state == STELE_LIFE_STOPPED)
        return;
    life->is_marking = true;
    life->marking_epoch = epoch;
    life->mark_job = (struct stele_job){.work = mark_work, .done = mark_done};
    stele_controller_job(life->control, &life->mark_job);
}

static void mark_again(struct stele_timer *timer)
{
    mark(STELE_CONTAINER_OF(timer, struct stele_life, mark_timer));
}

static void step(struct stele_life *life, struct stele_life_event event)
{
    struct stele_env *env = env_of(life);
    struct stele_life_update update;
    if (!life->is_begun)
        return;
    do {
        event.now_ms = stele_env_mono_ms(env);
        event.random = env->ops->random(env);
        stele_node_life_step(&life->machine, &event, &update);
        take_state(life, &update);
        if (!update.sends_registration && !update.sends_heartbeat)
            break;
        /* Without memory it is as if the answer were lost. */
        event = (struct stele_life_event){.kind = update.sends_registration ? STELE_LIFE_EVENT_REGISTERED
                                                                            : STELE_LIFE_EVENT_BEATEN,
                                          .request_id = update.request_id,
                                          .incarnation_id = life->request.node.incarnation_id,
                                          .err = send(life, &update)};
    } while (event.err != STELE_OK);
    tell_known(life);
    arm(life);
    mark(life);
}

static void fired(struct stele_timer *timer)
{
    struct stele_life *life = STELE_CONTAINER_OF(timer, struct stele_life, timer);
    step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_TIME});
}

/* A request that waits for a connection to an earlier controller is of no use. */
static void cancel_unsent(struct stele_life *life)
{
    struct stele_list *at = life->calls.next;
    while (at != &life->calls) {
        struct life_call *call = STELE_CONTAINER_OF(at, struct life_call, link);
        at = at->next;
        if (call->peer == NULL || call->call.is_sent)
            continue;
        stele_link_cancel(&call->peer->control, &call->call);
        drop_call(call);
    }
}

/* What happens around it. */

/* A node leaves, and is not let go before all others have told that they know who leads instead. */
static bool is_awaited(const struct stele_image *image)
{
    const struct stele_image_member *member = image->members;
    while (member != NULL && (member->is_fenced || !member->is_shutting_down))
        member = member->next;
    return member != NULL;
}

void stele_life_look(struct stele_life *life)
{
    const struct stele_metadata_log *mlog = &life->control->mlog;
    int32_t controller_id = mlog->is_running ? mlog->quorum.election.leader_id : STELE_NO_NODE;
    if (!life->is_begun)
        return;
    tell_known(life);
    if (mlog->applied_offset - 1 > life->machine.metadata_offset)
        step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_METADATA,
                                             .metadata_offset = mlog->applied_offset - 1,
                                             .is_awaited = is_awaited(&mlog->image)});
    if (controller_id == life->machine.controller_id)
        return;
    cancel_unsent(life);
    step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_CONTROLLER, .controller_id = controller_id});
}

void stele_life_look_at_directories(struct stele_life *life)
{
    const struct stele_controller *control = life->control;
    const struct stele_node_registration *node = &life->request.node;
    uint32_t offline = 0;
    if (!life->is_begun)
        return;
    for (int i = 0; i < stele_log_dirs_count(control->dirs); i++) {
        struct stele_uuid id;
        if (stele_log_dirs_is_offline(control->dirs, i) && stele_log_dirs_id(control->dirs, i, &id))
            offline |= stele_node_directory_bits(node, &id, 1);
    }
    if (offline != 0)
        step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_OFFLINE, .offline_directories = offline});
}

void stele_life_serve(struct stele_life *life)
{
    life->is_open = true;
    step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_RECOVERED});
}

void stele_life_shaken(struct stele_life *life, int32_t node_id)
{
    if (life->is_begun && node_id == life->machine.controller_id)
        step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_SHAKEN});
}

void stele_life_leave(struct stele_life *life)
{
    if (!life->is_begun || life->machine.state == STELE_LIFE_STOPPED)
        stele_controller_left(life->control);
    else
        step(life, (struct stele_life_event){.kind = STELE_LIFE_EVENT_LEAVE});
}

/* Begin and end. */

static void fill_registration(struct stele_life *life)
{
    const struct stele_controller *control = life->control;
    const struct stele_node *node = control->node;
    struct stele_env *env = env_of(life);
    struct stele_node_registration *own = &life->request.node;
    bool is_usable = false;
    *own = (struct stele_node_registration){.node_id = node->node_id,
                                            .boot_id = node->options.boot_id,
                                            .feature_min = LEVEL_MIN,
                                            .feature_max = STELE_METADATA_LEVEL};
    while (!is_usable) {
        uint64_t high = env->ops->random(env), low = env->ops->random(env);
        own->incarnation_id = stele_uuid_make(high, low, &is_usable);
    }
    (void)snprintf(own->rack, sizeof(own->rack), "%s", stele_settings_text(node->settings, "broker.rack"));
    (void)snprintf(own->version, sizeof(own->version), "%s", STELE_VERSION);
    for (int i = 0; i < node->listeners.count; i++) {
        const struct stele_listener *from = &node->listeners.items[i];
        struct stele_node_listener *to = &own->listeners[own->listener_count++];
        (void)snprintf(to->name, sizeof(to->name), "%s", from->name);
        (void)snprintf(to->host, sizeof(to->host), "%s", from->told_host);
        to->port = from->told_port;
    }
    for (int i = 0; i < stele_log_dirs_count(control->dirs) && own->directory_count < STELE_NODE_DIRECTORIES_MAX; i++) {
        life->request.served_epochs[own->directory_count] = stele_log_dirs_served_epoch(control->dirs, i);
        if (stele_log_dirs_id(control->dirs, i, &own->directories[own->directory_count]))
            own->directory_count++;
    }
    const char *cluster_id = node->cluster_id;
    if (stele_uuid_parse(cluster_id, strlen(cluster_id), &life->request.cluster_id) != STELE_OK)
        life->request.cluster_id = (struct stele_uuid){.bytes = {0}};
    life->request.previous_epoch = stele_log_dirs_clean_epoch(control->dirs);
    if (stele_log_dirs_has_failed_sync(control->dirs)) {
        /* A loss like that of the machine's memory: of no boot that is known, after no clean stop. */
        own->boot_id = (struct stele_uuid){.bytes = {0}};
        life->request.previous_epoch = -1;
    }
}

void stele_life_begin(struct stele_life *life)
{
    const struct stele_settings *settings = life->control->node->settings;
    if (life->control->peers.shard == NULL)
        return;
    fill_registration(life);
    struct stele_life_settings of_life = {
        .node_id = life->control->node->node_id,
        .incarnation_id = life->request.node.incarnation_id,
        .heartbeat_ms = stele_settings_int(settings, "broker.heartbeat.interval.ms"),
        .leave_ms_max = stele_settings_int(settings, "controlled.shutdown.max.wait.ms"),
        .leave_silence_ms_max = LEAVE_SILENCE_MS,
        /* An earlier life's session, another that a new controller gives it, and a little more. */
        .duplicate_ms_max = 3 * stele_settings_int(settings, "broker.session.timeout.ms")};
    life->is_begun = true;
    stele_node_life_init(&life->machine, &of_life, stele_env_mono_ms(env_of(life)));
    stele_life_look_at_directories(life);
    stele_life_look(life);
}

void stele_life_init(struct stele_life *life, struct stele_controller *control)
{
    *life = (struct stele_life){.control = control, .told_err = STELE_OK, .machine.node_epoch = -1, .marked_epoch = -1};
    stele_list_init(&life->calls);
    stele_timer_init(&life->timer, fired);
    stele_timer_init(&life->mark_timer, mark_again);
}

/* NULL: none is left but those whose tasks come. */
static struct life_call *call_to_end(struct stele_life *life)
{
    for (struct stele_list *at = life->calls.next; at != &life->calls; at = at->next) {
        struct life_call *call = STELE_CONTAINER_OF(at, struct life_call, link);
        if (!call->is_answered || life->control->node->is_freeing)
            return call;
    }
    return NULL;
}

void stele_life_end(struct stele_life *life)
{
    life->is_begun = false;
    stele_timer_cancel(life->control->shard->wheel, &life->timer);
    stele_timer_cancel(life->control->shard->wheel, &life->mark_timer);
    for (struct life_call *call = call_to_end(life); call != NULL; call = call_to_end(life)) {
        stele_list_remove(&call->link);
        if (call->peer != NULL)
            stele_link_cancel(&call->peer->control, &call->call); /* others of the connection end in it */
        else
            stele_active_nodes_drop(&call->ask);
        drop_call(call);
    }
}
