#include "cluster-tests/sim/log_crash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stele_mem *mem_of(struct crash_world *world)
{
    return world->test.env.mem;
}

void crash_drop_pending(struct crash_world *world)
{
    free(world->pending);
    world->pending = NULL;
    world->pending_count = 0;
}

static void set_pending(struct crash_world *world, const uint8_t *bytes, size_t count)
{
    crash_drop_pending(world);
    world->pending = malloc(count);
    if (world->pending == NULL)
        abort();
    memcpy(world->pending, bytes, count);
    world->pending_count = count;
}

/* --- batches --- */

static enum stele_codec draw_codec(struct crash_world *world)
{
    if (!crash_chance(world, 1, 12))
        return STELE_CODEC_NONE;
    world->reached[POINT_COMPRESSED]++;
    return (enum stele_codec)stele_prng_range(&world->prng, STELE_CODEC_GZIP, STELE_CODEC_ZSTD);
}

static struct stele_buf *build(struct crash_world *world, const struct stele_batch_options *options, int records)
{
    uint8_t value[2048];
    struct stele_buf *buf = NULL;
    struct stele_batch_builder *builder = stele_batch_builder_new(mem_of(world), options);
    MODEL_CHECK(&world->model, builder != NULL, "no memory");
    for (int i = 0; i < records; i++) {
        size_t bytes = (size_t)stele_prng_below(&world->prng, crash_chance(world, 1, 20) ? sizeof(value) : 120);
        stele_prng_bytes(&world->prng, value, bytes);
        struct stele_record_in record = {.timestamp = world->test.wall_ms + stele_prng_range(&world->prng, -500, 500),
                                         .key = crash_chance(world, 1, 2) ? value : NULL,
                                         .value = value,
                                         .value_bytes = (int32_t)bytes};
        record.key_bytes = record.key == NULL ? 0 : (int32_t)stele_min_size(bytes, 8);
        MODEL_CHECK(&world->model, stele_batch_builder_add(builder, &record) == STELE_OK, "no memory");
    }
    MODEL_CHECK(&world->model, stele_batch_builder_finish(builder, &buf) == STELE_OK, "no memory");
    stele_batch_builder_free(builder);
    return buf;
}

static struct stele_buf *build_marker(struct crash_world *world, int64_t producer_id, int16_t epoch, bool is_commit)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = producer_id,
                                          .producer_epoch = epoch,
                                          .base_sequence = -1,
                                          .attributes = STELE_BATCH_CONTROL | STELE_BATCH_TRANSACTIONAL};
    uint8_t key[4] = {0, 0, 0, is_commit ? STELE_CONTROL_COMMIT : STELE_CONTROL_ABORT};
    uint8_t value[6] = {0, 0, 0, 0, 0, 1};
    struct stele_record_in record = {
        .timestamp = world->test.wall_ms, .key = key, .value = value, .key_bytes = 4, .value_bytes = 6};
    struct stele_buf *buf = NULL;
    struct stele_batch_builder *builder = stele_batch_builder_new(mem_of(world), &options);
    bool is_ok = builder != NULL && stele_batch_builder_add(builder, &record) == STELE_OK &&
                 stele_batch_builder_finish(builder, &buf) == STELE_OK;
    MODEL_CHECK(&world->model, is_ok, "no memory");
    stele_batch_builder_free(builder);
    return buf;
}

/* --- appends --- */

/* Of the first `batches` pending ones: a log may take fewer than it is given. */
static size_t bytes_of(const struct crash_world *world, int batches)
{
    size_t bytes = 0;
    while (batches-- > 0)
        bytes += (size_t)stele_batch_size(world->pending + bytes);
    return bytes;
}

static void write_back(struct crash_world *world)
{
    struct stele_slice slice;
    struct stele_file *file = NULL;
    if (!stele_log_take_write_back(world->log, &slice, &file))
        return;
    file->vfs->ops->sync_range(file, slice.pos, (int64_t)slice.bytes);
    stele_slice_release(&slice);
}

enum outcome { APPENDED, DUPLICATE, REFUSED };

static enum stele_err append(struct crash_world *world, struct stele_buf *buf, enum stele_origin origin,
                             enum outcome *out_outcome)
{
    struct stele_append append = {
        .bytes = buf->bytes, .count = buf->count, .origin = origin, .leader_epoch = world->epoch};
    struct stele_appended appended;
    int64_t end = stele_log_end_offset(world->log);
    if (origin != STELE_ORIGIN_REPLICATION)
        stele_batch_stamp(buf->bytes, end, world->epoch);
    set_pending(world, buf->bytes, buf->count);
    enum stele_err err = stele_log_append(world->log, &append, &appended);
    *out_outcome = APPENDED;
    if (err == STELE_RECORD_LIST_TOO_LARGE) {
        *out_outcome = REFUSED;
        err = STELE_OK;
    } else if (err == STELE_OK) {
        *out_outcome = appended.is_duplicate ? DUPLICATE : APPENDED;
        write_back(world);
        if (!appended.is_duplicate) {
            log_model_push(&world->model, world->pending, bytes_of(world, appended.batches));
            world->kept_end = world->model.end;
            if (world->had_rot)
                log_model_shadow(&world->model,
                                 stele_log_segment(world->log, stele_log_segment_count(world->log) - 1)->base_offset);
        }
        MODEL_CHECK(&world->model, stele_log_end_offset(world->log) == world->model.end,
                    "after an append the log ends at %lld, not %lld", (long long)stele_log_end_offset(world->log),
                    (long long)world->model.end);
    }
    if (err == STELE_OK || !stele_log_is_failed(world->log)) {
        crash_drop_pending(world);
        MODEL_CHECK(&world->model, err == STELE_OK || world->is_gappy || stele_log_end_offset(world->log) == end,
                    "a refused append moved the end");
        world->model.end = stele_log_end_offset(world->log); /* a roll may have gone to the end of a hole */
    }
    stele_buf_unref(buf);
    return err;
}

static enum stele_err work_append(struct crash_world *world)
{
    struct stele_batch_options options = {.codec = draw_codec(world),
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    enum outcome outcome = REFUSED;
    struct stele_buf *buf = build(world, &options, (int)stele_prng_range(&world->prng, 1, 6));
    return append(world, buf, STELE_ORIGIN_CLIENT, &outcome);
}

/* Producers of an odd number write in transactions. */
static enum stele_err work_produce(struct crash_world *world)
{
    int64_t id = (int64_t)stele_prng_below(&world->prng, CRASH_PRODUCERS);
    struct crash_producer *producer = &world->producers[id];
    bool is_txn = id % 2 == 1;
    enum outcome outcome = REFUSED;
    if (!is_txn && crash_chance(world, 1, 30)) {
        producer->epoch++;
        producer->next_sequence = 0;
    }
    int records = (int)stele_prng_range(&world->prng, 1, 4);
    struct stele_batch_options options = {.codec = draw_codec(world),
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .partition_leader_epoch = -1,
                                          .producer_id = id,
                                          .producer_epoch = producer->epoch,
                                          .base_sequence = producer->next_sequence,
                                          .attributes = is_txn ? STELE_BATCH_TRANSACTIONAL : 0};
    struct stele_buf *buf = build(world, &options, records);
    enum stele_err err = append(world, buf, STELE_ORIGIN_CLIENT, &outcome);
    if (err == STELE_OK && outcome != REFUSED) {
        MODEL_CHECK(&world->model, outcome == APPENDED, "a new batch was taken for a duplicate");
        producer->next_sequence += records;
        producer->is_in_txn |= is_txn;
    }
    return err;
}

static enum stele_err work_end_txn(struct crash_world *world)
{
    int64_t id = (int64_t)stele_prng_below(&world->prng, CRASH_PRODUCERS / 2) * 2 + 1;
    struct crash_producer *producer = &world->producers[id];
    bool is_commit = crash_chance(world, 1, 2);
    enum outcome outcome = REFUSED;
    if (!producer->is_in_txn)
        return STELE_OK;
    struct stele_buf *buf = build_marker(world, id, producer->epoch, is_commit);
    enum stele_err err = append(world, buf, STELE_ORIGIN_COORDINATOR, &outcome);
    if (err == STELE_OK) {
        producer->is_in_txn = false;
        world->reached[is_commit ? POINT_TXN_COMMIT : POINT_TXN_ABORT]++;
    }
    return err;
}

/* Sends the last batch of a producer again. */
static enum stele_err work_resend(struct crash_world *world)
{
    struct stele_batch_header header;
    enum outcome outcome = REFUSED;
    for (int i = world->model.count - 1; i >= 0 && i > world->model.count - 10; i--) {
        const struct model_batch *batch = &world->model.batches[i];
        if (batch->base_offset < stele_log_start_offset(world->log) ||
            stele_batch_header_read(batch->bytes, batch->count, &header) != STELE_OK || header.producer_id < 0 ||
            (header.attributes & STELE_BATCH_CONTROL) != 0)
            continue;
        const struct crash_producer *producer = &world->producers[header.producer_id];
        if (header.producer_epoch != producer->epoch ||
            header.base_sequence + header.last_offset_delta + 1 != producer->next_sequence)
            continue;
        struct stele_buf *buf = stele_buf_new(mem_of(world), STELE_MEM_SIM, batch->count);
        MODEL_CHECK(&world->model, buf != NULL, "no memory");
        memcpy(buf->bytes, batch->bytes, batch->count);
        buf->count = batch->count;
        enum stele_err err = append(world, buf, STELE_ORIGIN_CLIENT, &outcome);
        MODEL_CHECK(&world->model, err != STELE_OK || outcome == DUPLICATE, "a batch sent again was appended again");
        world->reached[POINT_DUPLICATE] += err == STELE_OK;
        return err;
    }
    return STELE_OK;
}

/* One to three batches as a follower gets them, at times of a new leader, in a gappy world with holes. */
static enum stele_err work_replicate(struct crash_world *world)
{
    struct stele_buf *all = stele_buf_new(mem_of(world), STELE_MEM_SIM, 32768);
    int64_t offset = stele_log_end_offset(world->log);
    enum outcome outcome = REFUSED;
    int batches = (int)stele_prng_range(&world->prng, 1, 3);
    MODEL_CHECK(&world->model, all != NULL, "no memory");
    all->count = 0;
    if (crash_chance(world, 1, 4))
        world->epoch++;
    for (int i = 0; i < batches; i++) {
        if (world->is_gappy && crash_chance(world, 1, 3))
            offset += crash_chance(world, 1, 10) ? INT32_MAX - 3 : stele_prng_range(&world->prng, 1, 20);
        int records = (int)stele_prng_range(&world->prng, 1, 3);
        struct stele_batch_options options = {.codec = draw_codec(world),
                                              .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                              .base_offset = offset,
                                              .partition_leader_epoch = world->epoch,
                                              .producer_id = -1,
                                              .producer_epoch = -1,
                                              .base_sequence = -1};
        struct stele_buf *buf = build(world, &options, records);
        memcpy(all->bytes + all->count, buf->bytes, buf->count);
        all->count += buf->count;
        stele_buf_unref(buf);
        offset += records;
    }
    enum stele_err err = append(world, all, STELE_ORIGIN_REPLICATION, &outcome);
    world->reached[POINT_REPLICATED] += err == STELE_OK;
    return err;
}

/* --- the rest of the work --- */

/* The three steps of a flush, one at a time: other work and crashes come between. */
static enum stele_err work_flush(struct crash_world *world)
{
    if (world->flush == NULL) {
        int64_t end = stele_log_end_offset(world->log);
        enum stele_err err = stele_log_flush_begin(world->log, &world->flush);
        world->flush_end = end;
        world->flush_ran = false;
        return err;
    }
    if (!world->flush_ran) {
        world->flush_result = stele_log_flush_run(world->flush);
        world->flush_ran = true;
        return STELE_OK;
    }
    struct stele_log_flush *flush = world->flush;
    enum stele_err err = world->flush_result;
    world->flush = NULL;
    stele_log_flush_end(world->log, flush, err);
    /* For want of room for the file of epochs alone it is tried again. */
    MODEL_CHECK(&world->model, err == STELE_OK || err == STELE_NO_SPACE || stele_log_is_failed(world->log),
                "a failed flush left the log open");
    if (err == STELE_OK) {
        world->durable_end = stele_max_i64(world->durable_end, world->flush_end);
        log_model_clear_ghosts(&world->model);
    }
    return err;
}

void crash_write_checkpoint(struct crash_world *world)
{
    struct stele_log *log = world->log;
    int64_t mark = stele_log_high_watermark(log), synced = stele_log_recovery_point(log);
    world->checkpoint =
        (struct crash_checkpoint){.recovery_point = stele_log_checkpoint_point(log),
                                  .log_start_offset = stele_log_start_offset(log),
                                  .high_watermark = world->is_lossy_mark ? mark : stele_min_i64(mark, synced)};
}

enum stele_err crash_truncate(struct crash_world *world, int64_t offset)
{
    struct crash_checkpoint *checkpoint = &world->checkpoint;
    world->model.doing = "truncation";
    world->epoch++; /* who cuts follows a new leader */
    checkpoint->recovery_point =
        stele_min_i64(checkpoint->recovery_point, stele_log_point_after_cut(world->log, offset));
    checkpoint->high_watermark = stele_min_i64(checkpoint->high_watermark, offset);
    checkpoint->log_start_offset = stele_min_i64(checkpoint->log_start_offset, offset);
    world->durable_end = stele_min_i64(world->durable_end, offset);
    world->kept_end = stele_min_i64(world->kept_end, offset);
    enum stele_err err = stele_log_truncate(world->log, offset);
    if (err != STELE_OK)
        return err;
    world->point_max = stele_min_i64(world->point_max, offset);
    log_model_truncate(&world->model, offset);
    MODEL_CHECK(&world->model, stele_log_end_offset(world->log) == offset, "truncated to %lld the log ends at %lld",
                (long long)offset, (long long)stele_log_end_offset(world->log));
    crash_meet_producers(world);
    return err;
}

static enum stele_err work_truncate(struct crash_world *world)
{
    int back = (int)stele_prng_range(&world->prng, 0, crash_chance(world, 1, 4) ? 60 : 6);
    int at = world->model.count - 1 - back;
    if (world->flush != NULL || world->model.count == 0)
        return STELE_OK;
    /* A cut takes the recovery point back, and rot that nobody saw yet would count as a torn tail. */
    if (log_model_has_rot(&world->model, 0, INT64_MAX))
        return STELE_OK;
    int64_t offset = world->model.batches[at < 0 ? 0 : at].base_offset;
    offset = stele_max_i64(offset, stele_log_start_offset(world->log));
    at = log_model_find(&world->model, offset);
    if (at < world->model.count && world->model.batches[at].base_offset < offset)
        offset = world->model.batches[at].last_offset + 1;
    return crash_truncate(world, stele_min_i64(offset, stele_log_end_offset(world->log)));
}

static enum stele_err work_restart_at(struct crash_world *world)
{
    if (world->flush != NULL || !crash_chance(world, 1, 4))
        return STELE_OK;
    int64_t offset = stele_log_end_offset(world->log) + stele_prng_range(&world->prng, 0, 50);
    world->model.doing = "restart_at";
    world->epoch++;
    world->checkpoint = (struct crash_checkpoint){.log_start_offset = world->checkpoint.log_start_offset};
    world->durable_end = 0;
    world->kept_end = 0;
    world->start_max = offset;
    enum stele_err err = stele_log_restart_at(world->log, offset);
    if (err != STELE_OK) {
        log_model_shadow(&world->model, 0); /* all was to go: nothing says any more what lies behind rot */
        return err;
    }
    world->point_max = 0;
    log_model_truncate(&world->model, 0);
    world->model.end = offset;
    world->kept_end = offset;
    world->durable_end = offset;
    log_model_clear_ghosts(&world->model);
    crash_meet_producers(world);
    world->reached[POINT_RESTARTED_AT]++;
    return err;
}

static enum stele_err work_delete_records(struct crash_world *world)
{
    int64_t start = stele_log_start_offset(world->log), mark = stele_log_high_watermark(world->log);
    int64_t offset = crash_chance(world, 1, 6) ? mark : start + (mark - start) / stele_prng_range(&world->prng, 2, 8);
    enum stele_err err = stele_log_set_start_offset(world->log, offset);
    world->start_max = stele_max_i64(world->start_max, stele_log_start_offset(world->log));
    return err;
}

static enum stele_err work_retain(struct crash_world *world)
{
    int deleted = 0;
    world->test.wall_ms += crash_chance(world, 1, 10) ? 40000 : 0;
    enum stele_err err = stele_log_retain(world->log, &deleted);
    world->start_max = stele_max_i64(world->start_max, stele_log_start_offset(world->log));
    return err;
}

static enum stele_err work_unlink(struct crash_world *world)
{
    int64_t *bases = NULL;
    int count = 0;
    if (world->flush != NULL || stele_log_unlink_due(world->log) > world->test.mono_us / 1000)
        return STELE_OK;
    enum stele_err err = stele_log_take_due(world->log, world->test.mono_us / 1000, &bases, &count);
    for (int i = 0; i < count && err == STELE_OK; i++)
        err = stele_segment_unlink_deleted(world->test.env.vfs, stele_log_dir(world->log), bases[i]);
    stele_mem_free(mem_of(world), bases);
    world->reached[POINT_EXPIRED_FILES_UNLINKED] += err == STELE_OK && count > 0;
    return err;
}

static enum stele_err work_roll(struct crash_world *world)
{
    bool is_rolled = false;
    world->test.wall_ms += crash_chance(world, 1, 3) ? world->config.segment_ms : 0;
    return stele_log_roll_if_old(world->log, &is_rolled);
}

/* What a node does once for a directory that it made, before it tells of anything in it. */
static bool sync_names(struct crash_world *world)
{
    struct stele_vfs *vfs = world->test.env.vfs;
    if (world->is_named)
        return true;
    if (vfs->ops->sync_dir(vfs, CRASH_DIR) != STELE_OK)
        return false;
    stele_log_directory_synced(world->log);
    world->is_named = true;
    return true;
}

static enum stele_err work_mark(struct crash_world *world)
{
    stele_log_set_high_watermark(world->log, stele_log_end_offset(world->log));
    if (crash_chance(world, 1, 3) && sync_names(world))
        crash_write_checkpoint(world);
    return STELE_OK;
}

static enum stele_err work_epoch(struct crash_world *world)
{
    world->epoch++;
    return STELE_OK;
}

enum stele_err crash_close(struct crash_world *world)
{
    world->model.doing = "close";
    if (world->flush != NULL) {
        struct stele_log_flush *flush = world->flush;
        world->flush = NULL;
        stele_log_flush_end(world->log, flush, world->flush_ran ? world->flush_result : stele_log_flush_run(flush));
    }
    enum stele_err err = stele_log_close(world->log);
    if (err == STELE_OK) {
        crash_write_checkpoint(world);
        world->checkpoint.recovery_point = stele_log_end_offset(world->log);
        world->checkpoint.high_watermark = stele_log_end_offset(world->log); /* all is synced: all is visible */
        world->checkpoint.is_clean = true;
        world->durable_end = stele_log_end_offset(world->log);
        log_model_clear_ghosts(&world->model);
    }
    return err;
}

struct work {
    const char *name;
    enum stele_err (*run)(struct crash_world *world);
    uint64_t weight;
};

static const struct work works[] = {
    {"append", work_append, 30},       {"produce", work_produce, 30},      {"end of transaction", work_end_txn, 8},
    {"resend", work_resend, 3},        {"replicate", work_replicate, 6},   {"flush", work_flush, 24},
    {"high watermark", work_mark, 12}, {"truncate", work_truncate, 2},     {"delete records", work_delete_records, 1},
    {"retention", work_retain, 3},     {"unlink", work_unlink, 3},         {"roll", work_roll, 3},
    {"epoch", work_epoch, 1},          {"restart_at", work_restart_at, 1},
};

enum stele_err crash_work(struct crash_world *world)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < STELE_ARRAY_LEN(works); i++)
        sum += works[i].weight;
    uint64_t draw = stele_prng_below(&world->prng, sum);
    size_t at = 0;
    while (draw >= works[at].weight)
        draw -= works[at++].weight;
    int64_t step_ms = stele_prng_range(&world->prng, 0, 200);
    world->test.wall_ms += step_ms;
    world->test.mono_us += step_ms * 1000;
    world->model.doing = works[at].name;
    enum stele_err err = works[at].run(world);
    MODEL_CHECK(&world->model, err != STELE_OK || stele_log_recovery_point(world->log) <= world->durable_end,
                "the recovery point %lld is above what was synced, %lld",
                (long long)stele_log_recovery_point(world->log), (long long)world->durable_end);
    if (world->is_verbose)
        (void)printf("  %s: %s, log [%lld, %lld), recovery point %lld, durable to %lld\n", works[at].name,
                     stele_err_name(err), (long long)stele_log_start_offset(world->log),
                     (long long)stele_log_end_offset(world->log), (long long)stele_log_recovery_point(world->log),
                     (long long)world->durable_end);
    return err;
}

struct meeting {
    struct crash_world *world;
};

static void meet(void *arg, const struct stele_producer_entry *entry)
{
    struct meeting *meeting = arg;
    if (entry->producer_id < 0 || entry->producer_id >= CRASH_PRODUCERS)
        log_model_fail(&meeting->world->model, "the log knows producer %lld, which never wrote",
                       (long long)entry->producer_id);
    meeting->world->producers[entry->producer_id] = (struct crash_producer){.epoch = entry->producer_epoch,
                                                                            .next_sequence = entry->last_sequence + 1,
                                                                            .is_in_txn = entry->txn_first_offset >= 0};
}

void crash_meet_producers(struct crash_world *world)
{
    struct meeting meeting = {.world = world};
    /* Who is not known any more goes on as a new one: its old batches may come back with a lower log start. */
    for (int i = 0; i < CRASH_PRODUCERS; i++)
        world->producers[i] = (struct crash_producer){.epoch = (int16_t)(world->producers[i].epoch + 1)};
    stele_producers_each(stele_log_producers(world->log), meet, &meeting);
}
