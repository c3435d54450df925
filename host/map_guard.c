/* A signal's action is the process's, so this state is too. The handler takes no lock: it reads slots that are in
 * chunks which are never freed.
 *
 * Invariants:
 *  1. `start` of a slot is written after `bytes` when it is taken, and cleared first when it is given back.
 *  2. Slots and chunks are taken and given back under the mutex. */
#include "host/map_guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHUNK_SLOTS = 1023 };

struct slot {
    _Atomic uintptr_t start; /* 0: free */
    _Atomic uintptr_t bytes;
};

struct chunk {
    struct chunk *_Atomic next;
    struct slot slots[CHUNK_SLOTS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct chunk first;
static struct sigaction previous;
static _Atomic uintptr_t page_bytes;
static _Atomic int64_t faults;

static struct slot *slot_of(uintptr_t address)
{
    for (struct chunk *chunk = &first; chunk != NULL; chunk = atomic_load(&chunk->next)) {
        for (int i = 0; i < CHUNK_SLOTS; i++) {
            uintptr_t start = atomic_load(&chunk->slots[i].start);
            if (start != 0 && address >= start && address - start < atomic_load(&chunk->slots[i].bytes))
                return &chunk->slots[i];
        }
    }
    return NULL;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    (void)context;
    if (slot_of(address) != NULL) {
        /* The bare call: a sanitizer's wrapper is not safe here. */
        long map = syscall(SYS_mmap, address & ~(page_bytes - 1), page_bytes, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
        if (map != -1) {
            atomic_fetch_add(&faults, 1);
            return;
        }
    }
    /* The instruction runs again and meets the action of before. */
    (void)sigaction(number, &previous, NULL);
}

/* Sets the action unless it is set; somebody may have set another since. The mutex is held. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, now;
    (void)sigemptyset(&action.sa_mask);
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_bus_error))
        return;
    previous = now;
    (void)sigaction(SIGBUS, &action, NULL);
}

/* A free slot, or NULL. The mutex is held. */
static struct slot *free_slot(void)
{
    struct chunk *chunk = &first;
    for (;;) {
        for (int i = 0; i < CHUNK_SLOTS; i++) {
            if (atomic_load(&chunk->slots[i].start) == 0)
                return &chunk->slots[i];
        }
        struct chunk *next = atomic_load(&chunk->next);
        if (next == NULL) {
            next = mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (next == MAP_FAILED)
                return NULL;
            atomic_store(&chunk->next, next);
        }
        chunk = next;
    }
}

bool stele_map_guard_add(const void *start, size_t bytes)
{
    (void)pthread_mutex_lock(&mutex);
    install();
    struct slot *slot = free_slot();
    if (slot != NULL) {
        /* Up to the page's end: reading the rest of the last page is no fault that `bytes` tells of. */
        atomic_store(&slot->bytes, (bytes + page_bytes - 1) & ~(page_bytes - 1));
        atomic_store(&slot->start, (uintptr_t)start);
    }
    (void)pthread_mutex_unlock(&mutex);
    return slot != NULL;
}

void stele_map_guard_remove(const void *start)
{
    (void)pthread_mutex_lock(&mutex);
    struct slot *slot = slot_of((uintptr_t)start);
    if (slot != NULL)
        atomic_store(&slot->start, 0);
    (void)pthread_mutex_unlock(&mutex);
}

int64_t stele_map_guard_faults(void)
{
    return atomic_load(&faults);
}
