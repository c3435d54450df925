/* Bytes that should be UTF-8, one character after another; what is not is told apart as Java's decoder does, so that
 * texts of ours and of Kafka's tools have the same replacement characters. */
#ifndef STELE_BASE_UTF8_H
#define STELE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, which stands for a malformed character. */
#define STELE_UTF8_REPLACEMENT "\xef\xbf\xbd"

/** How many bytes the first character takes, or the malformed one: the longest beginning of a character, or a whole
 * surrogate. 0 only when count is. */
size_t stele_utf8_next(const uint8_t *bytes, size_t count, bool *out_is_valid);

#endif
