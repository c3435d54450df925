#include "cluster-tests/sim/cluster_nodes.h"

#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_US = 1000, MINUTE_US = 60000000, ARENA_BYTES = 16 << 20 };

#define PEERS "n1:7835,n2:7835,n3:7835"

static void failed(void *arg, const char *text)
{
    const struct cluster_nodes *nodes = arg;
    fprintf(stderr, "seed %llu: %s\n", (unsigned long long)nodes->world.seed, text);
    abort();
}

static void traced(struct sim_server *server, const struct stele_trace_event *event)
{
    char text[600];
    if (!server->world->is_verbose)
        return;
    (void)stele_trace_text(event, text, sizeof(text));
    sim_world_log(server->world, "%s: %s", server->process.name, text);
}

/* The program that asks. */

static void arm(struct cluster_nodes *nodes)
{
    int64_t deadline_ms = INT64_MAX;
    for (int i = 0; i < CLUSTER_ASKS_MAX; i++) {
        if (nodes->asks[i].is_begun)
            deadline_ms = stele_min_i64(deadline_ms, stele_link_deadline(&nodes->asks[i].link));
    }
    if (deadline_ms == INT64_MAX)
        sim_event_cancel(&nodes->world, &nodes->timer);
    else
        sim_event_at(&nodes->world, &nodes->timer,
                     stele_max_i64(deadline_ms * 1000, sim_world_now_us(&nodes->world) + 1));
}

static void after_event(struct sim_env *env)
{
    arm(env->owner);
}

static void run_timer(struct sim_event *event)
{
    struct cluster_nodes *nodes = STELE_CONTAINER_OF(event, struct cluster_nodes, timer);
    int64_t now_ms = stele_env_mono_ms(&nodes->env.env);
    for (int i = 0; i < CLUSTER_ASKS_MAX; i++) {
        if (nodes->asks[i].is_begun)
            stele_link_tick(&nodes->asks[i].link, now_ms);
    }
}

static void next_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    memcpy(out_address, STELE_CONTAINER_OF(link, struct cluster_ask, link)->address, STELE_ADDRESS_BYTES);
}

static void call_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct cluster_ask *ask = STELE_CONTAINER_OF(call, struct cluster_ask, call);
    ask->err = err;
    if (err == STELE_OK)
        ask->err = stele_response_decode(&ask->arena, answer->frame->bytes,
                                         (size_t)(answer->records - answer->frame->bytes), &ask->response);
    ask->is_done = true;
    if (ask->done != NULL)
        ask->done(ask);
}

static void run_send(struct sim_event *event)
{
    struct cluster_ask *ask = STELE_CONTAINER_OF(event, struct cluster_ask, send);
    enum stele_err err = stele_link_call(&ask->link, &ask->call, &ask->request, ask->records);
    STELE_ASSERT(err == STELE_OK);
}

struct cluster_ask *cluster_nodes_send(struct cluster_nodes *nodes, int32_t node_id,
                                       const struct stele_request *request)
{
    struct cluster_ask *ask = nodes->asks;
    while (ask < nodes->asks + CLUSTER_ASKS_MAX && ask->is_begun)
        ask++;
    STELE_ASSERT(ask < nodes->asks + CLUSTER_ASKS_MAX);
    *ask = (struct cluster_ask){.nodes = nodes, .request = *request, .is_begun = true, .call = {.done = call_done}};
    stele_arena_init(&ask->arena, &nodes->process.mem, STELE_MEM_CLIENT, ARENA_BYTES);
    stele_link_init(&ask->link, &nodes->group);
    ask->link.next_address = next_address;
    memcpy(ask->address, nodes->nodes[node_id - 1].address, sizeof(nodes->nodes[0].address));
    sim_event_init(&ask->send, "ask", &nodes->env, run_send);
    sim_event_after(&nodes->world, &ask->send, 1);
    return ask;
}

const struct stele_response *cluster_nodes_ask(struct cluster_nodes *nodes, int32_t node_id,
                                               const struct stele_request *request)
{
    struct cluster_ask *ask = cluster_nodes_send(nodes, node_id, request);
    int64_t until_us = nodes->world.now_us + MINUTE_US;
    while (!ask->is_done && nodes->world.now_us < until_us)
        cluster_nodes_run(nodes, STEP_US);
    if (!ask->is_done || ask->err != STELE_OK)
        sim_world_fail(&nodes->world, "node %d did not answer: %s", (int)node_id, stele_err_text(ask->err));
    return &ask->response;
}

void cluster_ask_end(struct cluster_ask *ask)
{
    struct cluster_nodes *nodes = ask->nodes;
    nodes->world.running = &nodes->env;
    sim_event_cancel(&nodes->world, &ask->send);
    if (!ask->is_done)
        stele_link_cancel(&ask->link, &ask->call);
    stele_link_close(&ask->link);
    stele_arena_deinit(&ask->arena);
    if (ask->records != NULL)
        stele_buf_unref(ask->records);
    ask->records = NULL;
    ask->is_begun = false;
    nodes->world.running = NULL;
    arm(nodes);
}

/* The nodes. */

static void run_pause(struct sim_event *event)
{
    (void)event;
}

void cluster_nodes_run(struct cluster_nodes *nodes, int64_t us)
{
    sim_event_after(&nodes->world, &nodes->pause, us);
    while (nodes->pause.slot != 0)
        STELE_ASSERT(sim_world_step(&nodes->world));
}

void cluster_nodes_until(struct cluster_nodes *nodes, bool (*holds)(struct cluster_nodes *nodes), const char *what)
{
    int64_t until_us = nodes->world.now_us + MINUTE_US;
    while (!holds(nodes)) {
        if (nodes->world.now_us >= until_us)
            sim_world_fail(&nodes->world, "in a minute not: %s", what);
        cluster_nodes_run(nodes, STEP_US);
    }
}

struct stele_controller *cluster_nodes_control(struct cluster_nodes *nodes, int32_t node_id)
{
    struct sim_server *server = &nodes->nodes[node_id - 1];
    return server->state == SIM_SERVER_SERVING && server->end.slot == 0 ? &server->node->control : NULL;
}

int32_t cluster_nodes_leader(struct cluster_nodes *nodes)
{
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        const struct stele_controller *control = cluster_nodes_control(nodes, id);
        if (control != NULL && control->active.is_active && stele_metadata_log_is_active(&control->mlog))
            return id;
    }
    return 0;
}

static bool is_whole(struct cluster_nodes *nodes)
{
    int32_t leader = cluster_nodes_leader(nodes);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        const struct stele_controller *control = cluster_nodes_control(nodes, id);
        if (control == NULL || leader == 0 || control->mlog.quorum.election.leader_id != leader)
            return false;
    }
    return true;
}

void cluster_nodes_start(struct cluster_nodes *nodes)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (nodes->nodes[i].state == SIM_SERVER_DOWN)
            sim_server_start(&nodes->nodes[i]);
    }
    cluster_nodes_until(nodes, is_whole, "all serve, and one leads");
}

void cluster_nodes_set(struct cluster_nodes *nodes, const char *name, const char *value)
{
    struct stele_error error = {.text = ""};
    for (int i = 0; i < CLUSTER_NODES; i++) {
        enum stele_err err = stele_settings_set(nodes->nodes[i].settings, name, value, "run", &error);
        STELE_ASSERT(err == STELE_OK);
    }
}

static void init_node(struct cluster_nodes *nodes, int at)
{
    struct stele_error error = {.text = ""};
    char name[16], id[16];
    (void)snprintf(name, sizeof(name), "n%d", at + 1);
    (void)snprintf(id, sizeof(id), "%d", at + 1);
    sim_server_init(&nodes->nodes[at], &nodes->world, name);
    nodes->nodes[at].traced = traced;
    enum stele_err err = stele_settings_set(nodes->nodes[at].settings, "node.id", id, "run", &error);
    STELE_ASSERT(err == STELE_OK);
}

void cluster_nodes_init(struct cluster_nodes *nodes, uint64_t seed)
{
    static const struct sim_net_rates rates = {.latency_us_min = 20,
                                               .latency_us_max = 400,
                                               .pipe_bytes_min = 4096,
                                               .pipe_bytes_max = 65536,
                                               .chunk_bytes_max = 4096};
    memset(nodes, 0, sizeof(*nodes));
    sim_world_init(&nodes->world, seed);
    nodes->world.is_verbose = getenv("CLUSTER_VERBOSE") != NULL;
    nodes->world.failed = failed;
    nodes->world.arg = nodes;
    sim_net_world_init(&nodes->world);
    sim_net_set_rates(&nodes->world, &rates);
    for (int i = 0; i < CLUSTER_NODES; i++)
        init_node(nodes, i);
    cluster_nodes_set(nodes, "peers", PEERS);
    sim_process_begin(&nodes->process, &nodes->world, "asker");
    sim_env_init(&nodes->env, &nodes->process, "", NULL);
    nodes->env.owner = nodes;
    nodes->env.after = after_event;
    sim_net_init(&nodes->net, &nodes->env);
    sim_event_init(&nodes->pause, "pause", NULL, run_pause);
    sim_event_init(&nodes->timer, "timer", &nodes->env, run_timer);
    stele_link_group_init(&nodes->group, &nodes->env.env, &nodes->net.net, STELE_MEM_CLIENT);
    nodes->group.client_id = nodes->group.software_name = "asker";
    nodes->group.cluster_id = "";
    nodes->group.role = STELE_ROLE_ADMIN;
    nodes->group.node_id = STELE_NO_NODE;
    nodes->group.request_timeout_ms = 30000;
    nodes->group.set_up_timeout_ms = 2000;
    nodes->group.backoff_ms = 10;
    nodes->group.backoff_max_ms = 100;
    nodes->group.in_flight_max = 4;
}

static bool is_down(struct cluster_nodes *nodes)
{
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (nodes->nodes[i].state != SIM_SERVER_DOWN)
            return false;
    }
    return true;
}

void cluster_nodes_deinit(struct cluster_nodes *nodes)
{
    for (int i = 0; i < CLUSTER_ASKS_MAX; i++) {
        if (nodes->asks[i].is_begun)
            cluster_ask_end(&nodes->asks[i]);
    }
    for (int i = 0; i < CLUSTER_NODES; i++) {
        if (nodes->nodes[i].state == SIM_SERVER_SERVING)
            sim_server_stop(&nodes->nodes[i]);
        else if (nodes->nodes[i].state == SIM_SERVER_STARTING)
            sim_server_die(&nodes->nodes[i], SIM_DEATH_KILL);
    }
    cluster_nodes_until(nodes, is_down, "the nodes stop");
    for (int i = 0; i < CLUSTER_NODES; i++)
        sim_server_deinit(&nodes->nodes[i]);
    stele_link_group_deinit(&nodes->group);
    sim_net_part(&nodes->net, SIM_PARTING_CLOSE);
    sim_event_cancel(&nodes->world, &nodes->timer);
    if (!stele_mem_is_empty(&nodes->process.mem))
        sim_world_fail(&nodes->world, "who asks holds memory");
    sim_process_end(&nodes->process);
    sim_net_world_deinit(&nodes->world);
    sim_world_deinit(&nodes->world);
}
