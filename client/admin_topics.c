/* Admin calls on topics and their records. */
#include "base/sort.h"
#include "client/admin_internal.h"

#include <string.h>

/* Listing */

static int compare_infos(const void *a, const void *b)
{
    const struct stele_topic_info *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static void make_info(struct stele_answer_memory *memory, const struct stele_metadata_topic *from,
                      struct stele_topic_info *to)
{
    *to = (struct stele_topic_info){.name = stele_answer_text(memory, from->name),
                                    .topic_id = stele_answer_uuid(memory, &from->topic_id),
                                    .partition_count = (int32_t)from->partition_count,
                                    .is_internal = from->is_internal};
}

static void take_list(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_metadata_response *metadata = &response->body.metadata;
    struct stele_topics *topics = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(topics);
    stele_waited_end(waited, metadata->err, NULL);
    if (metadata->err != STELE_OK)
        return;
    topics->topic_count = metadata->topic_count;
    STELE_ANSWER_LIST(memory, topics->topics, metadata->topic_count, metadata->topics, struct stele_topic_info,
                      make_info);
    if (!memory->is_out_of_memory)
        stele_sort((void *)(uintptr_t)topics->topics, topics->topic_count, sizeof(void *), compare_infos);
}

struct stele_result stele_topic_list(struct stele_client *client, struct stele_topics **out_topics)
{
    struct stele_error error = {.text = ""};
    struct stele_topics *topics = stele_answer_new(client, sizeof(*topics));
    enum stele_err err = topics == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_list, .error = &error, .arg = topics};
        struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata.all_topics = true};
        err = stele_client__wait_for(client, &waited, &request);
    }
    struct stele_result result = stele_answer_finish(err, &error, topics, &made);
    if (result.code == STELE_OK)
        *out_topics = made;
    return result;
}

void stele_topics_free(struct stele_topics *topics)
{
    stele_answer_free(topics);
}

/* Describing */

static const int32_t *copy_numbers(struct stele_answer_memory *memory, const int32_t *from, size_t count)
{
    int32_t *to = stele_answer_alloc(memory, (count + 1) * sizeof(*to));
    if (to != NULL && count > 0)
        memcpy(to, from, count * sizeof(*to));
    return to;
}

static void make_partition(struct stele_answer_memory *memory, const struct stele_described_partition *from,
                           struct stele_partition_description *to)
{
    *to = (struct stele_partition_description){
        .partition = from->partition,
        .code = (int)from->err,
        .text = stele_answer_error(memory, from->err, NULL),
        .leader_id = from->leader_id,
        .leader_epoch = from->leader_epoch,
        .partition_epoch = from->partition_epoch,
        .replica_count = from->replica_count,
        .isr_count = from->isr_count,
        .elr_count = from->elr_count,
        .replicas = copy_numbers(memory, from->replicas, from->replica_count),
        .isr = copy_numbers(memory, from->isr, from->isr_count),
        .elr = copy_numbers(memory, from->elr, from->elr_count),
        .last_known_elr_count = from->last_known_elr_count,
        .adding_count = from->adding_count,
        .removing_count = from->removing_count,
        .last_known_elr = copy_numbers(memory, from->last_known_elr, from->last_known_elr_count),
        .adding = copy_numbers(memory, from->adding, from->adding_count),
        .removing = copy_numbers(memory, from->removing, from->removing_count),
        .is_recovering = from->is_recovering,
    };
}

static void make_topic(struct stele_answer_memory *memory, const struct stele_described_topic *from,
                       struct stele_topic_description *to)
{
    struct stele_setting *settings = stele_answer_alloc(memory, (from->setting_count + 1) * sizeof(*settings));
    *to = (struct stele_topic_description){
        .name = stele_answer_text(memory, from->name),
        .topic_id = stele_answer_uuid(memory, &from->topic_id),
        .code = (int)from->err,
        .text = stele_answer_error(memory, from->err, NULL),
        .is_internal = from->is_internal,
        .partition_count = from->partition_count,
        .setting_count = from->setting_count,
        .settings = settings,
    };
    STELE_ANSWER_LIST(memory, to->partitions, from->partition_count, from->partitions,
                      struct stele_partition_description, make_partition);
    for (size_t i = 0; i < from->setting_count && settings != NULL; i++) {
        settings[i].name = stele_answer_text(memory, from->settings[i].name);
        settings[i].value = stele_answer_text(memory, from->settings[i].value);
    }
}

static int compare_descriptions(const void *a, const void *b)
{
    const struct stele_topic_description *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static void take_descriptions(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_describe_topic_response *described = &response->body.describe_topic;
    struct stele_topic_descriptions *topics = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(topics);
    stele_waited_end(waited, described->err, NULL);
    if (described->err != STELE_OK)
        return;
    topics->topic_count = described->topic_count;
    STELE_ANSWER_LIST(memory, topics->topics, described->topic_count, described->topics, struct stele_topic_description,
                      make_topic);
    if (!memory->is_out_of_memory)
        stele_sort((void *)(uintptr_t)topics->topics, topics->topic_count, sizeof(void *), compare_descriptions);
}

struct stele_result stele_topic_describe(struct stele_client *client, const char *const *topics,
                                         struct stele_topic_descriptions **out_topics)
{
    struct stele_error error = {.text = ""};
    struct stele_topic_descriptions *descriptions = stele_answer_new(client, sizeof(*descriptions));
    enum stele_err err = descriptions == NULL ? STELE_NO_MEMORY : STELE_OK;
    size_t count = 0;
    void *made = NULL;
    while (topics != NULL && topics[count] != NULL)
        count++;
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take_descriptions, .error = &error, .arg = descriptions};
        struct stele_request request = {
            .header.api = STELE_API_DESCRIBE_TOPIC,
            .body.describe_topic = {.topics = topics, .topic_count = count, .all_topics = topics == NULL}};
        err = stele_client__wait_for(client, &waited, &request);
    }
    struct stele_result result = stele_answer_finish(err, &error, descriptions, &made);
    if (result.code == STELE_OK)
        *out_topics = made;
    return result;
}

void stele_topic_descriptions_free(struct stele_topic_descriptions *topics)
{
    stele_answer_free(topics);
}

/* Changing */

static void take_created(struct stele_waited *waited, const struct stele_response *response)
{
    stele_waited_end(waited, response->body.create_topic.err, response->body.create_topic.message);
}

struct stele_result stele_topic_create_replicated(struct stele_client *client, const char *topic, int32_t partitions,
                                                  int32_t replicas, const struct stele_setting *settings)
{
    struct stele_setting_pair pairs[64];
    size_t count = 0;
    struct stele_error error = {.text = ""};
    for (; settings != NULL && settings[count].name != NULL; count++) {
        if (count == STELE_ARRAY_LEN(pairs))
            return stele_client__failure(STELE_TOO_LARGE, "topic '%.200s': more than %zu settings", topic,
                                         STELE_ARRAY_LEN(pairs));
        pairs[count] = (struct stele_setting_pair){.name = settings[count].name, .value = settings[count].value};
    }
    struct stele_waited waited = {.take = take_created, .error = &error, .is_change = true};
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC,
                                    .body.create_topic = {.name = topic,
                                                          .partition_count = partitions,
                                                          .replication_factor = replicas,
                                                          .settings = pairs,
                                                          .setting_count = count,
                                                          .timeout_ms = stele_client__timeout_ms(client)}};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

struct stele_result stele_topic_create(struct stele_client *client, const char *topic, int32_t partitions,
                                       const struct stele_setting *settings)
{
    return stele_topic_create_replicated(client, topic, partitions, -1, settings);
}

static void take_deleted(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_delete_topic_response *deleted = &response->body.delete_topic;
    stele_waited_end(waited, deleted->err, deleted->message);
    if (deleted->err == STELE_UNKNOWN_TOPIC_OR_PARTITION && deleted->message[0] == 0)
        (void)stele_client__no_topic(waited->error, waited->arg);
}

struct stele_result stele_topic_delete(struct stele_client *client, const char *topic)
{
    struct stele_error error = {.text = ""};
    struct stele_waited waited = {
        .take = take_deleted, .error = &error, .arg = (void *)(uintptr_t)topic, .is_change = true};
    struct stele_request request = {
        .header.api = STELE_API_DELETE_TOPIC,
        .body.delete_topic = {.name = topic, .timeout_ms = stele_client__timeout_ms(client)}};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

static void take_grown(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_create_partitions_response *grown = &response->body.create_partitions;
    stele_waited_end(waited, grown->err, grown->message);
    if (grown->err == STELE_UNKNOWN_TOPIC_OR_PARTITION && grown->message[0] == 0)
        (void)stele_client__no_topic(waited->error, waited->arg);
}

struct stele_result stele_topic_grow(struct stele_client *client, const char *topic, int32_t partitions)
{
    struct stele_error error = {.text = ""};
    struct stele_waited waited = {
        .take = take_grown, .error = &error, .arg = (void *)(uintptr_t)topic, .is_change = true};
    struct stele_request request = {.header.api = STELE_API_CREATE_PARTITIONS,
                                    .body.create_partitions = {.name = topic,
                                                               .partition_count = partitions,
                                                               .timeout_ms = stele_client__timeout_ms(client)}};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

static void take_records_deleted(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_delete_records_response *deleted = &response->body.delete_records;
    if (deleted->result_count != 1) {
        stele_waited_end(waited, STELE_UNKNOWN_SERVER_ERROR, NULL);
        return;
    }
    stele_waited_end(waited, deleted->results[0].err, deleted->results[0].message);
    *(int64_t *)waited->arg = deleted->results[0].low_watermark;
}

struct stele_result stele_records_delete(struct stele_client *client, const char *topic, int32_t partition,
                                         int64_t offset, int64_t *out_start)
{
    struct stele_error error = {.text = ""};
    struct stele_delete_records_partition wanted = {
        .partition = partition, .current_leader_epoch = -1, .offset = offset};
    int64_t start = -1;
    enum stele_err err = offset < -1
                             ? stele_error_set(&error, STELE_INVALID_ARGUMENT, "%lld is no offset", (long long)offset)
                             : STELE_OK;
    if (err == STELE_OK) {
        struct stele_place place = {.topic = topic,
                                    .partition = partition,
                                    .topic_id = &wanted.topic_id,
                                    .leader_epoch = &wanted.current_leader_epoch};
        struct stele_waited waited = {.take = take_records_deleted, .error = &error, .arg = &start};
        struct stele_request request = {.header.api = STELE_API_DELETE_RECORDS,
                                        .body.delete_records = {.partitions = &wanted,
                                                                .partition_count = 1,
                                                                .timeout_ms = stele_client__timeout_ms(client)}};
        err = stele_client__wait_at_leader(client, &waited, &request, &place);
    }
    if (err == STELE_OK && out_start != NULL)
        *out_start = start;
    return stele_client__result(err, error.text);
}
