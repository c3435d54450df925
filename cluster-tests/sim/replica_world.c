#include "cluster-tests/sim/replica_world.h"

#include "base/check.h"
#include "node/metadata_log.h"
#include "node/partition.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DETECT_US_MAX = 300000, TELL_US_MAX = 20000, ANSWER_US_MAX = 30000, TRY_US = 20000, MINUTE_US = 60000000 };

static int64_t draw(struct replica_world *world, int64_t most)
{
    return 1 + sim_draw_log(sim_stream(&world->world, SIM_STREAM_WORKLOAD), most);
}

static struct replica_node *node_of(struct sim_server *server)
{
    return STELE_CONTAINER_OF(server, struct replica_node, server);
}

static bool is_up(const struct replica_node *node)
{
    return node->server.state == SIM_SERVER_SERVING && node->node_epoch >= 0 && node->server.end.slot == 0;
}

struct stele_partition *replica_node_partition(const struct replica_node *node, int partition)
{
    return node->server.node == NULL ? NULL : node->partitions[partition];
}

struct replica_node *replica_world_leader(struct replica_world *world, int partition)
{
    int32_t id = world->states[partition].leader_id;
    return id < 1 ? NULL : &world->nodes[id - 1];
}

/* The controller. */

static void tell_node(struct replica_node *node)
{
    if (node->server.state == SIM_SERVER_SERVING && node->server.end.slot == 0 && node->tell.slot == 0)
        sim_event_after(&node->world->world, &node->tell, draw(node->world, node->world->tell_us_max));
}

void replica_world_tell(struct replica_world *world)
{
    for (int i = 0; i < REPLICA_NODES; i++)
        tell_node(&world->nodes[i]);
}

static void run_tell(struct sim_event *event)
{
    struct replica_node *node = STELE_CONTAINER_OF(event, struct replica_node, tell);
    struct replica_world *world = node->world;
    struct stele_known_node known[REPLICA_NODES];
    struct stele_known_listener listeners[REPLICA_NODES];
    memset(known, 0, sizeof(known));
    for (int i = 0; i < REPLICA_NODES; i++) {
        struct replica_node *other = &world->nodes[i];
        known[i].status = (struct stele_node_status){
            .node_id = other->node_id, .node_epoch = other->node_epoch, .is_active = other->node_epoch >= 0};
        (void)snprintf(known[i].peer_address, sizeof(known[i].peer_address), "%s", other->server.address);
        listeners[i] = (struct stele_known_listener){.name = "PLAINTEXT", .host = other->server.address, .port = i + 1};
        known[i].listeners = &listeners[i];
        known[i].listener_count = 1;
    }
    struct stele_nodes *nodes = stele_nodes_new(node->server.node->mem, known, REPLICA_NODES);
    STELE_ASSERT(nodes != NULL);
    stele_node_tell_nodes(node->server.node, nodes);
    stele_nodes_unref(nodes);
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        if (node->partitions[i] != NULL)
            stele_partition_send_state(node->partitions[i], &world->states[i]);
    }
}

void replica_world_elect(struct replica_world *world, int partition, int32_t leader_id)
{
    struct stele_partition_state *state = &world->states[partition];
    if (leader_id >= 1 && !stele_node_set_has(&state->isr, leader_id))
        state->isr = (struct stele_node_set){.ids = {leader_id}, .count = 1};
    state->leader_id = leader_id;
    state->leader_epoch++;
    state->partition_epoch++;
    world->elections++;
    sim_world_log(&world->world, "controller: %d leads %d in epoch %d", (int)leader_id, partition,
                  (int)state->leader_epoch);
    replica_world_tell(world);
}

/* A leader for a partition that has none, from those in sync. */
static void elect_from_isr(struct replica_world *world, int partition)
{
    struct stele_partition_state *state = &world->states[partition];
    for (int32_t i = 0; i < state->isr.count; i++) {
        if (is_up(&world->nodes[state->isr.ids[i] - 1])) {
            replica_world_elect(world, partition, state->isr.ids[i]);
            return;
        }
    }
    if (state->leader_id != STELE_NO_NODE)
        replica_world_elect(world, partition, STELE_NO_NODE);
}

static void fence(struct replica_node *node)
{
    struct replica_world *world = node->world;
    node->node_epoch = -1;
    sim_world_log(&world->world, "controller: %d is fenced", (int)node->node_id);
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        struct stele_partition_state *state = &world->states[i];
        if (state->isr.count > 1 && stele_node_set_has(&state->isr, node->node_id)) {
            stele_node_set_remove(&state->isr, node->node_id);
            state->partition_epoch++;
        }
        if (state->leader_id == node->node_id)
            elect_from_isr(world, i);
    }
    replica_world_tell(world);
}

static void run_fence(struct sim_event *event)
{
    fence(STELE_CONTAINER_OF(event, struct replica_node, fence));
}

/* Wishes. */

struct answer {
    struct stele_list link;
    struct sim_event event;
    struct stele_isr_wish *wish;
    struct stele_isr_answer answer;
};

static void run_answer(struct sim_event *event)
{
    struct answer *answer = STELE_CONTAINER_OF(event, struct answer, event);
    stele_isr_wish_answer(answer->wish, &answer->answer);
    stele_list_remove(&answer->link);
    free(answer);
}

static int partition_of(const struct replica_world *world, const struct stele_partition_key *key)
{
    STELE_ASSERT(memcmp(&key->topic_id, &world->topic_id, sizeof(world->topic_id)) == 0);
    return key->number;
}

static struct stele_isr_answer decide(struct replica_world *world, struct replica_node *from,
                                      const struct stele_isr_wish *wish)
{
    struct stele_partition_state *state = &world->states[partition_of(world, &wish->key)];
    struct stele_isr_answer answer = {.leader_epoch = state->leader_epoch, .min_isr = world->min_isr};
    if (world->is_controller_deaf)
        answer.err = STELE_NOT_CONTROLLER;
    else if (wish->change.leader_epoch != state->leader_epoch || state->leader_id != from->node_id)
        answer.err = STELE_FENCED_LEADER_EPOCH;
    else if (wish->change.partition_epoch != state->partition_epoch)
        answer.err = STELE_INVALID_UPDATE_VERSION;
    for (int32_t i = 0; i < wish->change.isr.count && answer.err == STELE_OK; i++) {
        const struct replica_node *member = &world->nodes[wish->change.isr.ids[i] - 1];
        if (member->node_epoch < 0 || member->node_epoch != wish->change.node_epochs[i])
            answer.err = STELE_INELIGIBLE_REPLICA;
    }
    if (answer.err != STELE_OK) {
        world->wishes_refused++;
        return answer;
    }
    state->isr = wish->change.isr;
    state->partition_epoch++;
    world->isr_changes++;
    answer.isr = state->isr;
    answer.partition_epoch = state->partition_epoch;
    sim_world_log(&world->world, "controller: %d in sync in partition %d", (int)state->isr.count,
                  (int)wish->key.number);
    replica_world_tell(world);
    return answer;
}

static void on_wish(void *arg, struct stele_isr_wish *wish)
{
    struct replica_node *node = arg;
    struct answer *answer = calloc(1, sizeof(*answer));
    STELE_ASSERT(answer != NULL);
    answer->wish = wish;
    answer->answer = decide(node->world, node, wish);
    sim_event_init(&answer->event, "wish", &node->server.envs[STELE_SHARD_CONTROL], run_answer);
    stele_list_push(&node->wishes, &answer->link);
    sim_event_after(&node->world->world, &answer->event, draw(node->world, ANSWER_US_MAX));
}

/* The topic on a node. */

static void registered(struct replica_node *node)
{
    struct replica_world *world = node->world;
    node->node_epoch = ++world->last_node_epoch;
    node->server.node->node_epoch = node->node_epoch;
    sim_world_log(&world->world, "controller: %d is registered as %lld", (int)node->node_id,
                  (long long)node->node_epoch);
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        if (world->states[i].leader_id == STELE_NO_NODE)
            elect_from_isr(world, i);
    }
    replica_world_tell(world);
}

static void find_partitions(struct replica_node *node)
{
    struct stele_list *all = &node->server.node->partitions;
    for (struct stele_list *at = all->next; at != all; at = at->next) {
        struct stele_partition *partition = STELE_CONTAINER_OF(at, struct stele_partition, all);
        node->partitions[partition->key.number] = partition;
    }
}

static void opened(struct stele_reconcile_wait *wait)
{
    struct replica_node *node = STELE_CONTAINER_OF(wait, struct replica_node, wait);
    find_partitions(node);
    registered(node);
}

static void recorded(struct stele_metadata_change *change, enum stele_err err)
{
    struct replica_node *node = STELE_CONTAINER_OF(change, struct replica_node, change);
    STELE_ASSERT(err == STELE_OK);
    node->wait = (struct stele_reconcile_wait){
        .topic_id = node->world->topic_id, .end = REPLICA_PARTITIONS, .deadline_ms = INT64_MAX, .done = opened};
    stele_reconcile_await(&node->server.node->control.reconcile, &node->wait);
}

static void make_topic(struct replica_node *node)
{
    static const int32_t ids[REPLICA_NODES] = {1, 2, 3};
    memset(node->records, 0, sizeof(node->records));
    node->records[0].kind = STELE_METADATA_TOPIC;
    node->records[0].u.topic.name = "t";
    node->records[0].u.topic.topic_id = node->world->topic_id;
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        struct stele_metadata_record *record = &node->records[1 + i];
        record->kind = STELE_METADATA_PARTITION;
        record->u.partition.topic_id = node->world->topic_id;
        record->u.partition.partition = i;
        record->u.partition.leader_id = STELE_NO_NODE;
        record->u.partition.replicas = ids;
        record->u.partition.replica_count = REPLICA_NODES;
        record->u.partition.isr = ids;
        record->u.partition.isr_count = REPLICA_NODES;
    }
    node->change =
        (struct stele_metadata_change){.records = node->records, .count = 1 + REPLICA_PARTITIONS, .done = recorded};
    stele_metadata_log_change(&node->server.node->control.mlog, &node->change);
}

static void on_ready(struct sim_server *server)
{
    struct replica_node *node = node_of(server);
    struct stele_node *core = server->node;
    /* Each has a metadata log of its own, and drew an id of its own. */
    (void)snprintf(core->cluster_id, sizeof(core->cluster_id), "together");
    core->hooks = (struct stele_cluster_hooks){.isr_wish = on_wish, .arg = node};
    if (stele_image_topic_of(&core->control.mlog.image, &node->world->topic_id) == NULL) {
        make_topic(node);
        return;
    }
    find_partitions(node);
    registered(node);
}

static void on_dead(struct sim_server *server)
{
    struct replica_node *node = node_of(server);
    struct sim_world *world = &node->world->world;
    sim_event_cancel(world, &node->tell);
    while (!stele_list_is_empty(&node->wishes)) {
        struct answer *answer = STELE_CONTAINER_OF(node->wishes.next, struct answer, link);
        sim_event_cancel(world, &answer->event);
        stele_list_remove(&answer->link);
        free(answer);
    }
    memset(node->partitions, 0, sizeof(node->partitions));
    if (node->node_epoch >= 0)
        sim_event_after(world, &node->fence, draw(node->world, DETECT_US_MAX));
}

void replica_node_die(struct replica_node *node, enum sim_death death)
{
    if (node->server.state != SIM_SERVER_DOWN && node->server.end.slot == 0)
        sim_server_die(&node->server, death);
}

void replica_node_start(struct replica_node *node)
{
    if (node->server.state != SIM_SERVER_DOWN)
        return;
    if (node->fence.slot != 0) { /* its new registration tells of the end of the old one */
        sim_event_cancel(&node->world->world, &node->fence);
        fence(node);
    }
    sim_server_start(&node->server);
    sim_event_init(&node->tell, "tell", &node->server.envs[STELE_SHARD_CONTROL], run_tell);
}

/* The client. */

struct put {
    struct stele_list link;
    struct stele_call call;
    struct replica_world *world;
    int64_t value;
    int partition;
};

static void note_refusal(struct replica_world *world, const struct stele_produce_response *response)
{
    world->last_error = response->results[0].err;
    world->hint = response->node_count == 1 ? response->nodes[0] : (struct stele_metadata_node){.node_id = 0};
    world->hint.host = world->hint.rack = NULL; /* borrowed */
    world->hint_epoch = response->results[0].current_leader_epoch;
}

static void put_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct put *put = STELE_CONTAINER_OF(call, struct put, call);
    struct replica_world *world = put->world;
    struct replica_sent *sent = &world->sent[put->value];
    if (err == STELE_OK && answer->response->body.produce.result_count == 1) {
        const struct stele_produce_result *result = &answer->response->body.produce.results[0];
        sent->is_acked = result->err == STELE_OK;
        sent->offset = result->base_offset;
        sent->durability = result->durability;
        world->acked_count += sent->is_acked;
        if (result->err != STELE_OK)
            note_refusal(world, &answer->response->body.produce);
        sim_world_log(&world->world, "client: %lld in %d: %s at %lld", (long long)put->value, put->partition,
                      stele_err_text(result->err), (long long)result->base_offset);
    }
    world->client.pending[put->partition]--;
    stele_list_remove(&put->link);
    free(put);
}

static struct stele_buf *batch_of(struct replica_client *client, int64_t value)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    char text[128];
    struct stele_record_in record = {.timestamp = stele_env_wall_ms(&client->env.env), .value = text};
    struct stele_batch_builder *builder = stele_batch_builder_new(&client->process.mem, &options);
    struct stele_buf *batch = NULL;
    record.value_bytes = snprintf(text, sizeof(text), "%015lld and %060d", (long long)value, 0);
    STELE_ASSERT(builder != NULL);
    enum stele_err err = stele_batch_builder_add(builder, &record);
    if (err == STELE_OK)
        err = stele_batch_builder_finish(builder, &batch);
    STELE_ASSERT(err == STELE_OK);
    stele_batch_builder_free(builder);
    return batch;
}

static void send_one(struct replica_world *world, int partition)
{
    struct replica_client *client = &world->client;
    struct replica_node *leader =
        world->sends_to > 0 ? &world->nodes[world->sends_to - 1] : replica_world_leader(world, partition);
    if (leader == NULL || client->pending[partition] >= REPLICA_PUTS_MAX || world->sent_count >= REPLICA_BOOK_MAX)
        return;
    struct put *put = calloc(1, sizeof(*put));
    STELE_ASSERT(put != NULL);
    put->world = world;
    put->partition = partition;
    put->value = world->sent_count++;
    world->sent[put->value] = (struct replica_sent){.partition = partition, .acks = client->acks, .offset = -1};
    struct stele_buf *batch = batch_of(client, put->value);
    struct stele_produce_partition part = {
        .topic_id = world->topic_id, .partition = partition, .records_bytes = (uint32_t)batch->count};
    struct stele_request request = {
        .header.api = STELE_API_PRODUCE,
        .body.produce = {.acks = client->acks, .timeout_ms = 5000, .partitions = &part, .partition_count = 1}};
    put->call.done = put_done;
    stele_list_push(&client->puts, &put->link);
    client->pending[partition]++;
    enum stele_err err = stele_link_call(&client->links[leader->node_id - 1], &put->call, &request, batch);
    STELE_ASSERT(err == STELE_OK);
    stele_buf_unref(batch);
}

static void run_tick(struct sim_event *event)
{
    struct replica_client *client = STELE_CONTAINER_OF(event, struct replica_client, tick);
    struct replica_world *world = STELE_CONTAINER_OF(client, struct replica_world, client);
    for (int i = 0; i < REPLICA_NODES; i++)
        stele_link_tick(&client->links[i], stele_env_mono_ms(&client->env.env));
    for (int i = 0; i < REPLICA_PARTITIONS && !client->is_stopped; i++)
        send_one(world, i);
    sim_event_after(&world->world, &client->tick, draw(world, client->pause_us));
}

static void next_address(struct stele_link *link, char out_address[STELE_ADDRESS_BYTES])
{
    struct replica_client *client = STELE_CONTAINER_OF(link->group, struct replica_client, group);
    struct replica_world *world = STELE_CONTAINER_OF(client, struct replica_world, client);
    (void)snprintf(out_address, STELE_ADDRESS_BYTES, "%s", world->nodes[link - client->links].server.address);
}

static void client_begin(struct replica_world *world)
{
    struct replica_client *client = &world->client;
    sim_process_begin(&client->process, &world->world, "client");
    sim_env_init(&client->env, &client->process, "", NULL);
    sim_net_init(&client->net, &client->env);
    stele_link_group_init(&client->group, &client->env.env, &client->net.net, STELE_MEM_CLIENT);
    client->group.client_id = "client";
    client->group.software_name = "test";
    client->group.cluster_id = "";
    client->group.request_timeout_ms = 1000;
    client->group.set_up_timeout_ms = 2000;
    client->group.backoff_ms = 10;
    client->group.backoff_max_ms = 200;
    client->group.in_flight_max = 16;
    stele_list_init(&client->puts);
    for (int i = 0; i < REPLICA_NODES; i++) {
        stele_link_init(&client->links[i], &client->group);
        client->links[i].next_address = next_address;
    }
    sim_event_init(&client->tick, "tick", &client->env, run_tick);
    sim_event_after(&world->world, &client->tick, 1);
}

void replica_client_stop(struct replica_world *world)
{
    world->client.is_stopped = true;
}

/* Life. */

void replica_world_init(struct replica_world *world, uint64_t seed, bool is_verbose)
{
    memset(world, 0, sizeof(*world));
    sim_world_init(&world->world, seed);
    sim_net_world_init(&world->world);
    world->world.is_verbose = is_verbose;
    world->world.task_us_max = 200;
    world->world.job_us_max = 2000;
    world->world.timer_us_max = 500;
    struct sim_net_rates rates = {
        .latency_us_min = 20, .latency_us_max = 1000, .pipe_bytes_min = 4096, .pipe_bytes_max = 262144};
    sim_net_set_rates(&world->world, &rates);
    world->tell_us_max = TELL_US_MAX;
    world->min_isr = 2;
    world->client.pause_us = 20000;
    world->client.acks = -1;
    memset(&world->topic_id, 7, sizeof(world->topic_id));
    world->sent = calloc(REPLICA_BOOK_MAX, sizeof(*world->sent));
    STELE_ASSERT(world->sent != NULL);
    for (int i = 0; i < REPLICA_PARTITIONS; i++)
        world->states[i] = (struct stele_partition_state){.leader_id = STELE_NO_NODE,
                                                          .replicas = {.ids = {1, 2, 3}, .count = 3},
                                                          .isr = {.ids = {1, 2, 3}, .count = 3}};
    for (int i = 0; i < REPLICA_NODES; i++) {
        struct replica_node *node = &world->nodes[i];
        char name[8];
        (void)snprintf(name, sizeof(name), "n%d", i + 1);
        node->world = world;
        node->node_id = i + 1;
        node->node_epoch = -1;
        sim_server_init(&node->server, &world->world, name);
        node->server.shard_count = 3;
        node->server.ready = on_ready;
        node->server.dead = on_dead;
        stele_list_init(&node->wishes);
        sim_event_init(&node->fence, "fence", NULL, run_fence);
        name[0] = (char)('1' + i);
        name[1] = 0;
        enum stele_err err = stele_settings_set(node->server.settings, "node.id", name, "test", NULL);
        STELE_ASSERT(err == STELE_OK);
    }
    replica_world_set(world, "log.dirs", "a");
    replica_world_set(world, "log.dir.reserve.bytes", "0");
    replica_world_set(world, "min.insync.replicas", "2");
    replica_world_set(world, "replica.lag.time.max.ms", "2000");
    replica_world_set(world, "replica.socket.timeout.ms", "3000");
}

void replica_world_set(struct replica_world *world, const char *name, const char *value)
{
    for (int i = 0; i < REPLICA_NODES; i++) {
        enum stele_err err = stele_settings_set(world->nodes[i].server.settings, name, value, "test", NULL);
        STELE_ASSERT(err == STELE_OK);
    }
}

void replica_world_begin(struct replica_world *world)
{
    for (int i = 0; i < REPLICA_NODES; i++)
        replica_node_start(&world->nodes[i]);
    client_begin(world);
}

void replica_world_deinit(struct replica_world *world)
{
    struct replica_client *client = &world->client;
    for (int i = 0; i < REPLICA_NODES; i++)
        replica_node_die(&world->nodes[i], SIM_DEATH_KILL);
    replica_world_run(world, 1000);
    sim_event_cancel(&world->world, &client->tick);
    sim_net_part(&client->net, SIM_PARTING_KILL);
    while (!stele_list_is_empty(&client->puts)) {
        struct put *put = STELE_CONTAINER_OF(client->puts.next, struct put, link);
        stele_list_remove(&put->link);
        free(put);
    }
    sim_process_end(&client->process);
    for (int i = 0; i < REPLICA_NODES; i++) {
        sim_event_cancel(&world->world, &world->nodes[i].fence);
        sim_server_deinit(&world->nodes[i].server);
    }
    sim_net_world_deinit(&world->world);
    sim_world_deinit(&world->world);
    free(world->sent);
}

void replica_world_run(struct replica_world *world, int64_t us)
{
    int64_t end_us = sim_world_now_us(&world->world) + us;
    while (world->world.count > 0 && world->world.heap[1]->at_us <= end_us && sim_world_step(&world->world)) {
    }
    world->world.now_us = stele_max_i64(world->world.now_us, end_us);
}

void replica_world_until(struct replica_world *world, bool (*holds)(const struct replica_world *world),
                         const char *what)
{
    for (int64_t us = 0; us < MINUTE_US; us += TRY_US) {
        if (holds(world))
            return;
        replica_world_run(world, TRY_US);
    }
    sim_world_fail(&world->world, "within a minute it did not come to this: %s", what);
}

bool replica_world_is_led(const struct replica_world *world)
{
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        int32_t id = world->states[i].leader_id;
        const struct stele_partition *partition = id < 1 ? NULL : replica_node_partition(&world->nodes[id - 1], i);
        if (partition == NULL || partition->replica.role != STELE_REPLICA_LEADER ||
            partition->replica.leader_epoch != world->states[i].leader_epoch)
            return false;
    }
    return true;
}

bool replica_world_is_whole(const struct replica_world *world)
{
    if (!replica_world_is_led(world))
        return false;
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        const struct stele_partition *leader = replica_node_partition(&world->nodes[world->states[i].leader_id - 1], i);
        int64_t end_offset = stele_log_end_offset(leader->log);
        if (world->states[i].isr.count < REPLICA_NODES || stele_log_high_watermark(leader->log) < end_offset)
            return false;
        for (int k = 0; k < REPLICA_NODES; k++) {
            const struct stele_partition *partition = replica_node_partition(&world->nodes[k], i);
            if (partition == NULL || partition->log == NULL || stele_log_end_offset(partition->log) != end_offset)
                return false;
        }
    }
    return true;
}

/* The book against the logs. */

static int64_t value_of(const struct stele_record *record)
{
    char text[16] = "";
    STELE_ASSERT(record->value_bytes > 15);
    memcpy(text, record->value, 15);
    return strtoll(text, NULL, 10);
}

static void take_values(struct replica_world *world, const uint8_t *bytes, size_t count, int64_t *values)
{
    for (size_t at = 0; at + STELE_BATCH_HEADER_BYTES <= count;) {
        struct stele_record_walker walker;
        struct stele_record record;
        struct stele_batch_header header;
        size_t batch = (size_t)stele_batch_size(bytes + at);
        if (batch > count - at)
            return; /* the last one is cut off */
        if (stele_batch_check(bytes + at, batch, &header) != STELE_OK)
            sim_world_fail(&world->world, "a log holds a damaged batch");
        enum stele_err err = stele_record_walker_init(&walker, &world->client.process.mem, bytes + at, batch, batch);
        STELE_ASSERT(err == STELE_OK);
        for (int64_t offset = header.base_offset; stele_record_next(&walker, &record) == STELE_OK; offset++)
            values[offset] = value_of(&record);
        stele_record_walker_deinit(&walker);
        at += batch;
    }
}

/* The value at each offset; -1: none. */
static int64_t *read_log(struct replica_world *world, struct stele_partition *partition)
{
    struct stele_log *log = partition->log;
    int64_t end_offset = stele_log_end_offset(log), offset = 0;
    int64_t *values = calloc((size_t)end_offset + 1, sizeof(*values));
    STELE_ASSERT(values != NULL);
    memset(values, -1, ((size_t)end_offset + 1) * sizeof(*values));
    while (offset < end_offset) {
        struct stele_slice slice = {.file = NULL};
        struct stele_read read = {.offset = offset, .bound = end_offset, .max_bytes = 1 << 20, .min_one = true};
        enum stele_err err = stele_log_read(log, &read, &slice);
        if (err != STELE_OK || slice.bytes == 0)
            sim_world_fail(&world->world, "a log cannot be read at %lld: %s", (long long)offset, stele_err_text(err));
        uint8_t *bytes = malloc(slice.bytes);
        STELE_ASSERT(bytes != NULL);
        err = stele_file_read(stele_cached_file_send(slice.file)->file, bytes, slice.bytes, slice.pos);
        STELE_ASSERT(err == STELE_OK);
        take_values(world, bytes, slice.bytes, values);
        stele_slice_release(&slice);
        free(bytes);
        int64_t next = offset;
        while (next < end_offset && values[next] >= 0)
            next++;
        if (next == offset)
            sim_world_fail(&world->world, "a log has nothing at %lld", (long long)offset);
        offset = next;
    }
    return values;
}

static void check_book(struct replica_world *world, int partition, const int64_t *values, int64_t end_offset)
{
    for (int64_t i = 0; i < world->sent_count; i++) {
        const struct replica_sent *sent = &world->sent[i];
        if (sent->partition != partition || !sent->is_acked || sent->acks != -1)
            continue;
        if (sent->offset >= end_offset || values[sent->offset] != i)
            sim_world_fail(&world->world, "record %lld of partition %d was acknowledged at %lld and is lost (%lld)",
                           (long long)i, partition, (long long)sent->offset,
                           sent->offset < end_offset ? (long long)values[sent->offset] : -1LL);
    }
    int64_t last = -1;
    for (int64_t offset = 0; offset < end_offset; offset++) {
        if (values[offset] <= last && world->client.pending[partition] == 0 && values[offset] == last)
            sim_world_fail(&world->world, "record %lld is twice in partition %d", (long long)last, partition);
        last = values[offset];
    }
}

void replica_world_check(struct replica_world *world)
{
    for (int i = 0; i < REPLICA_PARTITIONS; i++) {
        struct replica_node *leader = replica_world_leader(world, i);
        STELE_ASSERT(leader != NULL);
        struct stele_partition *of_leader = replica_node_partition(leader, i);
        int64_t end_offset = stele_log_end_offset(of_leader->log);
        int64_t *values = read_log(world, of_leader);
        check_book(world, i, values, end_offset);
        for (int k = 0; k < REPLICA_NODES; k++) {
            struct stele_partition *partition = replica_node_partition(&world->nodes[k], i);
            if (partition == NULL || partition == of_leader || partition->log == NULL)
                continue;
            int64_t *others = read_log(world, partition);
            int64_t end = stele_min_i64(stele_log_high_watermark(of_leader->log), stele_log_end_offset(partition->log));
            for (int64_t offset = 0; offset < end; offset++) {
                if (others[offset] != values[offset])
                    sim_world_fail(&world->world, "partition %d differs on node %d at %lld", i, k + 1,
                                   (long long)offset);
            }
            free(others);
        }
        free(values);
    }
}
