#include "client/client_internal.h"

static uint32_t get_le32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t stele_murmur2(const void *bytes, size_t count)
{
    const uint32_t m = 0x5bd1e995;
    const uint8_t *at = bytes;
    uint32_t h = 0x9747b28cu ^ (uint32_t)count;
    size_t left = count;
    for (; left >= 4; at += 4, left -= 4) {
        uint32_t k = get_le32(at) * m;
        k = (k ^ (k >> 24)) * m;
        h = h * m ^ k;
    }
    if (left > 2)
        h ^= (uint32_t)at[2] << 16;
    if (left > 1)
        h ^= (uint32_t)at[1] << 8;
    if (left > 0)
        h = (h ^ at[0]) * m;
    h = (h ^ (h >> 13)) * m;
    return h ^ (h >> 15);
}

int32_t stele_partition_of_key(const void *key, size_t bytes, int32_t partitions)
{
    return (int32_t)((stele_murmur2(key, bytes) & 0x7fffffffu) % (uint32_t)partitions);
}
