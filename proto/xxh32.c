#include "proto/xxh32.h"

#define PRIME_1 0x9E3779B1U
#define PRIME_2 0x85EBCA77U
#define PRIME_3 0xC2B2AE3DU
#define PRIME_4 0x27D4EB2FU
#define PRIME_5 0x165667B1U

enum { LANES = 4, LANE_BYTES = 4, STRIPE_BYTES = LANES * LANE_BYTES };

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

static uint32_t get_le32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t stele_xxh32(const uint8_t *bytes, size_t count)
{
    uint32_t lanes[LANES] = {PRIME_1 + PRIME_2, PRIME_2, 0, 0 - PRIME_1};
    uint32_t hash = PRIME_5;
    size_t at = 0;

    for (; count - at >= STRIPE_BYTES; at += STRIPE_BYTES) {
        for (size_t i = 0; i < LANES; i++)
            lanes[i] = rotate(lanes[i] + get_le32(bytes + at + LANE_BYTES * i) * PRIME_2, 13) * PRIME_1;
    }
    if (at > 0)
        hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    hash += (uint32_t)count;
    for (; count - at >= LANE_BYTES; at += LANE_BYTES)
        hash = rotate(hash + get_le32(bytes + at) * PRIME_3, 17) * PRIME_4;
    for (; at < count; at++)
        hash = rotate(hash + bytes[at] * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ hash >> 15) * PRIME_2;
    hash = (hash ^ hash >> 13) * PRIME_3;
    return hash ^ hash >> 16;
}
