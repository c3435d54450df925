/* The leader machine, rule by rule. B numbers are past bugs of Kafka's that must not come back. */
#include "base/test/support.h"
#include "replication/leader.h"

enum { A = 1, B = 2, C = 3, D = 4 }; /* A leads */

struct fixture {
    struct stele_leader leader;
    struct stele_leader_update update;
    struct stele_log_view log;
    struct stele_partition_state state;
    struct stele_node_status nodes[4];
    int64_t now_ms;
};

static struct stele_node_set set_of(int32_t a, int32_t b, int32_t c)
{
    struct stele_node_set set = {.count = 0};
    const int32_t ids[] = {a, b, c};
    for (size_t i = 0; i < 3; i++) {
        if (ids[i] != 0) {
            set.ids[set.count++] = ids[i];
        }
    }
    return set;
}

static void step(struct fixture *fixture, struct stele_leader_event event)
{
    event.now_ms = fixture->now_ms;
    event.log = fixture->log;
    stele_leader_step(&fixture->leader, &event, &fixture->update);
    if (fixture->update.has_high_watermark) {
        fixture->log.high_watermark = fixture->update.high_watermark;
    }
}

static void lead(struct fixture *fixture)
{
    step(fixture, (struct stele_leader_event){
                      .kind = STELE_LEADER_LEAD, .state = &fixture->state, .nodes = fixture->nodes, .node_count = 4});
}

static struct stele_leader_event fetch_of(const struct fixture *fixture, int32_t node_id, int64_t offset)
{
    return (struct stele_leader_event){
        .kind = STELE_LEADER_FETCH,
        .now_ms = fixture->now_ms,
        .log = fixture->log,
        .fetcher_id = node_id,
        .fetcher_epoch = node_id >= 0 ? node_id * 10 : -1,
        .line = {.leader_epoch = fixture->state.leader_epoch,
                 .last_fetched_epoch = offset > 0 ? 0 : -1,
                 .fetch_offset = offset,
                 .synced_offset = offset,
                 .log_start_offset = 0,
                 .damaged_offset = -1,
                 .known_high_watermark = STELE_HIGH_WATERMARK_NO_WAKE},
        .epoch_end = {0, fixture->log.end_offset},
    };
}

static void fetch(struct fixture *fixture, int32_t node_id, int64_t offset)
{
    step(fixture, fetch_of(fixture, node_id, offset));
}

static void append(struct fixture *fixture, int64_t count)
{
    fixture->log.end_offset += count;
    step(fixture, (struct stele_leader_event){.kind = STELE_LEADER_LOG});
}

static void tick(struct fixture *fixture, int64_t after_ms)
{
    fixture->now_ms += after_ms;
    step(fixture, (struct stele_leader_event){.kind = STELE_LEADER_TICK});
}

static void answer(struct fixture *fixture, enum stele_err err, struct stele_node_set isr, int32_t partition_epoch)
{
    step(fixture, (struct stele_leader_event){.kind = STELE_LEADER_ISR_ANSWER,
                                              .isr_answer = {.change_id = fixture->leader.last_change_id,
                                                             .err = err,
                                                             .leader_epoch = fixture->state.leader_epoch,
                                                             .partition_epoch = partition_epoch,
                                                             .isr = isr}});
}

/* A leads A, B, C with `end` records and no watermark yet; lag 1000 ms, min.insync.replicas 2. */
static void begin(struct fixture *fixture, struct stele_node_set isr, int64_t end)
{
    *fixture = (struct fixture){
        .log = {.end_offset = end, .synced_offset = end, .last_epoch = 0},
        .state = {.leader_id = A, .leader_epoch = 5, .partition_epoch = 7, .replicas = set_of(A, B, C), .isr = isr},
        .now_ms = 100000,
    };
    for (int32_t i = 0; i < 4; i++) {
        fixture->nodes[i] = (struct stele_node_status){
            .node_id = i + 1, .node_epoch = (i + 1) * 10, .is_active = true, .rack = (uint32_t)(i + 1)};
    }
    const struct stele_leader_settings settings = {.min_insync_replicas = 2, .replica_lag_ms = 1000};
    stele_leader_init(&fixture->leader, A, 10, &settings);
    lead(fixture);
}

static bool waits_for_sync(struct fixture *fixture)
{
    fixture->leader.settings.is_flush_before_ack = true;
    return true;
}

static struct stele_produce_outcome outcome_of(struct fixture *fixture, int32_t acks, int64_t offset)
{
    const struct stele_produce_wait wait = {
        .leader_epoch = fixture->leader.leader_epoch, .acks = acks, .required_offset = offset};
    return stele_leader_produce_outcome(&fixture->leader, &wait);
}

/* The watermark is the smallest end in the set, its leader included; a follower that was never heard of holds it. */
static void test_watermark_is_the_smallest_of_the_set(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    assert_true(fixture.update.has_epoch_start);
    assert_int_equal(fixture.update.epoch_start_offset, 10);
    fetch(&fixture, B, 8);
    assert_false(fixture.update.has_high_watermark);
    fetch(&fixture, C, 6);
    assert_true(fixture.update.has_high_watermark);
    assert_int_equal(fixture.update.high_watermark, 6);
    assert_int_equal(fixture.update.answer.high_watermark, 6); /* told at once */
    fetch(&fixture, C, 10);
    assert_int_equal(fixture.leader.high_watermark, 8);
    assert_true(fixture.update.wakes_waiters);
}

/* B42: a follower that comes back with less is believed, and the watermark stays. */
static void test_follower_may_go_backwards(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    fetch(&fixture, C, 4);
    assert_int_equal(fixture.update.answer.err, STELE_OK);
    assert_int_equal(fixture.leader.high_watermark, 10);
    append(&fixture, 1);
    fetch(&fixture, B, 11);
    assert_int_equal(fixture.leader.high_watermark, 10);
}

/* The checks of a fetch, in their order; nothing of a refused one is believed. */
static void test_fetch_is_checked_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t fetcher_id, leader_epoch, last_fetched_epoch, end_epoch;
        int64_t fetcher_epoch, fetch_offset, end_offset;
        enum stele_err want;
        bool is_diverging;
    } cases[] = {
        {"older epoch", B, 4, 0, 0, 20, 8, 10, STELE_FENCED_LEADER_EPOCH, false},
        {"older epoch of a stranger", 9, 4, 0, 0, 20, 8, 10, STELE_FENCED_LEADER_EPOCH, false},
        {"newer epoch", B, 6, 0, 0, 20, 8, 10, STELE_UNKNOWN_LEADER_EPOCH, false},
        {"no epoch", B, -1, 0, 0, 20, 8, 10, STELE_INVALID_REQUEST, false},
        {"no last epoch", B, 5, -1, -1, 20, 8, -1, STELE_INVALID_REQUEST, false},
        {"B36: no replica", D, 5, 0, 0, 40, 8, 10, STELE_UNKNOWN_LEADER_EPOCH, false},
        {"itself", A, 5, 0, 0, 10, 8, 10, STELE_UNKNOWN_LEADER_EPOCH, false},
        {"B30: an earlier life", B, 5, 0, 0, 19, 8, 10, STELE_NOT_LEADER_OR_FOLLOWER, false},
        {"below the start", B, 5, 0, 0, 20, 2, 10, STELE_OFFSET_OUT_OF_RANGE, false},
        {"below the start, diverging too", B, 5, 3, 0, 20, 2, 1, STELE_OFFSET_OUT_OF_RANGE, false},
        {"negative", B, 5, 0, 0, 20, -7, 10, STELE_OFFSET_OUT_OF_RANGE, false},
        {"unknown epoch", B, 5, 3, -1, 20, 8, -1, STELE_OFFSET_OUT_OF_RANGE, false},
        {"B3: an epoch that is not here", B, 5, 3, 2, 20, 8, 9, STELE_OK, true},
        {"B6: longer than the epoch", B, 5, 3, 3, 20, 8, 7, STELE_OK, true},
        {"beyond the end", B, 5, 5, 5, 20, 11, 11, STELE_OFFSET_OUT_OF_RANGE, false},
        {"good", B, 5, 0, 0, 20, 8, 10, STELE_OK, false},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, set_of(A, B, C), 10);
        fetch(&fixture, B, 10);
        fetch(&fixture, C, 10);
        fixture.log.start_offset = 3;
        append(&fixture, 0);
        struct stele_leader_event event = fetch_of(&fixture, cases[i].fetcher_id, cases[i].fetch_offset);
        event.fetcher_epoch = cases[i].fetcher_epoch;
        event.line.leader_epoch = cases[i].leader_epoch;
        event.line.last_fetched_epoch = cases[i].last_fetched_epoch;
        event.epoch_end = (struct stele_epoch_end){cases[i].end_epoch, cases[i].end_offset};
        step(&fixture, event);
        if (fixture.update.answer.err != cases[i].want ||
            stele_epoch_end_is_known(&fixture.update.answer.diverging) != cases[i].is_diverging) {
            fail_msg("%s: %s", cases[i].name, stele_err_name(fixture.update.answer.err));
        }
        bool is_believed = fixture.leader.followers[1].end_offset == 8;
        assert_int_equal(is_believed, i + 1 == STELE_ARRAY_LEN(cases));
    }
}

/* A consumer needs no epochs, reads below the watermark, and may ask between it and the end (KIP-207). */
static void test_consumer_reads_below_the_watermark(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    fetch(&fixture, B, 6);
    fetch(&fixture, C, 6);
    struct stele_leader_event event = fetch_of(&fixture, -1, 8);
    event.line.leader_epoch = event.line.last_fetched_epoch = -1;
    struct stele_fetch_answer look = stele_leader_look(&fixture.leader, &event);
    assert_int_equal(look.err, STELE_OK);
    assert_int_equal(look.read_end_offset, 6);
    event.line.fetch_offset = 11;
    assert_int_equal(stele_leader_look(&fixture.leader, &event).err, STELE_OFFSET_OUT_OF_RANGE);
}

/* A replica that is to begin with the batch around the log's start asks for that one, though it begins below; a
 * consumer never reads there. */
static void test_first_batch_is_given_as_a_whole(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    fixture.log.start_offset = 5;
    struct stele_leader_event event = fetch_of(&fixture, B, 3);
    event.line.last_fetched_epoch = -1;
    event.line.log_start_offset = 3;
    assert_int_equal(stele_leader_look(&fixture.leader, &event).err, STELE_OFFSET_OUT_OF_RANGE);
    event.is_at_first_batch = true;
    assert_int_equal(stele_leader_look(&fixture.leader, &event).err, STELE_OK);
    event.fetcher_id = -1;
    event.line.leader_epoch = -1;
    assert_int_equal(stele_leader_look(&fixture.leader, &event).err, STELE_OFFSET_OUT_OF_RANGE);
}

/* B19: a new leader that does not know how far the old one had got says so. */
static void test_latest_offset_is_unknown_at_first(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    int64_t offset = -5;
    fetch(&fixture, B, 9);
    fetch(&fixture, C, 9);
    assert_int_equal(stele_leader_latest_offset(&fixture.leader, &offset), STELE_OFFSET_NOT_AVAILABLE);
    assert_int_equal(offset, -5);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    assert_ok(stele_leader_latest_offset(&fixture.leader, &offset));
    assert_int_equal(offset, 10);
}

/* B21: a follower that is to leave holds the watermark until the controller has said so. */
static void test_shrink_counts_when_it_is_committed(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    append(&fixture, 5);
    fetch(&fixture, B, 15);
    tick(&fixture, 1001);
    fetch(&fixture, B, 15);
    assert_true(fixture.update.has_isr_change || fixture.leader.isr_state == STELE_ISR_SHRINK);
    struct stele_node_set wished = set_of(A, B, 0);
    assert_true(stele_node_set_equal(&fixture.leader.change.isr, &wished));
    assert_int_equal(fixture.leader.high_watermark, 10);
    answer(&fixture, STELE_OK, wished, 8);
    assert_int_equal(fixture.leader.high_watermark, 15);
    assert_int_equal(fixture.leader.partition_epoch, 8);
}

/* B22: while it is open whether a follower joined, it counts; a lost answer is asked for again, the same wish. */
static void test_expansion_counts_before_it_is_committed(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    assert_int_equal(fixture.leader.high_watermark, 10);
    fetch(&fixture, C, 10);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_EXPAND);
    uint64_t id = fixture.update.isr_change.change_id;
    answer(&fixture, STELE_REQUEST_TIMED_OUT, set_of(0, 0, 0), 0);
    append(&fixture, 5);
    fetch(&fixture, B, 15);
    tick(&fixture, 5000); /* C is not caught up any more: it counts for the open wish alone */
    assert_int_equal(fixture.leader.high_watermark, 10);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.update.isr_change.change_id, id);
    answer(&fixture, STELE_INVALID_UPDATE_VERSION, set_of(0, 0, 0), 0); /* it may have been done before */
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_EXPAND);
    assert_int_equal(fixture.leader.high_watermark, 10);
    tick(&fixture, 60000);
    assert_false(fixture.update.has_isr_change);
    fixture.state.partition_epoch = 8; /* metadata: it was */
    fixture.state.isr = set_of(A, B, C);
    lead(&fixture);
    assert_int_equal(fixture.leader.high_watermark, 10);
    fetch(&fixture, C, 15);
    assert_int_equal(fixture.leader.high_watermark, 15);
}

/* How each answer to a wish ends it (2.5.12, 2.5.13). */
static void test_answers_to_a_wish(void **state)
{
    (void)state;
    static const struct {
        enum stele_err err;
        bool is_settled, is_resent;
    } cases[] = {
        {STELE_OK, true, false},
        {STELE_INELIGIBLE_REPLICA, true, false},
        {STELE_OPERATION_NOT_ATTEMPTED, true, false},
        {STELE_UNKNOWN_TOPIC_OR_PARTITION, false, false},
        {STELE_UNKNOWN_TOPIC_ID, false, false},
        {STELE_FENCED_LEADER_EPOCH, false, false},
        {STELE_INVALID_UPDATE_VERSION, false, false},
        {STELE_INVALID_REQUEST, false, false},
        {STELE_NEW_LEADER_ELECTED, false, false},
        {STELE_NOT_CONTROLLER, false, true},
        {STELE_REQUEST_TIMED_OUT, false, true},
        {STELE_CLOSED, false, true},
        {STELE_STALE_BROKER_EPOCH, false, true},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, set_of(A, B, 0), 10);
        fetch(&fixture, B, 10);
        fetch(&fixture, C, 10);
        answer(&fixture, cases[i].err, set_of(A, B, C), 8);
        assert_int_equal(fixture.leader.isr_state == STELE_ISR_COMMITTED, cases[i].is_settled);
        fetch(&fixture, C, 10);
        assert_false(fixture.update.has_isr_change);
        uint64_t id = fixture.leader.last_change_id;
        tick(&fixture, STELE_ISR_RESEND_MS);
        assert_int_equal(fixture.update.has_isr_change, cases[i].is_resent);
        assert_int_equal(fixture.leader.last_change_id, id);
    }
}

/* B23, B31: a newer state takes the place of a wish; what followers have stays, and an answer to the old wish is
 * nobody's. The state that the wish rests on may come again, and the wish goes on. */
static void test_metadata_beside_a_wish(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    uint64_t id = fixture.leader.last_change_id;
    lead(&fixture);
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_EXPAND);
    assert_int_equal(fixture.leader.last_change_id, id);
    fixture.state.partition_epoch = 9;
    lead(&fixture);
    assert_false(fixture.update.has_epoch_start);
    assert_true(fixture.update.has_isr_change); /* C still may join: another wish, for the newer state */
    assert_int_equal(fixture.update.isr_change.partition_epoch, 9);
    step(&fixture,
         (struct stele_leader_event){
             .kind = STELE_LEADER_ISR_ANSWER,
             .isr_answer = {.change_id = id, .leader_epoch = 5, .partition_epoch = 8, .isr = set_of(A, B, C)}});
    assert_int_equal(fixture.leader.partition_epoch, 9);
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_EXPAND);
    fixture.state.partition_epoch = 8;
    lead(&fixture); /* older metadata */
    assert_int_equal(fixture.leader.partition_epoch, 9);
}

/* An answer that no controller gives settles nothing. */
static void test_nonsense_answers_settle_nothing(void **state)
{
    (void)state;
    const struct {
        int32_t leader_epoch, partition_epoch;
        struct stele_node_set isr;
    } cases[] = {{4, 8, set_of(A, B, C)}, {5, 6, set_of(A, B, C)}, {5, 8, set_of(B, C, 0)}, {5, 8, {.count = 99}}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct fixture fixture;
        begin(&fixture, set_of(A, B, 0), 10);
        fetch(&fixture, B, 10);
        fetch(&fixture, C, 10);
        step(&fixture, (struct stele_leader_event){.kind = STELE_LEADER_ISR_ANSWER,
                                                   .isr_answer = {.change_id = fixture.leader.last_change_id,
                                                                  .leader_epoch = cases[i].leader_epoch,
                                                                  .partition_epoch = cases[i].partition_epoch,
                                                                  .isr = cases[i].isr}});
        assert_int_equal(fixture.leader.isr_state, STELE_ISR_EXPAND);
        assert_int_equal(fixture.leader.partition_epoch, 7);
    }
}

/* Who may join (2.5.6 to 2.5.9): B28 not who is fenced or leaves, B29 with the epoch of the fetch, B40 only after a
 * fetch of this leader epoch, and only with everything up to watermark and epoch start. */
static void test_who_may_join(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    assert_false(fixture.update.has_isr_change);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 9);
    assert_false(fixture.update.has_isr_change); /* below the epoch's start */
    fixture.nodes[2].is_active = false;
    step(&fixture,
         (struct stele_leader_event){.kind = STELE_LEADER_NODES, .nodes = &fixture.nodes[2], .node_count = 1});
    fetch(&fixture, C, 10);
    assert_false(fixture.update.has_isr_change); /* fenced */
    fixture.nodes[2].is_active = fixture.nodes[2].is_leaving = true;
    step(&fixture,
         (struct stele_leader_event){.kind = STELE_LEADER_NODES, .nodes = &fixture.nodes[2], .node_count = 1});
    assert_false(fixture.update.has_isr_change);
    fixture.nodes[2].is_leaving = false;
    fixture.nodes[2].node_epoch = 31;
    step(&fixture,
         (struct stele_leader_event){.kind = STELE_LEADER_NODES, .nodes = &fixture.nodes[2], .node_count = 1});
    assert_false(fixture.update.has_isr_change); /* another life, which has not fetched yet */
    struct stele_leader_event event = fetch_of(&fixture, C, 10);
    event.fetcher_epoch = 31;
    step(&fixture, event);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.update.isr_change.isr.count, 3);
    assert_int_equal(fixture.update.isr_change.node_epochs[0], 10);
    assert_int_equal(fixture.update.isr_change.node_epochs[1], 20);
    assert_int_equal(fixture.update.isr_change.node_epochs[2], 31);
}

/* A replica whose disk failed is out of sync, and its node lives: nothing waits for it as for one that is about to
 * join, until its node has started anew. */
static void test_failed_replica(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    append(&fixture, 1);
    fetch(&fixture, B, 11);
    assert_int_equal(fixture.leader.high_watermark, 10);
    fixture.state.isr = set_of(A, B, 0);
    fixture.state.offline = (struct stele_node_set){.ids = {C}, .count = 1};
    fixture.state.partition_epoch++;
    lead(&fixture);
    assert_int_equal(fixture.leader.high_watermark, 11);
    append(&fixture, 1);
    fetch(&fixture, B, 12);
    assert_int_equal(fixture.leader.high_watermark, 12);
    fetch(&fixture, C, 12); /* of before it failed */
    assert_false(fixture.update.has_isr_change);
    fixture.nodes[2].node_epoch = 31; /* started anew, on a disk that works: no change of the partition says so */
    step(&fixture,
         (struct stele_leader_event){.kind = STELE_LEADER_NODES, .nodes = &fixture.nodes[2], .node_count = 1});
    assert_false(fixture.update.has_isr_change);
    struct stele_leader_event event = fetch_of(&fixture, C, 12);
    event.fetcher_epoch = 31;
    step(&fixture, event);
    assert_true(fixture.update.has_isr_change);
}

/* What a follower had in an earlier life it may have lost: word of the new one holds the watermark until it has fetched
 * again, or metadata leaves it out. Of two nodes that change at once the first alone moves nothing. */
static void test_earlier_life_counts_no_more(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    answer(&fixture, STELE_INELIGIBLE_REPLICA, set_of(A, B, 0), 7);
    append(&fixture, 1);
    fetch(&fixture, B, 11);
    assert_int_equal(fixture.leader.high_watermark, 10); /* C is about to join */
    fixture.nodes[2].is_active = false;
    fixture.nodes[1].node_epoch = 21;
    struct stele_node_status told[] = {fixture.nodes[2], fixture.nodes[1]};
    step(&fixture, (struct stele_leader_event){.kind = STELE_LEADER_NODES, .nodes = told, .node_count = 2});
    assert_int_equal(fixture.leader.high_watermark, 10);
    struct stele_leader_event event = fetch_of(&fixture, B, 10);
    event.fetcher_epoch = 21;
    step(&fixture, event);
    assert_int_equal(fixture.leader.high_watermark, 10);
    event = fetch_of(&fixture, B, 11);
    event.fetcher_epoch = 21;
    step(&fixture, event);
    assert_int_equal(fixture.leader.high_watermark, 11);
}

/* Over a leader epoch that follows, what followers have is kept, but not that they may join; over a gap, nothing is:
 * another leader may have made them cut. */
static void test_what_is_kept_over_an_epoch(void **state)
{
    (void)state;
    for (int gap = 1; gap <= 2; gap++) {
        struct fixture fixture;
        begin(&fixture, set_of(A, B, 0), 10);
        fetch(&fixture, B, 8);
        fixture.nodes[2].is_active = false;
        fetch(&fixture, C, 10);
        answer(&fixture, STELE_INELIGIBLE_REPLICA, set_of(0, 0, 0), 0);
        fixture.state.leader_epoch += gap;
        fixture.state.partition_epoch += gap;
        fixture.nodes[2].is_active = true;
        lead(&fixture);
        assert_int_equal(fixture.leader.followers[1].end_offset, gap == 1 ? 8 : -1);
        assert_int_equal(fixture.leader.followers[2].end_offset, gap == 1 ? 10 : -1);
        assert_false(fixture.update.has_isr_change);
        tick(&fixture, STELE_ISR_BACKOFF_MS);
        assert_false(fixture.update.has_isr_change);
        fetch(&fixture, C, 10);
        assert_true(fixture.update.has_isr_change);
    }
}

/* After another node led nothing is kept, whatever the epochs. */
static void test_nothing_is_kept_after_following(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    struct stele_partition_state other = fixture.state;
    other.leader_id = B;
    other.leader_epoch = 6;
    step(&fixture, (struct stele_leader_event){.kind = STELE_LEADER_RESIGN, .state = &other});
    assert_true(fixture.update.wakes_waiters);
    assert_int_equal(fixture.update.deadline_ms, INT64_MAX);
    assert_int_equal(outcome_of(&fixture, -1, 10).err, STELE_NOT_LEADER_OR_FOLLOWER);
    fixture.state.leader_epoch = 6;
    struct stele_leader_event late = fetch_of(&fixture, B, 10);
    assert_int_equal(stele_leader_look(&fixture.leader, &late).err, STELE_NOT_LEADER_OR_FOLLOWER);
    fixture.state.leader_epoch = 7;
    lead(&fixture);
    assert_int_equal(fixture.leader.followers[1].end_offset, -1);
}

/* B26: with fewer in sync than the minimum the watermark stands; acks=all is refused, acks=1 written and not seen. */
static void test_minimum_in_sync(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, 0, 0), 10);
    assert_int_equal(stele_leader_admits(&fixture.leader, -1), STELE_NOT_ENOUGH_REPLICAS);
    assert_int_equal(stele_leader_admits(&fixture.leader, 2), STELE_INVALID_REQUIRED_ACKS);
    assert_ok(stele_leader_admits(&fixture.leader, 1));
    append(&fixture, 1);
    assert_int_equal(fixture.leader.high_watermark, 0);
    struct stele_produce_outcome outcome = outcome_of(&fixture, 1, 11);
    assert_false(outcome.is_pending);
    assert_int_equal(outcome.level, STELE_ACK_WRITTEN);
    fetch(&fixture, B, 11);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(stele_leader_admits(&fixture.leader, -1), STELE_NOT_ENOUGH_REPLICAS); /* not yet committed */
    assert_int_equal(fixture.leader.high_watermark, 0);
    answer(&fixture, STELE_OK, set_of(A, B, 0), 8);
    assert_int_equal(fixture.leader.high_watermark, 11);
    assert_ok(stele_leader_admits(&fixture.leader, -1));
}

/* B50: the minimum by which the controller worked out a change counts until its metadata is here. */
static void test_minimum_of_the_controller(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    fetch(&fixture, C, 10);
    step(&fixture, (struct stele_leader_event){.kind = STELE_LEADER_ISR_ANSWER,
                                               .isr_answer = {.change_id = fixture.leader.last_change_id,
                                                              .leader_epoch = 5,
                                                              .partition_epoch = 8,
                                                              .isr = set_of(A, B, 0),
                                                              .min_isr = 3}});
    assert_int_equal(stele_leader_min_isr(&fixture.leader), 3);
    assert_int_equal(stele_leader_admits(&fixture.leader, -1), STELE_NOT_ENOUGH_REPLICAS);
    fixture.state.partition_epoch = 8;
    lead(&fixture);
    assert_int_equal(stele_leader_min_isr(&fixture.leader), 2);
}

/* The outcomes of a waiting produce (1.3.3); B27: not of another leadership. */
static void test_produce_outcomes(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    append(&fixture, 2);
    assert_true(outcome_of(&fixture, -1, 12).is_pending);
    fetch(&fixture, B, 12);
    struct stele_produce_outcome outcome = outcome_of(&fixture, -1, 12);
    assert_false(outcome.is_pending);
    assert_ok(outcome.err);
    assert_int_equal(outcome.level, STELE_ACK_REPLICATED); /* the leader itself has synced only 10 */
    fixture.log.synced_offset = 12;
    append(&fixture, 0);
    assert_int_equal(outcome_of(&fixture, -1, 12).level, STELE_ACK_SYNCED);
    const struct stele_produce_wait other = {.leader_epoch = 4, .acks = -1, .required_offset = 12};
    assert_int_equal(stele_leader_produce_outcome(&fixture.leader, &other).err, STELE_NOT_LEADER_OR_FOLLOWER);
    fixture.state.isr = set_of(A, 0, 0);
    fixture.state.partition_epoch = 8;
    lead(&fixture);
    if (fixture.leader.isr_state == STELE_ISR_EXPAND) {
        answer(&fixture, STELE_INELIGIBLE_REPLICA, set_of(0, 0, 0), 0);
    }
    assert_int_equal(outcome_of(&fixture, -1, 12).err, STELE_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
}

/* flush.before.ack: what is not synced does not count, of followers or of the leader, nor to join; acks=1 waits for the
 * leader's own sync. */
static void test_flush_before_ack(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    assert_true(waits_for_sync(&fixture));
    fixture.log.end_offset = 12;
    append(&fixture, 0);
    struct stele_leader_event event = fetch_of(&fixture, B, 12);
    event.line.synced_offset = 9;
    step(&fixture, event);
    assert_int_equal(fixture.leader.high_watermark, 9);
    fetch(&fixture, B, 12);
    assert_int_equal(fixture.leader.high_watermark, 10);
    assert_true(outcome_of(&fixture, 1, 12).is_pending);
    fixture.log.synced_offset = 12;
    append(&fixture, 0);
    assert_true(fixture.update.wakes_waiters);
    assert_int_equal(fixture.leader.high_watermark, 12);
    assert_int_equal(outcome_of(&fixture, -1, 12).level, STELE_ACK_SYNCED);
    assert_int_equal(outcome_of(&fixture, 1, 12).level, STELE_ACK_SYNCED);
    event = fetch_of(&fixture, C, 12);
    event.line.synced_offset = 11;
    step(&fixture, event);
    assert_false(fixture.update.has_isr_change);
    event.line.synced_offset = 99; /* no more than it has */
    step(&fixture, event);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.leader.followers[2].synced_offset, 12);
}

static void switch_on(struct fixture *fixture, bool is_on)
{
    struct stele_leader_settings settings = fixture->leader.settings;
    settings.is_flush_before_ack = is_on;
    step(fixture, (struct stele_leader_event){.kind = STELE_LEADER_SETTINGS, .settings = settings});
}

/* flush.before.ack switched on while the log is not synced: the high watermark stays and waits there, and what lies
 * below it (the answer to a batch that is sent again) is acknowledged only when all in sync have it on their disks. */
static void test_flush_before_ack_switched_on(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    append(&fixture, 2);
    struct stele_leader_event fetched = fetch_of(&fixture, B, 12);
    fetched.line.synced_offset = 3;
    step(&fixture, fetched);
    assert_int_equal(fixture.leader.high_watermark, 12);
    assert_int_equal(outcome_of(&fixture, -1, 12).level, STELE_ACK_REPLICATED);
    switch_on(&fixture, true);
    assert_int_equal(fixture.leader.high_watermark, 12);
    assert_true(outcome_of(&fixture, -1, 12).is_pending);
    assert_true(outcome_of(&fixture, 1, 12).is_pending);
    assert_false(outcome_of(&fixture, -1, 3).is_pending);
    append(&fixture, 1);
    fetched = fetch_of(&fixture, B, 13);
    step(&fixture, fetched);
    assert_true(fixture.update.wakes_waiters);
    assert_int_equal(fixture.leader.high_watermark, 12);
    assert_true(outcome_of(&fixture, -1, 12).is_pending); /* the leader's own sync */
    fixture.log.synced_offset = 12;
    append(&fixture, 0);
    assert_true(fixture.update.wakes_waiters);
    assert_int_equal(outcome_of(&fixture, -1, 12).level, STELE_ACK_SYNCED);
    assert_true(outcome_of(&fixture, -1, 13).is_pending);
    fixture.log.synced_offset = 13;
    append(&fixture, 0);
    assert_int_equal(fixture.leader.high_watermark, 13);
    append(&fixture, 1);
    switch_on(&fixture, false);
    fetched = fetch_of(&fixture, B, 14);
    fetched.line.synced_offset = 13;
    step(&fixture, fetched);
    assert_int_equal(outcome_of(&fixture, -1, 14).level, STELE_ACK_REPLICATED);
}

/* Who was in sync when flush.before.ack is switched on has a lag time for its first sync, and no longer. */
static void test_flush_before_ack_switched_on_shrinks_late(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    struct stele_leader_event fetched = fetch_of(&fixture, B, 10);
    fetched.line.synced_offset = 3;
    step(&fixture, fetched);
    tick(&fixture, 60000);
    switch_on(&fixture, true);
    tick(&fixture, 999);
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_COMMITTED);
    tick(&fixture, 502);
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_SHRINK);
}

/* An idle follower whose fetch does not come again is caught up; after an append it has one lag time, not none. */
static void test_idle_follower_stays(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    for (int i = 0; i < 100; i++) {
        tick(&fixture, 500);
        assert_false(fixture.update.has_isr_change);
    }
    append(&fixture, 1);
    assert_false(fixture.update.has_isr_change);
    tick(&fixture, 999);
    assert_false(fixture.update.has_isr_change);
    tick(&fixture, 501);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.update.isr_change.isr.count, 1);
}

/* An idle partition asks for no timer; one that waits for somebody does, and one about to join that dies holds the
 * watermark for a lag time and no longer. */
static void test_timer_only_while_somebody_is_behind(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    assert_true(fixture.update.deadline_ms < INT64_MAX); /* nobody fetched yet */
    fetch(&fixture, B, 10);
    assert_int_equal(fixture.update.deadline_ms, INT64_MAX);
    fetch(&fixture, C, 10);
    answer(&fixture, STELE_INELIGIBLE_REPLICA, set_of(0, 0, 0), 0);
    append(&fixture, 1);
    fetch(&fixture, B, 11);
    assert_int_equal(fixture.leader.high_watermark, 10); /* C may join */
    for (int i = 0; i < 10 && fixture.leader.high_watermark == 10; i++) {
        assert_true(fixture.update.deadline_ms < INT64_MAX);
        tick(&fixture, fixture.update.deadline_ms - fixture.now_ms);
        if (fixture.update.has_isr_change) {
            answer(&fixture, STELE_INELIGIBLE_REPLICA, set_of(0, 0, 0), 0);
        }
    }
    assert_int_equal(fixture.leader.high_watermark, 11);
    assert_true(fixture.now_ms <= 100000 + 1000 + 500 + 1);
    fetch(&fixture, B, 3); /* lost its tail: it may fall out */
    assert_true(fixture.update.deadline_ms < INT64_MAX);
}

/* A follower that always is a fetch behind the moving end stays in (2.4.2), also when its sync is one more behind. */
static void test_follower_one_fetch_behind_stays(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    assert_true(waits_for_sync(&fixture));
    int64_t before = 0;
    int64_t end = 10;
    for (int i = 0; i < 100; i++) {
        struct stele_leader_event event = fetch_of(&fixture, B, end);
        event.line.synced_offset = before;
        before = end;
        end = fixture.log.end_offset + 5;
        fixture.now_ms += 200;
        fixture.log.synced_offset = fixture.log.end_offset;
        append(&fixture, 5);
        assert_false(fixture.update.has_isr_change);
        event.log = fixture.log;
        step(&fixture, event);
        assert_false(fixture.update.has_isr_change);
    }
}

/* A damaged follower counts no further than its damage, and is proposed for removal by name. */
static void test_damaged_follower(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, C), 10);
    fetch(&fixture, B, 10);
    struct stele_leader_event event = fetch_of(&fixture, C, 10);
    event.line.damaged_offset = 4;
    step(&fixture, event);
    assert_int_equal(fixture.leader.high_watermark, 4);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.update.isr_change.isr.count, 2);
    assert_true(stele_node_set_has(&fixture.update.isr_change.damaged, C));
    answer(&fixture, STELE_OK, set_of(A, B, 0), 8);
    assert_int_equal(fixture.leader.high_watermark, 10);
    step(&fixture, event);
    assert_false(fixture.update.has_isr_change);
    fetch(&fixture, C, 10); /* repaired */
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.update.isr_change.damaged.count, 0);
}

/* B35: a member that is no replica is dropped. */
static void test_strange_member_is_dropped(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, D), 10);
    assert_int_equal(fixture.leader.isr.count, 2);
    fetch(&fixture, B, 10);
    assert_int_equal(fixture.leader.high_watermark, 10);
}

/* After an unclean election the leader says at once that it has recovered. */
static void test_recovery_is_told(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, 0, 0), 10);
    fixture.state.is_recovering = true;
    fixture.state.leader_epoch++;
    lead(&fixture);
    assert_true(fixture.update.has_isr_change);
    assert_int_equal(fixture.update.isr_change.isr.count, 1);
    fetch(&fixture, B, 10);
    assert_false(fixture.update.has_isr_change); /* one after the other */
    answer(&fixture, STELE_OK, set_of(A, 0, 0), 8);
    assert_false(fixture.leader.is_recovering);
    assert_int_equal(fixture.leader.isr_state, STELE_ISR_EXPAND);
}

static struct stele_leader_event synced_fetch_of(const struct fixture *fixture, int32_t node_id, int64_t synced)
{
    struct stele_leader_event event = fetch_of(fixture, node_id, 10);
    event.line.synced_offset = synced;
    return event;
}

/* Since flush.before.ack was switched on the metadata has it that what is committed may be on no disk: the leader says
 * otherwise when all in sync have synced all that may be committed, of earlier epochs too; once, and not while others
 * may lead, of whom it does not know. */
static void test_synced_is_told(void **state)
{
    (void)state;
    for (int has_elr = 0; has_elr < 2; has_elr++) {
        struct fixture fixture;
        begin(&fixture, set_of(A, B, 0), 10);
        waits_for_sync(&fixture);
        fixture.state.is_unsynced = true;
        fixture.state.leader_epoch++;
        fixture.state.elr = has_elr ? set_of(C, 0, 0) : set_of(0, 0, 0);
        fixture.log.synced_offset = 4;
        lead(&fixture);
        step(&fixture, synced_fetch_of(&fixture, B, 10));
        assert_false(fixture.update.has_isr_change); /* not synced here */
        fixture.log.synced_offset = 10;
        step(&fixture, synced_fetch_of(&fixture, B, 9));
        assert_false(fixture.update.has_isr_change); /* not there, though the high watermark is lower */
        step(&fixture, synced_fetch_of(&fixture, B, 10));
        assert_int_equal(fixture.update.has_isr_change, !has_elr);
        if (has_elr)
            continue;
        assert_true(fixture.update.isr_change.is_synced);
        assert_int_equal(fixture.update.isr_change.isr.count, 2);
        answer(&fixture, STELE_OK, set_of(A, B, 0), 8);
        assert_false(fixture.leader.is_unsynced);
        step(&fixture, synced_fetch_of(&fixture, B, 10));
        assert_false(fixture.update.has_isr_change);
    }
}

/* A parked fetch is woken by what cannot wait, and by the watermark only for who asked. */
static void test_parked_fetch_wakes(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 10);
    struct stele_leader_event event = fetch_of(&fixture, C, 10);
    assert_false(stele_leader_wakes_fetch(&fixture.leader, &event));
    event.line.known_high_watermark = 9;
    assert_true(stele_leader_wakes_fetch(&fixture.leader, &event));
    event.line.known_high_watermark = 10;
    assert_false(stele_leader_wakes_fetch(&fixture.leader, &event));
    event.line.known_high_watermark = -1;
    assert_true(stele_leader_wakes_fetch(&fixture.leader, &event));
    event.line.known_high_watermark = 10;
    event.epoch_end.end_offset = 9;
    assert_true(stele_leader_wakes_fetch(&fixture.leader, &event));
    event.epoch_end.end_offset = 10;
    fixture.state.leader_epoch = 6;
    lead(&fixture);
    assert_true(fixture.update.wakes_fetches);
    assert_true(stele_leader_wakes_fetch(&fixture.leader, &event));
}

/* Deletions go up to the watermark, and are done when all that live have followed. */
static void test_delete_records(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    fetch(&fixture, B, 8);
    int64_t start = 0;
    assert_int_equal(stele_leader_delete_to(&fixture.leader, 9, &start), STELE_OFFSET_OUT_OF_RANGE);
    assert_int_equal(stele_leader_delete_to(&fixture.leader, -2, &start), STELE_OFFSET_OUT_OF_RANGE);
    assert_ok(stele_leader_delete_to(&fixture.leader, -1, &start));
    assert_int_equal(start, 8);
    fixture.log.start_offset = 8;
    append(&fixture, 0);
    assert_int_equal(stele_leader_low_watermark(&fixture.leader), -1); /* C was not heard of */
    fixture.nodes[2].is_active = false;
    step(&fixture,
         (struct stele_leader_event){.kind = STELE_LEADER_NODES, .nodes = &fixture.nodes[2], .node_count = 1});
    assert_true(fixture.update.wakes_waiters);
    assert_int_equal(stele_leader_low_watermark(&fixture.leader), 0);
    struct stele_leader_event event = fetch_of(&fixture, B, 10);
    event.line.log_start_offset = 8;
    step(&fixture, event);
    assert_true(fixture.update.wakes_waiters);
    assert_int_equal(stele_leader_low_watermark(&fixture.leader), 8);
    assert_ok(stele_leader_delete_to(&fixture.leader, 3, &start));
    assert_int_equal(start, 8);
}

/* A consumer is sent to the replica of its rack that is in sync and has the offset (7.5). */
static void test_nearest_replica(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, set_of(A, B, 0), 10);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 2, 4), A); /* B was not heard of */
    fetch(&fixture, B, 8);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 2, 4), B);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 2, 9), A);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 1, 4), A);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 0, 4), A);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 7, 4), A);
    fetch(&fixture, C, 9);
    assert_int_equal(stele_leader_read_replica(&fixture.leader, 3, 4), A); /* not in sync */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watermark_is_the_smallest_of_the_set),
        cmocka_unit_test(test_follower_may_go_backwards),
        cmocka_unit_test(test_fetch_is_checked_in_order),
        cmocka_unit_test(test_consumer_reads_below_the_watermark),
        cmocka_unit_test(test_first_batch_is_given_as_a_whole),
        cmocka_unit_test(test_latest_offset_is_unknown_at_first),
        cmocka_unit_test(test_shrink_counts_when_it_is_committed),
        cmocka_unit_test(test_expansion_counts_before_it_is_committed),
        cmocka_unit_test(test_answers_to_a_wish),
        cmocka_unit_test(test_metadata_beside_a_wish),
        cmocka_unit_test(test_nonsense_answers_settle_nothing),
        cmocka_unit_test(test_who_may_join),
        cmocka_unit_test(test_failed_replica),
        cmocka_unit_test(test_earlier_life_counts_no_more),
        cmocka_unit_test(test_what_is_kept_over_an_epoch),
        cmocka_unit_test(test_nothing_is_kept_after_following),
        cmocka_unit_test(test_minimum_in_sync),
        cmocka_unit_test(test_minimum_of_the_controller),
        cmocka_unit_test(test_produce_outcomes),
        cmocka_unit_test(test_flush_before_ack),
        cmocka_unit_test(test_flush_before_ack_switched_on),
        cmocka_unit_test(test_flush_before_ack_switched_on_shrinks_late),
        cmocka_unit_test(test_idle_follower_stays),
        cmocka_unit_test(test_timer_only_while_somebody_is_behind),
        cmocka_unit_test(test_follower_one_fetch_behind_stays),
        cmocka_unit_test(test_damaged_follower),
        cmocka_unit_test(test_strange_member_is_dropped),
        cmocka_unit_test(test_recovery_is_told),
        cmocka_unit_test(test_synced_is_told),
        cmocka_unit_test(test_parked_fetch_wakes),
        cmocka_unit_test(test_delete_records),
        cmocka_unit_test(test_nearest_replica),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
