#include "cluster-tests/sim/sim_client.h"

#include "base/check.h"
#include "client/consumer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 1 << 20, NEWS_US_MAX = 200 };
#define CLOCK_MS_MAX (INT64_MAX / 4000)

static void yield(struct sim_client *client)
{
    STELE_ASSERT(swapcontext(&client->here, &client->there) == 0);
}

/* As a loop that waits for events: what comes ends the wait, shortly after, together with what comes then. */
static void client_wait(struct stele_client_driver *driver, int64_t until_ms)
{
    struct sim_client *client = STELE_CONTAINER_OF(driver, struct sim_client, driver);
    struct sim_world *world = client->world;
    int64_t after_us = 1;
    if (until_ms > stele_env_mono_ms(&client->env.env))
        after_us = sim_process_world_us(&client->process, stele_min_i64(until_ms, CLOCK_MS_MAX) * 1000) -
                   sim_world_now_us(world);
    sim_event_after(world, &client->wake, stele_max_i64(after_us, 1));
    client->is_waiting = true;
    yield(client);
    client->is_waiting = false;
}

static void client_driver_free(struct stele_client_driver *driver)
{
    (void)driver;
}

static void after_event(struct sim_env *env)
{
    struct sim_client *client = env->owner;
    if (client->is_waiting)
        sim_event_hurry(client->world, &client->wake,
                        1 + sim_draw_log(sim_stream(client->world, SIM_STREAM_TIMERS), NEWS_US_MAX));
}

static void run_wake(struct sim_event *event)
{
    struct sim_client *client = STELE_CONTAINER_OF(event, struct sim_client, wake);
    client->world->running = &client->env;
    STELE_ASSERT(swapcontext(&client->there, &client->here) == 0);
    client->world->running = NULL;
}

void sim_client_pause(struct sim_client *client, int64_t us)
{
    struct sim_world *world = client->world;
    sim_event_after(world, &client->wake, us);
    client->env.busy_us = sim_world_now_us(world) + us + 1; /* what came meanwhile is for the next wait */
    yield(client);
}

/* makecontext passes integers only. */
static void enter(unsigned high, unsigned low)
{
    struct sim_client *client = (struct sim_client *)(uintptr_t)(((uint64_t)high << 32) | low);
    client->script(client);
    client->is_done = true;
    yield(client);
    STELE_ASSERT(false); /* a script that ended runs on */
}

void sim_client_start(struct sim_client *client, struct sim_world *world, const char *name, int64_t after_us)
{
    client->world = world;
    sim_process_begin(&client->process, world, name);
    sim_env_init(&client->env, &client->process, "", NULL);
    client->env.owner = client;
    client->env.after = after_event;
    sim_net_init(&client->net, &client->env);
    client->driver = (struct stele_client_driver){
        .wait = client_wait, .free = client_driver_free, .env = &client->env.env, .net = &client->net.net};
    sim_event_init(&client->wake, "wake", NULL, run_wake); /* it is what makes the loop busy */
    client->stack_bytes = STACK_BYTES;
    client->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    STELE_ASSERT(client->stack != MAP_FAILED);
    STELE_ASSERT(getcontext(&client->here) == 0);
    client->here.uc_stack.ss_sp = client->stack;
    client->here.uc_stack.ss_size = client->stack_bytes;
    client->here.uc_link = NULL;
    uint64_t address = (uint64_t)(uintptr_t)client;
    makecontext(&client->here, (void (*)(void))(uintptr_t)enter, 2, (unsigned)(address >> 32), (unsigned)address);
    sim_event_after(world, &client->wake, after_us);
}

struct stele_uuid sim_client_reads(const struct stele_consumer *consumer)
{
    return consumer->topic_id;
}

void sim_client_deinit(struct sim_client *client)
{
    struct sim_world *world = client->world;
    STELE_ASSERT(client->is_done);
    sim_event_cancel(world, &client->wake);
    sim_net_part(&client->net, SIM_PARTING_CLOSE);
    for (int tag = 0; tag < STELE_MEM_TAG_COUNT; tag++) {
        if (client->process.mem.tag_blocks[tag] != 0)
            sim_world_fail(world, "%s ended and holds memory: %s, %lld blocks", client->process.name,
                           stele_mem_tag_name((enum stele_mem_tag)tag), (long long)client->process.mem.tag_blocks[tag]);
    }
    sim_process_end(&client->process);
    STELE_ASSERT(munmap(client->stack, client->stack_bytes) == 0);
}
