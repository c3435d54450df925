/* The requests and answers of people and tools: topics, settings, and what a node says of itself. Plain structs as
 * those of proto/api.h, which includes this. `message` is "" or says what is wrong and the way out. */
#ifndef STELE_PROTO_API_ADMIN_H
#define STELE_PROTO_API_ADMIN_H

#include "base/err.h"
#include "base/uuid.h"

#include <stdbool.h>

struct stele_setting_pair {
    const char *name, *value;
};

/** What settings are of. The numbers are in the metadata log's records too. */
enum stele_subject_kind { STELE_SUBJECT_NODE = 0, STELE_SUBJECT_CLUSTER = 1, STELE_SUBJECT_TOPIC = 2 };

/** Where a value comes from, the weakest first. */
enum stele_setting_origin {
    STELE_SETTING_OF_DEFAULT = 0,
    STELE_SETTING_OF_START = 1,   /* file, argument or environment of the node */
    STELE_SETTING_OF_CLUSTER = 2, /* changed at run time, for all nodes */
    STELE_SETTING_OF_NODE = 3,    /* changed at run time, for this node */
    STELE_SETTING_OF_TOPIC = 4
};

/** Where a partition shall lie. */
struct stele_assigned_partition {
    int32_t partition;
    const int32_t *replicas; /* the preferred leader first */
    size_t replica_count;
};

struct stele_delete_topic_request {
    const char *name; /* "" to name it by its id */
    struct stele_uuid topic_id;
    int32_t timeout_ms;
};

struct stele_delete_topic_response {
    enum stele_err err;
    const char *message;
    const char *name;
    struct stele_uuid topic_id;
};

struct stele_create_partitions_request {
    const char *name;
    int32_t partition_count; /* all of them afterwards */
    int32_t timeout_ms;
    bool validate_only;
    const struct stele_assigned_partition *assignments; /* of the new ones; none: the controller places them */
    size_t assignment_count;
};

struct stele_create_partitions_response {
    enum stele_err err;
    const char *message;
};

struct stele_describe_topic_request {
    const char *const *topics;
    size_t topic_count;
    bool all_topics; /* otherwise those named */
};

struct stele_described_partition {
    int32_t partition;
    enum stele_err err;
    int32_t leader_id; /* -1 none */
    int32_t leader_epoch;
    int32_t partition_epoch;
    const int32_t *replicas;
    size_t replica_count;
    const int32_t *isr;
    size_t isr_count;
    const int32_t *elr; /* eligible to lead without being in sync (KIP-966) */
    size_t elr_count;
    const int32_t *last_known_elr;
    size_t last_known_elr_count;
    const int32_t *adding; /* a reassignment under way */
    size_t adding_count;
    const int32_t *removing;
    size_t removing_count;
    bool is_recovering;     /* after an unclean election */
    const int32_t *offline; /* replicas whose disk or log failed */
    size_t offline_count;
};

struct stele_described_topic {
    enum stele_err err;
    const char *name;
    struct stele_uuid topic_id;
    bool is_internal;
    const struct stele_described_partition *partitions;
    size_t partition_count;
    const struct stele_setting_pair *settings; /* the topic's own */
    size_t setting_count;
};

struct stele_describe_topic_response {
    enum stele_err err;
    const struct stele_described_topic *topics;
    size_t topic_count;
};

struct stele_delete_records_partition {
    struct stele_uuid topic_id;
    int32_t partition;
    int32_t current_leader_epoch; /* -1: do not check */
    int64_t offset;               /* the new start; -1: the high watermark */
};

struct stele_delete_records_request {
    const struct stele_delete_records_partition *partitions;
    size_t partition_count;
    int32_t timeout_ms;
};

struct stele_delete_records_result {
    enum stele_err err;
    const char *message;
    struct stele_uuid topic_id;
    int32_t partition;
    int64_t low_watermark; /* the smallest start of all replicas; -1 on failure */
    int32_t current_leader_id;
    int32_t current_leader_epoch;
};

struct stele_delete_records_response {
    const struct stele_delete_records_result *results;
    size_t result_count;
};

struct stele_init_producer_id_request {
    const char *transactional_id; /* NULL: idempotent only */
    int32_t transaction_timeout_ms;
    int64_t producer_id;    /* -1: a new one */
    int32_t producer_epoch; /* -1 */
};

struct stele_init_producer_id_response {
    enum stele_err err;
    const char *message;
    int64_t producer_id;
    int32_t producer_epoch;
};

struct stele_describe_settings_request {
    enum stele_subject_kind kind;
    const char *subject;      /* a topic; "" for the node that answers and for the cluster */
    const char *const *names; /* none: all */
    size_t name_count;
    bool with_doc;
    bool with_history;
};

struct stele_described_setting {
    const char *name;
    const char *value; /* NULL: there is none */
    enum stele_setting_origin origin;
    const char *origin_detail; /* "--set", a file and line, "" */
    const char *default_value;
    bool is_dynamic; /* may change at run time */
    const char *doc;
    const char *warning; /* "" or what the measured rates say of it */
};

struct stele_setting_change {
    int64_t time_ms;
    enum stele_subject_kind kind;
    const char *subject;
    const char *name;
    const char *value; /* NULL: back to what it was without */
};

struct stele_describe_settings_response {
    enum stele_err err;
    const char *message;
    const struct stele_described_setting *settings;
    size_t setting_count;
    const struct stele_setting_change *changes; /* oldest first */
    size_t change_count;
};

struct stele_altered_setting {
    const char *name;
    const char *value; /* NULL: back to what it was without */
};

struct stele_alter_settings_request {
    enum stele_subject_kind kind;
    const char *subject;
    const struct stele_altered_setting *settings; /* all or none */
    size_t setting_count;
    bool validate_only;
};

struct stele_alter_settings_response {
    enum stele_err err;
    const char *message; /* which of them is wrong, and why */
};

struct stele_describe_log_partition {
    struct stele_uuid topic_id;
    int32_t partition;
};

struct stele_describe_log_request {
    const struct stele_describe_log_partition *partitions;
    size_t partition_count;
    bool with_segments; /* with its history and damaged ranges */
    bool with_stats;    /* with histograms: reads every batch header */
    bool with_epochs;   /* with the epochs of its leaders */
};

struct stele_described_segment {
    int64_t base_offset;
    int64_t next_offset; /* of the segment after it, or the end */
    int64_t bytes;
    int64_t offset_index_bytes;
    int64_t time_index_bytes;
    int64_t txn_index_bytes;
    int64_t first_timestamp; /* -1 unknown */
    int64_t largest_timestamp;
    int64_t modified_ms;
    const char *rolled_because; /* "" for the active one */
    const char *kept_because;   /* what keeps it now */
    int64_t delete_at_ms;       /* by the rules and rates of now; -1 not known */
};

struct stele_log_event {
    int64_t time_ms;
    const char *kind; /* "roll", "delete", "cut", "damage", "rebuild" */
    int64_t offset;
    int64_t bytes;
    const char *reason;
};

struct stele_described_damage {
    int64_t first_offset;
    int64_t last_offset;
    int64_t segment_base;
    int64_t pos;
};

struct stele_histogram_bucket {
    int64_t up_to; /* inclusive */
    int64_t count;
};

struct stele_log_histogram {
    const char *name; /* "record bytes" (as stored: the batch's over its records), "batch bytes", "batch records",
                         "segment bytes", "index bytes" (all of a segment), "roll interval ms: segment.bytes reached"
                         and so on */
    int64_t count;
    int64_t sum;
    int64_t max;
    const struct stele_histogram_bucket *buckets;
    size_t bucket_count;
};

/** What a leader knows of a replica. */
struct stele_replica_progress {
    int32_t node_id;
    int64_t log_end_offset; /* -1 unknown */
    int64_t synced_offset;
    int64_t last_caught_up_ms; /* ago; -1 never */
    bool is_in_sync;
};

/** A leader's epoch, and the offset of its first record. */
struct stele_described_epoch {
    int32_t epoch;
    int64_t start_offset;
};

struct stele_described_log {
    enum stele_err err;
    const char *message;
    struct stele_uuid topic_id;
    int32_t partition;
    const char *directory;
    int32_t leader_epoch;
    int64_t log_start_offset;
    int64_t high_watermark;
    int64_t last_stable_offset;
    int64_t log_end_offset;
    int64_t recovery_point;
    int64_t bytes;
    int32_t segment_total;
    int32_t producer_total;
    int64_t bytes_appended;                         /* since the start of the node */
    int64_t appended_ms;                            /* since then */
    const struct stele_described_segment *segments; /* first those deleted whose files wait to be unlinked, which
                                                       segment_total and bytes do not count; then the live ones */
    size_t segment_count;
    const struct stele_log_event *events;
    size_t event_count;
    const struct stele_described_damage *damaged;
    size_t damaged_count;
    const struct stele_log_histogram *histograms;
    size_t histogram_count;
    const struct stele_replica_progress *replicas; /* of a leader */
    size_t replica_count;
    int32_t leader_id;          /* -1 none */
    int64_t epoch_start_offset; /* of a leader; -1 */
    const struct stele_described_epoch *epochs;
    size_t epoch_count;
};

struct stele_describe_log_response {
    const struct stele_described_log *logs;
    size_t log_count;
};

struct stele_node_status_request {
    int32_t slow_requests_max;
    bool with_metrics;
};

struct stele_node_directory {
    const char *path;
    bool is_offline;
    bool is_full;
    int64_t free_bytes;
    int64_t reserve_bytes;
    int32_t partition_count;
};

struct stele_node_metric {
    const char *name;
    int64_t value;
};

struct stele_slow_request {
    int64_t time_ms; /* when it came */
    int32_t api;
    const char *client_id;
    const char *peer;
    int64_t total_us;
    int64_t queue_us;
    int64_t append_us;
    int64_t fsync_us;
    int64_t read_us; /* cold ranges */
    int64_t reply_us;
    int64_t bytes;
    int64_t segments_searched;
    int64_t bytes_scanned;
    bool was_cold;
};

struct stele_node_status_response {
    enum stele_err err;
    int32_t node_id;
    const char *cluster_id;
    const char *software_version;
    int64_t uptime_ms;
    int32_t shard_count;
    int32_t connection_count;
    int32_t topic_count;
    int32_t partition_count;
    int32_t offline_count; /* partitions */
    int64_t memory_bytes;
    int64_t memory_limit_bytes; /* 0: none */
    int64_t longest_stall_us;   /* of an event loop, since the start */
    const struct stele_node_directory *directories;
    size_t directory_count;
    const struct stele_node_metric *metrics;
    size_t metric_count;
    const struct stele_slow_request *slow_requests; /* the slowest first */
    size_t slow_request_count;
};

/** Where a replica of a node shall lie: in which of its log.dirs (KIP-113). */
struct stele_moved_replica {
    const char *topic;
    int32_t partition;
    const char *directory;
};

struct stele_alter_log_dirs_request {
    int32_t node_id; /* of whom this is asked; -1: whoever gets it */
    const struct stele_moved_replica *replicas;
    size_t replica_count;
};

/** OK: the move has begun, or there is none to be made. */
struct stele_alter_log_dirs_result {
    enum stele_err err;
    const char *message;
    const char *topic;
    int32_t partition;
};

struct stele_alter_log_dirs_response {
    const struct stele_alter_log_dirs_result *results;
    size_t result_count;
};

struct stele_describe_log_dirs_request {
    int32_t node_id;           /* of whom this is asked; -1: whoever gets it */
    const char *const *topics; /* none: all */
    size_t topic_count;
};

struct stele_described_replica {
    const char *topic;
    struct stele_uuid topic_id;
    int32_t partition;
    int64_t bytes;
    int64_t log_end_offset; /* -1 not known */
    int64_t offset_lag;     /* of a log: behind its high watermark; of a copy: behind the log */
    bool is_future;         /* the copy that a move makes */
    bool is_offline;
};

struct stele_described_log_dir {
    enum stele_err err; /* KAFKA_STORAGE_ERROR: it is offline */
    const char *path;
    int64_t free_bytes;
    const struct stele_described_replica *replicas;
    size_t replica_count;
};

struct stele_describe_log_dirs_response {
    enum stele_err err;
    const char *message;
    int32_t node_id;
    const struct stele_described_log_dir *directories;
    size_t directory_count;
};

#endif
