/* The first bytes of a connection: lengths are refused or consistent, and guessing reads nothing beyond them. */
#include "base/check.h"
#include "base/test/support.h"
#include "proto/frame.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_frame_header header;
    uint8_t again[STELE_FRAME_HEADER_BYTES];

    (void)stele_frame_guess(bytes, count);
    if (count >= STELE_FRAME_HEADER_BYTES && stele_frame_header_read(bytes, 100 << 20, &header) == STELE_OK) {
        STELE_ASSERT(header.frame_bytes <= 100 << 20);
        STELE_ASSERT(header.message_bytes <= header.frame_bytes - 4);
        stele_frame_header_write(&header, again);
        STELE_ASSERT(memcmp(again, bytes, sizeof(again)) == 0);
    }
    return 0;
}
