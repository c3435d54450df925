/* Three nodes of the real core that become a cluster and keep a metadata log together, on virtual time, over
 * connections that break and disks that lose what was not synced: from one seed nodes are killed, lose their power or
 * stop at any point, formation included, while settings are changed wherever the quorum's leader is; then a time
 * without faults in which all must agree.
 *
 *   sim_quorum [--seed S] [--seeds FIRST LAST] [--verbose]
 *
 * After every event: one leader an epoch (K1), and what is committed anywhere is the same everywhere and for good (K2).
 * At the end: every change that was acknowledged holds on every node (K3). Then one node gets an older copy of its disk
 * back: it is refused by name and ends, and the others go on. */
#include "base/check.h"
#include "cluster-tests/sim/sim_server.h"
#include "node/node_struct.h"
#include "proto/record_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 120,
    NODES = 3,
    EPOCHS_MAX = 100000,
    OFFSETS_MAX = 100000,
    FAULTS_US = 40000000,
    CALM_US_MAX = 120000000,
    EVENTS_MAX = 20000000
};

#define PEERS "n1:7835,n2:7835,n3:7835"

struct cluster_run;

struct cluster_node {
    struct cluster_run *run;
    struct sim_server server;
    struct sim_event up, down;
    int64_t checked_to; /* what of its log is compared, in this life */
};

/* What one batch of the metadata log was when it was committed. */
struct committed {
    int64_t end_offset;
    uint32_t crc;
    int32_t epoch;
};

struct change_ask {
    struct stele_metadata_change change;
    struct stele_metadata_record record;
    struct cluster_run *run;
    char value[32];
    int64_t number;
    bool is_under_way;
};

struct cluster_run {
    struct sim_world world;
    struct cluster_node nodes[NODES];
    struct sim_event ask;
    struct change_ask asks[16];
    int32_t leaders[EPOCHS_MAX];
    struct committed committed[OFFSETS_MAX]; /* by base offset; end_offset 0: unknown */
    int64_t committed_to;
    int64_t number, acknowledged, refused;
    int64_t elections, forming_crashes, installs, cuts, refused_disks;
    int32_t epoch_max;
    int wiped;               /* whose disk was lost; 0: none */
    bool is_calm, is_ending; /* no faults any more; nobody starts by itself */
    char cluster_id[64];
};

static struct stele_metadata_log *log_of(struct cluster_node *node)
{
    struct stele_node *of = node->server.node;
    return of != NULL && of->control.mlog.log != NULL && of->control.mlog.is_running ? &of->control.mlog : NULL;
}

static void failed(void *arg, const char *text)
{
    struct cluster_run *run = arg;
    fprintf(stderr, "seed %llu: %s\n  sim_quorum --seed %llu --verbose\n", (unsigned long long)run->world.seed, text,
            (unsigned long long)run->world.seed);
    exit(1);
}

/* Invariants */

static void check_committed(struct cluster_run *run, struct cluster_node *node, struct stele_metadata_log *mlog)
{
    node->server.process.no_memory = 0;
    int64_t to = stele_min_i64(mlog->quorum.high_watermark, stele_log_end_offset(mlog->log));
    if (stele_log_is_failed(mlog->log) || sim_disk_is_stopped(node->server.disk) || mlog->is_carrying)
        return;
    node->checked_to = stele_max_i64(node->checked_to, stele_log_start_offset(mlog->log));
    while (node->checked_to < to) {
        struct stele_buf *records = NULL;
        struct stele_batch_header header;
        enum stele_err err = stele_metadata_log_read(mlog, node->checked_to, 1, &records);
        if (err != STELE_OK || stele_batch_header_read(records->bytes, records->count, &header) != STELE_OK)
            sim_world_fail(&run->world, "%s: what is committed at %lld cannot be read: %s", node->server.process.name,
                           (long long)node->checked_to, stele_err_text(err));
        STELE_ASSERT(header.base_offset >= 0 && header.base_offset < OFFSETS_MAX);
        struct committed *known = &run->committed[header.base_offset];
        struct committed now = {.end_offset = stele_batch_last_offset(&header) + 1,
                                .crc = header.crc,
                                .epoch = header.partition_leader_epoch};
        if (known->end_offset == 0)
            *known = now;
        if (known->end_offset != now.end_offset || known->crc != now.crc || known->epoch != now.epoch)
            sim_world_fail(&run->world, "K2: %s has committed another batch at %lld", node->server.process.name,
                           (long long)header.base_offset);
        node->checked_to = now.end_offset;
        run->committed_to = stele_max_i64(run->committed_to, node->checked_to);
        stele_buf_unref(records);
    }
}

static void check(struct cluster_run *run)
{
    for (int i = 0; i < NODES; i++) {
        struct cluster_node *node = &run->nodes[i];
        struct stele_metadata_log *mlog = log_of(node);
        if (mlog == NULL || node->server.state == SIM_SERVER_DOWN)
            continue;
        const struct stele_quorum *quorum = &mlog->quorum;
        if (run->cluster_id[0] == 0)
            (void)snprintf(run->cluster_id, sizeof(run->cluster_id), "%s", node->server.node->cluster_id);
        if (strcmp(run->cluster_id, node->server.node->cluster_id) != 0)
            sim_world_fail(&run->world, "two clusters were formed");
        STELE_ASSERT(quorum->election.epoch < EPOCHS_MAX);
        run->epoch_max = quorum->election.epoch > run->epoch_max ? quorum->election.epoch : run->epoch_max;
        if (quorum->role == STELE_QUORUM_LEADER) {
            int32_t *leader = &run->leaders[quorum->election.epoch];
            run->elections += *leader == 0;
            if (*leader != 0 && *leader != i + 1)
                sim_world_fail(&run->world, "K1: nodes %d and %d lead epoch %d", (int)*leader, i + 1,
                               (int)quorum->election.epoch);
            *leader = i + 1;
        }
        check_committed(run, node, mlog);
        if (run->world.seed % 8 == 3 && !run->is_calm) /* some allocations of the node fail */
            node->server.process.no_memory = 300;
    }
}

/* Changes */

static void change_done(struct stele_metadata_change *change, enum stele_err err)
{
    struct change_ask *ask = STELE_CONTAINER_OF(change, struct change_ask, change);
    if (err == STELE_OK)
        ask->run->acknowledged = stele_max_i64(ask->run->acknowledged, ask->number);
    else
        ask->run->refused++;
    ask->is_under_way = false;
}

static void run_ask(struct sim_event *event)
{
    struct cluster_run *run = STELE_CONTAINER_OF(event, struct cluster_run, ask);
    struct sim_world *world = &run->world;
    sim_event_after(world, event, 1 + sim_draw_log(sim_stream(world, SIM_STREAM_WORKLOAD), 400000));
    int at = (int)(stele_prng_u64(sim_stream(world, SIM_STREAM_WORKLOAD)) % NODES);
    struct cluster_node *node = &run->nodes[at];
    struct stele_metadata_log *mlog = log_of(node);
    struct change_ask *ask = &run->asks[run->number % 16];
    if (mlog == NULL || node->server.state != SIM_SERVER_SERVING || node->server.end.slot != 0 || ask->is_under_way ||
        mlog->quorum.role != STELE_QUORUM_LEADER)
        return;
    ask->run = run;
    ask->number = ++run->number;
    ask->is_under_way = true;
    (void)snprintf(ask->value, sizeof(ask->value), "%lld", 100000 + (long long)ask->number);
    ask->record = (struct stele_metadata_record){
        .kind = STELE_METADATA_SETTING,
        .u.setting = {.scope = STELE_SUBJECT_CLUSTER, .subject = "", .name = "message.max.bytes", .value = ask->value}};
    ask->change = (struct stele_metadata_change){.records = &ask->record, .count = 1, .done = change_done};
    world->running = &node->server.envs[0];
    stele_metadata_log_change(mlog, &ask->change);
    world->running = NULL;
    node->server.envs[0].after(&node->server.envs[0]);
}

/* Faults */

static void forget_asks(struct cluster_run *run, const struct stele_metadata_log *mlog)
{
    for (int i = 0; i < 16; i++) {
        if (run->asks[i].change.mlog == mlog)
            run->asks[i].is_under_way = false;
    }
}

static void plan_down(struct cluster_node *node)
{
    struct sim_world *world = &node->run->world;
    if (!node->run->is_calm)
        sim_event_after(world, &node->down, 1 + sim_draw_log(sim_stream(world, SIM_STREAM_KILL), 16000000));
}

static void run_up(struct sim_event *event)
{
    struct cluster_node *node = STELE_CONTAINER_OF(event, struct cluster_node, up);
    if (node->server.state == SIM_SERVER_DOWN) {
        node->checked_to = 0;
        sim_server_start(&node->server);
        plan_down(node);
    }
}

static void run_down(struct sim_event *event)
{
    static const enum sim_death deaths[] = {SIM_DEATH_KILL, SIM_DEATH_POWER_ORDERED, SIM_DEATH_POWER_ADVERSARIAL};
    struct cluster_node *node = STELE_CONTAINER_OF(event, struct cluster_node, down);
    struct sim_world *world = &node->run->world;
    struct stele_prng *prng = sim_stream(world, SIM_STREAM_KILL);
    if (node->server.state == SIM_SERVER_DOWN || node->server.end.slot != 0)
        return;
    if (node->server.state == SIM_SERVER_SERVING && sim_chance(prng, 1, 4)) {
        sim_server_stop(&node->server);
        sim_event_after(world, &node->down, 5000000); /* if it takes too long it is killed */
        return;
    }
    node->run->forming_crashes += node->run->committed_to == 0;
    sim_server_die(&node->server, deaths[stele_prng_u64(prng) % 3]);
}

static void dead(struct sim_server *server)
{
    struct cluster_node *node = server->arg;
    struct sim_world *world = &node->run->world;
    if (server->death == SIM_DEATH_FAILED && server->process.no_memory_count == 0)
        sim_world_fail(world, "%s could not start", server->process.name);
    sim_event_cancel(world, &node->down);
    /* One disk is lost, once the cluster is there: its node comes back as an observer. */
    if (world->seed % 4 == 1 && node->run->wiped == 0 && node->run->acknowledged > 50 && !node->run->is_calm) {
        node->run->wiped = (int)(node - node->run->nodes) + 1;
        sim_world_log(world, "%s: gets an empty disk", server->process.name);
        sim_server_wipe(server);
    }
    if (!node->run->is_ending)
        sim_event_after(world, &node->up, 1 + sim_draw_log(sim_stream(world, SIM_STREAM_KILL), 6000000));
}

static void before_death(struct sim_server *server)
{
    struct cluster_node *node = server->arg;
    if (server->node != NULL)
        forget_asks(node->run, &server->node->control.mlog);
}

static void traced(struct sim_server *server, const struct stele_trace_event *event)
{
    char text[600];
    struct cluster_node *node = server->arg;
    node->run->installs += event->kind == STELE_TRACE_METADATA_SNAPSHOT_TAKEN;
    node->run->cuts += event->kind == STELE_TRACE_LOG_TRUNCATED;
    node->run->refused_disks += event->kind == STELE_TRACE_PEER_REFUSED && strstr(event->text, "older copy") != NULL;
    if (!server->world->is_verbose)
        return;
    (void)stele_trace_text(event, text, sizeof(text));
    sim_world_log(server->world, "%s: %s", server->process.name, text);
}

/* A run */

static void step_until(struct cluster_run *run, int64_t until_us)
{
    while (run->world.now_us < until_us && sim_world_step(&run->world)) {
        check(run);
        if (run->world.events > EVENTS_MAX)
            sim_world_fail(&run->world, "it does not end");
    }
}

static bool all_agree(struct cluster_run *run)
{
    int leaders = 0;
    int64_t end = -1;
    for (int i = 0; i < NODES; i++) {
        struct stele_metadata_log *mlog = log_of(&run->nodes[i]);
        if (mlog == NULL || run->nodes[i].server.state != SIM_SERVER_SERVING)
            return false;
        leaders += stele_metadata_log_is_active(mlog);
        if (end >= 0 && end != mlog->applied_offset)
            return false;
        end = mlog->applied_offset;
        if (stele_log_end_offset(mlog->log) != end)
            return false;
        /* Without memory settings are taken a little later. */
        if (stele_timer_is_armed(&run->nodes[i].server.node->control.settings_timer))
            return false;
    }
    return leaders == 1;
}

static void await_agreement(struct cluster_run *run, const char *when)
{
    int64_t from_us = run->world.now_us;
    while (!all_agree(run)) {
        step_until(run, run->world.now_us + 10000);
        if (run->world.now_us - from_us > CALM_US_MAX)
            sim_world_fail(&run->world, "no agreement %s", when);
    }
    for (int i = 0; i < NODES; i++) {
        const struct stele_image *image = &log_of(&run->nodes[i])->image;
        const struct stele_image_settings *settings = stele_image_settings_of(image, STELE_SUBJECT_CLUSTER, "");
        const struct stele_image_change *change =
            settings == NULL ? NULL : stele_image_setting(settings, "message.max.bytes");
        int64_t number = change == NULL ? 0 : atoll(change->value) - 100000;
        if (number < run->acknowledged || number > run->number)
            sim_world_fail(&run->world, "K3: node %d holds change %lld, %lld was acknowledged", i + 1,
                           (long long)number, (long long)run->acknowledged);
        const char *text = stele_settings_text(run->nodes[i].server.settings, "peers");
        STELE_ASSERT(strcmp(text, PEERS) == 0);
        int64_t holds = stele_settings_int(run->nodes[i].server.node->settings, "message.max.bytes");
        if (number > 0 && holds != 100000 + number)
            sim_world_fail(&run->world, "node %d does not live by the settings of its image", i + 1);
        bool is_voter = stele_quorum_is_voter(&log_of(&run->nodes[i])->quorum);
        if (is_voter != (run->wiped != i + 1))
            sim_world_fail(&run->world, "node %d votes: %d", i + 1, is_voter);
        if (image->voter_count != NODES)
            sim_world_fail(&run->world, "node %d knows %zu voters", i + 1, image->voter_count);
    }
}

static void init_node(struct cluster_run *run, int at)
{
    struct cluster_node *node = &run->nodes[at];
    struct stele_error error;
    char name[8], id[8];
    (void)snprintf(name, sizeof(name), "n%d", at + 1);
    (void)snprintf(id, sizeof(id), "%d", at + 1);
    node->run = run;
    sim_server_init(&node->server, &run->world, name);
    enum stele_err err = stele_settings_set(node->server.settings, "node.id", id, "run", &error);
    if (err == STELE_OK)
        err = stele_settings_set(node->server.settings, "peers", PEERS, "run", &error);
    STELE_ASSERT(err == STELE_OK);
    if (run->world.seed % 2 == 0) /* snapshots now and then, and followers that need one */
        err = stele_settings_set(node->server.settings, "metadata.log.max.record.bytes.between.snapshots", "3000",
                                 "run", &error);
    STELE_ASSERT(err == STELE_OK);
    node->server.arg = node;
    node->server.dead = dead;
    node->server.before_death = before_death;
    node->server.traced = traced;
    sim_event_init(&node->up, "up", NULL, run_up);
    sim_event_init(&node->down, "down", NULL, run_down);
    sim_event_after(&run->world, &node->up,
                    1 + sim_draw_log(sim_stream(&run->world, SIM_STREAM_SETUP), at == 0 ? 1000 : 3000000));
}

static void begin_calm(struct cluster_run *run)
{
    run->is_calm = true;
    sim_net_heal(&run->world);
    for (int i = 0; i < NODES; i++) {
        struct cluster_node *node = &run->nodes[i];
        node->server.process.no_memory = 0;
        if (node->server.state != SIM_SERVER_STOPPING)
            sim_event_cancel(&run->world, &node->down);
    }
}

static void stop_all(struct cluster_run *run)
{
    int64_t from_us = run->world.now_us;
    sim_event_cancel(&run->world, &run->ask);
    run->is_ending = true;
    for (int i = 0; i < NODES; i++) {
        if (run->nodes[i].server.state != SIM_SERVER_DOWN)
            sim_server_stop(&run->nodes[i].server);
    }
    for (bool is_down = false; !is_down;) {
        step_until(run, run->world.now_us + 10000);
        is_down = true;
        for (int i = 0; i < NODES; i++)
            is_down = is_down && run->nodes[i].server.state == SIM_SERVER_DOWN;
        if (run->world.now_us - from_us > 10000000)
            sim_world_fail(&run->world, "the nodes do not stop");
    }
}

static void kill_one(struct cluster_run *run, struct cluster_node *node)
{
    sim_server_die(&node->server, SIM_DEATH_KILL);
    while (node->server.state != SIM_SERVER_DOWN)
        step_until(run, run->world.now_us + 1000);
}

/* A follower's disk is put back as it was some changes ago: the leader's log and its own say so, and nothing of the
 * cluster changes by it. */
static void restore_older(struct cluster_run *run)
{
    int at = log_of(&run->nodes[0])->quorum.role == STELE_QUORUM_LEADER;
    struct cluster_node *node = &run->nodes[at];
    int32_t epoch = log_of(node)->quorum.election.epoch;
    run->is_ending = true;
    kill_one(run, node);
    struct sim_disk *older = sim_disk_copy(node->server.disk);
    sim_event_after(&run->world, &node->up, 1);
    int64_t before = run->acknowledged;
    step_until(run, run->world.now_us + 3000000);
    await_agreement(run, "after one was killed");
    bool is_newer = run->acknowledged > before && log_of(node)->quorum.election.epoch == epoch;
    kill_one(run, node);
    sim_server_restore(&node->server, older);
    int64_t told = run->refused_disks;
    before = run->acknowledged;
    sim_event_after(&run->world, &node->up, 1);
    step_until(run, run->world.now_us + 3000000);
    if (is_newer && (node->server.state != SIM_SERVER_DOWN || run->refused_disks == told))
        sim_world_fail(&run->world, "node %d came back with an older disk, and nobody noticed", at + 1);
    if (run->acknowledged == before)
        sim_world_fail(&run->world, "nothing is acknowledged beside an older disk");
}

struct totals {
    int64_t seeds, events, acknowledged, refused, elections, installs, cuts, wiped, refused_disks, forming_crashes,
        seeds_of_forming_crashes;
};

static uint64_t run_seed(uint64_t seed, bool is_verbose, struct totals *totals)
{
    struct cluster_run *run = calloc(1, sizeof(*run));
    STELE_ASSERT(run != NULL);
    sim_world_init(&run->world, seed);
    run->world.is_verbose = is_verbose;
    run->world.failed = failed;
    run->world.arg = run;
    sim_net_world_init(&run->world);
    struct stele_prng *setup = sim_stream(&run->world, SIM_STREAM_SETUP);
    struct sim_net_rates rates = {.latency_us_min = 20,
                                  .latency_us_max = 20 + sim_draw_log(setup, 20000),
                                  .pipe_bytes_min = 64,
                                  .pipe_bytes_max = 65536,
                                  .chunk_bytes_max = 4096};
    if (sim_chance(setup, 1, 2))
        rates.reset_us = 200000 + sim_draw_log(setup, 10000000);
    if (sim_chance(setup, 1, 2))
        rates.silence_us = 1000000 + sim_draw_log(setup, 20000000);
    if (sim_chance(setup, 1, 2)) {
        rates.stall_us = 500000 + sim_draw_log(setup, 10000000);
        rates.stall_us_max = 3000000;
    }
    if (sim_chance(setup, 1, 2)) {
        rates.refused = 100;
        rates.blackholed = 100;
    }
    sim_net_set_rates(&run->world, &rates);
    for (int i = 0; i < NODES; i++)
        init_node(run, i);
    sim_event_init(&run->ask, "ask", NULL, run_ask);
    sim_event_after(&run->world, &run->ask, 1000);
    step_until(run, FAULTS_US);
    /* A request that came late says nothing of a disk. */
    if (run->world.reached[SIM_POINT_FATAL] > 0 && seed % 8 != 3)
        sim_world_fail(&run->world, "a node ended for no reason");
    begin_calm(run);
    await_agreement(run, "after the faults");
    int64_t before = run->acknowledged;
    step_until(run, run->world.now_us + 3000000);
    if (run->acknowledged == before)
        sim_world_fail(&run->world, "nothing is acknowledged without faults");
    await_agreement(run, "while settings change");
    stop_all(run);
    for (int i = 0; i < NODES; i++)
        sim_event_after(&run->world, &run->nodes[i].up, 1);
    await_agreement(run, "after a clean stop of all");
    run->is_ending = false;
    sim_event_after(&run->world, &run->ask, 1);
    step_until(run, run->world.now_us + 1000000);
    if (run->wiped == 0) /* else a majority needs both that are left */
        restore_older(run);
    stop_all(run);
    totals->seeds++;
    totals->events += run->world.events;
    totals->acknowledged += run->acknowledged;
    totals->refused += run->refused;
    totals->elections += run->elections;
    totals->installs += run->installs;
    totals->wiped += run->wiped != 0;
    totals->cuts += run->cuts;
    totals->refused_disks += run->refused_disks;
    totals->forming_crashes += run->forming_crashes;
    totals->seeds_of_forming_crashes += run->forming_crashes > 0;
    uint64_t hash = run->world.hash;
    for (int i = 0; i < NODES; i++) {
        sim_event_cancel(&run->world, &run->nodes[i].up);
        sim_event_cancel(&run->world, &run->nodes[i].down);
        sim_server_deinit(&run->nodes[i].server);
    }
    sim_net_world_deinit(&run->world);
    sim_world_deinit(&run->world);
    free(run);
    return hash;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, last = SEEDS;
    bool is_verbose = false;
    struct totals totals = {.seeds = 0}, again = {.seeds = 0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            is_verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = last = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0 && i + 2 < argc) {
            first = strtoull(argv[++i], NULL, 10);
            last = strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: sim_quorum [--seed S] [--seeds FIRST LAST] [--verbose]\n");
            return 2;
        }
    }
    for (uint64_t seed = first; seed <= last; seed++) {
        uint64_t hash = run_seed(seed, is_verbose, &totals);
        if (seed % 16 == 0 && run_seed(seed, false, &again) != hash) {
            fprintf(stderr, "seed %llu goes another way the second time\n", (unsigned long long)seed);
            return 1;
        }
    }
    printf(
        "%lld seeds, %lld events, %lld changes acknowledged, %lld refused or unknown, %lld elections, %lld cuts of a "
        "log, %lld snapshots taken from a leader, %lld disks lost, %lld older disks refused, %lld deaths before the "
        "cluster had formed (in %lld "
        "seeds)\n",
        (long long)totals.seeds, (long long)totals.events, (long long)totals.acknowledged, (long long)totals.refused,
        (long long)totals.elections, (long long)totals.cuts, (long long)totals.installs, (long long)totals.wiped,
        (long long)totals.refused_disks, (long long)totals.forming_crashes, (long long)totals.seeds_of_forming_crashes);
    return 0;
}
