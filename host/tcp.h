/* base/net.h over non-blocking sockets of one loop. Received bytes go into the memory that the handler offers; what is
 * sent leaves at the end of the iteration, buffers by one sendmsg, file ranges by sendfile.
 *
 * Invariants
 *  1. A handler is called from the loop only, never from inside a call of the net.
 *  2. A closed connection is freed at the end of the iteration; its handler is not called any more. */
#ifndef STELE_HOST_TCP_H
#define STELE_HOST_TCP_H

#include "base/net.h"
#include "host/loop.h"

#include <stdatomic.h>

struct stele_tcp;

/** NULL when out of memory. */
STELE_MUST_CHECK struct stele_tcp *stele_tcp_new(struct stele_loop *loop);
/** Drops every connection without calling its handler. NULL is fine. Before the loop. */
void stele_tcp_free(struct stele_tcp *tcp);
struct stele_net *stele_tcp_net(struct stele_tcp *tcp);

/** "HOST:PORT" or "[HOST]:PORT" into its parts. Errors: INVALID_ARGUMENT. */
STELE_MUST_CHECK enum stele_err stele_tcp_address_split(const char *address, char out_host[256], char out_port[16]);

/** A bound socket that does not listen yet; port 0 takes a free one. Errors: UNREACHABLE (address not known or in use),
 * INVALID_ARGUMENT; `error` names it. */
STELE_MUST_CHECK enum stele_err stele_tcp_bind(const char *address, int *out_fd, int32_t *out_port,
                                               struct stele_error *error);

/** How connections are taken. Several nets may serve one socket; they share `open_count`. */
struct stele_tcp_accept {
    int fd; /* bound; stays the caller's */
    /* A connection came in; an error closes it. */
    enum stele_err (*accepted)(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                               void **out_arg);
    void *arg;
    _Atomic int64_t *open_count; /* connections open now, over all nets */
    int64_t open_max;            /* beyond it a connection is closed at once */
};
/** Makes a bound socket take connections into its queue. Errors: IO. */
STELE_MUST_CHECK enum stele_err stele_tcp_listen(int fd);
/** Hands connections of a socket that listens over, until unserve. Errors: IO. */
STELE_MUST_CHECK enum stele_err stele_tcp_serve(struct stele_tcp *tcp, const struct stele_tcp_accept *accept);
void stele_tcp_unserve(struct stele_tcp *tcp);
/** Connections that are not yet freed: those that still send what was queued before close count too. */
int stele_tcp_count(const struct stele_tcp *tcp);

#endif
