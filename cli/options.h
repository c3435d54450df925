/* What the commands share: a client or an error on stderr, and times. */
#ifndef STELE_CLI_OPTIONS_H
#define STELE_CLI_OPTIONS_H

#include "cli/cmd.h"
#include "client/stele.h"

/** A client, or NULL with the reason on stderr. */
struct stele_client *stele_cli_client(const struct stele_cli *cli, const char *command);
/** "stele COMMAND: text" on stderr; returns STELE_CLI_FAILED, or DONE when the result is no error. */
int stele_cli_report(const char *command, const struct stele_result *result);
/** A whole decimal number within bounds. */
bool stele_cli_number(const char *text, int64_t min, int64_t max, int64_t *out_number);

/** Where to begin or end: "beginning", "end", an offset, or a time: "@MS" (milliseconds since 1970) or ISO 8601,
 * "YYYY-MM-DD[THH:MM[:SS[.mmm]]][Z|+HH:MM|-HH:MM]", in UTC unless it says otherwise. */
struct stele_cli_place {
    bool is_offset;
    int64_t value; /* an offset, or a time or STELE_OFFSET_ value */
};
bool stele_cli_place(const char *text, struct stele_cli_place *out_place);

/** One character of text that may be an escape: \n \t \r \0 \\ \xHH. Moves *inout_at behind it; false for an
 * escape that is none of these. */
bool stele_cli_character(const char **inout_at, char *out_character);
/** The decimal digits of a number, without a zero at the end; returns how many (at most 20). */
size_t stele_cli_digits(int64_t number, char out_text[20]);

#endif
