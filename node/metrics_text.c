/* Prometheus' text format 0.0.4, and the host's way to it. */
#include "node/node_struct.h"
#include "node/observe.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_BYTES = 32768, LINE_BYTES = 1024 };

struct text {
    struct stele_mem *mem;
    struct stele_buf *buf;
    bool has_no_memory;
};

static void append(struct text *text, const char *line, size_t bytes)
{
    if (text->has_no_memory)
        return;
    if (text->buf->capacity - text->buf->count < bytes) {
        struct stele_buf *grown = stele_buf_new(text->mem, STELE_MEM_NODE, text->buf->capacity * 2 + bytes);
        if (grown == NULL) {
            text->has_no_memory = true;
            return;
        }
        memcpy(grown->bytes, text->buf->bytes, text->buf->count);
        grown->count = text->buf->count;
        stele_buf_unref(text->buf);
        text->buf = grown;
    }
    memcpy(text->buf->bytes + text->buf->count, line, bytes);
    text->buf->count += bytes;
}

static void append_string(struct text *text, const char *string)
{
    append(text, string, strlen(string));
}

/* Backslash, quote and newline are escaped. */
static void append_label_value(struct text *text, const char *value)
{
    for (; *value != 0; value++) {
        if (*value == '\n')
            append_string(text, "\\n");
        else if (*value == '\\' || *value == '"')
            append(text, (const char[]){'\\', *value}, 2);
        else
            append(text, value, 1);
    }
}

static void append_number(struct text *text, int64_t value, bool is_time)
{
    char number[48];
    const char *sign = value < 0 ? "-" : "";
    uint64_t size = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    if (is_time)
        (void)snprintf(number, sizeof(number), "%s%llu.%06llu", sign, (unsigned long long)(size / 1000000),
                       (unsigned long long)(size % 1000000));
    else
        (void)snprintf(number, sizeof(number), "%s%llu", sign, (unsigned long long)size);
    append_string(text, number);
}

static void append_head(struct text *text, const struct stele_sample *sample)
{
    static const char *const kinds[] = {
        [STELE_SAMPLE_COUNTER] = "counter", [STELE_SAMPLE_GAUGE] = "gauge", [STELE_SAMPLE_HISTOGRAM] = "histogram"};
    char line[LINE_BYTES];
    int bytes = snprintf(line, sizeof(line), "# HELP %s %s\n# TYPE %s %s\n", sample->name, sample->help, sample->name,
                         kinds[sample->kind]);
    append(text, line, stele_min_size((size_t)bytes, sizeof(line) - 1));
}

static void append_sample(void *arg, const struct stele_sample *sample)
{
    struct text *text = arg;
    if (sample->is_first)
        append_head(text, sample);
    append_string(text, sample->name);
    append_string(text, sample->suffix);
    if (strcmp(sample->suffix, "_bucket") == 0) {
        append_string(text, "{le=\"");
        if (sample->bound == INT64_MAX)
            append_string(text, "+Inf");
        else
            append_number(text, sample->bound, sample->is_bound_time);
        append_string(text, "\"}");
    } else if (sample->label[0] != 0) {
        append_string(text, "{");
        append_string(text, sample->label);
        append_string(text, "=\"");
        append_label_value(text, sample->label_value);
        append_string(text, "\"}");
    }
    append_string(text, " ");
    append_number(text, sample->value, sample->is_time);
    append_string(text, "\n");
}

enum stele_err stele_metrics_text(const struct stele_observation *observation, struct stele_mem *mem,
                                  struct stele_buf **out_text)
{
    struct text text = {.mem = mem, .buf = stele_buf_new(mem, STELE_MEM_NODE, FIRST_BYTES)};
    if (text.buf == NULL)
        return STELE_NO_MEMORY;
    stele_samples(observation, append_sample, &text);
    if (text.has_no_memory) {
        stele_buf_unref(text.buf);
        return STELE_NO_MEMORY;
    }
    *out_text = text.buf;
    return STELE_OK;
}

/* For the host. */

struct ask {
    struct stele_list link; /* in the node's */
    struct stele_node *node;
    struct stele_observation observation;
    void (*done)(void *arg, struct stele_buf *text);
    void *arg;
};

static void ask_free(struct ask *ask)
{
    stele_list_remove(&ask->link);
    stele_observation_deinit(&ask->observation);
    stele_mem_free(ask->node->mem, ask);
}

static void observed(struct stele_observation *observation)
{
    struct ask *ask = STELE_CONTAINER_OF(observation, struct ask, observation);
    struct stele_buf *text = NULL;
    enum stele_err err = observation->err;
    if (err == STELE_OK)
        err = stele_metrics_text(observation, ask->node->mem, &text);
    void (*done)(void *arg, struct stele_buf *text) = ask->done;
    void *arg = ask->arg;
    ask_free(ask);
    done(arg, err == STELE_OK ? text : NULL);
}

enum stele_err stele_node_metrics(struct stele_node *node, void (*done)(void *arg, struct stele_buf *text), void *arg)
{
    struct ask *ask = stele_mem_alloc(node->mem, STELE_MEM_NODE, sizeof(*ask));
    if (ask == NULL)
        return STELE_NO_MEMORY;
    ask->node = node;
    ask->done = done;
    ask->arg = arg;
    ask->observation.home = &node->shards[STELE_SHARD_CONTROL];
    ask->observation.done = observed;
    ask->observation.topics_max = node->limits.metrics_topics_max;
    stele_list_push(&node->asks, &ask->link);
    stele_observe(&ask->observation);
    return STELE_OK;
}

void stele_node_asks_free(struct stele_node *node)
{
    while (!stele_list_is_empty(&node->asks))
        ask_free(STELE_CONTAINER_OF(node->asks.next, struct ask, link));
}

bool stele_node_is_serving(const struct stele_node *node, char out_why[STELE_ERROR_TEXT_BYTES])
{
    const struct stele_controller *control = &node->control;
    const char *why = "";
    switch (control->state) {
    case STELE_CONTROLLER_SERVING:
        return true;
    case STELE_CONTROLLER_NEW:
        why = "it has not begun to start";
        break;
    case STELE_CONTROLLER_STARTING:
        if (control->reconcile.opening_count > 0) {
            (void)snprintf(out_why, STELE_ERROR_TEXT_BYTES, "it starts: %d partitions are still being opened",
                           control->reconcile.opening_count);
            return false;
        }
        why = "it starts: the metadata log is read";
        break;
    case STELE_CONTROLLER_FAILED:
        why = "it could not start: its log says why";
        break;
    case STELE_CONTROLLER_STOPPING:
    case STELE_CONTROLLER_STOPPED:
        why = "it stops";
        break;
    }
    (void)snprintf(out_why, STELE_ERROR_TEXT_BYTES, "%s", why);
    return false;
}
