/* Which segments may go (facts 6). Pure: works on a summary of the segments. */
#ifndef STELE_STORAGE_RETENTION_H
#define STELE_STORAGE_RETENTION_H

#include "storage/history.h"
#include "storage/log_config.h"

struct stele_retention_segment {
    int64_t base_offset, bytes;
    int64_t largest_timestamp; /* or mtime */
};

struct stele_retention_in {
    const struct stele_log_config *config;
    const struct stele_retention_segment *segments; /* ascending */
    int count;
    int64_t log_start_offset, log_end_offset, high_watermark, wall_ms;
};

/** How many of the oldest segments are to be deleted and why the first of them (reasons[i] for each). `reasons` has
 * room for `count`. All of them means: roll first. An empty last segment is never counted. */
int stele_retention_decide(const struct stele_retention_in *in, enum stele_reason *reasons);

#endif
