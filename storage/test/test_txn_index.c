#include "storage/test/memory_vfs.h"
#include "storage/txn_index.h"

#include <string.h>

static const char path[] = "d/00000000000000000100.txnindex";
static const char golden[] = "00000000000000001092000000000000006400000000000000670000000000000068";
enum { BASE = 100 };

struct world {
    struct memory_vfs memory;
    struct stele_test_env test;
};

static int setup(void **state)
{
    static struct world world; /* large; one test at a time */
    memory_vfs_init(&world.memory);
    stele_test_env_init(&world.test, &world.memory.vfs);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    stele_test_mem_check_empty(&world->test.mem);
    memory_vfs_deinit(&world->memory);
    return 0;
}

static struct stele_aborted_txn txn_of(int i)
{
    return (struct stele_aborted_txn){.producer_id = 4242 + i,
                                      .first_offset = BASE + 4 * i,
                                      .last_offset = BASE + 4 * i + 3,
                                      .last_stable_offset = BASE + 4 * i + 4};
}

static void check_entries(struct stele_txn_index *index, int count)
{
    assert_ok(stele_txn_index_load(index));
    assert_int_equal(index->count, count);
    for (int i = 0; i < count; i++) {
        struct stele_aborted_txn want = txn_of(i);
        assert_int_equal(index->entries[i].producer_id, want.producer_id);
        assert_int_equal(index->entries[i].first_offset, want.first_offset);
        assert_int_equal(index->entries[i].last_offset, want.last_offset);
        assert_int_equal(index->entries[i].last_stable_offset, want.last_stable_offset);
    }
}

static enum stele_err init(struct world *world, struct stele_txn_index *index, bool exists)
{
    return stele_txn_index_init(index, &world->test.env, NULL, path, BASE, exists);
}

/* One entry is the golden vector byte for byte, both ways. */
static void golden_vector(void **state)
{
    struct world *world = *state;
    struct stele_txn_index index;
    struct stele_aborted_txn txn = txn_of(0), read;
    uint8_t bytes[STELE_TXN_ENTRY_BYTES];
    size_t count = 0;
    assert_int_equal(stele_test_hex(golden, bytes, sizeof(bytes)), sizeof(bytes));
    assert_ok(init(world, &index, false));
    assert_ok(stele_txn_index_append(&index, &txn));
    assert_memory_equal(memory_vfs_bytes(&world->memory, path, &count), bytes, sizeof(bytes));
    assert_int_equal(count, sizeof(bytes));
    assert_ok(stele_aborted_txn_read(bytes, &read));
    assert_memory_equal(&read, &txn, sizeof(txn));
    bytes[1] = 1;
    assert_int_equal(stele_aborted_txn_read(bytes, &read), STELE_CORRUPT);
    stele_txn_index_close(&index);
}

/* The file appears with the first abort only, and what was appended is read after a restart. */
static void entries_survive_a_restart(void **state)
{
    struct world *world = *state;
    struct stele_txn_index index;
    assert_ok(init(world, &index, false));
    check_entries(&index, 0);
    assert_false(memory_vfs_exists(&world->memory, path));
    for (int i = 0; i < 20; i++) {
        struct stele_aborted_txn txn = txn_of(i);
        assert_ok(stele_txn_index_append(&index, &txn));
        assert_int_equal(stele_txn_index_append(&index, &txn), STELE_INVALID_ARGUMENT); /* not after itself */
        check_entries(&index, i + 1);
    }
    stele_txn_index_close(&index);
    assert_ok(init(world, &index, true));
    check_entries(&index, 20);
    stele_txn_index_close(&index);
}

/* A cut at any offset keeps the entries whose marker lies below it, in the file too. */
static void truncate_keeps_what_is_below(void **state)
{
    enum { COUNT = 6 };
    struct world *world = *state;
    for (int64_t offset = BASE; offset <= BASE + 4 * COUNT + 1; offset++) {
        struct stele_txn_index index;
        struct stele_aborted_txn next = txn_of(COUNT);
        int want = 0;
        memory_vfs_remove(&world->memory, path);
        assert_ok(init(world, &index, false));
        for (int i = 0; i < COUNT; i++) {
            struct stele_aborted_txn txn = txn_of(i);
            assert_ok(stele_txn_index_append(&index, &txn));
            want += txn.last_offset < offset ? 1 : 0;
        }
        assert_ok(stele_txn_index_truncate(&index, offset));
        check_entries(&index, want);
        stele_txn_index_close(&index);
        assert_ok(init(world, &index, true));
        check_entries(&index, want);
        assert_ok(stele_txn_index_append(&index, &next));
        assert_int_equal(index.count, want + 1);
        stele_txn_index_close(&index);
    }
}

/* A cut of a transaction index without a file does nothing. */
static void truncate_without_a_file(void **state)
{
    struct world *world = *state;
    struct stele_txn_index index;
    assert_ok(init(world, &index, false));
    assert_ok(stele_txn_index_truncate(&index, 0));
    stele_txn_index_close(&index);
    assert_ok(init(world, &index, true)); /* it was there when the segment was opened, and is gone */
    check_entries(&index, 0);
    stele_txn_index_close(&index);
    assert_false(memory_vfs_exists(&world->memory, path));
}

/* Part of an entry at the end is ignored, and the next append takes its place. */
static void a_partial_entry_is_ignored(void **state)
{
    struct world *world = *state;
    uint8_t bytes[2 * STELE_TXN_ENTRY_BYTES] = {0};
    struct stele_aborted_txn first = txn_of(0), second = txn_of(1);
    stele_aborted_txn_write(&first, bytes);
    for (size_t extra = 0; extra < STELE_TXN_ENTRY_BYTES; extra++) {
        struct stele_txn_index index;
        memset(bytes + STELE_TXN_ENTRY_BYTES, 0xee, STELE_TXN_ENTRY_BYTES);
        memory_vfs_put(&world->memory, path, bytes, STELE_TXN_ENTRY_BYTES + extra);
        assert_ok(init(world, &index, true));
        check_entries(&index, 1);
        assert_ok(stele_txn_index_append(&index, &second));
        stele_txn_index_close(&index);
        assert_ok(init(world, &index, true));
        check_entries(&index, 2);
        stele_txn_index_close(&index);
    }
}

/* Entries that no writer writes are refused as a whole, and the index stays unloaded. */
static void damage_is_refused(void **state)
{
    static const struct {
        struct stele_aborted_txn first, second;
        uint8_t version;
    } cases[] = {
        {{1, 100, 103, 104}, {2, 104, 107, 108}, 1},  /* version */
        {{1, 100, 103, 104}, {2, 100, 103, 104}, 0},  /* the same marker twice */
        {{1, 100, 107, 108}, {2, 100, 103, 104}, 0},  /* falling */
        {{1, 90, 99, 104}, {2, 104, 107, 108}, 0},    /* marker below the segment */
        {{1, 104, 103, 104}, {2, 104, 107, 108}, 0},  /* ends before it begins */
        {{1, 100, 103, 104}, {2, 108, -107, 108}, 0}, /* negative */
    };
    struct world *world = *state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_txn_index index;
        uint8_t bytes[2 * STELE_TXN_ENTRY_BYTES];
        stele_aborted_txn_write(&cases[i].first, bytes);
        stele_aborted_txn_write(&cases[i].second, bytes + STELE_TXN_ENTRY_BYTES);
        bytes[STELE_TXN_ENTRY_BYTES + 1] = cases[i].version;
        memory_vfs_put(&world->memory, path, bytes, sizeof(bytes));
        assert_ok(init(world, &index, true));
        assert_int_equal(stele_txn_index_load(&index), STELE_CORRUPT);
        assert_int_equal(index.count, 0);
        assert_false(index.is_loaded);
        stele_txn_index_close(&index);
    }
}

/* On a full disk entries wait in memory, are counted, cut and read there, and reach the file once there is room. */
static void full_disk_keeps_entries_waiting(void **state)
{
    struct world *world = *state;
    struct stele_txn_index index;
    memory_vfs_remove(&world->memory, path);
    assert_ok(init(world, &index, false));
    for (int i = 0; i < 6; i++) {
        struct stele_aborted_txn txn = txn_of(i);
        if (i == 2) {
            assert_ok(stele_txn_index_reserve(&index, 1));
            world->memory.is_full = true;
        }
        assert_ok(stele_txn_index_append(&index, &txn));
    }
    check_entries(&index, 6);
    assert_int_equal(stele_txn_index_write(&index), STELE_NO_SPACE);
    assert_ok(stele_txn_index_truncate(&index, txn_of(4).last_offset));
    check_entries(&index, 4);
    world->memory.is_full = false;
    assert_ok(stele_txn_index_write(&index));
    stele_txn_index_close(&index);
    assert_ok(init(world, &index, true));
    check_entries(&index, 4);
    stele_txn_index_close(&index);

    /* Cut below what is in the file: nothing waits any more. */
    assert_ok(init(world, &index, true));
    assert_ok(stele_txn_index_load(&index));
    world->memory.is_full = true;
    struct stele_aborted_txn txn = txn_of(4);
    assert_ok(stele_txn_index_append(&index, &txn));
    world->memory.is_full = false;
    assert_ok(stele_txn_index_truncate(&index, txn_of(1).last_offset));
    assert_ok(stele_txn_index_write(&index));
    stele_txn_index_close(&index);
    assert_ok(init(world, &index, true));
    check_entries(&index, 1);
    stele_txn_index_close(&index);
}

/* Whichever allocation or file call fails, the entries acknowledged are there and the next append works. */
static void every_call_may_fail(void **state)
{
    struct world *world = *state;
    for (int kind = 0; kind < 3; kind++) {
        bool has_failed = true;
        for (int64_t at = 1; has_failed; at++) {
            struct stele_txn_index index = {0};
            int done = 0;
            memory_vfs_remove(&world->memory, path);
            world->memory.piece_bytes = kind == 2 ? 5 : 0;
            stele_test_mem_fail(&world->test.mem, kind == 0 ? at : 0, false);
            memory_vfs_fail(&world->memory, kind > 0 ? at : 0, kind == 1 ? STELE_NO_SPACE : STELE_IO, false);
            enum stele_err err = init(world, &index, false);
            while (done < 9 && err == STELE_OK) {
                struct stele_aborted_txn txn = txn_of(done);
                err = stele_txn_index_append(&index, &txn);
                done += err == STELE_OK ? 1 : 0;
            }
            if (err == STELE_OK)
                err = stele_txn_index_truncate(&index, txn_of(5).last_offset);
            done = err == STELE_OK ? 5 : done;
            if (err == STELE_OK)
                err = stele_txn_index_write(&index);
            stele_txn_index_close(&index);
            if (err == STELE_OK)
                err = init(world, &index, true);
            if (err == STELE_OK)
                err = stele_txn_index_load(&index);
            has_failed = world->test.mem.has_failed || world->memory.has_failed;
            /* An entry that finds no room waits in memory. */
            assert_true(err == STELE_OK ? !has_failed || kind == 1 : has_failed);
            stele_txn_index_close(&index);
            stele_test_mem_fail(&world->test.mem, 0, false);
            memory_vfs_fail(&world->memory, 0, STELE_OK, false);
            if (memory_vfs_exists(&world->memory, path)) {
                struct stele_aborted_txn next = txn_of(done);
                assert_ok(init(world, &index, true));
                check_entries(&index, done);
                assert_ok(stele_txn_index_append(&index, &next));
                check_entries(&index, done + 1);
                stele_txn_index_close(&index);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden_vector, setup, teardown),
        cmocka_unit_test_setup_teardown(entries_survive_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(truncate_keeps_what_is_below, setup, teardown),
        cmocka_unit_test_setup_teardown(truncate_without_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(a_partial_entry_is_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk_keeps_entries_waiting, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests_name("txn_index", tests, NULL, NULL);
}
