#include "base/buf.h"

#include "base/check.h"

struct stele_buf *stele_buf_new(struct stele_mem *mem, enum stele_mem_tag tag, size_t capacity)
{
    if (capacity > SIZE_MAX - sizeof(struct stele_buf))
        return NULL;
    struct stele_buf *buf = stele_mem_raw(mem, tag, sizeof(*buf) + capacity);
    if (buf == NULL)
        return NULL;
    buf->mem = mem;
    atomic_init(&buf->refs, 1);
    buf->capacity = capacity;
    buf->count = 0;
    buf->bytes = (uint8_t *)(buf + 1);
    return buf;
}

struct stele_buf *stele_buf_ref(struct stele_buf *buf)
{
    int32_t before = atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    STELE_ASSERT(before > 0);
    return buf;
}

void stele_buf_unref(struct stele_buf *buf)
{
    if (buf == NULL)
        return;
    int32_t before = atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel);
    STELE_ASSERT(before > 0);
    if (before == 1)
        stele_mem_free(buf->mem, buf);
}
