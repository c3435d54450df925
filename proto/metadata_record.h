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
