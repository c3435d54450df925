#include "node/settings.h"

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

void stele_node_log_config(const struct stele_settings *settings, struct stele_log_config *out_config)
{
    const char *policy = stele_settings_text(settings, "cleanup.policy");
    const char *codec = stele_settings_text(settings, "compression.type");
    bool is_producer = strcmp(codec, "producer") == 0;
    *out_config = (struct stele_log_config){
        .segment_bytes = stele_settings_int(settings, "segment.bytes"),
        .segment_ms = stele_settings_int(settings, "segment.ms"),
        .segment_jitter_ms = stele_settings_int(settings, "segment.jitter.ms"),
        .segment_index_bytes = stele_settings_int(settings, "segment.index.bytes"),
        .index_interval_bytes = stele_settings_int(settings, "index.interval.bytes"),
        .flush_messages = stele_settings_int(settings, "flush.messages"),
        .flush_ms = stele_settings_int(settings, "flush.ms"),
        .flush_before_ack = stele_settings_bool(settings, "flush.before.ack"),
        .retention_bytes = stele_settings_int(settings, "retention.bytes"),
        .retention_ms = stele_settings_int(settings, "retention.ms"),
        .file_delete_delay_ms = stele_settings_int(settings, "file.delete.delay.ms"),
        .max_message_bytes = stele_settings_int(settings, "max.message.bytes"),
        .max_unpacked_bytes = stele_settings_int(settings, "max.unpacked.bytes"),
        .cleanup_delete = list_has(policy, "delete"),
        .cleanup_compact = list_has(policy, "compact"),
        .delete_retention_ms = stele_settings_int(settings, "delete.retention.ms"),
        .min_compaction_lag_ms = stele_settings_int(settings, "min.compaction.lag.ms"),
        .max_compaction_lag_ms = stele_settings_int(settings, "max.compaction.lag.ms"),
        .min_cleanable_dirty_percent = (int32_t)stele_settings_int(settings, "min.cleanable.dirty.ratio"),
        .compression_producer = is_producer,
        .compression = is_producer ? STELE_CODEC_NONE : stele_codec_from_name(codec),
        .gzip_level = (int)stele_settings_int(settings, "compression.gzip.level"),
        .lz4_level = (int)stele_settings_int(settings, "compression.lz4.level"),
        .zstd_level = (int)stele_settings_int(settings, "compression.zstd.level"),
        .preallocate = stele_settings_bool(settings, "preallocate"),
        .log_append_time = strcmp(stele_settings_text(settings, "message.timestamp.type"), "LogAppendTime") == 0,
        .timestamp_before_max_ms = stele_settings_int(settings, "message.timestamp.before.max.ms"),
        .timestamp_after_max_ms = stele_settings_int(settings, "message.timestamp.after.max.ms"),
        .min_insync_replicas = (int32_t)stele_settings_int(settings, "min.insync.replicas"),
        .producer_id_expiration_ms = stele_settings_int(settings, "producer.id.expiration.ms"),
        .write_back_bytes = stele_settings_int(settings, "write.back.bytes"),
    };
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
