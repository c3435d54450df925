/* The settings of one log, resolved: topic settings over the node's. Names and defaults are those of facts: Kafka's
 * topic settings. */
#ifndef STELE_STORAGE_LOG_CONFIG_H
#define STELE_STORAGE_LOG_CONFIG_H

#include "proto/compress.h"

#include <stdbool.h>

struct stele_log_config {
    int64_t segment_bytes;                /* segment.bytes 1 GiB */
    int64_t segment_ms;                   /* segment.ms 168 h */
    int64_t segment_jitter_ms;            /* segment.jitter.ms 0 */
    int64_t segment_index_bytes;          /* segment.index.bytes 10 MiB */
    int64_t index_interval_bytes;         /* index.interval.bytes 4096 */
    int64_t flush_messages;               /* flush.messages */
    int64_t flush_ms;                     /* flush.ms */
    bool flush_before_ack;                /* flush.before.ack (ours) */
    int64_t retention_bytes;              /* retention.bytes -1 */
    int64_t retention_ms;                 /* retention.ms 168 h; -1 unlimited */
    int64_t file_delete_delay_ms;         /* file.delete.delay.ms 60000 */
    int64_t max_message_bytes;            /* max.message.bytes 1048588 */
    int64_t max_unpacked_bytes;           /* message.max.unpacked.bytes 64 MiB (ours) */
    bool cleanup_delete, cleanup_compact; /* cleanup.policy */
    int64_t delete_retention_ms;          /* delete.retention.ms */
    int64_t min_compaction_lag_ms, max_compaction_lag_ms;
    int32_t min_cleanable_dirty_percent; /* min.cleanable.dirty.ratio 0.5 as 50 */
    bool compression_producer;           /* compression.type=producer */
    enum stele_codec compression;        /* otherwise */
    int gzip_level, lz4_level, zstd_level;
    bool preallocate;     /* preallocate */
    bool log_append_time; /* message.timestamp.type=LogAppendTime */
    int64_t timestamp_before_max_ms, timestamp_after_max_ms;
    int32_t min_insync_replicas;
    int64_t producer_id_expiration_ms; /* node: 86400000 */
    int64_t write_back_bytes; /* log.write.back.bytes (ours): start write-back every so many appended bytes; 0 never */
};

/** Kafka's defaults. */
void stele_log_config_default(struct stele_log_config *out_config);

#endif
