/* States of a link: idle (conn NULL) -> connecting -> hello sent -> ready -> idle (closed; calls that were sent fail
 * with CLOSED, the others wait). Answers come in the order of the requests, so the first waiting call is answered
 * next. */
#include "proto/link.h"

#include "base/check.h"
#include "proto/frame.h"

#include <stdio.h>
#include <string.h>

enum {
    FRAME_BYTES_MAX = 1 << 30,
    ARENA_BYTES_MAX = 256 << 20,
    QUEUED_BYTES_MAX = 8 << 20, /* beyond it nothing more is handed to the net */
};

/* Doubled with every attempt, 20 % more or less by chance so that many clients do not come at once. */
void stele_backoff_next(struct stele_backoff *backoff, struct stele_env *env, int64_t first_ms, int64_t most_ms)
{
    int64_t wait_ms = first_ms;
    for (int32_t i = 0; i < backoff->attempts && wait_ms < most_ms; i++)
        wait_ms *= 2;
    wait_ms = stele_min_i64(wait_ms, most_ms);
    wait_ms = wait_ms * 4 / 5 + (int64_t)(env->ops->random(env) % (uint64_t)(wait_ms * 2 / 5 + 1));
    backoff->attempts++;
    backoff->at_ms = stele_env_mono_ms(env) + wait_ms;
}

static const struct stele_conn_handler link_handler;

static void drop_incoming(struct stele_link *link)
{
    stele_buf_unref(link->incoming);
    link->incoming = NULL;
    link->head_bytes = 0;
}

static void finish_call(struct stele_link *link, struct stele_call *call, enum stele_err err,
                        const struct stele_answer *answer)
{
    static const struct stele_answer none;
    stele_list_remove(&call->link);
    link->sent_count -= call->is_sent;
    stele_buf_unref(call->frame);
    stele_buf_unref(call->records);
    call->frame = call->records = NULL;
    call->done(call, err, answer != NULL ? answer : &none);
}

static struct stele_call *first_call(const struct stele_link *link)
{
    return stele_list_is_empty(&link->calls) ? NULL : STELE_CONTAINER_OF(link->calls.next, struct stele_call, link);
}

/* What was sent without waiting for an answer is done. */
static void finish_oneway(struct stele_link *link)
{
    struct stele_call *call = first_call(link);
    for (; call != NULL && call->is_sent && call->is_oneway; call = first_call(link))
        finish_call(link, call, STELE_OK, NULL);
}

/* The connection is gone: what was sent has an unknown fate, what was not waits for the next one. A call learns only
 * that, in a class that may be tried again; why is kept for the text of whoever gives up. */
static void link_down(struct stele_link *link, enum stele_err why)
{
    struct stele_link_group *group = link->group;
    enum stele_err err = why == STELE_REQUEST_TIMED_OUT ? why : STELE_CLOSED;
    if (why != STELE_CANCELLED)
        (void)snprintf(group->trouble, sizeof(group->trouble), "%s: %s", link->address, stele_err_text(why));
    link->conn = NULL;
    link->is_ready = false;
    link->failure = STELE_OK;
    link->queued_bytes = 0;
    stele_backoff_next(&link->backoff, group->env, group->backoff_ms, group->backoff_max_ms);
    drop_incoming(link);
    if (link->hello.frame != NULL) {
        stele_list_remove(&link->hello.link);
        stele_buf_unref(link->hello.frame);
        link->hello.frame = NULL;
        link->sent_count -= link->hello.is_sent;
    }
    /* Those of now only: `done` may start others. */
    for (int32_t count = link->sent_count; count > 0; count--) {
        struct stele_call *call = first_call(link);
        STELE_ASSERT(call != NULL);
        STELE_ASSERT(call->is_sent);
        finish_call(link, call, err, NULL);
    }
    if (link->changed != NULL)
        link->changed(link, why);
}

static void drop_link(struct stele_link *link, enum stele_err why)
{
    if (link->conn != NULL)
        link->group->net->ops->close(link->conn, false);
    link_down(link, why);
}

static enum stele_err send_call(struct stele_link *link, struct stele_call *call)
{
    struct stele_piece pieces[2] = {{.buf = call->frame, .at = call->frame->bytes, .bytes = call->frame->count}};
    int count = 1;
    if (call->records != NULL)
        pieces[count++] =
            (struct stele_piece){.buf = call->records, .at = call->records->bytes, .bytes = call->records->count};
    call->is_sent = true;
    link->sent_count++;
    link->group->has_queued = true;
    for (int i = 0; i < count; i++)
        link->queued_bytes += pieces[i].bytes;
    return link->group->net->ops->send(link->conn, pieces, count);
}

/* The bit of an api; 0: not one of ours. */
static uint64_t api_bit(int32_t api)
{
    enum {
#define STELE_API(key, name, stem, version_min, version_max) BIT_##name,
#include "proto/api.def"
#undef STELE_API
        BIT_COUNT
    };
    _Static_assert(BIT_COUNT <= 64, "apis are bits of a word");
    switch (api) {
#define STELE_API(key, name, stem, version_min, version_max)                                                           \
    case key:                                                                                                          \
        return UINT64_C(1) << BIT_##name;
#include "proto/api.def"
#undef STELE_API
    default:
        return 0;
    }
}

/* Whoever names no apis is taken to serve all. */
static void take_apis(struct stele_link *link, const struct stele_hello_response *hello)
{
    link->served = hello->api_count == 0 || !link->group->looks_at_apis ? UINT64_MAX : 0;
    for (size_t i = 0; i < hello->api_count; i++)
        link->served |= hello->apis[i].version_min <= 1 ? api_bit(hello->apis[i].api) : 0;
}

static bool is_served(const struct stele_link *link, const struct stele_call *call)
{
    return call->is_sent || !link->is_ready || (link->served & api_bit((int32_t)call->api)) != 0;
}

static void send_waiting(struct stele_link *link)
{
    int32_t sent_max = link->group->in_flight_max;
    for (struct stele_list *at = link->calls.next; at != &link->calls && link->is_ready && link->failure == STELE_OK;
         at = at->next) {
        struct stele_call *call = STELE_CONTAINER_OF(at, struct stele_call, link);
        if (call->is_sent || !is_served(link, call))
            continue;
        if (link->sent_count >= sent_max || link->queued_bytes > QUEUED_BYTES_MAX)
            return;
        link->failure = send_call(link, call);
        if (link->failure != STELE_OK)
            return;
    }
}

static void hello_done(struct stele_call *call, enum stele_err err, const struct stele_answer *answer)
{
    struct stele_link *link = STELE_CONTAINER_OF(call, struct stele_link, hello);
    const struct stele_hello_response *hello = answer->response != NULL ? &answer->response->body.hello : NULL;
    STELE_ASSERT(err == STELE_OK); /* a link that goes down forgets its hello */
    if (hello->err == STELE_OK) {
        take_apis(link, hello);
        link->is_ready = true;
        link->backoff = (struct stele_backoff){0};
        link->group->trouble[0] = 0;
        send_waiting(link);
        if (link->changed != NULL)
            link->changed(link, STELE_OK);
        return;
    }
    drop_link(link, hello->err);
    if (hello->message[0] != 0)
        (void)snprintf(link->group->trouble, sizeof(link->group->trouble), "%s: %s", link->address, hello->message);
}

static enum stele_err encode(struct stele_link_group *group, struct stele_call *call, struct stele_request *request,
                             size_t records_bytes)
{
    call->correlation_id = group->next_correlation_id++;
    call->api = request->header.api;
    call->is_sent = false;
    request->header.version = 1;
    request->header.correlation_id = call->correlation_id;
    request->header.client_id = group->client_id;
    enum stele_err err = stele_request_encode(&group->arena, request, records_bytes, &call->frame);
    stele_arena_reset(&group->arena);
    return err;
}

static void say_hello(struct stele_link *link)
{
    static const struct stele_api_range apis[] = {
#define STELE_API(key, name, stem, version_min, version_max) {(key), (version_min), (version_max)},
#include "proto/api.def"
#undef STELE_API
    };
    struct stele_request request = {.header.api = STELE_API_HELLO,
                                    .body.hello = {.software_name = link->group->software_name,
                                                   .software_version = STELE_VERSION,
                                                   .role = link->is_admin ? STELE_ROLE_ADMIN : link->group->role,
                                                   .node_id = link->group->node_id,
                                                   .cluster_id = link->group->cluster_id,
                                                   .apis = apis,
                                                   .api_count = STELE_ARRAY_LEN(apis)}};
    link->hello.done = hello_done;
    enum stele_err err = encode(link->group, &link->hello, &request, 0);
    if (err == STELE_OK) {
        /* In front: its answer is the first to come. */
        link->hello.link.next = link->calls.next;
        link->hello.link.prev = &link->calls;
        link->calls.next->prev = &link->hello.link;
        link->calls.next = &link->hello.link;
        link->hello.deadline_ms = link->set_up_ms;
        err = send_call(link, &link->hello);
    }
    if (err != STELE_OK)
        drop_link(link, err);
}

static void on_opened(void *arg, enum stele_err err)
{
    struct stele_link *link = arg;
    if (err == STELE_OK)
        say_hello(link);
    else
        link_down(link, err);
}

static void on_closed(void *arg, enum stele_err why)
{
    link_down(arg, why);
}

static void on_sent(void *arg, size_t queued_bytes)
{
    struct stele_link *link = arg;
    link->queued_bytes = queued_bytes;
    send_waiting(link);
}

static void on_space(void *arg, uint8_t **out_at, size_t *out_bytes)
{
    struct stele_link *link = arg;
    if (link->incoming == NULL) {
        *out_at = link->head + link->head_bytes;
        *out_bytes = sizeof(link->head) - link->head_bytes;
        return;
    }
    *out_at = link->incoming->bytes + link->incoming->count;
    *out_bytes = link->incoming->capacity - link->incoming->count;
}

static void take_frame(struct stele_link *link)
{
    struct stele_link_group *group = link->group;
    struct stele_buf *frame = link->incoming;
    struct stele_response response;
    link->incoming = NULL;
    link->head_bytes = 0;
    enum stele_err err = stele_response_decode(&group->arena, frame->bytes, link->message_bytes, &response);
    finish_oneway(link);
    struct stele_call *call = first_call(link);
    if (err == STELE_OK && (call == NULL || !call->is_sent || call->correlation_id != response.header.correlation_id ||
                            call->api != response.header.api))
        err = STELE_MALFORMED;
    if (err == STELE_OK) {
        /* The handler may start calls, which use the arena: the answer keeps its own. */
        struct stele_arena kept = group->arena;
        struct stele_answer answer = {.response = &response,
                                      .frame = frame,
                                      .records = frame->bytes + link->message_bytes,
                                      .records_bytes = frame->count - link->message_bytes};
        stele_arena_init(&group->arena, group->env->mem, group->tag, ARENA_BYTES_MAX);
        finish_call(link, call, STELE_OK, &answer);
        send_waiting(link);
        stele_arena_deinit(&kept);
    } else {
        stele_arena_reset(&group->arena);
        drop_link(link, err);
    }
    stele_buf_unref(frame);
}

static void on_received(void *arg, size_t count)
{
    struct stele_link *link = arg;
    struct stele_frame_header header;
    if (link->incoming != NULL) {
        link->incoming->count += count;
        if (link->incoming->count == link->incoming->capacity)
            take_frame(link);
        return;
    }
    link->head_bytes += count;
    if (link->head_bytes < sizeof(link->head))
        return;
    enum stele_err err = stele_frame_header_read(link->head, FRAME_BYTES_MAX, &header);
    if (err == STELE_OK) {
        link->message_bytes = header.message_bytes;
        link->incoming = stele_buf_new(link->group->env->mem, link->group->tag, header.frame_bytes - 4);
        err = link->incoming == NULL ? STELE_NO_MEMORY : STELE_OK;
    }
    if (err != STELE_OK)
        drop_link(link, err);
    else if (link->incoming->capacity == 0)
        take_frame(link);
}

static const struct stele_conn_handler link_handler = {
    .opened = on_opened, .space = on_space, .received = on_received, .sent = on_sent, .closed = on_closed};

static void connect_when_needed(struct stele_link *link, int64_t now_ms)
{
    struct stele_net *net = link->group->net;
    if (link->conn != NULL || stele_list_is_empty(&link->calls) || now_ms < link->backoff.at_ms)
        return;
    link->set_up_ms = now_ms + link->group->set_up_timeout_ms;
    link->next_address(link, link->address);
    enum stele_err err = net->ops->connect(net, link->address, &link_handler, link, &link->conn);
    if (err != STELE_OK)
        link_down(link, err);
}

/* One at a time: `done` may start another. */
static void refuse_call(struct stele_link *link)
{
    for (struct stele_list *at = link->calls.next; at != &link->calls; at = at->next) {
        struct stele_call *call = STELE_CONTAINER_OF(at, struct stele_call, link);
        if (is_served(link, call))
            continue;
        finish_call(link, call, STELE_UNSUPPORTED_VERSION, NULL);
        return;
    }
}

/* A sent call that is late closes the connection: its answer would be taken for the next one's. */
static void expire_calls(struct stele_link *link, int64_t now_ms)
{
    if (link->conn != NULL && !link->is_ready && now_ms >= link->set_up_ms)
        drop_link(link, STELE_REQUEST_TIMED_OUT);
    for (struct stele_list *at = link->calls.next; at != &link->calls; at = at->next) {
        struct stele_call *call = STELE_CONTAINER_OF(at, struct stele_call, link);
        if (call->deadline_ms > now_ms)
            continue;
        if (call->is_sent) {
            drop_link(link, STELE_REQUEST_TIMED_OUT);
        } else {
            finish_call(link, call, STELE_REQUEST_TIMED_OUT, NULL);
        }
        return;
    }
}

int64_t stele_link_deadline(const struct stele_link *link)
{
    int64_t deadline = INT64_MAX;
    bool is_front = true; /* a oneway call behind one that waits is done after that one, not sooner */
    for (const struct stele_list *at = link->calls.next; at != &link->calls; at = at->next) {
        const struct stele_call *call =
            (const struct stele_call *)(const void *)((const char *)at - offsetof(struct stele_call, link));
        is_front = is_front && call->is_sent && call->is_oneway;
        deadline = stele_min_i64(deadline, is_front || !is_served(link, call) ? 0 : call->deadline_ms);
    }
    if (link->failure != STELE_OK)
        deadline = 0;
    if (link->conn == NULL && !stele_list_is_empty(&link->calls))
        deadline = stele_min_i64(deadline, link->backoff.at_ms);
    if (link->conn != NULL && !link->is_ready)
        deadline = stele_min_i64(deadline, link->set_up_ms);
    return deadline;
}

enum stele_err stele_link_call(struct stele_link *link, struct stele_call *call, struct stele_request *request,
                               struct stele_buf *records)
{
    struct stele_link_group *group = link->group;
    enum stele_err err = encode(group, call, request, records == NULL ? 0 : records->count);
    if (err != STELE_OK)
        return err;
    int64_t now_ms = stele_env_mono_ms(group->env);
    call->records = records == NULL ? NULL : stele_buf_ref(records);
    call->deadline_ms = now_ms + group->request_timeout_ms;
    stele_list_push(&link->calls, &call->link);
    connect_when_needed(link, now_ms);
    send_waiting(link);
    return STELE_OK;
}

void stele_link_cancel(struct stele_link *link, struct stele_call *call)
{
    if (call->frame == NULL)
        return;
    bool was_sent = call->is_sent;
    stele_list_remove(&call->link);
    stele_buf_unref(call->frame);
    stele_buf_unref(call->records);
    call->frame = call->records = NULL;
    if (was_sent) {
        link->sent_count--;
        drop_link(link, STELE_CANCELLED);
    }
}

void stele_link_init(struct stele_link *link, struct stele_link_group *group)
{
    link->group = group;
    stele_list_init(&link->calls);
    stele_list_init(&link->hello.link);
}

void stele_link_close(struct stele_link *link)
{
    stele_link_drop(link);
    STELE_ASSERT(stele_list_is_empty(&link->calls));
}

static void forget_call(struct stele_call *call)
{
    stele_list_remove(&call->link);
    stele_buf_unref(call->frame);
    stele_buf_unref(call->records);
    call->frame = call->records = NULL;
}

void stele_link_abandon(struct stele_link *link)
{
    link->conn = NULL;
    link->sent_count = 0;
    drop_incoming(link);
    for (struct stele_call *call = first_call(link); call != NULL; call = first_call(link))
        forget_call(call); /* the hello too, which is in front */
}

void stele_link_drop(struct stele_link *link)
{
    if (link->conn != NULL)
        drop_link(link, STELE_CANCELLED);
}

void stele_link_tick(struct stele_link *link, int64_t now_ms)
{
    if (link->failure != STELE_OK)
        drop_link(link, link->failure);
    finish_oneway(link);
    refuse_call(link);
    expire_calls(link, now_ms);
    connect_when_needed(link, now_ms);
}

void stele_link_group_init(struct stele_link_group *group, struct stele_env *env, struct stele_net *net,
                           enum stele_mem_tag tag)
{
    *group = (struct stele_link_group){.env = env, .net = net, .tag = tag, .next_correlation_id = 1, .node_id = -1};
    stele_arena_init(&group->arena, env->mem, tag, ARENA_BYTES_MAX);
}

void stele_link_group_deinit(struct stele_link_group *group)
{
    stele_arena_deinit(&group->arena);
}
