#include "host/heap.h"

#include <malloc.h>
#include <stdlib.h>

enum { MAP_BYTES_MIN = 128 << 10, SLACK_PARTS = 32 };

static void *heap_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, bytes);
}

struct stele_mem_source stele_heap_source(void)
{
    return (struct stele_mem_source){.resize = heap_resize};
}

static void count(struct stele_heap *heap, int64_t bytes, int sign)
{
    if (bytes >= MAP_BYTES_MIN) {
        atomic_fetch_add_explicit(&heap->large, bytes * sign, memory_order_relaxed);
        return;
    }
    int64_t small = atomic_fetch_add_explicit(&heap->small, bytes * sign, memory_order_relaxed) + bytes * sign;
    if (small > atomic_load_explicit(&heap->small_peak, memory_order_relaxed))
        atomic_store_explicit(&heap->small_peak, small, memory_order_relaxed);
}

/* What was freed stays with the allocator's heap until it is trimmed: that is put off until the bound asks for it. */
static void make_room(struct stele_heap *heap, size_t bytes)
{
    int64_t peak = atomic_load_explicit(&heap->small_peak, memory_order_relaxed);
    int64_t small = atomic_load_explicit(&heap->small, memory_order_relaxed);
    int64_t large = atomic_load_explicit(&heap->large, memory_order_relaxed);
    int64_t limit = atomic_load_explicit(&heap->mem->limit_bytes, memory_order_relaxed);
    if (limit == 0 || peak + large + (int64_t)stele_min_size(bytes, INT64_MAX / 4) <= limit ||
        peak - small <= limit / SLACK_PARTS || atomic_exchange(&heap->is_trimming, true))
        return;
    atomic_store_explicit(&heap->small_peak, small, memory_order_relaxed);
    (void)malloc_trim(0);
    atomic_store(&heap->is_trimming, false);
}

static void *held_resize(void *ctx, void *ptr, size_t bytes)
{
    struct stele_heap *heap = ctx;
    int64_t before = (int64_t)malloc_usable_size(ptr);
    void *resized = NULL;
    if (bytes == 0) {
        free(ptr);
    } else {
        make_room(heap, bytes);
        resized = realloc(ptr, bytes);
        if (resized == NULL)
            return NULL;
        count(heap, (int64_t)malloc_usable_size(resized), 1);
    }
    count(heap, before, -1);
    return resized;
}

struct stele_mem_source stele_heap_hold(struct stele_heap *heap, const struct stele_mem *mem)
{
    *heap = (struct stele_heap){.mem = mem};
    /* One heap for all threads, since what one frees must serve the others; large blocks are maps that end with them.
     */
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, MAP_BYTES_MIN);
    (void)mallopt(M_TRIM_THRESHOLD, MAP_BYTES_MIN);
    return (struct stele_mem_source){.resize = held_resize, .ctx = heap};
}
