/* The node core on the simulated disk, spoken to over a connection in memory; one env is both shards', and the test
 * turns its loop. */
#include "base/test/support.h"
#include "cluster-tests/sim/sim_disk.h"
#include "node/node.h"
#include "node/settings.h"
#include "proto/codec.h"
#include "proto/frame.h"
#include "proto/record_batch.h"

#include <string.h>

enum { OUT_BYTES = 1 << 20 };

static struct {
    struct stele_test_env test;
    struct sim_disk *disk;
    struct stele_env *envs[2];
    struct stele_net net, *nets[2];
    struct stele_settings *settings;
    struct stele_node *node;
    enum stele_err ready, stopped;
    bool is_ready, is_stopped;
    /* the connection */
    const struct stele_conn_handler *handler;
    void *arg;
    uint8_t out[OUT_BYTES];
    size_t out_bytes;
    bool is_closed;
    struct stele_arena arena;
    uint64_t correlation_id;
} world;

/* Connections are told apart by nothing: there is one. */
static enum stele_err net_send(struct stele_conn *conn, const struct stele_piece *pieces, int count)
{
    (void)conn;
    for (int i = 0; i < count; i++) {
        assert_true(world.out_bytes + pieces[i].bytes <= OUT_BYTES);
        if (pieces[i].buf != NULL)
            memcpy(world.out + world.out_bytes, pieces[i].at, pieces[i].bytes);
        else
            assert_ok(
                stele_file_read(pieces[i].file->file, world.out + world.out_bytes, pieces[i].bytes, pieces[i].pos));
        world.out_bytes += pieces[i].bytes;
    }
    return STELE_OK;
}

static void net_resume(struct stele_conn *conn)
{
    (void)conn;
}

static void net_close(struct stele_conn *conn, bool flush)
{
    (void)conn;
    (void)flush;
    world.is_closed = true;
}

static const char *net_peer(struct stele_conn *conn)
{
    (void)conn;
    return "test";
}

static const struct stele_net_ops net_ops = {
    .send = net_send, .resume = net_resume, .close = net_close, .peer = net_peer};

static void on_ready(void *arg, enum stele_err err, const struct stele_error *error)
{
    (void)arg;
    (void)error;
    world.is_ready = true;
    world.ready = err;
}

static void on_stopped(void *arg, enum stele_err err)
{
    (void)arg;
    world.is_stopped = true;
    world.stopped = err;
}

static void on_fatal(void *arg, int exit_code, const struct stele_error *error)
{
    (void)arg;
    fail_msg("the node wants to end with %d: %s", exit_code, error->text);
}

static int setup(void **state)
{
    int rows = 0;
    (void)state;
    memset(&world, 0, sizeof(world));
    world.disk = sim_disk_new(1);
    stele_test_env_init(&world.test, sim_disk_vfs(world.disk));
    world.envs[0] = world.envs[1] = &world.test.env;
    world.net.ops = &net_ops;
    world.nets[0] = world.nets[1] = &world.net;
    const struct stele_setting_row *table = stele_node_setting_rows(&rows);
    world.settings = stele_settings_new(&world.test.mem.mem, table, rows);
    stele_arena_init(&world.arena, &world.test.mem.mem, STELE_MEM_TOOL, 0);
    assert_ok(stele_settings_set(world.settings, "log.dirs", "a,b", "test", NULL));
    assert_ok(stele_settings_set(world.settings, "log.dir.reserve.bytes", "0", "test", NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stele_node_free(world.node);
    stele_settings_free(world.settings);
    stele_arena_deinit(&world.arena);
    assert_int_equal(sim_disk_in_use(world.disk), 0);
    sim_disk_free(world.disk);
    stele_test_mem_check_empty(&world.test.mem);
    return 0;
}

static void feed(const uint8_t *bytes, size_t count)
{
    while (count > 0 && !world.is_closed) {
        uint8_t *at = NULL;
        size_t room = 0;
        world.handler->space(world.arg, &at, &room);
        assert_true(room > 0);
        size_t part = room < count ? room : count;
        memcpy(at, bytes, part);
        world.handler->received(world.arg, part);
        bytes += part;
        count -= part;
    }
    stele_test_env_run(&world.test);
}

static void send(struct stele_request *request, const struct stele_buf *records)
{
    struct stele_buf *frame = NULL;
    request->header.version = 1;
    request->header.correlation_id = ++world.correlation_id;
    assert_ok(stele_request_encode(&world.arena, request, records == NULL ? 0 : records->count, &frame));
    feed(frame->bytes, frame->count);
    if (records != NULL)
        feed(records->bytes, records->count);
    stele_buf_unref(frame);
}

/* The oldest answer; its records stay at world.out. */
static void receive(struct stele_response *out, const uint8_t **out_records)
{
    struct stele_frame_header header;
    static uint8_t kept[OUT_BYTES];
    assert_true(world.out_bytes >= STELE_FRAME_HEADER_BYTES);
    assert_ok(stele_frame_header_read(world.out, OUT_BYTES, &header));
    size_t whole = 4 + (size_t)header.frame_bytes;
    assert_true(world.out_bytes >= whole);
    memcpy(kept, world.out, whole);
    memmove(world.out, world.out + whole, world.out_bytes - whole);
    world.out_bytes -= whole;
    assert_ok(stele_response_decode(&world.arena, kept + STELE_FRAME_HEADER_BYTES, header.message_bytes, out));
    *out_records = kept + STELE_FRAME_HEADER_BYTES + header.message_bytes;
}

/* A connection that has said hello. */
static void open_connection(void)
{
    struct stele_response response;
    const uint8_t *records;
    struct stele_request hello = {.header.api = STELE_API_HELLO,
                                  .body.hello = {.software_name = "test", .software_version = "1", .cluster_id = ""}};
    assert_ok(stele_node_accept(world.node, STELE_SHARD_DATA, (struct stele_conn *)&world, &world.handler, &world.arg));
    send(&hello, NULL);
    receive(&response, &records);
    assert_int_equal(response.body.hello.err, STELE_OK);
}

static void start(void)
{
    struct stele_node_options options = {.envs = world.envs,
                                         .nets = world.nets,
                                         .shard_count = 2,
                                         .settings = world.settings,
                                         .ready = on_ready,
                                         .stopped = on_stopped,
                                         .fatal = on_fatal};
    world.is_ready = world.is_stopped = world.is_closed = false;
    world.out_bytes = 0;
    assert_ok(stele_node_new(&options, &world.node));
    stele_node_set_advertised(world.node, "test", 1);
    stele_node_start(world.node);
    stele_test_env_run(&world.test);
    assert_true(world.is_ready);
    assert_int_equal(world.ready, STELE_OK);
    open_connection();
}

static void stop(void)
{
    stele_node_stop(world.node);
    stele_test_env_run(&world.test);
    assert_true(world.is_stopped);
    stele_node_free(world.node);
    world.node = NULL;
}

static struct stele_uuid create_topic(const char *name, int32_t partitions)
{
    struct stele_response response;
    const uint8_t *records;
    struct stele_request request = {
        .header.api = STELE_API_CREATE_TOPIC,
        .body.create_topic = {.name = name, .partition_count = partitions, .replication_factor = -1}};
    send(&request, NULL);
    receive(&response, &records);
    assert_int_equal(response.body.create_topic.err, STELE_OK);
    return response.body.create_topic.topic_id;
}

static struct stele_buf *build(const char *value)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    struct stele_batch_builder *builder = stele_batch_builder_new(&world.test.mem.mem, &options);
    struct stele_buf *batch = NULL;
    struct stele_record_in in = {
        .timestamp = world.test.wall_ms, .value = value, .value_bytes = (int32_t)strlen(value)};
    assert_ok(stele_batch_builder_add(builder, &in));
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    return batch;
}

static enum stele_err produce(const struct stele_uuid *topic_id, int32_t partition, int64_t *out_offset)
{
    struct stele_response response;
    const uint8_t *records;
    struct stele_buf *batch = build("value");
    struct stele_produce_partition wanted = {
        .topic_id = *topic_id, .partition = partition, .records_bytes = (uint32_t)batch->count};
    struct stele_request request = {.header.api = STELE_API_PRODUCE,
                                    .body.produce = {.acks = -1, .partitions = &wanted, .partition_count = 1}};
    send(&request, batch);
    stele_buf_unref(batch);
    receive(&response, &records);
    assert_int_equal(response.body.produce.result_count, 1);
    *out_offset = response.body.produce.results[0].base_offset;
    return response.body.produce.results[0].err;
}

static void send_fetch(const struct stele_uuid *topic_id, int64_t offset, int32_t max_wait_ms)
{
    struct stele_fetch_partition wanted = {.topic_id = *topic_id,
                                           .fetch_offset = offset,
                                           .max_bytes = 1000,
                                           .current_leader_epoch = -1,
                                           .last_fetched_epoch = -1,
                                           .log_start_offset = -1};
    struct stele_request request = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {.replica_id = -1,
                                                   .max_wait_ms = max_wait_ms,
                                                   .min_bytes = 1,
                                                   .max_bytes = 1000,
                                                   .partitions = &wanted,
                                                   .partition_count = 1}};
    send(&request, NULL);
}

static uint32_t fetched_bytes(void)
{
    struct stele_response response;
    const uint8_t *records;
    receive(&response, &records);
    assert_int_equal(response.header.api, STELE_API_FETCH);
    assert_int_equal(response.body.fetch.results[0].err, STELE_OK);
    return response.body.fetch.results[0].records_bytes;
}

/* A parked fetch is answered by an append of its partition only, by its deadline, or by a request behind it. */
static void test_parked_fetch(void **state)
{
    int64_t offset;
    (void)state;
    start();
    struct stele_uuid topic_id = create_topic("t", 2);
    send_fetch(&topic_id, 0, 500);
    assert_int_equal(world.out_bytes, 0);
    stele_node_tick(world.node, STELE_SHARD_DATA);
    stele_test_env_run(&world.test);
    assert_int_equal(world.out_bytes, 0);
    world.test.mono_us += 500000;
    stele_node_tick(world.node, STELE_SHARD_DATA);
    stele_test_env_run(&world.test);
    assert_int_equal(fetched_bytes(), 0);

    /* The request behind it is a produce: the fetch is answered before it, and may have its record already. */
    send_fetch(&topic_id, 0, 500);
    struct stele_buf *batch = build("value");
    struct stele_produce_partition wanted = {.topic_id = topic_id, .records_bytes = (uint32_t)batch->count};
    struct stele_request request = {.header.api = STELE_API_PRODUCE,
                                    .body.produce = {.acks = -1, .partitions = &wanted, .partition_count = 1}};
    send(&request, batch);
    stele_buf_unref(batch);
    (void)fetched_bytes();
    struct stele_response response;
    const uint8_t *records;
    receive(&response, &records);
    assert_int_equal(response.body.produce.results[0].err, STELE_OK);

    /* On a second connection an append of another partition wakes nobody, one of its own does. */
    const struct stele_conn_handler *first_handler = world.handler;
    void *first = world.arg;
    send_fetch(&topic_id, 1, 500);
    open_connection();
    assert_int_equal(produce(&topic_id, 1, &offset), STELE_OK);
    assert_int_equal(world.out_bytes, 0);
    batch = build("value");
    size_t batch_bytes = batch->count;
    send(&request, batch);
    stele_buf_unref(batch);
    receive(&response, &records);
    assert_int_equal(response.body.produce.results[0].base_offset, 1);
    assert_int_equal(fetched_bytes(), batch_bytes);
    first_handler->closed(first, STELE_CLOSED);
    stop();
    assert_int_equal(world.stopped, STELE_OK);
}

/* With a log directory down, what may lie there is offline and not made anew elsewhere; the rest serves, keeps its
 * marker, and all is there again when the directory is. */
static void test_directory_down(void **state)
{
    int64_t offset;
    struct stele_stat stat;
    struct stele_vfs *vfs = sim_disk_vfs(world.disk);
    (void)state;
    start();
    struct stele_uuid topic_id = create_topic("t", 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(produce(&topic_id, 0, &offset), STELE_OK);
        assert_int_equal(produce(&topic_id, 1, &offset), STELE_OK);
    }
    stop();
    assert_int_equal(world.stopped, STELE_OK);
    /* The first is in a beside the metadata log or in b: each directory has one. */
    int down = vfs->ops->stat(vfs, "b/t-0", &stat) == STELE_OK ? 0 : 1, up = 1 - down;
    assert_ok(vfs->ops->stat(vfs, down == 0 ? "b/t-0" : "b/t-1", &stat));
    sim_disk_break(world.disk, "*b/*", 0, STELE_IO, 0);
    sim_disk_break(world.disk, "*b", 0, STELE_IO, 0);
    start();
    assert_int_equal(produce(&topic_id, up, &offset), STELE_OK);
    assert_int_equal(offset, 3);
    assert_int_equal(produce(&topic_id, down, &offset), STELE_KAFKA_STORAGE_ERROR);
    assert_int_equal(vfs->ops->stat(vfs, down == 0 ? "a/t-0" : "a/t-1", &stat), STELE_NOT_FOUND);
    stop();
    assert_int_equal(world.stopped, STELE_OK);
    assert_ok(vfs->ops->stat(vfs, "a/.kafka_cleanshutdown", &stat));
    sim_disk_heal(world.disk);
    start();
    assert_int_equal(produce(&topic_id, down, &offset), STELE_OK);
    assert_int_equal(offset, 3);
    stop();
    assert_int_equal(world.stopped, STELE_OK);
}

/* A log that cannot be opened takes its partition offline, not the node; what its checkpoints said of it is kept for
 * the next start. */
static void test_log_down(void **state)
{
    int64_t offset;
    (void)state;
    assert_ok(stele_settings_set(world.settings, "log.dirs", "a", "test", NULL));
    start();
    struct stele_uuid topic_id = create_topic("t", 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(produce(&topic_id, 0, &offset), STELE_OK);
        assert_int_equal(produce(&topic_id, 1, &offset), STELE_OK);
    }
    stop();
    sim_disk_break(world.disk, "*a/t-1/*.log", 0, STELE_IO, 0);
    start();
    assert_int_equal(produce(&topic_id, 1, &offset), STELE_KAFKA_STORAGE_ERROR);
    assert_int_equal(produce(&topic_id, 0, &offset), STELE_OK);
    stop();
    sim_disk_heal(world.disk);
    uint8_t *text = NULL;
    size_t count = 0;
    assert_ok(stele_vfs_read_whole(sim_disk_vfs(world.disk), &world.test.mem.mem, STELE_MEM_TOOL,
                                   "a/recovery-point-offset-checkpoint", 1000, &text, &count));
    assert_non_null(strstr((const char *)text, "t 1 3\n"));
    stele_mem_free(&world.test.mem.mem, text);
    struct stele_stat stat;
    assert_int_equal(sim_disk_vfs(world.disk)->ops->stat(sim_disk_vfs(world.disk), "a/.kafka_cleanshutdown", &stat),
                     STELE_NOT_FOUND);
    start();
    assert_int_equal(produce(&topic_id, 1, &offset), STELE_OK);
    assert_int_equal(offset, 3);
    stop();
    assert_int_equal(world.stopped, STELE_OK);
}

/* Acknowledged with flush.before.ack means on the disk: a loss of power keeps it. */
static void test_flush_before_ack(void **state)
{
    int64_t offset;
    (void)state;
    assert_ok(stele_settings_set(world.settings, "log.flush.before.ack", "true", "test", NULL));
    start();
    struct stele_uuid topic_id = create_topic("t", 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(produce(&topic_id, 0, &offset), STELE_OK);
    stele_node_free(world.node);
    sim_disk_crash(world.disk, SIM_DISK_ADVERSARIAL);
    start();
    assert_int_equal(produce(&topic_id, 0, &offset), STELE_OK);
    assert_int_equal(offset, 5);
    stop();
}

/* Garbage closes the connection and nothing else. */
static void test_garbage(void **state)
{
    static const uint8_t http[] = "GET / HTTP/1.1\r\n\r\n", bad[] = {0, 0, 0, 8, 0, 0, 0, 4, 1, 2, 3, 4};
    (void)state;
    start();
    feed(http, sizeof(http) - 1);
    assert_true(world.is_closed);
    world.is_closed = false;
    assert_ok(stele_node_accept(world.node, STELE_SHARD_DATA, (struct stele_conn *)&world, &world.handler, &world.arg));
    feed(bad, sizeof(bad));
    assert_true(world.is_closed);
    world.is_closed = false;
    open_connection();
    (void)create_topic("t", 1);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parked_fetch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_directory_down, setup, teardown),
        cmocka_unit_test_setup_teardown(test_log_down, setup, teardown),
        cmocka_unit_test_setup_teardown(test_flush_before_ack, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
