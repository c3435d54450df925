/* What vs-kafka.sh needs beside the two nodes: the bare loops that a node cannot be cheaper than, and when a node
 * answers for the first time.
 *
 *   bench_bare receive MB FILE      a process receives so much from a loopback socket and writes it to the file
 *   bench_bare send MB FILE         a process sends so much of the file with sendfile
 *   bench_bare ready NODE PORT      waits until the node (kafka, stele) tells its brokers; prints the time of day in ns
 *
 * The first two print the CPU seconds that the process took, and MB/s. */
#include "bench/bench_util.h"

#include "client/stele.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP_BYTES = 1000000, POLL_US = 500, PATIENCE_S = 60 };

static void connect_pair(int out_fds[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_require(listener >= 0 && bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0,
                  "a listening socket");
    bench_require(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    out_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_require(connect(out_fds[0], (struct sockaddr *)&address, bytes) == 0, "connect");
    out_fds[1] = accept(listener, NULL, NULL);
    bench_require(out_fds[1] >= 0, "accept");
    close(listener);
}

/* As a node: whole batches come in, then go to the file. */
static void take_all(int fd, int file)
{
    uint8_t *bytes = malloc(STEP_BYTES);
    int64_t pos = 0;
    ssize_t count;
    bench_require(bytes != NULL, "a buffer");
    while ((count = recv(fd, bytes, STEP_BYTES, MSG_WAITALL)) > 0) {
        bench_require(pwrite(file, bytes, (size_t)count, pos) == count, "pwrite");
        pos += count;
    }
    free(bytes);
}

static void give_all(int fd, int file, int64_t bytes)
{
    off_t pos = 0;
    while (pos < bytes) {
        ssize_t count = sendfile(fd, file, &pos, (size_t)stele_min_i64(STEP_BYTES, bytes - pos));
        bench_require(count > 0, "sendfile");
    }
}

static void push(int fd, int64_t left)
{
    char *bytes = calloc(1, STEP_BYTES);
    bench_require(bytes != NULL, "a buffer");
    while (left > 0) {
        ssize_t count = send(fd, bytes, (size_t)stele_min_i64(STEP_BYTES, left), MSG_NOSIGNAL);
        bench_require(count > 0, "send");
        left -= count;
    }
    free(bytes);
}

static void drain(int fd)
{
    char *bytes = malloc(STEP_BYTES);
    bench_require(bytes != NULL, "a buffer");
    while (recv(fd, bytes, STEP_BYTES, 0) > 0)
        ;
    free(bytes);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* The loop runs in a process of its own, whose CPU time the system counts. */
static void run_loop(bool receives, int64_t bytes, const char *path)
{
    int fds[2], status = 0;
    struct rusage usage;
    int file = open(path, receives ? O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);
    bench_require(file >= 0, path);
    connect_pair(fds);
    double from_s = bench_now_s();
    pid_t pid = fork();
    bench_require(pid >= 0, "fork");
    if (pid == 0) {
        close(fds[0]);
        if (receives)
            take_all(fds[1], file);
        else
            give_all(fds[1], file, bytes);
        _exit(0);
    }
    close(fds[1]);
    if (receives)
        push(fds[0], bytes);
    else
        drain(fds[0]);
    close(fds[0]);
    bench_require(wait4(pid, &status, 0, &usage) == pid && status == 0, "the loop");
    double cpu_s = seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
    printf("%.3f %.0f\n", cpu_s, (double)bytes / 1e6 / (bench_now_s() - from_s));
    close(file);
}

static int try_connect(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Kafka's metadata request, version 1, of no topic: the answer's first array has the brokers. */
static bool kafka_answers(int port)
{
    static const uint8_t request[] = {0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0};
    uint8_t answer[12];
    int fd = try_connect(port);
    bool is_good = fd >= 0 && send(fd, request, sizeof(request), MSG_NOSIGNAL) == (ssize_t)sizeof(request) &&
                   recv(fd, answer, sizeof(answer), MSG_WAITALL) == (ssize_t)sizeof(answer) && answer[11] > 0;
    if (fd >= 0)
        close(fd);
    return is_good;
}

static bool stele_answers(int port)
{
    char address[64];
    struct stele_topics *topics = NULL;
    int fd = try_connect(port);
    if (fd < 0)
        return false;
    close(fd);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    struct stele_client *client = stele_client_new(address, NULL, NULL);
    bool is_good = client != NULL && stele_topic_list(client, &topics).code == 0;
    stele_topics_free(topics);
    stele_client_free(client);
    return is_good;
}

static void wait_ready(const char *node, int port)
{
    bool is_kafka = strcmp(node, "kafka") == 0;
    struct timespec now;
    double from_s = bench_now_s();
    while (!(is_kafka ? kafka_answers(port) : stele_answers(port))) {
        bench_require(bench_now_s() - from_s < PATIENCE_S, "an answer");
        usleep(POLL_US);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    printf("%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
}

/* With tiny sizes, that the loops work. */
static int quick(void)
{
    char path[] = "bench_bare.XXXXXX";
    int file = mkstemp(path);
    bench_require(file >= 0, "a file");
    run_loop(true, 5 * STEP_BYTES + 7, path);
    run_loop(false, 5 * STEP_BYTES + 7, path);
    bench_require(lseek(file, 0, SEEK_END) == 5 * STEP_BYTES + 7, "the bytes in the file");
    close(file);
    (void)unlink(path);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "--quick") == 0)
        return quick();
    if (argc == 4 && (strcmp(what, "receive") == 0 || strcmp(what, "send") == 0)) {
        run_loop(what[0] == 'r', strtoll(argv[2], NULL, 10) * 1000000, argv[3]);
        return 0;
    }
    if (argc == 4 && strcmp(what, "ready") == 0) {
        wait_ready(argv[2], (int)strtol(argv[3], NULL, 10));
        return 0;
    }
    (void)fprintf(stderr, "usage: bench_bare receive|send MB FILE | ready kafka|stele PORT\n");
    return 2;
}
