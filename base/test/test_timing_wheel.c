#include "base/test/support.h"
#include "base/timing_wheel.h"

#include <string.h>

enum { TIMERS = 300, STEPS = 4000 };

/* The model: an array searched for the least (tick, order). */
struct model_timer {
    struct stele_timer timer;
    int64_t tick; /* -1 idle */
    int64_t order;
};

struct world {
    struct stele_test_mem mem;
    struct stele_timing_wheel *wheel;
    struct model_timer timers[TIMERS];
    struct stele_prng prng;
    int64_t now_ms, tick_ms, next_order;
    int64_t latest_ms;     /* the clock's greatest value: a wheel's time never goes back */
    int64_t now_tick_seen; /* the wheel's present: it never goes back */
    int fired;
};

static struct world world;

static struct model_timer *model_least(void)
{
    struct model_timer *least = NULL;
    for (int i = 0; i < TIMERS; i++) {
        struct model_timer *t = &world.timers[i];
        if (t->tick < 0)
            continue;
        if (least == NULL || t->tick < least->tick || (t->tick == least->tick && t->order < least->order))
            least = t;
    }
    return least;
}

static void model_arm(struct model_timer *t, int64_t deadline_ms)
{
    int64_t tick = deadline_ms <= 0 ? 0 : (deadline_ms - 1) / world.tick_ms + 1;
    t->tick = tick > world.now_tick_seen ? tick : world.now_tick_seen;
    t->order = world.next_order++;
    assert_ok(stele_timer_arm(world.wheel, &t->timer, deadline_ms));
}

static int64_t random_deadline(void)
{
    static const int64_t spans[] = {1, 5, 50, 1000, 100000, 40000000, 9000000000};
    int64_t span = spans[stele_prng_below(&world.prng, STELE_ARRAY_LEN(spans))];
    return world.now_ms + stele_prng_range(&world.prng, -span / 10 - 1, span);
}

static void fire(struct stele_timer *timer)
{
    struct model_timer *t = STELE_CONTAINER_OF(timer, struct model_timer, timer);
    assert_ptr_equal(t, model_least());
    assert_true(t->timer.deadline_ms <= world.latest_ms);
    world.now_tick_seen = t->tick;
    t->tick = -1;
    world.fired++;
    /* From inside a firing timer, others are cancelled and armed; only for later ticks, so that the model's order
     * holds. */
    if (stele_prng_chance(&world.prng, 1, 4)) {
        struct model_timer *other = &world.timers[stele_prng_below(&world.prng, TIMERS)];
        stele_timer_cancel(world.wheel, &other->timer);
        other->tick = -1;
        if (stele_prng_chance(&world.prng, 1, 2))
            model_arm(other, (world.now_tick_seen + 1) * world.tick_ms + stele_prng_range(&world.prng, 0, 5000));
    }
}

static void world_step(void)
{
    struct model_timer *t = &world.timers[stele_prng_below(&world.prng, TIMERS)];
    switch (stele_prng_below(&world.prng, 4)) {
    case 0:
    case 1:
        stele_timer_cancel(world.wheel, &t->timer);
        model_arm(t, random_deadline());
        break;
    case 2:
        stele_timer_cancel(world.wheel, &t->timer);
        t->tick = -1;
        break;
    default:
        /* The clock stands, creeps, jumps ahead or goes back. */
        world.now_ms += stele_prng_chance(&world.prng, 1, 50) ? stele_prng_range(&world.prng, -100000, 50000000)
                                                              : stele_prng_range(&world.prng, -3, 400);
        if (world.now_ms < 0)
            world.now_ms = 0;
        if (world.now_ms > world.latest_ms)
            world.latest_ms = world.now_ms;
        stele_timing_wheel_advance(world.wheel, world.now_ms);
        if (world.now_ms / world.tick_ms > world.now_tick_seen)
            world.now_tick_seen = world.now_ms / world.tick_ms;
        struct model_timer *least = model_least();
        assert_true(least == NULL || least->tick > world.now_tick_seen);
        break;
    }
    struct model_timer *least = model_least();
    int64_t next = stele_timing_wheel_next(world.wheel);
    assert_true(least == NULL ? next == INT64_MAX : next <= least->tick * world.tick_ms);
}

/* Under random arms, cancels and clock jumps, the wheel fires exactly what a sorted list fires, in its order. */
static void test_wheel_equals_sorted_list(void **state)
{
    (void)state;
    static const int slots[] = {2, 3, 20, 64};
    for (uint64_t seed = 0; seed < 40; seed++) {
        memset(&world, 0, sizeof(world));
        stele_test_mem_init(&world.mem);
        stele_prng_init(&world.prng, seed, 1);
        world.tick_ms = seed % 3 == 0 ? 7 : 1;
        world.now_ms = (int64_t)stele_prng_below(&world.prng, 1000000);
        world.latest_ms = world.now_ms;
        world.now_tick_seen = world.now_ms / world.tick_ms;
        world.wheel = stele_timing_wheel_new(&world.mem.mem, world.tick_ms, slots[seed % 4], world.now_ms);
        for (int i = 0; i < TIMERS; i++) {
            stele_timer_init(&world.timers[i].timer, fire);
            world.timers[i].tick = -1;
        }
        for (int i = 0; i < STEPS; i++)
            world_step();
        assert_true(world.fired > 100);
        /* Waking up when `next` says always ends with everything fired, in a bounded number of steps. */
        int wakes = 0;
        while (stele_timing_wheel_count(world.wheel) > 0) {
            int64_t next = stele_timing_wheel_next(world.wheel);
            world.now_ms = next > world.now_ms ? next : world.now_ms;
            world.latest_ms = world.now_ms > world.latest_ms ? world.now_ms : world.latest_ms;
            stele_timing_wheel_advance(world.wheel, world.now_ms);
            assert_true(++wakes < 200000);
        }
        assert_null(model_least());
        stele_timing_wheel_free(world.wheel);
        stele_test_mem_check_empty(&world.mem);
    }
}

static void count_fire(struct stele_timer *timer)
{
    (void)timer;
    world.fired++;
}

/* A level that cannot be made leaves the timer idle and the wheel sound. */
static void test_wheel_without_memory(void **state)
{
    (void)state;
    memset(&world, 0, sizeof(world));
    stele_test_mem_init(&world.mem);
    stele_test_mem_fail(&world.mem, 1, false);
    assert_null(stele_timing_wheel_new(&world.mem.mem, 1, 20, 0));
    world.wheel = stele_timing_wheel_new(&world.mem.mem, 1, 20, 0);
    struct stele_timer timer;
    stele_timer_init(&timer, count_fire);
    for (int at = 1; at <= 3; at++) {
        stele_test_mem_fail(&world.mem, at, false);
        enum stele_err err = stele_timer_arm(world.wheel, &timer, 7999);
        assert_int_equal(err, at <= 3 && world.mem.has_failed ? STELE_NO_MEMORY : STELE_OK);
        assert_true(stele_timer_is_armed(&timer) == (err == STELE_OK));
    }
    stele_test_mem_fail(&world.mem, 0, false);
    assert_ok(stele_timer_arm(world.wheel, &timer, 7999));
    stele_timing_wheel_advance(world.wheel, 7998);
    assert_int_equal(world.fired, 0);
    stele_timing_wheel_advance(world.wheel, 7999);
    assert_int_equal(world.fired, 1);
    assert_ok(stele_timer_arm(world.wheel, &timer, INT64_MAX));
    stele_timing_wheel_free(world.wheel);
    assert_false(stele_timer_is_armed(&timer));
    stele_test_mem_check_empty(&world.mem);
}

/* After reserve no deadline up to it takes memory, wherever the present has got to. */
static void test_wheel_reserved(void **state)
{
    static const int64_t starts[] = {0, 1, 7999, 8000, 123456789, 1000000000000};
    enum { DAY_MS = 86400000 };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(starts); i++) {
        struct stele_timer timer;
        memset(&world, 0, sizeof(world));
        stele_test_mem_init(&world.mem);
        world.wheel = stele_timing_wheel_new(&world.mem.mem, 1, 20, starts[i]);
        stele_timer_init(&timer, count_fire);
        int64_t last_ms = starts[i] + DAY_MS;
        for (int at = 1; at < 20; at++) { /* a reserve that fails half way is asked again */
            stele_test_mem_fail(&world.mem, at, true);
            if (stele_timing_wheel_reserve(world.wheel, last_ms) == STELE_OK)
                break;
            assert_true(world.mem.has_failed);
        }
        stele_test_mem_fail(&world.mem, 1, true);
        for (int64_t step_ms = 1; step_ms <= DAY_MS; step_ms *= 3)
            assert_ok(stele_timer_arm(world.wheel, &timer, starts[i] + step_ms));
        assert_ok(stele_timer_arm(world.wheel, &timer, last_ms));
        stele_timing_wheel_advance(world.wheel, last_ms - 1);
        assert_int_equal(world.fired, 0);
        stele_timing_wheel_advance(world.wheel, last_ms);
        assert_int_equal(world.fired, 1);
        stele_timing_wheel_free(world.wheel);
        stele_test_mem_check_empty(&world.mem);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_equals_sorted_list),
        cmocka_unit_test(test_wheel_without_memory),
        cmocka_unit_test(test_wheel_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
