/* topic: create, list, alter, delete. */
#include "base/err.h"
#include "cli/document.h"
#include "cli/options.h"

#include <string.h>

enum { PARTITIONS_MAX = 100000, REPLICAS_MAX = 16 };

/* create and alter */

struct change {
    struct stele_cli_words words;
    int64_t partitions, replicas;
    struct stele_cli_list settings, unset;
    bool if_missing, is_check;
};

static const struct change change_initial = {.partitions = -1, .replicas = -1};

/* --config of a line; `pairs` is all zero. */
static bool take_settings(const struct stele_cli *cli, const struct change *change, struct stele_cli_pairs *pairs)
{
    const char *bad = "";
    if (!stele_cli_pairs(&change->settings, pairs, &bad)) {
        (void)stele_cli_fail(cli, STELE_CLI_USAGE, "--config %s: want NAME=VALUE", bad);
        return false;
    }
    if (pairs->count + change->unset.count > STELE_CLI_LIST_MAX) {
        (void)stele_cli_fail(cli, STELE_CLI_USAGE, "at most %d settings fit", STELE_CLI_LIST_MAX);
        return false;
    }
    for (size_t i = 0; i < change->unset.count; i++)
        pairs->settings[pairs->count++] = (struct stele_setting){.name = change->unset.items[i]};
    return true;
}

static int run_create(const struct stele_cli *cli, void *line)
{
    const struct change *change = line;
    struct stele_cli_pairs pairs = {.count = 0};
    struct stele_document document;
    int status = STELE_CLI_DONE;
    if (!take_settings(cli, change, &pairs))
        return STELE_CLI_USAGE;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_topic_create_replicated(
        client, change->words.items[0], (int32_t)change->partitions, (int32_t)change->replicas, pairs.settings);
    stele_client_free(client);
    bool was_there = change->if_missing && stele_cli_exit_of(result.code) == STELE_CLI_EXISTS;
    status = was_there ? STELE_CLI_DONE : stele_cli_report(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "topic", change->words.items[0]);
    stele_document_flag(&document, document.root, "created", !was_there);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

#define CONFIG_OPTION                                                                                                  \
    {                                                                                                                  \
        .name = "--config", .alias = "-c", .value = "NAME=VALUE", .kind = STELE_CLI_LIST,                              \
        .at = offsetof(struct change, settings), .help = "a setting of the topic; docs/settings.md lists them"         \
    }

static const struct stele_cli_option create_options[] = {
    {.name = "-p",
     .alias = "--partitions",
     .value = "PARTITIONS",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct change, partitions),
     .min = 1,
     .max = PARTITIONS_MAX,
     .help = "how many (num.partitions of the cluster)"},
    {.name = "-r",
     .alias = "--replicas",
     .value = "REPLICAS",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct change, replicas),
     .min = 1,
     .max = REPLICAS_MAX,
     .help = "on how many nodes each partition lies (3, or as many as there are voters)"},
    CONFIG_OPTION,
    {.name = "--if-missing",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct change, if_missing),
     .help = "a topic that is there already is no failure"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_topic_create = {
    .name = "topic create",
    .arguments = "NAME",
    .words_min = 1,
    .words_max = 1,
    .summary = "make a topic",
    .options = create_options,
    .line_bytes = sizeof(struct change),
    .initial = &change_initial,
    .run = run_create,
};

static int run_alter(const struct stele_cli *cli, void *line)
{
    const struct change *change = line;
    const char *topic = change->words.items[0];
    struct stele_cli_pairs pairs = {.count = 0};
    struct stele_document document;
    struct stele_result result = {.code = 0};
    int status = STELE_CLI_DONE;
    if (!take_settings(cli, change, &pairs))
        return STELE_CLI_USAGE;
    if (pairs.count == 0 && change->partitions < 0)
        return stele_cli_fail(cli, STELE_CLI_USAGE, "nothing to change: -p, --config or --unset is missing");
    if (change->is_check && change->partitions >= 0)
        return stele_cli_fail(cli, STELE_CLI_USAGE, "--check is for settings; -p cannot be tried");
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    if (pairs.count > 0)
        result = stele_config_alter(client, STELE_CONFIG_TOPIC, topic, pairs.settings, change->is_check);
    if (result.code == 0 && change->partitions >= 0)
        result = stele_topic_grow(client, topic, (int32_t)change->partitions);
    stele_client_free(client);
    status = stele_cli_report(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "topic", topic);
    stele_document_flag(&document, document.root, "altered", !change->is_check);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static const struct stele_cli_option alter_options[] = {
    {.name = "-p",
     .alias = "--partitions",
     .value = "PARTITIONS",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct change, partitions),
     .min = 1,
     .max = PARTITIONS_MAX,
     .help = "add partitions until there are so many; keys go elsewhere from then on, and there is no way back"},
    CONFIG_OPTION,
    {.name = "--unset",
     .value = "NAME",
     .kind = STELE_CLI_LIST,
     .at = offsetof(struct change, unset),
     .help = "take a setting back to what the cluster says"},
    {.name = "--check",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct change, is_check),
     .help = "only say whether the settings would be taken"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_topic_alter = {
    .name = "topic alter",
    .arguments = "TOPIC",
    .words_min = 1,
    .words_max = 1,
    .summary = "change settings or the number of partitions of a topic",
    .details = "Settings change first, all of them or none; then partitions are added.",
    .options = alter_options,
    .line_bytes = sizeof(struct change),
    .initial = &change_initial,
    .run = run_alter,
};

/* list */

struct names {
    struct stele_cli_words words;
    bool if_there;
};

static int run_list(const struct stele_cli *cli, void *line)
{
    static const struct stele_view_column columns[] = {{"name", "TOPIC", STELE_VIEW_TEXT},
                                                       {"partitions", "PARTITIONS", STELE_VIEW_COUNT},
                                                       {"id", "ID", STELE_VIEW_TEXT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    struct stele_topics *topics = NULL;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    (void)line;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_topic_list(client, &topics);
    status = stele_cli_report(cli, &result);
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "topics");
    for (size_t i = 0; status == STELE_CLI_DONE && i < topics->topic_count; i++) {
        const struct stele_topic_info *topic = topics->topics[i];
        cJSON *row = stele_document_row(&document, list);
        stele_document_text(&document, row, "name", topic->name);
        stele_document_number(&document, row, "partitions", topic->partition_count);
        stele_document_text(&document, row, "id", topic->topic_id);
        stele_document_flag(&document, row, "internal", topic->is_internal);
    }
    stele_topics_free(topics);
    stele_client_free(client);
    if (status == STELE_CLI_DONE && !stele_document_print(&document, cli, &status))
        stele_view_table(stdout, list, columns, cli->is_exact);
    stele_document_deinit(&document);
    return status;
}

const struct stele_cli_command stele_cmd_topic_list = {
    .name = "topic list",
    .arguments = "",
    .summary = "list the topics",
    .line_bytes = sizeof(struct names),
    .run = run_list,
};

/* delete */

static int run_delete(const struct stele_cli *cli, void *line)
{
    const struct names *names = line;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "topics");
    for (int i = 0; i < names->words.count; i++) {
        struct stele_result result = stele_topic_delete(client, names->words.items[i]);
        bool was_gone = names->if_there && stele_cli_exit_of(result.code) == STELE_CLI_MISSING;
        int one = was_gone ? STELE_CLI_DONE : stele_cli_report(cli, &result);
        cJSON *row = stele_document_row(&document, list);
        stele_document_text(&document, row, "name", names->words.items[i]);
        stele_document_flag(&document, row, "deleted", result.code == 0);
        status = one != STELE_CLI_DONE ? one : status;
    }
    stele_client_free(client);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static const struct stele_cli_option delete_options[] = {
    {.name = "--if-there",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct names, if_there),
     .help = "a topic that is not there is no failure"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_topic_delete = {
    .name = "topic delete",
    .arguments = "TOPIC...",
    .words_min = 1,
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "delete topics with all their records, for good",
    .options = delete_options,
    .line_bytes = sizeof(struct names),
    .run = run_delete,
};
