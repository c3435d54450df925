/* One append-only file of batches with its three indexes. The log file's name is its base offset in 20 digits.
 *
 * Invariants
 *  1. `bytes` is the size readers may look at; it only moves after the bytes are written. It never passes INT32_MAX.
 *  2. A sealed segment's files do not change until it is deleted or truncated.
 *  3. (max_timestamp, offset_of_max_timestamp) is one pair: the largest batch max_timestamp and the last offset of the
 * first batch that had it. */
#ifndef STELE_STORAGE_SEGMENT_H
#define STELE_STORAGE_SEGMENT_H

#include "proto/record_batch.h"
#include "storage/log_config.h"
#include "storage/time_index.h"
#include "storage/txn_index.h"

/* A batch that was appended not long ago: readers at the end of a log ask for these again and again. */
struct stele_segment_recent {
    int64_t base_offset, wall_ms;
    int32_t pos, length, last_offset_delta; /* as in its header; length 0: none */
};
enum { STELE_RECENT_MAX = 8 };

struct stele_segment {
    struct stele_env *env;
    char *dir; /* of the partition; borrowed from the log */
    int64_t base_offset;
    int64_t bytes;
    struct stele_cached_file *file;
    struct stele_index offsets, times;
    struct stele_txn_index txns;
    int64_t max_timestamp; /* -1 none */
    int64_t offset_of_max_timestamp;
    bool is_max_known;        /* a sealed segment learns it from the last time index entry at first use */
    int64_t hidden_timestamp; /* what damage in it may hide is not younger; -1: it hides nothing */
    int64_t first_timestamp;  /* max_timestamp of its first batch; -1 none or not read yet */
    bool is_first_known;
    int64_t created_ms;        /* wall time when this object was made */
    int64_t jitter_ms;         /* drawn once */
    int64_t bytes_since_entry; /* since the last indexed batch's start */
    int64_t bytes_since_write_back;
    int64_t index_interval_bytes;      /* of the configuration last seen */
    bool is_index_rebuilt;             /* since it was opened: entries that are missing are missing for a reason */
    int64_t mtime_ms;                  /* of the .log when opened, or of the last append */
    struct stele_offset_entry *joints; /* first batches behind damage, ascending: a lookup may start there */
    int joint_count;
    struct stele_segment_recent recent[STELE_RECENT_MAX]; /* the latest at recent_count - 1, modulo their number */
    uint32_t recent_count;
    bool is_unsynced; /* since a flush last took its files: a roll changes them behind the recovery point */
};

enum { STELE_SEGMENT_NAME_BYTES = 48 };
/** "00000000000000000042" + suffix, for instance ".log" or ".log.deleted". */
void stele_segment_name(int64_t base_offset, const char *suffix, char out_name[STELE_SEGMENT_NAME_BYTES]);
/** The number before the first dot. False when the name has none or it is not digits only. */
bool stele_segment_name_parse(const char *name, int64_t *out_base_offset, const char **out_suffix);

/** Makes an empty active segment; stale files of the same name are deleted first. */
STELE_MUST_CHECK enum stele_err stele_segment_create(struct stele_env *env, struct stele_file_cache *cache, char *dir,
                                                     int64_t base_offset, const struct stele_log_config *config,
                                                     struct stele_segment **out_seg);
/** The same where it is known that there are none. */
STELE_MUST_CHECK enum stele_err stele_segment_create_only(struct stele_env *env, struct stele_file_cache *cache,
                                                          char *dir, int64_t base_offset,
                                                          const struct stele_log_config *config,
                                                          struct stele_segment **out_seg);
/** An existing one, sealed, its files not yet opened. Errors: NOT_FOUND, TOO_LARGE (beyond INT32_MAX bytes), IO. */
STELE_MUST_CHECK enum stele_err stele_segment_open(struct stele_env *env, struct stele_file_cache *cache, char *dir,
                                                   int64_t base_offset, const struct stele_log_config *config,
                                                   struct stele_segment **out_seg);
void stele_segment_attach(struct stele_segment *seg, struct stele_file_cache *cache);
/** Gives up memory and references; files stay. NULL is fine. */
void stele_segment_free(struct stele_segment *seg);
/** Makes the last segment ready for appends, after a start and after a roll that failed: indexes into memory, max
 * timestamp known. */
STELE_MUST_CHECK enum stele_err stele_segment_activate(struct stele_segment *seg);

/** Writes one or more batches that lie in `bytes`, updates indexes by facts 3.4. `headers` are their decoded headers.
 * On failure `bytes` stands where it was: the segment may be truncated to it by the caller. */
STELE_MUST_CHECK enum stele_err stele_segment_append(struct stele_segment *seg, const struct stele_log_config *config,
                                                     const uint8_t *bytes, size_t count,
                                                     const struct stele_batch_header *headers, int header_count);
/** What was appended and not taken by this call before, but for the newest, when it is log.write.back.bytes or more. */
bool stele_segment_take_write_back(struct stele_segment *seg, const struct stele_log_config *config, int64_t *out_pos,
                                   int64_t *out_bytes);
/** Closing time entry, indexes cut to size, log cut to `bytes` (drops preallocation). The segment is sealed. No sync.
 */
STELE_MUST_CHECK enum stele_err stele_segment_seal(struct stele_segment *seg);

/** The first batch whose last offset is >= offset, header only. Scans headers from the index entry; an index that is
 * wrong is rebuilt. Errors: END (none in this segment; *out_pos is its end), CORRUPT (the scan met damage or a torn
 * batch: position in *out_pos), IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_segment_find(struct stele_segment *seg, int64_t offset, int64_t *out_pos,
                                                   struct stele_batch_header *out_header);
/** The same from memory, for the base offset of a batch among the last that were appended here: where it is and its
 * header's offset, length and last offset; the rest of it is zero. False: it is not known so. */
bool stele_segment_find_recent(struct stele_segment *seg, int64_t offset, int64_t *out_pos,
                               struct stele_batch_header *out_header);
/** NULL: it is not known so. */
const struct stele_segment_recent *stele_segment_recent(const struct stele_segment *seg, int64_t offset);
/** Decodes the header at `pos` and its whole size. Errors: END (exactly at `bytes`), CORRUPT (also for a
 * batch that runs past `bytes`). */
STELE_MUST_CHECK enum stele_err stele_segment_header_at(struct stele_segment *seg, int64_t pos,
                                                        struct stele_batch_header *out_header, int64_t *out_bytes);

/** An offset that no batch before position `pos` reaches, from the first index entry at or after it. END: no entry. */
STELE_MUST_CHECK enum stele_err stele_segment_offset_after(struct stele_segment *seg, int64_t pos, int64_t *out_offset);

/** Cuts everything from the batch that holds `offset` on. The segment must be active or is activated. */
STELE_MUST_CHECK enum stele_err stele_segment_truncate(struct stele_segment *seg, int64_t offset);

/** Rebuilds offset and time index from the log file with file positions; the txn index stays. */
STELE_MUST_CHECK enum stele_err stele_segment_rebuild_indexes(struct stele_segment *seg,
                                                              const struct stele_log_config *config);

/** The two parts of a rebuild, for a caller that reads the log itself (recovery). restart: offset and time index become
 * empty and active, the largest timestamp unknown; a transaction index that does not parse is started anew, a sound
 * one stays. index_batch: the entries of facts 3.4 for a whole batch at file position `pos`, full or not, as append
 * makes them too. */
STELE_MUST_CHECK enum stele_err stele_segment_restart_indexes(struct stele_segment *seg);
STELE_MUST_CHECK enum stele_err stele_segment_index_batch(struct stele_segment *seg,
                                                          const struct stele_log_config *config, int64_t pos,
                                                          int64_t bytes, const struct stele_batch_header *header);

/** Largest timestamp (learned lazily), else the file's mtime. The time index is checked against the log before it is
 * believed. */
STELE_MUST_CHECK enum stele_err stele_segment_largest_timestamp(struct stele_segment *seg, int64_t *out_timestamp);
/** The same, and not before what damage hides: what time retention compares. INT64_MAX: nobody knows how young it is.
 */
STELE_MUST_CHECK enum stele_err stele_segment_keep_timestamp(struct stele_segment *seg, int64_t *out_timestamp);
/** There is damage in it: the records there may be as young as the file. */
void stele_segment_hides(struct stele_segment *seg);
STELE_MUST_CHECK enum stele_err stele_segment_first_timestamp(struct stele_segment *seg, int64_t *out_timestamp);

/** A range of the .log. */
struct stele_segment_range {
    int64_t pos, bytes;
};
/** From the indexes alone: what a find of `offset`, `more` bytes after it included, or the start of a search by time
 * reads of the .log. What is not in the page cache is to be read in by a job first. */
STELE_MUST_CHECK enum stele_err stele_segment_range_of(struct stele_segment *seg, int64_t offset, int64_t more,
                                                       struct stele_segment_range *out);

/* A search by time (facts 5.3): the first record with timestamp >= timestamp and offset >= offset_min is found by time
 * index, offset index and scan to a batch that may hold it, then in that batch, by a job where that may take long. */
struct stele_time_search {
    int64_t timestamp, offset_min;
    size_t unpacked_bytes_max; /* of one batch */
    bool wants_largest; /* of a batch, of its records that fit the one with the largest timestamp, not the first */
};
struct stele_time_found {
    int64_t offset, timestamp;
    int32_t leader_epoch;
};
STELE_MUST_CHECK enum stele_err stele_segment_range_of_time(struct stele_segment *seg,
                                                            const struct stele_time_search *search,
                                                            struct stele_segment_range *out);
/** The next batch, after *inout_batch, that may hold the record; the first for a pos of -1 (and bytes 0). Errors: END,
 * CORRUPT (damage at inout_batch->pos), IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_segment_time_next(struct stele_segment *seg,
                                                        const struct stele_time_search *search,
                                                        struct stele_segment_range *inout_batch);
/** Reads the batch and looks for the record (job; the file is pinned). Errors: END when it has none, CORRUPT, IO,
 * NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_segment_time_in_batch(struct stele_mem *mem, struct stele_file *file,
                                                            const struct stele_segment_range *range,
                                                            const struct stele_time_search *search,
                                                            struct stele_time_found *out_found);

/** Syncs .log, .index, .timeindex, .txnindex in this order; of an active segment, whose indexes are in memory, only
 * .log and .txnindex. The caller pinned the files; may run in a job (files only). */
struct stele_segment_sync {
    const char *dir; /* the log's */
    struct stele_cached_file *cached[4];
    struct stele_file *files[4];
};
/** On the loop: writes transactions out, pins what is there. release unpins, on the loop. */
STELE_MUST_CHECK enum stele_err stele_segment_sync_begin(struct stele_segment *seg,
                                                         struct stele_segment_sync *out_sync);
STELE_MUST_CHECK enum stele_err stele_segment_sync_run(struct stele_segment_sync *sync);
void stele_segment_sync_release(struct stele_segment_sync *sync);

/** Unlinks the files of a segment that is not open. Takes no memory. Missing ones are fine. */
STELE_MUST_CHECK enum stele_err stele_segment_unlink_files(struct stele_env *env, const char *dir, int64_t base_offset);
/** Renames all files to *.deleted. Missing ones are fine; after a failure it may be asked again. */
STELE_MUST_CHECK enum stele_err stele_segment_mark_deleted(struct stele_segment *seg);
/** Unlinks files named after base_offset with suffix ".deleted" (job). */
STELE_MUST_CHECK enum stele_err stele_segment_unlink_deleted(struct stele_vfs *vfs, const char *dir,
                                                             int64_t base_offset);

/** The batch of base offset `offset` at `pos` is the first one behind damage. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_segment_add_joint(struct stele_segment *seg, int64_t offset, int64_t pos);
struct stele_scan;
struct stele_scanned;
/** stele_scan_next of a scan of this segment's file that goes on behind known damage. */
STELE_MUST_CHECK enum stele_err stele_segment_scan_next(const struct stele_segment *seg, struct stele_scan *scan,
                                                        struct stele_scanned *out);
/** Between segment.c and segment_lookup.c: the pair of invariant 3 from the last time entry and the batches after the
 * last offset entry; closing entry and both indexes sealed. */
STELE_MUST_CHECK enum stele_err stele_segment__learn_max(struct stele_segment *seg);
STELE_MUST_CHECK enum stele_err stele_segment__seal_indexes(struct stele_segment *seg);

/** Asserts the invariants. */
void stele_segment_check(const struct stele_segment *seg);

#endif
