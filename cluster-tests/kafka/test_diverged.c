/* What three replicas of real Kafka went through, replayed by our nodes. Kafka's node 1 led and died with 30 records
 * that nobody else had (n1-before); node 2 led from then on (n2); node 1 came back, cut its log and fetched what it
 * lacked (n1-after). Here our nodes start from what Kafka's had on their disks, and what ours does must end where
 * Kafka's did.
 */
#include "cluster-tests/kafka/sample_files.h"
#include "cluster-tests/sim/replica_world.h"
#include "storage/checkpoint.h"
#include "storage/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 4, SECOND_US = 1000000, FORK = 60, END = 110, LEADER_EPOCH = 1, NAMES_BYTES = 1024 };

#define PARTITION_DIR "a/t-0"
#define LOG_FILE "00000000000000000000.log"

static const char *samples; /* where they were unpacked */
static struct replica_world world;
static int64_t cuts[REPLICA_NODES], cut_at;

static void on_traced(struct sim_server *server, const struct stele_trace_event *event)
{
    int node = (int)(STELE_CONTAINER_OF(server, struct replica_node, server) - world.nodes);
    if (event->kind != STELE_TRACE_LOG_TRUNCATED)
        return;
    cuts[node]++;
    cut_at = event->a;
}

static uint8_t *kafka_file(const char *set, const char *name, size_t *out_count)
{
    char path[STELE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.2000s/diverged/%s/%s", samples, set, name);
    uint8_t *bytes = sample_read(path, out_count);
    assert_non_null(bytes);
    return bytes;
}

static uint8_t *our_file(int node, const char *name, size_t *out_count)
{
    char path[STELE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), PARTITION_DIR "/%s", name);
    return sample_get(world.nodes[node].server.disk, path, out_count);
}

static void check_same(int node, const char *set, const char *name)
{
    size_t count = 0, want_count = 0;
    uint8_t *want = kafka_file(set, name, &want_count), *bytes = our_file(node, name, &count);
    assert_non_null(bytes);
    assert_int_equal(count, want_count);
    assert_memory_equal(bytes, want, want_count);
    free(want);
    free(bytes);
}

/* The topic as the samples have it, with their id. */
static void take_topic_id(void)
{
    static const char key[] = "topic_id: ";
    size_t count = 0;
    char *text = (char *)kafka_file("n1-before", "partition.metadata", &count), *id = strstr(text, key);
    assert_non_null(id);
    id += strlen(key);
    assert_ok(stele_uuid_parse(id, strcspn(id, "\n"), &world.topic_id));
    free(text);
}

static enum stele_err remove_file(void *arg, const char *name)
{
    char path[STELE_PATH_BYTES];
    (void)snprintf(path, sizeof(path), PARTITION_DIR "/%.255s", name);
    sample_remove(arg, path);
    return STELE_OK;
}

/* The machine's disk holds of the partition what Kafka's node had, and nothing else. */
static void give(int node, const char *set)
{
    char from[STELE_PATH_BYTES];
    struct sim_disk *disk = world.nodes[node].server.disk;
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    assert_ok(vfs->ops->list(vfs, PARTITION_DIR, remove_file, disk));
    assert_ok(vfs->ops->rmdir(vfs, PARTITION_DIR));
    (void)snprintf(from, sizeof(from), "%.2000s/diverged/%s", samples, set);
    sample_load(disk, from, PARTITION_DIR);
    assert_ok(vfs->ops->sync_dir(vfs, "a"));
}

static bool is_down(const struct replica_world *in)
{
    bool is_all = true;
    for (int i = 0; i < REPLICA_NODES; i++)
        is_all = is_all && in->nodes[i].server.state == SIM_SERVER_DOWN && in->nodes[i].node_epoch < 0;
    return is_all;
}

/* Three nodes that know the topic, down: the first was killed, as Kafka's was; the others stopped in order. */
static void make_nodes(uint64_t seed)
{
    replica_world_init(&world, seed, getenv("REPLICA_VERBOSE") != NULL);
    take_topic_id();
    replica_world_set(&world, "min.insync.replicas", "1");
    replica_world_set(&world, "log.retention.ms", "-1"); /* the samples grow old */
    replica_client_stop(&world);
    replica_world_begin(&world);
    replica_world_until(&world, replica_world_is_whole, "a topic without a record");
    replica_node_die(&world.nodes[0], SIM_DEATH_KILL);
    sim_server_stop(&world.nodes[1].server);
    sim_server_stop(&world.nodes[2].server);
    replica_world_until(&world, is_down, "all are down, and known to be");
}

/* As it was when Kafka's node 1 came back. */
static void be_kafka(void)
{
    give(0, "n1-before");
    give(1, "n2");
    give(2, "n3");
    world.states[0].leader_id = 2;
    world.states[0].leader_epoch = LEADER_EPOCH;
    world.states[0].isr = (struct stele_node_set){.ids = {2, 3}, .count = 2};
    world.states[0].partition_epoch++;
}

static int64_t number_at(int64_t offset)
{
    return offset < FORK ? offset + 1 : offset < FORK + 40 ? 1001 + offset - FORK : 2001 + offset - FORK - 40;
}

/* The records that were written, in their order, each at its offset and of its epoch: numbers 1 to 60 by the first
 * leader, 1001 to 1040 by the second while the first was away, 2001 to 2010 after it was back. None of 61 to 90. */
static void check_records(int node)
{
    struct stele_mem *mem = &world.client.process.mem;
    size_t count = 0;
    uint8_t *bytes = our_file(node, LOG_FILE, &count);
    int64_t offset = 0;
    for (size_t at = 0; at < count;) {
        struct stele_record_walker walker;
        struct stele_record record;
        struct stele_batch_header header;
        assert_true(count - at >= STELE_BATCH_HEADER_BYTES);
        size_t batch = (size_t)stele_batch_size(bytes + at);
        assert_true(batch <= count - at);
        assert_ok(stele_batch_check(bytes + at, batch, &header));
        assert_int_equal(header.base_offset, offset);
        assert_int_equal(header.partition_leader_epoch, offset < FORK ? 0 : LEADER_EPOCH);
        assert_ok(stele_record_walker_init(&walker, mem, bytes + at, batch, batch));
        for (; stele_record_next(&walker, &record) == STELE_OK; offset++) {
            char want[64];
            (void)snprintf(want, sizeof(want), "seed 1 record %lld", (long long)number_at(offset));
            assert_int_equal(record.offset, offset);
            assert_int_equal(record.value_bytes, strlen(want));
            assert_memory_equal(record.value, want, strlen(want));
        }
        stele_record_walker_deinit(&walker);
        at += batch;
    }
    assert_int_equal(offset, END);
    free(bytes);
}

static bool has_caught_up(const struct replica_world *in)
{
    struct stele_partition *partition = replica_node_partition(&in->nodes[0], 0);
    return replica_world_is_whole(in) && stele_log_high_watermark(partition->log) == END;
}

static enum stele_err add_name(void *arg, const char *name)
{
    char *names = arg;
    size_t used = strlen(names);
    (void)snprintf(names + used, NAMES_BYTES - used, "%s\n", name);
    return STELE_OK;
}

/* Every file that Kafka's node 1 left, byte for byte, and two differences: Kafka also keeps a snapshot of the producers
 * where it cut (00000000000000000060.snapshot, a cache from which it could replay less; ours is written when a log
 * is closed and when a segment begins), and ours notes the cut in its history. */
static void check_directory(int node)
{
    static const char *const same[] = {"00000000000000000000.index",     LOG_FILE,
                                       "00000000000000000000.timeindex", "00000000000000000110.snapshot",
                                       STELE_LEADER_EPOCH_FILE,          STELE_PARTITION_METADATA_FILE};
    struct stele_vfs *vfs = sim_disk_vfs(world.nodes[node].server.disk);
    char names[NAMES_BYTES] = "", want[NAMES_BYTES] = "";
    assert_ok(vfs->ops->list(vfs, PARTITION_DIR, add_name, names));
    for (size_t i = 0; i < STELE_ARRAY_LEN(same); i++) {
        (void)add_name(want, same[i]);
        check_same(node, "n1-after", same[i]);
    }
    (void)add_name(want, STELE_HISTORY_FILE);
    assert_string_equal(names, want);
}

/* The old leader asks with the epoch and end of its log, is told where they part, cuts there, once and no further, and
 * fetches the rest; nobody else cuts anything. Its files are then those of Kafka's node 1. */
static void test_old_leader_comes_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        make_nodes(seed);
        be_kafka();
        memset(cuts, 0, sizeof(cuts));
        for (int i = 0; i < REPLICA_NODES; i++) {
            world.nodes[i].server.traced = on_traced;
            replica_node_start(&world.nodes[i]);
        }
        replica_world_until(&world, has_caught_up, "the old leader is in sync");
        assert_int_equal(cuts[0], 1);
        assert_int_equal(cut_at, FORK);
        assert_int_equal(cuts[1] + cuts[2], 0);
        assert_int_equal(world.states[0].leader_id, 2);
        assert_int_equal(world.states[0].leader_epoch, LEADER_EPOCH);
        for (int i = 0; i < REPLICA_NODES; i++) {
            check_records(i);
            check_same(i, "n1-after", LOG_FILE);
        }
        sim_server_stop(&world.nodes[0].server);
        replica_world_run(&world, 3 * SECOND_US);
        assert_int_equal(world.nodes[0].server.state, SIM_SERVER_DOWN);
        check_directory(0);
        replica_world_deinit(&world);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_old_leader_comes_back)};
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIR (made by unpack.sh)\n", argv[0]);
        return 2;
    }
    samples = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
