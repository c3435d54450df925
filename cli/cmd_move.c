/* partition move, node replicas: in which log directory of a node its replicas lie. */
#include "cli/document.h"
#include "cli/options.h"
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 500 };

struct move {
    struct stele_cli_words words;
    int64_t node_id; /* -1: whichever answers */
    bool is_wait;
};

static const struct move initial = {.node_id = -1};

/* A line's wishes. */
struct wishes {
    struct stele_replica_move items[STELE_CLI_LIST_MAX];
    struct stele_cli_partition names[STELE_CLI_LIST_MAX];
    size_t count;
};

/* "TOPIC/PARTITION=DIRECTORY" */
static bool take_wish(struct wishes *wishes, const char *word)
{
    char name[300];
    size_t at = wishes->count++, bytes = strcspn(word, "=");
    struct stele_replica_move *wish = &wishes->items[at];
    (void)snprintf(name, sizeof(name), "%.*s", bytes < sizeof(name) ? (int)bytes : 0, word);
    if (word[bytes] == 0 || word[bytes + 1] == 0 || !stele_cli_partition(name, &wishes->names[at]) ||
        wishes->names[at].partition < 0)
        return false;
    wish->topic = wishes->names[at].topic;
    wish->partition = wishes->names[at].partition;
    wish->directory = word + bytes + 1;
    return true;
}

static int add_outcomes(const struct stele_cli *cli, struct stele_document *document,
                        const struct stele_partition_results *outcomes)
{
    int status = STELE_CLI_DONE;
    cJSON *list = stele_document_list(document, document->root, "partitions");
    for (size_t i = 0; i < outcomes->outcome_count; i++) {
        const struct stele_partition_result *outcome = outcomes->outcomes[i];
        cJSON *row = stele_document_row(document, list);
        stele_document_text(document, row, "topic", outcome->topic);
        stele_document_number(document, row, "partition", outcome->partition);
        stele_document_flag(document, row, "begun", outcome->code == 0);
        stele_document_text(document, row, "error", outcome->code != 0 ? outcome->text : NULL);
        if (outcome->code != 0)
            status = stele_cli_fail(cli, stele_cli_exit_of(outcome->code), "%s/%d: %s", outcome->topic,
                                    outcome->partition, outcome->text);
    }
    return status;
}

/* Waiting. */

static bool is_same_path(const char *a, const char *b)
{
    size_t bytes = strlen(a), other = strlen(b);
    while (bytes > 1 && a[bytes - 1] == '/')
        bytes--;
    while (other > 1 && b[other - 1] == '/')
        other--;
    return bytes == other && memcmp(a, b, bytes) == 0;
}

enum where { IS_THERE, IS_MOVING, IS_ELSEWHERE };

static enum where look_for(const struct stele_placed_replicas *placed, const struct stele_replica_move *wish)
{
    enum where where = IS_ELSEWHERE;
    for (size_t i = 0; i < placed->replica_count; i++) {
        const struct stele_placed_replica *replica = placed->replicas[i];
        if (strcmp(replica->topic, wish->topic) != 0 || replica->partition != wish->partition)
            continue;
        if (replica->is_future)
            return IS_MOVING;
        where = is_same_path(replica->directory, wish->directory) ? IS_THERE : where;
    }
    return where;
}

static int count_moving(const struct stele_cli *cli, const struct stele_placed_replicas *placed,
                        const struct wishes *wishes, int *out_moving)
{
    int status = STELE_CLI_DONE;
    *out_moving = 0;
    for (size_t i = 0; i < wishes->count; i++) {
        enum where where = look_for(placed, &wishes->items[i]);
        *out_moving += where == IS_MOVING;
        if (where == IS_ELSEWHERE)
            status = stele_cli_fail(cli, STELE_CLI_FAILED, "%s/%d: it does not move any more; the node's log says why",
                                    wishes->items[i].topic, wishes->items[i].partition);
    }
    return status;
}

static int wait_for(const struct stele_cli *cli, struct stele_client *client, int32_t node_id,
                    const struct wishes *wishes)
{
    const char *names[STELE_CLI_LIST_MAX + 1] = {NULL};
    struct stele_progress progress;
    int status = STELE_CLI_DONE, left = 1;
    for (size_t i = 0; i < wishes->count; i++)
        names[i] = wishes->items[i].topic;
    stele_progress_init(&progress);
    while (status == STELE_CLI_DONE && left > 0) {
        struct stele_placed_replicas *placed = NULL;
        struct stele_result result = stele_replicas_describe(client, node_id, names, &placed);
        stele_progress_wipe(&progress);
        status = stele_cli_report(cli, &result);
        left = 0;
        if (status == STELE_CLI_DONE)
            status = count_moving(cli, placed, wishes, &left);
        stele_placed_replicas_free(placed);
        if (left > 0 && stele_progress_is_due(&progress))
            stele_progress_show(&progress, "%d of %zu replicas move", left, wishes->count);
        if (left > 0)
            (void)stele_client_poll(client, LOOK_MS);
    }
    stele_progress_end(&progress);
    return status;
}

/* What is there. */

static void add_replica(struct stele_document *document, cJSON *list, int32_t node_id,
                        const struct stele_placed_replica *replica)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "node", node_id);
    stele_document_text(document, row, "topic", replica->topic);
    stele_document_number(document, row, "partition", replica->partition);
    stele_document_text(document, row, "directory", replica->directory);
    stele_document_number(document, row, "bytes", replica->bytes);
    stele_document_known(document, row, "end_offset", replica->log_end_offset);
    stele_document_number(document, row, "lag", replica->lag);
    stele_document_text(document, row, "state",
                        replica->is_future    ? "copy"
                        : replica->is_offline ? "offline"
                                              : "online");
}

/* One that moves: from where, and how far it is. The copy is behind the log in the list. */
static void add_move(struct stele_document *document, cJSON *list, int32_t node_id,
                     const struct stele_placed_replica *log, const struct stele_placed_replica *copy)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_number(document, row, "node", node_id);
    stele_document_text(document, row, "topic", copy->topic);
    stele_document_number(document, row, "partition", copy->partition);
    stele_document_text(document, row, "from", log->directory);
    stele_document_text(document, row, "to", copy->directory);
    stele_document_number(document, row, "bytes", log->bytes);
    stele_document_number(document, row, "copied_bytes", copy->bytes);
    stele_document_number(document, row, "lag", copy->lag);
}

/* Of one node, into the list. */
static int tell_node(const struct stele_cli *cli, struct stele_client *client, struct stele_document *document,
                     cJSON *list, int32_t node_id)
{
    struct stele_placed_replicas *placed = NULL;
    struct stele_result result = stele_replicas_describe(client, node_id, NULL, &placed);
    int status = stele_cli_report(cli, &result);
    for (size_t i = 1; status == STELE_CLI_DONE && i < placed->replica_count; i++) {
        if (placed->replicas[i]->is_future)
            add_move(document, list, placed->node_id, placed->replicas[i - 1], placed->replicas[i]);
    }
    stele_placed_replicas_free(placed);
    return status;
}

/* What moves: on the node, or on all of the cluster. One that does not answer is told, the others are shown. */
static int run_moves(const struct stele_cli *cli, struct stele_client *client, int32_t node_id)
{
    static const struct stele_view_column columns[] = {{"node", "NODE", STELE_VIEW_COUNT},
                                                       {"topic", "TOPIC", STELE_VIEW_TEXT},
                                                       {"partition", "PARTITION", STELE_VIEW_COUNT},
                                                       {"from", "FROM", STELE_VIEW_TEXT},
                                                       {"to", "TO", STELE_VIEW_TEXT},
                                                       {"bytes", "SIZE", STELE_VIEW_SIZE},
                                                       {"copied_bytes", "COPIED", STELE_VIEW_SIZE},
                                                       {"lag", "LAG", STELE_VIEW_COUNT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    struct stele_cluster_description *cluster = NULL;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "moves");
    if (node_id < 0) {
        struct stele_result result = stele_cluster_describe(client, true, &cluster);
        status = stele_cli_report(cli, &result);
    }
    if (status == STELE_CLI_DONE && (cluster == NULL || cluster->member_count == 0))
        status = tell_node(cli, client, &document, list, node_id);
    for (size_t i = 0; cluster != NULL && i < cluster->member_count; i++) {
        int told = tell_node(cli, client, &document, list, cluster->members[i]->node_id);
        status = told != STELE_CLI_DONE ? told : status;
    }
    stele_cluster_description_free(cluster);
    if (!stele_document_print(&document, cli, &status))
        stele_view_table(stdout, list, columns, cli->is_exact);
    stele_document_deinit(&document);
    return status;
}

static int move(const struct stele_cli *cli, struct stele_client *client, const struct move *options,
                const struct wishes *wishes)
{
    struct stele_partition_results *outcomes = NULL;
    struct stele_document document;
    struct stele_result result =
        stele_replicas_move(client, (int32_t)options->node_id, wishes->items, wishes->count, &outcomes);
    int status = stele_cli_report(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    status = add_outcomes(cli, &document, outcomes);
    stele_partition_results_free(outcomes);
    if (options->is_wait && status == STELE_CLI_DONE)
        status = wait_for(cli, client, (int32_t)options->node_id, wishes);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static int run_move(const struct stele_cli *cli, void *line)
{
    const struct move *options = line;
    int status = STELE_CLI_DONE;
    if (options->words.count == 0 && options->is_wait)
        return stele_cli_fail(cli, STELE_CLI_USAGE, "--wait: for which replica? TOPIC/PARTITION=DIRECTORY is missing");
    struct wishes *wishes = calloc(1, sizeof(*wishes));
    if (wishes == NULL)
        return stele_cli_fail(cli, STELE_CLI_FAILED, "out of memory");
    for (int i = 0; i < options->words.count && status == STELE_CLI_DONE; i++) {
        if (!take_wish(wishes, options->words.items[i]))
            status =
                stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want TOPIC/PARTITION=DIRECTORY", options->words.items[i]);
    }
    struct stele_client *client = status == STELE_CLI_DONE ? stele_cli_client(cli, &status) : NULL;
    if (client != NULL)
        status =
            wishes->count == 0 ? run_moves(cli, client, (int32_t)options->node_id) : move(cli, client, options, wishes);
    stele_client_free(client);
    free(wishes);
    return status;
}

#define NODE_OPTION(help_)                                                                                             \
    {                                                                                                                  \
        .name = "-n", .alias = "--node", .value = "NODE", .kind = STELE_CLI_NUMBER,                                    \
        .at = offsetof(struct move, node_id), .min = 0, .max = INT32_MAX, .help = (help_)                              \
    }

static const struct stele_cli_option move_options[] = {
    NODE_OPTION("whose replicas (the node that answers; without an argument, all nodes)"),
    {.name = "--wait",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct move, is_wait),
     .help = "come back when the replicas are where they shall be"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_partition_move = {
    .name = "partition move",
    .arguments = "[TOPIC/PARTITION=DIRECTORY...]",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "move replicas to other log directories of their node, or show what moves",
    .details = "DIRECTORY is one of the node's log.dirs, as stele node status shows them. The replica is copied beside "
               "itself, no faster than replica.alter.log.dirs.io.max.bytes.per.second, and goes on from the copy once "
               "that has everything; until then it can be sent elsewhere, or, with the directory where it lies, be "
               "left there. Without an argument, what moves: LAG is how many records each copy lacks.",
    .options = move_options,
    .line_bytes = sizeof(struct move),
    .initial = &initial,
    .run = run_move,
};

/* node replicas */

static int run_replicas(const struct stele_cli *cli, void *line)
{
    static const struct stele_view_column columns[] = {
        {"topic", "TOPIC", STELE_VIEW_TEXT}, {"partition", "PARTITION", STELE_VIEW_COUNT},
        {"state", "STATE", STELE_VIEW_TEXT}, {"directory", "DIRECTORY", STELE_VIEW_TEXT},
        {"bytes", "SIZE", STELE_VIEW_SIZE},  {"end_offset", "END", STELE_VIEW_COUNT},
        {"lag", "LAG", STELE_VIEW_COUNT},    {NULL, NULL, STELE_VIEW_TEXT}};
    const struct move *options = line;
    struct stele_placed_replicas *placed = NULL;
    struct stele_document document;
    const char *names[STELE_CLI_LIST_MAX + 1] = {NULL};
    int status = STELE_CLI_DONE;
    for (int i = 0; i < options->words.count; i++)
        names[i] = options->words.items[i];
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result =
        stele_replicas_describe(client, (int32_t)options->node_id, options->words.count > 0 ? names : NULL, &placed);
    status = stele_cli_report(cli, &result);
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "replicas");
    for (size_t i = 0; status == STELE_CLI_DONE && i < placed->replica_count; i++)
        add_replica(&document, list, placed->node_id, placed->replicas[i]);
    stele_placed_replicas_free(placed);
    stele_client_free(client);
    if (status == STELE_CLI_DONE && !stele_document_print(&document, cli, &status))
        stele_view_table(stdout, list, columns, cli->is_exact);
    stele_document_deinit(&document);
    return status;
}

static const struct stele_cli_option replicas_options[] = {
    NODE_OPTION("whose replicas (the node that answers)"),
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_node_replicas = {
    .name = "node replicas",
    .arguments = "[TOPIC...]",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "show in which log directory each replica of a node lies, how large it is, and how far its copy",
    .details = "A replica that moves (stele partition move) has a line for its copy too: its LAG is what it lacks of "
               "the log. That of a log is what it lacks of what is committed.",
    .options = replicas_options,
    .line_bytes = sizeof(struct move),
    .initial = &initial,
    .run = run_replicas,
};
