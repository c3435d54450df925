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

/** Name and value of a setting; ends with a row of NULLs. Settings: client.id (stele), request.timeout.ms (30000),
 * max.in.flight.requests.per.connection (5), and those of producer and consumer below, which they then start from. */
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
/** The version text of the library, for instance "0.1.0". */
STELE_EXPORT const char *stele_version(void);

/* Admin: each call polls until it is answered or request.timeout.ms passed. */

struct stele_topic_info {
    char name[250];
    char topic_id[23];
    int32_t partition_count;
    bool is_internal;
};

STELE_EXPORT struct stele_result stele_topic_create(struct stele_client *client, const char *topic, int32_t partitions,
                                                    const struct stele_setting *settings);
/** `each` is called for every topic in name order. */
STELE_EXPORT struct stele_result
stele_topic_list(struct stele_client *client, void (*each)(void *arg, const struct stele_topic_info *info), void *arg);
/** STELE_OFFSET_ values or a time: the offset of the first record at or after it; -1 when there is none. */
STELE_EXPORT struct stele_result stele_offset_at(struct stele_client *client, const char *topic, int32_t partition,
                                                 int64_t time_ms, int64_t *out_offset);

enum { STELE_OFFSET_LATEST = -1, STELE_OFFSET_EARLIEST = -2, STELE_OFFSET_MAX_TIMESTAMP = -3 };

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

/** Settings: acks (all), linger.ms (5), batch.size (16384), compression.type (none), delivery.timeout.ms (120000),
 * buffer.memory (33554432). With acks=0 a record counts as delivered, at offset -1, once it was handed to the system.
 * A request of unknown fate is sent again, so a record may be there twice; order within a partition is kept. Polls. */
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

/** A consumer of one topic by assignment. Settings: fetch.min.bytes (1), fetch.max.wait.ms (500), fetch.max.bytes
 * (52428800), max.partition.fetch.bytes (1048576), check.crcs (true), isolation.level (read_uncommitted). */
STELE_EXPORT struct stele_consumer *stele_consumer_new(struct stele_client *client, const char *topic,
                                                       const struct stele_setting *settings,
                                                       struct stele_result *result);
/** How many partitions the topic had when the consumer was made. */
STELE_EXPORT int32_t stele_consumer_partitions(const struct stele_consumer *consumer);
/** Reads `partition` from `offset` on; what was fetched of it before is forgotten. */
STELE_EXPORT struct stele_result stele_consumer_assign(struct stele_consumer *consumer, int32_t partition,
                                                       int64_t offset);
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
