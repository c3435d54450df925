/* The pages that are made from a settings table: the reference for people and the example file. */
#include "base/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct page {
    struct stele_mem *mem;
    char *text;
    size_t count, capacity;
    bool has_failed;
};

static void add(struct page *page, const char *format, ...) STELE_PRINTF(2, 3);

static void add(struct page *page, const char *format, ...)
{
    char piece[2048];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(piece, sizeof(piece), format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof(piece) || page->has_failed) {
        page->has_failed = true;
        return;
    }
    if (page->count + (size_t)length + 1 > page->capacity) {
        size_t capacity = (page->capacity + (size_t)length + 1) * 2;
        char *text = stele_mem_resize(page->mem, STELE_MEM_SETTINGS, page->text, capacity);
        if (text == NULL) {
            page->has_failed = true;
            return;
        }
        page->text = text;
        page->capacity = capacity;
    }
    memcpy(page->text + page->count, piece, (size_t)length + 1);
    page->count += (size_t)length;
}

static char *finish(struct page *page)
{
    if (page->has_failed) {
        stele_mem_free(page->mem, page->text);
        return NULL;
    }
    return page->text;
}

static void add_bounds(struct page *page, const struct stele_setting_row *row)
{
    static const char *const units[] = {"", " ms", " bytes", "", " %"};
    switch (row->type) {
    case STELE_SETTING_INT:
        if (row->max == INT64_MAX)
            add(page, "at least %lld%s", (long long)row->min, units[row->unit]);
        else
            add(page, "%lld to %lld%s", (long long)row->min, (long long)row->max, units[row->unit]);
        break;
    case STELE_SETTING_BOOL:
        add(page, "true, false");
        break;
    case STELE_SETTING_RATIO:
        add(page, "0 to 1");
        break;
    case STELE_SETTING_STRING:
        add(page, "text");
        break;
    case STELE_SETTING_ENUM:
        add(page, "one of %s", row->choices);
        break;
    case STELE_SETTING_LIST:
        add(page, "list%s%s", row->choices == NULL ? "" : " of ", row->choices == NULL ? "" : row->choices);
        break;
    }
}

static const char *default_of(const struct stele_setting_row *row)
{
    return row->default_text == NULL ? "(none)" : row->default_text[0] == 0 ? "(empty)" : row->default_text;
}

char *stele_settings_reference(struct stele_mem *mem, const struct stele_setting_row *rows, int count)
{
    static const char *const scopes[] = {"node", "cluster", "topic"};
    struct page page = {.mem = mem};
    add(&page,
        "# Settings\n\nMade from `node/settings.def` by `steled --settings-reference`; do not edit.\n\n"
        "A topic's own value beats the node's. Of several names of one setting, the first listed that is set wins.\n\n"
        "| node setting | topic setting | default | values | scope | changes | what it does |\n"
        "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < count; i++) {
        const struct stele_setting_row *row = &rows[i];
        add(&page, "| `%s`", row->name);
        for (int at = 0; at < 3 && row->synonyms[at].name != NULL; at++)
            add(&page, ", `%s`", row->synonyms[at].name);
        add(&page, " | %s%s%s | %s | ", row->topic_name == NULL ? "" : "`",
            row->topic_name == NULL ? "" : row->topic_name, row->topic_name == NULL ? "" : "`", default_of(row));
        add_bounds(&page, row);
        add(&page, " | %s | %s | %s |\n", scopes[row->scope], row->is_dynamic ? "at run time" : "at start", row->doc);
    }
    return finish(&page);
}

char *stele_settings_example(struct stele_mem *mem, const struct stele_setting_row *rows, int count)
{
    struct page page = {.mem = mem};
    add(&page, "# Example configuration of steled: every setting with its default, commented out.\n"
               "# Made from node/settings.def by steled --settings-example; use it with steled --config FILE.\n");
    for (int i = 0; i < count; i++) {
        add(&page, "\n# %s\n# ", rows[i].doc);
        add_bounds(&page, &rows[i]);
        add(&page, "\n#%s=%s\n", rows[i].name, rows[i].default_text == NULL ? "" : rows[i].default_text);
    }
    return finish(&page);
}
