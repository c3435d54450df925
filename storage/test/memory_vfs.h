/* Files in memory for unit tests of the storage, with a fault in the n-th call. No crashes: those are the simulated
 * disk's. It fails the running test when a mapped file is changed or more descriptors are open than allowed. */
#ifndef STELE_STORAGE_TEST_MEMORY_VFS_H
#define STELE_STORAGE_TEST_MEMORY_VFS_H

#include "base/test/support.h"

enum { MEMORY_BUCKETS = 1 << 14, MEMORY_MAPS_MAX = 4096 };

struct memory_inode {
    struct memory_inode *next; /* in its bucket; NULL for the last */
    char *path;                /* NULL: unlinked */
    uint8_t *bytes;
    size_t count, capacity;
    int64_t mtime_ms;
    int opens, maps;
    uint64_t id;
};

struct memory_map {
    struct memory_inode *inode;
    const uint8_t *bytes;
    size_t count;
};

struct memory_vfs {
    struct stele_vfs vfs;
    struct memory_inode *buckets[MEMORY_BUCKETS];
    struct memory_map maps[MEMORY_MAPS_MAX];
    int map_count;
    int64_t map_bytes, map_bytes_most;
    uint64_t next_id;
    int64_t now_ms;
    int64_t calls;   /* that may fail, so far */
    int64_t fail_at; /* the call from now on that fails, 1 = the next one; 0 none */
    enum stele_err fail_with;
    bool is_lasting, has_failed;
    bool is_full;       /* calls that need room fail with NO_SPACE */
    size_t piece_bytes; /* > 0: a read or write moves no more at once */
    int open_count, open_most, open_limit;
    int64_t reads;
    char synced[1024]; /* suffixes of synced files one after another */
};

void memory_vfs_init(struct memory_vfs *memory);
/** Every file must be closed, every map gone. */
void memory_vfs_deinit(struct memory_vfs *memory);
void memory_vfs_fail(struct memory_vfs *memory, int64_t at, enum stele_err err, bool is_lasting);

/** The content of a file; NULL when it is missing. Borrowed until the next change. */
const uint8_t *memory_vfs_bytes(struct memory_vfs *memory, const char *path, size_t *out_count);
bool memory_vfs_exists(struct memory_vfs *memory, const char *path);
/** Makes or replaces a file. */
void memory_vfs_put(struct memory_vfs *memory, const char *path, const void *bytes, size_t count);
void memory_vfs_remove(struct memory_vfs *memory, const char *path);

#endif
