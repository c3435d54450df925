#include "host/log_sink.h"

#include "host/clock.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 1024 };

static const char *level_name(enum stele_trace_level level)
{
    switch (level) {
    case STELE_LEVEL_DEBUG:
        return "DEBUG";
    case STELE_LEVEL_INFO:
        return "INFO ";
    case STELE_LEVEL_WARN:
        return "WARN ";
    case STELE_LEVEL_ERROR:
        return "ERROR";
    }
    return "?";
}

void stele_log_sink_line(const struct stele_log_sink *sink, enum stele_trace_level level, const char *text)
{
    int64_t now_ms = stele_clock_wall_ms();
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm tm;
    char line[LINE_BYTES];
    if (level < sink->level_min || gmtime_r(&seconds, &tm) == NULL)
        return;
    int count =
        snprintf(line, sizeof(line), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s %s\n", tm.tm_year + 1900, tm.tm_mon + 1,
                 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(now_ms % 1000), level_name(level), text);
    if (count <= 0)
        return;
    size_t bytes = (size_t)count < sizeof(line) ? (size_t)count : sizeof(line) - 1;
    line[bytes - 1] = '\n';
    /* A log that cannot be written is no reason to stop serving. */
    ssize_t written = write(sink->fd, line, bytes);
    (void)written;
}

void stele_log_sink_event(const struct stele_log_sink *sink, const struct stele_trace_event *event)
{
    char text[LINE_BYTES - 64];
    if (stele_trace_level(event->kind) < sink->level_min)
        return;
    (void)stele_trace_text(event, text, sizeof(text));
    stele_log_sink_line(sink, stele_trace_level(event->kind), text);
}
