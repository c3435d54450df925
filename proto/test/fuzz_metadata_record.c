/* Any bytes as a metadata record: refused or decoded, and what was decoded encodes and decodes to the same kind. */
#include "base/check.h"
#include "base/test/support.h"
#include "proto/metadata_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem mem;
    struct stele_arena arena;
    struct stele_metadata_record record, again;
    uint8_t *encoded;
    size_t encoded_count;

    stele_test_mem_init(&mem);
    stele_arena_init(&arena, &mem.mem, STELE_MEM_METADATA, 4 << 20);
    if (stele_metadata_record_decode(&arena, bytes, count, &record) == STELE_OK) {
        arena.bytes_max = 0;
        STELE_ASSERT(stele_metadata_record_encode(&arena, &record, &encoded, &encoded_count) == STELE_OK);
        STELE_ASSERT(stele_metadata_record_decode(&arena, encoded, encoded_count, &again) == STELE_OK);
        STELE_ASSERT(again.kind == record.kind);
    }
    stele_arena_deinit(&arena);
    STELE_ASSERT(stele_mem_is_empty(&mem.mem));
    return 0;
}
