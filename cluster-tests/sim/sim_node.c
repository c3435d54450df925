/* One node and two clients of the real core on virtual time, over byte pipes that cut, delay, stall, break and fall
 * silent, on a disk that loses what was not synced: random work and random faults from one seed, then a time without
 * faults in which all must be finished, judged by node_model.c.
 *
 *   stele-sim --one-node [--seed S] [--seeds N] [--jobs N] [--verbose]
 *
 * Without arguments it runs seeds 1 to SEEDS, some of them twice to see that they go the same way, prints what they
 * reached, and fails when something was never reached. With --seed it replays one; --verbose writes what happens. Seeds
 * are shared by as many processes as there are cores, or as --jobs says. */
#include "cluster-tests/sim/sim_node.h"
#include "base/arena.h"
#include "base/check.h"
#include "cluster-tests/sim/node_run.h"
#include "cluster-tests/sim/sim_image.h"
#include "proto/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SEEDS = 2000,
    JOBS_MAX = 64,
    AGAIN_EVERY = 16,
    EVENTS_MAX = 20000000,
    CALM_US_MAX = 900000000,
    RECORDS_MAX = 300
};

/* Of one process, in memory that its parent sees. */
struct totals {
    uint64_t seed; /* under way; 0: all done */
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

/* Every message as it is sent tells what the clients do not: retries, why a fetch was answered, which topic a name
 * meant. */

static void log_batch(struct run *run, const struct run_client *client, const struct stele_produce_request *produce,
                      const struct stele_piece *records)
{
    struct stele_batch_header header;
    if (stele_batch_header_read(records->at, records->bytes, &header) != STELE_OK)
        return;
    sim_world_log(&run->world, "%s: sends %d records to partition %d, id %lld, epoch %d, sequence %d",
                  client->sim.process.name, header.record_count, produce->partitions[0].partition,
                  (long long)header.producer_id, header.producer_epoch, header.base_sequence);
}

static void see_batch(struct run *run, const struct stele_piece *records)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < records->bytes; i++)
        hash = (hash ^ records->at[i]) * 1099511628211u;
    if (records->bytes > 22 && (records->at[22] & STELE_BATCH_CODEC_MASK) != 0)
        run_reach(run, RUN_POINT_COMPRESSED);
    if (records->bytes > 52 && (records->at[51] != 0 || records->at[52] != 0) && records->at[51] < 0x80)
        run_reach(run, RUN_POINT_NEW_EPOCH);
    for (int64_t i = run->batch_count - 1; i >= 0; i--) {
        if (run->batches[i] == hash) {
            run_reach(run, RUN_POINT_RETRY);
            return;
        }
    }
    run->batches = sim_grow(run->batches, &run->batch_capacity, run->batch_count + 1, sizeof(*run->batches));
    run->batches[run->batch_count++] = hash;
}

static void see_topics(struct run *run, const struct stele_response *response)
{
    const struct stele_metadata_response *metadata = &response->body.metadata;
    uint64_t id = response->header.correlation_id;
    int64_t asked_us = run->world.now_us;
    for (int i = 0; i < RUN_CLIENTS; i++) { /* either of them may have asked */
        const struct run_client *client = &run->clients[i];
        size_t at = id % STELE_ARRAY_LEN(client->metadata);
        if (client->metadata[at].correlation_id == id)
            asked_us = stele_min_i64(asked_us, client->metadata[at].at_us);
    }
    for (size_t i = 0; metadata->err == STELE_OK && i < metadata->topic_count; i++) {
        if (metadata->topics[i].err == STELE_OK)
            model_shown(run, &metadata->topics[i], asked_us);
    }
}

static void see_answer(struct run *run, struct stele_arena *arena, const struct sim_net_sent *sent)
{
    struct stele_response response;
    enum stele_err err = stele_response_decode(arena, sent->message, sent->bytes, &response);
    if (err != STELE_OK)
        sim_world_fail(&run->world, "the node sends nonsense: %s", stele_err_text(err));
    bool has_waited = sent->idle_us > 4 * run->world.task_us_max + 5000;
    if (response.header.api == STELE_API_METADATA)
        see_topics(run, &response);
    if (response.header.api == STELE_API_PRODUCE)
        synced_answered(run, &response.body.produce);
    if (response.header.api == STELE_API_INIT_PRODUCER_ID && response.body.init_producer_id.err == STELE_OK)
        model_id(run, response.body.init_producer_id.producer_id);
    if (response.header.api != STELE_API_FETCH)
        run_reach(run, RUN_POINT_ANSWER);
    else if (!has_waited)
        run_reach(run, RUN_POINT_FETCH_AT_ONCE);
    else
        run_reach(run, sent->rest_bytes > 0 ? RUN_POINT_FETCH_BY_APPEND : RUN_POINT_FETCH_BY_DEADLINE);
}

static void see_request(struct run *run, struct stele_arena *arena, const struct sim_net_sent *sent)
{
    struct run_client *client = &run->clients[0];
    struct stele_request request;
    while (&client->sim.env != sent->env)
        client++;
    enum stele_err err = stele_request_decode(arena, sent->message, sent->bytes, &request);
    if (err != STELE_OK)
        sim_world_fail(&run->world, "a client sends nonsense: %s", stele_err_text(err));
    if ((size_t)request.header.api < STELE_ARRAY_LEN(client->sent))
        client->sent[request.header.api]++;
    if (request.header.api == STELE_API_METADATA) {
        size_t at = request.header.correlation_id % STELE_ARRAY_LEN(client->metadata);
        client->metadata[at].correlation_id = request.header.correlation_id;
        client->metadata[at].at_us = run->world.now_us;
    }
    struct run_life *life = NULL;
    if (request.header.api == STELE_API_LIST_OFFSETS)
        life = model_known_life(run, &request.body.list_offsets.partitions[0].topic_id);
    if (request.header.api == STELE_API_DELETE_RECORDS)
        life = model_known_life(run, &request.body.delete_records.partitions[0].topic_id);
    if (life != NULL)
        client->asked[life->topic] = life;
    if (sent->rest == NULL)
        return;
    see_batch(run, sent->rest);
    if (run->world.is_verbose)
        log_batch(run, client, &request.body.produce, sent->rest);
}

static void see(void *arg, const struct sim_net_sent *sent)
{
    struct run *run = arg;
    struct stele_arena arena;
    stele_arena_init(&arena, &run->mem, STELE_MEM_SIM, 0);
    if (sent->is_answer)
        see_answer(run, &arena, sent);
    else
        see_request(run, &arena, sent);
    stele_arena_deinit(&arena);
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

static bool print_totals(const struct totals *totals, bool must_reach_all)
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
        if (totals->world[i] == 0 && must_reach_all)
            (void)fprintf(stderr, "never reached: %s\n", sim_point_text((enum sim_point)i));
    }
    for (int i = 0; i < RUN_POINT_COUNT; i++) {
        is_all = is_all && totals->run[i] > 0;
        if (totals->run[i] == 0 && must_reach_all)
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

struct wish {
    uint64_t first, seeds;
    int64_t jobs;
    bool is_verbose;
};

static void run_share(const struct wish *wish, int64_t job, struct totals *totals)
{
    uint64_t hash = 0;
    for (uint64_t i = (uint64_t)job; i < wish->seeds; i += (uint64_t)wish->jobs) {
        totals->seed = wish->first + i;
        run_seed(totals, wish->first + i, wish->is_verbose, &hash);
        if (wish->seeds == 1)
            (void)printf("seed %llu: hash %016llx\n", (unsigned long long)wish->first, (unsigned long long)hash);
        if (i % AGAIN_EVERY == 0 && !wish->is_verbose)
            run_again(totals, wish->first + i, hash);
    }
    totals->seed = 0;
}

static void add(struct totals *sum, const struct totals *totals)
{
    for (int i = 0; i < SIM_POINT_COUNT; i++)
        sum->world[i] += totals->world[i];
    for (int i = 0; i < RUN_POINT_COUNT; i++)
        sum->run[i] += totals->run[i];
    sum->seeds += totals->seeds;
    sum->records += totals->records;
    sum->events += totals->events;
    sum->simulated_us += totals->simulated_us;
}

/* Every job in a process of its own; false when one of them failed. */
static bool run_jobs(const struct wish *wish, struct totals *sum)
{
    size_t bytes = (size_t)wish->jobs * sizeof(struct totals);
    struct totals *totals = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool is_fine = totals != MAP_FAILED;
    STELE_ASSERT(is_fine);
    for (int64_t job = 0; job < wish->jobs; job++) {
        pid_t pid = fork();
        STELE_ASSERT(pid >= 0);
        if (pid == 0) {
            run_share(wish, job, &totals[job]);
            exit(0);
        }
    }
    for (int64_t job = 0; job < wish->jobs; job++) {
        int status = 0;
        STELE_ASSERT(wait(&status) > 0);
        is_fine = is_fine && status == 0;
    }
    for (int64_t job = 0; job < wish->jobs; job++) {
        if (totals[job].seed != 0)
            (void)fprintf(stderr, "ended at seed %llu\n", (unsigned long long)totals[job].seed);
        add(sum, &totals[job]);
    }
    STELE_ASSERT(munmap(totals, bytes) == 0);
    return is_fine;
}

static bool read_arguments(int argc, char **argv, struct wish *out_wish)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            out_wish->is_verbose = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            out_wish->first = strtoull(argv[++i], NULL, 10);
            out_wish->seeds = out_wish->seeds == 0 ? 1 : out_wish->seeds;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            out_wish->seeds = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--jobs") == 0) {
            out_wish->jobs = strtoll(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return true;
}

int sim_node_main(int argc, char **argv)
{
    struct totals sum = {.seeds = 0};
    struct wish wish = {.first = 1, .jobs = sysconf(_SC_NPROCESSORS_ONLN)};
    if (!read_arguments(argc, argv, &wish)) {
        (void)fprintf(stderr, "usage: stele-sim --one-node [--seed S] [--seeds N] [--jobs N] [--verbose]\n");
        return 2;
    }
    bool must_reach_all = wish.seeds == 0;
    wish.seeds = wish.seeds == 0 ? SEEDS : wish.seeds;
    wish.jobs = stele_max_i64(stele_min_i64(wish.jobs, JOBS_MAX), 1);
    if (wish.seeds == 1)
        run_share(&wish, 0, &sum); /* for a debugger */
    else if (!run_jobs(&wish, &sum))
        return 1;
    bool is_all = print_totals(&sum, must_reach_all);
    return is_all || !must_reach_all ? 0 : 1;
}
