/* The nodes of the cluster, as this node's image has them or as the active controller knows them. */
#include "node/node_struct.h"
#include "node/server_call.h"

#include <string.h>

struct described {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_controller *control;
    bool has_no_memory;
};

static void home(struct stele_task *task)
{
    struct described *described = STELE_CONTAINER_OF(task, struct described, task);
    if (described->has_no_memory)
        stele_server_call_fail(described->call, "memory ran out");
    else
        stele_server_call_done(described->call);
}

static const char *copy(struct described *described, const char *text)
{
    const char *kept = stele_arena_string(&described->call->arena, text, strlen(text));
    described->has_no_memory = described->has_no_memory || kept == NULL;
    return kept != NULL ? kept : "";
}

static void *array(struct described *described, size_t count, size_t bytes)
{
    void *items = stele_arena_array(&described->call->arena, count, bytes);
    described->has_no_memory = described->has_no_memory || items == NULL;
    return items;
}

static void fill_member(struct described *described, const struct stele_image_member *member,
                        struct stele_described_node *out)
{
    const struct stele_active *active = &described->control->active;
    bool is_local = described->call->request.body.describe_cluster.is_local;
    int64_t contact_ms =
        active->is_active && !is_local ? stele_registry_contact_ms(&active->registry, member->node_id) : -1;
    struct stele_listener_address *listeners = array(described, member->listener_count, sizeof(*listeners));
    struct stele_node_directory_id *directories = array(described, member->directory_count, sizeof(*directories));
    for (size_t i = 0; i < member->listener_count && listeners != NULL; i++)
        listeners[i] = (struct stele_listener_address){.name = copy(described, member->listeners[i].name),
                                                       .host = copy(described, member->listeners[i].host),
                                                       .port = member->listeners[i].port};
    for (size_t i = 0; i < member->directory_count && directories != NULL; i++)
        directories[i].directory_id = member->directories[i];
    *out = (struct stele_described_node){
        .node_id = member->node_id,
        .node_epoch = member->node_epoch,
        .rack = copy(described, member->rack),
        .listeners = listeners,
        .listener_count = member->listener_count,
        .directories = directories,
        .directory_count = member->directory_count,
        .is_fenced = member->is_fenced,
        .is_shutting_down = member->is_shutting_down,
        .last_contact_ms = contact_ms < 0 ? -1 : stele_env_mono_ms(described->control->shard->env) - contact_ms,
        .software_version = copy(described, member->software_version)};
}

/* A node that is alone is not registered. */
static void fill_self(struct described *described, struct stele_described_node *out)
{
    const struct stele_node *node = described->control->node;
    struct stele_listener_address *listeners = array(described, (size_t)node->listeners.count, sizeof(*listeners));
    for (int i = 0; i < node->listeners.count && listeners != NULL; i++)
        listeners[i] = (struct stele_listener_address){.name = node->listeners.items[i].name,
                                                       .host = node->listeners.items[i].told_host,
                                                       .port = node->listeners.items[i].told_port};
    *out = (struct stele_described_node){.node_id = node->node_id,
                                         .node_epoch = -1,
                                         .rack = "",
                                         .listeners = listeners,
                                         .listener_count = (size_t)node->listeners.count,
                                         .software_version = STELE_VERSION};
}

static void fill_nodes(struct described *described, struct stele_describe_cluster_response *response)
{
    const struct stele_image *image = &described->control->mlog.image;
    bool is_alone = described->control->peers.shard == NULL;
    size_t count = is_alone ? 1 : 0, at = 0;
    for (const struct stele_image_member *member = image->members; member != NULL; member = member->next)
        count++;
    struct stele_described_node *nodes = array(described, count, sizeof(*nodes));
    if (nodes == NULL)
        return;
    if (is_alone)
        fill_self(described, &nodes[at++]);
    for (const struct stele_image_member *member = image->members; member != NULL; member = member->next)
        fill_member(described, member, &nodes[at++]);
    response->nodes = nodes;
    response->node_count = count;
}

static void arrived(struct stele_task *task)
{
    struct described *described = STELE_CONTAINER_OF(task, struct described, task);
    struct stele_server_call *call = described->call;
    struct stele_controller *control = described->control;
    const struct stele_metadata_log *mlog = &control->mlog;
    struct stele_describe_cluster_response *response = &call->response.body.describe_cluster;
    *response = (struct stele_describe_cluster_response){.message = "",
                                                         .cluster_id = control->node->cluster_id,
                                                         .controller_id = mlog->quorum.election.leader_id,
                                                         .level = mlog->image.level,
                                                         .metadata_offset = mlog->applied_offset};
    if (!call->request.body.describe_cluster.is_local && !control->active.is_active) {
        response->err = STELE_NOT_CONTROLLER;
        response->message = "this node is not the controller: ask the one that is, or locally";
    }
    fill_nodes(described, response);
    described->task.run = home;
    stele_shard_send(control->shard, call->shard, &described->task);
}

void stele_handle_describe_cluster(struct stele_server_call *call)
{
    struct described *described = stele_arena_alloc(&call->arena, sizeof(*described));
    if (described == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    described->call = call;
    described->control = &call->shard->node->control;
    described->task.run = arrived;
    stele_shard_send(call->shard, described->control->shard, &described->task);
}
