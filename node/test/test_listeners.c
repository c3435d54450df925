/* The settings of listeners: what Kafka takes is taken, what Kafka refuses is refused with a way out. */
#include "node/listeners.h"

#include "base/test/support.h"
#include "node/settings.h"

#include <stdio.h>
#include <string.h>

struct given {
    const char *listeners, *advertised, *map, *peer;
};

static enum stele_err read_given_on(const char *node_id, const struct given *given, struct stele_listeners *out,
                                    struct stele_error *error)
{
    const char *const names[] = {"listeners", "advertised.listeners", "listener.security.protocol.map",
                                 "inter.broker.listener.name", "node.id"};
    const char *const values[] = {given->listeners, given->advertised, given->map, given->peer, node_id};
    struct stele_test_mem mem;
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    stele_test_mem_init(&mem);
    struct stele_settings *settings = stele_settings_new(&mem.mem, rows, count);
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (values[i] != NULL)
            assert_ok(stele_settings_set(settings, names[i], values[i], "test", error));
    }
    enum stele_err err = stele_listeners_read(settings, out, error);
    stele_settings_free(settings);
    stele_test_mem_check_empty(&mem);
    return err;
}

static enum stele_err read_given(const struct given *given, struct stele_listeners *out, struct stele_error *error)
{
    return read_given_on(NULL, given, out, error);
}

/* Each listener is served where it says, told as it says, and one of them is the nodes' own. Port p is bound as 9000+p
 * where it is 0. */
static void test_legal(void **state)
{
    static const struct {
        struct given given;
        const char *text; /* NAME host port told_host told_port, a star behind the nodes' own */
    } rows[] = {
        {{NULL, NULL, NULL, NULL}, "PLAINTEXT 127.0.0.1 7835 127.0.0.1 7835*"},
        {{"10.0.0.1:1", NULL, NULL, NULL}, "PLAINTEXT 10.0.0.1 1 10.0.0.1 1*"},
        {{":0", NULL, NULL, NULL}, "PLAINTEXT  9000 machine 9000*"},
        {{"0.0.0.0:5", NULL, NULL, NULL}, "PLAINTEXT 0.0.0.0 5 machine 5*"},
        {{"[::]:5", NULL, NULL, NULL}, "PLAINTEXT :: 5 machine 5*"},
        {{"[::1]:5", "n.example:7", NULL, NULL}, "PLAINTEXT ::1 5 n.example 7*"},
        {{"plaintext://h:5", "PlainText://:0", NULL, NULL}, "PLAINTEXT h 5 machine 5*"},
        {{" A://a:1 , B://b:2", "B://x:0", NULL, NULL}, "A a 1 a 1* B b 2 x 2"},
        {{"A://a:1,PLAINTEXT://b:2", NULL, NULL, NULL}, "A a 1 a 1 PLAINTEXT b 2 b 2*"},
        {{"A://a:1,b:2,C_3-x.y://[::1]:0", "A://o:1,C_3-X.Y://o:1", NULL, "c_3-x.y"},
         "A a 1 o 1 PLAINTEXT b 2 b 2 C_3-X.Y ::1 9002 o 1*"},
        {{"A://127.0.0.1:1,B://[::1]:1", NULL, NULL, "B"}, "A 127.0.0.1 1 127.0.0.1 1 B ::1 1 ::1 1*"},
        {{"A://a:0,B://a:0", NULL, NULL, NULL}, "A a 9000 a 9000* B a 9001 a 9001"},
        {{"SSL://a:1", NULL, "SSL:PLAINTEXT", NULL}, "SSL a 1 a 1*"},
        {{"A://a:1", NULL, "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,a:plaintext", NULL},
         "A a 1 a 1*"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct stele_listeners listeners;
        struct stele_error error = {.text = ""};
        char text[1024] = "";
        enum stele_err err = read_given(&rows[i].given, &listeners, &error);
        if (err != STELE_OK)
            fail_msg("row %zu: %s", i, error.text);
        for (int k = 0; k < listeners.count; k++) {
            if (listeners.items[k].port == 0)
                listeners.items[k].port = 9000 + k;
        }
        stele_listeners_settle(&listeners, "machine");
        for (int k = 0; k < listeners.count; k++) {
            const struct stele_listener *at = &listeners.items[k];
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof(text) - used, "%s%s %s %d %s %d%s", k > 0 ? " " : "", at->name, at->host,
                           (int)at->port, at->told_host, (int)at->told_port, at->is_peer ? "*" : "");
        }
        assert_string_equal(text, rows[i].text);
    }
}

/* What is wrong is named, and so is what would be right; nothing is handed out then. */
static void test_refused(void **state)
{
    static const struct {
        struct given given;
        const char *says;
    } rows[] = {
        {{"", NULL, NULL, NULL}, "'' is no address: write NAME://HOST:PORT"},
        {{"a:1,", NULL, NULL, NULL}, "'' is no address"},
        {{"A://a", NULL, NULL, NULL}, "'A://a' is no address"},
        {{"A://a:99999", NULL, NULL, NULL}, "'A://a:99999' is no address"},
        {{"A B://a:1", NULL, NULL, NULL}, "'A B://a:1' is no address"},
        {{"://a:1", NULL, NULL, NULL}, "'://a:1' is no address"},
        {{"A://::1:1", NULL, NULL, NULL}, "'A://::1:1' is no address"},
        {{"a:1,b:2", NULL, NULL, NULL}, "the name PLAINTEXT is there twice"},
        {{"A://a:1,a://b:2", NULL, NULL, NULL}, "the name A is there twice"},
        {{"A://a:1,B://b:1", NULL, NULL, NULL}, "A and B are both on port 1"},
        {{"A://127.0.0.1:1,B://127.0.0.2:1", NULL, NULL, NULL}, "A and B are both on port 1"},
        {{"A://127.0.0.1:1,B://[::1]:1,C://[::2]:1", NULL, NULL, NULL}, "B and C are both on port 1"},
        {{"A://h:1,B://[::1]:1", NULL, NULL, NULL}, "A and B are both on port 1"},
        {{"a:1", "B://b:1", NULL, NULL}, "B is not among listeners (PLAINTEXT): use one of those names"},
        {{"A://a:1,B://b:2", "b:2", NULL, NULL}, "PLAINTEXT is not among listeners (A, B)"},
        {{"a:1", "0.0.0.0:1", NULL, NULL}, "nobody can connect to 0.0.0.0"},
        {{"a:1", "[::]:1", NULL, NULL}, "nobody can connect to ::"},
        {{"a:1", "b:1,c:1", NULL, NULL}, "advertised.listeners: the name PLAINTEXT is there twice"},
        {{"a:1", "b", NULL, NULL}, "advertised.listeners: 'b' is no address"},
        {{"a:1", "b:784{node}", NULL, NULL}, "{node.id} stands for the node's number"},
        {{"a:1", "b{node.id:1", NULL, NULL}, "'b{node.id:1' is no address"},
        {{"a{node.id}:1", NULL, NULL, NULL}, "'a{node.id}:1' is no address"},
        {{"a:1", NULL, NULL, "B"}, "'B' is not among listeners (PLAINTEXT)"},
        {{"a:1", NULL, NULL, "no name"}, "'no name' is not among listeners"},
        {{"SSL://a:1", NULL, NULL, NULL}, "listener SSL: the protocol SSL is not served yet"},
        {{"sasl_ssl://a:1", NULL, NULL, NULL}, "listener SASL_SSL: the protocol SASL_SSL is not served yet"},
        {{"A://a:1", NULL, "A:SASL_PLAINTEXT", NULL}, "listener A: the protocol SASL_PLAINTEXT is not served yet"},
        {{"A://a:1", NULL, "A:PLAINTEXT,a:PLAINTEXT", NULL}, "the name A is there twice"},
        {{"A://a:1", NULL, "A:TELNET", NULL}, "'A:TELNET' is no pair: write NAME:PLAINTEXT"},
        {{"A://a:1", NULL, "A", NULL}, "'A' is no pair"},
        {{"A://a:1,B://a:2,C://a:3,D://a:4,E://a:5,F://a:6,G://a:7,H://a:8,I://a:9,J://a:10,K://a:11,L://a:12,M://a:13,"
          "N://a:14,O://a:15,P://a:16,Q://a:17",
          NULL, NULL, NULL},
         "there may be 16"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct stele_listeners listeners = {.count = -7};
        struct stele_error error = {.text = ""};
        assert_int_equal(read_given(&rows[i].given, &listeners, &error), STELE_INVALID_CONFIG);
        if (strstr(error.text, rows[i].says) == NULL)
            fail_msg("row %zu: '%s' does not say '%s'", i, error.text, rows[i].says);
        assert_int_equal(listeners.count, -7);
    }
}

/* Names and hosts of any length are taken whole or refused. */
static void test_lengths(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 600; bytes++) {
        char text[1024], host[1024];
        struct stele_listeners listeners;
        struct stele_error error = {.text = ""};
        memset(text, 'A', bytes);
        memcpy(text + bytes, "://a:1", 7);
        bool is_good = read_given(&(struct given){.listeners = text}, &listeners, &error) == STELE_OK;
        assert_int_equal(is_good, bytes < STELE_LISTENER_NAME_BYTES);
        memset(host, 'h', bytes);
        memcpy(host + bytes, ":1", 3);
        is_good = read_given(&(struct given){.listeners = host}, &listeners, &error) == STELE_OK;
        assert_int_equal(is_good, bytes < STELE_HOST_BYTES);
    }
}

/* One setting tells each node of a cluster of its own names and ports, as long as there is room for the number. */
static void test_number(void **state)
{
    struct stele_listeners listeners;
    struct stele_error error;
    struct given given = {"A://:1,B://:2", "A://n{node.id}:7,B://h{node.id}-{node.id}.x:784{node.id}", NULL, NULL};
    (void)state;
    assert_ok(read_given_on("3", &given, &listeners, &error));
    assert_string_equal(listeners.items[0].told_host, "n3");
    assert_int_equal(listeners.items[0].told_port, 7);
    assert_string_equal(listeners.items[1].told_host, "h3-3.x");
    assert_int_equal(listeners.items[1].told_port, 7843);
    assert_int_equal(read_given_on("65", &given, &listeners, &error), STELE_INVALID_CONFIG);
    assert_non_null(strstr(error.text, "78465' is no address"));
    for (size_t bytes = 0; bytes < 600; bytes++) {
        char host[1024];
        memset(host, 'h', bytes);
        memcpy(host + bytes, "{node.id}:1", 12);
        bool is_good =
            read_given_on("1234567890", &(struct given){"a:1", host, NULL, NULL}, &listeners, &error) == STELE_OK;
        assert_int_equal(is_good, bytes + 10 < STELE_HOST_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legal),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
