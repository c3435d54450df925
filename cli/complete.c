#include "cli/complete.h"

#include "cli/help.h"
#include "cli/options.h"
#include "node/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whoever presses a key waits: a node that does not answer at once names nothing. */
static struct stele_client *client_of(const char *bootstrap)
{
    static const struct stele_setting settings[] = {
        {"client.id", "stele"}, {"request.timeout.ms", "500"}, {NULL, NULL}};
    return stele_client_new(bootstrap, settings, NULL);
}

static void offer_nodes(const char *bootstrap, const char *begun)
{
    struct stele_client *client = client_of(bootstrap);
    struct stele_cluster_description *cluster = NULL;
    struct stele_result result = {.code = -1};
    if (client != NULL)
        result = stele_cluster_describe(client, true, &cluster);
    for (size_t i = 0; result.code == 0 && i < cluster->member_count; i++) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%d", cluster->members[i]->node_id);
        if (strncmp(number, begun, strlen(begun)) == 0)
            printf("%s\tnode\n", number);
    }
    stele_cluster_description_free(cluster);
    stele_client_free(client);
}

static void offer_topics(const char *bootstrap, const char *begun, bool with_partitions)
{
    struct stele_client *client = client_of(bootstrap);
    struct stele_topics *topics = NULL;
    struct stele_result result = {.code = -1};
    if (client != NULL)
        result = stele_topic_list(client, &topics);
    for (size_t i = 0; result.code == 0 && i < topics->topic_count; i++) {
        const struct stele_topic_info *topic = topics->topics[i];
        size_t bytes = strlen(topic->name);
        bool has_slash = with_partitions && strncmp(topic->name, begun, bytes) == 0 && begun[bytes] == '/';
        if (!has_slash && strncmp(topic->name, begun, strlen(begun)) == 0)
            printf("%s\ttopic\n", topic->name);
        for (int32_t p = 0; has_slash && p < topic->partition_count; p++)
            printf("%s/%d\tpartition\n", topic->name, p);
    }
    if (result.code == 0)
        stele_topics_free(topics);
    stele_client_free(client);
}

static void offer_settings(const char *begun, bool is_of_node)
{
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    for (int i = 0; i < count; i++) {
        const char *name = is_of_node ? rows[i].name : rows[i].topic_name;
        if (name != NULL && strncmp(name, begun, strlen(begun)) == 0)
            printf("%s\tsetting\n", name);
    }
}

void stele_complete(int count, char **words)
{
    struct stele_completion completion;
    const char *begun = count == 0 ? "" : words[count - 1], *bootstrap = getenv("STELE_BOOTSTRAP");
    bootstrap = bootstrap == NULL ? "127.0.0.1:7835" : bootstrap;
    bool is_of_node = count > 0 && strcmp(words[0], "config") == 0;
    for (int i = 0; i < count; i++) {
        is_of_node = is_of_node && strcmp(words[i], "--topic") != 0;
        if (i > 0 && (strcmp(words[i - 1], "-b") == 0 || strcmp(words[i - 1], "--bootstrap") == 0))
            bootstrap = words[i];
    }
    stele_help_complete(stdout, count, words, &completion);
    if (completion.wants_topic)
        offer_topics(bootstrap, begun, completion.wants_partition);
    if (completion.wants_node)
        offer_nodes(bootstrap, begun);
    if (completion.wants_setting)
        offer_settings(begun, is_of_node);
    if (completion.wants_file)
        puts("\t");
}
