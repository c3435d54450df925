/* Which segments may go, and what keeps the others (facts 6). Pure: works on a summary of the segments. One rule serves
 * both retention and whoever explains it. */
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

/** What keeps a segment. */
enum stele_keeper {
    STELE_KEPT_BY_NOTHING,   /* it goes, by `reason` */
    STELE_KEPT_BY_WATERMARK, /* the high watermark has not passed its end */
    STELE_KEPT_BY_EMPTINESS, /* it is the last one and empty */
    STELE_KEPT_BY_POLICY,    /* cleanup.policy does not say delete */
    STELE_KEPT_BY_LIMITS,    /* neither limit is breached; the verdict says what is left */
    STELE_KEPT_BY_OLDER      /* it would go, by `reason`, but an older one stays */
};

struct stele_retention_verdict {
    enum stele_keeper keeper;
    enum stele_reason reason; /* STELE_REASON_COUNT: none says that it should go */
    int64_t due_ms;           /* wall time after which retention.ms is breached; INT64_MAX never */
    int64_t due_bytes;        /* bytes that the log is to grow by until retention.bytes is; 0 it is, INT64_MAX never */
};

/** A verdict for every segment; `verdicts` has room for `count`. */
void stele_retention_judge(const struct stele_retention_in *in, struct stele_retention_verdict *verdicts);

/** How many of the oldest segments are to be deleted and why the first of them (reasons[i] for each). `reasons` has
 * room for `count`. All of them means: roll first. An empty last segment is never counted. */
int stele_retention_decide(const struct stele_retention_in *in, enum stele_reason *reasons);

#endif
