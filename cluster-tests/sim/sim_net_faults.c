/* What happens to connections by itself: resets, stalls, silence; each class has a clock and choices of its own. */
#include "base/check.h"
#include "cluster-tests/sim/sim_net_struct.h"

static bool is_up(const struct sim_link *link)
{
    return link->ends[0].state == SIM_END_OPEN && link->ends[1].state == SIM_END_OPEN && !link->is_silent;
}

static struct sim_link *pick_link(struct sim_net_world *net, struct stele_prng *prng)
{
    struct sim_link *picked = NULL;
    uint64_t seen = 0;
    for (struct stele_list *at = net->links.next; at != &net->links; at = at->next) {
        struct sim_link *link = STELE_CONTAINER_OF(at, struct sim_link, link);
        if (is_up(link) && stele_prng_below(prng, ++seen) == 0)
            picked = link;
    }
    return picked;
}

static void again(struct sim_world *world, struct sim_event *event, enum sim_stream stream, int64_t mean_us)
{
    if (mean_us > 0)
        sim_event_after(world, event, stele_prng_range(sim_stream(world, stream), 1, 2 * mean_us));
}

static void run_reset(struct sim_event *event)
{
    struct sim_net_world *net = STELE_CONTAINER_OF(event, struct sim_net_world, reset);
    struct sim_link *link = pick_link(net, sim_stream(net->world, SIM_STREAM_RESET));
    if (link != NULL) {
        sim_world_log(net->world, "net: connection %d is reset", link->number);
        sim_world_reach(net->world, SIM_POINT_RESET);
        sim_link_reset(link);
    }
    again(net->world, event, SIM_STREAM_RESET, net->rates.reset_us);
}

static void run_stall(struct sim_event *event)
{
    struct sim_net_world *net = STELE_CONTAINER_OF(event, struct sim_net_world, stall);
    struct stele_prng *prng = sim_stream(net->world, SIM_STREAM_STALL);
    struct sim_link *link = pick_link(net, prng);
    if (link != NULL) {
        uint64_t side = stele_prng_below(prng, 2);
        int64_t for_us = 1000 + sim_draw_log(prng, net->rates.stall_us_max);
        sim_world_log(net->world, "net: connection %d stalls for %lld us towards %s", link->number, (long long)for_us,
                      link->ends[1 - side].net->env->name);
        sim_world_reach(net->world, SIM_POINT_STALLED);
        link->ends[side].stalled_us = net->world->now_us + for_us;
    }
    again(net->world, event, SIM_STREAM_STALL, net->rates.stall_us);
}

static void run_silence(struct sim_event *event)
{
    struct sim_net_world *net = STELE_CONTAINER_OF(event, struct sim_net_world, silence);
    struct stele_prng *prng = sim_stream(net->world, SIM_STREAM_SILENCE);
    struct sim_link *link = pick_link(net, prng);
    if (link != NULL) {
        sim_world_log(net->world, "net: connection %d falls silent", link->number);
        sim_world_reach(net->world, SIM_POINT_HALF_OPEN);
        link->is_silent = true;
        uint64_t side = stele_prng_below(prng, 2);
        if (sim_chance(prng, 1, 3)) /* one of the two learns of it */
            sim_conn_lose(&link->ends[side], 1 + sim_draw_log(prng, 2000000));
    }
    again(net->world, event, SIM_STREAM_SILENCE, net->rates.silence_us);
}

void sim_net_faults_init(struct sim_world *world)
{
    sim_event_init(&world->net->reset, "reset", NULL, run_reset);
    sim_event_init(&world->net->stall, "stall", NULL, run_stall);
    sim_event_init(&world->net->silence, "silence", NULL, run_silence);
}

void sim_net_faults_stop(struct sim_world *world)
{
    sim_event_cancel(world, &world->net->reset);
    sim_event_cancel(world, &world->net->stall);
    sim_event_cancel(world, &world->net->silence);
}

void sim_net_set_rates(struct sim_world *world, const struct sim_net_rates *rates)
{
    struct sim_net_world *net = world->net;
    STELE_ASSERT(rates->pipe_bytes_min > 0);
    net->rates = *rates;
    sim_net_faults_stop(world);
    again(world, &net->reset, SIM_STREAM_RESET, rates->reset_us);
    again(world, &net->stall, SIM_STREAM_STALL, rates->stall_us);
    again(world, &net->silence, SIM_STREAM_SILENCE, rates->silence_us);
}

void sim_net_heal(struct sim_world *world)
{
    struct sim_net_rates rates = world->net->rates;
    rates.reset_us = rates.stall_us = rates.silence_us = 0;
    rates.refused = rates.blackholed = 0;
    sim_net_set_rates(world, &rates);
}
