/* Invariants
 *  1. Active: memory holds count entries and written <= count of them are in the file as they are. Sealed: memory is
 * NULL; count is -1 until the file was looked at, and `mapped` then holds the entries (NULL when there are none).
 *  2. A sealed file is never longer than its entries, but for what a crash or Kafka left: a tail of zeros, which is not
 * counted. */
#include "storage/index_file.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

enum { WARM_BYTES = 8192, FIRST_ENTRIES = 16, PAGE_BYTES = 4096 };

/* What a map costs: whole pages, so that the budget bounds the number of maps too. */
static int64_t map_cost(size_t bytes)
{
    return (int64_t)(bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static enum stele_err init(struct stele_index *index, struct stele_env *env, struct stele_file_cache *cache,
                           const char *path, int entry_bytes)
{
    memset(index, 0, sizeof(*index));
    index->env = env;
    index->cache = cache;
    index->entry_bytes = entry_bytes;
    stele_list_init(&index->lru);
    return stele_cached_file_new(env, cache, path, &index->file);
}

enum stele_err stele_index_create(struct stele_index *index, struct stele_env *env, struct stele_file_cache *cache,
                                  const char *path, int64_t base_offset, int entry_bytes, int64_t index_bytes_max)
{
    enum stele_err err = init(index, env, cache, path, entry_bytes);
    index->base_offset = base_offset;
    index->capacity = index_bytes_max / entry_bytes;
    index->is_active = true;
    return err;
}

enum stele_err stele_index_open(struct stele_index *index, struct stele_env *env, struct stele_file_cache *cache,
                                const char *path, int64_t base_offset, int entry_bytes, int64_t index_bytes_max)
{
    enum stele_err err = init(index, env, cache, path, entry_bytes);
    index->base_offset = base_offset;
    index->capacity = index_bytes_max / entry_bytes;
    index->count = -1;
    index->exists = true;
    return err;
}

static void unmap(struct stele_index *index)
{
    if (index->mapped == NULL)
        return;
    index->env->vfs->ops->unmap(index->env->vfs, index->mapped, index->mapped_bytes);
    if (index->cache != NULL) {
        stele_list_remove(&index->lru);
        stele_file_cache_maps(index->cache)->bytes -= map_cost(index->mapped_bytes);
    }
    index->mapped = NULL;
    index->mapped_bytes = 0;
    if (!index->is_active)
        index->count = -1;
}

void stele_index_attach(struct stele_index *index, struct stele_file_cache *cache)
{
    unmap(index);
    index->cache = cache;
    stele_cached_file_attach(index->file, cache);
}

void stele_index_close(struct stele_index *index)
{
    if (index->env == NULL)
        return;
    unmap(index);
    stele_mem_free(index->env->mem, index->memory);
    stele_cached_file_unref(index->file);
    memset(index, 0, sizeof(*index));
}

static bool is_zero(const uint8_t *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Entries before the zeros that a crash or preallocation left at the end. */
static int64_t count_before_zeros(const uint8_t *entries, int64_t count, int entry_bytes)
{
    int64_t low = 0, high = count;
    if (count == 0 || !is_zero(entries + (count - 1) * entry_bytes, entry_bytes))
        return count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (is_zero(entries + middle * entry_bytes, entry_bytes))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void make_room(struct stele_map_budget *budget, int64_t bytes)
{
    while (budget->bytes + bytes > budget->bytes_max && !stele_list_is_empty(&budget->maps))
        unmap(STELE_CONTAINER_OF(budget->maps.next, struct stele_index, lru));
}

static enum stele_err map_file(struct stele_index *index, struct stele_file *file)
{
    int64_t bytes = 0;
    enum stele_err err = file->vfs->ops->size(file, &bytes);
    if (err != STELE_OK)
        return err;
    int64_t count = bytes / index->entry_bytes;
    if (count == 0) {
        index->count = 0;
        return STELE_OK;
    }
    size_t wanted = (size_t)(count * index->entry_bytes);
    if (index->cache != NULL)
        make_room(stele_file_cache_maps(index->cache), map_cost(wanted));
    err = file->vfs->ops->map(file, wanted, &index->mapped);
    if (err != STELE_OK)
        return err;
    index->mapped_bytes = wanted;
    index->count = count_before_zeros(index->mapped, count, index->entry_bytes);
    if (index->cache != NULL) {
        stele_file_cache_maps(index->cache)->bytes += map_cost(wanted);
        stele_list_push(&stele_file_cache_maps(index->cache)->maps, &index->lru);
    }
    return STELE_OK;
}

static enum stele_err load(struct stele_index *index)
{
    struct stele_file *file = NULL;
    if (index->is_active)
        return STELE_OK;
    if (index->count >= 0) {
        if (index->cache != NULL && index->mapped != NULL) {
            stele_list_remove(&index->lru);
            stele_list_push(&stele_file_cache_maps(index->cache)->maps, &index->lru);
        }
        return STELE_OK;
    }
    enum stele_err err = stele_cached_file_pin(index->file, &file);
    if (err == STELE_NOT_FOUND) {
        index->count = 0;
        index->exists = false;
        return STELE_OK;
    }
    if (err != STELE_OK)
        return err;
    err = map_file(index, file);
    stele_cached_file_unpin(index->file);
    return err;
}

enum stele_err stele_index__entries(struct stele_index *index, const uint8_t **out_entries)
{
    enum stele_err err = load(index);
    if (err == STELE_OK)
        *out_entries = index->is_active ? index->memory : index->mapped;
    return err;
}

enum stele_err stele_index_count(struct stele_index *index, int64_t *out_count)
{
    enum stele_err err = load(index);
    if (err == STELE_OK)
        *out_count = index->count;
    return err;
}

enum stele_err stele_index_reserve(struct stele_index *index, int64_t more)
{
    STELE_ASSERT(index->is_active);
    int64_t wanted = index->count + more;
    if (wanted <= index->memory_capacity)
        return STELE_OK;
    int64_t capacity = index->memory_capacity == 0 ? FIRST_ENTRIES : index->memory_capacity * 2;
    while (capacity < wanted)
        capacity *= 2;
    uint8_t *memory = stele_mem_resize(index->env->mem, STELE_MEM_INDEX, index->memory,
                                       (size_t)capacity * (size_t)index->entry_bytes);
    if (memory == NULL)
        return STELE_NO_MEMORY;
    index->memory = memory;
    index->memory_capacity = capacity;
    return STELE_OK;
}

enum stele_err stele_index__push(struct stele_index *index, const uint8_t *entry)
{
    enum stele_err err = stele_index_reserve(index, 1);
    if (err != STELE_OK)
        return err;
    memcpy(index->memory + index->count * index->entry_bytes, entry, (size_t)index->entry_bytes);
    index->count++;
    return STELE_OK;
}

enum stele_err stele_index_activate(struct stele_index *index)
{
    if (index->is_active)
        return STELE_OK;
    enum stele_err err = load(index);
    if (err != STELE_OK)
        return err;
    int64_t count = index->count;
    size_t bytes = (size_t)(count * index->entry_bytes);
    if (count > 0) {
        index->memory = stele_mem_raw(index->env->mem, STELE_MEM_INDEX, bytes);
        if (index->memory == NULL)
            return STELE_NO_MEMORY;
        memcpy(index->memory, index->mapped, bytes);
    }
    unmap(index);
    index->is_active = true;
    index->count = count;
    index->memory_capacity = count;
    index->written = count;
    return STELE_OK;
}

static enum stele_err keep(struct stele_index *index, int64_t count)
{
    enum stele_err err = stele_index_activate(index);
    if (err != STELE_OK)
        return err;
    STELE_ASSERT(count <= index->count);
    index->is_cut_due = index->is_cut_due || count < index->written;
    index->count = count;
    index->written = stele_min_i64(index->written, count);
    return STELE_OK;
}

void stele_index_clear(struct stele_index *index)
{
    unmap(index);
    index->is_active = true;
    index->is_cut_due = true;
    index->exists = false; /* or so it may be: the next write makes the file when it is missing */
    index->count = 0;
    index->written = 0;
}

static enum stele_err create_file(struct stele_index *index)
{
    struct stele_vfs *vfs = index->env->vfs;
    struct stele_file *file = NULL;
    enum stele_err err =
        vfs->ops->open(vfs, stele_cached_file_path(index->file), STELE_OPEN_WRITE | STELE_OPEN_CREATE, &file);
    if (err != STELE_OK)
        return err;
    vfs->ops->close(file);
    index->exists = true;
    return STELE_OK;
}

/* What was cut in memory is cut in the file with the next write, so that no flush makes it durable. */
static enum stele_err write_out(struct stele_index *index, bool is_last)
{
    struct stele_file *file = NULL;
    bool cut = is_last || index->is_cut_due;
    enum stele_err err = index->exists ? STELE_OK : create_file(index);
    if (err == STELE_OK && index->written == index->count && !cut)
        return STELE_OK;
    if (err == STELE_OK)
        err = stele_cached_file_pin(index->file, &file);
    if (err != STELE_OK)
        return err;
    int64_t pos = index->written * index->entry_bytes, end = index->count * index->entry_bytes, bytes = 0;
    if (end > pos)
        err = stele_file_write(file, index->memory + pos, (size_t)(end - pos), pos);
    if (err == STELE_OK)
        index->written = index->count;
    if (err == STELE_OK && cut) {
        err = file->vfs->ops->size(file, &bytes);
        if (err == STELE_OK && bytes != end)
            err = file->vfs->ops->truncate(file, end);
        if (err == STELE_OK)
            index->is_cut_due = false;
    }
    stele_cached_file_unpin(index->file);
    return err;
}

enum stele_err stele_index_write(struct stele_index *index)
{
    return index->is_active ? write_out(index, false) : STELE_OK;
}

enum stele_err stele_index_seal(struct stele_index *index)
{
    if (!index->is_active)
        return STELE_OK;
    enum stele_err err = write_out(index, true);
    if (err != STELE_OK)
        return err;
    stele_mem_free(index->env->mem, index->memory);
    index->memory = NULL;
    index->memory_capacity = 0;
    index->is_active = false;
    index->count = -1;
    return STELE_OK;
}

/* The last of [low, high] with key <= target, given that low's is. */
static int64_t search_between(const struct stele_index *index, const uint8_t *entries, stele_index_key key,
                              const int64_t bounds_and_target[3], int64_t *inout_compared)
{
    int64_t low = bounds_and_target[0], high = bounds_and_target[1];
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        ++*inout_compared;
        if (key(index, entries + middle * index->entry_bytes) <= bounds_and_target[2])
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

int64_t stele_index__search(const struct stele_index *index, const uint8_t *entries, stele_index_key key,
                            int64_t target, int64_t *inout_compared)
{
    if (index->count == 0)
        return -1;
    int64_t warm = stele_max_i64(0, index->count - 1 - WARM_BYTES / index->entry_bytes);
    ++*inout_compared;
    if (key(index, entries + warm * index->entry_bytes) <= target)
        return search_between(index, entries, key, (int64_t[]){warm, index->count - 1, target}, inout_compared);
    ++*inout_compared;
    if (key(index, entries) > target)
        return -1;
    return search_between(index, entries, key, (int64_t[]){0, warm, target}, inout_compared);
}

enum stele_err stele_index__entry(struct stele_index *index, int64_t at, const uint8_t **out_entry)
{
    const uint8_t *entries = NULL;
    enum stele_err err = stele_index__entries(index, &entries);
    if (err != STELE_OK)
        return err;
    if (at < 0 || at >= index->count)
        return STELE_END;
    *out_entry = entries + at * index->entry_bytes;
    return STELE_OK;
}

enum stele_err stele_index__keep_below(struct stele_index *index, stele_index_key key, int64_t bound)
{
    const uint8_t *entries = NULL;
    int64_t compared = 0;
    enum stele_err err = stele_index__entries(index, &entries);
    if (err != STELE_OK)
        return err;
    return keep(index, stele_index__search(index, entries, key, bound - 1, &compared) + 1);
}
