#include "base/uuid.h"

#include "base/cursor.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

enum { TEXT_CHARS = STELE_UUID_TEXT_BYTES - 1, BITS = 128 };

/* The 6 bits from bit `at` on; bits past the end are zero. */
static unsigned six_bits(const uint8_t *bytes, int at)
{
    unsigned value = 0;
    for (int i = at; i < at + 6; i++) {
        unsigned bit = i < BITS ? (bytes[i / 8] >> (7 - i % 8)) & 1u : 0;
        value = value << 1 | bit;
    }
    return value;
}

void stele_uuid_text(const struct stele_uuid *uuid, char out_text[STELE_UUID_TEXT_BYTES])
{
    for (int i = 0; i < TEXT_CHARS; i++)
        out_text[i] = digits[six_bits(uuid->bytes, 6 * i)];
    out_text[TEXT_CHARS] = 0;
}

enum stele_err stele_uuid_parse(const char *text, size_t count, struct stele_uuid *out_uuid)
{
    struct stele_uuid uuid = {{0}};
    if (count != TEXT_CHARS)
        return STELE_MALFORMED;
    for (int i = 0; i < TEXT_CHARS; i++) {
        const char *digit = text[i] == 0 ? NULL : strchr(digits, text[i]);
        if (digit == NULL)
            return STELE_MALFORMED;
        unsigned value = (unsigned)(digit - digits);
        for (int bit = 0; bit < 6; bit++) {
            int at = 6 * i + bit;
            if (((value >> (5 - bit)) & 1u) == 0)
                continue;
            if (at >= BITS)
                return STELE_MALFORMED;
            uuid.bytes[at / 8] |= (uint8_t)(0x80u >> (at % 8));
        }
    }
    *out_uuid = uuid;
    return STELE_OK;
}

bool stele_uuid_is_zero(const struct stele_uuid *uuid)
{
    static const struct stele_uuid zero;
    return stele_uuid_equal(uuid, &zero);
}

bool stele_uuid_equal(const struct stele_uuid *a, const struct stele_uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

struct stele_uuid stele_uuid_make(uint64_t high, uint64_t low, bool *out_usable)
{
    struct stele_uuid uuid;
    stele_put_i64(uuid.bytes, (int64_t)((high & ~(uint64_t)0xf000) | 0x4000));
    stele_put_i64(uuid.bytes + 8, (int64_t)((low & ~((uint64_t)3 << 62)) | (uint64_t)2 << 62));
    *out_usable = digits[six_bits(uuid.bytes, 0)] != '-';
    return uuid;
}
