/* Commands as rows: everything that is known of one (its name, arguments, options, help, function) stands in its row,
 * and dispatch, --help, completion and the manual page are made from the rows (commands.c lists them). */
#ifndef STELE_CLI_CMD_H
#define STELE_CLI_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STELE_CLI_DONE = 0,
    STELE_CLI_FAILED = 1,
    STELE_CLI_USAGE = 2,
    STELE_CLI_MISSING = 3,    /* what the command names is not there */
    STELE_CLI_EXISTS = 4,     /* what it should make is there already */
    STELE_CLI_UNREACHABLE = 5 /* no node answered in time */
};

enum { STELE_CLI_LIST_MAX = 64 };

/* What the lines of a command may hold; `at` of the option is where it goes. */
enum stele_cli_kind {
    STELE_CLI_FLAG,   /* bool */
    STELE_CLI_NUMBER, /* int64_t from min to max */
    STELE_CLI_TEXT,   /* const char * */
    STELE_CLI_CHOICE, /* const char *: one of those in `value`, which a | parts */
    STELE_CLI_PLACE,  /* struct stele_cli_place */
    STELE_CLI_LIST,   /* struct stele_cli_list: may come again */
};

struct stele_cli_list {
    const char *items[STELE_CLI_LIST_MAX + 1]; /* a NULL ends them */
    size_t count;
};

/** Where to begin or end: an offset, or a time or STELE_OFFSET_ value. */
struct stele_cli_place {
    bool is_there, is_offset;
    int64_t value;
};

struct stele_cli_option {
    const char *name;  /* "-p"; NULL ends a table */
    const char *alias; /* the other spelling, or NULL */
    const char *value; /* what stands for the value in a help, NULL for a flag */
    enum stele_cli_kind kind;
    size_t at;
    int64_t min, max;
    const char *help;
};

struct stele_cli;

/** The arguments that are no options. What a command parses into begins with it. */
struct stele_cli_words {
    char **items;
    int count;
};

struct stele_cli_command {
    const char *name;      /* "topic create" */
    const char *arguments; /* "TOPIC [TIME...]"; "" for none */
    int words_min, words_max;
    const char *summary; /* a line, small letter first, no full stop */
    const char *details; /* paragraphs, an empty line between two; NULL for none */
    const struct stele_cli_option *options;
    size_t line_bytes;   /* of the struct that a line is parsed into; */
    const void *initial; /* what it holds before, NULL for zeros */
    int (*run)(const struct stele_cli *cli, void *line);
};

/** What holds for every command. */
struct stele_cli {
    const struct stele_cli_command *command;
    const char *bootstrap; /* -b, STELE_BOOTSTRAP or 127.0.0.1:7835 */
    const char *output;    /* "table" or "json" */
    bool is_exact;
    bool wants_help;
};

extern const struct stele_cli_command stele_cmd_bench_consume;
extern const struct stele_cli_command stele_cmd_bench_end_to_end;
extern const struct stele_cli_command stele_cmd_bench_produce;
extern const struct stele_cli_command stele_cmd_cluster_level;
extern const struct stele_cli_command stele_cmd_cluster_status;
extern const struct stele_cli_command stele_cmd_config_describe;
extern const struct stele_cli_command stele_cmd_config_history;
extern const struct stele_cli_command stele_cmd_config_set;
extern const struct stele_cli_command stele_cmd_config_unset;
extern const struct stele_cli_command stele_cmd_consume;
extern const struct stele_cli_command stele_cmd_dump;
extern const struct stele_cli_command stele_cmd_log_explain;
extern const struct stele_cli_command stele_cmd_log_stats;
extern const struct stele_cli_command stele_cmd_node_replicas;
extern const struct stele_cli_command stele_cmd_node_slowlog;
extern const struct stele_cli_command stele_cmd_node_status;
extern const struct stele_cli_command stele_cmd_node_unregister;
extern const struct stele_cli_command stele_cmd_partition_elect;
extern const struct stele_cli_command stele_cmd_partition_move;
extern const struct stele_cli_command stele_cmd_partition_reassign;
extern const struct stele_cli_command stele_cmd_produce;
extern const struct stele_cli_command stele_cmd_quorum_add;
extern const struct stele_cli_command stele_cmd_quorum_readmit;
extern const struct stele_cli_command stele_cmd_quorum_remove;
extern const struct stele_cli_command stele_cmd_quorum_status;
extern const struct stele_cli_command stele_cmd_topic_alter;
extern const struct stele_cli_command stele_cmd_topic_create;
extern const struct stele_cli_command stele_cmd_topic_delete;
extern const struct stele_cli_command stele_cmd_topic_describe;
extern const struct stele_cli_command stele_cmd_topic_list;
extern const struct stele_cli_command stele_cmd_topic_offsets;
extern const struct stele_cli_command stele_cmd_topic_trim;

/** Every command, in the order of a help; NULL ends them. */
extern const struct stele_cli_command *const stele_cli_commands[];
/** The options that every command has; `at` is in struct stele_cli. */
extern const struct stele_cli_option stele_cli_common_options[];

struct stele_cli_exit {
    int code;
    const char *meaning;
};
/** What the exit codes mean; a NULL ends them. */
extern const struct stele_cli_exit stele_cli_exits[];

#endif
