#include "node/metadata_tail.h"

#include "node/metadata_log.h"
#include "proto/record_batch.h"

enum { UNPACKED_BYTES_MAX = 64 << 20, RECORD_ARENA_BYTES_MAX = 64 << 20 };

void stele_metadata_tail_init(struct stele_metadata_tail *tail, struct stele_mem *mem)
{
    tail->mem = mem;
    stele_list_init(&tail->batches);
}

static void drop(struct stele_metadata_tail *tail, struct stele_metadata_batch *batch)
{
    stele_list_remove(&batch->link);
    stele_buf_unref(batch->buf);
    stele_mem_free(tail->mem, batch);
}

void stele_metadata_tail_deinit(struct stele_metadata_tail *tail)
{
    while (!stele_list_is_empty(&tail->batches))
        drop(tail, stele_metadata_tail_first(tail));
}

struct stele_metadata_batch *stele_metadata_tail_first(const struct stele_metadata_tail *tail)
{
    return stele_list_is_empty(&tail->batches)
               ? NULL
               : STELE_CONTAINER_OF(tail->batches.next, struct stele_metadata_batch, link);
}

void stele_metadata_tail_drop(struct stele_metadata_tail *tail)
{
    drop(tail, stele_metadata_tail_first(tail));
}

void stele_metadata_tail_cut(struct stele_metadata_tail *tail, int64_t offset)
{
    while (!stele_list_is_empty(&tail->batches)) {
        struct stele_metadata_batch *last = STELE_CONTAINER_OF(tail->batches.prev, struct stele_metadata_batch, link);
        if (last->end_offset <= offset)
            return;
        drop(tail, last);
    }
}

static enum stele_err take_voters(struct stele_metadata_batch *batch, const struct stele_metadata_record *record,
                                  int64_t offset)
{
    size_t count = record->u.voters.voter_count;
    if (count == 0 || count > STELE_VOTERS_MAX)
        return STELE_CORRUPT;
    batch->has_voters = true;
    batch->voters = (struct stele_voters_at){.offset = offset, .voters = {.count = (int32_t)count}};
    for (size_t i = 0; i < count; i++)
        batch->voters.voters.keys[i] = (struct stele_replica_key){
            .node_id = record->u.voters.voters[i].node_id, .directory_id = record->u.voters.voters[i].directory_id};
    return STELE_OK;
}

static enum stele_err look_at(struct stele_metadata_batch *batch, const struct stele_record *in,
                              struct stele_arena *arena)
{
    struct stele_metadata_record record;
    if (in->value == NULL)
        return STELE_CORRUPT;
    enum stele_err err = stele_metadata_record_decode(arena, in->value, (size_t)in->value_bytes, &record);
    if (err == STELE_OK && stele_metadata_is_too_new(&record))
        err = STELE_UNSUPPORTED_VERSION;
    if (err == STELE_OK && record.kind == STELE_METADATA_VOTERS)
        err = take_voters(batch, &record, in->offset);
    stele_arena_reset(arena);
    return err == STELE_MALFORMED ? STELE_CORRUPT : err;
}

static enum stele_err look(struct stele_metadata_tail *tail, struct stele_metadata_batch *batch)
{
    struct stele_batch_header header;
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_arena arena;
    enum stele_err err = stele_batch_check(batch->bytes, batch->count, &header);
    if (err == STELE_OK && (header.base_offset < 0 || header.base_offset > INT64_MAX - INT32_MAX - 1 ||
                            header.last_offset_delta < 0 || header.partition_leader_epoch < 0))
        err = STELE_CORRUPT;
    if (err == STELE_OK)
        err = stele_record_walker_init(&walker, tail->mem, batch->bytes, batch->count, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err == STELE_NO_MEMORY ? err : STELE_CORRUPT;
    batch->base_offset = header.base_offset;
    batch->end_offset = stele_batch_last_offset(&header) + 1;
    batch->epoch = header.partition_leader_epoch;
    stele_arena_init(&arena, tail->mem, STELE_MEM_METADATA, RECORD_ARENA_BYTES_MAX);
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        err = look_at(batch, &record, &arena);
        if (err != STELE_OK)
            break;
    }
    stele_arena_deinit(&arena);
    stele_record_walker_deinit(&walker);
    return err == STELE_END ? STELE_OK : err == STELE_INVALID_RECORD ? STELE_CORRUPT : err;
}

enum stele_err stele_metadata_tail_put(struct stele_metadata_tail *tail, struct stele_buf *buf, const uint8_t *bytes,
                                       size_t count)
{
    struct stele_metadata_batch *batch = stele_mem_alloc(tail->mem, STELE_MEM_METADATA, sizeof(*batch));
    if (batch == NULL)
        return STELE_NO_MEMORY;
    stele_list_init(&batch->link);
    batch->bytes = bytes;
    batch->count = count;
    enum stele_err err = look(tail, batch);
    if (err != STELE_OK) {
        stele_mem_free(tail->mem, batch);
        return err;
    }
    batch->buf = stele_buf_ref(buf);
    stele_list_push(&tail->batches, &batch->link);
    return STELE_OK;
}
