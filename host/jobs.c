/* Invariants
 *  1. `lock` guards everything but the jobs' own work.
 *  2. The queue is in order of start; a thread takes the first job whose lane no running job has, so jobs of a lane
 * begin in order and never overlap.
 *  3. For every job that may run and that nobody has taken, an idle thread was woken or a thread is on its way back to
 * the queue: who starts a job wakes one, and who frees a lane looks at the queue itself. */
#include "host/jobs.h"

#include "base/check.h"

#include <pthread.h>
#include <signal.h>

struct stele_jobs {
    struct stele_mem *mem;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct stele_job *first, *last; /* linked through task.next */
    const void **lanes;             /* of the jobs that run, one a thread; NULL none */
    pthread_t *threads;
    int thread_count, started_count, idle_count;
    bool is_stopping;
};

struct worker {
    struct stele_jobs *jobs;
    int index;
};

static struct stele_job *job_of(struct stele_task *task)
{
    return task == NULL ? NULL : STELE_CONTAINER_OF(task, struct stele_job, task);
}

static bool lane_runs(const struct stele_jobs *jobs, const void *lane)
{
    for (int i = 0; i < jobs->thread_count; i++) {
        if (jobs->lanes[i] == lane)
            return lane != NULL;
    }
    return false;
}

static struct stele_job *take(struct stele_jobs *jobs)
{
    struct stele_job *before = NULL;
    for (struct stele_job *job = jobs->first; job != NULL; before = job, job = job_of(job->task.next)) {
        if (lane_runs(jobs, job->lane))
            continue;
        if (before == NULL)
            jobs->first = job_of(job->task.next);
        else
            before->task.next = job->task.next;
        if (jobs->last == job)
            jobs->last = before;
        return job;
    }
    return NULL;
}

static void *work(void *arg)
{
    struct worker worker = *(struct worker *)arg;
    struct stele_jobs *jobs = worker.jobs;
    stele_mem_free(jobs->mem, arg);
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct stele_job *job = jobs->is_stopping ? NULL : take(jobs);
        if (job == NULL) {
            if (jobs->is_stopping)
                break;
            jobs->idle_count++;
            pthread_cond_wait(&jobs->wake, &jobs->lock);
            jobs->idle_count--;
            continue;
        }
        jobs->lanes[worker.index] = job->lane;
        pthread_mutex_unlock(&jobs->lock);
        job->work(job);
        /* The lane is free only after the result was posted, so that results of a lane keep their order too. From then
         * on the job is its owner's again. */
        job->env->ops->post(job->env, &job->task);
        pthread_mutex_lock(&jobs->lock);
        jobs->lanes[worker.index] = NULL;
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static bool start_threads(struct stele_jobs *jobs)
{
    sigset_t all, before;
    bool is_good = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the main thread */
    for (int i = 0; is_good && i < jobs->thread_count; i++) {
        struct worker *worker = stele_mem_alloc(jobs->mem, STELE_MEM_HOST, sizeof(*worker));
        if (worker != NULL)
            *worker = (struct worker){.jobs = jobs, .index = i};
        is_good = worker != NULL && pthread_create(&jobs->threads[i], NULL, work, worker) == 0;
        if (is_good)
            jobs->started_count++;
        else
            stele_mem_free(jobs->mem, worker);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_good;
}

struct stele_jobs *stele_jobs_new(struct stele_mem *mem, int thread_count)
{
    STELE_ASSERT(thread_count > 0);
    struct stele_jobs *jobs = stele_mem_alloc(mem, STELE_MEM_HOST, sizeof(*jobs));
    if (jobs == NULL)
        return NULL;
    *jobs = (struct stele_jobs){.mem = mem, .thread_count = thread_count};
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->wake, NULL);
    jobs->lanes = stele_mem_array(mem, STELE_MEM_HOST, (size_t)thread_count, sizeof(*jobs->lanes));
    jobs->threads = stele_mem_array(mem, STELE_MEM_HOST, (size_t)thread_count, sizeof(*jobs->threads));
    if (jobs->lanes == NULL || jobs->threads == NULL || !start_threads(jobs)) {
        stele_jobs_free(jobs);
        return NULL;
    }
    return jobs;
}

void stele_jobs_free(struct stele_jobs *jobs)
{
    if (jobs == NULL)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->is_stopping = true;
    pthread_cond_broadcast(&jobs->wake);
    pthread_mutex_unlock(&jobs->lock);
    for (int i = 0; i < jobs->started_count; i++)
        pthread_join(jobs->threads[i], NULL);
    pthread_cond_destroy(&jobs->wake);
    pthread_mutex_destroy(&jobs->lock);
    stele_mem_free(jobs->mem, jobs->threads);
    stele_mem_free(jobs->mem, jobs->lanes);
    stele_mem_free(jobs->mem, jobs);
}

void stele_jobs_start(struct stele_jobs *jobs, struct stele_job *job)
{
    STELE_ASSERT(job->env != NULL);
    job->task.next = NULL;
    pthread_mutex_lock(&jobs->lock);
    if (jobs->last == NULL)
        jobs->first = job;
    else
        jobs->last->task.next = &job->task;
    jobs->last = job;
    bool wakes = jobs->idle_count > 0 && !lane_runs(jobs, job->lane);
    pthread_mutex_unlock(&jobs->lock);
    if (wakes) /* not under the lock, which is the first that the woken one takes */
        pthread_cond_signal(&jobs->wake);
}
