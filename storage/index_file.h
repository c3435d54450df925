/* Inside of the two sparse indexes: their common store and the search over it. */
#ifndef STELE_STORAGE_INDEX_FILE_H
#define STELE_STORAGE_INDEX_FILE_H

#include "storage/offset_index.h"

/** The bytes of all entries, loaded when the index is sealed and was not yet; count entries lie there. */
STELE_MUST_CHECK enum stele_err stele_index__entries(struct stele_index *index, const uint8_t **out_entries);
/** Adds one entry's bytes to an active index; room was reserved or is made here. */
STELE_MUST_CHECK enum stele_err stele_index__push(struct stele_index *index, const uint8_t *entry);
/** The bytes of one entry. Errors: END (there is none at `at`). */
STELE_MUST_CHECK enum stele_err stele_index__entry(struct stele_index *index, int64_t at, const uint8_t **out_entry);

/** The key of the entry at `at`, as the two indexes define it. */
typedef int64_t (*stele_index_key)(const struct stele_index *index, const uint8_t *entry);
/** The last entry whose key is <= target, or -1. The entries of the last 8 KiB are tried first, since readers and
 * replicas mostly look there and a plain search would touch cold pages (KAFKA-6432). Entries compared are added to
 * *inout_compared. */
int64_t stele_index__search(const struct stele_index *index, const uint8_t *entries, stele_index_key key,
                            int64_t target, int64_t *inout_compared);
/** Keeps the entries whose key is below `bound`; the index becomes active. */
STELE_MUST_CHECK enum stele_err stele_index__keep_below(struct stele_index *index, stele_index_key key, int64_t bound);

#endif
