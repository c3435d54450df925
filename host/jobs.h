/* A small pool of threads that runs jobs (base/env.h). Jobs of one lane run one after another in the order of their
 * start; lane NULL is free. */
#ifndef STELE_HOST_JOBS_H
#define STELE_HOST_JOBS_H

#include "base/env.h"

struct stele_jobs;

/** NULL when out of memory or threads. */
STELE_MUST_CHECK struct stele_jobs *stele_jobs_new(struct stele_mem *mem, int thread_count);
/** Waits for the jobs that run; those that have not begun are dropped. NULL is fine. */
void stele_jobs_free(struct stele_jobs *jobs);
/** Queues a job whose env is set; its work runs on a thread, then `job->task` is posted to the env. From any thread. */
void stele_jobs_start(struct stele_jobs *jobs, struct stele_job *job);

#endif
