/* Why segments came and went: one small append-only text file beside the segments, "stele-history", a line an event:
 * wall_ms SP kind SP offset SP bytes SP reason. Kafka ignores the name (no dot). Kept short: above 1 MiB the older half
 * is dropped. */
#ifndef STELE_STORAGE_HISTORY_H
#define STELE_STORAGE_HISTORY_H

#include "base/env.h"

#define STELE_HISTORY_FILE "stele-history"

/* STELE_REASON(NAME, "text") */
#define STELE_REASONS(R)                                                                                               \
    R(SIZE, "segment.bytes reached")                                                                                   \
    R(TIME, "segment.ms reached")                                                                                      \
    R(OFFSET_INDEX_FULL, "offset index full")                                                                          \
    R(TIME_INDEX_FULL, "time index full")                                                                              \
    R(OFFSET_RANGE, "offset beyond the range of an index entry")                                                       \
    R(RETENTION_ALL, "every segment was to be deleted")                                                                \
    R(RETENTION_TIME, "retention.ms breached")                                                                         \
    R(RETENTION_SIZE, "retention.bytes breached")                                                                      \
    R(LOG_START, "below the log start offset")                                                                         \
    R(TORN_TAIL, "torn or invalid batch at the end")                                                                   \
    R(TRUNCATED, "truncated by the replica")                                                                           \
    R(AFTER_CUT, "follows a cut segment")                                                                              \
    R(DAMAGE, "invalid batch below the recovery point")                                                                \
    R(APPEND_FAILED, "append failed")                                                                                  \
    R(INDEX_MISSING, "index missing")                                                                                  \
    R(INDEX_WRONG, "index disagrees with the log")                                                                     \
    R(SNAPSHOT, "a snapshot of the metadata was taken")                                                                \
    R(REPAIRED, "fetched from another replica")

enum stele_reason {
#define R(name, text) STELE_REASON_##name,
    STELE_REASONS(R)
#undef R
        STELE_REASON_COUNT
};
const char *stele_reason_text(enum stele_reason reason);

enum stele_history_kind {
    STELE_HISTORY_ROLL,
    STELE_HISTORY_DELETE,
    STELE_HISTORY_CUT,
    STELE_HISTORY_DAMAGE,
    STELE_HISTORY_REBUILD,
    STELE_HISTORY_REPAIR
};

/** "roll", "delete", "cut", "damage", "rebuild", "repair". */
const char *stele_history_kind_name(enum stele_history_kind kind);

struct stele_history_event {
    int64_t wall_ms;
    enum stele_history_kind kind;
    int64_t offset; /* new base, deleted base, first offset cut, damaged or repaired */
    int64_t bytes;  /* of the deleted segment, the cut or the range */
    enum stele_reason reason;
};

/** Appends a line; not synced. A failure is returned but never fails the operation that it records. */
STELE_MUST_CHECK enum stele_err stele_history_append(struct stele_env *env, const char *dir,
                                                     const struct stele_history_event *event);
/** Syncs the file and its name: for the lines that recovery acts on, deletions from the front of a log before they are
 * carried out and damaged ranges. A missing file is fine. */
STELE_MUST_CHECK enum stele_err stele_history_sync(struct stele_env *env, const char *dir);
/** Calls `each` for every whole line; lines that do not parse are skipped. A missing file is empty. */
STELE_MUST_CHECK enum stele_err stele_history_read(struct stele_env *env, const char *dir,
                                                   void (*each)(void *arg, const struct stele_history_event *event),
                                                   void *arg);

#endif
