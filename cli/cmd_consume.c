/* Records as text. The format is taken apart once; records are printed into a large buffer that leaves when it is full
 * or when no record is at hand. */
#include "cli/options.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT_BYTES = 1 << 18, PIECES_MAX = 256, WAIT_MS = 200, TIMED_OUT = 7 };

static const char usage[] =
    "usage: stele consume TOPIC [-p PARTITION] [--from PLACE] [--to PLACE] [-f FORMAT]\n\n"
    "Prints the records of a topic, or of one partition. Without --to it goes on until it is stopped.\n"
    "  -p PARTITION  read this partition only\n"
    "  --from PLACE  where to begin (beginning)\n"
    "  --to PLACE    where to stop: before that offset, or before the first record of that time or later; end is the\n"
    "                end as it was at the start\n"
    "  -f FORMAT     what to print for a record ('%s\\n')\n\n"
    "PLACE is beginning, end, an offset, or a time: @MILLISECONDS since 1970, or YYYY-MM-DD[THH:MM[:SS[.mmm]]] in "
    "UTC,\n"
    "or with Z, +HH:MM or -HH:MM behind it.\n"
    "FORMAT: %k key, %s value, %o offset, %p partition, %t topic, %T time in ms, %h headers (name=value,...), %K and "
    "%S\n"
    "length of key and value (-1: null), %% a percent sign; \\n \\t \\r \\0 \\\\ \\xHH as in C.\n";

/* A directive, or the literal text between two. */
struct piece {
    char directive; /* 0: literal */
    const char *text;
    size_t bytes;
};

struct consume {
    const char *topic, *format_text;
    char *literals;
    struct piece pieces[PIECES_MAX];
    int piece_count;
    int64_t partition;
    struct stele_cli_place from, to;
    bool has_to;

    struct stele_client *client;
    struct stele_consumer *consumer;
    int32_t partitions;
    int64_t *ends; /* -1: not read, or read to its end */
    int32_t open_count;

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

static void put_record(struct consume *consume, const struct stele_record_view *record)
{
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
            fprintf(stderr, "stele consume: -f has no directive %.2s; see stele consume --help\n", at);
            return false;
        }
        if (!is_directive)
            at += at[0] == '%';
        if (!is_directive && !stele_cli_character(&at, &consume->literals[used])) {
            fprintf(stderr, "stele consume: -f has no escape %.2s; see stele consume --help\n", at);
            return false;
        }
        if (!is_directive && last != NULL && last->directive == 0) {
            last->bytes++;
            used++;
            continue;
        }
        if (consume->piece_count == PIECES_MAX) {
            fprintf(stderr, "stele consume: -f has more than %d parts\n", PIECES_MAX);
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

/* Every partition with its first and last offset; those with nothing to read are left out. */
static struct stele_result assign_all(struct consume *consume)
{
    struct stele_result result = {.code = 0};
    for (int32_t p = 0; p < consume->partitions && result.code == 0; p++) {
        int64_t from = 0, to = -1;
        if (consume->partition >= 0 && p != consume->partition)
            continue;
        result = resolve(consume, p, &consume->from, &from);
        if (result.code == 0 && consume->has_to)
            result = resolve(consume, p, &consume->to, &to);
        if (result.code != 0 || (consume->has_to && from >= to))
            continue;
        result = stele_consumer_assign(consume->consumer, p, from);
        consume->ends[p] = to;
        consume->open_count++;
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
            if (consume->has_to)
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
        if (end < 0 || record.offset < end)
            put_record(consume, &record);
        if (end >= 0 && record.offset + 1 >= end)
            close_partition(consume, record.partition);
    }
    return (struct stele_result){.code = 0};
}

static struct stele_result open_all(struct consume *consume)
{
    /* Throughput counts here: an answer is a large part of a segment. */
    static const struct stele_setting settings[] = {
        {"max.partition.fetch.bytes", "8388608"}, {"auto.offset.reset", "none"}, {NULL, NULL}};
    struct stele_result result = {.code = 0};
    consume->consumer = stele_consumer_new(consume->client, consume->topic, settings, &result);
    if (consume->consumer == NULL)
        return result;
    consume->partitions = stele_consumer_partitions(consume->consumer);
    if (consume->partition >= consume->partitions) {
        result.code = 3;
        (void)snprintf(result.text, sizeof(result.text), "topic '%.200s' has partitions 0 to %d, not %lld",
                       consume->topic, consume->partitions - 1, (long long)consume->partition);
        return result;
    }
    consume->ends = malloc((size_t)consume->partitions * sizeof(*consume->ends));
    consume->out = malloc(OUT_BYTES);
    if (consume->ends == NULL || consume->out == NULL)
        return (struct stele_result){.code = 1002, .text = "out of memory"};
    for (int32_t p = 0; p < consume->partitions; p++)
        consume->ends[p] = -1;
    return assign_all(consume);
}

static int run(struct consume *consume, const struct stele_cli *cli)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = interrupt;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    consume->client = stele_cli_client(cli, "consume");
    if (consume->client == NULL)
        return STELE_CLI_FAILED;
    struct stele_result result = open_all(consume);
    if (result.code == 0)
        result = read_all(consume);
    if (consume->out != NULL)
        flush_out(consume);
    bool is_cut = is_interrupted && consume->has_to && consume->open_count > 0;
    if (is_cut)
        fprintf(stderr, "stele consume: stopped before --to was reached\n");
    stele_consumer_free(consume->consumer);
    stele_client_free(consume->client);
    return consume->is_broken || is_cut ? STELE_CLI_FAILED : stele_cli_report("consume", &result);
}

static bool parse(struct consume *consume, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool is_from = strcmp(argv[i], "--from") == 0, is_to = strcmp(argv[i], "--to") == 0;
        if ((is_from || is_to) && i + 1 < argc) {
            if (!stele_cli_place(argv[++i], is_from ? &consume->from : &consume->to)) {
                fprintf(stderr, "stele consume: %s %s: want beginning, end, an offset, or a time; see --help\n",
                        argv[i - 1], argv[i]);
                return false;
            }
            consume->has_to = consume->has_to || is_to;
        } else if (strcmp(argv[i], "-p") == 0 && i + 1 < argc) {
            if (!stele_cli_number(argv[++i], 0, INT32_MAX, &consume->partition)) {
                fprintf(stderr, "stele consume: -p %s must be the number of a partition\n", argv[i]);
                return false;
            }
        } else if (strcmp(argv[i], "-f") == 0 && i + 1 < argc) {
            consume->format_text = argv[++i];
        } else if (argv[i][0] != '-' && consume->topic == NULL) {
            consume->topic = argv[i];
        } else {
            fprintf(stderr, "stele consume: unexpected %s; see stele consume --help\n", argv[i]);
            return false;
        }
    }
    if (consume->topic == NULL)
        fprintf(stderr, "stele consume: a topic is missing; see stele consume --help\n");
    return consume->topic != NULL && parse_format(consume);
}

int stele_cmd_consume(const struct stele_cli *cli, int argc, char **argv)
{
    struct consume consume = {.format_text = "%s\\n", .partition = -1, .from.value = STELE_OFFSET_EARLIEST};
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return STELE_CLI_DONE;
    }
    int status = parse(&consume, argc, argv) ? run(&consume, cli) : STELE_CLI_USAGE;
    free(consume.literals);
    free(consume.ends);
    free(consume.out);
    return status;
}
