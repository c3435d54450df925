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
    int64_t offset = -1;
    enum stele_err err = stele_client__partition(client, topic, partition, &wanted.topic_id, &error);
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_offset, .error = &error, .arg = &offset};
        struct stele_request request = {
            .header.api = STELE_API_LIST_OFFSETS,
            .body.list_offsets = {.replica_id = -1, .partitions = &wanted, .partition_count = 1}};
        err = stele_client__wait_for(client, &waited, &request);
    }
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

static void take_offsets(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_list_offsets_response *listed = &response->body.list_offsets;
    struct stele_offsets *offsets = waited->arg;
    stele_waited_end(waited, STELE_OK, NULL);
    offsets->partition_count = listed->result_count;
    STELE_ANSWER_LIST(stele_answer_of(offsets), offsets->partitions, listed->result_count, listed->results,
                      struct stele_offset_found, make_found);
}

static enum stele_err ask_all(struct stele_client *client, struct stele_list_offsets_partition *wanted,
                              int32_t partitions, struct stele_offsets *offsets, struct stele_error *error)
{
    struct stele_waited waited = {.take = take_offsets, .error = error, .arg = offsets};
    struct stele_request request = {
        .header.api = STELE_API_LIST_OFFSETS,
        .body.list_offsets = {.replica_id = -1, .partitions = wanted, .partition_count = (size_t)partitions}};
    for (int32_t i = 0; i < partitions; i++) {
        wanted[i] = wanted[0];
        wanted[i].partition = i;
    }
    return stele_client__wait_for(client, &waited, &request);
}

struct stele_result stele_topic_offsets(struct stele_client *client, const char *topic, int64_t time_ms,
                                        struct stele_offsets **out_offsets)
{
    struct stele_error error = {.text = ""};
    struct stele_list_offsets_partition first = {.current_leader_epoch = -1, .timestamp = time_ms}, *wanted = NULL;
    struct stele_offsets *offsets = NULL;
    int32_t partitions = 0;
    void *made = NULL;
    enum stele_err err = stele_client__topic(client, topic, &first.topic_id, &partitions, &error);
    if (err == STELE_OK) {
        offsets = stele_answer_new(client, sizeof(*offsets));
        wanted = stele_mem_array(client->env->mem, STELE_MEM_CLIENT, (size_t)partitions, sizeof(*wanted));
        err = offsets == NULL || wanted == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    if (err == STELE_OK) {
        wanted[0] = first;
        err = ask_all(client, wanted, partitions, offsets, &error);
    }
    stele_mem_free(client->env->mem, wanted);
    struct stele_result result = stele_answer_finish(err, &error, offsets, &made);
    if (result.code == STELE_OK)
        *out_offsets = made;
    return result;
}

void stele_offsets_free(struct stele_offsets *offsets)
{
    stele_answer_free(offsets);
}
