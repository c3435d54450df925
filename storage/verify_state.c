/* Producers, transactions and epochs: replayed from the batches, compared with the files that keep them. */
#include "base/check.h"
#include "storage/segment.h"
#include "storage/verify_struct.h"

#include <string.h>

/* Producers never expire here: nobody knows when a snapshot was taken. So a snapshot may lack a producer, and of one
 * that came back after it had expired it may lack what came before. */

static enum stele_err read_snapshot(struct stele_verifying *v, int64_t offset, char path[STELE_PATH_BYTES],
                                    uint8_t **out_bytes, size_t *out_count)
{
    enum stele_err err = stele_verify__path(v, offset, ".snapshot", path);
    return err == STELE_OK ? stele_verify__read(v, path, out_bytes, out_count) : err;
}

/* The snapshot at the first base, where there is one, tells of what lies before it. */
enum stele_err stele_verify__state_begin(struct stele_verifying *v)
{
    v->next_snapshot = 0;
    v->is_at_end = false;
    v->state = v->base_count > 0 && v->bases[0] == 0 ? STELE_STATE_KNOWN : STELE_STATE_PARTIAL;
    if (v->producers == NULL)
        v->producers = stele_producers_new(v->env->mem, INT64_MAX);
    if (v->producers == NULL)
        return STELE_NO_MEMORY;
    stele_producers_clear(v->producers, 0);
    return STELE_OK;
}

/* What a snapshot's entry says against the replay's of the same producer; NULL when they agree. */
static const char *difference(const struct stele_verifying *v, const struct stele_producer_entry *file,
                              const struct stele_producer_entry *log)
{
    bool is_exact = v->state == STELE_STATE_KNOWN && !v->is_compacted;
    bool has_batch = file->last_offset >= v->bases[0];
    if (has_batch && file->last_offset < log->last_offset)
        return "a later batch of the producer is in the log";
    if (has_batch && file->last_offset == log->last_offset &&
        (file->last_sequence != log->last_sequence || file->offset_delta != log->offset_delta))
        return "the log has another sequence there";
    /* The last batch of a producer that is known at the log's end outlives compaction. */
    if (has_batch && file->last_offset > log->last_offset && (!v->is_compacted || v->is_at_end))
        return "no batch of the producer ends there";
    if (v->is_compacted)
        return NULL;
    if (file->producer_epoch != log->producer_epoch || file->timestamp != log->timestamp)
        return "the log has another epoch or timestamp of the producer";
    if (file->coordinator_epoch >= 0 && log->coordinator_epoch >= 0 &&
        file->coordinator_epoch != log->coordinator_epoch)
        return "the log has another coordinator epoch";
    if (is_exact && file->txn_first_offset != log->txn_first_offset &&
        log->txn_first_offset >= v->point[STELE_POINT_START])
        return "the log has another open transaction";
    return NULL;
}

/* Both in ascending producer id. */
static void compare_entries(struct stele_verifying *v, const char *path, const uint8_t *file, const uint8_t *log)
{
    int file_count = stele_get_i32(file + 6), log_count = stele_get_i32(log + 6), at = 0;
    for (int i = 0; i < file_count; i++) {
        struct stele_producer_entry ours = {.producer_id = -1}, theirs;
        if (stele_snapshot_entry(file, SIZE_MAX, i, &theirs) != STELE_OK)
            return;
        while (at < log_count && stele_snapshot_entry(log, SIZE_MAX, at, &ours) == STELE_OK &&
               ours.producer_id < theirs.producer_id)
            at++;
        const char *what = NULL;
        if (at < log_count && ours.producer_id == theirs.producer_id)
            what = difference(v, &theirs, &ours);
        else if (v->state == STELE_STATE_KNOWN && !v->is_compacted)
            what = "the log knows no such producer";
        if (what != NULL)
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, -1, "producer %lld: %s", (long long)theirs.producer_id,
                                what);
    }
}

/* The snapshot's entries sorted, then compared with the replay's. */
static enum stele_err compare_snapshot(struct stele_verifying *v, const char *path,
                                       const struct stele_producers *loaded)
{
    uint8_t *file = NULL, *log = NULL;
    size_t file_bytes = 0, log_bytes = 0;
    enum stele_err err = stele_producers_snapshot(loaded, &file, &file_bytes);
    if (err == STELE_OK)
        err = stele_producers_snapshot(v->producers, &log, &log_bytes);
    if (err == STELE_OK)
        compare_entries(v, path, file, log);
    stele_mem_free(v->env->mem, file);
    stele_mem_free(v->env->mem, log);
    return err;
}

static void check_entries(struct stele_verifying *v, const char *path, int64_t offset, const uint8_t *bytes,
                          size_t count)
{
    int entries = 0;
    if (stele_snapshot_check(bytes, count, &entries) != STELE_OK)
        stele_verify__found(v, STELE_FINDING_DAMAGE, path, 0, "wrong version, checksum or length");
    for (int i = 0; i < entries; i++) {
        struct stele_producer_entry entry;
        if (stele_snapshot_entry(bytes, count, i, &entry) != STELE_OK || entry.last_offset >= offset ||
            entry.txn_first_offset >= offset)
            stele_verify__found(v, STELE_FINDING_DAMAGE, path,
                                STELE_SNAPSHOT_HEADER_BYTES + (int64_t)i * STELE_SNAPSHOT_ENTRY_BYTES,
                                "entry %d makes no sense", i);
    }
}

/* Is there anything to compare a snapshot at this offset with? */
static bool is_comparable(const struct stele_verifying *v, int64_t offset)
{
    return v->state != STELE_STATE_LOST && v->base_count > 0 && offset > v->bases[0] &&
           (!v->is_at_end || offset == v->end);
}

static enum stele_err take_snapshot(struct stele_verifying *v, int64_t offset)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = read_snapshot(v, offset, path, &bytes, &count);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_OK : err;
    check_entries(v, path, offset, bytes, count);
    struct stele_producers *loaded = stele_producers_new(v->env->mem, INT64_MAX);
    err = loaded == NULL ? STELE_NO_MEMORY : stele_producers_load(loaded, bytes, count, offset, INT64_MIN);
    bool is_good = err == STELE_OK;
    if (err == STELE_CORRUPT)
        err = STELE_OK; /* told above, but for a producer that is named twice */
    if (is_good && is_comparable(v, offset))
        err = compare_snapshot(v, path, loaded);
    if (is_good && v->state != STELE_STATE_KNOWN && v->base_count > 0 && offset >= v->bases[0]) {
        struct stele_producers *replayed = v->producers;
        v->producers = loaded;
        loaded = replayed;
        v->state = STELE_STATE_KNOWN;
    }
    stele_producers_free(loaded);
    stele_mem_free(v->env->mem, bytes);
    return err;
}

enum stele_err stele_verify__snapshots(struct stele_verifying *v, int64_t offset)
{
    enum stele_err err = STELE_OK;
    while (err == STELE_OK && v->next_snapshot < v->snapshot_count && v->snapshots[v->next_snapshot] <= offset)
        err = take_snapshot(v, v->snapshots[v->next_snapshot++]);
    return err;
}

enum stele_err stele_verify__snapshots_end(struct stele_verifying *v)
{
    char path[STELE_PATH_BYTES];
    v->is_at_end = true;
    enum stele_err err = stele_verify__snapshots(v, INT64_MAX);
    for (int i = 0; i < v->snapshot_count && err == STELE_OK; i++) {
        if (v->snapshots[i] <= v->end || v->base_count == 0)
            continue;
        err = stele_verify__path(v, v->snapshots[i], ".snapshot", path);
        if (err == STELE_OK)
            stele_verify__found(v, stele_verify__kind_beyond(v, v->snapshots[i]), path, -1,
                                "a snapshot beyond the end of the log, %lld", (long long)v->end);
    }
    return err;
}

static enum stele_err note_abort(struct stele_verifying *v, int64_t pos, const struct stele_completed_txn *txn)
{
    void *aborts = v->aborts;
    enum stele_err err = stele_verify__grow(v, &aborts, v->abort_count, &v->abort_capacity, sizeof(*v->aborts));
    v->aborts = aborts;
    if (err != STELE_OK)
        return err;
    v->aborts[v->abort_count++] =
        (struct stele_seen_abort){.txn = {.producer_id = txn->producer_id,
                                          .first_offset = txn->first_offset,
                                          .last_offset = txn->last_offset,
                                          .last_stable_offset = stele_producers_lso_after(v->producers, txn)},
                                  .pos = pos};
    return STELE_OK;
}

enum stele_err stele_verify__apply(struct stele_verifying *v, int64_t pos, const struct stele_batch_header *header,
                                   const struct stele_control *control)
{
    struct stele_completed_txn txn;
    if (header->producer_id < 0)
        return STELE_OK;
    enum stele_err err = stele_producers_reserve(v->producers, header->producer_id, 1);
    if (err != STELE_OK || !stele_producers_apply(v->producers, header, control, &txn))
        return err;
    stele_producers_on_high_watermark(v->producers, INT64_MAX); /* what is done is not asked for again */
    return txn.is_aborted ? note_abort(v, pos, &txn) : STELE_OK;
}

static struct stele_seen_abort *abort_ending(const struct stele_verifying *v, int64_t last_offset)
{
    int low = 0, high = v->abort_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (v->aborts[middle].txn.last_offset < last_offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->abort_count && v->aborts[low].txn.last_offset == last_offset ? &v->aborts[low] : NULL;
}

/* Where the log says nothing for certain of the transaction (its beginning is missing or compacted away), its
 * neighbours still bound it: it began after the producer's marker before, and before any of its batches that is left.
 */
static bool is_possible(const struct stele_verifying *v, const struct stele_aborted_txn *txn,
                        const struct stele_seen_batch *marker)
{
    if (txn->first_offset < 0 || txn->first_offset > txn->last_offset || txn->last_stable_offset < 0 ||
        txn->last_stable_offset > txn->last_offset + 1)
        return false;
    for (const struct stele_seen_batch *batch = marker; batch > v->batches;) {
        batch--;
        if (batch->producer_id != txn->producer_id || !batch->is_transactional)
            continue;
        if (batch->is_control)
            return batch->last_offset < txn->first_offset;
        if (batch->base_offset < txn->first_offset)
            return false;
    }
    return true;
}

static const char *check_txn(struct stele_verifying *v, const struct stele_aborted_txn *txn)
{
    const struct stele_seen_batch *marker = stele_verify__batch_ending(v, txn->last_offset);
    struct stele_seen_abort *seen = abort_ending(v, txn->last_offset);
    bool is_exact = v->state == STELE_STATE_KNOWN && !v->is_compacted;
    if (seen != NULL)
        seen->is_indexed = true;
    if (marker == NULL)
        return v->state == STELE_STATE_LOST ? NULL : "no marker is there";
    if (!marker->is_abort || marker->producer_id != txn->producer_id)
        return "no transaction of this producer was aborted there";
    if (seen == NULL && is_exact)
        return "the producer had no open transaction";
    if (seen != NULL && is_exact && txn->first_offset != seen->txn.first_offset)
        return "the transaction began elsewhere";
    if (seen != NULL && is_exact && txn->last_stable_offset != seen->txn.last_stable_offset)
        return "the last stable offset was another one";
    return is_exact || is_possible(v, txn, marker) ? NULL : "the transaction cannot have begun there";
}

static void check_txn_entries(struct stele_verifying *v, const char *path, const uint8_t *bytes, size_t count)
{
    int64_t last = -1, stable = -1;
    for (size_t at = 0; count - at >= STELE_TXN_ENTRY_BYTES; at += STELE_TXN_ENTRY_BYTES) {
        struct stele_aborted_txn txn;
        v->report->index_entries++;
        if (stele_aborted_txn_read(bytes + at, &txn) != STELE_OK) {
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, (int64_t)at, "unknown version");
            continue;
        }
        const char *what = check_txn(v, &txn);
        if (what != NULL)
            stele_verify__found(v, stele_verify__kind_beyond(v, txn.last_offset), path, (int64_t)at,
                                "entry of producer %lld, offsets %lld to %lld: %s", (long long)txn.producer_id,
                                (long long)txn.first_offset, (long long)txn.last_offset, what);
        if (txn.last_offset <= last || txn.last_stable_offset < stable)
            stele_verify__found(v, STELE_FINDING_DAMAGE, path, (int64_t)at, "entries do not rise");
        last = txn.last_offset;
        stable = txn.last_stable_offset;
    }
    if (count % STELE_TXN_ENTRY_BYTES != 0)
        stele_verify__found(v, v->is_clean ? STELE_FINDING_DAMAGE : STELE_FINDING_CRASH, path,
                            (int64_t)(count / STELE_TXN_ENTRY_BYTES * STELE_TXN_ENTRY_BYTES), "a cut entry at the end");
}

enum stele_err stele_verify__txn_index(struct stele_verifying *v, int64_t base)
{
    char path[STELE_PATH_BYTES];
    uint8_t *bytes = NULL;
    size_t count = 0;
    enum stele_err err = stele_verify__path(v, base, ".txnindex", path);
    if (err == STELE_OK)
        err = stele_verify__read(v, path, &bytes, &count);
    if (err != STELE_OK && err != STELE_NOT_FOUND)
        return err;
    if (err == STELE_OK)
        check_txn_entries(v, path, bytes, count);
    stele_mem_free(v->env->mem, bytes);
    for (int i = 0; i < v->abort_count; i++) {
        const struct stele_seen_abort *seen = &v->aborts[i];
        if (!seen->is_indexed)
            stele_verify__found(
                v, seen->txn.last_offset >= v->rebuilt_from ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, path, -1,
                "the transaction that was aborted at offset %lld is missing", (long long)seen->txn.last_offset);
    }
    return STELE_OK;
}

static bool has_epoch(const struct stele_epoch_cache *cache, int32_t epoch, int64_t *out_start)
{
    for (int i = 0; i < cache->count; i++) {
        if (cache->entries[i].epoch == epoch) {
            *out_start = cache->entries[i].start_offset;
            return true;
        }
    }
    return false;
}

static int64_t log_start_of(const struct stele_verifying *v)
{
    return stele_max_i64(v->point[STELE_POINT_START], v->base_count == 0 ? 0 : v->bases[0]);
}

/* May the first epoch that the log has start there by the file? It is cut at the log's start, which moves on. */
static bool is_first_start(const struct stele_verifying *v, int64_t start, int64_t in_log)
{
    int64_t log_start = log_start_of(v);
    int64_t next = v->epochs.count > 1 ? v->epochs.entries[1].start_offset : v->end + 1;
    if (v->is_clean)
        return start == stele_max_i64(in_log, log_start);
    return start == in_log || (start < next && start >= stele_max_i64(in_log, log_start));
}

/* Every epoch of the log must be in the file, where the log says. `log` is cut to what the log's start leaves. */
static void compare_epochs(struct stele_verifying *v, const char *path)
{
    for (int i = 0; i < v->epochs.count; i++) {
        const struct stele_epoch_entry *entry = &v->epochs.entries[i];
        int64_t start = -1;
        bool is_there = has_epoch(&v->file_epochs, entry->epoch, &start);
        if (is_there && (i == 0 ? is_first_start(v, start, entry->start_offset) : start == entry->start_offset))
            continue;
        bool is_late = entry->start_offset >= v->rebuilt_from && !is_there;
        stele_verify__found(v, is_late ? STELE_FINDING_CRASH : STELE_FINDING_DAMAGE, path, -1,
                            "epoch %d starts at %lld in the log, and the file says otherwise", entry->epoch,
                            (long long)entry->start_offset);
    }
}

/* An epoch that the log does not have wrote nothing: only the newest can be like that, and it starts at the log's end.
 */
static void check_strange_epochs(struct stele_verifying *v, const char *path)
{
    for (int i = 0; i < v->file_epochs.count; i++) {
        const struct stele_epoch_entry *entry = &v->file_epochs.entries[i];
        int64_t start;
        bool is_newest = i == v->file_epochs.count - 1 && entry->epoch > stele_epoch_cache_latest(&v->epochs);
        if (has_epoch(&v->epochs, entry->epoch, &start) || (is_newest && entry->start_offset == v->end))
            continue;
        if (v->is_compacted && entry->start_offset <= v->end)
            continue; /* what it wrote was compacted away */
        stele_verify__found(v, stele_verify__kind_beyond(v, entry->start_offset), path, -1,
                            "epoch %d, from offset %lld on, is not in the log", entry->epoch,
                            (long long)entry->start_offset);
    }
}

enum stele_err stele_verify__epochs(struct stele_verifying *v)
{
    char path[STELE_PATH_BYTES];
    enum stele_err err = stele_path_join(path, v->dir, STELE_LEADER_EPOCH_FILE);
    int64_t start = v->point[STELE_POINT_START];
    bool says_nothing = !v->has_epoch_file && v->rebuilt_from == INT64_MAX && !v->is_clean;
    if (err != STELE_OK || says_nothing || v->is_epoch_file_bad || v->base_count == 0 || v->was_lost)
        return err;
    /* Below the log's start the file tells nothing. */
    if (start > 0 && stele_epoch_cache_epoch_at(&v->epochs, start) >= 0)
        stele_epoch_cache_truncate_from_start(&v->epochs, stele_min_i64(start, stele_max_i64(v->end - 1, 0)));
    /* The file is written with a flush and may be older than the start; a start after a crash cuts what it read. */
    if (!v->is_clean)
        stele_epoch_cache_truncate_from_start(&v->file_epochs, log_start_of(v));
    if (!v->is_compacted)
        compare_epochs(v, path);
    check_strange_epochs(v, path);
    return STELE_OK;
}
