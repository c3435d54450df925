/* Metadata: the call goes to the control shard, is answered from the image there, and comes back. */
#include "node/node.h"
#include "node/node_struct.h"
#include "node/server_call.h"

#include <string.h>

struct metadata {
    struct stele_task task;
    struct stele_server_call *call;
    bool has_no_memory;
};

static bool fill_partitions(struct stele_arena *arena, const struct stele_image_topic *in,
                            struct stele_metadata_topic *out)
{
    struct stele_metadata_partition *partitions =
        stele_arena_array(arena, (size_t)in->partition_count, sizeof(*partitions));
    if (partitions == NULL)
        return false;
    for (int32_t i = 0; i < in->partition_count; i++) {
        const struct stele_image_partition *partition = &in->partitions[i];
        /* Copies: the image may change before the answer is packed on its own shard. */
        int32_t *ids = stele_arena_array(arena, partition->replica_count + partition->isr_count, sizeof(*ids));
        if (ids == NULL)
            return false;
        if (partition->replica_count > 0)
            memcpy(ids, partition->replicas, partition->replica_count * sizeof(*ids));
        if (partition->isr_count > 0)
            memcpy(ids + partition->replica_count, partition->isr, partition->isr_count * sizeof(*ids));
        partitions[i] = (struct stele_metadata_partition){.partition = i,
                                                          .leader_id = partition->leader_id,
                                                          .leader_epoch = partition->leader_epoch,
                                                          .replicas = ids,
                                                          .replica_count = partition->replica_count,
                                                          .isr = ids + partition->replica_count,
                                                          .isr_count = partition->isr_count};
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

static bool fill_topics(struct stele_server_call *call, const struct stele_image *image)
{
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
            topics[at] =
                (struct stele_metadata_topic){.err = STELE_UNKNOWN_TOPIC_OR_PARTITION, .name = request->topics[at]};
        else if (!fill_topic(&call->arena, topic, &topics[at]))
            return false;
    }
    response->topics = topics;
    response->topic_count = count;
    return true;
}

static bool fill(struct stele_server_call *call)
{
    const struct stele_node *node = call->shard->node;
    struct stele_metadata_response *response = &call->response.body.metadata;
    struct stele_metadata_node *self = stele_arena_alloc(&call->arena, sizeof(*self));
    if (self == NULL)
        return false;
    *self = (struct stele_metadata_node){.node_id = node->node_id, .host = node->host, .port = node->port};
    *response = (struct stele_metadata_response){
        .cluster_id = node->cluster_id, .controller_id = node->node_id, .nodes = self, .node_count = 1};
    return fill_topics(call, &node->control.mlog.image);
}

static void metadata_home(struct stele_task *task)
{
    struct metadata *metadata = STELE_CONTAINER_OF(task, struct metadata, task);
    if (metadata->has_no_memory)
        stele_server_call_fail(metadata->call, "memory ran out");
    else
        stele_server_call_done(metadata->call);
}

static void metadata_arrived(struct stele_task *task)
{
    struct metadata *metadata = STELE_CONTAINER_OF(task, struct metadata, task);
    struct stele_server_call *call = metadata->call;
    metadata->has_no_memory = !fill(call);
    task->run = metadata_home;
    stele_shard_send(&call->shard->node->shards[STELE_SHARD_CONTROL], call->shard, task);
}

void stele_handle_metadata(struct stele_server_call *call)
{
    struct metadata *metadata = stele_arena_alloc(&call->arena, sizeof(*metadata));
    if (metadata == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    metadata->call = call;
    metadata->task.run = metadata_arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &metadata->task);
}
