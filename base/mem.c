/* A block is preceded by 16 bytes: its size and its tag. */
#include "base/mem.h"

#include "base/check.h"

#include <string.h>

struct block {
    size_t bytes;
    uint32_t tag;
    uint32_t guard; /* finds a free of what is no block */
};

enum { GUARD = 0x57e1e57e };
_Static_assert(sizeof(struct block) == 16, "blocks keep 16-byte alignment");

void stele_mem_init(struct stele_mem *mem, struct stele_mem_source source, int64_t limit_bytes)
{
    memset(mem, 0, sizeof(*mem));
    mem->source = source;
    mem->limit_bytes = limit_bytes;
}

static void count(struct stele_mem *mem, uint32_t tag, int64_t bytes, int64_t blocks)
{
    atomic_fetch_add_explicit(&mem->total_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&mem->tag_bytes[tag], bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&mem->tag_blocks[tag], blocks, memory_order_relaxed);
}

static bool is_over_limit(const struct stele_mem *mem, size_t more)
{
    return mem->limit_bytes > 0 &&
           atomic_load_explicit(&mem->total_bytes, memory_order_relaxed) + (int64_t)more > mem->limit_bytes;
}

void *stele_mem_resize(struct stele_mem *mem, enum stele_mem_tag tag, void *ptr, size_t bytes)
{
    struct block *old = ptr == NULL ? NULL : (struct block *)ptr - 1;
    size_t old_bytes = old == NULL ? 0 : old->bytes;

    STELE_ASSERT(old == NULL || old->guard == GUARD);
    STELE_ASSERT(old == NULL || old->tag == (uint32_t)tag);
    atomic_fetch_add_explicit(&mem->calls, 1, memory_order_relaxed);
    if (bytes > (size_t)INT64_MAX - sizeof(struct block) ||
        (bytes > old_bytes && is_over_limit(mem, bytes - old_bytes)))
        return NULL;
    struct block *block = mem->source.resize(mem->source.ctx, old, bytes + sizeof(struct block));
    if (block == NULL)
        return NULL;
    *block = (struct block){.bytes = bytes, .tag = (uint32_t)tag, .guard = GUARD};
    count(mem, (uint32_t)tag, (int64_t)bytes - (int64_t)old_bytes, old == NULL ? 1 : 0);
    return block + 1;
}

void *stele_mem_raw(struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes)
{
    return stele_mem_resize(mem, tag, NULL, bytes);
}

void *stele_mem_alloc(struct stele_mem *mem, enum stele_mem_tag tag, size_t bytes)
{
    void *ptr = stele_mem_resize(mem, tag, NULL, bytes);
    if (ptr != NULL)
        memset(ptr, 0, bytes);
    return ptr;
}

void *stele_mem_array(struct stele_mem *mem, enum stele_mem_tag tag, size_t count_, size_t bytes)
{
    size_t product;
    if (__builtin_mul_overflow(count_, bytes, &product))
        return NULL;
    return stele_mem_alloc(mem, tag, product);
}

char *stele_mem_string(struct stele_mem *mem, enum stele_mem_tag tag, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = stele_mem_raw(mem, tag, bytes);
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

void stele_mem_free(struct stele_mem *mem, void *ptr)
{
    if (ptr == NULL)
        return;
    struct block *block = (struct block *)ptr - 1;
    STELE_ASSERT(block->guard == GUARD);
    count(mem, block->tag, -(int64_t)block->bytes, -1);
    block->guard = 0;
    (void)mem->source.resize(mem->source.ctx, block, 0);
}

bool stele_mem_is_empty(const struct stele_mem *mem)
{
    for (int tag = 0; tag < STELE_MEM_TAG_COUNT; tag++) {
        if (atomic_load(&mem->tag_blocks[tag]) != 0)
            return false;
    }
    return true;
}

const char *stele_mem_tag_name(enum stele_mem_tag tag)
{
    static const char *const names[] = {
#define STELE_MEM_TAG(name, text) text,
#include "base/mem.def"
#undef STELE_MEM_TAG
    };
    return names[tag];
}
