#include "storage/offset_index.h"

#include "base/check.h"
#include "base/cursor.h"
#include "storage/index_file.h"

static struct stele_offset_entry decode(const struct stele_index *index, const uint8_t *entry)
{
    /* Unsigned: damaged bytes become numbers beyond any segment, never negative ones. */
    return (struct stele_offset_entry){.offset = index->base_offset + stele_get_u32(entry),
                                       .pos = stele_get_u32(entry + 4)};
}

static int64_t offset_key(const struct stele_index *index, const uint8_t *entry)
{
    return index->base_offset + stele_get_u32(entry);
}

bool stele_offset_index_is_full(const struct stele_index *index)
{
    return index->count >= index->capacity;
}

enum stele_err stele_offset_index_append(struct stele_index *index, int64_t offset, int64_t pos)
{
    STELE_ASSERT(index->is_active);
    STELE_ASSERT(index->entry_bytes == STELE_OFFSET_ENTRY_BYTES);
    uint8_t entry[STELE_OFFSET_ENTRY_BYTES];
    int64_t relative = offset - index->base_offset;
    if (relative < 0 || relative > INT32_MAX || pos < 0 || pos > INT32_MAX)
        return STELE_INVALID_ARGUMENT;
    if (index->count > 0 && offset_key(index, index->memory + (index->count - 1) * index->entry_bytes) >= offset)
        return STELE_INVALID_ARGUMENT;
    stele_put_i32(entry, (int32_t)relative);
    stele_put_i32(entry + 4, (int32_t)pos);
    return stele_index__push(index, entry);
}

enum stele_err stele_offset_index_lookup(struct stele_index *index, int64_t offset,
                                         struct stele_offset_entry *out_entry, int64_t *out_compared)
{
    const uint8_t *entries = NULL;
    enum stele_err err = stele_index__entries(index, &entries);
    if (err != STELE_OK)
        return err;
    int64_t at = stele_index__search(index, entries, offset_key, offset, out_compared);
    *out_entry = at < 0 ? (struct stele_offset_entry){.offset = index->base_offset}
                        : decode(index, entries + at * index->entry_bytes);
    return STELE_OK;
}

enum stele_err stele_offset_index_at_pos(struct stele_index *index, int64_t pos, struct stele_offset_entry *out_entry)
{
    const uint8_t *entries = NULL;
    enum stele_err err = stele_index__entries(index, &entries);
    if (err != STELE_OK)
        return err;
    int64_t low = 0, high = index->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (decode(index, entries + middle * index->entry_bytes).pos >= pos)
            high = middle;
        else
            low = middle + 1;
    }
    if (low == index->count)
        return STELE_END;
    *out_entry = decode(index, entries + low * index->entry_bytes);
    return STELE_OK;
}

enum stele_err stele_offset_index_entry(struct stele_index *index, int64_t at, struct stele_offset_entry *out_entry)
{
    const uint8_t *entry = NULL;
    enum stele_err err = stele_index__entry(index, at, &entry);
    if (err == STELE_OK)
        *out_entry = decode(index, entry);
    return err;
}

enum stele_err stele_offset_index_truncate(struct stele_index *index, int64_t offset)
{
    return stele_index__keep_below(index, offset_key, offset);
}
