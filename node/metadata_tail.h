/* Batches of the metadata log that are written but not applied to the image yet: what the quorum has not committed, and
 * what is committed and waits for its turn. They are kept in memory, so that applying reads no file. */
#ifndef STELE_NODE_METADATA_TAIL_H
#define STELE_NODE_METADATA_TAIL_H

#include "base/buf.h"
#include "base/env.h"
#include "base/list.h"
#include "replication/quorum_event.h"

struct stele_metadata_batch {
    struct stele_list link;
    struct stele_buf *buf; /* holds it; a reference */
    const uint8_t *bytes;
    size_t count;
    int64_t base_offset, end_offset;
    int32_t epoch;
    bool has_voters; /* one of its records names the voters */
    struct stele_voters_at voters;
};

struct stele_metadata_tail {
    struct stele_mem *mem;
    struct stele_list batches; /* by offset, without a gap */
};

void stele_metadata_tail_init(struct stele_metadata_tail *tail, struct stele_mem *mem);
void stele_metadata_tail_deinit(struct stele_metadata_tail *tail);
/** Reads the batch of `count` bytes at `bytes` inside `buf`, every record of it, and puts it at the end with a
 * reference of its own. Errors: CORRUPT (damaged, or a record makes no sense), UNSUPPORTED_VERSION (a record of a newer
 * version), NO_MEMORY: nothing was put. */
STELE_MUST_CHECK enum stele_err stele_metadata_tail_put(struct stele_metadata_tail *tail, struct stele_buf *buf,
                                                        const uint8_t *bytes, size_t count);
/** The first batch; NULL: there is none. */
struct stele_metadata_batch *stele_metadata_tail_first(const struct stele_metadata_tail *tail);
/** Drops the first batch. */
void stele_metadata_tail_drop(struct stele_metadata_tail *tail);
/** Drops batches that end above `offset`. */
void stele_metadata_tail_cut(struct stele_metadata_tail *tail, int64_t offset);

#endif
