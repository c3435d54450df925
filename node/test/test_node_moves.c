/* Replicas move between the log directories of a node, over the wire, in drawn orders of everything: nothing that was
 * acknowledged is lost, and a partition is in one place. The world's directories are a and b. */
#include "node/node_struct.h"
#include "node/partition.h"
#include "node/test/node_world.h"

#include <stdio.h>
#include <string.h>

enum { RECORDS = 40, MOVE_MS = 60000 };

struct fixture {
    struct node_world *world;
    struct stele_uuid topic_id;
    struct node_conn *conn;
};

static struct node_answer ask(struct node_conn *conn, struct stele_request *request)
{
    struct node_answer answer;
    (void)node_conn_send(conn, request, NULL, 0);
    node_conn_take(conn, &answer);
    return answer;
}

static void send_move(struct node_conn *conn, const char *topic, int32_t partition, const char *directory)
{
    struct stele_moved_replica replica = {.topic = topic, .partition = partition, .directory = directory};
    struct stele_request request = {.header.api = STELE_API_ALTER_LOG_DIRS,
                                    .body.alter_log_dirs = {.node_id = -1, .replicas = &replica, .replica_count = 1}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

/* What is said of a move that is asked for. */
static enum stele_err move(struct node_conn *conn, const char *topic, int32_t partition, const char *directory)
{
    struct node_answer answer;
    send_move(conn, topic, partition, directory);
    for (int i = 0; i < 10 && !node_conn_poll(conn, &answer); i++)
        node_world_pass(conn->world, 100);
    assert_int_equal(answer.response.header.api, STELE_API_ALTER_LOG_DIRS);
    assert_int_equal(answer.response.body.alter_log_dirs.result_count, 1);
    return answer.response.body.alter_log_dirs.results[0].err;
}

/* Where a partition is, by what the node says: the directory of its log, or (is_future) of its copy; "": none. */
static const char *place_of(struct node_conn *conn, int32_t partition, bool is_future,
                            struct stele_described_replica *out_replica)
{
    const char *topics[] = {"t"};
    struct stele_request request = {.header.api = STELE_API_DESCRIBE_LOG_DIRS,
                                    .body.describe_log_dirs = {.node_id = -1, .topics = topics, .topic_count = 1}};
    struct node_answer answer = ask(conn, &request);
    const struct stele_describe_log_dirs_response *response = &answer.response.body.describe_log_dirs;
    const char *place = "";
    assert_ok(response->err);
    assert_int_equal(response->directory_count, 2);
    for (size_t i = 0; i < response->directory_count; i++) {
        const struct stele_described_log_dir *dir = &response->directories[i];
        for (size_t k = 0; k < dir->replica_count; k++) {
            if (dir->replicas[k].partition != partition || dir->replicas[k].is_future != is_future)
                continue;
            assert_string_equal(place, "");
            assert_string_equal(dir->replicas[k].topic, "t");
            place = dir->path[0] == 'a' ? "a" : "b"; /* outlives the answer */
            *out_replica = dir->replicas[k];
        }
    }
    return place;
}

static const char *place(struct node_conn *conn, int32_t partition)
{
    struct stele_described_replica replica;
    return place_of(conn, partition, false, &replica);
}

struct names {
    const char *start, *end;
    int count;
};

static void see_name(void *arg, const char *name)
{
    struct names *names = arg;
    size_t bytes = strlen(name), start = strlen(names->start), end = strlen(names->end);
    names->count +=
        bytes >= start + end && strncmp(name, names->start, start) == 0 && strcmp(name + bytes - end, names->end) == 0;
}

/* Directories of partition 0 whose names end so, in both places. */
static int count_names(const struct node_world *world, const char *end)
{
    struct names names = {.start = "t-0", .end = end};
    sim_disk_peek_names(world->disk, "a", see_name, &names);
    sim_disk_peek_names(world->disk, "b", see_name, &names);
    return names.count;
}

static void begin(struct fixture *f, uint64_t seed, int shards)
{
    f->world = node_world_new(seed, shards);
    node_world_set(f->world, "log.segment.bytes", "3000");
    node_world_set(f->world, "log.segment.delete.delay.ms", "1000");
    node_world_start(f->world);
    f->conn = node_world_greet(f->world, 1);
    assert_ok(node_conn_create_topic(f->conn, "t", 2, &f->topic_id));
}

static void put(struct fixture *f, int count)
{
    for (int i = 0; i < count; i++)
        (void)node_conn_put(f->conn, &f->topic_id, 0, &(struct node_shape){.count = 2, .value_bytes = 300, .acks = -1});
}

static void again(struct fixture *f)
{
    node_world_start(f->world);
    f->conn = node_world_greet(f->world, 1);
}

static const char *other(const char *directory)
{
    return directory[0] == 'a' ? "b" : "a";
}

/* Lets a move end, however long it takes. */
static void settle(struct fixture *f)
{
    struct stele_described_replica replica;
    for (int i = 0; i < MOVE_MS / 100; i++) {
        node_world_pass(f->world, 100);
        node_world_drain(f->world);
        if (place_of(f->conn, 0, true, &replica)[0] == 0)
            return;
    }
    fail_msg("a move does not end");
}

/* A move under load, and back, while others read what no file is open of: every record is answered and there, the old
 * directory is deleted, a stop and a start find it where it is. */
static void test_under_load(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct fixture f;
        begin(&f, seed, 1 + (int)(seed % 3));
        put(&f, RECORDS);
        node_world_run(f.world);
        node_world_drain(f.world);
        assert_ok(node_world_stop(f.world)); /* from here on no file of it is open */
        again(&f);
        struct node_conn *reader = node_world_greet(f.world, 1);
        const char *from = place(f.conn, 0);
        for (int round = 0; round < 2; round++) {
            put(&f, 3);
            send_move(f.conn, "t", 0, other(from));
            for (int i = 0; i < 40; i++) {
                struct stele_fetch_partition part =
                    node_fetch_at(&f.topic_id, 0, stele_prng_range(&f.world->prng, 0, 2 * RECORDS - 1));
                node_conn_send_fetch(reader, &(struct stele_fetch_request){
                                                 .max_bytes = 2000, .partitions = &part, .partition_count = 1});
                put(&f, 1 + i % 2);
                node_world_pass(f.world, 1 + i % 7);
            }
            settle(&f);
            assert_string_equal(place(f.conn, 0), other(from));
            from = place(f.conn, 0);
            for (int i = 0; i < f.world->entry_count; i++)
                assert_true(f.world->entries[i].is_answered && f.world->entries[i].err == STELE_OK);
            (void)node_world_check_partition(f.conn, &f.topic_id, 0, false);
            node_world_pass(f.world, 2000);
            assert_int_equal(count_names(f.world, ""), 1);
        }
        assert_true(f.world->traces[STELE_TRACE_MOVE_ENDED] == 2);
        assert_true(f.world->traces[STELE_TRACE_LOG_FAILED] == 0);
        assert_ok(node_world_stop(f.world));
        again(&f);
        assert_string_equal(place(f.conn, 0), from);
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, false);
        assert_ok(node_conn_produce(f.conn, &f.topic_id, 0)->err);
        node_world_free(f.world);
    }
}

/* What cannot be asked for, and what there is nothing to do for. */
static void test_refused(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 1, 2);
    const char *from = place(f.conn, 0);
    assert_int_equal(move(f.conn, "t", 0, "c"), STELE_LOG_DIR_NOT_FOUND);
    assert_int_equal(move(f.conn, "u", 0, "a"), STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(move(f.conn, "t", 2, "a"), STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(move(f.conn, "t", -1, "a"), STELE_UNKNOWN_TOPIC_OR_PARTITION);
    assert_ok(move(f.conn, "t", 0, from));
    assert_int_equal(count_names(f.world, "-future"), 0);
    struct stele_moved_replica replica = {.topic = "t", .directory = "a"};
    struct stele_request request = {.header.api = STELE_API_ALTER_LOG_DIRS,
                                    .body.alter_log_dirs = {.node_id = 77, .replicas = &replica, .replica_count = 1}};
    assert_int_equal(ask(f.conn, &request).response.body.alter_log_dirs.results[0].err, STELE_REPLICA_NOT_AVAILABLE);
    request = (struct stele_request){.header.api = STELE_API_DESCRIBE_LOG_DIRS, .body.describe_log_dirs.node_id = 77};
    assert_int_equal(ask(f.conn, &request).response.body.describe_log_dirs.err, STELE_REPLICA_NOT_AVAILABLE);
    request = (struct stele_request){.header.api = STELE_API_ALTER_LOG_DIRS, .body.alter_log_dirs.node_id = -1};
    assert_int_equal(ask(f.conn, &request).response.body.alter_log_dirs.result_count, 0);
    node_world_free(f.world);
}

/* A slow copy shows how far it is; a wish for where it lies ends it, without a trace on the disk; another wish begins
 * it anew. */
static void test_cancel(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct fixture f;
        struct stele_described_replica replica;
        f.world = node_world_new(seed, 2);
        node_world_set(f.world, "replica.alter.log.dirs.io.max.bytes.per.second", "1000");
        node_world_set(f.world, "log.segment.bytes", "3000");
        node_world_start(f.world);
        f.conn = node_world_greet(f.world, 1);
        assert_ok(node_conn_create_topic(f.conn, "t", 2, &f.topic_id));
        put(&f, RECORDS);
        node_world_run(f.world);
        node_world_drain(f.world);
        const char *from = place(f.conn, 0);
        for (int round = 0; round < 2; round++) {
            assert_ok(move(f.conn, "t", 0, other(from)));
            assert_ok(move(f.conn, "t", 0, other(from))); /* twice is once */
            node_world_pass(f.world, 4000);
            assert_string_equal(place_of(f.conn, 0, true, &replica), other(from));
            assert_true(replica.bytes >= 4000 - 3500 && replica.bytes < 12000);
            assert_true(replica.offset_lag > 0 && replica.offset_lag < 2 * RECORDS);
            assert_int_equal(replica.log_end_offset + replica.offset_lag, 2 * RECORDS);
            assert_int_equal(count_names(f.world, "-future"), 1);
            assert_ok(move(f.conn, "t", 0, from));
            node_world_pass(f.world, 1000);
            assert_int_equal(count_names(f.world, ""), 1);
            assert_string_equal(place(f.conn, 0), from);
        }
        assert_int_equal(f.world->traces[STELE_TRACE_MOVE_DROPPED], 2);
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, false);
        node_world_free(f.world);
    }
}

/* The topic goes while its partition moves: nothing is left of either directory. */
static void test_topic_goes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fixture f;
        struct node_answer answer;
        begin(&f, seed, 1 + (int)(seed % 3));
        put(&f, RECORDS);
        node_world_run(f.world);
        node_world_drain(f.world);
        assert_ok(move(f.conn, "t", 0, other(place(f.conn, 0))));
        int64_t steps = stele_prng_range(&f.world->prng, 0, 300);
        for (int64_t i = 0; i < steps; i++) {
            if (!node_world_step(f.world))
                node_world_pass(f.world, 1);
        }
        struct stele_request request = {.header.api = STELE_API_DELETE_TOPIC,
                                        .body.delete_topic = {.name = "t", .timeout_ms = 1000}};
        (void)node_conn_send(f.conn, &request, NULL, 0);
        node_world_pass(f.world, 5000);
        node_conn_take(f.conn, &answer);
        assert_ok(answer.response.body.delete_topic.err);
        assert_int_equal(count_names(f.world, ""), 0);
        assert_ok(node_world_stop(f.world));
        node_world_free(f.world);
    }
}

/* A crash, a kill or a stop at any moment of a move: the start finds the partition in one place with all that was
 * acknowledged (and synced, where the power failed), goes on with the move, and ends it. */
static void test_crash(void **state)
{
    (void)state;
    int moved = 0, stayed = 0, resumed = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        struct fixture f;
        int mode = (int)(seed % 4);
        f.world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(f.world, "log.segment.bytes", "3000");
        node_world_set(f.world, "log.flush.before.ack", "true");
        if (seed % 8 < 4)
            node_world_set(f.world, "replica.alter.log.dirs.io.max.bytes.per.second", "20000");
        node_world_start(f.world);
        f.conn = node_world_greet(f.world, 1);
        assert_ok(node_conn_create_topic(f.conn, "t", 2, &f.topic_id));
        put(&f, RECORDS / 2);
        node_world_run(f.world);
        node_world_drain(f.world);
        const char *from = place(f.conn, 0);
        send_move(f.conn, "t", 0, other(from));
        int64_t steps = stele_prng_range(&f.world->prng, 0, 400);
        for (int64_t i = 0; i < steps; i++) {
            if (i % 16 == 0)
                put(&f, 1);
            if (!node_world_step(f.world))
                node_world_pass(f.world, 1);
        }
        node_world_drain(f.world);
        if (mode == 3)
            assert_ok(node_world_stop(f.world));
        else
            node_world_crash(f.world, (enum sim_disk_crash_mode)mode);
        resumed += count_names(f.world, "-future") > 0;
        again(&f);
        moved += strcmp(place(f.conn, 0), from) != 0;
        stayed += strcmp(place(f.conn, 0), from) == 0;
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, true);
        settle(&f);
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, true);
        assert_int_equal(count_names(f.world, "-future"), 0);
        assert_ok(node_conn_produce(f.conn, &f.topic_id, 0)->err);
        node_world_free(f.world);
    }
    assert_true(moved > 10 && stayed > 10 && resumed > 10);
}

/* The new directory fails: the move ends and the replica goes on where it is. The old one fails: the replica is
 * offline, and its copy is not taken for it. */
static void test_directory_fails(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct fixture f;
        struct stele_described_replica replica;
        bool is_target = seed % 2 == 0;
        f.world = node_world_new(seed, 2);
        node_world_set(f.world, "replica.alter.log.dirs.io.max.bytes.per.second", "4000");
        node_world_set(f.world, "log.segment.bytes", "3000");
        node_world_start(f.world);
        f.conn = node_world_greet(f.world, 1);
        assert_ok(node_conn_create_topic(f.conn, "t", 2, &f.topic_id));
        int32_t partition = strcmp(place(f.conn, 0), is_target ? "a" : "b") == 0 ? 0 : 1;
        for (int i = 0; i < RECORDS; i++)
            (void)node_conn_put(f.conn, &f.topic_id, partition,
                                &(struct node_shape){.count = 2, .value_bytes = 300, .acks = -1});
        node_world_run(f.world);
        node_world_drain(f.world);
        const char *from = place(f.conn, partition);
        assert_ok(move(f.conn, "t", partition, other(from)));
        node_world_pass(f.world, 1 + (int64_t)seed * 20);
        sim_disk_break(f.world->disk, "b/*", 0, STELE_IO, 0);
        sim_disk_break(f.world->disk, "b", 0, STELE_IO, 0);
        struct node_entry *entry = node_conn_put(f.conn, &f.topic_id, partition, &(struct node_shape){.acks = -1});
        node_world_pass(f.world, 20000);
        node_world_drain(f.world);
        assert_true(entry->is_answered);
        assert_string_equal(place_of(f.conn, partition, true, &replica), "");
        assert_string_equal(place_of(f.conn, partition, false, &replica), from);
        assert_int_equal(replica.is_offline, !is_target);
        assert_int_equal(entry->err, is_target ? STELE_OK : STELE_KAFKA_STORAGE_ERROR);
        if (is_target) {
            (void)node_world_check_partition(f.conn, &f.topic_id, partition, false);
            node_world_pass(f.world, 70000);
        }
        assert_int_equal(move(f.conn, "t", partition, other(from)), STELE_KAFKA_STORAGE_ERROR);
        sim_disk_heal(f.world->disk);
        (void)node_world_stop(f.world);
        again(&f);
        settle(&f);
        (void)node_world_check_partition(f.conn, &f.topic_id, partition, true);
        node_world_free(f.world);
    }
}

/* Without the first directory a node cannot go on, also where it fails under the line of a partition that is made while
 * another one is offline. */
static void test_line_fails(void **state)
{
    (void)state;
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        struct fixture f;
        begin(&f, 1, 2);
        sim_disk_break(f.world->disk, "b/*", 0, STELE_IO, 0);
        for (int32_t i = 0; i < 2; i++)
            (void)node_conn_put(f.conn, &f.topic_id, i, &(struct node_shape){.acks = -1});
        node_world_pass(f.world, 5000);
        node_world_drain(f.world);
        if (is_broken)
            sim_disk_break(f.world->disk, "a/stele-moved-partitions*", 0, STELE_IO, 0);
        node_conn_send_create(f.conn, "u", 1, NULL, 0);
        node_world_pass(f.world, 5000);
        assert_int_equal(f.world->is_fatal, is_broken);
        node_world_free(f.world);
    }
}

struct cutting {
    struct stele_truncate_op truncate;
    bool is_done;
};

static void cut_done(struct stele_op *op)
{
    STELE_CONTAINER_OF(op, struct cutting, truncate.op)->is_done = true;
}

static enum stele_err cut(struct fixture *f, int64_t offset, bool is_restart)
{
    struct node_world *world = f->world;
    struct cutting cutting = {.truncate = {.op = {.home = &world->node->shards[1],
                                                  .topic_id = f->topic_id,
                                                  .leader_epoch = -1,
                                                  .run = stele_partition_truncate,
                                                  .done = cut_done},
                                           .offset = offset,
                                           .is_restart = is_restart}};
    int before = world->poster;
    world->poster = 1;
    stele_op_submit(&cutting.truncate.op);
    world->poster = before;
    for (int i = 0; i < 20 && !cutting.is_done; i++)
        node_world_pass(world, 100);
    assert_true(cutting.is_done);
    return cutting.truncate.op.err;
}

/* The log is cut, or begins anew, while it is copied: the copy has what the log has then, by what a reader sees. */
static void test_cut(void **state)
{
    (void)state;
    int cuts = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fixture f;
        bool is_restart = seed % 4 == 3;
        begin(&f, seed, 1 + (int)(seed % 3));
        put(&f, RECORDS);
        node_world_run(f.world);
        node_world_drain(f.world);
        const char *from = place(f.conn, 0);
        send_move(f.conn, "t", 0, other(from));
        int64_t steps = stele_prng_range(&f.world->prng, 20, 80);
        for (int64_t i = 0; i < steps; i++) {
            if (!node_world_step(f.world))
                node_world_pass(f.world, 1);
        }
        int64_t at = is_restart ? 200 : stele_prng_range(&f.world->prng, 1, RECORDS - 1) * 2;
        enum stele_err err = cut(&f, at, is_restart);
        assert_true(err == STELE_OK || err == STELE_EXISTS); /* it is held */
        cuts += err == STELE_OK;
        node_world_drain(f.world);
        for (int i = 0; i < f.world->entry_count && err == STELE_OK; i++) {
            if (f.world->entries[i].offset >= at || is_restart)
                f.world->entries[i].is_answered = false; /* it was taken back */
        }
        put(&f, 5);
        settle(&f);
        assert_string_equal(place(f.conn, 0), other(from));
        struct node_entry *entry = node_conn_produce(f.conn, &f.topic_id, 0);
        assert_ok(entry->err);
        assert_int_equal(entry->offset, (err == STELE_OK ? at : 2 * RECORDS) + 10);
        if (!is_restart)
            (void)node_world_check_partition(f.conn, &f.topic_id, 0, false);
        assert_ok(node_world_stop(f.world));
        node_world_free(f.world);
    }
    assert_true(cuts > 20);
}

/* Any call of the disk fails once, by an error of the disk or for want of room, or the machine stops inside it:
 * whatever comes of the move, what was acknowledged is there after the next start, in one place. */
static void test_calls_fail(void **state)
{
    (void)state;
    int ended = 0, struck = 0, unstruck = 0;
    for (int64_t at = 1; at < 2000 && unstruck < 4; at += stele_test_stride(2)) {
        struct fixture f;
        int kind = (int)(at / 2 % 5); /* the last three are the modes of a crash */
        f.world = node_world_new((uint64_t)at, 1);
        node_world_set(f.world, "log.segment.bytes", "3000");
        node_world_set(f.world, "log.flush.before.ack", "true");
        node_world_start(f.world);
        f.conn = node_world_greet(f.world, 1);
        assert_ok(node_conn_create_topic(f.conn, "t", 2, &f.topic_id));
        put(&f, 10);
        node_world_run(f.world);
        node_world_drain(f.world);
        const char *from = place(f.conn, 0);
        struct sim_disk_fault fault = {.err = kind == 0 ? STELE_IO : STELE_NO_SPACE, .is_crash = kind >= 2};
        sim_disk_arm(f.world->disk, at, &fault);
        send_move(f.conn, "t", 0, other(from));
        for (int i = 0; i < 30 && !f.world->is_fatal && !sim_disk_is_stopped(f.world->disk); i++)
            node_world_pass(f.world, 100);
        ended += f.world->traces[STELE_TRACE_MOVE_ENDED] > 0;
        struck += sim_disk_has_struck(f.world->disk);
        unstruck += !sim_disk_has_struck(f.world->disk);
        sim_disk_heal(f.world->disk);
        node_world_drain(f.world);
        node_world_crash(f.world, kind < 2 ? SIM_DISK_KILL : (enum sim_disk_crash_mode)(kind - 2));
        again(&f);
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, true);
        settle(&f);
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, true);
        assert_ok(node_conn_produce(f.conn, &f.topic_id, 0)->err);
        assert_int_equal(count_names(f.world, "-future"), 0);
        node_world_free(f.world);
    }
    assert_true(struck > 30 && ended > 3 && unstruck == 4);
}

/* Memory runs out at any allocation: the move ends well or not at all, and the log goes on. */
static void test_memory(void **state)
{
    (void)state;
    for (int64_t at = 1; at < 4000; at += stele_test_stride(7)) {
        struct fixture f;
        begin(&f, (uint64_t)at, 1);
        put(&f, 10);
        node_world_run(f.world);
        node_world_drain(f.world);
        const char *from = place(f.conn, 0);
        struct stele_moved_replica replica = {.topic = "t", .directory = other(from)};
        struct stele_request request = {
            .header.api = STELE_API_ALTER_LOG_DIRS,
            .body.alter_log_dirs = {.node_id = -1, .replicas = &replica, .replica_count = 1}};
        (void)node_conn_send(f.conn, &request, NULL, 0);
        stele_test_mem_fail(&f.world->mem, at, false);
        node_world_pass(f.world, 3000);
        bool has_failed = f.world->mem.has_failed;
        stele_test_mem_fail(&f.world->mem, 0, false);
        assert_false(f.world->is_fatal);
        if (!f.conn->is_up)
            f.conn = node_world_greet(f.world, 1);
        settle(&f);
        (void)node_world_check_partition(f.conn, &f.topic_id, 0, false);
        assert_ok(node_conn_produce(f.conn, &f.topic_id, 0)->err);
        assert_ok(node_world_stop(f.world));
        node_world_free(f.world);
        if (!has_failed)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_under_load), cmocka_unit_test(test_refused), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_topic_goes), cmocka_unit_test(test_crash),   cmocka_unit_test(test_directory_fails),
        cmocka_unit_test(test_line_fails), cmocka_unit_test(test_cut),     cmocka_unit_test(test_calls_fail),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
