/* Reference-counted bytes, shared between a connection, a job and a file write without a copy.
 * Thread safety: ref and unref may be called from any thread; the bytes are written by one owner only. */
#ifndef STELE_BASE_BUF_H
#define STELE_BASE_BUF_H

#include "base/mem.h"

struct stele_buf {
    struct stele_mem *mem;
    _Atomic int32_t refs;
    size_t capacity; /* bytes at `bytes` */
    size_t count;    /* bytes filled, from the start */
    uint8_t *bytes;
};

/** A buffer with one reference, or NULL. Its bytes are not zeroed. */
STELE_MUST_CHECK struct stele_buf *stele_buf_new(struct stele_mem *mem, enum stele_mem_tag tag, size_t capacity);
struct stele_buf *stele_buf_ref(struct stele_buf *buf);
/** Gives one reference back; the last one frees. NULL is fine. */
void stele_buf_unref(struct stele_buf *buf);

#endif
