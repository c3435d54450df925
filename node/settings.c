#include "node/settings.h"

#include <stddef.h>
#include <string.h>

static const struct stele_setting_row rows[] = {
#define ROW_INT(name_, default_, min_, max_, unit_, scope_, dynamic_, topic_, synonym_1, synonym_2, doc_)              \
    {.name = (name_),                                                                                                  \
     .type = STELE_SETTING_INT,                                                                                        \
     .default_text = (default_),                                                                                       \
     .min = (min_),                                                                                                    \
     .max = (max_),                                                                                                    \
     .unit = STELE_UNIT_##unit_,                                                                                       \
     .scope = STELE_SCOPE_##scope_,                                                                                    \
     .is_dynamic = (dynamic_),                                                                                         \
     .topic_name = (topic_),                                                                                           \
     .synonyms = {synonym_1, synonym_2},                                                                               \
     .doc = (doc_)},
#define ROW_PLAIN(name_, type_, default_, choices_, scope_, dynamic_, topic_, doc_)                                    \
    {.name = (name_),                                                                                                  \
     .type = (type_),                                                                                                  \
     .default_text = (default_),                                                                                       \
     .choices = (choices_),                                                                                            \
     .scope = STELE_SCOPE_##scope_,                                                                                    \
     .is_dynamic = (dynamic_),                                                                                         \
     .topic_name = (topic_),                                                                                           \
     .doc = (doc_)},
#define ROW_STRING(name_, default_, scope_, dynamic_, topic_, doc_)                                                    \
    ROW_PLAIN(name_, STELE_SETTING_STRING, default_, NULL, scope_, dynamic_, topic_, doc_)
#define ROW_BOOL(name_, default_, scope_, dynamic_, topic_, doc_)                                                      \
    ROW_PLAIN(name_, STELE_SETTING_BOOL, default_, NULL, scope_, dynamic_, topic_, doc_)
#define ROW_RATIO(name_, default_, scope_, dynamic_, topic_, doc_)                                                     \
    ROW_PLAIN(name_, STELE_SETTING_RATIO, default_, NULL, scope_, dynamic_, topic_, doc_)
#define ROW_ENUM(name_, default_, choices_, scope_, dynamic_, topic_, doc_)                                            \
    ROW_PLAIN(name_, STELE_SETTING_ENUM, default_, choices_, scope_, dynamic_, topic_, doc_)
#define ROW_LIST(name_, default_, choices_, scope_, dynamic_, topic_, doc_)                                            \
    ROW_PLAIN(name_, STELE_SETTING_LIST, default_, choices_, scope_, dynamic_, topic_, doc_)
#include "node/settings.def"
};

const struct stele_setting_row *stele_node_setting_rows(int *out_count)
{
    *out_count = (int)STELE_ARRAY_LEN(rows);
    return rows;
}

const char *stele_node_shared_setting(int at)
{
    static const char *const names[STELE_SHARED_SETTINGS] = {"min.insync.replicas", "log.flush.before.ack"};
    return at < STELE_SHARED_SETTINGS ? names[at] : NULL;
}

static bool list_has(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    while (*list != 0) {
        size_t length = strcspn(list, ",");
        if (length == bytes && memcmp(list, word, bytes) == 0)
            return true;
        list += length + (list[length] == ',');
    }
    return false;
}

/* Where each setting that is a number or a truth has its place. */
#define FIELD(name_, field_)                                                                                           \
    {                                                                                                                  \
        .name = (name_), .at = offsetof(struct stele_log_config, field_),                                              \
        .bytes = sizeof(((const struct stele_log_config *)NULL)->field_)                                               \
    }

static const struct {
    const char *name;
    size_t at, bytes;
} fields[] = {
    FIELD("segment.bytes", segment_bytes),
    FIELD("segment.ms", segment_ms),
    FIELD("segment.jitter.ms", segment_jitter_ms),
    FIELD("segment.index.bytes", segment_index_bytes),
    FIELD("index.interval.bytes", index_interval_bytes),
    FIELD("flush.messages", flush_messages),
    FIELD("flush.ms", flush_ms),
    FIELD("flush.before.ack", flush_before_ack),
    FIELD("retention.bytes", retention_bytes),
    FIELD("retention.ms", retention_ms),
    FIELD("file.delete.delay.ms", file_delete_delay_ms),
    FIELD("max.message.bytes", max_message_bytes),
    FIELD("max.unpacked.bytes", max_unpacked_bytes),
    FIELD("delete.retention.ms", delete_retention_ms),
    FIELD("min.compaction.lag.ms", min_compaction_lag_ms),
    FIELD("max.compaction.lag.ms", max_compaction_lag_ms),
    FIELD("min.cleanable.dirty.ratio", min_cleanable_dirty_percent),
    FIELD("compression.gzip.level", gzip_level),
    FIELD("compression.lz4.level", lz4_level),
    FIELD("compression.zstd.level", zstd_level),
    FIELD("preallocate", preallocate),
    FIELD("message.timestamp.before.max.ms", timestamp_before_max_ms),
    FIELD("message.timestamp.after.max.ms", timestamp_after_max_ms),
    FIELD("min.insync.replicas", min_insync_replicas),
    FIELD("producer.id.expiration.ms", producer_id_expiration_ms),
    FIELD("write.back.bytes", write_back_bytes),
};

static const char *const text_names[] = {"cleanup.policy", "compression.type", "message.timestamp.type"};

static void put_number(struct stele_log_config *config, size_t field, int64_t number)
{
    uint8_t *place = (uint8_t *)config + fields[field].at;
    int32_t small = (int32_t)number;
    bool truth = number != 0;
    if (fields[field].bytes == sizeof(number))
        memcpy(place, &number, sizeof(number));
    else if (fields[field].bytes == sizeof(small))
        memcpy(place, &small, sizeof(small));
    else
        memcpy(place, &truth, sizeof(truth));
}

static void put_text(struct stele_log_config *config, const char *name, const char *text)
{
    if (strcmp(name, "cleanup.policy") == 0) {
        config->cleanup_delete = list_has(text, "delete");
        config->cleanup_compact = list_has(text, "compact");
    } else if (strcmp(name, "compression.type") == 0) {
        config->compression_producer = strcmp(text, "producer") == 0;
        config->compression = config->compression_producer ? STELE_CODEC_NONE : stele_codec_from_name(text);
    } else if (strcmp(name, "message.timestamp.type") == 0) {
        config->log_append_time = strcmp(text, "LogAppendTime") == 0;
    }
}

void stele_node_log_config(const struct stele_settings *settings, struct stele_log_config *out_config)
{
    *out_config = (struct stele_log_config){.segment_bytes = 0};
    for (size_t i = 0; i < STELE_ARRAY_LEN(fields); i++) {
        bool is_truth = fields[i].bytes == sizeof(bool);
        put_number(out_config, i,
                   is_truth ? stele_settings_bool(settings, fields[i].name)
                            : stele_settings_int(settings, fields[i].name));
    }
    for (size_t i = 0; i < STELE_ARRAY_LEN(text_names); i++)
        put_text(out_config, text_names[i], stele_settings_text(settings, text_names[i]));
}

enum stele_err stele_node_overlay_log_config(const char *const *names, const char *const *values, int count,
                                             struct stele_log_config *inout_config, struct stele_error *error)
{
    for (int i = 0; i < count; i++) {
        int64_t number = 0;
        enum stele_err err =
            stele_settings_topic_number(rows, (int)STELE_ARRAY_LEN(rows), names[i], values[i], &number, error);
        if (err != STELE_OK)
            return err;
        for (size_t k = 0; k < STELE_ARRAY_LEN(fields); k++) {
            if (strcmp(fields[k].name, names[i]) == 0)
                put_number(inout_config, k, number);
        }
        put_text(inout_config, names[i], values[i]);
    }
    return STELE_OK;
}

enum stele_err stele_node_check_log_config(const struct stele_log_config *config, struct stele_error *error)
{
    if (config->min_compaction_lag_ms > config->max_compaction_lag_ms)
        return stele_error_set(
            error, STELE_INVALID_CONFIG,
            "min.compaction.lag.ms (%lld) is above max.compaction.lag.ms (%lld): change both together",
            (long long)config->min_compaction_lag_ms, (long long)config->max_compaction_lag_ms);
    return STELE_OK;
}

int64_t stele_node_memory_budget(const struct stele_settings *settings)
{
    const int64_t uncounted_min = 6 << 20;
    int64_t limit = stele_settings_int(settings, "memory.limit");
    int64_t uncounted = stele_max_i64(limit / 8, uncounted_min);
    return stele_max_i64(limit - uncounted, limit / 2);
}
