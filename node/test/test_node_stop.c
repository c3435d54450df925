/* Stops and crashes at every moment of a node's life. */
#include "node/test/node_script.h"

#include <string.h>

static bool exists(struct node_world *world, const char *path)
{
    struct stele_stat stat;
    struct stele_vfs *vfs = sim_disk_vfs(world->disk);
    return vfs->ops->stat(vfs, path, &stat) == STELE_OK;
}

static struct node_world *world_new(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
    if (seed % 2 == 0)
        node_world_set(world, "log.flush.before.ack", "true");
    if (seed % 4 == 1)
        node_world_set(world, "log.flush.interval.ms", "12");
    if (seed % 4 > 1) { /* rounds all the time */
        node_world_set(world, "replica.high.watermark.checkpoint.interval.ms", "2");
        node_world_set(world, "log.retention.check.interval.ms", "3");
        node_world_set(world, "producer.id.expiration.check.interval.ms", "3");
    }
    if (seed % 5 == 0)
        sim_disk_set_rates(world->disk, &(struct sim_disk_rates){.cold = 500000});
    return world;
}

/* A life before: a topic with records, closed cleanly or killed. */
static void live_before(struct node_world *world, uint64_t seed)
{
    struct node_script script;
    node_script_init(&script, world);
    while (node_script_step(&script)) {
    }
    assert_true(world->is_stopped);
    node_world_drop(world);
    if (seed % 3 == 2)
        return;
    node_script_init(&script, world);
    while (script.stage < NODE_SCRIPT_WORKS && node_script_step(&script)) {
    }
    node_world_crash(world, SIM_DISK_KILL);
}

/* Asked to stop after any number of movements it stops by itself, cleanly: what was acknowledged is there at the next
 * start, which has nothing to recover. */
static bool stop_at(uint64_t seed, int at)
{
    struct node_script script;
    struct node_world *world = world_new(seed);
    if (seed % 3 > 0)
        live_before(world, seed);
    node_script_init(&script, world);
    for (int i = 0; i < at && script.stage < NODE_SCRIPT_STOPS; i++)
        (void)node_script_step(&script);
    bool is_end = script.stage >= NODE_SCRIPT_STOPS;
    for (int i = 0; i < NODE_SCRIPT_CONNS && at % 5 == 0; i++) { /* some do not wait for their answers */
        if (script.conns[i] != NULL)
            script.conns[i]->is_deaf = true;
    }
    node_script_stop(&script);
    while (node_script_step(&script)) {
    }
    assert_false(world->is_fatal);
    assert_true(world->is_stopped);
    assert_int_equal(world->stopped, STELE_OK);
    assert_null(node_world_connect(world, 1));
    node_world_drop(world);
    assert_true(exists(world, "a/.kafka_cleanshutdown"));
    assert_true(exists(world, "b/.kafka_cleanshutdown"));
    world->traces[STELE_TRACE_LOG_RECOVERED] = 0;
    node_script_check(&script, false);
    assert_int_equal(world->traces[STELE_TRACE_LOG_RECOVERED], 0);
    node_world_free(world);
    return !is_end;
}

static void test_stop(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int at = (int)(seed % 4);
        while (stop_at(seed, at))
            at += 3;
        assert_true(at > 60);
    }
}

/* Dropped after any number of movements nothing is left in memory; after a kill all that was acknowledged is there,
 * after a loss of power all that was acknowledged as synced. */
static bool crash_at(uint64_t seed, int at)
{
    struct node_script script;
    struct node_world *world = world_new(seed);
    if (seed % 3 > 0)
        live_before(world, seed);
    node_script_init(&script, world);
    for (int i = 0; i < at && script.stage < NODE_SCRIPT_ENDED; i++)
        (void)node_script_step(&script);
    bool is_end = script.stage == NODE_SCRIPT_ENDED;
    enum sim_disk_crash_mode mode = (enum sim_disk_crash_mode)stele_prng_below(&world->prng, 3);
    node_world_crash(world, mode);
    node_script_check(&script, mode != SIM_DISK_KILL);
    node_world_crash(world, SIM_DISK_ADVERSARIAL); /* it was stopped: all of it is on the disk */
    node_script_check(&script, mode != SIM_DISK_KILL);
    node_world_free(world);
    return !is_end;
}

static void test_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        int at = (int)(seed % 4);
        while (crash_at(seed, at))
            at += 4;
        assert_true(at > 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
