/* The log directories of a node: locks, markers, checkpoints, which partition is where, and failure of one directory
 * (facts 8.1, 11). Belongs to the control side of the node; functions said to run in a job do. */
#ifndef STELE_STORAGE_LOG_DIRS_H
#define STELE_STORAGE_LOG_DIRS_H

#include "storage/checkpoint.h"
#include "storage/log.h"

struct stele_log_dirs;

struct stele_log_dirs_options {
    struct stele_env *env;
    const char *const *paths; /* log.dirs */
    int count;
    int64_t reserve_bytes; /* log.dir.reserve.bytes */
};

/** A partition's directory that was found. */
struct stele_found_log {
    int dir;
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    struct stele_uuid topic_id;                               /* zero when partition.metadata is missing */
    int64_t recovery_point, log_start_offset, high_watermark; /* of the checkpoints; 0, 0, -1 without */
    bool was_clean;
};

/** Creates missing directories, locks each, checks that each is ours or empty (FOREIGN: a real Kafka's; nothing is
 * changed then), reads meta.properties and checkpoints, takes the clean markers, lists partitions, finishes deletions
 * (-delete). A directory that fails with an I/O error is offline; the others go on; when all are, the error is
 * returned. `error` names the directory or file and the way out. Errors: LOCKED, FOREIGN, IO, CORRUPT, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_open(const struct stele_log_dirs_options *options,
                                                    struct stele_log_dirs **out_dirs, struct stele_error *error);
int stele_log_dirs_found_count(const struct stele_log_dirs *dirs);
const struct stele_found_log *stele_log_dirs_found(const struct stele_log_dirs *dirs, int index);
/** True and the ids of meta.properties when the node was formatted before. */
bool stele_log_dirs_identity(const struct stele_log_dirs *dirs, struct stele_meta_properties *out_properties);
/** Writes meta.properties to every directory that has none (a directory id each). */
STELE_MUST_CHECK enum stele_err stele_log_dirs_format(struct stele_log_dirs *dirs, const char *cluster_id,
                                                      int32_t node_id);

/** The live directory with the fewest partitions; -1 when all are offline. */
int stele_log_dirs_pick(const struct stele_log_dirs *dirs);
/** Makes DIR/topic-partition with partition.metadata (unsynced) and counts it. Errors: EXISTS, IO, NO_SPACE, OFFLINE.
 */
STELE_MUST_CHECK enum stele_err stele_log_dirs_create(struct stele_log_dirs *dirs, int dir, const char *topic,
                                                      int32_t partition, const struct stele_uuid *topic_id,
                                                      char out_path[STELE_PATH_BYTES]);
const char *stele_log_dirs_path(const struct stele_log_dirs *dirs, int dir);
int stele_log_dirs_count(const struct stele_log_dirs *dirs);
bool stele_log_dirs_is_offline(const struct stele_log_dirs *dirs, int dir);
/** Takes a directory offline: its logs must not be used any more, it gets no checkpoint and no marker. */
void stele_log_dirs_fail(struct stele_log_dirs *dirs, int dir, const char *reason);
/** Free space as last measured is below the reserve: produces are to be refused with a retriable error. measure asks
 * the disk. */
bool stele_log_dirs_is_full(const struct stele_log_dirs *dirs, int dir);
void stele_log_dirs_measure(struct stele_log_dirs *dirs, int dir);

/** What a checkpoint round writes for one log. */
struct stele_log_points {
    int dir;
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    int64_t recovery_point, log_start_offset, high_watermark;
    int64_t first_segment_base; /* log start is written only when above it */
};
/** Writes the three checkpoints of every live directory (job). A failure takes that directory offline (reported in the
 * return). */
STELE_MUST_CHECK enum stele_err stele_log_dirs_checkpoint(struct stele_log_dirs *dirs,
                                                          const struct stele_log_points *points, int count);
/** After every log of `dir` closed without an error and the checkpoints were written: the clean marker. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_mark_clean(struct stele_log_dirs *dirs, int dir);
/** Gives up the locks. */
void stele_log_dirs_close(struct stele_log_dirs *dirs);

#endif
