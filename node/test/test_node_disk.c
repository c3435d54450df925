/* Disks that fill up, fail and come back; what the rounds write and delete. */
#include "node/test/node_world.h"

#include <stdio.h>
#include <string.h>

enum { SEEDS = 8 };

static bool exists(struct node_world *world, const char *path)
{
    struct stele_stat stat;
    struct stele_vfs *vfs = sim_disk_vfs(world->disk);
    return vfs->ops->stat(vfs, path, &stat) == STELE_OK;
}

static bool file_has(struct node_world *world, const char *path, const char *text)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    if (stele_vfs_read_whole(sim_disk_vfs(world->disk), &world->own.mem, STELE_MEM_TOOL, path, 10000, &bytes, &count) !=
        STELE_OK)
        return false;
    bool has = strstr((const char *)bytes, text) != NULL;
    stele_mem_free(&world->own.mem, bytes);
    return has;
}

static struct node_world *world_with_topic(uint64_t seed, const char *dirs, struct stele_uuid *out_topic_id)
{
    struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
    node_world_set(world, "log.dirs", dirs);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_int_equal(node_conn_create_topic(conn, "t", 2, out_topic_id), STELE_OK);
    return world;
}

/* A full disk, or one down to its reserve: produces are refused with an error that is worth another try and says what
 * to do; reads go on; with room the node goes on by itself. */
static void test_full(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        bool has_reserve = seed % 2 == 0;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.dirs", "a");
        if (has_reserve)
            node_world_set(world, "log.dir.reserve.bytes", "500000");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        int64_t used = sim_disk_used_bytes(world->disk);
        sim_disk_set_quota(world->disk, used + 700000);
        struct node_answer answer;
        struct node_entry *entry = NULL;
        int count = 0;
        do {
            (void)node_conn_put(conn, &topic_id, count % 2, &(struct node_shape){.value_bytes = 50000, .acks = 1});
            node_conn_take(conn, &answer);
            entry = node_world_enter(world, conn, &answer);
            node_world_pass(world, 400);
            assert_true(++count < 100);
        } while (entry->err == STELE_OK);
        assert_true(count > (has_reserve ? 2 : 6));
        assert_int_equal(stele_err_class(entry->err), STELE_CLASS_RETRIABLE);
        assert_non_null(strstr(entry->message, "log.dir.reserve.bytes"));
        if (has_reserve)
            assert_true(sim_disk_used_bytes(world->disk) < used + 300000);
        for (int32_t i = 0; i < 2; i++)
            (void)node_world_check_partition(conn, &topic_id, i, false);
        node_world_pass(world, 20000);
        (void)node_conn_put(conn, &topic_id, 0, &(struct node_shape){.value_bytes = 90000, .acks = 1});
        node_conn_take(conn, &answer);
        assert_int_not_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        sim_disk_set_quota(world->disk, used + 5000000);
        node_world_pass(world, 3000);
        for (int32_t i = 0; i < 2; i++) {
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
            (void)node_world_check_partition(conn, &topic_id, i, false);
        }
        assert_ok(node_world_stop(world));
        node_world_start(world);
        conn = node_world_greet(world, 1);
        for (int32_t i = 0; i < 2; i++)
            (void)node_world_check_partition(conn, &topic_id, i, false);
        node_world_free(world);
    }
}

/* Without room a topic is not created by half: it is refused, or its partitions come up when there is room. */
static void test_full_create(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = node_world_new(seed, 2);
        node_world_set(world, "log.dirs", "a");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        sim_disk_set_quota(world->disk, sim_disk_used_bytes(world->disk) + (int64_t)seed * 100);
        enum stele_err err = node_conn_create_topic(conn, "t", 3, &topic_id);
        sim_disk_set_quota(world->disk, -1);
        node_world_pass(world, 5000);
        if (err != STELE_OK) {
            assert_int_equal(stele_err_class(err), STELE_CLASS_RETRIABLE);
            err = node_conn_create_topic(conn, "t", 3, &topic_id);
            if (err == STELE_TOPIC_ALREADY_EXISTS) {
                struct node_answer answer;
                struct stele_request request = {.header.api = STELE_API_METADATA,
                                                .body.metadata = {.all_topics = true}};
                (void)node_conn_send(conn, &request, NULL, 0);
                node_conn_take(conn, &answer);
                topic_id = answer.response.body.metadata.topics[0].topic_id;
            } else {
                assert_int_equal(err, STELE_OK);
            }
        }
        for (int32_t i = 0; i < 3; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* A sync that fails takes its partition offline: what waits for it is answered, parked readers are woken, others go on,
 * and the next start has what was acknowledged. */
static void test_failed_sync(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.dirs", "a");
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *reader = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        for (int i = 0; i < 4; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i % 2)->err, STELE_OK);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 1, 2);
        struct stele_fetch_request fetch = {
            .max_wait_ms = 60000, .min_bytes = 1, .max_bytes = 1 << 20, .partitions = &part, .partition_count = 1};
        node_conn_send_fetch(reader, &fetch);
        node_world_run(world);
        sim_disk_break(world->disk, "*a/t-1/*.log", SIM_DISK_BIT(SIM_DISK_SYNC),
                       seed % 2 == 0 ? STELE_IO : STELE_NO_SPACE, 0);
        for (int i = 0; i < 10; i++)
            (void)node_conn_put(conn, &topic_id, i % 2, &(struct node_shape){.acks = -1});
        for (int i = 0; i < 10; i++) {
            node_conn_take(conn, &answer);
            const struct node_entry *entry = node_world_enter(world, conn, &answer);
            assert_int_equal(entry->err, i % 2 == 0 ? STELE_OK : STELE_KAFKA_STORAGE_ERROR);
        }
        node_conn_take(reader, &answer);
        assert_int_equal(answer.response.body.fetch.results[0].err, STELE_KAFKA_STORAGE_ERROR);
        node_conn_send_list(conn, &topic_id, 1, STELE_TIME_LATEST);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.list_offsets.results[0].err, STELE_KAFKA_STORAGE_ERROR);
        node_world_pass(world, 70000);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        assert_false(world->is_fatal);
        assert_ok(node_world_stop(world));
        assert_false(exists(world, "a/.kafka_cleanshutdown"));
        sim_disk_heal(world->disk);
        if (seed % 3 > 0)
            sim_disk_crash(world->disk, seed % 3 == 1 ? SIM_DISK_KILL : SIM_DISK_ADVERSARIAL);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        for (int32_t i = 0; i < 2; i++) {
            (void)node_world_check_partition(conn, &topic_id, i, true);
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
        }
        node_world_free(world);
    }
}

/* S21: what a reader is to get cannot be read, but for its head, which tells where it is: the connection ends, and the
 * partition is offline, so that another may lead it. Nobody asks for ever. */
static void test_unreadable_range(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.dirs", "a");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1), *reader = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        for (int i = 0; i < 2; i++) {
            (void)node_conn_put(conn, &topic_id, i, &(struct node_shape){.acks = -1, .value_bytes = 20000});
            node_conn_take(conn, &answer);
            assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        }
        assert_int_equal(sim_disk_spoil(world->disk, "a/t-1/00000000000000000000.log", 8192, 8200), STELE_OK);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, 1, 0);
        struct stele_fetch_request fetch = {.max_bytes = 1 << 20, .partitions = &part, .partition_count = 1};
        node_conn_send_fetch(reader, &fetch);
        node_world_run(world);
        assert_true(reader->is_closed);
        node_conn_send_fetch(conn, &fetch);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.fetch.results[0].err, STELE_KAFKA_STORAGE_ERROR);
        assert_int_equal(node_conn_produce(conn, &topic_id, 1)->err, STELE_KAFKA_STORAGE_ERROR);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        node_world_free(world);
    }
}

/* A directory that takes no checkpoints any more is offline with all its partitions, and the waiting are told. The
 * first directory holds the metadata log: without it the node ends. */
static void test_failed_dir(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        bool is_first = seed % 2 == 0;
        struct node_world *world = world_with_topic(seed, "a,b", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1), *reader = node_world_greet(world, 1);
        int32_t in_b = exists(world, "b/t-0") ? 0 : 1;
        for (int i = 0; i < 4; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i % 2)->err, STELE_OK);
        struct stele_fetch_partition part = node_fetch_at(&topic_id, in_b, 2);
        struct stele_fetch_request fetch = {
            .max_wait_ms = 60000, .min_bytes = 1, .max_bytes = 1 << 20, .partitions = &part, .partition_count = 1};
        node_conn_send_fetch(reader, &fetch);
        node_world_run(world);
        sim_disk_break(world->disk, is_first ? "*a/*offset-checkpoint*" : "*b/*offset-checkpoint*", 0, STELE_IO, 0);
        node_world_pass(world, 6000);
        if (is_first) {
            assert_true(world->is_fatal);
            assert_int_equal(world->exit_code, STELE_EXIT_STORAGE);
            node_world_crash(world, SIM_DISK_KILL);
        } else {
            node_conn_take(reader, &answer);
            assert_int_equal(answer.response.body.fetch.results[0].err, STELE_KAFKA_STORAGE_ERROR);
            assert_int_equal(node_conn_produce(conn, &topic_id, in_b)->err, STELE_KAFKA_STORAGE_ERROR);
            assert_int_equal(node_conn_produce(conn, &topic_id, 1 - in_b)->err, STELE_OK);
            if (seed % 4 == 1) {
                assert_ok(node_world_stop(world));
                assert_true(exists(world, "a/.kafka_cleanshutdown"));
                assert_false(exists(world, "b/.kafka_cleanshutdown"));
            } else { /* in the middle of the telling, too */
                assert_int_equal(node_conn_produce(conn, &topic_id, 1 - in_b)->err, STELE_OK);
                node_world_crash(world, SIM_DISK_KILL);
            }
        }
        sim_disk_heal(world->disk);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        for (int32_t i = 0; i < 2; i++) {
            (void)node_world_check_partition(conn, &topic_id, i, false);
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
        }
        node_world_free(world);
    }
}

static void send_trims(struct node_conn *conn, const struct stele_uuid *topic_id, int64_t offset)
{
    struct stele_delete_records_partition parts[2];
    for (int32_t i = 0; i < 2; i++)
        parts[i] = (struct stele_delete_records_partition){
            .topic_id = *topic_id, .partition = i, .current_leader_epoch = -1, .offset = offset};
    struct stele_request request = {.header.api = STELE_API_DELETE_RECORDS,
                                    .body.delete_records = {.partitions = parts, .partition_count = 2}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

/* Records of two partitions are deleted, and the directory of one cannot take the checkpoints: the other one's answer
 * does not suffer for it. */
static void test_deletion_beside_a_full_directory(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, "a,b", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        size_t in_b = exists(world, "b/t-0") ? 0 : 1;
        for (int i = 0; i < 4; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i % 2)->err, STELE_OK);
        sim_disk_break(world->disk, "*b/*offset-checkpoint*", SIM_DISK_BIT(SIM_DISK_WRITE), STELE_NO_SPACE, 0);
        send_trims(conn, &topic_id, 1);
        node_conn_take(conn, &answer);
        const struct stele_delete_records_result *results = answer.response.body.delete_records.results;
        assert_int_equal(results[in_b].err, STELE_KAFKA_STORAGE_ERROR);
        assert_int_equal(results[1 - in_b].err, STELE_OK);
        assert_int_equal(results[1 - in_b].low_watermark, 1);
        sim_disk_heal(world->disk);
        send_trims(conn, &topic_id, 1);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.delete_records.results[in_b].err, STELE_OK);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* A round of checkpoints that began before a deletion knows nothing of it: the answer waits for the next one. */
static void test_deletion_during_a_round(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, "a", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        for (int i = 0; i < 4; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i % 2)->err, STELE_OK);
        world->holds_jobs = true;
        node_world_pass(world, 6000); /* a round is under way, its points are taken */
        assert_true(node_world_job_count(world) > 0);
        send_trims(conn, &topic_id, 1);
        node_world_run(world);
        assert_false(node_conn_poll(conn, &answer));
        world->holds_jobs = false;
        while (!node_conn_poll(conn, &answer))
            assert_true(node_world_step(world));
        assert_int_equal(answer.response.body.delete_records.results[0].err, STELE_OK);
        assert_true(file_has(world, "a/log-start-offset-checkpoint", "\nt 0 1\n"));
        assert_true(file_has(world, "a/log-start-offset-checkpoint", "\nt 1 1\n"));
        node_world_crash(world, SIM_DISK_ADVERSARIAL);
        node_world_free(world);
    }
}

/* A directory that fails while partitions are made and opened on it: they do not come up on it. */
static void test_failed_dir_opening(void **state)
{
    int on_b = 0;
    (void)state;
    for (uint64_t seed = 1; seed < 150; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = world_with_topic(seed, "a,b", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        sim_disk_break(world->disk, "*b/*offset-checkpoint*", 0, STELE_IO, 0);
        node_world_pass(world, 4990);
        node_conn_send_create(conn, "u", 4, NULL, 0);
        for (uint64_t i = 0; i < seed % 50; i++)
            (void)node_world_step(world);
        node_world_jump(world, 20); /* the round begins */
        world->holds_free_jobs = seed % 2 == 0;
        node_world_run(world);
        world->holds_free_jobs = false;
        node_conn_take(conn, &answer);
        topic_id = answer.response.body.create_topic.topic_id;
        node_world_pass(world, 10);
        for (int32_t i = 0; i < 4; i++) {
            char path[] = "b/u-0";
            path[4] = (char)('0' + i);
            bool is_there = exists(world, path);
            on_b += is_there;
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err,
                             is_there ? STELE_KAFKA_STORAGE_ERROR : STELE_OK);
        }
        node_world_free(world);
    }
    assert_true(on_b > 50);
}

/* Dropped at any moment after a directory failed. */
static void test_failed_dir_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 120; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = world_with_topic(3 + 3 * seed, "a,b,c", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        assert_int_equal(node_conn_produce(conn, &topic_id, 1)->err, STELE_OK);
        sim_disk_break(world->disk, "*b/*offset-checkpoint*", 0, STELE_IO, 0);
        sim_disk_break(world->disk, "*c/*offset-checkpoint*", 0, STELE_IO, 0);
        world->holds_jobs = true;
        node_world_pass(world, 6000);
        world->holds_jobs = false;
        for (uint64_t i = 0; i < seed % 12; i++)
            (void)node_world_step(world);
        node_world_free(world);
    }
}

/* Short memory is no failure of the metadata log: whichever allocation of a creation fails, once or for a while, the
 * node goes on, and the topic is there or can be made. */
static void test_metadata_without_memory(void **state)
{
    (void)state;
    for (int64_t at = 1, has_failed = 1; has_failed != 0; at++) {
        for (int lasting = 0; lasting < 2; lasting++) {
            struct stele_uuid topic_id;
            struct node_answer answer;
            struct node_world *world = world_with_topic(1, "a", &topic_id);
            struct node_conn *conn = node_world_greet(world, 1);
            node_conn_send_create(conn, "u", 1, NULL, 0);
            stele_test_mem_fail(&world->mem, at, lasting > 0);
            for (int i = 0; i < 300; i++)
                (void)node_world_step(world);
            has_failed = world->mem.has_failed;
            stele_test_mem_fail(&world->mem, 0, false);
            node_world_pass(world, 2000);
            assert_false(world->is_fatal);
            (void)node_conn_poll(conn, &answer);
            conn = node_world_greet(world, 1);
            enum stele_err err = node_conn_create_topic(conn, "u", 1, &topic_id);
            assert_true(err == STELE_OK || err == STELE_TOPIC_ALREADY_EXISTS);
            assert_ok(node_world_stop(world));
            node_world_free(world);
        }
    }
}

/* The metadata log that cannot be written ends the node: a create that was not answered OK may have happened, one that
 * was is there at the next start. */
static void test_failed_metadata(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = world_with_topic(seed, "a", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        sim_disk_break(world->disk, "*__cluster_metadata-0/*.log",
                       SIM_DISK_BIT(seed % 2 == 0 ? SIM_DISK_SYNC : SIM_DISK_WRITE), STELE_IO, 0);
        node_conn_send_create(conn, "u", 1, NULL, 0);
        node_conn_send_create(conn, "v", 1, NULL, 0);
        node_world_run(world);
        assert_true(world->is_fatal);
        assert_int_equal(world->exit_code, STELE_EXIT_STORAGE);
        assert_non_null(strstr(world->fatal_error.text, "__cluster_metadata"));
        node_world_crash(world, SIM_DISK_ADVERSARIAL);
        sim_disk_heal(world->disk);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        node_world_free(world);
    }
}

/* flush.messages counts on while a flush is under way. */
static void test_flush_messages(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        static const char path[] = "a/t-0/00000000000000000000.log";
        struct stele_uuid topic_id;
        struct stele_stat stat;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        struct stele_vfs *vfs = sim_disk_vfs(world->disk);
        node_world_set(world, "log.dirs", "a");
        node_world_set(world, "log.flush.interval.messages", "1");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 1, &topic_id), STELE_OK);
        for (int i = 0; i < 3; i++) {
            world->holds_jobs = i > 0;
            (void)node_conn_put(conn, &topic_id, 0, &(struct node_shape){.acks = 1});
            node_conn_take(conn, &answer);
            assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        }
        world->holds_jobs = false;
        node_world_run(world);
        assert_ok(vfs->ops->stat(vfs, path, &stat));
        assert_true(stat.bytes > 0);
        assert_true(sim_disk_is_durable(world->disk, path, 0, stat.bytes));
        node_world_pass(world, 6000);
        assert_true(file_has(world, "a/recovery-point-offset-checkpoint", "\nt 0 2\n"));
        node_world_free(world);
    }
}

/* The names of a new partition: an error takes it offline; a full disk keeps the answers back until there is room, or
 * until the node stops. */
static void test_names(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        bool is_full = seed % 2 == 0, stops = seed % 4 == 0;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.dirs", "a");
        if (seed % 3 == 0)
            node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        struct node_conn *others[3];
        for (int i = 0; i < 3; i++)
            others[i] = node_world_greet(world, 1 + i % (world->shard_count - 1));
        sim_disk_break(world->disk, "*a/t-0/partition.metadata*", SIM_DISK_BIT(SIM_DISK_SYNC),
                       is_full ? STELE_NO_SPACE : STELE_IO, 0);
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        for (int i = 0; i < 4; i++)
            (void)node_conn_put(conn, &topic_id, 1 - i % 2, &(struct node_shape){.acks = 1});
        node_world_pass(world, 6000);
        assert_true(node_conn_poll(conn, &answer));
        assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        if (is_full) { /* no checkpoint says that there is something whose name may be lost */
            assert_true(file_has(world, "a/recovery-point-offset-checkpoint", "\nt 0 0\n"));
            assert_true(file_has(world, "a/replication-offset-checkpoint", "\nt 0 0\n"));
            assert_false(node_conn_poll(conn, &answer));
            if (stops) { /* answered with an error, or closed; the log has them or not */
                /* more comes in while the shards stop one after another, kept by what is validated */
                static const struct node_shape large = {
                    .count = 20, .value_bytes = 1500, .codec = STELE_CODEC_LZ4, .acks = 1};
                for (int i = 0; i < 6; i++) {
                    (void)node_conn_put(conn, &topic_id, i % 2, &(struct node_shape){.acks = 1});
                    (void)node_conn_put(others[i % 3], &topic_id, i % 2, &large);
                }
                world->holds_free_jobs = true;
                for (uint64_t i = 0; i < seed; i++)
                    (void)node_world_step(world);
                world->poster = STELE_SHARD_CONTROL;
                stele_node_stop(world->node);
                for (uint64_t i = 0; i < seed; i++)
                    (void)node_world_step(world);
                world->holds_free_jobs = false;
                if (seed % 8 == 0)
                    node_conn_drop(conn);
                assert_ok(node_world_stop(world));
                assert_false(exists(world, "a/.kafka_cleanshutdown"));
                sim_disk_heal(world->disk);
            } else {
                sim_disk_heal(world->disk);
                node_world_pass(world, 200);
                for (int i = 1; i < 4; i++) {
                    assert_true(node_conn_poll(conn, &answer));
                    assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
                }
                node_world_crash(world, seed % 3 == 0 ? SIM_DISK_ADVERSARIAL : SIM_DISK_KILL);
            }
        } else {
            for (int i = 1; i < 4; i++) {
                assert_true(node_conn_poll(conn, &answer));
                assert_int_equal(node_world_enter(world, conn, &answer)->err,
                                 i % 2 == 0 ? STELE_OK : STELE_KAFKA_STORAGE_ERROR);
            }
            assert_ok(node_world_stop(world));
            sim_disk_heal(world->disk);
        }
        node_world_start(world);
        conn = node_world_greet(world, 1);
        for (int32_t i = 0; i < 2; i++) {
            (void)node_world_check_partition(conn, &topic_id, i, seed % 3 == 0);
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
        }
        node_world_free(world);
    }
}

static int64_t name_syncs(const struct node_world *world)
{
    const struct sim_disk_stats *stats = sim_disk_stats(world->disk);
    return stats->calls[SIM_DISK_SYNC] + stats->calls[SIM_DISK_SYNC_DIR];
}

/* Of many new partitions each has its own names synced, once, and the directory that they lie in not for each. */
static void test_names_of_many(void **state)
{
    enum { MANY = 200, A_JOB = 16 };
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = node_world_new(seed, 2);
        node_world_set(world, "log.dirs", "a");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        int64_t before = name_syncs(world);
        assert_int_equal(node_conn_create_topic(conn, "t", MANY, &topic_id), STELE_OK);
        node_world_run(world);
        assert_in_range(name_syncs(world) - before, 2 * MANY, 2 * MANY + MANY / A_JOB + 20);
        assert_ok(node_world_stop(world));
        assert_true(exists(world, "a/.kafka_cleanshutdown"));
        node_world_free(world);
    }
}

/* A sync that lacks room for the epochs alone is tried again: what waits for it is acknowledged when there is some, and
 * refused at a stop before that. */
static void test_no_room_for_epochs(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.dirs", "a");
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        sim_disk_break(world->disk, "*a/t-1/leader-epoch-checkpoint*", SIM_DISK_BIT(SIM_DISK_WRITE),
                       seed % 2 == 0 ? STELE_NO_SPACE : STELE_NO_MEMORY, 0);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_OK);
        (void)node_conn_put(conn, &topic_id, 1, &(struct node_shape){.acks = -1});
        node_world_pass(world, 1000);
        if (seed % 4 < 2) {
            assert_ok(node_world_stop(world));
            assert_false(exists(world, "a/.kafka_cleanshutdown"));
            sim_disk_heal(world->disk);
            node_world_start(world);
            conn = node_world_greet(world, 1);
        } else {
            sim_disk_heal(world->disk);
            node_world_pass(world, 200);
            node_conn_take(conn, &answer);
            assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        }
        for (int32_t i = 0; i < 2; i++) {
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
            (void)node_world_check_partition(conn, &topic_id, i, true);
        }
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

/* A log that cannot be opened for want of room comes up when there is some. A stop before that leaves no clean marker:
 * what it holds was not recovered. */
static void test_opening_waits(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4 * SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = world_with_topic(seed, "a", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        for (int i = 0; i < 6; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i % 2)->err, STELE_OK);
        node_world_crash(world, SIM_DISK_KILL);
        sim_disk_break(world->disk, "*a/t-0/0*", SIM_DISK_BIT(SIM_DISK_OPEN),
                       seed % 2 == 0 ? STELE_NO_SPACE : STELE_NO_MEMORY, 0);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        node_world_pass(world, 3000);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->err, STELE_LEADER_NOT_AVAILABLE);
        assert_int_equal(node_conn_produce(conn, &topic_id, 1)->err, STELE_OK);
        if (seed % 4 < 2) {
            assert_ok(node_world_stop(world));
            assert_false(exists(world, "a/.kafka_cleanshutdown"));
            sim_disk_heal(world->disk);
            world->traces[STELE_TRACE_LOG_RECOVERED] = 0;
            node_world_start(world);
            conn = node_world_greet(world, 1);
            assert_true(world->traces[STELE_TRACE_LOG_RECOVERED] > 0);
        } else {
            sim_disk_heal(world->disk);
            node_world_pass(world, 600);
        }
        for (int32_t i = 0; i < 2; i++) {
            assert_int_equal(node_conn_produce(conn, &topic_id, i)->err, STELE_OK);
            (void)node_world_check_partition(conn, &topic_id, i, false);
        }
        assert_ok(node_world_stop(world));
        assert_true(exists(world, "a/.kafka_cleanshutdown"));
        node_world_free(world);
    }
}

/* Without its last checkpoints a stop is not clean, says so and leaves no marker; nothing is lost. */
static void test_last_checkpoint(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = world_with_topic(seed, "a", &topic_id);
        struct node_conn *conn = node_world_greet(world, 1);
        for (int i = 0; i < 6; i++)
            assert_int_equal(node_conn_produce(conn, &topic_id, i % 2)->err, STELE_OK);
        sim_disk_break(world->disk, "*a/*-checkpoint*", SIM_DISK_BIT(SIM_DISK_WRITE), STELE_NO_SPACE, 0);
        assert_int_equal(node_world_stop(world), STELE_NO_SPACE);
        assert_false(world->is_fatal);
        assert_false(exists(world, "a/.kafka_cleanshutdown"));
        sim_disk_heal(world->disk);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        for (int32_t i = 0; i < 2; i++)
            (void)node_world_check_partition(conn, &topic_id, i, false);
        node_world_free(world);
    }
}

/* The checkpoints of a round: recovery points as far as was synced, no high watermark above them, start offsets where
 * retention moved them. Segments that retention took are renamed and, after their time, gone. */
static void test_rounds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct stele_uuid topic_id;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.dirs", "a");
        node_world_set(world, "log.segment.bytes", "20000");
        node_world_set(world, "log.retention.bytes", "30000");
        node_world_set(world, "log.retention.check.interval.ms", "20000");
        node_world_set(world, "log.segment.delete.delay.ms", "5000");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        struct node_answer answer;
        assert_int_equal(node_conn_create_topic(conn, "t", 2, &topic_id), STELE_OK);
        for (int i = 0; i < 10; i++) {
            (void)node_conn_put(conn, &topic_id, 0, &(struct node_shape){.value_bytes = 9000, .acks = 1});
            node_conn_take(conn, &answer);
            assert_int_equal(node_world_enter(world, conn, &answer)->err, STELE_OK);
        }
        node_world_pass(world, 6000);
        assert_true(file_has(world, "a/recovery-point-offset-checkpoint", "0\n3\n__cluster_metadata 0 "));
        assert_true(file_has(world, "a/recovery-point-offset-checkpoint", "\nt 0 "));
        assert_true(file_has(world, "a/recovery-point-offset-checkpoint", "\nt 1 0\n"));
        assert_true(exists(world, "a/t-0/00000000000000000000.log"));
        node_world_pass(world, 15000);
        assert_false(exists(world, "a/t-0/00000000000000000000.log"));
        assert_true(exists(world, "a/t-0/00000000000000000000.log.deleted"));
        node_conn_send_list(conn, &topic_id, 0, STELE_TIME_EARLIEST);
        node_conn_take(conn, &answer);
        int64_t start = answer.response.body.list_offsets.results[0].offset;
        assert_true(start > 0);
        node_world_pass(world, 6000);
        assert_false(exists(world, "a/t-0/00000000000000000000.log.deleted"));
        assert_ok(node_world_stop(world));
        char line[32];
        (void)snprintf(line, sizeof(line), "t 0 10\n");
        assert_true(file_has(world, "a/recovery-point-offset-checkpoint", line));
        assert_true(file_has(world, "a/replication-offset-checkpoint", line));
        node_world_start(world);
        conn = node_world_greet(world, 1);
        node_conn_send_list(conn, &topic_id, 0, STELE_TIME_EARLIEST);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.list_offsets.results[0].offset, start);
        assert_int_equal(node_conn_produce(conn, &topic_id, 0)->offset, 10);
        assert_ok(node_world_stop(world));
        node_world_free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_full_create),
        cmocka_unit_test(test_unreadable_range),
        cmocka_unit_test(test_failed_sync),
        cmocka_unit_test(test_failed_dir),
        cmocka_unit_test(test_failed_dir_opening),
        cmocka_unit_test(test_failed_dir_crash),
        cmocka_unit_test(test_flush_messages),
        cmocka_unit_test(test_failed_metadata),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_of_many),
        cmocka_unit_test(test_no_room_for_epochs),
        cmocka_unit_test(test_opening_waits),
        cmocka_unit_test(test_metadata_without_memory),
        cmocka_unit_test(test_deletion_beside_a_full_directory),
        cmocka_unit_test(test_deletion_during_a_round),
        cmocka_unit_test(test_last_checkpoint),
        cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
