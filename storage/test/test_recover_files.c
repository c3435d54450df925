/* Opening a log among leftovers, strange names and bad indexes. */
#include "storage/test/log_world.h"

#include <string.h>

/* --- leftovers --- */

struct leftover {
    const char *name; /* a file put into the directory of a log of [0, 5) */
    bool is_kept;
};

static const struct leftover leftovers[] = {
    {"00000000000000000077.log.deleted", false},
    {"00000000000000000077.index.deleted", false},
    {"00000000000000000000.snapshot.deleted", false},
    {"00000000000000000000.log.cleaned", false},
    {"00000000000000000000.timeindex.cleaned", false},
    {"00000000000000000000.snapshot.tmp", false},
    {"leader-epoch-checkpoint.tmp", false},
    {"partition.metadata.tmp", false},
    {"00000000000000000077.index", false},
    {"00000000000000000077.timeindex", false},
    {"00000000000000000077.txnindex", false},
    {"00000000000000000003.snapshot", false},
    {"00000000000000000077.snapshot", false},
    {"00000000000000000077.txnindex.swap", false},
    {"00000000000000000000-0000000000.checkpoint.deleted", true},
    {"partition.metadata", true},
    {"notes.txt", true},
    {"77.log", true},
    {"00000000000000000077", true},
    {"00000000000000000077.log.other", true},
};

/* Each kind of file that an interrupted deletion, clean or write leaves goes at the next start; other names stay. */
static void test_leftovers_go_and_foreign_files_stay(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    for (size_t i = 0; i < STELE_ARRAY_LEN(leftovers); i++) {
        world_write(w, world_path(leftovers[i].name), "x", 1, 0);
        world_reopen(w, 5, 5);
        if (world_has(w, world_path(leftovers[i].name)) != leftovers[i].is_kept)
            fail_msg("%s was %s", leftovers[i].name, leftovers[i].is_kept ? "deleted" : "kept");
        world_check_untouched(w);
        world_check_readable(w, 0, 5);
    }
}

/* A swap whose *.log.swap is complete replaces every segment in its range. */
static void test_complete_swap_is_finished(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1), third = world_base(w, 2), bytes = world_size(w, world_file(0, ".log"));
    world_copy(w, world_file(0, ".log"), world_file(0, ".log.swap"), 0);
    world_copy(w, world_file(second, ".log"), world_file(0, ".log.swap"), bytes);
    world_write(w, world_file(0, ".index.swap"), "", 0, 0);
    world_write(w, world_file(0, ".timeindex.swap"), "", 0, 0);
    world_reopen(w, 30, 30);
    assert_false(world_has(w, world_file(0, ".log.swap")));
    assert_false(world_has(w, world_file(second, ".log")));
    assert_false(world_has(w, world_file(second, ".index")));
    assert_int_equal(world_base(w, 0), 0);
    assert_int_equal(world_base(w, 1), third);
    world_check_readable(w, 0, 30);
    world_check_untouched(w);
}

/* With a *.cleaned file at or below it a swap was not complete: its sources stay. */
static void test_incomplete_swap_is_given_up(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    int64_t second = world_base(w, 1);
    world_copy(w, world_file(0, ".log"), world_file(second, ".log.swap"), 0);
    world_write(w, world_file(0, ".log.cleaned"), "x", 1, 0);
    world_reopen(w, 30, 30);
    assert_false(world_has(w, world_file(second, ".log.swap")));
    assert_false(world_has(w, world_file(0, ".log.cleaned")));
    world_check_readable(w, 0, 30);
    world_check_untouched(w);
}

/* --- indexes --- */

struct lost_index {
    const char *suffix;
    bool is_clean;
    int at; /* segment; -1 the last */
};

static const struct lost_index lost_indexes[] = {
    {".index", false, 0}, {".timeindex", false, 0}, {".index", true, 0}, {".timeindex", true, 0},
    {".index", true, -1}, {".timeindex", true, -1}, {".index", true, 1}, {".timeindex", false, 1},
};

/* A missing index is rebuilt with the reason in the metrics, and equals the one that was lost. */
static void test_missing_index_is_rebuilt(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 30);
    for (size_t i = 0; i < STELE_ARRAY_LEN(lost_indexes); i++) {
        const struct lost_index *lost = &lost_indexes[i];
        int64_t base_offset = lost->at < 0 ? world_last_base(w) : world_base(w, lost->at);
        struct path path = world_file(base_offset, lost->suffix), kept = world_path("kept");
        int64_t rebuilds = w->test.metrics.log_index_rebuilds;
        uint8_t *before = NULL, *after = NULL;
        size_t before_count = 0, after_count = 0;
        world_stop(w);
        world_copy(w, path, kept, 0);
        world_delete(w, path);
        w->open.was_clean = lost->is_clean;
        world_open(w);
        assert_int_equal(w->report.indexes_rebuilt, 1);
        assert_int_equal(w->test.metrics.log_index_rebuilds, rebuilds + 1);
        world_check_readable(w, 0, 30);
        world_stop(w);
        assert_ok(stele_vfs_read_whole(world_vfs(w), w->test.env.mem, STELE_MEM_TOOL, kept.text, 1 << 20, &before,
                                       &before_count));
        assert_ok(stele_vfs_read_whole(world_vfs(w), w->test.env.mem, STELE_MEM_TOOL, path.text, 1 << 20, &after,
                                       &after_count));
        assert_int_equal(before_count, after_count);
        assert_memory_equal(before, after, before_count);
        stele_mem_free(w->test.env.mem, before);
        stele_mem_free(w->test.env.mem, after);
        world_delete(w, kept);
        world_open(w);
        world_check_untouched(w);
        assert_int_equal(w->report.segments_scanned, 0);
    }
}

struct bad_index {
    const char *what, *suffix;
    int64_t bytes;   /* the file is cut or grown to; -1 not */
    int64_t flip_at; /* from its end; 0 not */
};

/* Of a log of one segment and [0, 5): two entries in each index. */
static const struct bad_index bad_indexes[] = {
    {"a wrong position", ".index", -1, 1},
    {"a position behind the end", ".index", -1, 3},
    {"a wrong offset", ".index", -1, 5},
    {"an offset far away", ".index", -1, 8},
    {"a wrong time", ".timeindex", -1, 5},
    {"a time far away", ".timeindex", -1, 11},
    {"the offset of another time", ".timeindex", -1, 1},
    {"an emptied time index", ".timeindex", 0, 0},
    {"a cut time index", ".timeindex", 12, 0},
};

/* The indexes of the last segment after a clean stop are compared with the log: wrong ones are rebuilt, and history
 * says so. */
static void test_wrong_index_of_the_last_segment_is_rebuilt(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 5);
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad_indexes); i++) {
        const struct bad_index *bad = &bad_indexes[i];
        struct path path = world_file(0, bad->suffix);
        int rebuilds = world_history(w, STELE_HISTORY_REBUILD, STELE_REASON_INDEX_WRONG);
        world_stop(w);
        assert_int_equal(world_size(w, world_file(0, ".index")), 16);
        assert_int_equal(world_size(w, world_file(0, ".timeindex")), 24);
        if (bad->bytes >= 0)
            world_resize(w, path, bad->bytes);
        if (bad->flip_at > 0)
            world_flip(w, path, world_size(w, path) - bad->flip_at);
        world_open(w);
        if (world_history(w, STELE_HISTORY_REBUILD, STELE_REASON_INDEX_WRONG) != rebuilds + 1)
            fail_msg("%s was not found", bad->what);
        world_check_readable(w, 0, 5);
    }
}

/* Aborted transactions of a segment whose transaction index went with an interrupted deletion are found again. */
static void test_lost_transaction_index_is_rebuilt(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    world_append_txn(w, 7, 0);
    world_append_abort(w, 7);
    world_append(w, 30, 0);
    assert_ok(stele_log_flush(w->log));
    world_stop(w);
    assert_ok(world_vfs(w)->ops->rename(world_vfs(w), world_file(0, ".txnindex").text,
                                        world_file(0, ".txnindex.deleted").text));
    world_reopen(w, 32, 32);
    struct stele_txn_index *txns = &stele_log_segment(w->log, 0)->txns;
    assert_ok(stele_txn_index_load(txns));
    assert_int_equal(txns->count, 1);
    assert_int_equal(txns->entries[0].producer_id, 7);
    assert_int_equal(txns->entries[0].first_offset, 0);
    assert_int_equal(txns->entries[0].last_offset, 1);
    assert_false(world_has(w, world_file(0, ".txnindex.deleted")));
}

/* A transaction index that does not parse is rebuilt. */
static void test_corrupt_transaction_index_is_rebuilt(void **state)
{
    struct log_world *w = *state;
    world_open(w);
    world_append_txn(w, 7, 0);
    world_append_abort(w, 7);
    world_append(w, 30, 0);
    world_stop(w);
    world_flip(w, world_file(0, ".txnindex"), 0);
    world_open(w);
    assert_int_equal(w->report.indexes_rebuilt, 1);
    struct stele_txn_index *txns = &stele_log_segment(w->log, 0)->txns;
    assert_ok(stele_txn_index_load(txns));
    assert_int_equal(txns->count, 1);
}

/* Indexes that were not cut to size, as a crash leaves preallocated ones, end in zeros: these are no entries, least of
 * all of time 0, which would let retention take the segment at once. */
static void test_zeros_at_the_end_of_indexes_are_no_entries(void **state)
{
    struct log_world *w = *state;
    static const uint8_t zeros[960];
    world_fill(w, 24);
    int64_t last = world_last_base(w);
    world_stop(w);
    for (int64_t base_offset = 0; base_offset <= last; base_offset += 7) {
        world_write(w, world_file(base_offset, ".index"), zeros, sizeof(zeros),
                    world_size(w, world_file(base_offset, ".index")));
        world_write(w, world_file(base_offset, ".timeindex"), zeros, sizeof(zeros),
                    world_size(w, world_file(base_offset, ".timeindex")));
    }
    world_open(w);
    world_check_untouched(w);
    for (int i = 0; i < stele_log_segment_count(w->log); i++) {
        int64_t end = i + 1 < stele_log_segment_count(w->log) ? world_base(w, i + 1) : 24, largest = 0;
        assert_ok(stele_segment_largest_timestamp(stele_log_segment(w->log, i), &largest));
        assert_int_equal(largest, WORLD_TIME + end - 1);
    }
    world_append(w, 20, 0);
    world_check_readable(w, 0, 44);
    assert_int_equal(w->test.metrics.log_index_rebuilds, 0);
}

/* The last segment is filled to its settings after a start too, whatever its indexes were cut to; an empty one needs no
 * index files, and is not rolled. */
static void test_last_segment_goes_on_after_a_start(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 3);
    world_stop(w);
    world_open(w);
    world_append(w, 4, 0);
    assert_int_equal(stele_log_segment_count(w->log), 1);
    assert_ok(stele_log_roll(w->log, STELE_REASON_SIZE));
    assert_ok(stele_log_roll(w->log, STELE_REASON_SIZE));
    assert_int_equal(stele_log_segment_count(w->log), 2);
    world_stop(w);
    world_delete(w, world_file(7, ".index"));
    world_delete(w, world_file(7, ".timeindex"));
    world_open(w);
    assert_int_equal(w->report.bytes_cut, 0);
    assert_int_equal(w->report.segments_deleted, 0);
    world_append(w, 7, 0);
    assert_int_equal(stele_log_segment_count(w->log), 2);
    world_check_readable(w, 0, 14);
}

/* An early segment that is read again for its index costs no other segment its snapshot. */
static void test_rebuilding_one_index_keeps_all_snapshots(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 24);
    world_stop(w);
    world_delete(w, world_file(0, ".index"));
    world_open(w);
    assert_int_equal(w->report.indexes_rebuilt, 1);
    assert_int_equal(w->report.segments_scanned, 1);
    for (int64_t base_offset = 7; base_offset <= 21; base_offset += 7)
        assert_true(world_has(w, world_file(base_offset, ".snapshot")));
    assert_true(world_has(w, world_file(24, ".snapshot")));
}

/* The renames of a swap may have stopped after the logs: index files are brought to their names alone. */
static void test_rest_of_a_swap_is_finished(void **state)
{
    struct log_world *w = *state;
    world_fill(w, 16);
    world_stop(w);
    assert_ok(world_vfs(w)->ops->rename(world_vfs(w), world_file(0, ".timeindex").text,
                                        world_file(0, ".timeindex.swap").text));
    assert_ok(world_vfs(w)->ops->rename(world_vfs(w), world_file(0, ".index").text, world_file(0, ".index.swap").text));
    world_open(w);
    world_check_untouched(w);
    assert_true(world_has_only_known_names(w));
    world_check_readable(w, 0, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_leftovers_go_and_foreign_files_stay, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_complete_swap_is_finished, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_incomplete_swap_is_given_up, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_missing_index_is_rebuilt, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_index_of_the_last_segment_is_rebuilt, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_lost_transaction_index_is_rebuilt, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_corrupt_transaction_index_is_rebuilt, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_zeros_at_the_end_of_indexes_are_no_entries, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_last_segment_goes_on_after_a_start, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_rebuilding_one_index_keeps_all_snapshots, world_set_up, world_tear_down),
        cmocka_unit_test_setup_teardown(test_rest_of_a_swap_is_finished, world_set_up, world_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
