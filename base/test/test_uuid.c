#include "base/test/support.h"
#include "base/uuid.h"

#include <string.h>

/* Random ids survive text and back, and never start with '-' when said to be usable. */
static void test_uuid_round_trip(void **state)
{
    (void)state;
    struct stele_prng prng;
    stele_prng_init(&prng, 7, 0);
    for (int i = 0; i < 1000; i++) {
        bool is_usable = false;
        struct stele_uuid uuid = stele_uuid_make(stele_prng_u64(&prng), stele_prng_u64(&prng), &is_usable), back;
        char text[STELE_UUID_TEXT_BYTES];
        stele_uuid_text(&uuid, text);
        assert_ok(stele_uuid_parse(text, strlen(text), &back));
        assert_true(stele_uuid_equal(&uuid, &back));
        assert_true(is_usable == (text[0] != '-'));
    }
}

/* Wrong lengths, foreign characters and surplus bits are refused. */
static void test_uuid_refuses(void **state)
{
    (void)state;
    struct stele_uuid uuid;
    assert_int_equal(stele_uuid_parse("short", 5, &uuid), STELE_MALFORMED);
    assert_int_equal(stele_uuid_parse("AAAAAAAAAAAAAAAAAAAA=A", 22, &uuid), STELE_MALFORMED);
    assert_int_equal(stele_uuid_parse("AAAAAAAAAAAAAAAAAAAAAB", 22, &uuid), STELE_MALFORMED);
    assert_ok(stele_uuid_parse("AAAAAAAAAAAAAAAAAAAAAA", 22, &uuid));
    assert_true(stele_uuid_is_zero(&uuid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_uuid_round_trip), cmocka_unit_test(test_uuid_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
