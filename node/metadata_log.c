#include "node/metadata_log.h"

#include "base/check.h"
#include "proto/record_batch.h"

#include <string.h>

enum { RECORD_ARENA_BYTES_MAX = 64 << 20, RETRY_MS = 50 };

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

static void sync_again(struct stele_timer *timer);

static void apply_again(struct stele_timer *timer)
{
    stele_metadata_log__commit(STELE_CONTAINER_OF(timer, struct stele_metadata_log, apply_timer));
}

void stele_metadata_log_init(struct stele_metadata_log *mlog, struct stele_shard *shard)
{
    *mlog = (struct stele_metadata_log){.shard = shard, .change_end = -1, .synced_to = -1};
    stele_image_init(&mlog->image, shard->env->mem);
    stele_list_init(&mlog->changes);
    stele_metadata_tail_init(&mlog->tail, shard->env->mem);
    stele_metadata_replay_init(&mlog->replay, shard->env, &mlog->image, STELE_METADATA_TOPIC_NAME "-0",
                               &mlog->apply_error);
    stele_timer_init(&mlog->apply_timer, apply_again);
    stele_timer_init(&mlog->sync_timer, sync_again);
    stele_metadata_log__init_quorum(mlog);
}

void stele_metadata_log_deinit(struct stele_metadata_log *mlog)
{
    if (mlog->shard == NULL)
        return;
    stele_metadata_log_halt(mlog);
    if (mlog->flush != NULL)
        stele_log_flush_end(mlog->log, mlog->flush, STELE_CANCELLED);
    mlog->flush = NULL;
    stele_metadata_snapshot_free(&mlog->snapshot);
    stele_mem_free(mlog->shard->env->mem, mlog->unlink_bases);
    stele_metadata_tail_deinit(&mlog->tail);
    stele_metadata_replay_deinit(&mlog->replay);
    stele_log_free(mlog->log);
    mlog->log = NULL;
    stele_image_deinit(&mlog->image);
}

const char *stele_metadata_log_why(enum stele_err err)
{
    return err == STELE_NO_SPACE    ? "the disk of the metadata log is full: make room, then try again"
           : err == STELE_NO_MEMORY ? "memory ran out"
           : err == STELE_NOT_CONTROLLER
               ? "the controller has changed, and whether it was done is not known: look, then try again"
               : "the metadata log could not be written";
}

bool stele_metadata_log_is_idle(const struct stele_metadata_log *mlog)
{
    return !mlog->is_busy && !mlog->is_snapshotting && mlog->unlink_bases == NULL && mlog->flush == NULL &&
           !mlog->is_carrying && mlog->install == STELE_INSTALL_NONE;
}

void stele_metadata_log_attach(struct stele_metadata_log *mlog, struct stele_log *log,
                               struct stele_metadata_begin *begin)
{
    mlog->log = log;
    mlog->snapshot_at = begin->snapshot_at;
    mlog->bytes = begin->bytes;
    mlog->applied_offset = begin->applied_offset;
    mlog->replay.offset = begin->applied_offset;
    while (!stele_list_is_empty(&begin->tail.batches)) {
        struct stele_list *first = begin->tail.batches.next;
        stele_list_remove(first);
        stele_list_push(&mlog->tail.batches, first);
    }
    stele_log_attach(log, mlog->shard->cache);
    stele_log_set_high_watermark(log, begin->applied_offset);
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
    mlog->snapshot_err = stele_metadata_snapshot_write(&mlog->snapshot, job->env->vfs, stele_log_dir(mlog->log),
                                                       mlog->snapshot_at.end_offset);
}

static void snapshot_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, snapshot_job);
    enum stele_err err = mlog->snapshot_err;
    struct stele_metadata_point at = mlog->snapshot.at;
    mlog->is_snapshotting = false;
    stele_metadata_snapshot_free(&mlog->snapshot);
    if (err == STELE_OK) {
        stele_trace(mlog->shard->env, STELE_TRACE_METADATA_SNAPSHOT, stele_log_name(mlog->log), NULL, at.end_offset,
                    mlog->snapshot_at.end_offset, 0);
        mlog->trim_to = mlog->snapshot_at.end_offset;
        mlog->wants_trim = true;
        mlog->before = mlog->snapshot_at;
        mlog->snapshot_at = at;
        mlog->bytes -= mlog->snapshot_bytes;
        stele_metadata_log__next_change(mlog);
    } else if (err != STELE_NO_SPACE && err != STELE_NO_MEMORY) { /* those pass: the next change tries again */
        mlog->failed(mlog, err);
    }
    stele_metadata_log__install_step(mlog);
    tell_idle(mlog);
}

/* The snapshot ends where a segment begins, so that those before it can go. */
static enum stele_err begin_snapshot(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    struct stele_log *log = mlog->log;
    struct stele_metadata_point at = {.end_offset = stele_log_end_offset(log), .epoch = mlog->quorum.last_epoch};
    enum stele_err err = STELE_OK;
    mlog->tried_bytes = mlog->bytes;
    if (stele_log_segment(log, stele_log_segment_count(log) - 1)->base_offset < at.end_offset)
        err = stele_log_roll(log, STELE_REASON_SNAPSHOT);
    if (err == STELE_OK)
        err = stele_metadata_snapshot_make(env, &mlog->image, &at, &mlog->snapshot);
    if (err != STELE_OK)
        return stele_log_is_failed(log) ? err : STELE_OK;
    mlog->is_snapshotting = true;
    mlog->snapshot_bytes = mlog->bytes;
    mlog->snapshot_job = (struct stele_job){.work = snapshot_work, .done = snapshot_done};
    env->ops->job(env, &mlog->snapshot_job);
    return STELE_OK;
}

/* When everything in the log is synced and in the image. */
static enum stele_err keep_short(struct stele_metadata_log *mlog)
{
    if (mlog->flush != NULL || mlog->install != STELE_INSTALL_NONE || mlog->is_held ||
        mlog->applied_offset < stele_log_end_offset(mlog->log))
        return STELE_OK;
    enum stele_err err = mlog->wants_trim ? trim(mlog) : STELE_OK;
    if (err == STELE_OK && mlog->bytes > mlog->snapshot_bytes_max && !mlog->is_snapshotting && !mlog->wants_trim &&
        mlog->bytes != mlog->tried_bytes)
        err = begin_snapshot(mlog);
    return err;
}

/* Appending. */

static enum stele_err encode(struct stele_metadata_log *mlog, const struct stele_metadata_record *records, int count,
                             struct stele_buf **out_batch)
{
    struct stele_env *env = mlog->shard->env;
    struct stele_batch_options options = {.codec = STELE_CODEC_NONE,
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .base_offset = stele_log_end_offset(mlog->log),
                                          .partition_leader_epoch = mlog->quorum.election.epoch,
                                          .producer_id = STELE_NO_PRODUCER_ID,
                                          .producer_epoch = -1,
                                          .base_sequence = STELE_NO_SEQUENCE};
    struct stele_arena arena;
    struct stele_batch_builder *builder = stele_batch_builder_new(env->mem, &options);
    if (builder == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = STELE_OK;
    int64_t time_ms = stele_env_wall_ms(env);
    stele_arena_init(&arena, env->mem, STELE_MEM_METADATA, RECORD_ARENA_BYTES_MAX);
    for (int i = 0; i < count && err == STELE_OK; i++) {
        uint8_t *bytes = NULL;
        size_t record_bytes = 0;
        err = stele_metadata_record_encode(&arena, &records[i], &bytes, &record_bytes);
        if (err == STELE_OK) {
            struct stele_record_in in = {.timestamp = time_ms, .value = bytes, .value_bytes = (int32_t)record_bytes};
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

/* The batch at the end of the tail is in the log: the machine is told. */
static void tell_appended(struct stele_metadata_log *mlog)
{
    const struct stele_metadata_batch *batch =
        STELE_CONTAINER_OF(mlog->tail.batches.prev, struct stele_metadata_batch, link);
    STELE_ASSERT(mlog->own_count < (int)STELE_ARRAY_LEN(mlog->own));
    struct stele_quorum_event *event = &mlog->own[mlog->own_count++];
    *event = (struct stele_quorum_event){.kind = STELE_QUORUM_APPENDED,
                                         .u.appended = {.end_offset = batch->end_offset,
                                                        .last_epoch = batch->epoch,
                                                        .has_voters = batch->has_voters,
                                                        .voters = batch->voters}};
}

enum stele_err stele_metadata_log__append(struct stele_metadata_log *mlog, const struct stele_metadata_record *records,
                                          int count)
{
    struct stele_buf *batch = NULL;
    int64_t end = stele_log_end_offset(mlog->log);
    enum stele_err err = encode(mlog, records, count, &batch);
    if (err != STELE_OK)
        return err;
    err = stele_metadata_tail_put(&mlog->tail, batch, batch->bytes, batch->count);
    if (err == STELE_OK) {
        struct stele_append append = {.bytes = batch->bytes,
                                      .count = batch->count,
                                      .origin = STELE_ORIGIN_METADATA,
                                      .leader_epoch = mlog->quorum.election.epoch};
        struct stele_appended appended;
        err = stele_log_append(mlog->log, &append, &appended);
        if (err != STELE_OK)
            stele_metadata_tail_cut(&mlog->tail, end);
    }
    if (err == STELE_OK) {
        mlog->bytes += (int64_t)batch->count;
        mlog->shard->is_changed = true;
        tell_appended(mlog);
    }
    stele_buf_unref(batch);
    return err;
}

/* Puts the sound batches of an answer into the tail that go on from the log's end; how many bytes. */
static enum stele_err put_fetched(struct stele_metadata_log *mlog, const struct stele_quorum_input *input,
                                  size_t *out_bytes)
{
    int64_t end = stele_log_end_offset(mlog->log);
    int32_t epoch = mlog->quorum.last_epoch;
    enum stele_err err = STELE_OK;
    size_t at = 0;
    while (input->records_bytes - at >= STELE_BATCH_HEADER_BYTES) {
        int64_t size = stele_batch_size(input->records_at + at);
        if (size <= 0 || (size_t)size > input->records_bytes - at)
            break;
        err = stele_metadata_tail_put(&mlog->tail, input->records, input->records_at + at, (size_t)size);
        if (err != STELE_OK)
            break;
        const struct stele_metadata_batch *batch =
            STELE_CONTAINER_OF(mlog->tail.batches.prev, struct stele_metadata_batch, link);
        if (batch->base_offset != end || batch->epoch < epoch || batch->epoch > mlog->quorum.election.epoch) {
            stele_metadata_tail_cut(&mlog->tail, end);
            break;
        }
        end = batch->end_offset;
        epoch = batch->epoch;
        at += (size_t)size;
        if (batch->has_voters) /* the machine hears of one at a time */
            break;
    }
    *out_bytes = at;
    return at > 0 || err == STELE_NO_MEMORY || err == STELE_UNSUPPORTED_VERSION ? STELE_OK : STELE_CORRUPT_MESSAGE;
}

enum stele_err stele_metadata_log__append_fetched(struct stele_metadata_log *mlog,
                                                  const struct stele_quorum_input *input)
{
    int64_t end = stele_log_end_offset(mlog->log);
    size_t bytes = 0;
    enum stele_err err = put_fetched(mlog, input, &bytes);
    if (err != STELE_OK || bytes == 0)
        return err != STELE_OK ? err : STELE_NO_MEMORY;
    struct stele_append append = {.bytes = input->records->bytes + (input->records_at - input->records->bytes),
                                  .count = bytes,
                                  .origin = STELE_ORIGIN_REPLICATION,
                                  .leader_epoch = mlog->quorum.election.epoch};
    struct stele_appended appended;
    err = stele_log_append(mlog->log, &append, &appended);
    if (err != STELE_OK) {
        stele_metadata_tail_cut(&mlog->tail, end);
        return err;
    }
    mlog->bytes += (int64_t)bytes;
    mlog->shard->is_changed = true;
    tell_appended(mlog);
    return STELE_OK;
}

enum stele_err stele_metadata_log__truncate(struct stele_metadata_log *mlog, int64_t offset)
{
    STELE_ASSERT(mlog->flush == NULL && offset >= mlog->applied_offset);
    enum stele_err err = stele_log_truncate(mlog->log, offset);
    stele_metadata_tail_cut(&mlog->tail, offset);
    mlog->shard->is_changed = true;
    return err;
}

/* Syncing. */

static void flush_work(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, flush_job);
    mlog->flush_err = stele_log_flush_run(mlog->flush);
}

static void flush_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, flush_job);
    struct stele_log_flush *flush = mlog->flush;
    mlog->flush = NULL;
    stele_log_flush_end(mlog->log, flush, mlog->flush_err);
    if (mlog->flush_err != STELE_OK) {
        mlog->failed(mlog, mlog->flush_err);
        return;
    }
    mlog->synced_to = mlog->flush_end;
    stele_metadata_log__install_step(mlog);
    if (!mlog->waits_for_flush)
        stele_metadata_log__sync(mlog);
    stele_metadata_log__pump(mlog);
    stele_metadata_log__next_change(mlog);
    tell_idle(mlog);
}

static void sync_again(struct stele_timer *timer)
{
    stele_metadata_log__sync(STELE_CONTAINER_OF(timer, struct stele_metadata_log, sync_timer));
}

void stele_metadata_log__sync(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    int64_t end = stele_log_end_offset(mlog->log);
    if (mlog->flush != NULL || stele_log_recovery_point(mlog->log) >= end || mlog->install == STELE_INSTALL_CHECKED)
        return;
    enum stele_err err = stele_log_flush_begin(mlog->log, &mlog->flush);
    if (err == STELE_NO_MEMORY) {
        stele_shard_arm(mlog->shard, &mlog->sync_timer, stele_env_mono_ms(env) + RETRY_MS);
        return;
    }
    if (err != STELE_OK) {
        mlog->failed(mlog, err);
        return;
    }
    mlog->flush_end = end;
    mlog->flush_job = (struct stele_job){.work = flush_work, .done = flush_done, .lane = mlog};
    env->ops->job(env, &mlog->flush_job);
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
    stele_metadata_log__next_change(mlog);
    tell_idle(mlog);
}

/* Always as a message, so that done is never called from inside change. */
static void end_change(struct stele_metadata_log *mlog, enum stele_err err)
{
    struct stele_metadata_change *change = first_change(mlog);
    struct stele_env *env = mlog->shard->env;
    mlog->is_busy = true;
    mlog->change_end = -1;
    change->err = err;
    change->task.run = change_home;
    env->ops->post(env, &change->task);
}

void stele_metadata_log__refuse_changes(struct stele_metadata_log *mlog)
{
    if (mlog->change_end >= 0)
        end_change(mlog, STELE_NOT_CONTROLLER);
}

/* One change at a time. Without a leader's right to write they are refused; while the right is new they wait. */
void stele_metadata_log__next_change(struct stele_metadata_log *mlog)
{
    enum stele_err err = mlog->log == NULL || mlog->is_busy || !mlog->is_running ? STELE_OK : keep_short(mlog);
    if (err != STELE_OK) {
        mlog->failed(mlog, err);
        return;
    }
    if (mlog->is_busy || stele_list_is_empty(&mlog->changes))
        return;
    if (!mlog->is_running || mlog->quorum.role != STELE_QUORUM_LEADER) {
        if (!mlog->is_running || mlog->quorum.role != STELE_QUORUM_CANDIDATE)
            end_change(mlog, STELE_NOT_CONTROLLER);
        return;
    }
    if (!stele_metadata_log_is_active(mlog) || mlog->is_carrying)
        return;
    const struct stele_metadata_change *change = first_change(mlog);
    err = stele_metadata_log__append(mlog, change->records, change->count);
    if (err == STELE_NO_SPACE || err == STELE_NO_MEMORY) {
        end_change(mlog, err); /* nothing was written */
        return;
    }
    mlog->is_busy = true;
    mlog->change_end = stele_log_end_offset(mlog->log);
    if (err != STELE_OK) {
        end_change(mlog, err);
        mlog->failed(mlog, err);
        return;
    }
    stele_metadata_log__sync(mlog);
    stele_metadata_log__pump(mlog);
}

void stele_metadata_log_change(struct stele_metadata_log *mlog, struct stele_metadata_change *change)
{
    STELE_ASSERT(mlog->log != NULL && change->count > 0);
    change->mlog = mlog;
    stele_list_push(&mlog->changes, &change->link);
    stele_metadata_log__next_change(mlog);
}

void stele_metadata_log_hold(struct stele_metadata_log *mlog, bool is_held)
{
    mlog->is_held = is_held;
    if (is_held || !mlog->is_running)
        return;
    stele_metadata_log__commit(mlog);
    stele_metadata_log__install_step(mlog);
}

void stele_metadata_log__commit(struct stele_metadata_log *mlog)
{
    int64_t offset = mlog->quorum.high_watermark, before = mlog->applied_offset;
    struct stele_metadata_batch *batch;
    enum stele_err err = STELE_OK;
    stele_log_set_high_watermark(mlog->log, offset);
    if (mlog->is_held)
        return;
    while ((batch = stele_metadata_tail_first(&mlog->tail)) != NULL && batch->end_offset <= offset) {
        err = stele_metadata_replay_batch(&mlog->replay, batch->bytes, batch->count);
        if (err != STELE_OK)
            break;
        mlog->applied_offset = batch->end_offset;
        stele_metadata_tail_drop(&mlog->tail);
    }
    if (err == STELE_NO_MEMORY) {
        stele_shard_arm(mlog->shard, &mlog->apply_timer, stele_env_mono_ms(mlog->shard->env) + RETRY_MS);
    } else if (err != STELE_OK) {
        mlog->failed(mlog, err);
        return;
    }
    if (mlog->change_end >= 0 && mlog->applied_offset >= mlog->change_end)
        end_change(mlog, STELE_OK);
    if (mlog->applied_offset > before && mlog->changed != NULL)
        mlog->changed(mlog);
}
