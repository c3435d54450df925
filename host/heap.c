#include "host/heap.h"

#include <stdlib.h>

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
