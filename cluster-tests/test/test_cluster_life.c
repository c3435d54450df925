/* Three nodes form a cluster on virtual time: they register, are unfenced, are fenced when they die, leave in order and
 * come back. */
#include "base/test/support.h"
#include "cluster-tests/sim/sim_server.h"
#include "node/node_struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 4, SECOND_US = 1000000, MS_US = 1000, TEXTS_MAX = 64 };

#define PEERS "n1:7835,n2:7835,n3:7835"

static struct sim_world world;
static struct sim_server servers[NODES]; /* the last one is no member */
static int64_t traces[NODES][STELE_TRACE_KIND_COUNT];

static void traced(struct sim_server *server, const struct stele_trace_event *event)
{
    char text[600];
    traces[server - servers][event->kind]++;
    if (!world.is_verbose)
        return;
    (void)stele_trace_text(event, text, sizeof(text));
    sim_world_log(&world, "%s: %s", server->process.name, text);
}

static void set(int at, const char *name, const char *value)
{
    assert_ok(stele_settings_set(servers[at].settings, name, value, "test", NULL));
}

static void run(int64_t us)
{
    int64_t end_us = sim_world_now_us(&world) + us;
    while (world.count > 0 && world.heap[1]->at_us <= end_us && sim_world_step(&world))
        ;
    if (world.now_us < end_us)
        world.now_us = end_us;
}

static int64_t await(bool (*holds)(void), const char *what)
{
    int64_t from_us = sim_world_now_us(&world);
    for (int i = 0; i < 60000; i++) {
        if (holds())
            return (sim_world_now_us(&world) - from_us) / MS_US;
        run(MS_US);
    }
    fail_msg("within a minute it did not come to this: %s", what);
    return 0;
}

static const struct stele_controller *control_of(int at)
{
    return servers[at].state == SIM_SERVER_DOWN || servers[at].node == NULL ? NULL : &servers[at].node->control;
}

/* -1: there is none. */
static int leader(void)
{
    for (int i = 0; i < 3; i++) {
        const struct stele_controller *control = control_of(i);
        if (control != NULL && control->active.is_active && control->active.registry.is_active &&
            servers[i].end.slot == 0)
            return i;
    }
    return -1;
}

/* As the controller has it; NULL: not registered, or there is no controller. */
static const struct stele_image_member *member(int at)
{
    int leads = leader();
    return leads < 0 ? NULL : stele_image_member_of(&control_of(leads)->mlog.image, at + 1);
}

static bool serves(int at)
{
    const struct stele_controller *control = control_of(at);
    const struct stele_image_member *known = member(at);
    return known != NULL && !known->is_fenced && !known->is_shutting_down && control != NULL &&
           control->life.machine.state == STELE_LIFE_RUNNING && control->node->node_epoch == known->node_epoch;
}

static bool all_serve(void)
{
    return serves(0) && serves(1) && serves(2);
}

static void begin(uint64_t seed)
{
    char name[8], id[8];
    memset(servers, 0, sizeof(servers));
    memset(traces, 0, sizeof(traces));
    memset(&world, 0, sizeof(world));
    sim_world_init(&world, seed);
    sim_net_world_init(&world);
    world.is_verbose = getenv("CLUSTER_VERBOSE") != NULL;
    world.task_us_max = 200;
    world.job_us_max = 2000;
    world.timer_us_max = 500;
    struct sim_net_rates rates = {
        .latency_us_min = 20, .latency_us_max = 1000, .pipe_bytes_min = 4096, .pipe_bytes_max = 262144};
    sim_net_set_rates(&world, &rates);
    for (int i = 0; i < NODES; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i + 1);
        (void)snprintf(id, sizeof(id), "%d", i + 1);
        sim_server_init(&servers[i], &world, name);
        servers[i].traced = traced;
        set(i, "log.dirs", "a");
        set(i, "log.dir.reserve.bytes", "0");
        set(i, "peers", PEERS);
        set(i, "node.id", id);
    }
    for (int i = 0; i < 3; i++)
        sim_server_start(&servers[i]);
}

static void end(void)
{
    for (int i = 0; i < NODES; i++) {
        if (servers[i].state != SIM_SERVER_DOWN)
            sim_server_die(&servers[i], SIM_DEATH_KILL);
    }
    run(SECOND_US);
    for (int i = 0; i < NODES; i++)
        sim_server_deinit(&servers[i]);
    sim_world_deinit(&world);
}

/* All three register, apply what they wrote and serve. */
static void test_start(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        begin(seed);
        (void)await(all_serve, "all serve");
        for (int i = 0; i < 3; i++) {
            const struct stele_image_member *known = member(i);
            assert_int_equal(known->listener_count, 1);
            assert_int_equal(known->directory_count, 1);
            assert_int_equal(traces[i][STELE_TRACE_LIFE_REFUSED], 0);
        }
        end();
    }
}

static int other_than(int at)
{
    return at == 0 ? 1 : 0;
}

static int victim;

static bool is_fenced(void)
{
    const struct stele_image_member *known = member(victim);
    return known != NULL && known->is_fenced;
}

static bool is_back(void)
{
    return serves(victim);
}

static bool is_down(void)
{
    return servers[victim].state == SIM_SERVER_DOWN;
}

/* A node that is killed is fenced as soon as its connections close, whoever it was; when it comes back it is another
 * life of the same node. A loss of power closes nothing: then its session must end. */
static void test_death(void **state)
{
    static const enum sim_death deaths[] = {SIM_DEATH_KILL, SIM_DEATH_POWER_ORDERED};
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        begin(seed);
        (void)await(all_serve, "all serve");
        run(3 * SECOND_US);
        bool is_power = seed % 3 == 0, was_leader = seed % 2 == 0;
        victim = was_leader ? leader() : other_than(leader());
        int64_t epoch = member(victim)->node_epoch;
        struct stele_uuid boot_id = member(victim)->boot_id;
        sim_server_die(&servers[victim], deaths[is_power]);
        run(1);
        int64_t took_ms = await(is_fenced, "the dead one is fenced");
        print_message("seed %d: %s, fenced after %d ms\n", (int)seed, was_leader ? "controller" : "node", (int)took_ms);
        assert_true(took_ms < (is_power ? 20000 : 1000));
        assert_int_equal(member(victim)->node_epoch, epoch);
        for (int i = 0; i < 3; i++)
            assert_true(i == victim || serves(i));
        sim_server_start(&servers[victim]);
        took_ms = await(is_back, "it serves again");
        assert_true(took_ms < 4000);
        assert_true(member(victim)->node_epoch > epoch);
        assert_int_equal(stele_uuid_equal(&boot_id, &member(victim)->boot_id), !is_power);
        end();
    }
}

/* Who is asked to stop asks to go first, and is let go at once when nothing is led by it; the next life knows the
 * epoch of the one that stopped so. */
static void test_leave(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        begin(seed);
        (void)await(all_serve, "all serve");
        run(SECOND_US);
        victim = seed % 2 == 0 ? leader() : other_than(leader());
        int64_t epoch = member(victim)->node_epoch;
        sim_server_stop(&servers[victim]);
        int64_t took_ms = await(is_down, "it stops");
        assert_true(servers[victim].is_stop_clean);
        assert_true(took_ms < 1500);
        (void)await(is_fenced, "it is fenced");
        sim_server_start(&servers[victim]);
        (void)await(is_back, "it serves again");
        assert_int_equal(control_of(victim)->life.request.previous_epoch, epoch);
        assert_true(member(victim)->node_epoch > epoch);
        end();
    }
}

/* The last nodes of a cluster find no controller that lets them go: they wait a little, and go. */
static void test_all_leave(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin(seed);
        (void)await(all_serve, "all serve");
        for (int i = 0; i < 3; i++)
            sim_server_stop(&servers[i]);
        for (victim = 0; victim < 3; victim++) {
            assert_true(await(is_down, "it stops") < 4000);
            assert_true(servers[victim].is_stop_clean);
        }
        for (int i = 0; i < 3; i++)
            sim_server_start(&servers[i]);
        (void)await(all_serve, "all serve again");
        end();
    }
}

/* A second node with a number that is taken is not let in while the first is there, both sides say so, and it ends. */
static void test_same_number(void **state)
{
    (void)state;
    begin(1);
    (void)await(all_serve, "all serve");
    set(3, "node.id", other_than(leader()) == 0 ? "1" : "2");
    set(3, "broker.session.timeout.ms", "1000");
    sim_server_start(&servers[3]);
    victim = 3;
    (void)await(is_down, "the intruder gives up");
    assert_true(traces[3][STELE_TRACE_LIFE_REFUSED] > 0);
    assert_true(traces[leader()][STELE_TRACE_NODE_REFUSED] == 1);
    assert_true(all_serve());
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),     cmocka_unit_test(test_death),       cmocka_unit_test(test_leave),
        cmocka_unit_test(test_all_leave), cmocka_unit_test(test_same_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
