/* Appending and rolling (facts 4 and 5.1). Nothing is allocated for a batch; one write takes all batches of a call. */
#include "base/check.h"
#include "storage/log_struct.h"

#include <string.h>

/* What one append works on: the batches in `bytes`, their headers in the log's scratch. */
struct appending {
    struct stele_log *log;
    const struct stele_append *in;
    struct stele_appended *out;
    size_t count; /* of bytes taken: batches of newer epochs are left out */
    int batches;
    int64_t max_timestamp;
};

static enum stele_err reserve_headers(struct stele_log *log, int count)
{
    if (count <= log->header_capacity)
        return STELE_OK;
    int capacity = log->header_capacity == 0 ? 4 : log->header_capacity * 2;
    struct stele_batch_header *headers =
        stele_mem_resize(log->env->mem, STELE_MEM_LOG, log->headers, (size_t)capacity * sizeof(*headers));
    if (headers == NULL)
        return STELE_NO_MEMORY;
    log->headers = headers;
    struct stele_control *controls =
        stele_mem_resize(log->env->mem, STELE_MEM_LOG, log->controls, (size_t)capacity * sizeof(*controls));
    if (controls == NULL)
        return STELE_NO_MEMORY;
    log->controls = controls;
    log->header_capacity = capacity;
    return STELE_OK;
}

static bool is_assigned_here(enum stele_origin origin)
{
    return origin == STELE_ORIGIN_CLIENT || origin == STELE_ORIGIN_COORDINATOR;
}

/* A follower's and the metadata leader's batches carry their offsets, which must follow. */
static enum stele_err check_given(const struct appending *a, const struct stele_batch_header *header)
{
    int64_t floor =
        a->batches == 0 ? a->log->log_end_offset : stele_batch_last_offset(&a->log->headers[a->batches - 1]) + 1;
    if (header->last_offset_delta < 0 || header->base_offset > INT64_MAX - UINT32_MAX)
        return STELE_CORRUPT_MESSAGE; /* no checksum covers the base offset, and none helps against a wrong peer */
    if (header->base_offset < floor)
        return STELE_OFFSET_OUT_OF_RANGE;
    if (a->in->origin == STELE_ORIGIN_METADATA && header->partition_leader_epoch != a->in->leader_epoch)
        return STELE_INVALID_RECORD;
    return STELE_OK;
}

static enum stele_err take_batch(struct appending *a, uint8_t *at, size_t left, int64_t *out_bytes)
{
    struct stele_batch_header header;
    if (left < STELE_BATCH_HEADER_BYTES)
        return STELE_CORRUPT_MESSAGE;
    int64_t bytes = stele_batch_size(at);
    if (bytes < STELE_BATCH_HEADER_BYTES || (size_t)bytes > left)
        return STELE_CORRUPT_MESSAGE;
    enum stele_err err;
    if (is_assigned_here(a->in->origin)) {
        err = stele_batch_header_read(at, left, &header); /* validated before */
        header.base_offset = a->log->log_end_offset;
        header.partition_leader_epoch = a->in->leader_epoch;
    } else {
        err = a->in->is_checked ? stele_batch_header_read(at, left, &header)
                                : stele_batch_check(at, (size_t)bytes, &header);
        if (err == STELE_OK)
            err = check_given(a, &header);
    }
    if (err == STELE_OK)
        err = reserve_headers(a->log, a->batches + 1);
    if (err != STELE_OK)
        return err;
    if (a->in->origin == STELE_ORIGIN_REPLICATION && header.partition_leader_epoch > a->in->leader_epoch) {
        *out_bytes = 0; /* a batch of a newer epoch and all after it are not taken (KAFKA-18723) */
        return STELE_OK;
    }
    if (a->batches > 0 && stele_batch_last_offset(&header) - a->log->headers[0].base_offset > INT32_MAX) {
        *out_bytes = 0; /* nor what one segment cannot hold beside the first */
        return STELE_OK;
    }
    a->log->headers[a->batches++] = header;
    *out_bytes = bytes;
    return STELE_OK;
}

static enum stele_err take_all(struct appending *a)
{
    a->max_timestamp = -1;
    while (a->count < a->in->count) {
        int64_t bytes = 0;
        enum stele_err err = take_batch(a, a->in->bytes + a->count, a->in->count - a->count, &bytes);
        if (err != STELE_OK)
            return err;
        if (bytes == 0)
            break;
        a->max_timestamp = stele_max_i64(a->max_timestamp, a->log->headers[a->batches - 1].max_timestamp);
        a->count += (size_t)bytes;
        if (is_assigned_here(a->in->origin) && a->count != a->in->count)
            return STELE_INVALID_RECORD; /* one batch only */
    }
    return STELE_OK;
}

static enum stele_err read_control(struct stele_env *env, const uint8_t *batch, const struct stele_batch_header *header,
                                   struct stele_control *out_control)
{
    struct stele_record_walker walker;
    struct stele_record record;
    size_t bytes = (size_t)header->length + STELE_BATCH_PREFIX_BYTES;
    enum stele_err err = stele_record_walker_init(&walker, env->mem, batch, bytes, bytes);
    if (err != STELE_OK)
        return err;
    err = stele_record_next(&walker, &record);
    if (err == STELE_OK)
        err = stele_control_read(&record, out_control);
    stele_record_walker_deinit(&walker);
    return err == STELE_END ? STELE_INVALID_RECORD : err;
}

/* A compacted control batch may be empty. */
static bool has_control(const struct stele_batch_header *header)
{
    return (header->attributes & STELE_BATCH_CONTROL) != 0 && header->record_count > 0;
}

/* Producer state is asked, and room in it and in the transaction index made, for every batch before anything is
 * written: what follows the write must not need memory. */
static enum stele_err check_producers(struct appending *a, struct stele_duplicate *out_duplicate)
{
    struct stele_log *log = a->log;
    const uint8_t *at = a->in->bytes;
    for (int i = 0; i < a->batches; i++) {
        const struct stele_batch_header *header = &log->headers[i];
        bool is_duplicate = false;
        struct stele_control *control = has_control(header) ? &log->controls[i] : NULL;
        enum stele_err err = STELE_OK;
        if (control != NULL)
            err = read_control(log->env, at, header, control);
        if (err == STELE_OK)
            err = stele_producers_check(log->producers, header, control, a->in->origin, &is_duplicate, out_duplicate);
        if (err == STELE_OK && !is_duplicate)
            err = stele_producers_reserve(log->producers, header->producer_id, i + 1);
        if (err != STELE_OK)
            return err;
        a->out->is_duplicate = is_duplicate;
        at += header->length + STELE_BATCH_PREFIX_BYTES;
    }
    return STELE_OK;
}

static int64_t segment_ms_of(const struct stele_log_config *config)
{
    bool is_bounded_by_lag = config->cleanup_compact && config->max_compaction_lag_ms > 0;
    return is_bounded_by_lag ? stele_min_i64(config->segment_ms, config->max_compaction_lag_ms) : config->segment_ms;
}

/* Why the active segment must be rolled before this append; STELE_REASON_COUNT: it need not. */
static enum stele_err roll_reason(const struct appending *a, enum stele_reason *out_reason)
{
    struct stele_log *log = a->log;
    const struct stele_log_config *config = &log->config;
    struct stele_segment *seg = stele_log__active(log);
    int64_t last = stele_batch_last_offset(&log->headers[a->batches - 1]), first = -1;
    enum stele_err err = stele_segment_first_timestamp(seg, &first);
    if (err != STELE_OK)
        return err;
    int64_t waited = first >= 0 ? a->max_timestamp - first : stele_env_wall_ms(log->env) - seg->created_ms;
    *out_reason = STELE_REASON_COUNT;
    if (seg->bytes > config->segment_bytes - (int64_t)a->count && seg->bytes > 0)
        *out_reason = STELE_REASON_SIZE;
    else if (seg->bytes > 0 && waited > segment_ms_of(config) - seg->jitter_ms)
        *out_reason = STELE_REASON_TIME;
    else if (seg->bytes > 0 && stele_offset_index_is_full(&seg->offsets))
        *out_reason = STELE_REASON_OFFSET_INDEX_FULL;
    else if (seg->bytes > 0 && stele_time_index_is_full(&seg->times))
        *out_reason = STELE_REASON_TIME_INDEX_FULL;
    else if (last - seg->base_offset > INT32_MAX)
        *out_reason = STELE_REASON_OFFSET_RANGE;
    return STELE_OK;
}

static void count_roll(struct stele_log *log, enum stele_reason reason)
{
    struct stele_metrics *metrics = log->env->metrics;
    if (reason == STELE_REASON_SIZE)
        STELE_METRIC_ADD(metrics, log_rolls_size, 1);
    else if (reason == STELE_REASON_TIME)
        STELE_METRIC_ADD(metrics, log_rolls_time, 1);
    else if (reason == STELE_REASON_OFFSET_RANGE)
        STELE_METRIC_ADD(metrics, log_rolls_offset, 1);
    else if (reason == STELE_REASON_RETENTION_ALL)
        STELE_METRIC_ADD(metrics, log_rolls_retention, 1);
    else if (reason == STELE_REASON_DAMAGE)
        STELE_METRIC_ADD(metrics, log_rolls_damage, 1);
    else if (reason == STELE_REASON_SNAPSHOT)
        STELE_METRIC_ADD(metrics, log_rolls_snapshot, 1);
    else
        STELE_METRIC_ADD(metrics, log_rolls_index, 1);
}

/* A roll failed: the empty file of the new segment must not be there when the old one goes on. For want of memory the
 * old one stays sealed until the next append (roll_when_due). */
static enum stele_err undo_roll(struct stele_log *log, struct stele_segment *seg, int64_t base_offset)
{
    enum stele_err err = STELE_OK;
    if (seg != NULL) {
        stele_segment_free(seg);
        err = stele_segment_unlink_files(log->env, log->dir, base_offset);
    }
    if (err == STELE_OK)
        err = stele_segment_activate(stele_log__active(log));
    return err == STELE_NO_MEMORY ? STELE_OK : err;
}

/* The checkpoint of a clean stop names the end of the log as it was, and may do so still. A roll there puts the old
 * segment before the point, where a start after a crash takes its indexes as they are: so they are synced first, on the
 * loop, at most once after a start. */
static enum stele_err sync_before_point(struct stele_log *log, struct stele_segment *old)
{
    struct stele_segment_sync sync;
    enum stele_err err = stele_segment_seal(old);
    if (err == STELE_OK)
        err = stele_segment_sync_begin(old, &sync);
    if (err == STELE_OK) {
        enum stele_err synced = stele_segment_sync_run(&sync);
        stele_segment_sync_release(&sync);
        if (synced != STELE_OK)
            return stele_log__fail(log, synced, "a sync that failed");
    }
    enum stele_err again = stele_segment_activate(old);
    if (again != STELE_OK && again != STELE_NO_MEMORY)
        return stele_log__fail(log, again, "indexes that could not be read again");
    return err == STELE_OK ? again : err;
}

/* The new segment is made before the old one is sealed, so that there always is an active one. */
static enum stele_err roll_to(struct stele_log *log, int64_t base_offset, enum stele_reason reason)
{
    struct stele_segment *old = stele_log__active(log), *seg = NULL;
    int64_t old_bytes = old->bytes;
    if (base_offset <= old->base_offset)
        return STELE_OK; /* the active one is empty: it is new already */
    stele_log__touch(log);
    enum stele_err err = base_offset == log->opened_point ? sync_before_point(log, old) : STELE_OK;
    if (err == STELE_OK && log->is_first_unnamed) /* the new name must not outlive it */
        err = log->env->vfs->ops->sync_dir(log->env->vfs, log->dir);
    if (err != STELE_OK)
        return err;
    log->is_first_unnamed = false;
    err = stele_segment_create(log->env, log->cache, log->dir, base_offset, &log->config, &seg);
    if (err == STELE_OK)
        err = stele_segment_seal(old);
    if (err == STELE_OK)
        err = stele_log__write_snapshot(log, base_offset);
    if (err == STELE_OK)
        err = stele_log__add_segment(log, seg);
    if (err != STELE_OK) {
        enum stele_err undone = undo_roll(log, seg, base_offset);
        return undone == STELE_OK ? err : stele_log__fail(log, undone, "a roll that could not be undone");
    }
    log->has_new_names = true;
    /* A base above the end is a hole of the leader's log; should the append fail, the next one must not go below it. */
    log->log_end_offset = stele_max_i64(log->log_end_offset, base_offset);
    stele_log__note(log, STELE_HISTORY_ROLL, base_offset, old_bytes, reason);
    count_roll(log, reason);
    stele_trace(log->env, STELE_TRACE_LOG_ROLLED, log->name, stele_reason_text(reason), base_offset, old_bytes, 0);
    return STELE_OK;
}

/* An error of the disk other than a full one leaves the files in doubt: the log stops. */
static enum stele_err settle(struct stele_log *log, enum stele_err err, const char *what)
{
    if (err == STELE_OK || err == STELE_NO_SPACE || err == STELE_NO_MEMORY)
        return err;
    return stele_log__fail(log, err, what);
}

enum stele_err stele_log_roll(struct stele_log *log, enum stele_reason reason)
{
    enum stele_err err = stele_log__usable(log);
    if (err != STELE_OK)
        return err;
    return settle(log, roll_to(log, log->log_end_offset, reason), "a roll that failed");
}

enum stele_err stele_log_roll_if_old(struct stele_log *log, bool *out_rolled)
{
    int64_t first = -1;
    enum stele_err err = stele_log__usable(log);
    *out_rolled = false;
    if (err != STELE_OK)
        return err;
    struct stele_segment *seg = stele_log__active(log);
    if (seg->bytes == 0)
        return STELE_OK;
    err = stele_segment_first_timestamp(seg, &first);
    if (err != STELE_OK)
        return settle(log, err, "a segment that cannot be read");
    /* Both the records' time and the segment's own age must say so: an old record just written is no idle segment. */
    int64_t now = stele_env_wall_ms(log->env), limit = segment_ms_of(&log->config) - seg->jitter_ms;
    int64_t since = stele_max_i64(first >= 0 ? first : seg->created_ms, seg->created_ms);
    if (now - since <= limit)
        return STELE_OK;
    err = stele_log_roll(log, STELE_REASON_TIME);
    *out_rolled = err == STELE_OK;
    return err;
}

/* Room before the write, entries after it: an epoch of batches that are not there would be taken for the log's last. */
static enum stele_err reserve_epochs(struct appending *a)
{
    int32_t epoch = stele_epoch_cache_latest(&a->log->epochs);
    int changes = 0;
    for (int i = 0; i < a->batches; i++) {
        changes += a->log->headers[i].partition_leader_epoch != epoch ? 1 : 0;
        epoch = a->log->headers[i].partition_leader_epoch;
    }
    return stele_epoch_cache_reserve(&a->log->epochs, changes);
}

static void assign_epochs(struct appending *a)
{
    for (int i = 0; i < a->batches; i++) {
        const struct stele_batch_header *header = &a->log->headers[i];
        if (header->partition_leader_epoch < 0)
            continue;
        enum stele_err err =
            stele_epoch_cache_assign(&a->log->epochs, header->partition_leader_epoch, header->base_offset);
        STELE_ASSERT(err == STELE_OK); /* there is room */
    }
}

static enum stele_err write_batches(struct appending *a)
{
    struct stele_log *log = a->log;
    struct stele_segment *seg = stele_log__active(log);
    int64_t before = seg->bytes;
    if (is_assigned_here(a->in->origin))
        stele_batch_stamp(a->in->bytes, log->log_end_offset, a->in->leader_epoch);
    enum stele_err err = stele_segment_append(seg, &log->config, a->in->bytes, a->count, log->headers, a->batches);
    if (err == STELE_OK || err == STELE_NO_MEMORY)
        return err;
    /* A full disk is cut back to where it was, and the log goes on once there is room. */
    STELE_ASSERT(seg->bytes == before);
    struct stele_file *file = NULL;
    if (err == STELE_NO_SPACE && stele_cached_file_pin(seg->file, &file) == STELE_OK) {
        enum stele_err cut = file->vfs->ops->truncate(file, before);
        stele_cached_file_unpin(seg->file);
        if (cut == STELE_OK) {
            stele_trace(log->env, STELE_TRACE_LOG_TRUNCATED, log->name, stele_reason_text(STELE_REASON_APPEND_FAILED),
                        log->log_end_offset, 0, 0);
            stele_log__note(log, STELE_HISTORY_CUT, log->log_end_offset, 0, STELE_REASON_APPEND_FAILED);
            return err;
        }
    }
    return stele_log__fail(log, err, "a write that failed");
}

/* After the write: the end offset first, then state that may fail (KAFKA-7866). */
static enum stele_err apply_batches(struct appending *a)
{
    struct stele_log *log = a->log;
    log->log_end_offset = stele_batch_last_offset(&log->headers[a->batches - 1]) + 1;
    assign_epochs(a);
    for (int i = 0; i < a->batches; i++) {
        const struct stele_batch_header *header = &log->headers[i];
        const struct stele_control *control = has_control(header) ? &log->controls[i] : NULL;
        struct stele_completed_txn txn;
        if (stele_producers_apply(log->producers, header, control, &txn) && txn.is_aborted) {
            struct stele_aborted_txn aborted = {.producer_id = txn.producer_id,
                                                .first_offset = txn.first_offset,
                                                .last_offset = txn.last_offset,
                                                .last_stable_offset = stele_producers_lso_after(log->producers, &txn)};
            enum stele_err err = stele_txn_index_append(&stele_log__active(log)->txns, &aborted);
            if (err != STELE_OK)
                return stele_log__fail(log, err, "a transaction index that could not be written");
        }
    }
    return STELE_OK;
}

/* Room for the entries of the markers to come, in the segment that takes them. */
static enum stele_err reserve_txns(struct appending *a)
{
    int markers = 0;
    for (int i = 0; i < a->batches; i++)
        markers += has_control(&a->log->headers[i]) && a->log->controls[i].type == STELE_CONTROL_ABORT ? 1 : 0;
    return markers == 0 ? STELE_OK : stele_txn_index_reserve(&stele_log__active(a->log)->txns, markers);
}

static enum stele_err roll_when_due(struct appending *a)
{
    enum stele_reason reason;
    int64_t base_offset = stele_max_i64(a->log->headers[0].base_offset, a->log->log_end_offset);
    enum stele_err err = stele_segment_activate(stele_log__active(a->log));
    if (err == STELE_OK)
        err = roll_reason(a, &reason);
    if (err == STELE_OK && reason != STELE_REASON_COUNT)
        err = roll_to(a->log, base_offset, reason);
    return settle(a->log, err, "a roll that failed");
}

static void fill_out(struct appending *a)
{
    struct stele_log *log = a->log;
    const struct stele_batch_header *last = &log->headers[a->batches - 1];
    a->out->first_offset = log->headers[0].base_offset;
    a->out->last_offset = stele_batch_last_offset(last);
    a->out->max_timestamp = a->max_timestamp;
    a->out->log_append_time_ms = (last->attributes & STELE_BATCH_LOG_APPEND_TIME) != 0 ? last->max_timestamp : -1;
    a->out->batches = a->batches;
    a->out->wants_flush = log->log_end_offset - log->recovery_point >= log->config.flush_messages;
    log->appended_bytes += (int64_t)a->count;
    STELE_METRIC_ADD(log->env->metrics, log_appended_bytes, a->count);
    STELE_METRIC_ADD(log->env->metrics, log_appended_batches, a->batches);
}

bool stele_log_take_write_back(struct stele_log *log, struct stele_slice *out_slice, struct stele_file **out_file)
{
    struct stele_segment *seg = stele_log__active(log);
    int64_t pos = 0, bytes = 0;
    if (!stele_segment_take_write_back(seg, &log->config, &pos, &bytes) ||
        stele_cached_file_pin(seg->file, out_file) != STELE_OK)
        return false;
    *out_slice = (struct stele_slice){.file = seg->file, .pos = pos, .bytes = (size_t)bytes};
    return true;
}

/* A follower takes what its leader has, whatever its own settings say (KAFKA-9617), as far as a file can hold it. */
static bool is_too_large(const struct appending *a)
{
    bool is_given = a->in->origin == STELE_ORIGIN_REPLICATION;
    return (int64_t)a->count > (is_given ? INT32_MAX : a->log->config.segment_bytes);
}

enum stele_err stele_log_append(struct stele_log *log, const struct stele_append *append, struct stele_appended *out)
{
    struct stele_appended appended = {.log_append_time_ms = -1};
    struct stele_duplicate duplicate;
    struct appending a = {.log = log, .in = append, .out = &appended};
    enum stele_err err = stele_log__usable(log);
    if (err == STELE_OK)
        err = take_all(&a);
    if (err == STELE_OK && append->count == 0)
        err = STELE_INVALID_RECORD;
    if (err == STELE_OK && a.batches == 0) { /* all are of newer epochs */
        appended.first_offset = log->log_end_offset;
        appended.last_offset = log->log_end_offset - 1;
        appended.max_timestamp = -1;
        *out = appended;
        return STELE_OK;
    }
    if (err == STELE_OK && is_too_large(&a))
        err = STELE_RECORD_LIST_TOO_LARGE;
    if (err == STELE_OK)
        err = check_producers(&a, &duplicate);
    if (err == STELE_OK && appended.is_duplicate) {
        appended.first_offset = duplicate.base_offset;
        appended.last_offset = duplicate.last_offset;
        appended.max_timestamp = duplicate.timestamp;
        *out = appended;
        return STELE_OK;
    }
    stele_log__touch(log);
    if (err == STELE_OK)
        err = roll_when_due(&a);
    if (err == STELE_OK)
        err = settle(log, reserve_txns(&a), "a transaction index that cannot be read");
    if (err == STELE_OK)
        err = reserve_epochs(&a);
    if (err == STELE_OK)
        err = write_batches(&a);
    if (err == STELE_OK)
        err = apply_batches(&a);
    if (err != STELE_OK)
        return err;
    fill_out(&a);
    *out = appended;
    STELE_DCHECK(log->log_end_offset == appended.last_offset + 1);
    return STELE_OK;
}
