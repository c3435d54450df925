/* Any bytes as the lines of moves: refused, or a list in which each partition is named once. */
#include "base/check.h"
#include "base/test/support.h"
#include "storage/moved_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_test_mem mem;
    struct stele_moved_list list;
    stele_test_mem_init(&mem);
    stele_moved_list_init(&list, &mem.mem);
    if (stele_moved_list_parse(&list, (const char *)bytes, count) == STELE_OK) {
        for (int i = 0; i < list.count; i++) {
            const struct stele_moved *moved = &list.items[i];
            STELE_ASSERT(moved->partition >= 0);
            STELE_ASSERT(stele_moved_find(&list, &moved->topic_id, moved->partition) == moved);
        }
    }
    stele_moved_list_deinit(&list);
    return 0;
}
