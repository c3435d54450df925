/* The inside of a net of sockets, shared by tcp.c (connections), tcp_read.c (what they receive), tcp_dial.c
 * (connecting) and tcp_listen.c (binding and accepting). */
#ifndef STELE_HOST_TCP_STRUCT_H
#define STELE_HOST_TCP_STRUCT_H

#include "host/lookup.h"
#include "host/tcp.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>

enum {
    STELE_PEER_BYTES = 96, /* HOST:PORT */
    STELE_AHEAD_BYTES = 8192,
};

struct stele_tcp {
    struct stele_net net;
    struct stele_loop *loop;
    struct stele_mem *mem;
    struct stele_loop_hook hook;
    struct stele_list conns, dirty;
    int count;

    struct stele_list acceptors;
    struct stele_lookups *lookups; /* NULL: connect waits for names */

    pthread_mutex_t arrivals_lock;
    struct stele_list arrivals; /* guarded: connections that other loops moved here */
    struct stele_task arrivals_task;
    bool are_arrivals_told; /* guarded: the task is on its way */

    uint8_t ahead[STELE_AHEAD_BYTES]; /* where bytes go for which no room was offered yet (tcp_read.c) */
};

/* A socket that is served. */
struct stele_acceptor {
    struct stele_list link;
    struct stele_tcp *tcp;
    struct stele_tcp_accept accept;
    struct event event, retry;
    bool is_serving;
};

/* Where a connection goes that is not up yet. */
struct stele_dial {
    struct stele_lookup *lookup; /* of its name, under way */
    struct stele_addresses to;
    int tried; /* so many of them */
};

struct stele_conn {
    struct stele_tcp *tcp;
    int fd; /* -1 while its name is looked up */
    struct event read_event, write_event;
    const struct stele_conn_handler *handler;
    void *arg;
    struct stele_list link, dirty_link;

    struct stele_piece *pieces; /* a ring; its capacity is a power of two */
    int head, count, capacity;
    size_t queued_bytes;

    uint8_t *ahead; /* received while the handler paused: the first to be handed over after it */
    size_t ahead_at, ahead_bytes;

    struct stele_dial *dial; /* while is_connecting */
    bool is_connecting, is_reading;
    bool is_closing; /* its owner gave it up: no handler is called any more */
    bool is_dead;    /* its descriptor is closed; freed at the end of the iteration */
    bool is_lost;    /* on its way to another loop: closed when it is there */
    bool is_moving;  /* no handler is called; given to moves_to at the end of the iteration */
    bool is_dirty;
    struct stele_tcp *moves_to;
    struct stele_conn_taker taker;
    struct stele_conn_limits *limits; /* in which it is counted, or NULL */
    struct stele_conn_ip ip;
    char peer[STELE_PEER_BYTES];
};

/** A connection on `fd`, which is its own on success; -1: it gets one later. */
STELE_MUST_CHECK enum stele_err stele_tcp__conn_new(struct stele_tcp *tcp, int fd, struct stele_conn **out_conn);
/** Gives a connection another descriptor; events of the one before have been deleted. Errors: NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_tcp__conn_set_fd(struct stele_conn *conn, int fd);
/** Begins to read. */
void stele_tcp__conn_start(struct stele_conn *conn);
/** Closes without a word to the handler. */
void stele_tcp__conn_drop(struct stele_conn *conn);
/** What move of the net does (tcp_move.c). */
void stele_tcp__move(struct stele_conn *conn, struct stele_net *to, const struct stele_conn_taker *taker);
/** The end of the iteration: the connection leaves. */
void stele_tcp__move_away(struct stele_conn *conn);
void stele_tcp__arrivals_init(struct stele_tcp *tcp);
/** Those that were on their way are taken in without a word to anybody, to be closed with the rest. */
void stele_tcp__arrivals_end(struct stele_tcp *tcp);
/** Frees what serves sockets, at the end. */
void stele_tcp__acceptors_free(struct stele_tcp *tcp);
/** The socket has bytes, or what was received before may be handed over. */
void stele_tcp__read_ready(evutil_socket_t fd, short what, void *arg);
/** The world ended the connection: its handler is told. */
void stele_tcp__conn_lost(struct stele_conn *conn, enum stele_err why);

/** What connect of the net does. */
enum stele_err stele_tcp__connect(struct stele_net *net, const char *address, const struct stele_conn_handler *handler,
                                  void *arg, struct stele_conn **out_conn);
/** Goes on to the next address that takes a connection up. Errors: UNREACHABLE (there is none), NO_MEMORY. */
STELE_MUST_CHECK enum stele_err stele_tcp__dial_next(struct stele_conn *conn);
/** Frees what only one that connects has. */
void stele_tcp__dial_end(struct stele_conn *conn);

#endif
