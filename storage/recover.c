/* Opening a log: what facts 8.2 to 8.5 ask, with the departures of the design: an I/O error never empties a segment,
 * and what is damaged below the recovery point or the high watermark is kept.
 *
 * Invariants
 *  1. Recovery may stop anywhere and start again: every step leaves files from which the next open draws the same
 *     conclusions. Names change before what they protect, and durably where a later write could be mixed with old
 *     bytes.
 *  2. The recovery point does not move because recovery read the data: that is not synced (KAFKA-10101).
 * Order: leftovers, segments, epochs, early segments whose indexes are missing, tail (scan, or a look at it after a
 * clean stop), end of the log, producer state. */
#include "storage/recover.h"

#include "base/check.h"
#include "storage/resync.h"

#include <string.h>

enum stele_err stele_recovery_fail(struct stele_recovery *rec, enum stele_err err, const struct stele_segment *seg,
                                   const char *what)
{
    char name[STELE_SEGMENT_NAME_BYTES] = "";
    if (rec->has_error)
        return err;
    rec->has_error = true;
    if (seg != NULL)
        stele_segment_name(seg->base_offset, ".log", name);
    const char *way_out = err == STELE_CORRUPT || err == STELE_IO
                              ? "; check the disk, then restore the file or move the directory away to start without it"
                              : "";
    return stele_error_set(rec->error, err, "%s/%s: %s: %s%s", rec->open->dir, name, what, stele_err_text(err),
                           way_out);
}

/* A repair that began there has ended, and with it those of the same range that did not. */
static void note_repaired(struct stele_recovery *rec, int64_t offset)
{
    int64_t from = offset, to = -1;
    int kept = 0;
    for (int i = 0; i < rec->hint_count; i++) {
        if (rec->hints[i].offset == offset)
            to = stele_max_i64(to, rec->hints[i].to);
    }
    for (int i = 0; i < rec->hint_count; i++) {
        if (rec->hints[i].to == to)
            from = stele_min_i64(from, rec->hints[i].offset);
    }
    for (int i = 0; i < rec->hint_count; i++) {
        if (rec->hints[i].offset < from || rec->hints[i].offset >= to)
            rec->hints[kept++] = rec->hints[i];
    }
    rec->hint_count = kept;
}

static void add_hint(struct stele_recovery *rec, const struct stele_recovery_hint *hint)
{
    if (rec->hint_count == rec->hint_capacity) {
        int capacity = rec->hint_capacity == 0 ? 8 : rec->hint_capacity * 2;
        struct stele_recovery_hint *hints =
            stele_mem_resize(rec->env->mem, STELE_MEM_LOG, rec->hints, (size_t)capacity * sizeof(rec->hints[0]));
        if (hints == NULL) {
            rec->hints_failed = true;
            return;
        }
        rec->hints = hints;
        rec->hint_capacity = capacity;
    }
    rec->hints[rec->hint_count++] = *hint;
}

static void note_damage(struct stele_recovery *rec, const struct stele_history_event *event)
{
    add_hint(rec, &(struct stele_recovery_hint){
                      .offset = event->offset, .bytes = event->bytes, .end = INT64_MAX, .to = event->offset + 1});
}

/* In its line the place of the bytes is taken by the offset behind. */
static void note_repair(struct stele_recovery *rec, const struct stele_history_event *event)
{
    if (event->reason == STELE_REASON_REPAIRED)
        note_repaired(rec, event->offset);
    else
        add_hint(rec, &(struct stele_recovery_hint){.offset = event->offset, .end = INT64_MAX, .to = event->bytes});
}

/* A truncation ends what was said of the offsets from there on. It may not have become durable, but for that of a torn
 * tail: then bytes of before may lie behind it in its file. A file that it left nothing of was made anew or emptied
 * durably. */
static void note_cut(struct stele_recovery *rec, int64_t offset, enum stele_reason reason)
{
    int kept = 0, holder = -1;
    for (int i = 0; i < rec->hint_count; i++) {
        rec->hints[i].end = stele_min_i64(rec->hints[i].end, offset);
        if (rec->hints[i].offset < offset)
            rec->hints[kept++] = rec->hints[i];
    }
    rec->hint_count = kept;
    rec->deleted_to = stele_min_i64(rec->deleted_to, offset - 1);
    for (int i = 0; i < rec->files.count; i++) {
        rec->files.segments[i].was_deleted_from_front &= rec->files.segments[i].base_offset < offset;
        holder = rec->files.segments[i].base_offset <= offset ? i : holder;
    }
    bool is_anew = holder >= 0 && reason == STELE_REASON_TRUNCATED && rec->files.segments[holder].base_offset == offset;
    if (holder >= 0 && reason != STELE_REASON_TORN_TAIL && !is_anew)
        rec->files.segments[holder].cut_offset = stele_min_i64(rec->files.segments[holder].cut_offset, offset);
}

static void note_deletion(struct stele_recovery *rec, int64_t offset)
{
    rec->deleted_to = stele_max_i64(rec->deleted_to, offset);
    for (int i = 0; i < rec->files.count; i++) {
        if (rec->files.segments[i].base_offset == offset)
            rec->files.segments[i].was_deleted_from_front = true;
    }
}

static void note_event(void *arg, const struct stele_history_event *event)
{
    struct stele_recovery *rec = arg;
    bool is_at_front = event->reason == STELE_REASON_RETENTION_ALL || event->reason == STELE_REASON_RETENTION_TIME ||
                       event->reason == STELE_REASON_RETENTION_SIZE || event->reason == STELE_REASON_LOG_START;
    if (event->kind == STELE_HISTORY_DAMAGE)
        note_damage(rec, event);
    else if (event->kind == STELE_HISTORY_REPAIR)
        note_repair(rec, event);
    else if (event->kind == STELE_HISTORY_CUT)
        note_cut(rec, event->offset, event->reason);
    else if (event->kind == STELE_HISTORY_DELETE && is_at_front)
        note_deletion(rec, event->offset);
}

static enum stele_err read_hints(struct stele_recovery *rec)
{
    if (!rec->files.has_history)
        return STELE_OK;
    enum stele_err err = stele_history_read(rec->env, rec->open->dir, note_event, rec);
    if (err == STELE_TOO_LARGE)
        err = STELE_OK; /* not as we write it: it says nothing */
    if (err == STELE_OK && rec->hints_failed)
        err = STELE_NO_MEMORY;
    return err == STELE_OK ? err
                           : stele_recovery_fail(rec, err, NULL, "the file " STELE_HISTORY_FILE " cannot be read");
}

/* Finishes a deletion from the front that history tells of: what a crash brought back of it goes again. The last
 * segment stays in any case. Each needs a line of its own: no checksum is in them, and a rotten digit must not delete
 * what is alive. The history may be the page cache's alone, so it is made durable first, as it was to be before the
 * deletion began. */
static enum stele_err finish_deletion(struct stele_recovery *rec)
{
    struct stele_env *env = rec->env;
    const char *dir = rec->open->dir;
    struct stele_found_files *files = &rec->files;
    int gone = 0;
    while (gone + 1 < files->count && files->segments[gone].was_deleted_from_front)
        gone++;
    if (gone == 0 || files->segments[gone].was_deleted_from_front)
        return STELE_OK;
    enum stele_err synced = stele_history_sync(rec->env, rec->open->dir);
    if (synced != STELE_OK)
        return stele_recovery_fail(rec, synced, NULL, "the file " STELE_HISTORY_FILE " cannot be synced");
    for (int i = 0; i < gone; i++) {
        int64_t base_offset = files->segments[i].base_offset;
        enum stele_err err = stele_segment_unlink_files(env, dir, base_offset);
        if (err == STELE_OK)
            err = stele_segment_unlink(env, dir, base_offset, ".snapshot");
        if (err == STELE_OK && files->segments[i].was_being_deleted)
            err = stele_segment_unlink_deleted(env->vfs, dir, base_offset);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, NULL, "a segment that was deleted cannot be deleted again");
    }
    rec->is_changed = true;
    files->count -= gone;
    memmove(files->segments, files->segments + gone, (size_t)files->count * sizeof(files->segments[0]));
    return STELE_OK;
}

/* The files of the segments from `first` on and their snapshots. */
static enum stele_err resync_segments(const struct stele_recovery *rec, int first)
{
    static const char *const suffixes[] = {".log", ".index", ".timeindex", ".txnindex"};
    const struct stele_found_files *files = &rec->files;
    char name[STELE_SEGMENT_NAME_BYTES];
    enum stele_err err = STELE_OK;
    for (int at = first; at < files->count; at++) {
        for (size_t k = 0; k < STELE_ARRAY_LEN(suffixes) && err == STELE_OK; k++) {
            stele_segment_name(files->segments[at].base_offset, suffixes[k], name);
            err = stele_resync_file(rec->env, rec->open->dir, name);
        }
    }
    for (int i = 0; i < files->snapshot_count && err == STELE_OK; i++) {
        stele_segment_name(files->snapshots[i], ".snapshot", name);
        if (files->count == 0 || files->snapshots[i] >= files->segments[first].base_offset)
            err = stele_resync_file(rec->env, rec->open->dir, name);
    }
    return err;
}

/* Writes anew what a sync that failed left in doubt, before any of it is believed: all that a flush may have had to
 * sync, which is from the segment before that of the recovery point on (see check_before), and the history, whose
 * deletions are finished next. */
static enum stele_err resync(struct stele_recovery *rec)
{
    const struct stele_found_files *files = &rec->files;
    int64_t point = rec->open->recovery_point;
    int first = files->count > 0 ? files->count - 1 : 0;
    if (!files->has_failed_sync)
        return STELE_OK;
    while (first > 0 && files->segments[first].base_offset > point)
        first--;
    first -= first > 0;
    enum stele_err err = stele_resync_file(rec->env, rec->open->dir, STELE_HISTORY_FILE);
    if (err == STELE_OK)
        err = resync_segments(rec, first);
    if (err == STELE_OK)
        err = stele_resync_done(rec->env, rec->open->dir);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, NULL, "a sync failed before, and what it left cannot be written anew");
    stele_trace(rec->env, STELE_TRACE_LOG_RESYNCED, rec->open->name, NULL,
                files->count == 0 ? 0 : files->segments[first].base_offset, 0, 0);
    return STELE_OK;
}

static enum stele_err open_segments(struct stele_recovery *rec)
{
    struct stele_log *log = rec->log;
    enum stele_err finished = finish_deletion(rec);
    if (finished != STELE_OK)
        return finished;
    for (int i = 0; i < rec->files.count; i++) {
        struct stele_segment *seg = NULL;
        int64_t base_offset = rec->files.segments[i].base_offset;
        enum stele_err err = stele_segment_open(rec->env, NULL, log->dir, base_offset, &log->config, &seg);
        if (err == STELE_OK) {
            err = stele_log__add_segment(log, seg);
            if (err != STELE_OK)
                stele_segment_free(seg);
        }
        if (err != STELE_OK)
            return stele_recovery_fail(
                rec, err == STELE_TOO_LARGE ? STELE_CORRUPT : err, &(struct stele_segment){.base_offset = base_offset},
                err == STELE_TOO_LARGE ? "it is larger than a segment can be" : "it cannot be opened");
    }
    return STELE_OK;
}

/* True when the epochs of the first `count` segments are not what their first batch and, after an unclean stop, their
 * last one (rec->last_epoch) say. */
static enum stele_err are_epochs_wrong(struct stele_recovery *rec, int count, bool *out_are_wrong)
{
    struct stele_log *log = rec->log;
    struct stele_batch_header header;
    int64_t bytes = 0;
    int32_t epoch = -1;
    enum stele_err err = STELE_END;
    for (int at = 0; at < count && err == STELE_END && !rec->had_epochs; at++) {
        err = stele_segment_header_at(log->segments[at], 0, &header, &bytes);
        if (err == STELE_OK)
            epoch = header.partition_leader_epoch;
    }
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return err;
    *out_are_wrong =
        epoch >= 0 ||
        (rec->last_epoch >= 0 &&
         rec->last_epoch != stele_epoch_cache_epoch_at(&log->epochs, log->segments[count]->base_offset - 1));
    return STELE_OK;
}

/* The batch that holds `offset`, or the next one of its segment, checksum and all. END: none is known there. */
static enum stele_err batch_from(struct stele_recovery *rec, int64_t offset, struct stele_batch_header *out_header)
{
    struct stele_segment *seg = rec->log->segments[stele_log__floor(rec->log, offset)];
    struct stele_file *file = NULL;
    struct stele_scanned batch;
    int64_t pos = 0;
    enum stele_err err = stele_segment_find(seg, offset, &pos, out_header);
    if (err == STELE_OK)
        err = stele_cached_file_pin(seg->file, &file);
    if (err != STELE_OK)
        return err == STELE_CORRUPT ? STELE_END : err;
    err = stele_scan_start(&rec->scan, file, pos, seg->bytes);
    if (err == STELE_OK)
        err = stele_scan_next(&rec->scan, &batch);
    stele_cached_file_unpin(seg->file);
    if (err == STELE_OK)
        *out_header = batch.header;
    return err == STELE_CORRUPT ? STELE_END : err;
}

/* The same, but END also in a hole. */
static enum stele_err batch_at(struct stele_recovery *rec, int64_t offset, struct stele_batch_header *out_header)
{
    enum stele_err err = batch_from(rec, offset, out_header);
    return err == STELE_OK && out_header->base_offset > offset ? STELE_END : err;
}

/* Does the entry contradict the batches at its start: no checksum is in the file. */
static enum stele_err is_entry_wrong(struct stele_recovery *rec, const struct stele_epoch_entry *entry,
                                     bool *out_is_wrong)
{
    struct stele_batch_header header;
    bool is_start = entry->start_offset >= rec->start, is_wrong = false;
    int64_t offset = is_start ? entry->start_offset : rec->start;
    enum stele_err err = batch_from(rec, offset, &header);
    if (err == STELE_OK && header.base_offset > offset) /* a hole: what stood there was of the epoch or a later one */
        is_wrong = header.partition_leader_epoch >= 0 && header.partition_leader_epoch < entry->epoch;
    else if (err == STELE_OK)
        is_wrong = header.partition_leader_epoch >= 0 &&
                   (header.partition_leader_epoch != entry->epoch || (is_start && header.base_offset != offset));
    if ((err == STELE_OK || err == STELE_END) && !is_wrong && offset > rec->start) {
        err = batch_at(rec, offset - 1, &header);
        is_wrong = err == STELE_OK && header.partition_leader_epoch >= entry->epoch;
    }
    *out_is_wrong = is_wrong;
    return err == STELE_END ? STELE_OK : err;
}

/* The first entry's start is where the log began when the file was written, which a start without its checkpoint does
 * not know: it is moved down as far as the batches agree. Where those below are of an older epoch, the file lacks it.
 */
static enum stele_err settle_first_entry(struct stele_recovery *rec, struct stele_epoch_entry *entry,
                                         bool *out_is_wrong)
{
    struct stele_batch_header header;
    bool is_wrong = false;
    enum stele_err err = batch_at(rec, stele_max_i64(entry->start_offset, rec->start), &header);
    if (err == STELE_OK)
        is_wrong = header.partition_leader_epoch >= 0 && header.partition_leader_epoch != entry->epoch;
    if ((err == STELE_OK || err == STELE_END) && !is_wrong && entry->start_offset > rec->start) {
        err = batch_from(rec, rec->start, &header);
        if (err == STELE_OK && header.partition_leader_epoch == entry->epoch)
            entry->start_offset = rec->start;
        else if (err == STELE_OK)
            is_wrong = header.partition_leader_epoch >= 0 && header.partition_leader_epoch < entry->epoch;
    }
    *out_is_wrong = is_wrong;
    return err == STELE_END ? STELE_OK : err;
}

/* Asks every entry that the batches below `end` can tell of. */
static enum stele_err is_any_entry_wrong(struct stele_recovery *rec, int64_t end, bool *inout_is_wrong)
{
    struct stele_epoch_cache *epochs = &rec->log->epochs;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < epochs->count && err == STELE_OK && !*inout_is_wrong; i++) {
        struct stele_epoch_entry *entry = &epochs->entries[i];
        bool is_passed = i + 1 < epochs->count && epochs->entries[i + 1].start_offset <= rec->start;
        if (is_passed || stele_max_i64(entry->start_offset, rec->start) >= end)
            continue;
        err = i == 0 ? settle_first_entry(rec, entry, inout_is_wrong) : is_entry_wrong(rec, entry, inout_is_wrong);
    }
    if (err == STELE_OK && !*inout_is_wrong && end > rec->start) { /* an entry may be missing */
        struct stele_batch_header header;
        err = batch_at(rec, end - 1, &header);
        *inout_is_wrong = err == STELE_OK && header.partition_leader_epoch >= 0 &&
                          header.partition_leader_epoch != stele_epoch_cache_epoch_at(epochs, end - 1);
        err = err == STELE_END ? STELE_OK : err;
    }
    return err;
}

/* A file that does not parse, or is not what the batches say, is rebuilt from those of the first `count` segments; the
 * scan of the others adds theirs. */
static enum stele_err load_epochs(struct stele_recovery *rec, int count)
{
    struct stele_log *log = rec->log;
    bool is_bad = false;
    enum stele_err err =
        rec->files.has_epochs ? stele_epoch_cache_load(&log->epochs, rec->env->vfs, log->dir) : STELE_OK;
    if (err != STELE_OK && err != STELE_CORRUPT)
        return stele_recovery_fail(rec, err, NULL, "the file leader-epoch-checkpoint cannot be read");
    if (err == STELE_CORRUPT)
        stele_epoch_cache_clear(&log->epochs);
    rec->had_epochs = log->epochs.count > 0 || err == STELE_CORRUPT;
    is_bad = err == STELE_CORRUPT;
    err = is_bad ? STELE_OK : are_epochs_wrong(rec, count, &is_bad);
    if (err == STELE_OK && !is_bad && !rec->open->was_clean)
        err = is_any_entry_wrong(rec, count < log->segment_count ? log->segments[count]->base_offset : rec->start,
                                 &is_bad);
    if (err == STELE_OK && is_bad)
        stele_trace(rec->env, STELE_TRACE_CHECKPOINT_BAD, rec->open->name,
                    "the file of leader epochs is not what the log says", 0, 0, 0);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, NULL, "its batches cannot be read");
    return is_bad ? stele_recovery_rebuild_epochs(rec, count) : STELE_OK;
}

/* Is the header of the batch at `offset` of that epoch, and does it begin there when it must? */
static enum stele_err is_header_of(struct stele_recovery *rec, int64_t offset, int32_t epoch, bool must_begin,
                                   bool *inout_is_right)
{
    struct stele_batch_header header;
    int64_t pos = 0;
    enum stele_err err =
        stele_segment_find(rec->log->segments[stele_log__floor(rec->log, offset)], offset, &pos, &header);
    if (err != STELE_OK && err != STELE_END && err != STELE_CORRUPT)
        return err;
    *inout_is_right = *inout_is_right && err == STELE_OK && header.partition_leader_epoch == epoch &&
                      (!must_begin || header.base_offset == offset);
    return STELE_OK;
}

/* After a clean stop a look at the headers beside each entry, which are few; what does not fit is looked into. */
static enum stele_err check_clean_epochs(struct stele_recovery *rec)
{
    struct stele_epoch_cache *epochs = &rec->log->epochs;
    bool is_right = true, is_bad = false;
    enum stele_err err = STELE_OK;
    for (int i = 0; i < epochs->count && err == STELE_OK && is_right; i++) {
        const struct stele_epoch_entry *entry = &epochs->entries[i];
        bool is_passed = i + 1 < epochs->count && epochs->entries[i + 1].start_offset <= rec->start;
        int64_t offset = stele_max_i64(entry->start_offset, rec->start);
        if (is_passed || offset >= rec->end)
            continue;
        is_right = i > 0 || entry->start_offset <= rec->start;
        err = is_header_of(rec, offset, entry->epoch, i > 0 && offset > rec->start, &is_right);
        if (err == STELE_OK && i > 0 && offset > rec->start)
            err = is_header_of(rec, offset - 1, epochs->entries[i - 1].epoch, false, &is_right);
    }
    if (err == STELE_OK && !is_right)
        err = is_any_entry_wrong(rec, rec->end, &is_bad);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, NULL, "its batches cannot be read");
    if (!is_bad)
        return STELE_OK;
    stele_trace(rec->env, STELE_TRACE_CHECKPOINT_BAD, rec->open->name,
                "the file of leader epochs is not what the log says", 0, 0, 0);
    return stele_recovery_rebuild_epochs(rec, rec->log->segment_count);
}

/* True when segment `at` must be read again for its indexes: one is missing, or its transaction index cannot be
 * trusted. */
static enum stele_err needs_rebuild(struct stele_recovery *rec, int at, bool *out_needs, enum stele_reason *out_reason)
{
    const struct stele_found_segment *found = &rec->files.segments[at];
    enum stele_err err = STELE_OK;
    /* Also when it is there: an earlier start may have been stopped while it wrote it anew. */
    bool is_doubtful = found->was_being_deleted && !rec->open->was_clean;
    bool is_missing = !found->has_index || !found->has_time_index || is_doubtful;
    if (!is_missing && found->has_txn_index)
        err = stele_txn_index_load(&rec->log->segments[at]->txns);
    if (err != STELE_OK && err != STELE_CORRUPT)
        return stele_recovery_fail(rec, err, rec->log->segments[at], "its transaction index cannot be read");
    *out_needs = is_missing || err == STELE_CORRUPT;
    *out_reason = is_missing ? STELE_REASON_INDEX_MISSING : STELE_REASON_INDEX_WRONG;
    return STELE_OK;
}

static bool has_hint_in(const struct stele_recovery *rec, int at)
{
    const struct stele_log *log = rec->log;
    int64_t next = at + 1 < log->segment_count ? log->segments[at + 1]->base_offset : INT64_MAX;
    for (int i = 0; i < rec->hint_count; i++) {
        if (rec->hints[i].offset >= log->segments[at]->base_offset && rec->hints[i].offset <= next)
            return true;
    }
    return false;
}

static void note_rebuild(struct stele_recovery *rec, const struct stele_segment *seg, enum stele_reason reason)
{
    rec->report.indexes_rebuilt++;
    STELE_METRIC_ADD(rec->env->metrics, log_index_rebuilds, 1);
    stele_trace(rec->env, STELE_TRACE_LOG_INDEX_REBUILT, rec->open->name, stele_reason_text(reason), seg->base_offset,
                0, 0);
    stele_log__note(rec->log, STELE_HISTORY_REBUILD, seg->base_offset, seg->bytes, reason);
}

static enum stele_err sync_segment(struct stele_recovery *rec, struct stele_segment *seg)
{
    struct stele_segment_sync sync;
    enum stele_err err = stele_segment_sync_begin(seg, &sync);
    if (err == STELE_OK) {
        err = stele_segment_sync_run(&sync);
        stele_segment_sync_release(&sync);
    }
    return err == STELE_OK ? err : stele_recovery_fail(rec, err, seg, "its rebuilt indexes cannot be synced");
}

/* Segments that the scan of the tail does not reach. No later flush will sync what is rebuilt here, so it is at once.
 */
static enum stele_err heal_sealed(struct stele_recovery *rec, int count)
{
    for (int at = 0; at < count; at++) {
        struct stele_segment *seg = rec->log->segments[at];
        enum stele_reason reason;
        bool needs = false;
        enum stele_err err = needs_rebuild(rec, at, &needs, &reason);
        if (err == STELE_OK && (needs || has_hint_in(rec, at)))
            err = stele_recovery_scan_one(rec, at, needs);
        if (err == STELE_OK && needs)
            err = sync_segment(rec, seg);
        if (err != STELE_OK)
            return err;
        if (needs) {
            rec->is_changed = true;
            note_rebuild(rec, seg, reason);
        }
    }
    return STELE_OK;
}

/* After a clean stop: the tail is looked at, not scanned, unless it contradicts the stop. */
static enum stele_err load_clean(struct stele_recovery *rec, bool *out_is_clean)
{
    struct stele_log *log = rec->log;
    int last = log->segment_count - 1;
    enum stele_reason reason = STELE_REASON_INDEX_WRONG;
    bool is_sound = false, needs = false;
    enum stele_err err = needs_rebuild(rec, last, &needs, &reason);
    if (err == STELE_OK && !needs && !has_hint_in(rec, last)) {
        err = stele_segment_activate(log->segments[last]);
        err = err == STELE_OK
                  ? stele_recovery_read_tail(rec, last, &is_sound)
                  : stele_recovery_fail(rec, err, log->segments[last], "it or an index of it cannot be read");
    }
    if (err != STELE_OK)
        return err;
    *out_is_clean = is_sound;
    if (is_sound)
        return stele_recovery_state_at(rec, log->producers, rec->end);
    err = stele_recovery_scan_from(rec, last);
    if (err == STELE_OK && !rec->report.found_damage && !rec->ends_in_damage && rec->report.cut_offset < 0)
        note_rebuild(rec, log->segments[last], reason);
    return err;
}

static enum stele_err new_segment(struct stele_recovery *rec, int64_t base_offset)
{
    struct stele_segment *seg = NULL;
    enum stele_err err = STELE_OK;
    if (base_offset <= rec->deleted_to) {
        /* The log begins anew below what was deleted once: a later start must not delete it again. */
        stele_log__note(rec->log, STELE_HISTORY_CUT, base_offset, 0, STELE_REASON_LOG_START);
        err = stele_history_sync(rec->env, rec->open->dir);
        rec->deleted_to = base_offset - 1;
    }
    if (err == STELE_OK && !rec->open->is_new)
        err = stele_segment_unlink_files(rec->env, rec->log->dir, base_offset);
    if (err == STELE_OK)
        err = stele_segment_create_only(rec->env, NULL, rec->log->dir, base_offset, &rec->log->config, &seg);
    if (err == STELE_OK) {
        err = stele_log__add_segment(rec->log, seg);
        if (err != STELE_OK)
            stele_segment_free(seg);
    }
    rec->end = base_offset;
    rec->is_changed = true;
    return err == STELE_OK ? err : stele_recovery_fail(rec, err, NULL, "a new segment cannot be made");
}

/* The log ends before offsets that were acknowledged, or in damage: what is missing is a damaged range, and the log
 * goes on behind it, so that no offset is given out twice. */
static enum stele_err go_on_after_damage(struct stele_recovery *rec)
{
    struct stele_log *log = rec->log;
    int last = log->segment_count - 1;
    int64_t next = stele_max_i64(stele_max_i64(rec->known_end, rec->end), stele_max_i64(rec->point, rec->start));
    struct stele_damaged_range range = {.first_offset = rec->end,
                                        .last_offset = next - 1,
                                        .pos = rec->ends_in_damage ? rec->damage_pos : log->segments[last]->bytes,
                                        .end_pos = INT64_MAX};
    if (range.last_offset < range.first_offset)
        range.last_offset = range.first_offset; /* bytes that name no offset: one at least is lost to them */
    enum stele_err err = stele_recovery_damage(rec, last, &range);
    if (err == STELE_OK)
        err = stele_segment_seal(log->segments[last]);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, log->segments[last], "it cannot be closed behind its damage");
    err = new_segment(rec, range.last_offset + 1);
    if (err == STELE_OK) {
        STELE_METRIC_ADD(rec->env->metrics, log_rolls_damage, 1);
        stele_trace(rec->env, STELE_TRACE_LOG_ROLLED, rec->open->name, stele_reason_text(STELE_REASON_DAMAGE), rec->end,
                    0, 0);
        stele_log__note(log, STELE_HISTORY_ROLL, rec->end, log->segments[last]->bytes, STELE_REASON_DAMAGE);
    }
    if (err == STELE_OK)
        err = stele_log__write_snapshot(log, rec->end);
    if (err == STELE_OK)
        stele_producers_set_map_end(log->producers, rec->end);
    return err;
}

static enum stele_err settle_end(struct stele_recovery *rec)
{
    struct stele_log *log = rec->log;
    enum stele_err err = STELE_OK;
    bool is_empty = log->segment_count == 0 && !rec->had_epochs;
    if (log->segment_count > 0 && rec->end < rec->open->log_start_offset && !rec->ends_in_damage) {
        err = stele_recovery_delete_from(rec, 0, STELE_REASON_LOG_START);
        if (err != STELE_OK)
            return err;
    }
    if (log->segment_count == 0) {
        bool was_changed = rec->is_changed;
        stele_epoch_cache_clear(&log->epochs);
        err = new_segment(rec, rec->start);
        if (err != STELE_OK)
            return err;
        log->is_first_unnamed = rec->open->is_new;
        if (log->is_first_unnamed) /* nothing can come back into the directory, and thousands may be made at a time */
            rec->is_changed = was_changed;
        stele_producers_clear(log->producers, rec->start);
    }
    if (rec->ends_in_damage || (rec->end < rec->point && !is_empty))
        err = go_on_after_damage(rec);
    return err;
}

/* Snapshots that belong to no segment and not to the end. */
static enum stele_err drop_stray_snapshots(struct stele_recovery *rec)
{
    const struct stele_log *log = rec->log;
    for (int i = rec->files.snapshot_count - 1; i >= 0; i--) {
        int64_t offset = rec->files.snapshots[i];
        int floor = stele_log__floor(rec->log, offset);
        if (offset == rec->end || log->segments[floor]->base_offset == offset)
            continue;
        enum stele_err err = stele_found_files_drop_snapshot(&rec->files, i);
        if (err != STELE_OK)
            return stele_recovery_fail(rec, err, NULL, "a producer snapshot cannot be deleted");
        rec->is_changed = true;
    }
    return STELE_OK;
}

/* Epochs that have no batch go; when the last batch's is not the last one known, the file was wrong. Where retention
 * deleted the last batch before the file knew of its epoch nobody can tell: a log with nothing in it then says that it
 * knows none, and can be compared with any. By an epoch of before it would count as one that parted there. */
static enum stele_err settle_epochs(struct stele_recovery *rec)
{
    struct stele_epoch_cache *epochs = &rec->log->epochs;
    if (rec->start == rec->end && rec->last_epoch < 0 && !rec->open->was_clean) {
        stele_epoch_cache_clear(epochs);
        return STELE_OK;
    }
    stele_epoch_cache_truncate_from_end(epochs, rec->end);
    if (rec->last_epoch >= 0 && stele_epoch_cache_latest(epochs) != rec->last_epoch) {
        enum stele_err err = stele_recovery_rebuild_epochs(rec, rec->log->segment_count);
        if (err != STELE_OK)
            return err;
    }
    stele_epoch_cache_truncate_from_start(epochs, rec->start);
    return STELE_OK;
}

/* A clean close left it so, and nothing was mended: the next one has nothing to do unless something changes. An index
 * of times that lacks its closing entry is sound, and is not as it was left. */
static bool is_as_closed(const struct stele_recovery *rec)
{
    struct stele_segment *active = stele_log__active(rec->log);
    struct stele_time_entry last;
    return !rec->is_changed && !rec->is_snapshot_behind && !rec->open->is_new &&
           stele_time_index_last(&active->times, &last) == STELE_OK && last.timestamp == active->max_timestamp;
}

static void settle_offsets(struct stele_recovery *rec, bool is_clean)
{
    struct stele_log *log = rec->log;
    const struct stele_log_open *open = rec->open;
    int64_t wanted = open->high_watermark < 0 ? rec->start : open->high_watermark;
    log->log_start_offset = rec->start;
    log->log_end_offset = rec->end;
    log->high_watermark = stele_min_i64(stele_max_i64(wanted, rec->start), rec->end);
    log->recovery_point = is_clean ? rec->end : stele_min_i64(open->recovery_point, rec->end);
    stele_log__raise_checkpoint_point(log);
    log->last_snapshot = rec->files.snapshot_count == 0
                             ? log->last_snapshot
                             : stele_max_i64(log->last_snapshot, rec->files.snapshots[rec->files.snapshot_count - 1]);
    log->is_as_closed = is_clean && is_as_closed(rec);
    log->has_new_names = !log->is_as_closed;
    stele_producers_on_log_start(log->producers, rec->start);
    stele_producers_on_high_watermark(log->producers, log->high_watermark);
}

/* The scan of the tail begins at segment `*inout_first`. The one before is on the disk as it was sealed (see
 * stele_log_checkpoint_point); when it does not look so, as another writer or damage may leave it, it is scanned too.
 */
static enum stele_err check_before(struct stele_recovery *rec, int *inout_first)
{
    bool is_sound = false;
    if (*inout_first == 0 || *inout_first >= rec->log->segment_count)
        return STELE_OK;
    enum stele_err err = stele_recovery_read_tail(rec, *inout_first - 1, &is_sound);
    int64_t base_offset = rec->log->segments[*inout_first]->base_offset;
    bool joins = rec->end == base_offset || (rec->has_gaps && rec->end < base_offset);
    if (err != STELE_OK || (is_sound && joins))
        return err;
    rec->last_epoch = -1;
    --*inout_first;
    return STELE_OK;
}

static enum stele_err recover(struct stele_recovery *rec, bool *out_is_clean)
{
    struct stele_log *log = rec->log;
    const struct stele_log_open *open = rec->open;
    int first = log->segment_count;
    bool is_clean = open->was_clean;
    if (log->segment_count > 0) {
        rec->start = stele_max_i64(rec->start, log->segments[0]->base_offset);
        first = open->was_clean ? log->segment_count - 1 : stele_log__floor(rec->log, open->recovery_point);
        if (open->is_suspect)
            first = (int)stele_min_i64(first, stele_log__floor(rec->log, open->suspect_offset));
        /* No flush ever reached it: its name may be the page cache's alone, and a later one must not outlive it. */
        if (!open->was_clean && open->recovery_point <= log->segments[0]->base_offset) {
            log->is_first_unnamed = open->is_unnamed && log->segment_count == 1;
            rec->is_changed = rec->is_changed || !log->is_first_unnamed;
        }
    }
    enum stele_err err = open->was_clean ? STELE_OK : check_before(rec, &first);
    rec->end = rec->start;
    if (err == STELE_OK)
        err = load_epochs(rec, first);
    rec->last_epoch = -1;
    if (err == STELE_OK)
        err = heal_sealed(rec, first);
    if (err == STELE_OK && log->segment_count > 0)
        err = open->was_clean ? load_clean(rec, &is_clean) : stele_recovery_scan_from(rec, first);
    if (err == STELE_OK && is_clean && rec->end > rec->start)
        err = check_clean_epochs(rec);
    if (err == STELE_OK)
        err = settle_end(rec);
    if (err == STELE_OK)
        err = settle_epochs(rec);
    if (err == STELE_OK)
        err = drop_stray_snapshots(rec);
    if (err == STELE_OK)
        err = stele_found_files_finish_deletions(&rec->files);
    if (err == STELE_OK && rec->is_changed) {
        err = rec->env->vfs->ops->sync_dir(rec->env->vfs, open->dir);
        log->is_first_unnamed = false;
    }
    if (err == STELE_OK)
        *out_is_clean = is_clean;
    return err == STELE_OK ? err : stele_recovery_fail(rec, err, NULL, "the log cannot be opened");
}

static enum stele_err open_log(struct stele_recovery *rec)
{
    bool is_clean = false;
    enum stele_err err = rec->open->is_new ? STELE_OK : stele_found_files_load(&rec->files, rec->error);
    if (err != STELE_OK)
        return err;
    err = stele_log__new(rec->open, &rec->log);
    if (err == STELE_OK)
        err = resync(rec);
    if (err == STELE_OK)
        err = read_hints(rec);
    if (err == STELE_OK)
        err = open_segments(rec);
    if (err == STELE_OK)
        err = recover(rec, &is_clean);
    if (err != STELE_OK)
        return stele_recovery_fail(rec, err, NULL, "the log cannot be opened");
    settle_offsets(rec, is_clean);
    stele_log_check(rec->log);
    return STELE_OK;
}

enum stele_err stele_log_open(const struct stele_log_open *open, struct stele_log **out_log,
                              struct stele_recovery_report *out_report, struct stele_error *error)
{
    struct stele_recovery rec = {
        .open = open,
        .env = open->env,
        .error = error,
        .report = {.cut_offset = -1},
        .start = open->log_start_offset,
        .point = stele_max_i64(open->recovery_point, open->high_watermark),
        .last_epoch = -1,
        .deleted_to = -1,
        .has_gaps = open->config.cleanup_compact || open->is_compacted,
    };
    stele_found_files_init(&rec.files, open->env, open->dir);
    stele_scan_init(&rec.scan, open->env->mem);
    enum stele_err err = open_log(&rec);
    stele_scan_deinit(&rec.scan);
    stele_found_files_deinit(&rec.files);
    stele_mem_free(open->env->mem, rec.hints);
    if (err != STELE_OK) {
        stele_log_free(rec.log);
        return err;
    }
    if (!open->was_clean)
        stele_trace(open->env, STELE_TRACE_LOG_RECOVERED, open->name, NULL, rec.log->recovery_point,
                    rec.report.bytes_scanned, rec.report.bytes_cut);
    stele_trace(open->env, STELE_TRACE_LOG_OPENED, open->name, NULL, rec.log->log_start_offset, rec.log->log_end_offset,
                0);
    *out_log = rec.log;
    *out_report = rec.report;
    return STELE_OK;
}
