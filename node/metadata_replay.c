#include "base/check.h"
#include "node/metadata_log.h"
#include "proto/record_batch.h"

enum { UNPACKED_BYTES_MAX = 64 << 20, RECORD_ARENA_BYTES_MAX = 64 << 20 };

void stele_metadata_replay_init(struct stele_metadata_replay *replay, struct stele_env *env, struct stele_image *image,
                                const char *where, struct stele_error *error)
{
    *replay = (struct stele_metadata_replay){.env = env, .image = image, .where = where, .error = error};
    stele_arena_init(&replay->arena, env->mem, STELE_MEM_METADATA, RECORD_ARENA_BYTES_MAX);
}

void stele_metadata_replay_deinit(struct stele_metadata_replay *replay)
{
    stele_arena_deinit(&replay->arena);
}

enum stele_err stele_metadata_replay_fail(struct stele_metadata_replay *replay, enum stele_err err, const char *what)
{
    return stele_error_set(replay->error, err, "%.250s: offset %lld: %s", replay->where, (long long)replay->offset,
                           what);
}

static bool is_too_new(const struct stele_metadata_record *record)
{
    return (record->kind == STELE_METADATA_FORMAT && record->u.format.level > STELE_METADATA_LEVEL_MAX) ||
           (record->kind == STELE_METADATA_LEVEL_CHANGE && record->u.level.level > STELE_METADATA_LEVEL_MAX);
}

static enum stele_err replay_record(struct stele_metadata_replay *replay, const struct stele_record *in)
{
    struct stele_metadata_record record;
    enum stele_err err =
        in->value == NULL ? STELE_MALFORMED
                          : stele_metadata_record_decode(&replay->arena, in->value, (size_t)in->value_bytes, &record);
    if (err == STELE_NO_MEMORY)
        return err;
    if (replay->image->cluster_id == NULL && (err != STELE_OK || record.kind != STELE_METADATA_FORMAT))
        return stele_metadata_replay_fail(replay, STELE_FOREIGN,
                                          "the log does not begin with a FORMAT record of stele: it is another "
                                          "program's; choose another directory");
    if (err == STELE_OK && is_too_new(&record))
        err = STELE_UNSUPPORTED_VERSION;
    if (err == STELE_OK)
        err = stele_image_apply(replay->image, &record, in->timestamp);
    if (err == STELE_UNSUPPORTED_VERSION)
        return stele_metadata_replay_fail(replay, err, "a record of a newer version of steled: start that version");
    if (err == STELE_MALFORMED || err == STELE_CORRUPT)
        return stele_metadata_replay_fail(
            replay, STELE_CORRUPT, "a record makes no sense after those before it: restore the directory from a copy");
    return err;
}

static enum stele_err replay_batch(struct stele_metadata_replay *replay, const uint8_t *batch, size_t count)
{
    struct stele_batch_header header;
    struct stele_record_walker walker;
    struct stele_record record;
    struct stele_control control;
    enum stele_err err = stele_batch_check(batch, count, &header);
    if (err == STELE_OK)
        err = stele_record_walker_init(&walker, replay->env->mem, batch, count, UNPACKED_BYTES_MAX);
    if (err != STELE_OK)
        return err == STELE_NO_MEMORY
                   ? err
                   : stele_metadata_replay_fail(replay, STELE_CORRUPT,
                                                "a damaged batch: restore the directory from a copy");
    bool is_control = (header.attributes & STELE_BATCH_CONTROL) != 0;
    while ((err = stele_record_next(&walker, &record)) == STELE_OK) {
        replay->offset = record.offset;
        if (!is_control)
            err = replay_record(replay, &record);
        else if (stele_control_read(&record, &control) == STELE_OK && control.type == STELE_CONTROL_SNAPSHOT_FOOTER)
            replay->is_whole = true;
        stele_arena_reset(&replay->arena);
        if (err != STELE_OK)
            break;
    }
    stele_record_walker_deinit(&walker);
    if (err == STELE_INVALID_RECORD)
        return stele_metadata_replay_fail(replay, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    replay->offset = stele_batch_last_offset(&header) + 1;
    return err == STELE_END ? STELE_OK : err;
}

enum stele_err stele_metadata_replay_bytes(struct stele_metadata_replay *replay, const uint8_t *bytes, size_t count,
                                           size_t *out_used)
{
    enum stele_err err = STELE_OK;
    size_t at = 0;
    while (err == STELE_OK && count - at >= STELE_BATCH_HEADER_BYTES) {
        int64_t size = stele_batch_size(bytes + at);
        if (size <= 0 || (size_t)size > count - at)
            break;
        err = replay_batch(replay, bytes + at, (size_t)size);
        at += (size_t)size;
        replay->bytes += size;
    }
    *out_used = at;
    return err;
}

/* The log. */

/* One read: whole batches, the last one perhaps cut. */
static enum stele_err replay_slice(struct stele_metadata_replay *replay, const struct stele_slice *slice)
{
    struct stele_file *file = NULL;
    size_t used = 0;
    uint8_t *bytes = stele_mem_raw(replay->env->mem, STELE_MEM_METADATA, slice->bytes);
    if (bytes == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = stele_cached_file_pin(slice->file, &file);
    if (err == STELE_OK) {
        err = stele_file_read(file, bytes, slice->bytes, slice->pos);
        stele_cached_file_unpin(slice->file);
    }
    if (err == STELE_OK)
        err = stele_metadata_replay_bytes(replay, bytes, slice->bytes, &used);
    if (err == STELE_OK && used == 0)
        err = stele_metadata_replay_fail(replay, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    stele_mem_free(replay->env->mem, bytes);
    return err;
}

static enum stele_err replay_log(struct stele_metadata_replay *replay, struct stele_log *log)
{
    enum { STEP_BYTES = 1 << 20 };
    enum stele_err err = STELE_OK;
    int64_t end = stele_log_end_offset(log);
    if (replay->offset > end)
        return stele_metadata_replay_fail(replay, STELE_CORRUPT,
                                          "the log ends before its newest snapshot: restore the directory from a copy");
    while (err == STELE_OK && replay->offset < end) {
        struct stele_read read = {.offset = replay->offset, .bound = end, .max_bytes = STEP_BYTES, .min_one = true};
        struct stele_slice slice;
        err = stele_log_read(log, &read, &slice);
        if (err != STELE_OK)
            break;
        if (slice.bytes == 0)
            err = stele_metadata_replay_fail(replay, STELE_CORRUPT, "a damaged log: restore the directory from a copy");
        else
            err = replay_slice(replay, &slice);
        stele_slice_release(&slice);
    }
    return err;
}

enum stele_err stele_metadata_log_replay(struct stele_log *log, struct stele_env *env, struct stele_image *image,
                                         struct stele_metadata_begin *out_begin, struct stele_error *error)
{
    struct stele_metadata_replay replay;
    int64_t snapshot_end = 0;
    error->text[0] = 0;
    enum stele_err err = stele_metadata_snapshot_load(env, log, image, &snapshot_end, error);
    if (err == STELE_OK) {
        stele_metadata_replay_init(&replay, env, image, stele_log_dir(log), error);
        replay.offset = snapshot_end;
        err = replay_log(&replay, log);
        stele_metadata_replay_deinit(&replay);
    }
    if (err != STELE_OK && error->text[0] == 0)
        return stele_error_set(error, err, "%s: %s", stele_log_dir(log), stele_err_text(err));
    if (err == STELE_OK)
        *out_begin = (struct stele_metadata_begin){.snapshot_end = snapshot_end, .bytes = replay.bytes};
    return err;
}
