/* The admin call on the logs of partitions: which there are by the metadata, then so many a request, to those who lead
 * them. */
#include "base/sort.h"
#include "client/admin_internal.h"

#include <string.h>

enum { LOGS_A_REQUEST = 64 };

struct wanted {
    struct stele_describe_log_partition partition;
    const char *topic;              /* in the answer's memory */
    struct stele_client_node *node; /* that leads it; NULL: none */
};

/* A metadata answer on its way to a list of partitions. */
struct search {
    struct stele_client *client;
    struct stele_answer_memory *memory;
    const char *topic;        /* NULL: every one */
    int32_t partition_wanted; /* -1: every one */
    struct wanted *wanted;    /* the caller's to free */
    size_t count;
};

static void add_topic(struct search *search, const struct stele_metadata_topic *topic, struct wanted *to)
{
    const char *name = stele_answer_text(search->memory, topic->name);
    struct stele_client *client = search->client;
    for (size_t i = 0; i < topic->partition_count; i++) {
        int32_t partition = topic->partitions[i].partition, leader_id = topic->partitions[i].leader_id;
        if (search->partition_wanted >= 0 && partition != search->partition_wanted)
            continue;
        to[search->count++] =
            (struct wanted){.partition = {.topic_id = topic->topic_id, .partition = partition},
                            .topic = name,
                            .node = client->is_cluster ? stele_client__node(client, leader_id) : &client->any};
    }
}

static void take_partitions(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_metadata_response *metadata = &response->body.metadata;
    struct search *search = waited->arg;
    size_t room = 1;
    enum stele_err err = metadata->err;
    for (size_t i = 0; i < metadata->topic_count && err == STELE_OK; i++) {
        room += metadata->topics[i].partition_count;
        err = search->topic == NULL ? STELE_OK : metadata->topics[i].err;
    }
    stele_waited_end(waited, err, NULL);
    if (err == STELE_UNKNOWN_TOPIC_OR_PARTITION)
        (void)stele_client__no_topic(waited->error, search->topic);
    if (err != STELE_OK)
        return;
    search->memory->is_out_of_memory |=
        stele_client__take_nodes(search->client, metadata->nodes, metadata->node_count) != STELE_OK;
    search->wanted = stele_mem_array(search->client->env->mem, STELE_MEM_CLIENT, room, sizeof(*search->wanted));
    search->memory->is_out_of_memory |= search->wanted == NULL;
    for (size_t i = 0; i < metadata->topic_count && search->wanted != NULL; i++)
        add_topic(search, &metadata->topics[i], search->wanted);
}

static void make_segment(struct stele_answer_memory *memory, const struct stele_described_segment *from,
                         struct stele_segment_description *to)
{
    *to = (struct stele_segment_description){.base_offset = from->base_offset,
                                             .next_offset = from->next_offset,
                                             .bytes = from->bytes,
                                             .offset_index_bytes = from->offset_index_bytes,
                                             .time_index_bytes = from->time_index_bytes,
                                             .txn_index_bytes = from->txn_index_bytes,
                                             .first_timestamp = from->first_timestamp,
                                             .largest_timestamp = from->largest_timestamp,
                                             .modified_ms = from->modified_ms,
                                             .rolled_because = stele_answer_text(memory, from->rolled_because),
                                             .kept_because = stele_answer_text(memory, from->kept_because),
                                             .delete_at_ms = from->delete_at_ms};
}

static void make_event(struct stele_answer_memory *memory, const struct stele_log_event *from,
                       struct stele_event_description *to)
{
    *to = (struct stele_event_description){.time_ms = from->time_ms,
                                           .kind = stele_answer_text(memory, from->kind),
                                           .offset = from->offset,
                                           .bytes = from->bytes,
                                           .reason = stele_answer_text(memory, from->reason)};
}

static void make_damage(struct stele_answer_memory *memory, const struct stele_described_damage *from,
                        struct stele_damage_description *to)
{
    (void)memory;
    *to = (struct stele_damage_description){.first_offset = from->first_offset,
                                            .last_offset = from->last_offset,
                                            .segment_base = from->segment_base,
                                            .pos = from->pos};
}

static void make_bucket(struct stele_answer_memory *memory, const struct stele_histogram_bucket *from,
                        struct stele_bucket_description *to)
{
    (void)memory;
    *to = (struct stele_bucket_description){.up_to = from->up_to, .count = from->count};
}

static void make_histogram(struct stele_answer_memory *memory, const struct stele_log_histogram *from,
                           struct stele_histogram_description *to)
{
    *to = (struct stele_histogram_description){.name = stele_answer_text(memory, from->name),
                                               .count = from->count,
                                               .sum = from->sum,
                                               .max = from->max,
                                               .bucket_count = from->bucket_count};
    STELE_ANSWER_LIST(memory, to->buckets, from->bucket_count, from->buckets, struct stele_bucket_description,
                      make_bucket);
}

static void make_replica(struct stele_answer_memory *memory, const struct stele_replica_progress *from,
                         struct stele_replica_description *to)
{
    (void)memory;
    *to = (struct stele_replica_description){.node_id = from->node_id,
                                             .is_in_sync = from->is_in_sync,
                                             .log_end_offset = from->log_end_offset,
                                             .lag = -1,
                                             .synced_offset = from->synced_offset,
                                             .caught_up_ms = from->last_caught_up_ms};
}

static void make_replicas(struct stele_answer_memory *memory, const struct stele_described_log *from,
                          struct stele_log_description *to)
{
    STELE_ANSWER_LIST(memory, to->replicas, from->replica_count, from->replicas, struct stele_replica_description,
                      make_replica);
    for (size_t i = 0; i < from->replica_count && !memory->is_out_of_memory; i++) {
        struct stele_replica_description *replica = (struct stele_replica_description *)(uintptr_t)to->replicas[i];
        if (replica->log_end_offset >= 0)
            replica->lag = stele_max_i64(from->log_end_offset - replica->log_end_offset, 0);
    }
}

static void make_log(struct stele_answer_memory *memory, const struct stele_described_log *from,
                     struct stele_log_description *to)
{
    *to = (struct stele_log_description){
        .partition = from->partition,
        .code = (int)from->err,
        .text = stele_answer_error(memory, from->err, from->message),
        .directory = stele_answer_text(memory, from->directory),
        .leader_epoch = from->leader_epoch,
        .log_start_offset = from->log_start_offset,
        .high_watermark = from->high_watermark,
        .last_stable_offset = from->last_stable_offset,
        .log_end_offset = from->log_end_offset,
        .recovery_point = from->recovery_point,
        .bytes = from->bytes,
        .segment_total = from->segment_total,
        .producer_total = from->producer_total,
        .bytes_appended = from->bytes_appended,
        .appended_ms = from->appended_ms,
        .segment_count = from->segment_count,
        .event_count = from->event_count,
        .damage_count = from->damaged_count,
        .histogram_count = from->histogram_count,
        .leader_id = from->leader_id,
        .epoch_start_offset = from->epoch_start_offset,
        .replica_count = from->replica_count,
    };
    make_replicas(memory, from, to);
    STELE_ANSWER_LIST(memory, to->segments, from->segment_count, from->segments, struct stele_segment_description,
                      make_segment);
    STELE_ANSWER_LIST(memory, to->events, from->event_count, from->events, struct stele_event_description, make_event);
    STELE_ANSWER_LIST(memory, to->damages, from->damaged_count, from->damaged, struct stele_damage_description,
                      make_damage);
    STELE_ANSWER_LIST(memory, to->histograms, from->histogram_count, from->histograms,
                      struct stele_histogram_description, make_histogram);
}

/* One request: which of all that are wanted it is for. */
struct part {
    struct stele_answer_memory *memory;
    const struct wanted *wanted;
    struct stele_log_description **to; /* one for each wanted; NULL: not yet */
    size_t at[LOGS_A_REQUEST];
    size_t count;
};

static void take_logs(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_describe_log_response *described = &response->body.describe_log;
    struct part *part = waited->arg;
    bool is_whole = described->log_count == part->count;
    stele_waited_end(waited, is_whole ? STELE_OK : STELE_UNKNOWN_SERVER_ERROR, NULL);
    for (size_t i = 0; i < part->count && is_whole; i++) {
        const struct stele_described_log *from = &described->logs[i];
        const struct wanted *wanted = &part->wanted[part->at[i]];
        struct stele_log_description **to = &part->to[part->at[i]];
        if (from->partition != wanted->partition.partition ||
            !stele_uuid_equal(&from->topic_id, &wanted->partition.topic_id)) {
            stele_waited_end(waited, STELE_UNKNOWN_SERVER_ERROR, "the node answers for other partitions than asked");
            return;
        }
        *to = stele_answer_alloc(part->memory, sizeof(**to));
        if (*to == NULL)
            return;
        make_log(part->memory, from, *to);
        (*to)->topic = wanted->topic;
    }
}

/* Of what the leader, or that there is none, does not tell. */
static void make_unknown(struct part *part, enum stele_err err)
{
    for (size_t i = 0; i < part->count; i++) {
        const struct wanted *wanted = &part->wanted[part->at[i]];
        struct stele_described_log none = {.err = err,
                                           .topic_id = wanted->partition.topic_id,
                                           .partition = wanted->partition.partition,
                                           .directory = "",
                                           .leader_epoch = -1,
                                           .log_start_offset = -1,
                                           .high_watermark = -1,
                                           .last_stable_offset = -1,
                                           .log_end_offset = -1,
                                           .recovery_point = -1,
                                           .leader_id = -1,
                                           .epoch_start_offset = -1};
        struct stele_log_description *to = stele_answer_alloc(part->memory, sizeof(*to));
        if (to == NULL)
            return;
        make_log(part->memory, &none, to);
        to->topic = wanted->topic;
        part->to[part->at[i]] = to;
    }
}

static enum stele_err ask(struct stele_client *client, struct part *part, unsigned with, struct stele_error *error)
{
    struct stele_describe_log_partition partitions[LOGS_A_REQUEST];
    struct stele_waited waited = {
        .node = part->wanted[part->at[0]].node, .take = take_logs, .error = error, .arg = part};
    for (size_t i = 0; i < part->count; i++)
        partitions[i] = part->wanted[part->at[i]].partition;
    struct stele_request request = {.header.api = STELE_API_DESCRIBE_LOG,
                                    .body.describe_log = {.partitions = partitions,
                                                          .partition_count = part->count,
                                                          .with_segments = (with & STELE_LOG_WITH_SEGMENTS) != 0,
                                                          .with_stats = (with & STELE_LOG_WITH_STATS) != 0}};
    if (!client->is_cluster)
        return stele_client__wait_for(client, &waited, &request);
    int64_t until = stele_client__until_ms(client);
    enum stele_err err =
        waited.node == NULL ? STELE_LEADER_NOT_AVAILABLE : stele_client__wait_once(client, &waited, &request, until);
    if (err == STELE_OK || err == STELE_NO_MEMORY || !stele_client__may_retry(err))
        return err;
    make_unknown(part, err); /* the others are of interest all the same */
    return STELE_OK;
}

/* The next request: so many that the same node leads, from `at` on. */
static void fill_part(struct part *part, size_t at, size_t count)
{
    const struct stele_client_node *node = part->wanted[at].node;
    for (part->count = 0; at < count && part->count < LOGS_A_REQUEST; at++) {
        if (part->to[at] == NULL && part->wanted[at].node == node)
            part->at[part->count++] = at;
    }
}

/* In the order of names and numbers. */
static int compare_wanted(const void *a, const void *b)
{
    const struct wanted *left = a, *right = b;
    int order = strcmp(left->topic, right->topic);
    return order != 0 ? order
                      : (left->partition.partition > right->partition.partition) -
                            (left->partition.partition < right->partition.partition);
}

static enum stele_err find_partitions(struct search *search, struct stele_error *error)
{
    struct stele_waited waited = {.take = take_partitions, .error = error, .arg = search};
    struct stele_request request = {.header.api = STELE_API_METADATA,
                                    .body.metadata = {.all_topics = search->topic == NULL,
                                                      .topics = &search->topic,
                                                      .topic_count = search->topic != NULL}};
    enum stele_err err = stele_client__wait_for(search->client, &waited, &request);
    if (err == STELE_OK && search->memory->is_out_of_memory)
        err = STELE_NO_MEMORY;
    if (err == STELE_OK && search->count == 0 && search->partition_wanted >= 0)
        err = stele_error_set(error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "topic '%.200s' has no partition %d",
                              search->topic == NULL ? "" : search->topic, search->partition_wanted);
    if (err == STELE_OK)
        stele_sort(search->wanted, search->count, sizeof(*search->wanted), compare_wanted);
    return err;
}

static enum stele_err ask_all(struct search *search, unsigned with, struct stele_log_descriptions *logs,
                              struct stele_error *error)
{
    enum stele_err err = find_partitions(search, error);
    struct stele_log_description **list = NULL;
    if (err == STELE_OK) {
        list = stele_answer_list(search->memory, search->count);
        err = list == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    for (size_t at = 0; err == STELE_OK && at < search->count; at++) {
        struct part part = {.memory = search->memory, .wanted = search->wanted, .to = list};
        if (list[at] != NULL)
            continue;
        fill_part(&part, at, search->count);
        err = ask(search->client, &part, with, error);
        if (err == STELE_OK && search->memory->is_out_of_memory)
            err = STELE_NO_MEMORY;
    }
    logs->log_count = search->count;
    logs->logs = (const struct stele_log_description *const *)list;
    return err;
}

struct stele_result stele_topic_logs(struct stele_client *client, const char *topic, int32_t partition, unsigned with,
                                     struct stele_log_descriptions **out_logs)
{
    struct stele_error error = {.text = ""};
    struct stele_log_descriptions *logs = stele_answer_new(client, sizeof(*logs));
    enum stele_err err = logs == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    if (err == STELE_OK) {
        struct search search = {
            .client = client, .memory = stele_answer_of(logs), .topic = topic, .partition_wanted = partition};
        err = ask_all(&search, with, logs, &error);
        stele_mem_free(client->env->mem, search.wanted);
    }
    struct stele_result result = stele_answer_finish(err, &error, logs, &made);
    if (result.code == STELE_OK)
        *out_logs = made;
    return result;
}

void stele_log_descriptions_free(struct stele_log_descriptions *logs)
{
    stele_answer_free(logs);
}
