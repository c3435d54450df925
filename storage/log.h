/* One partition's log: segments in offset order, the last one active, with epochs, producer state and the start and end
 * offsets.
 *
 * Invariants
 *  1. There is always exactly one active segment, the last; bases rise strictly; every offset of [start, end) that was
 * not compacted away is in the segment with the greatest base <= it.
 *  2. log_start_offset <= high_watermark <= log_end_offset; checkpoint_point <= recovery_point <=
 * log_end_offset.
 *  3. log_end_offset moves right after the bytes are written, before anything else can fail.
 *  4. After a failed call to its files the log is FAILED and refuses work (OFFLINE) until it is opened again.
 * States: OPEN -> FAILED (any operation that meets an I/O error), OPEN -> CLOSED (close).
 *
 * A log belongs to one shard. Only the functions said to run in a job may run off its loop. */
#ifndef STELE_STORAGE_LOG_H
#define STELE_STORAGE_LOG_H

#include "storage/epoch_cache.h"
#include "storage/history.h"
#include "storage/producer_state.h"
#include "storage/segment.h"

struct stele_log;

struct stele_log_open {
    struct stele_env *env; /* of the shard that will own it; open may run in a job */
    const char *dir;       /* whole path of the partition's directory; must exist */
    const char *name;      /* "topic-0", for traces */
    struct stele_log_config config;
    bool is_new;              /* the caller has just made the directory: none of the log's files is there */
    bool is_unnamed;          /* the caller will sync the directory; see directory_synced */
    bool is_compacted;        /* cleaner-offset-checkpoint names it: gaps between offsets are no damage */
    bool was_clean;           /* the log directory's clean-shutdown marker was there */
    int64_t recovery_point;   /* of its checkpoint; 0 without */
    int64_t log_start_offset; /* of its checkpoint; 0 without */
    int64_t high_watermark;   /* of its checkpoint; -1 without: log start */
    bool is_suspect;          /* scanned from the segment of suspect_offset on, wherever the recovery point is */
    int64_t suspect_offset;
};

/** What recovery did, for traces, metrics and tests. */
struct stele_recovery_report {
    int segments_scanned, segments_deleted, indexes_rebuilt;
    int64_t bytes_scanned, bytes_cut;
    int64_t cut_offset; /* -1 */
    bool found_damage;  /* an invalid batch below max(recovery point, high watermark): kept, see damaged ranges */
};

/** Loads and, after an unclean stop, recovers (facts 8; storage/recover.c). Runs in a job or at start; makes no use of
 * the file cache. An empty directory becomes a log with an empty active segment at log_start_offset. Errors: IO,
 * NO_SPACE, NO_MEMORY, CORRUPT (with file and way out in `error`). */
STELE_MUST_CHECK enum stele_err stele_log_open(const struct stele_log_open *open, struct stele_log **out_log,
                                               struct stele_recovery_report *out_report, struct stele_error *error);
/** The caller synced the directory after the log was opened. In a new directory that is not done by opening it: it is
 * due before the first acknowledgement and the first checkpoint. (A roll or flush before that does it on its own.) */
void stele_log_directory_synced(struct stele_log *log);
/** Hands an opened log to its shard's cache. */
void stele_log_attach(struct stele_log *log, struct stele_file_cache *cache);
/** Clean close: writes the snapshot at the end offset, seals indexes, syncs everything (facts 8.8); nothing, when it
 * was opened after one and no file of it has changed since. The log must then be freed also when this failed, but for
 * EXISTS: a flush is under way, nothing was done. */
STELE_MUST_CHECK enum stele_err stele_log_close(struct stele_log *log);
/** Frees without touching a file (after close, or as a crash does). NULL is fine. No job and no slice may hold it. */
void stele_log_free(struct stele_log *log);

const char *stele_log_name(const struct stele_log *log);
const char *stele_log_dir(const struct stele_log *log);
int64_t stele_log_start_offset(const struct stele_log *log);
int64_t stele_log_end_offset(const struct stele_log *log);
int64_t stele_log_high_watermark(const struct stele_log *log);
int64_t stele_log_last_stable_offset(const struct stele_log *log);
/** All below it is synced, but for what lies below the log's start: what a producer may be told. It may itself lie
 * below the start, since a deletion syncs nothing. */
int64_t stele_log_recovery_point(const struct stele_log *log);
/** What a checkpoint may say: the recovery point, or less. Every segment below that of this point has all its files on
 * the disk, whatever rolls meanwhile. */
int64_t stele_log_checkpoint_point(const struct stele_log *log);
int64_t stele_log_bytes(const struct stele_log *log);
int stele_log_segment_count(const struct stele_log *log);
struct stele_segment *stele_log_segment(const struct stele_log *log, int index);
/** Where the first segment begins; -1: it is not known of a FAILED log, which may have lost it half way. */
int64_t stele_log_first_base(const struct stele_log *log);
const struct stele_epoch_cache *stele_log_epochs(const struct stele_log *log);
const struct stele_producers *stele_log_producers(const struct stele_log *log);
const struct stele_log_config *stele_log_config(const struct stele_log *log);
void stele_log_set_config(struct stele_log *log, const struct stele_log_config *config);
bool stele_log_is_failed(const struct stele_log *log);
/** A slice of it could not be read: the log is FAILED. */
void stele_log_unreadable(struct stele_log *log);
/** Raised by whoever knows (one node: the end offset after every append). Lower values are ignored but by truncation.
 */
void stele_log_set_high_watermark(struct stele_log *log, int64_t offset);

/** A leader's epoch begins at `offset`, the end, whether or not anything will be appended in it. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_begin_epoch(struct stele_log *log, int32_t epoch, int64_t offset);

struct stele_append {
    uint8_t *
        bytes; /* CLIENT, COORDINATOR: exactly one batch that stele_validate accepted; else one or more whole batches */
    size_t count;
    enum stele_origin origin;
    int32_t leader_epoch; /* stamped on CLIENT and COORDINATOR batches; for REPLICATION batches of newer epochs are
                             dropped, as are those too far from the first for one segment */
    bool is_checked;      /* REPLICATION: stele_batch_check accepted each batch already */
};

struct stele_appended {
    int64_t first_offset, last_offset; /* of a duplicate: the original ones */
    int64_t max_timestamp;             /* of a duplicate: the original's */
    int64_t log_append_time_ms;        /* -1 on create time */
    bool is_duplicate;                 /* nothing was written */
    bool wants_flush;                  /* flush.messages reached: start a flush */
    int batches;                       /* 0: all were of newer epochs */
};

/** Appends; stamps offsets and epoch into `bytes` (facts 5.1). No sync.
 * Errors: those of stele_producers_check; RECORD_LIST_TOO_LARGE; CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (replication:
 * batches that do not follow); IO, NO_SPACE (NO_SPACE cuts back what was written and leaves the log OPEN when the cut
 * succeeds), OFFLINE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_append(struct stele_log *log, const struct stele_append *append,
                                                 struct stele_appended *out);

/** A range of one segment's file, pinned until released. */
struct stele_slice {
    struct stele_cached_file *file; /* NULL when empty */
    int64_t pos;
    size_t bytes;
    int64_t base_offset;     /* of the first batch in it; may be below the offset asked for */
    bool is_first_too_large; /* bytes is 0 although there is a batch: it does not fit and min_one was false */
};

struct stele_read {
    int64_t offset;
    int64_t bound; /* exclusive: high watermark, last stable offset or log end */
    size_t max_bytes;
    bool min_one; /* return the first batch even when it is larger than max_bytes */
};

/** Errors: OFFSET_OUT_OF_RANGE (below start or above end), DAMAGED_RANGE, IO (the log is now FAILED), OFFLINE,
 * NO_MEMORY. An offset at the bound gives an empty slice. */
STELE_MUST_CHECK enum stele_err stele_log_read(struct stele_log *log, const struct stele_read *read,
                                               struct stele_slice *out_slice);
void stele_slice_release(struct stele_slice *slice);
/** To be asked after an append: true when log.write.back.bytes have come since the last time, with the range of the
 * last segment that they are, for sync_range of its file in a job: that may take long. Only a hint is lost with the
 * range. */
bool stele_log_take_write_back(struct stele_log *log, struct stele_slice *out_slice, struct stele_file **out_file);
/** What lies from `offset` on was written a moment ago: it is in the page cache. False says nothing. */
bool stele_log_is_warm(const struct stele_log *log, int64_t offset);
/** From the index alone: the range that a read of max_bytes at `offset` looks at, pinned like a slice (base_offset is
 * not set); empty when there is nothing. What of it is not in the page cache is to be loaded by a job before the read.
 */
STELE_MUST_CHECK enum stele_err stele_log_locate(struct stele_log *log, int64_t offset, size_t max_bytes,
                                                 struct stele_slice *out_slice);
/** Brings a range of a pinned file into the page cache (job). Errors: END (the file is shorter by now), IO, NO_MEMORY.
 */
STELE_MUST_CHECK enum stele_err stele_slice_load(struct stele_mem *mem, struct stele_file *file, int64_t pos,
                                                 int64_t bytes);
/** Aborted transactions that a read_committed reader of this slice needs (facts 5.3), into memory of tag LOG that the
 * caller frees. */
STELE_MUST_CHECK enum stele_err stele_log_aborted(struct stele_log *log, int64_t offset,
                                                  const struct stele_slice *slice, struct stele_aborted_txn **out_txns,
                                                  size_t *out_count);

/** A look at a batch whose bytes did not check where they came: the wire may have spoilt them, or they rotted here
 * since a start read them. */
struct stele_log_doubt {
    int64_t offset; /* that the batch holds */

    /* the log's */
    int64_t segment_base;
    int64_t cut_count;
    struct stele_slice slice;
    struct stele_file *file;
    struct stele_mem *mem;
    enum stele_err err;
    int64_t bad_pos, first_offset; /* of what does not check; -1: not known */
};
/** Errors: END (nothing is there, or damage that is known), DAMAGED_RANGE (met on the way), IO, OFFLINE, NO_MEMORY,
 * NO_SPACE. After OK work is due, in a job, then end. */
STELE_MUST_CHECK enum stele_err stele_log_doubt_begin(struct stele_log *log, int64_t offset,
                                                      struct stele_log_doubt *out_doubt);
void stele_log_doubt_work(struct stele_log_doubt *doubt);
/** Errors: DAMAGED_RANGE: it is bad, and known as damaged now: reads of it are refused, damage_offset names it, and
 * suspect_offset until the log is opened anew. IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_doubt_end(struct stele_log *log, struct stele_log_doubt *doubt);

struct stele_time_offset {
    int64_t offset, timestamp; /* offset -1: none */
    int32_t leader_epoch;
};
/** A lookup by time in steps, for a loop that must not block. Between two steps the log may change. */
struct stele_time_query {
    int64_t timestamp; /* in: a STELE_TIME_ value or a timestamp (facts 5.3); the rest is zero */
    struct stele_time_offset found;

    /* the log's */
    enum { STELE_TIME_BEGINS, STELE_TIME_CHOOSES, STELE_TIME_SEARCHES } phase;
    struct stele_time_search search;
    int64_t segment_base;                /* looked at now; those below are done with */
    int64_t largest_base;                /* of the segment with the largest timestamp so far, -1 none */
    int64_t tried_timestamp, tried_base; /* the largest timestamp: of the segment that was chosen last */
    bool is_climbing;                    /* and no record has it: every batch is looked into for the largest left */
    int64_t cut_count;                   /* of the log when it began */
    struct stele_segment_range batch;
    struct stele_slice slice; /* what `work` reads; empty: nothing is to be done */
    struct stele_file *file;
    struct stele_mem *mem;
    bool is_loaded; /* what the step wants to read is in the page cache */
    struct stele_time_found hit;
    enum stele_err work_err;
};
/** Goes on until there is an answer (*out_waits false) or something that may take long is to be done: then `work` is
 * due, in a job, and after it the next step. Errors (nothing is held then): as stele_log_read. */
STELE_MUST_CHECK enum stele_err stele_log_time_step(struct stele_log *log, struct stele_time_query *query,
                                                    bool *out_waits);
void stele_log_time_work(struct stele_time_query *query);
/** Gives up a query between work and step. */
void stele_log_time_drop(struct stele_time_query *query);
/** All steps at once. Of STELE_TIME_MAX_TIMESTAMP the answer is the first record with the largest timestamp of those
 * from the log start on; where a deleted one had it, finding the largest of the rest may read a segment. */
STELE_MUST_CHECK enum stele_err stele_log_offset_at(struct stele_log *log, int64_t timestamp,
                                                    struct stele_time_offset *out);

/** Cuts everything from `offset` on (facts 8.6). At or above the end only the epochs are trimmed; below the first
 * segment it is a restart_at. It is durable then: no loss of power brings back what was cut under batches that were
 * appended after it. Before the call the checkpointed high watermark and log start are lowered to `offset` and the
 * checkpointed recovery point to stele_log_point_after_cut, or a start after a crash would take what is missing for
 * damage. Errors: EXISTS while a flush is under way, whose files these are, unless only epochs
 * are trimmed: nothing was done, ask again after flush_end; IO, NO_SPACE, NO_MEMORY (the log is now FAILED, and its
 * points say what a checkpoint may say of it), OFFLINE. */
STELE_MUST_CHECK enum stele_err stele_log_truncate(struct stele_log *log, int64_t offset);
/** What a truncation to `offset` makes of the checkpoint's recovery point: no more than the base of the segment that is
 * cut, whose files are in doubt until the next flush. */
int64_t stele_log_point_after_cut(const struct stele_log *log, int64_t offset);
/** What a truncation to `offset` would take away, for whoever holds ranges of the log. */
struct stele_log_cut {
    int64_t offset;
    const struct stele_cached_file *file; /* of the segment that loses its end, only to be compared; NULL: none does */
    int64_t pos;                          /* where it will end */
};
/** Errors: IO (the log is now FAILED), OFFLINE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_find_cut(struct stele_log *log, int64_t offset, struct stele_log_cut *out);
/** True when the cut takes bytes of the range. */
bool stele_slice_is_cut(const struct stele_slice *slice, const struct stele_log_cut *cut);
/** Drops everything and goes on, empty, at `offset`; durably. Before the call the checkpointed recovery point, high
 * watermark and log start are lowered to the log start, or to `offset` when that is lower. Errors: as truncate; EXISTS
 * while a flush is under way. */
STELE_MUST_CHECK enum stele_err stele_log_restart_at(struct stele_log *log, int64_t offset);
/** delete-records: moves the start offset up. Errors: OFFSET_OUT_OF_RANGE (below the start is a no-op, above the high
 * watermark refused). */
STELE_MUST_CHECK enum stele_err stele_log_set_start_offset(struct stele_log *log, int64_t offset);
/** Deletes what retention says. `*out_deleted` segments were renamed; unlink_due says when they are to be unlinked.
 * While a flush is under way nothing is deleted: the next call does it. */
STELE_MUST_CHECK enum stele_err stele_log_retain(struct stele_log *log, int *out_deleted);
/** Rolls when the active segment is not empty and older than segment.ms by the wall clock (idle logs roll too). */
STELE_MUST_CHECK enum stele_err stele_log_roll_if_old(struct stele_log *log, bool *out_rolled);
STELE_MUST_CHECK enum stele_err stele_log_roll(struct stele_log *log, enum stele_reason reason);
/** Drops idle producers. */
int stele_log_expire_producers(struct stele_log *log);

/* A copy of a log that is made by appending its batches (node/partition_move.c). */

/** Up to where a copy and its log have the same records, by the epochs of both (KIP-101); -1: nowhere. */
int64_t stele_log_common_end(const struct stele_log *log, const struct stele_log *copy);
/** Closes a copy that has all of the log's records: with its start, and with its producers as the snapshot of them says
 * (stele_producers_snapshot). Errors: those of close. */
STELE_MUST_CHECK enum stele_err stele_log_close_copy(struct stele_log *copy, int64_t start_offset,
                                                     const uint8_t *producers, size_t count);
/** The copy, opened anew, takes the place of the log, which is to be freed: what only memory knows goes over. Errors:
 * NO_MEMORY (nothing was done). */
STELE_MUST_CHECK enum stele_err stele_log_succeed(struct stele_log *copy, struct stele_log *log);

/* Deletion of renamed files after file.delete.delay.ms: a job of the shard. */
/** Monotonic ms when the next files are due, INT64_MAX when none. */
int64_t stele_log_unlink_due(const struct stele_log *log);
/** Takes the bases that are due into memory of tag LOG that the caller frees (their files: stele_segment_unlink_deleted
 * in a job). */
STELE_MUST_CHECK enum stele_err stele_log_take_due(struct stele_log *log, int64_t mono_ms, int64_t **out_bases,
                                                   int *out_count);

/** A flush in three steps: begin on the loop, run in a job, end on the loop. One at a time for a log (begin: EXISTS
 * while one is under way). */
struct stele_log_flush;
STELE_MUST_CHECK enum stele_err stele_log_flush_begin(struct stele_log *log, struct stele_log_flush **out_flush);
STELE_MUST_CHECK enum stele_err stele_log_flush_run(struct stele_log_flush *flush);
/** Frees; on OK the recovery point moves to what begin saw as the end; otherwise the log is FAILED (a sync that failed
 * is never tried again), unless all that run lacked was room or memory for the epochs: then another flush may. */
void stele_log_flush_end(struct stele_log *log, struct stele_log_flush *flush, enum stele_err result);
/** The three steps in one call, for close, recovery and tests. */
STELE_MUST_CHECK enum stele_err stele_log_flush(struct stele_log *log);
/** Monotonic ms when flush.ms asks for a flush; INT64_MAX when there is nothing to flush. */
int64_t stele_log_flush_due(const struct stele_log *log);

/** Damaged ranges that recovery kept: [first, last] offsets, the file position where the scan failed, and the one where
 * it went on, INT64_MAX when no sound batch of the segment lies behind. */
struct stele_damaged_range {
    int64_t first_offset, last_offset, segment_base, pos, end_pos;
    int64_t
        pos_offset; /* of the batch that belongs at `pos`: first_offset, or less where the log's start lies between */
};
int stele_log_damaged_count(const struct stele_log *log);
const struct stele_damaged_range *stele_log_damaged(const struct stele_log *log, int index);

/** Where what is damaged begins: of the known ranges and of what a read met since; -1: nothing is. */
int64_t stele_log_damage_offset(const struct stele_log *log);
/** A read met damage that is in no known range yet: opened anew, is_suspect from this offset on, the log knows it. -1:
 * none did. */
int64_t stele_log_suspect_offset(const struct stele_log *log);

/** Asserts the invariants of the log and its segments, unless it is FAILED. */
void stele_log_check(const struct stele_log *log);

#endif
