/* The inside of a node, shared by the files of this folder.
 *
 * Shards: [0] control owns log directories, metadata log and image; [1] data owns partitions, connections and requests.
 * A shard's fields are used on its loop only; what crosses is a posted task (node.c: stele_node__send). */
#ifndef STELE_NODE_NODE_STRUCT_H
#define STELE_NODE_NODE_STRUCT_H

#include "base/list.h"
#include "base/timing_wheel.h"
#include "node/node.h"
#include "proto/codec.h"
#include "proto/metadata_record.h"
#include "storage/log_dirs.h"

#define STELE_METADATA_TOPIC_NAME "__cluster_metadata"

enum { STELE_DIRS_MAX = 64, STELE_TABLE_SLOTS = 4096 };

struct stele_topic {
    char *name;
    struct stele_uuid topic_id;
    int32_t partition_count;
    char **names, **values; /* its settings */
    int setting_count;
    bool is_new; /* made in this run: its partitions lie nowhere yet */
};

/* What the metadata log says: the control shard's. */
struct stele_image {
    struct stele_topic *topics; /* in order of creation */
    int count, capacity;
    char cluster_id[64];
};

struct stele_partition {
    struct stele_node *node;
    struct stele_list link;
    struct stele_partition *next_in_table;
    struct stele_uuid topic_id;
    int32_t number;
    char *topic;
    int dir;                        /* -1: on one that is offline */
    struct stele_log *log;          /* NULL: offline */
    struct stele_log_points points; /* of the checkpoints; they are kept while the log is offline */
    bool is_named;                  /* partition.metadata and the directory's name are synced */
    struct stele_list acks;         /* produces that wait for a sync, oldest first */
    struct stele_job flush_job;
    struct stele_log_flush *flush;
    enum stele_err flush_err;
    bool is_flushing, wants_flush;
    struct stele_timer flush_timer;
};

struct stele_session;

/* One request between its frame and its answer. */
struct stele_pending {
    struct stele_list link; /* the session's, in order of arrival */
    struct stele_session *session;
    struct stele_buf *frame;
    uint8_t *records;
    size_t records_bytes;
    struct stele_arena arena;
    struct stele_request request;
    struct stele_response response;
    struct stele_slice *slices; /* of a fetch: after the message */
    int slice_count;
    bool is_done, has_no_answer;
    struct stele_timer timer;                    /* of a parked fetch */
    struct stele_list parked;                    /* node's list of parked fetches */
    int waits;                                   /* batches of a produce that wait for a sync */
    struct stele_task task;                      /* to the control shard and back */
    void (*then)(struct stele_pending *pending); /* on the data shard, when the control shard has answered */
};

struct stele_session {
    struct stele_node *node;
    struct stele_list link;
    struct stele_conn *conn; /* NULL: closed */
    uint8_t head[8];
    size_t head_bytes;
    struct stele_buf *incoming;
    uint32_t message_bytes;
    struct stele_list calls;
    int call_count;
    bool is_cut, is_paused;
    int holds; /* callers on the stack that still use it */
};

struct stele_node {
    struct stele_node_options options;
    struct stele_mem *mem;
    struct stele_env *control, *data;
    struct stele_net *net;
    int32_t node_id, port;
    char host[256];
    uint32_t frame_bytes_max;
    int64_t fetch_bytes_max;

    /* control shard */
    struct stele_log_dirs *dirs;
    struct stele_log *metadata;
    struct stele_image image;
    bool is_stopping;
    struct stele_timing_wheel *control_wheel;
    struct stele_timer checkpoint_timer;
    struct stele_log_points *points;
    int point_count;
    struct stele_task task; /* of start, checkpoint and stop */
    bool is_task_busy;
    enum stele_err stop_err;
    bool has_failed_log[STELE_DIRS_MAX]; /* such a directory gets no clean marker */

    /* data shard */
    struct stele_file_cache *cache;
    struct stele_timing_wheel *wheel;
    struct stele_list partitions, sessions, parked;
    struct stele_partition *table[STELE_TABLE_SLOTS]; /* the partitions by topic id and number */
    struct stele_timer retain_timer, expire_timer;
    bool refuses;
    struct stele_task drain_task;
};

/** The one voter's image: applies a record. Errors: NO_MEMORY, CORRUPT. */
STELE_MUST_CHECK enum stele_err stele_image_apply(struct stele_node *node, const struct stele_metadata_record *record);
struct stele_topic *stele_image_find(struct stele_node *node, const char *name);
void stele_image_free(struct stele_node *node);
/** Opens and replays the metadata log; writes the FORMAT record to an empty one. */
STELE_MUST_CHECK enum stele_err stele_metadata_open(struct stele_node *node, struct stele_error *error);
/** Appends records in one batch, syncs them, applies them. */
STELE_MUST_CHECK enum stele_err stele_metadata_write(struct stele_node *node,
                                                     const struct stele_metadata_record *records, int count);

/** Makes a partition and opens its log. A log that does not open, or `path` NULL (its directory is offline), gives a
 * partition that is offline, with the reason in `error`. Errors: NO_MEMORY, INVALID_CONFIG. */
STELE_MUST_CHECK enum stele_err stele_partition_open(struct stele_node *node, const struct stele_topic *topic,
                                                     const struct stele_found_log *found, const char *path,
                                                     struct stele_partition **out_partition, struct stele_error *error);
/** Gives it to the data shard: list, table, file cache. */
void stele_partition_adopt(struct stele_partition *partition);
struct stele_partition *stele_partition_find(struct stele_node *node, const struct stele_uuid *topic_id,
                                             int32_t number);
/** Appends one batch. With flush.before.ack, or before the first answer, the pending waits for a sync. */
void stele_partition_produce(struct stele_partition *partition, struct stele_pending *pending, uint8_t *bytes,
                             size_t count, struct stele_produce_result *out);
void stele_partition_free(struct stele_partition *partition);
void stele_partition_flush(struct stele_partition *partition);

/** Decodes and handles; ends in stele_pending_done, now or later. */
void stele_dispatch(struct stele_pending *pending);
void stele_pending_done(struct stele_pending *pending);
/** Something of this partition can be read: answers the parked fetches that have enough now. */
void stele_fetch_wake(struct stele_partition *partition);
/** Answers a parked fetch now. */
void stele_fetch_finish(struct stele_pending *pending);
/** On the control shard. */
void stele_control_create_topic(struct stele_pending *pending);
void stele_control_metadata(struct stele_pending *pending);

void stele_session_stop_all(struct stele_node *node);
void stele_session_free(struct stele_session *session);

#endif
