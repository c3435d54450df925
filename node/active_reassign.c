/* REASSIGN (facts 4.9): which replicas partitions have, begun or taken back, at the active controller. How far it is
 * DESCRIBE_TOPIC says. */
#include "node/active_partitions.h"
#include "node/node_struct.h"
#include "node/turn_call.h"
#include "replication/placement.h"

#include <stdio.h>

struct reassign {
    struct stele_turn_call base;
    struct stele_placement_node *nodes; /* that are registered */
    int32_t node_count;
    struct stele_reassign_result *results;
};

static struct reassign *reassign_of(struct stele_active_turn *turn)
{
    return STELE_CONTAINER_OF(stele_turn_call_of(turn), struct reassign, base);
}

static bool list_nodes(struct reassign *reassign)
{
    const struct stele_registry *registry = &reassign->base.control->active.registry;
    reassign->nodes = stele_arena_array(&reassign->base.turn.arena, (size_t)registry->count, sizeof(*reassign->nodes));
    if (reassign->nodes == NULL && registry->count > 0)
        return false;
    for (int32_t i = 0; i < registry->count; i++) {
        const struct stele_node_registration *node = stele_registry_at(registry, i);
        reassign->nodes[reassign->node_count++] =
            (struct stele_placement_node){.node_id = node->node_id, .is_fenced = node->is_fenced, .rack = node->rack};
    }
    return true;
}

static const char *why(enum stele_err err, const struct stele_reassigned_partition *asked)
{
    switch ((int)err) {
    case STELE_OK:
        return "";
    case STELE_UNKNOWN_TOPIC_OR_PARTITION:
        return "there is no such partition";
    case STELE_INVALID_REQUEST:
        return "the partition is named twice";
    case STELE_NO_REASSIGNMENT_IN_PROGRESS:
        return "its replicas are not being exchanged";
    case STELE_INVALID_REPLICA_ASSIGNMENT:
        return asked->is_cancelled ? "it would leave the partition without enough replicas that have everything: let "
                                     "it finish, or name other replicas"
                                   : "replicas are nodes that are registered, none twice, and enough of those that "
                                     "have everything must stay until the new ones have it too";
    default:
        return stele_err_text(err);
    }
}

static enum stele_err change_one(struct reassign *reassign, const struct stele_reassigned_partition *asked)
{
    struct stele_active_turn *turn = &reassign->base.turn;
    const struct stele_image_topic *topic = stele_image_topic_named(&reassign->base.control->mlog.image, asked->topic);
    struct stele_image_partition *partition = stele_image_partition_of(topic, asked->partition);
    struct stele_partition_change change = {.reassign =
                                                asked->is_cancelled ? STELE_REASSIGN_CANCEL : STELE_REASSIGN_START};
    struct stele_partition_outcome outcome;
    enum stele_err err = STELE_OK;
    if (partition == NULL)
        return STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (partition->is_in_turn)
        return STELE_INVALID_REQUEST;
    if (!asked->is_cancelled && asked->replica_count > STELE_REPLICAS_MAX)
        return STELE_INVALID_REPLICA_ASSIGNMENT;
    if (!asked->is_cancelled)
        err = stele_placement_check(reassign->nodes, reassign->node_count, asked->replicas,
                                    (int32_t)asked->replica_count, &change.target);
    if (err == STELE_OK)
        err = stele_active_change(turn, topic, asked->partition, &change, NULL, &outcome);
    partition->is_in_turn = err == STELE_OK && outcome.changed != 0;
    return err;
}

static void begin(struct stele_active_turn *turn)
{
    struct reassign *reassign = reassign_of(turn);
    const struct stele_reassign_request *request = &reassign->base.call->request.body.reassign;
    reassign->results =
        stele_arena_array(&reassign->base.call->arena, request->partition_count, sizeof(*reassign->results));
    reassign->base.has_no_memory = (reassign->results == NULL && request->partition_count > 0) || !list_nodes(reassign);
    for (size_t i = 0; i < request->partition_count && !reassign->base.has_no_memory; i++) {
        const struct stele_reassigned_partition *asked = &request->partitions[i];
        enum stele_err err = change_one(reassign, asked);
        reassign->results[i] = (struct stele_reassign_result){
            .err = err, .message = why(err, asked), .topic = asked->topic, .partition = asked->partition};
        reassign->base.has_no_memory = err == STELE_NO_MEMORY;
    }
    stele_active_unmark(turn);
    if (reassign->base.has_no_memory)
        turn->count = 0;
    stele_active_write(turn);
}

static void done(struct stele_active_turn *turn, enum stele_err err)
{
    struct reassign *reassign = reassign_of(turn);
    struct stele_server_call *call = reassign->base.call;
    call->response.body.reassign =
        err != STELE_OK ? (struct stele_reassign_response){.err = err, .message = stele_metadata_log_why(err)}
                        : (struct stele_reassign_response){.message = "",
                                                           .results = reassign->results,
                                                           .result_count = call->request.body.reassign.partition_count};
    stele_turn_call_home(&reassign->base);
}

void stele_handle_reassign(struct stele_server_call *call)
{
    struct reassign *reassign = stele_arena_alloc(&call->arena, sizeof(*reassign));
    if (reassign == NULL) {
        stele_server_call_fail(call, "memory ran out");
        return;
    }
    reassign->base.turn.begin = begin;
    reassign->base.turn.done = done;
    stele_turn_call_begin(&reassign->base, call);
}
