/* Every file of a partition is held against its log: the batches are read once into a table, then index entries,
 * snapshots, epochs and transaction indexes must agree with it. */
#include "storage/verify.h"

#include "storage/checkpoint.h"
#include "storage/epoch_cache.h"
#include "storage/producer_state.h"
#include "storage/scan.h"
#include "storage/segment.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { UNPACKED_BYTES_MAX = 1 << 30, FILE_BYTES_MAX = INT32_MAX, BASES_MAX = 100000 };

struct seen_batch {
    int64_t pos, base_offset, last_offset, max_timestamp; /* the largest timestamp of the segment up to here */
    int64_t largest_at;                                   /* last offset of the batch that first reached it */
    int64_t record_max;                                   /* of this batch's header */
    int32_t epoch;
    bool is_abort;
};

struct verifying {
    struct stele_env *env;
    const struct stele_verify_options *options;
    struct stele_verify_report *report;
    bool is_compacted;
    /* of the partition being read */
    int64_t *bases;
    int base_count, base_capacity;
    /* of the segment being read */
    struct seen_batch *batches;
    int64_t batch_count, batch_capacity;
    int64_t expected; /* next offset over segments; -1 at the start */
    int32_t last_epoch;
    int64_t rebuilt_from, cut_from;  /* where recovery may rebuild and cut; INT64_MAX nowhere */
    struct stele_epoch_cache epochs; /* rebuilt from the log */
    /* of the log directory */
    struct stele_checkpoint cleaner, points, marks;
    bool was_clean;
};

static void found(struct verifying *v, enum stele_finding_kind kind, const char *path, int64_t pos, const char *format,
                  ...) STELE_PRINTF(5, 6);

static void found(struct verifying *v, enum stele_finding_kind kind, const char *path, int64_t pos, const char *format,
                  ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct stele_finding finding = {.kind = kind, .path = path, .pos = pos, .text = text};
    if (kind == STELE_FINDING_DAMAGE)
        v->report->damages++;
    else
        v->report->crash_leftovers++;
    v->options->found(v->options->arg, &finding);
}

static enum stele_err read_file(struct verifying *v, const char *path, uint8_t **out_bytes, size_t *out_count)
{
    enum stele_err err =
        stele_vfs_read_whole(v->env->vfs, v->env->mem, STELE_MEM_TOOL, path, FILE_BYTES_MAX, out_bytes, out_count);
    if (err == STELE_OK) {
        v->report->files++;
        v->report->bytes += (int64_t)*out_count;
    }
    return err;
}

static enum stele_err add_batch(struct verifying *v, const struct seen_batch *batch)
{
    if (v->batch_count == v->batch_capacity) {
        int64_t capacity = v->batch_capacity == 0 ? 64 : v->batch_capacity * 2;
        struct seen_batch *batches =
            stele_mem_resize(v->env->mem, STELE_MEM_TOOL, v->batches, (size_t)capacity * sizeof(*batches));
        if (batches == NULL)
            return STELE_NO_MEMORY;
        v->batches = batches;
        v->batch_capacity = capacity;
    }
    v->batches[v->batch_count++] = *batch;
    return STELE_OK;
}

/* The records of a sound batch: structure, offsets, largest timestamp, control type. */
static enum stele_err check_records(struct verifying *v, const char *path, const struct stele_scanned *scanned,
                                    const uint8_t *batch, struct seen_batch *seen)
{
    struct stele_record_walker walker;
    struct stele_record record;
    const struct stele_batch_header *header = &scanned->header;
    int64_t largest = INT64_MIN, last = header->base_offset - 1;
    enum stele_err err =
        stele_record_walker_init(&walker, v->env->mem, batch, (size_t)scanned->bytes, UNPACKED_BYTES_MAX);
    if (err == STELE_NO_MEMORY)
        return err;
    if (err != STELE_OK) {
        found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "the batch does not unpack");
        return STELE_OK;
    }
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        struct stele_control control;
        v->report->records++;
        if (record.offset <= last || record.offset > stele_batch_last_offset(header))
            found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "record offset %lld is out of order",
                  (long long)record.offset);
        last = record.offset;
        largest = stele_max_i64(largest, record.timestamp);
        if ((header->attributes & STELE_BATCH_CONTROL) != 0 && stele_control_read(&record, &control) == STELE_OK)
            seen->is_abort = control.type == STELE_CONTROL_ABORT;
    }
    stele_record_walker_deinit(&walker);
    if (err != STELE_END)
        found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "a record is not well formed");
    else if (header->record_count > 0 && largest != header->max_timestamp)
        found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "the largest record timestamp is %lld, the header says %lld",
              (long long)largest, (long long)header->max_timestamp);
    return STELE_OK;
}

static void check_order(struct verifying *v, const char *path, const struct stele_scanned *scanned)
{
    const struct stele_batch_header *header = &scanned->header;
    if (v->expected >= 0 && header->base_offset < v->expected)
        found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "offset %lld comes after %lld",
              (long long)header->base_offset, (long long)v->expected - 1);
    else if (v->expected >= 0 && header->base_offset > v->expected && !v->is_compacted)
        found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "offsets %lld to %lld are missing", (long long)v->expected,
              (long long)header->base_offset - 1);
    if (header->partition_leader_epoch < v->last_epoch)
        found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "leader epoch %d comes after %d",
              header->partition_leader_epoch, v->last_epoch);
    v->expected = stele_batch_last_offset(header) + 1;
    v->last_epoch = header->partition_leader_epoch > v->last_epoch ? header->partition_leader_epoch : v->last_epoch;
}

static enum stele_err take_batch(struct verifying *v, const char *path, const uint8_t *bytes,
                                 const struct stele_scanned *scanned)
{
    const struct stele_batch_header *header = &scanned->header;
    const struct seen_batch *before = v->batch_count == 0 ? NULL : &v->batches[v->batch_count - 1];
    struct seen_batch seen = {.pos = scanned->pos,
                              .base_offset = header->base_offset,
                              .last_offset = stele_batch_last_offset(header),
                              .max_timestamp = before == NULL ? -1 : before->max_timestamp,
                              .largest_at = before == NULL ? -1 : before->largest_at,
                              .record_max = header->max_timestamp,
                              .epoch = header->partition_leader_epoch};
    if (header->max_timestamp > seen.max_timestamp) {
        seen.max_timestamp = header->max_timestamp;
        seen.largest_at = seen.last_offset;
    }
    check_order(v, path, scanned);
    v->report->batches++;
    enum stele_err err = check_records(v, path, scanned, bytes + scanned->pos, &seen);
    if (err == STELE_OK && header->partition_leader_epoch >= 0 &&
        header->partition_leader_epoch > stele_epoch_cache_latest(&v->epochs))
        err = stele_epoch_cache_assign(&v->epochs, header->partition_leader_epoch, header->base_offset);
    return err == STELE_OK ? add_batch(v, &seen) : err;
}

static bool is_zero(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* A crash tears the last batch, above all that was settled: nothing but preallocated zeros comes after it. `size`: of a
 * batch that is all there but wrong; otherwise 0. */
static bool is_torn(const struct verifying *v, int64_t base_offset, const uint8_t *bytes, size_t count, size_t size)
{
    int64_t next = v->expected >= 0 ? v->expected : base_offset;
    return next >= v->cut_from && (size == 0 || is_zero(bytes + size, count - size));
}

static enum stele_err verify_log(struct verifying *v, const char *path, int64_t base_offset, bool is_last)
{
    uint8_t *bytes = NULL;
    size_t count = 0, at = 0;
    enum stele_err err = read_file(v, path, &bytes, &count);
    v->batch_count = 0;
    while (err == STELE_OK && at < count) {
        struct stele_scanned scanned = {.pos = (int64_t)at};
        int64_t size = count - at < STELE_BATCH_HEADER_BYTES ? 0 : stele_batch_size(bytes + at);
        bool is_whole = size >= STELE_BATCH_HEADER_BYTES && (size_t)size <= count - at;
        enum stele_err bad =
            is_whole ? stele_batch_check(bytes + at, (size_t)size, &scanned.header) : STELE_CORRUPT_MESSAGE;
        if (bad == STELE_OK && scanned.header.base_offset < base_offset)
            bad = STELE_CORRUPT_MESSAGE;
        if (bad != STELE_OK) {
            bool is_empty = is_zero(bytes + at, count - at);
            bool is_crash = is_last && (is_empty || count - at < STELE_BATCH_HEADER_BYTES ||
                                        is_torn(v, base_offset, bytes + at, count - at, is_whole ? (size_t)size : 0));
            found(v, is_crash ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, path, (int64_t)at,
                  is_empty   ? "zeros at the end"
                  : is_whole ? "the batch fails its checksum"
                             : "the batch is cut or its length is wrong");
            if (!is_whole)
                break;
            v->expected = -1;
            at += (size_t)size;
            continue;
        }
        scanned.bytes = size;
        err = take_batch(v, path, bytes, &scanned);
        at += (size_t)size;
    }
    stele_mem_free(v->env->mem, bytes);
    return err;
}

/* The batch whose last offset this is; NULL when none has it. */
static const struct seen_batch *batch_ending(const struct verifying *v, int64_t last_offset)
{
    int64_t low = 0, high = v->batch_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (v->batches[middle].last_offset < last_offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->batch_count && v->batches[low].last_offset == last_offset ? &v->batches[low] : NULL;
}

/* Entries before the zeros of preallocation; the zeros are a leftover of a crash. */
static size_t index_entries(struct verifying *v, const char *path, const uint8_t *bytes, size_t count, size_t entry)
{
    size_t used = count / entry * entry;
    while (used >= entry && is_zero(bytes + used - entry, entry))
        used -= entry;
    if (used < count)
        found(v, is_zero(bytes + used, count - used) ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, path, (int64_t)used,
              "%zu bytes after the last entry", count - used);
    return used / entry;
}

static void check_offset_entries(struct verifying *v, const char *path, const uint8_t *bytes, size_t entries,
                                 int64_t base_offset)
{
    int64_t last = -1;
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *at = bytes + i * STELE_OFFSET_ENTRY_BYTES;
        int64_t offset = base_offset + stele_get_i32(at), pos = stele_get_i32(at + 4);
        const struct seen_batch *batch = batch_ending(v, offset);
        v->report->index_entries++;
        if (batch == NULL || batch->pos != pos)
            found(v, STELE_FINDING_DAMAGE, path, (int64_t)i * STELE_OFFSET_ENTRY_BYTES,
                  "entry (offset %lld, position %lld) points at no batch that ends there", (long long)offset,
                  (long long)pos);
        if (offset <= last)
            found(v, STELE_FINDING_DAMAGE, path, (int64_t)i * STELE_OFFSET_ENTRY_BYTES, "entries do not rise");
        last = offset;
    }
}

static void check_time_entries(struct verifying *v, const char *path, const uint8_t *bytes, size_t entries,
                               int64_t base_offset)
{
    int64_t last = -1;
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *at = bytes + i * STELE_TIME_ENTRY_BYTES;
        int64_t timestamp = stele_get_i64(at), offset = base_offset + stele_get_i32(at + 8);
        const struct seen_batch *batch = batch_ending(v, offset);
        v->report->index_entries++;
        if (batch == NULL || batch->record_max != timestamp || batch->max_timestamp != timestamp)
            found(v, STELE_FINDING_DAMAGE, path, (int64_t)i * STELE_TIME_ENTRY_BYTES,
                  "entry (timestamp %lld, offset %lld) is not the largest timestamp up to a batch that ends there",
                  (long long)timestamp, (long long)offset);
        if (timestamp <= last)
            found(v, STELE_FINDING_DAMAGE, path, (int64_t)i * STELE_TIME_ENTRY_BYTES, "entries do not rise");
        last = timestamp;
    }
}

static void check_txn_entries(struct verifying *v, const char *path, const uint8_t *bytes, size_t count)
{
    int64_t last = -1;
    for (size_t at = 0; count - at >= STELE_TXN_ENTRY_BYTES; at += STELE_TXN_ENTRY_BYTES) {
        struct stele_aborted_txn txn;
        v->report->index_entries++;
        if (stele_aborted_txn_read(bytes + at, &txn) != STELE_OK) {
            found(v, STELE_FINDING_DAMAGE, path, (int64_t)at, "unknown version");
            continue;
        }
        const struct seen_batch *batch = batch_ending(v, txn.last_offset);
        if (batch == NULL || !batch->is_abort || txn.first_offset > txn.last_offset || txn.last_offset <= last)
            found(v, STELE_FINDING_DAMAGE, path, (int64_t)at,
                  "entry names offset %lld, where no transaction was aborted", (long long)txn.last_offset);
        last = txn.last_offset;
    }
    if (count % STELE_TXN_ENTRY_BYTES != 0)
        found(v, STELE_FINDING_CRASH, path, (int64_t)(count / STELE_TXN_ENTRY_BYTES * STELE_TXN_ENTRY_BYTES),
              "a cut entry at the end");
}

static enum stele_err segment_path(const char *dir, int64_t base, const char *suffix, char out[STELE_PATH_BYTES])
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(base, suffix, name);
    return stele_path_join(out, dir, name);
}

static enum stele_err verify_side(struct verifying *v, const char *dir, int64_t base, const char *suffix)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = segment_path(dir, base, suffix, path);
    if (err == STELE_OK)
        err = read_file(v, path, &bytes, &count);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    if (strcmp(suffix, ".index") == 0)
        check_offset_entries(v, path, bytes, index_entries(v, path, bytes, count, STELE_OFFSET_ENTRY_BYTES), base);
    else if (strcmp(suffix, ".timeindex") == 0)
        check_time_entries(v, path, bytes, index_entries(v, path, bytes, count, STELE_TIME_ENTRY_BYTES), base);
    else
        check_txn_entries(v, path, bytes, count);
    stele_mem_free(v->env->mem, bytes);
    return STELE_OK;
}

static enum stele_err verify_segment(struct verifying *v, const char *dir, int64_t base, bool is_last)
{
    static const char *const sides[] = {".index", ".timeindex", ".txnindex"};
    char path[STELE_PATH_BYTES];
    enum stele_err err = segment_path(dir, base, ".log", path);
    if (err == STELE_OK)
        err = verify_log(v, path, base, is_last);
    for (size_t i = 0; i < STELE_ARRAY_LEN(sides) && err == STELE_OK; i++)
        err = verify_side(v, dir, base, sides[i]);
    return err;
}

static enum stele_err verify_snapshot(struct verifying *v, const char *path, int64_t offset)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    int entries = 0;
    enum stele_err err = read_file(v, path, &bytes, &count);
    if (err != STELE_OK)
        return err;
    if (stele_snapshot_check(bytes, count, &entries) != STELE_OK)
        found(v, STELE_FINDING_DAMAGE, path, 0, "wrong version, checksum or length");
    for (int i = 0; i < entries; i++) {
        struct stele_producer_entry entry;
        if (stele_snapshot_entry(bytes, count, i, &entry) != STELE_OK || entry.last_offset >= offset ||
            entry.txn_first_offset >= offset)
            found(v, STELE_FINDING_DAMAGE, path, STELE_SNAPSHOT_HEADER_BYTES + (int64_t)i * STELE_SNAPSHOT_ENTRY_BYTES,
                  "entry %d makes no sense", i);
    }
    stele_mem_free(v->env->mem, bytes);
    return STELE_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t bytes = strlen(text), length = strlen(end);
    return bytes >= length && strcmp(text + bytes - length, end) == 0;
}

struct listing {
    struct verifying *v;
    const char *dir;
    bool is_partition;
    enum stele_err (*each)(struct listing *listing, const char *name, const char *path);
};

static enum stele_err list_name(void *arg, const char *name)
{
    struct listing *listing = arg;
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, listing->dir, name);
    return err == STELE_OK ? listing->each(listing, name, path) : err;
}

/* First pass: the segments' bases, and what needs no log. */
static enum stele_err see_file(struct listing *listing, const char *name, const char *path)
{
    struct verifying *v = listing->v;
    const char *suffix;
    int64_t offset;
    if (ends_with(name, ".deleted") || ends_with(name, ".cleaned") || ends_with(name, ".swap") ||
        ends_with(name, ".tmp")) {
        found(v, STELE_FINDING_CRASH, path, -1, "a leftover of a deletion, a clean or a crash");
        return STELE_OK;
    }
    if (!stele_segment_name_parse(name, &offset, &suffix))
        return STELE_OK;
    if (strcmp(suffix, ".snapshot") == 0)
        return verify_snapshot(v, path, offset);
    if (strcmp(suffix, ".log") != 0)
        return STELE_OK;
    if (v->base_count == v->base_capacity) {
        int capacity = v->base_capacity == 0 ? 16 : v->base_capacity * 2;
        int64_t *bases = stele_mem_resize(v->env->mem, STELE_MEM_TOOL, v->bases, (size_t)capacity * sizeof(*bases));
        if (bases == NULL)
            return STELE_NO_MEMORY;
        v->bases = bases;
        v->base_capacity = capacity;
    }
    v->bases[v->base_count++] = offset; /* names come in ascending order */
    return STELE_OK;
}

/* Epochs of the file that fall inside the log must start where the log says. */
static enum stele_err verify_epochs(struct verifying *v, const char *dir)
{
    struct stele_epoch_cache cache;
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, dir, STELE_LEADER_EPOCH_FILE);
    stele_epoch_cache_init(&cache, v->env->mem);
    if (err == STELE_OK)
        err = stele_epoch_cache_load(&cache, v->env->vfs, dir);
    if (err == STELE_CORRUPT) {
        found(v, STELE_FINDING_DAMAGE, path, 0, "the file does not parse");
        err = STELE_OK;
    }
    for (int i = 0; i < v->epochs.count && err == STELE_OK && cache.count > 0; i++) {
        const struct stele_epoch_entry *entry = &v->epochs.entries[i];
        bool is_there = false;
        for (int k = 0; k < cache.count; k++)
            is_there = is_there ||
                       (cache.entries[k].epoch == entry->epoch && cache.entries[k].start_offset == entry->start_offset);
        /* The first epoch may have begun before the log's start, or at a record that was compacted away. */
        if (!is_there && !v->is_compacted && i > 0)
            found(v, entry->start_offset >= v->rebuilt_from ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, path, -1,
                  "epoch %d starts at %lld in the log, and the file says otherwise", entry->epoch,
                  (long long)entry->start_offset);
    }
    for (int k = 0; k < cache.count && err == STELE_OK; k++) {
        bool is_known = cache.entries[k].epoch <= stele_epoch_cache_latest(&v->epochs);
        if (!is_known && v->expected >= 0 && cache.entries[k].start_offset < v->expected)
            found(v, STELE_FINDING_DAMAGE, path, -1, "epoch %d is not in the log", cache.entries[k].epoch);
    }
    stele_epoch_cache_deinit(&cache);
    return err;
}

/* What the checkpoints and the marker say of the partitions in this directory. A bad checkpoint is found elsewhere. */
static enum stele_err load_checkpoints(struct verifying *v, const char *log_dir)
{
    static const char *const names[] = {STELE_CLEANER_OFFSET_FILE, STELE_RECOVERY_POINT_FILE,
                                        STELE_HIGH_WATERMARK_FILE};
    struct stele_checkpoint *const checkpoints[] = {&v->cleaner, &v->points, &v->marks};
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (stele_checkpoint_read(checkpoints[i], v->env->vfs, log_dir, names[i], NULL) == STELE_NO_MEMORY)
            return STELE_NO_MEMORY;
    }
    enum stele_err err = stele_path_join(path, log_dir, STELE_CLEAN_SHUTDOWN_FILE);
    v->was_clean = err == STELE_OK && v->env->vfs->ops->stat(v->env->vfs, path, &stat) == STELE_OK;
    return err;
}

/* Recovery's rule: it scans from the recovery point and cuts above the high watermark too. Nothing is excused after a
 * clean stop and in a partition that no checkpoint names. */
static void find_points(struct verifying *v, const char *topic, int32_t partition)
{
    int64_t point = 0, mark = 0;
    v->rebuilt_from = v->cut_from = INT64_MAX;
    if (v->was_clean || !stele_checkpoint_get(&v->points, topic, partition, &point))
        return;
    (void)stele_checkpoint_get(&v->marks, topic, partition, &mark);
    v->rebuilt_from = point;
    v->cut_from = stele_max_i64(point, mark);
}

static enum stele_err verify_partition(struct verifying *v, const char *dir, const char *name)
{
    struct listing listing = {.v = v, .dir = dir, .is_partition = true, .each = see_file};
    char topic[STELE_TOPIC_NAME_MAX + 1];
    struct stele_uuid topic_id;
    int32_t partition;
    enum stele_dir_kind kind;
    int64_t cleaned;
    v->base_count = 0;
    v->expected = -1;
    v->last_epoch = -1;
    v->epochs.count = 0;
    v->is_compacted = v->options->is_compacted;
    if (stele_partition_dir_parse(name, topic, &partition, &kind) == STELE_OK) {
        v->is_compacted = v->is_compacted || stele_checkpoint_get(&v->cleaner, topic, partition, &cleaned);
        find_points(v, topic, partition);
    }
    enum stele_err err = v->env->vfs->ops->list(v->env->vfs, dir, list_name, &listing);
    for (int i = 0; i < v->base_count && err == STELE_OK; i++)
        err = verify_segment(v, dir, v->bases[i], i == v->base_count - 1);
    if (err == STELE_OK)
        err = verify_epochs(v, dir);
    if (err == STELE_OK && stele_partition_metadata_read(v->env->vfs, v->env->mem, dir, &topic_id) == STELE_CORRUPT)
        found(v, STELE_FINDING_DAMAGE, dir, -1, STELE_PARTITION_METADATA_FILE " does not parse");
    return err;
}

static enum stele_err see_entry(struct listing *listing, const char *name, const char *path)
{
    struct verifying *v = listing->v;
    struct stele_stat stat;
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    enum stele_dir_kind kind;
    struct stele_error error = {.text = ""};
    enum stele_err err = v->env->vfs->ops->stat(v->env->vfs, path, &stat);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    if (stat.is_dir) {
        if (stele_partition_dir_parse(name, topic, &partition, &kind) == STELE_OK)
            return verify_partition(v, path, name);
        return STELE_OK;
    }
    if (ends_with(name, "-offset-checkpoint")) {
        struct stele_checkpoint checkpoint;
        v->report->files++;
        stele_checkpoint_init(&checkpoint, v->env->mem);
        err = stele_checkpoint_read(&checkpoint, v->env->vfs, listing->dir, name, &error);
        stele_checkpoint_deinit(&checkpoint);
        if (err == STELE_CORRUPT)
            found(v, STELE_FINDING_DAMAGE, path, 0, "%.200s", error.text);
        return err == STELE_CORRUPT ? STELE_OK : err;
    }
    return STELE_OK;
}

static enum stele_err verify_dir(struct verifying *v, const char *path)
{
    struct listing bare = {.v = v, .dir = path, .each = see_file}, log_dir = {.v = v, .dir = path, .each = see_entry};
    const char *name = strrchr(path, '/');
    /* A directory with segments is a partition; otherwise it holds partitions. */
    struct stele_verify_report before = *v->report;
    v->base_count = 0;
    enum stele_err err = v->env->vfs->ops->list(v->env->vfs, path, list_name, &bare);
    if (err != STELE_OK)
        return err;
    if (v->base_count > 0) {
        char parent[STELE_PATH_BYTES];
        *v->report = before;
        err = stele_path_join(parent, path, "..");
        if (err == STELE_OK)
            err = load_checkpoints(v, parent);
        return err == STELE_OK ? verify_partition(v, path, name == NULL ? path : name + 1) : err;
    }
    err = load_checkpoints(v, path);
    return err != STELE_OK ? err : v->env->vfs->ops->list(v->env->vfs, path, list_name, &log_dir);
}

static enum stele_err verify_file(struct verifying *v, const char *path)
{
    char dir[STELE_PATH_BYTES];
    const char *name = strrchr(path, '/'), *suffix;
    int64_t offset;
    (void)snprintf(dir, sizeof(dir), "%.*s", name == NULL ? 1 : (int)(name - path), name == NULL ? "." : path);
    if (!stele_segment_name_parse(name == NULL ? path : name + 1, &offset, &suffix))
        return STELE_INVALID_ARGUMENT;
    if (strcmp(suffix, ".snapshot") == 0)
        return verify_snapshot(v, path, offset);
    v->expected = -1;
    v->last_epoch = -1;
    v->is_compacted = v->options->is_compacted;
    return verify_segment(v, dir, offset, true);
}

enum stele_err stele_verify(struct stele_env *env, const char *path, const struct stele_verify_options *options,
                            struct stele_verify_report *out_report)
{
    struct stele_verify_report report = {0};
    struct verifying v = {
        .env = env, .options = options, .report = &report, .rebuilt_from = INT64_MAX, .cut_from = INT64_MAX};
    struct stele_stat stat;
    stele_epoch_cache_init(&v.epochs, env->mem);
    stele_checkpoint_init(&v.cleaner, env->mem);
    stele_checkpoint_init(&v.points, env->mem);
    stele_checkpoint_init(&v.marks, env->mem);
    enum stele_err err = env->vfs->ops->stat(env->vfs, path, &stat);
    if (err == STELE_OK)
        err = stat.is_dir ? verify_dir(&v, path) : verify_file(&v, path);
    stele_epoch_cache_deinit(&v.epochs);
    stele_checkpoint_deinit(&v.cleaner);
    stele_checkpoint_deinit(&v.points);
    stele_checkpoint_deinit(&v.marks);
    stele_mem_free(env->mem, v.batches);
    stele_mem_free(env->mem, v.bases);
    if (err == STELE_OK)
        *out_report = report;
    return err;
}
