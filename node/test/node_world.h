/* A node in a world of its own: one control shard and a few data shards, each with an env and a place in virtual time;
 * jobs, messages and the bytes of connections move in an order that a seed draws. What is kept is what a host keeps:
 * messages of one poster to one shard arrive in order, jobs of a lane run one after another, a connection is two
 * ordered pipes. Nothing moves but in node_world_run and what calls it.
 *
 * The node's memory and the world's are apart, so that node_world_crash can say that nothing was left behind. */
#ifndef STELE_NODE_TEST_NODE_WORLD_H
#define STELE_NODE_TEST_NODE_WORLD_H

#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"
#include "node/node.h"
#include "node/settings.h"
#include "proto/codec.h"
#include "proto/frame.h"
#include "proto/record_batch.h"

enum { NODE_WORLD_SHARDS_MAX = 4, NODE_WORLD_ENTRIES_MAX = 4096, NODE_WORLD_CONNS_MAX = 64 };

struct node_world;

struct node_queue { /* of tasks */
    struct stele_task *first, *last;
};

struct node_world_shard {
    struct stele_env env;
    struct stele_metrics metrics;
    struct stele_net net;
    struct node_world *world;
    int index;
    struct node_queue inbox[NODE_WORLD_SHARDS_MAX + 2]; /* by poster: shards, jobs, the test */
};

/** A client's end and the node's end of a connection. */
struct node_conn {
    struct node_world *world;
    int shard, index;
    const struct stele_conn_handler *handler;
    void *arg;
    bool is_up;     /* the node holds it */
    bool is_closed; /* by the node: what is queued still arrives */
    bool is_deaf;   /* the client takes no bytes */
    bool is_paused; /* the node gave no room */
    uint8_t *in;    /* on its way to the node: in_count bytes from in_at on */
    size_t in_at, in_count, in_capacity;
    struct stele_piece *pieces; /* on their way to the client */
    int piece_count, piece_capacity;
    size_t queued_bytes;
    uint8_t *out; /* with the client: out_count bytes from out_at on */
    size_t out_at, out_count, out_capacity;
    uint64_t sent_id, taken_id; /* correlation ids of the last request sent and the last answer taken */
};

/** A batch that was sent, and what came of it. Values are numbers that the whole world counts. */
struct node_entry {
    struct stele_uuid topic_id;
    int32_t partition;
    int conn; /* index */
    int acks;
    uint64_t correlation_id;
    int64_t value; /* of its first record; the others follow */
    int count;
    bool is_answered;
    enum stele_err err;
    int64_t offset;
    enum stele_durability durability;
    char message[256];
};

struct node_answer {
    struct stele_response response;
    const uint8_t *records; /* in the world's arena, as the response is */
    size_t records_bytes;
};

struct node_world {
    struct stele_test_mem mem; /* the node's */
    struct stele_test_mem own; /* the world's */
    struct sim_disk *disk;
    struct stele_settings *settings;
    struct stele_arena arena;
    struct stele_prng prng;
    bool is_calm; /* everything in the order in which it was asked for */
    int64_t mono_us, wall_ms;
    int64_t traces[STELE_TRACE_KIND_COUNT];
    void (*host_stats)(void *arg, struct stele_host_stats *out_stats);
    enum stele_err (*check_settings)(void *arg, const struct stele_settings *settings, struct stele_error *error);
    void (*settings_changed)(void *arg, const struct stele_settings *settings);
    int listener; /* by which the next connections come */

    struct stele_node *node;
    int shard_count; /* with the control shard */
    struct node_world_shard shards[NODE_WORLD_SHARDS_MAX];
    int poster; /* whose code runs now */
    struct stele_job **jobs;
    int job_count, job_capacity;
    bool holds_jobs;      /* no job runs */
    bool holds_free_jobs; /* none without a lane */

    bool is_ready, is_stopped, is_fatal;
    enum stele_err ready, stopped;
    struct stele_error ready_error, fatal_error;
    int exit_code;

    struct node_conn *conns[NODE_WORLD_CONNS_MAX];
    int conn_count;

    struct node_entry entries[NODE_WORLD_ENTRIES_MAX];
    int entry_count;
    int64_t next_value;
};

/** A world without a node: `data_shards` shards, an empty disk, log.dirs a and b, no reserve. */
struct node_world *node_world_new(uint64_t seed, int data_shards);
/** Crashes the node when there is one; fails the test when the world itself held memory. */
void node_world_free(struct node_world *world);
void node_world_set(struct node_world *world, const char *name, const char *value);

/** Makes a node and asks it to start; NO_MEMORY. node_world_start also runs it until it serves. */
enum stele_err node_world_begin(struct node_world *world);
void node_world_start(struct node_world *world);
/** Stops it, runs until it has stopped, frees it; the result of the stop. */
enum stele_err node_world_stop(struct node_world *world);
/** Drops connections and node where they stand, files too (mode), and checks that no memory and no file is left. */
void node_world_crash(struct node_world *world, enum sim_disk_crash_mode mode);
/** Frees a node that has stopped, failed to start, or is to be dropped without harm to the disk. */
void node_world_drop(struct node_world *world);

/** One movement; false when there is none to make. */
bool node_world_step(struct node_world *world);
/** Until nothing moves (and time stands). */
void node_world_run(struct node_world *world);
/** As run, and lets time pass: every deadline on the way is met. */
void node_world_pass(struct node_world *world, int64_t ms);
/** Time goes on and every shard's deadlines are met, but nothing else moves. */
void node_world_jump(struct node_world *world, int64_t ms);
int node_world_job_count(const struct node_world *world);

/** A connection that has said hello; NULL when the node took none. `connect` takes no greeting. */
struct node_conn *node_world_connect(struct node_world *world, int shard);
struct node_conn *node_world_greet(struct node_world *world, int shard);
/** The client or the world ends it. */
void node_conn_drop(struct node_conn *conn);
void node_conn_bytes(struct node_conn *conn, const void *bytes, size_t count);
/** Encodes and queues; `records` NULL: none. Returns the correlation id. */
uint64_t node_conn_send(struct node_conn *conn, struct stele_request *request, const uint8_t *records,
                        size_t records_bytes);
/** Takes the next answer that has wholly arrived; its order is checked. */
bool node_conn_poll(struct node_conn *conn, struct node_answer *out);
/** Runs the world, then the next answer must be there. */
void node_conn_take(struct node_conn *conn, struct node_answer *out);

/* Requests. */

struct node_shape {
    int count;          /* records, at least 1 */
    size_t value_bytes; /* padding included; at least 16 */
    enum stele_codec codec;
    int64_t producer_id; /* 0: none */
    int32_t sequence;
    int acks;
};

struct stele_buf *node_world_batch(struct node_world *world, const struct node_shape *shape, int64_t value);
enum stele_err node_conn_create_topic(struct node_conn *conn, const char *name, int32_t partitions,
                                      struct stele_uuid *out_topic_id);
void node_conn_send_create(struct node_conn *conn, const char *name, int32_t partitions,
                           const struct stele_setting_pair *settings, size_t setting_count);
/** Sends one batch to one partition and enters it. */
struct node_entry *node_conn_put(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition,
                                 const struct node_shape *shape);
/** Puts what an answer to a produce says into its entry. */
struct node_entry *node_world_enter(struct node_world *world, const struct node_conn *conn,
                                    const struct node_answer *answer);
/** One small record, acks -1, until answered. */
struct node_entry *node_conn_produce(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition);
void node_conn_send_fetch(struct node_conn *conn, const struct stele_fetch_request *request);
struct stele_fetch_partition node_fetch_at(const struct stele_uuid *topic_id, int32_t partition, int64_t offset);
void node_conn_send_list(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition,
                         int64_t timestamp);

/** Takes every answer that has arrived, entering produces; others are dropped. */
void node_world_drain(struct node_world *world);

/** Reads all of a partition over a connection, checks the batches, and fails the test unless every acknowledged record
 * (of those synced, when `only_synced`) is at its offset, no record is there twice, and none is there that was never
 * sent. Returns the end offset. */
int64_t node_world_check_partition(struct node_conn *conn, const struct stele_uuid *topic_id, int32_t partition,
                                   bool only_synced);
/** The value of a record of a batch of this world; -1 when it is none. */
int64_t node_record_value(const struct stele_record *record);

#endif
