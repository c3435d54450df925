#include "node/metadata_log.h"

#include "base/check.h"
#include "proto/record_batch.h"

#include <string.h>

enum { RECORD_ARENA_BYTES_MAX = 64 << 20 };

struct stele_uuid stele_metadata_topic_id(void)
{
    return (struct stele_uuid){.bytes = {[15] = 1}};
}

void stele_metadata_log_config(struct stele_log_config *out_config)
{
    stele_log_config_default(out_config);
    out_config->retention_ms = -1;
    out_config->retention_bytes = -1;
    out_config->cleanup_delete = false;
    out_config->max_message_bytes = INT32_MAX; /* a topic of many partitions is one batch */
    out_config->file_delete_delay_ms = 0;      /* nobody reads what a snapshot stands for */
}

void stele_metadata_log_init(struct stele_metadata_log *mlog, struct stele_shard *shard)
{
    *mlog = (struct stele_metadata_log){.shard = shard};
    stele_image_init(&mlog->image, shard->env->mem);
    stele_list_init(&mlog->changes);
}

void stele_metadata_log_deinit(struct stele_metadata_log *mlog)
{
    if (mlog->shard == NULL)
        return;
    if (mlog->flush != NULL)
        stele_log_flush_end(mlog->log, mlog->flush, STELE_CANCELLED);
    mlog->flush = NULL;
    stele_metadata_snapshot_free(&mlog->snapshot);
    stele_mem_free(mlog->shard->env->mem, mlog->unlink_bases);
    stele_log_free(mlog->log);
    mlog->log = NULL;
    stele_image_deinit(&mlog->image);
}

const char *stele_metadata_log_why(enum stele_err err)
{
    return err == STELE_NO_SPACE    ? "the disk of the metadata log is full: make room, then try again"
           : err == STELE_NO_MEMORY ? "memory ran out"
                                    : "the metadata log could not be written";
}

bool stele_metadata_log_is_idle(const struct stele_metadata_log *mlog)
{
    return !mlog->is_busy && !mlog->is_snapshotting && mlog->unlink_bases == NULL;
}

void stele_metadata_log_attach(struct stele_metadata_log *mlog, struct stele_log *log,
                               const struct stele_metadata_begin *begin)
{
    mlog->log = log;
    mlog->snapshot_end = begin->snapshot_end;
    mlog->bytes = begin->bytes;
    stele_log_attach(log, mlog->shard->cache);
    stele_log_set_high_watermark(log, stele_log_end_offset(log));
}

/* Snapshots: a copy of the image is written in a job while changes go on; then the log is cut to where the snapshot
 * before it ends. */

static void tell_idle(struct stele_metadata_log *mlog)
{
    if (mlog->idle != NULL)
        mlog->idle(mlog);
}

static void unlink_work(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, unlink_job);
    mlog->unlink_err = STELE_OK;
    for (int i = 0; i < mlog->unlink_count; i++) {
        enum stele_err err =
            stele_segment_unlink_deleted(job->env->vfs, stele_log_dir(mlog->log), mlog->unlink_bases[i]);
        if (err != STELE_OK)
            mlog->unlink_err = err;
    }
}

static void unlink_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, unlink_job);
    struct stele_env *env = mlog->shard->env;
    if (mlog->unlink_err != STELE_OK) /* the next start finds it */
        stele_trace(env, STELE_TRACE_LOG_UNLINK_FAILED, stele_log_name(mlog->log), stele_err_text(mlog->unlink_err), 0,
                    0, 0);
    stele_mem_free(env->mem, mlog->unlink_bases);
    mlog->unlink_bases = NULL;
    tell_idle(mlog);
}

static void start_unlinking(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    if (mlog->unlink_bases != NULL || stele_log_unlink_due(mlog->log) == INT64_MAX)
        return;
    if (stele_log_take_due(mlog->log, stele_env_mono_ms(env), &mlog->unlink_bases, &mlog->unlink_count) != STELE_OK)
        return; /* the next snapshot takes them too */
    mlog->unlink_job = (struct stele_job){.work = unlink_work, .done = unlink_done};
    env->ops->job(env, &mlog->unlink_job);
}

/* While no flush is under way. */
static enum stele_err trim(struct stele_metadata_log *mlog)
{
    int deleted = 0;
    enum stele_err err = stele_log_set_start_offset(mlog->log, mlog->trim_to);
    mlog->wants_trim = false;
    if (err == STELE_OK)
        err = stele_log_retain(mlog->log, &deleted);
    mlog->shard->is_changed = true;
    if (err == STELE_OK)
        start_unlinking(mlog);
    return stele_log_is_failed(mlog->log) ? err : STELE_OK;
}

static void snapshot_work(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, snapshot_job);
    mlog->snapshot_err =
        stele_metadata_snapshot_write(&mlog->snapshot, job->env->vfs, stele_log_dir(mlog->log), mlog->snapshot_end);
}

static void next_change(struct stele_metadata_log *mlog);

static void snapshot_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, snapshot_job);
    enum stele_err err = mlog->snapshot_err;
    int64_t end_offset = mlog->snapshot.end_offset;
    mlog->is_snapshotting = false;
    stele_metadata_snapshot_free(&mlog->snapshot);
    if (err == STELE_OK) {
        stele_trace(mlog->shard->env, STELE_TRACE_METADATA_SNAPSHOT, stele_log_name(mlog->log), NULL, end_offset,
                    mlog->snapshot_end, 0);
        mlog->trim_to = mlog->snapshot_end;
        mlog->wants_trim = true;
        mlog->snapshot_end = end_offset;
        mlog->bytes -= mlog->snapshot_bytes;
        next_change(mlog);
    } else if (err != STELE_NO_SPACE && err != STELE_NO_MEMORY) { /* those pass: the next change tries again */
        mlog->failed(mlog, err);
    }
    tell_idle(mlog);
}

/* The snapshot ends where a segment begins, so that those before it can go. */
static enum stele_err begin_snapshot(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    struct stele_log *log = mlog->log;
    int64_t end_offset = stele_log_end_offset(log);
    enum stele_err err = STELE_OK;
    mlog->tried_bytes = mlog->bytes;
    if (stele_log_segment(log, stele_log_segment_count(log) - 1)->base_offset < end_offset)
        err = stele_log_roll(log, STELE_REASON_SNAPSHOT);
    if (err == STELE_OK)
        err = stele_metadata_snapshot_make(env, &mlog->image, end_offset, &mlog->snapshot);
    if (err != STELE_OK)
        return stele_log_is_failed(log) ? err : STELE_OK;
    mlog->is_snapshotting = true;
    mlog->snapshot_bytes = mlog->bytes;
    mlog->snapshot_job = (struct stele_job){.work = snapshot_work, .done = snapshot_done};
    env->ops->job(env, &mlog->snapshot_job);
    return STELE_OK;
}

/* Between two changes. */
static enum stele_err keep_short(struct stele_metadata_log *mlog)
{
    enum stele_err err = mlog->wants_trim ? trim(mlog) : STELE_OK;
    if (err == STELE_OK && mlog->bytes > mlog->snapshot_bytes_max && !mlog->is_snapshotting && !mlog->wants_trim &&
        mlog->bytes != mlog->tried_bytes)
        err = begin_snapshot(mlog);
    return err;
}

/* Changes. */

static struct stele_metadata_change *first_change(struct stele_metadata_log *mlog)
{
    return STELE_CONTAINER_OF(mlog->changes.next, struct stele_metadata_change, link);
}

static void change_home(struct stele_task *task)
{
    struct stele_metadata_change *change = STELE_CONTAINER_OF(task, struct stele_metadata_change, task);
    struct stele_metadata_log *mlog = change->mlog;
    stele_list_remove(&change->link);
    mlog->is_busy = false;
    change->done(change, change->err);
    next_change(mlog);
}

/* Always as a message, so that done is never called from inside change. */
static void end_change(struct stele_metadata_log *mlog, enum stele_err err)
{
    struct stele_metadata_change *change = first_change(mlog);
    struct stele_env *env = mlog->shard->env;
    change->err = err;
    change->task.run = change_home;
    env->ops->post(env, &change->task);
}

static void fail(struct stele_metadata_log *mlog, enum stele_err err)
{
    end_change(mlog, err);
    if (mlog->failed != NULL)
        mlog->failed(mlog, err);
}

static enum stele_err encode(struct stele_metadata_log *mlog, struct stele_metadata_change *change,
                             struct stele_buf **out_batch)
{
    struct stele_env *env = mlog->shard->env;
    struct stele_batch_options options = {.codec = STELE_CODEC_NONE,
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .base_offset = stele_log_end_offset(mlog->log),
                                          .partition_leader_epoch = STELE_METADATA_EPOCH,
                                          .producer_id = STELE_NO_PRODUCER_ID,
                                          .producer_epoch = -1,
                                          .base_sequence = STELE_NO_SEQUENCE};
    struct stele_arena arena;
    struct stele_batch_builder *builder = stele_batch_builder_new(env->mem, &options);
    if (builder == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = STELE_OK;
    change->time_ms = stele_env_wall_ms(env);
    stele_arena_init(&arena, env->mem, STELE_MEM_METADATA, RECORD_ARENA_BYTES_MAX);
    for (int i = 0; i < change->count && err == STELE_OK; i++) {
        uint8_t *bytes = NULL;
        size_t count = 0;
        err = stele_metadata_record_encode(&arena, &change->records[i], &bytes, &count);
        if (err == STELE_OK) {
            struct stele_record_in in = {.timestamp = change->time_ms, .value = bytes, .value_bytes = (int32_t)count};
            err = stele_batch_builder_add(builder, &in);
        }
        stele_arena_reset(&arena);
    }
    stele_arena_deinit(&arena);
    if (err == STELE_OK)
        err = stele_batch_builder_finish(builder, out_batch);
    stele_batch_builder_free(builder);
    return err;
}

static void flush_work(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, flush_job);
    mlog->flush_err = stele_log_flush_run(mlog->flush);
}

static void flush_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, flush_job);
    struct stele_log_flush *flush = mlog->flush;
    const struct stele_metadata_change *change = first_change(mlog);
    enum stele_err err = mlog->flush_err;
    mlog->flush = NULL;
    stele_log_flush_end(mlog->log, flush, err);
    if (err == STELE_OK)
        stele_log_set_high_watermark(mlog->log, stele_log_end_offset(mlog->log));
    for (int i = 0; i < change->count && err == STELE_OK; i++)
        err = stele_image_apply(&mlog->image, &change->records[i], change->time_ms);
    if (err != STELE_OK)
        fail(mlog, err);
    else
        end_change(mlog, STELE_OK);
}

static void next_change(struct stele_metadata_log *mlog)
{
    struct stele_buf *batch = NULL;
    if (mlog->is_busy)
        return;
    enum stele_err err = keep_short(mlog);
    if (err != STELE_OK) {
        mlog->failed(mlog, err);
        return;
    }
    if (stele_list_is_empty(&mlog->changes))
        return;
    mlog->is_busy = true;
    err = encode(mlog, first_change(mlog), &batch);
    if (err != STELE_OK) {
        end_change(mlog, err);
        return;
    }
    struct stele_append append = {.bytes = batch->bytes,
                                  .count = batch->count,
                                  .origin = STELE_ORIGIN_METADATA,
                                  .leader_epoch = STELE_METADATA_EPOCH};
    struct stele_appended appended;
    err = stele_log_append(mlog->log, &append, &appended);
    mlog->bytes += err == STELE_OK ? (int64_t)batch->count : 0;
    stele_buf_unref(batch);
    if (err == STELE_NO_SPACE || err == STELE_NO_MEMORY) {
        end_change(mlog, err); /* nothing was written */
        return;
    }
    if (err == STELE_OK)
        err = stele_log_flush_begin(mlog->log, &mlog->flush);
    if (err != STELE_OK) {
        fail(mlog, err);
        return;
    }
    mlog->flush_job = (struct stele_job){.work = flush_work, .done = flush_done, .lane = mlog};
    mlog->shard->env->ops->job(mlog->shard->env, &mlog->flush_job);
}

void stele_metadata_log_change(struct stele_metadata_log *mlog, struct stele_metadata_change *change)
{
    STELE_ASSERT(mlog->log != NULL && change->count > 0);
    change->mlog = mlog;
    stele_list_push(&mlog->changes, &change->link);
    next_change(mlog);
}
