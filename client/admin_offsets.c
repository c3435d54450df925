/* Admin calls that find offsets. */
#include "client/admin_internal.h"

static void take_offset(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_list_offsets_response *listed = &response->body.list_offsets;
    bool is_one = listed->result_count == 1;
    stele_waited_end(waited, is_one ? listed->results[0].err : STELE_UNKNOWN_SERVER_ERROR, NULL);
    if (is_one)
        *(int64_t *)waited->arg = listed->results[0].offset;
}

struct stele_result stele_offset_at(struct stele_client *client, const char *topic, int32_t partition, int64_t time_ms,
                                    int64_t *out_offset)
{
    struct stele_error error = {.text = ""};
    struct stele_list_offsets_partition wanted = {
        .partition = partition, .current_leader_epoch = -1, .timestamp = time_ms};
    struct stele_place place = {.topic = topic,
                                .partition = partition,
                                .topic_id = &wanted.topic_id,
                                .leader_epoch = &wanted.current_leader_epoch};
    int64_t offset = -1;
    struct stele_waited waited = {.take = take_offset, .error = &error, .arg = &offset};
    struct stele_request request = {
        .header.api = STELE_API_LIST_OFFSETS,
        .body.list_offsets = {.replica_id = -1, .partitions = &wanted, .partition_count = 1}};
    enum stele_err err = stele_client__wait_at_leader(client, &waited, &request, &place);
    if (err == STELE_OK)
        *out_offset = offset;
    return stele_client__result(err, error.text);
}

static void make_found(struct stele_answer_memory *memory, const struct stele_list_offsets_result *from,
                       struct stele_offset_found *to)
{
    *to = (struct stele_offset_found){.partition = from->partition,
                                      .code = (int)from->err,
                                      .text = stele_answer_error(memory, from->err, NULL),
                                      .offset = from->err == STELE_OK ? from->offset : -1,
                                      .timestamp = from->err == STELE_OK ? from->timestamp : -1,
                                      .leader_epoch = from->leader_epoch};
}

/* The search of every partition of a topic: one request to each node that leads some of those that are not found. */
struct search {
    struct stele_client *client;
    struct stele_error *error;
    const char *topic;
    int64_t time_ms, until;
    struct stele_leaders leaders;
    struct stele_offsets *offsets;
    struct stele_offset_found **found;           /* of it, by partition; NULL: not yet */
    struct stele_list_offsets_partition *wanted; /* room for a request */
    enum stele_err err;                          /* of the last try that found nothing */
};

/* Another try finds the partition elsewhere. */
static bool is_moved(enum stele_err err)
{
    return err == STELE_NOT_LEADER_OR_FOLLOWER || err == STELE_FENCED_LEADER_EPOCH ||
           err == STELE_UNKNOWN_LEADER_EPOCH || err == STELE_LEADER_NOT_AVAILABLE;
}

static void take_offsets(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_list_offsets_response *listed = &response->body.list_offsets;
    struct search *search = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(search->offsets);
    stele_waited_end(waited, STELE_OK, NULL);
    for (size_t i = 0; i < listed->result_count; i++) {
        const struct stele_list_offsets_result *from = &listed->results[i];
        if (from->partition < 0 || (size_t)from->partition >= search->offsets->partition_count ||
            search->found[from->partition] != NULL)
            continue;
        if (search->client->is_cluster && is_moved(from->err)) {
            search->err = from->err;
            continue;
        }
        search->found[from->partition] = stele_answer_alloc(memory, sizeof(*search->found[0]));
        if (search->found[from->partition] != NULL)
            make_found(memory, from, search->found[from->partition]);
    }
}

/* The partitions that lead there and are not found, in one request. */
static enum stele_err ask_node(struct search *search, struct stele_client_node *node)
{
    struct stele_waited waited = {.node = node, .take = take_offsets, .error = search->error, .arg = search};
    struct stele_request request = {.header.api = STELE_API_LIST_OFFSETS,
                                    .body.list_offsets = {.replica_id = -1, .partitions = search->wanted}};
    size_t *count = &request.body.list_offsets.partition_count;
    for (int32_t i = 0; i < search->leaders.count && (size_t)i < search->offsets->partition_count; i++) {
        if (search->found[i] == NULL && stele_leaders__route(&search->leaders, i) == node)
            search->wanted[(*count)++] =
                (struct stele_list_offsets_partition){.topic_id = search->leaders.topic_id,
                                                      .partition = i,
                                                      .current_leader_epoch = stele_leaders__epoch(&search->leaders, i),
                                                      .timestamp = search->time_ms};
    }
    if (*count == 0)
        return STELE_OK;
    return search->client->is_cluster ? stele_client__wait_once(search->client, &waited, &request, search->until)
                                      : stele_client__wait_for(search->client, &waited, &request);
}

static bool is_complete(const struct search *search)
{
    for (size_t i = 0; i < search->offsets->partition_count; i++) {
        if (search->found[i] == NULL)
            return false;
    }
    return true;
}

/* One round over all that lead. Errors: those that no other round mends. */
static enum stele_err ask_leaders(struct search *search)
{
    struct stele_client *client = search->client;
    if (!client->is_cluster)
        return ask_node(search, &client->any);
    search->err = STELE_LEADER_NOT_AVAILABLE;
    for (struct stele_list *at = client->nodes.next; at != &client->nodes; at = at->next) {
        enum stele_err err = ask_node(search, STELE_CONTAINER_OF(at, struct stele_client_node, link));
        if (err != STELE_OK && !stele_client__may_retry(err))
            return err;
        search->err = err != STELE_OK ? err : search->err;
    }
    return STELE_OK;
}

/* What was not found in time is there with the reason. */
static void fill_gaps(struct search *search)
{
    struct stele_answer_memory *memory = stele_answer_of(search->offsets);
    for (size_t i = 0; i < search->offsets->partition_count; i++) {
        struct stele_list_offsets_result gap = {
            .err = search->err, .partition = (int32_t)i, .offset = -1, .timestamp = -1, .leader_epoch = -1};
        if (search->found[i] != NULL)
            continue;
        search->found[i] = stele_answer_alloc(memory, sizeof(*search->found[i]));
        if (search->found[i] != NULL)
            make_found(memory, &gap, search->found[i]);
    }
}

static enum stele_err begin_search(struct search *search)
{
    search->until = stele_client__until_ms(search->client);
    enum stele_err err = stele_client__topic(search->client, search->topic, &search->leaders, search->error);
    if (err != STELE_OK)
        return err;
    size_t count = (size_t)search->leaders.count;
    search->offsets = stele_answer_new(search->client, sizeof(*search->offsets));
    search->wanted = stele_mem_array(search->client->env->mem, STELE_MEM_CLIENT, count, sizeof(*search->wanted));
    if (search->offsets == NULL || search->wanted == NULL)
        return STELE_NO_MEMORY;
    search->found = stele_answer_list(stele_answer_of(search->offsets), count);
    search->offsets->partition_count = search->found == NULL ? 0 : count;
    search->offsets->partitions = (const struct stele_offset_found *const *)search->found;
    return search->found == NULL ? STELE_NO_MEMORY : STELE_OK;
}

static enum stele_err run_search(struct search *search)
{
    struct stele_backoff backoff = {0};
    struct stele_uuid topic_id = search->leaders.topic_id;
    enum stele_err err = ask_leaders(search);
    while (err == STELE_OK && search->client->is_cluster && !is_complete(search) &&
           stele_client__wait_to_retry(search->client, &backoff, search->err, search->until)) {
        err = stele_client__topic(search->client, search->topic, &search->leaders, search->error);
        if (err == STELE_OK && !stele_uuid_equal(&topic_id, &search->leaders.topic_id))
            return stele_error_set(search->error, STELE_INCONSISTENT_TOPIC_ID,
                                   "topic '%.200s' was made anew meanwhile; try again", search->topic);
        if (err == STELE_OK)
            err = ask_leaders(search);
    }
    return err;
}

struct stele_result stele_topic_offsets(struct stele_client *client, const char *topic, int64_t time_ms,
                                        struct stele_offsets **out_offsets)
{
    struct stele_error error = {.text = ""};
    struct search search = {.client = client,
                            .error = &error,
                            .topic = topic,
                            .time_ms = time_ms,
                            .leaders = {.client = client},
                            .err = STELE_UNKNOWN_SERVER_ERROR};
    void *made = NULL;
    enum stele_err err = begin_search(&search);
    if (err == STELE_OK)
        err = run_search(&search);
    if (err == STELE_OK)
        fill_gaps(&search);
    stele_leaders__free(&search.leaders);
    stele_mem_free(client->env->mem, search.wanted);
    struct stele_result result = stele_answer_finish(err, &error, search.offsets, &made);
    if (result.code == STELE_OK)
        *out_offsets = made;
    return result;
}

void stele_offsets_free(struct stele_offsets *offsets)
{
    stele_answer_free(offsets);
}
