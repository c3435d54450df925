/* steled: the arguments; host/server.c is the rest. */
#include "host/conn_limits.h"
#include "host/heap.h"
#include "host/http.h"
#include "host/log_sink.h"
#include "host/own_place.h"
#include "host/server.h"
#include "host/vfs_posix.h"
#include "node/listeners.h"
#include "node/node.h"
#include "node/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_BYTES_MAX = 1 << 20 };

static const char synopsis[] =
    "steled [--config FILE] [--data DIR] [--listen HOST:PORT] [--peers HOST:PORT,... [--node K]] [--set KEY=VALUE]... "
    "[--check]";

/* The help and the manual page are made of these. */
static const struct {
    const char *option, *meaning;
} option_rows[] = {
    {"--config FILE", "settings, a line each: KEY=VALUE (deploy/steled.conf.example lists them)"},
    {"--data DIR", "where the data lies; short for --set log.dirs=DIR"},
    {"--listen HOST:PORT", "where to serve; port 0 takes a free one; short for --set listeners=PLAINTEXT://HOST:PORT"},
    {"--peers HOST:PORT,...", "the nodes that form a cluster, the same list on each; short for --set peers=..."},
    {"--node K", "which of them this is, from 1; by default the one that is an address of this machine"},
    {"--set KEY=VALUE", "one setting; docs/settings.md lists them"},
    {"STELED_KEY=VALUE", "the same in the environment, dots as underscores: STELED_LOG_DIRS=/data"},
    {"--check", "validate the settings and exit"},
};

static const struct {
    int code;
    const char *meaning;
} exit_rows[] = {
    {STELE_EXIT_OK, "stopped"},
    {STELE_EXIT_FAILED, "failed"},
    {STELE_EXIT_USAGE, "wrong usage or setting"},
    {STELE_EXIT_DIR, "the data directory cannot be used"},
    {STELE_EXIT_STORAGE, "the disk under the metadata log or a checkpoint failed"},
};

static const char beginning[] = "Serves a log. Without arguments: data in ./stele-data, clients at 127.0.0.1:7835.";
static const char ending[] = "Prints one line on standard output when it serves: ready HOST:PORT, and behind it "
                             "NAME://HOST:PORT of each listener\n"
                             "after the first. Everything else goes to standard error.\n"
                             "SIGTERM and SIGINT stop it cleanly.";

static void print_usage(void)
{
    printf("usage: %s\n\n%s\n", synopsis, beginning);
    for (size_t i = 0; i < STELE_ARRAY_LEN(option_rows); i++)
        printf("  %-18s  %s\n", option_rows[i].option, option_rows[i].meaning);
    printf("%s Exit codes:\n", ending);
    for (size_t i = 0; i < STELE_ARRAY_LEN(exit_rows); i++)
        printf("  %d  %s\n", exit_rows[i].code, exit_rows[i].meaning);
}

static void put_roff(const char *text)
{
    for (; *text != 0; text++) {
        if (*text == '-')
            putchar('\\');
        putchar(*text);
    }
}

/* steled.1 */
static void print_manual(void)
{
    printf(".TH STELED 1\n.SH NAME\nsteled \\- node of the Stele log\n.SH SYNOPSIS\n");
    put_roff(synopsis);
    printf("\n.SH DESCRIPTION\n%s\n%s\n.SH OPTIONS\n", beginning, ending);
    for (size_t i = 0; i < STELE_ARRAY_LEN(option_rows); i++) {
        printf(".TP\n.B ");
        put_roff(option_rows[i].option);
        printf("\n");
        put_roff(option_rows[i].meaning);
        printf("\n");
    }
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < STELE_ARRAY_LEN(exit_rows); i++)
        printf(".TP\n.B %d\n%s\n", exit_rows[i].code, exit_rows[i].meaning);
    printf(".SH SEE ALSO\n.BR stele (1)\n");
}

struct steled {
    struct stele_mem mem;
    struct stele_heap heap;
    struct stele_vfs *vfs;
    struct stele_settings *settings;
    bool check_only;
};

static int fail(int code, const char *text)
{
    fprintf(stderr, "steled: %s\n", text);
    return code;
}

/* Arguments */

/* To its end, for a pipe has no size. -1: it is too large, or cannot be read. */
static ssize_t read_to_end(int fd, char *text)
{
    size_t count = 0;
    for (;;) {
        ssize_t got = read(fd, text + count, CONFIG_BYTES_MAX + 1 - count);
        if (got < 0 && errno == EINTR)
            continue;
        count += got > 0 ? (size_t)got : 0;
        if (count > CONFIG_BYTES_MAX)
            errno = EFBIG;
        if (got < 0 || count > CONFIG_BYTES_MAX)
            return -1;
        if (got == 0)
            return (ssize_t)count;
    }
}

static enum stele_err read_config(struct steled *steled, const char *path, struct stele_error *error)
{
    char *text = stele_mem_alloc(&steled->mem, STELE_MEM_HOST, CONFIG_BYTES_MAX + 1);
    if (text == NULL)
        return stele_error_set(error, STELE_NO_MEMORY, "out of memory");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read_to_end(fd, text);
    enum stele_err err = count < 0
                             ? stele_error_set(error, STELE_IO, "%.300s cannot be read: %s", path, strerror(errno))
                             : stele_settings_parse(steled->settings, text, (size_t)count, path, error);
    if (fd >= 0)
        close(fd);
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
    if (strcmp(option, "--peers") == 0)
        return stele_settings_set(steled->settings, "peers", value, "--peers", error);
    if (strcmp(option, "--node") == 0)
        return stele_settings_set(steled->settings, "node.id", value, "--node", error);
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

/* The table of docs/observe.md. */
static int print_metrics(void)
{
    static const char *const rows[][5] = {
#define STELE_METRIC(field, kind, name, unit, help) {#kind, name, "", unit, help},
#define STELE_METRIC_FAMILY(field, name, label, unit, help) {"COUNTER", name, label, unit, help},
#define STELE_METRIC_HISTOGRAM(field, scale, name, unit, help) {"HISTOGRAM", name, "", unit, help},
#define STELE_METRIC_VIEW(field, kind, name, label, unit, help) {#kind, name, label, unit, help},
#include "base/metrics.def"
    };
    puts("| metric | kind | label | unit | what it is |\n|---|---|---|---|---|");
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        const char *const *row = rows[i];
        const char *kind = row[0][0] == 'C' ? "counter" : row[0][0] == 'H' ? "histogram" : "gauge";
        printf("| `%s` | %s | %s | %s | %s |\n", row[1], kind, row[2], row[3], row[4]);
    }
    return STELE_EXIT_OK;
}

/* What Kubernetes sets in every container of a namespace that has a service called steled. */
static bool is_of_service(const char *name, const char *value)
{
    static const char host[] = "service.host", port[] = "service.port", link[] = "port.";
    return strcmp(name, host) == 0 || strncmp(name, port, sizeof(port) - 1) == 0 ||
           strncmp(name, link, sizeof(link) - 1) == 0 || (strcmp(name, "port") == 0 && strstr(value, "://") != NULL);
}

/* STELED_LOG_DIRS=... is log.dirs=..., and so on; a name that is no setting is refused as one in a file is. */
static enum stele_err read_environment(struct steled *steled, struct stele_error *error)
{
    enum { PREFIX_BYTES = sizeof("STELED_") - 1 };
    for (char **at = environ; *at != NULL; at++) {
        char name[128];
        const char *equals = strchr(*at, '=');
        if (equals == NULL || strncmp(*at, "STELED_", PREFIX_BYTES) != 0 ||
            (size_t)(equals - *at) >= sizeof(name) + PREFIX_BYTES)
            continue;
        size_t count = 0;
        for (const char *c = *at + PREFIX_BYTES; c < equals; c++)
            name[count++] = *c == '_' ? '.' : (char)tolower((unsigned char)*c);
        name[count] = 0;
        if (is_of_service(name, equals + 1))
            continue;
        char origin[160];
        (void)snprintf(origin, sizeof(origin), "environment variable %.*s", (int)(equals - *at), *at);
        struct stele_error inner = {.text = ""};
        enum stele_err err = stele_settings_set(steled->settings, name, equals + 1, origin, &inner);
        if (err != STELE_OK)
            return stele_error_set(error, err, "%s: %.400s", origin, inner.text);
    }
    return STELE_OK;
}

/* An option after which nothing is served. -1: it is none. */
static int run_special(struct steled *steled, const char *option)
{
    if (strcmp(option, "--settings-reference") == 0 || strcmp(option, "--settings-example") == 0)
        return print_page(steled, strcmp(option, "--settings-example") == 0);
    if (strcmp(option, "--metrics-reference") == 0)
        return print_metrics();
    if (strcmp(option, "--help") == 0)
        print_usage();
    else if (strcmp(option, "--version") == 0)
        printf("steled %s\n", STELE_VERSION);
    else if (strcmp(option, "--manual") == 0)
        print_manual();
    else
        return -1;
    return STELE_EXIT_OK;
}

/* -1: go on; otherwise the exit code. The file is read first, then the environment, then the options that stand beside
 * it, so that the later ones win. */
static int parse(struct steled *steled, int argc, char **argv)
{
    struct stele_error error = {.text = ""};
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && read_environment(steled, &error) != STELE_OK)
            return fail(STELE_EXIT_USAGE, error.text);
        for (int i = 1; i < argc; i++) {
            int code = run_special(steled, argv[i]);
            if (code >= 0)
                return code;
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

/* What --check promises beyond the settings' own bounds. */
static enum stele_err check_settings(const struct steled *steled, struct stele_error *error)
{
    const char *dirs = stele_settings_text(steled->settings, "log.dirs");
    const char *http = stele_settings_text(steled->settings, "http.listener");
    char address[300], host[STELE_HOST_BYTES];
    int32_t port = 0;
    struct stele_listeners listeners;
    enum stele_err err = stele_listeners_read(steled->settings, &listeners, error);
    if (err == STELE_OK)
        err = stele_conn_limits_check(steled->settings, error);
    if (err == STELE_OK && dirs[strspn(dirs, " ,")] == 0)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "log.dirs (--data) names no directory: write a path, or several with commas between");
    if (err == STELE_OK && http[0] != 0 &&
        (stele_http_address(http, address) != STELE_OK || stele_address_split(address, host, &port) != STELE_OK))
        return stele_error_set(error, STELE_INVALID_CONFIG, "http.listener: '%.200s' is no address: write HOST:PORT",
                               http);
    return err;
}

/* The place in the list of peers, where it is not given. */
static enum stele_err find_place(struct steled *steled, struct stele_error *error)
{
    struct stele_peer_list peers;
    struct stele_listeners listeners;
    char number[16];
    int32_t place = 0;
    enum stele_err err = stele_peer_list_parse(stele_settings_text(steled->settings, "peers"), &peers, error);
    if (err != STELE_OK || peers.count == 0 || stele_settings_is_set(steled->settings, "node.id"))
        return err;
    err = stele_listeners_read(steled->settings, &listeners, error);
    if (err == STELE_OK)
        err = stele_own_place(&peers, &listeners, &place, error);
    if (err != STELE_OK)
        return err;
    (void)snprintf(number, sizeof(number), "%d", (int)place);
    return stele_settings_set(steled->settings, "node.id", number, "--peers", error);
}

static void print_ready(void *arg, const char *addresses)
{
    (void)arg;
    printf("ready %s\n", addresses);
    fflush(stdout);
}

/* What a container's user meets first, whose directory was made by root. What becomes of the directory is not decided
 * here. */
static void warn_of_rights(const struct steled *steled)
{
    const char *at = stele_settings_text(steled->settings, "log.dirs");
    while (*(at += strspn(at, " ,")) != 0) {
        char path[PATH_MAX];
        int bytes = (int)strcspn(at, ",");
        (void)snprintf(path, sizeof(path), "%.*s", bytes, at);
        struct stat stat_of;
        bool is_dir = stat(path, &stat_of) != 0 || S_ISDIR(stat_of.st_mode);
        if (is_dir && access(path, R_OK | W_OK | X_OK) != 0 && errno == EACCES)
            fprintf(stderr, "steled: user %d, who runs this, may not read and write %s\n", (int)geteuid(), path);
        at += bytes;
    }
}

static int serve(struct steled *steled)
{
    struct stele_log_sink sink = {.fd = STDERR_FILENO, .level_min = STELE_LEVEL_INFO};
    struct stele_server_options options = {
        .mem = &steled->mem, .vfs = steled->vfs, .settings = steled->settings, .sink = &sink, .ready = print_ready};
    warn_of_rights(steled);
    steled->mem.limit_bytes = stele_node_memory_budget(steled->settings);
    if (steled->mem.limit_bytes > 0)
        steled->mem.source = stele_heap_hold(&steled->heap, &steled->mem);
    return stele_server_run(&options);
}

int main(int argc, char **argv)
{
    struct steled steled = {.check_only = false};
    struct stele_error error = {.text = ""};
    int count = 0;
    stele_mem_init(&steled.mem, stele_heap_source(), 0);
    steled.vfs = stele_vfs_posix_new(&steled.mem);
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    steled.settings = stele_settings_new(&steled.mem, rows, count);
    if (steled.vfs == NULL || steled.settings == NULL)
        return fail(STELE_EXIT_FAILED, "out of memory");
    int code = parse(&steled, argc, argv);
    /* The place first: what is told of a listener may name it. */
    if (code < 0 && (find_place(&steled, &error) != STELE_OK || check_settings(&steled, &error) != STELE_OK))
        code = fail(STELE_EXIT_USAGE, error.text);
    if (code < 0)
        code = steled.check_only ? STELE_EXIT_OK : serve(&steled);
    stele_settings_free(steled.settings);
    stele_vfs_posix_free(steled.vfs);
    return code;
}
