#include "storage/text_scan.h"

#include <string.h>

bool stele_text_line(struct stele_text_scan *scan, const char **out_line, size_t *out_bytes)
{
    if (scan->at >= scan->end)
        return false;
    size_t left = (size_t)(scan->end - scan->at);
    const char *end = memchr(scan->at, '\n', left);
    size_t bytes = end == NULL ? left : (size_t)(end - scan->at);
    *out_line = scan->at;
    scan->at += bytes + (end != NULL);
    *out_bytes = bytes > 0 && (*out_line)[bytes - 1] == '\r' ? bytes - 1 : bytes;
    return true;
}

bool stele_text_word(struct stele_text_scan *scan, const char **out_word, size_t *out_bytes)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t'))
        scan->at++;
    const char *start = scan->at;
    while (scan->at < scan->end && *scan->at != ' ' && *scan->at != '\t')
        scan->at++;
    *out_word = start;
    *out_bytes = (size_t)(scan->at - start);
    return *out_bytes > 0;
}

bool stele_text_number(const char *word, size_t bytes, int64_t *out_value)
{
    int64_t value = 0;
    bool is_negative = bytes > 0 && word[0] == '-';
    if (bytes == (size_t)is_negative)
        return false;
    for (size_t i = is_negative; i < bytes; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        int64_t digit = is_negative ? -(word[i] - '0') : word[i] - '0';
        if (__builtin_mul_overflow(value, (int64_t)10, &value) || __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out_value = value;
    return true;
}
