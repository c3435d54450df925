/* topic: offsets by time, and records deleted up to an offset. */
#include "base/err.h"
#include "cli/document.h"
#include "cli/format.h"
#include "cli/options.h"
#include "host/clock.h"

#include <stdlib.h>
#include <string.h>

enum { TIMES_MAX = 8, COLUMNS = 2 * TIMES_MAX + 2 };

/* offsets */

struct offsets {
    struct stele_cli_words words;
    struct stele_cli_list at;
};

struct moment {
    const char *text; /* as it was given */
    int64_t time_ms;  /* or STELE_OFFSET_ */
    struct stele_offsets *found;
};

struct search {
    const struct stele_cli *cli;
    struct stele_client *client;
    const char *topic;
    struct moment moments[TIMES_MAX];
    int count;
    struct stele_offsets *ends; /* for moments after the last record */
};

/* beginning before every time, end behind them. */
static int compare_moments(const void *left, const void *right)
{
    int64_t a = ((const struct moment *)left)->time_ms, b = ((const struct moment *)right)->time_ms;
    a = a == STELE_OFFSET_LATEST ? INT64_MAX : a;
    b = b == STELE_OFFSET_LATEST ? INT64_MAX : b;
    return (a > b) - (a < b);
}

static int take_moment(struct search *search, const char *text)
{
    if (search->count == TIMES_MAX)
        return stele_cli_fail(search->cli, STELE_CLI_USAGE, "%s is one more than the %d times that fit", text,
                              TIMES_MAX);
    struct moment *moment = &search->moments[search->count];
    if (!stele_cli_time(text, stele_clock_wall_ms(), &moment->time_ms))
        return stele_cli_fail(search->cli, STELE_CLI_USAGE, "%s is no time: want -1h, 2024-05-01T12:00, @MILLISECONDS",
                              text);
    moment->text = text;
    search->count++;
    return STELE_CLI_DONE;
}

static int take_moments(struct search *search, const struct offsets *offsets)
{
    int status = STELE_CLI_DONE;
    for (size_t i = 0; i < offsets->at.count && status == STELE_CLI_DONE; i++)
        status = take_moment(search, offsets->at.items[i]);
    for (int i = 1; i < offsets->words.count && status == STELE_CLI_DONE; i++)
        status = take_moment(search, offsets->words.items[i]);
    if (status == STELE_CLI_DONE && search->count == 0) {
        (void)take_moment(search, "beginning");
        (void)take_moment(search, "end");
    }
    qsort(search->moments, (size_t)search->count, sizeof(search->moments[0]), compare_moments);
    return status;
}

static int find_all(struct search *search)
{
    struct stele_result result = {.code = 0};
    for (int i = 0; i < search->count && result.code == 0; i++)
        result =
            stele_topic_offsets(search->client, search->topic, search->moments[i].time_ms, &search->moments[i].found);
    if (result.code == 0)
        result = stele_topic_offsets(search->client, search->topic, STELE_OFFSET_LATEST, &search->ends);
    return stele_cli_report(search->cli, &result);
}

static const struct stele_offset_found *found_of(const struct stele_offsets *offsets, int32_t partition)
{
    for (size_t i = 0; i < offsets->partition_count; i++) {
        if (offsets->partitions[i]->partition == partition)
            return offsets->partitions[i];
    }
    return NULL;
}

/* Where the span of a moment begins or ends: behind the last record when there is none at that time or later. -1: not
 * known. */
static int64_t border(const struct search *search, int index, int32_t partition)
{
    const struct stele_offset_found *found = found_of(search->moments[index].found, partition);
    if (found == NULL || found->code != 0)
        return -1;
    if (found->offset >= 0)
        return found->offset;
    found = found_of(search->ends, partition);
    return found == NULL || found->code != 0 ? -1 : found->offset;
}

/* One partition: what JSON shows, and flat values for the table. */
static const char *add_partition(struct search *search, struct stele_document *document, cJSON *list, int32_t partition)
{
    const char *error = NULL;
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "partition", partition);
    cJSON *ats = stele_document_list(document, row, "at");
    cJSON *spans = stele_document_list(document, row, "spans");
    for (int i = 0; i < search->count; i++) {
        const struct stele_offset_found *found = found_of(search->moments[i].found, partition);
        bool is_good = found != NULL && found->code == 0;
        cJSON *at = stele_document_row(document, ats);
        stele_document_text(document, at, "at", search->moments[i].text);
        stele_document_known(document, at, "offset", is_good ? found->offset : -1);
        stele_document_known(document, at, "timestamp", is_good ? found->timestamp : -1);
        error = is_good || found == NULL ? error : found->text;
    }
    for (int i = 0; i + 1 < search->count; i++) {
        int64_t from = border(search, i, partition), to = border(search, i + 1, partition);
        cJSON *span = stele_document_row(document, spans);
        stele_document_known(document, span, "from", from);
        stele_document_known(document, span, "to", to);
        stele_document_known(document, span, "offsets", from < 0 || to < 0 ? -1 : to > from ? to - from : 0);
    }
    stele_document_text(document, row, "error", error);
    return error;
}

/* A row of the table out of one of the document; spans are added up in `totals`. */
static void flatten(struct stele_document *flat, cJSON *rows, const cJSON *from, int64_t totals[TIMES_MAX])
{
    char key[16];
    int index = 0;
    const cJSON *item, *error = cJSON_GetObjectItemCaseSensitive(from, "error");
    cJSON *row = stele_document_row(flat, rows);
    stele_document_number(flat, row, "partition", stele_document_get(from, "partition", -1));
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(from, "at"))
    {
        (void)snprintf(key, sizeof(key), "at%d", index++);
        int64_t offset = stele_document_get(item, "offset", -1);
        if (offset < 0)
            stele_document_text(flat, row, key, "none");
        else
            stele_document_number(flat, row, key, offset);
    }
    index = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(from, "spans"))
    {
        (void)snprintf(key, sizeof(key), "span%d", index);
        int64_t span = stele_document_get(item, "offsets", -1);
        stele_document_known(flat, row, key, span);
        totals[index++] += span > 0 ? span : 0;
    }
    stele_document_text(flat, row, "error", cJSON_IsString(error) ? error->valuestring : NULL);
}

static void view_offsets(const struct search *search, const cJSON *list)
{
    struct stele_view_column columns[COLUMNS + 1] = {{"partition", "PARTITION", STELE_VIEW_COUNT}};
    char keys[2 * TIMES_MAX][16], headings[TIMES_MAX][STELE_FORMAT_BYTES];
    int64_t totals[TIMES_MAX] = {0};
    int at = 1;
    struct stele_document flat;
    const cJSON *item;
    for (int i = 0; i < search->count; i++) {
        const struct moment *moment = &search->moments[i];
        (void)snprintf(headings[i], sizeof(headings[i]), "%.47s", moment->text);
        if (moment->time_ms >= 0)
            stele_format_time(moment->time_ms, headings[i]);
        (void)snprintf(keys[2 * i], sizeof(keys[0]), "at%d", i);
        (void)snprintf(keys[2 * i + 1], sizeof(keys[0]), "span%d", i);
        columns[at++] = (struct stele_view_column){keys[2 * i], headings[i], STELE_VIEW_COUNT};
        if (i + 1 < search->count)
            columns[at++] = (struct stele_view_column){keys[2 * i + 1], "SPAN", STELE_VIEW_COUNT};
    }
    columns[at++] = (struct stele_view_column){"error", "ERROR", STELE_VIEW_TEXT};
    stele_document_init(&flat);
    cJSON *rows = stele_document_list(&flat, flat.root, "rows");
    cJSON_ArrayForEach(item, list) flatten(&flat, rows, item, totals);
    if (cJSON_GetArraySize(list) > 1 && search->count > 1) {
        cJSON *row = stele_document_row(&flat, rows);
        stele_document_text(&flat, row, "partition", "total");
        for (int i = 0; i + 1 < search->count; i++)
            stele_document_number(&flat, row, keys[2 * i + 1], totals[i]);
    }
    stele_view_table(stdout, rows, columns, search->cli->is_exact);
    stele_document_deinit(&flat);
}

static int show_offsets(struct search *search)
{
    struct stele_document document;
    int status = STELE_CLI_DONE;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "topic", search->topic);
    cJSON *times = stele_document_list(&document, document.root, "times");
    for (int i = 0; i < search->count; i++) {
        cJSON *row = stele_document_row(&document, times);
        stele_document_text(&document, row, "at", search->moments[i].text);
        stele_document_known(&document, row, "time", search->moments[i].time_ms);
    }
    cJSON *list = stele_document_list(&document, document.root, "partitions");
    for (size_t i = 0; i < search->ends->partition_count; i++) {
        int32_t partition = search->ends->partitions[i]->partition;
        const char *error = add_partition(search, &document, list, partition);
        if (error != NULL)
            status = stele_cli_fail(search->cli, STELE_CLI_FAILED, "%s/%d: %s", search->topic, partition, error);
    }
    if (!stele_document_print(&document, search->cli, &status))
        view_offsets(search, list);
    stele_document_deinit(&document);
    return status;
}

static int run_offsets(const struct stele_cli *cli, void *line)
{
    const struct offsets *offsets = line;
    struct search search = {.cli = cli, .topic = offsets->words.items[0]};
    int status = take_moments(&search, offsets);
    if (status != STELE_CLI_DONE)
        return status;
    search.client = stele_cli_client(cli, &status);
    if (search.client == NULL)
        return status;
    status = find_all(&search);
    if (status == STELE_CLI_DONE)
        status = show_offsets(&search);
    for (int i = 0; i < search.count; i++)
        stele_offsets_free(search.moments[i].found);
    stele_offsets_free(search.ends);
    stele_client_free(search.client);
    return status;
}

static const struct stele_cli_option offsets_options[] = {
    {.name = "--at",
     .value = "TIME",
     .kind = STELE_CLI_LIST,
     .at = offsetof(struct offsets, at),
     .help = "a time; further ones may follow the topic or come with --at of their own"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_topic_offsets = {
    .name = "topic offsets",
    .arguments = "TOPIC [TIME...]",
    .words_min = 1,
    .words_max = 1 + TIMES_MAX,
    .summary = "show the offset of each partition at times, and the span between them",
    .details = "Asks the time indexes; no record is read for it. The offset at a time is that of the first record "
               "with that time or a later one; a span counts the offsets between two times, which is the number of "
               "records unless some were compacted away. Times are put in their order. Without TIME: beginning and "
               "end.\n\n" STELE_CLI_TIME_HELP,
    .options = offsets_options,
    .line_bytes = sizeof(struct offsets),
    .run = run_offsets,
};

/* trim */

struct trim {
    struct stele_cli_words words;
    struct stele_cli_place before;
};

/* Up to where the partition's records go. -1: nothing to do, because it holds none. */
static struct stele_result find_end(struct stele_client *client, const struct trim *trim, const char *topic,
                                    int32_t partition, int64_t *out_offset)
{
    struct stele_result result = {.code = 0};
    if (trim->before.is_offset) {
        *out_offset = trim->before.value;
        return result;
    }
    result = stele_offset_at(client, topic, partition, trim->before.value, out_offset);
    if (result.code == 0 && *out_offset < 0) /* all of them are older */
        result = stele_offset_at(client, topic, partition, STELE_OFFSET_LATEST, out_offset);
    return result;
}

static int trim_one(const struct stele_cli *cli, struct stele_client *client, const struct trim *trim,
                    const struct stele_cli_partition *which, struct stele_document *document)
{
    int64_t offset = -1, start = -1;
    struct stele_result result = find_end(client, trim, which->topic, which->partition, &offset);
    if (result.code == 0)
        result = stele_records_delete(client, which->topic, which->partition, offset, &start);
    if (result.code != 0)
        return stele_cli_fail(cli, stele_cli_exit_of(result.code), "%s/%d: %s%s", which->topic, which->partition,
                              result.text,
                              result.code == STELE_OFFSET_OUT_OF_RANGE ? "; --before end deletes all there are" : "");
    cJSON *row = stele_document_row(document, cJSON_GetObjectItemCaseSensitive(document->root, "partitions"));
    stele_document_number(document, row, "partition", which->partition);
    stele_document_number(document, row, "start", start);
    return STELE_CLI_DONE;
}

static int trim_all(const struct stele_cli *cli, struct stele_client *client, const struct trim *trim,
                    struct stele_cli_partition *which, struct stele_document *document)
{
    struct stele_offsets *offsets = NULL;
    if (which->partition >= 0)
        return trim_one(cli, client, trim, which, document);
    struct stele_result result = stele_topic_offsets(client, which->topic, STELE_OFFSET_EARLIEST, &offsets);
    int status = stele_cli_report(cli, &result);
    for (size_t i = 0; result.code == 0 && i < offsets->partition_count; i++) {
        which->partition = offsets->partitions[i]->partition;
        int one = trim_one(cli, client, trim, which, document);
        status = one != STELE_CLI_DONE ? one : status;
    }
    stele_offsets_free(offsets);
    return status;
}

static int run_trim(const struct stele_cli *cli, void *line)
{
    static const struct stele_view_column columns[] = {{"partition", "PARTITION", STELE_VIEW_COUNT},
                                                       {"start", "BEGINS AT", STELE_VIEW_COUNT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    const struct trim *trim = line;
    struct stele_cli_partition which;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    if (!trim->before.is_there)
        return stele_cli_fail(cli, STELE_CLI_USAGE, "--before PLACE is missing");
    if (!stele_cli_partition(trim->words.items[0], &which))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want TOPIC or TOPIC/PARTITION", trim->words.items[0]);
    if (trim->before.is_offset && which.partition < 0)
        return stele_cli_fail(cli, STELE_CLI_USAGE, "--before %lld is of one partition: write %s/PARTITION",
                              (long long)trim->before.value, which.topic);
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "topic", which.topic);
    cJSON *list = stele_document_list(&document, document.root, "partitions");
    status = trim_all(cli, client, trim, &which, &document);
    stele_client_free(client);
    if (!stele_document_print(&document, cli, &status))
        stele_view_table(stdout, list, columns, cli->is_exact);
    stele_document_deinit(&document);
    return status;
}

static const struct stele_cli_option trim_options[] = {
    {.name = "--before",
     .value = "PLACE",
     .kind = STELE_CLI_PLACE,
     .at = offsetof(struct trim, before),
     .help = "the first record to keep: an offset (of one partition), a time, or end, which keeps none"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_topic_trim = {
    .name = "topic trim",
    .arguments = "TOPIC[/PARTITION]",
    .words_min = 1,
    .words_max = 1,
    .summary = "delete the oldest records of a topic or partition, for good",
    .details = "What lies before the place is never read again, at once and after a restart; the disk gets the room of "
               "whole segments back. Prints where each partition begins now. A partition that begins behind the place "
               "already is left as it is.\n\n" STELE_CLI_TIME_HELP,
    .options = trim_options,
    .line_bytes = sizeof(struct trim),
    .run = run_trim,
};
