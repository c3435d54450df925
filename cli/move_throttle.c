#include "cli/move_throttle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEADER_LIST "leader.replication.throttled.replicas"
#define FOLLOWER_LIST "follower.replication.throttled.replicas"
#define LEADER_RATE "leader.replication.throttled.rate"
#define FOLLOWER_RATE "follower.replication.throttled.rate"

static bool has(const int32_t *ids, size_t count, int32_t id)
{
    size_t at = 0;
    while (at < count && ids[at] != id)
        at++;
    return at < count;
}

/* The lists of one topic, "PARTITION:NODE" by comma: who has a replica may lead it, who gets one follows. */
static void write_lists(FILE *leaders, FILE *followers, const struct stele_topic_description *topic,
                        const struct stele_partition_wish *wish)
{
    const struct stele_partition_description *partition =
        (size_t)wish->partition < topic->partition_count ? topic->partitions[wish->partition] : NULL;
    for (size_t i = 0; partition != NULL && i < partition->replica_count; i++)
        (void)fprintf(leaders, "%s%d:%d", ftell(leaders) > 0 ? "," : "", wish->partition, partition->replicas[i]);
    for (size_t i = 0; partition != NULL && i < wish->replica_count; i++) {
        if (!has(partition->replicas, partition->replica_count, wish->replicas[i]))
            (void)fprintf(followers, "%s%d:%d", ftell(followers) > 0 ? "," : "", wish->partition, wish->replicas[i]);
    }
}

static int set_topic(const struct stele_cli *cli, struct stele_client *client,
                     const struct stele_topic_description *topic, const struct stele_partition_wish *wishes,
                     size_t count)
{
    char *lists[2] = {NULL, NULL};
    size_t bytes[2];
    FILE *files[2] = {open_memstream(&lists[0], &bytes[0]), open_memstream(&lists[1], &bytes[1])};
    int status = STELE_CLI_DONE;
    bool is_good = files[0] != NULL && files[1] != NULL;
    for (size_t i = 0; i < count && is_good; i++) {
        if (strcmp(wishes[i].topic, topic->name) == 0)
            write_lists(files[0], files[1], topic, &wishes[i]);
    }
    for (int i = 0; i < 2; i++)
        is_good = files[i] != NULL && fclose(files[i]) == 0 && is_good;
    if (is_good) {
        const struct stele_setting settings[] = {{LEADER_LIST, lists[0]}, {FOLLOWER_LIST, lists[1]}, {NULL, NULL}};
        struct stele_result result = stele_config_alter(client, STELE_CONFIG_TOPIC, topic->name, settings, false);
        status = stele_cli_report_controlled(cli, &result);
    } else {
        status = stele_cli_fail(cli, STELE_CLI_FAILED, "out of memory");
    }
    free(lists[0]);
    free(lists[1]);
    return status;
}

static int refuse(const struct stele_cli *cli, const char *of, const char *name, const char *how)
{
    return stele_cli_fail(cli, STELE_CLI_FAILED,
                          "--throttle: %s has %s already: 'stele config unset %s %s' takes it away", of, name, name,
                          how);
}

static int check_topic(const struct stele_cli *cli, const struct stele_topic_description *topic)
{
    char how[300];
    (void)snprintf(how, sizeof(how), "--topic %s", topic->name);
    for (size_t i = 0; i < topic->setting_count; i++) {
        const char *name = topic->settings[i].name;
        if (strcmp(name, LEADER_LIST) == 0 || strcmp(name, FOLLOWER_LIST) == 0)
            return refuse(cli, topic->name, name, how);
    }
    return STELE_CLI_DONE;
}

static int set_rates(const struct stele_cli *cli, struct stele_client *client, int64_t rate)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)rate);
    const struct stele_setting settings[] = {{LEADER_RATE, text}, {FOLLOWER_RATE, text}, {NULL, NULL}};
    struct stele_result result = stele_config_alter(client, STELE_CONFIG_CLUSTER, "", settings, false);
    return stele_cli_report_controlled(cli, &result);
}

static int check_rates(const struct stele_cli *cli, struct stele_client *client)
{
    static const char *const names[] = {LEADER_RATE, FOLLOWER_RATE, NULL};
    struct stele_config *config = NULL;
    struct stele_result result = stele_config_describe(client, STELE_CONFIG_CLUSTER, "", names, 0, &config);
    int status = stele_cli_report(cli, &result);
    for (size_t i = 0; status == STELE_CLI_DONE && i < config->setting_count; i++) {
        if (config->settings[i]->origin == STELE_CONFIG_OF_CLUSTER)
            status = refuse(cli, "the cluster", config->settings[i]->name, "--cluster");
    }
    stele_config_free(config);
    return status;
}

/* Of every topic once. */
static size_t name_topics(const struct stele_partition_wish *wishes, size_t count, const char **names)
{
    size_t name_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < name_count && strcmp(names[at], wishes[i].topic) != 0)
            at++;
        if (at == name_count)
            names[name_count++] = wishes[i].topic;
    }
    names[name_count] = NULL;
    return name_count;
}

int stele_move_throttle_begin(const struct stele_cli *cli, struct stele_client *client, int64_t rate,
                              const struct stele_partition_wish *wishes, size_t count,
                              struct stele_move_throttle *out_throttle)
{
    struct stele_move_throttle *throttle = out_throttle;
    struct stele_topic_descriptions *topics = NULL;
    const char *names[STELE_CLI_LIST_MAX + 1];
    *throttle = (struct stele_move_throttle){.topic_count = 0};
    (void)name_topics(wishes, count, names);
    struct stele_result result = stele_topic_describe(client, names, &topics);
    int status = stele_cli_report(cli, &result);
    if (status == STELE_CLI_DONE)
        status = check_rates(cli, client);
    for (size_t i = 0; status == STELE_CLI_DONE && i < topics->topic_count; i++)
        status = check_topic(cli, topics->topics[i]);
    for (size_t i = 0; status == STELE_CLI_DONE && i < topics->topic_count; i++) {
        if (topics->topics[i]->code != 0)
            continue; /* the reassignment says what is wrong with it */
        status = set_topic(cli, client, topics->topics[i], wishes, count);
        for (size_t at = 0; at < count && throttle->topic_count <= i; at++) {
            if (strcmp(wishes[at].topic, topics->topics[i]->name) == 0)
                throttle->topics[throttle->topic_count++] = wishes[at].topic;
        }
    }
    stele_topic_descriptions_free(topics);
    throttle->has_rates = status == STELE_CLI_DONE;
    if (status == STELE_CLI_DONE)
        status = set_rates(cli, client, rate);
    if (status != STELE_CLI_DONE && (throttle->has_rates || throttle->topic_count > 0))
        (void)stele_move_throttle_end(cli, client, throttle);
    return status;
}

int stele_move_throttle_end(const struct stele_cli *cli, struct stele_client *client,
                            const struct stele_move_throttle *throttle)
{
    static const struct stele_setting lists[] = {{LEADER_LIST, NULL}, {FOLLOWER_LIST, NULL}, {NULL, NULL}};
    static const struct stele_setting rates[] = {{LEADER_RATE, NULL}, {FOLLOWER_RATE, NULL}, {NULL, NULL}};
    int status = STELE_CLI_DONE;
    for (size_t i = 0; i < throttle->topic_count; i++) {
        struct stele_result result = stele_config_alter(client, STELE_CONFIG_TOPIC, throttle->topics[i], lists, false);
        int one = stele_cli_report_controlled(cli, &result);
        status = one != STELE_CLI_DONE ? one : status;
    }
    if (throttle->has_rates) {
        struct stele_result result = stele_config_alter(client, STELE_CONFIG_CLUSTER, "", rates, false);
        int one = stele_cli_report_controlled(cli, &result);
        status = one != STELE_CLI_DONE ? one : status;
    }
    return status;
}
