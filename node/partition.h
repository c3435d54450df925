/* A log on its data shard, and the operations on it: where requests meet storage.
 *
 * Invariants
 *  1. A partition belongs to one shard. Others hold no pointer to it; they send operations.
 *  2. Produces are appended in the order of their arrival, also when one is validated in a job. A read of a connection
 * waits for the produces that the same connection sent before.
 *  3. Who leads, how far readers see (the high watermark) and when a produce is answered, the machines of replication
 * say (node/partition_replica.h). Of one replica: the end offset; with flush.before.ack the recovery point, so that
 * nobody reads what a crash may take back.
 *  4. A produce is acknowledged after its directory's names are synced; what lies under a name that is not, counts as
 * not synced.
 * States: any -> REMOVED (its topic goes), OPENING -> OPEN | OFFLINE (open), OPEN -> OFFLINE (a failed write or sync),
 * OPEN -> CLOSED (stop). */
#ifndef STELE_NODE_PARTITION_H
#define STELE_NODE_PARTITION_H

#include "base/timing_wheel.h"
#include "node/controller.h"
#include "node/operation.h"
#include "node/partition_move.h"
#include "node/partition_replica.h"
#include "node/server_call.h"
#include "node/shard.h"
#include "node/table.h"
#include "proto/api.h"
#include "storage/checkpoint.h"
#include "storage/explain.h"
#include "storage/log.h"
#include "storage/validate.h"

struct stele_produce_op {
    struct stele_op op;
    uint8_t *bytes; /* in the frame; stamped in place */
    size_t count;
    int32_t acks;
    int32_t timeout_ms; /* for which it may wait for its durability; the record stays */

    struct stele_appended appended;
    int64_t log_start_offset;
    enum stele_durability durability;
    char *message; /* what is wrong, or NULL; tag REQUEST, the asker frees */

    /* the partition's */
    struct stele_job job;
    struct stele_log_config config; /* what a job validates by */
    struct stele_validated validated;
    enum stele_err validate_err;
    struct stele_error error;
    struct stele_timer timer;
    struct stele_produce_wait wait;
    bool is_validating, is_validated;
    int64_t appended_us; /* monotonic */
};

/** A job that reads what is not in the page cache. */
struct stele_cold {
    struct stele_list link; /* in its shard's, while the budget is used up */
    struct stele_job job;
    struct stele_partition *partition;
    int64_t bytes, asked_us;
};

struct stele_read_op {
    struct stele_op op;
    int64_t offset;
    size_t max_bytes;
    enum stele_isolation isolation;
    const char *listener;       /* by which the consumer came: where another replica is it is told by that */
    const char *rack;           /* of the consumer; "": none. With one a follower may be told, or be read from */
    int32_t last_fetched_epoch; /* of the record before; -1: do not look whether it is there still */
    int64_t doubted_offset;     /* where bytes from here did not check; -1: nowhere */

    struct stele_slice slice; /* to be released on the partition's shard */
    struct stele_file *file;  /* of the slice */
    int64_t generation;       /* of the partition, when it was read */
    int64_t high_watermark, last_stable_offset, log_start_offset;
    struct stele_aborted_txn *aborted; /* tag LOG, the asker frees */
    size_t aborted_count;
    int64_t seen_bytes; /* what readers could see of the log, ever, when it was read */
    bool was_following;
    /* Instead of records: where both logs agree at most, (-1, -1) for none; who should be read from, -1 for nobody. */
    struct stele_epoch_end diverging;
    int32_t read_replica;

    /* waiting for more */
    int64_t wake_at_bytes;
    bool is_parked; /* the partition's */
    struct stele_task cancel_task;
    void (*cancelled)(struct stele_read_op *read);

    struct stele_cold cold;
    enum stele_err load_err;
};

struct stele_list_op {
    struct stele_op op;
    int64_t timestamp;
    enum stele_isolation isolation;
    struct stele_time_offset found;

    struct stele_time_query query;
    struct stele_cold cold;
};

struct stele_trim_op {
    struct stele_op op;
    int64_t offset;      /* the new start; -1: the high watermark */
    int32_t timeout_ms;  /* for which it may wait for the other replicas */
    const char *message; /* a constant; NULL: none */
    int64_t low_watermark;
    int dir; /* whose checkpoints make it last */

    int64_t start_offset; /* the partition's, as the next */
    struct stele_timer timer;
};

/** A shard's part of step 2. */
struct stele_revoke {
    struct stele_task task;
    struct stele_truncate_op *truncate;
    struct stele_shard *shard;
};

struct stele_describe_op {
    struct stele_op op;
    struct stele_arena *arena; /* everything that `out` points to; used by nobody else until done */
    bool with_segments, with_stats, with_epochs;
    struct stele_described_log *out; /* all but its err and names; of a partition that is not there untouched */

    struct stele_log_explain explain;
    struct stele_job job;
};

enum stele_partition_life {
    STELE_PARTITION_OPENING,
    STELE_PARTITION_OPEN,
    STELE_PARTITION_OFFLINE,
    STELE_PARTITION_CLOSED,
    STELE_PARTITION_REMOVED
};

/** What the control shard knows when it has a partition opened. */
struct stele_partition_setup {
    const char *topic;
    struct stele_partition_key key;
    struct stele_partition_state state;
    int dir;
    const char *path;        /* "" : it lies on a directory that is offline */
    const char *why_offline; /* NULL: it is to be opened */
    bool is_made;            /* its directory was made just now */
    bool is_unmade;          /* there was no room for its directory yet */
    bool is_new;             /* its names are perhaps not synced yet */
    struct stele_log_config config;
    bool was_clean;
    int64_t recovery_point, log_start_offset, high_watermark; /* of the checkpoints */
};

struct stele_partition {
    UT_hash_handle hh;     /* in its shard's table */
    struct stele_list all; /* in the node's list */
    struct stele_partition_key key;
    struct stele_shard *shard;
    char *topic, *name, *path;
    int dir;
    enum stele_partition_life state;
    struct stele_log *log; /* NULL until open */
    struct stele_replica replica;

    struct stele_list queue;        /* produces not yet appended, and reads behind them */
    struct stele_list acks;         /* appended produces that wait for the in-sync replicas, in order */
    struct stele_list written_acks; /* those that wait for this one alone */
    struct stele_list trims;        /* deletions that wait for the other replicas */
    struct stele_list reads;        /* parked */
    int64_t generation;             /* grows with every truncation */
    struct stele_truncate_op *truncating;
    struct stele_revoke *revokes; /* one a data shard; made by the first truncation */
    int64_t visible_bytes;        /* appended since start and below the high watermark; only grows */

    /* flushing */
    struct stele_job flush_job;
    struct stele_log_flush *flush;
    enum stele_err flush_err;
    bool wants_flush; /* again, after the one that runs */
    struct stele_task flush_task;
    bool is_flush_soon; /* it is on its way */
    struct stele_timer flush_timer;

    /* write-back */
    struct stele_job write_back_job;
    struct stele_slice write_back; /* a file: the job runs */
    struct stele_file *write_back_file;

    /* the names of a new partition */
    struct stele_list name_link; /* in one of its shard's two lists while it waits for its turn */
    enum stele_err name_err;
    bool is_named, is_naming, is_named_first;

    /* unlinking */
    struct stele_timer unlink_timer;
    struct stele_job unlink_job;
    int64_t *unlink_bases;
    int unlink_count;
    enum stele_err unlink_err;

    int job_count; /* jobs under way that use this partition */

    /* moving to another log directory (partition_move.h) */
    struct stele_mover *mover; /* NULL: it does not */
    bool is_held;              /* the log and its files rest */
    int describe_count;        /* descriptions under way */

    /* a configuration on its way to it; the two flags are the control shard's */
    struct stele_task config_task;
    struct stele_log_config config;
    bool throttles[STELE_THROTTLE_SIDES]; /* with it */
    bool is_config_sent, is_config_old;
    bool is_leaving;                     /* the control shard's: it is being removed and gets nothing any more */
    struct stele_log_config next_config; /* the shard's: came while the log was being opened */
    bool has_next_config;

    /* opening; on the shard, but for the task that brings it there and back */
    struct stele_list opening_link;
    struct stele_task open_task;
    struct stele_job open_job;
    struct stele_log_open open;
    struct stele_log *opened;
    struct stele_error open_error;
    bool is_unmade, is_told;
    bool is_name_written;    /* its metadata file, by this life: it need only be synced */
    enum stele_err told_err; /* the control shard's: how the first try ended */
    struct stele_recovery_report report;
    void (*open_done)(struct stele_partition *partition, void *arg); /* on the control shard; err in told_err */
    void *open_arg;

    struct stele_task failed_task; /* tells the control plane that it is offline, once */
    bool is_failed_told;
    struct stele_list failed_link; /* the control plane's */

    /* damage (node/partition_repair.h) */
    struct stele_list repair_link; /* of its shard's that are to be repaired */
    int64_t repair_ms;             /* not before */
    int32_t repair_tries;
    bool is_damaged, is_suspended; /* its log is closed for it, or will be when nothing uses it any more */
    bool is_damage_sent, is_damage_heard, is_damage_told, is_unrepaired_told;
    bool sent_damage; /* the task's */
    struct stele_task damage_task;
    struct stele_log_doubt doubt; /* a batch that somebody could not use (node/partition_doubt.c) */
    struct stele_job doubt_job;
    bool is_doubting;
    int64_t doubt_ms;               /* not before */
    struct stele_list damaged_link; /* the control plane's */

    struct stele_task remove_task;
    enum stele_err remove_err; /* for what waits to be acknowledged */
    void (*removed)(struct stele_partition *partition, void *arg);
    void *remove_arg;
};

/** On the control shard: makes the object and hands it to its shard, which opens the log in a job; then open_done on
 * the control shard. The partition belongs to the shard from then on, also when its log did not open (OFFLINE; OPENING
 * when there was no room or memory: it is tried again until there is).
 * Errors: NO_MEMORY (open_done is not called). */
STELE_MUST_CHECK enum stele_err stele_partition_open(struct stele_node *node, const struct stele_partition_setup *setup,
                                                     void (*open_done)(struct stele_partition *partition, void *arg),
                                                     void *arg, struct stele_partition **out_partition);
/** On the control shard, when no opening of it is waited for: takes it from its shard, which answers what waits for it
 * and drops its log when nothing uses it any more; then `removed`, on the control shard, which frees
 * it. Ranges that are being sent stay good. No file is touched. What was written and waits to be acknowledged gets
 * `err`: UNKNOWN_TOPIC_ID where the topic is gone, and its records with it; else NOT_LEADER_OR_FOLLOWER, for others may
 * have them: a client that took them for not written would send them again as new. Settings and states that come later
 * are dropped. */
void stele_partition_remove(struct stele_partition *partition, enum stele_err err,
                            void (*removed)(struct stele_partition *partition, void *arg), void *arg);
/** A range of it could not be read on its way into a socket: it is offline, as after any read that fails. */
void stele_partition_unreadable(struct stele_partition *partition);
/** NULL when the shard has none of that key. */
struct stele_partition *stele_partition_find(const struct stele_shard *shard, const struct stele_partition_key *key);
/** Empties a shard's table; the partitions live on in the node's list. */
void stele_partition_forget_all(struct stele_shard *shard);
/** Drops it without touching a file. */
void stele_partition_free(struct stele_partition *partition);

/** Sends an operation to its partition: `run` there, then `done` here. `run` is one of those below. */
void stele_op_submit(struct stele_op *op);
void stele_partition_produce(struct stele_op *op);  /* struct stele_produce_op */
void stele_partition_read(struct stele_op *op);     /* struct stele_read_op */
void stele_partition_list(struct stele_op *op);     /* struct stele_list_op */
void stele_partition_trim(struct stele_op *op);     /* struct stele_trim_op; it lasts with the next checkpoints */
void stele_partition_truncate(struct stele_op *op); /* struct stele_truncate_op */
void stele_partition_describe(struct stele_op *op); /* struct stele_describe_op; for any state */

/** Somebody says that what came from here at this offset did not check: a job looks at it, where that is not under way.
 * What is bad is then known as damaged and repaired. Whoever says so is believed in nothing. */
void stele_partition_doubt(struct stele_partition *partition, int64_t offset);

/** After a read: gives its slice back and waits until readers see wake_at_bytes, then `done`, always as a message. */
void stele_partition_park(struct stele_read_op *read);
/** Takes a parked read back: `cancelled` comes in any case, as a message, after a `done` that was already under way. */
void stele_partition_unpark(struct stele_read_op *read);
/** On the control shard: gives the partition a configuration. One that is on its way is followed by what holds then. */
void stele_partition_send_config(struct stele_partition *partition, const struct stele_log_config *config);
/** The rounds. */
void stele_partition_retain(struct stele_partition *partition);
void stele_partition_expire(struct stele_partition *partition);

/** Takes it offline, answers what waits. */
void stele_partition_fail(struct stele_partition *partition);

/** Stopping: what waits for a later moment is tried now, and answered with an error when that fails. */
void stele_partition_hurry(struct stele_partition *partition);
/** Stopping: true when nothing is under way any more, so that close may be called. */
bool stele_partition_is_idle(const struct stele_partition *partition);
/** Closes the log; it was clean when the state is CLOSED after it. */
void stele_partition_close(struct stele_partition *partition);

/* Between the files of the partition. */

/** The partition begins with an operation: its stage queue ends. */
void stele_op__begin(struct stele_op *op);
/** The operation goes home. */
void stele_op__finish(struct stele_op *op, enum stele_err err);
/** The same, OK, always as a message: who waits is not called from the middle of an append. */
void stele_op__post(struct stele_op *op);
/** What operations on a partition in this state get; OK when it is open. */
enum stele_err stele_partition__state_error(const struct stele_partition *partition);
/** True when produces of the same origin are not yet appended: then `now` is called after them. */
bool stele_partition__wait_turn(struct stele_op *op, void (*now)(struct stele_op *op));
/** The same, also while the partition is held: what is to be done then would change the log, or lose it midway. */
bool stele_partition__wait_release(struct stele_op *op, void (*now)(struct stele_op *op));
/** It is not held any more: what waited for that goes on. */
void stele_partition__released(struct stele_partition *partition);
/** Runs a cold job when there is room under the shard's budget; and its end. It counts as a job of the partition. */
void stele_partition__run_cold(struct stele_partition *partition, struct stele_cold *cold);
void stele_partition__cold_ended(struct stele_cold *cold);
/** Wakes the parked reads that have enough, or that wait in vain. */
void stele_partition__wake_reads(struct stele_partition *partition);
/** Wakes them all. */
void stele_partition__wake_all_reads(struct stele_partition *partition);
/** Nobody reads or keeps from here on while a truncation is under way; INT64_MAX: none is. */
int64_t stele_partition__cut_offset(const struct stele_partition *partition);
/** Goes on with a truncation that waited for the end of a flush. */
void stele_partition__truncate_go_on(struct stele_partition *partition);
/** Refuses the produces that wait for their durability and reach beyond an offset. */
void stele_partition__refuse_beyond(struct stele_partition *partition, int64_t offset);
/** Answers the produces and deletions that wait with an error: they may be there after the next start. */
void stele_partition__refuse_acks(struct stele_partition *partition, enum stele_err err);
/** Arms `timer` for another try; one who stops does not wait for room, and what waits gets `err`. */
void stele_partition__try_later(struct stele_partition *partition, struct stele_timer *timer, enum stele_err err);
/** Starts a flush, or remembers to start one when the one under way has ended. */
void stele_partition__flush(struct stele_partition *partition);
/** The same as a message: what is appended in this turn of the loop shares one sync. */
void stele_partition__flush_soon(struct stele_partition *partition);
/** Starts write-back of what was appended, in a job, when there is enough of it. */
void stele_partition__write_back(struct stele_partition *partition);
/** Arms the timer of flush.ms. */
void stele_partition__arm_flush(struct stele_partition *partition);
/** Arms the timer of unlinking. */
void stele_partition__arm_unlink(struct stele_partition *partition);
/** Opens a log for which there was no room or memory. */
void stele_partition__open_again(struct stele_partition *partition);
/** Syncs the names of a new partition: at once when somebody waits for them, otherwise after those that do, and when no
 * log of its shard is being opened. */
void stele_partition__name(struct stele_partition *partition);
/** No log of the shard is being opened any more. */
void stele_partition__name_others(struct stele_shard *shard);
/** Takes it out of the queue for that. */
void stele_partition__name_never(struct stele_partition *partition);
/** In a job: the partition's metadata file, and its entry in the log directory. Errors: as the vfs's. */
STELE_MUST_CHECK enum stele_err stele_partition__sync_names(struct stele_vfs *vfs,
                                                            const struct stele_partition *partition);
/** Something of the log moved: tells the machine, starts the sync that is waited for, looks at what waits. */
void stele_partition__advance(struct stele_partition *partition);
/** Produces, deletions and parked reads are looked at again. */
void stele_partition__look(struct stele_partition *partition);
/** Deletions alone. */
void stele_partition__look_at_trims(struct stele_partition *partition);
/** A job of the partition has ended. */
void stele_partition__job_done(struct stele_partition *partition);
/** Gives a removed partition back when nothing is under way any more; it may be gone after this. */
void stele_partition__check_removed(struct stele_partition *partition);
/** Makes the timers. */
void stele_partition__init_timers(struct stele_partition *partition);

#endif
