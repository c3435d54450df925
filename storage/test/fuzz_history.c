/* Any bytes as a log's history: only whole lines that parse are told, and the next event is told after them whatever
 * the end of the file looked like. */
#include "base/check.h"
#include "storage/history.h"
#include "storage/test/disk_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct told {
    int64_t count;
    struct stele_history_event last;
};

static void tell(void *arg, const struct stele_history_event *event)
{
    struct told *told = arg;
    STELE_ASSERT((int)event->kind >= STELE_HISTORY_ROLL && event->kind <= STELE_HISTORY_REBUILD);
    STELE_ASSERT((int)event->reason >= 0 && event->reason < STELE_REASON_COUNT);
    STELE_ASSERT(stele_reason_text(event->reason) != NULL);
    told->count++;
    told->last = *event;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_env test;
    struct told before = {0}, after = {0};
    struct stele_history_event event = {.wall_ms = 1700000000123,
                                        .kind = STELE_HISTORY_CUT,
                                        .offset = 42,
                                        .bytes = INT64_MAX,
                                        .reason = STELE_REASON_TORN_TAIL};
    struct sim_disk *disk = sim_disk_new(1);
    stele_test_env_init(&test, sim_disk_vfs(disk));
    disk_put(disk, "/" STELE_HISTORY_FILE, bytes, count);
    STELE_ASSERT(stele_history_read(&test.env, "/", tell, &before) == STELE_OK || count > 2 << 20);
    STELE_ASSERT(stele_history_append(&test.env, "/", &event) == STELE_OK);
    STELE_ASSERT(stele_history_read(&test.env, "/", tell, &after) == STELE_OK);
    /* A last line that only lacked its end is whole now. */
    STELE_ASSERT(after.count > before.count || count > 1 << 20);
    STELE_ASSERT(after.count <= before.count + 2);
    STELE_ASSERT(after.last.wall_ms == event.wall_ms && after.last.kind == event.kind);
    STELE_ASSERT(after.last.offset == event.offset && after.last.bytes == event.bytes);
    STELE_ASSERT(after.last.reason == event.reason);
    STELE_ASSERT(stele_mem_is_empty(&test.mem.mem));
    sim_disk_free(disk);
    return 0;
}
