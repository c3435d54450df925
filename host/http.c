/* Invariants
 *  1. A connection is read until its head is whole, then never again; it is closed when its answer is made.
 *  2. The node's answer to a question finds the connection by it, or NULL when that is gone. */
#include "host/http.h"

#include "base/buf.h"
#include "base/list.h"
#include "host/clock.h"
#include "host/http_head.h"
#include "host/tcp.h"
#include "node/node.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

enum { CONNECTIONS_MAX = 64, DEADLINE_S = 10, HEAD_BYTES_MAX = 4096, ANSWER_HEAD_BYTES = 512 };

struct stele_http {
    struct stele_mem *mem;
    struct stele_loop *loop;
    struct stele_node *node;
    struct stele_tcp *tcp;
    struct event *sweep; /* closes who is late; armed while there are connections */
    struct stele_list conns, questions;
    struct stele_conn_limits *limits;
};

struct http_conn {
    struct stele_list link;
    struct stele_http *http;
    struct stele_conn *conn;
    struct question *question; /* NULL: none is under way */
    bool is_head;
    int64_t deadline_us;
    size_t got;
    char bytes[HEAD_BYTES_MAX];
};

/* Metrics that are being gathered. */
struct question {
    struct stele_list link;
    struct http_conn *conn; /* NULL: nobody waits any more */
    struct stele_http *http;
};

static void conn_free(struct http_conn *conn)
{
    if (conn->question != NULL)
        conn->question->conn = NULL;
    stele_list_remove(&conn->link);
    stele_mem_free(conn->http->mem, conn);
}

static void question_free(struct question *question)
{
    stele_list_remove(&question->link);
    stele_mem_free(question->http->mem, question);
}

static const char *reason_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "";
    }
}

/* Sends and closes; the connection is gone after it. Without memory it is just closed. */
static void answer(struct http_conn *conn, int status, const char *type, struct stele_buf *body)
{
    const struct stele_net_ops *ops = stele_tcp_net(conn->http->tcp)->ops;
    struct stele_buf *head = stele_buf_new(conn->http->mem, STELE_MEM_HOST, ANSWER_HEAD_BYTES);
    if (head != NULL) {
        int bytes = snprintf((char *)head->bytes, head->capacity,
                             "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                             "%sConnection: close\r\n\r\n",
                             status, reason_of(status), type, body->count, status == 405 ? "Allow: GET, HEAD\r\n" : "");
        head->count = (size_t)bytes;
        struct stele_piece pieces[2] = {{.buf = head, .at = head->bytes, .bytes = head->count},
                                        {.buf = body, .at = body->bytes, .bytes = body->count}};
        (void)ops->send(conn->conn, pieces, conn->is_head ? 1 : 2);
    }
    stele_buf_unref(head);
    ops->close(conn->conn, head != NULL);
    conn_free(conn);
}

static void answer_text(struct http_conn *conn, int status, const char *text)
{
    size_t bytes = strlen(text);
    struct stele_buf *body = stele_buf_new(conn->http->mem, STELE_MEM_HOST, bytes + 1);
    if (body == NULL) {
        stele_tcp_net(conn->http->tcp)->ops->close(conn->conn, false);
        conn_free(conn);
        return;
    }
    memcpy(body->bytes, text, bytes);
    body->bytes[bytes] = '\n';
    body->count = bytes + 1;
    answer(conn, status, "text/plain; charset=utf-8", body);
    stele_buf_unref(body);
}

static void gathered(void *arg, struct stele_buf *text)
{
    struct question *question = arg;
    struct http_conn *conn = question->conn;
    question_free(question);
    if (conn != NULL) {
        conn->question = NULL;
        if (text != NULL)
            answer(conn, 200, "text/plain; version=0.0.4; charset=utf-8", text);
        else
            answer_text(conn, 503, "memory ran out");
    }
    stele_buf_unref(text);
}

static void ask_metrics(struct http_conn *conn)
{
    struct stele_http *http = conn->http;
    struct question *question = stele_mem_alloc(http->mem, STELE_MEM_HOST, sizeof(*question));
    if (question != NULL) {
        *question = (struct question){.http = http, .conn = conn};
        stele_list_push(&http->questions, &question->link);
        conn->question = question;
        if (stele_node_metrics(http->node, gathered, question) == STELE_OK)
            return;
        conn->question = NULL;
        question_free(question);
    }
    answer_text(conn, 503, "memory ran out");
}

static void dispatch(struct http_conn *conn, const struct stele_http_head *head)
{
    char why[STELE_ERROR_TEXT_BYTES];
    conn->is_head = head->is_head;
    if (head->status != 200)
        answer_text(conn, head->status, head->status == 405 ? "only GET and HEAD" : reason_of(head->status));
    else if (strcmp(head->path, "/metrics") == 0)
        ask_metrics(conn);
    else if (strcmp(head->path, "/healthz") == 0)
        answer_text(conn, 200, "alive");
    else if (strcmp(head->path, "/readyz") != 0)
        answer_text(conn, 404, "there are /healthz, /readyz and /metrics");
    else if (stele_node_is_serving(conn->http->node, why))
        answer_text(conn, 200, "serving");
    else
        answer_text(conn, 503, why);
}

/* The connection's calls. */

static void conn_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct http_conn *conn = arg;
    *out_at = (uint8_t *)conn->bytes + conn->got;
    *out_bytes = conn->question != NULL ? 0 : sizeof(conn->bytes) - conn->got;
}

static void conn_received(void *arg, size_t count)
{
    struct http_conn *conn = arg;
    struct stele_http_head head;
    conn->got += count;
    if (stele_http_head_read(conn->bytes, conn->got, &head))
        dispatch(conn, &head);
    else if (conn->got == sizeof(conn->bytes))
        answer_text(conn, 431, reason_of(431));
}

static void conn_sent(void *arg, size_t queued_bytes)
{
    (void)arg; /* it is closed by then */
    (void)queued_bytes;
}

static void conn_closed(void *arg, enum stele_err why)
{
    (void)why;
    conn_free(arg);
}

static const struct stele_conn_handler handler = {
    .space = conn_space, .received = conn_received, .sent = conn_sent, .closed = conn_closed};

static void arm_sweep(struct stele_http *http)
{
    struct timeval second = {.tv_sec = 1};
    if (!stele_list_is_empty(&http->conns) && event_pending(http->sweep, EV_TIMEOUT, NULL) == 0)
        (void)event_add(http->sweep, &second); /* without memory the next connection tries again */
}

static void sweep(evutil_socket_t fd, short what, void *arg)
{
    struct stele_http *http = arg;
    int64_t now_us = stele_clock_mono_us();
    (void)fd;
    (void)what;
    stele_loop_woke(http->loop);
    for (struct stele_list *at = http->conns.next; at != &http->conns;) {
        struct http_conn *conn = STELE_CONTAINER_OF(at, struct http_conn, link);
        at = at->next;
        if (conn->deadline_us > now_us)
            continue;
        stele_tcp_net(http->tcp)->ops->close(conn->conn, false);
        conn_free(conn);
    }
    arm_sweep(http);
}

static enum stele_err accepted(void *arg, struct stele_conn *conn, const struct stele_conn_handler **out_handler,
                               void **out_arg)
{
    struct stele_http *http = arg;
    struct http_conn *taken = stele_mem_alloc(http->mem, STELE_MEM_HOST, sizeof(*taken));
    if (taken == NULL)
        return STELE_NO_MEMORY;
    taken->http = http;
    taken->conn = conn;
    taken->deadline_us = stele_clock_mono_us() + (int64_t)DEADLINE_S * 1000000;
    stele_list_push(&http->conns, &taken->link);
    arm_sweep(http);
    *out_handler = &handler;
    *out_arg = taken;
    return STELE_OK;
}

enum stele_err stele_http_new(const struct stele_http_options *options, struct stele_http **out_http)
{
    struct stele_http *http = stele_mem_alloc(options->mem, STELE_MEM_HOST, sizeof(*http));
    if (http == NULL)
        return STELE_NO_MEMORY;
    http->mem = options->mem;
    http->loop = options->loop;
    http->node = options->node;
    stele_list_init(&http->conns);
    stele_list_init(&http->questions);
    http->tcp = stele_tcp_new(options->loop);
    http->sweep = evtimer_new(stele_loop_base(options->loop), sweep, http);
    http->limits = stele_conn_limits_new(options->mem);
    struct stele_tcp_accept accept = {.fd = options->fd, .accepted = accepted, .arg = http, .limits = http->limits};
    bool is_whole = http->tcp != NULL && http->sweep != NULL && http->limits != NULL;
    enum stele_err err = is_whole ? stele_tcp_listen(options->fd) : STELE_NO_MEMORY;
    if (err == STELE_OK)
        stele_conn_limits_set_max(http->limits, CONNECTIONS_MAX);
    if (err == STELE_OK)
        err = stele_tcp_serve(http->tcp, &accept);
    if (err != STELE_OK) {
        stele_http_free(http);
        return err;
    }
    *out_http = http;
    return STELE_OK;
}

void stele_http_free(struct stele_http *http)
{
    if (http == NULL)
        return;
    stele_tcp_free(http->tcp);
    while (!stele_list_is_empty(&http->conns))
        conn_free(STELE_CONTAINER_OF(http->conns.next, struct http_conn, link));
    while (!stele_list_is_empty(&http->questions))
        question_free(STELE_CONTAINER_OF(http->questions.next, struct question, link));
    stele_conn_limits_free(http->limits);
    if (http->sweep != NULL)
        event_free(http->sweep);
    stele_mem_free(http->mem, http);
}

enum stele_err stele_http_address(const char *setting, char out_address[300])
{
    const char *port = setting[0] == ':' ? setting + 1 : setting;
    bool is_port = strspn(port, "0123456789") == strlen(port);
    int bytes = snprintf(out_address, 300, "%s%s", is_port ? "127.0.0.1:" : "", is_port ? port : setting);
    return bytes < 300 ? STELE_OK : STELE_INVALID_ARGUMENT;
}
