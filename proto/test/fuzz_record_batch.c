/* Any bytes as a batch: refused, or walked within bounded memory; what was walked builds a batch that yields the same
 * records. The checksum and length are mended first, or no input would get past them. */
#include "base/check.h"
#include "base/test/support.h"
#include "proto/record_batch.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { UNPACKED_BYTES_MAX = 1 << 20 };

static void check_headers(const struct stele_record *record)
{
    struct stele_record_header header;
    size_t pos = 0;
    int32_t count = 0;
    while (stele_record_header_next(record, &pos, &header)) {
        STELE_ASSERT(header.key != NULL);
        count++;
    }
    STELE_ASSERT(pos == record->headers_bytes);
    STELE_ASSERT(count == record->header_count);
}

static void check_same(const struct stele_record *a, const struct stele_record *b)
{
    STELE_ASSERT((a->key == NULL) == (b->key == NULL));
    STELE_ASSERT((a->value == NULL) == (b->value == NULL));
    STELE_ASSERT(a->key_bytes == b->key_bytes);
    STELE_ASSERT(a->value_bytes == b->value_bytes);
    STELE_ASSERT(a->timestamp == b->timestamp);
    STELE_ASSERT(a->headers_bytes == b->headers_bytes);
    STELE_ASSERT(a->key_bytes == 0 || memcmp(a->key, b->key, (size_t)a->key_bytes) == 0);
    STELE_ASSERT(a->value_bytes == 0 || memcmp(a->value, b->value, (size_t)a->value_bytes) == 0);
    STELE_ASSERT(memcmp(a->headers, b->headers, a->headers_bytes) == 0);
}

static void rebuild(struct stele_mem *mem, struct stele_record_walker *walker)
{
    struct stele_batch_options options = {.codec = STELE_CODEC_LZ4, .codec_level = STELE_CODEC_LEVEL_DEFAULT};
    struct stele_batch_builder *builder = stele_batch_builder_new(mem, &options);
    struct stele_record_walker again;
    struct stele_record record, other;
    struct stele_buf *batch = NULL;
    struct stele_control control;
    enum stele_err err;
    while ((err = stele_record_next(walker, &record)) == STELE_OK) {
        check_headers(&record);
        (void)stele_control_read(&record, &control);
        STELE_ASSERT(stele_batch_builder_add_walked(builder, &record) == STELE_OK);
    }
    if (err == STELE_END && walker->done > 0) {
        STELE_ASSERT(stele_batch_builder_finish(builder, &batch) == STELE_OK);
        STELE_ASSERT(stele_record_walker_init(&again, mem, batch->bytes, batch->count, 2 * UNPACKED_BYTES_MAX + 64) ==
                     STELE_OK);
        stele_record_walker_rewind(walker);
        while (stele_record_next(walker, &record) == STELE_OK) {
            STELE_ASSERT(stele_record_next(&again, &other) == STELE_OK);
            check_same(&record, &other);
        }
        STELE_ASSERT(stele_record_next(&again, &other) == STELE_END);
        stele_record_walker_deinit(&again);
        stele_buf_unref(batch);
    }
    stele_batch_builder_free(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem mem;
    struct stele_record_walker walker;
    struct stele_batch_header header;
    stele_test_mem_init(&mem);
    (void)stele_batch_check(bytes, count, &header);
    if (count < STELE_BATCH_HEADER_BYTES)
        return 0;
    uint8_t *batch = stele_mem_raw(&mem.mem, STELE_MEM_TOOL, count);
    memcpy(batch, bytes, count);
    batch[STELE_BATCH_POS_MAGIC] = STELE_BATCH_MAGIC;
    stele_put_i32(batch + STELE_BATCH_POS_LENGTH, (int32_t)count - STELE_BATCH_PREFIX_BYTES);
    stele_batch_restamp_time(batch, count, stele_get_i16(batch + STELE_BATCH_POS_ATTRIBUTES),
                             stele_get_i64(batch + STELE_BATCH_POS_MAX_TIMESTAMP));
    if (stele_batch_check(batch, count, &header) == STELE_OK &&
        stele_record_walker_init(&walker, &mem.mem, batch, count, UNPACKED_BYTES_MAX) == STELE_OK) {
        rebuild(&mem.mem, &walker);
        stele_record_walker_deinit(&walker);
    }
    stele_mem_free(&mem.mem, batch);
    STELE_ASSERT(stele_mem_is_empty(&mem.mem));
    return 0;
}
