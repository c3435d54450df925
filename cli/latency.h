/* Times in buckets that are less than a hundredth wide, from microseconds to days. */
#ifndef STELE_CLI_LATENCY_H
#define STELE_CLI_LATENCY_H

#include <stdint.h>

enum { STELE_LATENCY_BUCKETS = 34 * 128 + 128 };

struct stele_latency {
    int64_t buckets[STELE_LATENCY_BUCKETS];
    int64_t count, sum_us, max_us;
};

/** Below 0 counts as 0, above 2^41 as that. */
void stele_latency_add(struct stele_latency *latency, int64_t us);
/** The time that `share` (0.99) of those added are not above, rounded up to its bucket's end; -1 when there are none.
 */
int64_t stele_latency_at(const struct stele_latency *latency, double share);

#endif
