/* A bounded cache of open files, one a shard: 10,000 segments work under a limit of 1,024 descriptors.
 * A stele_cached_file is a name that may be open at the moment. Not thread safe: refs are taken and given back on the
 * shard's loop; a job may use a file that its starter pinned. */
#ifndef STELE_STORAGE_FILE_CACHE_H
#define STELE_STORAGE_FILE_CACHE_H

#include "base/env.h"
#include "base/list.h"
#include "base/net.h"

struct stele_file_cache;

/** At most `open_max` files stay open while unpinned ones can be closed; `map_bytes_max` bounds read-only maps of
 * indexes, in whole pages of 4 KiB. */
STELE_MUST_CHECK struct stele_file_cache *stele_file_cache_new(struct stele_env *env, int open_max,
                                                               int64_t map_bytes_max);
void stele_file_cache_free(struct stele_file_cache *cache); /* every cached file is gone before */

struct stele_cached_file;

/** A counted name with one reference; nothing is opened. `cache` may be NULL (a job's private use: then every pin opens
 * and every last unpin closes) and set later with attach. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_cached_file_new(struct stele_env *env, struct stele_file_cache *cache,
                                                      const char *path, struct stele_cached_file **out_file);
void stele_cached_file_attach(struct stele_cached_file *cached, struct stele_file_cache *cache);
struct stele_cached_file *stele_cached_file_ref(struct stele_cached_file *cached);
void stele_cached_file_unref(struct stele_cached_file *cached);

/** Opens (with `flags` of vfs.h; the cache opens for reading and writing) when needed and keeps it open until unpin.
 * The pin is a reference too. */
STELE_MUST_CHECK enum stele_err stele_cached_file_pin(struct stele_cached_file *cached, struct stele_file **out_file);
void stele_cached_file_unpin(struct stele_cached_file *cached);

/** Renames on disk and here; open descriptors stay good. Errors: as vfs rename; NOT_FOUND leaves the name as it was. */
STELE_MUST_CHECK enum stele_err stele_cached_file_rename(struct stele_cached_file *cached, const char *path);
const char *stele_cached_file_path(const struct stele_cached_file *cached);

/** For a send queue: one that pins while it holds. */
struct stele_send_file *stele_cached_file_send(struct stele_cached_file *cached);

/** The read-only maps of indexes in use, oldest first, and what they may hold. */
struct stele_map_budget {
    struct stele_list maps;
    int64_t bytes, bytes_max;
};
struct stele_map_budget *stele_file_cache_maps(struct stele_file_cache *cache);

int stele_file_cache_open_count(const struct stele_file_cache *cache);

#endif
