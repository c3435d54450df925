#include "cli/format.h"

#include <stdio.h>
#include <time.h>

/* A number from 0.1 to below 1024 with three digits that count. */
static void print_scaled(double value, const char *unit, char *out_text)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    (void)snprintf(out_text, STELE_FORMAT_BYTES, "%.*f %s", decimals, value, unit);
}

void stele_format_size(int64_t bytes, char out_text[STELE_FORMAT_BYTES])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    int unit = 0;
    if (bytes > -1024 && bytes < 1024) {
        (void)snprintf(out_text, STELE_FORMAT_BYTES, "%d B", (int)bytes);
        return;
    }
    for (; (value >= 1023.5 || value <= -1023.5) && unit < 5; unit++)
        value /= 1024;
    print_scaled(value, units[unit], out_text);
}

void stele_format_time(int64_t ms, char out_text[STELE_FORMAT_BYTES])
{
    struct tm parts;
    int64_t seconds = ms / 1000, rest = ms % 1000;
    if (rest < 0) {
        rest += 1000;
        seconds--;
    }
    time_t clock = (time_t)seconds;
    if (gmtime_r(&clock, &parts) == NULL || parts.tm_year > 9999 - 1900) {
        (void)snprintf(out_text, STELE_FORMAT_BYTES, "@%lld", (long long)ms); /* beyond what a calendar shows */
        return;
    }
    (void)snprintf(out_text, STELE_FORMAT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                   parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, (int)rest);
}

void stele_format_span(int64_t us, char out_text[STELE_FORMAT_BYTES])
{
    static const struct {
        int64_t us;
        const char *name;
    } units[] = {{86400000000, "d"}, {3600000000, "h"}, {60000000, "min"}, {1000000, "s"}};
    if (us < 0) {
        (void)snprintf(out_text, STELE_FORMAT_BYTES, "%lld us", (long long)us);
        return;
    }
    for (int i = 0; i < 3; i++) {
        int64_t large = us / units[i].us, small = us % units[i].us / units[i + 1].us;
        if (large == 0)
            continue;
        if (small == 0)
            (void)snprintf(out_text, STELE_FORMAT_BYTES, "%lld %s", (long long)large, units[i].name);
        else
            (void)snprintf(out_text, STELE_FORMAT_BYTES, "%lld %s %d %s", (long long)large, units[i].name, (int)small,
                           units[i + 1].name);
        return;
    }
    if (us < 1000)
        (void)snprintf(out_text, STELE_FORMAT_BYTES, "%d us", (int)us);
    else if (us < 999500)
        print_scaled((double)us / 1000, "ms", out_text);
    else
        print_scaled((double)us / 1000000, "s", out_text);
}
