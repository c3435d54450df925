/* The small files of a log directory and of a partition (facts 2.2 to 2.5), Kafka's formats byte for byte. All are
 * replaced whole: tmp, sync, rename, directory sync. */
#ifndef STELE_STORAGE_CHECKPOINT_H
#define STELE_STORAGE_CHECKPOINT_H

#include "base/env.h"
#include "base/uuid.h"

#define STELE_RECOVERY_POINT_FILE "recovery-point-offset-checkpoint"
#define STELE_LOG_START_FILE "log-start-offset-checkpoint"
#define STELE_HIGH_WATERMARK_FILE "replication-offset-checkpoint"
#define STELE_CLEANER_OFFSET_FILE "cleaner-offset-checkpoint"
#define STELE_LEADER_EPOCH_FILE "leader-epoch-checkpoint"
#define STELE_PARTITION_METADATA_FILE "partition.metadata"
#define STELE_META_PROPERTIES_FILE "meta.properties"
#define STELE_CLEAN_SHUTDOWN_FILE ".kafka_cleanshutdown"
#define STELE_LOCK_FILE ".lock"

enum { STELE_TOPIC_NAME_MAX = 249 };

struct stele_checkpoint_entry {
    char topic[STELE_TOPIC_NAME_MAX + 1];
    int32_t partition;
    int64_t offset;
};

struct stele_checkpoint {
    struct stele_mem *mem;
    struct stele_checkpoint_entry *entries; /* sorted by topic, partition */
    int count, capacity;
};

void stele_checkpoint_init(struct stele_checkpoint *checkpoint, struct stele_mem *mem);
void stele_checkpoint_deinit(struct stele_checkpoint *checkpoint);
STELE_MUST_CHECK enum stele_err stele_checkpoint_set(struct stele_checkpoint *checkpoint, const char *topic,
                                                     int32_t partition, int64_t offset);
/** Many at once: add appends without a look at the order, then sort makes it. False when a partition is named twice. */
STELE_MUST_CHECK enum stele_err stele_checkpoint_add(struct stele_checkpoint *checkpoint, const char *topic,
                                                     int32_t partition, int64_t offset);
STELE_MUST_CHECK bool stele_checkpoint_sort(struct stele_checkpoint *checkpoint);
/** False when there is none. */
bool stele_checkpoint_get(const struct stele_checkpoint *checkpoint, const char *topic, int32_t partition,
                          int64_t *out_offset);
/** A missing, empty or version-only file is an empty list. Errors: CORRUPT with the line named in `error` (may be
 * NULL). */
STELE_MUST_CHECK enum stele_err stele_checkpoint_read(struct stele_checkpoint *checkpoint, struct stele_vfs *vfs,
                                                      const char *dir, const char *name, struct stele_error *error);
STELE_MUST_CHECK enum stele_err stele_checkpoint_parse(struct stele_checkpoint *checkpoint, const char *text,
                                                       size_t count, struct stele_error *error);
STELE_MUST_CHECK enum stele_err stele_checkpoint_write(const struct stele_checkpoint *checkpoint, struct stele_vfs *vfs,
                                                       const char *dir, const char *name);

/** partition.metadata. Errors: NOT_FOUND (also for what a crash leaves of a file that was not synced: the beginning of
 * one, or zeros; nothing was acknowledged then), CORRUPT. */
STELE_MUST_CHECK enum stele_err stele_partition_metadata_read(struct stele_vfs *vfs, struct stele_mem *mem,
                                                              const char *dir, struct stele_uuid *out_topic_id);
STELE_MUST_CHECK enum stele_err stele_partition_metadata_parse(const char *text, size_t count,
                                                               struct stele_uuid *out_topic_id);
/** Writes it: as stele_vfs_replace (sync), or, in a directory that was just made, without any sync: that of file and
 * directory comes before the first acknowledgement. */
STELE_MUST_CHECK enum stele_err stele_partition_metadata_write(struct stele_vfs *vfs, const char *dir,
                                                               const struct stele_uuid *topic_id, bool sync);
/** The same with sync in steps, for many directories at a time: what one sync has the file system write, the others
 * find written. */
enum stele_metadata_step {
    STELE_METADATA_WRITE,    /* a temporary file */
    STELE_METADATA_SYNC,     /* of it */
    STELE_METADATA_REPLACE,  /* by it */
    STELE_METADATA_SYNC_OLD, /* instead of these three: of the file itself, which this process has written */
    STELE_METADATA_SYNC_DIR, /* the last step */
};
STELE_MUST_CHECK enum stele_err stele_partition_metadata_step(struct stele_vfs *vfs, const char *dir,
                                                              const struct stele_uuid *topic_id,
                                                              enum stele_metadata_step step);

struct stele_meta_properties {
    char cluster_id[64];
    int32_t node_id;
    char directory_id[STELE_UUID_TEXT_BYTES]; /* "" none */
};
STELE_MUST_CHECK enum stele_err stele_meta_properties_read(struct stele_vfs *vfs, struct stele_mem *mem,
                                                           const char *dir, struct stele_meta_properties *out,
                                                           struct stele_error *error);
STELE_MUST_CHECK enum stele_err stele_meta_properties_parse(const char *text, size_t count,
                                                            struct stele_meta_properties *out,
                                                            struct stele_error *error);
STELE_MUST_CHECK enum stele_err stele_meta_properties_write(struct stele_vfs *vfs, const char *dir,
                                                            const struct stele_meta_properties *properties,
                                                            int64_t wall_ms);

struct stele_clean_shutdown {
    bool was_clean;     /* the marker was there */
    int64_t node_epoch; /* that it holds; -1: none, or nothing that makes sense */
};
/** The clean-shutdown marker. take: reports what it says and removes it (durably) before any log is touched. */
STELE_MUST_CHECK enum stele_err stele_clean_shutdown_take(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                                          struct stele_clean_shutdown *out_found);
STELE_MUST_CHECK enum stele_err stele_clean_shutdown_write(struct stele_vfs *vfs, const char *dir, int64_t node_epoch);

#define STELE_SERVED_EPOCH_FILE "stele-served-epoch"
/** The node epoch of the last life in which a log directory served: a copy of an older time holds an earlier one.
 * `read` gives 0 when there is none, or nothing that makes sense. Errors: as the vfs. */
STELE_MUST_CHECK enum stele_err stele_served_epoch_read(struct stele_vfs *vfs, struct stele_mem *mem, const char *dir,
                                                        int64_t *out_node_epoch);
STELE_MUST_CHECK enum stele_err stele_served_epoch_write(struct stele_vfs *vfs, const char *dir, int64_t node_epoch);

/** "TOPIC-PARTITION" and its parse, with the states that directory names carry (".<32 hex>-delete" and so on).
 * Errors: MALFORMED. */
enum stele_dir_kind { STELE_DIR_LIVE, STELE_DIR_DELETE, STELE_DIR_STRAY, STELE_DIR_FUTURE };
STELE_MUST_CHECK enum stele_err stele_partition_dir_parse(const char *name, char out_topic[STELE_TOPIC_NAME_MAX + 1],
                                                          int32_t *out_partition, enum stele_dir_kind *out_kind);
/** "<20 digits>-<10 digits>.checkpoint": a snapshot of the metadata. */
bool stele_metadata_snapshot_name_is(const char *name);
/** Legal: [a-zA-Z0-9._-]{1,249}, not "." or "..". */
bool stele_topic_name_is_legal(const char *name);

#endif
