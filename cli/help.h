/* What is made from the rows of the commands: helps, the manual page, completion. */
#ifndef STELE_CLI_HELP_H
#define STELE_CLI_HELP_H

#include "cli/cmd.h"

#include <stdio.h>

/** "usage: stele topic create NAME [-p PARTITIONS]...", wrapped. */
void stele_help_usage(FILE *out, const struct stele_cli_command *command);
void stele_help_command(FILE *out, const struct stele_cli_command *command);
/** The commands whose names begin with this word. */
void stele_help_family(FILE *out, const char *family);
void stele_help_all(FILE *out);
/** stele.1 */
void stele_help_manual(FILE *out);

/* What the last of the words may become. Names of things of the cluster are not known here: `topic`, `setting` and
 * `node` say that these are wanted. */
struct stele_completion {
    bool wants_topic, wants_partition, wants_setting, wants_file, wants_node;
};
/** Prints a candidate a line: the word, a tab, what it is. `words` are those behind "stele", the last one begun. */
void stele_help_complete(FILE *out, int count, char **words, struct stele_completion *out_completion);

#endif
