/* CRC-32C (Castagnoli) as record batches and snapshots use it; "123456789" gives e3069283. */
#ifndef STELE_BASE_CRC32C_H
#define STELE_BASE_CRC32C_H

#include "base/types.h"

/** The checksum of `bytes` after those already in `crc`; start with 0. */
uint32_t stele_crc32c(uint32_t crc, const void *bytes, size_t count);

#endif
