/* Batches of the metadata log that wait to be applied: what is taken, what is refused, what a cut leaves. */
#include "base/crc32c.h"
#include "base/test/support.h"
#include "node/metadata_log.h"
#include "proto/record_batch.h"

#include <string.h>

struct world {
    struct stele_test_mem mem;
    struct stele_metadata_tail tail;
};

static int set_up(void **state)
{
    static struct world world;
    stele_test_mem_init(&world.mem);
    stele_metadata_tail_init(&world.tail, &world.mem.mem);
    *state = &world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    stele_metadata_tail_deinit(&world->tail);
    stele_test_mem_check_empty(&world->mem);
    return 0;
}

static struct stele_buf *batch_of(struct world *world, int64_t base_offset, int32_t epoch,
                                  const struct stele_metadata_record *records, int count)
{
    struct stele_batch_options options = {.codec_level = STELE_CODEC_LEVEL_DEFAULT,
                                          .base_offset = base_offset,
                                          .partition_leader_epoch = epoch,
                                          .producer_id = STELE_NO_PRODUCER_ID,
                                          .producer_epoch = -1,
                                          .base_sequence = STELE_NO_SEQUENCE};
    struct stele_batch_builder *builder = stele_batch_builder_new(&world->mem.mem, &options);
    struct stele_buf *batch = NULL;
    struct stele_arena arena;
    stele_arena_init(&arena, &world->mem.mem, STELE_MEM_METADATA, 1 << 20);
    for (int i = 0; i < count; i++) {
        uint8_t *bytes = NULL;
        size_t bytes_count = 0;
        assert_ok(stele_metadata_record_encode(&arena, &records[i], &bytes, &bytes_count));
        struct stele_record_in in = {.timestamp = 1, .value = bytes, .value_bytes = (int32_t)bytes_count};
        assert_ok(stele_batch_builder_add(builder, &in));
    }
    assert_ok(stele_batch_builder_finish(builder, &batch));
    stele_batch_builder_free(builder);
    stele_arena_deinit(&arena);
    return batch;
}

static const struct stele_voter voters[] = {{1, {{1}}, "a", 2}, {3, {{3}}, "c", 4}};
static const struct stele_metadata_record samples[] = {
    {.kind = STELE_METADATA_LEADER_CHANGE, .u.leader_change = {.leader_id = 1}},
    {.kind = STELE_METADATA_VOTERS, .u.voters = {.voters = voters, .voter_count = 2}},
    {.kind = STELE_METADATA_PRODUCER_IDS, .u.producer_ids = {.next_producer_id = 7}},
};

static void put(struct world *world, int64_t base_offset, int32_t epoch, int first, int count)
{
    struct stele_buf *batch = batch_of(world, base_offset, epoch, &samples[first], count);
    assert_ok(stele_metadata_tail_put(&world->tail, batch, batch->bytes, batch->count));
    stele_buf_unref(batch);
}

/* Offsets, epoch and voters are those of the batch; the voters' offset is that of their record. */
static void test_put(void **state)
{
    struct world *world = *state;
    put(world, 10, 4, 0, 3);
    const struct stele_metadata_batch *batch = stele_metadata_tail_first(&world->tail);
    assert_int_equal(batch->base_offset, 10);
    assert_int_equal(batch->end_offset, 13);
    assert_int_equal(batch->epoch, 4);
    assert_true(batch->has_voters);
    assert_int_equal(batch->voters.offset, 11);
    assert_int_equal(batch->voters.voters.count, 2);
    assert_int_equal(batch->voters.voters.keys[1].node_id, 3);
}

/* A cut takes what ends above it; dropping takes from the front. */
static void test_cut(void **state)
{
    struct world *world = *state;
    put(world, 0, 1, 0, 2);
    put(world, 2, 1, 2, 1);
    put(world, 3, 2, 0, 1);
    stele_metadata_tail_cut(&world->tail, 3);
    assert_int_equal(stele_metadata_tail_first(&world->tail)->base_offset, 0);
    stele_metadata_tail_drop(&world->tail);
    assert_int_equal(stele_metadata_tail_first(&world->tail)->base_offset, 2);
    stele_metadata_tail_cut(&world->tail, 2);
    assert_null(stele_metadata_tail_first(&world->tail));
}

/* A flipped byte, records that make no sense and a level of the future are refused, and nothing is put. */
static void test_refuses(void **state)
{
    struct world *world = *state;
    struct stele_buf *batch = batch_of(world, 0, 1, samples, 2);
    batch->bytes[batch->count - 1] ^= 1;
    assert_int_equal(stele_metadata_tail_put(&world->tail, batch, batch->bytes, batch->count), STELE_CORRUPT);
    stele_buf_unref(batch);
    const struct stele_metadata_record nobody = {.kind = STELE_METADATA_VOTERS};
    batch = batch_of(world, 0, 1, &nobody, 1);
    assert_int_equal(stele_metadata_tail_put(&world->tail, batch, batch->bytes, batch->count), STELE_CORRUPT);
    stele_buf_unref(batch);
    const struct stele_metadata_record future = {.kind = STELE_METADATA_LEVEL_CHANGE,
                                                 .u.level = {.level = STELE_METADATA_LEVEL + 1}};
    batch = batch_of(world, 0, 1, &future, 1);
    assert_int_equal(stele_metadata_tail_put(&world->tail, batch, batch->bytes, batch->count),
                     STELE_UNSUPPORTED_VERSION);
    stele_buf_unref(batch);
    assert_null(stele_metadata_tail_first(&world->tail));
}

/* A sum that is right makes no offsets right: a batch that ends before it begins, or that has no epoch, is refused. */
static void test_bounds(void **state)
{
    struct world *world = *state;
    static const struct {
        int at;
        uint8_t first;
    } cases[] = {{0, 0x80}, {0, 0x7f}, {12, 0xff}, {23, 0xff}};
    for (size_t i = 0; i < STELE_ARRAY_LEN(cases); i++) {
        struct stele_buf *batch = batch_of(world, 0, 1, samples, 1);
        memset(batch->bytes + cases[i].at, 0xff, cases[i].at == 0 ? 8 : 4);
        batch->bytes[cases[i].at] = cases[i].first;
        uint32_t sum = stele_crc32c(0, batch->bytes + 21, batch->count - 21);
        for (int k = 0; k < 4; k++)
            batch->bytes[17 + k] = (uint8_t)(sum >> (24 - 8 * k));
        assert_int_equal(stele_metadata_tail_put(&world->tail, batch, batch->bytes, batch->count), STELE_CORRUPT);
        stele_buf_unref(batch);
    }
    assert_null(stele_metadata_tail_first(&world->tail));
}

/* Without memory at any call nothing is put, and it can be tried again. */
static void test_no_memory(void **state)
{
    struct world *world = *state;
    struct stele_buf *batch = batch_of(world, 0, 1, samples, 3);
    enum stele_err err = STELE_NO_MEMORY;
    int64_t at = 1;
    for (; err == STELE_NO_MEMORY; at++) {
        assert_null(stele_metadata_tail_first(&world->tail));
        stele_test_mem_fail(&world->mem, at, false);
        err = stele_metadata_tail_put(&world->tail, batch, batch->bytes, batch->count);
    }
    stele_test_mem_fail(&world->mem, 0, false);
    assert_ok(err);
    assert_true(at > 2);
    assert_non_null(stele_metadata_tail_first(&world->tail));
    stele_buf_unref(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
