/* The samples (samples.tar.zst, unpacked by unpack.sh) on simulated disks, so that a test may change them as it likes.
 */
#ifndef STELE_CLUSTER_TESTS_KAFKA_SAMPLE_FILES_H
#define STELE_CLUSTER_TESTS_KAFKA_SAMPLE_FILES_H

#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"

/** A file of the real file system; NULL when it is missing. The caller frees. A zero byte follows the content. */
uint8_t *sample_read(const char *path, size_t *out_count);
/** Copies the files of a real directory, and of those in it, to `to` of the disk, all durable. */
void sample_load(struct sim_disk *disk, const char *from, const char *to);

/** Puts a file; its directory must be there. */
void sample_put(struct sim_disk *disk, const char *path, const void *bytes, size_t count);
/** A file of the disk; NULL when it is missing. The caller frees. A zero byte follows the content. */
uint8_t *sample_get(struct sim_disk *disk, const char *path, size_t *out_count);
void sample_remove(struct sim_disk *disk, const char *path);

#endif
