/* A partition as one replica of several: the machines of replication on its log.
 *
 * Invariants
 *  1. The shard carries out an update of a machine in the order of its header, and feeds it no other event before its
 *     log changes are done. A cut may have to wait, for a flush whose files it would cut or for checkpoints that must
 *     not name what is cut: until then (`cut`) the machine gets nothing. Answers that come meanwhile are of the
 *     generation before the cut, so they are dropped as the machine would.
 *  2. What a checkpoint was ever told (`told_*`) is lowered, durably, before the log is cut below it.
 *  3. A state of the metadata log is taken in the order in which it was sent; while a cut waits, or the log is opened,
 *     it waits too.
 * Roles: NONE -> LEADER | FOLLOWER (metadata), LEADER <-> FOLLOWER (metadata), any -> NONE (it goes offline). */
#ifndef STELE_NODE_PARTITION_REPLICA_H
#define STELE_NODE_PARTITION_REPLICA_H

#include "base/timing_wheel.h"
#include "node/operation.h"
#include "node/throttle.h"
#include "replication/fetch_session.h"
#include "replication/follower.h"
#include "replication/leader.h"

struct stele_log_points;
struct stele_replica_line;

enum stele_replica_role { STELE_REPLICA_NONE, STELE_REPLICA_LEADER, STELE_REPLICA_FOLLOWER };

enum stele_replica_cut { STELE_CUT_NONE, STELE_CUT_TRUNCATE, STELE_CUT_RESTART };

enum { STELE_VISIBLE_MARKS = 16, STELE_FETCHES_IN_FLIGHT = 2 };

/** So many bytes were ever appended when the log ended there. */
struct stele_visible_mark {
    int64_t end_offset, bytes;
};

struct stele_replica {
    enum stele_replica_role role;
    int32_t leader_id, leader_epoch, partition_epoch; /* of the last state taken; -1: none */
    int32_t replica_count;
    struct stele_leader leader;
    struct stele_follower follower;

    /* leading */
    struct stele_timer timer;   /* the machine's deadline */
    bool has_no_epoch_start;    /* the index had no memory for it yet */
    struct stele_list watchers; /* entries of followers' sessions (node/replica_session.h) */
    struct stele_visible_mark marks[STELE_VISIBLE_MARKS];
    int mark_count;
    int64_t appended_bytes; /* since start */

    /* following (node/replica_fetcher.h) */
    struct stele_replica_line *line; /* NULL: fetches from nobody */
    struct stele_timer fetch_timer;  /* a delayed fetch */
    int64_t read_ms;                 /* when a consumer last read from here */
    bool is_agreed; /* the leader of this epoch took the log's end for one of its own: below it both are the same */
    bool is_throttled[STELE_THROTTLE_SIDES];
    int64_t leader_end_offset; /* as the leader last said it; -1: it said nothing yet */
    int64_t doubted_offset;    /* at which what the leader gave could not be used; -1: none */

    /* a cut that waits */
    enum stele_replica_cut cut;
    int64_t cut_offset;
    bool is_cutting;     /* `truncate` is under way */
    uint8_t *behind_cut; /* the batches that a restart is for, to be taken when it is done; NULL: none */
    size_t behind_cut_bytes;
    struct stele_follower_update behind_update;
    struct stele_truncate_op truncate;
    int64_t told_recovery_point, told_log_start, told_high_watermark;

    /* a state on its way here; the first three are the control shard's, the next two whoever's has the task */
    bool is_state_sent, has_next_state;
    struct stele_partition_state next_state, sent_state;
    struct stele_task state_task;
    struct stele_partition_state state;
    bool has_state; /* it arrived and waits to be taken */
};

/** On the control shard: what the metadata log says of it. The latest wins. */
void stele_partition_send_state(struct stele_partition *partition, const struct stele_partition_state *state);

/* Between the files of the data plane; all on the partition's shard. */

void stele_replica__init(struct stele_partition *partition, const struct stele_partition_state *first);
/** The log is open: it takes the state that waits. */
void stele_replica__opened(struct stele_partition *partition);
/** No machine gets anything any more: removed, failed, closed. */
void stele_replica__end(struct stele_partition *partition);
/** Something of the log moved that was no machine's doing: appended, synced, a start raised, settings changed. */
void stele_replica__appended(struct stele_partition *partition, int64_t bytes);
void stele_replica__synced(struct stele_partition *partition);
void stele_replica__configured(struct stele_partition *partition);
/** The nodes that are known changed. */
void stele_replica__nodes_changed(struct stele_partition *partition);
void stele_replica__wish_answered(struct stele_partition *partition, const struct stele_isr_answer *answer);
/** OK when this node leads in the epoch that the operation names; otherwise an error, with hints. */
STELE_MUST_CHECK enum stele_err stele_replica__check_leads(struct stele_op *op);
/** Bounds what a checkpoint says of the log, by a truncation under way too, and notes it. */
void stele_replica__cap_points(struct stele_partition *partition, struct stele_log_points *points);
/** Whether no checkpoint names what the truncation that is under way takes; and that one was written that does not. */
bool stele_replica__is_lowered(const struct stele_partition *partition);
void stele_replica__lowered(struct stele_partition *partition);
/** A leading partition was cut, which no metadata asks for: it leads anew. */
void stele_replica__lead_anew(struct stele_partition *partition);
struct stele_log_view stele_replica__view(const struct stele_partition *partition);
struct stele_epoch_end stele_replica__epoch_end(const struct stele_partition *partition, int32_t epoch);
/** A follower's fetch that waits, looked at again. */
struct stele_fetch_answer stele_replica__look(struct stele_partition *partition, int32_t node_id, int64_t node_epoch,
                                              const struct stele_fetch_line *line);
/** A follower's fetch, the first time it is looked at. */
struct stele_fetch_answer stele_replica__fetched(struct stele_partition *partition, int32_t node_id, int64_t node_epoch,
                                                 const struct stele_fetch_line *line);

/* Following (partition_follow.c). */

/** What an answer brought, its records borrowed: `bytes` may be written to. */
struct stele_replica_answer {
    struct stele_fetch_answer answer;
    uint8_t *bytes;
    size_t count;
};
void stele_replica__follow(struct stele_partition *partition, const struct stele_partition_state *state);
void stele_replica__unfollow(struct stele_partition *partition);
void stele_replica__answered(struct stele_partition *partition, const struct stele_follower_ticket *ticket,
                             const struct stele_replica_answer *answer);
void stele_replica__lost(struct stele_partition *partition, const struct stele_follower_ticket *ticket);
void stele_replica__follow_synced(struct stele_partition *partition);
/** The throttle holds its fetch back; it becomes due by itself. */
bool stele_replica__is_held_back(struct stele_partition *partition);
/** A consumer reads from this follower: for a while the leader is asked to tell of its high watermark at once. */
void stele_replica__read_from(struct stele_partition *partition);
void stele_replica__follow_configured(struct stele_partition *partition, struct stele_follower_settings settings);
/** Where the leader is to look at what it gives, with the question that is asked now; -1: nowhere. */
int64_t stele_replica__doubted_offset(const struct stele_partition *partition);
/** What is damaged of the log is another: the leader is told. */
void stele_replica__damage_changed(struct stele_partition *partition);
/** The log is to be closed and opened again: as if the replica had not begun, with the state that it has. */
void stele_replica__suspend(struct stele_partition *partition);
void stele_replica__init_following(struct stele_partition *partition);
/** The address of its leader may be known now. */
void stele_replica__follow_again(struct stele_partition *partition);
/** The partition is not held any more. */
void stele_replica__released(struct stele_partition *partition);
/** Feeds the state that waited for the log to be opened or cut. */
void stele_replica__take_state(struct stele_partition *partition);

#endif
