#include "storage/test/segment_world.h"

#include <stdio.h>
#include <string.h>

void segment_world_init(struct segment_world *world, int64_t base_offset)
{
    memset(world, 0, sizeof(*world));
    memory_vfs_init(&world->memory);
    stele_test_env_init(&world->test, &world->memory.vfs);
    world->cache = stele_file_cache_new(&world->test.env, 8, 1 << 20);
    assert_non_null(world->cache);
    stele_log_config_default(&world->config);
    world->config.index_interval_bytes = 256;
    (void)snprintf(world->dir, sizeof(world->dir), "t-0");
    world->base_offset = base_offset;
    assert_ok(
        stele_segment_create(&world->test.env, world->cache, world->dir, base_offset, &world->config, &world->seg));
}

void segment_world_deinit(struct segment_world *world)
{
    stele_segment_free(world->seg);
    stele_file_cache_free(world->cache);
    stele_test_mem_check_empty(&world->test.mem);
    memory_vfs_deinit(&world->memory);
}

static struct stele_buf *build(struct segment_world *world, const struct world_next *next, struct world_batch *batch)
{
    char value[4096];
    struct stele_buf *buf = NULL;
    struct stele_batch_options options = {.codec = next->codec,
                                          .codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .base_offset = batch->base_offset,
                                          .partition_leader_epoch = batch->epoch,
                                          .producer_id = -1,
                                          .producer_epoch = -1,
                                          .base_sequence = -1};
    struct stele_batch_builder *builder = stele_batch_builder_new(&world->test.mem.mem, &options);
    assert_non_null(builder);
    memset(value, 'v', sizeof(value));
    batch->max_timestamp = -1;
    for (int i = 0; i < next->record_count; i++) {
        int64_t timestamp = next->timestamp < 0 ? -1 : next->timestamp + i * next->timestamp_step;
        struct stele_record_in record = {.timestamp = timestamp, .value = value, .value_bytes = next->value_bytes};
        batch->timestamps[i] = timestamp;
        batch->max_timestamp = stele_max_i64(batch->max_timestamp, timestamp);
        assert_ok(stele_batch_builder_add(builder, &record));
    }
    assert_ok(stele_batch_builder_finish(builder, &buf));
    stele_batch_builder_free(builder);
    return buf;
}

enum stele_err segment_world_append(struct segment_world *world, const struct world_next *next)
{
    const struct world_batch *last = world->count == 0 ? NULL : &world->batches[world->count - 1];
    struct world_batch batch = {.base_offset =
                                    (last == NULL ? world->base_offset : last->last_offset + 1) + next->offset_gap,
                                .pos = last == NULL ? 0 : last->pos + last->bytes,
                                .epoch = world->count / 10,
                                .record_count = next->record_count};
    struct stele_batch_header header;
    assert_true(world->count < WORLD_BATCHES_MAX);
    /* The batch itself is made from memory that does not fail. */
    int64_t fail_at = world->test.mem.fail_at;
    world->test.mem.fail_at = 0;
    struct stele_buf *buf = build(world, next, &batch);
    world->test.mem.fail_at = fail_at;
    batch.last_offset = batch.base_offset + next->record_count - 1;
    batch.bytes = (int64_t)buf->count;
    assert_ok(stele_batch_header_read(buf->bytes, buf->count, &header));
    enum stele_err err = stele_segment_append(world->seg, &world->config, buf->bytes, buf->count, &header, 1);
    stele_buf_unref(buf);
    if (err == STELE_OK)
        world->batches[world->count++] = batch;
    stele_segment_check(world->seg);
    return err;
}

void segment_world_fill(struct segment_world *world, int count)
{
    struct stele_prng *prng = &world->test.prng;
    int64_t clock = 1700000000000 + 40 * world->count;
    for (int i = 0; i < count; i++) {
        struct world_next next = {.record_count = 1 + (int)stele_prng_below(prng, WORLD_RECORDS_MAX),
                                  .value_bytes = (int)stele_prng_below(prng, 60),
                                  .timestamp = clock + stele_prng_range(prng, -200, 200),
                                  .timestamp_step = stele_prng_range(prng, -9, 9)};
        if (stele_prng_chance(prng, 1, 20))
            next.value_bytes = 600;
        if (stele_prng_chance(prng, 1, 10))
            next.offset_gap = stele_prng_range(prng, 1, 20);
        if (stele_prng_chance(prng, 1, 10))
            next.timestamp = -1;
        if (stele_prng_chance(prng, 1, 10))
            next.codec = STELE_CODEC_LZ4;
        clock += 40;
        assert_ok(segment_world_append(world, &next));
    }
}

void segment_world_reopen(struct segment_world *world)
{
    stele_segment_free(world->seg);
    world->seg = NULL;
    assert_ok(stele_segment_open(&world->test.env, world->cache, world->dir, world->base_offset, &world->config,
                                 &world->seg));
}

const char *segment_world_path(struct segment_world *world, const char *suffix)
{
    static char path[64];
    char name[STELE_SEGMENT_NAME_BYTES];
    stele_segment_name(world->base_offset, suffix, name);
    (void)snprintf(path, sizeof(path), "%s/%s", world->dir, name);
    return path;
}

int segment_world_find(const struct segment_world *world, int64_t offset)
{
    int at = 0;
    while (at < world->count && world->batches[at].last_offset < offset)
        at++;
    return at;
}

static int64_t world_bytes(const struct segment_world *world)
{
    return world->count == 0 ? 0 : world->batches[world->count - 1].pos + world->batches[world->count - 1].bytes;
}

void segment_world_check_offset(struct segment_world *world, int64_t offset)
{
    struct stele_batch_header header;
    int64_t pos = -1;
    int at = segment_world_find(world, offset);
    enum stele_err err = stele_segment_find(world->seg, offset, &pos, &header);
    if (at == world->count) {
        assert_int_equal(err, STELE_END);
        assert_int_equal(pos, world_bytes(world));
        return;
    }
    assert_ok(err);
    assert_int_equal(pos, world->batches[at].pos);
    assert_int_equal(header.base_offset, world->batches[at].base_offset);
    assert_int_equal(stele_batch_last_offset(&header), world->batches[at].last_offset);
}

enum stele_err segment_world_lookup_time(struct segment_world *world, const struct stele_time_search *search,
                                         struct stele_time_found *out_found, int64_t *out_pos)
{
    struct stele_segment_range batch = {.pos = -1};
    struct stele_file *file = NULL;
    enum stele_err err = stele_segment_time_next(world->seg, search, &batch);
    while (err == STELE_OK) {
        err = stele_cached_file_pin(world->seg->file, &file);
        if (err != STELE_OK)
            break;
        err = stele_segment_time_in_batch(&world->test.mem.mem, file, &batch, search, out_found);
        stele_cached_file_unpin(world->seg->file);
        if (err != STELE_END)
            break;
        err = stele_segment_time_next(world->seg, search, &batch);
    }
    *out_pos = batch.pos;
    return err;
}

void segment_world_check_time(struct segment_world *world, int64_t timestamp, int64_t offset_min)
{
    struct stele_time_search search = {
        .timestamp = timestamp, .offset_min = offset_min, .unpacked_bytes_max = SIZE_MAX};
    struct stele_time_found found;
    int64_t pos = -1;
    enum stele_err err = segment_world_lookup_time(world, &search, &found, &pos);
    for (int at = 0; at < world->count; at++) {
        const struct world_batch *batch = &world->batches[at];
        for (int i = 0; i < batch->record_count; i++) {
            if (batch->timestamps[i] < timestamp || batch->base_offset + i < offset_min)
                continue;
            assert_ok(err);
            assert_int_equal(found.offset, batch->base_offset + i);
            assert_int_equal(found.timestamp, batch->timestamps[i]);
            assert_int_equal(pos, batch->pos);
            assert_int_equal(found.leader_epoch, batch->epoch);
            return;
        }
    }
    assert_int_equal(err, STELE_END);
}

void segment_world_check_max(struct segment_world *world)
{
    int64_t largest = -1, offset = world->base_offset, first = -1, got = 0;
    for (int at = 0; at < world->count; at++) {
        if (world->batches[at].max_timestamp > largest) {
            largest = world->batches[at].max_timestamp;
            offset = world->batches[at].last_offset;
        }
    }
    if (world->count > 0)
        first = world->batches[0].max_timestamp;
    assert_ok(stele_segment_largest_timestamp(world->seg, &got));
    assert_int_equal(got, largest >= 0 ? largest : world->seg->mtime_ms);
    assert_int_equal(world->seg->max_timestamp, largest);
    assert_int_equal(world->seg->offset_of_max_timestamp, offset);
    assert_ok(stele_segment_first_timestamp(world->seg, &got));
    assert_int_equal(got, first);
}

void segment_world_check_after(struct segment_world *world, int64_t pos)
{
    int64_t offset = -1;
    enum stele_err err = stele_segment_offset_after(world->seg, pos, &offset);
    if (err == STELE_END)
        return;
    assert_ok(err);
    for (int at = 0; at < world->count && world->batches[at].pos < pos; at++)
        assert_true(world->batches[at].last_offset < offset);
}

void segment_world_check_all(struct segment_world *world)
{
    int64_t end = world->count == 0 ? world->base_offset : world->batches[world->count - 1].last_offset + 1;
    segment_world_check_max(world);
    for (int64_t offset = world->base_offset; offset <= end + 1; offset++)
        segment_world_check_offset(world, offset);
    for (int at = 0; at < world->count; at++) {
        const struct world_batch *batch = &world->batches[at];
        segment_world_check_after(world, batch->pos + batch->bytes);
        for (int64_t off = -1; off <= 1; off++)
            segment_world_check_time(world, batch->max_timestamp + off, world->base_offset);
        segment_world_check_time(world, batch->timestamps[0], batch->base_offset + 1);
    }
    segment_world_check_time(world, INT64_MAX, world->base_offset);
    segment_world_check_time(world, 0, world->base_offset);
}
