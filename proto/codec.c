#include "proto/codec.h"

#include "proto/codec_admin.h"
#include "proto/codec_fields.h"
#include "proto/codec_peer.h"
#include "proto/frame.h"
#include "stele.pb-c.h"

/* protobuf-c frees piece by piece while it parses; an arena gives all back at once. */
static void *memory_alloc(void *arg, size_t bytes)
{
    struct stele_codec_memory *memory = arg;
    void *ptr = stele_arena_alloc(memory->arena, bytes);
    if (ptr == NULL)
        memory->has_failed = true;
    return ptr;
}

static void memory_free(void *arg, void *ptr)
{
    (void)arg;
    (void)ptr;
}

void stele_codec_memory_init(struct stele_codec_memory *memory, struct stele_arena *arena)
{
    *memory = (struct stele_codec_memory){
        .allocator = {.alloc = memory_alloc, .free = memory_free, .allocator_data = memory}, .arena = arena};
}

enum stele_err stele_codec_unpack(struct stele_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                                  const uint8_t *bytes, size_t count, ProtobufCMessage **out_message)
{
    struct stele_codec_memory memory;
    stele_codec_memory_init(&memory, arena);
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &memory.allocator, count, bytes);
    if (message == NULL)
        return memory.has_failed ? STELE_NO_MEMORY : STELE_MALFORMED;
    *out_message = message;
    return STELE_OK;
}

/* The messages, each after those it is made of. */

#define API_RANGE(F)                                                                                                   \
    F(int, api)                                                                                                        \
    F(int, version_min)                                                                                                \
    F(int, version_max)
STELE_CODEC_MESSAGE(api_range, struct stele_api_range, Stele__Wire__ApiRange, API_RANGE)
STELE_CODEC_ARRAY(api_range, struct stele_api_range, Stele__Wire__ApiRange)

#define HELLO_REQUEST(F)                                                                                               \
    F(text, software_name)                                                                                             \
    F(text, software_version)                                                                                          \
    F(choice, role, STELE_ROLE_ADMIN)                                                                                  \
    F(int, node_id)                                                                                                    \
    F(text, cluster_id)                                                                                                \
    F(list, apis, api_count, api_range)
STELE_CODEC_MESSAGE(hello_request, struct stele_hello_request, Stele__Wire__HelloRequest, HELLO_REQUEST)

#define HELLO_RESPONSE(F)                                                                                              \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(text, cluster_id)                                                                                                \
    F(int, node_id)                                                                                                    \
    F(text, software_name)                                                                                             \
    F(text, software_version)                                                                                          \
    F(list, apis, api_count, api_range)
STELE_CODEC_MESSAGE(hello_response, struct stele_hello_response, Stele__Wire__HelloResponse, HELLO_RESPONSE)

#define METADATA_REQUEST(F)                                                                                            \
    F(int, all_topics)                                                                                                 \
    F(texts, topics, topic_count)                                                                                      \
    F(int, allow_auto_topic_creation)
STELE_CODEC_MESSAGE(metadata_request, struct stele_metadata_request, Stele__Wire__MetadataRequest, METADATA_REQUEST)

#define METADATA_NODE(F)                                                                                               \
    F(int, node_id)                                                                                                    \
    F(text, host)                                                                                                      \
    F(int, port)                                                                                                       \
    F(text, rack)
STELE_CODEC_MESSAGE(metadata_node, struct stele_metadata_node, Stele__Wire__MetadataNode, METADATA_NODE)
STELE_CODEC_ARRAY(metadata_node, struct stele_metadata_node, Stele__Wire__MetadataNode)

#define METADATA_PARTITION(F)                                                                                          \
    F(err, err)                                                                                                        \
    F(int, partition)                                                                                                  \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(ints, replicas, replica_count)                                                                                   \
    F(ints, isr, isr_count)
STELE_CODEC_MESSAGE(metadata_partition, struct stele_metadata_partition, Stele__Wire__MetadataPartition,
                    METADATA_PARTITION)
STELE_CODEC_ARRAY(metadata_partition, struct stele_metadata_partition, Stele__Wire__MetadataPartition)

#define METADATA_TOPIC(F)                                                                                              \
    F(err, err)                                                                                                        \
    F(text, name)                                                                                                      \
    F(uuid, topic_id)                                                                                                  \
    F(int, is_internal)                                                                                                \
    F(list, partitions, partition_count, metadata_partition)
STELE_CODEC_MESSAGE(metadata_topic, struct stele_metadata_topic, Stele__Wire__MetadataTopic, METADATA_TOPIC)
STELE_CODEC_ARRAY(metadata_topic, struct stele_metadata_topic, Stele__Wire__MetadataTopic)

#define METADATA_RESPONSE(F)                                                                                           \
    F(err, err)                                                                                                        \
    F(text, cluster_id)                                                                                                \
    F(int, controller_id)                                                                                              \
    F(list, nodes, node_count, metadata_node)                                                                          \
    F(list, topics, topic_count, metadata_topic)
STELE_CODEC_MESSAGE(metadata_response, struct stele_metadata_response, Stele__Wire__MetadataResponse, METADATA_RESPONSE)

#define CREATE_TOPIC_REQUEST(F)                                                                                        \
    F(text, name)                                                                                                      \
    F(int, partition_count)                                                                                            \
    F(int, replication_factor)                                                                                         \
    F(list, settings, setting_count, setting_pair)                                                                     \
    F(int, timeout_ms)                                                                                                 \
    F(int, validate_only)                                                                                              \
    F(list, assignments, assignment_count, assigned_partition)
STELE_CODEC_MESSAGE(create_topic_request, struct stele_create_topic_request, Stele__Wire__CreateTopicRequest,
                    CREATE_TOPIC_REQUEST)

#define CREATE_TOPIC_RESPONSE(F)                                                                                       \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition_count)                                                                                            \
    F(int, replication_factor)
STELE_CODEC_MESSAGE(create_topic_response, struct stele_create_topic_response, Stele__Wire__CreateTopicResponse,
                    CREATE_TOPIC_RESPONSE)

#define PRODUCE_PARTITION(F)                                                                                           \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, records_bytes)
STELE_CODEC_MESSAGE(produce_partition, struct stele_produce_partition, Stele__Wire__ProducePartition, PRODUCE_PARTITION)
STELE_CODEC_ARRAY(produce_partition, struct stele_produce_partition, Stele__Wire__ProducePartition)

#define PRODUCE_REQUEST(F)                                                                                             \
    F(int, acks)                                                                                                       \
    F(int, timeout_ms)                                                                                                 \
    F(list, partitions, partition_count, produce_partition)
STELE_CODEC_MESSAGE(produce_request, struct stele_produce_request, Stele__Wire__ProduceRequest, PRODUCE_REQUEST)

#define PRODUCE_RESULT(F)                                                                                              \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, base_offset)                                                                                                \
    F(int, log_append_time_ms)                                                                                         \
    F(int, log_start_offset)                                                                                           \
    F(choice, durability, STELE_DURABILITY_SYNCED)                                                                     \
    F(int, current_leader_id)                                                                                          \
    F(int, current_leader_epoch)
STELE_CODEC_MESSAGE(produce_result, struct stele_produce_result, Stele__Wire__ProduceResult, PRODUCE_RESULT)
STELE_CODEC_ARRAY(produce_result, struct stele_produce_result, Stele__Wire__ProduceResult)

#define PRODUCE_RESPONSE(F)                                                                                            \
    F(list, results, result_count, produce_result)                                                                     \
    F(list, nodes, node_count, metadata_node)
STELE_CODEC_MESSAGE(produce_response, struct stele_produce_response, Stele__Wire__ProduceResponse, PRODUCE_RESPONSE)

#define FETCH_PARTITION(F)                                                                                             \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, fetch_offset)                                                                                               \
    F(int, max_bytes)                                                                                                  \
    F(int, current_leader_epoch)                                                                                       \
    F(int, last_fetched_epoch)                                                                                         \
    F(int, log_start_offset)                                                                                           \
    F(int, synced_offset)                                                                                              \
    F(int, known_high_watermark)                                                                                       \
    F(int, damaged_offset)                                                                                             \
    F(int, doubted_offset)
STELE_CODEC_MESSAGE(fetch_partition, struct stele_fetch_partition, Stele__Wire__FetchPartition, FETCH_PARTITION)
STELE_CODEC_ARRAY(fetch_partition, struct stele_fetch_partition, Stele__Wire__FetchPartition)

#define FORGOTTEN_PARTITION(F)                                                                                         \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)
STELE_CODEC_MESSAGE(forgotten_partition, struct stele_forgotten_partition, Stele__Wire__ForgottenPartition,
                    FORGOTTEN_PARTITION)
STELE_CODEC_ARRAY(forgotten_partition, struct stele_forgotten_partition, Stele__Wire__ForgottenPartition)

#define FETCH_REQUEST(F)                                                                                               \
    F(int, replica_id)                                                                                                 \
    F(int, max_wait_ms)                                                                                                \
    F(int, min_bytes)                                                                                                  \
    F(int, max_bytes)                                                                                                  \
    F(choice, isolation, STELE_READ_COMMITTED)                                                                         \
    F(list, partitions, partition_count, fetch_partition)                                                              \
    F(text, cluster_id)                                                                                                \
    F(uuid, replica_directory_id)                                                                                      \
    F(int, replica_epoch)                                                                                              \
    F(int, session_id)                                                                                                 \
    F(int, session_epoch)                                                                                              \
    F(list, forgotten, forgotten_count, forgotten_partition)                                                           \
    F(text, rack)
STELE_CODEC_MESSAGE(fetch_request, struct stele_fetch_request, Stele__Wire__FetchRequest, FETCH_REQUEST)

#define ABORTED_TRANSACTION(F)                                                                                         \
    F(int, producer_id)                                                                                                \
    F(int, first_offset)
STELE_CODEC_MESSAGE(aborted_transaction, struct stele_aborted_transaction, Stele__Wire__AbortedTransaction,
                    ABORTED_TRANSACTION)
STELE_CODEC_ARRAY(aborted_transaction, struct stele_aborted_transaction, Stele__Wire__AbortedTransaction)

#define FETCH_RESULT(F)                                                                                                \
    F(err, err)                                                                                                        \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, high_watermark)                                                                                             \
    F(int, last_stable_offset)                                                                                         \
    F(int, log_start_offset)                                                                                           \
    F(list, aborted, aborted_count, aborted_transaction)                                                               \
    F(int, records_bytes)                                                                                              \
    F(int, current_leader_id)                                                                                          \
    F(int, current_leader_epoch)                                                                                       \
    F(int, diverging_epoch)                                                                                            \
    F(int, diverging_end_offset)                                                                                       \
    F(int, snapshot_end_offset)                                                                                        \
    F(int, snapshot_epoch)                                                                                             \
    F(int, preferred_read_replica)                                                                                     \
    F(int, log_end_offset)
STELE_CODEC_MESSAGE(fetch_result, struct stele_fetch_result, Stele__Wire__FetchResult, FETCH_RESULT)
STELE_CODEC_ARRAY(fetch_result, struct stele_fetch_result, Stele__Wire__FetchResult)

#define FETCH_RESPONSE(F)                                                                                              \
    F(err, err)                                                                                                        \
    F(list, results, result_count, fetch_result)                                                                       \
    F(int, session_id)                                                                                                 \
    F(list, nodes, node_count, metadata_node)
STELE_CODEC_MESSAGE(fetch_response, struct stele_fetch_response, Stele__Wire__FetchResponse, FETCH_RESPONSE)

#define LIST_OFFSETS_PARTITION(F)                                                                                      \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, current_leader_epoch)                                                                                       \
    F(int, timestamp)
STELE_CODEC_MESSAGE(list_offsets_partition, struct stele_list_offsets_partition, Stele__Wire__ListOffsetsPartition,
                    LIST_OFFSETS_PARTITION)
STELE_CODEC_ARRAY(list_offsets_partition, struct stele_list_offsets_partition, Stele__Wire__ListOffsetsPartition)

#define LIST_OFFSETS_REQUEST(F)                                                                                        \
    F(int, replica_id)                                                                                                 \
    F(choice, isolation, STELE_READ_COMMITTED)                                                                         \
    F(list, partitions, partition_count, list_offsets_partition)
STELE_CODEC_MESSAGE(list_offsets_request, struct stele_list_offsets_request, Stele__Wire__ListOffsetsRequest,
                    LIST_OFFSETS_REQUEST)

#define LIST_OFFSETS_RESULT(F)                                                                                         \
    F(err, err)                                                                                                        \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, offset)                                                                                                     \
    F(int, timestamp)                                                                                                  \
    F(int, leader_epoch)
STELE_CODEC_MESSAGE(list_offsets_result, struct stele_list_offsets_result, Stele__Wire__ListOffsetsResult,
                    LIST_OFFSETS_RESULT)
STELE_CODEC_ARRAY(list_offsets_result, struct stele_list_offsets_result, Stele__Wire__ListOffsetsResult)

#define LIST_OFFSETS_RESPONSE(F) F(list, results, result_count, list_offsets_result)
STELE_CODEC_MESSAGE(list_offsets_response, struct stele_list_offsets_response, Stele__Wire__ListOffsetsResponse,
                    LIST_OFFSETS_RESPONSE)

/* Requests and responses: the header, then the body that api.def names. */

static enum stele_err check_version(int32_t api, int32_t version)
{
    switch (api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case (key):                                                                                                        \
        return version >= (version_min) && version <= (version_max) ? STELE_OK : STELE_UNSUPPORTED_VERSION;
#include "proto/api.def"
#undef STELE_API
    default:
        return STELE_UNSUPPORTED_VERSION;
    }
}

static enum stele_err request_body_get(struct stele_arena *arena, const Stele__Wire__Request *message,
                                       struct stele_request *out)
{
    switch (out->header.api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case STELE_API_##name:                                                                                             \
        return message->stem != NULL ? stem##_request_get(arena, message->stem, &out->body.stem) : STELE_MALFORMED;
#include "proto/api.def"
#undef STELE_API
    }
    return STELE_UNSUPPORTED_VERSION;
}

static enum stele_err response_body_get(struct stele_arena *arena, const Stele__Wire__Response *message,
                                        struct stele_response *out)
{
    switch (out->header.api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case STELE_API_##name:                                                                                             \
        return message->stem != NULL ? stem##_response_get(arena, message->stem, &out->body.stem) : STELE_MALFORMED;
#include "proto/api.def"
#undef STELE_API
    }
    return STELE_UNSUPPORTED_VERSION;
}

enum stele_err stele_request_decode(struct stele_arena *arena, const uint8_t *bytes, size_t count,
                                    struct stele_request *out)
{
    ProtobufCMessage *base;
    memset(out, 0, sizeof(*out));
    enum stele_err err = stele_codec_unpack(arena, &stele__wire__request__descriptor, bytes, count, &base);
    if (err != STELE_OK)
        return err;
    const Stele__Wire__Request *message = (const Stele__Wire__Request *)base;
    out->header = (struct stele_request_header){
        .api = (enum stele_api)message->api,
        .version = (int32_t)message->version,
        .correlation_id = message->correlation_id,
        .client_id = message->client_id,
    };
    err = check_version(message->api, out->header.version);
    return err == STELE_OK ? request_body_get(arena, message, out) : err;
}

enum stele_err stele_response_decode(struct stele_arena *arena, const uint8_t *bytes, size_t count,
                                     struct stele_response *out)
{
    ProtobufCMessage *base;
    memset(out, 0, sizeof(*out));
    enum stele_err err = stele_codec_unpack(arena, &stele__wire__response__descriptor, bytes, count, &base);
    if (err != STELE_OK)
        return err;
    const Stele__Wire__Response *message = (const Stele__Wire__Response *)base;
    out->header = (struct stele_response_header){
        .api = (enum stele_api)message->api,
        .version = (int32_t)message->version,
        .correlation_id = message->correlation_id,
        .throttle_time_ms = (int32_t)message->throttle_time_ms,
        .metadata_offset = message->metadata_offset,
        .is_refused = message->is_refused,
    };
    err = check_version(message->api, out->header.version);
    return err == STELE_OK ? response_body_get(arena, message, out) : err;
}

/* A buffer of the arena's memory with the frame header and the packed message. */
static enum stele_err frame_of(struct stele_arena *arena, const ProtobufCMessage *message, size_t records_bytes,
                               struct stele_buf **out_frame)
{
    size_t message_bytes = protobuf_c_message_get_packed_size(message);
    if (message_bytes > STELE_FRAME_MESSAGE_BYTES_MAX || records_bytes > UINT32_MAX - 4 - message_bytes)
        return STELE_TOO_LARGE;
    struct stele_buf *frame = stele_buf_new(arena->mem, STELE_MEM_WIRE, STELE_FRAME_HEADER_BYTES + message_bytes);
    if (frame == NULL)
        return STELE_NO_MEMORY;
    struct stele_frame_header header = {.frame_bytes = (uint32_t)(4 + message_bytes + records_bytes),
                                        .message_bytes = (uint32_t)message_bytes};
    stele_frame_header_write(&header, frame->bytes);
    frame->count = STELE_FRAME_HEADER_BYTES + protobuf_c_message_pack(message, frame->bytes + STELE_FRAME_HEADER_BYTES);
    *out_frame = frame;
    return STELE_OK;
}

static enum stele_err request_body_put(struct stele_arena *arena, const struct stele_request *request,
                                       Stele__Wire__Request *message)
{
    switch (request->header.api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case STELE_API_##name:                                                                                             \
        message->stem = stele_arena_alloc(arena, sizeof(*message->stem));                                              \
        return message->stem != NULL ? stem##_request_put(arena, &request->body.stem, message->stem) : STELE_NO_MEMORY;
#include "proto/api.def"
#undef STELE_API
    }
    return STELE_INVALID_ARGUMENT;
}

static enum stele_err response_body_put(struct stele_arena *arena, const struct stele_response *response,
                                        Stele__Wire__Response *message)
{
    switch (response->header.api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case STELE_API_##name:                                                                                             \
        message->stem = stele_arena_alloc(arena, sizeof(*message->stem));                                              \
        return message->stem != NULL ? stem##_response_put(arena, &response->body.stem, message->stem)                 \
                                     : STELE_NO_MEMORY;
#include "proto/api.def"
#undef STELE_API
    }
    return STELE_INVALID_ARGUMENT;
}

enum stele_err stele_request_encode(struct stele_arena *arena, const struct stele_request *request,
                                    size_t records_bytes, struct stele_buf **out_frame)
{
    Stele__Wire__Request message = STELE__WIRE__REQUEST__INIT;
    message.has_api = message.has_version = message.has_correlation_id = 1;
    message.api = (int32_t)request->header.api;
    message.version = (uint32_t)request->header.version;
    message.correlation_id = request->header.correlation_id;
    message.client_id = stele_codec_borrow(request->header.client_id);
    enum stele_err err = request_body_put(arena, request, &message);
    return err == STELE_OK ? frame_of(arena, &message.base, records_bytes, out_frame) : err;
}

enum stele_err stele_response_encode(struct stele_arena *arena, const struct stele_response *response,
                                     size_t records_bytes, struct stele_buf **out_frame)
{
    Stele__Wire__Response message = STELE__WIRE__RESPONSE__INIT;
    message.has_api = message.has_version = message.has_correlation_id = 1;
    message.api = (int32_t)response->header.api;
    message.version = (uint32_t)response->header.version;
    message.correlation_id = response->header.correlation_id;
    message.has_throttle_time_ms = response->header.throttle_time_ms != 0;
    message.throttle_time_ms = (uint32_t)response->header.throttle_time_ms;
    message.has_metadata_offset = response->header.metadata_offset != 0;
    message.metadata_offset = response->header.metadata_offset;
    message.has_is_refused = message.is_refused = response->header.is_refused;
    enum stele_err err = response_body_put(arena, response, &message);
    return err == STELE_OK ? frame_of(arena, &message.base, records_bytes, out_frame) : err;
}
