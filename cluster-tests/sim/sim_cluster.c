/* The simulator: a whole cluster on virtual time, under faults, from one seed (cluster_run.h).
 *
 *   stele-sim [--seed S] [--seeds N] [--nodes N] [--jobs N] [--failures N] [--verbose] [--check-determinism]
 *             [--reach-all] [--acknowledged N] [--script-out FILE] [--config FILE]
 *   stele-sim --script FILE [--seeds N] [--failures N] [--verbose]
 *   stele-sim --seed S | --script FILE  --shrink [--seconds N]
 *   stele-sim --one-node ...            a node alone, see sim_node.c
 *   stele-sim-mutations --mutation N ...  with a guard off (replication/guard.h), see test_mutations.sh
 *
 * Without arguments it runs seeds 1 to SEEDS, each in a process of its own, some of them twice to see that they go the
 * same way; prints what they reached, and fails when something was never reached (--reach-all) or when half of them
 * have fewer than ACKNOWLEDGED_MIN records acknowledged (--acknowledged). With --seed it replays one, with --script the
 * faults of a file, with --seeds in as many worlds, from its seed on; --shrink leaves out what a failure does not need,
 * and prints the rest as a script. --config: cluster_config.h. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_config.h"
#include "cluster-tests/sim/cluster_try.h"
#include "cluster-tests/sim/sim_image.h"
#include "cluster-tests/sim/sim_node.h"
#include "replication/guard.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SEEDS = 1000,
    JOBS_MAX = 64,
    AGAIN_EVERY = 20,
    FAILURES_MAX = 20,
    SHRINK_SECONDS = 600,
    ACKNOWLEDGED_MIN = 1000
};

struct wish {
    uint64_t first, seeds;
    int64_t jobs, failures_max;
    int seconds, node_count;
    const char *script, *script_out, *config_path;
    struct cluster_config config;
    int64_t acknowledged_min; /* by half of the seeds; -1: it is not looked at */
    bool is_verbose, shrinks, checks_determinism, must_reach_all;
};

/* Of all jobs, in memory that they share. */
struct sum {
    int64_t next, failures, ended;
    struct cluster_result total;
    int64_t acknowledged[]; /* by seed */
};

static bool try_seed(const struct wish *wish, uint64_t seed, bool is_twice, struct cluster_try *try)
{
    struct cluster_plan plan;
    cluster_config_plan(&wish->config, &plan, seed, wish->node_count);
    cluster_try(&plan, false, false, try);
    bool is_fine = try->is_fine;
    if (!is_fine)
        (void)fprintf(stderr, "seed %llu: %s\n  stele-sim --seed %llu --shrink\n", (unsigned long long)seed,
                      try->failure, (unsigned long long)seed);
    if (is_fine && is_twice) {
        uint64_t hash = try->result.hash;
        cluster_try(&plan, false, false, try);
        is_fine = try->is_fine && try->result.hash == hash;
        if (!is_fine)
            (void)fprintf(stderr, "seed %llu went two ways: %016llx, %016llx\n", (unsigned long long)seed,
                          (unsigned long long)hash, (unsigned long long)try->result.hash);
    }
    cluster_plan_free(&plan);
    return is_fine;
}

static void add(struct cluster_result *total, const struct cluster_result *result)
{
    total->events += result->events;
    total->simulated_us += result->simulated_us;
    total->acknowledged += result->acknowledged;
    for (int i = 0; i < CLUSTER_POINT_COUNT; i++)
        total->reached[i] += result->reached[i];
    for (int i = 0; i < CLUSTER_CLASS_COUNT; i++)
        total->faults[i] += result->faults[i];
    for (int i = 0; i < SIM_POINT_COUNT; i++)
        total->world[i] += result->world[i];
}

/* One job takes the seeds whose turn it is. */
static void run_share(const struct wish *wish, int64_t job, struct sum *sum)
{
    struct cluster_try *try = cluster_shared(sizeof(*try));
    for (uint64_t i = (uint64_t)job; i < wish->seeds && sum->failures < wish->failures_max; i += (uint64_t)wish->jobs) {
        bool is_twice = wish->checks_determinism || i % AGAIN_EVERY == 0;
        bool is_fine = try_seed(wish, wish->first + i, is_twice, try);
        sum->acknowledged[i] = try->result.acknowledged;
        sum->failures += !is_fine;
        sum->ended++;
        add(&sum->total, &try->result);
    }
}

static int compare_i64(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* Of all processes that ended. */
static double cpu_seconds(void)
{
    struct rusage usage;
    int failed = getrusage(RUSAGE_CHILDREN, &usage);
    STELE_ASSERT(failed == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void print_sum(const struct sum *sum)
{
    const struct cluster_result *total = &sum->total;
    double simulated = (double)total->simulated_us / 1e6, cpu = cpu_seconds();
    (void)printf("%lld seeds, %lld failed; %lld events, %.0f simulated seconds, %.0f of a core: %.0f events and %.0f "
                 "simulated seconds in each\n",
                 (long long)sum->ended, (long long)sum->failures, (long long)total->events, simulated, cpu,
                 (double)total->events / cpu, simulated / cpu);
    (void)printf("reached:");
    for (int i = 0; i < CLUSTER_POINT_COUNT; i++)
        (void)printf("%s %s %lld", i == 0 ? "" : ",", cluster_point_text((enum cluster_point)i),
                     (long long)total->reached[i]);
    (void)printf("\nfaults:");
    for (int i = 0; i < CLUSTER_CLASS_COUNT; i++)
        (void)printf("%s %s %lld", i == 0 ? "" : ",", cluster_class_name((enum cluster_class)i),
                     (long long)total->faults[i]);
    (void)printf("\nworld:");
    for (int i = 0; i < SIM_POINT_COUNT; i++)
        (void)printf("%s %s %lld", i == 0 ? "" : ",", sim_point_text((enum sim_point)i), (long long)total->world[i]);
    (void)printf("\n");
}

/* What many seeds together must have reached: a place that none of them comes to is not tested. */
static bool is_all_reached(const struct sum *sum)
{
    bool is_all = true;
    for (int i = 0; i < CLUSTER_POINT_COUNT; i++) {
        if (sum->total.reached[i] == 0)
            (void)fprintf(stderr, "never reached: %s\n", cluster_point_text((enum cluster_point)i));
        is_all = is_all && sum->total.reached[i] > 0;
    }
    for (int i = 0; i < CLUSTER_CLASS_COUNT; i++) {
        if (sum->total.faults[i] == 0)
            (void)fprintf(stderr, "never happened: %s\n", cluster_class_name((enum cluster_class)i));
        is_all = is_all && sum->total.faults[i] > 0;
    }
    return is_all;
}

static int run_many(const struct wish *wish)
{
    size_t bytes = sizeof(struct sum) + (size_t)wish->seeds * sizeof(int64_t);
    struct sum *all = cluster_shared(bytes);
    struct sum **sums = cluster_shared((size_t)wish->jobs * sizeof(*sums));
    for (int64_t job = 0; job < wish->jobs; job++) {
        sums[job] = cluster_shared(bytes);
        (void)fflush(NULL);
        pid_t pid = fork();
        STELE_ASSERT(pid >= 0);
        if (pid == 0) {
            run_share(wish, job, sums[job]);
            exit(0);
        }
    }
    for (int64_t job = 0; job < wish->jobs; job++)
        STELE_ASSERT(wait(NULL) > 0);
    for (int64_t job = 0; job < wish->jobs; job++) {
        all->failures += sums[job]->failures;
        all->ended += sums[job]->ended;
        add(&all->total, &sums[job]->total);
        for (uint64_t i = 0; i < wish->seeds; i++)
            all->acknowledged[i] += sums[job]->acknowledged[i];
    }
    qsort(all->acknowledged, (size_t)wish->seeds, sizeof(int64_t), compare_i64);
    int64_t median = all->acknowledged[wish->seeds / 2];
    print_sum(all);
    (void)printf("acknowledged a seed: median %lld, least %lld\n", (long long)median, (long long)all->acknowledged[0]);
    bool is_fine = all->failures == 0 && all->ended == (int64_t)wish->seeds;
    if (wish->must_reach_all)
        is_fine = is_all_reached(all) && is_fine;
    if (median < wish->acknowledged_min) {
        (void)fprintf(stderr, "too little is acknowledged: half of the seeds are to have %lld records\n",
                      (long long)wish->acknowledged_min);
        is_fine = false;
    }
    return is_fine ? 0 : 1;
}

static int run_plan(const struct wish *wish, struct cluster_plan *plan)
{
    char failure[512] = "";
    if (wish->script_out != NULL) {
        FILE *file = fopen(wish->script_out, "w");
        if (file == NULL) {
            (void)fprintf(stderr, "%s cannot be written\n", wish->script_out);
            return 2;
        }
        cluster_plan_write(plan, file);
        (void)fclose(file);
    }
    if (wish->shrinks) {
        bool fails = cluster_shrink(plan, wish->seconds, failure);
        (void)printf("# %s\n", fails ? failure : "it does not fail");
        cluster_plan_write(plan, stdout);
        return fails ? 1 : 0;
    }
    struct cluster_try *try = cluster_shared(sizeof(*try));
    uint64_t hash = 0;
    for (int round = 0; round < (wish->checks_determinism ? 2 : 1); round++) {
        cluster_try(plan, wish->is_verbose && round == 0, false, try);
        if (!try->is_fine) {
            (void)fprintf(stderr, "%s\n", try->failure);
            return 1;
        }
        if (round == 1 && hash != try->result.hash) {
            (void)fprintf(stderr, "it went two ways\n");
            return 1;
        }
        hash = try->result.hash;
    }
    (void)printf("seed %llu: hash %016llx, %lld events, %lld acknowledged\n", (unsigned long long)plan->seed,
                 (unsigned long long)hash, (long long)try->result.events, (long long)try->result.acknowledged);
    return 0;
}

/* The same lines where leaders, times and programs are others. */
static int run_script(const struct wish *wish, struct cluster_plan *plan)
{
    uint64_t first = plan->seed, count = wish->seeds == 0 ? 1 : wish->seeds;
    int64_t failures = 0;
    int worst = 0;
    for (uint64_t i = 0; i < count && failures < wish->failures_max; i++) {
        struct cluster_plan shape;
        cluster_plan_of(&shape, first + i, plan->node_count);
        plan->seed = shape.seed;
        plan->client_count = shape.client_count;
        int code = run_plan(wish, plan);
        worst = code > worst ? code : worst;
        failures += code != 0;
    }
    return worst;
}

static bool read_arguments(int argc, char **argv, struct wish *out_wish)
{
    for (int i = 1; i < argc; i++) {
        bool has_value = i + 1 < argc;
        if (strcmp(argv[i], "--verbose") == 0)
            out_wish->is_verbose = true;
        else if (strcmp(argv[i], "--shrink") == 0)
            out_wish->shrinks = true;
        else if (strcmp(argv[i], "--check-determinism") == 0)
            out_wish->checks_determinism = true;
        else if (strcmp(argv[i], "--reach-all") == 0)
            out_wish->must_reach_all = true;
        else if (has_value && strcmp(argv[i], "--acknowledged") == 0)
            out_wish->acknowledged_min = strtoll(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--seed") == 0) {
            out_wish->first = strtoull(argv[++i], NULL, 10);
            out_wish->seeds = out_wish->seeds == 0 ? 1 : out_wish->seeds;
        } else if (has_value && strcmp(argv[i], "--seeds") == 0)
            out_wish->seeds = strtoull(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--jobs") == 0)
            out_wish->jobs = strtoll(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--failures") == 0)
            out_wish->failures_max = strtoll(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--nodes") == 0)
            out_wish->node_count = (int)strtol(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--seconds") == 0)
            out_wish->seconds = (int)strtol(argv[++i], NULL, 10);
        else if (has_value && strcmp(argv[i], "--script") == 0)
            out_wish->script = argv[++i];
        else if (has_value && strcmp(argv[i], "--config") == 0)
            out_wish->config_path = argv[++i];
        else if (has_value && strcmp(argv[i], "--script-out") == 0)
            out_wish->script_out = argv[++i];
        else
            return false;
    }
    return out_wish->node_count >= 0 && out_wish->node_count <= CLUSTER_NODES_MAX;
}

int main(int argc, char **argv)
{
    struct wish wish = {.first = 1,
                        .jobs = sysconf(_SC_NPROCESSORS_ONLN),
                        .failures_max = FAILURES_MAX,
                        .seconds = SHRINK_SECONDS,
                        .acknowledged_min = -1};
    struct cluster_plan plan = {.seed = 0};
    int line = 0;
#ifdef STELE_MUTATIONS
    if (argc > 2 && strcmp(argv[1], "--mutation") == 0) {
        stele_mutation = (int)strtol(argv[2], NULL, 10);
        argc -= 2;
        argv += 2;
    }
#endif
    if (argc > 1 && strcmp(argv[1], "--one-node") == 0)
        return sim_node_main(argc - 1, argv + 1);
    if (!read_arguments(argc, argv, &wish)) {
        (void)fprintf(stderr,
                      "usage: stele-sim [--seed S] [--seeds N] [--nodes N] [--jobs N] [--failures N] [--verbose]\n"
                      "                 [--check-determinism] [--reach-all] [--acknowledged N]\n"
                      "                 [--script-out FILE] [--config FILE] [--shrink [--seconds N]]\n"
                      "       stele-sim --script FILE [--seeds N] [--verbose] [--check-determinism] [--shrink]\n"
                      "       stele-sim --one-node [--seed S] [--seeds N] [--jobs N] [--verbose]\n");
        return 2;
    }
    if (wish.config_path != NULL && !cluster_config_read(&wish.config, wish.config_path, &line)) {
        (void)fprintf(stderr, "%s makes no sense at line %d\n", wish.config_path, line);
        return 2;
    }
    wish.jobs = stele_max_i64(stele_min_i64(wish.jobs, JOBS_MAX), 1);
    if (wish.script != NULL) {
        if (!cluster_plan_read(&plan, wish.script, cluster_plan_of, &line)) {
            (void)fprintf(stderr, "%s makes no sense at line %d\n", wish.script, line);
            return 2;
        }
        int code = run_script(&wish, &plan);
        cluster_plan_free(&plan);
        return code;
    }
    if (wish.seeds == 1) {
        cluster_config_plan(&wish.config, &plan, wish.first, wish.node_count);
        int code = run_plan(&wish, &plan);
        cluster_plan_free(&plan);
        return code;
    }
    if (wish.seeds == 0) {
        wish.seeds = SEEDS;
        wish.must_reach_all = true;
        wish.acknowledged_min = ACKNOWLEDGED_MIN;
    }
    return run_many(&wish);
}
