/* Any bytes as a request: refused or decoded within bounded memory, and what was decoded encodes and decodes again. */
#include "base/check.h"
#include "base/test/support.h"
#include "proto/codec.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    enum { ARENA_BYTES_MAX = 4 << 20 };
    struct stele_test_mem mem;
    struct stele_arena arena;
    struct stele_request request;
    struct stele_buf *frame = NULL;

    stele_test_mem_init(&mem);
    stele_arena_init(&arena, &mem.mem, STELE_MEM_REQUEST, ARENA_BYTES_MAX);
    if (stele_request_decode(&arena, bytes, count, &request) == STELE_OK &&
        stele_request_encode(&arena, &request, 0, &frame) == STELE_OK) {
        arena.bytes_max = 0; /* the second round must not fail for want of room */
        STELE_ASSERT(stele_request_decode(&arena, frame->bytes + STELE_FRAME_HEADER_BYTES,
                                          frame->count - STELE_FRAME_HEADER_BYTES, &request) == STELE_OK);
    }
    stele_buf_unref(frame);
    stele_arena_deinit(&arena);
    STELE_ASSERT(stele_mem_is_empty(&mem.mem));
    return 0;
}
