#include "cluster-tests/sim/cluster_plan.h"

#include "base/check.h"
#include "cluster-tests/sim/cluster_book.h"
#include "cluster-tests/sim/sim_image.h"

#include <stdlib.h>
#include <string.h>

enum { SECOND_US = 1000000, STREAM_PLAN = 1000 };

static const struct {
    const char *text;
    enum cluster_class class;
} kinds[CLUSTER_FAULT_COUNT] = {
#define F(name, text, class) {text, CLUSTER_CLASS_##class},
    CLUSTER_FAULTS(F)
#undef F
};

const char *cluster_fault_name(enum cluster_fault_kind kind)
{
    return kinds[kind].text;
}

enum cluster_class cluster_fault_class(enum cluster_fault_kind kind)
{
    return kinds[kind].class;
}

const char *cluster_class_name(enum cluster_class class)
{
    static const char *const names[CLUSTER_CLASS_COUNT] = {"kills",
                                                           "power losses",
                                                           "crashes in calls",
                                                           "stops",
                                                           "wiped disks",
                                                           "pauses",
                                                           "slow",
                                                           "disk errors",
                                                           "full disks",
                                                           "clocks",
                                                           "no memory",
                                                           "delays",
                                                           "stalls",
                                                           "resets",
                                                           "half-open",
                                                           "one-way losses",
                                                           "partitions",
                                                           "topics",
                                                           "deletions of records",
                                                           "moves",
                                                           "voters",
                                                           "disk moves",
                                                           "failed directories",
                                                           "rotten batches"};
    return names[class];
}

bool cluster_class_is_call(enum cluster_class class)
{
    return class >= CLUSTER_CLASS_TOPICS && class <= CLUSTER_CLASS_DISK_MOVES;
}

bool cluster_fault_is_of_topic(enum cluster_fault_kind kind)
{
    return kinds[kind].class == CLUSTER_CLASS_TOPICS || kinds[kind].class == CLUSTER_CLASS_RECORDS ||
           kind == CLUSTER_REASSIGN || kind == CLUSTER_RELOCATE;
}

void cluster_plan_add(struct cluster_plan *plan, const struct cluster_fault *fault)
{
    plan->lines = sim_grow(plan->lines, &plan->capacity, plan->count + 1, sizeof(*plan->lines));
    memset(&plan->lines[plan->count], 0, sizeof(*plan->lines));
    plan->lines[plan->count++].fault = *fault;
}

void cluster_plan_free(struct cluster_plan *plan)
{
    free(plan->lines);
    plan->lines = NULL;
    plan->count = plan->capacity = 0;
}

/* Making one. */

struct maker {
    struct cluster_plan *plan;
    const struct cluster_plan_frame *frame;
    struct stele_prng *prng;
    int self;      /* the node whose stream it is */
    bool has_gone; /* a node goes for good */
    int wiped;     /* whose disk may be */
};

static int64_t draw(struct maker *maker, int64_t low, int64_t high)
{
    return stele_prng_range(maker->prng, low, high);
}

static int64_t draw_log(struct maker *maker, int64_t low, int64_t high)
{
    return low + sim_draw_log(maker->prng, high - low);
}

static int other_node(struct maker *maker)
{
    int count = maker->plan->node_count;
    return count < 2 ? maker->self : (maker->self + (int)draw(maker, 1, count - 1)) % count;
}

/* Mostly a node, sometimes a client. */
static int other_host(struct maker *maker)
{
    bool is_client = maker->plan->node_count < 2 || sim_chance(maker->prng, 1, 3);
    return is_client ? maker->plan->node_count + (int)draw(maker, 0, maker->plan->client_count - 1) : other_node(maker);
}

static void draw_partition(struct maker *maker, struct cluster_fault *fault)
{
    static const enum cluster_fault_kind shapes[] = {CLUSTER_CUT,   CLUSTER_ISOLATE, CLUSTER_ISOLATE,
                                                     CLUSTER_SPLIT, CLUSTER_BRIDGE,  CLUSTER_RING};
    int count = maker->plan->node_count;
    fault->kind = shapes[draw(maker, 0, (int64_t)STELE_ARRAY_LEN(shapes) - 1)];
    fault->b = fault->kind == CLUSTER_CUT ? other_host(maker) : CLUSTER_NOBODY;
    fault->arg = draw(maker, 1, (1 << count) - 1);
    fault->for_us = draw_log(maker, SECOND_US / 5, 40 * SECOND_US);
    if (fault->kind == CLUSTER_ISOLATE)
        fault->arg = draw(maker, 0, 1);
}

static void draw_disk(struct maker *maker, struct cluster_fault *fault, enum cluster_class class)
{
    if (class == CLUSTER_CLASS_FULL_DISK) {
        fault->kind = CLUSTER_FULL_DISK;
        fault->arg = draw_log(maker, 0, 300000);
    } else if (class == CLUSTER_CLASS_DISK) {
        fault->kind = draw(maker, 0, 1) == 0 ? CLUSTER_SYNC_FAIL : CLUSTER_WRITE_FAIL;
        fault->arg = draw_log(maker, 1, 60);
    } else {
        fault->kind = draw(maker, 0, 1) == 0 ? CLUSTER_SLOW_DISK : CLUSTER_SLOW_SYNC;
        fault->arg = fault->kind == CLUSTER_SLOW_DISK ? draw_log(maker, 50, 20000) : draw_log(maker, 1000, 5000000);
        fault->arg = stele_min_i64(fault->arg, SECOND_US); /* a stop syncs file after file, and the run has an end */
    }
    fault->for_us = draw_log(maker, SECOND_US, 30 * SECOND_US);
}

static void draw_link(struct maker *maker, struct cluster_fault *fault, enum cluster_class class)
{
    static const enum cluster_fault_kind of[] = {[CLUSTER_CLASS_DELAY] = CLUSTER_DELAY,
                                                 [CLUSTER_CLASS_STALL] = CLUSTER_STALL,
                                                 [CLUSTER_CLASS_RESET] = CLUSTER_RESET,
                                                 [CLUSTER_CLASS_HALF_OPEN] = CLUSTER_HALF_OPEN,
                                                 [CLUSTER_CLASS_ONE_WAY] = CLUSTER_ONE_WAY};
    fault->kind = of[class];
    fault->b = other_host(maker);
    fault->arg = class == CLUSTER_CLASS_DELAY ? draw_log(maker, 1000, 1000000) : draw(maker, 0, 20);
    fault->for_us = draw_log(maker, SECOND_US / 20, (class == CLUSTER_CLASS_DELAY ? 40 : 15) * SECOND_US);
    if (class == CLUSTER_CLASS_ONE_WAY)
        fault->arg = 0;
    if (class == CLUSTER_CLASS_ONE_WAY && draw(maker, 0, 1) == 1) {
        fault->b = fault->a;
        fault->a = other_node(maker);
    }
}

/* Enough that a node may go for good. */
static int64_t draw_replicas(struct maker *maker)
{
    int64_t digits = 0;
    int count = maker->plan->node_count, left = count;
    int least = count < 3 || maker->has_gone ? (count < 3 ? count : 3) : 2;
    int taken = (int)draw(maker, least, count);
    bool is_taken[16] = {false};
    for (; taken > 0; taken--) {
        int node = 0;
        for (int64_t skip = draw(maker, 0, --left); skip > 0 || is_taken[node]; node++)
            skip -= !is_taken[node];
        is_taken[node] = true;
        digits = digits * 10 + node + 1;
    }
    return digits;
}

static void draw_call(struct maker *maker, struct cluster_fault *fault, enum cluster_class class)
{
    fault->a = (int)draw(maker, 0, CLUSTER_TOPICS_MAX - 1);
    if (class == CLUSTER_CLASS_VOTERS) {
        bool is_removal = draw(maker, 0, 1) == 0;
        fault->kind = is_removal ? CLUSTER_REMOVE_VOTER : CLUSTER_READMIT;
        fault->a = is_removal ? (int)draw(maker, 0, maker->plan->node_count - 1) : maker->wiped;
        fault->for_us = is_removal ? draw_log(maker, 1, 30 * SECOND_US) : 0;
    } else if (class == CLUSTER_CLASS_TOPICS) {
        fault->kind = CLUSTER_DELETE_TOPIC;
        fault->for_us = draw(maker, 0, 1) * draw_log(maker, 1, 3 * SECOND_US);
    } else if (class == CLUSTER_CLASS_DISK_MOVES) {
        fault->kind = CLUSTER_RELOCATE;
        fault->b = (int)draw(maker, 0, CLUSTER_PARTITIONS_MAX - 1);
        fault->arg = draw(maker, 1, maker->plan->node_count) * 10 + draw(maker, 0, CLUSTER_DIRS_MAX - 1);
    } else if (class == CLUSTER_CLASS_MOVES) {
        fault->kind = draw(maker, 0, 3) == 0 ? CLUSTER_PREFER : CLUSTER_REASSIGN;
        fault->a = fault->kind == CLUSTER_PREFER ? CLUSTER_NOBODY : fault->a;
        fault->b = fault->kind == CLUSTER_PREFER ? CLUSTER_NOBODY : (int)draw(maker, 0, CLUSTER_PARTITIONS_MAX - 1);
        fault->for_us = fault->kind == CLUSTER_REASSIGN ? draw(maker, 0, 1) * draw_log(maker, 1, 10 * SECOND_US) : 0;
        fault->arg = fault->kind == CLUSTER_REASSIGN ? draw_replicas(maker) : 0;
    } else {
        fault->kind = CLUSTER_DELETE_RECORDS;
        fault->b = (int)draw(maker, 0, CLUSTER_PARTITIONS_MAX - 1);
        fault->arg = draw(maker, 0, 9) == 0 ? 1001 : draw(maker, 0, 1000);
    }
}

static void draw_fault(struct maker *maker, struct cluster_fault *fault, enum cluster_class class)
{
    static const enum cluster_fault_kind of[] = {
        [CLUSTER_CLASS_KILL] = CLUSTER_KILL,   [CLUSTER_CLASS_POWER] = CLUSTER_POWER,
        [CLUSTER_CLASS_CRASH] = CLUSTER_CRASH, [CLUSTER_CLASS_STOP] = CLUSTER_STOP,
        [CLUSTER_CLASS_WIPE] = CLUSTER_WIPE,   [CLUSTER_CLASS_PAUSE] = CLUSTER_PAUSE};
    fault->a = maker->self;
    fault->b = CLUSTER_NOBODY;
    fault->arg = 0;
    if (cluster_class_is_call(class)) {
        draw_call(maker, fault, class);
    } else if (class == CLUSTER_CLASS_PARTITION) {
        draw_partition(maker, fault);
    } else if (class == CLUSTER_CLASS_SLOW_DISK || class == CLUSTER_CLASS_DISK || class == CLUSTER_CLASS_FULL_DISK) {
        draw_disk(maker, fault, class);
    } else if (class == CLUSTER_CLASS_CLOCK) {
        fault->kind = draw(maker, 0, 1) == 0 ? CLUSTER_DRIFT : CLUSTER_STEP;
        fault->arg = fault->kind == CLUSTER_DRIFT ? draw(maker, -50000, 50000) : draw(maker, -3600000, 3600000);
        fault->for_us = draw_log(maker, SECOND_US, 60 * SECOND_US);
    } else if (class == CLUSTER_CLASS_MEMORY) {
        fault->kind = CLUSTER_NO_MEMORY;
        fault->arg = draw_log(maker, 10, 2000);
        fault->for_us = draw_log(maker, SECOND_US, 20 * SECOND_US);
    } else if (class == CLUSTER_CLASS_DIRECTORY) {
        fault->kind = draw(maker, 0, 2) == 0 ? CLUSTER_DIR_FULL : CLUSTER_DIR_FAIL;
        fault->arg = draw(maker, 0, CLUSTER_DIRS_MAX - 1);
        fault->for_us = draw_log(maker, SECOND_US / 10, 30 * SECOND_US);
    } else if (class == CLUSTER_CLASS_ROT) {
        fault->kind = CLUSTER_BIT_ROT;
        fault->arg = draw(maker, 0, INT32_MAX);
    } else if (class >= CLUSTER_CLASS_DELAY) {
        draw_link(maker, fault, class);
    } else {
        fault->kind = of[class];
        fault->for_us = draw_log(maker, SECOND_US / 100, (class == CLUSTER_CLASS_PAUSE ? 15 : 30) * SECOND_US);
        if (class == CLUSTER_CLASS_POWER)
            fault->arg = draw(maker, 0, 1);
        if (class == CLUSTER_CLASS_CRASH)
            fault->arg = draw_log(maker, 1, 400) * 3 + draw(maker, 0, 2);
        bool is_all = (class == CLUSTER_CLASS_KILL || class == CLUSTER_CLASS_POWER) && draw(maker, 0, 11) == 0;
        if (is_all)
            fault->kind = class == CLUSTER_CLASS_KILL ? CLUSTER_KILL_ALL : CLUSTER_POWER_ALL;
    }
}

/* The faults of one class that begin at one node. */
static void make_class(struct maker *maker, enum cluster_class class, int64_t mean_us)
{
    int64_t at_us = maker->frame->from_us;
    for (;;) {
        struct cluster_fault fault = {.kind = CLUSTER_KILL};
        at_us += draw(maker, 1, 2 * mean_us);
        if (at_us >= maker->frame->to_us)
            return;
        draw_fault(maker, &fault, class);
        fault.at_us = at_us;
        fault.for_us = stele_min_i64(fault.for_us, maker->frame->to_us - at_us);
        cluster_plan_add(maker->plan, &fault);
        if (class == CLUSTER_CLASS_WIPE) /* one disk in a run */
            return;
    }
}

/* How often each class comes to one node, in seconds, at most and at least. */
static int64_t draw_mean_us(struct stele_prng *prng, enum cluster_class class)
{
    bool is_rare = class == CLUSTER_CLASS_POWER || class == CLUSTER_CLASS_CRASH || class == CLUSTER_CLASS_STOP ||
                   class == CLUSTER_CLASS_KILL || class == CLUSTER_CLASS_PARTITION ||
                   class == CLUSTER_CLASS_FULL_DISK || class == CLUSTER_CLASS_DISK || class == CLUSTER_CLASS_DIRECTORY;
    if (class == CLUSTER_CLASS_DISK_MOVES) /* many ask for what is so already */
        return 3 * (int64_t)SECOND_US + sim_draw_log(prng, 30 * (int64_t)SECOND_US);
    if (cluster_class_is_call(class))
        return 10 * (int64_t)SECOND_US + sim_draw_log(prng, 100 * (int64_t)SECOND_US);
    return (is_rare ? 25 : 8) * (int64_t)SECOND_US + sim_draw_log(prng, 300 * (int64_t)SECOND_US);
}

static bool is_before(const struct cluster_line *a, const struct cluster_line *b)
{
    return a->fault.at_us < b->fault.at_us;
}

/* Few lines, nearly in order: an insertion sort keeps those of one time as they came. */
void cluster_plan_sort(struct cluster_plan *plan)
{
    for (int64_t i = 1; i < plan->count; i++) {
        struct cluster_line line = plan->lines[i];
        int64_t at = i;
        for (; at > 0 && is_before(&line, &plan->lines[at - 1]); at--)
            plan->lines[at] = plan->lines[at - 1];
        plan->lines[at] = line;
    }
}

void cluster_plan_make(struct cluster_plan *plan, const struct cluster_plan_frame *frame)
{
    struct stele_prng setup;
    stele_prng_init(&setup, plan->seed, STREAM_PLAN);
    bool is_calm = sim_chance(&setup, 1, 16); /* nothing ever happens, but much at the same time */
    int wiped = (int)stele_prng_below(&setup, (uint64_t)plan->node_count);
    bool has_gone = sim_chance(&setup, 1, 6) && plan->node_count >= 3;
    for (int class = 0; class < CLUSTER_CLASS_COUNT; class ++) {
        bool is_on = sim_chance(&setup, class == CLUSTER_CLASS_WIPE || class == CLUSTER_CLASS_MEMORY ? 1 : 4, 8);
        int64_t mean_us = draw_mean_us(&setup, (enum cluster_class) class);
        is_on = is_on && ((plan->no_classes >> class) & 1) == 0;
        /* Made anew while a node is away, a topic has too few replicas to lose another for good. */
        has_gone = has_gone && !(class == CLUSTER_CLASS_TOPICS && is_on);
        for (int node = 0; node < plan->node_count && is_on && !is_calm; node++) {
            struct stele_prng prng;
            struct maker maker = {
                .plan = plan, .frame = frame, .prng = &prng, .self = node, .has_gone = has_gone, .wiped = wiped};
            stele_prng_init(&prng, plan->seed, STREAM_PLAN + 1 + (uint64_t) class * 64 + (uint64_t)node);
            if (cluster_class_is_call((enum cluster_class) class) && node > 0)
                continue;
            /* Who goes for good must not be missed by those that are left: a majority that it was of. */
            if (class == CLUSTER_CLASS_VOTERS && (plan->node_count < 3 || has_gone))
                continue;
            bool is_of_one = class == CLUSTER_CLASS_WIPE || class == CLUSTER_CLASS_ROT;
            if (is_of_one && (node != wiped || plan->node_count < 3))
                continue;
            make_class(&maker, (enum cluster_class) class, mean_us);
        }
    }
    cluster_plan_sort(plan);
    if (has_gone && !is_calm && ((plan->no_classes >> CLUSTER_CLASS_KILL) & 1) == 0)
        cluster_plan_add(plan, &(struct cluster_fault){.kind = CLUSTER_KILL,
                                                       .a = wiped,
                                                       .b = CLUSTER_NOBODY,
                                                       .at_us = frame->to_us,
                                                       .for_us = CLUSTER_FOR_EVER});
}
