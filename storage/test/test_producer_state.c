#include "base/crc32c.h"
#include "base/test/support.h"
#include "storage/producer_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_MS = 86400000 };

struct fixture {
    struct stele_test_mem memory;
    struct stele_producers *producers;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    stele_test_mem_init(&f->memory);
    f->producers = stele_producers_new(&f->memory.mem, DAY_MS);
    assert_non_null(f->producers);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    stele_producers_free(f->producers);
    stele_test_mem_check_empty(&f->memory);
    test_free(f);
    return 0;
}

enum step_kind { DATA, TXN, COMMIT, ABORT };

struct step {
    enum step_kind kind;
    enum stele_origin origin;
    int16_t epoch;
    int32_t sequence, count; /* of records; coordinator epoch for a marker is `sequence` */
    enum stele_err want;
    int64_t duplicate_of; /* base offset + 1; 0: no duplicate */
};

static struct stele_batch_header header_of(const struct step *step, int64_t producer_id, int64_t offset,
                                           struct stele_control *out_control)
{
    bool is_marker = step->kind == COMMIT || step->kind == ABORT;
    *out_control = (struct stele_control){step->kind == ABORT ? STELE_CONTROL_ABORT : STELE_CONTROL_COMMIT,
                                          is_marker ? step->sequence : -1};
    return (struct stele_batch_header){
        .base_offset = offset,
        .attributes = (int16_t)(is_marker           ? STELE_BATCH_TRANSACTIONAL | STELE_BATCH_CONTROL
                                : step->kind == TXN ? STELE_BATCH_TRANSACTIONAL
                                                    : 0),
        .last_offset_delta = is_marker ? 0 : step->count - 1,
        .max_timestamp = 1000 + offset,
        .producer_id = producer_id,
        .producer_epoch = step->epoch,
        .base_sequence = is_marker ? -1 : step->sequence,
        .record_count = is_marker ? 1 : step->count,
    };
}

/* Checks a step and, when it is accepted, applies it. */
static enum stele_err run_step(struct stele_producers *producers, const struct step *step, int64_t *inout_offset,
                               bool *out_is_duplicate, struct stele_duplicate *out_duplicate)
{
    struct stele_control control;
    struct stele_completed_txn txn;
    struct stele_batch_header header = header_of(step, 4242, *inout_offset, &control);
    const struct stele_control *given = (header.attributes & STELE_BATCH_CONTROL) != 0 ? &control : NULL;
    enum stele_err err =
        stele_producers_check(producers, &header, given, step->origin, out_is_duplicate, out_duplicate);
    if (err != STELE_OK || *out_is_duplicate)
        return err;
    assert_ok(stele_producers_reserve(producers, header.producer_id, 1));
    (void)stele_producers_apply(producers, &header, given, &txn);
    *inout_offset += header.last_offset_delta + 1;
    assert_int_equal(stele_producers_map_end(producers), *inout_offset);
    return STELE_OK;
}

#define CL STELE_ORIGIN_CLIENT
#define RE STELE_ORIGIN_REPLICATION
#define CO STELE_ORIGIN_COORDINATOR
#define BAD_SEQ STELE_OUT_OF_ORDER_SEQUENCE_NUMBER
#define BAD_EPOCH STELE_INVALID_PRODUCER_EPOCH

/* Each list is the life of one producer; offsets count from 0. */
static const struct script {
    const char *name;
    struct step steps[10];
} scripts[] = {
    {"sequences follow each other",
     {{DATA, CL, 0, 0, 5, STELE_OK, 0},
      {DATA, CL, 0, 5, 5, STELE_OK, 0},
      {DATA, CL, 0, 11, 1, BAD_SEQ, 0},
      {DATA, CL, 0, 9, 1, BAD_SEQ, 0},
      {DATA, CL, 0, 10, 1, STELE_OK, 0}}},
    {"an unknown producer may begin anywhere", {{DATA, CL, 3, 77, 2, STELE_OK, 0}, {DATA, CL, 3, 79, 1, STELE_OK, 0}}},
    {"sequences wrap after the greatest int",
     {{DATA, CL, 0, INT32_MAX - 1, 2, STELE_OK, 0},
      {DATA, CL, 0, 1, 1, BAD_SEQ, 0},
      {DATA, CL, 0, 0, 3, STELE_OK, 0},
      {DATA, CL, 0, 0, 3, STELE_OK, 3}}},
    {"a batch across the wrap and its duplicate",
     {{DATA, CL, 0, INT32_MAX, 3, STELE_OK, 0},
      {DATA, CL, 0, INT32_MAX, 3, STELE_OK, 1},
      {DATA, CL, 0, 2, 1, STELE_OK, 0}}},
    {"duplicates of the last five only (T66)",
     {{DATA, CL, 0, 0, 1, STELE_OK, 0},
      {DATA, CL, 0, 1, 1, STELE_OK, 0},
      {DATA, CL, 0, 2, 1, STELE_OK, 0},
      {DATA, CL, 0, 3, 1, STELE_OK, 0},
      {DATA, CL, 0, 4, 1, STELE_OK, 0},
      {DATA, CL, 0, 0, 1, STELE_OK, 1},
      {DATA, CL, 0, 5, 1, STELE_OK, 0},
      {DATA, CL, 0, 0, 1, BAD_SEQ, 0},
      {DATA, CL, 0, 1, 1, STELE_OK, 2}}},
    {"a duplicate has both its sequences",
     {{DATA, CL, 0, 0, 3, STELE_OK, 0}, {DATA, CL, 0, 0, 2, BAD_SEQ, 0}, {DATA, CL, 0, 1, 2, BAD_SEQ, 0}}},
    {"a new epoch begins at 0 and forgets the batches",
     {{DATA, CL, 1, 0, 2, STELE_OK, 0},
      {DATA, CL, 2, 2, 1, BAD_SEQ, 0},
      {DATA, CL, 2, 0, 2, STELE_OK, 0},
      {DATA, CL, 1, 2, 1, BAD_EPOCH, 0},
      {DATA, CL, 1, 0, 2, BAD_EPOCH, 0},
      {DATA, CL, 2, 0, 2, STELE_OK, 3}}},
    {"an old epoch is told before a wrong sequence (T67)",
     {{DATA, CL, 5, 0, 1, STELE_OK, 0}, {DATA, CL, 4, 9, 1, BAD_EPOCH, 0}}},
    {"replication is lenient",
     {{DATA, CL, 5, 0, 1, STELE_OK, 0}, {DATA, RE, 5, 40, 1, STELE_OK, 0}, {DATA, RE, 4, 9, 1, STELE_OK, 0}}},
    {"the coordinator's data has no sequence, but an epoch",
     {{DATA, CO, 5, -1, 1, STELE_OK, 0},
      {DATA, CO, 5, -1, 1, STELE_OK, 0},
      {DATA, CO, 4, -1, 1, BAD_EPOCH, 0},
      {DATA, CL, 5, 3, 1, BAD_SEQ, 0},
      {DATA, CL, 5, 0, 1, STELE_OK, 0}}},
    {"a transaction keeps plain data out until its marker",
     {{TXN, CL, 0, 0, 2, STELE_OK, 0},
      {TXN, CL, 0, 2, 2, STELE_OK, 0},
      {DATA, CL, 0, 4, 1, STELE_INVALID_TXN_STATE, 0},
      {COMMIT, CO, 0, 7, 1, STELE_OK, 0},
      {DATA, CL, 0, 4, 1, STELE_OK, 0}}},
    {"a marker with a new epoch expects sequence 0",
     {{TXN, CL, 0, 0, 2, STELE_OK, 0},
      {ABORT, CO, 1, 7, 1, STELE_OK, 0},
      {TXN, CL, 1, 2, 1, BAD_SEQ, 0},
      {TXN, CL, 0, 2, 1, BAD_EPOCH, 0},
      {TXN, CL, 1, 0, 1, STELE_OK, 0}}},
    {"markers are fenced by both epochs",
     {{COMMIT, CO, 3, 7, 1, STELE_OK, 0},
      {COMMIT, CO, 2, 9, 1, BAD_EPOCH, 0},
      {COMMIT, CO, 3, 6, 1, STELE_TRANSACTION_COORDINATOR_FENCED, 0},
      {COMMIT, CO, 3, 7, 1, STELE_OK, 0},
      {COMMIT, RE, 3, 1, 1, STELE_OK, 0},
      {COMMIT, RE, 2, 9, 1, STELE_OK, 0}}},
};

/* The rules of facts 9.2 to 9.5, one life after another. */
static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(scripts); i++) {
        struct fixture *f;
        int64_t offset = 0;
        (void)setup((void **)&f);
        for (size_t at = 0;
             at < STELE_ARRAY_LEN(scripts[i].steps) && scripts[i].steps[at].epoch + scripts[i].steps[at].count > 0;
             at++) {
            const struct step *step = &scripts[i].steps[at];
            bool is_duplicate = false;
            struct stele_duplicate duplicate = {-1, -1, -1};
            enum stele_err err = run_step(f->producers, step, &offset, &is_duplicate, &duplicate);
            if (err != step->want || is_duplicate != (step->duplicate_of > 0))
                print_error("%s, step %zu\n", scripts[i].name, at);
            assert_int_equal(err, step->want);
            assert_int_equal(is_duplicate, step->duplicate_of > 0);
            if (is_duplicate) {
                assert_int_equal(duplicate.base_offset, step->duplicate_of - 1);
                assert_int_equal(duplicate.last_offset, duplicate.base_offset + step->count - 1);
                assert_int_equal(duplicate.timestamp, 1000 + duplicate.base_offset);
            }
        }
        (void)teardown((void **)&f);
    }
}

static void apply(struct fixture *f, enum step_kind kind, int64_t producer_id, int64_t offset, int64_t timestamp,
                  struct stele_completed_txn *out_txn)
{
    struct step step = {.kind = kind, .count = 1, .sequence = (int32_t)offset};
    struct stele_control control;
    struct stele_batch_header header = header_of(&step, producer_id, offset, &control);
    header.max_timestamp = timestamp;
    assert_ok(stele_producers_reserve(f->producers, producer_id, 1));
    bool is_done = stele_producers_apply(f->producers, &header,
                                         (header.attributes & STELE_BATCH_CONTROL) != 0 ? &control : NULL, out_txn);
    assert_int_equal(is_done, kind == COMMIT || kind == ABORT);
}

/* The first unstable offset and the last stable one of a marker (facts 9.6, T71). */
static void test_transactions(void **state)
{
    struct fixture *f = *state;
    struct stele_completed_txn txn;
    assert_int_equal(stele_producers_first_unstable(f->producers), -1);
    apply(f, TXN, 3, 10, 0, &txn);
    apply(f, TXN, 1, 11, 0, &txn);
    apply(f, TXN, 2, 12, 0, &txn);
    apply(f, TXN, 3, 13, 0, &txn);
    assert_int_equal(stele_producers_first_unstable(f->producers), 10);
    apply(f, ABORT, 3, 14, 0, &txn);
    assert_true(txn.producer_id == 3 && txn.first_offset == 10 && txn.last_offset == 14 && txn.is_aborted);
    assert_int_equal(stele_producers_lso_after(f->producers, &txn), 11);
    assert_int_equal(stele_producers_first_unstable(f->producers), 10);
    stele_producers_on_high_watermark(f->producers, 14);
    assert_int_equal(stele_producers_first_unstable(f->producers), 10);
    stele_producers_on_high_watermark(f->producers, 15);
    assert_int_equal(stele_producers_first_unstable(f->producers), 11);
    apply(f, COMMIT, 2, 15, 0, &txn);
    assert_false(txn.is_aborted);
    assert_int_equal(stele_producers_lso_after(f->producers, &txn), 11);
    apply(f, ABORT, 1, 16, 0, &txn);
    assert_int_equal(stele_producers_lso_after(f->producers, &txn), 17);
    assert_int_equal(stele_producers_first_unstable(f->producers), 11);
    stele_producers_on_log_start(f->producers, 17);
    assert_int_equal(stele_producers_first_unstable(f->producers), -1);
    stele_producers_on_log_start(f->producers, 30);
    assert_int_equal(stele_producers_map_end(f->producers), 30);
    assert_int_equal(stele_producers_count(f->producers), 3); /* live producers stay */
}

/* A batch without producer only moves the end; what compaction left of a marker makes no producer. */
static void test_no_producer(void **state)
{
    struct fixture *f = *state;
    struct stele_completed_txn txn;
    struct stele_batch_header header = {.base_offset = 5, .last_offset_delta = 4, .producer_id = STELE_NO_PRODUCER_ID};
    assert_ok(stele_producers_reserve(f->producers, STELE_NO_PRODUCER_ID, 1));
    assert_false(stele_producers_apply(f->producers, &header, NULL, &txn));
    assert_int_equal(stele_producers_map_end(f->producers), 10);
    header = (struct stele_batch_header){.base_offset = 10, .producer_id = 8, .attributes = STELE_BATCH_CONTROL};
    assert_ok(stele_producers_reserve(f->producers, 8, 1));
    assert_false(stele_producers_apply(f->producers, &header, NULL, &txn));
    assert_true(stele_producers_is_empty(f->producers));
    assert_int_equal(stele_producers_count(f->producers), 0);
    assert_int_equal(stele_producers_expire(f->producers, INT64_MAX), 0);
    stele_producers_clear(f->producers, 3);
    assert_int_equal(stele_producers_map_end(f->producers), 3);
}

/* Expiry is by the records' own time, is not strict, and spares open transactions (T70). */
static void test_expiry(void **state)
{
    struct fixture *f = *state;
    struct stele_completed_txn txn;
    apply(f, DATA, 1, 0, 100, &txn);
    apply(f, DATA, 2, 1, 101, &txn);
    apply(f, TXN, 3, 2, 0, &txn);
    apply(f, DATA, 4, 3, INT64_MAX, &txn);
    apply(f, DATA, 5, 4, INT64_MIN, &txn);
    assert_int_equal(stele_producers_expire(f->producers, INT64_MIN), 0);
    assert_int_equal(stele_producers_expire(f->producers, 99 + DAY_MS), 1);
    assert_int_equal(stele_producers_expire(f->producers, 100 + DAY_MS), 1);
    assert_int_equal(stele_producers_count(f->producers), 3);
    assert_int_equal(stele_producers_expire(f->producers, 101 + DAY_MS), 1);
    assert_int_equal(stele_producers_expire(f->producers, INT64_MAX - 1), 0);
    assert_int_equal(stele_producers_count(f->producers), 2);
    apply(f, COMMIT, 3, 5, 200, &txn);
    assert_int_equal(stele_producers_expire(f->producers, INT64_MAX - 1), 1);
}

/* Several markers of one append fit after their reservations, however many are waiting already. */
static void test_reserve_many(void **state)
{
    struct fixture *f = *state;
    struct stele_completed_txn txn;
    int64_t offset = 0;
    for (int batches = 1; batches < 40; batches++) {
        struct step step = {.kind = ABORT, .count = 1};
        for (int i = 0; i < batches; i++)
            apply(f, TXN, i, offset++, 0, &txn);
        for (int i = 0; i < batches; i++)
            assert_ok(stele_producers_reserve(f->producers, i, i + 1));
        stele_test_mem_fail(&f->memory, 1, true); /* apply takes no memory */
        for (int i = 0; i < batches; i++) {
            struct stele_control control;
            struct stele_batch_header header = header_of(&step, i, offset++, &control);
            assert_true(stele_producers_apply(f->producers, &header, &control, &txn));
        }
        stele_test_mem_fail(&f->memory, 0, false);
    }
    assert_int_equal(stele_producers_first_unstable(f->producers), 0);
    stele_producers_on_high_watermark(f->producers, offset);
    assert_int_equal(stele_producers_first_unstable(f->producers), -1);
}

#define SNAPSHOT_F                                                                                                     \
    "0001b25667510000000100000000000010920003000000090000000000000066000000020000018bcfe5692c000000090000000000000064"
#define SNAPSHOT_F0 "000148674bc700000000"

static void assert_snapshot(struct fixture *f, const char *hex)
{
    uint8_t want[256], *got = NULL;
    size_t want_count = stele_test_hex(hex, want, sizeof(want)), count = 0;
    assert_ok(stele_producers_snapshot(f->producers, &got, &count));
    assert_int_equal(count, want_count);
    assert_memory_equal(got, want, count);
    stele_mem_free(&f->memory.mem, got);
}

/* The golden snapshots, written from the batches they tell of and read back (facts 13 F, F0). */
static void test_golden(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[256];
    struct stele_completed_txn txn;
    struct stele_producer_entry entry;
    int entries = -1;
    assert_snapshot(f, SNAPSHOT_F0);
    struct step marker = {.kind = COMMIT, .epoch = 3, .sequence = 9};
    struct step data = {.kind = TXN, .epoch = 3, .sequence = 7, .count = 3};
    struct stele_control control;
    struct stele_batch_header header = header_of(&marker, 4242, 99, &control);
    assert_ok(stele_producers_reserve(f->producers, 4242, 1));
    assert_false(stele_producers_apply(f->producers, &header, &control, &txn));
    header = header_of(&data, 4242, 100, &control);
    header.max_timestamp = 1700000000300;
    assert_false(stele_producers_apply(f->producers, &header, NULL, &txn));
    assert_snapshot(f, SNAPSHOT_F);
    size_t count = stele_test_hex(SNAPSHOT_F, bytes, sizeof(bytes));
    assert_ok(stele_snapshot_check(bytes, count, &entries));
    assert_int_equal(entries, 1);
    assert_ok(stele_snapshot_entry(bytes, count, 0, &entry));
    assert_true(entry.producer_id == 4242 && entry.producer_epoch == 3 && entry.last_sequence == 9 &&
                entry.last_offset == 102 && entry.offset_delta == 2 && entry.timestamp == 1700000000300 &&
                entry.coordinator_epoch == 9 && entry.txn_first_offset == 100);
    assert_int_equal(stele_snapshot_entry(bytes, count, 1, &entry), STELE_CORRUPT);
    assert_int_equal(stele_snapshot_entry(bytes, count, -1, &entry), STELE_CORRUPT);
    stele_producers_clear(f->producers, 0);
    assert_ok(stele_producers_load(f->producers, bytes, count, 103, INT64_MAX));
    assert_int_equal(stele_producers_map_end(f->producers), 103);
    assert_int_equal(stele_producers_first_unstable(f->producers), 100);
    assert_snapshot(f, SNAPSHOT_F);
    count = stele_test_hex(SNAPSHOT_F0, bytes, sizeof(bytes));
    assert_ok(stele_producers_load(f->producers, bytes, count, 7, 0));
    assert_true(stele_producers_is_empty(f->producers));
}

static void reseal(uint8_t *bytes, size_t count)
{
    stele_put_u32(bytes + 2, stele_crc32c(0, bytes + 6, count - 6));
}

/* Every flipped bit, every cut and every addition is refused, and the state is then empty; so is sense that a right
 * checksum covers. */
static void test_damage(void **state)
{
    struct fixture *f = *state;
    uint8_t good[256], bytes[256];
    size_t count = stele_test_hex(SNAPSHOT_F, good, sizeof(good));
    for (size_t i = 0; i < count * 8; i++) {
        memcpy(bytes, good, count);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(stele_producers_load(f->producers, bytes, count, 9, 0), STELE_CORRUPT);
        assert_true(stele_producers_is_empty(f->producers));
        assert_int_equal(stele_producers_map_end(f->producers), 9);
    }
    for (size_t cut = 0; cut < count; cut++)
        assert_int_equal(stele_producers_load(f->producers, good, cut, 9, 0), STELE_CORRUPT);
    memcpy(bytes, good, sizeof(bytes));
    for (size_t more = count + 1; more < count + 50; more++) {
        bytes[more - 1] = 0;
        assert_int_equal(stele_producers_load(f->producers, bytes, more, 9, 0), STELE_CORRUPT);
        reseal(bytes, more);
        assert_int_equal(stele_producers_load(f->producers, bytes, more, 9, 0), STELE_CORRUPT);
    }
    memcpy(bytes, good, count);
    memcpy(bytes + count, good + 10, 46); /* a producer twice */
    bytes[9] = 2;
    reseal(bytes, count + 46);
    assert_int_equal(stele_producers_load(f->producers, bytes, count + 46, 9, INT64_MIN), STELE_CORRUPT);
    assert_true(stele_producers_is_empty(f->producers));
    static const struct {
        size_t at;
        uint8_t value;
    } senseless[] = {{10, 0x80} /* id */, {18, 0x80} /* epoch */, {20, 0x80} /* sequence */, {32, 0x80} /* delta */};
    for (size_t i = 0; i < STELE_ARRAY_LEN(senseless); i++) {
        memcpy(bytes, good, count);
        bytes[senseless[i].at] = senseless[i].value;
        reseal(bytes, count);
        assert_int_equal(stele_producers_load(f->producers, bytes, count, 9, INT64_MIN), STELE_CORRUPT);
    }
}

struct collected {
    struct stele_producer_entry entries[64];
    int count;
};

static void collect(void *arg, const struct stele_producer_entry *entry)
{
    struct collected *collected = arg;
    assert_true(collected->count == 0 || collected->entries[collected->count - 1].producer_id < entry->producer_id);
    collected->entries[collected->count++] = *entry;
}

/* A round trip keeps what a snapshot holds, whatever the order of ids; expired producers are left out. */
static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct stele_completed_txn txn;
    uint8_t *bytes = NULL;
    size_t count = 0;
    struct collected before = {.count = 0}, after = {.count = 0};
    for (int i = 0; i < 60; i++)
        apply(f, i % 3 == 0 ? TXN : DATA, (i * 37) % 41, i, i < 30 ? 0 : DAY_MS, &txn);
    apply(f, ABORT, 0, 60, 5, &txn);
    stele_producers_on_high_watermark(f->producers, 61);
    int64_t unstable = stele_producers_first_unstable(f->producers);
    stele_producers_each(f->producers, collect, &before);
    assert_int_equal(before.count, 41);
    assert_ok(stele_producers_snapshot(f->producers, &bytes, &count));
    assert_int_equal(count, 10 + 41 * 46);
    for (int i = 0; i < before.count; i++) {
        struct stele_producer_entry entry;
        memset(&entry, 0, sizeof(entry));
        assert_ok(stele_snapshot_entry(bytes, count, i, &entry));
        assert_int_equal(entry.producer_id, before.entries[i].producer_id);
    }
    assert_ok(stele_producers_load(f->producers, bytes, count, 61, INT64_MIN));
    stele_producers_each(f->producers, collect, &after);
    assert_int_equal(after.count, before.count);
    for (int i = 0; i < after.count; i++) {
        const struct stele_producer_entry *a = &after.entries[i], *b = &before.entries[i];
        assert_true(a->producer_id == b->producer_id && a->producer_epoch == b->producer_epoch &&
                    a->last_sequence == b->last_sequence && a->last_offset == b->last_offset &&
                    a->offset_delta == b->offset_delta && a->timestamp == b->timestamp &&
                    a->coordinator_epoch == b->coordinator_epoch && a->txn_first_offset == b->txn_first_offset);
    }
    assert_int_equal(stele_producers_first_unstable(f->producers), unstable);
    assert_ok(stele_producers_load(f->producers, bytes, count, 61, DAY_MS + 4));
    after.count = 0;
    stele_producers_each(f->producers, collect, &after);
    assert_true(after.count > 5 && after.count < 41);
    for (int i = 0; i < after.count; i++)
        assert_true(after.entries[i].timestamp > 4 || after.entries[i].txn_first_offset >= 0);
    stele_mem_free(&f->memory.mem, bytes);
}

/* The model: every applied event is kept, and the state of a producer is told anew from all of them each time. */
enum { EVENTS_MAX = 400, MODEL_PRODUCERS = 4, MODEL_EXPIRATION_MS = 60 };

struct event {
    enum { EVENT_BATCH, EVENT_RELOAD, EVENT_EXPIRE } what;
    struct step step;
    int64_t producer_id, offset, at_ms;
};

struct told {
    bool is_known;
    int epoch, coordinator_epoch, batch_count;
    int64_t last_ms, open;
    struct event batches[EVENTS_MAX];
    int64_t done_first[EVENTS_MAX], done_marker[EVENTS_MAX];
    int done_count;
};

static const struct told nothing_told = {.epoch = -1, .coordinator_epoch = -1, .last_ms = -1, .open = -1};

static void tell_batch(struct told *told, const struct event *event)
{
    bool is_marker = event->step.kind == COMMIT || event->step.kind == ABORT;
    if (told->epoch != event->step.epoch)
        told->batch_count = 0;
    told->is_known = true;
    told->epoch = event->step.epoch;
    told->last_ms = event->at_ms;
    if (!is_marker)
        told->batches[told->batch_count++] = *event;
    if (event->step.kind == TXN && told->open < 0)
        told->open = event->offset;
    if (is_marker) {
        told->coordinator_epoch = event->step.sequence;
        if (told->open >= 0) {
            told->done_first[told->done_count] = told->open;
            told->done_marker[told->done_count++] = event->offset;
        }
        told->open = -1;
    }
}

static void tell(struct told *told, const struct event *events, int count, int64_t producer_id)
{
    *told = nothing_told;
    for (int i = 0; i < count; i++) {
        const struct event *event = &events[i];
        if (event->what == EVENT_BATCH && event->producer_id == producer_id)
            tell_batch(told, event);
        if (event->what == EVENT_RELOAD) {
            told->done_count = 0;
            if (told->batch_count > 0)
                told->batches[0] = told->batches[told->batch_count - 1];
            told->batch_count = told->batch_count > 0;
            if (told->batch_count > 0) /* a snapshot has one time only */
                told->batches[0].at_ms = told->last_ms;
        }
        if (event->what == EVENT_EXPIRE && told->open < 0 && told->last_ms <= event->at_ms - MODEL_EXPIRATION_MS) {
            int done = told->done_count;
            told->is_known = false;
            told->epoch = told->coordinator_epoch = -1;
            told->last_ms = -1;
            told->batch_count = 0;
            told->done_count = done;
        }
    }
}

static int32_t sequence_after(int32_t sequence, int32_t count)
{
    return (int32_t)(((int64_t)sequence + count) % ((int64_t)INT32_MAX + 1));
}

static enum stele_err model_check(const struct told *told, const struct step *step, const struct event **out_duplicate)
{
    *out_duplicate = NULL;
    if (!told->is_known || step->origin == RE)
        return STELE_OK;
    if (step->kind == COMMIT || step->kind == ABORT)
        return step->epoch < told->epoch                  ? BAD_EPOCH
               : step->sequence < told->coordinator_epoch ? STELE_TRANSACTION_COORDINATOR_FENCED
                                                          : STELE_OK;
    for (int i = told->batch_count > 5 ? told->batch_count - 5 : 0; i < told->batch_count && step->origin == CL; i++) {
        const struct event *batch = &told->batches[i];
        if (batch->step.epoch == step->epoch && batch->step.sequence == step->sequence &&
            batch->step.count == step->count) {
            *out_duplicate = batch;
            return STELE_OK;
        }
    }
    if (step->epoch < told->epoch)
        return BAD_EPOCH;
    const struct step *last = told->batch_count == 0 ? NULL : &told->batches[told->batch_count - 1].step;
    int32_t next = step->epoch != told->epoch || last == NULL || last->sequence < 0
                       ? 0
                       : sequence_after(last->sequence, last->count);
    if (step->origin == CL && step->sequence != next)
        return BAD_SEQ;
    return told->open >= 0 && step->kind != TXN ? STELE_INVALID_TXN_STATE : STELE_OK;
}

static void draw_step(struct stele_prng *prng, const struct told *told, struct step *out_step)
{
    const struct step *last = told->batch_count == 0 ? NULL : &told->batches[told->batch_count - 1].step;
    struct step step = {.kind = (enum step_kind)stele_prng_below(prng, 4),
                        .count = (int32_t)stele_prng_range(prng, 1, 3)};
    step.origin = stele_prng_chance(prng, 1, 6) ? RE : stele_prng_chance(prng, 1, 8) ? CO : CL;
    step.epoch =
        (int16_t)(stele_prng_chance(prng, 4, 5) ? stele_max_i64(0, told->epoch) : stele_prng_range(prng, 0, 4));
    step.sequence = step.origin == CO                    ? -1
                    : last == NULL || last->sequence < 0 ? (stele_prng_chance(prng, 1, 3) ? INT32_MAX - 2 : 0)
                                                         : sequence_after(last->sequence, last->count);
    if (told->batch_count > 0 && stele_prng_chance(prng, 1, 4)) {
        int back = (int)stele_prng_below(prng, (uint64_t)(told->batch_count < 8 ? told->batch_count : 8));
        step.count = told->batches[told->batch_count - 1 - back].step.count;
        step.sequence = told->batches[told->batch_count - 1 - back].step.sequence;
    }
    if (step.origin == CL && step.sequence < 0) /* validated before */
        step.sequence = 0;
    if (step.kind == COMMIT || step.kind == ABORT) {
        step.origin = step.origin == CL ? CO : step.origin;
        step.count = 1;
        step.sequence = (int32_t)stele_prng_range(prng, stele_max_i64(0, told->coordinator_epoch - 1), 9);
    }
    *out_step = step;
}

struct model {
    struct event events[EVENTS_MAX];
    int count;
    int64_t offset, high_watermark, now_ms;
    int accepted, refused, duplicates, reloads, expired;
};

static void assert_same(struct fixture *f, const struct model *m)
{
    static struct told told;
    struct collected seen = {.count = 0};
    int64_t unstable = INT64_MAX;
    int known = 0;
    stele_producers_each(f->producers, collect, &seen);
    for (int64_t id = 0; id < MODEL_PRODUCERS; id++) {
        tell(&told, m->events, m->count, id);
        if (told.open >= 0)
            unstable = stele_min_i64(unstable, told.open);
        for (int i = 0; i < told.done_count; i++) {
            if (told.done_marker[i] >= m->high_watermark)
                unstable = stele_min_i64(unstable, told.done_first[i]);
        }
        if (!told.is_known)
            continue;
        const struct stele_producer_entry *entry = &seen.entries[known++];
        const struct event *last = told.batch_count == 0 ? NULL : &told.batches[told.batch_count - 1];
        assert_true(known <= seen.count);
        assert_int_equal(entry->producer_id, id);
        assert_int_equal(entry->producer_epoch, told.epoch);
        assert_int_equal(entry->coordinator_epoch, told.coordinator_epoch);
        assert_int_equal(entry->txn_first_offset, told.open);
        assert_int_equal(entry->timestamp, told.last_ms);
        assert_int_equal(entry->last_offset, last == NULL ? -1 : last->offset + last->step.count - 1);
        assert_int_equal(entry->last_sequence, last == NULL || last->step.sequence < 0
                                                   ? -1
                                                   : sequence_after(last->step.sequence, last->step.count - 1));
    }
    assert_int_equal(seen.count, known);
    assert_int_equal(stele_producers_count(f->producers), known);
    assert_int_equal(stele_producers_first_unstable(f->producers), unstable == INT64_MAX ? -1 : unstable);
}

static void model_batch(struct fixture *f, struct model *m, struct stele_prng *prng)
{
    static struct told told;
    struct event event = {.what = EVENT_BATCH, .offset = m->offset, .at_ms = m->now_ms};
    const struct event *want_duplicate;
    struct stele_control control;
    struct stele_completed_txn txn;
    struct stele_duplicate duplicate;
    bool is_duplicate = false;
    event.producer_id = (int64_t)stele_prng_below(prng, MODEL_PRODUCERS);
    tell(&told, m->events, m->count, event.producer_id);
    draw_step(prng, &told, &event.step);
    struct stele_batch_header header = header_of(&event.step, event.producer_id, event.offset, &control);
    header.max_timestamp = event.at_ms;
    const struct stele_control *given = (header.attributes & STELE_BATCH_CONTROL) != 0 ? &control : NULL;
    enum stele_err want = model_check(&told, &event.step, &want_duplicate);
    assert_int_equal(stele_producers_check(f->producers, &header, given, event.step.origin, &is_duplicate, &duplicate),
                     want);
    assert_int_equal(is_duplicate, want_duplicate != NULL);
    if (is_duplicate) {
        assert_int_equal(duplicate.base_offset, want_duplicate->offset);
        assert_int_equal(duplicate.timestamp, want_duplicate->at_ms);
        m->duplicates++;
    }
    m->refused += want != STELE_OK;
    if (want != STELE_OK || is_duplicate)
        return;
    m->accepted++;
    assert_ok(stele_producers_reserve(f->producers, event.producer_id, 1));
    bool is_done = stele_producers_apply(f->producers, &header, given, &txn);
    assert_int_equal(is_done, given != NULL && told.open >= 0);
    if (is_done)
        assert_true(txn.first_offset == told.open && txn.last_offset == event.offset);
    m->events[m->count++] = event;
    m->offset += event.step.count;
}

static void model_reload(struct fixture *f, struct model *m)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    assert_ok(stele_producers_snapshot(f->producers, &bytes, &count));
    assert_ok(stele_producers_load(f->producers, bytes, count, m->offset, INT64_MIN));
    stele_mem_free(&f->memory.mem, bytes);
    m->events[m->count++] = (struct event){.what = EVENT_RELOAD};
    m->reloads++;
}

/* Random lives of a few producers, with restarts from snapshots and expiry: every answer is the model's. */
static void test_against_model(void **state)
{
    static struct model m;
    struct stele_prng prng;
    (void)state;
    stele_prng_init(&prng, 99, 0);
    for (int round = 0; round < 60; round++) {
        struct fixture *f;
        (void)setup((void **)&f);
        stele_producers_free(f->producers);
        f->producers = stele_producers_new(&f->memory.mem, MODEL_EXPIRATION_MS);
        m.count = 0;
        m.offset = m.high_watermark = m.now_ms = 0;
        while (m.count < EVENTS_MAX / 2) {
            m.now_ms += stele_prng_chance(&prng, 1, 30) ? 50 : stele_prng_range(&prng, 0, 3);
            model_batch(f, &m, &prng);
            if (stele_prng_chance(&prng, 1, 6)) {
                m.high_watermark = stele_prng_range(&prng, m.high_watermark, m.offset);
                stele_producers_on_high_watermark(f->producers, m.high_watermark);
            }
            if (stele_prng_chance(&prng, 1, 40))
                model_reload(f, &m);
            if (stele_prng_chance(&prng, 1, 40)) {
                m.expired += stele_producers_expire(f->producers, m.now_ms);
                m.events[m.count++] = (struct event){.what = EVENT_EXPIRE, .at_ms = m.now_ms};
            }
            assert_same(f, &m);
        }
        (void)teardown((void **)&f);
    }
    assert_true(m.accepted > 5000 && m.refused > 2000 && m.duplicates > 500 && m.reloads > 100 && m.expired > 50);
}

/* Every failing allocation is reported; what was there before stays, or for a load is empty. */
static void test_failures(void **state)
{
    struct fixture *f = *state;
    struct stele_completed_txn txn;
    uint8_t *bytes = NULL, *unused = NULL;
    size_t count = 0, unused_count = 0;
    int64_t at = 1, failures = 0;
    struct stele_test_mem other;
    stele_test_mem_init(&other);
    stele_test_mem_fail(&other, 1, false);
    assert_null(stele_producers_new(&other.mem, 1));
    for (int i = 0; i < 200; i++) { /* past the first growth of the hash table */
        enum stele_err err;
        for (at = 1;; at++) {
            stele_test_mem_fail(&f->memory, at, false);
            err = stele_producers_reserve(f->producers, i, 1);
            if (err == STELE_OK && f->memory.has_failed)
                stele_test_mem_fail(&f->memory, 0, false); /* the table may do without a larger one */
            if (err == STELE_OK)
                break;
            assert_int_equal(err, STELE_NO_MEMORY);
            assert_int_equal(stele_producers_count(f->producers), i);
            failures++;
        }
        stele_test_mem_fail(&f->memory, 0, false);
        apply(f, DATA, i, i, i, &txn);
    }
    assert_true(failures >= 200);
    assert_int_equal(stele_producers_count(f->producers), 200);
    stele_test_mem_fail(&f->memory, 1, false);
    assert_int_equal(stele_producers_snapshot(f->producers, &unused, &unused_count), STELE_NO_MEMORY);
    stele_test_mem_fail(&f->memory, 0, false);
    assert_ok(stele_producers_snapshot(f->producers, &bytes, &count));
    for (at = 1;; at++) {
        stele_test_mem_fail(&f->memory, at, false);
        enum stele_err err = stele_producers_load(f->producers, bytes, count, 200, INT64_MIN);
        if (err == STELE_OK)
            break;
        assert_int_equal(err, STELE_NO_MEMORY);
        assert_true(stele_producers_is_empty(f->producers));
    }
    assert_true(at > 200);
    assert_int_equal(stele_producers_count(f->producers), 200);
    stele_test_mem_fail(&f->memory, 0, false);
    stele_mem_free(&f->memory.mem, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test_setup_teardown(test_transactions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_producer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_expiry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserve_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_golden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test(test_against_model),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
