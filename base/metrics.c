#include "base/metrics.h"

static const int64_t bounds[2][STELE_METRIC_BUCKETS] = {
    [STELE_SCALE_TIME] = {50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,
                          2500000, 5000000, 10000000, INT64_MAX},
    [STELE_SCALE_SIZE] = {1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
                          268435456, 1073741824, 4294967296, INT64_MAX},
};

int64_t stele_metric_bound(enum stele_metric_scale scale, int bucket)
{
    return bounds[scale][bucket];
}

void stele_metric_observe(struct stele_metric_histogram *histogram, enum stele_metric_scale scale, int64_t value)
{
    int at = 0;
    while (value > bounds[scale][at])
        at++;
    atomic_fetch_add_explicit(&histogram->buckets[at], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
}

static int64_t now(const _Atomic int64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void sum_array(const _Atomic int64_t *from, _Atomic int64_t *into, size_t count)
{
    for (size_t i = 0; i < count; i++)
        into[i] += now(&from[i]);
}

#define SUM_COUNTER(field) into->field += now(&from->field);
#define SUM_MAX(field) into->field = stele_max_i64(into->field, now(&from->field));

void stele_metrics_sum(const struct stele_metrics *from, struct stele_metrics *into)
{
#define STELE_METRIC(field, kind, name, unit, help) SUM_##kind(field)
#define STELE_METRIC_FAMILY(field, name, label, unit, help) sum_array(from->field, into->field, STELE_METRIC_SLOTS);
#define STELE_METRIC_HISTOGRAM(field, scale, name, unit, help)                                                         \
    sum_array(from->field.buckets, into->field.buckets, STELE_METRIC_BUCKETS);                                         \
    into->field.sum += now(&from->field.sum);
#include "base/metrics.def"
}
