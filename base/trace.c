#include "base/trace.h"

#include "base/env.h"

#include <stdio.h>
#include <string.h>

struct trace_row {
    const char *name;
    enum stele_trace_level level;
    const char *sentence;
};

static const struct trace_row rows[] = {
#define STELE_TRACE(name, level, sentence) {#name, STELE_LEVEL_##level, (sentence)},
#include "base/trace.def"
#undef STELE_TRACE
};

const char *stele_trace_name(enum stele_trace_kind kind)
{
    return rows[kind].name;
}

enum stele_trace_level stele_trace_level(enum stele_trace_kind kind)
{
    return rows[kind].level;
}

struct text_out {
    char *text;
    size_t used, bytes;
};

static void put(struct text_out *out, const char *text, size_t count)
{
    size_t room = out->bytes - 1 - out->used;
    count = stele_min_size(count, room);
    memcpy(out->text + out->used, text, count);
    out->used += count;
}

static void put_field(struct text_out *out, const struct stele_trace_event *event, const char *name, size_t count)
{
    char number[32];
    const char *text = number;
    if (count == 1 && name[0] >= 'a' && name[0] <= 'c') {
        int64_t value = name[0] == 'a' ? event->a : name[0] == 'b' ? event->b : event->c;
        (void)snprintf(number, sizeof(number), "%lld", (long long)value);
    } else {
        text = name[0] == 's' ? event->subject : event->text;
    }
    if (text == NULL)
        text = "?";
    put(out, text, strlen(text));
}

size_t stele_trace_text(const struct stele_trace_event *event, char *out_text, size_t bytes)
{
    struct text_out out = {.text = out_text, .bytes = bytes};
    const char *at = rows[event->kind].sentence;
    for (;;) {
        size_t plain = strcspn(at, "{");
        put(&out, at, plain);
        at += plain;
        if (*at == 0)
            break;
        size_t field = strcspn(at, "}");
        put_field(&out, event, at + 1, field - 1);
        at += field + 1;
    }
    out_text[out.used] = 0;
    return out.used;
}

void stele_trace(struct stele_env *env, enum stele_trace_kind kind, const char *subject, const char *text, int64_t a,
                 int64_t b, int64_t c)
{
    struct stele_trace_event event = {.kind = kind, .subject = subject, .text = text, .a = a, .b = b, .c = c};
    env->ops->trace(env, &event);
}
