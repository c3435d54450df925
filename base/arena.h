/* Memory that is given back all at once: decoded messages, answers under construction. */
#ifndef STELE_BASE_ARENA_H
#define STELE_BASE_ARENA_H

#include "base/mem.h"

struct stele_arena_block;

struct stele_arena {
    struct stele_mem *mem;
    enum stele_mem_tag tag;
    struct stele_arena_block *blocks; /* newest first */
    size_t used;                      /* of the newest */
    size_t total_bytes;
    size_t bytes_max; /* alloc fails beyond it; 0 = none */
};

/** Takes no memory yet. */
void stele_arena_init(struct stele_arena *arena, struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes_max);
/** `bytes` zeroed bytes, 16-byte aligned, valid until reset or deinit; NULL when out of memory. */
STELE_MUST_CHECK void *stele_arena_alloc(struct stele_arena *arena, size_t bytes);
STELE_MUST_CHECK void *stele_arena_array(struct stele_arena *arena, size_t count, size_t bytes);
STELE_MUST_CHECK char *stele_arena_string(struct stele_arena *arena, const char *text, size_t count);
/** Gives everything back but one block. */
void stele_arena_reset(struct stele_arena *arena);
void stele_arena_deinit(struct stele_arena *arena);

#endif
