/* What happens to connections by itself: resets, stalls, silence; each class has a clock and choices of its own. */
#include "base/check.h"
#include "cluster-tests/sim/sim_net_struct.h"

#include <stdio.h>
#include <string.h>

enum { RETRANSMIT_US_MAX = 3000000 };

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

/* Between two machines. */

int sim_net_host(struct sim_world *world, const char *name)
{
    struct sim_net_world *net = world->net;
    for (int i = 0; i < net->host_count; i++) {
        if (strcmp(net->hosts[i], name) == 0)
            return i;
    }
    STELE_ASSERT(net->host_count < SIM_HOSTS_MAX);
    (void)snprintf(net->hosts[net->host_count], sizeof(net->hosts[0]), "%s", name);
    return net->host_count++;
}

void sim_net_block(struct sim_world *world, int from, int to)
{
    world->net->blocked[from][to]++;
}

bool sim_net_is_blocked(const struct sim_world *world, int from, int to)
{
    return world->net->blocked[from][to] > 0;
}

static void bring(struct stele_conn *conn, const struct stele_conn *to)
{
    struct sim_world *world = conn->link->world;
    if (to->state == SIM_END_OPEN && (conn->pipe_count > 0 || conn->is_ended))
        sim_event_hurry(world, &conn->arrive, 1 + sim_draw_log(sim_stream(world, SIM_STREAM_RESET), RETRANSMIT_US_MAX));
}

void sim_net_free(struct sim_world *world, int from, int to)
{
    struct sim_net_world *net = world->net;
    STELE_ASSERT(net->blocked[from][to] > 0);
    if (--net->blocked[from][to] > 0)
        return;
    for (struct stele_list *at = net->links.next; at != &net->links; at = at->next) {
        struct sim_link *link = STELE_CONTAINER_OF(at, struct sim_link, link);
        for (int side = 0; side < 2; side++) {
            if (link->hosts[side] == from && link->hosts[1 - side] == to)
                bring(&link->ends[side], &link->ends[1 - side]);
        }
    }
}

void sim_net_delay(struct sim_world *world, int from, int to, int64_t us)
{
    world->net->delay_us[from][to] = us;
}

static bool is_between(const struct sim_link *link, int a, int b)
{
    return is_up(link) &&
           ((link->hosts[0] == a && link->hosts[1] == b) || (link->hosts[0] == b && link->hosts[1] == a));
}

static struct sim_link *link_between(struct sim_world *world, int a, int b, int64_t which)
{
    struct sim_net_world *net = world->net;
    int64_t count = 0, seen = 0;
    for (struct stele_list *at = net->links.next; at != &net->links; at = at->next)
        count += is_between(STELE_CONTAINER_OF(at, struct sim_link, link), a, b);
    for (struct stele_list *at = net->links.next; at != &net->links; at = at->next) {
        struct sim_link *link = STELE_CONTAINER_OF(at, struct sim_link, link);
        if (is_between(link, a, b) && seen++ == which % count)
            return link;
    }
    return NULL;
}

bool sim_net_reset(struct sim_world *world, int a, int b, int64_t which)
{
    struct sim_link *link = link_between(world, a, b, which);
    if (link == NULL)
        return false;
    sim_world_log(world, "net: connection %d is reset", link->number);
    sim_world_reach(world, SIM_POINT_RESET);
    sim_link_reset(link);
    return true;
}

bool sim_net_stall(struct sim_world *world, int from, int to, int64_t which, int64_t us)
{
    struct sim_link *link = link_between(world, from, to, which);
    if (link == NULL)
        return false;
    sim_world_log(world, "net: connection %d stalls for %lld us", link->number, (long long)us);
    sim_world_reach(world, SIM_POINT_STALLED);
    link->ends[link->hosts[0] == from ? 0 : 1].stalled_us = world->now_us + us;
    return true;
}

bool sim_net_hold(struct sim_world *world, int connection, int from, int64_t us)
{
    struct sim_net_world *net = world->net;
    for (struct stele_list *at = net->links.next; at != &net->links; at = at->next) {
        struct sim_link *link = STELE_CONTAINER_OF(at, struct sim_link, link);
        if (link->number == connection && is_up(link)) {
            sim_world_log(world, "net: connection %d is held for %lld us", link->number, (long long)us);
            link->ends[link->hosts[0] == from ? 0 : 1].stalled_us = world->now_us + us;
            return true;
        }
    }
    return false;
}

bool sim_net_silence(struct sim_world *world, int a, int b, int64_t which, bool is_told)
{
    struct sim_link *link = link_between(world, a, b, which);
    if (link == NULL)
        return false;
    sim_world_log(world, "net: connection %d falls silent", link->number);
    sim_world_reach(world, SIM_POINT_HALF_OPEN);
    link->is_silent = true;
    if (is_told)
        sim_conn_lose(&link->ends[link->hosts[0] == a ? 0 : 1],
                      1 + sim_draw_log(sim_stream(world, SIM_STREAM_SILENCE), 2000000));
    return true;
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
