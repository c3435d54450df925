/* ELECT_LEADERS: the preferred leader, or, when nobody may lead without a loss, the one who has the most and who is
 * there (facts 4.5.3, 4.5.5). For the latter every replica that is there is asked for its log first, so that what is
 * lost can be said, and is written down with the election. */
#include "node/active_partitions.h"
#include "node/log_inquiry.h"
#include "node/node_struct.h"
#include "node/turn_call.h"
#include "replication/forced_election.h"

#include <stdio.h>
#include <string.h>

/* One partition that was named, or needs it. */
struct target {
    const char *topic;
    struct stele_uuid topic_id; /* zero: there is none */
    int32_t number;
    const struct stele_asked_partition *asked; /* forced: what its replicas said */
    int32_t asked_epoch;                       /* of the leader that it had last then */
};

struct elect {
    struct stele_turn_call base;
    struct target *targets;
    struct stele_elect_leaders_result *results;
    size_t count;
    struct stele_log_inquiry inquiry;
};

static struct elect *elect_of(struct stele_turn_call *base)
{
    return STELE_CONTAINER_OF(base, struct elect, base);
}

static bool is_forced(const struct elect *elect)
{
    return elect->base.call->request.body.elect_leaders.mode == STELE_ELECTION_UNCLEAN;
}

static const struct stele_image *image_of(const struct elect *elect)
{
    return &elect->base.control->mlog.image;
}

static struct stele_arena *arena_of(struct elect *elect)
{
    return &elect->base.call->arena;
}

/* Who is to be looked at. */

static bool is_needed(const struct elect *elect, const struct stele_image_topic *topic, int32_t number)
{
    const struct stele_partition_state *state = &topic->partitions[number].state;
    struct stele_partition_view view;
    if (!topic->partitions[number].is_known)
        return false;
    stele_active_view(&elect->base.control->active, topic, state, NULL, NULL, &view);
    return is_forced(elect) ? stele_partition_wants_unclean(state, &view)
                            : stele_partition_wants_preferred(state, &view);
}

static size_t count_needed(const struct elect *elect)
{
    size_t count = 0;
    for (const struct stele_image_topic *topic = image_of(elect)->by_name; topic != NULL; topic = topic->by_name.next) {
        for (int32_t i = 0; i < topic->partition_count; i++)
            count += is_needed(elect, topic, i);
    }
    return count;
}

/* Names are copied: the topic may go meanwhile. False: memory ran out. */
static bool take_needed(struct elect *elect)
{
    for (const struct stele_image_topic *topic = image_of(elect)->by_name; topic != NULL; topic = topic->by_name.next) {
        const char *name = NULL;
        for (int32_t i = 0; i < topic->partition_count; i++) {
            if (!is_needed(elect, topic, i))
                continue;
            if (name == NULL)
                name = stele_arena_string(arena_of(elect), topic->name, strlen(topic->name));
            if (name == NULL)
                return false;
            elect->targets[elect->count++] = (struct target){.topic = name, .topic_id = topic->topic_id, .number = i};
        }
    }
    return true;
}

static void take_named(struct elect *elect)
{
    const struct stele_elect_leaders_request *request = &elect->base.call->request.body.elect_leaders;
    for (; elect->count < request->partition_count; elect->count++) {
        const struct stele_partition_name *name = &request->partitions[elect->count];
        const struct stele_image_topic *topic = stele_image_topic_named(image_of(elect), name->topic);
        struct target *target = &elect->targets[elect->count];
        *target = (struct target){.topic = name->topic, .number = name->partition};
        if (stele_image_partition_of(topic, name->partition) != NULL)
            target->topic_id = topic->topic_id;
    }
}

static bool take_targets(struct elect *elect)
{
    const struct stele_elect_leaders_request *request = &elect->base.call->request.body.elect_leaders;
    size_t count = request->partition_count > 0 ? request->partition_count : count_needed(elect);
    elect->targets = stele_arena_array(arena_of(elect), count, sizeof(*elect->targets));
    elect->results = stele_arena_array(arena_of(elect), count, sizeof(*elect->results));
    if (count > 0 && (elect->targets == NULL || elect->results == NULL))
        return false;
    if (request->partition_count == 0)
        return take_needed(elect);
    take_named(elect);
    return true;
}

/* A forced election. */

static void asked(struct stele_log_inquiry *inquiry)
{
    struct elect *elect = STELE_CONTAINER_OF(inquiry, struct elect, inquiry);
    elect->base.has_no_memory = inquiry->has_no_memory;
    stele_turn_call_take(&elect->base);
}

/* False: memory ran out. */
static bool ask(struct elect *elect)
{
    struct stele_asked_partition *partitions = stele_arena_array(arena_of(elect), elect->count, sizeof(*partitions));
    if (partitions == NULL && elect->count > 0)
        return false;
    elect->inquiry = (struct stele_log_inquiry){
        .control = elect->base.control, .arena = arena_of(elect), .partitions = partitions, .done = asked};
    for (size_t i = 0; i < elect->count; i++) {
        struct target *target = &elect->targets[i];
        const struct stele_image_partition *partition =
            stele_image_partition_of(stele_image_topic_of(image_of(elect), &target->topic_id), target->number);
        if (partition == NULL || partition->state.leader_id != STELE_NO_NODE)
            continue;
        struct stele_asked_partition *to = &partitions[elect->inquiry.count++];
        to->topic_id = target->topic_id;
        to->number = target->number;
        to->nodes = partition->state.replicas;
        target->asked = to;
        target->asked_epoch = partition->state.leader_epoch;
    }
    stele_log_inquiry_begin(&elect->inquiry);
    return true;
}

static void arrived(struct stele_turn_call *base)
{
    struct elect *elect = elect_of(base);
    bool is_active = base->control->active.is_active;
    if (is_active && (!take_targets(elect) || (is_forced(elect) && !ask(elect)))) {
        base->has_no_memory = true;
        stele_turn_call_home(base);
    } else if (!is_active || !is_forced(elect)) { /* else it is taken when all have answered, perhaps in ask */
        stele_turn_call_take(base);
    }
}

static bool is_empty(const struct stele_asked_log *log)
{
    return log->start_offset >= log->end_offset;
}

/* The epoch of its last record. Of a log whose records were all deleted it is what its index knows: it stands for its
 * end, and must not give way to one that ends lower. -1: nothing is known. */
static int32_t last_epoch(const struct stele_asked_log *log)
{
    int at = log->epochs.count;
    while (at > 0 && !is_empty(log) && log->epochs.entries[at - 1].start_offset >= log->end_offset)
        at--;
    return at > 0 ? log->epochs.entries[at - 1].epoch : -1;
}

/* Those of the replicas that answered, and are in the same life still. */
static int32_t answers_of(const struct elect *elect, const struct stele_asked_partition *partition,
                          struct stele_log_answer *answers, const struct stele_asked_log **logs)
{
    int32_t count = 0;
    for (int32_t i = 0; i < partition->nodes.count; i++) {
        const struct stele_asked_log *log = &partition->logs[i];
        const struct stele_node_registration *node =
            stele_registry_find(&elect->base.control->active.registry, partition->nodes.ids[i]);
        if (!log->is_there || node == NULL || node->node_epoch != log->node_epoch)
            continue;
        logs[count] = log;
        answers[count++] = (struct stele_log_answer){.node_id = partition->nodes.ids[i],
                                                     .last_epoch = last_epoch(log),
                                                     .end_offset = log->end_offset,
                                                     .high_watermark = log->high_watermark};
    }
    return count;
}

/* It may lead, or will in a moment, when it has started: a node that starts is fenced, and is asked for nothing yet. */
static bool is_there(const struct elect *elect, const struct stele_partition_view *view, int32_t node_id)
{
    const struct stele_registry *registry = &elect->base.control->active.registry;
    const struct stele_replica_view *replica = stele_partition_view_find(view, node_id);
    int64_t now_ms = stele_env_mono_ms(elect->base.control->shard->env);
    return stele_partition_view_accepts(view, node_id) ||
           (replica != NULL && !replica->is_offline && stele_registry_is_heard(registry, node_id, now_ms));
}

/* A replica that is there has not said what it holds: it may be all there is of what was acknowledged. Who is gone is
 * fenced before long, and is not waited for then. */
static bool is_one_silent(const struct elect *elect, const struct stele_asked_partition *partition,
                          const struct stele_partition_view *view, const struct stele_log_answer *answers,
                          int32_t count)
{
    for (int32_t i = 0; i < partition->nodes.count; i++) {
        int32_t at = 0;
        while (at < count && answers[at].node_id != partition->nodes.ids[i])
            at++;
        if (at == count && is_there(elect, view, partition->nodes.ids[i]))
            return true;
    }
    return false;
}

/* What the log of the one that was picked holds of the others'. Of an empty one nothing can be lost. */
static void compare(struct stele_log_answer *answers, const struct stele_asked_log *const *logs, int32_t count,
                    int32_t leader_id)
{
    int32_t leader = 0;
    while (answers[leader].node_id != leader_id)
        leader++;
    for (int32_t i = 0; i < count; i++) {
        struct stele_epoch_end *end = &answers[i].at_leader;
        if (answers[i].last_epoch < 0 || is_empty(logs[i]))
            *end = (struct stele_epoch_end){.epoch = 0, .end_offset = INT64_MAX};
        else
            stele_epoch_cache_end_offset(&logs[leader]->epochs, answers[i].last_epoch, answers[leader].end_offset,
                                         &end->epoch, &end->end_offset);
    }
}

static const char *describe_loss(struct elect *elect, const struct stele_lost_range *lost)
{
    char text[320];
    int at =
        snprintf(text, sizeof(text), "%s", lost->from_offset < lost->to_offset ? "" : "nothing is known to be lost");
    if (lost->from_offset < lost->to_offset)
        at = snprintf(
            text, sizeof(text), "records from offset %lld up to %lld are lost; those below %lld were committed",
            (long long)lost->from_offset, (long long)lost->to_offset - 1, (long long)lost->committed_to_offset);
    for (int32_t i = 0; i < lost->not_asked.count && at < (int)sizeof(text); i++)
        at +=
            snprintf(text + at, sizeof(text) - (size_t)at, "%s%d",
                     i == 0 ? "; of nodes that did not answer nothing is known: " : ", ", (int)lost->not_asked.ids[i]);
    const char *kept = stele_arena_string(arena_of(elect), text, strlen(text));
    return kept != NULL ? kept : "";
}

static enum stele_err force(struct elect *elect, const struct target *target, const struct stele_partition_state *state,
                            const struct stele_partition_view *view, struct stele_elect_leaders_result *result,
                            struct stele_partition_outcome *out_outcome)
{
    struct stele_log_answer answers[STELE_REPLICAS_MAX];
    const struct stele_asked_log *logs[STELE_REPLICAS_MAX];
    int32_t count = 0, leader_id = STELE_NO_NODE;
    if (state->leader_id != STELE_NO_NODE)
        return STELE_ELECTION_NOT_NEEDED;
    /* It had a leader then, or since: what they have now they have not said. */
    if (target->asked != NULL && target->asked_epoch == state->leader_epoch)
        count = answers_of(elect, target->asked, answers, logs);
    if (count > 0 && is_one_silent(elect, target->asked, view, answers, count))
        return STELE_REQUEST_TIMED_OUT;
    enum stele_err err = stele_forced_pick(state, view, answers, count, &leader_id);
    if (err == STELE_OK)
        err = stele_partition_elect(state, STELE_ELECT_UNCLEAN, leader_id, view, out_outcome);
    if (err != STELE_OK || (out_outcome->changed & STELE_CHANGED_UNCLEAN) == 0)
        return err;
    struct stele_lost_range lost;
    compare(answers, logs, count, leader_id);
    stele_forced_loss(state, answers, count, leader_id, &lost);
    result->message = describe_loss(elect, &lost);
    if (lost.from_offset >= lost.to_offset)
        return STELE_OK;
    result->lost_first_offset = lost.from_offset;
    result->lost_end_offset = lost.to_offset;
    return stele_active_add(&elect->base.turn, &(struct stele_metadata_record){
                                                   .kind = STELE_METADATA_LOST_RANGE,
                                                   .u.lost_range = {.topic_id = target->topic_id,
                                                                    .partition = target->number,
                                                                    .leader_epoch = out_outcome->next.leader_epoch,
                                                                    .first_offset = lost.from_offset,
                                                                    .end_offset = lost.to_offset}});
}

/* The turn. */

static const char *why(enum stele_err err)
{
    switch ((int)err) {
    case STELE_UNKNOWN_TOPIC_OR_PARTITION:
        return "there is no such partition";
    case STELE_INVALID_REQUEST:
        return "the partition is named twice";
    case STELE_ELECTION_NOT_NEEDED:
        return "it has the leader that it should have";
    case STELE_PREFERRED_LEADER_NOT_AVAILABLE:
        return "its first replica is not in sync, or not there";
    case STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE:
        return "no replica that is there has said what it holds";
    case STELE_REQUEST_TIMED_OUT:
        return "a replica that is there has not said what it holds: try again";
    default:
        return stele_err_text(err);
    }
}

/* Errors of the partition. */
static enum stele_err elect_one(struct elect *elect, const struct target *target,
                                struct stele_elect_leaders_result *result)
{
    struct stele_active_turn *turn = &elect->base.turn;
    const struct stele_image_topic *topic = stele_image_topic_of(image_of(elect), &target->topic_id);
    struct stele_image_partition *partition = stele_image_partition_of(topic, target->number);
    struct stele_partition_outcome outcome;
    struct stele_partition_view view;
    if (partition == NULL)
        return STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (partition->is_in_turn)
        return STELE_INVALID_REQUEST;
    stele_active_view(turn->active, topic, &partition->state, NULL, NULL, &view);
    enum stele_err err = is_forced(elect) ? force(elect, target, &partition->state, &view, result, &outcome)
                                          : stele_partition_elect(&partition->state, STELE_ELECT_PREFERRED,
                                                                  STELE_NO_NODE, &view, &outcome);
    if (err == STELE_OK)
        err = stele_active_add_partition(turn, &target->topic_id, target->number, &outcome.next);
    if (err != STELE_OK)
        return err;
    partition->is_in_turn = true;
    result->leader_id = outcome.next.leader_id;
    result->leader_epoch = outcome.next.leader_epoch;
    return STELE_OK;
}

static void begin(struct stele_active_turn *turn)
{
    struct elect *elect = elect_of(stele_turn_call_of(turn));
    for (size_t i = 0; i < elect->count && !elect->base.has_no_memory; i++) {
        const struct target *target = &elect->targets[i];
        struct stele_elect_leaders_result *result = &elect->results[i];
        *result = (struct stele_elect_leaders_result){.message = "",
                                                      .topic = target->topic,
                                                      .partition = target->number,
                                                      .leader_id = STELE_NO_NODE,
                                                      .leader_epoch = -1,
                                                      .lost_first_offset = -1,
                                                      .lost_end_offset = -1};
        result->err = elect_one(elect, target, result);
        if (result->err != STELE_OK)
            result->message = why(result->err);
        elect->base.has_no_memory = result->err == STELE_NO_MEMORY;
    }
    stele_active_unmark(turn);
    if (elect->base.has_no_memory)
        turn->count = 0;
    stele_active_write(turn);
}

static void trace(const struct elect *elect)
{
    struct stele_env *env = elect->base.control->shard->env;
    for (size_t i = 0; i < elect->count; i++) {
        const struct stele_elect_leaders_result *result = &elect->results[i];
        char text[STELE_TOPIC_NAME_MAX + 16];
        (void)snprintf(text, sizeof(text), "%.249s-%d", result->topic, (int)result->partition);
        if (result->err == STELE_OK)
            stele_trace(env, STELE_TRACE_LEADER_FORCED, text, result->message, result->leader_id, result->leader_epoch,
                        0);
    }
}

static void done(struct stele_active_turn *turn, enum stele_err err)
{
    struct elect *elect = elect_of(stele_turn_call_of(turn));
    struct stele_elect_leaders_response *response = &elect->base.call->response.body.elect_leaders;
    if (err == STELE_OK && is_forced(elect) && !elect->base.has_no_memory)
        trace(elect);
    *response = err != STELE_OK
                    ? (struct stele_elect_leaders_response){.err = err, .message = stele_metadata_log_why(err)}
                    : (struct stele_elect_leaders_response){
                          .message = "", .results = elect->results, .result_count = elect->count};
    stele_turn_call_home(&elect->base);
}

/* Only when the node ends in the middle is anything under way. */
static void release(struct stele_server_call *call)
{
    struct elect *elect = elect_of(call->state);
    stele_log_inquiry_drop(&elect->inquiry);
    stele_active_drop(&elect->base.turn);
}

void stele_handle_elect_leaders(struct stele_server_call *call)
{
    struct elect *elect = stele_arena_alloc(&call->arena, sizeof(*elect));
    if (elect == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    elect->base.turn.begin = begin;
    elect->base.turn.done = done;
    elect->base.arrived = arrived;
    stele_turn_call_begin(&elect->base, call);
    call->release = release;
}
