/* ALTER_PARTITION (facts 4.8): checked and worked out in a turn, so that the answer leaves when all that it rests on is
 * committed. */
#include "node/active_partitions.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/server_call.h"
#include "node/session.h"
#include "replication/alter_partition.h"

#include <string.h>

static struct stele_partition_alter *alter_of(struct stele_active_turn *turn)
{
    return STELE_CONTAINER_OF(turn, struct stele_partition_alter, turn);
}

struct stele_image_partition *stele_image_partition_of(const struct stele_image_topic *topic, int32_t number)
{
    bool is_there = topic != NULL && number >= 0 && number < topic->partition_count;
    return is_there && topic->partitions[number].is_known ? &topic->partitions[number] : NULL;
}

static enum stele_err answer_of(struct stele_partition_alter *alter, const struct stele_partition_answer *answer,
                                struct stele_alter_partition_result *result)
{
    int32_t *isr = stele_arena_array(alter->arena, (size_t)answer->isr.count, sizeof(*isr));
    if (isr == NULL && answer->isr.count > 0)
        return STELE_NO_MEMORY;
    for (int32_t i = 0; i < answer->isr.count; i++)
        isr[i] = answer->isr.ids[i];
    result->leader_id = answer->leader_id;
    result->leader_epoch = answer->leader_epoch;
    result->partition_epoch = answer->partition_epoch;
    result->isr = isr;
    result->isr_count = (size_t)answer->isr.count;
    result->is_recovering = answer->is_recovering;
    result->min_isr = answer->min_isr;
    return STELE_OK;
}

static enum stele_err change_one(struct stele_partition_alter *alter, const struct stele_image_topic *topic,
                                 struct stele_image_partition *partition, const struct stele_altered_partition *asked,
                                 struct stele_alter_partition_result *result)
{
    struct stele_isr_candidate isr[STELE_REPLICAS_MAX];
    struct stele_alter_partition request = {.sender_id = alter->request->node_id,
                                            .leader_epoch = asked->leader_epoch,
                                            .partition_epoch = asked->partition_epoch,
                                            .isr = isr,
                                            .damaged = asked->damaged,
                                            .is_recovering = asked->is_recovering,
                                            .is_synced = asked->is_synced};
    struct stele_partition_view view;
    struct stele_partition_outcome outcome;
    struct stele_partition_answer answer;
    if (asked->isr_count > STELE_REPLICAS_MAX || asked->damaged_count > STELE_REPLICAS_MAX ||
        partition->is_in_turn) { /* named twice: the second rests on what the first changes */
        result->err = STELE_INVALID_REQUEST;
        return STELE_OK;
    }
    for (size_t i = 0; i < asked->isr_count; i++)
        isr[i] = (struct stele_isr_candidate){.node_id = asked->isr[i].node_id, .node_epoch = asked->isr[i].node_epoch};
    request.isr_count = (int32_t)asked->isr_count;
    request.damaged_count = (int32_t)asked->damaged_count;
    stele_active_view(alter->turn.active, topic, &partition->state, NULL, NULL, &view);
    result->err = stele_alter_partition(&partition->state, &request, &view, &outcome);
    if (result->err != STELE_OK && result->err != STELE_NEW_LEADER_ELECTED)
        return STELE_OK;
    if (outcome.changed != 0) {
        enum stele_err err =
            stele_active_add_partition(&alter->turn, &topic->topic_id, asked->partition, &outcome.next);
        if (err != STELE_OK)
            return err;
        partition->is_in_turn = true;
    }
    stele_alter_partition_answer(&outcome.next, view.min_isr, &answer);
    return answer_of(alter, &answer, result);
}

/* A replica that failed: it leaves the ISR and the ELR, and leads no more. The node reports it until it sees it in its
 * image, so what is passed over here comes again. */
static enum stele_err take_offline(struct stele_partition_alter *alter, const struct stele_offline_replica *failed)
{
    const struct stele_image *image = &alter->turn.active->control->mlog.image;
    const struct stele_image_topic *topic = stele_image_topic_of(image, &failed->topic_id);
    struct stele_image_partition *partition = stele_image_partition_of(topic, failed->partition);
    struct stele_partition_change change = {.offline = {.ids = {alter->request->node_id}, .count = 1}};
    struct stele_partition_outcome outcome;
    if (partition == NULL || partition->is_in_turn)
        return STELE_OK;
    enum stele_err err = stele_active_change(&alter->turn, topic, failed->partition, &change, NULL, &outcome);
    partition->is_in_turn = err == STELE_OK && outcome.changed != 0;
    return err;
}

/* Whether others are there that have everything, so that who is damaged may go from among them. */
static bool may_go(const struct stele_partition_state *state, const struct stele_partition_view *view, int32_t node_id)
{
    for (int32_t i = 0; i < state->isr.count; i++) {
        if (state->isr.ids[i] != node_id && stele_partition_view_accepts(view, state->isr.ids[i]))
            return stele_node_set_has(&state->isr, node_id) || stele_node_set_has(&state->elr, node_id);
    }
    return false;
}

/* A replica in which committed records are damaged: it leaves the ISR and the ELR, and leads no more, until they are
 * repaired and it is in sync again. The last one that has everything stays what it is. */
static enum stele_err take_damaged(struct stele_partition_alter *alter, const struct stele_offline_replica *damaged)
{
    const struct stele_image *image = &alter->turn.active->control->mlog.image;
    const struct stele_image_topic *topic = stele_image_topic_of(image, &damaged->topic_id);
    struct stele_image_partition *partition = stele_image_partition_of(topic, damaged->partition);
    struct stele_partition_change change = {.lost_tail = {.ids = {alter->request->node_id}, .count = 1}};
    struct stele_partition_outcome outcome;
    struct stele_partition_view view;
    if (partition == NULL || partition->is_in_turn)
        return STELE_OK;
    stele_active_view(alter->turn.active, topic, &partition->state, NULL, NULL, &view);
    if (!may_go(&partition->state, &view, alter->request->node_id))
        return STELE_OK;
    enum stele_err err = stele_active_change(&alter->turn, topic, damaged->partition, &change, NULL, &outcome);
    partition->is_in_turn = err == STELE_OK && outcome.changed != 0;
    return err;
}

enum stele_err stele_active_settle(struct stele_active_turn *turn, const struct stele_image_topic *topic,
                                   const struct stele_topic_settled *settled)
{
    const struct stele_partition_change change = {.unclean_leader_id = STELE_NO_NODE,
                                                  .is_unsynced = settled->is_unsynced};
    enum stele_err err = STELE_OK;
    for (int32_t number = 0; number < topic->partition_count && err == STELE_OK; number++) {
        const struct stele_partition_state *state = &topic->partitions[number].state;
        struct stele_partition_outcome outcome;
        struct stele_partition_view view;
        if (!topic->partitions[number].is_known ||
            (!settled->is_unsynced && state->elr.count + state->last_known_elr.count == 0))
            continue;
        stele_active_view(turn->active, topic, state, NULL, NULL, &view);
        view.min_isr = settled->min_isr;
        err = stele_partition_change(state, &change, &view, &outcome);
        if (err == STELE_OK && outcome.changed != 0)
            err = stele_active_add_partition(turn, &topic->topic_id, number, &outcome.next);
    }
    return err;
}

void stele_active_unmark(struct stele_active_turn *turn)
{
    const struct stele_image *image = &turn->active->control->mlog.image;
    for (int i = 0; i < turn->count; i++) {
        const struct stele_metadata_record *record = &turn->records[i];
        struct stele_image_partition *partition =
            record->kind != STELE_METADATA_PARTITION
                ? NULL
                : stele_image_partition_of(stele_image_topic_of(image, &record->u.partition.topic_id),
                                           record->u.partition.partition);
        if (partition != NULL)
            partition->is_in_turn = false;
    }
}

static enum stele_err change_all(struct stele_partition_alter *alter, struct stele_alter_partition_result *results)
{
    const struct stele_alter_partition_request *request = alter->request;
    const struct stele_image *image = &alter->turn.active->control->mlog.image;
    enum stele_err err = STELE_OK;
    for (size_t i = 0; i < request->offline_count && err == STELE_OK; i++)
        err = take_offline(alter, &request->offline[i]);
    for (size_t i = 0; i < request->damaged_count && err == STELE_OK; i++)
        err = take_damaged(alter, &request->damaged[i]);
    for (size_t i = 0; i < request->partition_count && err == STELE_OK; i++) {
        const struct stele_altered_partition *asked = &request->partitions[i];
        const struct stele_image_topic *topic = stele_image_topic_of(image, &asked->topic_id);
        struct stele_image_partition *partition = stele_image_partition_of(topic, asked->partition);
        results[i] = (struct stele_alter_partition_result){.topic_id = asked->topic_id,
                                                           .partition = asked->partition,
                                                           .leader_id = STELE_NO_NODE,
                                                           .leader_epoch = -1,
                                                           .partition_epoch = -1};
        if (partition == NULL)
            results[i].err = topic == NULL ? STELE_UNKNOWN_TOPIC_ID : STELE_UNKNOWN_TOPIC_OR_PARTITION;
        else
            err = change_one(alter, topic, partition, asked, &results[i]);
    }
    stele_active_unmark(&alter->turn);
    return err;
}

/* Errors: as of the whole request. Its sender may have begun another life since it came. */
static enum stele_err work_out(struct stele_partition_alter *alter)
{
    const struct stele_alter_partition_request *request = alter->request;
    const struct stele_active *active = alter->turn.active;
    const struct stele_node_registration *sender = stele_registry_find(&active->registry, request->node_id);
    if (alter->response.err != STELE_OK)
        return alter->response.err;
    if (!alter->is_admitted || alter->quorum_epoch != active->epoch)
        return STELE_NOT_CONTROLLER;
    if (sender == NULL || sender->node_epoch != request->node_epoch)
        return STELE_STALE_BROKER_EPOCH;
    struct stele_alter_partition_result *results =
        stele_arena_array(alter->arena, request->partition_count, sizeof(*results));
    if (results == NULL && request->partition_count > 0)
        return STELE_NO_MEMORY;
    alter->response.results = results;
    alter->response.result_count = request->partition_count;
    return change_all(alter, results);
}

static void refuse(struct stele_partition_alter *alter, enum stele_err err, int32_t leader_id)
{
    alter->response = (struct stele_alter_partition_response){.err = err, .leader_id = leader_id};
}

static void begin(struct stele_active_turn *turn)
{
    struct stele_partition_alter *alter = alter_of(turn);
    enum stele_err err = work_out(alter);
    if (err != STELE_OK) {
        turn->count = 0; /* nothing is written of a request that is refused */
        refuse(alter, err, turn->active->control->node->node_id);
    }
    stele_active_write(turn);
}

static void done(struct stele_active_turn *turn, enum stele_err err)
{
    struct stele_partition_alter *alter = alter_of(turn);
    if (err != STELE_OK)
        refuse(alter, err, alter->response.leader_id);
    alter->done(alter);
}

void stele_partition_alter_take(struct stele_active *active, struct stele_partition_alter *alter)
{
    const struct stele_alter_partition_request *request = alter->request;
    alter->response =
        (struct stele_alter_partition_response){.leader_id = active->control->mlog.quorum.election.leader_id};
    /* Numbers are counted in one epoch of the quorum: what was meant for another may be an old copy. */
    if (active->is_active && active->registry.is_active &&
        (request->quorum_epoch == 0 || request->quorum_epoch == active->epoch)) {
        alter->response.err =
            stele_registry_admit(&active->registry, request->node_id, request->node_epoch, request->request_number);
        alter->is_admitted = true;
        alter->quorum_epoch = active->epoch;
    }
    alter->turn.begin = begin;
    alter->turn.done = done;
    stele_active_take(active, &alter->turn);
}

void stele_partition_alter_drop(struct stele_partition_alter *alter)
{
    stele_active_drop(&alter->turn);
}

/* Of another node. */

struct alter_call {
    struct stele_task task;
    struct stele_server_call *call; /* its arena is ours until the task goes home */
    struct stele_partition_alter alter;
};

static void home(struct stele_task *task)
{
    stele_server_call_done(STELE_CONTAINER_OF(task, struct alter_call, task)->call);
}

static void answered(struct stele_partition_alter *alter)
{
    struct alter_call *asked = STELE_CONTAINER_OF(alter, struct alter_call, alter);
    struct stele_shard *shard = asked->call->shard;
    asked->call->response.body.alter_partition = alter->response;
    asked->task.run = home;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &asked->task);
}

static void arrived(struct stele_task *task)
{
    struct alter_call *asked = STELE_CONTAINER_OF(task, struct alter_call, task);
    stele_partition_alter_take(&asked->call->shard->node->control.active, &asked->alter);
}

/* Only when the node ends in the middle is it still under way. */
static void release(struct stele_server_call *call)
{
    struct alter_call *asked = call->state;
    stele_partition_alter_drop(&asked->alter);
}

void stele_handle_alter_partition(struct stele_server_call *call)
{
    struct alter_call *asked;
    if (!call->session->listener->is_peer) {
        stele_server_call_fail(call, "a request between nodes, on a listener that is not theirs");
        return;
    }
    asked = stele_arena_alloc(&call->arena, sizeof(*asked));
    if (asked == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    asked->call = call;
    asked->alter.request = &call->request.body.alter_partition;
    asked->alter.arena = &call->arena;
    asked->alter.done = answered;
    call->state = asked;
    call->release = release;
    asked->task.run = arrived;
    stele_shard_send(call->shard, &call->shard->node->shards[STELE_SHARD_CONTROL], &asked->task);
}
