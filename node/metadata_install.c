/* A snapshot that the leader sends in place of the records it stands for. Chunks go into a .part file beside the log; a
 * job syncs it, reads it as a start would, and gives it its name; then the log is begun anew at its end and the image
 * made of it. A crash in between leaves a snapshot above the log's end, which the next start takes
 * (stele_metadata_log_catch_up).
 *
 * States: NONE -> WANTED (all of it came) -> CHECKING (the job runs) -> CHECKED -> NONE. */
#include "base/check.h"
#include "node/metadata_log.h"

#include <string.h>

static enum stele_err path_of(const struct stele_metadata_log *mlog, const struct stele_metadata_point *at,
                              const char *suffix, char out_path[STELE_PATH_BYTES])
{
    char name[STELE_METADATA_SNAPSHOT_NAME_BYTES];
    stele_metadata_snapshot_name(at, suffix, name);
    return stele_path_join(out_path, stele_log_dir(mlog->log), name);
}

static struct stele_metadata_point point_of(const struct stele_quorum_answer *answer)
{
    return (struct stele_metadata_point){.end_offset = answer->u.snapshot.id.end_offset,
                                         .epoch = answer->u.snapshot.id.epoch};
}

enum stele_err stele_metadata_log__write_chunk(struct stele_metadata_log *mlog)
{
    const struct stele_quorum_input *input = mlog->current;
    const struct stele_quorum_answer *answer = &input->event.u.answer.answer;
    struct stele_metadata_point at = point_of(answer);
    struct stele_vfs *vfs = mlog->shard->env->vfs;
    struct stele_file *file = NULL;
    char path[STELE_PATH_BYTES];
    unsigned flags = STELE_OPEN_WRITE | STELE_OPEN_CREATE;
    if (answer->u.snapshot.position == 0)
        flags |= STELE_OPEN_TRUNCATE;
    enum stele_err err = path_of(mlog, &at, ".part", path);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, flags, &file);
    if (err != STELE_OK)
        return err;
    err = stele_file_write(file, input->records_at, input->records_bytes, answer->u.snapshot.position);
    vfs->ops->close(file);
    return err;
}

static void check_work(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, install_job);
    struct stele_vfs *vfs = job->env->vfs;
    struct stele_error error = {.text = ""};
    struct stele_image image;
    struct stele_file *file = NULL;
    char part[STELE_PATH_BYTES], path[STELE_PATH_BYTES];
    enum stele_err err = path_of(mlog, &mlog->install_at, ".part", part);
    if (err == STELE_OK)
        err = path_of(mlog, &mlog->install_at, "", path);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, part, STELE_OPEN_WRITE, &file);
    if (err == STELE_OK) {
        err = vfs->ops->sync(file);
        vfs->ops->close(file);
    }
    if (err == STELE_OK) {
        stele_image_init(&image, job->env->mem);
        err = stele_metadata_snapshot_read(job->env, part, &image, &error);
        stele_image_deinit(&image);
    }
    if (err == STELE_OK)
        err = vfs->ops->rename(vfs, part, path);
    if (err == STELE_OK)
        err = vfs->ops->sync_dir(vfs, stele_log_dir(mlog->log));
    mlog->install_err = err;
}

static void check_done(struct stele_job *job)
{
    struct stele_metadata_log *mlog = STELE_CONTAINER_OF(job, struct stele_metadata_log, install_job);
    mlog->install = STELE_INSTALL_CHECKED;
    stele_metadata_log__install_step(mlog);
    if (mlog->idle != NULL)
        mlog->idle(mlog);
}

/* Nothing of the old log is of use any more. It goes when the image of the snapshot is there: without memory for that,
 * or when the disk says now that it cannot be read, all is as it was. */
static enum stele_err take(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    int64_t setting_records = mlog->image.setting_records, member_records = mlog->image.member_records;
    char path[STELE_PATH_BYTES];
    struct stele_image image;
    stele_image_init(&image, env->mem);
    enum stele_err err = path_of(mlog, &mlog->install_at, "", path);
    if (err == STELE_OK)
        err = stele_metadata_snapshot_read(env, path, &image, &mlog->apply_error);
    if (err == STELE_OK)
        err = stele_log_restart_at(mlog->log, mlog->install_at.end_offset);
    if (err != STELE_OK) {
        stele_image_deinit(&image);
        return err;
    }
    stele_metadata_tail_cut(&mlog->tail, 0);
    stele_image_replace(&mlog->image, &image);
    mlog->replay.done = 0;
    mlog->applied_offset = mlog->install_at.end_offset;
    mlog->replay.offset = mlog->install_at.end_offset;
    mlog->snapshot_at = mlog->install_at;
    mlog->before = (struct stele_metadata_point){.end_offset = 0};
    mlog->bytes = mlog->tried_bytes = 0;
    mlog->wants_trim = false;
    mlog->shard->is_changed = true;
    mlog->image.setting_records += setting_records + 1; /* settings are others now */
    mlog->image.member_records += member_records + 1;
    return STELE_OK;
}

static void tell_replaced(struct stele_metadata_log *mlog)
{
    struct stele_quorum_event event = {
        .kind = STELE_QUORUM_REPLACED,
        .u.replaced = {.id = {.end_offset = mlog->install_at.end_offset, .epoch = mlog->install_at.epoch}}};
    for (size_t i = 0; i < mlog->image.voter_count && i < STELE_VOTERS_MAX; i++)
        event.u.replaced.voters.keys[event.u.replaced.voters.count++] = mlog->image.voters[i].key;
    STELE_ASSERT(mlog->own_count < (int)STELE_ARRAY_LEN(mlog->own));
    mlog->own[mlog->own_count++] = event;
    stele_trace(mlog->shard->env, STELE_TRACE_METADATA_SNAPSHOT_TAKEN, stele_log_name(mlog->log), NULL,
                mlog->install_at.end_offset, 0, 0);
}

static void end_install(struct stele_metadata_log *mlog)
{
    enum stele_err err = mlog->install_err;
    bool is_written = err == STELE_OK;
    mlog->install = STELE_INSTALL_NONE;
    if (!mlog->is_running)
        return;
    if (is_written)
        err = take(mlog);
    if (err == STELE_OK) {
        tell_replaced(mlog);
    } else if (err != STELE_NO_MEMORY && (is_written || err == STELE_IO)) {
        mlog->failed(mlog, err);
        return;
    } else { /* damaged on its way, or there was no room for it: fetched again */
        STELE_ASSERT(mlog->own_count < (int)STELE_ARRAY_LEN(mlog->own));
        mlog->own[mlog->own_count++] = (struct stele_quorum_event){.kind = STELE_QUORUM_FETCH_UNUSABLE};
    }
    stele_metadata_log__pump(mlog);
    if (is_written && mlog->changed != NULL)
        mlog->changed(mlog);
}

void stele_metadata_log__install(struct stele_metadata_log *mlog)
{
    mlog->install_at = point_of(&mlog->current->event.u.answer.answer);
    mlog->install = STELE_INSTALL_WANTED;
    stele_metadata_log__install_step(mlog);
}

void stele_metadata_log__install_step(struct stele_metadata_log *mlog)
{
    struct stele_env *env = mlog->shard->env;
    if (mlog->install == STELE_INSTALL_WANTED && !mlog->is_snapshotting) { /* which deletes older ones */
        mlog->install = STELE_INSTALL_CHECKING;
        mlog->install_job = (struct stele_job){.work = check_work, .done = check_done, .lane = mlog};
        env->ops->job(env, &mlog->install_job);
    } else if (mlog->install == STELE_INSTALL_CHECKED && mlog->flush == NULL && !mlog->is_held) {
        end_install(mlog);
    }
}
