/* Admin calls on the nodes of a cluster. Any node takes them and asks the active controller. */
#include "base/sort.h"
#include "client/admin_internal.h"

/* Describing */

static void make_listener(struct stele_answer_memory *memory, const struct stele_listener_address *from,
                          struct stele_listener_description *to)
{
    *to = (struct stele_listener_description){.name = stele_answer_text(memory, from->name),
                                              .host = stele_answer_text(memory, from->host),
                                              .port = from->port};
}

static void make_member(struct stele_answer_memory *memory, const struct stele_described_node *from,
                        struct stele_member_description *to)
{
    const char **ids = stele_answer_list(memory, from->directory_count);
    *to = (struct stele_member_description){.node_id = from->node_id,
                                            .node_epoch = from->node_epoch,
                                            .rack = stele_answer_text(memory, from->rack),
                                            .software_version = stele_answer_text(memory, from->software_version),
                                            .is_fenced = from->is_fenced,
                                            .is_shutting_down = from->is_shutting_down,
                                            .contact_ms = from->last_contact_ms,
                                            .listener_count = from->listener_count,
                                            .directory_count = from->directory_count,
                                            .directory_ids = ids};
    for (size_t i = 0; i < from->directory_count && ids != NULL; i++)
        ids[i] = stele_answer_uuid(memory, &from->directories[i].directory_id);
    STELE_ANSWER_LIST(memory, to->listeners, from->listener_count, from->listeners, struct stele_listener_description,
                      make_listener);
}

static int compare_members(const void *a, const void *b)
{
    const struct stele_member_description *left = *(const struct stele_member_description *const *)a;
    const struct stele_member_description *right = *(const struct stele_member_description *const *)b;
    return (left->node_id > right->node_id) - (left->node_id < right->node_id);
}

static void take_cluster(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_describe_cluster_response *from = &response->body.describe_cluster;
    struct stele_cluster_description *cluster = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(cluster);
    stele_waited_end(waited, from->err, from->message);
    if (from->err != STELE_OK)
        return;
    *cluster = (struct stele_cluster_description){.cluster_id = stele_answer_text(memory, from->cluster_id),
                                                  .controller_id = from->controller_id,
                                                  .level = from->level,
                                                  .metadata_offset = from->metadata_offset,
                                                  .member_count = from->node_count};
    STELE_ANSWER_LIST(memory, cluster->members, from->node_count, from->nodes, struct stele_member_description,
                      make_member);
    if (!memory->is_out_of_memory)
        stele_sort((void *)(uintptr_t)cluster->members, cluster->member_count, sizeof(void *), compare_members);
}

struct stele_result stele_cluster_describe(struct stele_client *client, bool is_local,
                                           struct stele_cluster_description **out_cluster)
{
    struct stele_error error = {.text = ""};
    struct stele_cluster_description *cluster = stele_answer_new(client, sizeof(*cluster));
    enum stele_err err = cluster == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_cluster, .error = &error, .arg = cluster};
        struct stele_request request = {.header.api = STELE_API_DESCRIBE_CLUSTER,
                                        .body.describe_cluster.is_local = is_local};
        err = stele_client__wait_for(client, &waited, &request);
    }
    struct stele_result result = stele_answer_finish(err, &error, cluster, &made);
    if (result.code == STELE_OK)
        *out_cluster = made;
    return result;
}

void stele_cluster_description_free(struct stele_cluster_description *cluster)
{
    stele_answer_free(cluster);
}

/* Changing */

/* Of a class that may be tried again, since a node that starts registers before long; but this one is meant to go. */
static void take_unregistered(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_unregister_node_response *unregistered = &response->body.unregister_node;
    stele_waited_end(waited, unregistered->err, unregistered->message);
    waited->is_final = unregistered->err == STELE_BROKER_ID_NOT_REGISTERED;
}

struct stele_result stele_cluster_unregister(struct stele_client *client, int32_t node_id)
{
    struct stele_error error = {.text = ""};
    struct stele_waited waited = {.take = take_unregistered, .error = &error};
    struct stele_request request = {.header.api = STELE_API_UNREGISTER_NODE, .body.unregister_node.node_id = node_id};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

static void take_level(struct stele_waited *waited, const struct stele_response *response)
{
    stele_waited_end(waited, response->body.update_level.err, response->body.update_level.message);
}

struct stele_result stele_cluster_set_level(struct stele_client *client, int32_t level)
{
    struct stele_error error = {.text = ""};
    struct stele_waited waited = {.take = take_level, .error = &error};
    struct stele_request request = {.header.api = STELE_API_UPDATE_LEVEL, .body.update_level.level = level};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}
