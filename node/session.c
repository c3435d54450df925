/* One connection: frames in, answers out in the order of the requests. A frame's bytes go from the socket into one
 * buffer, where records stay until they are written to their segment. */
#include "base/check.h"
#include "node/node_struct.h"
#include "proto/frame.h"

#include <string.h>

enum { CALLS_MAX = 32, ARENA_BYTES_MAX = 64 << 20, SLICES_MAX = 1024 };

static void free_pending(struct stele_pending *pending)
{
    struct stele_node *node = pending->session->node;
    for (int i = 0; i < pending->slice_count; i++)
        stele_slice_release(&pending->slices[i]);
    stele_timer_cancel(node->wheel, &pending->timer);
    stele_list_remove(&pending->parked);
    stele_list_remove(&pending->link);
    stele_buf_unref(pending->frame);
    stele_arena_deinit(&pending->arena);
    stele_mem_free(node->mem, pending);
}

void stele_session_free(struct stele_session *session)
{
    while (!stele_list_is_empty(&session->calls))
        free_pending(STELE_CONTAINER_OF(session->calls.next, struct stele_pending, link));
    stele_buf_unref(session->incoming);
    stele_list_remove(&session->link);
    stele_mem_free(session->node->mem, session);
}

/* A closed session lives until its last request has come back. */
static void maybe_free(struct stele_session *session)
{
    if (session->conn != NULL || session->holds > 0)
        return;
    for (struct stele_list *at = session->calls.next; at != &session->calls;) {
        struct stele_pending *pending = STELE_CONTAINER_OF(at, struct stele_pending, link);
        at = at->next;
        if (pending->is_done) {
            session->call_count--;
            free_pending(pending);
        }
    }
    if (stele_list_is_empty(&session->calls))
        stele_session_free(session);
}

static void cut(struct stele_session *session, const char *why)
{
    struct stele_node *node = session->node;
    if (session->conn == NULL)
        return;
    stele_trace(node->data, STELE_TRACE_CONN_CLOSED, node->net->ops->peer(session->conn), why, 0, 0, 0);
    node->net->ops->close(session->conn, true);
    session->conn = NULL;
}

static enum stele_err send_answer(struct stele_session *session, struct stele_pending *pending)
{
    struct stele_piece pieces[SLICES_MAX + 1];
    struct stele_buf *frame = NULL;
    size_t records_bytes = 0;
    int count = 1;
    for (int i = 0; i < pending->slice_count; i++) {
        if (pending->slices[i].bytes == 0)
            continue;
        records_bytes += pending->slices[i].bytes;
        pieces[count++] = (struct stele_piece){.file = stele_cached_file_send(pending->slices[i].file),
                                               .pos = pending->slices[i].pos,
                                               .bytes = pending->slices[i].bytes};
    }
    enum stele_err err = stele_response_encode(&pending->arena, &pending->response, records_bytes, &frame);
    if (err != STELE_OK)
        return err;
    pieces[0] = (struct stele_piece){.buf = frame, .at = frame->bytes, .bytes = frame->count};
    err = session->node->net->ops->send(session->conn, pieces, count);
    stele_buf_unref(frame);
    return err;
}

/* Sends what is answered from the front of the queue. */
static void flush_answers(struct stele_session *session)
{
    while (session->conn != NULL && !stele_list_is_empty(&session->calls)) {
        struct stele_pending *pending = STELE_CONTAINER_OF(session->calls.next, struct stele_pending, link);
        if (!pending->is_done)
            return;
        enum stele_err err = pending->has_no_answer ? STELE_OK : send_answer(session, pending);
        free_pending(pending);
        session->call_count--;
        if (err != STELE_OK)
            cut(session, "an answer could not be sent");
    }
    if (session->conn != NULL && session->is_cut && stele_list_is_empty(&session->calls))
        cut(session, "the request before could not be understood");
    if (session->conn != NULL && session->is_paused && session->call_count < CALLS_MAX && !session->is_cut) {
        session->is_paused = false;
        session->node->net->ops->resume(session->conn);
    }
}

void stele_pending_done(struct stele_pending *pending)
{
    struct stele_session *session = pending->session;
    STELE_ASSERT(!pending->is_done);
    pending->is_done = true;
    flush_answers(session);
    maybe_free(session);
}

static void on_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct stele_session *session = arg;
    if (session->is_cut || session->call_count >= CALLS_MAX || session->node->refuses) {
        session->is_paused = true;
        *out_bytes = 0;
        return;
    }
    if (session->incoming == NULL) {
        *out_at = session->head + session->head_bytes;
        *out_bytes = STELE_FRAME_HEADER_BYTES - session->head_bytes;
        return;
    }
    *out_at = session->incoming->bytes + session->incoming->count;
    *out_bytes = session->incoming->capacity - session->incoming->count;
}

/* A parked fetch is answered when a request queues behind it. */
static void hurry_parked(struct stele_session *session)
{
    for (struct stele_list *at = session->calls.next; at != &session->calls; at = at->next) {
        struct stele_pending *pending = STELE_CONTAINER_OF(at, struct stele_pending, link);
        if (!stele_list_is_empty(&pending->parked)) {
            stele_fetch_finish(pending);
            return;
        }
    }
}

static void park_timer(struct stele_timer *timer)
{
    stele_fetch_finish(STELE_CONTAINER_OF(timer, struct stele_pending, timer));
}

static void take_frame(struct stele_session *session)
{
    struct stele_node *node = session->node;
    struct stele_buf *frame = session->incoming;
    session->incoming = NULL;
    session->head_bytes = 0;
    struct stele_pending *pending = stele_mem_alloc(node->mem, STELE_MEM_REQUEST, sizeof(*pending));
    if (pending == NULL) {
        stele_buf_unref(frame);
        cut(session, "memory is short");
        return;
    }
    pending->session = session;
    pending->frame = frame;
    pending->records = frame->bytes + session->message_bytes;
    pending->records_bytes = frame->count - session->message_bytes;
    stele_arena_init(&pending->arena, node->mem, STELE_MEM_REQUEST, ARENA_BYTES_MAX);
    stele_list_init(&pending->link);
    stele_list_init(&pending->parked);
    stele_timer_init(&pending->timer, park_timer);
    stele_list_push(&session->calls, &pending->link);
    session->call_count++;
    enum stele_err err = stele_request_decode(&pending->arena, frame->bytes, session->message_bytes, &pending->request);
    pending->response.header = (struct stele_response_header){.api = pending->request.header.api,
                                                              .version = pending->request.header.version,
                                                              .correlation_id = pending->request.header.correlation_id};
    if (err != STELE_OK) {
        stele_trace(node->data, STELE_TRACE_CONN_REFUSED, node->net->ops->peer(session->conn), stele_err_text(err), 0,
                    0, 0);
        session->is_cut = true;
        pending->has_no_answer = true;
        stele_pending_done(pending);
        return;
    }
    stele_dispatch(pending);
}

static void take_header(struct stele_session *session)
{
    struct stele_node *node = session->node;
    struct stele_frame_header header;
    enum stele_err err = stele_frame_header_read(session->head, node->frame_bytes_max, &header);
    if (err == STELE_OK) {
        session->message_bytes = header.message_bytes;
        session->incoming = stele_buf_new(node->mem, STELE_MEM_CONNECTION, header.frame_bytes - 4);
        err = session->incoming == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    if (err != STELE_OK) {
        const char *guess = stele_frame_guess(session->head, STELE_FRAME_HEADER_BYTES);
        stele_trace(node->data, STELE_TRACE_CONN_REFUSED, node->net->ops->peer(session->conn),
                    guess != NULL ? guess : stele_err_text(err), 0, 0, 0);
        session->is_cut = true;
        flush_answers(session);
    } else if (session->incoming->capacity == 0) {
        take_frame(session);
    }
}

static void on_received(void *arg, size_t count)
{
    struct stele_session *session = arg;
    session->holds++;
    if (session->incoming != NULL) {
        session->incoming->count += count;
        if (session->incoming->count == session->incoming->capacity) {
            hurry_parked(session);
            take_frame(session);
        }
    } else {
        session->head_bytes += count;
        if (session->head_bytes == STELE_FRAME_HEADER_BYTES)
            take_header(session);
    }
    session->holds--;
    maybe_free(session);
}

static void on_closed(void *arg, enum stele_err why)
{
    struct stele_session *session = arg;
    (void)why;
    session->conn = NULL;
    session->holds++;
    hurry_parked(session);
    session->holds--;
    maybe_free(session);
}

static void on_opened(void *arg, enum stele_err err)
{
    (void)arg;
    (void)err;
}

static void on_sent(void *arg, size_t queued_bytes)
{
    (void)arg;
    (void)queued_bytes;
}

static const struct stele_conn_handler handler = {
    .opened = on_opened, .space = on_space, .received = on_received, .sent = on_sent, .closed = on_closed};

enum stele_err stele_node_accept(struct stele_node *node, int shard, struct stele_conn *conn,
                                 const struct stele_conn_handler **out_handler, void **out_arg)
{
    STELE_ASSERT(shard == STELE_SHARD_DATA);
    if (node->refuses)
        return STELE_CLOSED;
    struct stele_session *session = stele_mem_alloc(node->mem, STELE_MEM_CONNECTION, sizeof(*session));
    if (session == NULL)
        return STELE_NO_MEMORY;
    session->node = node;
    session->conn = conn;
    stele_list_init(&session->calls);
    stele_list_init(&session->link);
    stele_list_push(&node->sessions, &session->link);
    *out_handler = &handler;
    *out_arg = session;
    return STELE_OK;
}

void stele_session_stop_all(struct stele_node *node)
{
    for (struct stele_list *at = node->sessions.next; at != &node->sessions;) {
        struct stele_session *session = STELE_CONTAINER_OF(at, struct stele_session, link);
        at = at->next;
        session->is_cut = true;
        session->holds++;
        hurry_parked(session);
        flush_answers(session);
        if (session->conn != NULL && stele_list_is_empty(&session->calls))
            cut(session, "the node stops");
        session->holds--;
        maybe_free(session);
    }
}
