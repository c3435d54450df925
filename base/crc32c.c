#include "base/crc32c.h"

#include <isa-l.h>

uint32_t stele_crc32c(uint32_t crc, const void *bytes, size_t count)
{
    /* ISA-L takes an int and inverts neither its start nor its end. */
    const unsigned char *at = bytes;
    crc = ~crc;
    while (count > 0) {
        int chunk = count > (1 << 30) ? 1 << 30 : (int)count;
        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, chunk, crc);
        at += chunk;
        count -= (size_t)chunk;
    }
    return ~crc;
}
