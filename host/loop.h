/* One event loop over libevent: the env of one shard (or of one client) in the real world. It has a mailbox for tasks
 * of other threads and one timer, armed to the next deadline of the core that it drives.
 *
 * Invariants
 *  1. Everything of a loop but env->post and stele_loop_stop is called from the one thread that runs it.
 *  2. An iteration waits for events, runs what they brought, then the mailbox and what the loop's own thread posted,
 * ticks the core when its deadline has come, then runs the hooks. Nothing is called from inside a call of the core.
 *  3. Only a loop that waits is woken: one that does not looks into its mailbox before it waits. */
#ifndef STELE_HOST_LOOP_H
#define STELE_HOST_LOOP_H

#include "base/env.h"
#include "base/list.h"

struct event_base;
struct stele_jobs;
struct stele_log_sink;
struct stele_loop;

struct stele_loop_options {
    struct stele_mem *mem;             /* shared by all loops of a process */
    struct stele_vfs *vfs;             /* may be NULL where no file is used */
    struct stele_jobs *jobs;           /* borrowed; NULL: a job's work runs at once, in the caller */
    const struct stele_log_sink *sink; /* borrowed; NULL: events are dropped */
};

/** What a loop drives: the monotonic ms of the next deadline (INT64_MAX none), and the call when it has come. */
struct stele_loop_core {
    int64_t (*deadline)(void *arg);
    void (*tick)(void *arg);
    void *arg;
};

/** Called at the end of every iteration; belongs to whoever adds it, until the loop is freed. */
struct stele_loop_hook {
    struct stele_list link;
    void (*run)(struct stele_loop_hook *hook);
};

/** NULL when out of memory or descriptors. */
STELE_MUST_CHECK struct stele_loop *stele_loop_new(const struct stele_loop_options *options);
/** Tasks still in the mailbox are dropped: the threads that may post have ended before. NULL is fine. */
void stele_loop_free(struct stele_loop *loop);

struct stele_env *stele_loop_env(struct stele_loop *loop);
struct event_base *stele_loop_base(struct stele_loop *loop);
/** To be called by whatever the loop's base calls, first of all: the time from there to the end of the iteration is
 * that for which others wait (metric loop_stall). */
void stele_loop_woke(struct stele_loop *loop);
void stele_loop_set_core(struct stele_loop *loop, const struct stele_loop_core *core);
void stele_loop_add_hook(struct stele_loop *loop, struct stele_loop_hook *hook);

/** Runs the hooks now: what was queued outside of an iteration leaves before the next one waits. */
void stele_loop_flush(struct stele_loop *loop);
/** Runs until stele_loop_stop. */
void stele_loop_run(struct stele_loop *loop);
/** One iteration, waiting at most wait_ms (-1: as long as it takes) for something to happen; it may end sooner for
 * nothing. */
void stele_loop_run_once(struct stele_loop *loop, int64_t wait_ms);
/** Ends stele_loop_run after its current iteration; from any thread. */
void stele_loop_stop(struct stele_loop *loop);

#endif
