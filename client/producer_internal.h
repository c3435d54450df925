/* The inside of a producer: producer.c (the calls of the public header), producer_send.c (batches on their way) and
 * producer_split.c (batches that are too large). */
#ifndef STELE_CLIENT_PRODUCER_INTERNAL_H
#define STELE_CLIENT_PRODUCER_INTERNAL_H

#include "client/client_internal.h"
#include "client/refresh.h"
#include "proto/record_batch.h"

/** A sealed batch with what send was told of its records. */
struct sealed {
    struct stele_list link;
    struct part_queue *queue;
    struct stele_buf *batch;
    uint64_t *tags;
    int32_t count;
    int64_t deadline_ms;
    struct stele_call call;
    bool is_calling;
    bool is_doubtful; /* a request with it ended so that nobody knows whether it was written */
    bool is_stamped;  /* carries a producer id, epoch and sequence */
    bool is_acked;    /* before those in front of it, which go again */
    int64_t acked_offset;
    enum stele_durability acked_durability;
};

struct identity {
    int64_t producer_id; /* -1: none */
    int16_t epoch;
};

/** What waits for a partition. */
struct part_queue {
    struct stele_producer *producer;
    int32_t partition;
    struct stele_client_node *node; /* to which those under way went; NULL: none went yet */
    struct stele_batch_builder *builder;
    uint64_t *tags; /* of the batch being built */
    int32_t tag_capacity;
    int64_t linger_ms;   /* when the batch being built is sealed */
    int64_t deadline_ms; /* when its first record must be delivered */
    struct stele_list sealed;
    int32_t sealed_count, calling_count, acked_count, unstamped_count;
    struct identity identity;
    int32_t next_sequence;
    bool has_footing;    /* a batch was acknowledged since the last failure, by this connection */
    int64_t acked_ms;    /* when the last one was */
    bool is_broken;      /* the next sequence is not the one that the log waits for: a new epoch is needed */
    bool needs_identity; /* the log refuses this one: a new producer id is needed */
    struct stele_backoff backoff;
};

struct stele_producer {
    struct stele_client *client;
    struct stele_client_part part;
    char *topic;
    struct stele_uuid topic_id;
    struct stele_leaders leaders;
    struct part_queue **queues;
    int32_t queue_count; /* of every partition that the topic has or had */
    int32_t partitions, sticky;
    struct stele_refresh refresh;
    void (*delivered)(void *arg, const struct stele_delivery *delivery);
    void *arg;
    struct stele_batch_options options;
    int64_t linger_ms, delivery_timeout_ms, buffer_bytes_max, buffered_bytes;
    int32_t request_timeout_ms, acks, window, retries_max;
    size_t batch_bytes, record_bytes_max;
    size_t pending;
    struct stele_settings *settings;
    bool is_ending; /* nothing is told or sent any more */

    bool is_idempotent;
    struct identity identity; /* the newest */
    bool wants_identity;
    struct stele_call identity_call;
    bool is_asking;
    struct stele_backoff identity_backoff;
};

struct sealed *stele_producer__first(const struct part_queue *queue);
void stele_producer__free_sealed(struct sealed *sealed);
/** Ends the batch being built. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_producer__seal(struct part_queue *queue);
/** Starts what can be started. */
void stele_producer__drive(struct part_queue *queue, int64_t now_ms);
void stele_producer__tick(struct stele_client_part *part, int64_t now_ms);
int64_t stele_producer__deadline(const struct stele_client_part *part);
/** The first batch of a queue becomes two. Errors: NO_MEMORY and what reading the batch may say; nothing changed. */
STELE_MUST_CHECK enum stele_err stele_producer__split(struct part_queue *queue);

#endif
