#include "replication/types.h"

bool stele_node_set_has(const struct stele_node_set *set, int32_t node_id)
{
    for (int32_t i = 0; i < set->count; i++)
        if (set->ids[i] == node_id)
            return true;
    return false;
}

bool stele_node_set_add(struct stele_node_set *set, int32_t node_id)
{
    if (stele_node_set_has(set, node_id))
        return true;
    if (set->count == STELE_REPLICAS_MAX)
        return false;
    set->ids[set->count++] = node_id;
    return true;
}

void stele_node_set_remove(struct stele_node_set *set, int32_t node_id)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < set->count; i++) {
        if (set->ids[i] != node_id)
            set->ids[kept++] = set->ids[i];
    }
    set->count = kept;
}

bool stele_node_set_is_subset(const struct stele_node_set *part, const struct stele_node_set *whole)
{
    for (int32_t i = 0; i < part->count; i++) {
        if (!stele_node_set_has(whole, part->ids[i]))
            return false;
    }
    return true;
}

bool stele_node_set_equal(const struct stele_node_set *a, const struct stele_node_set *b)
{
    return a->count == b->count && stele_node_set_is_subset(a, b);
}

bool stele_replica_key_equal(const struct stele_replica_key *a, const struct stele_replica_key *b)
{
    return a->node_id == b->node_id && (stele_uuid_is_zero(&a->directory_id) || stele_uuid_is_zero(&b->directory_id) ||
                                        stele_uuid_equal(&a->directory_id, &b->directory_id));
}
