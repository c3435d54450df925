/* The seam to files. Two implementations from the first day: host/vfs_posix and cluster-tests/sim/sim_disk.
 *
 * Calls are synchronous and may block; whatever may block for long is called from a job (base/env.h). Writes and reads
 * name their position; there is no file cursor. A created, renamed or unlinked name is durable only after sync_dir of
 * its directory; written bytes and a truncation only after sync of the file. The simulated disk loses what was not
 * synced.
 *
 * Paths are absolute or relative to the process; '/' separates. Thread safety: calls on different files may run in
 * parallel; sync, sync_range and pread may run in parallel with pwritev on one file.
 *
 * Errors that any call may return: IO, NO_SPACE (writing calls), NO_MEMORY, NOT_FOUND (a part of the path is missing).
 */
#ifndef STELE_BASE_VFS_H
#define STELE_BASE_VFS_H

#include "base/err.h"

#include <stdbool.h>
#include <sys/uio.h>

struct stele_vfs;

struct stele_file {
    struct stele_vfs *vfs; /* set by open */
};

enum stele_open_flags {
    STELE_OPEN_READ = 1,      /* read only unless WRITE is given too */
    STELE_OPEN_WRITE = 2,     /* reading and writing */
    STELE_OPEN_CREATE = 4,    /* make it when it is missing */
    STELE_OPEN_TRUNCATE = 8,  /* cut an existing one to 0 bytes */
    STELE_OPEN_EXCLUSIVE = 16 /* with CREATE: EXISTS when it is there */
};

struct stele_stat {
    int64_t bytes;
    int64_t mtime_ms; /* wall clock */
    bool is_dir;
};

enum stele_residency { STELE_RESIDENT_YES, STELE_RESIDENT_NO, STELE_RESIDENT_UNKNOWN };

struct stele_vfs_ops {
    /* files */
    enum stele_err (*open)(struct stele_vfs *vfs, const char *path, unsigned flags, struct stele_file **out_file);
    void (*close)(struct stele_file *file);
    /* Reads up to `bytes`; fewer at the end of the file or when the call was cut short; 0 only at the end. */
    enum stele_err (*pread)(struct stele_file *file, void *out_bytes, size_t bytes, int64_t pos, size_t *out_count);
    /* Writes up to the sum of `iov`; may write fewer (> 0) and return OK. */
    enum stele_err (*pwritev)(struct stele_file *file, const struct iovec *iov, int iov_count, int64_t pos,
                              size_t *out_count);
    enum stele_err (*sync)(struct stele_file *file); /* data and metadata, as fsync(2) */
    /* Starts write-back of a range without waiting; a hint, and no promise of durability. */
    void (*sync_range)(struct stele_file *file, int64_t pos, int64_t bytes);
    enum stele_err (*truncate)(struct stele_file *file, int64_t bytes); /* also extends, with zeros */
    enum stele_err (*allocate)(struct stele_file *file,
                               int64_t bytes); /* reserves space; size becomes at least bytes */
    enum stele_err (*size)(struct stele_file *file, int64_t *out_bytes);
    enum stele_residency (*resident)(struct stele_file *file, int64_t pos,
                                     int64_t bytes); /* "unknown" counts as cold */
    /* Maps the first `bytes` read-only (bytes > 0). A fault in it reads as zeros (base of design: indexes are hints).
     */
    enum stele_err (*map)(struct stele_file *file, size_t bytes, const uint8_t **out_bytes);
    void (*unmap)(struct stele_vfs *vfs, const uint8_t *bytes, size_t count); /* also after the file was closed */
    int (*descriptor)(struct stele_file *file); /* for sendfile; -1 when there is none (simulator) */
    /* names */
    enum stele_err (*stat)(struct stele_vfs *vfs, const char *path, struct stele_stat *out_stat);
    enum stele_err (*rename)(struct stele_vfs *vfs, const char *from, const char *to); /* replaces `to` atomically */
    enum stele_err (*unlink)(struct stele_vfs *vfs, const char *path);
    enum stele_err (*mkdir)(struct stele_vfs *vfs, const char *path); /* EXISTS when it is there */
    enum stele_err (*rmdir)(struct stele_vfs *vfs, const char *path);
    enum stele_err (*sync_dir)(struct stele_vfs *vfs, const char *path);
    /* Calls `each` for every name but "." and ".." in ascending byte order; stops when it returns an error and returns
     * that. */
    enum stele_err (*list)(struct stele_vfs *vfs, const char *path, enum stele_err (*each)(void *arg, const char *name),
                           void *arg);
    enum stele_err (*set_mtime)(struct stele_vfs *vfs, const char *path, int64_t mtime_ms);
    enum stele_err (*free_bytes)(struct stele_vfs *vfs, const char *path, int64_t *out_bytes);
    /* Creates `path` when missing and takes an exclusive lock on it without waiting. LOCKED when another holds it.
     * Kafka takes a POSIX record lock on the same file, so the two exclude each other. close gives it up. */
    enum stele_err (*lock)(struct stele_vfs *vfs, const char *path, struct stele_file **out_file);
};

struct stele_vfs {
    const struct stele_vfs_ops *ops;
};

/* Conveniences over the table (vfs.c): loops over short counts, tmp + sync + rename + sync_dir. */

/** Reads exactly `bytes`. Errors: END when the file ends before. */
STELE_MUST_CHECK enum stele_err stele_file_read(struct stele_file *file, void *out_bytes, size_t bytes, int64_t pos);
/** Writes all of `bytes`. On failure an unknown part was written. */
STELE_MUST_CHECK enum stele_err stele_file_write(struct stele_file *file, const void *bytes, size_t count, int64_t pos);
/** Writes all of `iov`, which it may change. */
STELE_MUST_CHECK enum stele_err stele_file_writev(struct stele_file *file, struct iovec *iov, int iov_count,
                                                  int64_t pos);

/** Replaces `dir`/`name` by `bytes` so that a crash leaves the old or the new content whole: writes
 * `name`.tmp, syncs it, renames it over, syncs the directory. */
STELE_MUST_CHECK enum stele_err stele_vfs_replace(struct stele_vfs *vfs, const char *dir, const char *name,
                                                  const void *bytes, size_t count);

struct stele_mem;
/** The whole of a file of at most `bytes_max` in fresh memory of mem, with a zero byte after it that is not counted;
 * the caller frees. Errors: NOT_FOUND, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_vfs_read_whole(struct stele_vfs *vfs, struct stele_mem *mem, int tag,
                                                     const char *path, size_t bytes_max, uint8_t **out_bytes,
                                                     size_t *out_count);

enum { STELE_PATH_BYTES = 4096 };
/** Joins into `out_path`; TOO_LARGE when it does not fit. */
STELE_MUST_CHECK enum stele_err stele_path_join(char out_path[STELE_PATH_BYTES], const char *dir, const char *name);

#endif
