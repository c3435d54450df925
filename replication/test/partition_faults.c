/* Faults. Unless the run may lose, none is done that takes the last copy of a committed record: somebody else that may
 * lead keeps all of them (the table of durability). */
#include "partition_world.h"

/* Whether node `id` may lose what it has. At least min(min.insync.replicas, those that may lead) hold every committed
 * record, and a controller that does not know of a loss may let all others of them go: so many less one may be lost
 * before it knows. */
bool pw_may_lose(const struct pw_world *world, int id)
{
    int32_t eligible = world->state.isr.count + world->state.elr.count;
    int32_t holders = stele_partition_min_isr(world->config.min_isr, world->state.replicas.count);
    holders = eligible < holders ? eligible : holders;
    for (int i = 0; i < world->config.node_count; i++) {
        const struct pw_node *node = &world->nodes[i];
        bool is_lost =
            node->has_lost_disk || (node->has_lost_tail && !world->config.is_flush) || node->damaged_until > world->now;
        holders -= i != id && is_lost;
    }
    return world->config.is_tainted || holders >= 2;
}

static void restart_later(struct pw_world *world, int id)
{
    int64_t delay = pw_chance(world, 500) ? pw_draw(world, 5, 60) : pw_draw(world, 60, 900);
    (void)pw_post(world, PW_START, id, delay);
}

static void stop_one(struct pw_world *world, int id, bool is_power, bool is_clean)
{
    if (!world->nodes[id].is_up) {
        return;
    }
    pw_node_stop(world, id, is_power, is_clean);
    restart_later(world, id);
}

static void lose_power(struct pw_world *world, int id)
{
    bool is_safe = world->config.is_flush || pw_may_lose(world, id);
    if (is_safe && world->nodes[id].is_up) {
        world->stats.powers++;
        stop_one(world, id, true, false);
    }
}

static void wipe(struct pw_world *world, int id)
{
    if (!pw_may_lose(world, id)) {
        return;
    }
    world->stats.wipes++;
    stop_one(world, id, false, false);
    pw_node_wipe(world, id);
}

static void stop_all(struct pw_world *world)
{
    bool is_power = world->config.has_power && (world->config.is_flush || world->config.is_tainted);
    for (int i = 0; i < world->config.node_count; i++) {
        if (is_power) {
            lose_power(world, i);
        } else {
            stop_one(world, i, false, false);
        }
    }
}

static void block_links(struct pw_world *world)
{
    world->stats.partitions++;
    int ends = PW_NODES_MAX + 1;
    int victim = (int)pw_draw(world, 0, world->config.node_count - 1);
    int shape = (int)pw_draw(world, 0, 3);
    for (int i = 0; i < ends; i++) {
        if (shape == 0 || shape == 2) {
            world->is_blocked[victim][i] = true; /* says nothing any more */
        }
        if (shape == 1 || shape == 2) {
            world->is_blocked[i][victim] = true; /* hears nothing */
        }
    }
    if (shape == 3) {
        int other = (int)pw_draw(world, 0, ends - 1);
        world->is_blocked[victim][other] = true;
    }
}

static void unblock_links(struct pw_world *world)
{
    for (int i = 0; i <= PW_NODES_MAX; i++) {
        for (int k = 0; k <= PW_NODES_MAX; k++) {
            world->is_blocked[i][k] = false;
        }
    }
}

static void reassign(struct pw_world *world)
{
    struct pw_config *config = &world->config;
    struct stele_partition_change change = {.reassign = STELE_REASSIGN_START};
    int first = (int)pw_draw(world, 0, config->node_count - 1);
    for (int i = 0; i < config->replica_count; i++) {
        change.target.ids[change.target.count++] = (first + i) % config->node_count;
    }
    change.reassign = pw_chance(world, 200) ? STELE_REASSIGN_CANCEL : STELE_REASSIGN_START;
    int32_t copies = world->state.isr.count + world->state.elr.count;
    if (pw_controller_change(world, &change)) {
        int32_t left = world->state.isr.count + world->state.elr.count;
        if (left < copies && left < config->min_isr) {
            pw_fail(world, "4.9.4: a reassignment leaves %d copies of what was committed", left);
        }
        world->stats.reassigns++;
    }
}

static void elect_preferred(struct pw_world *world)
{
    const struct stele_partition_change change = {.mode = STELE_ELECT_PREFERRED};
    (void)pw_controller_change(world, &change);
}

void pw_fault(struct pw_world *world)
{
    const struct pw_config *config = &world->config;
    int id = (int)pw_draw(world, 0, config->node_count - 1);
    if (pw_chance(world, 400) && world->state.leader_id != STELE_NO_NODE) {
        id = world->state.leader_id;
    }
    int what = (int)pw_draw(world, 0, 99);
    if (what < 18 && config->has_kill) {
        world->stats.kills++;
        stop_one(world, id, false, false);
    } else if (what < 30 && config->has_power) {
        lose_power(world, id);
    } else if (what < 38 && config->has_wipe) {
        wipe(world, id);
    } else if (what < 52 && config->has_partition) {
        block_links(world);
    } else if (what < 70 && config->has_partition) {
        unblock_links(world);
    } else if (what < 74 && config->has_clean) {
        stop_one(world, id, false, true);
    } else if (what < 80 && config->has_reassign) {
        reassign(world);
    } else if (what < 86) {
        elect_preferred(world);
    } else if (what < 92 && world->registered[id].status.is_active) {
        pw_controller_fence(world, id); /* false suspicion is harmless */
    } else if (what < 94 && (config->has_kill || config->has_power)) {
        stop_all(world);
    }
}
