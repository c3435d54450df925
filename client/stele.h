/* libstele: the client library of Stele. The only installed header.
 *
 * Handles are opaque. Nothing runs behind the caller's back: no thread is started; work is done inside
 * stele_client_poll, and in the calls that say that they poll, from the one thread that uses the client. Callbacks are
 * called from there only; a callback may send records, but must not poll or free anything. Strings are UTF-8. Offsets
 * count records from 0. Times are milliseconds since 1970 in UTC. */
#ifndef STELE_STELE_H
#define STELE_STELE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STELE_EXPORT __attribute__((visibility("default")))

/** What went wrong: `code` is Kafka's error number, or one from 1000 up that arose here; 0 is success. */
struct stele_result {
    int code;
    bool is_retriable; /* the same call may succeed later */
    char text[512];    /* names the thing and the way out; "" on success */
};

struct stele_client;
struct stele_producer;
struct stele_consumer;

/** Name and value of a setting; ends with a row of NULLs. Settings of a client: client.id (stele), request.timeout.ms
 * (30000), socket.connection.setup.timeout.ms (10000), reconnect.backoff.ms (50) and reconnect.backoff.max.ms (1000),
 * retry.backoff.ms (100) and retry.backoff.max.ms (1000), max.in.flight.requests.per.connection (5),
 * allow.auto.create.topics (false: a mistyped name is an error; true: a producer or consumer of a missing topic has it
 * made, when the node's auto.create.topics.enable lets it), and those of producer and consumer below, which they then
 * start from. */
struct stele_setting {
    const char *name, *value;
};

/** A client that will talk to "HOST:PORT[,HOST:PORT...]". Nothing is sent yet. NULL on failure with *result set (result
 * may be NULL). */
STELE_EXPORT struct stele_client *stele_client_new(const char *bootstrap, const struct stele_setting *settings,
                                                   struct stele_result *result);
/** Frees the client; its producers and consumers must be freed before. NULL is fine. */
STELE_EXPORT void stele_client_free(struct stele_client *client);
/** Does what is to do; waits up to wait_ms for something to happen. Returns the number of callbacks made. */
STELE_EXPORT int stele_client_poll(struct stele_client *client, int wait_ms);
/** For a loop of the caller's own: a descriptor that is readable (poll, select, epoll) when the client has something to
 * do, and how long to wait for it at most, in ms (-1: for ever). Before each wait ask for the time, after it call poll
 * with wait_ms 0; and call it after sending, so that records leave. The descriptor stays the same; -1 when there are no
 * more to be had. */
STELE_EXPORT int stele_client_fd(struct stele_client *client);
STELE_EXPORT int stele_client_wait_ms(struct stele_client *client);
/** The version text of the library, for instance "0.1.0". */
STELE_EXPORT const char *stele_version(void);

/* Admin: each call polls until it is answered or request.timeout.ms passed.
 *
 * What a call brings is one object to walk, freed by one call, and before the client is. Every list in it is an array
 * of pointers, so that the structs can grow at their ends; only the library makes them. Texts are never NULL unless it
 * is said. -1 stands for a number or time that is not known. */

struct stele_topic_info {
    const char *name;
    const char *topic_id;
    int32_t partition_count;
    bool is_internal;
};

struct stele_topics {
    size_t topic_count;
    const struct stele_topic_info *const *topics; /* in the order of their names */
};

/** Every topic of the cluster. */
STELE_EXPORT struct stele_result stele_topic_list(struct stele_client *client, struct stele_topics **out_topics);
STELE_EXPORT void stele_topics_free(struct stele_topics *topics);

struct stele_partition_description {
    int32_t partition;
    int code; /* 0, or why the partition is not well, with the text of it */
    const char *text;
    int32_t leader_id; /* -1: none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    size_t replica_count, isr_count, elr_count;
    const int32_t *replicas; /* the preferred leader first */
    const int32_t *isr;      /* in sync */
    const int32_t *elr;      /* may lead although not in sync */
    size_t last_known_elr_count, adding_count, removing_count;
    const int32_t *last_known_elr; /* of those, when an unclean stop took the last */
    const int32_t *adding;         /* replicas of a reassignment under way that are new, */
    const int32_t *removing;       /* and that go once those are in sync */
    bool is_recovering;            /* after an unclean election, until its leader says otherwise */
};

struct stele_topic_description {
    const char *name;
    const char *topic_id;
    int code; /* 0, or why there is no more to tell, with the text of it */
    const char *text;
    bool is_internal;
    size_t partition_count;
    const struct stele_partition_description *const *partitions;
    size_t setting_count;
    const struct stele_setting *settings; /* the topic's own; a row of NULLs ends them too */
};

struct stele_topic_descriptions {
    size_t topic_count;
    const struct stele_topic_description *const *topics; /* in the order of their names */
};

/** `topics` ends with NULL; NULL itself: every topic. A topic that is not there comes with its code. Offsets and how
 * far the replicas are: stele_topic_logs. */
STELE_EXPORT struct stele_result stele_topic_describe(struct stele_client *client, const char *const *topics,
                                                      struct stele_topic_descriptions **out_topics);
STELE_EXPORT void stele_topic_descriptions_free(struct stele_topic_descriptions *topics);
/** partitions -1: the cluster's num.partitions. */
STELE_EXPORT struct stele_result stele_topic_create(struct stele_client *client, const char *topic, int32_t partitions,
                                                    const struct stele_setting *settings);
/** The same with so many replicas of each partition; -1: the cluster's default, 3 or as many as there are
 * voters. */
STELE_EXPORT struct stele_result stele_topic_create_replicated(struct stele_client *client, const char *topic,
                                                               int32_t partitions, int32_t replicas,
                                                               const struct stele_setting *settings);
/** With all its records, for good. */
STELE_EXPORT struct stele_result stele_topic_delete(struct stele_client *client, const char *topic);
/** Adds partitions until there are `partitions` in all. Keys go elsewhere from then on. */
STELE_EXPORT struct stele_result stele_topic_grow(struct stele_client *client, const char *topic, int32_t partitions);
/** Deletes the records below `offset` (STELE_OFFSET_LATEST: all of them). *out_start (may be NULL) is where the
 * partition begins now. */
STELE_EXPORT struct stele_result stele_records_delete(struct stele_client *client, const char *topic, int32_t partition,
                                                      int64_t offset, int64_t *out_start);

/* In the place of a time. */
enum { STELE_OFFSET_LATEST = -1, STELE_OFFSET_EARLIEST = -2, STELE_OFFSET_MAX_TIMESTAMP = -3 };

struct stele_offset_found {
    int32_t partition;
    int code; /* 0, or why there is none, with the text of it */
    const char *text;
    int64_t offset;    /* -1: no record at or after the time */
    int64_t timestamp; /* of that record; -1 for EARLIEST and LATEST */
    int32_t leader_epoch;
};

struct stele_offsets {
    size_t partition_count;
    const struct stele_offset_found *const *partitions; /* by number */
};

/** In every partition the first record at or after a time, or one of STELE_OFFSET_. */
STELE_EXPORT struct stele_result stele_topic_offsets(struct stele_client *client, const char *topic, int64_t time_ms,
                                                     struct stele_offsets **out_offsets);
STELE_EXPORT void stele_offsets_free(struct stele_offsets *offsets);
/** The same for one partition. */
STELE_EXPORT struct stele_result stele_offset_at(struct stele_client *client, const char *topic, int32_t partition,
                                                 int64_t time_ms, int64_t *out_offset);

/* What settings are of. */
enum { STELE_CONFIG_NODE = 0, STELE_CONFIG_CLUSTER = 1, STELE_CONFIG_TOPIC = 2 };
/* Where a value comes from, the weakest first: the default, the start of the node (file, argument, environment), a
 * change at run time for the cluster, for the node, for the topic. */
enum {
    STELE_CONFIG_OF_DEFAULT = 0,
    STELE_CONFIG_OF_START = 1,
    STELE_CONFIG_OF_CLUSTER = 2,
    STELE_CONFIG_OF_NODE = 3,
    STELE_CONFIG_OF_TOPIC = 4
};
/* What to ask for besides names and values. */
enum { STELE_CONFIG_WITH_DOC = 1, STELE_CONFIG_WITH_HISTORY = 2 };

struct stele_config_setting {
    const char *name;
    const char *value;         /* NULL: none */
    int origin;                /* STELE_CONFIG_OF_ */
    const char *origin_detail; /* "--set", a file and line, "" */
    const char *default_value; /* NULL: none */
    bool is_dynamic;           /* may change at run time */
    const char *doc;           /* "" unless asked for */
    const char *warning;       /* "" or what the rates measured say of it */
};

struct stele_config_change {
    int64_t time_ms;
    int kind; /* STELE_CONFIG_ */
    const char *subject;
    const char *name;
    const char *value; /* NULL: back to what it was without */
};

struct stele_config {
    size_t setting_count;
    const struct stele_config_setting *const *settings;
    size_t change_count;
    const struct stele_config_change *const *changes; /* oldest first */
};

/** Settings of a topic, or with subject "" of the node that answers or of the cluster. `names` ends with NULL; NULL
 * itself: all. `with`: STELE_CONFIG_WITH_ values added up. */
STELE_EXPORT struct stele_result stele_config_describe(struct stele_client *client, int kind, const char *subject,
                                                       const char *const *names, unsigned with,
                                                       struct stele_config **out_config);
STELE_EXPORT void stele_config_free(struct stele_config *config);
/** Changes all of them or none; value NULL takes a setting back to what it is without. is_check: says what would
 * happen and changes nothing. */
STELE_EXPORT struct stele_result stele_config_alter(struct stele_client *client, int kind, const char *subject,
                                                    const struct stele_setting *settings, bool is_check);

struct stele_segment_description {
    int64_t base_offset;
    int64_t next_offset; /* of the segment after it, or the end */
    int64_t bytes;
    int64_t offset_index_bytes, time_index_bytes, txn_index_bytes;
    int64_t first_timestamp, largest_timestamp;
    int64_t modified_ms;
    const char *rolled_because; /* "" for the active one */
    const char *kept_because;
    int64_t delete_at_ms; /* by the rules and rates of now */
};

struct stele_event_description {
    int64_t time_ms;
    const char *kind; /* "roll", "delete", "cut", "damage", "rebuild" */
    int64_t offset;
    int64_t bytes;
    const char *reason;
};

struct stele_damage_description {
    int64_t first_offset, last_offset;
    int64_t segment_base, pos; /* where: the segment's first offset and the byte in its file */
};

struct stele_bucket_description {
    int64_t up_to; /* inclusive */
    int64_t count;
};

struct stele_histogram_description {
    const char *name;
    int64_t count, sum, max;
    size_t bucket_count;
    const struct stele_bucket_description *const *buckets;
};

/* A replica as the leader of its partition knows it. */
struct stele_replica_description {
    int32_t node_id;
    bool is_in_sync;
    int64_t log_end_offset;
    int64_t lag;           /* records that it lacks of those that the leader has */
    int64_t synced_offset; /* below it all is on its disk */
    int64_t caught_up_ms;  /* since it last lacked none */
};

struct stele_log_description {
    const char *topic;
    int32_t partition;
    int code; /* 0, or why there is no more to tell, with the text of it */
    const char *text;
    const char *directory;
    int32_t leader_epoch;
    int64_t log_start_offset, high_watermark, last_stable_offset, log_end_offset;
    int64_t recovery_point;
    int64_t bytes;
    int32_t segment_total, producer_total;
    int64_t bytes_appended; /* since the start of the node, */
    int64_t appended_ms;    /* in this time */
    size_t segment_count, event_count, damage_count, histogram_count;
    const struct stele_segment_description *const *segments;
    const struct stele_event_description *const *events; /* oldest first */
    const struct stele_damage_description *const *damages;
    const struct stele_histogram_description *const *histograms;
    int32_t leader_id;          /* -1: none */
    int64_t epoch_start_offset; /* where the leader began to lead */
    size_t replica_count;
    const struct stele_replica_description *const *replicas; /* the preferred leader first */
};

struct stele_log_descriptions {
    size_t log_count;
    const struct stele_log_description *const *logs; /* by topic and partition */
};

/* Segments bring events and damaged ranges with them; stats the histograms, for which every batch header is read. */
enum { STELE_LOG_WITH_SEGMENTS = 1, STELE_LOG_WITH_STATS = 2 };

/** The logs of the leaders, with how far the other replicas are. `topic` NULL: those of every topic; `partition` -1:
 * every one. `with`: STELE_LOG_WITH_ values added up. */
STELE_EXPORT struct stele_result stele_topic_logs(struct stele_client *client, const char *topic, int32_t partition,
                                                  unsigned with, struct stele_log_descriptions **out_logs);
STELE_EXPORT void stele_log_descriptions_free(struct stele_log_descriptions *logs);

struct stele_directory_description {
    const char *path;
    bool is_offline, is_full;
    int64_t free_bytes, reserve_bytes;
    int32_t partition_count;
};

struct stele_metric_description {
    const char *name;
    int64_t value;
};

struct stele_slow_description {
    int64_t time_ms; /* when the request came */
    int32_t api;
    const char *api_name; /* "" when this library does not know it */
    const char *client_id;
    const char *peer;
    int64_t total_us;
    int64_t queue_us, append_us, fsync_us, read_us, reply_us;
    int64_t bytes;
    int64_t segments_searched;
    int64_t bytes_scanned;
    bool was_cold; /* read ranges that were not in memory */
};

struct stele_node_description {
    int32_t node_id;
    const char *cluster_id;
    const char *software_version;
    int64_t uptime_ms;
    int32_t shard_count, connection_count, topic_count, partition_count;
    int32_t offline_count; /* partitions */
    int64_t memory_bytes;
    int64_t memory_limit_bytes; /* 0: none */
    int64_t longest_stall_us;   /* of an event loop, since the start */
    size_t directory_count, metric_count, slow_count;
    const struct stele_directory_description *const *directories;
    const struct stele_metric_description *const *metrics;
    const struct stele_slow_description *const *slow; /* the slowest first */
};

/** The node that answers: with its metrics when asked for, and up to `slow_max` of its slowest requests. */
STELE_EXPORT struct stele_result stele_node_describe(struct stele_client *client, bool with_metrics, int32_t slow_max,
                                                     struct stele_node_description **out_node);
STELE_EXPORT void stele_node_description_free(struct stele_node_description *node);

/* The metadata quorum: the nodes that vote on what the cluster knows of itself, and those that only follow. */

struct stele_quorum_member {
    int32_t node_id;
    const char *directory_id; /* of the directory with its metadata log */
    const char *host;         /* where the other nodes reach it; "": not known */
    int32_t port;
    bool is_leader, is_voter;
    int64_t log_end_offset; /* of what it has on its disk; this and the next three as the leader knows */
    int64_t lag;            /* records that it lacks of those that the leader has */
    int64_t fetched_ms;     /* since it last asked for more, */
    int64_t caught_up_ms;   /* and since it last had all */
};

struct stele_quorum_description {
    int32_t node_id;  /* which tells this, */
    const char *role; /* and what it is: "leader", "follower", "candidate", "prospective", "unattached", "resigned" */
    int32_t leader_id;
    int32_t leader_epoch;
    int64_t high_watermark; /* of the metadata log */
    size_t member_count;
    const struct stele_quorum_member *const *members; /* voters first; by number */
};

/** What the leader of the quorum knows, wherever it is; or with is_local what the node that answers knows itself,
 * which is all there is to learn when there is no leader. */
STELE_EXPORT struct stele_result stele_quorum_describe(struct stele_client *client, bool is_local,
                                                       struct stele_quorum_description **out_quorum);
STELE_EXPORT void stele_quorum_description_free(struct stele_quorum_description *quorum);
/** Makes a node that follows a voter. `directory_id` as in stele_quorum_member; NULL: the one that it has now. */
STELE_EXPORT struct stele_result stele_quorum_add(struct stele_client *client, int32_t node_id,
                                                  const char *directory_id);
/** Makes a voter one that only follows. */
STELE_EXPORT struct stele_result stele_quorum_remove(struct stele_client *client, int32_t node_id,
                                                     const char *directory_id);
/** Lets a voter that lost its disk vote again with the new one. */
STELE_EXPORT struct stele_result stele_quorum_readmit(struct stele_client *client, int32_t node_id,
                                                      const char *directory_id);

/* The nodes of the cluster. */

struct stele_listener_description {
    const char *name;
    const char *host;
    int32_t port;
};

struct stele_member_description {
    int32_t node_id;
    int64_t node_epoch;           /* of its present registration */
    const char *rack;             /* "": none */
    const char *software_version; /* "": not known */
    bool is_fenced;               /* leads nothing: it starts, or was not heard of for too long */
    bool is_shutting_down;        /* hands over what it leads */
    int64_t contact_ms;           /* since it was last heard of */
    size_t listener_count, directory_count;
    const struct stele_listener_description *const *listeners;
    const char *const *directory_ids;
};

struct stele_cluster_description {
    const char *cluster_id;
    int32_t controller_id;   /* -1: none */
    int32_t level;           /* which features may be used: all nodes know that many */
    int64_t metadata_offset; /* up to which whoever answers knows the metadata log */
    size_t member_count;
    const struct stele_member_description *const *members; /* by number */
};

/** What the active controller knows; or with is_local what the node that answers has learned of it. */
STELE_EXPORT struct stele_result stele_cluster_describe(struct stele_client *client, bool is_local,
                                                        struct stele_cluster_description **out_cluster);
STELE_EXPORT void stele_cluster_description_free(struct stele_cluster_description *cluster);
/** Forgets a node that is gone for good. What it had of partitions has to be moved before, or it is missed there. */
STELE_EXPORT struct stele_result stele_cluster_unregister(struct stele_client *client, int32_t node_id);
/** Lets features be used that nodes of an older version do not know: there is no way back. */
STELE_EXPORT struct stele_result stele_cluster_set_level(struct stele_client *client, int32_t level);

/* Where partitions lie, and who leads them. */

struct stele_partition_wish {
    const char *topic;
    int32_t partition;
    const int32_t *replicas; /* the preferred leader first; NULL: what is under way ends, back to what was before */
    size_t replica_count;
};

struct stele_partition_result {
    const char *topic;
    int32_t partition;
    int code;         /* 0, or why it was not done, with the text of it; */
    const char *text; /* with 0 "", or what there is to say of it: what is known of the loss of an unclean election */
    int32_t leader_id, leader_epoch; /* of an election; -1 otherwise */
    int64_t lost_first_offset;       /* records that an unclean election gave up: from here to before the next; */
    int64_t lost_end_offset;         /* -1: none, or nobody knows */
};

struct stele_partition_results {
    size_t outcome_count;
    const struct stele_partition_result *const *outcomes; /* by topic and partition */
};

/** Has partitions lie elsewhere, or ends that. The call returns when it has begun: how it goes on is seen by `adding`
 * and `removing` of stele_topic_describe, which are empty at its end, and the replicas of stele_topic_logs. */
STELE_EXPORT struct stele_result stele_partitions_reassign(struct stele_client *client,
                                                           const struct stele_partition_wish *wishes, size_t count,
                                                           struct stele_partition_results **out_outcomes);

struct stele_partition_choice {
    const char *topic;
    int32_t partition;
};

/** Has the preferred leaders lead, where they are in sync and do not; or, is_unclean, the replica that has the most of
 * a partition that has no leader and no replica that could become one without loss: what is lost is told, and lost for
 * good. `count` 0: all partitions that need it. A partition that has that leader already has code 84. */
STELE_EXPORT struct stele_result stele_partitions_elect(struct stele_client *client, bool is_unclean,
                                                        const struct stele_partition_choice *choices, size_t count,
                                                        struct stele_partition_results **out_outcomes);
STELE_EXPORT void stele_partition_results_free(struct stele_partition_results *outcomes);

/* The log directories of a node. Both calls go to the node itself; -1: to whichever answers. */

struct stele_replica_move {
    const char *topic;
    int32_t partition;
    const char *directory; /* one of its log.dirs */
};

/** Moves replicas of a node to other log directories of it. The call returns when the moves have begun: how they go on
 * is seen by stele_replicas_describe. A second move of a replica takes the place of the first; one to where it lies
 * ends it. Code 57 of a replica: there is no such directory; 9: that node has no such replica; 56: a directory, or the
 * replica, is offline. */
STELE_EXPORT struct stele_result stele_replicas_move(struct stele_client *client, int32_t node_id,
                                                     const struct stele_replica_move *moves, size_t count,
                                                     struct stele_partition_results **out_outcomes);

struct stele_placed_replica {
    const char *topic;
    int32_t partition;
    const char *directory;
    int64_t bytes;
    int64_t log_end_offset; /* -1: not known */
    int64_t lag;            /* records: behind what is committed; of a copy, behind the log */
    bool is_future;         /* the copy that a move makes; it comes behind the replica */
    bool is_offline;
};

struct stele_placed_replicas {
    int32_t node_id;
    size_t replica_count;
    const struct stele_placed_replica *const *replicas; /* by topic and partition */
};

/** In which log directory each replica of a node lies. `topics` ends with NULL; NULL: all. */
STELE_EXPORT struct stele_result stele_replicas_describe(struct stele_client *client, int32_t node_id,
                                                         const char *const *topics,
                                                         struct stele_placed_replicas **out_placed);
STELE_EXPORT void stele_placed_replicas_free(struct stele_placed_replicas *placed);

struct stele_header {
    const char *key;   /* zero-terminated */
    const void *value; /* NULL: null */
    size_t value_bytes;
};

struct stele_message {
    int32_t partition; /* -1: by key (murmur2 as Kafka's default partitioner), or sticky without key */
    int64_t timestamp; /* -1: now */
    const void *key;   /* NULL: null */
    const void *value; /* NULL: null */
    size_t key_bytes, value_bytes;
    const struct stele_header *headers;
    size_t header_count;
};

/** How a record ended. `tag` is what send was given. Called once for each record, in order within a partition. */
struct stele_delivery {
    struct stele_result result;
    uint64_t tag;
    int32_t partition;
    int64_t offset; /* -1 on failure */
    int durability; /* 1 written, 2 replicated, 3 synced */
};

/** Settings: enable.idempotence (true), acks (all), retries (2147483647), delivery.timeout.ms (120000), linger.ms
 * (5), batch.size (16384), max.request.size (1048576), buffer.memory (33554432), compression.type (none; gzip, snappy,
 * lz4, zstd) with compression.gzip.level (-1), compression.lz4.level (9), compression.zstd.level (3).
 *
 * With idempotence no record is in the log twice, and up to 5 batches of a partition are under way. When a request ends
 * without an answer and the log cannot say any more whether it wrote the records (code 45 or 47), they fail instead of
 * being sent again. It needs acks=all and retries; unless it was set by name it gives way to other values of those.
 * Without it one batch of a partition is under way, and one of unknown fate is sent again: a record may be there twice.
 * Order within a partition is kept in both cases. With acks=0 a record counts as delivered, at offset -1, once it was
 * handed to the system. Polls. */
STELE_EXPORT struct stele_producer *
stele_producer_new(struct stele_client *client, const char *topic, const struct stele_setting *settings,
                   void (*delivered)(void *arg, const struct stele_delivery *delivery), void *arg,
                   struct stele_result *result);
/** Copies the record into a batch. code 1002 and is_retriable when buffer.memory is reached: poll, then try again. */
STELE_EXPORT struct stele_result stele_producer_send(struct stele_producer *producer,
                                                     const struct stele_message *message, uint64_t tag);
/** Polls until every record is delivered or failed, at most wait_ms (-1: as long as it takes). Code 7 when time ran
 * out. */
STELE_EXPORT struct stele_result stele_producer_flush(struct stele_producer *producer, int wait_ms);
/** Records not yet delivered. */
STELE_EXPORT size_t stele_producer_pending(const struct stele_producer *producer);
/** Drops what is pending (its deliveries are not called). */
STELE_EXPORT void stele_producer_free(struct stele_producer *producer);

/** A record as a consumer sees it; borrowed until the next call on the consumer. */
struct stele_record_view {
    int32_t partition;
    int64_t offset, timestamp;
    bool is_log_append_time;
    const void *key, *value; /* NULL: null */
    size_t key_bytes, value_bytes;
    size_t header_count;
    const void *internal; /* headers: stele_record_view_header */
};

/* Why a partition did not go on where it was: its records were deleted before they were read (retention, or a call that
 * deletes records); or those that were read are not there any more, with nothing at their offsets yet, or with others
 * (another node became the leader, and did not have them). */
enum { STELE_RESET_BELOW_START = 1, STELE_RESET_ABOVE_END = 2, STELE_RESET_TRUNCATED = 3 };

/** A partition did not hold the position, and goes on elsewhere: where auto.offset.reset says, or from the first of the
 * records on that were read and are not there any more, where that is known. */
struct stele_reset {
    int32_t partition;
    int reason;                 /* STELE_RESET_ */
    const char *text;           /* all of it as a sentence */
    int64_t old_offset;         /* which would have been the next */
    int64_t new_offset;         /* which is now */
    int64_t skipped;            /* offsets between them that are not read */
    int64_t repeated;           /* offsets that are read again */
    int64_t log_start, log_end; /* what the partition held when the node refused; -1 not known */
};

/** A consumer of one topic by assignment. Settings: fetch.min.bytes (1), fetch.max.wait.ms (500), fetch.max.bytes
 * (52428800), max.partition.fetch.bytes (1048576), check.crcs (true), isolation.level (read_uncommitted),
 * auto.offset.reset (latest; earliest, none, by_duration:PnDTnHnMn.nS), metadata.max.age.ms (300000), client.rack ("":
 * partitions are read at their leaders; otherwise where a leader sends to, for a replica in that rack). */
STELE_EXPORT struct stele_consumer *stele_consumer_new(struct stele_client *client, const char *topic,
                                                       const struct stele_setting *settings,
                                                       struct stele_result *result);
/** `on_reset` is called, from poll, before the first record after a reset. NULL: never. With auto.offset.reset=none
 * nothing is reset: next says code 1. */
STELE_EXPORT void stele_consumer_on_reset(struct stele_consumer *consumer,
                                          void (*on_reset)(void *arg, const struct stele_reset *reset), void *arg);
/** How many partitions the topic has, as far as is known: it may grow. */
STELE_EXPORT int32_t stele_consumer_partitions(const struct stele_consumer *consumer);
/** Reads `partition` from `offset` on; what was fetched of it before is forgotten. */
STELE_EXPORT struct stele_result stele_consumer_assign(struct stele_consumer *consumer, int32_t partition,
                                                       int64_t offset);
/** The same from the first record at or after a time on, or from the end when there is none; or from one of
 * STELE_OFFSET_. Polls. */
STELE_EXPORT struct stele_result stele_consumer_assign_at(struct stele_consumer *consumer, int32_t partition,
                                                          int64_t time_ms);
/** Gives no record of `partition` until it is resumed at the same position. */
STELE_EXPORT void stele_consumer_pause(struct stele_consumer *consumer, int32_t partition);
STELE_EXPORT void stele_consumer_resume(struct stele_consumer *consumer, int32_t partition);
/** Reads `partition` no more. */
STELE_EXPORT void stele_consumer_unassign(struct stele_consumer *consumer, int32_t partition);
/** The offset up to which the partition was read: that of the next record, or the end of what a compaction or a
 * transaction left out. -1: not assigned. */
STELE_EXPORT int64_t stele_consumer_position(const struct stele_consumer *consumer, int32_t partition);
/** The next record, waiting up to wait_ms; polls. Code 7: none came in time. Records of one partition come in offset
 * order. An error of a partition that no retry can mend comes after the records read before it, and again until the
 * partition is assigned anew. */
STELE_EXPORT struct stele_result stele_consumer_next(struct stele_consumer *consumer, int wait_ms,
                                                     struct stele_record_view *out_record);
STELE_EXPORT bool stele_record_view_header(const struct stele_record_view *record, size_t index, const char **out_key,
                                           size_t *out_key_bytes, const void **out_value, size_t *out_value_bytes);
STELE_EXPORT void stele_consumer_free(struct stele_consumer *consumer);

#ifdef __cplusplus
}
#endif

#endif
