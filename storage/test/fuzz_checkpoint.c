/* Any bytes as a checkpoint of offsets: refused, or what was read is written and read again unchanged. */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/test/disk_files.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_again(const struct stele_checkpoint *checkpoint)
{
    struct sim_disk *disk = sim_disk_new(1);
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_checkpoint again;
    stele_checkpoint_init(&again, checkpoint->mem);
    STELE_ASSERT(stele_checkpoint_write(checkpoint, vfs, "/", STELE_RECOVERY_POINT_FILE) == STELE_OK);
    STELE_ASSERT(stele_checkpoint_read(&again, vfs, "/", STELE_RECOVERY_POINT_FILE, NULL) == STELE_OK);
    STELE_ASSERT(again.count == checkpoint->count);
    for (int i = 0; i < again.count; i++) {
        const struct stele_checkpoint_entry *entry = &again.entries[i];
        int64_t offset = -1;
        STELE_ASSERT(entry->partition >= 0 && entry->offset >= 0);
        STELE_ASSERT(stele_checkpoint_get(checkpoint, entry->topic, entry->partition, &offset));
        STELE_ASSERT(offset == entry->offset);
    }
    stele_checkpoint_deinit(&again);
    sim_disk_free(disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem memory;
    struct stele_checkpoint checkpoint;
    struct stele_error error = {.text = ""};
    stele_test_mem_init(&memory);
    stele_checkpoint_init(&checkpoint, &memory.mem);
    enum stele_err err = stele_checkpoint_parse(&checkpoint, (const char *)bytes, count, &error);
    STELE_ASSERT(err == STELE_OK || err == STELE_CORRUPT);
    STELE_ASSERT((err == STELE_CORRUPT) == (error.text[0] != 0));
    if (err == STELE_OK)
        check_again(&checkpoint);
    else
        STELE_ASSERT(checkpoint.count == 0);
    stele_checkpoint_deinit(&checkpoint);
    STELE_ASSERT(stele_mem_is_empty(&memory.mem));
    return 0;
}
