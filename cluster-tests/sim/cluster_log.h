/* Reads the files of a log on a simulated disk, as they are at the moment, without the help of the storage code: what
 * checks must not rely on what is checked. */
#ifndef STELE_CLUSTER_TESTS_SIM_CLUSTER_LOG_H
#define STELE_CLUSTER_TESTS_SIM_CLUSTER_LOG_H

#include "cluster-tests/sim/sim_disk.h"
#include "proto/record_batch.h"

/** Where the last look was; all zero at first. A log that was cut or begun anew may be looked at with the same place.
 */
struct cluster_log_place {
    int64_t segment_base, at;
    int64_t pos, offset; /* of the batch behind it */
    bool is_known;
};

/** Finds the batch that holds `offset`, or the first behind it. False when there is none. */
bool cluster_log_find(struct sim_disk *disk, const char *dir, struct cluster_log_place *place, int64_t offset,
                      struct stele_batch_header *out_header);
/** All bytes of the batch that was found last; sim_alloc'ed. NULL when they are not all there. */
uint8_t *cluster_log_batch(struct sim_disk *disk, const char *dir, const struct cluster_log_place *place,
                           const struct stele_batch_header *header, size_t *out_bytes);

#endif
