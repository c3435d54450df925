#include "base/check.h"
#include "node/metadata_log.h"
#include "proto/record_batch.h"

#include <string.h>

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

bool stele_metadata_is_too_new(const struct stele_metadata_record *record)
{
    return (record->kind == STELE_METADATA_FORMAT && record->u.format.level > STELE_METADATA_LEVEL) ||
           (record->kind == STELE_METADATA_LEVEL_CHANGE && record->u.level.level > STELE_METADATA_LEVEL);
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
    if (err == STELE_OK && stele_metadata_is_too_new(&record))
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

enum stele_err stele_metadata_replay_batch(struct stele_metadata_replay *replay, const uint8_t *batch, size_t count)
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
    for (int32_t at = 0; (err = stele_record_next(&walker, &record)) == STELE_OK; at++) {
        replay->offset = record.offset;
        if (at < replay->done)
            continue;
        if (!is_control)
            err = replay_record(replay, &record);
        else if (stele_control_read(&record, &control) == STELE_OK && control.type == STELE_CONTROL_SNAPSHOT_FOOTER)
            replay->is_whole = true;
        stele_arena_reset(&replay->arena);
        if (err != STELE_OK)
            break;
        replay->done++;
    }
    stele_record_walker_deinit(&walker);
    if (err == STELE_INVALID_RECORD)
        return stele_metadata_replay_fail(replay, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    if (err != STELE_END)
        return err;
    replay->offset = stele_batch_last_offset(&header) + 1;
    replay->done = 0;
    return STELE_OK;
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
        err = stele_metadata_replay_batch(replay, bytes + at, (size_t)size);
        at += (size_t)size;
        replay->bytes += size;
    }
    *out_used = at;
    return err;
}

/* The log. */

struct load {
    struct stele_env *env;
    struct stele_log *log;
    struct stele_metadata_begin *begin;
    struct stele_error *error;
    int64_t offset;
};

static enum stele_err load_failed(struct load *load, enum stele_err err, const char *what)
{
    return stele_error_set(load->error, err, "%.250s: offset %lld: %s", stele_log_dir(load->log),
                           (long long)load->offset, what);
}

static void note_voters(struct stele_metadata_begin *begin, const struct stele_voters_at *voters)
{
    if (begin->history_count == STELE_VOTERS_HISTORY_MAX)
        memmove(begin->history, begin->history + 1, (size_t)--begin->history_count * sizeof(*begin->history));
    begin->history[begin->history_count++] = *voters;
}

/* Whole batches of one read. */
static enum stele_err load_batches(struct load *load, struct stele_buf *buf, size_t *out_used)
{
    size_t at = 0;
    while (buf->count - at >= STELE_BATCH_HEADER_BYTES) {
        int64_t size = stele_batch_size(buf->bytes + at);
        if (size <= 0 || (size_t)size > buf->count - at)
            break;
        enum stele_err err = stele_metadata_tail_put(&load->begin->tail, buf, buf->bytes + at, (size_t)size);
        if (err == STELE_CORRUPT)
            return load_failed(load, err, "a damaged batch: restore the directory from a copy");
        if (err == STELE_UNSUPPORTED_VERSION)
            return load_failed(load, err, "a record of a newer version of steled: start that version");
        if (err != STELE_OK)
            return err;
        const struct stele_metadata_batch *batch =
            STELE_CONTAINER_OF(load->begin->tail.batches.prev, struct stele_metadata_batch, link);
        if (batch->has_voters)
            note_voters(load->begin, &batch->voters);
        load->offset = batch->end_offset;
        load->begin->bytes += size;
        at += (size_t)size;
    }
    *out_used = at;
    return STELE_OK;
}

static enum stele_err load_slice(struct load *load, const struct stele_slice *slice)
{
    struct stele_file *file = NULL;
    size_t used = 0;
    struct stele_buf *buf = stele_buf_new(load->env->mem, STELE_MEM_METADATA, slice->bytes);
    if (buf == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = stele_cached_file_pin(slice->file, &file);
    if (err == STELE_OK) {
        err = stele_file_read(file, buf->bytes, slice->bytes, slice->pos);
        stele_cached_file_unpin(slice->file);
    }
    buf->count = slice->bytes;
    if (err == STELE_OK)
        err = load_batches(load, buf, &used);
    if (err == STELE_OK && used == 0)
        err = load_failed(load, STELE_CORRUPT, "a damaged batch: restore the directory from a copy");
    stele_buf_unref(buf);
    return err;
}

static enum stele_err load_log(struct load *load)
{
    enum { STEP_BYTES = 1 << 20 };
    enum stele_err err = STELE_OK;
    int64_t end = stele_log_end_offset(load->log);
    if (load->offset > end)
        return load_failed(load, STELE_CORRUPT,
                           "the log ends before its newest snapshot: restore the directory from a copy");
    while (err == STELE_OK && load->offset < end) {
        struct stele_read read = {.offset = load->offset, .bound = end, .max_bytes = STEP_BYTES, .min_one = true};
        struct stele_slice slice;
        err = stele_log_read(load->log, &read, &slice);
        if (err != STELE_OK)
            break;
        if (slice.bytes == 0)
            err = load_failed(load, STELE_CORRUPT, "a damaged log: restore the directory from a copy");
        else
            err = load_slice(load, &slice);
        stele_slice_release(&slice);
    }
    return err;
}

static enum stele_err apply_all(struct load *load, struct stele_image *image)
{
    struct stele_metadata_replay replay;
    enum stele_err err = STELE_OK;
    stele_metadata_replay_init(&replay, load->env, image, stele_log_dir(load->log), load->error);
    while (err == STELE_OK && !stele_list_is_empty(&load->begin->tail.batches)) {
        const struct stele_metadata_batch *batch = stele_metadata_tail_first(&load->begin->tail);
        err = stele_metadata_replay_batch(&replay, batch->bytes, batch->count);
        if (err == STELE_OK) {
            load->begin->applied_offset = batch->end_offset;
            stele_metadata_tail_drop(&load->begin->tail);
        }
    }
    stele_metadata_replay_deinit(&replay);
    return err;
}

static void history_of_image(struct stele_metadata_begin *begin, const struct stele_image *image)
{
    struct stele_voters_at voters = {.offset = begin->snapshot_at.end_offset - 1,
                                     .voters = {.count = (int32_t)image->voter_count}};
    if (image->voter_count == 0)
        return;
    for (size_t i = 0; i < image->voter_count; i++)
        voters.voters.keys[i] = image->voters[i].key;
    note_voters(begin, &voters);
}

static bool is_alone(const struct stele_metadata_begin *begin, int32_t self_id)
{
    const struct stele_voters *voters =
        begin->history_count > 0 ? &begin->history[begin->history_count - 1].voters : NULL;
    return voters == NULL || (voters->count == 1 && voters->keys[0].node_id == self_id);
}

enum stele_err stele_metadata_log_replay(struct stele_log *log, struct stele_env *env, struct stele_image *image,
                                         int32_t self_id, struct stele_metadata_begin *out_begin,
                                         struct stele_error *error)
{
    struct stele_metadata_begin *begin = out_begin;
    struct load load = {.env = env, .log = log, .begin = begin, .error = error};
    error->text[0] = 0;
    enum stele_err err = stele_metadata_snapshot_load(env, log, image, &begin->snapshot_at, error);
    if (err == STELE_OK) {
        begin->applied_offset = load.offset = begin->snapshot_at.end_offset;
        bool is_of_cluster = begin->history_count > 0;
        history_of_image(begin, image);
        /* It was being installed; the log may begin there already, beside what is left of the old one. */
        int64_t log_end = stele_log_end_offset(log);
        if (is_of_cluster && (begin->snapshot_at.end_offset > log_end ||
                              (begin->snapshot_at.end_offset == log_end && stele_log_damaged_count(log) > 0)))
            err = stele_log_restart_at(log, begin->snapshot_at.end_offset);
        if (err == STELE_OK)
            err = load_log(&load);
    }
    if (err == STELE_OK && is_alone(begin, self_id))
        err = apply_all(&load, image);
    if (err == STELE_OK) {
        err = stele_election_file_read(env->vfs, env->mem, stele_log_dir(log), &begin->election, error);
        begin->has_election = err == STELE_OK;
        err = err == STELE_NOT_FOUND ? STELE_OK : err;
    }
    if (err != STELE_OK && error->text[0] == 0)
        return stele_error_set(error, err, "%s: %s", stele_log_dir(log), stele_err_text(err));
    return err;
}
