#include "storage/repair.h"

#include "base/check.h"
#include "storage/resync.h"

void stele_repair_begin(struct stele_repair *repair, struct stele_env *env, const char *dir,
                        const struct stele_log *log, const struct stele_damaged_range *range)
{
    const struct stele_epoch_cache *epochs = stele_log_epochs(log);
    const struct stele_log_config *config = stele_log_config(log);
    bool has_more = range->last_offset + 1 < stele_log_end_offset(log);
    bool has_hole = range->pos_offset < stele_log_start_offset(log);
    *repair = (struct stele_repair){
        .env = env,
        .dir = dir,
        .segment_bytes = config->segment_bytes,
        .first_offset = range->first_offset,
        .next_offset = has_hole ? stele_log_start_offset(log) : range->pos_offset,
        .last_offset = range->last_offset,
        .segment_base = range->segment_base,
        .pos = range->pos,
        .end_pos = range->end_pos,
        .hole_offset = has_hole ? range->pos_offset : -1,
        .noted_offset = -1,
        .epoch_before = range->pos_offset > 0 ? stele_epoch_cache_epoch_at(epochs, range->pos_offset - 1) : -1,
        .epoch_max = has_more ? stele_epoch_cache_epoch_at(epochs, range->last_offset + 1) : -1};
}

bool stele_repair_is_done(const struct stele_repair *repair)
{
    return repair->next_offset > repair->last_offset;
}

int64_t stele_repair_wants(const struct stele_repair *repair, int64_t bytes)
{
    bool is_whole = repair->hole_offset >= 0 && repair->end_pos != INT64_MAX;
    return is_whole ? stele_max_i64(bytes, repair->end_pos - repair->pos) : bytes;
}

/* A piece that leaves a hole of unknown size before it. */
static bool is_behind_hole(const struct stele_repair *repair, int64_t first_offset)
{
    return repair->hole_offset >= 0 && first_offset > repair->hole_offset;
}

static bool follows(const struct stele_repair *repair, const struct stele_batch_header *header, int64_t expected,
                    int32_t epoch)
{
    bool is_first = repair->hole_offset >= 0 && expected == repair->next_offset;
    bool is_next = is_first ? header->base_offset >= repair->hole_offset && header->base_offset <= expected &&
                                  stele_batch_last_offset(header) >= expected
                            : header->base_offset == expected;
    return is_next && stele_batch_last_offset(header) <= repair->last_offset &&
           header->partition_leader_epoch >= epoch &&
           (repair->epoch_max < 0 || header->partition_leader_epoch <= repair->epoch_max);
}

/* Between two sound batches the missing ones fill the place to the byte: every replica has the same bytes. */
static bool fits(const struct stele_repair *repair, int64_t end_pos, int64_t next_offset)
{
    if (repair->end_pos == INT64_MAX)
        return true;
    return next_offset > repair->last_offset ? end_pos == repair->end_pos : end_pos < repair->end_pos;
}

enum stele_err stele_repair_check(const struct stele_repair *repair, const uint8_t *bytes, size_t count,
                                  size_t *out_bytes)
{
    int64_t expected = repair->next_offset, first_offset = -1;
    int32_t epoch = repair->epoch_before;
    bool is_loose = false; /* it lies before what is sound, wherever that makes it begin */
    size_t at = 0;
    while (count - at >= STELE_BATCH_HEADER_BYTES && expected <= repair->last_offset) {
        struct stele_batch_header header;
        int64_t size = stele_batch_size(bytes + at);
        if (size >= STELE_BATCH_HEADER_BYTES && (uint64_t)size > count - at)
            break; /* cut off */
        enum stele_err err = size < STELE_BATCH_HEADER_BYTES ? STELE_CORRUPT_MESSAGE
                                                             : stele_batch_check(bytes + at, (size_t)size, &header);
        if (err == STELE_OK && !follows(repair, &header, expected, epoch))
            err = STELE_OFFSET_OUT_OF_RANGE;
        else if (err != STELE_OK)
            err = STELE_CORRUPT_MESSAGE;
        if (err == STELE_OK && at == 0) {
            first_offset = header.base_offset;
            is_loose = is_behind_hole(repair, first_offset) && repair->end_pos != INT64_MAX;
        }
        if (err == STELE_OK && !is_loose &&
            !fits(repair, repair->pos + (int64_t)at + size, stele_batch_last_offset(&header) + 1))
            return STELE_OFFSET_OUT_OF_RANGE;
        if (err != STELE_OK && at == 0)
            return err;
        if (err != STELE_OK)
            break;
        at += (size_t)size;
        expected = stele_batch_last_offset(&header) + 1;
        epoch = header.partition_leader_epoch;
    }
    if (at == 0 || (is_loose && (expected <= repair->last_offset || (int64_t)at > repair->end_pos - repair->pos)))
        return STELE_OFFSET_OUT_OF_RANGE;
    *out_bytes = at;
    return STELE_OK;
}

/* A start must take what is bad of the range for damage and not for a torn tail, wherever its checkpoints are by then.
 */
static enum stele_err note_begin(const struct stele_repair *repair)
{
    struct stele_history_event event = {.wall_ms = stele_env_wall_ms(repair->env),
                                        .kind = STELE_HISTORY_REPAIR,
                                        .offset = repair->noted_offset,
                                        .bytes = repair->last_offset + 1,
                                        .reason = STELE_REASON_DAMAGE};
    enum stele_err err = stele_history_append(repair->env, repair->dir, &event);
    return err == STELE_OK ? stele_history_sync(repair->env, repair->dir) : err;
}

/* When the line is lost a start reads the segment for nothing. */
static void note_done(const struct stele_repair *repair)
{
    struct stele_history_event event = {.wall_ms = stele_env_wall_ms(repair->env),
                                        .kind = STELE_HISTORY_REPAIR,
                                        .offset = repair->noted_offset,
                                        .bytes = repair->repaired_bytes,
                                        .reason = STELE_REASON_REPAIRED};
    enum stele_err ignored = stele_history_append(repair->env, repair->dir, &event);
    (void)ignored;
}

static enum stele_err write_to(const struct stele_repair *repair, struct stele_file *file, const uint8_t *bytes,
                               size_t count)
{
    struct stele_vfs *vfs = repair->env->vfs;
    int64_t file_bytes = 0;
    enum stele_err err = vfs->ops->size(file, &file_bytes);
    if (err == STELE_OK && repair->end_pos == INT64_MAX && file_bytes > repair->pos)
        err = vfs->ops->truncate(file, repair->pos);
    if (err == STELE_OK)
        err = stele_file_write(file, bytes, count, repair->pos);
    return err == STELE_OK ? stele_sync_marked(file, repair->dir) : err;
}

static enum stele_err write_piece(const struct stele_repair *repair, const uint8_t *bytes, size_t count)
{
    struct stele_vfs *vfs = repair->env->vfs;
    char name[STELE_SEGMENT_NAME_BYTES], path[STELE_PATH_BYTES];
    struct stele_file *file = NULL;
    stele_segment_name(repair->segment_base, ".log", name);
    enum stele_err err = stele_path_join(path, repair->dir, name);
    if (err == STELE_OK)
        err = vfs->ops->open(vfs, path, STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file);
    if (err != STELE_OK)
        return err;
    err = write_to(repair, file, bytes, count);
    vfs->ops->close(file);
    return err == STELE_OK && repair->pos == 0 ? vfs->ops->sync_dir(vfs, repair->dir) : err;
}

/* Of a segment that is missing as a whole its neighbour can't hold everything: it gets one of its own. */
static bool wants_segment(const struct stele_repair *repair, int64_t end_offset, size_t count)
{
    return repair->end_pos == INT64_MAX && repair->pos > 0 &&
           (repair->pos + (int64_t)count > repair->segment_bytes || end_offset - repair->segment_base > INT32_MAX);
}

enum stele_err stele_repair_write(struct stele_repair *repair, const uint8_t *bytes, size_t count)
{
    struct stele_repair next = *repair;
    struct stele_batch_header header;
    size_t at = 0;
    while (at < count) {
        enum stele_err err = stele_batch_header_read(bytes + at, count - at, &header);
        STELE_ASSERT(err == STELE_OK); /* it was checked */
        if (at == 0 && is_behind_hole(repair, header.base_offset) && repair->end_pos != INT64_MAX)
            next.pos = repair->end_pos - (int64_t)count;
        next.next_offset = stele_batch_last_offset(&header) + 1;
        next.epoch_before = header.partition_leader_epoch;
        at += (size_t)stele_batch_size(bytes + at);
    }
    enum stele_err err = STELE_OK;
    if (repair->noted_offset < 0) {
        repair->noted_offset = next.noted_offset = repair->hole_offset >= 0 ? repair->hole_offset : repair->next_offset;
        err = note_begin(repair);
    }
    if (err == STELE_OK && wants_segment(repair, next.next_offset, count)) {
        /* What it ends with and is no batch goes first: it must not be read when the next one follows. */
        err = write_piece(repair, bytes, 0);
        next.segment_base = repair->next_offset;
        next.pos = 0;
    }
    struct stele_repair here = *repair;
    here.segment_base = next.segment_base;
    here.pos = next.pos;
    if (err == STELE_OK)
        err = write_piece(&here, bytes, count);
    if (err != STELE_OK) {
        repair->noted_offset = -1; /* perhaps it is not durable */
        return err;
    }
    next.pos += (int64_t)count;
    next.hole_offset = -1;
    next.repaired_bytes += (int64_t)count;
    *repair = next;
    if (stele_repair_is_done(repair))
        note_done(repair);
    return STELE_OK;
}
