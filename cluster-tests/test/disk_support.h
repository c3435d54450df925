/* What the tests of the simulated disk share: one disk at a time, and short forms for files of one byte repeated. */
#ifndef STELE_CLUSTER_TESTS_TEST_DISK_SUPPORT_H
#define STELE_CLUSTER_TESTS_TEST_DISK_SUPPORT_H

#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"

enum { PAGE = 4096, SECTOR = 512, SEEDS = 400 };

extern struct sim_disk *disk;
extern struct stele_vfs *vfs;

/** Another disk of this seed in place of the one before. */
void disk_renew(uint64_t seed);
int disk_setup(void **state);
/** Nothing may be open any more. */
int disk_teardown(void **state);

/** For writing, made when it is missing. */
struct stele_file *disk_open(const char *path);
void disk_close(struct stele_file *file);
void disk_fill(struct stele_file *file, char byte, int64_t pos, int64_t end);
void disk_sync_dir(const char *path);
/** A file of `bytes` times `byte`, durable with its name in the root. */
void disk_make_durable(const char *path, char byte, int64_t bytes);
/** Reads from `pos`, one call, at most a page; -1 when the file is missing. */
int64_t disk_content(const char *path, int64_t pos, char out_bytes[PAGE]);
bool is_all(const char *bytes, int64_t count, char byte);
bool disk_has(const char *path);
int64_t disk_size_of(const char *path);
/** Writes four pages of 'n' whose one sync fails, as an armed fault or a disk that turns out to be full at the sync. */
struct stele_file *disk_fail_sync(const char *path, bool is_full);

#endif
