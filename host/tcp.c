#include "host/tcp_struct.h"

#include "base/check.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    IOV_MAX_HERE = 256,
    LITTLE_BYTES = 8192,        /* file ranges up to here go along with buffers, together */
    SEND_BYTES_ROUND = 4 << 20, /* of one connection before others have their turn */
    LINGER_S = 10,              /* a closed connection whose peer does not read is dropped then */
};

static struct stele_piece *piece_at(struct stele_conn *conn, int index)
{
    return &conn->pieces[(conn->head + index) & (conn->capacity - 1)];
}

static void piece_release(struct stele_piece *piece)
{
    if (piece->buf != NULL)
        stele_buf_unref(piece->buf);
    else
        piece->file->unref(piece->file);
}

static void drop_front(struct stele_conn *conn)
{
    piece_release(piece_at(conn, 0));
    conn->head = (conn->head + 1) & (conn->capacity - 1);
    conn->count--;
}

static void mark_dirty(struct stele_conn *conn)
{
    if (conn->is_dirty)
        return;
    conn->is_dirty = true;
    stele_list_push(&conn->tcp->dirty, &conn->dirty_link);
}

/* The descriptor goes at once, the memory at the end of the iteration: a caller up the stack may still look at it. */
static void bury(struct stele_conn *conn)
{
    if (conn->is_dead)
        return;
    conn->is_dead = true;
    event_del(&conn->read_event);
    event_del(&conn->write_event);
    stele_tcp__dial_end(conn);
    if (conn->fd >= 0)
        close(conn->fd);
    if (conn->limits != NULL)
        stele_conn_limits_leave(conn->limits, &conn->ip);
    while (conn->count > 0)
        drop_front(conn);
    mark_dirty(conn);
}

static void conn_free(struct stele_conn *conn)
{
    struct stele_tcp *tcp = conn->tcp;
    stele_list_remove(&conn->link);
    tcp->count--;
    stele_mem_free(tcp->mem, conn->pieces);
    stele_mem_free(tcp->mem, conn->ahead);
    stele_mem_free(tcp->mem, conn);
}

void stele_tcp__conn_lost(struct stele_conn *conn, enum stele_err why)
{
    bool tells = !conn->is_closing && !conn->is_dead && !conn->is_moving;
    bool was_connecting = conn->is_connecting;
    bury(conn);
    if (!tells)
        return;
    conn->is_closing = true;
    if (was_connecting)
        conn->handler->opened(conn->arg, STELE_UNREACHABLE);
    else
        conn->handler->closed(conn->arg, why);
}

static enum stele_err grow(struct stele_conn *conn, int more)
{
    int capacity = conn->capacity == 0 ? 8 : conn->capacity;
    while (capacity < conn->count + more)
        capacity *= 2;
    if (capacity == conn->capacity)
        return STELE_OK;
    struct stele_piece *pieces =
        stele_mem_array(conn->tcp->mem, STELE_MEM_CONNECTION, (size_t)capacity, sizeof(*pieces));
    if (pieces == NULL)
        return STELE_NO_MEMORY;
    for (int i = 0; i < conn->count; i++)
        pieces[i] = *piece_at(conn, i);
    stele_mem_free(conn->tcp->mem, conn->pieces);
    conn->pieces = pieces;
    conn->capacity = capacity;
    conn->head = 0;
    return STELE_OK;
}

static enum stele_err tcp_send(struct stele_conn *conn, const struct stele_piece *pieces, int count)
{
    STELE_ASSERT(!conn->is_closing);
    if (conn->is_dead)
        return STELE_CLOSED;
    enum stele_err err = grow(conn, count);
    if (err != STELE_OK)
        return err;
    for (int i = 0; i < count; i++) {
        if (pieces[i].bytes == 0)
            continue;
        if (pieces[i].buf != NULL)
            (void)stele_buf_ref(pieces[i].buf);
        else
            pieces[i].file->ref(pieces[i].file);
        *piece_at(conn, conn->count) = pieces[i];
        conn->count++;
        conn->queued_bytes += pieces[i].bytes;
    }
    mark_dirty(conn);
    return STELE_OK;
}

static void tcp_resume(struct stele_conn *conn)
{
    if (conn->is_dead || conn->is_closing || conn->is_connecting || conn->is_reading)
        return;
    if (event_add(&conn->read_event, NULL) != 0)
        return;
    conn->is_reading = true;
    if (conn->ahead_bytes > 0) /* what was read before is no news to the kernel */
        event_active(&conn->read_event, EV_READ, 1);
}

static void tcp_close(struct stele_conn *conn, bool flush)
{
    STELE_ASSERT(!conn->is_closing);
    conn->is_closing = true;
    if (conn->is_dead)
        return;
    if (!flush || conn->is_connecting) {
        bury(conn);
        return;
    }
    event_del(&conn->read_event);
    event_del(&conn->write_event); /* the next flush adds it again, with the linger time */
    conn->is_reading = false;
    mark_dirty(conn);
}

static const char *tcp_peer(struct stele_conn *conn)
{
    return conn->peer;
}

/* Reads a little range into `room`. False: it is to be sent from the file, which also says what is wrong with it. */
static bool read_little(const struct stele_piece *piece, uint8_t *room, size_t room_bytes)
{
    struct stele_file *file = piece->file->file;
    size_t got = 0;
    return piece->bytes <= room_bytes && !piece->file->is_revoked &&
           file->vfs->ops->pread(file, room, piece->bytes, piece->pos, &got) == STELE_OK && got == piece->bytes;
}

/* The leading buffer pieces in one call, little file ranges between and behind them along: a call and a segment of TCP
 * for each would cost more than the copy. Returns what sendmsg does. */
static ssize_t send_buffers(struct stele_conn *conn)
{
    struct iovec iov[IOV_MAX_HERE];
    uint8_t little[LITTLE_BYTES];
    size_t read = 0;
    int used = 0;
    for (; used < conn->count && used < IOV_MAX_HERE; used++) {
        const struct stele_piece *piece = piece_at(conn, used);
        if (piece->buf == NULL && !read_little(piece, little + read, sizeof(little) - read))
            break;
        iov[used].iov_base = piece->buf != NULL ? (void *)(uintptr_t)piece->at : little + read;
        iov[used].iov_len = piece->bytes;
        read += piece->buf == NULL ? piece->bytes : 0;
    }
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = (size_t)used};
    int more = used < conn->count ? MSG_MORE : 0;
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL | more);
}

static ssize_t send_file(struct stele_conn *conn)
{
    const struct stele_piece *piece = piece_at(conn, 0);
    struct stele_file *file = piece->file->file;
    int descriptor = file->vfs->ops->descriptor(file);
    off_t pos = (off_t)piece->pos;
    return sendfile(conn->fd, descriptor, &pos, stele_min_size(piece->bytes, SEND_BYTES_ROUND));
}

static void sent(struct stele_conn *conn, size_t count)
{
    STELE_ASSERT(count <= conn->queued_bytes);
    conn->queued_bytes -= count;
    while (count > 0) {
        struct stele_piece *piece = piece_at(conn, 0);
        size_t part = stele_min_size(count, piece->bytes);
        piece->at += piece->buf != NULL ? part : 0;
        piece->pos += (int64_t)part;
        piece->bytes -= part;
        count -= part;
        if (piece->bytes == 0)
            drop_front(conn);
    }
}

/* Sends what the socket takes. */
static void flush_conn(struct stele_conn *conn)
{
    size_t before = conn->queued_bytes, budget = SEND_BYTES_ROUND;
    while (conn->count > 0 && budget > 0) {
        bool is_file = piece_at(conn, 0)->buf == NULL;
        if (is_file && piece_at(conn, 0)->file->is_revoked) {
            stele_tcp__conn_lost(conn, STELE_CANCELLED);
            return;
        }
        ssize_t count = is_file ? send_file(conn) : send_buffers(conn);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (count <= 0) {                             /* a file that ends too early counts as one that cannot be read */
            if (count < 0 && is_file && errno == EIO) /* by what sendfile says of the file, not of the socket */
                piece_at(conn, 0)->file->is_bad = true;
            stele_tcp__conn_lost(conn, STELE_IO);
            return;
        }
        sent(conn, (size_t)count);
        budget -= stele_min_size(budget, (size_t)count);
    }
    if (conn->count > 0) {
        struct timeval linger = {.tv_sec = LINGER_S};
        if (event_add(&conn->write_event, conn->is_closing ? &linger : NULL) != 0)
            stele_tcp__conn_lost(conn, STELE_NO_MEMORY);
    } else if (conn->is_closing) {
        bury(conn);
    }
    if (conn->queued_bytes < before && !conn->is_closing)
        conn->handler->sent(conn->arg, conn->queued_bytes);
}

static void connected(struct stele_conn *conn)
{
    int failure = 0;
    socklen_t bytes = sizeof(failure);
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &failure, &bytes) != 0 || failure != 0) {
        if (stele_tcp__dial_next(conn) != STELE_OK)
            stele_tcp__conn_lost(conn, STELE_UNREACHABLE);
        return;
    }
    stele_tcp__dial_end(conn);
    conn->is_connecting = false;
    tcp_resume(conn);
    conn->handler->opened(conn->arg, STELE_OK);
    if (conn->count > 0)
        mark_dirty(conn);
}

static void write_ready(evutil_socket_t fd, short what, void *arg)
{
    struct stele_conn *conn = arg;
    (void)fd;
    stele_loop_woke(conn->tcp->loop);
    if (conn->is_dead)
        return;
    if ((what & EV_TIMEOUT) != 0)
        stele_tcp__conn_lost(conn, STELE_REQUEST_TIMED_OUT);
    else if (conn->is_connecting)
        connected(conn);
    else
        flush_conn(conn);
}

/* The end of an iteration: what was queued leaves, the dead are freed. */
static void run_dirty(struct stele_loop_hook *hook)
{
    struct stele_tcp *tcp = STELE_CONTAINER_OF(hook, struct stele_tcp, hook);
    while (!stele_list_is_empty(&tcp->dirty)) {
        struct stele_conn *conn = STELE_CONTAINER_OF(tcp->dirty.next, struct stele_conn, dirty_link);
        stele_list_remove(&conn->dirty_link);
        conn->is_dirty = false;
        if (conn->is_dead)
            conn_free(conn);
        else if (conn->is_moving)
            stele_tcp__move_away(conn);
        else if (!conn->is_connecting && !event_pending(&conn->write_event, EV_WRITE, NULL))
            flush_conn(conn);
    }
}

enum stele_err stele_tcp__conn_set_fd(struct stele_conn *conn, int fd)
{
    struct event_base *base = stele_loop_base(conn->tcp->loop);
    if (event_assign(&conn->read_event, base, fd, EV_READ | EV_PERSIST, stele_tcp__read_ready, conn) != 0 ||
        event_assign(&conn->write_event, base, fd, EV_WRITE, write_ready, conn) != 0)
        return STELE_NO_MEMORY;
    conn->fd = fd;
    int one = 1;
    if (fd >= 0) /* answers are whole: nothing to wait for */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return STELE_OK;
}

enum stele_err stele_tcp__conn_new(struct stele_tcp *tcp, int fd, struct stele_conn **out_conn)
{
    struct stele_conn *conn = stele_mem_alloc(tcp->mem, STELE_MEM_CONNECTION, sizeof(*conn));
    if (conn == NULL)
        return STELE_NO_MEMORY;
    conn->tcp = tcp;
    stele_list_init(&conn->dirty_link);
    if (stele_tcp__conn_set_fd(conn, fd) != STELE_OK) {
        stele_mem_free(tcp->mem, conn);
        return STELE_NO_MEMORY;
    }
    stele_list_push(&tcp->conns, &conn->link);
    tcp->count++;
    *out_conn = conn;
    return STELE_OK;
}

void stele_tcp__conn_start(struct stele_conn *conn)
{
    tcp_resume(conn);
}

void stele_tcp__conn_drop(struct stele_conn *conn)
{
    conn->is_closing = true;
    bury(conn);
}

static const struct stele_net_ops net_ops = {
    .connect = stele_tcp__connect,
    .send = tcp_send,
    .resume = tcp_resume,
    .close = tcp_close,
    .peer = tcp_peer,
    .move = stele_tcp__move,
};

struct stele_tcp *stele_tcp_new(struct stele_loop *loop)
{
    struct stele_mem *mem = stele_loop_env(loop)->mem;
    struct stele_tcp *tcp = stele_mem_alloc(mem, STELE_MEM_HOST, sizeof(*tcp));
    if (tcp == NULL)
        return NULL;
    tcp->net.ops = &net_ops;
    tcp->loop = loop;
    tcp->mem = mem;
    tcp->hook.run = run_dirty;
    stele_list_init(&tcp->conns);
    stele_list_init(&tcp->dirty);
    stele_list_init(&tcp->acceptors);
    stele_tcp__arrivals_init(tcp);
    stele_loop_add_hook(loop, &tcp->hook);
    return tcp;
}

void stele_tcp_free(struct stele_tcp *tcp)
{
    if (tcp == NULL)
        return;
    stele_tcp_unserve(tcp);
    stele_tcp__acceptors_free(tcp);
    stele_tcp__arrivals_end(tcp);
    while (!stele_list_is_empty(&tcp->conns)) {
        struct stele_conn *conn = STELE_CONTAINER_OF(tcp->conns.next, struct stele_conn, link);
        bury(conn);
        stele_list_remove(&conn->dirty_link);
        conn_free(conn);
    }
    stele_lookups_free(tcp->lookups);
    stele_list_remove(&tcp->hook.link);
    stele_mem_free(tcp->mem, tcp);
}

struct stele_net *stele_tcp_net(struct stele_tcp *tcp)
{
    return &tcp->net;
}

int stele_tcp_count(const struct stele_tcp *tcp)
{
    return tcp->count;
}
