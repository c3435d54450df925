#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stele_client *stele_cli_client(const struct stele_cli *cli, const char *command)
{
    struct stele_result result;
    struct stele_client *client = stele_client_new(cli->bootstrap, NULL, &result);
    if (client == NULL)
        (void)stele_cli_report(command, &result);
    return client;
}

int stele_cli_report(const char *command, const struct stele_result *result)
{
    if (result->code == 0)
        return STELE_CLI_DONE;
    fprintf(stderr, "stele %s: %s\n", command, result->text);
    return STELE_CLI_FAILED;
}

bool stele_cli_number(const char *text, int64_t min, int64_t max, int64_t *out_number)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || number < min || number > max)
        return false;
    *out_number = number;
    return true;
}

static bool parse_time(const char *text, int64_t *out_ms)
{
    struct tm parts = {.tm_isdst = 0};
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
    if (text[0] == '@')
        return stele_cli_number(text + 1, 0, INT64_MAX, out_ms);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        memset(&parts, 0, sizeof(parts));
        const char *end = strptime(text, formats[i], &parts);
        if (end != NULL && (*end == 0 || strcmp(end, "Z") == 0)) {
            *out_ms = (int64_t)timegm(&parts) * 1000;
            return true;
        }
    }
    return false;
}

bool stele_cli_place(const char *text, struct stele_cli_place *out_place)
{
    struct stele_cli_place place = {.is_offset = false};
    if (strcmp(text, "beginning") == 0)
        place.value = STELE_OFFSET_EARLIEST;
    else if (strcmp(text, "end") == 0)
        place.value = STELE_OFFSET_LATEST;
    else if (stele_cli_number(text, 0, INT64_MAX, &place.value))
        place.is_offset = true;
    else if (!parse_time(text, &place.value))
        return false;
    *out_place = place;
    return true;
}
