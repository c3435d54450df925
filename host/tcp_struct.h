/* The inside of a net of sockets, shared by tcp.c (connections) and tcp_listen.c (addresses and accepting). */
#ifndef STELE_HOST_TCP_STRUCT_H
#define STELE_HOST_TCP_STRUCT_H

#include "host/tcp.h"

#include <event2/event.h>
#include <event2/event_struct.h>

enum { STELE_PEER_BYTES = 96 }; /* HOST:PORT */

struct stele_tcp {
    struct stele_net net;
    struct stele_loop *loop;
    struct stele_mem *mem;
    struct stele_loop_hook hook;
    struct stele_list conns, dirty;
    int count;

    struct stele_list acceptors;
};

/* A socket that is served. */
struct stele_acceptor {
    struct stele_list link;
    struct stele_tcp *tcp;
    struct stele_tcp_accept accept;
    struct event event, retry;
    bool is_serving;
};

struct stele_conn {
    struct stele_tcp *tcp;
    int fd;
    struct event read_event, write_event;
    const struct stele_conn_handler *handler;
    void *arg;
    struct stele_list link, dirty_link;

    struct stele_piece *pieces; /* a ring; its capacity is a power of two */
    int head, count, capacity;
    size_t queued_bytes;

    bool is_connecting, is_reading;
    bool is_closing; /* its owner gave it up: no handler is called any more */
    bool is_dead;    /* its descriptor is closed; freed at the end of the iteration */
    bool is_dirty;
    struct stele_conn_limits *limits; /* in which it is counted, or NULL */
    struct stele_conn_ip ip;
    char peer[STELE_PEER_BYTES];
};

/** A connection on `fd`, which is its own on success. */
STELE_MUST_CHECK enum stele_err stele_tcp__conn_new(struct stele_tcp *tcp, int fd, struct stele_conn **out_conn);
/** Begins to read. */
void stele_tcp__conn_start(struct stele_conn *conn);
/** Closes without a word to the handler. */
void stele_tcp__conn_drop(struct stele_conn *conn);
/** Frees what serves sockets, at the end. */
void stele_tcp__acceptors_free(struct stele_tcp *tcp);
/** A socket whose connection is under way. Errors: UNREACHABLE, INVALID_ARGUMENT. */
STELE_MUST_CHECK enum stele_err stele_tcp__connect_start(const char *address, int *out_fd);

#endif
