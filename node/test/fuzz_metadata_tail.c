/* Any bytes as a batch that another node sent of the metadata log: refused, or offsets, epoch and voters in bounds. Its
 * size, magic and checksum are made right, so that the records are looked at. */
#include "base/check.h"
#include "base/crc32c.h"
#include "base/test/support.h"
#include "node/metadata_log.h"
#include "proto/record_batch.h"

#include <string.h>

enum { SIZE_AT = 8, MAGIC_AT = 16, CRC_AT = 17, SUMMED_AT = 21 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void seal(uint8_t *batch, size_t count)
{
    put_u32(batch + SIZE_AT, (uint32_t)(count - 12));
    batch[MAGIC_AT] = 2;
    put_u32(batch + CRC_AT, stele_crc32c(0, batch + SUMMED_AT, count - SUMMED_AT));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem memory;
    struct stele_metadata_tail tail;
    stele_test_mem_init(&memory);
    stele_metadata_tail_init(&tail, &memory.mem);
    struct stele_buf *buf = stele_buf_new(&memory.mem, STELE_MEM_METADATA, count);
    if (count > 0)
        memcpy(buf->bytes, bytes, count);
    buf->count = count;
    if (count >= STELE_BATCH_HEADER_BYTES)
        seal(buf->bytes, count);
    if (stele_metadata_tail_put(&tail, buf, buf->bytes, buf->count) == STELE_OK) {
        const struct stele_metadata_batch *batch = stele_metadata_tail_first(&tail);
        STELE_ASSERT(batch->end_offset >= batch->base_offset);
        STELE_ASSERT(!batch->has_voters || batch->voters.voters.count > 0);
        STELE_ASSERT(batch->voters.voters.count <= STELE_VOTERS_MAX);
    }
    stele_metadata_tail_deinit(&tail);
    stele_buf_unref(buf);
    stele_test_mem_check_empty(&memory);
    return 0;
}
