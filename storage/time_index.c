#include "storage/time_index.h"

#include "base/check.h"
#include "base/cursor.h"
#include "storage/index_file.h"

static struct stele_time_entry decode(const struct stele_index *index, const uint8_t *entry)
{
    return (struct stele_time_entry){.timestamp = stele_get_i64(entry),
                                     .offset = index->base_offset + stele_get_u32(entry + 8)};
}

static int64_t time_key(const struct stele_index *index, const uint8_t *entry)
{
    (void)index;
    return stele_get_i64(entry);
}

static int64_t offset_key(const struct stele_index *index, const uint8_t *entry)
{
    return index->base_offset + stele_get_u32(entry + 8);
}

bool stele_time_index_is_full(const struct stele_index *index)
{
    return index->count >= index->capacity - 1;
}

enum stele_err stele_time_index_append(struct stele_index *index, int64_t timestamp, int64_t offset, bool is_closing)
{
    STELE_ASSERT(index->is_active);
    STELE_ASSERT(index->entry_bytes == STELE_TIME_ENTRY_BYTES);
    uint8_t entry[STELE_TIME_ENTRY_BYTES];
    struct stele_time_entry last = {.timestamp = -1, .offset = index->base_offset};
    int64_t relative = offset - index->base_offset;
    if (index->count > 0)
        last = decode(index, index->memory + (index->count - 1) * index->entry_bytes);
    if (timestamp == last.timestamp || timestamp < 0)
        return STELE_OK;
    if (timestamp < last.timestamp || offset < last.offset || relative < 0 || relative > INT32_MAX)
        return STELE_INVALID_ARGUMENT;
    if (!is_closing && stele_time_index_is_full(index))
        return STELE_INVALID_ARGUMENT;
    stele_put_i64(entry, timestamp);
    stele_put_i32(entry + 8, (int32_t)relative);
    return stele_index__push(index, entry);
}

enum stele_err stele_time_index_lookup(struct stele_index *index, int64_t timestamp, struct stele_time_entry *out_entry)
{
    const uint8_t *entries = NULL;
    int64_t compared = 0;
    enum stele_err err = stele_index__entries(index, &entries);
    if (err != STELE_OK)
        return err;
    int64_t at = stele_index__search(index, entries, time_key, timestamp, &compared);
    *out_entry = at < 0 ? (struct stele_time_entry){.timestamp = -1, .offset = index->base_offset}
                        : decode(index, entries + at * index->entry_bytes);
    return STELE_OK;
}

enum stele_err stele_time_index_entry(struct stele_index *index, int64_t at, struct stele_time_entry *out_entry)
{
    const uint8_t *entry = NULL;
    enum stele_err err = stele_index__entry(index, at, &entry);
    if (err == STELE_OK)
        *out_entry = decode(index, entry);
    return err;
}

enum stele_err stele_time_index_last(struct stele_index *index, struct stele_time_entry *out_entry)
{
    int64_t count = 0;
    enum stele_err err = stele_index_count(index, &count);
    if (err != STELE_OK)
        return err;
    if (count > 0)
        return stele_time_index_entry(index, count - 1, out_entry);
    *out_entry = (struct stele_time_entry){.timestamp = -1, .offset = index->base_offset};
    return STELE_OK;
}

enum stele_err stele_time_index_truncate(struct stele_index *index, int64_t offset)
{
    return stele_index__keep_below(index, offset_key, offset);
}
