/* Sparse index from time to offset (facts 3). An entry is 12 bytes: int64 largest timestamp so far, int32 last offset
 * of the batch that first reached it - base offset. Example: 00 00 01 8b cf e5 69 2c 00 00 00 02. Timestamps rise
 * strictly, offsets too. */
#ifndef STELE_STORAGE_TIME_INDEX_H
#define STELE_STORAGE_TIME_INDEX_H

#include "storage/offset_index.h"

struct stele_time_entry {
    int64_t timestamp;
    int64_t offset; /* absolute */
};

/** One slot is kept for the closing entry. */
bool stele_time_index_is_full(const struct stele_index *index);
/** Appends when `timestamp` is greater than the last one; equal or a lower offset is skipped or INVALID_ARGUMENT as
 * facts 3.4 say. `is_closing` ignores the full check. */
STELE_MUST_CHECK enum stele_err stele_time_index_append(struct stele_index *index, int64_t timestamp, int64_t offset,
                                                        bool is_closing);
/** The last entry with entry.timestamp <= timestamp; (-1, base offset) when there is none. */
STELE_MUST_CHECK enum stele_err stele_time_index_lookup(struct stele_index *index, int64_t timestamp,
                                                        struct stele_time_entry *out_entry);
STELE_MUST_CHECK enum stele_err stele_time_index_entry(struct stele_index *index, int64_t at,
                                                       struct stele_time_entry *out_entry);
/** The last entry, or (-1, base offset). */
STELE_MUST_CHECK enum stele_err stele_time_index_last(struct stele_index *index, struct stele_time_entry *out_entry);
/** Keeps entries with offset < `offset`. */
STELE_MUST_CHECK enum stele_err stele_time_index_truncate(struct stele_index *index, int64_t offset);

#endif
