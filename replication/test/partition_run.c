/* The queue of events, and one seed from its beginning to its end. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "partition_world.h"

void pw_fail(struct pw_world *world, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int used = snprintf(world->failure, sizeof world->failure, "at %lld ms: ", (long long)world->now);
    vsnprintf(world->failure + used, sizeof world->failure - (size_t)used, format, args);
    va_end(args);
    longjmp(world->failed, 1);
}

void pw_say(struct pw_world *world, const char *format, ...)
{
    if (!world->is_verbose) {
        return;
    }
    va_list args;
    va_start(args, format);
    printf("%6lld  ", (long long)world->now);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

int64_t pw_draw(struct pw_world *world, int64_t low, int64_t high)
{
    return high <= low ? low : stele_prng_range(&world->prng, low, high);
}

bool pw_chance(struct pw_world *world, int of_1000)
{
    return of_1000 > 0 && stele_prng_below(&world->prng, 1000) < (uint64_t)of_1000;
}

bool pw_reaches(struct pw_world *world, int from, int to, int64_t *out_delay)
{
    *out_delay = pw_draw(world, 0, world->config.delay_max_ms);
    if (world->is_blocked[from][to]) {
        return false;
    }
    return world->is_healed || !pw_chance(world, world->config.loss);
}

static bool is_before(const struct pw_world *world, int a, int b)
{
    const struct pw_event *x = &world->events[a];
    const struct pw_event *y = &world->events[b];
    return x->time != y->time ? x->time < y->time : x->order < y->order;
}

static void swap(int *a, int *b)
{
    int c = *a;
    *a = *b;
    *b = c;
}

struct pw_event *pw_post(struct pw_world *world, enum pw_event_kind kind, int node, int64_t delay)
{
    if (world->free_count == 0) {
        pw_fail(world, "too many events wait");
    }
    int index = world->free_events[--world->free_count];
    struct pw_event *event = &world->events[index];
    event->time = world->now + delay;
    event->order = world->order++;
    event->kind = kind;
    event->node = node;
    event->incarnation = event->from_incarnation = 0;
    event->record_count = 0;
    event->is_lazy = false;
    event->err = STELE_OK;
    int at = world->heap_count++;
    world->heap[at] = index;
    while (at > 0 && is_before(world, world->heap[at], world->heap[(at - 1) / 2])) {
        swap(&world->heap[at], &world->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    return event;
}

static int pop(struct pw_world *world)
{
    int index = world->heap[0];
    world->heap[0] = world->heap[--world->heap_count];
    for (int at = 0;;) {
        int least = at;
        for (int child = 2 * at + 1; child <= 2 * at + 2; child++) {
            if (child < world->heap_count && is_before(world, world->heap[child], world->heap[least])) {
                least = child;
            }
        }
        if (least == at) {
            return index;
        }
        swap(&world->heap[at], &world->heap[least]);
        at = least;
    }
}

static void dispatch(struct pw_world *world, struct pw_event *event)
{
    if (event->kind <= PW_META || event->kind == PW_REGISTER_ANSWER || event->kind == PW_HEARTBEAT_SEND ||
        event->kind == PW_HOUSEKEEPING || event->kind == PW_START) {
        if (event->kind == PW_ALTER) {
            pw_controller_event(world, event);
        } else {
            pw_node_event(world, event);
        }
    } else if (event->kind == PW_REGISTER || event->kind == PW_HEARTBEAT || event->kind == PW_SESSIONS) {
        pw_controller_event(world, event);
    } else if (event->kind == PW_FAULT) {
        if (world->now < world->config.fault_end_ms) {
            pw_fault(world);
            (void)pw_post(world, PW_FAULT, 0, pw_draw(world, 1, 2 * world->config.fault_every_ms));
        }
    } else {
        pw_client_event(world, event);
    }
}

bool pw_step(struct pw_world *world)
{
    if (world->heap_count == 0) {
        return false;
    }
    int index = pop(world);
    struct pw_event *event = &world->events[index];
    world->now = event->time;
    world->stats.events++;
    uint64_t word = (uint64_t)event->time * 31 + (uint64_t)event->kind * 7 + (uint64_t)event->node;
    world->hash = (world->hash ^ word) * UINT64_C(1099511628211);
    dispatch(world, event);
    world->free_events[world->free_count++] = index;
    return true;
}

void pw_run_until(struct pw_world *world, int64_t time)
{
    while (world->heap_count > 0 && world->events[world->heap[0]].time <= time) {
        (void)pw_step(world);
    }
    world->now = stele_max_i64(world->now, time);
}

void pw_draw_config(uint64_t seed, struct pw_config *out_config)
{
    struct stele_prng prng;
    stele_prng_init(&prng, seed, 7);
    struct pw_config *config = out_config;
#define HALF() stele_prng_chance(&prng, 1, 2)
    *config = (struct pw_config){
        .node_count = (int)stele_prng_range(&prng, 3, PW_NODES_MAX),
        .is_flush = HALF(),
        .is_tainted = stele_prng_chance(&prng, 1, 6),
        .lag_ms = (int32_t)stele_prng_range(&prng, 60, 600),
        .backoff_ms = (int32_t)stele_prng_range(&prng, 20, 200),
        .session_ms = (int32_t)stele_prng_range(&prng, 150, 500),
        .fault_end_ms = 4000,
        .delay_max_ms = HALF() ? 3 : (int)stele_prng_range(&prng, 1, 40),
        .meta_delay_max_ms = HALF() ? 5 : (int)stele_prng_range(&prng, 1, 300),
        .sync_max_ms = HALF() ? 4 : (int)stele_prng_range(&prng, 1, 60),
        .evaluate_max_ms = HALF() ? 0 : (int)stele_prng_range(&prng, 0, 200),
        .loss = HALF() ? 0 : (int)stele_prng_range(&prng, 0, 120),
        .duplicates = HALF() ? 0 : (int)stele_prng_range(&prng, 0, 200),
        .lazy = HALF() ? 0 : (int)stele_prng_range(&prng, 0, 100),
        .fault_every_ms = (int)stele_prng_range(&prng, 30, 300),
        .has_kill = HALF(),
        .has_power = HALF(),
        .has_wipe = HALF(),
        .has_partition = HALF(),
        .has_clean = HALF(),
        .has_reassign = HALF(),
        .has_retention = stele_prng_chance(&prng, 1, 3),
        .has_alter_trouble = HALF(),
        .has_drift = HALF(),
        .has_burst = stele_prng_chance(&prng, 1, 4),
        .has_rebalance = stele_prng_chance(&prng, 1, 4),
        .has_damage = stele_prng_chance(&prng, 1, 5),
        .record_limit = PW_LOG_MAX - 512,
    };
#undef HALF
    config->replica_count = (int)stele_prng_range(&prng, 3, config->node_count);
    config->min_isr = (int32_t)stele_prng_range(&prng, 1, config->replica_count - 1);
    if (stele_prng_chance(&prng, 1, 2)) {
        config->min_isr = 2;
    }
}

/* Everything that the last seed wrote. */
void pw_init(struct pw_world *world, uint64_t seed, const struct pw_config *config)
{
    int64_t used = stele_min_i64(world->highest_end + PW_FETCH_MAX, PW_LOG_MAX);
    memset(world->origins, 0, sizeof world->origins[0] * (size_t)used);
    bool is_verbose = world->is_verbose;
    bool is_scripted = world->is_scripted;
    world->seed = seed;
    world->config = *config;
    world->is_verbose = is_verbose;
    world->is_scripted = is_scripted;
    stele_prng_init(&world->prng, seed, 1);
    world->now = 0;
    world->order = 0;
    world->hash = UINT64_C(14695981039346656037);
    world->heap_count = 0;
    world->free_count = PW_EVENTS_MAX;
    for (int i = 0; i < PW_EVENTS_MAX; i++) {
        world->free_events[i] = i;
    }
    memset(world->is_blocked, 0, sizeof world->is_blocked);
    world->meta_count = 0;
    world->is_healed = world->is_tainted = false;
    world->acked_count = 0;
    world->committed_end = world->deleted_end = world->highest_end = 0;
    world->latest_offset = 0;
    world->restarts_of_log = 0;
    world->stats = (struct pw_stats){.events = 0};
    world->state = (struct stele_partition_state){.leader_id = STELE_NO_NODE};
    for (int i = 0; i < PW_META_MAX; i++) {
        world->epoch_leader[i] = -1;
    }
    for (int i = 0; i < PW_NODES_MAX; i++) {
        struct pw_node *node = &world->nodes[i];
        struct pw_log *log = &node->log;
        size_t before = offsetof(struct pw_node, log);
        memset(node, 0, before);
        memset((char *)node + before + sizeof *log, 0, sizeof *node - before - sizeof *log);
        pw_log_restart(log, 0);
        node->id = i;
        node->clock_rate = config->has_drift ? pw_draw(world, 900, 1100) : 1000;
        node->clock_offset = pw_draw(world, 0, 100000);
        for (int k = 0; k < PW_NODES_MAX; k++) {
            node->statuses[k] = (struct stele_node_status){.node_id = k, .node_epoch = -1};
        }
    }
}

void pw_begin(struct pw_world *world)
{
    for (int i = 0; i < world->config.node_count; i++) {
        pw_node_start(world, i);
    }
    pw_controller_init(world);
    (void)pw_post(world, PW_SESSIONS, 0, 20);
    pw_run_until(world, 30);
    pw_clients_begin(world);
    if (!world->is_scripted) {
        (void)pw_post(world, PW_FAULT, 0, 100);
    }
}

void pw_heal(struct pw_world *world)
{
    pw_say(world, "faults end");
    world->is_healed = true;
    memset(world->is_blocked, 0, sizeof world->is_blocked);
    for (int i = 0; i < world->config.node_count; i++) {
        if (!world->nodes[i].is_up) {
            (void)pw_post(world, PW_START, i, pw_draw(world, 0, 50));
        }
    }
}

void pw_settle(struct pw_world *world)
{
    const struct pw_config *config = &world->config;
    int64_t round_ms = 3 * (int64_t)config->delay_max_ms + config->sync_max_ms + 70;
    int64_t bound_ms = 2000 + 4 * (int64_t)config->lag_ms + 4 * (int64_t)config->session_ms +
                       20 * (round_ms + config->meta_delay_max_ms) + world->highest_end / (PW_FETCH_MAX / 2) * round_ms;
    int64_t end = world->now + bound_ms;
    do {
        pw_run_until(world, world->now + 200);
    } while (world->now < end && !pw_is_well(world));
    pw_run_until(world, world->now + 3 * round_ms + 2 * config->lag_ms); /* it stays so, and watermarks arrive */
    pw_check_end(world);
}

bool pw_run(struct pw_world *world, uint64_t seed, const struct pw_config *config)
{
    pw_init(world, seed, config);
    if (setjmp(world->failed) != 0) {
        return false;
    }
    pw_begin(world);
    pw_run_until(world, config->fault_end_ms);
    pw_heal(world);
    pw_settle(world);
    return true;
}
