/* A partition's leader: what its followers have, the in-sync set and its changes, the high watermark, and by these what
 * may be acknowledged, read and deleted. A pure machine: no memory, clock or log of its own.
 *
 * An update is carried out in this order, and no other event is fed before the log changes are done:
 *   1. log: the epoch index gets (leader_epoch, epoch_start_offset); the log's high watermark is set
 *   2. send: the in-sync change goes to the controller
 *   3. answer: the fetch; then waiting produces, deletions and parked fetches are looked at again, where it says so
 *
 * Invariants
 *  1. There is at most one in-sync change under way. Until fresh metadata or its answer proves the outcome, the high
 *     watermark counts the union of the old and the new set (KIP-497): an unknown outcome may have happened.
 *  2. The high watermark never falls while the node leads, and stands still while the committed in-sync set is smaller
 *     than min(min.insync.replicas, replicas) (KIP-966).
 *  3. What a follower has is believed only from a fetch that was validated by (last fetched epoch, offset) in the same
 *     step, in this leader epoch, of the follower's present life (KIP-101, KIP-903). Word of a new life of it voids
 *     what was believed: the watermark waits for it, or for metadata without it.
 *  4. A follower counts with the smallest of: its end; where its damage begins; with flush.before.ack, what it synced.
 *     So does its joining the in-sync set, or the set would hold members that lose committed records with their power.
 *  5. The high watermark may name what is not synced: flush.before.ack was switched on since, or it is an earlier
 *     leader's. It stays, but nothing below it is acknowledged until every member of the set, the leader included, has
 *     synced past it.
 *
 * Departures from Kafka, each with its reason
 *  - What a follower has is kept over a new leader epoch only when that is the old one plus 1 (2.4.5 keeps it whenever
 *    the node led before): after a gap another node led in between, and followers may have cut.
 *  - An idle partition is not in a follower's incremental fetch, so its fetch does not come again to refresh "caught
 * up". A follower that had everything until an append counts as caught up at the time of the append. For the same
 *    reason a follower that may join is looked for after every event, not only after its fetch.
 *  - A follower that reports damage is proposed for removal at once, named so that it does not become eligible. */
#ifndef STELE_REPLICATION_LEADER_H
#define STELE_REPLICATION_LEADER_H

#include "replication/fetch.h"

/** What the metadata image says of a node. A node that is not there: all zero, epoch -1. */
struct stele_node_status {
    int32_t node_id;
    uint32_t rack;      /* equal numbers, equal racks; 0: none */
    int64_t node_epoch; /* of its present registration; -1: none */
    bool is_active;     /* registered and not fenced */
    bool is_leaving;    /* in controlled shutdown */
};

struct stele_leader_settings {
    int32_t min_insync_replicas;
    int32_t replica_lag_ms; /* replica.lag.time.max.ms */
    bool is_flush_before_ack;
};

enum {
    STELE_ISR_RESEND_MS = 50,  /* after an answer that leaves the outcome open */
    STELE_ISR_BACKOFF_MS = 250 /* before another try after INELIGIBLE_REPLICA */
};

/** A wish for the controller (Kafka's AlterPartition). Answered by an event, once; also when it was lost on the way.
 * The controller works on the wishes of one node in the order in which they were sent: a refusal is the last word only
 * if no earlier copy of the wish can still arrive. */
struct stele_isr_change {
    uint64_t change_id;
    int32_t leader_epoch, partition_epoch; /* that it rests on */
    struct stele_node_set isr;             /* it also says: no longer recovering */
    int64_t
        node_epochs[STELE_REPLICAS_MAX]; /* of isr's members, from the fetch that says what they have; -1: none yet */
    struct stele_node_set damaged;       /* not in isr because they lost records: not to be eligible either (KIP-966) */
    bool is_synced;                      /* all that was ever committed is on the disks of isr */
};

struct stele_isr_answer {
    uint64_t change_id;
    enum stele_err err;                    /* of the network too */
    int32_t leader_epoch, partition_epoch; /* with OK: after the change, as isr */
    struct stele_node_set isr;
    int32_t min_isr; /* by which the controller worked it out; 0: not said. Counts, if it is more than the setting,
                        until the metadata of the change is applied here */
};

enum stele_isr_state {
    STELE_ISR_COMMITTED,
    STELE_ISR_EXPAND,
    STELE_ISR_SHRINK,
    STELE_ISR_RECOVER /* the set stays; the partition is no longer recovering, or all that counts is synced */
};

/** What the leader knows of a replica; of the leader itself only the first group is used. */
struct stele_leader_replica {
    struct stele_node_status status; /* of the image */
    int64_t offline_epoch;           /* its disk or log failed in that life of its node; -1: not */

    int64_t node_epoch; /* of the last accepted fetch; -1: none */
    int64_t end_offset, synced_offset, start_offset, damaged_offset;
    bool has_fetched; /* in this leader epoch */

    /* The leader's end at the last fetch and when that was; a mark for the synced offset, left when it is reached. */
    int64_t fetch_mark_offset, fetch_mark_ms;
    int64_t sync_mark_offset, sync_mark_ms;
    int64_t caught_up_ms, sync_caught_up_ms; /* when it last had all that the leader had; INT64_MIN: never */
};

enum stele_leader_reached {
    STELE_LEADER_REACHED_FENCED,
    STELE_LEADER_REACHED_UNKNOWN_EPOCH,
    STELE_LEADER_REACHED_STRANGER,   /* a fetcher that is no replica */
    STELE_LEADER_REACHED_STALE_NODE, /* a fetch of a node's earlier life */
    STELE_LEADER_REACHED_DIVERGING,
    STELE_LEADER_REACHED_BELOW_START,
    STELE_LEADER_REACHED_ABOVE_END,
    STELE_LEADER_REACHED_BACKWARDS, /* a follower has less than before */
    STELE_LEADER_REACHED_DAMAGED,
    STELE_LEADER_REACHED_KEPT, /* records of followers kept over an epoch */
    STELE_LEADER_REACHED_GAP,  /* not kept: another leader may have been between */
    STELE_LEADER_REACHED_EXPAND,
    STELE_LEADER_REACHED_SHRINK,
    STELE_LEADER_REACHED_RECOVER,
    STELE_LEADER_REACHED_SYNCED, /* told that all that counts is on disks since flush.before.ack was switched on */
    STELE_LEADER_REACHED_EXPAND_LATER, /* by a look that no fetch of the follower caused */
    STELE_LEADER_REACHED_CHANGE_DONE,
    STELE_LEADER_REACHED_CHANGE_REFUSED,
    STELE_LEADER_REACHED_CHANGE_OPEN, /* stays pending until metadata */
    STELE_LEADER_REACHED_CHANGE_RESENT,
    STELE_LEADER_REACHED_CHANGE_REPLACED, /* metadata took its place */
    STELE_LEADER_REACHED_UNDER_MIN,       /* the high watermark stood still for it */
    STELE_LEADER_REACHED_JOINER_WAITED,   /* the high watermark waited for one about to join */
    STELE_LEADER_REACHED_SYNC_WAITED,     /* for a sync alone */
    STELE_LEADER_REACHED_SWITCHED_ON,     /* an acknowledgement waited for a sync below the high watermark */
    STELE_LEADER_REACHED_AFTER_APPEND,
    STELE_LEADER_REACHED_OTHER_EPOCH,    /* a waiting produce of an earlier leadership */
    STELE_LEADER_REACHED_OFFSET_UNKNOWN, /* OFFSET_NOT_AVAILABLE */
    STELE_LEADER_REACHED_COUNT
};

struct stele_leader {
    int32_t node_id;
    int64_t node_epoch; /* of this node's registration */
    struct stele_leader_settings settings;
    struct stele_log_view log; /* of the last event */
    bool is_leading;
    int32_t leader_epoch, partition_epoch;
    int64_t epoch_start_offset;
    int64_t high_watermark;
    int64_t now_ms;

    struct stele_node_set replicas;
    struct stele_leader_replica followers[STELE_REPLICAS_MAX]; /* in the order of `replicas` */

    struct stele_node_set isr; /* committed */
    bool is_recovering;
    bool is_unsynced; /* as the metadata has it, until the controller has taken the wish to say otherwise */
    bool has_elr;     /* as the metadata has it: others than the ISR may lead */
    enum stele_isr_state isr_state;
    struct stele_isr_change change;  /* unless COMMITTED */
    bool is_change_open;             /* its answer told nothing: wait for metadata */
    int64_t resend_ms;               /* INT64_MAX: its answer is awaited */
    int64_t scan_ms, retry_after_ms; /* the next look for laggards; no new change before */
    int32_t expand_from;             /* index of the replica that is looked at first: no refused one starves others */
    int32_t min_isr_floor;           /* 0: none */
    uint64_t last_change_id;

    uint64_t reached; /* bits of enum stele_leader_reached, for tests */
};

enum stele_leader_event_kind {
    STELE_LEADER_LEAD,     /* metadata: this node leads, or leads on, in this state */
    STELE_LEADER_RESIGN,   /* it does not any more: metadata, removal, a failed disk */
    STELE_LEADER_FETCH,    /* a follower's fetch, the first time it is looked at */
    STELE_LEADER_LOG,      /* appended, synced, or the start was raised */
    STELE_LEADER_NODES,    /* the image says something new of nodes */
    STELE_LEADER_SETTINGS, /* changed */
    STELE_LEADER_ISR_ANSWER,
    STELE_LEADER_TICK, /* the deadline */
};

/** Pointers are borrowed for the call. */
struct stele_leader_event {
    enum stele_leader_event_kind kind;
    int64_t now_ms; /* monotonic */
    struct stele_log_view log;
    const struct stele_partition_state *state; /* LEAD: its leader is this node. RESIGN: what ended it, or NULL */
    const struct stele_node_status *nodes;     /* LEAD: of the replicas; those missing are not there. NODES: as told */
    int32_t node_count;
    int32_t fetcher_id; /* FETCH, as the next three */
    int64_t fetcher_epoch;
    struct stele_fetch_line line;
    struct stele_epoch_end epoch_end; /* of line.last_fetched_epoch, by this log's epoch index */
    bool is_at_first_batch; /* line.fetch_offset is below the start, where the batch begins that holds the start */
    struct stele_leader_settings settings;
    struct stele_isr_answer isr_answer;
};

struct stele_leader_update {
    bool has_epoch_start; /* put (leader_epoch, epoch_start_offset) into the epoch index, though nothing is appended */
    int32_t leader_epoch;
    int64_t epoch_start_offset;
    bool has_high_watermark; /* it moved, or was taken over */
    int64_t high_watermark;
    bool has_isr_change;
    struct stele_isr_change isr_change;
    struct stele_fetch_answer answer; /* FETCH */
    bool wakes_waiters;               /* produces, deletions, consumers' fetches: look again */
    bool wakes_fetches;               /* parked fetches of followers: look again (stele_leader_wakes_fetch) */
    int64_t deadline_ms;              /* TICK then; INT64_MAX: no need */
};

/** Does not lead yet. One machine lives as long as the replica in this life of the node, also while it follows. */
void stele_leader_init(struct stele_leader *leader, int32_t node_id, int64_t node_epoch,
                       const struct stele_leader_settings *settings);
void stele_leader_step(struct stele_leader *leader, const struct stele_leader_event *event,
                       struct stele_leader_update *out_update);
/** Asserts the invariants. */
void stele_leader_check(const struct stele_leader *leader);

/** How many replicas must be in sync: min.insync.replicas, but no more than there are. */
int32_t stele_leader_min_isr(const struct stele_leader *leader);

/** Whether a produce may be appended. Errors: NOT_LEADER_OR_FOLLOWER, INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS. */
STELE_MUST_CHECK enum stele_err stele_leader_admits(const struct stele_leader *leader, int32_t acks);

/** How far an acknowledged batch had got (the numbers of the wire's enum stele_durability). */
enum stele_ack_level {
    STELE_ACK_NONE = 0,
    STELE_ACK_WRITTEN = 1,    /* in the leader's page cache */
    STELE_ACK_REPLICATED = 2, /* in the page caches of all that may lead, at least min.insync.replicas */
    STELE_ACK_SYNCED = 3,     /* on the disks of these */
};

/** An appended batch that waits. Of one that is a duplicate, `required_offset` is the original's. */
struct stele_produce_wait {
    int32_t leader_epoch;    /* in which it was appended: offsets of another say nothing (1.3.8) */
    int32_t acks;            /* -1, 0, 1 */
    int64_t required_offset; /* its last offset + 1 */
};

struct stele_produce_outcome {
    bool is_pending;
    enum stele_err err; /* OK, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND */
    enum stele_ack_level level;
};

/** acks=1 and 0 wait for this node's own sync with flush.before.ack, otherwise for nothing. */
struct stele_produce_outcome stele_leader_produce_outcome(struct stele_leader *leader,
                                                          const struct stele_produce_wait *wait);

/** Looks at a fetch without believing it: a consumer's (`fetcher_id` < 0), or a parked one again. Errors, in this
 * order: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST (a replica that hides its
 * epochs), UNKNOWN_LEADER_EPOCH (not yet a replica), NOT_LEADER_OR_FOLLOWER (of an earlier life of the node),
 * OFFSET_OUT_OF_RANGE; with OK perhaps diverging. */
struct stele_fetch_answer stele_leader_look(struct stele_leader *leader, const struct stele_leader_event *fetch);
/** Whether a parked fetch is to be answered whatever its bytes: an error, divergence, a cut, a high watermark that the
 * follower asked for. */
bool stele_leader_wakes_fetch(struct stele_leader *leader, const struct stele_leader_event *fetch);

/** Whether a replica is in sync, or will be if the change under way is made. */
bool stele_leader_is_in_sync(const struct stele_leader *leader, int32_t node_id);

/** The offset that a question for the latest may be answered with. Errors: NOT_LEADER_OR_FOLLOWER; OFFSET_NOT_AVAILABLE
 * while a new leader cannot know how far its predecessor had got (KIP-207). */
STELE_MUST_CHECK enum stele_err stele_leader_latest_offset(struct stele_leader *leader, int64_t *out_offset);

/** The new start that a deletion up to `offset` (-1: the high watermark) asks for. Errors: NOT_LEADER_OR_FOLLOWER,
 * OFFSET_OUT_OF_RANGE. */
STELE_MUST_CHECK enum stele_err stele_leader_delete_to(const struct stele_leader *leader, int64_t offset,
                                                       int64_t *out_start_offset);
/** The smallest start of all replicas that live; -1 while one's is not known. A deletion is done when it reaches it. */
int64_t stele_leader_low_watermark(const struct stele_leader *leader);

/** Who should serve a consumer of `rack` that reads from `offset` (KIP-392): a replica in sync in its rack that has the
 * offset, the one with the most; this node when it is of that rack or none is. */
int32_t stele_leader_read_replica(const struct stele_leader *leader, uint32_t rack, int64_t offset);

#endif
