/* The quorum's machine alone: the roles that a node starts in, the exact error of every request that it refuses, what
 * it commits, what it asks its owner for, its bounds, and that no nonsense of a peer reaches an assertion. */
#include "base/test/support.h"
#include "replication/quorum.h"

#include <string.h>

/* One machine, node 0 of voters 0, 1, 2, and the owner's part of its log. */
struct fixture {
    struct stele_quorum quorum;
    struct stele_quorum_update update;
    int64_t now_ms;
    uint64_t random;
};

static struct stele_replica_key key_of(int32_t node_id)
{
    return (struct stele_replica_key){.node_id = node_id, .directory_id = {{(uint8_t)(node_id + 1)}}};
}

static const struct stele_uuid cluster = {{9}};

static struct stele_quorum_start start_of(int32_t voters)
{
    struct stele_quorum_start start = {.settings = stele_quorum_settings_default(),
                                       .cluster_id = cluster,
                                       .self = key_of(0),
                                       .history_count = 1,
                                       .now_ms = 1000,
                                       .random = 7};
    start.history[0].offset = -1;
    for (int32_t i = 0; i < voters; i++) {
        start.history[0].voters.keys[start.history[0].voters.count++] = key_of(i);
    }
    return start;
}

static void begin(struct fixture *fixture, const struct stele_quorum_start *start)
{
    fixture->now_ms = start->now_ms;
    fixture->random = 1;
    stele_quorum_start(&fixture->quorum, start, &fixture->update);
}

static void step(struct fixture *fixture, struct stele_quorum_event *event)
{
    event->now_ms = fixture->now_ms;
    event->random = ++fixture->random;
    stele_quorum_step(&fixture->quorum, event, &fixture->update);
}

static void step_kind(struct fixture *fixture, enum stele_quorum_event_kind kind)
{
    struct stele_quorum_event event = {.kind = kind};
    step(fixture, &event);
}

static struct stele_quorum_event request_of(enum stele_quorum_message kind, int32_t from, int32_t epoch)
{
    struct stele_quorum_event event = {.kind = STELE_QUORUM_REQUEST};
    event.u.request.request = (struct stele_quorum_request){
        .kind = kind, .generation = 5, .cluster_id = cluster, .from = key_of(from), .to = key_of(0), .epoch = epoch};
    event.u.request.view.epoch_end = (struct stele_epoch_end){.epoch = -1, .end_offset = -1};
    return event;
}

static void appended(struct fixture *fixture, int64_t end_offset, int32_t last_epoch)
{
    struct stele_quorum_event event = {.kind = STELE_QUORUM_APPENDED};
    event.u.appended.end_offset = end_offset;
    event.u.appended.last_epoch = last_epoch;
    step(fixture, &event);
}

static void synced(struct fixture *fixture, int64_t offset)
{
    struct stele_quorum_event event = {.kind = STELE_QUORUM_SYNCED};
    event.u.synced_offset = offset;
    step(fixture, &event);
}

/* A grant of whatever round is open. */
static void grant(struct fixture *fixture, int32_t from)
{
    struct stele_quorum_event event = {.kind = STELE_QUORUM_ANSWER};
    event.u.answer.answer = (struct stele_quorum_answer){.kind = STELE_QUORUM_VOTE,
                                                         .generation = fixture->quorum.round_generation,
                                                         .from = from,
                                                         .epoch = fixture->quorum.election.epoch,
                                                         .leader_id = STELE_NO_NODE,
                                                         .u.is_granted = true};
    step(fixture, &event);
}

/* Node 0 leads epoch 1 of so many voters, its log (5 records of epoch 0) and the leader change synced. */
static void lead_of(struct fixture *fixture, int32_t voters)
{
    struct stele_quorum_start start = start_of(voters);
    start.end_offset = 5;
    begin(fixture, &start);
    fixture->now_ms = fixture->update.deadline_ms > 10000 ? 10000 : fixture->quorum.role_deadline_ms;
    step_kind(fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture->quorum.role, STELE_QUORUM_PROSPECTIVE);
    grant(fixture, 1);
    assert_int_equal(fixture->quorum.role, STELE_QUORUM_CANDIDATE);
    assert_true(fixture->update.has_persist);
    grant(fixture, voters - 1);
    assert_int_equal(fixture->quorum.role, STELE_QUORUM_LEADER);
    assert_int_equal(fixture->update.log, STELE_QUORUM_LOG_LEAD);
    assert_true(fixture->update.has_voters);
    appended(fixture, 6, 1);
    struct stele_quorum_event event = {.kind = STELE_QUORUM_APPENDED};
    event.u.appended.end_offset = 7;
    event.u.appended.last_epoch = 1;
    event.u.appended.has_voters = true;
    event.u.appended.voters = (struct stele_voters_at){.offset = 6, .voters = *stele_quorum_voters(&fixture->quorum)};
    step(fixture, &event);
    synced(fixture, 7);
}

static void lead(struct fixture *fixture)
{
    lead_of(fixture, 3);
}

/* A fetch that the leader's log agrees with. */
static void fetch(struct fixture *fixture, int32_t from, int64_t offset)
{
    struct stele_quorum_event event = request_of(STELE_QUORUM_FETCH, from, 1);
    event.u.request.request.u.fetch.offset = offset;
    event.u.request.request.u.fetch.last_epoch = offset > 5 ? 1 : 0;
    event.u.request.view.epoch_end = (struct stele_epoch_end){
        .epoch = offset > 5 ? 1 : 0, .end_offset = offset > 5 ? fixture->quorum.appended_offset : 5};
    step(fixture, &event);
}

/* Every state of the file gives its role: who led does not lead that epoch again, who voted keeps its vote. */
static void test_start(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t voters, epoch, leader_id, voted, last_epoch;
        bool has_election;
        enum stele_quorum_role role;
        int32_t want_epoch;
        bool has_persist;
    } cases[] = {
        {"no file", 3, 0, -1, -1, 0, false, STELE_QUORUM_UNATTACHED, 0, false},
        {"file lost", 3, 0, -1, -1, 4, false, STELE_QUORUM_UNATTACHED, 4, true},
        {"file older than the log", 3, 2, 1, -1, 4, true, STELE_QUORUM_UNATTACHED, 4, true},
        {"led", 3, 5, 0, 0, 5, true, STELE_QUORUM_RESIGNED, 5, false},
        {"voted for itself", 3, 5, -1, 0, 4, true, STELE_QUORUM_CANDIDATE, 5, false},
        {"voted for another", 3, 5, -1, 2, 4, true, STELE_QUORUM_UNATTACHED, 5, false},
        {"followed", 3, 5, 1, -1, 4, true, STELE_QUORUM_FOLLOWER, 5, false},
        {"alone", 1, 5, 0, 0, 5, true, STELE_QUORUM_LEADER, 6, true},
        {"alone and new", 1, 0, -1, -1, 0, false, STELE_QUORUM_LEADER, 1, true},
        {"observer that followed", 0, 5, 1, -1, 4, true, STELE_QUORUM_FOLLOWER, 5, false},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        static struct fixture fixture;
        struct stele_quorum_start start = start_of(cases[i].voters);
        start.has_election = cases[i].has_election;
        start.election.epoch = cases[i].epoch;
        start.election.leader_id = cases[i].leader_id;
        start.election.voted.node_id = STELE_NO_NODE;
        if (cases[i].voted >= 0) {
            start.election.voted = key_of(cases[i].voted);
        }
        start.end_offset = cases[i].last_epoch > 0 ? 10 : 0;
        start.last_epoch = cases[i].last_epoch;
        begin(&fixture, &start);
        if (fixture.quorum.role != cases[i].role || fixture.quorum.election.epoch != cases[i].want_epoch ||
            fixture.update.has_persist != cases[i].has_persist) {
            fail_msg("%s: role %d epoch %d", cases[i].name, (int)fixture.quorum.role, fixture.quorum.election.epoch);
        }
    }
}

static const struct {
    const char *name;
    enum stele_quorum_message kind;
    int32_t from, epoch;
    int32_t last_epoch;
    int64_t offset;
    bool is_other_cluster, is_other_disk, is_stopping;
    enum stele_err err;
    int32_t want_epoch;
} refusals[] = {
    {"vote of another cluster", STELE_QUORUM_VOTE, 1, 9, 2, 50, true, false, false, STELE_INCONSISTENT_CLUSTER_ID, 3},
    {"vote while stopping", STELE_QUORUM_VOTE, 1, 9, 2, 50, false, false, true, STELE_BROKER_NOT_AVAILABLE, 3},
    {"vote with a negative epoch", STELE_QUORUM_VOTE, 1, -1, 0, 50, false, false, false, STELE_INVALID_REQUEST, 3},
    {"vote of the last epoch", STELE_QUORUM_VOTE, 1, INT32_MAX, 0, 5, false, false, false, STELE_INVALID_REQUEST, 3},
    {"vote with a negative end", STELE_QUORUM_VOTE, 1, 9, 2, -1, false, false, false, STELE_INVALID_REQUEST, 3},
    {"vote with a log as new as it", STELE_QUORUM_VOTE, 1, 9, 9, 5, false, false, false, STELE_INVALID_REQUEST, 3},
    {"vote of itself", STELE_QUORUM_VOTE, 0, 9, 2, 50, false, false, false, STELE_INVALID_REQUEST, 3},
    {"vote of an old epoch", STELE_QUORUM_VOTE, 1, 2, 1, 50, false, false, false, STELE_FENCED_LEADER_EPOCH, 3},
    {"vote for another disk", STELE_QUORUM_VOTE, 2, 9, 2, 50, false, true, false, STELE_INVALID_VOTER_KEY, 9},
    {"vote", STELE_QUORUM_VOTE, 2, 9, 2, 50, false, false, false, STELE_OK, 9},
    {"begin of an old epoch", STELE_QUORUM_BEGIN, 2, 2, 0, 0, false, false, false, STELE_FENCED_LEADER_EPOCH, 3},
    {"begin of a second leader", STELE_QUORUM_BEGIN, 2, 3, 0, 0, false, false, false, STELE_INVALID_REQUEST, 3},
    {"begin of itself", STELE_QUORUM_BEGIN, 0, 4, 0, 0, false, false, false, STELE_INVALID_REQUEST, 3},
    {"begin for another disk", STELE_QUORUM_BEGIN, 2, 4, 0, 0, false, true, false, STELE_INVALID_VOTER_KEY, 4},
    {"begin", STELE_QUORUM_BEGIN, 2, 4, 0, 0, false, false, false, STELE_OK, 4},
    {"end of an old epoch", STELE_QUORUM_END, 1, 2, 0, 0, false, false, false, STELE_FENCED_LEADER_EPOCH, 3},
    {"end of another leader", STELE_QUORUM_END, 2, 3, 0, 0, false, false, false, STELE_INVALID_REQUEST, 3},
    {"end", STELE_QUORUM_END, 1, 3, 0, 0, false, false, false, STELE_OK, 3},
    {"fetch of another cluster", STELE_QUORUM_FETCH, 1, 3, 0, 0, true, false, false, STELE_INCONSISTENT_CLUSTER_ID, 3},
    {"fetch with a negative offset", STELE_QUORUM_FETCH, 1, 3, 0, -1, false, false, false, STELE_INVALID_REQUEST, 3},
    {"fetch with a negative epoch", STELE_QUORUM_FETCH, 1, 3, -1, 0, false, false, false, STELE_INVALID_REQUEST, 3},
    {"fetch from the future", STELE_QUORUM_FETCH, 1, 3, 4, 9, false, false, false, STELE_INVALID_REQUEST, 3},
    {"fetch of an old epoch", STELE_QUORUM_FETCH, 1, 2, 1, 9, false, false, false, STELE_FENCED_LEADER_EPOCH, 3},
    {"fetch of a new epoch", STELE_QUORUM_FETCH, 1, 4, 1, 9, false, false, false, STELE_UNKNOWN_LEADER_EPOCH, 3},
    {"fetch", STELE_QUORUM_FETCH, 2, 3, 1, 9, false, false, false, STELE_NOT_LEADER_OR_FOLLOWER, 3},
    {"snapshot", STELE_QUORUM_FETCH_SNAPSHOT, 2, 3, 1, 9, false, false, false, STELE_NOT_LEADER_OR_FOLLOWER, 3},
};

/* What a follower of node 1 in epoch 3 says to requests that are wrong in one thing. */
static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(refusals); i++) {
        static struct fixture fixture;
        struct stele_quorum_start start = start_of(3);
        start.has_election = true;
        start.election = (struct stele_election_state){.epoch = 3, .leader_id = 1, .voted = {.node_id = STELE_NO_NODE}};
        begin(&fixture, &start);
        if (refusals[i].is_stopping) {
            step_kind(&fixture, STELE_QUORUM_STOP);
        }
        struct stele_quorum_event event = request_of(refusals[i].kind, refusals[i].from, refusals[i].epoch);
        struct stele_quorum_request *request = &event.u.request.request;
        if (refusals[i].kind == STELE_QUORUM_VOTE) {
            request->u.vote.last_epoch = refusals[i].last_epoch;
            request->u.vote.end_offset = refusals[i].offset;
        } else if (refusals[i].kind == STELE_QUORUM_FETCH) {
            request->u.fetch.offset = refusals[i].offset;
            request->u.fetch.last_epoch = refusals[i].last_epoch;
        }
        if (refusals[i].is_other_cluster) {
            request->cluster_id.bytes[3] = 1;
        }
        if (refusals[i].is_other_disk) {
            request->to.directory_id.bytes[3] = 1;
        }
        step(&fixture, &event);
        if (!fixture.update.has_answer || fixture.update.answer.err != refusals[i].err ||
            fixture.quorum.election.epoch != refusals[i].want_epoch || fixture.update.answer.generation != 5 ||
            fixture.update.answer.epoch != refusals[i].want_epoch) {
            fail_msg("%s: error %d, epoch %d", refusals[i].name, (int)fixture.update.answer.err,
                     fixture.quorum.election.epoch);
        }
        assert_int_equal(fixture.update.has_persist, fixture.quorum.election.epoch != 3);
    }
}

/* A vote is persisted before it is told, is repeated for the same node and disk and its log only, and given to no
 * other. */
static void test_vote_once(void **state)
{
    (void)state;
    static struct fixture fixture;
    struct stele_quorum_start start = start_of(3);
    start.end_offset = 10;
    start.last_epoch = 2;
    begin(&fixture, &start);
    static const struct {
        int32_t from, last_epoch;
        int64_t end_offset;
        bool is_pre_vote, is_granted, has_persist;
    } votes[] = {
        {1, 2, 9, false, false, true},   /* too short a log; the new epoch alone is noted */
        {2, 1, 50, false, false, false}, /* too old */
        {2, 2, 9, true, false, false},   {2, 2, 10, true, true, false}, /* a pre-vote binds nobody */
        {1, 2, 10, true, true, false},   {1, 2, 10, false, true, true},
        {1, 2, 10, false, true, false},  {1, 2, 9, false, false, false}, /* it lost its tail since */
        {2, 2, 99, false, false, false}, {2, 2, 99, true, true, false},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(votes); i++) {
        struct stele_quorum_event event = request_of(STELE_QUORUM_VOTE, votes[i].from, 7);
        event.u.request.request.u.vote.last_epoch = votes[i].last_epoch;
        event.u.request.request.u.vote.end_offset = votes[i].end_offset;
        event.u.request.request.u.vote.is_pre_vote = votes[i].is_pre_vote;
        step(&fixture, &event);
        assert_int_equal(fixture.update.answer.err, STELE_OK);
        assert_int_equal(fixture.update.answer.u.is_granted, votes[i].is_granted);
        assert_int_equal(fixture.update.has_persist, votes[i].has_persist);
    }
    struct stele_quorum_event event = request_of(STELE_QUORUM_VOTE, 1, 7);
    event.u.request.request.from.directory_id.bytes[9] = 1;
    event.u.request.request.u.vote.end_offset = 99;
    event.u.request.request.u.vote.last_epoch = 2;
    step(&fixture, &event);
    assert_false(fixture.update.answer.u.is_granted);
}

/* B63: an answer to an earlier round, or the same one twice, is no vote. */
static void test_b63_stale_votes(void **state)
{
    (void)state;
    static struct fixture fixture;
    struct stele_quorum_start start = start_of(5);
    begin(&fixture, &start);
    fixture.now_ms = fixture.quorum.role_deadline_ms;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture.update.send_count, 4);
    uint64_t pre_votes = fixture.quorum.round_generation;
    grant(&fixture, 1);
    grant(&fixture, 1);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_PROSPECTIVE);
    grant(&fixture, 2);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_CANDIDATE);
    struct stele_quorum_event event = {.kind = STELE_QUORUM_ANSWER};
    event.u.answer.answer = (struct stele_quorum_answer){.kind = STELE_QUORUM_VOTE,
                                                         .generation = pre_votes,
                                                         .epoch = 1,
                                                         .leader_id = STELE_NO_NODE,
                                                         .u.is_granted = true};
    for (int32_t from = 1; from < 5; from++) {
        event.u.answer.answer.from = from;
        step(&fixture, &event);
    }
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_CANDIDATE);
    grant(&fixture, 3);
    grant(&fixture, 4);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_LEADER);
}

/* B54 (KAFKA-12619): what former leaders appended is committed only together with a record of the own epoch, and by
 * what is synced. */
static void test_b54_commit(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead(&fixture);
    fetch(&fixture, 1, 5);
    assert_int_equal(fixture.update.answer.u.fetch.high_watermark, -1);
    assert_false(fixture.quorum.is_epoch_committed);
    fetch(&fixture, 1, 6);
    assert_int_equal(fixture.update.answer.u.fetch.high_watermark, 6);
    assert_true(fixture.update.has_high_watermark_moved);
    appended(&fixture, 9, 1);
    fetch(&fixture, 1, 9);
    /* The own log is synced up to 7 only, and node 2 has nothing. */
    assert_int_equal(fixture.quorum.high_watermark, 7);
    synced(&fixture, 9);
    assert_int_equal(fixture.quorum.high_watermark, 9);
    fetch(&fixture, 2, 6);
    assert_int_equal(fixture.update.answer.u.fetch.high_watermark, 9);
    assert_int_equal(fixture.update.answer.u.fetch.result, STELE_QUORUM_FETCH_VALID);
}

/* Where a follower stands: the rules of KRaft in their order, a row each. */
static void test_fetch_validation(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t offset;
        int32_t last_epoch;
        int64_t log_start, latest, oldest;
        int32_t oldest_epoch;
        struct stele_epoch_end epoch_end;
        enum stele_quorum_fetch_result result;
        enum stele_err err;
    } cases[] = {
        {"new, no snapshot", 0, 0, 0, 0, 0, 0, {-1, -1}, STELE_QUORUM_FETCH_VALID, STELE_OK},
        {"new, snapshot", 0, 0, 0, 4, 4, 1, {0, 5}, STELE_QUORUM_FETCH_OF_SNAPSHOT, STELE_OK},
        {"below the start", 2, 0, 3, 6, 3, 0, {0, 5}, STELE_QUORUM_FETCH_OF_SNAPSHOT, STELE_OK},
        {"at the start, other epoch", 3, 1, 3, 6, 3, 0, {1, 7}, STELE_QUORUM_FETCH_OF_SNAPSHOT, STELE_OK},
        {"at the start", 3, 0, 3, 6, 3, 0, {0, 5}, STELE_QUORUM_FETCH_VALID, STELE_OK},
        {"epoch older than the snapshots", 5, 0, 3, 6, 3, 1, {0, 3}, STELE_QUORUM_FETCH_OF_SNAPSHOT, STELE_OK},
        {"too long", 6, 0, 0, 0, 0, 0, {0, 5}, STELE_QUORUM_FETCH_DIVERGING, STELE_OK},
        {"an epoch it never had", 6, 1, 0, 0, 0, 0, {0, 5}, STELE_QUORUM_FETCH_DIVERGING, STELE_OK},
        {"not known at all", 6, 1, 0, 0, 0, 0, {-1, -1}, STELE_QUORUM_FETCH_VALID, STELE_INVALID_REQUEST},
        {"in step", 5, 0, 0, 0, 0, 0, {0, 5}, STELE_QUORUM_FETCH_VALID, STELE_OK},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        static struct fixture fixture;
        lead(&fixture);
        struct stele_quorum_event event = request_of(STELE_QUORUM_FETCH, 1, 1);
        event.u.request.request.u.fetch.offset = cases[i].offset;
        event.u.request.request.u.fetch.last_epoch = cases[i].last_epoch;
        event.u.request.view.log_start = cases[i].log_start;
        event.u.request.view.latest.end_offset = cases[i].latest;
        event.u.request.view.oldest =
            (struct stele_snapshot_id){.end_offset = cases[i].oldest, .epoch = cases[i].oldest_epoch};
        event.u.request.view.epoch_end = cases[i].epoch_end;
        step(&fixture, &event);
        if (fixture.update.answer.err != cases[i].err || fixture.update.answer.u.fetch.result != cases[i].result) {
            fail_msg("%s: error %d, result %d", cases[i].name, (int)fixture.update.answer.err,
                     (int)fixture.update.answer.u.fetch.result);
        }
        /* Only what is valid is progress. */
        bool is_progress = cases[i].err == STELE_OK && cases[i].result == STELE_QUORUM_FETCH_VALID;
        assert_int_equal(fixture.quorum.voters[1].synced_offset, is_progress ? cases[i].offset : -1);
    }
}

/* B58 and the other reasons not to change the voters; then one change that is allowed, and a second beside it. */
static void test_b58_changes(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead(&fixture);
    struct stele_quorum_event event = {.kind = STELE_QUORUM_CHANGE};
    event.u.change.kind = STELE_QUORUM_REMOVE_VOTER;
    event.u.change.key = key_of(2);
    step(&fixture, &event);
    assert_true(fixture.update.has_change_refused);
    assert_int_equal(fixture.update.change_err, STELE_REQUEST_TIMED_OUT);
    fetch(&fixture, 1, 7);
    fetch(&fixture, 3, 7); /* an observer that has all */
    fetch(&fixture, 4, 5); /* and one that has not */
    static const struct {
        enum stele_quorum_change_kind kind;
        int32_t node_id;
        bool is_other_disk;
        enum stele_err err;
    } refused[] = {
        {STELE_QUORUM_REMOVE_VOTER, 3, false, STELE_VOTER_NOT_FOUND},
        {STELE_QUORUM_REMOVE_VOTER, 2, true, STELE_VOTER_NOT_FOUND},
        {STELE_QUORUM_ADD_VOTER, 2, true, STELE_DUPLICATE_VOTER},
        {STELE_QUORUM_ADD_VOTER, 4, false, STELE_REQUEST_TIMED_OUT},
        {STELE_QUORUM_ADD_VOTER, 5, false, STELE_REQUEST_TIMED_OUT},
        {STELE_QUORUM_READMIT_VOTER, 5, false, STELE_VOTER_NOT_FOUND},
        {STELE_QUORUM_READMIT_VOTER, 2, false, STELE_DUPLICATE_VOTER},
        {STELE_QUORUM_READMIT_VOTER, 0, true, STELE_INVALID_REQUEST},
        {STELE_QUORUM_READMIT_VOTER, 2, true, STELE_REQUEST_TIMED_OUT},
        /* Nodes 0 and 2 would be left, and 2 is not there. */
        {STELE_QUORUM_REMOVE_VOTER, 1, false, STELE_REQUEST_TIMED_OUT},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(refused); i++) {
        event.u.change.kind = refused[i].kind;
        event.u.change.key = key_of(refused[i].node_id);
        event.u.change.key.directory_id.bytes[8] = refused[i].is_other_disk ? 1 : 0;
        step(&fixture, &event);
        assert_true(fixture.update.has_change_refused);
        assert_int_equal(fixture.update.change_err, refused[i].err);
        assert_false(fixture.update.has_voters);
    }
    event.u.change.kind = STELE_QUORUM_REMOVE_VOTER;
    event.u.change.key = key_of(2);
    step(&fixture, &event);
    assert_false(fixture.update.has_change_refused);
    assert_true(fixture.update.has_voters);
    assert_int_equal(fixture.update.voters.count, 2);
    struct stele_quorum_event record = {.kind = STELE_QUORUM_APPENDED};
    record.u.appended.end_offset = 8;
    record.u.appended.last_epoch = 1;
    record.u.appended.has_voters = true;
    record.u.appended.voters = (struct stele_voters_at){.offset = 7, .voters = fixture.update.voters};
    step(&fixture, &record);
    assert_int_equal(stele_quorum_voters(&fixture.quorum)->count, 2);
    assert_int_equal(stele_quorum_voters_at(&fixture.quorum, 7)->count, 3);
    event.u.change.kind = STELE_QUORUM_ADD_VOTER;
    event.u.change.key = key_of(3);
    step(&fixture, &event);
    assert_int_equal(fixture.update.change_err, STELE_REQUEST_TIMED_OUT);
    synced(&fixture, 8);
    assert_false(fixture.update.has_change_done);
    fetch(&fixture, 1, 8);
    assert_true(fixture.update.has_change_done);
    assert_int_equal(fixture.update.change_err, STELE_OK);
}

/* A change that is not committed in time is answered once, stays alone, and is lost with the leadership. */
static void test_change_times_out(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead(&fixture);
    fetch(&fixture, 1, 7);
    struct stele_quorum_event event = {.kind = STELE_QUORUM_CHANGE};
    event.u.change.kind = STELE_QUORUM_REMOVE_VOTER;
    event.u.change.key = key_of(2);
    step(&fixture, &event);
    assert_true(fixture.update.has_voters);
    fixture.now_ms += 2000;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_true(fixture.update.has_change_done);
    assert_int_equal(fixture.update.change_err, STELE_REQUEST_TIMED_OUT);
    step(&fixture, &event);
    assert_int_equal(fixture.update.change_err, STELE_REQUEST_TIMED_OUT);
    assert_true(fixture.update.has_change_refused);
    step_kind(&fixture, STELE_QUORUM_RESIGN);
    assert_true(fixture.update.is_leadership_lost);
    assert_false(fixture.update.has_change_done);
    assert_int_equal(fixture.update.send_count, 2);
    assert_int_equal(fixture.update.sends[0].kind, STELE_QUORUM_END);
    assert_int_equal(fixture.update.sends[0].u.successors.keys[0].node_id, 1);
}

/* A change that comes when the leader is out of touch, before its timer: it resigns, and appends no more. */
static void test_change_meets_check_quorum(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead_of(&fixture, 2);
    fetch(&fixture, 1, 7);
    fixture.now_ms += 2500;
    fetch(&fixture, 3, 7);
    fixture.now_ms += 600;
    struct stele_quorum_event event = {.kind = STELE_QUORUM_CHANGE};
    event.u.change.kind = STELE_QUORUM_ADD_VOTER;
    event.u.change.key = key_of(3);
    step(&fixture, &event);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_RESIGNED);
    assert_false(fixture.update.has_voters);
    assert_true(fixture.update.has_change_refused || fixture.update.has_change_done);
    assert_int_equal(fixture.update.change_err, STELE_NOT_LEADER_OR_FOLLOWER);
}

/* B55: without contact to a majority of the others a leader gives up after 1.5 fetch timeouts, not earlier. */
static void test_check_quorum(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead(&fixture);
    fixture.now_ms += 2500;
    fetch(&fixture, 9, 7); /* observers do not count */
    fetch(&fixture, 2, 7);
    int64_t last_ms = fixture.now_ms;
    fixture.now_ms = last_ms + 2999;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_LEADER);
    fixture.now_ms = last_ms + 3000;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_RESIGNED);
    assert_true(fixture.update.is_leadership_lost);
}

/* Follows node 1 in epoch 1 with a log of 5 records of epoch 0; its first fetch is on its way. */
static void follow(struct fixture *fixture)
{
    struct stele_quorum_start start = start_of(3);
    start.end_offset = 5;
    begin(fixture, &start);
    struct stele_quorum_event event = request_of(STELE_QUORUM_BEGIN, 1, 1);
    step(fixture, &event);
    assert_int_equal(fixture->quorum.role, STELE_QUORUM_FOLLOWER);
    assert_int_equal(fixture->update.sends[0].kind, STELE_QUORUM_FETCH);
    assert_int_equal(fixture->update.sends[0].to.node_id, 1);
}

static struct stele_quorum_event fetch_answer(struct fixture *fixture)
{
    struct stele_quorum_event event = {.kind = STELE_QUORUM_ANSWER};
    event.u.answer.answer = (struct stele_quorum_answer){.kind = STELE_QUORUM_FETCH,
                                                         .generation = fixture->quorum.fetch.generation,
                                                         .from = 1,
                                                         .epoch = 1,
                                                         .leader_id = 1,
                                                         .u.fetch.high_watermark = -1};
    event.u.answer.records_end = fixture->quorum.appended_offset;
    return event;
}

/* Records are appended, then synced, then told of; the high watermark goes no further than the own log. */
static void test_follow(void **state)
{
    (void)state;
    static struct fixture fixture;
    follow(&fixture);
    struct stele_quorum_event event = fetch_answer(&fixture);
    event.u.answer.records_end = 8;
    event.u.answer.answer.u.fetch.high_watermark = 7;
    step(&fixture, &event);
    assert_int_equal(fixture.update.log, STELE_QUORUM_LOG_APPEND);
    assert_int_equal(fixture.update.send_count, 0);
    assert_int_equal(fixture.quorum.high_watermark, 0);
    appended(&fixture, 8, 1);
    assert_int_equal(fixture.quorum.high_watermark, 7);
    assert_int_equal(fixture.update.send_count, 0);
    synced(&fixture, 7);
    assert_int_equal(fixture.update.send_count, 0);
    synced(&fixture, 8);
    assert_int_equal(fixture.update.send_count, 1);
    assert_int_equal(fixture.update.sends[0].u.fetch.offset, 8);
    assert_int_equal(fixture.update.sends[0].u.fetch.last_epoch, 1);
    /* The answer to the fetch before is dropped. */
    step(&fixture, &event);
    assert_int_equal(fixture.update.log, STELE_QUORUM_LOG_NONE);
    assert_true(fixture.quorum.fetch.is_in_flight);
}

/* What a follower cuts off: a row for each way of divergence; never what is committed. */
static void test_truncate(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct stele_epoch_end theirs, own;
        int64_t high_watermark, truncate_to; /* -1: nothing */
        enum stele_err fatal;
    } cases[] = {
        {"same epoch, theirs ends first", {0, 3}, {0, 5}, 0, 3, STELE_OK},
        {"same epoch, ours ends first", {0, 5}, {0, 4}, 0, 4, STELE_OK},
        {"another epoch", {0, 9}, {0, 2}, 0, 2, STELE_OK},
        {"we never had it", {0, 2}, {-1, -1}, 0, 2, STELE_OK},
        {"we have a closer one", {2, 4}, {1, 3}, 0, 3, STELE_OK},
        {"nothing to cut", {0, 9}, {0, 5}, 0, -1, STELE_OK},
        {"nonsense", {-1, -1}, {0, 5}, 0, -1, STELE_OK},
        {"committed", {0, 3}, {0, 5}, 4, -1, STELE_CORRUPT},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        static struct fixture fixture;
        follow(&fixture);
        fixture.quorum.high_watermark = cases[i].high_watermark;
        struct stele_quorum_event event = fetch_answer(&fixture);
        event.u.answer.answer.u.fetch.result = STELE_QUORUM_FETCH_DIVERGING;
        event.u.answer.answer.u.fetch.diverging = cases[i].theirs;
        event.u.answer.epoch_end = cases[i].own;
        step(&fixture, &event);
        bool is_cut = fixture.update.log == STELE_QUORUM_LOG_TRUNCATE;
        if (fixture.update.fatal != cases[i].fatal || is_cut != (cases[i].truncate_to >= 0) ||
            (is_cut && fixture.update.truncate_to != cases[i].truncate_to)) {
            fail_msg("%s: cut %d to %lld", cases[i].name, is_cut, (long long)fixture.update.truncate_to);
        }
        /* B66: it is contact all the same. */
        assert_int_equal(fixture.quorum.role_deadline_ms, fixture.now_ms + 2000);
        assert_true(fixture.quorum.has_heard_leader);
    }
}

/* A voter's disk has for good what it acknowledged in this epoch: with less it is refused, and what it acknowledged
 * stays. Another disk, an observer, a fetch that waited, and the next epoch's leader are another matter. */
static void test_disk_goes_back(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead(&fixture);
    fetch(&fixture, 1, 7);
    assert_int_equal(fixture.update.answer.err, STELE_OK);
    assert_int_equal(fixture.quorum.high_watermark, 7);
    fetch(&fixture, 1, 3);
    assert_int_equal(fixture.update.answer.err, STELE_INVALID_VOTER_KEY);
    assert_int_equal(fixture.update.fatal, STELE_OK);
    assert_int_equal(fixture.quorum.voters[1].synced_offset, 7);
    struct stele_quorum_event event = request_of(STELE_QUORUM_FETCH, 1, 1);
    event.u.request.view.latest = (struct stele_snapshot_id){.end_offset = 5, .epoch = 0};
    event.u.request.view.log_start = 5;
    step(&fixture, &event); /* it has nothing at all: no snapshot for it either */
    assert_int_equal(fixture.update.answer.err, STELE_INVALID_VOTER_KEY);
    fetch(&fixture, 1, 7);
    assert_int_equal(fixture.update.answer.err, STELE_OK);
    event = request_of(STELE_QUORUM_FETCH, 1, 1);
    event.u.request.request.from.directory_id.bytes[5] = 1; /* an empty disk */
    step(&fixture, &event);
    assert_int_equal(fixture.update.answer.err, STELE_OK);
    fetch(&fixture, 5, 7);
    fetch(&fixture, 5, 3);
    assert_int_equal(fixture.update.answer.err, STELE_OK);
    event = request_of(STELE_QUORUM_FETCH, 1, 1);
    event.u.request.request.u.fetch.offset = 5;
    event.u.request.view.epoch_end = (struct stele_epoch_end){.epoch = 0, .end_offset = 5};
    event.u.request.view.is_parked = true;
    step(&fixture, &event);
    assert_int_equal(fixture.update.answer.err, STELE_OK);
}

/* Told so by its leader, in the answer to the fetch that is on its way, a node ends; by nobody else. */
static void test_ends_when_its_disk_went_back(void **state)
{
    (void)state;
    static const struct {
        int32_t from;
        uint64_t generation;
        enum stele_err fatal;
    } cases[] = {{0, 0, STELE_INVALID_VOTER_KEY}, {1, 0, STELE_OK}, {0, 1, STELE_OK}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        static struct fixture fixture;
        follow(&fixture);
        struct stele_quorum_event event = fetch_answer(&fixture);
        event.u.answer.answer.err = STELE_INVALID_VOTER_KEY;
        event.u.answer.answer.from = (event.u.answer.answer.from + cases[i].from) % 3;
        event.u.answer.answer.generation -= cases[i].generation;
        step(&fixture, &event);
        assert_int_equal(fixture.update.fatal, cases[i].fatal);
    }
}

/* B65, B66: every answer of the leader without an error is contact; errors and the answers of others are not. */
static void test_contact(void **state)
{
    (void)state;
    static struct fixture fixture;
    follow(&fixture);
    fixture.now_ms += 1500;
    struct stele_quorum_event event = fetch_answer(&fixture);
    event.u.answer.answer.u.fetch.result = STELE_QUORUM_FETCH_OF_SNAPSHOT;
    event.u.answer.answer.u.fetch.snapshot = (struct stele_snapshot_id){.end_offset = 20, .epoch = 1};
    step(&fixture, &event);
    assert_int_equal(fixture.update.sends[0].kind, STELE_QUORUM_FETCH_SNAPSHOT);
    for (int32_t i = 0; i < 5; i++) {
        fixture.now_ms += 1500;
        struct stele_quorum_event piece = fetch_answer(&fixture);
        piece.u.answer.answer.kind = STELE_QUORUM_FETCH_SNAPSHOT;
        piece.u.answer.answer.u.snapshot.id = fixture.quorum.fetch.snapshot;
        piece.u.answer.answer.u.snapshot.position = fixture.quorum.fetch.position;
        piece.u.answer.answer.u.snapshot.chunk_bytes = 10;
        piece.u.answer.answer.u.snapshot.size_bytes = 50;
        step(&fixture, &piece);
        assert_int_equal(fixture.quorum.role, STELE_QUORUM_FOLLOWER);
        assert_int_equal(fixture.update.log,
                         i < 4 ? STELE_QUORUM_LOG_SNAPSHOT_WRITE : STELE_QUORUM_LOG_SNAPSHOT_INSTALL);
    }
    /* However long the installation takes. */
    fixture.now_ms += 60000;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_FOLLOWER);
    assert_int_equal(fixture.update.send_count, 0);
    struct stele_quorum_event replaced = {.kind = STELE_QUORUM_REPLACED};
    replaced.u.replaced.id = (struct stele_snapshot_id){.end_offset = 20, .epoch = 1};
    replaced.u.replaced.voters = *stele_quorum_voters(&fixture.quorum);
    step(&fixture, &replaced);
    assert_int_equal(fixture.quorum.high_watermark, 20);
}

/* Errors of the leader are no contact, and its word that it leads no more brings the election forward. */
static void test_error_is_no_contact(void **state)
{
    (void)state;
    static struct fixture fixture;
    follow(&fixture);
    int64_t deadline_ms = fixture.quorum.role_deadline_ms;
    fixture.now_ms += 1000;
    struct stele_quorum_event event = fetch_answer(&fixture);
    event.u.answer.answer.err = STELE_UNKNOWN_SERVER_ERROR;
    step(&fixture, &event);
    assert_int_equal(fixture.quorum.role_deadline_ms, deadline_ms);
    fixture.now_ms += 20;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    /* The second time somebody else is asked, who cannot make contact. */
    assert_int_equal(fixture.quorum.fetch.to, 2);
    event = fetch_answer(&fixture);
    event.u.answer.answer.from = 2;
    step(&fixture, &event);
    assert_false(fixture.quorum.has_heard_leader);
    fixture.now_ms += 100;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture.quorum.fetch.to, 1);
    event = fetch_answer(&fixture);
    event.u.answer.answer.err = STELE_NOT_LEADER_OR_FOLLOWER;
    event.u.answer.answer.leader_id = STELE_NO_NODE;
    step(&fixture, &event);
    assert_true(fixture.quorum.has_leader_resigned);
    fixture.now_ms += 50;
    step_kind(&fixture, STELE_QUORUM_TIMER);
    assert_int_equal(fixture.quorum.role, STELE_QUORUM_PROSPECTIVE);
}

/* Observers beyond the table push out the one that is silent for the longest; voters' records beyond the history the
 * oldest. */
static void test_bounds(void **state)
{
    (void)state;
    static struct fixture fixture;
    lead(&fixture);
    fetch(&fixture, 1, 7);
    for (int32_t i = 3; i < 100; i++) {
        fixture.now_ms++;
        fetch(&fixture, i, 7);
        assert_true(fixture.quorum.observer_count <= STELE_QUORUM_OBSERVERS_MAX);
    }
    assert_int_equal(fixture.quorum.observer_count, STELE_QUORUM_OBSERVERS_MAX);
    bool has_last = false;
    for (int32_t i = 0; i < fixture.quorum.observer_count; i++) {
        assert_int_not_equal(fixture.quorum.observers[i].key.node_id, 3);
        has_last = has_last || fixture.quorum.observers[i].key.node_id == 99;
    }
    assert_true(has_last);
    struct stele_voters voters = *stele_quorum_voters(&fixture.quorum);
    for (int64_t end = 8; end < 40; end++) {
        struct stele_quorum_event event = {.kind = STELE_QUORUM_APPENDED};
        event.u.appended.end_offset = end;
        event.u.appended.last_epoch = 1;
        event.u.appended.has_voters = true;
        event.u.appended.voters = (struct stele_voters_at){.offset = end - 1, .voters = voters};
        step(&fixture, &event);
    }
    assert_int_equal(fixture.quorum.history_count, STELE_VOTERS_HISTORY_MAX);
    assert_null(stele_quorum_voters_at(&fixture.quorum, 9));
    assert_non_null(stele_quorum_voters_at(&fixture.quorum, 39));
    /* Silent for 300 s: expired when the next one comes. */
    fixture.quorum.role_deadline_ms = INT64_MAX;
    fixture.now_ms += 299000;
    fetch(&fixture, 1, 7);
    fixture.now_ms += 2000;
    fetch(&fixture, 200, 7);
    assert_int_equal(fixture.quorum.observer_count, 1);
}

static int32_t draw_int(struct stele_prng *prng)
{
    static const int32_t odd[] = {-1, 0, 1, 2, 3, 4, 5, 16, INT32_MIN, INT32_MAX, INT32_MAX - 1};
    return odd[stele_prng_below(prng, STELE_ARRAY_LEN(odd))];
}

static int64_t draw_offset(struct stele_prng *prng)
{
    static const int64_t odd[] = {-1, 0, 1, 4, 5, 6, 7, 100, INT64_MIN, INT64_MAX, INT64_MAX - 1};
    return odd[stele_prng_below(prng, STELE_ARRAY_LEN(odd))];
}

/* Any request and any answer that bytes could make. */
static void draw_message(struct stele_prng *prng, struct fixture *fixture, struct stele_quorum_event *out_event)
{
    static const enum stele_err errors[] = {STELE_OK,
                                            STELE_OK,
                                            STELE_NOT_LEADER_OR_FOLLOWER,
                                            STELE_FENCED_LEADER_EPOCH,
                                            STELE_SNAPSHOT_NOT_FOUND,
                                            STELE_INVALID_VOTER_KEY};
    bool is_request = stele_prng_chance(prng, 1, 2);
    enum stele_quorum_message kind = (enum stele_quorum_message)stele_prng_below(prng, 5);
    *out_event = request_of(kind, draw_int(prng), draw_int(prng));
    struct stele_quorum_request *request = &out_event->u.request.request;
    request->to.node_id = stele_prng_chance(prng, 3, 4) ? 0 : draw_int(prng);
    if (kind == STELE_QUORUM_VOTE) {
        request->u.vote.last_epoch = draw_int(prng);
        request->u.vote.end_offset = draw_offset(prng);
        request->u.vote.is_pre_vote = stele_prng_chance(prng, 1, 2);
    } else if (kind == STELE_QUORUM_END) {
        request->u.successors.count = (int32_t)stele_prng_below(prng, STELE_VOTERS_MAX + 1);
        for (int32_t i = 0; i < request->u.successors.count; i++) {
            request->u.successors.keys[i] = key_of(draw_int(prng) & 15);
        }
    } else {
        request->u.snapshot.id.end_offset = draw_offset(prng);
        request->u.snapshot.id.epoch = draw_int(prng);
        request->u.snapshot.position = draw_offset(prng);
    }
    out_event->u.request.view.epoch_end = (struct stele_epoch_end){.epoch = draw_int(prng), .end_offset = 6};
    if (is_request) {
        return;
    }
    *out_event = (struct stele_quorum_event){.kind = STELE_QUORUM_ANSWER};
    struct stele_quorum_answer *answer = &out_event->u.answer.answer;
    answer->kind = kind;
    answer->generation =
        kind == STELE_QUORUM_VOTE ? fixture->quorum.round_generation : fixture->quorum.fetch.generation;
    answer->from = draw_int(prng);
    answer->err = errors[stele_prng_below(prng, STELE_ARRAY_LEN(errors))];
    answer->epoch = stele_prng_chance(prng, 1, 2) ? fixture->quorum.election.epoch : draw_int(prng);
    answer->leader_id = draw_int(prng);
    if (kind == STELE_QUORUM_VOTE) {
        answer->u.is_granted = stele_prng_chance(prng, 3, 4);
    } else if (kind == STELE_QUORUM_FETCH) {
        answer->u.fetch.result = (enum stele_quorum_fetch_result)stele_prng_below(prng, 4);
        answer->u.fetch.high_watermark = draw_offset(prng);
        answer->u.fetch.diverging = (struct stele_epoch_end){.epoch = draw_int(prng), .end_offset = draw_offset(prng)};
        answer->u.fetch.snapshot = (struct stele_snapshot_id){.end_offset = draw_offset(prng), .epoch = draw_int(prng)};
    } else {
        answer->u.snapshot.id = fixture->quorum.fetch.snapshot;
        answer->u.snapshot.position = draw_offset(prng);
        answer->u.snapshot.size_bytes = draw_offset(prng);
        answer->u.snapshot.chunk_bytes = draw_offset(prng);
    }
    out_event->u.answer.records_end = fixture->quorum.appended_offset + (int64_t)stele_prng_below(prng, 3);
    out_event->u.answer.epoch_end = (struct stele_epoch_end){.epoch = draw_int(prng) & 3, .end_offset = 3};
}

/* The owner's part, as honest as it is: what the update asked of the log is done and reported. */
static bool obey(struct fixture *fixture)
{
    struct stele_quorum_update update = fixture->update;
    struct stele_quorum *quorum = &fixture->quorum;
    struct stele_quorum_event event = {.kind = STELE_QUORUM_APPENDED};
    switch (update.log) {
    case STELE_QUORUM_LOG_NONE:
    case STELE_QUORUM_LOG_SNAPSHOT_WRITE:
        break;
    case STELE_QUORUM_LOG_APPEND:
        appended(fixture, quorum->fetch.awaited_end, quorum->last_epoch);
        break;
    case STELE_QUORUM_LOG_LEAD:
        appended(fixture, quorum->appended_offset + 1, quorum->election.epoch);
        break;
    case STELE_QUORUM_LOG_TRUNCATE:
        event.kind = STELE_QUORUM_TRUNCATED;
        event.u.log_end.end_offset = update.truncate_to;
        step(fixture, &event);
        break;
    case STELE_QUORUM_LOG_SNAPSHOT_INSTALL:
        event.kind = STELE_QUORUM_REPLACED;
        event.u.replaced.id = quorum->fetch.snapshot;
        event.u.replaced.voters = *stele_quorum_voters(quorum);
        step(fixture, &event);
        break;
    }
    return update.fatal == STELE_OK && quorum->appended_offset < 1000;
}

/* Half a million steps of peers that say anything: no assertion, no fetch without an end, no message beyond the bound.
 */
static void test_nonsense(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2500; seed++) {
        static struct fixture fixture;
        struct stele_prng prng;
        struct stele_quorum_start start = start_of((int32_t)(seed % 6));
        stele_prng_init(&prng, seed, 0);
        start.end_offset = 5;
        begin(&fixture, &start);
        bool is_sane = obey(&fixture);
        for (int32_t i = 0; i < 200 && is_sane; i++) {
            struct stele_quorum_event event = {.kind = STELE_QUORUM_TIMER};
            if (stele_prng_chance(&prng, 1, 6) && fixture.update.deadline_ms < INT64_MAX) {
                fixture.now_ms = fixture.update.deadline_ms;
            } else if (stele_prng_chance(&prng, 1, 8)) {
                event.kind = STELE_QUORUM_CLOSED;
                event.u.node_id = draw_int(&prng);
            } else if (stele_prng_chance(&prng, 1, 8)) {
                event.kind = STELE_QUORUM_SYNCED;
                event.u.synced_offset = fixture.quorum.appended_offset;
            } else {
                draw_message(&prng, &fixture, &event);
            }
            step(&fixture, &event);
            assert_true(fixture.update.send_count <= STELE_QUORUM_SENDS_MAX);
            assert_true(fixture.update.has_answer == (event.kind == STELE_QUORUM_REQUEST));
            is_sane = obey(&fixture);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_vote_once),
        cmocka_unit_test(test_b63_stale_votes),
        cmocka_unit_test(test_b54_commit),
        cmocka_unit_test(test_fetch_validation),
        cmocka_unit_test(test_b58_changes),
        cmocka_unit_test(test_change_times_out),
        cmocka_unit_test(test_change_meets_check_quorum),
        cmocka_unit_test(test_check_quorum),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_disk_goes_back),
        cmocka_unit_test(test_ends_when_its_disk_went_back),
        cmocka_unit_test(test_contact),
        cmocka_unit_test(test_error_is_no_contact),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
