#include "base/test/support.h"
#include "cli/help.h"
#include "cli/line.h"
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOW_MS = 1700000000 };

struct line {
    struct stele_cli_words words;
    int64_t number;
    const char *text, *choice;
    struct stele_cli_list list;
    struct stele_cli_place place;
    bool flag;
};

static const struct stele_cli_option options[] = {
    {.name = "-n",
     .alias = "--number",
     .value = "N",
     .kind = STELE_CLI_NUMBER,
     .at = offsetof(struct line, number),
     .min = 1,
     .max = 9,
     .help = "a number"},
    {.name = "--text", .value = "TEXT", .kind = STELE_CLI_TEXT, .at = offsetof(struct line, text), .help = "a text"},
    {.name = "--choice",
     .value = "one|two",
     .kind = STELE_CLI_CHOICE,
     .at = offsetof(struct line, choice),
     .help = "one of two"},
    {.name = "--list", .value = "ITEM", .kind = STELE_CLI_LIST, .at = offsetof(struct line, list), .help = "several"},
    {.name = "--place",
     .value = "PLACE",
     .kind = STELE_CLI_PLACE,
     .at = offsetof(struct line, place),
     .help = "a place"},
    {.name = "--flag", .kind = STELE_CLI_FLAG, .at = offsetof(struct line, flag), .help = "a flag"},
    {.name = NULL},
};

static const struct stele_cli_command command = {.name = "some thing",
                                                 .arguments = "FIRST [SECOND]",
                                                 .words_min = 1,
                                                 .words_max = 2,
                                                 .summary = "do it",
                                                 .options = options,
                                                 .line_bytes = sizeof(struct line)};

/* Splits at blanks; "_" stands for an empty argument. Returns how many. */
static int split(char *text, char **out_words, int capacity)
{
    int count = 0;
    char *at = text;
    while (*at != 0 && count < capacity) {
        size_t bytes = strcspn(at, " ");
        out_words[count] = at;
        at += bytes + (at[bytes] == ' ');
        out_words[count][bytes] = 0;
        if (strcmp(out_words[count], "_") == 0)
            out_words[count][0] = 0;
        count++;
    }
    return count;
}

static bool parse(const char *text, struct stele_cli *cli, struct line *line, char *storage, char **words)
{
    *cli = (struct stele_cli){.command = &command, .output = "table"};
    memset(line, 0, sizeof(*line));
    (void)snprintf(storage, 512, "%s", text);
    int count = split(storage, words, 32);
    return stele_cli_parse(cli, count, words, NOW_MS, line);
}

/* What a line says arrives in the struct, wherever its options stand. */
static void test_values(void **state)
{
    static const struct {
        const char *text;
        int words;
        int64_t number;
        const char *value, *choice;
        size_t items;
        bool flag, is_json, is_exact;
    } cases[] = {
        {"a", 1, 0, NULL, NULL, 0, false, false, false},
        {"-n 9 a --text t", 1, 9, "t", NULL, 0, false, false, false},
        {"a --number=1 b --flag", 2, 1, NULL, NULL, 0, true, false, false},
        {"a --list x --choice two --list=y", 1, 0, NULL, "two", 2, false, false, false},
        {"--exact a -o json", 1, 0, NULL, NULL, 0, false, true, true},
        {"a -1h", 2, 0, NULL, NULL, 0, false, false, false},               /* no option: a span of time */
        {"a --text --flag", 1, 0, "--flag", NULL, 0, false, false, false}, /* a value may look like one */
        {"a --text _", 1, 0, "", NULL, 0, false, false, false},
        {"--flag -- --list", 1, 0, NULL, NULL, 0, true, false, false},
        {"- a", 2, 0, NULL, NULL, 0, false, false, false},
        {"--help", 0, 0, NULL, NULL, 0, false, false, false}, /* what is missing is not missed */
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_cli cli;
        struct line line;
        char storage[512], *words[32];
        assert_true(parse(cases[i].text, &cli, &line, storage, words));
        assert_int_equal(line.words.count, cases[i].words);
        assert_int_equal(line.number, cases[i].number);
        assert_int_equal(line.list.count, cases[i].items);
        assert_int_equal(line.flag, cases[i].flag);
        assert_int_equal(stele_cli_is_json(&cli), cases[i].is_json);
        assert_int_equal(cli.is_exact, cases[i].is_exact);
        assert_string_equal(line.text == NULL ? "-" : line.text, cases[i].value == NULL ? "-" : cases[i].value);
        assert_string_equal(line.choice == NULL ? "-" : line.choice, cases[i].choice == NULL ? "-" : cases[i].choice);
    }
}

/* Runs with standard error in a file, and returns what was said there. */
static void hear(const char *text, char *out_said, size_t capacity)
{
    struct stele_cli cli;
    struct line line;
    char storage[512], *words[32], *said = NULL;
    size_t bytes = 0;
    FILE *saved = stderr;
    stderr = open_memstream(&said, &bytes);
    assert_non_null(stderr);
    bool is_good = parse(text, &cli, &line, storage, words);
    (void)fclose(stderr);
    stderr = saved;
    assert_false(is_good);
    (void)snprintf(out_said, capacity, "%s", said);
    free(said);
}

/* A wrong line is refused with what is wrong and the nearest right thing. */
static void test_refusals(void **state)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"-n 10 a", "-n 10: want a number from 1 to 9"},
        {"-n 0 a", "want a number from 1 to 9"},
        {"-n x a", "want a number from 1 to 9"},
        {"-n 1x a", "want a number from 1 to 9"},
        {"a -n", "-n needs a value: N"},
        {"a --choice three", "--choice three: want one of one|two"},
        {"a --choice tw", "want one of one|two"},
        {"a --place nowhere", "want beginning, end, an offset, or a time"},
        {"a --flag=x", "it takes no value"},
        {"a --txet t", "there is no option --txet; the nearest is --text; see stele some thing --help"},
        {"a --outptu json", "the nearest is --output;"},
        {"a --zzzzzzzz", "there is no option --zzzzzzzz; see stele some thing --help"},
        {"--flag", "FIRST [SECOND] is missing"},
        {"a b c", "unexpected c"},
        {"a -o yaml", "-o yaml: want one of table|json"},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char said[512];
        hear(cases[i].text, said, sizeof(said));
        if (strstr(said, cases[i].said) == NULL)
            fail_msg("'%s' says: %s", cases[i].text, said);
    }
}

/* A list takes so many items and refuses the next one. */
static void test_list_bound(void **state)
{
    struct stele_cli cli = {.command = &command, .output = "table"};
    struct line line;
    char *words[2 * STELE_CLI_LIST_MAX + 3], name[] = "--list", item[] = "x";
    int count = 0;
    (void)state;
    words[count++] = item;
    for (int i = 0; i <= STELE_CLI_LIST_MAX; i++) {
        words[count++] = name;
        words[count++] = item;
    }
    memset(&line, 0, sizeof(line));
    assert_true(stele_cli_parse(&cli, count - 2, words, NOW_MS, &line));
    assert_int_equal(line.list.count, STELE_CLI_LIST_MAX);
    memset(&line, 0, sizeof(line));
    FILE *saved = stderr;
    stderr = fopen("/dev/null", "w");
    assert_non_null(stderr);
    bool is_good = stele_cli_parse(&cli, count, words, NOW_MS, &line);
    (void)fclose(stderr);
    stderr = saved;
    assert_false(is_good);
}

/* The command is found by one word or two; of a family alone it is known that there is one. */
static void test_find(void **state)
{
    static const struct {
        const char *text, *name;
        int words;
    } cases[] = {
        {"produce t", "produce", 1},
        {"topic create t", "topic create", 2},
        {"topic", NULL, 1},
        {"topic nothing", NULL, 1},
        {"create", NULL, 0},
        {"top", NULL, 0},
        {"bench end-to-end", "bench end-to-end", 2},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char storage[128], *words[8];
        int taken = 0;
        (void)snprintf(storage, sizeof(storage), "%s", cases[i].text);
        int count = split(storage, words, 8);
        const struct stele_cli_command *found = stele_cli_find(count, words, &taken);
        assert_string_equal(found == NULL ? "-" : found->name, cases[i].name == NULL ? "-" : cases[i].name);
        assert_int_equal(taken, cases[i].words);
    }
}

/* The nearest name is the one that a slip of the fingers makes of it; what is far has none. */
static void test_nearest(void **state)
{
    static const struct {
        const char *wanted, *nearest;
    } commands[] = {
        {"prodcue", "produce"},
        {"consme", "consume"},
        {"topic craete", "topic create"},
        {"create", "topic create"},
        {"topik list", "topic list"},
        {"node slow", "node slowlog"},
        {"xyzzy", ""},
        {"log explian", "log explain"},
        {"", ""},
    };
    static const struct {
        const char *left, *right;
        size_t distance;
    } distances[] = {
        {"", "", 0},       {"abc", "abc", 0}, {"abc", "", 3},           {"abc", "acb", 1},
        {"abc", "abd", 1}, {"abc", "ab", 1},  {"kitten", "sitting", 3}, {"ab", "ba", 1},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(commands); i++)
        assert_string_equal(stele_cli_nearest_command(commands[i].wanted), commands[i].nearest);
    for (size_t i = 0; i < STELE_ARRAY_LEN(distances); i++) {
        assert_int_equal(stele_cli_distance(distances[i].left, distances[i].right), distances[i].distance);
        assert_int_equal(stele_cli_distance(distances[i].right, distances[i].left), distances[i].distance);
    }
    assert_string_equal(stele_cli_nearest_option(&command, "--numbr"), "--number");
    assert_string_equal(stele_cli_nearest_option(NULL, "--boot"), "");
    assert_string_equal(stele_cli_nearest_option(NULL, "--bootstap"), "--bootstrap");
}

/* What the shells offer for the last word of a line. */
static void test_completion(void **state)
{
    static const struct {
        const char *text, *has, *has_not;
        bool wants_topic, wants_setting, wants_file;
    } cases[] = {
        {"_", "topic\t", "create", false, false, false},
        {"to", "topic\t", "produce", false, false, false},
        {"--", "--version", "topic", false, false, false},
        {"topic _", "create\t", "produce", false, false, false},
        {"topic de", "delete\t", "create", false, false, false},
        {"topic describe _", "", "create", true, false, false},
        {"topic describe a _", "", "create", true, false, false},
        {"consume --", "--from", "--verify", false, false, false},
        {"consume t _", "", "t", false, false, false}, /* one topic is all */
        {"consume t --from _", "-1h\t", "--to", false, false, false},
        {"produce t --compression z", "zstd", "gzip", false, false, false},
        {"topic list -o _", "json", "list", false, false, false},
        {"topic create t --config re", "", "t", false, true, false},
        {"config describe --topic _", "", "t", true, false, false},
        {"config set _", "", "t", false, true, false},
        {"dump _", "", "t", false, false, true},
        {"produce t -l _", "", "t", false, false, true},
        {"nothing _", "", "topic", false, false, false},
    };
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        char storage[128], *words[8], *said = NULL;
        size_t bytes = 0;
        struct stele_completion completion;
        (void)snprintf(storage, sizeof(storage), "%s", cases[i].text);
        int count = split(storage, words, 8);
        FILE *out = open_memstream(&said, &bytes);
        assert_non_null(out);
        stele_help_complete(out, count, words, &completion);
        (void)fclose(out);
        if (strstr(said, cases[i].has) == NULL || strstr(said, cases[i].has_not) != NULL)
            fail_msg("'%s' offers: %s", cases[i].text, said);
        assert_int_equal(completion.wants_topic, cases[i].wants_topic);
        assert_int_equal(completion.wants_setting, cases[i].wants_setting);
        assert_int_equal(completion.wants_file, cases[i].wants_file);
        free(said);
    }
}

/* Every row of the table is whole: what help, completion and the manual take from it is there, and no option hides
 * another one or a common one. */
static void test_rows(void **state)
{
    (void)state;
    for (const struct stele_cli_command *const *at = stele_cli_commands; *at != NULL; at++) {
        char *help = NULL;
        size_t bytes = 0;
        FILE *out = open_memstream(&help, &bytes);
        assert_non_null(out);
        stele_help_command(out, *at);
        (void)fclose(out);
        assert_non_null((*at)->run);
        assert_true((*at)->summary[0] >= 'a' && (*at)->summary[0] <= 'z');
        assert_true((*at)->line_bytes >= sizeof(struct stele_cli_words));
        assert_true((*at)->words_max >= (*at)->words_min);
        assert_int_equal((*at)->words_max > 0, (*at)->arguments[0] != 0);
        for (const struct stele_cli_option *option = (*at)->options; option != NULL && option->name != NULL; option++) {
            assert_ptr_equal(stele_cli_option_find(*at, option->name, strlen(option->name)), option);
            assert_ptr_equal(stele_cli_option_find(*at, option->alias == NULL ? option->name : option->alias,
                                                   strlen(option->alias == NULL ? option->name : option->alias)),
                             option);
            assert_int_equal(option->value == NULL, option->kind == STELE_CLI_FLAG);
            assert_true(option->at < (*at)->line_bytes);
            assert_true(option->kind != STELE_CLI_NUMBER || option->min < option->max);
            assert_non_null(strstr(help, option->name));
            for (const struct stele_cli_option *common = stele_cli_common_options; common->name != NULL; common++) {
                assert_string_not_equal(option->name, common->name);
                assert_string_not_equal(option->alias == NULL ? "" : option->alias,
                                        common->alias == NULL ? "-" : common->alias);
            }
        }
        for (const char *line = help; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
            if (strcspn(line, "\n") > 120)
                fail_msg("a line of the help of %s is too long", (*at)->name);
        }
        free(help);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_refusals), cmocka_unit_test(test_list_bound),
        cmocka_unit_test(test_find),   cmocka_unit_test(test_nearest),  cmocka_unit_test(test_completion),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
