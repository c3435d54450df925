/* Who leads the partitions of a topic. What comes with an older leader epoch than the one that is known was said by a
 * node that lags behind (KIP-320), and is passed over. */
#include "client/nodes.h"

static struct stele_leader no_leader(void)
{
    return (struct stele_leader){.node_id = -1, .epoch = -1};
}

void stele_leaders__free(struct stele_leaders *leaders)
{
    stele_mem_free(leaders->client->env->mem, leaders->at);
    leaders->at = NULL;
    leaders->count = 0;
}

/* Room for all of the topic's partitions; another topic's leaders are forgotten. */
static enum stele_err fit(struct stele_leaders *leaders, const struct stele_metadata_topic *topic)
{
    int32_t count = (int32_t)topic->partition_count;
    bool is_same = stele_uuid_equal(&topic->topic_id, &leaders->topic_id);
    int32_t kept = is_same ? leaders->count : 0;
    if (count > leaders->count) {
        struct stele_leader *at = stele_mem_resize(leaders->client->env->mem, STELE_MEM_CLIENT, leaders->at,
                                                   (size_t)count * sizeof(*leaders->at));
        if (at == NULL)
            return STELE_NO_MEMORY;
        leaders->at = at;
    }
    for (int32_t i = kept; i < count; i++)
        leaders->at[i] = no_leader();
    leaders->count = is_same ? (count > kept ? count : kept) : count;
    leaders->topic_id = topic->topic_id;
    return STELE_OK;
}

static void set(const struct stele_leaders *leaders, struct stele_leader *leader, int32_t node_id, int32_t epoch)
{
    struct stele_client_node *node = stele_client__node(leaders->client, node_id);
    leader->is_new = leader->is_new || epoch != leader->epoch || node != leader->node;
    leader->node = node;
    leader->node_id = node_id;
    leader->epoch = epoch;
}

enum stele_err stele_leaders__take(struct stele_leaders *leaders, const struct stele_metadata_topic *topic)
{
    enum stele_err err = fit(leaders, topic);
    if (err != STELE_OK)
        return err;
    for (size_t i = 0; i < topic->partition_count; i++) {
        const struct stele_metadata_partition *from = &topic->partitions[i];
        if (from->partition < 0 || from->partition >= leaders->count)
            continue;
        struct stele_leader *leader = &leaders->at[from->partition];
        if (from->leader_epoch >= leader->epoch)
            set(leaders, leader, from->leader_id, from->leader_epoch);
    }
    return STELE_OK;
}

bool stele_leaders__hint(struct stele_leaders *leaders, const struct stele_leader_hint *hint)
{
    if (hint->partition < 0 || hint->partition >= leaders->count || hint->node_id < 0 ||
        hint->epoch <= leaders->at[hint->partition].epoch)
        return false;
    if (stele_client__take_nodes(leaders->client, hint->nodes, hint->node_count) != STELE_OK)
        return false; /* no memory: the metadata will tell */
    set(leaders, &leaders->at[hint->partition], hint->node_id, hint->epoch);
    return true;
}

struct stele_client_node *stele_leaders__route(const struct stele_leaders *leaders, int32_t partition)
{
    if (!leaders->client->is_cluster)
        return &leaders->client->any;
    return partition < leaders->count ? leaders->at[partition].node : NULL;
}

int32_t stele_leaders__epoch(const struct stele_leaders *leaders, int32_t partition)
{
    return leaders->client->is_cluster && partition < leaders->count ? leaders->at[partition].epoch : -1;
}

bool stele_leaders__has_gap(const struct stele_leaders *leaders)
{
    for (int32_t i = 0; i < leaders->count; i++) {
        if (stele_leaders__route(leaders, i) == NULL)
            return true;
    }
    return false;
}

bool stele_leaders__look(struct stele_leaders *leaders, int32_t partition)
{
    if (partition >= leaders->count || !leaders->at[partition].is_new)
        return false;
    leaders->at[partition].is_new = false;
    return true;
}
