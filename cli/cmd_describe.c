/* topic describe: what the metadata says of topics, with what the leaders say of their partitions. */
#include "base/err.h"
#include "cli/document.h"
#include "cli/options.h"

#include <string.h>

struct describe {
    struct stele_cli_words words;
    bool only_ailing;
};

/* Logs in the order of topics and partitions, of which each is asked for once, in that order. */
struct cursor {
    const struct stele_log_descriptions *logs;
    size_t at;
};

/* NULL: nobody tells of it. */
static const struct stele_log_description *find_log(struct cursor *cursor, const char *topic, int32_t partition)
{
    for (; cursor->logs != NULL && cursor->at < cursor->logs->log_count; cursor->at++) {
        const struct stele_log_description *log = cursor->logs->logs[cursor->at];
        int order = strcmp(log->topic, topic);
        if (order == 0 && log->partition == partition)
            return log;
        if (order > 0 || (order == 0 && log->partition > partition))
            return NULL;
    }
    return NULL;
}

static const struct stele_replica_description *find_replica(const struct stele_log_description *log, int32_t node_id)
{
    for (size_t i = 0; log != NULL && i < log->replica_count; i++) {
        if (log->replicas[i]->node_id == node_id)
            return log->replicas[i];
    }
    return NULL;
}

/* What the leader knows of each replica, in their order. */
static void add_replicas(struct stele_document *document, cJSON *row,
                         const struct stele_partition_description *partition, const struct stele_log_description *log)
{
    cJSON *lag = stele_document_list(document, row, "lag");
    cJSON *list = stele_document_list(document, row, "replica_states");
    for (size_t i = 0; i < partition->replica_count; i++) {
        const struct stele_replica_description *replica = find_replica(log, partition->replicas[i]);
        cJSON *state = stele_document_row(document, list);
        stele_document_known(document, lag, NULL, replica == NULL ? -1 : replica->lag);
        stele_document_number(document, state, "node", partition->replicas[i]);
        stele_document_known(document, state, "log_end_offset", replica == NULL ? -1 : replica->log_end_offset);
        stele_document_known(document, state, "lag", replica == NULL ? -1 : replica->lag);
        stele_document_known(document, state, "synced_offset", replica == NULL ? -1 : replica->synced_offset);
        stele_document_known(document, state, "last_caught_up_ms", replica == NULL ? -1 : replica->caught_up_ms);
    }
}

static bool is_ailing(const struct stele_partition_description *partition, const struct stele_log_description *log)
{
    return partition->code != 0 || partition->leader_id < 0 || partition->isr_count < partition->replica_count ||
           partition->is_recovering || partition->adding_count > 0 || log == NULL || log->code != 0;
}

static void add_partition(struct stele_document *document, cJSON *list,
                          const struct stele_partition_description *partition, const struct stele_log_description *log)
{
    cJSON *row = stele_document_row(document, list);
    const char *error = partition->code != 0 ? partition->text : log != NULL && log->code != 0 ? log->text : NULL;
    bool is_told = log != NULL && log->code == 0 && log->replica_count > 0; /* by its leader */
    stele_document_number(document, row, "partition", partition->partition);
    stele_document_known(document, row, "leader", partition->leader_id);
    stele_document_known(document, row, "leader_epoch", partition->leader_epoch);
    stele_document_known(document, row, "partition_epoch", partition->partition_epoch);
    stele_document_numbers(document, row, "replicas", partition->replicas, partition->replica_count);
    stele_document_numbers(document, row, "isr", partition->isr, partition->isr_count);
    stele_document_numbers(document, row, "elr", partition->elr, partition->elr_count);
    stele_document_numbers(document, row, "last_known_elr", partition->last_known_elr, partition->last_known_elr_count);
    stele_document_numbers(document, row, "adding", partition->adding, partition->adding_count);
    stele_document_numbers(document, row, "removing", partition->removing, partition->removing_count);
    stele_document_flag(document, row, "recovering", partition->is_recovering);
    stele_document_known(document, row, "log_start_offset", is_told ? log->log_start_offset : -1);
    stele_document_known(document, row, "high_watermark", is_told ? log->high_watermark : -1);
    stele_document_known(document, row, "log_end_offset", is_told ? log->log_end_offset : -1);
    stele_document_known(document, row, "epoch_start_offset", is_told ? log->epoch_start_offset : -1);
    add_replicas(document, row, partition, is_told ? log : NULL);
    stele_document_text(document, row, "error", error);
}

/* A topic with its own settings; the list of its partitions. */
static cJSON *add_heading(struct stele_document *document, cJSON *list, const struct stele_topic_description *topic)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_text(document, row, "name", topic->name);
    stele_document_text(document, row, "id", topic->topic_id);
    stele_document_flag(document, row, "internal", topic->is_internal);
    cJSON *settings = stele_document_list(document, row, "settings");
    for (size_t i = 0; i < topic->setting_count; i++) {
        cJSON *setting = stele_document_row(document, settings);
        stele_document_text(document, setting, "name", topic->settings[i].name);
        stele_document_text(document, setting, "value", topic->settings[i].value);
    }
    return stele_document_list(document, row, "partitions");
}

static void add_topic(struct stele_document *document, cJSON *list, const struct stele_topic_description *topic,
                      struct cursor *cursor, bool only_ailing)
{
    cJSON *partitions = only_ailing ? NULL : add_heading(document, list, topic);
    for (size_t i = 0; i < topic->partition_count; i++) {
        const struct stele_partition_description *partition = topic->partitions[i];
        const struct stele_log_description *log = find_log(cursor, topic->name, partition->partition);
        if (only_ailing && !is_ailing(partition, log))
            continue;
        if (partitions == NULL)
            partitions = add_heading(document, list, topic);
        add_partition(document, partitions, partition, log);
    }
}

/* Of one topic, or of all: the logs that its leaders tell of. Without them there is less to show. */
static int ask_logs(const struct stele_cli *cli, struct stele_client *client, const char *topic,
                    struct stele_log_descriptions **out_logs)
{
    struct stele_result result = stele_topic_logs(client, topic, -1, 0, out_logs);
    return stele_cli_report(cli, &result);
}

static int add_topics(const struct stele_cli *cli, struct stele_client *client, const struct describe *options,
                      const struct stele_topic_descriptions *topics, struct stele_document *document)
{
    struct stele_log_descriptions *all = NULL;
    bool is_all = options->words.count == 0;
    int status = is_all && topics->topic_count > 0 ? ask_logs(cli, client, NULL, &all) : STELE_CLI_DONE;
    cJSON *list = stele_document_list(document, document->root, "topics");
    struct cursor cursor_of_all = {.logs = all};
    for (size_t i = 0; i < topics->topic_count; i++) {
        const struct stele_topic_description *topic = topics->topics[i];
        struct stele_log_descriptions *logs = NULL;
        int one = STELE_CLI_DONE;
        if (topic->code == STELE_UNKNOWN_TOPIC_OR_PARTITION)
            one = stele_cli_fail(cli, STELE_CLI_MISSING,
                                 "there is no topic '%s'; stele topic list shows those that are", topic->name);
        else if (topic->code != 0)
            one = stele_cli_fail(cli, stele_cli_exit_of(topic->code), "%s: %s", topic->name, topic->text);
        else {
            one = is_all ? STELE_CLI_DONE : ask_logs(cli, client, topic->name, &logs);
            struct cursor cursor = {.logs = logs};
            add_topic(document, list, topic, is_all ? &cursor_of_all : &cursor, options->only_ailing);
        }
        stele_log_descriptions_free(logs);
        status = one != STELE_CLI_DONE ? one : status;
    }
    stele_log_descriptions_free(all);
    return status;
}

static void view_topics(const struct stele_cli *cli, const cJSON *list)
{
    static const struct stele_view_column fields[] = {
        {"name", "topic", STELE_VIEW_TEXT}, {"id", "id", STELE_VIEW_TEXT}, {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column setting_columns[] = {
        {"name", "SETTING", STELE_VIEW_TEXT}, {"value", "VALUE", STELE_VIEW_TEXT}, {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column columns[] = {{"partition", "PARTITION", STELE_VIEW_COUNT},
                                                       {"leader", "LEADER", STELE_VIEW_COUNT},
                                                       {"leader_epoch", "EPOCH", STELE_VIEW_COUNT},
                                                       {"partition_epoch", "CHANGE", STELE_VIEW_COUNT},
                                                       {"replicas", "REPLICAS", STELE_VIEW_TEXT},
                                                       {"lag", "LAG", STELE_VIEW_TEXT},
                                                       {"isr", "IN SYNC", STELE_VIEW_TEXT},
                                                       {"elr", "MAY LEAD TOO", STELE_VIEW_TEXT},
                                                       {"last_known_elr", "MIGHT LEAD", STELE_VIEW_TEXT},
                                                       {"adding", "ADDING", STELE_VIEW_TEXT},
                                                       {"removing", "REMOVING", STELE_VIEW_TEXT},
                                                       {"log_start_offset", "START", STELE_VIEW_COUNT},
                                                       {"high_watermark", "COMMITTED", STELE_VIEW_COUNT},
                                                       {"log_end_offset", "END", STELE_VIEW_COUNT},
                                                       {"error", "ERROR", STELE_VIEW_TEXT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    const cJSON *topic;
    cJSON_ArrayForEach(topic, list)
    {
        const cJSON *settings = cJSON_GetObjectItemCaseSensitive(topic, "settings");
        if (topic->prev != NULL && topic != list->child)
            puts("");
        stele_view_fields(stdout, topic, fields, cli->is_exact);
        if (cJSON_GetArraySize(settings) > 0)
            puts("");
        stele_view_table(stdout, settings, setting_columns, cli->is_exact);
        puts("");
        stele_view_table(stdout, cJSON_GetObjectItemCaseSensitive(topic, "partitions"), columns, cli->is_exact);
    }
}

static int run_describe(const struct stele_cli *cli, void *line)
{
    const struct describe *options = line;
    const char *wanted[STELE_CLI_LIST_MAX + 1] = {NULL};
    struct stele_topic_descriptions *topics = NULL;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    for (int i = 0; i < options->words.count; i++)
        wanted[i] = options->words.items[i];
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_topic_describe(client, options->words.count == 0 ? NULL : wanted, &topics);
    int called = status = stele_cli_report(cli, &result);
    stele_document_init(&document);
    if (called == STELE_CLI_DONE)
        status = add_topics(cli, client, options, topics, &document);
    stele_topic_descriptions_free(topics);
    stele_client_free(client);
    if (called == STELE_CLI_DONE && !stele_document_print(&document, cli, &status))
        view_topics(cli, cJSON_GetObjectItemCaseSensitive(document.root, "topics"));
    stele_document_deinit(&document);
    return status;
}

static const struct stele_cli_option describe_options[] = {
    {.name = "--ailing",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct describe, only_ailing),
     .help = "only partitions without a leader, with replicas that are not in sync, or under way to other nodes"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_topic_describe = {
    .name = "topic describe",
    .arguments = "[TOPIC...]",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "show partitions, replicas, offsets and own settings of topics",
    .details =
        "Without TOPIC, every one. EPOCH rises with every leader, CHANGE with every change of who leads, who is in "
        "sync or where the replicas lie. The first of the REPLICAS is the preferred leader; LAG is, in their order, "
        "how many records each lacks of those that the leader has ('?': the leader is not heard of, or has not "
        "heard of it yet). MAY LEAD TOO are replicas that are not in sync and have all that was committed. Records "
        "from START up to COMMITTED are there for readers, those up to END not yet on enough replicas.\n\n"
        "'stele config describe --topic TOPIC' shows the settings that are not the topic's own too, 'stele log "
        "explain TOPIC' what lies on disk.",
    .options = describe_options,
    .line_bytes = sizeof(struct describe),
    .run = run_describe,
};
