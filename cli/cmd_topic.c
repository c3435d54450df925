#include "cli/options.h"

#include <stdio.h>
#include <string.h>

enum { SETTINGS_MAX = 64 };

static const char usage[] =
    "usage: stele topic create NAME [-p PARTITIONS] [--config NAME=VALUE]...\n"
    "       stele topic list\n\n"
    "create makes a topic; without -p it gets num.partitions. docs/settings.md lists the settings of a topic.\n"
    "list prints name, number of partitions and id of every topic, one a line, separated by tabs.\n";

struct create {
    const char *name;
    int64_t partitions;
    struct stele_setting settings[SETTINGS_MAX + 1];
    int setting_count;
};

static bool parse_create(struct create *create, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "-p") == 0 && i + 1 < argc) {
            if (!stele_cli_number(argv[++i], 1, 100000, &create->partitions)) {
                fprintf(stderr, "stele topic create: -p %s must be a number from 1 to 100000\n", argv[i]);
                return false;
            }
        } else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
            char *equals = strchr(argv[++i], '=');
            if (equals == NULL || create->setting_count == SETTINGS_MAX) {
                fprintf(stderr, "stele topic create: --config %s must be NAME=VALUE\n", argv[i]);
                return false;
            }
            *equals = 0;
            create->settings[create->setting_count++] = (struct stele_setting){.name = argv[i], .value = equals + 1};
        } else if (argv[i][0] != '-' && create->name == NULL) {
            create->name = argv[i];
        } else {
            fprintf(stderr, "stele topic create: unexpected %s\n%s", argv[i], usage);
            return false;
        }
    }
    if (create->name == NULL)
        fprintf(stderr, "stele topic create: a name is missing\n%s", usage);
    return create->name != NULL;
}

static int create_topic(const struct stele_cli *cli, int argc, char **argv)
{
    struct create create = {.partitions = -1};
    if (!parse_create(&create, argc, argv))
        return STELE_CLI_USAGE;
    struct stele_client *client = stele_cli_client(cli, "topic create");
    if (client == NULL)
        return STELE_CLI_FAILED;
    struct stele_result result = stele_topic_create(client, create.name, (int32_t)create.partitions, create.settings);
    stele_client_free(client);
    return stele_cli_report("topic create", &result);
}

int stele_cmd_topic(const struct stele_cli *cli, int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[argc - 1], "--help") == 0) {
        fputs(usage, stdout);
        return STELE_CLI_DONE;
    }
    if (argc > 1 && strcmp(argv[1], "create") == 0)
        return create_topic(cli, argc - 2, argv + 2);
    if (argc != 2 || strcmp(argv[1], "list") != 0) {
        fputs(usage, stderr);
        return STELE_CLI_USAGE;
    }
    struct stele_client *client = stele_cli_client(cli, "topic list");
    if (client == NULL)
        return STELE_CLI_FAILED;
    struct stele_topics *topics = NULL;
    struct stele_result result = stele_topic_list(client, &topics);
    for (size_t i = 0; result.code == 0 && i < topics->topic_count; i++)
        printf("%s\t%d\t%s\n", topics->topics[i]->name, topics->topics[i]->partition_count,
               topics->topics[i]->topic_id);
    stele_topics_free(topics);
    stele_client_free(client);
    return stele_cli_report("topic list", &result);
}
