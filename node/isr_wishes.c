#include "node/isr_wishes.h"

#include "base/check.h"
#include "node/isr_wish.h"
#include "node/node_struct.h"
#include "node/partition.h"

enum { RETRY_MS = 50, TELL_FAILED_MS = 500, PARTITIONS_MAX = 10000, ARENA_BYTES_MAX = 64 << 20 };

static struct stele_isr_wish *wish_at(struct stele_list *held)
{
    return STELE_CONTAINER_OF(held, struct stele_isr_wish, held);
}

static struct stele_shard *shard_of(const struct stele_isr_wishes *wishes)
{
    return wishes->control->shard;
}

static void post(struct stele_isr_wishes *wishes)
{
    struct stele_env *env = shard_of(wishes)->env;
    if (wishes->is_posted)
        return;
    wishes->is_posted = true;
    env->ops->post(env, &wishes->task);
}

static void try_later(struct stele_isr_wishes *wishes)
{
    struct stele_shard *shard = shard_of(wishes);
    wishes->retry_ms = stele_env_mono_ms(shard->env) + RETRY_MS;
    stele_shard_arm(shard, &wishes->timer, wishes->retry_ms);
}

/* Those that were sent are the first again. */
static void take_back(struct stele_isr_wishes *wishes)
{
    struct stele_list *front = wishes->waiting.next;
    while (!stele_list_is_empty(&wishes->sent)) {
        struct stele_list *first = wishes->sent.next;
        stele_list_remove(first);
        stele_list_push(front, first); /* before it */
    }
    wishes->sent_count = 0;
}

/* Replicas that failed. */

static bool is_to_be_told(const struct stele_isr_wishes *wishes, const struct stele_partition *partition)
{
    const struct stele_image *image = &wishes->control->mlog.image;
    const struct stele_image_partition *known =
        stele_image_partition_of(stele_image_topic_of(image, &partition->key.topic_id), partition->key.number);
    int32_t self = wishes->control->node->node_id;
    return known != NULL && stele_node_set_has(&known->state.replicas, self) &&
           !stele_node_set_has(&known->state.offline, self);
}

static size_t count_failed(const struct stele_isr_wishes *wishes)
{
    size_t count = 0;
    for (struct stele_list *at = wishes->failed.next; at != &wishes->failed; at = at->next)
        count += is_to_be_told(wishes, STELE_CONTAINER_OF(at, struct stele_partition, failed_link));
    return count;
}

/* Damaged replicas. */

static bool is_damage_to_be_told(const struct stele_isr_wishes *wishes, const struct stele_partition *partition)
{
    const struct stele_image *image = &wishes->control->mlog.image;
    const struct stele_image_partition *known =
        stele_image_partition_of(stele_image_topic_of(image, &partition->key.topic_id), partition->key.number);
    int32_t self = wishes->control->node->node_id;
    if (known == NULL)
        return false;
    bool is_in_sync = stele_node_set_has(&known->state.isr, self);
    return known->state.isr.count > is_in_sync && (is_in_sync || stele_node_set_has(&known->state.elr, self));
}

static size_t count_damaged(const struct stele_isr_wishes *wishes)
{
    size_t count = 0;
    for (struct stele_list *at = wishes->damaged.next; at != &wishes->damaged; at = at->next)
        count += is_damage_to_be_told(wishes, STELE_CONTAINER_OF(at, struct stele_partition, damaged_link));
    return count;
}

/* Errors: NO_MEMORY. */
static enum stele_err fill_damaged(struct stele_isr_wishes *wishes)
{
    struct stele_alter_partition_request *request = &wishes->request.body.alter_partition;
    size_t count = count_damaged(wishes);
    struct stele_offline_replica *damaged = stele_arena_array(&wishes->arena, count, sizeof(*damaged));
    if (damaged == NULL && count > 0)
        return STELE_NO_MEMORY;
    for (struct stele_list *at = wishes->damaged.next; at != &wishes->damaged; at = at->next) {
        const struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, damaged_link);
        if (is_damage_to_be_told(wishes, partition) && request->damaged_count < PARTITIONS_MAX)
            damaged[request->damaged_count++] =
                (struct stele_offline_replica){.topic_id = partition->key.topic_id, .partition = partition->key.number};
    }
    request->damaged = damaged;
    return STELE_OK;
}

/* Errors: NO_MEMORY. */
static enum stele_err fill_failed(struct stele_isr_wishes *wishes)
{
    struct stele_alter_partition_request *request = &wishes->request.body.alter_partition;
    size_t count = count_failed(wishes);
    struct stele_offline_replica *failed = stele_arena_array(&wishes->arena, count, sizeof(*failed));
    if (failed == NULL && count > 0)
        return STELE_NO_MEMORY;
    for (struct stele_list *at = wishes->failed.next; at != &wishes->failed; at = at->next) {
        const struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, failed_link);
        if (is_to_be_told(wishes, partition) && request->offline_count < PARTITIONS_MAX)
            failed[request->offline_count++] =
                (struct stele_offline_replica){.topic_id = partition->key.topic_id, .partition = partition->key.number};
    }
    request->offline = failed;
    return STELE_OK;
}

/* Answers. */

static bool is_answer_of(const struct stele_alter_partition_result *result, const struct stele_isr_wish *wish)
{
    return result->partition == wish->key.number && stele_uuid_equal(&result->topic_id, &wish->key.topic_id);
}

static bool is_whole(struct stele_isr_wishes *wishes, const struct stele_alter_partition_response *response)
{
    size_t at = 0;
    if (response->result_count != wishes->sent_count)
        return false;
    for (struct stele_list *held = wishes->sent.next; held != &wishes->sent; held = held->next) {
        if (!is_answer_of(&response->results[at++], wish_at(held)))
            return false;
    }
    return true;
}

static void tell(struct stele_isr_wish *wish, const struct stele_alter_partition_result *result)
{
    struct stele_isr_answer answer = {.err = result->err,
                                      .leader_epoch = result->leader_epoch,
                                      .partition_epoch = result->partition_epoch,
                                      .min_isr = result->min_isr};
    /* A set that cannot be is none: the machine takes it for an answer that tells nothing. */
    for (size_t i = 0; i < result->isr_count && result->isr_count <= STELE_REPLICAS_MAX; i++)
        answer.isr.ids[answer.isr.count++] = result->isr[i];
    stele_list_remove(&wish->held);
    stele_isr_wish_answer(wish, &answer);
}

/* What refuses the request as a whole says nothing of what it asks for: the controller moved, or this life is not
 * registered yet, or no more. */
static void take_answer(struct stele_isr_wishes *wishes, const struct stele_alter_partition_response *response)
{
    if (response != NULL && response->err == STELE_OK && is_whole(wishes, response)) {
        for (size_t at = 0; !stele_list_is_empty(&wishes->sent); at++)
            tell(wish_at(wishes->sent.next), &response->results[at]);
        wishes->sent_count = 0;
        wishes->tell_failed_ms = stele_env_mono_ms(shard_of(wishes)->env) + TELL_FAILED_MS;
        post(wishes);
    } else {
        take_back(wishes);
        try_later(wishes);
    }
    wishes->is_asking = false;
    stele_arena_deinit(&wishes->arena);
}

static void call_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_isr_wishes *wishes = STELE_CONTAINER_OF(call, struct stele_isr_wishes, call);
    take_answer(wishes, err == STELE_OK ? &answer->response->body.alter_partition : NULL);
}

static void alter_done(struct stele_partition_alter *alter)
{
    take_answer(STELE_CONTAINER_OF(alter, struct stele_isr_wishes, alter), &alter->response);
}

/* Requests. */

/* Errors: NO_MEMORY. */
static enum stele_err fill_one(struct stele_isr_wishes *wishes, const struct stele_isr_wish *wish,
                               struct stele_altered_partition *partition)
{
    const struct stele_isr_change *change = &wish->change;
    struct stele_isr_member *isr = stele_arena_array(&wishes->arena, (size_t)change->isr.count, sizeof(*isr));
    if (isr == NULL)
        return STELE_NO_MEMORY;
    for (int32_t i = 0; i < change->isr.count; i++)
        isr[i] = (struct stele_isr_member){.node_id = change->isr.ids[i], .node_epoch = change->node_epochs[i]};
    *partition = (struct stele_altered_partition){.topic_id = wish->key.topic_id,
                                                  .partition = wish->key.number,
                                                  .leader_epoch = change->leader_epoch,
                                                  .partition_epoch = change->partition_epoch,
                                                  .isr = isr,
                                                  .isr_count = (size_t)change->isr.count,
                                                  .damaged = change->damaged.ids,
                                                  .damaged_count = (size_t)change->damaged.count,
                                                  .is_synced = change->is_synced};
    return STELE_OK;
}

/* Errors: NO_MEMORY; what was taken is in `sent`. */
static enum stele_err fill(struct stele_isr_wishes *wishes, int64_t node_epoch)
{
    size_t count = 0;
    for (struct stele_list *held = wishes->waiting.next; held != &wishes->waiting && count < PARTITIONS_MAX;
         held = held->next)
        count++;
    struct stele_altered_partition *partitions = stele_arena_array(&wishes->arena, count, sizeof(*partitions));
    enum stele_err err = partitions != NULL || count == 0 ? STELE_OK : STELE_NO_MEMORY;
    while (err == STELE_OK && wishes->sent_count < count) {
        struct stele_list *held = wishes->waiting.next;
        err = fill_one(wishes, wish_at(held), &partitions[wishes->sent_count]);
        stele_list_remove(held);
        stele_list_push(&wishes->sent, held);
        wishes->sent_count++;
    }
    wishes->request =
        (struct stele_request){.header = {.api = STELE_API_ALTER_PARTITION},
                               .body.alter_partition = {.node_id = wishes->control->node->node_id,
                                                        .node_epoch = node_epoch,
                                                        .partitions = partitions,
                                                        .partition_count = count,
                                                        .request_number = wishes->last_number + 1,
                                                        .quorum_epoch = wishes->control->mlog.quorum.election.epoch}};
    if (err == STELE_OK)
        err = fill_damaged(wishes);
    return err == STELE_OK ? fill_failed(wishes) : err;
}

static enum stele_err ask(struct stele_isr_wishes *wishes, int64_t node_epoch)
{
    struct stele_controller *control = wishes->control;
    stele_arena_init(&wishes->arena, control->shard->env->mem, STELE_MEM_METADATA, ARENA_BYTES_MAX);
    enum stele_err err = fill(wishes, node_epoch);
    if (err == STELE_OK && wishes->peer != NULL) {
        wishes->call = (struct stele_call){.done = call_done};
        err = stele_peers_call(wishes->peer, &wishes->call, &wishes->request);
    } else if (err == STELE_OK) {
        wishes->alter = (struct stele_partition_alter){
            .request = &wishes->request.body.alter_partition, .arena = &wishes->arena, .done = alter_done};
        stele_partition_alter_take(&control->active, &wishes->alter);
    }
    if (err != STELE_OK) {
        take_back(wishes);
        stele_arena_deinit(&wishes->arena);
        return err;
    }
    wishes->last_number++;
    wishes->is_asking = true;
    return STELE_OK;
}

/* When there is something to say; INT64_MAX: there is nothing. */
static int64_t due_ms(const struct stele_isr_wishes *wishes)
{
    if (!stele_list_is_empty(&wishes->waiting))
        return wishes->retry_ms;
    bool has_failed = (!stele_list_is_empty(&wishes->failed) && count_failed(wishes) > 0) ||
                      (!stele_list_is_empty(&wishes->damaged) && count_damaged(wishes) > 0);
    return has_failed ? stele_max_i64(wishes->retry_ms, wishes->tell_failed_ms) : INT64_MAX;
}

static void go_on(struct stele_isr_wishes *wishes)
{
    struct stele_controller *control = wishes->control;
    if (control == NULL || wishes->is_asking)
        return;
    int64_t at_ms = due_ms(wishes);
    stele_timer_cancel(control->shard->wheel, &wishes->timer);
    if (at_ms > stele_env_mono_ms(control->shard->env)) {
        if (at_ms != INT64_MAX)
            stele_shard_arm(control->shard, &wishes->timer, at_ms);
        return;
    }
    int32_t leader_id = control->mlog.is_running ? control->mlog.quorum.election.leader_id : STELE_NO_NODE;
    int64_t node_epoch = control->node->node_epoch;
    bool is_self = leader_id == control->node->node_id;
    wishes->peer = is_self ? NULL : stele_peers_find(&control->peers, leader_id);
    if (node_epoch < 0 || (!is_self && wishes->peer == NULL) || ask(wishes, node_epoch) != STELE_OK)
        try_later(wishes);
}

static void go_on_now(struct stele_task *task)
{
    struct stele_isr_wishes *wishes = STELE_CONTAINER_OF(task, struct stele_isr_wishes, task);
    wishes->is_posted = false;
    go_on(wishes);
}

static void go_on_later(struct stele_timer *timer)
{
    go_on(STELE_CONTAINER_OF(timer, struct stele_isr_wishes, timer));
}

static void wish_came(void *arg, struct stele_isr_wish *wish)
{
    struct stele_isr_wishes *wishes = &((struct stele_controller *)arg)->wishes;
    bool is_first = stele_list_is_empty(&wishes->waiting) && !wishes->is_asking;
    stele_list_push(&wishes->waiting, &wish->held);
    if (is_first) /* as a message: those that come at the same time go with it */
        post(wishes);
}

static void partition_failed(void *arg, struct stele_partition *partition)
{
    struct stele_isr_wishes *wishes = &((struct stele_controller *)arg)->wishes;
    stele_list_push(&wishes->failed, &partition->failed_link);
    wishes->tell_failed_ms = INT64_MIN;
    post(wishes);
}

static void partition_damaged(void *arg, struct stele_partition *partition, bool is_damaged)
{
    struct stele_isr_wishes *wishes = &((struct stele_controller *)arg)->wishes;
    if (is_damaged && !stele_list_is_empty(&partition->damaged_link))
        return; /* it is said again and again */
    stele_list_remove(&partition->damaged_link);
    if (!is_damaged)
        return;
    stele_list_push(&wishes->damaged, &partition->damaged_link);
    wishes->tell_failed_ms = INT64_MIN;
    post(wishes);
}

void stele_isr_wishes_look(struct stele_isr_wishes *wishes)
{
    if (wishes->control != NULL && (!stele_list_is_empty(&wishes->failed) || !stele_list_is_empty(&wishes->damaged)))
        post(wishes);
}

/* Life. */

void stele_isr_wishes_begin(struct stele_isr_wishes *wishes, struct stele_controller *control)
{
    struct stele_cluster_hooks *hooks = &control->node->hooks;
    STELE_ASSERT(wishes->control == NULL);
    *wishes = (struct stele_isr_wishes){.control = control, .task = {.run = go_on_now}};
    stele_list_init(&wishes->waiting);
    stele_list_init(&wishes->sent);
    stele_list_init(&wishes->failed);
    stele_list_init(&wishes->damaged);
    wishes->tell_failed_ms = wishes->retry_ms = INT64_MIN;
    stele_timer_init(&wishes->timer, go_on_later);
    hooks->isr_wish = wish_came;
    hooks->partition_failed = partition_failed;
    hooks->partition_damaged = partition_damaged;
    hooks->arg = control;
}

static void take_part_no_longer(struct stele_isr_wishes *wishes)
{
    struct stele_controller *control = wishes->control;
    stele_timer_cancel(control->shard->wheel, &wishes->timer);
    control->node->hooks.isr_wish = NULL;
    control->node->hooks.partition_failed = NULL;
    control->node->hooks.partition_damaged = NULL;
    while (!stele_list_is_empty(&wishes->failed))
        stele_list_remove(wishes->failed.next);
    while (!stele_list_is_empty(&wishes->damaged))
        stele_list_remove(wishes->damaged.next);
    if (wishes->is_asking && wishes->peer != NULL)
        stele_link_cancel(&wishes->peer->control, &wishes->call);
    else if (wishes->is_asking)
        stele_partition_alter_drop(&wishes->alter);
    if (wishes->is_asking)
        stele_arena_deinit(&wishes->arena);
    wishes->is_asking = false;
    take_back(wishes);
    wishes->control = NULL;
}

void stele_isr_wishes_end(struct stele_isr_wishes *wishes)
{
    struct stele_isr_answer answer = {.err = STELE_NOT_CONTROLLER};
    if (wishes->control == NULL)
        return;
    take_part_no_longer(wishes);
    while (!stele_list_is_empty(&wishes->waiting)) {
        struct stele_isr_wish *wish = wish_at(wishes->waiting.next);
        stele_list_remove(&wish->held);
        stele_isr_wish_answer(wish, &answer);
    }
}

void stele_isr_wishes_drop(struct stele_isr_wishes *wishes)
{
    if (wishes->control == NULL)
        return;
    take_part_no_longer(wishes);
    while (!stele_list_is_empty(&wishes->waiting))
        stele_list_remove(wishes->waiting.next);
}
