/* Batches, and the offset and time index beside them. */
#include "storage/scan.h"
#include "storage/segment.h"
#include "storage/verify_struct.h"

#include <string.h>

enum { UNPACKED_BYTES_MAX = 1 << 30 };

/* A log file that is being read. */
struct reading {
    const char *path;
    const uint8_t *bytes;
    size_t count, at;
    int64_t base;      /* of the segment */
    int64_t next_base; /* of the next one; -1: this is the last */
};

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static bool header_makes_sense(const struct stele_batch_header *header)
{
    return header->base_offset >= 0 && header->last_offset_delta >= 0 && header->record_count >= 0 &&
           header->base_offset <= INT64_MAX - header->last_offset_delta - 1;
}

/* The size of the batch at `at`, sound or not; 0 when it is not all there. */
static size_t whole_size(const struct reading *reading, size_t at)
{
    size_t left = reading->count - at;
    int64_t size = left < STELE_BATCH_HEADER_BYTES ? 0 : stele_batch_size(reading->bytes + at);
    return size >= STELE_BATCH_HEADER_BYTES && (size_t)size <= left ? (size_t)size : 0;
}

static bool is_sound(const struct reading *reading, size_t at, struct stele_batch_header *out_header)
{
    size_t size = whole_size(reading, at);
    return size > 0 && stele_batch_check(reading->bytes + at, size, out_header) == STELE_OK &&
           header_makes_sense(out_header);
}

/* Where reading goes on after a bad batch: behind it when its size is good, else at the next sound batch that could
 * follow; `count` when there is none. */
static size_t next_batch(const struct reading *reading, int64_t offset_min, bool *out_is_sound)
{
    struct stele_batch_header header;
    size_t size = whole_size(reading, reading->at);
    size_t after = size == 0 ? reading->count : reading->at + size;
    *out_is_sound = after < reading->count && is_sound(reading, after, &header);
    if (*out_is_sound || (size > 0 && is_zero(reading->bytes + after, reading->count - after)))
        return after;
    for (size_t at = reading->at + 1; reading->count - at >= STELE_BATCH_HEADER_BYTES; at++) {
        const uint8_t *magic = memchr(reading->bytes + at + STELE_BATCH_POS_MAGIC, STELE_BATCH_MAGIC,
                                      reading->count - at - STELE_BATCH_HEADER_BYTES + 1);
        if (magic == NULL)
            break;
        at = (size_t)(magic - reading->bytes) - STELE_BATCH_POS_MAGIC;
        int64_t base = stele_get_i64(reading->bytes + at);
        if (base < offset_min || base > reading->base + INT32_MAX || !is_sound(reading, at, &header))
            continue;
        *out_is_sound = true;
        return at;
    }
    return after;
}

static enum stele_err settle_bad(struct stele_verifying *v, struct reading *reading)
{
    size_t left = reading->count - reading->at, size = whole_size(reading, reading->at);
    const uint8_t *at = reading->bytes + reading->at;
    int64_t next = v->expected >= 0 ? v->expected : reading->base;
    bool is_followed = false, is_empty = is_zero(at, left);
    size_t after = next_batch(reading, next, &is_followed);
    /* A crash tears the last batch, above all that was settled: nothing but preallocated zeros comes after it. A tail
     * that a roll cut off, not durably, takes no offset with it. */
    bool is_last = reading->next_base < 0 || reading->next_base == next;
    bool is_torn = next >= v->cut_from && !is_followed;
    bool is_fragment = left < STELE_BATCH_HEADER_BYTES && !v->is_clean;
    bool is_crash = is_last && (is_empty || is_torn || is_fragment);
    stele_verify__found(v, is_crash ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, reading->path, (int64_t)reading->at,
                        is_empty   ? "zeros at the end"
                        : size > 0 ? "the batch fails its checksum"
                                   : "the batch is cut or its length is wrong");
    if (!is_crash) {
        v->state = STELE_STATE_LOST;
        v->was_lost = true;
        v->lost_from = v->lost_from < 0 ? next : v->lost_from;
        v->lost_to = is_followed ? stele_get_i64(reading->bytes + after) : INT64_MAX;
        v->expected = -1;
    }
    reading->at = is_empty ? reading->count : after;
    return STELE_OK;
}

/* What is known of a batch once its records were walked. */
struct walked {
    struct stele_control control;
    bool has_control;
};

/* The first record of a control batch says what it does; recovery takes one that says nothing for damage. */
static void walk_control(struct stele_verifying *v, const char *path, int64_t pos, const struct stele_record *record,
                         struct walked *out)
{
    out->has_control = stele_control_read(record, &out->control) == STELE_OK;
    if (!out->has_control)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, pos, "the control record makes no sense");
}

/* The records of a sound batch: structure, offsets, largest timestamp, control type. */
static enum stele_err walk_records(struct stele_verifying *v, const char *path, const struct stele_scanned *scanned,
                                   struct walked *out)
{
    struct stele_record_walker walker;
    struct stele_record record;
    const struct stele_batch_header *header = &scanned->header;
    int64_t largest = INT64_MIN, last = header->base_offset - 1;
    bool is_control = (header->attributes & STELE_BATCH_CONTROL) != 0;
    enum stele_err err =
        stele_record_walker_init(&walker, v->env->mem, scanned->batch, (size_t)scanned->bytes, UNPACKED_BYTES_MAX);
    if (err == STELE_NO_MEMORY)
        return err;
    if (err != STELE_OK) {
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "the batch does not unpack");
        return STELE_OK;
    }
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        v->report->records++;
        if (record.offset <= last || record.offset > stele_batch_last_offset(header))
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "record offset %lld is out of order",
                                (long long)record.offset);
        last = record.offset;
        largest = stele_max_i64(largest, record.timestamp);
        if (is_control)
            walk_control(v, path, scanned->pos, &record, out);
        is_control = false;
    }
    stele_record_walker_deinit(&walker);
    if (err != STELE_END)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, scanned->pos, "a record is not well formed");
    else if (header->record_count > 0 && largest != header->max_timestamp)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, scanned->pos,
                            "the largest record timestamp is %lld, the header says %lld", (long long)largest,
                            (long long)header->max_timestamp);
    return STELE_OK;
}

static void check_order(struct stele_verifying *v, const struct reading *reading, const struct stele_scanned *scanned)
{
    const struct stele_batch_header *header = &scanned->header;
    int64_t last = stele_batch_last_offset(header);
    if (header->base_offset < reading->base)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, scanned->pos,
                            "offset %lld is below the first one of the file", (long long)header->base_offset);
    else if (v->expected >= 0 && header->base_offset < v->expected)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, scanned->pos, "offset %lld comes after %lld",
                            (long long)header->base_offset, (long long)v->expected - 1);
    else if (v->expected >= 0 && header->base_offset > v->expected && !v->is_compacted)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, scanned->pos, "offsets %lld to %lld are missing",
                            (long long)v->expected, (long long)header->base_offset - 1);
    if (reading->next_base >= 0 && last >= reading->next_base)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, scanned->pos,
                            "offset %lld is beyond the first one of the next file", (long long)last);
    if (!v->is_compacted && header->record_count != (int64_t)header->last_offset_delta + 1)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, scanned->pos,
                            "%d records for the offsets %lld to %lld", header->record_count,
                            (long long)header->base_offset, (long long)last);
    if (header->partition_leader_epoch < v->last_epoch)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, scanned->pos, "leader epoch %d comes after %d",
                            header->partition_leader_epoch, v->last_epoch);
    v->last_epoch = header->partition_leader_epoch;
    v->expected = last + 1;
}

/* In a compacted log the first batch of an epoch may be gone; those that are there must lie in their epoch. */
static void check_epoch(struct stele_verifying *v, const struct reading *reading, const struct stele_scanned *scanned)
{
    const struct stele_batch_header *header = &scanned->header;
    int64_t last = stele_batch_last_offset(header), log_start = stele_max_i64(v->point[STELE_POINT_START], v->bases[0]);
    if (!v->is_compacted || v->file_epochs.count == 0 || v->is_epoch_told || header->partition_leader_epoch < 0)
        return;
    /* The file is cut where the log starts, which only a clean stop writes down at once. */
    int64_t first = v->is_clean ? log_start : v->file_epochs.entries[0].start_offset;
    if (last < first)
        return;
    first = stele_max_i64(header->base_offset, first);
    if (stele_epoch_cache_epoch_at(&v->file_epochs, first) == header->partition_leader_epoch &&
        stele_epoch_cache_epoch_at(&v->file_epochs, last) == header->partition_leader_epoch)
        return;
    v->is_epoch_told = true;
    stele_verify__found(v, first >= v->rebuilt_from ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, reading->path,
                        scanned->pos, "leader epoch %d is not that of " STELE_LEADER_EPOCH_FILE,
                        header->partition_leader_epoch);
}

static enum stele_err note_batch(struct stele_verifying *v, const struct stele_scanned *scanned,
                                 const struct walked *walked)
{
    const struct stele_batch_header *header = &scanned->header;
    const struct stele_seen_batch *before = v->batch_count == 0 ? NULL : &v->batches[v->batch_count - 1];
    struct stele_seen_batch seen = {.pos = scanned->pos,
                                    .base_offset = header->base_offset,
                                    .last_offset = stele_batch_last_offset(header),
                                    .max_timestamp = before == NULL ? -1 : before->max_timestamp,
                                    .largest_at = before == NULL ? -1 : before->largest_at,
                                    .producer_id = header->producer_id,
                                    .is_control = (header->attributes & STELE_BATCH_CONTROL) != 0,
                                    .is_transactional = (header->attributes & STELE_BATCH_TRANSACTIONAL) != 0,
                                    .is_abort = walked->has_control && walked->control.type == STELE_CONTROL_ABORT};
    if (header->max_timestamp > seen.max_timestamp) {
        seen.max_timestamp = header->max_timestamp;
        seen.largest_at = seen.last_offset;
    }
    void *batches = v->batches;
    enum stele_err err = stele_verify__grow(v, &batches, v->batch_count, &v->batch_capacity, sizeof(seen));
    v->batches = batches;
    if (err == STELE_OK)
        v->batches[v->batch_count++] = seen;
    return err;
}

static enum stele_err take_batch(struct stele_verifying *v, const struct reading *reading,
                                 const struct stele_scanned *scanned)
{
    const struct stele_batch_header *header = &scanned->header;
    struct walked walked = {.has_control = false};
    v->report->batches++;
    enum stele_err err = stele_verify__snapshots(v, header->base_offset);
    if (err != STELE_OK)
        return err;
    check_order(v, reading, scanned);
    check_epoch(v, reading, scanned);
    err = walk_records(v, reading->path, scanned, &walked);
    if (err == STELE_OK && header->partition_leader_epoch > stele_epoch_cache_latest(&v->epochs))
        err = stele_epoch_cache_assign(&v->epochs, header->partition_leader_epoch, header->base_offset);
    if (err == STELE_OK)
        err = stele_verify__apply(v, scanned->pos, header, walked.has_control ? &walked.control : NULL);
    v->end = stele_max_i64(v->end, v->expected);
    return err == STELE_OK ? note_batch(v, scanned, &walked) : err;
}

static enum stele_err read_log(struct stele_verifying *v, struct reading *reading)
{
    enum stele_err err = STELE_OK;
    while (err == STELE_OK && reading->at < reading->count) {
        struct stele_scanned scanned = {.pos = (int64_t)reading->at, .batch = reading->bytes + reading->at};
        if (!is_sound(reading, reading->at, &scanned.header)) {
            err = settle_bad(v, reading);
            continue;
        }
        scanned.bytes = (int64_t)whole_size(reading, reading->at);
        err = take_batch(v, reading, &scanned);
        reading->at += (size_t)scanned.bytes;
        v->sound_bytes = (int64_t)reading->at;
        if (v->options->went_on != NULL)
            v->options->went_on(v->options->arg, reading->path, v->report);
    }
    return err;
}

const struct stele_seen_batch *stele_verify__batch_ending(const struct stele_verifying *v, int64_t last_offset)
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
static size_t index_entries(struct stele_verifying *v, const char *path, const uint8_t *bytes, size_t count,
                            size_t entry)
{
    size_t used = count / entry * entry;
    while (used >= entry && is_zero(bytes + used - entry, entry))
        used -= entry;
    if (used < count)
        stele_verify__found(v, is_zero(bytes + used, count - used) ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, path,
                            (int64_t)used, "%zu bytes after the last entry", count - used);
    return used / entry;
}

/* Entries of what could not be read are not to blame. */
static bool is_lost(const struct stele_verifying *v, int64_t offset)
{
    return v->lost_from >= 0 && offset >= v->lost_from && offset < v->lost_to;
}

static void check_offset_entries(struct stele_verifying *v, const char *path, const uint8_t *bytes, size_t entries,
                                 int64_t base)
{
    int64_t last = -1;
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *at = bytes + i * STELE_OFFSET_ENTRY_BYTES;
        int64_t offset = base + stele_get_i32(at), pos = stele_get_i32(at + 4);
        const struct stele_seen_batch *batch = stele_verify__batch_ending(v, offset);
        v->report->index_entries++;
        /* Of a batch that a crash took it tells a place behind the others. */
        enum stele_finding_kind kind =
            pos >= v->sound_bytes ? stele_verify__kind_beyond(v, offset) : STELE_FINDING_DAMAGE;
        if ((batch == NULL && !is_lost(v, offset)) || (batch != NULL && batch->pos != pos))
            stele_verify__found(v, kind, path, (int64_t)i * STELE_OFFSET_ENTRY_BYTES,
                                "entry (offset %lld, position %lld) points at no batch that ends there",
                                (long long)offset, (long long)pos);
        if (offset <= last)
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, (int64_t)i * STELE_OFFSET_ENTRY_BYTES,
                                "entries do not rise");
        last = offset;
    }
}

static void check_time_entries(struct stele_verifying *v, const char *path, const uint8_t *bytes, size_t entries,
                               int64_t base)
{
    int64_t last = -1, last_offset = -1;
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *at = bytes + i * STELE_TIME_ENTRY_BYTES;
        int64_t timestamp = stele_get_i64(at), offset = base + stele_get_i32(at + 8);
        const struct stele_seen_batch *batch = stele_verify__batch_ending(v, offset);
        bool is_right = batch != NULL && batch->largest_at == offset && batch->max_timestamp == timestamp;
        v->report->index_entries++;
        /* Behind a batch that could not be read nobody knows the largest timestamp. */
        if (!is_right && (v->lost_from < 0 || offset < v->lost_from))
            stele_verify__found(v, stele_verify__kind_beyond(v, offset), path, (int64_t)i * STELE_TIME_ENTRY_BYTES,
                                "entry (timestamp %lld, offset %lld) is not the largest timestamp up to a batch that "
                                "ends there",
                                (long long)timestamp, (long long)offset);
        if (timestamp <= last || offset <= last_offset)
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, (int64_t)i * STELE_TIME_ENTRY_BYTES,
                                "entries do not rise");
        last = timestamp;
        last_offset = offset;
    }
}

static enum stele_err check_index(struct stele_verifying *v, int64_t base, bool is_time)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = stele_verify__path(v, base, is_time ? ".timeindex" : ".index", path);
    if (err == STELE_OK)
        err = stele_verify__read(v, path, &bytes, &count);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    if (is_time)
        check_time_entries(v, path, bytes, index_entries(v, path, bytes, count, STELE_TIME_ENTRY_BYTES), base);
    else
        check_offset_entries(v, path, bytes, index_entries(v, path, bytes, count, STELE_OFFSET_ENTRY_BYTES), base);
    stele_mem_free(v->env->mem, bytes);
    return STELE_OK;
}

/* The file's name is the offset of its first batch, but where that was compacted away. */
static void join(struct stele_verifying *v, const struct reading *reading)
{
    if (v->expected >= 0 && v->expected < reading->base && !v->is_compacted &&
        v->point[STELE_POINT_START] < reading->base)
        stele_verify__found(v, STELE_FINDING_DAMAGE, reading->path, 0, "offsets %lld to %lld are missing",
                            (long long)v->expected, (long long)reading->base - 1);
    if (v->expected < reading->base)
        v->expected = reading->base;
    v->end = stele_max_i64(v->end, reading->base);
    v->batch_count = 0;
    v->abort_count = 0;
    v->lost_from = v->lost_to = -1;
    v->sound_bytes = 0;
    v->has_next = reading->next_base >= 0;
}

enum stele_err stele_verify__segment(struct stele_verifying *v, int at)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    int64_t base = v->bases[at];
    struct reading reading = {.path = path, .base = base};
    enum stele_err err = stele_verify__path(v, base, ".log", path);
    if (err == STELE_OK)
        err = stele_verify__read(v, path, &bytes, &reading.count);
    if (err != STELE_OK)
        return err;
    reading.bytes = bytes;
    reading.next_base = at + 1 < v->base_count ? v->bases[at + 1] : -1;
    join(v, &reading);
    err = stele_verify__snapshots(v, base);
    if (err == STELE_OK)
        err = read_log(v, &reading);
    stele_mem_free(v->env->mem, bytes);
    if (err == STELE_OK)
        err = check_index(v, base, false);
    if (err == STELE_OK)
        err = check_index(v, base, true);
    return err == STELE_OK ? stele_verify__txn_index(v, base) : err;
}

enum stele_err stele_verify__batches(struct stele_verifying *v, const char *path, int64_t epoch)
{
    uint8_t *bytes = NULL;
    struct reading reading = {.path = path, .next_base = -1};
    int64_t next = 0;
    enum stele_err err = stele_verify__read(v, path, &bytes, &reading.count);
    reading.bytes = bytes;
    while (err == STELE_OK && reading.at < reading.count) {
        struct stele_scanned scanned = {.pos = (int64_t)reading.at, .batch = bytes + reading.at};
        struct walked walked = {.has_control = false};
        if (!is_sound(&reading, reading.at, &scanned.header)) {
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, scanned.pos, "the batch fails its checksum");
            break;
        }
        scanned.bytes = (int64_t)whole_size(&reading, reading.at);
        v->report->batches++;
        if (scanned.header.base_offset != next || scanned.header.partition_leader_epoch != epoch)
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, scanned.pos,
                                "offset %lld of epoch %d where %lld of epoch %lld was expected",
                                (long long)scanned.header.base_offset, scanned.header.partition_leader_epoch,
                                (long long)next, (long long)epoch);
        next = stele_batch_last_offset(&scanned.header) + 1;
        err = walk_records(v, path, &scanned, &walked);
        reading.at += (size_t)scanned.bytes;
    }
    stele_mem_free(v->env->mem, bytes);
    return err;
}
