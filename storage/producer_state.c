/* Invariants
 *  1. Producers lie in a hash table by id. A producer's batches are all of its epoch, oldest first, at most 5.
 *  2. A producer is in the open list exactly when it has an open transaction; the list is in order of first offsets.
 *  3. done holds the transactions that ended at or above the high watermark, in order of their markers. */
#include "storage/producer_state.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"

#include <string.h>

/* uthash takes its memory from the table's owner, which is in scope as `uthash_mem`. */
#define uthash_malloc(bytes) stele_mem_raw(uthash_mem, STELE_MEM_PRODUCERS, (bytes))
#define uthash_free(ptr, bytes) stele_mem_free(uthash_mem, (ptr))
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(element) (has_no_memory = true)
#define uthash_bzero(ptr, bytes) memset((ptr), 0, (bytes))
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wswitch-enum"
#include <uthash.h>

enum { BATCHES_MAX = 5, SNAPSHOT_VERSION = 1 };

struct batch {
    int32_t last_sequence;
    int64_t last_offset;
    int32_t offset_delta;
    int64_t timestamp;
};

struct producer {
    int64_t id;
    int16_t epoch;
    int32_t coordinator_epoch;
    int64_t last_timestamp;
    int64_t txn_first_offset; /* -1: no open transaction */
    struct batch batches[BATCHES_MAX];
    int batch_count;
    bool is_new; /* reserved, not yet applied */
    struct stele_list open;
    UT_hash_handle hh;
};

struct stele_producers {
    struct stele_mem *mem;
    int64_t expiration_ms;
    struct producer *table;
    struct stele_list open;
    struct stele_completed_txn *done;
    int done_count, done_capacity;
    int64_t map_end;
};

struct stele_producers *stele_producers_new(struct stele_mem *mem, int64_t expiration_ms)
{
    struct stele_producers *producers = stele_mem_alloc(mem, STELE_MEM_PRODUCERS, sizeof(*producers));
    if (producers == NULL)
        return NULL;
    producers->mem = mem;
    producers->expiration_ms = expiration_ms;
    stele_list_init(&producers->open);
    return producers;
}

static void remove_producer(struct stele_producers *producers, struct producer *producer)
{
    struct stele_mem *uthash_mem = producers->mem;
    stele_list_remove(&producer->open);
    HASH_DEL(producers->table, producer);
    stele_mem_free(producers->mem, producer);
}

void stele_producers_clear(struct stele_producers *producers, int64_t map_end)
{
    struct producer *producer, *next;
    HASH_ITER(hh, producers->table, producer, next)
    remove_producer(producers, producer);
    producers->done_count = 0;
    producers->map_end = map_end;
}

void stele_producers_free(struct stele_producers *producers)
{
    if (producers == NULL)
        return;
    stele_producers_clear(producers, 0);
    stele_mem_free(producers->mem, producers->done);
    stele_mem_free(producers->mem, producers);
}

static struct producer *of_open(struct stele_list *open)
{
    return STELE_CONTAINER_OF(open, struct producer, open);
}

static struct producer *find(const struct stele_producers *producers, int64_t id)
{
    struct producer *producer = NULL;
    HASH_FIND(hh, producers->table, &id, sizeof(id), producer);
    return producer;
}

static struct producer *add(struct stele_producers *producers, int64_t id)
{
    struct stele_mem *uthash_mem = producers->mem;
    bool has_no_memory = false;
    struct producer *producer = stele_mem_alloc(producers->mem, STELE_MEM_PRODUCERS, sizeof(*producer));
    if (producer == NULL)
        return NULL;
    producer->id = id;
    producer->epoch = -1;
    producer->coordinator_epoch = -1;
    producer->last_timestamp = -1;
    producer->txn_first_offset = -1;
    producer->is_new = true;
    stele_list_init(&producer->open);
    HASH_ADD(hh, producers->table, id, sizeof(producer->id), producer);
    if (has_no_memory) {
        stele_mem_free(producers->mem, producer);
        return NULL;
    }
    return producer;
}

enum stele_err stele_producers_reserve(struct stele_producers *producers, int64_t producer_id, int batches)
{
    STELE_ASSERT(batches > 0);
    if (producer_id == STELE_NO_PRODUCER_ID)
        return STELE_OK;
    if (producers->done_capacity - producers->done_count < batches) {
        int capacity = 2 * producers->done_capacity + batches;
        struct stele_completed_txn *done =
            stele_mem_resize(producers->mem, STELE_MEM_PRODUCERS, producers->done, (size_t)capacity * sizeof(*done));
        if (done == NULL)
            return STELE_NO_MEMORY;
        producers->done = done;
        producers->done_capacity = capacity;
    }
    if (find(producers, producer_id) != NULL)
        return STELE_OK;
    return add(producers, producer_id) == NULL ? STELE_NO_MEMORY : STELE_OK;
}

static int32_t last_sequence_of(const struct stele_batch_header *header)
{
    return header->base_sequence < 0 ? STELE_NO_SEQUENCE
                                     : stele_sequence_add(header->base_sequence, header->last_offset_delta);
}

/* One of the last batches of this epoch with the same first and last sequence. */
static const struct batch *find_duplicate(const struct producer *producer, const struct stele_batch_header *header)
{
    int32_t last = last_sequence_of(header);
    if (producer->epoch != header->producer_epoch)
        return NULL;
    for (int i = 0; i < producer->batch_count; i++) {
        const struct batch *batch = &producer->batches[i];
        if (batch->last_sequence == last && batch->last_sequence >= 0 &&
            stele_sequence_sub(batch->last_sequence, batch->offset_delta) == header->base_sequence)
            return batch;
    }
    return NULL;
}

static bool is_next_sequence(const struct producer *producer, const struct stele_batch_header *header)
{
    int32_t first = header->base_sequence;
    if (producer->epoch < 0)
        return true;
    if (header->producer_epoch != producer->epoch)
        return first == 0;
    int32_t last = producer->batch_count == 0 ? -1 : producer->batches[producer->batch_count - 1].last_sequence;
    return last < 0 ? first == 0 : first == stele_sequence_add(last, 1);
}

static enum stele_err check_marker(const struct producer *producer, const struct stele_batch_header *header,
                                   const struct stele_control *control)
{
    if (header->producer_epoch < producer->epoch)
        return STELE_INVALID_PRODUCER_EPOCH;
    if (control->coordinator_epoch < producer->coordinator_epoch)
        return STELE_TRANSACTION_COORDINATOR_FENCED;
    return STELE_OK;
}

enum stele_err stele_producers_check(const struct stele_producers *producers, const struct stele_batch_header *header,
                                     const struct stele_control *control, enum stele_origin origin,
                                     bool *out_is_duplicate, struct stele_duplicate *out_duplicate)
{
    bool is_transactional = (header->attributes & STELE_BATCH_TRANSACTIONAL) != 0;
    *out_is_duplicate = false;
    if (header->producer_id == STELE_NO_PRODUCER_ID || origin == STELE_ORIGIN_REPLICATION ||
        origin == STELE_ORIGIN_METADATA)
        return STELE_OK;
    const struct producer *producer = find(producers, header->producer_id);
    if (producer == NULL || producer->is_new)
        return STELE_OK;
    if (control != NULL)
        return check_marker(producer, header, control);
    if (origin == STELE_ORIGIN_CLIENT) {
        const struct batch *duplicate = find_duplicate(producer, header);
        if (duplicate != NULL) {
            *out_is_duplicate = true;
            *out_duplicate = (struct stele_duplicate){.base_offset = duplicate->last_offset - duplicate->offset_delta,
                                                      .last_offset = duplicate->last_offset,
                                                      .timestamp = duplicate->timestamp};
            return STELE_OK;
        }
    }
    if (header->producer_epoch < producer->epoch)
        return STELE_INVALID_PRODUCER_EPOCH;
    if (origin == STELE_ORIGIN_CLIENT && !is_next_sequence(producer, header))
        return STELE_OUT_OF_ORDER_SEQUENCE_NUMBER;
    if (producer->txn_first_offset >= 0 && !is_transactional)
        return STELE_INVALID_TXN_STATE;
    return STELE_OK;
}

static void add_batch(struct producer *producer, const struct stele_batch_header *header)
{
    if (producer->batch_count == BATCHES_MAX) {
        memmove(producer->batches, producer->batches + 1, (BATCHES_MAX - 1) * sizeof(struct batch));
        producer->batch_count--;
    }
    producer->batches[producer->batch_count++] = (struct batch){.last_sequence = last_sequence_of(header),
                                                                .last_offset = stele_batch_last_offset(header),
                                                                .offset_delta = header->last_offset_delta,
                                                                .timestamp = header->max_timestamp};
}

static void set_epoch(struct producer *producer, int16_t epoch)
{
    if (producer->epoch != epoch) {
        producer->epoch = epoch;
        producer->batch_count = 0;
    }
}

/* Batches come in order of offsets, so the walk from the end is short; only a snapshot's entries come in any order. */
static void open_txn(struct stele_producers *producers, struct producer *producer, int64_t first_offset)
{
    struct stele_list *at = &producers->open;
    producer->txn_first_offset = first_offset;
    while (at->prev != &producers->open && of_open(at->prev)->txn_first_offset > first_offset)
        at = at->prev;
    stele_list_push(at, &producer->open);
}

static void apply_data(struct stele_producers *producers, struct producer *producer,
                       const struct stele_batch_header *header)
{
    set_epoch(producer, header->producer_epoch);
    add_batch(producer, header);
    producer->last_timestamp = header->max_timestamp;
    if ((header->attributes & STELE_BATCH_TRANSACTIONAL) != 0 && producer->txn_first_offset < 0)
        open_txn(producers, producer, header->base_offset);
}

static bool apply_marker(struct stele_producers *producers, struct producer *producer,
                         const struct stele_batch_header *header, const struct stele_control *control,
                         struct stele_completed_txn *out_txn)
{
    bool was_open = producer->txn_first_offset >= 0;
    set_epoch(producer, header->producer_epoch);
    producer->coordinator_epoch = control->coordinator_epoch;
    producer->last_timestamp = header->max_timestamp;
    if (was_open) {
        *out_txn = (struct stele_completed_txn){.producer_id = producer->id,
                                                .first_offset = producer->txn_first_offset,
                                                .last_offset = header->base_offset,
                                                .is_aborted = control->type == STELE_CONTROL_ABORT};
        producer->txn_first_offset = -1;
        stele_list_remove(&producer->open);
        STELE_ASSERT(producers->done_count < producers->done_capacity);
        producers->done[producers->done_count++] = *out_txn;
    }
    return was_open;
}

bool stele_producers_apply(struct stele_producers *producers, const struct stele_batch_header *header,
                           const struct stele_control *control, struct stele_completed_txn *out_txn)
{
    bool ended = false;
    if (header->producer_id != STELE_NO_PRODUCER_ID) {
        struct producer *producer = find(producers, header->producer_id);
        STELE_ASSERT(producer != NULL);
        bool is_control = (header->attributes & STELE_BATCH_CONTROL) != 0;
        bool is_marker =
            control != NULL && (control->type == STELE_CONTROL_ABORT || control->type == STELE_CONTROL_COMMIT);
        if (is_marker)
            ended = apply_marker(producers, producer, header, control, out_txn);
        else if (!is_control)
            apply_data(producers, producer, header);
        /* What compaction left of a marker says nothing of its producer. */
        producer->is_new = producer->is_new && is_control && !is_marker;
    }
    producers->map_end = stele_batch_last_offset(header) + 1;
    return ended;
}

/* First offset of the open transactions, or INT64_MAX. */
static int64_t first_open(const struct stele_producers *producers)
{
    return stele_list_is_empty(&producers->open) ? INT64_MAX : of_open(producers->open.next)->txn_first_offset;
}

int64_t stele_producers_lso_after(const struct stele_producers *producers, const struct stele_completed_txn *txn)
{
    int64_t first = first_open(producers);
    return first == INT64_MAX ? txn->last_offset + 1 : first;
}

int64_t stele_producers_map_end(const struct stele_producers *producers)
{
    return producers->map_end;
}

void stele_producers_set_map_end(struct stele_producers *producers, int64_t offset)
{
    producers->map_end = offset;
}

int64_t stele_producers_first_unstable(const struct stele_producers *producers)
{
    int64_t first = first_open(producers);
    for (int i = 0; i < producers->done_count; i++)
        first = stele_min_i64(first, producers->done[i].first_offset);
    return first == INT64_MAX ? -1 : first;
}

void stele_producers_on_high_watermark(struct stele_producers *producers, int64_t high_watermark)
{
    int kept = 0;
    for (int i = 0; i < producers->done_count; i++) {
        if (producers->done[i].last_offset >= high_watermark)
            producers->done[kept++] = producers->done[i];
    }
    producers->done_count = kept;
}

void stele_producers_on_log_start(struct stele_producers *producers, int64_t log_start_offset)
{
    stele_producers_on_high_watermark(producers, log_start_offset);
    producers->map_end = stele_max_i64(producers->map_end, log_start_offset);
}

/* Timestamps are the records' own and may be anything. */
static bool is_expired(const struct stele_producers *producers, int64_t last_timestamp, int64_t txn_first_offset,
                       int64_t wall_ms)
{
    int64_t oldest;
    return txn_first_offset < 0 && !__builtin_sub_overflow(wall_ms, producers->expiration_ms, &oldest) &&
           last_timestamp <= oldest;
}

int stele_producers_expire(struct stele_producers *producers, int64_t wall_ms)
{
    struct producer *producer, *next;
    int dropped = 0;
    HASH_ITER(hh, producers->table, producer, next)
    {
        if (producer->is_new || is_expired(producers, producer->last_timestamp, producer->txn_first_offset, wall_ms)) {
            dropped += !producer->is_new;
            remove_producer(producers, producer);
        }
    }
    return dropped;
}

int stele_producers_count(const struct stele_producers *producers)
{
    int count = 0;
    for (const struct producer *producer = producers->table; producer != NULL; producer = producer->hh.next)
        count += !producer->is_new;
    return count;
}

bool stele_producers_is_empty(const struct stele_producers *producers)
{
    const struct producer *producer = producers->table;
    while (producer != NULL && producer->is_new)
        producer = producer->hh.next;
    return producer == NULL;
}

static void entry_of(const struct producer *producer, struct stele_producer_entry *out)
{
    const struct batch *last = producer->batch_count == 0 ? NULL : &producer->batches[producer->batch_count - 1];
    *out = (struct stele_producer_entry){
        .producer_id = producer->id,
        .producer_epoch = producer->epoch,
        .last_sequence = last == NULL ? -1 : last->last_sequence,
        .last_offset = last == NULL ? -1 : last->last_offset,
        .offset_delta = last == NULL ? 0 : last->offset_delta,
        .timestamp = producer->last_timestamp,
        .coordinator_epoch = producer->coordinator_epoch,
        .txn_first_offset = producer->txn_first_offset,
    };
}

static int by_id(const struct producer *a, const struct producer *b)
{
    return a->id < b->id ? -1 : a->id > b->id;
}

/* The first producer, all in ascending id. uthash sorts its list in place and without memory; the order of the table
 * is no part of the state, so a const table is sorted too. */
static const struct producer *sorted(const struct stele_producers *producers)
{
    struct producer *head = producers->table;
    HASH_SRT(hh, head, by_id);
    ((struct stele_producers *)(uintptr_t)producers)->table = head;
    return head;
}

void stele_producers_each(const struct stele_producers *producers,
                          void (*each)(void *arg, const struct stele_producer_entry *entry), void *arg)
{
    for (const struct producer *producer = sorted(producers); producer != NULL; producer = producer->hh.next) {
        struct stele_producer_entry entry;
        entry_of(producer, &entry);
        if (!producer->is_new)
            each(arg, &entry);
    }
}

static void write_entry(struct stele_writer *writer, const struct stele_producer_entry *entry)
{
    stele_write_i64(writer, entry->producer_id);
    stele_write_i16(writer, entry->producer_epoch);
    stele_write_i32(writer, entry->last_sequence);
    stele_write_i64(writer, entry->last_offset);
    stele_write_i32(writer, entry->offset_delta);
    stele_write_i64(writer, entry->timestamp);
    stele_write_i32(writer, entry->coordinator_epoch);
    stele_write_i64(writer, entry->txn_first_offset);
}

enum stele_err stele_producers_snapshot(const struct stele_producers *producers, uint8_t **out_bytes, size_t *out_count)
{
    int entries = stele_producers_count(producers);
    size_t count = STELE_SNAPSHOT_HEADER_BYTES + (size_t)entries * STELE_SNAPSHOT_ENTRY_BYTES;
    uint8_t *bytes = stele_mem_raw(producers->mem, STELE_MEM_PRODUCERS, count);
    if (bytes == NULL)
        return STELE_NO_MEMORY;
    struct stele_writer writer = stele_writer_of(bytes, count);
    stele_write_i16(&writer, SNAPSHOT_VERSION);
    stele_write_u32(&writer, 0);
    stele_write_i32(&writer, entries);
    for (const struct producer *producer = sorted(producers); producer != NULL; producer = producer->hh.next) {
        struct stele_producer_entry entry;
        entry_of(producer, &entry);
        if (!producer->is_new)
            write_entry(&writer, &entry);
    }
    STELE_ASSERT(!writer.failed);
    stele_put_u32(bytes + 2, stele_crc32c(0, bytes + 6, count - 6));
    *out_bytes = bytes;
    *out_count = count;
    return STELE_OK;
}

enum stele_err stele_snapshot_check(const uint8_t *bytes, size_t count, int *out_entries)
{
    if (count < STELE_SNAPSHOT_HEADER_BYTES || stele_get_i16(bytes) != SNAPSHOT_VERSION)
        return STELE_CORRUPT;
    if (stele_crc32c(0, bytes + 6, count - 6) != stele_get_u32(bytes + 2))
        return STELE_CORRUPT;
    int32_t entries = stele_get_i32(bytes + 6);
    if (entries < 0 || (size_t)entries != (count - STELE_SNAPSHOT_HEADER_BYTES) / STELE_SNAPSHOT_ENTRY_BYTES ||
        (count - STELE_SNAPSHOT_HEADER_BYTES) % STELE_SNAPSHOT_ENTRY_BYTES != 0)
        return STELE_CORRUPT;
    *out_entries = entries;
    return STELE_OK;
}

enum stele_err stele_snapshot_entry(const uint8_t *bytes, size_t count, int index,
                                    struct stele_producer_entry *out_entry)
{
    size_t at = STELE_SNAPSHOT_HEADER_BYTES + (size_t)index * STELE_SNAPSHOT_ENTRY_BYTES;
    if (index < 0 || at > count || count - at < STELE_SNAPSHOT_ENTRY_BYTES)
        return STELE_CORRUPT;
    struct stele_reader reader = stele_reader_of(bytes + at, STELE_SNAPSHOT_ENTRY_BYTES);
    struct stele_producer_entry entry;
    entry.producer_id = stele_read_i64(&reader);
    entry.producer_epoch = stele_read_i16(&reader);
    entry.last_sequence = stele_read_i32(&reader);
    entry.last_offset = stele_read_i64(&reader);
    entry.offset_delta = stele_read_i32(&reader);
    entry.timestamp = stele_read_i64(&reader);
    entry.coordinator_epoch = stele_read_i32(&reader);
    entry.txn_first_offset = stele_read_i64(&reader);
    if (entry.producer_id < 0 || entry.producer_epoch < -1 || entry.offset_delta < 0 || entry.last_sequence < -1 ||
        (entry.last_offset >= 0 && entry.last_offset < entry.offset_delta))
        return STELE_CORRUPT;
    *out_entry = entry;
    return STELE_OK;
}

static enum stele_err load_entry(struct stele_producers *producers, const struct stele_producer_entry *entry)
{
    if (find(producers, entry->producer_id) != NULL)
        return STELE_CORRUPT;
    struct producer *producer = add(producers, entry->producer_id);
    if (producer == NULL)
        return STELE_NO_MEMORY;
    producer->is_new = false;
    producer->epoch = entry->producer_epoch;
    producer->coordinator_epoch = entry->coordinator_epoch;
    producer->last_timestamp = entry->timestamp;
    if (entry->last_offset >= 0)
        producer->batches[producer->batch_count++] = (struct batch){.last_sequence = entry->last_sequence,
                                                                    .last_offset = entry->last_offset,
                                                                    .offset_delta = entry->offset_delta,
                                                                    .timestamp = entry->timestamp};
    if (entry->txn_first_offset >= 0)
        open_txn(producers, producer, entry->txn_first_offset);
    return STELE_OK;
}

enum stele_err stele_producers_load(struct stele_producers *producers, const uint8_t *bytes, size_t count,
                                    int64_t offset, int64_t wall_ms)
{
    int entries = 0;
    stele_producers_clear(producers, offset);
    enum stele_err err = stele_snapshot_check(bytes, count, &entries);
    for (int i = 0; i < entries && err == STELE_OK; i++) {
        struct stele_producer_entry entry;
        err = stele_snapshot_entry(bytes, count, i, &entry);
        bool is_kept = err == STELE_OK && (wall_ms == INT64_MIN ||
                                           !is_expired(producers, entry.timestamp, entry.txn_first_offset, wall_ms));
        if (is_kept)
            err = load_entry(producers, &entry);
    }
    if (err != STELE_OK)
        stele_producers_clear(producers, offset);
    return err;
}
#pragma GCC diagnostic pop
