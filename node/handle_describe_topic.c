/* Describe topic: the call goes to the control shard, is answered from the image there, and comes back. */
#include "node/node.h"
#include "node/node_struct.h"
#include "node/server_call.h"

#include <string.h>

struct describe {
    struct stele_task task;
    struct stele_server_call *call;
    bool has_no_memory;
};

/* Everything is copied: the image may change before the answer is packed on its own shard. */
static bool copy_set(struct stele_arena *arena, const struct stele_node_set *set, const int32_t **out_ids,
                     size_t *out_count)
{
    int32_t *copy = stele_arena_array(arena, (size_t)set->count, sizeof(*copy));
    if (copy == NULL)
        return false;
    memcpy(copy, set->ids, (size_t)set->count * sizeof(*copy));
    *out_ids = copy;
    *out_count = (size_t)set->count;
    return true;
}

static bool fill_partition(struct stele_arena *arena, const struct stele_partition_state *state,
                           struct stele_described_partition *out)
{
    out->leader_id = state->leader_id;
    out->leader_epoch = state->leader_epoch;
    out->partition_epoch = state->partition_epoch;
    out->is_recovering = state->is_recovering;
    return copy_set(arena, &state->replicas, &out->replicas, &out->replica_count) &&
           copy_set(arena, &state->isr, &out->isr, &out->isr_count) &&
           copy_set(arena, &state->elr, &out->elr, &out->elr_count) &&
           copy_set(arena, &state->last_known_elr, &out->last_known_elr, &out->last_known_elr_count) &&
           copy_set(arena, &state->adding, &out->adding, &out->adding_count) &&
           copy_set(arena, &state->removing, &out->removing, &out->removing_count) &&
           copy_set(arena, &state->offline, &out->offline, &out->offline_count);
}

static bool fill_partitions(struct stele_arena *arena, const struct stele_image_topic *in,
                            struct stele_described_topic *out)
{
    struct stele_described_partition *partitions =
        stele_arena_array(arena, (size_t)in->partition_count, sizeof(*partitions));
    if (partitions == NULL)
        return false;
    for (int32_t i = 0; i < in->partition_count; i++) {
        partitions[i] = (struct stele_described_partition){.partition = i};
        if (!fill_partition(arena, &in->partitions[i].state, &partitions[i]))
            return false;
    }
    out->partitions = partitions;
    out->partition_count = (size_t)in->partition_count;
    return true;
}

static bool fill_settings(struct stele_arena *arena, const struct stele_image_settings *in,
                          struct stele_described_topic *out)
{
    struct stele_setting_pair *settings = stele_arena_array(arena, (size_t)in->count, sizeof(*settings));
    if (settings == NULL)
        return false;
    for (int i = 0; i < in->count; i++) {
        settings[i].name = stele_arena_string(arena, in->names[i], strlen(in->names[i]));
        settings[i].value = stele_arena_string(arena, in->values[i], strlen(in->values[i]));
        if (settings[i].name == NULL || settings[i].value == NULL)
            return false;
    }
    out->settings = settings;
    out->setting_count = (size_t)in->count;
    return true;
}

static bool fill_topic(struct stele_arena *arena, const struct stele_image_topic *in, struct stele_described_topic *out)
{
    *out = (struct stele_described_topic){.topic_id = in->topic_id};
    out->name = stele_arena_string(arena, in->name, strlen(in->name));
    return out->name != NULL && fill_partitions(arena, in, out) && fill_settings(arena, &in->settings, out);
}

static bool fill(struct stele_server_call *call, const struct stele_image *image)
{
    const struct stele_describe_topic_request *request = &call->request.body.describe_topic;
    size_t count = request->all_topics ? (size_t)stele_image_topic_count(image) : request->topic_count, at = 0;
    struct stele_described_topic *topics = stele_arena_array(&call->arena, count, sizeof(*topics));
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
                (struct stele_described_topic){.err = STELE_UNKNOWN_TOPIC_OR_PARTITION, .name = request->topics[at]};
        else if (!fill_topic(&call->arena, topic, &topics[at]))
            return false;
    }
    call->response.body.describe_topic = (struct stele_describe_topic_response){.topics = topics, .topic_count = count};
    return true;
}

static void home(struct stele_task *task)
{
    struct describe *describe = STELE_CONTAINER_OF(task, struct describe, task);
    if (describe->has_no_memory)
        stele_server_call_fail(describe->call, "memory ran out");
    else
        stele_server_call_done(describe->call);
}

static void arrived(struct stele_task *task)
{
    struct describe *describe = STELE_CONTAINER_OF(task, struct describe, task);
    struct stele_server_call *call = describe->call;
    describe->has_no_memory = !fill(call, &call->shard->node->control.mlog.image);
    task->run = home;
    stele_shard_send(&call->shard->node->shards[STELE_SHARD_CONTROL], call->shard, task);
}

void stele_handle_describe_topic(struct stele_server_call *call)
{
    struct describe *describe = stele_arena_alloc(&call->arena, sizeof(*describe));
    if (describe == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    describe->call = call;
    describe->task.run = arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &describe->task);
}
