/* Invariants
 *  1. The calling thread runs the control shard's loop; every data shard has a thread of its own.
 *  2. All loops exist before the first thread and are freed after the last one; jobs end before the node is freed.
 * The listening socket is bound before anything of the disk is touched and listened on when the node is ready. */
#include "host/server.h"

#include "base/check.h"
#include "host/http.h"
#include "host/jobs.h"
#include "host/log_sink.h"
#include "host/loop.h"
#include "host/process_stats.h"
#include "host/tcp.h"
#include "node/node.h"

#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { DRAIN_MS = 2000, DRAIN_STEP_MS = 20, DATA_SHARDS_MAX = 64 };

struct shard_thread {
    struct server *server;
    int index;
    struct stele_loop *loop;
    struct stele_tcp *tcp; /* of a data shard */
    pthread_t thread;
    bool is_running;
    struct stele_task serve_task, unserve_task;
};

struct server {
    const struct stele_server_options *options;
    struct stele_mem *mem;
    struct stele_jobs *jobs;
    struct shard_thread *shards;
    struct stele_env **envs;
    struct stele_net **nets;
    int shard_count;
    struct stele_node *node;
    struct event *signals[2];
    struct stele_http *http; /* NULL: there is no http.listener */
    int http_fd;
    char address[300];
    int fd;
    int32_t port;
    _Atomic int64_t open_count;
    bool is_serving, is_stopping;
    int exit_code;
};

static void say(struct server *server, enum stele_trace_level level, const char *text)
{
    stele_log_sink_line(server->options->sink, level, text);
}

/* Shards. */

static int64_t shard_deadline(void *arg)
{
    struct shard_thread *shard = arg;
    return stele_node_deadline(shard->server->node, shard->index);
}

static void shard_tick(void *arg)
{
    struct shard_thread *shard = arg;
    stele_node_tick(shard->server->node, shard->index);
}

static enum stele_err shard_accepted(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                                     void **out_arg)
{
    struct shard_thread *shard = arg;
    return stele_node_accept(shard->server->node, shard->index, conn, out_handler, out_arg);
}

static void serve_run(struct stele_task *task)
{
    struct shard_thread *shard = STELE_CONTAINER_OF(task, struct shard_thread, serve_task);
    struct server *server = shard->server;
    struct stele_tcp_accept accept = {.fd = server->fd,
                                      .accepted = shard_accepted,
                                      .arg = shard,
                                      .open_count = &server->open_count,
                                      .open_max = stele_settings_int(server->options->settings, "max.connections")};
    if (stele_tcp_serve(shard->tcp, &accept) != STELE_OK)
        say(server, STELE_LEVEL_ERROR, "a shard cannot accept connections");
}

static void unserve_run(struct stele_task *task)
{
    stele_tcp_unserve(STELE_CONTAINER_OF(task, struct shard_thread, unserve_task)->tcp);
}

static void *shard_main(void *arg)
{
    struct shard_thread *shard = arg;
    stele_loop_run(shard->loop);
    /* The last answers leave, unless a peer does not take them. */
    for (int waited_ms = 0; waited_ms < DRAIN_MS && stele_tcp_count(shard->tcp) > 0; waited_ms += DRAIN_STEP_MS)
        stele_loop_run_once(shard->loop, DRAIN_STEP_MS);
    return NULL;
}

/* The node's calls. */

static void node_ready(void *arg, enum stele_err err, const struct stele_error *error)
{
    struct server *server = arg;
    struct stele_env *env = stele_loop_env(server->shards[STELE_SHARD_CONTROL].loop);
    if (err != STELE_OK) {
        say(server, STELE_LEVEL_ERROR, error->text);
        bool is_dir = err == STELE_LOCKED || err == STELE_FOREIGN || err == STELE_IO || err == STELE_CORRUPT ||
                      err == STELE_NO_SPACE || err == STELE_UNSUPPORTED_VERSION;
        server->exit_code = is_dir ? STELE_EXIT_DIR : STELE_EXIT_FAILED;
        stele_loop_stop(server->shards[STELE_SHARD_CONTROL].loop);
        return;
    }
    if (stele_tcp_listen(server->fd) != STELE_OK) {
        say(server, STELE_LEVEL_ERROR, "the socket cannot be listened on");
        server->exit_code = STELE_EXIT_FAILED;
        stele_loop_stop(server->shards[STELE_SHARD_CONTROL].loop);
        return;
    }
    for (int i = STELE_SHARD_DATA; i < server->shard_count; i++) {
        struct shard_thread *shard = &server->shards[i];
        shard->serve_task.run = serve_run;
        stele_loop_env(shard->loop)->ops->post(stele_loop_env(shard->loop), &shard->serve_task);
    }
    server->is_serving = true;
    stele_trace(env, STELE_TRACE_NODE_STARTED, server->address, NULL,
                stele_settings_int(server->options->settings, "node.id"), 0, 0);
    server->options->ready(server->options->arg, server->address);
}

static void node_stopped(void *arg, enum stele_err err)
{
    struct server *server = arg;
    say(server, err == STELE_OK ? STELE_LEVEL_INFO : STELE_LEVEL_ERROR,
        err == STELE_OK ? "stopped cleanly" : "the stop was not clean; the next start will recover");
    server->exit_code = err == STELE_OK ? STELE_EXIT_OK : STELE_EXIT_STORAGE;
    stele_loop_stop(server->shards[STELE_SHARD_CONTROL].loop);
}

/* As a crash: nothing may be written after it. */
static void node_fatal(void *arg, int exit_code, const struct stele_error *error)
{
    say(arg, STELE_LEVEL_ERROR, error->text);
    _exit(exit_code);
}

static void node_host_stats(void *arg, struct stele_host_stats *out_stats)
{
    (void)arg;
    stele_process_stats(out_stats);
}

static void signal_came(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    if (server->is_stopping)
        return;
    server->is_stopping = true;
    for (int i = STELE_SHARD_DATA; i < server->shard_count && server->is_serving; i++) {
        struct shard_thread *shard = &server->shards[i];
        shard->unserve_task.run = unserve_run;
        stele_loop_env(shard->loop)->ops->post(stele_loop_env(shard->loop), &shard->unserve_task);
    }
    stele_node_stop(server->node);
}

/* Building. */

static bool make_shards(struct server *server)
{
    size_t count = (size_t)server->shard_count;
    server->shards = stele_mem_array(server->mem, STELE_MEM_HOST, count, sizeof(*server->shards));
    server->envs = stele_mem_array(server->mem, STELE_MEM_HOST, count, sizeof(struct stele_env *));
    server->nets = stele_mem_array(server->mem, STELE_MEM_HOST, count, sizeof(struct stele_net *));
    if (server->shards == NULL || server->envs == NULL || server->nets == NULL)
        return false;
    struct stele_loop_options options = {
        .mem = server->mem, .vfs = server->options->vfs, .jobs = server->jobs, .sink = server->options->sink};
    for (int i = 0; i < server->shard_count; i++) {
        struct shard_thread *shard = &server->shards[i];
        shard->server = server;
        shard->index = i;
        shard->loop = stele_loop_new(&options);
        shard->tcp = shard->loop != NULL ? stele_tcp_new(shard->loop) : NULL;
        if (shard->tcp == NULL)
            return false;
        server->envs[i] = stele_loop_env(shard->loop);
        server->nets[i] = stele_tcp_net(shard->tcp);
    }
    return true;
}

static bool make_node(struct server *server)
{
    struct stele_node_options options = {.envs = server->envs,
                                         .nets = server->nets,
                                         .shard_count = server->shard_count,
                                         .settings = server->options->settings,
                                         .ready = node_ready,
                                         .stopped = node_stopped,
                                         .fatal = node_fatal,
                                         .host_stats = node_host_stats,
                                         .arg = server};
    if (stele_node_new(&options, &server->node) != STELE_OK)
        return false;
    for (int i = 0; i < server->shard_count; i++) {
        struct stele_loop_core core = {.deadline = shard_deadline, .tick = shard_tick, .arg = &server->shards[i]};
        stele_loop_set_core(server->shards[i].loop, &core);
    }
    return true;
}

static bool make_signals(struct server *server)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    struct event_base *base = stele_loop_base(server->shards[STELE_SHARD_CONTROL].loop);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL); /* sendfile has no flag against it */
    for (size_t i = 0; i < STELE_ARRAY_LEN(numbers); i++) {
        server->signals[i] = evsignal_new(base, numbers[i], signal_came, server);
        if (server->signals[i] == NULL || event_add(server->signals[i], NULL) != 0)
            return false;
    }
    return true;
}

static bool start_threads(struct server *server)
{
    sigset_t all, before;
    bool is_good = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the calling thread */
    for (int i = STELE_SHARD_DATA; i < server->shard_count && is_good; i++) {
        struct shard_thread *shard = &server->shards[i];
        shard->is_running = pthread_create(&shard->thread, NULL, shard_main, shard) == 0;
        is_good = shard->is_running;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_good;
}

/* The port for machines that watch. What is wrong with it is told, and ends the start. */
static bool start_http(struct server *server)
{
    const char *setting = stele_settings_text(server->options->settings, "http.listener");
    struct stele_http_options options = {
        .mem = server->mem, .loop = server->shards[STELE_SHARD_CONTROL].loop, .fd = -1, .node = server->node};
    char address[300], text[400];
    struct stele_error error = {.text = "http.listener is no address: write HOST:PORT"};
    int32_t port = 0;
    if (setting[0] == 0)
        return true;
    enum stele_err err = stele_http_address(setting, address);
    if (err == STELE_OK)
        err = stele_tcp_bind(address, &options.fd, &port, &error);
    if (err == STELE_OK) {
        (void)stele_error_set(&error, STELE_NO_MEMORY, "the http port cannot be served: no memory or descriptors");
        err = stele_http_new(&options, &server->http);
    }
    server->http_fd = options.fd;
    if (err != STELE_OK) {
        say(server, STELE_LEVEL_ERROR, error.text);
        return false;
    }
    char *colon = strrchr(address, ':');
    (void)snprintf(text, sizeof(text), "http port at %.*s:%d", (int)(colon - address), address, (int)port);
    say(server, STELE_LEVEL_INFO, text);
    return true;
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

/* Binds, and settles what clients are told. */
static enum stele_err take_address(struct server *server, char out_host[256], int32_t *out_port)
{
    const char *listeners = stele_settings_text(server->options->settings, "listeners");
    const char *advertised = stele_settings_text(server->options->settings, "advertised.listeners");
    struct stele_error error;
    char host[256], port[16];
    enum stele_err err = stele_tcp_bind(listeners, &server->fd, &server->port, &error);
    if (err != STELE_OK) {
        say(server, STELE_LEVEL_ERROR, error.text);
        return err;
    }
    err = stele_tcp_address_split(listeners, host, port);
    STELE_ASSERT(err == STELE_OK); /* bind took it */
    (void)snprintf(server->address, sizeof(server->address), strchr(host, ':') != NULL ? "[%s]:%d" : "%s:%d", host,
                   (int)server->port);
    if (!is_loopback(host))
        say(server, STELE_LEVEL_WARN, "the listener is open beyond this machine, and nothing is asked of who connects");
    memcpy(out_host, host, sizeof(host));
    *out_port = server->port;
    if (advertised[0] == 0) {
        if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
            (void)gethostname(out_host, 255);
        return STELE_OK;
    }
    err = stele_tcp_address_split(advertised, out_host, port);
    if (err != STELE_OK)
        say(server, STELE_LEVEL_ERROR, "advertised.listeners is no address: write HOST:PORT");
    else
        *out_port = (int32_t)strtol(port, NULL, 10);
    return err;
}

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* what there is has to do */
}

static int data_shards(const struct stele_settings *settings)
{
    int64_t wanted = stele_settings_int(settings, "num.network.threads");
    int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)(wanted > 0 ? wanted : stele_max_i64(1, stele_min_i64(cores, DATA_SHARDS_MAX)));
}

/* In the reverse order; whatever of it exists. */
static void tear_down(struct server *server)
{
    for (int i = STELE_SHARD_DATA; i < server->shard_count && server->shards != NULL; i++) {
        if (!server->shards[i].is_running)
            continue;
        stele_loop_stop(server->shards[i].loop);
        pthread_join(server->shards[i].thread, NULL);
    }
    stele_jobs_free(server->jobs);
    for (int i = 0; i < server->shard_count && server->shards != NULL; i++)
        stele_tcp_free(server->shards[i].tcp);
    stele_node_free(server->node);
    stele_http_free(server->http);
    if (server->http_fd >= 0)
        close(server->http_fd);
    for (size_t i = 0; i < STELE_ARRAY_LEN(server->signals); i++) {
        if (server->signals[i] != NULL)
            event_free(server->signals[i]);
    }
    for (int i = 0; i < server->shard_count && server->shards != NULL; i++)
        stele_loop_free(server->shards[i].loop);
    stele_mem_free(server->mem, server->envs);
    stele_mem_free(server->mem, server->nets);
    stele_mem_free(server->mem, server->shards);
    if (server->fd >= 0)
        close(server->fd);
}

int stele_server_run(const struct stele_server_options *options)
{
    struct server server = {
        .options = options, .mem = options->mem, .fd = -1, .http_fd = -1, .exit_code = STELE_EXIT_FAILED};
    char host[256];
    int32_t port = 0;
    raise_descriptors();
    if (take_address(&server, host, &port) != STELE_OK) {
        tear_down(&server);
        return STELE_EXIT_FAILED;
    }
    server.shard_count = STELE_SHARD_DATA + data_shards(options->settings);
    server.jobs = stele_jobs_new(options->mem, (int)stele_settings_int(options->settings, "num.io.threads"));
    if (server.jobs == NULL || !make_shards(&server) || !make_node(&server) || !make_signals(&server) ||
        !start_threads(&server)) {
        say(&server, STELE_LEVEL_ERROR, "the node cannot start: no memory, threads or descriptors are left");
        tear_down(&server);
        return STELE_EXIT_FAILED;
    }
    if (!start_http(&server)) {
        tear_down(&server);
        return STELE_EXIT_FAILED;
    }
    stele_node_set_advertised(server.node, host, port);
    stele_node_start(server.node);
    stele_loop_run(server.shards[STELE_SHARD_CONTROL].loop);
    tear_down(&server);
    return server.exit_code;
}
