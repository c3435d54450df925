/* Records as text. The format is taken apart once; records are printed into a large buffer that leaves when it is full
 * or when no record is at hand. */
#include "base/utf8.h"
#include "cli/options.h"
#include "cli/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT_BYTES = 1 << 18, PIECES_MAX = 256, WAIT_MS = 200, TIMED_OUT = 7, PROGRESS_RECORDS = 1024 };

/* A directive, or the literal text between two. */
struct piece {
    char directive; /* 0: literal */
    const char *text;
    size_t bytes;
};

struct consume {
    struct stele_cli_words words;
    const char *format_text, *rack;
    int64_t partition;
    struct stele_cli_place from, to;

    const struct stele_cli *cli;
    const char *topic;
    char *literals;
    struct piece pieces[PIECES_MAX];
    int piece_count;

    struct stele_client *client;
    struct stele_consumer *consumer;
    int32_t partitions;
    int64_t *starts; /* -1: not read */
    int64_t *ends;   /* -1: not read, or read to its end */
    int32_t open_count;

    struct stele_progress progress; /* when the records go elsewhere than the terminal */
    int64_t records;
    char *out;
    size_t out_bytes;
    bool is_broken; /* standard output took no more */
};

static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    is_interrupted = 1;
}

/* Output */

static void write_all(struct consume *consume, const char *bytes, size_t count)
{
    while (count > 0 && !consume->is_broken) {
        ssize_t done = write(STDOUT_FILENO, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            stele_progress_wipe(&consume->progress);
            fprintf(stderr, "stele consume: standard output: %s\n", strerror(errno));
            consume->is_broken = true;
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

static void flush_out(struct consume *consume)
{
    write_all(consume, consume->out, consume->out_bytes);
    consume->out_bytes = 0;
}

static void put(struct consume *consume, const void *bytes, size_t count)
{
    if (count > OUT_BYTES - consume->out_bytes)
        flush_out(consume);
    if (count > OUT_BYTES) {
        write_all(consume, bytes, count);
        return;
    }
    if (count > 0)
        memcpy(consume->out + consume->out_bytes, bytes, count);
    consume->out_bytes += count;
}

static void put_number(struct consume *consume, int64_t number)
{
    char text[20];
    put(consume, text, stele_cli_digits(number, text));
}

static void put_headers(struct consume *consume, const struct stele_record_view *record)
{
    const char *key;
    const void *value;
    size_t key_bytes, value_bytes;
    for (size_t i = 0; stele_record_view_header(record, i, &key, &key_bytes, &value, &value_bytes); i++) {
        if (i > 0)
            put(consume, ",", 1);
        put(consume, key, key_bytes);
        put(consume, "=", 1);
        if (value == NULL)
            put(consume, "NULL", 4);
        else
            put(consume, value, value_bytes);
    }
}

static void put_directive(struct consume *consume, const struct stele_record_view *record, char directive)
{
    switch (directive) {
    case 'k':
        put(consume, record->key, record->key_bytes);
        break;
    case 's':
        put(consume, record->value, record->value_bytes);
        break;
    case 'o':
        put_number(consume, record->offset);
        break;
    case 'p':
        put_number(consume, record->partition);
        break;
    case 't':
        put(consume, consume->topic, strlen(consume->topic));
        break;
    case 'T':
        put_number(consume, record->timestamp);
        break;
    case 'h':
        put_headers(consume, record);
        break;
    case 'K':
        put_number(consume, record->key == NULL ? -1 : (int64_t)record->key_bytes);
        break;
    default: /* 'S': the format was checked */
        put_number(consume, record->value == NULL ? -1 : (int64_t)record->value_bytes);
        break;
    }
}

/* JSON */

static void put_text(struct consume *consume, const char *text)
{
    put(consume, text, strlen(text));
}

/* The bytes between quotes. Only those that JSON wants escaped are. */
static void put_quoted(struct consume *consume, const uint8_t *bytes, size_t count)
{
    char escape[8];
    size_t from = 0;
    put(consume, "\"", 1);
    for (size_t at = 0; at < count; at++) {
        if (bytes[at] >= 0x20 && bytes[at] != '"' && bytes[at] != '\\')
            continue;
        put(consume, bytes + from, at - from);
        (void)snprintf(escape, sizeof(escape), "\\u%04x", bytes[at]);
        put(consume, escape, 6);
        from = at + 1;
    }
    put(consume, bytes + from, count - from);
    put(consume, "\"", 1);
}

static void put_base64(struct consume *consume, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    put(consume, "\"", 1);
    for (size_t at = 0; at < count; at += 3) {
        size_t left = count - at;
        unsigned group = (unsigned)bytes[at] << 16;
        group |= left > 1 ? (unsigned)bytes[at + 1] << 8 : 0;
        group |= left > 2 ? (unsigned)bytes[at + 2] : 0;
        char text[4] = {digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=',
                        left > 2 ? digits[group & 63] : '='};
        put(consume, text, 4);
    }
    put(consume, "\"", 1);
}

/* "name":..., or "name_base64":... when the bytes are no text. */
static void put_member(struct consume *consume, const char *name, const void *bytes, size_t count)
{
    bool is_text = true;
    for (size_t at = 0, taken; bytes != NULL && is_text && at < count; at += taken)
        taken = stele_utf8_next((const uint8_t *)bytes + at, count - at, &is_text);
    put_text(consume, ",\"");
    put_text(consume, name);
    put_text(consume, is_text ? "\":" : "_base64\":");
    if (bytes == NULL)
        put_text(consume, "null");
    else if (is_text)
        put_quoted(consume, bytes, count);
    else
        put_base64(consume, bytes, count);
}

static void put_json(struct consume *consume, const struct stele_record_view *record)
{
    const char *key;
    const void *value;
    size_t key_bytes, value_bytes;
    put_text(consume, "{\"topic\":\"");
    put_text(consume, consume->topic); /* a legal name: letters, digits, points, dashes */
    put_text(consume, "\",\"partition\":");
    put_number(consume, record->partition);
    put_text(consume, ",\"offset\":");
    put_number(consume, record->offset);
    put_text(consume, ",\"timestamp\":");
    put_number(consume, record->timestamp);
    put_member(consume, "key", record->key, record->key_bytes);
    put_member(consume, "value", record->value, record->value_bytes);
    put_text(consume, ",\"headers\":[");
    for (size_t i = 0; stele_record_view_header(record, i, &key, &key_bytes, &value, &value_bytes); i++) {
        put_text(consume, i > 0 ? ",{\"index\":" : "{\"index\":");
        put_number(consume, (int64_t)i);
        put_member(consume, "key", key, key_bytes);
        put_member(consume, "value", value, value_bytes);
        put_text(consume, "}");
    }
    put_text(consume, "]}\n");
}

static void put_record(struct consume *consume, const struct stele_record_view *record)
{
    if (stele_cli_is_json(consume->cli)) {
        put_json(consume, record);
        return;
    }
    for (int i = 0; i < consume->piece_count; i++) {
        const struct piece *piece = &consume->pieces[i];
        if (piece->directive == 0)
            put(consume, piece->text, piece->bytes);
        else
            put_directive(consume, record, piece->directive);
    }
}

/* Takes the format apart; literal characters are gathered in `literals`. */
static bool parse_format(struct consume *consume)
{
    const char *at = consume->format_text;
    size_t used = 0;
    consume->literals = malloc(strlen(at) + 1);
    while (consume->literals != NULL && *at != 0) {
        struct piece *last = consume->piece_count > 0 ? &consume->pieces[consume->piece_count - 1] : NULL;
        bool is_directive = at[0] == '%' && at[1] != '%';
        if (is_directive && (at[1] == 0 || strchr("ksoptThKS", at[1]) == NULL)) {
            (void)stele_cli_fail(consume->cli, STELE_CLI_USAGE, "-f has no directive %.2s", at);
            return false;
        }
        if (!is_directive)
            at += at[0] == '%';
        if (!is_directive && !stele_cli_character(&at, &consume->literals[used])) {
            (void)stele_cli_fail(consume->cli, STELE_CLI_USAGE, "-f has no escape %.2s", at);
            return false;
        }
        if (!is_directive && last != NULL && last->directive == 0) {
            last->bytes++;
            used++;
            continue;
        }
        if (consume->piece_count == PIECES_MAX) {
            (void)stele_cli_fail(consume->cli, STELE_CLI_USAGE, "-f has more than %d parts", PIECES_MAX);
            return false;
        }
        consume->pieces[consume->piece_count++] = is_directive
                                                      ? (struct piece){.directive = at[1]}
                                                      : (struct piece){.text = consume->literals + used, .bytes = 1};
        used += !is_directive;
        at += is_directive ? 2 : 0;
    }
    return consume->literals != NULL;
}

/* Reading */

static struct stele_result resolve(struct consume *consume, int32_t partition, const struct stele_cli_place *place,
                                   int64_t *out_offset)
{
    struct stele_result result = {.code = 0};
    if (place->is_offset) {
        *out_offset = place->value;
        return result;
    }
    result = stele_offset_at(consume->client, consume->topic, partition, place->value, out_offset);
    if (result.code == 0 && *out_offset < 0) /* no record at or after that time */
        result = stele_offset_at(consume->client, consume->topic, partition, STELE_OFFSET_LATEST, out_offset);
    return result;
}

/* An offset that is to come yet is no place to begin: reading would begin elsewhere. */
static struct stele_result check_from(struct consume *consume, int32_t partition)
{
    int64_t end = 0;
    struct stele_result result = stele_offset_at(consume->client, consume->topic, partition, STELE_OFFSET_LATEST, &end);
    if (result.code == 0 && consume->from.value > end) {
        result.code = 1;
        (void)snprintf(result.text, sizeof(result.text),
                       "--from %lld: %.200s/%d ends at offset %lld; --from end reads what comes",
                       (long long)consume->from.value, consume->topic, partition, (long long)end);
    }
    return result;
}

/* The first and last offset of every partition; those with nothing to read are left out. */
static struct stele_result find_all(struct consume *consume)
{
    struct stele_result result = {.code = 0};
    for (int32_t p = 0; p < consume->partitions && result.code == 0; p++) {
        int64_t from = 0, to = -1;
        if (consume->partition >= 0 && p != consume->partition)
            continue;
        if (consume->from.is_offset && !consume->to.is_there)
            result = check_from(consume, p);
        if (result.code == 0)
            result = resolve(consume, p, &consume->from, &from);
        if (result.code == 0 && consume->to.is_there)
            result = resolve(consume, p, &consume->to, &to);
        if (result.code != 0 || (consume->to.is_there && from >= to))
            continue;
        consume->starts[p] = from;
        consume->ends[p] = to;
        consume->open_count++;
    }
    return result;
}

/* All at once, after all were found: a fetch that was sent for some of them would wait for records of these alone. */
static struct stele_result assign_all(struct consume *consume)
{
    struct stele_result result = find_all(consume);
    for (int32_t p = 0; p < consume->partitions && result.code == 0; p++) {
        if (consume->starts[p] >= 0)
            result = stele_consumer_assign(consume->consumer, p, consume->starts[p]);
    }
    return result;
}

static void close_partition(struct consume *consume, int32_t partition)
{
    stele_consumer_unassign(consume->consumer, partition);
    consume->ends[partition] = -1;
    consume->open_count--;
}

/* Partitions that reached their end without a record that says so: what is left was compacted away, or markers. */
static void close_passed(struct consume *consume)
{
    for (int32_t p = 0; p < consume->partitions; p++) {
        if (consume->ends[p] >= 0 && stele_consumer_position(consume->consumer, p) >= consume->ends[p])
            close_partition(consume, p);
    }
}

static struct stele_result read_all(struct consume *consume)
{
    struct stele_record_view record;
    struct stele_result result = {.code = 0};
    while (consume->open_count > 0 && !is_interrupted && !consume->is_broken) {
        result = stele_consumer_next(consume->consumer, 0, &record);
        if (result.code == TIMED_OUT) {
            flush_out(consume); /* nothing more right now: let out what there is */
            if (consume->to.is_there)
                close_passed(consume);
            if (consume->open_count == 0 || consume->is_broken)
                break;
            result = stele_consumer_next(consume->consumer, WAIT_MS, &record);
        }
        if (result.code == TIMED_OUT)
            continue;
        if (result.code != 0)
            return result;
        int64_t end = consume->ends[record.partition];
        if (end < 0 || record.offset < end) {
            put_record(consume, &record);
            consume->records++;
        }
        if (consume->records % PROGRESS_RECORDS == 0 && stele_progress_is_due(&consume->progress))
            stele_progress_show(&consume->progress, "%lld records, %s/%d at offset %lld", (long long)consume->records,
                                consume->topic, record.partition, (long long)record.offset);
        if (end >= 0 && record.offset + 1 >= end)
            close_partition(consume, record.partition);
    }
    return (struct stele_result){.code = 0};
}

static void say_reset(void *arg, const struct stele_reset *reset)
{
    struct consume *consume = arg;
    stele_progress_wipe(&consume->progress);
    fprintf(stderr, "stele consume: %s\n", reset->text);
}

static struct stele_result open_all(struct consume *consume)
{
    /* Throughput counts here: an answer is a large part of a segment. What was deleted before it was read is skipped.
     */
    const struct stele_setting settings[] = {{"max.partition.fetch.bytes", "8388608"},
                                             {"auto.offset.reset", "earliest"},
                                             {"client.rack", consume->rack},
                                             {NULL, NULL}};
    struct stele_result result = {.code = 0};
    consume->consumer = stele_consumer_new(consume->client, consume->topic, settings, &result);
    if (consume->consumer == NULL)
        return result;
    stele_consumer_on_reset(consume->consumer, say_reset, consume);
    consume->partitions = stele_consumer_partitions(consume->consumer);
    if (consume->partition >= consume->partitions) {
        result.code = 3;
        (void)snprintf(result.text, sizeof(result.text), "topic '%.200s' has partitions 0 to %d, not %lld",
                       consume->topic, consume->partitions - 1, (long long)consume->partition);
        return result;
    }
    consume->starts = malloc((size_t)consume->partitions * sizeof(*consume->starts));
    consume->ends = malloc((size_t)consume->partitions * sizeof(*consume->ends));
    consume->out = malloc(OUT_BYTES);
    if (consume->starts == NULL || consume->ends == NULL || consume->out == NULL)
        return (struct stele_result){.code = 1002, .text = "out of memory"};
    for (int32_t p = 0; p < consume->partitions; p++)
        consume->starts[p] = consume->ends[p] = -1;
    return assign_all(consume);
}

static int print_records(struct consume *consume)
{
    int status = STELE_CLI_DONE;
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = interrupt;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    consume->client = stele_cli_client(consume->cli, &status);
    if (consume->client == NULL)
        return status;
    struct stele_result result = open_all(consume);
    if (!isatty(STDOUT_FILENO))
        stele_progress_init(&consume->progress);
    if (result.code == 0)
        result = read_all(consume);
    stele_progress_end(&consume->progress);
    if (consume->out != NULL)
        flush_out(consume);
    bool is_cut = is_interrupted && consume->to.is_there && consume->open_count > 0;
    if (is_cut)
        fprintf(stderr, "stele consume: stopped before --to was reached\n");
    stele_consumer_free(consume->consumer);
    stele_client_free(consume->client);
    return consume->is_broken || is_cut ? STELE_CLI_FAILED : stele_cli_report(consume->cli, &result);
}

static const struct consume initial = {
    .format_text = "%s\\n", .rack = "", .partition = -1, .from = {.value = STELE_OFFSET_EARLIEST}};

static int run(const struct stele_cli *cli, void *line)
{
    struct consume *consume = line;
    consume->cli = cli;
    consume->topic = consume->words.items[0];
    int status = parse_format(consume) ? print_records(consume) : STELE_CLI_USAGE;
    free(consume->literals);
    free(consume->starts);
    free(consume->ends);
    free(consume->out);
    return status;
}

static const struct stele_cli_option options[] = {
    {.name = "-p",
     .alias = "--partition",
     .value = "PARTITION",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct consume, partition),
     .max = INT32_MAX,
     .help = "read this partition only"},
    {.name = "--from",
     .value = "PLACE",
     .kind = STELE_CLI_PLACE,
     .at = offsetof(struct consume, from),
     .help = "where to begin (beginning)"},
    {.name = "--to",
     .value = "PLACE",
     .kind = STELE_CLI_PLACE,
     .at = offsetof(struct consume, to),
     .help = "where to stop: before that offset, or before the first record of that time or later; end is the end as "
             "it was at the start"},
    {.name = "-f",
     .alias = "--format",
     .value = "FORMAT",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct consume, format_text),
     .help = "what to print for a record ('%s\\n')"},
    {.name = "--rack",
     .value = "RACK",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct consume, rack),
     .help = "read from replicas in sync of that broker.rack, where there are some, instead of the leaders"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_consume = {
    .name = "consume",
    .arguments = "TOPIC",
    .words_min = 1,
    .words_max = 1,
    .summary = "print the records of a topic, or of one partition",
    .details = "Without --to it goes on until it is stopped.\n\n"
               "PLACE is an offset or a TIME. " STELE_CLI_TIME_HELP "\n\n"
               "FORMAT: %k key, %s value, %o offset, %p partition, %t topic, %T time in ms, %h headers "
               "(name=value,...), %K and %S length of key and value (-1: null), %% a percent sign; \\n \\t \\r \\0 "
               "\\\\ \\xHH as in C.\n\n"
               "With -o json each record is an object on a line of its own: topic, partition, offset, timestamp, key, "
               "value, headers. Bytes that are no UTF-8 are written as base64 under the name with _base64 behind it.",
    .options = options,
    .line_bytes = sizeof(struct consume),
    .initial = &initial,
    .run = run,
};
