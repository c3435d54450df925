/* Sequential reading of the batches of a segment file with every check that needs no neighbour: large reads through one
 * buffer, checksums over the bytes where they lie. Recovery, replay and verification read logs through it. */
#ifndef STELE_STORAGE_SCAN_H
#define STELE_STORAGE_SCAN_H

#include "base/env.h"
#include "proto/record_batch.h"

enum { STELE_SCAN_BUFFER_BYTES = 1 << 20 };

struct stele_scan {
    struct stele_mem *mem;
    struct stele_file *file; /* borrowed from start on */
    int64_t pos, end;        /* of the next batch; where the file is taken to end */
    uint8_t *buffer;         /* `count` bytes of the file from `at` on */
    size_t capacity, count;
    int64_t at;
    int64_t bad_bytes; /* after CORRUPT: size of the bad batch when its header makes sense, else 0 */
};

struct stele_scanned {
    struct stele_batch_header header;
    int64_t pos, bytes;
    const uint8_t *batch; /* borrowed until the next call; NULL when the batch is larger than the buffer */
};

void stele_scan_init(struct stele_scan *scan, struct stele_mem *mem);
void stele_scan_deinit(struct stele_scan *scan);
/** Reads `file` from the batch at `pos` up to `end`. One scan may read many files one after another. Errors: NO_MEMORY.
 */
STELE_MUST_CHECK enum stele_err stele_scan_start(struct stele_scan *scan, struct stele_file *file, int64_t pos,
                                                 int64_t end);
/** The next batch; checked are size, magic, codec, offsets inside the batch and checksum. Errors: END (exactly at the
 * end), CORRUPT (scan->pos stays at the bad batch), IO. */
STELE_MUST_CHECK enum stele_err stele_scan_next(struct stele_scan *scan, struct stele_scanned *out);
/** After CORRUPT: goes past the bad batch. False when its header makes no sense, so that nobody knows where the next
 * one starts. */
bool stele_scan_skip(struct stele_scan *scan);

/** After CORRUPT: goes to the next place where a sound batch of an offset >= `offset_min` lies. It is looked for behind
 * the bad batch, by its size, and where that does not make sense or leads nowhere byte by byte (a record of it that
 * holds a whole batch may then be taken for it). Errors: END (no such place), IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_scan_resync(struct stele_scan *scan, int64_t offset_min);

#endif
