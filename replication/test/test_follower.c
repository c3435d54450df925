/* The follower machine, rule by rule. B numbers are past bugs of Kafka's that must not come back. */
#include "base/test/support.h"
#include "replication/follower.h"

enum { A = 1, B = 2, SELF = 3 };

struct fixture {
    struct stele_follower follower;
    struct stele_follower_update update;
    struct stele_log_view log;
    struct stele_partition_state state;
    struct stele_follower_question question;
    int64_t now_ms;
};

static void step(struct fixture *fixture, struct stele_follower_event event)
{
    event.now_ms = fixture->now_ms;
    event.log = fixture->log;
    stele_follower_step(&fixture->follower, &event, &fixture->update);
}

static void follow(struct fixture *fixture, int32_t leader_id, int32_t leader_epoch, int32_t partition_epoch)
{
    fixture->state = (struct stele_partition_state){
        .leader_id = leader_id, .leader_epoch = leader_epoch, .partition_epoch = partition_epoch};
    step(fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_FOLLOW, .state = &fixture->state});
}

static bool ask(struct fixture *fixture)
{
    return stele_follower_fetch(&fixture->follower, fixture->now_ms, &fixture->log, &fixture->question);
}

/* Follows A in epoch 5 with a log of [0, end) of epochs up to 3, and has asked. */
static void begin(struct fixture *fixture, int64_t end)
{
    *fixture = (struct fixture){
        .log = {.end_offset = end, .synced_offset = end, .high_watermark = end / 2, .last_epoch = end > 0 ? 3 : -1},
        .now_ms = 1000,
    };
    const struct stele_follower_settings settings = {.fetch_backoff_ms = 100};
    stele_follower_init(&fixture->follower, SELF, &settings);
    follow(fixture, A, 5, 9);
    assert_true(ask(fixture));
}

static struct stele_follower_event answer_of(const struct fixture *fixture)
{
    return (struct stele_follower_event){
        .kind = STELE_FOLLOWER_ANSWER,
        .ticket = fixture->question.ticket,
        .answer = {.diverging = {-1, -1}, .high_watermark = 20, .log_end_offset = 40},
        .own_end = {-1, -1},
        .records = stele_fetched_records_begin(&fixture->question.ticket),
    };
}

static bool does_nothing(const struct stele_follower_update *update)
{
    return !update->has_cut && !update->has_restart && update->append_end_offset < 0 && !update->has_high_watermark &&
           !update->has_start;
}

/* The question says what the log is; nothing is asked without a leader. */
static void test_question(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    assert_int_equal(fixture.question.line.fetch_offset, 10);
    assert_int_equal(fixture.question.line.last_fetched_epoch, 3);
    assert_int_equal(fixture.question.line.leader_epoch, 5);
    assert_int_equal(fixture.question.line.synced_offset, 10);
    assert_int_equal(fixture.question.line.damaged_offset, -1);
    assert_true(fixture.question.line.known_high_watermark == STELE_HIGH_WATERMARK_NO_WAKE);
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_READERS, .is_read_from = true});
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_DAMAGE, .damaged_offset = 4});
    assert_true(ask(&fixture));
    assert_int_equal(fixture.question.line.known_high_watermark, 5);
    assert_int_equal(fixture.question.line.damaged_offset, 4);
    follow(&fixture, STELE_NO_NODE, 6, 10);
    assert_true(fixture.update.stops);
    assert_false(ask(&fixture));
}

/* Records first, then the watermark, then the start, each within its bounds (2.7). */
static void test_answer_with_records(void **state)
{
    (void)state;
    static const struct {
        int64_t end, their_watermark, their_start, watermark, start;
    } cases[] = {{15, 12, 0, 12, -1},  {15, 99, 0, 15, -1}, {15, 12, 7, 12, 7},
                 {15, 12, 13, 12, 12}, {10, 3, 0, 3, -1},   {10, -1, 0, -1, -1}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, 10);
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.high_watermark = cases[i].their_watermark;
        event.answer.log_start_offset = cases[i].their_start;
        const struct stele_fetched_batch batch = {10, cases[i].end, 5};
        if (cases[i].end > 10) {
            assert_true(stele_follower_takes(&event.ticket, &fixture.log, &batch, &event.records));
        }
        step(&fixture, event);
        assert_int_equal(fixture.update.append_end_offset, cases[i].end > 10 ? cases[i].end : -1);
        assert_int_equal(fixture.update.has_high_watermark ? fixture.update.high_watermark : -1, cases[i].watermark);
        assert_int_equal(fixture.update.has_start ? fixture.update.start_offset : -1, cases[i].start);
    }
}

/* B4, B5, B38: an answer to a question of another epoch, of before a cut, or at another offset is nobody's. */
static void test_stale_answers_are_dropped(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    struct stele_follower_event first = answer_of(&fixture);
    follow(&fixture, B, 6, 10);
    step(&fixture, first);
    assert_true(does_nothing(&fixture.update));
    begin(&fixture, 10);
    first = answer_of(&fixture);
    fixture.log.end_offset = 12; /* another answer came first */
    step(&fixture, first);
    assert_true(does_nothing(&fixture.update));
    begin(&fixture, 10);
    first = answer_of(&fixture);
    struct stele_follower_event diverging = first;
    diverging.answer.diverging = (struct stele_epoch_end){3, 8};
    diverging.own_end = (struct stele_epoch_end){3, 10};
    step(&fixture, diverging);
    assert_int_equal(fixture.update.cut_offset, 8);
    fixture.log.end_offset = 8;
    step(&fixture, diverging); /* twice: the cut is made once */
    assert_true(does_nothing(&fixture.update));
    fixture.log.end_offset = 10; /* the same place again, after it was filled anew */
    step(&fixture, first);
    assert_true(does_nothing(&fixture.update));
}

/* Where to cut (3.3.3), KIP-279; B7: nothing else of such an answer is taken; B9: also where only the index is cut. */
static void test_where_to_cut(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct stele_epoch_end theirs, own;
        int64_t cut;
        bool lost_committed;
    } cases[] = {
        {"same epoch, theirs is shorter", {3, 8}, {3, 10}, 8, false},
        {"B6: below the watermark", {3, 4}, {3, 10}, 4, true},
        {"lower epoch, ours is shorter", {2, 8}, {2, 7}, 7, false},
        {"lower epoch, theirs is shorter", {2, 6}, {2, 7}, 6, false},
        {"B3: their epoch is not here", {2, 9}, {1, 6}, 6, false},
        {"B3: nor any below it", {2, 9}, {-1, -1}, 9, false},
        {"B9: only the index", {2, 10}, {2, 10}, 10, false},
        {"longer than here", {2, 30}, {2, 10}, 10, false},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, 10);
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.diverging = cases[i].theirs;
        event.answer.log_start_offset = 3;
        event.own_end = cases[i].own;
        step(&fixture, event);
        if (!fixture.update.has_cut || fixture.update.cut_offset != cases[i].cut ||
            fixture.update.lost_committed != cases[i].lost_committed) {
            fail_msg("%s: %lld", cases[i].name, (long long)fixture.update.cut_offset);
        }
        assert_false(fixture.update.has_high_watermark);
        assert_false(fixture.update.has_start);
        assert_true(ask(&fixture)); /* and goes on at once */
    }
}

/* A divergence that no leader can mean cuts nothing, and is not asked for again at once. */
static void test_nonsense_divergence(void **state)
{
    (void)state;
    const struct stele_epoch_end cases[] = {{3, 10}, {3, 11}, {4, 2}, {-1, 4}, {2, -1}, {-7, -7}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, 10);
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.diverging = cases[i];
        event.own_end = (struct stele_epoch_end){3, 10};
        step(&fixture, event);
        assert_true(does_nothing(&fixture.update));
        assert_false(ask(&fixture));
    }
}

/* Out of range (3.4): B12 longer than the leader, fallen behind its start, or by now within. */
static void test_out_of_range(void **state)
{
    (void)state;
    static const struct {
        int64_t start, end, cut, restart;
        bool lost_committed, is_delayed;
    } cases[] = {{0, 7, 7, -1, false, false},  {0, 3, 3, -1, true, false},    {20, 40, -1, 20, false, false},
                 {5, 40, -1, -1, false, true}, {10, 10, -1, -1, false, true}, {-1, -1, -1, -1, false, true},
                 {30, 20, -1, -1, false, true}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, 10);
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.err = STELE_OFFSET_OUT_OF_RANGE;
        event.answer.log_start_offset = cases[i].start;
        event.answer.log_end_offset = cases[i].end;
        step(&fixture, event);
        assert_int_equal(fixture.update.has_cut ? fixture.update.cut_offset : -1, cases[i].cut);
        assert_int_equal(fixture.update.has_restart ? fixture.update.restart_offset : -1, cases[i].restart);
        assert_int_equal(fixture.update.lost_committed, cases[i].lost_committed);
        assert_false(fixture.update.has_high_watermark);
        assert_int_equal(ask(&fixture), !cases[i].is_delayed);
    }
}

/* A log that begins behind the leader's end has nothing in common with it: cut to that end it would lack all that the
 * leader has before, and count as a replica of it. */
static void test_log_behind_the_leader_begins_anew(void **state)
{
    (void)state;
    for (int is_diverging = 0; is_diverging < 2; is_diverging++) {
        struct fixture fixture;
        begin(&fixture, 10);
        fixture.log.start_offset = fixture.log.high_watermark = 8;
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.err = is_diverging ? STELE_OK : STELE_OFFSET_OUT_OF_RANGE;
        event.answer.log_start_offset = 2;
        event.answer.log_end_offset = 6;
        if (is_diverging)
            event.answer.diverging = (struct stele_epoch_end){event.ticket.last_fetched_epoch, 6};
        step(&fixture, event);
        assert_false(fixture.update.has_cut);
        assert_true(fixture.update.has_restart);
        assert_int_equal(fixture.update.restart_offset, 2);
    }
}

/* The leader deleted all up to where the two may differ. What this log has below was perhaps never committed, and would
 * be back after a loss of power that takes a start that was only raised; so the log begins anew. Not when they agreed
 * on something above: then all below is the leader's too. */
static void test_log_that_cannot_be_compared_begins_anew(void **state)
{
    (void)state;
    static const struct {
        int64_t their_start;
        struct stele_epoch_end diverging;
        bool has_agreed;
        int64_t restart, cut, start; /* -1: none */
    } cases[] = {{10, {-1, -1}, false, 10, -1, -1}, {10, {-1, -1}, true, -1, -1, 10}, {9, {-1, -1}, false, -1, -1, 9},
                 {7, {3, 7}, false, 7, -1, -1},     {7, {3, 7}, true, 7, -1, -1},     {7, {3, 8}, false, -1, 8, -1}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, 10);
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.log_start_offset = 4;
        if (cases[i].has_agreed)
            step(&fixture, event);
        event.answer.log_start_offset = cases[i].their_start;
        event.answer.diverging = cases[i].diverging;
        step(&fixture, event);
        assert_int_equal(fixture.update.has_restart ? fixture.update.restart_offset : -1, cases[i].restart);
        assert_int_equal(fixture.update.has_cut ? fixture.update.cut_offset : -1, cases[i].cut);
        assert_int_equal(fixture.update.has_start ? fixture.update.start_offset : -1, cases[i].start);
    }
}

/* A log that is empty, and knows no epoch, stays where it is, though its leader begins below: it may be in sync, and
 * its end is what it stands for. */
static void test_empty_log_keeps_its_end(void **state)
{
    (void)state;
    for (int has_records = 0; has_records < 2; has_records++) {
        struct fixture fixture;
        begin(&fixture, 10);
        fixture.log.start_offset = fixture.log.high_watermark = 10;
        fixture.log.last_epoch = -1;
        assert_true(ask(&fixture));
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.log_start_offset = 5;
        const struct stele_fetched_batch batch = {10, 15, 5};
        if (has_records)
            assert_true(stele_follower_takes(&event.ticket, &fixture.log, &batch, &event.records));
        step(&fixture, event);
        assert_false(fixture.update.has_restart || fixture.update.has_cut || fixture.update.has_start);
        assert_int_equal(fixture.update.append_end_offset, has_records ? 15 : -1);
    }
}

/* B13: out of range from a leader that is none any more cuts nothing. */
static void test_out_of_range_of_an_old_leader(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    struct stele_follower_event event = answer_of(&fixture);
    event.answer = (struct stele_fetch_answer){.err = STELE_OFFSET_OUT_OF_RANGE, .diverging = {-1, -1}};
    follow(&fixture, B, 6, 10);
    step(&fixture, event);
    assert_true(does_nothing(&fixture.update));
}

/* What of an answer may be taken: B10 a prefix of epochs up to the question's, B8 no epoch below the last one, no gap;
 * B11 a first batch that begins below an empty log. */
static void test_which_batches_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t log_start, end;
        struct stele_fetched_batch batches[3];
        int taken;
    } cases[] = {
        {"all", 0, 10, {{10, 12, 4}, {12, 13, 5}, {13, 20, 5}}, 3},
        {"B10: a newer epoch", 0, 10, {{10, 12, 5}, {12, 13, 6}, {13, 20, 5}}, 1},
        {"B8: an epoch below the last", 0, 10, {{10, 12, 2}, {12, 13, 5}, {13, 20, 5}}, 0},
        {"a gap", 0, 10, {{10, 12, 5}, {13, 14, 5}, {14, 20, 5}}, 1},
        {"an overlap", 0, 10, {{10, 12, 5}, {11, 14, 5}, {14, 20, 5}}, 1},
        {"below the end of a log with records", 0, 10, {{8, 12, 5}, {12, 13, 5}, {13, 20, 5}}, 0},
        {"B11: below an empty log's end", 10, 10, {{8, 12, 5}, {12, 13, 5}, {13, 20, 5}}, 3},
        {"all of it below", 10, 10, {{8, 10, 5}, {10, 13, 5}, {13, 20, 5}}, 0},
        {"empty", 0, 10, {{10, 10, 5}, {10, 13, 5}, {13, 20, 5}}, 0},
        {"no epoch", 10, 10, {{10, 12, -1}, {12, 13, 5}, {13, 20, 5}}, 0},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, cases[i].end);
        fixture.log.start_offset = cases[i].log_start;
        fixture.log.high_watermark = cases[i].log_start > 5 ? cases[i].log_start : 5;
        struct stele_follower_event event = answer_of(&fixture);
        int taken = 0;
        for (int k = 0; k < 3; k++) {
            taken += stele_follower_takes(&event.ticket, &fixture.log, &cases[i].batches[k], &event.records);
        }
        if (taken != cases[i].taken || event.records.is_cut != (taken < 3)) {
            fail_msg("%s: %d taken", cases[i].name, taken);
        }
        step(&fixture, event);
        assert_int_equal(fixture.update.append_end_offset, taken > 0 ? cases[i].batches[taken - 1].end_offset : -1);
        assert_int_equal(fixture.update.has_restart, taken > 0 && cases[i].batches[0].base_offset < cases[i].end);
        if (fixture.update.has_restart) { /* what was deleted stays so, though the batch has it */
            assert_int_equal(fixture.update.restart_offset, cases[i].batches[0].base_offset);
            assert_int_equal(fixture.update.has_start ? fixture.update.start_offset : -1, cases[i].log_start);
            assert_true(fixture.update.has_high_watermark && fixture.update.high_watermark >= cases[i].log_start);
        }
        assert_int_equal(ask(&fixture), taken > 0); /* B43: nothing to take is no reason to spin */
    }
}

/* B43: failures of one partition delay it, twice as long each time up to the bound, and a success ends that. */
static void test_backoff(void **state)
{
    (void)state;
    static const enum stele_err errors[] = {STELE_NOT_LEADER_OR_FOLLOWER, STELE_UNKNOWN_LEADER_EPOCH,
                                            STELE_UNKNOWN_TOPIC_ID,       STELE_CORRUPT_MESSAGE,
                                            STELE_KAFKA_STORAGE_ERROR,    STELE_UNKNOWN_SERVER_ERROR};
    struct fixture fixture;
    begin(&fixture, 10);
    const int64_t delays[] = {20, 40, 80, 100, 100, 100};
    for (size_t i = 0; i < STELE_ARRAY_LEN(errors); i++) {
        struct stele_follower_event event = answer_of(&fixture);
        event.answer.err = errors[i];
        step(&fixture, event);
        assert_true(does_nothing(&fixture.update));
        assert_int_equal(fixture.update.deadline_ms, fixture.now_ms + delays[i]);
        fixture.now_ms += delays[i] - 1;
        assert_false(ask(&fixture));
        fixture.now_ms++;
        assert_true(ask(&fixture));
    }
    step(&fixture, answer_of(&fixture));
    assert_true(fixture.update.deadline_ms <= fixture.now_ms);
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_LOST, .ticket = fixture.question.ticket});
    assert_int_equal(fixture.update.deadline_ms, fixture.now_ms + 20);
}

/* L8: fenced, it stops until metadata names a newer epoch; other metadata does not wake it. */
static void test_fenced_until_new_metadata(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    struct stele_follower_event event = answer_of(&fixture);
    event.answer.err = STELE_FENCED_LEADER_EPOCH;
    step(&fixture, event);
    assert_true(fixture.update.stops);
    fixture.now_ms += 1000000;
    assert_false(ask(&fixture));
    follow(&fixture, A, 5, 10);
    assert_false(ask(&fixture));
    follow(&fixture, A, 6, 11);
    assert_true(ask(&fixture));
    assert_int_equal(fixture.question.line.leader_epoch, 6);
}

/* Metadata of the same leader epoch leaves the fetcher alone (2.10.2), older metadata is dropped (D28). */
static void test_metadata_that_changes_nothing(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    follow(&fixture, A, 5, 10);
    step(&fixture, answer_of(&fixture));
    assert_true(fixture.update.has_high_watermark);
    follow(&fixture, B, 4, 11);
    assert_int_equal(fixture.follower.leader_id, A);
    follow(&fixture, STELE_NO_NODE, 5, 9);
    assert_int_equal(fixture.follower.leader_id, A);
    assert_int_equal(fixture.follower.partition_epoch, 10);
}

/* A log without epochs begins at its watermark; one with epochs keeps what it has (2.9.3, B1). */
static void test_initial_offset(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    assert_false(fixture.update.has_cut);
    fixture.log.last_epoch = -1;
    follow(&fixture, B, 6, 10);
    assert_true(fixture.update.has_cut);
    assert_int_equal(fixture.update.cut_offset, 5);
    fixture.log.high_watermark = 10;
    follow(&fixture, A, 7, 11);
    assert_false(fixture.update.has_cut);
}

/* flush.before.ack: records want a sync, a sync that no fetch has told of wants a report, and only then. */
static void test_sync_and_report(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, 10);
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_SYNCED});
    assert_false(fixture.update.wants_report);
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_SETTINGS,
                                                 .settings = {.fetch_backoff_ms = 100, .is_flush_before_ack = true}});
    struct stele_follower_event event = answer_of(&fixture);
    const struct stele_fetched_batch batch = {10, 12, 5};
    assert_true(stele_follower_takes(&event.ticket, &fixture.log, &batch, &event.records));
    step(&fixture, event);
    assert_true(fixture.update.wants_sync);
    fixture.log.end_offset = 12;
    assert_true(ask(&fixture)); /* beside the sync */
    assert_int_equal(fixture.question.line.synced_offset, 10);
    fixture.log.synced_offset = 12;
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_SYNCED});
    assert_true(fixture.update.wants_report);
    assert_true(ask(&fixture));
    assert_int_equal(fixture.question.line.synced_offset, 12);
    step(&fixture, (struct stele_follower_event){.kind = STELE_FOLLOWER_SYNCED});
    assert_false(fixture.update.wants_report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question),
        cmocka_unit_test(test_answer_with_records),
        cmocka_unit_test(test_stale_answers_are_dropped),
        cmocka_unit_test(test_where_to_cut),
        cmocka_unit_test(test_nonsense_divergence),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_log_behind_the_leader_begins_anew),
        cmocka_unit_test(test_log_that_cannot_be_compared_begins_anew),
        cmocka_unit_test(test_empty_log_keeps_its_end),
        cmocka_unit_test(test_out_of_range_of_an_old_leader),
        cmocka_unit_test(test_which_batches_are_taken),
        cmocka_unit_test(test_backoff),
        cmocka_unit_test(test_fenced_until_new_metadata),
        cmocka_unit_test(test_metadata_that_changes_nothing),
        cmocka_unit_test(test_initial_offset),
        cmocka_unit_test(test_sync_and_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
