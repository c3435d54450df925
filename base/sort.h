/* Sorting in place without memory and without recursion, in O(n log n) whatever the input. Not stable. */
#ifndef STELE_BASE_SORT_H
#define STELE_BASE_SORT_H

#include "base/types.h"

/** Sorts `count` items of `item_bytes` each; `compare` returns below, equal to or above 0. */
void stele_sort(void *items, size_t count, size_t item_bytes, int (*compare)(const void *a, const void *b));

#endif
