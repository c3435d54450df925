/* What a command has to say, as a tree: printed as JSON, or shown as tables, from the same values. */
#ifndef STELE_CLI_DOCUMENT_H
#define STELE_CLI_DOCUMENT_H

#include "cli/cmd.h"

#include <cjson/cJSON.h>
#include <stdio.h>

struct stele_document {
    cJSON *root;   /* an object */
    bool is_short; /* memory ran out: something is missing */
};

void stele_document_init(struct stele_document *document);
void stele_document_deinit(struct stele_document *document);
/* What goes into an object; `to` may be NULL when memory ran out. */
void stele_document_number(struct stele_document *document, cJSON *to, const char *key, int64_t number);
/** null when it is negative: not known. */
void stele_document_known(struct stele_document *document, cJSON *to, const char *key, int64_t number);
void stele_document_real(struct stele_document *document, cJSON *to, const char *key, double number);
/** NULL becomes null. What is no UTF-8 gets the replacement character. */
void stele_document_text(struct stele_document *document, cJSON *to, const char *key, const char *text);
void stele_document_flag(struct stele_document *document, cJSON *to, const char *key, bool is_set);
void stele_document_numbers(struct stele_document *document, cJSON *to, const char *key, const int32_t *numbers,
                            size_t count);
cJSON *stele_document_object(struct stele_document *document, cJSON *to, const char *key);
cJSON *stele_document_list(struct stele_document *document, cJSON *to, const char *key);
/** An object at the end of a list. */
cJSON *stele_document_row(struct stele_document *document, cJSON *list);
/** A whole number that was put there; `otherwise` when there is none. */
int64_t stele_document_get(const cJSON *object, const char *key, int64_t otherwise);

/** Prints the tree when JSON is asked for. True: that was all there is to do; *inout_status becomes FAILED when it
 * could not be printed. */
bool stele_document_print(struct stele_document *document, const struct stele_cli *cli, int *inout_status);
/** The end of a command that shows one document: when it was `status` DONE it is printed, or viewed by `view` when a
 * person reads it. The document is gone after it. The status of the command. */
int stele_document_show(struct stele_document *document, const struct stele_cli *cli, int status,
                        void (*view)(const struct stele_cli *cli, const cJSON *root));

/* How a value is shown. */
enum stele_view {
    STELE_VIEW_TEXT,
    STELE_VIEW_COUNT,
    STELE_VIEW_SIZE,    /* bytes */
    STELE_VIEW_TIME,    /* milliseconds since 1970 */
    STELE_VIEW_SPAN_MS, /* milliseconds */
    STELE_VIEW_SPAN_US, /* microseconds */
};

struct stele_view_column {
    const char *key, *heading;
    enum stele_view view;
};

/** The list as a table with headings; a column that is empty in every row is left out. Columns end with a NULL key.
 * Nothing for an empty list. */
void stele_view_table(FILE *out, const cJSON *list, const struct stele_view_column *columns, bool is_exact);
/** The object's values below each other; those that are empty are left out. */
void stele_view_fields(FILE *out, const cJSON *object, const struct stele_view_column *columns, bool is_exact);
/** The value as a table shows it; "" for none. Control characters become '?'. Returns false when it was cut. */
bool stele_view_cell(const cJSON *object, const struct stele_view_column *column, bool is_exact, char *out_text,
                     size_t capacity);

#endif
