/* Fetching from a running node: a client sends fetch requests of 1 MiB one after another and takes the answers, beside
 * a client that asks a bare loop for the same ranges of the same file, which it sends with sendfile. Both over
 * loopback. */
#include "bench/bench_util.h"

#include "client/stele.h"
#include "proto/codec.h"
#include "proto/frame.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 4 << 20, FETCH_BYTES = 1 << 20 };

struct range {
    int64_t pos, bytes;
};

struct fetch_case {
    struct stele_uuid topic_id;
    int64_t end;    /* offsets */
    char path[512]; /* of the segment */
    int64_t bytes;  /* in it */
    int node_fd, bare_fd, bare_far_fd;
    pid_t node;
    pthread_t bare;
    uint8_t *answer;
    uint64_t correlation_id;
};

static int connect_to(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_require(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    return fd;
}

static void receive(int fd, uint8_t *at, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = recv(fd, at, bytes, 0);
        bench_require(count > 0, "recv");
        at += count;
        bytes -= (size_t)count;
    }
}

static void send_all(int fd, const void *bytes, size_t count)
{
    bench_require(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "send");
}

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
    c->bare_fd = connect_to(ntohs(address.sin_port));
    c->bare_far_fd = accept(listener, NULL, NULL);
    close(listener);
    bench_require(pthread_create(&c->bare, NULL, serve_bare, c) == 0, "a thread");
}

/* steled of the directory that this program lies in, with its data in the scratch directory; its address. */
static void start_node(struct bench_world *world, struct fetch_case *c, const char *self, char out_address[128])
{
    char program[512], data[512], line[128] = "";
    const char *slash = strrchr(self, '/');
    int out[2];
    bench_path(world, "node", data);
    (void)snprintf(program, sizeof(program), "%.*ssteled", slash == NULL ? 0 : (int)(slash - self + 1), self);
    bench_require(pipe(out) == 0, "pipe");
    c->node = fork();
    bench_require(c->node >= 0, "fork");
    if (c->node == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        (void)execl(program, program, "--data", data, "--listen", "127.0.0.1:0", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    bench_require(read(out[0], line, sizeof(line) - 1) > 0 && sscanf(line, "ready %127s", out_address) == 1, program);
    close(out[0]);
}

static void stop_node(struct fetch_case *c)
{
    int status = 0;
    close(c->node_fd);
    bench_require(kill(c->node, SIGTERM) == 0 && waitpid(c->node, &status, 0) == c->node && status == 0, "steled");
}

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct fetch_case *c = arg;
    bench_require(delivery->result.code == 0, delivery->result.text);
    c->end = stele_max_i64(c->end, delivery->offset + 1);
}

static void find_topic(struct stele_client *client, struct fetch_case *c)
{
    struct stele_topics *topics = NULL;
    struct stele_result result = stele_topic_list(client, &topics);
    bench_require(result.code == 0, result.text);
    for (size_t i = 0; i < topics->topic_count; i++) {
        const struct stele_topic_info *info = topics->topics[i];
        if (strcmp(info->name, "bench") == 0)
            bench_check(stele_uuid_parse(info->topic_id, strlen(info->topic_id), &c->topic_id), "a topic id");
    }
    stele_topics_free(topics);
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
    find_topic(client, c);
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
        send_all(c->bare_fd, &range, sizeof(range));
        receive(c->bare_fd, c->answer, (size_t)range.bytes);
    }
    return bench_time_since(world, from);
}

/* Sends a request and receives the answer: the message into *out, its records as a range of c->answer. */
static void ask(struct fetch_case *c, struct stele_arena *arena, struct stele_request *request,
                struct stele_response *out, struct range *out_records)
{
    uint8_t head[STELE_FRAME_HEADER_BYTES];
    struct stele_frame_header header;
    struct stele_buf *frame = NULL;
    request->header.version = 1;
    request->header.correlation_id = ++c->correlation_id;
    bench_check(stele_request_encode(arena, request, 0, &frame), "a request");
    send_all(c->node_fd, frame->bytes, frame->count);
    stele_buf_unref(frame);
    receive(c->node_fd, head, sizeof(head));
    bench_check(stele_frame_header_read(head, ANSWER_BYTES_MAX, &header), "a frame");
    receive(c->node_fd, c->answer, header.frame_bytes - 4);
    bench_check(stele_response_decode(arena, c->answer, header.message_bytes, out), "an answer");
    *out_records = (struct range){.pos = header.message_bytes, .bytes = header.frame_bytes - 4 - header.message_bytes};
}

static void greet(struct bench_world *world, struct fetch_case *c)
{
    struct stele_request request = {
        .header.api = STELE_API_HELLO,
        .body.hello = {.software_name = "bench", .software_version = "", .node_id = -1, .cluster_id = ""}};
    struct stele_response response;
    struct stele_arena arena;
    struct range records;
    stele_arena_init(&arena, &world->mem, STELE_MEM_TOOL, 1 << 20);
    ask(c, &arena, &request, &response, &records);
    bench_check(response.body.hello.err, "a hello");
    stele_arena_deinit(&arena);
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
        struct range records;
        int64_t before = partition.fetch_offset;
        ask(c, &arena, &request, &response, &records);
        bench_check(response.body.fetch.err, "a fetch");
        bench_check(response.body.fetch.results[0].err, "a fetch");
        partition.fetch_offset = offset_after(c->answer + records.pos, (size_t)records.bytes, before);
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
        struct fetch_case c = {.answer = malloc(ANSWER_BYTES_MAX)};
        char address[128];
        int port = 0;
        bench_require(c.answer != NULL, "a buffer");
        start_node(&world, &c, argv[0], address);
        world.child = c.node;
        fill(&world, &c, address, rows[i].batch_size);
        bench_require(sscanf(strrchr(address, ':'), ":%d", &port) == 1, address);
        c.node_fd = connect_to(port);
        greet(&world, &c);
        start_bare(&c);
        struct bench_row row = {.name = rows[i].name, .bytes = (double)c.bytes, .goal = 0.85};
        bench_compare(&world, &row, run_bare, run_ours, &c);
        close(c.bare_fd);
        pthread_join(c.bare, NULL);
        close(c.bare_far_fd);
        stop_node(&c);
        bench_remove(&world, "node");
        free(c.answer);
    }
    bench_close(&world);
    return 0;
}
