/* What others fetch of the metadata log. */
#include "node/metadata_log.h"

void stele_metadata_log_epoch_end(const struct stele_metadata_log *mlog, int32_t epoch, struct stele_epoch_end *out_end)
{
    const struct stele_epoch_cache *epochs = stele_log_epochs(mlog->log);
    stele_epoch_cache_end_offset(epochs, epoch, stele_log_end_offset(mlog->log), &out_end->epoch, &out_end->end_offset);
    /* Of records that a snapshot stands for the index knows nothing. */
    if (out_end->epoch < 0 && mlog->snapshot_at.end_offset > 0 && epoch >= mlog->snapshot_at.epoch) {
        out_end->epoch = mlog->snapshot_at.epoch;
        out_end->end_offset = epochs->count > 0 ? epochs->entries[0].start_offset : stele_log_end_offset(mlog->log);
    }
}

void stele_metadata_log_view(const struct stele_metadata_log *mlog, int32_t last_epoch,
                             struct stele_quorum_fetch_view *out_view)
{
    const struct stele_metadata_point *latest = &mlog->snapshot_at;
    int64_t start = stele_log_start_offset(mlog->log);
    const struct stele_metadata_point *oldest =
        mlog->before.end_offset > 0 && mlog->before.end_offset == start ? &mlog->before : latest;
    *out_view = (struct stele_quorum_fetch_view){.log_start = start,
                                                 .latest = {.end_offset = latest->end_offset, .epoch = latest->epoch},
                                                 .oldest = {.end_offset = oldest->end_offset, .epoch = oldest->epoch}};
    stele_metadata_log_epoch_end(mlog, last_epoch, &out_view->epoch_end);
}

enum stele_err stele_metadata_log_read(struct stele_metadata_log *mlog, int64_t offset, size_t max_bytes,
                                       struct stele_buf **out_records)
{
    struct stele_read read = {
        .offset = offset, .bound = stele_log_end_offset(mlog->log), .max_bytes = max_bytes, .min_one = true};
    struct stele_slice slice;
    struct stele_file *file = NULL;
    enum stele_err err = stele_log_read(mlog->log, &read, &slice);
    if (err != STELE_OK)
        return err;
    struct stele_buf *buf = stele_buf_new(mlog->shard->env->mem, STELE_MEM_METADATA, slice.bytes);
    err = buf == NULL ? STELE_NO_MEMORY : STELE_OK;
    if (err == STELE_OK && slice.bytes > 0)
        err = stele_cached_file_pin(slice.file, &file);
    if (file != NULL) {
        err = stele_file_read(file, buf->bytes, slice.bytes, slice.pos);
        stele_cached_file_unpin(slice.file);
        buf->count = slice.bytes;
    } else if (buf != NULL) {
        buf->count = 0;
    }
    stele_slice_release(&slice);
    if (err == STELE_OK)
        *out_records = buf;
    else
        stele_buf_unref(buf);
    return err;
}

enum stele_err stele_metadata_log_read_snapshot(struct stele_metadata_log *mlog, const struct stele_metadata_point *at,
                                                int64_t position, size_t max_bytes,
                                                struct stele_metadata_chunk *out_chunk)
{
    char name[STELE_METADATA_SNAPSHOT_NAME_BYTES], path[STELE_PATH_BYTES];
    struct stele_vfs *vfs = mlog->shard->env->vfs;
    struct stele_metadata_chunk chunk = {.size_bytes = 0};
    struct stele_file *file = NULL;
    stele_metadata_snapshot_name(at, "", name);
    enum stele_err err = stele_path_join(path, stele_log_dir(mlog->log), name);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, STELE_OPEN_READ, &file);
    if (err != STELE_OK)
        return err == STELE_NOT_FOUND ? STELE_SNAPSHOT_NOT_FOUND : err;
    err = vfs->ops->size(file, &chunk.size_bytes);
    if (err == STELE_OK && (position < 0 || position >= chunk.size_bytes))
        err = STELE_POSITION_OUT_OF_RANGE;
    if (err == STELE_OK) {
        size_t bytes = (size_t)stele_min_i64(chunk.size_bytes - position, (int64_t)max_bytes);
        chunk.bytes = stele_buf_new(mlog->shard->env->mem, STELE_MEM_METADATA, bytes);
        err = chunk.bytes == NULL ? STELE_NO_MEMORY : stele_file_read(file, chunk.bytes->bytes, bytes, position);
        if (chunk.bytes != NULL)
            chunk.bytes->count = bytes;
    }
    vfs->ops->close(file);
    if (err == STELE_OK)
        *out_chunk = chunk;
    else
        stele_buf_unref(chunk.bytes);
    return err;
}
