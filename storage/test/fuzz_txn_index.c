/* Any bytes as a transaction index: it is refused, or what it holds is in order and survives a cut and an append. The
 * first byte says where to cut. */
#include "base/check.h"
#include "storage/test/memory_vfs.h"
#include "storage/txn_index.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const char path[] = "00000000000000000000.txnindex";
static struct memory_vfs memory;
static struct stele_test_env test;
static bool is_ready;

static void check_again(const struct stele_txn_index *index)
{
    struct stele_txn_index again;
    STELE_ASSERT(stele_txn_index_init(&again, &test.env, NULL, path, 0, true) == STELE_OK);
    STELE_ASSERT(stele_txn_index_load(&again) == STELE_OK);
    STELE_ASSERT(again.count == index->count);
    STELE_ASSERT(index->count == 0 ||
                 memcmp(again.entries, index->entries, (size_t)index->count * sizeof(*index->entries)) == 0);
    stele_txn_index_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_txn_index index;
    if (!is_ready) {
        memory_vfs_init(&memory);
        stele_test_env_init(&test, &memory.vfs);
        is_ready = true;
    }
    if (count == 0)
        return 0;
    memory_vfs_put(&memory, path, bytes + 1, count - 1);
    STELE_ASSERT(stele_txn_index_init(&index, &test.env, NULL, path, 0, true) == STELE_OK);
    if (stele_txn_index_load(&index) == STELE_OK) {
        int64_t last = -1;
        for (int i = 0; i < index.count; i++) {
            STELE_ASSERT(index.entries[i].last_offset > last);
            last = index.entries[i].last_offset;
        }
        STELE_ASSERT(index.count == (int)((count - 1) / STELE_TXN_ENTRY_BYTES));
        int keep = index.count == 0 ? 0 : bytes[0] % index.count;
        if (index.count > 0)
            STELE_ASSERT(stele_txn_index_truncate(&index, index.entries[keep].last_offset) == STELE_OK);
        STELE_ASSERT(index.count == keep);
        struct stele_aborted_txn txn = {.last_offset = INT64_MAX};
        STELE_ASSERT(stele_txn_index_append(&index, &txn) == STELE_OK);
        check_again(&index);
    }
    stele_txn_index_close(&index);
    STELE_ASSERT(stele_mem_is_empty(&test.mem.mem));
    return 0;
}
