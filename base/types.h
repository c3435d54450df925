/* Small definitions that every file may need: attributes, array length, minimum and maximum. */
#ifndef STELE_BASE_TYPES_H
#define STELE_BASE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#define STELE_MUST_CHECK __attribute__((warn_unused_result))
#define STELE_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define STELE_CLEANUP(fn) __attribute__((cleanup(fn)))
#define STELE_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/** The struct of type `type` whose member `member` lies at `ptr`. */
#define STELE_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline int64_t stele_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t stele_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline size_t stele_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif
