#include "node/log_inquiry.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

enum { ARENA_BYTES_MAX = 16 << 20 };

/* One node. Its partitions are those of the inquiry that have it among their nodes, in their order. */
struct node_ask {
    struct stele_list link;
    struct stele_log_inquiry *inquiry;
    int32_t node_id;
    int64_t node_epoch;
    bool is_pending;
    struct stele_peer *peer; /* NULL: this node itself */
    struct stele_call call;

    /* this node itself: one partition after the other */
    size_t next;
    struct stele_arena arena; /* of the one at hand */
    struct stele_described_log described;
    struct stele_describe_op describe;
};

static struct stele_asked_log *log_of(struct stele_asked_partition *partition, int32_t node_id)
{
    for (int32_t i = 0; i < partition->nodes.count; i++) {
        if (partition->nodes.ids[i] == node_id)
            return &partition->logs[i];
    }
    return NULL;
}

static void finish_one(struct stele_log_inquiry *inquiry)
{
    if (--inquiry->pending == 0)
        inquiry->done(inquiry);
}

static void ask_ended(struct node_ask *ask)
{
    ask->is_pending = false;
    stele_list_remove(&ask->link);
    finish_one(ask->inquiry);
}

static void take(struct node_ask *ask, struct stele_asked_log *log, const struct stele_described_log *described)
{
    struct stele_log_inquiry *inquiry = ask->inquiry;
    if (described->err != STELE_OK)
        return;
    struct stele_epoch_entry *entries = stele_arena_array(inquiry->arena, described->epoch_count, sizeof(*entries));
    if (entries == NULL && described->epoch_count > 0) {
        inquiry->has_no_memory = true;
        return;
    }
    for (size_t i = 0; i < described->epoch_count; i++)
        entries[i] = (struct stele_epoch_entry){.epoch = described->epochs[i].epoch,
                                                .start_offset = described->epochs[i].start_offset};
    *log = (struct stele_asked_log){.is_there = true,
                                    .node_epoch = ask->node_epoch,
                                    .start_offset = described->log_start_offset,
                                    .end_offset = described->log_end_offset,
                                    .high_watermark = described->high_watermark,
                                    .epochs = {.entries = entries, .count = (int)described->epoch_count}};
}

/* Another node. */

static void take_all(struct node_ask *ask, const struct stele_describe_log_response *response)
{
    struct stele_log_inquiry *inquiry = ask->inquiry;
    size_t at = 0;
    for (size_t i = 0; i < inquiry->count && at < response->log_count; i++) {
        struct stele_asked_partition *partition = &inquiry->partitions[i];
        struct stele_asked_log *log = log_of(partition, ask->node_id);
        if (log == NULL)
            continue;
        const struct stele_described_log *described = &response->logs[at++];
        if (described->partition == partition->number && stele_uuid_equal(&described->topic_id, &partition->topic_id))
            take(ask, log, described);
    }
}

static void call_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct node_ask *ask = STELE_CONTAINER_OF(call, struct node_ask, call);
    if (err == STELE_OK)
        take_all(ask, &answer->response->body.describe_log);
    ask_ended(ask);
}

static enum stele_err call_peer(struct node_ask *ask)
{
    struct stele_log_inquiry *inquiry = ask->inquiry;
    struct stele_describe_log_partition *partitions =
        stele_arena_array(inquiry->arena, inquiry->count, sizeof(*partitions));
    size_t count = 0;
    if (partitions == NULL)
        return STELE_NO_MEMORY;
    for (size_t i = 0; i < inquiry->count; i++) {
        if (log_of(&inquiry->partitions[i], ask->node_id) != NULL)
            partitions[count++] = (struct stele_describe_log_partition){.topic_id = inquiry->partitions[i].topic_id,
                                                                        .partition = inquiry->partitions[i].number};
    }
    struct stele_request request = {
        .header = {.api = STELE_API_DESCRIBE_LOG},
        .body.describe_log = {.partitions = partitions, .partition_count = count, .with_epochs = true}};
    ask->call.done = call_done;
    return stele_peers_call(ask->peer, &ask->call, &request);
}

/* This node itself. */

static void look_at_next(struct node_ask *ask);

static void described(struct stele_op *op)
{
    struct node_ask *ask = STELE_CONTAINER_OF(op, struct node_ask, describe.op);
    ask->described.err = op->err;
    take(ask, log_of(&ask->inquiry->partitions[ask->next++], ask->node_id), &ask->described);
    stele_arena_deinit(&ask->arena);
    look_at_next(ask);
}

static void look_at_next(struct node_ask *ask)
{
    struct stele_log_inquiry *inquiry = ask->inquiry;
    struct stele_shard *shard = inquiry->control->shard;
    while (ask->next < inquiry->count && log_of(&inquiry->partitions[ask->next], ask->node_id) == NULL)
        ask->next++;
    if (ask->next == inquiry->count) {
        ask_ended(ask);
        return;
    }
    stele_arena_init(&ask->arena, shard->env->mem, STELE_MEM_REQUEST, ARENA_BYTES_MAX);
    ask->described = (struct stele_described_log){.message = ""};
    ask->describe = (struct stele_describe_op){.op = {.home = shard,
                                                      .origin = ask,
                                                      .topic_id = inquiry->partitions[ask->next].topic_id,
                                                      .number = inquiry->partitions[ask->next].number,
                                                      .leader_epoch = -1,
                                                      .is_for_any_state = true,
                                                      .run = stele_partition_describe,
                                                      .done = described},
                                               .arena = &ask->arena,
                                               .with_epochs = true,
                                               .out = &ask->described};
    stele_op_submit(&ask->describe.op);
}

/* All of them. */

static bool is_asked_anything(const struct stele_log_inquiry *inquiry, int32_t node_id)
{
    for (size_t i = 0; i < inquiry->count; i++) {
        if (log_of(&inquiry->partitions[i], node_id) != NULL)
            return true;
    }
    return false;
}

static void ask_node(struct stele_log_inquiry *inquiry, const struct stele_node_registration *node)
{
    struct stele_controller *control = inquiry->control;
    bool is_self = node->node_id == control->node->node_id;
    struct node_ask *ask = stele_arena_alloc(inquiry->arena, sizeof(*ask));
    if (ask == NULL) {
        inquiry->has_no_memory = true;
        return;
    }
    *ask = (struct node_ask){.inquiry = inquiry,
                             .node_id = node->node_id,
                             .node_epoch = node->node_epoch,
                             .peer = is_self ? NULL : stele_peers_find(&control->peers, node->node_id)};
    stele_list_init(&ask->link);
    if (!is_self && (ask->peer == NULL || call_peer(ask) != STELE_OK))
        return; /* as one that does not answer */
    ask->is_pending = true;
    inquiry->pending++;
    stele_list_push(&inquiry->asks, &ask->link);
    if (is_self)
        look_at_next(ask);
}

void stele_log_inquiry_begin(struct stele_log_inquiry *inquiry)
{
    const struct stele_registry *registry = &inquiry->control->active.registry;
    stele_list_init(&inquiry->asks);
    inquiry->pending = 1; /* this function's own */
    for (int32_t i = 0; i < registry->count; i++) {
        const struct stele_node_registration *node = stele_registry_at(registry, i);
        if (stele_registry_is_active_node(registry, node->node_id) && is_asked_anything(inquiry, node->node_id))
            ask_node(inquiry, node);
    }
    finish_one(inquiry);
}

void stele_log_inquiry_drop(struct stele_log_inquiry *inquiry)
{
    while (inquiry->asks.next != NULL && !stele_list_is_empty(&inquiry->asks)) {
        struct node_ask *ask = STELE_CONTAINER_OF(inquiry->asks.next, struct node_ask, link);
        stele_list_remove(&ask->link);
        if (ask->peer != NULL) {
            stele_link_cancel(&ask->peer->control, &ask->call);
        } else {
            stele_log_explain_drop(&ask->describe.explain);
            stele_arena_deinit(&ask->arena);
        }
    }
}
