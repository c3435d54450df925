/* What goes into the machine of the metadata quorum and what comes out of it: requests and answers between nodes,
 * events, the update. Plain values; all of it is bounded. quorum.h has the rules of their use. */
#ifndef STELE_REPLICATION_QUORUM_EVENT_H
#define STELE_REPLICATION_QUORUM_EVENT_H

#include "replication/types.h"

enum {
    STELE_VOTERS_MAX = STELE_REPLICAS_MAX,
    STELE_QUORUM_SENDS_MAX = STELE_VOTERS_MAX + 1 /* one request for each other voter, one fetch */
};

/** The voters of the quorum. No node id is in it twice. */
struct stele_voters {
    struct stele_replica_key keys[STELE_VOTERS_MAX];
    int32_t count;
};

/** A voters record: in force for every log that ends above `offset`. -1: formed with the cluster and never yet in the
 * log. A snapshot's set has the offset before the snapshot's end. */
struct stele_voters_at {
    int64_t offset;
    struct stele_voters voters;
};

/** What must be on the disk, synced, before a node acts on it. */
struct stele_election_state {
    int32_t epoch;
    int32_t leader_id;              /* of this epoch; NO_NODE: not known */
    struct stele_replica_key voted; /* node_id NO_NODE: none in this epoch */
};

/** A snapshot holds all below `end_offset`; `epoch` is that of its last record. end_offset 0: none. */
struct stele_snapshot_id {
    int64_t end_offset;
    int32_t epoch;
};

enum stele_quorum_message {
    STELE_QUORUM_VOTE,
    STELE_QUORUM_BEGIN,
    STELE_QUORUM_END,
    STELE_QUORUM_FETCH,
    STELE_QUORUM_FETCH_SNAPSHOT
};

/** A request between nodes (Kafka's Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot). */
struct stele_quorum_request {
    enum stele_quorum_message kind;
    uint64_t generation; /* stays with the sender, who lays it beside the answer */
    struct stele_uuid cluster_id;
    struct stele_replica_key from, to; /* to.directory_id is zero in a fetch */
    int32_t epoch;
    union {
        struct {
            int32_t last_epoch;
            int64_t end_offset;
            bool is_pre_vote;
        } vote;
        struct stele_voters successors; /* END: preferred first */
        struct {
            int64_t offset;
            int32_t last_epoch;
        } fetch;
        struct {
            struct stele_snapshot_id id;
            int64_t position;
        } snapshot;
    } u;
};

enum stele_quorum_fetch_result {
    STELE_QUORUM_FETCH_VALID,      /* records from the offset on, which may be none yet: the owner may park it */
    STELE_QUORUM_FETCH_DIVERGING,  /* no records: truncate by `diverging` */
    STELE_QUORUM_FETCH_OF_SNAPSHOT /* no records: fetch `snapshot` first */
};

struct stele_quorum_answer {
    enum stele_quorum_message kind;
    uint64_t generation;
    int32_t from; /* the node that answers */
    enum stele_err err;
    int32_t epoch, leader_id; /* as the answering node knows them, with every error too */
    union {
        bool is_granted; /* VOTE */
        struct {
            enum stele_quorum_fetch_result result;
            int64_t high_watermark; /* -1: not known */
            struct stele_epoch_end diverging;
            struct stele_snapshot_id snapshot;
        } fetch;
        struct {
            struct stele_snapshot_id id;
            int64_t position, size_bytes; /* where the chunk begins; of the whole snapshot */
            int64_t chunk_bytes;
        } snapshot; /* filled by the owner of the leader when err is OK */
    } u;
};

enum stele_quorum_event_kind {
    STELE_QUORUM_TIMER,          /* deadline_ms of the last update has come */
    STELE_QUORUM_REQUEST,        /* a peer's request came; u.request. A fetch with u.request.view filled */
    STELE_QUORUM_ANSWER,         /* an answer came; u.answer */
    STELE_QUORUM_FETCH_UNUSABLE, /* the records of the answer that was to be appended are damaged or of a wrong epoch;
                                    or an installation failed */
    STELE_QUORUM_CLOSED,    /* the connection to u.node_id closed or could not be made: all requests on it are lost */
    STELE_QUORUM_APPENDED,  /* u.appended: the log grew, by what the update asked for or by the leader's own records */
    STELE_QUORUM_TRUNCATED, /* u.log_end: as the update asked for */
    STELE_QUORUM_REPLACED,  /* u.replaced: the snapshot is installed, the log is empty and begins at its end */
    STELE_QUORUM_SYNCED,    /* u.synced_offset: the log as it stands is synced below it */
    STELE_QUORUM_CHANGE,    /* u.change: add, remove or readmit a voter */
    STELE_QUORUM_RESIGN,    /* a leader gives up, for instance since its disk or its controller failed */
    STELE_QUORUM_STOP       /* the node stops cleanly: a leader gives up, nothing more is voted */
};

enum stele_quorum_change_kind {
    STELE_QUORUM_ADD_VOTER,
    STELE_QUORUM_REMOVE_VOTER,
    STELE_QUORUM_READMIT_VOTER /* a node that is a voter with another disk: removed, then added with this one, in two
                                  changes; an unknown outcome may leave it removed, to be added */
};

/** What the owner's log says of a fetch that came: the leader looks at it. */
struct stele_quorum_fetch_view {
    struct stele_epoch_end epoch_end; /* of the log for fetch.last_epoch (KIP-101) */
    int64_t log_start;
    struct stele_snapshot_id latest, oldest; /* complete snapshots; the one the cluster was formed with is none */
    bool is_parked;                          /* it was valid, waited, and is to be answered now: it is no new contact */
};

struct stele_quorum_event {
    enum stele_quorum_event_kind kind;
    int64_t now_ms;  /* monotonic */
    uint64_t random; /* fresh for each event */
    union {
        struct {
            struct stele_quorum_request request;
            struct stele_quorum_fetch_view view; /* FETCH only */
        } request;
        struct {
            struct stele_quorum_answer answer;
            int64_t records_end; /* FETCH, VALID: where the records that came end; the fetch's offset: none */
            struct stele_epoch_end epoch_end; /* FETCH, DIVERGING: the own log's answer for diverging.epoch */
        } answer;
        int32_t node_id;
        struct {
            int64_t end_offset;
            int32_t last_epoch;
            bool has_voters; /* the batch that ends at end_offset is a voters record */
            struct stele_voters_at voters;
        } appended;
        struct {
            int64_t end_offset;
            int32_t last_epoch;
        } log_end;
        struct {
            struct stele_snapshot_id id;
            struct stele_voters voters;
        } replaced;
        int64_t synced_offset;
        struct {
            enum stele_quorum_change_kind kind;
            struct stele_replica_key key;
        } change;
    } u;
};

enum stele_quorum_log_action {
    STELE_QUORUM_LOG_NONE,
    STELE_QUORUM_LOG_APPEND,           /* the records of this answer; then sync */
    STELE_QUORUM_LOG_TRUNCATE,         /* to truncate_to */
    STELE_QUORUM_LOG_SNAPSHOT_WRITE,   /* the chunk of this answer, at its position; at position 0 begin a new file */
    STELE_QUORUM_LOG_SNAPSHOT_INSTALL, /* write the chunk, sync, replace the log by the snapshot */
    STELE_QUORUM_LOG_LEAD              /* note the epoch in the epoch index at the log's end; append a leader change,
                                          then, if has_voters, the voters record; then sync */
};

/** What the owner has to do after a step, in this order; see quorum.h. */
struct stele_quorum_update {
    bool has_persist;
    struct stele_election_state persist;

    enum stele_quorum_log_action log;
    int64_t truncate_to;
    bool has_voters; /* append `voters` as a voters record; with LOG_LEAD or with LOG_NONE */
    struct stele_voters voters;
    bool is_leadership_lost; /* fail what waits for a commit (outcome unknown); go back to what is committed */

    struct stele_quorum_request sends[STELE_QUORUM_SENDS_MAX];
    int32_t send_count;

    bool has_answer; /* to the request of this event; a valid fetch may wait */
    struct stele_quorum_answer answer;
    bool has_change_refused; /* the change of this event; change_err says why */
    bool has_change_done;    /* the change under way ended, with change_err */
    enum stele_err change_err;

    bool has_role_changed; /* role, epoch or leader: look at parked fetches */
    bool has_high_watermark_moved;
    enum stele_err fatal; /* not OK: stop this node's quorum. CORRUPT: what is committed contradicts itself;
                             INVALID_VOTER_KEY: the disk has less of the log than it had acknowledged */
    int64_t deadline_ms;  /* feed TIMER then; INT64_MAX: never */
};

bool stele_voters_has(const struct stele_voters *voters, const struct stele_replica_key *key);
/** The voter with this node id, whatever its disk; -1: none. */
int32_t stele_voters_find_node(const struct stele_voters *voters, int32_t node_id);
bool stele_voters_equal(const struct stele_voters *a, const struct stele_voters *b);

#endif
