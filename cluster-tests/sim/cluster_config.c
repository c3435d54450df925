#include "cluster-tests/sim/cluster_config.h"

#include "base/check.h"
#include "cluster-tests/sim/cluster_run.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES_MAX = 512, SECONDS_MAX = 220 };

static bool take_count(const char *value, int64_t high, int64_t *out_count)
{
    char *end = NULL;
    long long count = strtoll(value, &end, 10);
    *out_count = count;
    return end != value && *end == 0 && count >= 1 && count <= high;
}

/* A name of a class, with '-' for its spaces. */
static bool is_class(const char *text, size_t bytes, enum cluster_class class)
{
    const char *name = cluster_class_name(class);
    if (strlen(name) != bytes)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != (name[i] == ' ' ? '-' : name[i]))
            return false;
    }
    return true;
}

/* "kills,partitions", "none". */
static bool take_classes(const char *value, uint64_t *out_classes)
{
    *out_classes = 0;
    if (strcmp(value, "none") == 0)
        return true;
    for (;;) {
        size_t bytes = strcspn(value, ",");
        int found = 0;
        while (found < CLUSTER_CLASS_COUNT && !is_class(value, bytes, (enum cluster_class)found))
            found++;
        if (found == CLUSTER_CLASS_COUNT)
            return false;
        *out_classes |= UINT64_C(1) << found;
        if (value[bytes] == 0)
            return true;
        value += bytes + 1;
    }
}

static bool take_setting(const char *name, const char *value, struct cluster_setting *settings, int *count)
{
    struct cluster_setting *setting = &settings[*count];
    if (*count == CLUSTER_SETTINGS_MAX || strlen(name) >= sizeof(setting->name) ||
        strlen(value) >= sizeof(setting->value))
        return false;
    (void)snprintf(setting->name, sizeof(setting->name), "%s", name);
    (void)snprintf(setting->value, sizeof(setting->value), "%s", value);
    ++*count;
    return true;
}

static bool take_of_run(struct cluster_config *config, const char *name, const char *value)
{
    struct cluster_frame *frame = &config->frame;
    int64_t count = 0;
    uint64_t classes = 0;
    bool is_fine = true;
    if (strcmp(name, "nodes") == 0) {
        is_fine = take_count(value, CLUSTER_NODES_MAX, &count);
        config->node_count = (int)count;
    } else if (strcmp(name, "seconds") == 0) {
        is_fine = take_count(value, SECONDS_MAX, &count);
        frame->lasts_us = count * 1000000;
    } else if (strcmp(name, "topics") == 0) {
        is_fine = take_count(value, CLUSTER_TOPICS_MAX, &count);
        frame->topic_count = (int)count;
    } else if (strcmp(name, "partitions") == 0) {
        is_fine = take_count(value, CLUSTER_PARTITIONS_MAX, &count);
        frame->partition_count = (int)count;
    } else if (strcmp(name, "dirs") == 0) {
        is_fine = take_count(value, CLUSTER_DIRS_MAX, &count);
        frame->dir_count = (int)count;
    } else if (strcmp(name, "racks") == 0) {
        frame->has_racks = strcmp(value, "true") == 0;
        frame->names_racks = true;
        is_fine = frame->has_racks || strcmp(value, "false") == 0;
    } else if (strcmp(name, "sends.percent") == 0) {
        is_fine = take_count(value, 100, &count);
        frame->sends_percent = (int)count;
    } else if (strcmp(name, "faults") == 0) {
        is_fine = take_classes(value, &classes);
        config->no_classes |= ~classes;
    } else if (strcmp(name, "faults.not") == 0) {
        is_fine = take_classes(value, &classes);
        config->no_classes |= classes;
    } else {
        is_fine = false;
    }
    return is_fine;
}

static bool take_line(struct cluster_config *config, const char *name, const char *value)
{
    struct cluster_frame *frame = &config->frame;
    if (strncmp(name, "sim.", 4) == 0)
        return take_of_run(config, name + 4, value);
    if (strncmp(name, "topic.", 6) == 0)
        return take_setting(name + 6, value, frame->topics, &frame->topic_setting_count);
    return take_setting(name, value, frame->nodes, &frame->node_setting_count);
}

/* Without the spaces around it. */
static char *trimmed(char *text)
{
    size_t bytes = strlen(text);
    while (bytes > 0 && isspace((unsigned char)text[bytes - 1]))
        text[--bytes] = 0;
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

bool cluster_config_read(struct cluster_config *config, const char *path, int *out_line)
{
    FILE *file = fopen(path, "r");
    char text[LINE_BYTES_MAX];
    bool is_fine = file != NULL;
    *config = (struct cluster_config){.node_count = 0};
    *out_line = 0;
    while (is_fine && fgets(text, sizeof(text), file) != NULL) {
        char *name = trimmed(text), *equals = strchr(name, '=');
        ++*out_line;
        if (*name == '#' || *name == 0)
            continue;
        if (equals != NULL)
            *equals = 0;
        is_fine = equals != NULL && take_line(config, trimmed(name), trimmed(equals + 1));
    }
    if (file != NULL)
        (void)fclose(file);
    return is_fine;
}

void cluster_config_plan(const struct cluster_config *config, struct cluster_plan *plan, uint64_t seed, int node_count)
{
    cluster_plan_of(plan, seed, node_count > 0 ? node_count : config->node_count);
    plan->frame = config->frame;
    plan->no_classes = config->no_classes;
    cluster_plan_fill(plan);
}
