/* The process's heap as a source of memory (base/mem.h). Thread safe. */
#ifndef STELE_HOST_HEAP_H
#define STELE_HOST_HEAP_H

#include "base/mem.h"

struct stele_mem_source stele_heap_source(void);

/** A heap that gives freed memory back to the kernel before the process takes more than it may. That costs page faults,
 * so it is for a process with a bound. */
struct stele_heap {
    const struct stele_mem *mem; /* whose limit_bytes is the bound; it may change */
    /* Bytes of live blocks, by where the allocator has them: its heap, maps of their own. */
    _Atomic int64_t small, large;
    _Atomic int64_t small_peak; /* since freed pages were given back: so much its heap takes at most */
    _Atomic bool is_trimming;
};

/** Before the process has threads; `heap` outlives every block. Blocks of stele_heap_source may be given back to it. */
struct stele_mem_source stele_heap_hold(struct stele_heap *heap, const struct stele_mem *mem);

#endif
