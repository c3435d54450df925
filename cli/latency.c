/* Up to 255 a bucket is a microsecond; above, each doubling has 128 of them: bucket shift * 128 + (us >> shift). */
#include "cli/latency.h"

#define US_MAX (((int64_t)1 << 41) - 1)

void stele_latency_add(struct stele_latency *latency, int64_t us)
{
    us = us < 0 ? 0 : us > US_MAX ? US_MAX : us;
    int shift = us < 256 ? 0 : 56 - __builtin_clzll((unsigned long long)us);
    latency->buckets[shift * 128 + (us >> shift)]++;
    latency->count++;
    latency->sum_us += us;
    latency->max_us = us > latency->max_us ? us : latency->max_us;
}

int64_t stele_latency_at(const struct stele_latency *latency, double share)
{
    int64_t seen = 0;
    for (int i = 0; latency->count > 0 && i < STELE_LATENCY_BUCKETS; i++) {
        seen += latency->buckets[i];
        if (seen == 0 || (double)seen < share * (double)latency->count)
            continue;
        int shift = i < 256 ? 0 : i / 128 - 1;
        int64_t end = (((int64_t)i - shift * 128 + 1) << shift) - 1;
        return end < latency->max_us ? end : latency->max_us;
    }
    return latency->count > 0 ? latency->max_us : -1;
}
