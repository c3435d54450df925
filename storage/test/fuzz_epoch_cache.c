/* Any bytes as a file of leader epochs: refused, or rising, answering and read again unchanged from what is written of
 * it. */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/epoch_cache.h"
#include "storage/test/disk_files.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_entries(const struct stele_epoch_cache *cache)
{
    for (int i = 0; i < cache->count; i++) {
        const struct stele_epoch_entry *entry = &cache->entries[i];
        int32_t epoch = -2;
        int64_t end = -2;
        STELE_ASSERT(entry->epoch >= 0 && entry->start_offset >= 0);
        STELE_ASSERT(i == 0 || (entry->epoch > entry[-1].epoch && entry->start_offset > entry[-1].start_offset));
        STELE_ASSERT(stele_epoch_cache_epoch_at(cache, entry->start_offset) == entry->epoch);
        stele_epoch_cache_end_offset(cache, entry->epoch, INT64_MAX, &epoch, &end);
        STELE_ASSERT(epoch == entry->epoch);
        STELE_ASSERT(end == (i + 1 < cache->count ? entry[1].start_offset : INT64_MAX));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem memory;
    struct stele_epoch_cache cache, again;
    char *text = NULL;
    size_t text_bytes = 0;
    stele_test_mem_init(&memory);
    stele_epoch_cache_init(&cache, &memory.mem);
    stele_epoch_cache_init(&again, &memory.mem);
    struct sim_disk *disk = sim_disk_new(1);
    disk_put(disk, "/" STELE_LEADER_EPOCH_FILE, bytes, count);
    enum stele_err err = stele_epoch_cache_load(&cache, sim_disk_vfs(disk), "/");
    STELE_ASSERT(err == STELE_OK || (err == STELE_CORRUPT && cache.count == 0));
    check_entries(&cache);
    STELE_ASSERT(stele_epoch_cache_text(&cache, &text, &text_bytes) == STELE_OK);
    disk_put(disk, "/" STELE_LEADER_EPOCH_FILE, text, text_bytes);
    STELE_ASSERT(stele_epoch_cache_load(&again, sim_disk_vfs(disk), "/") == STELE_OK);
    STELE_ASSERT(again.count == cache.count);
    for (int i = 0; i < cache.count; i++)
        STELE_ASSERT(again.entries[i].epoch == cache.entries[i].epoch &&
                     again.entries[i].start_offset == cache.entries[i].start_offset);
    if (cache.count > 0) {
        int64_t middle = cache.entries[cache.count / 2].start_offset;
        stele_epoch_cache_truncate_from_start(&cache, middle);
        STELE_ASSERT(cache.entries[0].start_offset == middle);
        check_entries(&cache);
        stele_epoch_cache_truncate_from_end(&cache, middle + 1);
        STELE_ASSERT(cache.count == 1);
    }
    stele_mem_free(&memory.mem, text);
    stele_epoch_cache_deinit(&cache);
    stele_epoch_cache_deinit(&again);
    sim_disk_free(disk);
    STELE_ASSERT(stele_mem_is_empty(&memory.mem));
    return 0;
}
