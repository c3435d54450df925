/* Time: the queue of events, the hash of a run, its log. */
#include "cluster-tests/sim/sim_world.h"

#include "base/check.h"
#include "cluster-tests/sim/sim_image.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sim_point_text(enum sim_point point)
{
    static const char *const texts[SIM_POINT_COUNT] = {
#define P(name, text) text,
        SIM_POINTS(P)
#undef P
    };
    return texts[point];
}

void sim_world_init(struct sim_world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->hash = seed;
    world->now_us = 1000000;
    world->task_us_max = world->job_us_max = world->timer_us_max = 100;
    for (int i = 0; i < SIM_STREAM_COUNT; i++)
        stele_prng_init(&world->streams[i], seed, (uint64_t)i);
}

void sim_world_deinit(struct sim_world *world)
{
    STELE_ASSERT(world->count == 0);
    free(world->heap);
    world->heap = NULL;
}

/* The heap: slot 1 is the first; an event knows its slot. */

static bool is_before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static void put(struct sim_world *world, struct sim_event *event, int64_t slot)
{
    world->heap[slot] = event;
    event->slot = slot;
}

static void sift(struct sim_world *world, struct sim_event *event, int64_t slot)
{
    while (slot > 1 && is_before(event, world->heap[slot / 2])) {
        put(world, world->heap[slot / 2], slot);
        slot /= 2;
    }
    for (;;) {
        int64_t child = slot * 2;
        if (child > world->count)
            break;
        if (child < world->count && is_before(world->heap[child + 1], world->heap[child]))
            child++;
        if (!is_before(world->heap[child], event))
            break;
        put(world, world->heap[child], slot);
        slot = child;
    }
    put(world, event, slot);
}

void sim_event_init(struct sim_event *event, const char *name, struct sim_env *env,
                    void (*run)(struct sim_event *event))
{
    *event = (struct sim_event){.run = run, .env = env, .name = name};
}

void sim_event_cancel(struct sim_world *world, struct sim_event *event)
{
    int64_t slot = event->slot;
    if (slot == 0)
        return;
    STELE_ASSERT(world->heap[slot] == event);
    struct sim_event *last = world->heap[world->count--];
    event->slot = 0;
    if (last != event)
        sift(world, last, slot);
}

void sim_event_at(struct sim_world *world, struct sim_event *event, int64_t at_us)
{
    sim_event_cancel(world, event);
    event->at_us = stele_max_i64(at_us, world->now_us);
    event->sequence = world->sequence++;
    world->heap = sim_grow(world->heap, &world->capacity, world->count + 2, sizeof(struct sim_event *));
    sift(world, event, ++world->count);
}

void sim_event_after(struct sim_world *world, struct sim_event *event, int64_t after_us)
{
    sim_event_at(world, event, sim_world_now_us(world) + after_us);
}

void sim_event_hurry(struct sim_world *world, struct sim_event *event, int64_t after_us)
{
    if (event->slot == 0 || event->at_us > sim_world_now_us(world) + after_us)
        sim_event_after(world, event, after_us);
}

int64_t sim_world_now_us(const struct sim_world *world)
{
    return world->now_us + world->taken_us;
}

bool sim_world_step(struct sim_world *world)
{
    if (world->count == 0)
        return false;
    struct sim_event *event = world->heap[1];
    struct sim_env *env = event->env;
    if (env != NULL && env->busy_us > event->at_us) { /* its place among those that wait too stays */
        uint64_t sequence = event->sequence;
        sim_event_at(world, event, env->busy_us);
        event->sequence = sequence;
        sift(world, event, event->slot);
        return true;
    }
    sim_event_cancel(world, event);
    world->now_us = event->at_us;
    world->taken_us = 0;
    world->events++;
    sim_world_mix(world, (uint64_t)event->at_us);
    sim_world_mix(world, (uint64_t)event->name[0] + (uint64_t)event->name[1] * 256);
    world->running = env;
    event->run(event);
    world->running = NULL;
    if (env != NULL) {
        env->busy_us = stele_max_i64(env->busy_us, sim_world_now_us(world));
        if (env->after != NULL)
            env->after(env);
    }
    world->taken_us = 0;
    return true;
}

void sim_world_mix(struct sim_world *world, uint64_t value)
{
    uint64_t hash = (world->hash ^ value) * 0x9e3779b97f4a7c15u;
    world->hash = hash ^ (hash >> 29);
}

void sim_world_reach(struct sim_world *world, enum sim_point point)
{
    world->reached[point]++;
}

static STELE_PRINTF(2, 0) void print_line(const struct sim_world *world, const char *format, va_list args)
{
    (void)printf("%11.6f ", (double)sim_world_now_us(world) / 1e6);
    (void)vprintf(format, args);
    (void)putchar('\n');
}

void sim_world_log(struct sim_world *world, const char *format, ...)
{
    va_list args;
    if (!world->is_verbose)
        return;
    va_start(args, format);
    print_line(world, format, args);
    va_end(args);
}

void sim_world_fail(struct sim_world *world, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)fflush(stdout);
    (void)fprintf(stderr, "FAILED at %.6f s, event %lld, seed %llu, hash %016llx: %s\n",
                  (double)sim_world_now_us(world) / 1e6, (long long)world->events, (unsigned long long)world->seed,
                  (unsigned long long)world->hash, text);
    if (world->failed != NULL)
        world->failed(world->arg, text);
    exit(1);
}

int64_t sim_draw_log(struct stele_prng *prng, int64_t most)
{
    int64_t limit = 1;
    int bits = 0;
    for (; limit < most; limit *= 2)
        bits++;
    limit = (int64_t)1 << stele_prng_below(prng, (uint64_t)bits + 1);
    return stele_prng_range(prng, 0, stele_min_i64(limit, most));
}
