/* Invariants
 *  1. `box->lock` guards the lists, what is in them, `refs` and `is_closed`; only the loop's thread changes `done`.
 *  2. A box is of those that hold it: the loop's side, and each thread. It and its lookups come from malloc, since they
 * may be freed after the loop's memory has been accounted for. */
#include "host/lookup.h"

#include "base/address.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct box {
    pthread_mutex_t lock;
    struct stele_list running, finished;
    enum stele_err (*find)(const char *address, struct stele_addresses *out_addresses);
    int fd; /* is written to when one has finished */
    int refs;
    bool is_closed; /* the loop's side has gone */
};

struct stele_lookup {
    struct box *box;
    struct stele_list link;
    char address[STELE_ADDRESS_BYTES];
    struct stele_addresses found;
    void (*done)(void *arg, const struct stele_addresses *addresses); /* NULL: nobody waits for it any more */
    void *arg;
};

struct stele_lookups {
    struct stele_loop *loop;
    struct stele_mem *mem;
    struct box *box;
    struct event event;
};

/* Addresses. */

socklen_t stele_sockaddr_bytes(const union stele_sockaddr *address)
{
    return address->any.sa_family == AF_INET6 ? sizeof(address->ipv6) : sizeof(address->ipv4);
}

static enum stele_err find_addresses(const char *address, int flags, struct stele_addresses *out_addresses)
{
    char host[STELE_HOST_BYTES], port[16];
    int32_t number = 0;
    enum stele_err err = stele_address_split(address, host, &number);
    if (err != STELE_OK || host[0] == 0)
        return STELE_INVALID_ARGUMENT;
    (void)snprintf(port, sizeof(port), "%d", (int)number);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *info = NULL;
    if (getaddrinfo(host, port, &hints, &info) != 0)
        return STELE_UNREACHABLE;
    struct stele_addresses found = {.count = 0};
    for (const struct addrinfo *at = info; at != NULL && found.count < STELE_ADDRESSES_MAX; at = at->ai_next) {
        if (at->ai_addrlen <= sizeof(found.at[0]))
            memcpy(&found.at[found.count++], at->ai_addr, at->ai_addrlen);
    }
    freeaddrinfo(info);
    *out_addresses = found;
    return found.count > 0 ? STELE_OK : STELE_UNREACHABLE;
}

enum stele_err stele_addresses_find(const char *address, struct stele_addresses *out_addresses)
{
    return find_addresses(address, 0, out_addresses);
}

enum stele_err stele_addresses_read(const char *address, struct stele_addresses *out_addresses)
{
    return find_addresses(address, AI_NUMERICHOST, out_addresses);
}

/* Threads. */

static void box_free(struct box *box)
{
    pthread_mutex_destroy(&box->lock);
    if (box->fd >= 0)
        close(box->fd);
    free(box);
}

/* Gives up a hold on the box, whose lock is held; its lock is let go. */
static void leave(struct box *box)
{
    bool is_last = --box->refs == 0;
    pthread_mutex_unlock(&box->lock);
    if (is_last)
        box_free(box);
}

static void *look_up(void *arg)
{
    struct stele_lookup *lookup = arg;
    struct box *box = lookup->box;
    struct stele_addresses found = {.count = 0};
    if (box->find(lookup->address, &found) != STELE_OK)
        found.count = 0;
    pthread_mutex_lock(&box->lock);
    stele_list_remove(&lookup->link);
    if (box->is_closed) {
        free(lookup);
    } else {
        uint64_t one = 1;
        lookup->found = found;
        stele_list_push(&box->finished, &lookup->link);
        (void)!write(box->fd, &one, sizeof(one)); /* full is as good: it is readable */
    }
    leave(box);
    return NULL;
}

static bool start_thread(struct stele_lookup *lookup)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the process's own threads */
    bool is_good = pthread_create(&thread, NULL, look_up, lookup) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_good)
        (void)pthread_detach(thread);
    return is_good;
}

/* The loop's side. */

static struct stele_lookup *take_finished(struct box *box)
{
    struct stele_lookup *lookup = NULL;
    pthread_mutex_lock(&box->lock);
    if (!stele_list_is_empty(&box->finished)) {
        lookup = STELE_CONTAINER_OF(box->finished.next, struct stele_lookup, link);
        stele_list_remove(&lookup->link);
    }
    pthread_mutex_unlock(&box->lock);
    return lookup;
}

static void some_finished(evutil_socket_t fd, short what, void *arg)
{
    struct stele_lookups *lookups = arg;
    struct stele_lookup *lookup = NULL;
    uint64_t count = 0;
    (void)what;
    stele_loop_woke(lookups->loop);
    (void)!read(fd, &count, sizeof(count));
    while ((lookup = take_finished(lookups->box)) != NULL) {
        if (lookup->done != NULL)
            lookup->done(lookup->arg, &lookup->found);
        free(lookup);
    }
}

static struct box *box_new(enum stele_err (*find)(const char *address, struct stele_addresses *out_addresses))
{
    struct box *box = calloc(1, sizeof(*box));
    if (box == NULL)
        return NULL;
    pthread_mutex_init(&box->lock, NULL);
    stele_list_init(&box->running);
    stele_list_init(&box->finished);
    box->find = find;
    box->refs = 1;
    box->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->fd < 0) {
        box_free(box);
        return NULL;
    }
    return box;
}

struct stele_lookups *stele_lookups_new(struct stele_loop *loop,
                                        enum stele_err (*find)(const char *address,
                                                               struct stele_addresses *out_addresses))
{
    struct stele_mem *mem = stele_loop_env(loop)->mem;
    struct stele_lookups *lookups = stele_mem_alloc(mem, STELE_MEM_HOST, sizeof(*lookups));
    if (lookups == NULL)
        return NULL;
    lookups->loop = loop;
    lookups->mem = mem;
    lookups->box = box_new(find);
    if (lookups->box == NULL ||
        event_assign(&lookups->event, stele_loop_base(loop), lookups->box->fd, EV_READ | EV_PERSIST, some_finished,
                     lookups) != 0 ||
        event_add(&lookups->event, NULL) != 0) {
        if (lookups->box != NULL)
            box_free(lookups->box);
        stele_mem_free(mem, lookups);
        return NULL;
    }
    return lookups;
}

void stele_lookups_free(struct stele_lookups *lookups)
{
    struct stele_lookup *lookup = NULL;
    if (lookups == NULL)
        return;
    event_del(&lookups->event);
    pthread_mutex_lock(&lookups->box->lock);
    lookups->box->is_closed = true; /* from here on none becomes a finished one */
    pthread_mutex_unlock(&lookups->box->lock);
    while ((lookup = take_finished(lookups->box)) != NULL)
        free(lookup);
    pthread_mutex_lock(&lookups->box->lock);
    leave(lookups->box);
    stele_mem_free(lookups->mem, lookups);
}

/* One whose asker went away, and whose thread still waits. */
static struct stele_lookup *find_orphan(struct box *box, const char *address)
{
    for (struct stele_list *at = box->running.next; at != &box->running; at = at->next) {
        struct stele_lookup *lookup = STELE_CONTAINER_OF(at, struct stele_lookup, link);
        if (lookup->done == NULL && strcmp(lookup->address, address) == 0)
            return lookup;
    }
    return NULL;
}

enum stele_err stele_lookup_start(struct stele_lookups *lookups, const char *address,
                                  void (*done)(void *arg, const struct stele_addresses *addresses), void *arg,
                                  struct stele_lookup **out_lookup)
{
    struct box *box = lookups->box;
    pthread_mutex_lock(&box->lock);
    struct stele_lookup *lookup = find_orphan(box, address);
    bool is_new = lookup == NULL;
    if (is_new && (lookup = calloc(1, sizeof(*lookup))) != NULL) {
        lookup->box = box;
        (void)snprintf(lookup->address, sizeof(lookup->address), "%s", address);
        stele_list_push(&box->running, &lookup->link);
        box->refs++;
        if (!start_thread(lookup)) {
            stele_list_remove(&lookup->link);
            box->refs--;
            free(lookup);
            lookup = NULL;
        }
    }
    if (lookup != NULL) {
        lookup->done = done;
        lookup->arg = arg;
        *out_lookup = lookup;
    }
    pthread_mutex_unlock(&box->lock);
    return lookup != NULL ? STELE_OK : STELE_NO_MEMORY;
}

void stele_lookup_cancel(struct stele_lookup *lookup)
{
    struct box *box = lookup->box;
    pthread_mutex_lock(&box->lock);
    lookup->done = NULL;
    pthread_mutex_unlock(&box->lock);
}
