/* Histograms of the metrics at the edges of their buckets, and sums over shards. */
#include "base/test/support.h"

#include <string.h>

/* A value is counted in the first bucket whose bound it does not exceed. */
static void test_buckets(void **state)
{
    (void)state;
    for (int scale = STELE_SCALE_TIME; scale <= STELE_SCALE_SIZE; scale++) {
        int64_t before = -1;
        for (int i = 0; i < STELE_METRIC_BUCKETS; i++) {
            int64_t bound = stele_metric_bound((enum stele_metric_scale)scale, i);
            struct stele_metric_histogram histogram = {.sum = 0};
            assert_true(bound > before);
            stele_metric_observe(&histogram, (enum stele_metric_scale)scale, bound);
            stele_metric_observe(&histogram, (enum stele_metric_scale)scale, before + 1);
            assert_int_equal(histogram.buckets[i], 2);
            before = bound;
        }
        assert_int_equal(before, INT64_MAX);
    }
}

/* Counters, families and histograms add up; of a maximum the larger stays. */
static void test_sum(void **state)
{
    struct stele_metrics a, b, sum;
    (void)state;
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    memset(&sum, 0, sizeof(sum));
    STELE_METRIC_ADD(&a, sent_bytes, 3);
    STELE_METRIC_ADD(&b, sent_bytes, 4);
    STELE_METRIC_ADD(&a, requests[2], 1);
    STELE_METRIC_ADD(&b, requests[2], 1);
    STELE_METRIC_ADD(&b, requests[STELE_METRIC_SLOTS - 1], 1);
    STELE_METRIC_RAISE(&a, loop_stall, 10);
    STELE_METRIC_RAISE(&a, loop_stall, 9);
    STELE_METRIC_RAISE(&b, loop_stall, 4);
    STELE_METRIC_OBSERVE(&a, request_total, 60);
    STELE_METRIC_OBSERVE(&b, request_total, 70);
    stele_metrics_sum(&a, &sum);
    stele_metrics_sum(&b, &sum);
    assert_int_equal(sum.sent_bytes, 7);
    assert_int_equal(sum.requests[2], 2);
    assert_int_equal(sum.requests[STELE_METRIC_SLOTS - 1], 1);
    assert_int_equal(sum.loop_stall, 10);
    assert_int_equal(sum.request_total.buckets[1], 2);
    assert_int_equal(sum.request_total.sum, 130);
    assert_int_equal(sum.received_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_buckets), cmocka_unit_test(test_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
