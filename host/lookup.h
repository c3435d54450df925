/* Addresses of hosts by name. getaddrinfo waits for name servers as long as they let it, seconds for the name of a
 * machine that is gone; so a loop that serves others has it done by threads, one for each name that is being looked up,
 * which end with it.
 *
 * Invariants
 *  1. `done` is called from the loop, never from inside a call, and not after cancel or free.
 *  2. Nothing waits for a thread: one that a name server keeps outlives the loop, of which it holds nothing. */
#ifndef STELE_HOST_LOOKUP_H
#define STELE_HOST_LOOKUP_H

#include "host/loop.h"

#include <netinet/in.h>

enum { STELE_ADDRESSES_MAX = 8 };

union stele_sockaddr {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

/** The first addresses of a host, in the order in which they are to be tried. */
struct stele_addresses {
    union stele_sockaddr at[STELE_ADDRESSES_MAX];
    int count;
};

socklen_t stele_sockaddr_bytes(const union stele_sockaddr *address);

/** Finds those of HOST:PORT, waiting as long as it takes. Errors: UNREACHABLE (the host is not known),
 * INVALID_ARGUMENT. */
enum stele_err stele_addresses_find(const char *address, struct stele_addresses *out_addresses);
/** The same without waiting, for a host that is an IP address. Errors: UNREACHABLE (it is a name), INVALID_ARGUMENT. */
STELE_MUST_CHECK enum stele_err stele_addresses_read(const char *address, struct stele_addresses *out_addresses);

struct stele_lookups; /* those of one loop */
struct stele_lookup;

/** `find` is what the threads do: stele_addresses_find, or a test's own. NULL when out of memory or descriptors. */
STELE_MUST_CHECK struct stele_lookups *stele_lookups_new(struct stele_loop *loop,
                                                         enum stele_err (*find)(const char *address,
                                                                                struct stele_addresses *out_addresses));
/** Cancels what is under way. NULL is fine. Before the loop. */
void stele_lookups_free(struct stele_lookups *lookups);

/** Looks HOST:PORT up; `done` gets its addresses, none when it is not known, and ends the lookup. One that was
 * cancelled while its thread waits is taken over instead of starting a second for the same name. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_lookup_start(struct stele_lookups *lookups, const char *address,
                                                   void (*done)(void *arg, const struct stele_addresses *addresses),
                                                   void *arg, struct stele_lookup **out_lookup);
void stele_lookup_cancel(struct stele_lookup *lookup);

#endif
