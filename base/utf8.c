#include "base/utf8.h"

static size_t length_of(uint8_t first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef)
        return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* A second byte is bounded where a longer form, or more than U+10FFFF, would be written. */
static bool may_follow(uint8_t first, size_t at, uint8_t byte)
{
    uint8_t low = 0x80, high = 0xbf;
    if (at == 1 && first == 0xe0)
        low = 0xa0;
    if (at == 1 && first == 0xf0)
        low = 0x90;
    if (at == 1 && first == 0xf4)
        high = 0x8f;
    return byte >= low && byte <= high;
}

size_t stele_utf8_next(const uint8_t *bytes, size_t count, bool *out_is_valid)
{
    size_t length = count == 0 ? 0 : length_of(bytes[0]), at = 1;
    if (count == 0)
        return 0;
    while (at < length && at < count && may_follow(bytes[0], at, bytes[at]))
        at++;
    bool is_surrogate = length == 3 && at == 3 && bytes[0] == 0xed && bytes[1] >= 0xa0;
    *out_is_valid = at == length && !is_surrogate;
    return at;
}
