/* A model world for the quorum's machine: nodes with logs of (epoch, payload), disks, clocks that drift, a network that
 * delays, loses, doubles, reorders and cuts. One seed is one run; nothing in it is real, so thousands of seeds pass in
 * seconds. Invariants K1 to K18 and K22 are looked at after every event; the first that is broken is `broken`. */
#ifndef STELE_REPLICATION_TEST_QUORUM_WORLD_H
#define STELE_REPLICATION_TEST_QUORUM_WORLD_H

#ifndef STELE_MUTATIONS
#define STELE_MUTATIONS
#endif
#include "base/prng.h"
#include "replication/quorum_internal.h"

enum {
    WORLD_NODES = 8,
    WORLD_LOG = 16384,
    WORLD_SETS = 1024,
    WORLD_EPOCHS = 4096,
    WORLD_SNAPSHOTS = 4,
    WORLD_QUEUE = 256,
    WORLD_MESSAGES = 2048,
    WORLD_EVENTS = 8192,
    WORLD_PARKED = 16,
    WORLD_RECORDS = 8,   /* in one fetch answer */
    WORLD_PIECES = 3,    /* of a snapshot */
    WORLD_UNIQUE = 65536 /* slots of the table of (offset, epoch) */
};

struct world_entry {
    int32_t epoch;
    uint32_t payload; /* unique in the run */
    int32_t voters;   /* index of the set in a voters record; -1: other record */
};

struct world_snapshot {
    struct stele_snapshot_id id;
    struct stele_voters voters;
    uint64_t hash; /* of all records below its end */
};

/* A request or an answer on its way, or a thing that happens to a node. */
enum world_kind {
    WORLD_FREE,
    WORLD_REQUEST,
    WORLD_ANSWER,
    WORLD_CLOSED,
    WORLD_TIMER,
    WORLD_PERSISTED,
    WORLD_SYNCED,
    WORLD_INSTALLED,
    WORLD_UNPARK,
    WORLD_APPENDED, /* reports of the owner */
    WORLD_TRUNCATED,
    WORLD_UNUSABLE,
    WORLD_CHANGE,
    WORLD_RESIGN,
    WORLD_STOP,
    WORLD_RESTART,
    WORLD_WORK, /* of the world, no node's */
    WORLD_FAULT
};

struct world_message {
    struct stele_quorum_request request;
    struct stele_quorum_answer answer;
    struct world_entry entries[WORLD_RECORDS];
    struct world_snapshot snapshot;
    int64_t base_offset;
    int32_t count;
    bool is_used;
};

struct world_event {
    int64_t at_us;
    uint64_t sequence;
    enum world_kind kind;
    int32_t node, from; /* from: the peer */
    uint32_t life;      /* of `node`, for what concerns only this life; 0: any */
    int32_t message;    /* -1: none */
    int64_t value;      /* offset, or sequence of a timer */
    struct stele_replica_key key;
    enum stele_quorum_change_kind change;
};

struct world_parked {
    struct stele_quorum_request request;
    uint32_t life; /* of the follower */
    int32_t from;
    int64_t until_us;
    bool is_used;
};

struct world_node {
    int32_t id;
    struct stele_uuid directory;
    bool is_alive, is_busy, is_founder, is_lost; /* lost: never comes back */
    uint32_t life;
    int32_t rate_permille; /* of its clock */

    struct stele_quorum quorum;
    struct stele_quorum_update pending; /* while it persists */

    /* the disk */
    bool has_election;
    struct stele_election_state election;
    struct world_entry entries[WORLD_LOG];
    int64_t log_start, end, synced;
    int32_t base_epoch; /* of the last record below the log's start */
    uint64_t base_hash;
    struct world_entry tail[WORLD_LOG]; /* cut off, and not yet synced away: may come back after a crash */
    int64_t tail_end;
    struct world_snapshot snapshots[WORLD_SNAPSHOTS];
    int32_t snapshot_count;

    /* the process */
    int64_t sync_end;  /* of the sync that runs; -1: none */
    int64_t applied;   /* by its state machine */
    uint64_t hash;     /* of what is applied */
    int64_t eager_end; /* a leader's controller is ahead of what is committed */
    uint64_t eager_hash;
    struct world_snapshot download;
    struct world_event queue[WORLD_QUEUE];
    int32_t queue_head, queue_count;
    struct world_event reports[WORLD_RECORDS + 4];
    int32_t report_count;
    uint64_t timer_sequence;
    int64_t timer_us; /* the timer that is set; INT64_MAX: none */
    struct world_parked parked[WORLD_PARKED];

    /* the ghost's notes */
    struct stele_replica_key votes[WORLD_EPOCHS]; /* node_id -1: none */
    int64_t seen_high_watermark;
    bool has_new_voters; /* the log's latest set may be another one */
};

struct world_faults {
    int32_t crash, partition, close, wipe, stop, resign, change; /* chance in 1000 each tick; 0: off */
    int32_t loss, duplicate, unusable;                           /* chance in 1000 for each message */
    int32_t crash_inside;                                        /* chance in 10000 at each border inside an update */
    int32_t delay_max_us, sync_max_us, persist_max_us, late_max_us; /* late: timers */
    int32_t drift_permille;
    bool has_snapshots;
};

struct world {
    uint64_t seed;
    struct stele_prng prng;
    struct stele_quorum_settings settings;
    struct world_faults faults;
    int64_t now_us, work_us;
    uint64_t sequence, events, hash;
    struct world_node nodes[WORLD_NODES];
    int32_t node_count, founder_count;
    struct stele_voters founders;
    bool is_blocked[WORLD_NODES][WORLD_NODES]; /* from, to */
    struct world_event heap[WORLD_EVENTS];
    int32_t heap_count;
    struct world_message messages[WORLD_MESSAGES];
    int32_t message_hint;
    struct stele_voters sets[WORLD_SETS];
    int32_t set_count;
    uint32_t payload;
    uint64_t directory;

    /* the ghost */
    struct world_entry committed[WORLD_LOG];
    uint64_t committed_hash[WORLD_LOG + 1]; /* of all below */
    int32_t committed_in[WORLD_LOG];        /* the epoch in which it was */
    int64_t committed_end, committed_records;
    int32_t leaders[WORLD_EPOCHS]; /* node of each epoch, -1 */
    struct stele_uuid leader_directories[WORLD_EPOCHS];
    struct {
        int64_t offset;
        int32_t epoch;
        uint32_t payload;
    } unique[WORLD_UNIQUE];
    struct {
        struct stele_uuid directory;
        int64_t synced;
    } retired[64]; /* disks that were wiped, and how much they held */
    int32_t retired_count;
    uint64_t reached;
    int64_t elections, truncations, installs, crashes, wipes, changes;
    const char *broken;
    char detail[256];
};

/** `voters` founders and `observers` beside them, all started, no faults, short delays. */
void world_init(struct world *world, uint64_t seed, int32_t voters, int32_t observers);
/** Handles events until `until_us` or until something is broken. False: broken. */
bool world_run(struct world *world, int64_t until_us);
bool world_run_ms(struct world *world, int64_t ms);
/** Takes the next event; false: broken. */
bool world_step(struct world *world);

void world_crash(struct world *world, int32_t node);
void world_start(struct world *world, int32_t node);
/** The node must be down: an empty disk with another directory id. */
void world_wipe(struct world *world, int32_t node);
void world_schedule(struct world *world, const struct world_event *event, int64_t delay_us);
void world_change(struct world *world, int32_t leader, enum stele_quorum_change_kind kind,
                  const struct stele_replica_key *key);
/** One record at a leader that is idle; false: it is not. */
bool world_append(struct world *world, int32_t node);
/** All messages of `node` are lost from or to the others. */
void world_isolate(struct world *world, int32_t node, bool from, bool to);
void world_heal(struct world *world);
void world_snapshot(struct world *world, int32_t node, int64_t end_offset);
void world_log_start(struct world *world, int32_t node);
struct stele_replica_key world_key(const struct world *world, int32_t node);
/** The live leader of the highest epoch; -1: none. */
int32_t world_leader(const struct world *world);
void world_break(struct world *world, const char *invariant, const char *format, ...) STELE_PRINTF(3, 4);

/* quorum_world_log.c */
struct world_entry *world_entry(struct world_node *node, int64_t offset);
int32_t world_last_epoch(const struct world_node *node);
struct stele_epoch_end world_epoch_end(struct world_node *node, int32_t epoch);
void world_log_append(struct world *world, struct world_node *node, const struct world_entry *entry);
void world_log_truncate(struct world *world, struct world_node *node, int64_t end_offset);
void world_log_crash(struct world *world, struct world_node *node);
int32_t world_history(struct world *world, struct world_node *node, struct stele_voters_at *out_history);
uint64_t world_mix(uint64_t hash, const struct world_entry *entry);

/* quorum_world_check.c */
void world_check_node(struct world *world, struct world_node *node);
void world_check_commit(struct world *world, struct world_node *node);
void world_check_send(struct world *world, struct world_node *node);
void world_check_answer(struct world *world, struct world_node *node, const struct stele_quorum_request *request,
                        const struct stele_quorum_answer *answer);
void world_check_leader(struct world *world, struct world_node *node);
void world_check_truncate(struct world *world, struct world_node *node, int64_t end_offset);
void world_check_voters(struct world *world, struct world_node *node, const struct stele_voters *voters);
void world_check_unique(struct world *world, int64_t offset, const struct world_entry *entry);

#endif
