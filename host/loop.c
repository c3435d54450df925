#include "host/loop.h"

#include "base/check.h"
#include "base/prng.h"
#include "host/clock.h"
#include "host/jobs.h"
#include "host/log_sink.h"

#include <event2/event.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { OWN_TURNS = 4 };

/* Tasks in the order in which they came. */
struct tasks {
    struct stele_task *first, *last;
};

struct stele_loop {
    struct stele_env env;
    struct stele_metrics metrics;
    struct stele_jobs *jobs;
    const struct stele_log_sink *sink;
    struct stele_prng prng;
    struct event_base *base;
    struct event *timer, *mail;
    struct stele_loop_core core;
    struct stele_list hooks;
    int timer_fd;
    int64_t armed_ms; /* when the timer fires, at the latest wanted time or before; INT64_MAX never */
    int64_t busy_us;  /* monotonic, when the iteration's wait ended; 0: it has not */

    struct tasks own; /* posted by the loop's thread itself */
    int mail_fd;
    pthread_mutex_t lock; /* guards the two below */
    struct tasks mailbox; /* posted by others */
    bool is_waiting;      /* who puts something into the mailbox must wake it */
    _Atomic bool is_stopping;
};

/* The loop whose iteration this thread is in. */
static _Thread_local struct stele_loop *running;

static struct stele_loop *loop_of(struct stele_env *env)
{
    return STELE_CONTAINER_OF(env, struct stele_loop, env);
}

static int64_t env_mono_us(struct stele_env *env)
{
    (void)env;
    return stele_clock_mono_us();
}

static int64_t env_wall_ms(struct stele_env *env)
{
    (void)env;
    return stele_clock_wall_ms();
}

static uint64_t env_random(struct stele_env *env)
{
    return stele_prng_u64(&loop_of(env)->prng);
}

static void wake(struct stele_loop *loop)
{
    uint64_t one = 1;
    /* The counter cannot overflow: it is read before it could be written 2^64 times. */
    ssize_t written = write(loop->mail_fd, &one, sizeof(one));
    STELE_ASSERT(written == (ssize_t)sizeof(one));
}

static void put(struct tasks *tasks, struct stele_task *task)
{
    task->next = NULL;
    if (tasks->first == NULL)
        tasks->first = task;
    else
        tasks->last->next = task;
    tasks->last = task;
}

static void env_post(struct stele_env *env, struct stele_task *task)
{
    struct stele_loop *loop = loop_of(env);
    if (running == loop) {
        put(&loop->own, task);
        return;
    }
    pthread_mutex_lock(&loop->lock);
    bool was_waiting = loop->is_waiting;
    loop->is_waiting = false;
    put(&loop->mailbox, task);
    pthread_mutex_unlock(&loop->lock);
    if (was_waiting) /* not under the lock, which is the first that the woken one takes */
        wake(loop);
}

static void env_post_idly(struct stele_env *env, struct stele_task *task)
{
    struct stele_loop *loop = loop_of(env);
    if (running == loop) {
        put(&loop->own, task);
        return;
    }
    pthread_mutex_lock(&loop->lock);
    put(&loop->mailbox, task);
    pthread_mutex_unlock(&loop->lock);
}

static void job_done(struct stele_task *task)
{
    struct stele_job *job = STELE_CONTAINER_OF(task, struct stele_job, task);
    job->done(job);
}

static void env_job(struct stele_env *env, struct stele_job *job)
{
    struct stele_loop *loop = loop_of(env);
    job->env = env;
    job->task.run = job_done;
    if (loop->jobs != NULL) {
        stele_jobs_start(loop->jobs, job);
        return;
    }
    job->work(job);
    env_post(env, &job->task);
}

static void env_trace(struct stele_env *env, const struct stele_trace_event *event)
{
    struct stele_loop *loop = loop_of(env);
    if (loop->sink != NULL)
        stele_log_sink_event(loop->sink, event);
}

static const struct stele_env_ops env_ops = {
    .mono_us = env_mono_us,
    .wall_ms = env_wall_ms,
    .random = env_random,
    .job = env_job,
    .post = env_post,
    .post_idly = env_post_idly,
    .trace = env_trace,
};

void stele_loop_woke(struct stele_loop *loop)
{
    if (loop->busy_us == 0)
        loop->busy_us = stele_clock_mono_us();
}

/* Before the loop waits again. */
static void note_stall(struct stele_loop *loop)
{
    if (loop->busy_us != 0)
        STELE_METRIC_RAISE(&loop->metrics, loop_stall, stele_clock_mono_us() - loop->busy_us);
    loop->busy_us = 0;
}

static void timer_fired(evutil_socket_t fd, short what, void *arg)
{
    struct stele_loop *loop = arg;
    uint64_t count = 0;
    (void)what;
    stele_loop_woke(loop);
    ssize_t got = read((int)fd, &count, sizeof(count));
    (void)got; /* that it was armed to a time is over, read or not */
    loop->armed_ms = INT64_MAX;
}

static void mail_came(evutil_socket_t fd, short what, void *arg)
{
    struct stele_loop *loop = arg;
    uint64_t count = 0;
    (void)what;
    stele_loop_woke(loop);
    ssize_t got = read((int)fd, &count, sizeof(count));
    (void)got; /* nothing to read: the mailbox decides */
}

static void run_all(struct stele_loop *loop, struct tasks *inout_tasks)
{
    struct stele_task *task = inout_tasks->first;
    *inout_tasks = (struct tasks){.first = NULL};
    if (task != NULL)
        stele_loop_woke(loop);
    while (task != NULL) {
        struct stele_task *next = task->next;
        task->run(task);
        task = next;
    }
}

/* What others posted, then what this thread did; that may lead to more, which has a few turns before the next wait so
 * that what it sends leaves with the rest. */
static void run_tasks(struct stele_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct tasks mail = loop->mailbox;
    loop->mailbox = (struct tasks){.first = NULL};
    loop->is_waiting = false;
    pthread_mutex_unlock(&loop->lock);
    run_all(loop, &mail);
    for (int turn = 0; turn < OWN_TURNS && loop->own.first != NULL; turn++)
        run_all(loop, &loop->own);
}

/* True when there is nothing to run: from here on it has to be woken. */
static bool begin_wait(struct stele_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->is_waiting = loop->own.first == NULL && loop->mailbox.first == NULL;
    bool may_wait = loop->is_waiting;
    pthread_mutex_unlock(&loop->lock);
    return may_wait;
}

static bool make_events(struct stele_loop *loop)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return false;
    if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
        loop->base = event_base_new_with_config(config);
    event_config_free(config);
    if (loop->base == NULL)
        return false;
    loop->timer = event_new(loop->base, loop->timer_fd, EV_READ | EV_PERSIST, timer_fired, loop);
    loop->mail = event_new(loop->base, loop->mail_fd, EV_READ | EV_PERSIST, mail_came, loop);
    return loop->timer != NULL && loop->mail != NULL && event_add(loop->timer, NULL) == 0 &&
           event_add(loop->mail, NULL) == 0;
}

struct stele_loop *stele_loop_new(const struct stele_loop_options *options)
{
    struct stele_loop *loop = stele_mem_alloc(options->mem, STELE_MEM_HOST, sizeof(*loop));
    if (loop == NULL)
        return NULL;
    loop->env =
        (struct stele_env){.ops = &env_ops, .mem = options->mem, .vfs = options->vfs, .metrics = &loop->metrics};
    loop->jobs = options->jobs;
    loop->sink = options->sink;
    loop->armed_ms = INT64_MAX;
    stele_list_init(&loop->hooks);
    stele_prng_init(&loop->prng, stele_clock_entropy(), stele_clock_entropy());
    pthread_mutex_init(&loop->lock, NULL);
    loop->mail_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->mail_fd < 0 || loop->timer_fd < 0 || !make_events(loop)) {
        stele_loop_free(loop);
        return NULL;
    }
    return loop;
}

void stele_loop_free(struct stele_loop *loop)
{
    if (loop == NULL)
        return;
    if (loop->mail != NULL)
        event_free(loop->mail);
    if (loop->timer != NULL)
        event_free(loop->timer);
    if (loop->base != NULL)
        event_base_free(loop->base);
    if (loop->timer_fd >= 0)
        close(loop->timer_fd);
    if (loop->mail_fd >= 0)
        close(loop->mail_fd);
    pthread_mutex_destroy(&loop->lock);
    stele_mem_free(loop->env.mem, loop);
}

struct stele_env *stele_loop_env(struct stele_loop *loop)
{
    return &loop->env;
}

struct event_base *stele_loop_base(struct stele_loop *loop)
{
    return loop->base;
}

void stele_loop_set_core(struct stele_loop *loop, const struct stele_loop_core *core)
{
    loop->core = *core;
}

void stele_loop_add_hook(struct stele_loop *loop, struct stele_loop_hook *hook)
{
    stele_list_push(&loop->hooks, &hook->link);
}

static void run_hooks(struct stele_loop *loop)
{
    struct stele_list *at = loop->hooks.next;
    while (at != &loop->hooks) {
        struct stele_list *next = at->next;
        struct stele_loop_hook *hook = STELE_CONTAINER_OF(at, struct stele_loop_hook, link);
        hook->run(hook);
        at = next;
    }
}

void stele_loop_flush(struct stele_loop *loop)
{
    run_hooks(loop);
}

/* The earlier of the core's deadline and the end of the wait. */
static int64_t wake_time(struct stele_loop *loop, int64_t now_ms, int64_t wait_ms)
{
    int64_t deadline_ms = loop->core.deadline != NULL ? loop->core.deadline(loop->core.arg) : INT64_MAX;
    if (wait_ms >= 0)
        deadline_ms = stele_min_i64(deadline_ms, now_ms + wait_ms);
    return deadline_ms;
}

/* Deadlines mostly move away before they come: then the timer fires at the old one, once and for nothing, and no system
 * call is made each time. */
static void arm(struct stele_loop *loop, int64_t deadline_ms)
{
    if (deadline_ms >= loop->armed_ms)
        return;
    loop->armed_ms = deadline_ms;
    struct itimerspec at = {.it_value = {.tv_sec = deadline_ms / 1000, .tv_nsec = deadline_ms % 1000 * 1000000}};
    STELE_ASSERT(timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
}

static void iterate(struct stele_loop *loop, int64_t wait_ms)
{
    struct stele_loop *outer = running;
    running = loop;
    int64_t now_ms = stele_clock_mono_us() / 1000;
    int64_t deadline_ms = wake_time(loop, now_ms, wait_ms);
    int flags = EVLOOP_ONCE;
    run_hooks(loop); /* what was asked for between two iterations goes out before the wait */
    if (deadline_ms <= now_ms || !begin_wait(loop))
        flags |= EVLOOP_NONBLOCK;
    else
        arm(loop, deadline_ms);
    (void)event_base_loop(loop->base, flags); /* only "no events" can come back, and the mailbox is always one */
    run_tasks(loop);
    if (loop->core.tick != NULL && loop->core.deadline(loop->core.arg) <= stele_clock_mono_us() / 1000)
        loop->core.tick(loop->core.arg);
    run_hooks(loop);
    note_stall(loop);
    running = outer;
}

/* The caller may wait for the descriptors elsewhere until the next one: what is left to do shows there. */
void stele_loop_run_once(struct stele_loop *loop, int64_t wait_ms)
{
    iterate(loop, wait_ms);
    if (!begin_wait(loop))
        wake(loop);
}

void stele_loop_run(struct stele_loop *loop)
{
    while (!loop->is_stopping)
        iterate(loop, -1);
    loop->is_stopping = false;
}

void stele_loop_stop(struct stele_loop *loop)
{
    loop->is_stopping = true;
    wake(loop);
}
