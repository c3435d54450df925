/* What the admin calls share: polling until they are answered, and the objects that answers become. */
#include "client/admin_internal.h"

#include <string.h>

static void waited_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_waited *waited = STELE_CONTAINER_OF(call, struct stele_waited, call);
    waited->is_done = true;
    waited->err = err;
    if (err == STELE_OK)
        waited->take(waited, answer->response);
}

static enum stele_err try_once(struct stele_client *client, struct stele_waited *waited, struct stele_request *request,
                               int64_t until)
{
    waited->call = (struct stele_call){.done = waited_done};
    stele_list_init(&waited->call.link);
    waited->is_done = false;
    waited->is_final = false;
    waited->error->text[0] = 0;
    waited->err = stele_client__call(client, STELE_FOR_CONTROL, &waited->call, request, NULL);
    if (waited->err != STELE_OK)
        return waited->err;
    waited->call.deadline_ms = stele_min_i64(waited->call.deadline_ms, until);
    while (!waited->is_done)
        (void)stele_client_poll(client, 1000);
    return waited->err;
}

enum stele_err stele_client__wait_for(struct stele_client *client, struct stele_waited *waited,
                                      struct stele_request *request)
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
                           client->bootstrap,
                           client->group.trouble[0] != 0 ? client->group.trouble : stele_err_text(err));
}

void stele_waited_end(struct stele_waited *waited, enum stele_err err, const char *message)
{
    waited->err = err;
    waited->is_final = err == STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (err != STELE_OK)
        (void)stele_error_set(waited->error, err, "%s",
                              message == NULL || message[0] == 0 ? stele_err_text(err) : message);
}

enum stele_err stele_client__no_topic(struct stele_error *error, const char *topic)
{
    return stele_error_set(
        error, STELE_UNKNOWN_TOPIC_OR_PARTITION,
        "there is no topic '%.200s'; stele topic list shows those that are, stele topic create makes one", topic);
}

int32_t stele_client__timeout_ms(const struct stele_client *client)
{
    return (int32_t)stele_settings_int(client->settings, "request.timeout.ms");
}

struct topic_wanted {
    const char *name;
    bool may_make;
    struct stele_uuid topic_id;
    int32_t partitions;
};

static void take_topic(struct stele_waited *waited, const struct stele_response *response)
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
    waited->is_final = waited->err == STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (waited->is_final)
        (void)stele_client__no_topic(waited->error, wanted->name);
    if (waited->err == STELE_OK && wanted->partitions <= 0)
        waited->err = STELE_LEADER_NOT_AVAILABLE;
}

static enum stele_err find_topic(struct stele_client *client, struct topic_wanted *wanted,
                                 struct stele_uuid *out_topic_id, int32_t *out_partitions, struct stele_error *error)
{
    struct stele_waited waited = {.take = take_topic, .error = error, .arg = wanted};
    struct stele_request request = {
        .header.api = STELE_API_METADATA,
        .body.metadata = {.topics = &wanted->name, .topic_count = 1, .allow_auto_topic_creation = wanted->may_make}};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    if (err == STELE_OK) {
        *out_topic_id = wanted->topic_id;
        *out_partitions = wanted->partitions;
    }
    return err;
}

enum stele_err stele_client__topic(struct stele_client *client, const char *topic, struct stele_uuid *out_topic_id,
                                   int32_t *out_partitions, struct stele_error *error)
{
    struct topic_wanted wanted = {.name = topic};
    return find_topic(client, &wanted, out_topic_id, out_partitions, error);
}

enum stele_err stele_client__topic_to_use(struct stele_client *client, const char *topic,
                                          struct stele_uuid *out_topic_id, int32_t *out_partitions,
                                          struct stele_error *error)
{
    struct topic_wanted wanted = {.name = topic,
                                  .may_make = stele_settings_bool(client->settings, "allow.auto.create.topics")};
    return find_topic(client, &wanted, out_topic_id, out_partitions, error);
}

enum stele_err stele_client__partition(struct stele_client *client, const char *topic, int32_t partition,
                                       struct stele_uuid *out_topic_id, struct stele_error *error)
{
    int32_t partitions = 0;
    enum stele_err err = stele_client__topic(client, topic, out_topic_id, &partitions, error);
    if (err == STELE_OK && (partition < 0 || partition >= partitions))
        err = stele_error_set(error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "topic '%.200s' has partitions 0 to %d", topic,
                              partitions - 1);
    return err;
}

/* Answers */

/* In front of the object, so that its address alone frees it. */
struct answer {
    struct stele_answer_memory memory;
    max_align_t object[];
};

void *stele_answer_new(struct stele_client *client, size_t bytes)
{
    struct answer *answer = stele_mem_alloc(client->env->mem, STELE_MEM_CLIENT, sizeof(*answer) + bytes);
    if (answer == NULL)
        return NULL;
    stele_arena_init(&answer->memory.arena, client->env->mem, STELE_MEM_CLIENT, 0);
    return answer->object;
}

struct stele_answer_memory *stele_answer_of(void *object)
{
    return &STELE_CONTAINER_OF(object, struct answer, object)->memory;
}

void stele_answer_free(void *object)
{
    if (object == NULL)
        return;
    struct answer *answer = STELE_CONTAINER_OF(object, struct answer, object);
    struct stele_mem *mem = answer->memory.arena.mem;
    stele_arena_deinit(&answer->memory.arena);
    stele_mem_free(mem, answer);
}

void *stele_answer_alloc(struct stele_answer_memory *memory, size_t bytes)
{
    void *ptr = stele_arena_alloc(&memory->arena, bytes);
    memory->is_out_of_memory |= ptr == NULL;
    return ptr;
}

void *stele_answer_list(struct stele_answer_memory *memory, size_t count)
{
    void *ptr = stele_arena_array(&memory->arena, count + 1, sizeof(void *));
    memory->is_out_of_memory |= ptr == NULL;
    return ptr;
}

const char *stele_answer_text(struct stele_answer_memory *memory, const char *text)
{
    if (text == NULL)
        return NULL;
    const char *copy = stele_arena_string(&memory->arena, text, strlen(text));
    memory->is_out_of_memory |= copy == NULL;
    return copy;
}

const char *stele_answer_uuid(struct stele_answer_memory *memory, const struct stele_uuid *uuid)
{
    char text[STELE_UUID_TEXT_BYTES];
    stele_uuid_text(uuid, text);
    return stele_answer_text(memory, text);
}

const char *stele_answer_error(struct stele_answer_memory *memory, enum stele_err err, const char *message)
{
    if (err == STELE_OK)
        return "";
    return message == NULL || message[0] == 0 ? stele_err_text(err) : stele_answer_text(memory, message);
}

struct stele_result stele_answer_finish(enum stele_err err, const struct stele_error *error, void *object,
                                        void **out_object)
{
    if (err == STELE_OK && (object == NULL || stele_answer_of(object)->is_out_of_memory))
        err = STELE_NO_MEMORY;
    if (err == STELE_OK)
        *out_object = object;
    else
        stele_answer_free(object);
    return stele_client__result(err, err == STELE_NO_MEMORY ? "" : error->text);
}
