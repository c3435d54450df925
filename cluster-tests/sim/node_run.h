/* One run of sim_node: a machine with a node, programs with clients, and what is known of every record. node_model.c
 * judges, node_script.c is what the programs do, node_faults.c what happens to the machine, sim_node.c runs seeds. */
#ifndef STELE_SIM_NODE_RUN_H
#define STELE_SIM_NODE_RUN_H

#include "cluster-tests/sim/sim_client.h"
#include "cluster-tests/sim/sim_server.h"
#include "proto/record_batch.h"

enum { RUN_CLIENTS = 2, RUN_TOPICS_MAX = 3, RUN_PARTITIONS_MAX = 3, RUN_PRODUCERS_MAX = 4, RUN_VALUE_BYTES_MIN = 16 };

/* What the runs together must reach, beside the points of the world. */
#define RUN_POINTS(P)                                                                                                  \
    P(ACKED_WRITTEN, "acks of written records")                                                                        \
    P(ACKED_SYNCED, "acks of synced records")                                                                          \
    P(ACKED_NOT, "records sent without ack")                                                                           \
    P(DELIVERY_FAILED, "failed deliveries")                                                                            \
    P(RETRY, "retries")                                                                                                \
    P(DUPLICATE, "duplicates")                                                                                         \
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
    int32_t client, producer, topic, partition; /* partition -1: not known yet */
    int32_t bytes, deliveries, code;
    int32_t places; /* offsets that hold it at the end */
    bool is_read;
    int64_t timestamp, sent_us, offset;
};

/* A record that a power loss took, though somebody may have been told of it. */
struct run_cut {
    int64_t offset, tag;
};

struct run_partition {
    int topic, number;
    int64_t *tags; /* by offset; -1: not known */
    int64_t count, capacity;
    int64_t written_end, synced_end; /* promised to survive the process, the power */
    bool has_names;                  /* synced, of its directory and first segment */
    struct run_cut *cuts;
    int64_t cut_count, cut_capacity;
};

struct run_topic {
    char name[16];
    int partition_count;
    bool flushes_before_ack;
    int64_t segment_bytes; /* INT64_MAX: far away */
    struct stele_setting settings[8];
    char texts[8][24];
    bool is_created;
    struct run_partition partitions[RUN_PARTITIONS_MAX];
};

struct run_producer {
    struct run *run;
    struct run_client *owner;
    struct stele_producer *producer;
    int number, topic, acks;
    int64_t last_tag[RUN_PARTITIONS_MAX], last_offset[RUN_PARTITIONS_MAX];
    int64_t last_power[RUN_PARTITIONS_MAX]; /* power losses when it was */
};

struct run_consumer {
    struct stele_consumer *consumer;
    int64_t expected[RUN_PARTITIONS_MAX]; /* the next offset */
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
};

/* What may happen in this run. */
struct run_faults {
    struct sim_net_rates net;
    struct sim_disk_rates disk;
    int64_t death_us; /* mean time between deaths; 0: none */
    bool has_kills, has_power_losses, has_crashes_in_calls, has_stops;
    int64_t disk_us; /* mean time between disk faults */
    bool has_errors, has_full_disks;
    int64_t restart_us_max;
};

struct run {
    struct sim_world world;
    struct sim_server server;
    struct run_client clients[RUN_CLIENTS];
    struct run_topic topics[RUN_TOPICS_MAX];
    int topic_count, dir_count;
    bool has_many_consumers;
    struct run_record *records;
    int64_t record_count, record_capacity;
    struct stele_mem mem; /* the checker's */
    struct run_faults faults;
    int64_t calm_us; /* when the faults end */
    struct sim_event calm, death, restart, disk_fault, disk_heal;
    bool is_calm, is_flushed, must_restart;
    int flushed_count, done_count;
    bool has_listener;         /* the second client waits for the first one's last record */
    int64_t last_tag, last_us; /* that record, and when it was acknowledged; 0: not yet */
    /* since the last start that succeeded */
    bool power_was_lost, sync_failed;
    int64_t power_losses, power_lost_us;
    int64_t sync_failures_seen;
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
void model_read(struct run *run, int topic, const struct stele_record_view *record, int64_t power_at_assign);
/** A node told of an end offset; `power` losses and the promise when it was asked. */
struct model_asked {
    int64_t power, end;
};
struct model_asked model_ask(struct run *run, int topic, int partition);
void model_latest(struct run *run, int topic, int partition, const struct model_asked *asked, int64_t offset);
/** The first offset below `end`, up to which all is known, whose record has that time or a later one; -1: none. */
int64_t model_offset_at(struct run *run, int topic, int partition, int64_t time_ms, int64_t end);
/** The machine dies: what its disk holds, and what of that must stay. */
void model_death(struct run *run);
/** The node serves: what was promised is there, and nothing that was not. */
void model_ready(struct run *run);
void model_init(struct run *run);
void model_end(struct run *run);

/* Script, faults */

void script_run(struct sim_client *client);
void faults_draw(struct run *run);
void faults_begin(struct run *run);
void faults_stop(struct run *run);

static inline void run_reach(struct run *run, enum run_point point)
{
    run->reached[point]++;
}

#endif
