/* Sets of nodes keep their order and their bound, and compare by members. */
#include "base/test/support.h"
#include "replication/types.h"

static struct stele_node_set set_of(int32_t count, const int32_t *ids)
{
    struct stele_node_set set = {.count = 0};
    for (int32_t i = 0; i < count; i++) {
        assert_true(stele_node_set_add(&set, ids[i]));
    }
    return set;
}

/* Adding twice changes nothing, removing keeps the order of the others. */
static void test_order(void **state)
{
    (void)state;
    struct stele_node_set set = set_of(4, (const int32_t[]){3, 1, 3, 2});
    assert_int_equal(set.count, 3);
    stele_node_set_remove(&set, 1);
    stele_node_set_remove(&set, 7);
    assert_int_equal(set.count, 2);
    assert_int_equal(set.ids[0], 3);
    assert_int_equal(set.ids[1], 2);
    assert_false(stele_node_set_has(&set, 1));
}

/* A full set refuses one more, and still takes one that it has. */
static void test_bound(void **state)
{
    (void)state;
    struct stele_node_set set = {.count = 0};
    for (int32_t i = 0; i < STELE_REPLICAS_MAX; i++) {
        assert_true(stele_node_set_add(&set, i));
    }
    assert_false(stele_node_set_add(&set, STELE_REPLICAS_MAX));
    assert_true(stele_node_set_add(&set, 0));
    assert_int_equal(set.count, STELE_REPLICAS_MAX);
}

/* Members count, not their order. */
static void test_compare(void **state)
{
    (void)state;
    struct stele_node_set a = set_of(3, (const int32_t[]){1, 2, 3});
    struct stele_node_set b = set_of(3, (const int32_t[]){3, 2, 1});
    struct stele_node_set c = set_of(2, (const int32_t[]){3, 1});
    assert_true(stele_node_set_equal(&a, &b));
    assert_false(stele_node_set_equal(&a, &c));
    assert_true(stele_node_set_is_subset(&c, &a));
    assert_false(stele_node_set_is_subset(&a, &c));
}

/* Another disk of the same node is another replica, an unknown one may be either. */
static void test_keys(void **state)
{
    (void)state;
    struct stele_replica_key a = {.node_id = 1, .directory_id = {{1}}};
    struct stele_replica_key b = {.node_id = 1, .directory_id = {{2}}};
    struct stele_replica_key unknown = {.node_id = 1};
    struct stele_replica_key other = {.node_id = 2, .directory_id = {{1}}};
    assert_false(stele_replica_key_equal(&a, &b));
    assert_true(stele_replica_key_equal(&a, &unknown));
    assert_true(stele_replica_key_equal(&unknown, &b));
    assert_false(stele_replica_key_equal(&a, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_compare),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
