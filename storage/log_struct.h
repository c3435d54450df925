/* The inside of a log, shared by log_*.c and recover.c. Invariants and states: log.h. */
#ifndef STELE_STORAGE_LOG_STRUCT_H
#define STELE_STORAGE_LOG_STRUCT_H

#include "storage/log.h"

struct stele_unlink_due {
    int64_t base_offset, next_offset, bytes;
    int64_t due_ms; /* monotonic */
};

struct stele_log {
    struct stele_env *env;
    char *dir, *name;
    struct stele_log_config config;
    struct stele_file_cache *cache; /* NULL until attached */

    struct stele_segment **segments; /* ascending; the last is active */
    int segment_count, segment_capacity;
    struct stele_epoch_cache epochs;
    struct stele_producers *producers;

    int64_t log_start_offset, log_end_offset, high_watermark, recovery_point;
    int64_t checkpoint_point; /* see stele_log_checkpoint_point */
    int64_t opened_point;     /* what the checkpoint said when the log was opened */
    int64_t last_snapshot;    /* offset of the newest producer snapshot; -1 none */
    bool is_failed, is_closed;
    bool is_as_closed; /* opened as a clean close left it, and no file of it was touched since */

    int64_t appended_bytes; /* since opened_ms, monotonic */
    int64_t opened_ms;

    /* flushing */
    bool is_flushing;
    bool has_new_names;    /* a segment was made since the directory was synced */
    bool is_first_unnamed; /* the first and only segment's name is perhaps the page cache's alone */
    int64_t last_flush_ms; /* monotonic */

    int64_t cut_count; /* truncations: what a step-wise lookup knows from before is void */

    struct stele_unlink_due *unlinks; /* renamed files that wait, oldest first */
    int unlink_count, unlink_capacity;

    struct stele_damaged_range *damaged;
    int damaged_count, damaged_capacity;
    int64_t suspect_offset; /* the lowest one at which a read met damage that is not known; -1 none */

    struct stele_batch_header *headers; /* scratch of an append: the batches' headers */
    struct stele_control *controls;     /* and what those of control say */
    int header_capacity;
};

/** A log of no segments with the offsets of `open` not yet set. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log__new(const struct stele_log_open *open, struct stele_log **out_log);
/** Puts a segment at the end; its base is above the others. It is the log's on success. */
STELE_MUST_CHECK enum stele_err stele_log__add_segment(struct stele_log *log, struct stele_segment *seg);
STELE_MUST_CHECK enum stele_err stele_log__add_damaged(struct stele_log *log, const struct stele_damaged_range *range);
/** To what the recovery point and the files not yet synced below it allow (log_flush.c). */
void stele_log__raise_checkpoint_point(struct stele_log *log);
/** Writes OFFSET.snapshot of the producer state as it is, without a sync. */
STELE_MUST_CHECK enum stele_err stele_log__write_snapshot(struct stele_log *log, int64_t offset);
/** Syncs OFFSET.snapshot; OK when it is not there (log_flush.c). */
STELE_MUST_CHECK enum stele_err stele_log__sync_snapshot(struct stele_env *env, const char *dir, int64_t offset);

struct stele_segment *stele_log__active(const struct stele_log *log);
/** The last segment whose base is <= offset, or the first. */
int stele_log__floor(const struct stele_log *log, int64_t offset);
/** FAILED: remembers, traces, returns err. */
enum stele_err stele_log__fail(struct stele_log *log, enum stele_err err, const char *what);
/** OFFLINE when failed, CLOSED when closed. */
STELE_MUST_CHECK enum stele_err stele_log__usable(const struct stele_log *log);
/** A file of it is about to change: a close has something to do. */
static inline void stele_log__touch(struct stele_log *log)
{
    log->is_as_closed = false;
}
/** Writes a line of history; a failure of it is not the operation's. */
void stele_log__note(struct stele_log *log, enum stele_history_kind kind, int64_t offset, int64_t bytes,
                     enum stele_reason reason);
/** Renames the files of segments [from, to) and forgets them; they are unlinked after file.delete.delay.ms. */
STELE_MUST_CHECK enum stele_err stele_log__drop_segments(struct stele_log *log, int from, int to,
                                                         const enum stele_reason *reasons);
/** Damage met while reading is an answer that names the place, not a reason to take the log offline: DAMAGED_RANGE. */
enum stele_err stele_log__report_damage(struct stele_log *log, const struct stele_segment *seg, int64_t offset,
                                        int64_t pos);
/** In a range that is known. */
bool stele_log__is_damaged(const struct stele_log *log, int64_t offset);
/** The batch of segment `at` that holds the offset, or the next one, also behind damage. Errors: END (none), CORRUPT
 * (damage at *out_pos), IO, NO_MEMORY, NO_SPACE. */
STELE_MUST_CHECK enum stele_err stele_log__find(struct stele_log *log, int at, int64_t offset, int64_t *out_pos,
                                                struct stele_batch_header *out_header);
/** What a lookup ran into: memory and space come back, files that cannot be read do not (the log is FAILED). */
enum stele_err stele_log__settle_read(struct stele_log *log, enum stele_err err);
/** A slice of the range; an empty one of an empty range. */
STELE_MUST_CHECK enum stele_err stele_log__pin_range(struct stele_segment *seg, const struct stele_segment_range *range,
                                                     struct stele_slice *out);
/** Replays producer state up to `offset` from the newest snapshot at or below it and the batches after. */
STELE_MUST_CHECK enum stele_err stele_log__rebuild_producers(struct stele_log *log, int64_t offset);

#endif
