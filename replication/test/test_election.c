/* Every rule of a partition change, by its number in the facts about Kafka's replication. */
#include "replication/reassignment.h"
#include "replication/test/partition_text.h"

struct change_case {
    const char *name, *before, *change, *active; /* active: "12 o3", with 3 offline */
    const char *after;                           /* or an error */
    int32_t min_isr;
    int32_t leader_epochs; /* by how much it moves */
    uint32_t changed;
};

#define LEADER STELE_CHANGED_LEADER
#define ISR STELE_CHANGED_ISR
#define ELR STELE_CHANGED_ELR
#define REPLICAS STELE_CHANGED_REPLICAS
#define RECOVERY STELE_CHANGED_RECOVERY
#define UNCLEAN STELE_CHANGED_UNCLEAN
#define SOLE STELE_CHANGED_SOLE_REPLICA
#define FROM_ELR STELE_CHANGED_FROM_ELR
#define STARTED STELE_CHANGED_REASSIGN_STARTED
#define DONE STELE_CHANGED_REASSIGN_DONE
#define CANCELLED STELE_CHANGED_REASSIGN_CANCELLED
#define OFFLINE STELE_CHANGED_OFFLINE
#define EPOCH STELE_CHANGED_EPOCH_ONLY
#define REFUSED "INVALID_REPLICA_ASSIGNMENT"

static const struct change_case CASES[] = {
    {"4.6.6 nothing", "r123 i123 L1", "", "123", "r123 i123 L1", 2, 0, 0},
    {"4.6.6 isr in another order", "r123 i123 L1", "i321", "123", "r123 i123 L1", 2, 0, 0},
    {"4.5.2 fenced leader", "r123 i123 L1", "", "23", "r123 i23 L2", 2, 1, LEADER | ISR},
    {"4.5.2 in order of preference", "r312 i123 L1", "", "23", "r312 i23 L3", 2, 1, LEADER | ISR},
    {"4.5.2 keeps its leader", "r123 i23 L3", "i123", "123", "r123 i123 L3", 2, 0, ISR},
    {"4.6.4 fenced follower, same epoch", "r123 i123 L1", "", "12", "r123 i12 L1", 2, 0, ISR},
    {"4.6.4 leader shrinks, same epoch", "r123 i123 L1", "i13", "123", "r123 i13 L1", 2, 0, ISR},
    {"4.5.3 preferred", "r123 i123 L2", "p", "123", "r123 i123 L1", 2, 1, LEADER},
    {"4.5.3 preferred not in sync", "r123 i23 L3", "p", "123", "r123 i23 L3", 2, 0, 0},
    {"4.5.3 preferred and leader away", "r123 i123 L2", "p", "3", "r123 i3 e12 L3", 2, 1, LEADER | ISR | ELR},
    {"4.3.15 directory offline", "r123 i123 L1", "", "123 o1", "r123 i23 L2", 2, 1, LEADER | ISR},
    {"4.3.15 a leader's replica fails", "r123 i123 L1", "x1", "123", "r123 i23 x1 L2", 2, 1, LEADER | ISR | OFFLINE},
    {"4.3.15 a follower's replica fails", "r123 i123 L1", "x3", "123", "r123 i12 x3 L1", 2, 0, ISR | OFFLINE},
    {"4.3.15 what fails is lost, from the elr too", "r123 i1 e2 L1", "x2", "123", "r123 i1 k2 x2 L1", 2, 0,
     ELR | OFFLINE},
    {"4.3.15 the last one fails", "r123 i1 e2 L1", "x1", "13", "r123 i e2 k1 x1 L-", 2, 1,
     LEADER | ISR | ELR | OFFLINE},
    {"4.3.15 nobody else", "r1 i1 L1", "x1", "1", "r1 i k1 x1 L-", 1, 1, LEADER | ISR | ELR | OFFLINE},
    {"4.3.15 it does not lead again by being active", "r1 i k1 x1 L-", "", "1", "r1 i k1 x1 L-", 1, 0, 0},
    {"4.3.15 nor uncleanly", "r123 i k123 x1 L-", "u", "13", "r123 i3 x1 L3 !", 2, 1,
     LEADER | ISR | ELR | RECOVERY | UNCLEAN},
    {"4.3.15 nor when its leader asks", "r123 i12 x3 L1", "i123", "123", "r123 i12 x3 L1", 2, 0, 0},
    {"4.3.15 of no replica", "r123 i123 L1", "x4", "1234", "r123 i123 L1", 2, 0, 0},
    {"4.3.15 who leaves takes it along", "r4123 i412 x3 a4 d3 L1", "", "124", "r412 i124 L1", 2, 1,
     REPLICAS | DONE | EPOCH | OFFLINE},
    {"4.7.3 below min", "r123 i12 L1", "", "1", "r123 i1 e2 L1", 2, 0, ISR | ELR},
    {"4.7.3 at min", "r123 i12 L1", "", "1", "r123 i1 L1", 1, 0, ISR},
    {"4.7.3 who was out stays out", "r123 i12 L1", "", "3", "r123 i e12 L-", 2, 1, LEADER | ISR | ELR},
    {"4.7.3 back at min", "r123 i1 e2 L1", "i12", "12", "r123 i12 L1", 2, 0, ISR | ELR},
    {"4.7.3 other one, back at min", "r123 i1 e2 k L1", "i13", "13", "r123 i13 L1", 2, 0, ISR | ELR},
    {"4.7.3 last known go with the elr", "r123 i1 k2 L1", "i13", "13", "r123 i13 L1", 2, 0, ISR | ELR},
    {"4.7.2 min above the replicas", "r12 i12 L1", "", "1", "r12 i1 e2 L1", 3, 0, ISR | ELR},
    {"4.7.2 min above the replicas, all there", "r12 i12 L1", "", "12", "r12 i12 L1", 3, 0, 0},
    {"4.7.6 min lowered", "r123 i1 e2 L1", "", "1", "r123 i1 L1", 1, 0, ELR},
    {"4.7.6 min raised", "r123 i1 L1", "", "123", "r123 i1 L1", 2, 0, 0},
    {"4.7.4 isr may be empty", "r123 i1 e2 L1", "", "3", "r123 i e12 L-", 2, 1, LEADER | ISR | ELR},
    {"4.7.4 all at once", "r123 i123 L1", "", "", "r123 i e123 L-", 2, 1, LEADER | ISR | ELR},
    {"4.5.8 replaced by the elr", "r1 i1 L1", "", "", "r1 i e1 L-", 1, 1, LEADER | ISR | ELR},
    {"4.6.1 none stays none", "r123 i e12 L-", "", "3", "r123 i e12 L-", 2, 0, 0},
    {"4.5.6 back from the elr", "r123 i e12 L-", "", "2", "r123 i2 e1 L2", 2, 1, LEADER | ISR | ELR | FROM_ELR},
    {"4.5.6 in order", "r213 i e12 L-", "", "12", "r213 i2 e1 L2", 2, 1, LEADER | ISR | ELR | FROM_ELR},
    {"4.5.6 at min", "r123 i e12 L-", "", "2", "r123 i2 L2", 1, 1, LEADER | ISR | ELR | FROM_ELR},
    {"4.5.6 in the change that empties the isr", "r123 i1 e2 L1", "", "2", "r123 i2 e1 L2", 2, 1,
     LEADER | ISR | ELR | FROM_ELR},
    {"4.5.1 elr not while an isr is there", "r123 i3 e12 L3", "p", "123", "r123 i3 e12 L3", 2, 0, 0},
    {"4.2.10 lost, from the isr", "r123 i12 L1", "l2", "1", "r123 i1 k2 L1", 2, 0, ISR | ELR},
    {"4.2.10 lost, large isr", "r123 i123 L1", "l3", "12", "r123 i12 L1", 2, 0, ISR},
    {"4.2.10 lost, from the elr (B33)", "r123 i e12 L-", "l2", "", "r123 i e1 k2 L-", 2, 0, ELR},
    {"4.2.10 lost, though it is back", "r123 i e12 L-", "l2", "2", "r123 i e1 k2 L-", 2, 0, ELR},
    {"4.2.10 lost everywhere", "r123 i12 L1", "l12", "", "r123 i k12 L-", 2, 1, LEADER | ISR | ELR},
    {"4.3.21 lost leader, new epoch", "r123 i123 L1", "l1", "23", "r123 i23 L2", 2, 1, LEADER | ISR},
    {"4.5.8 the last one may go, the elr serves (B32)", "r123 i1 e23 L1", "l1", "23", "r123 i2 e3 k1 L2", 2, 1,
     LEADER | ISR | ELR | FROM_ELR},
    {"4.5.4 nobody of the last known leads", "r123 i k12 L-", "", "123", "r123 i k12 L-", 2, 0, 0},
    {"4.5.4 nor the only one of them (B34)", "r123 i k1 L-", "", "123", "r123 i k1 L-", 2, 0, 0},
    {"4.5.4 but one that has no other", "r1 i k1 L-", "", "1", "r1 i1 L1 !", 1, 1,
     LEADER | ISR | ELR | RECOVERY | SOLE},
    {"4.5.4 not before it is there", "r1 i k1 L-", "", "2", "r1 i k1 L-", 1, 0, 0},
    {"4.5.4 beside one that was to join", "r21 i k1 a2 d1 L-", "", "12", "r21 i1 a2 d1 L1 !", 2, 1,
     LEADER | ISR | ELR | RECOVERY | SOLE},
    {"4.5.4 beside one that had joined", "r213 i k12 a23 d1 L-", "", "12", "r213 i k12 a23 d1 L-", 2, 0, 0},
    {"4.5.5 unclean, first that is there", "r123 i k12 L-", "u", "23", "r123 i2 L2 !", 2, 1,
     LEADER | ISR | ELR | RECOVERY | UNCLEAN},
    {"4.5.5 unclean, the named one", "r123 i k12 L-", "u3", "123", "r123 i3 L3 !", 2, 1,
     LEADER | ISR | ELR | RECOVERY | UNCLEAN},
    {"4.5.5 unclean, the named one away", "r123 i k12 L-", "u3", "12", "r123 i k12 L-", 2, 0, 0},
    {"4.5.5 clean if somebody can", "r123 i e1 L-", "u3", "123", "r123 i1 L1", 1, 1, LEADER | ISR | ELR | FROM_ELR},
    {"4.5.5 past an elr that is away", "r123 i e12 L-", "u", "3", "r123 i3 L3 !", 2, 1,
     LEADER | ISR | ELR | RECOVERY | UNCLEAN},
    {"4.5.5 instead of the last one that leaves", "r123 i1 L1", "u", "23", "r123 i2 L2 !", 1, 1,
     LEADER | ISR | RECOVERY | UNCLEAN},
    {"3.7.1 recovered", "r123 i1 L1 !", "i1 R", "1", "r123 i1 L1", 1, 0, RECOVERY},
    {"4.9.1 start", "r123 i123 L1", "t345", "12345", "r34512 i123 a45 d12 L1", 2, 0, REPLICAS | STARTED},
    {"4.9.1 raises min in sync", "r12 i12 L1", "t123", "12", "r123 i12 a3 L1", 3, 0, REPLICAS | STARTED},
    {"4.9.2 done, leader away", "r34512 i123 a45 d12 L1", "i12345", "12345", "r345 i345 L3", 2, 1,
     LEADER | ISR | REPLICAS | DONE},
    {"4.9.2 not with one missing", "r34512 i123 a45 d12 L1", "i1234", "12345", "r34512 i1234 a45 d12 L1", 2, 0, ISR},
    {"4.6.3 done, leader stays", "r142 i12 a4 d2 L1", "i124", "124", "r14 i14 L1", 2, 1, ISR | REPLICAS | DONE | EPOCH},
    {"4.9.6 the one that joins leads", "r412 i12 a4 d12 L1", "i124", "124", "r4 i4 L4", 2, 1,
     LEADER | ISR | REPLICAS | DONE},
    {"4.9.3 only removals", "r123 i123 L1", "t12", "123", "r12 i12 L1", 2, 1, ISR | REPLICAS | STARTED | DONE | EPOCH},
    {"4.9.3 the leader is removed", "r123 i123 L1", "t23", "123", "r23 i23 L2", 2, 1,
     LEADER | ISR | REPLICAS | STARTED | DONE},
    {"4.9.3 a target is not in sync", "r123 i13 L1", "t12", "123", "r123 i13 d3 L1", 2, 0, REPLICAS | STARTED},
    {"4.9.2 done by a fence that empties who leaves", "r123 i12 d3 L1", "", "12", "r12 i12 L1", 2, 1,
     REPLICAS | DONE | EPOCH},
    {"4.9.2 done by an election from the elr", "r213 i e2 d13 L-", "", "2", "r2 i2 L2", 2, 1,
     LEADER | ISR | ELR | REPLICAS | DONE | FROM_ELR},
    {"4.9.1 only another order", "r123 i123 L1", "t321", "123", "r321 i123 L1", 2, 0, REPLICAS | STARTED | DONE},
    {"4.6.6 the same reassignment again", "r34512 i123 a45 d12 L1", "t345", "12345", "r34512 i123 a45 d12 L1", 2, 0, 0},
    {"4.9.4 cancel", "r34512 i1234 a45 d12 L1", "c", "12345", "r312 i123 L1", 2, 1, ISR | REPLICAS | CANCELLED | EPOCH},
    {"4.9.4 cancel, only removals", "r123 i13 d3 L1", "c", "123", "r123 i13 L1", 2, 0, REPLICAS | CANCELLED},
    {"4.6.3 cancel without a leader", "r142 i e1 a4 d2 L-", "c", "2", "r12 i e1 L-", 2, 1,
     REPLICAS | CANCELLED | EPOCH},
    {"4.9.4 cancel empties the isr", "r3412 i34 a34 d12 L3", "c", "1234", REFUSED, 2, 0, 0},
    {"4.9.4 cancel, elr away", "r412 i4 e12 a4 d12 L4", "c", "4", REFUSED, 2, 0, 0},
    {"4.9.4 cancel, elr there", "r412 i4 e12 a4 d12 L4", "c", "124", "r12 i1 e2 L1", 2, 1,
     LEADER | ISR | ELR | REPLICAS | CANCELLED | FROM_ELR},
    {"4.9.4 cancel takes the last of the elr", "r412 i e4 a4 d12 L-", "c", "12", REFUSED, 2, 0, 0},
    {"4.9.4 cancel, whatever it costs", "r3412 i34 a34 d12 L3", "c f u", "1234", "r12 i1 L1 !", 2, 1,
     LEADER | ISR | REPLICAS | RECOVERY | CANCELLED | UNCLEAN},
    {"4.9.4 cancel leaves one copy", "r4123 i14 a4 d3 L1", "c", "1234", REFUSED, 2, 0, 0},
    {"4.9.4 cancel leaves one copy, from the elr", "r4123 i1 e4 a4 d3 L1", "c", "123", REFUSED, 2, 0, 0},
    {"4.9.4 cancel leaves one copy, with the leader", "r4123 i14 a4 d3 L4", "c", "1234", REFUSED, 2, 0, 0},
    {"4.9.4 cancel leaves one copy, and that is enough", "r4123 i14 a4 d3 L1", "c", "1234", "r123 i1 L1", 1, 1,
     ISR | REPLICAS | CANCELLED | EPOCH},
    {"4.9.4 cancel leaves one copy, it is said", "r4123 i14 a4 d3 L1", "c f", "1234", "r123 i1 L1", 2, 1,
     ISR | REPLICAS | CANCELLED | EPOCH},
    {"4.9.4 cancel, one and an eligible one are two", "r4125 i14 e2 a4 d5 L1", "c", "1234", REFUSED, 3, 0, 0},
    {"4.9.4 cancel, one and an eligible one are enough", "r412 i4 e12 a4 L4", "c", "124", "r12 i1 e2 L1", 3, 1,
     LEADER | ISR | ELR | REPLICAS | CANCELLED | FROM_ELR},
    {"4.9.4 cancel, the copies were too few before", "r4123 i1 a4 d3 L1", "c", "1234", "r123 i1 L1", 2, 1,
     REPLICAS | CANCELLED | EPOCH},
    {"4.9.4 cancel, back to one replica", "r21 i12 a2 L1", "c", "12", "r1 i1 L1", 2, 1,
     ISR | REPLICAS | CANCELLED | EPOCH},
    {"4.9.5 replaced, leaves one copy", "r4123 i14 a4 d3 L1", "t12", "1234", REFUSED, 2, 0, 0},
    {"4.9.5 replaced, with who joined", "r4123 i14 a4 d3 L1", "t41", "1234", "r41 i14 L1", 2, 1,
     REPLICAS | STARTED | DONE | EPOCH},
    {"4.9.3 fewer replicas than the minimum", "r123 i12 L1", "t1", "123", "r1 i1 L1", 2, 1,
     ISR | REPLICAS | STARTED | DONE | EPOCH},
    {"4.9.4 nothing to cancel", "r123 i123 L1", "c", "123", "NO_REASSIGNMENT_IN_PROGRESS", 2, 0, 0},
    {"4.9.5 over another", "r34512 i123 a45 d12 L1", "t16", "12345", "r1632 i123 a6 d23 L1", 2, 1,
     REPLICAS | STARTED | EPOCH},
    {"4.9.5 who had joined stays", "r412 i14 a4 d12 L1", "t45", "124", "r4512 i14 a45 d12 L1", 2, 0,
     REPLICAS | STARTED},
    {"4.9.5 drops the only one in sync", "r412 i4 a4 d12 L4", "t12", "124", REFUSED, 1, 0, 0},
    {"4.9.1 no replicas", "r123 i123 L1", "t", "123", REFUSED, 2, 0, 0},
};

/* A change gives the state, the epochs and the description that its rule says, and a state that holds its invariants.
 */
static void test_change(void **state)
{
    const struct change_case *c = *state;
    const struct stele_partition_state before = state_of_text(c->before);
    const struct stele_partition_change change = change_of_text(c->change);
    const struct stele_partition_view view = view_of_text(c->active, c->min_isr);
    struct stele_partition_outcome outcome = {.changed = 77};
    const enum stele_err err = stele_partition_change(&before, &change, &view, &outcome);
    char text[PARTITION_TEXT_BYTES];
    if (err != STELE_OK) {
        assert_string_equal(stele_err_name(err), c->after);
        assert_int_equal(outcome.changed, 77);
        return;
    }
    state_text(&outcome.next, text);
    assert_string_equal(text, c->after);
    assert_int_equal(outcome.changed, c->changed);
    assert_int_equal(outcome.next.leader_epoch, before.leader_epoch + c->leader_epochs);
    assert_int_equal(outcome.next.partition_epoch, before.partition_epoch + (c->changed != 0));
    assert_true(stele_partition_state_is_sound(&outcome.next));
}

/* Once made, a change wants nothing more: the same view again writes no record. */
static void test_settles(void **state)
{
    const struct change_case *c = *state;
    if (c->after[0] != 'r') {
        return;
    }
    const struct stele_partition_state before = state_of_text(c->after);
    const struct stele_partition_change nothing = {.mode = STELE_ELECT_ONLINE};
    const struct stele_partition_view view = view_of_text(c->active, c->min_isr);
    struct stele_partition_outcome outcome;
    assert_ok(stele_partition_change(&before, &nothing, &view, &outcome));
    char text[PARTITION_TEXT_BYTES];
    state_text(&outcome.next, text);
    assert_string_equal(text, c->after);
    assert_int_equal(outcome.changed, 0);
}

/* A target that, with those that leave, is more than a partition can have is refused. */
static void test_too_many(void **state)
{
    (void)state;
    struct stele_partition_state before = {.leader_id = 0};
    struct stele_partition_change change = {.reassign = STELE_REASSIGN_START};
    for (int32_t i = 0; i < STELE_REPLICAS_MAX; i++) {
        assert_true(stele_node_set_add(&before.replicas, i));
        assert_true(stele_node_set_add(&change.target, i + 1));
    }
    assert_true(stele_node_set_add(&before.isr, 0));
    const struct stele_partition_view view = view_of_text("0123456789", 1);
    struct stele_partition_outcome outcome;
    assert_int_equal(stele_partition_change(&before, &change, &view, &outcome), STELE_INVALID_REPLICA_ASSIGNMENT);
}

struct elect_case {
    const char *name, *before, *active;
    enum stele_elect_mode mode;
    int32_t leader_id;
    enum stele_err err;
    const char *after;
};

static const struct elect_case ELECTIONS[] = {
    {"preferred", "r123 i123 L2", "123", STELE_ELECT_PREFERRED, -1, STELE_OK, "r123 i123 L1"},
    {"preferred leads", "r123 i123 L1", "123", STELE_ELECT_PREFERRED, -1, STELE_ELECTION_NOT_NEEDED, NULL},
    {"preferred not in sync", "r123 i23 L2", "123", STELE_ELECT_PREFERRED, -1, STELE_PREFERRED_LEADER_NOT_AVAILABLE,
     NULL},
    {"preferred from the elr", "r123 i e12 L-", "12", STELE_ELECT_PREFERRED, -1, STELE_OK, "r123 i1 e2 L1"},
    {"unclean", "r123 i k12 L-", "23", STELE_ELECT_UNCLEAN, 3, STELE_OK, "r123 i3 L3 !"},
    {"unclean with a leader", "r123 i1 e2 L1", "123", STELE_ELECT_UNCLEAN, 3, STELE_ELECTION_NOT_NEEDED, NULL},
    {"unclean, not there", "r123 i k12 L-", "12", STELE_ELECT_UNCLEAN, 3, STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE, NULL},
    {"unclean, nobody", "r123 i k12 L-", "", STELE_ELECT_UNCLEAN, -1, STELE_ELIGIBLE_LEADERS_NOT_AVAILABLE, NULL},
};

/* An election on request answers with its exact error, and then changes nothing (4.5.3, 4.5.5). */
static void test_elect(void **state)
{
    const struct elect_case *c = *state;
    const struct stele_partition_state before = state_of_text(c->before);
    const struct stele_partition_view view = view_of_text(c->active, 2);
    struct stele_partition_outcome outcome;
    assert_int_equal(stele_partition_elect(&before, c->mode, c->leader_id, &view, &outcome), c->err);
    if (c->after != NULL) {
        char text[PARTITION_TEXT_BYTES];
        state_text(&outcome.next, text);
        assert_string_equal(text, c->after);
    }
}

/* A new partition is led by the first replica that is there, at epochs 0; none there is an error (4.10.2, 4.6.5). */
static void test_create(void **state)
{
    (void)state;
    const struct stele_node_set replicas = set_of_text("312");
    struct stele_partition_view view = view_of_text("12", 2);
    struct stele_partition_state created;
    char text[PARTITION_TEXT_BYTES];
    assert_ok(stele_partition_create(&replicas, &view, &created));
    state_text(&created, text);
    assert_string_equal(text, "r312 i12 L1");
    assert_int_equal(created.leader_epoch, 0);
    assert_int_equal(created.partition_epoch, 0);
    view = view_of_text("4", 2);
    assert_int_equal(stele_partition_create(&replicas, &view, &created), STELE_INVALID_REPLICA_ASSIGNMENT);
}

/* Progress of a reassignment is who of those to be added is in sync. */
static void test_joined(void **state)
{
    (void)state;
    const struct stele_partition_state before = state_of_text("r34512 i1234 a45 d12 L1");
    assert_int_equal(stele_reassignment_joined(&before), 1);
}

/* The scans ask for an election exactly where it would change something (4.11). */
static void test_wants(void **state)
{
    (void)state;
    static const struct {
        const char *before, *active;
        bool preferred, unclean;
    } cases[] = {
        {"r123 i123 L2", "123", true, false}, {"r123 i123 L1", "123", false, false},
        {"r123 i23 L2", "123", false, false}, {"r123 i123 L2", "23", false, false},
        {"r123 i k1 L-", "3", false, true},   {"r123 i k1 L-", "", false, false},
        {"r123 i1 L1", "123", false, false},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        const struct stele_partition_state before = state_of_text(cases[i].before);
        const struct stele_partition_view view = view_of_text(cases[i].active, 2);
        assert_int_equal(stele_partition_wants_preferred(&before, &view), cases[i].preferred);
        assert_int_equal(stele_partition_wants_unclean(&before, &view), cases[i].unclean);
    }
}

/* A state from a log that breaks an invariant is seen (D13). */
static void test_soundness(void **state)
{
    (void)state;
    const struct stele_partition_state good = state_of_text("r1234 i12 e3 a2 d1 L1");
    struct stele_partition_state bad = good;
    bad.leader_id = 3;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.isr.ids[1] = 5;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.elr.ids[0] = 2;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.replicas.ids[3] = 1;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.isr.count = STELE_REPLICAS_MAX + 1;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.removing.ids[0] = 2;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.is_recovering = true;
    assert_false(stele_partition_state_is_sound(&bad));
    bad = good;
    bad.leader_epoch = -1;
    assert_false(stele_partition_state_is_sound(&bad));
}

int main(void)
{
    struct CMUnitTest tests[2 * STELE_ARRAY_LEN(CASES) + STELE_ARRAY_LEN(ELECTIONS) + 5];
    size_t count = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(CASES); i++) {
        void *initial = (void *)(uintptr_t)&CASES[i];
        tests[count++] = (struct CMUnitTest){.name = CASES[i].name, .test_func = test_change, .initial_state = initial};
        tests[count++] =
            (struct CMUnitTest){.name = CASES[i].name, .test_func = test_settles, .initial_state = initial};
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(ELECTIONS); i++) {
        tests[count++] = (struct CMUnitTest){
            .name = ELECTIONS[i].name, .test_func = test_elect, .initial_state = (void *)(uintptr_t)&ELECTIONS[i]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_too_many);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_create);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_joined);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_wants);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_soundness);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
