/* Counters and gauges, one struct made from metrics.def. Each shard has its own, so plain relaxed atomics suffice: jobs
 * add to them too. The sum over shards is made by whoever shows them. */
#ifndef STELE_BASE_METRICS_H
#define STELE_BASE_METRICS_H

#include "base/types.h"

#include <stdatomic.h>

struct stele_metrics {
#define STELE_METRIC(field, kind, name, unit, help) _Atomic int64_t field;
#include "base/metrics.def"
#undef STELE_METRIC
};

#define STELE_METRIC_ADD(metrics, field, n)                                                                            \
    atomic_fetch_add_explicit(&(metrics)->field, (int64_t)(n), memory_order_relaxed)

#endif
