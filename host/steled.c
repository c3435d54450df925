/* steled: arguments, the object graph of the real world around a node, signals, the end. */
#include "host/clock.h"
#include "host/heap.h"
#include "host/jobs.h"
#include "host/log_sink.h"
#include "host/loop.h"
#include "host/tcp.h"
#include "host/vfs_posix.h"
#include "node/node.h"
#include "node/settings.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SHARDS_MAX = 65, CONFIG_BYTES_MAX = 1 << 20 };

static const char usage[] =
    "usage: steled [--config FILE] [--data DIR] [--listen HOST:PORT] [--set KEY=VALUE]... [--check]\n\n"
    "Serves a log. Without arguments: data in ./stele-data, clients at 127.0.0.1:7835.\n"
    "  --config FILE       settings, a line each: KEY=VALUE (deploy/steled.conf.example lists them)\n"
    "  --data DIR          where the data lies; short for --set log.dirs=DIR\n"
    "  --listen HOST:PORT  where to serve; port 0 takes a free one; short for --set listeners=HOST:PORT\n"
    "  --set KEY=VALUE     one setting; docs/settings.md lists them\n"
    "  --check             validate the settings and exit\n"
    "Prints one line on standard output when it serves: ready HOST:PORT. Everything else goes to standard error.\n"
    "SIGTERM and SIGINT stop it cleanly. Exit codes: 0 stopped, 1 failed, 2 wrong usage or setting, 3 the data "
    "directory cannot be\n"
    "used, 4 the disk under the metadata log or a checkpoint failed.\n";

struct shard {
    struct steled *steled;
    int index;
    struct stele_loop *loop;
    struct stele_tcp *tcp;
    pthread_t thread;
    bool has_thread;
};

struct steled {
    struct stele_mem mem;
    struct stele_log_sink sink;
    struct stele_vfs *vfs;
    struct stele_jobs *jobs;
    struct stele_settings *settings;
    struct stele_node *node;
    struct shard shards[SHARDS_MAX];
    struct stele_env *envs[SHARDS_MAX];
    struct stele_net *nets[SHARDS_MAX];
    int shard_count;
    int listen_fd;
    char address[300];
    _Atomic int64_t open_count;
    struct event *signals[2];
    bool is_stopping;
    int exit_code;
    bool check_only;
};

static int fail(int code, const char *text)
{
    fprintf(stderr, "steled: %s\n", text);
    return code;
}

/* Arguments */

static enum stele_err read_config(struct steled *steled, const char *path, struct stele_error *error)
{
    uint8_t *text = NULL;
    size_t count = 0;
    enum stele_err err =
        stele_vfs_read_whole(steled->vfs, &steled->mem, STELE_MEM_HOST, path, CONFIG_BYTES_MAX, &text, &count);
    if (err != STELE_OK)
        return stele_error_set(error, err, "%.300s cannot be read: %s", path, stele_err_text(err));
    err = stele_settings_parse(steled->settings, (const char *)text, count, path, error);
    stele_mem_free(&steled->mem, text);
    return err;
}

static enum stele_err set_pair(struct steled *steled, const char *pair, struct stele_error *error)
{
    char name[128];
    const char *equals = strchr(pair, '=');
    if (equals == NULL || (size_t)(equals - pair) >= sizeof(name))
        return stele_error_set(error, STELE_INVALID_CONFIG, "--set %.200s must be KEY=VALUE", pair);
    (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - pair), pair);
    return stele_settings_set(steled->settings, name, equals + 1, "--set", error);
}

static enum stele_err take_option(struct steled *steled, const char *option, const char *value,
                                  struct stele_error *error)
{
    if (strcmp(option, "--config") == 0)
        return read_config(steled, value, error);
    if (strcmp(option, "--data") == 0)
        return stele_settings_set(steled->settings, "log.dirs", value, "--data", error);
    if (strcmp(option, "--listen") == 0)
        return stele_settings_set(steled->settings, "listeners", value, "--listen", error);
    if (strcmp(option, "--set") == 0)
        return set_pair(steled, value, error);
    return stele_error_set(error, STELE_INVALID_ARGUMENT, "unknown option %.100s; see steled --help", option);
}

static int print_page(struct steled *steled, bool is_example)
{
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    char *page = is_example ? stele_settings_example(&steled->mem, rows, count)
                            : stele_settings_reference(&steled->mem, rows, count);
    if (page == NULL)
        return fail(STELE_EXIT_FAILED, "out of memory");
    fputs(page, stdout);
    stele_mem_free(&steled->mem, page);
    return STELE_EXIT_OK;
}

/* -1: go on; otherwise the exit code. A file is read before the options that stand beside it, so that these win. */
static int parse(struct steled *steled, int argc, char **argv)
{
    struct stele_error error = {.text = ""};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 1; i < argc; i++) {
            if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0) {
                printf(argv[i][2] == 'h' ? "%s" : "steled %s\n", argv[i][2] == 'h' ? usage : STELE_VERSION);
                return STELE_EXIT_OK;
            }
            if (strcmp(argv[i], "--settings-reference") == 0 || strcmp(argv[i], "--settings-example") == 0)
                return print_page(steled, strcmp(argv[i], "--settings-example") == 0);
            if (strcmp(argv[i], "--check") == 0) {
                steled->check_only = true;
                continue;
            }
            if (i + 1 == argc) {
                fprintf(stderr, "steled: %s: unknown, or its value is missing; see steled --help\n", argv[i]);
                return STELE_EXIT_USAGE;
            }
            bool is_file = strcmp(argv[i], "--config") == 0;
            enum stele_err err = is_file == (pass == 0) ? take_option(steled, argv[i], argv[i + 1], &error) : STELE_OK;
            if (err != STELE_OK)
                return fail(STELE_EXIT_USAGE, error.text);
            i++;
        }
    }
    return -1;
}

/* The node's calls, on the control shard's loop */

static enum stele_err on_accept(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                                void **out_arg)
{
    struct shard *shard = arg;
    return stele_node_accept(shard->steled->node, shard->index, conn, out_handler, out_arg);
}

/* A socket is served from the loop of the shard that takes its connections. */
struct serve_task {
    struct stele_task task;
    struct shard *shard;
};

static void serve(struct stele_task *task)
{
    struct serve_task *serve_ = STELE_CONTAINER_OF(task, struct serve_task, task);
    struct shard *shard = serve_->shard;
    struct steled *steled = shard->steled;
    struct stele_tcp_accept accept = {.fd = steled->listen_fd,
                                      .accepted = on_accept,
                                      .arg = shard,
                                      .open_count = &steled->open_count,
                                      .open_max = stele_settings_int(steled->settings, "max.connections")};
    free(serve_);
    if (stele_tcp_serve(shard->tcp, &accept) != STELE_OK)
        stele_log_sink_line(&steled->sink, STELE_LEVEL_ERROR, "a shard cannot take connections");
    if (shard->index == STELE_SHARD_DATA) {
        printf("ready %s\n", steled->address);
        fflush(stdout);
    }
}

static void unserve(struct stele_task *task)
{
    struct serve_task *serve_ = STELE_CONTAINER_OF(task, struct serve_task, task);
    stele_tcp_unserve(serve_->shard->tcp);
    free(serve_);
}

static void post_to_shards(struct steled *steled, void (*run)(struct stele_task *task))
{
    for (int i = STELE_SHARD_DATA; i < steled->shard_count; i++) {
        struct serve_task *task = calloc(1, sizeof(*task));
        if (task == NULL)
            abort();
        task->task.run = run;
        task->shard = &steled->shards[i];
        steled->envs[i]->ops->post(steled->envs[i], &task->task);
    }
}

static void stop_loops(struct steled *steled)
{
    for (int i = steled->shard_count - 1; i >= 0; i--)
        stele_loop_stop(steled->shards[i].loop);
}

static void on_ready(void *arg, enum stele_err err, const struct stele_error *error)
{
    struct steled *steled = arg;
    if (err != STELE_OK) {
        bool is_dir = err == STELE_LOCKED || err == STELE_FOREIGN || err == STELE_IO || err == STELE_CORRUPT ||
                      err == STELE_NO_SPACE;
        steled->exit_code = fail(is_dir ? STELE_EXIT_DIR : STELE_EXIT_FAILED, error->text);
        stop_loops(steled);
        return;
    }
    if (!steled->is_stopping)
        post_to_shards(steled, serve);
}

static void on_stopped(void *arg, enum stele_err err)
{
    struct steled *steled = arg;
    if (err != STELE_OK)
        steled->exit_code = fail(STELE_EXIT_STORAGE, "the stop was not clean; the next start will recover");
    stop_loops(steled);
}

static void on_fatal(void *arg, int exit_code, const struct stele_error *error)
{
    (void)arg;
    fprintf(stderr, "steled: %s\n", error->text);
    _exit(exit_code);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct steled *steled = arg;
    (void)what;
    (void)number;
    if (steled->is_stopping)
        return;
    steled->is_stopping = true;
    post_to_shards(steled, unserve);
    stele_node_stop(steled->node);
}

/* The world */

static int64_t shard_deadline(void *arg)
{
    struct shard *shard = arg;
    return stele_node_deadline(shard->steled->node, shard->index);
}

static void shard_tick(void *arg)
{
    struct shard *shard = arg;
    stele_node_tick(shard->steled->node, shard->index);
}

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int build_world(struct steled *steled)
{
    struct stele_error error = {.text = ""};
    int32_t port = 0;
    char host[256], port_text[16];
    const char *listen = stele_settings_text(steled->settings, "listeners");
    steled->jobs = stele_jobs_new(&steled->mem, (int)stele_settings_int(steled->settings, "num.io.threads"));
    steled->shard_count = 1 + (int)stele_settings_int(steled->settings, "num.network.threads");
    for (int i = 0; i < steled->shard_count && steled->jobs != NULL; i++) {
        struct shard *shard = &steled->shards[i];
        struct stele_loop_options options = {
            .mem = &steled->mem, .vfs = steled->vfs, .jobs = steled->jobs, .sink = &steled->sink};
        *shard = (struct shard){.steled = steled, .index = i, .loop = stele_loop_new(&options)};
        shard->tcp = shard->loop == NULL ? NULL : stele_tcp_new(shard->loop);
        if (shard->tcp == NULL)
            return fail(STELE_EXIT_FAILED, "out of memory or descriptors");
        steled->envs[i] = stele_loop_env(shard->loop);
        steled->nets[i] = stele_tcp_net(shard->tcp);
    }
    if (stele_tcp_bind(listen, &steled->listen_fd, &port, &error) != STELE_OK)
        return fail(STELE_EXIT_FAILED, error.text);
    if (stele_tcp_address_split(listen, host, port_text) != STELE_OK)
        return fail(STELE_EXIT_USAGE, "listeners must be HOST:PORT");
    (void)snprintf(steled->address, sizeof(steled->address), "%s:%d", host, port);
    struct stele_node_options options = {.envs = steled->envs,
                                         .nets = steled->nets,
                                         .shard_count = steled->shard_count,
                                         .settings = steled->settings,
                                         .ready = on_ready,
                                         .stopped = on_stopped,
                                         .fatal = on_fatal,
                                         .arg = steled};
    if (steled->jobs == NULL || stele_node_new(&options, &steled->node) != STELE_OK)
        return fail(STELE_EXIT_FAILED, "out of memory");
    const char *advertised = stele_settings_text(steled->settings, "advertised.listeners");
    if (advertised[0] != 0) {
        if (stele_tcp_address_split(advertised, host, port_text) != STELE_OK)
            return fail(STELE_EXIT_USAGE, "advertised.listeners must be HOST:PORT");
        port = (int32_t)strtol(port_text, NULL, 10);
    }
    stele_node_set_advertised(steled->node, host, port);
    for (int i = 0; i < steled->shard_count; i++)
        stele_loop_set_core(
            steled->shards[i].loop,
            &(struct stele_loop_core){.deadline = shard_deadline, .tick = shard_tick, .arg = &steled->shards[i]});
    return -1;
}

static void *run_shard(void *arg)
{
    struct shard *shard = arg;
    stele_loop_run(shard->loop);
    return NULL;
}

static int run_world(struct steled *steled)
{
    static const int numbers[2] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        steled->signals[i] = evsignal_new(stele_loop_base(steled->shards[0].loop), numbers[i], on_signal, steled);
        if (steled->signals[i] == NULL || event_add(steled->signals[i], NULL) != 0)
            return fail(STELE_EXIT_FAILED, "out of memory");
    }
    for (int i = STELE_SHARD_DATA; i < steled->shard_count; i++) {
        struct shard *shard = &steled->shards[i];
        shard->has_thread = pthread_create(&shard->thread, NULL, run_shard, shard) == 0;
        if (!shard->has_thread)
            return fail(STELE_EXIT_FAILED, "no more threads");
    }
    stele_node_start(steled->node);
    stele_loop_run(steled->shards[0].loop);
    for (int i = STELE_SHARD_DATA; i < steled->shard_count; i++)
        pthread_join(steled->shards[i].thread, NULL);
    return steled->exit_code;
}

static void free_world(struct steled *steled)
{
    stele_jobs_free(steled->jobs);
    stele_node_free(steled->node);
    for (int i = 0; i < 2; i++) {
        if (steled->signals[i] != NULL)
            event_free(steled->signals[i]);
    }
    for (int i = 0; i < steled->shard_count; i++) {
        stele_tcp_free(steled->shards[i].tcp);
        stele_loop_free(steled->shards[i].loop);
    }
    if (steled->listen_fd >= 0)
        close(steled->listen_fd);
}

int main(int argc, char **argv)
{
    static struct steled steled = {.sink = {.fd = STDERR_FILENO, .level_min = STELE_LEVEL_INFO}, .listen_fd = -1};
    int count = 0;
    (void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    stele_mem_init(&steled.mem, stele_heap_source(), 0);
    steled.vfs = stele_vfs_posix_new(&steled.mem);
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    steled.settings = stele_settings_new(&steled.mem, rows, count);
    if (steled.vfs == NULL || steled.settings == NULL)
        return fail(STELE_EXIT_FAILED, "out of memory");
    int code = parse(&steled, argc, argv);
    if (code < 0 && steled.check_only)
        code = STELE_EXIT_OK;
    if (code < 0) {
        steled.mem.limit_bytes = stele_settings_int(steled.settings, "memory.limit");
        raise_descriptors();
        code = build_world(&steled);
        if (code < 0)
            code = run_world(&steled);
        free_world(&steled);
    }
    stele_settings_free(steled.settings);
    stele_vfs_posix_free(steled.vfs);
    return code;
}
