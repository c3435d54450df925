#include "cli/options.h"

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct stele_client *new_client(const struct stele_cli *cli, const char *timeout_ms, int *out_status)
{
    struct stele_result result;
    const struct stele_setting settings[] = {{"client.id", "stele"}, {"request.timeout.ms", timeout_ms}, {NULL, NULL}};
    struct stele_client *client = stele_client_new(cli->bootstrap, settings, &result);
    if (client == NULL) {
        *out_status = stele_cli_report(cli, &result);
        if (result.code == STELE_INVALID_ARGUMENT) /* -b or STELE_BOOTSTRAP is no list of addresses */
            *out_status = STELE_CLI_USAGE;
    }
    return client;
}

/* A person waits: less patience than the library's half minute. */
struct stele_client *stele_cli_client(const struct stele_cli *cli, int *out_status)
{
    return new_client(cli, "10000", out_status);
}

struct stele_client *stele_cli_client_patient(const struct stele_cli *cli, int *out_status)
{
    return new_client(cli, "900000", out_status);
}

int stele_cli_exit_of(int code)
{
    switch (code) {
    case 0:
        return STELE_CLI_DONE;
    case STELE_UNKNOWN_TOPIC_OR_PARTITION:
    case STELE_UNKNOWN_TOPIC_ID:
    case STELE_NOT_FOUND:
    case STELE_BROKER_ID_NOT_REGISTERED:
    case STELE_VOTER_NOT_FOUND:
    case STELE_NO_REASSIGNMENT_IN_PROGRESS:
        return STELE_CLI_MISSING;
    case STELE_TOPIC_ALREADY_EXISTS:
    case STELE_EXISTS:
    case STELE_DUPLICATE_VOTER:
        return STELE_CLI_EXISTS;
    case STELE_REQUEST_TIMED_OUT:
    case STELE_UNREACHABLE:
    case STELE_CLOSED:
        return STELE_CLI_UNREACHABLE;
    default:
        return STELE_CLI_FAILED;
    }
}

int stele_cli_report(const struct stele_cli *cli, const struct stele_result *result)
{
    int status = stele_cli_exit_of(result->code);
    bool has_no_way_out = status == STELE_CLI_MISSING && strstr(result->text, "no topic") != NULL &&
                          strstr(result->text, "topic list") == NULL; /* a node does not know of commands */
    if (result->code != 0)
        fprintf(stderr, "stele %s: %s%s\n", cli->command->name, result->text,
                has_no_way_out ? "; stele topic list shows those that are" : "");
    return status;
}

int stele_cli_report_controlled(const struct stele_cli *cli, const struct stele_result *result)
{
    static const struct stele_setting settings[] = {
        {"client.id", "stele"}, {"request.timeout.ms", "2000"}, {NULL, NULL}}; /* who waited waits no longer */
    bool is_late = result->code == STELE_NOT_CONTROLLER || (stele_cli_exit_of(result->code) == STELE_CLI_UNREACHABLE &&
                                                            strstr(result->text, "no answer from") != NULL);
    struct stele_client *client = is_late ? stele_client_new(cli->bootstrap, settings, NULL) : NULL;
    struct stele_quorum_description *quorum = NULL;
    struct stele_result looked = {.code = -1};
    if (client != NULL)
        looked = stele_quorum_describe(client, true, &quorum);
    int32_t node_id = looked.code == 0 ? quorum->node_id : -1;
    stele_quorum_description_free(quorum);
    stele_client_free(client);
    if (looked.code != 0)
        return stele_cli_report(cli, result);
    return stele_cli_fail(
        cli, STELE_CLI_FAILED,
        "no answer of the quorum's leader in time: a majority of the voters has to be up and to reach "
        "each other; stele quorum status --local shows what node %d knows",
        node_id);
}

int stele_cli_fail(const struct stele_cli *cli, int status, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "stele %s: ", cli->command->name);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs(status == STELE_CLI_USAGE ? "; see stele " : "\n", stderr);
    if (status == STELE_CLI_USAGE)
        fprintf(stderr, "%s --help\n", cli->command->name);
    return status;
}

bool stele_cli_is_json(const struct stele_cli *cli)
{
    return strcmp(cli->output, "json") == 0;
}

bool stele_cli_number(const char *text, int64_t min, int64_t max, int64_t *out_number)
{
    char *end = NULL;
    errno = 0;
    if (text[0] != '-' && (text[0] < '0' || text[0] > '9')) /* strtoll takes blanks and a plus */
        return false;
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

static bool parse_date(const char *text, int64_t *out_ms)
{
    struct tm parts;
    int year = 0, month = 0, day = 0, ms = 0, zone_minutes = 0;
    memset(&parts, 0, sizeof(parts));
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

bool stele_cli_span(const char *text, int64_t *out_ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {"w", 604800000}};
    int64_t ms = 0;
    do {
        size_t digits = strspn(text, "0123456789"), letters = strspn(text + digits, "mshdw"), unit = 0;
        char number[20];
        int64_t value = 0, addend = 0;
        if (digits == 0 || digits >= sizeof(number))
            return false;
        memcpy(number, text, digits);
        number[digits] = 0;
        while (unit < STELE_ARRAY_LEN(units) &&
               (strlen(units[unit].unit) != letters || memcmp(units[unit].unit, text + digits, letters) != 0))
            unit++;
        if (unit == STELE_ARRAY_LEN(units) || !stele_cli_number(number, 0, INT64_MAX, &value) ||
            __builtin_mul_overflow(value, units[unit].ms, &addend) || __builtin_add_overflow(ms, addend, &ms))
            return false;
        text += digits + letters;
    } while (*text != 0);
    *out_ms = ms;
    return true;
}

bool stele_cli_time(const char *text, int64_t now_ms, int64_t *out_ms)
{
    int64_t ms = now_ms;
    bool is_good = true;
    if (strcmp(text, "beginning") == 0)
        ms = STELE_OFFSET_EARLIEST;
    else if (strcmp(text, "end") == 0)
        ms = STELE_OFFSET_LATEST;
    else if (text[0] == '@')
        is_good = stele_cli_number(text + 1, 0, INT64_MAX, &ms);
    else if (text[0] == '-') {
        is_good = stele_cli_span(text + 1, &ms);
        ms = ms > now_ms ? 0 : now_ms - ms;
    } else if (strcmp(text, "now") != 0)
        is_good = parse_date(text, &ms);
    if (is_good)
        *out_ms = ms;
    return is_good;
}

bool stele_cli_place(const char *text, int64_t now_ms, struct stele_cli_place *out_place)
{
    struct stele_cli_place place = {.is_there = true};
    place.is_offset = stele_cli_number(text, 0, INT64_MAX, &place.value);
    if (!place.is_offset && !stele_cli_time(text, now_ms, &place.value))
        return false;
    *out_place = place;
    return true;
}

bool stele_cli_partition(const char *text, struct stele_cli_partition *out_partition)
{
    const char *slash = strrchr(text, '/');
    size_t bytes = slash == NULL ? strlen(text) : (size_t)(slash - text);
    int64_t number = -1;
    if (bytes == 0 || bytes >= sizeof(out_partition->topic))
        return false;
    if (slash != NULL && !stele_cli_number(slash + 1, 0, INT32_MAX, &number))
        return false;
    memcpy(out_partition->topic, text, bytes);
    out_partition->topic[bytes] = 0;
    out_partition->partition = (int32_t)number;
    return true;
}

bool stele_cli_pairs(const struct stele_cli_list *list, struct stele_cli_pairs *out_pairs, const char **out_bad)
{
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        size_t name_bytes = equals == NULL ? 0 : (size_t)(equals - list->items[i]);
        *out_bad = list->items[i];
        if (name_bytes == 0 || name_bytes + 1 > sizeof(out_pairs->names) - at)
            return false;
        memcpy(out_pairs->names + at, list->items[i], name_bytes);
        out_pairs->names[at + name_bytes] = 0;
        out_pairs->settings[out_pairs->count++] =
            (struct stele_setting){.name = out_pairs->names + at, .value = equals + 1};
        at += name_bytes + 1;
    }
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
