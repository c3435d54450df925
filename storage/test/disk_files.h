/* Short forms over the simulated disk for tests of small files: everything put is durable at once. */
#ifndef STELE_STORAGE_TEST_DISK_FILES_H
#define STELE_STORAGE_TEST_DISK_FILES_H

#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"

/** The `at`-th call from now fails with `err`; 0: none. */
void disk_fail(struct sim_disk *disk, int64_t at, enum stele_err err, bool is_lasting);
/** Room for so many more bytes; below 0: no limit. */
void disk_set_space(struct sim_disk *disk, int64_t bytes);
/** Calls so far that change a file or a name, or lock. */
int64_t disk_changes(const struct sim_disk *disk);

void disk_put(struct sim_disk *disk, const char *path, const void *bytes, size_t count);
void disk_put_text(struct sim_disk *disk, const char *path, const char *text);
void disk_make_dir(struct sim_disk *disk, const char *path);
bool disk_has(struct sim_disk *disk, const char *path);
/** Reads a whole file of at most `capacity` bytes; returns how many. */
size_t disk_read(struct sim_disk *disk, const char *path, void *out_bytes, size_t capacity);
void disk_assert_text(struct sim_disk *disk, const char *path, const char *text);

#endif
