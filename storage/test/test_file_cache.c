#include "storage/file_cache.h"
#include "storage/test/memory_vfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static struct stele_cached_file *new_file(struct world *world, struct stele_file_cache *cache, const char *path)
{
    struct stele_cached_file *cached = NULL;
    memory_vfs_put(&world->memory, path, path, strlen(path));
    assert_ok(stele_cached_file_new(&world->test.env, cache, path, &cached));
    return cached;
}

/* Pins, reads the content, which is the name it was made with, and unpins. */
static void check_content(struct stele_cached_file *cached, const char *content)
{
    struct stele_file *file = NULL;
    char bytes[64] = {0};
    assert_ok(stele_cached_file_pin(cached, &file));
    assert_ok(stele_file_read(file, bytes, strlen(content), 0));
    assert_string_equal(bytes, content);
    stele_cached_file_unpin(cached);
}

/* Ten thousand names work within a hundred descriptors, and what was used last is still open. */
static void many_files_stay_within_the_bound(void **state)
{
    enum { FILES = 10000, OPEN_MAX = 100 };
    struct world *world = *state;
    struct stele_cached_file **files = calloc(FILES, sizeof(struct stele_cached_file *));
    struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, OPEN_MAX, 0);
    char path[64];
    world->memory.open_limit = OPEN_MAX;
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof(path), "d/%d.log", i);
        files[i] = new_file(world, cache, path);
    }
    assert_int_equal(world->memory.open_count, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FILES; i++) {
            (void)snprintf(path, sizeof(path), "d/%d.log", (i * 7919) % FILES);
            check_content(files[(i * 7919) % FILES], path);
            assert_in_range(stele_file_cache_open_count(cache), 1, OPEN_MAX);
        }
    }
    assert_int_equal(world->memory.open_most, OPEN_MAX);
    int64_t calls = world->memory.calls;
    (void)snprintf(path, sizeof(path), "d/%d.log", ((FILES - 1) * 7919) % FILES);
    check_content(files[((FILES - 1) * 7919) % FILES], path);
    assert_int_equal(world->memory.calls, calls + 1); /* a read, and no open */
    for (int i = 0; i < FILES; i++)
        stele_cached_file_unref(files[i]);
    assert_int_equal(stele_file_cache_open_count(cache), 0);
    stele_file_cache_free(cache);
    free(files);
}

/* More pins than the bound are served; the surplus is closed as soon as it is given back. */
static void pinned_files_may_pass_the_bound(void **state)
{
    struct world *world = *state;
    struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, 2, 0);
    struct stele_cached_file *files[5];
    struct stele_file *file = NULL;
    char path[64];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(path, sizeof(path), "d/%d", i);
        files[i] = new_file(world, cache, path);
        assert_ok(stele_cached_file_pin(files[i], &file));
    }
    assert_int_equal(stele_file_cache_open_count(cache), 5);
    for (int i = 0; i < 5; i++)
        stele_cached_file_unpin(files[i]);
    assert_int_equal(stele_file_cache_open_count(cache), 2);
    for (int i = 0; i < 5; i++)
        stele_cached_file_unref(files[i]);
    stele_file_cache_free(cache);
}

/* A send queue keeps the file open after its owner let go of it, and the descriptor closes with the last hold. */
static void a_send_queue_holds_the_file(void **state)
{
    struct world *world = *state;
    struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, 1, 0);
    struct stele_cached_file *cached = new_file(world, cache, "d/a");
    struct stele_cached_file *other = new_file(world, cache, "d/b");
    struct stele_file *file = NULL;
    assert_ok(stele_cached_file_pin(cached, &file));
    struct stele_send_file *send = stele_cached_file_send(cached);
    assert_ptr_equal(send->file, file);
    send->ref(send);
    stele_cached_file_unpin(cached);
    stele_cached_file_unref(cached);
    check_content(other, "d/b");
    assert_ptr_equal(send->file, file); /* not closed to make room */
    send->unref(send);
    stele_cached_file_unref(other);
    assert_int_equal(world->memory.open_count, 0);
    stele_file_cache_free(cache);
}

/* A rename keeps an open descriptor good, a later open uses the new name, and a missing file keeps its name. */
static void rename_moves_name_and_file(void **state)
{
    struct world *world = *state;
    struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, 1, 0);
    struct stele_cached_file *cached = new_file(world, cache, "d/a");
    struct stele_cached_file *other = new_file(world, cache, "d/b");
    struct stele_file *file = NULL;
    assert_ok(stele_cached_file_pin(cached, &file));
    assert_ok(stele_cached_file_rename(cached, "d/a.deleted"));
    assert_string_equal(stele_cached_file_path(cached), "d/a.deleted");
    check_content(cached, "d/a");
    stele_cached_file_unpin(cached);
    check_content(other, "d/b"); /* takes the only place */
    check_content(cached, "d/a");
    assert_false(memory_vfs_exists(&world->memory, "d/a"));
    memory_vfs_remove(&world->memory, "d/b");
    stele_cached_file_attach(other, cache); /* closes it */
    assert_int_equal(stele_cached_file_rename(other, "d/c"), STELE_NOT_FOUND);
    assert_string_equal(stele_cached_file_path(other), "d/b");
    assert_int_equal(stele_cached_file_pin(other, &file), STELE_NOT_FOUND);
    stele_cached_file_unref(cached);
    stele_cached_file_unref(other);
    stele_file_cache_free(cache);
}

/* Without a cache, a job's file is open only while it is pinned; attached later it stays open. */
static void private_use_closes_at_once(void **state)
{
    struct world *world = *state;
    struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, 1, 0);
    struct stele_cached_file *cached = new_file(world, NULL, "d/a");
    struct stele_file *file = NULL;
    assert_ok(stele_cached_file_pin(cached, &file));
    check_content(cached, "d/a");
    assert_int_equal(world->memory.open_count, 1);
    stele_cached_file_unpin(cached);
    assert_int_equal(world->memory.open_count, 0);
    stele_cached_file_attach(cached, cache);
    check_content(cached, "d/a");
    assert_int_equal(stele_file_cache_open_count(cache), 1);
    stele_cached_file_unref(cached);
    stele_file_cache_free(cache);
}

/* Whichever allocation or file call fails, nothing leaks and the same calls work right after. */
static void every_call_may_fail(void **state)
{
    struct world *world = *state;
    for (int memory_or_files = 0; memory_or_files < 2; memory_or_files++) {
        bool has_failed = true;
        for (int64_t at = 1; has_failed; at++) {
            struct stele_cached_file *cached = NULL;
            struct stele_file *file = NULL;
            memory_vfs_put(&world->memory, "d/a", "d/a", 3);
            memory_vfs_remove(&world->memory, "d/b");
            stele_test_mem_fail(&world->test.mem, memory_or_files == 0 ? at : 0, false);
            memory_vfs_fail(&world->memory, memory_or_files == 1 ? at : 0, STELE_IO, false);
            struct stele_file_cache *cache = stele_file_cache_new(&world->test.env, 1, 0);
            enum stele_err err =
                cache == NULL ? STELE_NO_MEMORY : stele_cached_file_new(&world->test.env, cache, "d/a", &cached);
            if (err == STELE_OK && (err = stele_cached_file_pin(cached, &file)) == STELE_OK)
                stele_cached_file_unpin(cached);
            if (err == STELE_OK)
                err = stele_cached_file_rename(cached, "d/b");
            has_failed = world->test.mem.has_failed || world->memory.has_failed;
            assert_int_equal(err == STELE_OK, !has_failed);
            stele_test_mem_fail(&world->test.mem, 0, false);
            memory_vfs_fail(&world->memory, 0, STELE_OK, false);
            if (cached != NULL)
                check_content(cached, "d/a");
            stele_cached_file_unref(cached);
            stele_file_cache_free(cache);
            stele_test_mem_check_empty(&world->test.mem);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_files_stay_within_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(pinned_files_may_pass_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_send_queue_holds_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(rename_moves_name_and_file, setup, teardown),
        cmocka_unit_test_setup_teardown(private_use_closes_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
    };
    return cmocka_run_group_tests_name("file_cache", tests, NULL, NULL);
}
