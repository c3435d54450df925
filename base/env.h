/* The world as the core sees it: clocks, randomness, memory, files, jobs, messages between shards, trace.
 * Every shard has an env of its own; the real host backs it with a libevent loop and threads, the simulator with
 * virtual time and one seed. Calls out of the core only enqueue: nothing re-enters it. */
#ifndef STELE_BASE_ENV_H
#define STELE_BASE_ENV_H

#include "base/mem.h"
#include "base/metrics.h"
#include "base/trace.h"
#include "base/vfs.h"

/** Work that runs on a shard's loop. Owned by the poster until `run` is called; `run` may free it. */
struct stele_task {
    void (*run)(struct stele_task *task);
    struct stele_task *next; /* the queue's */
};

/** Work that may block: `work` runs on a job thread and touches only sealed or handed-over state; then `done` runs on
 * the loop of the env that started it. Jobs of one `lane` run one after another in order; lane NULL is free. */
struct stele_job {
    void (*work)(struct stele_job *job);
    void (*done)(struct stele_job *job);
    const void *lane;
    struct stele_env *env;  /* set by start */
    struct stele_task task; /* the host's */
};

struct stele_env;

struct stele_env_ops {
    int64_t (*mono_us)(struct stele_env *env); /* never goes back; for every deadline */
    int64_t (*wall_ms)(struct stele_env *env); /* Unix time; for record times and retention; may jump */
    uint64_t (*random)(struct stele_env *env);
    void (*job)(struct stele_env *env, struct stele_job *job);
    void (*post)(struct stele_env *env, struct stele_task *task); /* from any thread; order kept per poster */
    /* The same for what is in no hurry: an env that waits is not woken for it, it runs with what comes next. NULL: post
     * does it. */
    void (*post_idly)(struct stele_env *env, struct stele_task *task);
    void (*trace)(struct stele_env *env, const struct stele_trace_event *event);
};

struct stele_env {
    const struct stele_env_ops *ops;
    struct stele_mem *mem;
    struct stele_vfs *vfs;
    struct stele_metrics *metrics;
};

static inline int64_t stele_env_mono_us(struct stele_env *env)
{
    return env->ops->mono_us(env);
}

static inline int64_t stele_env_mono_ms(struct stele_env *env)
{
    return env->ops->mono_us(env) / 1000;
}

static inline void stele_env_post_idly(struct stele_env *env, struct stele_task *task)
{
    if (env->ops->post_idly != NULL)
        env->ops->post_idly(env, task);
    else
        env->ops->post(env, task);
}

static inline int64_t stele_env_wall_ms(struct stele_env *env)
{
    return env->ops->wall_ms(env);
}

#endif
