/* __cluster_metadata-0: the log whose records are everything durable about the cluster. One voter for now: what is
 * synced is committed. A change is synced first, then applied to the image, then answered.
 *
 * Invariants
 *  1. The image holds exactly the records below the high watermark.
 *  2. One change at a time is under way; the others wait in order. */
#ifndef STELE_NODE_METADATA_LOG_H
#define STELE_NODE_METADATA_LOG_H

#include "node/metadata_image.h"
#include "node/shard.h"
#include "storage/log.h"

#define STELE_METADATA_TOPIC_NAME "__cluster_metadata"
enum { STELE_METADATA_LEVEL = 1, STELE_METADATA_EPOCH = 1 };

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

/** Reads a log from its start and applies every record (job). Errors: CORRUPT, UNSUPPORTED_VERSION, FOREIGN (it has
 * records, and the first is not FORMAT), IO, NO_MEMORY; `error` names the log. */
STELE_MUST_CHECK enum stele_err stele_metadata_log_replay(struct stele_log *log, struct stele_env *env,
                                                          struct stele_image *image, struct stele_error *error);
/** What to say to who asked for a change that was not made. */
const char *stele_metadata_log_why(enum stele_err err);
/** Takes an opened and replayed log. */
void stele_metadata_log_attach(struct stele_metadata_log *mlog, struct stele_log *log);
/** Appends, syncs in a job, applies, then calls done; never from inside this call. */
void stele_metadata_log_change(struct stele_metadata_log *mlog, struct stele_metadata_change *change);

#endif
