#include "client/producer_internal.h"

#include <string.h>

enum { UNPACKED_BYTES_MAX = 1 << 30 };

/* Records of a sealed batch into a new one, from where the walker stands. */
static enum stele_err copy_records(struct stele_batch_builder *builder, struct stele_record_walker *walker,
                                   int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        struct stele_record record;
        enum stele_err err = stele_record_next(walker, &record);
        if (err == STELE_OK)
            err = stele_batch_builder_add_walked(builder, &record);
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

/* The half of a stamped batch goes on with its sequences. */
static struct stele_batch_options half_options(const struct sealed *whole, const struct stele_record_walker *walker,
                                               int32_t from)
{
    struct stele_batch_options options = whole->queue->producer->options;
    if (!whole->is_stamped || !whole->queue->producer->is_idempotent)
        return options;
    options.producer_id = walker->header.producer_id;
    options.producer_epoch = walker->header.producer_epoch;
    options.base_sequence = stele_sequence_add(walker->header.base_sequence, from);
    return options;
}

/* One half of a batch as a batch of its own, in no queue yet. */
static enum stele_err make_half(struct stele_record_walker *walker, const struct sealed *whole, int32_t from,
                                struct sealed **out_half)
{
    struct stele_producer *producer = whole->queue->producer;
    struct stele_mem *mem = producer->client->env->mem;
    struct stele_batch_options options = half_options(whole, walker, from);
    int32_t count = from == 0 ? whole->count / 2 : whole->count - from;
    struct sealed *half = stele_mem_alloc(mem, STELE_MEM_CLIENT, sizeof(*half));
    uint64_t *tags = stele_mem_array(mem, STELE_MEM_CLIENT, (size_t)count, sizeof(*tags));
    struct stele_batch_builder *builder = stele_batch_builder_new(mem, &options);
    enum stele_err err = half == NULL || tags == NULL || builder == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK)
        err = copy_records(builder, walker, count);
    if (err == STELE_OK)
        err = stele_batch_builder_finish(builder, &half->batch);
    stele_batch_builder_free(builder);
    if (err != STELE_OK) {
        stele_mem_free(mem, tags);
        stele_mem_free(mem, half);
        return err;
    }
    memcpy(tags, whole->tags + from, (size_t)count * sizeof(*tags));
    half->queue = whole->queue;
    half->tags = tags;
    half->count = count;
    half->deadline_ms = whole->deadline_ms;
    half->is_doubtful = whole->is_doubtful;
    half->is_stamped = whole->is_stamped;
    stele_list_init(&half->link);
    *out_half = half;
    return STELE_OK;
}

static void discard_half(struct sealed *half)
{
    struct stele_mem *mem = half->queue->producer->client->env->mem;
    stele_buf_unref(half->batch);
    stele_mem_free(mem, half->tags);
    stele_mem_free(mem, half);
}

static void put_first(struct sealed *sealed)
{
    struct part_queue *queue = sealed->queue;
    queue->producer->buffered_bytes += (int64_t)sealed->batch->count;
    queue->sealed_count++;
    queue->unstamped_count += !sealed->is_stamped;
    stele_list_push(queue->sealed.next, &sealed->link); /* before the first one of now */
}

enum stele_err stele_producer__split(struct part_queue *queue)
{
    struct sealed *whole = stele_producer__first(queue), *first = NULL, *second = NULL;
    struct stele_record_walker walker;
    enum stele_err err = stele_record_walker_init(&walker, queue->producer->client->env->mem, whole->batch->bytes,
                                                  whole->batch->count, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err;
    err = make_half(&walker, whole, 0, &first);
    if (err == STELE_OK)
        err = make_half(&walker, whole, first->count, &second);
    stele_record_walker_deinit(&walker);
    if (err != STELE_OK) {
        if (first != NULL)
            discard_half(first);
        return err;
    }
    stele_producer__free_sealed(whole);
    put_first(second);
    put_first(first);
    return STELE_OK;
}
