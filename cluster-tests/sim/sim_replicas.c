/* Replication under deaths: three nodes, two partitions, a client with acks=all. At random moments nodes are killed, or
 * lose their power where a produce waits for syncs, and come back; the lead moves. Afterwards every acknowledged record
 * is in the leader's log, and the logs are equal.
 *
 *   sim_replicas [--seed S] [--seeds N] [--verbose] */
#include "cluster-tests/sim/replica_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 200 };

struct totals {
    int64_t sent, acked, elections, isr_changes, refused, truncations, kills, blackouts;
};

static void on_traced(struct sim_server *server, const struct stele_trace_event *event)
{
    struct totals *sum = server->arg;
    if (event->kind == STELE_TRACE_LOG_TRUNCATED)
        sum->truncations++;
}

/* One thing that happens. */
static void happen(struct replica_world *world, bool has_power, struct totals *sum)
{
    struct stele_prng *prng = sim_stream(&world->world, SIM_STREAM_KILL);
    struct replica_node *node = &world->nodes[stele_prng_below(prng, REPLICA_NODES)];
    int partition = (int)stele_prng_below(prng, REPLICA_PARTITIONS);
    switch (stele_prng_below(prng, 5)) {
    case 0:
        node = replica_world_leader(world, partition);
        if (node == NULL)
            return;
        /* fall through */
    case 1:
        if (node->server.state == SIM_SERVER_DOWN)
            return;
        sum->kills++;
        replica_node_die(node, !has_power               ? SIM_DEATH_KILL
                               : sim_chance(prng, 1, 2) ? SIM_DEATH_POWER_ORDERED
                                                        : SIM_DEATH_POWER_ADVERSARIAL);
        return;
    case 2: /* all at once */
        for (int i = 0; i < REPLICA_NODES && has_power; i++)
            replica_node_die(&world->nodes[i],
                             sim_chance(prng, 1, 2) ? SIM_DEATH_POWER_ORDERED : SIM_DEATH_POWER_ADVERSARIAL);
        sum->blackouts += has_power;
        return;
    case 3:
        for (int32_t i = 0; i < REPLICA_NODES; i++)
            replica_node_start(&world->nodes[i]);
        return;
    default:
        if (replica_world_leader(world, partition) != NULL && world->nodes[node->node_id - 1].node_epoch >= 0 &&
            stele_node_set_has(&world->states[partition].isr, node->node_id) &&
            world->states[partition].leader_id != node->node_id)
            replica_world_elect(world, partition, node->node_id);
        return;
    }
}

static void spoil_net(struct replica_world *world)
{
    struct sim_net_rates rates = {.reset_us = 700000,
                                  .stall_us = 300000,
                                  .stall_us_max = 200000,
                                  .silence_us = 3000000,
                                  .latency_us_min = 20,
                                  .latency_us_max = 3000,
                                  .refused = 50,
                                  .blackholed = 20,
                                  .pipe_bytes_min = 200,
                                  .pipe_bytes_max = 65536,
                                  .chunk_bytes_max = 400};
    sim_net_set_rates(&world->world, &rates);
}

static void run_seed(uint64_t seed, bool is_verbose, struct totals *sum)
{
    static struct replica_world world;
    replica_world_init(&world, seed, is_verbose);
    struct stele_prng *prng = sim_stream(&world.world, SIM_STREAM_SETUP);
    struct sim_disk_rates disk = {.cold = 50000, .short_read = 1000, .short_write = 1000};
    bool is_synced = sim_chance(prng, 1, 2);
    replica_world_set(&world, "log.flush.before.ack", is_synced ? "true" : "false");
    if (sim_chance(prng, 1, 2))
        replica_world_set(&world, "log.segment.bytes", "16384");
    for (int i = 0; i < REPLICA_NODES; i++) {
        world.nodes[i].server.arg = sum;
        world.nodes[i].server.traced = on_traced;
        sim_disk_set_rates(world.nodes[i].server.disk, &disk);
    }
    world.client.pause_us = 5000 + (int64_t)stele_prng_below(prng, 100000);
    if (sim_chance(prng, 1, 2))
        spoil_net(&world);
    if (is_synced) /* so that much is not synced when the power goes */
        world.world.job_us_max = 50000;
    replica_world_begin(&world);
    replica_world_until(&world, replica_world_is_led, "a leader of each partition");
    int64_t count = 3 + (int64_t)stele_prng_below(prng, 12);
    for (int64_t i = 0; i < count; i++) {
        replica_world_run(&world, sim_draw_log(prng, 2000000));
        happen(&world, is_synced && sim_chance(prng, 1, 2), sum);
    }
    replica_world_run(&world, 100000);
    sim_net_heal(&world.world);
    for (int i = 0; i < REPLICA_NODES; i++)
        replica_node_start(&world.nodes[i]);
    replica_world_run(&world, 2000000);
    replica_client_stop(&world);
    replica_world_until(&world, replica_world_is_whole, "all in sync, and equal");
    replica_world_check(&world);
    sum->sent += world.sent_count;
    sum->acked += world.acked_count;
    sum->elections += world.elections;
    sum->isr_changes += world.isr_changes;
    sum->refused += world.wishes_refused;
    if (world.acked_count == 0)
        sim_world_fail(&world.world, "nothing was acknowledged");
    replica_world_deinit(&world);
}

int main(int argc, char **argv)
{
    struct totals sum = {.sent = 0};
    uint64_t first = 1, seeds = SEEDS;
    bool is_verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            is_verbose = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            first = strtoull(argv[++i], NULL, 10);
            seeds = 1;
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else {
            (void)fprintf(stderr, "usage: sim_replicas [--seed S] [--seeds N] [--verbose]\n");
            return 2;
        }
    }
    for (uint64_t seed = first; seed < first + seeds; seed++)
        run_seed(seed, is_verbose, &sum);
    (void)printf("%llu seeds: %lld records sent, %lld acknowledged, %lld elections, %lld changes of in-sync sets, %lld "
                 "refused, %lld deaths, %lld blackouts, %lld truncations\n",
                 (unsigned long long)seeds, (long long)sum.sent, (long long)sum.acked, (long long)sum.elections,
                 (long long)sum.isr_changes, (long long)sum.refused, (long long)sum.kills, (long long)sum.blackouts,
                 (long long)sum.truncations);
    return 0;
}
