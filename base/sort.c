#include "base/sort.h"

#include <string.h>

struct heap {
    char *items;
    size_t item_bytes;
    int (*compare)(const void *a, const void *b);
};

static char *item(const struct heap *heap, size_t at)
{
    return heap->items + at * heap->item_bytes;
}

static void swap(const struct heap *heap, size_t a, size_t b)
{
    char kept[64];
    for (size_t done = 0; done < heap->item_bytes;) {
        size_t bytes = stele_min_size(sizeof(kept), heap->item_bytes - done);
        memcpy(kept, item(heap, a) + done, bytes);
        memcpy(item(heap, a) + done, item(heap, b) + done, bytes);
        memcpy(item(heap, b) + done, kept, bytes);
        done += bytes;
    }
}

/* Lets the item at `at` sink to its place in a heap of `count` items, the greatest on top. */
static void sink(const struct heap *heap, size_t at, size_t count)
{
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap->compare(item(heap, child), item(heap, child + 1)) < 0)
            child++;
        if (heap->compare(item(heap, at), item(heap, child)) >= 0)
            return;
        swap(heap, at, child);
        at = child;
    }
}

void stele_sort(void *items, size_t count, size_t item_bytes, int (*compare)(const void *a, const void *b))
{
    struct heap heap = {.items = items, .item_bytes = item_bytes, .compare = compare};
    for (size_t at = count / 2; at > 0; at--)
        sink(&heap, at - 1, count);
    for (size_t left = count; left > 1; left--) {
        swap(&heap, 0, left - 1);
        sink(&heap, 0, left - 1);
    }
}
