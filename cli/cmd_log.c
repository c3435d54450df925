/* log explain: what lies on disk of a partition, why, and how long. */
#include "cli/document.h"
#include "cli/options.h"

#include <string.h>

enum { OFFSET_ENTRY_BYTES = 8, TIME_ENTRY_BYTES = 12 };

struct explain {
    struct stele_cli_words words;
    int64_t events;
};

static void add_segment(struct stele_document *document, cJSON *list, const struct stele_segment_description *segment)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "base_offset", segment->base_offset);
    stele_document_number(document, row, "next_offset", segment->next_offset);
    stele_document_known(document, row, "first_timestamp", segment->first_timestamp);
    stele_document_known(document, row, "largest_timestamp", segment->largest_timestamp);
    stele_document_number(document, row, "bytes", segment->bytes);
    stele_document_number(document, row, "offset_index_bytes", segment->offset_index_bytes);
    stele_document_number(document, row, "offset_index_entries", segment->offset_index_bytes / OFFSET_ENTRY_BYTES);
    stele_document_number(document, row, "time_index_bytes", segment->time_index_bytes);
    stele_document_number(document, row, "time_index_entries", segment->time_index_bytes / TIME_ENTRY_BYTES);
    stele_document_number(document, row, "txn_index_bytes", segment->txn_index_bytes);
    stele_document_known(document, row, "modified", segment->modified_ms);
    stele_document_text(document, row, "rolled_because", segment->rolled_because);
    stele_document_text(document, row, "kept_because", segment->kept_because);
    stele_document_known(document, row, "delete_at", segment->delete_at_ms);
}

static void add_event(struct stele_document *document, cJSON *list, const struct stele_event_description *event)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "time", event->time_ms);
    stele_document_text(document, row, "kind", event->kind);
    stele_document_known(document, row, "offset", event->offset);
    stele_document_number(document, row, "bytes", event->bytes);
    stele_document_text(document, row, "reason", event->reason);
}

static void add_damage(struct stele_document *document, cJSON *list, const struct stele_damage_description *damage)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "first_offset", damage->first_offset);
    stele_document_number(document, row, "last_offset", damage->last_offset);
    stele_document_number(document, row, "segment", damage->segment_base);
    stele_document_number(document, row, "pos", damage->pos);
}

static void add_log(struct stele_document *document, cJSON *list, const struct stele_log_description *log)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_text(document, row, "topic", log->topic);
    stele_document_number(document, row, "partition", log->partition);
    stele_document_text(document, row, "directory", log->directory);
    stele_document_known(document, row, "leader_epoch", log->leader_epoch);
    stele_document_number(document, row, "log_start_offset", log->log_start_offset);
    stele_document_number(document, row, "high_watermark", log->high_watermark);
    stele_document_number(document, row, "last_stable_offset", log->last_stable_offset);
    stele_document_number(document, row, "log_end_offset", log->log_end_offset);
    stele_document_number(document, row, "recovery_point", log->recovery_point);
    stele_document_number(document, row, "bytes", log->bytes);
    stele_document_number(document, row, "segment_count", log->segment_total);
    stele_document_number(document, row, "producer_count", log->producer_total);
    cJSON *segments = stele_document_list(document, row, "segments");
    for (size_t i = 0; i < log->segment_count; i++)
        add_segment(document, segments, log->segments[i]);
    cJSON *damages = stele_document_list(document, row, "damages");
    for (size_t i = 0; i < log->damage_count; i++)
        add_damage(document, damages, log->damages[i]);
    cJSON *events = stele_document_list(document, row, "events");
    for (size_t i = 0; i < log->event_count; i++)
        add_event(document, events, log->events[i]);
}

static void view_part(const struct stele_cli *cli, const cJSON *list, const char *title,
                      const struct stele_view_column *columns)
{
    if (cJSON_GetArraySize(list) == 0)
        return;
    printf("\n%s\n", title);
    stele_view_table(stdout, list, columns, cli->is_exact);
}

static const struct stele_view_column fields[] = {{"topic", "topic", STELE_VIEW_TEXT},
                                                  {"partition", "partition", STELE_VIEW_TEXT},
                                                  {"directory", "directory", STELE_VIEW_TEXT},
                                                  {"log_start_offset", "begins at", STELE_VIEW_TEXT},
                                                  {"log_end_offset", "ends before", STELE_VIEW_TEXT},
                                                  {"high_watermark", "replicated before", STELE_VIEW_TEXT},
                                                  {"last_stable_offset", "stable before", STELE_VIEW_TEXT},
                                                  {"recovery_point", "synced before", STELE_VIEW_TEXT},
                                                  {"leader_epoch", "leader epoch", STELE_VIEW_TEXT},
                                                  {"bytes", "size", STELE_VIEW_SIZE},
                                                  {"segment_count", "segments", STELE_VIEW_TEXT},
                                                  {"producer_count", "producers known", STELE_VIEW_TEXT},
                                                  {NULL, NULL, STELE_VIEW_TEXT}};

static const struct stele_view_column size_columns[] = {{"base_offset", "FROM", STELE_VIEW_COUNT},
                                                        {"next_offset", "BEFORE", STELE_VIEW_COUNT},
                                                        {"first_timestamp", "FIRST TIME", STELE_VIEW_TIME},
                                                        {"largest_timestamp", "LARGEST TIME", STELE_VIEW_TIME},
                                                        {"bytes", "SIZE", STELE_VIEW_SIZE},
                                                        {"offset_index_bytes", "OFFSET INDEX", STELE_VIEW_SIZE},
                                                        {"offset_index_entries", "ENTRIES", STELE_VIEW_COUNT},
                                                        {"time_index_bytes", "TIME INDEX", STELE_VIEW_SIZE},
                                                        {"time_index_entries", "ENTRIES", STELE_VIEW_COUNT},
                                                        {"txn_index_bytes", "TXN INDEX", STELE_VIEW_SIZE},
                                                        {NULL, NULL, STELE_VIEW_TEXT}};

static const struct stele_view_column why_columns[] = {{"base_offset", "FROM", STELE_VIEW_COUNT},
                                                       {"rolled_because", "ROLLED BECAUSE", STELE_VIEW_TEXT},
                                                       {"delete_at", "GOES AT", STELE_VIEW_TIME},
                                                       {"kept_because", "KEPT BY", STELE_VIEW_TEXT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};

static const struct stele_view_column damage_columns[] = {{"first_offset", "FIRST", STELE_VIEW_COUNT},
                                                          {"last_offset", "LAST", STELE_VIEW_COUNT},
                                                          {"segment", "IN SEGMENT", STELE_VIEW_COUNT},
                                                          {"pos", "AT BYTE", STELE_VIEW_COUNT},
                                                          {NULL, NULL, STELE_VIEW_TEXT}};

static const struct stele_view_column event_columns[] = {
    {"time", "TIME", STELE_VIEW_TIME},  {"kind", "WHAT", STELE_VIEW_TEXT},  {"offset", "OFFSET", STELE_VIEW_COUNT},
    {"bytes", "SIZE", STELE_VIEW_SIZE}, {"reason", "WHY", STELE_VIEW_TEXT}, {NULL, NULL, STELE_VIEW_TEXT}};

static void view_logs(const struct stele_cli *cli, const cJSON *list)
{
    const cJSON *log;
    cJSON_ArrayForEach(log, list)
    {
        const cJSON *segments = cJSON_GetObjectItemCaseSensitive(log, "segments");
        if (log != list->child)
            puts("\n");
        stele_view_fields(stdout, log, fields, cli->is_exact);
        view_part(cli, segments, "Segments", size_columns);
        view_part(cli, segments, "Why they are there", why_columns);
        view_part(cli, cJSON_GetObjectItemCaseSensitive(log, "damages"), "Damaged ranges", damage_columns);
        view_part(cli, cJSON_GetObjectItemCaseSensitive(log, "events"), "What happened", event_columns);
    }
}

/* Leaves the latest events in place; cuts, damage and what was rebuilt always stay. */
static void drop_events(const cJSON *list, int64_t count_max)
{
    const cJSON *log;
    cJSON_ArrayForEach(log, list)
    {
        cJSON *events = cJSON_GetObjectItemCaseSensitive(log, "events");
        int64_t left = cJSON_GetArraySize(events) - count_max;
        cJSON *event = events == NULL ? NULL : events->child, *next;
        for (; event != NULL && left > 0; event = next, left--) {
            const cJSON *kind = cJSON_GetObjectItemCaseSensitive(event, "kind");
            next = event->next;
            if (cJSON_IsString(kind) &&
                (strcmp(kind->valuestring, "roll") == 0 || strcmp(kind->valuestring, "delete") == 0))
                cJSON_Delete(cJSON_DetachItemViaPointer(events, event));
        }
    }
}

static int run_explain(const struct stele_cli *cli, void *line)
{
    const struct explain *explain = line;
    struct stele_log_descriptions *logs = NULL;
    struct stele_cli_partition which;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    if (!stele_cli_partition(explain->words.items[0], &which))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want TOPIC or TOPIC/PARTITION", explain->words.items[0]);
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_topic_logs(client, which.topic, which.partition, STELE_LOG_WITH_SEGMENTS, &logs);
    int called = status = stele_cli_report(cli, &result);
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "logs");
    for (size_t i = 0; called == STELE_CLI_DONE && i < logs->log_count; i++) {
        const struct stele_log_description *log = logs->logs[i];
        if (log->code == 0)
            add_log(&document, list, log);
        else
            status =
                stele_cli_fail(cli, stele_cli_exit_of(log->code), "%s/%d: %s", log->topic, log->partition, log->text);
    }
    stele_log_descriptions_free(logs);
    stele_client_free(client);
    if (called == STELE_CLI_DONE && !stele_document_print(&document, cli, &status)) {
        drop_events(list, explain->events);
        view_logs(cli, list);
    }
    stele_document_deinit(&document);
    return status;
}

static const struct explain initial = {.events = 20};

static const struct stele_cli_option options[] = {
    {.name = "--events",
     .value = "COUNT",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct explain, events),
     .max = INT32_MAX,
     .help = "how many of the latest events to show in tables (20); cuts and damage are shown always"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_log_explain = {
    .name = "log explain",
    .arguments = "TOPIC[/PARTITION]",
    .words_min = 1,
    .words_max = 1,
    .summary = "explain every segment of a partition: range, times, size, indexes, why it is there and when it goes",
    .details = "Shows where the log stands, then each segment, then what was cut, damaged or rebuilt and the latest "
               "rolls and deletions with their reasons. When a segment goes is told by the rules and rates of now.",
    .options = options,
    .line_bytes = sizeof(struct explain),
    .initial = &initial,
    .run = run_explain,
};
