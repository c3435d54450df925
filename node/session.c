/* Invariants
 *  1. Answers leave in the order of their requests: only the head of `calls` is ever sent.
 *  2. A frame's memory is taken after its lengths were checked against the limits.
 *  3. `refs` counts the connection, every call and every caller on the stack; the last one frees.
 * States: reading (paused == 0) <-> paused, -> cut (nothing is read any more) -> closed (conn == NULL). */
#include "node/session.h"

#include "base/check.h"
#include "node/node_struct.h"
#include "node/observe.h"
#include "node/replica_session.h"

#include <string.h>

enum {
    CALLS_MAX = 64,                  /* without an answer, of one connection */
    CALL_BYTES_MAX = 32 << 20,       /* of their frames; a larger one is taken alone */
    QUEUED_BYTES_MAX = 8 << 20,      /* that the peer has not taken, before no more is read */
    MEMORY_RETRY_MS = 10,            /* until memory is looked at again */
    MEMORY_PERCENT_MAX = 80,         /* of memory.limit, before reading stops */
    ARENA_BYTES_MAX = 64 << 20,      /* of one request: message, answer, operations */
    HELLO_FRAME_BYTES_MAX = 1 << 20, /* of the first frame, from a stranger */
};

void stele_session_unref(struct stele_session *session)
{
    STELE_ASSERT(session->refs > 0);
    if (--session->refs > 0)
        return;
    struct stele_shard *shard = session->shard;
    STELE_ASSERT(stele_list_is_empty(&session->calls) && session->conn == NULL);
    stele_timer_cancel(shard->wheel, &session->idle_timer);
    stele_timer_cancel(shard->wheel, &session->memory_timer);
    stele_buf_unref(session->frame);
    stele_replica_session_end(session->replica);
    stele_list_remove(&session->link);
    shard->session_count--;
    stele_mem_free(shard->env->mem, session);
    stele_shard_check_stopped(shard);
}

static void call_free(struct stele_server_call *call)
{
    struct stele_session *session = call->session;
    struct stele_mem *mem = call->shard->env->mem;
    stele_list_remove(&call->link);
    session->call_count--;
    session->call_bytes -= call->frame->capacity;
    if (call->release != NULL)
        call->release(call);
    stele_buf_unref(call->frame);
    stele_arena_deinit(&call->arena);
    stele_mem_free(mem, call);
    stele_session_unref(session);
}

static struct stele_server_call *first_call(struct stele_session *session)
{
    return STELE_CONTAINER_OF(session->calls.next, struct stele_server_call, link);
}

/* The connection is gone or goes now. Calls under way end by themselves. */
static void forget_conn(struct stele_session *session, const char *why)
{
    struct stele_shard *shard = session->shard;
    session->conn = NULL;
    session->paused |= STELE_PAUSE_STOP;
    stele_timer_cancel(shard->wheel, &session->idle_timer);
    stele_timer_cancel(shard->wheel, &session->memory_timer);
    stele_trace(shard->env, STELE_TRACE_CONN_CLOSED, NULL, why, session->id, 0, 0);
    if (session->life_node_id != STELE_NO_NODE)
        stele_session_life_closed(session);
    struct stele_list *at = session->calls.next;
    while (at != &session->calls) { /* nobody waits for the answers: parked ones end now, done ones go */
        struct stele_server_call *call = STELE_CONTAINER_OF(at, struct stele_server_call, link);
        at = at->next;
        if (call->is_done)
            call_free(call);
        else
            call->is_hurried = true;
    }
    for (at = session->calls.next; at != &session->calls;) {
        struct stele_server_call *call = STELE_CONTAINER_OF(at, struct stele_server_call, link);
        at = at->next;
        if (call->hurry != NULL)
            call->hurry(call);
    }
}

static void close_conn(struct stele_session *session, const char *why, bool flush)
{
    if (session->conn == NULL)
        return;
    session->shard->net->ops->close(session->conn, flush);
    forget_conn(session, why);
    stele_session_unref(session); /* the connection's */
}

/* Reads nothing any more; closes when the answers under way are sent. */
static void cut(struct stele_session *session, const char *why)
{
    if (session->is_cut)
        return;
    session->is_cut = true;
    session->close_why = why;
    session->paused |= STELE_PAUSE_STOP;
    struct stele_list *at = session->calls.next;
    while (at != &session->calls) {
        struct stele_server_call *call = STELE_CONTAINER_OF(at, struct stele_server_call, link);
        at = at->next;
        if (!call->is_done && !call->is_hurried) {
            call->is_hurried = true;
            if (call->hurry != NULL)
                call->hurry(call);
        }
    }
    if (stele_list_is_empty(&session->calls))
        close_conn(session, why, true);
}

static void unpause(struct stele_session *session, unsigned reasons)
{
    session->paused &= ~reasons;
    if (session->paused == 0 && session->is_waiting && session->conn != NULL) {
        session->is_waiting = false;
        session->shard->net->ops->resume(session->conn);
    }
}

static bool memory_is_short(const struct stele_mem *mem)
{
    return mem->limit_bytes > 0 && mem->total_bytes > mem->limit_bytes / 100 * MEMORY_PERCENT_MAX;
}

static void pause_for_memory(struct stele_session *session)
{
    struct stele_shard *shard = session->shard;
    if ((session->paused & STELE_PAUSE_MEMORY) == 0)
        STELE_METRIC_ADD(shard->env->metrics, memory_pauses, 1);
    session->paused |= STELE_PAUSE_MEMORY;
    stele_shard_arm(shard, &session->memory_timer, stele_env_mono_ms(shard->env) + MEMORY_RETRY_MS);
}

static void memory_fired(struct stele_timer *timer)
{
    struct stele_session *session = STELE_CONTAINER_OF(timer, struct stele_session, memory_timer);
    if (memory_is_short(session->shard->env->mem))
        pause_for_memory(session);
    else
        unpause(session, STELE_PAUSE_MEMORY);
}

static void idle_fired(struct stele_timer *timer)
{
    struct stele_session *session = STELE_CONTAINER_OF(timer, struct stele_session, idle_timer);
    struct stele_shard *shard = session->shard;
    int64_t now_ms = stele_env_mono_ms(shard->env), due_ms = session->active_ms + shard->node->limits.idle_ms;
    if (!stele_list_is_empty(&session->calls))
        due_ms = now_ms + shard->node->limits.idle_ms;
    if (due_ms <= now_ms)
        close_conn(session, "it was silent for connections.max.idle.ms", false);
    else
        stele_shard_arm(shard, timer, due_ms);
}

/* Answers. */

/* False when the connection cannot go on. */
static bool send_answer(struct stele_session *session, struct stele_server_call *call)
{
    struct stele_buf *frame = NULL;
    struct stele_request_header *header = &call->request.header;
    call->response.header.api = header->api;
    call->response.header.version = header->version;
    call->response.header.correlation_id = header->correlation_id;
    call->response.header.metadata_offset = call->tells_offset ? session->shard->node->control.mlog.applied_offset : 0;
    enum stele_err err = stele_response_encode(&call->arena, &call->response, call->piece_bytes, &frame);
    if (err != STELE_OK)
        return false;
    const struct stele_net_ops *ops = session->shard->net->ops;
    struct stele_piece piece = {.buf = frame, .at = frame->bytes, .bytes = frame->count};
    err = ops->send(session->conn, &piece, 1);
    stele_buf_unref(frame);
    if (err == STELE_OK && call->piece_count > 0)
        err = ops->send(session->conn, call->pieces, call->piece_count);
    /* Counted here too: of a peer that takes nothing at all `sent` never hears. */
    session->queued_bytes += piece.bytes + call->piece_bytes;
    STELE_METRIC_ADD(session->shard->env->metrics, sent_bytes, piece.bytes + call->piece_bytes);
    if (session->queued_bytes >= QUEUED_BYTES_MAX)
        session->paused |= STELE_PAUSE_SENDS;
    return err == STELE_OK;
}

static void send_answers(struct stele_session *session)
{
    if (session->is_flushing)
        return; /* an answer ended while others are being sent: the loop below sees it */
    session->is_flushing = true;
    session->refs++;
    while (session->conn != NULL && !stele_list_is_empty(&session->calls) && first_call(session)->is_done) {
        struct stele_server_call *call = first_call(session);
        const char *close_why = call->close_why;
        if (!call->has_no_answer && !send_answer(session, call))
            close_why = call->close_why = "an answer could not be made";
        stele_observe_answer(call);
        if (call->request.header.api == STELE_API_HELLO && close_why == NULL)
            session->is_greeted = true;
        call_free(call);
        if (close_why != NULL)
            close_conn(session, close_why, true);
    }
    session->is_flushing = false;
    if (session->call_count < CALLS_MAX && session->call_bytes < CALL_BYTES_MAX)
        unpause(session, STELE_PAUSE_CALLS);
    if (session->is_cut && stele_list_is_empty(&session->calls))
        close_conn(session, session->close_why, true);
    stele_session_unref(session);
}

void stele_server_call_done(struct stele_server_call *call)
{
    struct stele_session *session = call->session;
    STELE_ASSERT(!call->is_done);
    call->is_done = true;
    call->done_us = stele_env_mono_us(call->shard->env);
    call->hurry = NULL;
    if (session->conn == NULL)
        call_free(call);
    else if (first_call(session) == call)
        send_answers(session);
}

void stele_server_call_fail(struct stele_server_call *call, const char *why)
{
    call->close_why = why;
    call->has_no_answer = true;
    stele_server_call_done(call);
}

/* Requests. */

static void refuse(struct stele_session *session, const char *what)
{
    struct stele_shard *shard = session->shard;
    STELE_METRIC_ADD(shard->env->metrics, connections_refused, 1);
    stele_trace(shard->env, STELE_TRACE_CONN_REFUSED, shard->net->ops->peer(session->conn), what, session->id, 0, 0);
    cut(session, what);
}

static void begin_frame(struct stele_session *session)
{
    struct stele_shard *shard = session->shard;
    uint32_t bytes_max = session->is_greeted || session->call_count > 0
                             ? shard->node->limits.frame_bytes_max
                             : (uint32_t)stele_min_i64(HELLO_FRAME_BYTES_MAX, shard->node->limits.frame_bytes_max);
    enum stele_err err = stele_frame_header_read(session->header, bytes_max, &session->frame_header);
    if (err != STELE_OK) {
        const char *guess = stele_frame_guess(session->header, sizeof(session->header));
        if (guess != NULL)
            refuse(session, guess);
        else if (err == STELE_TOO_LARGE)
            refuse(session, "a frame larger than socket.request.max.bytes");
        else
            refuse(session, "bytes that are no frame of this protocol");
        return;
    }
    size_t bytes = session->frame_header.frame_bytes - 4;
    if (bytes == 0) {
        refuse(session, "an empty frame");
        return;
    }
    session->frame = stele_buf_new(shard->env->mem, STELE_MEM_REQUEST, bytes);
    session->got = 0;
    if (session->frame == NULL)
        refuse(session, "memory ran out");
}

static struct stele_server_call *call_new(struct stele_session *session)
{
    struct stele_mem *mem = session->shard->env->mem;
    struct stele_server_call *call = stele_mem_alloc(mem, STELE_MEM_REQUEST, sizeof(*call));
    if (call == NULL)
        return NULL;
    struct stele_buf *frame = session->frame;
    frame->count = frame->capacity;
    call->session = session;
    call->shard = session->shard;
    call->came_us = stele_env_mono_us(session->shard->env);
    call->frame = frame;
    call->records = frame->bytes + session->frame_header.message_bytes;
    call->records_bytes = frame->count - session->frame_header.message_bytes;
    stele_arena_init(&call->arena, mem, STELE_MEM_REQUEST, ARENA_BYTES_MAX);
    stele_list_push(&session->calls, &call->link);
    session->call_count++;
    session->call_bytes += frame->capacity;
    session->refs++;
    session->frame = NULL;
    session->got = 0;
    return call;
}

static void whole_frame(struct stele_session *session)
{
    struct stele_server_call *before = stele_list_is_empty(&session->calls)
                                           ? NULL
                                           : STELE_CONTAINER_OF(session->calls.prev, struct stele_server_call, link);
    struct stele_server_call *call = call_new(session);
    if (call == NULL) {
        refuse(session, "memory ran out");
        return;
    }
    if (session->call_count >= CALLS_MAX || session->call_bytes >= CALL_BYTES_MAX)
        session->paused |= STELE_PAUSE_CALLS;
    /* Only the last one before can still wait: it was hurried when another came behind it otherwise. */
    if (before != NULL && !before->is_done && !before->is_hurried) {
        before->is_hurried = true;
        if (before->hurry != NULL)
            before->hurry(before);
    }
    stele_dispatch(call);
}

static void session_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct stele_session *session = arg;
    *out_bytes = 0;
    /* A frame that has begun is read to its end, whatever pauses new ones. What other nodes send is small, and the
     * produces that hold the memory may wait for it. */
    bool may_pause = session->frame == NULL && session->got == 0 && !session->is_of_node;
    if (may_pause && memory_is_short(session->shard->env->mem))
        pause_for_memory(session);
    bool is_inside = session->frame != NULL && (session->paused & (STELE_PAUSE_STOP | STELE_PAUSE_MEMORY)) == 0;
    if (session->paused != 0 && !is_inside) {
        session->is_waiting = true;
        return;
    }
    if (session->frame == NULL) {
        *out_at = session->header + session->got;
        *out_bytes = sizeof(session->header) - session->got;
    } else {
        *out_at = session->frame->bytes + session->got;
        *out_bytes = session->frame->capacity - session->got;
    }
}

static void session_received(void *arg, size_t count)
{
    struct stele_session *session = arg;
    session->refs++;
    session->active_ms = stele_env_mono_ms(session->shard->env);
    session->got += count;
    STELE_METRIC_ADD(session->shard->env->metrics, received_bytes, count);
    if (session->frame == NULL) {
        STELE_ASSERT(session->got <= sizeof(session->header));
        if (session->got == sizeof(session->header))
            begin_frame(session);
    } else {
        STELE_ASSERT(session->got <= session->frame->capacity);
        if (session->got == session->frame->capacity)
            whole_frame(session);
    }
    stele_session_unref(session);
}

static void session_sent(void *arg, size_t queued_bytes)
{
    struct stele_session *session = arg;
    session->active_ms = stele_env_mono_ms(session->shard->env);
    session->queued_bytes = queued_bytes;
    if (queued_bytes < QUEUED_BYTES_MAX)
        unpause(session, STELE_PAUSE_SENDS);
    else
        session->paused |= STELE_PAUSE_SENDS;
}

static void session_closed(void *arg, enum stele_err why)
{
    struct stele_session *session = arg;
    forget_conn(session, stele_err_text(why));
    stele_session_unref(session); /* the connection's */
}

static const struct stele_conn_handler session_handler = {
    .space = session_space,
    .received = session_received,
    .sent = session_sent,
    .closed = session_closed,
};

enum stele_err stele_session_new(struct stele_shard *shard, const struct stele_listener *listener,
                                 struct stele_conn *conn, const struct stele_conn_handler **out_handler, void **out_arg)
{
    if (shard->is_stopping || shard->is_closed)
        return STELE_CLOSED;
    struct stele_session *session = stele_mem_alloc(shard->env->mem, STELE_MEM_CONNECTION, sizeof(*session));
    if (session == NULL)
        return STELE_NO_MEMORY;
    session->shard = shard;
    session->listener = listener;
    session->conn = conn;
    session->id = ++shard->last_session_id;
    session->refs = 1;
    session->life_node_id = STELE_NO_NODE;
    session->active_ms = stele_env_mono_ms(shard->env);
    stele_list_init(&session->calls);
    stele_timer_init(&session->idle_timer, idle_fired);
    stele_timer_init(&session->memory_timer, memory_fired);
    stele_list_push(&shard->sessions, &session->link);
    shard->session_count++;
    stele_shard_arm(shard, &session->idle_timer, session->active_ms + shard->node->limits.idle_ms);
    *out_handler = &session_handler;
    *out_arg = session;
    return STELE_OK;
}

void stele_session_leave(struct stele_session *session)
{
    struct stele_shard *shard = session->shard;
    STELE_ASSERT(session->conn != NULL && session->call_count == 1);
    session->conn = NULL;
    session->paused |= STELE_PAUSE_STOP;
    stele_timer_cancel(shard->wheel, &session->idle_timer);
    stele_timer_cancel(shard->wheel, &session->memory_timer);
    call_free(first_call(session));
    stele_session_unref(session); /* the connection's */
}

void stele_session_arrive(struct stele_session *session, const struct stele_frame_header *header,
                          struct stele_buf *frame)
{
    session->refs++;
    session->frame_header = *header;
    session->frame = frame;
    if (session->conn == NULL) {
        stele_buf_unref(frame);
        session->frame = NULL;
    } else {
        whole_frame(session);
        unpause(session, STELE_PAUSE_ARRIVAL);
    }
    stele_session_unref(session);
}

void stele_session_stop(struct stele_session *session)
{
    session->refs++;
    cut(session, "the node stops");
    stele_session_unref(session);
}

bool stele_session_drop(struct stele_shard *shard, int64_t id, const char *why)
{
    for (struct stele_list *at = shard->sessions.next; at != &shard->sessions; at = at->next) {
        struct stele_session *session = STELE_CONTAINER_OF(at, struct stele_session, link);
        if (session->id != id || session->conn == NULL)
            continue;
        close_conn(session, why, false);
        return true;
    }
    return false;
}

void stele_session_free(struct stele_session *session)
{
    session->shard->is_stopping = false;
    session->refs++;
    if (session->conn != NULL) {
        session->conn = NULL;
        session->refs--;
    }
    session->refs -= session->is_life_told; /* its task is never run */
    while (!stele_list_is_empty(&session->calls))
        call_free(first_call(session));
    stele_session_unref(session);
}
