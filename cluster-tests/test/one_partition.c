#include "cluster-tests/test/one_partition.h"

#include "base/test/support.h"
#include "proto/record_batch.h"

#include <stdio.h>
#include <string.h>

struct cluster_nodes cluster;
struct stele_uuid topic_id;
int32_t controller, others[2];

const struct stele_partition_state *partition(void)
{
    int32_t leader = cluster_nodes_leader(&cluster);
    const struct stele_controller *control = leader > 0 ? cluster_nodes_control(&cluster, leader) : NULL;
    const struct stele_image_topic *topic = control != NULL ? stele_image_topic_named(&control->mlog.image, "t") : NULL;
    return topic != NULL ? &topic->partitions[0].state : NULL;
}

bool are(const struct stele_node_set *set, const int32_t *ids, int count)
{
    for (int i = 0; i < count; i++) {
        if (!stele_node_set_has(set, ids[i]))
            return false;
    }
    return set->count == count;
}

struct stele_partition *replica(int32_t node_id)
{
    struct sim_server *server = &cluster.nodes[node_id - 1];
    struct stele_list *all = server->state == SIM_SERVER_SERVING ? &server->node->partitions : NULL;
    for (struct stele_list *at = all != NULL ? all->next : NULL; at != all; at = at->next) {
        struct stele_partition *found = STELE_CONTAINER_OF(at, struct stele_partition, all);
        if (stele_uuid_equal(&found->key.topic_id, &topic_id) && found->log != NULL)
            return found;
    }
    return NULL;
}

bool is_led(struct cluster_nodes *nodes)
{
    const struct stele_partition_state *state = partition();
    (void)nodes;
    if (state == NULL || state->leader_id < 1)
        return false;
    const struct stele_partition *leader = replica(state->leader_id);
    return leader != NULL && leader->replica.role == STELE_REPLICA_LEADER &&
           leader->replica.leader_epoch == state->leader_epoch &&
           leader->replica.partition_epoch == state->partition_epoch;
}

bool is_leaderless(struct cluster_nodes *nodes)
{
    const struct stele_partition_state *state = partition();
    (void)nodes;
    return state != NULL && state->leader_id == STELE_NO_NODE;
}

bool is_whole(struct cluster_nodes *nodes)
{
    const struct stele_partition_state *state = partition();
    return is_led(nodes) && state->isr.count == state->replicas.count && state->adding.count == 0 &&
           state->removing.count == 0;
}

bool lacks_second_other(struct cluster_nodes *nodes)
{
    return is_led(nodes) && !stele_node_set_has(&partition()->isr, others[1]);
}

bool all_registered(struct cluster_nodes *nodes)
{
    int32_t leader = cluster_nodes_leader(nodes);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        const struct stele_controller *control = cluster_nodes_control(nodes, id);
        if (control == NULL || leader == 0 ||
            !stele_registry_is_active_node(&cluster_nodes_control(nodes, leader)->active.registry, id))
            return false;
    }
    return true;
}

const struct stele_response *ask(const struct stele_request *request)
{
    return cluster_nodes_ask(&cluster, cluster_nodes_leader(&cluster), request);
}

void begin_nodes(uint64_t seed, const char *name, const char *value)
{
    cluster_nodes_init(&cluster, seed);
    cluster_nodes_set(&cluster, "log.dirs", "a,b");
    cluster_nodes_set(&cluster, "log.dir.reserve.bytes", "0");
    cluster_nodes_set(&cluster, "replica.lag.time.max.ms", "1000");
    cluster_nodes_set(&cluster, "leader.imbalance.check.interval.seconds", "3600");
    if (name != NULL)
        cluster_nodes_set(&cluster, name, value);
}

void begin_topic(const int *replicas, size_t count, const char *min_isr)
{
    static int32_t ids[CLUSTER_NODES];
    struct stele_assigned_partition assigned = {.partition = 0, .replicas = ids, .replica_count = count};
    struct stele_setting_pair settings[] = {{"min.insync.replicas", min_isr}, {"flush.messages", "1"}};
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC,
                                    .body.create_topic = {.name = "t",
                                                          .partition_count = 1,
                                                          .replication_factor = -1,
                                                          .settings = settings,
                                                          .setting_count = 2,
                                                          .timeout_ms = 10000,
                                                          .assignments = &assigned,
                                                          .assignment_count = 1}};
    int at = 0;
    cluster_nodes_start(&cluster);
    cluster_nodes_until(&cluster, all_registered, "all are registered");
    controller = cluster_nodes_leader(&cluster);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        if (id != controller)
            others[at++] = id;
    }
    for (size_t i = 0; i < count; i++)
        ids[i] = replicas[i] == 0 ? controller : others[replicas[i] - 1];
    const struct stele_create_topic_response *response = &ask(&request)->body.create_topic;
    assert_ok(response->err);
    topic_id = response->topic_id;
    cluster_nodes_until(&cluster, is_whole, "the partition is led, and all are in sync");
}

void begin(uint64_t seed, const int *replicas, size_t count, const char *min_isr)
{
    begin_nodes(seed, NULL, NULL);
    begin_topic(replicas, count, min_isr);
}

struct stele_buf *batch_of(int count, int value_bytes)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    static char value[65536];
    struct stele_record_in record = {
        .timestamp = stele_env_wall_ms(&cluster.env.env), .value = value, .value_bytes = value_bytes};
    struct stele_batch_builder *builder = stele_batch_builder_new(&cluster.process.mem, &options);
    struct stele_buf *batch = NULL;
    assert_non_null(builder);
    assert_in_range(value_bytes, 0, sizeof(value));
    memset(value, 'v', (size_t)value_bytes);
    for (int i = 0; i < count; i++)
        assert_ok(stele_batch_builder_add(builder, &record));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    return batch;
}

bool all_answered(struct cluster_nodes *nodes)
{
    for (int i = 0; i < CLUSTER_ASKS_MAX; i++) {
        if (nodes->asks[i].is_begun && !nodes->asks[i].is_done)
            return false;
    }
    return true;
}

enum stele_err put_to(const struct stele_uuid *id, int32_t node_id, int acks, int count, int value_bytes)
{
    struct stele_buf *batch = batch_of(count, value_bytes);
    struct stele_produce_partition part = {.topic_id = *id, .records_bytes = (uint32_t)batch->count};
    struct stele_request request = {
        .header.api = STELE_API_PRODUCE,
        .body.produce = {.acks = acks, .timeout_ms = 3000, .partitions = &part, .partition_count = 1}};
    struct cluster_ask *asked = cluster_nodes_send(&cluster, node_id, &request);
    asked->records = batch;
    cluster_nodes_until(&cluster, all_answered, "the batch is answered");
    assert_ok(asked->err);
    enum stele_err err = asked->response.body.produce.results[0].err;
    cluster_ask_end(asked);
    return err;
}

enum stele_err put_sized(int acks, int count, int value_bytes)
{
    return put_to(&topic_id, partition()->leader_id, acks, count, value_bytes);
}

enum stele_err alter(enum stele_subject_kind kind, const char *subject, const char *name, const char *value)
{
    const struct stele_altered_setting setting = {name, value};
    const struct stele_request request = {
        .header.api = STELE_API_ALTER_SETTINGS,
        .body.alter_settings = {.kind = kind, .subject = subject, .settings = &setting, .setting_count = 1}};
    struct cluster_ask *asked = cluster_nodes_send(&cluster, cluster_nodes_leader(&cluster), &request);
    cluster_nodes_until(&cluster, all_answered, "the settings are changed");
    assert_ok(asked->err);
    enum stele_err err = asked->response.body.alter_settings.err;
    cluster_ask_end(asked);
    return err;
}

enum stele_err put(int acks, int count)
{
    return put_sized(acks, count, 5);
}

void end(void)
{
    cluster_nodes_deinit(&cluster);
}

void kill_node(int32_t node_id, enum sim_death death)
{
    sim_server_die(&cluster.nodes[node_id - 1], death);
    cluster_nodes_run(&cluster, 1000);
}

void cut(int32_t a, int32_t b, bool is_cut)
{
    char names[2][8];
    (void)snprintf(names[0], sizeof(names[0]), "n%d", (int)a);
    (void)snprintf(names[1], sizeof(names[1]), "n%d", (int)b);
    int hosts[] = {sim_net_host(&cluster.world, names[0]), sim_net_host(&cluster.world, names[1])};
    for (int i = 0; i < 2; i++) {
        if (is_cut)
            sim_net_block(&cluster.world, hosts[i], hosts[1 - i]);
        else
            sim_net_free(&cluster.world, hosts[i], hosts[1 - i]);
    }
}

int64_t metric(int32_t node_id, const char *name)
{
    const struct stele_request request = {.header.api = STELE_API_NODE_STATUS, .body.node_status.with_metrics = true};
    struct cluster_ask *asked = cluster_nodes_send(&cluster, node_id, &request);
    int64_t value = -1;
    cluster_nodes_until(&cluster, all_answered, "the node tells");
    assert_ok(asked->err);
    const struct stele_node_status_response *told = &asked->response.body.node_status;
    assert_ok(told->err);
    for (size_t i = 0; i < told->metric_count; i++) {
        if (strcmp(told->metrics[i].name, name) == 0)
            value = told->metrics[i].value;
    }
    cluster_ask_end(asked);
    return value;
}
