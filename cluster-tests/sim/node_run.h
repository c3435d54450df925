/* One run of sim_node: a machine with a node, programs with clients, and what is known of every record. node_model.c
 * judges, node_script.c is what the programs do, node_faults.c what happens to the machine, sim_node.c runs seeds. */
#ifndef STELE_SIM_NODE_RUN_H
#define STELE_SIM_NODE_RUN_H

#include "cluster-tests/sim/sim_client.h"
#include "cluster-tests/sim/sim_server.h"
#include "proto/api.h"
#include "proto/record_batch.h"

enum {
    RUN_CLIENTS = 2,
    RUN_TOPICS_MAX = 3,
    RUN_PARTITIONS_MAX = 4,
    RUN_PRODUCERS_MAX = 4, /* of a client at a time */
    RUN_LIVES_MAX = 24,
    RUN_VALUE_BYTES_MIN = 16,
    RUN_TUNED = 6
};

/* What a client gave up may still arrive, for so long at most. */
enum { RUN_LATE_US = 30000000 };

/* What the runs together must reach, beside the points of the world. */
#define RUN_POINTS(P)                                                                                                  \
    P(ACKED_WRITTEN, "acks of written records")                                                                        \
    P(ACKED_SYNCED, "acks of synced records")                                                                          \
    P(ACKED_NOT, "records sent without ack")                                                                           \
    P(DELIVERY_FAILED, "failed deliveries")                                                                            \
    P(RETRY, "retries")                                                                                                \
    P(DUPLICATE, "duplicates without idempotence")                                                                     \
    P(ONCE, "records of idempotent producers")                                                                         \
    P(ONCE_FAILED, "of these failed and there once")                                                                   \
    P(ONCE_LOST_STATE, "of these failed by a forgotten sequence")                                                      \
    P(NEW_EPOCH, "produces under a new epoch")                                                                         \
    P(TOPIC_DELETED, "topics deleted")                                                                                 \
    P(TOPIC_AGAIN, "made again")                                                                                       \
    P(TOPIC_DELETED_LATE, "deleted by who gave up")                                                                    \
    P(TOPIC_GROWN, "grown")                                                                                            \
    P(PRODUCER_MOVED, "producers that went on in a new topic")                                                         \
    P(CONSUMER_STRANDED, "consumers told of a new topic")                                                              \
    P(RECORDS_DELETED, "deletions of records")                                                                         \
    P(BELOW_START, "reads below the start")                                                                            \
    P(RESET, "resets")                                                                                                 \
    P(ALTERED, "settings changed")                                                                                     \
    P(SETTING_KEPT, "settings found as they were set")                                                                 \
    P(REPLICA_MOVED, "replicas moved to another disk")                                                                 \
    P(MOVE_DROPPED, "moves that were given up")                                                                        \
    P(METADATA_SNAPSHOT, "snapshots of the metadata")                                                                  \
    P(PRODUCER_ID, "producer ids given")                                                                               \
    P(EXPIRED, "segments expired")                                                                                     \
    P(ROLL_TIME, "rolls by time")                                                                                      \
    P(CLIENT_DEATH, "clients that were dropped")                                                                       \
    P(CLOCK_STEP, "steps of clocks")                                                                                   \
    P(INDEX_ROT, "rotten indexes and snapshots")                                                                       \
    P(LOG_ROT, "rotten batches")                                                                                       \
    P(ROT_REPORTED, "found by starts")                                                                                 \
    P(ROT_TOLD, "told to readers")                                                                                     \
    P(ROT_DESCRIBED, "described")                                                                                      \
    P(NO_MEMORY, "allocations that failed")                                                                            \
    P(SYNCED_LOOKED_AT, "of these looked at on the disk")                                                              \
    P(KILL_AFTER_SYNC_FAILED, "kills after a failed sync")                                                             \
    P(RESYNC, "files written anew after it")                                                                           \
    P(READ, "records read")                                                                                            \
    P(COMPRESSED, "compressed batches")                                                                                \
    P(LATE_ACK, "acks from before a power loss")                                                                       \
    P(LATE_READ, "reads from before a power loss")                                                                     \
    P(OUT_OF_RANGE, "offsets out of range")                                                                            \
    P(TAIL_LOST, "tails lost with the power")                                                                          \
    P(RECOVERY, "recoveries that scanned")                                                                             \
    P(RECOVERY_CUT, "torn tails cut")                                                                                  \
    P(ROLL, "rolls")                                                                                                   \
    P(BUFFER_FULL, "sends refused at buffer.memory")                                                                   \
    P(ANSWER, "other answers")                                                                                         \
    P(FETCH_AT_ONCE, "fetches answered at once")                                                                       \
    P(FETCH_BY_APPEND, "parked ones by an append")                                                                     \
    P(FETCH_BY_DEADLINE, "by their deadline")                                                                          \
    P(LIST_OFFSETS, "list offsets")                                                                                    \
    P(CALL_FAILED, "calls that timed out")                                                                             \
    P(DISK_EIO, "disk errors")                                                                                         \
    P(DISK_FULL, "full disks")                                                                                         \
    P(LOG_OFFLINE, "logs taken offline")

enum run_point {
#define P(name, text) RUN_POINT_##name,
    RUN_POINTS(P)
#undef P
        RUN_POINT_COUNT
};

struct run;

struct run_record {
    int32_t producer, topic, partition; /* the producer's number in the run; partition -1: not known yet */
    int32_t bytes, deliveries, code;
    int32_t places; /* offsets that hold it at the end */
    bool is_read;
    bool is_once, is_dropped; /* of an idempotent producer; which was dropped before it told */
    int64_t timestamp, sent_us, offset;
    const struct run_life *life; /* of the topic, which the producer knew when it was sent */
};

/* A record that a power loss took, though somebody may have been told of it. */
struct run_cut {
    int64_t offset, tag;
};

/* A batch that rotted. */
struct run_rot {
    int64_t base_offset, last_offset, segment_base, pos, bytes;
};

struct run_partition {
    int number;
    int64_t *tags; /* by offset; -1: not known */
    int64_t count, capacity;
    int64_t written_end, synced_end; /* promised to survive the process, the power */
    int64_t start, start_asked;      /* promised to be deleted below; asked at most */
    int all_asked;                   /* deletions of all there is that may still come */
    bool has_names;                  /* synced, of its directory and first segment */
    int64_t start_seen;              /* on the disk */
    struct run_cut *cuts;
    int64_t cut_count, cut_capacity;
    struct run_rot *rots;
    int64_t rot_count, rot_capacity;
};

/* A topic from its making to its end: a name may have many. */
struct run_life {
    int topic;
    struct stele_uuid id;
    int64_t seen_us;     /* when somebody asked who was told of it first */
    int partition_count; /* that a node told of */
    bool must_be_gone;   /* a node said that it was deleted, */
    int64_t gone_us;     /* then */
    bool is_gone;        /* and a start found none of it */
    struct run_partition partitions[RUN_PARTITIONS_MAX];
};

/* What is known of a setting that is changed while data flows. */
struct run_tuned {
    bool is_sure;
    char value[24];
    int in_flight;
    int64_t changes, late_us; /* begun; one that was given up may come until then */
};

struct run_topic {
    char name[16];
    int partition_count; /* it is made with; it may grow */
    bool flushes_before_ack;
    int64_t segment_bytes; /* least ever; INT64_MAX: far away */
    int64_t retention_ms;  /* least ever; INT64_MAX: for ever */
    bool has_retention_bytes;
    struct stele_setting settings[12];
    char texts[12][24];
    bool is_created; /* as far as is known; it may be gone since */
    struct run_life *lives[RUN_LIVES_MAX];
    int life_count;
    int64_t changes; /* creations and deletions begun */
    int changing, deleting;
    int64_t late_us;    /* until then one that was given up may come */
    int64_t deleted_us; /* until then one may have been deleted; INT64_MIN: never */
    struct run_tuned tuned[RUN_TUNED];
};

struct run_producer {
    struct run *run;
    struct run_client *owner;
    struct stele_producer *producer;
    int number, topic, acks;
    bool is_once;
    bool has_failed[RUN_PARTITIONS_MAX]; /* a record was reported failed */
    const struct run_life *life;         /* of the reports below */
    int64_t last_tag[RUN_PARTITIONS_MAX], last_offset[RUN_PARTITIONS_MAX];
    int64_t last_power[RUN_PARTITIONS_MAX]; /* power losses when it was */
};

struct run_consumer {
    struct run_client *owner;
    int topic;
    struct stele_consumer *consumer;
    struct run_life *life;
    int64_t expected[RUN_PARTITIONS_MAX]; /* the next offset; -1: not assigned */
    int64_t power[RUN_PARTITIONS_MAX];    /* power losses at its assignment */
    int64_t since[RUN_PARTITIONS_MAX];    /* and when its place in the log was surely there */
};

struct run_client {
    struct run *run;
    int number;
    struct sim_client sim;
    struct stele_prng prng;
    struct run_producer producers[RUN_PRODUCERS_MAX + 1]; /* the last is for the end */
    struct run_consumer consumers[RUN_TOPICS_MAX];
    int32_t records_left;
    int read_topic;
    struct run_life *asked[RUN_TOPICS_MAX]; /* whose offsets it last asked for, or records deleted */
    int64_t sent[64];                       /* requests by api */
    struct {
        uint64_t correlation_id;
        int64_t at_us;
    } metadata[1024]; /* the last requests for it; an answer may be late */
};

/* What may happen in this run. */
struct run_faults {
    struct sim_net_rates net;
    struct sim_disk_rates disk;
    int64_t death_us; /* mean time between deaths; 0: none */
    bool has_kills, has_power_losses, has_crashes_in_calls, has_stops;
    int64_t disk_us; /* mean time between disk faults */
    bool has_errors, has_full_disks, has_rot;
    bool has_clock_steps, has_client_deaths, has_topic_deaths, has_tuning;
    uint32_t no_memory; /* allocations of the node, per million */
    int64_t restart_us_max;
};

struct run {
    struct sim_world world;
    struct sim_server server;
    struct run_client clients[RUN_CLIENTS];
    struct run_topic topics[RUN_TOPICS_MAX];
    int topic_count, dir_count, producer_count;
    struct run_record *records;
    int64_t record_count, record_capacity;
    struct stele_mem mem; /* the checker's */
    struct run_faults faults;
    int64_t calm_us; /* when the faults end */
    struct sim_event calm, death, restart, disk_fault, disk_heal, clock;
    bool is_calm, is_flushed, must_restart;
    int flushed_count, done_count;
    bool has_listener;         /* the second client waits for the first one's last record */
    int64_t last_tag, last_us; /* that record, and when it was acknowledged; 0: not yet */
    int64_t started_us;        /* when the node served last */
    int64_t skew_max_ms;       /* of the node's clock, ever */
    /* since the last start that succeeded */
    bool power_was_lost, sync_failed, all_failed;
    int64_t sync_failed_us[RUN_TOPICS_MAX][RUN_PARTITIONS_MAX]; /* of a log that was not opened anew since; 0: none */
    int64_t power_losses, power_lost_us;
    int64_t sync_failures_seen;
    int64_t *ids; /* of producers, that were given */
    int64_t id_count, id_capacity;
    uint64_t *batches; /* hashes of those sent, for retries */
    int64_t batch_count, batch_capacity;
    int64_t reached[RUN_POINT_COUNT];
};

/* Model */

/** The value of a record: its tag and bytes that follow from it. */
void model_value(int64_t tag, uint8_t *out_bytes, size_t bytes);
/** A delivery report: once, in order, and true. */
void model_delivered(struct run_producer *producer, const struct stele_delivery *delivery);
/** A record that a consumer was given. */
void model_read(struct run *run, struct run_life *life, const struct stele_record_view *record,
                int64_t power_at_assign);
/** A node told of an end offset; `power` losses and the promises when it was asked. */
struct model_asked {
    int64_t power;
    int64_t ends[RUN_LIVES_MAX], starts[RUN_LIVES_MAX]; /* by life */
    int life_count;
};
struct model_asked model_ask(struct run *run, int topic, int partition);
void model_latest(struct run *run, struct run_life *life, int partition, const struct model_asked *asked,
                  int64_t offset);
void model_earliest(struct run *run, struct run_life *life, int partition, const struct model_asked *asked,
                    int64_t offset);
/** May the log start above `offset` by now? */
bool model_may_start_above(const struct run *run, const struct run_life *life, int partition, int64_t offset);
/** The first offset of [start, end), of which all is known, whose record has that time or a later one; -1: none. */
int64_t model_offset_at(struct run_life *life, struct run *run, int partition, int64_t time_ms, int64_t start,
                        int64_t end);
/** The life of that id; a new one is seen now. */
struct run_life *model_life(struct run *run, int topic, const struct stele_uuid *id);
/** The topic of that id, which some name meant; NULL: none that is known. */
struct run_life *model_known_life(struct run *run, const struct stele_uuid *id);
/** A node's metadata, asked for at `asked_us` or later, names the topic: it is there. */
void model_shown(struct run *run, const struct stele_metadata_topic *shown, int64_t asked_us);
/** A node gives a producer id. */
void model_id(struct run *run, int64_t id);
/** May somebody have deleted it? */
bool model_may_be_gone(const struct run *run, const struct run_life *life);
/** A look at the disk that the disk does not notice; to be freed. */
struct sim_disk *model_look(struct run *run);
/** On such a copy: of two directories of a partition that moved the one that it is in has its name alone. */
void moves_settle(struct run *run, struct sim_disk *copy);
/** The machine dies: what its disk holds, and what of that must stay. */
void model_death(struct run *run);
/** The node serves: what was promised is there, and nothing that was not. */
void model_ready(struct run *run);
void model_init(struct run *run);
void model_end(struct run *run);

/* Rot: node_rot.c */

/** A batch of some log of the machine, which is down, rots. */
void rot_log(struct run *run, struct stele_prng *prng);
/** The rotten batch that holds the offset, that lies at this place; NULL: none. */
const struct run_rot *rot_find(const struct run_partition *partition, int64_t offset);
const struct run_rot *rot_at(const struct run_partition *partition, int64_t segment_base, int64_t pos);
/** Did all of [first, last] rot, in some life of the topic? */
bool rot_covers(const struct run *run, int topic, int partition, int64_t first, int64_t last);
/** The node traces damage. */
void rot_traced(struct run *run, const struct stele_trace_event *event);

/* Syncs: node_synced.c */

/** The disk failed to sync a file of the node. */
void synced_failed(struct sim_server *server, const char *path);
/** A log was opened. */
void synced_opened(struct run *run, const struct stele_trace_event *event);
/** The node answers producers; what it calls synced is. */
void synced_answered(struct run *run, const struct stele_produce_response *response);
/** A record is acknowledged. */
void synced_acked(struct run *run, const struct run_record *record, int partition);

/* Script: node_script.c is what a program does with records, node_admin.c with topics */

void script_run(struct sim_client *client);
/** True when the call succeeded; false when it failed as it may while there are faults. */
bool script_is_done(struct run_client *self, const struct stele_result *result, const char *call);
/** One of these at random. A topic that is not known to be there is made first. */
void admin_act(struct run_client *self);
bool admin_make(struct run_client *self, int topic);

void faults_draw(struct run *run);
void faults_begin(struct run *run);
void faults_stop(struct run *run);

/** "t0-1", or what begins with it and '/'. False: it is no partition's name. */
bool run_parse_place(const struct run *run, const char *name, int *out_topic, int *out_partition);
static inline bool run_chance(struct run_client *client, uint64_t numerator, uint64_t denominator)
{
    return stele_prng_chance(&client->prng, numerator, denominator);
}
static inline int64_t run_range(struct run_client *client, int64_t low, int64_t high)
{
    return stele_prng_range(&client->prng, low, high);
}
static inline void run_reach(struct run *run, enum run_point point)
{
    run->reached[point]++;
}

#endif
