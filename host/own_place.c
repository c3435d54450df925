#include "host/own_place.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

static bool is_same(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)(const void *)a)->sin_addr,
                      &((const struct sockaddr_in *)(const void *)b)->sin_addr, sizeof(struct in_addr)) == 0;
    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* All of 127.0.0.0/8 is this machine. */
static bool is_loopback(const struct sockaddr *address)
{
    return address->sa_family == AF_INET &&
           (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) == 127;
}

static bool is_here(const char *host, const struct ifaddrs *own)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    bool is_found = false;
    if (getaddrinfo(host, NULL, &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        is_found = is_found || is_loopback(at->ai_addr);
        for (const struct ifaddrs *of = own; of != NULL && !is_found; of = of->ifa_next)
            is_found = of->ifa_addr != NULL && is_same(of->ifa_addr, at->ai_addr);
    }
    freeaddrinfo(found);
    return is_found;
}

static bool has_port(const struct stele_listeners *listeners, int32_t port)
{
    for (int i = 0; i < listeners->count; i++) {
        if (listeners->items[i].port == port)
            return true;
    }
    return false;
}

enum stele_err stele_own_place(const struct stele_peer_list *peers, const struct stele_listeners *listeners,
                               int32_t *out_place, struct stele_error *error)
{
    struct ifaddrs *own = NULL;
    int here = 0, served = 0;
    int32_t place = 0, served_place = 0;
    (void)getifaddrs(&own); /* without them only loopback is known to be here */
    for (int i = 0; i < peers->count; i++) {
        char host[STELE_HOST_BYTES];
        int32_t port = 0;
        if (stele_address_split(peers->addresses[i], host, &port) != STELE_OK || !is_here(host, own))
            continue;
        here++;
        place = i + 1;
        if (has_port(listeners, port)) {
            served++;
            served_place = i + 1;
        }
    }
    if (own != NULL)
        freeifaddrs(own);
    if (here != 1 && served != 1)
        return stele_error_set(error, STELE_INVALID_CONFIG,
                               here == 0 ? "no entry of --peers is an address of this machine: say which this node is "
                                           "with --node K, its place in the list"
                                         : "several entries of --peers are addresses of this machine: say which this "
                                           "node is with --node K, its place in the list");
    *out_place = here == 1 ? place : served_place;
    return STELE_OK;
}
