/* One row a field of stele.proto: how it goes between the plain struct and the generated one. codec.c and
 * metadata_record.c write a list of rows for each message and STELE_CODEC_MESSAGE makes both directions of it.
 * Row kinds: F(kind, field) for single values, F(list...) below for repeated ones; a field has one name everywhere.
 *
 *   int      integer, bool                     text     string, absent is ""
 *   err      enum stele_err <-> Kafka's number text0    string, absent is NULL
 *   choice   enum, refused beyond its last     uuid     16 bytes, absent is zero
 *   ints     int32 array (borrowed)            texts    array of strings (borrowed)
 *   list     array of messages
 *
 * In the made functions: `arena`, `plain` and `message` are the parameters; `status` is the
 * first failure (NO_MEMORY, MALFORMED), after which nothing more is followed. */
#ifndef STELE_PROTO_CODEC_FIELDS_H
#define STELE_PROTO_CODEC_FIELDS_H

#include "base/arena.h"
#include "base/uuid.h"

#include <protobuf-c/protobuf-c.h>
#include <string.h>

/** protobuf-c's memory during one unpack: an arena, and whether it ever said no. */
struct stele_codec_memory {
    ProtobufCAllocator allocator;
    struct stele_arena *arena;
    bool has_failed;
};

void stele_codec_memory_init(struct stele_codec_memory *memory, struct stele_arena *arena);
/** Unpacks into the arena; *out_message lives as long as it does. Errors: MALFORMED, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_codec_unpack(struct stele_arena *arena,
                                                   const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                                                   size_t count, ProtobufCMessage **out_message);

/** Generated structs have no const; encoding only reads through them. */
static inline void *stele_codec_borrow(const void *ptr)
{
    return (void *)(uintptr_t)ptr;
}

static inline void stele_codec_uuid_put(ProtobufCBinaryData *data, protobuf_c_boolean *has,
                                        const struct stele_uuid *uuid)
{
    *has = !stele_uuid_is_zero(uuid);
    *data = (ProtobufCBinaryData){.len = *has ? sizeof(uuid->bytes) : 0, .data = stele_codec_borrow(uuid->bytes)};
}

static inline enum stele_err stele_codec_uuid_get(const ProtobufCBinaryData *data, protobuf_c_boolean has,
                                                  struct stele_uuid *uuid)
{
    memset(uuid, 0, sizeof(*uuid));
    if (!has)
        return STELE_OK;
    if (data->len != sizeof(uuid->bytes))
        return STELE_MALFORMED;
    memcpy(uuid->bytes, data->data, sizeof(uuid->bytes));
    return STELE_OK;
}

/* Plain to message. */
#define STELE_PUT(kind, ...) STELE_PUT_##kind(__VA_ARGS__)
#define STELE_PUT_int(field) (message->has_##field = 1, message->field = (__typeof__(message->field))plain->field);
#define STELE_PUT_err(field) (message->has_##field = 1, message->field = stele_err_wire(plain->field));
#define STELE_PUT_choice(field, last) STELE_PUT_int(field)
#define STELE_PUT_text(field) message->field = stele_codec_borrow(plain->field != NULL ? plain->field : "");
#define STELE_PUT_text0(field) message->field = stele_codec_borrow(plain->field);
#define STELE_PUT_uuid(field) stele_codec_uuid_put(&message->field, &message->has_##field, &plain->field);
#define STELE_PUT_ints(field, count)                                                                                   \
    (message->field = stele_codec_borrow(plain->field), message->n_##field = plain->count);
#define STELE_PUT_texts(field, count) STELE_PUT_ints(field, count)
#define STELE_PUT_list(field, count, stem)                                                                             \
    if (status == STELE_OK)                                                                                            \
        status = stem##_put_all(arena, plain->field, plain->count, &message->field, &message->n_##field);

/* Message to plain. */
#define STELE_GET(kind, ...) STELE_GET_##kind(__VA_ARGS__)
#define STELE_GET_int(field) plain->field = (__typeof__(plain->field))message->field;
#define STELE_GET_err(field)                                                                                           \
    plain->field = message->field >= INT16_MIN && message->field <= INT16_MAX                                          \
                       ? stele_err_from_wire((int16_t)message->field)                                                  \
                       : STELE_UNKNOWN_SERVER_ERROR;
#define STELE_GET_choice(field, last)                                                                                  \
    if (message->field < 0 || message->field > (int32_t)(last))                                                        \
        status = STELE_MALFORMED;                                                                                      \
    plain->field = (__typeof__(plain->field))message->field;
#define STELE_GET_text(field) plain->field = message->field != NULL ? message->field : "";
#define STELE_GET_text0(field) plain->field = message->field;
#define STELE_GET_uuid(field)                                                                                          \
    if (status == STELE_OK)                                                                                            \
        status = stele_codec_uuid_get(&message->field, message->has_##field, &plain->field);
#define STELE_GET_ints(field, count) (plain->field = message->field, plain->count = message->n_##field);
#define STELE_GET_texts(field, count)                                                                                  \
    (plain->field = (const char *const *)message->field, plain->count = message->n_##field);
#define STELE_GET_list(field, count, stem)                                                                             \
    if (status == STELE_OK)                                                                                            \
        status = stem##_get_all(arena, message->field, message->n_##field, &plain->field, &plain->count);

/* Both directions of one message. */
#define STELE_CODEC_MESSAGE(stem, Plain, Message, FIELDS)                                                              \
    static inline enum stele_err stem##_put(struct stele_arena *arena, const Plain *plain, Message *message)           \
    {                                                                                                                  \
        enum stele_err status = STELE_OK;                                                                              \
        (void)arena;                                                                                                   \
        stele__wire__##stem##__init(message);                                                                          \
        FIELDS(STELE_PUT)                                                                                              \
        return status;                                                                                                 \
    }                                                                                                                  \
    static inline enum stele_err stem##_get(struct stele_arena *arena, const Message *message, Plain *plain)           \
    {                                                                                                                  \
        enum stele_err status = STELE_OK;                                                                              \
        (void)arena;                                                                                                   \
        FIELDS(STELE_GET)                                                                                              \
        return status;                                                                                                 \
    }

/* Both directions of an array of it. The generated array is of pointers into one block of messages. */
#define STELE_CODEC_ARRAY(stem, Plain, Message)                                                                        \
    static inline enum stele_err stem##_put_all(struct stele_arena *arena, const Plain *plains, size_t count,          \
                                                Message ***out_messages, size_t *out_count)                            \
    {                                                                                                                  \
        Message *messages = stele_arena_array(arena, count, sizeof(*messages));                                        \
        Message **pointers = stele_arena_array(arena, count, sizeof(*pointers));                                       \
        enum stele_err status = messages != NULL && pointers != NULL ? STELE_OK : STELE_NO_MEMORY;                     \
        for (size_t i = 0; status == STELE_OK && i < count; i++) {                                                     \
            pointers[i] = &messages[i];                                                                                \
            status = stem##_put(arena, &plains[i], &messages[i]);                                                      \
        }                                                                                                              \
        *out_messages = pointers;                                                                                      \
        *out_count = count;                                                                                            \
        return status;                                                                                                 \
    }                                                                                                                  \
    static inline enum stele_err stem##_get_all(struct stele_arena *arena, Message *const *messages, size_t count,     \
                                                const Plain **out_plains, size_t *out_count)                           \
    {                                                                                                                  \
        Plain *plains = stele_arena_array(arena, count, sizeof(*plains));                                              \
        enum stele_err status = plains != NULL ? STELE_OK : STELE_NO_MEMORY;                                           \
        for (size_t i = 0; status == STELE_OK && i < count; i++)                                                       \
            status = stem##_get(arena, messages[i], &plains[i]);                                                       \
        *out_plains = plains;                                                                                          \
        *out_count = count;                                                                                            \
        return status;                                                                                                 \
    }

#endif
