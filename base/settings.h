/* Settings as a table: each row has a name, type, default, bounds, unit, scope, whether it may change at run time,
 * synonyms and a sentence. The table gives parsing, checking, "did you mean", the reference page (docs/settings.md) and
 * the example file. The rows are node/settings.def.
 *
 * Value text as Kafka's: integers in decimal; booleans "true" or "false"; enumerations by word; lists by comma.
 * Precedence of synonyms: the first in the list that was set wins, so log.retention.ms beats .minutes beats .hours. A
 * topic's own value beats the node's. */
#ifndef STELE_BASE_SETTINGS_H
#define STELE_BASE_SETTINGS_H

#include "base/err.h"
#include "base/mem.h"

enum stele_setting_type {
    STELE_SETTING_INT,
    STELE_SETTING_BOOL,
    STELE_SETTING_STRING,
    STELE_SETTING_ENUM,
    STELE_SETTING_LIST,
    STELE_SETTING_RATIO
};
enum stele_setting_scope { STELE_SCOPE_NODE, STELE_SCOPE_CLUSTER, STELE_SCOPE_TOPIC };
enum stele_setting_unit { STELE_UNIT_NONE, STELE_UNIT_MS, STELE_UNIT_BYTES, STELE_UNIT_COUNT, STELE_UNIT_PERCENT };

/** Another name of a row; its value times `factor` is the row's (hours: 3600000). */
struct stele_setting_synonym {
    const char *name;
    int64_t factor;
};

struct stele_setting_row {
    const char *name; /* the one that wins, for instance "log.retention.ms" */
    enum stele_setting_type type;
    const char *default_text; /* NULL: see doc */
    int64_t min, max;         /* of integers */
    const char *choices;      /* of enumerations and lists: "a,b,c" */
    enum stele_setting_unit unit;
    enum stele_setting_scope scope;
    bool is_dynamic;
    const char *topic_name; /* the topic setting of which this is the node's default, or NULL */
    struct stele_setting_synonym synonyms[3];
    const char *doc;
};

/** A set of values over a table; unset ones have their default. */
struct stele_settings;

STELE_MUST_CHECK struct stele_settings *stele_settings_new(struct stele_mem *mem, const struct stele_setting_row *rows,
                                                           int count);
void stele_settings_free(struct stele_settings *settings);
/** Checks and stores; the old value stays on failure. `origin` is named by describe ("default", a file and line,
 * "--set"). Errors: INVALID_CONFIG; `error` names the nearest name, or the bounds. */
STELE_MUST_CHECK enum stele_err stele_settings_set(struct stele_settings *settings, const char *name, const char *value,
                                                   const char *origin, struct stele_error *error);
/** key=value lines, '#' comments, blank lines, as java properties without escapes. Errors: INVALID_CONFIG with the
 * line. */
STELE_MUST_CHECK enum stele_err stele_settings_parse(struct stele_settings *settings, const char *text, size_t count,
                                                     const char *file_name, struct stele_error *error);
/** By the row's name or its topic name. The name must exist (assertion). */
int64_t stele_settings_int(const struct stele_settings *settings, const char *name);
bool stele_settings_bool(const struct stele_settings *settings, const char *name);
const char *stele_settings_text(const struct stele_settings *settings,
                                const char *name); /* borrowed until set; "" when unset without default */
bool stele_settings_is_set(const struct stele_settings *settings, const char *name);
/** Back to the default, whichever of its names it was set by. The name must exist (assertion). */
void stele_settings_unset(struct stele_settings *settings, const char *name);
/** A topic value over the node's settings: checks name and bounds of a topic setting. Errors: INVALID_CONFIG. */
STELE_MUST_CHECK enum stele_err stele_settings_check_topic(const struct stele_setting_row *rows, int count,
                                                           const char *topic_name, const char *value,
                                                           struct stele_error *error);
/** The same, and what a whole number, a ratio (as percent) or a truth (0 or 1) is; of a text 0. */
STELE_MUST_CHECK enum stele_err stele_settings_topic_number(const struct stele_setting_row *rows, int count,
                                                            const char *topic_name, const char *value,
                                                            int64_t *out_number, struct stele_error *error);
/** A copy in which topic settings `pairs` replaced the node's. */
STELE_MUST_CHECK enum stele_err stele_settings_overlay(const struct stele_settings *node, const char *const *names,
                                                       const char *const *values, int count,
                                                       struct stele_settings **out, struct stele_error *error);
STELE_MUST_CHECK enum stele_err stele_settings_copy(const struct stele_settings *settings, struct stele_mem *mem,
                                                    struct stele_settings **out);
/** The row of a name: a topic's, or a node's with its synonyms. NULL when there is none; `error` names the nearest. */
const struct stele_setting_row *stele_settings_find(const struct stele_setting_row *rows, int count, const char *name,
                                                    bool of_topic, struct stele_error *error);
enum { STELE_SETTING_NUMBER_BYTES = 24 };
/** What holds of a row, in the row's own unit: NULL, borrowed, or written into `number`. *out_origin: as given to set,
 * NULL for the default. */
const char *stele_settings_in_force(const struct stele_settings *settings, const struct stele_setting_row *row,
                                    char number[STELE_SETTING_NUMBER_BYTES], const char **out_origin);
/** Text of docs/settings.md or of the example file; caller frees. */
STELE_MUST_CHECK char *stele_settings_reference(struct stele_mem *mem, const struct stele_setting_row *rows, int count);
STELE_MUST_CHECK char *stele_settings_example(struct stele_mem *mem, const struct stele_setting_row *rows, int count);

#endif
