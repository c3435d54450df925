/* Limits of connections: who is refused, who is counted together, and that every connection that left makes room. */
#include "host/conn_limits.h"

#include "base/test/support.h"
#include "node/settings.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static struct stele_conn_ip ip_of(const char *text)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        return stele_conn_ip_of((const struct sockaddr *)(const void *)&v4);
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return stele_conn_ip_of((const struct sockaddr *)(const void *)&v6);
}

static enum stele_conn_refusal enter(struct stele_conn_limits *limits, const char *text)
{
    struct stele_conn_ip ip = ip_of(text);
    return stele_conn_limits_enter(limits, &ip, false);
}

static void leave(struct stele_conn_limits *limits, const char *text)
{
    struct stele_conn_ip ip = ip_of(text);
    stele_conn_limits_leave(limits, &ip);
}

static struct stele_settings *settings_of(struct stele_mem *mem, const char *max, const char *per_ip,
                                          const char *overrides)
{
    const char *const names[] = {"max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides"};
    const char *const values[] = {max, per_ip, overrides};
    struct stele_error error;
    int count = 0;
    const struct stele_setting_row *rows = stele_node_setting_rows(&count);
    struct stele_settings *settings = stele_settings_new(mem, rows, count);
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (values[i] != NULL)
            assert_ok(stele_settings_set(settings, names[i], values[i], "test", &error));
    }
    return settings;
}

static void take(struct stele_conn_limits *limits, struct stele_mem *mem, const char *max, const char *per_ip,
                 const char *overrides)
{
    struct stele_error error;
    struct stele_settings *settings = settings_of(mem, max, per_ip, overrides);
    assert_ok(stele_conn_limits_take(limits, settings, &error));
    stele_settings_free(settings);
}

/* In all, of one address, and of one that is named: each limit holds, also for an IPv4 address on an IPv6 socket, and
 * moves at run time. Who leaves makes room. */
static void test_limits(void **state)
{
    struct stele_test_mem mem;
    (void)state;
    stele_test_mem_init(&mem);
    struct stele_conn_limits *limits = stele_conn_limits_new(&mem.mem);
    assert_int_equal(enter(limits, "10.0.0.1"), STELE_CONN_TAKEN); /* none yet */
    take(limits, &mem.mem, "6", "2", "10.0.0.9:3, [fd00::1]:0,fd00::2:1,10.0.0.8:5,10.0.0.8:1");
    assert_int_equal(enter(limits, "::ffff:10.0.0.1"), STELE_CONN_TAKEN);
    assert_int_equal(enter(limits, "10.0.0.1"), STELE_CONN_OVER_MAX_PER_IP);
    assert_int_equal(enter(limits, "fd00::1"), STELE_CONN_OVER_MAX_PER_IP);
    assert_int_equal(enter(limits, "fd00::2"), STELE_CONN_TAKEN);
    assert_int_equal(enter(limits, "fd00::2"), STELE_CONN_OVER_MAX_PER_IP);
    assert_int_equal(enter(limits, "10.0.0.8"), STELE_CONN_TAKEN); /* the last of two that name it */
    assert_int_equal(enter(limits, "10.0.0.8"), STELE_CONN_OVER_MAX_PER_IP);
    assert_int_equal(enter(limits, "10.0.0.9"), STELE_CONN_TAKEN);
    assert_int_equal(enter(limits, "10.0.0.9"), STELE_CONN_TAKEN);
    assert_int_equal(enter(limits, "10.0.0.9"), STELE_CONN_OVER_MAX);
    struct stele_conn_ip peer = ip_of("10.0.0.9");
    assert_int_equal(stele_conn_limits_enter(limits, &peer, true), STELE_CONN_TAKEN); /* a node, beyond the limit */
    assert_int_equal(stele_conn_limits_enter(limits, &peer, true), STELE_CONN_OVER_MAX_PER_IP);
    leave(limits, "10.0.0.1");
    assert_int_equal(enter(limits, "10.0.0.2"), STELE_CONN_OVER_MAX);
    leave(limits, "10.0.0.9");
    assert_int_equal(enter(limits, "10.0.0.2"), STELE_CONN_TAKEN);
    take(limits, &mem.mem, "3", NULL, NULL); /* what is open stays */
    assert_int_equal(enter(limits, "10.0.0.3"), STELE_CONN_OVER_MAX);
    take(limits, &mem.mem, NULL, NULL, NULL);
    for (int i = 0; i < 50; i++)
        assert_int_equal(enter(limits, "10.0.0.3"), STELE_CONN_TAKEN);
    for (int i = 0; i < 50; i++)
        leave(limits, "10.0.0.3");
    static const char *const left[] = {"10.0.0.1", "fd00::2", "10.0.0.8", "10.0.0.9", "10.0.0.9", "10.0.0.2"};
    for (size_t i = 0; i < STELE_ARRAY_LEN(left); i++)
        leave(limits, left[i]);
    stele_conn_limits_free(limits);
    stele_test_mem_check_empty(&mem);
}

/* Overrides that are none are named, and nothing changes. */
static void test_refused(void **state)
{
    static const struct {
        const char *per_ip, *overrides, *says;
    } rows[] = {
        {NULL, "10.0.0.1", "'10.0.0.1' is not ADDRESS:COUNT"},
        {NULL, "10.0.0.1:1,node.example:2", "'node.example:2' is not"},
        {NULL, "10.0.0.1:-1", "'10.0.0.1:-1' is not"},
        {NULL, "10.0.0.1:2147483648", "'10.0.0.1:2147483648' is not"},
        {NULL, "10.0.0.256:1", "'10.0.0.256:1' is not"},
        {NULL, ":1", "':1' is not"},
        {NULL, "10.0.0.1:1,,10.0.0.2:1", "'' is not"},
        {NULL, "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001:1", "is not"},
        {"0", NULL, "max.connections.per.ip can be 0 only"},
    };
    struct stele_test_mem mem;
    (void)state;
    stele_test_mem_init(&mem);
    struct stele_conn_limits *limits = stele_conn_limits_new(&mem.mem);
    take(limits, &mem.mem, "1", NULL, NULL);
    for (size_t i = 0; i < STELE_ARRAY_LEN(rows); i++) {
        struct stele_error error = {.text = ""};
        struct stele_settings *settings = settings_of(&mem.mem, NULL, rows[i].per_ip, rows[i].overrides);
        assert_int_equal(stele_conn_limits_check(settings, &error), STELE_INVALID_CONFIG);
        assert_int_equal(stele_conn_limits_take(limits, settings, &error), STELE_INVALID_CONFIG);
        if (strstr(error.text, rows[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", error.text, rows[i].says);
        stele_settings_free(settings);
    }
    assert_int_equal(enter(limits, "10.0.0.1"), STELE_CONN_TAKEN);
    assert_int_equal(enter(limits, "10.0.0.1"), STELE_CONN_OVER_MAX);
    leave(limits, "10.0.0.1");
    stele_conn_limits_free(limits);
    stele_test_mem_check_empty(&mem);
}

/* Without memory a connection is refused, settings stay as they are, and nothing is lost. */
static void test_memory(void **state)
{
    (void)state;
    bool has_failed = true;
    for (int64_t at = 1; has_failed; at++) {
        struct stele_test_mem mem;
        struct stele_error error;
        stele_test_mem_init(&mem);
        struct stele_settings *settings = settings_of(&mem.mem, "5", "1", "10.0.0.1:2");
        stele_test_mem_fail(&mem, at, false);
        struct stele_conn_limits *limits = stele_conn_limits_new(&mem.mem);
        enum stele_err err = limits != NULL ? stele_conn_limits_take(limits, settings, &error) : STELE_OK;
        assert_true(err == STELE_OK || (err == STELE_NO_MEMORY && mem.has_failed));
        int count = 0;
        for (int i = 0; i < 2 && limits != NULL; i++) {
            enum stele_conn_refusal why = enter(limits, "10.0.0.1");
            assert_true(why == STELE_CONN_TAKEN || (why == STELE_CONN_NO_MEMORY && mem.has_failed));
            count += why == STELE_CONN_TAKEN;
        }
        has_failed = mem.has_failed;
        stele_test_mem_fail(&mem, 0, false);
        assert_true(count == 2 || has_failed);
        for (int i = 0; i < count; i++)
            leave(limits, "10.0.0.1");
        stele_conn_limits_free(limits);
        stele_settings_free(settings);
        stele_test_mem_check_empty(&mem);
    }
}

/* Refusals are told of once a second for each reason, with how many were not told of. */
static void test_telling(void **state)
{
    struct stele_test_mem mem;
    int64_t untold = -1;
    (void)state;
    stele_test_mem_init(&mem);
    struct stele_conn_limits *limits = stele_conn_limits_new(&mem.mem);
    assert_true(stele_conn_limits_may_tell(limits, STELE_CONN_OVER_MAX, 5000, &untold));
    assert_int_equal(untold, 0);
    for (int i = 0; i < 9; i++)
        assert_false(stele_conn_limits_may_tell(limits, STELE_CONN_OVER_MAX, 5999, &untold));
    assert_true(stele_conn_limits_may_tell(limits, STELE_CONN_OVER_MAX_PER_IP, 5999, &untold));
    assert_int_equal(untold, 0);
    assert_true(stele_conn_limits_may_tell(limits, STELE_CONN_OVER_MAX, 6000, &untold));
    assert_int_equal(untold, 9);
    stele_conn_limits_free(limits);
    stele_test_mem_check_empty(&mem);
}

struct crowd {
    struct stele_conn_limits *limits;
    _Atomic int *inside, *most;
};

static void *come_and_go(void *arg)
{
    const struct crowd *crowd = arg;
    for (int i = 0; i < 3000; i++) {
        if (enter(crowd->limits, i % 2 == 0 ? "10.0.0.1" : "10.0.0.2") != STELE_CONN_TAKEN)
            continue;
        int now = atomic_fetch_add(crowd->inside, 1) + 1, most = atomic_load(crowd->most);
        while (now > most && !atomic_compare_exchange_weak(crowd->most, &most, now)) {
        }
        atomic_fetch_sub(crowd->inside, 1);
        leave(crowd->limits, i % 2 == 0 ? "10.0.0.1" : "10.0.0.2");
    }
    return NULL;
}

/* From several threads there are never more than there may be. */
static void test_threads(void **state)
{
    enum { THREADS = 4 };
    struct stele_test_mem mem;
    _Atomic int inside = 0, most = 0;
    pthread_t threads[THREADS];
    (void)state;
    stele_test_mem_init(&mem);
    struct crowd crowd = {.limits = stele_conn_limits_new(&mem.mem), .inside = &inside, .most = &most};
    take(crowd.limits, &mem.mem, "2", NULL, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(most >= 1 && most <= 2);
    stele_conn_limits_free(crowd.limits);
    stele_test_mem_check_empty(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_refused), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_telling), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
