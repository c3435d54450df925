/* Topics of a cluster of three nodes: made, grown, removed and moved through any node, each node ends with the
 * partitions that the metadata name it for and with no other directory, also when it was down meanwhile, or short of
 * memory. */
#include "base/test/support.h"
#include "cluster-tests/sim/cluster_nodes.h"
#include "node/partition.h"
#include "storage/checkpoint.h"

#include <stdio.h>
#include <string.h>

enum { SECOND_US = 1000000, DELAY_MS = 700 };

static struct cluster_nodes nodes;

static void begin(uint64_t seed)
{
    cluster_nodes_init(&nodes, seed);
    cluster_nodes_set(&nodes, "log.dirs", "a");
    cluster_nodes_set(&nodes, "log.dir.reserve.bytes", "0");
    cluster_nodes_set(&nodes, "log.segment.delete.delay.ms", "700");
}

static bool is_member(struct cluster_nodes *all, int32_t node_id)
{
    int32_t leader = cluster_nodes_leader(all);
    const struct stele_image_member *member =
        leader == 0 ? NULL : stele_image_member_of(&cluster_nodes_control(all, leader)->mlog.image, node_id);
    return member != NULL && !member->is_fenced && cluster_nodes_control(all, node_id) != NULL;
}

static bool all_serve(struct cluster_nodes *all)
{
    return is_member(all, 1) && is_member(all, 2) && is_member(all, 3);
}

static void start(void)
{
    cluster_nodes_start(&nodes);
    cluster_nodes_until(&nodes, all_serve, "all are in service");
}

/* What each node has is what its image says. */

static int wanted_count(const struct stele_controller *control)
{
    int count = 0;
    for (const struct stele_image_topic *topic = control->mlog.image.by_name; topic != NULL;
         topic = topic->by_name.next) {
        for (int32_t i = 0; i < topic->partition_count; i++)
            count += stele_node_set_has(&topic->partitions[i].state.replicas, control->node->node_id);
    }
    return count;
}

static bool has_all(const struct stele_controller *control)
{
    for (const struct stele_image_topic *topic = control->mlog.image.by_name; topic != NULL;
         topic = topic->by_name.next) {
        for (int32_t i = 0; i < topic->partition_count; i++) {
            struct stele_partition_key key = {.topic_id = topic->topic_id, .number = i};
            const struct stele_partition_state *state = &topic->partitions[i].state;
            const struct stele_local *local = stele_reconcile_find(&control->reconcile, &key);
            if (!stele_node_set_has(&state->replicas, control->node->node_id))
                continue;
            if (local == NULL || local->state != STELE_LOCAL_OPEN || local->partition->state != STELE_PARTITION_OPEN ||
                local->partition->replica.leader_epoch != state->leader_epoch ||
                local->partition->replica.partition_epoch != state->partition_epoch)
                return false;
        }
    }
    return (int)HASH_CNT(hh, control->reconcile.locals) == wanted_count(control);
}

static bool are_settled(struct cluster_nodes *all)
{
    int32_t leader = cluster_nodes_leader(all);
    for (int32_t id = 1; leader != 0 && id <= CLUSTER_NODES; id++) {
        const struct stele_controller *control = cluster_nodes_control(all, id);
        if (control == NULL ||
            control->mlog.applied_offset != cluster_nodes_control(all, leader)->mlog.applied_offset ||
            control->reconcile.is_posted || control->reconcile.is_placing || !has_all(control))
            return false;
    }
    return leader != 0 && all_serve(all);
}

struct listing {
    const struct stele_controller *control;
    struct stele_vfs *vfs;
    int live, condemned;
};

static enum stele_err see_dir(void *arg, const char *name)
{
    struct listing *listing = arg;
    char topic[STELE_TOPIC_NAME_MAX + 1], path[STELE_PATH_BYTES];
    int32_t number;
    enum stele_dir_kind kind;
    struct stele_uuid topic_id;
    if (stele_partition_dir_parse(name, topic, &number, &kind) != STELE_OK ||
        strcmp(topic, STELE_METADATA_TOPIC_NAME) == 0)
        return STELE_OK;
    listing->live += kind == STELE_DIR_LIVE;
    listing->condemned += kind != STELE_DIR_LIVE;
    if (kind != STELE_DIR_LIVE)
        return STELE_OK;
    assert_ok(stele_path_join(path, "a", name));
    assert_ok(stele_partition_metadata_read(listing->vfs, listing->control->node->mem, path, &topic_id));
    const struct stele_image_topic *known = stele_image_topic_of(&listing->control->mlog.image, &topic_id);
    if (known == NULL || strcmp(known->name, topic) != 0 || number >= known->partition_count)
        fail_msg("node %d has %s, which is of no topic", (int)listing->control->node->node_id, name);
    return STELE_OK;
}

static int list(int32_t node_id, int *out_condemned)
{
    struct listing listing = {.control = cluster_nodes_control(&nodes, node_id),
                              .vfs = sim_disk_vfs(nodes.nodes[node_id - 1].disk)};
    assert_ok(listing.vfs->ops->list(listing.vfs, "a", see_dir, &listing));
    *out_condemned = listing.condemned;
    return listing.live;
}

/* All of it, and after the delay nothing else is left. */
static void settle(void)
{
    int condemned = 0;
    cluster_nodes_until(&nodes, are_settled, "every node has what the metadata say");
    for (int32_t id = 1; id <= CLUSTER_NODES; id++)
        assert_int_equal(list(id, &condemned), wanted_count(cluster_nodes_control(&nodes, id)));
    cluster_nodes_run(&nodes, 2 * DELAY_MS * 1000);
    cluster_nodes_until(&nodes, are_settled, "every node has still what the metadata say");
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        assert_int_equal(list(id, &condemned), wanted_count(cluster_nodes_control(&nodes, id)));
        assert_int_equal(condemned, 0);
    }
}

/* What is asked. */

static const struct stele_response *ask(int32_t asked, const struct stele_request *request)
{
    struct cluster_ask *one = cluster_nodes_send(&nodes, asked, request);
    int64_t until_us = nodes.world.now_us + 60 * SECOND_US;
    static struct stele_response response; /* its texts are gone */
    while (!one->is_done && nodes.world.now_us < until_us)
        cluster_nodes_run(&nodes, 1000);
    bool is_answered = one->is_done && one->err == STELE_OK;
    response = one->response;
    if (!is_answered)
        response = (struct stele_response){.header.api = request->header.api};
    cluster_ask_end(one);
    return is_answered ? &response : NULL;
}

static enum stele_err create(int32_t asked, const struct stele_create_topic_request *in)
{
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC, .body.create_topic = *in};
    if (in->timeout_ms == 0)
        request.body.create_topic.timeout_ms = 20000;
    const struct stele_response *response = ask(asked, &request);
    return response == NULL ? STELE_IO : response->body.create_topic.err;
}

static enum stele_err create_plain(int32_t asked, const char *name, int32_t partitions)
{
    return create(asked, &(struct stele_create_topic_request){
                             .name = name, .partition_count = partitions, .replication_factor = -1});
}

static enum stele_err grow(int32_t asked, const char *name, int32_t partitions)
{
    struct stele_request request = {
        .header.api = STELE_API_CREATE_PARTITIONS,
        .body.create_partitions = {.name = name, .partition_count = partitions, .timeout_ms = 20000}};
    const struct stele_response *response = ask(asked, &request);
    return response == NULL ? STELE_IO : response->body.create_partitions.err;
}

static enum stele_err remove_within(int32_t asked, const char *name, int32_t timeout_ms)
{
    struct stele_request request = {.header.api = STELE_API_DELETE_TOPIC,
                                    .body.delete_topic = {.name = name, .timeout_ms = timeout_ms}};
    const struct stele_response *response = ask(asked, &request);
    return response == NULL ? STELE_IO : response->body.delete_topic.err;
}

static enum stele_err remove_topic(int32_t asked, const char *name)
{
    return remove_within(asked, name, 20000);
}

static enum stele_err move(int32_t asked, const char *name, const int32_t *replicas, size_t count)
{
    struct stele_reassigned_partition one = {.topic = name, .replicas = replicas, .replica_count = count};
    struct stele_request request = {.header.api = STELE_API_REASSIGN,
                                    .body.reassign = {.partitions = &one, .partition_count = 1, .timeout_ms = 20000}};
    return ask(asked, &request) == NULL ? STELE_IO : STELE_OK;
}

static const struct stele_image_topic *topic_of(const char *name)
{
    return stele_image_topic_named(&cluster_nodes_control(&nodes, cluster_nodes_leader(&nodes))->mlog.image, name);
}

/* Three replicas each, every node leads as many; two must be in sync. One that grows goes on so. Whoever is asked tells
 * the same of nodes, controller and partitions. */
static void test_placed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int led[CLUSTER_NODES + 1] = {0};
        begin(seed);
        start();
        assert_int_equal(create_plain(1 + (int32_t)(seed % 3), "t", 3), STELE_OK);
        assert_int_equal(grow(1 + (int32_t)(seed / 2 % 3), "t", 6), STELE_OK);
        settle();
        const struct stele_image_topic *topic = topic_of("t");
        assert_int_equal(topic->partition_count, 6);
        for (int32_t i = 0; i < 6; i++) {
            assert_int_equal(topic->partitions[i].state.replicas.count, 3);
            assert_int_equal(topic->partitions[i].state.isr.count, 3);
            assert_int_equal(topic->partitions[i].state.leader_id, topic->partitions[i].state.replicas.ids[0]);
            led[topic->partitions[i].state.leader_id]++;
        }
        for (int i = 1; i <= CLUSTER_NODES; i++)
            assert_int_equal(led[i], 2);
        assert_string_equal(stele_image_setting(&topic->settings, "min.insync.replicas")->value, "2");
        for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
            struct stele_request request = {.header.api = STELE_API_METADATA, .body.metadata.all_topics = true};
            const struct stele_metadata_response *metadata = &cluster_nodes_ask(&nodes, id, &request)->body.metadata;
            assert_int_equal(metadata->controller_id, cluster_nodes_leader(&nodes));
            assert_int_equal(metadata->node_count, CLUSTER_NODES);
            for (size_t i = 0; i < metadata->node_count; i++) {
                assert_int_equal(metadata->nodes[i].node_id, i + 1);
                assert_int_equal(metadata->nodes[i].host[1], '1' + (char)i);
                assert_int_equal(metadata->nodes[i].port, 7835);
            }
            assert_int_equal(metadata->topics[0].partitions[5].isr_count, 3);
        }
        cluster_nodes_deinit(&nodes);
    }
}

/* What cannot be placed is refused by name and changes nothing; a list of replicas is taken as it is written. */
static void test_refused(void **state)
{
    (void)state;
    static const int32_t one_three[] = {1, 3}, unknown[] = {1, 4}, twice[] = {2, 2}, all[] = {1, 2, 3};
    static const struct stele_assigned_partition good[] = {{1, one_three, 2}, {0, one_three, 2}},
                                                 bad[][2] = {{{0, one_three, 2}, {1, unknown, 2}},
                                                             {{0, one_three, 2}, {1, twice, 2}},
                                                             {{0, one_three, 2}, {1, all, 3}},
                                                             {{0, one_three, 2}, {1, all, 0}},
                                                             {{0, one_three, 2}, {0, one_three, 2}},
                                                             {{0, one_three, 2}, {2, one_three, 2}}};
    begin(7);
    start();
    struct stele_create_topic_request in = {.name = "t", .partition_count = 2, .replication_factor = 4};
    struct stele_request request = {.header.api = STELE_API_CREATE_TOPIC, .body.create_topic = in};
    const struct stele_create_topic_response *said = &cluster_nodes_ask(&nodes, 2, &request)->body.create_topic;
    assert_int_equal(said->err, STELE_INVALID_REPLICATION_FACTOR);
    assert_non_null(strstr(said->message, "3 nodes"));
    in.replication_factor = 0;
    assert_int_equal(create(1, &in), STELE_INVALID_REPLICATION_FACTOR);
    in.replication_factor = -1;
    in.assignment_count = 2;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad); i++) {
        in.assignments = bad[i];
        assert_int_equal(create(1 + (int32_t)(i % 3), &in), STELE_INVALID_REPLICA_ASSIGNMENT);
    }
    in.assignments = good;
    in.partition_count = 3;
    assert_int_equal(create(1, &in), STELE_INVALID_REPLICA_ASSIGNMENT);
    in.validate_only = true;
    in.partition_count = -1;
    assert_int_equal(create(1, &in), STELE_OK);
    assert_int_equal(stele_image_topic_count(&cluster_nodes_control(&nodes, 1)->mlog.image), 0);
    in.validate_only = false;
    assert_int_equal(create(2, &in), STELE_OK);
    settle();
    const struct stele_image_topic *topic = topic_of("t");
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(topic->partitions[i].state.replicas.count, 2);
        assert_int_equal(topic->partitions[i].state.replicas.ids[1], 3);
    }
    assert_null(stele_image_setting(&topic->settings, "min.insync.replicas"));
    assert_int_equal(grow(1, "t", 3), STELE_OK);
    assert_int_equal(topic_of("t")->partitions[2].state.replicas.count, 2);
    settle();
    cluster_nodes_deinit(&nodes);
}

/* A directory whose names a loss of power took; the file in it says later whether it is the same. */
static void take_name(int32_t node_id, const char *dir)
{
    struct stele_vfs *vfs = sim_disk_vfs(nodes.nodes[node_id - 1].disk);
    char path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    assert_ok(stele_path_join(path, dir, "partition.metadata"));
    assert_ok(vfs->ops->unlink(vfs, path));
    assert_ok(stele_path_join(path, dir, "marker"));
    assert_ok(vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file));
    vfs->ops->close(file);
}

static bool is_same(int32_t node_id, const char *dir)
{
    struct stele_vfs *vfs = sim_disk_vfs(nodes.nodes[node_id - 1].disk);
    char path[STELE_PATH_BYTES];
    struct stele_stat stat;
    assert_ok(stele_path_join(path, dir, "marker"));
    return vfs->ops->stat(vfs, path, &stat) == STELE_OK;
}

/* What has no id may be of an earlier topic of that name: a replica begins anew. */
static void test_nameless(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int32_t down = 1 + (int32_t)(seed % 3), asked = down % 3 + 1;
        begin(seed);
        start();
        assert_int_equal(create_plain(asked, "t", 2), STELE_OK);
        settle();
        sim_server_die(&nodes.nodes[down - 1], SIM_DEATH_KILL);
        cluster_nodes_run(&nodes, 12 * SECOND_US);
        take_name(down, "a/t-0");
        assert_true(is_same(down, "a/t-0"));
        if (seed % 2 == 0) {
            assert_int_equal(remove_topic(asked, "t"), STELE_OK);
            assert_int_equal(create_plain(asked, "t", 2), STELE_OK);
        }
        start();
        settle();
        assert_false(is_same(down, "a/t-0"));
        cluster_nodes_deinit(&nodes);
    }
}

/* A node that is down while a topic is removed, and made anew under the same name, has the new one when it is back, and
 * nothing of the old one; whether it hears of it by records or by a snapshot. */
static void test_removed_meanwhile(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        int32_t down = 1 + (int32_t)(seed % 3), asked = down % 3 + 1;
        begin(seed);
        if (seed % 2 == 0)
            cluster_nodes_set(&nodes, "metadata.log.max.record.bytes.between.snapshots", "1");
        start();
        assert_int_equal(create_plain(asked, "t", 3), STELE_OK);
        assert_int_equal(create_plain(asked, "u", 2), STELE_OK);
        settle();
        sim_server_die(&nodes.nodes[down - 1], seed % 3 == 0 ? SIM_DEATH_POWER_ADVERSARIAL : SIM_DEATH_KILL);
        cluster_nodes_run(&nodes, 12 * SECOND_US);
        assert_int_equal(remove_topic(asked, "t"), STELE_OK);
        assert_int_equal(create_plain(asked, "t", 2), STELE_OK);
        assert_int_equal(remove_topic(asked, "u"), STELE_OK);
        start();
        settle();
        cluster_nodes_deinit(&nodes);
    }
}

/* A partition moves away, back and away again before the files of the first time are deleted. */
static void test_moved(void **state)
{
    (void)state;
    static const int32_t here[] = {1, 2}, there[] = {2, 3};
    static const struct stele_assigned_partition first = {0, here, 2};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        int32_t down = seed % 3 == 0 ? 1 : 0;
        begin(seed);
        start();
        assert_int_equal(create(3, &(struct stele_create_topic_request){.name = "t",
                                                                        .partition_count = -1,
                                                                        .replication_factor = -1,
                                                                        .assignments = &first,
                                                                        .assignment_count = 1}),
                         STELE_OK);
        cluster_nodes_until(&nodes, are_settled, "it is made");
        for (int i = 0; i < 5; i++) {
            const int32_t *target = i % 2 == 0 ? there : here;
            if (i == 4 && down != 0)
                sim_server_die(&nodes.nodes[0], SIM_DEATH_KILL);
            assert_int_equal(move(2, "t", target, 2), STELE_OK);
            cluster_nodes_run(&nodes, 200000);
        }
        if (down != 0)
            cluster_nodes_run(&nodes, 12 * SECOND_US);
        start();
        settle();
        assert_int_equal(topic_of("t")->partitions[0].state.replicas.count, 2);
        assert_int_equal(wanted_count(cluster_nodes_control(&nodes, 1)), 0);
        cluster_nodes_deinit(&nodes);
    }
}

/* The controller's disk does nothing for a while: the others commit, and who asked hears at his time-out that it is
 * done. */
static void test_slow_disk(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        begin(seed);
        start();
        assert_int_equal(create_plain(1, "t", 3), STELE_OK);
        cluster_nodes_until(&nodes, are_settled, "it is made");
        struct sim_server *leader = &nodes.nodes[cluster_nodes_leader(&nodes) - 1];
        for (int i = 0; i < 2; i++) {
            int64_t from_us = nodes.world.now_us;
            leader->process.paused_us = from_us + 4 * SECOND_US;
            if (i == 0)
                assert_int_equal(create(2, &(struct stele_create_topic_request){.name = "u",
                                                                                .partition_count = 3,
                                                                                .replication_factor = -1,
                                                                                .timeout_ms = 2000}),
                                 STELE_OK);
            else
                assert_int_equal(remove_within(2, "t", 2000), STELE_OK);
            assert_in_range((nodes.world.now_us - from_us) / 1000, 1900, 2600);
            cluster_nodes_run(&nodes, 3 * SECOND_US);
        }
        settle();
        cluster_nodes_deinit(&nodes);
    }
}

/* Anything in any order, through any node, while nodes die and memory is short: in the end each has what it should. */
static void test_anything(void **state)
{
    (void)state;
    static const char *const names[] = {"t", "u", "v"};
    int made = 0, removed = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct stele_prng prng;
        int32_t down = 0;
        stele_prng_init(&prng, seed, 0);
        begin(seed);
        if (seed % 3 == 0)
            cluster_nodes_set(&nodes, "metadata.log.max.record.bytes.between.snapshots", "500");
        start();
        for (int i = 0; i < 40; i++) {
            const char *name = names[stele_prng_below(&prng, STELE_ARRAY_LEN(names))];
            int32_t asked = 1 + (int32_t)stele_prng_below(&prng, 3),
                    to[3] = {asked, asked % 3 + 1, (asked + 1) % 3 + 1};
            if (asked == down)
                asked = asked % 3 + 1;
            for (int k = 0; k < CLUSTER_NODES; k++)
                nodes.nodes[k].process.no_memory = seed % 2 == 0 ? (uint32_t)stele_prng_below(&prng, 4000) : 0;
            switch (stele_prng_below(&prng, 8)) {
            case 0:
            case 1:
            case 2:
                made += create_plain(asked, name, 1 + (int32_t)stele_prng_below(&prng, 5)) == STELE_OK;
                break;
            case 3:
            case 4:
                removed += remove_topic(asked, name) == STELE_OK;
                break;
            case 5:
                (void)grow(asked, name, 6);
                break;
            case 6:
                (void)move(asked, name, to, 1 + (size_t)stele_prng_below(&prng, 3));
                break;
            case 7:
                if (down != 0) {
                    sim_server_start(&nodes.nodes[down - 1]);
                    down = 0;
                } else if (cluster_nodes_control(&nodes, to[0]) != NULL) {
                    down = to[0];
                    sim_server_die(&nodes.nodes[down - 1], SIM_DEATH_KILL);
                }
                break;
            }
            cluster_nodes_run(&nodes, (int64_t)stele_prng_below(&prng, 400000));
        }
        for (int k = 0; k < CLUSTER_NODES; k++)
            nodes.nodes[k].process.no_memory = 0;
        cluster_nodes_run(&nodes, SECOND_US);
        start();
        settle();
        cluster_nodes_deinit(&nodes);
    }
    assert_true(made > 30 && removed > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placed),   cmocka_unit_test(test_refused), cmocka_unit_test(test_removed_meanwhile),
        cmocka_unit_test(test_nameless), cmocka_unit_test(test_moved),   cmocka_unit_test(test_slow_disk),
        cmocka_unit_test(test_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
