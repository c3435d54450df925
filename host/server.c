/* Invariants
 *  1. The calling thread runs the control shard's loop; every data shard has a thread of its own.
 *  2. All loops exist before the first thread and are freed after the last one; jobs end before the node is freed.
 * The listening socket is bound before anything of the disk is touched and listened on when the node is ready. */
#include "host/server.h"

#include "base/check.h"
#include "host/conn_limits.h"
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

/* Where connections of a shard come in by one listener. */
struct door {
    struct shard_thread *shard;
    int listener;
};

struct shard_thread {
    struct server *server;
    int index;
    struct stele_loop *loop;
    struct stele_tcp *tcp; /* of a data shard */
    struct door doors[STELE_LISTENERS_MAX];
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
    struct stele_listeners listeners;
    int fds[STELE_LISTENERS_MAX]; /* -1: not bound */
    struct stele_conn_limits *limits;
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
    const struct door *door = arg;
    const struct shard_thread *shard = door->shard;
    return stele_node_accept(shard->server->node, shard->index, door->listener, conn, out_handler, out_arg);
}

static void shard_refused(void *arg, const char *peer, enum stele_conn_refusal why)
{
    struct shard_thread *shard = ((const struct door *)arg)->shard;
    struct stele_env *env = stele_loop_env(shard->loop);
    const char *text = "memory ran out";
    int64_t untold = 0;
    if (why == STELE_CONN_OVER_MAX) {
        STELE_METRIC_ADD(env->metrics, connections_over_max, 1);
        text = "max.connections is reached";
    } else if (why == STELE_CONN_OVER_MAX_PER_IP) {
        STELE_METRIC_ADD(env->metrics, connections_over_max_per_ip, 1);
        text = "its address has max.connections.per.ip";
    } else {
        STELE_METRIC_ADD(env->metrics, connections_refused, 1);
    }
    if (stele_conn_limits_may_tell(shard->server->limits, why, stele_env_mono_ms(env), &untold))
        stele_trace(env, STELE_TRACE_CONN_LIMIT, peer, text, untold, 0, 0);
}

static void serve_run(struct stele_task *task)
{
    struct shard_thread *shard = STELE_CONTAINER_OF(task, struct shard_thread, serve_task);
    struct server *server = shard->server;
    for (int i = 0; i < server->listeners.count; i++) {
        shard->doors[i] = (struct door){.shard = shard, .listener = i};
        struct stele_tcp_accept accept = {.fd = server->fds[i],
                                          .accepted = shard_accepted,
                                          .refused = shard_refused,
                                          .arg = &shard->doors[i],
                                          .limits = server->limits,
                                          .may_pass =
                                              server->listeners.count > 1 && server->listeners.items[i].is_peer};
        if (stele_tcp_serve(shard->tcp, &accept) != STELE_OK)
            say(server, STELE_LEVEL_ERROR, "a shard cannot accept connections");
    }
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

/* HOST:PORT of the first listener, then NAME://HOST:PORT of the others. */
static void name_served(const struct server *server, char *out_text, size_t bytes)
{
    size_t at = 0;
    for (int i = 0; i < server->listeners.count && at < bytes; i++) {
        const struct stele_listener *listener = &server->listeners.items[i];
        char address[STELE_ADDRESS_BYTES];
        stele_address_join(listener->host[0] != 0 ? listener->host : "0.0.0.0", listener->port, address);
        at += (size_t)(i == 0 ? snprintf(out_text, bytes, "%s", address)
                              : snprintf(out_text + at, bytes - at, " %s://%s", listener->name, address));
    }
}

/* False when it cannot be: the server ends then. */
static bool listen_all(struct server *server)
{
    if (server->is_serving)
        return true;
    for (int i = 0; i < server->listeners.count; i++) {
        if (stele_tcp_listen(server->fds[i]) == STELE_OK)
            continue;
        say(server, STELE_LEVEL_ERROR, "a socket cannot be listened on");
        server->exit_code = STELE_EXIT_FAILED;
        stele_loop_stop(server->shards[STELE_SHARD_CONTROL].loop);
        return false;
    }
    for (int i = STELE_SHARD_DATA; i < server->shard_count; i++) {
        struct shard_thread *shard = &server->shards[i];
        shard->serve_task.run = serve_run;
        stele_loop_env(shard->loop)->ops->post(stele_loop_env(shard->loop), &shard->serve_task);
    }
    server->is_serving = true;
    return true;
}

static void node_open(void *arg)
{
    (void)listen_all(arg);
}

static void node_ready(void *arg, enum stele_err err, const struct stele_error *error)
{
    struct server *server = arg;
    struct stele_env *env = stele_loop_env(server->shards[STELE_SHARD_CONTROL].loop);
    if (err != STELE_OK) {
        say(server, STELE_LEVEL_ERROR, error->text);
        bool is_usage = err == STELE_INVALID_ARGUMENT || err == STELE_INVALID_CONFIG;
        bool is_dir = err == STELE_LOCKED || err == STELE_FOREIGN || err == STELE_IO || err == STELE_CORRUPT ||
                      err == STELE_NO_SPACE || err == STELE_UNSUPPORTED_VERSION || err == STELE_NOT_FOUND;
        server->exit_code = is_usage ? STELE_EXIT_USAGE : is_dir ? STELE_EXIT_DIR : STELE_EXIT_FAILED;
        stele_loop_stop(server->shards[STELE_SHARD_CONTROL].loop);
        return;
    }
    if (!listen_all(server))
        return;
    char text[STELE_LISTENERS_MAX * (STELE_ADDRESS_BYTES + STELE_LISTENER_NAME_BYTES + 4)];
    name_served(server, text, sizeof(text));
    stele_trace(env, STELE_TRACE_NODE_STARTED, text, NULL, stele_settings_int(server->options->settings, "node.id"), 0,
                0);
    server->options->ready(server->options->arg, text);
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

static enum stele_err node_check_settings(void *arg, const struct stele_settings *settings, struct stele_error *error)
{
    (void)arg;
    return stele_conn_limits_check(settings, error);
}

static void node_settings_changed(void *arg, const struct stele_settings *settings)
{
    struct server *server = arg;
    struct stele_error error = {.text = "memory ran out"};
    if (stele_conn_limits_take(server->limits, settings, &error) != STELE_OK) {
        say(server, STELE_LEVEL_WARN, "the limits of connections stay as they were:");
        say(server, STELE_LEVEL_WARN, error.text);
    }
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
        /* Of a peer that is gone the name may be gone too, and name servers are slow to say so. */
        if (shard->tcp == NULL || stele_tcp_look_up_aside(shard->tcp, stele_addresses_find) != STELE_OK)
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
                                         .boot_id = stele_process_boot_id(),
                                         .open = node_open,
                                         .ready = node_ready,
                                         .stopped = node_stopped,
                                         .fatal = node_fatal,
                                         .host_stats = node_host_stats,
                                         .check_settings = node_check_settings,
                                         .settings_changed = node_settings_changed,
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

/* Binds every listener, and settles what clients are told. */
static enum stele_err take_addresses(struct server *server)
{
    char machine[STELE_HOST_BYTES] = "localhost", address[STELE_ADDRESS_BYTES], text[STELE_ERROR_TEXT_BYTES];
    struct stele_error error = {.text = ""};
    enum stele_err err = stele_listeners_read(server->options->settings, &server->listeners, &error);
    for (int i = 0; i < server->listeners.count && err == STELE_OK; i++) {
        struct stele_listener *listener = &server->listeners.items[i];
        stele_address_join(listener->host, listener->port, address);
        err = stele_tcp_bind(address, &server->fds[i], &listener->port, &error);
    }
    if (err != STELE_OK) {
        say(server, STELE_LEVEL_ERROR, error.text);
        return err;
    }
    (void)gethostname(machine, sizeof(machine) - 1);
    stele_listeners_settle(&server->listeners, machine);
    for (int i = 0; i < server->listeners.count; i++) {
        const struct stele_listener *listener = &server->listeners.items[i];
        if (stele_host_is_loopback(listener->host))
            continue;
        stele_address_join(listener->host, listener->port, address);
        (void)snprintf(text, sizeof(text),
                       "listener %s (%s) is open beyond this machine, and nothing is asked of who connects: whoever "
                       "reaches it may do everything",
                       listener->name, address);
        say(server, STELE_LEVEL_WARN, text);
    }
    return STELE_OK;
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
    stele_conn_limits_free(server->limits);
    for (int i = 0; i < STELE_LISTENERS_MAX; i++) {
        if (server->fds[i] >= 0)
            close(server->fds[i]);
    }
}

int stele_server_run(const struct stele_server_options *options)
{
    struct server server = {.options = options, .mem = options->mem, .http_fd = -1, .exit_code = STELE_EXIT_FAILED};
    for (int i = 0; i < STELE_LISTENERS_MAX; i++)
        server.fds[i] = -1;
    raise_descriptors();
    if (take_addresses(&server) != STELE_OK) {
        tear_down(&server);
        return STELE_EXIT_FAILED;
    }
    server.shard_count = STELE_SHARD_DATA + data_shards(options->settings);
    server.jobs = stele_jobs_new(options->mem, (int)stele_settings_int(options->settings, "num.io.threads"));
    server.limits = stele_conn_limits_new(options->mem);
    if (server.jobs == NULL || server.limits == NULL || !make_shards(&server) || !make_node(&server) ||
        !make_signals(&server) || !start_threads(&server)) {
        say(&server, STELE_LEVEL_ERROR, "the node cannot start: no memory, threads or descriptors are left");
        tear_down(&server);
        return STELE_EXIT_FAILED;
    }
    if (!start_http(&server)) {
        tear_down(&server);
        return STELE_EXIT_FAILED;
    }
    stele_node_set_listeners(server.node, &server.listeners);
    stele_node_start(server.node);
    stele_loop_run(server.shards[STELE_SHARD_CONTROL].loop);
    tear_down(&server);
    return server.exit_code;
}
