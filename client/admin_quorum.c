/* Admin calls on the metadata quorum. What its leader knows is asked of the leader: whoever else answers says who that
 * is, and the metadata where. */
#include "base/sort.h"
#include "client/admin_internal.h"

#include <string.h>

/* Describing */

struct wanted {
    struct stele_quorum_description *quorum;
    int32_t leader_id; /* of whoever does not lead; -1: none said so */
};

static void make_member(struct stele_answer_memory *memory, const struct stele_described_voter *from,
                        struct stele_quorum_member *to)
{
    *to = (struct stele_quorum_member){.node_id = from->node_id,
                                       .directory_id = stele_answer_uuid(memory, &from->directory_id),
                                       .host = stele_answer_text(memory, from->host),
                                       .port = from->port,
                                       .log_end_offset = from->log_end_offset,
                                       .lag = -1,
                                       .fetched_ms = from->last_fetch_ms,
                                       .caught_up_ms = from->last_caught_up_ms};
}

static int compare_members(const void *a, const void *b)
{
    const struct stele_quorum_member *left = *(const struct stele_quorum_member *const *)a;
    const struct stele_quorum_member *right = *(const struct stele_quorum_member *const *)b;
    if (left->is_voter != right->is_voter)
        return left->is_voter ? -1 : 1;
    return (left->node_id > right->node_id) - (left->node_id < right->node_id);
}

/* Voters and observers come as two lists and are told as one. */
static void make_members(struct stele_answer_memory *memory, const struct stele_describe_quorum_response *from,
                         struct stele_quorum_description *quorum)
{
    size_t count = from->voter_count + from->observer_count;
    struct stele_quorum_member **list = stele_answer_list(memory, count);
    int64_t end = -1;
    for (size_t i = 0; i < from->voter_count; i++)
        end = from->voters[i].node_id == from->leader_id ? from->voters[i].log_end_offset : end;
    for (size_t i = 0; i < count && !memory->is_out_of_memory; i++) {
        bool is_voter = i < from->voter_count;
        struct stele_quorum_member *member = list[i] = stele_answer_alloc(memory, sizeof(*member));
        if (member == NULL)
            return;
        make_member(memory, is_voter ? &from->voters[i] : &from->observers[i - from->voter_count], member);
        member->is_voter = is_voter;
        member->is_leader = is_voter && member->node_id == from->leader_id;
        if (end >= 0 && member->log_end_offset >= 0)
            member->lag = stele_max_i64(end - member->log_end_offset, 0);
    }
    if (memory->is_out_of_memory)
        return;
    stele_sort(list, count, sizeof(*list), compare_members);
    quorum->member_count = count;
    quorum->members = (const struct stele_quorum_member *const *)list;
}

static void take_quorum(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_describe_quorum_response *from = &response->body.describe_quorum;
    struct wanted *wanted = waited->arg;
    struct stele_answer_memory *memory = stele_answer_of(wanted->quorum);
    stele_waited_end(waited, from->err, from->message);
    wanted->leader_id = from->leader_id;
    if (from->err != STELE_OK)
        return;
    *wanted->quorum = (struct stele_quorum_description){.node_id = from->node_id,
                                                        .role = stele_answer_text(memory, from->role),
                                                        .leader_id = from->leader_id,
                                                        .leader_epoch = from->leader_epoch,
                                                        .high_watermark = from->high_watermark};
    make_members(memory, from, wanted->quorum);
}

static void take_places(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_metadata_response *metadata = &response->body.metadata;
    struct stele_client *client = waited->arg;
    stele_waited_end(waited, metadata->err, NULL);
    if (waited->err == STELE_OK)
        waited->err = stele_client__take_nodes(client, metadata->nodes, metadata->node_count);
}

/* The node of that id, asking where it is; NULL: whichever, and another one than last time. */
static struct stele_client_node *look_for(struct stele_client *client, int32_t node_id, int64_t until)
{
    struct stele_client_node *node = stele_client__node(client, node_id);
    if (node == NULL && node_id >= 0) {
        struct stele_error error = {.text = ""};
        struct stele_waited waited = {.take = take_places, .error = &error, .arg = client};
        struct stele_request request = {.header.api = STELE_API_METADATA};
        if (stele_client__wait_once(client, &waited, &request, until) == STELE_OK)
            node = stele_client__node(client, node_id);
    }
    if (node == NULL)
        stele_link_drop(&client->any.links[STELE_FOR_LOOKING]); /* the next connection is to the next address */
    return node;
}

static enum stele_err ask(struct stele_client *client, bool is_local, struct wanted *wanted, struct stele_error *error)
{
    int64_t until = stele_client__until_ms(client);
    struct stele_waited waited = {.purpose = STELE_FOR_LOOKING, .take = take_quorum, .error = error, .arg = wanted};
    struct stele_backoff backoff = {0};
    enum stele_err err;
    do {
        struct stele_request request = {.header.api = STELE_API_DESCRIBE_QUORUM,
                                        .body.describe_quorum.is_local = is_local};
        wanted->leader_id = -1;
        err = stele_client__wait_once(client, &waited, &request, until);
        if (err == STELE_OK || (waited.is_done && waited.is_final))
            return err;
        waited.node = err == STELE_NOT_CONTROLLER ? look_for(client, wanted->leader_id, until) : NULL;
    } while (stele_client__wait_to_retry(client, &backoff, err, until));
    return stele_client__explain(client, &waited);
}

struct stele_result stele_quorum_describe(struct stele_client *client, bool is_local,
                                          struct stele_quorum_description **out_quorum)
{
    struct stele_error error = {.text = ""};
    struct wanted wanted = {.quorum = stele_answer_new(client, sizeof(*wanted.quorum))};
    enum stele_err err = wanted.quorum == NULL ? STELE_NO_MEMORY : ask(client, is_local, &wanted, &error);
    void *made = NULL;
    struct stele_result result = stele_answer_finish(err, &error, wanted.quorum, &made);
    if (result.code == STELE_OK)
        *out_quorum = made;
    return result;
}

void stele_quorum_description_free(struct stele_quorum_description *quorum)
{
    stele_answer_free(quorum);
}

/* Changing */

static void take_altered(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_alter_voters_response *altered = &response->body.alter_voters;
    stele_waited_end(waited, altered->err, altered->message);
}

static struct stele_result alter(struct stele_client *client, enum stele_voter_change change, int32_t node_id,
                                 const char *directory_id)
{
    struct stele_error error = {.text = ""};
    struct stele_uuid directory = {.bytes = {0}};
    if (directory_id != NULL && stele_uuid_parse(directory_id, strlen(directory_id), &directory) != STELE_OK)
        return stele_client__failure(STELE_INVALID_ARGUMENT, "'%.100s' is no directory id", directory_id);
    struct stele_waited waited = {.take = take_altered, .error = &error, .is_change = true};
    struct stele_request request = {.header.api = STELE_API_ALTER_VOTERS,
                                    .body.alter_voters = {.change = change,
                                                          .node_id = node_id,
                                                          .directory_id = directory,
                                                          .timeout_ms = stele_client__timeout_ms(client)}};
    enum stele_err err = stele_client__wait_for(client, &waited, &request);
    return stele_client__result(err, error.text);
}

struct stele_result stele_quorum_add(struct stele_client *client, int32_t node_id, const char *directory_id)
{
    return alter(client, STELE_VOTER_ADD, node_id, directory_id);
}

struct stele_result stele_quorum_remove(struct stele_client *client, int32_t node_id, const char *directory_id)
{
    return alter(client, STELE_VOTER_REMOVE, node_id, directory_id);
}

struct stele_result stele_quorum_readmit(struct stele_client *client, int32_t node_id, const char *directory_id)
{
    return alter(client, STELE_VOTER_READMIT, node_id, directory_id);
}
