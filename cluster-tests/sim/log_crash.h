/* The world of the crash tests of one log: log, model, clients, checkpoints, promises. log_workload.c works in it,
 * sim_log_crash.c crashes it. */
#ifndef STELE_SIM_LOG_CRASH_H
#define STELE_SIM_LOG_CRASH_H

#include "base/test/support.h"
#include "cluster-tests/sim/log_model.h"
#include "cluster-tests/sim/sim_disk.h"
#include "storage/checkpoint.h"

/* What the runs together must reach: each is a place in the code or a fault. */
#define CRASH_POINTS(P)                                                                                                \
    P(ROLL_SIZE)                                                                                                       \
    P(ROLL_TIME)                                                                                                       \
    P(ROLL_OFFSET_INDEX_FULL)                                                                                          \
    P(ROLL_TIME_INDEX_FULL)                                                                                            \
    P(ROLL_OFFSET_RANGE)                                                                                               \
    P(ROLL_RETENTION_ALL)                                                                                              \
    P(ROLL_DAMAGE)                                                                                                     \
    P(DELETE_RETENTION_TIME)                                                                                           \
    P(DELETE_RETENTION_SIZE)                                                                                           \
    P(DELETE_LOG_START)                                                                                                \
    P(DELETE_TRUNCATED)                                                                                                \
    P(DELETE_AFTER_CUT)                                                                                                \
    P(CUT_TORN_TAIL)                                                                                                   \
    P(CUT_TRUNCATED)                                                                                                   \
    P(CUT_APPEND_FAILED)                                                                                               \
    P(REBUILD_INDEX_MISSING)                                                                                           \
    P(REBUILD_INDEX_WRONG)                                                                                             \
    P(DAMAGE)                                                                                                          \
    P(SNAPSHOT_BAD)                                                                                                    \
    P(CRASH_KILL)                                                                                                      \
    P(CRASH_POWER_ORDERED)                                                                                             \
    P(CRASH_POWER_ADVERSARIAL)                                                                                         \
    P(CRASH_IN_RECOVERY)                                                                                               \
    P(CRASH_IN_FLUSH)                                                                                                  \
    P(CRASH_IN_CLOSE)                                                                                                  \
    P(CRASH_IN_TRUNCATION)                                                                                             \
    P(OPEN_CLEAN)                                                                                                      \
    P(OPEN_UNCLEAN)                                                                                                    \
    P(OPEN_TWICE)                                                                                                      \
    P(FULL_DISK)                                                                                                       \
    P(FULL_DISK_AT_SYNC)                                                                                               \
    P(FULL_DISK_IN_RECOVERY)                                                                                           \
    P(READ_WRITE_EIO)                                                                                                  \
    P(SYNC_EIO)                                                                                                        \
    P(EIO_IN_RECOVERY)                                                                                                 \
    P(SYNC_EIO_IN_RECOVERY)                                                                                            \
    P(WRITE_BACK_EIO)                                                                                                  \
    P(RESYNCED)                                                                                                        \
    P(SYNC_EIO_SAME_BOOT)                                                                                              \
    P(SYNC_EIO_EVICTED)                                                                                                \
    P(ROT_LOG)                                                                                                         \
    P(ROT_ABOVE_THE_POINT)                                                                                             \
    P(ROT_REPORTED)                                                                                                    \
    P(ROT_READ_REFUSED)                                                                                                \
    P(ROT_READ_CAUGHT)                                                                                                 \
    P(ROT_INDEX)                                                                                                       \
    P(ROT_TIME_INDEX)                                                                                                  \
    P(ROT_SNAPSHOT)                                                                                                    \
    P(ROT_EPOCHS)                                                                                                      \
    P(ROT_HISTORY)                                                                                                     \
    P(ROT_CHECKPOINT)                                                                                                  \
    P(DUPLICATE)                                                                                                       \
    P(TXN_COMMIT)                                                                                                      \
    P(TXN_ABORT)                                                                                                       \
    P(COMPRESSED)                                                                                                      \
    P(REPLICATED)                                                                                                      \
    P(EXPIRED_FILES_UNLINKED)                                                                                          \
    P(RESTARTED_AT)                                                                                                    \
    P(PENDING_APPEND_SURVIVED)                                                                                         \
    P(TAIL_LOST)

enum crash_point {
#define P(name) POINT_##name,
    CRASH_POINTS(P)
#undef P
        POINT_COUNT
};

enum { CRASH_PRODUCERS = 5 };
#define CRASH_DIR "log"

/* What the client knows; taken from the log again after a restart. */
struct crash_producer {
    int16_t epoch;
    int32_t next_sequence;
    bool is_in_txn;
};

/* The checkpoint files of the node, written at once and durably. */
struct crash_checkpoint {
    int64_t recovery_point, log_start_offset, high_watermark;
    bool is_clean;
};

struct crash_world {
    struct stele_test_env test;
    struct stele_env_ops ops;
    struct sim_disk *disk;
    struct stele_file_cache *cache;
    struct stele_log *log;         /* NULL when down */
    struct stele_log_flush *flush; /* under way */
    int64_t flush_end;             /* of the log when it began */
    enum stele_err flush_result;
    bool flush_ran;
    char failure[STELE_ERROR_TEXT_BYTES]; /* of an open */
    struct stele_log_config config;
    struct stele_prng prng;
    struct log_model model;
    struct crash_checkpoint checkpoint;
    int64_t durable_end; /* promised over a power loss */
    int64_t kept_end;    /* promised over the death of the process */
    int64_t start_max;   /* the log start can be no higher */
    int64_t point_max;   /* no start had a higher recovery point or high watermark, as far as no truncation cut */
    int32_t epoch;
    uint8_t *pending; /* batches of an append that has not returned */
    size_t pending_count;
    struct crash_producer producers[CRASH_PRODUCERS];
    bool is_new;        /* the directory was made just now */
    bool is_named;      /* and synced since; no checkpoint before that */
    bool is_gappy;      /* offsets have gaps, as in a compacted log */
    bool is_lossy_mark; /* the high watermark's checkpoint may be ahead of what is synced */
    bool is_verbose;
    bool is_full;          /* the disk is */
    bool had_damage;       /* in this run */
    bool had_rot;          /* in this run */
    bool had_lost_start;   /* in this run: the checkpoint of the log's start rotted */
    bool had_bad_epochs;   /* the file of epochs rotted, and no clean stop wrote it anew */
    bool has_met_error;    /* a call of the last start failed */
    bool had_lost_line;    /* in this run: a line of history could not be written, or not whole */
    bool power_was_lost;   /* since the log was last up */
    bool has_lost_pages;   /* a failed sync left pages in the cache alone */
    bool has_late_errors;  /* so did a write-back, and maybe no sync told yet */
    int64_t sync_failures; /* seen */
    int64_t hung_us;       /* below a millisecond */
    int64_t crashes;
    int64_t reached[POINT_COUNT];
};

/** One random step of work. An error is what the log returned; the caller knows which fault is on. */
enum stele_err crash_work(struct crash_world *world);
/** Clean close; on OK the checkpoints and the marker are written and the log is gone, on an error too. */
enum stele_err crash_close(struct crash_world *world);
/** Writes the checkpoints from the log. */
void crash_write_checkpoint(struct crash_world *world);
/** Cuts the log at `offset`, the checkpoints first. */
enum stele_err crash_truncate(struct crash_world *world, int64_t offset);
/** Learns the producers from the log again. */
void crash_meet_producers(struct crash_world *world);
/** Damages a file at rest while the log is down, marks what it hit in the model and lowers the promises that fall. */
void crash_rot(struct crash_world *world);
/** Rot that the point of the checkpoints has left behind since is cut away. */
void crash_lower_for_rot(struct crash_world *world);
/** Forgets the append that has not returned. */
void crash_drop_pending(struct crash_world *world);

static inline bool crash_chance(struct crash_world *world, uint64_t n, uint64_t of)
{
    return stele_prng_chance(&world->prng, n, of);
}

#endif
