/* Invariants and steps: partition_move.h. */
#include "node/partition_move.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/partition.h"

#include <string.h>

enum {
    CHUNK_BYTES = 512 << 10,     /* of one job */
    UNSYNCED_BYTES_MAX = 1 << 20 /* that may be synced while the partition is held */
};
enum { RETRY_MS = 100, FULL_MS = 1000, LOOK_MS = 200, QUIET_MS = 2, HELD_MS_MAX = 3000, HELD_REST_MS = 5000 };

static struct stele_mover *mover_of(struct stele_job *job)
{
    return STELE_CONTAINER_OF(job, struct stele_mover, job);
}

static struct stele_shard *shard_of(const struct stele_mover *mover)
{
    return mover->partition->shard;
}

static void step(struct stele_mover *mover);

static void run(struct stele_mover *mover, void (*work)(struct stele_job *), void (*done)(struct stele_job *))
{
    struct stele_shard *shard = shard_of(mover);
    mover->job_err = STELE_OK;
    mover->config = *stele_log_config(mover->partition->log);
    mover->job = (struct stele_job){.work = work, .done = done, .lane = mover};
    shard->env->ops->job(shard->env, &mover->job);
}

static void look_later(struct stele_mover *mover, int64_t after_ms)
{
    struct stele_shard *shard = shard_of(mover);
    stele_shard_arm(shard, &mover->timer, stele_env_mono_ms(shard->env) + after_ms);
}

/* Holding. */

static bool is_held(const struct stele_mover *mover)
{
    return mover->held_ms >= 0;
}

static void hold(struct stele_mover *mover)
{
    mover->partition->is_held = true;
    mover->held_ms = stele_env_mono_ms(shard_of(mover)->env);
}

static void release(struct stele_mover *mover)
{
    if (!is_held(mover))
        return;
    mover->held_ms = -1;
    stele_partition__released(mover->partition);
}

/* The end. */

static void ended_home(struct stele_task *task)
{
    struct stele_mover *mover = STELE_CONTAINER_OF(task, struct stele_mover, task);
    mover->ended(mover, mover->err);
}

static void drop_memory(struct stele_mover *mover)
{
    struct stele_mem *mem = shard_of(mover)->env->mem;
    stele_log_free(mover->copy);
    stele_mem_free(mem, mover->bytes);
    stele_mem_free(mem, mover->producers);
    mover->copy = NULL;
    mover->bytes = mover->producers = NULL;
    mover->capacity = 0;
}

static void end(struct stele_mover *mover, enum stele_err err)
{
    struct stele_partition *partition = mover->partition;
    struct stele_shard *shard = partition->shard;
    mover->err = err;
    mover->is_over = mover->is_looking;
    if (mover->is_over) /* that task is of it still */
        return;
    stele_timer_cancel(shard->wheel, &mover->timer);
    drop_memory(mover);
    partition->mover = NULL;
    release(mover);
    mover->task.run = ended_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &mover->task);
    stele_partition__job_done(partition); /* it may be gone after this */
}

void stele_mover_drop(struct stele_mover *mover)
{
    stele_timer_cancel(shard_of(mover)->wheel, &mover->timer);
    stele_slice_release(&mover->slice);
    drop_memory(mover);
    mover->partition->mover = NULL;
}

/* Why it cannot go on; OK: it can. */
static enum stele_err why_over(const struct stele_mover *mover)
{
    const struct stele_partition *partition = mover->partition;
    if (mover->is_cancelled || partition->shard->is_stopping || partition->shard->is_closed)
        return STELE_CANCELLED;
    if (partition->state != STELE_PARTITION_OPEN ||
        stele_log_dirs_is_offline(partition->shard->node->control.dirs, mover->dir))
        return STELE_KAFKA_STORAGE_ERROR;
    return STELE_OK;
}

/* Jobs. Each is the only one that uses the copy. */

static struct stele_log_open open_of(struct stele_mover *mover, const char *path, const char *name)
{
    return (struct stele_log_open){
        .env = shard_of(mover)->env, .dir = path, .name = name, .config = mover->config, .high_watermark = -1};
}

static enum stele_err open_empty(struct stele_mover *mover, int64_t start_offset)
{
    struct stele_log_open open = open_of(mover, mover->copy_path, mover->copy_name);
    struct stele_recovery_report report;
    struct stele_error error;
    open.is_new = open.was_clean = true;
    open.log_start_offset = start_offset;
    return stele_log_open(&open, &mover->copy, &report, &error);
}

/* A copy of an earlier life: all of it is looked at, since no checkpoint knew it. What is not whole begins anew. */
static void resume_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    struct stele_log_open open = open_of(mover, mover->copy_path, mover->copy_name);
    struct stele_recovery_report report = {.found_damage = false};
    struct stele_error error;
    mover->job_err = stele_log_open(&open, &mover->copy, &report, &error);
    if (mover->job_err == STELE_OK && report.found_damage)
        mover->job_err = STELE_CORRUPT;
}

static void empty_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    stele_log_free(mover->copy);
    mover->copy = NULL;
    mover->job_err = stele_log_dirs_empty_copy(job->env, mover->copy_path);
}

static void cut_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    mover->job_err = stele_log_truncate(mover->copy, mover->from);
}

static void sync_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    mover->job_err = stele_log_flush(mover->copy);
}

static void close_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    mover->job_err =
        stele_log_close_copy(mover->copy, mover->points.log_start_offset, mover->producers, mover->producers_bytes);
}

static void open_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    struct stele_log_open open = open_of(mover, mover->path, mover->partition->name);
    struct stele_recovery_report report;
    struct stele_error error;
    open.was_clean = true;
    open.recovery_point = mover->points.recovery_point;
    open.log_start_offset = mover->points.log_start_offset;
    open.high_watermark = mover->points.high_watermark;
    mover->job_err = stele_log_open(&open, &mover->copy, &report, &error);
}

/* The batches of the range that end at or after `from`: the log may start inside the first one. */
static enum stele_err check_batches(struct stele_mover *mover, size_t *out_first, size_t *out_end,
                                    int64_t *out_first_offset)
{
    size_t at = 0;
    bool has_first = false;
    while (at < mover->slice.bytes) {
        struct stele_batch_header header;
        size_t left = mover->slice.bytes - at;
        int64_t bytes = left < STELE_BATCH_HEADER_BYTES ? 0 : stele_batch_size(mover->bytes + at);
        if (bytes < STELE_BATCH_HEADER_BYTES || (uint64_t)bytes > left)
            break;
        if (stele_batch_check(mover->bytes + at, (size_t)bytes, &header) != STELE_OK)
            return STELE_CORRUPT_MESSAGE;
        if (!has_first && stele_batch_last_offset(&header) >= mover->from) {
            has_first = true;
            *out_first = at;
            *out_first_offset = header.base_offset;
        }
        at += (size_t)bytes;
    }
    *out_end = at;
    return has_first ? STELE_OK : STELE_CORRUPT_MESSAGE;
}

static enum stele_err append_all(struct stele_mover *mover, uint8_t *bytes, size_t count)
{
    enum stele_err err = STELE_OK;
    for (size_t at = 0; at < count && err == STELE_OK;) {
        struct stele_appended appended;
        struct stele_append in = {.bytes = bytes + at,
                                  .count = count - at,
                                  .origin = STELE_ORIGIN_REPLICATION,
                                  .leader_epoch = INT32_MAX,
                                  .is_checked = true};
        err = stele_log_append(mover->copy, &in, &appended);
        for (int i = 0; err == STELE_OK && i < appended.batches; i++) {
            size_t taken = (size_t)stele_batch_size(bytes + at);
            at += taken;
            mover->appended_bytes += taken;
        }
    }
    return err;
}

static void start_write_back(struct stele_mover *mover)
{
    struct stele_slice slice = {.file = NULL};
    struct stele_file *file = NULL;
    if (!stele_log_take_write_back(mover->copy, &slice, &file))
        return;
    file->vfs->ops->sync_range(file, slice.pos, (int64_t)slice.bytes);
    stele_slice_release(&slice);
}

static enum stele_err make_room(struct stele_mover *mover, struct stele_mem *mem)
{
    if (mover->capacity >= mover->slice.bytes)
        return STELE_OK;
    stele_mem_free(mem, mover->bytes);
    mover->bytes = stele_mem_raw(mem, STELE_MEM_LOG, mover->slice.bytes);
    mover->capacity = mover->bytes == NULL ? 0 : mover->slice.bytes;
    return mover->bytes == NULL ? STELE_NO_MEMORY : STELE_OK;
}

static void copy_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    size_t first = 0, count = 0;
    int64_t first_offset = -1;
    mover->appended_bytes = 0;
    mover->is_of_copy = false;
    enum stele_err err = make_room(mover, shard_of(mover)->env->mem);
    if (err == STELE_OK)
        err = stele_file_read(mover->file, mover->bytes, mover->slice.bytes, mover->slice.pos);
    if (err == STELE_OK)
        err = check_batches(mover, &first, &count, &first_offset);
    if (err == STELE_OK) {
        mover->is_of_copy = true;
        if (mover->copy == NULL)
            err = open_empty(mover, first_offset);
        if (err == STELE_OK)
            err = append_all(mover, mover->bytes + first, count - first);
        if (err == STELE_OK)
            start_write_back(mover);
    }
    mover->job_err = err;
}

/* What came of them, on the loop. */

/* Memory comes back; anything else ends the move. */
static bool is_settled(struct stele_mover *mover, const char *what)
{
    struct stele_partition *partition = mover->partition;
    if (mover->job_err == STELE_OK)
        return true;
    if (mover->job_err == STELE_NO_MEMORY && (mover->copy == NULL || !stele_log_is_failed(mover->copy)) &&
        why_over(mover) == STELE_OK) {
        look_later(mover, RETRY_MS);
        return false;
    }
    stele_trace(partition->shard->env, STELE_TRACE_MOVE_FAILED, partition->name, what, mover->job_err, mover->copy_end,
                0);
    end(mover, mover->job_err == STELE_NO_SPACE ? STELE_NO_SPACE : STELE_KAFKA_STORAGE_ERROR);
    return false;
}

static void begin_anew(struct stele_mover *mover);

static void emptied(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    if (!is_settled(mover, "its copy could not be emptied"))
        return;
    mover->is_begun = true;
    mover->cut_offset = INT64_MAX;
    mover->copy_end = mover->synced_end = -1;
    mover->unsynced_bytes = mover->copied_bytes = 0;
    step(mover);
}

static void begin_anew(struct stele_mover *mover)
{
    run(mover, empty_work, emptied);
}

static void resumed(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    const struct stele_log *log = mover->partition->log;
    if (mover->job_err == STELE_CORRUPT) {
        begin_anew(mover);
        return;
    }
    if (!is_settled(mover, "its copy could not be opened"))
        return;
    if (why_over(mover) != STELE_OK) {
        step(mover);
        return;
    }
    int64_t common = stele_log_common_end(log, mover->copy);
    mover->copy_end = stele_log_end_offset(mover->copy);
    mover->copied_bytes = stele_log_bytes(mover->copy);
    if (common < stele_log_start_offset(log) || stele_log_start_offset(mover->copy) > stele_log_start_offset(log)) {
        begin_anew(mover);
        return;
    }
    mover->is_begun = true;
    if (common < mover->copy_end)
        stele_mover_cut(mover, common, false);
    mover->synced_end = stele_min_i64(common, mover->copy_end);
    step(mover);
}

static void cut(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    if (!is_settled(mover, "its copy could not be cut"))
        return;
    if (mover->cut_offset >= mover->from) /* otherwise there was another one */
        mover->cut_offset = INT64_MAX;
    mover->copy_end = stele_log_end_offset(mover->copy);
    mover->synced_end = stele_min_i64(mover->synced_end, mover->copy_end);
    step(mover);
}

static void synced(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    if (!is_settled(mover, "its copy could not be synced"))
        return;
    mover->synced_end = mover->copy_end;
    mover->unsynced_bytes = 0;
    step(mover);
}

/* When it may take the next range, of all moves of the node. */
static int64_t delay_ms(struct stele_mover *mover)
{
    struct stele_node *node = shard_of(mover)->node;
    int64_t rate = node->limits.move_bytes_per_s, now_us = stele_env_mono_us(shard_of(mover)->env);
    if (rate == INT64_MAX || mover->appended_bytes == 0)
        return 0;
    int64_t due_us = atomic_load(&node->move_due_us), next_us;
    int64_t takes_us = (int64_t)((double)mover->appended_bytes * 1e6 / (double)rate);
    do {
        next_us = stele_max_i64(due_us, now_us) + takes_us;
    } while (!atomic_compare_exchange_weak(&node->move_due_us, &due_us, next_us));
    return (next_us - now_us + 999) / 1000;
}

static void copied(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    struct stele_partition *partition = mover->partition;
    stele_slice_release(&mover->slice);
    mover->file = NULL;
    if (mover->copy != NULL)
        mover->copy_end = stele_log_end_offset(mover->copy);
    mover->unsynced_bytes += (int64_t)mover->appended_bytes;
    mover->copied_bytes += (int64_t)mover->appended_bytes;
    stele_log_dirs_take(partition->shard->node->control.dirs, mover->dir, (int64_t)mover->appended_bytes);
    STELE_METRIC_ADD(partition->shard->env->metrics, move_bytes, (int64_t)mover->appended_bytes);
    if (!mover->is_of_copy && mover->generation != partition->generation)
        mover->job_err = STELE_OK; /* it was cut while it was read */
    if (!is_settled(mover, mover->is_of_copy ? "its copy could not be written" : "the log could not be read"))
        return;
    int64_t wait_ms = is_held(mover) ? 0 : delay_ms(mover);
    mover->due_ms = stele_env_mono_ms(partition->shard->env) + wait_ms;
    step(mover);
}

/* Copying. */

static bool copy_more(struct stele_mover *mover)
{
    struct stele_partition *partition = mover->partition;
    struct stele_log *log = partition->log;
    mover->from = mover->copy == NULL ? stele_log_start_offset(log) : mover->copy_end;
    struct stele_read read = {
        .offset = mover->from, .bound = stele_log_end_offset(log), .max_bytes = CHUNK_BYTES, .min_one = true};
    mover->slice = (struct stele_slice){.file = NULL};
    mover->job_err = stele_log_read(log, &read, &mover->slice);
    if (mover->job_err != STELE_OK) {
        stele_slice_release(&mover->slice);
        if (stele_log_is_failed(log))
            stele_partition_fail(partition); /* which looks at this again */
        else
            (void)is_settled(mover, "a damaged range, or the log could not be read");
        return true;
    }
    if (mover->slice.bytes == 0)
        return false;
    mover->file = stele_cached_file_send(mover->slice.file)->file; /* pinned */
    mover->generation = partition->generation;
    run(mover, copy_work, copied);
    return true;
}

static void open_empty_work(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    mover->job_err = open_empty(mover, mover->from);
}

static void opened_empty(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    if (!is_settled(mover, "its copy could not be made"))
        return;
    mover->copy_end = mover->synced_end = stele_log_end_offset(mover->copy);
    step(mover);
}

static void ready_home(struct stele_task *task)
{
    struct stele_mover *mover = STELE_CONTAINER_OF(task, struct stele_mover, task);
    mover->ready(mover);
}

static void closed(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    struct stele_shard *shard = shard_of(mover);
    if (mover->job_err == STELE_NO_MEMORY)
        mover->job_err = STELE_KAFKA_STORAGE_ERROR; /* half a close is not to be tried again */
    if (!is_settled(mover, "its copy could not be closed"))
        return;
    if (why_over(mover) != STELE_OK) {
        step(mover);
        return;
    }
    /* As for any log (node/controller_rounds.c), and no more than a cut at the high watermark would leave. */
    int64_t high_watermark = stele_log_high_watermark(mover->partition->log);
    mover->points.recovery_point = stele_log_checkpoint_point(mover->copy);
    if (mover->partition->replica.replica_count > 1)
        mover->points.recovery_point =
            stele_min_i64(mover->points.recovery_point, stele_log_point_after_cut(mover->copy, high_watermark));
    mover->points.high_watermark = high_watermark;
    mover->points.first_segment_base = stele_log_first_base(mover->copy);
    stele_log_free(mover->copy);
    mover->copy = NULL;
    mover->state = STELE_MOVER_SWAPPING;
    mover->task.run = ready_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &mover->task);
}

/* Nothing of the partition uses the log but who reads. */
static bool is_quiet(const struct stele_partition *partition)
{
    return partition->flush == NULL && partition->write_back.file == NULL && partition->unlink_bases == NULL &&
           partition->is_named && !partition->is_naming && partition->describe_count == 0;
}

static void close_copy(struct stele_mover *mover)
{
    struct stele_partition *partition = mover->partition;
    mover->job_err =
        stele_producers_snapshot(stele_log_producers(partition->log), &mover->producers, &mover->producers_bytes);
    if (mover->job_err != STELE_OK) {
        release(mover);
        look_later(mover, RETRY_MS);
        return;
    }
    mover->points = (struct stele_log_points){.dir = mover->dir,
                                              .partition = partition->key.number,
                                              .log_start_offset = stele_log_start_offset(partition->log)};
    memcpy(mover->points.topic, partition->topic, strlen(partition->topic) + 1);
    run(mover, close_work, closed);
}

/* The copy has all that the log has. */
static void caught_up(struct stele_mover *mover)
{
    struct stele_partition *partition = mover->partition;
    int64_t now_ms = stele_env_mono_ms(shard_of(mover)->env);
    if (mover->copy == NULL) {
        run(mover, open_empty_work, opened_empty);
    } else if (!is_held(mover)) {
        if (mover->unsynced_bytes > UNSYNCED_BYTES_MAX) {
            run(mover, sync_work, synced);
        } else {
            hold(mover);
            step(mover);
        }
    } else if (is_quiet(partition)) {
        close_copy(mover);
    } else if (now_ms - mover->held_ms > HELD_MS_MAX) { /* others wait: another time */
        release(mover);
        look_later(mover, HELD_REST_MS);
    } else {
        look_later(mover, QUIET_MS);
    }
}

static void step(struct stele_mover *mover)
{
    struct stele_partition *partition = mover->partition;
    int64_t now_ms = stele_env_mono_ms(shard_of(mover)->env);
    enum stele_err err = why_over(mover);
    if (err != STELE_OK) {
        end(mover, err);
        return;
    }
    if (partition->truncating != NULL || partition->replica.cut != STELE_CUT_NONE) {
        release(mover);
        look_later(mover, RETRY_MS);
    } else if (!mover->is_begun) {
        run(mover, resume_work, resumed);
    } else if (mover->copy != NULL && (mover->cut_offset < stele_log_start_offset(mover->copy) ||
                                       mover->copy_end < stele_log_start_offset(partition->log))) {
        begin_anew(mover);
    } else if (mover->copy != NULL && mover->cut_offset < mover->copy_end) {
        mover->from = mover->cut_offset;
        run(mover, cut_work, cut);
    } else if (stele_log_dirs_is_full(shard_of(mover)->node->control.dirs, mover->dir)) {
        release(mover);
        look_later(mover, FULL_MS);
    } else if (mover->due_ms > now_ms) {
        look_later(mover, stele_min_i64(mover->due_ms - now_ms, LOOK_MS));
    } else {
        mover->cut_offset = INT64_MAX;
        if (!copy_more(mover))
            caught_up(mover);
    }
}

static void timer_fired(struct stele_timer *timer)
{
    step(STELE_CONTAINER_OF(timer, struct stele_mover, timer));
}

/* From without. */

static void began_home(struct stele_task *task)
{
    struct stele_mover *mover = STELE_CONTAINER_OF(task, struct stele_mover, begin_task);
    mover->began(mover, mover->begin_err);
}

static void begin_arrived(struct stele_task *task)
{
    struct stele_mover *mover = STELE_CONTAINER_OF(task, struct stele_mover, begin_task);
    struct stele_partition *partition = mover->partition;
    struct stele_shard *shard = partition->shard;
    STELE_ASSERT(partition->mover == NULL);
    mover->begin_err = why_over(mover);
    if (mover->begin_err == STELE_OK) {
        partition->mover = mover;
        partition->job_count++;
        look_later(mover, 0);
        stele_mover_hurry(mover);
    }
    mover->begin_task.run = began_home;
    stele_shard_send(shard, &shard->node->shards[STELE_SHARD_CONTROL], &mover->begin_task);
}

void stele_mover_begin(struct stele_mover *mover)
{
    struct stele_shard *shard = shard_of(mover);
    mover->state = STELE_MOVER_COPYING;
    mover->is_begun = !mover->is_resumed;
    mover->cut_offset = INT64_MAX;
    mover->copy_end = mover->synced_end = mover->held_ms = -1;
    stele_timer_init(&mover->timer, timer_fired);
    mover->begin_task.run = begin_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &mover->begin_task);
}

bool stele_mover_points(struct stele_mover *mover, struct stele_log_points *out_points)
{
    if (mover->state != STELE_MOVER_SWAPPING)
        return false;
    *out_points = mover->points;
    return true;
}

void stele_mover_cut(struct stele_mover *mover, int64_t offset, bool is_restart)
{
    mover->cut_offset = is_restart ? -1 : stele_min_i64(mover->cut_offset, offset);
}

static void look_arrived(struct stele_task *task)
{
    struct stele_mover *mover = STELE_CONTAINER_OF(task, struct stele_mover, look_task);
    struct stele_shard *shard = shard_of(mover);
    mover->is_looking = false;
    if (mover->is_over) {
        end(mover, mover->err);
    } else if (stele_timer_is_armed(&mover->timer)) { /* no job runs */
        stele_timer_cancel(shard->wheel, &mover->timer);
        mover->timer.fire(&mover->timer);
    }
}

void stele_mover_hurry(struct stele_mover *mover)
{
    struct stele_env *env = shard_of(mover)->env;
    if (mover->is_looking)
        return;
    mover->is_looking = true;
    mover->look_task.run = look_arrived;
    env->ops->post(env, &mover->look_task);
}

/* The swap. */

static void open_again(struct stele_mover *mover);

/* The copy takes over. */
static void adopt(struct stele_mover *mover)
{
    struct stele_partition *partition = mover->partition;
    struct stele_replica *replica = &partition->replica;
    struct stele_log *before = partition->log;
    if (stele_log_succeed(mover->copy, before) != STELE_OK) {
        stele_log_free(mover->copy);
        mover->copy = NULL;
        look_later(mover, RETRY_MS);
        return;
    }
    stele_log_set_config(mover->copy, stele_log_config(before));
    stele_log_attach(mover->copy, shard_of(mover)->cache);
    partition->log = mover->copy;
    mover->copy = NULL;
    stele_log_free(before);
    replica->told_recovery_point = stele_max_i64(replica->told_recovery_point, mover->points.recovery_point);
    replica->told_log_start = stele_max_i64(replica->told_log_start, mover->points.log_start_offset);
    replica->told_high_watermark = stele_max_i64(replica->told_high_watermark, mover->points.high_watermark);
    partition->shard->is_changed = true;
    end(mover, STELE_OK);
}

static void opened(struct stele_job *job)
{
    struct stele_mover *mover = mover_of(job);
    struct stele_partition *partition = mover->partition;
    struct stele_shard *shard = partition->shard;
    bool is_short = mover->job_err == STELE_NO_MEMORY || mover->job_err == STELE_NO_SPACE;
    if (partition->state == STELE_PARTITION_OPEN && mover->job_err == STELE_OK) {
        adopt(mover);
        return;
    }
    if (partition->state == STELE_PARTITION_OPEN && is_short && !shard->is_stopping) {
        look_later(mover, RETRY_MS);
        return;
    }
    if (partition->state == STELE_PARTITION_OPEN) {
        stele_trace(shard->env, STELE_TRACE_LOG_FAILED, partition->name, "a copy that could not be opened", 0, 0, 0);
        stele_partition_fail(partition);
    }
    end(mover, STELE_OK);
}

static void open_fired(struct stele_timer *timer)
{
    open_again(STELE_CONTAINER_OF(timer, struct stele_mover, timer));
}

static void open_again(struct stele_mover *mover)
{
    run(mover, open_work, opened);
}

/* The partition lies there from now on, also when it is offline meanwhile. */
static bool move_names(struct stele_mover *mover)
{
    struct stele_partition *partition = mover->partition;
    struct stele_mem *mem = partition->shard->env->mem;
    partition->dir = mover->dir;
    stele_mem_free(mem, partition->path);
    partition->path = mover->taken_path;
    mover->taken_path = NULL;
    partition->open.dir = partition->path;
    partition->open.recovery_point = mover->points.recovery_point;
    partition->open.log_start_offset = mover->points.log_start_offset;
    partition->open.high_watermark = mover->points.high_watermark;
    return partition->state == STELE_PARTITION_OPEN;
}

static void swap_arrived(struct stele_task *task)
{
    struct stele_mover *mover = STELE_CONTAINER_OF(task, struct stele_mover, task);
    if (!mover->is_moved) {
        end(mover, mover->err);
        return;
    }
    mover->state = STELE_MOVER_OPENING;
    stele_timer_init(&mover->timer, open_fired);
    if (move_names(mover))
        open_again(mover);
    else
        end(mover, STELE_OK);
}

void stele_mover_swapped(struct stele_mover *mover, bool is_moved, enum stele_err err)
{
    struct stele_shard *shard = shard_of(mover);
    mover->is_moved = is_moved;
    mover->err = err;
    mover->task.run = swap_arrived;
    stele_shard_send(&shard->node->shards[STELE_SHARD_CONTROL], shard, &mover->task);
}
