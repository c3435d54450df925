/* Requests on several connections, against a node with one data shard and with two: how many a second, how long they
 * take, and the CPU time of the node and of this program for each. The frames are made beforehand and their answers
 * only counted, large ones by the kernel without a copy (MSG_TRUNC), so that this program takes as little of the
 * processors as a client can. */
#include "bench/bench_peer.h"

#include "base/sort.h"
#include "proto/frame.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 2, /* of this program */
    CONNS = 16,  /* of both */
    PARTITIONS = 16,
    DEPTH_MAX = 16,
    SAMPLES_MAX = 1 << 20,
    ANSWER_BYTES = 65536,
};

struct conn {
    int fd;
    struct stele_buf *frame; /* what is sent again and again, its records too */
    int64_t sent_ns[DEPTH_MAX];
    unsigned sent, answered;
    uint8_t head[4];
    size_t head_bytes, left; /* of the answer that comes in */
};

struct load {
    const char *name;
    bool is_fetch;
    int depth;          /* requests under way on a connection */
    size_t batch_bytes; /* 1: a single record */
    int fill_count;     /* batches that a fetch finds in a partition */
    int32_t fetch_bytes;
};

struct side {
    struct conn *conns;
    int count, epoll;
    int depth;
    double seconds;
    int64_t answers;
    uint32_t *samples_us; /* SAMPLES_MAX; every answer until they are full */
    int64_t sample_count;
};

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void send_one(struct conn *conn, int depth)
{
    conn->sent_ns[conn->sent++ % (unsigned)depth] = now_ns();
    bench_send(conn->fd, conn->frame->bytes, conn->frame->count);
}

static void take_answer(struct side *side, struct conn *conn, int64_t now)
{
    int64_t took_us = (now - conn->sent_ns[conn->answered++ % (unsigned)side->depth]) / 1000;
    side->answers++;
    if (side->sample_count < SAMPLES_MAX)
        side->samples_us[side->sample_count++] = (uint32_t)stele_min_i64(took_us, UINT32_MAX);
}

/* Takes the answers out of what came; returns how many ended. */
static int take_bytes(struct side *side, struct conn *conn, const uint8_t *at, size_t bytes)
{
    int64_t now = now_ns();
    int ended = 0;
    while (bytes > 0) {
        if (conn->left == 0) {
            conn->head[conn->head_bytes++] = *at++;
            bytes--;
            if (conn->head_bytes < sizeof(conn->head))
                continue;
            conn->left =
                (size_t)conn->head[0] << 24 | (size_t)conn->head[1] << 16 | (size_t)conn->head[2] << 8 | conn->head[3];
            conn->head_bytes = 0;
            continue;
        }
        size_t part = stele_min_size(bytes, conn->left);
        at += part;
        bytes -= part;
        conn->left -= part;
        if (conn->left == 0) {
            take_answer(side, conn, now);
            ended++;
        }
    }
    return ended;
}

static void serve_ready(struct side *side, struct conn *conn, bool goes_on)
{
    uint8_t bytes[ANSWER_BYTES];
    bool is_dropped = conn->left > sizeof(bytes);
    ssize_t count = is_dropped ? recv(conn->fd, NULL, conn->left, MSG_DONTWAIT | MSG_TRUNC)
                               : recv(conn->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    bench_require(count > 0, "an answer");
    int ended = 0;
    if (!is_dropped) {
        ended = take_bytes(side, conn, bytes, (size_t)count);
    } else if ((conn->left -= (size_t)count) == 0) {
        take_answer(side, conn, now_ns());
        ended = 1;
    }
    for (int i = 0; i < ended && goes_on; i++)
        send_one(conn, side->depth);
}

static int64_t under_way(const struct side *side)
{
    int64_t count = 0;
    for (int i = 0; i < side->count; i++)
        count += (int64_t)(side->conns[i].sent - side->conns[i].answered);
    return count;
}

static void *run_side(void *arg)
{
    struct side *side = arg;
    struct epoll_event events[CONNS];
    double end_s = bench_now_s() + side->seconds;
    bool goes_on = true;
    for (int i = 0; i < side->count * side->depth; i++)
        send_one(&side->conns[i % side->count], side->depth);
    while (goes_on || under_way(side) > 0) {
        int count = epoll_wait(side->epoll, events, CONNS, 10000);
        bench_require(count > 0 || (count < 0 && errno == EINTR), "an answer within 10 s");
        goes_on = goes_on && bench_now_s() < end_s;
        for (int i = 0; i < count; i++)
            serve_ready(side, events[i].data.ptr, goes_on);
    }
    return NULL;
}

/* The frame of a request to one partition, with the batch of a produce behind its message. */
static struct stele_buf *frame_of(struct bench_world *world, const struct load *load, const struct stele_uuid *topic_id,
                                  int32_t partition)
{
    struct stele_buf *batch = bench_batch(world, load->batch_bytes, 100, 1), *head = NULL;
    const struct stele_produce_partition produce = {
        .topic_id = *topic_id, .partition = partition, .records_bytes = (uint32_t)batch->count};
    const struct stele_fetch_partition fetch = {.topic_id = *topic_id,
                                                .partition = partition,
                                                .max_bytes = load->fetch_bytes,
                                                STELE_FETCH_PARTITION_OF_CONSUMER};
    struct stele_request request = {.header.version = 1};
    struct stele_arena arena;
    if (load->is_fetch) {
        request.header.api = STELE_API_FETCH;
        request.body.fetch = (struct stele_fetch_request){STELE_FETCH_OF_CONSUMER, .min_bytes = 1, .max_bytes = 1 << 20,
                                                          .partitions = &fetch, .partition_count = 1};
    } else {
        request.header.api = STELE_API_PRODUCE;
        request.body.produce = (struct stele_produce_request){
            .acks = -1, .timeout_ms = 30000, .partitions = &produce, .partition_count = 1};
    }
    size_t records = load->is_fetch ? 0 : batch->count;
    stele_arena_init(&arena, &world->mem, STELE_MEM_TOOL, 1 << 20);
    bench_check(stele_request_encode(&arena, &request, records, &head), "a request");
    struct stele_buf *frame = stele_buf_new(&world->mem, STELE_MEM_TOOL, head->count + records);
    bench_require(frame != NULL, "a frame");
    memcpy(frame->bytes, head->bytes, head->count);
    memcpy(frame->bytes + head->count, batch->bytes, records);
    frame->count = head->count + records;
    stele_arena_deinit(&arena);
    stele_buf_unref(head);
    stele_buf_unref(batch);
    return frame;
}

struct run {
    struct side sides[THREADS];
    struct conn conns[CONNS];
    double node_cpu_s, own_cpu_s, wall_s;
};

static void open_run(struct bench_world *world, struct run *run, const struct load *load, int port,
                     const struct stele_uuid *topic_id)
{
    uint8_t *answer = malloc(BENCH_ANSWER_BYTES_MAX);
    bench_require(answer != NULL, "a buffer");
    for (int i = 0; i < CONNS; i++) {
        struct side *side = &run->sides[i % THREADS];
        struct conn *conn = &run->conns[i % THREADS * (CONNS / THREADS) + i / THREADS];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        if (side->conns == NULL) {
            *side = (struct side){.conns = conn,
                                  .epoll = epoll_create1(EPOLL_CLOEXEC),
                                  .depth = load->depth,
                                  .seconds = world->is_quick ? 0.1 : 2,
                                  .samples_us = malloc(SAMPLES_MAX * sizeof(uint32_t))};
            bench_require(side->epoll >= 0 && side->samples_us != NULL, "epoll");
        }
        *conn = (struct conn){.fd = bench_connect(port), .frame = frame_of(world, load, topic_id, i % PARTITIONS)};
        bench_greet(world, conn->fd, answer);
        bench_require(epoll_ctl(side->epoll, EPOLL_CTL_ADD, conn->fd, &event) == 0, "epoll");
        side->count++;
    }
    free(answer);
}

static void close_run(struct run *run)
{
    for (int i = 0; i < CONNS; i++) {
        close(run->conns[i].fd);
        stele_buf_unref(run->conns[i].frame);
    }
    for (int i = 0; i < THREADS; i++) {
        close(run->sides[i].epoll);
        free(run->sides[i].samples_us);
    }
}

/* The node's CPU time is that of the world's child less this program's. */
static void work(struct bench_world *world, struct run *run)
{
    pthread_t threads[THREADS];
    struct bench_world own = {.child = 0};
    struct bench_time all = bench_time_now(world), mine = bench_time_now(&own);
    for (int i = 0; i < THREADS; i++)
        bench_require(pthread_create(&threads[i], NULL, run_side, &run->sides[i]) == 0, "a thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    all = bench_time_since(world, all);
    mine = bench_time_since(&own, mine);
    run->wall_s = mine.wall_s;
    run->own_cpu_s = mine.cpu_s;
    run->node_cpu_s = all.cpu_s - mine.cpu_s;
}

struct figures {
    double a_second, p50_us, p99_us, node_us, own_us, cores;
};

static int compare_us(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void take_figures(struct run *run, struct figures *out)
{
    uint32_t *samples = malloc(THREADS * SAMPLES_MAX * sizeof(*samples));
    size_t count = 0;
    double answers = 0;
    bench_require(samples != NULL, "a buffer");
    for (int i = 0; i < THREADS; i++) {
        size_t part = (size_t)run->sides[i].sample_count;
        memcpy(samples + count, run->sides[i].samples_us, part * sizeof(*samples));
        count += part;
        answers += (double)run->sides[i].answers;
    }
    bench_require(count > 0, "answers");
    stele_sort(samples, count, sizeof(*samples), compare_us);
    *out = (struct figures){.a_second = answers / run->wall_s,
                            .p50_us = samples[count / 2],
                            .p99_us = samples[count * 99 / 100],
                            .node_us = run->node_cpu_s * 1e6 / answers,
                            .own_us = run->own_cpu_s * 1e6 / answers,
                            .cores = run->node_cpu_s / run->wall_s};
    free(samples);
}

/* A node with so many data shards, started for this run. */
static void run_load(struct bench_world *world, const char *self, const struct load *load, int shards,
                     struct figures *out)
{
    struct run *run = calloc(1, sizeof(*run));
    char address[128], setting[64];
    const struct load fill = {.depth = load->fill_count, .batch_bytes = load->batch_bytes};
    bench_require(run != NULL, "a run");
    (void)snprintf(setting, sizeof(setting), "num.network.threads=%d", shards);
    bench_node_start(world, self, setting, address);
    struct stele_client *client = stele_client_new(address, NULL, NULL);
    struct stele_result result = stele_topic_create(client, "bench", PARTITIONS, NULL);
    bench_require(result.code == 0, result.text);
    struct stele_uuid topic_id = bench_topic_id(client, "bench");
    stele_client_free(client);
    if (load->is_fetch) { /* something to fetch, in every partition */
        open_run(world, run, &fill, bench_port(address), &topic_id);
        run->sides[0].seconds = run->sides[1].seconds = 0;
        work(world, run);
        close_run(run);
        memset(run, 0, sizeof(*run));
    }
    open_run(world, run, load, bench_port(address), &topic_id);
    work(world, run);
    take_figures(run, out);
    close_run(run);
    bench_node_stop(world);
    free(run);
}

static double median_of(const struct figures *figures, int count, size_t at)
{
    double values[BENCH_ROUNDS_MAX];
    for (int i = 0; i < count; i++)
        values[i] = *(const double *)((const char *)&figures[i] + at);
    return bench_median(values, count);
}

static void print_row(const char *name, int shards, const struct figures *figures, int count)
{
#define MEDIAN(field) median_of(figures, count, offsetof(struct figures, field))
    printf("%-44s %6d %11.0f %8.0f %8.0f %9.2f %9.2f %7.2f\n", name, shards, MEDIAN(a_second), MEDIAN(p50_us),
           MEDIAN(p99_us), MEDIAN(node_us), MEDIAN(own_us), MEDIAN(cores));
#undef MEDIAN
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct load loads[] = {
        {.name = "produce, 16 connections, 1 request each", .depth = 1, .batch_bytes = 1},
        {.name = "produce, 16 connections, 16 requests each", .depth = 16, .batch_bytes = 1},
        {.name = "fetch, 16 connections, 1 request each",
         .is_fetch = true,
         .depth = 1,
         .batch_bytes = 1,
         .fill_count = 1,
         .fetch_bytes = 1},
        {.name = "fetch, 16 connections, 16 requests each",
         .is_fetch = true,
         .depth = 16,
         .batch_bytes = 1,
         .fill_count = 1,
         .fetch_bytes = 1},
        {.name = "fetch of 1 MiB, 16 connections, 1 each",
         .is_fetch = true,
         .depth = 1,
         .batch_bytes = 65536,
         .fill_count = DEPTH_MAX,
         .fetch_bytes = 1 << 20},
    };
    static struct figures figures[STELE_ARRAY_LEN(loads)][2][BENCH_ROUNDS_MAX];
    struct bench_world world;
    bench_open(&world, argc, argv);
    world.rounds = (int)stele_min_i64(world.rounds, 5);
    for (int round = 0; round < world.rounds; round++) {
        for (size_t i = 0; i < STELE_ARRAY_LEN(loads); i++) {
            for (int j = 0; j < 2; j++) {
                int shards = (round + j) % 2;
                run_load(&world, argv[0], &loads[i], shards + 1, &figures[i][shards][round]);
            }
        }
    }
    printf("\n%-44s %6s %11s %8s %8s %9s %9s %7s\n", "requests of 100 bytes to 16 partitions", "shards", "requests/s",
           "p50 us", "p99 us", "node us", "client us", "cores");
    for (size_t i = 0; i < STELE_ARRAY_LEN(loads); i++) {
        for (int shards = 0; shards < 2; shards++)
            print_row(loads[i].name, shards + 1, figures[i][shards], world.rounds);
    }
    bench_close(&world);
    return 0;
}
