/* What the admin calls share: polling until they are answered, and the objects that answers become. */
#include "client/admin_internal.h"

#include <stdio.h>
#include <string.h>

static void waited_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_waited *waited = STELE_CONTAINER_OF(call, struct stele_waited, call);
    waited->is_done = true;
    waited->err = err;
    if (err == STELE_OK)
        waited->take(waited, answer->response);
}

enum stele_err stele_client__wait_once(struct stele_client *client, struct stele_waited *waited,
                                       struct stele_request *request, int64_t until)
{
    struct stele_client_node *node = waited->node != NULL ? waited->node : &client->any;
    waited->call = (struct stele_call){.done = waited_done};
    stele_list_init(&waited->call.link);
    waited->is_done = false;
    waited->is_final = false;
    waited->error->text[0] = 0;
    waited->err = stele_client__call(node, waited->purpose, &waited->call, request, NULL);
    if (waited->err != STELE_OK)
        return waited->err;
    waited->call.deadline_ms = stele_min_i64(waited->call.deadline_ms, until);
    while (!waited->is_done) {
        (void)stele_client_poll(client, 1000);
        if (!waited->is_done && stele_client__is_unreached(node, waited->purpose, &waited->call)) {
            stele_client__cancel(node, waited->purpose, &waited->call);
            waited->err = STELE_UNREACHABLE;
            break;
        }
    }
    return waited->err;
}

bool stele_client__wait_to_retry(struct stele_client *client, struct stele_backoff *backoff, enum stele_err err,
                                 int64_t until)
{
    if (!stele_client__retry(client, backoff, err) || backoff->at_ms >= until)
        return false;
    for (int64_t now = stele_client__now_ms(client); now < backoff->at_ms; now = stele_client__now_ms(client))
        (void)stele_client_poll(client, (int)(backoff->at_ms - now));
    return true;
}

enum stele_err stele_client__explain(struct stele_client *client, struct stele_waited *waited)
{
    enum stele_err err = waited->err;
    if (waited->error->text[0] != 0)
        return err;
    if (err == STELE_UNSUPPORTED_VERSION)
        return stele_error_set(waited->error, err,
                               "the node that answers does not serve this: it runs an older version");
    if (err != STELE_CLOSED && err != STELE_REQUEST_TIMED_OUT && err != STELE_UNREACHABLE)
        return stele_error_set(waited->error, err, "%s", stele_err_text(err));
    bool is_named = waited->node != NULL && waited->node->node_id >= 0;
    return stele_error_set(waited->error, err, "no answer from %.150s (%.250s): is steled running there?",
                           is_named ? waited->node->address : client->bootstrap,
                           client->group.trouble[0] != 0 ? client->group.trouble : stele_err_text(err));
}

/* A change that is there already, or cannot be any more, was perhaps made by the try before; one that was refused may
 * be made by the try after. */
static enum stele_err tell_doubt(struct stele_waited *waited, const char *which)
{
    char text[STELE_ERROR_TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s", waited->error->text);
    return stele_error_set(waited->error, waited->err, "%.300s; %s try got no answer and may have done it", text,
                           which);
}

/* What the tries of one call came to. */
struct tries {
    struct stele_error told; /* by the last one that was answered */
    bool is_earlier_open;    /* one before that may have done it */
    bool is_later_open;      /* one after it */
};

static void note_try(struct tries *tries, const struct stele_waited *waited, enum stele_err err)
{
    bool is_lost = err == STELE_CLOSED || err == STELE_REQUEST_TIMED_OUT;
    if (waited->error->text[0] == 0) {
        tries->is_later_open = tries->is_later_open || (is_lost && waited->call.is_sent);
        return;
    }
    /* A node may say itself that it could not wait for it. */
    bool was_in_doubt = tries->told.err == STELE_REQUEST_TIMED_OUT;
    tries->is_earlier_open = tries->is_earlier_open || tries->is_later_open || was_in_doubt;
    tries->is_later_open = false;
    tries->told = *waited->error;
}

enum stele_err stele_client__wait_for(struct stele_client *client, struct stele_waited *waited,
                                      struct stele_request *request)
{
    int64_t until = stele_client__until_ms(client);
    struct stele_backoff backoff = {0};
    struct tries tries = {.told.text = ""};
    enum stele_err err;
    do {
        err = stele_client__wait_once(client, waited, request, until);
        if (err == STELE_OK)
            return err;
        note_try(&tries, waited, err);
        if (waited->is_done && waited->is_final)
            break;
    } while (stele_client__wait_to_retry(client, &backoff, err, until));
    if (tries.told.text[0] != 0) { /* what a node said is worth more than that time ran out */
        *waited->error = tries.told;
        waited->err = tries.told.err;
        if (waited->is_change && (tries.is_later_open || tries.is_earlier_open))
            return tell_doubt(waited, tries.is_later_open ? "a later" : "an earlier");
    }
    return stele_client__explain(client, waited);
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

int64_t stele_client__until_ms(const struct stele_client *client)
{
    return stele_client__now_ms(client) + stele_settings_int(client->settings, "request.timeout.ms");
}

/* The rest is for the way. */
int32_t stele_client__timeout_ms(const struct stele_client *client)
{
    return (int32_t)(stele_settings_int(client->settings, "request.timeout.ms") * 9 / 10);
}

struct topic_wanted {
    const char *name;
    bool may_make;
    struct stele_leaders *leaders;
};

static void take_topic(struct stele_waited *waited, const struct stele_response *response)
{
    const struct topic_wanted *wanted = waited->arg;
    const struct stele_metadata_response *metadata = &response->body.metadata;
    waited->err = metadata->err != STELE_OK ? metadata->err : STELE_UNKNOWN_TOPIC_OR_PARTITION;
    for (size_t i = 0; i < metadata->topic_count; i++) {
        const struct stele_metadata_topic *topic = &metadata->topics[i];
        if (strcmp(topic->name, wanted->name) != 0)
            continue;
        waited->err = topic->err;
        if (waited->err == STELE_OK && topic->partition_count == 0)
            waited->err = STELE_LEADER_NOT_AVAILABLE;
        if (waited->err == STELE_OK)
            waited->err = stele_client__take_nodes(wanted->leaders->client, metadata->nodes, metadata->node_count);
        if (waited->err == STELE_OK)
            waited->err = stele_leaders__take(wanted->leaders, topic);
    }
    waited->is_final = waited->err == STELE_UNKNOWN_TOPIC_OR_PARTITION;
    if (waited->is_final)
        (void)stele_client__no_topic(waited->error, wanted->name);
}

static enum stele_err find_topic(struct stele_client *client, struct topic_wanted *wanted, struct stele_error *error)
{
    struct stele_waited waited = {.take = take_topic, .error = error, .arg = wanted};
    struct stele_request request = {
        .header.api = STELE_API_METADATA,
        .body.metadata = {.topics = &wanted->name, .topic_count = 1, .allow_auto_topic_creation = wanted->may_make}};
    wanted->leaders->client = client;
    return stele_client__wait_for(client, &waited, &request);
}

enum stele_err stele_client__topic(struct stele_client *client, const char *topic, struct stele_leaders *leaders,
                                   struct stele_error *error)
{
    struct topic_wanted wanted = {.name = topic, .leaders = leaders};
    return find_topic(client, &wanted, error);
}

enum stele_err stele_client__topic_to_use(struct stele_client *client, const char *topic, struct stele_leaders *leaders,
                                          struct stele_error *error)
{
    struct topic_wanted wanted = {.name = topic,
                                  .may_make = stele_settings_bool(client->settings, "allow.auto.create.topics"),
                                  .leaders = leaders};
    return find_topic(client, &wanted, error);
}

/* Where the partition is now, into the request. NULL: nobody leads it. */
static enum stele_err find_place(struct stele_client *client, const struct stele_place *place,
                                 struct stele_client_node **out_node, struct stele_error *error)
{
    struct stele_leaders leaders = {.client = client};
    int32_t partition = place->partition;
    enum stele_err err = stele_client__topic(client, place->topic, &leaders, error);
    if (err == STELE_OK && (partition < 0 || partition >= leaders.count))
        err = stele_error_set(error, STELE_UNKNOWN_TOPIC_OR_PARTITION, "topic '%.200s' has partitions 0 to %d",
                              place->topic, leaders.count - 1);
    if (err == STELE_OK) {
        *place->topic_id = leaders.topic_id;
        *place->leader_epoch = stele_leaders__epoch(&leaders, partition);
        *out_node = stele_leaders__route(&leaders, partition);
    }
    stele_leaders__free(&leaders);
    return err;
}

enum stele_err stele_client__wait_at_leader(struct stele_client *client, struct stele_waited *waited,
                                            struct stele_request *request, const struct stele_place *place)
{
    int64_t until = stele_client__until_ms(client);
    struct stele_backoff backoff = {0};
    enum stele_err err;
    do {
        err = find_place(client, place, &waited->node, waited->error);
        if (err != STELE_OK)
            return err;
        if (!client->is_cluster)
            return stele_client__wait_for(client, waited, request);
        waited->err = err = STELE_LEADER_NOT_AVAILABLE;
        if (waited->node != NULL)
            err = stele_client__wait_once(client, waited, request, until);
        if (err == STELE_OK || (waited->node != NULL && waited->is_done && waited->is_final))
            return err;
    } while (stele_client__wait_to_retry(client, &backoff, err, until));
    return stele_client__explain(client, waited);
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
