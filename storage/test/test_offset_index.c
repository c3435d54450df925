/* Offset index, time index and the store behind them. */
#include "storage/file_cache.h"
#include "storage/test/memory_vfs.h"
#include "storage/time_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char offset_path[] = "d/00000000000000000100.index";
static const char time_path[] = "d/00000000000000000100.timeindex";
enum { BASE = 100, INDEX_BYTES = 10485760 };

struct world {
    struct memory_vfs memory;
    struct stele_test_env test;
    struct stele_file_cache *cache;
};

static int setup(void **state)
{
    static struct world world; /* large; one test at a time */
    memory_vfs_init(&world.memory);
    stele_test_env_init(&world.test, &world.memory.vfs);
    world.cache = stele_file_cache_new(&world.test.env, 8, 1 << 20);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    stele_file_cache_free(world->cache);
    stele_test_mem_check_empty(&world->test.mem);
    memory_vfs_deinit(&world->memory);
    return 0;
}

static enum stele_err create(struct world *world, struct stele_index *index, bool is_time)
{
    return stele_index_create(index, &world->test.env, world->cache, is_time ? time_path : offset_path, BASE,
                              is_time ? STELE_TIME_ENTRY_BYTES : STELE_OFFSET_ENTRY_BYTES, INDEX_BYTES);
}

static enum stele_err open_sealed(struct world *world, struct stele_index *index, bool is_time)
{
    return stele_index_open(index, &world->test.env, world->cache, is_time ? time_path : offset_path, BASE,
                            is_time ? STELE_TIME_ENTRY_BYTES : STELE_OFFSET_ENTRY_BYTES, INDEX_BYTES);
}

static void check_file(struct world *world, const char *path, const char *hex)
{
    uint8_t want[256];
    size_t want_count = stele_test_hex(hex, want, sizeof(want)), count = 0;
    const uint8_t *bytes = memory_vfs_bytes(&world->memory, path, &count);
    assert_non_null(bytes);
    assert_int_equal(count, want_count);
    assert_memory_equal(bytes, want, count);
}

/* One entry of each index is the golden vector byte for byte, and reads back. */
static void golden_vectors(void **state)
{
    struct world *world = *state;
    struct stele_index offsets, times;
    struct stele_offset_entry offset;
    struct stele_time_entry time;
    assert_ok(create(world, &offsets, false));
    assert_ok(create(world, &times, true));
    assert_ok(stele_offset_index_append(&offsets, 102, 4096));
    assert_ok(stele_time_index_append(&times, 1700000000300, 102, false));
    assert_ok(stele_index_seal(&offsets));
    assert_ok(stele_index_seal(&times));
    check_file(world, offset_path, "0000000200001000");
    check_file(world, time_path, "0000018bcfe5692c00000002");
    assert_ok(stele_offset_index_entry(&offsets, 0, &offset));
    assert_int_equal(offset.offset, 102);
    assert_int_equal(offset.pos, 4096);
    assert_ok(stele_time_index_entry(&times, 0, &time));
    assert_int_equal(time.timestamp, 1700000000300);
    assert_int_equal(time.offset, 102);
    assert_int_equal(stele_time_index_entry(&times, 1, &time), STELE_END);
    stele_index_close(&offsets);
    stele_index_close(&times);
}

/* Entry i of the models: offset BASE + 3 + 5 i at position 7 + 11 i, time 1000 + 4 i. */
static int64_t offset_of(int64_t i)
{
    return BASE + 3 + 5 * i;
}

static void fill(struct stele_index *index, int64_t count, bool is_time)
{
    for (int64_t i = 0; i < count; i++) {
        if (is_time)
            assert_ok(stele_time_index_append(index, 1000 + 4 * i, offset_of(i), false));
        else
            assert_ok(stele_offset_index_append(index, offset_of(i), 7 + 11 * i));
    }
}

static int64_t compares_max(int64_t count)
{
    int64_t compares = 2;
    while (count > 0) {
        compares++;
        count /= 2;
    }
    return compares;
}

static void check_offset_lookup(struct stele_index *index, int64_t offset, int64_t count)
{
    struct stele_offset_entry entry;
    int64_t compared = 0, at = (offset - offset_of(0)) / 5;
    at = offset < offset_of(0) ? -1 : at >= count ? count - 1 : at;
    assert_ok(stele_offset_index_lookup(index, offset, &entry, &compared));
    assert_int_equal(entry.offset, at < 0 ? BASE : offset_of(at));
    assert_int_equal(entry.pos, at < 0 ? 0 : 7 + 11 * at);
    assert_true(compared <= compares_max(count));
}

static void check_time_lookup(struct stele_index *index, int64_t timestamp, int64_t count)
{
    struct stele_time_entry entry;
    int64_t at = timestamp < 1000 ? -1 : (timestamp - 1000) / 4;
    at = at >= count ? count - 1 : at;
    assert_ok(stele_time_index_lookup(index, timestamp, &entry));
    assert_int_equal(entry.timestamp, at < 0 ? -1 : 1000 + 4 * at);
    assert_int_equal(entry.offset, at < 0 ? BASE : offset_of(at));
}

/* Entry counts around the warm section's size, where a wrong split shows. */
static const int64_t counts[] = {0,    1,    2,    3,    681,  682,  683,  684,  1023, 1024,
                                 1025, 1026, 1027, 1365, 1366, 2047, 2048, 2049, 5000};

/* A lookup of every offset, active and sealed, equals the plain lower bound and compares O(log n) entries. */
static void offset_lookup_equals_a_lower_bound(void **state)
{
    struct world *world = *state;
    for (size_t c = 0; c < STELE_ARRAY_LEN(counts); c++) {
        struct stele_index index;
        int64_t count = counts[c];
        assert_ok(create(world, &index, false));
        fill(&index, count, false);
        for (int sealed = 0; sealed < 2; sealed++) {
            for (int64_t offset = BASE; offset <= offset_of(count) + 1; offset++)
                check_offset_lookup(&index, offset, count);
            check_offset_lookup(&index, INT64_MAX, count);
            assert_ok(stele_index_seal(&index));
        }
        stele_index_close(&index);
        memory_vfs_remove(&world->memory, offset_path);
    }
}

/* The same for times. */
static void time_lookup_equals_a_lower_bound(void **state)
{
    struct world *world = *state;
    for (size_t c = 0; c < STELE_ARRAY_LEN(counts); c++) {
        struct stele_index index;
        int64_t count = counts[c];
        assert_ok(create(world, &index, true));
        fill(&index, count, true);
        for (int sealed = 0; sealed < 2; sealed++) {
            for (int64_t timestamp = 998; timestamp <= 1000 + 4 * count + 1; timestamp++)
                check_time_lookup(&index, timestamp, count);
            check_time_lookup(&index, INT64_MAX, count);
            check_time_lookup(&index, INT64_MIN, count);
            assert_ok(stele_index_seal(&index));
        }
        stele_index_close(&index);
        memory_vfs_remove(&world->memory, time_path);
    }
}

/* The first entry at or after a position, for every position. */
static void at_pos_finds_the_first_entry_after(void **state)
{
    enum { COUNT = 300 };
    struct world *world = *state;
    struct stele_index index;
    struct stele_offset_entry entry;
    assert_ok(create(world, &index, false));
    assert_int_equal(stele_offset_index_at_pos(&index, 0, &entry), STELE_END);
    fill(&index, COUNT, false);
    for (int64_t pos = 0; pos <= 7 + 11 * COUNT; pos++) {
        int64_t at = pos <= 7 ? 0 : (pos - 7 + 10) / 11;
        if (at >= COUNT) {
            assert_int_equal(stele_offset_index_at_pos(&index, pos, &entry), STELE_END);
            continue;
        }
        assert_ok(stele_offset_index_at_pos(&index, pos, &entry));
        assert_int_equal(entry.pos, 7 + 11 * at);
        assert_int_equal(entry.offset, offset_of(at));
    }
    stele_index_close(&index);
}

static void check_count(struct stele_index *index, int64_t want)
{
    int64_t count = -1;
    assert_ok(stele_index_count(index, &count));
    assert_int_equal(count, want);
}

/* A cut at any offset keeps exactly the entries below it, in memory, in the file after a flush, and when appends go on.
 */
static void truncate_keeps_what_is_below(void **state)
{
    enum { COUNT = 40 };
    struct world *world = *state;
    for (int is_time = 0; is_time < 2; is_time++) {
        for (int64_t offset = BASE; offset <= offset_of(COUNT) + 1; offset++) {
            struct stele_index index;
            int64_t want = offset <= offset_of(0) ? 0 : (offset - offset_of(0) + 4) / 5;
            want = want > COUNT ? COUNT : want;
            assert_ok(create(world, &index, is_time == 1));
            fill(&index, COUNT, is_time == 1);
            assert_ok(offset % 2 == 0 ? stele_index_write(&index) : stele_index_seal(&index));
            assert_ok(is_time == 1 ? stele_time_index_truncate(&index, offset)
                                   : stele_offset_index_truncate(&index, offset));
            check_count(&index, want);
            assert_ok(stele_index_write(&index));
            stele_index_close(&index);
            assert_ok(open_sealed(world, &index, is_time == 1));
            check_count(&index, want);
            assert_ok(stele_index_activate(&index));
            assert_ok(is_time == 1 ? stele_time_index_append(&index, 900000, 900000, true)
                                   : stele_offset_index_append(&index, 900000, 900000));
            assert_ok(stele_index_seal(&index));
            check_count(&index, want + 1);
            stele_index_close(&index);
            memory_vfs_remove(&world->memory, is_time == 1 ? time_path : offset_path);
        }
    }
}

/* What preallocation or a crash left at the end is no entry: whole zeros, a part of an entry, or both. */
static void trailing_zeros_are_no_entries(void **state)
{
    static const size_t pads[] = {0, 1, 7, 8, 11, 12, 24, 1000, 65536, 2097152};
    struct world *world = *state;
    for (int is_time = 0; is_time < 2; is_time++) {
        const char *path = is_time == 1 ? time_path : offset_path;
        for (int64_t count = 0; count < 4; count++) {
            for (size_t p = 0; p < STELE_ARRAY_LEN(pads); p++) {
                struct stele_index index;
                size_t bytes = 0;
                assert_ok(create(world, &index, is_time == 1));
                fill(&index, count, is_time == 1);
                assert_ok(stele_index_seal(&index));
                stele_index_close(&index);
                const uint8_t *written = memory_vfs_bytes(&world->memory, path, &bytes);
                uint8_t *padded = calloc(1, bytes + pads[p] + 1);
                memcpy(padded, written, bytes);
                memory_vfs_put(&world->memory, path, padded, bytes + pads[p]);
                free(padded);
                assert_ok(open_sealed(world, &index, is_time == 1));
                check_count(&index, count);
                assert_ok(stele_index_activate(&index));
                assert_ok(stele_index_seal(&index));
                stele_index_close(&index);
                (void)memory_vfs_bytes(&world->memory, path, &bytes);
                assert_int_equal(bytes, (size_t)count * (is_time == 1 ? 12 : 8)); /* and sealing drops it */
                memory_vfs_remove(&world->memory, path);
            }
        }
    }
}

/* A missing file is an empty index, also to be written later. */
static void a_missing_file_is_empty(void **state)
{
    struct world *world = *state;
    struct stele_index index;
    assert_ok(open_sealed(world, &index, false));
    check_count(&index, 0);
    assert_ok(stele_index_activate(&index));
    fill(&index, 2, false);
    assert_ok(stele_index_seal(&index));
    check_count(&index, 2);
    stele_index_close(&index);
    assert_true(memory_vfs_exists(&world->memory, offset_path));
}

/* An empty index becomes a file of 0 bytes and nothing is mapped. */
static void an_empty_index_is_an_empty_file(void **state)
{
    struct world *world = *state;
    struct stele_index index;
    assert_ok(create(world, &index, true));
    assert_false(memory_vfs_exists(&world->memory, time_path));
    assert_ok(stele_index_seal(&index));
    check_file(world, time_path, "");
    check_count(&index, 0);
    assert_int_equal(world->memory.map_bytes_most, 0);
    stele_index_close(&index);
}

/* Maps of sealed indexes stay within their budget, the oldest go first, and every answer stays right. */
static void maps_stay_within_the_budget(void **state)
{
    enum { INDEXES = 50, ENTRIES = 600, MAPS = 10, BUDGET = MAPS * 8192 + 5000 };
    struct world *world = *state;
    struct stele_index indexes[INDEXES];
    struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, 4, BUDGET);
    char path[64];
    for (int i = 0; i < INDEXES; i++) {
        (void)snprintf(path, sizeof(path), "d/%020d.index", i);
        assert_ok(stele_index_create(&indexes[i], &world->test.env, cache, path, BASE, STELE_OFFSET_ENTRY_BYTES,
                                     INDEX_BYTES));
        fill(&indexes[i], ENTRIES, false);
        assert_ok(stele_index_seal(&indexes[i]));
    }
    for (int round = 0; round < 1000; round++) {
        int at = (int)stele_prng_below(&world->test.prng, INDEXES);
        check_offset_lookup(&indexes[at], BASE + stele_prng_range(&world->test.prng, 0, 5 * ENTRIES + 9), ENTRIES);
        assert_true(world->memory.map_count <= MAPS); /* of 4800 bytes, which cost two pages each */
    }
    assert_int_equal(world->memory.map_bytes_most, MAPS * ENTRIES * STELE_OFFSET_ENTRY_BYTES);
    int64_t calls = world->memory.calls;
    check_offset_lookup(&indexes[0], BASE + 50, ENTRIES);
    check_offset_lookup(&indexes[0], BASE + 70, ENTRIES);
    assert_true(world->memory.calls - calls <= 3); /* the second one maps nothing */
    for (int i = 0; i < INDEXES; i++)
        stele_index_close(&indexes[i]);
    stele_file_cache_free(cache);
}

/* What may not be appended is refused and changes nothing. */
static void appends_that_are_refused(void **state)
{
    static const struct {
        int64_t offset, pos;
        enum stele_err err;
    } offset_cases[] = {
        {BASE + 10, 500, STELE_OK},
        {BASE + 10, 600, STELE_INVALID_ARGUMENT},
        {BASE + 9, 600, STELE_INVALID_ARGUMENT},
        {BASE - 1, 600, STELE_INVALID_ARGUMENT},
        {BASE + 11, -1, STELE_INVALID_ARGUMENT},
        {BASE + 11, (int64_t)INT32_MAX + 1, STELE_INVALID_ARGUMENT},
        {BASE + (int64_t)INT32_MAX + 1, 600, STELE_INVALID_ARGUMENT},
        {BASE + (int64_t)INT32_MAX, INT32_MAX, STELE_OK},
    };
    static const struct {
        int64_t timestamp, offset, count;
        enum stele_err err;
    } time_cases[] = {
        {-1, BASE, 0, STELE_OK},
        {1000, BASE + 10, 1, STELE_OK},
        {1000, BASE + 20, 1, STELE_OK},
        {999, BASE + 20, 1, STELE_INVALID_ARGUMENT},
        {1001, BASE + 9, 1, STELE_INVALID_ARGUMENT},
        {1001, BASE + (int64_t)INT32_MAX + 1, 1, STELE_INVALID_ARGUMENT},
        {1001, BASE + 10, 2, STELE_OK},
    };
    struct world *world = *state;
    struct stele_index index;
    int64_t count = 0;
    assert_ok(create(world, &index, false));
    for (size_t i = 0; i < STELE_ARRAY_LEN(offset_cases); i++) {
        assert_int_equal(stele_offset_index_append(&index, offset_cases[i].offset, offset_cases[i].pos),
                         offset_cases[i].err);
        count += offset_cases[i].err == STELE_OK ? 1 : 0;
        check_count(&index, count);
    }
    stele_index_close(&index);
    assert_ok(create(world, &index, true));
    for (size_t i = 0; i < STELE_ARRAY_LEN(time_cases); i++) {
        assert_int_equal(stele_time_index_append(&index, time_cases[i].timestamp, time_cases[i].offset, false),
                         time_cases[i].err);
        check_count(&index, time_cases[i].count);
    }
    stele_index_close(&index);
}

/* The offset index is full at its capacity; the time index keeps one slot for the closing entry. */
static void the_last_time_slot_is_for_closing(void **state)
{
    struct world *world = *state;
    struct stele_index index;
    assert_ok(stele_index_create(&index, &world->test.env, world->cache, offset_path, BASE, STELE_OFFSET_ENTRY_BYTES,
                                 3 * STELE_OFFSET_ENTRY_BYTES + 7));
    for (int i = 0; i < 3; i++) {
        assert_false(stele_offset_index_is_full(&index));
        assert_ok(stele_offset_index_append(&index, offset_of(i), 7 + i));
    }
    assert_true(stele_offset_index_is_full(&index));
    stele_index_close(&index);
    assert_ok(stele_index_create(&index, &world->test.env, world->cache, time_path, BASE, STELE_TIME_ENTRY_BYTES,
                                 3 * STELE_TIME_ENTRY_BYTES));
    for (int i = 0; i < 2; i++) {
        assert_false(stele_time_index_is_full(&index));
        assert_ok(stele_time_index_append(&index, 10 + i, offset_of(i), false));
    }
    assert_true(stele_time_index_is_full(&index));
    assert_int_equal(stele_time_index_append(&index, 20, offset_of(5), false), STELE_INVALID_ARGUMENT);
    assert_ok(stele_time_index_append(&index, 20, offset_of(5), true));
    check_count(&index, 3);
    stele_index_close(&index);
    /* Less than one entry: always full. */
    assert_ok(
        stele_index_create(&index, &world->test.env, world->cache, offset_path, BASE, STELE_OFFSET_ENTRY_BYTES, 4));
    assert_true(stele_offset_index_is_full(&index));
    stele_index_close(&index);
}

/* Bytes that no writer wrote never make a lookup fail, and give no negative numbers. */
static void damaged_entries_stay_numbers(void **state)
{
    enum { ENTRIES = 64 };
    struct world *world = *state;
    uint8_t bytes[ENTRIES * STELE_TIME_ENTRY_BYTES];
    for (int round = 0; round < 200; round++) {
        struct stele_index index;
        struct stele_offset_entry offset;
        struct stele_time_entry time;
        int64_t compared = 0, wanted = (int64_t)(stele_prng_u64(&world->test.prng) >> 1);
        stele_prng_bytes(&world->test.prng, bytes, sizeof(bytes));
        memory_vfs_put(&world->memory, offset_path, bytes, sizeof(bytes));
        memory_vfs_put(&world->memory, time_path, bytes, sizeof(bytes));
        assert_ok(open_sealed(world, &index, false));
        assert_ok(stele_offset_index_lookup(&index, round % 2 == 0 ? wanted : BASE + wanted % 10, &offset, &compared));
        assert_true(offset.offset >= BASE);
        assert_true(offset.pos >= 0);
        stele_index_close(&index);
        assert_ok(open_sealed(world, &index, true));
        assert_ok(stele_time_index_lookup(&index, wanted, &time));
        assert_true(time.offset >= BASE);
        stele_index_close(&index);
    }
}

/* Create, append, flush, cut, seal, look up and open again; the first error ends it. */
static enum stele_err life(struct world *world, struct stele_index *index)
{
    struct stele_offset_entry entry;
    int64_t compared = 0;
    enum stele_err err = create(world, index, false);
    for (int64_t i = 0; i < 100 && err == STELE_OK; i++) {
        err = stele_offset_index_append(index, offset_of(i), 7 + 11 * i);
        if (err == STELE_OK && i == 50)
            err = stele_index_write(index);
    }
    if (err == STELE_OK)
        err = stele_offset_index_truncate(index, offset_of(40));
    if (err == STELE_OK)
        err = stele_index_write(index);
    if (err == STELE_OK)
        err = stele_index_seal(index);
    if (err == STELE_OK)
        err = stele_offset_index_lookup(index, offset_of(39) + 1, &entry, &compared);
    if (err == STELE_OK)
        assert_int_equal(entry.pos, 7 + 11 * 39);
    if (err == STELE_OK)
        err = stele_index_activate(index);
    return err == STELE_OK ? stele_index_seal(index) : err;
}

/* Whichever allocation or file call fails, the entries are as before and the step can be done again. */
static void every_call_may_fail(void **state)
{
    struct world *world = *state;
    for (int kind = 0; kind < 3; kind++) {
        bool has_failed = true;
        for (int64_t at = 1; has_failed; at++) {
            struct stele_index index = {0};
            memory_vfs_remove(&world->memory, offset_path);
            world->memory.piece_bytes = kind == 2 ? 13 : 0;
            stele_test_mem_fail(&world->test.mem, kind == 0 ? at : 0, false);
            memory_vfs_fail(&world->memory, kind > 0 ? at : 0, kind == 1 ? STELE_NO_SPACE : STELE_IO, false);
            enum stele_err err = life(world, &index);
            has_failed = world->test.mem.has_failed || world->memory.has_failed;
            assert_int_equal(err == STELE_OK, !has_failed);
            stele_test_mem_fail(&world->test.mem, 0, false);
            memory_vfs_fail(&world->memory, 0, STELE_OK, false);
            if (index.file != NULL) {
                /* Nothing in memory was lost or made up, and it still can be written. */
                assert_ok(stele_index_activate(&index));
                int64_t count = 0;
                assert_ok(stele_index_count(&index, &count));
                assert_ok(stele_index_seal(&index));
                check_count(&index, count);
                check_offset_lookup(&index, INT64_MAX, count);
            }
            stele_index_close(&index);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden_vectors, setup, teardown),
        cmocka_unit_test_setup_teardown(offset_lookup_equals_a_lower_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(time_lookup_equals_a_lower_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(at_pos_finds_the_first_entry_after, setup, teardown),
        cmocka_unit_test_setup_teardown(truncate_keeps_what_is_below, setup, teardown),
        cmocka_unit_test_setup_teardown(trailing_zeros_are_no_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_file_is_empty, setup, teardown),
        cmocka_unit_test_setup_teardown(an_empty_index_is_an_empty_file, setup, teardown),
        cmocka_unit_test_setup_teardown(maps_stay_within_the_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(appends_that_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_time_slot_is_for_closing, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_entries_stay_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests_name("offset_index", tests, NULL, NULL);
}
