/* Logs that our storage writes for real Kafka to read, with a trivial model of what must be found in them. made_log.c
 * appends and keeps the model, write_logs.c makes the directories. */
#ifndef STELE_CLUSTER_TESTS_KAFKA_MADE_LOG_H
#define STELE_CLUSTER_TESTS_KAFKA_MADE_LOG_H

#include "base/test/support.h"
#include "storage/log.h"

#include <stdio.h>

enum { MADE_PRODUCERS = 4 };

/* What the log must know of a producer. */
struct made_producer {
    int64_t id; /* -1: it never wrote */
    int16_t epoch;
    int32_t next_sequence;     /* of the next batch */
    int32_t last_sequence;     /* -1 none in this epoch */
    int32_t coordinator_epoch; /* -1 none */
    int64_t last_timestamp;
    int64_t txn_first_offset; /* -1 none */
};

struct made_record {
    int64_t offset, timestamp;
    bool is_control, is_aborted;
    int64_t txn_producer; /* of a record of a transaction; otherwise -1 */
    char *text;           /* what a consumer prints after the offset; NULL of a control record */
};

struct made_world {
    struct stele_test_env test;
    struct stele_file_cache *cache;
    struct stele_prng prng;
    int64_t first_ms; /* record times begin here */
};

struct made_log {
    struct made_world *world;
    struct stele_log *log;
    const char *topic;
    struct stele_log_config config;
    int32_t leader_epoch;
    int64_t start, end;  /* as they must be */
    bool is_time_unsure; /* no look-up by time is to be made */
    struct made_producer producers[MADE_PRODUCERS];
    struct made_record *records;
    int count, capacity;
};

struct made_batch {
    enum stele_codec codec;
    int producer; /* index of a producer; -1: none */
    bool is_txn;
    int records;
    int value_bytes_max;
};

/** Appends random records as a leader does. */
void made_append(struct made_log *made, const struct made_batch *batch);
/** The same as a follower takes them: `batches` of them in one append. */
void made_replicate(struct made_log *made, const struct made_batch *batch, int batches);
/** Ends the open transaction of a producer by a marker. */
void made_end_txn(struct made_log *made, int producer, bool is_commit);
/** Prints what a consumer and the admin's questions must find. */
void made_print(const struct made_log *made, FILE *out);
void made_free(struct made_log *made);

#endif
