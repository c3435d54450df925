/* Calls that poll until they are answered. */
#include "base/sort.h"
#include "client/client_internal.h"

#include <stdio.h>
#include <string.h>

/* A call that somebody waits for; `take` sees the answer while it lives and says how it went. */
struct waited {
    struct stele_call call;
    bool is_done;
    bool is_final; /* the answer tells all: no retry whatever the error's class */
    enum stele_err err;
    void (*take)(struct waited *waited, const struct stele_response *response);
    struct stele_error *error;
    void *arg;
};

static void waited_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct waited *waited = STELE_CONTAINER_OF(call, struct waited, call);
    waited->is_done = true;
    waited->err = err;
    if (err == STELE_OK)
        waited->take(waited, answer->response);
}

static enum stele_err try_once(struct stele_client *client, struct waited *waited, struct stele_request *request,
                               int64_t until)
{
    waited->call = (struct stele_call){.done = waited_done};
    stele_list_init(&waited->call.link);
    waited->is_done = false;
    waited->is_final = false;
    waited->err = stele_client__call(client, STELE_FOR_CONTROL, &waited->call, request, NULL);
    if (waited->err != STELE_OK)
        return waited->err;
    waited->call.deadline_ms = stele_min_i64(waited->call.deadline_ms, until);
    while (!waited->is_done)
        (void)stele_client_poll(client, 1000);
    return waited->err;
}

/* Tries until the answer tells all or the request's time has passed. */
static enum stele_err wait_for(struct stele_client *client, struct waited *waited, struct stele_request *request)
{
    int64_t until = stele_client__now_ms(client) + stele_settings_int(client->settings, "request.timeout.ms");
    struct stele_backoff backoff = {0};
    for (;;) {
        enum stele_err err = try_once(client, waited, request, until);
        if (err == STELE_OK || (waited->is_done && waited->is_final))
            return err;
        if (!stele_client__retry(client, &backoff, err))
            break;
        if (backoff.at_ms >= until)
            break;
        for (int64_t now = stele_client__now_ms(client); now < backoff.at_ms; now = stele_client__now_ms(client))
            (void)stele_client_poll(client, (int)(backoff.at_ms - now));
    }
    enum stele_err err = waited->err;
    if (waited->error->text[0] != 0)
        return err;
    if (err != STELE_CLOSED && err != STELE_REQUEST_TIMED_OUT)
        return stele_error_set(waited->error, err, "%s", stele_err_text(err));
    return stele_error_set(waited->error, err, "no answer from %.150s (%.250s): is steled running there?",
                           client->bootstrap, client->trouble[0] != 0 ? client->trouble : stele_err_text(err));
}

struct topic_wanted {
    const char *name;
    struct stele_uuid topic_id;
    int32_t partitions;
};

static void take_topic(struct waited *waited, const struct stele_response *response)
{
    struct topic_wanted *wanted = waited->arg;
    const struct stele_metadata_response *metadata = &response->body.metadata;
    waited->err = metadata->err != STELE_OK ? metadata->err : STELE_UNKNOWN_TOPIC_OR_PARTITION;
    for (size_t i = 0; i < metadata->topic_count; i++) {
        if (strcmp(metadata->topics[i].name, wanted->name) != 0)
            continue;
        waited->err = metadata->topics[i].err;
        wanted->topic_id = metadata->topics[i].topic_id;
        wanted->partitions = (int32_t)metadata->topics[i].partition_count;
    }
    /* Of a class that may be tried again, since a new topic takes a moment to be known: but who asks wants to know. */
    waited->is_final = waited->err == STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (waited->is_final)
        (void)stele_error_set(
            waited->error, waited->err,
            "there is no topic '%.200s'; stele topic list shows those that are, stele topic create makes one",
            wanted->name);
    if (waited->err == STELE_OK && wanted->partitions <= 0)
        waited->err = STELE_LEADER_NOT_AVAILABLE;
}

enum stele_err stele_client__topic(struct stele_client *client, const char *topic, struct stele_uuid *out_topic_id,
                                   int32_t *out_partitions, struct stele_error *error)
{
    struct topic_wanted wanted = {.name = topic};
    struct waited waited = {.take = take_topic, .error = error, .arg = &wanted};
    struct stele_request request = {.header.api = STELE_API_METADATA,
                                    .body.metadata = {.topics = &topic, .topic_count = 1}};
    enum stele_err err = wait_for(client, &waited, &request);
    if (err == STELE_OK) {
        *out_topic_id = wanted.topic_id;
        *out_partitions = wanted.partitions;
    }
    return err;
}

static void take_created(struct waited *waited, const struct stele_response *response)
{
    waited->err = response->body.create_topic.err;
    if (waited->err != STELE_OK)
        (void)stele_error_set(waited->error, waited->err, "%s",
                              response->body.create_topic.message[0] == 0 ? stele_err_text(waited->err)
                                                                          : response->body.create_topic.message);
}

struct stele_result stele_topic_create(struct stele_client *client, const char *topic, int32_t partitions,
                                       const struct stele_setting *settings)
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
    struct waited waited = {.take = take_created, .error = &error};
    struct stele_request request = {
        .header.api = STELE_API_CREATE_TOPIC,
        .body.create_topic = {.name = topic,
                              .partition_count = partitions,
                              .replication_factor = -1,
                              .settings = pairs,
                              .setting_count = count,
                              .timeout_ms = (int32_t)stele_settings_int(client->settings, "request.timeout.ms")}};
    enum stele_err err = wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

struct listing {
    struct stele_mem *mem;
    void (*each)(void *arg, const struct stele_topic_info *info);
    void *arg;
};

static int compare_names(const void *a, const void *b)
{
    const struct stele_metadata_topic *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static void take_list(struct waited *waited, const struct stele_response *response)
{
    struct listing *listing = waited->arg;
    size_t count = response->body.metadata.topic_count;
    const struct stele_metadata_topic **topics =
        stele_mem_array(listing->mem, STELE_MEM_CLIENT, count, sizeof(const struct stele_metadata_topic *));
    waited->err = topics == NULL ? STELE_NO_MEMORY : response->body.metadata.err;
    if (topics == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        topics[i] = &response->body.metadata.topics[i];
    stele_sort(topics, count, sizeof(const struct stele_metadata_topic *), compare_names);
    for (size_t i = 0; i < count && waited->err == STELE_OK; i++) {
        const struct stele_metadata_topic *topic = topics[i];
        struct stele_topic_info info = {.partition_count = (int32_t)topic->partition_count,
                                        .is_internal = topic->is_internal};
        (void)snprintf(info.name, sizeof(info.name), "%s", topic->name);
        stele_uuid_text(&topic->topic_id, info.topic_id);
        listing->each(listing->arg, &info);
    }
    stele_mem_free(listing->mem, topics);
}

struct stele_result stele_topic_list(struct stele_client *client,
                                     void (*each)(void *arg, const struct stele_topic_info *info), void *arg)
{
    struct stele_error error = {.text = ""};
    struct listing listing = {.mem = client->env->mem, .each = each, .arg = arg};
    struct waited waited = {.take = take_list, .error = &error, .arg = &listing};
    struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata.all_topics = true};
    enum stele_err err = wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

static void take_offset(struct waited *waited, const struct stele_response *response)
{
    waited->err = STELE_UNKNOWN_SERVER_ERROR;
    if (response->body.list_offsets.result_count == 1) {
        waited->err = response->body.list_offsets.results[0].err;
        *(int64_t *)waited->arg = response->body.list_offsets.results[0].offset;
    }
}

struct stele_result stele_offset_at(struct stele_client *client, const char *topic, int32_t partition, int64_t time_ms,
                                    int64_t *out_offset)
{
    struct stele_error error = {.text = ""};
    struct stele_list_offsets_partition wanted = {
        .partition = partition, .current_leader_epoch = -1, .timestamp = time_ms};
    int32_t partitions = 0;
    int64_t offset = -1;
    enum stele_err err = stele_client__topic(client, topic, &wanted.topic_id, &partitions, &error);
    if (err == STELE_OK && (partition < 0 || partition >= partitions))
        err = stele_error_set(&error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "topic '%.200s' has partitions 0 to %d", topic,
                              partitions - 1);
    if (err == STELE_OK) {
        struct waited waited = {.take = take_offset, .error = &error, .arg = &offset};
        struct stele_request request = {
            .header.api = STELE_API_LIST_OFFSETS,
            .body.list_offsets = {.replica_id = -1, .partitions = &wanted, .partition_count = 1}};
        err = wait_for(client, &waited, &request);
    }
    if (err == STELE_OK)
        *out_offset = offset;
    return stele_client__result(err, error.text);
}
