/* config: settings of the node, the cluster and of topics. */
#include "cli/document.h"
#include "cli/options.h"
#include "cli/rates.h"
#include "host/clock.h"

#include <stdlib.h>
#include <string.h>

struct config {
    struct stele_cli_words words;
    const char *topic;
    bool is_node, is_cluster, is_check, with_doc, is_changed;
};

static const char *const kinds[] = {"node", "cluster", "topic"};

/* -1 with the reason said: not exactly one of the three. `otherwise` is what it is without any. */
static int kind_of(const struct stele_cli *cli, const struct config *config, int otherwise)
{
    int count = config->is_node + config->is_cluster + (config->topic != NULL);
    if (count == 0 && otherwise >= 0)
        return otherwise;
    if (count != 1) {
        (void)stele_cli_fail(cli, STELE_CLI_USAGE, "want one of --topic TOPIC, --cluster and --node");
        return -1;
    }
    return config->topic != NULL ? STELE_CONFIG_TOPIC : config->is_cluster ? STELE_CONFIG_CLUSTER : STELE_CONFIG_NODE;
}

#define SCOPE_OPTIONS                                                                                                  \
    {.name = "--topic",                                                                                                \
     .alias = "-t",                                                                                                    \
     .value = "TOPIC",                                                                                                 \
     .kind = STELE_CLI_TEXT,                                                                                           \
     .at = offsetof(struct config, topic),                                                                             \
     .help = "of this topic"},                                                                                         \
        {.name = "--cluster",                                                                                          \
         .kind = STELE_CLI_FLAG,                                                                                       \
         .at = offsetof(struct config, is_cluster),                                                                    \
         .help = "of the cluster"},                                                                                    \
    {                                                                                                                  \
        .name = "--node", .kind = STELE_CLI_FLAG, .at = offsetof(struct config, is_node),                              \
        .help = "of the node that answers"                                                                             \
    }

/* describe and history */

static const char *origin_of(int origin)
{
    static const char *const names[] = {"default", "start", "cluster", "node", "topic"};
    return origin >= 0 && origin < (int)STELE_ARRAY_LEN(names) ? names[origin] : "unknown";
}

struct subject {
    struct stele_client *client;
    int kind;
    const char *topic;
};

/* Asks what was measured of the topic or the node. False: it could not be asked, and the settings are shown without. */
static bool measure(const struct subject *subject, struct stele_rates *out_rates)
{
    static const char *const names[] = {"segment.bytes", "segment.index.bytes", NULL};
    struct stele_rates rates = {.now_ms = stele_clock_wall_ms()};
    struct stele_node_description *node = NULL;
    struct stele_log_descriptions *logs = NULL;
    struct stele_config *config = NULL;
    int64_t *const values[] = {&rates.segment_bytes, &rates.index_bytes};
    if (subject->kind == STELE_CONFIG_CLUSTER)
        return false;
    if (subject->kind == STELE_CONFIG_NODE) {
        if (stele_node_describe(subject->client, true, 0, &node).code != 0)
            return false;
        stele_rates_take_node(&rates, node);
        stele_node_description_free(node);
        *out_rates = rates;
        return true;
    }
    if (stele_config_describe(subject->client, subject->kind, subject->topic, names, 0, &config).code != 0)
        return false;
    for (size_t i = 0; i < config->setting_count; i++) {
        for (size_t k = 0; names[k] != NULL; k++) {
            if (strcmp(config->settings[i]->name, names[k]) == 0 && config->settings[i]->value != NULL)
                (void)stele_cli_number(config->settings[i]->value, 0, INT64_MAX, values[k]);
        }
    }
    stele_config_free(config);
    if (stele_topic_logs(subject->client, subject->topic, -1, STELE_LOG_WITH_SEGMENTS, &logs).code != 0)
        return false;
    for (size_t i = 0; i < logs->log_count; i++)
        stele_rates_take_log(&rates, logs->logs[i]);
    stele_log_descriptions_free(logs);
    *out_rates = rates;
    return true;
}

static void add_setting(struct stele_document *document, cJSON *list, const struct stele_config_setting *setting,
                        const struct stele_rates *rates)
{
    char measured[STELE_RATES_TEXT_BYTES] = "";
    bool is_measured = rates != NULL && stele_rates_warning(rates, setting->name, measured);
    const char *warning = is_measured ? measured : setting->warning;
    cJSON *row = stele_document_row(document, list);
    stele_document_text(document, row, "name", setting->name);
    stele_document_text(document, row, "value", setting->value);
    stele_document_text(document, row, "origin", origin_of(setting->origin));
    stele_document_text(document, row, "origin_detail", setting->origin_detail);
    stele_document_text(document, row, "default", setting->default_value);
    stele_document_flag(document, row, "dynamic", setting->is_dynamic);
    stele_document_text(document, row, "doc", setting->doc[0] == 0 ? NULL : setting->doc);
    stele_document_text(document, row, "warning", warning[0] == 0 ? NULL : warning);
}

static void add_settings(struct stele_document *document, cJSON *list, const struct stele_config *found,
                         const struct subject *subject, bool is_changed_only)
{
    struct stele_rates rates;
    bool is_asked = false, is_known = false;
    for (size_t i = 0; i < found->setting_count; i++) {
        const struct stele_config_setting *setting = found->settings[i];
        if (is_changed_only && setting->origin == STELE_CONFIG_OF_DEFAULT)
            continue;
        if (!is_asked && stele_rates_tell_of(setting->name)) {
            is_asked = true;
            is_known = measure(subject, &rates);
        }
        add_setting(document, list, setting, is_known ? &rates : NULL);
    }
}

static void view_settings(const struct stele_cli *cli, const cJSON *list)
{
    static const struct stele_view_column columns[] = {
        {"name", "SETTING", STELE_VIEW_TEXT},     {"value", "VALUE", STELE_VIEW_TEXT},
        {"origin", "FROM", STELE_VIEW_TEXT},      {"origin_detail", "WHERE", STELE_VIEW_TEXT},
        {"default", "DEFAULT", STELE_VIEW_TEXT},  {"dynamic", "AT RUN TIME", STELE_VIEW_TEXT},
        {"doc", "WHAT IT DOES", STELE_VIEW_TEXT}, {NULL, NULL, STELE_VIEW_TEXT}};
    const cJSON *setting;
    stele_view_table(stdout, list, columns, cli->is_exact);
    cJSON_ArrayForEach(setting, list)
    {
        const cJSON *warning = cJSON_GetObjectItemCaseSensitive(setting, "warning");
        if (cJSON_IsString(warning))
            fprintf(stderr, "warning: %s: %s\n", cJSON_GetObjectItemCaseSensitive(setting, "name")->valuestring,
                    warning->valuestring);
    }
}

static void add_change(struct stele_document *document, cJSON *list, const struct stele_config_change *change)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "time", change->time_ms);
    stele_document_text(document, row, "of",
                        change->kind >= 0 && change->kind < (int)STELE_ARRAY_LEN(kinds) ? kinds[change->kind] : "?");
    stele_document_text(document, row, "subject", change->subject);
    stele_document_text(document, row, "name", change->name);
    stele_document_text(document, row, "value", change->value);
    stele_document_flag(document, row, "unset", change->value == NULL);
}

static void view_changes(const struct stele_cli *cli, const cJSON *list)
{
    static const struct stele_view_column columns[] = {
        {"time", "TIME", STELE_VIEW_TIME},     {"of", "OF", STELE_VIEW_TEXT},
        {"subject", "WHICH", STELE_VIEW_TEXT}, {"name", "SETTING", STELE_VIEW_TEXT},
        {"value", "VALUE", STELE_VIEW_TEXT},   {"unset", "UNSET", STELE_VIEW_TEXT},
        {NULL, NULL, STELE_VIEW_TEXT}};
    stele_view_table(stdout, list, columns, cli->is_exact);
}

static int ask(const struct stele_cli *cli, const struct config *config, int kind, bool is_history)
{
    const char *names[STELE_CLI_LIST_MAX + 1] = {NULL};
    struct stele_config *found = NULL;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    unsigned with = (config->with_doc ? STELE_CONFIG_WITH_DOC : 0) | (is_history ? STELE_CONFIG_WITH_HISTORY : 0);
    for (int i = 0; i < config->words.count; i++)
        names[i] = config->words.items[i];
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_config_describe(client, kind, config->topic == NULL ? "" : config->topic,
                                                       config->words.count == 0 ? NULL : names, with, &found);
    status = stele_cli_report(cli, &result);
    stele_document_init(&document);
    stele_document_text(&document, document.root, "of", kinds[kind]);
    stele_document_text(&document, document.root, "topic", config->topic);
    cJSON *list = stele_document_list(&document, document.root, is_history ? "changes" : "settings");
    if (status == STELE_CLI_DONE && !is_history)
        add_settings(&document, list, found, &(struct subject){client, kind, config->topic}, config->is_changed);
    for (size_t i = 0; status == STELE_CLI_DONE && is_history && i < found->change_count; i++)
        add_change(&document, list, found->changes[i]);
    stele_config_free(found);
    stele_client_free(client);
    if (status == STELE_CLI_DONE && !stele_document_print(&document, cli, &status))
        (is_history ? view_changes : view_settings)(cli, list);
    stele_document_deinit(&document);
    return status;
}

static int run_describe(const struct stele_cli *cli, void *line)
{
    int kind = kind_of(cli, line, STELE_CONFIG_NODE);
    return kind < 0 ? STELE_CLI_USAGE : ask(cli, line, kind, false);
}

static const struct stele_cli_option describe_options[] = {
    SCOPE_OPTIONS,
    {.name = "--changed",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct config, is_changed),
     .help = "only those that are not at their default"},
    {.name = "--doc",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct config, with_doc),
     .help = "say what each of them does"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_config_describe = {
    .name = "config describe",
    .arguments = "[NAME...]",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "show settings of the node, the cluster or a topic, each with where its value comes from",
    .details =
        "Without NAME, all of them; without --topic or --cluster, those of the node that answers. FROM is the "
        "strongest place that gives a value: default, start (file, arguments, environment of the node), "
        "cluster, node, topic.\n\n"
        "Warnings are what the measured rates say of segment.bytes, segment.ms and segment.index.bytes. A partition "
        "rolls too often when it does so more often than every ten minutes, seen in three rolls of the latest ten "
        "or more, or by what it grew by in a minute or longer. An index is full before its segment when it "
        "grows as it did in a megabyte of log or more. For a node, they are averages over its partitions since "
        "it started.",
    .options = describe_options,
    .line_bytes = sizeof(struct config),
    .run = run_describe,
};

static int run_history(const struct stele_cli *cli, void *line)
{
    int kind = kind_of(cli, line, STELE_CONFIG_NODE);
    return kind < 0 ? STELE_CLI_USAGE : ask(cli, line, kind, true);
}

static const struct stele_cli_option scope_options[] = {
    SCOPE_OPTIONS,
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_config_history = {
    .name = "config history",
    .arguments = "[NAME...]",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "show when settings were changed at run time, the oldest change first",
    .details = "Without --topic or --cluster, those of the node that answers.",
    .options = scope_options,
    .line_bytes = sizeof(struct config),
    .run = run_history,
};

/* set and unset */

static int alter(const struct stele_cli *cli, const struct config *config, const struct stele_setting *settings,
                 bool is_set)
{
    struct stele_document document;
    int status = STELE_CLI_DONE, kind = kind_of(cli, config, -1);
    if (kind < 0)
        return STELE_CLI_USAGE;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result =
        stele_config_alter(client, kind, config->topic == NULL ? "" : config->topic, settings, config->is_check);
    stele_client_free(client);
    status = stele_cli_report(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "of", kinds[kind]);
    stele_document_text(&document, document.root, "topic", config->topic);
    stele_document_flag(&document, document.root, "changed", !config->is_check);
    cJSON *list = stele_document_list(&document, document.root, "settings");
    for (size_t i = 0; settings[i].name != NULL; i++) {
        cJSON *row = stele_document_row(&document, list);
        stele_document_text(&document, row, "name", settings[i].name);
        if (is_set)
            stele_document_text(&document, row, "value", settings[i].value);
    }
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static int run_set(const struct stele_cli *cli, void *line)
{
    const struct config *config = line;
    struct stele_cli_list list = {.count = (size_t)config->words.count};
    struct stele_cli_pairs pairs = {.count = 0};
    const char *bad = "";
    for (int i = 0; i < config->words.count; i++)
        list.items[i] = config->words.items[i];
    if (!stele_cli_pairs(&list, &pairs, &bad))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want NAME=VALUE", bad);
    return alter(cli, config, pairs.settings, true);
}

static int run_unset(const struct stele_cli *cli, void *line)
{
    const struct config *config = line;
    struct stele_setting settings[STELE_CLI_LIST_MAX + 1] = {{.name = NULL}};
    for (int i = 0; i < config->words.count; i++)
        settings[i] = (struct stele_setting){.name = config->words.items[i]};
    return alter(cli, config, settings, false);
}

static const struct stele_cli_option change_options[] = {
    SCOPE_OPTIONS,
    {.name = "--check",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct config, is_check),
     .help = "only say whether it would be taken"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_config_set = {
    .name = "config set",
    .arguments = "NAME=VALUE...",
    .words_min = 1,
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "change settings at run time, all of them or none",
    .details = "Holds at once and after a restart. docs/settings.md says which may change at run time.",
    .options = change_options,
    .line_bytes = sizeof(struct config),
    .run = run_set,
};

const struct stele_cli_command stele_cmd_config_unset = {
    .name = "config unset",
    .arguments = "NAME...",
    .words_min = 1,
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "take settings back to what they are without the change",
    .options = change_options,
    .line_bytes = sizeof(struct config),
    .run = run_unset,
};
