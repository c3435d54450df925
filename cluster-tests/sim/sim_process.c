/* Processes and their envs: memory that ends with them, tasks and jobs that take a drawn time.
 *
 * A task arrives a while after it was posted, never before an earlier one of the same poster. A job's work runs at one
 * moment, a while after the start and after that of the job before it in its lane has ended; its result is a task of
 * the lane. So results of a lane keep their order, those of two lanes do not, and whatever the loop does may come
 * before the work, between work and result, or after. */
#include "base/check.h"
#include "cluster-tests/sim/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WALL_MS_FIRST = 1700000000 };

struct block {
    struct stele_list link;
};
_Static_assert(sizeof(struct block) == 16, "blocks keep their alignment");

static void *resize(void *ctx, void *ptr, size_t bytes)
{
    struct sim_process *process = ctx;
    struct block *old = ptr == NULL ? NULL : (struct block *)ptr - 1;
    if (bytes > 0 && process->no_memory > 0 &&
        sim_chance(sim_stream(process->world, SIM_STREAM_MEMORY), process->no_memory, 1000000)) {
        process->no_memory_count++;
        return NULL;
    }
    if (old != NULL)
        stele_list_remove(&old->link);
    if (bytes == 0) {
        free(old);
        return NULL;
    }
    struct block *block = realloc(old, bytes + sizeof(*block));
    if (block == NULL)
        abort();
    stele_list_push(&process->blocks, &block->link);
    return block + 1;
}

struct sim_task {
    struct sim_event event;
    struct stele_list link;
    struct stele_task *task;
};

struct lane {
    struct stele_list link;
    const void *key;
    struct stele_list jobs; /* whose work has not ended, in order; the first one is scheduled */
    int64_t done_us;        /* when its last result arrives */
    int users;
};

struct sim_job {
    struct sim_event event;
    struct stele_list link, in_lane;
    struct stele_job *job;
    struct lane *lane; /* NULL: free */
    int64_t start_us;
};

static void *take(size_t bytes)
{
    void *at = calloc(1, bytes);
    if (at == NULL)
        abort();
    return at;
}

static void run_task(struct sim_event *event)
{
    struct sim_task *sim_task = STELE_CONTAINER_OF(event, struct sim_task, event);
    struct stele_task *task = sim_task->task;
    stele_list_remove(&sim_task->link);
    free(sim_task);
    task->run(task);
}

static void env_post(struct stele_env *base, struct stele_task *task)
{
    struct sim_env *env = sim_env_of(base);
    struct sim_world *world = env->process->world;
    struct sim_env *poster = world->running != NULL ? world->running : env;
    struct sim_task *sim_task = take(sizeof(*sim_task));
    sim_event_init(&sim_task->event, "task", env, run_task);
    sim_task->task = task;
    stele_list_push(&env->process->tasks, &sim_task->link);
    int64_t at_us = sim_world_now_us(world) + 1 + sim_draw_log(sim_stream(world, SIM_STREAM_TASKS), world->task_us_max);
    poster->task_us = stele_max_i64(poster->task_us, at_us);
    sim_event_at(world, &sim_task->event, poster->task_us);
}

static struct lane *lane_get(struct sim_process *process, const void *key)
{
    if (key == NULL)
        return NULL;
    for (struct stele_list *at = process->lanes.next; at != &process->lanes; at = at->next) {
        struct lane *lane = STELE_CONTAINER_OF(at, struct lane, link);
        if (lane->key == key) {
            lane->users++;
            return lane;
        }
    }
    struct lane *lane = take(sizeof(*lane));
    *lane = (struct lane){.key = key, .users = 1};
    stele_list_init(&lane->jobs);
    stele_list_push(&process->lanes, &lane->link);
    return lane;
}

static void lane_put(struct lane *lane)
{
    if (lane == NULL || --lane->users > 0)
        return;
    stele_list_remove(&lane->link);
    free(lane);
}

static void run_done(struct sim_event *event)
{
    struct sim_job *sim_job = STELE_CONTAINER_OF(event, struct sim_job, event);
    struct stele_job *job = sim_job->job;
    lane_put(sim_job->lane);
    stele_list_remove(&sim_job->link);
    free(sim_job);
    job->done(job);
}

static struct sim_job *first_of(struct lane *lane)
{
    return stele_list_is_empty(&lane->jobs) ? NULL : STELE_CONTAINER_OF(lane->jobs.next, struct sim_job, in_lane);
}

/* On a thread: the loop may be busy, and its time is not taken. */
static void run_work(struct sim_event *event)
{
    struct sim_job *sim_job = STELE_CONTAINER_OF(event, struct sim_job, event);
    struct stele_job *job = sim_job->job;
    struct sim_env *env = sim_env_of(job->env);
    struct sim_world *world = env->process->world;
    struct lane *lane = sim_job->lane;
    if (env->process->paused_us > world->now_us) {
        sim_event_at(world, event, env->process->paused_us);
        return;
    }
    job->work(job);
    int64_t end_us = sim_world_now_us(world);
    int64_t done_us = end_us + 1 + sim_draw_log(sim_stream(world, SIM_STREAM_JOBS), world->task_us_max);
    if (lane != NULL) {
        lane->done_us = done_us = stele_max_i64(done_us, lane->done_us);
        stele_list_remove(&sim_job->in_lane);
        struct sim_job *next = first_of(lane);
        if (next != NULL)
            sim_event_at(world, &next->event, stele_max_i64(next->start_us, end_us));
    }
    sim_event_init(event, "done", env, run_done);
    sim_event_at(world, event, done_us);
    if (env->after != NULL)
        env->after(env);
}

static void env_job(struct stele_env *base, struct stele_job *job)
{
    struct sim_env *env = sim_env_of(base);
    struct sim_world *world = env->process->world;
    struct sim_job *sim_job = take(sizeof(*sim_job));
    job->env = base;
    sim_event_init(&sim_job->event, "work", NULL, run_work);
    sim_job->job = job;
    sim_job->start_us =
        sim_world_now_us(world) + 1 + sim_draw_log(sim_stream(world, SIM_STREAM_JOBS), world->job_us_max);
    sim_job->lane = lane_get(env->process, job->lane);
    stele_list_init(&sim_job->in_lane);
    stele_list_push(&env->process->jobs, &sim_job->link);
    if (sim_job->lane != NULL)
        stele_list_push(&sim_job->lane->jobs, &sim_job->in_lane);
    sim_world_reach(world, SIM_POINT_JOB);
    if (sim_job->lane == NULL || first_of(sim_job->lane) == sim_job)
        sim_event_at(world, &sim_job->event, sim_job->start_us);
    else
        sim_world_reach(world, SIM_POINT_JOB_WAITED);
}

static int64_t env_mono_us(struct stele_env *base)
{
    struct sim_env *env = sim_env_of(base);
    int64_t now_us = sim_process_mono_us(env->process, sim_world_now_us(env->process->world));
    env->seen_us = stele_max_i64(env->seen_us, now_us);
    return env->seen_us;
}

int64_t sim_wall_ms(const struct sim_world *world, int64_t skew_ms)
{
    return (int64_t)WALL_MS_FIRST * 1000 + sim_world_now_us(world) / 1000 + skew_ms;
}

static int64_t env_wall_ms(struct stele_env *base)
{
    const struct sim_process *process = sim_env_of(base)->process;
    return sim_wall_ms(process->world, process->wall_skew_ms);
}

static uint64_t env_random(struct stele_env *base)
{
    return stele_prng_u64(&sim_env_of(base)->random);
}

static void env_trace(struct stele_env *base, const struct stele_trace_event *event)
{
    struct sim_env *env = sim_env_of(base);
    struct sim_world *world = env->process->world;
    sim_world_mix(world, (uint64_t)event->kind);
    sim_world_mix(world, (uint64_t)event->a);
    if (world->is_verbose) {
        char text[512];
        (void)stele_trace_text(event, text, sizeof(text));
        sim_world_log(world, "%s: %s", env->name, text);
    }
    if (env->traced != NULL)
        env->traced(env, event);
}

static const struct stele_env_ops env_ops = {
    .mono_us = env_mono_us,
    .wall_ms = env_wall_ms,
    .random = env_random,
    .job = env_job,
    .post = env_post,
    .trace = env_trace,
};

void sim_process_begin(struct sim_process *process, struct sim_world *world, const char *name)
{
    memset(process, 0, sizeof(*process));
    process->world = world;
    process->number = world->process_count++;
    process->is_alive = true;
    (void)snprintf(process->name, sizeof(process->name), "%s", name);
    stele_list_init(&process->blocks);
    stele_list_init(&process->envs);
    stele_list_init(&process->tasks);
    stele_list_init(&process->jobs);
    stele_list_init(&process->lanes);
    stele_mem_init(&process->mem, (struct stele_mem_source){.resize = resize, .ctx = process}, 0);
}

int64_t sim_process_mono_us(const struct sim_process *process, int64_t world_us)
{
    int64_t passed_us = world_us - process->drift_from_us;
    return process->mono_from_us + passed_us + passed_us * process->drift_ppm / 1000000;
}

int64_t sim_process_world_us(const struct sim_process *process, int64_t mono_us)
{
    int64_t wanted_us = mono_us - process->mono_from_us;
    int64_t world_us =
        process->drift_from_us + (process->drift_ppm == 0
                                      ? wanted_us
                                      : (int64_t)((__int128)wanted_us * 1000000 / (1000000 + process->drift_ppm)));
    while (sim_process_mono_us(process, world_us) < mono_us)
        world_us++;
    return world_us;
}

void sim_process_drift(struct sim_process *process, int64_t ppm)
{
    int64_t now_us = sim_world_now_us(process->world);
    process->mono_from_us = sim_process_mono_us(process, now_us);
    process->drift_from_us = now_us;
    process->drift_ppm = ppm;
}

void sim_process_pause(struct sim_process *process, int64_t us)
{
    int64_t until_us = sim_world_now_us(process->world) + us;
    process->paused_us = stele_max_i64(process->paused_us, until_us);
    for (struct stele_list *at = process->envs.next; at != &process->envs; at = at->next) {
        struct sim_env *env = STELE_CONTAINER_OF(at, struct sim_env, link);
        env->busy_us = stele_max_i64(env->busy_us, until_us);
    }
}

void sim_process_drop_work(struct sim_process *process)
{
    struct sim_world *world = process->world;
    while (!stele_list_is_empty(&process->tasks)) {
        struct sim_task *task = STELE_CONTAINER_OF(process->tasks.next, struct sim_task, link);
        sim_event_cancel(world, &task->event);
        stele_list_remove(&task->link);
        free(task);
    }
    while (!stele_list_is_empty(&process->jobs)) {
        struct sim_job *job = STELE_CONTAINER_OF(process->jobs.next, struct sim_job, link);
        sim_event_cancel(world, &job->event);
        stele_list_remove(&job->in_lane);
        lane_put(job->lane);
        stele_list_remove(&job->link);
        free(job);
    }
}

void sim_process_end(struct sim_process *process)
{
    sim_process_drop_work(process);
    while (!stele_list_is_empty(&process->blocks)) {
        struct block *block = STELE_CONTAINER_OF(process->blocks.next, struct block, link);
        stele_list_remove(&block->link);
        free(block);
    }
    process->is_alive = false;
}

void sim_env_init(struct sim_env *env, struct sim_process *process, const char *name, struct stele_vfs *vfs)
{
    memset(env, 0, sizeof(*env));
    env->env = (struct stele_env){.ops = &env_ops, .mem = &process->mem, .vfs = vfs, .metrics = &env->metrics};
    env->process = process;
    (void)snprintf(env->name, sizeof(env->name), "%s%s%s", process->name, name[0] == 0 ? "" : "/", name);
    uint64_t number = (uint64_t)process->number * 64;
    for (struct stele_list *at = process->envs.next; at != &process->envs; at = at->next)
        number++;
    stele_prng_init(&env->random, process->world->seed, ((uint64_t)SIM_STREAM_CORE << 32) + number);
    stele_list_push(&process->envs, &env->link);
}
