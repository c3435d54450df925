#include "node/isr_wish.h"

#include "node/node_struct.h"

static void wish_home(struct stele_task *task)
{
    struct stele_isr_wish *wish = STELE_CONTAINER_OF(task, struct stele_isr_wish, task);
    struct stele_shard *shard = wish->shard;
    struct stele_partition *partition = stele_partition_find(shard, &wish->key);
    struct stele_isr_answer answer = wish->answer;
    stele_list_remove(&wish->link);
    stele_mem_free(shard->env->mem, wish);
    if (partition != NULL)
        stele_replica__wish_answered(partition, &answer);
}

void stele_isr_wish_answer(struct stele_isr_wish *wish, const struct stele_isr_answer *answer)
{
    struct stele_shard *shard = wish->shard;
    wish->answer = *answer;
    wish->answer.change_id = wish->change.change_id;
    wish->task.run = wish_home;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &wish->task);
}

static void wish_arrived(struct stele_task *task)
{
    struct stele_isr_wish *wish = STELE_CONTAINER_OF(task, struct stele_isr_wish, task);
    const struct stele_cluster_hooks *hooks = &wish->shard->node->hooks;
    struct stele_isr_answer answer = {.err = STELE_NOT_CONTROLLER};
    if (hooks->isr_wish != NULL)
        hooks->isr_wish(hooks->arg, wish);
    else
        stele_isr_wish_answer(wish, &answer);
}

enum stele_err stele_isr_wish_send(struct stele_partition *partition, const struct stele_isr_change *change)
{
    struct stele_shard *shard = partition->shard;
    struct stele_isr_wish *wish = stele_mem_alloc(shard->env->mem, STELE_MEM_NODE, sizeof(*wish));
    if (wish == NULL)
        return STELE_NO_MEMORY;
    wish->shard = shard;
    wish->key = partition->key;
    wish->change = *change;
    stele_list_init(&wish->held);
    stele_list_push(&shard->wishes, &wish->link);
    wish->task.run = wish_arrived;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &wish->task);
    return STELE_OK;
}

static void failed_arrived(struct stele_task *task)
{
    struct stele_partition *partition = STELE_CONTAINER_OF(task, struct stele_partition, failed_task);
    const struct stele_cluster_hooks *hooks = &partition->shard->node->hooks;
    if (hooks->partition_failed != NULL)
        hooks->partition_failed(hooks->arg, partition);
}

/* It is there when it arrives: a removed one is freed by a task that goes the same way later. */
void stele_partition_failed_send(struct stele_partition *partition)
{
    struct stele_shard *shard = partition->shard;
    if (partition->is_failed_told)
        return;
    partition->is_failed_told = true;
    partition->failed_task.run = failed_arrived;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &partition->failed_task);
}

void stele_isr_wishes_free(struct stele_shard *shard)
{
    while (!stele_list_is_empty(&shard->wishes)) {
        struct stele_isr_wish *wish = STELE_CONTAINER_OF(shard->wishes.next, struct stele_isr_wish, link);
        stele_list_remove(&wish->link);
        stele_mem_free(shard->env->mem, wish);
    }
}
