#include "bench/bench_peer.h"

#include "proto/frame.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_node_start(struct bench_world *world, const char *self, const char *setting, char out_address[128])
{
    char program[512], data[512], line[128] = "";
    const char *slash = strrchr(self, '/');
    int out[2];
    bench_path(world, "node", data);
    (void)snprintf(program, sizeof(program), "%.*ssteled", slash == NULL ? 0 : (int)(slash - self + 1), self);
    bench_require(pipe(out) == 0, "pipe");
    world->child = fork();
    bench_require(world->child >= 0, "fork");
    if (world->child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* should this program fail */
        const char *set = setting != NULL ? "--set" : NULL;
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        (void)execl(program, program, "--data", data, "--listen", "127.0.0.1:0", set, setting, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    bench_require(read(out[0], line, sizeof(line) - 1) > 0 && sscanf(line, "ready %127s", out_address) == 1, program);
    close(out[0]);
}

void bench_node_stop(struct bench_world *world)
{
    int status = 0;
    bench_require(kill(world->child, SIGTERM) == 0 && waitpid(world->child, &status, 0) == world->child && status == 0,
                  "steled");
    world->child = 0;
    bench_remove(world, "node");
}

int bench_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    bench_require(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    bench_require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "TCP_NODELAY");
    return fd;
}

int bench_port(const char *address)
{
    const char *colon = strrchr(address, ':');
    int port = 0;
    bench_require(colon != NULL && sscanf(colon, ":%d", &port) == 1, address);
    return port;
}

void bench_receive(int fd, uint8_t *at, size_t bytes)
{
    while (bytes > 0) {
        ssize_t count = recv(fd, at, bytes, 0);
        bench_require(count > 0, "recv");
        at += count;
        bytes -= (size_t)count;
    }
}

void bench_send(int fd, const void *bytes, size_t count)
{
    bench_require(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count, "send");
}

const uint8_t *bench_ask(int fd, struct stele_arena *arena, struct stele_request *request, uint8_t *answer,
                         struct stele_response *out, size_t *out_record_bytes)
{
    uint8_t head[STELE_FRAME_HEADER_BYTES];
    struct stele_frame_header header;
    struct stele_buf *frame = NULL;
    request->header.version = 1;
    bench_check(stele_request_encode(arena, request, 0, &frame), "a request");
    bench_send(fd, frame->bytes, frame->count);
    stele_buf_unref(frame);
    bench_receive(fd, head, sizeof(head));
    bench_check(stele_frame_header_read(head, BENCH_ANSWER_BYTES_MAX, &header), "a frame");
    bench_receive(fd, answer, header.frame_bytes - 4);
    bench_check(stele_response_decode(arena, answer, header.message_bytes, out), "an answer");
    *out_record_bytes = header.frame_bytes - 4 - header.message_bytes;
    return answer + header.message_bytes;
}

void bench_greet(struct bench_world *world, int fd, uint8_t *answer)
{
    struct stele_request request = {
        .header.api = STELE_API_HELLO,
        .body.hello = {.software_name = "bench", .software_version = "", .node_id = -1, .cluster_id = ""}};
    struct stele_response response;
    struct stele_arena arena;
    size_t bytes = 0;
    stele_arena_init(&arena, &world->mem, STELE_MEM_TOOL, 1 << 20);
    (void)bench_ask(fd, &arena, &request, answer, &response, &bytes);
    bench_check(response.body.hello.err, "a hello");
    stele_arena_deinit(&arena);
}

struct stele_uuid bench_topic_id(struct stele_client *client, const char *name)
{
    struct stele_topics *topics = NULL;
    struct stele_uuid id = {{0}};
    struct stele_result result = stele_topic_list(client, &topics);
    bench_require(result.code == 0, result.text);
    for (size_t i = 0; i < topics->topic_count; i++) {
        const struct stele_topic_info *info = topics->topics[i];
        if (strcmp(info->name, name) == 0)
            bench_check(stele_uuid_parse(info->topic_id, strlen(info->topic_id), &id), "a topic id");
    }
    stele_topics_free(topics);
    bench_require(!stele_uuid_is_zero(&id), name);
    return id;
}
