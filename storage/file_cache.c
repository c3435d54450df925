/* Invariants
 *  1. A cached file with pins > 0 is open. One with pins == 0 may be open; then it is in its cache's idle list, oldest
 * first.
 *  2. open_count counts the open files of the cache; it passes open_max only while every one of them is pinned.
 *  3. Each pin is a reference; the last reference closes and frees. */
#include "storage/file_cache.h"

#include "base/check.h"

struct stele_file_cache {
    struct stele_env *env;
    int open_max, open_count;
    struct stele_map_budget maps;
    struct stele_list idle;
};

struct stele_cached_file {
    struct stele_env *env;
    struct stele_file_cache *cache; /* NULL: private use of a job */
    char *path;
    struct stele_file *file; /* NULL: not open */
    int refs, pins;
    struct stele_list idle;
    struct stele_send_file send;
};

struct stele_file_cache *stele_file_cache_new(struct stele_env *env, int open_max, int64_t map_bytes_max)
{
    struct stele_file_cache *cache = stele_mem_alloc(env->mem, STELE_MEM_FILES, sizeof(*cache));
    if (cache == NULL)
        return NULL;
    *cache = (struct stele_file_cache){.env = env, .open_max = open_max, .maps.bytes_max = map_bytes_max};
    stele_list_init(&cache->maps.maps);
    stele_list_init(&cache->idle);
    return cache;
}

void stele_file_cache_free(struct stele_file_cache *cache)
{
    if (cache == NULL)
        return;
    STELE_ASSERT(cache->open_count == 0);
    stele_mem_free(cache->env->mem, cache);
}

struct stele_map_budget *stele_file_cache_maps(struct stele_file_cache *cache)
{
    return &cache->maps;
}

int stele_file_cache_open_count(const struct stele_file_cache *cache)
{
    return cache->open_count;
}

static void send_ref(struct stele_send_file *send)
{
    struct stele_cached_file *cached = STELE_CONTAINER_OF(send, struct stele_cached_file, send);
    STELE_ASSERT(cached->pins > 0); /* whoever hands a file to a queue holds it */
    cached->pins++;
    cached->refs++;
}

static void send_unref(struct stele_send_file *send)
{
    stele_cached_file_unpin(STELE_CONTAINER_OF(send, struct stele_cached_file, send));
}

enum stele_err stele_cached_file_new(struct stele_env *env, struct stele_file_cache *cache, const char *path,
                                     struct stele_cached_file **out_file)
{
    struct stele_cached_file *cached = stele_mem_alloc(env->mem, STELE_MEM_FILES, sizeof(*cached));
    if (cached == NULL)
        return STELE_NO_MEMORY;
    cached->env = env;
    cached->cache = cache;
    cached->refs = 1;
    cached->send = (struct stele_send_file){.ref = send_ref, .unref = send_unref};
    stele_list_init(&cached->idle);
    cached->path = stele_mem_string(env->mem, STELE_MEM_FILES, path);
    if (cached->path == NULL) {
        stele_mem_free(env->mem, cached);
        return STELE_NO_MEMORY;
    }
    *out_file = cached;
    return STELE_OK;
}

static void close_now(struct stele_cached_file *cached)
{
    if (cached->file == NULL)
        return;
    cached->env->vfs->ops->close(cached->file);
    cached->file = NULL;
    cached->send.file = NULL;
    stele_list_remove(&cached->idle);
    if (cached->cache != NULL)
        cached->cache->open_count--;
}

void stele_cached_file_attach(struct stele_cached_file *cached, struct stele_file_cache *cache)
{
    STELE_ASSERT(cached->pins == 0);
    close_now(cached);
    cached->cache = cache;
}

struct stele_cached_file *stele_cached_file_ref(struct stele_cached_file *cached)
{
    STELE_ASSERT(cached->refs > 0);
    cached->refs++;
    return cached;
}

void stele_cached_file_unref(struct stele_cached_file *cached)
{
    if (cached == NULL)
        return;
    STELE_ASSERT(cached->refs > 0);
    if (--cached->refs > 0)
        return;
    STELE_ASSERT(cached->pins == 0);
    struct stele_env *env = cached->env;
    close_now(cached);
    stele_mem_free(env->mem, cached->path);
    stele_mem_free(env->mem, cached);
}

static void make_room(struct stele_file_cache *cache)
{
    while (cache->open_count >= cache->open_max && !stele_list_is_empty(&cache->idle))
        close_now(STELE_CONTAINER_OF(cache->idle.next, struct stele_cached_file, idle));
}

static enum stele_err open_now(struct stele_cached_file *cached)
{
    if (cached->cache != NULL)
        make_room(cached->cache);
    enum stele_err err =
        cached->env->vfs->ops->open(cached->env->vfs, cached->path, STELE_OPEN_READ | STELE_OPEN_WRITE, &cached->file);
    if (err != STELE_OK)
        return err;
    cached->send.file = cached->file;
    if (cached->cache != NULL)
        cached->cache->open_count++;
    return STELE_OK;
}

enum stele_err stele_cached_file_pin(struct stele_cached_file *cached, struct stele_file **out_file)
{
    if (cached->file == NULL) {
        enum stele_err err = open_now(cached);
        if (err != STELE_OK)
            return err;
    }
    stele_list_remove(&cached->idle);
    cached->pins++;
    cached->refs++;
    *out_file = cached->file;
    return STELE_OK;
}

void stele_cached_file_unpin(struct stele_cached_file *cached)
{
    STELE_ASSERT(cached->pins > 0);
    if (--cached->pins == 0) {
        if (cached->cache == NULL || cached->cache->open_count > cached->cache->open_max)
            close_now(cached);
        else
            stele_list_push(&cached->cache->idle, &cached->idle);
    }
    stele_cached_file_unref(cached);
}

enum stele_err stele_cached_file_rename(struct stele_cached_file *cached, const char *path)
{
    char *copy = stele_mem_string(cached->env->mem, STELE_MEM_FILES, path);
    if (copy == NULL)
        return STELE_NO_MEMORY;
    enum stele_err err = cached->env->vfs->ops->rename(cached->env->vfs, cached->path, path);
    if (err != STELE_OK) {
        stele_mem_free(cached->env->mem, copy);
        return err;
    }
    stele_mem_free(cached->env->mem, cached->path);
    cached->path = copy;
    return STELE_OK;
}

const char *stele_cached_file_path(const struct stele_cached_file *cached)
{
    return cached->path;
}

struct stele_send_file *stele_cached_file_send(struct stele_cached_file *cached)
{
    return &cached->send;
}
