/* Lines become records. The input is read in large chunks and lines are handed on where they lie. */
#include "cli/document.h"
#include "cli/format.h"
#include "cli/options.h"
#include "cli/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 18, REPORT_BYTES = 1 << 16, REPORT_LINE_BYTES = 64, SEPARATOR_BYTES = 64 };

struct produce {
    struct stele_cli_words words;
    const char *file, *codec, *report_file, *separator_text;
    int64_t partition;

    const struct stele_cli *cli;
    const char *topic;
    char separator[SEPARATOR_BYTES];
    size_t separator_bytes;
    struct stele_progress progress;
    int64_t input_bytes, file_bytes; /* so far, and of the whole (-1: not known) */
    struct stele_client *client;
    struct stele_producer *producer;
    int report; /* descriptor, -1 none */
    char *report_text;
    size_t report_bytes;
    uint64_t lines, failed, delivered;
    int status;
};

static void write_report(struct produce *produce)
{
    size_t done = 0;
    while (done < produce->report_bytes) {
        ssize_t count = write(produce->report, produce->report_text + done, produce->report_bytes - done);
        if (count < 0 && errno != EINTR) {
            stele_progress_wipe(&produce->progress);
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
        stele_progress_wipe(&produce->progress);
        if (produce->failed++ == 0)
            fprintf(stderr, "stele produce: line %llu: %s\n", (unsigned long long)delivery->tag, delivery->result.text);
        if (produce->status == STELE_CLI_DONE)
            produce->status = stele_cli_exit_of(delivery->result.code);
        return;
    }
    produce->delivered++;
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

static void show_progress(struct produce *produce)
{
    char size[STELE_FORMAT_BYTES];
    if (!stele_progress_is_due(&produce->progress))
        return;
    stele_format_size(produce->input_bytes, size);
    if (produce->file_bytes > 0)
        stele_progress_show(&produce->progress, "%llu records, %s, %d %%", (unsigned long long)produce->delivered, size,
                            (int)(produce->input_bytes * 100 / produce->file_bytes));
    else
        stele_progress_show(&produce->progress, "%llu records, %s", (unsigned long long)produce->delivered, size);
}

/* Polls and lets the report out: a line is there as soon as the record's answer was read. */
static void poll_once(struct produce *produce, int wait_ms)
{
    (void)stele_client_poll(produce->client, wait_ms);
    if (produce->report_bytes > 0)
        write_report(produce);
    show_progress(produce);
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
            stele_progress_wipe(&produce->progress);
            fprintf(stderr, "stele produce: line %llu: %s\n", (unsigned long long)produce->lines, result.text);
            produce->status = stele_cli_exit_of(result.code);
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
        stele_progress_wipe(&produce->progress);
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
        produce->input_bytes += count;
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
    (void)stele_cli_fail(produce->cli, STELE_CLI_USAGE,
                         "-K '%s' must be 1 to %d characters; escapes are \\t \\n \\r \\0 \\\\ \\xHH", text,
                         SEPARATOR_BYTES);
    return false;
}

static int send_lines_of(struct produce *produce, int fd)
{
    /* Throughput counts here, not the time of one record; a batch stays below the default of message.max.bytes. Of a
     * long line the node is the judge: it names the topic's limit. */
    struct stele_setting settings[] = {{"compression.type", produce->codec},
                                       {"batch.size", "1000000"},
                                       {"max.request.size", "1073741824"},
                                       {NULL, NULL}};
    struct stele_result result;
    int status = STELE_CLI_DONE;
    produce->client = stele_cli_client(produce->cli, &status);
    if (produce->client == NULL)
        return status;
    produce->producer = stele_producer_new(produce->client, produce->topic, settings, delivered, produce, &result);
    status = produce->producer == NULL ? stele_cli_report(produce->cli, &result) : send_all(produce, fd);
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

/* What -o json says at the end. */
static void print_summary(const struct produce *produce, int *inout_status)
{
    struct stele_document document;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "topic", produce->topic);
    stele_document_number(&document, document.root, "sent", (int64_t)produce->lines);
    stele_document_number(&document, document.root, "acknowledged", (int64_t)produce->delivered);
    stele_document_number(&document, document.root, "failed", (int64_t)produce->failed);
    (void)stele_document_print(&document, produce->cli, inout_status);
    stele_document_deinit(&document);
}

static int produce_file(struct produce *produce)
{
    struct stat about;
    int fd = STDIN_FILENO;
    if (produce->file != NULL && (fd = open(produce->file, O_RDONLY | O_CLOEXEC)) < 0)
        return stele_cli_fail(produce->cli, STELE_CLI_FAILED, "%s: %s", produce->file, strerror(errno));
    produce->file_bytes = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) ? about.st_size : -1;
    if (!isatty(fd)) /* a person who types needs no count */
        stele_progress_init(&produce->progress);
    int status = open_report(produce) ? send_lines_of(produce, fd) : STELE_CLI_FAILED;
    stele_progress_end(&produce->progress);
    if (produce->report_bytes > 0)
        write_report(produce);
    if (produce->report >= 0 && close(produce->report) != 0)
        status = stele_cli_fail(produce->cli, STELE_CLI_FAILED, "%s: %s", produce->report_file, strerror(errno));
    if (produce->file != NULL)
        (void)close(fd);
    if (produce->failed > 1)
        fprintf(stderr, "stele produce: %llu records were not acknowledged\n", (unsigned long long)produce->failed);
    print_summary(produce, &status);
    return status;
}

static const struct produce initial = {.codec = "none", .partition = -1, .report = -1};

static int run(const struct stele_cli *cli, void *line)
{
    struct produce *produce = line;
    produce->cli = cli;
    produce->topic = produce->words.items[0];
    if (produce->separator_text != NULL && !parse_separator(produce, produce->separator_text))
        return STELE_CLI_USAGE;
    int status = produce_file(produce);
    free(produce->report_text);
    return status;
}

static const struct stele_cli_option options[] = {
    {.name = "-p",
     .alias = "--partition",
     .value = "PARTITION",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct produce, partition),
     .max = INT32_MAX,
     .help = "all to this partition; otherwise by key, or spread over all"},
    {.name = "-K",
     .alias = "--key-separator",
     .value = "SEP",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct produce, separator_text),
     .help = "what stands before the first SEP of a line is the record's key; a line without SEP has none; \\t \\0 "
             "\\xHH and so on as in C"},
    {.name = "-l",
     .alias = "--lines",
     .value = "FILE",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct produce, file),
     .help = "read lines from FILE"},
    {.name = "--compression",
     .alias = "-z",
     .value = "none|gzip|snappy|lz4|zstd",
     .kind = STELE_CLI_CHOICE,
     .at = offsetof(struct produce, codec),
     .help = "how batches are packed (none)"},
    {.name = "--report",
     .value = "FILE",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct produce, report_file),
     .help = "write a line for each acknowledged record as soon as it is known: line-number partition offset"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_produce = {
    .name = "produce",
    .arguments = "TOPIC",
    .words_min = 1,
    .words_max = 1,
    .summary = "send each line of a file, or of standard input, as a record",
    .details = "The end of the line is not part of the record. Stops at the first record that is refused; fails when a "
               "record was not acknowledged.",
    .options = options,
    .line_bytes = sizeof(struct produce),
    .initial = &initial,
    .run = run,
};
