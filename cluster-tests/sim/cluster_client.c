/* What a program does with libstele: changes settings of the cluster, one after the other, and looks at the cluster; it
 * begins anew at any time, at another node. When the faults are over it must be able to finish. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"

#include <stdio.h>
#include <string.h>

enum { STEP_MS = 200 };

static int64_t draw(struct cluster_client *self, int64_t low, int64_t high)
{
    return stele_prng_range(&self->prng, low, high);
}

static bool chance(struct cluster_client *self, uint64_t numerator, uint64_t denominator)
{
    return stele_prng_chance(&self->prng, numerator, denominator);
}

static const char *pick(struct cluster_client *self, const char *const *texts, size_t count)
{
    return texts[draw(self, 0, (int64_t)count - 1)];
}

/* All nodes are named, a drawn one first. */
static void begin(struct cluster_client *self)
{
    static const char *const timeouts[] = {"500", "1000", "2000", "5000"};
    struct cluster *run = self->run;
    char bootstrap[128] = "";
    int first = (int)draw(self, 0, run->node_count - 1);
    const char *timeout = pick(self, timeouts, STELE_ARRAY_LEN(timeouts));
    struct stele_setting settings[] = {{"request.timeout.ms", timeout}, {NULL, NULL}};
    struct stele_error error;
    for (int i = 0; i < run->node_count; i++) {
        size_t used = strlen(bootstrap);
        (void)snprintf(bootstrap + used, sizeof(bootstrap) - used, "%s%s", i == 0 ? "" : ",",
                       run->nodes[(first + i) % run->node_count].server.address);
    }
    enum stele_err err = stele_client__new(&self->sim.driver, bootstrap, settings, &self->sim.client, &error);
    if (err != STELE_OK)
        sim_world_fail(&run->world, "no client: %s", error.text);
}

static void end(struct cluster_client *self)
{
    stele_client_free(self->sim.client);
    self->sim.client = NULL;
}

static void begin_anew(struct cluster_client *self)
{
    end(self);
    begin(self);
}

static bool change_setting(struct cluster_client *self)
{
    struct cluster_tuned *tuned = &self->tuned;
    struct cluster *run = self->run;
    char value[32];
    if (tuned->last + 1 >= (int64_t)sizeof(tuned->unknown))
        return true;
    int64_t number = ++tuned->last;
    (void)snprintf(value, sizeof(value), "%lld", (long long)(tuned->base + number));
    struct stele_setting settings[] = {{tuned->name, value}, {NULL, NULL}};
    struct stele_result result = stele_config_alter(self->sim.client, STELE_CONFIG_CLUSTER, "", settings, false);
    sim_world_log(&run->world, "%s: %s=%s: %s", self->sim.process.name, tuned->name, value,
                  result.code == 0 ? "changed" : result.text);
    if (result.code == 0) {
        tuned->acknowledged = number;
        cluster_reach(run, CLUSTER_POINT_METADATA_CHANGE);
        return true;
    }
    tuned->unknown[number] = 1;
    cluster_reach(run, CLUSTER_POINT_METADATA_FAILED);
    return false;
}

static void act(struct cluster_client *self)
{
    int64_t what = draw(self, 0, 99);
    if (what < 60) {
        if (!change_setting(self) && chance(self, 1, 2))
            begin_anew(self);
    } else if (what < 63) {
        end(self);
        sim_client_pause(&self->sim, 1 + sim_draw_log(&self->prng, 1000000));
        begin(self);
    } else {
        sim_client_pause(&self->sim, 1 + sim_draw_log(&self->prng, 3000000));
    }
}

static void script(struct sim_client *sim)
{
    struct cluster_client *self = sim->arg;
    struct cluster *run = self->run;
    begin(self);
    while (!run->is_over)
        act(self);
    while (!change_setting(self)) {
        sim_client_pause(&self->sim, STEP_MS * 1000);
        begin_anew(self);
    }
    end(self);
    self->is_done = true;
    run->done_count++;
    sim_world_log(&run->world, "%s: done", sim->process.name);
}

void cluster_clients_start(struct cluster *run)
{
    static const struct {
        const char *name;
        int64_t base;
    } tuned[CLUSTER_CLIENTS_MAX] = {{"message.max.bytes", 1000000},
                                    {"log.cleaner.delete.retention.ms", 1000000},
                                    {"log.cleaner.min.compaction.lag.ms", 1000000},
                                    {"producer.id.expiration.ms", 86400000}};
    for (int i = 0; i < run->client_count; i++) {
        struct cluster_client *client = &run->clients[i];
        char name[8];
        (void)snprintf(name, sizeof(name), "c%d", i + 1);
        client->run = run;
        client->number = i;
        client->tuned.name = tuned[i].name;
        client->tuned.base = tuned[i].base;
        stele_prng_init(&client->prng, run->world.seed, ((uint64_t)SIM_STREAM_WORKLOAD << 32) + (uint64_t)i);
        client->sim.arg = client;
        client->sim.script = script;
        sim_client_start(&client->sim, &run->world, name,
                         1 + (int64_t)stele_prng_below(sim_stream(&run->world, SIM_STREAM_SETUP), 3000000));
    }
}
