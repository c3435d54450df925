/* Lines become records. The input is read in large chunks and lines are handed on where they lie. */
#include "cli/options.h"

#include "proto/compress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 18, REPORT_BYTES = 1 << 16, REPORT_LINE_BYTES = 64, SEPARATOR_BYTES = 64 };

static const char usage[] =
    "usage: stele produce TOPIC [-p PARTITION] [-K SEP] [-l FILE] [--compression CODEC] [--report FILE]\n\n"
    "Sends each line of FILE (or of standard input) as a record; the end of the line is not part of it.\n"
    "  -p PARTITION         all to this partition; otherwise by key, or spread over all\n"
    "  -K SEP               what stands before the first SEP of a line is the record's key; a line without SEP has "
    "none;\n"
    "                       \\t \\0 \\xHH and so on as in C\n"
    "  -l FILE              read lines from FILE\n"
    "  --compression CODEC  none, gzip, snappy, lz4 or zstd (none)\n"
    "  --report FILE        write a line for each acknowledged record as soon as it is known:\n"
    "                       line-number partition offset\n"
    "Stops at the first record that is refused. Exits with 1 when a record was not acknowledged.\n";

struct produce {
    const char *topic, *file, *codec, *report_file;
    char separator[SEPARATOR_BYTES];
    size_t separator_bytes;
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
    if (produce->report_bytes + REPORT_LINE_BYTES > REPORT_BYTES)
        write_report(produce);
    char *at = produce->report_text + produce->report_bytes;
    at += stele_cli_digits((int64_t)delivery->tag, at);
    *at++ = ' ';
    at += stele_cli_digits(delivery->partition, at);
    *at++ = ' ';
    at += stele_cli_digits(delivery->offset, at);
    *at++ = '\n';
    produce->report_bytes = (size_t)(at - produce->report_text);
}

/* Polls and lets the report out: a line is there as soon as the record's answer was read. */
static void poll_once(struct produce *produce, int wait_ms)
{
    (void)stele_client_poll(produce->client, wait_ms);
    if (produce->report_bytes > 0)
        write_report(produce);
}

/* Where the separator begins in the line, or NULL. */
static const char *find_separator(const struct produce *produce, const char *line, size_t bytes)
{
    if (produce->separator_bytes == 0)
        return NULL;
    if (produce->separator_bytes == 1)
        return memchr(line, produce->separator[0], bytes);
    return memmem(line, bytes, produce->separator, produce->separator_bytes);
}

static bool send_line(struct produce *produce, const char *line, size_t bytes)
{
    struct stele_message message = {
        .partition = (int32_t)produce->partition, .timestamp = -1, .value = line, .value_bytes = bytes};
    const char *at = find_separator(produce, line, bytes);
    if (at != NULL) {
        message.key = line;
        message.key_bytes = (size_t)(at - line);
        message.value = at + produce->separator_bytes;
        message.value_bytes = bytes - message.key_bytes - produce->separator_bytes;
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
        if (produce->status != STELE_CLI_DONE)
            return false;
    }
}

/* Sends the whole lines of `text`; returns the bytes taken. Bytes before `searched` hold no end of a line. */
static size_t send_lines(struct produce *produce, const char *text, size_t bytes, size_t searched)
{
    size_t taken = 0;
    while (produce->status == STELE_CLI_DONE) {
        const char *end = memchr(text + searched, '\n', bytes - searched);
        if (end == NULL)
            break;
        if (!send_line(produce, text + taken, (size_t)(end - text) - taken))
            break;
        taken = searched = (size_t)(end - text) + 1;
    }
    return taken;
}

/* While records are on their way, their answers are read until there is input: it may be a person's or a pipe's. */
static void wait_for_input(struct produce *produce, int fd)
{
    struct pollfd input = {.fd = fd, .events = POLLIN};
    while (produce->status == STELE_CLI_DONE && stele_producer_pending(produce->producer) > 0 &&
           poll(&input, 1, 0) == 0)
        poll_once(produce, 5);
}

static void drain(struct produce *produce)
{
    while (stele_producer_pending(produce->producer) > 0) {
        (void)stele_producer_flush(produce->producer, 0); /* nothing lingers any more */
        poll_once(produce, 100);
    }
}

static ssize_t read_chunk(struct produce *produce, int fd, char *at, size_t bytes)
{
    ssize_t count;
    wait_for_input(produce, fd);
    do {
        count = read(fd, at, bytes);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        fprintf(stderr, "stele produce: %s: %s\n", produce->file == NULL ? "standard input" : produce->file,
                strerror(errno));
        produce->status = STELE_CLI_FAILED;
    }
    return count;
}

static int send_all(struct produce *produce, int fd)
{
    size_t capacity = CHUNK_BYTES, held = 0;
    char *text = malloc(capacity);
    while (text != NULL && produce->status == STELE_CLI_DONE) {
        if (held == capacity) { /* one line fills it all */
            char *larger = realloc(text, capacity * 2);
            if (larger == NULL)
                break;
            text = larger;
            capacity *= 2;
        }
        ssize_t count = read_chunk(produce, fd, text + held, capacity - held);
        if (count <= 0) {
            if (count == 0 && held > 0)
                (void)send_line(produce, text, held); /* a last line without an end */
            drain(produce);
            free(text);
            return produce->status;
        }
        size_t searched = held;
        held += (size_t)count;
        size_t taken = send_lines(produce, text, held, searched);
        held -= taken;
        memmove(text, text + taken, held);
        poll_once(produce, 0);
    }
    if (produce->status == STELE_CLI_DONE) {
        fprintf(stderr, "stele produce: out of memory\n");
        produce->status = STELE_CLI_FAILED;
    }
    free(text);
    drain(produce); /* those before the one that was refused may well arrive */
    return produce->status;
}

static bool parse_separator(struct produce *produce, const char *text)
{
    const char *at = text;
    while (*at != 0 && produce->separator_bytes < SEPARATOR_BYTES) {
        if (!stele_cli_character(&at, &produce->separator[produce->separator_bytes++]))
            break;
    }
    if (*at == 0 && produce->separator_bytes > 0)
        return true;
    fprintf(stderr, "stele produce: -K %s must be 1 to %d characters; escapes are \\t \\n \\r \\0 \\\\ \\xHH\n", text,
            SEPARATOR_BYTES);
    return false;
}

static bool parse_option(struct produce *produce, const char *name, const char *value)
{
    if (strcmp(name, "-K") == 0)
        return parse_separator(produce, value);
    if (strcmp(name, "-l") == 0) {
        produce->file = value;
        return true;
    }
    if (strcmp(name, "--report") == 0) {
        produce->report_file = value;
        return true;
    }
    if (strcmp(name, "--compression") == 0) {
        produce->codec = value;
        if (strcmp(value, "uncompressed") != 0 && stele_codec_from_name(value) != STELE_CODEC_COUNT)
            return true;
        fprintf(stderr, "stele produce: --compression %s must be none, gzip, snappy, lz4 or zstd\n", value);
        return false;
    }
    if (strcmp(name, "-p") == 0) {
        if (stele_cli_number(value, 0, INT32_MAX, &produce->partition))
            return true;
        fprintf(stderr, "stele produce: -p %s must be the number of a partition\n", value);
        return false;
    }
    fprintf(stderr, "stele produce: unexpected %s; see stele produce --help\n", name);
    return false;
}

static bool parse(struct produce *produce, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' && produce->topic == NULL) {
            produce->topic = argv[i];
        } else if (argv[i][0] == '-' && i + 1 < argc) {
            if (!parse_option(produce, argv[i], argv[i + 1]))
                return false;
            i++;
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
    /* Throughput counts here, not the time of one record; a batch stays below the default of message.max.bytes. Of a
     * long line the node is the judge: it names the topic's limit. */
    struct stele_setting settings[] = {{"compression.type", produce->codec},
                                       {"batch.size", "1000000"},
                                       {"max.request.size", "1073741824"},
                                       {NULL, NULL}};
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

static bool open_report(struct produce *produce)
{
    if (produce->report_file == NULL)
        return true;
    produce->report = open(produce->report_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (produce->report < 0)
        fprintf(stderr, "stele produce: %s: %s\n", produce->report_file, strerror(errno));
    produce->report_text = malloc(REPORT_BYTES);
    return produce->report >= 0 && produce->report_text != NULL;
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
    int status = open_report(&produce) ? run(&produce, cli, fd) : STELE_CLI_FAILED;
    if (produce.report_bytes > 0)
        write_report(&produce);
    if (produce.report >= 0 && close(produce.report) != 0) {
        fprintf(stderr, "stele produce: %s: %s\n", produce.report_file, strerror(errno));
        status = STELE_CLI_FAILED;
    }
    free(produce.report_text);
    if (produce.file != NULL)
        (void)close(fd);
    if (produce.failed > 1)
        fprintf(stderr, "stele produce: %llu records were not acknowledged\n", (unsigned long long)produce.failed);
    return status;
}
