/* How a run goes: the shape of the cluster, its nodes' lives, the time of faults, the calm, the end. */
#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"
#include "cluster-tests/sim/sim_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 6000000, LOOK_US = 20000 };
enum { STREAM_SHAPE = 900, STREAM_RETENTION, STREAM_HAS_RETENTION, STREAM_RACKS, STREAM_DIRS };

const char *cluster_point_text(enum cluster_point point)
{
    static const char *const texts[CLUSTER_POINT_COUNT] = {
#define P(name, text) text,
        CLUSTER_POINTS(P)
#undef P
    };
    return texts[point];
}

/* The shape. */

void cluster_plan_of(struct cluster_plan *plan, uint64_t seed, int node_count)
{
    static const int nodes[] = {1, 2, 4, 5};
    struct stele_prng prng;
    stele_prng_init(&prng, seed, STREAM_SHAPE);
    *plan = (struct cluster_plan){
        .seed = seed, .node_count = 3, .client_count = (int)stele_prng_range(&prng, 2, CLUSTER_CLIENTS_MAX)};
    if (sim_chance(&prng, 1, 5))
        plan->node_count = nodes[stele_prng_below(&prng, STELE_ARRAY_LEN(nodes))];
    if (node_count > 0)
        plan->node_count = node_count;
}

void cluster_plan_fill(struct cluster_plan *plan)
{
    struct cluster_plan_frame frame = {.from_us = (plan->seed % 2 == 0 ? 1 : 8) * 1000000, .to_us = CLUSTER_FAULTS_US};
    if (plan->frame.lasts_us > 0)
        frame.to_us = plan->frame.lasts_us;
    if (!plan->frame.names_racks) {
        struct stele_prng prng;
        stele_prng_init(&prng, plan->seed, STREAM_RACKS);
        plan->frame.has_racks = sim_chance(&prng, 1, 2);
    }
    cluster_plan_make(plan, &frame);
}

static void draw_net(struct cluster *run, struct stele_prng *setup)
{
    static const size_t chunks[] = {0, 0, 0, 300, 4000};
    struct sim_net_rates rates = {.latency_us_min = 20,
                                  .latency_us_max = 20 + sim_draw_log(setup, 20000),
                                  .pipe_bytes_min = 65536,
                                  .pipe_bytes_max = 262144};
    rates.chunk_bytes_max = chunks[stele_prng_below(setup, STELE_ARRAY_LEN(chunks))];
    if (sim_chance(setup, 1, 4)) { /* small windows */
        rates.pipe_bytes_min = 500;
        rates.pipe_bytes_max = 20000;
        rates.latency_us_max = stele_min_i64(rates.latency_us_max, 1000);
    }
    run->world.task_us_max = 200;
    run->world.job_us_max = 100 + sim_draw_log(setup, 5000);
    run->world.timer_us_max = 1000;
    sim_net_set_rates(&run->world, &rates);
}

/* Nodes. */

static void set_text(struct cluster_node *node, const char *name, const char *text)
{
    struct stele_error error = {.text = ""};
    if (stele_settings_set(node->server.settings, name, text, "run", &error) != STELE_OK)
        sim_world_fail(&node->run->world, "%s", error.text);
}

static void set_int(struct cluster_node *node, const char *name, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    set_text(node, name, text);
}

void cluster_node_start(struct cluster_node *node)
{
    node->checked_to = 0;
    node->led_epoch = 0; /* what it leads now it may lead with more known to be committed: an only voter has all */
    cluster_replicas_forget(node);
    cluster_states_forget(node);
    node->has_disk_trouble = node->is_disk_unreadable || cluster_node_has_broken_dir(node);
    node->had_full_disk = node->is_disk_full || cluster_node_has_full_dir(node);
    node->is_short_of_memory = node->no_memory > 0;
    node->down_us = 1000000;
    node->has_served = false;
    sim_server_start(&node->server);
    node->server.process.no_memory = node->no_memory;
}

static void run_up(struct sim_event *event)
{
    struct cluster_node *node = STELE_CONTAINER_OF(event, struct cluster_node, up);
    if (node->server.state == SIM_SERVER_DOWN)
        cluster_node_start(node);
}

static void before_death(struct sim_server *server)
{
    static const enum sim_death how[] = {SIM_DEATH_KILL, SIM_DEATH_POWER_ORDERED, SIM_DEATH_POWER_ADVERSARIAL};
    struct cluster_node *node = server->arg;
    struct cluster *run = node->run;
    if (sim_disk_is_stopped(server->disk) && server->death == SIM_DEATH_KILL)
        server->death = how[node->crash_how];
    if (run->quorum.committed_to == 0)
        cluster_reach(run, CLUSTER_POINT_FORMING_DEATH);
}

/* Only what was done to a node excuses that it does not start. */
static void check_death(struct cluster_node *node)
{
    bool is_excused = node->has_disk_trouble || node->is_short_of_memory || node->had_full_disk;
    if (node->server.death == SIM_DEATH_FAILED && !is_excused)
        sim_world_fail(&node->run->world, "%s could not start", node->server.process.name);
    if (node->server.death == SIM_DEATH_STOPPED && !node->server.is_stop_clean && !is_excused)
        sim_world_fail(&node->run->world, "%s did not stop in order", node->server.process.name);
}

static void dead(struct sim_server *server)
{
    struct cluster_node *node = server->arg;
    struct cluster *run = node->run;
    check_death(node);
    bool loses = server->death == SIM_DEATH_POWER_ORDERED || server->death == SIM_DEATH_POWER_ADVERSARIAL ||
                 node->has_disk_trouble || node->wants_wipe;
    node->is_amnesiac = loses || (node->is_amnesiac && !node->has_served);
    if (node->wants_wipe) {
        for (int i = 0; i < CLUSTER_LIVES_MAX * CLUSTER_PARTITIONS_MAX; i++) {
            struct cluster_replica *replica = &node->replicas[i / CLUSTER_PARTITIONS_MAX][i % CLUSTER_PARTITIONS_MAX];
            replica->start_floor = replica->synced_to = 0;
        }
        node->wants_wipe = false;
        node->is_wiped = true;
        node->may_be_readmitted = node->is_readmitted = false;
        node->wipes++;
        node->was_wiped_early = run->quorum.committed_to == 0;
        sim_world_log(&run->world, "%s: gets an empty disk", server->process.name);
        sim_server_wipe(server);
        cluster_disk_quiet(node);
    }
    if (node->wants_mount)
        cluster_node_mount(node);
    cluster_watch_look(run);
    if (!node->is_gone && !run->is_ending)
        sim_event_after(&run->world, &node->up, stele_max_i64(node->down_us, 1));
}

static void traced(struct sim_server *server, const struct stele_trace_event *event)
{
    struct cluster_node *node = server->arg;
    cluster_watch_traced(node->run, node->number, event);
    bool is_metadata = event->subject != NULL && strstr(event->subject, "__cluster_metadata") != NULL;
    if (event->kind == STELE_TRACE_METADATA_SNAPSHOT_TAKEN)
        cluster_reach(node->run, CLUSTER_POINT_SNAPSHOT);
    if (event->kind == STELE_TRACE_LOG_TRUNCATED && is_metadata &&
        strcmp(event->text, stele_reason_text(STELE_REASON_TRUNCATED)) == 0)
        cluster_reach(node->run, CLUSTER_POINT_METADATA_CUT);
    if (event->kind == STELE_TRACE_LOG_RECOVERED)
        cluster_reach(node->run, CLUSTER_POINT_RECOVERY);
    if (event->kind == STELE_TRACE_DIR_FAILED && strcmp(event->subject, "a") != 0)
        cluster_reach(node->run, CLUSTER_POINT_DIR_FAILED);
    if (event->kind == STELE_TRACE_DIR_FULL && cluster_node_has_full_dir(node))
        cluster_reach(node->run, CLUSTER_POINT_DIR_FULL);
    if (event->kind == STELE_TRACE_LOG_ROTTED)
        cluster_reach(node->run, CLUSTER_POINT_ROT_TOLD);
    if (event->kind == STELE_TRACE_REPLICA_REPAIRED)
        cluster_reach(node->run, CLUSTER_POINT_REPAIRED);
    if (event->kind == STELE_TRACE_MOVE_ENDED)
        cluster_reach(node->run, CLUSTER_POINT_RELOCATED);
    if (event->kind == STELE_TRACE_MOVE_DROPPED || event->kind == STELE_TRACE_MOVE_FAILED)
        cluster_reach(node->run, CLUSTER_POINT_RELOCATE_FAILED);
}

static void stepped(struct sim_server *server)
{
    struct cluster_node *node = server->arg;
    const struct stele_life *life = &server->node->control.life;
    node->has_served = node->has_served || life->machine.state == STELE_LIFE_RUNNING || node->run->node_count == 1;
    cluster_quorum_check(server->arg);
    cluster_states_check(server->arg);
    cluster_replicas_check(server->arg);
    cluster_watch_look(node->run);
}

static void init_node(struct cluster *run, int number, struct stele_prng *setup)
{
    struct cluster_node *node = &run->nodes[number];
    char name[16];
    (void)snprintf(name, sizeof(name), "n%d", number + 1);
    node->run = run;
    node->number = number;
    node->host = sim_net_host(&run->world, name);
    STELE_ASSERT(node->host == number);
    sim_server_init(&node->server, &run->world, name);
    node->server.arg = node;
    node->server.dead = dead;
    node->server.before_death = before_death;
    node->server.traced = traced;
    node->server.stepped = stepped;
    node->server.shard_count = STELE_SHARD_DATA + (int)stele_prng_range(setup, 1, 2);
    for (int i = 0; i < CLUSTER_LIVES_MAX * CLUSTER_PARTITIONS_MAX; i++)
        node->replicas[i / CLUSTER_PARTITIONS_MAX][i % CLUSTER_PARTITIONS_MAX].stale_from = -1;
    sim_event_init(&node->up, "up", NULL, run_up);
    sim_event_after(&run->world, &node->up, 1 + sim_draw_log(setup, number == 0 ? 1000 : 3000000));
}

static void init_nodes(struct cluster *run, struct stele_prng *setup)
{
    static const char *const dirs[] = {"a", "a,b", "a,b,c"};
    struct stele_prng prng;
    stele_prng_init(&prng, run->plan.seed, STREAM_DIRS);
    bool has_dirs = sim_chance(&prng, 1, 2) && run->plan.frame.topic_count == 0;
    int64_t snapshot_bytes = sim_chance(setup, 1, 2) ? stele_prng_range(setup, 2000, 20000) : 20971520;
    for (int i = 0; i < run->node_count; i++) {
        init_node(run, i, setup);
        size_t used = strlen(run->peers);
        (void)snprintf(run->peers + used, sizeof(run->peers) - used, "%s%s", i == 0 ? "" : ",",
                       run->nodes[i].server.address);
    }
    for (int i = 0; i < run->node_count; i++) {
        struct cluster_node *node = &run->nodes[i];
        set_int(node, "node.id", i + 1);
        set_text(node, "peers", run->peers);
        node->dir_count = has_dirs ? (int)stele_prng_range(&prng, 1, CLUSTER_DIRS_MAX) : 1;
        if (run->plan.frame.dir_count > 0)
            node->dir_count = run->plan.frame.dir_count;
        if (node->dir_count > 1)
            cluster_reach(run, CLUSTER_POINT_DIRS);
        set_text(node, "log.dirs", dirs[node->dir_count - 1]);
        set_int(node, "log.dir.reserve.bytes", 100000);
        set_int(node, "metadata.log.max.record.bytes.between.snapshots", snapshot_bytes);
        set_int(node, "num.network.threads", node->server.shard_count - STELE_SHARD_DATA);
        if (run->plan.frame.has_racks)
            set_int(node, "broker.rack", i + 1);
        if (run->has_retention) {
            set_int(node, "log.retention.check.interval.ms", 1000 + 1000 * i);
            set_int(node, "log.segment.delete.delay.ms", 1000);
        }
        for (int k = 0; k < run->plan.frame.node_setting_count; k++)
            set_text(node, run->plan.frame.nodes[k].name, run->plan.frame.nodes[k].value);
    }
}

/* Topics. */

static void *plain_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, bytes);
}

/* As the script wants it. */
static void shape_topic(const struct cluster_frame *frame, struct cluster_topic *topic)
{
    if (frame->partition_count > 0)
        topic->partition_count = frame->partition_count;
    for (int i = 0; i < frame->topic_setting_count; i++) {
        if (strcmp(frame->topics[i].name, "flush.before.ack") == 0)
            topic->flushes_before_ack = strcmp(frame->topics[i].value, "true") == 0;
        if (strcmp(frame->topics[i].name, "retention.ms") == 0)
            topic->retention_ms = strtoll(frame->topics[i].value, NULL, 10);
        if (strcmp(frame->topics[i].name, "retention.bytes") == 0)
            topic->retention_bytes = strtoll(frame->topics[i].value, NULL, 10);
        if (strcmp(frame->topics[i].name, "segment.bytes") == 0)
            (void)snprintf(topic->segment_bytes, sizeof(topic->segment_bytes), "%s", frame->topics[i].value);
    }
}

/* In half of the runs some topics delete what is old or too much, in small segments; not where a script says what
 * topics there are. */
static void draw_retention(struct cluster *run, struct stele_prng *prng, struct cluster_topic *topic)
{
    topic->retention_ms = 604800000;
    topic->retention_bytes = -1;
    if (!run->has_retention || !sim_chance(prng, 1, 2))
        return;
    bool is_of_time = sim_chance(prng, 1, 2);
    topic->retention_ms = is_of_time ? 2000 + sim_draw_log(prng, 100000) : 604800000;
    topic->retention_bytes = is_of_time ? -1 : stele_prng_range(prng, 5000, 100000);
    (void)snprintf(topic->segment_bytes, sizeof(topic->segment_bytes), "%lld",
                   (long long)stele_prng_range(prng, 4000, 20000));
}

static void init_topics(struct cluster *run, struct stele_prng *setup)
{
    stele_mem_init(&run->mem, (struct stele_mem_source){.resize = plain_resize}, 0);
    run->book.topic_count = (int)stele_prng_range(setup, 1, CLUSTER_TOPICS_MAX);
    if (run->plan.frame.topic_count > 0)
        run->book.topic_count = run->plan.frame.topic_count;
    run->book.life_count = run->book.topic_count;
    struct stele_prng retention;
    stele_prng_init(&retention, run->plan.seed, STREAM_RETENTION);
    for (int i = 0; i < run->book.topic_count; i++) {
        struct cluster_topic *topic = &run->book.topics[i];
        (void)snprintf(topic->name, sizeof(topic->name), "t%d", i);
        topic->first = i;
        topic->partition_count = (int)stele_prng_range(setup, 1, CLUSTER_PARTITIONS_MAX);
        topic->flushes_before_ack = sim_chance(setup, 1, 2);
        int64_t segment_bytes = sim_chance(setup, 1, 2) ? stele_prng_range(setup, 4000, 60000) : 1073741824;
        (void)snprintf(topic->segment_bytes, sizeof(topic->segment_bytes), "%lld", (long long)segment_bytes);
        draw_retention(run, &retention, topic);
        shape_topic(&run->plan.frame, topic);
    }
}

/* Time. */

static void step_until(struct cluster *run, int64_t until_us)
{
    struct sim_world *world = &run->world;
    while (world->count > 0 && world->heap[1]->at_us <= until_us && sim_world_step(world)) {
        if (world->events > EVENTS_MAX)
            sim_world_fail(world, "L9: it runs for ever");
    }
    world->now_us = stele_max_i64(world->now_us, until_us);
}

static void check_late(struct cluster *run, int64_t until_us, const char *what, const char *why)
{
    if (run->world.now_us <= until_us)
        return;
    cluster_states_print(run);
    sim_world_fail(&run->world, "%s without faults: %s", what, why);
}

static void await_agreement(struct cluster *run)
{
    const char *why = "";
    int64_t until_us = run->world.now_us + CLUSTER_MEND_US;
    while (!cluster_quorum_agrees(run, &why) || !cluster_states_are_whole(run, &why)) {
        step_until(run, run->world.now_us + LOOK_US);
        check_late(run, until_us, "KL, L2: the cluster does not become whole", why);
    }
}

static void await_clients(struct cluster *run)
{
    int64_t until_us = run->world.now_us + CLUSTER_MEND_US;
    run->is_over = true;
    while (run->done_count < run->client_count + CLUSTER_OPERATORS) {
        step_until(run, run->world.now_us + LOOK_US);
        for (int i = 0; i < CLUSTER_OPERATORS; i++) {
            if (run->operators[i].step != NULL)
                check_late(run, until_us, "L1: who runs the cluster does not come to an end", run->operators[i].step);
        }
        for (int i = 0; i < run->client_count; i++) {
            if (run->clients[i].step != NULL)
                check_late(run, until_us, "L1: a program does not come to an end", run->clients[i].step);
        }
    }
}

static void stop_nodes(struct cluster *run)
{
    bool is_down = false;
    int64_t until_us = run->world.now_us + CLUSTER_MEND_US;
    run->is_ending = true;
    for (int i = 0; i < run->node_count; i++) {
        if (!run->nodes[i].is_gone)
            sim_server_stop(&run->nodes[i].server);
    }
    while (!is_down) {
        step_until(run, run->world.now_us + LOOK_US);
        is_down = true;
        for (int i = 0; i < run->node_count; i++)
            is_down = is_down && run->nodes[i].server.state == SIM_SERVER_DOWN;
        if (run->world.now_us > until_us)
            sim_world_fail(&run->world, "the nodes do not stop");
    }
}

static void free_run(struct cluster *run, struct cluster_result *out_result)
{
    *out_result = (struct cluster_result){.hash = run->world.hash,
                                          .events = run->world.events,
                                          .simulated_us = run->world.now_us,
                                          .acknowledged = run->book.acknowledged};
    memcpy(out_result->reached, run->reached, sizeof(run->reached));
    memcpy(out_result->faults, run->faults, sizeof(run->faults));
    memcpy(out_result->world, run->world.reached, sizeof(run->world.reached));
    for (int i = 0; i < run->client_count; i++)
        sim_client_deinit(&run->clients[i].sim);
    for (int i = 0; i < CLUSTER_OPERATORS; i++)
        sim_client_deinit(&run->operators[i].sim);
    for (int i = 0; i < run->node_count; i++) {
        sim_event_cancel(&run->world, &run->nodes[i].up);
        sim_server_deinit(&run->nodes[i].server);
    }
    sim_net_world_deinit(&run->world);
    sim_world_deinit(&run->world);
    cluster_plan_free(&run->plan);
    free(run->quorum.batches);
    cluster_book_free(&run->book);
    STELE_ASSERT(stele_mem_is_empty(&run->mem));
    free(run);
}

void cluster_run(struct cluster_plan *plan, bool is_verbose, void (*failed)(void *arg, const char *text), void *arg,
                 struct cluster_result *out_result)
{
    struct cluster *run = sim_alloc(sizeof(*run));
    run->plan = *plan;
    plan->lines = NULL;
    plan->count = plan->capacity = 0;
    run->node_count = run->plan.node_count;
    run->client_count = run->plan.client_count;
    sim_world_init(&run->world, run->plan.seed);
    run->world.is_verbose = is_verbose;
    run->world.failed = failed;
    run->world.arg = arg;
    sim_net_world_init(&run->world);
    struct stele_prng *setup = sim_stream(&run->world, SIM_STREAM_SETUP), prng;
    stele_prng_init(&prng, run->plan.seed, STREAM_HAS_RETENTION);
    run->has_retention = sim_chance(&prng, 1, 2) && run->plan.frame.topic_count == 0;
    draw_net(run, setup);
    init_nodes(run, setup);
    init_topics(run, setup);
    cluster_clients_start(run);
    cluster_operators_start(run);
    cluster_faults_begin(run);
    cluster_reach(run, CLUSTER_POINT_SEED);
    if (run->node_count == 1)
        cluster_reach(run, CLUSTER_POINT_ALONE);
    int64_t lasts_us = run->plan.frame.lasts_us;
    if (lasts_us == 0)
        step_until(run, CLUSTER_FAULTS_US);
    while (run->world.now_us < lasts_us && !cluster_watch_is_over(run))
        step_until(run, run->world.now_us + LOOK_US);
    sim_world_log(&run->world, "CALM");
    run->is_calm = true;
    cluster_faults_end(run);
    step_until(run, lasts_us > 0 ? run->world.now_us + CLUSTER_SHORT_LOAD_US : CLUSTER_LOAD_US);
    await_clients(run);
    await_agreement(run);
    cluster_quorum_check_settings(run);
    cluster_replicas_check_all(run);
    cluster_book_end(run);
    stop_nodes(run);
    free_run(run, out_result);
}
