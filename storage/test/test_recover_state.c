/* Opening a log: its producers, transactions and epochs, whatever their files say. */
#include "storage/checkpoint.h"
#include "storage/test/log_world.h"

#include <string.h>

/* --- producer state --- */

struct producers {
    struct stele_producer_entry entries[8];
    int count;
};

static void collect(void *arg, const struct stele_producer_entry *entry)
{
    struct producers *producers = arg;
    assert_true(producers->count < 8);
    producers->entries[producers->count++] = *entry;
}

static struct producers world_producers(struct log_world *w)
{
    struct producers producers = {.count = 0};
    stele_producers_each(stele_log_producers(w->log), collect, &producers);
    return producers;
}

static void assert_same_producers(const struct producers *a, const struct producers *b)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        assert_int_equal(a->entries[i].producer_id, b->entries[i].producer_id);
        assert_int_equal(a->entries[i].producer_epoch, b->entries[i].producer_epoch);
        assert_int_equal(a->entries[i].last_sequence, b->entries[i].last_sequence);
        assert_int_equal(a->entries[i].last_offset, b->entries[i].last_offset);
        assert_int_equal(a->entries[i].timestamp, b->entries[i].timestamp);
        assert_int_equal(a->entries[i].txn_first_offset, b->entries[i].txn_first_offset);
    }
}

enum snapshot_fault {
    SNAPSHOT_SOUND,
    SNAPSHOT_FLIPPED,
    SNAPSHOT_CUT,
    SNAPSHOT_EMPTY,
    SNAPSHOT_GONE,
    SNAPSHOT_ALL_GONE
};

struct snapshot_case {
    enum snapshot_fault fault;
    bool is_clean;
};

static const struct snapshot_case snapshot_cases[] = {
    {SNAPSHOT_SOUND, true}, {SNAPSHOT_FLIPPED, true},  {SNAPSHOT_CUT, true},    {SNAPSHOT_EMPTY, true},
    {SNAPSHOT_GONE, true},  {SNAPSHOT_ALL_GONE, true}, {SNAPSHOT_SOUND, false}, {SNAPSHOT_FLIPPED, false},
    {SNAPSHOT_CUT, false},  {SNAPSHOT_EMPTY, false},   {SNAPSHOT_GONE, false},  {SNAPSHOT_ALL_GONE, false},
};

static void hurt_snapshots(struct log_world *w, enum snapshot_fault fault, const int64_t *offsets, int count)
{
    struct path newest = world_file(offsets[count - 1], ".snapshot");
    for (int i = 0; i < count && fault == SNAPSHOT_ALL_GONE; i++) {
        if (world_has(w, world_file(offsets[i], ".snapshot")))
            world_delete(w, world_file(offsets[i], ".snapshot"));
    }
    if (fault == SNAPSHOT_FLIPPED)
        world_flip(w, newest, 20);
    if (fault == SNAPSHOT_CUT)
        world_resize(w, newest, 15);
    if (fault == SNAPSHOT_EMPTY)
        world_resize(w, newest, 0);
    if (fault == SNAPSHOT_GONE)
        world_delete(w, newest);
}

/* Whatever happened to the snapshots, the producer state is what it was; a bad one is told of. */
static void test_producer_state_survives_bad_snapshots(void **state)
{
    struct log_world *w = *state;
    w->open.config.producer_id_expiration_ms = INT64_MAX / 2;
    world_open(w);
    for (int i = 0; i < 8; i++) {
        world_append_txn(w, 1, i);
        world_append_txn(w, 2, i);
        if (i % 3 == 0)
            world_append_abort(w, 1);
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(snapshot_cases); i++) {
        int64_t offsets[32], bad = w->test.traces[STELE_TRACE_LOG_SNAPSHOT_BAD];
        int count = stele_log_segment_count(w->log);
        struct producers before = world_producers(w);
        assert_true(count < 32 && count > 2);
        for (int at = 0; at < count; at++)
            offsets[at] = world_base(w, at);
        offsets[count] = stele_log_end_offset(w->log);
        world_stop(w);
        hurt_snapshots(w, snapshot_cases[i].fault, offsets, count + 1);
        w->open.was_clean = snapshot_cases[i].is_clean;
        world_open(w);
        struct producers after = world_producers(w);
        assert_same_producers(&before, &after);
        bool is_bad = snapshot_cases[i].is_clean && snapshot_cases[i].fault != SNAPSHOT_SOUND &&
                      snapshot_cases[i].fault < SNAPSHOT_GONE;
        assert_int_equal(w->test.traces[STELE_TRACE_LOG_SNAPSHOT_BAD] - bad, is_bad);
    }
}

/* An unclean start finds the aborted transactions again that the torn index lost. */
static void test_scan_rebuilds_transactions(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    world_append_txn(w, 7, 0);
    world_append(w, 2, 0);
    world_append_abort(w, 7);
    world_append_txn(w, 7, 1);
    world_drop(w);
    world_delete(w, world_file(0, ".txnindex"));
    world_reopen(w, 0, 4);
    struct stele_txn_index *txns = &stele_log_segment(w->log, 0)->txns;
    assert_ok(stele_txn_index_load(txns));
    assert_int_equal(txns->count, 1);
    assert_int_equal(txns->entries[0].first_offset, 0);
    assert_int_equal(txns->entries[0].last_offset, 3);
    assert_int_equal(txns->entries[0].last_stable_offset, 4);
    assert_int_equal(stele_log_last_stable_offset(w->log), 4);
}

/* --- epochs --- */

static void assert_epochs(struct log_world *w)
{
    const struct stele_epoch_cache *epochs = stele_log_epochs(w->log);
    assert_int_equal(epochs->count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(epochs->entries[i].epoch, 2 * i);
        assert_int_equal(epochs->entries[i].start_offset, 10 * i);
    }
}

static const char *const epoch_files[] = {
    "0\n3\n0 0\n2 10\n4 20\n",       /* right */
    NULL,                            /* missing */
    "",                              /* empty */
    "garbage",                       /* does not parse */
    "0\n2\n0 0\n2 10\n",             /* one was lost */
    "0\n4\n0 0\n2 10\n4 20\n9 30\n", /* one without a batch */
    "0\n4\n0 0\n2 10\n4 20\n9 77\n", /* one behind the end */
};

/* Every state of the epoch file is mended from the batches, after clean and unclean stops. */
static void test_epochs_are_mended(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    for (int i = 0; i < 3; i++)
        world_append(w, 10, 2 * i);
    for (size_t i = 0; i < 2 * STELE_ARRAY_LEN(epoch_files); i++) {
        const char *text = epoch_files[i / 2];
        world_stop(w);
        if (world_has(w, world_path(STELE_LEADER_EPOCH_FILE)))
            world_delete(w, world_path(STELE_LEADER_EPOCH_FILE));
        if (text != NULL)
            world_write(w, world_path(STELE_LEADER_EPOCH_FILE), text, strlen(text), 0);
        w->open.was_clean = i % 2 == 0;
        world_open(w);
        assert_epochs(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_producer_state_survives_bad_snapshots, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_scan_rebuilds_transactions, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_epochs_are_mended, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
