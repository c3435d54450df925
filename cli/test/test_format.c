#include "base/test/support.h"
#include "cli/document.h"
#include "cli/format.h"
#include "cli/latency.h"
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes have three digits that count and never round to a thousand of the smaller unit. */
static void test_sizes(void **state)
{
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10240, "10.0 KiB"},
        {102400, "100 KiB"},
        {1048575, "1.00 MiB"},
        {1048576, "1.00 MiB"},
        {INT64_C(1) << 30, "1.00 GiB"},
        {INT64_C(5) << 40, "5.00 TiB"},
        {INT64_MAX, "8.00 EiB"},
        {-5, "-5 B"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char text[STELE_FORMAT_BYTES];
        stele_format_size(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* Spans show their two largest units. */
static void test_spans(void **state)
{
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "0 us"},         {999, "999 us"},
        {1000, "1.00 ms"},   {12345, "12.3 ms"},
        {999400, "999 ms"},  {999600, "1.00 s"},
        {1500000, "1.50 s"}, {59900000, "59.9 s"},
        {60000000, "1 min"}, {303000000, "5 min 3 s"},
        {3600000000, "1 h"}, {86400000000 * 3 + 3600000000 * 4 + 5, "3 d 4 h"},
        {-1, "-1 us"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char text[STELE_FORMAT_BYTES];
        stele_format_span(cases[i].us, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* A time reads as it is printed, and as people write it. */
static void test_times(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* INT64_MIN: refused */
    } cases[] = {
        {"beginning", STELE_OFFSET_EARLIEST},
        {"end", STELE_OFFSET_LATEST},
        {"now", 1700000000000},
        {"@5", 5},
        {"-1h", 1700000000000 - 3600000},
        {"-1h30m", 1700000000000 - 5400000},
        {"-90s", 1700000000000 - 90000},
        {"-500ms", 1700000000000 - 500},
        {"-2w1d", 1700000000000 - 15 * INT64_C(86400000)},
        {"-9999w", 0}, /* before 1970 */
        {"1970-01-01", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"2024-02-29T12:30", 1709209800000},
        {"2024-02-29T12:30+01:00", 1709206200000},
        {"2024-02-29 12:30:15.123-0030", 1709211615123},
        {"2023-02-29", INT64_MIN},
        {"2024-13-01", INT64_MIN},
        {"-", INT64_MIN},
        {"-1", INT64_MIN},
        {"-h", INT64_MIN},
        {"-1y", INT64_MIN},
        {"-1h ", INT64_MIN},
        {"-99999999999999999999s", INT64_MIN},
        {"-9223372036854775807w", INT64_MIN},
        {"@-1", INT64_MIN},
        {"@", INT64_MIN},
        {"", INT64_MIN},
        {"tomorrow", INT64_MIN},
        {"5", INT64_MIN}, /* an offset is no time */
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        int64_t ms = INT64_MIN;
        char text[STELE_FORMAT_BYTES];
        if (stele_cli_time(cases[i].text, 1700000000000, &ms) != (cases[i].ms != INT64_MIN) || ms != cases[i].ms)
            fail_msg("'%s' is %lld", cases[i].text, (long long)ms);
        if (ms < 0)
            continue;
        stele_format_time(ms, text);
        int64_t again = -1;
        assert_true(stele_cli_time(text, 0, &again));
        assert_int_equal(again, ms);
    }
}

/* A place is a time or an offset; a partition is named with its topic. */
static void test_places(void **state)
{
    static const struct {
        const char *text;
        bool is_good;
        const char *topic;
        int32_t partition;
    } partitions[] = {
        {"t", true, "t", -1},  {"t/0", true, "t", 0},  {"a.b-c/17", true, "a.b-c", 17},
        {"/0", false, "", 0},  {"", false, "", 0},     {"t/", false, "", 0},
        {"t/x", false, "", 0}, {"t/-1", false, "", 0}, {"t/4294967296", false, "", 0},
    };
    struct stele_cli_place place;
    (void)state;
    assert_true(stele_cli_place("17", 0, &place));
    assert_true(place.is_offset && place.is_there && place.value == 17);
    assert_true(stele_cli_place("-1s", 5000, &place));
    assert_true(!place.is_offset && place.value == 4000);
    assert_true(stele_cli_place("end", 0, &place));
    assert_true(!place.is_offset && place.value == STELE_OFFSET_LATEST);
    assert_false(stele_cli_place("+5", 0, &place));
    for (size_t i = 0; i < STELE_ARRAY_LEN(partitions); i++) {
        struct stele_cli_partition which;
        assert_int_equal(stele_cli_partition(partitions[i].text, &which), partitions[i].is_good);
        if (!partitions[i].is_good)
            continue;
        assert_string_equal(which.topic, partitions[i].topic);
        assert_int_equal(which.partition, partitions[i].partition);
    }
}

/* NAME=VALUE is taken apart at the first "="; what has no name is refused by name. */
static void test_pairs(void **state)
{
    struct stele_cli_list list = {.items = {"a=1", "b.c=x=y", "d="}, .count = 3};
    struct stele_cli_pairs pairs = {.count = 0}, none = {.count = 0};
    const char *bad = NULL;
    (void)state;
    assert_true(stele_cli_pairs(&list, &pairs, &bad));
    assert_int_equal(pairs.count, 3);
    assert_string_equal(pairs.settings[0].name, "a");
    assert_string_equal(pairs.settings[1].value, "x=y");
    assert_string_equal(pairs.settings[2].value, "");
    assert_null(pairs.settings[3].name);
    list = (struct stele_cli_list){.items = {"a=1", "=x"}, .count = 2};
    assert_false(stele_cli_pairs(&list, &none, &bad));
    assert_string_equal(bad, "=x");
}

static const struct stele_view_column columns[] = {{"name", "NAME", STELE_VIEW_TEXT},
                                                   {"size", "SIZE", STELE_VIEW_SIZE},
                                                   {"none", "NEVER SEEN", STELE_VIEW_TEXT},
                                                   {"list", "LIST", STELE_VIEW_TEXT},
                                                   {NULL, NULL, STELE_VIEW_TEXT}};

static void fill(struct stele_document *document)
{
    static const int32_t numbers[] = {1, 22};
    stele_document_init(document);
    cJSON *list = stele_document_list(document, document->root, "rows");
    cJSON *row = stele_document_row(document, list);
    stele_document_text(document, row, "name", "a\x1b[31m\xff"); /* would colour the terminal; no UTF-8 */
    stele_document_number(document, row, "size", 1536);
    stele_document_text(document, row, "none", NULL);
    stele_document_numbers(document, row, "list", numbers, 2);
    row = stele_document_row(document, list);
    stele_document_text(document, row, "name", "\xc3\xa4");
    stele_document_number(document, row, "size", INT64_MAX);
    stele_document_known(document, row, "none", -1);
}

static void make(struct stele_document *document)
{
    fill(document);
    assert_false(document->is_short);
}

/* A table is aligned by characters, leaves empty columns out, ends no line with blanks, and lets nothing of a text
 * reach the terminal as a command. */
static void test_table(void **state)
{
    static const char *const wanted[] = {"NAME         SIZE  LIST\n"
                                         "a?[31m\xef\xbf\xbd  1.50 KiB  1,22\n"
                                         "\xc3\xa4        8.00 EiB\n",
                                         "NAME                    SIZE  LIST\n"
                                         "a?[31m\xef\xbf\xbd                 1536  1,22\n"
                                         "\xc3\xa4        9223372036854775807\n"};
    (void)state;
    for (int is_exact = 0; is_exact < 2; is_exact++) {
        struct stele_document document;
        char *said = NULL;
        size_t bytes = 0;
        make(&document);
        FILE *out = open_memstream(&said, &bytes);
        assert_non_null(out);
        stele_view_table(out, cJSON_GetObjectItemCaseSensitive(document.root, "rows"), columns, is_exact == 1);
        (void)fclose(out);
        assert_string_equal(said, wanted[is_exact]);
        free(said);
        stele_document_deinit(&document);
    }
}

/* JSON holds whole numbers to the last digit, null for what is not known, and only UTF-8. */
static void test_json(void **state)
{
    struct stele_document document;
    (void)state;
    make(&document);
    char *text = cJSON_PrintUnformatted(document.root);
    assert_string_equal(
        text, "{\"rows\":[{\"name\":\"a\\u001b[31m\xef\xbf\xbd\",\"size\":1536,\"none\":null,\"list\":[1,22]},"
              "{\"name\":\"\xc3\xa4\",\"size\":9223372036854775807,\"none\":null}]}");
    cJSON_free(text);
    stele_document_deinit(&document);
}

static int64_t calls_left, blocks;

static void *take_block(size_t bytes)
{
    void *block = calls_left-- == 1 ? NULL : malloc(bytes);
    blocks += block != NULL;
    return block;
}

static void drop_block(void *block)
{
    blocks -= block != NULL;
    free(block);
}

/* Whichever allocation fails: the document says that it is short, prints nothing, and leaves nothing behind. */
static void test_memory(void **state)
{
    struct stele_cli cli = {.output = "json", .command = stele_cli_commands[0]};
    bool was_short = true;
    FILE *saved = stderr;
    (void)state;
    stderr = fopen("/dev/null", "w");
    assert_non_null(stderr);
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = take_block, .free_fn = drop_block});
    for (int64_t n = 1; was_short; n++) {
        struct stele_document document;
        int status = STELE_CLI_DONE;
        calls_left = n;
        fill(&document);
        was_short = document.is_short;
        if (was_short)
            assert_true(stele_document_print(&document, &cli, &status));
        assert_int_equal(status, was_short ? STELE_CLI_FAILED : STELE_CLI_DONE);
        stele_document_deinit(&document);
        assert_int_equal(blocks, 0);
    }
    cJSON_InitHooks(NULL);
    (void)fclose(stderr);
    stderr = saved;
}

/* A cell that does not fit ends with dots. */
static void test_long_cell(void **state)
{
    struct stele_document document;
    static const struct stele_view_column column = {"name", "NAME", STELE_VIEW_TEXT};
    char text[8];
    (void)state;
    stele_document_init(&document);
    stele_document_text(&document, document.root, "name", "0123456789");
    assert_false(stele_view_cell(document.root, &column, false, text, sizeof(text)));
    assert_string_equal(text, "0123...");
    stele_document_deinit(&document);
}

/* Percentiles are right to less than a hundredth, at every size of time. */
static void test_latency(void **state)
{
    struct stele_latency *latency = calloc(1, sizeof(*latency));
    (void)state;
    assert_non_null(latency);
    assert_int_equal(stele_latency_at(latency, 0.5), -1);
    for (int64_t us = 1; us < INT64_C(1) << 41; us = us * 5 / 4 + 1) {
        memset(latency, 0, sizeof(*latency));
        for (int i = 0; i < 99; i++)
            stele_latency_add(latency, us);
        stele_latency_add(latency, INT64_MAX);
        int64_t at = stele_latency_at(latency, 0.99);
        if (at < us || (double)at > (double)us * 1.008)
            fail_msg("%lld us reads %lld", (long long)us, (long long)at);
        assert_int_equal(stele_latency_at(latency, 0.5), at);
        assert_int_equal(stele_latency_at(latency, 0.999), (INT64_C(1) << 41) - 1);
    }
    memset(latency, 0, sizeof(*latency));
    for (int us = 1; us <= 200; us++)
        stele_latency_add(latency, us);
    assert_int_equal(stele_latency_at(latency, 0.5), 100);
    assert_int_equal(stele_latency_at(latency, 0.99), 198);
    assert_int_equal(stele_latency_at(latency, 1), 200);
    stele_latency_add(latency, -5);
    assert_int_equal(stele_latency_at(latency, 0), 0);
    free(latency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_spans),  cmocka_unit_test(test_times),
        cmocka_unit_test(test_places),  cmocka_unit_test(test_pairs),  cmocka_unit_test(test_table),
        cmocka_unit_test(test_json),    cmocka_unit_test(test_memory), cmocka_unit_test(test_long_cell),
        cmocka_unit_test(test_latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
