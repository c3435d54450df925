/* Job threads: every job runs once, those of a lane one after another in the order of their start, and nobody sleeps
 * while there is something to do. */
#include "base/test/support.h"
#include "host/jobs.h"
#include "host/loop.h"

#include <stdatomic.h>
#include <string.h>

enum { THREADS = 3, LANES = 3, CHAINS = 8, JOBS = 4000 };

/* A job that is started again when it is done, now in a lane and now in none. */
struct chain {
    struct stele_job job;
    int lane; /* LANES: none */
    int64_t number;
};

static struct {
    struct stele_test_mem mem;
    struct stele_jobs *jobs;
    struct stele_loop *loop;
    struct chain chains[CHAINS];
    atomic_int running[LANES + 1], ran;
    int64_t started[LANES], begun[LANES];
    int done, at_once;
} world;

static void work(struct stele_job *job)
{
    struct chain *chain = STELE_CONTAINER_OF(job, struct chain, job);
    int others = atomic_fetch_add(&world.running[chain->lane], 1);
    if (chain->lane < LANES) {
        assert_int_equal(others, 0);
        assert_int_equal(world.begun[chain->lane]++, chain->number);
    }
    world.ran++;
    atomic_fetch_sub(&world.running[chain->lane], 1);
}

static void start(struct chain *chain);

static void done(struct stele_job *job)
{
    world.done++;
    world.at_once--;
    if (world.done + world.at_once < JOBS)
        start(STELE_CONTAINER_OF(job, struct chain, job));
    else if (world.at_once == 0)
        stele_loop_stop(world.loop);
}

static void start(struct chain *chain)
{
    struct stele_env *env = stele_loop_env(world.loop);
    int64_t at = chain - world.chains;
    chain->lane = (int)((at + world.done) % (LANES + 1));
    chain->job = (struct stele_job){.work = work, .done = done};
    if (chain->lane < LANES) {
        chain->job.lane = &world.started[chain->lane];
        chain->number = world.started[chain->lane]++;
    }
    world.at_once++;
    env->ops->job(env, &chain->job);
}

/* Chains of jobs over fewer threads, in lanes and free: a wake-up that is lost would leave them standing. */
static void test_chains(void **state)
{
    (void)state;
    stele_test_mem_init(&world.mem);
    world.jobs = stele_jobs_new(&world.mem.mem, THREADS);
    assert_non_null(world.jobs);
    world.loop = stele_loop_new(&(struct stele_loop_options){.mem = &world.mem.mem, .jobs = world.jobs});
    assert_non_null(world.loop);
    for (int i = 0; i < CHAINS; i++)
        start(&world.chains[i]);
    stele_loop_run(world.loop);
    assert_int_equal(world.done, JOBS);
    assert_int_equal(world.ran, JOBS);
    stele_jobs_free(world.jobs);
    stele_loop_free(world.loop);
    stele_test_mem_check_empty(&world.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
