/* A partition's follower: what to fetch from whom, what of an answer may be taken, where to cut. A pure machine; the
 * position is the log's end, so it holds none.
 *
 * An update is carried out in this order, and no other event is fed before the log changes are done:
 *   1. log: cut, or restart at an offset; append; set the high watermark; raise the start
 *   2. send: the fetch when it is due (stele_follower_fetch); the sync, beside the next fetch and not before it
 *
 * Invariants
 *  1. An answer is taken only if it is to a question of this leader epoch, of this generation (no cut, no restart
 * since) and at the log's end (2.9.4, KIP-320). So answers may come late, twice or in any order.
 *  2. What is appended has epochs up to the question's; the first batch beyond ends the answer (KAFKA-18723).
 *  3. A diverging answer cuts and does nothing else: its watermark may lie above the cut (KAFKA-14704).
 *  4. Where to cut comes from epochs, never from the high watermark (KIP-101). The cut is asked for also at or above
 * the end: entries of the index that hold no record must go (KAFKA-10706).
 *  5. A log that cannot be compared, since the leader deleted all up to where they may differ, begins anew at the
 * leader's start: what it holds below may never have been committed.
 *  6. Metadata alone names the leader. A leader epoch never falls.
 *
 * While the node itself leads, the owner feeds it nothing: the next FOLLOW is of a newer epoch.
 *
 * States: IDLE (no leader) -> FETCHING (metadata) -> FAILED (fenced: until metadata names a newer epoch) -> FETCHING.
 */
#ifndef STELE_REPLICATION_FOLLOWER_H
#define STELE_REPLICATION_FOLLOWER_H

#include "replication/fetch.h"

enum stele_follower_state { STELE_FOLLOWER_IDLE, STELE_FOLLOWER_FETCHING, STELE_FOLLOWER_FAILED };

/** Delays of a partition whose fetch failed double from the first to replica.fetch.backoff.ms (Kafka waits that long at
 * once: a leader that is a moment behind would hold acks=all back by a second after a failover). */
enum { STELE_FOLLOWER_BACKOFF_FIRST_MS = 20 };

struct stele_follower_settings {
    int32_t fetch_backoff_ms; /* replica.fetch.backoff.ms */
    bool is_flush_before_ack;
};

enum stele_follower_reached {
    STELE_FOLLOWER_REACHED_NEW_LEADER,
    STELE_FOLLOWER_REACHED_SAME_EPOCH, /* metadata that changes nothing for the fetch */
    STELE_FOLLOWER_REACHED_OLD_METADATA,
    STELE_FOLLOWER_REACHED_NO_LEADER,
    STELE_FOLLOWER_REACHED_STALE_EPOCH,  /* an answer dropped, for its epoch or generation */
    STELE_FOLLOWER_REACHED_STALE_OFFSET, /* for its offset */
    STELE_FOLLOWER_REACHED_PREFIX,       /* an answer taken in part */
    STELE_FOLLOWER_REACHED_CUT,
    STELE_FOLLOWER_REACHED_CUT_AGAIN, /* not the end of it: the leader's epoch is not here (KIP-279) */
    STELE_FOLLOWER_REACHED_CUT_INDEX, /* only of the epoch index */
    STELE_FOLLOWER_REACHED_RESTART,   /* the leader's start is above */
    STELE_FOLLOWER_REACHED_TOO_LONG,  /* longer than the leader */
    STELE_FOLLOWER_REACHED_IN_RANGE,  /* out of range, and by now within */
    STELE_FOLLOWER_REACHED_FAILED,
    STELE_FOLLOWER_REACHED_BACKOFF,
    STELE_FOLLOWER_REACHED_NONSENSE, /* an answer that no leader gives */
    STELE_FOLLOWER_REACHED_NO_INDEX, /* cut to the high watermark for want of epochs */
    STELE_FOLLOWER_REACHED_WATERMARK_FELL,
    STELE_FOLLOWER_REACHED_START_RAISED,
    STELE_FOLLOWER_REACHED_REPORT, /* a fetch sent to tell of a sync alone */
    STELE_FOLLOWER_REACHED_COUNT
};

struct stele_follower {
    int32_t node_id;
    struct stele_follower_settings settings;
    enum stele_follower_state state;
    int32_t leader_id; /* of the last metadata taken; NO_NODE: none */
    int32_t leader_epoch, partition_epoch;
    uint64_t generation;
    int64_t delayed_until_ms;       /* INT64_MIN: not */
    int32_t backoff_ms;             /* the last one; 0: none since the last success */
    int64_t reported_synced_offset; /* in the last fetch of this leader epoch; -1: none */
    int64_t damaged_offset;         /* -1: whole */
    bool is_read_from;
    bool has_agreed;  /* with this leader, on what is below the log's end: since the last cut or restart */
    uint64_t reached; /* bits of enum stele_follower_reached, for tests */
};

/** Goes with a question and comes back with its answer, unchanged; it stays on this node. */
struct stele_follower_ticket {
    int32_t leader_id, leader_epoch;
    uint64_t generation;
    int64_t fetch_offset;
    int32_t last_fetched_epoch;
};

struct stele_follower_question {
    struct stele_follower_ticket ticket;
    struct stele_fetch_line line;
};

/** Where a batch of an answer lies. */
struct stele_fetched_batch {
    int64_t base_offset, end_offset;
    int32_t epoch;
};

/** The batches of an answer that may be taken (stele_follower_takes). */
struct stele_fetched_records {
    int64_t base_offset; /* of the first one; -1: none */
    int64_t end_offset;  /* after the last one */
    int32_t last_epoch;
    bool is_cut; /* more followed that was not taken */
};

enum stele_follower_event_kind {
    STELE_FOLLOWER_FOLLOW, /* metadata: another node leads, or none; the fetcher before it, if any, is stopped */
    STELE_FOLLOWER_ANSWER,
    STELE_FOLLOWER_LOST,    /* a question that got none: connection closed, timed out */
    STELE_FOLLOWER_SYNCED,  /* a sync is done */
    STELE_FOLLOWER_DAMAGE,  /* found, or repaired */
    STELE_FOLLOWER_READERS, /* consumers began or ended to read from here */
    STELE_FOLLOWER_SETTINGS,
};

/** Pointers are borrowed for the call. */
struct stele_follower_event {
    enum stele_follower_event_kind kind;
    int64_t now_ms; /* monotonic */
    struct stele_log_view log;
    const struct stele_partition_state *state; /* FOLLOW; its leader is not this node */
    struct stele_follower_ticket ticket;       /* ANSWER, LOST */
    struct stele_fetch_answer answer;          /* ANSWER, as the next two */
    struct stele_epoch_end own_end;            /* of answer.diverging.epoch, by this log's epoch index */
    struct stele_fetched_records records;
    int64_t damaged_offset; /* DAMAGE */
    bool is_read_from;      /* READERS */
    struct stele_follower_settings settings;
};

struct stele_follower_update {
    bool has_cut; /* cut log and epoch index from cut_offset on; at or above the end only the index */
    int64_t cut_offset;
    bool has_restart; /* drop everything, begin empty at restart_offset: start and high watermark too, until what
                         follows raises them */
    int64_t restart_offset;
    int64_t append_end_offset; /* append the batches before it; -1: none */
    bool has_high_watermark;
    int64_t high_watermark; /* after the append; may be lower than it was (2.7.2) */
    bool has_start;         /* after the watermark */
    int64_t start_offset;
    bool wants_sync;     /* unless one is under way: then when it is done */
    bool wants_report;   /* what was synced would move the leader, and no fetch has told it: send one now, even behind a
                            parked one (which is then answered early) */
    bool lost_committed; /* the cut goes below the high watermark (after an unclean election only): to be told */
    bool stops;          /* it does not fetch any more */
    int64_t deadline_ms; /* when a delayed fetch is due; INT64_MIN: at once; INT64_MAX: not before another event */
};

/** Without a leader. */
void stele_follower_init(struct stele_follower *follower, int32_t node_id,
                         const struct stele_follower_settings *settings);
void stele_follower_step(struct stele_follower *follower, const struct stele_follower_event *event,
                         struct stele_follower_update *out_update);
void stele_follower_check(const struct stele_follower *follower);

/** The question that is due now, false when none is. There may be several under way at once. */
bool stele_follower_fetch(struct stele_follower *follower, int64_t now_ms, const struct stele_log_view *log,
                          struct stele_follower_question *out_question);

/** Nothing taken yet. */
struct stele_fetched_records stele_fetched_records_begin(const struct stele_follower_ticket *ticket);
/** Whether the next batch of an answer may be taken: it follows without a gap, and its epoch is not below the one
 * before nor above the question's. Counts it in, or notes that the answer is cut. A batch that fails its checksum is
 * not offered: it and what follows are left, which is no failure of the partition. A first batch that begins below an
 * empty log's end and ends above is taken: the log begins with it (KAFKA-6975). */
bool stele_follower_takes(const struct stele_follower_ticket *ticket, const struct stele_log_view *log,
                          const struct stele_fetched_batch *batch, struct stele_fetched_records *records);

#endif
