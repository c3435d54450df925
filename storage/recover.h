/* The state of one stele_log_open. Private to recovery: recover.c decides what is read, recover_scan.c reads it. */
#ifndef STELE_STORAGE_RECOVER_H
#define STELE_STORAGE_RECOVER_H

#include "storage/log_struct.h"
#include "storage/recover_files.h"
#include "storage/scan.h"

/* A range that an earlier recovery recorded as damaged. */
struct stele_recovery_hint {
    int64_t offset, bytes; /* its first offset, and how much of the file it takes */
    int64_t end;           /* it was cut off there since; INT64_MAX: it was not */
    int64_t to;            /* what is bad at offsets below is damage too: it was being repaired */
};

struct stele_recovery {
    const struct stele_log_open *open;
    struct stele_env *env;
    struct stele_log *log; /* being built */
    struct stele_found_files files;
    struct stele_scan scan;
    struct stele_recovery_report report;
    struct stele_error *error;
    int64_t start;      /* log start: the checkpoint's or the first base, whichever is larger */
    int64_t point;      /* what lies below is never cut: max(recovery point, high watermark) */
    int64_t end;        /* after the last sound batch so far */
    int64_t known_end;  /* the same, sound batches behind damage in the last segment included */
    int64_t damage_pos; /* where, when it ends in damage */
    int32_t last_epoch; /* of the last batch read, -1 */
    int64_t deleted_to; /* base of the last segment that history says was deleted from the front; -1 none */
    struct stele_recovery_hint *hints;
    int hint_count, hint_capacity;
    bool has_gaps;       /* offsets may be missing: the log is or was compacted */
    bool ends_in_damage; /* the last segment does */
    bool had_epochs;     /* the epoch file had entries: a directory without a segment is then not a new one */
    bool has_error;      /* `error` is filled */
    bool hints_failed;
    bool is_changed;         /* names or sizes changed on disk: one sync of the directory is due */
    bool is_snapshot_behind; /* the producer state is made of an older snapshot than that of the end */
};

/** Names the file and the way out in the error of the open. */
enum stele_err stele_recovery_fail(struct stele_recovery *rec, enum stele_err err, const struct stele_segment *seg,
                                   const char *what);
/** Makes `producers` what it was when the log ended at `target`: the newest good snapshot, then replay. */
STELE_MUST_CHECK enum stele_err stele_recovery_state_at(struct stele_recovery *rec, struct stele_producers *producers,
                                                        int64_t target);
/** Scans segments from `first` to the end: checks every batch, rebuilds indexes, epochs and the log's producer state,
 * cuts a torn tail, keeps damage below the point. */
STELE_MUST_CHECK enum stele_err stele_recovery_scan_from(struct stele_recovery *rec, int first);
/** Scans one segment below the recovery point to rebuild its indexes or, without `rebuild`, to verify a recorded
 * damage. */
STELE_MUST_CHECK enum stele_err stele_recovery_scan_one(struct stele_recovery *rec, int at, bool rebuild);
/** Reads a segment from its last index entry on, to learn its end and last epoch (rec->end, rec->last_epoch).
 * `*out_is_sound` false: it or its index is not what a roll or a clean stop leaves, scan it. */
STELE_MUST_CHECK enum stele_err stele_recovery_read_tail(struct stele_recovery *rec, int at, bool *out_is_sound);
/** Fills the epoch cache from the batch headers of segments [0, count). */
STELE_MUST_CHECK enum stele_err stele_recovery_rebuild_epochs(struct stele_recovery *rec, int count);
/** Records a damaged range of segment `at`, whose base is filled in. */
STELE_MUST_CHECK enum stele_err stele_recovery_damage(struct stele_recovery *rec, int at,
                                                      const struct stele_damaged_range *range);
/** Deletes segments from `from` on, the last first, because of `reason`. */
STELE_MUST_CHECK enum stele_err stele_recovery_delete_from(struct stele_recovery *rec, int from,
                                                           enum stele_reason reason);

#endif
