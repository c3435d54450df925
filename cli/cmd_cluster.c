/* cluster: its nodes and how its partitions are; node unregister. */
#include "cli/document.h"
#include "cli/options.h"

/* status */

struct status {
    struct stele_cli_words words;
    bool is_local;
};

/* What there is to worry about in all topics. */
struct health {
    int64_t topics, partitions, leaderless, lagging, moving;
};

static void count_partitions(struct health *health, const struct stele_topic_descriptions *topics)
{
    health->topics = (int64_t)topics->topic_count;
    for (size_t i = 0; i < topics->topic_count; i++) {
        const struct stele_topic_description *topic = topics->topics[i];
        health->partitions += (int64_t)topic->partition_count;
        for (size_t at = 0; at < topic->partition_count; at++) {
            const struct stele_partition_description *partition = topic->partitions[at];
            health->leaderless += partition->leader_id < 0;
            health->lagging += partition->isr_count < partition->replica_count;
            health->moving += partition->adding_count > 0 || partition->removing_count > 0;
        }
    }
}

static void add_member(struct stele_document *document, cJSON *list, const struct stele_cluster_description *cluster,
                       const struct stele_member_description *member)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "node", member->node_id);
    stele_document_text(document, row, "state",
                        member->is_fenced          ? "fenced"
                        : member->is_shutting_down ? "leaving"
                                                   : "well");
    stele_document_flag(document, row, "controller", member->node_id == cluster->controller_id);
    stele_document_text(document, row, "rack", member->rack[0] == 0 ? NULL : member->rack);
    stele_document_text(document, row, "version", member->software_version[0] == 0 ? NULL : member->software_version);
    stele_document_known(document, row, "last_heard_ms", member->contact_ms);
    stele_document_known(document, row, "node_epoch", member->node_epoch);
    cJSON *listeners = stele_document_list(document, row, "listeners");
    for (size_t i = 0; i < member->listener_count; i++) {
        char address[600];
        (void)snprintf(address, sizeof(address), "%.255s://%.255s:%d", member->listeners[i]->name,
                       member->listeners[i]->host, member->listeners[i]->port);
        stele_document_text(document, listeners, NULL, address);
    }
    cJSON *directories = stele_document_list(document, row, "directory_ids");
    for (size_t i = 0; i < member->directory_count; i++)
        stele_document_text(document, directories, NULL, member->directory_ids[i]);
}

static void add_cluster(struct stele_document *document, const struct stele_cluster_description *cluster,
                        const struct health *health)
{
    cJSON *root = document->root;
    stele_document_text(document, root, "cluster_id", cluster->cluster_id);
    stele_document_known(document, root, "controller", cluster->controller_id);
    stele_document_number(document, root, "level", cluster->level);
    stele_document_known(document, root, "metadata_offset", cluster->metadata_offset);
    stele_document_number(document, root, "topics", health->topics);
    stele_document_number(document, root, "partitions", health->partitions);
    stele_document_number(document, root, "leaderless_partitions", health->leaderless);
    stele_document_number(document, root, "lagging_partitions", health->lagging);
    stele_document_number(document, root, "moving_partitions", health->moving);
    cJSON *list = stele_document_list(document, root, "nodes");
    for (size_t i = 0; i < cluster->member_count; i++)
        add_member(document, list, cluster, cluster->members[i]);
}

static void view_cluster(const struct stele_cli *cli, const cJSON *root)
{
    static const struct stele_view_column fields[] = {
        {"cluster_id", "cluster", STELE_VIEW_TEXT},
        {"controller", "controller", STELE_VIEW_TEXT},
        {"level", "feature level", STELE_VIEW_TEXT},
        {"metadata_offset", "metadata offset", STELE_VIEW_TEXT},
        {"topics", "topics", STELE_VIEW_TEXT},
        {"partitions", "partitions", STELE_VIEW_TEXT},
        {"leaderless_partitions", "without a leader", STELE_VIEW_TEXT},
        {"lagging_partitions", "with replicas that are not in sync", STELE_VIEW_TEXT},
        {"moving_partitions", "under way to other nodes", STELE_VIEW_TEXT},
        {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column columns[] = {{"node", "NODE", STELE_VIEW_COUNT},
                                                       {"state", "STATE", STELE_VIEW_TEXT},
                                                       {"rack", "RACK", STELE_VIEW_TEXT},
                                                       {"version", "VERSION", STELE_VIEW_TEXT},
                                                       {"last_heard_ms", "LAST HEARD", STELE_VIEW_SPAN_MS},
                                                       {"node_epoch", "EPOCH", STELE_VIEW_COUNT},
                                                       {"listeners", "LISTENERS", STELE_VIEW_TEXT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    stele_view_fields(stdout, root, fields, cli->is_exact);
    puts("");
    stele_view_table(stdout, cJSON_GetObjectItemCaseSensitive(root, "nodes"), columns, cli->is_exact);
}

static int run_status(const struct stele_cli *cli, void *line)
{
    const struct status *options = line;
    struct stele_cluster_description *cluster = NULL;
    struct stele_topic_descriptions *topics = NULL;
    struct health health = {.topics = 0};
    struct stele_document document;
    int status = STELE_CLI_DONE;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_cluster_describe(client, options->is_local, &cluster);
    status = stele_cli_report_controlled(cli, &result);
    if (status == STELE_CLI_DONE) {
        result = stele_topic_describe(client, NULL, &topics);
        status = stele_cli_report(cli, &result);
    }
    stele_document_init(&document);
    if (status == STELE_CLI_DONE) {
        count_partitions(&health, topics);
        add_cluster(&document, cluster, &health);
    }
    stele_topic_descriptions_free(topics);
    stele_cluster_description_free(cluster);
    stele_client_free(client);
    return stele_document_show(&document, cli, status, view_cluster);
}

static const struct stele_cli_option status_options[] = {
    {.name = "--local",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct status, is_local),
     .help = "what the node that answers has learned, also without a controller"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_cluster_status = {
    .name = "cluster status",
    .arguments = "",
    .summary = "show the nodes of the cluster and how its partitions are",
    .details = "A node that is fenced leads nothing: it has just started, or the controller has not heard of it for "
               "broker.session.timeout.ms. One that is leaving hands over what it leads before it stops. 'stele topic "
               "describe --ailing' names the partitions that are counted here, 'stele quorum status' those who vote.",
    .options = status_options,
    .line_bytes = sizeof(struct status),
    .run = run_status,
};

/* level, and node unregister: a number, and done */

struct number_call {
    struct stele_result (*call)(struct stele_client *client, int32_t number);
    const char *key, *done; /* in JSON */
};

static int call(const struct stele_cli *cli, const struct stele_cli_words *words, const struct number_call *wanted)
{
    struct stele_document document;
    int64_t number = 0;
    int status = STELE_CLI_DONE;
    if (!stele_cli_number(words->items[0], 0, INT32_MAX, &number))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s is no %s", words->items[0], cli->command->arguments);
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = wanted->call(client, (int32_t)number);
    status = stele_cli_report_controlled(cli, &result);
    stele_client_free(client);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    stele_document_number(&document, document.root, wanted->key, number);
    stele_document_flag(&document, document.root, wanted->done, true);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static int run_level(const struct stele_cli *cli, void *line)
{
    return call(cli, line, &(struct number_call){stele_cluster_set_level, "level", "raised"});
}

static int run_unregister(const struct stele_cli *cli, void *line)
{
    return call(cli, line, &(struct number_call){stele_cluster_unregister, "node", "unregistered"});
}

const struct stele_cli_command stele_cmd_cluster_level = {
    .name = "cluster level",
    .arguments = "LEVEL",
    .words_min = 1,
    .words_max = 1,
    .summary = "raise the level of features that the cluster uses, once every node runs a version that knows them",
    .details = "'stele cluster status' shows the level and the versions. There is no way back.",
    .line_bytes = sizeof(struct stele_cli_words),
    .run = run_level,
};

const struct stele_cli_command stele_cmd_node_unregister = {
    .name = "node unregister",
    .arguments = "NODE",
    .words_min = 1,
    .words_max = 1,
    .summary = "forget a node that is gone for good",
    .details = "Stop it first, and move its replicas elsewhere: 'stele partition reassign' does. A voter is taken out "
               "with 'stele quorum remove' besides.",
    .line_bytes = sizeof(struct stele_cli_words),
    .run = run_unregister,
};
