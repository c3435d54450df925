/* Any bytes as the offset and the time index of a sealed segment: every lookup must still answer as the log says. The
 * first byte is the part of the input that is the offset index, in 256ths. */
#include "storage/test/segment_world.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static struct segment_world world;
static bool is_ready;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (!is_ready) {
        segment_world_init(&world, 1000);
        segment_world_fill(&world, 40);
        assert_ok(stele_segment_seal(world.seg));
        is_ready = true;
    }
    if (count == 0)
        return 0;
    size_t split = (count - 1) * bytes[0] / 255;
    segment_world_reopen(&world); /* gives up the maps */
    memory_vfs_put(&world.memory, segment_world_path(&world, ".index"), bytes + 1, split);
    memory_vfs_put(&world.memory, segment_world_path(&world, ".timeindex"), bytes + 1 + split, count - 1 - split);
    memory_vfs_remove(&world.memory, "t-0/stele-history");
    segment_world_reopen(&world);
    if (count % 2 == 0)
        assert_ok(stele_segment_activate(world.seg));
    segment_world_check_all(&world);
    assert_ok(stele_segment_seal(world.seg));
    segment_world_check_all(&world);
    return 0;
}
