/* Snapshots of the metadata: what the image says, as the records that make it, in a file beside the log named after the
 * offset that they reach: <end offset, 20 digits>-<epoch, 10 digits>.checkpoint, as Kafka does. Batches from offset 0
 * on; the first record is FORMAT, the last one a control record SNAPSHOT_FOOTER, without which a file is not whole.
 *
 * Two are kept, and the log from the older one's end on: a damaged one is not needed. */
#ifndef STELE_NODE_METADATA_SNAPSHOT_H
#define STELE_NODE_METADATA_SNAPSHOT_H

#include "base/buf.h"
#include "node/metadata_image.h"
#include "storage/log.h"

/** Records that are applied to an image, one batch after another. */
struct stele_metadata_replay {
    struct stele_env *env;
    struct stele_image *image;
    struct stele_arena arena;
    struct stele_error *error;
    const char *where; /* a path, for `error` */
    int64_t offset;    /* the next one */
    int64_t bytes;     /* applied */
    bool is_whole;     /* a footer was seen */
    int32_t done;      /* records of the batch at hand that are applied: it goes on behind them */
};

void stele_metadata_replay_init(struct stele_metadata_replay *replay, struct stele_env *env, struct stele_image *image,
                                const char *where, struct stele_error *error);
void stele_metadata_replay_deinit(struct stele_metadata_replay *replay);
enum stele_err stele_metadata_replay_fail(struct stele_metadata_replay *replay, enum stele_err err, const char *what);
/** Applies one whole batch. After NO_MEMORY it can be called again with the same one. Errors as those below. */
STELE_MUST_CHECK enum stele_err stele_metadata_replay_batch(struct stele_metadata_replay *replay, const uint8_t *batch,
                                                            size_t count);
/** Applies whole batches; what is left over is a part of one. Errors: CORRUPT, UNSUPPORTED_VERSION, FOREIGN (the first
 * record is not FORMAT), NO_MEMORY; said in `error`. */
STELE_MUST_CHECK enum stele_err stele_metadata_replay_bytes(struct stele_metadata_replay *replay, const uint8_t *bytes,
                                                            size_t count, size_t *out_used);

/** Where a snapshot ends, and the epoch of the last record below it. */
struct stele_metadata_point {
    int64_t end_offset; /* 0: there is no snapshot */
    int32_t epoch;
};

/** A snapshot in memory. */
struct stele_metadata_snapshot {
    struct stele_mem *mem;
    struct stele_buf **batches;
    int count, capacity;
    struct stele_metadata_point at;
};

enum { STELE_METADATA_SNAPSHOT_NAME_BYTES = 64 };
/** The name of a snapshot's file, with a suffix. */
void stele_metadata_snapshot_name(const struct stele_metadata_point *point, const char *suffix,
                                  char out_name[STELE_METADATA_SNAPSHOT_NAME_BYTES]);
/** A copy of the image: the caller writes and frees it. Errors: NO_MEMORY, TOO_LARGE. */
STELE_MUST_CHECK enum stele_err stele_metadata_snapshot_make(struct stele_env *env, const struct stele_image *image,
                                                             const struct stele_metadata_point *at,
                                                             struct stele_metadata_snapshot *out_snapshot);
void stele_metadata_snapshot_free(struct stele_metadata_snapshot *snapshot);
/** Applies a snapshot's file to an empty image. Errors: CORRUPT, UNSUPPORTED_VERSION, FOREIGN, IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_metadata_snapshot_read(struct stele_env *env, const char *path,
                                                             struct stele_image *image, struct stele_error *error);
/** Durably, in a job; then all others but that of `keep_offset` are deleted. Errors: IO, NO_SPACE. */
STELE_MUST_CHECK enum stele_err stele_metadata_snapshot_write(const struct stele_metadata_snapshot *snapshot,
                                                              struct stele_vfs *vfs, const char *dir,
                                                              int64_t keep_offset);
/** Makes the image of the newest snapshot that is sound and that the log goes on from, and says where it ends: 0 when
 * there is none and the log begins at 0 (job). Errors: CORRUPT (none will do), UNSUPPORTED_VERSION, FOREIGN, IO,
 * NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_metadata_snapshot_load(struct stele_env *env, struct stele_log *log,
                                                             struct stele_image *image,
                                                             struct stele_metadata_point *out_at,
                                                             struct stele_error *error);

#endif
