/* Reads everything under a directory or file and checks it against itself and its neighbours: `stele dump --verify`.
 *
 * Batches against their checksum, each other and the name of their file; index entries, aborted transactions, producer
 * snapshots and leader epochs against the batches; in a log directory the checkpoints against the logs.
 *
 * Told apart: damage, and what a crash may leave (preallocated zeros in an index, a torn last batch, *.deleted
 * leftovers). The log directory says where a crash may have been at work: nowhere when the clean marker is there,
 * otherwise only from max(recovery point, high watermark) of the checkpoints on. A partition that no checkpoint names
 * is excused of nothing but zeros and less than a batch's header at the end. */
#ifndef STELE_STORAGE_VERIFY_H
#define STELE_STORAGE_VERIFY_H

#include "base/env.h"

enum stele_finding_kind {
    STELE_FINDING_DAMAGE, /* wrong bytes: exit 1 */
    STELE_FINDING_CRASH,  /* what an unclean stop leaves; recovery mends it */
};

struct stele_finding {
    enum stele_finding_kind kind;
    const char *path;
    int64_t pos;      /* byte in the file; -1 for the whole file */
    const char *text; /* borrowed until the call returns */
};

struct stele_verify_report {
    int64_t files, bytes, batches, records, index_entries;
    int64_t damages, crash_leftovers;
};

struct stele_verify_options {
    bool is_compacted; /* gaps in offsets are fine everywhere */
    void (*found)(void *arg, const struct stele_finding *finding);
    /* how far it is, after every batch: `path` is the log that is read; NULL: nobody asks */
    void (*went_on)(void *arg, const char *path, const struct stele_verify_report *so_far);
    void *arg;
};

/** Errors: NOT_FOUND (no such path), INVALID_ARGUMENT (a file of no kind that can be verified), IO, NO_MEMORY. Damage
 * is not an error of the call. */
STELE_MUST_CHECK enum stele_err stele_verify(struct stele_env *env, const char *path,
                                             const struct stele_verify_options *options,
                                             struct stele_verify_report *out_report);

#endif
