/* Placement: racks first, balance, fenced nodes only where needed (4.10.4). */
#include "replication/placement.h"

#include "base/test/support.h"

#include <stdio.h>
#include <string.h>

enum { NODES_MAX = 16 };

struct layout {
    const char *name;
    const char *nodes; /* per node its rack, small: fenced. Node i is the i-th */
    int32_t factor;
    enum stele_err err;
};

static const struct layout LAYOUTS[] = {
    {"three nodes, no racks", "AAA", 3, STELE_OK},
    {"one node", "A", 1, STELE_OK},
    {"five nodes, no racks", "AAAAA", 3, STELE_OK},
    {"three racks", "AABBCC", 3, STELE_OK},
    {"two racks, three replicas", "AABB", 3, STELE_OK},
    {"uneven racks", "AAAABC", 3, STELE_OK},
    {"one of three is fenced", "AAa", 3, STELE_OK},
    {"fenced ones are not needed", "AAABBbCcc", 3, STELE_OK},
    {"a whole rack is fenced", "AABBcc", 3, STELE_OK},
    {"all but one are fenced", "Aabc", 4, STELE_OK},
    {"more replicas than nodes", "AAA", 4, STELE_INVALID_REPLICATION_FACTOR},
    {"no replicas", "AAA", 0, STELE_INVALID_REPLICATION_FACTOR},
    {"all are fenced", "aab", 2, STELE_INVALID_REPLICATION_FACTOR},
    {"no nodes", "", 1, STELE_INVALID_REPLICATION_FACTOR},
};

static int32_t nodes_of(const char *text, char (*racks)[2], struct stele_placement_node *nodes)
{
    int32_t count = 0;
    for (; text[count] != 0; count++) {
        const char c = text[count];
        racks[count][0] = (char)(c >= 'a' ? c - 'a' + 'A' : c);
        racks[count][1] = 0;
        nodes[count] = (struct stele_placement_node){.node_id = count, .is_fenced = c >= 'a', .rack = racks[count]};
    }
    return count;
}

static int32_t count_of(const char *text, char low, char high)
{
    int32_t count = 0;
    for (; *text != 0; text++) {
        count += *text >= low && *text <= high;
    }
    return count;
}

/* How many racks of the unfenced nodes there are. */
static int32_t rack_count(const char *text)
{
    int32_t count = 0;
    for (char c = 'A'; c <= 'Z'; c++) {
        count += strchr(text, c) != NULL;
    }
    return count;
}

static void replicas_check(const struct layout *layout, const struct stele_node_set *replicas)
{
    char racks[NODES_MAX + 1] = "";
    int32_t fenced = 0;
    assert_int_equal(replicas->count, layout->factor);
    for (int32_t i = 0; i < replicas->count; i++) {
        const char c = layout->nodes[replicas->ids[i]];
        fenced += c >= 'a';
        racks[i] = c;
        for (int32_t k = 0; k < i; k++) {
            assert_int_not_equal(replicas->ids[k], replicas->ids[i]);
        }
    }
    assert_true(racks[0] < 'a'); /* who will lead */
    const int32_t unfenced = count_of(layout->nodes, 'A', 'Z');
    assert_int_equal(fenced, stele_max_i64(0, layout->factor - unfenced));
    /* As many racks as there can be. */
    racks[replicas->count] = 0;
    assert_int_equal(rack_count(racks), stele_min_i64(rack_count(layout->nodes), layout->factor - fenced));
}

/* For many seeds and partitions: no node twice, the racks spread, an unfenced leader, no needless fenced node. */
static void test_layout(void **state)
{
    const struct layout *layout = *state;
    char racks[NODES_MAX][2];
    struct stele_placement_node nodes[NODES_MAX];
    struct stele_placement_rack rack_memory[NODES_MAX];
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct stele_placement placement;
        const int32_t count = nodes_of(layout->nodes, racks, nodes);
        stele_placement_init(&placement, nodes, rack_memory, count, seed);
        for (int32_t partition = 0; partition < 40; partition++) {
            struct stele_node_set replicas = {.count = 0};
            assert_int_equal(stele_placement_next(&placement, layout->factor, &replicas), layout->err);
            if (layout->err == STELE_OK) {
                replicas_check(layout, &replicas);
            }
        }
    }
}

/* As many partitions as nodes in even racks: each node leads one of them, and has the same number of replicas. */
static void test_balance(void **state)
{
    (void)state;
    static const struct {
        const char *nodes;
        int32_t factor;
    } cases[] = {{"AAA", 3}, {"AAAAA", 3}, {"ABC", 3}, {"AABB", 2}, {"AABBCC", 3}, {"AAAA", 2}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char racks[NODES_MAX][2];
        struct stele_placement_node nodes[NODES_MAX];
        struct stele_placement_rack rack_memory[NODES_MAX];
        const int32_t count = nodes_of(cases[i].nodes, racks, nodes);
        for (uint64_t seed = 0; seed < 20; seed++) {
            int32_t leads[NODES_MAX] = {0}, has[NODES_MAX] = {0};
            struct stele_placement placement;
            stele_placement_init(&placement, nodes, rack_memory, count, seed);
            for (int32_t partition = 0; partition < 3 * count; partition++) {
                struct stele_node_set replicas;
                assert_ok(stele_placement_next(&placement, cases[i].factor, &replicas));
                leads[replicas.ids[0]]++;
                for (int32_t k = 0; k < replicas.count; k++) {
                    has[replicas.ids[k]]++;
                }
            }
            for (int32_t node = 0; node < count; node++) {
                assert_int_equal(leads[node], 3);
                assert_int_equal(has[node], 3 * cases[i].factor);
            }
        }
    }
}

/* Partitions that are added later get what they would have got at once; another seed gives another stripe (4.10.5). */
static void test_continues(void **state)
{
    (void)state;
    char racks[NODES_MAX][2];
    struct stele_placement_node nodes[NODES_MAX];
    struct stele_placement_rack rack_memory[NODES_MAX];
    const int32_t count = nodes_of("AABBBCd", racks, nodes);
    struct stele_node_set all[30];
    struct stele_placement placement;
    stele_placement_init(&placement, nodes, rack_memory, count, 7);
    for (int32_t i = 0; i < 30; i++) {
        assert_ok(stele_placement_next(&placement, 3, &all[i]));
    }
    stele_placement_init(&placement, nodes, rack_memory, count, 7);
    stele_placement_skip(&placement, 11);
    for (int32_t i = 11; i < 30; i++) {
        struct stele_node_set replicas;
        assert_ok(stele_placement_next(&placement, 3, &replicas));
        assert_int_equal(memcmp(replicas.ids, all[i].ids, 3 * sizeof replicas.ids[0]), 0);
    }
    int32_t different = 0;
    stele_placement_init(&placement, nodes, rack_memory, count, 8);
    for (int32_t i = 0; i < 30; i++) {
        struct stele_node_set replicas;
        assert_ok(stele_placement_next(&placement, 3, &replicas));
        different += memcmp(replicas.ids, all[i].ids, 3 * sizeof replicas.ids[0]) != 0;
    }
    assert_true(different > 0);
}

/* A list that somebody wrote is refused for each of its faults (4.10.2). */
static void test_manual(void **state)
{
    (void)state;
    char racks[NODES_MAX][2];
    struct stele_placement_node nodes[NODES_MAX];
    const int32_t count = nodes_of("AAA", racks, nodes);
    const int32_t many[STELE_REPLICAS_MAX + 1] = {0};
    struct stele_node_set set;
    assert_ok(stele_placement_check(nodes, count, (const int32_t[]){2, 0}, 2, &set));
    assert_int_equal(set.ids[0], 2);
    assert_int_equal(set.count, 2);
    assert_int_equal(stele_placement_check(nodes, count, many, 0, &set), STELE_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(stele_placement_check(nodes, count, many, STELE_REPLICAS_MAX + 1, &set),
                     STELE_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(stele_placement_check(nodes, count, (const int32_t[]){1, 1}, 2, &set),
                     STELE_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(stele_placement_check(nodes, count, (const int32_t[]){1, 3}, 2, &set),
                     STELE_INVALID_REPLICA_ASSIGNMENT);
}

/* What a topic gets that does not say (design: Kafka's defaults lose data on three nodes). */
static void test_defaults(void **state)
{
    (void)state;
    static const int32_t cases[][3] = {{1, 1, 1}, {2, 2, 1}, {3, 3, 2}, {5, 3, 2}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        const int32_t factor = stele_default_replication_factor(cases[i][0]);
        assert_int_equal(factor, cases[i][1]);
        assert_int_equal(stele_default_min_isr(factor), cases[i][2]);
    }
}

int main(void)
{
    struct CMUnitTest tests[STELE_ARRAY_LEN(LAYOUTS) + 4];
    size_t count = 0;
    for (; count < STELE_ARRAY_LEN(LAYOUTS); count++) {
        tests[count] = (struct CMUnitTest){
            .name = LAYOUTS[count].name, .test_func = test_layout, .initial_state = (void *)(uintptr_t)&LAYOUTS[count]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_balance);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_continues);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_manual);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_defaults);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
