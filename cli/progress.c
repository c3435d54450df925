#include "cli/progress.h"

#include "host/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { INTERVAL_US = 500000 };

void stele_progress_init(struct stele_progress *progress)
{
    progress->is_on = isatty(STDERR_FILENO);
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

void stele_progress_show(const char *format, ...)
{
    va_list arguments;
    fputs("\r\033[K", stderr);
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fflush(stderr);
}

void stele_progress_end(struct stele_progress *progress)
{
    if (progress->is_on)
        fputs("\r\033[K", stderr);
    progress->is_on = false;
}
