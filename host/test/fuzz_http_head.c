/* Any bytes as the head of a request: more is asked for, or there is an answer to give. */
#include "host/http_head.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check(bool is_true)
{
    if (!is_true)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct stele_http_head head, again;
    if (!stele_http_head_read((const char *)bytes, count, &head))
        return 0;
    check(head.status >= 200 && head.status <= 505);
    check(head.status != 200 || head.path[0] == '/');
    check(memchr(head.path, 0, sizeof(head.path)) != NULL);
    /* The shortest beginning that is a head says the same. */
    for (size_t part = 0; part < count; part++) {
        if (stele_http_head_read((const char *)bytes, part, &again)) {
            check(again.status == head.status && strcmp(again.path, head.path) == 0);
            break;
        }
    }
    return 0;
}
