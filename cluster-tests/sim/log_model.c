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

static bool is_bad(const struct model_batch *batch)
{
    return batch->is_rotten || batch->is_shadowed;
}

static bool has_rot_in(const struct log_model *model, int64_t first, int64_t last)
{
    for (int i = log_model_find(model, first); i < model->count && model->batches[i].base_offset <= last; i++) {
        if (is_bad(&model->batches[i]))
            return true;
    }
    return false;
}

bool log_model_has_rot(const struct log_model *model, int64_t first, int64_t last)
{
    for (int i = 0; i < model->ghost_count; i++) {
        const struct model_batch *ghost = &model->ghosts[i];
        if (is_bad(ghost) && ghost->last_offset >= first && ghost->base_offset <= last)
            return true;
    }
    return has_rot_in(model, first, last);
}

/* Rot is where a range begins; what else is damaged was lost, at the end of the log. */
static bool is_by_rot(const struct log_model *model, const struct stele_damaged_range *range, int64_t start)
{
    int at = log_model_find(model, range->first_offset);
    if (range->last_offset < model->passed)
        return true;
    /* Below the start, before a hole of a compacted log: nobody can tell how far it reached. */
    if (range->first_offset == start && at > 0 && model->batches[at - 1].base_offset >= range->segment_base &&
        model->batches[at - 1].is_rotten)
        return true;
    if (at < model->count && model->batches[at].base_offset <= range->first_offset)
        return model->batches[at].is_rotten || (range->first_offset == start && is_bad(&model->batches[at]));
    return has_rot_in(model, range->first_offset, range->last_offset);
}

int64_t log_model_sound_end(const struct log_model *model, const struct stele_log *log)
{
    int64_t end = stele_log_end_offset(log);
    for (int i = 0; i < stele_log_damaged_count(log); i++) {
        const struct stele_damaged_range *range = stele_log_damaged(log, i);
        if (!is_by_rot(model, range, stele_log_start_offset(log)))
            end = stele_min_i64(end, range->first_offset);
    }
    return end;
}

static void mark(struct model_batch *batches, int count, const struct model_batch *like)
{
    for (int i = 0; i < count; i++) {
        if (batches[i].count != like->count || memcmp(batches[i].bytes, like->bytes, like->count) != 0)
            continue;
        batches[i].is_rotten |= like->is_rotten;
        batches[i].is_shadowed |= like->is_shadowed;
    }
}

void log_model_mark(struct log_model *model, const uint8_t *bytes, size_t count, bool is_rotten)
{
    struct model_batch like = {
        .bytes = (uint8_t *)(uintptr_t)bytes, .count = count, .is_rotten = is_rotten, .is_shadowed = !is_rotten};
    mark(model->batches, model->count, &like);
    mark(model->ghosts, model->ghost_count, &like);
}

void log_model_shadow(struct log_model *model, int64_t base_offset)
{
    bool is_behind = false;
    for (int i = log_model_find(model, base_offset); i < model->count; i++) {
        is_behind = is_behind || model->batches[i].is_rotten;
        model->batches[i].is_shadowed |= is_behind && !model->batches[i].is_rotten;
    }
}

void log_model_see(struct log_model *model, int64_t first, int64_t end)
{
    for (int i = log_model_find(model, first); i < model->count && model->batches[i].base_offset < end; i++)
        model->batches[i].is_shadowed = false;
}

void log_model_mark_index(struct log_model *model, int64_t base_offset)
{
    if (model->rotten_index_count < MODEL_ROTTEN_INDEXES_MAX)
        model->rotten_indexes[model->rotten_index_count++] = base_offset;
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

/* A batch that rotted, at this offset or behind a hole there, or NULL: what stands there cannot tell. */
static struct model_batch *find_rotten(struct log_model *model, int64_t offset)
{
    int at = log_model_find(model, offset);
    if (at < model->count && model->batches[at].base_offset >= offset && model->batches[at].bytes != NULL &&
        model->batches[at].is_rotten)
        return &model->batches[at];
    for (int i = 0; i < model->ghost_count; i++) {
        if (model->ghosts[i].base_offset == offset && model->ghosts[i].is_rotten)
            return &model->ghosts[i];
    }
    return NULL;
}

size_t log_model_rotten_bytes(struct log_model *model, int64_t offset, int64_t *out_next)
{
    const struct model_batch *rotten = find_rotten(model, offset);
    if (rotten == NULL)
        return 0;
    *out_next = rotten->last_offset + 1;
    return rotten->count;
}

/* Takes the rotten batch that must stand at the end of what was adopted. False: none does. */
static bool adopt_rotten(struct log_model *model, struct log_model *adopted, int64_t end, size_t *out_bytes)
{
    struct model_batch *rotten = find_rotten(model, adopted->end);
    if (rotten == NULL || rotten->last_offset >= end)
        return false;
    struct model_batch *at = room(&adopted->batches, &adopted->count, &adopted->capacity);
    *at = *rotten;
    if (rotten >= model->ghosts && rotten < model->ghosts + model->ghost_count)
        *rotten = model->ghosts[--model->ghost_count];
    else
        rotten->bytes = NULL;
    adopted->end = at->last_offset + 1;
    *out_bytes = at->count;
    return true;
}

/* Where the log itself goes on behind damage, below its start perhaps. */
static bool go_to_joint(struct stele_scan *scan, const struct stele_segment *seg, int64_t *out_offset)
{
    for (int i = 0; i < seg->joint_count; i++) {
        if (seg->joints[i].pos <= scan->pos)
            continue;
        *out_offset = seg->joints[i].offset;
        return stele_scan_start(scan, scan->file, seg->joints[i].pos, scan->end) == STELE_OK;
    }
    return false;
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
    while (adopted->end < end) {
        size_t rotten_bytes = 0;
        enum stele_err err = stele_scan_next(&scan, &batch);
        if (err == STELE_CORRUPT && scan.pos < seg->bytes && adopt_rotten(model, adopted, end, &rotten_bytes)) {
            MODEL_CHECK(model, stele_scan_start(&scan, file, scan.pos + (int64_t)rotten_bytes, seg->bytes) == STELE_OK,
                        "no memory");
            continue;
        }
        if (err == STELE_CORRUPT && go_to_joint(&scan, seg, &adopted->end))
            continue;
        if (err != STELE_OK)
            break;
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
    int64_t first = stele_log_segment(log, 0)->base_offset, end = log_model_sound_end(model, log);
    for (int i = 0; i < model->count && model->batches[i].last_offset < first; i++) {
        *room(&adopted.batches, &adopted.count, &adopted.capacity) = model->batches[i];
        model->batches[i].bytes = NULL;
    }
    adopted.end = first;
    for (int i = 0; i < stele_log_segment_count(log); i++) {
        struct stele_segment *seg = stele_log_segment(log, i);
        bool is_last = i + 1 == stele_log_segment_count(log);
        int64_t next = is_last ? end : stele_min_i64(end, stele_log_segment(log, i + 1)->base_offset);
        adopted.end = stele_max_i64(adopted.end, seg->base_offset);
        adopt_segment(model, &adopted, seg, next, promised_end);
    }
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

/* Does what a reader got as the batch check? */
static bool does_check(const uint8_t *bytes, size_t count)
{
    struct stele_batch_header header;
    int64_t batch = count < STELE_BATCH_HEADER_BYTES ? 0 : stele_batch_size(bytes);
    return batch > 0 && (size_t)batch <= count && stele_batch_check(bytes, (size_t)batch, &header) == STELE_OK;
}

/* Is a hole before this batch what was lost below a start that the log no longer knows? Then the file may still hold
 * what a loss of power left of it. */
static bool is_passed_loss(const struct log_model *model, int at, int64_t next)
{
    return next < model->passed && model->batches[at].base_offset > next;
}

/* Compares the slice's bytes and returns the offset to go on at. */
static int64_t check_slice(const struct log_model *model, const struct stele_slice *slice,
                           const struct log_expected *expected)
{
    struct stele_file *file = NULL;
    int at = log_model_find(model, slice->base_offset);
    size_t done = 0;
    int64_t next = slice->base_offset;
    uint8_t *bytes = malloc(slice->bytes + 1);
    if (bytes == NULL)
        abort();
    MODEL_CHECK(model, at < model->count && model->batches[at].base_offset == slice->base_offset,
                "read gave a batch at %lld that was never appended", (long long)slice->base_offset);
    MODEL_CHECK(model, stele_cached_file_pin(slice->file, &file) == STELE_OK, "a slice's file cannot be opened");
    MODEL_CHECK(model, stele_file_read(file, bytes, slice->bytes, slice->pos) == STELE_OK,
                "a slice is longer than its file");
    stele_cached_file_unpin(slice->file);
    for (; done < slice->bytes; at++) {
        if (at < model->count && is_passed_loss(model, at, next) && !does_check(bytes + done, slice->bytes - done)) {
            ++*expected->caught;
            next = model->batches[at].base_offset;
            break;
        }
        MODEL_CHECK(model, at < model->count, "read gave more than was appended");
        const struct model_batch *batch = &model->batches[at];
        size_t piece = stele_min_size(slice->bytes - done, batch->count);
        if (batch->is_rotten)
            MODEL_CHECK(model, !does_check(bytes + done, piece), "the rotten batch at %lld checks",
                        (long long)batch->base_offset);
        else
            MODEL_CHECK(model, memcmp(bytes + done, batch->bytes, piece) == 0,
                        "bytes of the batch at %lld differ from those appended", (long long)batch->base_offset);
        *expected->caught += batch->is_rotten;
        if (piece == batch->count || (batch->is_rotten && done == 0)) /* a rotten size may make the slice short */
            next = batch->last_offset + 1;
        done += piece;
    }
    free(bytes);
    return next;
}

/* What a reader of a rotten batch, or of one behind it, may get instead: the offset to go on at, or -1 when `slice` is
 * as it should be. */
static int64_t check_rot(const struct log_model *model, const struct model_batch *batch, enum stele_err err,
                         struct stele_slice *slice, const struct log_expected *expected)
{
    uint8_t bytes[8192];
    struct stele_file *file = NULL;
    if (err == STELE_DAMAGED_RANGE) {
        ++*expected->refused;
        return batch->last_offset + 1;
    }
    MODEL_CHECK(model, err == STELE_OK, "read of the rotten batch at %lld: %s", (long long)batch->base_offset,
                stele_err_name(err));
    if (slice->bytes == 0 || slice->base_offset == batch->base_offset)
        return -1;
    MODEL_CHECK(model, stele_cached_file_pin(slice->file, &file) == STELE_OK, "a slice's file cannot be opened");
    size_t count = stele_min_size(slice->bytes, sizeof(bytes));
    MODEL_CHECK(model, stele_file_read(file, bytes, count, slice->pos) == STELE_OK, "a slice is longer than its file");
    stele_cached_file_unpin(slice->file);
    MODEL_CHECK(model, !does_check(bytes, count), "a read at %lld gave another batch, which checks",
                (long long)batch->base_offset);
    stele_slice_release(slice);
    ++*expected->caught;
    return batch->last_offset + 1;
}

static void check_damaged(const struct log_model *model, struct stele_log *log)
{
    for (int i = 0; i < stele_log_damaged_count(log); i++) {
        const struct stele_damaged_range *range = stele_log_damaged(log, i);
        int64_t offsets[2] = {range->first_offset, range->last_offset};
        for (int k = 0; k < 2; k++) {
            struct stele_slice slice;
            struct stele_read read = {
                .offset = offsets[k], .bound = stele_log_end_offset(log), .max_bytes = 100, .min_one = true};
            if (offsets[k] < stele_log_start_offset(log))
                continue;
            enum stele_err err = stele_log_read(log, &read, &slice);
            MODEL_CHECK(model, err == STELE_DAMAGED_RANGE, "read at damaged %lld: %s", (long long)offsets[k],
                        stele_err_name(err));
        }
        for (int at = log_model_find(model, range->first_offset);
             at < model->count && model->batches[at].base_offset <= range->last_offset; at++)
            MODEL_CHECK(model, is_bad(&model->batches[at]), "the batch at %lld is sound and in a damaged range",
                        (long long)model->batches[at].base_offset);
    }
}

static void check_contents(const struct log_model *model, struct stele_log *log, const struct log_expected *expected)
{
    int64_t end = log_model_sound_end(model, log), offset = stele_log_start_offset(log), next = 0;
    struct stele_slice slice;
    for (; offset < end; offset = next) {
        struct stele_read read = {.offset = offset, .bound = end, .max_bytes = expected->read_bytes, .min_one = true};
        enum stele_err err = stele_log_read(log, &read, &slice);
        int at = log_model_find(model, offset);
        bool is_there = at < model->count && model->batches[at].base_offset <= offset;
        if (at < model->count && is_bad(&model->batches[at])) {
            next = check_rot(model, &model->batches[at], err, &slice, expected);
            if (next >= 0)
                continue;
        }
        bool is_loss = offset < model->passed || log_model_has_rot(model, 0, offset);
        if (!is_there && err == STELE_DAMAGED_RANGE && is_loss) {
            next = at < model->count ? model->batches[at].base_offset : end; /* lost behind rot at the end */
            continue;
        }
        MODEL_CHECK(model, err == STELE_OK, "read at %lld of [%lld, %lld): %s", (long long)offset,
                    (long long)stele_log_start_offset(log), (long long)end, stele_err_name(err));
        if (slice.bytes == 0 && (at == model->count || model->batches[at].base_offset >= end))
            break; /* a hole at the end */
        MODEL_CHECK(model, slice.bytes > 0, "read at %lld below %lld gave nothing", (long long)offset, (long long)end);
        next = check_slice(model, &slice, expected);
        stele_slice_release(&slice);
        /* A rotten header may reach into the hole behind its batch: the reader saw that it does not check. */
        if (!is_there && next <= offset && log_model_has_rot(model, slice.base_offset, slice.base_offset))
            next = at < model->count ? model->batches[at].base_offset : end;
        MODEL_CHECK(model, next > offset, "read at %lld got no further", (long long)offset);
    }
    check_damaged(model, log);
}

/* Where the log began when the file of epochs was written is in that file alone: what rotted may leave the first epoch
 * unknown there, which is no wrong answer. */
static void check_epochs(const struct log_model *model, const struct stele_log *log,
                         const struct log_expected *expected)
{
    const struct stele_epoch_cache *epochs = stele_log_epochs(log);
    int64_t end = log_model_sound_end(model, log);
    for (int i = log_model_find(model, stele_max_i64(expected->known_from, stele_log_start_offset(log)));
         i < model->count && model->batches[i].last_offset < end; i++) {
        const struct model_batch *batch = &model->batches[i];
        int32_t epoch = stele_epoch_cache_epoch_at(epochs, batch->last_offset);
        if (is_bad(batch) || (epoch < 0 && expected->had_rot))
            continue;
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

static void check_producers(const struct log_model *model, const struct stele_log *log, const struct replay *replay,
                            int64_t known_from)
{
    struct entries real = {.count = 0}, wanted = {.count = 0};
    int64_t start = stele_log_start_offset(log);
    stele_producers_each(stele_log_producers(log), collect, &real);
    stele_producers_each(replay->producers, collect, &wanted);
    for (int i = 0; i < wanted.count; i++) {
        const struct stele_producer_entry *want = &wanted.entry[i], *have = find_entry(&real, want->producer_id);
        if (want->last_offset < stele_max_i64(start, known_from))
            continue; /* only a snapshot may still know it */
        MODEL_CHECK(model, have != NULL, "producer %lld is not known", (long long)want->producer_id);
        MODEL_CHECK(model,
                    have->producer_epoch == want->producer_epoch && have->last_sequence == want->last_sequence &&
                        have->last_offset == want->last_offset && have->timestamp == want->timestamp &&
                        (have->coordinator_epoch == want->coordinator_epoch || want->coordinator_epoch < 0 ||
                         start < known_from),
                    "producer %lld: epoch %d sequence %d offset %lld, a replay says epoch %d sequence %d offset %lld",
                    (long long)want->producer_id, have->producer_epoch, have->last_sequence,
                    (long long)have->last_offset, want->producer_epoch, want->last_sequence,
                    (long long)want->last_offset);
        bool began_before = have->txn_first_offset >= 0 && want->txn_first_offset >= 0 &&
                            (have->txn_first_offset < start || want->txn_first_offset < known_from);
        MODEL_CHECK(model, began_before || have->txn_first_offset == want->txn_first_offset,
                    "producer %lld: transaction from %lld, a replay says %lld", (long long)want->producer_id,
                    (long long)have->txn_first_offset, (long long)want->txn_first_offset);
    }
    for (int i = 0; i < real.count; i++) {
        const struct stele_producer_entry *have = &real.entry[i];
        MODEL_CHECK(model, have->last_offset < log_model_sound_end(model, log),
                    "producer %lld wrote at %lld, behind the end", (long long)have->producer_id,
                    (long long)have->last_offset);
    }
}

static void check_aborted(const struct log_model *model, struct stele_log *log, const struct replay *replay,
                          int64_t known_from)
{
    int64_t start = stele_log_start_offset(log);
    for (int i = 0; i < replay->aborted_count; i++) {
        const struct stele_completed_txn *want = &replay->aborted[i];
        bool is_found = false;
        if (want->last_offset < start || want->first_offset < known_from)
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

static void check_state(const struct log_model *model, struct stele_log *log, const struct log_expected *expected)
{
    struct replay *replay = calloc(1, sizeof(*replay));
    if (replay == NULL)
        abort();
    replay->producers = stele_producers_new(expected->env->mem, stele_log_config(log)->producer_id_expiration_ms);
    MODEL_CHECK(model, replay->producers != NULL, "no memory");
    int64_t end = log_model_sound_end(model, log);
    for (int i = log_model_find(model, stele_log_start_offset(log));
         i < model->count && model->batches[i].last_offset < end; i++)
        replay_batch(model, replay, expected->env->mem, &model->batches[i]);
    check_producers(model, log, replay, expected->known_from);
    check_aborted(model, log, replay, expected->known_from);
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
    int64_t pos = 0, end = log_model_sound_end(model, log);
    if (at + 1 < stele_log_segment_count(log))
        end = stele_min_i64(end, stele_log_segment(log, at + 1)->base_offset);
    out->first = log_model_find(model, stele_log_segment(log, at)->base_offset);
    out->count = 0;
    for (int i = out->first; i < model->count && model->batches[i].last_offset < end; i++) {
        MODEL_CHECK(model, out->count < 1024, "too many batches in a segment");
        out->pos[out->count++] = pos;
        pos += (int64_t)model->batches[i].count;
    }
    int64_t last = out->count == 0 ? stele_log_segment(log, at)->base_offset
                                   : model->batches[out->first + out->count - 1].last_offset + 1;
    bool is_lost = last < end && last < model->passed; /* the file may hold what a loss of power left of it */
    if (stele_log_damaged_count(log) == 0 && stele_log_segment(log, at)->joint_count == 0 && !is_lost)
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

static bool has_rotten_index(const struct log_model *model, int64_t base_offset)
{
    bool is_known = model->rotten_index_count < MODEL_ROTTEN_INDEXES_MAX;
    for (int i = 0; i < model->rotten_index_count && is_known; i++)
        is_known = model->rotten_indexes[i] != base_offset;
    return !is_known;
}

static bool has_rot_between(const struct log_model *model, const struct layout *layout)
{
    for (int i = 0; i < layout->count; i++) {
        if (is_bad(&model->batches[layout->first + i]))
            return true;
    }
    return false;
}

void log_model_check(const struct log_model *model, struct stele_log *log, const struct log_expected *expected)
{
    struct layout layout;
    stele_log_check(log);
    int64_t end = log_model_sound_end(model, log);
    int at = log_model_find(model, end);
    MODEL_CHECK(model, end <= model->end && (at == model->count || model->batches[at].base_offset >= end),
                "the log ends at %lld, inside a batch or behind all (%lld)", (long long)end, (long long)model->end);
    check_contents(model, log, expected);
    check_epochs(model, log, expected);
    if (stele_log_damaged_count(log) == 0 &&
        !log_model_has_rot(model, stele_log_start_offset(log), stele_log_end_offset(log)))
        check_state(model, log, expected);
    for (int i = 0; i < stele_log_segment_count(log); i++) {
        struct stele_segment *seg = stele_log_segment(log, i);
        bool is_below_start = i + 1 < stele_log_segment_count(log) &&
                              stele_log_segment(log, i + 1)->base_offset <= stele_log_start_offset(log);
        if (is_below_start || (seg->base_offset >= end && seg->bytes > 0))
            continue;
        lay_out(model, log, i, &layout);
        if (has_rotten_index(model, seg->base_offset) || has_rot_between(model, &layout) || seg->joint_count > 0)
            continue;
        check_offset_index(model, seg, &layout, expected);
        check_time_index(model, seg, &layout);
    }
}
