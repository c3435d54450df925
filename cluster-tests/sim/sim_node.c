/* One node and two clients of the real core on virtual time, over byte pipes that cut, delay, stall, break and fall
 * silent, on a disk that loses what was not synced: random work and random faults from one seed, then a time without
 * faults in which all must be finished, judged by node_model.c.
 *
 *   sim_node [--seed S] [--seeds N] [--verbose]
 *
 * Without arguments it runs seeds 1 to SEEDS, some of them twice to see that they go the same way, prints what they
 * reached, and fails when something was never reached. With --seed it replays one; --verbose writes what happens. */
#include "base/arena.h"
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 1200, AGAIN_EVERY = 16, EVENTS_MAX = 20000000, CALM_US_MAX = 900000000, RECORDS_MAX = 300 };

struct totals {
    int64_t world[SIM_POINT_COUNT], run[RUN_POINT_COUNT];
    int64_t seeds, records, events, simulated_us;
};

static const char *run_point_text(int point)
{
    static const char *const texts[RUN_POINT_COUNT] = {
#define P(name, text) text,
        RUN_POINTS(P)
#undef P
    };
    return texts[point];
}

/* Every message as it is sent tells what the clients do not: retries, and why a fetch was answered. */

static void see_batch(struct run *run, const struct stele_piece *records)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < records->bytes; i++)
        hash = (hash ^ records->at[i]) * 1099511628211u;
    if (records->bytes > 22 && (records->at[22] & STELE_BATCH_CODEC_MASK) != 0)
        run_reach(run, RUN_POINT_COMPRESSED);
    for (int64_t i = run->batch_count - 1; i >= 0; i--) {
        if (run->batches[i] == hash) {
            run_reach(run, RUN_POINT_RETRY);
            return;
        }
    }
    run->batches = sim_grow(run->batches, &run->batch_capacity, run->batch_count + 1, sizeof(*run->batches));
    run->batches[run->batch_count++] = hash;
}

static void see_answer(struct run *run, const struct sim_net_sent *sent)
{
    struct stele_response response;
    struct stele_arena arena;
    stele_arena_init(&arena, &run->mem, STELE_MEM_SIM, 0);
    enum stele_err err = stele_response_decode(&arena, sent->message, sent->bytes, &response);
    if (err != STELE_OK)
        sim_world_fail(&run->world, "the node sends nonsense: %s", stele_err_text(err));
    bool has_waited = sent->idle_us > 4 * run->world.task_us_max + 5000;
    if (response.header.api != STELE_API_FETCH)
        run_reach(run, RUN_POINT_ANSWER);
    else if (!has_waited)
        run_reach(run, RUN_POINT_FETCH_AT_ONCE);
    else
        run_reach(run, sent->rest_bytes > 0 ? RUN_POINT_FETCH_BY_APPEND : RUN_POINT_FETCH_BY_DEADLINE);
    stele_arena_deinit(&arena);
}

static void see(void *arg, const struct sim_net_sent *sent)
{
    struct run *run = arg;
    if (sent->is_answer)
        see_answer(run, sent);
    else if (sent->rest != NULL)
        see_batch(run, sent->rest);
}

/* A run */

static void start_clients(struct run *run)
{
    struct stele_prng *setup = sim_stream(&run->world, SIM_STREAM_SETUP);
    for (int i = 0; i < RUN_CLIENTS; i++) {
        struct run_client *client = &run->clients[i];
        char name[8];
        (void)snprintf(name, sizeof(name), "c%d", i + 1);
        client->run = run;
        client->number = i;
        stele_prng_init(&client->prng, run->world.seed, ((uint64_t)SIM_STREAM_WORKLOAD << 32) + (uint64_t)i);
        client->records_left = (int32_t)stele_prng_range(setup, 0, RECORDS_MAX);
        run->record_capacity += client->records_left + 1;
        client->sim.arg = client;
        client->sim.script = script_run;
        sim_client_start(&client->sim, &run->world, name, 1 + (int64_t)stele_prng_below(setup, 100000));
    }
    run->records = sim_alloc((size_t)(run->record_capacity + 1) * sizeof(*run->records));
}

static void step(struct run *run)
{
    struct sim_world *world = &run->world;
    if (!sim_world_step(world) || world->events > EVENTS_MAX || world->now_us > run->calm_us + CALM_US_MAX)
        sim_world_fail(world, "the world stands still or runs for ever");
}

static void run_seed(struct totals *totals, uint64_t seed, bool is_verbose, uint64_t *out_hash)
{
    struct run *run = sim_alloc(sizeof(*run));
    struct sim_world *world = &run->world;
    sim_world_init(world, seed);
    world->is_verbose = is_verbose;
    sim_net_world_init(world);
    sim_net_set_tap(world, &(struct sim_net_tap){.sent = see, .arg = run});
    sim_server_init(&run->server, world, "n1");
    model_init(run);
    faults_draw(run);
    faults_begin(run);
    start_clients(run);
    while (run->done_count < RUN_CLIENTS)
        step(run);
    run->is_flushed = true;
    if (run->server.state != SIM_SERVER_SERVING)
        sim_world_fail(world, "the node does not serve at the end");
    sim_server_stop(&run->server);
    while (run->server.state != SIM_SERVER_DOWN)
        step(run);
    if (!run->server.is_stop_clean)
        sim_world_fail(world, "the node did not stop cleanly");
    for (int i = 0; i < RUN_CLIENTS; i++)
        sim_client_deinit(&run->clients[i].sim);
    faults_stop(run);
    sim_net_world_deinit(world);
    *out_hash = world->hash;
    totals->records += run->record_count;
    totals->events += world->events;
    totals->simulated_us += world->now_us;
    totals->seeds++;
    model_end(run);
    for (int i = 0; i < SIM_POINT_COUNT; i++)
        totals->world[i] += world->reached[i];
    for (int i = 0; i < RUN_POINT_COUNT; i++)
        totals->run[i] += run->reached[i];
    sim_server_deinit(&run->server);
    sim_world_deinit(world);
    free(run);
}

static bool print_totals(const struct totals *totals)
{
    bool is_all = true;
    (void)printf("reached: %lld runs, %lld records, %.0f simulated seconds, %lld events", (long long)totals->seeds,
                 (long long)totals->records, (double)totals->simulated_us / 1e6, (long long)totals->events);
    for (int i = 0; i < SIM_POINT_COUNT; i++)
        (void)printf(", %s %lld", sim_point_text((enum sim_point)i), (long long)totals->world[i]);
    for (int i = 0; i < RUN_POINT_COUNT; i++)
        (void)printf(", %s %lld", run_point_text(i), (long long)totals->run[i]);
    (void)printf("\n");
    for (int i = 0; i < SIM_POINT_COUNT; i++) {
        is_all = is_all && totals->world[i] > 0;
        if (totals->world[i] == 0)
            (void)fprintf(stderr, "never reached: %s\n", sim_point_text((enum sim_point)i));
    }
    for (int i = 0; i < RUN_POINT_COUNT; i++) {
        is_all = is_all && totals->run[i] > 0;
        if (totals->run[i] == 0)
            (void)fprintf(stderr, "never reached: %s\n", run_point_text(i));
    }
    return is_all;
}

static void run_again(struct totals *totals, uint64_t seed, uint64_t hash)
{
    uint64_t second = 0;
    run_seed(totals, seed, false, &second);
    if (second == hash)
        return;
    (void)fprintf(stderr, "FAILED: seed %llu went two ways: %016llx, %016llx\n", (unsigned long long)seed,
                  (unsigned long long)hash, (unsigned long long)second);
    exit(1);
}

int main(int argc, char **argv)
{
    struct totals totals = {.seeds = 0};
    uint64_t first = 1, seeds = 0, hash = 0;
    bool is_verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            is_verbose = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            first = strtoull(argv[++i], NULL, 10);
            seeds = seeds == 0 ? 1 : seeds;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr, "usage: sim_node [--seed S] [--seeds N] [--verbose]\n");
            return 2;
        }
    }
    bool must_reach_all = seeds == 0;
    seeds = seeds == 0 ? SEEDS : seeds;
    for (uint64_t i = 0; i < seeds; i++) {
        run_seed(&totals, first + i, is_verbose, &hash);
        if (seeds == 1)
            (void)printf("seed %llu: hash %016llx\n", (unsigned long long)first, (unsigned long long)hash);
        if (i % AGAIN_EVERY == 0 && !is_verbose)
            run_again(&totals, first + i, hash);
    }
    bool is_all = print_totals(&totals);
    return is_all || !must_reach_all ? 0 : 1;
}
