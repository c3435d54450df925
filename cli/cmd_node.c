/* node: status and the slowest requests. */
#include "cli/document.h"
#include "cli/options.h"

struct node {
    struct stele_cli_words words;
    bool metrics;
    int64_t slow_max;
};

/* What a command takes of the answer, and how it is shown. */
struct telling {
    void (*add)(struct stele_document *document, const struct stele_node_description *node);
    void (*view)(const struct stele_cli *cli, const cJSON *root);
};

static int ask(const struct stele_cli *cli, bool with_metrics, int32_t slow_max, const struct telling *telling)
{
    struct stele_node_description *node = NULL;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_node_describe(client, with_metrics, slow_max, &node);
    status = stele_cli_report(cli, &result);
    stele_document_init(&document);
    if (status == STELE_CLI_DONE)
        telling->add(&document, node);
    stele_node_description_free(node);
    stele_client_free(client);
    if (status == STELE_CLI_DONE && !stele_document_print(&document, cli, &status))
        telling->view(cli, document.root);
    stele_document_deinit(&document);
    return status;
}

static void add_node(struct stele_document *document, const struct stele_node_description *node)
{
    cJSON *root = document->root;
    stele_document_number(document, root, "node_id", node->node_id);
    stele_document_text(document, root, "cluster_id", node->cluster_id);
    stele_document_text(document, root, "version", node->software_version);
    stele_document_number(document, root, "uptime_ms", node->uptime_ms);
    stele_document_number(document, root, "shards", node->shard_count);
    stele_document_number(document, root, "connections", node->connection_count);
    stele_document_number(document, root, "topics", node->topic_count);
    stele_document_number(document, root, "partitions", node->partition_count);
    stele_document_number(document, root, "offline_partitions", node->offline_count);
    stele_document_number(document, root, "memory_bytes", node->memory_bytes);
    stele_document_known(document, root, "memory_limit_bytes",
                         node->memory_limit_bytes == 0 ? -1 : node->memory_limit_bytes);
    stele_document_number(document, root, "longest_stall_us", node->longest_stall_us);
    cJSON *directories = stele_document_list(document, root, "directories");
    for (size_t i = 0; i < node->directory_count; i++) {
        const struct stele_directory_description *directory = node->directories[i];
        cJSON *row = stele_document_row(document, directories);
        stele_document_text(document, row, "path", directory->path);
        stele_document_text(document, row, "state",
                            directory->is_offline ? "offline"
                            : directory->is_full  ? "full"
                                                  : "well");
        stele_document_number(document, row, "free_bytes", directory->free_bytes);
        stele_document_number(document, row, "reserve_bytes", directory->reserve_bytes);
        stele_document_number(document, row, "partitions", directory->partition_count);
    }
    cJSON *metrics = stele_document_list(document, root, "metrics");
    for (size_t i = 0; i < node->metric_count; i++) {
        cJSON *row = stele_document_row(document, metrics);
        stele_document_text(document, row, "name", node->metrics[i]->name);
        stele_document_number(document, row, "value", node->metrics[i]->value);
    }
}

static void view_node(const struct stele_cli *cli, const cJSON *root)
{
    static const struct stele_view_column fields[] = {{"node_id", "node", STELE_VIEW_TEXT},
                                                      {"cluster_id", "cluster", STELE_VIEW_TEXT},
                                                      {"version", "version", STELE_VIEW_TEXT},
                                                      {"uptime_ms", "up for", STELE_VIEW_SPAN_MS},
                                                      {"shards", "shards", STELE_VIEW_TEXT},
                                                      {"connections", "connections", STELE_VIEW_TEXT},
                                                      {"topics", "topics", STELE_VIEW_TEXT},
                                                      {"partitions", "partitions", STELE_VIEW_TEXT},
                                                      {"offline_partitions", "of them offline", STELE_VIEW_TEXT},
                                                      {"memory_bytes", "memory", STELE_VIEW_SIZE},
                                                      {"memory_limit_bytes", "memory limit", STELE_VIEW_SIZE},
                                                      {"longest_stall_us", "longest stall", STELE_VIEW_SPAN_US},
                                                      {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column directory_columns[] = {
        {"path", "DIRECTORY", STELE_VIEW_TEXT},         {"state", "STATE", STELE_VIEW_TEXT},
        {"free_bytes", "FREE", STELE_VIEW_SIZE},        {"reserve_bytes", "RESERVE", STELE_VIEW_SIZE},
        {"partitions", "PARTITIONS", STELE_VIEW_COUNT}, {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column metric_columns[] = {
        {"name", "METRIC", STELE_VIEW_TEXT}, {"value", "VALUE", STELE_VIEW_COUNT}, {NULL, NULL, STELE_VIEW_TEXT}};
    const cJSON *metrics = cJSON_GetObjectItemCaseSensitive(root, "metrics");
    stele_view_fields(stdout, root, fields, cli->is_exact);
    puts("");
    stele_view_table(stdout, cJSON_GetObjectItemCaseSensitive(root, "directories"), directory_columns, cli->is_exact);
    if (cJSON_GetArraySize(metrics) > 0)
        puts("");
    stele_view_table(stdout, metrics, metric_columns, cli->is_exact);
}

static int run_status(const struct stele_cli *cli, void *line)
{
    const struct node *options = line;
    return ask(cli, options->metrics, 0, &(struct telling){add_node, view_node});
}

static const struct stele_cli_option status_options[] = {
    {.name = "--metrics",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct node, metrics),
     .help = "every counter of the node too"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_node_status = {
    .name = "node status",
    .arguments = "",
    .summary = "show how the node is that answers: memory, directories, partitions, stalls",
    .options = status_options,
    .line_bytes = sizeof(struct node),
    .run = run_status,
};

/* slowlog */

static void add_slow(struct stele_document *document, cJSON *list, const struct stele_slow_description *slow)
{
    char api[32];
    cJSON *row = stele_document_row(document, list);
    (void)snprintf(api, sizeof(api), "%d", slow->api);
    stele_document_number(document, row, "time", slow->time_ms);
    stele_document_text(document, row, "api", slow->api_name[0] == 0 ? api : slow->api_name);
    stele_document_text(document, row, "client_id", slow->client_id);
    stele_document_text(document, row, "peer", slow->peer);
    stele_document_number(document, row, "total_us", slow->total_us);
    stele_document_number(document, row, "queue_us", slow->queue_us);
    stele_document_number(document, row, "append_us", slow->append_us);
    stele_document_number(document, row, "fsync_us", slow->fsync_us);
    stele_document_number(document, row, "read_us", slow->read_us);
    stele_document_number(document, row, "reply_us", slow->reply_us);
    stele_document_number(document, row, "bytes", slow->bytes);
    stele_document_number(document, row, "segments_searched", slow->segments_searched);
    stele_document_number(document, row, "bytes_scanned", slow->bytes_scanned);
    stele_document_text(document, row, "reads", slow->was_cold ? "cold" : "hot");
}

static const struct stele_view_column slow_columns[] = {{"time", "TIME", STELE_VIEW_TIME},
                                                        {"api", "REQUEST", STELE_VIEW_TEXT},
                                                        {"total_us", "TOTAL", STELE_VIEW_SPAN_US},
                                                        {"queue_us", "QUEUE", STELE_VIEW_SPAN_US},
                                                        {"append_us", "APPEND", STELE_VIEW_SPAN_US},
                                                        {"fsync_us", "FSYNC", STELE_VIEW_SPAN_US},
                                                        {"read_us", "READ", STELE_VIEW_SPAN_US},
                                                        {"reply_us", "REPLY", STELE_VIEW_SPAN_US},
                                                        {"bytes", "SIZE", STELE_VIEW_SIZE},
                                                        {"segments_searched", "SEGMENTS", STELE_VIEW_COUNT},
                                                        {"bytes_scanned", "SCANNED", STELE_VIEW_SIZE},
                                                        {"reads", "READS", STELE_VIEW_TEXT},
                                                        {"client_id", "CLIENT", STELE_VIEW_TEXT},
                                                        {"peer", "FROM", STELE_VIEW_TEXT},
                                                        {NULL, NULL, STELE_VIEW_TEXT}};

static void add_slowlog(struct stele_document *document, const struct stele_node_description *node)
{
    cJSON *list = stele_document_list(document, document->root, "requests");
    for (size_t i = 0; i < node->slow_count; i++)
        add_slow(document, list, node->slow[i]);
}

static void view_slowlog(const struct stele_cli *cli, const cJSON *root)
{
    stele_view_table(stdout, cJSON_GetObjectItemCaseSensitive(root, "requests"), slow_columns, cli->is_exact);
}

static int run_slowlog(const struct stele_cli *cli, void *line)
{
    const struct node *options = line;
    return ask(cli, false, (int32_t)options->slow_max, &(struct telling){add_slowlog, view_slowlog});
}

static const struct node slowlog_initial = {.slow_max = 20};

static const struct stele_cli_option slowlog_options[] = {
    {.name = "-n",
     .alias = "--count",
     .value = "COUNT",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct node, slow_max),
     .min = 1,
     .max = 1000,
     .help = "how many at most (20)"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_node_slowlog = {
    .name = "node slowlog",
    .arguments = "",
    .summary = "show the slowest requests of late, with where the time went",
    .details = "The slowest first. READS tells whether what was read lay in memory (hot) or came from the disk (cold).",
    .options = slowlog_options,
    .line_bytes = sizeof(struct node),
    .initial = &slowlog_initial,
    .run = run_slowlog,
};
