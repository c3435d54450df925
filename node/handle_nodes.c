/* What nodes ask of the active controller about themselves, and a person about a node: to the control shard, there as
 * node/active_nodes.h says, and back. */
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/session.h"

#include <stdio.h>
#include <string.h>

struct node_call {
    struct stele_task task;
    struct stele_server_call *call;
    struct stele_controller *control;
    struct stele_node_ask ask;
    struct stele_node_request registration;
    int32_t leader_id; /* with NOT_CONTROLLER */
};

/* The connection by which a life of a node heartbeats: when it closes that life may have ended. */

static void life_told(struct stele_task *task)
{
    struct stele_session *session = STELE_CONTAINER_OF(task, struct stele_session, life_task);
    session->is_life_told = false;
    stele_session_unref(session);
}

static void life_closed(struct stele_task *task)
{
    struct stele_session *session = STELE_CONTAINER_OF(task, struct stele_session, life_task);
    struct stele_shard *control = &session->shard->node->shards[STELE_SHARD_CONTROL];
    stele_active_nodes_suspect(&control->node->control.active_nodes, session->life_node_id, session->life_node_epoch,
                               session->life_heard_ms);
    task->run = life_told;
    stele_shard_send(control, session->shard, task);
}

void stele_session_life_closed(struct stele_session *session)
{
    session->refs++;
    session->is_life_told = true;
    session->life_task.run = life_closed;
    stele_shard_send(session->shard, &session->shard->node->shards[STELE_SHARD_CONTROL], &session->life_task);
}

/* There and back. */

static void release(struct stele_server_call *call)
{
    struct node_call *asked = call->state;
    stele_active_nodes_drop(&asked->ask); /* under way only when the node ends in the middle */
}

static struct node_call *node_call_new(struct stele_server_call *call)
{
    struct node_call *asked = stele_arena_alloc(&call->arena, sizeof(*asked));
    if (asked == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return NULL;
    }
    asked->call = call;
    asked->control = &call->shard->node->control;
    asked->leader_id = STELE_NO_NODE;
    asked->ask.message = "";
    call->state = asked;
    call->release = release;
    return asked;
}

static void fill(struct node_call *asked)
{
    const struct stele_node_ask *ask = &asked->ask;
    struct stele_response *response = &asked->call->response;
    switch (ask->kind) {
    case STELE_ASK_REGISTER:
        response->body.register_node = (struct stele_register_node_response){
            .err = ask->err, .message = ask->message, .node_epoch = ask->node_epoch, .leader_id = asked->leader_id};
        break;
    case STELE_ASK_HEARTBEAT:
        response->body.node_heartbeat =
            (struct stele_node_heartbeat_response){.err = ask->err,
                                                   .is_caught_up = ask->verdict.answer_is_caught_up,
                                                   .is_fenced = ask->verdict.answer_is_fenced,
                                                   .should_shutdown = ask->verdict.answer_should_shut_down,
                                                   .leader_id = asked->leader_id};
        break;
    case STELE_ASK_UNREGISTER:
        response->body.unregister_node =
            (struct stele_unregister_node_response){.err = ask->err, .message = ask->message};
        break;
    }
}

static void call_home(struct stele_task *task)
{
    struct node_call *asked = STELE_CONTAINER_OF(task, struct node_call, task);
    fill(asked);
    stele_server_call_done(asked->call);
}

static void go_home(struct node_call *asked)
{
    const struct stele_metadata_log *mlog = &asked->control->mlog;
    if (asked->ask.err == STELE_NOT_CONTROLLER && mlog->is_running)
        asked->leader_id = mlog->quorum.election.leader_id;
    asked->task.run = call_home;
    stele_shard_send(asked->control->shard, asked->call->shard, &asked->task);
}

static void answered(struct stele_node_ask *ask)
{
    go_home(STELE_CONTAINER_OF(ask, struct node_call, ask));
}

static void arrived(struct stele_task *task)
{
    struct node_call *asked = STELE_CONTAINER_OF(task, struct node_call, task);
    asked->ask.done = answered;
    if (asked->ask.kind == STELE_ASK_HEARTBEAT)
        asked->call->session->life_heard_ms = stele_env_mono_ms(asked->control->shard->env);
    stele_active_nodes_ask(&asked->control->active_nodes, &asked->ask);
}

static void go_there(struct node_call *asked)
{
    asked->task.run = arrived;
    stele_shard_send(asked->call->shard, asked->control->shard, &asked->task);
}

static void refuse(struct node_call *asked, const char *why)
{
    asked->ask.err = STELE_INVALID_REGISTRATION;
    asked->ask.message = why;
    asked->ask.node_epoch = -1;
    fill(asked);
    stele_server_call_done(asked->call);
}

/* Requests as the controller has them. */

static bool copy_text(char *to, size_t bytes, const char *from)
{
    int count = snprintf(to, bytes, "%s", from);
    return count >= 0 && (size_t)count < bytes;
}

static bool take_listeners(const struct stele_register_node_request *from, struct stele_node_registration *node)
{
    if (from->listener_count > STELE_NODE_LISTENERS_MAX)
        return false;
    for (size_t i = 0; i < from->listener_count; i++) {
        struct stele_node_listener *listener = &node->listeners[i];
        if (!copy_text(listener->name, sizeof(listener->name), from->listeners[i].name) ||
            !copy_text(listener->host, sizeof(listener->host), from->listeners[i].host))
            return false;
        listener->port = from->listeners[i].port;
    }
    node->listener_count = (int32_t)from->listener_count;
    return true;
}

static bool take_registration(const struct stele_register_node_request *from, struct stele_node_request *out)
{
    struct stele_node_registration *node = &out->node;
    *out = (struct stele_node_request){.previous_epoch = from->previous_node_epoch};
    if (stele_uuid_parse(from->cluster_id, strlen(from->cluster_id), &out->cluster_id) != STELE_OK)
        out->cluster_id = (struct stele_uuid){.bytes = {0}};
    node->node_id = from->node_id;
    node->incarnation_id = from->incarnation_id;
    node->boot_id = from->boot_id;
    node->feature_min = from->level_min;
    node->feature_max = from->level_max;
    if (from->directory_count > STELE_NODE_DIRECTORIES_MAX || !take_listeners(from, node) ||
        !copy_text(node->rack, sizeof(node->rack), from->rack) ||
        !copy_text(node->version, sizeof(node->version), from->software_version))
        return false;
    for (size_t i = 0; i < from->directory_count; i++) {
        node->directories[i] = from->directories[i].directory_id;
        out->served_epochs[i] = from->directories[i].served_epoch;
    }
    node->directory_count = (int32_t)from->directory_count;
    return true;
}

static bool is_of_peer(struct stele_server_call *call)
{
    if (call->session->listener->is_peer)
        return true;
    stele_server_call_fail(call, "a request between nodes, on a listener that is not theirs");
    return false;
}

void stele_handle_register_node(struct stele_server_call *call)
{
    struct node_call *asked = is_of_peer(call) ? node_call_new(call) : NULL;
    if (asked == NULL)
        return;
    asked->ask.kind = STELE_ASK_REGISTER;
    asked->ask.registration = &asked->registration;
    if (take_registration(&call->request.body.register_node, &asked->registration))
        go_there(asked);
    else
        refuse(asked, "a name in it is too long, or it has too many listeners or log directories");
}

void stele_handle_node_heartbeat(struct stele_server_call *call)
{
    const struct stele_node_heartbeat_request *request = &call->request.body.node_heartbeat;
    struct node_call *asked = is_of_peer(call) ? node_call_new(call) : NULL;
    if (asked == NULL)
        return;
    struct stele_node_ask *ask = &asked->ask;
    call->session->life_node_id = request->node_id;
    call->session->life_node_epoch = request->node_epoch;
    ask->kind = STELE_ASK_HEARTBEAT;
    ask->heartbeat = (struct stele_heartbeat){.node_id = request->node_id,
                                              .node_epoch = request->node_epoch,
                                              .metadata_offset = request->metadata_offset,
                                              .wants_fence = request->wants_fence,
                                              .wants_shutdown = request->wants_shutdown};
    /* More than a node may have are none of its. */
    for (size_t i = 0; i < request->offline_directory_count && i < STELE_NODE_DIRECTORIES_MAX; i++)
        ask->offline[ask->offline_count++] = request->offline_directories[i].directory_id;
    go_there(asked);
}

void stele_handle_unregister_node(struct stele_server_call *call)
{
    struct node_call *asked = node_call_new(call);
    if (asked == NULL)
        return;
    asked->ask.kind = STELE_ASK_UNREGISTER;
    asked->ask.node_id = call->request.body.unregister_node.node_id;
    go_there(asked);
}
