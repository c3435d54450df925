#include "storage/epoch_cache.h"

#include "base/check.h"
#include "storage/checkpoint.h"
#include "storage/text_scan.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 16 << 20, LINE_BYTES_MAX = 40, FIRST_ENTRIES = 4 };

void stele_epoch_cache_init(struct stele_epoch_cache *cache, struct stele_mem *mem)
{
    *cache = (struct stele_epoch_cache){.mem = mem};
}

void stele_epoch_cache_deinit(struct stele_epoch_cache *cache)
{
    stele_mem_free(cache->mem, cache->entries);
    cache->entries = NULL;
    cache->count = cache->capacity = 0;
}

enum stele_err stele_epoch_cache_reserve(struct stele_epoch_cache *cache, int count)
{
    int capacity = cache->capacity == 0 ? FIRST_ENTRIES : cache->capacity;
    while (capacity - cache->count < count)
        capacity *= 2;
    if (capacity == cache->capacity || count == 0)
        return STELE_OK;
    struct stele_epoch_entry *entries =
        stele_mem_resize(cache->mem, STELE_MEM_LOG, cache->entries, (size_t)capacity * sizeof(*entries));
    if (entries == NULL)
        return STELE_NO_MEMORY;
    cache->entries = entries;
    cache->capacity = capacity;
    return STELE_OK;
}

enum stele_err stele_epoch_cache_assign(struct stele_epoch_cache *cache, int32_t epoch, int64_t offset)
{
    if (epoch < 0 || offset < 0)
        return STELE_INVALID_ARGUMENT;
    const struct stele_epoch_entry *last = cache->count == 0 ? NULL : &cache->entries[cache->count - 1];
    if (last != NULL && last->epoch == epoch && offset >= last->start_offset)
        return STELE_OK;
    enum stele_err err = stele_epoch_cache_reserve(cache, 1);
    if (err != STELE_OK)
        return err;
    while (cache->count > 0 &&
           (cache->entries[cache->count - 1].epoch >= epoch || cache->entries[cache->count - 1].start_offset >= offset))
        cache->count--;
    cache->entries[cache->count++] = (struct stele_epoch_entry){.epoch = epoch, .start_offset = offset};
    cache->is_dirty = true;
    return STELE_OK;
}

void stele_epoch_cache_truncate_from_end(struct stele_epoch_cache *cache, int64_t offset)
{
    while (cache->count > 0 && cache->entries[cache->count - 1].start_offset >= offset) {
        cache->count--;
        cache->is_dirty = true;
    }
}

void stele_epoch_cache_truncate_from_start(struct stele_epoch_cache *cache, int64_t offset)
{
    int drop = 0;
    while (drop < cache->count && cache->entries[drop].start_offset <= offset)
        drop++;
    if (drop == 0 || (drop == 1 && cache->entries[0].start_offset == offset))
        return;
    cache->entries[drop - 1].start_offset = offset; /* the last of them holds the offset */
    memmove(cache->entries, cache->entries + drop - 1, (size_t)(cache->count - drop + 1) * sizeof(*cache->entries));
    cache->count -= drop - 1;
    cache->is_dirty = true;
}

void stele_epoch_cache_clear(struct stele_epoch_cache *cache)
{
    cache->is_dirty = cache->is_dirty || cache->count > 0;
    cache->count = 0;
}

int32_t stele_epoch_cache_latest(const struct stele_epoch_cache *cache)
{
    return cache->count == 0 ? -1 : cache->entries[cache->count - 1].epoch;
}

int32_t stele_epoch_cache_epoch_at(const struct stele_epoch_cache *cache, int64_t offset)
{
    for (int i = cache->count - 1; i >= 0; i--) {
        if (cache->entries[i].start_offset <= offset)
            return cache->entries[i].epoch;
    }
    return -1;
}

void stele_epoch_cache_end_offset(const struct stele_epoch_cache *cache, int32_t epoch, int64_t log_end_offset,
                                  int32_t *out_epoch, int64_t *out_end_offset)
{
    int32_t latest = stele_epoch_cache_latest(cache);
    *out_epoch = -1;
    *out_end_offset = -1;
    if (epoch < 0 || epoch > latest)
        return;
    int above = 0;
    while (above < cache->count && cache->entries[above].epoch <= epoch)
        above++;
    *out_epoch = above == 0 ? epoch : cache->entries[above - 1].epoch;
    *out_end_offset = above == cache->count ? log_end_offset : cache->entries[above].start_offset;
}

/* The entries of a file whose version and count lines were read. */
static enum stele_err parse_entries(struct stele_epoch_cache *cache, struct stele_text_scan *lines, int64_t count)
{
    const char *line, *word;
    size_t bytes, word_bytes;
    int64_t seen = 0;
    while (stele_text_line(lines, &line, &bytes)) {
        struct stele_text_scan words = {.at = line, .end = line + bytes};
        int64_t epoch, offset;
        if (!stele_text_word(&words, &word, &word_bytes) || !stele_text_number(word, word_bytes, &epoch) ||
            !stele_text_word(&words, &word, &word_bytes) || !stele_text_number(word, word_bytes, &offset) ||
            stele_text_word(&words, &word, &word_bytes) || epoch < 0 || epoch > INT32_MAX || offset < 0)
            return STELE_CORRUPT;
        if (cache->count > 0 && (cache->entries[cache->count - 1].epoch >= epoch ||
                                 cache->entries[cache->count - 1].start_offset >= offset))
            return STELE_CORRUPT;
        enum stele_err err = stele_epoch_cache_assign(cache, (int32_t)epoch, offset);
        if (err != STELE_OK)
            return err;
        seen++;
    }
    return seen == count ? STELE_OK : STELE_CORRUPT;
}

static enum stele_err parse(struct stele_epoch_cache *cache, const char *text, size_t count)
{
    struct stele_text_scan lines = {.at = text, .end = text + count};
    const char *line;
    size_t bytes;
    int64_t number;
    if (!stele_text_line(&lines, &line, &bytes))
        return STELE_OK;
    if (!stele_text_number(line, bytes, &number) || number != 0)
        return STELE_CORRUPT;
    if (!stele_text_line(&lines, &line, &bytes))
        return STELE_OK;
    if (!stele_text_number(line, bytes, &number) || number < 0)
        return STELE_CORRUPT;
    return parse_entries(cache, &lines, number);
}

enum stele_err stele_epoch_cache_load(struct stele_epoch_cache *cache, struct stele_vfs *vfs, const char *dir)
{
    char path[STELE_PATH_BYTES];
    uint8_t *text = NULL;
    size_t count = 0;
    cache->count = 0;
    enum stele_err err = stele_path_join(path, dir, STELE_LEADER_EPOCH_FILE);
    if (err == STELE_OK)
        err = stele_vfs_read_whole(vfs, cache->mem, STELE_MEM_LOG, path, FILE_BYTES_MAX, &text, &count);
    if (err == STELE_NOT_FOUND)
        return STELE_OK;
    if (err == STELE_TOO_LARGE)
        return STELE_CORRUPT;
    if (err != STELE_OK)
        return err;
    err = parse(cache, (const char *)text, count);
    stele_mem_free(cache->mem, text);
    if (err != STELE_OK)
        cache->count = 0;
    cache->is_dirty = err != STELE_OK;
    return err;
}

enum stele_err stele_epoch_cache_text(const struct stele_epoch_cache *cache, char **out_text, size_t *out_count)
{
    size_t capacity = (size_t)(cache->count + 2) * LINE_BYTES_MAX;
    char *text = stele_mem_raw(cache->mem, STELE_MEM_LOG, capacity);
    if (text == NULL)
        return STELE_NO_MEMORY;
    int used = snprintf(text, capacity, "0\n%d\n", cache->count);
    for (int i = 0; i < cache->count; i++)
        used += snprintf(text + used, capacity - (size_t)used, "%d %lld\n", cache->entries[i].epoch,
                         (long long)cache->entries[i].start_offset);
    *out_text = text;
    *out_count = (size_t)used;
    return STELE_OK;
}
