/* Fetching from a running node: a client sends fetch requests of 1 MiB one after another and takes the answers, beside
 * a client that asks a bare loop for the same ranges of the same file, which it sends with sendfile. Both over
 * loopback. */
#include "bench/bench_peer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FETCH_BYTES = 1 << 20 };

struct range {
    int64_t pos, bytes;
};

struct fetch_case {
    struct stele_uuid topic_id;
    int64_t end;    /* offsets */
    char path[512]; /* of the segment */
    int64_t bytes;  /* in it */
    int node_fd, bare_fd, bare_far_fd;
    pthread_t bare;
    uint8_t *answer;
};

/* The bare loop: a range comes in, its bytes go out. */
static void *serve_bare(void *arg)
{
    struct fetch_case *c = arg;
    int file = open(c->path, O_RDONLY | O_CLOEXEC);
    struct range range;
    bench_require(file >= 0, c->path);
    while (recv(c->bare_far_fd, &range, sizeof(range), MSG_WAITALL) == (ssize_t)sizeof(range)) {
        off_t pos = range.pos;
        for (int64_t left = range.bytes; left > 0;) {
            ssize_t count = sendfile(c->bare_far_fd, file, &pos, (size_t)left);
            bench_require(count > 0, "sendfile");
            left -= count;
        }
    }
    close(file);
    return NULL;
}

static void start_bare(struct fetch_case *c)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_require(bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0, "listen");
    bench_require(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    c->bare_fd = bench_connect(ntohs(address.sin_port));
    c->bare_far_fd = accept(listener, NULL, NULL);
    close(listener);
    bench_require(pthread_create(&c->bare, NULL, serve_bare, c) == 0, "a thread");
}

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct fetch_case *c = arg;
    bench_require(delivery->result.code == 0, delivery->result.text);
    c->end = stele_max_i64(c->end, delivery->offset + 1);
}

/* One partition of records of 1 KiB in batches of `batch_size`. */
static void fill(struct bench_world *world, struct fetch_case *c, const char *address, const char *batch_size)
{
    const struct stele_setting settings[] = {{"batch.size", batch_size}, {NULL, NULL}};
    struct stele_client *client = stele_client_new(address, NULL, NULL);
    struct stele_stat stat;
    char value[1024], name[64] = "node/bench-0/00000000000000000000.log";
    memset(value, 'v', sizeof(value));
    struct stele_result result = stele_topic_create(client, "bench", 1, NULL);
    bench_require(result.code == 0, result.text);
    c->topic_id = bench_topic_id(client, "bench");
    struct stele_producer *producer = stele_producer_new(client, "bench", settings, delivered, c, &result);
    bench_require(producer != NULL, result.text);
    struct stele_message message = {.partition = 0, .timestamp = -1, .value = value, .value_bytes = sizeof(value)};
    for (int64_t sent = 0, want = bench_size(world, 128 << 10, 1 << 10); sent < want;) {
        result = stele_producer_send(producer, &message, 0);
        bench_require(result.code == 0 || result.is_retriable, result.text);
        sent += result.code == 0;
        if (result.code != 0)
            (void)stele_client_poll(client, 10);
    }
    while (stele_producer_pending(producer) > 0)
        (void)stele_producer_flush(producer, 1000);
    stele_producer_free(producer);
    stele_client_free(client);
    bench_path(world, name, c->path);
    bench_check(world->vfs->ops->stat(world->vfs, c->path, &stat), c->path);
    c->bytes = stat.bytes;
}

static struct bench_time run_bare(struct bench_world *world, void *arg)
{
    struct fetch_case *c = arg;
    struct bench_time from = bench_time_now(world);
    for (int64_t pos = 0; pos < c->bytes; pos += FETCH_BYTES) {
        struct range range = {.pos = pos, .bytes = stele_min_i64(FETCH_BYTES, c->bytes - pos)};
        bench_send(c->bare_fd, &range, sizeof(range));
        bench_receive(c->bare_fd, c->answer, (size_t)range.bytes);
    }
    return bench_time_since(world, from);
}

/* The offset after the last whole batch, which is where a consumer goes on. */
static int64_t offset_after(const uint8_t *at, size_t bytes, int64_t offset)
{
    struct stele_batch_header header;
    while (bytes >= STELE_BATCH_HEADER_BYTES && stele_batch_size(at) <= (int64_t)bytes) {
        bench_check(stele_batch_header_read(at, bytes, &header), "a batch");
        offset = stele_batch_last_offset(&header) + 1;
        bytes -= (size_t)stele_batch_size(at);
        at += stele_batch_size(at);
    }
    return offset;
}

static struct bench_time run_ours(struct bench_world *world, void *arg)
{
    struct fetch_case *c = arg;
    struct stele_fetch_partition partition = {
        .topic_id = c->topic_id, .max_bytes = FETCH_BYTES, STELE_FETCH_PARTITION_OF_CONSUMER};
    struct stele_request request = {.header.api = STELE_API_FETCH,
                                    .body.fetch = {STELE_FETCH_OF_CONSUMER, .min_bytes = 1, .max_bytes = 50 << 20,
                                                   .partitions = &partition, .partition_count = 1}};
    struct stele_arena arena;
    struct bench_time from = bench_time_now(world);
    stele_arena_init(&arena, &world->mem, STELE_MEM_TOOL, 1 << 20);
    while (partition.fetch_offset < c->end) {
        struct stele_response response;
        size_t bytes = 0;
        int64_t before = partition.fetch_offset;
        const uint8_t *records = bench_ask(c->node_fd, &arena, &request, c->answer, &response, &bytes);
        bench_check(response.body.fetch.err, "a fetch");
        bench_check(response.body.fetch.results[0].err, "a fetch");
        partition.fetch_offset = offset_after(records, bytes, before);
        bench_require(partition.fetch_offset > before, "an answer without a batch");
        stele_arena_reset(&arena);
    }
    stele_arena_deinit(&arena);
    return bench_time_since(world, from);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *batch_size;
    } rows[] = {{"16 KiB batches", "16384"}, {"64 KiB batches", "65536"}};
    struct bench_world world;
    bench_open(&world, argc, argv);
    bench_title("fetch from a node, 1 MiB a request, one at a time");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct fetch_case c = {.answer = malloc(BENCH_ANSWER_BYTES_MAX)};
        char address[128];
        bench_require(c.answer != NULL, "a buffer");
        bench_node_start(&world, argv[0], NULL, address);
        fill(&world, &c, address, rows[i].batch_size);
        c.node_fd = bench_connect(bench_port(address));
        bench_greet(&world, c.node_fd, c.answer);
        start_bare(&c);
        struct bench_row row = {.name = rows[i].name, .bytes = (double)c.bytes, .goal = 0.85};
        bench_compare(&world, &row, run_bare, run_ours, &c);
        close(c.bare_fd);
        pthread_join(c.bare, NULL);
        close(c.bare_far_fd);
        close(c.node_fd);
        bench_node_stop(&world);
        free(c.answer);
    }
    bench_close(&world);
    return 0;
}
