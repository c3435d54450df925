/* xoshiro256** (Blackman and Vigna), seeded through SplitMix64. */
#include "base/prng.h"

#include "base/check.h"

#include <string.h>

static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t value, int bits)
{
    return (value << bits) | (value >> (64 - bits));
}

void stele_prng_init(struct stele_prng *prng, uint64_t seed, uint64_t stream)
{
    uint64_t mix = seed;
    mix = split_mix(&mix) ^ (stream * 0xd1342543de82ef95u);
    for (int i = 0; i < 4; i++)
        prng->state[i] = split_mix(&mix);
}

uint64_t stele_prng_u64(struct stele_prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t stele_prng_below(struct stele_prng *prng, uint64_t bound)
{
    STELE_ASSERT(bound > 0);
    uint64_t reject_below = (0 - bound) % bound;
    for (;;) {
        uint64_t value = stele_prng_u64(prng);
        if (value >= reject_below)
            return value % bound;
    }
}

int64_t stele_prng_range(struct stele_prng *prng, int64_t low, int64_t high)
{
    STELE_ASSERT(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    return (int64_t)((uint64_t)low + (span == 0 ? stele_prng_u64(prng) : stele_prng_below(prng, span)));
}

bool stele_prng_chance(struct stele_prng *prng, uint64_t numerator, uint64_t denominator)
{
    return stele_prng_below(prng, denominator) < numerator;
}

void stele_prng_bytes(struct stele_prng *prng, void *out_bytes, size_t count)
{
    uint8_t *at = out_bytes;
    while (count > 0) {
        uint64_t value = stele_prng_u64(prng);
        size_t chunk = count < sizeof(value) ? count : sizeof(value);
        memcpy(at, &value, chunk);
        at += chunk;
        count -= chunk;
    }
}
