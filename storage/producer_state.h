/* What a log knows of producers (facts 9 and 2.7; KIP-98): the last batches of each for duplicate detection, sequences,
 * epochs, open and just completed transactions, and the snapshots of it.
 *
 * Invariants: 1. map_end is the offset up to which batches were applied. 2. A producer holds at most 5 batches, all of
 * its present epoch.
 * 3. first_unstable is the smallest first offset of the open transactions and of those completed at or above the high
 * watermark. */
#ifndef STELE_STORAGE_PRODUCER_STATE_H
#define STELE_STORAGE_PRODUCER_STATE_H

#include "base/env.h"
#include "proto/record_batch.h"

struct stele_producers;

enum stele_origin {
    STELE_ORIGIN_CLIENT,
    STELE_ORIGIN_REPLICATION, /* followers and replay: lenient */
    STELE_ORIGIN_COORDINATOR, /* markers and internal topics: no sequence checks */
    STELE_ORIGIN_METADATA,    /* the metadata log's leader: offsets given */
};

STELE_MUST_CHECK struct stele_producers *stele_producers_new(struct stele_mem *mem, int64_t expiration_ms);
void stele_producers_free(struct stele_producers *producers);

struct stele_duplicate {
    int64_t base_offset, last_offset, timestamp;
};

struct stele_completed_txn {
    int64_t producer_id, first_offset, last_offset; /* last: the marker's */
    bool is_aborted;
};

/** Checks a batch about to be appended; changes nothing. *out_is_duplicate true: answer with *out_duplicate and append
 * nothing. `control` is the batch's control record, or NULL for data. Errors: OUT_OF_ORDER_SEQUENCE_NUMBER,
 * INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED. */
STELE_MUST_CHECK enum stele_err stele_producers_check(const struct stele_producers *producers,
                                                      const struct stele_batch_header *header,
                                                      const struct stele_control *control, enum stele_origin origin,
                                                      bool *out_is_duplicate, struct stele_duplicate *out_duplicate);
/** Makes room so that the apply of a batch of this producer, as the last of `batches` batches whose producers are all
 * reserved, cannot fail. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_producers_reserve(struct stele_producers *producers, int64_t producer_id,
                                                        int batches);
/** Applies an appended (or replayed) batch; needs reserve. True and *out_txn set when a marker ended an open
 * transaction. */
bool stele_producers_apply(struct stele_producers *producers, const struct stele_batch_header *header,
                           const struct stele_control *control, struct stele_completed_txn *out_txn);
/** The last stable offset as of a transaction just ended by apply: first offset of the next OTHER open one, else its
 * marker offset + 1 (facts 5.1, T71). */
int64_t stele_producers_lso_after(const struct stele_producers *producers, const struct stele_completed_txn *txn);

int64_t stele_producers_map_end(const struct stele_producers *producers);
void stele_producers_set_map_end(struct stele_producers *producers, int64_t offset);
/** -1 when nothing is unstable. */
int64_t stele_producers_first_unstable(const struct stele_producers *producers);
/** Forgets completed transactions whose marker is below the new high watermark. */
void stele_producers_on_high_watermark(struct stele_producers *producers, int64_t high_watermark);
void stele_producers_on_log_start(struct stele_producers *producers, int64_t log_start_offset);
/** Drops producers without open transaction whose last timestamp is too old. Returns how many. */
int stele_producers_expire(struct stele_producers *producers, int64_t wall_ms);
void stele_producers_clear(struct stele_producers *producers, int64_t map_end);
bool stele_producers_is_empty(const struct stele_producers *producers);
int stele_producers_count(const struct stele_producers *producers);

/** One producer as plain data, for verify, dump and tests. */
struct stele_producer_entry {
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t last_sequence; /* -1 */
    int64_t last_offset;   /* -1 */
    int32_t offset_delta;
    int64_t timestamp;
    int32_t coordinator_epoch; /* -1 */
    int64_t txn_first_offset;  /* -1 none */
};

/** Calls `each` in ascending producer id. */
void stele_producers_each(const struct stele_producers *producers,
                          void (*each)(void *arg, const struct stele_producer_entry *entry), void *arg);

/* Snapshot: int16 version 1 | uint32 crc32c of all after it | int32 count | count entries of 46 bytes (facts 2.7). */
enum { STELE_SNAPSHOT_HEADER_BYTES = 10, STELE_SNAPSHOT_ENTRY_BYTES = 46 };

/** The snapshot's bytes (entries in ascending producer id); caller frees. */
STELE_MUST_CHECK enum stele_err stele_producers_snapshot(const struct stele_producers *producers, uint8_t **out_bytes,
                                                         size_t *out_count);
/** Replaces the content by a snapshot taken at `offset`; expired ones are left out (wall_ms; pass INT64_MIN to keep
 * all). Errors: CORRUPT (version, crc, length), NO_MEMORY; the content is then empty. */
STELE_MUST_CHECK enum stele_err stele_producers_load(struct stele_producers *producers, const uint8_t *bytes,
                                                     size_t count, int64_t offset, int64_t wall_ms);
/** Decodes without a map. `out_entry` NULL counts only. Errors: CORRUPT. */
STELE_MUST_CHECK enum stele_err stele_snapshot_entry(const uint8_t *bytes, size_t count, int index,
                                                     struct stele_producer_entry *out_entry);
STELE_MUST_CHECK enum stele_err stele_snapshot_check(const uint8_t *bytes, size_t count, int *out_entries);

#endif
