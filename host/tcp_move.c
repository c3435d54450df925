/* Connections that go from one loop to another. The loop that has one lets go of it at the end of its iteration, when
 * nobody up the stack looks at it any more; from then on it is in the arrivals of the other, and that loop's. */
#include "host/tcp_struct.h"

#include "base/check.h"
#include "host/loop.h"

void stele_tcp__move(struct stele_conn *conn, struct stele_net *to, const struct stele_conn_taker *taker)
{
    struct stele_tcp *tcp = conn->tcp;
    STELE_ASSERT(!conn->is_closing && !conn->is_moving && !conn->is_connecting && conn->count == 0);
    if (conn->is_dead)
        return;
    conn->is_moving = true;
    conn->is_reading = false;
    conn->moves_to = STELE_CONTAINER_OF(to, struct stele_tcp, net);
    conn->taker = *taker;
    STELE_ASSERT(conn->moves_to != tcp && conn->moves_to->mem == tcp->mem);
    event_del(&conn->read_event);
    event_del(&conn->write_event);
    if (!conn->is_dirty)
        stele_list_push(&tcp->dirty, &conn->dirty_link);
    conn->is_dirty = true;
}

void stele_tcp__move_away(struct stele_conn *conn)
{
    struct stele_tcp *to = conn->moves_to;
    stele_list_remove(&conn->link);
    conn->tcp->count--;
    conn->tcp = to;
    pthread_mutex_lock(&to->arrivals_lock);
    bool is_told = to->are_arrivals_told;
    to->are_arrivals_told = true;
    stele_list_push(&to->arrivals, &conn->link);
    pthread_mutex_unlock(&to->arrivals_lock);
    struct stele_env *env = stele_loop_env(to->loop);
    if (!is_told)
        env->ops->post(env, &to->arrivals_task);
}

static struct stele_conn *next_arrival(struct stele_tcp *tcp)
{
    struct stele_conn *conn = NULL;
    pthread_mutex_lock(&tcp->arrivals_lock);
    if (!stele_list_is_empty(&tcp->arrivals)) {
        conn = STELE_CONTAINER_OF(tcp->arrivals.next, struct stele_conn, link);
        stele_list_remove(&conn->link);
    } else {
        tcp->are_arrivals_told = false;
    }
    pthread_mutex_unlock(&tcp->arrivals_lock);
    return conn;
}

/* Its events are of the loop that it left, which may be gone. */
static void take_in(struct stele_tcp *tcp, struct stele_conn *conn)
{
    stele_list_push(&tcp->conns, &conn->link);
    tcp->count++;
    conn->is_moving = false;
    if (stele_tcp__conn_set_fd(conn, conn->fd) != STELE_OK)
        conn->is_lost = true;
}

static void arrived(struct stele_task *task)
{
    struct stele_tcp *tcp = STELE_CONTAINER_OF(task, struct stele_tcp, arrivals_task);
    for (struct stele_conn *conn = next_arrival(tcp); conn != NULL; conn = next_arrival(tcp)) {
        take_in(tcp, conn);
        if (conn->taker.taken(conn->taker.arg, conn, &conn->handler, &conn->arg) != STELE_OK)
            stele_tcp__conn_drop(conn);
        else if (conn->is_lost)
            stele_tcp__conn_lost(conn, STELE_NO_MEMORY);
        else
            stele_tcp__conn_start(conn);
    }
}

void stele_tcp__arrivals_init(struct stele_tcp *tcp)
{
    pthread_mutex_init(&tcp->arrivals_lock, NULL);
    stele_list_init(&tcp->arrivals);
    tcp->arrivals_task.run = arrived;
}

void stele_tcp__arrivals_end(struct stele_tcp *tcp)
{
    for (struct stele_conn *conn = next_arrival(tcp); conn != NULL; conn = next_arrival(tcp))
        take_in(tcp, conn);
    pthread_mutex_destroy(&tcp->arrivals_lock);
}
