#include "base/arena.h"

#include <string.h>

struct stele_arena_block {
    struct stele_arena_block *older;
    size_t capacity;
};

enum { BLOCK_BYTES = 4096 - 64 };

void stele_arena_init(struct stele_arena *arena, struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes_max)
{
    *arena = (struct stele_arena){.mem = mem, .tag = tag, .bytes_max = bytes_max};
}

static bool add_block(struct stele_arena *arena, size_t bytes)
{
    size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct stele_arena_block *block = stele_mem_raw(arena->mem, arena->tag, sizeof(*block) + capacity);
    if (block == NULL)
        return false;
    *block = (struct stele_arena_block){.older = arena->blocks, .capacity = capacity};
    arena->blocks = block;
    arena->used = 0;
    return true;
}

void *stele_arena_alloc(struct stele_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t rounded = (bytes + 15) & ~(size_t)15;
    if (arena->bytes_max > 0 && arena->total_bytes + rounded > arena->bytes_max)
        return NULL;
    if ((arena->blocks == NULL || arena->blocks->capacity - arena->used < rounded) && !add_block(arena, rounded))
        return NULL;
    void *at = (uint8_t *)(arena->blocks + 1) + arena->used;
    arena->used += rounded;
    arena->total_bytes += rounded;
    memset(at, 0, bytes);
    return at;
}

void *stele_arena_array(struct stele_arena *arena, size_t count, size_t bytes)
{
    size_t product;
    return __builtin_mul_overflow(count, bytes, &product) ? NULL : stele_arena_alloc(arena, product);
}

char *stele_arena_string(struct stele_arena *arena, const char *text, size_t count)
{
    char *copy = count < SIZE_MAX ? stele_arena_alloc(arena, count + 1) : NULL;
    if (copy != NULL)
        memcpy(copy, text, count);
    return copy;
}

void stele_arena_reset(struct stele_arena *arena)
{
    while (arena->blocks != NULL && arena->blocks->older != NULL) {
        struct stele_arena_block *block = arena->blocks;
        arena->blocks = block->older;
        stele_mem_free(arena->mem, block);
    }
    arena->used = 0;
    arena->total_bytes = 0;
}

void stele_arena_deinit(struct stele_arena *arena)
{
    stele_arena_reset(arena);
    stele_mem_free(arena->mem, arena->blocks);
    arena->blocks = NULL;
}
