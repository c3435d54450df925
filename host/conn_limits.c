/* Invariants
 *  1. The table has an address while connections of it are open; `open` is the sum over it.
 *  2. Everything but `mem` is used under the lock. */
#include "host/conn_limits.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) stele_mem_raw(limits->mem, STELE_MEM_HOST, (bytes))
#define uthash_free(ptr, bytes) stele_mem_free(limits->mem, (ptr))
#include <uthash.h>

enum { TELL_EVERY_MS = 1000, ITEM_BYTES = INET6_ADDRSTRLEN + 16, REASONS = STELE_CONN_NO_MEMORY + 1 };

struct address {
    UT_hash_handle hh;
    struct stele_conn_ip ip;
    int64_t open;
};

struct override {
    struct stele_conn_ip ip;
    int64_t max;
};

struct telling {
    int64_t next_ms, untold;
};

struct stele_conn_limits {
    struct stele_mem *mem;
    pthread_mutex_t lock;
    int64_t open, max, max_per_ip;
    struct override *overrides;
    size_t override_count;
    struct address *table;
    struct telling tellings[REASONS];
};

struct stele_conn_limits *stele_conn_limits_new(struct stele_mem *mem)
{
    struct stele_conn_limits *limits = stele_mem_alloc(mem, STELE_MEM_HOST, sizeof(*limits));
    if (limits == NULL)
        return NULL;
    limits->mem = mem;
    limits->max = limits->max_per_ip = INT64_MAX;
    pthread_mutex_init(&limits->lock, NULL);
    return limits;
}

void stele_conn_limits_free(struct stele_conn_limits *limits)
{
    if (limits == NULL)
        return;
    STELE_ASSERT(limits->open == 0 && limits->table == NULL);
    pthread_mutex_destroy(&limits->lock);
    stele_mem_free(limits->mem, limits->overrides);
    stele_mem_free(limits->mem, limits);
}

/* Settings. */

static struct stele_conn_ip ip_of_v4(const struct in_addr *v4)
{
    struct stele_conn_ip ip = {.bytes = {[10] = 0xff, [11] = 0xff}};
    memcpy(ip.bytes + 12, v4, 4);
    return ip;
}

/* ADDRESS:COUNT; an IPv6 address may stand in brackets. */
static bool take_override(const char *from, size_t bytes, struct override *out)
{
    char item[ITEM_BYTES], *end = NULL;
    struct in_addr v4;
    if (bytes >= sizeof(item))
        return false;
    memcpy(item, from, bytes);
    item[bytes] = 0;
    char *colon = strrchr(item, ':'), *host = item;
    if (colon == NULL || colon == item || strlen(colon + 1) == 0 || strlen(colon + 1) > 10 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return false;
    out->max = strtoll(colon + 1, &end, 10);
    *colon = 0;
    if (host[0] == '[' && colon[-1] == ']') {
        host++;
        colon[-1] = 0;
    }
    if (inet_pton(AF_INET, host, &v4) == 1)
        out->ip = ip_of_v4(&v4);
    else if (inet_pton(AF_INET6, host, out->ip.bytes) != 1)
        return false;
    return out->max <= INT32_MAX;
}

/* `overrides` NULL: only looks at them. */
static enum stele_err read_overrides(const char *text, struct override *overrides, size_t *out_count,
                                     struct stele_error *error)
{
    size_t count = 0;
    while (*text != 0) {
        struct override one;
        text += strspn(text, " ");
        size_t bytes = strcspn(text, ","), kept = bytes;
        while (kept > 0 && text[kept - 1] == ' ')
            kept--;
        if (!take_override(text, kept, &one))
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "max.connections.per.ip.overrides: '%.*s' is not ADDRESS:COUNT, as 10.0.0.7:100 is",
                                   (int)stele_min_size(kept, 100), text);
        if (overrides != NULL)
            overrides[count] = one;
        count++;
        text += bytes;
        text += *text == ',';
    }
    *out_count = count;
    return STELE_OK;
}

enum stele_err stele_conn_limits_check(const struct stele_settings *settings, struct stele_error *error)
{
    size_t count = 0;
    enum stele_err err =
        read_overrides(stele_settings_text(settings, "max.connections.per.ip.overrides"), NULL, &count, error);
    if (err == STELE_OK && count == 0 && stele_settings_int(settings, "max.connections.per.ip") == 0)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               "max.connections.per.ip can be 0 only when max.connections.per.ip.overrides names who "
                               "may connect");
    return err;
}

void stele_conn_limits_set_max(struct stele_conn_limits *limits, int64_t max)
{
    pthread_mutex_lock(&limits->lock);
    limits->max = max;
    pthread_mutex_unlock(&limits->lock);
}

enum stele_err stele_conn_limits_take(struct stele_conn_limits *limits, const struct stele_settings *settings,
                                      struct stele_error *error)
{
    const char *text = stele_settings_text(settings, "max.connections.per.ip.overrides");
    size_t count = 0;
    enum stele_err err = stele_conn_limits_check(settings, error);
    if (err == STELE_OK)
        err = read_overrides(text, NULL, &count, error);
    if (err != STELE_OK)
        return err;
    struct override *overrides = stele_mem_array(limits->mem, STELE_MEM_HOST, count, sizeof(*overrides));
    if (overrides == NULL)
        return STELE_NO_MEMORY;
    err = read_overrides(text, overrides, &count, error);
    STELE_ASSERT(err == STELE_OK);
    pthread_mutex_lock(&limits->lock);
    struct override *before = limits->overrides;
    limits->max = stele_settings_int(settings, "max.connections");
    limits->max_per_ip = stele_settings_int(settings, "max.connections.per.ip");
    limits->overrides = overrides;
    limits->override_count = count;
    pthread_mutex_unlock(&limits->lock);
    stele_mem_free(limits->mem, before);
    return STELE_OK;
}

/* Connections. */

struct stele_conn_ip stele_conn_ip_of(const struct sockaddr *name)
{
    struct stele_conn_ip ip = {.bytes = {0}};
    if (name->sa_family == AF_INET)
        return ip_of_v4(&((const struct sockaddr_in *)(const void *)name)->sin_addr);
    if (name->sa_family == AF_INET6)
        memcpy(ip.bytes, &((const struct sockaddr_in6 *)(const void *)name)->sin6_addr, sizeof(ip.bytes));
    return ip;
}

/* Of an address that is named more than once the last one holds, as in Kafka. */
static int64_t max_of(const struct stele_conn_limits *limits, const struct stele_conn_ip *ip)
{
    for (size_t i = limits->override_count; i > 0; i--) {
        if (memcmp(&limits->overrides[i - 1].ip, ip, sizeof(*ip)) == 0)
            return limits->overrides[i - 1].max;
    }
    return limits->max_per_ip;
}

static struct address *find(const struct stele_conn_limits *limits, const struct stele_conn_ip *ip)
{
    struct address *address = NULL;
    HASH_FIND(hh, limits->table, ip, sizeof(*ip), address);
    return address;
}

static enum stele_conn_refusal enter(struct stele_conn_limits *limits, const struct stele_conn_ip *ip, bool may_pass)
{
    struct address *address = find(limits, ip);
    if (limits->open >= limits->max && !may_pass)
        return STELE_CONN_OVER_MAX;
    if ((address != NULL ? address->open : 0) >= max_of(limits, ip))
        return STELE_CONN_OVER_MAX_PER_IP;
    if (address == NULL) {
        address = stele_mem_alloc(limits->mem, STELE_MEM_HOST, sizeof(*address));
        if (address == NULL)
            return STELE_CONN_NO_MEMORY;
        address->ip = *ip;
        HASH_ADD(hh, limits->table, ip, sizeof(*ip), address);
        if (address->hh.tbl == NULL) {
            stele_mem_free(limits->mem, address);
            return STELE_CONN_NO_MEMORY;
        }
    }
    address->open++;
    limits->open++;
    return STELE_CONN_TAKEN;
}

enum stele_conn_refusal stele_conn_limits_enter(struct stele_conn_limits *limits, const struct stele_conn_ip *ip,
                                                bool may_pass)
{
    pthread_mutex_lock(&limits->lock);
    enum stele_conn_refusal why = enter(limits, ip, may_pass);
    pthread_mutex_unlock(&limits->lock);
    return why;
}

void stele_conn_limits_leave(struct stele_conn_limits *limits, const struct stele_conn_ip *ip)
{
    pthread_mutex_lock(&limits->lock);
    struct address *address = find(limits, ip);
    STELE_ASSERT(address != NULL && address->open > 0);
    limits->open--;
    if (--address->open == 0) {
        HASH_DEL(limits->table, address);
        stele_mem_free(limits->mem, address);
    }
    pthread_mutex_unlock(&limits->lock);
}

bool stele_conn_limits_may_tell(struct stele_conn_limits *limits, enum stele_conn_refusal why, int64_t now_ms,
                                int64_t *out_untold)
{
    pthread_mutex_lock(&limits->lock);
    struct telling *telling = &limits->tellings[why];
    bool may_tell = now_ms >= telling->next_ms;
    if (may_tell) {
        *out_untold = telling->untold;
        *telling = (struct telling){.next_ms = now_ms + TELL_EVERY_MS};
    } else {
        telling->untold++;
    }
    pthread_mutex_unlock(&limits->lock);
    return may_tell;
}
