/* Runs seeds of the model world:
 *     partition_sim [--seed S | --seeds FROM COUNT] [--mutation N] [--verbose] [--keep-on] | --mutations
 * Without arguments the quick part for ctest. A mutation is a guard that is off (replication/guard.h): that must be
 * noticed; --mutations proves it of all. Of the others, M1 and M16 to M21, M24 and M27 are of other machines, and M22
 * (checkpoints of inactive partitions) of the owner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "partition_world.h"
#include "replication/guard.h"

int stele_mutation = 0;
static struct pw_world the_world;

/* An assertion that fails ends the seed, not the program. */
void stele_assert_fail(const char *condition, const char *file, int line)
{
    pw_fail(&the_world, "assertion %s in %s:%d", condition, file, line);
}

struct options {
    uint64_t from, count;
    bool is_verbose, keeps_on, is_mutations;
};

static bool parse(int argc, char **argv, struct options *out_options)
{
    *out_options = (struct options){.from = 1, .count = 1500};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            out_options->from = strtoull(argv[++i], NULL, 10);
            out_options->count = 1;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 2 < argc) {
            out_options->from = strtoull(argv[i + 1], NULL, 10);
            out_options->count = strtoull(argv[i + 2], NULL, 10);
            i += 2;
        } else if (strcmp(argv[i], "--mutation") == 0 && i + 1 < argc) {
            stele_mutation = (int)strtol(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--mutations") == 0) {
            out_options->is_mutations = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            out_options->is_verbose = true;
        } else if (strcmp(argv[i], "--keep-on") == 0) {
            out_options->keeps_on = true;
        } else {
            fprintf(stderr, "partition_sim: what is %s?\n", argv[i]);
            return false;
        }
    }
    return true;
}

static void add(struct pw_stats *sum, const struct pw_stats *one)
{
    sum->events += one->events;
    sum->acked += one->acked;
    sum->elections += one->elections;
    sum->cuts += one->cuts;
    sum->isr_changes += one->isr_changes;
    sum->kills += one->kills;
    sum->powers += one->powers;
    sum->wipes += one->wipes;
    sum->partitions += one->partitions;
    sum->reassigns += one->reassigns;
    sum->unclean += one->unclean;
    sum->restarts += one->restarts;
    sum->leader_reached |= one->leader_reached;
    sum->follower_reached |= one->follower_reached;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* What no sound world leads to, and test_leader.c and test_follower.c do: nonsense of peers, metadata out of order,
 * answers to fetches that hide their epochs, and batches of an epoch that a log which was compared is past. */
static const uint64_t LEADER_NOT_HERE = UINT64_C(1) << STELE_LEADER_REACHED_ABOVE_END;
static const uint64_t FOLLOWER_NOT_HERE =
    UINT64_C(1) << STELE_FOLLOWER_REACHED_OLD_METADATA | UINT64_C(1) << STELE_FOLLOWER_REACHED_TOO_LONG |
    UINT64_C(1) << STELE_FOLLOWER_REACHED_IN_RANGE | UINT64_C(1) << STELE_FOLLOWER_REACHED_NONSENSE |
    UINT64_C(1) << STELE_FOLLOWER_REACHED_NO_INDEX | UINT64_C(1) << STELE_FOLLOWER_REACHED_PREFIX;

static int unreached(const char *machine, uint64_t reached, int count)
{
    int missing = 0;
    for (int i = 0; i < count; i++) {
        if (!(reached >> i & 1)) {
            printf("not reached: point %d of the %s\n", i, machine);
            missing++;
        }
    }
    return missing;
}

static void print(const struct pw_stats *sum, uint64_t seeds, uint64_t median)
{
    printf(
        "%llu seeds, %llu events, %llu records acknowledged (median %llu a seed), %llu elections (%llu unclean), "
        "%llu cuts, %llu changes of the set in sync, %llu kills, %llu power losses, %llu disks lost, %llu partitions "
        "of the net, %llu reassignments, %llu starts\n",
        (unsigned long long)seeds, (unsigned long long)sum->events, (unsigned long long)sum->acked,
        (unsigned long long)median, (unsigned long long)sum->elections, (unsigned long long)sum->unclean,
        (unsigned long long)sum->cuts, (unsigned long long)sum->isr_changes, (unsigned long long)sum->kills,
        (unsigned long long)sum->powers, (unsigned long long)sum->wipes, (unsigned long long)sum->partitions,
        (unsigned long long)sum->reassigns, (unsigned long long)sum->restarts);
}

/* Within how many seeds each mutation must be noticed: a few times what it took. */
static const struct {
    int number;
    uint64_t seeds;
} MUTATIONS[] = {{2, 50},   {3, 500}, {4, 3000}, {5, 20},   {6, 200}, {7, 300},   {8, 20},  {9, 4000}, {10, 5000},
                 {11, 500}, {12, 20}, {13, 100}, {14, 400}, {15, 20}, {23, 6000}, {25, 20}, {26, 300}};

static int run_mutations(void)
{
    int missed = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(MUTATIONS); i++) {
        stele_mutation = MUTATIONS[i].number;
        uint64_t seed = 1;
        bool is_caught = false;
        for (; seed <= MUTATIONS[i].seeds && !is_caught; seed++) {
            struct pw_config config;
            pw_draw_config(seed, &config);
            is_caught = !pw_run(&the_world, seed, &config);
        }
        printf("M%d: %s by seed %llu %s\n", stele_mutation, is_caught ? "noticed" : "NOT NOTICED",
               (unsigned long long)seed - 1, is_caught ? the_world.failure : "");
        missed += !is_caught;
    }
    return missed;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!parse(argc, argv, &options)) {
        return 2;
    }
    struct pw_stats sum = {.events = 0};
    uint64_t failures = 0;
    uint64_t *acked = calloc(options.count, sizeof *acked);
    if (!acked) {
        return 2;
    }
    the_world.highest_end = PW_LOG_MAX;
    if (options.is_mutations) {
        free(acked);
        return run_mutations() > 0 ? 1 : 0;
    }
    for (uint64_t i = 0; i < options.count; i++) {
        uint64_t seed = options.from + i;
        struct pw_config config;
        pw_draw_config(seed, &config);
        the_world.is_verbose = options.is_verbose;
        bool is_good = pw_run(&the_world, seed, &config);
        uint64_t hash = the_world.hash;
        acked[i] = the_world.stats.acked;
        add(&sum, &the_world.stats);
        if (!is_good) {
            printf("seed %llu failed %s\n", (unsigned long long)seed, the_world.failure);
            failures++;
        }
        if (i % 97 == 0) { /* the same again: a run is its seed */
            the_world.is_verbose = false;
            if (pw_run(&the_world, seed, &config) != is_good || the_world.hash != hash) {
                printf("seed %llu is not the same twice\n", (unsigned long long)seed);
                failures++;
            }
        }
        if (failures > 0 && !options.keeps_on) {
            free(acked);
            return 1;
        }
    }
    qsort(acked, options.count, sizeof *acked, by_number);
    print(&sum, options.count, acked[options.count / 2]);
    free(acked);
    int missing = 0;
    if (options.count >= 1500 && stele_mutation == 0) {
        missing = unreached("leader", sum.leader_reached | LEADER_NOT_HERE, STELE_LEADER_REACHED_COUNT) +
                  unreached("follower", sum.follower_reached | FOLLOWER_NOT_HERE, STELE_FOLLOWER_REACHED_COUNT);
    }
    if (options.keeps_on) {
        printf("%llu of %llu seeds failed\n", (unsigned long long)failures, (unsigned long long)options.count);
    }
    return failures > 0 || missing > 0 ? 1 : 0;
}
