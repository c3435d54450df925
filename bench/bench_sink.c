#include "bench/bench_sink.h"

#include "bench/bench_util.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DRAIN_BYTES = 1 << 18 };

struct bench_sink {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t came;
    int near_fd, far_fd;
    int64_t sent;
    int64_t received; /* under the lock */
};

static void *drain(void *arg)
{
    struct bench_sink *sink = arg;
    uint8_t *bytes = malloc(DRAIN_BYTES);
    ssize_t count;
    bench_require(bytes != NULL, "a buffer");
    while ((count = recv(sink->far_fd, bytes, DRAIN_BYTES, 0)) > 0) {
        pthread_mutex_lock(&sink->lock);
        sink->received += count;
        pthread_cond_signal(&sink->came);
        pthread_mutex_unlock(&sink->lock);
    }
    free(bytes);
    return NULL;
}

static void connect_pair(struct bench_sink *sink)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_require(listener >= 0 && bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, 1) == 0,
                  "a listening socket");
    bench_require(getsockname(listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    sink->near_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bench_require(connect(sink->near_fd, (struct sockaddr *)&address, bytes) == 0, "connect");
    sink->far_fd = accept(listener, NULL, NULL);
    bench_require(sink->far_fd >= 0, "accept");
    close(listener);
}

struct bench_sink *bench_sink_new(void)
{
    struct bench_sink *sink = calloc(1, sizeof(*sink));
    bench_require(sink != NULL, "a sink");
    pthread_mutex_init(&sink->lock, NULL);
    pthread_cond_init(&sink->came, NULL);
    connect_pair(sink);
    bench_require(pthread_create(&sink->thread, NULL, drain, sink) == 0, "a thread");
    return sink;
}

void bench_sink_free(struct bench_sink *sink)
{
    close(sink->near_fd);
    pthread_join(sink->thread, NULL);
    close(sink->far_fd);
    pthread_mutex_destroy(&sink->lock);
    pthread_cond_destroy(&sink->came);
    free(sink);
}

int bench_sink_fd(const struct bench_sink *sink)
{
    return sink->near_fd;
}

void bench_sink_file(struct bench_sink *sink, int fd, int64_t pos, int64_t bytes)
{
    off_t at = pos;
    while (bytes > 0) {
        ssize_t count = sendfile(sink->near_fd, fd, &at, (size_t)bytes);
        bench_require(count > 0, "sendfile");
        bytes -= count;
        sink->sent += count;
    }
}

void bench_sink_wait(struct bench_sink *sink)
{
    pthread_mutex_lock(&sink->lock);
    while (sink->received < sink->sent)
        pthread_cond_wait(&sink->came, &sink->lock);
    pthread_mutex_unlock(&sink->lock);
}
