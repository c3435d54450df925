/* quorum: the nodes that vote on the cluster's metadata. */
#include "cli/document.h"
#include "cli/options.h"

enum { NODE_ID_MAX = INT32_MAX };

/* status */

struct status {
    struct stele_cli_words words;
    bool is_local;
};

static void add_member(struct stele_document *document, cJSON *list, const struct stele_quorum_description *quorum,
                       const struct stele_quorum_member *member)
{
    bool asks_nobody = member->is_leader || member->node_id == quorum->node_id;
    char address[300];
    cJSON *row = stele_document_row(document, list);
    (void)snprintf(address, sizeof(address), "%.255s:%d", member->host, member->port);
    stele_document_number(document, row, "node", member->node_id);
    stele_document_text(document, row, "role", member->is_leader ? "leader" : member->is_voter ? "voter" : "observer");
    stele_document_known(document, row, "log_end_offset", member->log_end_offset);
    stele_document_known(document, row, "lag", member->lag);
    stele_document_known(document, row, "last_fetch_ms", asks_nobody ? -1 : member->fetched_ms);
    stele_document_known(document, row, "last_caught_up_ms", asks_nobody ? -1 : member->caught_up_ms);
    stele_document_text(document, row, "address", member->host[0] == 0 ? NULL : address);
    stele_document_text(document, row, "directory_id", member->directory_id);
}

static void add_quorum(struct stele_document *document, const struct stele_quorum_description *quorum)
{
    cJSON *root = document->root;
    stele_document_known(document, root, "leader", quorum->leader_id);
    stele_document_number(document, root, "leader_epoch", quorum->leader_epoch);
    stele_document_known(document, root, "high_watermark", quorum->high_watermark);
    stele_document_number(document, root, "answered_by", quorum->node_id);
    stele_document_text(document, root, "role", quorum->role);
    cJSON *list = stele_document_list(document, root, "members");
    for (size_t i = 0; i < quorum->member_count; i++)
        add_member(document, list, quorum, quorum->members[i]);
}

static void view_quorum(const struct stele_cli *cli, const cJSON *root)
{
    static const struct stele_view_column fields[] = {{"answered_by", "told by node", STELE_VIEW_TEXT},
                                                      {"role", "which is", STELE_VIEW_TEXT},
                                                      {"leader", "leader", STELE_VIEW_TEXT},
                                                      {"leader_epoch", "epoch", STELE_VIEW_TEXT},
                                                      {"high_watermark", "high watermark", STELE_VIEW_TEXT},
                                                      {NULL, NULL, STELE_VIEW_TEXT}};
    static const struct stele_view_column columns[] = {{"node", "NODE", STELE_VIEW_COUNT},
                                                       {"role", "ROLE", STELE_VIEW_TEXT},
                                                       {"log_end_offset", "LOG END", STELE_VIEW_COUNT},
                                                       {"lag", "LAG", STELE_VIEW_COUNT},
                                                       {"last_fetch_ms", "LAST FETCH", STELE_VIEW_SPAN_MS},
                                                       {"last_caught_up_ms", "CAUGHT UP", STELE_VIEW_SPAN_MS},
                                                       {"address", "ADDRESS", STELE_VIEW_TEXT},
                                                       {"directory_id", "DIRECTORY ID", STELE_VIEW_TEXT},
                                                       {NULL, NULL, STELE_VIEW_TEXT}};
    bool is_of_leader = stele_document_get(root, "answered_by", -1) == stele_document_get(root, "leader", -1);
    stele_view_fields(stdout, root, is_of_leader ? fields + 2 : fields, cli->is_exact);
    puts("");
    stele_view_table(stdout, cJSON_GetObjectItemCaseSensitive(root, "members"), columns, cli->is_exact);
}

static int run_status(const struct stele_cli *cli, void *line)
{
    const struct status *options = line;
    struct stele_quorum_description *quorum = NULL;
    struct stele_document document;
    int status = STELE_CLI_DONE;
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = stele_quorum_describe(client, options->is_local, &quorum);
    status = stele_cli_report_controlled(cli, &result);
    stele_document_init(&document);
    if (status == STELE_CLI_DONE)
        add_quorum(&document, quorum);
    stele_quorum_description_free(quorum);
    stele_client_free(client);
    return stele_document_show(&document, cli, status, view_quorum);
}

static const struct stele_cli_option status_options[] = {
    {.name = "--local",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct status, is_local),
     .help = "what the node that answers knows itself, also without a leader"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_quorum_status = {
    .name = "quorum status",
    .arguments = "",
    .summary = "show who leads the metadata quorum, who votes, and how far each is",
    .details =
        "The metadata of the cluster (its topics, settings, leaders) is a log of its own. A majority of its voters "
        "has to have a record on disk before it counts; observers only follow. LAST FETCH is how long ago a node "
        "asked the leader for more, CAUGHT UP how long ago it had all that there was.",
    .options = status_options,
    .line_bytes = sizeof(struct status),
    .run = run_status,
};

/* add, remove, readmit */

struct alter {
    struct stele_cli_words words;
    const char *directory_id;
};

typedef struct stele_result alter_call(struct stele_client *client, int32_t node_id, const char *directory_id);

static int alter(const struct stele_cli *cli, const struct alter *options, alter_call *call, const char *done)
{
    struct stele_document document;
    int64_t node_id = 0;
    int status = STELE_CLI_DONE;
    const char *word = options->words.items[0];
    if (!stele_cli_number(word, 0, NODE_ID_MAX, &node_id))
        return stele_cli_fail(cli, STELE_CLI_USAGE, "%s is no number of a node", word);
    struct stele_client *client = stele_cli_client(cli, &status);
    if (client == NULL)
        return status;
    struct stele_result result = call(client, (int32_t)node_id, options->directory_id);
    status = stele_cli_report_controlled(cli, &result);
    stele_client_free(client);
    if (status != STELE_CLI_DONE)
        return status;
    stele_document_init(&document);
    stele_document_number(&document, document.root, "node", node_id);
    stele_document_flag(&document, document.root, done, true);
    (void)stele_document_print(&document, cli, &status);
    stele_document_deinit(&document);
    return status;
}

static int run_add(const struct stele_cli *cli, void *line)
{
    return alter(cli, line, stele_quorum_add, "added");
}

static int run_remove(const struct stele_cli *cli, void *line)
{
    return alter(cli, line, stele_quorum_remove, "removed");
}

static int run_readmit(const struct stele_cli *cli, void *line)
{
    return alter(cli, line, stele_quorum_readmit, "readmitted");
}

static const struct stele_cli_option alter_options[] = {
    {.name = "--directory-id",
     .value = "ID",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct alter, directory_id),
     .help = "only with this directory, as stele quorum status shows it (the one that the node has now)"},
    {.name = NULL},
};

const struct stele_cli_command stele_cmd_quorum_add = {
    .name = "quorum add",
    .arguments = "NODE",
    .words_min = 1,
    .words_max = 1,
    .summary = "let a node vote that follows the metadata",
    .details = "It has to be running as an observer and to have caught up. One voter at a time is added or removed.",
    .options = alter_options,
    .line_bytes = sizeof(struct alter),
    .run = run_add,
};

const struct stele_cli_command stele_cmd_quorum_remove = {
    .name = "quorum remove",
    .arguments = "NODE",
    .words_min = 1,
    .words_max = 1,
    .summary = "let a voter vote no more; it goes on as an observer",
    .details = "It may be down. The voters that are left have to be a majority that is up.",
    .options = alter_options,
    .line_bytes = sizeof(struct alter),
    .run = run_remove,
};

const struct stele_cli_command stele_cmd_quorum_readmit = {
    .name = "quorum readmit",
    .arguments = "NODE",
    .words_min = 1,
    .words_max = 1,
    .summary = "let a voter vote again that came back without its disk",
    .details =
        "A node that comes back with an empty directory does not vote: its votes of before are gone, and with them "
        "the promise not to vote twice. It follows as an observer; once it has caught up, this makes its new "
        "directory the voter in the place of the old one.",
    .options = alter_options,
    .line_bytes = sizeof(struct alter),
    .run = run_readmit,
};
