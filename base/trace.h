/* Typed trace events. Libraries emit them through the env; host/log_sink alone makes text of them; the simulator
 * hashes them and matches scenario scripts against them. */
#ifndef STELE_BASE_TRACE_H
#define STELE_BASE_TRACE_H

#include "base/types.h"

enum stele_trace_kind {
#define STELE_TRACE(name, level, sentence) STELE_TRACE_##name,
#include "base/trace.def"
#undef STELE_TRACE
    STELE_TRACE_KIND_COUNT
};

enum stele_trace_level { STELE_LEVEL_DEBUG, STELE_LEVEL_INFO, STELE_LEVEL_WARN, STELE_LEVEL_ERROR };

struct stele_trace_event {
    enum stele_trace_kind kind;
    const char *subject; /* the thing; borrowed until the call returns; may be NULL */
    const char *text;    /* the reason; the same; may be NULL */
    int64_t a, b, c;
};

const char *stele_trace_name(enum stele_trace_kind kind);
enum stele_trace_level stele_trace_level(enum stele_trace_kind kind);

/** Writes the event's sentence with its fields filled in; cut to fit, always terminated. Returns the bytes written. */
size_t stele_trace_text(const struct stele_trace_event *event, char *out_text, size_t bytes);

struct stele_env;
/** Hands the event to the env's trace. */
void stele_trace(struct stele_env *env, enum stele_trace_kind kind, const char *subject, const char *text, int64_t a,
                 int64_t b, int64_t c);

#endif
