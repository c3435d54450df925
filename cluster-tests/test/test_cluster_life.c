/* Three nodes form a cluster on virtual time: they register, are unfenced, are fenced when they die, leave in order and
 * come back. */
#include "base/test/support.h"
#include "cluster-tests/sim/sim_server.h"
#include "node/node_struct.h"
#include "node/partition.h"

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

/* The machines; none is started. */
static void begin_machines(uint64_t seed)
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
}

static void begin(uint64_t seed)
{
    begin_machines(seed);
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
    sim_net_world_deinit(&world);
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

/* Who waits for the others, to form the cluster with them or for a leader, stops as cleanly as one that serves: at any
 * moment of its start. */
static void test_stop_while_waiting(void **state)
{
    (void)state;
    for (int at_ms = 0; at_ms <= 600; at_ms += at_ms < 40 ? 1 : 80) {
        begin_machines(1);
        for (int has_formed = 0; has_formed < 2; has_formed++) {
            victim = 0;
            sim_server_start(&servers[0]);
            run(at_ms * MS_US);
            sim_server_stop(&servers[0]);
            assert_true(await(is_down, "it stops") < 4000);
            assert_true(servers[0].is_stop_clean);
            for (int i = 0; i < 3; i++)
                sim_server_start(&servers[i]);
            (void)await(all_serve, "all serve");
            for (int i = 0; i < 3; i++)
                sim_server_stop(&servers[i]);
            for (victim = 0; victim < 3; victim++)
                (void)await(is_down, "it stops");
        }
        end();
    }
}

/* Who waits long for others says whom it has not heard of, now and again; when they come it is over. */
static void test_silent_peers(void **state)
{
    (void)state;
    begin_machines(1);
    sim_server_start(&servers[0]);
    run(9 * SECOND_US);
    assert_int_equal(traces[0][STELE_TRACE_PEER_SILENT], 0);
    run(2 * SECOND_US);
    assert_int_equal(traces[0][STELE_TRACE_PEER_SILENT], 2);
    sim_server_start(&servers[2]);
    run(65 * SECOND_US);
    assert_int_equal(traces[0][STELE_TRACE_PEER_SILENT], 3);
    assert_int_equal(traces[2][STELE_TRACE_PEER_SILENT], 1);
    sim_server_start(&servers[1]);
    (void)await(all_serve, "all serve");
    run(65 * SECOND_US);
    assert_int_equal(traces[0][STELE_TRACE_PEER_SILENT], 3);
    assert_int_equal(traces[1][STELE_TRACE_PEER_SILENT], 0);
    end();
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
    /* With the leader's number it finds no leader that it could ask, and says what may be wrong. */
    assert_int_equal(traces[3][STELE_TRACE_PEER_REFUSES], 0);
    char id[12];
    (void)snprintf(id, sizeof(id), "%d", leader() + 1);
    sim_server_wipe(&servers[3]);
    set(3, "node.id", id);
    sim_server_start(&servers[3]);
    run(20 * SECOND_US);
    assert_int_equal(traces[3][STELE_TRACE_PEER_REFUSES], 1);
    assert_true(all_serve());
    end();
}

/* Topics, as their records say: nobody needs to hold a byte of them. */

enum { PARTITIONS = 4 };

static const struct stele_uuid topic_ids[] = {{.bytes = {7, 1}}, {.bytes = {7, 2}}};

static bool is_change_done;

static void change_done(struct stele_metadata_change *change, enum stele_err err)
{
    (void)change;
    assert_ok(err);
    is_change_done = true;
}

static bool has_changed(void)
{
    return is_change_done;
}

/* Calls something of the controller as an event of its loop. */
static struct stele_controller *enter(void)
{
    struct sim_server *server = &servers[leader()];
    world.running = &server->envs[0];
    return &server->node->control;
}

static void leave_loop(struct stele_controller *control)
{
    struct sim_env *env = sim_env_of(control->shard->env);
    world.running = NULL;
    env->after(env);
}

static void write_records(const struct stele_metadata_record *records, int count)
{
    static struct stele_metadata_change change;
    change = (struct stele_metadata_change){.records = records, .count = count, .done = change_done};
    is_change_done = false;
    struct stele_controller *control = enter();
    stele_metadata_log_change(&control->mlog, &change);
    leave_loop(control);
    (void)await(has_changed, "the records are committed");
}

/* Partition k < 3 is led by node k + 1 and on all three; the last one is on the third node alone. */
static void make_topic(int at, bool is_synced)
{
    static const int32_t orders[PARTITIONS][3] = {{1, 2, 3}, {2, 3, 1}, {3, 1, 2}, {3}};
    const char *name = is_synced ? "synced" : "plain";
    struct stele_metadata_record records[3 + PARTITIONS] = {
        {.kind = STELE_METADATA_TOPIC, .u.topic = {.name = name, .topic_id = topic_ids[at]}},
        {.kind = STELE_METADATA_SETTING,
         .u.setting = {.scope = STELE_SUBJECT_TOPIC, .subject = name, .name = "min.insync.replicas", .value = "2"}},
        {.kind = STELE_METADATA_SETTING,
         .u.setting = {.scope = STELE_SUBJECT_TOPIC,
                       .subject = name,
                       .name = "flush.before.ack",
                       .value = is_synced ? "true" : "false"}}};
    for (int i = 0; i < PARTITIONS; i++) {
        size_t count = i < 3 ? 3 : 1;
        records[3 + i] = (struct stele_metadata_record){.kind = STELE_METADATA_PARTITION,
                                                        .u.partition = {.topic_id = topic_ids[at],
                                                                        .partition = i,
                                                                        .leader_id = orders[i][0],
                                                                        .replicas = orders[i],
                                                                        .replica_count = count,
                                                                        .isr = orders[i],
                                                                        .isr_count = count}};
    }
    write_records(records, 3 + PARTITIONS);
}

static const struct stele_partition_state *partition(int topic, int number)
{
    const struct stele_image *image = &control_of(leader())->mlog.image;
    return &stele_image_topic_of(image, &topic_ids[topic])->partitions[number].state;
}

static void begin_topics(uint64_t seed)
{
    begin(seed);
    (void)await(all_serve, "all serve");
    make_topic(0, false);
    make_topic(1, true);
    run(SECOND_US);
    assert_true(all_serve());
}

/* Fencing moves what the node led in the batch that fences it, and its place in sync is lost; what others lead they go
 * on leading. A partition that only it has is led again when it serves again. */
static void test_partitions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        int32_t leaders[2][3], epochs[2][3];
        begin_topics(seed);
        victim = seed % 2 == 0 ? leader() : other_than(leader());
        for (int at = 0; at < 6; at++) {
            leaders[at / 3][at % 3] = partition(at / 3, at % 3)->leader_id;
            epochs[at / 3][at % 3] = partition(at / 3, at % 3)->leader_epoch;
            assert_int_equal(partition(at / 3, at % 3)->isr.count, 3);
        }
        sim_server_die(&servers[victim], SIM_DEATH_KILL);
        run(1);
        (void)await(is_fenced, "it is fenced");
        for (int at = 0; at < 6; at++) {
            const struct stele_partition_state *now = partition(at / 3, at % 3);
            bool was_led = leaders[at / 3][at % 3] == victim + 1;
            assert_false(stele_node_set_has(&now->isr, victim + 1));
            assert_int_equal(now->isr.count, 2);
            assert_true(stele_node_set_has(&now->isr, now->leader_id));
            assert_true(was_led || now->leader_id == leaders[at / 3][at % 3]);
            assert_int_equal(now->leader_epoch, epochs[at / 3][at % 3] + was_led);
        }
        assert_int_equal(partition(0, 3)->leader_id, victim == 2 ? STELE_NO_NODE : 3);
        sim_server_start(&servers[victim]);
        (void)await(is_back, "it serves again");
        assert_int_equal(partition(0, 3)->leader_id, 3);
        end();
    }
}

/* Of the partitions that lie on the node; `role` as it is there. */
static int count_of_role(int at, enum stele_replica_role role)
{
    const struct stele_controller *control = control_of(at);
    int count = 0;
    for (int i = 0; i < 6 && control != NULL; i++) {
        struct stele_partition_key key = {.topic_id = topic_ids[i / 3], .number = i % 3};
        const struct stele_local *local = stele_reconcile_find(&control->reconcile, &key);
        count += local != NULL && local->partition != NULL && local->partition->replica.role == role;
    }
    return count;
}

static bool are_in_sync(void)
{
    for (int i = 0; i < 6; i++) {
        if (partition(i / 3, i % 3)->isr.count != 3)
            return false;
    }
    return true;
}

/* A machine that is back before its earlier life's session has ended finds itself a leader in the metadata, and may
 * have lost what makes it one: it leads nothing before it is registered, when all of that has gone to others. */
static void test_quick_return(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int unknown = 0;
        begin_topics(seed);
        victim = other_than(leader());
        assert_int_equal(count_of_role(victim, STELE_REPLICA_LEADER), 2);
        sim_server_die(&servers[victim], seed % 2 ? SIM_DEATH_POWER_ADVERSARIAL : SIM_DEATH_KILL);
        run(10 * MS_US);
        assert_int_equal(servers[victim].state, SIM_SERVER_DOWN);
        if (seed % 3 == 0)
            sim_server_wipe(&servers[victim]);
        sim_server_start(&servers[victim]);
        int took_ms = 0;
        for (; took_ms < 12000 && !serves(victim); took_ms++) {
            run(MS_US);
            const struct stele_controller *control = control_of(victim);
            if (control == NULL || stele_life_is_known(&control->life))
                continue;
            unknown++;
            assert_int_equal(count_of_role(victim, STELE_REPLICA_LEADER), 0);
        }
        assert_true(serves(victim));
        assert_true(unknown > 10);
        assert_true(seed % 2 || took_ms < 1000); /* its connections closed: that life had ended */
        (void)await(are_in_sync, "it follows everything");
        assert_int_equal(count_of_role(victim, STELE_REPLICA_FOLLOWER), 6);
        end();
    }
}

static bool leads_nothing(void)
{
    for (int number = 0; number < 3; number++) {
        if (partition(0, number)->leader_id == victim + 1)
            return false;
    }
    return true;
}

/* Who stops is relieved of what it leads while it is still there, and goes when all know who leads instead. */
static void test_leave_led(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        begin_topics(seed);
        victim = seed % 2 == 0 ? leader() : other_than(leader());
        sim_server_stop(&servers[victim]);
        (void)await(leads_nothing, "it leads nothing");
        assert_int_equal(servers[victim].state, SIM_SERVER_STOPPING);
        assert_true(servers[victim].node->control.is_leaving);
        int64_t took_ms = await(is_down, "it stops");
        assert_true(took_ms < 1500);
        assert_true(servers[victim].is_stop_clean);
        assert_true(traces[victim][STELE_TRACE_LIFE_CHANGED] > 0);
        end();
    }
}

/* A node of the book alone. */

static struct stele_node_request registration;
static int32_t id_of_ninth = 9;
static uint8_t directory_of_ninth = 9;
static int32_t port_of_ninth = 1;

static bool is_answered;

static void answered(struct stele_node_ask *ask)
{
    (void)ask;
    is_answered = true;
}

static bool has_answer(void)
{
    return is_answered;
}

static void ask_controller(struct stele_node_ask *ask)
{
    ask->done = answered;
    is_answered = false;
    struct stele_controller *control = enter();
    stele_active_nodes_ask(&control->active_nodes, ask);
    leave_loop(control);
    (void)await(has_answer, "an answer");
}

static int64_t register_ninth(uint8_t incarnation, uint8_t boot, int64_t previous_epoch)
{
    struct stele_node_ask ask = {.kind = STELE_ASK_REGISTER, .registration = &registration};
    registration =
        (struct stele_node_request){.cluster_id = control_of(0)->formation.file.cluster_id,
                                    .previous_epoch = previous_epoch,
                                    .node = {.node_id = id_of_ninth,
                                             .incarnation_id = {.bytes = {incarnation}},
                                             .boot_id = {.bytes = {boot}},
                                             .directories = {{.bytes = {9, directory_of_ninth}}},
                                             .directory_count = 1,
                                             .listeners = {{.name = "A", .host = "h", .port = port_of_ninth}},
                                             .listener_count = 1,
                                             .feature_min = 1,
                                             .feature_max = 9}};
    if (id_of_ninth != 9) /* others are told where they are */
        (void)snprintf(registration.node.listeners[0].name, sizeof(registration.node.listeners[0].name), "%s",
                       servers[0].node->listeners.items[0].name);
    ask_controller(&ask);
    assert_int_equal(ask.err == STELE_OK, ask.node_epoch >= 0);
    return ask.err == STELE_OK ? ask.node_epoch : -(int64_t)ask.err;
}

static struct stele_node_ask beat(int64_t node_epoch)
{
    struct stele_node_ask ask = {
        .kind = STELE_ASK_HEARTBEAT,
        .heartbeat = {.node_id = 9, .node_epoch = node_epoch, .metadata_offset = node_epoch + 5}};
    ask_controller(&ask);
    return ask;
}

static enum stele_err unregister(int32_t node_id)
{
    struct stele_node_ask ask = {.kind = STELE_ASK_UNREGISTER, .node_id = node_id};
    ask_controller(&ask);
    assert_int_equal(ask.err == STELE_OK, ask.message[0] == 0);
    return ask.err;
}

/* A node whose heartbeats come is not fenced, one whose do not is, once; another life is taken when that of before has
 * no session; answers of an earlier life's epoch are refused. */
static void test_sessions(void **state)
{
    (void)state;
    begin_topics(1);
    int at = leader();
    int64_t epoch = register_ninth(1, 1, -1);
    assert_int_equal(register_ninth(1, 1, -1), epoch); /* its answer was lost */
    assert_true(beat(epoch).verdict.elects);
    for (int i = 0; i < 6; i++) {
        run(4 * SECOND_US);
        assert_false(beat(epoch).verdict.answer_is_fenced);
    }
    assert_int_equal(traces[at][STELE_TRACE_NODE_FENCED], 0);
    assert_int_equal(register_ninth(2, 1, -1), -(int64_t)STELE_DUPLICATE_BROKER_REGISTRATION);
    run(10 * SECOND_US);
    assert_int_equal(traces[at][STELE_TRACE_NODE_FENCED], 1);
    assert_true(all_serve());
    int64_t next = register_ninth(2, 1, -1);
    assert_true(next > epoch);
    assert_int_equal(beat(epoch).err, STELE_STALE_BROKER_EPOCH);
    assert_int_equal(beat(next).err, STELE_OK);
    end();
}

/* A heartbeat counts when it comes, also when it must wait until the registry has seen what is committed. */
static void test_heard_in_time(void **state)
{
    (void)state;
    begin_topics(1);
    int64_t epoch = register_ninth(1, 1, -1);
    assert_true(beat(epoch).verdict.elects);
    run(5 * SECOND_US);
    struct stele_node_ask ask = {.kind = STELE_ASK_HEARTBEAT,
                                 .done = answered,
                                 .heartbeat = {.node_id = 9, .node_epoch = epoch, .metadata_offset = epoch + 5}};
    is_answered = false;
    struct stele_controller *control = enter();
    control->active.seen_offset--;
    stele_active_nodes_ask(&control->active_nodes, &ask);
    assert_false(is_answered);
    assert_int_equal(stele_registry_contact_ms(&control->active.registry, 9), stele_env_mono_ms(control->shard->env));
    stele_active_look(&control->active);
    leave_loop(control);
    (void)await(has_answer, "an answer");
    assert_ok(ask.err);
    end();
}

/* A life that registers again and tells of another address is known by that. */
static void test_other_address(void **state)
{
    (void)state;
    begin_topics(1);
    int64_t epoch = register_ninth(1, 1, -1);
    assert_true(beat(epoch).verdict.elects);
    port_of_ninth = 2;
    assert_int_equal(register_ninth(1, 1, -1), epoch);
    port_of_ninth = 1;
    const struct stele_registry *registry = &control_of(leader())->active.registry;
    assert_int_equal(stele_registry_find(registry, 9)->listeners[0].port, 2);
    assert_true(stele_registry_has_session(registry, 9, stele_env_mono_ms(&servers[leader()].envs[0].env)));
    end();
}

static void put_on_ninth(int topic)
{
    static const int32_t replicas[] = {9, 1};
    const struct stele_metadata_record record = {.kind = STELE_METADATA_PARTITION,
                                                 .u.partition = {.topic_id = topic_ids[topic],
                                                                 .partition = 2,
                                                                 .leader_id = 9,
                                                                 .leader_epoch = 50,
                                                                 .partition_epoch = 50,
                                                                 .replicas = replicas,
                                                                 .replica_count = 2,
                                                                 .isr = replicas,
                                                                 .isr_count = 1}};
    write_records(&record, 1);
}

/* As many nodes as there are places have a connection; the places of those that are forgotten go to others, and a voter
 * has one always. */
static void test_places_of_peers(void **state)
{
    enum { MANY = 40, PLACES_LEFT = STELE_VOTERS_MAX - 2 };
    (void)state;
    begin(1);
    (void)await(all_serve, "all serve");
    struct stele_peers *peers = &servers[leader()].node->control.peers;
    for (id_of_ninth = 10; id_of_ninth < 10 + MANY; id_of_ninth++) {
        directory_of_ninth = (uint8_t)id_of_ninth;
        assert_true(register_ninth((uint8_t)id_of_ninth, 1, -1) > 0);
    }
    run(SECOND_US);
    for (int32_t id = 10; id < 10 + MANY; id++)
        assert_int_equal(stele_peers_find(peers, id) != NULL, id < 10 + PLACES_LEFT);
    for (int32_t id = 10; id < 13; id++)
        assert_ok(unregister(id));
    run(SECOND_US);
    for (int32_t id = 10; id < 13; id++) {
        assert_null(stele_peers_find(peers, id));
        assert_non_null(stele_peers_find(peers, id + PLACES_LEFT));
    }
    for (int i = 0; i < 3; i++)
        assert_true(i == leader() || stele_peers_find(peers, i + 1)->is_up);
    assert_true(all_serve());
    id_of_ninth = directory_of_ninth = 9;
    end();
}

static int partitions_without(int32_t node_id)
{
    int count = 0;
    for (int i = 0; i < 6; i++)
        count += !stele_node_set_has(&partition(i / 3, i % 3)->isr, node_id);
    return count;
}

/* When one batch cannot hold all partitions of a node the rest changes in batches after it, also when the controller is
 * another by then. */
static void test_many_partitions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        int seen_between = 0;
        begin_topics(seed);
        for (int i = 0; i < 3; i++)
            servers[i].node->control.active_nodes.partitions_max = 1;
        victim = seed % 3 == 0 ? leader() : other_than(leader());
        if (seed % 2 == 0)
            sim_server_stop(&servers[victim]);
        else
            sim_server_die(&servers[victim], SIM_DEATH_KILL);
        for (int i = 0; i < 200000 && (member(victim) == NULL || !is_fenced() || partitions_without(victim + 1) < 6);
             i++) {
            run(MS_US / 10);
            int count = member(victim) == NULL ? 0 : partitions_without(victim + 1);
            seen_between += count > 0 && count < 6;
        }
        assert_true(is_fenced());
        assert_true(seen_between > 0);
        assert_int_equal(partitions_without(victim + 1), 6);
        for (int i = 0; i < 6; i++)
            assert_int_not_equal(partition(i / 3, i % 3)->leader_id, victim + 1);
        (void)await(is_down, "it is down");
        sim_server_start(&servers[victim]);
        (void)await(is_back, "it serves again");
        run(SECOND_US);
        for (int topic = 0; topic < 2; topic++)
            assert_int_equal(partition(topic, 3)->leader_id, 3);
        end();
    }
}

/* What a controller that died left to be settled its successor settles. */
static void test_left_to_settle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin_topics(seed);
        const struct stele_image_member *ninth;
        int64_t epoch = register_ninth(1, 1, -1);
        assert_true(beat(epoch).verdict.elects);
        put_on_ninth(0);
        static struct stele_node_registration fenced;
        ninth = stele_image_member_of(&control_of(leader())->mlog.image, 9);
        stele_registration_of_member(ninth, &fenced);
        struct stele_node_directory_id directory = {.directory_id = fenced.directories[0]};
        struct stele_listener_address listener = {.name = "A", .host = "h", .port = 1};
        const struct stele_metadata_record record = {.kind = STELE_METADATA_NODE,
                                                     .u.node = {.node_id = 9,
                                                                .incarnation_id = fenced.incarnation_id,
                                                                .node_epoch = epoch,
                                                                .boot_id = fenced.boot_id,
                                                                .rack = "",
                                                                .listeners = &listener,
                                                                .listener_count = 1,
                                                                .directories = &directory,
                                                                .directory_count = 1,
                                                                .level_min = 1,
                                                                .level_max = 9,
                                                                .is_fenced = true,
                                                                .software_version = ""}};
        write_records(&record, 1); /* and nothing of its partition */
        assert_int_equal(partition(0, 2)->leader_id, 9);
        victim = leader();
        sim_server_die(&servers[victim], SIM_DEATH_KILL);
        run(1);
        (void)await(is_fenced, "another is the controller");
        run(SECOND_US);
        assert_int_not_equal(partition(0, 2)->leader_id, 9);
        assert_false(stele_node_set_has(&partition(0, 2)->isr, 9));
        end();
    }
}

/* Of a node that is the only one in sync: led again when it is back, all of them. */
static void test_many_to_lead(void **state)
{
    (void)state;
    begin_topics(1);
    for (int i = 0; i < 3; i++)
        servers[i].node->control.active_nodes.partitions_max = 1;
    int64_t epoch = register_ninth(1, 1, -1);
    assert_true(beat(epoch).verdict.elects);
    for (int topic = 0; topic < 2; topic++)
        put_on_ninth(topic);
    run(10 * SECOND_US);
    for (int topic = 0; topic < 2; topic++)
        assert_int_equal(partition(topic, 2)->leader_id, STELE_NO_NODE);
    assert_true(beat(epoch).verdict.elects);
    run(SECOND_US);
    for (int topic = 0; topic < 2; topic++)
        assert_int_equal(partition(topic, 2)->leader_id, 9);
    assert_int_equal(register_ninth(2, 1, -1), -(int64_t)STELE_DUPLICATE_BROKER_REGISTRATION);
    run(10 * SECOND_US);
    assert_true(register_ninth(2, 2, -1) > epoch); /* it lost its memory: in several turns, too */
    assert_int_equal(partition(0, 2)->elr.count, 0);
    assert_int_equal(partition(1, 2)->elr.count, 1);
    assert_int_equal(beat(epoch).err, STELE_STALE_BROKER_EPOCH);
    end();
}

/* Alone below min.insync.replicas a node stays eligible when it is fenced, until it comes back without what was in its
 * memory, which only a topic whose records are synced before they count survives; or without its disk. */
static void test_lost_memory(void **state)
{
    static const struct {
        uint8_t boot;
        bool is_clean, is_other_disk, keeps_plain, keeps_synced;
    } cases[] = {{1, false, false, true, true},
                 {2, false, false, false, true},
                 {2, true, false, true, true},
                 {0, false, false, false, true}, /* not known which boot it is */
                 {1, true, true, false, false}};
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        begin_topics(1);
        int64_t epoch = register_ninth(1, 1, -1);
        assert_true(beat(epoch).verdict.elects);
        for (int topic = 0; topic < 2; topic++)
            put_on_ninth(topic);
        run(10 * SECOND_US);
        for (int topic = 0; topic < 2; topic++) {
            assert_int_equal(partition(topic, 2)->leader_id, STELE_NO_NODE);
            assert_int_equal(partition(topic, 2)->isr.count, 0);
            assert_true(stele_node_set_has(&partition(topic, 2)->elr, 9));
        }
        directory_of_ninth = cases[i].is_other_disk ? 8 : 9;
        int64_t next = register_ninth(2, cases[i].boot, cases[i].is_clean ? epoch : -1);
        directory_of_ninth = 9;
        assert_true(next > epoch);
        assert_int_equal(partition(0, 2)->elr.count, cases[i].keeps_plain);
        assert_int_equal(partition(1, 2)->elr.count, cases[i].keeps_synced);
        assert_true(beat(next).verdict.elects);
        assert_int_equal(partition(0, 2)->leader_id, cases[i].keeps_plain ? 9 : STELE_NO_NODE);
        assert_int_equal(partition(1, 2)->leader_id, cases[i].keeps_synced ? 9 : STELE_NO_NODE);
        end();
    }
}

/* A node is forgotten on request when it is gone, and is no voter; its place in sync goes with it. */
static void test_unregister(void **state)
{
    (void)state;
    begin_topics(2);
    assert_int_equal(unregister(9), STELE_BROKER_ID_NOT_REGISTERED);
    int64_t epoch = register_ninth(1, 1, -1);
    assert_true(beat(epoch).verdict.elects);
    put_on_ninth(0);
    assert_int_equal(unregister(9), STELE_INVALID_REQUEST); /* it is alive */
    assert_int_equal(unregister(1), STELE_INVALID_REQUEST); /* it votes */
    run(10 * SECOND_US);
    assert_int_equal(partition(0, 2)->leader_id, STELE_NO_NODE);
    assert_true(stele_node_set_has(&partition(0, 2)->elr, 9));
    assert_ok(unregister(9));
    assert_null(stele_image_member_of(&control_of(leader())->mlog.image, 9));
    assert_int_equal(partition(0, 2)->elr.count, 0);
    assert_int_equal(beat(epoch).err, STELE_BROKER_ID_NOT_REGISTERED);
    assert_int_equal(unregister(9), STELE_BROKER_ID_NOT_REGISTERED);
    assert_true(register_ninth(1, 1, -1) > epoch); /* as one that is new */
    victim = other_than(leader());
    sim_server_die(&servers[victim], SIM_DEATH_KILL);
    run(1);
    (void)await(is_fenced, "a voter is fenced");
    assert_int_equal(unregister(victim + 1), STELE_INVALID_REQUEST);
    end();
}

/* Connections that break are made again, and whoever they were to goes on serving: it is heard of in time. */
static void test_broken_connections(void **state)
{
    (void)state;
    int broken = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin(seed);
        (void)await(all_serve, "all serve");
        run(SECOND_US);
        for (int64_t i = 0; i < 60; i++) {
            int leads = leader(); /* it may be another: who follows it asks for votes, too */
            if (leads >= 0) {
                int at = sim_net_host(&world, servers[leads].process.name);
                int other = sim_net_host(&world, servers[(leads + 1 + (int)(i % 2)) % 3].process.name);
                broken += sim_net_reset(&world, i % 4 < 2 ? at : other, i % 4 < 2 ? other : at, i / 4);
            }
            run(300 * MS_US);
        }
        for (int i = 0; i < 3; i++)
            assert_int_equal(traces[i][STELE_TRACE_NODE_FENCED], 0);
        end();
    }
    assert_true(broken > 60);
}

/* A connection that broke for one end only is closed by the other when it was silent for long. By then the node
 * heartbeats by another one: that it closes says nothing of it. */
static void test_half_open_connections(void **state)
{
    (void)state;
    int closed = 0;
    for (int64_t which = 0; which < 4; which++) {
        int64_t fenced[3], before = 0;
        begin((uint64_t)which);
        (void)await(all_serve, "all serve");
        run(SECOND_US);
        int leads = leader();
        int host = sim_net_host(&world, servers[leads].process.name);
        int other = sim_net_host(&world, servers[other_than(leads)].process.name);
        assert_true(sim_net_silence(&world, other, host, which, true));
        run(20 * SECOND_US);
        (void)await(all_serve, "all serve again");
        before = traces[leads][STELE_TRACE_CONN_CLOSED];
        for (int i = 0; i < 3; i++)
            fenced[i] = traces[i][STELE_TRACE_NODE_FENCED];
        run(620 * (int64_t)SECOND_US);
        for (int i = 0; i < 3; i++)
            assert_int_equal(traces[i][STELE_TRACE_NODE_FENCED], fenced[i]);
        closed += leads == leader() && traces[leads][STELE_TRACE_CONN_CLOSED] > before;
        assert_true(all_serve());
        end();
    }
    assert_true(closed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_leave),
        cmocka_unit_test(test_all_leave),
        cmocka_unit_test(test_stop_while_waiting),
        cmocka_unit_test(test_silent_peers),
        cmocka_unit_test(test_same_number),
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_quick_return),
        cmocka_unit_test(test_leave_led),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_places_of_peers),
        cmocka_unit_test(test_heard_in_time),
        cmocka_unit_test(test_other_address),
        cmocka_unit_test(test_many_partitions),
        cmocka_unit_test(test_left_to_settle),
        cmocka_unit_test(test_many_to_lead),
        cmocka_unit_test(test_lost_memory),
        cmocka_unit_test(test_unregister),
        cmocka_unit_test(test_broken_connections),
        cmocka_unit_test(test_half_open_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
