/* __cluster_metadata-0: the log whose records are everything durable about the cluster. One voter for now: what is
 * synced is committed. A change is synced first, then applied to the image, then answered.
 *
 * Invariants
 *  1. The image holds exactly the records below the high watermark.
 *  2. One change at a time is under way; the others wait in order.
 *  3. The log goes on from every sound snapshot that is kept (node/metadata_snapshot.h). */
#ifndef STELE_NODE_METADATA_LOG_H
#define STELE_NODE_METADATA_LOG_H

#include "node/metadata_snapshot.h"
#include "node/shard.h"
#include "storage/log.h"

#define STELE_METADATA_TOPIC_NAME "__cluster_metadata"
enum {
    STELE_METADATA_LEVEL = 1,     /* of a new cluster */
    STELE_METADATA_LEVEL_MAX = 2, /* that this version understands */
    STELE_METADATA_EPOCH = 1
};

/** A batch of records on its way; lives in its asker's memory until `done`. */
struct stele_metadata_change {
    struct stele_list link;
    const struct stele_metadata_record *records;
    int count;
    void (*done)(struct stele_metadata_change *change, enum stele_err err); /* OK: durable and in the image */

    struct stele_metadata_log *mlog; /* the rest is the log's */
    struct stele_task task;
    int64_t time_ms; /* of its records */
    enum stele_err err;
};

struct stele_metadata_log {
    struct stele_shard *shard;
    struct stele_log *log; /* NULL until attached */
    struct stele_image image;
    struct stele_list changes;
    bool is_busy;
    struct stele_job flush_job;
    struct stele_log_flush *flush;
    enum stele_err flush_err;

    /* snapshots */
    int64_t snapshot_bytes_max; /* of records since the last one: then it is time for the next */
    int64_t snapshot_end;       /* of the newest; 0 none */
    int64_t bytes;              /* of records since it */
    int64_t tried_bytes;        /* when the last try began */
    int64_t snapshot_bytes;     /* those that are in the one under way */
    struct stele_metadata_snapshot snapshot;
    struct stele_job snapshot_job;
    enum stele_err snapshot_err;
    bool is_snapshotting, wants_trim;
    int64_t trim_to;
    struct stele_job unlink_job;
    int64_t *unlink_bases; /* while its job runs */
    int unlink_count;
    enum stele_err unlink_err;
    void (*idle)(struct stele_metadata_log *mlog); /* a job beside the changes has ended */

    /* The log failed and can no longer be written. */
    void (*failed)(struct stele_metadata_log *mlog, enum stele_err err);
};

/** The id that Kafka gives it too. */
struct stele_uuid stele_metadata_topic_id(void);
/** The settings of its log. */
void stele_metadata_log_config(struct stele_log_config *out_config);

void stele_metadata_log_init(struct stele_metadata_log *mlog, struct stele_shard *shard);
/** Drops it without touching a file. */
void stele_metadata_log_deinit(struct stele_metadata_log *mlog);

/** Where the image came from. */
struct stele_metadata_begin {
    int64_t snapshot_end; /* 0: there was none */
    int64_t bytes;        /* of records after it */
};

/** Takes the newest snapshot that is sound and applies every record after it (job). Errors: CORRUPT,
 * UNSUPPORTED_VERSION, FOREIGN (it has records, and the first is not FORMAT), IO, NO_MEMORY; `error` names the log. */
STELE_MUST_CHECK enum stele_err stele_metadata_log_replay(struct stele_log *log, struct stele_env *env,
                                                          struct stele_image *image,
                                                          struct stele_metadata_begin *out_begin,
                                                          struct stele_error *error);
/** What to say to who asked for a change that was not made. */
const char *stele_metadata_log_why(enum stele_err err);
/** Nothing is under way any more. */
bool stele_metadata_log_is_idle(const struct stele_metadata_log *mlog);
/** Takes an opened and replayed log. */
void stele_metadata_log_attach(struct stele_metadata_log *mlog, struct stele_log *log,
                               const struct stele_metadata_begin *begin);
/** Appends, syncs in a job, applies, then calls done; never from inside this call. */
void stele_metadata_log_change(struct stele_metadata_log *mlog, struct stele_metadata_change *change);

#endif
