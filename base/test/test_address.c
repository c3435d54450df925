/* HOST:PORT, and what is none. */
#include "base/address.h"

#include "base/test/support.h"

#include <string.h>

/* Every form comes apart as it should, and together again. */
static void test_addresses(void **state)
{
    static const struct {
        const char *text, *host; /* NULL: refused */
        int32_t port;
    } rows[] = {
        {"127.0.0.1:7835", "127.0.0.1", 7835},
        {"node.example:0", "node.example", 0},
        {"[::1]:65535", "::1", 65535},
        {"[fe80::1%eth0]:1", "fe80::1%eth0", 1},
        {":7835", "", 7835},
        {"host:65536", NULL, 0},
        {"host:123456", NULL, 0},
        {"host:", NULL, 0},
        {"host:-1", NULL, 0},
        {"host:1x", NULL, 0},
        {"host", NULL, 0},
        {"", NULL, 0},
        {"::1:7835", NULL, 0},
        {"[]:7835", NULL, 0},
        {"[host]:7835", NULL, 0},
        {"[::1:7835", NULL, 0},
        {"::1]:7835", NULL, 0},
        {"[[::1]]:7835", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        char host[STELE_HOST_BYTES] = "untouched", back[STELE_ADDRESS_BYTES];
        int32_t port = -7;
        enum stele_err err = stele_address_split(rows[i].text, host, &port);
        assert_int_equal(err, rows[i].host == NULL ? STELE_INVALID_ARGUMENT : STELE_OK);
        assert_string_equal(host, rows[i].host == NULL ? "untouched" : rows[i].host);
        assert_int_equal(port, rows[i].host == NULL ? -7 : rows[i].port);
        if (rows[i].host == NULL)
            continue;
        stele_address_join(host, port, back);
        assert_string_equal(back, rows[i].text);
    }
}

/* A host of the largest length fits, one byte more is refused. */
static void test_longest(void **state)
{
    char text[STELE_ADDRESS_BYTES + 8], host[STELE_HOST_BYTES], back[STELE_ADDRESS_BYTES];
    int32_t port = 0;
    (void)state;
    memset(text, 'h', sizeof(text));
    memcpy(text + STELE_HOST_BYTES - 1, ":7835", 6);
    assert_ok(stele_address_split(text, host, &port));
    stele_address_join(host, port, back);
    assert_string_equal(back, text);
    memset(text, 'h', sizeof(text));
    memcpy(text + STELE_HOST_BYTES, ":7835", 6);
    assert_int_equal(stele_address_split(text, host, &port), STELE_INVALID_ARGUMENT);
}

/* What is open to others is told from what is not: a name that only begins like a loopback address is open. */
static void test_reach(void **state)
{
    static const struct {
        const char *host;
        bool is_any, is_loopback;
    } rows[] = {
        {"", true, false},          {"0.0.0.0", true, false},   {"::", true, false},
        {"127.0.0.1", false, true}, {"127.9.8.7", false, true}, {"localhost", false, true},
        {"::1", false, true},       {"10.0.0.1", false, false}, {"127.example.com", false, false},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        assert_int_equal(stele_host_is_any(rows[i].host), rows[i].is_any);
        assert_int_equal(stele_host_is_loopback(rows[i].host), rows[i].is_loopback);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_longest),
        cmocka_unit_test(test_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
