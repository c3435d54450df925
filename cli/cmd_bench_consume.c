/* bench consume, and bench end-to-end: a process of its own consumes, so that neither half waits for the other. */
#include "cli/bench.h"

#include "host/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MS = 100, PATIENCE_MS = 10000, NUMBER_BYTES = 24, TIMED_OUT = 7 };

struct reading {
    const struct stele_bench *bench;
    struct stele_client *client;
    struct stele_consumer *consumer;
    struct stele_bench_result *result;
    struct stele_progress progress;
    int32_t partitions, open_count;
    int64_t *ends;             /* -1: not read, or read to its end */
    int64_t start_us, last_us; /* last_us: of the last record */
    int64_t now_us;            /* also when no record comes */
};

static struct stele_result assign(struct reading *reading, int32_t partition)
{
    const struct stele_bench *bench = reading->bench;
    int64_t from = bench->from.value, to = -1;
    struct stele_result result = {.code = 0};
    if (!bench->from.is_offset)
        result = stele_offset_at(reading->client, bench->topic, partition, bench->from.value, &from);
    if (result.code == 0)
        result = stele_offset_at(reading->client, bench->topic, partition, STELE_OFFSET_LATEST, &to);
    if (result.code != 0 || from < 0 || from >= to)
        return result;
    result = stele_consumer_assign(reading->consumer, partition, from);
    reading->ends[partition] = to;
    reading->open_count++;
    return result;
}

static struct stele_result open_consumer(struct reading *reading)
{
    const struct stele_bench *bench = reading->bench;
    char fetch[NUMBER_BYTES];
    struct stele_setting settings[] = {{"max.partition.fetch.bytes", fetch}, {NULL, NULL}};
    struct stele_result result = {.code = 0};
    (void)snprintf(fetch, sizeof(fetch), "%lld", (long long)bench->fetch_bytes);
    reading->consumer = stele_consumer_new(reading->client, bench->topic, settings, &result);
    if (reading->consumer == NULL)
        return result;
    reading->partitions = stele_consumer_partitions(reading->consumer);
    reading->ends = calloc((size_t)reading->partitions + 1, sizeof(*reading->ends));
    if (reading->ends == NULL)
        return (struct stele_result){.code = 1002, .text = "out of memory"};
    for (int32_t p = 0; p < reading->partitions; p++)
        reading->ends[p] = -1;
    return result;
}

static void close_reading(struct reading *reading)
{
    stele_progress_end(&reading->progress);
    stele_consumer_free(reading->consumer);
    free(reading->ends);
}

static void close_partition(struct reading *reading, int32_t partition)
{
    stele_consumer_unassign(reading->consumer, partition);
    reading->ends[partition] = -1;
    reading->open_count--;
}

static bool is_over(const struct reading *reading)
{
    const struct stele_bench *bench = reading->bench;
    if (stele_bench_is_stopped() || reading->open_count == 0)
        return true;
    if (bench->records > 0 && reading->result->records >= bench->records)
        return true;
    return bench->seconds > 0 && reading->now_us - reading->start_us >= bench->seconds * 1000000;
}

/* When the next record should be asked for: by the rate, or as soon as the one before it was there. */
static int64_t wait_for_turn(struct reading *reading)
{
    int64_t rate = reading->bench->rate;
    if (rate == 0)
        return reading->last_us;
    int64_t intended_us = reading->start_us + (int64_t)((double)reading->result->records * 1e6 / (double)rate);
    for (int64_t now_us = reading->last_us; now_us < intended_us; now_us = stele_clock_mono_us()) {
        (void)stele_client_poll(reading->client, (int)((intended_us - now_us) / 1000));
        stele_bench_pause(intended_us);
    }
    return intended_us;
}

static void close_passed(struct reading *reading)
{
    for (int32_t p = 0; p < reading->partitions; p++) {
        if (reading->ends[p] >= 0 && stele_consumer_position(reading->consumer, p) >= reading->ends[p])
            close_partition(reading, p);
    }
}

static struct stele_result read_all(struct reading *reading)
{
    struct stele_record_view record;
    struct stele_bench_result *out = reading->result;
    int64_t intended_us = wait_for_turn(reading);
    while (!is_over(reading)) {
        struct stele_result result = stele_consumer_next(reading->consumer, WAIT_MS, &record);
        int64_t now_us = stele_clock_mono_us();
        reading->now_us = now_us;
        stele_bench_show_progress(&reading->progress, out, reading->start_us);
        if (result.code == TIMED_OUT) {
            close_passed(reading);
            continue;
        }
        if (result.code != 0)
            return result;
        reading->last_us = now_us;
        int64_t end = reading->ends[record.partition];
        if (record.offset < end) {
            out->records++;
            out->bytes += (int64_t)(record.key_bytes + record.value_bytes);
            stele_latency_add(&out->latency, now_us - intended_us);
        }
        if (record.offset + 1 >= end)
            close_partition(reading, record.partition);
        intended_us = wait_for_turn(reading);
    }
    return (struct stele_result){.code = 0};
}

static int consume(const struct stele_bench *bench, struct stele_client *client, struct stele_bench_result *out_result)
{
    struct reading reading = {.bench = bench, .client = client, .result = out_result};
    struct stele_result result = open_consumer(&reading);
    for (int32_t p = 0; p < reading.partitions && result.code == 0; p++) {
        if (bench->partition < 0 || bench->partition == p)
            result = assign(&reading, p);
    }
    int64_t cpu_us = stele_bench_cpu_us();
    stele_progress_init(&reading.progress);
    reading.start_us = reading.last_us = reading.now_us = stele_clock_mono_us();
    if (result.code == 0)
        result = read_all(&reading);
    out_result->wall_us = reading.last_us - reading.start_us;
    out_result->cpu_us = stele_bench_cpu_us() - cpu_us;
    close_reading(&reading);
    return stele_cli_report(bench->cli, &result);
}

static int run_consume(const struct stele_cli *cli, void *line)
{
    struct stele_bench *bench = line;
    struct stele_bench_result *result = calloc(1, sizeof(*result));
    int status = STELE_CLI_FAILED;
    bench->cli = cli;
    bench->topic = bench->words.items[0];
    stele_bench_start();
    struct stele_client *client = result == NULL ? NULL : stele_bench_client(bench, &status);
    if (client != NULL) {
        status = consume(bench, client, result);
        if (status == STELE_CLI_DONE)
            stele_bench_print(bench, result, "from when a record was asked for until it was there", &status);
    }
    stele_client_free(client);
    free(result);
    return status;
}

static const struct stele_bench consume_initial = {
    .partition = -1, .fetch_bytes = 8388608, .from = {.is_there = true, .value = STELE_OFFSET_EARLIEST}};

static const struct stele_cli_option consume_options[] = {
    {.name = "--records",
     .alias = "-n",
     .value = "COUNT",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct stele_bench, records),
     .min = 1,
     .max = INT64_MAX,
     .help = "stop after so many records (at the end as it was at the start)"},
    {.name = "--seconds",
     .alias = "-s",
     .value = "SECONDS",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct stele_bench, seconds),
     .min = 1,
     .max = 1000000,
     .help = "stop after so long"},
    {.name = "--rate",
     .alias = "-r",
     .value = "RECORDS",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct stele_bench, rate),
     .min = 1,
     .max = 100000000,
     .help = "records a second (as many as go)"},
    {.name = "--partition",
     .alias = "-p",
     .value = "PARTITION",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct stele_bench, partition),
     .max = INT32_MAX,
     .help = "read this partition only"},
    {.name = "--from",
     .value = "PLACE",
     .kind = STELE_CLI_PLACE,
     .at = offsetof(struct stele_bench, from),
     .help = "where to begin: an offset or a time as in 'stele consume' (beginning)"},
    {.name = "--fetch",
     .value = "BYTES",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct stele_bench, fetch_bytes),
     .min = 1,
     .max = INT32_MAX,
     .help = "max.partition.fetch.bytes of the consumer (8388608)"},
    {.name = "--set",
     .value = "NAME=VALUE",
     .kind = STELE_CLI_LIST,
     .at = offsetof(struct stele_bench, settings),
     .help = "another setting of the client, as in client/stele.h"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_bench_consume = {
    .name = "bench consume",
    .arguments = "TOPIC",
    .words_min = 1,
    .words_max = 1,
    .summary = "measure how fast records come out",
    .details = "Latency counts from when a record was asked for until it was there; with --rate from when it was "
               "intended to be asked for, so that a stall shows in all records that it held up.",
    .options = consume_options,
    .line_bytes = sizeof(struct stele_bench),
    .initial = &consume_initial,
    .run = run_consume,
};

/* end to end */

/* The consuming process: says "ready" (a byte) on `out`, is told on `in` how many records there are in the end, and
 * then writes its result. */
struct child {
    struct reading reading;
    int in, out;
    int64_t expected; /* -1: not told yet */
    int64_t quiet_since_us;
};

static bool write_whole(int fd, const void *bytes, size_t count)
{
    const char *at = bytes;
    while (count > 0) {
        ssize_t done = write(fd, at, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        count -= (size_t)done;
    }
    return true;
}

static bool read_whole(int fd, void *bytes, size_t count)
{
    char *at = bytes;
    while (count > 0) {
        ssize_t done = read(fd, at, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        count -= (size_t)done;
    }
    return true;
}

/* Whether the other process said how many there are, or is gone. */
static bool hear_expected(struct child *child)
{
    ssize_t done = child->expected >= 0 ? 1 : read(child->in, &child->expected, sizeof(child->expected));
    if (done == 0)
        child->expected = 0; /* gone: there is nobody to tell */
    if (done > 1)
        child->quiet_since_us = stele_clock_mono_us();
    return child->expected >= 0;
}

static struct stele_result receive_all(struct child *child)
{
    struct stele_record_view record;
    struct stele_bench_result *out = child->reading.result;
    int64_t intended_us = 0;
    for (;;) {
        struct stele_result result = stele_consumer_next(child->reading.consumer, WAIT_MS, &record);
        int64_t now_us = stele_clock_mono_us();
        if (result.code == 0 &&
            stele_bench_stamp_read(record.value, record.value_bytes, child->reading.bench->run_id, &intended_us)) {
            out->records++;
            out->bytes += (int64_t)record.value_bytes;
            stele_latency_add(&out->latency, now_us - intended_us);
            child->reading.last_us = child->quiet_since_us = now_us;
            if (child->expected < 0 || out->records < child->expected)
                continue; /* asking the pipe costs a call: not for each record */
        }
        if (result.code != 0 && result.code != TIMED_OUT)
            return result;
        if (hear_expected(child) &&
            (out->records >= child->expected || now_us - child->quiet_since_us > PATIENCE_MS * 1000))
            return (struct stele_result){.code = 0};
    }
}

static int run_child(struct child *child)
{
    struct reading *reading = &child->reading;
    int status = STELE_CLI_FAILED;
    reading->client = stele_bench_client(reading->bench, &status);
    if (reading->client == NULL)
        return status;
    struct stele_result result = open_consumer(reading);
    for (int32_t p = 0; p < reading->partitions && result.code == 0; p++) {
        int64_t end = 0;
        result = stele_offset_at(reading->client, reading->bench->topic, p, STELE_OFFSET_LATEST, &end);
        if (result.code == 0)
            result = stele_consumer_assign(reading->consumer, p, end);
    }
    int64_t cpu_us = stele_bench_cpu_us();
    child->quiet_since_us = stele_clock_mono_us();
    if (result.code == 0 && write_whole(child->out, "r", 1))
        result = receive_all(child);
    reading->result->cpu_us = stele_bench_cpu_us() - cpu_us;
    close_reading(reading);
    stele_client_free(reading->client);
    status = stele_cli_report(reading->bench->cli, &result);
    if (status == STELE_CLI_DONE && !write_whole(child->out, reading->result, sizeof(*reading->result)))
        status = STELE_CLI_FAILED;
    return status;
}

/* Returns in the sending process, with the pipe's ends: *out_to and *out_from. */
static pid_t start_child(const struct stele_bench *bench, int *out_to, int *out_from)
{
    int down[2], up[2];
    if (pipe2(down, O_CLOEXEC) != 0)
        return -1;
    if (pipe2(up, O_CLOEXEC) != 0) {
        (void)close(down[0]);
        (void)close(down[1]);
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct child child = {.reading = {.bench = bench}, .in = down[0], .out = up[1], .expected = -1};
        child.reading.result = calloc(1, sizeof(*child.reading.result));
        (void)close(down[1]);
        (void)close(up[0]);
        (void)fcntl(child.in, F_SETFL, O_NONBLOCK);
        _exit(child.reading.result == NULL ? STELE_CLI_FAILED : run_child(&child));
    }
    (void)close(down[0]);
    (void)close(up[1]);
    *out_to = down[1];
    *out_from = up[0];
    return pid;
}

/* Sends, then takes what the other process measured. */
static int send_and_wait(const struct stele_bench *bench, struct stele_client *client, int to, int from)
{
    struct stele_bench_result *sent = calloc(1, sizeof(*sent)), *seen = calloc(1, sizeof(*seen));
    int status = STELE_CLI_FAILED;
    char ready = 0;
    if (sent != NULL && seen != NULL && read_whole(from, &ready, 1)) {
        status = stele_bench_produce(bench, client, sent);
        if (!write_whole(to, &sent->records, sizeof(sent->records)) || !read_whole(from, seen, sizeof(*seen)))
            status = stele_cli_fail(bench->cli, STELE_CLI_FAILED, "the consuming process failed");
        else {
            seen->wall_us = sent->wall_us;
            seen->cpu_us += sent->cpu_us;
            seen->failed = sent->failed;
            if (seen->records < sent->records)
                status = stele_cli_fail(bench->cli, STELE_CLI_FAILED, "%lld of %lld records were not seen",
                                        (long long)(sent->records - seen->records), (long long)sent->records);
            stele_bench_print(bench, seen, "from the intended time of sending until the consumer had it", &status);
        }
    }
    free(sent);
    free(seen);
    return status;
}

static int run_end_to_end(const struct stele_cli *cli, void *line)
{
    struct stele_bench *bench = line;
    int status = STELE_CLI_FAILED, to = -1, from = -1, child_status = 0;
    bench->cli = cli;
    bench->topic = bench->words.items[0];
    bench->run_id = stele_clock_entropy() | 1;
    if (bench->records == 0 && bench->seconds == 0)
        bench->seconds = 10;
    stele_bench_start();
    struct stele_client *client = stele_bench_client(bench, &status);
    if (client == NULL)
        return status;
    pid_t pid = start_child(bench, &to, &from);
    if (pid < 0) {
        status = stele_cli_fail(cli, STELE_CLI_FAILED, "no second process: %s", strerror(errno));
    } else {
        status = send_and_wait(bench, client, to, from);
        (void)close(to);
        (void)close(from);
        while (waitpid(pid, &child_status, 0) < 0 && errno == EINTR)
            ;
        if (WIFEXITED(child_status) && WEXITSTATUS(child_status) != 0)
            status = WEXITSTATUS(child_status);
    }
    stele_client_free(client);
    return status;
}

static const struct stele_bench end_to_end_initial = {
    .size_bytes = 1024, .partition = -1, .batch_bytes = -1, .linger_ms = -1, .fetch_bytes = 1048576, .rate = 1000};

static const struct stele_cli_option end_to_end_options[] = {
    STELE_BENCH_LOAD_OPTIONS,
    STELE_BENCH_PRODUCER_OPTIONS,
    STELE_BENCH_COMMON_OPTIONS,
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_bench_end_to_end = {
    .name = "bench end-to-end",
    .arguments = "TOPIC",
    .words_min = 1,
    .words_max = 1,
    .summary = "measure how long records take from a producer to a consumer",
    .details =
        "One process sends, another reads the topic from its end on. " STELE_BENCH_LATENCY_HELP " Without --rate "
        "1000 records a second are sent.",
    .options = end_to_end_options,
    .line_bytes = sizeof(struct stele_bench),
    .initial = &end_to_end_initial,
    .run = run_end_to_end,
};
