/* base/net.h over non-blocking sockets of one loop. Received bytes go into the memory that the handler offers; what is
 * sent leaves at the end of the iteration, buffers by one sendmsg, file ranges by sendfile.
 *
 * Invariants
 *  1. A handler is called from the loop only, never from inside a call of the net.
 *  2. A closed connection is freed at the end of the iteration; its handler is not called any more. */
#ifndef STELE_HOST_TCP_H
#define STELE_HOST_TCP_H

#include "base/net.h"
#include "host/conn_limits.h"
#include "host/lookup.h"

struct stele_tcp;

/** NULL when out of memory. */
STELE_MUST_CHECK struct stele_tcp *stele_tcp_new(struct stele_loop *loop);
/** Drops every connection without calling its handler. NULL is fine. Before the loop. */
void stele_tcp_free(struct stele_tcp *tcp);
struct stele_net *stele_tcp_net(struct stele_tcp *tcp);
/** From here on threads look up names (host/lookup.h), by `find`: connect does not wait for them. Once. Errors:
 * NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_tcp_look_up_aside(struct stele_tcp *tcp,
                                                        enum stele_err (*find)(const char *address,
                                                                               struct stele_addresses *out_addresses));

/** A bound socket that does not listen yet; port 0 takes a free one, an address without a host (base/address.h) every
 * interface. Errors: UNREACHABLE (address not known or in use), INVALID_ARGUMENT; `error` names it. */
STELE_MUST_CHECK enum stele_err stele_tcp_bind(const char *address, int *out_fd, int32_t *out_port,
                                               struct stele_error *error);

/** How connections of one socket are taken. Several nets may serve a socket, and a net several sockets; those that
 * share `limits` are counted together. */
struct stele_tcp_accept {
    int fd; /* bound; stays the caller's */
    /* A connection came in; an error closes it. */
    enum stele_err (*accepted)(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                               void **out_arg);
    /* One was closed at once. NULL: nobody wants to know. */
    void (*refused)(void *arg, const char *peer, enum stele_conn_refusal why);
    void *arg;
    struct stele_conn_limits *limits; /* borrowed; outlives the net */
    bool may_pass;                    /* they are not held to max.connections */
};
/** Makes a bound socket take connections into its queue. Errors: IO. */
STELE_MUST_CHECK enum stele_err stele_tcp_listen(int fd);
/** Hands connections of a socket that listens over, until unserve. Errors: IO, NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_tcp_serve(struct stele_tcp *tcp, const struct stele_tcp_accept *accept);
/** Takes no connections any more, of any socket. */
void stele_tcp_unserve(struct stele_tcp *tcp);
/** Connections that are not yet freed: those that still send what was queued before close count too. */
int stele_tcp_count(const struct stele_tcp *tcp);

#endif
