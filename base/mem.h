/* Tagged, counted and failable memory. All memory of the core, and of the libraries that it calls, comes from
 * here, so that one limit covers it, every tag is a metric, and a test can fail the n-th allocation.
 *
 * Thread safety: every function may be called from any thread (jobs allocate too). */
#ifndef STELE_BASE_MEM_H
#define STELE_BASE_MEM_H

#include "base/types.h"

#include <stdatomic.h>
#include <stdbool.h>

enum stele_mem_tag {
#define STELE_MEM_TAG(name, text) STELE_MEM_##name,
#include "base/mem.def"
#undef STELE_MEM_TAG
    STELE_MEM_TAG_COUNT
};

/** Where blocks come from. `resize(ctx, NULL, n)` allocates, `resize(ctx, p, 0)` frees and returns NULL,
 * otherwise it is realloc; it returns NULL on failure and then leaves `p` alone. */
struct stele_mem_source {
    void *(*resize)(void *ctx, void *ptr, size_t bytes);
    void *ctx;
};

/** Held by whoever builds a world (host, simulator, test); the core gets a pointer. */
struct stele_mem {
    struct stele_mem_source source;
    _Atomic int64_t limit_bytes; /* over all tags; 0 = none */
    _Atomic int64_t total_bytes;
    _Atomic int64_t tag_bytes[STELE_MEM_TAG_COUNT];
    _Atomic int64_t tag_blocks[STELE_MEM_TAG_COUNT];
    _Atomic int64_t calls; /* allocations and growths ever asked for, also failed ones */
};

void stele_mem_init(struct stele_mem *mem, struct stele_mem_source source, int64_t limit_bytes);

/** `bytes` zeroed bytes, 16-byte aligned, or NULL when memory or the limit is reached. `bytes` may be 0. */
STELE_MUST_CHECK void *stele_mem_alloc(struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes);

/** As alloc, for `count` objects of `bytes` each; NULL too when the product overflows. */
STELE_MUST_CHECK void *stele_mem_array(struct stele_mem *mem, enum stele_mem_tag tag, size_t count, size_t bytes);

/** As alloc, without zeroing: for buffers that are filled at once. */
STELE_MUST_CHECK void *stele_mem_raw(struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes);

/** Grows or shrinks a block of this mem (or NULL); new bytes are not zeroed. On NULL the old block lives on. */
STELE_MUST_CHECK void *stele_mem_resize(struct stele_mem *mem, enum stele_mem_tag tag, void *ptr, size_t bytes);

/** Copy of a string, or NULL. */
STELE_MUST_CHECK char *stele_mem_string(struct stele_mem *mem, enum stele_mem_tag tag, const char *text);

/** Gives a block back; NULL is fine. */
void stele_mem_free(struct stele_mem *mem, void *ptr);

/** True when no block of any tag is held: checked in every test's teardown. */
bool stele_mem_is_empty(const struct stele_mem *mem);

const char *stele_mem_tag_name(enum stele_mem_tag tag);

#endif
