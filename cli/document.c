#include "cli/document.h"

#include "base/utf8.h"
#include "cli/format.h"

#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 1024, COLUMNS_MAX = 24, GAP = 2 };

void stele_document_init(struct stele_document *document)
{
    document->root = cJSON_CreateObject();
    document->is_short = document->root == NULL;
}

void stele_document_deinit(struct stele_document *document)
{
    cJSON_Delete(document->root);
    document->root = NULL;
}

static cJSON *add(struct stele_document *document, cJSON *to, const char *key, cJSON *item)
{
    bool is_in = to != NULL && item != NULL &&
                 (key == NULL ? cJSON_AddItemToArray(to, item) : cJSON_AddItemToObject(to, key, item));
    if (is_in)
        return item;
    cJSON_Delete(item);
    document->is_short = true;
    return NULL;
}

/* As text, since cJSON's numbers are doubles. */
static cJSON *make_number(int64_t number)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    return cJSON_CreateRaw(text);
}

void stele_document_number(struct stele_document *document, cJSON *to, const char *key, int64_t number)
{
    (void)add(document, to, key, make_number(number));
}

void stele_document_known(struct stele_document *document, cJSON *to, const char *key, int64_t number)
{
    (void)add(document, to, key, number < 0 ? cJSON_CreateNull() : make_number(number));
}

void stele_document_real(struct stele_document *document, cJSON *to, const char *key, double number)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.3f", number);
    (void)add(document, to, key, cJSON_CreateRaw(text));
}

static bool is_utf8(const char *text)
{
    size_t count = strlen(text);
    bool is_valid = true;
    for (size_t at = 0, taken; is_valid; at += taken) {
        taken = stele_utf8_next((const uint8_t *)text + at, count - at, &is_valid);
        if (taken == 0)
            break;
    }
    return is_valid;
}

/* A text of the outside (a path, a client's name) whose bytes are no UTF-8. */
static cJSON *make_replaced(const char *text)
{
    size_t count = strlen(text), end = 0;
    char *replaced = malloc(count * 3 + 1);
    bool is_valid = false;
    if (replaced == NULL)
        return NULL;
    for (size_t at = 0, taken; (taken = stele_utf8_next((const uint8_t *)text + at, count - at, &is_valid)) > 0;
         at += taken) {
        size_t bytes = is_valid ? taken : 3;
        memcpy(replaced + end, is_valid ? text + at : STELE_UTF8_REPLACEMENT, bytes);
        end += bytes;
    }
    replaced[end] = 0;
    cJSON *item = cJSON_CreateString(replaced);
    free(replaced);
    return item;
}

void stele_document_text(struct stele_document *document, cJSON *to, const char *key, const char *text)
{
    (void)add(document, to, key,
              text == NULL    ? cJSON_CreateNull()
              : is_utf8(text) ? cJSON_CreateString(text)
                              : make_replaced(text));
}

void stele_document_flag(struct stele_document *document, cJSON *to, const char *key, bool is_set)
{
    (void)add(document, to, key, cJSON_CreateBool(is_set));
}

void stele_document_numbers(struct stele_document *document, cJSON *to, const char *key, const int32_t *numbers,
                            size_t count)
{
    cJSON *list = stele_document_list(document, to, key);
    for (size_t i = 0; i < count; i++)
        (void)add(document, list, NULL, make_number(numbers[i]));
}

cJSON *stele_document_object(struct stele_document *document, cJSON *to, const char *key)
{
    return add(document, to, key, cJSON_CreateObject());
}

cJSON *stele_document_list(struct stele_document *document, cJSON *to, const char *key)
{
    return add(document, to, key, cJSON_CreateArray());
}

cJSON *stele_document_row(struct stele_document *document, cJSON *list)
{
    return add(document, list, NULL, cJSON_CreateObject());
}

int64_t stele_document_get(const cJSON *object, const char *key, int64_t otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsRaw(item) ? strtoll(item->valuestring, NULL, 10) : otherwise;
}

bool stele_document_print(struct stele_document *document, const struct stele_cli *cli, int *inout_status)
{
    bool is_json = strcmp(cli->output, "json") == 0;
    char *text = document->is_short || !is_json ? NULL : cJSON_Print(document->root);
    bool is_bad = document->is_short || (is_json && text == NULL);
    if (is_bad) {
        fprintf(stderr, "stele %s: out of memory\n", cli->command->name);
        *inout_status = STELE_CLI_FAILED;
    } else if (is_json)
        puts(text);
    cJSON_free(text);
    return is_json || is_bad;
}

int stele_document_show(struct stele_document *document, const struct stele_cli *cli, int status,
                        void (*view)(const struct stele_cli *cli, const cJSON *root))
{
    if (status == STELE_CLI_DONE && !stele_document_print(document, cli, &status))
        view(cli, document->root);
    stele_document_deinit(document);
    return status;
}

/* Cells */

static size_t put_number(const cJSON *item, enum stele_view view, bool is_exact, char *out_text, size_t capacity)
{
    char text[STELE_FORMAT_BYTES];
    int64_t number = strtoll(item->valuestring, NULL, 10);
    if (is_exact || view == STELE_VIEW_COUNT || view == STELE_VIEW_TEXT)
        return (size_t)snprintf(out_text, capacity, "%s", item->valuestring);
    if (view == STELE_VIEW_SIZE)
        stele_format_size(number, text);
    else if (view == STELE_VIEW_TIME)
        stele_format_time(number, text);
    else
        stele_format_span(view == STELE_VIEW_SPAN_MS && number < INT64_MAX / 1000 ? number * 1000 : number, text);
    return (size_t)snprintf(out_text, capacity, "%s", text);
}

static size_t put_value(const cJSON *item, enum stele_view view, bool is_exact, char *out_text, size_t capacity)
{
    if (cJSON_IsRaw(item))
        return put_number(item, view, is_exact, out_text, capacity);
    if (cJSON_IsBool(item))
        return (size_t)snprintf(out_text, capacity, "%s", cJSON_IsTrue(item) ? "yes" : "no");
    return (size_t)snprintf(out_text, capacity, "%s", cJSON_IsString(item) ? item->valuestring : "");
}

/* Among others what is not known has a place. */
static size_t put_element(const cJSON *item, enum stele_view view, bool is_exact, char *out_text, size_t capacity)
{
    if (cJSON_IsNull(item))
        return (size_t)snprintf(out_text, capacity, "?");
    return put_value(item, view, is_exact, out_text, capacity);
}

bool stele_view_cell(const cJSON *object, const struct stele_view_column *column, bool is_exact, char *out_text,
                     size_t capacity)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, column->key), *element;
    size_t bytes = 0;
    out_text[0] = 0;
    if (!cJSON_IsArray(item))
        bytes = put_value(item, column->view, is_exact, out_text, capacity);
    else {
        cJSON_ArrayForEach(element, item)
        {
            if (bytes > 0 && bytes + 1 < capacity)
                out_text[bytes++] = ',';
            if (bytes < capacity)
                bytes += put_element(element, column->view, is_exact, out_text + bytes, capacity - bytes);
        }
    }
    if (bytes >= capacity && capacity > 3)
        memcpy(out_text + capacity - 4, "...", 3);
    for (char *at = out_text; *at != 0; at++) { /* a peer's name may not write to the terminal */
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    }
    return bytes < capacity;
}

/* Characters, not bytes; a wide one counts as one. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != 0; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static bool is_right(enum stele_view view)
{
    return view != STELE_VIEW_TEXT && view != STELE_VIEW_TIME;
}

static void put_padding(FILE *out, size_t count)
{
    for (; count > 0; count--)
        (void)fputc(' ', out);
}

static void put_cell(FILE *out, const char *text, size_t width, bool is_to_the_right, bool is_last)
{
    size_t padding = width - width_of(text);
    if (is_to_the_right)
        put_padding(out, padding);
    (void)fputs(text, out);
    if (is_last)
        (void)fputc('\n', out);
    else
        put_padding(out, GAP + (is_to_the_right ? 0 : padding));
}

/* Columns of no width are left out; no blanks stand at the end. */
static void put_row(FILE *out, const cJSON *row, const struct stele_view_column *columns, const size_t *widths,
                    bool is_exact)
{
    char text[CELL_BYTES];
    int last = -1;
    for (int i = 0; columns[i].key != NULL && i < COLUMNS_MAX; i++) {
        (void)stele_view_cell(row, &columns[i], is_exact, text, sizeof(text));
        last = text[0] != 0 ? i : last;
    }
    for (int i = 0; i <= last; i++) {
        (void)stele_view_cell(row, &columns[i], is_exact, text, sizeof(text));
        if (widths[i] > 0)
            put_cell(out, text, widths[i], is_right(columns[i].view), i == last);
    }
    if (last < 0)
        (void)fputc('\n', out);
}

void stele_view_table(FILE *out, const cJSON *list, const struct stele_view_column *columns, bool is_exact)
{
    size_t widths[COLUMNS_MAX] = {0};
    int count = 0, last = -1;
    const cJSON *row;
    char text[CELL_BYTES];
    for (; columns[count].key != NULL && count < COLUMNS_MAX; count++) {
        cJSON_ArrayForEach(row, list)
        {
            (void)stele_view_cell(row, &columns[count], is_exact, text, sizeof(text));
            size_t width = width_of(text);
            widths[count] = width > widths[count] ? width : widths[count];
        }
        if (widths[count] == 0)
            continue;
        last = count;
        size_t heading = width_of(columns[count].heading);
        widths[count] = heading > widths[count] ? heading : widths[count];
    }
    for (int i = 0; i <= last; i++) {
        if (widths[i] > 0)
            put_cell(out, columns[i].heading, widths[i], is_right(columns[i].view), i == last);
    }
    cJSON_ArrayForEach(row, list) put_row(out, row, columns, widths, is_exact);
}

void stele_view_fields(FILE *out, const cJSON *object, const struct stele_view_column *columns, bool is_exact)
{
    size_t width = 0;
    char text[CELL_BYTES];
    for (const struct stele_view_column *column = columns; column->key != NULL; column++) {
        size_t heading = width_of(column->heading);
        (void)stele_view_cell(object, column, is_exact, text, sizeof(text));
        width = text[0] != 0 && heading > width ? heading : width;
    }
    for (const struct stele_view_column *column = columns; column->key != NULL; column++) {
        (void)stele_view_cell(object, column, is_exact, text, sizeof(text));
        if (text[0] == 0)
            continue;
        put_cell(out, column->heading, width, false, false);
        put_cell(out, text, width_of(text), false, true);
    }
}
