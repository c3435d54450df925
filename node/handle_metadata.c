/* Metadata: the call goes to the control shard, is answered from the image there, and comes back. Where a client lets
 * topics be made that it names (auto.create.topics.enable), those that are missing are made first. */
#include "node/node.h"
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/session.h"
#include "node/topic_ops.h"

#include <string.h>

struct metadata {
    struct stele_task task;
    struct stele_server_call *call;
    bool has_no_memory;
    struct auto_make *makes; /* one a topic that was named, or NULL */
    size_t make_count, pending;
};

/* A topic that is made because it was named: by the controller, which may be another node. */
struct auto_make {
    struct stele_topic_make make;
    struct metadata *metadata;
    struct stele_forward_ask ask;
    struct stele_request request;
    struct stele_response response;
};

static bool fill_partitions(struct stele_arena *arena, const struct stele_image_topic *in,
                            struct stele_metadata_topic *out)
{
    struct stele_metadata_partition *partitions =
        stele_arena_array(arena, (size_t)in->partition_count, sizeof(*partitions));
    if (partitions == NULL)
        return false;
    for (int32_t i = 0; i < in->partition_count; i++) {
        const struct stele_partition_state *state = &in->partitions[i].state;
        size_t replica_count = (size_t)state->replicas.count, isr_count = (size_t)state->isr.count;
        /* Copies: the image may change before the answer is packed on its own shard. */
        int32_t *ids = stele_arena_array(arena, replica_count + isr_count, sizeof(*ids));
        if (ids == NULL)
            return false;
        memcpy(ids, state->replicas.ids, replica_count * sizeof(*ids));
        memcpy(ids + replica_count, state->isr.ids, isr_count * sizeof(*ids));
        partitions[i] = (struct stele_metadata_partition){.partition = i,
                                                          .leader_id = state->leader_id,
                                                          .leader_epoch = state->leader_epoch,
                                                          .replicas = ids,
                                                          .replica_count = replica_count,
                                                          .isr = ids + replica_count,
                                                          .isr_count = isr_count};
    }
    out->partitions = partitions;
    out->partition_count = (size_t)in->partition_count;
    return true;
}

static bool fill_topic(struct stele_arena *arena, const struct stele_image_topic *in, struct stele_metadata_topic *out)
{
    *out = (struct stele_metadata_topic){.topic_id = in->topic_id};
    out->name = stele_arena_string(arena, in->name, strlen(in->name));
    return out->name != NULL && fill_partitions(arena, in, out);
}

/* What there is to say of a topic that is missing: why it could not be made. */
static enum stele_err missing_error(const struct metadata *metadata, size_t at)
{
    enum stele_err err = metadata->makes != NULL ? metadata->makes[at].make.error.err : STELE_OK;
    return err == STELE_OK || err == STELE_TOPIC_ALREADY_EXISTS ? STELE_UNKNOWN_TOPIC_OR_PARTITION : err;
}

static bool fill_topics(struct metadata *metadata, const struct stele_image *image)
{
    struct stele_server_call *call = metadata->call;
    const struct stele_metadata_request *request = &call->request.body.metadata;
    struct stele_metadata_response *response = &call->response.body.metadata;
    size_t count = request->all_topics ? (size_t)stele_image_topic_count(image) : request->topic_count, at = 0;
    struct stele_metadata_topic *topics = stele_arena_array(&call->arena, count, sizeof(*topics));
    if (topics == NULL)
        return false;
    if (request->all_topics) {
        for (const struct stele_image_topic *topic = image->by_name; topic != NULL; topic = topic->by_name.next) {
            if (!fill_topic(&call->arena, topic, &topics[at++]))
                return false;
        }
    }
    for (; at < count; at++) {
        const struct stele_image_topic *topic = stele_image_topic_named(image, request->topics[at]);
        if (topic == NULL)
            topics[at] = (struct stele_metadata_topic){.err = missing_error(metadata, at), .name = request->topics[at]};
        else if (!fill_topic(&call->arena, topic, &topics[at]))
            return false;
    }
    response->topics = topics;
    response->topic_count = count;
    return true;
}

/* What a node tells by the listener that the asker came by; NULL: it has none of that name. */
static const struct stele_image_listener *told_by(const struct stele_image_member *member, const char *name)
{
    for (size_t i = 0; i < member->listener_count; i++) {
        if (strcmp(member->listeners[i].name, name) == 0)
            return &member->listeners[i];
    }
    return NULL;
}

/* Those in service. A node that is alone, or does not know of any yet, tells of itself. */
static bool fill_nodes(struct stele_server_call *call, struct stele_metadata_response *response)
{
    const struct stele_node *node = call->shard->node;
    const struct stele_listener *listener = call->session->listener;
    size_t count = 1, at = 0;
    for (const struct stele_image_member *member = node->control.mlog.image.members; member != NULL;
         member = member->next)
        count++;
    struct stele_metadata_node *nodes = stele_arena_array(&call->arena, count, sizeof(*nodes));
    if (nodes == NULL)
        return false;
    for (const struct stele_image_member *member = node->control.mlog.image.members; member != NULL;
         member = member->next) {
        const struct stele_image_listener *told = member->is_fenced ? NULL : told_by(member, listener->name);
        if (told == NULL)
            continue;
        nodes[at] =
            (struct stele_metadata_node){.node_id = member->node_id,
                                         .host = stele_arena_string(&call->arena, told->host, strlen(told->host)),
                                         .port = told->port,
                                         .rack = stele_arena_string(&call->arena, member->rack, strlen(member->rack))};
        if (nodes[at].host == NULL || nodes[at].rack == NULL)
            return false;
        at++;
    }
    if (at == 0)
        nodes[at++] = (struct stele_metadata_node){
            .node_id = node->node_id, .host = listener->told_host, .port = listener->told_port};
    response->nodes = nodes;
    response->node_count = at;
    return true;
}

static bool fill(struct metadata *metadata)
{
    struct stele_server_call *call = metadata->call;
    const struct stele_node *node = call->shard->node;
    struct stele_metadata_response *response = &call->response.body.metadata;
    const struct stele_quorum *quorum = &node->control.mlog.quorum;
    *response = (struct stele_metadata_response){
        .cluster_id = node->cluster_id,
        .controller_id = node->control.peers.shard != NULL ? quorum->election.leader_id : node->node_id};
    return fill_nodes(call, response) && fill_topics(metadata, &node->control.mlog.image);
}

static void metadata_home(struct stele_task *task)
{
    struct metadata *metadata = STELE_CONTAINER_OF(task, struct metadata, task);
    if (metadata->has_no_memory)
        stele_server_call_fail(metadata->call, "memory ran out");
    else
        stele_server_call_done(metadata->call);
}

static void send_home(struct metadata *metadata)
{
    struct stele_server_call *call = metadata->call;
    metadata->has_no_memory = metadata->has_no_memory || !fill(metadata);
    metadata->task.run = metadata_home;
    stele_shard_send(&call->shard->node->shards[STELE_SHARD_CONTROL], call->shard, &metadata->task);
}

/* Missing topics. */

static void one_ended(struct metadata *metadata)
{
    if (--metadata->pending == 0)
        send_home(metadata);
}

static void made(struct stele_topic_make *make)
{
    one_ended(STELE_CONTAINER_OF(make, struct auto_make, make)->metadata);
}

static struct stele_controller *control_of(const struct metadata *metadata)
{
    return &metadata->call->shard->node->control;
}

static void make_here(struct auto_make *one)
{
    one->make.control = control_of(one->metadata);
    stele_topic_make(&one->make);
}

static void asked(struct stele_forward_ask *ask, enum stele_forward_end how)
{
    struct auto_make *one = STELE_CONTAINER_OF(ask, struct auto_make, ask);
    if (how == STELE_FORWARD_HERE) {
        make_here(one);
        return;
    }
    one->make.error.err = how == STELE_FORWARD_NO_MEMORY ? STELE_NO_MEMORY : one->response.body.create_topic.err;
    one_ended(one->metadata);
}

static void make_one(struct auto_make *one)
{
    struct stele_controller *control = control_of(one->metadata);
    if (!control->forward.is_open) {
        make_here(one);
        return;
    }
    one->request = (struct stele_request){
        .header = {.api = STELE_API_CREATE_TOPIC},
        .body.create_topic = {.name = one->make.name, .partition_count = -1, .replication_factor = -1}};
    one->ask = (struct stele_forward_ask){
        .request = &one->request, .response = &one->response, .arena = &one->metadata->call->arena, .done = asked};
    stele_forward_take(&control->forward, &one->ask);
}

static bool may_make(const struct metadata *metadata)
{
    const struct stele_metadata_request *request = &metadata->call->request.body.metadata;
    const struct stele_node *node = metadata->call->shard->node;
    if (!request->allow_auto_topic_creation || request->all_topics || node->control.state != STELE_CONTROLLER_SERVING ||
        !stele_settings_bool(node->settings, "auto.create.topics.enable"))
        return false;
    for (size_t i = 0; i < request->topic_count; i++) {
        if (stele_image_topic_named(&node->control.mlog.image, request->topics[i]) == NULL)
            return true;
    }
    return false;
}

/* Only when the node ends in the middle is anything still held. */
static void release(struct stele_server_call *call)
{
    struct metadata *metadata = call->state;
    for (size_t i = 0; i < metadata->make_count; i++) {
        if (metadata->makes[i].metadata == NULL)
            continue;
        stele_forward_drop(&metadata->makes[i].ask);
        stele_topic_make_drop(&metadata->makes[i].make);
    }
}

static void make_missing(struct metadata *metadata)
{
    struct stele_server_call *call = metadata->call;
    struct stele_controller *control = &call->shard->node->control;
    const struct stele_metadata_request *request = &call->request.body.metadata;
    metadata->makes = stele_arena_array(&call->arena, request->topic_count, sizeof(*metadata->makes));
    if (metadata->makes == NULL) {
        metadata->has_no_memory = true;
        return;
    }
    metadata->make_count = request->topic_count;
    for (size_t i = 0; i < request->topic_count; i++) {
        struct auto_make *one = &metadata->makes[i];
        if (stele_image_topic_named(&control->mlog.image, request->topics[i]) != NULL)
            continue;
        one->metadata = metadata;
        one->make = (struct stele_topic_make){
            .name = request->topics[i], .partition_count = -1, .replication_factor = -1, .done = made};
        metadata->pending++;
        make_one(one);
    }
}

static void metadata_arrived(struct stele_task *task)
{
    struct metadata *metadata = STELE_CONTAINER_OF(task, struct metadata, task);
    metadata->pending = 1; /* this function's own */
    if (may_make(metadata))
        make_missing(metadata);
    one_ended(metadata);
}

void stele_handle_metadata(struct stele_server_call *call)
{
    struct metadata *metadata = stele_arena_alloc(&call->arena, sizeof(*metadata));
    if (metadata == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    metadata->call = call;
    call->state = metadata;
    call->release = release;
    metadata->task.run = metadata_arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &metadata->task);
}
