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
    int32_t node_id;       /* whose they must be once they are formatted; -1: anybody's */
};

/** A partition's directory that was found. */
struct stele_found_log {
    int dir;
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    struct stele_uuid topic_id; /* zero when partition.metadata is missing, or bad and never synced */
    int64_t recovery_point, log_start_offset, high_watermark; /* of the checkpoints; 0, 0, -1 without */
    bool was_clean;
    bool is_moved; /* this start ended its move: nothing of it counts as clean */
};

enum { STELE_FUTURE_MARK_BYTES = 33 };

/** A copy that a move was making: DIR/topic-partition.<mark>-future. Of the log only the names and the id are set. */
struct stele_found_future {
    struct stele_found_log log;
    char mark[STELE_FUTURE_MARK_BYTES];
    bool is_log; /* while opening: it is the partition's directory, and gets its name */
};

/** Creates missing directories, locks each, reads meta.properties, lists partitions, and only when nothing is refused
 * takes the clean markers, reads the checkpoints (a damaged one is traced and counts as absent) and finishes deletions
 * (-delete).
 *
 * FOREIGN, found before anything is created or locked: the first directory holds partitions or meta.properties but its
 * metadata log (__cluster_metadata-0) does not begin with our FORMAT record, or it is another node's; or another
 * directory holds them and is not of the first one's cluster and node. A first start that a crash broke off is no
 * foreign directory: a metadata log whose beginning was never synced, and neither meta.properties nor another
 * partition; so write meta.properties (format) only after the FORMAT record was synced.
 *
 * A directory that fails with an I/O error is offline and the others go on, but the first must work: it holds the
 * metadata log. `error` names the directory or file and the way out.
 * Errors: LOCKED, FOREIGN, IO, NO_SPACE, CORRUPT, INVALID_ARGUMENT (a directory given twice), TOO_LARGE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_open(const struct stele_log_dirs_options *options,
                                                    struct stele_log_dirs **out_dirs, struct stele_error *error);
/** The partitions of the directories that work, by topic and partition. While a directory is offline, a partition that
 * is not found may be in it: it is not to be made anew elsewhere. */
int stele_log_dirs_found_count(const struct stele_log_dirs *dirs);
const struct stele_found_log *stele_log_dirs_found(const struct stele_log_dirs *dirs, int index);
/** The copies of moves that were not ended, of the directories that work. */
int stele_log_dirs_future_count(const struct stele_log_dirs *dirs);
const struct stele_found_future *stele_log_dirs_future(const struct stele_log_dirs *dirs, int index);
/** True and the ids of meta.properties when the node was formatted before. */
bool stele_log_dirs_identity(const struct stele_log_dirs *dirs, struct stele_meta_properties *out_properties);
/** The id that a directory which has none yet will be formatted with. */
void stele_log_dirs_set_id(struct stele_log_dirs *dirs, int dir, const struct stele_uuid *directory_id);
/** Writes meta.properties to every directory that has none (a directory id each), the first directory first. Errors:
 * IO, NO_SPACE, INVALID_ARGUMENT (the id is too long). */
STELE_MUST_CHECK enum stele_err stele_log_dirs_format(struct stele_log_dirs *dirs, const char *cluster_id,
                                                      int32_t node_id);

/** The live directory with the fewest partitions; -1 when all are offline. */
int stele_log_dirs_pick(const struct stele_log_dirs *dirs);
/** Makes DIR/topic-partition with partition.metadata and counts it. Nothing is synced: the file, its directory and DIR
 * are to be synced before the first flush of the log ends. Leaves nothing behind when it fails. Errors: EXISTS, IO,
 * NO_SPACE, OFFLINE, INVALID_ARGUMENT (the topic's name), TOO_LARGE (a name above 255 bytes). */
STELE_MUST_CHECK enum stele_err stele_log_dirs_create(struct stele_log_dirs *dirs, int dir, const char *topic,
                                                      int32_t partition, const struct stele_uuid *topic_id,
                                                      char out_path[STELE_PATH_BYTES]);

/* A partition ends in these steps, each in a job: condemn renames its directory, sync makes that last; the next start
 * deletes what was condemned, and delete does it at once. */

/** Renames DIR/topic-partition to DIR/topic-partition.<the id, 32 hex>-delete, where a topic's name that is too long is
 * cut; no log is open in it. Nothing to rename is fine. Errors: IO, NO_SPACE, OFFLINE, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_condemn(struct stele_log_dirs *dirs, int dir, const char *topic,
                                                       int32_t partition, const struct stele_uuid *topic_id);
STELE_MUST_CHECK enum stele_err stele_log_dirs_sync(struct stele_log_dirs *dirs, int dir);
/** Deletes what condemn renamed; `dir` is the path of the log directory, and `env` that of the job. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_delete(struct stele_env *env, const char *dir, const char *topic,
                                                      int32_t partition, const struct stele_uuid *topic_id);

/* A move between two log directories (Kafka's -future directories, KIP-113), each step in a job: begin makes the copy's
 * directory; when it holds all that the log has, the log is at rest and checkpoints of the copy are written, swap makes
 * it the log and leave ends the old one. In between condemn_copy ends it. `mark` tells one copy from another. */

struct stele_log_dirs_move {
    const char *topic;
    int32_t partition;
    struct stele_uuid topic_id;
    int from, to;
    char mark[STELE_FUTURE_MARK_BYTES];
};
/** Makes the directory of the copy and its names, durably; sets the mark. Leaves nothing behind when it fails. Errors:
 * IO, NO_SPACE, NO_MEMORY, OFFLINE, TOO_LARGE (a name above 255 bytes), NOT_FOUND (a directory without an id). */
STELE_MUST_CHECK enum stele_err stele_log_dirs_begin_move(struct stele_log_dirs *dirs, struct stele_log_dirs_move *move,
                                                          char out_path[STELE_PATH_BYTES]);
/** The path of the copy. Errors: TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_copy_path(const struct stele_log_dirs *dirs,
                                                         const struct stele_log_dirs_move *move,
                                                         char out_path[STELE_PATH_BYTES]);
/** Condemns the copy, durably. One that is not there is fine. Errors: IO, NO_SPACE, OFFLINE, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_condemn_copy(struct stele_log_dirs *dirs,
                                                            const struct stele_log_dirs_move *move);
/** Makes the synced copy the partition's directory. First a line in the first directory says where the partition is
 * from now on (storage/moved_file.h); a start that finds it goes on from there. `*out_is_moved` false: all is as it
 * was; a directory that failed is offline. The old directory stays until leave. Errors: IO, NO_SPACE, NO_MEMORY,
 * OFFLINE, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_swap(struct stele_log_dirs *dirs, const struct stele_log_dirs_move *move,
                                                    bool *out_is_moved);

/** After swap, when no log is open in the old directory any more: condemns it, and takes the line away. Where that
 * fails the line stays for the next start. Errors: IO, NO_SPACE, OFFLINE, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_leave(struct stele_log_dirs *dirs,
                                                     const struct stele_log_dirs_move *move);
/** Deletes what of the move was condemned: its copy in `to`, or the old directory in `from`; `dir` is the path of the
 * log directory, and `env` that of the job. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_delete_moved(struct stele_env *env, const char *dir,
                                                            const struct stele_log_dirs_move *move);
/** Deletes what a copy's directory holds but for partition.metadata: it begins anew. `dir` is its path. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_empty_copy(struct stele_env *env, const char *dir);

/** Which partitions are gone, of the topic that is asked for. */
struct stele_log_dirs_gone {
    bool (*is_gone)(void *arg, int32_t partition);
    void *arg;
};
/** Before partitions are made whose names were used before: takes what the checkpoints say of those that are gone back,
 * durably. A look at a flag when no partition was condemned since the last checkpoints, which are written without it.
 * Errors: IO, NO_SPACE, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_forget(struct stele_log_dirs *dirs, const char *topic,
                                                      const struct stele_log_dirs_gone *gone);

const char *stele_log_dirs_path(const struct stele_log_dirs *dirs, int dir);
int stele_log_dirs_count(const struct stele_log_dirs *dirs);
bool stele_log_dirs_is_offline(const struct stele_log_dirs *dirs, int dir);
/** Takes a directory offline: its logs must not be used any more, it gets no checkpoint and no marker. Any thread, as
 * is_offline. */
void stele_log_dirs_fail(struct stele_log_dirs *dirs, int dir, const char *reason);
/** Free space is below the reserve, or the disk has refused a write: produces are to be refused with a retriable
 * error. It is known from the last measurement, which asks the disk (job), and from what was taken since: `take` is
 * told of every append, with INT64_MAX of one that the disk refused. A measurement is due when something was taken or
 * the disk was full. Any thread, but for measure. */
bool stele_log_dirs_is_full(const struct stele_log_dirs *dirs, int dir);
/** As last measured, less what was taken since; may be below 0. */
int64_t stele_log_dirs_free_bytes(const struct stele_log_dirs *dirs, int dir);
void stele_log_dirs_take(struct stele_log_dirs *dirs, int dir, int64_t bytes);
bool stele_log_dirs_is_measure_due(const struct stele_log_dirs *dirs, int dir);
void stele_log_dirs_measure(struct stele_log_dirs *dirs, int dir);
/** From the next measurement on. */
void stele_log_dirs_set_reserve(struct stele_log_dirs *dirs, int64_t bytes);

/** What a checkpoint round writes for one log. */
struct stele_log_points {
    int dir;
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    int64_t recovery_point, log_start_offset, high_watermark; /* high watermark -1: none is known or written */
    int64_t first_segment_base;                               /* log start is written only when above it */
};
/** Writes the three checkpoints of every live directory (job); points of no partition (a high watermark of -1) are left
 * out. A failure takes that directory offline, but for a full disk or lack of memory; the others are written. Returns
 * the last error. Between the condemnation of a partition and this call no points of it were taken. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_checkpoint(struct stele_log_dirs *dirs,
                                                          const struct stele_log_points *points, int count);
/** What became of this directory's in the last call. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_checkpoint_err(const struct stele_log_dirs *dirs, int dir);
/** After every log of `dir` closed without an error and the checkpoints were written: the clean marker, with the node
 * epoch of this life (-1: it had none). */
STELE_MUST_CHECK enum stele_err stele_log_dirs_mark_clean(struct stele_log_dirs *dirs, int dir, int64_t node_epoch);
/** The node epoch of the life that stopped cleanly, as the markers of all directories say; -1: they do not agree, one
 * had none, or a directory is offline. */
int64_t stele_log_dirs_clean_epoch(const struct stele_log_dirs *dirs);
/** The node epoch of the last life in which the directory served, as it says itself; 0: it never did. */
int64_t stele_log_dirs_served_epoch(const struct stele_log_dirs *dirs, int dir);
/** A sync of one of its logs failed in an earlier life, and no later one has served yet: the caches of the machine,
 * which ran on, may have dropped what was not synced. */
bool stele_log_dirs_has_failed_sync(const struct stele_log_dirs *dirs);
/** Notes durably that the directories that work serve in a life (job). A failure takes its directory offline, but for a
 * full disk or lack of memory. Returns the last error. */
STELE_MUST_CHECK enum stele_err stele_log_dirs_mark_served(struct stele_log_dirs *dirs, int64_t node_epoch);
/** False: it is not known, for the directory was never formatted or could not be read. */
bool stele_log_dirs_id(const struct stele_log_dirs *dirs, int dir, struct stele_uuid *out_directory_id);
/** Gives up the locks. */
void stele_log_dirs_close(struct stele_log_dirs *dirs);

#endif
