/* AlterPartition: each check of 4.8 with its error, and that they come in that order. */
#include "replication/alter_partition.h"

#include "replication/test/partition_text.h"

#include <string.h>

/* The partition is at leader epoch 5 and partition epoch 9; node n has node epoch 100 + n. */
struct alter_case {
    const char *name, *before, *active;
    int32_t sender_id, leader_epoch, partition_epoch;
    const char
        *isr; /* "12?3+x4": a digit, then + for an old node epoch, ? for an unknown one; after x who is damaged */
    bool is_recovering;
    enum stele_err err;
    const char *after;
};

static const struct alter_case CASES[] = {
    {"expand", "r123 i12 L1", "123", 1, 5, 9, "123", false, STELE_OK, "r123 i123 L1"},
    {"shrink", "r123 i123 L1", "123", 1, 5, 9, "12", false, STELE_OK, "r123 i12 L1"},
    {"4.7.3 shrink below min", "r123 i12 L1", "123", 1, 5, 9, "1", false, STELE_OK, "r123 i1 e2 L1"},
    {"4.6.6 as it is", "r123 i12 L1", "123", 1, 5, 9, "21", false, STELE_OK, "r123 i12 L1"},
    {"4.8.3 leader epoch above", "r123 i12 L1", "123", 1, 6, 9, "123", false, STELE_NOT_CONTROLLER, NULL},
    {"4.8.3 partition epoch above", "r123 i12 L1", "123", 1, 5, 10, "123", false, STELE_NOT_CONTROLLER, NULL},
    {"4.8.3 one above, one below", "r123 i12 L1", "123", 1, 4, 10, "123", false, STELE_NOT_CONTROLLER, NULL},
    {"4.8.4 leader epoch below", "r123 i12 L1", "123", 1, 4, 9, "123", false, STELE_FENCED_LEADER_EPOCH, NULL},
    {"4.8.4 both below", "r123 i12 L1", "123", 2, 4, 8, "123", false, STELE_FENCED_LEADER_EPOCH, NULL},
    {"4.8.4 not the leader", "r123 i12 L1", "123", 2, 5, 8, "123", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.4 nobody leads", "r123 i e12 L-", "3", -1, 5, 9, "12", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.4 partition epoch below", "r123 i12 L1", "123", 1, 5, 8, "777", false, STELE_INVALID_UPDATE_VERSION, NULL},
    {"4.8.5 not a replica", "r123 i12 L1", "1234", 1, 5, 9, "124", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.5 twice", "r123 i12 L1", "123", 1, 5, 9, "122", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.5 without the leader", "r123 i12 L1", "123", 1, 5, 9, "23", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.5 empty", "r123 i12 L1", "123", 1, 5, 9, "", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.5 too many", "r123 i12 L1", "123", 1, 5, 9, "11111111111111111", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.5 before 4.8.6", "r123 i12 L1", "12", 1, 5, 9, "1233", false, STELE_INVALID_REQUEST, NULL},
    {"3.7.2 recovering with two", "r123 i1 L1 !", "123", 1, 5, 9, "12", true, STELE_INVALID_REQUEST, NULL},
    {"3.7.2 recovering again", "r123 i1 L1", "123", 1, 5, 9, "1", true, STELE_INVALID_REQUEST, NULL},
    {"3.7.1 recovered", "r123 i1 L1 !", "123", 1, 5, 9, "12", false, STELE_OK, "r123 i12 L1"},
    {"3.7.1 still recovering", "r123 i1 L1 !", "123", 1, 5, 9, "1", true, STELE_OK, "r123 i1 L1 !"},
    {"4.8.6 fenced member (B28)", "r123 i12 L1", "12", 1, 5, 9, "123", false, STELE_INELIGIBLE_REPLICA, NULL},
    {"4.8.6 its directory is offline", "r123 i12 L1", "123 o3", 1, 5, 9, "123", false, STELE_INELIGIBLE_REPLICA, NULL},
    {"4.8.6 member of another life (B29)", "r123 i12 L1", "123", 1, 5, 9, "123+", false, STELE_INELIGIBLE_REPLICA,
     NULL},
    {"4.8.6 joins without an epoch", "r123 i12 L1", "123", 1, 5, 9, "123?", false, STELE_INELIGIBLE_REPLICA, NULL},
    {"4.8.6 stays without an epoch", "r123 i123 L1", "123", 1, 5, 9, "12?", false, STELE_OK, "r123 i12 L1"},
    {"a damaged one is not eligible", "r123 i12 L1", "123", 1, 5, 9, "1x2", false, STELE_OK, "r123 i1 k2 L1"},
    {"nor any more", "r123 i1 e2 L1", "123", 1, 5, 9, "1x2", false, STELE_OK, "r123 i1 k2 L1"},
    {"a damaged one is no replica", "r123 i12 L1", "123", 1, 5, 9, "12x7", false, STELE_OK, "r123 i12 L1"},
    {"a damaged one is in sync", "r123 i12 L1", "123", 1, 5, 9, "12x2", false, STELE_INVALID_REQUEST, NULL},
    {"4.8.8 another leader", "r412 i12 a4 d12 L1", "124", 1, 5, 9, "124", false, STELE_NEW_LEADER_ELECTED, "r4 i4 L4"},
};

static int32_t members_of(const char *text, struct stele_isr_candidate *members)
{
    int32_t count = 0;
    for (; *text != 0 && *text != 'x'; text++) {
        if (*text == '+' || *text == '?') {
            members[count - 1].node_epoch = *text == '+' ? 55 : -1;
        } else {
            members[count++] = (struct stele_isr_candidate){.node_id = *text - '0', .node_epoch = 100 + *text - '0'};
        }
    }
    return count;
}

/* The answer and the next state of each row; a refused request sets nothing. */
static void test_alter(void **state)
{
    const struct alter_case *c = *state;
    const struct stele_partition_state before = state_of_text(c->before);
    const struct stele_partition_view view = view_of_text(c->active, 2);
    struct stele_isr_candidate members[20];
    const char *damaged_text = strchr(c->isr, 'x');
    const struct stele_node_set damaged = set_of_text(damaged_text != NULL ? damaged_text + 1 : "");
    const struct stele_alter_partition request = {.sender_id = c->sender_id,
                                                  .leader_epoch = c->leader_epoch,
                                                  .partition_epoch = c->partition_epoch,
                                                  .isr = members,
                                                  .isr_count = members_of(c->isr, members),
                                                  .damaged = damaged.ids,
                                                  .damaged_count = damaged.count,
                                                  .is_recovering = c->is_recovering};
    struct stele_partition_outcome outcome = {.changed = 77};
    assert_int_equal(stele_alter_partition(&before, &request, &view, &outcome), c->err);
    if (c->after == NULL) {
        assert_int_equal(outcome.changed, 77);
        return;
    }
    char text[PARTITION_TEXT_BYTES];
    state_text(&outcome.next, text);
    assert_string_equal(text, c->after);
}

/* A node that is not registered joins nothing. */
static void test_unregistered(void **state)
{
    (void)state;
    const struct stele_partition_state before = state_of_text("r12 i1 L1");
    const struct stele_partition_view view = {
        .nodes = {{.node_id = 1, .node_epoch = 101, .is_active = true}}, .count = 1, .min_isr = 1};
    const struct stele_isr_candidate members[] = {{1, 101}, {2, 102}};
    const struct stele_alter_partition request = {
        .sender_id = 1, .leader_epoch = 5, .partition_epoch = 9, .isr = members, .isr_count = 2};
    struct stele_partition_outcome outcome;
    assert_int_equal(stele_alter_partition(&before, &request, &view, &outcome), STELE_INELIGIBLE_REPLICA);
}

/* That everything is synced is believed of the set that the leader names, and not while others may lead. */
static void test_synced(void **state)
{
    static const struct {
        const char *before;
        bool is_synced, is_unsynced;
        int32_t partition_epoch;
    } cases[] = {{"r12 i12 L1", false, true, 9}, {"r12 i12 L1", true, false, 10}, {"r123 i1 e2 L1", true, true, 9}};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_partition_state before = state_of_text(cases[i].before);
        const struct stele_partition_view view = view_of_text("123", 2);
        struct stele_isr_candidate members[20];
        struct stele_partition_outcome outcome;
        before.is_unsynced = true;
        const struct stele_alter_partition request = {.sender_id = 1,
                                                      .leader_epoch = 5,
                                                      .partition_epoch = 9,
                                                      .isr = members,
                                                      .isr_count = members_of(i == 2 ? "1" : "12", members),
                                                      .is_synced = cases[i].is_synced};
        assert_ok(stele_alter_partition(&before, &request, &view, &outcome));
        assert_int_equal(outcome.next.is_unsynced, cases[i].is_unsynced);
        assert_int_equal(outcome.next.partition_epoch, cases[i].partition_epoch);
        const struct stele_partition_change again = {.unclean_leader_id = STELE_NO_NODE, .is_unsynced = true};
        assert_ok(stele_partition_change(&outcome.next, &again, &view, &outcome));
        assert_true(outcome.next.is_unsynced);
    }
}

/* The answer tells the state after the change, and by which minimum the ELR was made (4.8.7, B50). */
static void test_answer(void **state)
{
    (void)state;
    const struct stele_partition_state after = state_of_text("r123 i1 e2 L1 !");
    struct stele_partition_answer answer;
    stele_alter_partition_answer(&after, 5, &answer);
    assert_int_equal(answer.leader_id, 1);
    assert_int_equal(answer.leader_epoch, 5);
    assert_int_equal(answer.partition_epoch, 9);
    assert_int_equal(answer.min_isr, 3);
    assert_true(answer.is_recovering);
    assert_true(stele_node_set_equal(&answer.isr, &after.isr));
}

int main(void)
{
    struct CMUnitTest tests[STELE_ARRAY_LEN(CASES) + 3];
    size_t count = 0;
    for (; count < STELE_ARRAY_LEN(CASES); count++) {
        tests[count] = (struct CMUnitTest){
            .name = CASES[count].name, .test_func = test_alter, .initial_state = (void *)(uintptr_t)&CASES[count]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_unregistered);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_synced);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_answer);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
