#include "cli/progress.h"

#include "base/utf8.h"
#include "host/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INTERVAL_US = 500000, LINE_BYTES = 512, COLUMNS_USUAL = 80 };

void stele_progress_init(struct stele_progress *progress)
{
    const char *terminal = getenv("TERM");
    progress->is_on = isatty(STDERR_FILENO) && (terminal == NULL || strcmp(terminal, "dumb") != 0);
    progress->is_shown = false;
    progress->next_us = stele_clock_mono_us() + INTERVAL_US;
}

bool stele_progress_is_due(struct stele_progress *progress)
{
    int64_t now_us = progress->is_on ? stele_clock_mono_us() : 0;
    if (!progress->is_on || now_us < progress->next_us)
        return false;
    progress->next_us = now_us + INTERVAL_US;
    return true;
}

/* A character that may move the cursor, the second set of them included. */
static bool is_control(const uint8_t *character)
{
    return character[0] < 0x20 || character[0] == 0x7f || (character[0] == 0xc2 && character[1] < 0xa0);
}

/* A line that wraps cannot be wiped. Letters beyond ASCII may take two columns, so each counts as two. */
static void put_line(const char *line, size_t columns)
{
    const uint8_t *bytes = (const uint8_t *)line;
    size_t count = strlen(line), used = 0;
    bool is_valid = false;
    for (size_t at = 0, taken; (taken = stele_utf8_next(bytes + at, count - at, &is_valid)) > 0; at += taken) {
        size_t width = is_valid && bytes[at] >= 0x80 ? 2 : 1;
        if (used + width > columns)
            return;
        used += width;
        if (!is_valid || is_control(bytes + at))
            (void)fputc('?', stderr);
        else
            (void)fwrite(bytes + at, 1, taken, stderr);
    }
}

void stele_progress_show(struct stele_progress *progress, const char *format, ...)
{
    struct winsize size = {.ws_col = 0};
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    fputs("\r\033[K", stderr);
    put_line(line, is_known ? (size_t)size.ws_col - 1 : COLUMNS_USUAL - 1);
    (void)fflush(stderr);
    progress->is_shown = true;
}

void stele_progress_wipe(struct stele_progress *progress)
{
    if (progress->is_shown)
        fputs("\r\033[K", stderr);
    progress->is_shown = false;
}

void stele_progress_end(struct stele_progress *progress)
{
    stele_progress_wipe(progress);
    progress->is_on = false;
}
