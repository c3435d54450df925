/* Invariants:
 *   1. `nodes` is sorted by rack, then unfenced before fenced, then id; each rack is a range of it.
 *   2. A start is below the count that it is a start in, or 0.
 *   3. `taken` counts are of the partition being placed, so no node is taken twice. */
#include "replication/placement.h"

#include "base/check.h"
#include "base/sort.h"

#include <string.h>

static int node_compare(const void *left, const void *right)
{
    const struct stele_placement_node *a = left, *b = right;
    const int order = strcmp(a->rack, b->rack);
    if (order != 0) {
        return order;
    }
    if (a->is_fenced != b->is_fenced) {
        return a->is_fenced ? 1 : -1;
    }
    return a->node_id < b->node_id ? -1 : a->node_id > b->node_id;
}

static int32_t draw(struct stele_placement *placement, int32_t bound)
{
    return bound > 0 ? (int32_t)stele_prng_below(&placement->prng, (uint64_t)bound) : 0;
}

static void starts_draw(struct stele_placement *placement)
{
    placement->placed = 0;
    placement->rack_start = draw(placement, placement->rack_count);
    for (int32_t i = 0; i < placement->rack_count; i++) {
        struct stele_placement_rack *rack = &placement->racks[i];
        rack->unfenced_start = draw(placement, rack->unfenced_count);
        rack->fenced_start = draw(placement, rack->fenced_count);
    }
}

void stele_placement_init(struct stele_placement *placement, struct stele_placement_node *nodes,
                          struct stele_placement_rack *racks, int32_t count, uint64_t seed)
{
    *placement = (struct stele_placement){.nodes = nodes, .racks = racks, .node_count = count};
    stele_prng_init(&placement->prng, seed, 0);
    if (count > 0) {
        stele_sort(nodes, (size_t)count, sizeof *nodes, node_compare);
    }
    for (int32_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(nodes[i].rack, nodes[i - 1].rack) != 0) {
            racks[placement->rack_count++] = (struct stele_placement_rack){.first = i};
        }
        struct stele_placement_rack *rack = &racks[placement->rack_count - 1];
        rack->unfenced_count += !nodes[i].is_fenced;
        rack->fenced_count += nodes[i].is_fenced;
        placement->unfenced_count += !nodes[i].is_fenced;
    }
    starts_draw(placement);
}

/* The next node of a rack of that kind; NO_NODE when all are taken. */
static int32_t rack_take(const struct stele_placement *placement, struct stele_placement_rack *rack, bool is_fenced)
{
    if (is_fenced) {
        if (rack->fenced_taken == rack->fenced_count) {
            return STELE_NO_NODE;
        }
        const int32_t at = (rack->fenced_start + rack->fenced_taken++) % rack->fenced_count;
        return placement->nodes[rack->first + rack->unfenced_count + at].node_id;
    }
    if (rack->unfenced_taken == rack->unfenced_count) {
        return STELE_NO_NODE;
    }
    const int32_t at = (rack->unfenced_start + rack->unfenced_taken++) % rack->unfenced_count;
    return placement->nodes[rack->first + at].node_id;
}

/* Goes round the racks from `rack_start` until `replicas` has `wanted` or every node of that kind is taken. */
static void stripe(struct stele_placement *placement, bool is_fenced, int32_t wanted, struct stele_node_set *replicas)
{
    int32_t at = placement->rack_start, empty = 0;
    while (replicas->count < wanted && empty < placement->rack_count) {
        const int32_t node_id = rack_take(placement, &placement->racks[at], is_fenced);
        if (node_id == STELE_NO_NODE) {
            empty++;
        } else {
            const bool is_added = stele_node_set_add(replicas, node_id);
            STELE_ASSERT(is_added);
            empty = 0;
        }
        at = (at + 1) % placement->rack_count;
    }
}

static void starts_advance(struct stele_placement *placement)
{
    if (++placement->placed >= placement->unfenced_count) {
        starts_draw(placement);
        return;
    }
    placement->rack_start = (placement->rack_start + 1) % placement->rack_count;
    if (placement->placed % placement->rack_count != 0) {
        return; /* each rack's first node leads once before any second one does */
    }
    for (int32_t i = 0; i < placement->rack_count; i++) {
        struct stele_placement_rack *rack = &placement->racks[i];
        rack->unfenced_start = rack->unfenced_count > 0 ? (rack->unfenced_start + 1) % rack->unfenced_count : 0;
        rack->fenced_start = rack->fenced_count > 0 ? (rack->fenced_start + 1) % rack->fenced_count : 0;
    }
}

enum stele_err stele_placement_next(struct stele_placement *placement, int32_t replication_factor,
                                    struct stele_node_set *out_replicas)
{
    if (replication_factor < 1 || replication_factor > placement->node_count ||
        replication_factor > STELE_REPLICAS_MAX || placement->unfenced_count == 0) {
        return STELE_INVALID_REPLICATION_FACTOR;
    }
    for (int32_t i = 0; i < placement->rack_count; i++) {
        placement->racks[i].unfenced_taken = placement->racks[i].fenced_taken = 0;
    }
    struct stele_node_set replicas = {.count = 0};
    stripe(placement, false, replication_factor, &replicas);
    stripe(placement, true, replication_factor, &replicas);
    STELE_ASSERT(replicas.count == replication_factor);
    starts_advance(placement);
    *out_replicas = replicas;
    return STELE_OK;
}

void stele_placement_skip(struct stele_placement *placement, int32_t count)
{
    for (int32_t i = 0; i < count && placement->unfenced_count > 0; i++) {
        starts_advance(placement);
    }
}

enum stele_err stele_placement_check(const struct stele_placement_node *nodes, int32_t node_count, const int32_t *ids,
                                     int32_t id_count, struct stele_node_set *out_replicas)
{
    struct stele_node_set replicas = {.count = 0};
    if (id_count < 1 || id_count > STELE_REPLICAS_MAX) {
        return STELE_INVALID_REPLICA_ASSIGNMENT;
    }
    for (int32_t i = 0; i < id_count; i++) {
        bool is_known = false;
        for (int32_t k = 0; k < node_count; k++) {
            is_known |= nodes[k].node_id == ids[i];
        }
        if (!is_known || stele_node_set_has(&replicas, ids[i]) || !stele_node_set_add(&replicas, ids[i])) {
            return STELE_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    *out_replicas = replicas;
    return STELE_OK;
}

int32_t stele_default_replication_factor(int32_t voter_count)
{
    return (int32_t)stele_max_i64(1, stele_min_i64(3, voter_count));
}

int32_t stele_default_min_isr(int32_t replication_factor)
{
    return replication_factor >= 3 ? 2 : 1;
}
