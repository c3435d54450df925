#include "storage/history.h"
#include "storage/test/disk_files.h"

#include <stdlib.h>
#include <string.h>

#define PATH "/log/" STELE_HISTORY_FILE

struct fixture {
    struct sim_disk *disk;
    struct stele_test_env env;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    f->disk = sim_disk_new(1);
    disk_make_dir(f->disk, "/log");
    stele_test_env_init(&f->env, sim_disk_vfs(f->disk));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->env.mem);
    test_free(f);
    return 0;
}

struct seen {
    int count;
    struct stele_history_event first, last;
};

static void see(void *arg, const struct stele_history_event *event)
{
    struct seen *seen = arg;
    if (seen->count++ == 0)
        seen->first = *event;
    seen->last = *event;
}

/* The lines are as the header says, and every kind and reason comes back as it was written. */
static void test_lines(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    struct stele_history_event event = {1700000000000, STELE_HISTORY_ROLL, 42, 0, STELE_REASON_SIZE};
    assert_ok(stele_history_read(&f->env.env, "/log", see, &seen));
    assert_int_equal(seen.count, 0);
    assert_ok(stele_history_append(&f->env.env, "/log", &event));
    event = (struct stele_history_event){-1, STELE_HISTORY_CUT, INT64_MAX, INT64_MIN, STELE_REASON_TORN_TAIL};
    assert_ok(stele_history_append(&f->env.env, "/log", &event));
    disk_assert_text(f->disk, PATH,
                     "1700000000000 roll 42 0 SIZE\n"
                     "-1 cut 9223372036854775807 -9223372036854775808 TORN_TAIL\n");
    for (int kind = STELE_HISTORY_ROLL; kind <= STELE_HISTORY_REBUILD; kind++) {
        for (int reason = 0; reason < STELE_REASON_COUNT; reason++) {
            event = (struct stele_history_event){5, (enum stele_history_kind)kind, 6, 7, (enum stele_reason)reason};
            assert_ok(stele_history_append(&f->env.env, "/log", &event));
            seen.count = 0;
            assert_ok(stele_history_read(&f->env.env, "/log", see, &seen));
            assert_int_equal(seen.last.kind, kind);
            assert_int_equal(seen.last.reason, reason);
            assert_true(seen.last.offset == 6 && seen.last.bytes == 7 && seen.last.wall_ms == 5);
            assert_non_null(stele_reason_text((enum stele_reason)reason));
        }
    }
    assert_int_equal(seen.count, 2 + 5 * STELE_REASON_COUNT);
    assert_true(seen.first.wall_ms == 1700000000000 && seen.first.offset == 42);
}

/* Torn and foreign lines are skipped, and the next event starts a line of its own. */
static void test_bad_lines(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {0};
    struct stele_history_event event = {9, STELE_HISTORY_DELETE, 8, 7, STELE_REASON_LOG_START};
    disk_put_text(f->disk, PATH,
                  "nonsense\n1 roll 2 3 SIZE\n\n1 roll 2 3 NOT_A_REASON\n1 bend 2 3 SIZE\n1 roll x 3 SIZE\n1 roll 2");
    assert_ok(stele_history_read(&f->env.env, "/log", see, &seen));
    assert_int_equal(seen.count, 1);
    assert_ok(stele_history_append(&f->env.env, "/log", &event));
    seen.count = 0;
    assert_ok(stele_history_read(&f->env.env, "/log", see, &seen));
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.last.kind, STELE_HISTORY_DELETE);
}

/* Above 1 MiB the older half goes, at the end of a line, and the newest event is kept. */
static void test_shortens(void **state)
{
    struct fixture *f = *state;
    static const char line[] = "1 roll 2 3 SIZE\n";
    enum { BYTES = (1 << 20) + 64 };
    char *text = malloc(BYTES);
    struct seen seen = {0};
    struct stele_history_event event = {9, STELE_HISTORY_DELETE, 8, 7, STELE_REASON_LOG_START};
    size_t count = 0;
    for (; count + sizeof(line) - 1 <= BYTES; count += sizeof(line) - 1)
        memcpy(text + count, line, sizeof(line) - 1);
    disk_put(f->disk, PATH, text, count);
    assert_ok(stele_history_append(&f->env.env, "/log", &event));
    size_t after = disk_read(f->disk, PATH, text, BYTES);
    assert_true(after > count / 3 && after < count * 2 / 3);
    assert_memory_equal(text, line, sizeof(line) - 1);
    assert_ok(stele_history_read(&f->env.env, "/log", see, &seen));
    assert_int_equal(seen.last.offset, 8);
    assert_int_equal(seen.count, (after - 21) / (sizeof(line) - 1) + 1);
    free(text);
}

/* Every failing call and allocation is reported, and what was there before stays readable. */
static void test_failures(void **state)
{
    struct fixture *f = *state;
    struct stele_history_event event = {9, STELE_HISTORY_DELETE, 8, 7, STELE_REASON_LOG_START};
    assert_ok(stele_history_append(&f->env.env, "/log", &event));
    bool is_done = false;
    int64_t at = 1;
    for (; !is_done; at++) {
        struct seen seen = {0};
        disk_fail(f->disk, at, at % 2 == 0 ? STELE_NO_SPACE : STELE_IO, false);
        enum stele_err err = stele_history_append(&f->env.env, "/log", &event);
        is_done = !sim_disk_has_struck(f->disk);
        assert_int_equal(err != STELE_OK, !is_done);
        disk_fail(f->disk, 0, STELE_OK, false);
        assert_ok(stele_history_read(&f->env.env, "/log", see, &seen));
        assert_true(seen.count >= 1);
        assert_int_equal(seen.last.reason, STELE_REASON_LOG_START);
    }
    assert_true(at > 4);
    struct seen seen = {0};
    stele_test_mem_fail(&f->env.mem, 1, false);
    assert_int_equal(stele_history_read(&f->env.env, "/log", see, &seen), STELE_NO_MEMORY);
    assert_int_equal(seen.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shortens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
