/* The table of commands. */
#include "cli/cmd.h"

const struct stele_cli_command *const stele_cli_commands[] = {
    &stele_cmd_produce,          &stele_cmd_consume,
    &stele_cmd_topic_create,     &stele_cmd_topic_list,
    &stele_cmd_topic_describe,   &stele_cmd_topic_alter,
    &stele_cmd_topic_delete,     &stele_cmd_topic_offsets,
    &stele_cmd_topic_trim,       &stele_cmd_config_describe,
    &stele_cmd_config_set,       &stele_cmd_config_unset,
    &stele_cmd_config_history,   &stele_cmd_log_explain,
    &stele_cmd_log_stats,        &stele_cmd_node_status,
    &stele_cmd_node_slowlog,     &stele_cmd_dump,
    &stele_cmd_bench_produce,    &stele_cmd_bench_consume,
    &stele_cmd_bench_end_to_end, NULL,
};

const struct stele_cli_option stele_cli_common_options[] = {
    {.name = "-b",
     .alias = "--bootstrap",
     .value = "HOST:PORT[,HOST:PORT...]",
     .kind = STELE_CLI_TEXT,
     .at = offsetof(struct stele_cli, bootstrap),
     .help = "the nodes to begin with (STELE_BOOTSTRAP, else 127.0.0.1:7835)"},
    {.name = "-o",
     .alias = "--output",
     .value = "table|json",
     .kind = STELE_CLI_CHOICE,
     .at = offsetof(struct stele_cli, output),
     .help = "how to print: for people, or JSON with every number exact (table)"},
    {.name = "--exact",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct stele_cli, is_exact),
     .help = "bytes and milliseconds as whole numbers in tables too"},
    {.name = "--help",
     .alias = "-h",
     .kind = STELE_CLI_FLAG,
     .at = offsetof(struct stele_cli, wants_help),
     .help = "print the help of the command"},
    {.name = NULL},
};

const struct stele_cli_exit stele_cli_exits[] = {
    {STELE_CLI_DONE, "done"},
    {STELE_CLI_FAILED, "failed"},
    {STELE_CLI_USAGE, "wrong usage"},
    {STELE_CLI_MISSING, "what the command names (a topic, a partition, a file to dump) is not there"},
    {STELE_CLI_EXISTS, "what it should make is there already"},
    {STELE_CLI_UNREACHABLE, "no node answered in time"},
    {0, NULL},
};
