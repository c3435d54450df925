/* Reading the small text files: words and lines of bounded text. */
#ifndef STELE_STORAGE_TEXT_SCAN_H
#define STELE_STORAGE_TEXT_SCAN_H

#include "base/types.h"

#include <stdbool.h>

struct stele_text_scan {
    const char *at, *end;
};

/** The next line without its end; false when there is none. A last line without an end counts. */
bool stele_text_line(struct stele_text_scan *scan, const char **out_line, size_t *out_bytes);
/** The next run of bytes other than blanks and tabs of a line; false when there is none. */
bool stele_text_word(struct stele_text_scan *scan, const char **out_word, size_t *out_bytes);
/** A whole decimal int64. */
bool stele_text_number(const char *word, size_t bytes, int64_t *out_value);

#endif
