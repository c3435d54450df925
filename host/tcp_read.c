/* What connections receive. A large part of a frame goes from the socket straight to where its handler wants it. Where
 * little is wanted, a header or a short frame, one call takes what is behind it along into memory that all connections
 * share, and it is handed over from there: several small frames are one call, not two for each.
 *
 * Invariants
 *  1. Bytes are handed over in order: nothing is read from the socket while `ahead` of the connection holds some.
 *  2. The shared memory holds nothing between two calls: what a handler had no room for is the connection's. */
#include "host/tcp_struct.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum {
    READ_ROUNDS = 32,               /* reads of one connection before others have their turn */
    LITTLE = STELE_AHEAD_BYTES / 4, /* so much room, and more, is filled from the socket alone */
};

static void pause_reading(struct stele_conn *conn)
{
    event_del(&conn->read_event);
    conn->is_reading = false;
}

static bool is_over(const struct stele_conn *conn)
{
    return conn->is_dead || conn->is_closing || conn->is_moving;
}

/* How many of the bytes the handler took: all of them, unless it paused or the connection ended. */
static size_t hand_over(struct stele_conn *conn, const uint8_t *from, size_t count)
{
    size_t done = 0;
    while (done < count && !is_over(conn)) {
        uint8_t *at = NULL;
        size_t bytes = 0;
        conn->handler->space(conn->arg, &at, &bytes);
        if (is_over(conn) || bytes == 0)
            break;
        bytes = stele_min_size(bytes, count - done);
        memcpy(at, from + done, bytes);
        done += bytes;
        conn->handler->received(conn->arg, bytes);
    }
    return done;
}

/* False when the handler has no room for all of it, or the connection ended. */
static bool hand_over_kept(struct stele_conn *conn)
{
    size_t done = hand_over(conn, conn->ahead + conn->ahead_at, conn->ahead_bytes);
    conn->ahead_at += done;
    conn->ahead_bytes -= done;
    if (is_over(conn))
        return false;
    if (conn->ahead_bytes > 0) {
        pause_reading(conn);
        return false;
    }
    stele_mem_free(conn->tcp->mem, conn->ahead);
    conn->ahead = NULL;
    return true;
}

/* The same for what lies in the shared memory: the rest is kept. */
static bool hand_over_shared(struct stele_conn *conn, size_t count)
{
    struct stele_tcp *tcp = conn->tcp;
    size_t done = hand_over(conn, tcp->ahead, count), rest = count - done;
    if (is_over(conn) && !conn->is_moving)
        return false;
    if (rest == 0)
        return !is_over(conn);
    conn->ahead = stele_mem_raw(tcp->mem, STELE_MEM_CONNECTION, rest);
    if (conn->ahead == NULL) {
        conn->is_lost = conn->is_moving; /* who takes it is told */
        if (!conn->is_moving)
            stele_tcp__conn_lost(conn, STELE_NO_MEMORY);
        return false;
    }
    memcpy(conn->ahead, tcp->ahead + done, rest);
    conn->ahead_at = 0;
    conn->ahead_bytes = rest;
    if (!conn->is_moving)
        pause_reading(conn);
    return false;
}

/* One call; false when the socket is empty for now, or nothing more may be read. */
static bool read_once(struct stele_conn *conn)
{
    struct iovec room[2] = {{.iov_base = NULL}, {.iov_base = conn->tcp->ahead, .iov_len = STELE_AHEAD_BYTES}};
    struct msghdr message = {.msg_iov = room, .msg_iovlen = 1};
    uint8_t *at = NULL;
    size_t bytes = 0;
    conn->handler->space(conn->arg, &at, &bytes);
    if (is_over(conn))
        return false;
    if (bytes == 0) {
        pause_reading(conn);
        return false;
    }
    room[0] = (struct iovec){.iov_base = at, .iov_len = bytes};
    if (bytes < LITTLE)
        message.msg_iovlen = 2;
    ssize_t got = recvmsg(conn->fd, &message, 0);
    if (got == 0) {
        stele_tcp__conn_lost(conn, STELE_CLOSED);
        return false;
    }
    if (got < 0) {
        if (errno == EINTR)
            return true;
        if (errno != EAGAIN && errno != EWOULDBLOCK)
            stele_tcp__conn_lost(conn, STELE_IO);
        return false;
    }
    size_t count = (size_t)got, wanted = bytes + (message.msg_iovlen > 1 ? STELE_AHEAD_BYTES : 0);
    conn->handler->received(conn->arg, stele_min_size(count, bytes));
    if (count > bytes ? !hand_over_shared(conn, count - bytes) : is_over(conn))
        return false;
    return count == wanted; /* less: most likely empty; if not, the event comes again */
}

void stele_tcp__read_ready(evutil_socket_t fd, short what, void *arg)
{
    struct stele_conn *conn = arg;
    (void)fd;
    (void)what;
    stele_loop_woke(conn->tcp->loop);
    if (is_over(conn) || (conn->ahead != NULL && !hand_over_kept(conn)))
        return;
    for (int round = 0; round < READ_ROUNDS && read_once(conn); round++)
        continue;
}
