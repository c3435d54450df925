#include "storage/moved_file.h"
#include "storage/test/disk_files.h"

#include <stdio.h>
#include <string.h>

#define TOPIC "xv8AAQIDBAUGBwgJCgsMDQ"
#define OTHER "yv8AAQIDBAUGBwgJCgsMDQ"
#define PATH "/d/" STELE_MOVED_FILE

struct fixture {
    struct sim_disk *disk;
    struct stele_test_env env;
    struct stele_moved_list list;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));
    f->disk = sim_disk_new(1);
    stele_test_env_init(&f->env, sim_disk_vfs(f->disk));
    disk_make_dir(f->disk, "/d");
    stele_moved_list_init(&f->list, &f->env.mem.mem);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    stele_moved_list_deinit(&f->list);
    assert_string_equal(sim_disk_violation_text(f->disk), "");
    sim_disk_free(f->disk);
    stele_test_mem_check_empty(&f->env.mem);
    test_free(f);
    return 0;
}

static struct stele_uuid uuid_of(const char *text)
{
    struct stele_uuid uuid;
    assert_ok(stele_uuid_parse(text, strlen(text), &uuid));
    return uuid;
}

static struct stele_moved moved_of(const char *topic, int32_t partition, const char *directory)
{
    return (struct stele_moved){.topic_id = uuid_of(topic), .partition = partition, .directory_id = uuid_of(directory)};
}

/* What was set is found, the latest word holds, and what was forgotten is gone, through a file and a crash too. */
static void test_round_trip(void **state)
{
    struct fixture *f = *state;
    struct stele_moved_list read;
    struct stele_uuid topic = uuid_of(TOPIC), other = uuid_of(OTHER);
    bool is_in_doubt = true;
    assert_ok(stele_moved_list_read(&f->list, &sim_disk_vfs(f->disk)[0], "/d"));
    assert_int_equal(f->list.count, 0);
    for (int32_t i = 0; i < 9; i++) {
        struct stele_moved moved = moved_of(TOPIC, i, OTHER);
        assert_ok(stele_moved_set(&f->list, &moved));
    }
    struct stele_moved again = moved_of(TOPIC, 3, TOPIC), another = moved_of(OTHER, INT32_MAX, TOPIC);
    assert_ok(stele_moved_set(&f->list, &again));
    assert_ok(stele_moved_set(&f->list, &another));
    stele_moved_forget(&f->list, &topic, 0);
    stele_moved_forget(&f->list, &other, 0); /* was never there */
    assert_ok(stele_moved_list_write(&f->list, sim_disk_vfs(f->disk), "/d", &is_in_doubt));
    assert_false(is_in_doubt);
    sim_disk_crash(f->disk, SIM_DISK_ADVERSARIAL);
    stele_moved_list_init(&read, &f->env.mem.mem);
    assert_ok(stele_moved_list_read(&read, sim_disk_vfs(f->disk), "/d"));
    assert_int_equal(read.count, 9);
    assert_null(stele_moved_find(&read, &topic, 0));
    assert_true(stele_uuid_equal(&stele_moved_find(&read, &topic, 3)->directory_id, &topic));
    assert_true(stele_uuid_equal(&stele_moved_find(&read, &topic, 8)->directory_id, &other));
    assert_true(stele_uuid_equal(&stele_moved_find(&read, &other, INT32_MAX)->directory_id, &topic));
    stele_moved_list_deinit(&read);
    assert_ok(stele_moved_list_write(&read, sim_disk_vfs(f->disk), "/d", &is_in_doubt));
    disk_assert_text(f->disk, PATH, "0\n00000000\n");
}

/* The bytes of the file are fixed: another version reads them. */
static void test_golden(void **state)
{
    struct fixture *f = *state;
    bool is_in_doubt;
    struct stele_moved moved = moved_of(TOPIC, 12, OTHER);
    assert_ok(stele_moved_set(&f->list, &moved));
    assert_ok(stele_moved_list_write(&f->list, sim_disk_vfs(f->disk), "/d", &is_in_doubt));
    disk_assert_text(f->disk, PATH, "0\n" TOPIC " 12 " OTHER "\nd3f6c1a7\n");
}

/* Anything but a whole file of version 0 with its sum is damage. */
static void test_damaged(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[] = {
        "",
        "0\n",
        "1\n00000000\n",
        "0\n00000001\n",
        "0\n0000000\n",
        "0\n00000000\n00000000\n",
        "0\n" TOPIC " 12 " OTHER "\n",
        "0\n" TOPIC " 12 " OTHER "\n00000000\n",
        "0\n" TOPIC " 12\n581c9166\n",
        "0\n" TOPIC " -1 " OTHER "\naeb976a7\n",
        "0\n" TOPIC " 2147483648 " OTHER "\n0fa35c54\n",
        "0\n" TOPIC " 1 " OTHER " more\n840163e9\n",
        "0\n" TOPIC " 1 x\nd971d89c\n",
        "0\nAAAAAAAAAAAAAAAAAAAAAA 1 " OTHER "\ned1ee821\n",
        "0\n" TOPIC " 1 " OTHER "\n" TOPIC " 1 " TOPIC "\n3b9dc2a9\n",
    };
    for (size_t i = 0; i < STELE_ARRAY_LEN(texts); i++) {
        stele_moved_list_deinit(&f->list);
        disk_put_text(f->disk, PATH, texts[i]);
        assert_int_equal(stele_moved_list_read(&f->list, sim_disk_vfs(f->disk), "/d"), STELE_CORRUPT);
    }
}

struct round {
    struct stele_test_env *env;
    struct stele_moved_list *list;
};

static bool says(struct stele_test_env *env, struct sim_disk *disk, const struct stele_uuid *topic)
{
    struct stele_moved_list read;
    stele_moved_list_init(&read, &env->mem.mem);
    assert_ok(stele_moved_list_read(&read, sim_disk_vfs(disk), "/d"));
    bool has = stele_moved_find(&read, topic, 1) != NULL;
    stele_moved_list_deinit(&read);
    return has;
}

static void write_and_crash(void *arg, struct sim_disk *disk)
{
    struct round *round = arg;
    struct stele_uuid topic = uuid_of(TOPIC);
    for (int mode = 0; mode < 2; mode++) {
        bool is_in_doubt = false;
        enum stele_err err = stele_moved_list_write(round->list, sim_disk_vfs(disk), "/d", &is_in_doubt);
        assert_int_equal(err != STELE_OK, sim_disk_has_struck(disk) && mode == 0);
        sim_disk_heal(disk);
        sim_disk_crash(disk, mode == 0 ? SIM_DISK_KILL : SIM_DISK_ADVERSARIAL);
        if (!is_in_doubt)
            assert_int_equal(says(round->env, disk, &topic), err == STELE_OK);
    }
}

/* Whatever call fails: the old text, the new one, or a failure that says that nobody knows. */
static void test_failures(void **state)
{
    struct fixture *f = *state;
    struct round round = {.env = &f->env, .list = &f->list};
    struct stele_moved moved = moved_of(TOPIC, 1, OTHER);
    bool is_in_doubt = false;
    assert_ok(stele_moved_list_write(&f->list, sim_disk_vfs(f->disk), "/d", &is_in_doubt));
    assert_ok(stele_moved_set(&f->list, &moved));
    for (int is_full = 0; is_full < 2; is_full++) {
        struct sim_disk_fault fault = {.err = is_full ? STELE_NO_SPACE : STELE_IO};
        assert_true(sim_disk_each_call(f->disk, &fault, write_and_crash, &round) >= 4);
    }
}

/* Without memory nothing changes. */
static void test_memory(void **state)
{
    struct fixture *f = *state;
    struct stele_moved moved = moved_of(TOPIC, 1, OTHER);
    bool is_in_doubt = false;
    stele_test_mem_fail(&f->env.mem, 1, false);
    assert_int_equal(stele_moved_set(&f->list, &moved), STELE_NO_MEMORY);
    assert_int_equal(f->list.count, 0);
    assert_ok(stele_moved_set(&f->list, &moved));
    stele_test_mem_fail(&f->env.mem, 1, false);
    assert_int_equal(stele_moved_list_write(&f->list, sim_disk_vfs(f->disk), "/d", &is_in_doubt), STELE_NO_MEMORY);
    assert_false(is_in_doubt);
    assert_ok(stele_moved_list_write(&f->list, sim_disk_vfs(f->disk), "/d", &is_in_doubt));
    for (int64_t at = 1; at <= 2; at++) {
        stele_moved_list_deinit(&f->list);
        stele_test_mem_fail(&f->env.mem, at, false);
        assert_int_equal(stele_moved_list_read(&f->list, sim_disk_vfs(f->disk), "/d"), STELE_NO_MEMORY);
    }
    stele_test_mem_fail(&f->env.mem, 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_golden, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
