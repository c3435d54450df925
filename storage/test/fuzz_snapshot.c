/* Any bytes as a producer snapshot: what check accepts loads unless an entry makes no sense, and what was loaded comes
 * back from a snapshot of it. The first byte, when odd, says that the checksum is to be made right first: the fuzzer
 * cannot guess one. */
#include "base/check.h"
#include "base/crc32c.h"
#include "base/cursor.h"
#include "base/test/support.h"
#include "storage/producer_state.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { OFFSET = 1000 };

static void check_entry(void *arg, const struct stele_producer_entry *entry)
{
    int64_t *last = arg;
    STELE_ASSERT(entry->producer_id > *last);
    *last = entry->producer_id;
}

static void check_again(struct stele_mem *mem, const struct stele_producers *producers)
{
    uint8_t *first = NULL, *second = NULL;
    size_t first_bytes = 0, second_bytes = 0;
    int entries = -1;
    int64_t last = -1;
    struct stele_producers *again = stele_producers_new(mem, 1000);
    STELE_ASSERT(again != NULL);
    stele_producers_each(producers, check_entry, &last);
    STELE_ASSERT(stele_producers_snapshot(producers, &first, &first_bytes) == STELE_OK);
    STELE_ASSERT(stele_snapshot_check(first, first_bytes, &entries) == STELE_OK);
    STELE_ASSERT(entries == stele_producers_count(producers));
    STELE_ASSERT(stele_producers_load(again, first, first_bytes, OFFSET, INT64_MIN) == STELE_OK);
    STELE_ASSERT(stele_producers_first_unstable(again) == stele_producers_first_unstable(producers));
    STELE_ASSERT(stele_producers_snapshot(again, &second, &second_bytes) == STELE_OK);
    STELE_ASSERT(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
    stele_mem_free(mem, first);
    stele_mem_free(mem, second);
    stele_producers_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem memory;
    struct stele_producer_entry entry;
    int entries = 0;
    if (count == 0)
        return 0;
    stele_test_mem_init(&memory);
    uint8_t *copy = stele_mem_raw(&memory.mem, STELE_MEM_TOOL, count);
    struct stele_producers *producers = stele_producers_new(&memory.mem, 1000);
    STELE_ASSERT(copy != NULL && producers != NULL);
    count--;
    if (count > 0)
        memcpy(copy, bytes + 1, count);
    if (bytes[0] % 2 == 1 && count >= STELE_SNAPSHOT_HEADER_BYTES)
        stele_put_u32(copy + 2, stele_crc32c(0, copy + 6, count - 6));
    bool is_sound = stele_snapshot_check(copy, count, &entries) == STELE_OK;
    for (int i = 0; i < entries; i++)
        is_sound = stele_snapshot_entry(copy, count, i, &entry) == STELE_OK && is_sound;
    STELE_ASSERT(stele_snapshot_entry(copy, count, entries, &entry) == STELE_CORRUPT || !is_sound);
    enum stele_err err = stele_producers_load(producers, copy, count, OFFSET, INT64_MIN);
    STELE_ASSERT(err == STELE_OK || err == STELE_CORRUPT);
    STELE_ASSERT(err != STELE_OK || is_sound);
    STELE_ASSERT(stele_producers_map_end(producers) == OFFSET);
    STELE_ASSERT(stele_producers_count(producers) == (err == STELE_OK ? entries : 0));
    check_again(&memory.mem, producers);
    (void)stele_producers_load(producers, copy, count, OFFSET, 1700000000000);
    check_again(&memory.mem, producers);
    stele_producers_free(producers);
    stele_mem_free(&memory.mem, copy);
    STELE_ASSERT(stele_mem_is_empty(&memory.mem));
    return 0;
}
