#include "storage/checkpoint.h"
#include "storage/epoch_cache.h"
#include "storage/test/disk_files.h"

#include <stdio.h>
#include <string.h>

#define PATH "/log/" STELE_LEADER_EPOCH_FILE

struct fixture {
    struct stele_test_mem memory;
    struct sim_disk *disk;
    struct stele_epoch_cache cache;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    stele_test_mem_init(&f->memory);
    f->disk = sim_disk_new(1);
    disk_make_dir(f->disk, "/log");
    stele_epoch_cache_init(&f->cache, &f->memory.mem);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    stele_epoch_cache_deinit(&f->cache);
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->memory);
    test_free(f);
    return 0;
}

/* "0@0 2@10" */
static void fill(struct stele_epoch_cache *cache, const char *text)
{
    int epoch, used;
    long long offset;
    stele_epoch_cache_clear(cache);
    for (; sscanf(text, " %d@%lld%n", &epoch, &offset, &used) == 2; text += used) {
        int before = cache->count;
        assert_ok(stele_epoch_cache_assign(cache, epoch, offset));
        assert_int_equal(cache->count, before + 1);
    }
    cache->is_dirty = false;
}

static void assert_content(const struct stele_epoch_cache *cache, const char *want)
{
    char got[512] = "";
    for (int i = 0, used = 0; i < cache->count; i++)
        used += snprintf(got + used, sizeof(got) - (size_t)used, "%s%d@%lld", i == 0 ? "" : " ",
                         cache->entries[i].epoch, (long long)cache->entries[i].start_offset);
    assert_string_equal(got, want);
}

/* assign ignores what it knows and removes from the tail what it contradicts (facts 8.7). */
static void test_assign(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *before;
        int32_t epoch;
        int64_t offset;
        const char *after;
        bool is_dirty;
    } cases[] = {
        {"", 0, 0, "0@0", true},
        {"0@0", 0, 0, "0@0", false},
        {"0@0 3@10", 3, 15, "0@0 3@10", false},
        {"0@0 3@10", 3, 10, "0@0 3@10", false},
        {"0@0 3@10", 4, 20, "0@0 3@10 4@20", true},
        {"0@0 3@10", 4, 10, "0@0 4@10", true},
        {"0@0 3@10", 3, 7, "0@0 3@7", true},
        {"0@0 3@10", 4, 5, "0@0 4@5", true},
        {"0@0 3@10", 2, 20, "0@0 2@20", true},
        {"0@0 3@10", 0, 20, "0@20", true},
        {"0@5 3@10", 7, 0, "7@0", true},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        fill(&f->cache, cases[i].before);
        assert_ok(stele_epoch_cache_assign(&f->cache, cases[i].epoch, cases[i].offset));
        assert_content(&f->cache, cases[i].after);
        assert_int_equal(f->cache.is_dirty, cases[i].is_dirty);
    }
    assert_int_equal(stele_epoch_cache_assign(&f->cache, -1, 0), STELE_INVALID_ARGUMENT);
    assert_int_equal(stele_epoch_cache_assign(&f->cache, 9, -1), STELE_INVALID_ARGUMENT);
    assert_content(&f->cache, "7@0");
}

/* Truncation from either end, with the epoch that holds the offset kept. */
static void test_truncate(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *before;
        int64_t offset;
        const char *after_end, *after_start;
    } cases[] = {
        {"", 5, "", ""},
        {"0@0 2@10 3@20", 0, "", "0@0 2@10 3@20"},
        {"0@0 2@10 3@20", 5, "0@0", "0@5 2@10 3@20"},
        {"0@0 2@10 3@20", 10, "0@0", "2@10 3@20"},
        {"0@0 2@10 3@20", 11, "0@0 2@10", "2@11 3@20"},
        {"0@0 2@10 3@20", 99, "0@0 2@10 3@20", "3@99"},
        {"2@10 3@20", 4, "", "2@10 3@20"},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        fill(&f->cache, cases[i].before);
        stele_epoch_cache_truncate_from_end(&f->cache, cases[i].offset);
        assert_content(&f->cache, cases[i].after_end);
        assert_int_equal(f->cache.is_dirty, strcmp(cases[i].before, cases[i].after_end) != 0);
        fill(&f->cache, cases[i].before);
        stele_epoch_cache_truncate_from_start(&f->cache, cases[i].offset);
        assert_content(&f->cache, cases[i].after_start);
        assert_int_equal(f->cache.is_dirty, strcmp(cases[i].before, cases[i].after_start) != 0);
    }
}

/* KIP-320's question and its answers (facts 8.7: endOffsetFor). */
static void test_end_offset(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *content;
        int32_t asked, epoch;
        int64_t end;
    } cases[] = {
        {"", 0, -1, -1},         {"2@10 5@20", -1, -1, -1}, {"2@10 5@20", 5, 5, 100}, {"2@10 5@20", 6, -1, -1},
        {"2@10 5@20", 1, 1, 10}, {"2@10 5@20", 2, 2, 20},   {"2@10 5@20", 4, 2, 20},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        int32_t epoch = 77;
        int64_t end = 77;
        fill(&f->cache, cases[i].content);
        stele_epoch_cache_end_offset(&f->cache, cases[i].asked, 100, &epoch, &end);
        assert_int_equal(epoch, cases[i].epoch);
        assert_int_equal(end, cases[i].end);
    }
}

/* latest and epoch_at agree with the entries, below, between and above them. */
static void test_epoch_at(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(stele_epoch_cache_latest(&f->cache), -1);
    assert_int_equal(stele_epoch_cache_epoch_at(&f->cache, 0), -1);
    fill(&f->cache, "2@10 5@20");
    static const struct {
        int64_t offset;
        int32_t epoch;
    } cases[] = {{0, -1}, {9, -1}, {10, 2}, {19, 2}, {20, 5}, {1000, 5}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++)
        assert_int_equal(stele_epoch_cache_epoch_at(&f->cache, cases[i].offset), cases[i].epoch);
    assert_int_equal(stele_epoch_cache_latest(&f->cache), 5);
}

/* The file is Kafka's byte for byte, and read back gives the same entries. */
static void test_file(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    size_t count = 0;
    fill(&f->cache, "0@0 3@1000000 2147483647@9223372036854775807");
    assert_ok(stele_epoch_cache_text(&f->cache, &text, &count));
    disk_put(f->disk, PATH, text, count);
    disk_assert_text(f->disk, PATH, "0\n3\n0 0\n3 1000000\n2147483647 9223372036854775807\n");
    stele_mem_free(&f->memory.mem, text);
    stele_epoch_cache_clear(&f->cache);
    assert_ok(stele_epoch_cache_load(&f->cache, sim_disk_vfs(f->disk), "/log"));
    assert_content(&f->cache, "0@0 3@1000000 2147483647@9223372036854775807");
    assert_false(f->cache.is_dirty);
}

/* What is legal and what is not in a file; a refused one leaves the cache empty and to be written. */
static void test_file_refusals(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *content; /* NULL: CORRUPT */
    } cases[] = {
        {"", ""},
        {"0", ""},
        {"0\n", ""},
        {"0\n0\n", ""},
        {"0\n1\n4 7\n", "4@7"},
        {"0\n1\n4 7", "4@7"},
        {"0\r\n1\r\n4  7\r\n", "4@7"},
        {"1\n1\n4 7\n", NULL},
        {"x\n1\n4 7\n", NULL},
        {"0\n-1\n", NULL},
        {"0\nx\n", NULL},
        {"0\n2\n4 7\n", NULL},
        {"0\n1\n4 7\n5 8\n", NULL},
        {"0\n1\n4\n", NULL},
        {"0\n1\n4 7 1\n", NULL},
        {"0\n1\n-4 7\n", NULL},
        {"0\n1\n4 -7\n", NULL},
        {"0\n1\n4 x\n", NULL},
        {"0\n1\n2147483648 7\n", NULL},
        {"0\n1\n4 9223372036854775808\n", NULL},
        {"0\n2\n4 7\n4 8\n", NULL},
        {"0\n2\n4 7\n5 7\n", NULL},
        {"0\n2\n4 7\n3 8\n", NULL},
        {"0\n1\n4 7\n\n", NULL},
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        fill(&f->cache, "9@9");
        disk_put_text(f->disk, PATH, cases[i].text);
        enum stele_err err = stele_epoch_cache_load(&f->cache, sim_disk_vfs(f->disk), "/log");
        assert_int_equal(err, cases[i].content == NULL ? STELE_CORRUPT : STELE_OK);
        assert_content(&f->cache, cases[i].content == NULL ? "" : cases[i].content);
        assert_int_equal(f->cache.is_dirty, cases[i].content == NULL);
    }
}

/* A missing file is an empty cache; each failing call and allocation is reported and leaves a usable cache. */
static void test_failures(void **state)
{
    struct fixture *f = *state;
    char *text = NULL;
    size_t count = 0;
    fill(&f->cache, "1@1");
    assert_ok(stele_epoch_cache_load(&f->cache, sim_disk_vfs(f->disk), "/log"));
    assert_content(&f->cache, "");
    disk_put_text(f->disk, PATH, "0\n6\n0 0\n1 1\n2 2\n3 3\n4 4\n5 5\n");
    int64_t io_failures = 0, memory_failures = 0;
    for (bool is_done = false; !is_done; io_failures++) {
        disk_fail(f->disk, io_failures + 1, STELE_IO, false);
        enum stele_err err = stele_epoch_cache_load(&f->cache, sim_disk_vfs(f->disk), "/log");
        is_done = !sim_disk_has_struck(f->disk);
        assert_int_equal(err, is_done ? STELE_OK : STELE_IO);
    }
    assert_true(io_failures > 3);
    disk_fail(f->disk, 0, STELE_OK, false);
    for (bool is_done = false; !is_done; memory_failures++) {
        stele_epoch_cache_deinit(&f->cache);
        stele_test_mem_fail(&f->memory, memory_failures + 1, false);
        enum stele_err err = stele_epoch_cache_load(&f->cache, sim_disk_vfs(f->disk), "/log");
        is_done = !f->memory.has_failed;
        assert_int_equal(err, is_done ? STELE_OK : STELE_NO_MEMORY);
    }
    assert_true(memory_failures > 3);
    assert_content(&f->cache, "0@0 1@1 2@2 3@3 4@4 5@5");
    stele_test_mem_fail(&f->memory, 1, true);
    assert_int_equal(stele_epoch_cache_text(&f->cache, &text, &count), STELE_NO_MEMORY);
    int taken = 0;
    while (stele_epoch_cache_assign(&f->cache, 10 + taken, 100 + taken) == STELE_OK)
        taken++;
    assert_int_equal(stele_epoch_cache_latest(&f->cache), taken == 0 ? 5 : 9 + taken);
    stele_test_mem_fail(&f->memory, 0, false);
    assert_ok(stele_epoch_cache_assign(&f->cache, 10 + taken, 100 + taken));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_assign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_epoch_at, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_refusals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
