/* stele, the command line: finds the row of the command, parses its line, runs it. */
#include "cli/complete.h"
#include "cli/help.h"
#include "cli/line.h"
#include "cli/options.h"

#include "host/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run(struct stele_cli *cli, int argc, char **argv)
{
    void *line = calloc(1, cli->command->line_bytes);
    int status = STELE_CLI_USAGE;
    if (line == NULL)
        return stele_cli_fail(cli, STELE_CLI_FAILED, "out of memory");
    if (cli->command->initial != NULL)
        memcpy(line, cli->command->initial, cli->command->line_bytes);
    if (stele_cli_parse(cli, argc, argv, stele_clock_wall_ms(), line)) {
        if (cli->wants_help) {
            stele_help_command(stdout, cli->command);
            status = STELE_CLI_DONE;
        } else
            status = cli->command->run(cli, line);
    }
    free(line);
    return status;
}

/* No command of that name. */
static int refuse(int argc, char **argv, int words)
{
    char name[256];
    if (words == 1 && argc == 1) {
        stele_help_family(stderr, argv[0]);
        return STELE_CLI_USAGE;
    }
    if (words == 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        stele_help_family(stdout, argv[0]);
        return STELE_CLI_DONE;
    }
    (void)snprintf(name, sizeof(name), "%s%s%s", argv[0], words == 1 ? " " : "", words == 1 ? argv[1] : "");
    const char *nearest = stele_cli_nearest_command(name);
    if (nearest[0] == 0 && argc > 1) { /* a family that is misspelt */
        (void)snprintf(name, sizeof(name), "%s %s", argv[0], argv[1]);
        nearest = stele_cli_nearest_command(name);
    }
    fprintf(stderr, "stele: there is no command %s;%s%s%s see stele%s%s --help\n", name,
            nearest[0] == 0 ? "" : " the nearest is '", nearest, nearest[0] == 0 ? "" : "';", words == 1 ? " " : "",
            words == 1 ? argv[0] : "");
    return STELE_CLI_USAGE;
}

/* What stands alone on the line and is for the build and the shells. */
static int run_special(int argc, char **argv)
{
    if (strcmp(argv[1], "--version") == 0)
        printf("stele %s\n", STELE_VERSION);
    else if (strcmp(argv[1], "--manual") == 0)
        stele_help_manual(stdout);
    else if (strcmp(argv[1], "--complete") == 0)
        stele_complete(argc - 2, argv + 2);
    else
        return -1;
    return STELE_CLI_DONE;
}

static int dispatch(int argc, char **argv)
{
    const char *from_environment = getenv("STELE_BOOTSTRAP");
    bool is_set = from_environment != NULL && from_environment[0] != 0;
    struct stele_cli cli = {.bootstrap = is_set ? from_environment : "127.0.0.1:7835", .output = "table"};
    int special = argc < 2 ? -1 : run_special(argc, argv), words = 0;
    if (special >= 0)
        return special;
    int first = stele_cli_parse_common(&cli, argc - 1, argv + 1) + 1;
    if (first == 0)
        return STELE_CLI_USAGE;
    if (first == argc) {
        stele_help_all(cli.wants_help ? stdout : stderr);
        return cli.wants_help ? STELE_CLI_DONE : STELE_CLI_USAGE;
    }
    cli.command = stele_cli_find(argc - first, argv + first, &words);
    if (cli.command == NULL)
        return refuse(argc - first, argv + first, words);
    return run(&cli, argc - first - words, argv + first + words);
}

int main(int argc, char **argv)
{
    int status = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == STELE_CLI_DONE) {
        perror("stele: standard output");
        status = STELE_CLI_FAILED;
    }
    return status;
}
