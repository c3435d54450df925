/* Sparse index from offset to file position (facts 3). An entry is 8 bytes: int32 last offset of a batch - base offset
 * of the segment, int32 position where that batch starts. Example, base 100, last 102 at 4096: 00 00 00 02 00 00 10 00.
 *
 * The index of an active segment lives in memory and goes out through the vfs on flush, roll and close; a sealed one is
 * mapped read-only on first use. Indexes are hints: trailing zero entries are dropped on open, and a caller that finds
 * an entry wrong rebuilds. */
#ifndef STELE_STORAGE_OFFSET_INDEX_H
#define STELE_STORAGE_OFFSET_INDEX_H

#include "storage/file_cache.h"

enum { STELE_OFFSET_ENTRY_BYTES = 8, STELE_TIME_ENTRY_BYTES = 12, STELE_TXN_ENTRY_BYTES = 34 };

struct stele_offset_entry {
    int64_t offset; /* absolute */
    int64_t pos;
};

/* The store behind offset and time index: `entry_bytes` a piece. */
struct stele_index {
    struct stele_env *env;
    struct stele_cached_file *file;
    int64_t base_offset;
    int entry_bytes;
    int64_t capacity; /* entries that segment.index.bytes allows */
    int64_t count;    /* -1: sealed and not yet loaded */
    uint8_t *memory;  /* active: count entries, grown by doubling */
    int64_t memory_capacity;
    int64_t written;       /* active: entries that the file holds */
    const uint8_t *mapped; /* sealed; mapped_bytes of it */
    size_t mapped_bytes;
    struct stele_file_cache *cache; /* NULL: private use of a job */
    bool is_active, exists;
    bool is_cut_due; /* active: the file may hold more than `written` entries */
    struct stele_list lru;
};

/** An index of no entries, active, no file yet. `path` is the whole path of the file. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_index_create(struct stele_index *index, struct stele_env *env,
                                                   struct stele_file_cache *cache, const char *path,
                                                   int64_t base_offset, int entry_bytes, int64_t index_bytes_max);
/** An existing file, sealed; loaded at first use. */
STELE_MUST_CHECK enum stele_err stele_index_open(struct stele_index *index, struct stele_env *env,
                                                 struct stele_file_cache *cache, const char *path, int64_t base_offset,
                                                 int entry_bytes, int64_t index_bytes_max);
void stele_index_attach(struct stele_index *index, struct stele_file_cache *cache);
void stele_index_close(struct stele_index *index);
/** Brings a sealed index's entries into memory so that it may be appended to (the last segment after a start). */
STELE_MUST_CHECK enum stele_err stele_index_activate(struct stele_index *index);
/** Writes entries not yet written. May be called for a job's sync right after. */
STELE_MUST_CHECK enum stele_err stele_index_write(struct stele_index *index);
/** Writes, cuts the file to size (a 0-byte file when empty) and forgets the memory: the index is sealed. */
STELE_MUST_CHECK enum stele_err stele_index_seal(struct stele_index *index);
/** Makes sure that `more` appends need no memory. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_index_reserve(struct stele_index *index, int64_t more);
/** Drops all entries, in memory and (at the next write) in the file. */
void stele_index_clear(struct stele_index *index);

bool stele_offset_index_is_full(const struct stele_index *index);
/** Errors: INVALID_ARGUMENT when the offset does not rise or leaves the range of int32 (callers roll before),
 * NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_offset_index_append(struct stele_index *index, int64_t offset, int64_t pos);
/** The last entry with entry.offset <= offset; (base offset, 0) when there is none. `*out_compared` is raised by the
 * entries compared. Warm section first (facts 3.3). */
STELE_MUST_CHECK enum stele_err stele_offset_index_lookup(struct stele_index *index, int64_t offset,
                                                          struct stele_offset_entry *out_entry, int64_t *out_compared);
/** The first entry whose position is >= pos; END when there is none. */
STELE_MUST_CHECK enum stele_err stele_offset_index_at_pos(struct stele_index *index, int64_t pos,
                                                          struct stele_offset_entry *out_entry);
STELE_MUST_CHECK enum stele_err stele_offset_index_entry(struct stele_index *index, int64_t at,
                                                         struct stele_offset_entry *out_entry);
/** Keeps entries with offset < `offset`. */
STELE_MUST_CHECK enum stele_err stele_offset_index_truncate(struct stele_index *index, int64_t offset);
STELE_MUST_CHECK enum stele_err stele_index_count(struct stele_index *index, int64_t *out_count);

#endif
