#include "node/test/node_script.h"

#include <stdio.h>
#include <string.h>

enum { IDLE_ROUNDS_MAX = 200, IDLE_MS = 10 };

static const char topic_name[] = "t";

void node_script_init(struct node_script *script, struct node_world *world)
{
    *script = (struct node_script){.world = world};
    if (node_world_begin(world) != STELE_OK)
        script->stage = NODE_SCRIPT_ENDED;
}

static void open_conns(struct node_script *script)
{
    static const char *const cluster_id = "";
    struct node_world *world = script->world;
    struct stele_request hello = {
        .header.api = STELE_API_HELLO,
        .body.hello = {.software_name = "test", .software_version = "1", .cluster_id = cluster_id}};
    struct stele_request metadata = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
    for (int i = 0; i < NODE_SCRIPT_CONNS; i++) {
        script->conns[i] = node_world_connect(world, i == 0 ? 1 : world->shard_count - 1);
        if (script->conns[i] != NULL)
            (void)node_conn_send(script->conns[i], &hello, NULL, 0);
    }
    if (script->conns[0] != NULL)
        (void)node_conn_send(script->conns[0], &metadata, NULL, 0);
    script->stage = NODE_SCRIPT_LOOKS;
}

static void send_work(struct node_script *script)
{
    static const struct node_shape small = {.count = 1, .acks = -1},
                                   middle = {.count = 4, .value_bytes = 500, .acks = 1};
    static const struct node_shape large = {.count = 20, .value_bytes = 1500, .codec = STELE_CODEC_LZ4, .acks = 1};
    static const struct node_shape *const shapes[] = {&small, &large, &middle, &small, &large, &small};
    struct node_world *world = script->world;
    struct stele_fetch_partition parts[NODE_SCRIPT_PARTITIONS];
    for (int32_t i = 0; i < NODE_SCRIPT_PARTITIONS; i++)
        parts[i] = node_fetch_at(&script->topic_id, i, 0);
    for (int c = 0; c < NODE_SCRIPT_CONNS; c++) {
        struct node_conn *conn = script->conns[c];
        if (conn == NULL)
            continue;
        for (size_t i = 0; i < STELE_ARRAY_LEN(shapes); i++) {
            (void)node_conn_put(conn, &script->topic_id, (int32_t)(i + (size_t)c) % NODE_SCRIPT_PARTITIONS, shapes[i]);
            if (i % 2 == 0)
                node_conn_send_fetch(conn, &(struct stele_fetch_request){.max_wait_ms = 25,
                                                                         .min_bytes = 1,
                                                                         .max_bytes = 1 << 20,
                                                                         .partitions = parts,
                                                                         .partition_count = NODE_SCRIPT_PARTITIONS});
            else
                node_conn_send_list(conn, &script->topic_id, (int32_t)i % NODE_SCRIPT_PARTITIONS,
                                    i == 1 ? STELE_TIME_LATEST : world->wall_ms - (int64_t)i);
        }
        node_conn_send_fetch(conn, &(struct stele_fetch_request){.max_wait_ms = 15,
                                                                 .min_bytes = 1 << 20,
                                                                 .max_bytes = 1 << 20,
                                                                 .partitions = parts,
                                                                 .partition_count = NODE_SCRIPT_PARTITIONS});
    }
    script->stage = NODE_SCRIPT_WORKS;
}

/* Nothing is left to be done on a connection: answered, or closed. */
static bool is_over(const struct node_conn *conn)
{
    return conn == NULL || conn->is_closed || conn->taken_id == conn->sent_id;
}

static void look(struct node_script *script, const struct node_answer *answer)
{
    const struct stele_metadata_response *response = &answer->response.body.metadata;
    for (size_t i = 0; i < response->topic_count; i++) {
        if (strcmp(response->topics[i].name, topic_name) == 0) {
            script->topic_id = response->topics[i].topic_id;
            script->has_topic = true;
        }
    }
    if (script->has_topic) {
        send_work(script);
        return;
    }
    node_conn_send_create(script->conns[0], topic_name, NODE_SCRIPT_PARTITIONS, NULL, 0);
    script->stage = NODE_SCRIPT_CREATES;
}

static void take(struct node_script *script, struct node_conn *conn)
{
    struct node_answer answer;
    while (node_conn_poll(conn, &answer)) {
        switch ((int)answer.response.header.api) {
        case STELE_API_METADATA:
            if (script->stage == NODE_SCRIPT_LOOKS)
                look(script, &answer);
            break;
        case STELE_API_CREATE_TOPIC:
            if (answer.response.body.create_topic.err == STELE_OK) {
                script->topic_id = answer.response.body.create_topic.topic_id;
                script->has_topic = true;
            }
            if (script->stage == NODE_SCRIPT_CREATES && script->has_topic)
                send_work(script);
            break;
        case STELE_API_PRODUCE:
            (void)node_world_enter(script->world, conn, &answer);
            break;
        case STELE_API_HELLO:
        case STELE_API_FETCH:
        case STELE_API_LIST_OFFSETS:
            break;
        case STELE_API_DELETE_TOPIC:
        case STELE_API_DELETE_RECORDS:
        case STELE_API_INIT_PRODUCER_ID:
        case STELE_API_DESCRIBE_SETTINGS:
        case STELE_API_CREATE_PARTITIONS:
        case STELE_API_ALTER_SETTINGS:
        case STELE_API_DESCRIBE_TOPIC:
        case STELE_API_DESCRIBE_LOG:
        case STELE_API_NODE_STATUS:
            fail_msg("the script asked for none of these: %d", (int)answer.response.header.api);
        }
    }
}

static void find_or_create(struct node_script *script, struct node_conn *conn)
{
    struct node_answer answer;
    struct stele_request metadata = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
    (void)node_conn_send(conn, &metadata, NULL, 0);
    node_conn_take(conn, &answer);
    script->has_topic = answer.response.body.metadata.topic_count > 0;
    if (script->has_topic)
        script->topic_id = answer.response.body.metadata.topics[0].topic_id;
    else
        assert_int_equal(node_conn_create_topic(conn, topic_name, NODE_SCRIPT_PARTITIONS, &script->topic_id), STELE_OK);
    script->has_topic = true;
}

/* What memory took from single requests is given to the next ones. */
static void probe(struct node_script *script)
{
    struct node_world *world = script->world;
    world->mem.fail_at = 0;
    node_world_pass(world, 2000);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_non_null(conn);
    if (!script->has_topic) /* its creation failed, perhaps after it was made durable */
        find_or_create(script, conn);
    for (int32_t i = 0; i < NODE_SCRIPT_PARTITIONS; i++) {
        const struct node_entry *entry = node_conn_produce(conn, &script->topic_id, i);
        assert_int_equal(entry->err, STELE_OK);
        (void)node_world_check_partition(conn, &script->topic_id, i, false);
    }
}

static bool all_over(const struct node_script *script)
{
    for (int i = 0; i < NODE_SCRIPT_CONNS; i++) {
        if (!is_over(script->conns[i]))
            return false;
    }
    return true;
}

void node_script_stop(struct node_script *script)
{
    struct node_world *world = script->world;
    if (script->stage >= NODE_SCRIPT_STOPS)
        return;
    script->stage = NODE_SCRIPT_STOPS;
    world->poster = STELE_SHARD_CONTROL;
    stele_node_stop(world->node);
    world->poster = NODE_WORLD_SHARDS_MAX + 1;
}

static void end_work(struct node_script *script)
{
    if (script->probes)
        probe(script);
    node_script_stop(script);
}

bool node_script_step(struct node_script *script)
{
    struct node_world *world = script->world;
    if (script->stage == NODE_SCRIPT_ENDED)
        return false;
    if (script->stage > NODE_SCRIPT_STARTS && !world->is_calm && stele_prng_chance(&world->prng, 1, 12))
        node_world_jump(world, 1);
    bool has_moved = node_world_step(world);
    for (int i = 0; i < NODE_SCRIPT_CONNS; i++) {
        if (script->conns[i] != NULL)
            take(script, script->conns[i]);
    }
    if (world->is_fatal || world->is_stopped || (world->is_ready && world->ready != STELE_OK))
        script->stage = NODE_SCRIPT_ENDED;
    else if (script->stage == NODE_SCRIPT_STARTS && world->is_ready)
        open_conns(script);
    else if (script->stage > NODE_SCRIPT_STARTS && script->stage < NODE_SCRIPT_STOPS && all_over(script))
        end_work(script);
    if (has_moved) {
        script->idle_rounds = 0;
    } else {
        if (++script->idle_rounds > IDLE_ROUNDS_MAX)
            fail_msg("nothing moves any more in stage %d", (int)script->stage);
        node_world_pass(world, IDLE_MS);
    }
    return true;
}

void node_script_check(struct node_script *script, bool only_synced)
{
    struct node_world *world = script->world;
    struct node_answer answer;
    struct stele_request metadata = {.header.api = STELE_API_METADATA, .body.metadata = {.all_topics = true}};
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    (void)node_conn_send(conn, &metadata, NULL, 0);
    node_conn_take(conn, &answer);
    bool is_there = answer.response.body.metadata.topic_count > 0;
    if (script->has_topic) {
        assert_true(is_there);
        assert_true(stele_uuid_equal(&answer.response.body.metadata.topics[0].topic_id, &script->topic_id));
    }
    struct stele_uuid topic_id;
    if (is_there)
        topic_id = answer.response.body.metadata.topics[0].topic_id;
    else
        assert_int_equal(node_conn_create_topic(conn, topic_name, NODE_SCRIPT_PARTITIONS, &topic_id), STELE_OK);
    for (int32_t i = 0; i < NODE_SCRIPT_PARTITIONS; i++) {
        (void)node_world_check_partition(conn, &topic_id, i, only_synced);
        assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
    }
    assert_ok(node_world_stop(world));
}
