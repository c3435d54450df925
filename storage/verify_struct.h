/* The inside of verify: verify.c walks directories, verify_log.c reads batches and the indexes beside them,
 * verify_state.c replays producers and epochs, verify_points.c compares checkpoints. */
#ifndef STELE_STORAGE_VERIFY_STRUCT_H
#define STELE_STORAGE_VERIFY_STRUCT_H

#include "storage/checkpoint.h"
#include "storage/epoch_cache.h"
#include "storage/producer_state.h"
#include "storage/txn_index.h"
#include "storage/verify.h"

enum stele_verify_point {
    STELE_POINT_RECOVERY,
    STELE_POINT_START,
    STELE_POINT_HIGH_WATERMARK,
    STELE_POINT_CLEANER,
    STELE_POINT_COUNT
};

struct stele_seen_batch {
    int64_t pos, base_offset, last_offset, max_timestamp; /* the largest timestamp of the segment up to here */
    int64_t largest_at;                                   /* last offset of the batch that first reached it */
    int64_t producer_id;
    bool is_abort, is_control, is_transactional;
};

/* An abort marker that ended a transaction, as the replay saw it. */
struct stele_seen_abort {
    struct stele_aborted_txn txn;
    int64_t pos; /* of the marker */
    bool is_indexed;
};

/* How much is known of the producers at this place of the log. */
enum stele_verify_state {
    STELE_STATE_KNOWN,
    STELE_STATE_PARTIAL, /* what lies before the first segment is missing */
    STELE_STATE_LOST,    /* behind a batch that could not be read */
};

struct stele_verifying {
    struct stele_env *env;
    const struct stele_verify_options *options;
    struct stele_verify_report *report;

    /* of the log directory; without one there are no points */
    const char *log_dir; /* NULL: only a partition or a file of it is read */
    struct stele_checkpoint points[STELE_POINT_COUNT];
    struct stele_checkpoint partitions; /* those that were found; offsets mean nothing */
    bool was_clean;                     /* the marker is there */
    bool is_partition;                  /* the path holds segments */
    char topic_before[STELE_TOPIC_NAME_MAX + 1];
    struct stele_uuid topic_id_before;

    /* of the partition */
    const char *dir, *name;
    int64_t *bases, *snapshots; /* ascending */
    int base_count, snapshot_count, next_snapshot;
    int64_t base_capacity, snapshot_capacity;
    int64_t point[STELE_POINT_COUNT]; /* of the checkpoints; -1: none */
    int64_t rebuilt_from, cut_from;   /* where recovery may rebuild and cut; INT64_MAX nowhere */
    bool is_compacted, is_clean;      /* is_clean: the log directory was closed cleanly and knows the partition */
    int64_t expected;                 /* next offset; -1 where it is not known */
    int64_t end;                      /* after the last sound batch */
    int32_t last_epoch;               /* of the last batch */
    struct stele_epoch_cache epochs;  /* rebuilt from the log */
    struct stele_epoch_cache file_epochs;
    bool has_epoch_file, is_epoch_file_bad, is_epoch_told;
    struct stele_producers *producers;
    enum stele_verify_state state;
    bool was_lost;  /* a batch could not be read */
    bool is_at_end; /* of the log: only the last snapshots are left */

    /* of the segment */
    struct stele_seen_batch *batches;
    int64_t batch_count, batch_capacity;
    struct stele_seen_abort *aborts;
    int abort_count;
    int64_t abort_capacity;
    int64_t lost_from, lost_to; /* offsets of batches that could not be read; -1, -1 */
    int64_t sound_bytes;        /* where its last sound batch ends */
    bool has_next;              /* another segment follows */
};

void stele_verify__found(struct stele_verifying *v, enum stele_finding_kind kind, const char *path, int64_t pos,
                         const char *format, ...) STELE_PRINTF(5, 6);
/** Room for one more of `bytes` each. */
STELE_MUST_CHECK enum stele_err stele_verify__grow(struct stele_verifying *v, void **inout_array, int64_t count,
                                                   int64_t *inout_capacity, size_t bytes);
STELE_MUST_CHECK enum stele_err stele_verify__read(struct stele_verifying *v, const char *path, uint8_t **out_bytes,
                                                   size_t *out_count);
/** What a file shows that wrongly names `offset`: the leftover of a crash when it lies beyond the log's end and
 * recovery may have to cut there, else damage. */
enum stele_finding_kind stele_verify__kind_beyond(const struct stele_verifying *v, int64_t offset);
/** Path of the file of `base` with this suffix. */
STELE_MUST_CHECK enum stele_err stele_verify__path(const struct stele_verifying *v, int64_t base, const char *suffix,
                                                   char out_path[STELE_PATH_BYTES]);

/* verify_log.c */
STELE_MUST_CHECK enum stele_err stele_verify__segment(struct stele_verifying *v, int at);
/** The batch whose last offset this is; NULL when none of the segment has it. */
const struct stele_seen_batch *stele_verify__batch_ending(const struct stele_verifying *v, int64_t last_offset);
/** A file of batches beside the log: a snapshot of the metadata. */
STELE_MUST_CHECK enum stele_err stele_verify__batches(struct stele_verifying *v, const char *path, int64_t epoch);

/* verify_state.c */
STELE_MUST_CHECK enum stele_err stele_verify__state_begin(struct stele_verifying *v);
/** Compares the snapshots up to `offset` (included) with what was replayed. */
STELE_MUST_CHECK enum stele_err stele_verify__snapshots(struct stele_verifying *v, int64_t offset);
STELE_MUST_CHECK enum stele_err stele_verify__snapshots_end(struct stele_verifying *v);
/** A sound batch, in order; `control` of its first record or NULL. */
STELE_MUST_CHECK enum stele_err stele_verify__apply(struct stele_verifying *v, int64_t pos,
                                                    const struct stele_batch_header *header,
                                                    const struct stele_control *control);
STELE_MUST_CHECK enum stele_err stele_verify__txn_index(struct stele_verifying *v, int64_t base);
STELE_MUST_CHECK enum stele_err stele_verify__epochs(struct stele_verifying *v);

/* verify_points.c */
STELE_MUST_CHECK enum stele_err stele_verify__points_load(struct stele_verifying *v, const char *dir);
void stele_verify__points_of(struct stele_verifying *v, const char *topic, int32_t partition);
void stele_verify__points_compare(struct stele_verifying *v);
void stele_verify__points_missing(struct stele_verifying *v, const char *topic);
/** Entries of partitions that are not in the directory. */
void stele_verify__points_strays(struct stele_verifying *v);

#endif
