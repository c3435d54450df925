#include "proto/metadata_record.h"

#include "proto/codec_fields.h"
#include "stele.pb-c.h"

/* The plain structs have no names of their own. */
typedef __typeof__(((struct stele_metadata_record *)0)->u.format) plain_format;
typedef __typeof__(((struct stele_metadata_record *)0)->u.topic) plain_topic;
typedef __typeof__(((struct stele_metadata_record *)0)->u.partition) plain_partition;
typedef __typeof__(((struct stele_metadata_record *)0)->u.setting) plain_setting;
typedef __typeof__(((struct stele_metadata_record *)0)->u.topic_removed) plain_topic_removed;
typedef __typeof__(((struct stele_metadata_record *)0)->u.producer_ids) plain_producer_ids;

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
    F(ints, isr, isr_count)
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

/* Every kind once: enum name, field of stele.proto and of the plain union. */
#define KINDS(K)                                                                                                       \
    K(FORMAT, format)                                                                                                  \
    K(TOPIC, topic)                                                                                                    \
    K(PARTITION, partition)                                                                                            \
    K(SETTING, setting)                                                                                                \
    K(TOPIC_REMOVED, topic_removed)                                                                                    \
    K(PRODUCER_IDS, producer_ids)

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
