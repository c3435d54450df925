#include "storage/txn_index.h"

#include "base/check.h"
#include "base/cursor.h"

#include <string.h>

enum { FILE_BYTES_MAX = 1 << 30, FIRST_ENTRIES = 4 };

enum stele_err stele_txn_index_init(struct stele_txn_index *index, struct stele_env *env,
                                    struct stele_file_cache *cache, const char *path, int64_t base_offset, bool exists)
{
    *index = (struct stele_txn_index){.env = env, .base_offset = base_offset, .exists = exists, .is_loaded = !exists};
    return stele_cached_file_new(env, cache, path, &index->file);
}

void stele_txn_index_close(struct stele_txn_index *index)
{
    if (index->env == NULL)
        return;
    stele_mem_free(index->env->mem, index->entries);
    stele_cached_file_unref(index->file);
    memset(index, 0, sizeof(*index));
}

enum stele_err stele_aborted_txn_read(const uint8_t bytes[STELE_TXN_ENTRY_BYTES], struct stele_aborted_txn *out_txn)
{
    struct stele_reader reader = stele_reader_of(bytes, STELE_TXN_ENTRY_BYTES);
    if (stele_read_i16(&reader) != 0)
        return STELE_CORRUPT;
    out_txn->producer_id = stele_read_i64(&reader);
    out_txn->first_offset = stele_read_i64(&reader);
    out_txn->last_offset = stele_read_i64(&reader);
    out_txn->last_stable_offset = stele_read_i64(&reader);
    return STELE_OK;
}

void stele_aborted_txn_write(const struct stele_aborted_txn *txn, uint8_t out_bytes[STELE_TXN_ENTRY_BYTES])
{
    struct stele_writer writer = stele_writer_of(out_bytes, STELE_TXN_ENTRY_BYTES);
    stele_write_i16(&writer, 0);
    stele_write_i64(&writer, txn->producer_id);
    stele_write_i64(&writer, txn->first_offset);
    stele_write_i64(&writer, txn->last_offset);
    stele_write_i64(&writer, txn->last_stable_offset);
    STELE_ASSERT(!writer.failed);
}

static enum stele_err reserve(struct stele_txn_index *index, int count)
{
    if (count <= index->capacity)
        return STELE_OK;
    int capacity = index->capacity == 0 ? FIRST_ENTRIES : index->capacity * 2;
    capacity = capacity < count ? count : capacity;
    struct stele_aborted_txn *entries =
        stele_mem_resize(index->env->mem, STELE_MEM_INDEX, index->entries, (size_t)capacity * sizeof(*entries));
    if (entries == NULL)
        return STELE_NO_MEMORY;
    index->entries = entries;
    index->capacity = capacity;
    return STELE_OK;
}

static enum stele_err decode_all(struct stele_txn_index *index, const uint8_t *bytes, size_t count)
{
    int entries = (int)(count / STELE_TXN_ENTRY_BYTES);
    enum stele_err err = reserve(index, entries);
    for (int i = 0; i < entries && err == STELE_OK; i++) {
        struct stele_aborted_txn *txn = &index->entries[i];
        err = stele_aborted_txn_read(bytes + (size_t)i * STELE_TXN_ENTRY_BYTES, txn);
        if (err == STELE_OK && (txn->last_offset < index->base_offset || txn->first_offset > txn->last_offset ||
                                (i > 0 && txn[-1].last_offset >= txn->last_offset)))
            err = STELE_CORRUPT;
    }
    if (err == STELE_OK)
        index->count = entries;
    return err;
}

enum stele_err stele_txn_index_load(struct stele_txn_index *index)
{
    uint8_t *bytes = NULL;
    size_t count = 0;
    if (index->is_loaded)
        return STELE_OK;
    enum stele_err err = stele_vfs_read_whole(index->env->vfs, index->env->mem, STELE_MEM_INDEX,
                                              stele_cached_file_path(index->file), FILE_BYTES_MAX, &bytes, &count);
    if (err == STELE_NOT_FOUND)
        index->exists = false;
    else if (err != STELE_OK)
        return err;
    else
        err = decode_all(index, bytes, count);
    stele_mem_free(index->env->mem, bytes);
    if (err != STELE_OK && err != STELE_NOT_FOUND)
        return err;
    index->is_loaded = true;
    return STELE_OK;
}

static enum stele_err create_file(struct stele_txn_index *index)
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

enum stele_err stele_txn_index_reserve(struct stele_txn_index *index, int more)
{
    enum stele_err err = stele_txn_index_load(index);
    if (err == STELE_OK)
        err = reserve(index, index->count + more);
    if (err == STELE_OK && !index->exists)
        err = create_file(index);
    return err;
}

void stele_txn_index_restart(struct stele_txn_index *index)
{
    index->is_loaded = true;
    index->is_replace_due = index->exists;
    index->count = 0;
    index->unwritten = 0;
}

/* Durable before anything that rests on it: without the corrupt file nothing would tell that entries are missing. */
static enum stele_err replace(struct stele_txn_index *index)
{
    struct stele_vfs *vfs = index->env->vfs;
    struct stele_mem *mem = index->env->mem;
    const char *path = stele_cached_file_path(index->file), *name = strrchr(path, '/');
    char dir[STELE_PATH_BYTES];
    STELE_ASSERT(name != NULL && (size_t)(name - path) < sizeof(dir));
    memcpy(dir, path, (size_t)(name - path));
    dir[name - path] = 0;
    if (index->count == 0) {
        enum stele_err gone = vfs->ops->unlink(vfs, path);
        if (gone != STELE_OK && gone != STELE_NOT_FOUND)
            return gone;
        index->exists = false;
        index->is_replace_due = false;
        return STELE_OK;
    }
    uint8_t *bytes = stele_mem_array(mem, STELE_MEM_INDEX, (size_t)index->count, STELE_TXN_ENTRY_BYTES);
    if (bytes == NULL)
        return STELE_NO_MEMORY;
    for (int i = 0; i < index->count; i++)
        stele_aborted_txn_write(&index->entries[i], bytes + (size_t)i * STELE_TXN_ENTRY_BYTES);
    enum stele_err err =
        stele_vfs_replace(vfs, dir, name + 1, bytes, (size_t)index->count * (size_t)STELE_TXN_ENTRY_BYTES);
    stele_mem_free(mem, bytes);
    if (err != STELE_OK)
        return err;
    index->unwritten = 0;
    index->is_replace_due = false;
    return STELE_OK;
}

enum stele_err stele_txn_index_write(struct stele_txn_index *index)
{
    struct stele_file *file = NULL;
    if (index->is_replace_due)
        return replace(index);
    if (index->unwritten == 0)
        return STELE_OK;
    enum stele_err err = stele_cached_file_pin(index->file, &file);
    if (err != STELE_OK)
        return err;
    while (index->unwritten > 0 && err == STELE_OK) {
        uint8_t entry[STELE_TXN_ENTRY_BYTES];
        int at = index->count - index->unwritten;
        stele_aborted_txn_write(&index->entries[at], entry);
        err = stele_file_write(file, entry, sizeof(entry), (int64_t)at * STELE_TXN_ENTRY_BYTES);
        index->unwritten -= err == STELE_OK ? 1 : 0;
    }
    stele_cached_file_unpin(index->file);
    return err;
}

enum stele_err stele_txn_index_append(struct stele_txn_index *index, const struct stele_aborted_txn *txn)
{
    enum stele_err err = stele_txn_index_load(index);
    if (err == STELE_OK && index->count > 0 && index->entries[index->count - 1].last_offset >= txn->last_offset)
        return STELE_INVALID_ARGUMENT;
    if (err == STELE_OK)
        err = stele_txn_index_reserve(index, 1);
    if (err != STELE_OK)
        return err;
    index->entries[index->count++] = *txn;
    index->unwritten++;
    if (index->is_replace_due)
        return STELE_OK;
    err = stele_txn_index_write(index);
    if (err == STELE_OK || err == STELE_NO_SPACE || err == STELE_NO_MEMORY)
        return STELE_OK; /* what could not be written yet is written before the next sync */
    index->count--;
    index->unwritten--;
    return err;
}

enum stele_err stele_txn_index_truncate(struct stele_txn_index *index, int64_t offset)
{
    struct stele_file *file = NULL;
    enum stele_err err = stele_txn_index_load(index);
    if (err != STELE_OK)
        return err;
    int keep = index->count;
    while (keep > 0 && index->entries[keep - 1].last_offset >= offset)
        keep--;
    if (keep == index->count || !index->exists)
        return STELE_OK;
    if (keep >= index->count - index->unwritten) { /* none of those that go is in the file */
        index->unwritten -= index->count - keep;
        index->count = keep;
        return STELE_OK;
    }
    err = stele_cached_file_pin(index->file, &file);
    if (err != STELE_OK)
        return err;
    err = file->vfs->ops->truncate(file, (int64_t)keep * STELE_TXN_ENTRY_BYTES);
    stele_cached_file_unpin(index->file);
    if (err == STELE_OK) {
        index->unwritten = 0;
        index->count = keep;
    }
    return err;
}
