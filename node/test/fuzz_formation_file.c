/* Any bytes as the file of how far a disk is with its cluster: refused, or a state in its bounds. */
#include "base/check.h"
#include "node/formation_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_formation_file file;
    if (stele_formation_file_parse((const char *)bytes, count, &file) == STELE_OK)
        STELE_ASSERT(file.node_id >= 0 && file.peers.count > 0 &&
                     (file.voters.count == 0 || file.voters.count == file.peers.count));
    return 0;
}
