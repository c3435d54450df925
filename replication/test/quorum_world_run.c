/* Runs of the quorum's model world from seeds: each draws its faults, its cluster and its work, then the faults stop
 * and the cluster has to be well again.
 *
 * usage: quorum_world [--first SEED] [--seeds N] [--mutation NUMBER] [--quick] [--verbose]
 * Without a mutation every seed must be clean and, over at least 10,000 seeds, every marked place of the machine
 * reached. With one the run succeeds when a seed among them breaks; --quick: ends there. */
#include "replication/test/quorum_world.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    uint64_t first, seeds;
    int mutation;
    bool is_verbose, is_quick;
};

struct totals {
    uint64_t seeds, events, reached, broken_seeds, first_broken;
    int64_t records, elections, truncations, installs, crashes, wipes, changes;
    int64_t simulated_us;
    int64_t *per_seed;
};

static struct world world;
static jmp_buf assertion;
static bool is_guarded;

/* An assertion of the machine is a find like a broken invariant. */
void stele_assert_fail(const char *condition, const char *file, int line)
{
    if (!is_guarded) {
        fprintf(stderr, "%s:%d: %s\n", file, line, condition);
        abort();
    }
    world_break(&world, "assertion", "%s:%d: %s", file, line, condition);
    longjmp(assertion, 1);
}

static bool coin(uint64_t in, uint64_t of)
{
    return stele_prng_chance(&world.prng, in, of);
}

static int32_t pick(int32_t low, int32_t high)
{
    return (int32_t)stele_prng_range(&world.prng, low, high);
}

/* Each class of faults is off in half of the seeds. */
static void draw_faults(void)
{
    struct world_faults *faults = &world.faults;
    *faults = (struct world_faults){.delay_max_us = coin(1, 4) ? 50000 : 2000,
                                    .sync_max_us = coin(1, 4) ? 200000 : 5000,
                                    .persist_max_us = coin(1, 4) ? 100000 : 5000};
    faults->late_max_us = coin(1, 2) ? 300000 : 0;
    faults->crash = coin(1, 2) ? pick(5, 60) : 0;
    faults->partition = coin(1, 2) ? pick(5, 80) : 0;
    faults->close = coin(1, 2) ? pick(5, 100) : 0;
    faults->wipe = coin(1, 2) ? pick(1, 20) : 0;
    faults->stop = coin(1, 2) ? pick(2, 20) : 0;
    faults->resign = coin(1, 2) ? pick(2, 20) : 0;
    faults->change = coin(1, 2) ? pick(50, 500) : 0;
    faults->loss = coin(1, 2) ? pick(1, 50) : 0;
    faults->duplicate = coin(1, 2) ? pick(1, 50) : 0;
    faults->unusable = coin(1, 2) ? pick(1, 50) : 0;
    faults->crash_inside = coin(1, 2) ? pick(1, 20) : 0;
    faults->drift_permille = coin(1, 2) ? 100 : 0;
    faults->has_snapshots = coin(1, 2);
    /* Short times make many elections. */
    if (coin(1, 2)) {
        world.settings.election_timeout_ms = 200;
        world.settings.fetch_timeout_ms = 800;
        world.settings.election_backoff_max_ms = 200;
        world.settings.request_timeout_ms = 800;
    }
    if (coin(1, 4)) {
        world.settings.suspicion_delay_max_ms = 0;
    }
}

/* Every set of voters that a log may name keeps a majority of disks, when `without` is gone, and none is open: whoever
 * is lost for good in the middle of a change can leave a cluster that needs its operator, as Raft is. */
static bool is_majority_left(int32_t without)
{
    for (int32_t n = 0; n < world.node_count; n++) {
        struct stele_voters_at history[STELE_VOTERS_HISTORY_MAX];
        int32_t count = world_history(&world, &world.nodes[n], history);
        if (count > 0 && history[count - 1].offset >= world.committed_end) {
            return false;
        }
        for (int32_t h = count > 2 ? count - 2 : 0; h < count; h++) {
            const struct stele_voters *voters = &history[h].voters;
            int32_t left = 0;
            for (int32_t i = 0; i < voters->count; i++) {
                int32_t id = voters->keys[i].node_id;
                bool is_there = id != without && !world.nodes[id].is_lost &&
                                stele_uuid_equal(&voters->keys[i].directory_id, &world.nodes[id].directory);
                left += is_there ? 1 : 0;
            }
            if (left < voters->count / 2 + 1) {
                return false;
            }
        }
    }
    return true;
}

static void restart_later(int32_t node, int64_t after_us)
{
    struct world_event event = {.kind = WORLD_RESTART, .node = node, .message = -1};
    world_schedule(&world, &event, after_us);
}

static void crash_some(void)
{
    int32_t node = pick(0, world.node_count - 1);
    if (coin(1, 3) && world_leader(&world) >= 0) {
        node = world_leader(&world);
    }
    bool is_all = coin(1, 10);
    for (int32_t i = 0; i < world.node_count; i++) {
        if ((is_all || i == node) && world.nodes[i].is_alive) {
            world_crash(&world, i);
            restart_later(i, pick(1, 4000) * INT64_C(1000));
        }
    }
}

static void wipe_one(void)
{
    int32_t node = pick(0, world.node_count - 1);
    if (!is_majority_left(node)) {
        return;
    }
    world_crash(&world, node);
    world_wipe(&world, node);
    restart_later(node, pick(1, 4000) * INT64_C(1000));
}

static void partition_some(void)
{
    world_heal(&world);
    if (coin(1, 3)) {
        return;
    }
    if (coin(1, 2)) {
        bool is_one_way = coin(1, 3);
        int32_t node = world_leader(&world) >= 0 && coin(1, 2) ? world_leader(&world) : pick(0, world.node_count - 1);
        world_isolate(&world, node, true, !is_one_way);
        return;
    }
    uint32_t side = (uint32_t)stele_prng_u64(&world.prng);
    for (int32_t a = 0; a < world.node_count; a++) {
        for (int32_t b = 0; b < world.node_count; b++) {
            world.is_blocked[a][b] = ((side >> a) & 1) != ((side >> b) & 1);
        }
    }
}

static void close_one(void)
{
    int32_t a = pick(0, world.node_count - 1), b = pick(0, world.node_count - 1);
    struct world_event event = {.kind = WORLD_CLOSED, .node = a, .from = b, .message = -1};
    world_schedule(&world, &event, 0);
    event.node = b;
    event.from = a;
    world_schedule(&world, &event, 100);
}

/* A voter's disk is gone, and it is not yet readmitted. */
static bool is_voter_wiped(const struct stele_voters *voters)
{
    for (int32_t i = 0; i < voters->count; i++) {
        struct stele_replica_key key = world_key(&world, voters->keys[i].node_id);
        if (!stele_replica_key_equal(&key, &voters->keys[i])) {
            return true;
        }
    }
    return false;
}

static void change_some(int32_t leader)
{
    int32_t node = coin(1, 4) ? leader : pick(0, world.node_count - 1);
    struct stele_replica_key key = world_key(&world, node);
    const struct stele_voters *voters = stele_quorum_voters(&world.nodes[leader].quorum);
    int32_t at = stele_voters_find_node(voters, node);
    if (at >= 0 && !stele_replica_key_equal(&voters->keys[at], &key)) {
        world_change(&world, leader, STELE_QUORUM_READMIT_VOTER, &key);
    } else if (is_voter_wiped(voters)) {
        return;
    } else if (at < 0) {
        world_change(&world, leader, STELE_QUORUM_ADD_VOTER, &key);
    } else if (voters->count > 2 && coin(1, 2)) {
        world_change(&world, leader, STELE_QUORUM_REMOVE_VOTER, &key);
    }
}

static void tell(int32_t node, enum world_kind kind)
{
    struct world_event event = {.kind = kind, .node = node, .life = world.nodes[node].life, .message = -1};
    world_schedule(&world, &event, 0);
}

static void stop_one(void)
{
    int32_t node = world_leader(&world) >= 0 && coin(1, 2) ? world_leader(&world) : pick(0, world.node_count - 1);
    if (!world.nodes[node].is_alive) {
        return;
    }
    tell(node, WORLD_STOP);
    restart_later(node, pick(1500, 4000) * INT64_C(1000));
}

static bool hits(int32_t permille)
{
    return permille > 0 && coin((uint64_t)permille, 1000);
}

static void fault_tick(void)
{
    if (hits(world.faults.crash)) {
        crash_some();
    }
    if (hits(world.faults.partition)) {
        partition_some();
    }
    if (hits(world.faults.close)) {
        close_one();
    }
    if (hits(world.faults.wipe)) {
        wipe_one();
    }
    if (hits(world.faults.stop)) {
        stop_one();
    }
    for (int32_t i = 0; i < world.node_count; i++) {
        bool is_leader = world.nodes[i].is_alive && world.nodes[i].quorum.role == STELE_QUORUM_LEADER;
        if (is_leader && hits(world.faults.resign)) {
            tell(i, WORLD_RESIGN);
        }
        if (is_leader && hits(world.faults.change)) {
            change_some(i);
        }
    }
    /* Who stopped cleanly and is still there goes at last. */
    for (int32_t i = 0; i < world.node_count; i++) {
        if (world.nodes[i].is_alive && world.nodes[i].quorum.is_stopping && coin(1, 10)) {
            world_crash(&world, i);
            restart_later(i, pick(1, 2000) * INT64_C(1000));
        }
    }
}

/* Whoever believes to lead appends, and now and then asks for a change at once. */
static void work_tick(int32_t most)
{
    for (int32_t i = 0; i < world.node_count; i++) {
        struct world_node *node = &world.nodes[i];
        if (!node->is_alive) {
            continue;
        }
        for (int32_t k = pick(0, most); k > 0; k--) {
            (void)!world_append(&world, i);
        }
        bool is_young = node->quorum.role == STELE_QUORUM_LEADER && !node->quorum.is_epoch_committed;
        if (is_young && world.faults.change > 0 && coin(1, 8)) {
            change_some(i);
        }
        if (world.faults.has_snapshots && node->applied > 0 && coin(1, 60)) {
            world_snapshot(&world, i, pick((int32_t)(node->applied / 2), (int32_t)node->applied));
        }
        if (world.faults.has_snapshots && coin(1, 120)) {
            world_log_start(&world, i);
        }
    }
}

/* The world's own events have node -1 in effect: they are taken here. */
static bool run_phase(int64_t until_us, bool has_faults)
{
    int64_t fault_us = world.now_us + 100000;
    while (world.now_us < until_us) {
        if (!world_run(&world, world.now_us + pick(2000, 16000))) {
            return false;
        }
        work_tick(has_faults ? 3 : 1);
        if (has_faults && world.now_us >= fault_us) {
            fault_us = world.now_us + 100000;
            fault_tick();
        }
        if (world.broken != NULL) {
            return false;
        }
    }
    return true;
}

/* Every live node is at the leader's epoch and has committed more than `goal`. */
static bool is_well(int64_t goal)
{
    int32_t leader = world_leader(&world);
    if (leader < 0 || !world.nodes[leader].quorum.is_epoch_committed) {
        return false;
    }
    for (int32_t i = 0; i < world.node_count; i++) {
        const struct world_node *node = &world.nodes[i];
        if (node->is_lost) {
            continue;
        }
        if (!node->is_alive || node->applied < goal ||
            node->quorum.election.epoch != world.nodes[leader].quorum.election.epoch) {
            return false;
        }
    }
    return true;
}

/* False: something broke. */
static bool faults_stop(void)
{
    struct world_faults *faults = &world.faults;
    *faults = (struct world_faults){
        .delay_max_us = 2000, .sync_max_us = 5000, .persist_max_us = 5000, .has_snapshots = faults->has_snapshots};
    world_heal(&world);
    /* What was asked for before, changes of voters above all, is begun now. */
    if (!world_run_ms(&world, 500)) {
        return false;
    }
    int32_t lost = pick(0, world.node_count - 1);
    if (coin(1, 2) && is_majority_left(lost)) {
        world_crash(&world, lost);
        world.nodes[lost].is_lost = true;
    }
    for (int32_t i = 0; i < world.node_count; i++) {
        world_start(&world, i);
    }
    return true;
}

/* KL1 to KL4, KL7, KL8: all commit again; then nobody disturbs any more (KL6), and a change of voters goes through. */
static bool check_liveness(void)
{
    int64_t goal = world.committed_end + 10, limit_us = world.now_us + 60000000;
    if (!faults_stop()) {
        return false;
    }
    while (!is_well(goal)) {
        /* Told to stop just before the faults ended. */
        for (int32_t i = 0; i < world.node_count; i++) {
            if (world.nodes[i].is_alive && world.nodes[i].quorum.is_stopping) {
                world_crash(&world, i);
                world_start(&world, i);
            }
        }
        if (world.now_us >= limit_us) {
            world_break(&world, "KL1", "no way back to work in 60 s: committed %lld, goal %lld, leader %d",
                        (long long)world.committed_end, (long long)goal, world_leader(&world));
            return false;
        }
        if (!run_phase(world.now_us + 200000, false)) {
            return false;
        }
    }
    /* What was asked for before the faults stopped may still end, and a removed leader may go. */
    if (!run_phase(world.now_us + 6000000, false)) {
        return false;
    }
    int32_t leader = world_leader(&world);
    if (leader < 0) {
        world_break(&world, "KL6", "no leader though all is well");
        return false;
    }
    int32_t epoch = world.nodes[leader].quorum.election.epoch;
    int64_t changes = world.changes;
    for (int32_t i = 0; i < world.node_count && world.changes == changes && !world.nodes[i].is_lost; i++) {
        struct stele_replica_key key = world_key(&world, i);
        int32_t at = stele_voters_find_node(stele_quorum_voters(&world.nodes[leader].quorum), i);
        if (at < 0) {
            world_change(&world, leader, STELE_QUORUM_ADD_VOTER, &key);
            if (!run_phase(world.now_us + 4000000, false)) {
                return false;
            }
            if (world.changes == changes) {
                world_break(&world, "KL3", "leader %d does not add voter %d", leader, i);
                return false;
            }
        }
    }
    if (!run_phase(world.now_us + 5000000, false)) {
        return false;
    }
    if (!is_well(goal) || world.nodes[world_leader(&world)].quorum.election.epoch != epoch) {
        world_break(&world, "KL6", "epoch %d did not last though all was well", epoch);
        return false;
    }
    return true;
}

static void print_nodes(void)
{
    static const char *const roles[] = {"unattached", "prospective", "candidate", "leader", "follower", "resigned"};
    for (int32_t i = 0; i < world.node_count; i++) {
        const struct world_node *node = &world.nodes[i];
        const struct stele_quorum *quorum = &node->quorum;
        printf("  node %d%s%s: %s epoch %d leader %d vote %d, log %lld..%lld last epoch %d synced %lld committed %lld, "
               "fetch to %d%s failures %d, voters",
               i, node->is_alive ? "" : " down", node->is_lost ? " for ever" : "", roles[quorum->role],
               quorum->election.epoch, quorum->election.leader_id, quorum->election.voted.node_id,
               (long long)node->log_start, (long long)node->end, quorum->last_epoch, (long long)node->synced,
               (long long)quorum->high_watermark, quorum->fetch.to, quorum->fetch.is_in_flight ? "" : " not sent",
               quorum->fetch.failures);
        const struct stele_voters *voters = stele_quorum_voters(quorum);
        for (int32_t k = 0; k < voters->count; k++) {
            bool is_disk =
                stele_uuid_equal(&voters->keys[k].directory_id, &world.nodes[voters->keys[k].node_id].directory);
            printf(" %d%s", voters->keys[k].node_id, is_disk ? "" : "(wiped)");
        }
        printf("\n");
    }
}

static void run_seed(uint64_t seed)
{
    struct stele_prng prng;
    stele_prng_init(&prng, seed, 1);
    int32_t voters = (int32_t)stele_prng_range(&prng, 1, 5), observers = (int32_t)stele_prng_range(&prng, 0, 3);
    world_init(&world, seed, voters, observers);
    is_guarded = true;
    if (setjmp(assertion) == 0) {
        draw_faults();
        for (int32_t i = 0; i < world.node_count; i++) {
            int32_t drift = world.faults.drift_permille;
            world.nodes[i].rate_permille = drift == 0 ? 1000 : pick(1000 - drift, 1000 + drift);
        }
        for (int32_t i = 0; i < world.node_count; i++) {
            restart_later(i, pick(0, 500) * INT64_C(1000));
        }
        if (run_phase(pick(5, 30) * INT64_C(1000000), true)) {
            (void)check_liveness();
        }
    }
    is_guarded = false;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static void add_up(struct totals *totals, uint64_t seed)
{
    totals->per_seed[totals->seeds++] = world.committed_records;
    totals->events += world.events;
    totals->reached |= world.reached;
    totals->records += world.committed_records;
    totals->elections += world.elections;
    totals->truncations += world.truncations;
    totals->installs += world.installs;
    totals->crashes += world.crashes;
    totals->wipes += world.wipes;
    totals->changes += world.changes;
    totals->simulated_us += world.now_us;
    if (world.broken != NULL) {
        totals->broken_seeds++;
        if (totals->broken_seeds == 1) {
            totals->first_broken = seed;
        }
    }
}

static void print_totals(const struct totals *totals, double seconds)
{
    qsort(totals->per_seed, totals->seeds, sizeof(*totals->per_seed), compare);
    printf("%llu seeds, %llu events, %.0f events/s, %.0f simulated s/s\n", (unsigned long long)totals->seeds,
           (unsigned long long)totals->events, (double)totals->events / seconds,
           (double)totals->simulated_us / 1e6 / seconds);
    printf("committed %lld (median of a seed %lld), elections %lld, truncations %lld, snapshots installed %lld, "
           "crashes %lld, disks wiped %lld, voter changes %lld\n",
           (long long)totals->records, (long long)totals->per_seed[totals->seeds / 2], (long long)totals->elections,
           (long long)totals->truncations, (long long)totals->installs, (long long)totals->crashes,
           (long long)totals->wipes, (long long)totals->changes);
}

/* The same seed must give the same run. */
static bool is_deterministic(uint64_t seed, uint64_t hash)
{
    run_seed(seed);
    if (world.hash != hash) {
        printf("seed %llu: two runs differ\n", (unsigned long long)seed);
        return false;
    }
    return true;
}

static int run(const struct options *options)
{
    struct totals totals = {0};
    struct timespec begin, end;
    totals.per_seed = calloc(options->seeds, sizeof(*totals.per_seed));
    if (totals.per_seed == NULL) {
        return 1;
    }
    stele_mutation = options->mutation;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t seed = options->first; seed < options->first + options->seeds; seed++) {
        run_seed(seed);
        add_up(&totals, seed);
        if (world.broken != NULL && (options->mutation == 0 || options->is_verbose)) {
            printf("seed %llu: %s: %s (%lld ms)\n", (unsigned long long)seed, world.broken, world.detail,
                   (long long)(world.now_us / 1000));
            if (options->is_verbose) {
                print_nodes();
            }
        }
        if (seed % 64 == 0 && !is_deterministic(seed, world.hash)) {
            free(totals.per_seed);
            return 1;
        }
        if (world.broken != NULL && options->mutation != 0 && options->is_quick) {
            printf("M%d: seed %llu, the %lluth, %s: %s\n", options->mutation, (unsigned long long)seed,
                   (unsigned long long)totals.seeds, world.broken, world.detail);
            break;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    print_totals(&totals, seconds);
    free(totals.per_seed);
    if (options->mutation != 0) {
        printf("M%d caught in %llu of %llu seeds\n", options->mutation, (unsigned long long)totals.broken_seeds,
               (unsigned long long)totals.seeds);
        return totals.broken_seeds > 0 ? 0 : 1;
    }
    for (int32_t point = 0; point < STELE_QUORUM_POINTS && totals.seeds >= 10000; point++) {
        /* No disk of this world goes back. */
        if ((totals.reached >> point & 1) == 0 && point != STELE_QUORUM_REACHED_TOLD_TO_END) {
            printf("point %d was not reached\n", point);
            return 1;
        }
    }
    return totals.broken_seeds == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct options options = {.first = 1, .seeds = 200};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--first") == 0) {
            options.first = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--seeds") == 0) {
            options.seeds = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--mutation") == 0) {
            options.mutation = (int)strtol(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            options.is_verbose = true;
        } else if (strcmp(argv[i], "--quick") == 0) {
            options.is_quick = true;
        } else {
            fprintf(stderr, "usage: %s [--first SEED] [--seeds N] [--mutation NUMBER] [--quick] [--verbose]\n",
                    argv[0]);
            return 2;
        }
    }
    return run(&options);
}
