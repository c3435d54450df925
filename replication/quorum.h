/* The metadata quorum: Raft as KRaft has it, where followers pull (facts of Kafka's KIP-595, 853, 996). One machine for
 * voters and observers. It sees no record: it decides who leads, what may be believed of whom, and what is committed.
 *
 * How an owner drives it
 * 1. stele_quorum_start once, then stele_quorum_step for every event, one at a time. Every call gives an update.
 * 2. An update is carried out in this order: `persist` written and synced; then `log`, `has_voters` and
 *    `is_leadership_lost`; then `sends`; then `answer` and `change_done`. No other event is fed before the persisting
 *    is over. A failed persisting or append ends the node's quorum: nothing later in the update may happen.
 * 3. A change of the log is reported before any other event is fed: APPENDED once for each voters record and once for
 *    the end of what was appended, TRUNCATED. Only an installation takes its time: REPLACED (or FETCH_UNUSABLE) ends
 * it. Records that are damaged, that do not start at the fetch's offset, or whose epochs are below the log's last or
 *    above the machine's are not appended: FETCH_UNUSABLE.
 * 4. SYNCED speaks of the log as it stands: a sync that began before a truncation counts up to the truncation's end.
 * 5. A request gets its answer in the same step. A valid fetch that finds no record and an unchanged high watermark may
 *    wait; it is fed again with `is_parked` set when records came, the high watermark moved, the role changed or the
 *    wait is over. Records are read up to the end of the log, for observers too.
 * 6. An answer is laid beside the `generation` of its request; the machine drops what it no longer waits for.
 * 7. A leader's own records are appended only while role is LEADER and epoch the one expected; APPENDED tells of them.
 *    They are committed once high_watermark is above them, and the controller is active once is_epoch_committed.
 *
 * What a node holds to
 * 1. One leader an epoch: a vote is persisted before it is told, by node and disk, and stays for the epoch.
 * 2. A node that led an epoch never leads it again after a restart, nor votes for another in it (KAFKA-10527).
 * 3. A fetch tells of synced records only; a leader counts itself by what it synced, and only when it is a voter.
 * 4. The high watermark never goes back, and a leader moves it only above the start of its own epoch (KAFKA-12619).
 * 5. A voters record counts from its append on, and is undone with it. One change at a time, after the leader committed
 *    a record of its own epoch.
 * 6. A voter's disk that comes back with less than it acknowledged in the leader's epoch (an older copy, or it lost
 * what it had synced) is refused, and its node ends: its votes are as old. It comes again with an empty disk.
 * 7. Suspicion is harmless: whoever hears the leader refuses a pre-vote, and a refused pre-vote changes no epoch. */
#ifndef STELE_REPLICATION_QUORUM_H
#define STELE_REPLICATION_QUORUM_H

#include "replication/quorum_event.h"

enum {
    STELE_VOTERS_HISTORY_MAX = 8, /* two would do: all but the last record are committed */
    STELE_QUORUM_OBSERVERS_MAX = 64
};

enum stele_quorum_role {
    STELE_QUORUM_UNATTACHED,
    STELE_QUORUM_PROSPECTIVE,
    STELE_QUORUM_CANDIDATE,
    STELE_QUORUM_LEADER,
    STELE_QUORUM_FOLLOWER,
    STELE_QUORUM_RESIGNED
};

struct stele_quorum_settings {
    int32_t election_timeout_ms;     /* and up to as much again, drawn */
    int32_t fetch_timeout_ms;        /* a voter that hears nothing of its leader for so long asks for pre-votes */
    int32_t election_backoff_max_ms; /* after an election that was lost */
    int32_t request_timeout_ms;
    int32_t retry_backoff_ms, retry_backoff_max_ms; /* between fetches that fail */
    int32_t suspicion_delay_max_ms;                 /* drawn: from a closed connection to the leader to the pre-vote */
    int32_t observer_expiry_ms;
    int32_t catch_up_ms; /* a voter to be added had all of the log so long ago at most */
};

/** Kafka's defaults; what Kafka does not have: suspicion delay 50 ms, catch-up 10 s instead of an hour. */
struct stele_quorum_settings stele_quorum_settings_default(void);

struct stele_quorum_start {
    struct stele_quorum_settings settings;
    struct stele_uuid cluster_id;
    struct stele_replica_key self;
    bool has_election; /* the file was there */
    struct stele_election_state election;
    int64_t end_offset;     /* of the log, all of it synced; or of the newest snapshot */
    int32_t last_epoch;     /* 0: empty log and no snapshot */
    int64_t high_watermark; /* end of the newest snapshot, else 0 */
    struct stele_voters_at history[STELE_VOTERS_HISTORY_MAX]; /* the latest, oldest first */
    int32_t history_count;                                    /* 0: a new observer */
    struct stele_node_set peers;                              /* to ask for the leader while no voter is known */
    int64_t now_ms;
    uint64_t random;
};

/** What a leader knows of another replica. */
struct stele_quorum_progress {
    struct stele_replica_key key;
    int64_t synced_offset;  /* -1: not known in this epoch */
    int64_t contact_ms;     /* last fetch or snapshot fetch */
    int64_t end_at_contact; /* the leader's end then */
    int64_t caught_up_ms;   /* when it last had all of the log; -1: never */
};

/** To be embedded; read it, write it never. Offsets: appended >= synced, appended >= high_watermark. */
struct stele_quorum {
    struct stele_quorum_settings settings;
    struct stele_uuid cluster_id;
    struct stele_replica_key self;
    struct stele_node_set peers;

    enum stele_quorum_role role;
    struct stele_election_state election, persisted;
    bool is_stopping;

    int64_t appended_offset, synced_offset, high_watermark;
    int32_t last_epoch; /* of the log's last record */
    struct stele_voters_at history[STELE_VOTERS_HISTORY_MAX];
    int32_t history_count;

    int64_t role_deadline_ms;  /* election or fetch timer, by role */
    uint64_t generation;       /* last one given out */
    uint64_t round_generation; /* PROSPECTIVE, CANDIDATE */
    bool is_round_unsent, is_round_lost;
    uint32_t granted_mask, refused_mask; /* by place among the voters */
    int32_t lost_rounds;
    bool has_heard_leader;    /* FOLLOWER: an answer came, and no sign of the leader's end since */
    bool has_leader_resigned; /* it said so in this epoch */
    bool is_suspecting;       /* its connection closed, and no answer came since */

    /* LEADER; end_acked_mask and end_retry_ms: RESIGNED */
    int64_t epoch_start;
    bool is_epoch_committed;
    struct stele_quorum_progress voters[STELE_VOTERS_MAX]; /* by place among the voters, the own one unused */
    struct stele_quorum_progress observers[STELE_QUORUM_OBSERVERS_MAX];
    int32_t observer_count;
    int64_t begin_ms, end_retry_ms;
    uint32_t end_acked_mask;
    struct stele_voters successors;
    struct {
        bool is_pending, is_answered, has_next;
        int64_t offset; /* -1: not yet appended */
        int64_t deadline_ms;
        struct stele_replica_key next; /* readmission: to be added once the old disk is out */
    } change;

    struct {
        bool is_in_flight;
        uint64_t generation;
        int32_t to;
        int64_t retry_ms, expires_ms; /* when to send; when an answer comes too late */
        int64_t awaited_end;          /* the log is to be changed, to this end; -1: no */
        int32_t failures;
        int64_t leader_high_watermark; /* -1: not known */
        bool is_of_snapshot, is_installing;
        struct stele_snapshot_id snapshot;
        int64_t position;
    } fetch;

    int64_t now_ms;
    uint64_t random, reached;
};

/** Takes the state that survived. `out_update` as of a step: it may have something to persist and to send. */
void stele_quorum_start(struct stele_quorum *quorum, const struct stele_quorum_start *start,
                        struct stele_quorum_update *out_update);
void stele_quorum_step(struct stele_quorum *quorum, const struct stele_quorum_event *event,
                       struct stele_quorum_update *out_update);

/** The voters in force: those of the last record in the log. */
const struct stele_voters *stele_quorum_voters(const struct stele_quorum *quorum);
/** The voters in force for a log that ends at `offset`, for instance for a snapshot; NULL: older than what is kept. */
const struct stele_voters *stele_quorum_voters_at(const struct stele_quorum *quorum, int64_t offset);
bool stele_quorum_is_voter(const struct stele_quorum *quorum);
/** Asserts what must hold between two steps. */
void stele_quorum_check(const struct stele_quorum *quorum);

#endif
