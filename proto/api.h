/* Requests and answers as plain structs. They are all that a handler sees; packing them is proto/codec's.
 * In a decoded message every pointer is borrowed from the arena or frame that it was decoded into.
 * Record bytes never are part of a message: they follow it in the frame, partition after partition, `records_bytes`
 * each. */
#ifndef STELE_PROTO_API_H
#define STELE_PROTO_API_H

#include "base/err.h"
#include "base/uuid.h"
#include "proto/api_admin.h"
#include "proto/api_peer.h"

#include <stdbool.h>

enum stele_api {
#define STELE_API(key, name, stem, version_min, version_max) STELE_API_##name = (key),
#include "proto/api.def"
#undef STELE_API
};

/** In front of every message. */
struct stele_request_header {
    enum stele_api api;
    int32_t version;
    uint64_t correlation_id;
    const char *client_id; /* may be NULL */
};

struct stele_response_header {
    enum stele_api api; /* of the request */
    int32_t version;
    uint64_t correlation_id;
    int32_t throttle_time_ms;
    int64_t metadata_offset; /* to another node: up to which the controller has applied metadata; 0: not said */
    bool is_refused;         /* to another node: it is not the controller, and nothing was done */
};

enum stele_role { STELE_ROLE_CLIENT = 0, STELE_ROLE_NODE = 1, STELE_ROLE_ADMIN = 2 };

struct stele_api_range {
    int32_t api, version_min, version_max;
};

struct stele_hello_request {
    const char *software_name, *software_version;
    enum stele_role role;
    int32_t node_id;        /* -1 for a client */
    const char *cluster_id; /* "" when not known yet */
    const struct stele_api_range *apis;
    size_t api_count;
};

struct stele_hello_response {
    enum stele_err err;
    const char *message; /* "" or why not */
    const char *cluster_id;
    int32_t node_id;
    const char *software_name, *software_version;
    const struct stele_api_range *apis;
    size_t api_count;
};

struct stele_metadata_request {
    bool all_topics; /* otherwise those named */
    const char *const *topics;
    size_t topic_count;
    bool allow_auto_topic_creation; /* of those named, when the node does that */
};

struct stele_metadata_node {
    int32_t node_id;
    const char *host;
    int32_t port;
    const char *rack; /* "": none */
};

struct stele_metadata_partition {
    enum stele_err err;
    int32_t partition;
    int32_t leader_id; /* -1 none */
    int32_t leader_epoch;
    const int32_t *replicas;
    size_t replica_count;
    const int32_t *isr;
    size_t isr_count;
};

struct stele_metadata_topic {
    enum stele_err err;
    const char *name;
    struct stele_uuid topic_id;
    bool is_internal;
    const struct stele_metadata_partition *partitions;
    size_t partition_count;
};

struct stele_metadata_response {
    enum stele_err err;
    const char *cluster_id;
    int32_t controller_id;
    const struct stele_metadata_node *nodes;
    size_t node_count;
    const struct stele_metadata_topic *topics;
    size_t topic_count;
};

struct stele_create_topic_request {
    const char *name;
    int32_t partition_count;    /* -1: num.partitions */
    int32_t replication_factor; /* -1: the default */
    const struct stele_setting_pair *settings;
    size_t setting_count;
    int32_t timeout_ms;
    bool validate_only;
    const struct stele_assigned_partition *assignments; /* none: the controller places them */
    size_t assignment_count;
};

struct stele_create_topic_response {
    enum stele_err err;
    const char *message; /* "" or what is wrong and the way out */
    struct stele_uuid topic_id;
    int32_t partition_count, replication_factor;
};

struct stele_produce_partition {
    struct stele_uuid topic_id;
    int32_t partition;
    uint32_t records_bytes; /* one batch; consecutive in the frame */
};

struct stele_produce_request {
    int32_t acks; /* -1, 0, 1 */
    int32_t timeout_ms;
    const struct stele_produce_partition *partitions;
    size_t partition_count;
};

/** How far an acknowledged batch had got. */
enum stele_durability {
    STELE_DURABILITY_NONE = 0,
    STELE_DURABILITY_WRITTEN = 1,    /* in the leader's page cache */
    STELE_DURABILITY_REPLICATED = 2, /* in the page caches of the in-sync replicas */
    STELE_DURABILITY_SYNCED = 3,     /* on the disks of at least min.insync.replicas replicas */
};

struct stele_produce_result {
    enum stele_err err;
    const char *message; /* "" or what is wrong */
    struct stele_uuid topic_id;
    int32_t partition;
    int64_t base_offset;        /* -1 on failure */
    int64_t log_append_time_ms; /* -1 on a topic of create time */
    int64_t log_start_offset;
    enum stele_durability durability;
    int32_t current_leader_id, current_leader_epoch; /* hints with NOT_LEADER_OR_FOLLOWER; otherwise -1 */
};

struct stele_produce_response {
    const struct stele_produce_result *results;
    size_t result_count;
    const struct stele_metadata_node *nodes; /* those that current_leader_id names */
    size_t node_count;
};

enum stele_isolation { STELE_READ_UNCOMMITTED = 0, STELE_READ_COMMITTED = 1 };

struct stele_fetch_partition {
    struct stele_uuid topic_id;
    int32_t partition;
    int64_t fetch_offset;
    int32_t max_bytes;
    int32_t current_leader_epoch; /* -1: do not check */
    int32_t last_fetched_epoch;   /* -1: none; replicas validate by it */
    int64_t log_start_offset;     /* of a follower; -1 for a consumer */
    int64_t synced_offset;        /* of a follower: the end of what it has synced; -1 unknown */
    int64_t known_high_watermark; /* of a follower: a larger one is worth an answer (KIP-1166); -1: it is not */
    int64_t damaged_offset;       /* of a follower: where its damage begins; -1: whole */
    int64_t doubted_offset;       /* what came of this offset did not check: the node is to look at it; -1: none */
};

/* What a consumer leaves out. */
#define STELE_FETCH_PARTITION_OF_CONSUMER                                                                              \
    .current_leader_epoch = -1, .last_fetched_epoch = -1, .log_start_offset = -1, .synced_offset = -1,                 \
    .known_high_watermark = -1, .damaged_offset = -1, .doubted_offset = -1
#define STELE_FETCH_OF_CONSUMER .replica_id = -1, .replica_epoch = -1, .session_epoch = -1

struct stele_forgotten_partition {
    struct stele_uuid topic_id;
    int32_t partition;
};

struct stele_fetch_request {
    int32_t replica_id; /* -1: consumer */
    int32_t max_wait_ms;
    int32_t min_bytes;
    int32_t max_bytes;
    enum stele_isolation isolation;
    const struct stele_fetch_partition *partitions;
    size_t partition_count;
    const char *cluster_id;                 /* of a replica; "" */
    struct stele_uuid replica_directory_id; /* of a replica of the metadata log */
    int64_t replica_epoch;                  /* the node epoch; -1 */
    int32_t session_id;                     /* with session_epoch as in KIP-227; (0, -1): no session */
    int32_t session_epoch;
    const struct stele_forgotten_partition *forgotten; /* leave the session */
    size_t forgotten_count;
    const char *rack; /* of a consumer; "" */
};

struct stele_aborted_transaction {
    int64_t producer_id, first_offset;
};

struct stele_fetch_result {
    enum stele_err err;
    struct stele_uuid topic_id;
    int32_t partition;
    int64_t high_watermark, last_stable_offset, log_start_offset;
    const struct stele_aborted_transaction *aborted;
    size_t aborted_count;
    uint32_t records_bytes; /* whole and perhaps one cut batch; consecutive in the frame */
    int32_t current_leader_id, current_leader_epoch;
    int32_t diverging_epoch; /* -1, or with its end the point up to which both logs agree at most */
    int64_t diverging_end_offset;
    int64_t snapshot_end_offset; /* -1, or with its epoch the snapshot of the metadata log to take instead */
    int32_t snapshot_epoch;
    int32_t preferred_read_replica; /* -1, or the node to read from (KIP-392) */
    int64_t log_end_offset;         /* for a follower; -1 */
};

/* What most answers leave out. */
#define STELE_FETCH_RESULT_PLAIN                                                                                       \
    .diverging_epoch = -1, .diverging_end_offset = -1, .snapshot_end_offset = -1, .snapshot_epoch = -1,                \
    .preferred_read_replica = -1, .log_end_offset = -1

struct stele_fetch_response {
    enum stele_err err;
    const struct stele_fetch_result *results;
    size_t result_count;
    int32_t session_id;                      /* 0: none */
    const struct stele_metadata_node *nodes; /* those that current_leader_id names */
    size_t node_count;
};

/** Special values of list_offsets, as Kafka's. */
enum { STELE_TIME_LATEST = -1, STELE_TIME_EARLIEST = -2, STELE_TIME_MAX_TIMESTAMP = -3 };

struct stele_list_offsets_partition {
    struct stele_uuid topic_id;
    int32_t partition;
    int32_t current_leader_epoch; /* -1 */
    int64_t timestamp;            /* or one of STELE_TIME_ */
};

struct stele_list_offsets_request {
    int32_t replica_id;
    enum stele_isolation isolation;
    const struct stele_list_offsets_partition *partitions;
    size_t partition_count;
};

struct stele_list_offsets_result {
    enum stele_err err;
    struct stele_uuid topic_id;
    int32_t partition;
    int64_t offset;    /* -1: none */
    int64_t timestamp; /* of the record; -1 for the special values */
    int32_t leader_epoch;
};

struct stele_list_offsets_response {
    const struct stele_list_offsets_result *results;
    size_t result_count;
};

#endif
