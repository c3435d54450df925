/* The throttle of replication alone: lists of replicas, and the rate over its windows. */
#include "node/throttle.h"

#include "base/test/support.h"
#include "node/node_struct.h"

#include <string.h>

/* Who is named by a list, and who is not; a list that is none names nobody from there on. */
static void test_lists(void **state)
{
    static const struct {
        const char *list;
        int32_t partition, node_id;
        bool is_in;
    } cases[] = {{"", 0, 1, false},
                 {"*", 7, 9, true},
                 {" * ", 0, 0, true},
                 {"0:1", 0, 1, true},
                 {"0:1", 1, 0, false},
                 {"0:1,3:2", 3, 2, true},
                 {"0:1 , 3:2", 3, 2, true},
                 {"10:1", 0, 1, false},
                 {"0:11", 0, 1, false},
                 {"2147483647:1", 0, 1, false},
                 {"99999999999:1,0:1", 0, 1, false},
                 {"x,0:1", 0, 1, false}};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++)
        assert_int_equal(stele_throttle_list_has(cases[i].list, cases[i].partition, cases[i].node_id), cases[i].is_in);
}

struct world {
    struct stele_test_env env;
    struct stele_node node;
    struct stele_shard shards[3];
    int waked;
    struct stele_throttle_wait wait;
};

static struct world world;

static int set_up(void **state)
{
    (void)state;
    world = (struct world){.waked = 0};
    stele_test_env_init(&world.env, NULL);
    world.env.mono_us = 50000000;
    world.node.shards = world.shards;
    world.node.shard_count = 3;
    world.node.throttle.window_count = 11;
    world.node.throttle.window_ms = 1000;
    for (int i = 0; i < 3; i++) {
        world.shards[i].node = &world.node;
        world.shards[i].env = &world.env.env;
        world.shards[i].wheel = stele_timing_wheel_new(&world.env.mem.mem, 1, 20, world.env.mono_us / 1000);
        assert_non_null(world.shards[i].wheel);
        assert_ok(stele_timing_wheel_reserve(world.shards[i].wheel, 1000000000));
        stele_throttle_init(&world.shards[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        stele_timing_wheel_free(world.shards[i].wheel);
    stele_test_mem_check_empty(&world.env.mem);
    return 0;
}

static void pass(int64_t ms)
{
    world.env.mono_us += ms * 1000;
    for (int i = 0; i < 3; i++)
        stele_timing_wheel_advance(world.shards[i].wheel, world.env.mono_us / 1000);
}

/* Without a rate nothing waits; with 0 everything does. Shards count together, sides apart. */
static void test_rate(void **state)
{
    (void)state;
    struct stele_shard *first = &world.shards[1], *second = &world.shards[2];
    world.node.throttle.bytes_per_second[STELE_THROTTLE_LEADER] = INT64_MAX;
    world.node.throttle.bytes_per_second[STELE_THROTTLE_FOLLOWER] = 0;
    stele_throttle_count(first, STELE_THROTTLE_LEADER, 1000000000);
    assert_int_equal(stele_throttle_delay(first, STELE_THROTTLE_LEADER), 0);
    assert_int_equal(stele_throttle_delay(first, STELE_THROTTLE_FOLLOWER), 1000);
    world.node.throttle.bytes_per_second[STELE_THROTTLE_FOLLOWER] = 1000;
    assert_int_equal(stele_throttle_delay(first, STELE_THROTTLE_FOLLOWER), 0);
    stele_throttle_count(first, STELE_THROTTLE_FOLLOWER, 600);
    assert_int_equal(stele_throttle_delay(second, STELE_THROTTLE_FOLLOWER), 0);
    stele_throttle_count(second, STELE_THROTTLE_FOLLOWER, 900);
    for (int i = 1; i < 3; i++)
        assert_in_range(stele_throttle_delay(&world.shards[i], STELE_THROTTLE_FOLLOWER), 400, 600);
    pass(400);
    assert_true(stele_throttle_delay(first, STELE_THROTTLE_FOLLOWER) > 0);
    pass(stele_throttle_delay(first, STELE_THROTTLE_FOLLOWER) + 1100);
    assert_int_equal(stele_throttle_delay(first, STELE_THROTTLE_FOLLOWER), 0);
}

/* Who moves as much as it may over a long time moves the rate, whatever the size of a piece and the windows are; and
 * what is older than the windows is forgotten. */
static void test_long_run(void **state)
{
    static const struct {
        int window_count;
        int64_t window_ms, piece, rate;
    } cases[] = {{11, 1000, 100, 1000}, {11, 1000, 10000, 1000}, {1, 1000, 500, 1000},
                 {2, 5000, 3000, 1000}, {100, 1000, 100, 1000},  {11, 1000, 1048576, 1000000}};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_shard *shard = &world.shards[1];
        int64_t moved = 0, began_us = world.env.mono_us;
        world.node.throttle.window_count = cases[i].window_count;
        world.node.throttle.window_ms = cases[i].window_ms;
        world.node.throttle.bytes_per_second[STELE_THROTTLE_LEADER] = cases[i].rate;
        memset(&shard->throttled.sides, 0, sizeof(shard->throttled.sides));
        while (world.env.mono_us - began_us < 600 * 1000000LL) {
            int64_t delay_ms = stele_throttle_delay(shard, STELE_THROTTLE_LEADER);
            assert_in_range(delay_ms, 0, cases[i].window_ms);
            if (delay_ms > 0) {
                pass(delay_ms);
                continue;
            }
            stele_throttle_count(shard, STELE_THROTTLE_LEADER, cases[i].piece);
            moved += cases[i].piece;
        }
        /* The last piece of a measurement may go over; it is paid for in the next one, if windows overlap. */
        int64_t over = cases[i].window_count > 1 ? 2 : 600000 / cases[i].window_ms;
        assert_in_range(moved, cases[i].rate * 600 * 8 / 10, cases[i].rate * 600 * 12 / 10 + over * cases[i].piece);
        pass(cases[i].window_ms * cases[i].window_count);
        assert_int_equal(stele_throttle_delay(shard, STELE_THROTTLE_LEADER), 0);
    }
}

static void again(struct stele_throttle_wait *wait)
{
    if (++world.waked < 3)
        stele_throttle_wait(&world.shards[1], wait, 200);
}

/* Who waits is called once for each wait, also when it waits again from inside the call; who left is not called. */
static void test_waiting(void **state)
{
    struct stele_throttle_wait gone = {.again = again};
    (void)state;
    world.wait.again = again;
    stele_list_init(&world.wait.link);
    stele_list_init(&gone.link);
    stele_throttle_wait(&world.shards[1], &world.wait, 100);
    stele_throttle_wait(&world.shards[1], &world.wait, 500);
    stele_throttle_wait(&world.shards[1], &gone, 100);
    stele_list_remove(&gone.link);
    pass(99);
    assert_int_equal(world.waked, 0);
    pass(2);
    assert_int_equal(world.waked, 1);
    pass(150);
    assert_int_equal(world.waked, 1);
    for (int i = 0; i < 10; i++)
        pass(100);
    assert_int_equal(world.waked, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test_setup_teardown(test_rate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_long_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
