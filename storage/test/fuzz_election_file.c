/* Any bytes as the file of a node's promises: refused, or a state in its bounds. */
#include "base/check.h"
#include "storage/election_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_election_file file;
    if (stele_election_file_parse((const char *)bytes, count, &file) == STELE_OK)
        STELE_ASSERT(file.epoch >= 0 && file.leader_id >= -1 && file.voted_id >= -1);
    return 0;
}
