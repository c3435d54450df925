/* Any bytes as partition.metadata and as meta.properties: refused, or what was read is written and read again
 * unchanged. */
#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/test/disk_files.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_metadata(struct sim_disk *disk, struct stele_mem *mem, const uint8_t *bytes, size_t count)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_uuid topic_id, again;
    enum stele_err err = stele_partition_metadata_parse((const char *)bytes, count, &topic_id);
    disk_put(disk, "/" STELE_PARTITION_METADATA_FILE, bytes, count);
    enum stele_err read = stele_partition_metadata_read(vfs, mem, "/", &again);
    STELE_ASSERT(err == STELE_OK || err == STELE_CORRUPT);
    STELE_ASSERT(read == err || (err == STELE_CORRUPT && read == STELE_NOT_FOUND) || count > 65536);
    if (err != STELE_OK)
        return;
    STELE_ASSERT(!stele_uuid_is_zero(&topic_id));
    STELE_ASSERT(stele_partition_metadata_write(vfs, "/", &topic_id, true) == STELE_OK);
    STELE_ASSERT(stele_partition_metadata_read(vfs, mem, "/", &again) == STELE_OK);
    STELE_ASSERT(memcmp(&topic_id, &again, sizeof(again)) == 0);
}

static void check_properties(struct sim_disk *disk, struct stele_mem *mem, const uint8_t *bytes, size_t count)
{
    struct stele_vfs *vfs = sim_disk_vfs(disk);
    struct stele_meta_properties properties, again;
    struct stele_error error = {.text = ""};
    enum stele_err err = stele_meta_properties_parse((const char *)bytes, count, &properties, &error);
    STELE_ASSERT(err == STELE_OK || (err == STELE_CORRUPT && error.text[0] != 0));
    if (err != STELE_OK)
        return;
    STELE_ASSERT(properties.node_id >= 0 && properties.cluster_id[0] != 0);
    STELE_ASSERT(stele_meta_properties_write(vfs, "/", &properties, 1700000000000) == STELE_OK);
    STELE_ASSERT(stele_meta_properties_read(vfs, mem, "/", &again, NULL) == STELE_OK);
    STELE_ASSERT(again.node_id == properties.node_id);
    STELE_ASSERT(strcmp(again.cluster_id, properties.cluster_id) == 0);
    STELE_ASSERT(strcmp(again.directory_id, properties.directory_id) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem memory;
    stele_test_mem_init(&memory);
    struct sim_disk *disk = sim_disk_new(1);
    check_metadata(disk, &memory.mem, bytes, count);
    check_properties(disk, &memory.mem, bytes, count);
    sim_disk_free(disk);
    STELE_ASSERT(stele_mem_is_empty(&memory.mem));
    return 0;
}
