#include "storage/log_config.h"

void stele_log_config_default(struct stele_log_config *out_config)
{
    const int64_t hour_ms = 3600000;
    *out_config = (struct stele_log_config){
        .segment_bytes = 1073741824,
        .segment_ms = 168 * hour_ms,
        .segment_jitter_ms = 0,
        .segment_index_bytes = 10485760,
        .index_interval_bytes = 4096,
        .flush_messages = INT64_MAX,
        .flush_ms = INT64_MAX,
        .flush_before_ack = false,
        .retention_bytes = -1,
        .retention_ms = 168 * hour_ms,
        .file_delete_delay_ms = 60000,
        .max_message_bytes = 1048588,
        .max_unpacked_bytes = 67108864,
        .cleanup_delete = true,
        .cleanup_compact = false,
        .delete_retention_ms = 24 * hour_ms,
        .min_compaction_lag_ms = 0,
        .max_compaction_lag_ms = INT64_MAX,
        .min_cleanable_dirty_percent = 50,
        .compression_producer = true,
        .compression = STELE_CODEC_NONE,
        .gzip_level = STELE_CODEC_LEVEL_DEFAULT,
        .lz4_level = STELE_CODEC_LEVEL_DEFAULT,
        .zstd_level = STELE_CODEC_LEVEL_DEFAULT,
        .preallocate = false,
        .log_append_time = false,
        .timestamp_before_max_ms = INT64_MAX,
        .timestamp_after_max_ms = hour_ms,
        .min_insync_replicas = 1,
        .producer_id_expiration_ms = 24 * hour_ms,
        .write_back_bytes = 4194304,
    };
}
