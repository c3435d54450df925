/* Records of __cluster_metadata as plain structs; each is the value of a record in a batch (protobuf, stele.proto's
 * MetadataRecord). The first record of a metadata log is FORMAT: a directory whose log lacks it is not ours. */
#ifndef STELE_PROTO_METADATA_RECORD_H
#define STELE_PROTO_METADATA_RECORD_H

#include "base/arena.h"
#include "base/buf.h"
#include "proto/api.h"

enum stele_metadata_kind {
    STELE_METADATA_FORMAT = 1,
    STELE_METADATA_TOPIC = 2,
    STELE_METADATA_PARTITION = 3,
    STELE_METADATA_SETTING = 4,
    STELE_METADATA_TOPIC_REMOVED = 5,
    STELE_METADATA_PRODUCER_IDS = 6,
    /* of level 2 */
    STELE_METADATA_NODE = 7,
    STELE_METADATA_NODE_REMOVED = 8,
    STELE_METADATA_LEADER_CHANGE = 9,
    STELE_METADATA_VOTERS = 10,
    STELE_METADATA_LEVEL_CHANGE = 11,
    STELE_METADATA_LOST_RANGE = 12,
};

/** A replica of the metadata log that votes. */
struct stele_voter {
    int32_t node_id;
    struct stele_uuid directory_id;
    const char *host; /* of its peer listener */
    int32_t port;
};

struct stele_metadata_record {
    enum stele_metadata_kind kind;
    union {
        struct {
            const char *format; /* "stele" */
            int32_t level;      /* feature level: 1 */
            const char *cluster_id;
        } format;
        struct {
            const char *name;
            struct stele_uuid topic_id;
        } topic;
        struct {
            struct stele_uuid topic_id;
            int32_t partition;
            int32_t leader_id, leader_epoch, partition_epoch;
            const int32_t *replicas;
            size_t replica_count;
            const int32_t *isr;
            size_t isr_count;
            const int32_t *elr;
            size_t elr_count;
            const int32_t *last_known_elr;
            size_t last_known_elr_count;
            const int32_t *adding;
            size_t adding_count;
            const int32_t *removing;
            size_t removing_count;
            bool is_recovering;     /* after an unclean election */
            const int32_t *offline; /* replicas whose disk or log failed in the present life of their node */
            size_t offline_count;
            bool is_unsynced; /* flush.before.ack was switched on, and not all in sync have synced since */
        } partition;
        struct {
            int32_t scope;       /* enum stele_subject_kind */
            const char *subject; /* a node id, "" of the cluster, or a topic name */
            const char *name;
            const char *value; /* NULL: back to what it is without */
        } setting;
        struct {
            struct stele_uuid topic_id;
            const char *name; /* for a snapshot, which does not tell of the topic any more */
        } topic_removed;
        struct {
            int64_t next_producer_id; /* the first that no block holds yet: those below may have been given */
        } producer_ids;
        struct { /* the node as it is from here on */
            int32_t node_id;
            struct stele_uuid incarnation_id;
            int64_t node_epoch; /* the offset of the record that registered it */
            struct stele_uuid boot_id;
            const char *rack;
            const struct stele_listener_address *listeners;
            size_t listener_count;
            const struct stele_node_directory_id *directories;
            size_t directory_count;
            const struct stele_node_directory_id *offline_directories;
            size_t offline_directory_count;
            int32_t level_min, level_max;
            bool is_fenced, is_shutting_down;
            const char *software_version;
            int64_t served_epoch; /* of its last life that was not fenced; 0: none is known */
        } node;
        struct {
            int32_t node_id;
        } node_removed;
        struct { /* the first record of a leader's epoch (KIP-595) */
            int32_t leader_id;
            const struct stele_quorum_replica *voters;
            size_t voter_count;
            const struct stele_quorum_replica *granting; /* who voted for it */
            size_t granting_count;
        } leader_change;
        struct { /* holds as soon as it is appended (KIP-853) */
            const struct stele_voter *voters;
            size_t voter_count;
        } voters;
        struct {
            int32_t level;
        } level;
        struct { /* what an unclean election lost */
            struct stele_uuid topic_id;
            int32_t partition;
            int32_t leader_epoch; /* of the new leader */
            int64_t first_offset, end_offset;
        } lost_range;
    } u;
};

/** Errors: MALFORMED, UNSUPPORTED_VERSION (a kind of a newer level), NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_metadata_record_decode(struct stele_arena *arena, const uint8_t *bytes,
                                                             size_t count, struct stele_metadata_record *out_record);
/** Encodes into arena memory. */
STELE_MUST_CHECK enum stele_err stele_metadata_record_encode(struct stele_arena *arena,
                                                             const struct stele_metadata_record *record,
                                                             uint8_t **out_bytes, size_t *out_count);

#endif
