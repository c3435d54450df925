/* A model world for the machines of one partition: replicas with model logs, a metadata log that reaches each node in
 * its own time, a controller made of replication/election.h, producers, consumers, and faults. Everything is drawn from
 * one seed; time is in milliseconds.
 *
 * The pieces: partition_log.c (logs), partition_node.c (the owner of the machines: carries out their updates),
 * partition_controller.c, partition_clients.c, partition_check.c (what must hold, facts 8.1 and 8.2),
 * partition_faults.c, partition_run.c (events, one seed), partition_sim.c (many seeds), test_partition_scenarios.c. */
#ifndef STELE_REPLICATION_TEST_PARTITION_WORLD_H
#define STELE_REPLICATION_TEST_PARTITION_WORLD_H

#include <setjmp.h>

#include "base/prng.h"
#include "replication/alter_partition.h"
#include "replication/follower.h"
#include "replication/leader.h"

enum {
    PW_NODES_MAX = 5,
    PW_LOG_MAX = 8192, /* offsets of a run */
    PW_EPOCHS_MAX = 512,
    PW_META_MAX = 8192,
    PW_EVENTS_MAX = 2048,
    PW_FETCH_MAX = 32, /* records of an answer */
    PW_WAITS_MAX = 64,
    PW_PRODUCERS = 4,
    PW_CONSUMERS = 2,
    PW_ORIGINS = 6,
    PW_CONTROLLER = PW_NODES_MAX /* as an end of a link */
};

struct pw_record {
    int32_t epoch, producer, seq;
    int32_t batch_base, batch_end; /* offsets */
};

struct pw_epoch {
    int32_t epoch;
    int64_t start_offset;
};

struct pw_log {
    int64_t start, end, synced, hw;
    int64_t checkpoint_hw;
    struct pw_record records[PW_LOG_MAX];
    struct pw_epoch epochs[PW_EPOCHS_MAX];
    int epoch_count;
};

enum pw_event_kind {
    PW_FETCH,
    PW_FETCH_ANSWER,
    PW_FETCH_LOST,
    PW_FOLLOWER_DUE,
    PW_PARK_END,
    PW_ALTER,
    PW_ALTER_ANSWER,
    PW_LEADER_TICK,
    PW_SYNC_DONE,
    PW_EVALUATE,
    PW_META,
    PW_REGISTER,
    PW_REGISTER_ANSWER,
    PW_HEARTBEAT_SEND,
    PW_HEARTBEAT,
    PW_SESSIONS,
    PW_HOUSEKEEPING,
    PW_START,
    PW_PRODUCE_SEND,
    PW_PRODUCE,
    PW_PRODUCE_ANSWER,
    PW_CONSUME,
    PW_FAULT,
    PW_KIND_COUNT
};

struct pw_event {
    int64_t time;
    uint64_t order;
    enum pw_event_kind kind;
    int node;             /* where it happens; or the client */
    uint32_t incarnation; /* of that node's process; 0: any */
    int from;
    int64_t number;
    struct stele_follower_question question;
    int64_t fetcher_epoch;
    struct stele_fetch_answer answer;
    struct pw_record records[PW_FETCH_MAX];
    int64_t base_offset; /* of the records */
    int record_count;
    bool is_lazy; /* the bytes are read when they arrive (sendfile) */
    uint32_t from_incarnation;
    struct stele_isr_change change;
    struct stele_isr_answer isr_answer;
    int32_t seq, count, acks, attempt;
    enum stele_err err;
    int64_t offset;
    enum stele_ack_level level;
};

struct pw_wait {
    struct stele_produce_wait wait;
    int producer;
    int32_t attempt, seq, count;
};

struct pw_parked {
    bool is_parked;
    struct stele_follower_question question;
    int64_t fetcher_epoch, fetch_id;
    uint32_t from_incarnation;
};

struct pw_node {
    int id;
    bool is_up, is_acting;                       /* acting: registered in this life, metadata applied up to that */
    bool has_lost_tail, has_lost_disk, is_clean; /* for the next registration */
    uint32_t incarnation;
    int64_t node_epoch, registered_at; /* metadata offset */
    int64_t clock_rate, clock_offset;
    struct pw_log log;
    bool has_replica;
    bool leads;
    struct stele_leader leader;
    struct stele_follower follower;
    int meta_applied;
    struct stele_node_status statuses[PW_NODES_MAX];
    struct stele_partition_state state; /* as applied */
    struct pw_wait waits[PW_WAITS_MAX];
    int wait_count;
    bool is_evaluating;
    struct pw_parked parked[PW_NODES_MAX];
    int64_t fetch_id, pending_fetch; /* 0: none */
    bool is_syncing;
    int64_t sync_target;
    int64_t leader_tick, follower_tick; /* scheduled */
    int64_t last_alter_arrival;
    int32_t last_seq[PW_PRODUCERS];
    int64_t last_end[PW_PRODUCERS];
    int64_t damaged_until;               /* ghost: until then a wish may be under way that names it damaged */
    int64_t verified_end;                /* ghost: below it the log was compared with what is committed */
    uint32_t leadership;                 /* ghost: count of leaderships */
    int64_t led_hw;                      /* ghost: for D9 */
    bool fetched_in_epoch[PW_NODES_MAX]; /* ghost: D18 */
};

struct pw_meta {
    bool is_state;
    struct stele_partition_state state;
    struct stele_node_status status;
};

struct pw_registered {
    struct stele_node_status status;
    int64_t session_end;
    uint32_t incarnation;
};

struct pw_producer {
    int32_t acks;
    int32_t seq, count; /* of the batch under way */
    int32_t attempt;
    int target;
    bool is_busy;
    bool has_answer; /* scripted: what the last one was */
    enum stele_err answer_err;
    enum stele_ack_level answer_level;
};

struct pw_acked {
    int64_t offset;
    int32_t producer, seq;
    int32_t acks;
    enum stele_ack_level level;
};

struct pw_consumer {
    int64_t position;
};

/** What a run is made of; drawn from its seed or written by a scenario. */
struct pw_config {
    int node_count, replica_count;
    int32_t min_isr;
    bool is_flush;
    bool is_tainted; /* faults that may lose, and forced elections */
    int32_t lag_ms, backoff_ms, session_ms;
    int64_t fault_end_ms;
    int delay_max_ms, meta_delay_max_ms, sync_max_ms, evaluate_max_ms;
    int loss, duplicates; /* of 1000 messages */
    int lazy;             /* of 100 answers */
    int fault_every_ms;
    bool has_kill, has_power, has_wipe, has_partition, has_clean, has_reassign, has_retention, has_alter_trouble,
        has_drift, has_burst, has_damage, has_rebalance;
    int64_t record_limit;
};

struct pw_stats {
    uint64_t events, acked, elections, cuts, isr_changes, kills, powers, wipes, partitions, reassigns, unclean,
        restarts;
    uint64_t leader_reached, follower_reached;
};

struct pw_world {
    uint64_t seed;
    struct pw_config config;
    struct stele_prng prng, fault_prng;
    int64_t now;
    uint64_t order, hash;
    bool is_verbose, is_scripted;
    struct pw_event events[PW_EVENTS_MAX];
    int free_events[PW_EVENTS_MAX];
    int free_count;
    int heap[PW_EVENTS_MAX];
    int heap_count;

    struct pw_node nodes[PW_NODES_MAX];
    bool is_blocked[PW_NODES_MAX + 1][PW_NODES_MAX + 1]; /* from, to */

    struct stele_partition_state state; /* the controller's */
    struct pw_registered registered[PW_NODES_MAX];
    struct pw_meta meta[PW_META_MAX];
    int meta_count;
    bool is_healed;

    struct pw_producer producers[PW_PRODUCERS];
    struct pw_consumer consumers[PW_CONSUMERS];
    struct pw_acked acked[PW_LOG_MAX];
    int acked_count;

    /* ghosts */
    struct pw_record committed[PW_LOG_MAX];
    int64_t committed_end, deleted_end;
    struct pw_record origins[PW_LOG_MAX][PW_ORIGINS];
    int64_t highest_end;
    int32_t epoch_leader[PW_META_MAX]; /* D1: who appended as leader in an epoch; -1 nobody */
    bool is_tainted;
    int64_t latest_offset; /* the largest that a question for the latest was answered with */
    int64_t restarts_of_log;

    struct pw_stats stats;
    jmp_buf failed;
    char failure[512];
};

/* partition_run.c */
void pw_fail(struct pw_world *world, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
void pw_say(struct pw_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct pw_event *pw_post(struct pw_world *world, enum pw_event_kind kind, int node, int64_t delay);
int64_t pw_draw(struct pw_world *world, int64_t low, int64_t high);
bool pw_chance(struct pw_world *world, int of_1000);
bool pw_step(struct pw_world *world);
void pw_run_until(struct pw_world *world, int64_t time);
void pw_init(struct pw_world *world, uint64_t seed, const struct pw_config *config);
void pw_begin(struct pw_world *world);
void pw_draw_config(uint64_t seed, struct pw_config *out_config);
/** One seed from its beginning to its end. False: `world->failure` says why. */
bool pw_run(struct pw_world *world, uint64_t seed, const struct pw_config *config);
/** A message from one end of a link to another: false when it is lost. The delay is drawn. */
bool pw_reaches(struct pw_world *world, int from, int to, int64_t *out_delay);
/** Faults end, everything comes back, and all must become well in bounded time (8.2). */
void pw_heal(struct pw_world *world);
void pw_settle(struct pw_world *world);

/* partition_log.c */
struct stele_log_view pw_log_view(const struct pw_log *log);
void pw_log_append(struct pw_world *world, struct pw_log *log, const struct pw_record *records, int64_t base,
                   int count);
void pw_log_assign(struct pw_log *log, int32_t epoch, int64_t offset);
void pw_log_cut(struct pw_log *log, int64_t offset);
void pw_log_restart(struct pw_log *log, int64_t offset);
void pw_log_raise_start(struct pw_log *log, int64_t offset);
struct stele_epoch_end pw_log_epoch_end(const struct pw_log *log, int32_t epoch);
void pw_log_recover(struct pw_world *world, struct pw_log *log, bool has_lost_power);
bool pw_record_equal(const struct pw_record *a, const struct pw_record *b);

/* partition_node.c */
void pw_node_event(struct pw_world *world, struct pw_event *event);
void pw_node_start(struct pw_world *world, int id);
void pw_node_stop(struct pw_world *world, int id, bool is_power, bool is_clean);
void pw_node_wipe(struct pw_world *world, int id);
void pw_node_apply(struct pw_world *world, struct pw_node *node, int until);
void pw_node_retention(struct pw_world *world, struct pw_node *node, int64_t offset);
int64_t pw_node_now(const struct pw_world *world, const struct pw_node *node);
enum stele_err pw_node_produce(struct pw_world *world, struct pw_node *node, const struct pw_event *event);

/* partition_controller.c */
void pw_controller_init(struct pw_world *world);
void pw_controller_event(struct pw_world *world, struct pw_event *event);
/** Works out a change under what the controller knows, and commits it when there is one. */
bool pw_controller_change(struct pw_world *world, const struct stele_partition_change *change);
void pw_controller_fence(struct pw_world *world, int id);
void pw_controller_forced(struct pw_world *world);

/* partition_clients.c */
void pw_client_event(struct pw_world *world, struct pw_event *event);
void pw_clients_begin(struct pw_world *world);

/* partition_check.c */
void pw_check_append(struct pw_world *world, struct pw_node *node, int64_t base, int64_t end);
void pw_check_watermark(struct pw_world *world, struct pw_node *node, int64_t old_hw);
void pw_check_state(struct pw_world *world, const struct stele_partition_state *old);
void pw_check_proposal(struct pw_world *world, struct pw_node *node, const struct stele_isr_change *change);
void pw_check_ack(struct pw_world *world, const struct pw_event *event);
void pw_check_node(struct pw_world *world, struct pw_node *node);
void pw_check_cut(struct pw_world *world, struct pw_node *node, int64_t offset);
void pw_check_read(struct pw_world *world, int64_t offset, const struct pw_record *record);
void pw_check_members(struct pw_world *world, int64_t from);
/** Nothing is left to do: the question that pw_check_end() asks in full. */
bool pw_is_well(const struct pw_world *world);
void pw_check_end(struct pw_world *world);
void pw_taint(struct pw_world *world);

/* partition_faults.c */
bool pw_may_lose(const struct pw_world *world, int id);
void pw_fault(struct pw_world *world);

#endif
