#include "cli/line.h"

#include "cli/options.h"

#include <stdio.h>
#include <string.h>

enum { DISTANCE_LETTERS_MAX = 64, NAME_BYTES_MAX = 128 };

bool stele_cli_is_of(const struct stele_cli_command *command, const char *family, size_t family_bytes)
{
    return strncmp(command->name, family, family_bytes) == 0 && command->name[family_bytes] == ' ';
}

const struct stele_cli_command *stele_cli_find(int count, char **words, int *out_words)
{
    int found_words = 0;
    for (const struct stele_cli_command *const *at = stele_cli_commands; count > 0 && *at != NULL; at++) {
        size_t bytes = strlen(words[0]);
        if (strcmp((*at)->name, words[0]) == 0) {
            *out_words = 1;
            return *at;
        }
        if (!stele_cli_is_of(*at, words[0], bytes))
            continue;
        found_words = 1;
        if (count > 1 && strcmp((*at)->name + bytes + 1, words[1]) == 0) {
            *out_words = 2;
            return *at;
        }
    }
    *out_words = found_words;
    return NULL;
}

static const struct stele_cli_option *find_in(const struct stele_cli_option *option, const char *name, size_t bytes)
{
    for (; option != NULL && option->name != NULL; option++) {
        if (strlen(option->name) == bytes && memcmp(option->name, name, bytes) == 0)
            return option;
        if (option->alias != NULL && strlen(option->alias) == bytes && memcmp(option->alias, name, bytes) == 0)
            return option;
    }
    return NULL;
}

const struct stele_cli_option *stele_cli_option_find(const struct stele_cli_command *command, const char *name,
                                                     size_t name_bytes)
{
    const struct stele_cli_option *option = command == NULL ? NULL : find_in(command->options, name, name_bytes);
    return option != NULL ? option : find_in(stele_cli_common_options, name, name_bytes);
}

bool stele_cli_is_option(const char *word)
{
    return word[0] == '-' && word[1] != 0 && !(word[1] >= '0' && word[1] <= '9');
}

static bool is_common(const struct stele_cli_option *option)
{
    for (const struct stele_cli_option *common = stele_cli_common_options; common->name != NULL; common++) {
        if (common == option)
            return true;
    }
    return false;
}

/* One argument after the other. */
struct reader {
    struct stele_cli *cli;
    void *line;
    int64_t now_ms;
    int argc;
    char **argv;
    int at;
};

static void say_bad_option(const struct stele_cli *cli, const char *word)
{
    char name[NAME_BYTES_MAX];
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    const char *nearest = stele_cli_nearest_option(cli->command, name);
    fprintf(stderr, "stele%s%s: there is no option %s;%s%s%s see stele%s%s --help\n", cli->command == NULL ? "" : " ",
            cli->command == NULL ? "" : cli->command->name, name, nearest[0] == 0 ? "" : " the nearest is ", nearest,
            nearest[0] == 0 ? "" : ";", cli->command == NULL ? "" : " ",
            cli->command == NULL ? "" : cli->command->name);
}

static bool is_choice(const char *choices, const char *value)
{
    size_t bytes = strlen(value);
    for (const char *at = choices; *at != 0; at += *at == '|') {
        size_t count = strcspn(at, "|");
        if (count == bytes && memcmp(at, value, bytes) == 0)
            return true;
        at += count;
    }
    return false;
}

/* What the option may hold, for the one who gave it something else. */
static void say_bad_value(const struct reader *reader, const struct stele_cli_option *option, const char *value)
{
    char want[NAME_BYTES_MAX];
    switch (option->kind) {
    case STELE_CLI_NUMBER:
        (void)snprintf(want, sizeof(want), "want a number from %lld to %lld", (long long)option->min,
                       (long long)option->max);
        break;
    case STELE_CLI_CHOICE:
        (void)snprintf(want, sizeof(want), "want one of %s", option->value);
        break;
    case STELE_CLI_PLACE:
        (void)snprintf(want, sizeof(want), "want beginning, end, an offset, or a time");
        break;
    case STELE_CLI_LIST:
        (void)snprintf(want, sizeof(want), "that is one more than the %d that fit", STELE_CLI_LIST_MAX);
        break;
    case STELE_CLI_FLAG:
    case STELE_CLI_TEXT:
        (void)snprintf(want, sizeof(want), "it takes no value");
        break;
    }
    const char *name = reader->cli->command == NULL ? "" : reader->cli->command->name;
    fprintf(stderr, "stele%s%s: %s %s: %s; see stele%s%s --help\n", name[0] == 0 ? "" : " ", name, option->name, value,
            want, name[0] == 0 ? "" : " ", name);
}

static bool take_value(const struct reader *reader, const struct stele_cli_option *option, void *to, const char *value)
{
    struct stele_cli_list *list = to;
    int64_t number;
    switch (option->kind) {
    case STELE_CLI_FLAG:
        *(bool *)to = true;
        return value == NULL;
    case STELE_CLI_NUMBER:
        if (!stele_cli_number(value, option->min, option->max, &number))
            return false;
        *(int64_t *)to = number;
        return true;
    case STELE_CLI_CHOICE:
        *(const char **)to = value;
        return is_choice(option->value, value);
    case STELE_CLI_TEXT:
        *(const char **)to = value;
        return true;
    case STELE_CLI_PLACE:
        return stele_cli_place(value, reader->now_ms, to);
    case STELE_CLI_LIST:
        if (list->count == STELE_CLI_LIST_MAX)
            return false;
        list->items[list->count++] = value;
        return true;
    }
    return false;
}

/* The option at reader->at, with its value from behind "=" or from the next argument. */
static bool take_option(struct reader *reader)
{
    const char *word = reader->argv[reader->at];
    size_t bytes = strcspn(word, "=");
    const char *value = word[0] == '-' && word[1] == '-' && word[bytes] == '=' ? word + bytes + 1 : NULL;
    const struct stele_cli_option *option =
        stele_cli_option_find(reader->cli->command, word, value == NULL ? strlen(word) : bytes);
    if (option == NULL) {
        say_bad_option(reader->cli, word);
        return false;
    }
    if (option->kind != STELE_CLI_FLAG && value == NULL && reader->at + 1 == reader->argc) {
        fprintf(stderr, "stele%s%s: %s needs a value: %s\n", reader->cli->command == NULL ? "" : " ",
                reader->cli->command == NULL ? "" : reader->cli->command->name, word, option->value);
        return false;
    }
    if (option->kind != STELE_CLI_FLAG && value == NULL)
        value = reader->argv[++reader->at];
    void *to = (char *)(is_common(option) ? (void *)reader->cli : reader->line) + option->at;
    if (take_value(reader, option, to, value))
        return true;
    say_bad_value(reader, option, value);
    return false;
}

int stele_cli_parse_common(struct stele_cli *cli, int argc, char **argv)
{
    struct reader reader = {.cli = cli, .argc = argc, .argv = argv};
    for (; reader.at < argc && stele_cli_is_option(argv[reader.at]); reader.at++) {
        if (!take_option(&reader))
            return -1;
    }
    return reader.at;
}

bool stele_cli_parse(struct stele_cli *cli, int argc, char **argv, int64_t now_ms, void *line)
{
    struct reader reader = {.cli = cli, .line = line, .now_ms = now_ms, .argc = argc, .argv = argv};
    struct stele_cli_words *words = line;
    const char *name = cli->command->name;
    bool is_only_words = false;
    words->items = argv;
    words->count = 0;
    for (; reader.at < argc; reader.at++) {
        char *word = argv[reader.at];
        if (!is_only_words && strcmp(word, "--") == 0)
            is_only_words = true;
        else if (is_only_words || !stele_cli_is_option(word))
            argv[words->count++] = word;
        else if (!take_option(&reader))
            return false;
    }
    if (cli->wants_help)
        return true;
    if (words->count < cli->command->words_min) {
        fprintf(stderr, "stele %s: %s is missing; see stele %s --help\n", name,
                words->count == 0 ? cli->command->arguments : "an argument", name);
        return false;
    }
    if (words->count > cli->command->words_max) {
        fprintf(stderr, "stele %s: unexpected %s; see stele %s --help\n", name, argv[cli->command->words_max], name);
        return false;
    }
    return true;
}

/* Nearest names */

static size_t least(size_t one, size_t two)
{
    return one < two ? one : two;
}

size_t stele_cli_distance(const char *left, const char *right)
{
    size_t rows[3][DISTANCE_LETTERS_MAX + 1];
    size_t left_count = strnlen(left, DISTANCE_LETTERS_MAX), right_count = strnlen(right, DISTANCE_LETTERS_MAX);
    for (size_t j = 0; j <= right_count; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= left_count; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= right_count; j++) {
            row[j] = least(above[j - 1] + (left[i - 1] != right[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1])
                row[j] = least(row[j], second[j - 2] + 1);
        }
    }
    return rows[left_count % 3][right_count];
}

/* A name is near when no more than a third of its letters differ, and at least one may. */
struct nearest {
    const char *wanted, *name;
    size_t distance;
};

static void consider(struct nearest *nearest, const char *name, const char *compared)
{
    size_t distance = stele_cli_distance(nearest->wanted, compared);
    size_t allowed = least(strlen(nearest->wanted), strlen(compared)) / 3 + 1;
    if (distance > allowed || (nearest->name[0] != 0 && distance >= nearest->distance))
        return;
    nearest->name = name;
    nearest->distance = distance;
}

const char *stele_cli_nearest_command(const char *name)
{
    struct nearest nearest = {.wanted = name, .name = ""};
    for (const struct stele_cli_command *const *at = stele_cli_commands; *at != NULL; at++) {
        const char *blank = strchr((*at)->name, ' ');
        consider(&nearest, (*at)->name, (*at)->name);
        if (blank != NULL && strchr(name, ' ') == NULL) /* "create" alone */
            consider(&nearest, (*at)->name, blank + 1);
    }
    return nearest.name;
}

const char *stele_cli_nearest_option(const struct stele_cli_command *command, const char *name)
{
    struct nearest nearest = {.wanted = name, .name = ""};
    const struct stele_cli_option *tables[] = {command == NULL ? NULL : command->options, stele_cli_common_options};
    for (int i = 0; i < 2; i++) {
        for (const struct stele_cli_option *option = tables[i]; option != NULL && option->name != NULL; option++) {
            consider(&nearest, option->name, option->name);
            if (option->alias != NULL)
                consider(&nearest, option->alias, option->alias);
        }
    }
    return nearest.name;
}
