/* Plans as text, both ways. */
#include "cluster-tests/sim/cluster_script.h"

#include "base/check.h"
#include "base/trace.h"
#include "cluster-tests/sim/cluster_book.h"
#include "cluster-tests/sim/cluster_plan.h"
#include "proto/api.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 40 };

static const char *const roles[] = {"leader", "follower", "other", "controller", "another", "it", "any",
                                    "A",      "B",        "C",     "D",          "E",       "F"};
static const struct {
    const char *text;
    bool has_host;
} conditions[CLUSTER_CONDITION_COUNT] = {{"", false},
#define C(name, text, has_host) {text, has_host},
                                         CLUSTER_CONDITIONS(C)
#undef C
};
static const struct {
    int key;
    const char *text;
} apis[] = {
#define STELE_API(key, name, stem, version_min, version_max) {key, #name},
#include "proto/api.def"
#undef STELE_API
};

static const char *api_text(int key)
{
    size_t at = 0;
    while (apis[at].key != key)
        at++;
    return apis[at].text;
}

/* Out. */

struct out {
    char *text;
    size_t bytes, used;
    int node_count;
};

static void put(struct out *out, const char *format, ...) STELE_PRINTF(2, 3);
static void put(struct out *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int count = vsnprintf(out->text + out->used, out->bytes - out->used, format, args);
    va_end(args);
    STELE_ASSERT(count >= 0 && (size_t)count < out->bytes - out->used);
    out->used += (size_t)count;
}

static void put_host(struct out *out, int host)
{
    if (host < 0)
        put(out, "-");
    else if (host >= CLUSTER_LEADER)
        put(out, "%s", roles[host - CLUSTER_LEADER]);
    else
        put(out, host < out->node_count ? "n%d" : "c%d",
            host < out->node_count ? host + 1 : host - out->node_count + 1);
}

static void put_place(struct out *out, const struct cluster_fault *fault)
{
    if (!cluster_fault_is_of_topic(fault->kind)) {
        put_host(out, fault->a);
        put(out, " ");
        put_host(out, fault->b);
        return;
    }
    put(out, "t%d", fault->a);
    if (fault->b == CLUSTER_NOBODY)
        put(out, " -");
    else
        put(out, " p%d", fault->b);
}

static void put_condition(struct out *out, const struct cluster_condition *condition)
{
    enum cluster_condition_kind kind = condition->kind;
    put(out, "%s", condition->is_not ? "not " : "");
    if (conditions[kind].has_host) {
        put_host(out, condition->host);
        put(out, " ");
    }
    put(out, "%s", conditions[kind].text);
    if (kind == CLUSTER_IF_SO_MANY)
        put(out, " %d", condition->number);
    if (kind == CLUSTER_IF_SENDS || kind == CLUSTER_IF_ANSWERS)
        put(out, " %s", api_text(condition->number));
    if (kind == CLUSTER_IF_TELLS)
        put(out, " %s", stele_trace_name((enum stele_trace_kind)condition->number));
    if (condition->other != CLUSTER_NOBODY) {
        put(out, kind == CLUSTER_IF_TELLS ? " of " : " ");
        put_host(out, condition->other);
    }
    if (condition->saying[0] != 0)
        put(out, " saying %s", condition->saying);
}

static double seconds(int64_t us)
{
    return us < 0 ? -1.0 : (double)us / 1e6;
}

void cluster_fault_text(const struct cluster_fault *fault, int node_count, char out_text[CLUSTER_TEXT_BYTES])
{
    struct out out = {.text = out_text, .bytes = CLUSTER_TEXT_BYTES, .node_count = node_count};
    const struct cluster_words *words = &fault->words;
    put(&out, words->is_behind ? "+%.6f " : "%.6f ", seconds(words->is_behind ? words->after_us : fault->at_us));
    if (words->when.kind != CLUSTER_IF_NOTHING) {
        put(&out, "when ");
        put_condition(&out, &words->when);
        put(&out, " later %.6f ", seconds(words->later_us));
    }
    if (words->verb == CLUSTER_NAMES) {
        put(&out, "name ");
        put_host(&out, fault->a);
        put(&out, " ");
        put_host(&out, fault->b);
    } else if (words->verb == CLUSTER_STRIKES) {
        put(&out, "%s ", cluster_fault_name(fault->kind));
        put_place(&out, fault);
        put(&out, " for %.6f arg %lld", seconds(fault->for_us), (long long)fault->arg);
        if (words->word[0] != 0)
            put(&out, " word %s", words->word);
    } else {
        put(&out, words->verb == CLUSTER_EXPECTS ? "expect " : "never ");
        put_condition(&out, &words->what);
        put(&out, " for %.6f", seconds(fault->for_us));
    }
}

void cluster_plan_write(const struct cluster_plan *plan, FILE *file)
{
    const struct cluster_frame *frame = &plan->frame;
    (void)fprintf(file, "# stele-sim\nseed %llu nodes %d\n", (unsigned long long)plan->seed, plan->node_count);
    if (frame->lasts_us > 0)
        (void)fprintf(file, "lasts %.6f\n", seconds(frame->lasts_us));
    if (frame->topic_count > 0)
        (void)fprintf(file, "topics %d partitions %d\n", frame->topic_count, frame->partition_count);
    if (frame->sends_percent > 0 || frame->forces_nothing)
        (void)fprintf(file, "programs %d elect %d\n", frame->sends_percent, frame->forces_nothing ? 0 : 1);
    if (frame->dir_count > 0)
        (void)fprintf(file, "dirs %d\n", frame->dir_count);
    if (frame->has_racks)
        (void)fprintf(file, "racks\n");
    for (int i = 0; i < frame->topic_setting_count; i++)
        (void)fprintf(file, "topic %s %s\n", frame->topics[i].name, frame->topics[i].value);
    for (int i = 0; i < frame->node_setting_count; i++)
        (void)fprintf(file, "node %s %s\n", frame->nodes[i].name, frame->nodes[i].value);
    for (int64_t i = 0; i < plan->count; i++) {
        char text[CLUSTER_TEXT_BYTES];
        cluster_fault_text(&plan->lines[i].fault, plan->node_count, text);
        (void)fprintf(file, "%s\n", text);
    }
}

/* In. */

struct words {
    char text[CLUSTER_TEXT_BYTES];
    char *at[WORDS_MAX + 1]; /* NULL behind the last */
    int next, node_count;
};

static bool split(struct words *words, const char *line)
{
    int count = 0;
    char *left = NULL;
    (void)snprintf(words->text, sizeof(words->text), "%s", line);
    for (char *at = strtok_r(words->text, " \n", &left); at != NULL; at = strtok_r(NULL, " \n", &left)) {
        if (count == WORDS_MAX)
            return false;
        words->at[count++] = at;
    }
    words->at[count] = NULL;
    words->next = 0;
    return count > 0;
}

/* The next word, "" behind the last. */
static const char *peek(const struct words *words)
{
    return words->at[words->next] == NULL ? "" : words->at[words->next];
}

static bool take(struct words *words, const char *text)
{
    bool is_it = strcmp(peek(words), text) == 0;
    words->next += is_it;
    return is_it;
}

static bool take_word(struct words *words, char out_text[32])
{
    size_t bytes = strlen(peek(words));
    if (bytes == 0 || bytes >= 32)
        return false;
    memcpy(out_text, words->at[words->next++], bytes + 1);
    return true;
}

static bool take_us(struct words *words, int64_t *out_us)
{
    char *end = NULL;
    double value = strtod(peek(words), &end);
    if (end == peek(words) || *end != 0)
        return false;
    *out_us = value < 0 ? CLUSTER_FOR_EVER : (int64_t)(value * 1e6 + 0.5);
    words->next++;
    return true;
}

static bool take_number(struct words *words, int64_t *out_number)
{
    char *end = NULL;
    long long value = strtoll(peek(words), &end, 10);
    if (end == peek(words) || *end != 0)
        return false;
    *out_number = value;
    words->next++;
    return true;
}

static bool take_host(struct words *words, int *out_host)
{
    const char *text = peek(words);
    int number = (int)strtol(text + (text[0] != 0), NULL, 10);
    bool is_node = text[0] == 'n' && number >= 1 && number <= words->node_count;
    bool is_client = text[0] == 'c' && number >= 1 && number < CLUSTER_LEADER - words->node_count;
    if (take(words, "-")) {
        *out_host = CLUSTER_NOBODY;
        return true;
    }
    for (int i = 0; i < (int)STELE_ARRAY_LEN(roles); i++) {
        if (take(words, roles[i])) {
            *out_host = CLUSTER_LEADER + i;
            return true;
        }
    }
    if (!is_node && !is_client)
        return false;
    *out_host = number - 1 + (is_client ? words->node_count : 0);
    words->next++;
    return true;
}

static bool take_numbered(struct words *words, char letter, int *out_number)
{
    char *end = NULL;
    const char *text = peek(words);
    long number = text[0] == letter ? strtol(text + 1, &end, 10) : -1;
    if (number < 0 || number > 1000 || end == text + 1 || *end != 0)
        return false;
    *out_number = (int)number;
    words->next++;
    return true;
}

static bool take_api(struct words *words, int *out_number)
{
    for (size_t i = 0; i < STELE_ARRAY_LEN(apis); i++) {
        if (take(words, apis[i].text)) {
            *out_number = apis[i].key;
            return true;
        }
    }
    return false;
}

static bool take_trace(struct words *words, int *out_number)
{
    for (int i = 0; i < (int)STELE_TRACE_KIND_COUNT; i++) {
        if (take(words, stele_trace_name((enum stele_trace_kind)i))) {
            *out_number = i;
            return true;
        }
    }
    return false;
}

static bool take_rest_of_condition(struct words *words, struct cluster_condition *condition)
{
    int64_t number = 0;
    switch ((int)condition->kind) {
    case CLUSTER_IF_SENDS:
    case CLUSTER_IF_ANSWERS:
        if (!take_api(words, &condition->number))
            return false;
        (void)take_host(words, &condition->other);
        return true;
    case CLUSTER_IF_TELLS:
        if (!take_trace(words, &condition->number) || (take(words, "of") && !take_host(words, &condition->other)))
            return false;
        return !take(words, "saying") || take_word(words, condition->saying);
    case CLUSTER_IF_SO_MANY:
        if (!take_number(words, &number))
            return false;
        condition->number = (int)number;
        return true;
    default:
        return true;
    }
}

static bool take_condition(struct words *words, struct cluster_condition *out_condition)
{
    *out_condition = (struct cluster_condition){.host = CLUSTER_NOBODY, .other = CLUSTER_NOBODY};
    out_condition->is_not = take(words, "not");
    bool has_host = take_host(words, &out_condition->host);
    for (int i = 1; i < (int)CLUSTER_CONDITION_COUNT; i++) {
        if (conditions[i].has_host == has_host && take(words, conditions[i].text)) {
            out_condition->kind = (enum cluster_condition_kind)i;
            return take_rest_of_condition(words, out_condition);
        }
    }
    return false;
}

/* There is no second place. */
static bool take_end(struct words *words)
{
    (void)take(words, "-");
    return true;
}

static bool take_fault(struct words *words, struct cluster_fault *fault)
{
    int found = 0;
    while (found < CLUSTER_FAULT_COUNT && !take(words, cluster_fault_name((enum cluster_fault_kind)found)))
        found++;
    if (found == CLUSTER_FAULT_COUNT)
        return false;
    fault->kind = (enum cluster_fault_kind)found;
    if (cluster_fault_is_of_topic(fault->kind))
        return take_numbered(words, 't', &fault->a) && (take_numbered(words, 'p', &fault->b) || take_end(words));
    if (take_host(words, &fault->a))
        (void)take_host(words, &fault->b);
    return true;
}

static bool take_verb(struct words *words, struct cluster_fault *fault)
{
    if (take(words, "name")) {
        fault->words.verb = CLUSTER_NAMES;
        return take_host(words, &fault->a) && fault->a >= CLUSTER_LETTER_A && take_host(words, &fault->b);
    }
    if (take(words, "expect") || take(words, "never")) {
        bool is_never = strcmp(words->at[words->next - 1], "never") == 0;
        fault->words.verb = is_never ? CLUSTER_NEVER : CLUSTER_EXPECTS;
        return take_condition(words, &fault->words.what);
    }
    return take_fault(words, fault);
}

static bool parse_line(struct cluster_plan *plan, struct words *words)
{
    struct cluster_fault fault = {.kind = CLUSTER_KILL, .a = CLUSTER_NOBODY, .b = CLUSTER_NOBODY};
    bool is_fine = true;
    if (peek(words)[0] == '+') {
        words->at[words->next]++;
        fault.words.is_behind = true;
        fault.at_us = plan->count == 0 ? 0 : plan->lines[plan->count - 1].fault.at_us;
        is_fine = plan->count > 0 && take_us(words, &fault.words.after_us);
    } else {
        is_fine = take_us(words, &fault.at_us);
    }
    if (is_fine && take(words, "when")) {
        is_fine = take_condition(words, &fault.words.when);
        if (is_fine && take(words, "later"))
            is_fine = take_us(words, &fault.words.later_us);
    }
    is_fine = is_fine && take_verb(words, &fault);
    if (is_fine && take(words, "for"))
        is_fine = take_us(words, &fault.for_us);
    if (is_fine && take(words, "arg"))
        is_fine = take_number(words, &fault.arg);
    if (is_fine && take(words, "word"))
        is_fine = take_word(words, fault.words.word);
    if (!is_fine || peek(words)[0] != 0)
        return false;
    cluster_plan_add(plan, &fault);
    return true;
}

static bool take_setting(struct words *words, struct cluster_setting *settings, int *count)
{
    struct cluster_setting *setting = &settings[*count];
    if (*count == CLUSTER_SETTINGS_MAX || words->at[words->next] == NULL || words->at[words->next + 1] == NULL)
        return false;
    (void)snprintf(setting->name, sizeof(setting->name), "%s", words->at[words->next++]);
    ++*count;
    return take_word(words, setting->value);
}

/* True when it is a line of the frame; out_is_fine whether it makes sense. */
static bool take_frame(struct words *words, struct cluster_frame *frame, bool *out_is_fine)
{
    int64_t topics = 0, partitions = 0, percent = 0, forces = 0, dirs = 0;
    bool is_fine = true;
    if (take(words, "lasts")) {
        is_fine = take_us(words, &frame->lasts_us) && frame->lasts_us > 0;
    } else if (take(words, "topics")) {
        is_fine = take_number(words, &topics) && take(words, "partitions") && take_number(words, &partitions);
        frame->topic_count = (int)topics;
        frame->partition_count = (int)partitions;
    } else if (take(words, "programs")) {
        is_fine = take_number(words, &percent) && take(words, "elect") && take_number(words, &forces);
        frame->sends_percent = (int)percent;
        frame->forces_nothing = forces == 0;
    } else if (take(words, "dirs")) {
        is_fine = take_number(words, &dirs) && dirs >= 1 && dirs <= CLUSTER_DIRS_MAX;
        frame->dir_count = (int)dirs;
    } else if (take(words, "racks")) {
        frame->has_racks = true;
    } else if (take(words, "topic")) {
        is_fine = take_setting(words, frame->topics, &frame->topic_setting_count);
    } else if (take(words, "node")) {
        is_fine = take_setting(words, frame->nodes, &frame->node_setting_count);
    } else {
        return false;
    }
    *out_is_fine = is_fine && peek(words)[0] == 0;
    return true;
}

bool cluster_plan_read(struct cluster_plan *plan, const char *path,
                       void (*plan_of)(struct cluster_plan *plan, uint64_t seed, int node_count), int *out_line)
{
    FILE *file = fopen(path, "r");
    char text[CLUSTER_TEXT_BYTES];
    struct words words;
    bool is_fine = file != NULL;
    *plan = (struct cluster_plan){.seed = 0};
    *out_line = 0;
    while (is_fine && fgets(text, sizeof(text), file) != NULL) {
        unsigned long long seed = 0;
        int node_count = 0;
        ++*out_line;
        if (text[0] == '#' || text[0] == '\n')
            continue;
        is_fine = split(&words, text);
        words.node_count = plan->node_count;
        if (sscanf(text, "seed %llu nodes %d", &seed, &node_count) >= 1 && plan->node_count == 0)
            plan_of(plan, seed, node_count);
        else if (is_fine && !take_frame(&words, &plan->frame, &is_fine))
            is_fine = plan->node_count > 0 && parse_line(plan, &words);
    }
    if (file != NULL)
        (void)fclose(file);
    cluster_plan_sort(plan);
    return is_fine && plan->node_count > 0;
}
