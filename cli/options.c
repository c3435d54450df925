#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stele_client *stele_cli_client(const struct stele_cli *cli, const char *command)
{
    struct stele_result result;
    /* A person waits: less patience than the library's half minute. */
    static const struct stele_setting settings[] = {
        {"client.id", "stele"}, {"request.timeout.ms", "10000"}, {NULL, NULL}};
    struct stele_client *client = stele_client_new(cli->bootstrap, settings, &result);
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

/* Exactly `digits` digits, at most `max`, moving *inout_at behind them. */
static bool take_number(const char **inout_at, int digits, int max, int *out_number)
{
    int number = 0;
    for (int i = 0; i < digits; i++) {
        char c = (*inout_at)[i];
        if (c < '0' || c > '9')
            return false;
        number = number * 10 + (c - '0');
    }
    *inout_at += digits;
    *out_number = number;
    return number <= max;
}

static bool take_character(const char **inout_at, char wanted)
{
    bool is_there = **inout_at == wanted;
    *inout_at += is_there;
    return is_there;
}

/* "Z", "+HH:MM" or "-HH:MM" in minutes east. */
static bool take_zone(const char **inout_at, int *out_minutes)
{
    int hours = 0, minutes = 0, sign = **inout_at == '-' ? -1 : 1;
    *out_minutes = 0;
    if (**inout_at == 0 || take_character(inout_at, 'Z'))
        return true;
    if (!take_character(inout_at, '+') && !take_character(inout_at, '-'))
        return false;
    bool is_good = take_number(inout_at, 2, 14, &hours);
    (void)take_character(inout_at, ':');
    is_good = is_good && take_number(inout_at, 2, 59, &minutes);
    *out_minutes = sign * (hours * 60 + minutes);
    return is_good;
}

/* "HH:MM[:SS[.fff]]"; digits beyond milliseconds are dropped. */
static bool take_clock(const char **inout_at, struct tm *parts, int *out_ms)
{
    if (!take_number(inout_at, 2, 23, &parts->tm_hour) || !take_character(inout_at, ':') ||
        !take_number(inout_at, 2, 59, &parts->tm_min))
        return false;
    if (!take_character(inout_at, ':'))
        return true;
    if (!take_number(inout_at, 2, 60, &parts->tm_sec))
        return false;
    if (!take_character(inout_at, '.'))
        return true;
    int weight = 100, digits = 0;
    for (; **inout_at >= '0' && **inout_at <= '9'; (*inout_at)++, digits++, weight /= 10)
        *out_ms += (**inout_at - '0') * weight;
    return digits > 0;
}

static bool parse_time(const char *text, int64_t *out_ms)
{
    struct tm parts;
    int year = 0, month = 0, day = 0, ms = 0, zone_minutes = 0;
    memset(&parts, 0, sizeof(parts));
    if (text[0] == '@')
        return stele_cli_number(text + 1, 0, INT64_MAX, out_ms);
    if (!take_number(&text, 4, 9999, &year) || !take_character(&text, '-') || !take_number(&text, 2, 12, &month) ||
        !take_character(&text, '-') || !take_number(&text, 2, 31, &day) || month == 0 || day == 0)
        return false;
    if ((take_character(&text, 'T') || take_character(&text, ' ')) && !take_clock(&text, &parts, &ms))
        return false;
    if (!take_zone(&text, &zone_minutes) || *text != 0)
        return false;
    parts.tm_year = year - 1900;
    parts.tm_mon = month - 1;
    parts.tm_mday = day;
    time_t seconds = timegm(&parts);
    *out_ms = ((int64_t)seconds - (int64_t)zone_minutes * 60) * 1000 + ms;
    return parts.tm_mday == day; /* not the 31st of a month of 30 days */
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

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool stele_cli_character(const char **inout_at, char *out_character)
{
    static const char letters[] = "ntr0\\", characters[] = "\n\t\r\0\\";
    const char *at = *inout_at;
    if (*at != '\\') {
        *out_character = *at;
        *inout_at = at + 1;
        return true;
    }
    const char *letter = at[1] == 0 ? NULL : strchr(letters, at[1]);
    if (letter != NULL) {
        *out_character = characters[letter - letters];
        *inout_at = at + 2;
        return true;
    }
    if (at[1] != 'x' || hex_digit(at[2]) < 0 || hex_digit(at[3]) < 0)
        return false;
    *out_character = (char)(hex_digit(at[2]) * 16 + hex_digit(at[3]));
    *inout_at = at + 4;
    return true;
}

size_t stele_cli_digits(int64_t number, char out_text[20])
{
    char reversed[20];
    size_t count = 0, at = 0;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        reversed[count++] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (number < 0)
        out_text[at++] = '-';
    while (count > 0)
        out_text[at++] = reversed[--count];
    return at;
}
