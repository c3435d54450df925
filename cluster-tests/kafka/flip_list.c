#include "cluster-tests/kafka/flips.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const result_words[] = {"found", "leftover", "silent"};

static void *resize(void *block, size_t count, size_t bytes)
{
    void *grown = realloc(block, count * bytes);
    if (grown == NULL)
        abort();
    return grown;
}

static struct flip_line *line_of(struct flip_list *list, const struct flip_key *key)
{
    for (int i = list->line_count - 1; i >= 0; i--) {
        struct flip_line *line = &list->lines[i];
        if (line->result == key->result && strcmp(line->path, key->path) == 0 && strcmp(line->field, key->field) == 0)
            return line;
    }
    list->lines = resize(list->lines, (size_t)list->line_count + 1, sizeof(*list->lines));
    struct flip_line *line = &list->lines[list->line_count++];
    *line = (struct flip_line){.result = key->result};
    (void)snprintf(line->path, sizeof(line->path), "%s", key->path);
    (void)snprintf(line->field, sizeof(line->field), "%s", key->field);
    return line;
}

static void set_bits(struct flip_line *line, size_t pos, unsigned bits)
{
    if (pos >= line->count) {
        line->bits = resize(line->bits, pos + 1, sizeof(*line->bits));
        memset(line->bits + line->count, 0, (pos + 1 - line->count) * sizeof(*line->bits));
        line->count = pos + 1;
    }
    line->bits[pos] = (uint16_t)(line->bits[pos] | bits);
}

void flip_list_add(struct flip_list *list, const struct flip_key *key, int64_t pos, int mask)
{
    set_bits(line_of(list, key), (size_t)pos, 1u << mask);
}

enum flip_result flip_list_find(const struct flip_list *list, const char *path, int64_t pos, int mask)
{
    for (int i = 0; i < list->line_count; i++) {
        const struct flip_line *line = &list->lines[i];
        if ((size_t)pos < line->count && (line->bits[pos] >> mask & 1) != 0 && strcmp(line->path, path) == 0)
            return line->result;
    }
    return FLIP_FOUND;
}

static bool result_parse(const char *word, enum flip_result *out)
{
    for (int i = FLIP_LEFTOVER; i <= FLIP_SILENT; i++) {
        if (strcmp(word, result_words[i]) == 0) {
            *out = (enum flip_result)i;
            return true;
        }
    }
    return false;
}

/* "reason KIND FIELD RESULT: text" */
static bool read_reason(struct flip_list *list, const char *text)
{
    struct flip_reason reason;
    char word[16];
    const char *colon = strchr(text, ':');
    if (sscanf(text, "reason %47s %31s %15[a-z]:", reason.kind, reason.field, word) != 3 || colon == NULL ||
        !result_parse(word, &reason.result))
        return false;
    reason.text = strdup(colon + 2);
    list->reasons = resize(list->reasons, (size_t)list->reason_count + 1, sizeof(reason));
    list->reasons[list->reason_count++] = reason;
    return true;
}

/* "RESULT PATH FIELD POS[-LAST]:BITS ..." */
static bool read_line(struct flip_list *list, char *text)
{
    char *word = strtok_r(text, " ", &text), *path = strtok_r(NULL, " ", &text), *field = strtok_r(NULL, " ", &text);
    struct flip_key key = {.path = path, .field = field};
    if (field == NULL || !result_parse(word, &key.result))
        return false;
    struct flip_line *line = line_of(list, &key);
    while ((word = strtok_r(NULL, " ", &text)) != NULL) {
        unsigned long first, last;
        unsigned bits;
        if (sscanf(word, "%lu-%lu:%x", &first, &last, &bits) != 3) {
            if (sscanf(word, "%lu:%x", &first, &bits) != 2)
                return false;
            last = first;
        }
        for (unsigned long pos = first; pos <= last; pos++)
            set_bits(line, pos, bits);
    }
    return true;
}

bool flip_list_read(struct flip_list *list, const char *path)
{
    char *text = NULL;
    size_t capacity = 0, head = 0;
    ssize_t bytes;
    bool is_good = true;
    FILE *file = fopen(path, "r");
    memset(list, 0, sizeof(*list));
    if (file == NULL) {
        perror(path);
        return false;
    }
    while ((bytes = getline(&text, &capacity, file)) > 0 && is_good) {
        if (text[0] == '#' || text[0] == '\n') {
            if (list->reason_count == 0) {
                list->head = resize(list->head, head + (size_t)bytes + 1, 1);
                memcpy(list->head + head, text, (size_t)bytes + 1);
                head += (size_t)bytes;
            }
            continue;
        }
        text[bytes - 1] = 0;
        is_good = strncmp(text, "reason ", 7) == 0 ? read_reason(list, text) : read_line(list, text);
        if (!is_good)
            fprintf(stderr, "%s: what is: %.80s\n", path, text);
    }
    free(text);
    (void)fclose(file);
    return is_good;
}

static void write_line(FILE *file, const struct flip_line *line)
{
    fprintf(file, "%s %s %s", result_words[line->result], line->path, line->field);
    for (size_t pos = 0; pos < line->count; pos++) {
        size_t last = pos;
        if (line->bits[pos] == 0)
            continue;
        while (last + 1 < line->count && line->bits[last + 1] == line->bits[pos])
            last++;
        if (last > pos)
            fprintf(file, " %zu-%zu:%x", pos, last, line->bits[pos]);
        else
            fprintf(file, " %zu:%x", pos, line->bits[pos]);
        pos = last;
    }
    fputc('\n', file);
}

bool flip_list_write(const struct flip_list *seen, const struct flip_list *old, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        return false;
    }
    fputs(old->head == NULL ? "" : old->head, file);
    for (int i = 0; i < old->reason_count; i++)
        fprintf(file, "reason %s %s %s: %s\n", old->reasons[i].kind, old->reasons[i].field,
                result_words[old->reasons[i].result], old->reasons[i].text);
    fputc('\n', file);
    for (int i = 0; i < seen->line_count; i++)
        write_line(file, &seen->lines[i]);
    return fclose(file) == 0;
}

/* Is the line about this reason's kind of file? */
static bool is_of(const struct flip_line *line, const struct flip_reason *reason)
{
    size_t bytes = strlen(line->path), length = strlen(reason->kind);
    return line->result == reason->result && strcmp(line->field, reason->field) == 0 && bytes >= length &&
           strcmp(line->path + bytes - length, reason->kind) == 0;
}

bool flip_list_has_reasons(const struct flip_list *list, const struct flip_list *reasons)
{
    bool is_good = true;
    for (int i = 0; i < list->line_count; i++) {
        int count = 0;
        for (int k = 0; k < reasons->reason_count; k++)
            count += is_of(&list->lines[i], &reasons->reasons[k]);
        if (count != 1)
            fprintf(stderr, "%d reasons for: %s %s %s\n", count, result_words[list->lines[i].result],
                    list->lines[i].path, list->lines[i].field);
        is_good = is_good && count == 1;
    }
    for (int k = 0; k < reasons->reason_count; k++) {
        int count = 0;
        for (int i = 0; i < list->line_count; i++)
            count += is_of(&list->lines[i], &reasons->reasons[k]);
        if (count == 0)
            fprintf(stderr, "a reason for nothing: %s %s %s\n", reasons->reasons[k].kind, reasons->reasons[k].field,
                    result_words[reasons->reasons[k].result]);
        is_good = is_good && count > 0;
    }
    return is_good;
}

void flip_list_free(struct flip_list *list)
{
    for (int i = 0; i < list->line_count; i++)
        free(list->lines[i].bits);
    for (int i = 0; i < list->reason_count; i++)
        free(list->reasons[i].text);
    free(list->lines);
    free(list->reasons);
    free(list->head);
}
