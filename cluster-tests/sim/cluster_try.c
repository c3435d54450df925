#include "cluster-tests/sim/cluster_try.h"

#include "base/check.h"
#include "cluster-tests/sim/sim_image.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *cluster_shared(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void copy_plan(const struct cluster_plan *plan, struct cluster_plan *out_copy)
{
    *out_copy = *plan;
    out_copy->lines = NULL;
    out_copy->count = out_copy->capacity = 0;
    for (int64_t i = 0; i < plan->count; i++)
        cluster_plan_add(out_copy, &plan->lines[i].fault);
}

static void failed(void *arg, const char *text)
{
    struct cluster_try *try = arg;
    (void)snprintf(try->failure, sizeof(try->failure), "%s", text);
}

void cluster_try(const struct cluster_plan *plan, bool is_verbose, bool is_quiet, struct cluster_try *out_try)
{
    int status = 0;
    memset(out_try, 0, sizeof(*out_try));
    (void)fflush(NULL);
    pid_t pid = fork();
    STELE_ASSERT(pid >= 0);
    if (pid == 0) {
        struct cluster_plan copy;
        copy_plan(plan, &copy);
        if (is_quiet) {
            int null = open("/dev/null", O_WRONLY);
            STELE_ASSERT(null >= 0 && dup2(null, STDERR_FILENO) >= 0);
        }
        cluster_run(&copy, is_verbose, failed, out_try, &out_try->result);
        out_try->is_fine = true;
        exit(0);
    }
    STELE_ASSERT(waitpid(pid, &status, 0) == pid);
    if (status != 0)
        out_try->is_fine = false;
    if (WIFSIGNALED(status))
        (void)snprintf(out_try->failure, sizeof(out_try->failure), "ended by signal %d", WTERMSIG(status));
    else if (!out_try->is_fine && out_try->failure[0] == 0)
        (void)snprintf(out_try->failure, sizeof(out_try->failure), "ended with %d", WEXITSTATUS(status));
}

bool cluster_is_same_failure(const char *a, const char *b)
{
    while (*a != 0 && *b != 0) {
        while (isdigit((unsigned char)*a) || *a == '-')
            a++;
        while (isdigit((unsigned char)*b) || *b == '-')
            b++;
        if (*a != *b)
            return false;
        if (*a != 0) {
            a++;
            b++;
        }
    }
    return *a == *b;
}

/* Shrinking. */

struct shrinker {
    struct cluster_plan *plan;
    struct cluster_try *try;
    char failure[512];
    time_t until;
    int tries;
};

static bool is_over(const struct shrinker *shrinker)
{
    return time(NULL) > shrinker->until;
}

static bool still_fails(struct shrinker *shrinker, const struct cluster_plan *plan)
{
    shrinker->tries++;
    cluster_try(plan, false, true, shrinker->try);
    return !shrinker->try->is_fine && cluster_is_same_failure(shrinker->try->failure, shrinker->failure);
}

/* Leaves out the lines [from, to), when it fails as well without them. */
static bool leave_out(struct shrinker *shrinker, int64_t from, int64_t to)
{
    struct cluster_plan less = *shrinker->plan;
    less.lines = NULL;
    less.count = less.capacity = 0;
    for (int64_t i = 0; i < shrinker->plan->count; i++) {
        if (i < from || i >= to)
            cluster_plan_add(&less, &shrinker->plan->lines[i].fault);
    }
    bool fails = still_fails(shrinker, &less);
    if (fails) {
        cluster_plan_free(shrinker->plan);
        *shrinker->plan = less;
        (void)fprintf(stderr, "%lld lines fail (try %d)\n", (long long)less.count, shrinker->tries);
    } else {
        cluster_plan_free(&less);
    }
    return fails;
}

static void drop_lines(struct shrinker *shrinker)
{
    for (int64_t size = (shrinker->plan->count + 1) / 2; size > 0; size = size == 1 ? 0 : (size + 1) / 2) {
        for (int64_t at = 0; at < shrinker->plan->count && !is_over(shrinker);) {
            if (!leave_out(shrinker, at, stele_min_i64(at + size, shrinker->plan->count)))
                at += size;
        }
    }
}

static void shorten(struct shrinker *shrinker)
{
    for (int64_t i = 0; i < shrinker->plan->count; i++) {
        struct cluster_fault *fault = &shrinker->plan->lines[i].fault;
        while (fault->for_us > 100000 && !is_over(shrinker)) {
            int64_t before_us = fault->for_us;
            fault->for_us /= 2;
            if (!still_fails(shrinker, shrinker->plan)) {
                fault->for_us = before_us;
                break;
            }
        }
    }
}

bool cluster_shrink(struct cluster_plan *plan, int seconds, char out_failure[512])
{
    struct shrinker shrinker = {
        .plan = plan, .try = cluster_shared(sizeof(struct cluster_try)), .until = time(NULL) + seconds};
    cluster_try(plan, false, true, shrinker.try);
    bool fails = !shrinker.try->is_fine;
    if (fails) {
        (void)snprintf(shrinker.failure, sizeof(shrinker.failure), "%s", shrinker.try->failure);
        (void)snprintf(out_failure, sizeof(shrinker.failure), "%s", shrinker.failure);
        (void)fprintf(stderr, "%lld lines fail: %s\n", (long long)plan->count, shrinker.failure);
        drop_lines(&shrinker);
        drop_lines(&shrinker);
        shorten(&shrinker);
    }
    STELE_ASSERT(munmap(shrinker.try, sizeof(*shrinker.try)) == 0);
    return fails;
}
