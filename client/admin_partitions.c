/* Admin calls on where partitions lie and who leads them. Any node takes them and asks the active controller. */
#include "base/sort.h"
#include "client/admin_internal.h"

#include <string.h>

static int compare_outcomes(const void *a, const void *b)
{
    const struct stele_partition_result *left = *(const struct stele_partition_result *const *)a;
    const struct stele_partition_result *right = *(const struct stele_partition_result *const *)b;
    int order = strcmp(left->topic, right->topic);
    return order != 0 ? order : (left->partition > right->partition) - (left->partition < right->partition);
}

void stele_answer_sort_outcomes(struct stele_partition_results *outcomes)
{
    if (!stele_answer_of(outcomes)->is_out_of_memory)
        stele_sort((void *)(uintptr_t)outcomes->outcomes, outcomes->outcome_count, sizeof(void *), compare_outcomes);
}

struct stele_partition_result stele_answer_outcome(struct stele_answer_memory *memory, const char *topic,
                                                   int32_t partition, enum stele_err err, const char *message)
{
    return (struct stele_partition_result){.topic = stele_answer_text(memory, topic),
                                           .partition = partition,
                                           .code = (int)err,
                                           .text = stele_answer_error(memory, err, message),
                                           .leader_id = -1,
                                           .leader_epoch = -1,
                                           .lost_first_offset = -1,
                                           .lost_end_offset = -1};
}

/* Asks; `waited` comes with `take`. */
static struct stele_result ask(struct stele_client *client, struct stele_request *request,
                               void (*take)(struct stele_waited *waited, const struct stele_response *response),
                               struct stele_partition_results **out_outcomes)
{
    struct stele_error error = {.text = ""};
    struct stele_partition_results *outcomes = stele_answer_new(client, sizeof(*outcomes));
    enum stele_err err = outcomes == NULL ? STELE_NO_MEMORY : STELE_OK;
    void *made = NULL;
    if (err == STELE_OK) {
        struct stele_waited waited = {.take = take, .error = &error, .arg = outcomes};
        err = stele_client__wait_for(client, &waited, request);
    }
    struct stele_result result = stele_answer_finish(err, &error, outcomes, &made);
    if (result.code == STELE_OK)
        *out_outcomes = made;
    return result;
}

void stele_partition_results_free(struct stele_partition_results *outcomes)
{
    stele_answer_free(outcomes);
}

/* Ends the wait with the answer's own error; NULL when it has no outcomes. */
static struct stele_partition_results *outcomes_of(struct stele_waited *waited, enum stele_err err, const char *message,
                                                   size_t count)
{
    struct stele_partition_results *outcomes = waited->arg;
    stele_waited_end(waited, err, message);
    if (err != STELE_OK)
        return NULL;
    outcomes->outcome_count = count;
    return outcomes;
}

/* Reassigning */

static void make_reassigned(struct stele_answer_memory *memory, const struct stele_reassign_result *from,
                            struct stele_partition_result *to)
{
    *to = stele_answer_outcome(memory, from->topic, from->partition, from->err, from->message);
}

static void take_reassigned(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_reassign_response *from = &response->body.reassign;
    struct stele_partition_results *outcomes = outcomes_of(waited, from->err, from->message, from->result_count);
    if (outcomes == NULL)
        return;
    STELE_ANSWER_LIST(stele_answer_of(outcomes), outcomes->outcomes, from->result_count, from->results,
                      struct stele_partition_result, make_reassigned);
    stele_answer_sort_outcomes(outcomes);
}

struct stele_result stele_partitions_reassign(struct stele_client *client, const struct stele_partition_wish *wishes,
                                              size_t count, struct stele_partition_results **out_outcomes)
{
    struct stele_mem *mem = client->env->mem;
    struct stele_reassigned_partition *partitions =
        stele_mem_array(mem, STELE_MEM_CLIENT, count + 1, sizeof(*partitions));
    if (partitions == NULL)
        return stele_client__result(STELE_NO_MEMORY, "");
    for (size_t i = 0; i < count; i++)
        partitions[i] = (struct stele_reassigned_partition){
            .topic = wishes[i].topic,
            .partition = wishes[i].partition,
            .replicas = wishes[i].replicas,
            .replica_count = wishes[i].replicas == NULL ? 0 : wishes[i].replica_count,
            .is_cancelled = wishes[i].replicas == NULL};
    struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                    .body.reassign = {.partitions = partitions,
                                                      .partition_count = count,
                                                      .timeout_ms = stele_client__timeout_ms(client)}};
    struct stele_result result = ask(client, &request, take_reassigned, out_outcomes);
    stele_mem_free(mem, partitions);
    return result;
}

/* Electing */

static void make_elected(struct stele_answer_memory *memory, const struct stele_elect_leaders_result *from,
                         struct stele_partition_result *to)
{
    *to = stele_answer_outcome(memory, from->topic, from->partition, from->err, from->message);
    if (from->err == STELE_OK)
        to->text = stele_answer_text(memory, from->message);
    to->leader_id = from->leader_id;
    to->leader_epoch = from->leader_epoch;
    to->lost_first_offset = from->lost_first_offset;
    to->lost_end_offset = from->lost_end_offset;
}

static void take_elected(struct stele_waited *waited, const struct stele_response *response)
{
    const struct stele_elect_leaders_response *from = &response->body.elect_leaders;
    struct stele_partition_results *outcomes = outcomes_of(waited, from->err, from->message, from->result_count);
    if (outcomes == NULL)
        return;
    STELE_ANSWER_LIST(stele_answer_of(outcomes), outcomes->outcomes, from->result_count, from->results,
                      struct stele_partition_result, make_elected);
    stele_answer_sort_outcomes(outcomes);
}

struct stele_result stele_partitions_elect(struct stele_client *client, bool is_unclean,
                                           const struct stele_partition_choice *choices, size_t count,
                                           struct stele_partition_results **out_outcomes)
{
    struct stele_mem *mem = client->env->mem;
    struct stele_partition_name *names = stele_mem_array(mem, STELE_MEM_CLIENT, count + 1, sizeof(*names));
    if (names == NULL)
        return stele_client__result(STELE_NO_MEMORY, "");
    for (size_t i = 0; i < count; i++)
        names[i] = (struct stele_partition_name){.topic = choices[i].topic, .partition = choices[i].partition};
    struct stele_request request = {
        .header.api = STELE_API_ELECT_LEADERS,
        .body.elect_leaders = {.mode = is_unclean ? STELE_ELECTION_UNCLEAN : STELE_ELECTION_PREFERRED,
                               .partitions = names,
                               .partition_count = count,
                               .timeout_ms = stele_client__timeout_ms(client)}};
    struct stele_result result = ask(client, &request, take_elected, out_outcomes);
    stele_mem_free(mem, names);
    return result;
}
