/* Damage in the log of one replica of three: it is neither in sync nor a leader with it, gets the range again from
 * another, and has then the same bytes as the others. Nothing that was acknowledged is lost, whoever leads after it. */
#include "base/test/support.h"
#include "cluster-tests/test/one_partition.h"
#include "proto/record_batch.h"
#include "storage/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 60, RECORDS = 5, LOG_BYTES_MAX = 1 << 20 };

/* Where a batch lies. */
struct place {
    char path[STELE_PATH_BYTES]; /* of its segment */
    int64_t base_offset, pos, bytes, file_bytes;
};

/* Replicas lie where they lie, also while their node is down. */
static char paths[CLUSTER_NODES][STELE_PATH_BYTES];

static struct sim_disk *disk_of(int32_t node_id)
{
    return cluster.nodes[node_id - 1].disk;
}

static void note_paths(void)
{
    for (int32_t id = 1; id <= CLUSTER_NODES; id++)
        (void)snprintf(paths[id - 1], sizeof(paths[0]), "%s", replica(id)->path);
}

struct names {
    int64_t bases[64];
    int count;
};

static void take_name(void *arg, const char *name)
{
    struct names *names = arg;
    const char *suffix;
    int64_t base_offset;
    if (!stele_segment_name_parse(name, &base_offset, &suffix) || strcmp(suffix, ".log") != 0)
        return;
    int at = names->count++;
    for (; at > 0 && names->bases[at - 1] > base_offset; at--)
        names->bases[at] = names->bases[at - 1];
    names->bases[at] = base_offset;
}

static size_t read_segment(int32_t node_id, int64_t base_offset, char out_path[STELE_PATH_BYTES], uint8_t *out_bytes)
{
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(base_offset, ".log", name);
    assert_ok(stele_path_join(out_path, paths[node_id - 1], name));
    return sim_disk_peek(disk_of(node_id), out_path, out_bytes, LOG_BYTES_MAX, 0);
}

/* All segments, one after another. */
static size_t read_log(int32_t node_id, uint8_t *out_bytes)
{
    struct names names = {.count = 0};
    char path[STELE_PATH_BYTES];
    size_t count = 0;
    sim_disk_peek_names(disk_of(node_id), paths[node_id - 1], take_name, &names);
    for (int i = 0; i < names.count; i++)
        count += read_segment(node_id, names.bases[i], path, out_bytes + count);
    return count;
}

/* The batch that holds an offset. */
static struct place find(int32_t node_id, int64_t offset)
{
    static uint8_t bytes[LOG_BYTES_MAX];
    struct names names = {.count = 0};
    struct place place = {.pos = 0};
    sim_disk_peek_names(disk_of(node_id), paths[node_id - 1], take_name, &names);
    int at = names.count - 1;
    while (at > 0 && names.bases[at] > offset)
        at--;
    place.file_bytes = (int64_t)read_segment(node_id, names.bases[at], place.path, bytes);
    while (place.pos < place.file_bytes) {
        struct stele_batch_header header;
        assert_ok(stele_batch_header_read(bytes + place.pos, (size_t)(place.file_bytes - place.pos), &header));
        place.base_offset = header.base_offset;
        place.bytes = stele_batch_size(bytes + place.pos);
        if (stele_batch_last_offset(&header) >= offset)
            return place;
        place.pos += place.bytes;
    }
    fail_msg("offset %lld is not there", (long long)offset);
    return place;
}

/* The base offset of the last segment that has a batch at all, and how many batches it has. */
static int64_t last_base(int32_t node_id)
{
    struct names names = {.count = 0};
    sim_disk_peek_names(disk_of(node_id), paths[node_id - 1], take_name, &names);
    for (int at = names.count - 1; at >= 0; at--) {
        uint8_t byte;
        char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
        stele_segment_name(names.bases[at], ".log", name);
        assert_ok(stele_path_join(path, paths[node_id - 1], name));
        if (sim_disk_peek(disk_of(node_id), path, &byte, 1, 0) == 1)
            return names.bases[at];
    }
    return 0;
}

static void check_same(void)
{
    uint8_t *logs[CLUSTER_NODES];
    size_t counts[CLUSTER_NODES];
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        logs[id - 1] = malloc(LOG_BYTES_MAX);
        counts[id - 1] = read_log(id, logs[id - 1]);
    }
    for (int i = 1; i < CLUSTER_NODES; i++) {
        assert_int_equal(counts[i], counts[0]);
        assert_memory_equal(logs[i], logs[0], counts[0]);
    }
    for (int i = 0; i < CLUSTER_NODES; i++)
        free(logs[i]);
}

/* A topic with its records in several segments, all of them committed and in the checkpoints; others[0] leads. */
static void fill(uint64_t seed)
{
    const int replicas[] = {1, 2, 0};
    begin_nodes(seed, "log.segment.bytes", "6000");
    begin_topic(replicas, 3, "2");
    for (int i = 0; i < BATCHES; i++)
        assert_ok(put_sized(-1, RECORDS, 50));
    cluster_nodes_run(&cluster, 8 * SECOND_US);
    note_paths();
    check_same();
}

static bool is_repaired(struct cluster_nodes *nodes)
{
    return is_whole(nodes) && !replica(others[1])->is_damaged;
}

static void read_all_from(int32_t node_id)
{
    const struct stele_partition *partition = replica(node_id);
    assert_non_null(partition);
    int64_t offset = 0, end = stele_log_end_offset(partition->log);
    while (offset < end) {
        struct stele_fetch_partition line = {STELE_FETCH_PARTITION_OF_CONSUMER, .topic_id = topic_id,
                                             .fetch_offset = offset, .max_bytes = 100000};
        struct stele_request request = {.header.api = STELE_API_FETCH,
                                        .body.fetch = {STELE_FETCH_OF_CONSUMER, .max_bytes = 100000,
                                                       .partitions = &line, .partition_count = 1, .rack = ""}};
        struct cluster_ask *asked = cluster_nodes_send(&cluster, node_id, &request);
        cluster_nodes_until(&cluster, all_answered, "the records are read");
        assert_ok(asked->err);
        const struct stele_fetch_result *result = &asked->response.body.fetch.results[0];
        assert_ok(result->err);
        assert_true(result->records_bytes > 0);
        offset = stele_log_end_offset(partition->log) < offset ? end : offset + RECORDS;
        cluster_ask_end(asked);
    }
}

/* Ways in which a log can be damaged; `at` is a batch somewhere in it. */

static void flip_payload(int32_t node_id, int64_t offset)
{
    struct place place = find(node_id, offset);
    assert_ok(sim_disk_flip(disk_of(node_id), place.path, place.pos + STELE_BATCH_HEADER_BYTES + 7, 0x10));
}

static void flip_size(int32_t node_id, int64_t offset)
{
    struct place place = find(node_id, offset);
    assert_ok(sim_disk_flip(disk_of(node_id), place.path, place.pos + 10, 0x40));
}

static void flip_offset(int32_t node_id, int64_t offset)
{
    struct place place = find(node_id, offset);
    assert_ok(sim_disk_flip(disk_of(node_id), place.path, place.pos + 6, 0x01));
}

static void flip_three(int32_t node_id, int64_t offset)
{
    flip_payload(node_id, offset);
    flip_payload(node_id, offset + RECORDS);
    flip_size(node_id, offset + 4 * RECORDS);
}

static void cut_file(int32_t node_id, int64_t offset)
{
    struct place place = find(node_id, offset);
    struct stele_vfs *vfs = sim_disk_vfs(disk_of(node_id));
    struct stele_file *file = NULL;
    assert_ok(vfs->ops->open(vfs, place.path, STELE_OPEN_WRITE, &file));
    assert_ok(vfs->ops->truncate(file, place.pos + 30));
    assert_ok(vfs->ops->sync(file));
    vfs->ops->close(file);
}

static void spoil_rest(int32_t node_id, int64_t offset)
{
    struct place place = find(node_id, offset);
    for (int64_t pos = place.pos; pos < place.file_bytes; pos += 13)
        assert_ok(sim_disk_flip(disk_of(node_id), place.path, pos, 0xa5));
}

static const struct {
    const char *name;
    void (*damage)(int32_t node_id, int64_t offset);
    int at; /* batch of the last segment */
} damages[] = {{"payload", flip_payload, 2}, {"first batch", flip_payload, 0}, {"size", flip_size, 1},
               {"offset", flip_offset, 3},   {"three", flip_three, 1},         {"cut", cut_file, 2},
               {"cut all", cut_file, 0},     {"spoilt", spoil_rest, 1}};

/* A minority replica is damaged while it is down (S24): back again it is out of the in-sync set until it is whole, has
 * then the bytes of the others, leads, and loses nothing. */
static void test_minority(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(damages); i++) {
        for (uint64_t seed = 1; seed <= 2; seed++) {
            fill(seed + 10 * i);
            kill_node(others[1], SIM_DEATH_KILL);
            damages[i].damage(others[1], last_base(others[1]) + damages[i].at * RECORDS);
            cluster_nodes_start(&cluster);
            cluster_nodes_until(&cluster, is_repaired, damages[i].name);
            assert_true(metric(others[1], "stele_repaired_ranges_total") >= 1);
            assert_int_equal(metric(others[1], "stele_damaged_partitions"), 0);
            assert_ok(put_sized(-1, RECORDS, 50));
            cluster_nodes_run(&cluster, 2 * SECOND_US);
            check_same();
            kill_node(others[0], SIM_DEATH_KILL);
            cluster_nodes_until(&cluster, is_led, "another leads");
            assert_int_equal(partition()->leader_id, others[1]);
            read_all_from(others[1]);
            assert_ok(put_sized(-1, RECORDS, 50));
            cluster_nodes_start(&cluster);
            cluster_nodes_until(&cluster, is_whole, "all are in sync");
            cluster_nodes_run(&cluster, 2 * SECOND_US);
            check_same();
            end();
        }
    }
}

/* As a consumer that may be sent elsewhere reads; a doubt is told of what came before. */
static enum stele_err read_with(int32_t node_id, int64_t offset, int64_t doubted_offset)
{
    struct stele_fetch_partition line = {STELE_FETCH_PARTITION_OF_CONSUMER, .topic_id = topic_id,
                                         .fetch_offset = offset, .max_bytes = 1000};
    struct stele_request request = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {STELE_FETCH_OF_CONSUMER, .max_bytes = 1000, .partitions = &line,
                                                   .partition_count = 1, .rack = "here"}};
    line.doubted_offset = doubted_offset;
    struct cluster_ask *asked = cluster_nodes_send(&cluster, node_id, &request);
    cluster_nodes_until(&cluster, all_answered, "the fetch is answered");
    enum stele_err err = asked->err; /* of the connection */
    if (err == STELE_OK)
        err = asked->response.body.fetch.results[0].err;
    cluster_ask_end(asked);
    return err;
}

static enum stele_err read_at(int32_t node_id, int64_t offset)
{
    return read_with(node_id, offset, -1);
}

static bool is_led_by_another(struct cluster_nodes *nodes)
{
    return is_led(nodes) && partition()->leader_id != others[0];
}

/* A read meets damage in a leader's log that no start looked at: others lead while it is repaired, and it comes back
 * whole. */
static void test_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        fill(seed);
        flip_size(others[0], 7 * RECORDS);
        sim_disk_evict(disk_of(others[0]));
        assert_int_equal(read_at(others[0], 7 * RECORDS), STELE_CORRUPT_MESSAGE);
        cluster_nodes_until(&cluster, is_led_by_another, "another leads");
        assert_ok(put_sized(-1, RECORDS, 50));
        cluster_nodes_until(&cluster, is_whole, "the damaged one is whole again");
        assert_int_equal(metric(others[0], "stele_repaired_ranges_total"), 1);
        assert_int_equal(metric(others[0], "stele_damaged_partitions"), 0);
        cluster_nodes_run(&cluster, 2 * SECOND_US);
        check_same();
        end();
    }
}

/* Records of a batch rot in a leader's log. A reader, who alone can know, says that they do not check: the node looks,
 * and it is as if it had met the damage itself. Said of what is sound, it changes nothing. */
static void test_reader_of_leader(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        int64_t offset = 7 * RECORDS;
        fill(seed);
        flip_payload(others[0], offset);
        sim_disk_evict(disk_of(others[0]));
        assert_ok(read_with(others[0], 0, 3 * RECORDS + 1));
        cluster_nodes_run(&cluster, 2 * SECOND_US);
        assert_int_equal(metric(others[0], "stele_log_doubts_total"), 1);
        assert_int_equal(metric(others[0], "stele_damaged_partitions"), 0);
        assert_ok(read_at(others[0], offset));
        assert_ok(read_with(others[0], offset, offset + 1));
        cluster_nodes_until(&cluster, is_led_by_another, "another leads");
        assert_ok(put_sized(-1, RECORDS, 50));
        cluster_nodes_until(&cluster, is_whole, "the damaged one is whole again");
        assert_int_equal(metric(others[0], "stele_log_damaged_ranges_total"), 1);
        assert_int_equal(metric(others[0], "stele_repaired_ranges_total"), 1);
        assert_int_equal(metric(others[0], "stele_damaged_partitions"), 0);
        cluster_nodes_run(&cluster, 2 * SECOND_US);
        check_same();
        end();
    }
}

/* The same of a follower that is read from: it is repaired, and its leader leads on. */
static void test_reader_of_follower(void **state)
{
    (void)state;
    int64_t offset = 8 * RECORDS;
    fill(4);
    flip_payload(others[1], offset);
    sim_disk_evict(disk_of(others[1]));
    assert_ok(read_with(others[1], offset, offset));
    cluster_nodes_run(&cluster, SECOND_US / 10);
    assert_true(replica(others[1])->is_damaged || replica(others[1])->is_suspended);
    cluster_nodes_until(&cluster, is_repaired, "it is whole again");
    assert_int_equal(metric(others[1], "stele_repaired_ranges_total"), 1);
    assert_int_equal(partition()->leader_id, others[0]);
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    check_same();
    end();
}

/* Ways to rot that a leader does not notice when it sends the batch. */
static const struct {
    const char *name;
    void (*damage)(int32_t node_id, int64_t offset);
} rots[] = {{"payload", flip_payload}, {"offset", flip_offset}};

/* A follower that was away gets a batch that rotted in its leader's log: it takes nothing of it, the leader is told and
 * looks, another leads, and both are whole in the end. */
static void test_follower_of_rot(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rots); i++) {
        fill(5 + i);
        kill_node(others[1], SIM_DEATH_KILL);
        int64_t log_end = stele_log_end_offset(replica(others[0])->log);
        for (int k = 0; k < 6; k++)
            assert_ok(put_sized(-1, RECORDS, 50));
        cluster_nodes_run(&cluster, 8 * SECOND_US);
        rots[i].damage(others[0], log_end + 3 * RECORDS);
        sim_disk_evict(disk_of(others[0]));
        cluster_nodes_start(&cluster);
        cluster_nodes_until(&cluster, is_led_by_another, rots[i].name);
        cluster_nodes_until(&cluster, is_whole, "all are whole");
        assert_true(metric(others[0], "stele_log_doubts_total") >= 1);
        assert_int_equal(metric(others[0], "stele_repaired_ranges_total"), 1);
        assert_ok(put_sized(-1, RECORDS, 50));
        cluster_nodes_run(&cluster, 2 * SECOND_US);
        check_same();
        end();
    }
}

static void trim(int64_t offset)
{
    struct stele_delete_records_partition part = {.topic_id = topic_id, .current_leader_epoch = -1, .offset = offset};
    const struct stele_request request = {
        .header.api = STELE_API_DELETE_RECORDS,
        .body.delete_records = {.partitions = &part, .partition_count = 1, .timeout_ms = 8000}};
    assert_ok(cluster_nodes_ask(&cluster, others[0], &request)->body.delete_records.results[0].err);
}

/* A range that begins before the log's start, inside a batch or between two: what lies before the start no replica
 * gives any more, and it is not waited for. */
static void test_start_in_the_range(void **state)
{
    (void)state;
    for (int batches = 1; batches <= 3; batches++) {
        for (int inside = 0; inside < RECORDS; inside += 2) {
            fill(9);
            int64_t offset = 7 * RECORDS, start = offset + (batches - 1) * RECORDS + inside;
            trim(start);
            cluster_nodes_run(&cluster, 8 * SECOND_US);
            kill_node(others[1], SIM_DEATH_KILL);
            for (int i = 0; i < 4; i++)
                flip_payload(others[1], offset + i * RECORDS);
            cluster_nodes_start(&cluster);
            assert_int_equal(stele_log_start_offset(replica(others[1])->log), start);
            cluster_nodes_run(&cluster, 2 * SECOND_US);
            if (metric(others[1], "stele_repaired_ranges_total") == 0) /* its start did not look there */
                assert_ok(read_with(others[1], start, start));
            cluster_nodes_run(&cluster, SECOND_US);
            cluster_nodes_until(&cluster, is_repaired, "it is whole again");
            assert_int_equal(metric(others[1], "stele_repaired_ranges_total"), 1);
            kill_node(others[0], SIM_DEATH_KILL);
            cluster_nodes_until(&cluster, is_led, "another leads");
            for (int64_t at = start; at < BATCHES * RECORDS; at += RECORDS)
                assert_ok(read_at(partition()->leader_id, at));
            cluster_nodes_start(&cluster);
            end();
        }
    }
}

/* For the range that is damaged, from the moment on when its extent is known. */
static void wait_for_question(void)
{
    for (int i = 0; i < 200000; i++) {
        const struct stele_partition *of = replica(others[1]);
        if (of != NULL && of->is_damaged && !of->is_suspended && of->repair_tries > 0 &&
            stele_log_suspect_offset(of->log) < 0 && stele_list_is_empty(&of->repair_link))
            return;
        cluster_nodes_run(&cluster, 20);
    }
    fail_msg("nothing is asked for");
}

/* A log that is about to give way to its copy in another directory is left alone, and ranges of before are not written
 * into what took its place, or into what was cut. */
static void test_held(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        fill(10);
        flip_payload(others[1], 8 * RECORDS);
        sim_disk_evict(disk_of(others[1]));
        struct stele_partition *of = replica(others[1]);
        of->is_held = way == 0;
        assert_ok(read_with(others[1], 8 * RECORDS, 8 * RECORDS));
        if (way > 0)
            wait_for_question();
        of->is_held = way < 2;
        of->generation += way == 2;
        cluster_nodes_run(&cluster, way < 2 ? 4 * SECOND_US : SECOND_US / 50);
        assert_true(way > 0 || of->repair_tries == 0);
        assert_int_equal(metric(others[1], "stele_repaired_ranges_total"), 0);
        assert_true(of->is_damaged);
        if (of->is_held)
            stele_partition__released(of);
        cluster_nodes_until(&cluster, is_repaired, "it is whole again");
        cluster_nodes_run(&cluster, 2 * SECOND_US);
        check_same();
        end();
    }
}

/* What is damaged is deleted before it is repaired: then nothing keeps its replica out of the in-sync set. */
static void test_deleted(void **state)
{
    (void)state;
    fill(11);
    flip_payload(others[1], 8 * RECORDS);
    sim_disk_evict(disk_of(others[1]));
    struct stele_partition *of = replica(others[1]);
    of->is_held = true;
    assert_ok(read_with(others[1], 8 * RECORDS, 8 * RECORDS));
    cluster_nodes_until(&cluster, lacks_second_other, "the damaged one is out");
    assert_true(of->replica.follower.damaged_offset >= 0);
    of->repair_ms = INT64_MAX;
    stele_partition__released(of);
    trim(10 * RECORDS);
    cluster_nodes_until(&cluster, is_whole, "it is in again");
    assert_int_equal(of->replica.follower.damaged_offset, STELE_OFFSET_NONE);
    assert_int_equal(metric(others[1], "stele_repaired_ranges_total"), 0);
    end();
}

/* One call of a node's memory that fails: the `fail_at`-th from now on. */
static struct {
    struct stele_mem_source source;
    int64_t fail_at;
    bool has_failed;
} failing;

static void *failing_resize(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx;
    if (bytes > 0 && failing.fail_at > 0 && --failing.fail_at == 0) {
        failing.has_failed = true;
        return NULL;
    }
    return failing.source.resize(failing.source.ctx, ptr, bytes);
}

static void arm_memory(int32_t node_id, int64_t at)
{
    struct stele_mem *mem = &cluster.nodes[node_id - 1].process.mem;
    failing.source = mem->source;
    failing.has_failed = false;
    failing.fail_at = at;
    mem->source.resize = failing_resize;
}

/* Also of a node that died of it. */
static void disarm_memory(void)
{
    failing.fail_at = 0;
}

static const struct {
    const char *name;
    struct sim_disk_fault fault;
    bool is_memory;
} faults[] = {{"memory", {.err = STELE_OK}, true},
              {"no space", {.err = STELE_NO_SPACE}, false},
              {"an error of the disk", {.err = STELE_IO}, false},
              {"a disk that is gone", {.err = STELE_IO, .is_lasting = true}, false}};

/* From the doubt of a reader to the log that is whole again, one call or allocation of the node fails. It may take the
 * partition offline, or the node with it, until that starts anew: nothing is lost by it, what is not damaged stays so,
 * and in the end all is repaired. True: the fault struck. */
static bool fail_once(size_t kind, int64_t at)
{
    fill(11);
    int32_t node_id = others[1];
    flip_three(node_id, 8 * RECORDS);
    sim_disk_evict(disk_of(node_id));
    if (faults[kind].is_memory)
        arm_memory(node_id, at);
    else
        sim_disk_arm(disk_of(node_id), at, &faults[kind].fault);
    (void)read_with(node_id, 8 * RECORDS, 8 * RECORDS);
    cluster_nodes_run(&cluster, 3 * SECOND_US);
    bool has_struck = faults[kind].is_memory ? failing.has_failed : sim_disk_has_struck(disk_of(node_id));
    disarm_memory();
    sim_disk_heal(disk_of(node_id));
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    if (replica(node_id) == NULL || replica(node_id)->state == STELE_PARTITION_OFFLINE) {
        if (cluster.nodes[node_id - 1].state != SIM_SERVER_DOWN)
            kill_node(node_id, SIM_DEATH_KILL);
        cluster_nodes_start(&cluster);
        cluster_nodes_run(&cluster, 2 * SECOND_US);
    }
    for (int i = 0; i < 3; i++) /* who read it meets it again */
        (void)read_with(node_id, 8 * RECORDS, 8 * RECORDS);
    cluster_nodes_until(&cluster, is_repaired, faults[kind].name);
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    assert_ok(put_sized(-1, RECORDS, 50));
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    check_same();
    end();
    return has_struck;
}

static void test_failures(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < STELE_ARRAY_LEN(faults); kind++) {
        for (int64_t at = 1; fail_once(kind, at); at += stele_test_stride(faults[kind].is_memory ? 1 : 2))
            continue;
    }
}

/* What is damaged in all copies stays so: it is said, what is not damaged is read and written as before, and no log is
 * shorter for it. When one is healed by hand, the others get it from there. */
static void test_unrepairable(void **state)
{
    (void)state;
    fill(3);
    int64_t offset = last_base(controller) + RECORDS, log_end = stele_log_end_offset(replica(controller)->log);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++)
        kill_node(id, SIM_DEATH_KILL);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++)
        flip_payload(id, offset);
    cluster_nodes_start(&cluster);
    cluster_nodes_until(&cluster, is_led, "somebody leads");
    cluster_nodes_run(&cluster, 20 * SECOND_US);
    int32_t leader_id = partition()->leader_id;
    assert_int_equal(partition()->isr.count, 1);
    for (int32_t id = 1; id <= CLUSTER_NODES; id++) {
        assert_int_equal(metric(id, "stele_damaged_partitions"), 1);
        assert_int_equal(stele_log_end_offset(replica(id)->log), log_end);
        assert_int_equal(stele_log_damaged_count(replica(id)->log), 1);
        assert_true(id == leader_id || replica(id)->is_unrepaired_told);
    }
    assert_int_equal(read_at(leader_id, offset), STELE_CORRUPT_MESSAGE);
    assert_ok(read_at(leader_id, offset - 1));
    assert_ok(read_at(leader_id, offset + RECORDS));
    assert_ok(put_sized(1, RECORDS, 50));
    int32_t healed = leader_id == controller ? others[0] : controller;
    kill_node(healed, SIM_DEATH_KILL);
    flip_payload(healed, offset); /* the same bit */
    cluster_nodes_start(&cluster);
    cluster_nodes_until(&cluster, is_whole, "all are whole");
    assert_ok(put_sized(-1, RECORDS, 50));
    cluster_nodes_run(&cluster, 2 * SECOND_US);
    check_same();
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minority),
        cmocka_unit_test(test_leader),
        cmocka_unit_test(test_reader_of_leader),
        cmocka_unit_test(test_reader_of_follower),
        cmocka_unit_test(test_follower_of_rot),
        cmocka_unit_test(test_start_in_the_range),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_deleted),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_unrepairable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
