#include "host/tcp_struct.h"

#include "base/check.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -1: this address does not take connections. */
static int start(const union stele_sockaddr *to)
{
    int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &to->any, stele_sockaddr_bytes(to)) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

/* Takes up a connection on `fd`, its own from here on. */
static enum stele_err take_up(struct stele_conn *conn, int fd)
{
    if (stele_tcp__conn_set_fd(conn, fd) != STELE_OK) {
        close(fd);
        return STELE_NO_MEMORY;
    }
    return event_add(&conn->write_event, NULL) == 0 ? STELE_OK : STELE_NO_MEMORY;
}

enum stele_err stele_tcp__dial_next(struct stele_conn *conn)
{
    struct stele_dial *dial = conn->dial;
    event_del(&conn->write_event);
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    while (dial->tried < dial->to.count) {
        int fd = start(&dial->to.at[dial->tried++]);
        if (fd >= 0)
            return take_up(conn, fd);
    }
    return STELE_UNREACHABLE;
}

void stele_tcp__dial_end(struct stele_conn *conn)
{
    if (conn->dial == NULL)
        return;
    if (conn->dial->lookup != NULL)
        stele_lookup_cancel(conn->dial->lookup);
    stele_mem_free(conn->tcp->mem, conn->dial);
    conn->dial = NULL;
}

static void looked_up(void *arg, const struct stele_addresses *addresses)
{
    struct stele_conn *conn = arg;
    STELE_ASSERT(!conn->is_dead && conn->is_connecting);
    conn->dial->lookup = NULL;
    conn->dial->to = *addresses;
    enum stele_err err = stele_tcp__dial_next(conn);
    if (err != STELE_OK)
        stele_tcp__conn_lost(conn, STELE_UNREACHABLE);
}

/* An IP address is gone to at once. So is a name where there are no lookups: then this waits. */
static enum stele_err dial(struct stele_conn *conn, const char *address)
{
    struct stele_tcp *tcp = conn->tcp;
    enum stele_err err = tcp->lookups == NULL ? stele_addresses_find(address, &conn->dial->to)
                                              : stele_addresses_read(address, &conn->dial->to);
    if (err == STELE_OK)
        return stele_tcp__dial_next(conn);
    if (err != STELE_UNREACHABLE || tcp->lookups == NULL)
        return err;
    return stele_lookup_start(tcp->lookups, address, looked_up, conn, &conn->dial->lookup);
}

enum stele_err stele_tcp__connect(struct stele_net *net, const char *address, const struct stele_conn_handler *handler,
                                  void *arg, struct stele_conn **out_conn)
{
    struct stele_tcp *tcp = STELE_CONTAINER_OF(net, struct stele_tcp, net);
    struct stele_conn *conn = NULL;
    enum stele_err err = stele_tcp__conn_new(tcp, -1, &conn);
    if (err != STELE_OK)
        return err;
    conn->handler = handler;
    conn->arg = arg;
    conn->is_connecting = true;
    (void)strncpy(conn->peer, address, sizeof(conn->peer) - 1);
    conn->dial = stele_mem_alloc(tcp->mem, STELE_MEM_CONNECTION, sizeof(*conn->dial));
    err = conn->dial == NULL ? STELE_NO_MEMORY : dial(conn, address);
    if (err != STELE_OK) {
        stele_tcp__conn_drop(conn);
        return err;
    }
    *out_conn = conn;
    return STELE_OK;
}

enum stele_err stele_tcp_look_up_aside(struct stele_tcp *tcp,
                                       enum stele_err (*find)(const char *address,
                                                              struct stele_addresses *out_addresses))
{
    STELE_ASSERT(tcp->lookups == NULL);
    tcp->lookups = stele_lookups_new(tcp->loop, find);
    return tcp->lookups != NULL ? STELE_OK : STELE_NO_MEMORY;
}
