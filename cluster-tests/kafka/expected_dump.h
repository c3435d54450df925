/* What kafka-dump-log said of a partition (expected/ of the samples), as data. */
#ifndef STELE_CLUSTER_TESTS_KAFKA_EXPECTED_DUMP_H
#define STELE_CLUSTER_TESTS_KAFKA_EXPECTED_DUMP_H

#include "base/test/support.h"

struct expected_batch {
    int64_t segment_base, pos, bytes;
    int64_t base_offset, last_offset, producer_id, max_timestamp;
    int32_t record_count, base_sequence, last_sequence, producer_epoch, leader_epoch;
    bool is_transactional, is_control, is_valid;
    uint32_t crc;
    int first_record; /* index in records; record_count of them */
};

struct expected_record {
    int64_t offset, timestamp;
    bool is_abort, is_commit;
};

struct expected_txn {
    int64_t segment_base, producer_id, first_offset, last_offset, last_stable_offset;
};

struct expected_entry { /* of an offset index (value: position) or a time index (value: timestamp) */
    int64_t segment_base, offset, value;
};

struct expected_producer {
    int64_t snapshot, producer_id, txn_first_offset, last_timestamp; /* txn_first_offset -1: none */
    int32_t producer_epoch, coordinator_epoch;
    int64_t last_sequence, last_offset, offset_delta; /* -1, -1, 0: no batch */
};

enum { EXPECTED_SEGMENTS_MAX = 16 };

struct expected_partition {
    int64_t bases[EXPECTED_SEGMENTS_MAX];
    int base_count;
    struct expected_batch *batches;
    struct expected_record *records;
    struct expected_txn *txns;
    struct expected_entry *offsets, *times;
    struct expected_producer *producers;
    int batch_count, record_count, txn_count, offset_count, time_count, producer_count;
};

/** Reads every file of `expected`/ that begins with PREFIX_, for instance "clean_txn-0". */
void expected_load(struct expected_partition *expected, const char *dir, const char *prefix);
void expected_free(struct expected_partition *expected);

/** The offset after the last batch; the first base of an empty log. */
int64_t expected_end(const struct expected_partition *expected);
/** The first batch whose last offset is >= offset; NULL when there is none. */
const struct expected_batch *expected_find(const struct expected_partition *expected, int64_t offset);

#endif
