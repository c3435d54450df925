/* Command lines: which command it is, and its options and words. */
#ifndef STELE_CLI_LINE_H
#define STELE_CLI_LINE_H

#include "cli/cmd.h"

/** The command whose name the line begins with, and how many words that took. NULL: none; *out_words is 1 when the
 * first word begins the names of some. */
const struct stele_cli_command *stele_cli_find(int count, char **words, int *out_words);
/** Whether the name begins with this word and a blank: "topic create" is of the family "topic". */
bool stele_cli_is_of(const struct stele_cli_command *command, const char *family, size_t family_bytes);
/** The option of that name, of the command (may be NULL) or common; NULL: none. */
const struct stele_cli_option *stele_cli_option_find(const struct stele_cli_command *command, const char *name,
                                                     size_t name_bytes);
/** Whether it looks like an option: "-1h" and "-" do not. */
bool stele_cli_is_option(const char *word);
/** The common options at the beginning of the line; returns how many arguments they are, -1 when one is wrong, with the
 * reason on stderr. */
int stele_cli_parse_common(struct stele_cli *cli, int argc, char **argv);
/** Parses what stands behind the command's name into `line`, whose words point into argv, which is rearranged. Times
 * are relative to now_ms. False with the reason on stderr. */
bool stele_cli_parse(struct stele_cli *cli, int argc, char **argv, int64_t now_ms, void *line);

/** How many letters two words differ by: changed, missing, more, or two neighbours exchanged. At most 64 letters count.
 */
size_t stele_cli_distance(const char *left, const char *right);
/** The name of the command, or "" when none is near. */
const char *stele_cli_nearest_command(const char *name);
/** The name of the option, with what the command and all have; "" when none is near. */
const char *stele_cli_nearest_option(const struct stele_cli_command *command, const char *name);

#endif
