/* A replica that moves to another log directory of its node (KIP-113): the partition's part. node/moves.h has the
 * directories' part, which is the control shard's.
 *
 * The copy is a log beside the partition's own, which nobody reads; jobs alone touch it, one after another.
 *  1. Jobs append the log's batches to it, from the log start to the end, no faster than
 *     replica.alter.log.dirs.io.max.bytes.per.second lets all moves of the node. What the log cuts is cut from the copy
 *     before anything more is appended.
 *  2. When the copy is synced but for little, the partition is held: produces, deletions and descriptions wait in its
 *     queue, answers of a leader count as lost, states of the metadata wait, and nothing is flushed, rolled or
 * retained.
 *  3. What is missing is copied, the copy closed as at a clean stop, with the log's producers. The partition's own jobs
 *     end.
 *  4. The control shard writes checkpoints that know the copy, and swaps the directories.
 *  5. The copy is opened under its new name and takes the log's place; the partition goes on.
 * Whatever fails before the swap is decided ends the move, and the log goes on as if there had been none.
 *
 * Invariants
 *  1. What the copy has are the log's bytes, from one of its batches on, up to the least offset that was cut.
 *  2. A mover counts as a job of its partition, from its arrival to its end.
 * States: COPYING -> SWAPPING (closed; the control shard has it) -> OPENING -> ended, COPYING -> ended. */
#ifndef STELE_NODE_PARTITION_MOVE_H
#define STELE_NODE_PARTITION_MOVE_H

#include "base/timing_wheel.h"
#include "node/shard.h"
#include "storage/log_dirs.h"

enum stele_mover_state { STELE_MOVER_COPYING, STELE_MOVER_SWAPPING, STELE_MOVER_OPENING };

struct stele_mover {
    /* Set by the control shard, which keeps what they point to. */
    struct stele_partition *partition;
    int dir;               /* where it goes */
    const char *copy_name; /* in traces */
    const char *copy_path; /* of the copy, and of the partition afterwards */
    const char *path;
    char *taken_path; /* the same as path; the partition takes it over with the swap */
    bool is_resumed;  /* the copy has records perhaps */
    /* All on the control shard. Began: OK, or why it ends at once. Then ready, which is answered by
     * stele_mover_swapped; then ended: moved, or `err` says why not. */
    void (*began)(struct stele_mover *mover, enum stele_err err);
    void (*ready)(struct stele_mover *mover);
    void (*ended)(struct stele_mover *mover, enum stele_err err);
    _Atomic bool is_cancelled; /* it ends soon, unless the swap was decided */
    bool is_moved;             /* the swap was decided */

    /* The partition's shard's. */
    enum stele_mover_state state;
    enum stele_err begin_err, err;
    struct stele_task begin_task, task; /* the second may follow while the first is on its way back */
    struct stele_timer timer;
    struct stele_task look_task;
    bool is_looking; /* look_task is under way */
    bool is_over;    /* it ends when that has come */
    struct stele_job job;
    struct stele_log *copy; /* NULL: not begun, or between its two names */
    int64_t copy_end;       /* its end */
    int64_t synced_end;     /* up to where it is synced, about */
    int64_t unsynced_bytes, copied_bytes;
    int64_t cut_offset; /* what the log cut since; -1: everything; INT64_MAX: nothing */
    bool is_begun;      /* what a resumed copy has was looked at */
    int64_t due_ms;     /* when the next range may be copied */
    int64_t held_ms;    /* since when the partition is held; -1: it is not */

    /* a job's */
    struct stele_slice slice;
    struct stele_file *file;
    struct stele_log_config config;
    int64_t from, generation; /* of the log when the range was found; of a cut: its offset */
    uint8_t *bytes;
    size_t capacity;
    size_t appended_bytes;
    enum stele_err job_err;
    bool is_of_copy; /* the failure */
    uint8_t *producers;
    size_t producers_bytes;
    struct stele_log_points points; /* that the checkpoints get, when it is closed */
};

/** From the control shard: begins. */
void stele_mover_begin(struct stele_mover *mover);
/** From the control shard, after `ready`: how the swap went. */
void stele_mover_swapped(struct stele_mover *mover, bool is_moved, enum stele_err err);
/** What the checkpoints are to say of the copy; false: nothing yet. On the partition's shard. */
bool stele_mover_points(struct stele_mover *mover, struct stele_log_points *out_points);
/** The log was cut from `offset` on, or (is_restart) begins anew there. */
void stele_mover_cut(struct stele_mover *mover, int64_t offset, bool is_restart);
/** The partition failed, was closed, or its shard stops: looks at it again, soon. */
void stele_mover_hurry(struct stele_mover *mover);
/** At the end of the node: drops it without touching a file. */
void stele_mover_drop(struct stele_mover *mover);

#endif
