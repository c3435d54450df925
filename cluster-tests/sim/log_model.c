#include "cluster-tests/sim/log_model.h"

#include "storage/scan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void log_model_init(struct log_model *model, uint64_t seed)
{
    *model = (struct log_model){.seed = seed, .doing = "start"};
}

static void drop(struct model_batch *batches, int *inout_count)
{
    while (*inout_count > 0)
        free(batches[--*inout_count].bytes);
}

void log_model_deinit(struct log_model *model)
{
    drop(model->batches, &model->count);
    drop(model->ghosts, &model->ghost_count);
    free(model->batches);
    free(model->ghosts);
    *model = (struct log_model){.doing = "end"};
}

void log_model_clear_ghosts(struct log_model *model)
{
    drop(model->ghosts, &model->ghost_count);
}

void log_model_fail(const struct log_model *model, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "FAILED --seed %llu (crash %lld, %s): ", (unsigned long long)model->seed,
                  (long long)model->crashes, model->doing);
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

static struct model_batch *room(struct model_batch **inout_batches, int *inout_count, int *inout_capacity)
{
    if (*inout_count == *inout_capacity) {
        *inout_capacity = *inout_capacity == 0 ? 64 : *inout_capacity * 2;
        *inout_batches = realloc(*inout_batches, (size_t)*inout_capacity * sizeof(**inout_batches));
        if (*inout_batches == NULL)
            abort();
    }
    return &(*inout_batches)[(*inout_count)++];
}

static struct model_batch batch_of(const struct log_model *model, const uint8_t *bytes, size_t count)
{
    struct stele_batch_header header;
    MODEL_CHECK(model, stele_batch_check(bytes, count, &header) == STELE_OK, "the test built a bad batch");
    uint8_t *copy = malloc(count);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, count);
    return (struct model_batch){.base_offset = header.base_offset,
                                .last_offset = stele_batch_last_offset(&header),
                                .max_timestamp = header.max_timestamp,
                                .epoch = header.partition_leader_epoch,
                                .bytes = copy,
                                .count = count};
}

static size_t first_batch(const struct log_model *model, const uint8_t *bytes, size_t count)
{
    int64_t batch = stele_batch_size(bytes);
    MODEL_CHECK(model, batch > 0 && (size_t)batch <= count, "the test built a batch of a bad size");
    return (size_t)batch;
}

void log_model_push(struct log_model *model, const uint8_t *bytes, size_t count)
{
    for (size_t batch; count > 0; bytes += batch, count -= batch) {
        batch = first_batch(model, bytes, count);
        struct model_batch *at = room(&model->batches, &model->count, &model->capacity);
        *at = batch_of(model, bytes, batch);
        model->end = at->last_offset + 1;
    }
}

void log_model_push_ghosts(struct log_model *model, const uint8_t *bytes, size_t count)
{
    for (size_t batch; count > 0; bytes += batch, count -= batch) {
        batch = first_batch(model, bytes, count);
        *room(&model->ghosts, &model->ghost_count, &model->ghost_capacity) = batch_of(model, bytes, batch);
    }
}

void log_model_truncate(struct log_model *model, int64_t offset)
{
    while (model->count > 0 && model->batches[model->count - 1].last_offset >= offset)
        *room(&model->ghosts, &model->ghost_count, &model->ghost_capacity) = model->batches[--model->count];
    model->end = stele_min_i64(model->end, offset);
}

/* Takes the batch out of the model (leaving bytes NULL) or its ghosts. */
static struct model_batch take(struct log_model *model, const uint8_t *bytes, size_t count, int64_t promised_end)
{
    struct stele_batch_header header;
    MODEL_CHECK(model, stele_batch_check(bytes, count, &header) == STELE_OK, "the log holds a bad batch");
    int at = log_model_find(model, header.base_offset);
    if (at < model->count) {
        struct model_batch batch = model->batches[at];
        if (batch.bytes != NULL && batch.count == count && memcmp(batch.bytes, bytes, count) == 0) {
            model->batches[at].bytes = NULL;
            return batch;
        }
    }
    MODEL_CHECK(model, header.base_offset >= promised_end, "the batch at %lld is not the one promised",
                (long long)header.base_offset);
    for (int i = 0; i < model->ghost_count; i++) {
        struct model_batch batch = model->ghosts[i];
        if (batch.count == count && memcmp(batch.bytes, bytes, count) == 0) {
            model->ghosts[i] = model->ghosts[--model->ghost_count];
            return batch;
        }
    }
    log_model_fail(model, "the batch at %lld of epoch %d was never appended there", (long long)header.base_offset,
                   header.partition_leader_epoch);
}

/* The batches of one segment's file up to `end`. */
static void adopt_segment(struct log_model *model, struct log_model *adopted, struct stele_segment *seg, int64_t end,
                          int64_t promised_end)
{
    struct stele_file *file = NULL;
    struct stele_scan scan;
    struct stele_scanned batch;
    MODEL_CHECK(model, stele_cached_file_pin(seg->file, &file) == STELE_OK, "a segment cannot be opened");
    stele_scan_init(&scan, seg->env->mem);
    MODEL_CHECK(model, stele_scan_start(&scan, file, 0, seg->bytes) == STELE_OK, "no memory");
    while (adopted->end < end && stele_scan_next(&scan, &batch) == STELE_OK) {
        MODEL_CHECK(model, batch.header.base_offset >= adopted->end && batch.batch != NULL,
                    "the batch at %lld lies before the end of the one before", (long long)batch.header.base_offset);
        struct model_batch *at = room(&adopted->batches, &adopted->count, &adopted->capacity);
        *at = take(model, batch.batch, (size_t)batch.bytes, promised_end);
        adopted->end = at->last_offset + 1;
    }
    stele_scan_deinit(&scan);
    stele_cached_file_unpin(seg->file);
}

void log_model_adopt(struct log_model *model, struct stele_log *log, int64_t promised_end)
{
    struct log_model adopted = {.doing = ""};
    int64_t first = stele_log_segment(log, 0)->base_offset, end = log_sound_end(log);
    for (int i = 0; i < model->count && model->batches[i].last_offset < first; i++) {
        *room(&adopted.batches, &adopted.count, &adopted.capacity) = model->batches[i];
        model->batches[i].bytes = NULL;
    }
    adopted.end = first;
    for (int i = 0; i < stele_log_segment_count(log); i++)
        adopt_segment(model, &adopted, stele_log_segment(log, i), end, promised_end);
    for (int i = 0; i < model->count; i++) {
        if (model->batches[i].bytes != NULL)
            *room(&model->ghosts, &model->ghost_count, &model->ghost_capacity) = model->batches[i];
    }
    free(model->batches);
    model->batches = adopted.batches;
    model->count = adopted.count;
    model->capacity = adopted.capacity;
    model->end = end;
}

int log_model_find(const struct log_model *model, int64_t offset)
{
    int low = 0, high = model->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (model->batches[middle].last_offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t log_sound_end(const struct stele_log *log)
{
    int64_t end = stele_log_end_offset(log);
    for (int i = 0; i < stele_log_damaged_count(log); i++)
        end = stele_min_i64(end, stele_log_damaged(log, i)->first_offset);
    return end;
}

/* Compares the slice's bytes and returns the offset to go on at. */
static int64_t check_slice(const struct log_model *model, const struct stele_slice *slice)
{
    uint8_t buffer[8192];
    struct stele_file *file = NULL;
    int at = log_model_find(model, slice->base_offset);
    size_t done = 0, in_batch = 0;
    int64_t next = slice->base_offset;
    MODEL_CHECK(model, at < model->count && model->batches[at].base_offset == slice->base_offset,
                "read gave a batch at %lld that was never appended", (long long)slice->base_offset);
    MODEL_CHECK(model, stele_cached_file_pin(slice->file, &file) == STELE_OK, "a slice's file cannot be opened");
    while (done < slice->bytes) {
        MODEL_CHECK(model, at < model->count, "read gave more than was appended");
        const struct model_batch *batch = &model->batches[at];
        size_t piece = stele_min_size(sizeof(buffer), stele_min_size(slice->bytes - done, batch->count - in_batch));
        MODEL_CHECK(model, stele_file_read(file, buffer, piece, slice->pos + (int64_t)done) == STELE_OK,
                    "a slice is longer than its file");
        MODEL_CHECK(model, memcmp(buffer, batch->bytes + in_batch, piece) == 0,
                    "bytes of the batch at %lld differ from those appended", (long long)batch->base_offset);
        done += piece;
        in_batch += piece;
        if (in_batch == batch->count) {
            next = batch->last_offset + 1;
            in_batch = 0;
            at++;
        }
    }
    stele_cached_file_unpin(slice->file);
    return next;
}

static void check_contents(const struct log_model *model, struct stele_log *log, size_t read_bytes)
{
    int64_t end = log_sound_end(log), offset = stele_log_start_offset(log);
    struct stele_slice slice;
    while (offset < end) {
        struct stele_read read = {.offset = offset, .bound = end, .max_bytes = read_bytes, .min_one = true};
        enum stele_err err = stele_log_read(log, &read, &slice);
        MODEL_CHECK(model, err == STELE_OK, "read at %lld of [%lld, %lld): %s", (long long)offset,
                    (long long)stele_log_start_offset(log), (long long)end, stele_err_name(err));
        int at = log_model_find(model, offset);
        if (slice.bytes == 0 && (at == model->count || model->batches[at].base_offset >= end))
            break; /* a hole at the end */
        MODEL_CHECK(model, slice.bytes > 0, "read at %lld below %lld gave nothing", (long long)offset, (long long)end);
        int64_t next = check_slice(model, &slice);
        stele_slice_release(&slice);
        MODEL_CHECK(model, next > offset, "read at %lld got no further", (long long)offset);
        offset = next;
    }
    for (int i = 0; i < stele_log_damaged_count(log); i++) {
        int64_t first = stele_log_damaged(log, i)->first_offset;
        struct stele_read read = {
            .offset = first, .bound = stele_log_end_offset(log), .max_bytes = read_bytes, .min_one = true};
        if (first < stele_log_start_offset(log))
            continue;
        enum stele_err err = stele_log_read(log, &read, &slice);
        MODEL_CHECK(model, err == STELE_DAMAGED_RANGE, "read at damaged %lld: %s", (long long)first,
                    stele_err_name(err));
    }
}

static void check_epochs(const struct log_model *model, const struct stele_log *log, int64_t from)
{
    const struct stele_epoch_cache *epochs = stele_log_epochs(log);
    int64_t end = log_sound_end(log);
    for (int i = log_model_find(model, stele_max_i64(from, stele_log_start_offset(log)));
         i < model->count && model->batches[i].last_offset < end; i++) {
        const struct model_batch *batch = &model->batches[i];
        int32_t epoch = stele_epoch_cache_epoch_at(epochs, batch->last_offset);
        MODEL_CHECK(model, epoch == batch->epoch, "epoch at %lld is %d, not %d", (long long)batch->last_offset, epoch,
                    batch->epoch);
    }
    for (int i = 0; i < epochs->count; i++)
        MODEL_CHECK(model,
                    epochs->entries[i].start_offset < stele_log_end_offset(log) ||
                        epochs->entries[i].start_offset == stele_log_start_offset(log),
                    "epoch %d starts at the end or behind it", epochs->entries[i].epoch);
}

/* Producer state as a replay of the model builds it, and the transactions that it saw aborted. */
struct replay {
    struct stele_producers *producers;
    struct stele_completed_txn aborted[4096];
    int aborted_count;
};

static void replay_batch(const struct log_model *model, struct replay *replay, struct stele_mem *mem,
                         const struct model_batch *batch)
{
    struct stele_batch_header header;
    struct stele_control control;
    struct stele_completed_txn txn;
    MODEL_CHECK(model, stele_batch_header_read(batch->bytes, batch->count, &header) == STELE_OK, "bad model batch");
    bool is_control = (header.attributes & STELE_BATCH_CONTROL) != 0;
    if (is_control) {
        struct stele_record_walker walker;
        struct stele_record record;
        bool is_ok = stele_record_walker_init(&walker, mem, batch->bytes, batch->count, 1 << 20) == STELE_OK;
        MODEL_CHECK(model, is_ok, "bad model marker");
        is_ok = stele_record_next(&walker, &record) == STELE_OK && stele_control_read(&record, &control) == STELE_OK;
        stele_record_walker_deinit(&walker);
        MODEL_CHECK(model, is_ok, "bad model marker");
    }
    if (header.producer_id >= 0) {
        MODEL_CHECK(model, stele_producers_reserve(replay->producers, header.producer_id, 1) == STELE_OK, "no memory");
        if (stele_producers_apply(replay->producers, &header, is_control ? &control : NULL, &txn) && txn.is_aborted) {
            MODEL_CHECK(model, replay->aborted_count < 4096, "too many aborted transactions");
            replay->aborted[replay->aborted_count++] = txn;
        }
    }
    stele_producers_set_map_end(replay->producers, batch->last_offset + 1);
}

struct entries {
    struct stele_producer_entry entry[64];
    int count;
};

static void collect(void *arg, const struct stele_producer_entry *entry)
{
    struct entries *entries = arg;
    if (entries->count < 64)
        entries->entry[entries->count++] = *entry;
}

static const struct stele_producer_entry *find_entry(const struct entries *entries, int64_t producer_id)
{
    for (int i = 0; i < entries->count; i++) {
        if (entries->entry[i].producer_id == producer_id)
            return &entries->entry[i];
    }
    return NULL;
}

static void check_producers(const struct log_model *model, const struct stele_log *log, const struct replay *replay)
{
    struct entries real = {.count = 0}, wanted = {.count = 0};
    int64_t start = stele_log_start_offset(log);
    stele_producers_each(stele_log_producers(log), collect, &real);
    stele_producers_each(replay->producers, collect, &wanted);
    for (int i = 0; i < wanted.count; i++) {
        const struct stele_producer_entry *want = &wanted.entry[i], *have = find_entry(&real, want->producer_id);
        if (want->last_offset < start)
            continue; /* only a snapshot may still know it */
        MODEL_CHECK(model, have != NULL, "producer %lld is not known", (long long)want->producer_id);
        MODEL_CHECK(model,
                    have->producer_epoch == want->producer_epoch && have->last_sequence == want->last_sequence &&
                        have->last_offset == want->last_offset && have->timestamp == want->timestamp &&
                        (have->coordinator_epoch == want->coordinator_epoch || want->coordinator_epoch < 0),
                    "producer %lld: epoch %d sequence %d offset %lld, a replay says epoch %d sequence %d offset %lld",
                    (long long)want->producer_id, have->producer_epoch, have->last_sequence,
                    (long long)have->last_offset, want->producer_epoch, want->last_sequence,
                    (long long)want->last_offset);
        bool began_before =
            have->txn_first_offset >= 0 && have->txn_first_offset < start && want->txn_first_offset >= 0;
        MODEL_CHECK(model, began_before || have->txn_first_offset == want->txn_first_offset,
                    "producer %lld: transaction from %lld, a replay says %lld", (long long)want->producer_id,
                    (long long)have->txn_first_offset, (long long)want->txn_first_offset);
    }
    for (int i = 0; i < real.count; i++) {
        const struct stele_producer_entry *have = &real.entry[i];
        MODEL_CHECK(model, have->last_offset < log_sound_end(log), "producer %lld wrote at %lld, behind the end",
                    (long long)have->producer_id, (long long)have->last_offset);
    }
}

static void check_aborted(const struct log_model *model, struct stele_log *log, const struct replay *replay)
{
    int64_t start = stele_log_start_offset(log);
    for (int i = 0; i < replay->aborted_count; i++) {
        const struct stele_completed_txn *want = &replay->aborted[i];
        bool is_found = false;
        if (want->last_offset < start)
            continue;
        for (int at = 0; at < stele_log_segment_count(log); at++) {
            struct stele_txn_index *txns = &stele_log_segment(log, at)->txns;
            MODEL_CHECK(model, stele_txn_index_load(txns) == STELE_OK, "a transaction index cannot be read");
            for (int k = 0; k < txns->count; k++)
                is_found |=
                    txns->entries[k].producer_id == want->producer_id &&
                    (txns->entries[k].first_offset == want->first_offset || txns->entries[k].first_offset < start) &&
                    txns->entries[k].last_offset == want->last_offset;
        }
        MODEL_CHECK(model, is_found, "the transaction of %lld aborted at %lld is in no index",
                    (long long)want->producer_id, (long long)want->last_offset);
    }
    for (int at = 0; at < stele_log_segment_count(log); at++) {
        const struct stele_segment *seg = stele_log_segment(log, at);
        for (int k = 0; k < seg->txns.count; k++)
            MODEL_CHECK(model, seg->txns.entries[k].last_offset < stele_log_end_offset(log),
                        "a transaction index names %lld, behind the end", (long long)seg->txns.entries[k].last_offset);
    }
}

static void check_state(const struct log_model *model, struct stele_log *log, struct stele_env *env)
{
    struct replay *replay = calloc(1, sizeof(*replay));
    if (replay == NULL)
        abort();
    replay->producers = stele_producers_new(env->mem, stele_log_config(log)->producer_id_expiration_ms);
    MODEL_CHECK(model, replay->producers != NULL, "no memory");
    int64_t end = log_sound_end(log);
    for (int i = log_model_find(model, stele_log_start_offset(log));
         i < model->count && model->batches[i].last_offset < end; i++)
        replay_batch(model, replay, env->mem, &model->batches[i]);
    check_producers(model, log, replay);
    check_aborted(model, log, replay);
    stele_producers_free(replay->producers);
    free(replay);
}

/* Where the batches of one segment lie. */
struct layout {
    int first, count; /* batches of the model */
    int64_t pos[1024];
};

static void lay_out(const struct log_model *model, struct stele_log *log, int at, struct layout *out)
{
    int64_t pos = 0, end = log_sound_end(log);
    if (at + 1 < stele_log_segment_count(log))
        end = stele_min_i64(end, stele_log_segment(log, at + 1)->base_offset);
    out->first = log_model_find(model, stele_log_segment(log, at)->base_offset);
    out->count = 0;
    for (int i = out->first; i < model->count && model->batches[i].last_offset < end; i++) {
        MODEL_CHECK(model, out->count < 1024, "too many batches in a segment");
        out->pos[out->count++] = pos;
        pos += (int64_t)model->batches[i].count;
    }
    if (stele_log_damaged_count(log) == 0)
        MODEL_CHECK(model, stele_log_segment(log, at)->bytes == pos, "segment %lld has %lld bytes, not %lld",
                    (long long)stele_log_segment(log, at)->base_offset, (long long)stele_log_segment(log, at)->bytes,
                    (long long)pos);
}

static void check_offset_index(const struct log_model *model, struct stele_segment *seg, const struct layout *layout,
                               const struct log_expected *expected)
{
    int64_t count = 0, since = 0, next = 0;
    MODEL_CHECK(model, stele_index_count(&seg->offsets, &count) == STELE_OK, "an offset index cannot be read");
    for (int i = 0; i < layout->count; i++) {
        const struct model_batch *batch = &model->batches[layout->first + i];
        struct stele_offset_entry entry = {.offset = -1};
        if (next < count)
            MODEL_CHECK(model, stele_offset_index_entry(&seg->offsets, next, &entry) == STELE_OK, "no index entry");
        bool is_indexed = next < count && entry.offset == batch->last_offset;
        bool is_due = since > expected->index_interval, has_room = next < seg->offsets.capacity;
        if (is_indexed) {
            MODEL_CHECK(model, entry.pos == layout->pos[i], "index of %lld: offset %lld at %lld, not %lld",
                        (long long)seg->base_offset, (long long)entry.offset, (long long)entry.pos,
                        (long long)layout->pos[i]);
            next++;
        }
        MODEL_CHECK(model, is_indexed == (is_due && has_room), "index of %lld: a rebuild %s an entry for offset %lld",
                    (long long)seg->base_offset, is_indexed ? "makes no" : "makes", (long long)batch->last_offset);
        since = is_indexed || is_due ? (int64_t)batch->count : since + (int64_t)batch->count;
    }
    MODEL_CHECK(model, next == count, "index of %lld has %lld entries, %lld of them for batches",
                (long long)seg->base_offset, (long long)count, (long long)next);
}

/* Every entry is the first batch that reached its timestamp, and every indexed batch finds its largest one. */
static void check_time_index(const struct log_model *model, struct stele_segment *seg, const struct layout *layout)
{
    int64_t count = 0, next = 0, max = -1, offset_of_max = -1;
    MODEL_CHECK(model, stele_index_count(&seg->times, &count) == STELE_OK, "a time index cannot be read");
    for (int i = 0; i < layout->count; i++) {
        const struct model_batch *batch = &model->batches[layout->first + i];
        struct stele_time_entry entry;
        if (batch->max_timestamp > max) {
            max = batch->max_timestamp;
            offset_of_max = batch->last_offset;
        }
        if (next == count)
            continue;
        MODEL_CHECK(model, stele_time_index_entry(&seg->times, next, &entry) == STELE_OK, "no time index entry");
        if (entry.offset != batch->last_offset)
            continue;
        MODEL_CHECK(model, entry.timestamp == max && entry.offset == offset_of_max,
                    "time index of %lld: (%lld, %lld), the largest so far is (%lld, %lld)", (long long)seg->base_offset,
                    (long long)entry.timestamp, (long long)entry.offset, (long long)max, (long long)offset_of_max);
        next++;
    }
    MODEL_CHECK(model, next == count, "time index of %lld has %lld entries, %lld of them for batches",
                (long long)seg->base_offset, (long long)count, (long long)next);
}

void log_model_check(const struct log_model *model, struct stele_log *log, const struct log_expected *expected)
{
    struct layout layout;
    stele_log_check(log);
    int64_t end = log_sound_end(log);
    int at = log_model_find(model, end);
    MODEL_CHECK(model, end <= model->end && (at == model->count || model->batches[at].base_offset >= end),
                "the log ends at %lld, inside a batch or behind all (%lld)", (long long)end, (long long)model->end);
    check_contents(model, log, expected->read_bytes);
    check_epochs(model, log, expected->epochs_from);
    if (stele_log_damaged_count(log) == 0)
        check_state(model, log, expected->env);
    for (int i = 0; i < stele_log_segment_count(log); i++) {
        struct stele_segment *seg = stele_log_segment(log, i);
        bool is_below_start = i + 1 < stele_log_segment_count(log) &&
                              stele_log_segment(log, i + 1)->base_offset <= stele_log_start_offset(log);
        if (is_below_start || (seg->base_offset >= end && seg->bytes > 0))
            continue;
        lay_out(model, log, i, &layout);
        check_offset_index(model, seg, &layout, expected);
        check_time_index(model, seg, &layout);
    }
}
