#include "node/metadata_log.h"

#include "base/check.h"
#include "proto/record_batch.h"

#include <string.h>

enum { REPLAY_BYTES_MAX = 64 << 20, RECORD_ARENA_BYTES_MAX = 64 << 20 };

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
    stele_log_free(mlog->log);
    mlog->log = NULL;
    stele_image_deinit(&mlog->image);
}

/* Replay. */

struct replaying {
    struct stele_log *log;
    struct stele_env *env;
    struct stele_image *image;
    struct stele_arena arena;
    struct stele_error *error;
    int64_t offset;
};

static enum stele_err replay_fail(struct replaying *replaying, enum stele_err err, const char *what)
{
    return stele_error_set(replaying->error, err, "%s: offset %lld: %s", stele_log_dir(replaying->log),
                           (long long)replaying->offset, what);
}

static enum stele_err replay_record(struct replaying *replaying, const struct stele_record *in)
{
    struct stele_metadata_record record;
    enum stele_err err = stele_metadata_record_decode(&replaying->arena, in->value, (size_t)in->value_bytes, &record);
    if (replaying->image->cluster_id == NULL && (err != STELE_OK || record.kind != STELE_METADATA_FORMAT))
        return replay_fail(replaying, STELE_FOREIGN,
                           "the log does not begin with a FORMAT record of stele: it is another program's; choose "
                           "another directory");
    if (err == STELE_OK && record.kind == STELE_METADATA_FORMAT && record.u.format.level > STELE_METADATA_LEVEL)
        err = STELE_UNSUPPORTED_VERSION;
    if (err == STELE_OK)
        err = stele_image_apply(replaying->image, &record, in->timestamp);
    if (err == STELE_UNSUPPORTED_VERSION)
        return replay_fail(replaying, err, "a record of a newer version of steled: start that version");
    if (err == STELE_MALFORMED || err == STELE_CORRUPT)
        return replay_fail(replaying, STELE_CORRUPT,
                           "a record makes no sense after those before it: restore the directory from a copy");
    return err;
}

static enum stele_err replay_batch(struct replaying *replaying, const uint8_t *batch, size_t count)
{
    struct stele_batch_header header;
    struct stele_record_walker walker;
    struct stele_record record;
    enum stele_err err = stele_batch_check(batch, count, &header);
    if (err == STELE_OK)
        err = stele_record_walker_init(&walker, replaying->env->mem, batch, count, REPLAY_BYTES_MAX);
    if (err != STELE_OK)
        return err == STELE_NO_MEMORY
                   ? err
                   : replay_fail(replaying, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    bool is_control = (header.attributes & STELE_BATCH_CONTROL) != 0;
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        replaying->offset = record.offset;
        if (!is_control)
            err = replay_record(replaying, &record);
        stele_arena_reset(&replaying->arena);
        if (err != STELE_OK)
            break;
    }
    stele_record_walker_deinit(&walker);
    if (err == STELE_INVALID_RECORD)
        return replay_fail(replaying, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    replaying->offset = stele_batch_last_offset(&header) + 1;
    return err == STELE_END ? STELE_OK : err;
}

/* One read: whole batches, the last one perhaps cut. */
static enum stele_err replay_slice(struct replaying *replaying, const struct stele_slice *slice)
{
    struct stele_file *file = NULL;
    uint8_t *bytes = stele_mem_raw(replaying->env->mem, STELE_MEM_METADATA, slice->bytes);
    if (bytes == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = stele_cached_file_pin(slice->file, &file);
    if (err == STELE_OK) {
        err = stele_file_read(file, bytes, slice->bytes, slice->pos);
        stele_cached_file_unpin(slice->file);
    }
    size_t at = 0;
    while (err == STELE_OK && slice->bytes - at >= STELE_BATCH_HEADER_BYTES) {
        int64_t size = stele_batch_size(bytes + at);
        if (size <= 0 || (size_t)size > slice->bytes - at)
            break;
        err = replay_batch(replaying, bytes + at, (size_t)size);
        at += (size_t)size;
    }
    if (err == STELE_OK && at == 0)
        err = replay_fail(replaying, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    stele_mem_free(replaying->env->mem, bytes);
    return err;
}

enum stele_err stele_metadata_log_replay(struct stele_log *log, struct stele_env *env, struct stele_image *image,
                                         struct stele_error *error)
{
    enum { STEP_BYTES = 1 << 20 };
    struct replaying replaying = {
        .log = log, .env = env, .image = image, .error = error, .offset = stele_log_start_offset(log)};
    enum stele_err err = STELE_OK;
    int64_t end = stele_log_end_offset(log);
    error->text[0] = 0;
    stele_arena_init(&replaying.arena, env->mem, STELE_MEM_METADATA, RECORD_ARENA_BYTES_MAX);
    while (err == STELE_OK && replaying.offset < end) {
        struct stele_read read = {.offset = replaying.offset, .bound = end, .max_bytes = STEP_BYTES, .min_one = true};
        struct stele_slice slice;
        err = stele_log_read(log, &read, &slice);
        if (err != STELE_OK)
            break;
        if (slice.bytes == 0)
            err = replay_fail(&replaying, STELE_CORRUPT, "a damaged log: restore the directory from a copy");
        else
            err = replay_slice(&replaying, &slice);
        stele_slice_release(&slice);
    }
    stele_arena_deinit(&replaying.arena);
    if (err != STELE_OK && error->text[0] == 0)
        return stele_error_set(error, err, "%s: %s", stele_log_dir(log), stele_err_text(err));
    return err;
}

const char *stele_metadata_log_why(enum stele_err err)
{
    return err == STELE_NO_SPACE    ? "the disk of the metadata log is full: make room, then try again"
           : err == STELE_NO_MEMORY ? "memory ran out"
                                    : "the metadata log could not be written";
}

void stele_metadata_log_attach(struct stele_metadata_log *mlog, struct stele_log *log)
{
    mlog->log = log;
    stele_log_attach(log, mlog->shard->cache);
    stele_log_set_high_watermark(log, stele_log_end_offset(log));
}

/* Changes. */

static struct stele_metadata_change *first_change(struct stele_metadata_log *mlog)
{
    return STELE_CONTAINER_OF(mlog->changes.next, struct stele_metadata_change, link);
}

static void next_change(struct stele_metadata_log *mlog);

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
    if (mlog->is_busy || stele_list_is_empty(&mlog->changes))
        return;
    mlog->is_busy = true;
    enum stele_err err = encode(mlog, first_change(mlog), &batch);
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
