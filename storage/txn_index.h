/* Aborted transactions of a segment (facts 2.8): entries of 34 bytes: int16 version 0 | int64 producer id | int64 first
 * offset | int64 last offset (the abort marker's) | int64 last stable offset at that time. Appended in order of last
 * offset. The file exists only when an abort was written. */
#ifndef STELE_STORAGE_TXN_INDEX_H
#define STELE_STORAGE_TXN_INDEX_H

#include "storage/offset_index.h"

struct stele_aborted_txn {
    int64_t producer_id, first_offset, last_offset, last_stable_offset;
};

struct stele_txn_index {
    struct stele_env *env;
    struct stele_cached_file *file;
    int64_t base_offset;
    struct stele_aborted_txn *entries; /* all of them, loaded at first use */
    int count, capacity;
    int unwritten; /* the last so many of them found no room on the disk and wait for the next write */
    bool is_loaded, exists;
    bool is_replace_due; /* the file is corrupt: the next write puts all entries in its place */
};

STELE_MUST_CHECK enum stele_err stele_txn_index_init(struct stele_txn_index *index, struct stele_env *env,
                                                     struct stele_file_cache *cache, const char *path,
                                                     int64_t base_offset, bool exists);
void stele_txn_index_close(struct stele_txn_index *index);
/** Errors: CORRUPT (version, order), IO, NO_MEMORY. A partial last entry is ignored. */
STELE_MUST_CHECK enum stele_err stele_txn_index_load(struct stele_txn_index *index);
/** After load said CORRUPT: goes on empty, in memory, until write replaces the file, durably and as a whole. Before
 * that it is still known to be corrupt to whoever loads it. */
void stele_txn_index_restart(struct stele_txn_index *index);
/** Makes room, so that appending `more` entries needs neither memory nor a new name. Errors: as load. */
STELE_MUST_CHECK enum stele_err stele_txn_index_reserve(struct stele_txn_index *index, int more);
/** Adds and writes; on a full disk the entry stays in memory until write. Errors: INVALID_ARGUMENT (not after the
 * last), IO, NO_MEMORY (never after reserve). */
STELE_MUST_CHECK enum stele_err stele_txn_index_append(struct stele_txn_index *index,
                                                       const struct stele_aborted_txn *txn);
/** Writes what waits. Errors: IO, NO_SPACE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_txn_index_write(struct stele_txn_index *index);
/** Keeps entries with last_offset < offset. */
STELE_MUST_CHECK enum stele_err stele_txn_index_truncate(struct stele_txn_index *index, int64_t offset);
STELE_MUST_CHECK enum stele_err stele_aborted_txn_read(const uint8_t bytes[STELE_TXN_ENTRY_BYTES],
                                                       struct stele_aborted_txn *out_txn);
void stele_aborted_txn_write(const struct stele_aborted_txn *txn, uint8_t out_bytes[STELE_TXN_ENTRY_BYTES]);

#endif
