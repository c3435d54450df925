/* One command of the command line: a family a file (cmd_dump.c, cmd_topic.c, ...), found through the table in stele.c.
 */
#ifndef STELE_CLI_CMD_H
#define STELE_CLI_CMD_H

enum { STELE_CLI_DONE = 0, STELE_CLI_FAILED = 1, STELE_CLI_USAGE = 2 };

/** What stands before the command on the line. */
struct stele_cli {
    const char *bootstrap; /* -b, STELE_BOOTSTRAP or 127.0.0.1:7835 */
};

/** argv[0] is the command's name. Returns the exit code; errors go to stderr as "stele COMMAND: what; way out". */
int stele_cmd_topic(const struct stele_cli *cli, int argc, char **argv);
int stele_cmd_produce(const struct stele_cli *cli, int argc, char **argv);
int stele_cmd_consume(const struct stele_cli *cli, int argc, char **argv);
int stele_cmd_dump(const struct stele_cli *cli, int argc, char **argv);

#endif
