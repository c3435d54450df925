/* stele, the command line: options before the command, then one row of the table. */
#include "cli/cmd.h"

#include "base/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct command {
    const char *name;
    int (*run)(const struct stele_cli *cli, int argc, char **argv);
    const char *summary;
};

static const struct command commands[] = {
    {"topic", stele_cmd_topic, "create and list topics"},
    {"produce", stele_cmd_produce, "send lines as records"},
    {"consume", stele_cmd_consume, "print records"},
    {"dump", stele_cmd_dump, "print or verify the files of a log"},
    {NULL, NULL, NULL}, /* ends the table */
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: stele [-b HOST:PORT[,HOST:PORT...]] COMMAND [ARGUMENTS]\n\ncommands:\n");
    for (const struct command *command = commands; command->name != NULL; command++)
        fprintf(out, "  %-10s %s\n", command->name, command->summary);
    fprintf(out, "\nSTELE_BOOTSTRAP names the nodes when -b does not; the default is 127.0.0.1:7835.\n"
                 "Exit codes: 0 done, 1 failed, 2 wrong usage.\n");
}

int main(int argc, char **argv)
{
    const char *from_environment = getenv("STELE_BOOTSTRAP");
    struct stele_cli cli = {.bootstrap = from_environment != NULL ? from_environment : "127.0.0.1:7835"};
    int at = 1;

    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "-b") == 0 && at + 1 < argc) {
            cli.bootstrap = argv[++at];
        } else if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
            print_usage(stdout);
            return STELE_CLI_DONE;
        } else if (strcmp(argv[at], "--version") == 0) {
            printf("stele %s\n", STELE_VERSION);
            return STELE_CLI_DONE;
        } else {
            fprintf(stderr, "stele: unknown option %s; see stele --help\n", argv[at]);
            return STELE_CLI_USAGE;
        }
    }
    if (at == argc) {
        print_usage(stderr);
        return STELE_CLI_USAGE;
    }
    for (const struct command *command = commands; command->name != NULL; command++) {
        if (strcmp(argv[at], command->name) == 0)
            return command->run(&cli, argc - at, argv + at);
    }
    fprintf(stderr, "stele: unknown command %s; see stele --help\n", argv[at]);
    return STELE_CLI_USAGE;
}
