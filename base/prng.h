/* A seeded generator (xoshiro256**), integers only. The real host seeds it from the kernel, the simulator from its
 * seed with one stream a purpose, so that switching one fault class off leaves the others as they were. */
#ifndef STELE_BASE_PRNG_H
#define STELE_BASE_PRNG_H

#include "base/types.h"

#include <stdbool.h>

struct stele_prng {
    uint64_t state[4];
};

/** The stream `stream` of master seed `seed`; different streams are independent. */
void stele_prng_init(struct stele_prng *prng, uint64_t seed, uint64_t stream);
uint64_t stele_prng_u64(struct stele_prng *prng);
/** Uniform in [0, bound), bound > 0, without modulo bias. */
uint64_t stele_prng_below(struct stele_prng *prng, uint64_t bound);
/** Uniform in [low, high]. */
int64_t stele_prng_range(struct stele_prng *prng, int64_t low, int64_t high);
/** True with probability numerator / denominator. */
bool stele_prng_chance(struct stele_prng *prng, uint64_t numerator, uint64_t denominator);
void stele_prng_bytes(struct stele_prng *prng, void *out_bytes, size_t count);

#endif
