#include "host/tcp_struct.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, ACCEPTS_A_ROUND = 64, RETRY_MS = 100 };

enum stele_err stele_tcp_address_split(const char *address, char out_host[256], char out_port[16])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon[1] == 0 || strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return STELE_INVALID_ARGUMENT;
    if (strtol(colon + 1, NULL, 10) > UINT16_MAX)
        return STELE_INVALID_ARGUMENT;
    const char *from = address;
    size_t bytes = (size_t)(colon - address);
    if (bytes >= 2 && from[0] == '[' && from[bytes - 1] == ']') {
        from++;
        bytes -= 2;
    }
    if (bytes == 0 || bytes >= 256)
        return STELE_INVALID_ARGUMENT;
    memcpy(out_host, from, bytes);
    out_host[bytes] = 0;
    memcpy(out_port, colon + 1, strlen(colon + 1) + 1);
    return STELE_OK;
}

/* The first address that the name has; the caller frees it. */
static enum stele_err resolve(const char *address, int flags, struct addrinfo **out_info)
{
    char host[256], port[16];
    enum stele_err err = stele_tcp_address_split(address, host, port);
    if (err != STELE_OK)
        return err;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    return getaddrinfo(host, port, &hints, out_info) == 0 ? STELE_OK : STELE_UNREACHABLE;
}

static int bound_port(int fd)
{
    struct sockaddr_storage name;
    socklen_t bytes = sizeof(name);
    char port[16];
    if (getsockname(fd, (struct sockaddr *)&name, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&name, bytes, NULL, 0, port, sizeof(port), NI_NUMERICSERV) != 0)
        return 0;
    return (int)strtol(port, NULL, 10);
}

enum stele_err stele_tcp_bind(const char *address, int *out_fd, int32_t *out_port, struct stele_error *error)
{
    struct addrinfo *info = NULL;
    enum stele_err err = resolve(address, AI_PASSIVE, &info);
    if (err == STELE_INVALID_ARGUMENT)
        return stele_error_set(error, err, "%s is no address: write HOST:PORT", address);
    if (err != STELE_OK)
        return stele_error_set(error, err, "the host of %s is not known", address);
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    bool is_good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                   bind(fd, info->ai_addr, info->ai_addrlen) == 0;
    int why = errno;
    freeaddrinfo(info);
    if (!is_good) {
        if (fd >= 0)
            close(fd);
        return stele_error_set(error, STELE_UNREACHABLE, "cannot listen on %s (%s): name another address with --listen",
                               address, why == EADDRINUSE ? "it is in use" : strerror(why));
    }
    *out_fd = fd;
    *out_port = bound_port(fd);
    return STELE_OK;
}

enum stele_err stele_tcp__connect_start(const char *address, int *out_fd)
{
    struct addrinfo *info = NULL;
    enum stele_err err = resolve(address, 0, &info);
    if (err != STELE_OK)
        return err;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is_good = fd >= 0 && (connect(fd, info->ai_addr, info->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(info);
    if (!is_good) {
        if (fd >= 0)
            close(fd);
        return STELE_UNREACHABLE;
    }
    *out_fd = fd;
    return STELE_OK;
}

static void name_peer(struct stele_conn *conn, const struct sockaddr *name, socklen_t bytes)
{
    char host[64], port[16];
    if (getnameinfo(name, bytes, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    (void)snprintf(conn->peer, sizeof(conn->peer), "%s:%s", host, port);
}

static void take(struct stele_tcp *tcp, int fd, const struct sockaddr *name, socklen_t bytes)
{
    struct stele_conn *conn = NULL;
    if (atomic_load(tcp->accept.open_count) >= tcp->accept.open_max ||
        stele_tcp__conn_new(tcp, fd, &conn) != STELE_OK) {
        close(fd);
        return;
    }
    atomic_fetch_add(tcp->accept.open_count, 1);
    conn->open_count = tcp->accept.open_count;
    name_peer(conn, name, bytes);
    if (tcp->accept.accepted(tcp->accept.arg, conn, &conn->handler, &conn->arg) != STELE_OK)
        stele_tcp__conn_drop(conn);
    else
        stele_tcp__conn_start(conn);
}

static void accept_ready(evutil_socket_t fd, short what, void *arg)
{
    struct stele_tcp *tcp = arg;
    (void)what;
    stele_loop_woke(tcp->loop);
    for (int i = 0; i < ACCEPTS_A_ROUND && tcp->is_serving; i++) {
        struct sockaddr_storage name;
        socklen_t bytes = sizeof(name);
        int taken = accept4((int)fd, (struct sockaddr *)&name, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (taken >= 0) {
            take(tcp, taken, (struct sockaddr *)&name, bytes);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The pending connection stays readable: without a pause this would be a busy loop. */
            struct timeval after = {.tv_usec = RETRY_MS * 1000};
            event_del(&tcp->accept_event);
            (void)evtimer_add(&tcp->accept_retry, &after);
        }
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static void accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct stele_tcp *tcp = arg;
    (void)fd;
    (void)what;
    if (tcp->is_serving)
        (void)event_add(&tcp->accept_event, NULL);
}

enum stele_err stele_tcp_listen(int fd)
{
    return listen(fd, BACKLOG) == 0 ? STELE_OK : STELE_IO;
}

enum stele_err stele_tcp_serve(struct stele_tcp *tcp, const struct stele_tcp_accept *accept)
{
    struct event_base *base = stele_loop_base(tcp->loop);
    tcp->accept = *accept;
    if (event_assign(&tcp->accept_event, base, accept->fd, EV_READ | EV_PERSIST, accept_ready, tcp) != 0 ||
        evtimer_assign(&tcp->accept_retry, base, accept_again, tcp) != 0 || event_add(&tcp->accept_event, NULL) != 0)
        return STELE_IO;
    tcp->is_serving = true;
    return STELE_OK;
}

void stele_tcp_unserve(struct stele_tcp *tcp)
{
    if (!tcp->is_serving)
        return;
    tcp->is_serving = false;
    event_del(&tcp->accept_event);
    event_del(&tcp->accept_retry);
}
