/* The output of an unpacker: memory that grows by doubling and never beyond a limit. Inside of unpack.c and
 * unpack_lz4.c. */
#ifndef STELE_PROTO_UNPACKED_H
#define STELE_PROTO_UNPACKED_H

#include "base/err.h"
#include "base/mem.h"

struct stele_unpacked {
    struct stele_mem *mem;
    uint8_t *bytes; /* NULL: nothing yet */
    size_t count, capacity;
    size_t first_bytes; /* capacity to begin with */
    size_t bytes_max;   /* of capacity */
};

/** Room for `bytes` more. Errors: TOO_LARGE (they would pass bytes_max), NO_MEMORY; all stays as it was. */
STELE_MUST_CHECK enum stele_err stele_unpacked_reserve(struct stele_unpacked *out, size_t bytes);

static inline size_t stele_unpacked_room(const struct stele_unpacked *out)
{
    return out->capacity - out->count;
}

/** How much may still come before the limit. */
static inline size_t stele_unpacked_left(const struct stele_unpacked *out)
{
    return out->bytes_max - out->count;
}

/** Appends what one LZ4 frame holds. Errors: as stele_unpack. */
STELE_MUST_CHECK enum stele_err stele_unpack_lz4(struct stele_unpacked *out, const uint8_t *bytes, size_t count);

#endif
