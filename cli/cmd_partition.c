/* partition: where the replicas of partitions lie, and who leads. */
#include "base/err.h"
#include "cli/document.h"
#include "cli/move_throttle.h"
#include "cli/options.h"
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>

enum { REPLICAS_MAX = 32, LOOK_MS = 500 };

/* What the outcomes say, and what of them goes to stderr. `fine` is no failure; 0: there are no leaders to tell. */
static int add_outcomes(const struct stele_cli *cli, struct stele_document *document,
                        const struct stele_partition_results *outcomes, int fine, const char *done)
{
    int status = STELE_CLI_DONE;
    cJSON *list = stele_document_list(document, document->root, "partitions");
    for (size_t i = 0; i < outcomes->outcome_count; i++) {
        const struct stele_partition_result *outcome = outcomes->outcomes[i];
        bool is_bad = outcome->code != 0 && outcome->code != fine;
        cJSON *row = stele_document_row(document, list);
        stele_document_text(document, row, "topic", outcome->topic);
        stele_document_number(document, row, "partition", outcome->partition);
        stele_document_flag(document, row, done, outcome->code == 0);
        if (fine != 0) {
            int64_t lost = outcome->lost_end_offset - outcome->lost_first_offset;
            stele_document_known(document, row, "leader", outcome->leader_id);
            stele_document_known(document, row, "leader_epoch", outcome->leader_epoch);
            stele_document_known(document, row, "lost_first_offset", outcome->lost_first_offset);
            stele_document_known(document, row, "lost_end_offset", outcome->lost_end_offset);
            stele_document_known(document, row, "lost_records", outcome->lost_first_offset < 0 ? -1 : lost);
        }
        stele_document_text(document, row, "note", outcome->code == 0 && outcome->text[0] != 0 ? outcome->text : NULL);
        stele_document_text(document, row, "error", is_bad ? outcome->text : NULL);
        if (is_bad)
            status = stele_cli_fail(cli, stele_cli_exit_of(outcome->code), "%s/%d: %s", outcome->topic,
                                    outcome->partition, outcome->text);
    }
    return status;
}

/* reassign */

struct reassign {
    struct stele_cli_words words;
    bool is_cancel, is_wait;
    const char *rate; /* of --throttle; NULL: none */
    int64_t bytes_per_second;
};

/* A line's wishes. */
struct wishes {
    struct stele_partition_wish items[STELE_CLI_LIST_MAX];
    struct stele_cli_partition names[STELE_CLI_LIST_MAX];
    int32_t replicas[STELE_CLI_LIST_MAX][REPLICAS_MAX];
    size_t count;
};

/* "1,2,3" */
static bool take_nodes(const char *text, int32_t *to, size_t *out_count)
{
    for (size_t count = 0; count < REPLICAS_MAX;) {
        char word[16];
        int64_t node_id = 0;
        size_t bytes = strcspn(text, ",");
        (void)snprintf(word, sizeof(word), "%.*s", bytes < sizeof(word) ? (int)bytes : 0, text);
        if (!stele_cli_number(word, 0, INT32_MAX, &node_id))
            return false;
        to[count++] = (int32_t)node_id;
        *out_count = count;
        if (text[bytes] == 0)
            return true;
        text += bytes + 1;
    }
    return false;
}

/* "TOPIC/PARTITION=NODE,NODE...", or without nodes when what is under way shall end. */
static bool take_wish(struct wishes *wishes, const char *word, bool is_cancel)
{
    char name[300];
    size_t at = wishes->count++, bytes = strcspn(word, "=");
    struct stele_partition_wish *wish = &wishes->items[at];
    (void)snprintf(name, sizeof(name), "%.*s", bytes < sizeof(name) ? (int)bytes : 0, word);
    if (!stele_cli_partition(name, &wishes->names[at]) || wishes->names[at].partition < 0)
        return false;
    wish->topic = wishes->names[at].topic;
    wish->partition = wishes->names[at].partition;
    if (is_cancel)
        return word[bytes] == 0;
    wish->replicas = wishes->replicas[at];
    return word[bytes] != 0 && take_nodes(word + bytes + 1, wishes->replicas[at], &wish->replica_count);
}

/* A partition with its replicas that come and go, and how many records those lack that come. */
static void add_move(struct stele_document *document, cJSON *list, const char *topic,
                     const struct stele_partition_description *partition, const struct stele_log_description *log)
{
    cJSON *row = stele_document_row(document, list);
    stele_document_text(document, row, "topic", topic);
    stele_document_number(document, row, "partition", partition->partition);
    stele_document_numbers(document, row, "replicas", partition->replicas, partition->replica_count);
    stele_document_numbers(document, row, "isr", partition->isr, partition->isr_count);
    stele_document_numbers(document, row, "adding", partition->adding, partition->adding_count);
    stele_document_numbers(document, row, "removing", partition->removing, partition->removing_count);
    cJSON *lag = stele_document_list(document, row, "adding_lag");
    for (size_t i = 0; i < partition->adding_count; i++) {
        int64_t known = -1;
        for (size_t at = 0; log != NULL && at < log->replica_count; at++)
            known = log->replicas[at]->node_id == partition->adding[i] ? log->replicas[at]->lag : known;
        stele_document_known(document, lag, NULL, known);
    }
}

static bool is_moving(const struct stele_partition_description *partition)
{
    return partition->adding_count > 0 || partition->removing_count > 0;
}

static int run_moves(const struct stele_cli *cli, struct stele_client *client)
{
    static const struct stele_view_column columns[] = {
        {"topic", "TOPIC", STELE_VIEW_TEXT},       {"partition", "PARTITION", STELE_VIEW_COUNT},
        {"replicas", "REPLICAS", STELE_VIEW_TEXT}, {"isr", "IN SYNC", STELE_VIEW_TEXT},
        {"adding", "ADDING", STELE_VIEW_TEXT},     {"adding_lag", "LAG", STELE_VIEW_TEXT},
        {"removing", "REMOVING", STELE_VIEW_TEXT}, {NULL, NULL, STELE_VIEW_TEXT}};
    struct stele_topic_descriptions *topics = NULL;
    struct stele_document document;
    struct stele_result result = stele_topic_describe(client, NULL, &topics);
    int status = stele_cli_report(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    cJSON *list = stele_document_list(&document, document.root, "partitions");
    for (size_t i = 0; i < topics->topic_count; i++) {
        const struct stele_topic_description *topic = topics->topics[i];
        for (size_t at = 0; at < topic->partition_count; at++) {
            struct stele_log_descriptions *logs = NULL;
            if (!is_moving(topic->partitions[at]))
                continue;
            /* Without the leader's word there is less to show. */
            (void)stele_topic_logs(client, topic->name, topic->partitions[at]->partition, 0, &logs);
            add_move(&document, list, topic->name, topic->partitions[at],
                     logs != NULL && logs->log_count == 1 ? logs->logs[0] : NULL);
            stele_log_descriptions_free(logs);
        }
    }
    stele_topic_descriptions_free(topics);
    if (!stele_document_print(&document, cli, &status))
        stele_view_table(stdout, list, columns, cli->is_exact);
    stele_document_deinit(&document);
    return status;
}

/* Whether the partition lies where it shall: whoever answers may not have heard yet that it is to. */
static bool is_there(const struct stele_partition_description *partition, const struct stele_partition_wish *wish)
{
    if (is_moving(partition))
        return false;
    return wish->replicas == NULL ||
           (partition->replica_count == wish->replica_count &&
            memcmp(partition->replicas, wish->replicas, wish->replica_count * sizeof(*wish->replicas)) == 0);
}

/* How many of the wishes are under way still. */
static int count_moving(const struct stele_topic_descriptions *topics, const struct wishes *wishes)
{
    int count = 0;
    for (size_t i = 0; i < wishes->count; i++) {
        for (size_t at = 0; at < topics->topic_count; at++) {
            const struct stele_topic_description *topic = topics->topics[at];
            int32_t partition = wishes->items[i].partition;
            if (strcmp(topic->name, wishes->items[i].topic) != 0)
                continue;
            count += (size_t)partition < topic->partition_count &&
                     !is_there(topic->partitions[partition], &wishes->items[i]);
            break;
        }
    }
    return count;
}

/* Until none of them is under way, however long that takes. */
static int wait_for(const struct stele_cli *cli, struct stele_client *client, const struct wishes *wishes)
{
    const char *names[STELE_CLI_LIST_MAX + 1] = {NULL};
    struct stele_progress progress;
    int status = STELE_CLI_DONE, left = 1;
    for (size_t i = 0; i < wishes->count; i++)
        names[i] = wishes->items[i].topic;
    stele_progress_init(&progress);
    while (status == STELE_CLI_DONE && left > 0) {
        struct stele_topic_descriptions *topics = NULL;
        struct stele_result result = stele_topic_describe(client, names, &topics);
        stele_progress_wipe(&progress);
        status = stele_cli_report(cli, &result);
        left = status == STELE_CLI_DONE ? count_moving(topics, wishes) : 0;
        stele_topic_descriptions_free(topics);
        if (left > 0 && stele_progress_is_due(&progress))
            stele_progress_show(&progress, "%d of %zu partitions under way", left, wishes->count);
        if (left > 0)
            (void)stele_client_poll(client, LOOK_MS);
    }
    stele_progress_end(&progress);
    return status;
}

static int reassign_now(const struct stele_cli *cli, struct stele_client *client, const struct reassign *options,
                        const struct wishes *wishes)
{
    struct stele_partition_results *outcomes = NULL;
    struct stele_document document;
    struct stele_result result = stele_partitions_reassign(client, wishes->items, wishes->count, &outcomes);
    int status = stele_cli_report_controlled(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    status = add_outcomes(cli, &document, outcomes, 0, options->is_cancel ? "cancelled" : "begun");
    stele_partition_results_free(outcomes);
    if (options->is_wait && status == STELE_CLI_DONE)
        status = wait_for(cli, client, wishes);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static int reassign(const struct stele_cli *cli, struct stele_client *client, const struct reassign *options,
                    const struct wishes *wishes)
{
    struct stele_move_throttle throttle;
    if (options->rate == NULL)
        return reassign_now(cli, client, options, wishes);
    int status =
        stele_move_throttle_begin(cli, client, options->bytes_per_second, wishes->items, wishes->count, &throttle);
    if (status != STELE_CLI_DONE)
        return status;
    status = reassign_now(cli, client, options, wishes);
    int ended = stele_move_throttle_end(cli, client, &throttle);
    return status != STELE_CLI_DONE ? status : ended;
}

static int run_reassign(const struct stele_cli *cli, void *line)
{
    struct reassign *options = line;
    int status = STELE_CLI_DONE;
    if (options->rate != NULL && !stele_cli_number(options->rate, 1, INT64_MAX, &options->bytes_per_second))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "--throttle: '%s' is no number of bytes a second", options->rate);
    if (options->rate != NULL && (options->is_cancel || !options->is_wait))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "--throttle goes with --wait: it is taken away when all is done");
    if (options->words.count == 0 && (options->is_cancel || options->is_wait))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s: which partition? TOPIC/PARTITION is missing",
                              options->is_cancel ? "--cancel" : "--wait");
    struct wishes *wishes = calloc(1, sizeof(*wishes));
    if (wishes == NULL)
        return stele_cli_fail(cli, STELE_CLI_FAILED, "out of memory");
    for (int i = 0; i < options->words.count && status == STELE_CLI_DONE; i++) {
        if (!take_wish(wishes, options->words.items[i], options->is_cancel))
            status =
                stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want %s", options->words.items[i],
                               options->is_cancel ? "TOPIC/PARTITION"
                                                  : "TOPIC/PARTITION=NODE,NODE... with the preferred leader first");
    }
    struct stele_client *client = status == STELE_CLI_DONE ? stele_cli_client(cli, &status) : NULL;
    if (client != NULL)
        status = wishes->count == 0 ? run_moves(cli, client) : reassign(cli, client, options, wishes);
    stele_client_free(client);
    free(wishes);
    return status;
}

static const struct stele_cli_option reassign_options[] = {
    {.name = "--cancel",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct reassign, is_cancel),
     .help = "end what is under way: the replicas are again those of before"},
    {.name = "--wait",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct reassign, is_wait),
     .help = "come back when the new replicas are in sync and the old ones gone"},
    {.name = "--throttle",
     .value = "BYTES",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct reassign, rate),
     .help = "with --wait: no node sends or fetches more than so many bytes a second of what moves; the settings for "
             "it are unset at the end (docs/cluster.md), but not when this is interrupted"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_partition_reassign = {
    .name = "partition reassign",
    .arguments = "[TOPIC/PARTITION=NODE,NODE...]...",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "move replicas of partitions to other nodes, or show what is under way",
    .details = "The nodes named are those that shall have a replica, the preferred leader first. New replicas are "
               "filled from the leader; once they are in sync the others go. Without an argument, what is under way: "
               "LAG is how many records each new replica lacks.",
    .options = reassign_options,
    .line_bytes = sizeof(struct reassign),
    .run = run_reassign,
};

/* elect */

struct elect {
    struct stele_cli_words words;
    bool is_unclean, is_all;
};

/* The partitions that a line names; topics stand for all of theirs. */
struct choices {
    struct stele_cli_partition names[STELE_CLI_LIST_MAX];
    struct stele_partition_choice *items; /* malloc */
    size_t count;
};

static int add_choices(const struct stele_cli *cli, struct choices *choices, const struct stele_cli_partition *name,
                       const struct stele_topic_description *topic)
{
    size_t count = name->partition >= 0 ? 1 : topic->partition_count;
    struct stele_partition_choice *items = realloc(choices->items, (choices->count + count + 1) * sizeof(*items));
    if (items == NULL)
        return stele_cli_fail(cli, STELE_CLI_FAILED, "out of memory");
    choices->items = items;
    for (size_t i = 0; i < count; i++)
        items[choices->count++] = (struct stele_partition_choice){
            .topic = name->topic,
            .partition = name->partition >= 0 ? name->partition : topic->partitions[i]->partition};
    return STELE_CLI_DONE;
}

/* One topic or partition of the line. */
static int take_choice(const struct stele_cli *cli, struct stele_client *client, struct choices *choices,
                       const struct stele_cli_partition *name)
{
    const char *names[] = {name->topic, NULL};
    struct stele_topic_descriptions *topics = NULL;
    int status = STELE_CLI_DONE;
    if (name->partition >= 0)
        return add_choices(cli, choices, name, NULL);
    struct stele_result result = stele_topic_describe(client, names, &topics);
    status = stele_cli_report(cli, &result);
    if (status == STELE_CLI_DONE && topics->topic_count == 1 && topics->topics[0]->code == 0)
        status = add_choices(cli, choices, name, topics->topics[0]);
    else if (status == STELE_CLI_DONE)
        status = stele_cli_fail(cli, STELE_CLI_MISSING, "there is no topic '%s'; stele topic list shows those that are",
                                name->topic);
    stele_topic_descriptions_free(topics);
    return status;
}

static int elect(const struct stele_cli *cli, struct stele_client *client, const struct elect *options,
                 const struct choices *choices)
{
    static const struct stele_view_column columns[] = {{"topic", "TOPIC", STELE_VIEW_TEXT},
                                                       {"partition", "PARTITION", STELE_VIEW_COUNT},
                                                       {"leader", "LEADER", STELE_VIEW_COUNT},
                                                       {"leader_epoch", "EPOCH", STELE_VIEW_COUNT},
                                                       {"elected", "ELECTED", STELE_VIEW_TEXT},
                                                       {"lost_records", "LOST", STELE_VIEW_COUNT},
                                                       {"lost_first_offset", "FROM", STELE_VIEW_COUNT},
                                                       {"lost_end_offset", "TO", STELE_VIEW_COUNT},
                                                       {"note", "NOTE", STELE_VIEW_TEXT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    struct stele_partition_results *outcomes = NULL;
    struct stele_document document;
    struct stele_result result =
        stele_partitions_elect(client, options->is_unclean, choices->items, choices->count, &outcomes);
    int status = stele_cli_report_controlled(cli, &result);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    status = add_outcomes(cli, &document, outcomes, STELE_ELECTION_NOT_NEEDED, "elected");
    stele_partition_results_free(outcomes);
    if (!stele_document_print(&document, cli, &status))
        stele_view_table(stdout, cJSON_GetObjectItemCaseSensitive(document.root, "partitions"), columns, cli->is_exact);
    stele_document_deinit(&document);
    return status;
}

static int run_elect(const struct stele_cli *cli, void *line)
{
    const struct elect *options = line;
    struct choices choices = {.count = 0};
    int status = STELE_CLI_DONE;
    if (options->is_all == (options->words.count > 0))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "name the partitions, or --all for all that need it");
    for (int i = 0; i < options->words.count; i++) {
        if (!stele_cli_partition(options->words.items[i], &choices.names[i]))
            return stele_cli_fail(cli, STELE_CLI_USAGE, "%s: want TOPIC or TOPIC/PARTITION", options->words.items[i]);
    }
    struct stele_client *client = stele_cli_client(cli, &status);
    for (int i = 0; i < options->words.count && client != NULL && status == STELE_CLI_DONE; i++)
        status = take_choice(cli, client, &choices, &choices.names[i]);
    if (client != NULL && status == STELE_CLI_DONE)
        status = elect(cli, client, options, &choices);
    stele_client_free(client);
    free(choices.items);
    return status;
}

static const struct stele_cli_option elect_options[] = {
    {.name = "--all",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct elect, is_all),
     .help = "every partition that needs it"},
    {.name = "--unclean",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct elect, is_unclean),
     .help = "where no replica may lead without loss: the one that has the most leads, and the rest is lost"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_partition_elect = {
    .name = "partition elect",
    .arguments = "[TOPIC[/PARTITION]...]",
    .words_max = STELE_CLI_LIST_MAX,
    .summary = "let the preferred replicas lead again, or force a leader where none may lead",
    .details =
        "The preferred leader is the first of a partition's replicas; it has to be in sync.\n\n"
        "With --unclean, a partition without a leader, of whose replicas none in sync is left, gets the longest log "
        "of the highest epoch among those that are back. Records that were acknowledged may be lost, for good: LOST "
        "tells how many, and FROM and TO between which offsets. Bring the missing nodes back instead, if there is a "
        "way.",
    .options = elect_options,
    .line_bytes = sizeof(struct elect),
    .run = run_elect,
};
