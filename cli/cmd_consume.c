#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS_MAX = 1024 };

static const char usage[] = "usage: stele consume TOPIC [-p PARTITION] [--from PLACE] [--to PLACE] [-f FORMAT]\n\n"
                            "Prints the records of a topic, or of one partition. PLACE is beginning, end, an offset, "
                            "or a time: @MILLISECONDS or\n"
                            "YYYY-MM-DD[THH:MM[:SS]] in UTC. Without --from it starts at the end; without --to it goes "
                            "on until it is stopped;\n"
                            "--to end stops at the end as it was at the start; --to OFFSET or TIME stops before it.\n"
                            "FORMAT: %k key, %s value, %o offset, %p partition, %t topic, %T time in ms, %h headers, "
                            "%K and %S length of key and\n"
                            "value (-1: null), %% a percent sign, \\n \\t \\0 as in C. Default: '%s\\n'.\n";

struct consume {
    const char *topic, *format;
    int64_t partition;
    struct stele_cli_place from, to;
    bool has_to;
    struct stele_client *client;
    int32_t partitions;
    int64_t positions[PARTITIONS_MAX], ends[PARTITIONS_MAX]; /* -1: not read */
};

static void print_headers(const struct stele_record_view *record)
{
    const char *key;
    const void *value;
    size_t key_bytes, value_bytes;
    for (size_t i = 0; stele_record_view_header(record, i, &key, &key_bytes, &value, &value_bytes); i++) {
        if (i > 0)
            putchar(',');
        fwrite(key, 1, key_bytes, stdout);
        putchar('=');
        if (value == NULL)
            fputs("NULL", stdout);
        else
            fwrite(value, 1, value_bytes, stdout);
    }
}

static void print_directive(const struct consume *consume, const struct stele_record_view *record, char directive)
{
    switch (directive) {
    case 'k':
        fwrite(record->key, 1, record->key_bytes, stdout);
        break;
    case 's':
        fwrite(record->value, 1, record->value_bytes, stdout);
        break;
    case 'o':
        printf("%lld", (long long)record->offset);
        break;
    case 'p':
        printf("%d", record->partition);
        break;
    case 't':
        fputs(consume->topic, stdout);
        break;
    case 'T':
        printf("%lld", (long long)record->timestamp);
        break;
    case 'h':
        print_headers(record);
        break;
    case 'K':
        printf("%lld", record->key == NULL ? -1LL : (long long)record->key_bytes);
        break;
    case 'S':
        printf("%lld", record->value == NULL ? -1LL : (long long)record->value_bytes);
        break;
    default:
        putchar(directive);
        break;
    }
}

static void print_record(const struct consume *consume, const struct stele_record_view *record)
{
    for (const char *at = consume->format; *at != 0; at++) {
        if (*at == '%' && at[1] != 0)
            print_directive(consume, record, *++at);
        else if (*at == '\\' && at[1] != 0)
            putchar(*++at == 'n' ? '\n' : *at == 't' ? '\t' : *at == '0' ? 0 : *at);
        else
            putchar(*at);
    }
}

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
static struct stele_result assign_all(struct consume *consume, struct stele_consumer *consumer)
{
    struct stele_result result = {.code = 0};
    for (int32_t p = 0; p < consume->partitions && result.code == 0; p++) {
        consume->ends[p] = -1;
        if (consume->partition >= 0 && p != consume->partition)
            continue;
        result = resolve(consume, p, &consume->from, &consume->positions[p]);
        if (result.code == 0 && consume->has_to)
            result = resolve(consume, p, &consume->to, &consume->ends[p]);
        if (result.code != 0 || (consume->has_to && consume->positions[p] >= consume->ends[p])) {
            consume->ends[p] = -1;
            continue;
        }
        result = stele_consumer_assign(consumer, p, consume->positions[p]);
    }
    return result;
}

static bool is_done(const struct consume *consume)
{
    for (int32_t p = 0; p < consume->partitions; p++) {
        if (consume->ends[p] >= 0)
            return false;
    }
    return consume->has_to;
}

static struct stele_result read_all(struct consume *consume, struct stele_consumer *consumer)
{
    struct stele_record_view record;
    struct stele_result result = {.code = 0};
    while (!is_done(consume)) {
        result = stele_consumer_next(consumer, 0, &record);
        if (result.code == 7) {
            fflush(stdout); /* nothing more right now: let out what there is */
            result = stele_consumer_next(consumer, 1000, &record);
        }
        if (result.code == 7)
            continue;
        if (result.code != 0)
            return result;
        bool is_in = !consume->has_to || record.offset < consume->ends[record.partition];
        if (is_in)
            print_record(consume, &record);
        if (consume->has_to && record.offset + 1 >= consume->ends[record.partition])
            consume->ends[record.partition] = -1;
    }
    return (struct stele_result){.code = 0};
}

struct counting {
    const char *topic;
    int32_t partitions;
};

static void count_partitions(void *arg, const struct stele_topic_info *info)
{
    struct counting *counting = arg;
    if (strcmp(info->name, counting->topic) == 0)
        counting->partitions = info->partition_count;
}

static int run(struct consume *consume, const struct stele_cli *cli)
{
    static const struct stele_setting settings[] = {{"max.partition.fetch.bytes", "8388608"}, {NULL, NULL}};
    struct counting counting = {.topic = consume->topic};
    struct stele_result result;
    consume->client = stele_cli_client(cli, "consume");
    if (consume->client == NULL)
        return STELE_CLI_FAILED;
    struct stele_consumer *consumer = stele_consumer_new(consume->client, consume->topic, settings, &result);
    if (consumer != NULL)
        result = stele_topic_list(consume->client, count_partitions, &counting);
    if (consumer != NULL && result.code == 0) {
        consume->partitions = counting.partitions < PARTITIONS_MAX ? counting.partitions : PARTITIONS_MAX;
        result = assign_all(consume, consumer);
    }
    if (consumer != NULL && result.code == 0)
        result = read_all(consume, consumer);
    stele_consumer_free(consumer);
    stele_client_free(consume->client);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "stele consume: standard output cannot be written\n");
        return STELE_CLI_FAILED;
    }
    return stele_cli_report("consume", &result);
}

static bool parse(struct consume *consume, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool is_from = strcmp(argv[i], "--from") == 0, is_to = strcmp(argv[i], "--to") == 0;
        if ((is_from || is_to) && i + 1 < argc) {
            if (!stele_cli_place(argv[++i], is_from ? &consume->from : &consume->to)) {
                fprintf(stderr, "stele consume: %s %s: want beginning, end, an offset or a time\n", argv[i - 1],
                        argv[i]);
                return false;
            }
            consume->has_to = consume->has_to || is_to;
        } else if (strcmp(argv[i], "-p") == 0 && i + 1 < argc) {
            if (!stele_cli_number(argv[++i], 0, INT32_MAX, &consume->partition)) {
                fprintf(stderr, "stele consume: -p %s must be the number of a partition\n", argv[i]);
                return false;
            }
        } else if (strcmp(argv[i], "-f") == 0 && i + 1 < argc) {
            consume->format = argv[++i];
        } else if (argv[i][0] != '-' && consume->topic == NULL) {
            consume->topic = argv[i];
        } else {
            fprintf(stderr, "stele consume: unexpected %s; see stele consume --help\n", argv[i]);
            return false;
        }
    }
    if (consume->topic == NULL)
        fprintf(stderr, "stele consume: a topic is missing; see stele consume --help\n");
    return consume->topic != NULL;
}

int stele_cmd_consume(const struct stele_cli *cli, int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return STELE_CLI_DONE;
    }
    struct consume *consume = calloc(1, sizeof(*consume));
    if (consume == NULL)
        return STELE_CLI_FAILED;
    consume->format = "%s\\n";
    consume->partition = -1;
    consume->from.value = STELE_OFFSET_LATEST;
    int status = parse(consume, argc, argv) ? run(consume, cli) : STELE_CLI_USAGE;
    free(consume);
    return status;
}
