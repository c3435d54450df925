/* XXH32 (xxHash, 32 bits, seed 0): the checksum of LZ4 frames. The library computes it, but does not export it. */
#ifndef STELE_PROTO_XXH32_H
#define STELE_PROTO_XXH32_H

#include "base/types.h"

uint32_t stele_xxh32(const uint8_t *bytes, size_t count);

#endif
