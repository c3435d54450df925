/* The seam to connections. A connection is a pair of ordered byte pipes; both ends of the project (node and client)
 * are written against this table, the host backs it with sockets, the simulator with pipes that cut bytes anywhere.
 *
 * Calls only enqueue; handlers are called later from the loop, never from inside a call. Received bytes go straight
 * into memory that the core offers, sent bytes leave from counted buffers and file ranges: no copy in between. */
#ifndef STELE_BASE_NET_H
#define STELE_BASE_NET_H

#include "base/buf.h"
#include "base/err.h"

struct stele_conn;

/** What the owner of a connection does; `arg` was given at accept or connect. */
struct stele_conn_handler {
    /* An outgoing connection is up (OK) or failed (closed is not called then). */
    void (*opened)(void *arg, enum stele_err err);
    /* Where the next received bytes go; *out_bytes 0 pauses reading until resume. */
    void (*space)(void *arg, uint8_t **out_at, size_t *out_bytes);
    /* `count` bytes were put there. */
    void (*received)(void *arg, size_t count);
    /* Everything up to `queued` bytes has left; called when the queue got shorter. */
    void (*sent)(void *arg, size_t queued_bytes);
    /* The peer or the world closed it; the connection is gone after this call. Not called after close(). */
    void (*closed)(void *arg, enum stele_err why);
};

/** One piece to send: bytes of a buffer, or a range of a file. The connection holds a reference until it has left. */
struct stele_piece {
    struct stele_buf *buf; /* with `at`, `bytes`; NULL for a file range */
    const uint8_t *at;
    struct stele_send_file *file;
    int64_t pos;
    size_t bytes;
};

/** An open file that a send queue may hold; counted by its owner (storage/file_cache.h embeds one). */
struct stele_send_file {
    struct stele_file *file;
    bool is_revoked; /* its bytes are to be cut away: a connection that comes to them closes instead of sending them */
    bool is_bad;     /* the net found that its bytes cannot be read, before it gave up its reference */
    void (*ref)(struct stele_send_file *send);
    void (*unref)(struct stele_send_file *send); /* from the loop's thread only */
};

struct stele_net;

/** Who takes a connection that is moved: called on the loop of its new net; an error closes it. */
struct stele_conn_taker {
    enum stele_err (*taken)(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                            void **out_arg);
    void *arg;
};

struct stele_net_ops {
    /* Starts a connection to "HOST:PORT". */
    enum stele_err (*connect)(struct stele_net *net, const char *address, const struct stele_conn_handler *handler,
                              void *arg, struct stele_conn **out_conn);
    /* Queues pieces in order; takes its own references. A file range that turns out short, or is
     * revoked, closes the connection. */
    enum stele_err (*send)(struct stele_conn *conn, const struct stele_piece *pieces, int count);
    /* Asks for `space` again after it paused. */
    void (*resume)(struct stele_conn *conn);
    /* Closes at once (drop) or after the queue has left (flush). `closed` is not called; the conn is invalid at once.
     */
    void (*close)(struct stele_conn *conn, bool flush);
    const char *(*peer)(struct stele_conn *conn); /* "HOST:PORT" for messages; borrowed */
    /* Gives it to another net of the same process. Everything that was sent has left. Its handler is not called any
     * more, and it is the taker's when that is called; what was received and not handed over goes along. Should the
     * other net end before, the taker is not called. NULL: this net cannot. */
    void (*move)(struct stele_conn *conn, struct stele_net *to, const struct stele_conn_taker *taker);
};

struct stele_net {
    const struct stele_net_ops *ops;
};

#endif
