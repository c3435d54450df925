/* A forced election takes the longest log of the highest epoch and says what that loses; scans are bounded. */
#include "replication/election_scan.h"
#include "replication/forced_election.h"
#include "replication/test/partition_text.h"

struct pick_case {
    const char *name, *replicas, *active;
    struct stele_log_answer answers[4];
    int32_t count;
    int32_t leader_id; /* NO_NODE: none */
};

static const struct pick_case PICKS[] = {
    {"longest of one epoch", "123", "123", {{1, 4, 10, 0, {4, 0}}, {2, 4, 12, 0, {4, 0}}, {3, 4, 11, 0, {4, 0}}}, 3, 2},
    {"epoch before length", "123", "123", {{1, 5, 10, 0, {4, 0}}, {2, 4, 99, 0, {4, 0}}}, 2, 1},
    {"equal: in order", "312", "123", {{1, 4, 10, 0, {4, 0}}, {2, 4, 10, 0, {4, 0}}, {3, 4, 10, 0, {4, 0}}}, 3, 3},
    {"only who may lead", "123", "23", {{1, 5, 10, 0, {4, 0}}, {3, 4, 9, 0, {4, 0}}}, 2, 3},
    {"only replicas", "123", "1234", {{4, 5, 10, 0, {4, 0}}, {3, 4, 9, 0, {4, 0}}}, 2, 3},
    {"an empty log", "123", "123", {{2, -1, 0, 0, {-1, -1}}}, 1, 2},
    {"no answer", "123", "123", {{0}}, 0, STELE_NO_NODE},
    {"none may lead", "123", "3", {{1, 5, 10, 0, {4, 0}}, {2, 5, 10, 0, {4, 0}}}, 2, STELE_NO_NODE},
};

/* Who is picked. */
static void test_pick(void **state)
{
    const struct pick_case *c = *state;
    const struct stele_partition_state partition = {.leader_id = STELE_NO_NODE, .replicas = set_of_text(c->replicas)};
    const struct stele_partition_view view = view_of_text(c->active, 2);
    int32_t leader_id = STELE_NO_NODE;
    assert_int_equal(stele_forced_pick(&partition, &view, c->answers, c->count, &leader_id),
                     c->leader_id == STELE_NO_NODE ? STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE : STELE_OK);
    assert_int_equal(leader_id, c->leader_id);
}

struct loss_case {
    const char *name;
    struct stele_log_answer answers[3];
    int32_t count;
    struct stele_lost_range range; /* of leader 1 */
};

static const struct loss_case LOSSES[] = {
    {"nothing", {{1, 4, 10, 10, {4, 10}}, {2, 4, 8, 8, {4, 10}}, {3, 4, 10, 9, {4, 10}}}, 3, {10, 10, 10, {{0}, 0}}},
    {"committed once, nowhere now", {{1, 4, 10, 14, {4, 10}}, {2, 4, 8, 8, {4, 10}}}, 2, {10, 14, 14, {{3}, 1}}},
    {"a longer log of an older epoch", {{1, 5, 10, 7, {5, 10}}, {2, 4, 20, 18, {4, 6}}}, 2, {6, 20, 18, {{3}, 1}}},
    {"an older epoch that ends inside", {{1, 5, 10, 7, {5, 10}}, {2, 4, 6, 6, {4, 6}}}, 2, {10, 10, 7, {{3}, 1}}},
    {"a log that shares nothing", {{1, 5, 10, 0, {5, 10}}, {2, 4, 9, 3, {-1, -1}}}, 2, {0, 10, 3, {{3}, 1}}},
    {"nobody else is there", {{1, 5, 10, 3, {5, 10}}}, 1, {10, 10, 3, {{2, 3}, 2}}},
};

/* What is lost when 1 leads. */
static void test_loss(void **state)
{
    const struct loss_case *c = *state;
    const struct stele_partition_state partition = {.leader_id = STELE_NO_NODE, .replicas = set_of_text("123")};
    struct stele_lost_range range;
    stele_forced_loss(&partition, c->answers, c->count, 1, &range);
    assert_int_equal(range.from_offset, c->range.from_offset);
    assert_int_equal(range.to_offset, c->range.to_offset);
    assert_int_equal(range.committed_to_offset, c->range.committed_to_offset);
    assert_true(stele_node_set_equal(&range.not_asked, &c->range.not_asked));
}

/* A pass ends at its bounds and the next one goes on there; a round looks at every partition once (4.11.1). */
static void test_scan(void **state)
{
    (void)state;
    static const struct {
        int32_t elections_max, visits_max, passes;
    } cases[] = {{1000, 1000, 1}, {3, 1000, 4}, {1000, 4, 3}, {1, 1, 10}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_election_scan scan;
        stele_election_scan_init(&scan, 500, cases[i].elections_max, cases[i].visits_max, 1000);
        assert_int_equal(scan.deadline_ms, 1500);
        int64_t now_ms = 1500, expected = 0;
        int32_t passes = 0;
        do {
            const int64_t first = expected;
            stele_election_scan_begin(&scan);
            int64_t position = 0;
            while ((position = stele_election_scan_next(&scan, 10, now_ms)) >= 0) {
                assert_int_equal(position, expected);
                expected++;
                stele_election_scan_elected(&scan);
            }
            assert_true(expected - first <= cases[i].elections_max);
            assert_true(expected - first <= cases[i].visits_max);
            passes++;
            now_ms = scan.deadline_ms;
        } while (scan.position != 0);
        assert_int_equal(expected, 10);
        assert_int_equal(passes, cases[i].passes);
        assert_int_equal(now_ms, 1500 + (passes - 1) * STELE_ELECTION_SCAN_AGAIN_MS + 500);
    }
}

/* Partitions may go between passes; hurrying starts a round over. */
static void test_scan_moves(void **state)
{
    (void)state;
    struct stele_election_scan scan;
    stele_election_scan_init(&scan, 500, 100, 2, 0);
    stele_election_scan_begin(&scan);
    assert_int_equal(stele_election_scan_next(&scan, 9, 0), 0);
    assert_int_equal(stele_election_scan_next(&scan, 9, 0), 1);
    assert_int_equal(stele_election_scan_next(&scan, 9, 0), -1);
    stele_election_scan_begin(&scan);
    assert_int_equal(stele_election_scan_next(&scan, 1, 10), -1);
    assert_int_equal(scan.deadline_ms, 510);
    stele_election_scan_begin(&scan);
    assert_int_equal(stele_election_scan_next(&scan, 9, 20), 0);
    stele_election_scan_hurry(&scan, 30);
    assert_int_equal(scan.deadline_ms, 30);
    assert_int_equal(stele_election_scan_next(&scan, 9, 30), 0);
}

int main(void)
{
    struct CMUnitTest tests[STELE_ARRAY_LEN(PICKS) + STELE_ARRAY_LEN(LOSSES) + 2];
    size_t count = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(PICKS); i++) {
        tests[count++] = (struct CMUnitTest){
            .name = PICKS[i].name, .test_func = test_pick, .initial_state = (void *)(uintptr_t)&PICKS[i]};
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(LOSSES); i++) {
        tests[count++] = (struct CMUnitTest){
            .name = LOSSES[i].name, .test_func = test_loss, .initial_state = (void *)(uintptr_t)&LOSSES[i]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_scan);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_scan_moves);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
