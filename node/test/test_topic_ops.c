/* Topics are removed, made again and grown, records deleted, producer ids given: with others at the same time, with
 * every call that fails, and broken off at every moment. */
#include "node/test/topic_life.h"

#include "storage/checkpoint.h"

#include <stdio.h>
#include <string.h>

static struct node_world *world_new(uint64_t seed)
{
    struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
    if (seed % 2 == 0)
        node_world_set(world, "log.flush.before.ack", "true");
    if (seed % 4 > 1)
        node_world_set(world, "replica.high.watermark.checkpoint.interval.ms", "3");
    if (seed % 5 > 1) /* snapshots of the metadata all the time */
        node_world_set(world, "metadata.log.max.record.bytes.between.snapshots", seed % 5 == 2 ? "1" : "600");
    return world;
}

/* Broken off after any number of movements, by a kill or a loss of power: what was answered holds, nothing is left of
 * what was deleted, and a name that was used before is as good as a new one. */
static bool crash_at(uint64_t seed, int64_t at)
{
    struct topic_life life;
    struct node_world *world = world_new(seed);
    topic_life_init(&life, world);
    life.steps_left = at;
    if (topic_life_start(&life))
        topic_life_run(&life);
    bool is_end = !life.is_broken;
    enum sim_disk_crash_mode mode = (enum sim_disk_crash_mode)stele_prng_below(&world->prng, 3);
    node_world_crash(world, mode);
    topic_life_check(&life, mode != SIM_DISK_KILL);
    sim_disk_crash(world->disk, SIM_DISK_ADVERSARIAL); /* it was stopped: all of it is on the disk */
    topic_life_check(&life, mode != SIM_DISK_KILL);
    node_world_free(world);
    return !is_end;
}

static void test_crash(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        int64_t at = (int64_t)(seed % 7);
        while (crash_at(seed, at))
            at += stele_test_stride(7);
        assert_true(at > 200);
    }
}

/* How a life with a fault may end: it stops, or says why not. */
static void end_life(struct topic_life *life)
{
    struct node_world *world = life->world;
    life->is_broken = world->node == NULL || world->is_fatal || !world->is_ready || world->ready != STELE_OK ||
                      sim_disk_is_stopped(world->disk);
    topic_life_stop(life);
    if (world->is_fatal)
        assert_int_equal(world->exit_code, STELE_EXIT_STORAGE);
    else if (world->node != NULL && world->is_ready && world->ready == STELE_OK)
        assert_true(world->is_stopped || sim_disk_is_stopped(world->disk));
    node_world_drop(world);
}

/* An allocation fails. */
static bool memory_fails_at(uint64_t seed, int64_t at)
{
    struct topic_life life;
    struct node_world *world = world_new(seed);
    topic_life_init(&life, world);
    assert_true(topic_life_start(&life));
    life.may_fail = true;
    stele_test_mem_fail(&world->mem, at, false);
    topic_life_run(&life);
    bool has_failed = world->mem.has_failed;
    end_life(&life);
    sim_disk_crash(world->disk, SIM_DISK_KILL);
    topic_life_check(&life, false);
    node_world_free(world);
    return has_failed;
}

static void test_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        int64_t at = (int64_t)seed;
        while (memory_fails_at(seed, at))
            at += stele_test_stride(5);
        assert_true(at > 200);
    }
}

/* A call of the disk fails, for once or from then on. */
static bool disk_fails_at(uint64_t seed, int64_t at, const struct sim_disk_fault *fault)
{
    struct topic_life life;
    struct node_world *world = world_new(seed);
    topic_life_init(&life, world);
    assert_true(topic_life_start(&life));
    life.may_fail = true;
    sim_disk_arm(world->disk, at, fault);
    topic_life_run(&life);
    bool has_failed = sim_disk_has_struck(world->disk);
    if (fault->is_lasting)
        sim_disk_heal(world->disk);
    end_life(&life);
    enum sim_disk_crash_mode mode = (enum sim_disk_crash_mode)stele_prng_below(&world->prng, 3);
    sim_disk_crash(world->disk, mode);
    topic_life_check(&life, mode != SIM_DISK_KILL);
    node_world_free(world);
    return has_failed;
}

static void each_disk_call(const struct sim_disk_fault *fault, uint64_t first_seed)
{
    for (uint64_t seed = first_seed; seed < first_seed + 4; seed++) {
        int64_t at = 1 + (int64_t)(seed % 3);
        while (disk_fails_at(seed, at, fault))
            at += stele_test_stride(3);
        assert_true(at > 60);
    }
}

static void test_disk_error(void **state)
{
    (void)state;
    each_disk_call(&(struct sim_disk_fault){.err = STELE_IO}, 1);
}

static void test_disk_full(void **state)
{
    (void)state;
    unsigned ops = SIM_DISK_BIT(SIM_DISK_WRITE) | SIM_DISK_BIT(SIM_DISK_SYNC) | SIM_DISK_BIT(SIM_DISK_MKDIR) |
                   SIM_DISK_BIT(SIM_DISK_RENAME) | SIM_DISK_BIT(SIM_DISK_OPEN) | SIM_DISK_BIT(SIM_DISK_TRUNCATE);
    each_disk_call(&(struct sim_disk_fault){.err = STELE_NO_SPACE, .ops = ops}, 5);
}

/* The machine stops at a call of the disk. */
static void test_disk_stops(void **state)
{
    (void)state;
    each_disk_call(&(struct sim_disk_fault){.is_crash = true}, 9);
}

static enum stele_err take_err(struct node_conn *conn)
{
    struct node_answer answer;
    node_conn_take(conn, &answer);
    switch ((int)answer.response.header.api) {
    case STELE_API_CREATE_TOPIC:
        return answer.response.body.create_topic.err;
    case STELE_API_CREATE_PARTITIONS:
        return answer.response.body.create_partitions.err;
    case STELE_API_DELETE_TOPIC:
        return answer.response.body.delete_topic.err;
    default:
        fail_msg("an answer that was not waited for");
        return STELE_OK;
    }
}

static void send_delete(struct node_conn *conn, const char *name)
{
    struct stele_request request = {.header.api = STELE_API_DELETE_TOPIC, .body.delete_topic = {.name = name}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

static void send_grow(struct node_conn *conn, const char *name, int32_t partitions, bool validate_only)
{
    struct stele_request request = {
        .header.api = STELE_API_CREATE_PARTITIONS,
        .body.create_partitions = {.name = name, .partition_count = partitions, .validate_only = validate_only}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

static struct stele_delete_records_partition trim_of(const struct stele_uuid *id, int32_t partition, int64_t offset)
{
    return (struct stele_delete_records_partition){
        .topic_id = *id, .partition = partition, .current_leader_epoch = -1, .offset = offset};
}

static void send_trim(struct node_conn *conn, const struct stele_delete_records_partition *in)
{
    struct stele_request request = {.header.api = STELE_API_DELETE_RECORDS,
                                    .body.delete_records = {.partitions = in, .partition_count = 1}};
    (void)node_conn_send(conn, &request, NULL, 0);
}

/* Who waits on a topic that goes, for records, for a sync or for the checking of a batch, hears UNKNOWN_TOPIC_ID; a
 * range that is being sent arrives whole; the files go after the delay and not before; the name is free at once. */
static void test_waiting(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 120; seed++) {
        struct node_answer answer;
        struct stele_uuid id, again;
        int condemned = 0;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.segment.delete.delay.ms", "1000");
        if (seed % 2 == 0)
            node_world_set(world, "log.flush.before.ack", "true");
        sim_disk_set_rates(world->disk, &(struct sim_disk_rates){.cold = seed % 4 == 0 ? 500000 : 0});
        node_world_start(world);
        struct node_conn *admin = node_world_greet(world, 1), *waits = node_world_greet(world, 1);
        struct node_conn *slow = node_world_greet(world, world->shard_count - 1);
        assert_int_equal(node_conn_create_topic(admin, "t", 3, &id), STELE_OK);
        assert_int_equal(node_conn_produce(admin, &id, 0)->err, STELE_OK);
        struct stele_fetch_partition parked = node_fetch_at(&id, 1, 0), sent = node_fetch_at(&id, 0, 0);
        slow->is_deaf = true;
        node_conn_send_fetch(slow,
                             &(struct stele_fetch_request){
                                 .min_bytes = 1, .max_bytes = 1 << 20, .partitions = &sent, .partition_count = 1});
        node_world_run(world);
        node_conn_send_fetch(waits, &(struct stele_fetch_request){.max_wait_ms = 60000,
                                                                  .min_bytes = 1,
                                                                  .max_bytes = 1 << 20,
                                                                  .partitions = &parked,
                                                                  .partition_count = 1});
        for (uint64_t i = stele_prng_below(&world->prng, 40); i > 0; i--) /* it is parked, or on its way to be */
            (void)node_world_step(world);
        send_delete(admin, "t");
        struct node_conn *busy = node_world_connect(world, world->shard_count - 1);
        struct stele_request hello = {.header.api = STELE_API_HELLO,
                                      .body.hello = {.software_name = "", .software_version = "", .cluster_id = ""}};
        (void)node_conn_send(busy, &hello, NULL, 0);
        for (int i = 0; i < 6; i++)
            (void)node_conn_put(busy, &id, i % 2 * 2,
                                &(struct node_shape){.count = 20,
                                                     .value_bytes = 1500,
                                                     .codec = i % 2 == 0 ? STELE_CODEC_LZ4 : STELE_CODEC_NONE,
                                                     .acks = -1});
        assert_int_equal(take_err(admin), STELE_OK);
        assert_true(node_conn_poll(waits, &answer));
        assert_int_equal(answer.response.body.fetch.results[0].err, STELE_UNKNOWN_TOPIC_ID);
        assert_true(node_conn_poll(busy, &answer));
        for (int i = 0; i < 6; i++) {
            assert_true(node_conn_poll(busy, &answer));
            enum stele_err err = node_world_enter(world, busy, &answer)->err;
            assert_true(err == STELE_OK || err == STELE_UNKNOWN_TOPIC_ID);
        }
        assert_int_equal(topic_life_dirs(world, &condemned), 0);
        assert_int_equal(condemned, 3);
        assert_int_equal(node_conn_create_topic(admin, "t", 3, &again), STELE_OK);
        assert_false(stele_uuid_equal(&id, &again));
        assert_int_equal(node_conn_produce(admin, &again, 0)->offset, 0);
        node_world_pass(world, 900);
        assert_int_equal(topic_life_dirs(world, &condemned), 3);
        assert_int_equal(condemned, 3);
        node_world_pass(world, 200);
        assert_int_equal(topic_life_dirs(world, &condemned), 3);
        assert_int_equal(condemned, 0);
        slow->is_deaf = false;
        node_conn_take(slow, &answer);
        assert_int_equal(answer.response.body.fetch.results[0].err, STELE_OK);
        assert_true(answer.records_bytes > 0);
        assert_int_equal(stele_batch_size(answer.records), (int64_t)answer.records_bytes);
        assert_int_equal(node_world_stop(world), STELE_OK);
        node_world_free(world);
    }
}

/* Several ask for the same names at the same time, to be made, grown and deleted: each request has an answer that fits
 * some order, and in the end there is what the metadata says. */
static void test_races(void **state)
{
    (void)state;
    int64_t counts[3][2] = {{0}};
    for (uint64_t seed = 0; seed < 40; seed++) {
        enum { CONNS = 5, ASKS = 12 };
        static const char *const names[] = {"t", "u"};
        struct topic_life life;
        struct node_conn *conns[CONNS];
        struct node_world *world = world_new(seed);
        topic_life_init(&life, world);
        node_world_start(world);
        for (int i = 0; i < CONNS; i++)
            conns[i] = node_world_greet(world, 1 + i % (world->shard_count - 1));
        for (int k = 0; k < CONNS * ASKS; k++) {
            const char *name = names[stele_prng_below(&world->prng, 2)];
            uint64_t what = stele_prng_below(&world->prng, 5);
            if (what < 2)
                node_conn_send_create(conns[k % CONNS], name, 1 + (int32_t)stele_prng_below(&world->prng, 3), NULL, 0);
            else if (what < 4)
                send_delete(conns[k % CONNS], name);
            else
                send_grow(conns[k % CONNS], name, 4, false);
        }
        for (int k = 0; k < CONNS * ASKS; k++) {
            struct node_answer answer;
            node_conn_take(conns[k % CONNS], &answer);
            const struct stele_response *response = &answer.response;
            if (response->header.api == STELE_API_CREATE_TOPIC) {
                enum stele_err err = response->body.create_topic.err;
                assert_true(err == STELE_OK || err == STELE_TOPIC_ALREADY_EXISTS);
                counts[0][err != STELE_OK]++;
                if (err == STELE_OK) { /* whether it is there in the end, the check sees */
                    assert_true(life.topic_count < TOPIC_LIFE_TOPICS_MAX);
                    life.topics[life.topic_count++] =
                        (struct topic_book){.topic_id = response->body.create_topic.topic_id,
                                            .is_made = TOPIC_FACT_SURE,
                                            .is_deleted = TOPIC_FACT_PERHAPS,
                                            .partitions_min = response->body.create_topic.partition_count,
                                            .partitions_max = 4};
                }
            } else if (response->header.api == STELE_API_DELETE_TOPIC) {
                enum stele_err err = response->body.delete_topic.err;
                assert_true(err == STELE_OK || err == STELE_UNKNOWN_TOPIC_OR_PARTITION);
                counts[1][err != STELE_OK]++;
                for (int i = 0; i < life.topic_count && err == STELE_OK; i++) {
                    if (stele_uuid_equal(&life.topics[i].topic_id, &response->body.delete_topic.topic_id))
                        life.topics[i].is_deleted = TOPIC_FACT_SURE;
                }
            } else {
                enum stele_err err = response->body.create_partitions.err;
                assert_true(err == STELE_OK || err == STELE_UNKNOWN_TOPIC_OR_PARTITION ||
                            err == STELE_INVALID_PARTITIONS);
                counts[2][err != STELE_OK]++;
            }
        }
        node_world_crash(world, SIM_DISK_ADVERSARIAL);
        topic_life_check(&life, true);
        node_world_free(world);
    }
    for (int i = 0; i < 3; i++)
        assert_true(counts[i][0] > 20 && counts[i][1] > 20);
}

/* What may be asked for, and what not, changes nothing when it is refused or only tried. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t partitions;
        bool validate_only;
        enum stele_err err;
    } grows[] = {
        {"t", 3, false, STELE_INVALID_PARTITIONS},        {"t", 2, false, STELE_INVALID_PARTITIONS},
        {"t", 0, false, STELE_INVALID_PARTITIONS},        {"t", -1, false, STELE_INVALID_PARTITIONS},
        {"t", 10001, false, STELE_INVALID_PARTITIONS},    {"u", 5, false, STELE_UNKNOWN_TOPIC_OR_PARTITION},
        {"", 5, false, STELE_UNKNOWN_TOPIC_OR_PARTITION}, {"t", 5, true, STELE_OK},
        {"t", 3, true, STELE_INVALID_PARTITIONS},
    };
    struct stele_uuid id;
    int condemned = 0;
    struct node_answer answer;
    struct node_world *world = node_world_new(1, 2);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    assert_int_equal(node_conn_create_topic(conn, "t", 3, &id), STELE_OK);
    for (size_t i = 0; i < STELE_ARRAY_LEN(grows); i++) {
        send_grow(conn, grows[i].name, grows[i].partitions, grows[i].validate_only);
        node_conn_take(conn, &answer);
        assert_int_equal(answer.response.body.create_partitions.err, grows[i].err);
        assert_int_equal(answer.response.body.create_partitions.message[0] == 0, grows[i].err == STELE_OK);
    }
    send_delete(conn, "u");
    assert_int_equal(take_err(conn), STELE_UNKNOWN_TOPIC_OR_PARTITION);
    send_delete(conn, "");
    assert_int_equal(take_err(conn), STELE_UNKNOWN_TOPIC_OR_PARTITION);
    struct stele_request request = {.header.api = STELE_API_DELETE_TOPIC, .body.delete_topic = {.name = ""}};
    request.body.delete_topic.topic_id.bytes[0] = 1;
    (void)node_conn_send(conn, &request, NULL, 0);
    assert_int_equal(take_err(conn), STELE_UNKNOWN_TOPIC_ID);
    /* A name with the id of another incarnation. */
    request.body.delete_topic.name = "t";
    (void)node_conn_send(conn, &request, NULL, 0);
    assert_int_equal(take_err(conn), STELE_UNKNOWN_TOPIC_ID);
    assert_int_equal(topic_life_dirs(world, &condemned), 3);
    assert_int_equal(condemned, 0);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(node_conn_produce(conn, &id, i)->err, STELE_OK);
    assert_int_equal(node_conn_produce(conn, &id, 3)->err, STELE_UNKNOWN_TOPIC_ID);
    node_world_free(world);
}

/* A directory of a removed topic that was offline when it was removed, or was put back, is deleted by its id at a
 * start; one that no record ever named, or of another id, is left alone. */
static void test_left_directories(void **state)
{
    (void)state;
    for (int offline = 0; offline < 2; offline++) {
        struct topic_life life;
        struct stele_uuid id, other = {.bytes = {9}};
        struct stele_stat stat;
        struct node_world *world = node_world_new(3, 2);
        struct stele_vfs *vfs = sim_disk_vfs(world->disk);
        topic_life_init(&life, world);
        assert_true(topic_life_start(&life));
        struct topic_book *t = topic_life_create(&life, "t", 4);
        for (int32_t i = 0; i < 4; i++)
            topic_life_produce(&life, t, i);
        id = t->topic_id;
        assert_int_equal(node_world_stop(world), STELE_OK);
        if (offline == 1)
            sim_disk_break(world->disk, "b*", 0, STELE_IO, 0);
        life.is_broken = false;
        assert_true(topic_life_start(&life));
        topic_life_delete(&life, t, false);
        assert_int_equal(t->is_deleted, TOPIC_FACT_SURE);
        life.may_fail = offline == 1; /* where the old ones are nobody knows */
        (void)topic_life_create(&life, "t", 1);
        node_world_crash(world, SIM_DISK_ADVERSARIAL);
        sim_disk_heal(world->disk);
        if (offline == 0) { /* put back by hand: it is known until it is forgotten by a snapshot */
            assert_ok(vfs->ops->mkdir(vfs, "b/t-3"));
            assert_ok(stele_partition_metadata_write(vfs, "b/t-3", &id, true));
        }
        assert_ok(vfs->ops->mkdir(vfs, "a/w-0"));
        assert_ok(stele_partition_metadata_write(vfs, "a/w-0", &other, true));
        assert_ok(vfs->ops->mkdir(vfs, "a/t-7"));
        assert_ok(stele_partition_metadata_write(vfs, "a/t-7", &other, true));
        assert_ok(vfs->ops->sync_dir(vfs, "a"));
        assert_ok(vfs->ops->sync_dir(vfs, "b"));
        assert_true(topic_life_start(&life));
        assert_int_equal(vfs->ops->stat(vfs, "b/t-3", &stat), STELE_NOT_FOUND);
        assert_ok(vfs->ops->stat(vfs, "a/w-0", &stat));
        assert_ok(vfs->ops->stat(vfs, "a/t-7", &stat));
        assert_int_equal(node_world_stop(world), STELE_OK);
        assert_ok(vfs->ops->rename(vfs, "a/w-0", "w-0"));
        assert_ok(vfs->ops->rename(vfs, "a/t-7", "t-7"));
        topic_life_check(&life, true);
        node_world_free(world);
    }
}

/* A directory without an id beside the one that has the partition's id is not taken for it, wherever it lies. */
static void test_nameless_twin(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct topic_life life;
        struct stele_stat stat;
        struct node_world *world = node_world_new(5, 1);
        struct stele_vfs *vfs = sim_disk_vfs(world->disk);
        topic_life_init(&life, world);
        assert_true(topic_life_start(&life));
        struct topic_book *books[] = {topic_life_create(&life, "t", 1), topic_life_create(&life, "u", 1)};
        topic_life_produce(&life, books[i], 0);
        assert_int_equal(node_world_stop(world), STELE_OK);
        const char *name = i == 0 ? "t-0" : "u-0";
        char here[16], there[16];
        (void)snprintf(here, sizeof(here), "a/%s", name);
        (void)snprintf(there, sizeof(there), "b/%s", name);
        const char *twin = vfs->ops->stat(vfs, here, &stat) == STELE_OK ? there : here;
        assert_ok(vfs->ops->mkdir(vfs, twin));
        life.is_broken = false;
        assert_true(topic_life_start(&life));
        assert_int_equal(node_world_stop(world), STELE_OK);
        assert_ok(vfs->ops->rmdir(vfs, twin)); /* nothing was put into it */
        topic_life_check(&life, false);
        node_world_free(world);
    }
}

/* What the checkpoints say of a partition that is gone is not believed of the next one of its name: killed before any
 * round of checkpoints, the new one has its records. */
static void test_stale_checkpoints(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct topic_life life;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        topic_life_init(&life, world);
        node_world_set(world, "log.flush.before.ack", "true");
        assert_true(topic_life_start(&life));
        struct topic_book *t = topic_life_create(&life, "t", 2);
        for (int i = 0; i < 20; i++)
            topic_life_produce(&life, t, i % 2);
        node_world_pass(world, 10000); /* the checkpoints know them */
        topic_life_delete(&life, t, false);
        if (seed % 2 == 1) { /* another life in between, which finds them named and gone */
            node_world_crash(world, SIM_DISK_KILL);
            assert_true(topic_life_start(&life));
        }
        t = topic_life_create(&life, "t", 2);
        topic_life_produce(&life, t, 0);
        topic_life_produce(&life, t, 1);
        node_world_crash(world, SIM_DISK_KILL);
        world->traces[STELE_TRACE_LOG_DAMAGED] = world->traces[STELE_TRACE_LOG_FAILED] = 0;
        topic_life_check(&life, false);
        assert_int_equal(world->traces[STELE_TRACE_LOG_DAMAGED], 0);
        assert_int_equal(world->traces[STELE_TRACE_LOG_FAILED], 0);
        node_world_free(world);
    }
}

/* The same while rounds of checkpoints, which began before the partitions went, are under way. */
static void test_stale_rounds(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct topic_life life;
        struct node_answer answer;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.flush.before.ack", "true");
        topic_life_init(&life, world);
        assert_true(topic_life_start(&life));
        struct topic_book *t = topic_life_create(&life, "t", 2), *v = topic_life_create(&life, "v", 1);
        for (int i = 0; i < 8; i++)
            topic_life_produce(&life, t, i % 2);
        node_world_pass(world, 10000);
        struct node_conn *other = node_world_greet(world, 1);
        struct stele_delete_records_partition in = trim_of(&v->topic_id, 0, 0);
        for (int i = 0; i < 3; i++)
            send_trim(other, &in);
        topic_life_delete(&life, t, false);
        t = topic_life_create(&life, "t", 2);
        topic_life_produce(&life, t, 0);
        while (node_conn_poll(other, &answer)) {
        }
        node_world_crash(world, SIM_DISK_KILL);
        world->traces[STELE_TRACE_LOG_DAMAGED] = world->traces[STELE_TRACE_LOG_FAILED] = 0;
        topic_life_check(&life, false);
        assert_int_equal(world->traces[STELE_TRACE_LOG_DAMAGED], 0);
        assert_int_equal(world->traces[STELE_TRACE_LOG_FAILED], 0);
        node_world_free(world);
    }
}

static int64_t list_at(struct node_conn *conn, const struct stele_uuid *id, int64_t timestamp)
{
    struct node_answer answer;
    node_conn_send_list(conn, id, 0, timestamp);
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.body.list_offsets.results[0].err, STELE_OK);
    return answer.response.body.list_offsets.results[0].offset;
}

static struct stele_delete_records_result delete_records(struct node_conn *conn, const struct stele_uuid *id,
                                                         int32_t partition, int64_t offset)
{
    struct node_answer answer;
    struct stele_delete_records_partition in = trim_of(id, partition, offset);
    send_trim(conn, &in);
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.body.delete_records.result_count, 1);
    return answer.response.body.delete_records.results[0];
}

/* The start moves up to the high watermark, never back, and what was answered a loss of power does not take back. */
static void test_delete_records(void **state)
{
    (void)state;
    static const struct {
        int64_t offset;
        enum stele_err err;
        int64_t low;
    } asks[] = {
        {0, STELE_OK, 0},
        {3, STELE_OK, 3},
        {2, STELE_OK, 3},
        {11, STELE_OFFSET_OUT_OF_RANGE, -1},
        {-2, STELE_OFFSET_OUT_OF_RANGE, -1},
        {7, STELE_OK, 7},
        {-1, STELE_OK, 10},
    };
    for (uint64_t seed = 0; seed < STELE_ARRAY_LEN(asks); seed++) {
        static const struct stele_setting_pair compact = {.name = "cleanup.policy", .value = "compact"};
        struct node_answer answer;
        struct stele_uuid id;
        int64_t low = 0;
        struct node_world *world = node_world_new(seed, 1 + (int)(seed % 3));
        node_world_set(world, "log.flush.before.ack", "true");
        node_world_start(world);
        struct node_conn *conn = node_world_greet(world, 1);
        assert_int_equal(node_conn_create_topic(conn, "t", 1, &id), STELE_OK);
        for (int i = 0; i < 10; i++)
            assert_int_equal(node_conn_produce(conn, &id, 0)->err, STELE_OK);
        for (size_t i = 0; i <= seed; i++) {
            struct stele_delete_records_result result = delete_records(conn, &id, 0, asks[i].offset);
            assert_int_equal(result.err, asks[i].err);
            assert_int_equal(result.low_watermark, asks[i].low);
            low = asks[i].err == STELE_OK ? asks[i].low : low;
            assert_int_equal(list_at(conn, &id, STELE_TIME_EARLIEST), low);
        }
        assert_int_equal(delete_records(conn, &id, 1, 0).err, STELE_UNKNOWN_TOPIC_ID);
        node_conn_send_create(conn, "c", 1, &compact, 1);
        node_conn_take(conn, &answer);
        struct stele_uuid compacted = answer.response.body.create_topic.topic_id;
        assert_int_equal(delete_records(conn, &compacted, 0, 0).err, STELE_POLICY_VIOLATION);
        node_world_crash(world, SIM_DISK_ADVERSARIAL);
        node_world_start(world);
        conn = node_world_greet(world, 1);
        assert_int_equal(list_at(conn, &id, STELE_TIME_EARLIEST), low);
        assert_int_equal(list_at(conn, &id, STELE_TIME_LATEST), 10);
        node_world_free(world);
    }
}

/* Producer ids are given once, whoever asks, also over crashes; a transaction is refused by name. */
static void test_producer_ids(void **state)
{
    (void)state;
    static bool is_given[40000];
    struct node_answer answer;
    struct stele_request request = {.header.api = STELE_API_INIT_PRODUCER_ID,
                                    .body.init_producer_id = {.producer_id = -1, .producer_epoch = -1}};
    struct node_world *world = node_world_new(5, 3);
    int64_t given = 0;
    memset(is_given, 0, sizeof(is_given));
    for (int life = 0; life < 12; life++) {
        struct node_conn *conns[3];
        node_world_start(world);
        for (int i = 0; i < 3; i++)
            conns[i] = node_world_greet(world, 1 + i);
        for (int i = 0; i < 30 + 300 * (life % 5); i++)
            (void)node_conn_send(conns[i % 3], &request, NULL, 0);
        int64_t movements = (int64_t)stele_prng_below(&world->prng, 4000);
        while (movements-- > 0 && node_world_step(world)) {
        }
        for (int i = 0; i < 3; i++) {
            while (node_conn_poll(conns[i], &answer)) {
                int64_t id = answer.response.body.init_producer_id.producer_id;
                assert_int_equal(answer.response.body.init_producer_id.err, STELE_OK);
                assert_in_range(id, 0, STELE_ARRAY_LEN(is_given) - 1);
                assert_false(is_given[id]);
                is_given[id] = true;
                given++;
            }
        }
        node_world_crash(world, (enum sim_disk_crash_mode)(life % 3));
    }
    assert_true(given > 1000);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 1);
    request.body.init_producer_id.transactional_id = "x";
    (void)node_conn_send(conn, &request, NULL, 0);
    node_conn_take(conn, &answer);
    assert_int_equal(answer.response.body.init_producer_id.err, STELE_UNSUPPORTED_VERSION);
    assert_non_null(strstr(answer.response.body.init_producer_id.message, "transaction"));
    node_world_free(world);
}

/* A missing topic that a client names is made when both it and the node let it be, with num.partitions; whoever else
 * asks meets the same one. */
static void test_auto_create(void **state)
{
    (void)state;
    static const char *const names[] = {"new", "not legal!", "old"};
    for (int mode = 0; mode < 4; mode++) {
        struct stele_uuid id;
        struct node_answer answer[2];
        struct node_conn *conns[2];
        struct stele_request request = {
            .header.api = STELE_API_METADATA,
            .body.metadata = {.topics = names, .topic_count = 3, .allow_auto_topic_creation = mode % 2 == 1}};
        struct node_world *world = node_world_new((uint64_t)mode, 2);
        bool is_made = mode == 3;
        node_world_set(world, "num.partitions", "3");
        node_world_set(world, "auto.create.topics.enable", mode > 1 ? "true" : "false");
        node_world_start(world);
        for (int i = 0; i < 2; i++)
            conns[i] = node_world_greet(world, 1 + i);
        assert_int_equal(node_conn_create_topic(conns[0], "old", 1, &id), STELE_OK);
        for (int i = 0; i < 2; i++)
            (void)node_conn_send(conns[i], &request, NULL, 0);
        for (int i = 0; i < 2; i++) {
            node_conn_take(conns[i], &answer[i]);
            const struct stele_metadata_topic *topics = answer[i].response.body.metadata.topics;
            assert_int_equal(answer[i].response.body.metadata.topic_count, 3);
            assert_int_equal(topics[0].err, is_made ? STELE_OK : STELE_UNKNOWN_TOPIC_OR_PARTITION);
            assert_int_equal(topics[0].partition_count, is_made ? 3 : 0);
            assert_int_equal(topics[1].err, is_made ? STELE_INVALID_TOPIC_EXCEPTION : STELE_UNKNOWN_TOPIC_OR_PARTITION);
            assert_int_equal(topics[2].err, STELE_OK);
        }
        struct stele_uuid ids[2] = {answer[0].response.body.metadata.topics[0].topic_id,
                                    answer[1].response.body.metadata.topics[0].topic_id};
        assert_true(stele_uuid_equal(&ids[0], &ids[1]));
        if (is_made)
            assert_int_equal(node_conn_produce(conns[1], &ids[0], 2)->err, STELE_OK);
        node_world_free(world);
    }
}

/* A topic is described with its partitions and its own settings. */
static void test_describe(void **state)
{
    (void)state;
    static const char *const names[] = {"t", "u"};
    static const struct stele_setting_pair setting = {.name = "retention.ms", .value = "1234"};
    struct node_answer answer;
    struct node_world *world = node_world_new(1, 2);
    node_world_start(world);
    struct node_conn *conn = node_world_greet(world, 2);
    node_conn_send_create(conn, "t", 3, &setting, 1);
    node_conn_take(conn, &answer);
    for (int all = 0; all < 2; all++) {
        struct stele_request request = {
            .header.api = STELE_API_DESCRIBE_TOPIC,
            .body.describe_topic = {.topics = names, .topic_count = all ? 0 : 2, .all_topics = all}};
        (void)node_conn_send(conn, &request, NULL, 0);
        node_conn_take(conn, &answer);
        const struct stele_describe_topic_response *response = &answer.response.body.describe_topic;
        assert_int_equal(response->topic_count, all ? 1 : 2);
        const struct stele_described_topic *t = &response->topics[0];
        assert_int_equal(t->err, STELE_OK);
        assert_string_equal(t->name, "t");
        assert_int_equal(t->partition_count, 3);
        assert_int_equal(t->partitions[2].partition, 2);
        assert_int_equal(t->partitions[2].leader_id, 1);
        assert_int_equal(t->partitions[2].replica_count, 1);
        assert_int_equal(t->partitions[2].isr_count, 1);
        assert_int_equal(t->setting_count, 1);
        assert_string_equal(t->settings[0].name, "retention.ms");
        assert_string_equal(t->settings[0].value, "1234");
        if (!all)
            assert_int_equal(response->topics[1].err, STELE_UNKNOWN_TOPIC_OR_PARTITION);
    }
    node_world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting),       cmocka_unit_test(test_races),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_left_directories),
        cmocka_unit_test(test_nameless_twin), cmocka_unit_test(test_stale_checkpoints),
        cmocka_unit_test(test_stale_rounds),  cmocka_unit_test(test_delete_records),
        cmocka_unit_test(test_producer_ids),  cmocka_unit_test(test_auto_create),
        cmocka_unit_test(test_describe),      cmocka_unit_test(test_crash),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_disk_error),
        cmocka_unit_test(test_disk_full),     cmocka_unit_test(test_disk_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
