/* Which nodes get the partitions of a topic: as the request says, or striped over those that are registered. On a node
 * that is alone: itself. */
#include "node/node_struct.h"
#include "node/topic_ops.h"
#include "proto/api.h"
#include "replication/placement.h"

#include <string.h>

struct candidates {
    struct stele_placement_node *nodes;
    int32_t count, active_count;
};

static bool is_alone(const struct stele_topic_make *make)
{
    return make->control->peers.shard == NULL;
}

static enum stele_err no_memory(struct stele_topic_make *make)
{
    return stele_error_set(&make->error, STELE_NO_MEMORY, "memory ran out");
}

/* Who is in controlled shutdown gets nothing, unless somebody wrote it down so. */
static enum stele_err find_candidates(struct stele_topic_make *make, bool with_leaving, struct candidates *out)
{
    const struct stele_image_member *member = make->control->mlog.image.members;
    *out = (struct candidates){
        .nodes = stele_arena_array(&make->turn.arena, STELE_NODES_MAX, sizeof(struct stele_placement_node))};
    if (out->nodes == NULL)
        return no_memory(make);
    if (is_alone(make)) {
        out->nodes[out->count++] = (struct stele_placement_node){.node_id = make->control->node->node_id, .rack = ""};
        out->active_count = 1;
        return STELE_OK;
    }
    for (; member != NULL && out->count < STELE_NODES_MAX; member = member->next) {
        if (member->is_shutting_down && !with_leaving)
            continue;
        out->nodes[out->count++] = (struct stele_placement_node){
            .node_id = member->node_id, .is_fenced = member->is_fenced, .rack = member->rack};
        out->active_count += !member->is_fenced;
    }
    return STELE_OK;
}

static enum stele_err add_partition(struct stele_topic_make *make, int32_t number,
                                    const struct stele_node_set *replicas)
{
    struct stele_partition_view view = {.min_isr = 1};
    struct stele_partition_state state = {.leader_id = replicas->ids[0], .replicas = *replicas, .isr = *replicas};
    enum stele_err err = STELE_OK;
    if (!is_alone(make)) {
        stele_registry_view(&make->control->active.registry, replicas, &view);
        err = stele_partition_create(replicas, &view, &state);
    }
    if (err != STELE_OK)
        return stele_error_set(&make->error, err,
                               "partition %d: none of its replicas is in service now, so none can lead", (int)number);
    err = stele_active_add_partition(&make->turn, &make->topic_id, number, &state);
    return err == STELE_OK ? STELE_OK : no_memory(make);
}

/* As somebody wrote it. */

static enum stele_err take_assignment(struct stele_topic_make *make, const struct candidates *candidates,
                                      const struct stele_assigned_partition *assigned)
{
    struct stele_node_set replicas;
    int32_t count = (int32_t)stele_min_i64((int64_t)assigned->replica_count, INT32_MAX);
    enum stele_err err =
        stele_placement_check(candidates->nodes, candidates->count, assigned->replicas, count, &replicas);
    if (err != STELE_OK)
        return stele_error_set(&make->error, err,
                               "partition %d: its replicas are 1 to %d different nodes that are registered",
                               (int)assigned->partition, STELE_REPLICAS_MAX);
    if (make->replication_factor < 0)
        make->replication_factor = replicas.count;
    if (make->replication_factor != replicas.count)
        return stele_error_set(&make->error, STELE_INVALID_REPLICA_ASSIGNMENT,
                               "partition %d has %d replicas, another %d: all have the same number",
                               (int)assigned->partition, (int)replicas.count, (int)make->replication_factor);
    return add_partition(make, assigned->partition, &replicas);
}

static enum stele_err place_as_assigned(struct stele_topic_make *make)
{
    int32_t count = make->partition_count - make->first;
    struct candidates candidates;
    enum stele_err err = find_candidates(make, true, &candidates);
    const struct stele_assigned_partition **by_number =
        stele_arena_array(&make->turn.arena, (size_t)count, sizeof(*by_number));
    if (err != STELE_OK)
        return err;
    if (by_number == NULL)
        return no_memory(make);
    for (size_t i = 0; i < make->assignment_count; i++) {
        int32_t at = make->assignments[i].partition;
        if (at < make->first || at >= make->partition_count || by_number[at - make->first] != NULL)
            return stele_error_set(&make->error, STELE_INVALID_REPLICA_ASSIGNMENT,
                                   "partition %d is none of the new ones, %d to %d, or there twice", (int)at,
                                   (int)make->first, (int)make->partition_count - 1);
        by_number[at - make->first] = &make->assignments[i];
    }
    for (int32_t i = 0; i < count && err == STELE_OK; i++)
        err = by_number[i] != NULL
                  ? take_assignment(make, &candidates, by_number[i])
                  : stele_error_set(&make->error, STELE_INVALID_REPLICA_ASSIGNMENT,
                                    "partition %d has no replicas in the list", (int)(make->first + i));
    return err;
}

/* Striped. */

/* Of a topic that grows it is that of its first partition; who comes and goes in a reassignment does not count. */
static int32_t factor_of(const struct stele_topic_make *make, const struct stele_image_topic *topic)
{
    if (topic != NULL && topic->partition_count > 0) {
        const struct stele_partition_state *state = &topic->partitions[0].state;
        return state->replicas.count - state->removing.count;
    }
    if (make->replication_factor != -1)
        return make->replication_factor;
    return is_alone(make) ? 1
                          : stele_default_replication_factor(stele_quorum_voters(&make->control->mlog.quorum)->count);
}

/* Who votes and is not there yet, or just leaves, comes before long: to wait helps. */
static enum stele_err check_factor(struct stele_topic_make *make, const struct candidates *candidates)
{
    int32_t factor = make->replication_factor, voters = stele_quorum_voters(&make->control->mlog.quorum)->count;
    int32_t count = is_alone(make) || voters < candidates->count ? candidates->count : voters;
    if (factor < 1 || factor > count || factor > STELE_REPLICAS_MAX)
        return stele_error_set(&make->error, STELE_INVALID_REPLICATION_FACTOR,
                               count == 1 ? "there is %d node: the factor cannot be %d"
                                          : "there are %d nodes: the factor cannot be %d",
                               (int)count, (int)factor);
    if (factor > candidates->count)
        return stele_error_set(&make->error, STELE_BROKER_NOT_AVAILABLE,
                               "%d of %d nodes are there now: try a factor of %d again when the others are",
                               (int)candidates->count, (int)count, (int)factor);
    if (candidates->active_count == 0)
        return stele_error_set(&make->error, STELE_BROKER_NOT_AVAILABLE,
                               "none of the %d nodes is in service now: try again when one is", (int)candidates->count);
    return STELE_OK;
}

static uint64_t seed_of(const struct stele_uuid *topic_id)
{
    uint64_t seed = 0;
    for (size_t i = 0; i < sizeof(topic_id->bytes); i++)
        seed = seed * 31 + topic_id->bytes[i];
    return seed;
}

static enum stele_err stripe(struct stele_topic_make *make, const struct stele_image_topic *topic)
{
    struct stele_placement placement;
    struct candidates candidates;
    struct stele_placement_rack *racks = stele_arena_array(&make->turn.arena, STELE_NODES_MAX, sizeof(*racks));
    enum stele_err err = racks == NULL ? no_memory(make) : find_candidates(make, false, &candidates);
    if (err != STELE_OK)
        return err;
    make->replication_factor = factor_of(make, topic);
    err = check_factor(make, &candidates);
    if (err != STELE_OK)
        return err;
    stele_placement_init(&placement, candidates.nodes, racks, candidates.count, seed_of(&make->topic_id));
    stele_placement_skip(&placement, make->first);
    for (int32_t number = make->first; number < make->partition_count && err == STELE_OK; number++) {
        struct stele_node_set replicas;
        err = stele_placement_next(&placement, make->replication_factor, &replicas);
        err = err == STELE_OK ? add_partition(make, number, &replicas)
                              : stele_error_set(&make->error, err, "%s", stele_err_text(err));
    }
    return err;
}

enum stele_err stele_topic_place(struct stele_topic_make *make, const struct stele_image_topic *topic)
{
    if (make->assignment_count == 0)
        return stripe(make, topic);
    if (topic != NULL)
        make->replication_factor = factor_of(make, topic);
    return place_as_assigned(make);
}
