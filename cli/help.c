#include "cli/help.h"

#include "cli/line.h"

#include <string.h>

enum { WIDTH = 100, TEXT_BYTES = 512, NAMES_MAX = 34 };

/* Words of a text in lines that begin with `indent` blanks; the first line has `column` characters already. */
static void wrap(FILE *out, const char *text, size_t indent, size_t column)
{
    for (bool is_first = true; *text != 0; is_first = false) {
        size_t bytes = strcspn(text, " \n");
        bool is_paragraph = text[bytes] == '\n';
        if (!is_first && column + 1 + bytes > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!is_first && column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)bytes, text);
        column += bytes;
        text += bytes;
        for (; *text == '\n'; text++)
            fputc('\n', out);
        text += strspn(text, " ");
        if (is_paragraph) {
            fprintf(out, "%*s", (int)indent, "");
            column = indent;
        }
    }
    fputc('\n', out);
}

/* "[-p PARTITIONS]", as it stands in a synopsis. */
static void print_short(char *out_text, const struct stele_cli_option *option)
{
    (void)snprintf(out_text, TEXT_BYTES, "[%s%s%s]%s", option->name, option->value == NULL ? "" : " ",
                   option->value == NULL ? "" : option->value, option->kind == STELE_CLI_LIST ? "..." : "");
}

/* "-p, --partitions PARTITIONS", as it stands in a list: the short one first. */
static void print_long(char *out_text, const struct stele_cli_option *option)
{
    const char *first = option->name, *second = option->alias;
    if (second != NULL && strlen(second) < strlen(first)) {
        first = option->alias;
        second = option->name;
    }
    (void)snprintf(out_text, TEXT_BYTES, "%s%s%s%s%s", first, second == NULL ? "" : ", ", second == NULL ? "" : second,
                   option->value == NULL ? "" : " ", option->value == NULL ? "" : option->value);
}

static void print_synopsis(FILE *out, const struct stele_cli_command *command, size_t column)
{
    char text[TEXT_BYTES];
    size_t indent = column + strlen("stele ") + strlen(command->name), at = indent;
    fprintf(out, "stele %s", command->name);
    if (command->arguments[0] != 0) {
        fprintf(out, " %s", command->arguments);
        at += 1 + strlen(command->arguments);
    }
    for (const struct stele_cli_option *option = command->options; option != NULL && option->name != NULL; option++) {
        print_short(text, option);
        if (at + 1 + strlen(text) > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        }
        fprintf(out, " %s", text);
        at += 1 + strlen(text);
    }
    fputc('\n', out);
}

void stele_help_usage(FILE *out, const struct stele_cli_command *command)
{
    fputs("usage: ", out);
    print_synopsis(out, command, strlen("usage: "));
}

static void print_options(FILE *out, const struct stele_cli_option *options)
{
    char text[TEXT_BYTES];
    size_t width = 0;
    for (const struct stele_cli_option *option = options; option != NULL && option->name != NULL; option++) {
        print_long(text, option);
        size_t bytes = strlen(text);
        width = bytes > width && bytes <= NAMES_MAX ? bytes : width;
    }
    for (const struct stele_cli_option *option = options; option != NULL && option->name != NULL; option++) {
        print_long(text, option);
        fprintf(out, "  %-*s", (int)width, text);
        if (strlen(text) > width)
            fprintf(out, "\n  %*s", (int)width, "");
        fputs("  ", out);
        wrap(out, option->help, width + 4, width + 4);
    }
}

static void print_sentence(FILE *out, const char *summary)
{
    char text[TEXT_BYTES];
    (void)snprintf(text, sizeof(text), "%s.", summary);
    if (text[0] >= 'a' && text[0] <= 'z')
        text[0] = (char)(text[0] - 'a' + 'A');
    wrap(out, text, 0, 0);
}

static void print_exits(FILE *out)
{
    char text[TEXT_BYTES];
    size_t at = (size_t)snprintf(text, sizeof(text), "Exit codes:");
    for (const struct stele_cli_exit *code = stele_cli_exits; code->meaning != NULL && at < sizeof(text); code++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, " %d %s%s", code->code, code->meaning,
                               code[1].meaning == NULL ? "." : ";");
    wrap(out, text, 0, 0);
}

void stele_help_command(FILE *out, const struct stele_cli_command *command)
{
    stele_help_usage(out, command);
    fputc('\n', out);
    print_sentence(out, command->summary);
    if (command->details != NULL) {
        fputc('\n', out);
        wrap(out, command->details, 0, 0);
    }
    fputs("\noptions:\n", out);
    print_options(out, command->options);
    fputs("\noptions of every command:\n", out);
    print_options(out, stele_cli_common_options);
    fputc('\n', out);
    print_exits(out);
}

static void print_commands(FILE *out, const char *family)
{
    size_t width = 0;
    for (const struct stele_cli_command *const *at = stele_cli_commands; *at != NULL; at++) {
        size_t bytes = strlen((*at)->name);
        width = bytes > width ? bytes : width;
    }
    for (const struct stele_cli_command *const *at = stele_cli_commands; *at != NULL; at++) {
        if (family == NULL || stele_cli_is_of(*at, family, strlen(family)))
            fprintf(out, "  %-*s  %s\n", (int)width, (*at)->name, (*at)->summary);
    }
}

void stele_help_family(FILE *out, const char *family)
{
    fprintf(out, "usage: stele %s COMMAND [ARGUMENTS]\n\ncommands:\n", family);
    print_commands(out, family);
    fprintf(out, "\n'stele %s COMMAND --help' says more.\n", family);
}

void stele_help_all(FILE *out)
{
    fputs("usage: stele COMMAND [ARGUMENTS]\n       stele --version\n\ncommands:\n", out);
    print_commands(out, NULL);
    fputs("\noptions of every command:\n", out);
    print_options(out, stele_cli_common_options);
    fputs("\n'stele COMMAND --help' says more.\n\n", out);
    print_exits(out);
}

/* The manual page */

/* Text for a page: a backslash or a hyphen is escaped, a line that begins with a dot or a quote too. */
static void put_roff(FILE *out, const char *text)
{
    for (bool is_start = true; *text != 0; text++) {
        if (is_start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        is_start = *text == '\n';
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\n' && text[1] == '\n') {
            fputs("\n.PP", out);
        } else
            fputc(*text, out);
    }
}

static void put_roff_options(FILE *out, const struct stele_cli_option *options)
{
    char text[TEXT_BYTES];
    for (const struct stele_cli_option *option = options; option != NULL && option->name != NULL; option++) {
        print_long(text, option);
        fputs(".TP\n.B ", out);
        put_roff(out, text);
        fputc('\n', out);
        put_roff(out, option->help);
        fputc('\n', out);
    }
}

static void put_roff_command(FILE *out, const struct stele_cli_command *command)
{
    char text[TEXT_BYTES];
    fprintf(out, ".SS stele %s\n.B stele %s", command->name, command->name);
    if (command->arguments[0] != 0) {
        fputs(" ", out);
        put_roff(out, command->arguments);
    }
    for (const struct stele_cli_option *option = command->options; option != NULL && option->name != NULL; option++) {
        print_short(text, option);
        fputs("\n", out);
        put_roff(out, text);
    }
    fputs("\n.PP\n", out);
    (void)snprintf(text, sizeof(text), "%c%s.", command->summary[0] - 'a' + 'A', command->summary + 1);
    put_roff(out, text);
    fputc('\n', out);
    if (command->details != NULL) {
        fputs(".PP\n", out);
        put_roff(out, command->details);
        fputc('\n', out);
    }
    put_roff_options(out, command->options);
}

void stele_help_manual(FILE *out)
{
    fputs(".TH STELE 1\n.SH NAME\nstele \\- command line of the Stele log\n.SH SYNOPSIS\n"
          ".B stele\n.I COMMAND\n[\\fIARGUMENTS\\fR]\n.SH DESCRIPTION\n"
          "Makes and shows topics, sends and prints records, explains what lies on disk and why, and measures.\n"
          "Nodes are\n.BR steled (1).\n.SH COMMANDS\n",
          out);
    for (const struct stele_cli_command *const *at = stele_cli_commands; *at != NULL; at++)
        put_roff_command(out, *at);
    fputs(".SH OPTIONS OF EVERY COMMAND\n", out);
    put_roff_options(out, stele_cli_common_options);
    fputs(".SH EXIT STATUS\n", out);
    for (const struct stele_cli_exit *code = stele_cli_exits; code->meaning != NULL; code++)
        fprintf(out, ".TP\n.B %d\n%s\n", code->code, code->meaning);
    fputs(".SH ENVIRONMENT\n.TP\n.B STELE_BOOTSTRAP\nThe nodes to begin with, unless\n.B \\-b\nnames them.\n"
          ".SH SEE ALSO\n.BR steled (1)\n",
          out);
}

/* Completion */

static void offer(FILE *out, const char *begun, const char *word, const char *meaning)
{
    if (strncmp(word, begun, strlen(begun)) == 0)
        fprintf(out, "%s\t%s\n", word, meaning);
}

/* The first or the second word of the names. */
static void offer_names(FILE *out, const char *family, const char *begun)
{
    const char *last = "";
    for (const struct stele_cli_command *const *at = stele_cli_commands; *at != NULL; at++) {
        char word[64];
        const char *name = (*at)->name;
        if (family != NULL && !stele_cli_is_of(*at, family, strlen(family)))
            continue;
        name += family == NULL ? 0 : strlen(family) + 1;
        size_t bytes = strcspn(name, " ");
        if (strncmp(name, last, bytes) == 0 && last[bytes] == ' ' && name[bytes] == ' ')
            continue; /* a family that was named already */
        (void)snprintf(word, sizeof(word), "%.*s", (int)bytes, name);
        offer(out, begun, word, name[bytes] == 0 ? (*at)->summary : "commands");
        last = name;
    }
}

static void offer_options(FILE *out, const char *begun, const struct stele_cli_option *options)
{
    for (; options != NULL && options->name != NULL; options++) {
        offer(out, begun, options->name, options->help);
        if (options->alias != NULL)
            offer(out, begun, options->alias, options->help);
    }
}

/* A value or an argument by what its name in the help says it is. */
static void offer_kind(FILE *out, const char *begun, const char *kind, struct stele_completion *completion)
{
    char token[64];
    completion->wants_topic = strncmp(kind, "TOPIC", 5) == 0;
    completion->wants_partition = strncmp(kind, "TOPIC/", 6) == 0 || strncmp(kind, "TOPIC[/", 7) == 0;
    completion->wants_setting = strncmp(kind, "NAME", 4) == 0;
    completion->wants_node = strcmp(kind, "NODE") == 0;
    completion->wants_file = strncmp(kind, "FILE", 4) == 0 || strncmp(kind, "DIR", 3) == 0;
    for (const char *at = kind; strchr(kind, '|') != NULL && *at >= 'a' && *at <= 'z'; at += *at == '|') {
        size_t bytes = strcspn(at, "|");
        (void)snprintf(token, sizeof(token), "%.*s", (int)bytes, at);
        offer(out, begun, token, "");
        at += bytes;
    }
    if (strncmp(kind, "TIME", 4) == 0 || strncmp(kind, "PLACE", 5) == 0) {
        static const char *const times[] = {"beginning", "end", "now", "-1h", "-1d", NULL};
        for (int i = 0; times[i] != NULL; i++)
            offer(out, begun, times[i], "time");
    }
}

/* The index-th token of "TOPIC [TIME...]", without brackets; the last one when there are fewer. */
static void find_token(const char *arguments, int index, char *out_token, size_t capacity)
{
    out_token[0] = 0;
    for (const char *at = arguments; *at != 0 && index >= 0; index--) {
        at += strspn(at, " [");
        size_t bytes = strcspn(at, " ");
        if (bytes == 0)
            break;
        (void)snprintf(out_token, capacity, "%.*s", (int)bytes, at);
        at += bytes;
    }
}

void stele_help_complete(FILE *out, int count, char **words, struct stele_completion *out_completion)
{
    const char *begun = count == 0 ? "" : words[count - 1];
    int name_words = 0, position = 0;
    const struct stele_cli_option *open = NULL; /* whose value comes next */
    char token[TEXT_BYTES];
    *out_completion = (struct stele_completion){.wants_topic = false};
    const struct stele_cli_command *command = count < 2 ? NULL : stele_cli_find(count - 1, words, &name_words);
    if (command == NULL) {
        offer_names(out, name_words == 1 && count == 2 ? words[0] : count > 1 ? "/" : NULL, begun);
        if (count == 1 && begun[0] == '-') {
            offer_options(out, begun, stele_cli_common_options);
            offer(out, begun, "--version", "print the version");
        }
        return;
    }
    for (int i = name_words; i < count - 1; i++) {
        bool is_value = open != NULL;
        const struct stele_cli_option *option =
            is_value ? NULL : stele_cli_option_find(command, words[i], strlen(words[i]));
        position += !is_value && !stele_cli_is_option(words[i]);
        open = option != NULL && option->kind != STELE_CLI_FLAG ? option : NULL;
    }
    if (open != NULL) {
        offer_kind(out, begun, open->value, out_completion);
    } else if (begun[0] == '-') {
        offer_options(out, begun, command->options);
        offer_options(out, begun, stele_cli_common_options);
    } else if (position < command->words_max) {
        find_token(command->arguments, position, token, sizeof(token));
        offer_kind(out, begun, token, out_completion);
    }
}
