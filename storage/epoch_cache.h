/* Leader epochs of a log and where each starts (facts 8.7; KIP-101, KIP-279): the content of leader-epoch-checkpoint.
 *
 * Invariants: epochs and start offsets both rise strictly. An entry is in every batch header, so the file is written by
 * a job before the recovery point passes it; until then recovery rebuilds it from the log. */
#ifndef STELE_STORAGE_EPOCH_CACHE_H
#define STELE_STORAGE_EPOCH_CACHE_H

#include "base/env.h"

struct stele_epoch_entry {
    int32_t epoch;
    int64_t start_offset;
};

struct stele_epoch_cache {
    struct stele_mem *mem;
    struct stele_epoch_entry *entries;
    int count, capacity;
    bool is_dirty; /* differs from the file */
};

void stele_epoch_cache_init(struct stele_epoch_cache *cache, struct stele_mem *mem);
void stele_epoch_cache_deinit(struct stele_epoch_cache *cache);

/** Room for so many more: as many assignments need no memory. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_epoch_cache_reserve(struct stele_epoch_cache *cache, int count);
/** Notes that `epoch` starts at `offset`; ignored when it is the latest epoch already; removes entries it contradicts
 * from the tail. Errors: INVALID_ARGUMENT (negative), NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_epoch_cache_assign(struct stele_epoch_cache *cache, int32_t epoch,
                                                         int64_t offset);
void stele_epoch_cache_truncate_from_end(struct stele_epoch_cache *cache, int64_t offset); /* drops start >= offset */
void stele_epoch_cache_truncate_from_start(struct stele_epoch_cache *cache,
                                           int64_t offset); /* the epoch that holds offset starts there */
void stele_epoch_cache_clear(struct stele_epoch_cache *cache);
int32_t stele_epoch_cache_latest(const struct stele_epoch_cache *cache); /* -1 none */
/** The epoch of the batch at `offset`, -1 when unknown. */
int32_t stele_epoch_cache_epoch_at(const struct stele_epoch_cache *cache, int64_t offset);
/** KIP-320's OffsetForLeaderEpoch: the largest known epoch <= `epoch` and its end offset; (-1, -1) when undefined. */
void stele_epoch_cache_end_offset(const struct stele_epoch_cache *cache, int32_t epoch, int64_t log_end_offset,
                                  int32_t *out_epoch, int64_t *out_end_offset);

/** Reads DIR/leader-epoch-checkpoint; a missing or empty file is an empty cache. Errors: CORRUPT. */
STELE_MUST_CHECK enum stele_err stele_epoch_cache_load(struct stele_epoch_cache *cache, struct stele_vfs *vfs,
                                                       const char *dir);
/** The file's text, to be written by stele_vfs_replace (also from a job: take the text on the loop). Caller frees. */
STELE_MUST_CHECK enum stele_err stele_epoch_cache_text(const struct stele_epoch_cache *cache, char **out_text,
                                                       size_t *out_count);

#endif
