/* Lines become records. The input is read in large chunks and lines are handed on where they lie. */
#include "cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, REPORT_BYTES = 1 << 16 };

static const char usage[] =
    "usage: stele produce TOPIC [-p PARTITION] [-K SEP] [-l FILE] [--compression CODEC] [--report FILE]\n\n"
    "Sends each line of FILE (or of standard input) as a record.\n"
    "  -p PARTITION         all to this partition; otherwise by key, or spread over all\n"
    "  -K SEP               what stands before the first SEP of a line is the record's key\n"
    "  -l FILE              read lines from FILE\n"
    "  --compression CODEC  none, gzip, snappy, lz4 or zstd\n"
    "  --report FILE        a line for each acknowledged record as soon as it is known: line-number partition offset\n"
    "Exits with 1 when a record was not acknowledged.\n";

struct produce {
    const char *topic, *separator, *file, *codec, *report_file;
    int64_t partition;
    struct stele_client *client;
    struct stele_producer *producer;
    int report; /* descriptor, -1 none */
    char *report_text;
    size_t report_bytes;
    uint64_t lines, failed;
    int status;
};

static void write_report(struct produce *produce)
{
    size_t done = 0;
    while (done < produce->report_bytes) {
        ssize_t count = write(produce->report, produce->report_text + done, produce->report_bytes - done);
        if (count < 0 && errno != EINTR) {
            fprintf(stderr, "stele produce: %s: %s\n", produce->report_file, strerror(errno));
            produce->status = STELE_CLI_FAILED;
            break;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    produce->report_bytes = 0;
}

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct produce *produce = arg;
    if (delivery->result.code != 0) {
        if (produce->failed++ == 0)
            fprintf(stderr, "stele produce: line %llu: %s\n", (unsigned long long)delivery->tag, delivery->result.text);
        produce->status = STELE_CLI_FAILED;
        return;
    }
    if (produce->report < 0)
        return;
    if (produce->report_bytes + 80 > REPORT_BYTES)
        write_report(produce);
    int bytes = snprintf(produce->report_text + produce->report_bytes, 80, "%llu %d %lld\n",
                         (unsigned long long)delivery->tag, delivery->partition, (long long)delivery->offset);
    produce->report_bytes += (size_t)bytes;
}

/* Polls and lets the report out: a line is there as soon as the record's answer was read. */
static void poll_once(struct produce *produce, int wait_ms)
{
    (void)stele_client_poll(produce->client, wait_ms);
    if (produce->report_bytes > 0)
        write_report(produce);
}

static bool send_line(struct produce *produce, const char *line, size_t bytes)
{
    struct stele_message message = {
        .partition = (int32_t)produce->partition, .timestamp = -1, .value = line, .value_bytes = bytes};
    size_t separator_bytes = produce->separator == NULL ? 0 : strlen(produce->separator);
    const char *at = separator_bytes == 0 ? NULL : memmem(line, bytes, produce->separator, separator_bytes);
    if (at != NULL) {
        message.key = line;
        message.key_bytes = (size_t)(at - line);
        message.value = at + separator_bytes;
        message.value_bytes = bytes - message.key_bytes - separator_bytes;
    }
    produce->lines++;
    for (;;) {
        struct stele_result result = stele_producer_send(produce->producer, &message, produce->lines);
        if (result.code == 0)
            return true;
        if (!result.is_retriable) {
            fprintf(stderr, "stele produce: line %llu: %s\n", (unsigned long long)produce->lines, result.text);
            produce->status = STELE_CLI_FAILED;
            return false;
        }
        poll_once(produce, 100);
    }
}

/* Sends the whole lines of `text`; returns the bytes taken. */
static size_t send_lines(struct produce *produce, const char *text, size_t bytes)
{
    size_t taken = 0;
    while (produce->status == STELE_CLI_DONE) {
        const char *end = memchr(text + taken, '\n', bytes - taken);
        if (end == NULL)
            break;
        if (!send_line(produce, text + taken, (size_t)(end - text) - taken))
            break;
        taken = (size_t)(end - text) + 1;
    }
    return taken;
}

static int send_all(struct produce *produce, int fd)
{
    size_t capacity = CHUNK_BYTES, held = 0;
    char *text = malloc(capacity);
    for (;;) {
        if (text != NULL && held == capacity)
            text = realloc(text, capacity *= 2);
        if (text == NULL) {
            fprintf(stderr, "stele produce: out of memory\n");
            return STELE_CLI_FAILED;
        }
        ssize_t count = read(fd, text + held, capacity - held);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            fprintf(stderr, "stele produce: %s: %s\n", produce->file == NULL ? "standard input" : produce->file,
                    strerror(errno));
            produce->status = STELE_CLI_FAILED;
        }
        if (count <= 0)
            break;
        held += (size_t)count;
        size_t taken = send_lines(produce, text, held);
        held -= taken;
        memmove(text, text + taken, held);
        if (produce->status != STELE_CLI_DONE)
            break;
        poll_once(produce, 0);
    }
    if (held > 0 && produce->status == STELE_CLI_DONE)
        (void)send_line(produce, text, held);
    free(text);
    while (stele_producer_pending(produce->producer) > 0) {
        (void)stele_producer_flush(produce->producer, 0);
        poll_once(produce, 100);
    }
    return produce->status;
}

static bool parse(struct produce *produce, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char **text = NULL;
        if (strcmp(argv[i], "-K") == 0)
            text = &produce->separator;
        else if (strcmp(argv[i], "-l") == 0)
            text = &produce->file;
        else if (strcmp(argv[i], "--compression") == 0)
            text = &produce->codec;
        else if (strcmp(argv[i], "--report") == 0)
            text = &produce->report_file;
        if (text != NULL && i + 1 < argc) {
            *text = argv[++i];
        } else if (strcmp(argv[i], "-p") == 0 && i + 1 < argc) {
            if (!stele_cli_number(argv[++i], 0, INT32_MAX, &produce->partition)) {
                fprintf(stderr, "stele produce: -p %s must be the number of a partition\n", argv[i]);
                return false;
            }
        } else if (argv[i][0] != '-' && produce->topic == NULL) {
            produce->topic = argv[i];
        } else {
            fprintf(stderr, "stele produce: unexpected %s; see stele produce --help\n", argv[i]);
            return false;
        }
    }
    if (produce->topic == NULL)
        fprintf(stderr, "stele produce: a topic is missing; see stele produce --help\n");
    return produce->topic != NULL;
}

static int run(struct produce *produce, const struct stele_cli *cli, int fd)
{
    /* Throughput counts here, not the time of one record. */
    struct stele_setting settings[] = {
        {"compression.type", produce->codec}, {"batch.size", "1000000"}, {"linger.ms", "20"}, {NULL, NULL}};
    struct stele_result result;
    produce->client = stele_cli_client(cli, "produce");
    if (produce->client == NULL)
        return STELE_CLI_FAILED;
    produce->producer = stele_producer_new(produce->client, produce->topic, settings, delivered, produce, &result);
    int status = produce->producer == NULL ? stele_cli_report("produce", &result) : send_all(produce, fd);
    stele_producer_free(produce->producer);
    stele_client_free(produce->client);
    return status;
}

int stele_cmd_produce(const struct stele_cli *cli, int argc, char **argv)
{
    struct produce produce = {.codec = "none", .partition = -1, .report = -1};
    int fd = STDIN_FILENO;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return STELE_CLI_DONE;
    }
    if (!parse(&produce, argc, argv))
        return STELE_CLI_USAGE;
    if (produce.file != NULL && (fd = open(produce.file, O_RDONLY | O_CLOEXEC)) < 0) {
        fprintf(stderr, "stele produce: %s: %s\n", produce.file, strerror(errno));
        return STELE_CLI_FAILED;
    }
    if (produce.report_file != NULL) {
        produce.report = open(produce.report_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        produce.report_text = malloc(REPORT_BYTES);
        if (produce.report < 0 || produce.report_text == NULL) {
            fprintf(stderr, "stele produce: %s: %s\n", produce.report_file, strerror(errno));
            return STELE_CLI_FAILED;
        }
    }
    int status = run(&produce, cli, fd);
    if (produce.report_bytes > 0)
        write_report(&produce);
    free(produce.report_text);
    if (produce.failed > 1)
        fprintf(stderr, "stele produce: %llu records were not acknowledged\n", (unsigned long long)produce.failed);
    return status;
}
