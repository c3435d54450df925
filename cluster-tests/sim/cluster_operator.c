/* Those who run the cluster: two programs that do the lines of a plan which take a call, each in the order of the plan.
 * A call that takes long makes what comes behind it late. What a line begins, it ends, at the latest when the faults
 * are over. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"

#include <stdio.h>
#include <string.h>

enum { LIVES_LEFT = 6, LOOK_US = 5000000 };

static const char *name_of(const struct cluster_operator *self)
{
    return self->sim.process.name;
}

static bool is_done(struct cluster_operator *self, const struct stele_result *result, const char *call)
{
    return cluster_call_is_done(self->run, &self->sim, result, call);
}

/* Topics. */

/* Where the answer says that it is not there, nobody has it any more either, unless it was made since it was asked. */
static void delete_topic(struct cluster_operator *self, const struct cluster_fault *fault)
{
    struct cluster *run = self->run;
    int name = fault->a % run->book.topic_count, lives = run->book.life_count;
    struct cluster_topic *first = &run->book.topics[name];
    if (run->book.life_count + LIVES_LEFT >= CLUSTER_LIVES_MAX)
        return;
    bool was_seen[CLUSTER_LIVES_MAX];
    for (int i = 0; i < lives; i++)
        was_seen[i] = run->book.topics[i].is_seen;
    first->deletes++;
    struct stele_result result = stele_topic_delete(self->sim.client, first->name);
    first->is_made = false;
    sim_world_log(&run->world, "%s: delete %s: %s", name_of(self), first->name,
                  result.code == 0 ? "done" : result.text);
    bool is_gone = result.code == (int)STELE_UNKNOWN_TOPIC_OR_PARTITION || is_done(self, &result, "topic delete");
    for (int i = 0; i < lives && is_gone; i++) {
        const struct cluster_topic *topic = &run->book.topics[i];
        if (topic->first == name && was_seen[i] && !topic->is_gone)
            sim_world_fail(&run->world, "K20: %s is deleted, and every node still has it", topic->name);
    }
    if (fault->for_us == 0)
        return;
    sim_client_pause(&self->sim, fault->for_us);
    (void)cluster_topic_make(run, &self->sim, name);
}

/* All of it. */

static void run_order(struct cluster_operator *self, const struct cluster_fault *fault)
{
    delete_topic(self, fault);
}

static void wait_for_orders(struct cluster_operator *self)
{
    self->is_idle = true;
    sim_client_pause(&self->sim, LOOK_US);
    self->is_idle = false;
}

static void script(struct sim_client *sim)
{
    struct cluster_operator *self = sim->arg;
    struct cluster *run = self->run;
    self->sim.client = cluster_client_new(run, sim, &self->prng, "5000");
    while (!run->is_over) {
        if (self->taken == self->ordered || run->is_calm)
            wait_for_orders(self);
        else
            run_order(self, &self->orders[self->taken++ % CLUSTER_ORDERS_MAX]);
    }
    stele_client_free(self->sim.client);
    self->sim.client = NULL;
    self->step = NULL;
    run->done_count++;
}

void cluster_operators_order(struct cluster *run, const struct cluster_fault *fault)
{
    bool is_first = cluster_fault_class(fault->kind) == CLUSTER_CLASS_TOPICS;
    struct cluster_operator *self = &run->operators[is_first ? 0 : 1];
    if (self->ordered - self->taken == CLUSTER_ORDERS_MAX)
        return;
    self->orders[self->ordered++ % CLUSTER_ORDERS_MAX] = *fault;
    if (self->is_idle)
        sim_event_hurry(&run->world, &self->sim.wake, 1);
}

void cluster_operators_start(struct cluster *run)
{
    for (int i = 0; i < CLUSTER_OPERATORS; i++) {
        struct cluster_operator *self = &run->operators[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "o%d", i + 1);
        self->run = run;
        self->number = i;
        self->step = "its work";
        stele_prng_init(&self->prng, run->world.seed,
                        ((uint64_t)SIM_STREAM_WORKLOAD << 32) + CLUSTER_CLIENTS_MAX + (uint64_t)i);
        self->sim.arg = self;
        self->sim.script = script;
        sim_client_start(&self->sim, &run->world, name, 1000000 + i);
    }
}
