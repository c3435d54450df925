/* Record batch v2 (KIP-98): the one format of records on the wire and on disk. All integers are big-endian.
 *
 * off size type    field
 *   0   8  int64   base_offset             outside the checksum; rewritten by the leader
 *   8   4  int32   length                  bytes after this field: size of the batch - 12; at least 49
 *  12   4  int32   partition_leader_epoch  outside the checksum; -1 none
 *  16   1  int8    magic                   2
 *  17   4  uint32  crc                     CRC-32C over bytes [21, end)
 *  21   2  int16   attributes              see below
 *  23   4  int32   last_offset_delta
 *  27   8  int64   base_timestamp          of the first record; or the delete horizon when attribute bit 6 is set
 *  35   8  int64   max_timestamp           of all records; or the append time (log append time)
 *  43   8  int64   producer_id             -1 none
 *  51   2  int16   producer_epoch          -1 none
 *  53   4  int32   base_sequence           -1 none
 *  57   4  int32   record_count
 *  61  ..          records, or one compressed stream of them
 *
 * attributes: bits 0-2 codec, bit 3 log append time, bit 4 transactional, bit 5 control, bit 6 delete horizon; the rest
 * is neither read nor refused.
 *
 * A record: length varint | attributes int8 | timestamp_delta varlong | offset_delta varint | key_len varint (-1 null)
 * | key | value_len varint (-1 null) | value | header_count varint | headers (key_len varint, key, value_len varint,
 * value). */
#ifndef STELE_PROTO_RECORD_BATCH_H
#define STELE_PROTO_RECORD_BATCH_H

#include "base/cursor.h"
#include "base/err.h"
#include "proto/compress.h"

#define STELE_BATCH_FIELDS(F)                                                                                          \
    F(i64, int64_t, base_offset)                                                                                       \
    F(i32, int32_t, length)                                                                                            \
    F(i32, int32_t, partition_leader_epoch)                                                                            \
    F(i8, int8_t, magic)                                                                                               \
    F(u32, uint32_t, crc)                                                                                              \
    F(i16, int16_t, attributes)                                                                                        \
    F(i32, int32_t, last_offset_delta)                                                                                 \
    F(i64, int64_t, base_timestamp)                                                                                    \
    F(i64, int64_t, max_timestamp)                                                                                     \
    F(i64, int64_t, producer_id)                                                                                       \
    F(i16, int16_t, producer_epoch)                                                                                    \
    F(i32, int32_t, base_sequence)                                                                                     \
    F(i32, int32_t, record_count)

struct stele_batch_header {
#define F(stem, type, name) type name;
    STELE_BATCH_FIELDS(F)
#undef F
};

enum {
#define F(stem, type, name) +(int)sizeof(type)
    STELE_BATCH_HEADER_BYTES = 0 STELE_BATCH_FIELDS(F),
#undef F
    STELE_BATCH_PREFIX_BYTES = 12, /* base_offset and length: the size of a batch is length + 12 */
    STELE_BATCH_LENGTH_MIN = STELE_BATCH_HEADER_BYTES - STELE_BATCH_PREFIX_BYTES,
    STELE_BATCH_POS_LENGTH = 8,
    STELE_BATCH_POS_EPOCH = 12,
    STELE_BATCH_POS_MAGIC = 16,
    STELE_BATCH_POS_CRC = 17,
    STELE_BATCH_POS_ATTRIBUTES = 21,
    STELE_BATCH_POS_MAX_TIMESTAMP = 35,
    STELE_BATCH_POS_PRODUCER_ID = 43,
    STELE_BATCH_POS_PRODUCER_EPOCH = 51,
    STELE_BATCH_POS_BASE_SEQUENCE = 53,
    STELE_BATCH_MAGIC = 2,
};

enum stele_batch_attributes {
    STELE_BATCH_CODEC_MASK = 0x07,
    STELE_BATCH_LOG_APPEND_TIME = 0x08,
    STELE_BATCH_TRANSACTIONAL = 0x10,
    STELE_BATCH_CONTROL = 0x20,
    STELE_BATCH_DELETE_HORIZON = 0x40,
};

enum { STELE_NO_TIMESTAMP = -1, STELE_NO_PRODUCER_ID = -1, STELE_NO_SEQUENCE = -1 };

/** Decodes 61 bytes as they are: no check but that they are there. Errors: CORRUPT_MESSAGE when fewer are left. */
STELE_MUST_CHECK enum stele_err stele_batch_header_read(const void *bytes, size_t count,
                                                        struct stele_batch_header *out_header);
/** Encodes 61 bytes. */
void stele_batch_header_write(const struct stele_batch_header *header, uint8_t out_bytes[STELE_BATCH_HEADER_BYTES]);

/** The whole size of the batch that starts at `bytes`, from its first 12 bytes; 0 when they make no sense
 * (a length below 14: that of the smallest legacy message; facts 1.7). */
int64_t stele_batch_size(const uint8_t bytes[STELE_BATCH_PREFIX_BYTES]);

static inline int64_t stele_batch_last_offset(const struct stele_batch_header *header)
{
    return header->base_offset + header->last_offset_delta;
}

/** Checks what does not need the records: enough bytes for the header, length that equals `count`, magic 2, codec in
 * 0..4, checksum. Errors: CORRUPT_MESSAGE (size or checksum), UNSUPPORTED_FOR_MESSAGE_FORMAT (magic),
 * UNKNOWN_SERVER_ERROR (codec 5..7, as Kafka's leader answers). */
STELE_MUST_CHECK enum stele_err stele_batch_check(const uint8_t *bytes, size_t count,
                                                  struct stele_batch_header *out_header);

/** Rewrites what a leader stamps outside the checksum. */
void stele_batch_stamp(uint8_t *bytes, int64_t base_offset, int32_t partition_leader_epoch);
/** Rewrites attributes and max_timestamp in place and recomputes the checksum. `count` is the batch's size. */
void stele_batch_restamp_time(uint8_t *bytes, size_t count, int16_t attributes, int64_t max_timestamp);
/** The same for what names the producer. */
void stele_batch_restamp_producer(uint8_t *bytes, size_t count, int64_t producer_id, int16_t producer_epoch,
                                  int32_t base_sequence);

/** Producer sequence arithmetic in 0..INT32_MAX (facts 1.1). */
int32_t stele_sequence_add(int32_t sequence, int32_t count);
int32_t stele_sequence_sub(int32_t sequence, int32_t count);

struct stele_record {
    int64_t offset;    /* base_offset + delta */
    int64_t timestamp; /* effective: max_timestamp in a batch of log append time */
    int32_t sequence;  /* -1 none */
    int8_t attributes;
    const uint8_t *key;   /* NULL: null */
    const uint8_t *value; /* NULL: null */
    int32_t key_bytes;    /* 0 when null */
    int32_t value_bytes;
    int32_t header_count;
    const uint8_t *headers; /* encoded; walk with stele_record_header_next */
    size_t headers_bytes;
};

struct stele_record_header {
    const uint8_t *key;   /* not null */
    const uint8_t *value; /* NULL: null */
    int32_t key_bytes, value_bytes;
};

/** Walks the records of one batch. The records' bytes are borrowed: from the batch when it is not compressed, otherwise
 * from memory that the walker holds until deinit. */
struct stele_record_walker {
    struct stele_batch_header header;
    struct stele_reader reader;
    struct stele_mem *mem;
    uint8_t *unpacked; /* NULL when not compressed */
    int32_t done;
};

/** Starts at the first record of a batch that stele_batch_check accepted; unpacks it when it is compressed.
 * Errors: INVALID_RECORD (unpacks beyond unpacked_bytes_max), UNKNOWN_SERVER_ERROR (the stream does not decode),
 * NO_MEMORY. deinit is needed only after OK. */
STELE_MUST_CHECK enum stele_err stele_record_walker_init(struct stele_record_walker *walker, struct stele_mem *mem,
                                                         const uint8_t *batch, size_t count, size_t unpacked_bytes_max);
/** The next record. Errors: END after the last one (and only when nothing is left over), INVALID_RECORD. */
STELE_MUST_CHECK enum stele_err stele_record_next(struct stele_record_walker *walker, struct stele_record *out_record);
/** Back to the first record, without unpacking again. */
void stele_record_walker_rewind(struct stele_record_walker *walker);
void stele_record_walker_deinit(struct stele_record_walker *walker);

/** The headers of a record one after another; false after the last. The record was checked by the walker. */
bool stele_record_header_next(const struct stele_record *record, size_t *inout_pos,
                              struct stele_record_header *out_header);

/** Builds one batch in growing memory. Not compressed until finish. */
struct stele_batch_builder;

struct stele_batch_options {
    enum stele_codec codec;
    int codec_level; /* STELE_CODEC_LEVEL_DEFAULT */
    int64_t base_offset;
    int32_t partition_leader_epoch; /* -1 */
    int64_t producer_id;            /* -1 */
    int16_t producer_epoch;         /* -1 */
    int32_t base_sequence;          /* -1 */
    int16_t attributes;             /* any of LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON; not the codec */
    int64_t log_append_time;        /* with LOG_APPEND_TIME: the max_timestamp */
    int64_t delete_horizon;         /* with DELETE_HORIZON: the base_timestamp */
};

struct stele_header_in {
    const char *key;   /* key_bytes of UTF-8 */
    const void *value; /* NULL: null */
    int32_t key_bytes, value_bytes;
};

struct stele_record_in {
    int64_t timestamp;
    const void *key;   /* NULL: null */
    const void *value; /* NULL: null */
    int32_t key_bytes, value_bytes;
    const struct stele_header_in *headers;
    int32_t header_count;
};

STELE_MUST_CHECK struct stele_batch_builder *stele_batch_builder_new(struct stele_mem *mem,
                                                                     const struct stele_batch_options *options);
/** Appends a record with the next offset delta. Errors: NO_MEMORY, TOO_LARGE (beyond INT32_MAX); the builder is then as
 * before. */
STELE_MUST_CHECK enum stele_err stele_batch_builder_add(struct stele_batch_builder *builder,
                                                        const struct stele_record_in *record);
/** As add, for a record that a walker yielded: its headers are taken over encoded as they are, its offset is not. */
STELE_MUST_CHECK enum stele_err stele_batch_builder_add_walked(struct stele_batch_builder *builder,
                                                               const struct stele_record *record);
/** Room for `bytes` of records ahead of their add, so that the buffer need not grow step by step. Errors: as add. */
STELE_MUST_CHECK enum stele_err stele_batch_builder_reserve(struct stele_batch_builder *builder, size_t bytes);
/** Bytes of the batch so far as if not compressed, header included. */
size_t stele_batch_builder_bytes(const struct stele_batch_builder *builder);
/** How many bytes add would append at most. */
size_t stele_record_bytes_max(const struct stele_record_in *record);
int32_t stele_batch_builder_count(const struct stele_batch_builder *builder);
/** Compresses, fills the header, computes the checksum. The buffer is moved to the caller; the builder is empty again
 * and takes the next batch (set_options may change them). Errors: NO_MEMORY and TOO_LARGE (the builder
 * is as before), INVALID_ARGUMENT (no record). */
STELE_MUST_CHECK enum stele_err stele_batch_builder_finish(struct stele_batch_builder *builder,
                                                           struct stele_buf **out_batch);
void stele_batch_builder_set_options(struct stele_batch_builder *builder, const struct stele_batch_options *options);
void stele_batch_builder_free(struct stele_batch_builder *builder);

/** Control records (facts 1.5). */
enum stele_control_type {
    STELE_CONTROL_ABORT = 0,
    STELE_CONTROL_COMMIT = 1,
    STELE_CONTROL_LEADER_CHANGE = 2,
    STELE_CONTROL_SNAPSHOT_HEADER = 3,
    STELE_CONTROL_SNAPSHOT_FOOTER = 4,
    STELE_CONTROL_KRAFT_VERSION = 5,
    STELE_CONTROL_KRAFT_VOTERS = 6,
    STELE_CONTROL_UNKNOWN = -1,
};

struct stele_control {
    enum stele_control_type type;
    int32_t coordinator_epoch; /* ABORT and COMMIT; otherwise -1 */
};

/** Parses the one record of a control batch. Errors: INVALID_RECORD. */
STELE_MUST_CHECK enum stele_err stele_control_read(const struct stele_record *record,
                                                   struct stele_control *out_control);

#endif
