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

static struct producers producers_of(struct log_world *w)
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
        struct producers before = producers_of(w);
        assert_true(count < 32 && count > 2);
        for (int at = 0; at < count; at++)
            offsets[at] = world_base(w, at);
        offsets[count] = stele_log_end_offset(w->log);
        world_stop(w);
        hurt_snapshots(w, snapshot_cases[i].fault, offsets, count + 1);
        w->open.was_clean = snapshot_cases[i].is_clean;
        world_open(w);
        struct producers after = producers_of(w);
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
    "0\n2\n2 15\n4 20\n",            /* of a log that began at 15, before a power loss took its start back */
    "0\n1\n4 25\n",                  /* the same, in its last epoch */
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

/* A transaction may begin segments before its end: whatever is read again, its entry tells where. */
static void test_transaction_over_segments(void **state)
{
    static const bool was_clean[] = {true, false};
    struct log_world *w = *state;
    world_open(w);
    world_append(w, 3, 0);
    world_append_txn(w, 7, 0);
    world_append(w, 12, 0);
    world_append_abort(w, 7);
    world_append_txn(w, 7, 1);
    world_append(w, 10, 0);
    stele_log_set_high_watermark(w->log, stele_log_end_offset(w->log));
    for (size_t i = 0; i < STELE_ARRAY_LEN(was_clean); i++) {
        struct world_standing before, after;
        world_stand(w, &before);
        assert_int_equal(before.aborted, 1);
        world_stop(w);
        world_delete(w, world_file(14, ".index"));
        world_delete(w, world_file(14, ".txnindex"));
        w->open.was_clean = was_clean[i];
        world_open(w);
        world_stand(w, &after);
        assert_true(world_is_same(&before, &after));
        world_leave(w, &before);
        world_leave(w, &after);
        struct stele_txn_index *txns = &stele_log_segment(w->log, 2)->txns;
        assert_int_equal(txns->count, 1);
        assert_int_equal(txns->entries[0].first_offset, 3);
        assert_int_equal(txns->entries[0].last_offset, 16);
        assert_int_equal(stele_log_last_stable_offset(w->log), 17);
    }
}

/* The last batch of a producer is known again after a start of any kind, and answered with its first offset. */
static void test_duplicate_after_a_start(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    for (int start = 0; start < 3; start++) {
        struct stele_batch_options options = world_options(5, start, 0);
        struct stele_appended appended;
        assert_ok(world_put(w, world_build(w, &options, stele_log_end_offset(w->log)), STELE_ORIGIN_CLIENT, 0));
        int64_t offset = stele_log_end_offset(w->log) - 1;
        world_append(w, 6, 0);
        if (start == 0) {
            world_stop(w);
            world_open(w);
        } else {
            /* From the log alone, from its last segment and a snapshot. */
            world_reopen(w, start == 1 ? 0 : world_last_base(w), -1);
        }
        int64_t end = stele_log_end_offset(w->log);
        struct stele_buf *buf = world_build(w, &options, offset);
        struct stele_append append = {.bytes = buf->bytes, .count = buf->count, .origin = STELE_ORIGIN_CLIENT};
        assert_ok(stele_log_append(w->log, &append, &appended));
        stele_buf_unref(buf);
        assert_true(appended.is_duplicate);
        assert_int_equal(appended.first_offset, offset);
        assert_int_equal(stele_log_end_offset(w->log), end);
    }
}

/* A longer file of the same name, which an earlier life left, does not show behind a new snapshot. */
static void test_longer_leftover_snapshot_is_overwritten(void **state)
{
    struct log_world *w = *state;
    uint8_t old[700];
    memset(old, 0x5a, sizeof(old));
    world_open(w);
    world_append_txn(w, 7, 0);
    world_append(w, 5, 0);
    world_write(w, world_file(6, ".snapshot"), old, sizeof(old), 0);
    assert_ok(stele_log_roll(w->log, STELE_REASON_SIZE));
    assert_true(world_size(w, world_file(6, ".snapshot")) < 100);
    world_append(w, 2, 0);
    world_write(w, world_file(8, ".snapshot"), old, sizeof(old), 0);
    world_stop(w);
    assert_true(world_size(w, world_file(8, ".snapshot")) < 100);
    world_open(w);
    world_reopen(w, 6, 8);
    assert_int_equal(w->test.traces[STELE_TRACE_LOG_SNAPSHOT_BAD], 0);
    assert_int_equal(producers_of(w).count, 1);
}

/* What a clean stop and a flush promise of snapshots, epochs and names survives a loss of power. */
static void test_state_is_durable(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    assert_ok(world_vfs(w)->ops->sync_dir(world_vfs(w), "/"));
    for (int i = 0; i < 16; i++)
        world_append_txn(w, i, 0);
    world_append(w, 1, 3);
    assert_ok(stele_log_flush(w->log));
    for (int64_t base_offset = 0; base_offset <= 14; base_offset += 7) {
        struct path log = world_file(base_offset, ".log"), snapshot = world_file(base_offset, ".snapshot");
        assert_true(sim_disk_is_durable(w->disk, log.text, 0, world_size(w, log)));
        assert_true(base_offset == 0 || sim_disk_is_durable(w->disk, snapshot.text, 0, world_size(w, snapshot)));
    }
    struct path epochs = world_path(STELE_LEADER_EPOCH_FILE);
    assert_true(sim_disk_is_durable(w->disk, epochs.text, 0, world_size(w, epochs)));
    world_append(w, 1, 3);
    world_stop(w);
    struct path snapshot = world_file(18, ".snapshot");
    assert_true(sim_disk_is_durable(w->disk, snapshot.text, 0, world_size(w, snapshot)));
    sim_disk_crash(w->disk, SIM_DISK_ADVERSARIAL);
    world_open(w);
    world_check_untouched(w);
    assert_int_equal(w->report.segments_scanned, 0);
    assert_int_equal(stele_epoch_cache_latest(stele_log_epochs(w->log)), 3);
    world_check_readable(w, 0, 18);
}

/* A log start inside a segment: what was before it is not looked at for the producers' state, and no transaction is
 * open below it. */
static void test_log_start_inside_a_segment(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    world_append_txn(w, 7, 0);
    world_append(w, 3, 0);
    world_append_txn(w, 9, 0);
    world_append(w, 12, 0);
    for (int64_t offset = 7; offset <= 14; offset += 7)
        world_delete(w, world_file(offset, ".snapshot"));
    w->open.log_start_offset = 3;
    world_reopen(w, 0, 17);
    assert_int_equal(stele_log_start_offset(w->log), 3);
    struct producers producers = producers_of(w);
    assert_int_equal(producers.count, 1);
    assert_int_equal(producers.entries[0].producer_id, 9);
    assert_int_equal(stele_log_last_stable_offset(w->log), 4);
    world_check_readable(w, 3, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_producer_state_survives_bad_snapshots, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_scan_rebuilds_transactions, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_epochs_are_mended, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_transaction_over_segments, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_duplicate_after_a_start, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_longer_leftover_snapshot_is_overwritten, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_state_is_durable, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_log_start_inside_a_segment, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
