/* The port for machines that watch: /healthz (the process lives), /readyz (it serves, or why not), /metrics
 * (Prometheus' text format). It runs on the control shard's loop and changes nothing. A connection is good for one
 * request.
 *
 * Bounds: CONNECTIONS_MAX connections, DEADLINE_S for each, heads of HEAD_BYTES_MAX, no bodies. libevent's own server
 * bounds neither the connections nor the time that a head may take to come, which is why it is not used. */
#ifndef STELE_HOST_HTTP_H
#define STELE_HOST_HTTP_H

#include "base/err.h"
#include "host/loop.h"

struct stele_http;
struct stele_node;

struct stele_http_options {
    struct stele_mem *mem;
    struct stele_loop *loop; /* the control shard's */
    int fd;                  /* bound; stays the caller's */
    struct stele_node *node;
};

/** Serves from now on, also while the node starts and stops. Errors: NO_MEMORY, IO. */
STELE_MUST_CHECK enum stele_err stele_http_new(const struct stele_http_options *options, struct stele_http **out_http);
/** Drops every connection; after the node, before the loop. NULL is fine. */
void stele_http_free(struct stele_http *http);

/** "HOST:PORT" as it is; a port, or ":PORT", on 127.0.0.1. Errors: INVALID_ARGUMENT (longer than it may be). */
STELE_MUST_CHECK enum stele_err stele_http_address(const char *setting, char out_address[300]);

#endif
