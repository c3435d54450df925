#include "base/address.h"
#include "host/tcp_struct.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, ACCEPTS_A_ROUND = 64, RETRY_MS = 100 };

/* The first address that the name has; the caller frees it. Without a host every interface, of both families where
 * the machine has them. */
static enum stele_err resolve(const char *address, struct addrinfo **out_info)
{
    char host[STELE_HOST_BYTES], port[16];
    int32_t number = 0;
    enum stele_err err = stele_address_split(address, host, &number);
    if (err != STELE_OK)
        return err;
    (void)snprintf(port, sizeof(port), "%d", (int)number);
    struct addrinfo hints = {.ai_family = host[0] == 0 ? AF_INET6 : AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    return getaddrinfo(host[0] == 0 ? NULL : host, port, &hints, out_info) == 0 ? STELE_OK : STELE_UNREACHABLE;
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

/* -1: errno says why. */
static int bind_to(const struct addrinfo *info, bool is_both)
{
    int one = 1, zero = 0;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        (!is_both || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero)) == 0) &&
        bind(fd, info->ai_addr, info->ai_addrlen) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

enum stele_err stele_tcp_bind(const char *address, int *out_fd, int32_t *out_port, struct stele_error *error)
{
    struct addrinfo *info = NULL;
    bool is_every = address[0] == ':';
    enum stele_err err = resolve(address, &info);
    if (err == STELE_INVALID_ARGUMENT)
        return stele_error_set(error, err, "%s is no address: write HOST:PORT", address);
    int fd = err == STELE_OK ? bind_to(info, is_every) : -1, why = errno;
    if (err == STELE_OK)
        freeaddrinfo(info);
    if (fd < 0 && is_every && (err != STELE_OK || why == EAFNOSUPPORT || why == EADDRNOTAVAIL)) { /* no IPv6 here */
        char ipv4[STELE_ADDRESS_BYTES];
        (void)snprintf(ipv4, sizeof(ipv4), "0.0.0.0%.20s", address);
        return stele_tcp_bind(ipv4, out_fd, out_port, error);
    }
    if (err != STELE_OK)
        return stele_error_set(error, err, "the host of %s is not known", address);
    if (fd < 0)
        return stele_error_set(error, STELE_UNREACHABLE, "cannot listen on %s (%s): name another address with --listen",
                               address, why == EADDRINUSE ? "it is in use" : strerror(why));
    *out_fd = fd;
    *out_port = bound_port(fd);
    return STELE_OK;
}

static void name_peer(char out_peer[STELE_PEER_BYTES], const struct sockaddr *name, socklen_t bytes)
{
    char host[64], port[16];
    out_peer[0] = 0;
    if (getnameinfo(name, bytes, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        (void)snprintf(out_peer, STELE_PEER_BYTES, "%s:%s", host, port);
}

/* Closed here, unless it became a connection. */
static void take(struct stele_acceptor *acceptor, int fd, const struct sockaddr *name, socklen_t bytes)
{
    const struct stele_tcp_accept *accept = &acceptor->accept;
    struct stele_conn *conn = NULL;
    char peer[STELE_PEER_BYTES];
    struct stele_conn_ip ip = stele_conn_ip_of(name);
    enum stele_conn_refusal why = stele_conn_limits_enter(accept->limits, &ip, accept->may_pass);
    if (why != STELE_CONN_TAKEN) {
        close(fd);
        name_peer(peer, name, bytes);
        if (accept->refused != NULL)
            accept->refused(accept->arg, peer, why);
        return;
    }
    if (stele_tcp__conn_new(acceptor->tcp, fd, &conn) != STELE_OK) {
        stele_conn_limits_leave(accept->limits, &ip);
        close(fd);
        return;
    }
    conn->limits = accept->limits;
    conn->ip = ip;
    name_peer(conn->peer, name, bytes);
    if (accept->accepted(accept->arg, conn, &conn->handler, &conn->arg) != STELE_OK)
        stele_tcp__conn_drop(conn);
    else
        stele_tcp__conn_start(conn);
}

static void accept_ready(evutil_socket_t fd, short what, void *arg)
{
    struct stele_acceptor *acceptor = arg;
    (void)what;
    stele_loop_woke(acceptor->tcp->loop);
    for (int i = 0; i < ACCEPTS_A_ROUND && acceptor->is_serving; i++) {
        struct sockaddr_storage name;
        socklen_t bytes = sizeof(name);
        int taken = accept4((int)fd, (struct sockaddr *)&name, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (taken >= 0) {
            take(acceptor, taken, (struct sockaddr *)&name, bytes);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The pending connection stays readable: without a pause this would be a busy loop. */
            struct timeval after = {.tv_usec = RETRY_MS * 1000};
            event_del(&acceptor->event);
            (void)evtimer_add(&acceptor->retry, &after);
        }
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static void accept_again(evutil_socket_t fd, short what, void *arg)
{
    struct stele_acceptor *acceptor = arg;
    (void)fd;
    (void)what;
    if (acceptor->is_serving)
        (void)event_add(&acceptor->event, NULL);
}

enum stele_err stele_tcp_listen(int fd)
{
    return listen(fd, BACKLOG) == 0 ? STELE_OK : STELE_IO;
}

enum stele_err stele_tcp_serve(struct stele_tcp *tcp, const struct stele_tcp_accept *accept)
{
    struct event_base *base = stele_loop_base(tcp->loop);
    struct stele_acceptor *acceptor = stele_mem_alloc(tcp->mem, STELE_MEM_HOST, sizeof(*acceptor));
    if (acceptor == NULL)
        return STELE_NO_MEMORY;
    acceptor->tcp = tcp;
    acceptor->accept = *accept;
    if (event_assign(&acceptor->event, base, accept->fd, EV_READ | EV_PERSIST, accept_ready, acceptor) != 0 ||
        evtimer_assign(&acceptor->retry, base, accept_again, acceptor) != 0 || event_add(&acceptor->event, NULL) != 0) {
        stele_mem_free(tcp->mem, acceptor);
        return STELE_IO;
    }
    acceptor->is_serving = true;
    stele_list_push(&tcp->acceptors, &acceptor->link);
    return STELE_OK;
}

void stele_tcp_unserve(struct stele_tcp *tcp)
{
    for (struct stele_list *at = tcp->acceptors.next; at != &tcp->acceptors; at = at->next) {
        struct stele_acceptor *acceptor = STELE_CONTAINER_OF(at, struct stele_acceptor, link);
        acceptor->is_serving = false; /* it may be the one that is taking connections now */
        event_del(&acceptor->event);
        event_del(&acceptor->retry);
    }
}

void stele_tcp__acceptors_free(struct stele_tcp *tcp)
{
    while (!stele_list_is_empty(&tcp->acceptors)) {
        struct stele_acceptor *acceptor = STELE_CONTAINER_OF(tcp->acceptors.next, struct stele_acceptor, link);
        stele_list_remove(&acceptor->link);
        stele_mem_free(tcp->mem, acceptor);
    }
}
