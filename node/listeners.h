/* Where a node serves and what clients are told, from `listeners`, `advertised.listeners`,
 * `listener.security.protocol.map` and `inter.broker.listener.name`, by Kafka's rules: names are upper case and
 * different, ports are different (0 takes a free one; an IPv4 and an IPv6 address may share one), an address without a
 * host is every interface, what is advertised is the name of a listener and no wildcard address.
 *
 * Beyond Kafka: an address without a name is the listener PLAINTEXT; a listener that listener.security.protocol.map
 * does not name is plain text, unless its name is that of another protocol; one that advertised.listeners does not name
 * is told as it is served; {node.id} in advertised.listeners stands for the node's number, so that one setting serves
 * every node of a cluster. */
#ifndef STELE_NODE_LISTENERS_H
#define STELE_NODE_LISTENERS_H

#include "base/address.h"
#include "base/settings.h"

enum { STELE_LISTENERS_MAX = 16, STELE_LISTENER_NAME_BYTES = 64 };

struct stele_listener {
    char name[STELE_LISTENER_NAME_BYTES];
    char host[STELE_HOST_BYTES]; /* "": every interface */
    int32_t port;                /* 0 until it is bound */
    bool is_advertised;          /* advertised.listeners names it */
    char told_host[STELE_HOST_BYTES];
    int32_t told_port;
    bool is_peer; /* other nodes come here, and only here */
};

struct stele_listeners {
    struct stele_listener items[STELE_LISTENERS_MAX];
    int count; /* at least 1 */
};

/** Errors: INVALID_CONFIG; `error` names what is wrong and the way out. */
STELE_MUST_CHECK enum stele_err stele_listeners_read(const struct stele_settings *settings,
                                                     struct stele_listeners *out_listeners, struct stele_error *error);
/** When every port is known: what is told of each. `machine` is the name of this machine for others, told where a
 * listener serves every interface. */
void stele_listeners_settle(struct stele_listeners *listeners, const char *machine);
/** One listener, PLAINTEXT, that serves everybody and is told as it is given. */
void stele_listeners_of_one(struct stele_listeners *listeners, const char *host, int32_t port);

#endif
