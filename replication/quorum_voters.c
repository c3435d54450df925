#include "replication/quorum_event.h"

bool stele_voters_has(const struct stele_voters *voters, const struct stele_replica_key *key)
{
    int32_t at = stele_voters_find_node(voters, key->node_id);
    return at >= 0 && stele_replica_key_equal(&voters->keys[at], key);
}

int32_t stele_voters_find_node(const struct stele_voters *voters, int32_t node_id)
{
    for (int32_t i = 0; i < voters->count; i++) {
        if (voters->keys[i].node_id == node_id) {
            return i;
        }
    }
    return -1;
}

bool stele_voters_equal(const struct stele_voters *a, const struct stele_voters *b)
{
    for (int32_t i = 0; i < a->count; i++) {
        if (!stele_voters_has(b, &a->keys[i])) {
            return false;
        }
    }
    return a->count == b->count;
}
