#include "base/test/support.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

struct text {
    const char *hex, *want; /* with ? for each replacement */
};

/* Every kind of malformed character takes as many bytes as Java's decoder gives it. */
static void test_next(void **state)
{
    static const struct text texts[] = {
        {"", ""},
        {"61007f", "61007f"},
        {"c3a9", "c3a9"},
        {"e282ac", "e282ac"},
        {"f09f9880", "f09f9880"},
        {"f48fbfbf", "f48fbfbf"},
        {"80", "?"},          /* nothing that begins */
        {"c0af", "??"},       /* longer than it need be */
        {"c1bf", "??"},       /* the same */
        {"e08080", "???"},    /* the same */
        {"f08f8080", "????"}, /* the same */
        {"c3", "?"},          /* cut */
        {"e282", "?"},
        {"f09f98", "?"},
        {"f1", "?"},
        {"c341", "?41"}, /* broken off */
        {"e28241", "?41"},
        {"e241", "?41"},
        {"f09f9841", "?41"},
        {"f09f41", "?41"},
        {"f041", "?41"},
        {"eda080", "?"}, /* a surrogate */
        {"eda0", "?"},
        {"eda041", "?41"},
        {"f4908080", "????"}, /* beyond the last character */
        {"f5808080", "????"},
        {"ff41", "?41"},
        {"c3a9c3", "c3a9?"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(texts); i++) {
        uint8_t bytes[16];
        char got[64] = "";
        size_t count = stele_test_hex(texts[i].hex, bytes, sizeof(bytes)), at = 0, taken;
        bool is_valid = false;
        while ((taken = stele_utf8_next(bytes + at, count - at, &is_valid)) > 0) {
            for (size_t k = 0; k < taken && is_valid; k++)
                (void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%02x", bytes[at + k]);
            if (!is_valid)
                (void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "?");
            at += taken;
        }
        assert_int_equal(at, count);
        assert_string_equal(got, texts[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_next)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
