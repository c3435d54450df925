#include "proto/metadata_record.h"

#include "proto/codec_peer.h"
#include "stele.pb-c.h"

/* The plain structs have no names of their own. */
typedef __typeof__(((struct stele_metadata_record *)0)->u.format) plain_format;
typedef __typeof__(((struct stele_metadata_record *)0)->u.topic) plain_topic;
typedef __typeof__(((struct stele_metadata_record *)0)->u.partition) plain_partition;
typedef __typeof__(((struct stele_metadata_record *)0)->u.setting) plain_setting;
typedef __typeof__(((struct stele_metadata_record *)0)->u.topic_removed) plain_topic_removed;
typedef __typeof__(((struct stele_metadata_record *)0)->u.producer_ids) plain_producer_ids;
typedef __typeof__(((struct stele_metadata_record *)0)->u.node) plain_node;
typedef __typeof__(((struct stele_metadata_record *)0)->u.node_removed) plain_node_removed;
typedef __typeof__(((struct stele_metadata_record *)0)->u.leader_change) plain_leader_change;
typedef __typeof__(((struct stele_metadata_record *)0)->u.voters) plain_voters;
typedef __typeof__(((struct stele_metadata_record *)0)->u.level) plain_level;
typedef __typeof__(((struct stele_metadata_record *)0)->u.lost_range) plain_lost_range;

#define FORMAT(F)                                                                                                      \
    F(text, format)                                                                                                    \
    F(int, level)                                                                                                      \
    F(text, cluster_id)
STELE_CODEC_MESSAGE(format_record, plain_format, Stele__Wire__FormatRecord, FORMAT)

#define TOPIC(F)                                                                                                       \
    F(text, name)                                                                                                      \
    F(uuid, topic_id)
STELE_CODEC_MESSAGE(topic_record, plain_topic, Stele__Wire__TopicRecord, TOPIC)

#define PARTITION(F)                                                                                                   \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, partition_epoch)                                                                                            \
    F(ints, replicas, replica_count)                                                                                   \
    F(ints, isr, isr_count)                                                                                            \
    F(ints, elr, elr_count)                                                                                            \
    F(ints, last_known_elr, last_known_elr_count)                                                                      \
    F(ints, adding, adding_count)                                                                                      \
    F(ints, removing, removing_count)                                                                                  \
    F(int, is_recovering)                                                                                              \
    F(ints, offline, offline_count)                                                                                    \
    F(int, is_unsynced)
STELE_CODEC_MESSAGE(partition_record, plain_partition, Stele__Wire__PartitionRecord, PARTITION)

#define SETTING(F)                                                                                                     \
    F(int, scope)                                                                                                      \
    F(text, subject)                                                                                                   \
    F(text, name)                                                                                                      \
    F(text0, value)
STELE_CODEC_MESSAGE(setting_record, plain_setting, Stele__Wire__SettingRecord, SETTING)

#define TOPIC_REMOVED(F)                                                                                               \
    F(uuid, topic_id)                                                                                                  \
    F(text, name)
STELE_CODEC_MESSAGE(topic_removed_record, plain_topic_removed, Stele__Wire__TopicRemovedRecord, TOPIC_REMOVED)

#define PRODUCER_IDS(F) F(int, next_producer_id)
STELE_CODEC_MESSAGE(producer_ids_record, plain_producer_ids, Stele__Wire__ProducerIdsRecord, PRODUCER_IDS)

#define NODE(F)                                                                                                        \
    F(int, node_id)                                                                                                    \
    F(uuid, incarnation_id)                                                                                            \
    F(int, node_epoch)                                                                                                 \
    F(uuid, boot_id)                                                                                                   \
    F(text, rack)                                                                                                      \
    F(list, listeners, listener_count, node_listener)                                                                  \
    F(list, directories, directory_count, node_directory_id)                                                           \
    F(list, offline_directories, offline_directory_count, node_directory_id)                                           \
    F(int, level_min)                                                                                                  \
    F(int, level_max)                                                                                                  \
    F(int, is_fenced)                                                                                                  \
    F(int, is_shutting_down)                                                                                           \
    F(text, software_version)                                                                                          \
    F(int, served_epoch)
STELE_CODEC_MESSAGE(node_record, plain_node, Stele__Wire__NodeRecord, NODE)

#define NODE_REMOVED(F) F(int, node_id)
STELE_CODEC_MESSAGE(node_removed_record, plain_node_removed, Stele__Wire__NodeRemovedRecord, NODE_REMOVED)

#define LEADER_CHANGE(F)                                                                                               \
    F(int, leader_id)                                                                                                  \
    F(list, voters, voter_count, quorum_replica)                                                                       \
    F(list, granting, granting_count, quorum_replica)
STELE_CODEC_MESSAGE(leader_change_record, plain_leader_change, Stele__Wire__LeaderChangeRecord, LEADER_CHANGE)

#define VOTER(F)                                                                                                       \
    F(int, node_id)                                                                                                    \
    F(uuid, directory_id)                                                                                              \
    F(text, host)                                                                                                      \
    F(int, port)
STELE_CODEC_MESSAGE(voter, struct stele_voter, Stele__Wire__Voter, VOTER)
STELE_CODEC_ARRAY(voter, struct stele_voter, Stele__Wire__Voter)

#define VOTERS(F) F(list, voters, voter_count, voter)
STELE_CODEC_MESSAGE(voters_record, plain_voters, Stele__Wire__VotersRecord, VOTERS)

#define LEVEL(F) F(int, level)
STELE_CODEC_MESSAGE(level_record, plain_level, Stele__Wire__LevelRecord, LEVEL)

#define LOST_RANGE(F)                                                                                                  \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, first_offset)                                                                                               \
    F(int, end_offset)
STELE_CODEC_MESSAGE(lost_range_record, plain_lost_range, Stele__Wire__LostRangeRecord, LOST_RANGE)

/* Every kind once: enum name, field of stele.proto and of the plain union. */
#define KINDS(K)                                                                                                       \
    K(FORMAT, format)                                                                                                  \
    K(TOPIC, topic)                                                                                                    \
    K(PARTITION, partition)                                                                                            \
    K(SETTING, setting)                                                                                                \
    K(TOPIC_REMOVED, topic_removed)                                                                                    \
    K(PRODUCER_IDS, producer_ids)                                                                                      \
    K(NODE, node)                                                                                                      \
    K(NODE_REMOVED, node_removed)                                                                                      \
    K(LEADER_CHANGE, leader_change)                                                                                    \
    K(VOTERS, voters)                                                                                                  \
    K(LEVEL_CHANGE, level)                                                                                             \
    K(LOST_RANGE, lost_range)

enum stele_err stele_metadata_record_decode(struct stele_arena *arena, const uint8_t *bytes, size_t count,
                                            struct stele_metadata_record *out_record)
{
    ProtobufCMessage *base;
    enum stele_err err = stele_codec_unpack(arena, &stele__wire__metadata_record__descriptor, bytes, count, &base);
    if (err != STELE_OK)
        return err;
    const Stele__Wire__MetadataRecord *message = (const Stele__Wire__MetadataRecord *)base;
    int found = 0;
#define K(name, stem) found += message->stem != NULL;
    KINDS(K)
#undef K
    if (found == 0 && base->n_unknown_fields > 0)
        return STELE_UNSUPPORTED_VERSION;
    if (found != 1)
        return STELE_MALFORMED;
    struct stele_metadata_record record = {0};
#define K(name, stem)                                                                                                  \
    if (message->stem != NULL) {                                                                                       \
        record.kind = STELE_METADATA_##name;                                                                           \
        err = stem##_record_get(arena, message->stem, &record.u.stem);                                                 \
    }
    KINDS(K)
#undef K
    if (err == STELE_OK)
        *out_record = record;
    return err;
}

static enum stele_err body_put(struct stele_arena *arena, const struct stele_metadata_record *record,
                               Stele__Wire__MetadataRecord *message)
{
    switch (record->kind) {
#define K(name, stem)                                                                                                  \
    case STELE_METADATA_##name:                                                                                        \
        message->stem = stele_arena_alloc(arena, sizeof(*message->stem));                                              \
        return message->stem != NULL ? stem##_record_put(arena, &record->u.stem, message->stem) : STELE_NO_MEMORY;
        KINDS(K)
#undef K
    }
    return STELE_INVALID_ARGUMENT;
}

enum stele_err stele_metadata_record_encode(struct stele_arena *arena, const struct stele_metadata_record *record,
                                            uint8_t **out_bytes, size_t *out_count)
{
    Stele__Wire__MetadataRecord message = STELE__WIRE__METADATA_RECORD__INIT;
    enum stele_err err = body_put(arena, record, &message);
    if (err != STELE_OK)
        return err;
    size_t count = protobuf_c_message_get_packed_size(&message.base);
    uint8_t *bytes = stele_arena_alloc(arena, count);
    if (bytes == NULL)
        return STELE_NO_MEMORY;
    *out_count = protobuf_c_message_pack(&message.base, bytes);
    *out_bytes = bytes;
    return STELE_OK;
}
