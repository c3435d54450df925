#include "base/settings.h"

#include "base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 4, PLACES = NAMES_MAX + 1, NAME_BYTES_MAX = 128, VALUE_BYTES_MAX = 4096 };

struct value {
    char *texts[NAMES_MAX]; /* one for each name of the row, in order of precedence; NULL: not set */
    char *origins[NAMES_MAX];
};

struct stele_settings {
    struct stele_mem *mem;
    const struct stele_setting_row *rows;
    int count;
    struct value *values;
    uint32_t slot_count; /* a power of two */
    uint16_t slots[];    /* names by hash, open addressing: 1 + the row's number * PLACES + the place; 0: none */
};

void stele_settings_free(struct stele_settings *settings)
{
    if (settings == NULL)
        return;
    for (int i = 0; i < settings->count; i++) {
        for (int n = 0; n < NAMES_MAX; n++) {
            stele_mem_free(settings->mem, settings->values[i].texts[n]);
            stele_mem_free(settings->mem, settings->values[i].origins[n]);
        }
    }
    stele_mem_free(settings->mem, settings->values);
    stele_mem_free(settings->mem, settings);
}

/* The name at a place of a row's precedence; NULL past the last. */
static const char *row_name(const struct stele_setting_row *row, int at)
{
    return at == 0 ? row->name : row->synonyms[at - 1].name;
}

static int64_t row_factor(const struct stele_setting_row *row, int at)
{
    return at == 0 ? 1 : row->synonyms[at - 1].factor;
}

/* The topic name stands behind them. */
static const char *name_at(const struct stele_setting_row *row, int at)
{
    return at == NAMES_MAX ? row->topic_name : row_name(row, at);
}

/* FNV-1a. */
static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name != 0; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash;
}

/* The slot of a name, or the free one where it belongs. */
static uint32_t slot_of(const struct stele_settings *settings, const char *name)
{
    uint32_t mask = settings->slot_count - 1;
    for (uint32_t i = hash_of(name) & mask;; i = (i + 1) & mask) {
        uint16_t place = settings->slots[i];
        if (place == 0 || strcmp(name_at(&settings->rows[(place - 1) / PLACES], (place - 1) % PLACES), name) == 0)
            return i;
    }
}

/* A row's own names come before topic names. */
static void fill_slots(struct stele_settings *settings)
{
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < settings->count; i++) {
            for (int at = round == 0 ? 0 : NAMES_MAX; at < (round == 0 ? NAMES_MAX : PLACES); at++) {
                const char *name = name_at(&settings->rows[i], at);
                if (name == NULL)
                    break;
                uint32_t slot = slot_of(settings, name);
                if (settings->slots[slot] == 0)
                    settings->slots[slot] = (uint16_t)(i * PLACES + at + 1);
            }
        }
    }
}

static struct stele_settings *settings_alloc(struct stele_mem *mem, const struct stele_setting_row *rows, int count)
{
    uint32_t slots = 16;
    STELE_ASSERT(count < UINT16_MAX / PLACES);
    while (slots < 2 * PLACES * (uint32_t)count)
        slots *= 2;
    struct stele_settings *settings =
        stele_mem_alloc(mem, STELE_MEM_SETTINGS, sizeof(*settings) + slots * sizeof(settings->slots[0]));
    if (settings == NULL)
        return NULL;
    settings->mem = mem;
    settings->rows = rows;
    settings->count = count;
    settings->slot_count = slots;
    settings->values = stele_mem_array(mem, STELE_MEM_SETTINGS, (size_t)count, sizeof(struct value));
    if (settings->values == NULL) {
        stele_mem_free(mem, settings);
        return NULL;
    }
    return settings;
}

struct stele_settings *stele_settings_new(struct stele_mem *mem, const struct stele_setting_row *rows, int count)
{
    struct stele_settings *settings = settings_alloc(mem, rows, count);
    if (settings != NULL)
        fill_slots(settings);
    return settings;
}

static bool find_name(const struct stele_setting_row *rows, int count, const char *name, int *out_row, int *out_at)
{
    for (int i = 0; i < count; i++) {
        for (int at = 0; at < NAMES_MAX && row_name(&rows[i], at) != NULL; at++) {
            if (strcmp(row_name(&rows[i], at), name) == 0) {
                *out_row = i;
                *out_at = at;
                return true;
            }
        }
    }
    return false;
}

static int find_topic_name(const struct stele_setting_row *rows, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        if (rows[i].topic_name != NULL && strcmp(rows[i].topic_name, name) == 0)
            return i;
    }
    return -1;
}

/* Edits from one name to the other (Levenshtein), at most NAME_BYTES_MAX long. */
static int distance(const char *a, const char *b)
{
    int row[NAME_BYTES_MAX + 1];
    int a_bytes = (int)strnlen(a, NAME_BYTES_MAX), b_bytes = (int)strnlen(b, NAME_BYTES_MAX);
    for (int j = 0; j <= b_bytes; j++)
        row[j] = j;
    for (int i = 1; i <= a_bytes; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= b_bytes; j++) {
            int above = row[j];
            int best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[b_bytes];
}

static enum stele_err refuse_unknown(const struct stele_setting_row *rows, int count, const char *name, bool of_topic,
                                     struct stele_error *error)
{
    const char *nearest = "";
    int least = NAME_BYTES_MAX * 2;
    for (int i = 0; i < count; i++) {
        for (int at = 0; at < NAMES_MAX; at++) {
            const char *candidate = of_topic ? rows[i].topic_name : row_name(&rows[i], at);
            if (candidate == NULL)
                break;
            int edits = distance(name, candidate);
            if (edits < least) {
                least = edits;
                nearest = candidate;
            }
            if (of_topic)
                break;
        }
    }
    return stele_error_set(error, STELE_INVALID_CONFIG, "there is no %s setting '%.100s'; the nearest is '%s'",
                           of_topic ? "topic" : "node", name, nearest);
}

/* Decimal digits with an optional sign; false when it is no int64. */
static bool parse_int(const char *text, int64_t *out_value)
{
    int64_t value = 0;
    bool is_negative = text[0] == '-';
    const char *at = text + is_negative;
    if (*at == 0)
        return false;
    for (; *at != 0; at++) {
        if (*at < '0' || *at > '9')
            return false;
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(is_negative ? -(*at - '0') : *at - '0'), &value))
            return false;
    }
    *out_value = value;
    return true;
}

/* A ratio "0.5" as percent; at most two digits after the point. */
static bool parse_ratio(const char *text, int64_t *out_percent)
{
    if ((text[0] != '0' && text[0] != '1') || (text[1] != 0 && text[1] != '.'))
        return false;
    int64_t value = (text[0] - '0') * 100;
    const char *at = text[1] == 0 ? text + 1 : text + 2;
    for (int64_t weight = 10; *at != 0; at++, weight /= 10) {
        if (*at < '0' || *at > '9' || weight == 0)
            return false;
        value += (*at - '0') * weight;
    }
    *out_percent = value;
    return value <= 100;
}

static bool is_choice(const char *choices, const char *word, size_t bytes)
{
    const char *at = choices;
    for (;;) {
        size_t length = strcspn(at, ",");
        if (length == bytes && memcmp(at, word, bytes) == 0)
            return true;
        if (at[length] == 0)
            return false;
        at += length + 1;
    }
}

static bool is_list_of_choices(const char *choices, const char *text)
{
    if (text[0] == 0 || choices == NULL)
        return true;
    for (;;) {
        size_t length = strcspn(text, ",");
        if (!is_choice(choices, text, length))
            return false;
        if (text[length] == 0)
            return true;
        text += length + 1;
    }
}

static const char *unit_text(enum stele_setting_unit unit)
{
    static const char *const texts[] = {"", " ms", " bytes", "", " %"};
    return texts[unit];
}

/* The number of a value in the row's unit; any number for texts. False when the text is none. */
static bool value_number(const struct stele_setting_row *row, const char *text, int64_t factor, int64_t *out_number)
{
    switch (row->type) {
    case STELE_SETTING_INT:
        if (!parse_int(text, out_number))
            return false;
        /* -1 hours is unlimited, as -1 ms is. */
        if (*out_number < 0 || !__builtin_mul_overflow(*out_number, factor, out_number))
            return true;
        *out_number = INT64_MAX;
        return true;
    case STELE_SETTING_RATIO:
        return parse_ratio(text, out_number);
    case STELE_SETTING_BOOL:
        *out_number = strcmp(text, "true") == 0;
        return *out_number == 1 || strcmp(text, "false") == 0;
    case STELE_SETTING_STRING:
    case STELE_SETTING_ENUM:
    case STELE_SETTING_LIST:
        *out_number = 0;
        return true;
    }
    return false;
}

static enum stele_err check_value(const struct stele_setting_row *row, const char *name, int64_t factor,
                                  const char *text, struct stele_error *error)
{
    int64_t number = 0;
    if (strlen(text) >= VALUE_BYTES_MAX)
        return stele_error_set(error, STELE_INVALID_CONFIG, "%s: the value is longer than %d bytes", name,
                               VALUE_BYTES_MAX);
    if (!value_number(row, text, factor, &number)) {
        const char *wanted = row->type == STELE_SETTING_BOOL    ? "true or false"
                             : row->type == STELE_SETTING_RATIO ? "a number between 0 and 1 with at most two decimals"
                                                                : "a whole number";
        return stele_error_set(error, STELE_INVALID_CONFIG, "%s=%.100s: the value must be %s", name, text, wanted);
    }
    if (row->type == STELE_SETTING_INT && (number < row->min || number > row->max))
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "%s=%.100s: the value must lie between %lld and %lld%s (given in %s)", name, text,
                               (long long)(row->min < 0 ? row->min : row->min / factor), (long long)(row->max / factor),
                               factor == 1 ? unit_text(row->unit) : "", name);
    if (row->type == STELE_SETTING_ENUM && !is_choice(row->choices, text, strlen(text)))
        return stele_error_set(error, STELE_INVALID_CONFIG, "%s=%.100s: the value must be one of %s", name, text,
                               row->choices);
    if (row->type == STELE_SETTING_LIST && !is_list_of_choices(row->choices, text))
        return stele_error_set(error, STELE_INVALID_CONFIG, "%s=%.100s: the value must be a list of words of %s", name,
                               text, row->choices);
    return STELE_OK;
}

static enum stele_err store(struct stele_settings *settings, int row, int at, const char *value, const char *origin)
{
    char *text = stele_mem_string(settings->mem, STELE_MEM_SETTINGS, value);
    char *from = stele_mem_string(settings->mem, STELE_MEM_SETTINGS, origin);
    if (text == NULL || from == NULL) {
        stele_mem_free(settings->mem, text);
        stele_mem_free(settings->mem, from);
        return STELE_NO_MEMORY;
    }
    struct value *slot = &settings->values[row];
    stele_mem_free(settings->mem, slot->texts[at]);
    stele_mem_free(settings->mem, slot->origins[at]);
    slot->texts[at] = text;
    slot->origins[at] = from;
    return STELE_OK;
}

enum stele_err stele_settings_set(struct stele_settings *settings, const char *name, const char *value,
                                  const char *origin, struct stele_error *error)
{
    int row = 0, at = 0;
    if (!find_name(settings->rows, settings->count, name, &row, &at))
        return refuse_unknown(settings->rows, settings->count, name, false, error);
    const struct stele_setting_row *found = &settings->rows[row];
    enum stele_err err = check_value(found, name, row_factor(found, at), value, error);
    if (err != STELE_OK)
        return err;
    err = store(settings, row, at, value, origin);
    return err == STELE_OK ? err : stele_error_set(error, err, "%s: out of memory", name);
}

static const char *trim(char *text)
{
    size_t bytes = strlen(text);
    while (bytes > 0 && strchr(" \t\r", text[bytes - 1]) != NULL)
        text[--bytes] = 0;
    return text + strspn(text, " \t");
}

/* One line, zero-terminated, which it may change. */
static enum stele_err parse_line(struct stele_settings *settings, char *line, const char *place,
                                 struct stele_error *error)
{
    char *equals = strchr(line, '=');
    const char *start = line + strspn(line, " \t\r");
    if (*start == 0 || *start == '#' || *start == '!')
        return STELE_OK;
    if (equals == NULL)
        return stele_error_set(error, STELE_INVALID_CONFIG, "%s: a line must be name=value or start with #", place);
    *equals = 0;
    struct stele_error inner = {.text = ""};
    enum stele_err err = stele_settings_set(settings, trim(line), trim(equals + 1), place, &inner);
    return err == STELE_OK ? err : stele_error_set(error, err, "%s: %.400s", place, inner.text);
}

enum stele_err stele_settings_parse(struct stele_settings *settings, const char *text, size_t count,
                                    const char *file_name, struct stele_error *error)
{
    int number = 1;
    for (size_t at = 0; at < count; number++) {
        char line[VALUE_BYTES_MAX + NAME_BYTES_MAX], place[256];
        const char *end = memchr(text + at, '\n', count - at);
        size_t bytes = end == NULL ? count - at : (size_t)(end - (text + at));
        (void)snprintf(place, sizeof(place), "%.200s:%d", file_name, number);
        if (bytes >= sizeof(line) || memchr(text + at, 0, bytes) != NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG, "%s: the line is too long or holds a zero byte", place);
        memcpy(line, text + at, bytes);
        line[bytes] = 0;
        enum stele_err err = parse_line(settings, line, place, error);
        if (err != STELE_OK)
            return err;
        at += bytes + 1;
    }
    return STELE_OK;
}

/* The text in force and the factor of the name that gave it. */
static const char *text_in_force(const struct stele_settings *settings, const char *name,
                                 const struct stele_setting_row **out_row, int64_t *out_factor)
{
    uint16_t place = settings->slots[slot_of(settings, name)];
    STELE_ASSERT(place != 0);
    int row = (place - 1) / PLACES;
    *out_row = &settings->rows[row];
    for (int at = 0; at < NAMES_MAX; at++) {
        if (settings->values[row].texts[at] != NULL) {
            *out_factor = row_factor(*out_row, at);
            return settings->values[row].texts[at];
        }
    }
    *out_factor = 1;
    return (*out_row)->default_text;
}

int64_t stele_settings_int(const struct stele_settings *settings, const char *name)
{
    const struct stele_setting_row *row;
    int64_t factor, number = 0;
    const char *text = text_in_force(settings, name, &row, &factor);
    STELE_ASSERT(text != NULL);
    STELE_ASSERT(row->type == STELE_SETTING_INT || row->type == STELE_SETTING_RATIO);
    bool is_number = value_number(row, text, factor, &number);
    STELE_ASSERT(is_number);
    return number;
}

bool stele_settings_bool(const struct stele_settings *settings, const char *name)
{
    return strcmp(stele_settings_text(settings, name), "true") == 0;
}

const char *stele_settings_text(const struct stele_settings *settings, const char *name)
{
    const struct stele_setting_row *row;
    int64_t factor;
    const char *text = text_in_force(settings, name, &row, &factor);
    return text == NULL ? "" : text;
}

bool stele_settings_is_set(const struct stele_settings *settings, const char *name)
{
    const struct stele_setting_row *row;
    int64_t factor;
    const char *text = text_in_force(settings, name, &row, &factor);
    return text != NULL && text != row->default_text;
}

void stele_settings_unset(struct stele_settings *settings, const char *name)
{
    int row = 0, at = 0;
    bool is_known = find_name(settings->rows, settings->count, name, &row, &at);
    STELE_ASSERT(is_known);
    for (at = 0; at < NAMES_MAX; at++) {
        stele_mem_free(settings->mem, settings->values[row].texts[at]);
        stele_mem_free(settings->mem, settings->values[row].origins[at]);
        settings->values[row].texts[at] = settings->values[row].origins[at] = NULL;
    }
}

enum stele_err stele_settings_topic_number(const struct stele_setting_row *rows, int count, const char *topic_name,
                                           const char *value, int64_t *out_number, struct stele_error *error)
{
    int row = find_topic_name(rows, count, topic_name);
    if (row < 0)
        return refuse_unknown(rows, count, topic_name, true, error);
    enum stele_err err = check_value(&rows[row], topic_name, 1, value, error);
    if (err != STELE_OK)
        return err;
    bool is_number = value_number(&rows[row], value, 1, out_number);
    STELE_ASSERT(is_number); /* it was checked */
    return STELE_OK;
}

enum stele_err stele_settings_check_topic(const struct stele_setting_row *rows, int count, const char *topic_name,
                                          const char *value, struct stele_error *error)
{
    int64_t number = 0;
    return stele_settings_topic_number(rows, count, topic_name, value, &number, error);
}

enum stele_err stele_settings_copy(const struct stele_settings *settings, struct stele_mem *mem,
                                   struct stele_settings **out)
{
    struct stele_settings *copy = settings_alloc(mem, settings->rows, settings->count);
    enum stele_err err = copy == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (copy != NULL)
        memcpy(copy->slots, settings->slots, settings->slot_count * sizeof(settings->slots[0]));
    for (int i = 0; i < settings->count && err == STELE_OK; i++) {
        const struct value *value = &settings->values[i];
        for (int at = 0; at < NAMES_MAX && err == STELE_OK; at++) {
            if (value->texts[at] != NULL)
                err = store(copy, i, at, value->texts[at], value->origins[at]);
        }
    }
    if (err != STELE_OK) {
        stele_settings_free(copy);
        return err;
    }
    *out = copy;
    return STELE_OK;
}

enum stele_err stele_settings_overlay(const struct stele_settings *node, const char *const *names,
                                      const char *const *values, int count, struct stele_settings **out,
                                      struct stele_error *error)
{
    struct stele_settings *copy = NULL;
    enum stele_err err = stele_settings_copy(node, node->mem, &copy);
    if (err != STELE_OK)
        return stele_error_set(error, err, "out of memory");
    for (int i = 0; i < count; i++) {
        err = stele_settings_check_topic(node->rows, node->count, names[i], values[i], error);
        if (err == STELE_OK)
            err = store(copy, find_topic_name(node->rows, node->count, names[i]), 0, values[i], "topic");
        if (err != STELE_OK) {
            stele_settings_free(copy);
            return err;
        }
    }
    *out = copy;
    return STELE_OK;
}

const struct stele_setting_row *stele_settings_find(const struct stele_setting_row *rows, int count, const char *name,
                                                    bool of_topic, struct stele_error *error)
{
    int row = -1, at = 0;
    if (of_topic)
        row = find_topic_name(rows, count, name);
    else if (!find_name(rows, count, name, &row, &at))
        row = -1;
    if (row >= 0)
        return &rows[row];
    (void)refuse_unknown(rows, count, name, of_topic, error);
    return NULL;
}

const char *stele_settings_in_force(const struct stele_settings *settings, const struct stele_setting_row *row,
                                    char number[STELE_SETTING_NUMBER_BYTES], const char **out_origin)
{
    const struct value *value = &settings->values[row - settings->rows];
    for (int at = 0; at < NAMES_MAX; at++) {
        int64_t in_unit = 0;
        if (value->texts[at] == NULL)
            continue;
        *out_origin = value->origins[at];
        if (row_factor(row, at) == 1 || !value_number(row, value->texts[at], row_factor(row, at), &in_unit))
            return value->texts[at];
        (void)snprintf(number, STELE_SETTING_NUMBER_BYTES, "%lld", (long long)in_unit);
        return number;
    }
    *out_origin = NULL;
    return row->default_text;
}
