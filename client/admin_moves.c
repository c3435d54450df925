/* Admin calls on the log directories of a node: they go to that node itself. */
#include "base/sort.h"
#include "client/admin_internal.h"

#include <string.h>

/* The node. */

static void take_places(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_metadata_response *metadata = &response->body.metadata;
    struct stele_client *client = waited->arg;
    stele_waited_end(waited, metadata->err, NULL);
    if (waited->err == STELE_OK)
        waited->err = stele_client__take_nodes(client, metadata->nodes, metadata->node_count);
}

/* NULL for -1: whoever answers. Errors: BROKER_ID_NOT_REGISTERED. */
static enum stele_err find_node(struct stele_client *client, int32_t node_id, struct stele_client_node **out_node,
                                struct stele_error *error)
{
    struct stele_waited waited = {.take = take_places, .error = error, .arg = client};
    struct stele_request request = {.header.api = STELE_API_METADATA};
    *out_node = NULL;
    if (node_id < 0)
        return STELE_OK;
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    if (err != STELE_OK)
        return err;
    *out_node = stele_client__node(client, node_id);
    return *out_node != NULL
               ? STELE_OK
               : stele_error_set(error, STELE_BROKER_ID_NOT_REGISTERED,
                                 "there is no node %d; stele cluster status shows those that are", (int)node_id);
}

/* Moving */

static void make_moved(struct stele_answer_memory *memory, const struct stele_alter_log_dirs_result *from,
                       struct stele_partition_result *to)
{
    *to = stele_answer_outcome(memory, from->topic, from->partition, from->err, from->message);
}

static void take_moved(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_alter_log_dirs_response *from = &response->body.alter_log_dirs;
    struct stele_partition_results *outcomes = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(outcomes);
    stele_waited_end(waited, STELE_OK, NULL);
    outcomes->outcome_count = from->result_count;
    STELE_ANSWER_LIST(memory, outcomes->outcomes, from->result_count, from->results, struct stele_partition_result,
                      make_moved);
    stele_answer_sort_outcomes(outcomes);
}

struct stele_result stele_replicas_move(struct stele_client *client, int32_t node_id,
                                        const struct stele_replica_move *moves, size_t count,
                                        struct stele_partition_results **out_outcomes)
{
    struct stele_mem *mem = client->env->mem;
    struct stele_error error = {.text = ""};
    struct stele_moved_replica *replicas = stele_mem_array(mem, STELE_MEM_CLIENT, count + 1, sizeof(*replicas));
    struct stele_partition_results *outcomes = stele_answer_new(client, sizeof(*outcomes));
    struct stele_waited waited = {.take = take_moved, .error = &error, .arg = outcomes};
    struct stele_request request = {
        .header.api = STELE_API_ALTER_LOG_DIRS,
        .body.alter_log_dirs = {.node_id = node_id, .replicas = replicas, .replica_count = count}};
    enum stele_err err = replicas == NULL || outcomes == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    for (size_t i = 0; i < count && err == STELE_OK; i++)
        replicas[i] = (struct stele_moved_replica){
            .topic = moves[i].topic, .partition = moves[i].partition, .directory = moves[i].directory};
    if (err == STELE_OK)
        err = find_node(client, node_id, &waited.node, &error);
    if (err == STELE_OK)
        err = stele_client__wait_for(client, &waited, &request);
    stele_mem_free(mem, replicas);
    struct stele_result result = stele_answer_finish(err, &error, outcomes, &made);
    if (result.code == STELE_OK)
        *out_outcomes = made;
    return result;
}

/* Describing */

static void make_placed(struct stele_answer_memory *memory, const struct stele_described_replica *from,
                        const char *directory, struct stele_placed_replica *to)
{
    *to = (struct stele_placed_replica){.topic = stele_answer_text(memory, from->topic),
                                        .partition = from->partition,
                                        .directory = directory,
                                        .bytes = from->bytes,
                                        .log_end_offset = from->log_end_offset,
                                        .lag = from->offset_lag,
                                        .is_future = from->is_future,
                                        .is_offline = from->is_offline};
}

static int compare_placed(const void *a, const void *b)
{
    const struct stele_placed_replica *left = *(const struct stele_placed_replica *const *)a;
    const struct stele_placed_replica *right = *(const struct stele_placed_replica *const *)b;
    int order = strcmp(left->topic, right->topic);
    if (order == 0)
        order = (left->partition > right->partition) - (left->partition < right->partition);
    return order != 0 ? order : left->is_future - right->is_future;
}

static void take_described(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_describe_log_dirs_response *from = &response->body.describe_log_dirs;
    struct stele_placed_replicas *placed = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(placed);
    size_t count = 0;
    stele_waited_end(waited, from->err, from->message);
    if (from->err != STELE_OK)
        return;
    for (size_t i = 0; i < from->directory_count; i++)
        count += from->directories[i].replica_count;
    struct stele_placed_replica **list = stele_answer_list(memory, count);
    placed->node_id = from->node_id;
    placed->replica_count = 0;
    for (size_t i = 0; i < from->directory_count && list != NULL; i++) {
        const struct stele_described_log_dir *dir = &from->directories[i];
        const char *path = stele_answer_text(memory, dir->path);
        for (size_t k = 0; k < dir->replica_count; k++) {
            struct stele_placed_replica *replica = stele_answer_alloc(memory, sizeof(*replica));
            if (replica == NULL)
                return;
            make_placed(memory, &dir->replicas[k], path, replica);
            list[placed->replica_count++] = replica;
        }
    }
    placed->replicas = (const struct stele_placed_replica *const *)list;
    if (!memory->is_out_of_memory)
        stele_sort(list, placed->replica_count, sizeof(*list), compare_placed);
}

struct stele_result stele_replicas_describe(struct stele_client *client, int32_t node_id, const char *const *topics,
                                            struct stele_placed_replicas **out_placed)
{
    struct stele_error error = {.text = ""};
    struct stele_placed_replicas *placed = stele_answer_new(client, sizeof(*placed));
    struct stele_waited waited = {.take = take_described, .error = &error, .arg = placed};
    struct stele_request request = {.header.api = STELE_API_DESCRIBE_LOG_DIRS,
                                    .body.describe_log_dirs = {.node_id = node_id, .topics = topics}};
    enum stele_err err = placed == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    while (topics != NULL && topics[request.body.describe_log_dirs.topic_count] != NULL)
        request.body.describe_log_dirs.topic_count++;
    if (err == STELE_OK)
        err = find_node(client, node_id, &waited.node, &error);
    if (err == STELE_OK)
        err = stele_client__wait_for(client, &waited, &request);
    struct stele_result result = stele_answer_finish(err, &error, placed, &made);
    if (result.code == STELE_OK)
        *out_placed = made;
    return result;
}

void stele_placed_replicas_free(struct stele_placed_replicas *placed)
{
    stele_answer_free(placed);
}
