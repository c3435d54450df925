/* What a shard counts, one struct made from metrics.def. Each shard has its own, so plain relaxed atomics suffice: jobs
 * add to them too, and others read them. The sum over shards is made by whoever shows them. */
#ifndef STELE_BASE_METRICS_H
#define STELE_BASE_METRICS_H

#include "base/types.h"

#include <stdatomic.h>

enum { STELE_METRIC_SLOTS = 40, STELE_METRIC_BUCKETS = 18 };

/* TIME: microseconds from 50 to 10 s in steps of 1, 2.5, 5. SIZE: powers of four from 1 to 4 Gi. */
enum stele_metric_scale { STELE_SCALE_TIME, STELE_SCALE_SIZE };

/** How many values were at most the bound of each bucket and above that of the one before; the last has no bound. */
struct stele_metric_histogram {
    _Atomic int64_t buckets[STELE_METRIC_BUCKETS];
    _Atomic int64_t sum;
};

struct stele_metrics {
#define STELE_METRIC(field, kind, name, unit, help) _Atomic int64_t field;
#define STELE_METRIC_FAMILY(field, name, label, unit, help) _Atomic int64_t field[STELE_METRIC_SLOTS];
#define STELE_METRIC_HISTOGRAM(field, scale, name, unit, help) struct stele_metric_histogram field;
#include "base/metrics.def"
};

enum {
#define STELE_METRIC_HISTOGRAM(field, scale, name, unit, help) STELE_METRIC_SCALE_##field = STELE_SCALE_##scale,
#include "base/metrics.def"
};

#define STELE_METRIC_ADD(metrics, field, n)                                                                            \
    atomic_fetch_add_explicit(&(metrics)->field, (int64_t)(n), memory_order_relaxed)
/** Of a kind MAX; from the shard's loop only. */
#define STELE_METRIC_RAISE(metrics, field, n)                                                                          \
    do {                                                                                                               \
        if (atomic_load_explicit(&(metrics)->field, memory_order_relaxed) < (int64_t)(n))                              \
            atomic_store_explicit(&(metrics)->field, (int64_t)(n), memory_order_relaxed);                              \
    } while (0)
#define STELE_METRIC_OBSERVE(metrics, field, value)                                                                    \
    stele_metric_observe(&(metrics)->field, (enum stele_metric_scale)STELE_METRIC_SCALE_##field, (int64_t)(value))

void stele_metric_observe(struct stele_metric_histogram *histogram, enum stele_metric_scale scale, int64_t value);
/** The largest value of a bucket; INT64_MAX of the last one. */
int64_t stele_metric_bound(enum stele_metric_scale scale, int bucket);
/** Adds what `from` holds now to `into`, which nobody else uses. */
void stele_metrics_sum(const struct stele_metrics *from, struct stele_metrics *into);

#endif
