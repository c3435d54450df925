#include "base/settings.h"
#include "base/test/support.h"

#include <string.h>

static const struct stele_setting_row rows[] = {
    {.name = "log.retention.ms",
     .type = STELE_SETTING_INT,
     .default_text = "604800000",
     .min = -1,
     .max = INT64_MAX,
     .unit = STELE_UNIT_MS,
     .scope = STELE_SCOPE_TOPIC,
     .topic_name = "retention.ms",
     .synonyms = {{"log.retention.minutes", 60000}, {"log.retention.hours", 3600000}},
     .doc = "age"},
    {.name = "log.preallocate",
     .type = STELE_SETTING_BOOL,
     .default_text = "false",
     .scope = STELE_SCOPE_TOPIC,
     .topic_name = "preallocate",
     .doc = "room"},
    {.name = "compression.type",
     .type = STELE_SETTING_ENUM,
     .default_text = "producer",
     .choices = "producer,gzip",
     .scope = STELE_SCOPE_TOPIC,
     .topic_name = "compression.type",
     .doc = "codec"},
    {.name = "log.cleanup.policy",
     .type = STELE_SETTING_LIST,
     .default_text = "delete",
     .choices = "delete,compact",
     .scope = STELE_SCOPE_TOPIC,
     .topic_name = "cleanup.policy",
     .doc = "policy"},
    {.name = "ratio", .type = STELE_SETTING_RATIO, .default_text = "0.5", .scope = STELE_SCOPE_NODE, .doc = "share"},
    {.name = "threads", .type = STELE_SETTING_INT, .default_text = "2", .min = 1, .max = 64, .doc = "threads"},
    {.name = "log.dirs", .type = STELE_SETTING_STRING, .default_text = NULL, .doc = "dirs"},
};
enum { ROWS = (int)STELE_ARRAY_LEN(rows) };

static struct stele_test_mem memory;
static struct stele_settings *settings;

static int setup(void **state)
{
    (void)state;
    stele_test_mem_init(&memory);
    settings = stele_settings_new(&memory.mem, rows, ROWS);
    return settings == NULL;
}

static int teardown(void **state)
{
    (void)state;
    stele_settings_free(settings);
    stele_test_mem_check_empty(&memory);
    return 0;
}

/* The first of several names that was set wins, in whatever order they were set; the value is in the row's unit. */
static void test_synonyms_in_order(void **state)
{
    (void)state;
    assert_int_equal(stele_settings_int(settings, "log.retention.ms"), 604800000);
    assert_false(stele_settings_is_set(settings, "log.retention.ms"));
    assert_ok(stele_settings_set(settings, "log.retention.hours", "2", "test", NULL));
    assert_int_equal(stele_settings_int(settings, "retention.ms"), 7200000);
    assert_ok(stele_settings_set(settings, "log.retention.minutes", "3", "test", NULL));
    assert_int_equal(stele_settings_int(settings, "retention.ms"), 180000);
    assert_ok(stele_settings_set(settings, "log.retention.ms", "5", "test", NULL));
    assert_ok(stele_settings_set(settings, "log.retention.minutes", "9", "test", NULL));
    assert_int_equal(stele_settings_int(settings, "retention.ms"), 5);
    assert_ok(stele_settings_set(settings, "log.retention.ms", "-1", "test", NULL));
    assert_int_equal(stele_settings_int(settings, "retention.ms"), -1);
    assert_true(stele_settings_is_set(settings, "retention.ms"));
}

struct bad_case {
    const char *name, *value, *text;
};

static const struct bad_case bad[] = {
    {"log.retention.mss", "1", "nearest is 'log.retention.ms'"},
    {"log.retention.hour", "1", "nearest is 'log.retention.hours'"},
    {"log.retention.ms", "-2", "between -1 and"},
    {"log.retention.hours", "9223372036854775807x", "whole number"},
    {"log.retention.ms", "9223372036854775808", "whole number"},
    {"log.retention.ms", "", "whole number"},
    {"log.preallocate", "yes", "true or false"},
    {"compression.type", "gzi", "one of producer,gzip"},
    {"log.cleanup.policy", "delete,", "list of words of delete,compact"},
    {"log.cleanup.policy", "purge", "list of words of delete,compact"},
    {"ratio", "1.01", "between 0 and 1"},
    {"ratio", "0.125", "between 0 and 1"},
    {"threads", "0", "between 1 and 64"},
    {"threads", "65", "between 1 and 64"},
};

/* A wrong name or value is refused with the way out and changes nothing. */
static void test_bad_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(bad); i++) {
        struct stele_error error = {.text = ""};
        assert_int_equal(stele_settings_set(settings, bad[i].name, bad[i].value, "test", &error), STELE_INVALID_CONFIG);
        if (strstr(error.text, bad[i].text) == NULL)
            fail_msg("'%s' does not say '%s'", error.text, bad[i].text);
    }
    for (int i = 0; i < ROWS; i++)
        assert_false(stele_settings_is_set(settings, rows[i].name));
}

static void test_good_values(void **state)
{
    (void)state;
    assert_ok(stele_settings_set(settings, "ratio", "0.75", "test", NULL));
    assert_int_equal(stele_settings_int(settings, "ratio"), 75);
    assert_ok(stele_settings_set(settings, "ratio", "1", "test", NULL));
    assert_int_equal(stele_settings_int(settings, "ratio"), 100);
    assert_ok(stele_settings_set(settings, "log.cleanup.policy", "", "test", NULL));
    assert_string_equal(stele_settings_text(settings, "cleanup.policy"), "");
    assert_ok(stele_settings_set(settings, "log.cleanup.policy", "compact,delete", "test", NULL));
    assert_ok(stele_settings_set(settings, "log.preallocate", "true", "test", NULL));
    assert_true(stele_settings_bool(settings, "preallocate"));
    assert_string_equal(stele_settings_text(settings, "log.dirs"), "");
}

/* A file sets names with comments, blanks and carriage returns; a fault names file and line. */
static void test_file(void **state)
{
    (void)state;
    static const char good[] = "# comment\n\n threads = 7 \r\ncompression.type=gzip";
    assert_ok(stele_settings_parse(settings, good, sizeof(good) - 1, "a.conf", NULL));
    assert_int_equal(stele_settings_int(settings, "threads"), 7);
    assert_string_equal(stele_settings_text(settings, "compression.type"), "gzip");
    static const char wrong[] = "threads=8\nthread=9\n";
    struct stele_error error = {.text = ""};
    assert_int_equal(stele_settings_parse(settings, wrong, sizeof(wrong) - 1, "a.conf", &error), STELE_INVALID_CONFIG);
    assert_non_null(strstr(error.text, "a.conf:2"));
    static const char no_value[] = "threads\n";
    assert_int_equal(stele_settings_parse(settings, no_value, sizeof(no_value) - 1, "b.conf", &error),
                     STELE_INVALID_CONFIG);
    assert_non_null(strstr(error.text, "b.conf:1"));
    assert_int_equal(stele_settings_parse(settings, "a\0b", 3, "c.conf", &error), STELE_INVALID_CONFIG);
}

/* A topic's value beats every name of the node's. */
static void test_topic_overlay(void **state)
{
    (void)state;
    const char *names[] = {"retention.ms"}, *values[] = {"77"}, *wrong[] = {"log.retention.ms"};
    struct stele_settings *topic = NULL;
    struct stele_error error = {.text = ""};
    assert_ok(stele_settings_set(settings, "log.retention.hours", "1", "test", NULL));
    assert_ok(stele_settings_overlay(settings, names, values, 1, &topic, NULL));
    assert_int_equal(stele_settings_int(topic, "retention.ms"), 77);
    assert_int_equal(stele_settings_int(settings, "retention.ms"), 3600000);
    stele_settings_free(topic);
    assert_int_equal(stele_settings_overlay(settings, wrong, values, 1, &topic, &error), STELE_INVALID_CONFIG);
    assert_non_null(strstr(error.text, "nearest is 'retention.ms'"));
}

/* Every allocation may fail; nothing leaks and the old value stays. */
static void test_without_memory(void **state)
{
    (void)state;
    const char *names[] = {"retention.ms"}, *values[] = {"77"};
    bool is_done = false;
    for (int at = 1; !is_done; at++) {
        struct stele_settings *topic = NULL;
        stele_test_mem_fail(&memory, at, false);
        enum stele_err err = stele_settings_set(settings, "threads", "9", "test", NULL);
        if (err == STELE_OK)
            err = stele_settings_overlay(settings, names, values, 1, &topic, NULL);
        char *page = err == STELE_OK ? stele_settings_reference(&memory.mem, rows, ROWS) : NULL;
        char *example = page != NULL ? stele_settings_example(&memory.mem, rows, ROWS) : NULL;
        is_done = !memory.has_failed;
        assert_true(is_done == (example != NULL));
        stele_mem_free(&memory.mem, page);
        stele_mem_free(&memory.mem, example);
        stele_settings_free(topic);
    }
    stele_test_mem_fail(&memory, 0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_synonyms_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_good_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_topic_overlay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
