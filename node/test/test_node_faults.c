/* An allocation or a call of the disk fails, one after another through the whole of a node's life (some are left out,
 * so that the test is quick); or many fail for a while. Nothing leaks, nothing hangs, every request ends, and the next
 * start serves all that was acknowledged. */
#include "node/test/node_script.h"

#include <stdlib.h>
#include <string.h>

enum before { BEFORE_NOTHING, BEFORE_STOP, BEFORE_KILL };

static struct node_world *world_new(uint64_t seed, enum before before)
{
    struct node_script script;
    struct node_world *world = node_world_new(seed, 1 + (int)(seed % 2));
    if (seed % 2 == 0)
        node_world_set(world, "log.flush.before.ack", "true");
    if (seed % 4 > 1)
        node_world_set(world, "replica.high.watermark.checkpoint.interval.ms", "3");
    if (seed % 3 == 0)
        sim_disk_set_rates(world->disk, &(struct sim_disk_rates){.cold = 500000});
    if (before == BEFORE_NOTHING)
        return world;
    node_script_init(&script, world);
    while (node_script_step(&script)) {
        if (before == BEFORE_KILL && script.stage == NODE_SCRIPT_STOPS)
            break;
    }
    node_world_drop(world);
    sim_disk_crash(world->disk, SIM_DISK_KILL);
    return world;
}

/* How a life with a fault may end. */
static void check_end(const struct node_world *world)
{
    if (world->is_fatal)
        assert_int_equal(world->exit_code, STELE_EXIT_STORAGE);
    else if (world->node != NULL)
        assert_true(world->is_stopped || (world->is_ready && world->ready != STELE_OK));
}

static bool memory_fails_at(uint64_t seed, enum before before, int64_t at, int lasting_steps)
{
    struct node_script script;
    struct node_world *world = world_new(seed, before);
    stele_test_mem_fail(&world->mem, at, lasting_steps > 0);
    node_script_init(&script, world);
    script.probes = true;
    bool has_failed = world->mem.has_failed;
    while (node_script_step(&script)) {
        has_failed = has_failed || world->mem.has_failed;
        if (world->mem.has_failed && lasting_steps-- == 1)
            world->mem.fail_at = 0;
    }
    check_end(world);
    node_world_drop(world);
    if (seed % 3 == 1)
        sim_disk_crash(world->disk, SIM_DISK_KILL);
    node_script_check(&script, false);
    node_world_free(world);
    return has_failed;
}

static void test_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int64_t at = 1 + (int64_t)(seed % 2);
        while (memory_fails_at(seed, (enum before)(seed % 3), at, 0))
            at += stele_test_stride(seed <= 3 ? 4 : 23);
        assert_true(at > 200);
    }
}

static void test_memory_lasting(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int64_t at = 1 + (int64_t)seed;
        while (memory_fails_at(seed, (enum before)(seed % 3), at, 1 + (int)(at % 60)))
            at += stele_test_stride(41);
        assert_true(at > 200);
    }
}

static bool disk_fails_at(uint64_t seed, enum before before, int64_t at, const struct sim_disk_fault *fault)
{
    struct node_script script;
    struct node_world *world = world_new(seed, before);
    sim_disk_arm(world->disk, at, fault);
    node_script_init(&script, world);
    int after = 0;
    while (node_script_step(&script)) {
        if (fault->is_lasting && sim_disk_has_struck(world->disk) && ++after == 200)
            sim_disk_heal(world->disk);
    }
    bool has_failed = sim_disk_has_struck(world->disk);
    check_end(world);
    node_world_drop(world);
    sim_disk_heal(world->disk);
    enum sim_disk_crash_mode mode = (enum sim_disk_crash_mode)stele_prng_below(&world->prng, 3);
    if (getenv("NODE_WORLD_TRACE") != NULL)
        print_message("seed %d, call %d (%s), then crash mode %d\n", (int)seed, (int)at,
                      sim_disk_op_name(sim_disk_struck_op(world->disk)), (int)mode);
    sim_disk_crash(world->disk, mode);
    node_script_check(&script, mode != SIM_DISK_KILL);
    node_world_free(world);
    return has_failed;
}

static void each_disk_call(const struct sim_disk_fault *fault, uint64_t first_seed)
{
    for (uint64_t seed = first_seed; seed < first_seed + 6; seed++) {
        int64_t at = 1 + 2 * (int64_t)(seed / 3 % 2); /* half of the calls of each kind of start */
        while (disk_fails_at(seed, (enum before)(seed % 3), at, fault))
            at += stele_test_stride(4);
        assert_true(at > 60);
    }
}

static void test_disk_error(void **state)
{
    (void)state;
    each_disk_call(&(struct sim_disk_fault){.err = STELE_IO}, 1);
}

static void test_disk_full(void **state)
{
    (void)state;
    unsigned ops = SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_SYNC) | SIM_DISK_BIT(SIM_DISK_MKDIR) |
                   SIM_DISK_BIT(SIM_DISK_RENAME) | SIM_DISK_BIT(SIM_DISK_OPEN) | SIM_DISK_BIT(SIM_DISK_TRUNCATE);
    each_disk_call(&(struct sim_disk_fault){.err = STELE_NO_SPACE, .ops = ops}, 7);
}

static void test_disk_lasting(void **state)
{
    (void)state;
    each_disk_call(&(struct sim_disk_fault){.err = STELE_IO, .is_lasting = true}, 13);
}

/* A stop at a drawn moment, while something fails at another: it ends all the same. */
static void test_disturbed_stop(void **state)
{
    static const enum stele_err errs[] = {STELE_IO, STELE_NO_SPACE, STELE_NO_MEMORY};
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct node_script script;
        struct node_world *world = world_new(seed, (enum before)(seed % 3));
        struct sim_disk_fault fault = {.err = errs[seed % 3], .is_lasting = seed % 4 > 1};
        int64_t at = 1 + (int64_t)stele_prng_below(&world->prng, 200);
        int stop_at = (int)stele_prng_below(&world->prng, 250);
        if (fault.err == STELE_NO_SPACE)
            fault.ops = SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_SYNC) | SIM_DISK_BIT(SIM_DISK_OPEN) |
                        SIM_DISK_BIT(SIM_DISK_MKDIR);
        if (seed % 5 == 0)
            stele_test_mem_fail(&world->mem, at * 4, fault.is_lasting);
        else
            sim_disk_arm(world->disk, at, &fault);
        node_script_init(&script, world);
        for (int i = 0; i < stop_at && node_script_step(&script); i++) {
        }
        node_script_stop(&script);
        while (node_script_step(&script)) {
        }
        check_end(world);
        node_world_drop(world);
        sim_disk_heal(world->disk);
        enum sim_disk_crash_mode mode = (enum sim_disk_crash_mode)stele_prng_below(&world->prng, 3);
        sim_disk_crash(world->disk, mode);
        node_script_check(&script, mode != SIM_DISK_KILL);
        node_world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),    cmocka_unit_test(test_memory_lasting), cmocka_unit_test(test_disk_error),
        cmocka_unit_test(test_disk_full), cmocka_unit_test(test_disk_lasting),   cmocka_unit_test(test_disturbed_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
