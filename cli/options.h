/* What the commands share: a client or an error on stderr, times, names, numbers. */
#ifndef STELE_CLI_OPTIONS_H
#define STELE_CLI_OPTIONS_H

#include "base/types.h"
#include "cli/cmd.h"
#include "client/stele.h"

/** A client, or NULL with the reason on stderr and *out_status set. */
struct stele_client *stele_cli_client(const struct stele_cli *cli, int *out_status);
/** The same for a call that may take long: it waits for a quarter of an hour. */
struct stele_client *stele_cli_client_patient(const struct stele_cli *cli, int *out_status);
/** The exit code for a result's code. */
int stele_cli_exit_of(int code);
/** "stele COMMAND: text" on stderr; returns the exit code. Says nothing when the result is no error. */
int stele_cli_report(const struct stele_cli *cli, const struct stele_result *result);
/** The same for what only the active controller answers: when it did not in time, and some node is there, it says that
 * there is none. */
int stele_cli_report_controlled(const struct stele_cli *cli, const struct stele_result *result);
/** The same with a text of its own, which for STELE_CLI_USAGE points to the help. Returns `status`. */
__attribute__((format(printf, 3, 4))) int stele_cli_fail(const struct stele_cli *cli, int status, const char *format,
                                                         ...);
bool stele_cli_is_json(const struct stele_cli *cli);

/** A whole decimal number within bounds. */
bool stele_cli_number(const char *text, int64_t min, int64_t max, int64_t *out_number);
/** "90s", "1h30m", "500ms": numbers with ms, s, m, h, d or w behind them, added up. */
bool stele_cli_span(const char *text, int64_t *out_ms);
/** beginning, end (STELE_OFFSET_ values), now, "-" and a span before now, "@MS" (milliseconds since 1970), or ISO 8601,
 * "YYYY-MM-DD[THH:MM[:SS[.mmm]]][Z|+HH:MM|-HH:MM]", in UTC unless it says otherwise. */
bool stele_cli_time(const char *text, int64_t now_ms, int64_t *out_ms);
/** A time, or the number of a record. */
bool stele_cli_place(const char *text, int64_t now_ms, struct stele_cli_place *out_place);
/* How a help explains them. */
#define STELE_CLI_TIME_HELP                                                                                            \
    "TIME is beginning, end, now, a span before now (-90s, -1h30m, -7d; units ms s m h d w), @MILLISECONDS since "     \
    "1970, or YYYY-MM-DD[THH:MM[:SS[.mmm]]] in UTC or with Z, +HH:MM or -HH:MM behind it."

/* TOPIC or TOPIC/PARTITION. */
struct stele_cli_partition {
    char topic[256];
    int32_t partition; /* -1: none named */
};
bool stele_cli_partition(const char *text, struct stele_cli_partition *out_partition);

/* Settings out of NAME=VALUE; a row of NULLs ends them. */
struct stele_cli_pairs {
    struct stele_setting settings[STELE_CLI_LIST_MAX + 1];
    size_t count;
    char names[8192];
};
/** Values point into the list. *out_pairs is all zero before. False: *out_bad has no name or no "=". */
bool stele_cli_pairs(const struct stele_cli_list *list, struct stele_cli_pairs *out_pairs, const char **out_bad);

/** One character of text that may be an escape: \n \t \r \0 \\ \xHH. Moves *inout_at behind it; false for an
 * escape that is none of these. */
bool stele_cli_character(const char **inout_at, char *out_character);
/** The decimal digits of a number, without a zero at the end; returns how many (at most 20). */
size_t stele_cli_digits(int64_t number, char out_text[20]);

#endif
