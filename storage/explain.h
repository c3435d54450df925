/* A log explained: where it stands, why each segment began and what keeps it (by the rules of retention.h), what
 * happened to it (by its history), and histograms of what is in it. It goes in steps, for a loop that must not block:
 * whatever reads files is done by a job, a bounded piece at a time. Between two steps the log may change. */
#ifndef STELE_STORAGE_EXPLAIN_H
#define STELE_STORAGE_EXPLAIN_H

#include "base/arena.h"
#include "proto/api_admin.h"
#include "storage/log.h"
#include "storage/retention.h"

/** Powers of two: bucket i counts values <= 2^i that are in no bucket before. */
enum { STELE_HISTOGRAM_BUCKETS = 48 };
struct stele_histogram {
    int64_t buckets[STELE_HISTOGRAM_BUCKETS];
    int64_t count, sum, max;
};
void stele_histogram_add(struct stele_histogram *histogram, int64_t value, int64_t times);

enum { STELE_EXPLAIN_LEARN_MAX = 16 };

struct stele_log_explain {
    struct stele_arena *arena; /* everything that `out` points to; nobody else uses it until the end */
    bool with_segments, with_stats;
    struct stele_described_log *out; /* filled in; its err and names are the caller's */

    /* the log's */
    enum {
        STELE_EXPLAIN_BEGINS,
        STELE_EXPLAIN_LEARNS,
        STELE_EXPLAIN_TELLS,
        STELE_EXPLAIN_SCANS,
        STELE_EXPLAIN_ENDS
    } phase;
    void (*work)(struct stele_log_explain *explain);
    enum stele_err work_err;
    struct stele_env *env;
    const char *dir;
    int64_t wall_ms;

    struct stele_history_event *history;
    int history_count;

    int64_t learned_base; /* of segments up to this one times were asked for */
    int64_t bases[STELE_EXPLAIN_LEARN_MAX];
    int base_count;

    struct stele_log_config config; /* as the next four at the time of the summary */
    struct stele_retention_in in;
    struct stele_retention_segment *judged;
    struct stele_described_segment *segments; /* those deleted and not yet unlinked, then the live ones */
    int segment_count, deleted_count;

    int64_t scan_base, scan_pos; /* what is read next */
    struct stele_slice slice;    /* what `work` reads; empty: nothing is to be done */
    struct stele_file *file;
    bool is_segment_read;

    struct stele_histogram record_bytes, batch_bytes, batch_records, segment_bytes, index_bytes;
    struct stele_histogram rolls[STELE_REASON_COUNT]; /* intervals */
};

/** Goes on until there is an answer (*out_waits false) or files are to be read: then `work` is due, in a job, and after
 * it the next step. Begins with all but the first four fields zero. Errors (nothing is held then): NO_MEMORY; of files
 * that cannot be read it tells what it knows without them. */
STELE_MUST_CHECK enum stele_err stele_log_explain_step(struct stele_log *log, struct stele_log_explain *explain,
                                                       bool *out_waits);
void stele_log_explain_work(struct stele_log_explain *explain);
/** Gives up one between work and step. */
void stele_log_explain_drop(struct stele_log_explain *explain);

/* Between explain.c and explain_text.c: fills the segments' sentences and forecasts from the summary, history and
 * files (job). */
STELE_MUST_CHECK enum stele_err stele_explain__tell(struct stele_log_explain *explain);
/** "2026-11-30T09:00:00.000Z". */
enum { STELE_TIME_TEXT_BYTES = 64 };
void stele_explain__time_text(int64_t wall_ms, char out_text[STELE_TIME_TEXT_BYTES]);

#endif
