/* Values of metrics.def, one after another, from an observation. */
#include "node/node_struct.h"
#include "node/observe.h"

#include <string.h>

struct walk {
    const struct stele_observation *observation;
    void (*each)(void *arg, const struct stele_sample *sample);
    void *arg;
    struct stele_sample sample; /* what the values of one name share */
};

static bool is_seconds(const char *unit)
{
    return strcmp(unit, "seconds") == 0;
}

static void begin(struct walk *walk, const char *name, const char *unit, const char *help, enum stele_sample_kind kind)
{
    walk->sample = (struct stele_sample){.name = name,
                                         .unit = unit,
                                         .help = help,
                                         .kind = kind,
                                         .is_first = true,
                                         .suffix = "",
                                         .label = "",
                                         .label_value = "",
                                         .is_time = is_seconds(unit)};
}

static void put(struct walk *walk, int64_t value)
{
    walk->sample.value = value;
    walk->each(walk->arg, &walk->sample);
    walk->sample.is_first = false;
}

/* The slots of a family are the apis in the order of api.def. */
static void put_family(struct walk *walk, const char *label, const _Atomic int64_t *slots)
{
    static const char *const names[] = {
#define STELE_API(key, name, stem, version_min, version_max) #stem,
#include "proto/api.def"
#undef STELE_API
    };
    walk->sample.label = label;
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        walk->sample.label_value = names[i];
        put(walk, slots[i]);
    }
}

static void put_histogram(struct walk *walk, enum stele_metric_scale scale,
                          const struct stele_metric_histogram *histogram)
{
    bool is_time = walk->sample.is_time;
    int64_t count = 0;
    walk->sample.suffix = "_bucket";
    walk->sample.is_bound_time = is_time;
    walk->sample.is_time = false;
    for (int i = 0; i < STELE_METRIC_BUCKETS; i++) {
        count += histogram->buckets[i];
        walk->sample.bound = stele_metric_bound(scale, i);
        put(walk, count);
    }
    walk->sample.suffix = "_sum";
    walk->sample.is_time = is_time;
    put(walk, histogram->sum);
    walk->sample.suffix = "_count";
    walk->sample.is_time = false;
    put(walk, count);
}

/* Views. */

enum source { FROM_VERSION, FROM_MEMORY, FROM_TOPICS, FROM_DIRECTORIES, FROM_PEERS };

/* What has a label comes from a list, in which it is one member. */
struct labelled {
    const char *name;
    enum source source;
    size_t member;
};

#define TOPIC(member) FROM_TOPICS, offsetof(struct stele_topic_view, member)
#define PEER(member) FROM_PEERS, offsetof(struct stele_peer_view, member)
#define DIRECTORY(member) FROM_DIRECTORIES, offsetof(struct stele_directory_view, member)
static const struct labelled all_labelled[] = {
    {"stele_build_info", FROM_VERSION, 0},
    {"stele_memory_tag_bytes", FROM_MEMORY, 0},
    {"stele_replica_fetcher_lag_offsets", PEER(fetcher_lag)},
    {"stele_replica_fetcher_partitions", PEER(fetcher_partitions)},
    {"stele_quorum_replica_lag_offsets", PEER(quorum_lag)},
    {"stele_topic_partitions", TOPIC(partitions)},
    {"stele_topic_bytes", TOPIC(bytes)},
    {"stele_topic_segments", TOPIC(segments)},
    {"stele_topic_offsets_total", TOPIC(offsets)},
    {"stele_directory_free_bytes", DIRECTORY(free_bytes)},
    {"stele_directory_reserve_bytes", DIRECTORY(reserve_bytes)},
    {"stele_directory_full", DIRECTORY(is_full)},
    {"stele_directory_offline", DIRECTORY(is_offline)},
    {"stele_directory_partitions", DIRECTORY(partitions)},
};
#undef TOPIC
#undef PEER
#undef DIRECTORY

static int64_t member_of(const void *item, size_t member)
{
    int64_t value;
    memcpy(&value, (const char *)item + member, sizeof(value));
    return value;
}

/* What is not known, or was not asked for, is not there. */
static void put_known(struct walk *walk, const char *label_value, int64_t value)
{
    walk->sample.label_value = label_value;
    if (value >= 0)
        put(walk, value);
}

static void put_labelled(struct walk *walk, const struct labelled *labelled)
{
    const struct stele_observation *observation = walk->observation;
    switch (labelled->source) {
    case FROM_VERSION:
        put_known(walk, STELE_VERSION, 1);
        return;
    case FROM_MEMORY:
        for (int i = 0; i < STELE_MEM_TAG_COUNT; i++)
            put_known(walk, stele_mem_tag_name((enum stele_mem_tag)i), observation->home->node->mem->tag_bytes[i]);
        return;
    case FROM_TOPICS:
        for (const struct stele_topic_view *topic = observation->topics; topic != NULL; topic = topic->hh.next)
            put_known(walk, topic->name, member_of(topic, labelled->member));
        return;
    case FROM_DIRECTORIES:
        for (int i = 0; i < observation->directory_count; i++) {
            const struct stele_directory_view *view = &observation->directories[i];
            put_known(walk, view->path, member_of(view, labelled->member));
        }
        return;
    case FROM_PEERS:
        for (int i = 0; i < observation->peer_count; i++)
            put_known(walk, observation->peers[i].name, member_of(&observation->peers[i], labelled->member));
        return;
    }
}

static void put_view(struct walk *walk, const char *label, int64_t value)
{
    walk->sample.label = label;
    for (size_t i = 0; i < STELE_ARRAY_LEN(all_labelled) && label[0] != 0; i++) {
        if (strcmp(all_labelled[i].name, walk->sample.name) == 0)
            put_labelled(walk, &all_labelled[i]);
    }
    if (label[0] == 0)
        put_known(walk, "", value);
}

#define KIND_COUNTER STELE_SAMPLE_COUNTER
#define KIND_MAX STELE_SAMPLE_GAUGE
#define KIND_GAUGE STELE_SAMPLE_GAUGE

void stele_samples(const struct stele_observation *observation,
                   void (*each)(void *arg, const struct stele_sample *sample), void *arg)
{
    struct walk walk = {.observation = observation, .each = each, .arg = arg};
    const struct stele_metrics *metrics = &observation->metrics;
#define STELE_METRIC(field, kind, name, unit, help)                                                                    \
    begin(&walk, name, unit, help, KIND_##kind);                                                                       \
    put(&walk, metrics->field);
#define STELE_METRIC_FAMILY(field, name, label, unit, help)                                                            \
    begin(&walk, name, unit, help, STELE_SAMPLE_COUNTER);                                                              \
    put_family(&walk, label, metrics->field);
#define STELE_METRIC_HISTOGRAM(field, scale, name, unit, help)                                                         \
    begin(&walk, name, unit, help, STELE_SAMPLE_HISTOGRAM);                                                            \
    put_histogram(&walk, STELE_SCALE_##scale, &metrics->field);
#define STELE_METRIC_VIEW(field, kind, name, label, unit, help)                                                        \
    begin(&walk, name, unit, help, KIND_##kind);                                                                       \
    put_view(&walk, label, observation->views.field);
#include "base/metrics.def"
}
