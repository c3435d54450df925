#include "cli/bench.h"

#include "cli/document.h"
#include "host/clock.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

enum { SETTINGS_MAX = STELE_CLI_LIST_MAX + 8, PAUSE_US_MAX = 50 };

static volatile sig_atomic_t is_stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    is_stopped = 1;
}

bool stele_bench_is_stopped(void)
{
    return is_stopped != 0;
}

void stele_bench_start(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = stop;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* nanoseconds by which a pause may be longer */
    action.sa_handler = SIG_IGN; /* a process at the other end of a pipe that is gone is an error like others */
    (void)sigaction(SIGPIPE, &action, NULL);
}

void stele_bench_pause(int64_t until_us)
{
    int64_t left_us = until_us - stele_clock_mono_us();
    struct timespec pause = {.tv_nsec = 1000 * (left_us > PAUSE_US_MAX ? PAUSE_US_MAX : left_us)};
    if (left_us > 0)
        (void)nanosleep(&pause, NULL);
}

int64_t stele_bench_cpu_us(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return 0;
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

struct stele_client *stele_bench_client(const struct stele_bench *bench, int *out_status)
{
    static const struct stele_setting none[] = {{NULL, NULL}};
    struct stele_setting settings[SETTINGS_MAX] = {{"client.id", "stele-bench"}, {"request.timeout.ms", "10000"}};
    struct stele_cli_pairs pairs = {.count = 0};
    struct stele_result result;
    const char *bad = "";
    if (!stele_cli_pairs(&bench->settings, &pairs, &bad)) {
        *out_status = stele_cli_fail(bench->cli, STELE_CLI_USAGE, "--set %s: want NAME=VALUE", bad);
        return NULL;
    }
    memcpy(settings + 2, pairs.settings, pairs.count * sizeof(settings[0]));
    struct stele_client *client = stele_client_new(bench->cli->bootstrap, settings, &result);
    if (client != NULL && bench->partitions > 0) {
        result = stele_topic_create(client, bench->topic, (int32_t)bench->partitions, none);
        if (result.code != 0 && stele_cli_exit_of(result.code) != STELE_CLI_EXISTS) {
            stele_client_free(client);
            client = NULL;
        }
    }
    if (client == NULL)
        *out_status = stele_cli_report(bench->cli, &result);
    return client;
}

void stele_bench_stamp_write(uint8_t *to, uint64_t run_id, int64_t intended_us)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(run_id >> (8 * i));
        to[8 + i] = (uint8_t)((uint64_t)intended_us >> (8 * i));
    }
}

bool stele_bench_stamp_read(const void *value, size_t bytes, uint64_t run_id, int64_t *out_intended_us)
{
    const uint8_t *from = value;
    uint64_t id = 0, us = 0;
    if (value == NULL || bytes < STELE_BENCH_STAMP_BYTES)
        return false;
    for (int i = 0; i < 8; i++) {
        id |= (uint64_t)from[i] << (8 * i);
        us |= (uint64_t)from[8 + i] << (8 * i);
    }
    if (id != run_id)
        return false;
    *out_intended_us = (int64_t)us;
    return true;
}

void stele_bench_show_progress(struct stele_progress *progress, const struct stele_bench_result *result,
                               int64_t since_us)
{
    if (!stele_progress_is_due(progress))
        return;
    double seconds = (double)(stele_clock_mono_us() - since_us) / 1e6;
    stele_progress_show(progress, "%.0f s, %lld records, %.1f MB/s, p99 %.1f ms", seconds, (long long)result->records,
                        (double)result->bytes / 1e6 / seconds, (double)stele_latency_at(&result->latency, 0.99) / 1000);
}

static void add_latency(struct stele_document *document, cJSON *to, const struct stele_latency *latency)
{
    stele_document_known(document, to, "p50_us", stele_latency_at(latency, 0.5));
    stele_document_known(document, to, "p90_us", stele_latency_at(latency, 0.9));
    stele_document_known(document, to, "p99_us", stele_latency_at(latency, 0.99));
    stele_document_known(document, to, "p99_9_us", stele_latency_at(latency, 0.999));
    stele_document_known(document, to, "max_us", latency->count == 0 ? -1 : latency->max_us);
    stele_document_known(document, to, "mean_us", latency->count == 0 ? -1 : latency->sum_us / latency->count);
}

void stele_bench_print(const struct stele_bench *bench, const struct stele_bench_result *result, const char *latency_of,
                       int *inout_status)
{
    static const struct stele_view_column fields[] = {{"topic", "topic", STELE_VIEW_TEXT},
                                                      {"records", "records", STELE_VIEW_TEXT},
                                                      {"failed", "failed", STELE_VIEW_TEXT},
                                                      {"bytes", "size", STELE_VIEW_SIZE},
                                                      {"wall_us", "took", STELE_VIEW_SPAN_US},
                                                      {"mb_a_second", "MB/s", STELE_VIEW_TEXT},
                                                      {"records_a_second", "records/s", STELE_VIEW_TEXT},
                                                      {"intended_records_a_second", "intended", STELE_VIEW_TEXT},
                                                      {"cpu_us", "CPU of the bench", STELE_VIEW_SPAN_US},
                                                      {"cpu_seconds_a_gb", "CPU s a GB", STELE_VIEW_TEXT},
                                                      {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column times[] = {
        {"p50_us", "P50", STELE_VIEW_SPAN_US}, {"p90_us", "P90", STELE_VIEW_SPAN_US},
        {"p99_us", "P99", STELE_VIEW_SPAN_US}, {"p99_9_us", "P99.9", STELE_VIEW_SPAN_US},
        {"max_us", "MAX", STELE_VIEW_SPAN_US}, {"mean_us", "MEAN", STELE_VIEW_SPAN_US},
        {NULL, NULL, STELE_VIEW_TEXT}};
    struct stele_document document;
    double seconds = result->wall_us > 0 ? (double)result->wall_us / 1e6 : 1e-6;
    stele_document_init(&document);
    cJSON *root = document.root;
    stele_document_text(&document, root, "topic", bench->topic);
    stele_document_number(&document, root, "records", result->records);
    stele_document_number(&document, root, "failed", result->failed);
    stele_document_number(&document, root, "bytes", result->bytes);
    stele_document_number(&document, root, "wall_us", result->wall_us);
    stele_document_real(&document, root, "mb_a_second", (double)result->bytes / 1e6 / seconds);
    stele_document_number(&document, root, "records_a_second", (int64_t)((double)result->records / seconds));
    stele_document_known(&document, root, "intended_records_a_second", bench->rate > 0 ? bench->rate : -1);
    stele_document_number(&document, root, "cpu_us", result->cpu_us);
    stele_document_real(&document, root, "cpu_seconds_a_gb",
                        result->bytes == 0 ? 0 : (double)result->cpu_us * 1e3 / (double)result->bytes);
    cJSON *list = stele_document_list(&document, root, "latency");
    cJSON *row = stele_document_row(&document, list);
    stele_document_text(&document, row, "of", latency_of);
    add_latency(&document, row, &result->latency);
    if (!stele_document_print(&document, bench->cli, inout_status)) {
        stele_view_fields(stdout, root, fields, bench->cli->is_exact);
        printf("\n%s\n", latency_of);
        stele_view_table(stdout, list, times, bench->cli->is_exact);
    }
    stele_document_deinit(&document);
}
