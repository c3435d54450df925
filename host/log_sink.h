/* Trace events as lines of text on a descriptor: "2026-11-30T06:10:19.123Z INFO  sentence". Each line is one write, so
 * lines of different threads stay whole. */
#ifndef STELE_HOST_LOG_SINK_H
#define STELE_HOST_LOG_SINK_H

#include "base/trace.h"

struct stele_log_sink {
    int fd;
    enum stele_trace_level level_min; /* lower ones are dropped */
};

/** From any thread. */
void stele_log_sink_event(const struct stele_log_sink *sink, const struct stele_trace_event *event);
/** A line that is no event: errors of start, for instance. */
void stele_log_sink_line(const struct stele_log_sink *sink, enum stele_trace_level level, const char *text);

#endif
