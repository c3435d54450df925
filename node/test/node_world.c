#include "node/test/node_world.h"

#include "base/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POSTER_JOBS = NODE_WORLD_SHARDS_MAX, POSTER_TEST, POSTERS };

static struct node_world_shard *shard_of(struct stele_env *env)
{
    return STELE_CONTAINER_OF(env, struct node_world_shard, env);
}

/* Room for one more of `bytes` each. */
static void *grow(struct node_world *world, void *items, int count, int *inout_capacity, size_t bytes)
{
    if (count < *inout_capacity)
        return items;
    *inout_capacity = *inout_capacity == 0 ? 16 : *inout_capacity * 2;
    void *grown = stele_mem_resize(&world->own.mem, STELE_MEM_TOOL, items, (size_t)*inout_capacity * bytes);
    assert_non_null(grown);
    return grown;
}

/* Room for `more` bytes behind the `count` ones from *inout_at on. */
static uint8_t *reserve(struct node_world *world, uint8_t *bytes, size_t *inout_at, size_t count,
                        size_t *inout_capacity, size_t more)
{
    if (*inout_at + count + more <= *inout_capacity)
        return bytes;
    if (count > 0)
        memmove(bytes, bytes + *inout_at, count);
    *inout_at = 0;
    if ((count + more) * 2 <= *inout_capacity)
        return bytes;
    *inout_capacity = (count + more) * 2;
    bytes = stele_mem_resize(&world->own.mem, STELE_MEM_TOOL, bytes, *inout_capacity);
    assert_non_null(bytes);
    return bytes;
}

/* The env. */

static int64_t world_mono_us(struct stele_env *env)
{
    return shard_of(env)->world->mono_us;
}

static int64_t world_wall_ms(struct stele_env *env)
{
    return shard_of(env)->world->wall_ms;
}

static uint64_t world_random(struct stele_env *env)
{
    return stele_prng_u64(&shard_of(env)->world->prng);
}

static void push(struct node_queue *queue, struct stele_task *task)
{
    task->next = NULL;
    if (queue->last == NULL)
        queue->first = task;
    else
        queue->last->next = task;
    queue->last = task;
}

static void world_post(struct stele_env *env, struct stele_task *task)
{
    struct node_world_shard *shard = shard_of(env);
    push(&shard->inbox[shard->world->poster], task);
}

static void world_job(struct stele_env *env, struct stele_job *job)
{
    struct node_world *world = shard_of(env)->world;
    job->env = env;
    world->jobs = grow(world, world->jobs, world->job_count, &world->job_capacity, sizeof(struct stele_job *));
    world->jobs[world->job_count++] = job;
}

static void world_trace(struct stele_env *env, const struct stele_trace_event *event)
{
    char text[512];
    struct node_world *world = shard_of(env)->world;
    world->traces[event->kind]++;
    (void)stele_trace_text(event, text, sizeof(text));
    if (getenv("NODE_WORLD_TRACE") != NULL)
        print_message("%10lld %d %s\n", (long long)world->mono_us, shard_of(env)->index, text);
}

static const struct stele_env_ops env_ops = {
    .mono_us = world_mono_us,
    .wall_ms = world_wall_ms,
    .random = world_random,
    .job = world_job,
    .post = world_post,
    .trace = world_trace,
};

/* Connections, the node's end. */

static struct node_conn *conn_of(struct stele_conn *conn)
{
    return (struct node_conn *)(void *)conn;
}

static void release(const struct stele_piece *piece)
{
    if (piece->buf != NULL)
        stele_buf_unref(piece->buf);
    else
        piece->file->unref(piece->file);
}

static void drop_pieces(struct node_conn *conn)
{
    while (conn->piece_count > 0)
        release(&conn->pieces[--conn->piece_count]);
    conn->queued_bytes = 0;
}

static enum stele_err net_send(struct stele_conn *in, const struct stele_piece *pieces, int count)
{
    struct node_conn *conn = conn_of(in);
    assert_true(conn->is_up);
    for (int i = 0; i < count; i++) {
        if (pieces[i].bytes == 0)
            continue;
        if (pieces[i].buf != NULL)
            (void)stele_buf_ref(pieces[i].buf);
        else
            pieces[i].file->ref(pieces[i].file);
        conn->pieces = grow(conn->world, conn->pieces, conn->piece_count, &conn->piece_capacity, sizeof(*conn->pieces));
        conn->pieces[conn->piece_count++] = pieces[i];
        conn->queued_bytes += pieces[i].bytes;
    }
    return STELE_OK;
}

static void net_resume(struct stele_conn *in)
{
    struct node_conn *conn = conn_of(in);
    assert_true(conn->is_up);
    conn->is_paused = false;
}

static void net_close(struct stele_conn *in, bool flush)
{
    struct node_conn *conn = conn_of(in);
    assert_true(conn->is_up);
    conn->is_up = false;
    conn->is_closed = true;
    if (!flush)
        drop_pieces(conn);
}

static const char *net_peer(struct stele_conn *conn)
{
    (void)conn;
    return "test";
}

static const struct stele_net_ops net_ops = {
    .send = net_send, .resume = net_resume, .close = net_close, .peer = net_peer};

/* Movements. */

static uint64_t draw(struct node_world *world, uint64_t count)
{
    return world->is_calm ? 0 : stele_prng_below(&world->prng, count);
}

static void run_task(struct node_world *world, struct node_world_shard *shard, struct node_queue *queue)
{
    struct stele_task *task = queue->first;
    queue->first = task->next;
    if (queue->first == NULL)
        queue->last = NULL;
    world->poster = shard->index;
    task->run(task);
    world->poster = POSTER_TEST;
}

static void job_done(struct stele_task *task)
{
    struct stele_job *job = STELE_CONTAINER_OF(task, struct stele_job, task);
    job->done(job);
}

static bool may_run(const struct node_world *world, int at)
{
    for (int i = 0; i < at && world->jobs[at]->lane != NULL; i++) {
        if (world->jobs[i]->lane == world->jobs[at]->lane)
            return false;
    }
    return !world->holds_jobs && (world->jobs[at]->lane != NULL || !world->holds_free_jobs);
}

static void run_job(struct node_world *world, int at)
{
    struct stele_job *job = world->jobs[at];
    memmove(&world->jobs[at], &world->jobs[at + 1], (size_t)(world->job_count - at - 1) * sizeof(struct stele_job *));
    world->job_count--;
    world->poster = POSTER_JOBS;
    job->work(job);
    job->task.run = job_done;
    job->env->ops->post(job->env, &job->task);
    world->poster = POSTER_TEST;
}

/* Some of the bytes that the client sent come in. */
static void move_in(struct node_world *world, struct node_conn *conn)
{
    uint8_t *at = NULL;
    size_t room = 0;
    world->poster = conn->shard;
    conn->handler->space(conn->arg, &at, &room);
    if (conn->is_up && room == 0)
        conn->is_paused = true;
    if (conn->is_up && room > 0) {
        size_t part = stele_min_size(room, conn->in_count);
        if (draw(world, 4) == 1)
            part = 1 + (size_t)draw(world, part);
        memcpy(at, conn->in + conn->in_at, part);
        conn->in_at += part;
        conn->in_count -= part;
        conn->handler->received(conn->arg, part);
    }
    world->poster = POSTER_TEST;
}

static void lose(struct node_conn *conn, enum stele_err why)
{
    struct node_world *world = conn->world;
    world->poster = conn->shard;
    drop_pieces(conn);
    if (conn->is_up) {
        conn->is_up = false;
        conn->handler->closed(conn->arg, why);
    }
    conn->is_closed = true;
    world->poster = POSTER_TEST;
}

/* Some of the bytes that the node sent go out. */
static void move_out(struct node_world *world, struct node_conn *conn)
{
    struct stele_piece *piece = &conn->pieces[0];
    size_t part = piece->bytes;
    if (draw(world, 4) == 1)
        part = 1 + (size_t)draw(world, part);
    conn->out = reserve(world, conn->out, &conn->out_at, conn->out_count, &conn->out_capacity, part);
    uint8_t *to = conn->out + conn->out_at + conn->out_count;
    if (piece->buf != NULL) {
        memcpy(to, piece->at, part);
        piece->at += part;
    } else if (piece->file->is_revoked) {
        lose(conn, STELE_CANCELLED);
        return;
    } else if (stele_file_read(piece->file->file, to, part, piece->pos) != STELE_OK) {
        piece->file->is_bad = true;
        lose(conn, STELE_IO);
        return;
    }
    conn->out_count += part;
    conn->queued_bytes -= part;
    piece->pos += (int64_t)part;
    piece->bytes -= part;
    world->poster = conn->shard;
    if (piece->bytes == 0) {
        release(piece);
        memmove(&conn->pieces[0], &conn->pieces[1], (size_t)(conn->piece_count - 1) * sizeof(*piece));
        conn->piece_count--;
    }
    if (conn->is_up)
        conn->handler->sent(conn->arg, conn->queued_bytes);
    world->poster = POSTER_TEST;
}

static bool can_move_in(const struct node_conn *conn)
{
    return conn->is_up && !conn->is_paused && conn->in_count > 0;
}

static bool can_move_out(const struct node_conn *conn)
{
    return conn->piece_count > 0 && !conn->is_deaf;
}

/* Makes the movement number `at`, or counts them all when `at` is -1. */
static int walk(struct node_world *world, int at)
{
    int count = 0;
    for (int i = 0; i < world->shard_count; i++) {
        for (int poster = 0; poster < POSTERS; poster++) {
            struct node_queue *queue = &world->shards[i].inbox[poster];
            if (queue->first == NULL || count++ != at)
                continue;
            run_task(world, &world->shards[i], queue);
            return at;
        }
    }
    for (int i = 0; i < world->job_count; i++) {
        if (!may_run(world, i) || count++ != at)
            continue;
        run_job(world, i);
        return at;
    }
    for (int i = 0; i < world->conn_count; i++) {
        struct node_conn *conn = world->conns[i];
        if (can_move_in(conn) && count++ == at) {
            move_in(world, conn);
            return at;
        }
        if (can_move_out(conn) && count++ == at) {
            move_out(world, conn);
            return at;
        }
    }
    return count;
}

bool node_world_step(struct node_world *world)
{
    int count = walk(world, -1);
    if (count == 0)
        return false;
    (void)walk(world, (int)draw(world, (uint64_t)count));
    return true;
}

void node_world_run(struct node_world *world)
{
    while (!world->is_fatal && node_world_step(world)) {
    }
}

void node_world_pass(struct node_world *world, int64_t ms)
{
    int64_t end_us = world->mono_us + ms * 1000;
    node_world_run(world);
    while (world->node != NULL && !world->is_fatal) {
        int64_t next_us = INT64_MAX;
        for (int i = 0; i < world->shard_count; i++) {
            int64_t due_ms = stele_node_deadline(world->node, i);
            next_us = stele_min_i64(next_us, due_ms > end_us / 1000 ? INT64_MAX : due_ms * 1000);
        }
        bool is_end = next_us == INT64_MAX;
        int64_t to_us = is_end ? end_us : stele_max_i64(next_us, world->mono_us);
        world->wall_ms += to_us / 1000 - world->mono_us / 1000;
        world->mono_us = to_us;
        if (is_end)
            break;
        for (int i = 0; i < world->shard_count; i++) {
            if (stele_node_deadline(world->node, i) > to_us / 1000)
                continue;
            world->poster = i;
            stele_node_tick(world->node, i);
            world->poster = POSTER_TEST;
        }
        node_world_run(world);
    }
}

void node_world_jump(struct node_world *world, int64_t ms)
{
    world->mono_us += ms * 1000;
    world->wall_ms += ms;
    for (int i = 0; i < world->shard_count; i++) {
        world->poster = i;
        stele_node_tick(world->node, i);
        world->poster = POSTER_TEST;
    }
}

int node_world_job_count(const struct node_world *world)
{
    return world->job_count;
}

/* Life. */

static void on_ready(void *arg, enum stele_err err, const struct stele_error *error)
{
    struct node_world *world = arg;
    assert_int_equal(world->poster, STELE_SHARD_CONTROL);
    assert_false(world->is_ready);
    world->is_ready = true;
    world->ready = err;
    if (error != NULL)
        world->ready_error = *error;
    if (err == STELE_OK)
        return;
    assert_non_null(error);
    assert_int_not_equal(error->text[0], 0);
}

static void on_stopped(void *arg, enum stele_err err)
{
    struct node_world *world = arg;
    assert_int_equal(world->poster, STELE_SHARD_CONTROL);
    assert_false(world->is_stopped);
    world->is_stopped = true;
    world->stopped = err;
}

static void on_fatal(void *arg, int exit_code, const struct stele_error *error)
{
    struct node_world *world = arg;
    assert_int_not_equal(error->text[0], 0);
    world->is_fatal = true;
    world->exit_code = exit_code;
    world->fatal_error = *error;
}

struct node_world *node_world_new(uint64_t seed, int data_shards)
{
    int rows = 0;
    struct node_world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    assert_true(data_shards >= 1 && data_shards < NODE_WORLD_SHARDS_MAX);
    stele_test_mem_init(&world->mem);
    stele_test_mem_init(&world->own);
    stele_prng_init(&world->prng, seed, 0);
    world->is_calm = seed == 0;
    world->wall_ms = 1700000000000;
    world->poster = POSTER_TEST;
    world->disk = sim_disk_new(seed);
    sim_disk_allow_unsynced_rename(world->disk, "*partition.metadata");
    sim_disk_allow_unsynced_rename(world->disk, "*.deleted");
    world->shard_count = data_shards + 1;
    for (int i = 0; i < world->shard_count; i++) {
        struct node_world_shard *shard = &world->shards[i];
        shard->world = world;
        shard->index = i;
        shard->net.ops = &net_ops;
        shard->env = (struct stele_env){
            .ops = &env_ops, .mem = &world->mem.mem, .vfs = sim_disk_vfs(world->disk), .metrics = &shard->metrics};
    }
    const struct stele_setting_row *table = stele_node_setting_rows(&rows);
    world->settings = stele_settings_new(&world->own.mem, table, rows);
    stele_arena_init(&world->arena, &world->own.mem, STELE_MEM_TOOL, 0);
    node_world_set(world, "log.dirs", "a,b");
    node_world_set(world, "log.dir.reserve.bytes", "0");
    return world;
}

void node_world_set(struct node_world *world, const char *name, const char *value)
{
    assert_ok(stele_settings_set(world->settings, name, value, "test", NULL));
}

enum stele_err node_world_begin(struct node_world *world)
{
    struct stele_env *envs[NODE_WORLD_SHARDS_MAX];
    struct stele_net *nets[NODE_WORLD_SHARDS_MAX];
    struct stele_node_options options = {.envs = envs,
                                         .nets = nets,
                                         .shard_count = world->shard_count,
                                         .settings = world->settings,
                                         .ready = on_ready,
                                         .stopped = on_stopped,
                                         .fatal = on_fatal,
                                         .host_stats = world->host_stats,
                                         .check_settings = world->check_settings,
                                         .settings_changed = world->settings_changed,
                                         .arg = world};
    assert_null(world->node);
    for (int i = 0; i < world->shard_count; i++) {
        envs[i] = &world->shards[i].env;
        nets[i] = &world->shards[i].net;
    }
    world->is_ready = world->is_stopped = world->is_fatal = false;
    enum stele_err err = stele_node_new(&options, &world->node);
    if (err != STELE_OK) {
        stele_test_mem_check_empty(&world->mem);
        return err;
    }
    stele_node_set_advertised(world->node, "test", 1);
    world->poster = STELE_SHARD_CONTROL;
    stele_node_start(world->node);
    world->poster = POSTER_TEST;
    return STELE_OK;
}

void node_world_start(struct node_world *world)
{
    assert_ok(node_world_begin(world));
    node_world_run(world);
    assert_true(world->is_ready);
    if (world->ready != STELE_OK)
        print_error("%s\n", world->ready_error.text);
    assert_int_equal(world->ready, STELE_OK);
}

static void free_conns(struct node_world *world)
{
    for (int i = 0; i < world->conn_count; i++) {
        struct node_conn *conn = world->conns[i];
        world->poster = conn->shard;
        drop_pieces(conn);
        world->poster = POSTER_TEST;
        stele_mem_free(&world->own.mem, conn->in);
        stele_mem_free(&world->own.mem, conn->pieces);
        stele_mem_free(&world->own.mem, conn->out);
        stele_mem_free(&world->own.mem, conn);
    }
    world->conn_count = 0;
}

/* What lies in queues is not run: the machine stopped. */
void node_world_drop(struct node_world *world)
{
    stele_test_mem_fail(&world->mem, 0, false);
    free_conns(world);
    stele_node_free(world->node);
    world->node = NULL;
    world->job_count = 0;
    for (int i = 0; i < world->shard_count; i++)
        memset(world->shards[i].inbox, 0, sizeof(world->shards[i].inbox));
    stele_test_mem_check_empty(&world->mem);
    assert_int_equal(sim_disk_in_use(world->disk), 0);
    stele_arena_reset(&world->arena);
}

void node_world_crash(struct node_world *world, enum sim_disk_crash_mode mode)
{
    node_world_drop(world);
    sim_disk_crash(world->disk, mode);
}

enum stele_err node_world_stop(struct node_world *world)
{
    world->poster = STELE_SHARD_CONTROL;
    stele_node_stop(world->node);
    world->poster = POSTER_TEST;
    node_world_run(world);
    assert_true(world->is_stopped);
    enum stele_err err = world->stopped;
    node_world_drop(world);
    return err;
}

void node_world_free(struct node_world *world)
{
    node_world_drop(world);
    if (sim_disk_violations(world->disk) > 0)
        fail_msg("the disk's audits: %s", sim_disk_violation_text(world->disk));
    stele_settings_free(world->settings);
    stele_arena_deinit(&world->arena);
    stele_mem_free(&world->own.mem, world->jobs);
    sim_disk_free(world->disk);
    stele_test_mem_check_empty(&world->own);
    free(world);
}

/* Connections, the client's end. */

struct node_conn *node_world_connect(struct node_world *world, int shard)
{
    assert_true(world->conn_count < NODE_WORLD_CONNS_MAX);
    struct node_conn *conn = stele_mem_alloc(&world->own.mem, STELE_MEM_TOOL, sizeof(*conn));
    assert_non_null(conn);
    conn->world = world;
    conn->shard = shard;
    conn->is_up = true;
    world->poster = shard;
    enum stele_err err = stele_node_accept(world->node, shard, world->listener, (struct stele_conn *)(void *)conn,
                                           &conn->handler, &conn->arg);
    world->poster = POSTER_TEST;
    if (err != STELE_OK) {
        stele_mem_free(&world->own.mem, conn);
        return NULL;
    }
    conn->index = world->conn_count;
    world->conns[world->conn_count++] = conn;
    return conn;
}

struct node_conn *node_world_greet(struct node_world *world, int shard)
{
    struct node_answer answer;
    struct stele_request hello = {.header.api = STELE_API_HELLO,
                                  .body.hello = {.software_name = "test", .software_version = "1", .cluster_id = ""}};
    struct node_conn *conn = node_world_connect(world, shard);
    if (conn == NULL)
        return NULL;
    (void)node_conn_send(conn, &hello, NULL, 0);
    node_world_run(world);
    if (!node_conn_poll(conn, &answer))
        return NULL;
    assert_int_equal(answer.response.body.hello.err, STELE_OK);
    return conn;
}

void node_conn_drop(struct node_conn *conn)
{
    lose(conn, STELE_CLOSED);
    conn->in_count = 0;
}

void node_conn_bytes(struct node_conn *conn, const void *bytes, size_t count)
{
    conn->in = reserve(conn->world, conn->in, &conn->in_at, conn->in_count, &conn->in_capacity, count);
    memcpy(conn->in + conn->in_at + conn->in_count, bytes, count);
    conn->in_count += count;
}

uint64_t node_conn_send(struct node_conn *conn, struct stele_request *request, const uint8_t *records,
                        size_t records_bytes)
{
    struct stele_buf *frame = NULL;
    request->header.version = 1;
    request->header.correlation_id = ++conn->sent_id;
    assert_ok(stele_request_encode(&conn->world->arena, request, records_bytes, &frame));
    node_conn_bytes(conn, frame->bytes, frame->count);
    if (records_bytes > 0)
        node_conn_bytes(conn, records, records_bytes);
    stele_buf_unref(frame);
    return conn->sent_id;
}

bool node_conn_poll(struct node_conn *conn, struct node_answer *out)
{
    struct stele_frame_header header;
    if (conn->out_count < STELE_FRAME_HEADER_BYTES)
        return false;
    const uint8_t *at = conn->out + conn->out_at;
    assert_ok(stele_frame_header_read(at, INT32_MAX, &header));
    size_t whole = 4 + (size_t)header.frame_bytes;
    if (conn->out_count < whole)
        return false;
    uint8_t *kept = stele_arena_alloc(&conn->world->arena, whole);
    assert_non_null(kept);
    memcpy(kept, at, whole);
    conn->out_at += whole;
    conn->out_count -= whole;
    assert_ok(stele_response_decode(&conn->world->arena, kept + STELE_FRAME_HEADER_BYTES, header.message_bytes,
                                    &out->response));
    out->records = kept + STELE_FRAME_HEADER_BYTES + header.message_bytes;
    out->records_bytes = whole - STELE_FRAME_HEADER_BYTES - header.message_bytes;
    assert_true(out->response.header.correlation_id > conn->taken_id);
    assert_true(out->response.header.correlation_id <= conn->sent_id);
    conn->taken_id = out->response.header.correlation_id;
    return true;
}

void node_conn_take(struct node_conn *conn, struct node_answer *out)
{
    node_world_run(conn->world);
    assert_true(node_conn_poll(conn, out));
}
