/* Heads of requests, good and bad, whole and in parts. */
#include "base/test/support.h"
#include "host/http.h"
#include "host/http_head.h"

#include <string.h>

struct head_case {
    const char *bytes;
    int status; /* 0: more is needed */
    const char *path;
    bool is_head;
};

#define LONG_64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct head_case cases[] = {
    {"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200, "/metrics", false},
    {"GET /metrics HTTP/1.0\n\n", 200, "/metrics", false},
    {"HEAD /readyz HTTP/1.1\r\n\r\n", 200, "/readyz", true},
    {"GET /metrics?name=a%20b HTTP/1.1\r\n\r\n", 200, "/metrics", false},
    {"GET / HTTP/1.1\r\ncontent-length: 0\r\n\r\n", 200, "/", false},
    {"GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 413, NULL, false},
    {"GET / HTTP/1.1\r\nContent-Length: 00000000000000000000000000000000007\r\n\r\n", 413, NULL, false},
    {"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413, NULL, false},
    {"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405, NULL, false},
    {"DELETE / HTTP/1.1\r\n\r\n", 405, NULL, false},
    {"get / HTTP/1.1\r\n\r\n", 400, NULL, false},
    {"GET  / HTTP/1.1\r\n\r\n", 400, NULL, false},
    {"GET http://x/ HTTP/1.1\r\n\r\n", 400, NULL, false},
    {"GET /\r\n\r\n", 400, NULL, false},
    {"GET / HTTP/2.0\r\n\r\n", 505, NULL, false},
    {"GET / SMTP\r\n\r\n", 400, NULL, false},
    {"GET / HTTP/1.1 \r\n\r\n", 505, NULL, false},
    {"GET / HTTP/1.1\r\nno field\r\n\r\n", 400, NULL, false},
    {"GET / HTTP/1.1\r\n: x\r\n\r\n", 400, NULL, false},
    {"\r\n\r\n", 400, NULL, false},
    {"GET /" LONG_64 LONG_64 " HTTP/1.1\r\n\r\n", 414, NULL, false},
    {"", 0, NULL, false},
    {"GET / HTTP/1.1", 0, NULL, false},
    {"GET / HTTP/1.1\r\n", 0, NULL, false},
    {"GET / HTTP/1.1\r\nHost: x\r\n", 0, NULL, false},
};

static void test_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        const struct head_case *c = &cases[i];
        struct stele_http_head head = {.status = 0};
        bool is_whole = stele_http_head_read(c->bytes, strlen(c->bytes), &head);
        if (is_whole != (c->status != 0) || head.status != c->status)
            fail_msg("'%s' gives %d", c->bytes, head.status);
        if (head.status != 200)
            continue;
        assert_string_equal(head.path, c->path);
        assert_int_equal(head.is_head, c->is_head);
        for (size_t part = 0; part < strlen(c->bytes); part++)
            assert_false(stele_http_head_read(c->bytes, part, &head));
    }
}

/* Where the port is bound: on loopback when no host is named. */
static void test_addresses(void **state)
{
    static const char *const rows[][2] = {
        {"9644", "127.0.0.1:9644"}, {":9644", "127.0.0.1:9644"}, {"0.0.0.0:1", "0.0.0.0:1"}, {"[::1]:1", "[::1]:1"}};
    char address[300], longer[400];
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        assert_ok(stele_http_address(rows[i][0], address));
        assert_string_equal(address, rows[i][1]);
    }
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    assert_int_equal(stele_http_address(longer, address), STELE_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_heads), cmocka_unit_test(test_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
